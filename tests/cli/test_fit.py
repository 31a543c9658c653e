"""`hhvaem fit` as it is typed: the model of the table and its targets, or a refusal before work."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from commands import HEARD, full_disk, hhvaem, interrupted, refused
from saved_models import table

from hhvaem import Classifier, Imputer, Regressor, load, read_table, write_table
from hhvaem.cli.fit import _summary
from hhvaem.errors import InputError
from hhvaem.storage import fingerprint, read_arrays
from hhvaem.tasks import Task, task_of

FAST = ("--preset", "fast", "--steps", "60")
COMMAND = [sys.executable, "-c", "from hhvaem.cli import main; main()"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table without its empty column, and the facts about a model of it."""
    folder = tmp_path_factory.mktemp("fit")
    write_table(table().drop_columns(["none"]), folder / "a.csv")
    return folder


@pytest.fixture(scope="module")
def facts(folder: Path) -> dict[str, Any]:
    done = hhvaem(
        "fit", folder / "a.csv", "--out", folder / "m", *FAST,
        "--seed", "3", "--kind", "n=real", "--snapshots", folder / "snapshots", "--json",
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_the_facts_are_those_of_the_model(folder: Path, facts: dict[str, Any]) -> None:
    model = load(folder / "m")
    assert type(model) is Imputer
    assert model.schema_["n"].kind == "real"
    assert model.get_params()["random_state"] == 3
    seconds = facts.pop("seconds")
    assert 0 < seconds < 600
    assert facts == {
        "out": str(folder / "m"),
        "bytes": (folder / "m").stat().st_size,
        "estimator": "Imputer",
        "targets": [],
        "rows": 40,
        "columns": 7,
        "modelled": 6,
        "members": 1,
        "seed": 3,
        **model.fitted_.record,
        "schema": json.loads(model.schema_.to_json()),
    }
    assert facts["steps"] == 60
    notes = {column["name"]: column["note"] for column in facts["schema"]["columns"]}
    assert notes["unit"].startswith("constant: ")


def test_the_model_is_that_of_the_library(folder: Path, facts: dict[str, Any]) -> None:
    known = read_table(folder / "a.csv")
    own = Imputer(preset="fast", max_steps=60, random_state=3, kinds={"n": "real"}).fit(known)
    filled = own.transform(known, posterior="encoder")
    assert load(folder / "m").transform(known, posterior="encoder").equals(filled)


def test_the_same_command_goes_on_and_tells_a_person(folder: Path, facts: dict[str, Any]) -> None:
    done = hhvaem(
        "fit", folder / "a.csv", "--out", folder / "again", *FAST,
        "--seed", "3", "--kind", "n=real", "--snapshots", folder / "snapshots",
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"^city +categorical +filled +'Bern', 'Oslo', 'Rome'", done.stdout, re.M)
    said = " ".join(done.stdout.split())
    assert f"again ({(folder / 'again').stat().st_size / 1000:.1f} kB): an Imputer of 6" in said
    assert "6 columns, 60 steps in" in said
    assert re.search(r"^day +datetime +filled +days", done.stdout, re.M)
    assert said.endswith(" ".join(_summary(facts | {"seconds": 1})[1:]))
    assert max(map(len, done.stdout.splitlines())) <= 80
    (arrays, manifest), (again, told) = (read_arrays(folder / name) for name in ("m", "again"))
    assert told == manifest
    assert fingerprint(again) == fingerprint(arrays)


def test_what_was_learned_is_said_in_words() -> None:
    def said(*gains: float) -> str:
        known = {"out": "m", "bytes": 1, "estimator": "Imputer", "modelled": 2, "steps": 3}
        return _summary({**known, "seconds": 1.0, "gain_per_hidden_cell": list(gains)})[1]

    better = "Hidden cells are predicted better than by their column alone: they are"
    assert said(0.5, 1.0) == f"{better} 2.12 times as probable."
    assert said(7.0) == f"{better} 1.1e+03 times as probable."
    for gains in ([0.0], [-0.92], [1.0, -1.5], [0.001]):
        assert said(*gains) == "Hidden cells are predicted no better than by their column alone."


def test_who_fills_is_told_of_the_evaluation() -> None:
    def said(estimator: str) -> str:
        known = {"out": "m", "bytes": 1, "estimator": estimator, "modelled": 2, "steps": 3}
        return _summary({**known, "seconds": 1.0, "gain_per_hidden_cell": [0.1]})[-1]

    assert said("Imputer").startswith("`hhvaem evaluate` says of each column")
    assert said("Regressor").startswith("Hidden cells are predicted better")


def test_a_predictor_is_not_said_to_fill(tmp_path: Path) -> None:
    # The schema is shown before the target is refused, which saves the training.
    known = {"a": [-1.5, None, 2.5], "u": ["kg", None, "kg"], "y": ["one"] * 3}
    write_table(pa.table(known), tmp_path / "a.csv")
    done = hhvaem("fit", tmp_path / "a.csv", "--out", tmp_path / "m", "--target", "y")
    assert done.returncode == 1
    assert re.search(r"^a +real +allowed", done.stdout, re.M)
    assert re.search(r"^u +constant +ignored", done.stdout, re.M)


def test_a_table_that_needs_no_model(tmp_path: Path) -> None:
    write_table(pa.table({"a": [1, None, 1]}), tmp_path / "a.csv")
    done = hhvaem("fit", tmp_path / "a.csv", "--out", tmp_path / "m")
    assert (done.returncode, done.stderr) == (0, "")
    assert "No column needs a model" in done.stdout
    assert load(tmp_path / "m").fitted_ is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("targets", "cls", "said"),
    [
        (["x"], Regressor, "x: regression (else say --task classification)."),
        (["city"], Classifier, "city: classification (else say --task regression)."),
        (["flag", "city"], Classifier, "flag, city: classification"),
    ],
)
def test_models_with_targets_are_those_of_the_library(
    folder: Path, tmp_path: Path, targets: list[str], cls: Any, said: str
) -> None:
    options = [word for name in targets for word in ("--target", name)]
    done = hhvaem("fit", folder / "a.csv", "--out", tmp_path / "m", *FAST, *options)
    assert done.returncode == 0, done.stderr
    assert said in done.stdout
    model, whole = load(tmp_path / "m"), read_table(folder / "a.csv")
    assert type(model) is cls
    assert model.target_names_ == targets
    known, goal = whole.drop_columns(targets), whole.select(targets)
    y: Any = goal.column(0).to_pylist() if len(targets) == 1 else goal
    own = cls(preset="fast", max_steps=60, random_state=0).fit(known, y)
    one, other = (each.predict(known, posterior="encoder") for each in (model, own))
    assert one.shape == other.shape
    assert (one == other).all()


