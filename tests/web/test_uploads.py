import asyncio
import datetime as dt
import gzip
import io
import json
import pickle
import struct
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from fastapi.testclient import TestClient
from pyarrow import feather, parquet
from servers import ADDRESS, connected, house_of, refusal, upload, uploaded

from hhvaem.example import clinic
from hhvaem.web import routes_tables
from hhvaem.web.house import Settings
from hhvaem.web.limits import Limits

SMALL = Limits(upload_bytes=200_000, unpacked_bytes=20 * 2**20, reading_bytes=2**31, tables=3)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with connected(Settings(keep=tmp_path_factory.mktemp("kept"), limits=SMALL)) as browser:
        yield browser


def left_files(browser: TestClient) -> list[Path]:
    folder = house_of(browser).folder / "tables"
    return [path for path in folder.rglob("*") if path.is_file()]


def as_bytes(table: pa.Table, suffix: str) -> bytes:
    out = io.BytesIO()
    if suffix == "parquet":
        parquet.write_table(table, out)
    else:
        feather.write_feather(table, out)
    return out.getvalue()


@pytest.mark.parametrize("suffix", ["parquet", "feather"])
def test_a_binary_table_is_taken_as_it_is(bare: TestClient, suffix: str) -> None:
    table = uploaded(bare, as_bytes(clinic(rows=50), suffix), f"clinic.{suffix}")
    assert (table["rows"], table["columns_count"]) == (50, 12)
    kinds = {column["name"]: column["kind"] for column in table["columns"]}
    assert kinds["pain"] == "ordinal"
    assert kinds["admitted"] == "datetime"


def test_a_text_table_is_taken_packed_or_not(bare: TestClient) -> None:
    text = b"age;city\n31;Rome\nNA;Oslo\n?;Rome\n"
    plain = uploaded(bare, text, "people.csv", missing="?")
    packed = uploaded(bare, gzip.compress(text), "people.csv.gz", missing="?")
    assert plain["columns"] == packed["columns"]
    assert plain["columns"][0]["missing"] == 2


def test_what_is_too_large_is_refused_while_it_arrives(small: TestClient) -> None:
    def blocks() -> Iterator[bytes]:
        yield b"a,b\n"
        for _ in range(100):
            yield b"1,2\n" * 1000

    answer = small.post("/api/tables?name=large.csv", content=blocks())
    assert "larger than" in refusal(answer, 413)
    assert "larger than" in refusal(upload(small, b"x" * 200_001), 413)
    assert left_files(small) == []


def test_a_zip_bomb_is_refused(small: TestClient) -> None:
    bomb = gzip.compress(b"a,b\n" + b"1,2\n" * 10_000_000)
    assert len(bomb) < SMALL.upload_bytes
    assert "unpacks to more" in refusal(upload(small, bomb, "bomb.csv.gz"), 400)
    assert left_files(small) == []


def test_a_parquet_bomb_is_refused(small: TestClient) -> None:
    many = pa.table(
        {"a": pa.DictionaryArray.from_arrays(np.zeros(190_000, np.int32), ["x" * 20_000])}
    )
    bomb = as_bytes(many, "parquet")
    assert len(bomb) < SMALL.upload_bytes
    assert "unpacks to more" in refusal(upload(small, bomb, "bomb.parquet"), 400)
    rows = as_bytes(pa.table({"a": np.zeros(30_000_000, np.int8)}), "parquet")
    assert "30,000,000 rows" in refusal(upload(small, rows, "rows.parquet"), 400)


def test_a_feather_bomb_is_refused(small: TestClient) -> None:
    out = io.BytesIO()
    table = pa.table({"a": np.zeros(30_000_000)})
    feather.write_feather(table, out, compression="zstd", compression_level=19)
    assert len(out.getvalue()) < SMALL.upload_bytes
    sentence = refusal(upload(small, out.getvalue(), "bomb.feather"), 400)
    assert "30,000,000 rows" in sentence or "unpacks" in sentence


