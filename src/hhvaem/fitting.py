"""From a table of numbers to a fitted model, and from a fitted model to the laws of cells."""

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from hhvaem import posterior, train
from hhvaem.blocks import Blocks, turns
from hhvaem.choosing import Choice, can_choose, choose, louder, usual_decay
from hhvaem.encoding import Cells, Encoding, TableMask, TableValues
from hhvaem.held_out import held_out_score, hold_out, own_score
from hhvaem.in_time import some_models, train_in_time
from hhvaem.model import Model, Row
from hhvaem.objectives import Sampler
from hhvaem.posterior import How, Tuned
from hhvaem.predictive import Predictive, Scales
from hhvaem.preparing import (
    ColumnModels,
    Part,
    Prepared,
    column_models,
    encoded_rows,
    gathered,
    prepare,
    untrained,
    with_rows,
)
from hhvaem.presets import Plan
from hhvaem.storage import make_snapshot_folder

# Rows of one compiled call. It is the same for a single row and for a million, so that a row's
# result is the same to the bit.
ROWS, ROWS_ON_ACCELERATOR = 128, 4096


@dataclass(frozen=True, eq=False)
class Fitted:
    """A trained model of a table's columns, or several of them.

    Parameters
    ----------
    encoding, target_encoding
        The laws of the columns, and of the targets; None where there is no target.
    models
        With a leading axis of members on every array.
    learned, tuned
        What the third stage learned of its chains, where there was one, and the step size that
        was found after training.
    plan
        How it was made.
    seed
        Where all randomness comes from.
    record
        What training told.
    """

    encoding: Encoding
    target_encoding: Encoding | None
    models: Model
    learned: Sampler | None
    tuned: Tuned
    plan: Plan
    seed: int
    record: dict[str, Any]

    @property
    def members(self) -> int:
        """How many models there are."""
        return len(self.models.log_noise)

    @cached_property
    def scales(self) -> Scales:
        """The laws of the columns, with the noise that was learned of them."""
        return _scales(self.encoding, self.models.marginals, self.models.log_noise)

    @cached_property
    def target_scales(self) -> Scales:
        """The laws of the targets, with the noise that was learned of them."""
        assert self.target_encoding is not None
        return _scales(self.target_encoding, self.models.targets, self.models.target_log_noise)

    def laws(
        self, values: TableValues, mask: TableMask, how: How
    ) -> Iterator[tuple[slice, Predictive, Predictive | None]]:
        """Give the laws of all cells and targets of rows, some rows at a time."""
        keys = row_keys(values, mask, self.seed)
        for chunk in self.chunks(values, mask, keys):
            drawn = self.draws(chunk, how)
            found = posterior.laws(self.models, chunk.row, drawn.positions)
            cells, target = (np.asarray(part)[:, : chunk.size] for part in found)
            laws = None
            if self.target_encoding is not None:
                laws = Predictive(self.target_scales, target)
            yield chunk.rows, Predictive(self.scales, cells), laws

    def cases(
        self, values: TableValues, mask: TableMask, how: How, offset: int = 0
    ) -> Iterator[tuple[slice, TableValues, TableValues]]:
        """Draw all cells and targets of rows, in the user's units, some rows at a time.

        Equal rows get draws of their own, by the number of rows before that were equal; `offset`
        tells one call from another.
        """
        keys = row_keys(values, mask, self.seed, tell_apart=True, offset=offset)
        columns = len(self.encoding.laws)
        for chunk in self.chunks(values, mask, keys):
            drawn = self.draws(chunk, how)
            found = posterior.cases(self.models, chunk.row, drawn.positions, chunk.keys)
            # From (members, rows, chains) to draws that take turns among members.
            cells, target = (
                np.concatenate(np.moveaxis(np.asarray(part)[:, : chunk.size], 2, 0))
                for part in found
            )
            cells = self.encoding.decode(cells[..., :columns])
            if self.target_encoding is not None:
                target = self.target_encoding.decode(target)
            yield chunk.rows, cells, target

    def checked(
        self, values: TableValues, mask: TableMask, how: How
    ) -> dict[str, Float[np.ndarray, " rows"]]:
        """Run the chains of rows and say how they behaved: of members, the worst."""
        parts = []
        for chunk in self.chunks(values, mask, row_keys(values, mask, self.seed)):
            drawn = self.draws(chunk, how)
            rhat = posterior.worst_rhat(drawn.positions, how.superchains)
            told = (drawn.acceptance, drawn.divergent, rhat, drawn.movement)
            parts.append([np.asarray(part, np.float64)[:, : chunk.size] for part in told])
        accepted, divergent, mixed, moved = (
            np.concatenate(part, axis=1) for part in zip(*parts, strict=True)
        )
        return {
            "acceptance": accepted.min(0),
            "divergent": divergent.max(0),
            "rhat": mixed.max(0),
            "movement": moved.min(0),
        }

    def log_likelihood(
        self, values: TableValues, mask: TableMask, how: How
    ) -> tuple[Float[np.ndarray, " rows"], Float[np.ndarray, " rows"]]:
        """Give log p(observed cells) of each row in the user's units, and its standard error."""
        keys = row_keys(values, mask, self.seed)
        found, error = np.zeros(len(values)), np.zeros(len(values))
        for chunk in self.chunks(values, mask, keys):
            estimate = posterior.evidence(self.models, self.tuned, chunk.row, chunk.keys, how)
            each, errors = (np.asarray(part, np.float64)[:, : chunk.size] for part in estimate)
            # A mixture of the members in equal parts.
            weights = np.exp(each - each.max(0))
            found[chunk.rows] = each.max(0) + np.log(weights.mean(0))
            error[chunk.rows] = np.sqrt(((weights / weights.sum(0) * errors) ** 2).sum(0))
        return found + self.encoding.log_measure(values, mask).sum(1), error

    def draws(self, chunk: "Chunk", how: How) -> posterior.Draws:
        """Draw the latents of the rows of a chunk."""
        sampler = self.learned or self.tuned
        return posterior.draws(self.models, sampler, chunk.row, chunk.keys, how)

    def chunks(
        self, values: TableValues, mask: TableMask, keys: Key[Array, " rows"], size: int = 0
    ) -> Iterator["Chunk"]:
        """Encode rows, `size` of them at a time; 0 for as many as all else is computed with."""
        size = size or (ROWS if jax.default_backend() == "cpu" else ROWS_ON_ACCELERATOR)
        width, targets = self.models.log_noise.shape[1], self.models.target_log_noise.shape[1]
        none = jnp.asarray(np.zeros((size, targets), np.float32))
        for first in range(0, len(values), size):
            rows = slice(first, min(first + size, len(values)))
            count = rows.stop - first
            # The last chunk is filled up with its first row.
            index = first + np.where(np.arange(size) < count, np.arange(size), 0)
            row = encoded_rows(self.encoding, values[index], mask[index], width)
            row = row._replace(target=Cells(none, none, none), target_mask=none.astype(bool))
            yield Chunk(rows, count, row, keys[index])


