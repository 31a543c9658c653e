"""How filling goes with rows, columns and workers: rows a second, and the peak of memory.

    python benchmarks/scale.py [--rows 10000 1000000] [--columns 10 1000] [--preset default]

Makes tables of mixed kinds with holes, fits a model to some rows of each, and fills them by
`hhvaem impute` in a process of its own: one file, a folder by the same process, and a folder by one
and by two workers of Ray. Memory is that of a process and of all below it, as often as it is looked
at; pages that they share count once for each. Writes results/scale.json, one figure at a time.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "scale.json"
COLUMNS, FITTED, FILES = 20, 2_000, 4
WIDE_ROWS = 2_000  # of the tables that have many columns
ENGINES = {
    "one file": (),
    "folder": (),
    "ray, 1 worker": ("--engine", "ray", "--workers", "1"),
    "ray, 2 workers": ("--engine", "ray", "--workers", "2"),
}
LOOKS = 0.1  # seconds between two looks at the memory


def made(rows: int, columns: int) -> Any:
    """Make numbers, counts, levels and dates that depend on each other, a fifth of them missing."""
    import numpy as np
    import pyarrow as pa
    from estimators import made_up

    numbers = made_up(rows, columns)
    holes = np.isnan(numbers)
    numbers[holes] = 0.0
    found: dict[str, Any] = {}
    for j, values in enumerate(numbers.T):
        kind = ("number", "number", "number", "count", "level", "date")[j % 6]
        if kind == "number":
            cells: Any = np.round(values, 3)
        elif kind == "count":
            cells = np.floor(np.exp(2 * values)).astype(int)
        elif kind == "level":
            cells = np.array(["low", "middle", "high"])[np.digitize(values, [-0.5, 0.5])]
        else:
            cells = np.datetime64("2024-01-01") + np.rint(100 * values).astype(int)
        found[f"{kind}{j}"] = pa.array(cells, mask=holes[:, j])
    return pa.table(found)


def make(folder: str, rows: str, columns: str, preset: str) -> None:
    """Write a table as one file and as some, and a model that is fitted to a part of it."""
    from hhvaem import Imputer, write_table

    table, place = made(int(rows), int(columns)), Path(folder)
    write_table(table, place / "table.parquet")
    (place / "in").mkdir()
    each = -(-table.num_rows // FILES)
    for i in range(FILES):
        write_table(table.slice(i * each, each), place / "in" / f"{i}.parquet")
    imputer = Imputer(preset=preset, random_state=0).fit(table.slice(0, FITTED))
    imputer.save(place / "model.hhvaem")


def command(*words: str) -> None:
    """Run a command of hhvaem."""
    from hhvaem.cli import main

    sys.argv = ["hhvaem", *words]
    main()


def watched(*words: object) -> tuple[str, int]:
    """Run this script in a process of its own; give what it prints, and its peak in bytes."""
    peak, done = 0, threading.Event()
    with subprocess.Popen(
        [sys.executable, __file__, *map(str, words)], stdout=subprocess.PIPE, text=True
    ) as process:

        def watch() -> None:
            nonlocal peak
            while not done.wait(LOOKS):
                peak = max(peak, memory_below(process.pid))

        watcher = threading.Thread(target=watch)
        watcher.start()
        out, _ = process.communicate()
        done.set()
        watcher.join()
    if process.returncode:
        raise SystemExit(f"{' '.join(map(str, words))} failed.")
    return out, peak


def memory_below(top: int) -> int:
    """Give the bytes that a process and all that it has started hold in memory now."""
    parents, pages = dict[int, int](), dict[int, int]()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            # Behind the name, which may have anything in it.
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            held = (folder / "statm").read_text().split()[1]
        except OSError:  # it has ended
            continue
        parents[int(folder.name)], pages[int(folder.name)] = int(parent), int(held)

    def is_below(process: int) -> bool:
        while process and process != top:
            process = parents.get(process, 0)
        return process == top

    return sum(pages[each] for each in pages if is_below(each)) * os.sysconf("SC_PAGE_SIZE")


def filling(rows: int, columns: int, preset: str, engines: Sequence[str]) -> dict[str, Any]:
    """Fill a table in several ways."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        watched("make", folder, rows, columns, preset)
        for engine in engines:
            one = engine == "one file"
            given = place / ("table.parquet" if one else "in")
            out = place / ("full.parquet" if one else engine.replace(" ", "-"))
            words = (place / "model.hhvaem", given, "--out", out, *ENGINES[engine], "--json")
            # Twice as many blocks as files, so that two workers have something to share.
            at_once = ("--rows-at-once", max(128, min(4096, rows // FILES // 32)))
            said, peak = watched("command", "impute", *words, *at_once)
            facts = json.loads(said)
            found[engine] = {
                "rows_per_second": round(facts["rows"] / facts["seconds"], 1),
                "seconds": facts["seconds"],
                "peak_bytes": peak,
            }
            print(f"{rows:,} rows, {columns} columns, {engine}: {found[engine]}", flush=True)
    return found


def measured(name: str, measure: Callable[[], Any], **what: Any) -> None:
    """Add a figure to the results, in the place of an older one of the same."""
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    kept = [each for each in results.get(name, []) if any(each.get(k) != what[k] for k in what)]
    results[name] = [*kept, {**what, "cores": len(os.sched_getaffinity(0)), "found": measure()}]
    RESULTS.write_text(json.dumps(results, indent=2) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--columns", type=int, nargs="*", default=[10, 100, 1_000])
    parser.add_argument("--preset", default="default")
    parser.add_argument("--engines", nargs="*", choices=list(ENGINES), default=list(ENGINES))
    asked = parser.parse_args()
    for rows in asked.rows:
        measured(
            "filling, by rows",
            partial(filling, rows, COLUMNS, asked.preset, asked.engines),
            rows=rows,
            columns=COLUMNS,
            preset=asked.preset,
        )
    for columns in asked.columns:
        measured(
            "filling, by columns",
            partial(filling, WIDE_ROWS, columns, "fast", ["one file"]),
            rows=WIDE_ROWS,
            columns=columns,
            preset="fast",
        )


if __name__ == "__main__":
    TASKS: dict[str, Callable[..., None]] = {"make": make, "command": command}
    if sys.argv[1:] and sys.argv[1] in TASKS:
        TASKS[sys.argv[1]](*sys.argv[2:])
    else:
        main()
