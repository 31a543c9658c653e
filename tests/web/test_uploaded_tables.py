import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from servers import refusal, uploaded

from hhvaem.example import clinic
from hhvaem.web import tables
from hhvaem.web.columns import find
from hhvaem.web.views import missing_map


@pytest.fixture(scope="module")
def table(client: TestClient) -> Any:
    return client.post("/api/tables/example").json()


def column_of(table: Any, name: str) -> Any:
    return next(column for column in table["columns"] if column["name"] == name)


def test_the_example_is_the_clinic(client: TestClient, table: Any) -> None:
    whole = clinic()
    assert (table["rows"], table["columns_count"]) == (whole.num_rows, whole.num_columns)
    assert table["cells_missing"] == sum(column.null_count for column in whole.columns)
    assert client.get(f"/api/tables/{table['id']}").json() == table
    pain = column_of(table, "pain")
    assert pain["levels"] == ["no pain", "mild", "moderate", "severe"]
    assert pain["ordered"]


def test_rows_have_null_for_holes(client: TestClient, table: Any) -> None:
    found = client.get(f"/api/tables/{table['id']}/rows?first=598&count=50").json()
    truth = clinic().slice(598).to_pylist()
    assert found["total"] == 600
    assert len(found["rows"]) == 2
    for row, true in zip(found["rows"], truth, strict=True):
        day = true.pop("admitted")
        assert row == [day and day.isoformat(), *true.values()]


def test_the_map_has_the_share_of_each_band(client: TestClient, table: Any) -> None:
    found = client.get(f"/api/tables/{table['id']}/map?bands=7").json()
    whole = clinic()
    assert sum(band["rows"] for band in found["bands"]) == 600
    for band in found["bands"]:
        part = whole.slice(band["first"], band["rows"])
        shares = [column.null_count / part.num_rows for column in part.columns]
        assert band["missing"] == pytest.approx(shares, abs=1e-4)
    assert len(missing_map(clinic(rows=3), 100)) == 3


def test_a_column_is_drawn_in_bars(client: TestClient, table: Any) -> None:
    def plot(name: str) -> Any:
        index = column_of(table, name)["index"]
        return client.get(f"/api/tables/{table['id']}/column?column={index}").json()

    bmi = plot("bmi")
    values = clinic()["bmi"].drop_null().to_numpy()
    counts, _ = np.histogram(values, bmi["edges"])
    assert bmi["observed"] == pytest.approx(counts / values.size, abs=1e-5)
    assert bmi["counts"]["observed"] == values.size
    smoker = plot("smoker")
    assert smoker["labels"] == ["current", "former", "never"]
    assert sum(smoker["observed"]) == pytest.approx(1)
    day = plot("admitted")
    assert day["edges"] == sorted(day["edges"])
    assert day["edges"][0] == "2024-01-01"


def test_kinds_can_be_changed_and_changed_back(client: TestClient) -> None:
    table = client.post("/api/tables/example").json()
    path = f"/api/tables/{table['id']}/kinds"
    changed = client.put(path, json={"kinds": {"visits": "real", "age": "ignored"}}).json()
    assert column_of(changed, "visits")["kind"] == "real"
    assert column_of(changed, "visits")["inferred"] == "count"
    assert column_of(changed, "age")["holes"] == "passed through"
    sentence = refusal(client.put(path, json={"kinds": {"bmi": "count"}}), 400)
    assert "'bmi'" in sentence
    # Nothing was changed by what was refused.
    assert client.get(f"/api/tables/{table['id']}").json() == changed
    assert client.put(path, json={}).json() == table


def test_levels_of_text_can_be_put_in_order(client: TestClient) -> None:
    table = uploaded(client, b"x,size\n" + b"1,small\n2,large\n3,medium\n" * 5)
    path = f"/api/tables/{table['id']}/kinds"
    order = ["small", "medium", "large"]
    found = client.put(path, json={"orders": {"size": order}}).json()
    size = column_of(found, "size")
    assert (size["kind"], size["levels"], size["ordered"]) == ("ordinal", order, True)
    assert "'large'" in refusal(client.put(path, json={"orders": {"size": order[:2]}}), 400)
    assert "'nothing'" in refusal(client.put(path, json={"kinds": {"nothing": "real"}}), 400)


def test_an_identifier_is_ignored_with_its_reason(client: TestClient) -> None:
    rows = "".join(f"patient-{i},{i % 7}\n" for i in range(40))
    table = uploaded(client, f"id,n\n{rows}".encode())
    own = column_of(table, "id")
    assert own["kind"] == "ignored"
    assert "identifier" in own["problem"]
    assert "kinds=" not in own["problem"]
    assert any("1 column is passed through as it is;" in note for note in table["notes"])
    twice = "".join(f"patient-{i},case-{i},{i % 7}\n" for i in range(40))
    notes = uploaded(client, f"id,case,n\n{twice}".encode())["notes"]
    assert any("2 columns are passed through as they are;" in note for note in notes)
    path = f"/api/tables/{table['id']}/kinds"
    found = client.put(path, json={"kinds": {"id": "categorical"}}).json()
    assert (column_of(found, "id")["kind"], column_of(found, "id")["problem"]) == (
        "categorical",
        None,
    )


def test_what_is_another_s_is_not_there(client: TestClient, other: TestClient, table: Any) -> None:
    own = f"/api/tables/{table['id']}"
    for path in (own, f"{own}/rows", f"{own}/map", f"{own}/column?column=0"):
        assert client.get(path).status_code == 200
        assert refusal(other.get(path), 404) == refusal(other.get("/api/tables/nothing"), 404)
    assert refusal(other.put(f"{own}/kinds", json={}), 404)
    assert refusal(other.post(f"{own}/jobs", json={"task": "fill"}), 404)
    assert refusal(other.delete(own), 404)
    assert other.get("/api/state").json()["tables"] == []


def test_each_of_two_tabs_is_told_what_it_has_said(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = uploaded(client, b"a,b\n" + b"1,2\n3,4\n2,2\n" * 5)

    def slow(data: Any, kinds: Any, orders: Any) -> Any:
        found = find(data, kinds, orders)
        if kinds["a"] == "real":  # the first to begin would be the last to end
            time.sleep(0.5)
        return found

    def say(kind: str) -> Any:
        answer = client.put(f"/api/tables/{table['id']}/kinds", json={"kinds": {"a": kind}})
        return answer.json()["columns"][0]["kind"]

    told = tables.Table.told

    def told_late(self: Any, **how: Any) -> Any:
        time.sleep(0.2)
        return told(self, **how)

    monkeypatch.setattr(tables, "find", slow)
    monkeypatch.setattr(tables.Table, "told", told_late)
    kinds = ["real", "categorical", "count", "positive", "ordinal"]
    with ThreadPoolExecutor(len(kinds)) as pool:
        assert list(pool.map(say, kinds)) == kinds
