"""The paper's tables: five models on ten tables, the folds of a table trained at once."""

import dataclasses
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key

from hhvaem import train
from hhvaem.datasets import Dataset, load
from hhvaem.datasets.work import plan
from hhvaem.marginal_vae import MarginalVAEs
from hhvaem.marginals import Direct
from hhvaem.model import Row
from hhvaem.paper import collection
from hhvaem.paper.baselines import BASELINES, SLOW, Filled, Task, training_rows
from hhvaem.paper.evaluation import CASES, DRAWS, class_weights, look
from hhvaem.paper.folds import PUBLISHED, Fold, Published, stage_one, take_fold
from hhvaem.paper.records import versions
from hhvaem.paper.scoring import score, score_filled
from hhvaem.posterior import How

SEED = 0
# Rows of a call that looks at test rows, of each fold.
ROWS, ROWS_ON_ACCELERATOR = 64, 512
# The tables whose target has weights of classes in the published scores.
WEIGHTED = ("bank", "insurance")
# Folds that baselines get which take long.
SLOW_FOLDS = 2
# What makes a run short.
QUICK_DRAWS = 100
QUICK_STEPS: dict[str, Any] = {"marginal_steps": 100, "steps": 200, "hmc_steps": 40}


class Kind(NamedTuple):
    """What one of the paper's models is."""

    layers: Literal["one_layer", "two_layers"]
    inference: Literal["gaussian", "importance", "hmc"]


MODELS = {
    "VAEM": Kind("one_layer", "gaussian"),
    "MIWAEM": Kind("one_layer", "importance"),
    "H-VAEM": Kind("two_layers", "gaussian"),
    "HMC-VAEM": Kind("one_layer", "hmc"),
    "HH-VAEM": Kind("two_layers", "hmc"),
}


@dataclasses.dataclass(frozen=True, eq=False)
class Prepared:
    """Some folds of a table, and their column models: the same for all models."""

    table: str
    published: Published
    numbers: tuple[int, ...]
    folds: tuple[Fold, ...]
    columns: tuple[MarginalVAEs, Direct]
    seconds: float


def prepare(dataset: Dataset, numbers: Sequence[int], published: Published) -> Prepared:
    """Take folds of a table, and train their column models."""
    work = plan(dataset, seed=SEED)
    folds = tuple(take_fold(dataset, work, number) for number in numbers)
    started = time.monotonic()
    columns = stage_one(folds, published, keys=_keys(numbers, 0))
    np.asarray(columns[0].decoders.layers[-1].bias)  # until they are trained
    seconds = time.monotonic() - started
    return Prepared(dataset.name, published, tuple(numbers), folds, columns, seconds)


def run(
    prepared: Prepared,
    model: str,
    *,
    draws: int = DRAWS,
    tell: Callable[[train.Progress], None] | None = None,
) -> dict[str, Any]:
    """Train one of the paper's models on the folds of a table, and test it.

    Every fold has keys of its own: trained alone, it comes to the same.

    Parameters
    ----------
    prepared
        The folds.
    model
        One of `MODELS`.
    draws
        Draws of the latents of a test row.
    tell
        Told now and then how far training is.
    """
    kind, published = MODELS[model], prepared.published
    settings = published.settings(kind.inference)
    layers = getattr(published, kind.layers)
    data = train.gather([fold.train for fold in prepared.folds])
    started = time.monotonic()
    states = train.untrained(prepared.columns, layers, settings, keys=_keys(prepared.numbers, 1))
    states, history = train.train(states, data, settings, progress=tell)
    train_seconds = time.monotonic() - started
    started = time.monotonic()
    scores = _tested(prepared, states, kind.inference, draws)
    test_seconds = time.monotonic() - started
    folds = len(prepared.folds)
    seconds = (prepared.seconds + train_seconds) / folds
    records = [
        {**_head(prepared.table, model, number, seconds), **_finite(each)}
        for number, each in zip(prepared.numbers, scores, strict=True)
    ]
    return {
        "table": prepared.table,
        "model": model,
        "layers": list(layers),
        "settings": dataclasses.asdict(settings),
        "marginal_steps": published.marginal_steps,
        "seed": SEED,
        "draws": draws,
        "folds_at_once": folds,
        "seconds": {
            "columns": round(prepared.seconds, 1),
            "train": round(train_seconds, 1),
            "test": round(test_seconds, 1),
        },
        "device": jax.devices()[0].device_kind,
        "versions": versions(),
        "loss": [round(float(x), 4) for x in history.loss[:, -100:].mean(1)],
        "records": records,
    }


