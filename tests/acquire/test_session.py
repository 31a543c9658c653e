"""One live case: answers in any order, wrong ones, groups, and rules."""

import copy
import datetime as dt
import itertools
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hhvaem import Classifier, Imputer, InputError, Regressor, Session, TableWarning
from hhvaem.acquire import policy
from hhvaem.acquire.case import Case
from hhvaem.acquire.session import Told
from hhvaem.schema import Column
from hhvaem.table import encode_value

COLUMNS = ["age", "smoker", "city", "pain", "crp", "seen"]


def as_table(known: dict[str, Any]) -> pd.DataFrame:
    """Make the row of a session, of the types that the model was fitted to."""
    table = pd.DataFrame({**{name: [known.get(name)] for name in COLUMNS}, "ward": ["A"]})
    kinds = {"age": float, "crp": float, "seen": "datetime64[us]"}
    return table.astype(kinds).astype({"smoker": "boolean"})


def test_the_first_question_is_what_tells_most(regressor: Regressor) -> None:
    session = Session(regressor)
    question = session.ask()
    assert question is not None
    assert question.name == "crp"
    assert question.columns == ("crp",)
    assert question.cost == 1
    assert question.gain > 0.4 > 3 * question.error
    ranked = [question, *question.others]
    assert sorted(each.name for each in ranked) == sorted(COLUMNS)
    assert [each.rate for each in ranked] == sorted((each.rate for each in ranked), reverse=True)
    # Asking changes nothing, and the same is asked again.
    assert session.ask() == question
    assert session.history == []
    # As good as alone in a table.
    gains = regressor.acquire(as_table({}))
    assert gains.columns.tolist() == COLUMNS
    assert gains["crp"].item() == pytest.approx(question.gain, abs=5 * question.error)


@pytest.mark.parametrize("order", list(itertools.permutations(["crp", "city", "pain"]))[::2])
def test_predictions_are_those_of_the_model_in_any_order(
    regressor: Regressor, row: dict[str, Any], order: tuple[str, ...]
) -> None:
    session = Session(regressor, known={"age": row["age"]})
    for name in order:
        session.tell(name, row[name])
    found = session.predict()
    table = as_table(session.known)
    mean = regressor.predict(table)[0]
    low, up = regressor.predict_interval(table)
    spread = float(up[0] - low[0])
    assert (found.low, found.high) == pytest.approx((low[0], up[0]), abs=0.25 * spread)
    assert found.value == pytest.approx(mean, abs=0.15 * spread)
    assert found.target == "score"


@pytest.mark.slow
def test_classes(classifier: Classifier, row: dict[str, Any]) -> None:
    session = Session(classifier)
    question = session.ask()
    assert question is not None
    assert question.name == "crp"
    most = -sum(p * np.log(p) for _, p in session.predict().shares)
    assert 0 < question.gain < most
    for name, value in row.items():
        session.tell(name, value)
    found = session.predict()
    shares = classifier.predict_proba(as_table(row))[0]
    assert [label for label, _ in found.shares] == classifier.classes_.tolist()
    assert [share for _, share in found.shares] == pytest.approx(shares, abs=0.1)
    assert found.value == classifier.classes_[shares.argmax()]
    assert sum(share for _, share in found.shares) == pytest.approx(1)
    assert session.ask() is None
    assert session.stopped == (
        "Every column is known or cannot be measured: nothing is left to ask."
    )


def test_what_cannot_be_measured_is_not_asked_again(regressor: Regressor) -> None:
    session = Session(regressor, costs={"crp": 4.0})
    before = session.predict()
    session.tell("crp", None)
    assert session.open == [name for name in COLUMNS if name != "crp"]
    assert session.known == {}
    assert session.spent == 0
    assert session.predict() == before
    assert session.history == [Told("crp", None, None, 0.0)]
    question = session.ask()
    assert question is not None
    assert "crp" not in {question.name, *(each.name for each in question.others)}


