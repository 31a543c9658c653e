"""Tables as nobody should send them: some to be refused, the others to be filled."""

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from hypothesis import strategies as st

ODD_CELLS = [
    None, math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, 1.7e308, -1.7e308, 0.1, 7, -3, 2**53,
    2**53 + 1, 2**64, 2**70, True, False, "", " ", "NA", "nan", "1", "01", "ÿ", "\0", "\ud800",
    "a" * 1000, b"x", 1 + 2j, Decimal("1.1"), (1,), {"a": 1}, dt.date.max, dt.date(2020, 1, 2),
    dt.datetime.min, dt.datetime(2020, 1, 2), dt.datetime(2020, 1, 2, tzinfo=dt.UTC),
    dt.timedelta(1), dt.time(3), np.float32(1.1), np.int8(3), np.bool_(True), np.str_("x"),
    np.datetime64("NaT"), np.datetime64("2020-01-01"), pd.NA, pd.NaT, pd.Timestamp.max,
    pd.Period("2020"), object(), int,
]  # fmt: skip
ODD_NAMES = [
    "a", "b", " a", "A", "", "\n", "ÿ", "\0", "\ud800", "a" * 300, "draw", "mask", 0, 1, -1, 1.5,
    None, True, ("a", 1), dt.date(2020, 1, 1), b"a",
]  # fmt: skip


@st.composite
def odd_tables(draw: Any) -> Any:
    """Columns of a few odd cells each, under odd names, in any container that takes them."""
    rows, width = draw(st.integers(0, 6)), draw(st.integers(0, 4))
    names = draw(st.lists(st.sampled_from(ODD_NAMES), min_size=width, max_size=width))
    columns = []
    for _ in range(width):
        few = draw(st.lists(st.sampled_from(ODD_CELLS), min_size=1, max_size=3))
        columns.append(draw(st.lists(st.sampled_from(few), min_size=rows, max_size=rows)))
    makers = [_frame, _inferred, _polars, _arrow, lambda columns, *_: columns]
    make = draw(st.sampled_from(makers))
    try:
        return make(columns, names, rows)
    except Exception:  # no such table is there to be sent
        return _objects(columns, names, rows)


def _frame(columns: list[list[Any]], names: list[Any], rows: int) -> pd.DataFrame:
    frame = pd.DataFrame(_objects(columns, names, rows))
    frame.columns = pd.Index(names, dtype=object)
    return frame


def _inferred(columns: list[list[Any]], names: list[Any], rows: int) -> pd.DataFrame:
    return _frame(columns, names, rows).infer_objects()


def _polars(columns: list[list[Any]], names: list[Any], _: int) -> pl.DataFrame:
    named = dict(zip(map(str, names), columns, strict=True))
    return pl.DataFrame(named, strict=False)


def _arrow(columns: list[list[Any]], names: list[Any], _: int) -> pa.Table:
    return pa.table(columns, names=list(map(str, names)))


def _objects(columns: list[list[Any]], _: list[Any], rows: int) -> np.ndarray:
    table = np.empty((rows, len(columns)), object)
    for j, column in enumerate(columns):
        for i, value in enumerate(column):
            table[i, j] = value
    return table


def _outlier(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    x[rng.integers(len(x))] = rng.choice([1e308, -1e308, 1e30, -1e12])
    return x


NUMBERS: dict[str, Any] = {
    "plain": lambda x, rng: x,
    "tiny": lambda x, rng: 1e-300 * x,
    "huge": lambda x, rng: 1e300 * x,
    "all sizes": lambda x, rng: 10.0 ** (100 * x),
    "subnormal": lambda x, rng: np.round(10 * x) * 5e-324,
    "far off": lambda x, rng: 1e12 + 1e-3 * x,
    "ties": lambda x, rng: np.where(rng.random(len(x)) < 0.7, 3.25, x),
    "rounded": lambda x, rng: np.round(x, 1),
    "whole": lambda x, rng: np.round(1e15 * x),
    "counts": lambda x, rng: np.floor(np.exp(3 * x)),
    "outlier": _outlier,
    "both ends": lambda x, rng: np.where(rng.random(len(x)) < 0.3, 1.7e308, -1.7e308 + 0 * x),
    "same": lambda x, rng: 0 * x + 4.2,
    "empty": lambda x, rng: np.nan * x,
    "minus zero": lambda x, rng: np.where(x < 0, -0.0, x),
    "sorted": lambda x, rng: np.sort(x),
}


def ugly_numbers(number: int) -> pa.Table:
    """Make a table of levels and ugly numbers; most have the same shape and share programs."""
    rng = np.random.default_rng(number)
    rows = 40 if number % 10 == 9 else 12
    x = rng.normal(size=rows)
    columns: dict[str, Any] = {"level": np.array(list("abc"))[np.arange(rows) % 3]}
    missing = rng.choice([0.0, 0.2, 0.6])
    for j in range(3):
        with np.errstate(over="ignore", invalid="ignore"):
            own = NUMBERS[rng.choice(list(NUMBERS))](x + 0.3 * rng.normal(size=rows), rng)
        columns[f"x{j}"] = np.nan_to_num(own, nan=np.nan, posinf=1.7e308, neginf=-1.7e308)
    if number % 20 == 19:
        columns["x0"] = np.where(x < 0, 1.0, 2.0)
    return pa.table(
        {
            name: pa.array(
                # The first rows show all levels, whatever is missing.
                [
                    None if v != v or (i > 2 and rng.random() < missing) else v
                    for i, v in enumerate(values.tolist())
                ]
            )
            for name, values in columns.items()
        }
    )
