"""`hhvaem serve` as a person starts it, in a process of its own."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import httpx2 as httpx
import pytest
from commands import refused

from hhvaem.cli.serve import _check_keep
from hhvaem.errors import InputError
from hhvaem.web import folder
from hhvaem.web.running import GRACE, bound

# Also where the tests were started by something that outlives its terminal.
MAIN = "import signal; signal.signal(signal.SIGHUP, signal.{}); from hhvaem.cli import main; main()"
COMMAND = [sys.executable, "-c", MAIN.format("SIG_DFL"), "serve", "--no-open"]
OUTLIVING = [sys.executable, "-c", MAIN.format("SIG_IGN"), "serve", "--no-open"]


@contextmanager
def started(
    folder: Path, *options: str, command: Sequence[str] = COMMAND
) -> Iterator[tuple[Any, str]]:
    """Start a server, and give its process and its address."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "TMPDIR": str(folder)}
    process = subprocess.Popen(
        [*command, "--port", "0", *options], cwd=folder, env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        found = re.search(r"http://\S+", line)
        assert found, line + process.stdout.read()
        yield process, found[0]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_the_page_is_served_and_ends_with_ctrl_c_and_the_terminal(
    tmp_path: Path, number: signal.Signals
) -> None:
    with started(tmp_path) as (process, address):
        with httpx.Client(base_url=address) as browser:
            assert "text/html" in browser.get("/").headers["content-type"]
            assert browser.post("/api/tables/example").status_code == 201
            assert "server" not in browser.get("/").headers
        assert any(tmp_path.glob("hhvaem-serve-*/tables/*/table.feather"))
        process.send_signal(number)
        out, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "uploaded tables are removed" in out
    assert list(tmp_path.iterdir()) == []


def test_who_listens_to_a_job_hears_its_end_when_the_server_is_stopped(tmp_path: Path) -> None:
    with started(tmp_path) as (process, address), httpx.Client(base_url=address) as browser:
        table = browser.post("/api/tables/example").json()["id"]
        job = browser.post(f"/api/tables/{table}/jobs", json={"task": "fill"}).json()["id"]
        with browser.stream("GET", f"/api/jobs/{job}/events", timeout=30) as answer:
            lines = answer.iter_lines()
            assert next(lines) == "event: job"
            process.send_signal(signal.SIGTERM)
            assert "event: end" in list(lines)
        begun = time.monotonic()
        process.communicate(timeout=30)
        # Open streams are not waited for as long as open requests may be.
        assert time.monotonic() - begun < GRACE
    assert process.returncode == 0


@pytest.mark.slow
def test_a_finished_model_is_kept_and_its_place_told(tmp_path: Path) -> None:
    with started(tmp_path) as (process, address):
        with httpx.Client(base_url=address, timeout=60) as browser:
            table = browser.post("/api/tables/example").json()["id"]
            order = {"task": "fill", "preset": "fast", "max_steps": 20}
            path = f"/api/tables/{table}/jobs"
            job = browser.post(path, json=order).json()["id"]
            end = time.monotonic() + 240
            while browser.get(f"/api/jobs/{job}").json()["state"] != "done":
                assert time.monotonic() < end
                time.sleep(0.5)
            browser.post(path, json={**order, "preset": "default"})
            time.sleep(2)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=30)
    (kept,) = (tmp_path / "hhvaem-models").iterdir()
    assert kept.name in out
    assert not any(tmp_path.glob("hhvaem-serve-*"))


@pytest.mark.slow
def test_two_gigabytes_are_refused_while_they_arrive(tmp_path: Path) -> None:
    block = b"1,2\n" * 2**18

    def blocks() -> Iterator[bytes]:
        yield b"a,b\n"
        for _ in range(2048):
            yield block

    with (
        started(tmp_path) as (_, address),
        httpx.Client(base_url=address, timeout=300) as browser,
    ):
        answer = browser.post("/api/tables?name=large.csv", content=blocks())
        assert answer.status_code == 413
        assert "larger than the 256 MB" in answer.json()["error"]
        left = [p for p in tmp_path.glob("hhvaem-serve-*/tables/**/*") if p.is_file()]
        assert left == []


