"""`hhvaem paper tables` as it is typed, and the files that it leaves."""

import io
import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from commands import hhvaem, refused
from rich.console import Console

from hhvaem import __version__
from hhvaem.cli.tables import SHOWN, _means
from hhvaem.errors import InputError
from hhvaem.paper.collection import (
    WAYS,
    add_run,
    gather_runs,
    missing_folds,
    place,
    read_alike,
    read_run,
)


def a_run(*folds: int, **changes: Any) -> dict[str, Any]:
    """Make a run as files have it."""
    return {
        "table": "wine", "model": "VAEM", "layers": [10], "settings": {"steps": 5},
        "marginal_steps": 3, "seed": 0, "draws": 100, "versions": {"hhvaem": __version__},
        "records": [
            {"table": "wine", "model": "VAEM", "fold": fold, "device": "cpu"} for fold in folds
        ],
        **changes,
    }  # fmt: skip


def test_folds_are_added_to_those_that_are_there(tmp_path: Path) -> None:
    path = place(tmp_path, "wine", "VAEM")
    assert read_run(path) is None
    assert missing_folds(None, range(3)) == [0, 1, 2]
    add_run(path, identity(), a_run(2, 0))
    assert missing_folds(read_run(path), range(4)) == [1, 3]
    add_run(path, identity(), a_run(1, 3))
    run = read_run(path)
    assert [record["fold"] for record in run["records"]] == [0, 1, 2, 3]
    abouts = [identity(table=table) for table in ("bank", "wine")]
    assert gather_runs(tmp_path, abouts) == run["records"]


def test_folds_that_another_command_has_added_meanwhile_are_kept(tmp_path: Path) -> None:
    path = place(tmp_path, "wine", "VAEM")
    add_run(path, identity(), a_run(0, 1, seconds="theirs"))
    before = path.read_bytes()
    add_run(path, identity(), a_run(0, 1, seconds="ours"))
    assert path.read_bytes() == before
    add_run(path, identity(), a_run(1, 2))
    assert [record["fold"] for record in read_run(path)["records"]] == [0, 1, 2]


def test_a_run_of_other_settings_that_was_made_meanwhile_is_not_lost(tmp_path: Path) -> None:
    path = place(tmp_path, "wine", "VAEM")
    add_run(path, identity(), a_run(0))
    before = path.read_bytes()
    with pytest.raises(InputError, match=r"draws=100, and this run has 1000; name another folder"):
        add_run(path, identity(draws=1000), a_run(1))
    assert path.read_bytes() == before


def test_folds_that_are_added_at_once_are_all_there(tmp_path: Path) -> None:
    path = place(tmp_path, "wine", "VAEM")
    with ThreadPoolExecutor(10) as pool:
        list(pool.map(lambda fold: add_run(path, identity(), a_run(fold)), range(10)))
    assert missing_folds(read_run(path), range(10)) == []
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"draws": 1000}, "draws=100, and this run has 1000;"),
        ({"seed": 1}, "seed=0, and this run has 1;"),
        ({"as_published": False}, "as_published=None, and this run has False;"),
        # The innermost of what differs, also where only one of both has it.
        ({"settings": {"steps": 6}}, "settings.steps=5, and this run has 6;"),
        ({"settings": {}}, "settings.steps=5, and this run has None;"),
        ({"settings": {"steps": 5, "rate": 0.1}}, "settings.rate=None, and this run has 0.1;"),
    ],
)
def test_other_settings_are_named(tmp_path: Path, changes: dict[str, Any], expected: str) -> None:
    path = place(tmp_path, "wine", "VAEM")
    add_run(path, identity(), a_run(0))
    sentence = f"{path} was made with {expected} name another folder, or move that file away."
    with pytest.raises(InputError, match=f"^{re.escape(sentence)}$"):
        read_alike(path, identity(**changes))


def test_the_same_settings_pass_whatever_else_is_in_the_file(tmp_path: Path) -> None:
    path = place(tmp_path, "wine", "VAEM")
    assert read_alike(path, identity()) is None
    add_run(path, identity(), a_run(0, seconds=3))
    # JSON knows no tuples.
    assert read_alike(path, identity(layers=(10,))) == read_run(path)


def identity(**changes: Any) -> dict[str, Any]:
    run = a_run(**changes)
    return {name: run[name] for name in run if name not in ("versions", "records")}


@pytest.mark.parametrize(
    "content",
    [
        "", "[]", "{}", "null", "\xff", "[" * 200_000,
        '{"records": 3, "versions": {"hhvaem": "1"}}',
        '{"records": [{"fold": "first"}], "versions": {"hhvaem": "1"}}',
        '{"records": [{"fold": true}], "versions": {"hhvaem": "1"}}',
        '{"records": [{"fold": 99}], "versions": {"hhvaem": "1"}}',
        '{"records": [{"fold": -1}], "versions": {"hhvaem": "1"}}',
        '{"records": [{"fold": 1.0}], "versions": {"hhvaem": "1"}}',
        f'{{"records": [{{"fold": {10**400}}}], "versions": {{"hhvaem": "1"}}}}',
    ],
)  # fmt: skip
def test_what_is_no_run_is_named(tmp_path: Path, content: str) -> None:
    path = place(tmp_path, "wine", "VAEM")
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(InputError, match=r"wine-VAEM\.json is no run of a model"):
        read_run(path)


