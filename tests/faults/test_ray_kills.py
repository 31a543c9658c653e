"""Ray's workers, and the command that waits for them, killed at any moment."""

import hashlib
import random
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from campaign import noted, times
from ray_workers import kill_workers
from saved_models import FILES, table
from victims import PROGRAMS, Victims

from hhvaem import write_table
from hhvaem.distributed import connected
from hhvaem.many import RECORD

ray = pytest.importorskip("ray")
pytest.importorskip("ray.data")

MODEL = FILES / "imputer-0.1.hhvaem"
SIZES = (300, 64, 250, 10, 250, 250, 120, 300)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Ray with two cores, which outlives the commands."""
    with connected(cores=2):
        yield ray.get_runtime_context().gcs_address


@pytest.fixture(scope="module")
def victims(address: str) -> Iterator[Victims]:
    """A process that starts commands with the environment of who started Ray, as Ray asks for."""
    assert address
    started = Victims(PROGRAMS)
    yield started
    started.close()


def filled(folder: Path) -> dict[str, bytes]:
    """Give what is in a folder of results, which has nothing else in it that is seen."""
    if not folder.exists():
        return {}
    seen = {path for path in folder.iterdir() if not path.name.startswith(".")}
    parts = {path for path in seen if path.suffix == ".parquet"}
    assert {path.name for path in seen - parts} <= {RECORD}
    return {path.name: hashlib.sha256(path.read_bytes()).digest() for path in parts}


def times_of(folder: Path) -> dict[str, int]:
    """Give when each part was written."""
    return {path.name: path.stat().st_mtime_ns for path in folder.glob("*.parquet")}


def hidden(folder: Path) -> list[Path]:
    """Give what killed writers have left."""
    return list(folder.glob(".*"))


@pytest.mark.slow
def test_a_job_of_ray_is_killed(victims: Victims, address: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for i, rows in enumerate(SIZES):
        write_table(table(rows, seed=1 + i), tmp_path / "in" / f"{i}.parquet")
    fill = ["impute", str(MODEL), "in", "--rows-at-once", "8", "--posterior", "encoder"]
    alone = victims.run(tmp_path, [*fill, "--out", "alone"])
    assert alone.status == 0, alone
    whole = filled(tmp_path / "alone")
    by_ray = [*fill, "--engine", "ray", "--address", address, "--workers", "2"]
    usual = victims.run(tmp_path, [*by_ray, "--out", "usual"])
    assert usual.status == 0, usual
    assert filled(tmp_path / "usual") == whole

    dice, most, number = random.Random(0), times(4, 100), 0
    with noted("job of Ray killed") as facts:
        facts |= {"kills": 0, "of workers": 0, "temporary files left": 0, "ended": 0}
        while facts["kills"] < most or not facts["ended"]:
            out = tmp_path / str(number)
            before = times_of(out)
            after = dice.uniform(0, 1.1 * usual.seconds)
            if facts["kills"] < most and dice.random() < 0.5:
                killed: list[list[int]] = []
                killer = threading.Timer(after, lambda: killed.append(kill_workers()))  # noqa: B023
                killer.start()
                ended = victims.run(tmp_path, [*by_ray, "--out", str(number)])
                killer.cancel()
                killer.join()
                # The command outlives its workers.
                assert ended.status == 0, ended
                facts["kills"] += any(killed)
                facts["of workers"] += any(killed)
            else:
                last = facts["kills"] >= most
                limit = {} if last else {"after": after}
                ended = victims.run(tmp_path, [*by_ray, "--out", str(number)], **limit)
                assert ended.status in (0, -signal.SIGKILL), ended
                facts["kills"] += ended.status != 0
                facts["temporary files left"] += bool(hidden(out))
            now = filled(out)
            # Nothing is there but whole blocks, and what was there was not written again.
            assert now.items() <= whole.items()
            assert before.items() <= times_of(out).items()
            if ended.status == 0:
                assert now == whole
                assert not hidden(out)
                facts["ended"] += 1
                number += 1
