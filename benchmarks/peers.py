"""Our default preset beside its peers: points, draws, completed tables, seconds and memory.

    HHVAEM_DATA=folder python benchmarks/peers.py             # all that results/peers.json lacks
    python benchmarks/peers.py --only iris --only in-sample   # records that match both
    python benchmarks/peers.py --at-once --out FILE           # ours alone, on an accelerator
    python benchmarks/peers.py --merge FILE                   # and its records into the others
    python benchmarks/peers.py --quick                        # does everything run? kept nowhere
    python benchmarks/peers.py --write                        # docs/results/peers.md and its figure

Each peer runs in an environment of its own under .peers, built from the pins in benchmarks/peers;
R's mice is Debian's r-cran-mice with r-cran-rpart. One that cannot be built is named under
`skipped` in the results. Tables that come inside other packages are taken from those, into
.peers/tables, where all tables are kept as they were read: another machine needs that folder alone.
Run one at a time: seconds are measured. With `--at-once` our models of all seeds of a table and
protocol are trained in one program, and have no seconds of their own: `benchmarks/peer_seconds.py`
measures these.

Scores of a record: `score` is the mean over columns of RMSE in standard deviations of the shown
cells, and of error rates of levels; `nrmse` and `error` are these two apart; `crps` and
`coverage90` are those of `hhvaem.evaluate.score_cells`; `log_score` is the mean over columns of the
mean log probability of hidden cells, as in `hhvaem evaluate`. `energy_distance` is that of the
completed and the true table, 2 E|X - Y| - E|X - X'| - E|Y - Y'|, X and Y being rows of each:
numbers in standard deviations of the true table, levels as indicators divided by the root of two,
so that two levels are one apart. For draws it is the mean over draws, else that of the point fill;
of tables with more rows than `DISTANCE_ROWS`, those are drawn once and for all. Rows whose truth
has holes have no part in it.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from peer_environments import IMPUTERS, OURS, ROOT, RUNNERS, TIMEOUT, plain, python_of
from peer_page import Results, write
from peer_scores import HOW, NEW_ROWS, SCORES, Record, Task, checksum, scored, task_of
from peer_tables import MADE_UP, PAPER, ROWS, SCIKIT_LEARN, SHIPPED, UGLY, Table, read, ugly

from hhvaem.atomic import replacing
from hhvaem.errors import InputError

sys.path.append(str(RUNNERS))

RESULTS = ROOT / "results" / "peers.json"
DRAWS, SEEDS = 20, 5


def blank(task: Task, name: str, protocol: str, seed: int, draws: int) -> Record:
    """Begin a record: what was asked for, and nothing told yet."""
    table = task.table
    record: Record = {
        "table": table.name,
        "role": table.role,
        "rows": len(table.values),
        "columns": len(table.schema.columns),
        "protocol": protocol,
        "seed": seed,
        "imputer": name,
        "mask": checksum(task.hidden),
        "draws": draws if IMPUTERS[name].draws else None,
        "timeout": False,
        "failure": None,
    }
    told = ("version", "device", "seconds", "peak_mb", "log_score", *SCORES)
    return record | dict.fromkeys(told)


def record_of(
    task: Task, name: str, protocol: str, seed: int, *, draws: int, preset: str, timeout: float
) -> Record:
    """Run a method in a process of its own, and score what it leaves."""
    table, record = task.table, blank(task, name, protocol, seed, draws)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        columns = table.schema.columns
        job = {
            "imputer": name,
            "kinds": [column.kind for column in columns],
            "levels": [len(column.levels) for column in columns],
            "schema": table.schema.to_json(),
            "draws": draws,
            "seed": seed,
            "preset": preset,
        }
        (folder / "job.json").write_text(json.dumps(job))
        rows = {"train": task.train} | ({} if task.test is None else {"test": task.test})
        np.savez(folder / "job.npz", allow_pickle=False, **rows)
        if name == OURS:
            # For log scores, which only it can give; peers are never shown the truth.
            np.savez(folder / "truth.npz", truth=task.truth, hidden=task.hidden)
        script = RUNNERS / f"{IMPUTERS[name].runner}.py"
        rc, said = finished([str(python_of(name)), str(script), made], timeout)
        if rc is None:
            return record | {"timeout": True}
        if rc or not (folder / "filled.npz").exists():
            return record | {"failure": plain(said)}
        record |= json.loads((folder / "told.json").read_text())
        with np.load(folder / "filled.npz") as arrays:
            point, drawn = arrays["point"], arrays.get("draws")
    return record | scored(task, point, drawn)


def finished(command: list[str], timeout: float) -> tuple[int | None, str]:
    """Run a command and all that it starts; its exit status, None past its time, and errors."""
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # Threads that wait take no core from those that work.
        env=os.environ | {"PYTHONWARNINGS": "ignore", "OMP_WAIT_POLICY": "PASSIVE"},
    )
    try:
        _, said = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return None, ""
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    return process.returncode, said


class Store:
    """Records in a file, which is whole at any time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.results: Results = {"skipped": [], "records": []}
        if path.exists():
            self.results = json.loads(path.read_text())

    def __contains__(self, key: tuple[str, str, int, str]) -> bool:
        return key in {key_of(record) for record in self.results["records"]}

    def add(self, *records: Record) -> None:
        """Put records in their places; those of the same run are replaced."""
        every = {key_of(record): record for record in (*self.results["records"], *records)}
        self.results["records"] = [every[key] for key in sorted(every)]
        self._write()

    def skip(self, name: str, reason: str | None) -> None:
        """Say that something was left out and why, or that it is not any more."""
        others = [one for one in self.results["skipped"] if one["name"] != name]
        if reason is not None:
            others.append({"name": name, "reason": reason})
        self.results["skipped"] = sorted(others, key=lambda one: one["name"])
        self._write()

    def _write(self) -> None:
        # A line for each: short, and what has changed is seen.
        parts = [
            f'"{name}": [\n' + ",\n".join(json.dumps(one) for one in self.results[name]) + "\n]"
            for name in ("skipped", "records")
        ]
        with replacing(self.path) as file:
            file.write(("{\n" + ",\n".join(parts) + "\n}\n").encode())