def test_answers_are_taken_back_one_by_one(regressor: Regressor, row: dict[str, Any]) -> None:
    session = Session(regressor, known={"age": 40})
    begin = session.predict()
    question = session.ask()
    assert question is not None
    session.tell("crp", row["crp"])
    once = session.predict()
    assert session.history[0].gain == question.gain
    session.tell("city", "Rome")
    with pytest.warns(TableWarning, match=r"'crp' was 4.0 and is now 2.0"):
        session.tell("crp", 2.0)
    assert session.known == {"age": 40, "crp": 2.0, "city": "Rome"}
    assert session.undo().value == 2.0
    assert session.known == {"age": 40, "crp": 4.0, "city": "Rome"}
    assert session.undo() == Told("city", "Rome", None, 1.0)
    assert session.predict() == once
    session.undo()
    assert session.predict() == begin
    assert session.spent == 0
    with pytest.raises(InputError, match="No answer has been given"):
        session.undo()


def test_known_from_the_start_may_be_corrected(regressor: Regressor) -> None:
    session = Session(regressor, known={"crp": 1.0, "age": None, "pain": float("nan")})
    assert session.known == {"crp": 1.0}
    with pytest.warns(TableWarning, match="now unknown"):
        session.tell("crp", None)
    assert session.known == {}
    assert "crp" not in session.open
    assert session.predict() == Session(regressor).predict()


def test_texts_are_read_as_in_a_file(regressor: Regressor) -> None:
    texts = {"age": " 61 ", "smoker": "yes", "seen": "2024-06-01", "crp": "4"}
    values = {"age": 61, "smoker": True, "seen": dt.datetime(2024, 6, 1), "crp": 4.0}
    session = Session(regressor)
    for name, text in texts.items():
        session.tell(name, text)
    assert session.known == values
    assert session.history[1].value is True
    assert Session(regressor, known=texts).known == values
    assert Session(regressor, known=texts).predict() == Session(regressor, known=values).predict()


def test_sessions_compute_where_their_model_does(regressor: Regressor) -> None:
    model = copy.copy(regressor)
    session = Session(model)
    session.tell("crp", 1.0)
    before = session.predict()
    model.set_params(device="abacus")
    for call in (
        lambda: Session(model),
        session.ask,
        session.predict,
        session.undo,
        lambda: session.batch(1),
        lambda: session.explain("age"),
        lambda: session.tell("age", 40),
        lambda: session.resume({}, []),
    ):
        with pytest.raises(InputError, match="device='abacus' is not there"):
            call()
    # Nothing was changed by any of it.
    model.set_params(device="cpu")
    assert session.known == {"crp": 1.0}
    assert session.predict() == before
    assert session.undo().column == "crp"


def test_what_is_shown_of_sessions_is_short(regressor: Regressor) -> None:
    session = Session(regressor, known={"age": 40}, costs={"crp": 2.5})
    session.tell("crp", 1.0)
    assert repr(session) == "<Session with a Regressor of 'score': 2 of 6 columns known, 2.5 spent>"
    question = session.ask()
    assert repr(question).startswith(f"<Question {question.name!r}: gain {question.gain:.2g} ± ")
    assert repr(question).endswith(", cost 1, 3 others>")
    found = repr(session.explain("city"))
    assert found.startswith("<Explanation 'city': now score ")
    assert found.endswith("; answers 'Lima', 'Oslo', 'Rome'>")
    assert repr(session.predict()).startswith("<Prediction score ")
    assert max(map(len, (repr(question), found, repr(session.predict())))) < 120


def test_others_are_what_could_be_asked_too(regressor: Regressor) -> None:
    session = Session(regressor, costs={"crp": 9.0, "city": 3.0}, stop=policy.budget(4.0))
    question = session.ask()
    assert question is not None
    names = {question.name, *(each.name for each in question.others)}
    assert names == {*COLUMNS} - {"crp"}


def test_a_model_of_constant_columns_has_nothing_to_ask_for() -> None:
    y = np.random.default_rng(0).normal(size=60)
    session = Session(Regressor(preset="fast", random_state=0).fit(np.ones((60, 2)), y))
    assert session.ask() is None
    assert session.stopped == (
        "All columns are constant, empty or ignored: there is nothing to ask for."
    )
    assert repr(session).endswith("0 of 0 columns known, 0 spent>")
    assert session.batch(3) == []


