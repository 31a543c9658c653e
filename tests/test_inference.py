"""Each rule of `infer_schema`, each note and each refusal."""

import datetime as dt
import decimal
import math
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
import tables

from hhvaem.errors import InputError
from hhvaem.inference import infer_schema
from hhvaem.schema import Column
from hhvaem.table import fill

nan = math.nan
DAY, HOUR, MINUTE, SECOND, MILLI = 864e8, 36e8, 6e7, 1e6, 1e3


def column(values: Any, kind: str | None = None) -> Column:
    """What a pandas column is taken for."""
    return infer_schema(pd.DataFrame({"c": values}), kinds={"c": kind} if kind else None)["c"]


def refusal(values: Any, kind: str | None = None) -> str:
    with pytest.raises(InputError) as caught:
        column(values, kind)
    text = str(caught.value)
    assert "'c'" in text
    assert text.endswith(".")
    assert "\n" not in text
    return text


# Missing cells and degenerate columns.


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"c": pd.Series([1.5, nan, -2.0])}),
        pd.DataFrame({"c": pd.Series([1.5, None, -2.0], dtype=object)}),
        pd.DataFrame({"c": pd.Series([1.5, pd.NA, -2.0], dtype="Float64")}),
        pd.DataFrame({"c": pd.Series([1.5, pd.NA, -2.0], dtype=object)}),
        pd.DataFrame({"c": pd.Series([1.5, pd.NaT, -2.0], dtype=object)}),
        pl.DataFrame({"c": [1.5, None, -2.0]}),
        pl.DataFrame({"c": [1.5, nan, -2.0]}),
        pa.table({"c": [1.5, None, -2.0]}),
        pa.table({"c": [1.5, nan, -2.0]}),
        np.array([[1.5], [nan], [-2.0]]),
        np.array([[1.5], [None], [-2.0]], object),
    ],
)
def test_every_sign_of_a_missing_cell(table: Any) -> None:
    (found,) = infer_schema(table)
    assert (found.kind, found.storage, found.step, found.note) == ("real", "float", None, "")


@pytest.mark.parametrize("values", [[1.0, math.inf], [1.0, -math.inf], [1, 10**400]])
def test_infinity_is_refused_by_row(values: list[Any]) -> None:
    assert "infinite value in row 1" in refusal(pd.Series(values, dtype=object))


@pytest.mark.parametrize(
    "values",
    [
        pd.Series([1, 2**53], dtype="int64"),
        pd.Series([1, 2**53 + 1], dtype="int64"),
        pd.Series([None, -(2**60)], dtype="Int64"),
        pd.Series([None, 2**70], dtype=object),
        pd.Categorical([1, 2**60]),
        pd.array([1, 2**60], pd.ArrowDtype(pa.dictionary(pa.int8(), pa.int64()))),
    ],
)
def test_whole_numbers_that_floats_cannot_tell_apart_are_refused(values: Any) -> None:
    text = refusal(values)
    assert "holds a whole number beyond 2^53 in row 1, and these cannot be told apart" in text
    assert "convert it to floats or text, or pass it through with kinds={'c': 'ignored'}" in text
    assert column(values, "ignored").kind == "ignored"
    assert column([1, 2**53 - 1]).kind == "count"


