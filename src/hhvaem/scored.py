"""Refusals of `hhvaem.evaluate` and `hhvaem.pooling`, and arrays that fit together."""

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64
from numpy.typing import ArrayLike

from hhvaem.containers import repeated
from hhvaem.errors import InputError
from hhvaem.schema import LEVELLED, Column

# Shares of float32 add up to 1 within this.
_ROUNDING = 1e-4


def array_of_numbers(what: str, values: Any, hint: str = "") -> Float64[np.ndarray, "..."]:
    """Give an array of float64; texts, dates, complex numbers and what is masked are refused."""
    if _is_masked(values):
        raise InputError(f"{what} is masked in places; leave out or fill what is.")
    try:
        found = np.asarray(values)
        if found.dtype.kind in "biufO":
            return found.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        pass
    raise InputError(f"{what} must be a number or a regular array of real numbers{hint}.")


def _is_masked(values: Any) -> bool:
    # NumPy forgets the masks of what is in a list.
    if isinstance(values, list | tuple):
        return any(map(_is_masked, values))
    return bool(np.ma.is_masked(values))


def check_level(level: Any) -> None:
    """Refuse what is no level of an interval."""
    if not isinstance(level, Real) or not 0 < float(level) < 1:
        raise InputError(f"level={level!r} must lie between 0 and 1.")


def numbers(name: str, values: ArrayLike, axes: int) -> np.ndarray:
    """Give an array of float64 with so many axes."""
    found = array_of_numbers(f"`{name}`", values, "; levels are their index")
    if found.ndim != axes:
        raise InputError(f"`{name}` has {found.ndim} axes; it needs {axes}.")
    return found


def check_some(values: np.ndarray) -> None:
    """Refuse nothing at all."""
    if not values.size:
        raise InputError("There is nothing to score: no cell is given.")


def check_finite(name: str, finite: Bool[np.ndarray, " cells"]) -> None:
    """Refuse cells that are not finite."""
    if not finite.all():
        raise InputError(
            f"`{name}` is not finite in cell {int(np.argmin(finite))} (counted from 0); leave such "
            "cells out."
        )


def check_overflow(scores: Float64[np.ndarray, "..."] | np.float64) -> None:
    """Refuse scores of numbers so large that their differences, sums or squares are none."""
    if not np.isfinite(scores).all():
        raise InputError("The numbers are too large to be scored; give them in another unit.")


def draws_and_truth(draws: ArrayLike, truth: ArrayLike, axes: int) -> tuple[np.ndarray, np.ndarray]:
    """Give both as arrays of shapes that fit together."""
    x, y = numbers("draws", draws, axes + 1), numbers("truth", truth, axes)
    if x.shape[1:] != y.shape:
        raise InputError(
            f"`draws` has shape {x.shape} and `truth` {y.shape}; the draws of each cell must stand "
            "in the first axis, and the others be alike."
        )
    if len(x) < 2:
        raise InputError(f"`draws` has {len(x)} of each cell; give at least 2.")
    return x, y


def draws_of_cells(draws: ArrayLike, truth: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Give the draws of single cells and what is true of them, all finite."""
    x, y = draws_and_truth(draws, truth, axes=1)
    check_finite("truth", np.isfinite(y))
    check_finite("draws", np.isfinite(x).all(0))
    return x, y


def predictions(prediction: ArrayLike, truth: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Give predictions and what is true, one for each row."""
    guess, y = numbers("prediction", prediction, 1), numbers("truth", truth, 1)
    if guess.shape != y.shape:
        raise InputError(
            f"`prediction` has {guess.size} cells and `truth` {y.size}; give one for each."
        )
    check_some(y)
    check_finite("truth", np.isfinite(y))
    check_finite("prediction", np.isfinite(guess))
    return guess, y


def probabilities_and_truth(
    probabilities: ArrayLike, truth: ArrayLike
) -> tuple[np.ndarray, np.ndarray]:
    """Give the shares of levels and the true level of each row."""
    shares, y = numbers("probabilities", probabilities, 2), numbers("truth", truth, 1)
    if len(shares) != len(y):
        raise InputError(
            f"`probabilities` has {len(shares)} rows and `truth` {len(y)}; give one for each."
        )
    check_some(y)
    legal = (shares >= 0).all(1) & (np.abs(shares.sum(1) - 1) < _ROUNDING)
    if not legal.all():
        raise InputError(
            f"`probabilities` of row {int(np.argmin(legal))} (counted from 0) are negative or do "
            "not add up to 1; give one for each level."
        )
    exists = np.isin(y, np.arange(shares.shape[1]))
    if not exists.all():
        row = int(np.argmin(exists))
        raise InputError(
            f"`truth` is {y[row]:g} in row {row} (counted from 0); give the index of one of the "
            f"{shares.shape[1]} levels."
        )
    return shares, y


def hidden_cells(hidden: ArrayLike, shape: tuple[int, ...]) -> Bool[np.ndarray, "rows columns"]:
    """Give which cells are scored; there is at least one."""
    at = np.asarray(hidden)
    if at.dtype != bool or at.shape != shape:
        raise InputError(
            f"`hidden` is {at.dtype} of shape {at.shape}; give True or False for each cell of "
            f"`truth`, {shape}."
        )
    if not at.any():
        raise InputError("There is nothing to score: no cell is hidden.")
    return at


def checked_table(
    columns: Sequence[Column],
    truth: ArrayLike,
    hidden: ArrayLike,
    point: ArrayLike,
    scale: ArrayLike,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Give truth, fills, hidden cells and scales as arrays that fit together."""
    y, p = numbers("truth", truth, 2), numbers("point", point, 2)
    units = numbers("scale", scale, 1)
    if p.shape != y.shape or y.shape[1] != len(columns) or units.size != len(columns):
        raise InputError(
            f"`truth` has shape {y.shape}, `point` {p.shape} and `scale` {units.shape} for "
            f"{len(columns)} columns; give one of each for every column."
        )
    twice = repeated(column.name for column in columns)
    if twice:
        raise InputError(f"`columns` has more than one column named {twice}; rename them apart.")
    at = hidden_cells(hidden, y.shape)
    for j, column in enumerate(columns):
        rows = np.flatnonzero(at[:, j])
        if not rows.size:
            continue
        if not column.modelled:
            raise InputError(
                f"Column {column.name!r} is {column.kind} and has hidden cells; leave it out."
            )
        if column.kind not in LEVELLED and not 0 < units[j] < np.inf:
            raise InputError(
                f"`scale` is {units[j]:g} for column {column.name!r}; give the standard deviation "
                "of its training cells, or leave the column out if that is 0."
            )
        check_cells("truth", y[None, rows, j], column, rows)
        check_cells("point", p[None, rows, j], column, rows)
    return y, p, at, units


def check_cells(
    name: str, values: Float64[np.ndarray, "draws cells"], column: Column, rows: np.ndarray
) -> None:
    """Refuse hidden cells without a number, or with a level that does not exist."""
    levels = len(column.levels)
    is_level = column.kind in LEVELLED
    legal = np.isin(values, np.arange(levels)) if is_level else np.isfinite(values)
    if legal.all():
        return
    draw, cell = np.argwhere(~legal)[0]
    wanted = f"the index of one of its {levels} levels" if is_level else "a finite number"
    way_out = f"hide only cells that hold {wanted}" if name == "truth" else f"give {wanted}"
    raise InputError(
        f"`{name}` has {values[draw, cell]:g} in the hidden cell of column {column.name!r}, row "
        f"{rows[cell]} (counted from 0); {way_out}."
    )
