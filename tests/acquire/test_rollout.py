"""Asking for one cell after the other, simulated: what is given, what it costs, what it brings."""

import dataclasses
import json
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from hhvaem import Classifier, Regressor
from hhvaem.acquire.rollout import Rollout, errors, log_likelihood, roll_out
from hhvaem.encoding import Encoding
from hhvaem.errors import InputError
from hhvaem.fitting import Fitted
from hhvaem.likelihoods import Binary, Categorical, Ordered
from hhvaem.predictive import Predictive, Scales
from hhvaem.warps import Affine, Levels

ROWS, COLUMNS = 12, 3
RNG = np.random.default_rng(0)
FULL = RNG.normal(size=(200, COLUMNS))
# The second column says nearly all, the third a little, the first nothing.
Y = 2 * FULL[:, 1] + 0.6 * FULL[:, 2] + 0.1 * RNG.normal(size=200)
VALUES, TRUTH = FULL[:ROWS], Y[:ROWS, None]
THERE = np.ones((ROWS, COLUMNS), bool)


@cache
def model() -> Fitted:
    return Regressor(preset="fast", random_state=0).fit(FULL[ROWS:], Y[ROWS:]).fitted_


@cache
def with_levels() -> Fitted:
    """A model of a column of three levels, one of three in order, a number and two classes."""
    rng = np.random.default_rng(1)
    table = pd.DataFrame(
        {
            "city": rng.choice(["Lima", "Oslo", "Rome"], 100),
            "pain": pd.Categorical.from_codes(
                rng.integers(0, 3, 100), ["no", "some", "much"], ordered=True
            ),
            "age": rng.normal(size=100),
        }
    )
    label = np.where(table["age"] > 0, "old", "young")
    return Classifier(preset="fast", max_steps=50, random_state=0).fit(table, label).fitted_


@cache
def greedy() -> Rollout:
    return roll_out(model(), VALUES, THERE, TRUTH)


def test_the_most_telling_column_comes_first_and_predictions_become_better() -> None:
    found = greedy()
    assert {order[0] for order in found.order} == {1}
    assert np.mean([order[1] == 2 for order in found.order]) > 0.8
    assert all(sorted(order) == [0, 1, 2] for order in found.order)
    error, likelihood = np.array(found.error)[:, 0], np.array(found.log_likelihood)
    assert (error[1] < 0.6 * error[0]) & (error[2] < 0.8 * error[1])
    assert likelihood[0] < likelihood[1] < likelihood[2]
    assert found.error_area == pytest.approx([error.mean()])
    assert found.log_likelihood_area == pytest.approx(likelihood.mean())
    assert found.spend == [0, 1, 2, 3]
    assert found.unavailable == [0, 0, 0]
    assert (found.policy, found.rows, found.measures) == ("grid", ROWS, ["rmse"])
    assert len(found.seconds) == 4
    assert min(found.seconds) > 0


SOME = RNG.random((ROWS, COLUMNS)) < 0.5


@pytest.mark.parametrize("start", [~THERE, THERE, SOME], ids=["nothing", "all", "some"])
def test_predictions_are_those_of_the_model_with_what_is_known(start: np.ndarray) -> None:
    ((_, _, law),) = model().laws(VALUES, start, model().plan.how)
    mean = law.mean(0, np.arange(ROWS))
    expected = np.sqrt(np.mean((mean - TRUTH[:, 0]) ** 2))
    found = roll_out(
        model(), VALUES, THERE, TRUTH, policy="fixed", order=[0, 1, 2], start=start, steps=0
    )
    assert found.error == [pytest.approx([expected], rel=1e-3)]
    assert (found.order, found.spend) == ([[]] * ROWS, [0])


def test_results_go_to_json_and_back() -> None:
    plain = dataclasses.asdict(greedy())
    assert Rollout(**json.loads(json.dumps(plain))) == greedy()


