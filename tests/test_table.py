"""Promises 1 and 2 of the design on random tables, and each rule of `encode` and `fill`."""

import datetime as dt
import math
import re
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import tables
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hhvaem.errors import InputError, TableWarning
from hhvaem.inference import infer_schema
from hhvaem.schema import Column, Schema
from hhvaem.table import encode, fill, holes

some = settings(
    max_examples=500, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)
nan = math.nan


@some
@given(st.data(), tables.tables())
def test_fill_keeps_its_promises_on_any_rows(data: st.DataObject, fitted: Any) -> None:
    schema = infer_schema(fitted)
    start = data.draw(st.integers(0, fitted.shape[0] - 1))
    stop = data.draw(st.integers(start, fitted.shape[0]))
    table = data.draw(st.sampled_from([fitted, tables.part(fitted, start, stop)]))
    values = data.draw(tables.fillings(table.shape[0], schema))
    tables.assert_filled(table, schema, values)


@some
@given(st.data(), tables.tables())
def test_encode_gives_the_same_for_what_was_observed_once_filled(
    data: st.DataObject, table: Any
) -> None:
    schema = infer_schema(table)
    values = data.draw(tables.fillings(table.shape[0], schema))
    before = encode(table, schema)
    modelled = [column.modelled for column in schema]
    np.testing.assert_array_equal(before.mask, ~holes(table, schema)[:, modelled])
    np.testing.assert_array_equal(before.mask, ~np.isnan(before.values))
    after = encode(fill(table, schema, values), schema)
    assert after.mask.all()
    np.testing.assert_array_equal(after.values[before.mask], before.values[before.mask])
    np.testing.assert_array_equal(np.signbit(after.values), after.values < 0)


def as_frames(table: pa.Table) -> list[Any]:
    return [table, pl.from_arrow(table), table.to_pandas(types_mapper=pd.ArrowDtype)]


@some
@given(st.data(), tables.portable_tables())
def test_containers_agree(data: st.DataObject, table: pa.Table) -> None:
    schema = infer_schema(table)
    values = data.draw(tables.fillings(table.shape[0], schema))
    reference = encode(table, schema)
    full = fill(table, schema, values).to_pylist()
    for frame in as_frames(table)[1:]:
        assert infer_schema(frame) == schema
        np.testing.assert_array_equal(encode(frame, schema).values, reference.values)
        filled = fill(frame, schema, values)
        arrow = filled.to_arrow() if isinstance(filled, pl.DataFrame) else pa.table(filled)
        assert arrow.to_pylist() == full


# What encode does with tables unlike the one of the schema.

PEOPLE = pa.table({"age": [31, None, 40, 31], "city": ["Rome", "Oslo", None, "Rome"]})
SCHEMA = infer_schema(PEOPLE)


def schema_of(*columns: Column) -> Schema:
    return Schema(columns)


def test_columns_are_matched_by_name_in_any_order() -> None:
    table = pd.DataFrame({"city": ["Oslo"], "age": [3.0]})
    assert encode(table, SCHEMA).values.tolist() == [[3.0, 0.0]]
    assert fill(table, SCHEMA, np.zeros((1, 2))).columns.tolist() == ["city", "age"]


def test_absent_columns_are_named() -> None:
    with pytest.raises(InputError, match=r"lacks 'age', 'city'; add every column"):
        encode(pd.DataFrame({"x": [1.0]}), SCHEMA)


