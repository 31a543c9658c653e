"""What a trained model says of test rows: the published scores, and what proper ones are made of.

The published formulas are those of the authors' code. The mean over hidden cells stands inside the
exponent, which punishes spread where a proper score asks for it; cells of two levels count by a
weight of their class; z of a column is at its mean. They are here to be laid beside the paper's
tables. Models are trained without weights of classes: the weighted loss is least where the log
odds are shifted by the log of the weight, and by so much they are shifted here.
"""

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Key, PRNGKeyArray

from hhvaem.compiling import each_model, program
from hhvaem.encoding import Cells
from hhvaem.marginal_vae import LOG_NOISE, PARTS, MarginalVAEs
from hhvaem.marginals import Outputs, cell_log_prob, layout, log_inputs
from hhvaem.model import Model, Row, Seen
from hhvaem.objectives import Sampler
from hhvaem.paper.folds import Fold, Part
from hhvaem.posterior import How, Tuned, case, draw, log_evidence
from hhvaem.sampling.annealing import Estimate

# The published number of draws, and how many of them also draw cells.
DRAWS, CASES = 1000, 100
# Rows whose draws an accelerator makes at once.
ROWS_AT_ONCE = 16
# Chains and temperatures that estimate the probability of a row.
ANNEALED = How("hmc", chains=16, transitions=300, leapfrog=3)


class Weights(NamedTuple):
    """Weights of the second of two levels in the published scores; 1 for all else."""

    cells: Float[Array, "*folds columns"]
    target: Float[Array, "*folds targets"]


class Told(NamedTuple):
    """What the draws of a test row tell.

    Parameters
    ----------
    missing, observed, target
        The published negative log likelihoods of hidden and of observed cells, and of targets;
        NaN where there are no such cells.
    published_cells
        The published one of each cell by itself.
    log_cells, log_target
        Log probability of each cell and target given the observed cells: z integrated over, and
        no weights. In the units that the model sees.
    joint
        Log probability of all hidden cells together; 0 where there are none.
    guesses, target_guesses
        Means over draws of what the published errors go by: locations of numbers, shifted log
        odds of two levels, log shares of more.
    locations
        The targets' laws at each draw: locations of numbers, shares of levels.
    cells, targets
        Some draws of the whole row, in the units that the model sees.
    acceptance
        Of the chains; NaN where there are none.
    """

    missing: Float[Array, "*rows"]
    observed: Float[Array, "*rows"]
    target: Float[Array, "*rows"]
    published_cells: Float[Array, "*rows columns"]
    log_cells: Float[Array, "*rows columns"]
    log_target: Float[Array, "*rows targets"]
    joint: Float[Array, "*rows"]
    guesses: Float[Array, "*rows inputs"]
    target_guesses: Float[Array, "*rows target_inputs"]
    locations: Float[Array, "*rows draws target_inputs"]
    cells: Float[Array, "*rows cases columns"]
    targets: Float[Array, "*rows cases targets"]
    acceptance: Float[Array, "*rows"]


class Evidence(NamedTuple):
    """Estimates of log probabilities of a row's cells, in the units that the model sees.

    Both are lower bounds in expectation, of the observed cells and of all; their difference, the
    log probability of the hidden cells together, is an estimate with a standard error.
    """

    observed: Float[Array, "*rows"]
    everything: Float[Array, "*rows"]
    error: Float[Array, "*rows"]


def class_weights(fold: Fold, *, weighted_target: bool) -> Weights:
    """Give the published weights: for each row of the second level, how many the first has."""

    def weights(part: Part) -> Float[Array, " columns"]:
        found = np.ones(len(part.columns), np.float32)
        for j, levels in enumerate(part.encoding.levels):
            if levels == 2:
                share = part.values[part.mask[:, j], j].mean()
                found[j] = (1 - share) / share if share > 0 else 1.0
        return jnp.asarray(found)

    target = weights(fold.targets)
    return Weights(weights(fold.inputs), target if weighted_target else jnp.ones_like(target))


@program
def look(
    models: Model,
    samplers: Sampler | Tuned,
    rows: Row,
    weights: Weights,
    keys: Key[Array, "folds rows"],
    how: How,
) -> Told:
    """Draw the latents of each model's own rows, and tell what follows."""

    def fold(
        model: Model,
        sampler: Sampler | Tuned,
        rows: Row,
        weights: Weights,
        keys: Key[Array, " rows"],
    ) -> Told:
        at_once = 1 if jax.default_backend() == "cpu" else ROWS_AT_ONCE
        one = partial(_row, model, sampler, weights, how)
        return lax.map(lambda each: one(*each), (rows, keys), batch_size=at_once)

    return each_model(fold, models, samplers, rows, weights, keys)


@program
def weigh(models: Model, tuned: Tuned, rows: Row, keys: Key[Array, "folds rows"]) -> Evidence:
    """Estimate how probable each model's own rows are, by annealed importance sampling."""

    def one(model: Model, tuned: Tuned, row: Row, key: PRNGKeyArray) -> Evidence:
        def of(mask: Bool[Array, " columns"], key: PRNGKeyArray) -> Estimate:
            seen = model.see(row._replace(mask=mask))
            return log_evidence(model, tuned, seen, _log_joint, ANNEALED, key=key)

        keys = jax.random.split(key)
        observed, everything = of(row.mask, keys[0]), of(jnp.ones_like(row.mask), keys[1])
        error = jnp.hypot(observed.error, everything.error)
        return Evidence(observed.value, everything.value, error)

    def fold(model: Model, tuned: Tuned, rows: Row, keys: Key[Array, " rows"]) -> Evidence:
        at_once = 1 if jax.default_backend() == "cpu" else ROWS_AT_ONCE
        return lax.map(lambda each: one(model, tuned, *each), (rows, keys), batch_size=at_once)

    return each_model(fold, models, tuned, rows, keys)


