"""The law of one cell given what the decoder says of it.

Three laws serve all kinds of columns. `Ordered` has a normal latent number behind a warp
(`warps.py`): real numbers and dates (`Affine`), positive numbers (`Log`), counts (`Rounded`),
ordered levels (`Levels`), and numbers of any shape (`Gaussianising`). `Binary` has one logit,
`Categorical` one for each level. Values are in the user's units (levels by their index), and so
are densities: the log slope of the warp is included. A value with a mass gets its log mass.

The functions at the end are the same laws on cells that were warped beforehand, in pure JAX: what
training and sampling run.
"""

import abc
import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray
from numpy.polynomial import chebyshev
from scipy.special import erfcx, ndtr, ndtri

from hhvaem.warps import EDGE, Warp, normal_between

Parameters = Float[Array, "*batch cells width"]
Values = Float[np.ndarray, "*batch cells"]


class Grid(NamedTuple):
    """A partition of a column's values: a point of each part, and its latent interval."""

    points: Float[np.ndarray, " parts"]
    low: Float[np.ndarray, " parts"]
    high: Float[np.ndarray, " parts"]


class Likelihood(eqx.Module):
    """The law of a cell; all methods take one or more cells at once."""

    @property
    @abc.abstractmethod
    def width(self) -> int:
        """The number of parameters of one cell."""

    @abc.abstractmethod
    def log_prob(self, parameters: Parameters, x: Values) -> Float[Array, "*batch cells"]:
        """Give the log density of values, or their log mass where they have one."""

    @abc.abstractmethod
    def sample(self, parameters: Parameters, *, key: PRNGKeyArray) -> Values:
        """Draw a value for each set of parameters."""

    @abc.abstractmethod
    def mean(self, parameters: Parameters) -> Values:
        """Give the mean value (of the level's index, where there are levels)."""

    @abc.abstractmethod
    def mode(self, parameters: Parameters) -> Values:
        """Give the most probable value."""

    @abc.abstractmethod
    def grid(self, size: int) -> Grid:
        """Part the values into at most `size` pieces (levels: as many as there are)."""

    @abc.abstractmethod
    def grid_log_prob(
        self, parameters: Parameters, grid: Grid
    ) -> Float[Array, "*batch cells parts"]:
        """Give the log probability of each part of a grid."""


