"""How long the estimators take with their defaults, in a fresh process each.

    python benchmarks/estimators.py

Writes results/estimators.json and the table of docs/speed.md.
"""

import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from documents import write_block

ROOT = Path(__file__).parents[1]
RESULTS, DOCS = ROOT / "results" / "estimators.json", ROOT / "docs" / "speed.md"
TASKS = {
    "import of the package": ("import", 0, 0),
    "`Imputer().fit`, 500 x 14": ("fit", 500, 14),
    "`transform` of 10,000 rows x 14": ("transform", 500, 14),
    "`Imputer().fit`, 40,000 x 20": ("fit", 40_000, 20),
}


def made_up(rows: int, columns: int, seed: int = 0) -> np.ndarray:
    """Make a table of numbers that depend on each other, a fifth of them missing.

    Tables of other seeds have other rows of the same kind.
    """
    rng, loadings = np.random.default_rng(seed), np.random.default_rng(0).normal(size=(4, columns))
    factors = rng.normal(size=(rows, 4))
    table = np.tanh(factors @ loadings) + 0.3 * rng.normal(size=(rows, columns))
    table[rng.random(table.shape) < 0.2] = np.nan
    return table


def measured(task: str, rows: int, columns: int) -> float:
    """Time one thing."""
    started = time.perf_counter()
    import hhvaem

    if task == "import":
        return time.perf_counter() - started
    table = made_up(rows, columns)
    started = time.perf_counter()
    imputer = hhvaem.Imputer(random_state=0).fit(table)
    if task == "transform":
        more = made_up(10_000, columns)
        started = time.perf_counter()
        imputer.transform(more)
    return time.perf_counter() - started


def main() -> None:
    if len(sys.argv) > 1:
        print(measured(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
        return
    seconds = {}
    for name, task in TASKS.items():
        command = [sys.executable, __file__, *map(str, task)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        seconds[name] = float(done.stdout.split()[-1])
        print(f"{name}: {seconds[name]:.1f} s", flush=True)
    machine = f"{len(os.sched_getaffinity(0))} {platform.machine()} CPU cores"
    RESULTS.write_text(json.dumps({"machine": machine, "seconds": seconds}, indent=1) + "\n")
    lines = [f"| | seconds on {machine} |", "|---|---|"]
    lines += [f"| {name} | {value:.1f} |" for name, value in seconds.items()]
    write_block(DOCS, "estimators", "\n".join(lines))


if __name__ == "__main__":
    main()
