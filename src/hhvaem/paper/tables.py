"""The paper's tables: five models on ten tables, the folds of a table trained at once."""

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key

from hhvaem import posterior, train
from hhvaem.datasets import Dataset, load
from hhvaem.datasets.work import Work, plan
from hhvaem.marginal_vae import MarginalVAEs
from hhvaem.marginals import Direct
from hhvaem.model import Row
from hhvaem.objectives import Sampler
from hhvaem.paper import collection
from hhvaem.paper.baselines import BASELINES, SLOW, Filled, Task, training_rows
from hhvaem.paper.evaluation import CASES, DRAWS, Evidence, Told, class_weights, look, weigh
from hhvaem.paper.folds import PUBLISHED, Fold, Published, stage_one, take_fold
from hhvaem.paper.records import versions
from hhvaem.paper.scoring import score, score_evidence, score_filled
from hhvaem.posterior import How, Tuned

T = TypeVar("T")

SEED = 0
# Rows of a call that looks at test rows, of each fold.
ROWS, ROWS_ON_ACCELERATOR = 64, 512
# Test rows of each fold whose probability is estimated.
ANNEALED_ROWS = 32
# The tables whose target has weights of classes in the published scores.
WEIGHTED = ("bank", "insurance")
# Folds that baselines get which take long.
SLOW_FOLDS = 2
# What makes a run short.
QUICK_DRAWS = 100
QUICK_STEPS: dict[str, Any] = {"marginal_steps": 100, "steps": 200, "hmc_steps": 40}


class Kind(NamedTuple):
    """What one of the paper's models is, and in what settings it differs from the others."""

    layers: Literal["one_layer", "two_layers", "three_layers"]
    inference: Literal["gaussian", "importance", "hmc"]
    changes: Mapping[str, Any] = MappingProxyType({})


MODELS = {
    "VAEM": Kind("one_layer", "gaussian"),
    "MIWAEM": Kind("one_layer", "importance"),
    "H-VAEM": Kind("two_layers", "gaussian"),
    "HMC-VAEM": Kind("one_layer", "hmc"),
    "HH-VAEM": Kind("two_layers", "hmc"),
}
# What the parts are worth; the published code decays the weights of the models without chains only.
ABLATIONS = {
    "HH-VAEM without inflation": Kind("two_layers", "hmc", {"inflation_rate": 0.0}),
    "HH-VAEM with one step size": Kind("two_layers", "hmc", {"one_step_size": True}),
    "HH-VAEM with three layers": Kind("three_layers", "hmc"),
    "HH-VAEM with weight decay": Kind("two_layers", "hmc", {"weight_decay": 0.01}),
    "VAEM with weight decay": Kind("one_layer", "gaussian", {"weight_decay": 0.01}),
    "H-VAEM with weight decay": Kind("two_layers", "gaussian", {"weight_decay": 0.01}),
}
# Two other ways to draw from a model that was trained with chains, on the same weights.
BY_ENCODER, BY_DEFAULT = " by the encoder", " by the default sampler"


@dataclasses.dataclass(frozen=True, eq=False)
class Prepared:
    """Some folds of a table, and their column models: the same for all models."""

    table: str
    as_published: bool
    published: Published
    numbers: tuple[int, ...]
    folds: tuple[Fold, ...]
    columns: tuple[MarginalVAEs, Direct]
    seconds: float


def prepare(
    dataset: Dataset,
    numbers: Sequence[int],
    published: Published,
    take: Callable[[Dataset, Work, int], Fold] = take_fold,
) -> Prepared:
    """Take folds of a table, and train their column models."""
    work = plan(dataset, seed=SEED)
    folds = tuple(take(dataset, work, number) for number in numbers)
    started = time.monotonic()
    columns = stage_one(folds, published, keys=fold_keys(numbers, 0))
    np.asarray(columns[0].decoders.layers[-1].bias)  # until they are trained
    seconds = time.monotonic() - started
    return Prepared(
        dataset.name,
        dataset.as_published,
        published,
        tuple(numbers),
        folds,
        columns,
        seconds,
    )


