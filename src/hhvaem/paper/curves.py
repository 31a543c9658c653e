"""The third stage of training, followed on rows that are left out of it.

Of each fold a tenth of the training rows is left out, of column models and scales as well, and has
half of its cells and all targets hidden. At the start of the third stage and after every piece of
it these rows are scored by the chains as they are by then and by the encoder alone, on the same
weights and with the same noise at every look. The test rows are not looked at.
"""

import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator, NullFormatter

from hhvaem import train
from hhvaem.datasets import Dataset, splits
from hhvaem.datasets.work import Work
from hhvaem.encoding import Cells, standardised_encoding
from hhvaem.model import Row
from hhvaem.paper import tables
from hhvaem.paper.evaluation import Told, class_weights, look
from hhvaem.paper.folds import Fold, Part, Published, take_fold
from hhvaem.paper.records import rounded, versions
from hhvaem.paper.scoring import score
from hhvaem.paper.tables import (
    MODELS,
    ROWS,
    SEED,
    Prepared,
    configured,
    counted,
    in_parts,
    some_rows,
    untrained,
)
from hhvaem.posterior import How

# Those of the paper's models that have a third stage.
CHAINED = tuple(name for name, kind in MODELS.items() if kind.inference == "hmc")
# At most so many pieces of the third stage.
PIECES = 20
# Draws of the latents of a validation row.
DRAWS = 100
SCORES = ("log_score_cell", "paper_nll_missing")
# Of the step sizes of all transitions and latents.
QUANTILES = (0.1, 0.5, 0.9)
DIGITS = 5
COLOURS = {"HMC-VAEM": "#1f6fb2", "HH-VAEM": "#d1603d"}
STYLES, WIDTH, SHADE = ("-", "--"), 1.4, 0.18

Tell = Callable[[train.Progress], None]


def held_back(fold: Fold, number: int) -> Fold:
    """Make a fold of the training rows alone: a tenth of them takes the place of its test rows.

    Parameters
    ----------
    fold
        The fold; of its test rows nothing is used.
    number
        Its number, from 0 to 9: each fold leaves out other places, and hides other cells.

    Examples
    --------
    >>> from hhvaem.datasets import load
    >>> wine = load("wine", as_published=True)
    >>> from hhvaem.datasets.work import plan
    >>> fold = held_back(take_fold(wine, plan(wine, seed=0), 0), 0)
    >>> fold.train.mask.shape, fold.test.mask.shape
    ((144, 13), (16, 13))
    """
    out = splits.folds(len(fold.inputs.values), SEED)[number]
    inputs, cells, observed = _without(fold.inputs, out)
    targets, target, _ = _without(fold.targets, out)
    # Not the seed of the fold's own test mask.
    shown = splits.test_mask(len(out), len(inputs.columns), (SEED, number, 1))
    hidden = jnp.zeros(target.point.shape, bool)
    return Fold(
        inputs,
        targets,
        Row(*inputs.rows, *targets.rows),
        Row(cells, observed & jnp.asarray(shown), target, hidden),
        fold.inputs.values[out],
        fold.targets.values[out],
    )


def _without(
    part: Part, out: Int[np.ndarray, " rows"]
) -> tuple[Part, Cells, Bool[Array, "rows columns"]]:
    """Take rows out of columns, and give them as they are seen on the scales of the others."""
    values, mask = (np.delete(each, out, axis=0) for each in (part.values, part.mask))
    encoding = standardised_encoding(part.columns, values, mask)
    cells = encoding.encode(part.values[out], part.mask[out])
    return Part(part.columns, encoding, values, mask), cells, jnp.asarray(part.mask[out])


def prepare(dataset: Dataset, numbers: Sequence[int], published: Published) -> Prepared:
    """Take folds of a table, leave out their validation rows, and train their column models."""

    def take(dataset: Dataset, work: Work, number: int) -> Fold:
        return held_back(take_fold(dataset, work, number), number)

    return tables.prepare(dataset, numbers, published, take)


def ends(settings: train.Settings) -> list[int]:
    """Give the steps at which pieces of training end: the second stage, then parts of the third.

    Parts are as long as some updates of the inflation take; the last one may be shorter.

    Examples
    --------
    >>> ends(train.Settings(steps=200, hmc_steps=35))
    [165, 175, 185, 195, 200]
    """
    first, last = settings.second_stage, settings.steps
    every = settings.stein_every * math.ceil((last - first) / (PIECES * settings.stein_every))
    return [*range(first, last, every), last]


