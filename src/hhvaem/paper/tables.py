"""The paper's tables: five models on ten tables, the folds of a table trained at once."""

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key

from hhvaem import train
from hhvaem.datasets import Dataset
from hhvaem.datasets.work import plan
from hhvaem.marginal_vae import MarginalVAEs
from hhvaem.marginals import Direct
from hhvaem.model import Row
from hhvaem.paper.evaluation import DRAWS, class_weights, look
from hhvaem.paper.folds import Fold, Published, stage_one, take_fold
from hhvaem.paper.records import versions
from hhvaem.paper.scoring import score
from hhvaem.posterior import How

SEED = 0
# Rows of a call that looks at test rows, of each fold.
ROWS, ROWS_ON_ACCELERATOR = 64, 512
# The tables whose target has weights of classes in the published scores.
WEIGHTED = ("bank", "insurance")


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
    prepared: Prepared, model: str, *, tell: Callable[[train.Progress], None] | None = None
) -> dict[str, Any]:
    """Train one of the paper's models on the folds of a table, and test it.

    Every fold has keys of its own: trained alone, it comes to the same.
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
    scores = _tested(prepared, states, kind.inference)
    test_seconds = time.monotonic() - started
    folds = len(prepared.folds)
    device = jax.devices()[0].device_kind
    records = [
        {
            "table": prepared.table,
            "model": model,
            "fold": number,
            "train_seconds": round((prepared.seconds + train_seconds) / folds, 2),
            "device": device,
            **{name: round(value, 5) for name, value in each.items()},
        }
        for number, each in zip(prepared.numbers, scores, strict=True)
    ]
    return {
        "table": prepared.table,
        "model": model,
        "layers": list(layers),
        "settings": dataclasses.asdict(settings),
        "marginal_steps": published.marginal_steps,
        "seed": SEED,
        "draws": DRAWS,
        "folds_at_once": folds,
        "seconds": {
            "columns": round(prepared.seconds, 1),
            "train": round(train_seconds, 1),
            "test": round(test_seconds, 1),
        },
        "device": device,
        "versions": versions(),
        "loss": [round(float(x), 4) for x in history.loss[:, -100:].mean(1)],
        "records": records,
    }


def _tested(prepared: Prepared, states: train.State, inference: str) -> list[dict[str, float]]:
    """Look at the test rows of all folds, some at a time, and score them."""
    how = How("hmc" if inference == "hmc" else "encoder", chains=DRAWS, kept=1)
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