class Ordered(Likelihood):
    """A normal latent number (parameters: location and log scale) seen through a warp.

    Examples
    --------
    >>> from hhvaem.warps import Affine
    >>> height = Ordered(Affine(shift=170.0, scale=10.0))
    >>> standard = jnp.array([[0.0, 0.0]])
    >>> height.mean(standard)
    array([170.])
    >>> height.cdf(standard, np.array([180.0])).round(3)
    array([0.841])
    """

    warp: Warp

    @property
    def width(self) -> int:
        return 2

    def log_prob(self, parameters: Parameters, x: Values) -> Float[Array, "*batch cells"]:
        cell = self.warp.cell(x)
        dtype = parameters.dtype
        law = ordered_log_prob(
            parameters[..., 0],
            parameters[..., 1],
            jnp.asarray(cell.low, dtype),
            jnp.asarray(cell.high, dtype),
        )
        return law + jnp.asarray(cell.log_measure, dtype)

    def sample(self, parameters: Parameters, *, key: PRNGKeyArray) -> Values:
        location, scale = _host(parameters)
        noise = jax.random.normal(key, location.shape)
        return self.warp.value(location + scale * np.asarray(noise, np.float64))

    def mean(self, parameters: Parameters) -> Values:
        return self.warp.mean(*_host(parameters))

    def mode(self, parameters: Parameters) -> Values:
        location, scale = _host(parameters)
        # Candidates at the quantiles: where the density peaks there are many of them.
        nodes = ndtri((np.arange(1024) + 0.5) / 1024)
        values = self.warp.value(location[..., None] + scale[..., None] * nodes)
        cell = self.warp.cell(values)
        spread = jnp.broadcast_to(parameters[..., None, :], (*values.shape, 2))
        score = np.asarray(self.log_prob(spread, values), np.float64)
        # A mass beats a density where masses are more than half of all.
        atom = (cell.low < cell.high) | self.warp.discrete
        atoms_win = atom.mean(-1, keepdims=True) > 0.5
        best = np.argmax(np.where(atom == atoms_win, score, -np.inf), axis=-1)
        return np.take_along_axis(values, best[..., None], axis=-1)[..., 0]

    def cdf(self, parameters: Parameters, x: Values) -> Values:
        """Give the probability of a value not greater than `x`."""
        location, scale = _host(parameters)
        return ndtr((self.ends(x)[1] - location) / scale)

    def quantile(self, parameters: Parameters, q: Values) -> Values:
        """Give the value that a share `q` of cells does not exceed."""
        location, scale = _host(parameters)
        return self.warp.value(location + scale * ndtri(q))

    def grid(self, size: int) -> Grid:
        if self.warp.atoms is not None and len(self.warp.atoms) <= size:
            low, high = self.ends(self.warp.atoms)
            # What lies between two atoms goes to both in halves, so that nothing is lost.
            cuts = (high[:-1] + low[1:]) / 2
            edges = np.concatenate([[-EDGE], cuts, [EDGE]])
            return Grid(self.warp.atoms, edges[:-1], edges[1:])
        edges = np.concatenate([[-EDGE], np.linspace(-4.0, 4.0, size - 1), [EDGE]])
        low, high = edges[:-1], edges[1:]
        return Grid(self.warp.value(normal_between(low, high)), low, high)

    def grid_log_prob(
        self, parameters: Parameters, grid: Grid
    ) -> Float[Array, "*batch cells parts"]:
        shape = (*parameters.shape[:-1], len(grid.points))
        return ordered_log_prob(
            jnp.broadcast_to(parameters[..., :1], shape),
            jnp.broadcast_to(parameters[..., 1:], shape),
            jnp.broadcast_to(jnp.asarray(grid.low, parameters.dtype), shape),
            jnp.broadcast_to(jnp.asarray(grid.high, parameters.dtype), shape),
        )

    def ends(self, x: Values) -> tuple[Values, Values]:
        """Give the ends of what shows as values, undoing the shortcut for narrow cells."""
        cell = self.warp.cell(x)
        narrow = self.warp.discrete & (cell.low == cell.high)
        half = np.where(narrow, np.exp(cell.log_measure) / 2, 0.0)
        # Whatever lies beyond the last value that is shown shows as that one.
        least, most = self.warp.shown
        low = np.where(x <= least, -EDGE, np.where(x > most, EDGE, cell.low - half))
        high = np.where(x >= most, EDGE, np.where(x < least, -EDGE, cell.high + half))
        return low, high


class Binary(Likelihood):
    """Two levels, 0 and 1; the parameter is the logit of 1."""

    @property
    def width(self) -> int:
        return 1

    def log_prob(self, parameters: Parameters, x: Values) -> Float[Array, "*batch cells"]:
        return binary_log_prob(parameters[..., 0], jnp.asarray(x, parameters.dtype))

    def sample(self, parameters: Parameters, *, key: PRNGKeyArray) -> Values:
        share = jax.nn.sigmoid(parameters[..., 0])
        return np.asarray(jax.random.bernoulli(key, share), np.float64)

    def mean(self, parameters: Parameters) -> Values:
        return np.asarray(jax.nn.sigmoid(parameters[..., 0]), np.float64)

    def mode(self, parameters: Parameters) -> Values:
        return np.asarray(parameters[..., 0] > 0, np.float64)

    def grid(self, size: int) -> Grid:
        return _levels(2)

    def grid_log_prob(
        self, parameters: Parameters, grid: Grid
    ) -> Float[Array, "*batch cells parts"]:
        logit = parameters[..., 0]
        return jnp.stack([jax.nn.log_sigmoid(-logit), jax.nn.log_sigmoid(logit)], axis=-1)


class Categorical(Likelihood):
    """Levels 0, 1, ... without order; the parameters are their logits."""

    levels: int = eqx.field(static=True)

    @property
    def width(self) -> int:
        return self.levels

    def log_prob(self, parameters: Parameters, x: Values) -> Float[Array, "*batch cells"]:
        return categorical_log_prob(parameters, jnp.asarray(x, jnp.int32))

    def sample(self, parameters: Parameters, *, key: PRNGKeyArray) -> Values:
        return np.asarray(jax.random.categorical(key, parameters), np.float64)

    def mean(self, parameters: Parameters) -> Values:
        shares = np.asarray(jax.nn.softmax(parameters), np.float64)
        return shares @ np.arange(self.levels)

    def mode(self, parameters: Parameters) -> Values:
        return np.asarray(jnp.argmax(parameters, axis=-1), np.float64)

    def grid(self, size: int) -> Grid:
        return _levels(self.levels)

    def grid_log_prob(
        self, parameters: Parameters, grid: Grid
    ) -> Float[Array, "*batch cells parts"]:
        return jax.nn.log_softmax(parameters)


