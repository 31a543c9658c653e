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
