"""A model with two layers in the coordinates of either: eps, whose prior is standard normal, or h.

What its encoder and its chains tell of test rows, in its own coordinates and in the other ones.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray

from hhvaem.compiling import program
from hhvaem.hierarchy import Hierarchy
from hhvaem.marginal_vae import MarginalVAEs
from hhvaem.model import Gaussian, Model, Row, Seen
from hhvaem.objectives import ChainNoise, Sampler, chain, chain_noise
from hhvaem.sampling import hmc
from hhvaem.sampling.diagnostics import movement

# Chains of a row where only their acceptance is asked for.
FEW_CHAINS = 10
# Step sizes to try.
SWEEP = tuple(np.geomspace(0.001, 1.0, 10).round(4).tolist())
QUANTILES = (0.05, 0.5, 0.95)


class Encoders(NamedTuple):
    """What encoders tell of test rows.

    `joint` and `paper` are the log p(x_U | x_O) of `imputation` by draws of the encoder, averaged
    over rows; `prior_scale` are quantiles of the standard deviations in p(h_1 | h_2) over these
    draws; `top_divergence` is how much the encoder says of h_2, in nats for each row.
    """

    joint: Float[Array, "*models"]
    paper: Float[Array, "*models"]
    prior_scale: Float[Array, "*models quantiles"]
    top_divergence: Float[Array, "*models"]


class Chains(NamedTuple):
    """What chains on test rows tell, with the step sizes and the inflation learned so far.

    `switched_acceptance` is that of chains in the coordinates of the other variant, from the same
    starts with the same step sizes.
    """

    joint: Float[Array, "*models"]
    paper: Float[Array, "*models"]
    acceptance: Float[Array, "*models"]
    divergent: Float[Array, "*models"]
    movement: Float[Array, "*models"]
    switched_acceptance: Float[Array, "*models"]
    step_sizes: Float[Array, "*models layers"]
    inflation: Float[Array, "*models layers"]


def imputation(
    model: Model, row: Row, positions: Float[Array, "draws size"]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Give log p(x_U | x_O) per hidden cell, from draws given x_O: `joint` and `paper`.

    The first is (1/|U|) log (1/k) sum_i prod_d p(x_d | draw_i), the second
    log (1/k) sum_i exp((1/|U|) sum_d log p(x_d | z_d = its mean)). Both are 0 where no cell is
    hidden.
    """
    marginals = model.marginals
    assert isinstance(marginals, MarginalVAEs)
    hidden = ~row.mask
    count = jnp.maximum(hidden.sum(), 1).astype(positions.dtype)

    def log_probs(position: Float[Array, " size"]) -> tuple[Float[Array, ""], Float[Array, ""]]:
        parameters = model.decoder(model.hierarchy.bottom(position))
        whole = marginals.log_prob(parameters, model.log_noise, row.cells)
        at_mean = marginals.log_prob_given_z(parameters, row.cells)
        return jnp.where(hidden, whole, 0.0).sum(), jnp.where(hidden, at_mean, 0.0).sum()

    def log_mean_exp(values: Float[Array, " draws"]) -> Float[Array, ""]:
        return jax.nn.logsumexp(values) - math.log(len(positions))

    whole, at_mean = jax.vmap(log_probs)(positions)
    return log_mean_exp(whole) / count, log_mean_exp(at_mean / count)


def switched(model: Model) -> Model:
    """Give the same model with positions in the coordinates of the other variant."""
    ladder = model.hierarchy
    other = Hierarchy(ladder.layers, not ladder.reparameterised, ladder.priors)
    return eqx.tree_at(lambda m: m.hierarchy, model, other)


def switched_position(ladder: Hierarchy, position: Float[Array, " size"]) -> Float[Array, " size"]:
    """Give the same latents in the coordinates of the other variant; there are two layers."""
    low, top = ladder.split(position)
    mean, scale = _prior(ladder, top)
    low = mean + scale * low if ladder.reparameterised else (low - mean) / scale
    return jnp.concatenate([low, top])


def _prior(
    ladder: Hierarchy, top: Float[Array, " second"]
) -> tuple[Float[Array, " first"], Float[Array, " first"]]:
    """Give the mean and the standard deviation of p(h_1 | h_2)."""
    mean, log_variance = jnp.split(ladder.priors[0](top), 2)
    return mean, jnp.exp(0.5 * log_variance)


@program
def look_at_encoders(models: Model, test: Row, draws: int, key: PRNGKeyArray) -> Encoders:
    """Draw from the encoders on test rows."""

    def one(model: Model) -> Encoders:
        seen, noise = _see(model, test, draws, 1, key)
        law = jax.vmap(model.encode)(seen)
        positions = jax.vmap(lambda law, noise: jax.vmap(law.at)(noise))(law, noise.start)
        top = model.hierarchy.layer_of == 1
        _, scales = jax.vmap(jax.vmap(partial(_prior, model.hierarchy)))(positions[..., top])
        each = 0.5 * (law.mean**2 + jnp.exp(2 * law.log_scale) - 1) - law.log_scale
        return Encoders(
            *_imputed(model, test, positions),
            jnp.quantile(scales, jnp.array(QUANTILES)),
            each[:, top].sum(1).mean(),
        )

    return _each(one, models)


