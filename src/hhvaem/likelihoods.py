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
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr
from jaxtyping import Array, Float, Int, PRNGKeyArray
from scipy.special import ndtr, ndtri

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


def ordered_log_prob(
    location: Float[Array, "*n"],
    log_scale: Float[Array, "*n"],
    low: Float[Array, "*n"],
    high: Float[Array, "*n"],
) -> Float[Array, "*n"]:
    """Give the log probability that a normal number lies between `low` and `high`.

    Where the two are equal it is the log density there. It keeps its digits, and its gradient is
    finite, for intervals of any width anywhere.
    """
    scale = jnp.exp(log_scale)
    start, end = (low - location) / scale, (high - location) / scale
    # Mirrored to the left of the location, where log_ndtr does not round to 0.
    flip = start + end > 0
    start, end = jnp.where(flip, -end, start), jnp.where(flip, -start, end)
    middle, width = (start + end) / 2, (high - low) / scale
    log_density = -0.5 * middle**2 - _LOG_ROOT_2PI
    point = width <= 0
    narrow = (width * jnp.maximum(1.0, -middle) < 0.5) & ~point
    # Narrow: the density in the middle, times the width, times the mean of exp(-middle t - t^2/2)
    # over the interval by five Gauss-Legendre nodes.
    safe = jnp.where(narrow, width, 0.5)
    centre = jnp.where(narrow, middle, 0.0)
    offsets = [0.5 * safe * float(node) for node in _NODES]
    mean = sum(
        float(weight) * jnp.exp(-centre * t - 0.5 * t**2)
        for weight, t in zip(_WEIGHTS, offsets, strict=True)
    )
    slim = log_density + jnp.log(safe) + jnp.log(mean)
    # Wide: the difference of two cumulative distributions, of which neither is near the other.
    wide = ~(narrow | point)
    log_upper = log_ndtr(jnp.where(wide, end, 0.0))
    log_lower = log_ndtr(jnp.where(wide, start, -1.0))
    broad = log_upper + jnp.log1p(-jnp.exp(log_lower - log_upper))
    return jnp.where(point, log_density - log_scale, jnp.where(narrow, slim, broad))


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


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(5)
_WEIGHTS = _WEIGHTS / 2
_LOG_ROOT_2PI = 0.5 * math.log(2 * math.pi)