class Chunk(NamedTuple):
    """Rows of one compiled call, filled up to its size."""

    rows: slice
    size: int
    row: Row
    keys: Key[Array, " rows"]


def fit(
    inputs: Part,
    targets: Part | None,
    plan: Plan,
    *,
    seed: int = 0,
    max_seconds: float | None = None,
    snapshots: Path | None = None,
    progress: Callable[[train.Progress], None] | None = None,
) -> Fitted:
    """Train a model of some columns, and of targets that depend on them.

    Parameters
    ----------
    inputs, targets
        The columns; targets may be missing in some rows.
    plan
        How to. Of more than one member, each sees the rows with weights of its own, from a Bayesian
        bootstrap: what they disagree about is what the table does not say.
    seed
        Where all randomness comes from.
    max_seconds, snapshots, progress
        As for `train.train`.
    """
    (fitted,) = fit_many(
        [prepare(inputs, targets, plan, seed=seed)],
        plan,
        seed=seed,
        max_seconds=max_seconds,
        snapshots=snapshots,
        progress=progress,
    )
    return fitted


def fit_blocks(
    blocks: Blocks,
    plan: Plan,
    *,
    seed: int = 0,
    max_seconds: float | None = None,
    snapshots: Path | None = None,
    progress: Callable[[train.Progress], None] | None = None,
) -> Fitted:
    """Do as `fit` for a table of which one block at a time is on the device."""
    models = column_models(*blocks.columns_alone(), plan, seed=seed)
    (fitted,) = fit_many(
        [_block(blocks, 0, models, plan)],
        plan,
        blocks=blocks,
        seed=seed,
        max_seconds=max_seconds,
        snapshots=snapshots,
        progress=progress,
    )
    return fitted