def complete(
    table: str,
    models: Sequence[str],
    folds: Sequence[int],
    folder: Path,
    *,
    quick: bool = False,
    say: Callable[[str], None],
    bar: Callable[[int], AbstractContextManager[Callable[[train.Progress], None]]],
) -> None:
    """Run models and baselines on the folds of a table that the folder does not have yet.

    Parameters
    ----------
    table, models, folds
        What is to be there; of baselines that take long, `SLOW_FOLDS` folds are enough.
    folder
        Where each run has its file (`hhvaem.paper.collection`).
    quick
        Whether to train for a few steps only.
    say, bar
        Told what is done, and asked for what is told of the progress of so many steps.
    """
    published = dataclasses.replace(PUBLISHED[table], **QUICK_STEPS) if quick else PUBLISHED[table]
    places = {model: collection.place(folder, table, model) for model in models}
    # All files are looked at before anything is run.
    before = {model: collection.read_run(path) for model, path in places.items()}
    prepared = None
    for model, path in places.items():
        wanted = folds[:SLOW_FOLDS] if model in SLOW else folds
        missing = collection.missing_folds(before[model], wanted)
        if not missing:
            continue
        if model in BASELINES:
            say(f"{table}: {model}")
            collection.add_run(path, run_baseline(_published(table), model, missing))
            continue
        if prepared is None or list(prepared.numbers) != missing:
            say(f"{table}: columns of {len(missing)} folds")
            prepared = prepare(_published(table), missing, published)
        say(f"{table}: {model}")
        with bar(published.steps) as tell:
            found = run(prepared, model, draws=QUICK_DRAWS if quick else DRAWS, tell=tell)
        collection.add_run(path, found)


def _published(table: str) -> Dataset:
    return load(table, as_published=True)


def run_baseline(dataset: Dataset, name: str, numbers: Sequence[int]) -> dict[str, Any]:
    """Fill the test rows of folds of a table by a baseline, and score it as the models are."""
    work = plan(dataset, seed=SEED)
    records = []
    for number in numbers:
        fold = take_fold(dataset, work, number)
        started = time.monotonic()
        filled = _baseline_fold(name, fold, number)
        seconds = time.monotonic() - started
        rows = training_rows(name, len(fold.inputs.values))
        records.append(
            {
                **_head(dataset.name, name, number, seconds),
                "train_rows": rows,
                **_finite(score_filled(fold, filled)),
            }
        )
    return {
        "table": dataset.name,
        "model": name,
        "seed": SEED,
        "draws": CASES,
        "versions": versions(),
        "records": records,
    }


def _baseline_fold(name: str, fold: Fold, seed: int) -> Filled:
    """Fill the test rows of a fold: inputs, then targets, of which none is seen."""
    parts = (fold.inputs, fold.targets)
    columns = tuple(column for part in parts for column in part.columns)
    train_values, train_mask = (
        np.concatenate([getattr(part, field) for part in parts], axis=1)
        for field in ("values", "mask")
    )
    mask = np.concatenate([fold.test.mask, np.zeros_like(fold.target_truth, bool)], axis=1)
    values = np.concatenate([fold.truth, fold.target_truth], axis=1)
    # Hidden values are not even there to be looked at.
    shown = np.where(mask, values, np.nan)
    return BASELINES[name](Task(columns, train_values, train_mask, shown, mask, CASES, seed))


def _head(table: str, model: str, fold: int, seconds: float) -> dict[str, Any]:
    """Begin a record."""
    return {
        "table": table,
        "model": model,
        "fold": fold,
        "train_seconds": round(seconds, 2),
        "device": jax.devices()[0].device_kind,
    }


def _finite(scores: dict[str, float]) -> dict[str, float]:
    """Leave out what is not there, as JSON has no word for it: of an encoder, the acceptance."""
    return {name: round(value, 5) for name, value in scores.items() if np.isfinite(value)}


def _tested(
    prepared: Prepared, states: train.State, inference: str, draws: int
) -> list[dict[str, float]]:
    """Look at the test rows of all folds, some at a time, and score them."""
    how = How("hmc" if inference == "hmc" else "encoder", chains=draws, kept=1)
    weights = [
        class_weights(fold, weighted_target=prepared.table in WEIGHTED) for fold in prepared.folds
    ]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *weights)
    counts = [len(fold.test.mask) for fold in prepared.folds]
    size = ROWS if jax.default_backend() == "cpu" else ROWS_ON_ACCELERATOR
    size = min(size, max(counts))
    parts = []
    for first in range(0, max(counts), size):
        numbers = np.arange(first, first + size)
        rows = [_rows(fold.test, numbers) for fold in prepared.folds]
        rows = jax.tree.map(lambda *leaves: jnp.stack(leaves), *rows)
        keys = _row_keys(_keys(prepared.numbers, 2), jnp.asarray(numbers))
        told = look(states.model, states.sampler, rows, stacked, keys, how)
        parts.append(jax.tree.map(np.asarray, told))
    whole = jax.tree.map(lambda *leaves: np.concatenate(leaves, axis=1), *parts)
    return [
        score(fold, jax.tree.map(lambda leaf, i=i, count=count: leaf[i, :count], whole))
        for i, (fold, count) in enumerate(zip(prepared.folds, counts, strict=True))
    ]


def _rows(test: Row, numbers: np.ndarray) -> Row:
    """Take rows of a fold; beyond its last one, that one again."""
    chosen = np.minimum(numbers, len(test.mask) - 1)
    return jax.tree.map(lambda leaf: leaf[chosen], test)


def _keys(numbers: Sequence[int], purpose: int) -> Key[Array, " folds"]:
    key = jax.random.fold_in(jax.random.key(SEED), purpose)
    return jax.vmap(lambda number: jax.random.fold_in(key, number))(jnp.array(numbers))


@jax.jit
def _row_keys(keys: Key[Array, " folds"], numbers: Int[Array, " rows"]) -> Key[Array, "folds rows"]:
    return jax.vmap(lambda key: jax.vmap(lambda i: jax.random.fold_in(key, i))(numbers))(keys)
