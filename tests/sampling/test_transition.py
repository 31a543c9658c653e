"""Transitions leave the target as it is, survive bad regions, and cost what they should."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from targets import LinearGaussian, Skewed, ball, gaussian

from hhvaem.sampling import hmc, tuning

Kernel = Callable[..., tuple[hmc.State, hmc.Info]]
# Large enough for rejections to matter: a third of the proposals.
STEP, STEPS = (0.9, 0.7), 3


def unadjusted(
    key: jax.Array, state: hmc.State, log_density: hmc.LogDensity, step: jax.Array, steps: int
) -> tuple[hmc.State, None]:
    """HMC without its decision: what the tests below must notice."""
    momentum = jax.random.normal(key, state.position.shape)
    return hmc.leapfrog(state, momentum, log_density, step, steps)[0], None


def move(kernel: Kernel, starts: jax.Array, transitions: int, seed: int) -> jax.Array:
    def chain(key: jax.Array, start: jax.Array) -> jax.Array:
        def once(state: hmc.State, key: jax.Array) -> tuple[hmc.State, None]:
            return kernel(key, state, Skewed.log_density, jnp.array(STEP), STEPS)[0], None

        state = hmc.init(start, Skewed.log_density)
        return jax.lax.scan(once, state, jax.random.split(key, transitions))[0].position

    return jax.jit(jax.vmap(chain))(jax.random.split(jax.random.key(seed), len(starts)), starts)


def chance_of_draws(draws: jax.Array) -> float:
    """Chi-squared over 12 x 12 cells of equal probability under the target."""
    cells, *_ = np.histogram2d(*Skewed.uniforms(draws).T, bins=12, range=[[0, 1], [0, 1]])
    # Draws that are not finite are in no cell, and in every expected count.
    expected = len(draws) / cells.size
    return float(stats.chi2.sf(((cells - expected) ** 2 / expected).sum(), cells.size - 1))


def chance_of_flux(kernel: Kernel) -> float:
    """Bowker's test that as many chains go from cell to cell as come back, at equilibrium."""
    starts = Skewed.sample(jax.random.key(1), 200_000)
    ends = move(kernel, starts, 1, seed=2)

    def cells(draws: jax.Array) -> np.ndarray:
        first, second = np.minimum((4 * Skewed.uniforms(np.nan_to_num(draws))).astype(int), 3).T
        return 4 * first + second

    flux = np.zeros((16, 16))
    np.add.at(flux, (cells(starts), cells(ends)), 1)
    upper = np.triu_indices(16, 1)
    there, back = flux[upper], flux.T[upper]
    used = there + back > 20
    statistic = ((there - back)[used] ** 2 / (there + back)[used]).sum()
    return float(stats.chi2.sf(statistic, used.sum()))


def test_long_chains_draw_from_the_target() -> None:
    starts = jnp.broadcast_to(jnp.array([2.0, -2.0]), (20_000, 2))
    assert chance_of_draws(move(hmc.transition, starts, 100, seed=0)) > 1e-4


def test_exact_draws_stay_exact() -> None:
    starts = Skewed.sample(jax.random.key(3), 100_000)
    assert chance_of_draws(starts) > 1e-4
    assert chance_of_draws(move(hmc.transition, starts, 5, seed=4)) > 1e-4


def test_without_the_decision_draws_are_wrong_and_the_test_knows() -> None:
    starts = Skewed.sample(jax.random.key(3), 100_000)
    assert chance_of_draws(move(unadjusted, starts, 5, seed=4)) < 1e-8


def test_detailed_balance() -> None:
    assert chance_of_flux(hmc.transition) > 1e-4


def test_without_the_decision_the_flux_is_unequal_and_the_test_knows() -> None:
    assert chance_of_flux(unadjusted) < 1e-8


def test_it_draws_from_a_linear_gaussian_posterior() -> None:
    model = LinearGaussian.random(0, columns=8, latents=4, noise_variance=0.1)
    x, mask = model.simulate(1), np.array([1, 1, 0, 1, 0, 0, 1, 0], bool)
    density, back = tuning.whiten(
        lambda eps: model.log_joint(eps, x, mask),
        *model.mean_field(x, mask),
        jnp.zeros(1),
        jnp.zeros(4, int),
    )

    def chain(key: jax.Array) -> jax.Array:
        start_key, jitter_key, key = jax.random.split(key, 3)
        state = hmc.init(jax.random.normal(start_key, (4,)), density)
        steps = tuning.jittered_steps(jitter_key, jnp.array(0.5), 60, 4)
        return back(hmc.run(key, state, density, steps, 5)[0].position)

    draws = np.asarray(jax.jit(jax.vmap(chain))(jax.random.split(jax.random.key(0), 20_000)))
    mean, covariance = model.posterior(x, mask)
    # Standardised by the answer, draws are independent standard normals.
    standard = np.linalg.solve(np.linalg.cholesky(covariance), (draws - mean).T)
    size = draws.shape[0]
    assert stats.chi2.sf(size * (standard.mean(1) ** 2).sum(), 4) > 1e-4
    errors = (np.cov(standard) - np.eye(4)) * np.sqrt(size / (1 + np.eye(4)))
    assert np.abs(errors).max() < 4.5
    # The test has something to find: the start is another distribution.
    assert np.abs(np.linalg.inv(covariance) @ np.diag(np.diag(covariance)) - np.eye(4)).max() > 0.5