@pytest.mark.parametrize(
    "change",
    [
        {"table": None}, {"table": "bank"}, {"model": "HH-VAEM"}, {"model": "VAEM[/red]"},
        {"fold": 0}, {"device": 3}, {"crps": "low"}, {"crps": [1]}, {"crps": True},
        {"crps": float("nan")}, {"crps": float("inf")}, {"crps": 10**400}, {"train_seconds": -5},
    ],
)  # fmt: skip
def test_a_record_that_is_none_is_not_gathered(tmp_path: Path, change: dict[str, Any]) -> None:
    run = a_run(0, 1)
    run["records"][1] |= change
    add_run(place(tmp_path, "wine", "VAEM"), identity(), run)
    with pytest.raises(InputError, match=r"wine-VAEM\.json is no run of a model"):
        gather_runs(tmp_path, [identity()])


def test_other_ways_to_draw_from_a_model_are_in_its_file(tmp_path: Path) -> None:
    run = a_run(0, 0)
    run["records"][1]["model"] = "VAEM by the encoder"
    add_run(place(tmp_path, "wine", "VAEM"), identity(), run)
    assert gather_runs(tmp_path, [identity()]) == run["records"]


def a_baseline(table: str, **changes: Any) -> dict[str, Any]:
    """Make the file of a baseline, with one fold."""
    record = {"table": table, "model": "mean", "fold": 0, "device": "cpu"}
    return {
        "table": table, "model": "mean", "as_published": True, "seed": 0, "draws": 100,
        "versions": {"hhvaem": __version__}, "records": [record], **changes,
    }  # fmt: skip


@pytest.mark.parametrize("asked", ["wine,yacht", "wine"])
@pytest.mark.parametrize(
    ("there", "expected"),
    [
        (a_baseline("yacht", as_published=False), "was made with as_published=False, and this"),
        (a_baseline("yacht", seed=1), "was made with seed=1, and this run has 0;"),
        (a_baseline("yacht", versions={"hhvaem": "0.0.1"}), "was made by version 0.0.1 and"),
        (a_baseline("yacht", records=[{"fold": 0}]), "is no run of a model on a table; move it"),
        (["a list"], "is no run of a model on a table; move it away, or name another folder."),
    ],
)
def test_all_that_would_be_gathered_is_looked_at_before_anything_is_run(
    tmp_path: Path, asked: str, there: Any, expected: str
) -> None:
    """Also what is the second to be run, and what is not to be run at all."""
    path, gathered = place(tmp_path / "tables", "yacht", "mean"), tmp_path / "tables.json"
    path.parent.mkdir()
    path.write_text(json.dumps(there))
    gathered.write_text('{"records": []}')
    sentence = refused(
        "paper", "tables", "--data", asked, "--models", "none", "--baselines", "mean",
        "--splits", "1", "--out", tmp_path,
    )  # fmt: skip
    assert sentence.startswith(f"{path} {expected}")
    assert list(path.parent.iterdir()) == [path]
    assert json.loads(path.read_text()) == there
    assert gathered.read_text() == '{"records": []}'


def test_what_is_in_the_place_of_the_records_is_not_lost(tmp_path: Path) -> None:
    command = ("paper", "tables", "--data", "wine", "--out")
    gathered = tmp_path / "tables.json"
    gathered.write_text('{"models": {}}')
    assert refused(*command, tmp_path) == (
        f"{gathered} has results of another command, which would be lost; name another with --out."
    )
    assert gathered.read_text() == '{"models": {}}'
    for own in ("my notes", "[1, 2]", "{}", ""):
        gathered.write_text(own)
        assert refused(*command, tmp_path) == (
            f"{gathered} is no file that `hhvaem paper tables` writes; move it away, or name "
            "another with --out."
        )
        assert gathered.read_text() == own
    (tmp_path / "new" / "tables.json").mkdir(parents=True)
    assert refused(*command, tmp_path / "new") == (
        f"{tmp_path}/new/tables.json is a folder; name another folder with --out."
    )


def test_records_that_cannot_be_written_are_missed_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("paper", "tables", "--data", "wine", "--models", "VAEM", "--out", tmp_path)
    gathered = tmp_path / "tables.json"
    gathered.symlink_to(tmp_path / "none" / "numbers.json")
    assert refused(*command) == f"The folder {tmp_path}/none does not exist; make it first."
    gathered.unlink()
    gathered.write_text('{"records": []}')
    # Of a real one root would not notice.
    monkeypatch.setattr(os, "access", lambda _, mode: mode != os.W_OK)
    assert refused(*command) == (
        f"{gathered} cannot be written: Permission denied; name another with --out."
    )
    assert not list((tmp_path / "tables").iterdir())


