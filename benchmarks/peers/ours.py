"""What our fitted model says of holes, as `benchmarks/peers.py` scores it."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hhvaem.fitting import Fitted
from hhvaem.mixtures import rounding_interval
from hhvaem.schema import LEVELLED, Column

# What is next to impossible counts as this, as in `hhvaem evaluate`.
LEAST_LOG = -20.0


def filled_by(
    fitted: Fitted,
    columns: Sequence[Column],
    shown: tuple[np.ndarray, np.ndarray],
    truth: np.ndarray,
    hidden: np.ndarray,
    draws: int,
) -> tuple[np.ndarray, np.ndarray, float]:
    """Give point fills, draws, and the log score of the hidden cells.

    `shown` are the rows that were learned from and those that are filled; NaN are holes.
    """
    train, test = shown
    known = ~np.isnan(test)
    # Members share the chains.
    how = fitted.plan.how
    for_draws = replace(how, chains=-(-draws // fitted.members))
    drawn = np.repeat(test[None], draws, axis=0)
    for rows, cells, _ in fitted.cases(test, known, for_draws):
        drawn[:, rows] = np.where(known[rows], test[rows], cells[:draws])
    point, logs = test.copy(), np.full(test.shape, np.nan)
    for rows, law, _ in fitted.laws(
        test, known, replace(how, chains=-(-how.chains // fitted.members))
    ):
        for j, column in enumerate(columns):
            at = np.flatnonzero(~known[rows, j])
            if at.size:
                point[rows.start + at, j] = law.filled(j, at)
            at = np.flatnonzero(hidden[rows, j])
            if not at.size:
                continue
            value = truth[rows.start + at, j]
            if column.kind in LEVELLED:
                with np.errstate(divide="ignore"):
                    found = np.log(law.shares(j, at)[np.arange(at.size), value.astype(int)])
            else:
                seen = train[:, j]
                ends = rounding_interval(value, np.unique(seen[~np.isnan(seen)]))
                found = law.log_mass(j, at, *ends)
            logs[rows.start + at, j] = np.maximum(found, LEAST_LOG)
    each = [logs[hidden[:, j], j].mean() for j in np.flatnonzero(hidden.any(0))]
    return point, drawn, float(np.mean(each))