def key_of(record: Record) -> tuple[str, str, int, str]:
    return record["table"], record["protocol"], record["seed"], record["imputer"]


def tables(store: Store, wanted: Callable[[str], bool], most: int) -> Iterator[tuple[str, Table]]:
    """Give the tables of each protocol that can be had, the smallest first, and the ugly ones."""
    found = []
    for name in (*PAPER, *SCIKIT_LEARN, *SHIPPED):
        if not wanted(name):
            continue
        try:
            found.append(read(name, most))
        except (SystemError, InputError) as error:
            store.skip(f"table {name}", plain(str(error)))
        else:
            store.skip(f"table {name}", None)
    for table in sorted(found, key=lambda table: table.values.size):
        for protocol in HOW:
            yield protocol, table
    if wanted(MADE_UP):
        for how in UGLY:
            yield f"ugly:{how}", ugly(how)


def measure(store: Store, options: argparse.Namespace) -> None:
    """Run what is not there yet."""
    able = []
    for name in options.imputers:
        try:
            python_of(name)
        except (SystemError, subprocess.CalledProcessError) as error:
            store.skip(name, plain(str(error)))
            print(f"{name} is left out: {plain(str(error))}", flush=True)
        else:
            store.skip(name, None)
            able.append(name)

    def matches(*texts: str) -> bool:
        return all(any(part in text for text in texts) for part in options.only)

    names = {*PAPER, *SCIKIT_LEARN, *SHIPPED, MADE_UP}
    asked = {part for part in options.only if part in names}
    for protocol, table in tables(store, lambda name: not asked or name in asked, options.rows):
        for seed in range(options.seeds):
            todo = [
                name
                for name in able
                if matches(table.name, protocol, name)
                and (protocol != NEW_ROWS or IMPUTERS[name].new_rows)
                and (table.name, protocol, seed, name) not in store
            ]
            if not todo:
                continue
            try:
                task = task_of(table, protocol, seed)
            except InputError as error:
                store.skip(f"{table.name}, {protocol}", plain(str(error)))
                continue
            for name in todo:
                record = record_of(
                    task, name, protocol, seed,
                    draws=options.draws, preset=options.preset, timeout=options.timeout,
                )  # fmt: skip
                store.add(record)
                told = ("score", "crps", "energy_distance", "seconds", "timeout", "failure")
                print(*key_of(record), {each: record[each] for each in told}, flush=True)


