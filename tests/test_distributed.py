"""Ray fills what one process fills, and loses nothing with its workers."""

import contextlib
import hashlib
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from commands import hhvaem, refused
from ray_workers import kill_workers
from saved_models import FILES, table

from hhvaem import Imputer, InputError, distributed, load, write_table
from hhvaem.distributed import _Blocks, _check_answers, connected, impute
from hhvaem.many import RECORD, Job, Outcome, found_files, planned
from hhvaem.parts import Filling, by_name

ray = pytest.importorskip("ray")
pytest.importorskip("ray.data")

MODEL, REGRESSOR = FILES / "imputer-0.1.hhvaem", FILES / "regressor-0.1.hhvaem"
CHEAP = ("--posterior", "encoder", "--rows-at-once", "4")


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """Ray with two cores, for all tests here."""
    with connected(cores=2):
        yield


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a folder of files."""
    (tmp_path / "in").mkdir()
    for i, rows in enumerate((150, 64, 10)):
        write_table(table(rows, seed=1 + i), tmp_path / "in" / f"{i}.parquet")
    return tmp_path


def fill(place: Path, out: str, *options: Any) -> dict[str, bytes]:
    """Fill the files, and give what each part holds."""
    done = hhvaem("impute", MODEL, place / "in", "--out", place / out, *options, "--json")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["written"] == facts["parts"] == len(parts(place / out))
    return parts(place / out)


def parts(folder: Path) -> dict[str, bytes]:
    found = sorted(folder.glob("*.parquet"))
    assert {path.name for path in folder.iterdir()} - {path.name for path in found} <= {RECORD}
    return {path.name: hashlib.sha256(path.read_bytes()).digest() for path in found}


@pytest.mark.slow
def test_rows_are_those_of_the_imputer() -> None:
    known = table(300, seed=5)
    imputer = load(MODEL)
    own = imputer.transform(known, draws=2)
    # Columns in another order, and one that the model does not know; of some blocks none is known.
    known = pa.concat_tables([known, table(4).set_column(0, "x", pa.nulls(4, pa.float64()))])
    number = pa.array(range(304))
    given = known.select(known.column_names[::-1]).append_column("number", number)
    blocks = [given.slice(first, 60) for first in range(0, 304, 60)]
    with pytest.warns(UserWarning, match="passed through as they are: 'number'"):
        dataset = impute(ray.data.from_arrow(blocks), imputer, draws=2, workers=2)
    full = pa.concat_tables(ray.get(dataset.to_arrow_refs()), promote_options="permissive")
    full = full.sort_by("number")
    assert full.column("number").to_pylist() == number.to_pylist()
    assert full.slice(0, 300).select(own.column_names).to_pylist() == own.to_pylist()
    assert full.column("x").null_count == 0


@pytest.mark.usefixtures("as_users_have_it")
def test_what_cannot_be_filled_is_told_at_once(tmp_path: Path) -> None:
    dataset = ray.data.from_arrow(table(8))
    write_table(table(8), tmp_path / "a.parquet")
    wrong: dict[str, Any]
    for wrong, said in (
        ({"dataset": ray.data.from_items([])}, "The dataset is empty and has no columns"),
        ({"dataset": table(8)}, "must be one of Ray, and not of type Table; make it one"),
        ({"dataset": [{"x": 1.0}]}, "must be one of Ray, and not of type list"),
        ({"model": Imputer}, "must be a fitted Imputer, .*, and not <class 'hhvaem"),
        ({"model": load(REGRESSOR)}, "must be a fitted Imputer, .*, and not Regressor"),
        ({"model": 5}, "must be a fitted Imputer, .*, and not 5"),
        ({"model": tmp_path / "a.parquet"}, f"^{tmp_path}/a.parquet "),
        ({"dataset": ray.data.from_items([{"x": 1.0}])}, "The dataset lacks 'n', 'city'"),
        ({"model": REGRESSOR}, "This is a Regressor, which fills no holes"),
        ({"model": "none.hhvaem"}, "none.hhvaem cannot be read: No such file"),
        ({"workers": 3}, "Ray has 2 cores, which is too few for 3 workers"),
        ({"workers": 0}, "workers=0 must be a whole number of at least 1"),
        ({"draws": 0}, "draws=0 must be a whole number of at least 1"),
        ({"posterior": "best"}, "posterior"),
    ):
        with pytest.raises(InputError, match=said):
            impute(**{"dataset": dataset, "model": MODEL, **wrong})


def test_both_engines_write_the_same(place: Path) -> None:
    draws = ("--draws", "2")
    own = fill(place, "own", *CHEAP, *draws)
    assert len(own) == 5
    assert fill(place, "out", *CHEAP, *draws, "--engine", "ray", "--workers", "2") == own


def test_a_file_that_turns_bad_is_told_and_one_engine_goes_on_for_the_other(place: Path) -> None:
    bad = table(64, seed=9)
    cells = [np.inf if i == 50 else cell for i, cell in enumerate(bad["x"].to_pylist())]
    write_table(bad.set_column(0, "x", pa.array(cells)), place / "in" / "1.parquet")
    typed = ("impute", MODEL, place / "in", "--out", place / "out", *CHEAP)
    said = refused(*typed, "--engine", "ray", "--workers", "1")
    assert said.startswith(f"{place}/in/1.parquet: Column 'x' has an infinite value in row 50")
    assert len(parts(place / "out")) == 4
    assert refused(*typed) == said


def test_rows_that_kill_every_worker_are_left_out(place: Path) -> None:
    out = place / "out"
    fill(place, "out", *CHEAP)
    job = _job(place, out)
    for number in (1, 3):
        job.blocks[number].out.unlink()
    worker = _Blocks(MODEL.read_bytes(), job)
    # As if four had died at it.
    tries = out / f".hhvaem.{job.blocks[1].out.name}.tries"
    tries.write_bytes(b"....")
    told = worker(pa.table({"block": [0, 1, 3]}))["outcome"].to_pylist()
    first, second, last = map(Outcome.from_json, told)
    assert (first.error, last.error) == (None, None)
    assert first.filled > 0
    assert f"{place}/in/0.parquet has ended 4 workers at its rows from 64" in str(second.error)
    assert len(parts(out)) == 4


def _job(place: Path, out: Path) -> Job:
    filling = Filling(posterior="encoder")
    return planned(found_files(place / "in", out), out, by_name(load(MODEL)), filling, 4)


@pytest.mark.slow
def test_nothing_is_lost_or_repeated_where_workers_are_killed(place: Path) -> None:
    for i in range(3, 9):
        write_table(table(250, seed=1 + i), place / "in" / f"{i}.parquet")
    how = ("--rows-at-once", "8")
    own = fill(place, "own", *how)
    written: dict[str, int] = {}
    killed: list[int] = []

    def kill() -> None:
        while len(written) < 3:
            time.sleep(0.01)
            with contextlib.suppress(FileNotFoundError):
                written.update({p.name: p.stat().st_mtime_ns for p in _parts(place / "out")})
        killed.extend(kill_workers())

    killer = threading.Thread(target=kill)
    killer.start()
    done = fill(place, "out", *how, "--engine", "ray", "--workers", "2")
    killer.join()
    assert len(killed) == 2
    assert 3 <= len(written) < len(own)
    assert done == own
    # What was there when they were killed is what is there now.
    now = {path.name: path.stat().st_mtime_ns for path in _parts(place / "out")}
    assert {name: now[name] for name in written} == written


def _parts(folder: Path) -> list[Path]:
    return list(folder.glob("*.parquet"))


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1:1", "nowhere", "127.0.0.1:99999", "silent", "web", "other", "10..0.5:6379",
        f"{'x' * 64}:6379", "[::1]:1",
    ],
)  # fmt: skip
def test_an_address_at_which_nothing_answers(
    place: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(distributed, "_REACHED", 0.5)
    monkeypatch.setattr(distributed, "_CALLED", 0.5)
    # The last one speaks HTTP/2, as Ray does.
    answers = {
        "silent": b"",
        "web": b"HTTP/1.1 400 Bad Request\r\n\r\n",
        "other": b"\0\0\0\4" + bytes(5),
    }
    if address in answers:
        server = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=_answer, args=(server, answers[address]), daemon=True).start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
    said = refused(
        "impute", MODEL, place / "in", "--out", place / "new", "--engine", "ray",
        "--address", address,
    )  # fmt: skip
    assert address[:30] in said
    assert "label" not in said
    assert "not known" not in said  # as of a host named [::1]
    assert not (place / "new").exists()


def _answer(server: socket.socket, answer: bytes) -> None:
    with server:
        for _ in range(2):  # Ray itself is the second to ask
            # Who asks may go before all is read.
            with server.accept()[0] as connection, contextlib.suppress(ConnectionError):
                connection.sendall(answer)
                while connection.recv(100):
                    pass


def test_an_empty_address_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(InputError, match="'' is no address of Ray"), connected(""):
        pass


def test_more_workers_than_cores(place: Path) -> None:
    typed = ("impute", MODEL, place / "in", "--out", place / "new", "--engine", "ray")
    said = refused(*typed, "--workers", "3")
    assert said == "Ray has 2 cores, which is too few for 3 workers."
    assert not (place / "new").exists()


def test_the_address_of_ray() -> None:
    _check_answers(ray.get_runtime_context().gcs_address)


def test_workers_can_say_how_many_cores_jax_may_use() -> None:
    """JAX is not there before a worker has said so."""
    code = "import sys, hhvaem.distributed; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
