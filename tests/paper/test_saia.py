"""The paper's acquisition: whose rows are asked about, what is kept, refused and drawn."""

import contextlib
import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hhvaem.acquire.rollout import Rollout, roll_out
from hhvaem.datasets import Dataset
from hhvaem.errors import InputError
from hhvaem.paper import asking, saia
from hhvaem.paper.collection import add_run
from hhvaem.paper.folds import PUBLISHED
from hhvaem.paper.records import to_json, versions
from hhvaem.paper.tables import prepare

SHORT = dataclasses.replace(
    PUBLISHED["yacht"], marginal_steps=60, steps=300, hmc_steps=20, warm_up=20, transitions=2
)
SIZE = asking.Size(draws=10, bins=3, rows=9, steps=None)
WIDTHS = {
    "avocado": 12, "yacht": 6, "boston": 13, "energy": 8,
    "wine": 13, "naval": 14, "concrete": 8, "diabetes": 10,
}  # fmt: skip


@contextlib.contextmanager
def no_bar(steps: int) -> Iterator[Any]:
    yield lambda told: None


def two_targets(rows: int = 120) -> Dataset:
    """Make a table whose targets follow from its first column alone."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=rows)
    table = pa.table(
        {"b": rng.normal(size=rows), "a": a, "sex": rng.random(rows) < 0.4, "y": 2 * a, "z": -a}
    )
    kinds = dict.fromkeys(("a", "b", "y", "z"), "real") | {"sex": "binary"}
    return Dataset("made up", table, kinds, ("y", "z"))


@pytest.mark.slow
def test_every_fold_is_asked_about_its_own_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the models of one layer only, whose training compiles in seconds."""
    lines = {name: line for name, line in saia.LINES.items() if line.model == "VAEM"}
    monkeypatch.setattr(asking, "LINES", lines)
    prepared = prepare(two_targets(), [0, 3], SHORT)
    said: list[str] = []
    run = asking.run(prepared, SIZE, say=said.append, bar=no_bar)
    assert said == ["made up: VAEM", "made up: VAEM, gaussian", "made up: VAEM, histogram"]
    assert (run["columns"], run["targets"]) == (["b", "a", "sex"], ["y", "z"])
    assert run["measure"] == "rmse"
    assert [(record["fold"], record["rows"]) for record in run["records"]] == [(0, 9), (3, 9)]
    models = asking.trained(prepared, "VAEM", SIZE.draws)
    for number, fold, model, record in zip(
        prepared.numbers, prepared.folds, models, run["records"], strict=True
    ):
        gaussian, histogram = (record["lines"][name] for name in lines)
        # Of its twelve test rows, nine at random.
        rows = np.sort(np.random.default_rng((0, number)).choice(12, 9, replace=False))
        has = np.ones((9, 3), bool)
        told = roll_out(
            model, fold.truth[rows], has, fold.target_truth[rows], policy="histogram", bins=3
        )
        expected = np.sqrt((np.array(told.error) ** 2).mean(1))
        assert histogram["error"] == pytest.approx(expected, rel=1e-4)
        assert histogram["log_likelihood"] == pytest.approx(told.log_likelihood, rel=1e-4)
        # With nothing known there is nothing to choose, nor with everything.
        assert gaussian["error"][0] == histogram["error"][0]
        assert gaussian["error"][-1] == pytest.approx(histogram["error"][-1], rel=1e-3)
        assert gaussian["error_area"] == pytest.approx(np.mean(gaussian["error"]), rel=1e-4)
        assert histogram["error"][-1] < 0.7 * histogram["error"][0]
        assert sum(gaussian["place"]) == pytest.approx(6)
        assert gaussian["unavailable"] == 0
        assert len(gaussian["seconds"]) == 4
    json.dumps(run)


def test_what_is_kept_of_a_roll_out() -> None:
    told = Rollout(
        "fixed", 2, ["rmse", "rmse"], [[3.0, 4.0], [0.0, 0.0123456]], [-2.0, -1.0], [0.0, 1.0],
        [0.5, 0.1], [0.25], [1.5, 2.0], -1.5, [[2], [2]],
    )  # fmt: skip
    kept = asking.summary(told, 3)
    # Both targets pooled; numbers with five digits that count.
    assert kept["error"] == [3.5355, 0.0087297]
    assert kept["error_area"] == 1.7721
    assert kept["log_likelihood_area"] == -1.5
    # The two that were never asked for share the second and third place.
    assert kept["place"] == [2.5, 2.5, 1.0]
    assert kept["unavailable"] == 0.25


def test_draws_and_bins_are_the_published_ones() -> None:
    assert asking.size_of("boston") == (200, 7, 500, None)
    assert asking.size_of("naval", 300) == (100, 5, 300, None)
    assert asking.size_of("yacht", quick=True) == (40, 5, 8, 2)


def a_run(table: str, folds: int, rows: int = 500) -> tuple[dict[str, Any], dict[str, Any]]:
    """Make what the file of a table has: its identity, and what was found."""
    about = asking.identity(table, PUBLISHED[table], asking.size_of(table, rows))
    return about, {**made_up(table, folds), "versions": versions()}


