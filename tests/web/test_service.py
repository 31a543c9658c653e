"""The JSON service on a served model."""

import asyncio
import datetime as dt
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from fastapi.testclient import TestClient
from servers import connected, house_of, refusal

from hhvaem import Imputer
from hhvaem.example import clinic
from hhvaem.web import batching
from hhvaem.web.house import Settings
from hhvaem.web.models import loaded, served

TABLE = clinic(rows=6)


def as_json(table: pa.Table) -> list[dict[str, Any]]:
    rows = table.to_pylist()
    for row in rows:
        row["admitted"] = row["admitted"] and row["admitted"].isoformat()
    return rows


@pytest.fixture(scope="module")
def imputer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("imputer") / "clinic.hhvaem"
    Imputer(preset="fast", max_steps=100, random_state=0).fit(clinic(rows=200)).save(path)
    return path


@pytest.fixture(scope="module")
def filling(imputer: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    keep = tmp_path_factory.mktemp("kept")
    with connected(Settings(keep=keep, served=served(imputer))) as browser:
        yield browser


def test_the_schema_is_that_of_the_model(client: TestClient, model_file: Path) -> None:
    found = client.get("/api/models/served/schema").json()
    model = loaded(model_file)
    assert [column["name"] for column in found["columns"]] == list(model.schema_.names)
    assert found["targets"] == [{"name": "glucose", "classes": None}]


def test_rows_are_filled_as_the_library_fills_them(filling: TestClient, imputer: Path) -> None:
    body = {"rows": as_json(TABLE), "level": 0.8}
    found = filling.post("/api/models/served/impute", json=body).json()
    model = loaded(imputer)
    assert found["rows"] == as_json(model.transform(TABLE))
    low, high = model.interval(TABLE, 0.8)
    assert found["low"] == as_json(low)
    assert found["high"] == as_json(high)


def test_rows_may_lack_columns_and_have_texts(filling: TestClient) -> None:
    body = {"rows": [{}, {"age": "61", "admitted": "2024-03-01", "diabetic": "yes"}]}
    empty, row = filling.post("/api/models/served/impute", json=body).json()["rows"]
    assert None not in empty.values()
    assert body["rows"][1].items() <= row.items()


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A model of a table with a constant of each sort, and with names."""
    table = pa.table(
        {
            "x": [None if i % 5 == 0 else i % 9 + 0.5 for i in range(40)],
            "name": [f"person number {i}" for i in range(40)],
            "k": [7] * 40,
            "same": ["a"] * 40,
            "true": [True] * 40,
            "day": [dt.date(2024, 1, 1)] * 40,
            "n": [i % 4 for i in range(40)],
        }
    )
    path = tmp_path_factory.mktemp("plain") / "plain.hhvaem"
    model = Imputer(preset="fast", max_steps=5, random_state=0, kinds={"name": "ignored"})
    model.fit(table).save(path)
    with connected(Settings(keep=path.parent, served=served(path))) as browser:
        yield browser


def test_known_cells_come_back_as_they_were(plain: TestClient) -> None:
    rows = [
        {"name": "Ada", "k": 5, "n": 2, "same": "b", "day": "2023-01-01"},
        {"name": 3, "x": 1.25, "n": 2**53 + 1, "k": "5", "true": "no"},
    ]
    body = {"rows": rows, "level": 0.5}
    found = plain.post("/api/models/served/impute", json=body).json()
    (drawn,) = plain.post("/api/models/served/sample", json={"rows": rows, "draws": 1}).json()[
        "draws"
    ]
    for each in (found["rows"], found["low"], found["high"], drawn):
        for row, given in zip(each, rows, strict=True):
            assert given.items() <= row.items()
    assert (found["rows"][0]["true"], found["rows"][1]["same"]) == (True, "a")


@pytest.mark.parametrize(
    "row",
    [{"k": "zzz"}, {"same": 5}, {"true": "perhaps"}, {"day": 3}, {"day": "soon"}],
)
def test_what_no_table_of_the_model_may_hold_is_refused(plain: TestClient, row: Any) -> None:
    answer = plain.post("/api/models/served/impute", json={"rows": [row]})
    (name,) = row
    assert repr(name) in refusal(answer, 400)


def test_what_json_does_not_have_is_not_given_back(plain: TestClient) -> None:
    answer = plain.post("/api/models/served/impute", content=b'{"rows": [{"name": 1e999}]}',
                        headers={"Content-Type": "application/json"})  # fmt: skip
    assert "infinite" in refusal(answer, 400)


def test_draws_are_those_of_the_library(filling: TestClient, imputer: Path) -> None:
    body = {"rows": as_json(TABLE), "draws": 3}
    found = filling.post("/api/models/served/sample", json=body).json()["draws"]
    assert found == [as_json(each) for each in loaded(imputer).sample(TABLE, 3)]


def test_targets_are_predicted_as_by_the_library(client: TestClient, model_file: Path) -> None:
    known = TABLE.drop_columns(["glucose"])
    model = loaded(model_file)
    found = client.post("/api/models/served/predict", json={"rows": as_json(TABLE)}).json()
    low, high = model.predict_interval(known)
    for i, value in enumerate(model.predict(known)):
        (each,) = found["predictions"][i]
        assert each["value"] == pytest.approx(value)
        assert (each["low"], each["high"]) == pytest.approx((low[i], high[i]))
    body = {"rows": as_json(known), "draws": 2}
    drawn = client.post("/api/models/served/sample", json=body).json()["draws"]
    assert np.array([[row["glucose"] for row in each] for each in drawn]).shape == (2, 6)


def test_gains_are_those_of_the_library(client: TestClient, model_file: Path) -> None:
    known = TABLE.drop_columns(["glucose"])
    body = {"rows": as_json(known), "costs": {"crp": 2}}
    found = client.post("/api/models/served/acquire", json=body).json()
    gains = loaded(model_file).acquire(known, {"crp": 2.0}).to_pylist()
    for row, truth in zip(found["gains"], gains, strict=True):
        for name, gain in truth.items():
            assert row[name] is None if np.isnan(gain) else row[name] == pytest.approx(gain)


def test_concurrent_requests_share_calls_and_do_not_notice(filling: TestClient) -> None:
    rows = as_json(clinic(rows=40, seed=3))
    alone = [
        filling.post("/api/models/served/impute", json={"rows": [row]}).json()["rows"][0]
        for row in rows[:4]
    ]
    batches = house_of(filling).batches
    calls, requests = batches.calls, batches.requests
    with ThreadPoolExecutor(20) as pool:
        answers = list(
            pool.map(
                lambda row: filling.post("/api/models/served/impute", json={"rows": [row]}), rows
            )
        )
    assert [answer.json()["rows"][0] for answer in answers[:4]] == alone
    assert batches.requests - requests == 40
    assert batches.calls - calls < 20


def test_the_fault_of_one_request_is_not_that_of_others() -> None:
    def work(table: pa.Table) -> list[int]:
        if 3 in table["x"].to_pylist():
            raise ValueError("three")
        return table["x"].to_pylist()

    async def all_at_once() -> list[Any]:
        async def run(call: Any, table: pa.Table) -> Any:
            return await asyncio.to_thread(call, table)

        batches = batching.Batches(run, most=4)
        asked = [batches.ask("key", pa.table({"x": [i, i]}), work) for i in range(5)]
        return await asyncio.gather(*asked, return_exceptions=True)

    *good, bad, last = asyncio.run(all_at_once())
    assert good == [[0, 0], [1, 1], [2, 2]]
    assert last == [4, 4]
    assert isinstance(bad, ValueError)


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([], "no rows"),
        ([{"agee": 1}], "'agee'"),
        ([{}, {"smoker": "often"}], "Row 1"),
        ([{"age": 1.5}], "1.5"),
        ([{"admitted": "soon"}], "'soon'"),
    ],
)
def test_bad_rows_are_refused(filling: TestClient, rows: Any, told: str) -> None:
    assert told in refusal(filling.post("/api/models/served/impute", json={"rows": rows}), 400)


def test_too_much_is_refused(filling: TestClient) -> None:
    path = "/api/models/served"
    assert "too many" in refusal(filling.post(f"{path}/impute", json={"rows": [{}] * 1001}), 413)
    body = {"rows": [{}], "draws": 1000}
    assert "1000 draws" in refusal(filling.post(f"{path}/sample", json=body), 400)


def test_a_model_does_what_it_can(client: TestClient, filling: TestClient) -> None:
    rows = {"rows": [{}]}
    assert "fills no holes" in refusal(client.post("/api/models/served/impute", json=rows), 400)
    for what in ("predict", "acquire"):
        assert "no target" in refusal(filling.post(f"/api/models/served/{what}", json=rows), 400)
    answer = filling.post("/api/sessions", json={"model": "served"})
    assert "no target to ask about" in refusal(answer, 400)
    assert "not here" in refusal(filling.get("/api/models/served/filled"), 404)
