"""Disks, clocks and memory that fail: a sentence, a status, and nothing lost."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from campaign import RESULTS, noted, times
from killable import IMPUTE, OFTEN, Case
from saved_models import table
from victims import Victims

from hhvaem import InputError, load, write_table
from hhvaem.blocks import on_disk
from hhvaem.schema import Column
from hhvaem.storage import fingerprint, read_arrays

Disk = Callable[[str], Path]
FIT = ["fit", "a.parquet", "--preset", "fast", "--steps", "100", "--out"]
WRITERS = {
    "fit": (FIT, "m"),
    "impute to text": ([*IMPUTE, "--out"], "b.csv"),
    "impute to Parquet": ([*IMPUTE, "--out"], "b.parquet"),
}
# A fit takes longer, and is not for every day.
BOTH = ["impute", pytest.param("fit", marks=() if RESULTS else pytest.mark.slow)]
REASONS = {"full": "No space left on device", "read-only": "Read-only file system"}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    write_table(table(), tmp_path / "a.parquet")
    return tmp_path


def fill_up(folder: Path) -> None:
    """Leave not a byte of a file system."""
    free = os.statvfs(folder)
    (folder / "rest").write_bytes(bytes(free.f_bavail * free.f_frsize))


def make_read_only(folder: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", folder], check=True)


FAULTS = {"full": fill_up, "read-only": make_read_only}


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("writer", WRITERS)
def test_a_disk_that_takes_nothing(
    victims: Victims, place: Path, disk: Disk, writer: str, fault: str
) -> None:
    arguments, name = WRITERS[writer]
    there = disk("size=64k")
    (there / name).write_bytes(b"old")
    FAULTS[fault](there)
    before = content(there)
    with noted(f"{writer}, disk {fault}") as facts:
        ended = victims.run(place, [*arguments, str(there / name)])
        assert ended.status == 1, ended
        assert ended.said.startswith(f"Error: {there / name} cannot be written: {REASONS[fault]}")
        assert content(there) == before
        facts["tried"] = 1


@pytest.mark.parametrize("fault", FAULTS)
def test_saving_to_a_disk_that_takes_nothing(place: Path, disk: Disk, fault: str) -> None:
    there = disk("size=64k")
    model = load(IMPUTE[1])
    (there / "m").write_bytes(b"old")
    FAULTS[fault](there)
    before = content(there)
    with pytest.raises(InputError, match=f"m cannot be written: {REASONS[fault]}"):
        model.save(there / "m")
    assert content(there) == before


@pytest.mark.parametrize("fault", FAULTS)
def test_a_disk_for_snapshots_that_takes_nothing(
    victims: Victims, place: Path, disk: Disk, fault: str
) -> None:
    """One that is full ends no training; of one that is read-only it is told before."""
    there = disk("size=64k")
    FAULTS[fault](there)
    before = content(there)
    with noted(f"fit, disk for snapshots {fault}") as facts:
        facts["tried"] = 1
        ended = victims.run(place, [*FIT, "m", "--snapshots", str(there)], first=OFTEN)
        assert content(there) == before
        if fault == "read-only":
            assert ended.status == 1, ended
            assert REASONS[fault] in ended.said
            return
        assert ended.status == 0, ended
        assert f"Note: There is no new snapshot: {there}" in ended.stderr
        assert REASONS[fault] in ended.stderr
        ended = victims.run(place, [*FIT, "whole"])
        one, other = (read_arrays(place / name)[0] for name in ("m", "whole"))
        assert fingerprint(one) == fingerprint(other)


def test_a_disk_for_blocks_that_is_full(disk: Disk) -> None:
    """Rows that come a few at a time, so that each write is smaller than what Python gathers."""
    there = disk("size=128k")
    columns = tuple(Column(name, "real") for name in "abcd")
    chunks = (np.ones((100, 4)) for _ in range(200))
    with pytest.raises(InputError, match=f"cannot be put into blocks in .*{REASONS['full']}"):
        on_disk(columns, (), chunks, there, count=4, seed=0)


# The clock on the wall is never the same, up to ten years back or forth.
CLOCK = """
import random, time
dice, real = random.Random(0), time.time
time.time = lambda: real() + dice.uniform(-3e8, 3e8)
time.time_ns = lambda: int(1e9 * time.time())
"""


@pytest.mark.parametrize("name", BOTH)
def test_a_clock_that_jumps(victims: Victims, tmp_path: Path, name: str) -> None:
    case = Case(victims, tmp_path, name)
    with noted(f"{name}, clock jumps") as facts:
        facts["tried"] = times(1, 10)
        for _ in range(times(1, 10)):
            ended = case.run(first=CLOCK)
            assert ended.status == 0, ended
            case.check(done=True)
            case.place = case.new_place()


# MiB beyond what a process has that has imported all: from next to nothing to nearly enough.
LIMITS = [16 * 1.3**i for i in range(20)]


@pytest.mark.parametrize("name", BOTH)
def test_memory_that_is_short(victims: Victims, tmp_path: Path, name: str) -> None:
    """XLA itself ends a process that has no memory for it; then nothing is lost, at least."""
    case = Case(victims, tmp_path, name)
    with noted(f"{name}, memory short") as facts:
        facts |= {"tried": 0, "told in a sentence": 0, "aborted by XLA": 0, "ended": 0}
        for limit in LIMITS[:: 1 if RESULTS else 9]:
            ended = case.run(limits={"RLIMIT_AS": int(limit * 2**20)})
            assert "Traceback" not in ended.stderr, ended
            case.check(done=ended.status == 0)
            facts["tried"] += 1
            facts["told in a sentence"] += ended.status == 1
            facts["aborted by XLA"] += ended.status not in (0, 1)
            facts["ended"] += ended.status == 0
            if ended.status == 1:
                assert ended.said.startswith("Error: ")
        assert facts["ended"] < facts["tried"]
        ended = case.run()
        assert ended.status == 0, ended
        case.check(done=True)


LACKING = {
    "Python": "import numpy as np; np.zeros(2**50)",
    "Arrow": "import pyarrow as pa; pa.allocate_buffer(2**60)",
    "XLA": "import jax.numpy as jnp; jnp.zeros(2**43, jnp.int8).block_until_ready()",
}


@pytest.mark.parametrize("where", LACKING)
def test_memory_that_a_command_lacks_is_told(victims: Victims, place: Path, where: str) -> None:
    """What a table of any size would ask for, asked for while one is read."""
    first = f"""
from hhvaem.cli import fit
from hhvaem.files import told
def source_of(path, *_):
    with told(path, "read"):
        {LACKING[where]}
fit.source_of = source_of
"""
    ended = victims.run(place, [*FIT, "m"], first=first)
    assert ended.status == 1, ended
    said = "Error: There is not enough memory for this; use fewer rows, columns or draws."
    assert ended.said == said
    assert not (place / "m").exists()
