"""One step of training."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from clinic_training import SMALL, clinic_data, start

from hhvaem import train
from hhvaem.steps import LOG_NOISES, hmc_step, variational_step


@pytest.mark.slow
@pytest.mark.parametrize("step", [variational_step, hmc_step])
def test_noise_that_is_not_learned_stays_as_it_is(step: object) -> None:
    state = train.unstack(start(seeds=(0,)), 0)
    quiet = jnp.full_like(state.model.log_noise, LOG_NOISES[0] - 1.5)
    model = eqx.tree_at(lambda m: m.log_noise, state.model, quiet)
    data = jax.tree.map(lambda leaf: leaf[0], clinic_data(1))
    after, _ = eqx.filter_jit(step)(state._replace(model=model), data, SMALL)
    np.testing.assert_array_equal(after.model.log_noise, quiet)


@pytest.mark.slow
@pytest.mark.parametrize("one", [True, False])
def test_step_sizes_are_learned_as_one_or_each_by_itself(one: bool) -> None:
    settings = dataclasses.replace(SMALL, one_step_size=one)
    state = train.unstack(start(seeds=(0,), settings=settings), 0)
    data = jax.tree.map(lambda leaf: leaf[0], clinic_data(1))
    after, _ = eqx.filter_jit(hmc_step)(state, data, settings)
    for log_steps in (state.sampler.log_steps, after.sampler.log_steps):
        assert (np.ptp(np.asarray(log_steps)) == 0) == one
    assert (after.sampler.log_steps != state.sampler.log_steps).all()


@pytest.mark.slow
def test_step_sizes_have_a_learning_rate_of_their_own() -> None:
    data = jax.tree.map(lambda leaf: leaf[0], clinic_data(1))
    moved = {}
    for rate in (None, SMALL.learning_rate, 10 * SMALL.learning_rate):
        settings = dataclasses.replace(SMALL, step_rate=rate)
        state = train.unstack(start(seeds=(0,), settings=settings), 0)
        after, _ = eqx.filter_jit(hmc_step)(state, data, settings)
        moved[rate] = np.asarray(after.sampler.log_steps - state.sampler.log_steps)
    np.testing.assert_array_equal(moved[None], moved[SMALL.learning_rate])
    # The first step of Adam is as long as its rate.
    np.testing.assert_allclose(moved[10 * SMALL.learning_rate], 10 * moved[None], rtol=1e-3)
