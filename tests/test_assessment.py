"""Hidden cells, filled and judged: scores against closed forms, words against made-up outcomes."""

import json
import sys
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from two_factors import ARRAY, FAST, NAMES

from hhvaem import Imputer, fitting
from hhvaem.assessment import OURS, Assessment, Calibration, Outcome
from hhvaem.baselines import Task, gaussian, mean
from hhvaem.errors import InputError
from hhvaem.evaluate import score_cells
from hhvaem.own_holes import own_holes
from hhvaem.preparing import Part
from hhvaem.schema import Column, Schema
from hhvaem.trust import Evaluation, histogram
from hhvaem.verdicts import RESAMPLED, Difference, compared, in_words, verdicts

SHADE = "<b>shade & co"


def some_table() -> pd.DataFrame:
    frame = pd.DataFrame(np.tile(ARRAY, (3, 1)), columns=NAMES)
    rng = np.random.default_rng(1)
    frame += 0.02 * rng.normal(size=frame.shape)
    frame[SHADE] = np.where(rng.random(len(frame)) < 0.3, "dark", "light")
    frame.loc[rng.random(len(frame)) < 0.1, SHADE] = None
    return frame


@pytest.fixture(scope="module")
def told() -> Evaluation:
    return Imputer(**FAST).evaluate(some_table(), against=["mean", "gaussian"])


def test_what_depends_on_the_others_is_trusted_and_what_does_not_is_not(told: Evaluation) -> None:
    words = {each.column: each.word for each in told.verdicts}
    assert {words["a"], words["b"]} <= {"trust", "wide but honest"}
    assert words[SHADE] == "no better than the column mean"
    ours, other, copula = told.found.outcomes
    assert [ours.name, other.name, copula.name] == [OURS, "mean", "gaussian"]
    assert ours.report.table["rmse"] < 0.8 * other.report.table["rmse"]
    assert 0.8 < ours.report.table["coverage90"] <= 1.0
    assert other.spreads is None
    assert told.found.rows == 240


def test_log_scores_of_levels_are_those_of_their_shares(told: Evaluation) -> None:
    frame, hidden = some_table(), told.found.hidden[:, 3]
    shown, truth = frame[SHADE][~hidden].dropna(), frame[SHADE][hidden]
    share = (np.sum(shown == "light") + 1) / (len(shown) + 2)
    expected = np.log(np.where(truth == "light", share, 1 - share)).mean()
    ours, alone = (outcome.log_scores for outcome in told.found.outcomes[:2])
    assert ours is not None
    assert alone is not None
    np.testing.assert_allclose(alone[SHADE], expected)
    # Nothing says more of it; of the numbers, a lot does.
    assert abs(ours[SHADE] - expected) < 0.1
    assert ours["a"] > alone["a"] + 0.2


def test_hidden_cells_are_not_looked_at(told: Evaluation) -> None:
    """Other truths in the hidden cells: the same fills, and other scores."""
    frame = some_table()
    frame.loc[told.found.hidden[:, 0], "a"] += 40.0
    other = Imputer(**FAST).evaluate(frame, against=["mean"])
    np.testing.assert_array_equal(other.found.hidden, told.found.hidden)
    for name in ("b", "c"):
        assert (
            other.found.outcomes[0].report.by_column[name]
            == told.found.outcomes[0].report.by_column[name]
        )
    assert other.found.outcomes[0].report.by_column["a"]["rmse"] > 20
    assert other.found.calibration["a"].places.min() > 0.99  # type: ignore[union-attr]
    (word,) = (each.word for each in other.verdicts if each.column == "a")
    assert word == "too sure of itself"


def test_an_estimator_stays_as_it_is() -> None:
    imputer = Imputer(**FAST)
    before = dict(vars(imputer))
    imputer.evaluate(some_table(), against=[])
    assert vars(imputer) == before


def test_columns_are_judged_by_their_means_whatever_else_they_are_compared_with(
    told: Evaluation,
) -> None:
    alone = Imputer(**FAST).evaluate(some_table(), against=[])
    assert [(v.word, v.mean_score) for v in alone.verdicts] == [
        (v.word, v.mean_score) for v in told.verdicts
    ]
    assert alone.words == ()
    assert [method["name"] for method in json.loads(alone.to_json())["methods"]] == [OURS]


