"""What training maximises, for one row; nothing is averaged here."""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray

from hhvaem.likelihoods import normal_log_prob
from hhvaem.model import Gaussian, Model, Seen
from hhvaem.sampling import hmc, tuning


class Elbo(NamedTuple):
    """The two parts of the evidence lower bound: their difference is the bound."""

    log_likelihood: Float[Array, ""]
    divergence: Float[Array, " layers"]


class Sampler(NamedTuple):
    """What the third stage learns about its chains (section 3.4 of the paper).

    `log_steps` are the logs of the step sizes, one for each transition and dimension (phi);
    `log_inflation` the logs of the factors on the encoder's standard deviations, one for each
    layer (s).
    """

    log_steps: Float[Array, "transitions size"]
    log_inflation: Float[Array, " layers"]


class ChainNoise(NamedTuple):
    """What is random in a chain, all of it drawn before."""

    start: Float[Array, "*rows size"]
    moves: hmc.Noise


def elbo(model: Model, seen: Seen, noise: Float[Array, " size"]) -> Elbo:
    """Estimate the ELBO (equation 8) with one draw from the encoder, by standard normal noise.

    The divergence from the prior is exact where the prior is standard normal; without the
    reparameterisation it is that of the draw.
    """
    law = model.encode(seen)
    position = law.at(noise)
    log_likelihood = model.log_likelihood(position, seen, with_target=True)
    if model.hierarchy.reparameterised:
        each = 0.5 * (law.mean**2 + jnp.exp(2 * law.log_scale) - 1) - law.log_scale
        return Elbo(log_likelihood, _by_layer(model, each))
    log_q = normal_log_prob(law.mean, law.log_scale, position)
    return Elbo(log_likelihood, _by_layer(model, log_q) - model.hierarchy.log_prior(position))


def importance_bound(
    model: Model, seen: Seen, noise: Float[Array, "samples size"]
) -> Float[Array, ""]:
    """Estimate the importance-weighted bound with a draw for each row of noise (Burda 2016)."""
    law = model.encode(seen)

    def log_weight(noise: Float[Array, " size"]) -> Float[Array, ""]:
        position = law.at(noise)
        log_q = normal_log_prob(law.mean, law.log_scale, position).sum()
        return model.log_joint(position, seen, with_target=True) - log_q

    return jax.nn.logsumexp(jax.vmap(log_weight)(noise)) - math.log(len(noise))


def whitened(
    model: Model, seen: Seen, log_joint: hmc.LogDensity
) -> tuple[hmc.LogDensity, Gaussian]:
    """Give a density of positions in coordinates in which the encoder's law is standard normal.

    Also that law, which takes coordinates back to positions. One step size does for all of them
    and for all rows, as far as the encoder is right.
    """
    law = model.encode(seen)
    one_group = jnp.zeros(law.mean.shape, jnp.int32)
    density, _ = tuning.whiten(log_joint, law.mean, law.log_scale, jnp.zeros(1), one_group)
    return density, law


def balance(
    divergences: Float[Array, "rows layers"], layers: tuple[int, ...], progress: Float[Array, ""]
) -> Float[Array, " layers"]:
    """Give the weights of the layers' divergences (appendix, "Balancing the KLs").

    While `progress` is below 1 the weight of a layer is its share of sum_l d_l KL_l, times
    `progress`: a layer that the encoder hardly uses is hardly penalised. Afterwards weights are
    1. They are constants: differentiating them would push small divergences up.
    """
    magnitude = jnp.array(layers, divergences.dtype) * divergences.mean(0)
    share = magnitude / jnp.maximum(magnitude.sum(), 1e-30)
    return lax.stop_gradient(jnp.where(progress < 1, share * progress, 1.0))


def chain_noise(
    key: PRNGKeyArray, shape: tuple[int, ...], transitions: int, size: int
) -> ChainNoise:
    """Draw the noise of as many chains as `shape` says."""
    normal_key, uniform_key = jax.random.split(key)
    start, momentum = jnp.split(
        jax.random.normal(normal_key, (*shape, 1 + transitions, size)), [1], axis=-2
    )
    threshold = jax.random.uniform(uniform_key, (*shape, transitions))
    return ChainNoise(start[..., 0, :], hmc.Noise(momentum, threshold))


def chain(
    model: Model,
    sampler: Sampler,
    seen: Seen,
    noise: ChainNoise,
    steps: int,
    *,
    with_target: bool,
) -> tuple[hmc.State, hmc.Info]:
    """Run one chain from the inflated encoder (q^(T) of the paper).

    Derivatives reach the step sizes and the inflation, through the position at the end and along
    the moves that were accepted, with forces taken as constants; the model is a constant.
    """
    arrays, rest = eqx.partition(model, eqx.is_array)
    model = eqx.combine(lax.stop_gradient(arrays), rest)
    law = model.encode(seen)
    log_scale = law.log_scale + sampler.log_inflation[model.hierarchy.layer_of]
    start = Gaussian(law.mean, log_scale).at(noise.start)

    def log_density(position: Float[Array, " size"]) -> Float[Array, ""]:
        return model.log_joint(position, seen, with_target=with_target)

    return hmc.run_frozen(noise.moves, start, log_density, jnp.exp(sampler.log_steps), steps)


def _by_layer(model: Model, each: Float[Array, " size"]) -> Float[Array, " layers"]:
    return jnp.stack([part.sum() for part in model.hierarchy.split(each)])
