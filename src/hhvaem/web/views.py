"""Looks at a table: some of its rows, where it has holes, how the cells of a column lie."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool, Float

from hhvaem.inference import EXACT
from hhvaem.schema import LEVELLED, Column, Schema
from hhvaem.table import decode_value, encode
from hhvaem.web.columns import SHOWN
from hhvaem.web.plain import LONGEST, cell, cells, finite

# Bars of a histogram.
BARS = 24
# Whole numbers that are so few have a bar each.
FEW = 30

# The first and the last day that a date can be, in microseconds since 1970.
FIRST, LAST = (
    float(np.datetime64(day, "us").astype(np.int64)) for day in ("0001-01-01", "9999-12-31")
)

_MOST = float(np.finfo(np.float64).max)

Numbers = Float[np.ndarray, " _"]


def rows(table: pa.Table, first: int, count: int) -> list[list[Any]]:
    """Give the cells of some rows."""
    part = table.slice(first, count)
    columns = [cells(column, LONGEST) for column in part.columns]
    return [list(row) for row in zip(*columns, strict=True)]


def is_missing(column: Any) -> Bool[np.ndarray, " rows"]:
    """Say which cells of a column are holes."""
    return pc.is_null(column, nan_is_null=True).to_numpy(zero_copy_only=False).astype(bool)


def missing_map(table: pa.Table, bands: int) -> list[dict[str, Any]]:
    """Give for each band of rows the share of each column that is missing."""
    count = table.num_rows
    edges = np.unique(np.linspace(0, count, min(bands, count) + 1).astype(int))
    shares = (
        np.stack(
            [np.add.reduceat(is_missing(column), edges[:-1]) for column in table.columns], axis=1
        )
        / np.diff(edges)[:, None]
    )
    return [
        {"first": int(start), "rows": int(end - start), "missing": np.round(share, 4).tolist()}
        for start, end, share in zip(edges[:-1], edges[1:], shares, strict=True)
    ]


def numbers(column: Column, table: pa.Table) -> Numbers:
    """Give the known cells of a column as numbers."""
    values, mask = encode(table.select([column.name]), Schema((column,)))
    return values[:, 0][mask[:, 0]]


def shown_number(column: Column, value: float) -> Any:
    """Give a number of a column as a cell: a date as its text."""
    if column.kind == "datetime":
        # The edge of a bar may lie beyond the last date that there is.
        return cell(decode_value(column, float(np.clip(value, FIRST, LAST))))
    return finite(value)


def plot(column: Column, series: dict[str, Numbers | None]) -> dict[str, Any]:
    """Give the shares of several series of cells, in the same bars.

    Parameters
    ----------
    column
        What they are cells of.
    series
        Numbers as `numbers` gives them; None where there is none.
    """
    there = {name: part for name, part in series.items() if part is not None and part.size}
    edges: list[Any] | None = None
    labels: list[Any] | None = None
    if column.kind in LEVELLED:
        counted = {n: np.bincount(p.astype(int), minlength=len(column.levels)) for n, p in
                   there.items()}  # fmt: skip
        labels = [cell(level, LONGEST) for level in column.levels]
        if len(labels) > SHOWN:
            total = sum(counted.values(), np.zeros(len(labels)))
            # The most frequent, in their own order, and the rest together.
            most = np.sort(np.argsort(-total, kind="stable")[:SHOWN])
            labels = [*(labels[i] for i in most), None]
            counted = {n: np.append(c[most], c.sum() - c[most].sum()) for n, c in counted.items()}
    else:
        cuts = _cuts(column, list(there.values()))
        counted = {name: np.histogram(part, cuts)[0] for name, part in there.items()}
        edges = [shown_number(column, value) for value in cuts]
    shares = {
        name: np.round(counted[name] / max(counted[name].sum(), 1), 5).tolist()
        if name in counted
        else None
        for name in series
    }
    return {"edges": edges, "labels": labels, **shares}


def _cuts(column: Column, parts: list[Numbers]) -> Numbers:
    """Give the edges of bars: about whole numbers where they are few, else evenly spaced."""
    if not parts:
        return np.array([0.0, 1.0])
    low = min(float(part.min()) for part in parts)
    high = max(float(part.max()) for part in parts)
    return edges_between(column, low, high)


def edges_between(column: Column, low: float, high: float) -> Numbers:
    """Give the edges of bars from one number to another."""
    step = column.support[2]
    # Between numbers farther out there is no place for the edge of a step.
    if step is not None and max(abs(low), abs(high)) < EXACT * step:
        low, high = np.floor(low / step) * step, np.ceil(high / step) * step
        many = (high - low) / step + 1
        # Bars of as many steps each, or some would be higher for having more values.
        width = step * np.ceil(many / BARS) if many > FEW else step
        count = int((high - low) // width) + 1
        # Halfway between two values, but of dates where the day begins.
        start = low if column.kind == "datetime" else low - step / 2
        return start + width * np.arange(count + 1)
    if high <= low:
        spread = abs(low) * 1e-3 or 0.5
        low, high = max(low - spread, -_MOST), min(high + spread, _MOST)
    # Of quarters, whose difference is a number whatever they are, and a little more is one, too.
    return 4 * np.linspace(low / 4, high / 4, BARS + 1)
