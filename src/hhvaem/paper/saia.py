"""The paper's sequential acquisition: which column to ask for next, and how predictions then fare.

VAEM and HH-VAEM are trained on the folds of a table as for the paper's tables. Every test row then
begins with nothing known, and is given one cell after the other (`hhvaem.acquire.rollout`): with
VAEM by the reward of its authors and by the paper's histogram, with HH-VAEM by the histogram, by
the default of this package, in random order, and in one order for all rows. Every fold is asked
about its own test rows; the published code asks all models about those of the first fold.
"""

import dataclasses
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from hhvaem import train
from hhvaem.acquire.rollout import Policy, Rollout, roll_out
from hhvaem.datasets import load
from hhvaem.fitting import Fitted
from hhvaem.paper import collection
from hhvaem.paper.folds import PUBLISHED, Fold, Published
from hhvaem.paper.records import versions
from hhvaem.paper.tables import (
    QUICK_STEPS,
    SEED,
    Prepared,
    configured,
    counted,
    prepare,
    untrained,
)
from hhvaem.posterior import How, Tuned
from hhvaem.presets import PRESETS

# In the order of the paper's figure.
TABLES = ("avocado", "yacht", "boston", "energy", "wine", "naval", "concrete", "diabetes")
# Draws of the latents and bins of the histogram, by the published code.
DRAWS, BINS = {"boston": 200}, {"boston": 7}
USUAL_DRAWS, USUAL_BINS = 100, 5
# Test rows of a fold at most: of more, so many at random.
ROWS = 500
# What makes a run short.
QUICK: dict[str, int] = {"draws": 40, "rows": 8, "steps": 2}
DIGITS = 5


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

Tell = Callable[[train.Progress], None]
Bar = Callable[[int], AbstractContextManager[Tell]]


class Size(NamedTuple):
    """How much is computed: draws, bins, test rows of a fold at most, and columns asked for."""

    draws: int
    bins: int
    rows: int
    steps: int | None


def size_of(table: str, rows: int = ROWS, *, quick: bool = False) -> Size:
    """Give the published size for a table, or a small one.

    Examples
    --------
    >>> size_of("boston")
    Size(draws=200, bins=7, rows=500, steps=None)
    """
    draws, bins = DRAWS.get(table, USUAL_DRAWS), BINS.get(table, USUAL_BINS)
    if quick:
        return Size(QUICK["draws"], bins, min(rows, QUICK["rows"]), QUICK["steps"])
    return Size(draws, bins, rows, None)


def complete(
    table: str,
    folds: Sequence[int],
    folder: Path,
    *,
    rows: int = ROWS,
    quick: bool = False,
    say: Callable[[str], None],
    bar: Bar,
) -> None:
    """Run the folds of a table that its file in the folder does not have yet.

    Parameters
    ----------
    table, folds
        What is to be there.
    folder
        Where each table has its file.
    rows
        Test rows of a fold at most.
    quick
        Whether to train for a few steps only, and to ask for a few columns of a few rows.
    say, bar
        Told what is done, and asked for what is told of the progress of so many steps.

    Raises
    ------
    InputError
        Where the file is of another version, or was made with other settings.
    """
    published = dataclasses.replace(PUBLISHED[table], **QUICK_STEPS) if quick else PUBLISHED[table]
    size = size_of(table, rows, quick=quick)
    path, about = place(folder, table), identity(table, published, size)
    missing = collection.missing_folds(collection.read_alike(path, about), folds)
    if not missing:
        return
    say(f"{table}: columns of {counted(len(missing), 'fold')}")
    prepared = prepare(load(table, as_published=True), missing, published)
    collection.add_run(path, about | run(prepared, size, say=say, bar=bar))


def place(folder: Path, table: str) -> Path:
    """Give the file of a table."""
    return folder / f"{table}.json"


def identity(table: str, published: Published, size: Size) -> dict[str, Any]:
    """Give what two runs must share for their folds to stand beside each other."""
    models = {name: configured(published, name) for name in _models()}
    return {
        "table": table,
        "as_published": True,
        "layers": {name: list(layers) for name, (layers, _) in models.items()},
        "settings": {
            **{name: dataclasses.asdict(settings) for name, (_, settings) in models.items()},
            "bins": size.bins,
            "rows": size.rows,
            "steps": size.steps,
            "lines": list(LINES),
        },
        "marginal_steps": published.marginal_steps,
        "seed": SEED,
        "draws": size.draws,
    }