def test_extra_columns_are_named_once_and_passed_through() -> None:
    table = pl.DataFrame({"age": [None], "city": ["Oslo"], "tags": [["a"]], "more": [None]})
    with pytest.warns(TableWarning, match=r"'tags', 'more'") as caught:
        encode(table, SCHEMA)
    assert len(caught) == 1
    full = fill(table, SCHEMA, np.ones((1, 2)))
    assert full.rows() == [(1, "Oslo", ["a"], None)]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            {"age": ["old", None], "city": [None, None]},
            "'age' held numbers .* text .*'old' in row 0",
        ),
        ({"age": [1, 2], "city": [None, 2.5]}, "'city' held text .* numbers .*2.5 in row 1"),
        ({"age": [None, dt.date(2020, 1, 2)], "city": [None, None]}, "'age' .* dates .*2020-01-02"),
        ({"age": [1.0, math.inf], "city": [None, None]}, "'age' has an infinite value in row 1"),
        ({"age": [[1], None], "city": [None, None]}, "'age' has dtype list"),
    ],
)
def test_wrong_types_are_named(table: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        encode(pa.table(table), SCHEMA)
    with pytest.raises(InputError, match=message):
        fill(pa.table(table), SCHEMA, np.zeros((2, 2)))


@pytest.mark.parametrize(
    ("age", "city"),
    [
        (pd.Series([1, 0]), pd.Series(["Oslo", "Rome"], dtype="category")),
        (pd.Series([1.0, 0.0], dtype="float32"), pd.Series(["Oslo", "Rome"], dtype="string")),
        (pd.Series([True, False]), pd.Series(["Oslo", "Rome"], dtype=object)),
    ],
)
def test_numbers_and_texts_are_interchangeable(age: Any, city: Any) -> None:
    table = pd.DataFrame({"age": age, "city": city})
    assert encode(table, SCHEMA).values.tolist() == [[1.0, 0.0], [0.0, 1.0]]


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"age": [None], "city": [nan]}),
        pd.DataFrame({"age": pd.to_datetime([None]), "city": pd.array([None], "Int8")}),
        pl.DataFrame({"age": [None], "city": [None]}),
        pa.table({"age": [None], "city": [None]}),
        pa.table({"age": pa.array([None], pa.string()), "city": pa.array([None], pa.float32())}),
        np.array([[None, nan]], object),
    ],
)
def test_a_column_without_observed_cells_may_have_any_dtype(table: Any) -> None:
    assert not encode(table, SCHEMA).mask.any()
    full = fill(table, SCHEMA, np.array([[7.2, 1.0]]))
    assert [tables.cells(full, i) for i in range(2)] == [[7], ["Rome"]]


def test_unknown_values_are_hidden_counted_and_kept() -> None:
    table = pa.table(
        {
            "age": [-1.0, 2.5, None, 3.0, -4.0],
            "city": ["Bonn", "Rome", "Nice", "Bonn", "Kiel"],
            "flag": ["a", "b", None, "a", "a"],
            "size": [-0.5, 0.0, 2.0, 3.0, None],
        }
    )
    schema = schema_of(
        *SCHEMA.columns,
        Column("flag", "constant", "text", ("a",)),
        Column("size", "positive", upper=2.5),
    )
    with pytest.warns(TableWarning) as caught:
        encoded = encode(table, schema)
    assert len(caught) == 1
    text = str(caught[0].message)
    assert "3 in 'age' (-1, 2.5, -4)" in text
    assert "4 in 'city' ('Bonn', 'Nice', 'Kiel')" in text
    assert "1 in 'flag' ('b')" in text
    assert "2 in 'size' (-0.5, 3)" in text
    assert encoded.mask.tolist() == [
        [False, False, False],
        [False, True, True],
        [False, False, True],
        [True, False, False],
        [False, False, False],
    ]
    full = fill(table, schema, np.ones((5, 3)))
    assert full["age"].to_pylist() == [-1.0, 2.5, 1.0, 3.0, -4.0]
    assert full["city"].to_pylist() == table["city"].to_pylist()
    assert full["flag"].to_pylist() == ["a", "b", "a", "a", "a"]
    assert full["size"].to_pylist() == [-0.5, 0.0, 2.0, 3.0, 1.0]


def test_warnings_point_at_the_caller() -> None:
    # In a process of its own: here the type checker's wrapper is the caller.
    code = (
        "import warnings, pyarrow as pa\n"
        "from hhvaem.inference import infer_schema\n"
        "from hhvaem.table import encode\n"
        "schema = infer_schema(pa.table({'a': [1, 2, 3]}))\n"
        "with warnings.catch_warnings(record=True) as caught:\n"
        "    encode(pa.table({'a': [-1], 'b': [1]}), schema)\n"
        "assert [w.filename for w in caught] == ['<string>'] * 2, caught\n"
    )
    subprocess.run([sys.executable, "-W", "always", "-c", code], check=True)


