"""`hhvaem paper times` as it is typed."""

import json
from pathlib import Path
from typing import Any

import pytest
from commands import hhvaem, refused


def a_record(table: str, model: str, fold: int, seconds: float, device: str) -> dict[str, Any]:
    """Make a record with the time alone."""
    return {
        "table": table, "model": model, "fold": fold, "train_seconds": seconds, "device": device
    }  # fmt: skip


def write(folder: Path, *records: dict[str, Any]) -> None:
    (folder / "tables.json").write_text(json.dumps({"records": records}))


def test_minutes_stand_beside_the_paper_s(tmp_path: Path) -> None:
    write(
        tmp_path,
        a_record("boston", "HH-VAEM", 0, 60.0, "NVIDIA H200"),
        a_record("boston", "HH-VAEM", 1, 120.0, "NVIDIA H200"),
        a_record("naval", "VAEM", 0, 30.0, "cpu [bold]"),
        a_record("wine", "mean", 0, 0.0, "toaster"),
    )
    done = hhvaem("paper", "times", "--out", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    rows = [line.split() for line in done.stdout.splitlines() if "VAEM" in line]
    assert rows == [
        ["naval", "VAEM", "1", "0.50"],
        ["boston", "HH-VAEM", "2", "1.50", "129.30", "86"],
    ]
    assert "on NVIDIA H200, cpu [bold]." in " ".join(done.stdout.split())
    assert "toaster" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_no_records(tmp_path: Path) -> None:
    path, command = tmp_path / "tables.json", f"`hhvaem paper tables --out {tmp_path}`"
    sentence = refused("paper", "times", "--out", tmp_path)
    assert sentence == f"There is no {path}; {command} makes it."
    write(tmp_path)
    sentence = refused("paper", "times", "--out", tmp_path)
    assert sentence == f"There are no records in {path}; {command} makes them."


def test_runs_of_a_command_that_was_stopped(tmp_path: Path) -> None:
    runs = tmp_path / "tables"
    runs.mkdir()
    (runs / "wine-VAEM.json").write_text("{}")
    sentence = refused("paper", "times", "--out", tmp_path)
    assert sentence == (
        f"There is no {tmp_path}/tables.json yet, though there are runs in {runs}: `hhvaem paper "
        f"tables --out {tmp_path}` writes it when all runs that it is asked for are done; the "
        "same command as before goes on."
    )


@pytest.mark.parametrize(
    "seconds", [-5, float("nan"), float("inf"), True, pytest.param(10**400, id="huge")]
)
def test_times_that_are_none(tmp_path: Path, seconds: float) -> None:
    write(tmp_path, a_record("wine", "VAEM", 0, seconds, "cpu"))
    sentence = refused("paper", "times", "--out", tmp_path)
    assert "tables.json is no file that `hhvaem paper tables` writes" in sentence


def test_a_fold_that_is_there_twice(tmp_path: Path) -> None:
    write(tmp_path, *[a_record("wine", "VAEM", 0, seconds, "cpu") for seconds in (1.0, 2.0)])
    sentence = refused("paper", "times", "--out", tmp_path)
    assert "tables.json is no file that `hhvaem paper tables` writes" in sentence


def test_records_of_baselines_alone(tmp_path: Path) -> None:
    write(tmp_path, a_record("wine", "mean", 0, 1.0, "cpu"))
    sentence = refused("paper", "times", "--out", tmp_path)
    assert sentence.startswith(f"{tmp_path}/tables.json has no record of a model of the paper;")


def test_another_file(tmp_path: Path) -> None:
    (tmp_path / "tables.json").write_text('{"a": 1}')
    sentence = refused("paper", "times", "--out", tmp_path)
    assert "is no file that `hhvaem paper tables` writes" in sentence
    (tmp_path / "folder" / "tables.json").mkdir(parents=True)
    sentence = refused("paper", "times", "--out", tmp_path / "folder")
    assert sentence == f"{tmp_path}/folder/tables.json cannot be read: Is a directory."
