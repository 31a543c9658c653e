"""The Gaussianising transform: a column's own distribution, mapped to a standard normal.

The cumulative distribution of the column (`mixtures.py`) followed by the normal quantile function
is tabulated, and the map *is* that table, linear between its knots and beyond its ends: its
slope, its inverse and its density are exact.
"""

import equinox as eqx
import numpy as np
from scipy.special import ndtr, ndtri

from hhvaem.mixtures import Mixture, fit_mixture
from hhvaem.warps import EDGE, Array, Cell, Rounded, Warp, normal_between, resolvable

# Scores beyond this, and rises below that, are lost in rounding.
OUTERMOST, RISE = 8.2, 1e-9
LARGEST = np.finfo(np.float64).max
# Knots beyond so many times the largest value are left out.
FARTHEST = 1e6
# No value is shown that is farther beyond the observed ones than this share of their range.
BEYOND = 0.5


class Gaussianising(Warp):
    """A monotone table from values to latent numbers; a value with two knots is an atom.

    Knots are in units of `unit`, a power of two, so that numbers of any size have a slope. What
    would be below `least` or above `most` shows as these: a few outliers make tails that run to
    numbers which nobody has seen, and one of them would spoil a mean.
    """

    knots: Array
    scores: Array
    unit: float
    lower: float
    upper: float
    only_atoms: bool = eqx.field(static=True)
    least: float = -np.inf
    most: float = np.inf

    @property
    def support(self) -> tuple[float, float]:
        return self.lower, self.upper

    @property
    def shown(self) -> tuple[float, float]:
        return max(self.lower, self.least), min(self.upper, self.most)

    @property
    def farthest(self) -> float:
        # No value that the map was fitted to is farther out: its last knots are beyond by one.
        return OUTERMOST + 1.0

    def latent(self, x: Array) -> Array:
        cell = self.cell(x)
        return np.where(cell.low < cell.high, normal_between(cell.low, cell.high), cell.low)

    def value(self, w: Array) -> Array:
        left, slope = self._segment(self.scores, w)
        x = self.knots[left] + (w - self.scores[left]) / slope
        # Between the two knots of an atom the slope is infinite and x is the atom.
        x = self._legal(x)
        if self.atoms is None:
            return x
        middles = (self.atoms[1:] + self.atoms[:-1]) / 2
        return self.atoms[np.searchsorted(middles, x)]

    def cell(self, x: Array) -> Cell:
        x = x / self.unit
        first = np.searchsorted(self.knots, x, side="left")
        last = np.searchsorted(self.knots, x, side="right") - 1
        atom = last > first
        left, slope = self._segment(self.knots, x)
        with np.errstate(invalid="ignore"):  # an atom at the very end, replaced below
            w = self.scores[left] + (x - self.knots[left]) * slope
        low = np.where(atom, self.scores[np.minimum(first, len(self.knots) - 1)], w)
        high = np.where(atom, self.scores[last], w)
        cell = resolvable(low, high)
        density = np.log(slope) - np.log(self.unit)
        return Cell(cell.low, cell.high, np.where(atom, cell.log_measure, density))

    @property
    def atoms(self) -> Array | None:
        if not self.only_atoms:
            return None
        return self.knots[:-1][self.knots[1:] == self.knots[:-1]] * self.unit

    def mean(self, location: Array, scale: Array) -> Array:
        if self.atoms is not None:
            return super().mean(location, scale)
        # Piece by piece, x is linear in w, and the moments of a cut normal are known.
        _, slope = self._segment(self.scores, (self.scores[1:] + self.scores[:-1]) / 2)
        start = self.knots[:-1] - self.scores[:-1] / slope
        outermost = self._scores_of(np.array([self.least, self.most]))
        ends = np.clip(np.concatenate([[-EDGE], self.scores[1:-1], [EDGE]]), *outermost)
        cuts = (ends - location[..., None]) / scale[..., None]
        below = ndtr(cuts)
        density = np.exp(-0.5 * cuts**2) / np.sqrt(2 * np.pi)
        mass = np.diff(below)
        moment = location[..., None] * mass - scale[..., None] * np.diff(density)
        inside = (start * mass + moment / slope).sum(-1)
        # Nothing is beyond where the map has no end.
        at = np.where(np.abs(outermost) < EDGE, [self.least, self.most], 0.0) / self.unit
        return self._legal(inside + at[0] * below[..., 0] + at[1] * (1 - below[..., -1]))

    def _scores_of(self, x: Array) -> Array:
        """Give the latent numbers of values that are no atoms; `EDGE` of those that are none."""
        left, slope = self._segment(self.knots, np.where(np.isfinite(x), x / self.unit, 0.0))
        with np.errstate(invalid="ignore", over="ignore"):
            w = self.scores[left] + (x / self.unit - self.knots[left]) * slope
        return np.clip(np.where(np.isnan(w), np.sign(x) * EDGE, w), -EDGE, EDGE)

    def _legal(self, x: Array) -> Array:
        """Take numbers in units back to the column's own, and to the nearest that is legal."""
        with np.errstate(over="ignore"):
            x = np.clip(x * self.unit, -LARGEST, LARGEST)
        return np.clip(x, *self.shown)

    def _segment(self, axis: Array, at: Array) -> tuple[np.ndarray, Array]:
        """Give the left knot of the segment that holds each point, and the slope dw/dx there."""
        left = np.clip(np.searchsorted(axis, at, side="right") - 1, 0, len(axis) - 2)
        run, rise = np.diff(self.knots), np.diff(self.scores)
        slope = np.divide(rise, run, out=np.full(rise.shape, np.inf), where=run > 0)
        return left, slope[left]


