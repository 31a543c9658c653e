"""Monotone maps between a column's values and the latent number of its likelihood.

A warp says which stretch of the latent line shows as a given value. A value that is one of a
continuum belongs to a single latent number and has a density; a whole number, a level or a value
that many rows share (an atom) belongs to an interval and has a mass. Everything here runs on the
host in float64, so that 1e-9 and 1e9 are the same to what follows.
"""

import abc
from typing import NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Float
from scipy.special import ndtr, ndtri

# Stands for infinity on the latent line: finite, so that gradients at open ends are 0 and not NaN.
EDGE = 1e4
# An interval narrower than this is a density times its width: float32 could not resolve its ends.
NARROW = 1e-3

Array = Float[np.ndarray, "..."]


class Cell(NamedTuple):
    """The latent interval that shows as a value, and the log measure that goes with it.

    `low == high` is a single latent number with a density; `log_measure` is then the log slope
    of the map (or the log width of an interval too narrow to keep). It is 0 for an interval.
    """

    low: Array
    high: Array
    log_measure: Array


class Warp(eqx.Module):
    """A non-decreasing map between values `x` and latent numbers `w`."""

    @abc.abstractmethod
    def latent(self, x: Array) -> Array:
        """Give the latent number of a value (the middle of its interval for an atom)."""

    @abc.abstractmethod
    def value(self, w: Array) -> Array:
        """Give the value that a latent number shows as."""

    @abc.abstractmethod
    def cell(self, x: Array) -> Cell:
        """Give the latent interval that shows as `x`."""

    @property
    def support(self) -> tuple[float, float]:
        """The least and the greatest value there can be."""
        return -np.inf, np.inf

    @property
    def shown(self) -> tuple[float, float]:
        """The least and the greatest value that a latent number shows as."""
        return self.support

    @property
    def farthest(self) -> float:
        """How far out on the latent line a value can be seen, however large it is."""
        return EDGE

    @property
    def atoms(self) -> Array | None:
        """The only values there are, in order, where they are few; else None."""
        return None

    @property
    def discrete(self) -> bool:
        """Whether every value has a mass."""
        return self.atoms is not None

    def cut(self, x: Array) -> Array:
        """Give the latent number that parts the values below `x` from those above; no atom."""
        lower, upper = self.support
        ends = np.where(x <= lower, -EDGE, EDGE)
        inside = (x > lower) & (x < upper)
        ends[inside] = self.latent(x[inside])
        return ends

    def mean(self, location: Array, scale: Array) -> Array:
        """Give the mean value where the latent number is normal."""
        # The trapezoid rule is exact to rounding on smooth maps, to about 0.2 % on steps.
        nodes = np.linspace(-8.0, 8.0, 1601)
        weights = np.exp(-0.5 * nodes**2)
        values = self.value(location[..., None] + scale[..., None] * nodes)
        return values @ (weights / weights.sum())


class Affine(Warp):
    """Standardisation: the latent number is (x - shift) / scale."""

    shift: float
    scale: float

    @classmethod
    def fit(cls, x: Array) -> "Affine":
        """Standardise by the mean and the (unbiased) standard deviation of `x`."""
        return cls(*_moments(x))

    def latent(self, x: Array) -> Array:
        return (x - self.shift) / self.scale

    def value(self, w: Array) -> Array:
        return self.shift + self.scale * w

    def cell(self, x: Array) -> Cell:
        w = self.latent(x)
        return Cell(w, w, np.full_like(w, -np.log(self.scale)))

    def mean(self, location: Array, scale: Array) -> Array:
        return self.value(location)


class Log(Warp):
    """Standardised log(1 + x) for numbers that are not negative; what falls below 0 shows as 0."""

    shift: float
    scale: float

    @classmethod
    def fit(cls, x: Array) -> "Log":
        """Standardise log(1 + x) by its mean and standard deviation."""
        return cls(*_moments(np.log1p(x)))

    @property
    def support(self) -> tuple[float, float]:
        return 0.0, np.inf

    def latent(self, x: Array) -> Array:
        return (np.log1p(x) - self.shift) / self.scale

    def value(self, w: Array) -> Array:
        return np.expm1(np.clip(self.shift + self.scale * w, 0.0, 700.0))

    def cell(self, x: Array) -> Cell:
        w = self.latent(x)
        zero = x <= 0
        slope = -np.log1p(x) - np.log(self.scale)
        return Cell(np.where(zero, -EDGE, w), w, np.where(zero, 0.0, slope))

    def mean(self, location: Array, scale: Array) -> Array:
        # E[max(exp(y) - 1, 0)] for a normal y.
        mu, sigma = self.shift + self.scale * location, self.scale * scale
        rising = np.exp(np.minimum(mu + sigma**2 / 2, 700.0)) * ndtr(mu / sigma + sigma)
        return rising - ndtr(mu / sigma)