def run(prepared: Prepared, size: Size, *, say: Callable[[str], None], bar: Bar) -> dict[str, Any]:
    """Train the models on folds of a table, and let all lines ask about their test rows.

    Returns
    -------
    dict
        What goes into the table's file, with a record of each fold.
    """
    numbers, folds, seconds = prepared.numbers, prepared.folds, {}
    tests = [
        _test_rows(fold, number, size.rows) for number, fold in zip(numbers, folds, strict=True)
    ]
    found: list[dict[str, Any]] = [{} for _ in folds]
    for model in _models():
        say(f"{prepared.table}: {model}")
        started = time.monotonic()
        with bar(prepared.published.steps) as tell:
            fitted = trained(prepared, model, size.draws, tell)
        seconds[model] = round(time.monotonic() - started, 1)
        for name, line in LINES.items():
            if line.model != model:
                continue
            say(f"{prepared.table}: {name}")
            started = time.monotonic()
            for number, fold, test, each, lines in zip(
                numbers, folds, tests, fitted, found, strict=True
            ):
                values = fold.truth[test]
                told = roll_out(
                    each,
                    values,
                    np.isfinite(values),
                    fold.target_truth[test],
                    policy=line.policy,
                    bins=size.bins,
                    steps=size.steps,
                    seed=number,
                )
                lines[name] = summary(told, len(fold.inputs.columns))
            seconds[name] = round(time.monotonic() - started, 1)
    encoding = folds[0].targets.encoding
    return {
        "columns": [column.name for column in folds[0].inputs.columns],
        "targets": [column.name for column in folds[0].targets.columns],
        "measure": "rmse" if encoding.levels[0] == 1 else "error rate",
        "seconds": {"columns": round(prepared.seconds, 1), **seconds},
        "device": jax.devices()[0].device_kind,
        "versions": versions(),
        "records": [
            {"table": prepared.table, "fold": number, "rows": len(test), "lines": lines}
            for number, test, lines in zip(numbers, tests, found, strict=True)
        ],
    }


def trained(prepared: Prepared, model: str, draws: int, tell: Tell | None = None) -> list[Fitted]:
    """Train one of the paper's models on all folds at once, as `hhvaem.paper.tables.run` does."""
    layers, settings = configured(prepared.published, model)
    states, data = untrained(prepared, layers, settings)
    states, _ = train.train(states, data, settings, progress=tell)
    plan = dataclasses.replace(
        PRESETS["paper"],
        layers=layers,
        settings=settings,
        how=How("hmc" if settings.inference == "hmc" else "encoder", chains=draws, kept=1),
        marginal_steps=prepared.published.marginal_steps,
    )

    def of(i: int, fold: Fold) -> Fitted:
        one = train.stack([train.unstack(states, i)])
        # Chains go by the steps that were learned; none has been looked for afterwards.
        untuned = Tuned(jnp.full(1, jnp.nan))
        encodings = fold.inputs.encoding, fold.targets.encoding
        return Fitted(*encodings, one.model, one.sampler, untuned, plan, SEED, {})

    return [of(i, fold) for i, fold in enumerate(prepared.folds)]


def summary(told: Rollout, columns: int) -> dict[str, Any]:
    """Keep what is drawn and compared.

    Errors of several targets are pooled, as in the paper. `place` is the mean place of each column
    in the orders of rows, in which those that were never asked for share the places at the end.
    """
    error = np.sqrt(np.mean(np.square(told.error), axis=1))
    places = np.full((told.rows, columns), np.nan)
    for row, order in enumerate(told.order):
        places[row] = (len(order) + 1 + columns) / 2
        places[row, order] = np.arange(1, len(order) + 1)
    return {
        "error": _short(error),
        "log_likelihood": _short(told.log_likelihood),
        "seconds": _short(told.seconds),
        "error_area": _short([error.mean()])[0],
        "log_likelihood_area": _short([told.log_likelihood_area])[0],
        "unavailable": _short([np.mean(told.unavailable)])[0],
        "place": _short(places.mean(0)),
    }


def _test_rows(fold: Fold, number: int, most: int) -> Int[np.ndarray, " rows"]:
    """Choose test rows of a fold: all, or `most` at random, as neighbours may be alike."""
    count = len(fold.truth)
    if count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng((SEED, number)).choice(count, most, replace=False))


def _models() -> list[str]:
    return list(dict.fromkeys(line.model for line in LINES.values()))


def _short(values: Any) -> list[float]:
    """Give numbers with a few digits that count, whatever their size."""
    return [float(f"{value:.{DIGITS}g}") for value in np.asarray(values, np.float64)]


def gather(folder: Path, tables: Sequence[str] = TABLES) -> dict[str, Any]:
    """Give the runs of all tables that are there; they go into one file, and into `draw`."""
    runs = (collection.read_run(place(folder, table)) for table in tables)
    return {"tables": [run for run in runs if run is not None]}


# What is drawn, and the titles of the figures.
CURVES = {
    "error": "Error of predictions: means over folds, and one standard deviation",
    "log_likelihood": "Log likelihood of targets, in their units, higher is better: means over "
    "folds, and one standard deviation",
    "seconds": "Time to predict and to choose a column, compilation left out: means over folds",
}


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