def run(
    key: jax.Array,
    start: jax.Array,
    density: hmc.LogDensity,
    sizes: jax.Array,
    steps: int,
    frozen: bool,
) -> tuple[hmc.State, hmc.Info]:
    """Either way to run a chain."""
    if not frozen:
        return hmc.run(key, hmc.init(start, density), density, sizes, steps)
    return hmc.run_frozen(
        hmc.draw_noise(key, (len(sizes),), start.size), start, density, sizes, steps
    )


@pytest.mark.parametrize("frozen", [True, False])
def test_what_is_not_finite_is_never_accepted(frozen: bool) -> None:
    def end(log_steps: jax.Array, key: jax.Array) -> tuple[jax.Array, tuple[hmc.State, hmc.Info]]:
        state, info = run(key, jnp.array([1.5, 0.0]), ball, jnp.exp(log_steps), 4, frozen)
        return jnp.sum(state.position), (state, info)

    keys = jax.random.split(jax.random.key(0), 200)
    log_steps = jnp.full((10, 2), jnp.log(0.7))
    end_and_gradient = jax.jit(jax.vmap(jax.grad(end, has_aux=True), (None, 0)))
    gradients, (state, info) = end_and_gradient(log_steps, keys)
    assert jax.tree.all(jax.tree.map(lambda leaf: bool(jnp.isfinite(leaf).all()), state))
    assert (jnp.linalg.norm(state.position, axis=1) < 2).all()
    assert np.isfinite(gradients).all()
    # Half of the proposals leave the ball; those are divergent, and the chain still moves.
    assert 0.2 < info.divergent.mean() < 0.8
    assert not (info.divergent & info.accepted).any()
    assert (info.acceptance[info.divergent] == 0).all()
    assert (np.abs(gradients).sum((1, 2)) > 0).mean() > 0.9


@pytest.mark.parametrize("bad", [jnp.nan, jnp.inf])
@pytest.mark.parametrize("part", ["value", "gradient"])
def test_one_bad_number_is_enough(part: str, bad: float) -> None:
    @jax.custom_vjp
    def density(position: jax.Array) -> jax.Array:
        wrong = jnp.where((position[0] > 0.5) & (part == "value"), bad, 0.0)
        return -0.5 * jnp.sum(position**2) + wrong

    def backwards(position: jax.Array, derivative: jax.Array) -> tuple[jax.Array]:
        wrong = jnp.where((position[0] > 0.5) & (part == "gradient"), bad, 0.0)
        return (derivative * (-position + jnp.array([0.0, 1.0]) * wrong),)

    density.defvjp(lambda position: (density(position), position), backwards)

    def chain(key: jax.Array) -> tuple[hmc.State, hmc.Info]:
        return hmc.run(key, hmc.init(jnp.zeros(2), density), density, jnp.full((20, 2), 0.5), 1)

    state, info = jax.jit(jax.vmap(chain))(jax.random.split(jax.random.key(0), 200))
    assert jax.tree.all(jax.tree.map(lambda leaf: bool(jnp.isfinite(leaf).all()), state))
    assert (state.position[:, 0] <= 0.5).all()
    assert (info.divergent & ~info.accepted).any()
    assert info.accepted.any()


def test_a_huge_drop_of_energy_is_accepted() -> None:
    def well(position: jax.Array) -> jax.Array:
        # A cliff of 1e5 nats without a force, so that kinetic energy does not pay for it.
        return jnp.where(position[0] > 0, 1e5, 0.0) - 0.5 * jnp.sum(position**2)

    keys = jax.random.split(jax.random.key(0), 100)
    start = hmc.init(jnp.array([-0.01]), well)
    state, info = jax.jit(
        jax.vmap(lambda key: hmc.transition(key, start, well, jnp.array([0.5]), 3))
    )(keys)
    dropped = info.energy_change < -9e4
    assert dropped.mean() > 0.3
    assert info.accepted[dropped].all()
    assert (info.acceptance[dropped] == 1).all()
    assert (state.position[dropped] > 0).all()


@pytest.mark.parametrize(("transitions", "steps"), [(7, 1), (5, 4), (2, 12)])
@pytest.mark.parametrize("frozen", [True, False])
def test_the_number_of_gradients(transitions: int, steps: int, frozen: bool) -> None:
    count = []

    def density(position: jax.Array) -> jax.Array:
        jax.debug.callback(lambda: count.append(1))
        return -0.5 * jnp.sum(position**2)

    @jax.jit
    def chain(key: jax.Array) -> hmc.State:
        sizes = jnp.full((transitions, 2), 0.1)
        return run(key, jnp.ones(2), density, sizes, steps, frozen)[0]

    jax.block_until_ready(chain(jax.random.key(0)))
    jax.effects_barrier()
    assert len(count) == transitions * steps + 1


def test_each_transition_has_its_own_steps_and_noise() -> None:
    density = gaussian((1.0, 1.0))
    start = hmc.init(jnp.ones(2), density)
    _, info = hmc.run(jax.random.key(0), start, density, jnp.full((5, 2), 0.3), 3)
    assert len(np.unique(info.energy_change)) == 5
    # A step of zero leaves a dimension where it is, whatever is differentiated.
    sizes = jnp.array([[0.0, 0.5], [0.0, 0.4]])
    for frozen in (True, False):
        state, _ = run(jax.random.key(1), jnp.ones(2), density, sizes, 3, frozen)
        assert state.position[0] == 1.0
        assert state.position[1] != 1.0


def test_a_chain_that_starts_outside_is_told_apart() -> None:
    start = hmc.init(jnp.array([3.0, 0.0]), ball)
    state, info = hmc.run(jax.random.key(0), start, ball, jnp.full((5, 2), 0.3), 3)
    assert info.divergent.all()
    assert not info.accepted.any()
    assert (state.position == start.position).all()