def test_noise_is_never_to_be_trusted() -> None:
    rng = np.random.default_rng(0)
    noise = pd.DataFrame({name: rng.normal(size=200) for name in "abc"})
    told = Imputer(**FAST).evaluate(noise, against=[])
    words = {each.word for each in told.verdicts}
    assert words <= {"no better than the column mean", "too sure of itself"}


def test_everything_is_in_the_json(told: Evaluation) -> None:
    facts = json.loads(told.to_json())
    assert facts["hidden_cells"] == told.found.hidden.sum()
    assert 0.15 < facts["share"] < 0.25
    assert [method["name"] for method in facts["methods"]] == [OURS, "mean", "gaussian"]
    assert facts["methods"][1]["more_error_than_ours"]["value"] > 0
    assert facts["methods"][0]["by_column"]["a"]["log_score"] < 0
    by_name = {each["column"]: each for each in facts["verdicts"]}
    assert sum(by_name["a"]["places"]) == by_name["a"]["cells"]
    assert "places" not in by_name[SHADE]
    assert facts["own_holes"] == {}


@pytest.mark.slow
def test_own_holes_are_scored_for_all_that_draw() -> None:
    told = Imputer(**FAST).evaluate(
        some_table(), against=["mean", "gaussian", "missforest"], own_holes=1
    )
    holes = json.loads(told.to_json())["own_holes"]
    assert set(holes) == {OURS, "gaussian"}
    assert 0 < holes[OURS]["score"] < 1.2 * holes["gaussian"]["score"]
    assert "The table's own holes" in told.to_html()


class Texts(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.links: list[str] = []

    def handle_data(self, data: str) -> None:
        self.texts.append(data.strip())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("script", "img", "link", "iframe", "b")
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]


def test_the_page_shows_verdicts_and_asks_nobody_for_anything(told: Evaluation) -> None:
    page = Texts()
    page.feed(told.to_html())
    assert not [link for link in page.links if not link.startswith("#")]
    for each in told.verdicts:
        assert any(each.column in text for text in page.texts)
        assert each.called in page.texts
        assert each.sentence in page.texts
    assert told.to_html() == told.to_html()
    assert "trust" in repr(told)
    assert "<table" in told._repr_html_()


# -------------------------------------------------------------- words, on outcomes that are made up

KINDS = (Column("x", "real"), Column("level", "binary", levels=("no", "yes")))


def made_up(
    rows: int = 400,
    *,
    ours: float = 0.5,
    others: float = 1.0,
    narrow: float = 1.0,
    wrong: float = 0.1,
    sure: float = 0.9,
    seed: int = 0,
) -> Assessment:
    """Fills that are off by so much, intervals so much too narrow, so many wrong levels."""
    rng = np.random.default_rng(seed)
    truth = np.stack([rng.normal(size=rows), rng.random(rows) < 0.5], axis=1).astype(float)
    hidden = np.ones(truth.shape, bool)

    def outcome(name: str, off: float, wrong: float) -> Outcome:
        error = off * rng.normal(size=rows)
        miss = rng.random(rows) < wrong
        point = np.stack(
            [truth[:, 0] + error, np.where(miss, 1 - truth[:, 1], truth[:, 1])], axis=1
        )
        report = score_cells(KINDS, truth, hidden, point, None, np.ones(2))
        return Outcome(name, report, 1.0, None, np.stack([error**2, miss], axis=1), None)

    places = np.clip(0.5 + (rng.random(rows) - 0.5) / narrow, 0, 1)
    own, by_mean = outcome(OURS, ours, wrong), outcome("mean", others, 0.5)
    return Assessment(
        Schema(KINDS), "mcar", 0, rows, 2 * rows, hidden, (own, by_mean), by_mean,
        {"x": Calibration(places, None), "level": Calibration(None, np.full(rows, sure))},
        {},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("made", "word"),
    [
        ({}, "trust"),
        ({"ours": 0.85}, "wide but honest"),
        ({"ours": 1.0}, "no better than the column mean"),
        ({"ours": 0.99}, "no better than the column mean"),
        ({"ours": 1.3}, "no better than the column mean"),
        ({"narrow": 0.7}, "too sure of itself"),
        ({"narrow": 1.3}, "trust"),
        ({"rows": 12}, "too few cells to tell"),
    ],
)
def test_words_for_numbers(made: dict[str, float], word: str) -> None:
    (number, _) = verdicts(made_up(**made))  # type: ignore[arg-type]
    assert number.word == number.called == word
    # A lower error that is not called better has to be explained.
    lower = word.startswith("no better") and number.score < number.mean_score
    assert ("may be chance" in number.sentence) == lower
    assert "perhaps" not in number.sentence
    if word == "too few cells to tell":
        assert "Only 12 cells" in number.sentence