@jax.custom_jvp
def ordered_log_prob(
    location: Float[Array, "*n"],
    log_scale: Float[Array, "*n"],
    low: Float[Array, "*n"],
    high: Float[Array, "*n"],
) -> Float[Array, "*n"]:
    """Give the log probability that a normal number lies between `low` and `high`.

    Where the two are equal it is the log density there. It keeps its digits, and so does its
    gradient by the location and the scale, for intervals of any width anywhere; the one by the ends
    loses some from ten scales on.
    """
    return _placed(location, log_scale, low, high)[0]


def _placed(
    location: Float[Array, "*n"],
    log_scale: Float[Array, "*n"],
    low: Float[Array, "*n"],
    high: Float[Array, "*n"],
) -> tuple[Float[Array, "*n"], "_Standard", Float[Array, "*n"], Float[Array, "*n"]]:
    """Give the log probability, and the interval in units of the scale from the location."""
    per_scale = jnp.exp(-log_scale)
    ends = (low - location) * per_scale, (high - location) * per_scale
    # What takes time is set apart from what is around it: it is then one loop over numbers that
    # lie beside each other, of which processors take eight at a time.
    apart: Any = lax.optimization_barrier  # which has no types
    start, end = apart(ends)
    found = _Standard(*map(apart, _standard(start, end)))
    size = jnp.where(high > low, high - low, 1.0) * per_scale
    return found.log_prob + jnp.where(found.wide, 0.0, jnp.log(size)), found, start, end


