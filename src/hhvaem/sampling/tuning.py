"""Step sizes and coordinates for HMC: the paper's learned schedule, and our default.

The paper learns a step size for each transition and dimension, by gradients of the log density
at the end of the chain; `initial_log_steps` is where that starts. The default is one number: HMC
runs in coordinates whitened by the encoder, with a step size that is jittered at each transition
(trajectories of one length resonate with some direction and leave it unmixed) and found by dual
averaging, over many rows in `adapt_rows` or from one row's own chains in `adapt_row`.
"""

import math
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from hhvaem.sampling import hmc

Row = TypeVar("Row")
Map = Callable[[Float[Array, " dim"]], Float[Array, " dim"]]

# Acceptance that dual averaging aims at.
TARGET = 0.8
# Hoffman and Gelman (2014), section 3.2.1: how hard the step size is pulled to the start of the
# search, how much the first updates are damped, and how fast old iterates are forgotten.
SHRINKAGE, DELAY, DECAY = 0.05, 10.0, 0.75


def initial_log_steps(
    key: PRNGKeyArray, transitions: int, dim: int
) -> Float[Array, "{transitions} {dim}"]:
    """Draw the start of the learned schedule: logs of step sizes from U(0.05, 0.2)."""
    return jnp.log(jax.random.uniform(key, (transitions, dim), minval=0.05, maxval=0.2))


def jittered_steps(
    key: PRNGKeyArray, step_size: Float[Array, ""], transitions: int, dim: int, spread: float = 0.5
) -> Float[Array, "{transitions} {dim}"]:
    """Multiply one step size by a factor from U(1 - spread, 1 + spread) at each transition.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> steps = jittered_steps(jax.random.key(0), jnp.array(0.4), transitions=10, dim=3)
    >>> steps.shape, bool((steps > 0.2).all()), bool((steps < 0.6).all())
    ((10, 3), True, True)
    """
    factors = jax.random.uniform(
        key, (transitions, 1), step_size.dtype, minval=1.0 - spread, maxval=1.0 + spread
    )
    return jnp.broadcast_to(step_size * factors, (transitions, dim))


