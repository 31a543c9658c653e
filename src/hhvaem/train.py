"""Stages 2 and 3 of algorithm 1, for one model or many at once.

Stage 1 (the column models) is in `encoding.py` and `marginal_vae.py`, and what a single step does
in `steps.py`. Here steps become compiled loops over the data on the device; several models
(folds, seeds, members) train in one program, stacked along a leading axis.
"""

import bisect
import math
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray

from hhvaem.checks import check_count, check_training
from hhvaem.compiling import (
    Lift,
    apart,
    in_turns,
    many_steps,
    padded_length,
    program,
    together,
)
from hhvaem.devices import everywhere, here, is_shared, whole, with_other_processes
from hhvaem.encoding import Cells
from hhvaem.errors import InputError, TableWarning
from hhvaem.held_out import Held, held_out_score
from hhvaem.marginals import Direct, Marginals
from hhvaem.model import Model, Row
from hhvaem.networks import Pictures
from hhvaem.steps import (
    Data,
    Settings,
    State,
    Told,
    hmc_step,
    inflation_step,
    init,
    likelihood_step,
    variational_step,
)
from hhvaem.storage import Snapshots, fingerprint, open_snapshots

__all__ = [
    "Data", "Feed", "History", "Progress", "Settings", "State",
    "compile_ahead", "gather", "init", "stack", "train", "unstack", "untrained",
]  # fmt: skip

# Steps between two looks at the loss: often enough for a progress bar, seldom enough to cost
# nothing.
CHUNK = 100
# Training goes on where at most so many of the steps between two looks were lost.
MOST_LOST = 0.5


class Progress(NamedTuple):
    """What training tells now and then: of all models, the mean."""

    stage: int
    step: int
    loss: float
    acceptance: float


class History(NamedTuple):
    """What all steps told; NaN where a step has no chains, or does not measure the SKSD.

    A step was `lost` where its loss was not finite, and therefore its gradient: it changed nothing.
    """

    loss: Float[np.ndarray, "models steps"]
    acceptance: Float[np.ndarray, "models steps"]
    stein: Float[np.ndarray, "models steps"]
    lost: Bool[np.ndarray, "models steps"]

    @property
    def recent_loss(self) -> Float[np.ndarray, " models"]:
        """The mean loss of each model over the last steps that were not lost."""
        recent = slice(-CHUNK, None)
        return np.mean(self.loss[:, recent], axis=1, where=~self.lost[:, recent])


class Feed(NamedTuple):
    """Blocks of a table that take turns on the device, each from its step on.

    The first of `starts` is 0; `load` gives a block by its number, all of the same shapes. What
    chains have reached is of rows, and begins anew with each block. `digest` is that of all rows,
    by which snapshots know the table.
    """

    starts: tuple[int, ...]
    load: Callable[[int], Data]
    digest: str

    def turn(self, step: int) -> tuple[int, int | None]:
        """Give the block of a step, and the step at which the next one takes over."""
        number = bisect.bisect_right(self.starts, step) - 1
        rest = self.starts[number + 1 :]
        return number, rest[0] if rest else None


class _Best(NamedTuple):
    """The models that scored best on held-out cells, and for how many steps they have been it."""

    states: State
    score: Float[Array, " models"]
    waited: Int[Array, " models"]


class _Reached(NamedTuple):
    """Where training is after whole chunks of steps."""

    step: int
    states: State
    best: _Best | None
    told: tuple[History, ...]


def gather(
    tables: Sequence[Row],
    *,
    weights: Sequence[Float[np.ndarray, " rows"]] | None = None,
    columns: int | None = None,
) -> Data:
    """Put the rows of each model along a leading axis, all padded to the same length.

    Parameters
    ----------
    tables
        The rows of each model.
    weights
        How often each row is drawn, in proportion; without them, all equally often.
    columns
        How many columns the tables have, where those that follow are padding.

    Raises
    ------
    InputError
        Where there is no table, or one has other columns or targets than the first.
    """
    if not tables:
        raise InputError("There is no table to gather; give one for each model.")
    widths = [[leaf.shape[1:] for leaf in jax.tree.leaves(table)] for table in tables]
    _check_alike(widths, "Table", "columns and targets")
    rows = [len(table.mask) for table in tables]
    length = padded_length(max([*rows, 1]))

    def padded(leaf: np.ndarray) -> np.ndarray:
        return np.pad(leaf, [(0, length - len(leaf)), *[(0, 0)] * (leaf.ndim - 1)])

    # By NumPy, as nothing is then compiled for tables of a new length.
    stacked = jax.tree.map(
        lambda *leaves: np.stack([padded(leaf) for leaf in leaves]), *map(_without_hidden, tables)
    )
    cumulative = None if weights is None else np.stack([_cumulated(w, length) for w in weights])
    own = None if columns is None else np.full(len(tables), columns)
    return Data(*jax.device_put((stacked, np.array(rows), cumulative, own)))


