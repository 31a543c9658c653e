"""The distribution of one column: atoms and a smooth part.

Atoms are values that many rows share. The smooth part is made of normal kernels, wide where the
data are sparse, over a faint normal that reaches everywhere. Kernels stand on the axis of values,
or where the column is skewed on that of their logarithms: the tail of a skewed column is seen by so
few rows that kernels alone make it far too long.
"""

import itertools
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from hhvaem.warps import Array

# Kernels at most; more rows share kernels by rank.
KERNELS = 128
# A column in which new rows repeat old values at least this often has atoms only.
REPEATED = 0.98
# Rows and folds that choose the smoothness.
TRIAL_ROWS, TRIAL_FOLDS = 1500, 3
# Kernel widths to choose from: the share of all kernels that one spans, and how far it follows
# the local density (1: fully; 1/2: as its root, after Abramson 1982). None: one normal for all.
WIDTHS: tuple[tuple[float, float] | None, ...] = (
    *itertools.product((0.015, 0.03, 0.06, 0.12, 0.25), (0.5, 1.0)),
    None,
)


# Kernels are no narrower, or densities would overflow.
NARROWEST = 1e-200
# How far the logarithm's zero is beyond the outermost value on the short side: as a share of the
# way from there to the median. And kernel widths to choose from on such an axis.
BENDS = (0.1, 0.3, 1.0)
BENT_WIDTHS: tuple[tuple[float, float] | None, ...] = (None, (0.12, 0.5))


class Choice(NamedTuple):
    """What share of rows makes a value an atom, how wide kernels are, and how bent their axis."""

    atom: float
    width: tuple[float, float] | None
    bend: float | None = None


class Axis(NamedTuple):
    """Where kernels stand: at values, or at the logarithm of how far values are from `zero`.

    `sign` is 1 where values are above `zero`, -1 where they are below, and 0 where nothing is bent.
    """

    sign: float = 0.0
    zero: float = 0.0

    def at(self, x: Array) -> Array:
        """Give the places of values; those beyond zero are infinitely far."""
        if not self.sign:
            return x
        with np.errstate(divide="ignore"):
            return self.sign * np.log(np.maximum(self.sign * (x - self.zero), 0.0))

    def value(self, place: Array) -> Array:
        """Give the values at places."""
        if not self.sign:
            return place
        return self.zero + self.sign * np.exp(np.clip(self.sign * place, -700.0, 700.0))

    def log_slope(self, x: Array) -> Array:
        """Give the log of how many places there are to a value, 0 beyond zero."""
        far = np.where(self.sign * (x - self.zero) > 0, np.abs(x - self.zero), 1.0)
        return -np.log(far)


# Every value that was seen is an atom.
ALL_ATOMS = Choice(0.0, (0.03, 0.5))


class Mixture(NamedTuple):
    """Atoms with masses, and kernels with centres, widths and masses, all adding up to one.

    Centres and widths are on the axis; atoms and bounds are values.
    """

    atoms: Array
    masses: Array
    centres: Array
    widths: Array
    weights: Array
    lower: float
    upper: float
    axis: Axis

    def below(self, x: Array) -> tuple[Array, Array, Array]:
        """Give the masses at values less than x, at x, and at values greater than x."""
        smooth = self.weights.sum()
        # Both tails are summed on their own: each keeps its digits where the other is near one.
        start, end = self._kernels(np.array([self.lower, self.upper]), 1.0)
        left = np.maximum(self._kernels(x, 1.0) - start, 0.0) * (smooth / max(end - start, 1e-300))
        end_left, end_right = self._kernels(np.array([self.lower, self.upper]), -1.0)
        right = np.maximum(self._kernels(x, -1.0) - end_right, 0.0)
        right = right * (smooth / max(end_left - end_right, 1e-300))
        rank_left = np.searchsorted(self.atoms, x, side="left")
        rank_right = np.searchsorted(self.atoms, x, side="right")
        cumulated = np.concatenate([[0.0], np.cumsum(self.masses)])
        remaining = np.concatenate([np.cumsum(self.masses[::-1])[::-1], [0.0]])
        here = cumulated[rank_right] - cumulated[rank_left]
        return left + cumulated[rank_left], here, right + remaining[rank_right]

    def log_density(self, x: Array) -> Array:
        """Give the log density of the smooth part."""
        # Beyond 40 widths a kernel is 0, and its square might overflow.
        z = np.clip((self.axis.at(x)[:, None] - self.centres) / self.widths, -40.0, 40.0)
        density = np.exp(-0.5 * z**2) @ (self.weights / self.widths) / np.sqrt(2 * np.pi)
        start, end = self._kernels(np.array([self.lower, self.upper]), 1.0)
        density = np.maximum(density, 1e-300) * (self.weights.sum() / max(end - start, 1e-300))
        return np.log(density) + self.axis.log_slope(x)

    def log_mass(self, low: Array, high: Array) -> Array:
        """Give the log probability of values between `low` and `high`, neither an atom."""
        below_low, _, above_low = self.below(low)
        below_high, _, above_high = self.below(high)
        mass = np.where(below_low < 0.5, below_high - below_low, above_low - above_high)
        return np.log(np.maximum(mass, 1e-300))

    def _kernels(self, x: Array, sign: float) -> Array:
        return ndtr(sign * (self.axis.at(x)[:, None] - self.centres) / self.widths) @ self.weights