def fit_gaussianising(
    x: Array,
    *,
    step: float | None = None,
    lower: float = -np.inf,
    upper: float = np.inf,
) -> Warp:
    """Fit the transform to the observed values of a column.

    Parameters
    ----------
    x
        Finite values, at least one.
    step
        Spacing of the legal values, where there is one (1 for whole numbers).
    lower, upper
        Bounds of the legal values.

    Returns
    -------
    Warp
        Under it the values are about standard normal.

    Examples
    --------
    >>> x = np.random.default_rng(0).lognormal(size=1000)
    >>> warp = fit_gaussianising(x, lower=0.0)
    >>> w = warp.latent(x)
    >>> bool(abs(w.mean()) < 0.05), bool(abs(w.std() - 1) < 0.05)
    (True, True)
    >>> bool(np.allclose(warp.value(w), x))
    True
    """
    # In units of the largest, so that squares neither overflow nor vanish.
    unit = 2.0 ** min(int(np.frexp(np.max(np.abs(x)))[1]), 1023)
    mixture, only_atoms = fit_mixture(x / unit, lower / unit, upper / unit, whole=step is not None)
    knots, scores = _tabulate(mixture)
    ends = np.array([x.min(), x.max()]) / unit
    least, most = -np.inf, np.inf
    # A single value says nothing of how far others are.
    if np.ptp(ends) > 0:
        ends = ends + BEYOND * np.ptp(ends) * np.array([-1.0, 1.0])
        with np.errstate(over="ignore"):
            least, most = np.clip(ends * unit, -LARGEST, LARGEST).tolist()
    warp = Gaussianising(knots, scores, unit, lower, upper, only_atoms, least, most)
    return warp if step is None else Rounded(warp, step, lower, upper, central=True)


def _tabulate(mixture: Mixture) -> tuple[Array, Array]:
    """Tabulate the normal quantiles of the cumulative distribution."""
    offsets = np.array([-4.0, -2.5, -1.5, -0.75, 0.0, 0.75, 1.5, 2.5, 4.0])
    places = (mixture.centres[:, None] + mixture.widths[:, None] * offsets).ravel()
    places = np.append(places, mixture.centres[-1] + mixture.widths[-1] * np.linspace(-8, 8, 65))
    x = mixture.axis.value(places)
    x = x[(x > mixture.lower) & (x < mixture.upper) & (np.abs(x) < FARTHEST)]
    # The map runs to infinity at a bound: knots that halve the distance follow it.
    halves = 0.5 ** np.arange(1, 41)
    for bound, nearest in ((mixture.lower, x.min()), (mixture.upper, x.max())):
        if np.isfinite(bound):
            x = np.append(x, bound + (nearest - bound) * halves)
    x = np.setdiff1d(x, mixture.atoms)
    x = np.concatenate([x, mixture.atoms, mixture.atoms])
    first = np.concatenate(
        [np.ones(x.size - mixture.atoms.size, bool), np.zeros(mixture.atoms.size, bool)]
    )
    order = np.lexsort([~first, x])
    x, first = x[order], first[order]
    left, here, right = mixture.below(x)
    left, right = np.where(first, left, left + here), np.where(first, right + here, right)
    with np.errstate(divide="ignore"):
        scores = np.where(left < 0.5, ndtri(np.minimum(left, 1.0)), -ndtri(np.minimum(right, 1.0)))
    return _increasing(x, scores, mixture)


def _increasing(x: Array, scores: Array, mixture: Mixture) -> tuple[Array, Array]:
    """Keep the knots at which the map rises, and give it ends to be extended from."""
    atom = np.isin(x, mixture.atoms)
    # An atom at a bound takes all that lies beyond; other scores end where rounding does.
    at_bound = atom & ((x <= mixture.lower) | (x >= mixture.upper))
    scores = np.clip(scores, *np.where(at_bound, EDGE, OUTERMOST) * np.array([[-1.0], [1.0]]))
    keep: list[int] = []
    for i in range(x.size):
        if atom[i] or (
            abs(scores[i]) < OUTERMOST and (not keep or scores[i] > scores[keep[-1]] + RISE)
        ):
            keep.append(i)
    x, scores = x[keep], scores[keep]
    # Atoms are kept however close they are, also where rounding makes the map fall between them.
    for later in np.flatnonzero(np.diff(x) > 0) + 1:
        scores[later] = max(scores[later], np.nextafter(scores[later - 1], np.inf))
    scores = np.maximum.accumulate(scores)
    centre, width = mixture.centres[-1], mixture.widths[-1]
    reach = np.abs(np.diff(mixture.axis.value(np.array([centre, centre + width])))).item()
    if x[0] > mixture.lower:
        x = np.insert(x, 0, max(mixture.lower, x[0] - reach))
        scores = np.insert(scores, 0, scores[0] - 1.0)
    if x[-1] < mixture.upper:
        x = np.append(x, min(mixture.upper, x[-1] + reach))
        scores = np.append(scores, scores[-1] + 1.0)
    return x, scores
