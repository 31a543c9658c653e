"""The integrator is reversible, keeps volume, and errs by the square of its step."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from targets import Skewed, TinyDecoder

from hhvaem.sampling import hmc

pytestmark = pytest.mark.usefixtures("x64")
STEP = np.array([0.11, 0.07])


@partial(jax.jit, static_argnames="steps")
def flow(phase: jax.Array, step_size: jax.Array, steps: int) -> jax.Array:
    position, momentum = jnp.split(phase, 2)
    start = hmc.init(position, Skewed.log_density)
    end, momentum = hmc.leapfrog(start, momentum, Skewed.log_density, step_size, steps)
    return jnp.concatenate([end.position, momentum])


def phases(count: int) -> jax.Array:
    key, other = jax.random.split(jax.random.key(0))
    return jnp.concatenate([Skewed.sample(key, count), jax.random.normal(other, (count, 2))], 1)


@pytest.mark.parametrize("steps", [1, 2, 5, 20])
def test_it_comes_back(steps: int) -> None:
    there = jax.vmap(flow, (0, None, None))(phases(50), jnp.array(STEP), steps)
    turn = jnp.array([[1.0, 1.0, -1.0, -1.0]])
    back = jax.vmap(flow, (0, None, None))(there * turn, jnp.array(STEP), steps) * turn
    assert np.abs(back - phases(50)).max() < 1e-10
    assert np.abs(there - phases(50)).max() > 0.1


def test_it_keeps_volume() -> None:
    jacobian = jax.jit(jax.vmap(jax.jacobian(lambda phase: flow(phase, jnp.array(STEP), 5))))(
        phases(20)
    )
    assert np.abs(np.linalg.det(jacobian) - 1).max() < 1e-10


def test_its_energy_error_is_of_second_order() -> None:
    def error(step: float) -> float:
        def one(phase: jax.Array) -> jax.Array:
            end = flow(phase, jnp.full(2, step), round(1.2 / step))
            energy = [
                Skewed.log_density(here[:2]) - 0.5 * jnp.sum(here[2:] ** 2) for here in (phase, end)
            ]
            return energy[1] - energy[0]

        return float(jnp.sqrt(jnp.mean(jax.jit(jax.vmap(one))(phases(200)) ** 2)))

    steps = np.array([0.1, 0.05, 0.025, 0.0125])
    slope, _ = np.polyfit(np.log(steps), np.log([error(step) for step in steps]), 1)
    assert slope == pytest.approx(2.0, abs=0.1)


def test_the_state_at_the_end_is_that_of_its_position() -> None:
    target = TinyDecoder().log_density
    start = hmc.init(jnp.array([0.3, -0.2, 1.0]), target)
    end, _ = hmc.leapfrog(start, jnp.ones(3), target, jnp.full(3, 0.1), 4)
    again = hmc.init(end.position, target)
    assert jax.tree.all(jax.tree.map(np.allclose, end, again))