def test_what_the_table_lacks_is_never_given_and_is_asked_for_once() -> None:
    has = THERE.copy()
    has[0, 1] = has[1, 1] = has[1, 0] = False
    has[2] = False
    values = np.where(has, VALUES, np.nan)
    found = roll_out(model(), values, has, TRUTH, policy="fixed", order=[1, 0, 2])
    assert found.order[:4] == [[0, 2], [2], [], [1, 0, 2]]
    # Of the 11 rows that were given one: rows 0 and 1 ask for the second column in vain.
    assert found.unavailable == [pytest.approx(2 / 11), 0, 0]
    spent = np.array([[0, 1, 2, 2], [0, 1, 1, 1], [0] * 4, *[[0, 1, 2, 3]] * 9])
    assert found.spend == pytest.approx(spent.mean(0))


def test_what_is_known_at_the_start_is_neither_asked_for_nor_paid() -> None:
    start = np.zeros_like(THERE)
    start[:, 1] = True
    start[0, 2] = True
    found = roll_out(model(), VALUES, THERE, TRUTH, policy="fixed", order=[2, 1, 0], start=start)
    assert found.order == [[0], *[[2, 0]] * 11]
    assert found.spend == pytest.approx([0, 1, 23 / 12])
    # Where another policy has arrived after one step.
    assert found.error[0][0] < greedy().error[0][0] / 2


def test_one_order_for_all_is_that_of_gains_at_the_start() -> None:
    found = roll_out(model(), VALUES, THERE, TRUTH, policy="fixed", steps=1)
    assert found.order == [[1]] * ROWS
    assert found.error[1] == pytest.approx(greedy().error[1])


def test_a_column_that_costs_much_waits() -> None:
    costs = [1.0, 1000.0, 1.0]
    found = roll_out(model(), VALUES, THERE, TRUTH, costs=costs)
    assert {order[0] for order in found.order} == {2}
    assert found.spend[-1] == 1002
    fixed = roll_out(model(), VALUES, THERE, TRUTH, policy="fixed", costs=costs, steps=1)
    assert fixed.order == [[2]] * ROWS


def test_a_free_column_is_not_refused() -> None:
    found = roll_out(model(), VALUES, THERE, TRUTH, costs=[1.0, 1.0, 0.0], steps=1)
    assert found.order == [[2]] * ROWS
    assert found.spend == [0, 0]


def test_random_orders_are_each_rows_own_and_those_of_the_seed() -> None:
    first, again, other = (
        roll_out(model(), VALUES, THERE, TRUTH, policy="random", seed=seed) for seed in (1, 1, 2)
    )
    assert first.order == again.order
    assert first.order != other.order
    assert len({tuple(order) for order in first.order}) > 3
    # All end where the others end, as by then everything is known.
    assert first.error[-1] == pytest.approx(greedy().error[-1], rel=1e-4)
    assert first.error_area[0] > greedy().error_area[0]


def predictive(laws: Any, components: Any, noise: Any) -> Predictive:
    shaped = np.asarray(components, np.float32)
    return Predictive(Scales(Encoding(tuple(laws)), np.log(np.asarray(noise, float))), shaped)


def test_the_likelihood_of_a_number_is_that_of_the_mixture_in_its_own_units() -> None:
    """Two models, one row, two draws; the number is 100 times what the models see, and 5 more."""
    places = np.array([[0.0, 1.0], [-1.0, 0.5]])
    law = predictive([Ordered(Affine(5.0, 100.0))], places[:, None, :, None], [[0.5], [2.0]])
    scale = np.array([[50.0], [200.0]])
    expected = norm.pdf(80.0, 5 + 100 * places, scale).mean()
    assert log_likelihood(law, np.array([[80.0]])) == pytest.approx([np.log(expected)], rel=1e-5)
    assert errors(law, np.array([[80.0]])) == pytest.approx([75 - 100 * places.mean()])


