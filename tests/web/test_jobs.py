"""Training on the page, from the first event to the last download."""

import codecs
import csv
import io
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from fastapi.testclient import TestClient
from pyarrow import feather, parquet
from servers import connected, events, finished, house_of, refusal, uploaded

from hhvaem import load
from hhvaem.atomic import replacing
from hhvaem.errors import InputError
from hhvaem.example import clinic
from hhvaem.files import read_table
from hhvaem.web import downloads, worker
from hhvaem.web.house import Settings
from hhvaem.web.limits import Limits

ROWS, STEPS = 80, 40
FORMULA = "=HYPERLINK(1)"


def rows_of(answer: Any) -> list[list[str]]:
    # With the mark by which Excel knows UTF-8, once.
    assert answer.content.startswith(codecs.BOM_UTF8)
    return list(csv.reader(io.StringIO(answer.content.decode("utf-8-sig"))))


@pytest.fixture(scope="module")
def holed() -> pa.Table:
    """A part of the clinic in which one level, the usual one, looks like a formula."""
    table = clinic(rows=ROWS)
    smoker = [FORMULA if x == "never" else x for x in table["smoker"].to_pylist()]
    return table.set_column(table.column_names.index("smoker"), "smoker", pa.array(smoker))


@pytest.fixture(scope="module")
def done(client: TestClient, holed: pa.Table) -> Any:
    """A job that has filled a table, with all its events."""
    out = io.BytesIO()
    parquet.write_table(holed, out)
    table = uploaded(client, out.getvalue(), "patients.parquet")
    order = {"task": "fill", "preset": "fast", "max_steps": STEPS}
    job = client.post(f"/api/tables/{table['id']}/jobs", json=order).json()
    return {"table": table, "events": events(client, job["id"]), "job": job["id"]}


@pytest.fixture(scope="module")
def model(client: TestClient, done: Any) -> str:
    return str(client.get(f"/api/jobs/{done['job']}").json()["model"])


def test_events_tell_how_far_training_is(done: Any) -> None:
    names = [name for name, _ in done["events"]]
    assert names[-1] == "end"
    assert set(names[:-1]) == {"job"}
    stages = [job["progress"]["stage"] for _, job in done["events"]]
    assert stages[-1] == "finished"
    # What comes quickly after each other is told once: which steps are seen is a matter of time.
    trained = [job["progress"] for _, job in done["events"] if job["progress"]["loss"] is not None]
    steps = [each["step"] for each in trained]
    assert steps == sorted(steps)
    assert all(each["steps"] == STEPS >= each["step"] for each in trained)
    assert done["events"][-1][1]["state"] == "done"


def test_events_after_the_end_are_the_end(client: TestClient, done: Any) -> None:
    assert events(client, done["job"]) == [("end", done["events"][-1][1])]


def test_the_state_survives_a_reload(client: TestClient, done: Any, model: str) -> None:
    state = client.get("/api/state").json()
    assert done["table"]["id"] in [table["id"] for table in state["tables"]]
    assert done["job"] in [job["id"] for job in state["jobs"]]
    assert [each["id"] for each in state["models"]] == [model, "served"]


def test_the_filled_table_keeps_what_was_there(
    client: TestClient, model: str, holed: pa.Table
) -> None:
    found = client.get(f"/api/models/{model}/filled?count=200").json()
    assert found["total"] == ROWS
    for i, (row, before) in enumerate(zip(found["rows"], holed.to_pylist(), strict=True)):
        for j, (name, value) in enumerate(before.items()):
            assert (j in found["filled"][i]) == (value is None)
            assert row[j] is not None
            if value is not None and name != "admitted":
                assert row[j] == value


def test_the_model_file_fills_as_the_page_does(
    client: TestClient, model: str, holed: pa.Table, tmp_path: Path
) -> None:
    answer = client.get(f"/api/models/{model}/file")
    assert "patients.hhvaem" in answer.headers["content-disposition"]
    (tmp_path / "model.hhvaem").write_bytes(answer.content)
    imputer = load(tmp_path / "model.hhvaem")
    down = client.get(f"/api/models/{model}/filled.feather").content
    assert feather.read_table(io.BytesIO(down)).equals(imputer.transform(holed))