FAR = 2**62


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"c": np.array(["NaT", 2 * 10**13], "M8[s]")}),
        pd.DataFrame({"c": pd.Series([None, np.datetime64(-(10**13), "s")], dtype=object)}),
        pa.table({"c": pa.array([None, FAR], pa.timestamp("ms"))}),
        pa.table({"c": pa.array([0, FAR], pa.timestamp("s", "UTC"))}),
        pa.table({"c": pa.array([0, 2**30], pa.date32())}),
        pa.table({"c": pa.array([0, FAR // 86_400_000 * 86_400_000], pa.date64())}),
    ],
)
def test_dates_beyond_microseconds_are_refused(table: Any) -> None:
    with pytest.raises(InputError, match="'c' has a date in row 1 that is further from 1970"):
        infer_schema(table)


def test_late_dates() -> None:
    late = np.array(["NaT", 10**12, 10**12], "M8[s]")
    table = pd.DataFrame({"c": late})
    schema = infer_schema(table)
    assert schema["c"].levels == (1e18,)
    full = fill(table, schema, np.zeros((3, 0)))
    assert full["c"].to_numpy().tolist() == late[[1, 1, 1]].tolist()
    with pytest.raises(InputError, match=r"'c' .* level 33658-09-27T.* dtype object cannot hold"):
        fill(np.array([[None], [dt.datetime(2020, 1, 1)]]), schema, np.zeros((2, 0)))


@pytest.mark.parametrize(
    "values", [[nan, nan], [None, None], pd.Series([None, None], dtype="string")]
)
def test_empty_columns_are_passed_through(values: Any) -> None:
    found = column(values)
    assert (found.kind, found.storage, found.treatment) == ("ignored", "none", "passed through")
    assert found.note.startswith("empty")
    assert "'real' was asked for and not used" in column(values, "real").note


@pytest.mark.parametrize(
    ("values", "storage", "level"),
    [
        ([3, 3, 3], "integer", 3),
        ([2.5, nan, 2.5], "float", 2.5),
        (["a", None], "text", "a"),
        ([True, True], "boolean", True),
        ([dt.date(1970, 1, 2), None], "date", DAY),
        (pd.to_datetime(["1970-01-01 01:00", None]), "datetime", HOUR),
    ],
)
def test_constant_columns(values: Any, storage: str, level: Any) -> None:
    found = column(values)
    assert (found.kind, found.storage, found.levels) == ("constant", storage, (level,))
    assert type(found.levels[0]) is type(level)
    assert found.note.startswith("constant")
    assert "'real' was asked for and not used" in column(values, "real").note
    assert column(values, "ignored").kind == "ignored"


# Kinds.

ORDERED = pd.Categorical(["lo", "hi", None, "mid"], ["lo", "mid", "hi", "top"], ordered=True)
UNORDERED = pd.Categorical(["z", "a", "m", "a"], ["z", "m", "unused", "a"])


@pytest.mark.parametrize(
    ("values", "kind", "storage", "levels"),
    [
        ([True, False, None], "binary", "boolean", (False, True)),
        (pd.Series([True, None, False], dtype="boolean"), "binary", "boolean", (False, True)),
        (["b", "a", "b"], "binary", "text", ("a", "b")),
        (["b", "c", "a", "b"], "categorical", "text", ("a", "b", "c")),
        (ORDERED, "ordinal", "text", ("lo", "mid", "hi")),
        (ORDERED[:2], "binary", "text", ("lo", "hi")),
        (UNORDERED, "categorical", "text", ("z", "m", "a")),
        (pd.Categorical([3, 1, 2, 1], [3, 2, 1]), "categorical", "integer", (3, 2, 1)),
        (pd.Categorical([1.5, 2.5, 0.5]), "categorical", "float", (0.5, 1.5, 2.5)),
        (pd.Categorical([True, False]), "binary", "boolean", (False, True)),
        ([0, 1], "binary", "integer", (0, 1)),
        ([0.0, 1.0, nan], "binary", "float", (0.0, 1.0)),
        ([3, 7, 3, 7], "binary", "integer", (3, 7)),
        ([-1.5, 2.5, -1.5, 2.5], "binary", "float", (-1.5, 2.5)),
    ],
)
def test_levels(values: Any, kind: str, storage: str, levels: tuple[Any, ...]) -> None:
    found = column(values)
    assert (found.kind, found.storage, found.levels) == (kind, storage, levels)
    assert [type(level) for level in found.levels] == [type(level) for level in levels]
    assert found.step is found.lower is None


@pytest.mark.parametrize(
    ("values", "kind", "storage", "step", "lower"),
    [
        ([3, 7, 3], "count", "integer", 1.0, 0.0),
        ([0, 1, 2], "count", "integer", 1.0, 0.0),
        ([0.0, 1.0, 2.0, nan], "count", "float", 1.0, 0.0),
        ([0, 2], "count", "integer", 1.0, 0.0),
        ([0.0, 1.5, 2.0], "positive", "float", None, 0.0),
        ([-1, 0, 1], "real", "integer", 1.0, None),
        ([-1.0, 0.5, 1.0], "real", "float", None, None),
        (pd.Series([1, 2, None], dtype="Int8"), "count", "integer", 1.0, 0.0),
        (pd.Series([1, 2.5, None], dtype=object), "positive", "float", None, 0.0),
    ],
)
def test_numbers(values: Any, kind: str, storage: str, step: Any, lower: Any) -> None:
    found = column(values)
    assert (found.kind, found.storage, found.step, found.lower) == (kind, storage, step, lower)
    assert found.levels == ()


@pytest.mark.parametrize(
    ("texts", "step"),
    [
        (["2020-01-01", "2020-01-05"], DAY),
        (["2020-01-01", "2020-01-05 06:00"], HOUR),
        (["2020-01-01", "2020-01-05 06:01"], MINUTE),
        (["2020-01-01", "1960-01-05 06:01:07"], SECOND),
        (["2020-01-01", "2020-01-05 06:01:07.123"], MILLI),
        (["2020-01-01", "2020-01-05 06:01:07.123456"], 1.0),
    ],
)
def test_steps_of_time(texts: list[str], step: float) -> None:
    found = column(np.array([*texts, "NaT"], "M8[us]"))
    assert (found.kind, found.storage, found.step) == ("datetime", "datetime", step)


def test_dates_in_all_forms() -> None:
    days = [dt.date(2020, 1, 1), None, dt.date(2020, 1, 5)]
    times = [dt.datetime(2020, 1, 1), None, dt.datetime(2020, 1, 5, 6)]
    date, time = ("datetime", "date", DAY), ("datetime", "datetime", HOUR)
    expected = {"d": date, "t": time, "both": time}
    frame = pd.DataFrame({"d": days, "t": times, "both": [days[0], None, times[2]]}, dtype=object)
    for table in (
        frame,
        pl.DataFrame({"d": days, "t": times}),
        pa.table({"d": days, "t": times}),
        pd.DataFrame({"t": pd.to_datetime(times).tz_localize("UTC").tz_convert("Asia/Tokyo")}),
    ):
        for found in infer_schema(table):
            assert (found.kind, found.storage, found.step) == expected[found.name]


def test_polars_and_arrow_categories() -> None:
    texts = ["b", None, "a", "c"]
    table = pl.DataFrame(
        {
            "categorical": pl.Series(texts, dtype=pl.Categorical),
            "enum": pl.Series(texts, dtype=pl.Enum(["x", "c", "b", "a"])),
        }
    )
    schema = infer_schema(table)
    assert schema["categorical"].levels == ("a", "b", "c")
    assert schema["enum"].levels == ("c", "b", "a")
    assert [found.kind for found in schema] == ["categorical", "categorical"]
    assert infer_schema(table, {"enum": "ordinal"})["enum"].kind == "ordinal"
    codes, words = pa.array([0, None, 1, 2]), pa.array(["b", "a", "c"])
    for ordered, kind in ((True, "ordinal"), (False, "categorical")):
        array = pa.DictionaryArray.from_arrays(codes, words, ordered=ordered)
        (found,) = infer_schema(pa.table({"c": array}))
        assert (found.kind, found.levels) == (kind, ("b", "a", "c"))


# Notes and refusals of text.


def test_identifiers_are_refused_with_the_ways_out() -> None:
    text = refusal([f"k{i}" for i in range(21)])
    assert "21 levels in 21 observed cells" in text
    assert "identifier or free text" in text
    for way in ("drop it", "kinds={'c': 'ignored'}", "kinds={'c': 'categorical'}"):
        assert way in text
    assert "read as" not in text


def test_where_text_becomes_an_identifier() -> None:
    levels = [f"k{i}" for i in range(21)]
    assert column(levels[:20]).kind == "categorical"
    assert column(levels * 2).kind == "categorical"
    assert "21 levels in 41" in refusal([*levels, *levels[1:]])
    many = [f"k{i}" for i in range(257)]
    text = refusal(many * 3)
    assert "257 levels" in text
    assert "identifier" not in text
    assert column(many[1:] * 3).kind == "categorical"
    assert len(column(many, "categorical").levels) == 257
    assert column(many, "ignored").kind == "ignored"


@pytest.mark.parametrize(
    ("texts", "what"),
    [
        ([f"{i}.5" for i in range(30)], "numbers"),
        ([f"-{i},5e3" for i in range(30)] + ["?"], "numbers"),
        ([f"2020-01-{i:02}" for i in range(1, 31)] + ["NA"], "dates"),
        ([f"2020-01-01T{i:02}:00:00" for i in range(24)], "dates"),
        ([f"{i:02}/12/2020" for i in range(1, 31)], "dates"),
        ([f"{i}%" for i in range(30)], "numbers"),
    ],
)
def test_text_that_reads_as_something_else(texts: list[str], what: str) -> None:
    assert f"its texts read as {what}: convert it to {what}, " in refusal(texts)


def test_marks_that_alone_keep_numbers_from_being_numbers_are_named() -> None:
    numbers = [f"{i}.5" for i in range(30)]
    assert (
        "its texts read as numbers: convert it to numbers, or, if '?' marks what is missing, make "
        "it missing (on the command line: --missing), or drop it"
    ) in refusal([*numbers, "?"])
    assert "or, if '-' and '?' mark what is missing, make them missing" in refusal(
        [*numbers, "?", "-"]
    )


def test_dates_say_how_they_are_written() -> None:
    texts = [f"{i:02}.08.2021" for i in range(1, 31)]
    assert "convert it to dates, written as 2021-08-02 in a CSV file, or drop it" in refusal(texts)


def test_texts_that_keep_numbers_from_being_numbers_are_named() -> None:
    numbers = [f"{i}.5" for i in range(30)]
    assert (
        "its texts read as numbers but for 'k.A.': if these mark missing values, make them missing "
        "(on the command line: --missing) and convert it to numbers; else drop it, pass it through"
    ) in refusal([*numbers, "k.A.", "?"])
    assert "read as" not in refusal([*numbers, "red", "green", "blue", "grey"])


def test_decimal_commas_are_named() -> None:
    texts = [f"{i},5" for i in range(30)]
    assert "convert it to numbers, with a point for each decimal comma, or" in refusal(texts)


@pytest.mark.parametrize(
    ("texts", "note"),
    [
        (["1.5", "2", "2", "1.5"], "its texts read as numbers; if they are, convert it to numbers"),
        (["1.5", "?", "2", "2", "?", "1.5"], "; its texts read as numbers"),
        (["2020-01-01", "2020-01-02"] * 2, "its texts read as dates; if they are, convert it"),
        (["01/02/2020", "31/12/2020"], "its texts read as dates; if they are, convert it to dates"),
        (["01.02.2020", "31.12.2020 12:30"], "its texts read as dates"),
        (["12/31/2020", "1/2/2020"], "its texts read as dates"),
        (["31-12-2020", "01-02-2020", "?"], "its texts read as dates"),
        (["5%", "12.5 %", "-3%"], "its texts read as numbers"),
        (["1.234,50", "12.345.678", "-1.000"], "its texts read as numbers"),
        (["1,234.50", "12", "0.5"], "its texts read as numbers"),
        (["1 234", "12 345,6"], "its texts read as numbers"),
        (["1'234", "0", "0,5"], "its texts read as numbers"),
    ],
)
def test_text_that_reads_as_something_else_gets_a_note(texts: list[str], note: str) -> None:
    assert note in column(texts).note
    assert column([*texts, "other", "other"]).note.count("read as") == 0


@pytest.mark.parametrize(
    "texts",
    [
        ["01234", "12345", "99999"],
        ["01230101", "20200101", "20200202"],
        ["007", "-01"],
        ["32/13/2020", "01/02/2020"],
        ["13/13/2020", "01/02/2020"],
        ["01/02", "03/04"],
        ["12,34.5,6", "1"],
        ["1.23.456", "2.34.567"],
        ["%", "5%"],
    ],
)
def test_codes_and_other_texts_are_not_told_to_be_converted(texts: list[str]) -> None:
    assert "read as" not in column(texts * 2).note


@pytest.mark.parametrize(
    ("values", "marks"),
    [
        ([*range(18, 91), -999, -999, -999], "-999"),
        ([*range(18, 91), *[9999] * 3], "9999"),
        ([*np.linspace(36, 41, 60), *[99.9] * 5], "99.9"),
        ([*range(0, 50_000, 7), *[-99] * 3], "-99"),
        ([*[1, 2, 3, 4] * 5, *[-9] * 3], "-9"),
        ([*[0, 1] * 9, *[-999] * 3], "-999"),
        ([*range(40), *[1e20] * 3], "1e+20"),
        ([*range(40), *[-99] * 3, *[9999999] * 3], "-99 and 9999999"),
    ],
)
def test_numbers_that_mark_missing_values_get_a_note(values: list[float], marks: str) -> None:
    said = f"{marks}, apart from all others, often marks a missing value; if so, make it missing"
    assert column(values).note.startswith(said)


@pytest.mark.parametrize(
    "values",
    [
        [*range(18, 91), -999, -999],
        [0, 1, 3] * 5,
        [1, 2, 10] * 5,
        [*range(1, 100), *[99] * 9],
        [*range(20_000, 40_000, 50), *[0] * 9],
        [*range(1000, 1005), *[0] * 9],
        [*range(-50, 50), *[-60] * 5],
        [5.0, 9.5, 9.5, 9.5],
        [*[0.6] * 9, *np.geomspace(0.7, 90, 50)],
        pd.to_datetime(["2020-01-01", "2020-01-02", *["1900-01-01"] * 5]),
    ],
)
def test_numbers_that_mark_nothing_get_no_note(values: Any) -> None:
    assert column(values).note == ""


def test_texts_without_repeats_get_a_note() -> None:
    assert "kinds={'c': 'ignored'}" in column(["a", "b", "d"]).note
    assert column(["a", "b", "d", "a"]).note == ""


@pytest.mark.parametrize(
    "marker", ["", "NA", " n/a ", "NaN", "null", "None", "?", "-", "Missing", "unknown"]
)
def test_markers_of_missing_values_get_a_note(marker: str) -> None:
    found = column(["a", marker, "b", "a", marker, "b"])
    assert marker in found.levels
    assert found.note.startswith(f"{marker!r} often marks a missing value")


def test_row_numbers_get_a_note() -> None:
    rows = np.arange(5, 25)
    assert "looks like a row number; kinds={'c': 'ignored'}" in column(rows[::-1].copy()).note
    assert column(rows).kind == "count"
    for other in (rows[:-1], rows * 2, np.append(rows, 5), rows.astype(float)):
        assert column(other).note == ""


def test_numbers_that_look_like_identifiers_get_a_note() -> None:
    codes = 100_000 + 37 * np.arange(25) ** 2
    note = column(codes[::-1].copy()).note
    assert "no number occurs twice" in note
    assert "kinds={'c': 'ignored'} leaves them out" in note
    for other in (codes[:19], np.append(codes, 1_000_000), np.append(codes, codes[0]), codes / 2):
        assert column(other).note == ""


def test_levels_with_decimal_commas_get_a_note() -> None:
    note = column(["12,5", "13,0", "12,5", "13,0", "14,5"]).note
    assert "convert it to numbers, with a point for each decimal comma" in note


# Columns that no model can use.


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (pd.Series([1, "a"], dtype=object), ["row 0 holds 1", "row 1 'a'"]),
        (pd.Series([None, "a", 2.5], dtype=object), ["row 1 holds 'a'", "row 2 2.5"]),
        (pd.Series([True, None, 2], dtype=object), ["row 0 holds True", "row 2 2"]),
        (pd.Series([None, [1]]), ["list in row 1", "plain columns"]),
        (pd.Series([{"a": 1}]), ["dict", "plain columns"]),
        (pd.Series([b"x"]), ["bytes", "decode"]),
        (pd.Series([decimal.Decimal(1)]), ["Decimal", "floats"]),
        (pd.Series([1j], dtype=object), ["complex", "real and an imaginary"]),
        (pd.Series([1j]), ["complex128", "real and an imaginary"]),
        (pd.Series([dt.timedelta(1)], dtype=object), ["timedelta", "number of seconds"]),
        (pd.Series([np.timedelta64(1, "s")], dtype=object), ["timedelta64", "number of seconds"]),
        (pd.Series([dt.timedelta(1)]), ["timedelta64", "number of seconds"]),
        (pd.Series(pd.period_range("2020", periods=2, freq="M")), ["period", "timestamps"]),
        (pd.Series(pd.arrays.SparseArray([1.0, nan])), ["Sparse", "dense"]),
        (pd.Series(pd.cut([1, 2, 3], 2)), ["category", "categories to text"]),
        (pd.Series(pd.Categorical([1, "a"])), ["category", "categories to text"]),
        (pd.Series(["a", "\ud800"], dtype=object), ["in row 1 that is not valid Unicode"]),
        (pd.Series(["\ud800"], dtype="string[python]"), ["in row 0 that is not valid Unicode"]),
        (pd.Series(pd.Categorical(pd.to_datetime(["2020-01-01"]))), ["category"]),
    ],
)
def test_pandas_columns_that_are_refused(values: Any, words: list[str]) -> None:
    text = refusal(values)
    for word in words:
        assert word in text


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (pa.array([[1]]), ["list", "plain columns"]),
        (pa.array([{"a": 1}]), ["struct", "plain columns"]),
        (pa.array([b"x"]), ["binary", "decode"]),
        (pa.array([dt.timedelta(1)]), ["duration", "number of seconds"]),
        (pa.array([dt.time(1)]), ["time64", "since midnight"]),
        (pa.array([decimal.Decimal("1.5")]), ["decimal128", "floats"]),
        (pa.array([b"x"]).dictionary_encode(), ["dictionary", "categories to text"]),
        (pl.Series([[1]]), ["List", "plain columns"]),
        (pl.Series([{"a": 1}]), ["Struct", "plain columns"]),
        (pl.Series([b"x"]), ["Binary", "decode"]),
        (pl.Series([dt.timedelta(1)]), ["Duration", "number of seconds"]),
        (pl.Series([dt.time(1)]), ["Time", "since midnight"]),
        (pl.Series([decimal.Decimal("1.5")]), ["Decimal", "floats"]),
        (pl.Series([object()], dtype=pl.Object), ["Object"]),
    ],
)
def test_other_columns_that_are_refused(values: Any, words: list[str]) -> None:
    table = (pl.DataFrame if isinstance(values, pl.Series) else pa.table)({"c": values})
    with pytest.raises(InputError, match="Column 'c' has dtype") as caught:
        infer_schema(table)
    for word in [*words, "kinds={'c': 'ignored'}"]:
        assert word in str(caught.value)
    assert infer_schema(table, {"c": "ignored"})["c"].kind == "ignored"