def _log_prob_change(
    primals: tuple[Array, Array, Array, Array], tangents: tuple[Any, Any, Any, Any]
) -> tuple[Float[Array, "*n"], Float[Array, "*n"]]:
    """Give the log probability, and how it changes with what it depends on."""
    _, log_scale, low, high = primals
    log_prob, found, start, end = _placed(*primals)
    by_location = found.by_place * jnp.exp(-log_scale)

    def by_end(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
        density = jnp.exp(-0.5 * x**2 - _LOG_ROOT_2PI - log_scale - log_prob)
        return jnp.where(high > low, density, 0.0)

    # Where there is no width, both ends are the point, and half of it each.
    half = jnp.where(high > low, 0.0, 0.5 * by_location)
    slopes = by_location, found.by_log_scale, -by_end(start) - half, by_end(end) - half
    change = jnp.zeros_like(log_prob)
    for slope, tangent in zip(slopes, tangents, strict=True):
        if not isinstance(tangent, SymbolicZero):
            change = change + slope * tangent
    return log_prob, change


ordered_log_prob.defjvp(_log_prob_change, symbolic_zeros=True)


class _Standard(NamedTuple):
    """What a standard normal number does in an interval, and its change with place and scale.

    The log probability lacks the log of the width where the interval is not `wide`.
    """

    log_prob: Float[Array, "*n"]
    wide: Bool[Array, "*n"]
    by_place: Float[Array, "*n"]
    by_log_scale: Float[Array, "*n"]


def _standard(start: Float[Array, "*n"], end: Float[Array, "*n"]) -> _Standard:
    """Look at an interval: series and a polynomial, where a library has branch upon branch.

    Derivatives need no more than the densities at the ends. Most of a chain's time goes by here.
    """
    middle, width = (start + end) / 2, end - start
    wide = width * jnp.maximum(1.0, jnp.abs(middle)) >= _NARROW
    # Narrow: the density's Taylor series about the middle, in Hermite's polynomials, integrated:
    # its mean is a multiple 1 + excess of that in the middle. In powers of the width and of its
    # product with the distance, as those of the distance alone may be beyond all floats.
    centre, v = jnp.where(wide, 0.0, middle), jnp.where(wide, 0.0, width) ** 2
    w = jnp.where(wide, 0.0, width * middle) ** 2
    second, fourth = (w - v) / 24, (w * (w - 6 * v) + 3 * v**2) / 1_920
    sixth = (w * (w * (w - 15 * v) + 45 * v**2) - 15 * v**3) / 322_560
    excess = second + fourth + sixth
    log_mean = excess * (1.0 - excess * (1 / 2 - excess / 3))
    slope = 1 / 12 + (4 * w - 12 * v) / 1_920 + (w * (6 * w - 60 * v) + 90 * v**2) / 322_560
    by_centre, by_log_centre = centre * v * slope, w * slope
    by_log_width = 2 * second + 4 * fourth + 6 * sixth
    share = 1 / (1 + excess)
    # Wide: the difference of two tails, mirrored to the left of the location, where none is near 1,
    # as multiples of the right one where that is a tail. The difference of the squares is taken
    # before they are rounded.
    flip = middle > 0
    left, right = jnp.where(flip, -end, start), jnp.where(flip, -start, end)
    (left_power, left_rest), (right_power, right_rest) = _tail(left), _tail(-jnp.abs(right))
    beyond = right > 0
    fall = 0.5 * (right - left) * (right + left)
    to_left = jnp.where(beyond, -0.5 * left**2, fall - right_power)
    to_right = jnp.where(beyond, -0.5 * right**2, -right_power)
    lower = jnp.exp(left_power + to_left) * left_rest
    # Beyond the location, what is above the right end is taken from all.
    upper = jnp.where(beyond, 2.0 - jnp.exp(right_power + to_right) * right_rest, right_rest)
    mass = jnp.where(wide, 0.5 * (upper - lower), 1.0)
    log_mass = jnp.where(beyond, 0.0, right_power - 0.5 * right**2) + jnp.log(mass)
    at_left, at_right = (jnp.exp(to - _LOG_ROOT_2PI) / mass for to in (to_left, to_right))
    at_start, at_end = jnp.where(flip, at_right, at_left), jnp.where(flip, at_left, at_right)
    return _Standard(
        jnp.where(wide, log_mass, log_mean - 0.5 * centre**2 - _LOG_ROOT_2PI),
        wide,
        jnp.where(wide, at_start - at_end, centre - by_centre * share),
        jnp.where(
            wide,
            start * at_start - end * at_end,
            centre**2 - 1.0 - (by_log_centre + by_log_width) * share,
        ),
    )


def _tail(x: Float[Array, "*n"]) -> tuple[Float[Array, "*n"], Float[Array, "*n"]]:
    """Give p and r, such that 0.5 exp(p - x^2 / 2) r is the normal tail below x <= 0."""
    rest = 1.0 / (1.0 - x * (0.5 / math.sqrt(2)))
    place = 2.0 * rest - 1.0
    power = jnp.full_like(x, _TAIL[-1])
    for coefficient in _TAIL[-2::-1]:
        power = power * place + float(coefficient)
    return power, rest


def normal_log_prob(
    location: Float[Array, "*n"], log_scale: Float[Array, "*n"], x: Float[Array, "*n"]
) -> Float[Array, "*n"]:
    """Give the log density of a normal number."""
    return -0.5 * ((x - location) * jnp.exp(-log_scale)) ** 2 - log_scale - _LOG_ROOT_2PI


def binary_log_prob(logit: Float[Array, "*n"], level: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """Give the log probability of level 0 or 1."""
    return jax.nn.log_sigmoid(jnp.where(level > 0.5, logit, -logit))


def categorical_log_prob(
    logits: Float[Array, "*n levels"], level: Int[Array, "*n"]
) -> Float[Array, "*n"]:
    """Give the log probability of a level; logits of -inf are levels that do not exist."""
    chosen = jnp.take_along_axis(logits, level[..., None], axis=-1)[..., 0]
    return chosen - jax.nn.logsumexp(logits, axis=-1)


def _host(parameters: Parameters) -> tuple[Values, Values]:
    values = np.asarray(parameters, np.float64)
    return values[..., 0], np.exp(values[..., 1])


def _levels(count: int) -> Grid:
    levels = np.arange(count, dtype=float)
    return Grid(levels, levels, levels)


# Intervals are narrow up to this product of their width with 1 or their distance, if it is more.
_NARROW = 0.5
_LOG_ROOT_2PI = 0.5 * math.log(2 * math.pi)


def _tail_polynomial(degree: int) -> Float[np.ndarray, " powers"]:
    """Give the powers of p in `_tail`, by as many of Chebyshev's points.

    The complementary error function is exp(p - t^2) r with r = 1 / (1 + t / 2) and a p that is
    smooth in r (Press et al. 2007, section 6.2.2): a polynomial in 2 r - 1.
    """
    place = chebyshev.chebpts1(degree + 1)
    rest = (1 + place) / 2
    p = np.log(erfcx(2 * (1 / rest - 1)) / rest)
    return chebyshev.cheb2poly(chebyshev.chebfit(place, p, degree))


# To the last digit of float32.
_TAIL = _tail_polynomial(11)
