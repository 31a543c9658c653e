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
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from hhvaem import train
from hhvaem.datasets import Dataset, splits
from hhvaem.datasets.work import Work
from hhvaem.encoding import Cells, standardised_encoding
from hhvaem.model import Row
from hhvaem.paper import tables
from hhvaem.paper.folds import Fold, Part, Published, take_fold
from hhvaem.paper.records import rounded
from hhvaem.paper.tables import SEED, Prepared, configured, fold_keys, untrained
from hhvaem.paper.testing import score_rows
from hhvaem.posterior import How

# At most so many pieces of the third stage.
PIECES = 20
SCORES = ("log_score_cell", "paper_nll_missing")
# Of the step sizes of all transitions and latents.
QUANTILES = (0.1, 0.5, 0.9)
DIGITS = 5

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
    keys = fold_keys(prepared.numbers, 2)
    found = score_rows(prepared.folds, states.model, states.sampler, how, keys=keys, say=say)
    return {name: [each[name] for each in found] for name in SCORES}


def follow(
    prepared: Prepared,
    model: str,
    *,
    draws: int,
    say: Callable[[str], None],
    tell: Tell | None = None,
) -> dict[str, Any]:
    """Train a model with chains on the folds, and measure it from the start of the third stage."""
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
        **model_identity(prepared.published, model),
        "step": [step - settings.second_stage for step in ends(settings)],
        # Of each piece of the third stage: one less than there are looks.
        "acceptance": rounded(np.stack(acceptance[1:], axis=1), DIGITS),
        **curves,
        "seconds": round(time.monotonic() - started, 1),
    }


def model_identity(published: Published, model: str) -> dict[str, Any]:
    """Give what two runs of a model must share to stand beside each other."""
    layers, settings = configured(published, model)
    return {"layers": list(layers), "settings": dataclasses.asdict(settings)}