# Kinds that the user asks for.


@pytest.mark.parametrize(
    ("values", "kind", "levels"),
    [
        ([3, 1, 2, 1], "categorical", (1, 2, 3)),
        ([3, 1, 2, 1], "ordinal", (1, 2, 3)),
        ([2.5, 0.5, 1.5], "ordinal", (0.5, 1.5, 2.5)),
        ([3, 7, 8][:2], "binary", (3, 7)),
        (ORDERED, "categorical", ("lo", "mid", "hi")),
        (ORDERED, "ordinal", ("lo", "mid", "hi")),
        (["a", "b"], "categorical", ("a", "b")),
        ([True, False], "categorical", (False, True)),
        ([1, 2, 3], "real", ()),
        ([1, 2, 3], "positive", ()),
        ([0, 1], "count", ()),
        (pd.to_datetime(["2020-01-01", "2020-01-02"]), "datetime", ()),
    ],
)
def test_asked_for(values: Any, kind: str, levels: tuple[Any, ...]) -> None:
    found = column(values, kind)
    assert (found.kind, found.levels) == (kind, levels)
    assert found.lower == (0.0 if kind in ("positive", "count") else None)


@pytest.mark.parametrize(
    ("values", "kind", "words"),
    [
        (["a", "b"], "real", ["text", "'a' in row 0", "convert it to numbers"]),
        ([None, "b", "c"], "count", ["'b' in row 1"]),
        (["1", "?", "2"], "real", ["'?' in row 1", "if '?' marks what is missing", "else convert"]),
        (["1", "2", "x"], "real", ["'1' in row 0", "text", "; convert it to numbers"]),
        (["01.02.2020", "?"], "datetime", ["'?' in row 1", "written as 2021-08-02"]),
        ([True, False], "real", ["true and false"]),
        ([1.0, -2.5, 3.0], "positive", ["-2.5 in row 1", "'real'"]),
        ([1, 2, -3], "count", ["-3 in row 2", "'real'"]),
        ([1.0, nan, 2.5], "count", ["2.5 in row 2", "'positive'"]),
        ([5, 4, 4, 3], "binary", ["3 distinct values", "3 in row 3"]),
        (["b", None, "c", "a"], "binary", ["3 distinct values", "'a' in row 3"]),
        (["a", "b", "c"], "ordinal", ["ordered category", "Enum"]),
        (UNORDERED, "ordinal", ["ordered category"]),
        (["2020-01-01", "2020-01-02"], "datetime", ["'2020-01-01' in row 0", "to dates"]),
        ([1, 2, 3], "datetime", ["1 in row 0", "to dates"]),
        (np.array(["2020-01-01", "2020-01-02"], "M8[us]"), "real", ["dates", "2020-01-01T"]),
        (np.array(["2020-01-01", "2020-01-02"], "M8[us]"), "ordinal", ["dates"]),
        (pd.Categorical([1, 2, 3]), "real", ["category"]),
    ],
)
def test_impossible_kinds(values: Any, kind: str, words: list[str]) -> None:
    text = refusal(values, kind)
    assert f"cannot be {kind}" in text
    for word in words:
        assert word in text


