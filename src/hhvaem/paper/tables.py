"""The paper's tables: five models on ten tables, the folds of a table trained at once."""

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from hhvaem import posterior, train
from hhvaem.baselines import BASELINES, SLOW, Filled, Task, training_rows
from hhvaem.datasets import Dataset, load
from hhvaem.datasets.work import Work, plan
from hhvaem.marginal_vae import MarginalVAEs
from hhvaem.marginals import Direct
from hhvaem.objectives import Sampler
from hhvaem.paper import collection
from hhvaem.paper.evaluation import CASES, DRAWS
from hhvaem.paper.folds import PUBLISHED, Fold, Published, stage_one, take_fold
from hhvaem.paper.records import versions
from hhvaem.paper.scoring import score_filled
from hhvaem.paper.testing import ANNEALED_ROWS, counted, half_of, score_annealed, score_rows
from hhvaem.posterior import How, Tuned

SEED = 0
# The tables whose target has weights of classes in the published scores.
WEIGHTED = ("bank", "insurance")
# Folds that baselines get which take long.
SLOW_FOLDS = 2
# What makes a run short. Most of the time of testing goes into rows that are annealed.
QUICK_DRAWS, QUICK_ANNEALED_ROWS = 50, 2
QUICK_STEPS: dict[str, Any] = {"marginal_steps": 100, "steps": 200, "hmc_steps": 40}


class Kind(NamedTuple):
    """What one of the paper's models is, and in what settings it differs from the others."""

    layers: Literal["one_layer", "two_layers", "three_layers"]
    inference: Literal["gaussian", "importance", "hmc"]
    changes: Mapping[str, Any] = MappingProxyType({})
    # The fold whose test rows it is tested on; None for its own.
    tested: int | None = None


MODELS = {
    "VAEM": Kind("one_layer", "gaussian"),
    "MIWAEM": Kind("one_layer", "importance"),
    "H-VAEM": Kind("two_layers", "gaussian"),
    "HMC-VAEM": Kind("one_layer", "hmc"),
    "HH-VAEM": Kind("two_layers", "hmc"),
}
# What the parts are worth. The published code decays the weights of the models without chains only,
# and tests a model that it has read from a file on the rows of the first fold, whatever its own is.
ABLATIONS = {
    "HH-VAEM without inflation": Kind("two_layers", "hmc", {"inflation_rate": 0.0}),
    "HH-VAEM with one step size": Kind("two_layers", "hmc", {"one_step_size": True}),
    "HH-VAEM with three layers": Kind("three_layers", "hmc"),
    "HH-VAEM with weight decay": Kind("two_layers", "hmc", {"weight_decay": 0.01}),
    "VAEM with weight decay": Kind("one_layer", "gaussian", {"weight_decay": 0.01}),
    "H-VAEM with weight decay": Kind("two_layers", "gaussian", {"weight_decay": 0.01}),
    "HH-VAEM tested on the first fold": Kind("two_layers", "hmc", tested=0),
}
# Two other ways to draw from a model that was trained with chains, on the same weights.
BY_ENCODER, BY_DEFAULT = collection.WAYS


@dataclasses.dataclass(frozen=True, eq=False)
class Prepared:
    """Some folds of a table, and their column models: the same for all models."""

    table: str
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
    return Prepared(dataset.name, published, tuple(numbers), folds, columns, seconds)


def configured(published: Published, model: str) -> tuple[tuple[int, ...], train.Settings]:
    """Give the layers of one of `MODELS` or `ABLATIONS`, and how it is trained."""
    kind = (MODELS | ABLATIONS)[model]
    settings = dataclasses.replace(published.settings(kind.inference), **kind.changes)
    return getattr(published, kind.layers), settings


def untrained(
    prepared: Prepared, layers: tuple[int, ...], settings: train.Settings
) -> tuple[train.State, train.Data]:
    """Start a model of each fold, and give them with the rows that they are to be trained on."""
    keys = fold_keys(prepared.numbers, 1)
    states = train.untrained(prepared.columns, layers, settings, keys=keys)
    return states, train.gather([fold.train for fold in prepared.folds])


def identity(
    table: str, model: str, published: Published, *, as_published: bool, draws: int
) -> dict[str, Any]:
    """Give what two runs must share for their folds to stand beside each other.

    Baselines have no settings, and draws of their own number.
    """
    about = {"table": table, "as_published": as_published, "model": model}
    if model in BASELINES:
        return about | {"seed": SEED, "draws": CASES}
    layers, settings = configured(published, model)
    return about | {
        "layers": list(layers),
        "settings": dataclasses.asdict(settings),
        "marginal_steps": published.marginal_steps,
        "seed": SEED,
        "draws": draws,
    }


def identities(*, as_published: bool, quick: bool) -> list[dict[str, Any]]:
    """Give the `identity` of all that can stand beside each other, in the paper's order."""
    return [
        identity(table, model, published, as_published=as_published, draws=draws)
        for table in PUBLISHED
        for published, draws, _ in [_size(table, quick=quick)]
        for model in (*MODELS, *ABLATIONS, *BASELINES)
    ]


def _size(table: str, *, quick: bool) -> tuple[Published, int, int]:
    """Give how a table is trained, the draws of its test rows, and how many are annealed."""
    if quick:
        published = dataclasses.replace(PUBLISHED[table], **QUICK_STEPS)
        return published, QUICK_DRAWS, QUICK_ANNEALED_ROWS
    return PUBLISHED[table], DRAWS, ANNEALED_ROWS


