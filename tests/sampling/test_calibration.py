"""Simulation-based calibration (Talts et al. 2018) of draws from the posterior of a model.

Rows are made by the model from positions of the prior. Given its row, such a position and draws
of the posterior are exchangeable: its rank among them, by any function of position and row, is
uniform. Ranks that are not uniform show a sampler that draws from something else, or a density
that is not that of the rows.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from hhvaem.encoding import Cells
from hhvaem.marginals import Direct
from hhvaem.model import Model, Row, Seen
from hhvaem.networks import Dense, Perceptron
from hhvaem.objectives import Sampler, chain, chain_noise
from hhvaem.sampling import diagnostics, hmc, tuning

pytestmark = pytest.mark.slow

SIMULATIONS, DRAWS, LEVEL = 1000, 15, 0.001
# Numbers, a binary and a categorical column; the fourth is rounded, so that it has masses.
LEVELS, ROUNDED, WIDTH = (1, 2, 3, 1, 1, 1), 3, 0.5
LAYERS, SIZE = (3, 2), 5
# The step is accepted four times in five. By nested R-hat, chains from the encoder have forgotten
# their start after 40 transitions, and with the paper's steps after 80.
STEP, STEPS, TRANSITIONS, PAPER_TRANSITIONS = 0.22, 5, 60, 100
LOG_JOINT = -1

# From a model, a row, a key, a whitened start, and which transitions are made, to a position.
Draw = Callable[[Model, Seen, jax.Array, jax.Array, jax.Array], jax.Array]
Transition = Callable[..., tuple[hmc.State, hmc.Info | None]]


@pytest.fixture(scope="module")
def model() -> Model:
    """Networks of which posteriors are bent, with one mode, and narrower than the prior."""
    generator = np.random.default_rng(0)

    def network(sizes: tuple[int, int, int], gain: float) -> Perceptron:
        layers = []
        for inputs, outputs, shift in zip(sizes[:-1], sizes[1:], (1.0, 0.0), strict=True):
            parts = generator.uniform(-gain, gain, (inputs + 1, outputs)) / np.sqrt(inputs)
            weight, bias = parts[:-1], parts[-1] + shift
            layers.append(Dense(jnp.asarray(weight, jnp.float32), jnp.asarray(bias, jnp.float32)))
        return Perceptron(tuple(layers))

    marginals, targets = Direct(LEVELS, jnp.zeros(8)), Direct((1,), jnp.zeros(1))
    made = Model.init(marginals, targets, LAYERS, hidden=16, key=jax.random.key(0))
    made = eqx.tree_at(
        lambda m: (m.hierarchy.priors[0], m.decoder, m.predictor),
        made,
        (network((2, 16, 6), 1.2), network((3, 16, 8), 1.5), network((3 + 8 + 6, 16, 1), 1.2)),
    )
    # Rows are not whitened alike.
    made = eqx.tree_at(
        lambda m: [head.weight for head in m.encoder.heads], made, replace_fn=lambda w: 3.0 * w
    )
    return eqx.tree_at(
        lambda m: (m.log_noise, m.target_log_noise),
        made,
        replace_fn=lambda log_noise: jnp.full_like(log_noise, np.log(0.3)),
    )


class Simulation(NamedTuple):
    """A row that was made from a position, and the statistics of that position."""

    seen: Seen
    statistics: jax.Array


@pytest.fixture(scope="module")
def simulations(model: Model) -> Simulation:
    keys = jax.random.split(jax.random.key(0), SIMULATIONS)
    return jax.jit(jax.vmap(partial(simulate, model)))(keys)


def simulate(model: Model, key: jax.Array) -> Simulation:
    position_key, cell_key, mask_key, target_key = jax.random.split(key, 4)
    position = jax.random.normal(position_key, (SIZE,))
    h = model.hierarchy.bottom(position)
    parameters = model.decoder(h)
    x = model.marginals.sample(parameters, model.log_noise, key=cell_key)
    low = x.at[ROUNDED].set(WIDTH * jnp.floor(x[ROUNDED] / WIDTH))
    high = low.at[ROUNDED].add(WIDTH)
    mask = jax.random.bernoulli(mask_key, 0.7, (len(LEVELS) + 1,))
    nothing = Cells(*(jnp.zeros(1),) * 3)
    row = Row(Cells(low, high, (low + high) / 2), mask[:-1], nothing, mask[-1:])
    # The predictor reads which cells are observed: the law of the target depends on the mask.
    law = model.predict(h, parameters, row)
    y = model.targets.sample(law, model.target_log_noise, key=target_key)
    seen = model.see(row._replace(target=Cells(y, y, y)))
    return Simulation(seen, statistics(model, seen, position))


def statistics(model: Model, seen: Seen, position: jax.Array) -> jax.Array:
    """Each number of the position and of h_1, its squared norm, and how it fits the row.

    The target has a statistic of its own: draws that ignore it have uniform ranks by all others.
    """
    _, target = model.cell_log_probs(position, seen, with_target=True)
    target = jnp.where(seen.row.target_mask, target, 0.0)
    log_joint = model.log_joint(position, seen, with_target=True)
    norm = jnp.sum(position**2)
    parts = (position, model.hierarchy.bottom(position), norm[None], target, log_joint[None])
    return jnp.concatenate(parts)


def default(
    model: Model,
    seen: Seen,
    key: jax.Array,
    start: jax.Array,
    made: jax.Array,
    transition: Transition = hmc.transition,
) -> jax.Array:
    """Our default: whitened by the encoder, and jittered."""
    law = model.encode(seen)
    density, back = tuning.whiten(
        lambda position: model.log_joint(position, seen, with_target=True),
        law.mean,
        law.log_scale,
        jnp.zeros(len(LAYERS)),
        jnp.asarray(model.hierarchy.layer_of),
    )

    def move(state: hmc.State, inputs: tuple[jax.Array, jax.Array]) -> tuple[hmc.State, None]:
        key, step_size = inputs
        return transition(key, state, density, step_size, STEPS)[0], None

    jitter_key, key = jax.random.split(key)
    step_sizes = tuning.jittered_steps(jitter_key, jnp.array(STEP), TRANSITIONS, SIZE)
    # With steps of zero a chain stays where it is.
    step_sizes = jnp.where(made[:, None], step_sizes, 0.0)
    inputs = (jax.random.split(key, TRANSITIONS), step_sizes)
    return back(jax.lax.scan(move, hmc.init(start, density), inputs)[0].position)


def without_decision(
    key: jax.Array, state: hmc.State, density: hmc.LogDensity, step: jax.Array, steps: int
) -> tuple[hmc.State, None]:
    """HMC that accepts each proposal that is finite."""
    momentum = jax.random.normal(key, state.position.shape)
    proposal, _ = hmc.leapfrog(state, momentum, density, step, steps)
    finite = jnp.isfinite(proposal.log_density) & jnp.isfinite(proposal.gradient).all()
    return jax.tree.map(partial(jnp.where, finite), proposal, state), None


def undecided(*chain: object) -> jax.Array:
    return default(*chain, transition=without_decision)


def paper(model: Model, seen: Seen, key: jax.Array, start: jax.Array, made: jax.Array) -> jax.Array:
    """The paper's chain: from the inflated encoder, steps for each transition and dimension."""
    log_steps = tuning.initial_log_steps(jax.random.key(2), PAPER_TRANSITIONS, SIZE)
    # Larger than at the start of training, so that the decision matters.
    sampler = Sampler(jnp.log(1.5) + log_steps, jnp.log(jnp.array([1.3, 1.1])))
    noise = chain_noise(key, (), PAPER_TRANSITIONS, SIZE)
    return chain(model, sampler, seen, noise, STEPS, with_target=True)[0].position