def in_pieces(
    states: train.State, data: train.Data, settings: train.Settings, tell: Tell | None = None
) -> Iterator[tuple[train.State, train.History]]:
    """Train to each of `ends`, and give where training is and what the piece told."""
    for step in ends(settings):
        states, history = train.train(states, data, settings, until=step, progress=tell)
        yield states, history


def measure(
    prepared: Prepared, states: train.State, draws: int, say: Callable[[str], None]
) -> dict[str, Any]:
    """Score the validation rows of each fold in both ways, and read off what chains have learned.

    `step_sizes` are `QUANTILES` over transitions and latents, `inflation` is that of each layer.
    """
    steps, inflation = (np.exp(np.asarray(each, np.float64)) for each in states.sampler)
    return {
        "chains": _scores(prepared, states, How("hmc", chains=draws, kept=1), say),
        "encoder": _scores(prepared, states, How("encoder", chains=draws, kept=1), say),
        "step_sizes": np.quantile(steps, QUANTILES, axis=(1, 2)).T,
        "inflation": inflation,
    }


def _scores(
    prepared: Prepared, states: train.State, how: How, say: Callable[[str], None]
) -> dict[str, list[float]]:
    weights = [class_weights(fold, weighted_target=False) for fold in prepared.folds]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *weights)

    def look_at(numbers: np.ndarray) -> Told:
        rows, keys = some_rows(prepared, numbers, 2)
        return look(states.model, states.sampler, rows, stacked, keys, how)

    counts = [len(fold.test.mask) for fold in prepared.folds]
    told = in_parts(look_at, max(counts), ROWS, say)
    found = [
        score(fold, jax.tree.map(lambda leaf, i=i, count=count: leaf[i, :count], told))
        for i, (fold, count) in enumerate(zip(prepared.folds, counts, strict=True))
    ]
    return {name: [each[name] for each in found] for name in SCORES}


def follow(
    prepared: Prepared,
    model: str,
    *,
    draws: int = DRAWS,
    say: Callable[[str], None],
    tell: Tell | None = None,
) -> dict[str, Any]:
    """Train one of `CHAINED` on the folds, and measure it from the start of the third stage on."""
    layers, settings = configured(prepared.published, model)
    started = time.monotonic()
    start, data = untrained(prepared, layers, settings)
    found, acceptance = [], []
    for states, history in in_pieces(start, data, settings, tell):
        found.append(measure(prepared, states, draws, say))
        acceptance.append(history.acceptance.mean(1))
    curves = jax.tree.map(
        lambda *each: rounded(np.stack(each, axis=1), DIGITS),
        *found,
        is_leaf=lambda node: not isinstance(node, dict),
    )
    return {
        "layers": list(layers),
        "settings": dataclasses.asdict(settings),
        "step": [step - settings.second_stage for step in ends(settings)],
        # Of each piece of the third stage: one less than there are looks.
        "acceptance": rounded(np.stack(acceptance[1:], axis=1), DIGITS),
        **curves,
        "seconds": round(time.monotonic() - started, 1),
    }


def experiment(
    dataset: Dataset,
    models: Sequence[str],
    numbers: Sequence[int],
    published: Published,
    *,
    draws: int = DRAWS,
    say: Callable[[str], None],
    bar: Callable[[int], AbstractContextManager[Tell]],
) -> dict[str, Any]:
    """Follow models on folds of a table; what comes back goes into a JSON file and into `draw`.

    Parameters
    ----------
    dataset, numbers
        The table, and which of its folds, all at once.
    models
        Some of `CHAINED`.
    published
        The table's settings.
    draws
        Draws of the latents of a validation row.
    say, bar
        Told what is done, and asked for what is told of the progress of so many steps.
    """
    say(f"{dataset.name}: columns of {counted(len(numbers), 'fold')}")
    prepared = prepare(dataset, numbers, published)
    found = {}
    for model in models:
        say(f"{dataset.name}: {model}")
        with bar(published.steps) as tell:
            found[model] = follow(prepared, model, draws=draws, say=say, tell=tell)
    masks = [np.asarray(fold.test.mask) for fold in prepared.folds]
    return {
        "table": dataset.name,
        "folds": list(numbers),
        "train_rows": [len(fold.inputs.values) for fold in prepared.folds],
        "validation_rows": [len(mask) for mask in masks],
        "hidden_cells": [int((~mask).sum()) for mask in masks],
        "seed": SEED,
        "draws": draws,
        "marginal_steps": published.marginal_steps,
        "stage1_seconds": round(prepared.seconds, 1),
        "device": jax.devices()[0].device_kind,
        "versions": versions(),
        "models": found,
    }