def test_all_words_for_nothing_are_unknown(regressor: Regressor) -> None:
    nothing = (None, float("nan"), np.float32("nan"), pd.NA, pd.NaT, np.datetime64("NaT"))
    for missing in nothing:
        assert Session(regressor, known={"seen": missing, "crp": missing}).known == {}


def test_what_was_paid_stays_paid_when_an_answer_is_corrected(regressor: Regressor) -> None:
    costs, groups = {"lab": 5.0}, {"lab": ["crp", "pain"]}
    session = Session(regressor, known={"age": 40}, costs=costs, groups=groups)
    session.tell("crp", 1.0)
    session.tell("pain", "mild")
    assert session.spent == 7
    with pytest.warns(TableWarning):
        session.tell("crp", 2.0)
    assert session.spent == 7
    with pytest.warns(TableWarning):
        session.tell("crp", None)
    assert session.spent == 7
    # What was known from the start was free, and so is its correction.
    with pytest.warns(TableWarning):
        session.tell("age", 41)
    assert session.spent == 7


def test_a_day_is_the_same_at_any_hour() -> None:
    day = Column("seen", "datetime", "date")
    noon, midnight = dt.datetime(2024, 5, 1, 13), dt.date(2024, 5, 1)
    assert encode_value(day, noon) == encode_value(day, midnight)


def wrong_answers() -> list[Any]:
    return [
        pytest.param("crpp", 1.0, "no column 'crpp'; is it 'crp'?", id="column"),
        pytest.param("ward", "A", "'ward' is constant and tells", id="constant"),
        pytest.param("crp", "much", "'much' is no value of 'crp', which is a number", id="text"),
        pytest.param("crp", -1.0, "-1 is no value of 'crp', which is a number from 0", id="sign"),
        pytest.param("age", 1.5, "1.5 is no value of 'age', which is a whole", id="half"),
        pytest.param("city", "Bonn", "which is one of 'Lima', 'Oslo', 'Rome'", id="level"),
        pytest.param("pain", 2, "'pain' holds text, and 2 is none", id="number"),
        pytest.param("seen", "soon", "'soon' is no value of 'seen', which is a date", id="date"),
        pytest.param("smoker", "maybe", "'maybe' is no value of 'smoker', which is", id="truth"),
        pytest.param("crp", float("inf"), "inf is infinite or too large", id="infinite"),
        pytest.param("crp", [1.0], "[1.0] is of type list; give the value of 'crp'", id="list"),
        pytest.param("score", 3.0, "'score' is what the model predicts; it is", id="target"),
    ]


@pytest.mark.parametrize(("column", "value", "message"), wrong_answers())
def test_a_wrong_answer_changes_nothing(
    regressor: Regressor, column: str, value: Any, message: str
) -> None:
    session = Session(regressor, known={"age": 40})
    before = session.known, session.history, session.predict()
    with pytest.raises(InputError) as told:
        session.tell(column, value)
    assert message in str(told.value)
    assert (session.known, session.history, session.predict()) == before
    with pytest.raises(InputError) as again:
        Session(regressor, known={column: value})
    assert str(again.value) == str(told.value)


