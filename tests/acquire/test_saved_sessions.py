"""Sessions in files: what was told and paid comes back, and files that are none are refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from hhvaem import Classifier, InputError, Regressor, Session, TableWarning, load
from hhvaem.acquire import policy


def test_a_case_is_what_was_given_and_told_and_nothing_else(
    regressor: Regressor, tmp_path: Path
) -> None:
    session = Session(regressor, known={"age": 40})
    session.tell("pain", "mild")
    session.tell("city", "Rome")
    asked = session.ask()
    session.tell("crp", 2.0)
    session.undo()
    assert session.ask() == asked
    session.save(tmp_path / "case.json")
    assert Session.load(tmp_path / "case.json", regressor).ask() == asked


def test_sessions_go_on_from_a_file(
    regressor: Regressor, row: dict[str, Any], tmp_path: Path
) -> None:
    place = tmp_path / "case.json"
    session = Session(
        regressor,
        known={"age": 61},
        costs={"crp": 2.0, "lab": 1.0},
        groups={"lab": ["crp", "pain"]},
    )
    for name in ("crp", "smoker", "seen", "pain"):
        session.tell(name, row[name])
    session.tell("city", None)
    session.save(place)
    regressor.save(tmp_path / "model")
    again = Session.load(place, load(tmp_path / "model"), stop=policy.budget(1.0))
    assert again.known == session.known
    assert again.open == session.open == []
    assert again.spent == session.spent == 6
    assert again.predict() == session.predict()
    assert again.undo().column == "city"
    assert again.open == ["city"]
    assert again.ask() is None


def test_answers_that_were_corrected_are_taken_back_one_by_one(
    regressor: Regressor, tmp_path: Path
) -> None:
    place = tmp_path / "case.json"
    session = Session(regressor, known={"age": 40}, costs={"crp": 2.0})
    session.tell("crp", 4.0)
    first = session.predict()
    session.tell("city", "Rome")
    second = session.predict()
    with pytest.warns(TableWarning):
        session.tell("crp", 2.0)
    with pytest.warns(TableWarning):
        session.tell("age", None)
    session.save(place)
    again = Session.load(place, regressor)
    assert again.given == {"age": 40}
    assert again.history == session.history
    assert again.known == session.known == {"crp": 2.0, "city": "Rome"}
    assert again.predict() == session.predict()
    assert again.undo().column == "age"
    assert again.known == {"age": 40, "crp": 2.0, "city": "Rome"}
    assert again.undo().value == 2.0
    assert again.known == {"age": 40, "crp": 4.0, "city": "Rome"}
    assert (again.spent, again.predict()) == (3, second)
    assert again.undo().column == "city"
    assert (again.known, again.predict()) == ({"age": 40, "crp": 4.0}, first)
    # What was taken back is not in the file either.
    again.save(place)
    once_more = Session.load(place, regressor)
    assert once_more.undo().value == 4.0
    with pytest.raises(InputError, match="No answer has been given"):
        once_more.undo()


def test_dates_and_truth_values_that_were_told_as_texts(
    regressor: Regressor, tmp_path: Path
) -> None:
    place = tmp_path / "case.json"
    session = Session(regressor, known={"smoker": "no"})
    session.tell("seen", "2024-06-01T02:00+02:00")
    session.save(place)
    again = Session.load(place, regressor)
    assert again.known == session.known
    assert again.predict() == session.predict()


def test_the_largest_costs_come_back(regressor: Regressor, tmp_path: Path) -> None:
    place = tmp_path / "case.json"
    costs, groups = {"crp": 1e300, "lab": 1e300}, {"lab": ["crp", "pain"]}
    session = Session(regressor, costs=costs, groups=groups)
    session.tell("crp", 1.0)
    session.save(place)
    assert Session.load(place, regressor).spent == session.spent == 2e300


@pytest.mark.slow
def test_a_session_is_with_one_model(
    regressor: Regressor, classifier: Classifier, tmp_path: Path
) -> None:
    Session(regressor).save(tmp_path / "case.json")
    with pytest.raises(InputError, match="is a session with another model"):
        Session.load(tmp_path / "case.json", classifier)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is no session that hhvaem has saved; name another"),
        ("[1]", "is no session that hhvaem has saved; name another"),
        ('{"format": "hhvaem session", "version": 9}', "was saved by another version"),
        ('{"format": "hhvaem session", "version": 1}', "parts of it are missing or altered"),
        ("\x80", "is no session"),
        ("[" * 100_000, "is no session"),
    ],
)
def test_files_that_are_no_session(
    regressor: Regressor, tmp_path: Path, content: str, message: str
) -> None:
    place = tmp_path / "case.json"
    place.write_text(content, "latin-1")
    with pytest.raises(InputError) as told:
        Session.load(place, regressor)
    assert message in str(told.value)
    assert str(place) in str(told.value)


@pytest.mark.usefixtures("as_users_have_it")
def test_altered_files_are_refused(regressor: Regressor, tmp_path: Path) -> None:
    place = tmp_path / "case.json"
    Session(regressor, known={"crp": 1.0}).save(place)
    whole = json.loads(place.read_text())
    for altered in (
        {"given": {"crp": "x"}},
        {"given": {"crb": 1.0}},
        {"history": [{"column": "crp"}]},
        {"history": [{"column": "crp", "value": -2.0, "gain": None, "cost": 1.0}]},
        {"history": [{"column": "age", "value": 2, "gain": None, "cost": "1"}]},
        {"history": [{"column": "age", "value": 2, "gain": None, "cost": -5}]},
        {"history": [{"column": "age", "value": 2, "gain": None, "cost": 10**400}]},
        {"history": [{"column": "age", "value": 2, "gain": None, "cost": float("inf")}]},
        {"history": [{"column": "age", "value": 2, "gain": None, "cost": True}]},
        {"history": [{"column": "age", "value": 2, "gain": "a", "cost": 1}]},
        {"history": [{"column": ["age"], "value": 2, "gain": None, "cost": 1}]},
        {"given": {"seen": "rubbish"}},
        {"given": {"seen": 5}},
        {"costs": {"crp": -1}},
        {"groups": {"lab": ["crb"]}},
        {"method": "magic"},
        {"draws": 0},
        {"draws": 10**9},
    ):
        place.write_text(json.dumps({**whole, **altered}))
        with pytest.raises(InputError) as told:
            Session.load(place, regressor)
        assert str(place) in str(told.value)
    with pytest.raises(InputError, match="cannot be read"):
        Session.load(tmp_path / "absent.json", regressor)
    with pytest.raises(InputError, match="absent"):
        Session(regressor).save(tmp_path / "absent" / "case.json")
