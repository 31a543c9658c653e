"""Hide cells of a table that are known, to see how well they are filled."""

from collections.abc import Sequence
from numbers import Real
from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Bool, Float
from scipy.optimize import brentq
from scipy.special import expit, ndtri
from scipy.stats import rankdata

from hhvaem.checks import check_count
from hhvaem.containers import listed, shown
from hhvaem.encoding import TableMask, TableValues
from hhvaem.errors import InputError
from hhvaem.schema import Column

Mechanism = Literal["mcar", "mar", "mnar", "patterns"]
MECHANISMS: tuple[Mechanism, ...] = get_args(Mechanism)
# In words, for reports: after "cells were hidden".
IN_WORDS: dict[Mechanism, str] = {
    "mcar": "wherever chance took them",
    "mar": "more often where other columns, which stay known, are high",
    "mnar": "more often the higher the hidden value itself is",
    "patterns": "where other rows of the table have their holes",
}

# The share of cells that is hidden, unless it is told.
SHARE = 0.2
# What multiplies the number that decides, in units of its spread: of two cells that are one
# spread above and below the middle, the odds differ by a factor of about 50.
STEEPNESS = 2.0
# The share of the columns that decide about the others, of `mar`.
DECIDING = 1 / 3
# A column keeps at least so many known cells, and so many different values.
KEPT_CELLS, KEPT_VALUES = 5, 2
# Fewer hidden cells than this say nothing.
LEAST_HIDDEN = 10
# More cells than this no table has.
MOST_TOLD = 1e12


def hide(
    columns: Sequence[Column],
    values: TableValues,
    mask: TableMask,
    how: Mechanism = "mcar",
    *,
    share: float | None = None,
    seed: int = 0,
) -> Bool[np.ndarray, "rows columns"]:
    """Choose known cells of a table to hide.

    Parameters
    ----------
    columns
        The modelled columns of a schema.
    values, mask
        The table, as `hhvaem.table.encode` gives it: levels by index, True where observed.
    how
        `mcar`: each cell with the same probability. `mar`: a third of the columns, drawn by lot,
        stay known and decide about the others. `mnar`: the value of a cell decides about itself.
        `patterns`: each row also loses what another row of the table lacks, drawn by lot.
    share
        The share of the known cells of a column that is hidden, 0.2 unless it is told;
        `patterns` have that of the table.
    seed
        Where all randomness comes from.

    Returns
    -------
    Bool[np.ndarray, "rows columns"]
        True where a cell is hidden. A column that would have fewer than five known cells or two
        different values left keeps all of its cells.

    Raises
    ------
    InputError
        Where `how` or `share` are none, or there is too little to hide.

    Examples
    --------
    >>> from hhvaem.schema import Column
    >>> values = np.random.default_rng(0).normal(size=(1000, 2))
    >>> columns = (Column("x", "real"), Column("y", "real"))
    >>> hidden = hide(columns, values, np.ones((1000, 2), bool), "mnar", share=0.3)
    >>> bool(values[hidden].mean() > 0.5)
    True
    """
    if how not in MECHANISMS:
        raise InputError(f"how={how!r} is no way to hide cells; use {listed(MECHANISMS)}.")
    rng = np.random.default_rng(check_count("seed", seed, 0, most=2**63 - 1))
    if how == "patterns":
        if share is not None:
            raise InputError("`share` says nothing of `patterns`, which hide as the table lacks.")
        if mask.all():
            raise InputError("The table has no holes to take patterns from; hide by `mcar`.")
        hidden = mask & ~mask[rng.integers(len(mask), size=len(mask))]
    else:
        wanted = _checked_share(SHARE if share is None else share)
        hidden = mask & (rng.random(mask.shape) < _chances(columns, values, mask, how, wanted, rng))
    for j in range(mask.shape[1]):
        left = values[mask[:, j] & ~hidden[:, j], j]
        if left.size < KEPT_CELLS or np.unique(left).size < KEPT_VALUES:
            hidden[:, j] = False
    if hidden.sum() < LEAST_HIDDEN:
        rate = hidden.sum() / max(mask.sum(), 1) if how == "patterns" else wanted
        cells = 2 * LEAST_HIDDEN / rate if rate else np.inf
        needed = f"about {np.ceil(cells):.0f}" if cells < MOST_TOLD else "many more"
        raise InputError(
            f"The table is too small to hide anything: of {mask.sum()} known cells "
            f"{hidden.sum()} would be hidden, and {LEAST_HIDDEN} are the least that say something; "
            f"it needs {needed} known cells, and at least {KEPT_CELLS + 1} in a column."
        )
    return hidden


def _checked_share(share: Any) -> float:
    number = isinstance(share, Real) and not isinstance(share, bool)
    if not number or not 0 < share < 1 or not 0 < float(share) < 1:
        raise InputError(
            f"share={shown(share)} is no share of the cells; give one between 0 and 1."
        )
    return float(share)


def _chances(
    columns: Sequence[Column],
    values: TableValues,
    mask: TableMask,
    how: Mechanism,
    share: float,
    rng: np.random.Generator,
) -> Float[np.ndarray, "rows columns"]:
    """Give the probability of each cell to be hidden."""
    if how == "mcar":
        return np.full(mask.shape, share)
    scores = np.stack(
        [_scores(column, values[:, j], mask[:, j], rng) for j, column in enumerate(columns)], axis=1
    )
    chances = np.zeros(mask.shape)
    if how == "mar":
        if len(columns) < 2:
            raise InputError("The table has one column to hide from, and `mar` needs a second one.")
        deciding = rng.permutation(len(columns))[: max(1, round(DECIDING * len(columns)))]
        hidden = np.setdiff1d(np.arange(len(columns)), deciding)
        weights = np.abs(rng.normal(size=(deciding.size, hidden.size)))
        scores[:, hidden] = scores[:, deciding] @ weights / np.linalg.norm(weights, axis=0)
    else:
        hidden = np.arange(len(columns))
    for j in hidden:
        if mask[:, j].any():
            chances[:, j] = _as_often(scores[:, j], mask[:, j], share)
    return chances


def _scores(
    column: Column,
    x: Float[np.ndarray, " rows"],
    seen: Bool[np.ndarray, " rows"],
    rng: np.random.Generator,
) -> Float[np.ndarray, " rows"]:
    """Give the normal scores of a column's ranks; 0 where it is not known.

    Levels without order get one by lot.
    """
    scores = np.zeros(len(x))
    if not seen.any():
        return scores
    order = x[seen]
    if column.kind in ("binary", "categorical"):
        order = rng.permutation(len(column.levels))[order.astype(int)]
    ranks = rankdata(order)
    scores[seen] = ndtri((ranks - 0.5) / ranks.size)
    return scores


def _as_often(
    scores: Float[np.ndarray, " rows"], seen: Bool[np.ndarray, " rows"], share: float
) -> Float[np.ndarray, " rows"]:
    """Give probabilities that grow with the scores and are `share` on average where seen."""

    def surplus(level: float) -> float:
        return float(expit(STEEPNESS * scores[seen] + level).mean() - share)

    # A level at which even the highest score gives less than the share, however small that is.
    least = min(-60.0, np.log(share) - STEEPNESS * scores[seen].max() - 1)
    return expit(STEEPNESS * scores + brentq(surplus, least, 60.0))