def prior(model: Model, seen: Seen, key: jax.Array, start: jax.Array, made: jax.Array) -> jax.Array:
    return start


def drawn(draw: Draw, model: Model, seen: Seen, starts: jax.Array, made: jax.Array) -> np.ndarray:
    """The statistics of the last draw of each chain; `starts` has the axes rows and chains."""
    rows, chains = starts.shape[:2]
    # All chains stand on one axis: that is faster than two, and compiled once for all tests.
    seen = jax.tree.map(lambda leaf: jnp.repeat(leaf, chains, axis=0), seen)
    keys = jax.random.split(jax.random.key(3), rows * chains)
    found = _drawn(draw, model, seen, keys, starts.reshape(-1, SIZE), made)
    return np.asarray(found).reshape(rows, chains, -1)


@eqx.filter_jit
def _drawn(
    draw: Draw, model: Model, seen: Seen, keys: jax.Array, starts: jax.Array, made: jax.Array
) -> jax.Array:
    def one(seen: Seen, key: jax.Array, start: jax.Array) -> jax.Array:
        return statistics(model, seen, draw(model, seen, key, start, made))

    return jax.vmap(one)(seen, keys, starts)


def chances(draw: Draw, model: Model, simulations: Simulation) -> np.ndarray:
    """Chi-squared that ranks are uniform, for each statistic; adjusted by Holm for their number."""
    starts = jax.random.normal(jax.random.key(1), (SIMULATIONS, DRAWS, SIZE))
    draws = drawn(draw, model, simulations.seen, starts, jnp.ones(TRANSITIONS, bool))
    truth = np.asarray(simulations.statistics)[:, None]
    # Among draws that equal it, as all do where the target is hidden, it has any of their ranks.
    ties = np.random.default_rng(0).integers((draws == truth).sum(1), endpoint=True)
    ranks = (draws < truth).sum(1) + ties
    counts = np.stack([np.bincount(each, minlength=DRAWS + 1) for each in ranks.T])
    chance = stats.chisquare(counts, axis=1).pvalue
    order = np.argsort(chance)
    adjusted = np.maximum.accumulate(chance[order] * np.arange(chance.size, 0, -1))
    return adjusted[np.argsort(order)]


