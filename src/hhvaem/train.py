"""Stages 2 and 3 of algorithm 1, for one model or many at once.

Stage 1 (the column models) is in `encoding.py` and `marginal_vae.py`. All of a stage runs in
compiled scans over chunks of steps with the data on the device; several models (folds, seeds,
members) train in one program, stacked along a leading axis.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from hhvaem.datasets.splits import train_mask
from hhvaem.errors import InputError
from hhvaem.model import Model, Row
from hhvaem.objectives import Elbo, Sampler, balance, chain, elbo, importance_bound
from hhvaem.sampling import hmc, stein
from hhvaem.sampling.tuning import initial_log_steps

# Steps in one compiled scan: often enough for a progress bar, seldom enough to cost nothing.
CHUNK = 100


@dataclass(frozen=True)
class Settings:
    """How a model is trained; the values are the paper's for Boston.

    Parameters
    ----------
    inference
        What the second stage maximises: the ELBO (`gaussian`), the importance-weighted bound
        (`importance`), or the ELBO followed by a third stage with chains (`hmc`).
    steps, hmc_steps
        Steps in all, and how many of them are of the third stage.
    batch_size
        Rows of a step.
    learning_rate, inflation_rate, weight_decay
        Of Adam; the decay goes into the gradient.
    warm_up
        Steps in which the divergences of layers are balanced; none where there is one layer.
    importance_samples
        Draws of the importance-weighted bound.
    transitions, leapfrog
        Length of a chain, and leapfrog steps of a transition.
    stein_every, stein_rows, stein_chains
        How often the inflation is updated, and on how many rows and chains.
    """

    inference: Literal["gaussian", "importance", "hmc"] = "hmc"
    steps: int = 20_000
    hmc_steps: int = 2_000
    batch_size: int = 100
    learning_rate: float = 1e-3
    inflation_rate: float = 1e-2
    weight_decay: float = 0.0
    warm_up: int = 1_000
    importance_samples: int = 5
    transitions: int = 10
    leapfrog: int = 5
    stein_every: int = 10
    stein_rows: int = 10
    stein_chains: int = 30


class Data(NamedTuple):
    """Rows on the device; those from `rows` on are padding."""

    table: Row
    rows: Int[Array, ""]


class Progress(NamedTuple):
    """What training tells now and then: of all models, the mean."""

    stage: int
    step: int
    loss: float
    acceptance: float


class State(NamedTuple):
    """All that training carries from step to step."""

    model: Model
    sampler: Sampler
    directions: Float[Array, "size size"]
    moments: dict[str, optax.OptState]
    step: Int[Array, ""]
    key: PRNGKeyArray


class Told(NamedTuple):
    """What a step tells: its loss, the acceptance of its chains, and the SKSD where measured."""

    loss: Float[Array, "*steps"]
    acceptance: Float[Array, "*steps"]
    stein: Float[Array, "*steps"]


class History(NamedTuple):
    """What all steps told; NaN where a step has no chains, or does not measure the SKSD."""

    loss: Float[np.ndarray, "models steps"]
    acceptance: Float[np.ndarray, "models steps"]
    stein: Float[np.ndarray, "models steps"]


def init(model: Model, settings: Settings, *, key: PRNGKeyArray) -> State:
    """Start the training of one model."""
    step_key, direction_key, key = jax.random.split(key, 3)
    size = model.hierarchy.size
    sampler = Sampler(
        initial_log_steps(step_key, settings.transitions, size),
        jnp.zeros(len(model.hierarchy.layers)),
    )
    directions = jnp.eye(size) + 0.1 * jax.random.normal(direction_key, (size, size))
    moments = _moments(model, sampler, directions, settings)
    return State(model, sampler, directions, moments, jnp.array(0), key)


def train(
    states: State,
    data: Data,
    settings: Settings,
    *,
    progress: Callable[[Progress], None] | None = None,
) -> tuple[State, History]:
    """Run stages 2 and 3 (lines 9 to 17 of algorithm 1).

    Parameters
    ----------
    states
        Where training stands, with a leading axis of models on every array (`stack`).
    data
        Rows, with the same leading axis.
    settings
        How to train; the same for all models.
    progress
        Called after each chunk of steps.

    Raises
    ------
    InputError
        Where a loss is not finite: there is then no model to return.
    """
    told: list[History] = []
    done = int(states.step[0])
    second = settings.steps - (settings.hmc_steps if settings.inference == "hmc" else 0)
    while done < settings.steps:
        stage, end = (2, second) if done < second else (3, settings.steps)
        length = min(CHUNK, end - done)
        run = _second_stage if stage == 2 else _third_stage
        states, chunk = run(states, data, settings, length)
        done += length
        told.append(History(*map(np.asarray, chunk)))
        if not np.isfinite(told[-1].loss).all():
            raise InputError(
                f"Training failed: the loss was not finite at step {done}; "
                "lower the learning rate, or look for extreme values in the table."
            )
        if progress is not None:
            latest = told[-1]
            loss, acceptance = float(latest.loss.mean()), float(latest.acceptance.mean())
            progress(Progress(stage, done, loss, acceptance))
    return states, History(*(np.concatenate(parts, axis=1) for parts in zip(*told, strict=True)))


def stack(states: list[State]) -> State:
    """Put the states of several models along a leading axis."""
    arrays, rest = zip(*(eqx.partition(state, eqx.is_array) for state in states), strict=True)
    return eqx.combine(jax.tree.map(lambda *leaves: jnp.stack(leaves), *arrays), rest[0])


def unstack(states: State, index: int) -> State:
    """Take one model out of several."""
    arrays, rest = eqx.partition(states, eqx.is_array)
    return eqx.combine(jax.tree.map(lambda leaf: leaf[index], arrays), rest)


@eqx.filter_jit
def _second_stage(states: State, data: Data, settings: Settings, length: int) -> tuple[State, Told]:
    return eqx.filter_vmap(lambda s, d: _scan(_variational_step, s, d, settings, length))(
        states, data
    )


@eqx.filter_jit
def _third_stage(states: State, data: Data, settings: Settings, length: int) -> tuple[State, Told]:
    every = settings.stein_every

    def group(state: State, data: Data, settings: Settings) -> tuple[State, Told]:
        state, told = _scan(_hmc_step, state, data, settings, every)
        state, discrepancy = _inflate(state, data, settings)
        return state, told._replace(stein=told.stein.at[-1].set(discrepancy))

    def one(state: State, data: Data) -> tuple[State, Told]:
        state, told = _scan(group, state, data, settings, length // every)
        told = jax.tree.map(jnp.ravel, told)
        if length % every:
            state, left = _scan(_hmc_step, state, data, settings, length % every)
            told = jax.tree.map(jnp.append, told, left)
        return state, told

    return eqx.filter_vmap(one)(states, data)


def _scan(
    step: Callable[[State, Data, Settings], tuple[State, Told]],
    state: State,
    data: Data,
    settings: Settings,
    length: int,
) -> tuple[State, Told]:
    arrays, rest = eqx.partition(state, eqx.is_array)

    def body(arrays: State, _: None) -> tuple[State, Told]:
        state, told = step(eqx.combine(arrays, rest), data, settings)
        return eqx.filter(state, eqx.is_array), told

    arrays, told = lax.scan(body, arrays, length=length)
    return eqx.combine(arrays, rest), told


def _variational_step(state: State, data: Data, settings: Settings) -> tuple[State, Told]:
    """Line 11: the encoder and the generative networks on the bound."""
    key, batch_key, noise_key = jax.random.split(state.key, 3)
    batch = _batch(data, settings.batch_size, batch_key)
    trained, rest = eqx.partition(state.model, _all_networks(state.model))

    def loss(trained: Model) -> Float[Array, ""]:
        return _bound_loss(eqx.combine(trained, rest), batch, state.step, settings, noise_key)

    value, gradient = jax.value_and_grad(loss)(trained)
    trained, moments = _update("model", trained, gradient, state.moments, settings)
    model = eqx.combine(trained, rest)
    nan = jnp.array(jnp.nan)
    return state._replace(model=model, moments=moments, step=state.step + 1, key=key), Told(
        value, nan, nan
    )


def _hmc_step(state: State, data: Data, settings: Settings) -> tuple[State, Told]:
    """Lines 14 and 15: the encoder on the bound, generative networks and step sizes on chains."""
    key, batch_key, noise_key, chain_key = jax.random.split(state.key, 4)
    batch = _batch(data, settings.batch_size, batch_key)

    encoder, rest = eqx.partition(state.model, _encoder(state.model))

    def encoder_loss(encoder: Model) -> Float[Array, ""]:
        return _bound_loss(eqx.combine(encoder, rest), batch, state.step, settings, noise_key)

    gradient = jax.grad(encoder_loss)(encoder)
    encoder, moments = _update("encoder", encoder, gradient, state.moments, settings)
    model = eqx.combine(encoder, rest)

    generative, rest = eqx.partition(model, _generative(model))

    def hmc_loss(
        trained: tuple[Model, Float[Array, "transitions size"]],
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        model = eqx.combine(trained[0], rest)
        sampler = Sampler(trained[1], lax.stop_gradient(state.sampler.log_inflation))

        def one(row: Row, key: PRNGKeyArray) -> tuple[Float[Array, ""], Float[Array, ""]]:
            see_key, key = jax.random.split(key)
            seen = model.see(row, key=see_key)
            end, info = chain(model, sampler, seen, settings.leapfrog, with_target=True, key=key)
            log_joint = model.log_joint(end.position, seen, with_target=True)
            return -log_joint, info.acceptance.mean()

        losses, acceptance = jax.vmap(one)(batch, jax.random.split(chain_key, settings.batch_size))
        return losses.mean(), acceptance.mean()

    trained = (generative, state.sampler.log_steps)
    (value, acceptance), gradient = jax.value_and_grad(hmc_loss, has_aux=True)(trained)
    generative, moments = _update("generative", generative, gradient[0], moments, settings)
    log_steps, moments = _update("steps", trained[1], gradient[1], moments, settings)
    model = eqx.combine(generative, rest)

    sampler = state.sampler._replace(log_steps=log_steps)
    state = state._replace(
        model=model, sampler=sampler, moments=moments, step=state.step + 1, key=key
    )
    return state, Told(value, acceptance, jnp.array(jnp.nan))


def _inflate(state: State, data: Data, settings: Settings) -> tuple[State, Float[Array, ""]]:
    """Line 16: one step of the inflation down, and of the slices' directions up, the SKSD."""
    key, batch_key, chain_key = jax.random.split(state.key, 3)
    batch = _batch(data, settings.stein_rows, batch_key)
    axes = jnp.eye(state.model.hierarchy.size)

    def discrepancy(
        learned: tuple[Float[Array, " layers"], Float[Array, "size size"]],
    ) -> Float[Array, ""]:
        sampler = Sampler(state.sampler.log_steps, learned[0])
        directions = learned[1] / jnp.linalg.norm(learned[1], axis=1, keepdims=True)

        def one(row: Row, key: PRNGKeyArray) -> Float[Array, ""]:
            see_key, key = jax.random.split(key)
            seen = state.model.see(row, key=see_key)

            def end(key: PRNGKeyArray) -> hmc.State:
                leapfrog = settings.leapfrog
                return chain(state.model, sampler, seen, leapfrog, with_target=True, key=key)[0]

            ends = jax.vmap(end)(jax.random.split(key, settings.stein_chains))
            scores = lax.stop_gradient(ends.gradient)
            bandwidths = stein.median_bandwidths(ends.position, directions)
            return stein.sksd(ends.position, scores, axes, directions, bandwidths, unbiased=True)

        return jax.vmap(one)(batch, jax.random.split(chain_key, settings.stein_rows)).mean()

    learned = (state.sampler.log_inflation, state.directions)
    value, (down, up) = jax.value_and_grad(discrepancy)(learned)
    inflation, moments = _update("inflation", learned[0], down, state.moments, settings)
    directions, moments = _update("directions", learned[1], -up, moments, settings)
    sampler = state.sampler._replace(log_inflation=inflation)
    return state._replace(sampler=sampler, directions=directions, moments=moments, key=key), value


