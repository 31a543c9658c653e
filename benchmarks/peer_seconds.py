"""How long our default takes beside missForest, and what a shorter time costs in quality.

    HHVAEM_DATA=folder python benchmarks/peer_seconds.py            # all that the file lacks
    HHVAEM_DATA=folder python benchmarks/peer_seconds.py --write    # the page

Each pair of fits is one after the other on the same machine, each in a process of its own, on
tables with 30 % of their cells hidden by chance; compiling, filling and 20 draws are part of the
seconds. Tables of `BUDGETED` are also fitted with `max_seconds`. Tables are cut to 20,000 rows
here. Writes results/peer_seconds.json record by record, and goes on where it was. Run it alone, or
on cores of its own: `taskset --cpu-list 0,1`.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from documents import write_block
from peer_environments import OURS, ROOT, RUNNERS
from peer_page import PAGE, lines
from peer_scores import Task, scored, task_of
from peer_tables import read

from hhvaem import fitting
from hhvaem.baselines import Task as Given
from hhvaem.baselines import missforest
from hhvaem.compiling import cores
from hhvaem.paper.records import versions, write_json
from hhvaem.preparing import Part
from hhvaem.presets import PRESETS

sys.path.append(str(RUNNERS))

RESULTS = ROOT / "results" / "peer_seconds.json"
FIGURE = ROOT / "docs" / "figures" / "peer-seconds.png"
TABLES = (
    "boston", "breast_cancer", "gbsg2", "modechoice", "anes96", "concrete", "fair", "naval",
    "avocado", "bank",
)  # fmt: skip
ROWS = 20_000
BUDGETED, BUDGETS = ("boston", "concrete"), (20.0, 40.0, 80.0, 160.0)
FOREST, DRAWS = "missforest", 20


def by_ours(task: Task, max_seconds: float | None) -> tuple[np.ndarray, np.ndarray]:
    from ours import filled_by

    columns = task.table.schema.columns
    fitted = fitting.fit(
        Part(columns, task.train, ~np.isnan(task.train)),
        None,
        PRESETS["default"],
        max_seconds=max_seconds,
    )
    shown = (task.train, task.train)
    return filled_by(fitted, columns, shown, task.truth, task.hidden, DRAWS)[:2]


def by_forest(task: Task) -> np.ndarray:
    known = ~np.isnan(task.train)
    columns = task.table.schema.columns
    return missforest(Given(columns, task.train, known, task.train, known, 1, 0)).point


def record_of(task: Task, name: str, max_seconds: float | None) -> dict[str, Any]:
    """Fit and fill once, and say how long that took and how good it is."""
    started = time.perf_counter()
    draws = None
    if name == OURS:
        point, draws = by_ours(task, max_seconds)
    else:
        point = by_forest(task)
    seconds = time.perf_counter() - started
    found = scored(task, point, draws)
    return {
        "table": task.table.name,
        "rows": len(task.train),
        "columns": task.train.shape[1],
        "imputer": name,
        "max_seconds": max_seconds,
        "cores": cores(),
        "seconds": round(seconds, 1),
        "score": found["score"],
        "crps": found["crps"],
    }


def pair_block(records: list[dict[str, Any]]) -> str:
    """Lay out both times of each table, and their ratio."""
    rows = []
    for table in TABLES:
        of = {r["imputer"]: r for r in records if r["table"] == table and r["max_seconds"] is None}
        if set(of) != {OURS, FOREST}:
            continue
        ours, forest = of[OURS], of[FOREST]
        rows.append(
            [
                f"{table}, {ours['rows']:,} x {ours['columns']}",
                f"{ours['seconds']:,.0f}",
                f"{forest['seconds']:,.0f}",
                f"{ours['seconds'] / forest['seconds']:.1f}",
            ]
        )
    return lines(["table", f"{OURS}, s", f"{FOREST}, s", "ratio"], rows)


def budget_block(records: list[dict[str, Any]]) -> str:
    """Lay out what less time costs."""
    rows = []
    for table in BUDGETED:
        own = [r for r in records if r["table"] == table and r["imputer"] == OURS]
        own.sort(key=lambda r: (r["max_seconds"] is None, r["max_seconds"]))
        for r in own:
            asked = "none" if r["max_seconds"] is None else f"{r['max_seconds']:.0f}"
            found = [f"{r[name]:.3f}" for name in ("score", "crps")]
            rows.append([table, asked, f"{r['seconds']:.0f}", *found])
    return lines(["table", "max_seconds", "seconds in all", "point score", "CRPS"], rows)


def draw_budgets(records: list[dict[str, Any]]) -> Any:
    """Draw point scores and CRPS against seconds."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for axis, score, title in zip(axes, ("score", "crps"), ("point score", "CRPS"), strict=True):
        for i, table in enumerate(BUDGETED):
            own = [r for r in records if r["table"] == table and r["imputer"] == OURS]
            own.sort(key=lambda r: r["seconds"])
            seconds = [r["seconds"] for r in own]
            axis.plot(seconds, [r[score] for r in own], "o-", color=f"C{i}", label=f"{table}, ours")
            for r in records:
                if r["table"] == table and r["imputer"] == FOREST and r[score] is not None:
                    label = f"{table}, missForest"
                    axis.plot(r["seconds"], r[score], "x", color=f"C{i}", label=label)
        axis.set(xscale="log", xlabel="seconds on two cores", ylabel=title)
        axis.set_xticks([10, 20, 50, 100, 200, 500], ["10", "20", "50", "100", "200", "500"])
        axis.minorticks_off()
        axis.grid(alpha=0.3)
        axis.legend()
    return figure


def write(records: list[dict[str, Any]]) -> None:
    """Write the block of the page, and the figure where budgets have been tried."""
    write_block(PAGE, "seconds", pair_block(records))
    if any(r["max_seconds"] is not None for r in records):
        write_block(PAGE, "budgets", budget_block(records))
        draw_budgets(records).savefig(FIGURE, dpi=100)


def read_records(path: Path) -> list[dict[str, Any]]:
    return json.loads(path.read_text())["records"] if path.exists() else []


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--budgets", nargs="*", type=float, default=list(BUDGETS))
    parser.add_argument("--out", type=Path, default=RESULTS, help="where records are kept")
    parser.add_argument("--merge", type=Path, nargs="+", help="add records of files, and end")
    parser.add_argument("--write", action="store_true", help="write the page, and end")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Measure what is not there yet, each in a process of its own, which compiles for itself."""
    options = arguments()
    if options.one:
        table, name, budget = options.one
        task = task_of(read(table, ROWS), "in-sample", 0)
        print(json.dumps(record_of(task, name, json.loads(budget))))
        return
    records = read_records(options.out)
    if options.write:
        write(records)
        return
    if options.merge:
        records += [record for path in options.merge for record in read_records(path)]
        write_json({"versions": versions(), "records": records}, options.out)
        return
    there = {(r["table"], r["imputer"], r["max_seconds"]) for r in records}
    jobs: list[tuple[str, str, float | None]] = []
    for table in options.tables:
        jobs += [(table, FOREST, None), (table, OURS, None)]
        jobs += [(table, OURS, budget) for budget in options.budgets if table in BUDGETED]
    for job in jobs:
        if job in there:
            continue
        table, name, budget = job
        command = [sys.executable, __file__, "--one", table, name, json.dumps(budget)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        records.append(json.loads(done.stdout.splitlines()[-1]))
        print(records[-1], flush=True)
        write_json({"versions": versions(), "records": records}, options.out)


if __name__ == "__main__":
    main()
