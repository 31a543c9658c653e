"""Whoever writes a file, it is there whole or not at all, and nothing else stays behind."""

import errno
import fcntl
import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hhvaem.atomic import check_file, replacing, sweep
from hhvaem.datasets.download import put
from hhvaem.errors import InputError
from hhvaem.files import write_table
from hhvaem.paper.records import write_json
from hhvaem.storage import write_arrays

Writer = Callable[[Path], None]
WRITERS: dict[str, Writer] = {
    "table": lambda path: write_table(pa.table({"a": [1]}), path),
    "arrays": lambda path: write_arrays(path, {"a": np.ones(1)}, {}),
    "download": lambda path: put(b"1", path),
    "results": lambda path: write_json({"a": 1}, path),
}
FOLLOWING = [name for name in WRITERS if name != "download"]


def write(path: Path, content: bytes) -> None:
    with replacing(path) as file:
        file.write(content)


@pytest.mark.parametrize("name", WRITERS)
def test_permissions_are_kept_and_new_ones_are_usual(tmp_path: Path, name: str) -> None:
    path, usual = tmp_path / "a.csv", tmp_path / "usual"
    usual.touch()
    WRITERS[name](path)
    assert path.stat().st_mode == usual.stat().st_mode
    path.chmod(0o600)
    path.write_text("old")
    WRITERS[name](path)
    assert path.read_bytes() != b"old"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("moment", ["fsync", "replace"])
def test_an_interrupted_writer_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, moment: str
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("old")

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, moment, interrupted)
    with pytest.raises(KeyboardInterrupt):
        WRITERS[name](path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", WRITERS)
def test_bytes_then_the_name_are_made_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    done: list[str] = []
    fsync, replace = os.fsync, os.replace

    def noted_fsync(number: int) -> None:
        status = os.fstat(number)
        done.append("folder" if stat.S_ISDIR(status.st_mode) else f"{status.st_size} bytes")
        fsync(number)

    def noted_replace(beside: Path, place: Path) -> None:
        done.append("replace")
        replace(beside, place)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "replace", noted_replace)
    WRITERS[name](tmp_path / "a.csv")
    assert done == [f"{(tmp_path / 'a.csv').stat().st_size} bytes", "replace", "folder"]


@pytest.mark.parametrize("name", FOLLOWING)
def test_links_are_followed(tmp_path: Path, name: str) -> None:
    (tmp_path / "there").mkdir()
    path, link = tmp_path / "there" / "a.csv", tmp_path / "link.csv"
    link.symlink_to(path)
    for content in (b"", b"old"):  # first it points nowhere
        WRITERS[name](link)
        assert link.is_symlink()
        assert path.read_bytes() != content
        path.write_bytes(b"old")
    assert sorted(os.listdir(tmp_path)) == ["link.csv", "there"]


def test_a_download_takes_the_place_of_a_link(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "link").symlink_to("precious")
    put(b"new", tmp_path / "link")
    assert not (tmp_path / "link").is_symlink()
    assert (tmp_path / "link").read_text() == "new"
    assert (tmp_path / "precious").read_text() == "precious"


@pytest.mark.parametrize("name", ["arrays", "download", "results"])
def test_what_is_no_file_is_not_replaced(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "pipe", tmp_path / "folder"):
        for use in (WRITERS[name], check_file):
            with pytest.raises(InputError, match=f"^{path} is a folder or a device; name a file"):
                use(path)
    assert (tmp_path / "pipe").is_fifo()
    assert sorted(os.listdir(tmp_path)) == ["folder", "pipe"]


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_that_must_not_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("precious")
    monkeypatch.setattr(os, "access", lambda *_: False)  # of a real one root would not notice
    with pytest.raises(InputError, match=f"^{path} cannot be written: its permissions forbid it"):
        WRITERS[name](path)
    assert path.read_text() == "precious"


def test_results_say_why_they_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match=r"a\.json cannot be written: No such file or dir"):
        write_json({}, tmp_path / "none" / "a.json")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    write_json({"a": [1, 2]}, tmp_path / "a.json")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match=r"a\.json cannot be written: No space left on device\.$"):
        write_json({}, tmp_path / "a.json")
    assert json.loads((tmp_path / "a.json").read_text()) == {"a": [1, 2]}
    assert os.listdir(tmp_path) == ["a.json"]


KILLED = """
import os, signal, sys
from pathlib import Path
from hhvaem.atomic import replacing

with replacing(Path(sys.argv[1])) as file:
    file.write(sys.argv[2].encode())
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("content", ["", "half of i"])
def test_what_a_killed_writer_leaves_is_swept(tmp_path: Path, content: str) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    done = subprocess.run([sys.executable, "-c", KILLED, path, content], timeout=120)
    assert done.returncode == -9
    [left] = tmp_path.glob(".hhvaem.*.tmp")
    assert left.read_text() == content
    (tmp_path / ".other.tmp").touch()
    sweep(tmp_path)
    assert path.read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == [".other.tmp", "a"]


@pytest.mark.parametrize("content", ["", "half of i"])
def test_a_writer_at_work_is_not_swept(tmp_path: Path, content: str) -> None:
    with replacing(tmp_path / "a") as file:
        file.write(content.encode())
        file.flush()
        sweep(tmp_path)
        write(tmp_path / "b", b"b")
    assert (tmp_path / "a").read_text() == content
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


@pytest.mark.parametrize("sweeps", [1, 3])
def test_swept_before_it_has_its_lock_a_file_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sweeps: int
) -> None:
    touch, made = Path.touch, []

    def touched(path: Path, **options: Any) -> None:
        touch(path, **options)
        made.append(path)
        if len(made) <= sweeps:
            sweep(tmp_path)

    monkeypatch.setattr(Path, "touch", touched)
    write(tmp_path / "a", b"whole")
    assert len(made) == sweeps + 1
    assert (tmp_path / "a").read_bytes() == b"whole"
    assert os.listdir(tmp_path) == ["a"]


def test_a_file_locked_by_a_sweeper_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that has the lock and has not yet removed the file."""
    touch, made = Path.touch, []

    def touched(path: Path, **options: Any) -> None:
        touch(path, **options)
        made.append(path)
        if len(made) == 1:
            file = path.open("r+b")
            fcntl.flock(file, fcntl.LOCK_EX)

            def remove() -> None:
                path.unlink()
                file.close()

            threading.Timer(0.1, remove).start()

    monkeypatch.setattr(Path, "touch", touched)
    write(tmp_path / "a", b"whole")
    assert len(made) == 2
    assert (tmp_path / "a").read_bytes() == b"whole"
    assert os.listdir(tmp_path) == ["a"]


def test_without_locks_nothing_is_swept_and_files_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    (tmp_path / ".hhvaem.left.tmp").touch()
    monkeypatch.setattr(fcntl, "flock", none)
    write(tmp_path / "a", b"whole")
    assert (tmp_path / "a").read_bytes() == b"whole"
    assert sorted(os.listdir(tmp_path)) == [".hhvaem.left.tmp", "a"]