def draw(results: dict[str, Any]) -> Figure:
    """Draw the validation scores, the acceptance, the step sizes and the inflation.

    Curves are means over folds; of quantiles of step sizes, geometric ones.
    """
    figure = Figure(figsize=(11, 7.5), layout="constrained")
    (scores, acceptance), (sizes, inflation) = figure.subplots(2, 2, sharex=True)
    layers = 1
    for name, found in results["models"].items():
        colour, steps = COLOURS[name], np.array(found["step"])
        _band(scores, steps, found["chains"]["log_score_cell"], colour)
        _band(scores, steps, found["encoder"]["log_score_cell"], colour, ":")
        # The mean of a piece stands in its middle.
        _band(acceptance, (steps[:-1] + steps[1:]) / 2, found["acceptance"], colour)
        low, middle, high = np.exp(np.log(found["step_sizes"]).mean(0)).T
        sizes.plot(steps, middle, color=colour, linewidth=WIDTH)
        sizes.plot(steps, np.stack([low, high], axis=1), color=colour, linewidth=WIDTH / 2)
        sizes.fill_between(steps, low, high, color=colour, alpha=SHADE / 2, linewidth=0)
        layers = max(layers, len(found["layers"]))
        for layer, values in enumerate(np.moveaxis(found["inflation"], 2, 0)):
            _band(inflation, steps, values, colour, STYLES[layer])
    acceptance.set_ylim(top=1)
    sizes.set_yscale("log")
    sizes.yaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
    sizes.yaxis.set_major_formatter("{x:g}")
    sizes.yaxis.set_minor_formatter(NullFormatter())
    inflation.axhline(1, color="grey", linewidth=0.8, zorder=0)
    labels = {
        scores: (
            "(a) log score of hidden validation cells (lower is better)",
            "nats per hidden cell",
        ),
        acceptance: ("(b) acceptance of chains, mean of each piece", "probability"),
        sizes: ("(c) learned step sizes: median, and 10 to 90 %", "step size"),
        inflation: ("(d) inflation of the encoder's scales", "factor"),
    }
    for panel, (title, label) in labels.items():
        panel.set_title(title, fontsize=10)
        panel.set_ylabel(label, fontsize=9)
        panel.tick_params(labelsize=8, which="both", labelbottom=True)
        panel.spines[["top", "right"]].set_visible(False)
        panel.margins(x=0.02)
        panel.set_xlabel("steps of stage 3", fontsize=9)
    folds, rows = len(results["folds"]), sorted({*results["validation_rows"]})
    figure.suptitle(
        f"The third stage of training on {results['table']}: {counted(folds, 'fold')}, "
        f"{' to '.join(map(str, rows))} validation rows in each, {results['draws']} draws",
        fontsize=11,
    )
    handles: list[Artist] = [
        *(Line2D([], [], color=COLOURS[name], label=name) for name in results["models"]),
        Line2D([], [], color="k", label="(a) by chains"),
        Line2D([], [], color="k", linestyle=":", label="(a) by the encoder"),
    ]
    if layers > 1:
        handles += [
            Line2D([], [], color="k", label="(d) layer 1"),
            Line2D([], [], color="k", linestyle="--", label="(d) layer 2"),
        ]
    if folds > 1:
        label = "(a), (b), (d) range over folds"
        handles.append(Patch(color="k", alpha=SHADE, linewidth=0, label=label))
    figure.legend(
        handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=9
    )
    return figure


def _band(panel: Axes, x: Any, values: Any, colour: str, style: str = "-") -> None:
    """Draw the mean over folds, and their range."""
    panel.plot(x, np.mean(values, 0), style, color=colour, linewidth=WIDTH)
    low, high = np.min(values, 0), np.max(values, 0)
    panel.fill_between(x, low, high, color=colour, alpha=SHADE, linewidth=0)