def _log_joint(model: Model, seen: Seen, position: Float[Array, " size"]) -> Float[Array, ""]:
    """Give log p(observed cells, position), with z of columns as in `Told.log_cells`."""
    marginals = model.marginals
    assert isinstance(marginals, MarginalVAEs)
    parameters = model.decoder(model.hierarchy.bottom(position))
    cells = _integrated(marginals, parameters, model.log_noise, seen.row.cells)
    return model.hierarchy.log_prior(position).sum() + jnp.where(seen.row.mask, cells, 0.0).sum()


def _row(
    model: Model,
    sampler: Sampler | Tuned,
    weights: Weights,
    how: How,
    row: Row,
    key: PRNGKeyArray,
) -> Told:
    draw_key, case_key = jax.random.split(key)
    found = draw(model, sampler, model.see(row), how, key=draw_key)
    positions = lax.collapse(found.positions, 0, 2)
    each = jax.vmap(partial(_at, model, weights, row))(positions)
    hidden = ~row.mask
    some = positions[:CASES]
    cells, targets = jax.vmap(partial(case, model, row))(
        some, jax.random.split(case_key, len(some))
    )
    return Told(
        -_log_mean_exp(_mean_where(each.published_cells, hidden)),
        -_log_mean_exp(_mean_where(each.published_cells, row.mask)),
        -_log_mean_exp(each.target),
        -_log_mean_exp(each.published_cells),
        _log_mean_exp(each.log_cells),
        _log_mean_exp(each.log_target),
        _log_mean_exp(jnp.where(hidden, each.log_cells, 0.0).sum(1)),
        each.guesses.mean(0),
        each.target_guesses.mean(0),
        each.locations,
        cells,
        targets,
        found.acceptance,
    )


class _At(NamedTuple):
    """What one draw of a row's latents says."""

    published_cells: Float[Array, "*draws columns"]
    target: Float[Array, "*draws"]
    log_cells: Float[Array, "*draws columns"]
    log_target: Float[Array, "*draws targets"]
    guesses: Float[Array, "*draws inputs"]
    target_guesses: Float[Array, "*draws target_inputs"]
    locations: Float[Array, "*draws target_inputs"]


def _at(model: Model, weights: Weights, row: Row, position: Float[Array, " size"]) -> _At:
    marginals, targets = model.marginals, model.targets
    assert isinstance(marginals, MarginalVAEs)
    assert targets is not None
    h = model.hierarchy.bottom(position)
    parameters = model.decoder(h)
    law = model.predict(h, parameters, row)
    shifted = _shifted(marginals.levels, marginals.outputs(parameters), weights.cells)
    target_shifted = _shifted(targets.levels, targets.outputs(law), weights.target)
    noise = jnp.full_like(model.log_noise, LOG_NOISE)
    target = _weighted(
        targets.levels, target_shifted, weights.target, model.target_log_noise, row.target
    )
    return _At(
        _weighted(marginals.levels, shifted, weights.cells, noise, row.cells),
        target.sum(),
        _integrated(marginals, parameters, model.log_noise, row.cells),
        targets.log_prob(law, model.target_log_noise, row.target),
        log_inputs(marginals.levels, shifted),
        log_inputs(targets.levels, target_shifted),
        targets.expected(law),
    )


def _integrated(
    marginals: MarginalVAEs,
    parameters: Float[Array, " parameters"],
    log_noise: Float[Array, " columns"],
    cells: Cells,
) -> Float[Array, " columns"]:
    """Give the log probability of each cell by a few values of its z.

    Over a thousand draws their mixture is as smooth as the many of `MarginalVAEs.log_prob`.
    """

    def at(part: Float[Array, ""]) -> Float[Array, " columns"]:
        return marginals.log_prob_given_z(parameters + jnp.exp(log_noise) * part, cells)

    return _log_mean_exp(jax.vmap(at)(jnp.asarray(PARTS)))


def _shifted(
    levels: tuple[int, ...], outputs: Outputs, weights: Float[Array, " columns"]
) -> Outputs:
    """Shift the log odds of two levels to where the weighted loss is least."""
    return outputs._replace(single=outputs.single + jnp.log(weights)[layout(levels)[0]])


def _weighted(
    levels: tuple[int, ...],
    outputs: Outputs,
    weights: Float[Array, " columns"],
    log_noise: Float[Array, " columns"],
    cells: Cells,
) -> Float[Array, " columns"]:
    """Give the log probability of each cell, times the weight where it is the second of two."""
    second = (np.array(levels) == 2) & (cells.point == 1)
    return jnp.where(second, weights, 1.0) * cell_log_prob(levels, outputs, log_noise, cells)


def _mean_where(values: Float[Array, "draws columns"], chosen: Array) -> Float[Array, " draws"]:
    """Average over chosen columns; NaN where there are none."""
    count = chosen.sum(dtype=values.dtype)
    return jnp.where(chosen, values, 0.0).sum(1) / count


def _log_mean_exp(values: Float[Array, "draws *rest"]) -> Float[Array, "*rest"]:
    return jax.nn.logsumexp(values, axis=0) - math.log(len(values))
