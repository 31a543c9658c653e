"""`hhvaem paper toys`: results that are whole."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from hhvaem.cli.toys import toys as command
from hhvaem.errors import InputError
from hhvaem.paper import illustration, toys


def invoke(*arguments: str) -> Any:
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, list(arguments), catch_exceptions=False)


def test_results_that_cannot_be_written_leave_the_old_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = tmp_path / "toys.json"
    numbers.write_text('{"toys": {}}')
    for module in (toys, illustration):
        monkeypatch.setattr(module, "experiment", lambda: {"new": 1})

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match=r"toys\.json cannot be written: No space left"):
        invoke("--out", str(tmp_path))
    assert numbers.read_text() == '{"toys": {}}'
    assert os.listdir(tmp_path) == ["toys.json"]


def test_numbers_do_not_take_the_place_of_something_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toys, "experiment", None)
    other = tmp_path / "reparam.json"
    other.write_text('{"variants": {}}')
    with pytest.raises(InputError, match=r"reparam\.json has results of another command, which"):
        invoke("--out", str(tmp_path), "--results", str(other))
    assert other.read_text() == '{"variants": {}}'
    other.write_text("my notes")
    with pytest.raises(InputError, match=r"reparam\.json is no file that `hhvaem paper toys`"):
        invoke("--out", str(tmp_path), "--results", str(other))
    assert other.read_text() == "my notes"
    with pytest.raises(InputError, match=r"illustration\.png is in the place of a figure"):
        invoke("--out", str(tmp_path), "--results", str(tmp_path / "illustration.png"))


def test_a_device_is_refused_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toys, "experiment", None)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="pipe is a folder or a device; name a file"):
        invoke("--out", str(tmp_path), "--results", str(tmp_path / "pipe"))
