"""Columns that few tables have: shown, or refused with what is true of them."""

import datetime as dt
import io
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from fastapi.testclient import TestClient
from pyarrow import feather, parquet
from servers import refusal, upload, uploaded

from hhvaem.schema import Column
from hhvaem.web.views import edges_between

LARGEST = float(np.finfo(float).max)


def as_feather(**columns: Any) -> bytes:
    out = io.BytesIO()
    feather.write_feather(pa.table(columns), out)
    return out.getvalue()


def rows_of(browser: TestClient, table: Any) -> list[list[Any]]:
    rows: list[list[Any]] = browser.get(f"/api/tables/{table['id']}/rows").json()["rows"]
    return rows


@pytest.mark.parametrize(
    "values",
    [
        (1e308, -1.7e308, 3.5, 1e308, 0.25),
        (1e308, -1.7e308, 3.0, 1e308, 0.0),
        (LARGEST, -LARGEST, 1.0, 2.0),
        (LARGEST, 0.0, 1.0, LARGEST),
        (1e300, 1e300 * (1 + 1e-15), 1e300),
    ],
)
def test_numbers_as_far_apart_as_they_can_be_are_drawn(
    bare: TestClient, values: tuple[float, ...]
) -> None:
    text = "a,b\n" + "".join(f"{value!r},{i}\n" for i, value in enumerate(values))
    table = uploaded(bare, text.encode())
    answer = bare.get(f"/api/tables/{table['id']}/column?column=0")
    assert answer.status_code == 200, answer.text
    plot = answer.json()
    assert plot["edges"] == sorted(plot["edges"])
    assert sum(plot["observed"]) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("value", [LARGEST, -LARGEST, 1e300])
def test_edges_about_one_number_are_finite(value: float) -> None:
    for step in (None, 1.0):
        column = Column("a", "real", "float", step=step)
        edges = edges_between(column, value, value)
        assert np.isfinite(edges).all()
        assert edges[0] < edges[-1]


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "dictionary"])
def test_text_that_is_not_utf_8_is_refused(bare: TestClient, packed: bool) -> None:
    buffers = pa.array([b"\xff", b"a"]).buffers()
    text = pa.Array.from_buffers(pa.string(), 2, buffers)
    if packed:
        text = pa.DictionaryArray.from_arrays(pa.array([0, 1]), text)
    answer = upload(bare, as_feather(city=text, n=[1, 2]), "x.feather")
    assert "'city' has text that is not in UTF-8" in refusal(answer, 400)
    out = io.BytesIO()
    parquet.write_table(pa.table({"city": text, "n": [1, 2]}), out)
    answer = upload(bare, out.getvalue(), "x.parquet")
    assert "UTF" in refusal(answer, 400)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_durations_are_shown_and_passed_through(bare: TestClient, unit: str) -> None:
    spans = pa.array([dt.timedelta(days=1, seconds=5), None, dt.timedelta(0)])
    table = uploaded(bare, as_feather(span=spans.cast(pa.duration(unit)), n=[1, 2, 3]), "x.feather")
    assert [row[0] for row in rows_of(bare, table)] == ["1 day, 0:00:05", None, "0:00:00"]
    assert "duration" in table["columns"][0]["problem"]
    assert table["columns"][0]["kind"] == "ignored"


@pytest.mark.parametrize(
    ("column", "shown"),
    [
        (pa.array([[1], None]), "[1]"),
        (pa.array([{"a": 1}, None]), "{'a': 1}"),
        (pa.array([1, None], pa.decimal128(10, 2)), "1.00"),
        (pa.array([3_600_000_000_000, None], pa.time64("ns")), "01:00:00"),
        (pa.array([(1, 2, 3), None], pa.month_day_nano_interval()), "MonthDayNano("),
        (pa.array([10**12, None], pa.duration("us")).dictionary_encode(), "11 days"),
    ],
    ids=["list", "struct", "decimal", "time", "interval", "dictionary"],
)
def test_other_columns_are_shown_as_text(bare: TestClient, column: Any, shown: str) -> None:
    table = uploaded(bare, as_feather(odd=column, n=[1, 2]), "x.feather")
    assert rows_of(bare, table)[0][0].startswith(shown)
    assert rows_of(bare, table)[1][0] is None


def test_durations_beyond_all_measure_are_refused_as_such(bare: TestClient) -> None:
    spans = pa.array([10**17, None], pa.duration("s"))
    for column in (spans, pa.array([[10**17], None], pa.list_(spans.type))):
        said = refusal(upload(bare, as_feather(span=column, n=[1, 2]), "x.feather"), 400)
        assert "'span' has values that cannot be shown" in said
        assert "duration[s]" in said
        assert "years" not in said


def test_a_column_that_nobody_asked_to_ignore_has_no_note_of_it(bare: TestClient) -> None:
    rows = "".join(f"patient-{i},{i % 7}\n" for i in range(40))
    table = uploaded(bare, f"id,n\n{rows}".encode())
    assert table["columns"][0]["problem"]
    assert table["columns"][0]["note"] == ""
    path = f"/api/tables/{table['id']}/kinds"
    asked = bare.put(path, json={"kinds": {"id": "ignored"}}).json()["columns"][0]
    assert "ignored as asked" in asked["note"]


def test_numbers_that_browsers_would_round_are_texts(bare: TestClient) -> None:
    table = uploaded(bare, as_feather(n=pa.array([2**53 + 1, 2**53, None])), "n.feather")
    assert rows_of(bare, table) == [["9007199254740993"], [2**53], [None]]


def test_rows_are_counted_from_1_where_people_read_of_them(bare: TestClient) -> None:
    table = uploaded(bare, b"a,b\n1,x\n2.5,x\n", "a.csv")
    answer = bare.put(f"/api/tables/{table['id']}/kinds", json={"kinds": {"a": "count"}})
    assert "2.5 in row 2" in refusal(answer, 400)
