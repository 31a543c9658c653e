"""Random tables with holes in all containers, and how to look at one without the library."""

import datetime as dt
import json
import math
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from hypothesis import strategies as st

from hhvaem.schema import LEVELLED, Column, Schema
from hhvaem.table import fill, holes

LEVELS = ["low", "mid", "top", "ÿ", ""]
ZONE = "Europe/Paris"
EPOCH = dt.datetime(1970, 1, 1)

_text = st.sampled_from(LEVELS)
_real = st.floats(allow_nan=False, allow_infinity=False)
_single = st.floats(allow_nan=False, allow_infinity=False, width=32)
_half = st.floats(allow_nan=False, allow_infinity=False, width=16)
_whole = st.integers(1 - 2**53, 2**53 - 1)  # what float64 tells apart
_small = st.integers(-128, 127)
_time = st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1))
_second = _time.map(lambda value: value.replace(microsecond=0))
_date = st.dates(dt.date(1700, 1, 1), dt.date(2200, 1, 1))


def _utc(values: list[Any]) -> list[Any]:
    return [value and value.replace(tzinfo=dt.UTC) for value in values]


def _pandas(dtype: Any):
    return lambda values: pd.Series(pd.array(values, dtype=dtype))


def _numpy(dtype: str):
    return lambda values: pd.Series(np.array([np.nan if v is None else v for v in values], dtype))


def _category(categories: list[Any], *, ordered: bool):
    return lambda values: pd.Series(pd.Categorical(values, categories, ordered=ordered))


def _stamps(unit: str, zone: str | None = None):
    def make(values: list[Any]) -> pd.Series:
        naive = pd.Series(np.array(values, "M8[us]")).dt.as_unit(unit)
        return naive.dt.tz_localize("UTC").dt.tz_convert(zone) if zone else naive

    return make


def _arrow(kind: Any):
    return lambda values: pa.array(values, kind)


def _ranked(values: list[Any]) -> pa.Array:
    """Put levels in the order in which they come; not by pyarrow, which learned it late."""
    levels = list(dict.fromkeys(value for value in values if value is not None))
    index = pa.array([None if v is None else levels.index(v) for v in values], pa.int32())
    return pa.DictionaryArray.from_arrays(index, pa.array(levels, pa.large_string()), ordered=True)


def _polars(dtype: Any):
    return lambda values: pl.Series(values, dtype=dtype)