def test_targets_that_are_unknown_do_not_count() -> None:
    places = np.array([[[0.0], [1.0], [3.0]]])
    law = predictive([Ordered(Affine(0.0, 1.0))], places[..., None], [[1.0]])
    truth = np.array([[1.0], [np.nan], [3.0]])
    assert errors(law, truth) == pytest.approx([np.sqrt(0.5)])
    expected = norm.logpdf([1.0, 0.0])
    assert log_likelihood(law, truth) == pytest.approx(expected, rel=1e-5)


def test_several_targets_are_taken_together() -> None:
    """Two draws that agree within themselves: a pair of a number and levels, and ordered levels."""
    laws = [Binary(), Categorical(3), Ordered(Levels(np.array([-20.0, 0.0, 20.0])))]
    shares = [[0.9, 0.7, 0.2, 0.1, 0.0], [0.2, 0.1, 0.1, 0.8, 1.0]]
    law = predictive(laws, [[shares] * 3], [[1.0, 1.0, 1.0]])
    truth = np.array([[1.0, 0.0, 0.0], [0.0, 2.0, 1.0], [1.0, np.nan, np.nan]])
    below = norm.cdf([0.0, -1.0])
    both = [
        np.mean([0.9 * 0.7 * below[0], 0.2 * 0.1 * below[1]]),
        np.mean([0.1 * 0.1 * (1 - below[0]), 0.8 * 0.8 * (1 - below[1])]),
        np.mean([0.9, 0.2]),
    ]
    assert log_likelihood(law, truth) == pytest.approx(np.log(both), rel=1e-4)
    # The most probable levels are 1, 2 (by 0.45 to 0.4) and 1.
    assert errors(law, truth) == pytest.approx([1 / 3, 0.5, 0.5])


def with_hole(table: np.ndarray, hole: Any) -> np.ndarray:
    found = table.copy()
    found[2, 1] = hole
    return found


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"policy": "greedy"}, "policy='greedy' is unknown; use 'grid', "),
        ({"costs": [1, 1]}, "costs has the shape (2,), and the rows and the model ask for (3,)"),
        ({"costs": [1, -2, 1]}, "The cost of column 1 is -2.0; costs are finite numbers of at "),
        ({"costs": [1, np.nan, 1]}, "The cost of column 1 is nan; "),
        ({"start": THERE[:5]}, "start has the shape (5, 3), and "),
        ({"truth": np.full_like(TRUTH, np.nan)}, "Target 0 is unknown in all rows; "),
        ({"truth": VALUES}, "truth has the shape (12, 3), and the rows and the model ask for (12"),
        (
            {"policy": "fixed", "order": [0, 1, 1]},
            "order=[0, 1, 1] does not name each of the columns 0 to 2 once.",
        ),
        ({"policy": "fixed", "order": ["a", "b"]}, "order is no array of whole numbers; give one"),
        (
            {"order": [0, 1, 2]},
            "order is for policy='fixed', and policy='grid' has its own; leave one of both out.",
        ),
        ({"policy": "random", "order": [0, 1, 2]}, "order is for policy='fixed', and policy='rand"),
        ({"policy": ["grid"]}, "policy=['grid'] is unknown; use 'grid', "),
        ({"steps": -1}, "steps=-1 must be a whole number of at least 0."),
        ({"steps": 1.5}, "steps=1.5 must be a whole number of at least 0."),
        ({"bins": 1}, "bins=1 must be a whole number of at least 2."),
        ({"bins": 10**7}, "bins=10000000 must be a whole number of at most 100."),
        ({"bins": "5"}, "bins='5' must be a whole number of at least 2."),
        ({"policy": "random", "seed": -1}, "seed=-1 must be a whole number of at least 0."),
        ({"how": "hmc"}, "how='hmc' is no How; give one of hhvaem.posterior, or None."),
        ({"costs": ["a", "b", "c"]}, "costs is no array of numbers; give one."),
        ({"truth": [["a"]] * ROWS}, "truth is no array of numbers; give one."),
        ({"start": [[True], [True, False]]}, "start is no array of True and False; give one."),
        ({"start": THERE.astype(int)}, "start is no array of True and False; give one."),
        ({"mask": "all"}, "mask is no array of True and False; give one."),
        ({"values": 5.0}, "values has the shape (), and the rows and the model ask for (1, 3); "),
        (
            {"truth": np.where(np.arange(ROWS)[:, None] == 4, -np.inf, TRUTH)},
            "truth is -inf in row 4 and column 0 (counted from 0); give a number, or NaN where it "
            "is unknown.",
        ),
        ({"values": None}, "values is no array of numbers; give one."),
        ({"fitted": "model"}, "fitted is of type str; give the `fitted_` of a Regressor or Class"),
        (
            {"values": with_hole(VALUES, np.nan), "start": THERE},
            "mask is True in row 2 and column 1 (counted from 0), and values has no number there;",
        ),
        (
            {"mask": with_hole(THERE, False), "start": THERE},
            "start is True in row 2 and column 1 (counted from 0), and mask hides that cell; make ",
        ),
    ],
)
@pytest.mark.usefixtures("as_users_have_it")
def test_refusals(changes: dict[str, Any], expected: str) -> None:
    usual: dict[str, Any] = {"fitted": model(), "values": VALUES, "mask": THERE, "truth": TRUTH}
    with pytest.raises(InputError) as refused:
        roll_out(**{**usual, **changes})
    assert str(refused.value).startswith(expected)


