r"""Annealed importance sampling: bounds on the log evidence of a row (Neal 2001).

A chain goes from a base density to a target along the geometric path

    log p_b(z) = (1 - b) log p_base(z) + b log p_target(z),  0 = b_0 < ... < b_T = 1,

with an HMC transition at each b_t, and sums (b_t - b_{t-1}) (log p_target - log p_base) on its
way. Neither density need be normalised: what is estimated is log Z_target - log Z_base.

- log p(x_O): base `standard_normal`, target log p(eps, x_O), started from a standard normal draw.
  To start from the encoder instead, whiten the target (`tuning.whiten`); log Z stays the same.
- log p(x_U | x_O): base log p(eps, x_O), target log p(eps, x_O, x_U), started from a posterior
  draw given x_O; or the difference of the two log evidences.

`forward` gives unbiased weights for Z, so the log of their mean is a lower bound in expectation.
`reverse` gives unbiased weights for 1 / Z, hence an upper bound, but only from an exact draw of
the target, and only rows simulated from the model have one: the eps that made them. On real rows
there are two lower bounds, of log p(x_O) and of log p(x_O, x_U), and their difference is an
estimate and no bound. The gap between both directions on simulated rows tells what to trust.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray

from hhvaem.sampling import hmc, tuning

# How much acceptance above its target lengthens the next temperature's log step in `tune_steps`.
RATE = 0.5


class State(NamedTuple):
    """Where a chain ended, and the log weight it gathered."""

    position: Float[Array, " dim"]
    log_weight: Float[Array, ""]


class Estimate(NamedTuple):
    """A value and its standard error."""

    value: Float[Array, ""]
    error: Float[Array, ""]


def standard_normal(position: Float[Array, " dim"]) -> Float[Array, ""]:
    """Give the log density of N(0, I)."""
    return -0.5 * jnp.sum(position**2 + math.log(2.0 * math.pi))


def sigmoid_temperatures(transitions: int) -> Float[Array, " {transitions}+1"]:
    """Give inverse temperatures from 0 to 1, denser at both ends (Wu et al. 2017)."""
    curve = jax.nn.sigmoid(jnp.linspace(-4.0, 4.0, transitions + 1))
    return (curve - curve[0]) / (curve[-1] - curve[0])


def forward(
    key: PRNGKeyArray,
    position: Float[Array, " dim"],
    log_base_fn: hmc.LogDensity,
    log_target_fn: hmc.LogDensity,
    temperatures: Float[Array, " temperatures"],
    step_sizes: Float[Array, "temperatures-1 dim"],
    steps: int,
) -> tuple[State, hmc.Info]:
    """Go from the base to the target.

    Parameters
    ----------
    key
        For the transitions.
    position
        An exact draw of the base.
    log_base_fn, log_target_fn
        Log densities up to constants.
    temperatures
        Inverse temperatures b_0 = 0 to b_T = 1, increasing.
    step_sizes
        For each transition, chosen without looking at this chain: `tune_steps`.
    steps
        Leapfrog steps of a transition. Each temperature takes one gradient more than that, as
        the density changes between transitions.

    Returns
    -------
    tuple of State and hmc.Info
        The weight is unbiased for Z_target / Z_base; the position is nearly a draw of the target.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> def log_target(z):  # Z = (2 pi 0.25)^(2/2) = 1.5708
    ...     return -0.5 * jnp.sum((z - 1.0) ** 2) / 0.25
    >>> temperatures, step_sizes = sigmoid_temperatures(100), jnp.full((100, 2), 0.3)
    >>> def chain(key):
    ...     start_key, key = jax.random.split(key)
    ...     start = jax.random.normal(start_key, (2,))
    ...     return forward(
    ...         key, start, standard_normal, log_target, temperatures, step_sizes, steps=3
    ...     )
    >>> state, info = jax.vmap(chain)(jax.random.split(jax.random.key(0), 500))
    >>> evidence = log_mean_exp(state.log_weight)
    >>> bool(abs(evidence.value - jnp.log(1.5708)) < 4 * evidence.error)
    True
    """

    def move(
        state: State,
        inputs: tuple[PRNGKeyArray, Float[Array, ""], Float[Array, ""], Float[Array, " dim"]],
    ) -> tuple[State, hmc.Info]:
        key, before, after, step_size = inputs
        log_ratio = log_target_fn(state.position) - log_base_fn(state.position)
        path = (log_base_fn, log_target_fn, after)
        position, info = _move(key, state.position, path, step_size, steps)
        return State(position, state.log_weight + (after - before) * log_ratio), info

    start = State(position, jnp.zeros((), position.dtype))
    keys = jax.random.split(key, len(step_sizes))
    return lax.scan(move, start, (keys, temperatures[:-1], temperatures[1:], step_sizes))


def reverse(
    key: PRNGKeyArray,
    position: Float[Array, " dim"],
    log_base_fn: hmc.LogDensity,
    log_target_fn: hmc.LogDensity,
    temperatures: Float[Array, " temperatures"],
    step_sizes: Float[Array, "temperatures-1 dim"],
    steps: int,
) -> tuple[State, hmc.Info]:
    """Go from the target to the base: the steps of `forward`, backwards.

    Parameters are those of `forward`, in the same order of time, except that `position` is an
    exact draw of the target. The weight returned is W with E exp(-W) = Z_base / Z_target, so
    that -`log_mean_exp`(-W) is an upper bound on log Z_target - log Z_base in expectation.
    """

    def move(
        state: State,
        inputs: tuple[PRNGKeyArray, Float[Array, ""], Float[Array, ""], Float[Array, " dim"]],
    ) -> tuple[State, hmc.Info]:
        key, before, after, step_size = inputs
        path = (log_base_fn, log_target_fn, after)
        position, info = _move(key, state.position, path, step_size, steps)
        log_ratio = log_target_fn(position) - log_base_fn(position)
        return State(position, state.log_weight + (after - before) * log_ratio), info

    start = State(position, jnp.zeros((), position.dtype))
    keys = jax.random.split(key, len(step_sizes))
    inputs = (keys, temperatures[:-1], temperatures[1:], step_sizes)
    return lax.scan(move, start, inputs, reverse=True)


def log_mean_exp(log_weights: Float[Array, " chains"]) -> Estimate:
    """Give the log of the mean weight, with its standard error by the delta method."""
    log_sum = jax.nn.logsumexp(log_weights)
    relative = log_weights.size * jnp.exp(log_weights - log_sum)
    return Estimate(
        log_sum - math.log(log_weights.size),
        jnp.std(relative, ddof=1) / log_weights.size**0.5,
    )


def tune_steps(
    key: PRNGKeyArray,
    positions: Float[Array, "chains dim"],
    log_base_fn: hmc.LogDensity,
    log_target_fn: hmc.LogDensity,
    temperatures: Float[Array, " temperatures"],
    log_step: Float[Array, ""],
    steps: int,
) -> Float[Array, "temperatures-1 dim"]:
    """Find a step size for each temperature with pilot chains from the base.

    The mean acceptance at one temperature sets the step for the next. The pilot chains are then
    thrown away: weights of chains that had chosen their own steps would not be unbiased.
    """

    def move(
        carry: tuple[Float[Array, "chains dim"], Float[Array, ""]],
        inputs: tuple[PRNGKeyArray, Float[Array, ""]],
    ) -> tuple[tuple[Float[Array, "chains dim"], Float[Array, ""]], Float[Array, ""]]:
        positions, log_step = carry
        key, temperature = inputs
        path = (log_base_fn, log_target_fn, temperature)
        step_size = jnp.full(positions.shape[1], jnp.exp(log_step))

        def one(
            key: PRNGKeyArray, position: Float[Array, " dim"]
        ) -> tuple[Float[Array, " dim"], hmc.Info]:
            return _move(key, position, path, step_size, steps)

        positions, info = jax.vmap(one)(jax.random.split(key, len(positions)), positions)
        excess = info.acceptance.mean() - tuning.TARGET
        return (positions, log_step + RATE * excess), log_step

    keys = jax.random.split(key, temperatures.size - 1)
    _, log_steps = lax.scan(move, (positions, log_step), (keys, temperatures[1:]))
    return jnp.broadcast_to(jnp.exp(log_steps)[:, None], (len(log_steps), positions.shape[1]))


def _move(
    key: PRNGKeyArray,
    position: Float[Array, " dim"],
    path: tuple[hmc.LogDensity, hmc.LogDensity, Float[Array, ""]],
    step_size: Float[Array, " dim"],
    steps: int,
) -> tuple[Float[Array, " dim"], hmc.Info]:
    """Make a transition at one point of the path: the base, the target, and how far along."""
    log_base_fn, log_target_fn, temperature = path

    def tempered(position: Float[Array, " dim"]) -> Float[Array, ""]:
        base, target = log_base_fn(position), log_target_fn(position)
        return (1.0 - temperature) * base + temperature * target

    state = hmc.init(position, tempered)
    state, info = hmc.transition(key, state, tempered, step_size, steps)
    return state.position, info