def _bound_loss(
    model: Model, batch: Row, step: Int[Array, ""], settings: Settings, key: PRNGKeyArray
) -> Float[Array, ""]:
    """Give minus the bound of a batch, averaged over its rows."""
    keys = jax.random.split(key, settings.batch_size)
    if settings.inference == "importance":

        def bound(row: Row, key: PRNGKeyArray) -> Float[Array, ""]:
            see_key, key = jax.random.split(key)
            seen = model.see(row, key=see_key)
            return importance_bound(model, seen, settings.importance_samples, key=key)

        return -jax.vmap(bound)(batch, keys).mean()

    def one(row: Row, key: PRNGKeyArray) -> Elbo:
        see_key, key = jax.random.split(key)
        return elbo(model, model.see(row, key=see_key), key=key)

    terms = jax.vmap(one)(batch, keys)
    layers = model.hierarchy.layers
    warm_up = max(settings.warm_up, 1) if len(layers) > 1 else 1
    progress = (step + 1).astype(terms.divergence.dtype) / warm_up
    weights = balance(terms.divergence, layers, progress)
    return -(terms.log_likelihood - terms.divergence @ weights).mean()


def _batch(data: Data, size: int, key: PRNGKeyArray) -> Row:
    """Draw rows, and hide some of their cells and targets: a share of its own in each row."""
    row_key, mask_key = jax.random.split(key)
    rows = jax.random.randint(row_key, (size,), 0, data.rows)
    batch = jax.tree.map(lambda leaf: leaf[rows], data.table)
    columns = batch.mask.shape[1]
    shown = train_mask(mask_key, (size, columns + batch.target_mask.shape[1]))
    return batch._replace(
        mask=batch.mask & shown[:, :columns], target_mask=batch.target_mask & shown[:, columns:]
    )