@pytest.mark.usefixtures("as_users_have_it")
@pytest.mark.parametrize(
    ("values", "truth", "expected"),
    [
        ([99, 0, 0.5], 0, "values is 99 in row 1 and column 0 (counted from 0), which has th"),
        ([-1, 0, 0.5], 0, "values is -1 in row 1 and column 0 (counted from 0), which has th"),
        ([0, 0.5, 0.5], 0, "values is 0.5 in row 1 and column 1 (counted from 0), which has"),
        ([0, 3, 0.5], 0, "values is 3 in row 1 and column 1 (counted from 0), which has the"),
        (
            [0, 0, 0.5], 7,
            "truth is 7 in row 1 and column 0 (counted from 0), which has the levels 0 to 1; give "
            "one of these.",
        ),
    ],
)  # fmt: skip
def test_levels_there_must_be(values: list[float], truth: float, expected: str) -> None:
    rows, targets = np.array([[2.0, 1.0, -3.0], values]), np.array([[1.0], [truth]])
    with pytest.raises(InputError) as refused:
        roll_out(with_levels(), rows, np.ones((2, 3), bool), targets)
    assert str(refused.value).startswith(expected)


def test_what_the_mask_hides_may_be_anything() -> None:
    rows, shown = np.array([[2.0, 99.0, -3.0]]), np.array([[True, False, True]])
    found = roll_out(with_levels(), rows, shown, np.ones((1, 1)), policy="random")
    assert sorted(found.order[0]) == [0, 2]


def test_rows_and_targets_there_must_be() -> None:
    with pytest.raises(InputError, match="There is no row to ask about"):
        roll_out(model(), VALUES[:0], THERE[:0], TRUTH[:0])
    untrained = dataclasses.replace(model(), target_encoding=None)
    with pytest.raises(InputError, match="This model has no target to ask for"):
        roll_out(untrained, VALUES, THERE, TRUTH)


@pytest.mark.usefixtures("as_users_have_it")
def test_lists_are_arrays() -> None:
    found = roll_out(
        model(), VALUES[:2].tolist(), THERE[:2].tolist(), TRUTH[:2].tolist(),
        policy="fixed", order=np.array([1, 2, 0]), costs=[1, 2, 3], start=(~THERE[:2]).tolist(),
    )  # fmt: skip
    assert found.order == [[1, 2, 0]] * 2
    assert found.spend == [0, 2, 5, 6]