def test_what_a_killed_server_left_is_removed_by_the_next(tmp_path: Path) -> None:
    with started(tmp_path) as (process, address):
        httpx.post(f"{address}api/tables/example")
        process.kill()
        process.wait()
    (left,) = tmp_path.glob("hhvaem-serve-*")
    with started(tmp_path) as (process, _):
        assert not left.exists()
        # And that of one at work is not.
        (own,) = tmp_path.glob("hhvaem-serve-*")
        with started(tmp_path):
            assert own.exists()


def test_a_server_that_was_told_to_outlives_its_terminal(tmp_path: Path) -> None:
    with started(tmp_path, command=OUTLIVING) as (process, address):
        process.send_signal(signal.SIGHUP)
        assert httpx.get(address).status_code == 200
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    assert process.returncode == 0


def test_another_host_has_a_token(tmp_path: Path) -> None:
    with started(tmp_path, "--host", "0.0.0.0") as (process, address):
        there = re.search(r"http://(\S+?):(\d+)/\?token=[\w-]+", process.stdout.readline())
        bare, _, token = address.partition("?token=")
        assert len(token) >= 20
        # Others cannot come in by the name that only this machine has for itself.
        assert there
        assert there[0].endswith(f"/?token={token}")
        assert there[1] == socket.gethostname()
        named = {"Host": f"{there[1]}:{there[2]}"}
        assert httpx.get(address, headers=named).status_code == 200
        assert httpx.get(bare).status_code == 401
        answer = httpx.get(address)
        assert answer.status_code == 200
        assert "set-cookie" in answer.headers


@pytest.mark.slow
@pytest.mark.skipif(not (shutil.which("curl") and shutil.which("jq")), reason="no curl or jq")
def test_the_example_for_programs_works(tmp_path: Path) -> None:
    docs = Path(__file__).parents[2] / "docs" / "serve.md"
    found = re.search(r"```sh\n(python -c.*?)```", docs.read_text("utf-8"), re.DOTALL)
    assert found
    python = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with started(tmp_path) as (_, address):
        ended = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", found[1].replace("http://127.0.0.1:8765/", address)],
            cwd=tmp_path, env={**os.environ, "PATH": python}, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
    ((told,),) = json.loads(ended.stdout)["predictions"]
    assert told["target"] == "glucose"
    assert told["low"] < told["value"] < told["high"]


def test_a_token_of_any_letters_is_in_the_address(tmp_path: Path) -> None:
    token = "a&b#c d+e%20/"
    with started(tmp_path, "--token", token) as (_, address):
        assert urlsplit(address).fragment == ""
        answer = httpx.get(address)
        assert answer.status_code == 200
        assert "set-cookie" in answer.headers


def test_nothing_is_swept_where_nothing_is_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = tmp_path / f"{folder.PREFIX}left"
    left.mkdir()
    (left / "lock").touch()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(folder, "sys", SimpleNamespace(platform="win32"))
        with folder.private_folder():
            assert left.exists()
    with folder.private_folder():
        assert not left.exists()


def test_a_port_that_is_taken_is_not_taken_twice() -> None:
    with bound("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(InputError, match=f"Port {port}"):
            bound("127.0.0.1", port)


def test_bad_options_are_refused(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("a,b\n1,2\n")
    assert "table.csv" in refused("serve", tmp_path / "table.csv", "--no-open")
    assert "No such file" in refused("serve", tmp_path / "none.hhvaem", "--no-open")
    assert "token" in refused("serve", "--token", "short", "--no-open")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"Port {port}" in refused("serve", "--port", port, "--no-open")
    assert "host is empty" in refused("serve", "--host", "", "--no-open")
    told = refused("serve", "--host", "no.such.host.invalid", "--no-open")
    assert "no.such.host.invalid is no address of this machine" in told
    assert "--host" in told
    assert "--port" not in told


def test_a_folder_that_models_cannot_be_kept_in_is_refused(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("a,b\n1,2\n")
    sealed = tmp_path / "sealed"
    sealed.mkdir(mode=0o500)
    folders = [tmp_path / "table.csv", tmp_path / "table.csv" / "sub", tmp_path / ("k" * 300)]
    if not os.access(sealed, os.W_OK):  # nothing is sealed for root
        folders += [sealed, sealed / "sub"]
    for folder_ in folders:
        told = refused("serve", "--keep", folder_, "--no-open")
        assert f"Models cannot be kept in {folder_}" in told
        assert "--keep" in told


def test_nothing_is_left_of_trying_a_folder(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    _check_keep(tmp_path / "new" / "deep")
    _check_keep(there)
    assert list(tmp_path.rglob("*")) == [there]