def test_downloads_are_the_same_in_all_formats(
    client: TestClient, model: str, tmp_path: Path
) -> None:
    path = f"/api/models/{model}/filled"
    one = parquet.read_table(io.BytesIO(client.get(f"{path}.parquet").content))
    assert (
        one.to_pylist()
        == feather.read_table(io.BytesIO(client.get(f"{path}.feather").content)).to_pylist()
    )
    assert len(rows_of(client.get(f"{path}.csv"))) == ROWS + 1
    (tmp_path / "filled.csv").write_bytes(client.get(f"{path}.csv").content)
    assert read_table(tmp_path / "filled.csv").column_names == one.column_names
    assert refusal(client.get(f"{path}.exe"), 422)


def test_formulas_are_not_introduced_into_csv(
    client: TestClient, model: str, holed: pa.Table
) -> None:
    known = holed["smoker"].is_valid().to_pylist()
    for path in (f"/api/models/{model}/filled.csv", f"/api/models/{model}/draws.csv?count=3"):
        names, *rows = rows_of(client.get(path))
        times = len(rows) // ROWS
        cells = [row[names.index("smoker")] for row in rows]
        for i, cell in enumerate(cells):
            # The user's own cells are as they were; those that were filled in are harmless.
            if known[i // times]:
                assert cell == holed["smoker"][i // times].as_py()
            else:
                assert not cell.startswith("=")
        assert f"'{FORMULA}" in cells


@pytest.mark.parametrize(
    ("kind", "suffix", "other"),
    [
        (pa.list_(pa.int8()), "csv", "Parquet or Feather"),
        (pa.month_day_nano_interval(), "parquet", "Feather"),
    ],
)
def test_a_column_that_a_format_lacks_is_named_with_another_format(
    tmp_path: Path, kind: Any, suffix: str, other: str
) -> None:
    table = pa.table({"odd": pa.nulls(2, kind)})
    path = tmp_path / f"filled.{suffix}"
    with pytest.raises(
        InputError, match=f"'odd' .* as {suffix}; download the table as {other}."
    ) as told:
        downloads.written(table, table, path)
    assert str(tmp_path) not in str(told.value)
    downloads.written(table, table, tmp_path / "filled.feather")


def test_draws_are_one_long_table(client: TestClient, model: str, holed: pa.Table) -> None:
    assert client.get(f"/api/models/{model}/draws").json() == {"draws": 20}
    content = client.get(f"/api/models/{model}/draws.parquet?count=3").content
    long = parquet.read_table(io.BytesIO(content))
    assert long.column_names == ["draw", "row", *holed.column_names]
    assert long["draw"].to_pylist()[:4] == [1, 2, 3, 1]
    assert long["row"].to_pylist()[:4] == [1, 1, 1, 2]
    bmi = np.array(long["bmi"].to_pylist()).reshape(ROWS, 3)
    missing = np.array(holed["bmi"].is_null())
    assert (np.ptp(bmi[~missing], axis=1) == 0).all()
    assert (np.ptp(bmi[missing], axis=1) > 0).any()


def test_the_law_of_a_cell(client: TestClient, model: str, holed: pa.Table) -> None:
    names = holed.column_names

    def cell(name: str, *, missing: bool) -> Any:
        row = int(np.flatnonzero(np.array(holed[name].is_null()) == missing)[0])
        path = f"/api/models/{model}/cell?row={row}&column={names.index(name)}"
        return client.get(path).json()

    bmi = cell("bmi", missing=True)
    edges, shares = bmi["histogram"]["edges"], bmi["histogram"]["shares"]
    assert len(edges) == len(shares) + 1
    assert sum(shares) == pytest.approx(1, abs=1e-3)
    low, high = bmi["interval"]["low"], bmi["interval"]["high"]
    assert edges[0] < low < bmi["value"] < high < edges[-1]
    inside = sum(
        s for s, a, b in zip(shares, edges, edges[1:], strict=False) if a > low and b < high
    )
    assert 0.6 < inside < 0.95
    smoker = cell("smoker", missing=True)
    assert {bar["value"] for bar in smoker["bars"]} == {FORMULA, "former", "current"}
    assert max(smoker["bars"], key=lambda bar: bar["share"])["value"] == smoker["value"]
    visits = cell("visits", missing=True)
    assert sum(bar["share"] for bar in visits["bars"]) == pytest.approx(1, abs=1e-3)
    assert visits["interval"]["low"] <= visits["value"] <= visits["interval"]["high"]
    day = cell("admitted", missing=True)
    assert day["histogram"]["edges"] == sorted(day["histogram"]["edges"])
    known = cell("bmi", missing=False)
    assert known["observed"]
    assert known["histogram"] is None
    assert "no row 999" in refusal(client.get(f"/api/models/{model}/cell?row=999&column=0"), 404)
    assert "no column 99" in refusal(client.get(f"/api/models/{model}/cell?row=0&column=99"), 404)


def test_a_column_beside_its_fills(client: TestClient, model: str, holed: pa.Table) -> None:
    index = holed.column_names.index("bmi")
    found = client.get(f"/api/models/{model}/column?column={index}").json()
    assert found["counts"]["filled"] == holed["bmi"].null_count
    for series in ("observed", "filled", "drawn"):
        assert sum(found[series]) == pytest.approx(1, abs=1e-3)
    # Draws are spread as what is known is, and single fills are not.
    assert sum(x > 0 for x in found["drawn"]) > sum(x > 0 for x in found["filled"])


def test_one_owner_s_fills_are_not_another_s(
    client: TestClient, other: TestClient, done: Any, model: str
) -> None:
    own = f"/api/models/{model}"
    paths = [own, f"{own}/file", f"{own}/schema", f"{own}/filled", f"{own}/filled.csv",
             f"{own}/draws.csv", f"{own}/cell?row=0&column=0", f"{own}/column?column=0",
             f"/api/jobs/{done['job']}", f"/api/jobs/{done['job']}/events",
             f"/api/jobs/{done['job']}/report"]  # fmt: skip
    for path in paths:
        assert refusal(other.get(path), 404)
    for what in ("impute", "sample", "predict", "acquire"):
        assert refusal(other.post(f"{own}/{what}", json={"rows": [{}]}), 404)
    assert refusal(other.delete(own), 404)
    assert refusal(other.delete(f"/api/jobs/{done['job']}"), 404)
    assert [each["id"] for each in other.get("/api/models").json()["models"]] == ["served"]


def test_the_report(client: TestClient, done: Any) -> None:
    order = {"task": "evaluate", "preset": "fast", "max_steps": STEPS, "against": ["mean"]}
    job = client.post(f"/api/tables/{done['table']['id']}/jobs", json=order).json()
    assert "not there" in refusal(client.get(f"/api/jobs/{job['id']}/report"), 409)
    assert finished(client, job["id"])["report"]
    report = client.get(f"/api/jobs/{job['id']}/report").json()
    assert "were hidden" in report["hidden"]
    assert [each["called"] for each in report["facts"]["methods"]] == ["hhvaem", "the column mean"]
    assert {each["verdict"] for each in report["facts"]["verdicts"]} <= set(report["meanings"])
    page = client.get(f"/api/jobs/{job['id']}/report.html")
    assert "attachment" in page.headers["content-disposition"]
    assert "makes no report" in refusal(client.get(f"/api/jobs/{done['job']}/report"), 400)


def started(browser: TestClient, job: str) -> None:
    """Wait until a worker has said something."""
    end = time.monotonic() + 60
    while browser.get(f"/api/jobs/{job}").json()["progress"]["stage"] == "waiting":
        assert time.monotonic() < end
        time.sleep(0.05)


def test_training_is_cancelled_and_others_move_up(client: TestClient, done: Any) -> None:
    path = f"/api/tables/{done['table']['id']}/jobs"
    long = {"task": "fill", "preset": "default"}
    first = client.post(path, json=long).json()
    again = client.post(path, json=long)
    assert (again.status_code, again.json()["id"]) == (200, first["id"])  # another tab
    second = client.post(path, json={**long, "seed": 1}).json()
    assert (second["state"], second["ahead"]) == ("waiting", 1)
    started(client, first["id"])
    process = house_of(client).jobs._process
    assert process is not None
    assert client.delete(f"/api/jobs/{first['id']}").json()["state"] == "cancelled"
    assert client.delete(f"/api/jobs/{second['id']}").json()["state"] == "cancelled"
    end = time.monotonic() + 20
    while process.returncode is None:
        assert time.monotonic() < end
        time.sleep(0.05)
    assert events(client, first["id"])[-1][1]["state"] == "cancelled"
    # What is cancelled twice, or after its end, stays as it is.
    assert client.delete(f"/api/jobs/{done['job']}").json()["state"] == "done"


def test_jobs_are_counted(client: TestClient, done: Any) -> None:
    path = f"/api/tables/{done['table']['id']}/jobs"
    most = house_of(client).limits.jobs
    jobs = [client.post(path, json={"task": "fill", "seed": i}).json()["id"] for i in range(most)]
    assert "cancel one" in refusal(client.post(path, json={"task": "fill", "seed": 99}), 429)
    for job in reversed(jobs):
        client.delete(f"/api/jobs/{job}")


def test_bad_targets_are_refused(client: TestClient, done: Any) -> None:
    path = f"/api/tables/{done['table']['id']}/jobs"
    names = [column["name"] for column in done["table"]["columns"]]
    for targets, told in (["nothing"], "'nothing'"), (names, "No column is left"):
        answer = client.post(path, json={"task": "predict", "targets": targets})
        assert told in refusal(answer, 400)
    assert refusal(client.post(path, json={"task": "predict", "targets": []}), 422)


@pytest.mark.parametrize(
    ("order", "told"),
    [
        ({"targets": ["day"]}, "holds dates"),
        ({"targets": ["city", "x"]}, "not alike"),
        ({"targets": ["city"], "kind_of_target": "regression"}, "holds no numbers"),
        ({"targets": ["x"], "kind_of_target": "classification"}, "no classes, such as 0.5"),
        ({"targets": ["empty"]}, "missing in all rows"),
        ({"targets": ["empty"], "kind_of_target": "regression"}, "missing in all rows"),
        ({"targets": ["only"]}, "one class only, 'a'"),
    ],
)
def test_targets_of_which_nothing_can_be_learned_are_refused_at_once(
    client: TestClient, order: Any, told: str
) -> None:
    text = b"x,day,city,empty,only\n0.5,2024-01-01,Rome,,a\n2.5,2024-01-02,Oslo,,a\n"
    path = f"/api/tables/{uploaded(client, text)['id']}"
    answer = client.post(f"{path}/jobs", json={"task": "predict", **order})
    assert told in refusal(answer, 400)
    client.delete(path)


def test_a_removed_table_takes_its_fills_along(client: TestClient) -> None:
    table = client.post("/api/tables/example").json()["id"]
    job = client.post(f"/api/tables/{table}/jobs", json={"task": "fill"}).json()["id"]
    folder = house_of(client).jobs._jobs[job].folder
    assert client.delete(f"/api/tables/{table}").status_code == 204
    ended = client.get(f"/api/jobs/{job}").json()
    assert (ended["state"], ended["error"]) == ("cancelled", "The table was removed.")
    assert not folder.exists()
    assert refusal(client.get(f"/api/tables/{table}"), 404)


@pytest.mark.slow
def test_finished_models_outlive_a_server_that_is_stopped_while_training(tmp_path: Path) -> None:
    keep = tmp_path / "kept"
    with connected(Settings(keep=keep, limits=Limits())) as browser:
        table = browser.post("/api/tables/example").json()["id"]
        path = f"/api/tables/{table}/jobs"
        order = {"task": "fill", "preset": "fast", "max_steps": STEPS}
        model = finished(browser, browser.post(path, json=order).json()["id"])["model"]
        under_way = browser.post(path, json={"task": "fill"}).json()["id"]
        waiting = browser.post(path, json={"task": "fill", "seed": 1}).json()["id"]
        started(browser, under_way)
        house = house_of(browser)
        process = house.jobs._process
    assert process is not None
    assert process.returncode is not None
    for job in (under_way, waiting):
        assert house.jobs._jobs[job].error == "The server was stopped."
    (kept,) = keep.iterdir()
    assert model in kept.name
    assert keep.stat().st_mode & 0o777 == 0o700
    assert load(kept).transform(clinic(rows=3)).num_rows == 3
    assert not house.folder.exists()


def test_a_table_that_goes_meanwhile_is_told(
    client: TestClient, done: Any, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = house_of(client)
    table = house.tables._tables[done["table"]["id"]]
    own, column = f"/api/models/{model}", done["table"]["columns"][-1]["index"]
    hole = next(i for i, row in enumerate(client.get(f"/api/tables/{table.id}/rows").json()["rows"])
                if row[column] is None)  # fmt: skip

    for made in house.jobs._jobs[model].folder.glob("*-out*"):
        made.unlink()  # by other tests

    def gone(*args: Any, **kwargs: Any) -> Any:
        house.tables._tables.pop(table.id, None)
        raise FileNotFoundError("filled.feather")

    for what in ("filled", f"cell?row={hole}&column={column}", f"column?column={column}",
                 "filled.parquet", "draws.parquet?count=2"):  # fmt: skip
        with monkeypatch.context() as broken:
            broken.setattr(feather, "read_table", gone)
            assert "is not here" in refusal(client.get(f"{own}/{what}"), 404)
        house.tables._tables[table.id] = table


def test_a_folder_of_models_that_is_lost_is_told(tmp_path: Path) -> None:
    keep = tmp_path / "table.csv" / "models"
    keep.parent.write_text("a,b\n")
    with connected(Settings(keep=keep)) as browser:
        table = browser.post("/api/tables/example").json()["id"]
        job = browser.post(f"/api/tables/{table}/jobs", json={"task": "fill"}).json()["id"]
        ended = finished(browser, job)
    assert ended["state"] == "failed"
    assert ended["error"].startswith("Models cannot be kept in their folder: ")
    assert str(tmp_path) not in ended["error"]


class Saved:
    """What can be saved, as a model can."""

    def save(self, path: Path) -> None:
        with replacing(path) as file:
            file.write(b"a model")


def test_a_folder_of_models_that_goes_while_training_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "models" / "model.hhvaem"
    worker._keep(Saved(), path)
    assert path.read_bytes() == b"a model"
    path.unlink()
    path.mkdir()
    with pytest.raises(InputError, match=r"^The model cannot be kept .*: model.hhvaem is") as told:
        worker._keep(Saved(), path)
    assert str(tmp_path) not in str(told.value)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="folder of models: Not a directory; mend"):
        worker._keep(Saved(), tmp_path / "file" / "models" / "model.hhvaem")


def test_nothing_is_trained_where_all_room_is_taken(tmp_path: Path) -> None:
    with connected(Settings(keep=tmp_path, limits=Limits(stored_bytes=50_000))) as browser:
        table = browser.post("/api/tables/example").json()["id"]
        answer = browser.post(f"/api/tables/{table}/jobs", json={"task": "fill"})
        assert "as much as it may" in refusal(answer, 429)


def test_a_model_whose_file_is_lost_is_told(client: TestClient, done: Any, model: str) -> None:
    house = house_of(client)
    path = house.models.get(house.jobs._jobs[model].owner, model).path
    house.models._loaded.clear()
    away = path.rename(path.with_suffix(".away"))
    rows = {"rows": [{}]}
    path.mkdir()  # which cannot be removed as a file is
    try:
        for answer in (client.get(f"/api/models/{model}/file"),
                       client.post(f"/api/models/{model}/impute", json=rows),
                       client.post(f"/api/models/{model}/sample", json=rows)):  # fmt: skip
            assert "is gone from the folder of models" in refusal(answer, 404)
        assert "cannot be removed" in refusal(client.delete(f"/api/models/{model}"), 409)
        assert client.get(f"/api/jobs/{done['job']}").json()["model"] == model
        assert client.get(f"/api/models/{model}").status_code == 200
        path.rmdir()
        path.write_bytes(b"no model")
        said = refusal(client.post(f"/api/models/{model}/impute", json=rows), 400)
        assert path.name in said
        assert str(path.parent) not in said
    finally:
        away.replace(path)


def test_a_model_is_removed_with_its_file(client: TestClient, done: Any, model: str) -> None:
    house = house_of(client)
    path = house.models.get(house.jobs._jobs[model].owner, model).path
    assert path.exists()
    folder = house.jobs._jobs[model].folder
    assert (folder / "filled.feather").exists()
    house.laws[model, 0] = object()
    house.laws["another", 0] = object()
    assert client.delete(f"/api/models/{model}").status_code == 204
    assert not path.exists()
    # Nor is anything left of what it has filled.
    assert not folder.exists()
    assert list(house.laws) == [("another", 0)]
    assert client.get(f"/api/jobs/{done['job']}").json()["model"] is None
    assert refusal(client.get(f"/api/models/{model}"), 404)
    assert "stays" in refusal(client.delete("/api/models/served"), 403)
