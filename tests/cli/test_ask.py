"""`hhvaem ask`: a dialogue, answers from a file, costs, rules, and what is refused."""

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from commands import hhvaem, refused
from pyarrow import parquet

from hhvaem import Classifier, Imputer, Regressor


def patients() -> tuple[pd.DataFrame, pd.Series]:
    rng = np.random.default_rng(0)
    rows = 200
    severity = rng.normal(size=rows)
    table = pd.DataFrame(
        {
            "age": rng.integers(20, 80, rows),
            "crp": np.exp(severity + 0.2 * rng.normal(size=rows)),
            "city": rng.choice(["Oslo", "Rome", "Lima"], rows),
            "a=b": severity + rng.normal(size=rows),
            "ward": "A",
        }
    )
    score = pd.Series(10 + 3 * severity + 2 * (table["city"] == "Rome"), name="score")
    return table, score


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of numbers, one that fills holes, and answers."""
    table, score = patients()
    place = tmp_path_factory.mktemp("models")
    Regressor(preset="fast", random_state=0).fit(table, score).save(place / "score")
    Imputer(preset="fast", random_state=0).fit(table.assign(age=1)[["age"]]).save(place / "filler")
    (place / "row.csv").write_text("crp,city,a=b\n4.0,Rome,\n")
    return place


@pytest.fixture(scope="module")
def risk(folder: Path) -> Path:
    """A model of classes."""
    table, score = patients()
    labels = pd.Series(np.where(score > 11, "high", "low"), name="risk")
    Classifier(preset="fast", random_state=0).fit(table, labels).save(folder / "risk")
    return folder / "risk"


def typed(lines: str, *arguments: Any) -> str:
    """Type lines into the dialogue, and give what it showed."""
    with mock.patch.object(sys, "stdin", io.StringIO(lines)):
        done = hhvaem("ask", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_dialogue_from_start_to_end(folder: Path) -> None:
    said = typed("why\nmuch\n-3\n4.0\nundo\n\n4\nROME\nunknown\nskip\n", folder / "score")
    shown = [line.strip() for line in said.splitlines()]
    assert shown[0] == "A value; or `unknown`, `why`, `undo`, `stop`, `help`."
    asked = [line.removeprefix("Ask for ") for line in shown if line.startswith("Ask for ")]
    assert asked[0] == "crp"
    # It was asked for again after it was taken back.
    assert asked.count("crp") == 2
    assert sorted({*asked}) == ["a=b", "age", "city", "crp"]
    for expected in (
        "What would be predicted if crp were ...",
        "crp is open again.",
        "Every column is known or cannot be measured: nothing is left to ask.",
    ):
        assert expected in said
    for part in (
        "'much' is no value of 'crp', which is a number from 0.",
        "-3 is no value of 'crp', which is a number from 0.",
        "crp (a number from 0) >",
        "city (one of 'Lima', 'Oslo', 'Rome') >",
        "nats, cost 1",
    ):
        assert part in said
    assert shown[-1] == "2 answers, 2 spent."
    drawn = [line for line in shown if "●" in line]
    assert len(drawn) == 7
    # Answers make the interval shorter.
    assert drawn[-1].count("─") < drawn[0].count("─") / 2
    assert "█" * 24 in said


@pytest.mark.parametrize("word", ["help", "HELP", "?"])
def test_words_are_listed(folder: Path, word: str) -> None:
    said = typed(f"{word}\nstop\n", folder / "score")
    lines = [line.strip() for line in said.splitlines()]
    for expected in (
        "unknown, skip  it cannot be measured, and is not asked for again",
        "undo           take the last answer back",
        "help, ?        show these words",
    ):
        assert expected in lines
    assert lines[-1] == "0 answers, 0 spent."


NO_GAIN = "No gain that is left can be told from zero: `stop` ends here, and answers are taken as"


def test_it_is_said_when_nothing_tells_any_more(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({name: rng.normal(size=300) for name in ("all", "no", "nor", "none")})
    score = pd.Series(3 * table["all"] + 0.1 * rng.normal(size=300), name="score")
    Regressor(preset="fast", random_state=0).fit(table, score).save(tmp_path / "model")
    said = " ".join(typed("1\n0\n0\nundo\n0\n0\n", tmp_path / "model").split())
    # With the last column, and again after an answer was taken back; it ends nothing.
    assert said.count(NO_GAIN) == 2
    assert said.index("Ask for no ") < said.index(NO_GAIN) < said.index("is open again")
    assert said.endswith("4 answers, 4 spent.")


@pytest.mark.slow
@pytest.mark.parametrize("end", ["stop\n", "STOP\n", ""])
def test_it_ends_when_told_to(risk: Path, end: str) -> None:
    said = typed(f"4\n{end}", risk, "--known", "city=rome", "--known", "a=b=0.5")
    assert said.splitlines()[-1] == "1 answer, 1 spent."
    assert "high" in said
    assert "%" in said


def test_answers_from_a_file(folder: Path) -> None:
    arguments = ("ask", folder / "score", "--answers", folder / "row.csv")
    found = json.loads(hhvaem(*arguments, "--json").stdout)
    told = {step["column"]: step["value"] for step in found["steps"]}
    assert told == {"crp": 4.0, "city": "Rome", "age": None, "a=b": None}
    assert found["spent"] == 2
    assert found["stopped"].startswith("Every column")
    [end] = found["predictions"]
    assert end["target"] == "score"
    assert end["low"] < end["value"] < end["high"]
    assert end["value"] == pytest.approx(16.2, abs=1.5)
    done = hhvaem(*arguments)
    assert "crp 4.0" in done.stdout
    assert "age unknown" in done.stdout
    assert "score 1" in done.stdout


def test_costs_and_rules(folder: Path, tmp_path: Path) -> None:
    costs = tmp_path / "costs.csv"
    costs.write_text("column,cost,group\ncrp,1,lab\na=b,1,lab\nlab,3,\ncity,0.5,\n")
    arguments = (
        "ask", folder / "score", "--answers", folder / "row.csv", "--costs", costs, "--json",
    )  # fmt: skip
    found = json.loads(hhvaem(*arguments).stdout)
    spent = {step["column"]: step["cost"] for step in found["steps"]}
    assert spent == {"crp": 4, "city": 0.5, "age": 0, "a=b": 0}
    found = json.loads(hhvaem(*arguments, "--budget", 2).stdout)
    assert {step["column"] for step in found["steps"]} == {"city", "age"}
    assert found["stopped"] == "The budget of 2 leaves nothing that could be asked."
    found = json.loads(hhvaem(*arguments, "--most", 1).stdout)
    assert len(found["steps"]) == 1
    found = json.loads(hhvaem(*arguments, "--least", 1000).stdout)
    assert found["steps"] == []
    found = json.loads(hhvaem(*arguments, "--edge", -50, "--edge", 50).stdout)
    assert found["steps"] == []


@pytest.mark.slow
def test_classes_and_another_model(folder: Path, risk: Path, tmp_path: Path) -> None:
    place = tmp_path / "case.json"
    typed("stop\n", folder / "score", "--known", "age=40", "--session", place)
    typed("4\nstop\n", folder / "score", "--session", place)
    assert "another model" in refused("ask", risk, "--session", place)
    sure = ("ask", risk, "--answers", folder / "row.csv", "--sure", 0.9, "--json")
    found = json.loads(hhvaem(*sure).stdout)
    assert found["predictions"][0]["value"] == "high"
    assert dict(found["predictions"][0]["shares"])["high"] >= 0.9


def test_a_session_goes_on(folder: Path, tmp_path: Path) -> None:
    place = tmp_path / "case.json"
    arguments = (folder / "score", "--session", place)
    typed("4\nstop\n", *arguments, "--known", "age=40")
    said = typed("stop\n", *arguments)
    assert "Ask for crp" not in said
    assert said.splitlines()[-1] == "1 answer, 1 spent."
    assert json.loads(place.read_text())["given"] == {"age": 40}
    # The same command goes on.
    assert typed("stop\n", *arguments, "--known", "age=40") == said
    for option in (("--known", "age=1"), ("--look-ahead",)):
        message = f"was begun with other {option[0]} than this; leave that option out"
        assert message in refused("ask", *arguments, *option)


def test_what_is_known_is_kept_before_any_answer(folder: Path, tmp_path: Path) -> None:
    place = tmp_path / "case.json"
    typed("stop\n", folder / "score", "--session", place, "--known", "age=40")
    assert json.loads(place.read_text())["given"] == {"age": 40}


@pytest.mark.slow
def test_levels_that_are_called_like_commands(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    words = np.array(["unknown", "stop", "1"])
    code = rng.integers(0, 3, 200)
    table = pd.DataFrame({"ward": words[code], "age": rng.normal(size=200)})
    y = pd.Series(3.0 * code + 0.1 * rng.normal(size=200), name="score")
    Regressor(preset="fast", random_state=0).fit(table, y).save(tmp_path / "model")
    said = typed("unknown\nstop\n", tmp_path / "model")
    assert "`unknown` is one of its values; `skip` if it is not known." in said
    assert said.splitlines()[-1] == "1 answer, 1 spent."
    assert typed("skip\nstop\n", tmp_path / "model").splitlines()[-1] == "0 answers, 0 spent."
    # In a file of one row, a level that looks like a number is read as one.
    (tmp_path / "row.csv").write_text("ward\n1\n")
    done = hhvaem("ask", tmp_path / "model", "--answers", tmp_path / "row.csv")
    assert "ward '1' " in done.stdout


@pytest.fixture(scope="module")
def padded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of a column whose levels have blanks at their ends."""
    rng = np.random.default_rng(0)
    code = rng.integers(0, 3, 200)
    city = np.array([" Rome", "Oslo ", " stop"])[code]
    y = pd.Series(3.0 * code + 0.1 * rng.normal(size=200), name="score")
    model = Regressor(preset="fast", max_steps=100, random_state=0)
    place = tmp_path_factory.mktemp("padded") / "model"
    model.fit(pd.DataFrame({"city": city, "age": rng.normal(size=200)}), y).save(place)
    return place