_objects = _numpy("object")
PANDAS = {
    "float64": (_real, _numpy("float64")),
    "float32": (_single, _numpy("float32")),
    "float16": (_half, _numpy("float16")),
    "whole floats": (_small, _numpy("float64")),
    "int64 full": (st.none() | _whole, lambda v: pd.Series([x or 0 for x in v], dtype="int64")),
    "Int64": (_whole, _pandas("Int64")),
    "Int8": (_small, _pandas("Int8")),
    "UInt8": (st.integers(0, 255), _pandas("UInt8")),
    "Float32": (_single, _pandas("Float32")),
    "boolean": (st.booleans(), _pandas("boolean")),
    "string": (_text, _pandas("string")),
    "python strings": (_text, _pandas("string[python]")),
    "objects text": (_text, _objects),
    "objects None": (_text, lambda v: pd.Series(v, dtype=object)),
    "objects int": (_small, _objects),
    "objects bool": (st.booleans(), _objects),
    "objects date": (_date, _objects),
    "objects time": (_time, _objects),
    "category": (_text, _category(LEVELS, ordered=False)),
    "ordered": (_text, _category(LEVELS[::-1], ordered=True)),
    "int category": (st.integers(1, 3), _category([3, 2, 1], ordered=True)),
    "datetime us": (_time, _stamps("us")),
    "datetime ns": (_time, _stamps("ns")),
    "datetime s": (_second, _stamps("s")),
    "datetime zone": (_time, _stamps("us", ZONE)),
    "datetime zone ns": (_time, _stamps("ns", ZONE)),
    "arrow int": (_small, _pandas(pd.ArrowDtype(pa.int8()))),
    "arrow text": (_text, _pandas(pd.ArrowDtype(pa.string()))),
    "arrow date": (_date, _pandas(pd.ArrowDtype(pa.date32()))),
    "arrow dictionary": (
        _text,
        _pandas(pd.ArrowDtype(pa.dictionary(pa.int8(), pa.string()))),
    ),
}
POLARS = {
    "Float64": (_real, _polars(pl.Float64)),
    "Float32": (_single, _polars(pl.Float32)),
    "NaN": (_real, lambda v: pl.Series([math.nan if x is None else x for x in v])),
    "Int64": (_whole, _polars(pl.Int64)),
    "Int8": (_small, _polars(pl.Int8)),
    "UInt16": (st.integers(0, 2**16 - 1), _polars(pl.UInt16)),
    "Boolean": (st.booleans(), _polars(pl.Boolean)),
    "String": (_text, _polars(pl.String)),
    "Categorical": (_text, _polars(pl.Categorical)),
    "Enum": (_text, _polars(pl.Enum(LEVELS))),
    "Date": (_date, _polars(pl.Date)),
    "Datetime": (_time, _polars(pl.Datetime("us"))),
    "Datetime ns": (_time, _polars(pl.Datetime("ns"))),
    "Datetime zone": (_second, lambda v: pl.Series(_utc(v), dtype=pl.Datetime("ms", ZONE))),
    "Null": (st.none(), _polars(pl.Null)),
}
ARROW = {
    "float64": (_real, _arrow(pa.float64())),
    "float32": (_single, _arrow(pa.float32())),
    "float16": (_half, lambda v: pa.array([x if x is None else np.float16(x) for x in v])),
    "int64": (_whole, _arrow(pa.int64())),
    "int8": (_small, _arrow(pa.int8())),
    "uint64": (st.integers(0, 2**53 - 1), _arrow(pa.uint64())),
    "bool": (st.booleans(), _arrow(pa.bool_())),
    "string": (_text, _arrow(pa.string())),
    "large_string": (_text, _arrow(pa.large_string())),
    "string_view": (_text, _arrow(pa.string_view())),
    "dictionary": (_text, _arrow(pa.dictionary(pa.int8(), pa.string()))),
    "ordered": (_text, _ranked),
    "int dictionary": (_small, _arrow(pa.dictionary(pa.uint8(), pa.int16()))),
    "timestamp s": (_second, _arrow(pa.timestamp("s"))),
    "timestamp ns": (_time, _arrow(pa.timestamp("ns"))),
    "timestamp zone": (_time, lambda v: pa.array(_utc(v), pa.timestamp("us", ZONE))),
    "date32": (_date, _arrow(pa.date32())),
    "date64": (_date, _arrow(pa.date64())),
    "null": (st.none(), _arrow(pa.null())),
}
# The same values with the same storage in all three kinds of frames.
PORTABLE = {
    "float": (_real, _arrow(pa.float64())),
    "int": (_whole, _arrow(pa.int64())),
    "bool": (st.booleans(), _arrow(pa.bool_())),
    "text": (_text, _arrow(pa.string())),
    "time": (_time, _arrow(pa.timestamp("us"))),
    "date": (_date, _arrow(pa.date32())),
}


@st.composite
def _columns(draw: Any, makers: dict[str, Any]) -> dict[str, Any]:
    rows = draw(st.integers(1, 7))
    names = draw(st.lists(st.sampled_from(sorted(makers)), min_size=1, max_size=5, unique=True))
    columns = {}
    for name in names:
        cells, make = makers[name]
        values = draw(st.lists(st.none() | cells, min_size=rows, max_size=rows))
        columns[name] = make(values)
    return columns


@st.composite
def pandas_tables(draw: Any) -> pd.DataFrame:
    columns = draw(_columns(PANDAS))
    table = pd.DataFrame(columns)
    if draw(st.booleans()):
        table.columns = range(len(columns))
    index = draw(st.sampled_from(["range", "text", "repeated"]))
    if index != "range":
        table.index = pd.Index([f"r{i % (2 if index == 'repeated' else 99)}" for i in table.index])
    table.attrs["origin"] = "tests"
    return table


def polars_tables() -> st.SearchStrategy[pl.DataFrame]:
    return _columns(POLARS).map(pl.DataFrame)


def arrow_tables() -> st.SearchStrategy[pa.Table]:
    return _columns(ARROW).map(lambda c: pa.table(c).replace_schema_metadata({"origin": "tests"}))


def portable_tables() -> st.SearchStrategy[pa.Table]:
    return _columns(PORTABLE).map(pa.table)


@st.composite
def arrays(draw: Any) -> np.ndarray:
    rows, width = draw(st.integers(1, 7)), draw(st.integers(1, 4))
    dtype = draw(st.sampled_from(["float64", "float32", "object"]))
    if dtype == "object":
        kinds = draw(
            st.lists(st.sampled_from([_text, _real, _time]), min_size=width, max_size=width)
        )
    else:
        kinds = [_single] * width
    hole = st.just(math.nan) | (st.none() if dtype == "object" else st.nothing())
    columns = [draw(st.lists(hole | kind, min_size=rows, max_size=rows)) for kind in kinds]
    table = np.empty((rows, width), dtype)
    for i, column in enumerate(columns):
        table[:, i] = column
    return table


def tables() -> st.SearchStrategy[Any]:
    return pandas_tables() | polars_tables() | arrow_tables() | arrays()


