"""What unknown cells of rows are worth to a fitted model, on the host."""

from collections.abc import Iterator
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.special import ndtri

from hhvaem import posterior
from hhvaem.acquire.information import Gains, Goals, Method, gains
from hhvaem.acquire.lines import Lines, lines
from hhvaem.encoding import TableMask, TableValues
from hhvaem.fitting import Fitted, row_keys
from hhvaem.likelihoods import Ordered
from hhvaem.posterior import How
from hhvaem.predictive import Predictive

# Locations at which the means of targets are tabulated.
PLACES = np.linspace(-12.0, 12.0, 513)


class Worth(NamedTuple):
    """What each column of some rows would tell about the targets.

    Parameters
    ----------
    gain
        The estimate, less what chance makes of it, and neither negative nor more than there is to
        be known.
    error
        Its standard error; NaN where there are too few draws to tell: of one chain, and of a
        histogram with as many bins as draws.
    raw
        The estimate as it is.
    """

    gain: Float[np.ndarray, "*rows columns"]
    error: Float[np.ndarray, "*rows columns"]
    raw: Float[np.ndarray, "*rows columns"]


class Asked(NamedTuple):
    """What is asked of a model: how its columns and its targets lie on their lines."""

    lines: Lines
    goals: Goals


def asked(fitted: Fitted, method: Method = "variance") -> Asked:
    """Prepare what a method of `hhvaem.acquire.information` needs of a fitted model."""
    assert fitted.target_encoding is not None
    columns, targets = fitted.models.log_noise.shape[1], len(fitted.target_encoding.laws)
    places = np.tile(PLACES, (targets, 1))
    means = np.zeros((fitted.members, targets, PLACES.size))
    if method == "variance":
        for t, law in enumerate(fitted.target_encoding.laws):
            if isinstance(law, Ordered):
                own = law.warp.value(ndtri((np.arange(1000) + 0.5) / 1000))
                scales = fitted.target_scales
                table = scales.mean_table(t)
                for m, values in enumerate(table):
                    mean = np.interp(PLACES, scales.locations(t), values)
                    means[m, t] = (mean - own.mean()) / (own.std() or 1.0)
    goals = Goals(
        lines(fitted.target_encoding, targets),
        jnp.asarray(places, jnp.float32),
        jnp.asarray(means, jnp.float32),
    )
    return Asked(lines(fitted.encoding, columns), goals)


def worth(
    fitted: Fitted,
    values: TableValues,
    mask: TableMask,
    how: How,
    method: Method = "grid",
    bins: int = 5,
    size: int = 0,
) -> Iterator[tuple[slice, Worth, Predictive]]:
    """Give what each column of rows would tell, and the laws of their targets, some at a time.

    `size` rows are computed with at once; 0 for as many as in all other questions.
    """
    about = asked(fitted, method)
    keys = row_keys(values, mask, fitted.seed)
    columns = len(fitted.encoding.laws)
    for chunk in fitted.chunks(values, mask, keys, size):
        drawn = fitted.draws(chunk, how)
        found = gains(fitted.models, chunk.row, drawn.positions, chunk.keys, *about, method, bins)
        target = np.asarray(posterior.laws(fitted.models, chunk.row, drawn.positions).target)
        kept = Worth(*(part[: chunk.size, :columns] for part in settled(found)))
        yield chunk.rows, kept, Predictive(fitted.target_scales, target[:, : chunk.size])


def settled(found: Gains) -> Worth:
    """Take the level of nothing off estimates, and keep them to what there can be."""
    raw, null, error, most = (np.asarray(part, np.float64) for part in found)
    return Worth(np.clip(raw - null, 0.0, np.maximum(most, 0.0)), error, raw)
