"""`hhvaem paper saia` as it is typed."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import hhvaem, refused

from hhvaem.paper.asking import QUICK, identities
from hhvaem.paper.records import versions
from hhvaem.paper.saia import CURVES, LINES


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--data", "yatch"), "There is no table 'yatch' in the paper; did you mean 'yacht'?"),
        (("--data", "bank"), "There is no table 'bank' in the paper; there are 'avocado', "),
        (("--data", "none"), "No table is named; there are 'avocado', "),
    ],
)
def test_tables_that_are_not_in_the_figure(
    tmp_path: Path, options: tuple[str, ...], expected: str
) -> None:
    assert refused("paper", "saia", "--out", tmp_path / "new", *options).startswith(expected)
    assert not (tmp_path / "new").exists()


def test_a_folder_in_the_place_of_a_figure_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "saia-seconds.png").mkdir()
    said = refused("paper", "saia", "--data", "wine", "--out", tmp_path)
    assert "saia-seconds.png" in said


def lines_of(last: float) -> dict[str, Any]:
    """Make the lines of a fold, of two numbers each."""
    return {line: {what: [1.0, last] for what in CURVES} for line in LINES}


def a_run(*, most: int = 500, **changes: Any) -> dict[str, Any]:
    """Make a file of wine with one fold, of which there are a few numbers."""
    record = {"table": "wine", "fold": 0, "rows": 18, "lines": lines_of(0.5)}
    return {
        **identities(rows=most, quick=False)["wine"],
        "columns": ["a"], "measure": "error rate", "versions": versions(),
        "records": [record | changes],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "is no run of a model on a table; move it away, or name another folder."),
        (b"\xff", "is no run of a model"),
        (b"[" * 200_000, "is no run of a model"),
        (b"[]", "is no run of a model"),
        (a_run() | {"columns": None}, "is no run of a model"),
        (a_run() | {"measure": "rmse"}, "is no run of a model"),
        (a_run() | {"records": []}, "is no run of a model"),
        (a_run(rows=None), "is no run of a model"),
        (a_run(lines=None), "is no run of a model"),
        (a_run(lines={"VAEM, gaussian": {}}), "is no run of a model"),
        (a_run(lines=dict.fromkeys(LINES, dict.fromkeys(CURVES, "ab"))), "is no run of a model"),
        (a_run(lines=lines_of(float("nan"))), "is no run of a model"),
        (a_run(lines=lines_of(float("inf"))), "is no run of a model"),
        (a_run(lines=lines_of(10**400)), "is no run of a model"),
        (a_run(fold=99), "is no run of a model"),
        (a_run(fold=True), "is no run of a model"),
        (a_run(table="yacht"), "is no run of a model"),
        (a_run() | {"records": 2 * a_run()["records"]}, "is no run of a model"),
        (a_run() | {"table": None}, "was made with table=None, and this run has 'wine';"),
        (a_run(most=100), "was made with settings.rows=100, and this run has 500;"),
        (a_run() | {"seed": 1}, "was made with seed=1, and this run has 0;"),
        (a_run() | {"versions": {"hhvaem": "0.0.1"}}, "was made by version 0.0.1 and this is"),
    ],
)
@pytest.mark.parametrize("asked", ["yacht,wine", "yacht"])
def test_all_that_would_be_gathered_is_looked_at_before_anything_is_run(
    tmp_path: Path, asked: str, content: Any, expected: str
) -> None:
    path, gathered = tmp_path / "saia" / "wine.json", tmp_path / "saia.json"
    path.parent.mkdir()
    there = content if isinstance(content, bytes) else json.dumps(content).encode()
    path.write_bytes(there)
    gathered.write_text('{"tables": []}')
    sentence = refused("paper", "saia", "--data", asked, "--splits", "1", "--out", tmp_path)
    assert sentence.startswith(f"{path} {expected}")
    assert (path.read_bytes(), gathered.read_text()) == (there, '{"tables": []}')
    assert list(path.parent.iterdir()) == [path]


def test_what_is_whole_is_gathered_and_drawn(tmp_path: Path) -> None:
    (tmp_path / "saia").mkdir()
    (tmp_path / "saia" / "wine.json").write_text(json.dumps(a_run()))
    done = hhvaem("paper", "saia", "--data", "wine", "--splits", "1", "--out", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads((tmp_path / "saia.json").read_text()) == {"tables": [a_run()]}


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        ("saia.png", "is in the place of a figure; name another with --results."),
        ("saia-seconds.png/a.json", "is in the place of a figure; name another with --results."),
        ("saia/wine.json", "is in {out}/saia, where runs have their files; name another with"),
        ("saia", "is in {out}/saia, where runs have their files; name another with"),
        ("folder", "is a folder; name a file with --results."),
        ("tables/wine-VAEM.json", "has results of another command, which would be lost; name"),
        ("notes.txt", "is no file that `hhvaem paper saia` writes; move it away, or name another"),
    ],
)
def test_numbers_do_not_take_the_place_of_something_else(
    tmp_path: Path, results: str, expected: str
) -> None:
    (tmp_path / "folder").mkdir()
    run = tmp_path / "tables" / "wine-VAEM.json"
    run.parent.mkdir()
    run.write_text('{"records": []}')
    notes = tmp_path / "notes.txt"
    notes.write_text("my notes")
    path = tmp_path / results
    sentence = refused("paper", "saia", "--data", "wine", "--out", tmp_path, "--results", path)
    assert sentence.startswith(f"{path} {expected.format(out=tmp_path)}")
    assert (run.read_text(), notes.read_text()) == ('{"records": []}', "my notes")
    assert not list(tmp_path.glob("saia*.png"))


def test_help_says_how_little_the_quick_command_does() -> None:
    said = re.sub(r"[\s│]+", " ", hhvaem("paper", "saia", "--help").stdout)
    assert (QUICK["steps"], QUICK["rows"]) == (2, 8)
    assert "few training steps, and two questions about each of eight test rows of a fold" in said


@pytest.mark.slow
def test_the_quick_command_and_the_same_again(tmp_path: Path) -> None:
    """Wine, which comes with scikit-learn."""
    command = ("paper", "saia", "--quick", "--data", "wine", "--out", tmp_path)
    done = hhvaem(*command, "--results", tmp_path / "numbers.json")
    assert (done.returncode, done.stderr) == (0, "")
    for name in ("saia.png", "saia-likelihood.png", "saia-seconds.png"):
        assert name in done.stdout
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
    (run,) = json.loads((tmp_path / "numbers.json").read_text())["tables"]
    assert (run["table"], run["draws"], run["measure"]) == ("wine", 40, "error rate")
    assert [record["fold"] for record in run["records"]] == [0, 1]
    for record in run["records"]:
        assert record["rows"] == 8
        assert tuple(record["lines"]) == tuple(LINES)
        for line in record["lines"].values():
            assert np.shape(line["error"]) == np.shape(line["seconds"]) == (3,)
            assert np.isfinite(line["log_likelihood"]).all()
        # One model, with nothing known: the same draws, whatever is asked for next.
        chained = [record["lines"][name]["error"][0] for name in LINES if "HH" in name]
        assert len(set(chained)) == 1
    again = hhvaem(*command)
    assert again.returncode == 0
    assert "columns of" not in again.stdout
    assert (tmp_path / "saia.json").read_text() == (tmp_path / "numbers.json").read_text()