def fillings(rows: int, schema: Schema) -> st.SearchStrategy[np.ndarray]:
    """Levels, and finite values of all sizes, as no model should propose them."""
    numbers = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-3, 6).map(float)
    columns = [
        st.lists(
            st.floats(0, len(column.levels) - 1) if column.kind in LEVELLED else numbers,
            min_size=rows,
            max_size=rows,
        )
        for column in schema.modelled
    ]
    return st.tuples(*columns).map(lambda drawn: np.array(drawn).reshape(len(columns), rows).T)


def names(table: Any) -> list[Any]:
    if isinstance(table, np.ndarray):
        return list(range(table.shape[1]))
    return list(table.column_names if isinstance(table, pa.Table) else table.columns)


def cells(table: Any, i: int) -> list[Any]:
    """The values of a column, as the container itself gives them."""
    if isinstance(table, pd.DataFrame):
        return list(table.iloc[:, i])
    if isinstance(table, pl.DataFrame):
        return table.to_series(i).to_list()
    return table.column(i).to_pylist() if isinstance(table, pa.Table) else list(table[:, i])


def is_hole(value: Any) -> bool:
    return bool(pd.isna(value))


def exact(value: Any) -> tuple[type, str]:
    """A value and its type, to the last bit: printing floats is exact, also of -0.0."""
    return type(value), repr(value)


def snapshot(table: Any) -> list[list[tuple[type, str]]]:
    return [[exact(value) for value in cells(table, i)] for i in range(len(names(table)))]


def form(table: Any) -> Any:
    """Everything of a container but its cells."""
    if isinstance(table, pd.DataFrame):
        shape = (table.index.tolist(), table.index.dtype, table.columns.tolist())
        return (*shape, table.dtypes.tolist(), table.attrs)
    if isinstance(table, pl.DataFrame):
        return table.schema
    if isinstance(table, pa.Table):
        return table.schema, table.schema.metadata
    return table.dtype, table.shape


def number(value: Any) -> float:
    """A cell as a number; dates in microseconds."""
    if isinstance(value, pd.Timestamp):
        return float(value.to_datetime64().astype("M8[us]").astype(np.int64))
    if isinstance(value, dt.date):
        moment = dt.datetime.fromisoformat(value.isoformat())
        return (moment.replace(tzinfo=None) - (moment.utcoffset() or EPOCH - EPOCH) - EPOCH) / (
            dt.timedelta(microseconds=1)
        )
    return float(value)


def is_legal(column: Column, value: Any) -> bool:
    if column.kind in LEVELLED or (column.kind == "constant" and not column.step):
        if column.kind == "constant" and column.storage in ("datetime", "date"):
            return number(value) == column.levels[0]
        return value in column.levels
    cell = number(value)
    lower, upper, step = column.support
    on_step = step is None or (np.rint(cell / step) * step == cell)
    return math.isfinite(cell) and lower <= cell <= upper and bool(on_step)


def assert_filled(table: Any, schema: Schema, values: np.ndarray) -> Any:
    """Fill a table with any values, and see that promises 1 and 2 are kept."""
    before, before_form = snapshot(table), form(table)
    full = fill(table, schema, values)
    assert type(full) is type(table)
    assert form(full) == before_form
    assert snapshot(table) == before
    assert form(table) == before_form
    where = holes(table, schema)
    for i, column in enumerate(schema):
        for row, (was, now) in enumerate(zip(cells(table, i), cells(full, i), strict=True)):
            hole = is_hole(was) and column.kind != "ignored"
            assert where[row, i] == hole
            if hole:
                assert not is_hole(now)
                assert is_legal(column, now), (column, now)
            else:
                assert exact(now) == exact(was)
    return full


def part(table: Any, start: int, stop: int) -> Any:
    """Some rows of a table, without a copy where its container can do that."""
    if isinstance(table, pa.Table):
        return table.slice(start, stop - start)
    return table.iloc[start:stop] if isinstance(table, pd.DataFrame) else table[start:stop]


_REFUSALS = """
import dataclasses, json, sys
import numpy as np, pandas as pd, polars as pl, pyarrow as pa
from hhvaem import *

def told(expression):
    try:
        return f"accepted: {eval(expression)!r}"
    except InputError as error:
        return str(error)
    except BaseException as error:
        return f"a traceback: {error!r}"

print(json.dumps([told(expression) for expression in json.load(sys.stdin)]))
"""


def refusals(expressions: Sequence[str]) -> list[str]:
    """What is said to arguments of wrong types, where no type checker of the tests refuses them."""
    done = subprocess.run(
        [sys.executable, "-c", _REFUSALS],
        input=json.dumps(expressions), capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(done.stdout)