def test_another_version_is_refused_before_the_work(tmp_path: Path) -> None:
    folder = tmp_path / "tables"
    folder.mkdir()
    run = a_run(0, versions={"hhvaem": "0.0.1"})
    place(folder, "wine", "VAEM").write_text(json.dumps(run))
    sentence = refused("paper", "tables", "--data", "wine", "--models", "vaem", "--out", tmp_path)
    assert "was made by version 0.0.1" in sentence


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--data", "whine"), "There is no table 'whine' in the paper; did you mean 'wine'?"),
        (("--data", "zzz"), "There is no table 'zzz' in the paper; there are 'bank', "),
        (
            ("--models", "HHVAEM"),
            "There is no model 'HHVAEM' in the paper; did you mean 'HH-VAEM'?",
        ),
        (("--models", ","), "No model is named; there are 'VAEM', "),
        (("--data", "none"), "No table is named; there are 'bank', "),
        (("--models", "none"), "No model or baseline is named; there are 'VAEM', "),
    ],
)
def test_names_that_are_not_in_the_paper(
    tmp_path: Path, options: tuple[str, ...], expected: str
) -> None:
    assert refused("paper", "tables", "--out", tmp_path / "new", *options).startswith(expected)
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_the_quick_version_goes_on_where_it_was(tmp_path: Path) -> None:
    """Wine, which comes with scikit-learn."""
    command = ("paper", "tables", "--quick", "--data", "wine", "--models", "VAEM")
    done = hhvaem(*command, "--splits", "1", "--out", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    first = json.loads((tmp_path / "tables.json").read_text())["records"]
    assert [(r["table"], r["model"], r["fold"]) for r in first] == [("wine", "VAEM", 0)]
    assert first[0]["target_accuracy"] > 0.3
    assert 0 < first[0]["coverage90"] <= 1
    assert "acceptance" not in first[0]
    path = place(tmp_path / "tables", "wine", "VAEM")
    before = path.stat().st_mtime_ns
    again = hhvaem(*command, "--splits", "1", "--out", tmp_path)
    assert again.returncode == 0
    assert path.stat().st_mtime_ns == before
    assert "columns of" not in again.stdout
    sentence = refused("paper", "tables", *command[3:], "--splits", "1", "--out", tmp_path)
    assert "wine-VAEM.json was made with settings.steps=200, and this run has 20006;" in sentence


def test_baselines_stand_beside_the_models(tmp_path: Path) -> None:
    # A folder whose name would be markup in a console.
    tmp_path = tmp_path / "p[" / "red]"
    done = hhvaem(
        "paper", "tables", "--data", "wine", "--models", "none", "--baselines", "mean,gaussian",
        "--splits", "2", "--out", tmp_path,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "p[/red]/tables.json" in "".join(done.stdout.split())
    records = json.loads((tmp_path / "tables.json").read_text())["records"]
    assert [(r["model"], r["fold"]) for r in records] == [
        ("mean", 0), ("mean", 1), ("gaussian", 0), ("gaussian", 1)
    ]  # fmt: skip
    mean, gaussian = records[1], records[3]
    assert gaussian["paper_rmse_missing"] < mean["paper_rmse_missing"]
    assert gaussian["target_accuracy"] > mean["target_accuracy"]
    assert 0.5 < gaussian["coverage90"] < 1
    assert "crps" not in mean
    command = ("paper", "tables", "--data", "wine", "--models", "none", "--out", tmp_path)
    assert "wine: " not in hhvaem(*command, "--baselines", "mean", "--splits", "2").stdout
    # The folds are there, but not of these kinds of columns.
    sentence = refused(*command, "--baselines", "mean", "--splits", "2", "--own-kinds")
    assert "wine-mean.json was made with as_published=True, and this run has False;" in sentence


@pytest.mark.slow
def test_the_quick_version_of_all_models(tmp_path: Path, data_folder: Path) -> None:
    done = hhvaem("paper", "tables", "--quick", "--out", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    records = json.loads((tmp_path / "tables.json").read_text())["records"]
    # Models with chains are tested in three ways.
    assert len(records) == 2 * (3 + 2 * 3) * 2


@pytest.mark.parametrize("command", ["tables", "saia"])
def test_a_table_that_is_not_there_is_missed_before_another_is_run(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Wine comes with scikit-learn, Boston with nothing.
    monkeypatch.setenv("HHVAEM_DATA", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    out = tmp_path / "new"
    said = refused("paper", command, "--data", "wine,boston", "--quick", "--out", out)
    assert "hhvaem data fetch boston" in said
    assert not [path for path in out.rglob("*") if path.is_file()]


def test_the_means_of_what_was_asked_for_fit_a_terminal() -> None:
    models = ["HH-VAEM", *(f"HH-VAEM{way}" for way in WAYS), "HH-VAEM with weight decay"]
    records = [
        {"table": "insurance", "model": model, "fold": 0, **dict.fromkeys(SHOWN, 1.2345)}
        for model in models
    ]
    console = Console(width=80, file=io.StringIO(), record=True)
    console.print(_means(records, ["insurance"], ["HH-VAEM"]))
    told = console.export_text()
    assert "…" not in told
    assert told.count("1.234") == 3 * len(SHOWN)
    assert "decay" not in told
