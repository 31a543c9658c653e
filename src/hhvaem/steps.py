"""One step of training, of one model.

Those of algorithm 1 are `variational_step`, `hmc_step` and `inflation_step`; `likelihood_step` is
the third stage of the default preset.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple, TypeVar, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import lax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from hhvaem.datasets.splits import train_mask
from hhvaem.devices import divided
from hhvaem.model import Model, Row, Seen
from hhvaem.objectives import (
    ChainNoise,
    Sampler,
    balance,
    chain,
    chain_noise,
    elbo,
    importance_bound,
    whitened,
)
from hhvaem.sampling import hmc, stein
from hhvaem.sampling.tuning import initial_log_steps, jittered_steps

Inference = Literal["gaussian", "importance", "hmc", "likelihood"]
INFERENCES: tuple[Inference, ...] = get_args(Inference)
THREE_STAGES: tuple[Inference, ...] = ("hmc", "likelihood")

# Where the step size of `likelihood_step` starts, the acceptance that it is to have, and the share
# of what is missing to it by which the log step size is changed at every step.
FIRST_STEP, ACCEPTANCE, GAIN = 0.3, 0.8, 0.05
# Bounds of a learned log noise: variances from exp(-7) to exp(1).
LOG_NOISES = (-3.5, 0.5)


@dataclass(frozen=True)
class Settings:
    """How a model is trained; the values are the paper's for Boston.

    Parameters
    ----------
    inference
        What the second stage maximises, and whether there is a third: the ELBO (`gaussian`), the
        importance-weighted bound (`importance`), the ELBO and then chains with learned steps
        (`hmc`, the paper's), or the importance-weighted bound and then the likelihood by chains
        with one step size (`likelihood`).
    steps, hmc_steps
        Steps in all, and how many of them are of the third stage, if there is one.
    batch_size
        Rows of a step.
    learning_rate, inflation_rate, weight_decay
        Of Adam; the decay goes into the gradient, and an inflation whose rate is 0 stays 1. In the
        third stage of `likelihood` the rate of the generative networks falls to 0.
    learned_noise
        Whether each column's noise is learned with the decoder, or stays as it is.
    warm_up
        Steps in which the divergences of layers are balanced; none where there is one layer.
    importance_samples
        Draws of the importance-weighted bound.
    transitions, leapfrog
        Length of a chain, and leapfrog steps of a transition.
    one_step_size
        Whether all transitions and directions share one learned step size.
    stein_every, stein_rows, stein_chains
        How often the inflation is updated, and on how many rows and chains.
    patience
        Steps without a better score on held-out cells after which a stage ends, with the model
        that scored best; 0 for never.
    step_rate
        Learning rate of the step sizes; None for that of all else.
    """

    inference: Inference = "hmc"
    steps: int = 20_000
    hmc_steps: int = 2_000
    batch_size: int = 100
    learning_rate: float = 1e-3
    inflation_rate: float = 1e-2
    weight_decay: float = 0.0
    learned_noise: bool = False
    warm_up: int = 1_000
    importance_samples: int = 5
    transitions: int = 10
    leapfrog: int = 5
    one_step_size: bool = False
    stein_every: int = 10
    stein_rows: int = 10
    stein_chains: int = 30
    patience: int = 0
    step_rate: float | None = None

    @property
    def second_stage(self) -> int:
        """How many steps the second stage has."""
        return self.steps - (self.hmc_steps if self.inference in THREE_STAGES else 0)


class Data(NamedTuple):
    """Rows on the device; those from `rows` on are padding, and so are columns from `columns` on.

    With `cumulative` weights, rows are not all drawn equally often: row i as often as a uniform
    number falls between the weights i - 1 and i. With a `noise_pull`, learned log noises are drawn
    to 0 by half of it times their squares; with a `decay`, so are the weights of networks that are
    no shortcuts.
    """

    table: Row
    rows: Int[Array, "*models"]
    cumulative: Float[Array, "*models rows"] | None = None
    columns: Int[Array, "*models"] | None = None
    noise_pull: Float[Array, "*models"] | None = None
    decay: Float[Array, "*models"] | None = None


class State(NamedTuple):
    """All that training carries from step to step.

    `positions` are where the chain of each row stands in the third stage of `likelihood`, NaN where
    it has not begun; there are none elsewhere.
    """

    model: Model
    sampler: Sampler
    directions: Float[Array, "size size"]
    # Optax's own type of them refers to itself, which not all versions of beartype can follow.
    moments: dict[str, Any]
    step: Int[Array, ""]
    key: PRNGKeyArray
    positions: Float[Array, "*models rows size"]


class Told(NamedTuple):
    """What a step tells: its loss, the acceptance of its chains, and the SKSD where measured."""

    loss: Float[Array, "*steps"]
    acceptance: Float[Array, "*steps"]
    stein: Float[Array, "*steps"]


def init(model: Model, settings: Settings, *, key: PRNGKeyArray) -> State:
    """Start the training of one model."""
    step_key, direction_key, key = jax.random.split(key, 3)
    size = model.hierarchy.size
    log_steps = initial_log_steps(step_key, settings.transitions, size)
    if settings.inference == "likelihood":
        log_steps = jnp.full_like(log_steps, math.log(FIRST_STEP))
    elif settings.one_step_size:
        log_steps = jnp.full_like(log_steps, log_steps.mean())
    sampler = Sampler(log_steps, jnp.zeros(len(model.hierarchy.layers)))
    directions = jnp.eye(size) + 0.1 * jax.random.normal(direction_key, (size, size))
    trained = {
        "model": eqx.filter(model, _all_networks(model, settings)),
        "encoder": eqx.filter(model, _encoder(model, settings)),
        "generative": eqx.filter(model, _generative(model, settings)),
        "steps": sampler.log_steps,
        "inflation": sampler.log_inflation,
        "directions": directions,
    }
    moments = {name: _optimiser(name, settings).init(part) for name, part in trained.items()}
    return State(
        model, sampler, directions, moments, jnp.zeros((), jnp.int32), key, jnp.zeros((0, size))
    )


def variational_step(state: State, data: Data, settings: Settings) -> tuple[State, Told]:
    """Line 11: the encoder and the generative networks on the bound."""
    key, batch_key, noise_key = jax.random.split(state.key, 3)
    batch = _batch(state.model, data, settings.batch_size, batch_key)
    trained = _all_networks(state.model, settings)
    state, value = _bound_step("model", trained, state, batch, data, settings, noise_key)
    nan = jnp.array(jnp.nan)
    return state._replace(step=state.step + 1, key=key), Told(value, nan, nan)


def hmc_step(state: State, data: Data, settings: Settings) -> tuple[State, Told]:
    """Lines 14 and 15: the encoder on the bound, generative networks and step sizes on chains."""
    key, batch_key, noise_key, chain_key = jax.random.split(state.key, 4)
    batch = _batch(state.model, data, settings.batch_size, batch_key)
    encoder = _encoder(state.model, settings)
    state, _ = _bound_step("encoder", encoder, state, batch, data, settings, noise_key)
    model, moments = state.model, state.moments

    generative, rest = eqx.partition(model, _generative(model, settings))
    shape, size = (settings.batch_size,), model.hierarchy.size
    noise = chain_noise(chain_key, shape, settings.transitions, size)

    def hmc_loss(
        trained: tuple[Model, Float[Array, "transitions size"]],
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        model = eqx.combine(trained[0], rest)
        sampler = Sampler(trained[1], lax.stop_gradient(state.sampler.log_inflation))

        def one(seen: Seen, noise: ChainNoise) -> tuple[Float[Array, ""], Float[Array, ""]]:
            end, info = chain(model, sampler, seen, noise, settings.leapfrog, with_target=True)
            log_joint = model.log_joint(end.position, seen, with_target=True)
            return -log_joint, info.acceptance.mean()

        losses, acceptance = jax.vmap(one)(batch, noise)
        return losses.mean() + _pulled(model, data, settings), acceptance.mean()

    trained = (generative, state.sampler.log_steps)
    (value, acceptance), gradient = jax.value_and_grad(hmc_loss, has_aux=True)(trained)
    slopes = _held_back(gradient[0], generative, data)
    generative, moments = _update("generative", generative, slopes, moments, settings)
    slope = gradient[1]
    if settings.one_step_size:
        slope = jnp.full_like(slope, slope.sum())
    log_steps, moments = _update("steps", trained[1], slope, moments, settings)
    state = state._replace(
        model=_within_bounds(eqx.combine(generative, rest), settings),
        sampler=state.sampler._replace(log_steps=log_steps),
        moments=moments,
        step=state.step + 1,
        key=key,
    )
    return state, Told(value, acceptance, jnp.array(jnp.nan))


def likelihood_step(state: State, data: Data, settings: Settings) -> tuple[State, Told]:
    """Step up the likelihood by chains that go on from visit to visit of their row.

    The gradient of log p(cells, position), averaged over positions from the posterior, is that of
    log p(cells) (Fisher's identity): this is maximum likelihood, as far as the chains have come,
    where a bound pulls the model towards what its encoder can follow. Chains see all observed cells
    of a row and are not differentiated. What has to do with hidden cells, the encoder and the
    predictor, goes on learning on the bound.
    """
    key, row_key, mask_key, feature_key, bound_key, chain_key = jax.random.split(state.key, 6)
    numbers = _drawn_rows(data, settings.batch_size, row_key)
    rows = divided(jax.tree.map(lambda leaf: leaf[numbers], data.table))
    hidden = _seen(state.model, _hidden(rows, mask_key), feature_key)
    encoder = _encoder(state.model, settings)
    state, _ = _bound_step("encoder", encoder, state, hidden, data, settings, bound_key)
    model, size = state.model, state.model.hierarchy.size
    seen = _seen(model, rows, feature_key)
    step_size = jnp.exp(state.sampler.log_steps[0, 0])

    def move(
        seen: Seen, position: Float[Array, " size"], key: PRNGKeyArray
    ) -> tuple[Float[Array, " size"], Float[Array, ""]]:
        start_key, jitter_key, move_key = jax.random.split(key, 3)
        density, law = whitened(model, seen, partial(model.log_joint, seen=seen, with_target=True))
        begun = (position - law.mean) * jnp.exp(-law.log_scale)
        start = jnp.where(jnp.isnan(position), jax.random.normal(start_key, (size,)), begun)
        sizes = jittered_steps(jitter_key, step_size, settings.transitions, size)
        moves = hmc.draw_noise(move_key, (settings.transitions,), size, start.dtype)
        end, (_, info) = hmc.run_from(moves, start, density, sizes, settings.leapfrog)
        return law.at(end.position), info.acceptance.mean()

    keys = jax.random.split(chain_key, settings.batch_size)
    ends, acceptance = lax.stop_gradient(jax.vmap(move)(seen, state.positions[numbers], keys))
    generative, rest = eqx.partition(model, _generative(model, settings))

    def loss(generative: Model) -> Float[Array, ""]:
        model = eqx.combine(generative, rest)
        log_joint = jax.vmap(partial(model.log_joint, with_target=True))(ends, seen)
        return -log_joint.mean() + _pulled(model, data, settings)

    value, gradient = jax.value_and_grad(loss)(generative)
    gradient = _held_back(gradient, generative, data)
    generative, moments = _update("generative", generative, gradient, state.moments, settings)
    log_steps = state.sampler.log_steps + GAIN * (acceptance.mean() - ACCEPTANCE)
    state = state._replace(
        model=_within_bounds(eqx.combine(generative, rest), settings),
        sampler=state.sampler._replace(log_steps=log_steps),
        moments=moments,
        step=state.step + 1,
        key=key,
        positions=_put(state.positions, numbers, ends),
    )
    return state, Told(value, acceptance.mean(), jnp.array(jnp.nan))


def _put(
    positions: Float[Array, "rows size"],
    numbers: Int[Array, " batch"],
    ends: Float[Array, "batch size"],
) -> Float[Array, "rows size"]:
    """Set the positions of some rows; of one that was drawn twice, the last, on every device."""
    later = jnp.triu(numbers[:, None] == numbers[None, :], 1).any(1)
    return positions.at[jnp.where(later, len(positions), numbers)].set(ends, mode="drop")


def inflation_step(state: State, data: Data, settings: Settings) -> tuple[State, Float[Array, ""]]:
    """Line 16: one step of the inflation down, and of the slices' directions up, the SKSD."""
    key, batch_key, chain_key = jax.random.split(state.key, 3)
    model, size = state.model, state.model.hierarchy.size
    batch = _batch(model, data, settings.stein_rows, batch_key)
    shape = (settings.stein_rows, settings.stein_chains)
    noise = chain_noise(chain_key, shape, settings.transitions, size)

    def discrepancy(
        learned: tuple[Float[Array, " layers"], Float[Array, "size size"]],
    ) -> Float[Array, ""]:
        sampler = Sampler(state.sampler.log_steps, learned[0])
        directions = learned[1] / jnp.linalg.norm(learned[1], axis=1, keepdims=True)

        def one(seen: Seen, noise: ChainNoise) -> Float[Array, ""]:
            def end(noise: ChainNoise) -> hmc.State:
                return chain(model, sampler, seen, noise, settings.leapfrog, with_target=True)[0]

            ends = jax.vmap(end)(noise)
            scores = lax.stop_gradient(ends.gradient)
            bandwidths = stein.median_bandwidths(ends.position, directions)
            return stein.sksd(
                ends.position, scores, jnp.eye(size), directions, bandwidths, unbiased=True
            )

        return jax.vmap(one)(batch, noise).mean()

    learned = (state.sampler.log_inflation, state.directions)
    value, (down, up) = jax.value_and_grad(discrepancy)(learned)
    inflation, moments = _update("inflation", learned[0], down, state.moments, settings)
    directions, moments = _update("directions", learned[1], -up, moments, settings)
    sampler = state.sampler._replace(log_inflation=inflation)
    return state._replace(sampler=sampler, directions=directions, moments=moments, key=key), value


def _bound_step(
    name: str,
    trained: Model,
    state: State,
    batch: Seen,
    data: Data,
    settings: Settings,
    key: PRNGKeyArray,
) -> tuple[State, Float[Array, ""]]:
    """Make a step on the bound of a group of parameters, marked in `trained`."""
    part, rest = eqx.partition(state.model, trained)

    def loss(part: Model) -> Float[Array, ""]:
        model = eqx.combine(part, rest)
        bound = _bound_loss(model, batch, state.step, settings, key)
        return bound + _pulled(model, data, settings)

    value, gradient = jax.value_and_grad(loss)(part)
    part, moments = _update(name, part, _held_back(gradient, part, data), state.moments, settings)
    model = _within_bounds(eqx.combine(part, rest), settings)
    return state._replace(model=model, moments=moments), value


def _bound_loss(
    model: Model, batch: Seen, step: Int[Array, ""], settings: Settings, key: PRNGKeyArray
) -> Float[Array, ""]:
    """Give minus the bound of a batch, averaged over its rows."""
    shape, size = (settings.batch_size,), model.hierarchy.size
    if settings.inference in ("importance", "likelihood"):
        noise = jax.random.normal(key, (*shape, settings.importance_samples, size))
        return -jax.vmap(partial(importance_bound, model))(batch, noise).mean()
    terms = jax.vmap(partial(elbo, model))(batch, jax.random.normal(key, (*shape, size)))
    layers = model.hierarchy.layers
    warm_up = max(settings.warm_up, 1) if len(layers) > 1 else 1
    progress = (step + 1).astype(terms.divergence.dtype) / warm_up
    weights = balance(terms.divergence, layers, progress)
    return -(terms.log_likelihood - terms.divergence @ weights).mean()


def _batch(model: Model, data: Data, size: int, key: PRNGKeyArray) -> Seen:
    """Draw rows, hide some of their cells and targets, and see them."""
    row_key, mask_key, feature_key = jax.random.split(key, 3)
    numbers = _drawn_rows(data, size, row_key)
    rows = divided(jax.tree.map(lambda leaf: leaf[numbers], data.table))
    return _seen(model, _hidden(rows, mask_key), feature_key)


def _drawn_rows(data: Data, size: int, key: PRNGKeyArray) -> Int[Array, " {size}"]:
    share = jax.random.uniform(key, (size,))
    if data.cumulative is None:
        return (share * data.rows.astype(share.dtype)).astype(jnp.int32)
    return jnp.searchsorted(data.cumulative, share, side="right")


def _hidden(batch: Row, key: PRNGKeyArray) -> Row:
    """Hide some cells and targets of rows; each row has a share of its own that is hidden."""
    size, columns = batch.mask.shape
    shown = train_mask(key, (size, columns + batch.target_mask.shape[1]))
    return batch._replace(
        mask=batch.mask & shown[:, :columns], target_mask=batch.target_mask & shown[:, columns:]
    )


def _seen(model: Model, batch: Row, key: PRNGKeyArray) -> Seen:
    """See rows, with features that are drawn once and kept."""
    return jax.vmap(model.see)(batch, jax.random.normal(key, batch.mask.shape))


def _encoder(model: Model, settings: Settings) -> Model:
    """Mark the weights that the third stage trains on the bound."""
    if settings.inference != "likelihood":
        return _marked(model, lambda m: [m.encoder])
    return _marked(model, lambda m: [m.encoder, m.predictor, *_noises(m, settings)[1:]])


def _generative(model: Model, settings: Settings) -> Model:
    """Mark the weights that the third stage trains on chains."""
    if settings.inference != "likelihood":
        return _marked(
            model, lambda m: [m.hierarchy, m.decoder, m.predictor, *_noises(m, settings)]
        )
    return _marked(model, lambda m: [m.hierarchy, m.decoder, *_noises(m, settings)[:1]])


def _all_networks(model: Model, settings: Settings) -> Model:
    return _marked(
        model, lambda m: [m.encoder, m.hierarchy, m.decoder, m.predictor, *_noises(m, settings)]
    )


def _noises(model: Model, settings: Settings) -> list[object]:
    return [model.log_noise, model.target_log_noise] if settings.learned_noise else []


def _pulled(model: Model, data: Data, settings: Settings) -> Float[Array, ""]:
    """Give what noises cost that are learned and not 1."""
    if data.noise_pull is None or not settings.learned_noise:
        return jnp.zeros(())
    noises = jnp.concatenate([model.log_noise, model.target_log_noise])
    return 0.5 * data.noise_pull * (noises**2).sum()


def _marked(model: Model, parts: Callable[[Model], list[object]]) -> Model:
    nothing = jax.tree.map(lambda _: False, model)
    marks = [jax.tree.map(eqx.is_inexact_array, part) for part in parts(model)]
    return eqx.tree_at(parts, nothing, marks, is_leaf=lambda leaf: leaf is None)


def _within_bounds(model: Model, settings: Settings) -> Model:
    return eqx.tree_at(
        lambda m: _noises(m, settings),
        model,
        replace_fn=lambda log_noise: jnp.clip(log_noise, *LOG_NOISES),
    )


T = TypeVar("T")


def _update(
    name: str, trained: T, gradient: T, moments: dict[str, Any], settings: Settings
) -> tuple[T, dict[str, Any]]:
    """Make one step of the optimiser of a group of parameters."""
    # Optax raises a float to an integer step count: not for strict promotion.
    with jax.numpy_dtype_promotion("standard"):
        updates, moment = _optimiser(name, settings).update(gradient, moments[name], trained)
    return eqx.apply_updates(trained, updates), {**moments, name: moment}


def _held_back(gradient: Model, trained: Model, data: Data) -> Model:
    """Add what draws weights of networks to 0; not offsets, noises, and what a shortcut has."""
    decay = data.decay
    if decay is None:
        return gradient

    def drawn(path: tuple[Any, ...], slope: Array, weight: Array) -> Array:
        names = [getattr(key, "name", "") for key in path]
        if names[-1] != "weight" or "shortcut" in names or "shortcuts" in names:
            return slope
        return slope + decay * weight

    return jax.tree_util.tree_map_with_path(drawn, gradient, trained)


def _optimiser(name: str, settings: Settings) -> optax.GradientTransformation:
    if name in ("inflation", "directions"):
        return optax.adam(settings.inflation_rate)
    rate: float | optax.Schedule = settings.learning_rate
    if name == "steps" and settings.step_rate is not None:
        rate = settings.step_rate
    if name == "generative" and settings.inference == "likelihood":
        rate = optax.cosine_decay_schedule(settings.learning_rate, max(settings.hmc_steps, 1))
    adam = optax.adam(rate)
    if name != "steps" and settings.weight_decay != 0:
        adam = optax.chain(optax.add_decayed_weights(settings.weight_decay), adam)
    # A rare mask can make a scale overflow, and one such gradient would ruin all weights; whether
    # there are too many of them, training sees by the losses.
    adam = optax.apply_if_finite(adam, max_consecutive_errors=2**30)
    # All weights as one vector: one update instead of one for each array.
    return optax.flatten(adam)
