"""The test rows of folds: looked at as many at a time as memory allows for, and scored."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key

from hhvaem.compiling import in_groups
from hhvaem.model import Model, Row
from hhvaem.objectives import Sampler
from hhvaem.paper.evaluation import Evidence, Told, class_weights, look, weigh
from hhvaem.paper.folds import Fold
from hhvaem.paper.scoring import score, score_evidence
from hhvaem.posterior import How, Tuned

T = TypeVar("T")
FoldKeys = Key[Array, " folds"]

# Rows of a call that looks at test rows, of each fold: with all folds and draws enough for a GPU.
ROWS = 64
# Test rows of each fold whose probability is estimated.
ANNEALED_ROWS = 32


def score_rows(
    folds: Sequence[Fold],
    models: Model,
    sampler: Sampler | Tuned,
    how: How,
    *,
    keys: FoldKeys,
    weighted_target: bool = False,
    say: Callable[[str], None],
) -> list[dict[str, float]]:
    """Look at all test rows of each fold, and score what their draws tell.

    Parameters
    ----------
    folds, models
        The folds, and a model of each.
    sampler, how
        What draws their latents, and how many.
    keys
        Of each fold one, from which every row has one of its own.
    weighted_target
        Whether targets of two levels have weights of classes in the published scores.
    say
        Told when memory is short.
    """
    weights = [class_weights(fold, weighted_target=weighted_target) for fold in folds]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *weights)

    def look_at(numbers: np.ndarray) -> Told:
        rows, row_keys = some_rows(folds, keys, numbers)
        return in_groups(partial(look, how=how), models, sampler, rows, stacked, row_keys)

    counts = [len(fold.test.mask) for fold in folds]
    told = in_parts(look_at, max(counts), ROWS, say)
    return [
        score(fold, jax.tree.map(lambda leaf, i=i, count=count: leaf[i, :count], told))
        for i, (fold, count) in enumerate(zip(folds, counts, strict=True))
    ]


def score_annealed(
    folds: Sequence[Fold],
    models: Model,
    tuned: Tuned,
    *,
    rows: int = ANNEALED_ROWS,
    keys: FoldKeys,
    say: Callable[[str], None],
) -> list[dict[str, float]]:
    """Estimate the probability of the first test rows of each fold, and score it."""

    def weigh_some(numbers: np.ndarray) -> Evidence:
        chosen, row_keys = some_rows(folds, keys, numbers)
        return in_groups(weigh, models, tuned, chosen, row_keys)

    counts = [len(fold.test.mask) for fold in folds]
    evidence = in_parts(weigh_some, min(rows, *counts), ROWS, say)
    return [
        score_evidence(fold, jax.tree.map(lambda leaf, i=i: leaf[i], evidence))
        for i, fold in enumerate(folds)
    ]


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
            size = half_of(size, "row", error, say)
    whole: T = jax.tree.map(lambda *leaves: np.concatenate(leaves, axis=1)[:, :rows], *parts)
    return whole


def half_of(
    size: int, what: str, error: jax.errors.JaxRuntimeError, say: Callable[[str], None]
) -> int:
    """Give half of a size that was too much for the memory, and say so; raise any other error."""
    if "RESOURCE_EXHAUSTED" not in str(error) or size == 1:
        raise error
    size = -(-size // 2)
    say(f"Out of memory: going on with {counted(size, what)} at once.")
    return size


def counted(number: int, what: str) -> str:
    """Write a number of things.

    Examples
    --------
    >>> counted(1, "fold"), counted(2, "fold")
    ('1 fold', '2 folds')
    """
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def some_rows(
    folds: Sequence[Fold], keys: FoldKeys, numbers: np.ndarray
) -> tuple[Row, Key[Array, "folds rows"]]:
    """Take the test rows of these numbers of all folds, with keys of their own."""
    rows = [_rows(fold.test, numbers) for fold in folds]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *rows)
    return stacked, _row_keys(keys, jnp.asarray(numbers))


def _rows(test: Row, numbers: np.ndarray) -> Row:
    """Take rows of a fold; beyond its last one, that one again."""
    chosen = np.minimum(numbers, len(test.mask) - 1)
    return jax.tree.map(lambda leaf: leaf[chosen], test)


@jax.jit
def _row_keys(keys: Key[Array, " folds"], numbers: Int[Array, " rows"]) -> Key[Array, "folds rows"]:
    return jax.vmap(lambda key: jax.vmap(lambda i: jax.random.fold_in(key, i))(numbers))(keys)