def whiten(
    log_density_fn: hmc.LogDensity,
    mean: Float[Array, " dim"],
    log_scale: Float[Array, " dim"],
    log_inflation: Float[Array, " groups"],
    group: Int[Array, " dim"],
) -> tuple[hmc.LogDensity, Map]:
    """Change to coordinates in which an inflated diagonal Gaussian is the standard one.

    Parameters
    ----------
    log_density_fn
        The target as a function of the position eps.
    mean, log_scale
        The encoder's Gaussian.
    log_inflation
        The log of the factor on its standard deviations, one for each group of dimensions: the
        paper has one for each layer.
    group
        The group of each dimension.

    Returns
    -------
    tuple
        The log density of u = (eps - mean) / (inflation * scale), with its Jacobian, and the map
        from u back to eps. That map takes a standard normal draw to a start of the paper's chain.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> def log_density(eps):
    ...     return -0.5 * jnp.sum(eps**2)
    >>> mean, log_scale = jnp.array([1.0, 2.0, 3.0]), jnp.zeros(3)
    >>> layers = jnp.array([0, 0, 1])
    >>> density, back = whiten(log_density, mean, log_scale, jnp.log(jnp.array([1.0, 2.0])), layers)
    >>> back(jnp.ones(3)).tolist()
    [2.0, 3.0, 5.0]
    """
    log_width = log_scale + log_inflation[group]

    def to_position(whitened: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return mean + jnp.exp(log_width) * whitened

    def whitened_log_density(whitened: Float[Array, " dim"]) -> Float[Array, ""]:
        return log_density_fn(to_position(whitened)) + jnp.sum(log_width)

    return whitened_log_density, to_position


class Averaging(NamedTuple):
    """Where dual averaging of a log step size stands."""

    log_step: Float[Array, ""]
    averaged_log_step: Float[Array, ""]
    mean_error: Float[Array, ""]
    updates: Float[Array, ""]
    centre: Float[Array, ""]


def averaging_init(log_step: Float[Array, ""]) -> Averaging:
    """Start dual averaging (Nesterov 2009; Hoffman and Gelman 2014) at a log step size."""
    zero = jnp.zeros_like(log_step)
    # Large steps are cheap to try, so the search is drawn to ten times the start.
    return Averaging(log_step, zero, zero, zero, log_step + math.log(10.0))


def averaging_update(averaging: Averaging, acceptance: Float[Array, ""]) -> Averaging:
    """Take in the mean acceptance that the current step size gave."""
    count = averaging.updates + 1.0
    weight = 1.0 / (count + DELAY)
    error = (1.0 - weight) * averaging.mean_error + weight * (TARGET - acceptance)
    log_step = averaging.centre - jnp.sqrt(count) / SHRINKAGE * error
    # The first weight is one: the zero that stands there at the start counts for nothing.
    weight = count**-DECAY
    averaged = weight * log_step + (1.0 - weight) * averaging.averaged_log_step
    return Averaging(log_step, averaged, error, count, averaging.centre)


def averaging_final(averaging: Averaging) -> Float[Array, ""]:
    """Give the log step size to sample with: the averaged one, which varies less than the last."""
    return averaging.averaged_log_step


def adapt_row(
    key: PRNGKeyArray,
    states: hmc.State,
    averaging: Averaging,
    log_density_fn: hmc.LogDensity,
    steps: int,
    transitions: int,
) -> tuple[tuple[hmc.State, Averaging], hmc.Info]:
    """Adapt a step size to one target by its own chains.

    Parameters
    ----------
    key
        For the transitions and their jitter.
    states
        Chains along the leading axis.
    averaging
        Where the search stands: from `averaging_init`, or from an earlier call.
    log_density_fn
        The target, whitened where that is wanted.
    steps
        Leapfrog steps of a transition.
    transitions
        How many updates of the step size.

    Returns
    -------
    tuple
        The chains and the search at the end, and what the transitions told, of shape
        `(transitions, chains)`.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> def log_density(position):
    ...     return -0.5 * jnp.sum(position**2)
    >>> key, start = jax.random.key(0), jax.random.normal(jax.random.key(1), (50, 3))
    >>> states = jax.vmap(hmc.init, in_axes=(0, None))(start, log_density)
    >>> averaging = averaging_init(jnp.log(0.1))
    >>> (states, averaging), info = adapt_row(key, states, averaging, log_density, 5, 100)
    >>> bool(abs(info.acceptance[50:].mean() - 0.8) < 0.05)
    True
    """

    def move(
        key: PRNGKeyArray, states: hmc.State, step_size: Float[Array, ""]
    ) -> tuple[hmc.State, hmc.Info]:
        def one(key: PRNGKeyArray, state: hmc.State) -> tuple[hmc.State, hmc.Info]:
            return _jittered_transition(key, state, log_density_fn, step_size, steps)

        return jax.vmap(one)(jax.random.split(key, len(states.log_density)), states)

    return _adapt(key, states, averaging, move, transitions)


def adapt_rows(
    key: PRNGKeyArray,
    states: hmc.State,
    averaging: Averaging,
    log_density_fn: Callable[[Row, Float[Array, " dim"]], Float[Array, ""]],
    rows: Row,
    steps: int,
    transitions: int,
) -> tuple[tuple[hmc.State, Averaging], hmc.Info]:
    """Adapt one step size to many targets at once, over all chains of all rows.

    As `adapt_row`, but `states` has the axes rows and chains, `log_density_fn` takes the data of
    a row before the position, and `rows` holds these data along the leading axis of each leaf.
    """

    def move(
        key: PRNGKeyArray, states: hmc.State, step_size: Float[Array, ""]
    ) -> tuple[hmc.State, hmc.Info]:
        def one(key: PRNGKeyArray, state: hmc.State, row: Row) -> tuple[hmc.State, hmc.Info]:
            return _jittered_transition(
                key, state, lambda position: log_density_fn(row, position), step_size, steps
            )

        keys = jax.random.split(key, states.log_density.shape)
        return jax.vmap(jax.vmap(one, in_axes=(0, 0, None)))(keys, states, rows)

    return _adapt(key, states, averaging, move, transitions)


def _jittered_transition(
    key: PRNGKeyArray,
    state: hmc.State,
    log_density_fn: hmc.LogDensity,
    step_size: Float[Array, ""],
    steps: int,
) -> tuple[hmc.State, hmc.Info]:
    jitter_key, key = jax.random.split(key)
    [step_sizes] = jittered_steps(jitter_key, step_size, 1, state.position.size)
    return hmc.transition(key, state, log_density_fn, step_sizes, steps)


def _adapt(
    key: PRNGKeyArray,
    states: hmc.State,
    averaging: Averaging,
    move: Callable[
        [PRNGKeyArray, hmc.State, Float[Array, ""]],
        tuple[hmc.State, hmc.Info],
    ],
    transitions: int,
) -> tuple[tuple[hmc.State, Averaging], hmc.Info]:
    def update(
        carry: tuple[hmc.State, Averaging], key: PRNGKeyArray
    ) -> tuple[tuple[hmc.State, Averaging], hmc.Info]:
        states, averaging = carry
        states, info = move(key, states, jnp.exp(averaging.log_step))
        return (states, averaging_update(averaging, info.acceptance.mean())), info

    return lax.scan(update, (states, averaging), jax.random.split(key, transitions))