@pytest.mark.usefixtures("as_users_have_it")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda m: Session(m, costs={"crp": -1}), "The cost of 'crp' is -1; give a finite number"),
        (lambda m: Session(m, costs={"crp": None}), "The cost of 'crp' is None"),
        (lambda m: Session(m, costs={"crp": float("nan")}), "The cost of 'crp' is nan"),
        (lambda m: Session(m, costs={"crb": 1}), "no column or group 'crb' to have a cost; is it"),
        (lambda m: Session(m, costs=[1, 2]), "`costs` is of type list"),
        (lambda m: Session(m, groups={"lab": ["crb"]}), "'lab' has no column 'crb'; is it 'crp'"),
        (lambda m: Session(m, groups={"lab": "crp"}), "The group 'lab' is 'crp'; give a list"),
        (lambda m: Session(m, groups={"lab": pd.Index([])}), "; give a list of columns."),
        (lambda m: Session(m, groups={"lab": {"crp"}}), "The group 'lab' is {'crp'}; give a list"),
        (lambda m: Session(m, groups={"lab": [5]}), "The group 'lab' has no column 5; there are"),
        (lambda m: Session(m, groups={5: ["crp"]}), "A group is named by a text, not by 5."),
        (lambda m: Session(m, groups={None: ["crp"]}), "A group is named by a text, not by None."),
        (lambda m: Session(m, groups={"age": ["crp"]}), "'age' has the name of a column"),
        (lambda m: Session(m, groups={"a": ["crp"], "b": ["crp"]}), "in two groups, 'a' and 'b'"),
        (lambda m: Session(m, groups={"a": ["crp"]}, method="variance"), "need method='grid'"),
        (lambda m: Session(m, look_ahead=True, method="gaussian"), "need method='grid'"),
        (lambda m: Session(m, method="magic"), "method='magic' is unknown; use 'grid'"),
        (lambda m: Session(m, costs={"crp": 10**400}), "; give a finite number from 0 to 1e+300."),
        (
            lambda m: Session(m, costs={"crp": float("inf")}),
            "The cost of 'crp' is inf; give a finite number from 0 to 1e+300.",
        ),
        (lambda m: Session(m, costs={"crp": 1.7e308}), "The cost of 'crp' is 1.7e+308; give a fin"),
        (
            lambda m: Session(m, costs={"lab": 1.7e308}, groups={"lab": ["crp"]}),
            "The cost of 'lab' is 1.7e+308; give a finite number",
        ),
        (lambda m: Session(m).tell(["crp"], 1.0), "A column is named by a text, not by ['crp']"),
        (lambda m: Session(m, stop="budget"), "stop='budget' is no rule; give one of"),
        (lambda m: Session(m, stop=None), "stop=None is no rule"),
        (lambda m: Session(m, stop=[5]), "is no rule"),
        (lambda m: Session(m, stop=lambda *_: True).ask(), "with a sentence or returns None, not"),
        (lambda m: Session(m, stop=policy.confident(0.9)).ask(), "A number has no class to be"),
        (
            # Also where another rule objects before it.
            lambda m: Session(m, stop=[policy.budget(0.0), policy.confident(0.9)]).ask(),
            "A number has no class to be",
        ),
        (lambda m: policy.confident(95), "share=95 must be a number from 0 to 1."),
        (lambda m: policy.decided(), "decided() has no edge; give one or more."),
        (lambda m: policy.at_least(2, None), "at_least needs a rule to hold back, not None"),
        (lambda m: Session(m, draws=0), "draws=0"),
        (
            lambda m: Session(m, groups={"lab": ["crp", "pain"]}, draws=2001),
            "Groups need at most 2000 draws, not 2001.",
        ),
        (lambda m: Session(m, draws=2001).batch(1), "A batch needs at most 2000 draws, not 2001."),
        (lambda m: Session(m, draws=10**9), "draws=1000000000 must be a whole number of at most"),
        (lambda m: Session(m, known=[1]), "`known` is of type list"),
        (lambda m: Session(Imputer(preset="fast")), "An Imputer has no target"),
        (lambda m: Session("model.hhvaem"), "needs a fitted Regressor or Classifier, not str"),
        (lambda m: Session(m).explain("crb"), "no column 'crb'"),
        (lambda m: Session(m, known={"crp": 1.0}).explain("crp"), "'crp' is 1.0; name one that"),
        (lambda m: Session(m).batch(0), "count=0"),
        (lambda m: Session(m, method="variance").batch(2), "A batch needs method='grid'"),
        (lambda m: m.acquire(as_table({}), {"crb": 2.0}), "no column or group 'crb'"),
        (lambda m: m.acquire(as_table({}), method="magic"), "method='magic' is unknown"),
    ],
)
def test_wrong_arguments(
    regressor: Regressor, make: Callable[[Regressor], Any], message: str
) -> None:
    with pytest.raises(InputError) as told:
        make(regressor)
    assert message in str(told.value)


