"""The honest baseline: a Gaussian copula, fitted to rows with holes by expectation-maximisation.

Every column is given normal scores by the distribution of its observed cells; a level without
order is said by indicators of all levels but the first. One mean and one covariance are fitted to
all of them, and holes get the normal law that follows from a row's observed cells.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import ndtr

from hhvaem.encoding import TableMask, TableValues
from hhvaem.gaussianise import fit_gaussianising
from hhvaem.schema import Column
from hhvaem.warps import Levels, Warp

# Steps of expectation-maximisation at most, and the change of a correlation that ends them.
STEPS, TOLERANCE = 200, 1e-4
# The unit covariance counts as much as one row: no covariance is singular.
PRIOR_ROWS = 1.0
# Numbers in the arrays of one batch.
BATCH = 2_000_000
# No cell says more of others than one this far out: neither a value beyond all that were seen
# nor a drawn level that the normal law all but excludes.
FURTHEST = 5.0

Scores = Float[np.ndarray, "rows scores"]
Vector = Float[np.ndarray, " scores"]
Matrix = Float[np.ndarray, "scores scores"]
Matrices = Float[np.ndarray, "patterns scores scores"]


class Batch(NamedTuple):
    """Some rows, the patterns of holes among them, and which one each row has."""

    rows: Int[np.ndarray, " rows"]
    seen: Bool[np.ndarray, "patterns scores"]
    which: Int[np.ndarray, " rows"]


@dataclass(frozen=True, eq=False)
class Gaussian:
    """A fitted Gaussian copula.

    Parameters
    ----------
    columns
        The columns of the table.
    warps
        The way of each column to its normal score; None for levels without order.
    places
        Where the scores of each column stand, those of levels without order first; nowhere for a
        column of which nothing was observed.
    shift, scale
        What scores are standardised by.
    mean, covariance
        The law of the standardised scores of a row.
    """

    columns: tuple[Column, ...]
    warps: tuple[Warp | None, ...]
    places: tuple[slice, ...]
    shift: Vector
    scale: Vector
    mean: Vector
    covariance: Matrix

    def fill(self, values: TableValues, mask: TableMask) -> TableValues:
        """Fill holes: numbers with their mean, in the user's units, levels with the likeliest.

        Means are not rounded. Observed cells stay as they are; holes of a column of which nothing
        was observed in fitting are NaN.
        """
        filled = np.where(mask, values, np.nan)
        scores = self._scores(values, mask)
        for batch in _batches(~np.isnan(scores)):
            location, covariance = self._given(scores, batch)
            variance = np.diagonal(covariance, axis1=1, axis2=2)[batch.which]
            for j, warp, place in self._fitted():
                holes = ~mask[batch.rows, j]
                at, width = location[holes, place], np.sqrt(variance[holes, place])
                if warp is None:
                    found = self._shares(at, place).argmax(1)
                elif isinstance(warp, Levels):
                    found = np.diff(ndtr((warp.edges - at) / width)).argmax(1)
                else:
                    found = warp.mean(at[:, 0], width[:, 0])
                filled[batch.rows[holes], j] = found
        return filled

    def sample(
        self, values: TableValues, mask: TableMask, draws: int, seed: int
    ) -> Float[np.ndarray, "draws rows columns"]:
        """Draw all holes of each row together, several times; all values are legal ones."""
        rng = np.random.default_rng(seed)
        drawn = np.repeat(np.where(mask, values, np.nan)[None], draws, axis=0)
        scores = self._scores(values, mask)
        for batch in _batches(~np.isnan(scores), draws):
            location, covariance = self._given(scores, batch)
            seen = batch.seen[batch.which]
            # Scores that are seen have no noise, and their unit diagonal is not used.
            root = np.linalg.cholesky(_within(~batch.seen, covariance))[batch.which]
            noise = rng.standard_normal((*seen.shape, draws)) * ~seen[:, :, None]
            for j, warp, place in self._fitted():
                holes = ~mask[batch.rows, j]
                at = (
                    location[holes, place, None]
                    + root[holes, place, : place.start] @ (noise[holes, : place.start])
                )
                if warp is None:
                    shares = np.cumsum(self._shares(at, place), axis=1)
                    level = (
                        shares[:, :-1] <= rng.random((len(at), 1, draws)) * shares[:, -1:]
                    ).sum(1)
                    # What the level says of the scores after it.
                    score = _indicators(level, place) - self.shift[place, None]
                    own = np.linalg.solve(
                        root[holes, place, place], score / self.scale[place, None] - at
                    )
                    noise[holes, place] = np.clip(own, -FURTHEST, FURTHEST)
                    found = level
                else:
                    found = warp.value(
                        at[:, 0] + root[holes, place, place][:, 0] * noise[holes, place][:, 0]
                    )
                drawn[:, batch.rows[holes], j] = found.T
        return drawn

    def _fitted(self) -> Iterator[tuple[int, Warp | None, slice]]:
        """Give the columns that have scores, in the order of these."""
        for j in np.argsort([place.start for place in self.places], kind="stable"):
            if self.places[j].stop > self.places[j].start:
                yield int(j), self.warps[j], self.places[j]

    def _scores(self, values: TableValues, mask: TableMask) -> Scores:
        """Give the standardised scores of rows, NaN where a cell is not observed."""
        scores = np.full((len(values), len(self.shift)), np.nan)
        for j, warp, place in self._fitted():
            x = values[mask[:, j], j]
            if warp is None:
                scores[mask[:, j], place] = _indicators(x, place)
            else:
                scores[mask[:, j], place] = np.clip(warp.latent(x), -FURTHEST, FURTHEST)[:, None]
        return (scores - self.shift) / self.scale

    def _given(
        self, scores: Scores, batch: Batch
    ) -> tuple[Float[np.ndarray, "batch scores"], Matrices]:
        """Give the mean of each row given what is seen of it, and the covariance of patterns."""
        gain = self.covariance @ _inverse(self.covariance, batch.seen)
        away = np.where(batch.seen[batch.which], scores[batch.rows] - self.mean, 0.0)
        location = self.mean + (gain[batch.which] @ away[:, :, None])[:, :, 0]
        return location, self.covariance - gain @ self.covariance

    def _shares(
        self, location: Float[np.ndarray, "rows indicators *draws"], place: slice
    ) -> Float[np.ndarray, "rows levels *draws"]:
        """Give the shares of all levels, not yet adding up to one, from those of indicators."""
        shape = (-1,) + (1,) * (location.ndim - 2)
        others = self.shift[place].reshape(shape) + self.scale[place].reshape(shape) * location
        first = 1.0 - others.sum(1, keepdims=True)
        return np.maximum(np.concatenate([first, others], axis=1), 0.0)


def fit_gaussian(columns: tuple[Column, ...], values: TableValues, mask: TableMask) -> Gaussian:
    """Fit a Gaussian copula to the observed cells of a table.

    Parameters
    ----------
    columns
        The modelled columns of a schema.
    values, mask
        The table, as `hhvaem.table.encode` gives it: levels by index, True where observed.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=500)
    >>> values = np.stack([x, np.exp(x)], axis=1)
    >>> columns = (Column("x", "real"), Column("y", "positive"))
    >>> model = fit_gaussian(columns, values, rng.random((500, 2)) < 0.8)
    >>> hidden = np.array([[1.0, np.nan]])
    >>> model.fill(hidden, np.array([[True, False]])).round(0)
    array([[1., 3.]])
    >>> model.sample(hidden, np.array([[True, False]]), draws=3, seed=0).shape
    (3, 1, 2)
    """
    warps, widths = [], []
    for j, column in enumerate(columns):
        x = values[mask[:, j], j]
        warps.append(_warp(column, x))
        widths.append(0 if not x.size else 1 if warps[j] is not None else len(column.levels) - 1)
    order = sorted(range(len(columns)), key=lambda j: warps[j] is not None)
    ends = dict(zip(order, np.cumsum([widths[j] for j in order]).tolist(), strict=True))
    places = tuple(slice(ends[j] - width, ends[j]) for j, width in enumerate(widths))
    zero, one = np.zeros(sum(widths)), np.ones(sum(widths))
    start = Gaussian(columns, tuple(warps), places, zero, one, zero, np.diag(one))
    scores = start._scores(values, mask)
    shift = np.nanmean(scores, axis=0)
    scale = np.nanstd(scores, axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    law = fit_normal((scores - shift) / scale)
    return Gaussian(columns, tuple(warps), places, shift, scale, *law)


def fit_normal(
    scores: Scores, *, prior_rows: float = PRIOR_ROWS, tolerance: float = TOLERANCE
) -> tuple[Vector, Matrix]:
    """Find the mean and the covariance of rows with holes, NaN, by expectation-maximisation.

    Parameters
    ----------
    scores
        Numbers that are about standardised.
    prior_rows
        The covariance is the likeliest one under a prior that adds so many rows' worth of the
        unit matrix.
    tolerance
        The change of the mean or of the covariance that ends the search.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(50, 3))
    >>> mean, covariance = fit_normal(x, prior_rows=1e-9)
    >>> bool(np.allclose(mean, x.mean(0)))
    True
    >>> bool(np.allclose(covariance, np.cov(x.T, bias=True)))
    True
    """
    rows, width = scores.shape
    mean, covariance = np.zeros(width), np.eye(width)
    batches = list(_batches(~np.isnan(scores)))
    for _ in range(STEPS):
        # The gradient of the log likelihood by mean and covariance; from it the step follows.
        slope, curve = np.zeros(width), np.zeros((width, width))
        for batch in batches:
            inverse = _inverse(covariance, batch.seen)
            away = np.where(batch.seen[batch.which], scores[batch.rows] - mean, 0.0)
            weighed = (inverse[batch.which] @ away[:, :, None])[:, :, 0]
            slope += weighed.sum(0)
            counts = np.bincount(batch.which).astype(float)
            curve += weighed.T @ weighed - np.tensordot(counts, inverse, 1)
        step = covariance @ slope / rows
        found = covariance + covariance @ curve @ covariance / rows - np.outer(step, step)
        found = (rows * found + prior_rows * np.eye(width)) / (rows + prior_rows)
        moved = np.concatenate([step, (found - covariance).ravel()])
        mean, covariance = mean + step, (found + found.T) / 2
        if np.abs(moved).max(initial=0.0) < tolerance:
            break
    return mean, covariance


def _warp(column: Column, x: Float[np.ndarray, " seen"]) -> Warp | None:
    if column.kind == "categorical" or not x.size:
        return None
    if column.levels:
        return Levels.fit(x, len(column.levels))
    lower, upper, step = column.support
    return fit_gaussianising(x, step=step, lower=lower, upper=upper)


def _indicators(
    levels: Float[np.ndarray, "rows *draws"] | Int[np.ndarray, "rows *draws"], place: slice
) -> Float[np.ndarray, "rows indicators *draws"]:
    others = np.arange(1, place.stop - place.start + 1)
    return np.stack([levels == other for other in others], axis=1).astype(float)


def _batches(seen: Bool[np.ndarray, "rows scores"], draws: int = 1) -> Iterator[Batch]:
    """Give rows some at a time, those with the same holes together."""
    patterns, which = np.unique(seen, axis=0, return_inverse=True)
    which = which.ravel()  # of rows, NumPy 2.0.0 gives a column
    order = np.argsort(which, kind="stable")
    width = max(seen.shape[1], 1)
    size = max(BATCH // (width * max(width, draws)), 1)
    for start in range(0, len(order), size):
        rows = order[start : start + size]
        here, own = np.unique(which[rows], return_inverse=True)
        yield Batch(rows, patterns[here], own)


def _within(kept: Bool[np.ndarray, "patterns scores"], matrix: np.ndarray) -> Matrices:
    """Keep the rows and columns of each pattern; the others are those of the unit matrix."""
    return np.where(kept[:, :, None] & kept[:, None, :], matrix, np.eye(kept.shape[1]))


def _inverse(covariance: Matrix, seen: Bool[np.ndarray, "patterns scores"]) -> Matrices:
    """Invert the covariance of what is seen; the rest is 0."""
    inverse = np.linalg.inv(_within(seen, covariance))
    return inverse * (seen[:, :, None] & seen[:, None, :])