def test_kinds_of_unknown_columns_and_unknown_kinds() -> None:
    table = pd.DataFrame({"a": [1.5, 2.0]})
    with pytest.raises(InputError, match=r"names a column 'b', .* its columns are 'a'"):
        infer_schema(table, {"b": "real"})
    with pytest.raises(InputError, match=r"unknown kind 'numeric' of column 'a'.*real, positive"):
        infer_schema(table, {"a": "numeric"})


def test_kinds_of_wrong_types() -> None:
    table = "pd.DataFrame({'a': [1.5, 2.0]})"
    wrong = ("[('a', 'real')]", "'real'", "{'a': ['real']}", "{'a': None}")
    for text in tables.refusals([f"infer_schema({table}, {kinds})" for kinds in wrong]):
        assert text.startswith("`kinds` ")


def test_many_names_and_long_values_are_cut() -> None:
    table = pd.DataFrame([range(3000)])
    with pytest.raises(InputError, match=r"its columns are '0', .*, '9' and 2990 more\."):
        infer_schema(table, {"b": "real"})
    text = refusal(pd.Series(["x" * 1000, "y"]), "real")
    assert f"'{'x' * 36}... in row 0" in text


def test_a_constant_can_be_asked_for_where_it_is_one() -> None:
    column = infer_schema(pd.DataFrame({"a": [2.0, None, 2.0]}), {"a": "constant"})["a"]
    assert column.kind == "constant"
    assert "not used" not in column.note
    with pytest.raises(InputError, match=r"'a' cannot be constant: .*1.5 in row 0 .* 2 in row 1"):
        infer_schema(pd.DataFrame({"a": [1.5, 2.0]}), {"a": "constant"})