def _cumulated(weights: Float[np.ndarray, " rows"], length: int) -> Float[np.ndarray, " length"]:
    """Sum up weights to 1 at the last row; what follows is padding and never drawn."""
    total = np.cumsum(weights) / np.sum(weights)
    # Rounded to float32 before the last row is set, which must not be missed by any draw.
    padded = np.ones(length, np.float32)
    padded[: len(total) - 1] = total[:-1]
    return padded


def _without_hidden(table: Row) -> Row:
    """Put zeros where nothing is observed: even a NaN there must not matter."""

    def shown(cells: Cells, mask: Bool[np.ndarray, "rows columns"]) -> Cells:
        return jax.tree.map(lambda part: np.where(mask, part, 0.0), cells)

    cells, mask, target, target_mask = jax.tree.map(np.asarray, table)
    mask, target_mask = mask.astype(bool), target_mask.astype(bool)
    return Row(shown(cells, mask), mask, shown(target, target_mask), target_mask)


@program
def untrained(
    columns: tuple[Marginals, Direct | None],
    layers: tuple[int, ...],
    settings: Settings,
    *,
    hidden: int = 256,
    depth: int = 1,
    shortcut: bool = False,
    reparameterised: bool = True,
    pictures: Pictures | None = None,
    keys: Key[Array, " models"],
) -> State:
    """Start a model for each key, on column models and laws of targets with an axis of models.

    In one program: by themselves, dozens of small ones would be compiled.
    """

    def one(columns: tuple[Marginals, Direct | None], key: PRNGKeyArray) -> State:
        model_key, key = jax.random.split(key)
        model = Model.init(
            *columns,
            layers,
            hidden=hidden,
            depth=depth,
            shortcut=shortcut,
            reparameterised=reparameterised,
            pictures=pictures,
            key=model_key,
        )
        return init(model, settings, key=key)

    return eqx.filter_vmap(one)(columns, keys)


def stack(states: list[State]) -> State:
    """Put the states of several models along a leading axis.

    Raises
    ------
    InputError
        Where there is no model, or one is not made as the first.
    """
    if not states:
        raise InputError("There is no model to stack; give at least one.")
    arrays, rest = zip(*(eqx.partition(state, eqx.is_array) for state in states), strict=True)
    kinds = [
        (jax.tree.structure(each), [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(each)])
        for each in arrays
    ]
    _check_alike(kinds, "Model", "columns, layers, hidden units and settings")
    return eqx.combine(jax.tree.map(lambda *leaves: jnp.stack(leaves), *arrays), rest[0])


def unstack(states: State, index: int) -> State:
    """Take one model out of several.

    Raises
    ------
    InputError
        Where there is no model of that number.
    """
    count = states.step.size if states.step.ndim else 0
    if not -count <= index < count:
        raise InputError(f"There is no model {index} among {count} stacked ones (counted from 0).")
    arrays, rest = eqx.partition(states, eqx.is_array)
    return eqx.combine(jax.tree.map(lambda leaf: leaf[index], arrays), rest)


def _check_alike(kinds: Sequence[object], what: str, alike: str) -> None:
    for i, kind in enumerate(kinds):
        if kind != kinds[0]:
            raise InputError(
                f"{what} {i} (counted from 0) is not like the first; what is trained at once has "
                f"the same {alike}."
            )


def compile_ahead(states: State, data: Data, settings: Settings) -> Future[Any]:
    """Compile the third stage while something else runs: the first, or the second.

    Of `states` only the shapes matter, so that column models may still be untrained.
    """
    third_stage: Any = _third_stage
    with with_other_processes():
        group = everywhere((apart(states)[0], apart(data)[0], jnp.array(CHUNK)))
        lowered = third_stage.lower(*group[:2], _as_compiled(settings), group[2])
    pool = ThreadPoolExecutor(1)
    compiled = pool.submit(lowered.compile)
    pool.shutdown(wait=False)
    return compiled


