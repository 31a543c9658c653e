"""Files that vanish while they are read: all rows are right, or a sentence says why not."""

import contextlib
import errno
import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from campaign import noted
from killable import IMPUTE
from pyarrow import feather, parquet
from saved_models import FILES, table
from victims import Victims

from hhvaem import InputError, load, streaming, write_table
from hhvaem.streaming import read_chunks

SUFFIXES = (".csv", ".csv.gz", ".parquet", ".feather")
ROWS = 30_000


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def overwrite(path: Path) -> None:
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.write(b"\xff" * size)


FAULTS: dict[str, Callable[[Path], None]] = {
    "removed": Path.unlink,
    "cut": cut,
    "emptied": lambda path: os.truncate(path, 0),
    "overwritten": overwrite,
    "made a folder": lambda path: (path.unlink(), path.mkdir())[1],
}


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let files be read in many parts, as large ones are."""
    monkeypatch.setattr(streaming, "_BLOCK", 2**14)


def numbers() -> pa.Table:
    rng = np.random.default_rng(0)
    return pa.table({"a": rng.normal(size=ROWS), "b": rng.integers(0, 9, ROWS)})


def write(path: Path) -> None:
    """Write a table in many parts, so that not all are read at once."""
    if path.suffix == ".parquet":
        parquet.write_table(numbers(), path, row_group_size=500)
    elif path.suffix == ".feather":
        feather.write_feather(numbers(), path, chunksize=500)
    else:
        write_table(numbers(), path)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_that_is_lost_while_it_is_read(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    with noted(f"{suffix} lost while it is read") as facts:
        facts |= {"tried": 0, "refused": 0, "all rows": 0}
        for fault in FAULTS.values():
            for taken in (1, 100):
                write(path)
                chunks = read_chunks(path, 100)
                found = [next(chunks) for _ in range(taken)]
                fault(path)
                facts["tried"] += 1
                said = ""
                try:
                    found += chunks
                except InputError as error:
                    said = str(error)
                if said:
                    assert str(path) in said
                    facts["refused"] += 1
                else:
                    assert pa.concat_tables(found).to_pydict() == numbers().to_pydict()
                    facts["all rows"] += 1
                path.rmdir() if path.is_dir() else path.unlink(missing_ok=True)
        assert facts["refused"]


class Dropping(io.BytesIO):
    """A file on a disk that fails."""

    def __init__(self, content: bytes, reads: int) -> None:
        super().__init__(content)
        self._reads = reads

    def read(self, size: int | None = -1) -> bytes:
        self._reads -= 1
        if self._reads < 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().read(size)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("reads", [0, 1, 5, 30])
def test_a_disk_that_fails_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads: int
) -> None:
    path = tmp_path / "a.csv"
    write_table(numbers(), path)

    @contextlib.contextmanager
    def failing(path: Path) -> Iterator[io.BytesIO]:
        yield Dropping(path.read_bytes(), reads)

    monkeypatch.setattr(streaming, "unpacked", failing)
    with pytest.raises(InputError, match=r"a\.csv cannot be read: Input/output error\.$"):
        list(read_chunks(path, 100))


CUT = """
import os
from hhvaem import streaming
streaming._BLOCK = 2**14
write = streaming.Chunks.write
def wrote(self, table):
    write(self, table)
    os.truncate("a.csv", os.stat("a.csv").st_size // 2)
streaming.Chunks.write = wrote
"""


def test_a_table_that_is_cut_while_it_is_filled(victims: Victims, tmp_path: Path) -> None:
    write_table(table(4_000), tmp_path / "a.csv")
    (tmp_path / "out.csv").write_bytes(b"old")
    typed = ["a.csv" if word == "a.parquet" else word for word in IMPUTE]
    ended = victims.run(tmp_path, [*typed, "--out", "out.csv"], first=CUT)
    assert ended.status == 1, ended
    assert ended.said == "Error: a.csv has changed while it was read; read it again."
    assert (tmp_path / "out.csv").read_bytes() == b"old"
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("fault", ["cut", "emptied", "overwritten"])
def test_a_model_that_is_lost_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    path = tmp_path / "a"
    path.write_bytes((FILES / "imputer-0.1.hhvaem").read_bytes())
    read = Path.read_bytes

    def lost(self: Path) -> bytes:
        FAULTS[fault](self)
        return read(self)

    monkeypatch.setattr(Path, "read_bytes", lost)
    with pytest.raises(InputError, match="a is damaged or no file of hhvaem"):
        load(path)