@pytest.mark.parametrize("table", [pd.DataFrame, pl.DataFrame, pa.table])
def test_no_rows_are_fine(table: Any) -> None:
    empty = table({"age": [], "city": []})
    assert encode(empty, SCHEMA).values.shape == (0, 2)
    assert fill(empty, SCHEMA, np.zeros((0, 2))).shape == (0, 2)


def test_arrays_are_matched_by_position() -> None:
    assert encode(np.array([[4.0, nan]]), SCHEMA).values[0, 0] == 4
    with pytest.raises(InputError, match="array has 3 columns and the model knows 2"):
        encode(np.zeros((1, 3)), SCHEMA)


def test_minus_zero_is_zero() -> None:
    table = np.array([[-0.0], [1.5], [nan]])
    assert not np.signbit(encode(table, infer_schema(table)).values[0, 0])


def test_a_schema_with_no_modelled_column() -> None:
    table = pl.DataFrame({"a": ["x", None]})
    schema = infer_schema(table)
    assert encode(table, schema).values.shape == (2, 0)
    assert fill(table, schema, np.zeros((2, 0)))["a"].to_list() == ["x", "x"]


# What fill writes.

SCHEMA_AB = infer_schema(pa.table({"a": [1, None, 4], "b": ["x", "y", None]})).to_json()


@pytest.mark.parametrize("value", [nan, math.inf])
def test_values_that_are_not_finite_are_named(value: float) -> None:
    values = np.full((4, 2), value)
    values[1, 0] = 3.0
    with pytest.raises(InputError, match="'city' has no finite value to fill row 2"):
        fill(PEOPLE, SCHEMA, values)


def test_values_of_another_form_are_refused() -> None:
    make = "fill(pa.table({'a': [1, None, 4], 'b': ['x', 'y', None]}), SCHEMA, VALUES)"
    make = make.replace("SCHEMA", f"Schema.from_json({SCHEMA_AB!r})")
    cases = {
        "np.zeros((3, 1))": "shape (3, 1), but the table has 3 rows and the schema 2 modelled "
        "columns: 'a', 'b'.",
        "np.zeros((2, 2))": "shape (2, 2)",
        "np.zeros(6)": "shape (6,)",
        "[[0.0, 0.0]] * 3": "a numpy array of floats of shape (3, 2)",
        "pd.DataFrame(np.zeros((3, 2)))": "a numpy array of floats",
        "np.full((3, 2), 'x')": "a numpy array of floats",
        "np.full((3, 2), 2.0)": "'b' has 2 levels and row 2 asks for level 2; levels are given by",
        "np.full((3, 2), -1.0)": "row 2 asks for level -1",
    }
    told = tables.refusals([make.replace("VALUES", values) for values in cases])
    for said, text in zip(cases.values(), told, strict=True):
        assert said in text
        assert not text.startswith(("accepted", "a traceback"))


def test_numbers_of_other_dtypes_are_converted() -> None:
    for dtype in ("float32", "int64", "bool"):
        full = fill(PEOPLE, SCHEMA, np.ones((4, 2), dtype))
        assert full.to_pydict() == {
            "age": [31, 1, 40, 31],
            "city": ["Rome", "Oslo", "Rome", "Rome"],
        }


def test_what_is_no_schema() -> None:
    calls = [
        f"{call}(np.zeros((2, 2)), {schema}{more})"
        for schema in ("None", "'schema'")
        for call, more in (("encode", ""), ("fill", ", np.zeros((2, 2))"))
    ]
    for text in tables.refusals(calls):
        assert text.startswith("`schema` is of type ")


def test_whole_numbers_beyond_floats_are_unknown() -> None:
    schema = schema_of(Column("a", "categorical", "integer", (1, 2, 3)))
    for values in (
        pa.array([2**60, 1, None]),
        pa.array([2**60, 1, None]).dictionary_encode(),
    ):
        table = pa.table({"a": values})
        with pytest.warns(TableWarning, match=f"1 in 'a' .{2**60}."):
            assert encode(table, schema).mask.tolist() == [[False], [True], [False]]
        assert fill(table, schema, np.ones((3, 1)))["a"].to_pylist() == [2**60, 1, 2]


