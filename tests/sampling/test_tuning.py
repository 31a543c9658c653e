"""Step sizes are found and lie where they should; coordinates change with their Jacobian."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from targets import Skewed, gaussian

from hhvaem.sampling import hmc, tuning

LAYERS = np.array([0, 1])


@pytest.mark.parametrize("scales", [(1.0,) * 10, (0.01, 0.1, 1.0)], ids=["plain", "ill-scaled"])
def test_dual_averaging_reaches_its_target(scales: tuple[float, ...]) -> None:
    density = gaussian(scales)

    def acceptance(log_step: jax.Array) -> jax.Array:
        """Search from here, and sample with what was found."""
        starts = jax.random.normal(jax.random.key(0), (40, len(scales))) * jnp.array([scales])
        states = jax.vmap(hmc.init, (0, None))(starts, density)
        (states, averaging), _ = tuning.adapt_row(
            jax.random.key(1), states, tuning.averaging_init(log_step), density, 5, 200
        )
        step = jnp.exp(tuning.averaging_final(averaging))

        def chain(key: jax.Array, state: hmc.State) -> jax.Array:
            jitter_key, key = jax.random.split(key)
            steps = tuning.jittered_steps(jitter_key, step, 50, len(scales))
            return hmc.run(key, state, density, steps, 5)[1].acceptance

        return jax.vmap(chain)(jax.random.split(jax.random.key(2), 40), states).mean()

    from_below, from_above = jax.jit(jax.vmap(acceptance))(jnp.array([-6.0, 2.0]))
    assert from_below == pytest.approx(0.8, abs=0.05)
    assert from_above == pytest.approx(0.8, abs=0.05)


def test_rows_are_pooled_or_not() -> None:
    scales = jnp.array([[1.0, 1.0], [0.1, 0.1]])

    def density(scale: jax.Array, position: jax.Array) -> jax.Array:
        return -0.5 * jnp.sum((position / scale) ** 2)

    def chains_of(scale: jax.Array) -> hmc.State:
        starts = scale[None, :] * jax.random.normal(jax.random.key(0), (30, 2))
        return jax.vmap(lambda start: hmc.init(start, lambda z: density(scale, z)))(starts)

    averaging = tuning.averaging_init(jnp.log(0.1))

    @jax.jit
    def pooled(key: jax.Array, scales: jax.Array) -> tuple[tuple, hmc.Info]:
        states = jax.vmap(chains_of)(scales)
        return tuning.adapt_rows(key, states, averaging, density, scales, 5, 150)

    @jax.jit
    def alone(key: jax.Array, scale: jax.Array) -> jax.Array:
        (_, found), _ = tuning.adapt_row(
            key, chains_of(scale), averaging, lambda z: density(scale, z), 5, 150
        )
        return tuning.averaging_final(found)

    (states, found), info = pooled(jax.random.key(2), scales)
    assert states.position.shape == (2, 30, 2)
    assert info.acceptance.shape == (150, 2, 30)
    # One step for both rows: the mean acceptance is on target, that of either row is not.
    late = info.acceptance[75:].mean((0, 2))
    assert late.mean() == pytest.approx(0.8, abs=0.05)
    assert late[0] - late[1] > 0.2
    # By its own chains each row finds its own: ten times as large for ten times the scale.
    log_steps = [alone(jax.random.key(3), scale) for scale in scales]
    assert log_steps[0] - log_steps[1] == pytest.approx(np.log(10), abs=0.15)
    assert log_steps[1] < tuning.averaging_final(found) < log_steps[0]


def test_a_search_may_be_interrupted() -> None:
    density = gaussian((1.0, 1.0))
    states = jax.vmap(hmc.init, (0, None))(jnp.ones((10, 2)), density)
    averaging = tuning.averaging_init(jnp.log(0.01))
    adapt = jax.jit(lambda *chains: tuning.adapt_row(*chains, density, 5, 30))
    for seed in range(4):
        (states, averaging), info = adapt(jax.random.key(seed), states, averaging)
    assert averaging.updates == 120
    assert info.acceptance.mean() == pytest.approx(0.8, abs=0.08)


def test_dual_averaging_is_the_published_one() -> None:
    """Hoffman and Gelman (2014), algorithm 5, with their constants."""
    acceptances = np.random.default_rng(0).uniform(size=30)
    mu, error, average = np.log(10 * 0.3), 0.0, 0.0
    averaging = tuning.averaging_init(jnp.log(0.3))
    for m, acceptance in enumerate(acceptances, start=1):
        averaging = tuning.averaging_update(averaging, jnp.array(acceptance, jnp.float32))
        error = (1 - 1 / (m + 10)) * error + (0.8 - acceptance) / (m + 10)
        log_step = mu - np.sqrt(m) / 0.05 * error
        average = m**-0.75 * log_step + (1 - m**-0.75) * average
        assert averaging.log_step == pytest.approx(log_step, abs=1e-4)
    assert tuning.averaging_final(averaging) == pytest.approx(average, abs=1e-4)


def test_jittered_steps_lie_in_their_range() -> None:
    steps = tuning.jittered_steps(jax.random.key(0), jnp.array(0.4), 5000, 3, spread=0.25)
    assert steps.shape == (5000, 3)
    # One factor for all dimensions of a transition.
    assert (steps == steps[:, :1]).all()
    assert stats.kstest(np.asarray(steps[:, 0]), stats.uniform(0.3, 0.2).cdf).pvalue > 1e-4


def test_the_learned_schedule_starts_as_in_the_paper() -> None:
    log_steps = tuning.initial_log_steps(jax.random.key(0), 500, 10)
    assert log_steps.shape == (500, 10)
    uniform = stats.uniform(0.05, 0.15)
    assert stats.kstest(np.exp(log_steps).ravel(), uniform.cdf).pvalue > 1e-4


@pytest.mark.usefixtures("x64")
def test_whitening_is_a_change_of_variables() -> None:
    mean, log_scale = jnp.array([0.5, -1.0]), jnp.array([-0.3, 0.8])
    log_inflation = jnp.log(jnp.array([1.5, 3.0]))
    density, back = tuning.whiten(
        Skewed.log_density, mean, log_scale, log_inflation, jnp.array(LAYERS)
    )
    points = jax.random.normal(jax.random.key(0), (20, 2))
    for point in points:
        jacobian = jax.jacobian(back)(point)
        expected = Skewed.log_density(back(point)) + np.linalg.slogdet(jacobian)[1]
        assert density(point) == pytest.approx(float(expected), abs=1e-10)
    # u = (eps - mean) / (inflation * scale), with the inflation of the dimension's layer.
    eps = back(points[0])
    width = np.exp(log_scale) * np.array([1.5, 3.0])
    np.testing.assert_allclose((eps - mean) / width, points[0], rtol=1e-12)