@pytest.mark.parametrize(
    ("text", "level"),
    [(" Rome", " Rome"), ("rome", " Rome"), ("Oslo", "Oslo "), (" stop", " stop")],
)
def test_levels_with_blanks_at_their_ends(
    padded: Path, tmp_path: Path, text: str, level: str
) -> None:
    def kept(name: str) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((tmp_path / name).read_text())
        return content

    typed("stop\n", padded, "--known", f"city={text}", "--session", tmp_path / "known")
    assert kept("known")["given"] == {"city": level}
    typed(f"{text}\nstop\n", padded, "--known", "age=0", "--session", tmp_path / "typed")
    (tmp_path / "row.csv").write_text(f"city\n{text}\n")
    arguments = ("--answers", tmp_path / "row.csv", "--session", tmp_path / "told")
    hhvaem("ask", padded, "--known", "age=0", *arguments)
    for name in ("typed", "told"):
        assert [each["value"] for each in kept(name)["history"]] == [level]


def test_a_word_is_a_word_where_a_level_has_blanks_around_it(padded: Path) -> None:
    said = typed("  stop\n", padded, "--known", "age=0")
    assert said.splitlines()[-1] == "0 answers, 0 spent."


def test_wrong_answers_are_found_before_anything_is_asked(folder: Path, tmp_path: Path) -> None:
    row, place = tmp_path / "row.csv", tmp_path / "case.json"
    row.write_text("crp,city,age\n4.0,Bonn,40\n")
    said = refused("ask", folder / "score", "--answers", row, "--session", place, "--json")
    assert said == f"{row}: 'Bonn' is no value of 'city', which is one of 'Lima', 'Oslo', 'Rome'."
    assert not place.exists()