@pytest.mark.parametrize(
    ("column", "values", "level", "dtype"),
    [
        (
            Column("x", "binary", "integer", (-500, 1000)),
            pd.array([1, None], "UInt8"),
            1000,
            "uint8",
        ),
        (
            Column("x", "binary", "integer", (-500, 1000)),
            pl.Series([1, None], dtype=pl.Int8),
            1000,
            "int8",
        ),
        (Column("x", "binary", "integer", (5, 7)), pd.array([True, None], "boolean"), 7, "bool"),
        (Column("x", "constant", "float", (0.5,)), pa.array([1, None], pa.int8()), 0.5, "int8"),
        (
            Column("x", "constant", "float", (0.5,)),
            pd.Series([1, None], dtype=object),
            0.5,
            "int64",
        ),
        (Column("x", "constant", "float", (1e300,)), np.array([1, nan], "f4"), 1e300, "float32"),
        (
            Column("x", "constant", "datetime", (1.0,)),
            pa.array([1, None], pa.timestamp("s")),
            "1970-01-01T00:00:00.000001",
            r"datetime64\[s\]",
        ),
    ],
)
def test_levels_that_a_dtype_cannot_hold(
    column: Column, values: Any, level: Any, dtype: str
) -> None:
    make = {pl.Series: pl.DataFrame, pa.Array: pa.table}
    frame = next((f for kind, f in make.items() if isinstance(values, kind)), pd.DataFrame)
    message = re.escape(f"level {level}") + f", which its dtype {dtype}"
    with pytest.raises(InputError, match=f"'x' is to be filled with its {message} cannot hold"):
        fill(frame({"x": values}), schema_of(column), np.ones((2, int(column.modelled))))


@pytest.mark.parametrize(
    ("column", "dtype", "value", "expected"),
    [
        (Column("x", "count"), "float64", -3.0, 0.0),
        (Column("x", "count"), "Int64", 2.6, 3),
        (Column("x", "positive"), "float64", -3.0, 0.0),
        (Column("x", "real", step=1.0, lower=0.5, upper=3.5), "float64", 9.0, 3.0),
        (Column("x", "real", step=1.0, lower=0.5, upper=3.5), "float64", -9.0, 1.0),
        (Column("x", "real", step=0.25), "float64", 0.3, 0.25),
        (Column("x", "real"), "Int8", 1e9, 127),
        (Column("x", "real"), "UInt8", -1e9, 0),
        (Column("x", "real"), "Int64", 1e300, 2**63 - 1024),
        (Column("x", "real"), "float32", 1e300, np.finfo("f4").max),
        (Column("x", "real"), "float16", -1e300, np.finfo("f2").min),
        (Column("x", "binary", "integer", (1, 2)), "Int64", 1.4, 2),
        (Column("x", "binary", "boolean", (False, True)), "boolean", 0.9, True),
        (Column("x", "binary", "boolean", (False, True)), "float64", 1.0, 1.0),
        (Column("x", "constant", "integer", (7,)), "Int64", 0.0, 7),
    ],
)
def test_filled_numbers_are_legal(column: Column, dtype: str, value: float, expected: Any) -> None:
    table = pd.DataFrame({"x": pd.Series([1, None, 1], dtype=dtype)})
    full = fill(table, schema_of(column), np.full((3, int(column.modelled)), value))
    assert full["x"].dtype == table["x"].dtype
    assert full["x"].tolist() == [1, expected, 1]