def train(
    states: State,
    data: Data,
    settings: Settings,
    *,
    held: Held | None = None,
    feed: Feed | None = None,
    until: int | None = None,
    max_seconds: float | None = None,
    ahead: Future[Any] | None = None,
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
    feed
        Where `data` are the first block of a table, the blocks that come after it.
    until
        The step to stop before, for now; training goes on from the states returned, and with
        `settings.patience` from `snapshots`, which also hold the best models so far.
    max_seconds
        Training ends with the first chunk of steps that is over after as many seconds, and with
        `settings.patience` with the best models by then. How far it came depends on the machine.
    ahead
        What `compile_ahead` gave; without it the third stage is compiled during the second.
    snapshots
        A folder from which to go on, and in which to leave off every `snapshot_seconds`. Killed
        at any moment, the same call then ends with the same models; after a keyboard interrupt no
        whole chunk of steps is made twice. Where nothing can be written any more, training warns
        and goes on.
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
    check_training(states, data, settings, held, whole=feed is None)
    if max_seconds is not None and is_shared():
        raise InputError("Several processes cannot keep to max_seconds together; use max_steps.")
    until = settings.steps if until is None else min(check_count("until", until, 0), settings.steps)
    if settings.inference == "likelihood" and not states.positions.size:
        states = states._replace(positions=_not_begun(states, data))
    best = _nothing_yet(states) if settings.patience else None
    nothing = np.zeros((len(data.rows), 0), np.float32)
    history = History(nothing, nothing, nothing, nothing.astype(bool))
    reached = _Reached(int(states.step[0]), states, best, (history,))
    kept = None
    if snapshots is not None:
        kept = open_snapshots(snapshots, _identity(states, data, settings, held, feed))
        if (loaded := kept.load((states, best))) is not None:
            (states, best), told = loaded
            reached = _Reached(int(states.step[0]), states, best, (History(**told),))
    shown, block = _on_devices(data), 0
    saved, saved_at = reached.step, time.monotonic()
    deadline = math.inf if max_seconds is None else saved_at + max_seconds
    if ahead is None and reached.step < settings.second_stage < until:
        ahead = compile_ahead(apart(reached.states)[0], shown[0], settings)
    begun: set[int] = set()
    try:
        while reached.step < until:
            stage = 2 if reached.step < settings.second_stage else 3
            if stage == 3 and ahead is not None:
                ahead.result()
            number, limit = (0, None) if feed is None else feed.turn(reached.step)
            if feed is not None and number != block:
                shown = []  # before the next: two blocks in memory are one too many
                shown, block = _on_devices(feed.load(number)), number
            if feed is not None and reached.step == feed.starts[number]:
                reached = reached._replace(states=_anew(reached.states))
            end = until if limit is None else min(until, limit)
            reached = _chunk(reached, shown, data, settings, held, end, compiled=stage in begun)
            begun.add(stage)
            if kept is not None and (
                reached.step >= until or time.monotonic() - saved_at > snapshot_seconds
            ):
                _save(kept, reached)
                saved, saved_at = reached.step, time.monotonic()
            if progress is not None:
                latest = reached.told[-1]
                acceptance = float(latest.acceptance.mean())
                progress(Progress(stage, reached.step, latest.recent_loss.mean(), acceptance))
            if time.monotonic() > deadline:
                if kept is not None and reached.step > saved:
                    _save(kept, reached)
                break
    except KeyboardInterrupt:
        if kept is not None and reached.step > saved:
            _save(kept, reached)
        raise
    # Within a stage that the clock has ended.
    stopped = reached.best if reached.step < until else None
    states = reached.states if stopped is None else stopped.states
    learned = (states.model, states.sampler, states.directions)
    for leaf in jax.tree.leaves(eqx.filter(learned, eqx.is_inexact_array)):
        _check_finite(leaf, reached.step)
    history = _whole(reached.told)
    lost = history.lost.any(0)
    if lost.any():
        warnings.warn(
            f"{lost.sum()} of {lost.size} steps of training had a loss that was not finite, "
            "and changed nothing; look for extreme values in the table.",
            TableWarning,
            stacklevel=2,
        )
    return states, history


def _chunk(
    reached: _Reached,
    shown: list[Data],
    data: Data,
    settings: Settings,
    held: Held | None,
    until: int,
    *,
    compiled: bool,
) -> _Reached:
    """Make the next chunk of steps, and what follows from it for an early stop.

    `shown` is `data` taken apart, once for all chunks; `compiled` says that the stage's program
    has run before.
    """
    step, states, best, told = reached
    second = step < settings.second_stage
    end = settings.second_stage if second else settings.steps
    length = min(CHUNK, end - step, until - step)
    stage, alike = _second_stage if second else _third_stage, _as_compiled(settings)

    def run(group: State, data: Data, steps: int) -> tuple[State, Told]:
        return stage(group, data, alike, everywhere(jnp.array(steps)))

    with with_other_processes():
        groups = [everywhere(group) for group in apart(states)]
        found = in_turns(run, groups, shown, length, compiled=compiled)
        states = here(together([group for group, _ in found]))
        loss, acceptance, stein = np.concatenate([_joined(here(told)) for _, told in found], axis=1)
    step += length
    # What becomes of a model after its own early stop does not matter.
    running = True if best is None else np.asarray(best.waited < settings.patience)[:, None]
    latest = History(loss, acceptance, stein, lost=~np.isfinite(loss) & running)
    if (latest.lost.mean(1) > MOST_LOST).any():
        raise _failed(step)
    if best is not None and held is not None:
        best = _better(best, states, held_out_score(states.model, data, held), length, settings)
        if step == end or (best.waited >= settings.patience).all():
            _check_finite(best.score, step)
            states, step = _at(best.states, end), end
            best = _nothing_yet(states)
    return _Reached(step, states, best, (*told, latest))


def _joined(turns: list[tuple[int, Told]]) -> Float[np.ndarray, "kinds models steps"]:
    """Put what turns have told behind each other."""
    parts = [np.stack([np.asarray(part)[:, :steps] for part in told]) for steps, told in turns]
    return np.concatenate(parts, axis=2)


@program
def _second_stage(
    states: State, data: Data, settings: Settings, length: Int[Array, ""]
) -> tuple[State, Told]:
    def step(states: State, data: Data, lift: Lift) -> tuple[State, Told]:
        return lift(partial(variational_step, settings=settings))(states, data)

    return whole(many_steps(step, states, data, length, _nothing_told(states)))


@program
def _third_stage(
    states: State, data: Data, settings: Settings, length: Int[Array, ""]
) -> tuple[State, Told]:
    def step(states: State, data: Data, lift: Lift) -> tuple[State, Told]:
        if settings.inference == "likelihood":
            return lift(partial(likelihood_step, settings=settings))(states, data)
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

    return whole(many_steps(step, states, data, length, _nothing_told(states)))


def _not_begun(states: State, data: Data) -> Float[Array, "models rows size"]:
    shape = (*data.table.mask.shape[:2], states.model.hierarchy.size)
    return jnp.asarray(np.full(shape, np.nan, np.float32))


def _on_devices(data: Data) -> list[Data]:
    with with_other_processes():
        return [everywhere(part) for part in apart(data)]


def _anew(states: State) -> State:
    """Forget where chains are: the rows are others now."""
    return states._replace(positions=jnp.full_like(states.positions, jnp.nan))


def _nothing_told(states: State) -> Told:
    nothing = jnp.full((len(states.step), CHUNK), jnp.nan)
    return Told(nothing, nothing, nothing)


def _as_compiled(settings: Settings) -> Settings:
    """Leave out what no program reads: another value of it compiles nothing.

    Of the number of steps only that is left which says when the inflation is due, or how fast a
    learning rate falls.
    """
    due = settings.second_stage % settings.stein_every
    third = settings.hmc_steps if settings.inference == "likelihood" else 0
    return replace(settings, patience=0, steps=due, hmc_steps=third)


def _check_finite(values: Float[Array | np.ndarray, "..."], step: int) -> None:
    if not np.isfinite(values).all():
        raise _failed(step)


def _failed(step: int) -> InputError:
    return InputError(
        f"Training failed: the loss or a weight was not finite at step {step}; "
        "lower the learning rate, or look for extreme values in the table."
    )


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


def _whole(told: tuple[History, ...]) -> History:
    return History(*(np.concatenate(parts, axis=1) for parts in zip(*told, strict=True)))


def _save(kept: Snapshots, reached: _Reached) -> None:
    try:
        kept.save((reached.states, reached.best), dict(_whole(reached.told)._asdict()))
    except InputError as error:
        # Training is worth more than its snapshots.
        warnings.warn(f"There is no new snapshot: {error}", UserWarning, stacklevel=3)


def _identity(
    states: State, data: Data, settings: Settings, held: Held | None, feed: Feed | None = None
) -> dict[str, Any]:
    model = states.model
    return {
        "settings": {
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in asdict(settings).items()
            # What was not asked for, so that snapshots from before it was there go on.
            if value is not None
        },
        "models": len(states.step),
        "layers": list(model.hierarchy.layers),
        "reparameterised": model.hierarchy.reparameterised,
        "levels": [list(part.levels) for part in (model.marginals, model.targets) if part],
        "start": fingerprint(states),
        "table": fingerprint((data, held)),
        **({} if feed is None else {"blocks": list(feed.starts), "rows": feed.digest}),
    }