def test_what_is_nan_in_a_file_is_unknown(folder: Path, tmp_path: Path) -> None:
    row = tmp_path / "row.parquet"
    parquet.write_table(pa.table({"crp": [4.0], "age": [float("nan")]}), row)
    found = json.loads(hhvaem("ask", folder / "score", "--answers", row, "--json").stdout)
    told = {step["column"]: step["value"] for step in found["steps"]}
    assert told == {"crp": 4.0, "city": None, "age": None, "a=b": None}


def test_what_another_dialogue_has_kept_is_not_lost(folder: Path, tmp_path: Path) -> None:
    place = tmp_path / "case.json"
    arguments = (folder / "score", "--session", place, "--known", "age=40")
    typed("stop\n", *arguments)

    class Slow(io.StringIO):
        """Lets another dialogue answer before the first line is read."""

        def readline(self, size: int | None = -1) -> str:
            if not self.tell():
                typed("4\nstop\n", *arguments)
            return super().readline(-1 if size is None else size)

    with mock.patch.object(sys, "stdin", Slow("2\nRome\nstop\n")):
        done = hhvaem("ask", *arguments)
    assert done.returncode == 1
    assert done.stderr == (
        f"Error: {place} was changed by another session, and is left without what was told last; "
        "run the same command again to go on from it.\n"
    )
    # One question, and no other after what could not be kept.
    assert done.stdout.count("Ask for ") == 1
    assert [each["value"] for each in json.loads(place.read_text())["history"]] == [4.0]
    assert typed("stop\n", *arguments).splitlines()[-1] == "1 answer, 1 spent."