class Rounded(Warp):
    """Another warp whose values show only to the nearest multiple of `step`.

    `central` says that a value's latent number is the mean of its stretch and not where the smooth
    map has it: one that is fitted to run to infinity at a bound has a count of 0 far out.
    """

    smooth: Warp
    step: float
    lower: float
    upper: float
    central: bool = eqx.field(static=True, default=False)

    @property
    def support(self) -> tuple[float, float]:
        return self.lower, self.upper

    @property
    def shown(self) -> tuple[float, float]:
        least, most = self._nearest(np.array(self.smooth.shown)).tolist()
        return least, most

    @property
    def farthest(self) -> float:
        return self.smooth.farthest

    def cut(self, x: Array) -> Array:
        ends = self.smooth.cut(x)
        return np.where(x <= self.lower, -EDGE, np.where(x >= self.upper, EDGE, ends))

    def latent(self, x: Array) -> Array:
        if not self.central:
            return self.smooth.latent(x)
        cell = self.cell(x)
        return np.where(cell.low < cell.high, normal_between(cell.low, cell.high), cell.low)

    def value(self, w: Array) -> Array:
        return self._nearest(self.smooth.value(w))

    def _nearest(self, x: Array) -> Array:
        return np.clip(np.rint(x / self.step) * self.step, self.lower, self.upper)

    def cell(self, x: Array) -> Cell:
        half = self.step / 2
        return resolvable(self.smooth.cut(x - half), self.smooth.cut(x + half))

    @property
    def atoms(self) -> Array | None:
        return self.smooth.atoms

    @property
    def discrete(self) -> bool:
        return True


class Levels(Warp):
    """Ordered levels 0, 1, ...: each takes a stretch of the latent line, cut at `edges`."""

    edges: Array

    @classmethod
    def fit(cls, x: Array, levels: int) -> "Levels":
        """Cut the line so that a standard normal gives each level its share of `x`."""
        # Half a row is added to each level, so that one that was never drawn stays possible.
        counts = np.bincount(x.astype(int), minlength=levels) + 0.5
        edges = ndtri(np.cumsum(counts)[:-1] / counts.sum())
        return cls(np.concatenate([[-EDGE], edges, [EDGE]]))

    def latent(self, x: Array) -> Array:
        cell = self.cell(x)
        return normal_between(cell.low, cell.high)

    def value(self, w: Array) -> Array:
        return np.searchsorted(self.edges[1:-1], w, side="right").astype(float)

    def cell(self, x: Array) -> Cell:
        level = x.astype(int)
        return Cell(self.edges[level], self.edges[level + 1], np.zeros(x.shape))

    @property
    def atoms(self) -> Array:
        return np.arange(len(self.edges) - 1, dtype=float)


def normal_between(low: Array, high: Array) -> Array:
    """Give the mean of a standard normal number known to lie between two others."""
    # Mirrored to the left, where the cumulative distribution keeps its digits.
    flip = low > 0
    a, b = np.where(flip, -high, low), np.where(flip, -low, high)
    a, b = np.clip(a, -EDGE, EDGE), np.clip(b, -EDGE, EDGE)
    density_a, density_b = np.exp(-0.5 * a**2), np.exp(-0.5 * b**2)
    mass = (ndtr(b) - ndtr(a)) * np.sqrt(2 * np.pi)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = (density_a - density_b) / mass
    # Far out or very narrow, the ratio loses its digits and the middle is as good.
    mean = np.where((mass > 1e-12) & (b - a > 1e-6), mean, np.clip((a + b) / 2, a, b))
    return np.where(flip, -mean, mean)


def resolvable(low: Array, high: Array) -> Cell:
    """Make cells of intervals, those too narrow for float32 a density times their width."""
    # Halves, as the sum of what is near the largest number is none.
    middle, width = low / 2 + high / 2, high - low
    narrow = width < NARROW
    log_width = np.log(np.where(narrow, np.maximum(width, 1e-300), 1.0))
    return Cell(np.where(narrow, middle, low), np.where(narrow, middle, high), log_width)


def _moments(x: Array) -> tuple[float, float]:
    # In units of the largest, so that squares neither overflow nor vanish.
    unit = float(np.max(np.abs(x))) or 1.0
    scale = float(np.std(x / unit, ddof=1)) * unit if x.size > 1 else 0.0
    return float(np.mean(x / unit)) * unit, scale or 1.0
