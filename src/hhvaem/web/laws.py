"""The predictive law of a single cell, as a picture of it needs it."""

from typing import Any

import numpy as np

from hhvaem.estimators.base import interval_ends
from hhvaem.predictive import Predictive
from hhvaem.schema import LEVELLED, Column
from hhvaem.table import decode_value
from hhvaem.web.plain import LONGEST, cell
from hhvaem.web.views import FEW, edges_between, shown_number

# What lies outside of the picture on either side.
TAIL = 0.002
# Levels that have a bar of their own.
BARS_OF_LEVELS = 30


def told(law: Predictive, column: Column, place: int, row: int, level: float) -> dict[str, Any]:
    """Give the law of a cell as JSON.

    Parameters
    ----------
    law
        Of some rows.
    column, place
        The column, and its place among those that are modelled.
    row
        Among those of the law.
    level
        The probability of the interval.
    """
    at = np.array([row])
    ends = interval_ends(level)
    if column.kind in LEVELLED:
        return {"interval": None, "histogram": None, **_levels(law, column, place, at)}
    low, high = (float(law.quantile(place, at, q)[0]) for q in ends)
    interval = {
        "level": level,
        "low": cell(decode_value(column, low)),
        "high": cell(decode_value(column, high)),
    }
    first, last = (float(law.quantile(place, at, q)[0]) for q in (TAIL, 1 - TAIL))
    edges = edges_between(column, first, last)
    below, _ = law.ranks(place, np.repeat(at, edges.size), edges)
    # What is farther out belongs to the bars at the ends.
    below[0], below[-1] = 0.0, 1.0
    shares = [round(float(share), 5) for share in np.diff(below)]
    step = column.support[2]
    if column.kind != "datetime" and step is not None and edges.size <= FEW + 2:
        width = edges[1] - edges[0]
        if width == step:
            values = [cell(decode_value(column, float(edge + step / 2))) for edge in edges[:-1]]
            bars = [{"value": v, "share": s} for v, s in zip(values, shares, strict=True)]
            return {"interval": interval, "histogram": None, "bars": bars, "rest": 0.0}
    shown = [shown_number(column, float(edge)) for edge in edges]
    histogram = {"edges": shown, "shares": shares}
    return {"interval": interval, "histogram": histogram, "bars": None, "rest": 0.0}


def _levels(law: Predictive, column: Column, place: int, at: np.ndarray) -> dict[str, Any]:
    shares = law.shares(place, at)[0]
    most = np.sort(np.argsort(-shares, kind="stable")[:BARS_OF_LEVELS])
    bars = [
        {"value": cell(column.levels[i], LONGEST), "share": round(float(shares[i]), 5)}
        for i in most
    ]
    return {"bars": bars, "rest": round(max(float(1 - shares[most].sum()), 0.0), 5)}