def test_memory_without_end_is_the_end_of_the_reader_only(tmp_path: Path) -> None:
    limits = Limits(reading_bytes=900 * 2**20, rows=10**9, cells=10**9, unpacked_bytes=2**40)
    out = io.BytesIO()
    feather.write_feather(pa.table({"a": np.zeros(150_000_000)}), out, compression="zstd")
    with connected(Settings(keep=tmp_path, limits=limits)) as browser:
        sentence = refusal(upload(browser, out.getvalue(), "bomb.feather"), 400)
        assert "unpacks to more" in sentence
        assert uploaded(browser, b"a,b\n1,2\n3,4\n")


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("noise.csv", np.random.default_rng(0).bytes(5000), "noise.csv looks like no text"),
        (
            "noise.txt.gz",
            gzip.compress(np.random.default_rng(0).bytes(5000), mtime=0),
            "like no text",
        ),
        ("picture.csv", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(500), "picture (PNG)"),
        ("photo.csv", b"\xff\xd8\xff\xe0\0\x10JFIF\0" + bytes(500), "picture (JPEG)"),
        ("moving.tsv", b"GIF89a\1\0\1\0" + bytes(50), "picture (GIF)"),
        ("page.csv", b"%PDF-1.7\n%plain\n1 0 obj\nendobj\n", "page.csv is a PDF"),
        ("frame.txt", pickle.dumps({"a": [1, 2]}), "a pickle"),
        ("frame.csv.gz", gzip.compress(pickle.dumps({"a": [1, 2]}), mtime=0), "a pickle"),
        ("old.csv", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(500), "old Excel"),
        ("new.csv", b"PK\3\4" + bytes(30) + b"xl/workbook.xml", "save the sheet as CSV UTF-8"),
        (
            "open.csv",
            b"PK\3\4" + bytes(30) + b"application/vnd.oasis.opendocument.spreadsheet",
            "save the sheet as CSV UTF-8",
        ),
        ("Table.XLSX", b"PK\3\4", "Table.XLSX is a spreadsheet; save the sheet as CSV UTF-8"),
        ("table.ods", b"PK\3\4", "table.ods is a spreadsheet; save the sheet as CSV UTF-8"),
        ("latin.csv", "name\nJosé\n".encode("latin-1"), "save it as UTF-8"),
        ("book.csv", b"PK\3\4" + bytes(100), "zip archive or a spreadsheet"),
        ("table.csv", as_bytes(clinic(rows=5), "parquet"), "name it with .parquet"),
        ("table.parquet", b"a,b\n1,2\n", "not a Parquet file"),
        ("table.feather", b"a,b\n1,2\n", "not a Feather file"),
        ("table.csv.gz", b"a,b\n1,2\n", "not a gzip file"),
        ("empty.csv", b"", "empty"),
        ("blank.csv", b"\n\n", "empty"),
        ("twice.csv", b"a,a\n1,2\n", "more than one column"),
        ("open.csv", b'a,b\n"1,2\n3,4\n', "quote"),
        ("header.csv", b"a,b\n", "no rows"),
        ("table.docx", b"PK\3\4", "none of .csv"),
        ("table", b"a,b\n1,2\n", "none of .csv"),
        ("model.hhvaem", b"a,b\n1,2\n", "is a model of hhvaem and not a table"),
    ],
)
def test_what_is_no_table_is_refused(
    bare: TestClient, name: str, content: bytes, told: str
) -> None:
    sentence = refusal(upload(bare, content, name), 400)
    assert told in sentence
    # Neither the place nor the name of the file on the server is told.
    assert str(house_of(bare).folder) not in sentence
    assert left_files(bare) == []


def test_a_model_that_is_called_a_table_is_refused(bare: TestClient, model_file: Path) -> None:
    sentence = refusal(upload(bare, model_file.read_bytes(), "glucose.csv"), 400)
    assert "is a model of hhvaem and not a table" in sentence
    # A text that only begins like one is none.
    text = struct.pack("<Q", 2) + b"{}"
    assert "is a model" in refusal(upload(bare, text, "x.csv"), 400)
    assert "is a model" not in refusal(upload(bare, b"12345678{", "x.csv"), 400)


def test_5000_columns_are_refused(bare: TestClient) -> None:
    text = ",".join(f"c{i}" for i in range(5000)) + "\n" + ",".join(["1"] * 5000) + "\n"
    assert "5,000 columns" in refusal(upload(bare, text.encode(), "wide.csv"), 400)


def test_one_row_is_shown_and_not_learned_from(bare: TestClient) -> None:
    table = uploaded(bare, b"a,b\n1,\n")
    assert any("one row" in note for note in table["notes"])
    answer = bare.post(f"/api/tables/{table['id']}/jobs", json={"task": "fill"})
    assert "one row" in refusal(answer, 400)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([10**7, None, 1], pa.date32()),
        pa.array([4 * 10**17, None, 1], pa.timestamp("us")),
        pa.array([10**15, None, 1], pa.timestamp("s")),
        pa.array([1, None, -(10**15)], pa.timestamp("ms")),
        pa.array([1, None, 3], pa.timestamp("us", "Foo/Bar")),
    ],
    ids=["far", "us", "s", "before", "zone"],
)
def test_dates_that_cannot_be_shown_are_refused(bare: TestClient, column: pa.Array) -> None:
    table = pa.table({"when": column, "n": [1, 2, 3]})
    for suffix in ("parquet", "feather"):
        if suffix == "parquet" and column.type == pa.timestamp("s"):
            continue  # which it does not have
        answer = upload(bare, as_bytes(table, suffix), f"x.{suffix}")
        assert "'when'" in refusal(answer, 400)
    assert left_files(bare) == []