def test_a_file_that_was_removed_is_written_again(folder: Path, tmp_path: Path) -> None:
    place = tmp_path / "case.json"

    class Removing(io.StringIO):
        def readline(self, size: int | None = -1) -> str:
            place.unlink(missing_ok=True)
            return super().readline(-1 if size is None else size)

    with mock.patch.object(sys, "stdin", Removing("4\n")):
        hhvaem("ask", folder / "score", "--session", place, "--most", 1)
    assert [each["value"] for each in json.loads(place.read_text())["history"]] == [4.0]


def test_no_bar_is_fuller_than_that_of_a_larger_gain(folder: Path, tmp_path: Path) -> None:
    costs = tmp_path / "costs.csv"
    costs.write_text("column,cost\ncity,0.001\na=b,0.01\nage,100\n")
    said = typed("Lima\nskip\nskip\nskip\n", folder / "score", "--costs", costs)
    lines = [line.split() for line in said.splitlines() if line.startswith("  gain ")]
    bars, gains = [line[1].count("█") for line in lines], [float(line[2]) for line in lines]
    # It is cheap, and tells less than what is asked for later.
    assert gains[0] < 0.9 * max(gains)
    most = max(gains)
    assert bars == [pytest.approx(24 * gain / most, abs=2) for gain in gains]


def test_answers_to_no_question_are_named(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "row.csv").write_text("crp,Age,score\n1,40,3\n")
    done = hhvaem("ask", folder / "score", "--answers", tmp_path / "row.csv")
    assert "has a column 'Age' that the model lacks; is it 'age'?" in " ".join(done.stderr.split())
    assert "score" not in done.stderr


def with_file(name: str, content: str) -> Callable[[Path], tuple[str, Path]]:
    def write(folder: Path) -> tuple[str, Path]:
        (folder / f"{name}.csv").write_text(content)
        return f"--{name}", folder / f"{name}.csv"

    return write


@pytest.mark.usefixtures("as_users_have_it")
@pytest.mark.parametrize(
    ("model", "arguments", "message"),
    [
        ("filler", [], "is an Imputer, which has no target to ask about"),
        ("score", ["--json"], "--json needs --answers"),
        ("score", ["--known", "crp"], "--known crp says no value; write COLUMN=VALUE"),
        ("score", ["--known", "crq=1"], "The model has no column 'crq'; is it 'crp'?"),
        ("score", ["--known", "crp=x"], "'x' is no value of 'crp', which is a number from 0"),
        ("score", ["--known", "city=Bonn"], "which is one of 'Lima', 'Oslo', 'Rome'"),
        (
            "score", with_file("costs", "a,b\n1,2\n"),
            "costs.csv lacks the column `column` and the column `cost`; give a table with",
        ),
        (
            "score", with_file("costs", "column,price\na,1\n"),
            "costs.csv lacks the column `cost`; give a table with `column` and `cost`.",
        ),
        ("score", with_file("costs", "column,cost\ncrp,-1\n"), "The cost of 'crp' is -1"),
        ("score", with_file("costs", "column,cost\ncrp,\ncity,1\n"), "The cost of 'crp' is None"),
        ("score", with_file("costs", "column,cost\ncrp,1\ncrp,2\n"), "cost of 'crp' twice"),
        ("score", with_file("costs", "column,cost\ncrq,1\n"), "no column or group 'crq'"),
        ("score", with_file("answers", "crp\n1\n2\n"), "has 2 rows; give a table of one row"),
        ("score", with_file("answers", "crp\nx\n"), "answers.csv: 'x' is no value of 'crp'"),
        ("score", with_file("answers", "foo,Bar\n1,2\n"), "has no column that the model asks for"),
        (
            "score", with_file("answers", "ward,score\nA,1\n"),
            "answers.csv has no column that the model asks for; there are 'age', 'crp', 'city', ",
        ),
        ("score", with_file("costs", "column,cost\n,1\n"), "line without the name of a column"),
        ("score", ["--known", "age=1", "--known", "age=2"], "--known says 'age' twice"),
        ("score", ["--known", "score=1"], "'score' is what the model predicts; it is not told"),
        ("score", ["--sure", "0.5"], "A number has no class to be sure of"),
        ("score", ["--session", "/"], "/ is a folder; name a file with --session."),
        ("score", ["--answers", "absent.csv"], "absent.csv"),
        ("score", ["--session", "absent/case.json"], "absent does not exist; make it first"),
    ],
)  # fmt: skip
def test_one_sentence(
    folder: Path, tmp_path: Path, model: str, arguments: Any, message: str
) -> None:
    given = arguments(tmp_path) if callable(arguments) else arguments
    assert message in refused("ask", folder / model, *given)