@pytest.mark.parametrize("bound", [0.1, 0.3, 0.7, 1 / 3])
def test_bounds_hold_in_single_precision(bound: float) -> None:
    table = np.array([[nan], [nan]], "float32")
    for column, value in (
        (Column("x0", "real", lower=bound), -1.0),
        (Column("x0", "real", upper=bound), 5.0),
    ):
        lower, upper, _ = column.support
        full = fill(table, schema_of(column), np.full((2, 1), value))
        assert lower <= float(full[0, 0]) <= upper
        assert abs(float(full[0, 0]) - bound) < 1e-6


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (pa.timestamp("ns"), 1e300, dt.datetime(2261, 7, 15, 11, 33, 20)),
        (pa.timestamp("us"), 1e300, dt.datetime(9999, 12, 31)),
        (pa.timestamp("s"), 1.6e6, dt.datetime(1970, 1, 1, 0, 0, 2)),
        (pa.date32(), 0.6 * 864e8, dt.date(1970, 1, 2)),
        (pa.date32(), -1e300, dt.date(1, 1, 1)),
        (pa.date64(), 864e8, dt.date(1970, 1, 2)),
    ],
)
def test_filled_dates_are_valid(kind: Any, value: float, expected: Any) -> None:
    table = pa.table({"t": pa.array([None, dt.datetime(2020, 1, 1)], kind)})
    schema = schema_of(Column("t", "datetime", "datetime", step=1.0))
    full = fill(table, schema, np.full((2, 1), value))["t"]
    assert full.cast(pa.timestamp("us"))[0].as_py() == dt.datetime(*expected.timetuple()[:6])
    assert full.type == kind


def test_late_milliseconds_are_exact() -> None:
    table = pa.table({"t": pa.array([None, 0], pa.timestamp("ms"))})
    schema = schema_of(Column("t", "datetime", "datetime", step=1000.0))
    late = 250_000_000_000_001_000.0
    full = fill(table, schema, np.full((2, 1), late))
    assert full["t"].cast(pa.int64())[0].as_py() == round(late / 1000)


def test_zones_are_kept() -> None:
    schema = schema_of(Column("x0", "datetime", "datetime"))
    stamps = pd.Series(pd.to_datetime(["2020-07-01 12:00", None])).dt.tz_localize(tables.ZONE)
    full = fill(pd.DataFrame({"x0": stamps}), schema, np.zeros((2, 1)))
    assert full["x0"][1] == pd.Timestamp("1970-01-01 01:00", tz=tables.ZONE)
    east = dt.timezone(dt.timedelta(hours=2))
    objects = np.array([[dt.datetime(2020, 7, 1, tzinfo=east)], [None]])
    assert (
        encode(objects, schema).values[0, 0]
        == dt.datetime(2020, 6, 30, 22).replace(tzinfo=dt.UTC).timestamp() * 1e6
    )
    filled = fill(objects, schema, np.zeros((2, 1)))[1, 0]
    assert filled.isoformat() == "1970-01-01T02:00:00+02:00"


@pytest.mark.parametrize("hours", [-12, 12])
@pytest.mark.parametrize("value", [-1e300, 1e300])
def test_the_ends_of_time_in_any_zone(hours: int, value: float) -> None:
    zone = dt.timezone(dt.timedelta(hours=hours))
    table = np.array([[dt.datetime(2020, 7, 1, tzinfo=zone)], [None]])
    schema = schema_of(Column("x0", "datetime", "datetime", step=864e8))
    filled = fill(table, schema, np.full((2, 1), value))[1, 0]
    assert filled.tzinfo is zone
    midnight = filled.astimezone(dt.UTC).replace(tzinfo=None)
    assert midnight == (dt.datetime(1, 1, 2) if value < 0 else dt.datetime(9999, 12, 30))


def test_levels_absent_from_a_category_are_added_at_its_end() -> None:
    schema = schema_of(Column("c", "categorical", "text", ("a", "b", "z")))
    values = np.array([[0.0], [0.0], [1.0]])
    pandas = pd.DataFrame({"c": pd.Categorical(["z", None, None], ["z", "y"], ordered=True)})
    full = fill(pandas, schema, values)["c"]
    assert full.tolist() == ["z", "a", "b"]
    assert full.cat.categories.tolist() == ["z", "y", "a", "b"]
    assert full.cat.ordered
    arrow = pa.table({"c": pa.array(["z", None, None]).dictionary_encode()})
    assert fill(arrow, schema, values)["c"].combine_chunks().dictionary.to_pylist() == [
        "z",
        "a",
        "b",
    ]
    enum = pl.DataFrame({"c": pl.Series(["z", None, None], dtype=pl.Enum(["z", "y"]))})
    assert fill(enum, schema, values)["c"].dtype == pl.Enum(["z", "y", "a", "b"])
    assert fill(enum, schema, values)["c"].to_list() == ["z", "a", "b"]


