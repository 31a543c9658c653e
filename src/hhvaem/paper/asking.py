"""The paper's sequential acquisition: which column to ask for next, and how predictions then fare.

VAEM and HH-VAEM are trained on the folds of a table as for the paper's tables. Every test row then
begins with nothing known, and is given one cell after the other (`hhvaem.acquire.rollout`): with
VAEM by the reward of its authors and by the paper's histogram, with HH-VAEM by the histogram, by
the default of this package, in random order, and in one order for all rows. Every fold is asked
about its own test rows; the published code asks all models about those of the first fold.
"""

import dataclasses
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from hhvaem import train
from hhvaem.acquire.rollout import Rollout, roll_out
from hhvaem.datasets import load
from hhvaem.fitting import Fitted
from hhvaem.paper import collection
from hhvaem.paper.folds import PUBLISHED, Fold, Published
from hhvaem.paper.records import versions
from hhvaem.paper.saia import LINES, TABLES, place
from hhvaem.paper.tables import QUICK_STEPS, SEED, Prepared, configured, prepare, untrained
from hhvaem.paper.testing import counted
from hhvaem.posterior import How, Tuned
from hhvaem.presets import PRESETS

# Draws of the latents and bins of the histogram, by the published code.
DRAWS, BINS = {"boston": 200}, {"boston": 7}
USUAL_DRAWS, USUAL_BINS = 100, 5
# Test rows of a fold at most: of more, so many at random.
ROWS = 500
# What makes a run short.
QUICK: dict[str, int] = {"draws": 40, "rows": 8, "steps": 2}
DIGITS = 5

Tell = Callable[[train.Progress], None]
Bar = Callable[[int], AbstractContextManager[Tell]]


class Size(NamedTuple):
    """How much is computed: draws, bins, test rows of a fold at most, and columns asked for."""

    draws: int
    bins: int
    rows: int
    steps: int | None


def size_of(table: str, rows: int = ROWS, *, quick: bool = False) -> Size:
    """Give the published size for a table, or a small one.

    Examples
    --------
    >>> size_of("boston")
    Size(draws=200, bins=7, rows=500, steps=None)
    """
    draws, bins = DRAWS.get(table, USUAL_DRAWS), BINS.get(table, USUAL_BINS)
    if quick:
        return Size(QUICK["draws"], bins, min(rows, QUICK["rows"]), QUICK["steps"])
    return Size(draws, bins, rows, None)


def complete(
    table: str,
    folds: Sequence[int],
    folder: Path,
    *,
    rows: int = ROWS,
    quick: bool = False,
    say: Callable[[str], None],
    bar: Bar,
) -> None:
    """Run the folds of a table that its file in the folder does not have yet.

    Parameters
    ----------
    table, folds
        What is to be there.
    folder
        Where each table has its file.
    rows
        Test rows of a fold at most.
    quick
        Whether to train for a few steps only, and to ask for a few columns of a few rows.
    say, bar
        Told what is done, and asked for what is told of the progress of so many steps.

    Raises
    ------
    InputError
        Where the file is of another version, or was made with other settings.
    """
    size = size_of(table, rows, quick=quick)
    path, about = place(folder, table), identity(table, _published(table, quick=quick), size)
    missing = collection.missing_folds(collection.read_alike(path, about), folds)
    if not missing:
        return
    say(f"{table}: columns of {counted(len(missing), 'fold')}")
    dataset = load(table, as_published=True)
    prepared = prepare(dataset, missing, _published(table, quick=quick))
    collection.add_run(path, about, run(prepared, size, say=say, bar=bar))


def identity(table: str, published: Published, size: Size) -> dict[str, Any]:
    """Give what two runs must share for their folds to stand beside each other."""
    models = {name: configured(published, name) for name in _models()}
    return {
        "table": table,
        "as_published": True,
        "layers": {name: list(layers) for name, (layers, _) in models.items()},
        "settings": {
            **{name: dataclasses.asdict(settings) for name, (_, settings) in models.items()},
            "bins": size.bins,
            "rows": size.rows,
            "steps": size.steps,
            "lines": list(LINES),
        },
        "marginal_steps": published.marginal_steps,
        "seed": SEED,
        "draws": size.draws,
    }


def identities(*, rows: int, quick: bool) -> dict[str, dict[str, Any]]:
    """Give the `identity` of the runs of all tables that can stand beside each other."""
    return {
        table: identity(table, _published(table, quick=quick), size_of(table, rows, quick=quick))
        for table in TABLES
    }


def _published(table: str, *, quick: bool) -> Published:
    return dataclasses.replace(PUBLISHED[table], **QUICK_STEPS) if quick else PUBLISHED[table]


