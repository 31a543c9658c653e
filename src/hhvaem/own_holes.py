"""How well a table's own holes are filled, where nobody knows what was there: the energy-I-score.

Of Naef, Grzesiak and Scornet (2025, "How to rank imputation methods?"). A column's observed cells
are drawn anew by a model that has learned the column from nothing but the cells that were filled,
and scored by the truth: fills whose law is the right one make the best teachers. It goes by the
columns that are known wherever the column is, so that no other holes matter.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from hhvaem.encoding import TableDraws, TableMask
from hhvaem.evaluate import brier, crps
from hhvaem.preparing import Part
from hhvaem.schema import LEVELLED

# Fits what it is given to a table and draws its holes: a table, the number of draws, the seed.
Fill = Callable[[Part, int, int], TableDraws]

# A column with fewer holes or fewer known cells teaches or tells nothing.
LEAST = 10


class OwnHoles(NamedTuple):
    """The energy-I-score of a method; less is better.

    Parameters
    ----------
    score
        The mean over columns, weighted by their share of holes times that of known cells; NaN
        where no column can be scored.
    by_column
        Of each column that was scored, in units of its spread; a level counts as a corner of a
        simplex with unit sides.
    """

    score: float
    by_column: dict[str, float]


def own_holes(
    part: Part, fill: Fill, *, columns: int | None = None, draws: int = 20, seed: int = 0
) -> OwnHoles:
    """Score how a method fills the holes of a table.

    Parameters
    ----------
    part
        The table, NaN in its holes.
    fill
        The method: gives draws of all holes of a table, [draws, rows, columns].
    columns
        Score at most so many columns, those with the most holes.
    draws
        Of each cell that is scored, at least two.
    seed
        Where all randomness comes from.

    Examples
    --------
    >>> from hhvaem.baselines import Task, gaussian
    >>> from hhvaem.schema import Column
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=400)
    >>> values = np.stack([x, x + 0.1 * rng.normal(size=400)], axis=1)
    >>> mask = np.ones((400, 2), bool)
    >>> mask[rng.random(400) < 0.4, 1] = False
    >>> columns = (Column("x", "real"), Column("y", "real"))
    >>> part = Part(columns, np.where(mask, values, np.nan), mask)
    >>> def copula(part, draws, seed):
    ...     return gaussian(Task(*part, part.values, part.mask, draws, seed)).draws
    >>> round(own_holes(part, copula).score, 1)
    0.1
    """
    full = fill(part, 1, seed)[0]
    holes = (~part.mask).sum(0)
    fit_to_score = (holes >= LEAST) & (part.mask.sum(0) >= LEAST)
    chosen = [j for j in np.argsort(-holes, kind="stable").tolist() if fit_to_score[j]]
    scores, weights = {}, []
    for j in chosen[:columns]:
        scored = _scored(part, full, j, fill, draws, seed)
        if scored is not None:
            scores[part.columns[j].name] = scored
            share = part.mask[:, j].mean()
            weights.append(share * (1 - share))
    score = float(np.average(list(scores.values()), weights=weights)) if scores else float("nan")
    return OwnHoles(score, scores)


def _scored(
    part: Part, full: Float[np.ndarray, "rows columns"], j: int, fill: Fill, draws: int, seed: int
) -> float | None:
    """Learn a column from its filled cells, and score the draws of its known ones."""
    known = part.mask[:, j]
    others = _known_with(part.mask, j)
    if not others.size or np.unique(full[~known, j]).size < 2:
        return None
    rows = ~known | part.mask[:, others].all(1)
    chosen = [j, *others.tolist()]
    values = full[np.ix_(rows, chosen)]
    mask = np.ones(values.shape, bool)
    mask[:, 0] = ~known[rows]
    scored = ~mask[:, 0]
    # The truth must not be looked at.
    shown = np.where(mask, values, np.nan)
    varying = [k for k in range(len(chosen)) if np.unique(shown[mask[:, k], k]).size > 1]
    if 0 not in varying or len(varying) < 2 or not scored.any():
        return None
    columns = tuple(part.columns[chosen[k]] for k in varying)
    drawn = fill(Part(columns, shown[:, varying], mask[:, varying]), draws, seed)[:, scored, 0]
    truth = part.values[rows, j][scored]
    if part.columns[j].kind in LEVELLED:
        # Corners of a simplex with unit sides, of which this is the energy score.
        return float(brier(drawn, truth).mean()) / 2
    return float(crps(drawn, truth).mean() / np.std(part.values[known, j]))


def _known_with(mask: TableMask, j: int) -> Int[np.ndarray, " others"]:
    """Give the columns that are known wherever a column is; else the one that is most often."""
    together = mask[mask[:, j]].mean(0)
    together[j] = -1.0
    whole = np.flatnonzero(together == 1.0)
    if whole.size or mask.shape[1] < 2:
        return whole
    return np.array([int(together.argmax())])
