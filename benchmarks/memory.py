"""How much memory the commands take for tables of any length, in a fresh process each.

    python benchmarks/memory.py

Writes results/memory.json and the table of docs/speed.md.
"""

import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from documents import write_block

ROOT = Path(__file__).parents[1]
RESULTS, DOCS = ROOT / "results" / "memory.json", ROOT / "docs" / "speed.md"
SIZES = (100_000, 1_000_000)
COLUMNS = 14
TASKS = {
    "`impute`, CSV": ("impute", "filler", ".csv"),
    "`impute`, Parquet": ("impute", "filler", ".parquet"),
    "`impute --draws 5`, Parquet": ("impute", "filler", ".parquet", "--draws", "5"),
    "`predict`, CSV": ("predict", "predictor", ".csv"),
    "`predict`, Parquet": ("predict", "predictor", ".parquet"),
}


def make(folder: Path) -> None:
    """Write tables of numbers, whole numbers, levels and dates, a fifth of the cells missing."""
    import numpy as np
    import pyarrow as pa
    from estimators import made_up

    from hhvaem import write_table

    numbers = made_up(SIZES[-1], COLUMNS)
    holes = np.isnan(numbers)
    numbers[holes] = 0.0
    columns = {}
    for j, values in enumerate(numbers.T):
        if j < 7:
            made = np.round(values, 3)
        elif j < 9:
            made = np.floor(np.exp(2 * values)).astype(int)
        elif j < 12:
            made = np.array(["low", "middle", "high"])[np.digitize(values, [-0.5, 0.5])]
        else:
            made = np.datetime64("2024-01-01") + np.rint(100 * values).astype(int)
        columns[f"c{j}"] = pa.array(made, mask=holes[:, j])
    whole = pa.table(columns)
    write_table(whole.slice(0, 500), folder / "some.parquet")
    for suffix in (".csv", ".parquet"):
        for rows in SIZES:
            write_table(whole.slice(0, rows), folder / f"{rows}{suffix}")


def command(*words: str) -> None:
    """Run a command, and print the peak of its memory in bytes."""
    from hhvaem.cli import main

    sys.argv = ["hhvaem", *words]
    try:
        main()
    finally:
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


def run(*words: object) -> str:
    # What started a process counts as its memory: nothing large is imported or made here.
    done = subprocess.run(
        [sys.executable, __file__, *map(str, words)], stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout


def peak(folder: Path, rows: int, task: tuple[str, ...]) -> int:
    name, model, suffix, *options = task
    said = run(
        name, folder / model, folder / f"{rows}{suffix}", "--out", folder / f"out{suffix}",
        "--posterior", "encoder", *options,
    )  # fmt: skip
    return int(said.split()[-1])


def report(peaks: dict[str, dict[str, int]]) -> None:
    RESULTS.write_text(json.dumps({"columns": COLUMNS, "bytes": peaks}, indent=1) + "\n")
    head = " | ".join(f"GB, {rows:,} rows" for rows in SIZES)
    lines = [f"| | {head} |", "|---|---|---|"]
    for name, each in peaks.items():
        lines.append(f"| {name} | " + " | ".join(f"{n / 1e9:.2f}" for n in each.values()) + " |")
    write_block(DOCS, "memory", "\n".join(lines))


def main() -> None:
    if sys.argv[1:2] == ["make"]:
        make(Path(sys.argv[2]))
        return
    if len(sys.argv) > 1:
        command(*sys.argv[1:])
        return
    peaks: dict[str, dict[str, int]] = {}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        run("make", folder)
        known = ("fit", folder / "some.parquet", "--preset", "fast", "--out")
        run(*known, folder / "filler")
        run(*known, folder / "predictor", "--target", "c0")
        for name, task in TASKS.items():
            peaks[name] = {str(rows): peak(folder, rows, task) for rows in SIZES}
            print(name, peaks[name], flush=True)
    report(peaks)


if __name__ == "__main__":
    main()