def test_costs_change_what_is_asked(regressor: Regressor) -> None:
    free = Session(regressor).ask()
    assert free is not None
    dear = Session(regressor, costs={"crp": 100.0, "city": 0.0}).ask()
    assert dear is not None
    assert (free.name, dear.name) == ("crp", "city")
    assert (dear.cost, [each.cost for each in dear.others if each.name == "crp"]) == (0, [100])
    gains = regressor.acquire(as_table({}))
    by_cost = regressor.acquire(as_table({}), {"crp": 100.0})
    np.testing.assert_allclose(by_cost["crp"], gains["crp"] / 100)
    np.testing.assert_allclose(by_cost["pain"], gains["pain"])


@pytest.mark.usefixtures("as_users_have_it")
@pytest.mark.filterwarnings("error")
def test_costs_may_be_numbers_of_numpy(regressor: Regressor) -> None:
    session = Session(regressor, costs={"crp": np.float32(2), "city": np.int8(3)})
    assert (session.prices.columns["crp"], session.prices.columns["city"]) == (2.0, 3.0)


def test_a_number_beyond_all_reason_is_far_out(regressor: Regressor) -> None:
    session = Session(regressor)
    with pytest.warns(TableWarning, match="lies far outside") as told:
        session.tell("crp", 1.7e308)
    assert len(told) == 1
    assert np.isfinite(session.predict().value)


def test_what_looks_like_a_slip_is_doubted_and_taken(regressor: Regressor) -> None:
    with pytest.warns(TableWarning, match=r"^400 lies far outside of what column 'age' mostly was"):
        session = Session(regressor, {"age": 400, "crp": 1.0})
    assert list(session.doubts) == ["age"]
    assert session.known["age"] == 400
    with pytest.warns(TableWarning, match="^1999-01-01.*fitted, 2023-12-.* to 2025-.*; correct"):
        session.tell("seen", "1999-01-01")
    with pytest.warns(TableWarning, match="was 400 and is now 40"):
        session.tell("age", 40)
    session.tell("city", "Rome")
    assert list(session.doubts) == ["seen"]
    session.undo()
    session.undo()
    assert list(session.doubts) == ["age", "seen"]


def test_nothing_in_the_table_is_doubted(regressor: Regressor, table: pd.DataFrame) -> None:
    for name in ("age", "crp", "seen"):
        for value in (table[name].min(), table[name].max()):
            assert not Session(regressor, {name: value}).doubts


def test_a_group_is_a_question_and_is_begun_once(regressor: Regressor) -> None:
    groups, costs = {"lab": ["crp", "pain"]}, {"lab": 1.0, "crp": 0.1, "pain": 0.1}
    session = Session(regressor, costs=costs, groups=groups)
    question = session.ask()
    assert question is not None
    asked = {each.name: each for each in (question, *question.others)}
    assert asked["lab"].columns == ("crp", "pain")
    assert (asked["lab"].cost, asked["crp"].cost) == pytest.approx((1.2, 1.1))
    # Both tell of the same thing: together more than either, and less than the sum of both.
    single = sorted([asked["crp"].gain, asked["pain"].gain])
    assert single[1] - 0.1 < asked["lab"].gain < sum(single)
    session.tell("pain", "mild")
    assert session.spent == pytest.approx(1.1)
    after = session.ask()
    assert after is not None
    # What was known at the start has begun its group: what is asked is what is charged.
    begun = Session(regressor, known={"pain": "mild"}, costs=costs, groups=groups)
    begun.tell("crp", 1.0)
    assert begun.spent == pytest.approx(0.1)
    # What is left of the group is no group any more, and is cheap now.
    rest = {each.name: each.cost for each in (after, *after.others)}
    assert "lab" not in rest
    assert rest["crp"] == pytest.approx(0.1)


def test_groups_may_be_an_index_or_an_array(regressor: Regressor) -> None:
    for members in (
        pd.Index(["crp", "pain"]),
        np.array(["crp", "pain"]),
        pd.Series(["crp", "pain"]),
    ):
        assert Session(regressor, groups={"lab": members}).prices.groups == {"lab": ("crp", "pain")}