@pytest.mark.parametrize(
    ("values", "task"),
    [
        (["a", None, "b"], Task.CLASSIFICATION),
        ([True, False, None], Task.CLASSIFICATION),
        (pa.array(["a", "b"]).dictionary_encode(), Task.CLASSIFICATION),
        ([0, 1, None, 1], Task.CLASSIFICATION),
        (list(range(20)), Task.CLASSIFICATION),
        (list(range(21)), Task.REGRESSION),
        ([1.0, 2.0, 7.0], Task.CLASSIFICATION),
        ([1.0, 2.0, 7.5], Task.REGRESSION),
        ([0.5, -0.5, 0.5], Task.REGRESSION),
    ],
)
def test_what_is_to_be_predicted_is_told_from_the_values(values: Any, task: Task) -> None:
    whole = pa.table({"y": values})
    assert task_of(whole, ["y"], None) == task
    assert task_of(whole, [], None) is None


def test_a_task_is_as_asked() -> None:
    whole = pa.table({"few": [1, 2, 3], "text": ["a", "b", "c"], "real": [0.5, 1.0, 2.0]})
    assert task_of(whole, ["few"], Task.REGRESSION) == Task.REGRESSION
    assert task_of(whole, ["few", "text"], None) == Task.CLASSIFICATION
    assert task_of(whole, ["few", "real"], Task.REGRESSION) == Task.REGRESSION
    with pytest.raises(InputError, match="'real' for regression, 'few' for classification; fit"):
        task_of(whole, ["few", "real"], None)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--target", "nosuch"], "a.csv has no column 'nosuch' to predict; its columns are 'x',"),
        (["--target", "day"], "The target 'day' holds dates; convert it to numbers"),
        (["--target", "x", "--kind", "x=real"], "--kind says what 'x' is, which is a target"),
        (["--target", "x", "--target", "city"], "The targets are not alike: 'x' for regression"),
        (["--target", "city", "--task", "regression"], "The target 'city' holds no numbers"),
        (
            ["--target", "x", "--task", "classification"],
            "The target 'x' holds numbers that are no classes, such as 0.13; leave",
        ),
        (["--kind", "x"], "--kind takes COLUMN=KIND"),
        (["--kind", "city=real"], "Column 'city' cannot be real: it holds text"),
        (["--out", "no/m"], "no does not exist; make it first."),
        (["--out", "."], ". is a folder; name a file with --out."),
        (["--snapshots", "a.csv"], "a.csv is a file; snapshots need a folder"),
        (["--out", "a.csv"], "a.csv is the table, which would be lost; name another with --out."),
        (["--out", "../here/a.csv"], "../here/a.csv is the table, which would be lost"),
        (
            ["--out", "kept/snapshot.safetensors", "--snapshots", "kept"],
            "kept/snapshot.safetensors is the snapshot, which would be lost",
        ),
        (["--out", "b.csv"], "b.csv is named as a table, and would hold a model; name it otherw"),
        (["--out", "b.Parquet"], "name it otherwise, such as b.hhvaem."),
        (["--out", "b.csv.gz"], "b.csv.gz is named as a table"),
    ],
)
def test_refused_before_the_work(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    sentence: str,
) -> None:
    tmp_path = tmp_path / "here"
    tmp_path.mkdir()
    (tmp_path / "a.csv").write_bytes((folder / "a.csv").read_bytes())
    monkeypatch.chdir(tmp_path)
    options = options if "--out" in options else ["--out", "m", *options]
    done = hhvaem("fit", "a.csv", *options)
    assert done.returncode == 1
    assert sentence in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]
    assert (tmp_path / "a.csv").read_bytes() == (folder / "a.csv").read_bytes()