def measure_at_once(store: Store, options: argparse.Namespace) -> None:
    """Run ours where it is not there yet, with all seeds of a table and protocol in one program."""
    import jax
    from ours import filled_by

    from hhvaem import __version__, fitting
    from hhvaem.preparing import Part, prepare
    from hhvaem.presets import PRESETS

    plan = PRESETS[options.preset]
    names = {*PAPER, *SCIKIT_LEARN, *SHIPPED, MADE_UP}
    asked = {part for part in options.only if part in names}
    for protocol, table in tables(store, lambda name: not asked or name in asked, options.rows):
        if not all(part in f"{table.name} {protocol}" for part in options.only):
            continue
        seeds = [s for s in range(options.seeds) if (table.name, protocol, s, OURS) not in store]
        if not seeds:
            continue
        try:
            tasks = [task_of(table, protocol, seed) for seed in seeds]
        except InputError as error:
            store.skip(f"{table.name}, {protocol}", plain(str(error)))
            continue
        columns = table.schema.columns
        ready = [
            prepare(Part(columns, task.train, ~np.isnan(task.train)), None, plan, seed=seed)
            for seed, task in zip(seeds, tasks, strict=True)
        ]
        for seed, task, fitted in zip(
            seeds, tasks, fitting.fit_many(ready, plan, seed=seeds[0]), strict=True
        ):
            test = task.train if task.test is None else task.test
            point, drawn, log_score = filled_by(
                fitted, columns, (task.train, test), task.truth, task.hidden, options.draws
            )
            record = blank(task, OURS, protocol, seed, options.draws)
            chosen = fitted.record.get("choice")
            record |= {
                "version": f"hhvaem {__version__}",
                "device": jax.devices()[0].device_kind,
                "log_score": log_score,
                "choice": chosen and {name: chosen[name] for name in ("decay", "noise_factor")},
            }
            store.add(record | scored(task, point, drawn))
        print(table.name, protocol, len(seeds), flush=True)


def quick(options: argparse.Namespace) -> None:
    """Run every imputer on one small table, and keep nothing."""
    with tempfile.TemporaryDirectory() as made:
        store = Store(Path(made) / "peers.json")
        measure(store, options)
        failed = [r for r in store.results["records"] if r["failure"] or r["timeout"]]
        print(f"{len(store.results['records'])} records, {len(failed)} of them failed.")
        print("Left out:", store.results["skipped"])


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=SEEDS, help="how many seeds")
    parser.add_argument(
        "--only", action="append", default=[], metavar="TEXT",
        help="only where table, protocol or imputer has this in its name; several must all match",
    )  # fmt: skip
    parser.add_argument("--imputers", nargs="+", choices=IMPUTERS, default=list(IMPUTERS))
    parser.add_argument("--timeout", type=float, default=TIMEOUT, help="seconds a fit may take")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where records are kept")
    parser.add_argument(
        "--at-once", action="store_true", help="ours alone, all seeds in one program"
    )
    parser.add_argument("--merge", type=Path, help="add the records of this file, and end")
    parser.add_argument("--quick", action="store_true", help="run everything once, keep nothing")
    parser.add_argument("--write", action="store_true", help="write the page, and end")
    parser.set_defaults(draws=DRAWS, preset="default", rows=ROWS)
    options = parser.parse_args()
    if options.quick:
        options.draws, options.preset, options.rows, options.seeds = 5, "fast", 60, 1
        options.only = options.only or ["penguins"]
    return options


def main() -> None:
    # Who is told to stop takes along what it has started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    options = arguments()
    if options.quick:
        quick(options)
    elif options.merge:
        Store(options.out).add(*Store(options.merge).results["records"])
    elif options.write:
        write(Store(options.out).results)
    elif options.at_once:
        measure_at_once(Store(options.out), options)
    else:
        measure(Store(options.out), options)


if __name__ == "__main__":
    main()
