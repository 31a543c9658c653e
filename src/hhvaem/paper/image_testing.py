"""What a trained model says of test images, and its scores: published ones and proper ones."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray

from hhvaem.compiling import program
from hhvaem.model import Model, Row
from hhvaem.objectives import Sampler
from hhvaem.paper.image_sets import Pile
from hhvaem.paper.testing import in_parts
from hhvaem.posterior import How, Tuned, draw

# Images of one call, and of these how many have their chains run at once on an accelerator: with
# a thousand chains each, enough for it.
IMAGES, IMAGES_AT_ONCE = 256, 16
# Bins in which probabilities are compared with shares.
BINS = 10


class Told(NamedTuple):
    """What the draws of a test image tell.

    Parameters
    ----------
    missing, observed
        The published negative log likelihoods of hidden and of observed pixels: the mean over
        pixels stands inside the exponent.
    halves
        `missing`, and the NLL of the label, by one half of the draws and by the other.
    log_pixels, joint
        Proper: minus the mean log probability of hidden pixels each by itself, and minus that of
        all of them together, per pixel.
    brier, wrong
        Mean squared error of the probabilities of hidden pixels, and the share of those that are
        on the wrong side of 0.5.
    shares
        Probability of each class, or of each attribute.
    calibration
        For each bin of probabilities of hidden pixels: how many, their sum, and how many are 1.
    acceptance, divergent, movement
        Of the chains; NaN where there are none.
    """

    missing: Float[Array, "*images"]
    observed: Float[Array, "*images"]
    target: Float[Array, "*images"]
    halves: Float[Array, "*images 2 2"]
    log_pixels: Float[Array, "*images"]
    joint: Float[Array, "*images"]
    brier: Float[Array, "*images"]
    wrong: Float[Array, "*images"]
    shares: Float[Array, "*images classes"]
    calibration: Float[Array, "*images bins 3"]
    acceptance: Float[Array, "*images"]
    divergent: Float[Array, "*images"]
    movement: Float[Array, "*images"]


def look_at(
    model: Model,
    sampler: Sampler | Tuned,
    pile: Pile,
    how: How,
    *,
    key: PRNGKeyArray,
    say: Callable[[str], None],
) -> Told:
    """Look at all images of a test, as many at a time as memory allows for."""

    def some(numbers: Int[np.ndarray, " rows"]) -> Told:
        chosen = np.minimum(numbers, len(pile.pixels) - 1)
        keys = _image_keys(key, jnp.asarray(chosen))
        found = _look(model, sampler, pile.rows(chosen), keys, how)
        # Parts are put together along the second axis, behind one of models.
        return jax.tree.map(lambda leaf: leaf[None], found)

    told = in_parts(some, len(pile.pixels), IMAGES, say)
    return jax.tree.map(lambda leaf: leaf[0], told)


@jax.jit
def _image_keys(key: PRNGKeyArray, numbers: Int[Array, " rows"]) -> Key[Array, " rows"]:
    return jax.vmap(lambda number: jax.random.fold_in(key, number))(numbers)


@program
def _look(
    model: Model, sampler: Sampler | Tuned, rows: Row, keys: Key[Array, " rows"], how: How
) -> Told:
    at_once = 1 if jax.default_backend() == "cpu" else IMAGES_AT_ONCE
    one = partial(_image, model, sampler, how)
    return lax.map(lambda each: one(*each), (rows, keys), batch_size=at_once)


def _image(model: Model, sampler: Sampler | Tuned, how: How, row: Row, key: PRNGKeyArray) -> Told:
    found = draw(model, sampler, model.see(row), how, key=key)
    positions = lax.collapse(found.positions, 0, 2)
    assert model.targets is not None
    targets = model.targets

    def at(
        position: Float[Array, " size"],
    ) -> tuple[Float[Array, " pixels"], Float[Array, ""], Float[Array, " classes"]]:
        h = model.hierarchy.bottom(position)
        parameters = model.decoder(h)
        law = model.predict(h, parameters, row)
        label = targets.log_prob(law, model.target_log_noise, row.target).sum()
        return parameters, label, targets.expected(law)

    parameters, label, shares = jax.vmap(at)(positions)
    marginals = model.marginals
    pixels = jax.vmap(marginals.log_prob, (0, None, None))(parameters, model.log_noise, row.cells)
    hidden = ~row.mask
    count = hidden.sum(dtype=pixels.dtype)
    inside = jnp.where(hidden, pixels, 0.0).sum(1) / count
    known = jnp.where(row.mask, pixels, 0.0).sum(1) / row.mask.sum(dtype=pixels.dtype)
    half = len(positions) // 2
    halves = jnp.stack(
        [
            jnp.stack([-_log_mean_exp(part[:half]), -_log_mean_exp(part[half:])])
            for part in (inside, label)
        ]
    )
    chance = jax.vmap(marginals.expected)(parameters).mean(0)
    truth = row.cells.point

    def mean(values: Float[Array, " pixels"]) -> Float[Array, ""]:
        return jnp.where(hidden, values, 0.0).sum() / count

    return Told(
        -_log_mean_exp(inside),
        -_log_mean_exp(known),
        -_log_mean_exp(label),
        halves,
        -mean(_log_mean_exp(pixels)),
        -_log_mean_exp(inside * count) / count,
        mean((chance - truth) ** 2),
        mean(((chance > 0.5) != (truth > 0.5)).astype(chance.dtype)),
        shares.mean(0),
        _binned(chance, truth, hidden.astype(chance.dtype)),
        found.acceptance,
        found.divergent,
        found.movement,
    )


def _binned(
    chance: Float[Array, " cells"], truth: Float[Array, " cells"], weight: Float[Array, " cells"]
) -> Float[Array, "bins 3"]:
    number = jnp.clip((chance * BINS).astype(jnp.int32), 0, BINS - 1)
    within = jax.nn.one_hot(number, BINS, dtype=chance.dtype) * weight[:, None]
    return jnp.stack([within.sum(0), chance @ within, truth @ within], axis=1)


def _log_mean_exp(values: Float[Array, "draws *rest"]) -> Float[Array, "*rest"]:
    return jax.nn.logsumexp(values, axis=0) - math.log(len(values))


def score_images(pile: Pile, told: Told) -> dict[str, float]:
    """Score a test by what was told of its images.

    Keys that start with `paper_` are by the published formulas; log scores are negative, in nats.
    Those that end with `_mc_error` are standard errors of what more draws would change.
    """
    found: Any = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), told)
    between = found.halves[..., 0] - found.halves[..., 1]
    error = np.sqrt(between.var(0) / len(between)) / 2
    scores = {
        "images": float(len(pile.pixels)),
        "paper_nll_missing": _mean(found.missing),
        "paper_nll_observed": _mean(found.observed),
        "paper_nll_target": _mean(found.target),
        "paper_nll_missing_mc_error": float(error[0]),
        "paper_nll_target_mc_error": float(error[1]),
        "log_score_cell": _mean(found.log_pixels),
        "log_score_joint": _mean(found.joint),
        "brier_cell": _mean(found.brier),
        "error_cell": _mean(found.wrong),
        "calibration_error_cell": calibration_error(found.calibration.sum(0)),
        "acceptance": _mean(found.acceptance),
        "divergent": _mean(found.divergent),
        "movement": _mean(found.movement),
    }
    return scores | _labels(pile, found.shares)


def _labels(pile: Pile, shares: Float[np.ndarray, "images classes"]) -> dict[str, float]:
    """Score the probabilities of a class of ten."""
    if pile.labels.shape[1] != 1:
        return {}
    truth, guess = pile.labels[:, 0].astype(int), shares.argmax(1)
    own = shares[np.arange(len(truth)), truth]
    sure = shares.max(1)
    number = np.clip((sure * BINS).astype(int), 0, BINS - 1)
    bins = np.zeros((BINS, 3))
    np.add.at(bins, number, np.stack([np.ones_like(sure), sure, guess == truth], axis=1))
    return {
        "target_accuracy": float(np.mean(guess == truth)),
        "log_score_target": -_mean(np.log(own)),
        "brier_target": _mean(1 - 2 * own + (shares**2).sum(1)),
        "calibration_error_target": calibration_error(bins),
        "target_confidence": _mean(sure),
    }


def calibration_error(bins: Float[np.ndarray, "bins 3"]) -> float:
    """Give the mean distance of probabilities from shares, by bins: count, sum, how many were so.

    Examples
    --------
    >>> round(calibration_error(np.array([[10.0, 2.0, 3.0], [0.0, 0.0, 0.0], [10.0, 9.0, 9.0]])), 4)
    0.05
    """
    count = bins[:, 0].sum()
    return float(np.abs(bins[:, 1] - bins[:, 2]).sum() / count)


def first_model(models: Model) -> Model:
    """Take one model out of a stack of one."""
    return jax.tree.map(lambda leaf: leaf[0] if eqx.is_array(leaf) else leaf, models)


def _mean(values: Float[np.ndarray, "..."]) -> float:
    """Average what is finite: chains of an encoder have no acceptance."""
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if finite.size else math.nan
