r"""Sliced kernelised Stein discrepancy of draws to a target known by its score (Gong et al. 2021).

A slice is a pair of unit vectors: r projects the score s(x) = grad log p(x), g projects the draws.
With a one-dimensional kernel k, Stein's operator gives for each slice

    xi(x, y) = s_r(x) s_r(y) k(a, b) + c s_r(y) k_a(a, b) + c s_r(x) k_b(a, b) + c^2 k_ab(a, b),
    s_r(x) = r . s(x),  a = g . x,  b = g . y,  c = r . g,

whose mean over independent x, y ~ q is zero if q = p and never negative. The discrepancy is its
sum over slices. For k(a, b) = exp(-(a - b)^2 / 2 h^2), with d = a - b,

    xi(x, y) = k(a, b) (s_r(x) s_r(y) + c (s_r(x) - s_r(y)) d / h^2 + c^2 (1 - d^2 / h^2) / h^2).

As published, slices are the axes and g = r. These see one dimension at a time, and are blind to
a mean-field optimum: for a correlated Gaussian it scores zero. `optimise_directions` finds
directions g that see it.
"""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float


def median_bandwidths(
    samples: Float[Array, "draws dim"], directions: Float[Array, "slices dim"]
) -> Float[Array, " slices"]:
    """Give the median distance between draws along each direction, as a constant."""

    def median(projected: Float[Array, " draws"]) -> Float[Array, ""]:
        first, second = jnp.triu_indices(projected.size, 1)
        distance = jnp.median(jnp.abs(projected[first] - projected[second]))
        # Chains that never moved from a common start have no distance; any bandwidth will do.
        return jnp.where(distance > 0, distance, 1.0)

    return lax.stop_gradient(jax.vmap(median)(directions @ samples.T))


def sksd(
    samples: Float[Array, "draws dim"],
    scores: Float[Array, "draws dim"],
    slices: Float[Array, "slices dim"],
    directions: Float[Array, "slices dim"],
    bandwidths: Float[Array, " slices"],
    *,
    unbiased: bool,
) -> Float[Array, ""]:
    """Estimate the discrepancy (formula at the top of this file).

    Parameters
    ----------
    samples
        Draws x from q.
    scores
        The gradient of log p at each draw. The published code differentiates the discrepancy
        by the draws with constant scores: stop their gradient to do so.
    slices
        Unit vectors r; the axes are `jnp.eye(dim)`.
    directions
        Unit vectors g, one for each slice.
    bandwidths
        The kernel's h for each slice, for instance `median_bandwidths`.
    unbiased
        True: the U-statistic, without pairs of a draw with itself. Its mean is the discrepancy,
        zero for exact draws, if slices, directions and bandwidths were chosen on other draws.
        False: the V-statistic, which is never negative, and positive for exact draws too.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> samples, axes = jax.random.normal(jax.random.key(0), (500, 2)), jnp.eye(2)
    >>> bandwidths = median_bandwidths(samples[:250], axes)
    >>> held_out = samples[250:]
    >>> right = sksd(held_out, -held_out, axes, axes, bandwidths, unbiased=True)
    >>> wide = sksd(2 * held_out, -2 * held_out, axes, axes, bandwidths, unbiased=True)
    >>> bool(abs(right) < 0.05), bool(wide > 0.5)
    (True, True)
    """

    def one_slice(
        r: Float[Array, " dim"], g: Float[Array, " dim"], bandwidth: Float[Array, ""]
    ) -> Float[Array, ""]:
        score, along = scores @ r, (r @ g) / bandwidth
        difference = (samples @ g)[:, None] - (samples @ g)[None, :]
        scaled = difference / bandwidth
        xi = jnp.exp(-0.5 * scaled**2) * (
            score[:, None] * score[None, :]
            + along * scaled * (score[:, None] - score[None, :])
            + along**2 * (1.0 - scaled**2)
        )
        if unbiased:
            return (xi.sum() - jnp.trace(xi)) / (score.size * (score.size - 1))
        return xi.mean()

    return jax.vmap(one_slice)(slices, directions, bandwidths).sum()


def optimise_directions(
    samples: Float[Array, "draws dim"],
    scores: Float[Array, "draws dim"],
    slices: Float[Array, "slices dim"],
    directions: Float[Array, "slices dim"],
    *,
    steps: int = 50,
    angle: float = 0.2,
) -> Float[Array, "slices dim"]:
    """Turn directions to where the discrepancy is largest, by gradient ascent.

    The draws given here are spent: measure the discrepancy with the directions found on others,
    or it is not zero in expectation for exact draws.

    Parameters
    ----------
    samples, scores, slices
        As for `sksd`.
    directions
        Where to start: random, or what an earlier call found. Not the slices themselves, where
        a mean-field optimum has a gradient of zero.
    steps, angle
        How many steps, and the angle in radians of the first; the later ones shrink to nothing.

    Returns
    -------
    Float[Array, "slices dim"]
        Unit vectors g.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> precision = jnp.array([[1.0, 0.9], [0.9, 1.0]])
    >>> samples = jax.random.normal(jax.random.key(0), (400, 2))  # the mean-field optimum
    >>> scores, axes = -samples @ precision, jnp.eye(2)
    >>> start = jax.random.normal(jax.random.key(1), (2, 2))
    >>> found = optimise_directions(samples[:200], scores[:200], axes, start)
    >>> bandwidths = median_bandwidths(samples[:200], found)
    >>> bool(sksd(samples[200:], scores[200:], axes, found, bandwidths, unbiased=True) > 0.2)
    True
    """
    samples, scores = lax.stop_gradient((samples, scores))

    def discrepancy(directions: Float[Array, "slices dim"]) -> Float[Array, ""]:
        unit = _normalise(directions)
        bandwidths = median_bandwidths(samples, unit)
        return sksd(samples, scores, slices, unit, bandwidths, unbiased=True)

    def ascend(
        directions: Float[Array, "slices dim"], angle: Float[Array, ""]
    ) -> tuple[Float[Array, "slices dim"], None]:
        # Slices do not meet in the sum, and each climbs by the same angle, steep or flat.
        return _normalise(directions + angle * _normalise(jax.grad(discrepancy)(directions))), None

    angles = jnp.linspace(angle, angle / steps, steps, dtype=samples.dtype)
    return lax.scan(ascend, _normalise(directions), angles)[0]


def _normalise(vectors: Float[Array, "slices dim"]) -> Float[Array, "slices dim"]:
    squared = jnp.sum(vectors**2, axis=1, keepdims=True)
    # The tiny number keeps a gradient of zero at zero.
    return vectors * lax.rsqrt(squared + 1e-30)