def fit_mixture(x: Array, lower: float, upper: float, *, whole: bool) -> tuple[Mixture, bool]:
    """Fit the distribution of a column's observed values.

    Parameters
    ----------
    x
        Finite values between the bounds, at least one, none beyond 1 in size.
    lower, upper
        Bounds of the legal values, which may be infinite.
    whole
        Whether values are rounded anyway, so that smoothing does not make illegal ones.

    Returns
    -------
    mixture, only_atoms
        The distribution, and whether the column has no other values than those it has shown.
    """
    values, counts = np.unique(x, return_counts=True)
    repeated = (counts == 1).sum() <= (1 - REPEATED) * counts.sum()
    if repeated and not whole:
        choice = ALL_ATOMS
    else:
        choice = _choose(x, lower, upper, [ALL_ATOMS] if repeated else [])
    return _mixture(values, counts, choice, lower, upper), choice == ALL_ATOMS


def _mixture(
    values: Array, counts: np.ndarray, choice: Choice, lower: float, upper: float
) -> Mixture:
    """Make atoms of values that are seen often enough, kernels of the others."""
    rows = counts.sum()
    atom = counts >= (1 if choice == ALL_ATOMS else max(3.0, choice.atom * rows))
    width = choice.width
    if atom.all():
        # What is new appears about as often as values that were seen once (Good and Turing).
        smooth = ((counts == 1).sum() + 1) / (rows + 1)
        masses = counts / rows * (1 - smooth)
        sample = np.repeat(values, counts)
    else:
        masses = counts[atom] / (rows + 1)
        smooth = 1 - masses.sum()
        sample = np.repeat(values[~atom], counts[~atom])
    axis = Axis() if choice.bend is None else _bent(values, counts, choice.bend, lower, upper)
    places = np.sort(axis.at(sample))
    if width is None:
        centres, widths = np.array([places.mean()]), np.array([places.std() or 1e-3])
        shares = np.ones(1)
    else:
        parts = np.array_split(places, min(places.size, KERNELS))
        centres = np.array([part[part.size // 2] for part in parts])
        shares = np.array([part.size for part in parts]) / places.size
        gaps = _gaps(centres, round(np.sqrt(centres.size) / 2) + 1)
        typical = np.exp(np.mean(np.log(gaps)))
        share, power = width
        widths = share * centres.size * gaps**power * typical ** (1 - power)
    # What a kernel has beyond a bound is mirrored back, or density would be missing there.
    ends = axis.at(np.array([lower, upper]))
    for bound in ends:
        if np.isfinite(bound):
            near = np.abs(centres - bound) < 8 * widths
            centres = np.append(centres, 2 * bound - centres[near])
            widths, shares = np.append(widths, widths[near]), np.append(shares, shares[near])
    # One faint normal over everything, of one row's weight, so that nothing is impossible.
    everything = axis.at(values)
    mean = np.average(everything, weights=counts)
    spread = np.sqrt(np.average((everything - mean) ** 2, weights=counts))
    spread = spread or min(abs(mean) or 1.0, (ends[1] - ends[0]) / 4)
    faint = 1 / (rows + 1)
    weights = np.append(shares * (1 - faint), faint)
    return Mixture(
        values[atom],
        masses,
        np.append(centres, mean),
        np.maximum(np.append(widths, spread), NARROWEST),
        weights * smooth / weights.sum(),
        lower,
        upper,
        axis,
    )


def _bent(values: Array, counts: np.ndarray, bend: float, lower: float, upper: float) -> Axis:
    """Bend the axis on the side of the longer tail, from a zero beyond the other end.

    Where there is no room between that end and the bound, nothing is bent.
    """
    low, high = values[0], values[-1]
    middle = values[np.searchsorted(np.cumsum(counts), counts.sum() / 2)]
    if high - middle >= middle - low:
        zero = max(low - bend * (middle - low), lower)
        return Axis(1.0, zero) if zero < low else Axis()
    zero = min(high + bend * (high - middle), upper)
    return Axis(-1.0, zero) if zero > high else Axis()


def _gaps(centres: Array, reach: int) -> Array:
    """Give the typical distance between neighbours at each centre, on its denser side.

    The denser side, so that an outlier does not widen the kernels next to it.
    """
    count = centres.size
    if count == 1:
        return np.full(1, max(abs(centres[0]), 1e-3))
    place = np.arange(count)
    left, right = np.minimum(place, reach), np.minimum(count - 1 - place, reach)
    before = (centres - centres[place - left]) / np.maximum(left, 1)
    after = (centres[place + right] - centres) / np.maximum(right, 1)
    # Near an end, the side with too few neighbours to tell does not count.
    enough = np.minimum(2, np.maximum(left, right))
    gaps = np.minimum(
        np.where(left >= enough, before, np.inf), np.where(right >= enough, after, np.inf)
    )
    # Where neighbours are equal their distance is that of the closest that differ.
    positive = gaps[gaps > 0]
    return np.maximum(gaps, positive.min() if positive.size else 1e-3)


def _choose(x: Array, lower: float, upper: float, choices: list[Choice]) -> Choice:
    """Choose what makes an atom and how wide kernels are, by the scores of left-out rows."""
    x = np.random.default_rng(0).permutation(x)[:TRIAL_ROWS]
    if x.size < 2 * TRIAL_FOLDS:
        return Choice(1.0, None)
    ties = np.unique(x).size < x.size
    shares = (0.005, 0.02, 0.1, 1.0) if ties else (1.0,)
    straight = itertools.starmap(Choice, itertools.product(shares, WIDTHS))
    bent = itertools.starmap(Choice, itertools.product(shares, BENT_WIDTHS, BENDS))
    choices = [*choices, *straight, *bent]
    scores = {each: _left_out_scores(x, each, lower, upper, ties=ties) for each in choices}

    def best(among: Iterable[Choice]) -> Choice:
        return max(among, key=lambda each: scores[each].mean())

    # One normal is preferred, and then one on a bent axis, until something is better by more than
    # chance.
    found = best(choices)
    normal = Choice(found.atom or 1.0, None)
    for simple in (normal, best(normal._replace(bend=bend) for bend in BENDS)):
        gain = scores[found] - scores[simple]
        if not gain.mean() > gain.std() / np.sqrt(gain.size):
            return simple
    return found


def _left_out_scores(x: Array, choice: Choice, lower: float, upper: float, *, ties: bool) -> Array:
    folds = np.arange(x.size) % TRIAL_FOLDS
    scores = np.empty(x.size)
    for fold in range(TRIAL_FOLDS):
        left_out = folds == fold
        values, counts = np.unique(x[~left_out], return_counts=True)
        mixture = _mixture(values, counts, choice, lower, upper)
        # Each value once: where values repeat there are few of them.
        distinct, where = np.unique(x[left_out], return_inverse=True)
        if ties:
            scores[left_out] = mixture.log_mass(*rounding_interval(distinct, values))[where]
        else:
            scores[left_out] = mixture.log_density(distinct)[where]
    return scores


def rounding_interval(x: Array, values: Array) -> tuple[Array, Array]:
    """Give the interval that rounds to each x: half way to the next of the known values.

    Where values repeat, densities of models with and without atoms cannot be compared; the
    masses of these intervals can. At the ends, where there is no next value on one side, the
    interval is as wide as on the other: an open one would reward mass far out.
    """
    below = np.searchsorted(values, x, side="left") - 1
    above = np.searchsorted(values, x, side="right")
    low = np.where(below >= 0, (values[np.maximum(below, 0)] + x) / 2, -np.inf)
    high = np.where(
        above < values.size, (values[np.minimum(above, values.size - 1)] + x) / 2, np.inf
    )
    return np.where(below < 0, 2 * x - high, low), np.where(above < values.size, high, 2 * x - low)