def test_the_last_of_all_dates_is_shown(bare: TestClient) -> None:
    days = [dt.date(1, 1, 1), dt.date(2024, 1, 1), None, dt.date(9999, 12, 31)]
    for kind in (pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC")):
        table = pa.table(
            {"when": pa.array(days).cast(pa.timestamp("s")).cast(kind), "n": [1, 2, 3, 4]}
        )
        name = uploaded(bare, as_bytes(table, "parquet"), "x.parquet")["id"]
        rows = bare.get(f"/api/tables/{name}/rows").json()["rows"]
        assert [row[0] and row[0][:10] for row in rows] == [day and str(day) for day in days]
        edges = bare.get(f"/api/tables/{name}/column?column=0").json()["edges"]
        assert edges[-1].startswith("9999-12-31")


def test_no_name_is_a_path(bare: TestClient) -> None:
    for name in ("../../etc/passwd.csv", "/etc/x.csv", "C:\\x\\y.csv", "a\0b.csv", "\n.csv"):
        table = uploaded(bare, b"a,b\n1,2\n3,4\n", name)
        assert "/" not in table["name"]
        assert "\\" not in table["name"]
        assert table["name"].isprintable()
        bare.delete(f"/api/tables/{table['id']}")


def test_tables_are_counted(small: TestClient) -> None:
    taken = [uploaded(small, b"a,b\n1,2\n3,4\n")["id"] for _ in range(SMALL.tables)]
    assert "remove one" in refusal(upload(small, b"a,b\n1,2\n"), 429)
    assert small.delete(f"/api/tables/{taken[0]}").status_code == 204
    assert uploaded(small, b"a,b\n1,2\n3,4\n")


def test_tables_on_their_way_in_are_counted(bare: TestClient) -> None:
    bare.get("/api/about")  # who all of them are
    most = house_of(bare).limits.tables
    with ThreadPoolExecutor(most + 6) as many:
        paths = ["/api/tables/example"] * (most + 6)
        answers = [answer.status_code for answer in many.map(bare.post, paths)]
    assert sorted(answers) == [201] * most + [429] * 6
    assert len(bare.get("/api/state").json()["tables"]) == most


def test_two_files_are_read_at_once(bare: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    bare.get("/api/about")  # who all of them are
    reading, most = 0, 0

    async def read(path: Path, name: str, missing: list[str], out: Path, limits: Limits) -> None:
        nonlocal reading, most
        reading += 1
        most = max(most, reading)
        await asyncio.sleep(0.1)
        feather.write_feather(clinic(rows=5), str(out), compression="uncompressed")
        reading -= 1

    monkeypatch.setattr(routes_tables, "as_plain_table", read)
    with ThreadPoolExecutor(6) as many:
        assert all(many.map(lambda _: uploaded(bare, b"a,b"), range(6)))
    assert most == 2


def test_a_place_is_free_again_after_a_failure(small: TestClient) -> None:
    browser = TestClient(small.app, base_url=ADDRESS)
    for _ in range(SMALL.tables + 1):
        assert "empty" in refusal(upload(browser, b""), 400)
    assert uploaded(browser, b"a,b\n1,2\n3,4\n")
    assert not house_of(small).tables._begun


def test_idle_tables_go_where_others_need_the_room(tmp_path: Path) -> None:
    limits = Limits(all_tables=2)
    with connected(Settings(keep=tmp_path, limits=limits)) as browser:
        house = house_of(browser)
        long_ago = time.time() - limits.idle_seconds - 1
        first, second = (browser.post("/api/tables/example").json()["id"] for _ in range(2))
        other = TestClient(browser.app, base_url=ADDRESS)
        assert "as much as it may" in refusal(other.post("/api/tables/example"), 429)
        house.tables._tables[first].used = long_ago
        # One that is trained on stays, however long nobody has looked at it.
        job = browser.post(f"/api/tables/{first}/jobs", json={"task": "fill"}).json()["id"]
        house.tables._tables[first].used = long_ago
        assert refusal(other.post("/api/tables/example"), 429)
        browser.delete(f"/api/jobs/{job}")
        house.jobs._jobs[job].ended = long_ago
        house.tables._tables[first].used = long_ago
        taken = other.post("/api/tables/example").json()["id"]
        assert refusal(browser.get(f"/api/tables/{first}"), 404)
        # Nothing goes while there is room.
        other.delete(f"/api/tables/{taken}")
        house.tables._tables[second].used = long_ago
        assert other.post("/api/tables/example").status_code == 201
        assert browser.get(f"/api/tables/{second}").status_code == 200


def test_hostile_names_and_texts_come_back_as_they_are(bare: TestClient) -> None:
    name, text = "<img src=x onerror=alert(1)>", "</script><script>alert(1)</script>"
    rows = "".join(f'"{text}",{i}\n"b",{i}\n' for i in range(5))
    table = uploaded(bare, f'"{name}",n\n{rows}'.encode(), f"{name}.csv")
    assert table["columns"][0]["name"] == name
    answer = bare.get(f"/api/tables/{table['id']}/rows?count=1")
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["rows"][0][0] == text
    assert json.loads(answer.text)["total"] == 10