def _encoder(model: Model) -> Model:
    """Mark the weights of the encoder."""
    return _marked(model, lambda m: [m.encoder])


def _generative(model: Model) -> Model:
    """Mark the weights of the prior, decoder and predictor networks."""
    return _marked(model, lambda m: [m.hierarchy, m.decoder, m.predictor])


def _all_networks(model: Model) -> Model:
    return _marked(model, lambda m: [m.encoder, m.hierarchy, m.decoder, m.predictor])


def _marked(model: Model, parts: Callable[[Model], list[object]]) -> Model:
    nothing = jax.tree.map(lambda _: False, model)
    marks = [jax.tree.map(eqx.is_inexact_array, part) for part in parts(model)]
    return eqx.tree_at(parts, nothing, marks, is_leaf=lambda leaf: leaf is None)


def _moments(
    model: Model, sampler: Sampler, directions: Float[Array, "size size"], settings: Settings
) -> dict[str, optax.OptState]:
    trained = {
        "model": eqx.filter(model, _all_networks(model)),
        "encoder": eqx.filter(model, _encoder(model)),
        "generative": eqx.filter(model, _generative(model)),
        "steps": sampler.log_steps,
        "inflation": sampler.log_inflation,
        "directions": directions,
    }
    return {name: _optimiser(name, settings).init(part) for name, part in trained.items()}


T = TypeVar("T")


def _update(
    name: str, trained: T, gradient: T, moments: dict[str, optax.OptState], settings: Settings
) -> tuple[T, dict[str, optax.OptState]]:
    """Make one step of the optimiser of a group of parameters."""
    # Optax raises a float to an integer step count: not for strict promotion.
    with jax.numpy_dtype_promotion("standard"):
        updates, moment = _optimiser(name, settings).update(gradient, moments[name], trained)
    return eqx.apply_updates(trained, updates), {**moments, name: moment}


def _optimiser(name: str, settings: Settings) -> optax.GradientTransformation:
    if name in ("inflation", "directions"):
        return optax.adam(settings.inflation_rate)
    if name == "steps" or settings.weight_decay == 0:
        return optax.adam(settings.learning_rate)
    decay = optax.add_decayed_weights(settings.weight_decay)
    return optax.chain(decay, optax.adam(settings.learning_rate))
