"""Cells kept from training, and how well they are predicted: what early stopping goes by."""

from collections.abc import Callable
from numbers import Real
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from hhvaem.compiling import program
from hhvaem.errors import InputError
from hhvaem.model import Model, Row
from hhvaem.steps import Data

# Rows that are scored, and draws of the encoder for each.
ROWS, DRAWS = 512, 20


class Held(NamedTuple):
    """Cells and targets that are observed in the table and not shown in training."""

    mask: Bool[Array, "*models rows columns"]
    target_mask: Bool[Array, "*models rows targets"]


def hold_out(data: Data, share: float, *, key: PRNGKeyArray) -> tuple[Data, Held]:
    """Hide a share of the observed cells and targets of each model's rows.

    Raises
    ------
    InputError
        Where the share is no number between 0 and 1.

    Examples
    --------
    >>> from hhvaem.encoding import Cells
    >>> cells, mask = Cells(*[jnp.zeros((1, 1000, 3))] * 3), jnp.ones((1, 1000, 3), bool)
    >>> data = Data(Row(cells, mask, cells, mask), jnp.array([1000]))
    >>> shown, held = hold_out(data, 0.1, key=jax.random.key(0))
    >>> bool((shown.table.mask ^ held.mask).all()), round(float(held.mask.mean()), 2)
    (True, 0.1)
    """
    if not isinstance(share, Real) or not 0 < share < 1:
        raise InputError(f"share={share!r} of the cells cannot be held out; give one in (0, 1).")
    table = data.table
    keys = jax.random.split(key)
    mask, target_mask = (
        jax.random.bernoulli(key, float(share), mask.shape) & mask
        for key, mask in zip(keys, (table.mask, table.target_mask), strict=True)
    )
    shown = table._replace(mask=table.mask & ~mask, target_mask=table.target_mask & ~target_mask)
    return data._replace(table=shown), Held(mask, target_mask)


@program
def held_out_score(models: Model, data: Data, held: Held) -> Float[Array, " models"]:
    """Score each model: log p(held-out cell | shown cells) by encoder draws, averaged over cells.

    Noise and rows are the same in every call, so that two scores can be compared.
    """

    def score(model: Model, data: Data, held: Held) -> Float[Array, ""]:
        noise = jax.random.normal(jax.random.key(1), (ROWS, DRAWS, model.hierarchy.size))

        def one(row: Row, number: Int[Array, ""]) -> Float[Array, " cells"]:
            seen = model.see(row)
            law = model.encode(seen)
            log_probs = jax.vmap(
                lambda noise: model.cell_log_probs(law.at(noise), seen, with_target=True)
            )(noise[number])
            each = [jax.nn.logsumexp(part, axis=0) - jnp.log(float(DRAWS)) for part in log_probs]
            return jnp.concatenate(each)

        return _mean_over_held(one, data, held)

    return eqx.filter_vmap(score)(models, data, held)


@program
def own_score(models: Model, data: Data, held: Held) -> Float[Array, " models"]:
    """Score the same cells by the law that each column has by itself: what must be beaten."""

    def score(model: Model, data: Data, held: Held) -> Float[Array, ""]:
        def one(row: Row, _: Int[Array, ""]) -> Float[Array, " cells"]:
            return jnp.concatenate(own_log_probs(model, row))

        return _mean_over_held(one, data, held)

    return eqx.filter_vmap(score)(models, data, held)


def own_log_probs(
    model: Model, row: Row
) -> tuple[Float[Array, " columns"], Float[Array, " targets"]]:
    """Give the log probability of each cell and target by its column's own law."""
    columns, targets = model.marginals, model.targets
    no_noise = jnp.zeros_like(model.log_noise)
    features = columns.features(row.cells)
    cells = columns.reconstruction(columns.base, no_noise, row.cells, features)
    if targets is None:
        return cells, jnp.zeros(0)
    return cells, targets.log_prob(targets.base, jnp.zeros_like(model.target_log_noise), row.target)


def _mean_over_held(
    one: Callable[[Row, Int[Array, ""]], Float[Array, " cells"]], data: Data, held: Held
) -> Float[Array, ""]:
    """Average the scores of the held-out cells of some rows, the same ones in every call."""
    rows = jax.random.randint(jax.random.key(0), (ROWS,), 0, data.rows)
    table, held = jax.tree.map(lambda leaf: leaf[rows], (data.table, held))
    scores = jax.vmap(one)(table, jnp.arange(ROWS))
    hidden = jnp.concatenate(held, axis=1)
    count = jnp.maximum(hidden.sum(), 1).astype(scores.dtype)
    return jnp.where(hidden, scores, 0.0).sum() / count
