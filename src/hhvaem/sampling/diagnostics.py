"""Whether chains did their work: acceptance, divergences, mixing, movement, effective size."""

import math
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from hhvaem.sampling import hmc


class Summary(NamedTuple):
    """What many chains told."""

    acceptance: Float[Array, " transitions"]
    divergent: Float[Array, ""]


def summarise(info: hmc.Info) -> Summary:
    """Give the mean acceptance of each transition, and the share of divergent transitions.

    The last axis of each field of `info` is that of transitions; all axes before it (rows,
    chains) are averaged over.
    """
    acceptance = info.acceptance.reshape(-1, info.acceptance.shape[-1]).mean(0)
    return Summary(acceptance, info.divergent.mean(dtype=acceptance.dtype))


def movement(
    start: Float[Array, " dim"], end: Float[Array, " dim"], log_scale: Float[Array, " dim"]
) -> Float[Array, ""]:
    """Give how far a chain went, as a root mean square over dimensions in encoder sigmas.

    Two independent draws of the encoder are about sqrt(2) apart; a chain stuck at its start
    scores 0.
    """
    return jnp.sqrt(jnp.mean(((end - start) * jnp.exp(-log_scale)) ** 2))


def nested_rhat(
    draws: Float[Array, "superchains chains draws *dim"],
) -> Float[Array, "*dim"]:
    """Give nested R-hat for many short chains (Margossian et al. 2024, definition 2.2).

    Chains of a superchain share their start, and superchains start far from each other. The
    result is 1 or a little more where chains have forgotten their start, also when only one draw
    of each chain is kept.

    Examples
    --------
    >>> import jax
    >>> draws = jax.random.normal(jax.random.key(0), (4, 250, 1, 3))
    >>> bool((nested_rhat(draws) < 1.02).all())
    True
    >>> starts = 3.0 * jax.random.normal(jax.random.key(1), (4, 1, 1, 3))
    >>> bool((nested_rhat(starts + draws) > 1.1).all())
    True
    """
    between = draws.mean((1, 2)).var(0, ddof=1)
    within = jnp.zeros_like(between)
    if draws.shape[1] > 1:
        within = within + draws.mean(2).var(1, ddof=1).mean(0)
    if draws.shape[2] > 1:
        within = within + draws.var(2, ddof=1).mean((0, 1))
    return jnp.sqrt(1.0 + between / within)


def effective_size(draws: Float[Array, "chains draws"]) -> Float[Array, ""]:
    """Give how many independent draws are worth as much for the mean as these.

    Autocorrelations of all chains together, summed up to where pairs of neighbours stop being
    positive and made to decrease (Geyer 1992; Vehtari et al. 2021, without ranks).

    Examples
    --------
    >>> import jax
    >>> draws = jax.random.normal(jax.random.key(0), (10, 1000))
    >>> bool(abs(effective_size(draws) / 10_000 - 1) < 0.15)
    True
    """
    chains, length = draws.shape
    centred = draws - draws.mean(1, keepdims=True)
    # Padded with as many zeros, the circular correlation of the FFT is the plain one.
    spectrum = jnp.abs(jnp.fft.rfft(centred, 2 * length, axis=1)) ** 2
    covariance = jnp.fft.irfft(spectrum, 2 * length, axis=1)[:, :length].mean(0) / length
    within = covariance[0] * length / (length - 1)
    between = draws.mean(1).var(ddof=1) if chains > 1 else jnp.zeros_like(within)
    correlation = 1.0 - (within - covariance) / (covariance[0] + between)
    pairs = correlation.at[0].set(1.0)[: length // 2 * 2].reshape(-1, 2).sum(1)
    # The running minimum makes pairs decrease, and keeps at zero what follows a negative one.
    time = 2.0 * lax.cummin(jnp.maximum(pairs, 0.0)).sum() - 1.0
    # Antithetic chains are worth more than independent ones, but not without bound (Stan's).
    return chains * length / jnp.maximum(time, 1.0 / math.log10(chains * length))
