"""What `benchmarks/peers.py` hands to the script that runs a peer, and what it gets back.

A script runs in an environment of the peer's own, so that nothing but NumPy is needed here. It is
called with a folder: `job.npz` has the rows to learn from and the rows to fill, levels by index and
NaN where a cell is not shown; `job.json` says what the columns are. It leaves `filled.npz` and
`told.json` there.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np


class Job(NamedTuple):
    """What a peer is given.

    Parameters
    ----------
    kinds, levels
        What each column is, and how many levels it has; 0 of numbers.
    train, test
        Rows to learn from and rows to fill; None where they are the same.
    draws, seed
        How many draws a peer that draws makes, and where its randomness comes from.
    told
        All else that `job.json` says.
    folder
        Where it lies.
    """

    kinds: list[str]
    levels: list[int]
    train: np.ndarray
    test: np.ndarray | None
    draws: int
    seed: int
    told: dict[str, Any]
    folder: Path


class Filled(NamedTuple):
    """Rows without holes: the best single values, and draws where a peer has them."""

    point: np.ndarray
    draws: np.ndarray | None


def serve(version: str, fill: Callable[[Job], Filled]) -> None:
    """Read the job of the folder that the command line names, do it, and leave the result."""
    folder = Path(sys.argv[1])
    told = json.loads((folder / "job.json").read_text())
    with np.load(folder / "job.npz") as arrays:
        train, test = arrays["train"], arrays.get("test")
    job = Job(told["kinds"], told["levels"], train, test, told["draws"], told["seed"], told, folder)
    started = time.perf_counter()
    point, draws = fill(job)
    seconds = time.perf_counter() - started
    filled = {"point": point} | ({} if draws is None else {"draws": draws})
    np.savez(folder / "filled.npz", **filled)  # type: ignore[arg-type] # not its other argument
    # What a peer's own processes have told goes before.
    said = {"version": version, "seconds": seconds, "peak_mb": peak_mb(), "device": "cpu"}
    beside = folder / "told.json"
    said |= json.loads(beside.read_text()) if beside.exists() else {}
    beside.write_text(json.dumps(said))


def peak_mb() -> float:
    """Give the most memory that this process has had, in MB.

    `resource.getrusage` would count what started the process, too: a process begins as its
    parent's copy, and that peak stays.
    """
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024 / 1e6


def shown(job: Job) -> np.ndarray:
    """Give the rows to fill as they are shown."""
    return job.train if job.test is None else job.test


def centre(job: Job, draws: np.ndarray) -> np.ndarray:
    """Give the mean of a number's draws and the level that was drawn most often."""
    point = draws.mean(0)
    for j, levels in enumerate(job.levels):
        if levels:
            point[:, j] = (draws[:, :, j, None] == np.arange(levels)).sum(0).argmax(1)
    return point


def standard(job: Job) -> tuple[np.ndarray, np.ndarray]:
    """Give the mean and the spread of the shown numbers to learn from; 0 and 1 of levels."""
    numbers = ~np.array(job.levels, bool)
    shift, scale = np.nanmean(job.train, axis=0), np.nanstd(job.train, axis=0)
    return np.where(numbers, shift, 0.0), np.where(numbers & (scale > 0), scale, 1.0)


def indicators(job: Job, values: np.ndarray, first: int = 0) -> np.ndarray:
    """Say levels without order by an indicator of each, numbers and ordered levels as they are.

    From the level `first` on, 0 or 1: with an indicator of every level, each follows from the
    others, which some peers cannot bear.
    """
    parts = []
    for j, kind in enumerate(job.kinds):
        part = values[:, j, None]
        if kind == "categorical":
            part = np.where(np.isnan(part), np.nan, part == np.arange(first, job.levels[j]))
        parts.append(part)
    return np.concatenate(parts, axis=1)


def indicator_features(job: Job) -> np.ndarray:
    """Say which of the features that `indicators` gives are such."""
    return np.repeat([kind == "categorical" for kind in job.kinds], _widths(job, 0))


def number_features(job: Job, first: int = 0) -> np.ndarray:
    """Say which of the features that `indicators` gives are numbers, not levels."""
    return np.repeat([not levels for levels in job.levels], _widths(job, first))


def from_indicators(job: Job, features: np.ndarray, first: int = 0) -> np.ndarray:
    """Give the levels that are nearest to what was said of their indicators; numbers as are."""
    columns, place = [], 0
    for kind, levels, width in zip(job.kinds, job.levels, _widths(job, first), strict=True):
        part = features[..., place : place + width]
        place += width
        if kind == "categorical":
            rest = 1.0 - part.sum(-1, keepdims=True)
            columns.append(np.concatenate([*[rest] * first, part], axis=-1).argmax(-1))
        elif levels:
            columns.append(np.clip(np.rint(part[..., 0]), 0, levels - 1))
        else:
            columns.append(part[..., 0])
    return np.stack(columns, axis=-1)


def _widths(job: Job, first: int) -> list[int]:
    each = zip(job.kinds, job.levels, strict=True)
    return [levels - first if kind == "categorical" else 1 for kind, levels in each]


def frame(job: Job, values: np.ndarray) -> Any:
    """Give a DataFrame, its levels as categories of those that were shown to learn from."""
    import pandas as pd

    columns = {}
    for j, levels in enumerate(job.levels):
        known = np.unique(job.train[~np.isnan(job.train[:, j]), j])
        columns[f"c{j}"] = (
            pd.Categorical(values[:, j], categories=known) if levels else values[:, j]
        )
    return pd.DataFrame(columns)


def numbers_of(table: Any) -> np.ndarray:
    """Give the numbers of a DataFrame whose categories are numbers."""
    return np.stack([np.asarray(table[name], np.float64) for name in table.columns], axis=1)
