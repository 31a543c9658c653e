"""The discrepancy is what the formula says, zero for exact draws, and sees what it must."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hhvaem.sampling import stein

# A Gaussian with this precision, and the diagonal Gaussian nearest to it in KL(q || p).
PRECISION = np.array([[1.0, 0.9], [0.9, 1.0]], np.float32)
REPETITIONS, DRAWS = 200, 40


def exact(seed: int) -> jax.Array:
    noise = jax.random.normal(jax.random.key(seed), (REPETITIONS, DRAWS, 2))
    return noise @ jnp.array(np.linalg.inv(np.linalg.cholesky(PRECISION)))


def mean_field(seed: int) -> jax.Array:
    # The diagonal of the precision is one.
    return jax.random.normal(jax.random.key(seed), (REPETITIONS, DRAWS, 2))


@partial(jax.jit, static_argnames=("optimise", "unbiased"))
def z_score(spent: jax.Array, samples: jax.Array, *, optimise: bool, unbiased: bool) -> jax.Array:
    """The mean over repetitions of the statistic, in standard errors.

    Directions and bandwidths come from the draws that are spent.
    """

    def one(key: jax.Array, spent: jax.Array, samples: jax.Array) -> jax.Array:
        axes = directions = jnp.eye(2)
        if optimise:
            start = jax.random.normal(key, (2, 2))
            directions = stein.optimise_directions(spent, -spent @ PRECISION, axes, start, steps=20)
        bandwidths = stein.median_bandwidths(spent, directions)
        scores = -samples @ PRECISION
        return stein.sksd(samples, scores, axes, directions, bandwidths, unbiased=unbiased)

    keys = jax.random.split(jax.random.key(0), REPETITIONS)
    values = jax.vmap(one)(keys, spent, samples)
    return values.mean() / values.std() * np.float32(np.sqrt(REPETITIONS))


@pytest.mark.parametrize("optimise", [False, True], ids=["axes", "optimised"])
def test_exact_draws_score_zero(optimise: bool) -> None:
    assert abs(z_score(exact(0), exact(1), optimise=optimise, unbiased=True)) < 4


def test_and_would_not_with_directions_of_the_same_draws() -> None:
    assert z_score(exact(1), exact(1), optimise=True, unbiased=True) > 4


def test_the_v_statistic_of_exact_draws_is_not_zero() -> None:
    assert z_score(exact(0), exact(1), optimise=False, unbiased=False) > 4


def test_axes_are_blind_to_the_mean_field_optimum() -> None:
    assert abs(z_score(mean_field(0), mean_field(1), optimise=False, unbiased=True)) < 4


def test_optimised_directions_see_it() -> None:
    assert z_score(mean_field(0), mean_field(1), optimise=True, unbiased=True) > 20


def plain(samples, scores, slices, directions, bandwidths, unbiased: bool) -> float:
    """Gong et al.'s definition, pair by pair, with derivatives of the kernel written out."""
    total, count = 0.0, len(samples)
    for r, g, h in zip(slices, directions, bandwidths, strict=True):
        for i in range(count):
            for j in range(count):
                if unbiased and i == j:
                    continue
                a, b = samples[i] @ g, samples[j] @ g
                k = np.exp(-((a - b) ** 2) / (2 * h**2))
                k_a, k_b = -(a - b) / h**2 * k, (a - b) / h**2 * k
                k_ab = k / h**2 - (a - b) ** 2 / h**4 * k
                s_i, s_j = scores[i] @ r, scores[j] @ r
                term = s_i * k * s_j + (r @ g) * (k_a * s_j + k_b * s_i) + (r @ g) ** 2 * k_ab
                total += term / (count * (count - 1) if unbiased else count**2)
    return total


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("unbiased", [True, False])
def test_it_is_the_formula(unbiased: bool) -> None:
    generator = np.random.default_rng(0)
    samples, scores = generator.normal(size=(2, 12, 4))
    slices, directions = generator.normal(size=(2, 3, 4))
    bandwidths = np.array([0.5, 1.0, 3.0])
    arguments = (samples, scores, slices, directions, bandwidths)
    value = stein.sksd(*map(jnp.array, arguments), unbiased=unbiased)
    assert value == pytest.approx(plain(*arguments, unbiased), rel=1e-10)


@pytest.mark.usefixtures("x64")
def test_the_v_statistic_is_never_negative() -> None:
    def one(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        samples, scores = jax.random.normal(key, (2, 8, 3))
        slices, directions = jax.random.normal(jax.random.fold_in(key, 1), (2, 1, 3))
        bandwidths = stein.median_bandwidths(samples, directions)
        arguments = (samples, scores, slices, directions, bandwidths)
        return stein.sksd(*arguments, unbiased=False), stein.sksd(*arguments, unbiased=True)

    v, u = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(0), 2000))
    assert v.min() >= 0
    # The U-statistic is negative now and then, as a mean of zero demands.
    assert (u < 0).mean() > 0.1


def test_median_bandwidths() -> None:
    generator = np.random.default_rng(0)
    samples = generator.normal(size=(15, 3)).astype(np.float32)
    directions = np.eye(3, dtype=np.float32)[:2]
    pairs = [(i, j) for i in range(15) for j in range(i)]
    expected = [np.median([abs(samples[i, d] - samples[j, d]) for i, j in pairs]) for d in (0, 1)]
    found = stein.median_bandwidths(jnp.array(samples), jnp.array(directions))
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    # It is a constant, and chains stuck in one place leave it finite.
    derivative = jax.jit(jax.grad(lambda x: stein.median_bandwidths(x, jnp.eye(3)).sum()))
    assert (derivative(jnp.array(samples)) == 0).all()
    assert (stein.median_bandwidths(jnp.ones((5, 3)), jnp.eye(3)) == 1).all()


def test_directions_are_unit_vectors_that_raise_the_discrepancy() -> None:
    samples, axes = mean_field(0)[0], jnp.eye(2)
    scores = -samples @ PRECISION
    start = jnp.array([[0.6, -0.8], [1.0, 0.2]])
    found = jax.jit(stein.optimise_directions)(samples, scores, axes, start)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, rtol=1e-5)

    def of_slice(r: jax.Array, g: jax.Array) -> jax.Array:
        bandwidth = stein.median_bandwidths(samples, g[None, :])
        return stein.sksd(samples, scores, r[None, :], g[None, :], bandwidth, unbiased=True)

    # Against the best of all angles, for each slice on its own.
    angles = jnp.linspace(0, jnp.pi, 100)
    circle = jnp.stack([jnp.cos(angles), jnp.sin(angles)], axis=1)
    best = jax.jit(jax.vmap(jax.vmap(of_slice, (None, 0)), (0, None)))(axes, circle).max(1)
    assert (jax.jit(jax.vmap(of_slice))(axes, found) > 0.98 * best).all()
