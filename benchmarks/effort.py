"""What less work than the default's would cost in quality, on the tables of development.

    HHVAEM_DATA=folder python benchmarks/effort.py [--tables yacht] [--out FILE]    # on a GPU
    python benchmarks/effort.py --write                                             # the page

Fits the default preset and some that do less, each with its own choice of the decay, to seeds 0 and
1 of the in-sample protocol of `benchmarks/peers.py`. Fewer members are the first of the default's
own. Writes results/effort.json, record by record, and goes on where it was.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
from documents import write_block
from peer_environments import ROOT, RUNNERS
from peer_page import PAGE, lines
from peer_scores import Task, scored, task_of
from peer_tables import DEVELOPMENT, ROWS, read

from hhvaem.fitting import Fitted, fit_many
from hhvaem.paper.records import versions, write_json
from hhvaem.preparing import Part, prepare
from hhvaem.presets import PRESETS, Plan

sys.path.append(str(RUNNERS))

RESULTS = ROOT / "results" / "effort.json"
SEEDS, DRAWS = (0, 1), 20
SCORES = ("score", "crps", "coverage90", "energy_distance")
DEFAULT = PRESETS["default"]


def less(**settings: Any) -> Plan:
    return replace(DEFAULT, settings=replace(DEFAULT.settings, **settings))


PLANS = {
    "the default": DEFAULT,
    "batches of 64 rows": less(batch_size=64),
    "and one transition a visit": less(batch_size=64, transitions=1),
    "and half of the third stage": less(batch_size=64, transitions=1, steps=5_000, hmc_steps=1_500),
}
FEWER = {"three members": 3, "one member": 1}


def first_members(fitted: Fitted, members: int) -> Fitted:
    arrays, rest = eqx.partition((fitted.models, fitted.tuned), eqx.is_array)
    models, tuned = eqx.combine(jax.tree.map(lambda leaf: leaf[:members], arrays), rest)
    return replace(fitted, models=models, tuned=tuned)


def record_of(task: Task, seed: int, name: str, fitted: Fitted) -> dict[str, Any]:
    from ours import filled_by

    shown = (task.train, task.train)
    columns = task.table.schema.columns
    point, drawn, _ = filled_by(fitted, columns, shown, task.truth, task.hidden, DRAWS)
    found = scored(task, point, drawn)
    return {"table": task.table.name, "seed": seed, "plan": name} | {
        score: found[score] for score in SCORES
    }


def measured(table: str, name: str) -> Iterator[dict[str, Any]]:
    """Fit one plan to all seeds of a table at once."""
    plan = PLANS[name]
    tasks = [task_of(read(table, ROWS), "in-sample", seed) for seed in SEEDS]
    ready = [
        prepare(Part(task.table.schema.columns, task.train, ~np.isnan(task.train)), None, plan)
        for task in tasks
    ]
    for seed, task, fitted in zip(SEEDS, tasks, fit_many(ready, plan), strict=True):
        yield record_of(task, seed, name, fitted)
        if plan is DEFAULT:
            for fewer, members in FEWER.items():
                yield record_of(task, seed, fewer, first_members(fitted, members))


def block(records: list[dict[str, Any]]) -> str:
    """Lay out means over tables and seeds."""
    rows = []
    for name in (*PLANS, *FEWER):
        own = [r for r in records if r["plan"] == name]
        if own:
            means = [np.mean([r[score] for r in own]) for score in SCORES[:3]]
            rows.append([name, *(f"{mean:.3f}" for mean in means)])
    return lines(["", "point score", "CRPS", "coverage of 90 %"], rows)


def main() -> None:
    """Measure what is not there yet, or write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", nargs="+", default=sorted(DEVELOPMENT))
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--write", action="store_true", help="write the page, and end")
    asked = parser.parse_args()
    records = json.loads(asked.out.read_text())["records"] if asked.out.exists() else []
    if asked.write:
        write_block(PAGE, "effort", block(records))
        return
    there = {(r["table"], r["plan"]) for r in records}
    for table in asked.tables:
        for name in PLANS:
            if (table, name) not in there:
                records += list(measured(table, name))
                write_json({"versions": versions(), "records": records}, asked.out)


if __name__ == "__main__":
    main()
