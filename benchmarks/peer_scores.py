"""What benchmarks/peers.py hides, and how it scores what was filled in."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from peer_environments import plain
from peer_tables import Table
from scipy.spatial.distance import cdist, pdist

from hhvaem.errors import InputError
from hhvaem.evaluate import score_cells
from hhvaem.hiding import Mechanism, hide
from hhvaem.schema import LEVELLED, Column

TEST_SHARE = 0.2
DISTANCE_ROWS = 1_000

Record = dict[str, Any]


class Task(NamedTuple):
    """What a method is given, and what it is scored by.

    Parameters
    ----------
    table
        Whose columns they are.
    train, test
        Rows to learn from, and rows to fill, NaN where nothing is shown; None where they are the
        same.
    truth, known, hidden
        What was in the rows to fill, where that is known, and which cells are scored.
    scale
        Spread of the shown cells to learn from; 1 of levels.
    """

    table: Table
    train: np.ndarray
    test: np.ndarray | None
    truth: np.ndarray
    known: np.ndarray
    hidden: np.ndarray
    scale: np.ndarray


HOW: dict[str, tuple[Mechanism, float]] = {
    "in-sample": ("mcar", 0.3),
    "train-test": ("mcar", 0.5),
    "mar": ("mar", 0.3),
    "mnar": ("mnar", 0.3),
}
NEW_ROWS = "train-test"
IN_WORDS = {
    "in-sample": "cells hidden by chance, all rows learned from",
    NEW_ROWS: "cells hidden by chance, rows filled that were not learned from",
    "mar": "cells hidden by what other columns show",
    "mnar": "cells hidden by their own values",
}


def task_of(table: Table, protocol: str, seed: int) -> Task:
    """Hide cells of a table as a protocol says."""
    columns = table.schema.columns
    how, share = HOW.get(protocol, HOW["in-sample"])
    hidden = hide(columns, table.values, table.mask, how, share=share, seed=seed)
    learned = np.ones(len(hidden), bool)
    if protocol == NEW_ROWS:
        order = np.random.default_rng(seed).permutation(len(hidden))
        learned[order[: round(TEST_SHARE * len(hidden))]] = False
    shown = np.where(table.mask & ~hidden, table.values, np.nan)
    train = shown[learned]
    numbers = np.array([column.kind not in LEVELLED for column in columns])
    spread = np.array([np.ptp(x[~np.isnan(x)]) if (~np.isnan(x)).any() else 0 for x in train.T])
    # What does not vary among the rows to learn from has no unit.
    hidden[:, numbers & (spread == 0)] = False
    scale = np.where(numbers & (spread > 0), np.nanstd(train, axis=0), 1.0)
    fill = ~learned if protocol == NEW_ROWS else learned
    return Task(
        table,
        train,
        shown[fill] if protocol == NEW_ROWS else None,
        np.where(table.mask, table.values, np.nan)[fill],
        table.mask[fill],
        hidden[fill],
        scale,
    )


def checksum(mask: np.ndarray) -> str:
    """Give a short checksum of a mask: its shape, and which of its cells are True.

    Examples
    --------
    >>> checksum(np.zeros((2, 3), bool)) == checksum(np.zeros((3, 2), bool))
    False
    """
    told = f"{mask.shape}".encode() + np.packbits(mask).tobytes()
    return hashlib.sha256(told).hexdigest()[:16]


def features(
    columns: Sequence[Column], values: np.ndarray, shift: np.ndarray, scale: np.ndarray
) -> np.ndarray:
    """Give rows as points: numbers standardised, levels one apart where they differ."""
    parts = []
    for j, column in enumerate(columns):
        if column.kind in LEVELLED:
            parts.append((values[:, j, None] == np.arange(len(column.levels))) * np.sqrt(0.5))
        else:
            parts.append((values[:, j, None] - shift[j]) / scale[j])
    return np.concatenate(parts, axis=1)


def energy_distance(x: np.ndarray, y: np.ndarray) -> float:
    """Give 2 E|X - Y| - E|X - X'| - E|Y - Y'| of two sets of points, each pair counted."""

    def within(points: np.ndarray) -> float:
        return 2 * float(pdist(points).sum()) / len(points) ** 2

    return 2 * float(cdist(x, y).mean()) - within(x) - within(y)


def distance_to_truth(task: Task, fills: Iterable[np.ndarray]) -> float | None:
    """Give the mean energy distance of completed tables to the true one."""
    columns, rows = task.table.schema.columns, np.flatnonzero(task.known.all(1))
    if rows.size < 2:
        return None
    shift, scale = task.truth[rows].mean(0), task.truth[rows].std(0)
    scale = np.where(scale > 0, scale, 1.0)
    rows = np.random.default_rng(0).permutation(rows)[:DISTANCE_ROWS]
    true = features(columns, task.truth[rows], shift, scale)
    each = [energy_distance(features(columns, fill[rows], shift, scale), true) for fill in fills]
    return float(np.mean(each))


def illegal(columns: Sequence[Column], fills: np.ndarray, *, whole: bool) -> np.ndarray:
    """Say which fills are no value of their column: no level of it, or outside its bounds.

    Of draws (`whole`), numbers must also be multiples of their column's step; means need not.
    """
    wrong = np.zeros(fills.shape, bool)
    for j, column in enumerate(columns):
        x = fills[..., j]
        if column.levels:
            wrong[..., j] = ~np.isin(x, np.arange(len(column.levels)))
            continue
        lower, upper, step = column.support
        wrong[..., j] = (x < lower) | (x > upper)
        if whole and step:
            wrong[..., j] |= np.abs(x / step - np.rint(x / step)) > 1e-6
    return wrong & np.isfinite(fills)


SCORES = ("score", "nrmse", "error", "crps", "energy_distance", "coverage90")


def scored(task: Task, point: np.ndarray, draws: np.ndarray | None) -> Record:
    """Score fills; None for what cannot be said, as fills are not finite or are no levels."""
    columns = task.table.schema.columns
    holes = np.isnan(task.train if task.test is None else task.test)
    fills = point[None] if draws is None else draws
    both = np.concatenate([point[None], fills])
    bad = ~np.isfinite(both).all(0) & holes
    wrong = illegal(columns, fills, whole=draws is not None).any(0) & holes
    found: Record = dict.fromkeys(SCORES)
    found |= {"not_finite": int(bad.sum()), "illegal": int(wrong.sum()), "holes": int(holes.sum())}
    if not bad[task.hidden].any():
        try:
            report = score_cells(columns, task.truth, task.hidden, point, draws, task.scale).table
        except InputError as error:
            return found | {"failure": plain(f"InputError: {error}")}
        found |= {
            "score": report["rmse_missing"],
            "nrmse": report.get("rmse"),
            "error": report.get("error_rate"),
            "crps": report.get("crps"),
            "coverage90": report.get("coverage90"),
        }
        if not bad[task.known.all(1)].any():
            found["energy_distance"] = distance_to_truth(task, fills)
    return found
