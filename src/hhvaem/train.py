"""Stages 2 and 3 of algorithm 1, for one model or many at once.

Stage 1 (the column models) is in `encoding.py` and `marginal_vae.py`, and what a single step does
in `steps.py`. Here steps become compiled loops over the data on the device; several models
(folds, seeds, members) train in one program, stacked along a leading axis.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from hhvaem.checks import check_training
from hhvaem.compiling import Lift, many_steps, padded_length, program
from hhvaem.errors import InputError
from hhvaem.held_out import Held, held_out_score
from hhvaem.model import Row
from hhvaem.steps import (
    Data,
    Settings,
    State,
    Told,
    hmc_step,
    inflation_step,
    init,
    variational_step,
)
from hhvaem.storage import Snapshots, fingerprint, open_snapshots

__all__ = ["Data", "History", "Progress", "Settings", "State", "gather", "init", "stack", "train"]

# Steps between two looks at the loss: often enough for a progress bar, seldom enough to cost
# nothing.
CHUNK = 100


class Progress(NamedTuple):
    """What training tells now and then: of all models, the mean."""

    stage: int
    step: int
    loss: float
    acceptance: float


class History(NamedTuple):
    """What all steps told; NaN where a step has no chains, or does not measure the SKSD."""

    loss: Float[np.ndarray, "models steps"]
    acceptance: Float[np.ndarray, "models steps"]
    stein: Float[np.ndarray, "models steps"]


class _Best(NamedTuple):
    """The models that scored best on held-out cells, and for how many steps they have been it."""

    states: State
    score: Float[Array, " models"]
    waited: Int[Array, " models"]


def gather(tables: Sequence[Row]) -> Data:
    """Put the rows of each model along a leading axis, all padded to the same length."""
    length = padded_length(max(len(table.mask) for table in tables))

    def padded(leaf: Array) -> Array:
        return jnp.pad(leaf, [(0, length - len(leaf)), *[(0, 0)] * (leaf.ndim - 1)])

    stacked = jax.tree.map(lambda *leaves: jnp.stack([padded(leaf) for leaf in leaves]), *tables)
    return Data(stacked, jnp.array([len(table.mask) for table in tables]))


def stack(states: list[State]) -> State:
    """Put the states of several models along a leading axis."""
    arrays, rest = zip(*(eqx.partition(state, eqx.is_array) for state in states), strict=True)
    return eqx.combine(jax.tree.map(lambda *leaves: jnp.stack(leaves), *arrays), rest[0])


def unstack(states: State, index: int) -> State:
    """Take one model out of several."""
    arrays, rest = eqx.partition(states, eqx.is_array)
    return eqx.combine(jax.tree.map(lambda leaf: leaf[index], arrays), rest)


def train(
    states: State,
    data: Data,
    settings: Settings,
    *,
    held: Held | None = None,
    until: int | None = None,
    snapshots: Path | None = None,
    snapshot_seconds: float = 10.0,
    progress: Callable[[Progress], None] | None = None,
) -> tuple[State, History]:
    """Run stages 2 and 3 (lines 9 to 17 of algorithm 1).

    Parameters
    ----------
    states
        Where training stands, with a leading axis of models on every array (`stack`).
    data
        Rows, with the same leading axis (`gather`).
    settings
        How to train; the same for all models.
    held
        Cells that `data` does not show, to stop early by (`held_out.hold_out`); needed where
        `settings.patience` is not 0.
    until
        The step to stop before, for now; training goes on from the states returned.
    snapshots
        A folder from which to go on, and in which to leave off every `snapshot_seconds`. Killed
        at any moment, the same call then ends with the same models.
    progress
        Called after each chunk of steps.

    Returns
    -------
    states, history
        The models, and what the steps told; after an early stop there are fewer steps.

    Raises
    ------
    InputError
        Where the input cannot be trained on, or a loss is not finite: there is then no model to
        return.
    """
    check_training(states.model, data, settings, held)
    until = settings.steps if until is None else min(until, settings.steps)
    best = _nothing_yet(states) if settings.patience else None
    told = [History(*(np.zeros((len(data.rows), 0), np.float32) for _ in History._fields))]
    kept = None
    if snapshots is not None:
        kept = open_snapshots(snapshots, _identity(states, data, settings, held))
        if (loaded := kept.load((states, best))) is not None:
            (states, best), whole = loaded
            told = [History(**whole)]
    done, saved = int(states.step[0]), time.monotonic()
    ahead = _compile_ahead(states, data, settings) if done < settings.second_stage < until else None
    while done < until:
        stage, end = (2, settings.second_stage) if done < settings.second_stage else (3, until)
        end = min(end, until)
        if stage == 3 and ahead is not None:
            ahead.result()
        run = _second_stage if stage == 2 else _third_stage
        length = min(CHUNK, end - done)
        states, chunk = run(states, data, settings, jnp.array(length))
        done += length
        told.append(History(*(np.asarray(part)[:, :length] for part in chunk)))
        if not np.isfinite(told[-1].loss).all():
            raise InputError(
                f"Training failed: the loss was not finite at step {done}; "
                "lower the learning rate, or look for extreme values in the table."
            )
        if best is not None and held is not None:
            best = _better(best, states, held_out_score(states.model, data, held), length, settings)
            if done == end or (best.waited >= settings.patience).all():
                states, done = _at(best.states, end), end
                best = _nothing_yet(states)
        if kept is not None and (done == until or time.monotonic() - saved > snapshot_seconds):
            _save(kept, (states, best), told)
            saved = time.monotonic()
        if progress is not None:
            latest = told[-1]
            loss, acceptance = float(latest.loss.mean()), float(latest.acceptance.mean())
            progress(Progress(stage, done, loss, acceptance))
    return states, _whole(told)


@program
def _second_stage(
    states: State, data: Data, settings: Settings, length: Int[Array, ""]
) -> tuple[State, Told]:
    def step(states: State, data: Data, lift: Lift) -> tuple[State, Told]:
        return lift(partial(variational_step, settings=settings))(states, data)

    return many_steps(step, states, data, length, _nothing_told(states))


@program
def _third_stage(
    states: State, data: Data, settings: Settings, length: Int[Array, ""]
) -> tuple[State, Told]:
    def step(states: State, data: Data, lift: Lift) -> tuple[State, Told]:
        states, told = lift(partial(hmc_step, settings=settings))(states, data)
        arrays, rest = eqx.partition(states, eqx.is_array)

        def inflate(arrays: State) -> tuple[State, Float[Array, "*models"]]:
            step = lift(partial(inflation_step, settings=settings))
            states, discrepancy = step(eqx.combine(arrays, rest), data)
            return eqx.filter(states, eqx.is_array), discrepancy

        # All models are at the same step: one decision for all, and no work where it is no.
        due = (states.step.max() - settings.second_stage) % settings.stein_every == 0
        arrays, discrepancy = lax.cond(due, inflate, lambda arrays: (arrays, told.stein), arrays)
        return eqx.combine(arrays, rest), told._replace(stein=discrepancy)

    return many_steps(step, states, data, length, _nothing_told(states))


def _nothing_told(states: State) -> Told:
    nothing = jnp.full((len(states.step), CHUNK), jnp.nan)
    return Told(nothing, nothing, nothing)


def _compile_ahead(states: State, data: Data, settings: Settings) -> Future[Any]:
    """Compile the third stage while the second one runs."""
    third_stage: Any = _third_stage
    lowered = third_stage.lower(states, data, settings, jnp.array(CHUNK))
    pool = ThreadPoolExecutor(1)
    compiled = pool.submit(lowered.compile)
    pool.shutdown(wait=False)
    return compiled


def _nothing_yet(states: State) -> _Best:
    return _Best(states, jnp.full(len(states.step), -jnp.inf), jnp.zeros_like(states.step))


def _better(
    best: _Best, states: State, score: Float[Array, " models"], length: int, settings: Settings
) -> _Best:
    """Take over the models that score better, unless they have stopped."""
    better = (score > best.score) & (best.waited < settings.patience)
    waited = jnp.where(better, 0, best.waited + length)
    return _Best(_where(better, states, best.states), jnp.where(better, score, best.score), waited)


def _where(condition: Bool[Array, " models"], yes: State, no: State) -> State:
    def choose(yes: Array, no: Array) -> Array:
        return jnp.where(condition.reshape(-1, *[1] * (yes.ndim - 1)), yes, no)

    (yes_arrays, rest), no_arrays = eqx.partition(yes, eqx.is_array), eqx.filter(no, eqx.is_array)
    return eqx.combine(jax.tree.map(choose, yes_arrays, no_arrays), rest)


def _at(states: State, step: int) -> State:
    return states._replace(step=jnp.full_like(states.step, step))


def _whole(told: list[History]) -> History:
    return History(*(np.concatenate(parts, axis=1) for parts in zip(*told, strict=True)))


def _save(kept: Snapshots, tree: tuple[State, _Best | None], told: list[History]) -> None:
    told[:] = [_whole(told)]
    kept.save(tree, dict(told[0]._asdict()))


def _identity(states: State, data: Data, settings: Settings, held: Held | None) -> dict[str, Any]:
    return {
        "settings": asdict(settings),
        "models": len(states.step),
        "layers": list(states.model.hierarchy.layers),
        "start": fingerprint(states),
        "data": fingerprint((data, held)),
    }