# What is a table.


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([[1.0]], "type list is not a table"),
        ({"a": [1.0]}, "type dict is not a table"),
        (None, "type NoneType is not a table"),
        (pd.Series([1.0]), r"\.to_frame\(\)"),
        (pl.Series([1.0]), r"\.to_frame\(\)"),
        (pl.LazyFrame({"a": [1.0]}), r"\.collect\(\)"),
        (np.zeros(3), "1 dimensions .* reshape"),
        (np.zeros((3, 3, 3)), "3 dimensions .* reshape"),
        (np.ma.masked_array(np.zeros((2, 2))), r"\.filled\("),
        (scipy.sparse.eye_array(3), r"\.toarray\(\)"),
        (pd.DataFrame({"a": []}), "no rows"),
        (np.zeros((0, 2)), "no rows"),
        (pd.DataFrame(index=[0, 1]), "no columns"),
        (pl.DataFrame(), "no columns"),
        (pa.table({}), "no columns"),
        (pd.DataFrame([[1, 2, 3]], columns=["a", "b", "a"]), "more than one column named 'a'"),
        (pd.DataFrame([[1, 2]], columns=[1, "1"]), "more than one column named '1'"),
        (pa.table([[1], [2]], names=["a", "a"]), "more than one column named 'a'"),
        (
            pd.DataFrame([[1]], columns=pd.Index(["\ud800"], dtype=object)),
            "name .* is not valid Unicode",
        ),
        (np.array([[b"a"], [b"b"]]), "decode it to text"),
        (np.array([[1], [2]], "M8[h]"), r"convert it to datetime64\[us\]"),
        (np.array([[1], [2]], "M8[Y]"), r"convert it to datetime64\[us\]"),
    ],
)
def test_what_is_no_table(table: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        infer_schema(table)


def test_names_that_are_no_strings() -> None:
    assert infer_schema(pd.DataFrame([[1, 2], [3, 5]])).names == ("0", "1")
    table = pd.DataFrame([[1], [2]], columns=pd.MultiIndex.from_tuples([("a", 1)]))
    assert infer_schema(table).names == ("('a', 1)",)
    assert infer_schema(np.zeros((2, 3))).names == ("x0", "x1", "x2")
    kinds: Any = {0: "real"}
    assert infer_schema(pd.DataFrame([[1, 2], [3, 5]]), kinds)["0"].kind == "real"


def test_arrays_of_other_dtypes() -> None:
    assert infer_schema(np.array([[1, 5], [2, 7]]))["x0"].kind == "count"
    assert infer_schema(np.array([[True], [False]]))["x0"].kind == "binary"
    assert infer_schema(np.array([["a"], ["b"]]))["x0"].levels == ("a", "b")
    assert infer_schema(np.array([["1960-01-01"], ["NaT"]], "M8[D]"))["x0"].storage == "date"
