"""Folds and masks: the same work for every method of a comparison.

The protocol is the paper's, with its faults mended: ten shuffled folds, but seeded; in each test
fold every input cell is hidden with probability one half, once and for all; in training the masks
are drawn afresh at every step, one rate for each row. A mask is True where a cell is observed.
"""

from collections.abc import Sequence
from numbers import Real

import jax
import numpy as np
from jaxtyping import Array, Bool, Int, Key

from hhvaem.errors import InputError

HIGHEST_RATE = 0.99  # a row shows something now and then, however high its rate
MOST_FOLDS = 255  # the fold of a row is stored in a byte
SEEDS = 2**32  # JAX keeps no more bits of a seed


def folds(rows: int, seed: int, count: int = 10) -> tuple[Int[np.ndarray, " fold"], ...]:
    """Divide rows at random into folds of nearly equal size.

    Parameters
    ----------
    rows
        Number of rows.
    seed
        An int from 0 to 2**32 - 1; the same seed gives the same folds.
    count
        Number of folds; the first `rows % count` have one row more than the others.

    Returns
    -------
    tuple of arrays
        The rows of each fold, in ascending order.

    Raises
    ------
    InputError
        Where there cannot be so many folds, or the seed is none.

    Examples
    --------
    >>> [len(fold) for fold in folds(307, seed=0)]
    [31, 31, 31, 31, 31, 31, 31, 30, 30, 30]
    """
    if not isinstance(count, int) or not 2 <= count <= min(rows, MOST_FOLDS):
        raise InputError(
            f"{rows} rows cannot be divided into {count!r} folds; count is an int of at least "
            f"2 and at most the number of rows or {MOST_FOLDS}."
        )
    check_seed(seed)
    order = np.random.default_rng(seed).permutation(rows)
    return tuple(np.sort(fold) for fold in np.array_split(order, count))


def test_mask(
    rows: int,
    columns: int,
    seed: int | Sequence[int],
    rate: float = 0.5,  # noqa: PT028  (a mask for testing, not a test)
) -> Bool[np.ndarray, "rows columns"]:
    """Hide each cell with probability `rate`, independently.

    Parameters
    ----------
    rows, columns
        The rows of a test fold and its input columns; targets are always hidden in a test.
    seed
        A seed as for `folds`, or several; the same gives the same mask.
    rate
        The probability that a cell is hidden.

    Returns
    -------
    array
        True where a cell is observed.

    Raises
    ------
    InputError
        Where the rate is no probability, or the seed is none.
    """
    for each in seed if isinstance(seed, Sequence) else (seed,):
        check_seed(each)
    if not isinstance(rate, Real) or not 0 <= rate <= 1:
        raise InputError(f"rate={rate!r} is no probability; give a number from 0 to 1.")
    return np.random.default_rng(seed).random((rows, columns)) >= rate


def train_mask(key: Key[Array, ""], shape: tuple[int, int]) -> Bool[Array, "rows columns"]:
    """Draw a training mask: a rate for each row, uniform up to 0.99, the same for x and y.

    Pure and of static shape, so that it can be a part of a compiled training step.

    Parameters
    ----------
    key
        A new key for every step.
    shape
        The rows of the batch, and all columns, targets included.

    Returns
    -------
    array
        True where a cell is observed.

    Examples
    --------
    >>> import jax
    >>> train_mask(jax.random.key(0), (100, 14)).shape
    (100, 14)
    """
    uniform = jax.random.uniform(key, (shape[0], 1 + shape[1]))
    return uniform[:, 1:] >= HIGHEST_RATE * uniform[:, :1]


def check_seed(seed: int) -> None:
    """Refuse what does not give folds, test masks and training masks of its own.

    Raises
    ------
    InputError
        Unless it is an int from 0 to 2**32 - 1.
    """
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < SEEDS:
        raise InputError(f"seed={seed!r} is no seed; give an int from 0 to {SEEDS - 1}.")
