"""From a table of numbers to what joint training takes: the models of its columns, and its rows."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key

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
    """A table as training takes it, said `times` over, with padding after its first `rows` rows."""

    encoding: Encoding
    target_encoding: Encoding | None
    columns: tuple[Marginals, Direct | None]
    row: Row
    times: int
    rows: int


def prepare(inputs: Part, targets: Part | None, plan: Plan, *, seed: int = 0) -> Prepared:
    """Do what comes before a table's joint training: the models of its columns."""
    column_key = jax.random.split(jax.random.key(seed), 6)[0]
    encoding, marginals = _column_models(inputs, plan, column_key)
    target_encoding, laws, target_rows = None, None, None
    if targets is not None:
        target_encoding, laws, target_rows = _target_laws(targets, plan)
    row = encoded_rows(encoding, inputs.values, inputs.mask, len(marginals.levels))
    if target_rows is not None:
        row = row._replace(target=target_rows[0], target_mask=target_rows[1])
    # Rows are drawn with replacement: a table said twice is the same table.
    times = -(-plan.settings.batch_size // len(inputs.values))
    rows = times * len(inputs.values)
    padding = ((0, max(SHORTEST - rows, 0)), (0, 0))
    row = jax.tree.map(
        lambda leaf: np.pad(np.concatenate([np.asarray(leaf)] * times), padding), row
    )
    return Prepared(encoding, target_encoding, (marginals, laws), row, times, rows)


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
        own = np.array([one.rows / one.times for one in each], np.float32)
        pull = jnp.asarray(np.float32(plan.noise_pull * columns) / own)
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


def _target_laws(
    targets: Part, plan: Plan
) -> tuple[Encoding, Direct, tuple[Cells, Bool[Array, "rows targets"]]]:
    make = standardised_encoding if plan.marginals == "vae" else gaussianised_encoding
    encoding = make(*targets)
    direct = Direct.fit(encoding, targets.values, targets.mask)
    return (
        encoding,
        direct,
        (encoding.encode(targets.values, targets.mask), jnp.asarray(targets.mask)),
    )


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
