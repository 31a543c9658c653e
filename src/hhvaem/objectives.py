"""What training maximises, for one row; nothing is averaged here."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray

from hhvaem.likelihoods import normal_log_prob
from hhvaem.model import Gaussian, Model, Seen
from hhvaem.sampling import hmc


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


def elbo(model: Model, seen: Seen, *, key: PRNGKeyArray) -> Elbo:
    """Estimate the ELBO (equation 8) with one draw from the encoder.

    The divergence from the prior is exact where the prior is standard normal; without the
    reparameterisation it is that of the draw.
    """
    law = model.encode(seen)
    position = _draw(law, key)
    log_likelihood = model.log_likelihood(position, seen, with_target=True)
    if model.hierarchy.reparameterised:
        each = 0.5 * (law.mean**2 + jnp.exp(2 * law.log_scale) - 1) - law.log_scale
        return Elbo(log_likelihood, _by_layer(model, each))
    log_q = normal_log_prob(law.mean, law.log_scale, position)
    return Elbo(log_likelihood, _by_layer(model, log_q) - model.hierarchy.log_prior(position))


def importance_bound(
    model: Model, seen: Seen, samples: int, *, key: PRNGKeyArray
) -> Float[Array, ""]:
    """Estimate the importance-weighted bound with `samples` draws (Burda et al. 2016)."""
    law = model.encode(seen)

    def log_weight(key: PRNGKeyArray) -> Float[Array, ""]:
        position = _draw(law, key)
        log_q = normal_log_prob(law.mean, law.log_scale, position).sum()
        return model.log_joint(position, seen, with_target=True) - log_q

    log_weights = jax.vmap(log_weight)(jax.random.split(key, samples))
    return jax.nn.logsumexp(log_weights) - jnp.log(float(samples))


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


def chain(
    model: Model,
    sampler: Sampler,
    seen: Seen,
    steps: int,
    *,
    with_target: bool,
    key: PRNGKeyArray,
) -> tuple[hmc.State, hmc.Info]:
    """Run one chain from the inflated encoder (q^(T) of the paper).

    Derivatives reach the step sizes and the inflation, through the position at the end and along
    the moves that were accepted, with forces taken as constants; the model is a constant.
    """
    arrays, rest = eqx.partition(model, eqx.is_array)
    model = eqx.combine(lax.stop_gradient(arrays), rest)
    law = model.encode(seen)
    start_key, run_key = jax.random.split(key)
    log_scale = law.log_scale + sampler.log_inflation[model.hierarchy.layer_of]
    start = _draw(Gaussian(law.mean, log_scale), start_key)

    def log_density(position: Float[Array, " size"]) -> Float[Array, ""]:
        return model.log_joint(position, seen, with_target=with_target)

    state = hmc.init(start, log_density)
    return hmc.run(
        run_key, state, log_density, jnp.exp(sampler.log_steps), steps, frozen_force=True
    )


def _draw(law: Gaussian, key: PRNGKeyArray) -> Float[Array, " size"]:
    return law.mean + jnp.exp(law.log_scale) * jax.random.normal(key, law.mean.shape)


def _by_layer(model: Model, each: Float[Array, " size"]) -> Float[Array, " layers"]:
    return jnp.stack([part.sum() for part in model.hierarchy.split(each)])