def made_up(table: str, folds: int) -> dict[str, Any]:
    rng, steps = np.random.default_rng(0), np.arange(WIDTHS[table] + 1)
    first, last = saia.READ_OFF[table][0][0], saia.READ_OFF[table][None][2]

    def line(i: int) -> dict[str, Any]:
        error = last + (first - last) * np.exp(-0.3 * i * steps) + 0.1 * last * rng.random()
        seconds = 0.1 * (1 + i + rng.random(steps.size))
        return {
            "error": error.tolist(),
            "log_likelihood": (-np.log(error)).tolist(),
            "seconds": seconds.tolist(),
        }

    return {
        "columns": [f"x{i}" for i in range(WIDTHS[table])],
        "targets": ["y"],
        "measure": "error rate" if table == "wine" else "rmse",
        "records": [
            {"table": table, "fold": fold, "rows": 50,
             "lines": {name: line(i) for i, name in enumerate(saia.LINES)}}
            for fold in range(folds)
        ],
    }  # fmt: skip


def test_what_is_there_is_not_run_again(tmp_path: Path) -> None:
    path = saia.place(tmp_path, "wine")
    add_run(path, *a_run("wine", 2))
    before = path.stat().st_mtime_ns
    said: list[str] = []
    asking.complete("wine", range(2), tmp_path, say=said.append, bar=no_bar)
    assert (said, path.stat().st_mtime_ns) == ([], before)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"quick": True}, r"settings\.VAEM\.steps=20006, and this run has 200;"),
        ({"rows": 100}, r"settings\.rows=500, and this run has 100;"),
    ],
)
def test_runs_that_differ_are_refused_before_the_work(
    tmp_path: Path, options: dict[str, Any], expected: str
) -> None:
    """Also where no fold is missing."""
    add_run(saia.place(tmp_path, "wine"), *a_run("wine", 2))
    said: list[str] = []
    with pytest.raises(InputError, match=rf"wine\.json was made with {expected}"):
        asking.complete("wine", range(2), tmp_path, **options, say=said.append, bar=no_bar)
    assert said == []


def test_other_versions_are_refused(tmp_path: Path) -> None:
    about, found = a_run("wine", 1)
    run = about | found | {"versions": {"hhvaem": "0.0.0"}}
    saia.place(tmp_path, "wine").write_text(json.dumps(run))
    with pytest.raises(InputError, match=r"was made by version 0\.0\.0"):
        asking.complete("wine", range(2), tmp_path, say=print, bar=no_bar)


def test_what_another_command_has_written_meanwhile_stands(tmp_path: Path) -> None:
    path = saia.place(tmp_path, "wine")
    add_run(path, *a_run("wine", 1))
    with pytest.raises(InputError, match=r"settings\.rows=500, and this run has 100;"):
        add_run(path, *a_run("wine", 2, rows=100))
    add_run(path, *a_run("wine", 2))
    (run,) = saia.gather(tmp_path)["tables"]
    assert [record["fold"] for record in run["records"]] == [0, 1]


@pytest.mark.parametrize("what", saia.CURVES)
def test_figures_are_drawn_from_the_file_alone(tmp_path: Path, what: str) -> None:
    for table in ("yacht", "wine", "naval"):
        add_run(saia.place(tmp_path, table), *a_run(table, 3))
    gathered = json.loads(to_json(saia.gather(tmp_path)))
    assert [run["table"] for run in gathered["tables"]] == ["yacht", "wine", "naval"]
    figure = saia.draw(gathered, what)
    figure.savefig(tmp_path / "figure.png")
    yacht, wine, _ = figure.axes
    assert yacht.get_title() == "yacht: 3 folds, 150 rows"
    assert wine.get_xlabel() == "columns known"
    curves = [line for line in yacht.get_lines() if line.get_linestyle() != "None"]
    assert len(curves) == len(saia.LINES)
    own = np.array(
        [each["lines"]["HH-VAEM, grid"][what] for each in gathered["tables"][0]["records"]]
    ).mean(0)
    expected = own[:-1] * 1000 / 50 if what == "seconds" else own
    np.testing.assert_allclose(curves[3].get_ydata(), expected)
    assert curves[3].get_color() == saia.LINES["HH-VAEM, grid"].colour
    marks = [line for line in yacht.get_lines() if line.get_linestyle() == "None"]
    if what != "error":
        assert not marks
        return
    assert (yacht.get_ylabel(), wine.get_ylabel()) == (
        "RMSE of resistance per weight",
        "error rate",
    )
    found = {(line.get_xdata()[0], line.get_ydata()[0], line.get_color()) for line in marks}
    colours = [saia.LINES[name].colour for name in saia.PAPER]
    assert found == {
        (0, 18, "k"), (6, 2, "k"),
        (1, 12, colours[0]), (1, 3.1, colours[1]), (1, 2.9, colours[2]),
    }  # fmt: skip


def test_what_was_read_off_the_paper_lies_within_the_tables() -> None:
    assert tuple(saia.READ_OFF) == saia.TABLES
    for table, marks in saia.READ_OFF.items():
        assert all(at is None or 0 <= at < WIDTHS[table] for at in marks)
        assert max(marks[None]) < min(marks[0])
