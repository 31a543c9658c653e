"""From a table of numbers to what joint training takes: the models of its columns, and its rows."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from hhvaem import train
from hhvaem.compiling import padded_length
from hhvaem.encoding import (
    Cells,
    Encoding,
    TableMask,
    TableValues,
    gaussianised_encoding,
    standardised_encoding,
)
from hhvaem.marginal_vae import train_marginal_vaes
from hhvaem.marginals import Direct, Marginals
from hhvaem.model import Row
from hhvaem.presets import Plan
from hhvaem.schema import Column

# Columns come in multiples of this, so that tables of about the same width share programs.
WIDTH = 4
# Tables of fewer rows are padded to this length, and all share programs.
SHORTEST = 512


class Part(NamedTuple):
    """Some columns of a table as numbers."""

    columns: tuple[Column, ...]
    values: TableValues
    mask: TableMask


class Prepared(NamedTuple):
    """A table as training takes it, said `times` over, with padding after its first `rows` rows.

    These may be some rows of a table of `whole` rows.
    """

    encoding: Encoding
    target_encoding: Encoding | None
    columns: tuple[Marginals, Direct | None]
    row: Row
    times: int
    rows: int
    whole: int


def prepare(inputs: Part, targets: Part | None, plan: Plan, *, seed: int = 0) -> Prepared:
    """Do what comes before a table's joint training: the models of its columns."""
    models = column_models(inputs, targets, plan, seed=seed)
    return with_rows(models, inputs, targets, plan)


class ColumnModels(NamedTuple):
    """The laws of columns and targets, and the first stage's models of them."""

    encoding: Encoding
    target_encoding: Encoding | None
    columns: tuple[Marginals, Direct | None]


def column_models(inputs: Part, targets: Part | None, plan: Plan, *, seed: int = 0) -> ColumnModels:
    """Make the models of single columns; rows do not matter to them."""
    column_key = jax.random.split(jax.random.key(seed), 6)[0]
    encoding, marginals = _column_models(inputs, plan, column_key)
    if targets is None:
        return ColumnModels(encoding, None, (marginals, None))
    make = standardised_encoding if plan.marginals == "vae" else gaussianised_encoding
    target_encoding = make(*targets)
    laws = Direct.fit(target_encoding, targets.values, targets.mask)
    return ColumnModels(encoding, target_encoding, (marginals, laws))


def with_rows(
    models: ColumnModels,
    inputs: Part,
    targets: Part | None,
    plan: Plan,
    *,
    length: int = SHORTEST,
    whole: int | None = None,
) -> Prepared:
    """Encode rows for training, at least as many as `length` with padding.

    They are all there are, or some of a `whole` table of so many.
    """
    encoding, target_encoding, columns = models
    row = encoded_rows(encoding, inputs.values, inputs.mask, len(columns[0].levels))
    if targets is not None and target_encoding is not None:
        cells = target_encoding.encode(targets.values, targets.mask)
        row = row._replace(target=cells, target_mask=jnp.asarray(targets.mask))
    # Rows are drawn with replacement: a table said twice is the same table.
    own = len(inputs.values)
    times = -(-plan.settings.batch_size // own)
    rows = times * own
    padding = ((0, max(length - rows, 0)), (0, 0))
    row = jax.tree.map(
        lambda leaf: np.pad(np.concatenate([np.asarray(leaf)] * times), padding), row
    )
    return Prepared(encoding, target_encoding, columns, row, times, rows, whole or own)


def gathered(
    each: Sequence[Prepared],
    plan: Plan,
    *,
    decay: Float[np.ndarray, " models"] | None = None,
    weights: list[Float[np.ndarray, " rows"]] | None = None,
) -> train.Data:
    """Put the tables of several models on the device; a `decay` is for each of them."""
    columns = len(each[0].encoding.laws)
    data = train.gather([one.row for one in each], weights=weights, columns=columns)
    pull = None
    if plan.noise_pull:
        whole = np.array([one.whole for one in each], np.float32)
        pull = jnp.asarray(np.float32(plan.noise_pull * columns) / whole)
    return data._replace(
        rows=jnp.asarray(np.array([one.rows for one in each])),
        noise_pull=pull,
        decay=None if decay is None else jnp.asarray(np.asarray(decay, np.float32)),
    )


def untrained(each: Sequence[Prepared], plan: Plan, key: Key[Array, ""]) -> train.State:
    """Start a model of each table."""
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(one.columns for one in each))
    return train.untrained(
        stacked,
        plan.layers,
        plan.settings,
        hidden=plan.hidden,
        depth=plan.depth,
        shortcut=plan.shortcut,
        keys=jax.random.split(key, len(each)),
    )


def _column_models(inputs: Part, plan: Plan, key: Key[Array, ""]) -> tuple[Encoding, Marginals]:
    """Make the first stage's models, with columns that are never observed as padding."""
    if plan.marginals == "vae":
        encoding = standardised_encoding(*inputs)
        return encoding, train_marginal_vaes(
            encoding, inputs.values, inputs.mask, key=key, steps=plan.marginal_steps
        )[0]
    if inputs.columns:
        encoding = gaussianised_encoding(*inputs)
        direct = Direct.fit(encoding, inputs.values, inputs.mask)
    else:
        encoding, direct = Encoding(()), Direct((), jnp.zeros(0))
    levels = padded_levels(encoding, plan)
    padding = len(levels) - len(direct.levels)
    return encoding, Direct(levels, jnp.pad(direct.log_shares, (0, padding)))


def padded_levels(encoding: Encoding, plan: Plan) -> tuple[int, ...]:
    """Give the levels of a model's columns, those that are padding included."""
    columns = len(encoding.laws)
    if plan.marginals == "vae":
        return encoding.levels
    wide = columns > 8 * WIDTH
    width = padded_length(columns) if wide else max(-(-columns // WIDTH), 1) * WIDTH
    return (*encoding.levels, *[1] * (width - columns))


def encoded_rows(encoding: Encoding, values: TableValues, mask: TableMask, width: int) -> Row:
    """Encode rows, with as many columns as the model has and no targets."""
    padding = ((0, 0), (0, width - len(encoding.laws)))
    cells = encoding.encode(values, mask)
    none = np.zeros((len(values), 0), np.float32)
    # By NumPy, as nothing is then compiled for tables of a new length.
    return Row(
        Cells(*(jnp.asarray(np.pad(np.asarray(part), padding)) for part in cells)),
        jnp.asarray(np.pad(mask, padding)),
        Cells(*[jnp.asarray(none)] * 3),
        jnp.asarray(none.astype(bool)),
    )