def run(prepared: Prepared, size: Size, *, say: Callable[[str], None], bar: Bar) -> dict[str, Any]:
    """Train the models on folds of a table, and let all lines ask about their test rows.

    Returns
    -------
    dict
        What goes into the table's file, with a record of each fold.
    """
    numbers, folds, seconds = prepared.numbers, prepared.folds, {}
    tests = [
        _test_rows(fold, number, size.rows) for number, fold in zip(numbers, folds, strict=True)
    ]
    found: list[dict[str, Any]] = [{} for _ in folds]
    for model in _models():
        say(f"{prepared.table}: {model}")
        started = time.monotonic()
        with bar(prepared.published.steps) as tell:
            fitted = trained(prepared, model, size.draws, tell)
        seconds[model] = round(time.monotonic() - started, 1)
        for name, line in LINES.items():
            if line.model != model:
                continue
            say(f"{prepared.table}: {name}")
            started = time.monotonic()
            for number, fold, test, each, lines in zip(
                numbers, folds, tests, fitted, found, strict=True
            ):
                values = fold.truth[test]
                told = roll_out(
                    each,
                    values,
                    np.isfinite(values),
                    fold.target_truth[test],
                    policy=line.policy,
                    bins=size.bins,
                    steps=size.steps,
                    seed=number,
                )
                lines[name] = summary(told, len(fold.inputs.columns))
            seconds[name] = round(time.monotonic() - started, 1)
    encoding = folds[0].targets.encoding
    return {
        "columns": [column.name for column in folds[0].inputs.columns],
        "targets": [column.name for column in folds[0].targets.columns],
        "measure": "rmse" if encoding.levels[0] == 1 else "error rate",
        "seconds": {"columns": round(prepared.seconds, 1), **seconds},
        "device": jax.devices()[0].device_kind,
        "versions": versions(),
        "records": [
            {"table": prepared.table, "fold": number, "rows": len(test), "lines": lines}
            for number, test, lines in zip(numbers, tests, found, strict=True)
        ],
    }


def trained(prepared: Prepared, model: str, draws: int, tell: Tell | None = None) -> list[Fitted]:
    """Train one of the paper's models on all folds at once, as `hhvaem.paper.tables.run` does."""
    layers, settings = configured(prepared.published, model)
    states, data = untrained(prepared, layers, settings)
    states, _ = train.train(states, data, settings, progress=tell)
    plan = dataclasses.replace(
        PRESETS["paper"],
        layers=layers,
        settings=settings,
        how=How("hmc" if settings.inference == "hmc" else "encoder", chains=draws, kept=1),
        marginal_steps=prepared.published.marginal_steps,
    )

    def of(i: int, fold: Fold) -> Fitted:
        one = train.stack([train.unstack(states, i)])
        # Chains go by the steps that were learned; none has been looked for afterwards.
        untuned = Tuned(jnp.full(1, jnp.nan))
        encodings = fold.inputs.encoding, fold.targets.encoding
        return Fitted(*encodings, one.model, one.sampler, untuned, plan, SEED, {})

    return [of(i, fold) for i, fold in enumerate(prepared.folds)]


def summary(told: Rollout, columns: int) -> dict[str, Any]:
    """Keep what is drawn and compared.

    Errors of several targets are pooled, as in the paper. `place` is the mean place of each column
    in the orders of rows, in which those that were never asked for share the places at the end.
    """
    error = np.sqrt(np.mean(np.square(told.error), axis=1))
    places = np.full((told.rows, columns), np.nan)
    for row, order in enumerate(told.order):
        places[row] = (len(order) + 1 + columns) / 2
        places[row, order] = np.arange(1, len(order) + 1)
    return {
        "error": _short(error),
        "log_likelihood": _short(told.log_likelihood),
        "seconds": _short(told.seconds),
        "error_area": _short([error.mean()])[0],
        "log_likelihood_area": _short([told.log_likelihood_area])[0],
        "unavailable": _short([np.mean(told.unavailable)])[0],
        "place": _short(places.mean(0)),
    }


def _test_rows(fold: Fold, number: int, most: int) -> Int[np.ndarray, " rows"]:
    """Choose test rows of a fold: all, or `most` at random, as neighbours may be alike."""
    count = len(fold.truth)
    if count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng((SEED, number)).choice(count, most, replace=False))


def _models() -> list[str]:
    return list(dict.fromkeys(line.model for line in LINES.values()))


def _short(values: Any) -> list[float]:
    """Give numbers with a few digits that count, whatever their size."""
    return [float(f"{value:.{DIGITS}g}") for value in np.asarray(values, np.float64)]