def test_a_folder_that_is_more_than_is_held_at_once(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    common = rng.normal(size=2_400)
    given = pa.table(
        {
            "x": common + 0.3 * rng.normal(size=2_400),
            "pain": np.where(common > 0, "much", "little"),
            "stay": rng.poisson(np.exp(common)),
        }
    )
    (tmp_path / "in").mkdir()
    for i in range(2):
        write_table(given.slice(i * 1_200, 1_200), tmp_path / "in" / f"{i}.csv")
    done = hhvaem(
        "fit", tmp_path / "in", "--out", tmp_path / "m", *FAST, "--rows-at-once", "1000",
        "--kind", "pain=ordinal:little,much", "--target", "stay", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert (facts["estimator"], facts["rows"], facts["columns"]) == ("Classifier", 2_400, 2)
    kinds = {"pain": "ordinal"}
    own = Classifier(preset="fast", max_steps=60, random_state=0, rows_at_once=1_000, kinds=kinds)
    ordered = pa.DictionaryArray.from_arrays(
        pc.index_in(given["pain"].combine_chunks(), pa.array(["little", "much"])),
        pa.array(["little", "much"]),
        ordered=True,
    )
    own.fit(given.set_column(1, "pain", ordered).drop_columns(["stay"]), given["stay"].to_numpy())
    assert facts["loss"] == own.fitted_.record["loss"]
    named = refused("fit", tmp_path / "in", "--out", tmp_path / "m", "--kind", "pain=ordinal:much")
    assert "Column 'pain' holds 'little' in row" in named


@pytest.mark.parametrize("pattern", ["", "*", "**/*"])
def test_nothing_is_written_among_the_files_of_a_table(
    folder: Path, tmp_path: Path, pattern: str
) -> None:
    read = tmp_path / "in"
    read.mkdir()
    (read / "a.csv").write_bytes((folder / "a.csv").read_bytes())
    end = "is in the folder that is read" if not pattern else "is named by the pattern that is read"
    for option, name in (("--out", "m"), ("--snapshots", "kept"), ("--snapshots", "new/kept")):
        options = {"--out": tmp_path / "m", option: read / name}
        typed = [word for both in options.items() for word in both]
        said = refused("fit", read / pattern, *typed)
        assert said == f"{read / name} {end}; name another with {option}."
    assert [path.name for path in read.iterdir()] == ["a.csv"]


def test_what_a_pattern_does_not_name_may_be_beside_its_files(tmp_path: Path) -> None:
    write_table(pa.table({"a": [1, None, 1]}), tmp_path / "a.csv")
    for _ in range(2):
        done = hhvaem(
            "fit", tmp_path / "*.csv", "--out", tmp_path / "m", "--snapshots", tmp_path / "kept"
        )
        assert (done.returncode, done.stderr) == (0, "")


def test_a_link_to_the_table_is_the_table(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "m").symlink_to(folder / "a.csv")
    said = refused("fit", folder / "a.csv", "--out", tmp_path / "m")
    assert said == f"{tmp_path}/m is the table, which would be lost; name another with --out."


def test_a_target_alone_cannot_be_predicted(tmp_path: Path) -> None:
    write_table(pa.table({"a": [1, 2, 3]}), tmp_path / "a.csv")
    said = refused("fit", tmp_path / "a.csv", "--out", tmp_path / "m", "--target", "a")
    assert said.endswith("a.csv has no column beside 'a' to predict from.")


def test_a_file_or_folder_that_must_not_be_written(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "m").write_text("mine")
    # Of a real one root would not notice.
    monkeypatch.setattr(os, "access", lambda _, mode: mode != os.W_OK)
    said = refused("fit", folder / "a.csv", "--out", tmp_path / "m")
    assert said == f"{tmp_path}/m cannot be written: Permission denied; name another with --out."
    assert (tmp_path / "m").read_text() == "mine"
    said = refused("fit", folder / "a.csv", "--out", "/proc/self/m")
    assert said.startswith("/proc/self/m cannot be written: ")


def test_files_that_are_no_tables(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n3,4,5\n")
    said = refused("fit", tmp_path / "a.csv", "--out", tmp_path / "m")
    assert "a.csv cannot be read as CSV in line 3" in said
    assert "does not exist" in refused("fit", tmp_path / "b.csv", "--out", tmp_path / "m")


def test_a_full_disk_leaves_the_old_model(tmp_path: Path) -> None:
    write_table(pa.table({"a": [1, None, 1]}), tmp_path / "a.csv")
    (tmp_path / "m").write_text("old")
    with full_disk(100):
        done = hhvaem("fit", tmp_path / "a.csv", "--out", tmp_path / "m")
    assert done.returncode == 1
    assert done.stderr == f"Error: {tmp_path}/m cannot be written: File too large.\n"
    assert (tmp_path / "m").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "m"]


@pytest.mark.parametrize(
    "wrong",
    [
        ["--preset", "slow"], ["--task", "x"], ["--steps", "0"], ["--members", "x"],
        ["--seed", "-1"], ["--seed", "4294967296"], [],
    ],
)  # fmt: skip
def test_wrong_options_have_status_2(folder: Path, wrong: list[str]) -> None:
    out = ["--out", folder / "never"] if wrong else []
    assert hhvaem("fit", folder / "a.csv", *out, *wrong).returncode == 2


def test_the_command_starts_without_jax() -> None:
    code = (
        "import sys, hhvaem.cli; hhvaem.cli.application(); "
        "assert not {'jax', 'matplotlib', 'sklearn', 'pandas', 'scipy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_shells_complete_names_and_choices() -> None:
    def completed(typed: str) -> list[str]:
        environment = {
            **os.environ, "_HHVAEM_COMPLETE": "complete_bash", "COMP_WORDS": typed,
            "COMP_CWORD": str(len(typed.split()) - (not typed.endswith(" "))),
        }  # fmt: skip
        command = Path(sys.executable).with_name("hhvaem")
        return subprocess.run(
            [command], capture_output=True, text=True, env=environment
        ).stdout.split()

    assert completed("hhvaem im") == ["impute"]
    assert completed("hhvaem fit --preset ") == ["default", "paper", "fast"]


def test_a_reader_that_goes_away_stops_no_work(tmp_path: Path) -> None:
    write_table(pa.table({"a": [1, None, 1]}), tmp_path / "a.csv")
    # The reader has gone before anything is written.
    ours, theirs = os.pipe()
    os.close(ours)
    done = subprocess.run(
        [*COMMAND, "fit", "a.csv", "--out", "m"],
        stdout=theirs, stderr=subprocess.PIPE, cwd=tmp_path,
    )  # fmt: skip
    os.close(theirs)
    assert (done.returncode, done.stderr) == (0, b"")
    assert load(tmp_path / "m").fitted_ is None


# Interrupts where the libraries are imported that commands need, and where the garbage of JAX is
# collected: there, they turn such an interrupt into another error, or ignore it. And where XLA
# compiles, in threads that go on.
IN_AN_IMPORT = """
import builtins, signal, sys
from hhvaem.cli import main

real = builtins.__import__

def imported(name, *more, **named):
    if name == "{module}":
        try:
            signal.raise_signal(signal.SIGINT)
        except BaseException:
            pass
    return real(name, *more, **named)

builtins.__import__ = imported
main()
"""
IN_A_CALLBACK = """
import signal, time
from hhvaem.cli import main, schema

class Garbage:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

def read_table(*_):
    Garbage()
    for _ in range(500):
        time.sleep(0.1)

schema.read_table = read_table
main()
"""
IN_A_COMPILATION = """
import os, signal, threading
import jax, jax.numpy as jnp
from hhvaem.cli import main, schema

def long(x):
    for i in range(1000):
        x = jnp.sin(x @ x) + i
    return x

def read_table(*_):
    lowered = jax.jit(long).lower(jnp.ones((50, 50)))
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    lowered.compile()

schema.read_table = read_table
main()
"""


@pytest.mark.parametrize("module", ["hhvaem.cli.demo", "sklearn.base"])
def test_interrupted_in_an_import(tmp_path: Path, module: str) -> None:
    write_table(pa.table({"a": [1, None, 1]}), tmp_path / "a.csv")
    code = IN_AN_IMPORT.replace("{module}", module)
    done = subprocess.run(
        [sys.executable, "-c", HEARD + code, "fit", "a.csv", "--out", "m"],
        capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (130, "Stopped: nothing more is done.\n")
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("code", [IN_A_CALLBACK, IN_A_COMPILATION])
def test_interrupted_where_python_ignores_it_or_xla_goes_on(code: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HEARD + code, "schema", "a.csv"],
        capture_output=True, text=True, timeout=50,
    )  # fmt: skip
    assert done.returncode == 130
    assert done.stderr == "Stopped: what was not finished is not written.\n"


@pytest.mark.slow
def test_interrupted_without_snapshots(folder: Path) -> None:
    typed = ("fit", folder / "a.csv", "--out", folder / "out", "--preset", "fast")
    status, said = interrupted(*typed, when=b"compiling")
    assert status == 130
    assert said == (
        "Stopped: nothing is kept; with --snapshots FOLDER an interrupted fit goes on where it was."
    )
    assert not (folder / "out").exists()


@pytest.mark.slow
def test_interrupted_with_snapshots_the_same_command_goes_on(folder: Path) -> None:
    kept, out = folder / "kept", folder / "out"
    typed = ("fit", folder / "a.csv", "--preset", "fast", "--steps", "9000", "--out")
    status, said = interrupted(*typed, out, "--snapshots", kept, when=b"compiling")
    assert status == 130
    assert said == "Stopped: there was nothing to keep yet; the same command starts again."
    status, said = interrupted(*typed, out, "--snapshots", kept, when=b"/9000 steps")
    assert status == 130
    assert said == f"Stopped: what was trained is in {kept}; the same command goes on from there."
    assert not out.exists()
    assert hhvaem(*typed, out, "--snapshots", kept).returncode == 0
    assert hhvaem(*typed, folder / "whole").returncode == 0
    one, other = (read_arrays(path)[0] for path in (out, folder / "whole"))
    assert fingerprint(one) == fingerprint(other)
