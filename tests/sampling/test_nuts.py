"""Our draws agree with those of BlackJAX's NUTS where there is no exact answer."""

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from targets import TinyDecoder

from hhvaem.sampling import diagnostics, hmc, tuning

CHAINS, WARM_UP, DRAWS = 100, 100, 1000


def nuts_draws(density: hmc.LogDensity) -> jax.Array:
    kernel = blackjax.nuts(density, step_size=0.25, inverse_mass_matrix=jnp.ones(3))

    def chain(key: jax.Array, start: jax.Array) -> jax.Array:
        def once(state, key: jax.Array):
            state, _ = kernel.step(key, state)
            return state, state.position

        keys = jax.random.split(key, WARM_UP + DRAWS)
        return jax.lax.scan(once, kernel.init(start), keys)[1][WARM_UP:]

    starts = jax.random.normal(jax.random.key(0), (CHAINS, 3))
    return jax.jit(jax.vmap(chain))(jax.random.split(jax.random.key(1), CHAINS), starts)


def hmc_draws(density: hmc.LogDensity) -> jax.Array:
    def chain(key: jax.Array, start: jax.Array) -> jax.Array:
        def once(state: hmc.State, key: jax.Array) -> tuple[hmc.State, jax.Array]:
            jitter_key, key = jax.random.split(key)
            steps = tuning.jittered_steps(jitter_key, jnp.array(0.3), 2, 3)
            state, _ = hmc.run(key, state, density, steps, 5)
            return state, state.position

        keys = jax.random.split(key, WARM_UP + DRAWS)
        return jax.lax.scan(once, hmc.init(start, density), keys)[1][WARM_UP:]

    starts = jax.random.normal(jax.random.key(2), (CHAINS, 3))
    return jax.jit(jax.vmap(chain))(jax.random.split(jax.random.key(3), CHAINS), starts)


@pytest.mark.slow
# Other people's warnings are not ours to raise.
@pytest.mark.filterwarnings("default")
def test_agreement_with_nuts() -> None:
    density = TinyDecoder().log_density
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        theirs = nuts_draws(density)
    ours = hmc_draws(density)
    for draws in (ours, theirs):
        sizes = [diagnostics.effective_size(draws[..., d]) for d in range(3)]
        squares = [diagnostics.effective_size(draws[..., d] ** 2) for d in range(3)]
        assert min(sizes + squares) > 10_000
    scale = theirs.std((0, 1))
    assert (np.abs(ours.mean((0, 1)) - theirs.mean((0, 1))) < 0.05 * scale).all()
    assert (np.abs(ours.std((0, 1)) / scale - 1) < 0.05).all()
    # The target is worth the comparison: it is not a Gaussian.
    standard = (np.asarray(theirs, float) - np.asarray(theirs.mean((0, 1)))) / np.asarray(scale)
    assert np.abs((standard**3).mean((0, 1))).max() > 0.2
