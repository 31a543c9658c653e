"""How training and filling go with rows, columns and workers: seconds, and the peak of memory.

    python benchmarks/scale.py [--rows 10000 1000000] [--columns 10 1000] [--chains 5 100]
    python benchmarks/scale.py --rows 10000000 --columns --chains --posterior encoder
    python benchmarks/scale.py --page       # only the block of docs/scale.md, from the results

Makes tables of mixed kinds with holes, fits a model to some rows of each, and fills them by
`hhvaem impute` in a process of its own: one file, a folder by the same process, and a folder by one
and by two workers of Ray. Memory is that of a process and of all below it, as often as it is looked
at; pages that they share count once for each. With `--trained`, models are fitted to files of as
many rows by `hhvaem fit`. Writes results/scale.json, one figure at a time.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "results" / "scale.json", ROOT / "docs" / "scale.md"
MADE = 100_000  # rows that are made at once
COLUMNS, FITTED, FILES = 20, 2_000, 4
WIDE_ROWS = 2_000  # of the tables that have many columns
CHAINED_ROWS = 4_096  # of the table that is filled with many chains
ENGINES = {
    "one file": (),
    "folder": (),
    "ray, 1 worker": ("--engine", "ray", "--workers", "1"),
    "ray, 2 workers": ("--engine", "ray", "--workers", "2"),
}
LOOKS = 0.1  # seconds between two looks at the memory


def made(rows: int, columns: int, seed: int = 0) -> Any:
    """Make numbers, counts, levels and dates that depend on each other, a fifth of them missing."""
    import numpy as np
    import pyarrow as pa
    from estimators import made_up

    numbers = made_up(rows, columns, seed)
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


def make(folder: str, rows: str, columns: str, preset: str, parted: str) -> None:
    """Write a table as one file, or also as some, and a model that is fitted to a part of it."""
    from hhvaem import Imputer, write_table

    place, wide = Path(folder), int(columns)
    table(place / "table.parquet", rows, columns)
    if parted == "parted":
        (place / "in").mkdir()
        each = -(-int(rows) // FILES)
        for i in range(FILES):
            write_table(made(each, wide, seed=i), place / "in" / f"{i}.parquet")
    # As many members and units as the preset has; what was learned costs no time.
    imputer = Imputer(preset=preset, max_steps=200, random_state=0).fit(made(FITTED, wide))
    imputer.save(place / "model.hhvaem")


def table(place: Path | str, rows: str, columns: str) -> None:
    """Write a table, some rows at a time."""
    from hhvaem.streaming import write_chunks

    with write_chunks(place) as chunks:
        for first in range(0, int(rows), MADE):
            chunks.write(made(min(MADE, int(rows) - first), int(columns), seed=first))


def device() -> None:
    """Print what is computed with."""
    import jax

    print(jax.devices()[0].device_kind)


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


def chains(folder: str, draws: str) -> None:
    """Fill a table with so many chains of each row, compiled before; print rows and seconds."""
    from hhvaem import load, read_table

    table, imputer = read_table(Path(folder) / "table.parquet"), load(Path(folder) / "model.hhvaem")
    imputer.transform(table.slice(0, 1), draws=int(draws))
    started = time.perf_counter()
    imputer.transform(table, draws=int(draws))
    print(json.dumps({"rows": table.num_rows, "seconds": time.perf_counter() - started}))


def filling_by_chains(draws: int, preset: str) -> dict[str, Any]:
    """Fill a table with so many chains of each row."""
    with tempfile.TemporaryDirectory() as folder:
        watched("make", folder, CHAINED_ROWS, COLUMNS, preset, "alone")
        said, peak = watched("chains", folder, draws)
    found = _told(json.loads(said), peak)
    print(f"{draws} chains: {found}", flush=True)
    return {"in memory": found}


def filling(
    rows: int, columns: int, preset: str, engines: Sequence[str], posterior: str
) -> dict[str, Any]:
    """Fill a table in several ways."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        watched(
            "make", folder, rows, columns, preset, "alone" if engines == ["one file"] else "parted"
        )
        for engine in engines:
            one = engine == "one file"
            given = place / ("table.parquet" if one else "in")
            out = place / ("full.parquet" if one else engine.replace(" ", "-"))
            words = (place / "model.hhvaem", given, "--out", out, *ENGINES[engine], "--json")
            words = (*words, "--posterior", posterior)
            # Twice as many blocks as files, so that two workers have something to share.
            at_once = ("--rows-at-once", max(128, min(4096, rows // FILES // 32)))
            said, peak = watched("command", "impute", *words, *at_once)
            found[engine] = _told(json.loads(said), peak)
            print(f"{rows:,} rows, {columns} columns, {engine}: {found[engine]}", flush=True)
    return found


def _told(facts: dict[str, Any], peak: int) -> dict[str, Any]:
    rate = facts["rows"] / facts["seconds"]
    return {
        "rows_per_second": round(rate, 1),
        "seconds": round(facts["seconds"], 3),
        "peak_bytes": peak,
    }


def training(rows: int, preset: str) -> dict[str, Any]:
    """Fit a model to a file."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "table.parquet"
        watched("table", place, rows, COLUMNS)
        words = ("fit", place, "--out", Path(folder) / "model.hhvaem", "--preset", preset, "--json")
        said, peak = watched("command", *words)
        facts = json.loads(said)
        found = {
            "seconds": facts["seconds"],
            "steps": facts["steps"],
            "members": facts["members"],
            "peak_bytes": peak,
            "file_bytes": place.stat().st_size,
        }
    print(f"trained on {rows:,} rows: {found}", flush=True)
    return found


def measured(name: str, measure: Callable[[], Any], **what: Any) -> None:
    """Add a figure to the results, in the place of an older one of the same."""
    found = measure()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    kept = [each for each in results.get(name, []) if any(each.get(k) != what[k] for k in what)]
    every = [*kept, {**what, "cores": len(os.sched_getaffinity(0)), "found": found}]
    results[name] = sorted(every, key=lambda each: (each["device"], each["rows"], each["columns"]))
    RESULTS.write_text(json.dumps(results, indent=2) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--columns", type=int, nargs="*", default=[10, 100, 1_000])
    parser.add_argument("--chains", type=int, nargs="*", default=[5, 20, 100])
    parser.add_argument("--preset", default="default")
    parser.add_argument("--posterior", default="hmc", help="how files of many rows are filled")
    parser.add_argument("--engines", nargs="*", choices=list(ENGINES), default=list(ENGINES))
    parser.add_argument("--trained", type=int, nargs="*", default=[])
    parser.add_argument("--page", action="store_true")
    asked = parser.parse_args()
    if asked.page:
        write_page()
        return
    same = {"columns": COLUMNS, "preset": asked.preset, "device": watched("device")[0].strip()}
    for rows in asked.trained:
        measured("training", partial(training, rows, asked.preset), rows=rows, **same)
    for rows in asked.rows:
        measured(
            "filling, by rows",
            partial(filling, rows, COLUMNS, asked.preset, asked.engines, asked.posterior),
            rows=rows,
            posterior=asked.posterior,
            **same,
        )
    for columns in asked.columns:
        measured(
            "filling, by columns",
            partial(filling, WIDE_ROWS, columns, "fast", ["one file"], "hmc"),
            rows=WIDE_ROWS,
            posterior="hmc",
            **(same | {"columns": columns, "preset": "fast"}),
        )
    for chains in asked.chains:
        measured(
            "filling, by chains",
            partial(filling_by_chains, chains, asked.preset),
            rows=CHAINED_ROWS,
            chains=chains,
            **same,
        )
    write_page()


def write_page() -> None:
    """Write what was found into docs/scale.md."""
    from documents import write_block

    write_block(PAGE, "figures", block(json.loads(RESULTS.read_text())))


def block(results: dict[str, Any]) -> str:
    """Tell the figures, how they grow, and what a thousand million rows would cost."""
    lines = [
        "| training from a file | on | rows | seconds | peak memory |",
        "|---|---|---|---|---|",
    ]
    for each in results.get("training", []):
        found = each["found"]
        what = f"{each['columns']} columns, {each['preset']}, {found['members']} members"
        lines.append(
            f"| {what} | {_machine(each)} | {each['rows']:,} | {found['seconds']:,.0f} "
            f"| {_mebibytes(found)} |"
        )
    head = "| filling | on | rows | columns | rows a second | seconds | peak memory |"
    lines += ["", head, "|---|---|---|---|---|---|---|"]
    for name in ("filling, by rows", "filling, by columns", "filling, by chains"):
        for each in results.get(name, []):
            for engine, found in each["found"].items():
                how = "" if each.get("posterior", "hmc") == "hmc" else ", encoder alone"
                how = f", {each['chains']} chains" if "chains" in each else how
                lines.append(
                    f"| {engine}, {each['preset']}{how} | {_machine(each)} | {each['rows']:,} | "
                    f"{each['columns']:,} | {found['rows_per_second']:,.0f} "
                    f"| {found['seconds']:,.1f} | {_mebibytes(found)} |"
                )
    return "\n".join([*lines, "", *_laws(results)])


def _machine(record: dict[str, Any]) -> str:
    return f"{record['cores']} cores" if record["device"] == "cpu" else str(record["device"])


def _laws(results: dict[str, Any]) -> list[str]:
    """Fit the growth of the time of filling, and say what follows from it on paper."""
    import numpy as np

    said = []
    for by in ("rows", "columns", "chains"):
        each = [part for part in results.get(f"filling, by {by}", []) if _is_plain(part)]
        if len(each) > 1:
            sizes = np.log([part[by] for part in each])
            seconds = np.log([_found(part)["seconds"] for part in each])
            power = np.polyfit(sizes, seconds, 1)[0]
            said.append(
                f"- On a processor, the time of filling grows as {by} to the power of {power:.2f}."
            )
    largest = dict[str, dict[str, Any]]()
    for part in results.get("filling, by rows", []):
        if part["posterior"] == "hmc" and "one file" in part["found"]:
            largest[part["device"]] = part  # they are in the order of their rows
    for part in largest.values():
        on_cpu = part["device"] == "cpu"
        hours = 1e9 / _found(part)["rows_per_second"] / 3600 * (part["cores"] if on_cpu else 1)
        said.append(
            f"- On paper, at the rate of {part['rows']:,} rows, 1,000 million rows of "
            f"{part['columns']} columns take {hours:,.0f} hours of one "
            f"{'core' if on_cpu else part['device']}, or "
            f"{hours / 100:,.1f} hours of a hundred."
        )
    return said


def _is_plain(part: dict[str, Any]) -> bool:
    """Say whether something is of one file, by chains, on a processor."""
    one = {"one file", "in memory"} & set(part["found"])
    return bool(one) and part["device"] == "cpu" and part.get("posterior", "hmc") == "hmc"


def _found(part: dict[str, Any]) -> dict[str, Any]:
    found = part["found"]
    return found["one file"] if "one file" in found else found["in memory"]


def _mebibytes(found: dict[str, Any]) -> str:
    return f"{found['peak_bytes'] / 2**20:,.0f} MiB"


if __name__ == "__main__":
    TASKS: dict[str, Callable[..., None]] = {
        "make": make, "table": table, "command": command, "chains": chains, "device": device,
    }  # fmt: skip
    if sys.argv[1:] and sys.argv[1] in TASKS:
        TASKS[sys.argv[1]](*sys.argv[2:])
    else:
        main()