def test_a_category_without_categories() -> None:
    schema = schema_of(Column("c", "categorical", "text", ("a", "b", "z")))
    table = pd.DataFrame({"c": pd.Categorical([None, None])})
    full = fill(table, schema, np.array([[0.0], [2.0]]))["c"]
    assert full.tolist() == ["a", "z"]
    assert isinstance(full.dtype, pd.CategoricalDtype)


NO_CATEGORIES = [
    pd.DataFrame({"c": pd.Categorical([None, None])}),
    pd.DataFrame({"c": pd.array([None] * 2, pd.ArrowDtype(pa.dictionary(pa.int8(), pa.string())))}),
    pl.DataFrame({"c": pl.Series([None, None], dtype=pl.Enum([]))}),
    pl.DataFrame({"c": pl.Series([None, None], dtype=pl.Categorical)}),
    pa.table({"c": pa.array([None, None], pa.dictionary(pa.int8(), pa.string()))}),
]


@pytest.mark.parametrize("table", NO_CATEGORIES)
@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (Column("c", "categorical", "text", ("a", "b", "z")), "b"),
        (Column("c", "binary", "boolean", (False, True)), True),
        (Column("c", "count", "integer"), 1),
        (Column("c", "real"), 1.0),
        (Column("c", "datetime", "datetime", step=1.0), dt.datetime(1970, 1, 1, 0, 0, 0, 1)),
        (Column("c", "constant", "date", (864e8,)), dt.date(1970, 1, 2)),
    ],
)
def test_no_categories_yet(table: Any, column: Column, expected: Any) -> None:
    schema = schema_of(column)
    full = fill(table, schema, np.ones((2, int(column.modelled))))
    assert type(full) is type(table)
    assert tables.cells(full, 0) == [expected] * 2
    assert encode(full, schema).mask.all()


def test_more_levels_than_the_index_type_counts() -> None:
    texts = [f"t{i}" for i in range(128)]
    table = pa.table({"c": pa.array([*texts, None], pa.dictionary(pa.int8(), pa.string()))})
    schema = schema_of(Column("c", "categorical", "text", (*texts, "new")))
    full = fill(table, schema, np.full((129, 1), 128.0))
    assert full["c"].to_pylist() == [*texts, "new"]


@pytest.mark.parametrize(
    "chunks",
    [
        [pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, 2]), pa.array(["b", None, "a"]))],
        [
            pa.DictionaryArray.from_arrays(pa.array([0, None, 0]), pa.array(["b"])),
            pa.DictionaryArray.from_arrays(pa.array([0]), pa.array(["a"])),
        ],
        [
            pa.DictionaryArray.from_arrays(
                pa.array([0, None, 0, 1]), pa.array(["b", "a"], pa.string_view())
            )
        ],
    ],
)
def test_dictionaries_with_nulls_or_chunks(chunks: list[Any]) -> None:
    table = pa.table({"c": pa.chunked_array(chunks)})
    schema = infer_schema(table)
    assert schema["c"].levels == ("b", "a")
    assert fill(table, schema, np.ones((4, 1)))["c"].to_pylist() == ["b", "a", "b", "a"]


@pytest.mark.parametrize(
    ("column", "value", "pandas", "polars"),
    [
        (Column("x", "categorical", "text", ("a", "b", "c")), 1.0, None, pl.String),
        (Column("x", "binary", "boolean", (False, True)), 1.0, "float64", pl.Boolean),
        (Column("x", "count", "integer"), 3.0, "float64", pl.Int64),
        (Column("x", "real"), 3.5, "float64", pl.Float64),
        (Column("x", "datetime", "datetime"), 1e6, "M8[us]", pl.Datetime("us")),
        (Column("x", "datetime", "date"), 864e8, "object", pl.Date),
        (Column("x", "constant", "date", (864e8,)), 0.0, "object", pl.Date),
    ],
)
def test_empty_columns_get_a_natural_dtype(
    column: Column, value: float, pandas: str | None, polars: Any
) -> None:
    schema, values = schema_of(column), np.full((2, int(column.modelled)), value)
    frame = fill(pd.DataFrame({"x": [nan, nan]}, index=["a", "a"]), schema, values)
    assert frame["x"].dtype == (pd.Series(["a"]).dtype if pandas is None else pandas)
    assert frame.index.tolist() == ["a", "a"]
    assert not frame["x"].isna().any()
    full = fill(pl.DataFrame({"x": [None, None]}), schema, values)
    assert full["x"].dtype == polars
    arrow = fill(pa.table({"x": [None, None]}), schema, values)
    assert arrow["x"].to_pylist() == full["x"].to_list()