def test_a_batch_does_not_ask_the_same_twice(regressor: Regressor) -> None:
    session = Session(regressor)
    first, second, third = session.batch(3)
    assert first.name == "crp"
    # By itself pain tells more than the city does, but not beside crp.
    alone = session.ask()
    assert alone is not None
    gains = {each.name: each.gain for each in (alone, *alone.others)}
    assert gains["pain"] > gains["city"]
    assert second.name == "city"
    assert second.gain > 2 * third.gain
    assert len(session.batch(100)) == len(COLUMNS)


def test_a_batch_heeds_rules(regressor: Regressor) -> None:
    costs = {"city": 3.0}
    whole = [each.name for each in Session(regressor, costs=costs).batch(6)]
    # What is chosen is spent, and what is too dear is passed over.
    found = Session(regressor, costs=costs, stop=policy.budget(2.0)).batch(6)
    assert [each.name for each in found] == [name for name in whole if name != "city"][:2]
    session = Session(regressor, stop=policy.at_most(2))
    session.tell("age", 40)
    assert len(session.batch(6)) == 1
    assert Session(regressor, stop=policy.decided(-100.0, 100.0)).batch(6) == []


def answered(session: Session, row: dict[str, Any]) -> list[str]:
    """Answer all questions, and give what was asked for."""
    while (question := session.ask()) is not None:
        for name in question.columns:
            session.tell(name, row[name])
    assert session.stopped is not None
    return [each.column for each in session.history]


def test_rules_stop(regressor: Regressor, row: dict[str, Any]) -> None:
    def told(session: Session) -> list[str]:
        return answered(session, row)

    session = Session(regressor, costs={"crp": 3.0, "city": 2.0}, stop=policy.budget(5.0))
    assert "crp" in told(session)
    assert session.stopped == "The budget of 5 leaves nothing that could be asked."
    assert session.spent <= 5
    session = Session(regressor, stop=[policy.worth(0.15)])
    assert told(session) == ["crp", "city"]
    assert session.stopped == "Nothing left is worth 0.15 for each unit of cost."
    assert len(told(Session(regressor, stop=policy.at_most(1)))) == 1
    assert len(told(Session(regressor, stop=policy.at_least(2, policy.at_most(0))))) == 2
    assert len(told(Session(regressor, stop=policy.decided(-100.0, 100.0)))) == 0
    assert 0 < len(told(Session(regressor, stop=policy.decided(9.0)))) < len(COLUMNS)
    # Any function will do.
    session = Session(regressor, stop=lambda question, standing: f"not {question.name}")
    assert told(session) == []
    assert session.stopped == "not crp"


def test_a_gain_of_unknown_error_may_be_worth_it(regressor: Regressor) -> None:
    # With as many bins as draws, numbers have no standard error.
    few = {"method": "histogram", "draws": 4}
    question = Session(regressor, stop=policy.worth(10.0), **few).ask()
    assert question is not None
    assert all(np.isnan(each.error) for each in (question, *question.others))
    # What is known well enough is passed over, and with no margin so is everything.
    assert "city" not in {question.name, *(each.name for each in question.others)}
    assert Session(regressor, stop=policy.worth(10.0, errors=0.0), **few).ask() is None


@pytest.mark.slow
def test_being_sure_stops(classifier: Classifier, row: dict[str, Any]) -> None:
    session = Session(classifier, stop=policy.confident(0.9))
    assert len(answered(session, row)) < len(COLUMNS)
    assert session.stopped == "The prediction is at least 90% sure."


def test_explanations_are_what_telling_would_give(regressor: Regressor) -> None:
    session = Session(regressor)
    found = session.explain()
    assert found.column == "crp"
    values = [value for value, _ in found.answers]
    assert values == sorted(values)
    means = [predictions[0].value for _, predictions in found.answers]
    assert means == sorted(means)
    assert means[0] < found.now[0].value < means[-1]
    session.tell("crp", values[0])
    assert session.predict() == found.answers[0][1][0]
    levels = session.explain("city")
    assert [value for value, _ in levels.answers] == ["Lima", "Oslo", "Rome"]
    dates = session.explain("seen")
    assert all(isinstance(value, dt.date) for value, _ in dates.answers)


