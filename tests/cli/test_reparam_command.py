"""`hhvaem paper reparam`: what it prints while it works, and results that are whole."""

import errno
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from hhvaem import train
from hhvaem.cli.reparam import reparam as command
from hhvaem.errors import InputError
from hhvaem.paper import reparam


def invoke(*arguments: str) -> Any:
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, list(arguments), catch_exceptions=False)


class StoppedError(Exception):
    """Training is over, and nothing is to be drawn."""


def lines_printed(
    monkeypatch: pytest.MonkeyPatch, folder: Path, steps: int, every: int
) -> list[list[str]]:
    """Give the lines that are there after each look of a training that takes no time."""
    lines: list[list[str]] = []

    def experiment(*, steps: int, seeds: int, tell: reparam.Tell) -> dict[str, Any]:
        for name in reparam.VARIANTS:
            for step in [*range(every, steps, every), steps]:
                tell(name, train.Progress(3 if step > 0.9 * steps else 2, step, 1.5, 0.75))
                sys.stdout.flush()
                lines.append(sys.stdout.buffer.getvalue().decode().splitlines())  # type: ignore[attr-defined]
        raise StoppedError

    monkeypatch.setattr(reparam, "experiment", experiment)
    with pytest.raises(StoppedError):
        invoke("--out", str(folder), "--steps", str(steps), "--seeds", "4")
    return lines


def test_where_there_is_no_terminal_every_tenth_is_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = lines_printed(monkeypatch, tmp_path, 20_000, 100)
    first, *_ = lines[0]
    assert "4 models" in first
    # As it comes to it, and not at the end.
    assert [len(each) for each in lines] == [1 + look // 20 for look in range(1, 401)]
    assert lines[-1][1] == "With the trick: 2000/20000 steps, loss 1.50"
    assert lines[-1][10] == "With the trick: 20000/20000 steps, loss 1.50, acceptance 0.75"
    assert lines[-1][20] == "Without the trick: 20000/20000 steps, loss 1.50, acceptance 0.75"


def test_a_short_training_tells_no_more_than_it_makes_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = lines_printed(monkeypatch, tmp_path, 40, 30)
    assert [len(each) for each in lines] == [2, 3, 4, 5]


def test_a_terminal_has_bars_instead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    shown = "\n".join(lines_printed(monkeypatch, tmp_path, 20_000, 100)[-1])
    assert "With the trick:" not in shown
    assert "4 models" not in shown


def test_results_that_cannot_be_written_leave_the_old_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = tmp_path / "reparam.json"
    numbers.write_text('{"variants": {}}')
    monkeypatch.setattr(reparam, "experiment", lambda **_: {"new": 1})

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match=r"reparam\.json cannot be written: No space left"):
        invoke("--out", str(tmp_path))
    assert numbers.read_text() == '{"variants": {}}'
    assert os.listdir(tmp_path) == ["reparam.json"]


@pytest.mark.parametrize("name", ["reparam.json", "reparam.png"])
def test_a_file_that_must_not_be_written_is_refused_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(reparam, "experiment", None)
    (tmp_path / name).write_text('{"variants": {}}')
    # Of a real one root would not notice.
    monkeypatch.setattr(os, "access", lambda _, mode: mode != os.W_OK)
    with pytest.raises(InputError, match=rf"{name} cannot be written: Permission denied; name"):
        invoke("--out", str(tmp_path))


def test_a_link_to_nowhere_is_refused_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reparam, "experiment", None)
    (tmp_path / "reparam.json").symlink_to(tmp_path / "none" / "numbers.json")
    with pytest.raises(InputError, match="none does not exist; make it first"):
        invoke("--out", str(tmp_path))


def test_a_device_is_refused_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reparam, "experiment", None)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="pipe is a folder or a device; name a file"):
        invoke("--out", str(tmp_path), "--results", str(tmp_path / "pipe"))