def run(
    prepared: Prepared,
    model: str,
    *,
    draws: int = DRAWS,
    annealed_rows: int = ANNEALED_ROWS,
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
    annealed_rows
        Test rows of each fold whose probability is estimated.
    say, tell
        Told when memory is short, and now and then how far training is.

    Returns
    -------
    dict
        What goes into the model's file beside its `identity`.
    """
    layers, settings = configured(prepared.published, model)
    started = time.monotonic()
    states, data = untrained(prepared, layers, settings)
    states, history = train.train(states, data, settings, progress=tell)
    train_seconds = time.monotonic() - started
    started = time.monotonic()
    tuned = posterior.tune(states.model, data, fold_keys(prepared.numbers, 3))
    scores = _tested(
        prepared, states, tuned, draws, annealed_rows, say, by_chains=settings.inference == "hmc"
    )
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
        "folds_at_once": folds,
        "seconds": {
            "columns": round(prepared.seconds, 1),
            "train": round(train_seconds, 1),
            "test": round(test_seconds, 1),
        },
        "device": jax.devices()[0].device_kind,
        "versions": versions(),
        "loss": [round(float(x), 4) for x in history.recent_loss],
        "records": records,
    }


def _tested(
    prepared: Prepared,
    states: train.State,
    tuned: Tuned,
    draws: int,
    annealed_rows: int,
    say: Callable[[str], None],
    *,
    by_chains: bool,
) -> dict[str, list[dict[str, float]]]:
    """Score the test rows of all folds: in one way, or in three."""
    encoder, chains = How("encoder", chains=draws, kept=1), How("hmc", chains=draws, kept=1)
    ways: dict[str, tuple[Sampler | Tuned, How]] = {"": (states.sampler, encoder)}
    if by_chains:
        ways = {
            "": (states.sampler, chains),
            BY_ENCODER: (states.sampler, encoder),
            BY_DEFAULT: (tuned, chains),
        }
    folds, model = prepared.folds, states.model
    annealed_keys, keys = (fold_keys(prepared.numbers, purpose) for purpose in (4, 2))
    annealed = score_annealed(folds, model, tuned, rows=annealed_rows, keys=annealed_keys, say=say)
    weighted = prepared.table in WEIGHTED
    scores = {
        way: score_rows(folds, model, *drawn, keys=keys, weighted_target=weighted, say=say)
        for way, drawn in ways.items()
    }
    scores[""] = [own | more for own, more in zip(scores[""], annealed, strict=True)]
    return scores


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

    Where memory does not allow for all folds at once, fewer are trained at once from there on.

    Parameters
    ----------
    table, models, folds
        What is to be there; of baselines that take long, `SLOW_FOLDS` folds are enough.
    folder
        Where each run has its file (`hhvaem.paper.collection`).
    as_published
        Whether columns are of the kinds that the published code takes them for.
    quick
        Whether to train for a few steps only, and to test with a few draws and annealed rows.
    say, bar
        Told what is done, and asked for what is told of the progress of so many steps.

    Raises
    ------
    InputError
        Where a file is of another version, or was made with other settings.
    """
    published, draws, annealed_rows = _size(table, quick=quick)
    places = {model: collection.place(folder, table, model) for model in models}
    about = {
        model: identity(table, model, published, as_published=as_published, draws=draws)
        for model in models
    }
    # All files are looked at before anything is run.
    before = {model: collection.read_alike(places[model], about[model]) for model in models}
    # By folds and whose rows they are tested on, so that column models are trained once.
    kept: dict[tuple[tuple[int, ...], int | None], Prepared] = {}
    at_once = len(folds)
    for model, path in places.items():
        wanted = folds[:SLOW_FOLDS] if model in SLOW else folds
        missing = collection.missing_folds(before[model], wanted)
        if missing and model in BASELINES:
            say(f"{table}: {model}")
            dataset = load(table, as_published=as_published)
            collection.add_run(path, about[model], run_baseline(dataset, model, missing))
            continue
        while missing:
            numbers, tested = tuple(missing[:at_once]), (MODELS | ABLATIONS)[model].tested
            try:
                if (numbers, tested) not in kept:
                    say(f"{table}: columns of {counted(len(numbers), 'fold')}")
                    dataset = load(table, as_published=as_published)
                    take = partial(take_fold, tested=tested)
                    kept[numbers, tested] = prepare(dataset, numbers, published, take)
                say(f"{table}: {model}")
                with bar(published.steps) as tell:
                    found = run(
                        kept[numbers, tested],
                        model,
                        draws=draws,
                        annealed_rows=annealed_rows,
                        say=say,
                        tell=tell,
                    )
            except jax.errors.JaxRuntimeError as error:
                # What is too much is let go of before less is tried.
                kept.clear()
                at_once = half_of(len(numbers), "fold", error, say)
                continue
            collection.add_run(path, about[model], found)
            missing = missing[len(numbers) :]


def run_baseline(dataset: Dataset, name: str, numbers: Sequence[int]) -> dict[str, Any]:
    """Fill the test rows of folds of a table by a baseline, and score it as the models are.

    Returns
    -------
    dict
        What goes into the baseline's file beside its `identity`.
    """
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
    return {"versions": versions(), "records": records}


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


def fold_keys(numbers: Sequence[int], purpose: int) -> Key[Array, " folds"]:
    """Give each fold a key of its own, whatever folds are beside it."""
    key = jax.random.fold_in(jax.random.key(SEED), purpose)
    return jax.vmap(lambda number: jax.random.fold_in(key, number))(jnp.array(numbers))