def test_draws_start_anew_where_an_answer_surprises(regressor: Regressor) -> None:
    assert regressor.fitted_ is not None
    begun = Case.begun(regressor.fitted_, {}, 100)
    column = COLUMNS.index("crp")
    usual, odd = begun.told(column, 1.0), begun.told(column, 60.0)
    fresh = Case.begun(regressor.fitted_, {column: 60.0}, 100)
    np.testing.assert_array_equal(odd.positions, fresh.positions)
    fresh = Case.begun(regressor.fitted_, {column: 1.0}, 100)
    assert not np.array_equal(usual.positions, fresh.positions)
    # Both are draws of one law.
    one, other = (np.asarray(case.positions).reshape(-1, 5) for case in (usual, fresh))
    error = one.std(0) / np.sqrt(len(one) / 4)  # a quarter of the draws are independent, at least
    assert (np.abs(one.mean(0) - other.mean(0)) < 4 * error).all()


def test_the_question_after_the_next_is_thought_of(regressor: Regressor) -> None:
    question = Session(regressor, look_ahead=True).ask()
    assert question is not None
    assert question.ahead is not None
    total, price = question.ahead
    assert total > question.gain
    assert price == 2
    assert question.rate == max(question.gain, total / 2)


def test_gains_of_tables(regressor: Regressor, row: dict[str, Any]) -> None:
    table = pd.concat([as_table({}), as_table({"crp": 4.0}), as_table(row)], ignore_index=True)
    gains, errors = regressor.acquire(table, return_error=True)
    assert gains.shape == errors.shape == (3, len(COLUMNS))
    known = table[COLUMNS].notna().to_numpy()
    np.testing.assert_array_equal(np.isnan(gains.to_numpy()), known)
    np.testing.assert_array_equal(np.isnan(errors.to_numpy()), known)
    assert (gains.to_numpy()[~known] >= 0).all()
    assert gains["pain"][1] < 0.5 * gains["pain"][0]
    for method in ("histogram", "gaussian", "variance"):
        found = regressor.acquire(table[:1], method=method)
        assert found.iloc[0].idxmax() in ("crp", "pain")
    # A row alone, and in another order.
    np.testing.assert_array_equal(regressor.acquire(table[1:2]), gains[1:2])
    np.testing.assert_array_equal(regressor.acquire(table[::-1]), gains[::-1])


@pytest.mark.slow
def test_several_targets() -> None:
    rng = np.random.default_rng(0)
    table = rng.normal(size=(200, 3))
    targets = np.stack([table[:, 0], table[:, 1] + table[:, 0]], axis=1)
    targets = targets + 0.2 * rng.normal(size=targets.shape)
    model = Regressor(preset="fast", random_state=0).fit(table, targets)
    session = Session(model)
    question = session.ask()
    assert question is not None
    gains = {each.name: each.gain for each in (question, *question.others)}
    assert question.name == "x0"
    assert gains["x2"] < 0.1 < gains["x1"]
    predictions = session.predict()
    assert isinstance(predictions, dict)
    assert list(predictions) == ["y0", "y1"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        session.tell("x0", 1.0)
    assert replace(question, others=()).columns == ("x0",)


def test_an_unseen_level_is_observed_and_no_candidate(regressor: Regressor) -> None:
    with pytest.warns(TableWarning, match="'Bonn'"):
        gains, errors = regressor.acquire(as_table({"city": "Bonn"}), return_error=True)
    assert np.isnan([gains["city"].item(), errors["city"].item()]).all()
    assert gains.drop(columns="city").notna().all(axis=None)


def test_constant_columns_are_nothing_to_ask_for() -> None:
    rows = np.ones((30, 2))
    with pytest.warns(TableWarning, match="predicts hidden cells no better"):
        model = Regressor(preset="fast", max_steps=20, random_state=0).fit(rows, np.arange(30.0))
    with pytest.raises(InputError, match="there is nothing to ask"):
        model.acquire(rows)
