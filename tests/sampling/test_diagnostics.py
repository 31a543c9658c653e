"""Diagnostics tell chains that did their work from chains that did not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from targets import gaussian

from hhvaem.sampling import diagnostics, hmc


@pytest.mark.parametrize("kept", [1, 5])
def test_nested_rhat(kept: int) -> None:
    draws = jax.random.normal(jax.random.key(0), (8, 200, kept, 4))
    assert (np.abs(diagnostics.nested_rhat(draws) - 1) < 0.01).all()
    # Chains that still remember where they started from.
    starts = 2.0 * jax.random.normal(jax.random.key(1), (8, 1, 1, 4))
    stuck = jnp.broadcast_to(starts, draws.shape) + draws
    assert (diagnostics.nested_rhat(stuck) > 1.1).all()


def test_nested_rhat_is_the_formula() -> None:
    draws = np.random.default_rng(0).normal(size=(3, 4, 5)).astype(np.float32)
    superchains = draws.mean((1, 2))
    between = ((superchains - superchains.mean()) ** 2).sum() / 2
    chains = draws.mean(2)
    within = np.mean(
        [
            sum((chains[k] - chains[k].mean()) ** 2) / 3
            + np.mean([sum((draws[k, m] - chains[k, m]) ** 2) / 4 for m in range(4)])
            for k in range(3)
        ]
    )
    found = diagnostics.nested_rhat(jnp.array(draws))
    assert found == pytest.approx(np.sqrt(1 + between / within), rel=1e-5)


@pytest.mark.parametrize("correlation", [0.0, 0.6, 0.95])
def test_effective_size_of_an_autoregression(correlation: float) -> None:
    noise = np.random.default_rng(0).normal(size=(20, 5000))
    draws = np.empty_like(noise)
    draws[:, 0] = noise[:, 0]
    for t in range(1, 5000):
        draws[:, t] = correlation * draws[:, t - 1] + np.sqrt(1 - correlation**2) * noise[:, t]
    exact = draws.size * (1 - correlation) / (1 + correlation)
    found = diagnostics.effective_size(jnp.array(draws, jnp.float32))
    assert found == pytest.approx(exact, rel=0.1)


def test_effective_size_of_stuck_chains_is_their_number() -> None:
    draws = np.random.default_rng(0).normal(size=(10, 200)) + 20 * np.arange(10)[:, None]
    assert diagnostics.effective_size(jnp.array(draws, jnp.float32)) < 25


def test_summary_and_movement_of_chains() -> None:
    density = gaussian((1.0, 1.0))
    # The second transition cannot work; nor can a chain move far with steps of 1e-5.
    sizes = jnp.array([[0.2, 0.2], [60.0, 60.0], [0.2, 0.2]])
    starts = jax.random.normal(jax.random.key(0), (6, 50, 2))
    keys = jax.random.split(jax.random.key(1), (6, 50))

    def chain(key: jax.Array, start: jax.Array, scale: float) -> tuple[jax.Array, hmc.Info]:
        state, info = hmc.run(key, hmc.init(start, density), density, scale * sizes, 5)
        return diagnostics.movement(start, state.position, jnp.zeros(2)), info

    chains = jax.jit(jax.vmap(jax.vmap(chain, (0, 0, None)), (0, 0, None)))
    moved, info = chains(keys, starts, 1.0)
    assert moved.mean() > 0.7
    summary = diagnostics.summarise(info)
    assert summary.acceptance.shape == (3,)
    assert (np.abs(summary.acceptance - np.array([1.0, 0.0, 1.0])) < 0.1).all()
    assert summary.divergent == pytest.approx(1 / 3, abs=0.01)
    still, _ = chains(keys, starts, 1e-5)
    assert still.max() < 0.05
    far = diagnostics.movement(jnp.zeros(2), jnp.array([3.0, 4.0]), jnp.log(jnp.full(2, 5.0)))
    assert far == pytest.approx(np.sqrt(0.5))