def test_an_empty_column_of_too_narrow_a_dtype_is_widened() -> None:
    schema = schema_of(Column("x", "real"), Column("y", "real", step=1.0))
    table = pl.DataFrame({"x": [None], "y": [None]}, schema={"x": pl.Boolean, "y": pl.Int8})
    full = fill(table, schema, np.array([[3.5, 3.0]]))
    assert full.schema == {"x": pl.Float64, "y": pl.Int8}
    assert full.rows() == [(3.5, 3)]


@pytest.mark.parametrize(
    "make",
    [
        lambda array: array.view(np.matrix),
        lambda array: array.view(np.memmap),
        lambda array: array.astype(">f8"),
        lambda array: array.astype(">f4"),
    ],
)
def test_arrays_of_all_makes(make: Any) -> None:
    table = make(np.array([[1.5, nan], [2.0, 3.0], [4.0, 5.0]]))
    schema = infer_schema(table)
    np.testing.assert_array_equal(encode(table, schema).values, np.asarray(table))
    full = fill(table, schema, np.full((3, 2), 7.0))
    assert full.dtype == table.dtype
    assert full.tolist() == [[1.5, 7.0], [2.0, 3.0], [4.0, 5.0]]


def test_byte_swapped_dates_and_frames() -> None:
    table = np.array([["2020-01-01"], ["NaT"]], ">M8[s]")
    assert not np.isnat(fill(table, infer_schema(table), np.zeros((2, 0)))).any()
    frame = pd.DataFrame({"a": np.array([1.5, nan, 2.5], ">f4")})
    assert fill(frame, infer_schema(frame), np.zeros((3, 1)))["a"].tolist() == [1.5, 0.0, 2.5]


def test_an_array_of_floats_cannot_hold_text() -> None:
    with pytest.raises(InputError, match=r"'city' is to be filled with text, .* dtype object"):
        fill(np.array([[3.0, nan]]), SCHEMA, np.zeros((1, 2)))


def test_polars_categories_of_all_tables() -> None:
    dtype = pl.Categorical
    table = pl.DataFrame({"c": pl.Series(["b", None, "a"], dtype=dtype)})
    full = fill(table, infer_schema(table), np.zeros((3, 1)))
    assert full["c"].to_list() == ["b", "a", "a"]
    assert full["c"].dtype == table["c"].dtype


def test_ignored_columns_may_hold_anything() -> None:
    table = pd.DataFrame({"a": [1.0, nan, 2.5], "b": [[1], None, {2: 3}]})
    schema = infer_schema(table, kinds={"b": "ignored"})
    full = fill(table, schema, np.ones((3, 1)))
    assert full["b"].tolist() == [[1], None, {2: 3}]
    assert full["a"].tolist() == [1.0, 1.0, 2.5]


def test_works_where_neither_pandas_nor_polars_is_installed() -> None:
    code = (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(name, path=None, target=None):\n"
        "        if name in ('pandas', 'polars'): raise ImportError(name)\n"
        "sys.meta_path.insert(0, Absent)\n"
        "import numpy as np, pyarrow as pa\n"
        "from hhvaem import files, inference, table\n"
        "arrow = pa.table({'a': [1.5, None, 2.0], 'b': ['x', None, 'y']})\n"
        "for data in (arrow, np.array([[1.5, 'x'], [None, None], [2.0, 'y']], object)):\n"
        "    schema = inference.infer_schema(data)\n"
        "    table.encode(data, schema); table.fill(data, schema, np.ones((3, 2)))\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_no_other_warnings() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for frame in as_frames(PEOPLE):
            fill(frame, SCHEMA, np.array([[1e308, 1.0]] * 4))
    assert not caught