@pytest.mark.parametrize(
    ("made", "word"),
    [
        ({}, "trust"),
        ({"wrong": 0.4, "sure": 0.6}, "wide but honest"),
        ({"wrong": 0.5, "sure": 0.5}, "no better than the column mean"),
        ({"wrong": 0.3, "sure": 0.95}, "too sure of itself"),
        ({"wrong": 0.1, "sure": 0.6}, "trust"),
    ],
)
def test_words_for_levels(made: dict[str, float], word: str) -> None:
    (_, level) = verdicts(made_up(4000, **made))
    assert level.word == word
    assert "mean" not in f"{level.called} {level.sentence}"


def test_doubts_that_change_no_word_are_told() -> None:
    (number, _) = verdicts(made_up(4000, narrow=0.97))
    assert number.word == "trust"
    assert number.sentence.endswith("of the truths, perhaps too few.")
    few = [verdicts(made_up(24, ours=0.8, seed=seed))[0] for seed in range(20)]
    doubted = [each for each in few if each.called.startswith("perhaps")]
    assert doubted
    assert {each.called for each in doubted} == {"perhaps no better than the column mean"}
    assert all(each.score < each.mean_score for each in doubted)


def test_who_fills_better_is_named() -> None:
    (number, level) = verdicts(made_up(ours=1.3, wrong=0.2))
    assert number.better is not None
    assert number.better[0] == "mean"
    assert "The column mean fills it better: off by" in number.sentence
    assert level.better is None
    words = in_words(made_up(ours=2.0, others=1.0, wrong=0.5))
    assert words[0] == "hhvaem fills worse than the column mean."
    assert "has an error that is lower by" in words[1]
    assert in_words(made_up())[0] == "hhvaem fills better than the column mean."
    assert "as well as the column mean" in in_words(made_up(ours=1.0, wrong=0.5))[0]


def test_standard_errors_are_those_of_repeated_tables() -> None:
    """What one table says of its own error is how much tables differ."""
    found = [compared(made_up(seed=seed))["mean"]["error"] for seed in range(60)]
    spread = np.std([each.value for each in found])
    np.testing.assert_allclose(np.mean([each.error for each in found]), spread, rtol=0.25)
    assert Difference(0.3, 0.1).sure
    assert not Difference(0.1, 0.1).sure
    assert RESAMPLED >= 200


def test_places_are_counted() -> None:
    assert histogram(np.array([0.0, 0.05, 0.5, 1.0])) == [2, 0, 0, 0, 0, 1, 0, 0, 0, 1]


# ------------------------------------------------------------------------------- the own holes


def copula(part: Part, draws: int, seed: int) -> np.ndarray:
    drawn = gaussian(Task(*part, part.values, part.mask, draws, seed)).draws
    assert drawn is not None
    return drawn


def typical(part: Part, draws: int, seed: int) -> np.ndarray:
    """The mean and next to no noise: what a good teacher does not do."""
    point = mean(Task(*part, part.values, part.mask, 1, seed)).point
    noise = 1e-3 * np.random.default_rng(seed).normal(size=(draws, *point.shape))
    return np.where(part.mask, point, point + noise)


