"""Annealed weights bracket a log evidence that is known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from targets import LinearGaussian

from hhvaem.sampling import annealing, hmc, tuning

MODEL = LinearGaussian.random(0, columns=6, latents=3, noise_variance=0.3)
X = MODEL.simulate(1)
OBSERVED, ALL = np.array([1, 0, 1, 0, 1, 0], bool), np.ones(6, bool)
CHAINS, STEPS = 1000, 2


def joint(mask: np.ndarray) -> hmc.LogDensity:
    return lambda eps: MODEL.log_joint(eps, X, mask)


def posterior_draws(mask: np.ndarray, seed: int) -> jax.Array:
    mean, covariance = MODEL.posterior(X, mask)
    draws = np.random.default_rng(seed).multivariate_normal(mean, covariance, CHAINS)
    return jnp.array(draws, jnp.float32)


def weights(
    base: hmc.LogDensity,
    target: hmc.LogDensity,
    base_draws: jax.Array,
    target_draws: jax.Array,
    transitions: int,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Log weights both ways, and where the forward chains ended."""
    temperatures = annealing.sigmoid_temperatures(transitions)
    keys = jax.random.split(jax.random.key(0), (2, CHAINS))

    @jax.jit
    def both(base_draws: jax.Array, target_draws: jax.Array, keys: jax.Array) -> tuple:
        step_sizes = annealing.tune_steps(
            jax.random.key(3), base_draws[:100], base, target, temperatures, jnp.log(0.3), STEPS
        )

        def one(way, key: jax.Array, start: jax.Array) -> annealing.State:
            return way(key, start, base, target, temperatures, step_sizes, STEPS)[0]

        up = jax.vmap(lambda *chain: one(annealing.forward, *chain))(keys[0], base_draws)
        down = jax.vmap(lambda *chain: one(annealing.reverse, *chain))(keys[1], target_draws)
        return up.log_weight, down.log_weight, up.position

    return both(base_draws, target_draws, keys)


def prior_to_posterior(transitions: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    start = jax.random.normal(jax.random.key(1), (CHAINS, 3))
    draws = posterior_draws(ALL, 2)
    return weights(annealing.standard_normal, joint(ALL), start, draws, transitions)


def assert_close(up: jax.Array, down: jax.Array, exact: float, within: float) -> None:
    lower = annealing.log_mean_exp(up)
    upper = annealing.log_mean_exp(-down)
    assert lower.error < within
    assert upper.error < within
    assert abs(lower.value - exact) < 4 * lower.error
    assert abs(-upper.value - exact) < 4 * upper.error
    # The mean of the logs is the bound itself; Monte Carlo may take it across by its error only.
    error = np.sqrt(up.var() / CHAINS), np.sqrt(down.var() / CHAINS)
    assert up.mean() < exact + 4 * error[0]
    assert down.mean() > exact - 4 * error[1]


def test_log_evidence() -> None:
    up, down, ends = prior_to_posterior(200)
    assert_close(up, down, MODEL.log_evidence(X, ALL), within=0.03)
    assert down.mean() - up.mean() < 0.4
    # The ends are nearly posterior draws.
    mean, covariance = MODEL.posterior(X, ALL)
    z = (ends.mean(0) - mean) / np.sqrt(np.diag(covariance) / CHAINS)
    assert np.abs(z).max() < 5


def test_with_few_temperatures_the_bounds_are_loose_and_on_their_sides() -> None:
    up, down, _ = prior_to_posterior(10)
    exact = MODEL.log_evidence(X, ALL)
    assert up.mean() < exact - 10 * np.sqrt(up.var() / CHAINS)
    assert down.mean() > exact + 10 * np.sqrt(down.var() / CHAINS)


def test_weights_are_unbiased_however_few_the_temperatures() -> None:
    # As wide as the base, so that weights have all moments both ways: errors can be trusted.
    def target(z: jax.Array) -> jax.Array:
        return -0.5 * jnp.sum((z - 0.6) ** 2)

    base_draws, target_draws = jax.random.normal(jax.random.key(0), (2, CHAINS, 3))
    up, down, _ = weights(annealing.standard_normal, target, base_draws, target_draws + 0.6, 3)
    assert_close(up, down, 1.5 * np.log(2 * np.pi), within=0.05)


def test_log_evidence_from_the_encoder() -> None:
    mean, log_scale = MODEL.mean_field(X, ALL)
    target, _ = tuning.whiten(
        joint(ALL), mean, log_scale, jnp.log(jnp.array([1.5])), jnp.zeros(3, int)
    )
    start = jax.random.normal(jax.random.key(1), (CHAINS, 3))
    width = jnp.exp(log_scale) * 1.5
    draws = (posterior_draws(ALL, 2) - mean[None, :]) / width[None, :]
    up, down, _ = weights(annealing.standard_normal, target, start, draws, 30)
    assert_close(up, down, MODEL.log_evidence(X, ALL), within=0.03)


def test_log_evidence_of_what_is_hidden_given_what_is_seen() -> None:
    up, down, _ = weights(
        joint(OBSERVED), joint(ALL), posterior_draws(OBSERVED, 1), posterior_draws(ALL, 2), 60
    )
    exact = MODEL.log_evidence(X, ALL) - MODEL.log_evidence(X, OBSERVED)
    assert_close(up, down, exact, within=0.05)


def test_log_mean_exp() -> None:
    values = np.random.default_rng(0).normal(size=50)
    found = annealing.log_mean_exp(jnp.array(values + 300, jnp.float32))
    weights = np.exp(values)
    assert found.value == pytest.approx(300 + np.log(weights.mean()), abs=1e-4)
    expected = weights.std(ddof=1) / weights.mean() / np.sqrt(50)
    assert found.error == pytest.approx(expected, rel=1e-3)


def test_temperatures_go_from_zero_to_one() -> None:
    temperatures = np.asarray(annealing.sigmoid_temperatures(20))
    assert temperatures.shape == (21,)
    assert temperatures[0] == 0
    assert temperatures[-1] == 1
    differences = np.diff(temperatures)
    assert (differences > 0).all()
    assert differences[0] < differences[10] / 5
    np.testing.assert_allclose(differences, differences[::-1], rtol=1e-3)


def test_steps_shrink_with_the_posterior() -> None:
    def target(z: jax.Array) -> jax.Array:
        return -0.5 * jnp.sum(z**2) / 0.05**2

    start = jax.random.normal(jax.random.key(0), (100, 3))
    temperatures = annealing.sigmoid_temperatures(200)
    steps = jax.jit(
        lambda key: annealing.tune_steps(
            key, start, annealing.standard_normal, target, temperatures, jnp.log(0.3), STEPS
        )
    )(jax.random.key(1))
    assert steps.shape == (200, 3)

    def chain(key: jax.Array, start: jax.Array) -> jax.Array:
        normal = annealing.standard_normal
        return annealing.forward(key, start, normal, target, temperatures, steps, STEPS)[1]

    info = jax.jit(jax.vmap(chain))(jax.random.split(jax.random.key(2), 100), start)
    assert info.acceptance[:, 50:].mean() == pytest.approx(0.8, abs=0.05)
    assert steps[-1, 0] < steps[20, 0] / 5