@program
def look_at_chains(
    trained: tuple[Model, Sampler], test: Row, draws: int, leapfrog: int, key: PRNGKeyArray
) -> Chains:
    """Run chains on test rows."""

    def one(trained: tuple[Model, Sampler]) -> Chains:
        model, sampler = trained
        seen, noise = _see(model, test, draws, len(sampler.log_steps), key)
        steps, layer = jnp.exp(sampler.log_steps), model.hierarchy.layer_of

        def start(law: Gaussian, noise: ChainNoise) -> Float[Array, " size"]:
            inflated = law.log_scale + sampler.log_inflation[layer]
            return law._replace(log_scale=inflated).at(noise.start)

        def run(seen: Seen, noise: ChainNoise) -> tuple[Float[Array, " size"], list[Array]]:
            end, info = chain(model, sampler, seen, noise, leapfrog, with_target=False)
            law = model.encode(seen)
            moved = movement(start(law, noise), end.position, law.log_scale)
            divergent = info.divergent.mean(dtype=moved.dtype)
            return end.position, [info.acceptance.mean(), divergent, moved]

        def run_switched(seen: Seen, noise: ChainNoise) -> Float[Array, ""]:
            there = switched_position(model.hierarchy, start(model.encode(seen), noise))
            info = _chain(switched(model), seen, there, noise.moves, steps, leapfrog)
            return info.acceptance.mean()

        positions, told = jax.vmap(jax.vmap(run, (None, 0)))(seen, noise)
        few = jax.tree.map(lambda leaf: leaf[:, :FEW_CHAINS], noise)
        acceptance, divergent, moved = (each.mean() for each in told)
        return Chains(
            *_imputed(model, test, positions),
            acceptance,
            divergent,
            moved,
            jax.vmap(jax.vmap(run_switched, (None, 0)))(seen, few).mean(),
            jnp.stack([steps[:, layer == number].mean() for number in (0, 1)]),
            jnp.exp(sampler.log_inflation),
        )

    return _each(one, trained)


@program
def sweep(
    trained: tuple[Model, Sampler], test: Row, leapfrog: int, key: PRNGKeyArray
) -> Float[Array, "models coordinates sweep"]:
    """Give the acceptance by step size, the same for all dimensions, from where chains end.

    First in the variant's own coordinates, then in those of the other.
    """

    def one(trained: tuple[Model, Sampler]) -> Float[Array, "coordinates sweep"]:
        model, sampler = trained
        transitions, size = sampler.log_steps.shape
        chain_key, move_key = jax.random.split(key)
        seen, noise = _see(model, test, FEW_CHAINS, transitions, chain_key)
        moves = hmc.draw_noise(move_key, (len(test.mask), FEW_CHAINS, transitions), size)

        def run(
            seen: Seen, noise: ChainNoise, moves: hmc.Noise
        ) -> Float[Array, "coordinates sweep"]:
            end, _ = chain(model, sampler, seen, noise, leapfrog, with_target=False)
            there = switched_position(model.hierarchy, end.position)

            def both(step: Float[Array, ""]) -> Float[Array, " coordinates"]:
                steps = jnp.full((transitions, size), step)
                own = _chain(model, seen, end.position, moves, steps, leapfrog)
                other = _chain(switched(model), seen, there, moves, steps, leapfrog)
                return jnp.stack([own.acceptance.mean(), other.acceptance.mean()])

            return lax.map(both, jnp.array(SWEEP)).T

        return jax.vmap(jax.vmap(run, (None, 0, 0)))(seen, noise, moves).mean((0, 1))

    return _each(one, trained)


def _each(function: Callable[[Any], Any], trained: Any) -> Any:
    """Do one model after the other, for a smaller program."""
    arrays, rest = eqx.partition(trained, eqx.is_array)
    return lax.map(lambda arrays: function(eqx.combine(arrays, rest)), arrays)


def _see(
    model: Model, test: Row, draws: int, transitions: int, key: PRNGKeyArray
) -> tuple[Seen, ChainNoise]:
    """See the test rows, and draw the noise of their chains; the same in every call."""
    feature_key, noise_key = jax.random.split(key)
    seen = jax.vmap(model.see)(test, jax.random.normal(feature_key, test.mask.shape))
    shape = (len(test.mask), draws)
    return seen, chain_noise(noise_key, shape, transitions, model.hierarchy.size)


def _chain(
    model: Model,
    seen: Seen,
    start: Float[Array, " size"],
    moves: hmc.Noise,
    steps: Float[Array, "transitions size"],
    leapfrog: int,
) -> hmc.Info:
    def log_density(position: Float[Array, " size"]) -> Float[Array, ""]:
        return model.log_joint(position, seen, with_target=False)

    return hmc.run_frozen(moves, start, log_density, steps, leapfrog)[1]


def _imputed(
    model: Model, test: Row, positions: Float[Array, "rows draws size"]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Average `imputation` over the rows that have a hidden cell."""
    # Row by row: the integral over z of all rows at once would take a gigabyte.
    joint, paper = lax.map(lambda row: imputation(model, *row), (test, positions))
    rows = (~test.mask).any(1).sum(dtype=joint.dtype)
    return joint.sum() / rows, paper.sum() / rows
