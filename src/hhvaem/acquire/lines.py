"""How the values of columns lie on their latent lines, and how a line is cut into parts.

What an answer tells is what can be read off it: a whole number or a level tells in which stretch of
the latent line its latent number lies, and not where in it. So parts of a line, for which
information is summed, never divide such a stretch.
"""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr
from jaxtyping import Array, Float, Int

from hhvaem.encoding import Encoding
from hhvaem.likelihoods import Ordered
from hhvaem.marginals import input_widths
from hhvaem.predictive import edges_of
from hhvaem.warps import EDGE

# Stretches of a column that are kept, the widest, if they are at least so wide: others are passed
# over by the parts of a line.
MOST, NARROWEST = 64, 0.02
# Parts reach so many standard deviations beyond the outermost locations.
REACH = 3.5


class Lines(NamedTuple):
    """Stretches of the latent line that show as one value, and the points that stand for them.

    In order, of each column; those after its last are beyond all numbers.
    """

    low: Float[Array, "columns stretches"]
    high: Float[Array, "columns stretches"]
    point: Float[Array, "columns stretches"]


class Parts(NamedTuple):
    """A line of each column in parts: their edges, and the points that stand for them."""

    edges: Float[Array, "columns edges"]
    points: Float[Array, "columns parts"]


def lines(encoding: Encoding, width: int) -> Lines:
    """Find the stretches of columns, and say nothing of padding up to `width` columns."""
    found = np.full((3, width, MOST), 2 * EDGE)
    for j, law in enumerate(encoding.laws):
        if not isinstance(law, Ordered):
            continue
        values, far = law.warp.atoms, law.warp.farthest
        if values is not None:
            edges = edges_of(law.warp)
            low, high = edges[:-1], edges[1:]
        else:
            values = np.unique(law.warp.value(np.linspace(-5.0, 5.0, 2001)))
            low, high = law.ends(values)
        # What networks are told of a value, as `Encoding.encode` says it.
        point = np.clip(law.warp.latent(values), -far, far)
        widest = np.sort(np.argsort(low - high, kind="stable")[:MOST])
        widest = widest[high[widest] - low[widest] > NARROWEST]
        found[:, j, : len(widest)] = low[widest], high[widest], point[widest]
    return Lines(*(jnp.asarray(part, jnp.float32) for part in found))


def cut(
    locations: Float[Array, "draws columns"],
    scales: Float[Array, "draws columns"],
    lines: Lines,
    count: int,
) -> Parts:
    """Cut each line into parts of one width where its laws are, but in between stretches."""
    low = (locations - REACH * scales).min(0)
    high = (locations + REACH * scales).max(0)
    steps = jnp.linspace(0.0, 1.0, count - 1)
    inner = low[:, None] + (high - low)[:, None] * steps[None]
    ends = jnp.full((len(low), 1), EDGE)
    edges = jnp.concatenate([-ends, inner, ends], axis=1)
    return jax.vmap(_between_stretches)(edges, lines)


def _between_stretches(edges: Float[Array, " edges"], line: Lines) -> Parts:
    """Move edges that lie inside a stretch to its nearer end."""
    at = _holding(edges, line)
    low, high = line.low[at], line.high[at]
    inside = (low < edges) & (edges < high)
    moved = jnp.where(edges - low < high - edges, low, high)
    edges = jnp.where(inside, moved, edges)
    # The outermost parts have no middle: their inner ends stand for them.
    middle = (jnp.maximum(edges[:-1], edges[1]) + jnp.minimum(edges[1:], edges[-2])) / 2
    # A number between two stretches is in the upper one, but the end of the first part is not.
    at = _holding(middle, line).at[0].set(_holding(middle[:1], line, "left")[0])
    known = (line.low[at] <= middle) & (middle <= line.high[at])
    return Parts(edges, jnp.where(known, line.point[at], middle))


def _holding(
    x: Float[Array, " n"], line: Lines, side: Literal["left", "right"] = "right"
) -> Int[Array, " n"]:
    """Give the last stretch that begins below each number, or at it if from the right."""
    return jnp.maximum(jnp.searchsorted(line.low, x, side=side) - 1, 0)


def masses(
    levels: tuple[int, ...],
    component: Float[Array, " inputs"],
    scales: Float[Array, " columns"],
    edges: Float[Array, "columns edges"],
) -> Float[Array, "columns parts"]:
    """Give the probability of each part: of a level its own."""
    count = edges.shape[1] - 1
    widths = np.array(input_widths(levels))
    first = np.cumsum(widths) - widths
    below = ndtr((edges - component[first][:, None]) / scales[:, None])
    mass = jnp.diff(below, axis=1)
    counts = np.array(levels)[:, None]
    if (counts == 1).all():
        return mass
    part = np.arange(count)
    places = np.minimum(first[:, None] + part, widths.sum() - 1)
    shares = jnp.where(part < counts, component[places], 0.0)
    second = component[first][:, None]
    pair = jnp.where(part == 0, 1.0 - second, jnp.where(part == 1, second, 0.0))
    return jnp.where(counts == 1, mass, jnp.where(counts == 2, pair, shares))
