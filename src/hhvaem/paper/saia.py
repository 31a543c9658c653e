"""The paper's sequential acquisition: its tables and lines, the runs that are there, their figures.

`hhvaem.paper.asking` makes the runs.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from hhvaem.acquire.rollout import Policy
from hhvaem.paper import collection
from hhvaem.paper.records import is_numbers
from hhvaem.paper.testing import counted

# In the order of the paper's figure.
TABLES = ("avocado", "yacht", "boston", "energy", "wine", "naval", "concrete", "diabetes")


class Line(NamedTuple):
    """A model, what chooses columns for it, and how its curve is drawn."""

    model: str
    policy: Policy
    colour: str
    style: Literal["-", "--", ":"] = "-"


LINES = {
    "VAEM, gaussian": Line("VAEM", "gaussian", "#e69f00"),
    "VAEM, histogram": Line("VAEM", "histogram", "#56b4e9"),
    "HH-VAEM, histogram": Line("HH-VAEM", "histogram", "#d55e00"),
    "HH-VAEM, grid": Line("HH-VAEM", "grid", "#009e73"),
    "HH-VAEM, fixed order": Line("HH-VAEM", "fixed", "#777777", "--"),
    "HH-VAEM, random order": Line("HH-VAEM", "random", "#777777", ":"),
}
# The lines of the paper's figure, and what can be read off it: the error of each at some numbers
# of known columns, of which None stands for all.
PAPER = ("VAEM, gaussian", "VAEM, histogram", "HH-VAEM, histogram")
READ_OFF: dict[str, dict[int | None, tuple[float, float, float]]] = {
    "avocado": {0: (0.39,) * 3, 5: (0.322, 0.318, 0.300), None: (0.275, 0.275, 0.26)},
    "yacht": {0: (18.0,) * 3, 1: (12.0, 3.1, 2.9), None: (2.0,) * 3},
    "boston": {0: (9.0,) * 3, 4: (4.6, 4.1, 3.5), None: (2.5,) * 3},
    "energy": {0: (9.7,) * 3, 1: (4.7, 6.4, 6.1), 4: (3.5, 3.3, 3.2), None: (1.4,) * 3},
    "wine": {0: (0.82,) * 3, 3: (0.12, 0.06, 0.10), None: (0.02,) * 3},
    "naval": {
        0: (0.01165,) * 3,
        7: (0.01158, 0.01158, 0.0114),
        None: (0.01153, 0.01154, 0.0111),
    },
    "concrete": {
        0: (13.5,) * 3,
        2: (12.0, 8.9, 8.2),
        4: (9.2, 7.7, 8.6),
        None: (5.4, 5.0, 6.2),
    },
    "diabetes": {0: (75.0,) * 3, 5: (58.0, 55.0, 58.0), None: (53.0, 54.0, 59.0)},
}
UNITS = {
    "avocado": "price, dollars",
    "yacht": "resistance per weight",
    "boston": "price, 1000 dollars",
    "energy": "both loads, kWh/m²",
    "naval": "both decay coefficients",
    "concrete": "strength, MPa",
    "diabetes": "progression score",
}

# What is drawn, and the titles of the figures.
CURVES = {
    "error": "Error of predictions: means over folds, and one standard deviation",
    "log_likelihood": "Log likelihood of targets, in their units, higher is better: means over "
    "folds, and one standard deviation",
    "seconds": "Time to predict and to choose a column, compilation left out: means over folds",
}


def place(folder: Path, table: str) -> Path:
    """Give the file of a table."""
    return folder / f"{table}.json"


def gather(
    folder: Path, abouts: Mapping[str, dict[str, Any]] = MappingProxyType({})
) -> dict[str, Any]:
    """Give the runs of all tables that are there; they go into one file, and into `draw`.

    Parameters
    ----------
    folder
        Where each table has its file.
    abouts
        What the run of a table must be (`hhvaem.paper.asking.identity`); else it may be any.

    Raises
    ------
    InputError
        Where a file is no run, or one of another version, or was made with other settings.
    """
    runs = []
    for table in TABLES:
        path = place(folder, table)
        run = collection.read_alike(path, abouts.get(table, {}))
        if run is None:
            continue
        if not _is_whole(run, table):
            raise collection.no_run(path)
        runs.append(run)
    return {"tables": runs}


def _is_whole(run: dict[str, Any], table: str) -> bool:
    """Say whether a run is that of a table, and has all that is drawn of it."""
    records = run["records"]
    try:
        (looks,) = {len(each["lines"][line]["error"]) for each in records for line in LINES}
        return (
            run["table"] == table
            and isinstance(run["columns"], list)
            and run["measure"] == ("rmse" if table in UNITS else "error rate")
            and looks > 1
            and len({each["fold"] for each in records}) == len(records)
            and all(each["table"] == table for each in records)
            and all(is_numbers(each["rows"]) and each["rows"] > 0 for each in records)
            and all(
                is_numbers(each["lines"][line][what], looks)
                for each in records
                for line in LINES
                for what in CURVES
            )
        )
    except (KeyError, TypeError, ValueError):  # what is not there, or is something else
        return False


def curve(run: Mapping[str, Any], line: str, what: str) -> Float[np.ndarray, "folds steps"]:
    """Give a curve of each fold; of times, in milliseconds per row."""
    found = np.array([record["lines"][line][what] for record in run["records"]])
    if what == "seconds":
        found = 1000 * found / np.array([[record["rows"]] for record in run["records"]])
    return found


def draw(results: Mapping[str, Any], what: str = "error") -> Figure:
    """Draw one of `CURVES`, a panel for each table: means over folds and standard deviations.

    Errors have the paper's beside them, as far as they can be read off its figure.
    """
    runs = results["tables"]
    across = min(4, len(runs))
    down = math.ceil(len(runs) / across)
    width = max(3.3 * across + 0.4, 7.0)
    figure = Figure(figsize=(width, 2.7 * down + 1.1), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False).ravel()
    for i, (panel, run) in enumerate(zip(panels, runs, strict=False)):
        _draw_table(panel, run, what)
        if i + across >= len(runs):
            panel.set_xlabel("columns known", fontsize=8)
    for panel in panels[len(runs) :]:
        panel.set_axis_off()
    figure.suptitle(CURVES[what], fontsize=10)
    handles = [
        Line2D([], [], color=line.colour, linestyle=line.style, label=name)
        for name, line in LINES.items()
    ]
    if what == "error":
        label = "read off the paper's figure, black where its lines meet"
        handles.append(_mark([], [], "k", label=label))
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=4 if across > 2 else 2,
        frameon=False,
        fontsize=8,
    )
    return figure


def _draw_table(panel: Axes, run: Mapping[str, Any], what: str) -> None:
    table, records = run["table"], run["records"]
    for name, line in LINES.items():
        curves = curve(run, name, what)
        # What the last step takes is not comparable: nothing is chosen any more.
        curves = curves[:, :-1] if what == "seconds" else curves
        mean, spread = curves.mean(0), curves.std(0)
        steps = np.arange(len(mean))
        panel.plot(steps, mean, line.style, color=line.colour, linewidth=1.3)
        if what != "seconds":
            panel.fill_between(
                steps, mean - spread, mean + spread, color=line.colour, alpha=0.1, linewidth=0
            )
    if what == "error":
        everything = len(run["columns"])
        for at, values in READ_OFF.get(table, {}).items():
            known = everything if at is None else at
            for name, value in zip(PAPER, values, strict=True):
                colour = "k" if len(set(values)) == 1 else LINES[name].colour
                panel.add_line(_mark([known], [value], colour))
        panel.relim()
        panel.autoscale_view()
        error = "error rate" if run["measure"] == "error rate" else f"RMSE of {UNITS[table]}"
        panel.set_ylabel(error, fontsize=8)
    if what == "log_likelihood":
        panel.set_ylabel("nats per row", fontsize=8)
    if what == "seconds":
        panel.set_ylabel("milliseconds per row", fontsize=8)
        panel.set_yscale("log")
        panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        panel.yaxis.set_major_formatter("{x:g}")
        panel.yaxis.set_minor_formatter(NullFormatter())
    rows = sum(record["rows"] for record in records)
    title = f"{table}: {counted(len(records), 'fold')}, {rows} rows"
    panel.set_title(title, fontsize=9)
    panel.tick_params(labelsize=7, which="both")
    panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    panel.spines[["top", "right"]].set_visible(False)


def _mark(x: list[int], y: list[float], colour: str, label: str = "") -> Line2D:
    return Line2D(
        x, y, color=colour, marker="o", markersize=5, markerfacecolor="none", linestyle="none",
        label=label,
    )  # fmt: skip