def _block(blocks: Blocks, number: int, models: ColumnModels, plan: Plan) -> Prepared:
    """Encode a block, as long as the longest."""
    length = max(blocks.sizes)
    return with_rows(models, *blocks.part(number), plan, length=length, whole=blocks.rows)


def fit_many(
    ready: Sequence[Prepared],
    plan: Plan,
    *,
    blocks: Blocks | None = None,
    seed: int = 0,
    max_seconds: float | None = None,
    snapshots: Path | None = None,
    progress: Callable[[train.Progress], None] | None = None,
) -> list[Fitted]:
    """Do as `fit` for several tables at once, whose columns have the same numbers of levels.

    A single one may be the first of `blocks`.
    """
    started = time.monotonic()
    key = jax.random.key(seed)
    _, model_key, held_key, tune_key, weight_key, check_key = jax.random.split(key, 6)
    members, before = plan.members, 0
    chosen: Choice | None = None
    if snapshots is not None:
        make_snapshot_folder(snapshots)
    if can_choose(ready, plan, max_seconds):
        chosen = choose(
            ready,
            plan,
            key=jax.random.fold_in(key, 1),
            # As many steps as the rest, and by default of as many models.
            max_seconds=None if max_seconds is None else max_seconds / 2,
            snapshots=None if snapshots is None else snapshots / "choice",
            progress=progress,
        )
        before = plan.settings.steps
    each = [one for one in ready for _ in range(members)]
    models = len(each)
    decay = None
    if plan.decays:
        usual = np.array([usual_decay(one, plan) for one in ready])
        each_decay = usual if chosen is None else chosen.decay
        decay = np.repeat(each_decay, members)
    columns = len(ready[0].encoding.laws)

    def on_device(ready: Sequence[Prepared], key: Key[Array, ""]) -> train.Data:
        weights = None
        if members > 1:
            weights = [
                drawn
                for i, one in enumerate(ready)
                for drawn in _bootstrap(jax.random.fold_in(key, i), members, one)
            ]
        each = [one for one in ready for _ in range(members)]
        return gathered(each, plan, decay=decay, weights=weights)

    data = on_device(ready, weight_key)
    states = untrained(each, plan, model_key)
    shown, held = data, None
    if plan.settings.patience:
        shown, held = hold_out(data, plan.held_share, key=held_key)
    feed = None
    if blocks is not None:
        numbers, starts = turns(blocks.sizes, plan.settings)
        own = ColumnModels(ready[0].encoding, ready[0].target_encoding, ready[0].columns)

        def load(turn: int) -> train.Data:
            # The weights of a row are the same whenever its block comes.
            key = jax.random.fold_in(weight_key, numbers[turn]) if numbers[turn] else weight_key
            return on_device([_block(blocks, numbers[turn], own, plan)], key)

        feed = train.Feed(starts, load, blocks.digest)
    seconds = None if max_seconds is None else max_seconds - (time.monotonic() - started)
    states, history = train_in_time(
        states,
        shown,
        plan.settings,
        held=held,
        feed=feed,
        max_seconds=seconds,
        # Members of one table alone can be fewer.
        fewer=len(ready) == 1,
        snapshots=snapshots,
        progress=None if progress is None else partial(_later, progress, before),
    )
    if len(states.step) < models:
        members = models = len(states.step)
        each, data, shown, held = each[:members], *some_models((data, shown, held), slice(members))
    if chosen is not None:
        factors = np.repeat(np.log(chosen.factor), members).astype(np.float32)
        states = states._replace(model=louder(states.model, jnp.asarray(factors)))
    tuned = posterior.tune(states.model, data, jax.random.split(tune_key, models))
    learned = states.sampler if plan.settings.inference == "hmc" else None
    optimism = np.zeros(models)
    if held is None:
        # Cells that training saw, of which it has followed the noise: where there is nothing to
        # learn, a regression on `columns` others seems to have learned this much (Wilks 1938).
        shown, held = hold_out(data, 0.2, key=check_key)
        optimism = np.array([columns / one.whole / 2 for one in each])
    gain = held_out_score(states.model, shown, held) - own_score(states.model, shown, held)
    gain = gain - optimism

    def told(i: int, own: slice) -> dict[str, Any]:
        record: dict[str, Any] = {
            "steps": int(history.loss.shape[1]),
            "loss": [float(x) for x in history.recent_loss[own]],
            "gain_per_hidden_cell": [float(x) for x in gain[own]],
        }
        if chosen is not None:
            record["choice"] = {
                "decay": float(chosen.decay[i]),
                "noise_factor": float(chosen.factor[i]),
                "scores": chosen.scores[i].tolist(),
            }
        return record

    def of(i: int, one: Prepared) -> Fitted:
        own = slice(i * members, (i + 1) * members)
        arrays, rest = eqx.partition((states.model, learned, tuned), eqx.is_array)
        model, chains, step = eqx.combine(jax.tree.map(lambda leaf: leaf[own], arrays), rest)
        record = told(i, own)
        return Fitted(one.encoding, one.target_encoding, model, chains, step, plan, seed, record)

    return [of(i, one) for i, one in enumerate(ready)]


