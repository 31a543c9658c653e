"""The curves of the third stage of training: models that are followed, their file, its figure."""

import dataclasses
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import jax
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator, NullFormatter

from hhvaem.datasets import load
from hhvaem.errors import InputError
from hhvaem.paper import collection
from hhvaem.paper.folds import PUBLISHED, Published
from hhvaem.paper.records import is_numbers, read_json, versions, write_json
from hhvaem.paper.tables import MODELS, QUICK_STEPS, SEED
from hhvaem.paper.testing import counted
from hhvaem.paper.third_stage import QUANTILES, SCORES, Tell, follow, model_identity, prepare

# Those of the paper's models that have a third stage.
CHAINED = tuple(name for name, kind in MODELS.items() if kind.inference == "hmc")
# Draws of the latents of a validation row.
DRAWS = 100
WAYS = ("chains", "encoder")
COLOURS = {"HMC-VAEM": "#1f6fb2", "HH-VAEM": "#d1603d"}
STYLES, WIDTH, SHADE = ("-", "--"), 1.4, 0.18


def complete(
    table: str,
    models: Sequence[str],
    numbers: Sequence[int],
    path: Path,
    *,
    quick: bool = False,
    say: Callable[[str], None],
    bar: Callable[[int], AbstractContextManager[Tell]],
) -> dict[str, Any]:
    """Follow the models that a file of results does not have yet; it is written after each.

    Parameters
    ----------
    table, numbers
        The table, and which of its folds, all at once.
    models
        Some of `CHAINED`.
    path
        The file.
    quick
        Whether to train for a few steps only.
    say, bar
        Told what is done, and asked for what is told of the progress of so many steps.

    Returns
    -------
    dict
        What is in the file then, for `draw`.

    Raises
    ------
    InputError
        Where the file is another one, or of another version, or was made with other settings.
    """
    published = dataclasses.replace(PUBLISHED[table], **QUICK_STEPS) if quick else PUBLISHED[table]
    about = {
        "table": table,
        "folds": list(numbers),
        "seed": SEED,
        "draws": DRAWS,
        "marginal_steps": published.marginal_steps,
    }
    before = _read_alike(path, about, published)
    found = before["models"] if before else {}
    for model in models:
        if model in found:
            say(f"{table}: {model} is in {path} already")
    missing = [model for model in models if model not in found]
    if before and not missing:
        return before
    say(f"{table}: columns of {counted(len(numbers), 'fold')}")
    prepared = prepare(load(table, as_published=True), numbers, published)
    masks = [np.asarray(fold.test.mask) for fold in prepared.folds]
    results = about | {
        "train_rows": [len(fold.inputs.values) for fold in prepared.folds],
        "validation_rows": [len(mask) for mask in masks],
        "hidden_cells": [int((~mask).sum()) for mask in masks],
        "stage1_seconds": round(prepared.seconds, 1),
        "device": jax.devices()[0].device_kind,
        "versions": versions(),
    }
    for model in missing:
        say(f"{table}: {model}")
        with bar(published.steps) as tell:
            found[model] = follow(prepared, model, draws=DRAWS, say=say, tell=tell)
        results["models"] = {name: found[name] for name in CHAINED if name in found}
        write_json(results, path)
    return results


def _read_alike(path: Path, about: dict[str, Any], published: Published) -> dict[str, Any] | None:
    """Read a file to which models are to be added; None where there is none yet."""
    if not path.exists():
        return None
    try:
        results = read_json(path)
        collection.check_version(path, results["versions"]["hhvaem"])
        if not _is_whole(results):
            raise _no_curves(path)
    except (OSError, KeyError, TypeError) as error:
        raise _no_curves(path) from error
    collection.check_alike(path, results, about)
    for model, each in results["models"].items():
        collection.check_alike(path, each, model_identity(published, model))
    return results


def _no_curves(path: Path) -> InputError:
    return InputError(
        f"{path} is no file that `hhvaem paper curves` writes; move it away, or name another."
    )


def _is_whole(results: dict[str, Any]) -> bool:
    """Say whether results have all that is drawn of them; what is not there at all is raised."""
    folds, models = len(results["folds"]), results["models"]
    return (
        set(models) <= set(CHAINED)
        and len(models) > 0
        and is_numbers(results["validation_rows"], folds)
        and all(
            is_numbers(values, *shape)
            for each in models.values()
            for looks in [len(each["step"])]
            for values, shape in [
                (each["step"], (looks,)),
                (each["acceptance"], (folds, looks - 1)),
                (each["step_sizes"], (folds, looks, len(QUANTILES))),
                (each["inflation"], (folds, looks, len(each["layers"]))),
                *((each[way][s], (folds, looks)) for way in WAYS for s in SCORES),
            ]
        )
    )


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
