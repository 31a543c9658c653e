"""Hamiltonian Monte Carlo with a step size for each dimension (the paper's section 2.3).

The mass is the identity: a diagonal mass is the same thing as a step size for each dimension. The
last gradient and log density are carried from one transition to the next, so that T transitions
of L leapfrog steps take T L + 1 evaluations of the gradient.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

LogDensity = Callable[[Float[Array, " dim"]], Float[Array, ""]]

# Energy that a trajectory may gain before it is called divergent (Stan's figure).
DIVERGENCE = 1000.0


class State(NamedTuple):
    """What a chain carries on."""

    position: Float[Array, " dim"]
    log_density: Float[Array, ""]
    gradient: Float[Array, " dim"]


class Info(NamedTuple):
    """What a transition tells about itself."""

    acceptance: Float[Array, ""]
    accepted: Bool[Array, ""]
    divergent: Bool[Array, ""]
    energy_change: Float[Array, ""]


class Noise(NamedTuple):
    """What is random in a transition."""

    momentum: Float[Array, "*transitions dim"]
    threshold: Float[Array, "*transitions"]


def draw_noise(
    key: PRNGKeyArray, shape: tuple[int, ...], dim: int, dtype: DTypeLike = jnp.float32
) -> Noise:
    """Draw the noise of as many transitions as `shape` says."""
    momentum_key, decision_key = jax.random.split(key)
    return Noise(
        jax.random.normal(momentum_key, (*shape, dim), dtype),
        jax.random.uniform(decision_key, shape, dtype),
    )


def init(position: Float[Array, " dim"], log_density_fn: LogDensity) -> State:
    """Start a chain: one evaluation of the gradient."""
    return State(position, *jax.value_and_grad(log_density_fn)(position))


def leapfrog(
    state: State,
    momentum: Float[Array, " dim"],
    log_density_fn: LogDensity,
    step_size: Float[Array, " dim"],
    steps: int | Int[Array, ""],
) -> tuple[State, Float[Array, " dim"]]:
    """Follow the Hamiltonian flow for `steps` steps (equation 2).

    Two half kicks in a row are one kick, and the first half kick uses the gradient that `state`
    carries: `steps` evaluations of the gradient.

    Returns
    -------
    tuple
        The state at the end and the momentum there.
    """

    def drift_and_kick(
        _: object, carry: tuple[State, Float[Array, " dim"]]
    ) -> tuple[State, Float[Array, " dim"]]:
        state, momentum = carry
        # The density comes with its gradient at hardly any cost, and only the last one is used:
        # one evaluation for all steps keeps the compiled program small.
        state = init(state.position + step_size * momentum, log_density_fn)
        return state, momentum + step_size * state.gradient

    momentum = momentum + 0.5 * step_size * state.gradient
    state, momentum = lax.fori_loop(0, steps, drift_and_kick, (state, momentum))
    return state, momentum - 0.5 * step_size * state.gradient


def transition(
    key: PRNGKeyArray,
    state: State,
    log_density_fn: LogDensity,
    step_size: Float[Array, " dim"],
    steps: int,
) -> tuple[State, Info]:
    """Draw a momentum, follow it for `steps` leapfrog steps, and accept or stay.

    A proposal that is not finite in position, density or gradient is rejected whole; one of
    lower energy is accepted, however much lower it is. A chain that starts where the density is
    NaN stays there, and each of its transitions is divergent.

    The decision is a constant, should anyone differentiate: derivatives follow the branch that
    was taken, in reverse mode and with second derivatives of the target; one that is not finite
    by the step size or the start counts as zero for this trajectory.

    Parameters
    ----------
    key
        For the momentum and the decision.
    state
        Where the chain is.
    log_density_fn
        The target, up to a constant.
    step_size
        A step size for each dimension.
    steps
        The number of leapfrog steps.

    Returns
    -------
    tuple of State and Info
    """
    noise = draw_noise(key, (), state.position.size, state.position.dtype)
    return _move(noise, state, log_density_fn, step_size, steps)


def run(
    key: PRNGKeyArray,
    state: State,
    log_density_fn: LogDensity,
    step_sizes: Float[Array, "transitions dim"],
    steps: int,
) -> tuple[State, Info]:
    """Make one transition for each row of `step_sizes`.

    Parameters
    ----------
    key, state, log_density_fn, steps
        As for `transition`.
    step_sizes
        A step size for each transition and dimension: the paper's matrix phi.

    Returns
    -------
    tuple of State and Info
        The state at the end, and what each transition told, stacked along a leading axis.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> from hhvaem.sampling import hmc
    >>> def log_density(position):
    ...     return -0.5 * jnp.sum(position**2)
    >>> def chain(key):
    ...     state = hmc.init(jnp.full(3, 5.0), log_density)
    ...     return hmc.run(key, state, log_density, jnp.full((20, 3), 0.3), steps=5)
    >>> state, info = jax.vmap(chain)(jax.random.split(jax.random.key(0), 1000))
    >>> state.position.shape, info.acceptance.shape
    ((1000, 3), (1000, 20))
    >>> bool(abs(state.position.mean()) < 0.1)
    True
    """
    noise = draw_noise(key, (len(step_sizes),), state.position.size, state.position.dtype)

    def move(state: State, inputs: tuple[Noise, Float[Array, " dim"]]) -> tuple[State, Info]:
        return _move(inputs[0], state, log_density_fn, inputs[1], steps)

    return lax.scan(move, state, (noise, step_sizes))


def run_from(
    noise: Noise,
    position: Float[Array, " dim"],
    log_density_fn: LogDensity,
    step_sizes: Float[Array, "transitions dim"],
    steps: int,
) -> tuple[State, tuple[Float[Array, "transitions dim"], Info]]:
    """Start a chain and run it, in a program that compiles fast.

    Values are those of `init` and `run`, with noise that was drawn before. A start at which the
    density is not finite is left with the first proposal at which it is. Not for reverse mode.

    Returns
    -------
    state, (positions, info)
        The state at the end, and the position and what was told after each transition.
    """
    # The gradient at the start comes out of the same loop, and is not compiled apart: it is a
    # first transition of one step of length zero.
    nowhere = State(position, jnp.full_like(position[0], -jnp.inf), jnp.zeros_like(position))
    still = Noise(jnp.zeros_like(position), jnp.zeros_like(position[0]))
    every_noise = jax.tree.map(lambda one, rest: jnp.concatenate([one[None], rest]), still, noise)
    every_size = jnp.concatenate([jnp.zeros_like(position)[None], step_sizes])
    lengths = jnp.array([1, *[steps] * len(step_sizes)])

    def move(
        state: State, inputs: tuple[Noise, Float[Array, " dim"], Int[Array, ""]]
    ) -> tuple[State, tuple[Float[Array, " dim"], Info]]:
        noise, step_size, length = inputs
        state, info = _move(noise, state, log_density_fn, step_size, length)
        return state, (state.position, info)

    end, told = lax.scan(move, nowhere, (every_noise, every_size, lengths))
    return end, jax.tree.map(lambda leaf: leaf[1:], told)


def run_frozen(
    noise: Noise,
    position: Float[Array, " dim"],
    log_density_fn: LogDensity,
    step_sizes: Float[Array, "transitions dim"],
    steps: int,
) -> tuple[State, Info]:
    """Do what `run_from` does, and be differentiated as training wants it.

    The forces along the trajectories are constants (Campbell et al. 2021, and the published
    code), and the derivative reaches the step sizes and the start through the position at the end
    only: evaluate the target there to go on.
    """
    start, sizes = lax.stop_gradient((position, step_sizes))
    # Whatever else the density depends on is a constant as well.
    end, (positions, info) = lax.stop_gradient(run_from(noise, start, log_density_fn, sizes, steps))
    # With constant forces a trajectory ends at q + L step p + step^2 F. Hence its derivative by
    # the step is L p + 2 step F, and F need not be known: step^2 F is what the rest leaves.
    moves = jnp.diff(positions, axis=0, prepend=start[None])
    slopes = 2.0 * moves / sizes - steps * noise.momentum
    slopes = jnp.where(info.accepted[:, None] & jnp.isfinite(slopes), slopes, 0.0)
    # What is added has the value zero and the derivative wanted.
    moved = end.position + (position - start) + (slopes * (step_sizes - sizes)).sum(0)
    return end._replace(position=moved), info


def _move(
    noise: Noise,
    state: State,
    log_density_fn: LogDensity,
    step_size: Float[Array, " dim"],
    steps: int | Int[Array, ""],
) -> tuple[State, Info]:
    start, step_size = _finite((state, step_size))
    proposal, end_momentum = leapfrog(start, noise.momentum, log_density_fn, step_size, steps)

    # Energies decide and inform; nothing is differentiated through them.
    before, after, end_momentum = lax.stop_gradient((state, proposal, end_momentum))
    gain = _log_weight(after, end_momentum) - _log_weight(before, noise.momentum)
    finite = _all_finite(after) & ~jnp.isnan(gain)
    gain = jnp.where(finite, gain, -jnp.inf)
    # Capped before it is exponentiated: a large drop in energy must not overflow.
    acceptance = jnp.exp(jnp.minimum(gain, 0.0))
    accepted = noise.threshold < acceptance
    chosen = jax.tree.map(lambda new, old: jnp.where(accepted, new, old), proposal, state)
    return chosen, Info(acceptance, accepted, gain < -DIVERGENCE, -gain)


def _log_weight(state: State, momentum: Float[Array, " dim"]) -> Float[Array, ""]:
    return state.log_density - 0.5 * jnp.sum(momentum**2)


def _all_finite(tree: object) -> Bool[Array, ""]:
    return jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(tree)]).all()


@jax.custom_vjp
def _finite(start: tuple[State, Float[Array, " dim"]]) -> tuple[State, Float[Array, " dim"]]:
    """Change nothing; going backwards, drop derivatives that are not finite.

    A rejected trajectory gets the derivative 0, but where it went through regions without a
    finite force, 0 times NaN comes back from it.
    """
    return start


def _finite_forwards(
    start: tuple[State, Float[Array, " dim"]],
) -> tuple[tuple[State, Float[Array, " dim"]], None]:
    return start, None


def _finite_backwards(
    _: None, derivative: tuple[State, Float[Array, " dim"]]
) -> tuple[tuple[State, Float[Array, " dim"]]]:
    finite = _all_finite(derivative)
    return (jax.tree.map(lambda leaf: jnp.where(finite, leaf, 0.0), derivative),)


_finite.defvjp(_finite_forwards, _finite_backwards)