def linear(rows: int = 1500, noise: float = 0.5) -> Part:
    """Whether y is missing depends on x, which is always known."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=rows)
    values = np.stack([x, x + noise * rng.normal(size=rows)], axis=1)
    mask = np.ones(values.shape, bool)
    mask[rng.random(rows) < 1 / (1 + np.exp(-2 * x)), 1] = False
    return Part((Column("x", "real"), Column("y", "real")), np.where(mask, values, np.nan), mask)


def test_right_fills_have_the_energy_score_of_the_law() -> None:
    part = linear()
    spread = np.nanstd(part.values[:, 1])
    right = own_holes(part, copula)
    # The mean CRPS of a normal law that is right.
    np.testing.assert_allclose(right.score, 0.5 / np.sqrt(np.pi) / spread, rtol=0.12)
    assert list(right.by_column) == ["y"]
    assert own_holes(part, typical).score > 2 * right.score


def test_columns_with_the_most_holes_come_first_and_weigh_most() -> None:
    part = linear()
    rng = np.random.default_rng(2)
    extra = rng.normal(size=(len(part.values), 1))
    seen = rng.random((len(extra), 1)) < 0.98
    wide = Part(
        (*part.columns, Column("z", "real")),
        np.concatenate([part.values, np.where(seen, extra, np.nan)], axis=1),
        np.concatenate([part.mask, seen], axis=1),
    )
    one, both = (own_holes(wide, copula, columns=count, draws=5) for count in (1, None))
    assert list(one.by_column) == ["y"]
    assert list(both.by_column) == ["y", "z"]
    weights = [(share := wide.mask[:, j].mean()) * (1 - share) for j in (1, 2)]
    np.testing.assert_allclose(
        both.score, np.average(list(both.by_column.values()), weights=weights)
    )


def test_without_holes_there_is_nothing_to_score() -> None:
    part = linear()
    full = replace_mask(part)
    assert np.isnan(own_holes(full, copula).score)


def replace_mask(part: Part) -> Part:
    return Part(part.columns, np.nan_to_num(part.values), np.ones(part.mask.shape, bool))


# ------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"against": ["forest"]}, "There is nothing called 'forest' to compare with; use 'mean'"),
        ({"how": "chance"}, "how='chance' is no way to hide cells"),
        ({"share": 1.5}, "share=1.5 is no share"),
        ({"own_holes": -1}, "own_holes"),
    ],
)
@pytest.mark.usefixtures("as_users_have_it")
def test_wrong_arguments(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Imputer(**FAST).evaluate(some_table(), **arguments)  # type: ignore[arg-type]


def test_tables_with_nothing_to_hide() -> None:
    with pytest.raises(InputError, match="nothing to hide"):
        Imputer(**FAST).evaluate(pd.DataFrame({"a": [1.0, 1.0, 1.0]}))
    with pytest.raises(InputError, match="too small to hide anything"):
        Imputer(**FAST).evaluate(some_table()[:9])


def test_numbers_without_a_finite_spread() -> None:
    table = some_table()
    name = next(name for name in table if table[name].dtype.kind == "f")
    table[name] *= 1e200
    with pytest.raises(InputError, match=f"Column '{name}' has numbers so far apart"):
        Imputer(**FAST).evaluate(table)


def test_settings_are_those_of_the_estimator() -> None:
    with pytest.raises(InputError, match="preset"):
        Imputer(preset="best").evaluate(some_table())


@pytest.mark.parametrize("against", [None, 3])
@pytest.mark.usefixtures("as_users_have_it")
def test_what_names_nothing_to_compare_with(against: object) -> None:
    with pytest.raises(InputError, match=f"against={against} does not say what to compare with"):
        Imputer(**FAST).evaluate(some_table(), against=against)  # type: ignore[arg-type]


@pytest.mark.usefixtures("as_users_have_it")
def test_lists_of_lists_name_nothing_either() -> None:
    with pytest.raises(InputError, match=r"There is nothing called \['mean'\] to compare with"):
        Imputer(**FAST).evaluate(some_table(), against=[["mean"]])  # type: ignore[list-item]


def unfitted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no model be fitted."""

    def never(*_: object, **__: object) -> None:
        raise AssertionError("a model was fitted before the refusal")

    monkeypatch.setattr(fitting, "fit", never)


def test_one_name_is_taken_and_told_before_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    unfitted(monkeypatch)
    with pytest.raises(AssertionError, match="a model was fitted"):
        Imputer(**FAST).evaluate(some_table(), against="mean")
    monkeypatch.setitem(sys.modules, "miceforest", None)
    with pytest.raises(InputError, match=r"install hhvaem\[peers\], or leave it out"):
        Imputer(**FAST).evaluate(some_table(), against="miceforest")


def test_numbers_without_a_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    unfitted(monkeypatch)
    table = some_table()
    table["a"] *= 1e-300
    with pytest.raises(InputError, match="Column 'a' has numbers so close together that their sp"):
        Imputer(**FAST).evaluate(table)
