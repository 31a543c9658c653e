"""Derivatives by step sizes and inflation against finite differences, with the same noise."""

from collections.abc import Callable
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from targets import TinyDecoder

from hhvaem.sampling import hmc, tuning

pytestmark = pytest.mark.usefixtures("x64")
CHAINS, TRANSITIONS, STEPS, MOVE = 12, 3, 3, 1e-6
DENSITY = TinyDecoder().log_density


def parameters() -> jax.Array:
    """Log step sizes, and the log inflation of two layers."""
    log_steps = tuning.initial_log_steps(jax.random.key(0), TRANSITIONS, 3) + 1.3
    return jnp.concatenate([log_steps.ravel(), jnp.array([0.2, -0.1])])


def step_sizes_of(flat: jax.Array) -> jax.Array:
    return jnp.exp(flat[:-2].reshape(TRANSITIONS, 3))


def start_of(flat: jax.Array, key: jax.Array) -> jax.Array:
    mean, log_scale = jnp.array([0.5, 0.0, -0.5]), jnp.array([-0.5, 0.1, 0.3])
    _, back = tuning.whiten(DENSITY, mean, log_scale, flat[-2:], jnp.array([0, 0, 1]))
    return back(jax.random.normal(jax.random.fold_in(key, 1), (3,)))


def end_of(flat: jax.Array, key: jax.Array, frozen: bool) -> tuple[hmc.State, hmc.Info]:
    start, sizes = start_of(flat, key), step_sizes_of(flat)
    if not frozen:
        return hmc.run(key, hmc.init(start, DENSITY), DENSITY, sizes, STEPS)
    noise = hmc.draw_noise(key, (TRANSITIONS,), 3, start.dtype)
    return hmc.run_frozen(noise, start, DENSITY, sizes, STEPS)


def keys() -> jax.Array:
    return jax.random.split(jax.random.key(7), CHAINS)


Chains = jax.Array | tuple[jax.Array, jax.Array]


def both_ways(
    function: Callable[[jax.Array, Chains], jax.Array], chains: Chains
) -> tuple[jax.Array, jax.Array]:
    """The function of each chain, after a small move of each parameter forwards and back."""
    over_chains = jax.jit(jax.vmap(jax.vmap(function, (0, None)), (None, 0)))
    moves = MOVE * jnp.eye(parameters().size)
    flat = parameters()[None, :]
    return over_chains(flat + moves, chains), over_chains(flat - moves, chains)


def assert_derivative(
    derivative: np.ndarray, function: Callable[[jax.Array, Chains], jax.Array], chains: Chains
) -> None:
    up, down = both_ways(function, chains)
    expected = np.asarray(up - down) / (2 * MOVE)
    np.testing.assert_allclose(derivative, expected, rtol=1e-5, atol=1e-7 * np.abs(expected).max())


@cache
def derivatives(frozen: bool) -> np.ndarray:
    def objective(flat: jax.Array, key: jax.Array) -> jax.Array:
        return DENSITY(end_of(flat, key, frozen)[0].position)

    return np.asarray(jax.jit(jax.vmap(jax.grad(objective), (None, 0)))(parameters(), keys()))


def test_the_full_derivative() -> None:
    up, down = both_ways(lambda flat, key: end_of(flat, key, False)[1].accepted, keys())
    # No decision flips, and there are decisions of both kinds.
    assert (up == down).all()
    assert 0.2 < up.mean() < 0.95
    assert_derivative(
        derivatives(frozen=False),
        lambda flat, key: DENSITY(end_of(flat, key, False)[0].position),
        keys(),
    )


def test_the_density_carried_has_the_same_derivative() -> None:
    def objective(flat: jax.Array, key: jax.Array) -> jax.Array:
        return end_of(flat, key, False)[0].log_density

    derivative = jax.jit(jax.vmap(jax.grad(objective), (None, 0)))(parameters(), keys())
    np.testing.assert_allclose(derivative, derivatives(frozen=False), rtol=1e-8, atol=1e-8)


def test_the_frozen_derivative() -> None:
    flat = parameters()
    ends, info = jax.jit(jax.vmap(lambda key: end_of(flat, key, True)))(keys())

    def replay(moved: jax.Array, chain: tuple[jax.Array, jax.Array]) -> jax.Array:
        """The paper's equation 2 step by step, with forces and decisions as they were."""
        key, accepted = chain

        def transition(
            positions: jax.Array, inputs: tuple[jax.Array, jax.Array, jax.Array]
        ) -> tuple[jax.Array, None]:
            noise, steps, accepted = inputs
            # Two copies move at once; the force is that on the second, which was not moved.
            here, momentum = positions, jnp.stack([noise, noise])
            for _ in range(STEPS):
                momentum = momentum + 0.5 * steps * jax.grad(DENSITY)(here[1])[None, :]
                here = here + steps * momentum
                momentum = momentum + 0.5 * steps * jax.grad(DENSITY)(here[1])[None, :]
            return jnp.where(accepted, here, positions), None

        starts = jnp.stack([start_of(moved, key), start_of(flat, key)])
        steps = jnp.stack([step_sizes_of(moved), step_sizes_of(flat)], axis=1)
        noise = jax.random.normal(jax.random.split(key)[0], (TRANSITIONS, 3))
        inputs = (noise, steps, accepted)
        return jax.lax.scan(transition, starts, inputs)[0][0]

    chains = (keys(), info.accepted)
    replayed = jax.jit(jax.vmap(lambda chain: replay(flat, chain)))(chains)
    np.testing.assert_allclose(replayed, ends.position, rtol=1e-9, atol=1e-9)
    frozen = derivatives(frozen=True)
    assert_derivative(frozen, lambda moved, chain: DENSITY(replay(moved, chain)), chains)
    # It is another derivative than the full one.
    assert np.abs(frozen - derivatives(frozen=False)).max() > 0.1


def test_frozen_or_not_the_values_are_the_same() -> None:
    full, frozen = (
        jax.jit(jax.vmap(lambda key, frozen=frozen: end_of(parameters(), key, frozen)[0]))(keys())
        for frozen in (False, True)
    )
    assert jax.tree.all(jax.tree.map(np.array_equal, full, frozen))


def test_with_frozen_forces_only_the_position_has_a_derivative() -> None:
    def objective(flat: jax.Array) -> jax.Array:
        state, _ = end_of(flat, keys()[0], True)
        return state.log_density + jnp.sum(state.gradient)

    np.testing.assert_array_equal(jax.jit(jax.grad(objective))(parameters()), 0.0)