def run(
    prepared: Prepared,
    model: str,
    *,
    draws: int = DRAWS,
    say: Callable[[str], None],
    tell: Callable[[train.Progress], None] | None = None,
) -> dict[str, Any]:
    """Train one of the paper's models on the folds of a table, and test it.

    Every fold has keys of its own: trained alone, it comes to the same. A model that was trained
    with chains is also tested without them, and with those of the default sampler.

    Parameters
    ----------
    prepared
        The folds.
    model
        One of `MODELS` or `ABLATIONS`.
    draws
        Draws of the latents of a test row.
    say, tell
        Told when memory is short, and now and then how far training is.
    """
    kind, published = (MODELS | ABLATIONS)[model], prepared.published
    settings = dataclasses.replace(published.settings(kind.inference), **kind.changes)
    layers = getattr(published, kind.layers)
    data = train.gather([fold.train for fold in prepared.folds])
    started = time.monotonic()
    states = train.untrained(
        prepared.columns, layers, settings, keys=fold_keys(prepared.numbers, 1)
    )
    states, history = train.train(states, data, settings, progress=tell)
    train_seconds = time.monotonic() - started
    started = time.monotonic()
    tuned = posterior.tune(states.model, data, fold_keys(prepared.numbers, 3))
    scores = _tested(prepared, states, tuned, draws, say, by_chains=kind.inference == "hmc")
    test_seconds = time.monotonic() - started
    folds = len(prepared.folds)
    seconds = (prepared.seconds + train_seconds) / folds
    records = [
        {
            **_head(prepared.table, model + way, number, seconds),
            "steps": settings.steps,
            **_finite(each),
        }
        for way, found in scores.items()
        for number, each in zip(prepared.numbers, found, strict=True)
    ]
    return {
        "table": prepared.table,
        "as_published": prepared.as_published,
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
    as_published: bool = True,
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
    as_published
        Whether columns are of the kinds that the published code takes them for.
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
            dataset = load(table, as_published=as_published)
            collection.add_run(path, run_baseline(dataset, model, missing))
            continue
        if prepared is None or list(prepared.numbers) != missing:
            say(f"{table}: columns of {len(missing)} folds")
            prepared = prepare(load(table, as_published=as_published), missing, published)
        say(f"{table}: {model}")
        draws = QUICK_DRAWS if quick else DRAWS
        with bar(published.steps) as tell:
            found = run(prepared, model, draws=draws, say=say, tell=tell)
        collection.add_run(path, found)


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
        "as_published": dataset.as_published,
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
    prepared: Prepared,
    states: train.State,
    tuned: Tuned,
    draws: int,
    say: Callable[[str], None],
    *,
    by_chains: bool,
) -> dict[str, list[dict[str, float]]]:
    """Look at the test rows of all folds, and score them: in one way, or in three."""
    encoder, chains = How("encoder", chains=draws, kept=1), How("hmc", chains=draws, kept=1)
    ways: dict[str, tuple[Sampler | Tuned, How]] = {"": (states.sampler, encoder)}
    if by_chains:
        ways = {
            "": (states.sampler, chains),
            BY_ENCODER: (states.sampler, encoder),
            BY_DEFAULT: (tuned, chains),
        }
    weights = [
        class_weights(fold, weighted_target=prepared.table in WEIGHTED) for fold in prepared.folds
    ]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *weights)

    def looked(sampler: Sampler | Tuned, how: How) -> Callable[[np.ndarray], Told]:
        def look_at(numbers: np.ndarray) -> Told:
            rows, keys = some_rows(prepared, numbers, 2)
            return look(states.model, sampler, rows, stacked, keys, how)

        return look_at

    def weighed(numbers: np.ndarray) -> Evidence:
        rows, keys = some_rows(prepared, numbers, 4)
        return weigh(states.model, tuned, rows, keys)

    counts = [len(fold.test.mask) for fold in prepared.folds]
    size = ROWS if jax.default_backend() == "cpu" else ROWS_ON_ACCELERATOR
    evidence = in_parts(weighed, min(ANNEALED_ROWS, *counts), size, say)
    scores = {}
    for way, (sampler, how) in ways.items():
        told = in_parts(looked(sampler, how), max(counts), size, say)
        scores[way] = [
            score(fold, jax.tree.map(lambda leaf, i=i, count=count: leaf[i, :count], told))
            for i, (fold, count) in enumerate(zip(prepared.folds, counts, strict=True))
        ]
    for i, fold in enumerate(prepared.folds):
        own = jax.tree.map(lambda leaf, i=i: leaf[i], evidence)
        scores[""][i] |= score_evidence(fold, own)
    return scores


def in_parts(
    look_at: Callable[[np.ndarray], T], rows: int, size: int, say: Callable[[str], None]
) -> T:
    """Look at all rows, `size` at a time or fewer, where memory does not allow for as many.

    Every call is asked for as many rows, some of them beyond the last.
    """
    parts, first, size = [], 0, min(size, rows)
    while first < rows:
        try:
            found = look_at(np.arange(first, first + size))
            parts.append(jax.tree.map(np.asarray, found))
            first += size
        except jax.errors.JaxRuntimeError as error:
            if "RESOURCE_EXHAUSTED" not in str(error) or size == 1:
                raise
            size = -(-size // 2)
            say(f"Out of memory: going on with {size} rows at once.")
    whole: T = jax.tree.map(lambda *leaves: np.concatenate(leaves, axis=1)[:, :rows], *parts)
    return whole


def some_rows(
    prepared: Prepared, numbers: np.ndarray, purpose: int
) -> tuple[Row, Key[Array, "folds rows"]]:
    """Take the rows of these numbers of all folds, with keys of their own."""
    rows = [_rows(fold.test, numbers) for fold in prepared.folds]
    keys = _row_keys(fold_keys(prepared.numbers, purpose), jnp.asarray(numbers))
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *rows), keys


def _rows(test: Row, numbers: np.ndarray) -> Row:
    """Take rows of a fold; beyond its last one, that one again."""
    chosen = np.minimum(numbers, len(test.mask) - 1)
    return jax.tree.map(lambda leaf: leaf[chosen], test)


def fold_keys(numbers: Sequence[int], purpose: int) -> Key[Array, " folds"]:
    """Give each fold a key of its own, whatever folds are beside it."""
    key = jax.random.fold_in(jax.random.key(SEED), purpose)
    return jax.vmap(lambda number: jax.random.fold_in(key, number))(jnp.array(numbers))


@jax.jit
def _row_keys(keys: Key[Array, " folds"], numbers: Int[Array, " rows"]) -> Key[Array, "folds rows"]:
    return jax.vmap(lambda key: jax.vmap(lambda i: jax.random.fold_in(key, i))(numbers))(keys)