@pytest.mark.parametrize("draw", [default, paper])
def test_ranks_are_uniform(model: Model, simulations: Simulation, draw: Draw) -> None:
    assert (chances(draw, model, simulations) > LEVEL).all()


def test_without_the_decision_they_are_not_and_the_test_knows(
    model: Model, simulations: Simulation
) -> None:
    assert chances(undecided, model, simulations).min() < LEVEL


def test_nor_are_those_among_draws_that_do_not_know_the_row(
    model: Model, simulations: Simulation
) -> None:
    found = chances(prior, model, simulations)
    # By each number of a position they are uniform all the same; by the log joint they are not.
    assert (found[:SIZE] > LEVEL).all()
    assert found[LOG_JOINT] < LEVEL


def test_chains_are_long_enough(model: Model, simulations: Simulation) -> None:
    # Chains of a superchain share their start; together they are as many as above.
    rows, superchains, chains = 25, 6, 100
    starts = jax.random.normal(jax.random.key(4), (rows, superchains, SIZE))
    starts = jnp.repeat(starts, chains, axis=1)
    # The statistic of a hidden target does not vary.
    with_target = np.flatnonzero(simulations.seen.row.target_mask)[:rows]
    few = jax.tree.map(lambda leaf: leaf[with_target], simulations.seen)

    def excess(transitions: int) -> np.ndarray:
        """The variance between superchains, in units of what independent draws would have."""
        draws = drawn(default, model, few, starts, jnp.arange(TRANSITIONS) < transitions)
        nested = jnp.asarray(draws).reshape(rows, superchains, chains, 1, -1)
        rhat = jax.vmap(diagnostics.nested_rhat)(nested)
        return chains * (np.asarray(rhat) ** 2 - 1).mean(0)

    # A mean over rows of what is about chi-squared(5) / 5 where the start is forgotten.
    error = np.sqrt(2 / (superchains - 1) / rows)
    assert excess(TRANSITIONS).max() < 1 + 4.5 * error
    assert excess(2).max() > 1 + 20 * error