def _later(report: Callable[[train.Progress], None], before: int, progress: train.Progress) -> None:
    """Report progress after so many steps that were for the choice."""
    report(progress._replace(step=before + progress.step))


def row_keys(
    values: TableValues,
    mask: TableMask,
    seed: int,
    *,
    tell_apart: bool = False,
    offset: int = 0,
) -> Key[Array, " rows"]:
    """Make a key for each row of its content and the seed alone.

    With `tell_apart`, also of the number of equal rows before it, from `offset` on.
    """
    # Zero has one sign, and what is hidden one value.
    content = np.where(mask, values + 0.0, 0.0)
    content = np.ascontiguousarray(np.concatenate([content, mask], axis=1))
    start = hashlib.blake2b(seed.to_bytes(16, "little", signed=True), digest_size=8)
    words = np.empty((len(content), 2), np.uint32)
    before: dict[bytes, int] = {}
    for i, row in enumerate(content):
        digest = start.copy()
        digest.update(row.tobytes())
        if tell_apart:
            name = digest.digest()
            number = before[name] = before.get(name, -1) + 1
            digest.update((number + offset).to_bytes(8, "little"))
        words[i] = np.frombuffer(digest.digest(), np.uint32)
    return jax.random.wrap_key_data(jnp.asarray(words), impl="threefry2x32")


def _bootstrap(
    key: Key[Array, ""], members: int, table: Prepared
) -> Float[np.ndarray, "members rows"]:
    """Draw the weights of rows of each member: a Bayesian bootstrap (Rubin 1981)."""
    drawn = jax.random.exponential(key, (members, table.rows // table.times))
    padding = len(table.row.mask) - table.rows
    return np.pad(np.tile(np.asarray(drawn, np.float64), table.times), ((0, 0), (0, padding)))


def _scales(encoding: Encoding, marginals: Any, log_noise: Float[Array, "m c"]) -> Scales:
    """Give the noise of columns that are not padding."""
    log_scale = eqx.filter_vmap(lambda part, noise: part.log_scale(noise))(marginals, log_noise)
    return Scales(encoding, np.asarray(log_scale, np.float64)[:, : len(encoding.laws)])
