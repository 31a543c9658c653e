"""How strongly the model of a table is held back, chosen by cells that it is not shown.

A network that is large enough for a clean table learns a noisy one by heart, and no rule in rows
and columns tells which is which. So one model for each of a few decays is trained on most of the
observed cells, and of them that one decides which gives the others the highest log probability,
given the cells beside them, with its learned noises as they are or somewhat larger.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Key, PRNGKeyArray

from hhvaem import posterior, train
from hhvaem.compiling import cores, each_model, in_groups, program
from hhvaem.held_out import Held, own_log_probs
from hhvaem.model import Model, Row
from hhvaem.posterior import How, Tuned
from hhvaem.preparing import Prepared, gathered, untrained
from hhvaem.presets import MANY_ROWS, Plan
from hhvaem.steps import Data
from hhvaem.storage import fingerprint, open_snapshots

# Share of the observed cells that models are not shown, rows of a table that are scored, and how
# many of them at once.
SHARE, ROWS, AT_ONCE = 0.15, 512, 128
# How their latents are drawn, whatever is wanted of the fitted model.
HOW = How("hmc", chains=20, kept=5, transitions=10, leapfrog=5)
# With fewer observed cells nothing can be told apart.
FEWEST_CELLS = 100
# What a choice takes is better spent on the members, where there is less time for both: on an
# accelerator, and on a single core.
LEAST_SECONDS, LEAST_CORE_SECONDS = 60.0, 800.0
# What learned noises are multiplied by, at choice.
FACTORS = (1.0, 1.2, 1.45)
# Each law is taken with so much of the column's own in it: what surprises a model altogether costs
# it about five nats, and not the more the smaller its noise is.
OWN_SHARE = 0.005


class Choice(NamedTuple):
    """What was chosen for each of several tables, and the mean log probabilities behind it."""

    decay: Float[np.ndarray, " tables"]
    factor: Float[np.ndarray, " tables"]
    scores: Float[np.ndarray, "tables decays factors"]


def can_choose(ready: Sequence[Prepared], plan: Plan, max_seconds: float | None) -> bool:
    """Say whether there is something to choose among, and enough cells and time for it."""
    return (
        plan.chooses(max(one.whole for one in ready))
        and not any(map(_has_few_cells, ready))
        and (max_seconds is None or max_seconds >= _least_seconds())
    )


def usual_decay(one: Prepared, plan: Plan) -> float:
    """Give the decay of a table for which none is chosen.

    Of many rows little can be learned by heart, and of very few cells nothing else: these are held
    back as much as can be. All others are held back by the one in the middle.
    """
    if one.whole >= MANY_ROWS:
        return plan.decays[-1]
    return plan.decays[0 if _has_few_cells(one) else len(plan.decays) // 2]


def _has_few_cells(one: Prepared) -> bool:
    return bool(np.asarray(one.row.mask)[: one.rows].sum() // one.times < FEWEST_CELLS)


def _least_seconds() -> float:
    return LEAST_CORE_SECONDS / cores() if jax.default_backend() == "cpu" else LEAST_SECONDS


def choose(
    ready: Sequence[Prepared],
    plan: Plan,
    *,
    key: Key[Array, ""],
    max_seconds: float | None = None,
    snapshots: Path | None = None,
    progress: Callable[[train.Progress], None] | None = None,
) -> Choice:
    """Choose the decay of each table's model, and by how much its noises grow.

    Parameters
    ----------
    ready
        The tables.
    plan
        How their models will be made: as those are that are compared.
    key
        Where all randomness comes from.
    max_seconds, snapshots, progress
        As for `train.train`.
    """
    hide_key, model_key, tune_key, score_key = jax.random.split(key, 4)
    decays = plan.decays
    each = [one for one in ready for _ in decays]
    masks = [_hidden(one, jax.random.fold_in(hide_key, i)) for i, one in enumerate(ready)]
    hidden = [mask for mask in masks for _ in decays]
    # Rows count alike, said so in numbers: members, whose rows do not, then share the program.
    weights = [np.ones(len(one.row.mask)) * _own_rows(one) for one in each]
    data = gathered(
        each,
        plan,
        decay=np.tile(np.array(decays, np.float32), len(ready)),
        weights=weights if plan.members > 1 else None,
    )
    table = data.table
    held = Held(*(_stacked(part, table.mask.shape[1]) for part in zip(*hidden, strict=True)))
    # What is held out stays in the table, to be scored.
    data = data._replace(
        table=table._replace(
            mask=table.mask & ~held.mask, target_mask=table.target_mask & ~held.target_mask
        )
    )
    # Where the clock ends a choice, the same call may choose otherwise: it is written down.
    kept = None
    if snapshots is not None:
        identity: dict[str, Any] = {
            "table": fingerprint((data, held)),
            "settings": asdict(plan.settings),
        }
        kept = open_snapshots(snapshots / "chosen", identity)
        nothing = np.zeros(len(ready))
        scores = np.zeros((len(ready), len(decays), len(FACTORS)))
        if (found := kept.load(Choice(nothing, nothing, scores))) is not None:
            return found[0]
    states, _ = train.train(
        untrained(each, plan, model_key),
        data,
        plan.settings,
        held=held,
        max_seconds=max_seconds,
        snapshots=snapshots,
        progress=progress,
    )
    tuned = posterior.tune(states.model, data, jax.random.split(tune_key, len(each)))
    keys = jax.random.split(score_key, ROWS)
    run = partial(_scores, keys=keys, how=HOW)
    scores = np.asarray(in_groups(run, states.model, tuned, data, held), np.float64)
    # A model that says nothing is not chosen.
    scores = np.nan_to_num(scores, nan=-np.inf, neginf=-np.inf)
    scores = scores.reshape(len(ready), len(decays), len(FACTORS))
    best = scores.reshape(len(ready), -1).argmax(1)
    decay, factor = np.unravel_index(best, scores.shape[1:])
    choice = Choice(np.array(decays)[decay], np.array(FACTORS)[factor], scores)
    if kept is not None:
        kept.save(choice, {})
    return choice


def _hidden(
    one: Prepared, key: Key[Array, ""]
) -> tuple[Bool[np.ndarray, "rows columns"], Bool[np.ndarray, "rows targets"]]:
    """Choose observed cells and targets of a table, the same ones wherever a row is said."""
    own = one.rows // one.times

    def chosen(key: Key[Array, ""], mask: Bool[np.ndarray, "rows _"]) -> Bool[np.ndarray, "rows _"]:
        drawn = np.asarray(jax.random.bernoulli(key, SHARE, (own, mask.shape[1])))
        drawn = np.concatenate([drawn] * one.times)
        return np.pad(drawn, ((0, len(mask) - len(drawn)), (0, 0))) & mask

    cell_key, target_key = jax.random.split(key)
    cells, targets = (np.asarray(mask, bool) for mask in (one.row.mask, one.row.target_mask))
    return chosen(cell_key, cells), chosen(target_key, targets)


def _own_rows(one: Prepared) -> Bool[np.ndarray, " rows"]:
    """Say which rows are not padding."""
    return np.arange(len(one.row.mask)) < one.rows


def _stacked(
    masks: Sequence[Bool[np.ndarray, "rows _"]], length: int
) -> Bool[Array, "models length _"]:
    """Put masks of tables side by side, with rows of padding as `train.gather` has."""
    padded = [np.pad(mask, ((0, length - len(mask)), (0, 0))) for mask in masks]
    return jnp.asarray(np.stack(padded))


@program
def _scores(
    models: Model, tuned: Tuned, data: Data, held: Held, keys: Key[Array, " scored"], how: How
) -> Float[Array, "models factors"]:
    """Give the mean log probability of held-out cells, and targets, with each factor on noises.

    Of targets the mean is taken by itself and added: they are few, and what a model is for.
    """

    def one(model: Model, tuned: Tuned, data: Data, held: Held) -> Float[Array, " factors"]:
        chosen = jax.random.randint(jax.random.key(0), (ROWS,), 0, data.rows)
        rows, hidden = jax.tree.map(lambda leaf: leaf[chosen], (data.table, held))
        # By hand, as `lax.map` cannot part what has no targets into batches.
        batches = jax.tree.map(
            lambda leaf: leaf.reshape(ROWS // AT_ONCE, AT_ONCE, *leaf.shape[1:]), (rows, keys)
        )

        def batch(some: tuple[Row, Key[Array, " rows"]]) -> tuple[Array, Array]:
            return jax.vmap(lambda row, key: _log_probs(model, tuned, row, key, how))(*some)

        cells, targets = (part.reshape(ROWS, *part.shape[2:]) for part in lax.map(batch, batches))
        by_cells, by_targets = (
            jax.vmap(_mean, (1, None))(*part)
            for part in ((cells, hidden.mask), (targets, hidden.target_mask))
        )
        return by_cells + by_targets

    return each_model(one, models, tuned, data, held)


def _log_probs(
    model: Model, tuned: Tuned, row: Row, key: PRNGKeyArray, how: How
) -> tuple[Float[Array, "factors columns"], Float[Array, "factors targets"]]:
    """Give the log probability of each cell and target of a row, given its observed cells.

    Latents are drawn once, with the noises that were learned: what larger ones change first is
    the law of a cell about its place.
    """
    # Chains look at no target, and so must the encoder that whitens them.
    seen = model.see(row._replace(target_mask=jnp.zeros_like(row.target_mask)))
    positions = posterior.draw(model, tuned, seen, how, key=key).positions
    positions = positions.reshape(-1, positions.shape[-1])

    own = own_log_probs(model, row)

    def mixed(parts: Float[Array, "draws _"], own: Float[Array, " _"]) -> Float[Array, " _"]:
        found = jax.nn.logsumexp(parts, axis=0) - jnp.log(float(len(positions)))
        return jnp.logaddexp(found + math.log1p(-OWN_SHARE), own + math.log(OWN_SHARE))

    def of(factor: Float[Array, ""]) -> tuple[Float[Array, " columns"], Float[Array, " targets"]]:
        wider = louder(model, jnp.log(factor))
        cells, targets = jax.vmap(
            lambda position: wider.cell_log_probs(position, seen, with_target=True)
        )(positions)
        return mixed(cells, own[0]), mixed(targets, own[1])

    return jax.vmap(of)(jnp.array(FACTORS))


def _mean(scores: Float[Array, "rows _"], held: Bool[Array, "rows _"]) -> Float[Array, ""]:
    count = jnp.maximum(held.sum(), 1).astype(scores.dtype)
    return jnp.where(held, scores, 0.0).sum() / count


def louder(model: Model, log_factor: Float[Array, "*models"]) -> Model:
    """Multiply the noises of a model, or of each of several."""
    by = log_factor[..., None]
    return eqx.tree_at(
        lambda m: (m.log_noise, m.target_log_noise),
        model,
        (model.log_noise + by, model.target_log_noise + by),
    )
