"""Scores: against closed forms, sums over all pairs, scikit-learn, and what must not matter."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics

from hhvaem.errors import InputError
from hhvaem.evaluate import (
    accuracy,
    auroc,
    brier,
    coverage,
    crps,
    energy_score,
    expected_calibration_error,
    pit,
    rmse,
    rmse_by_column,
    score_cells,
)
from hhvaem.schema import Column

COLUMNS = (
    Column("age", "count"),
    Column("dose", "real"),
    Column("sex", "binary", levels=("f", "m")),
    Column("ward", "categorical", levels=("a", "b", "c")),
    Column("grade", "ordinal", levels=("low", "mid", "high")),
)
SCALE = np.array([10.0, 0.5, np.nan, np.nan, np.nan])


def pairs(draws: np.ndarray) -> np.ndarray:
    """The mean distance of two different draws of each row, over all pairs: [k, rows, columns]."""
    k = len(draws)
    away = [np.linalg.norm(draws[i] - draws[j], axis=-1) for i in range(k) for j in range(i)]
    return np.mean(away, axis=0)


def table(rows: int = 40, draws: int = 12, seed: int = 0) -> dict[str, Any]:
    """Truth, hidden cells, fills and draws for `COLUMNS`; what is not hidden is nonsense."""
    rng = np.random.default_rng(seed)

    def values(*lead: int) -> np.ndarray:
        numbers = [rng.poisson(30, lead).astype(float), rng.normal(size=lead)]
        levels = [rng.integers(len(column.levels), size=lead) for column in COLUMNS[2:]]
        return np.stack([*numbers, *levels], axis=-1)

    truth, point, drawn = values(rows), values(rows), values(draws, rows)
    hidden = rng.random(truth.shape) < 0.4
    truth[~hidden], point[~hidden], drawn[:, ~hidden] = np.nan, np.nan, np.nan
    return {
        "columns": COLUMNS, "truth": truth, "hidden": hidden, "point": point, "draws": drawn,
        "scale": SCALE,
    }  # fmt: skip


# CRPS and Brier score


@pytest.mark.parametrize("offset", [0.0, 1e9])
def test_crps_is_the_sum_over_all_pairs(offset: float) -> None:
    rng = np.random.default_rng(0)
    # Rounded, so that values repeat.
    draws, truth = rng.normal(size=(7, 50)).round(1) + offset, rng.normal(size=50).round(1) + offset
    expected = np.abs(draws - truth).mean(0) - pairs(draws[..., None]) / 2
    assert crps(draws, truth) == pytest.approx(expected, abs=1e-6 if offset else 1e-13)


def test_crps_of_a_normal_law() -> None:
    truth = np.array([-3.0, -0.5, 0.0, 1.0, 2.5])
    # Gneiting and Raftery (2007), equation 21.
    density, below = stats.norm.pdf(truth), stats.norm.cdf(truth)
    exact = truth * (2 * below - 1) + 2 * density - 1 / np.sqrt(np.pi)
    # Quantiles instead of draws: the error is that of a sum for an integral.
    draws = stats.norm.ppf((np.arange(20_000) + 0.5) / 20_000)
    assert crps(3 + 2 * np.tile(draws[:, None], 5), 3 + 2 * truth) == pytest.approx(
        2 * exact, abs=1e-3
    )


@pytest.mark.parametrize("k", [2, 3, 10])
def test_crps_does_not_depend_on_the_number_of_draws(k: int) -> None:
    draws = np.random.default_rng(k).normal(size=(k, 200_000))
    scores = crps(draws, np.full(200_000, 0.7))
    exact = 0.7 * (2 * stats.norm.cdf(0.7) - 1) + 2 * stats.norm.pdf(0.7) - 1 / np.sqrt(np.pi)
    # The estimate with the spread of equal pairs in it is too large by 0.56 / k.
    assert scores.mean() == pytest.approx(exact, abs=4 * scores.std() / np.sqrt(scores.size))


@pytest.mark.parametrize("k", [2, 5])
def test_brier_scores_shares_of_levels(k: int) -> None:
    shares, truth = np.array([0.2, 0.5, 0.3]), np.repeat([0, 1, 2], 100_000)
    draws = np.random.default_rng(k).choice(3, p=shares, size=(k, truth.size))
    scores = brier(draws, truth).reshape(3, -1)
    exact = ((shares - np.eye(3)) ** 2).sum(1)
    assert scores.mean(1) == pytest.approx(exact, abs=4 * scores.std() / np.sqrt(100_000))


def test_brier_is_the_energy_score_of_corners() -> None:
    rng = np.random.default_rng(0)
    draws, truth = rng.integers(4, size=(6, 30)), rng.integers(4, size=30)
    # Different corners of a simplex are sqrt(2) apart.
    energy = energy_score(np.eye(4)[draws], np.eye(4)[truth], np.ones((30, 4), bool))
    assert brier(draws, truth) == pytest.approx(energy * np.sqrt(2))


# Energy score


def test_energy_score_is_the_sum_over_all_pairs_of_hidden_cells() -> None:
    rng = np.random.default_rng(0)
    draws, truth = rng.normal(size=(6, 30, 4)), rng.normal(size=(30, 4))
    hidden = rng.random((30, 4)) < 0.5
    hidden[:2] = [[False] * 4, [True] * 4]
    shown = np.where(hidden, draws, 0.0), np.where(hidden, truth, 0.0)
    expected = np.linalg.norm(shown[0] - shown[1], axis=-1).mean(0) - pairs(shown[0]) / 2
    draws[:, ~hidden], truth[~hidden] = np.nan, np.inf
    scores = energy_score(draws, truth, hidden)
    some = hidden.any(1)
    assert not some.all()
    assert np.isnan(scores[~some]).all()
    assert scores[some] == pytest.approx(expected[some])


def test_the_energy_score_of_a_single_cell_is_its_crps() -> None:
    rng = np.random.default_rng(0)
    draws, truth = rng.normal(size=(9, 20, 3)), rng.normal(size=(20, 3))
    hidden = np.eye(3, dtype=bool)[np.arange(20) % 3]
    energy = energy_score(draws, truth, hidden)
    assert energy == pytest.approx(crps(draws[:, hidden], truth[hidden]))


def test_the_energy_score_tells_what_goes_together() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(21, 4000))
    together = np.stack([x, x], axis=-1)
    apart = np.stack([x, np.roll(x, 1, axis=1)], axis=-1)
    # The same law for each cell, but not for both.
    hidden = np.ones((4000, 2), bool)
    scores = [energy_score(draws[:20], together[20], hidden) for draws in (together, apart)]
    gain = scores[1] - scores[0]
    assert gain.mean() > 4 * gain.std() / np.sqrt(gain.size)


# Places among draws


LAWS: dict[str, Callable[[np.random.Generator, tuple[int, int]], np.ndarray]] = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "small count": lambda rng, shape: rng.poisson(0.7, shape).astype(float),
    "coin": lambda rng, shape: rng.integers(2, size=shape).astype(float),
    "constant": lambda rng, shape: np.zeros(shape),
    "atom and tail": lambda rng, shape: np.maximum(rng.normal(size=shape), 0.0),
}


@pytest.mark.parametrize("k", [2, 5, 20])
@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_places_of_calibrated_draws_are_uniform(law: Callable[..., np.ndarray], k: int) -> None:
    rng = np.random.default_rng(k)
    x = law(rng, (k + 1, 20_000))
    places = pit(x[:k], x[k], rng)
    assert stats.kstest(places, "uniform").pvalue > 0.001
    for level in (0.5, 0.9):
        found = coverage(places, level)
        assert found == pytest.approx(level, abs=4 * np.sqrt(level * (1 - level) / 20_000))


def test_a_place_is_that_of_the_rank() -> None:
    rng = np.random.default_rng(0)
    draws = np.array([[1.0], [2.0], [2.0], [4.0]]).repeat(5000, axis=1)
    # No tie: one fifth of the line. Two ties: three fifths, all alike.
    for value, low, high in [(0.0, 0, 1), (1.0, 0, 2), (2.0, 1, 4), (3.0, 3, 4), (9.0, 4, 5)]:
        places = pit(draws, np.full(5000, value), rng)
        law = stats.uniform(low / 5, (high - low) / 5)
        assert stats.kstest(places, law.cdf).pvalue > 0.001


def test_draws_too_narrow_or_beside_show() -> None:
    rng = np.random.default_rng(0)
    draws, truth = rng.normal(size=(20, 5000)), rng.normal(size=5000)
    narrow, beside = pit(draws / 2, truth, rng), pit(draws + 2, truth, rng)
    # The law is N(0, 1/4): its central interval reaches to 1.645 / 2.
    assert coverage(narrow, 0.9) == pytest.approx(2 * stats.norm.cdf(1.645 / 2) - 1, abs=0.05)
    assert beside.mean() < 0.15


def test_coverage_is_a_share() -> None:
    # The 50 % interval is (0.25, 0.75).
    places = [0.0, 0.24, 0.26, 0.5, 0.74, 0.76, 0.94, 0.96]
    assert coverage(places, 0.5) == 3 / 8
    assert coverage(places, 0.9) == 6 / 8


# Tables


def test_the_error_of_a_column() -> None:
    told = table()
    scores = rmse_by_column(
        *(told[name] for name in ("columns", "truth", "hidden", "point", "scale"))
    )
    assert list(scores) == [column.name for column in COLUMNS]
    for j, column in enumerate(COLUMNS):
        at = told["hidden"][:, j]
        truth, point = told["truth"][at, j], told["point"][at, j]
        assert scores[column.name]["cells"] == at.sum()
        if j < 2:
            expected = metrics.root_mean_squared_error(truth, point) / SCALE[j]
            assert scores[column.name]["rmse"] == pytest.approx(expected)
        else:
            expected = 1 - metrics.accuracy_score(truth, point)
            assert scores[column.name]["error_rate"] == pytest.approx(expected)


def test_the_scores_of_a_table_are_those_of_its_columns() -> None:
    told = table()
    told["hidden"][:, 3] = False
    report = score_cells(**told)
    names = ["age", "dose", "sex", "grade"]
    assert list(report.by_column) == names
    age, dose, sex, grade = (report.by_column[name] for name in names)
    errors = [age["rmse"], dose["rmse"], sex["error_rate"], grade["error_rate"]]
    assert report.table["rmse_missing"] == pytest.approx(np.mean(errors))
    for name in ("rmse", "crps", "coverage50", "coverage90", "width50", "width90"):
        assert report.table[name] == pytest.approx((age[name] + dose[name]) / 2)
        assert report.by_kind["numbers"][name] == report.table[name]
    for name in ("error_rate", "brier"):
        assert report.table[name] == pytest.approx((sex[name] + grade[name]) / 2)
        assert report.by_kind["binary"][name] == sex[name]
        assert report.by_kind["ordinal"][name] == grade[name]
    assert report.table["cells"] == told["hidden"].sum()
    assert (report.table["columns"], report.table["columns_left_out"]) == (4, 1)
    assert list(report.by_kind) == ["numbers", "binary", "ordinal"]
    numbers = report.by_kind["numbers"]
    assert (numbers["cells"], numbers["columns"]) == (told["hidden"][:, :2].sum(), 2)


def test_the_scores_of_a_column_of_draws() -> None:
    told = table()
    report = score_cells(**told)
    for j, name in enumerate(["age", "dose", "sex"]):
        at = told["hidden"][:, j]
        draws, truth = told["draws"][:, at, j], told["truth"][at, j]
        if name == "sex":
            assert report.by_column[name]["brier"] == pytest.approx(brier(draws, truth).mean())
            continue
        score = crps(draws, truth).mean() / SCALE[j]
        assert report.by_column[name]["crps"] == pytest.approx(score)
    at = told["hidden"][:, :2]
    scaled = told["draws"][..., :2] / SCALE[:2], told["truth"][:, :2] / SCALE[:2]
    energy = energy_score(*scaled, at)[at.any(1)]
    assert not at.any(1).all()
    assert report.table["energy_score"] == pytest.approx(energy.mean())


def test_coverage_of_a_table_is_the_mean_over_lots() -> None:
    told = table(rows=30, draws=4)
    report = score_cells(**told)
    at = told["hidden"][:, 0]
    draws, truth = told["draws"][:, at, 0], told["truth"][at, 0]
    assert (draws == truth).any()
    lots = pit(np.tile(draws, 5000), np.tile(truth, 5000), np.random.default_rng(0))
    for level, name in [(0.5, "coverage50"), (0.9, "coverage90")]:
        found = coverage(lots, level)
        assert 0 < found < 1
        error = 4 * 0.5 / np.sqrt(lots.size)
        assert report.by_column["age"][name] == pytest.approx(found, abs=error)


def test_widths_of_normal_intervals() -> None:
    draws = 0.5 * np.random.default_rng(0).normal(size=(999, 500, 1))
    zeros = np.zeros((500, 1))
    scores = score_cells(COLUMNS[1:2], zeros, zeros == 0, zeros, draws, [0.5]).table
    assert scores["width50"] == pytest.approx(2 * stats.norm.ppf(0.75), rel=0.01)
    assert scores["width90"] == pytest.approx(2 * stats.norm.ppf(0.95), rel=0.01)


def test_fills_without_draws() -> None:
    told = table()
    with_draws, without = score_cells(**told), score_cells(**told | {"draws": None})
    assert set(without.table) == {
        "rmse_missing", "rmse", "error_rate", "cells", "columns", "columns_left_out",
    }  # fmt: skip
    assert without.table == {name: with_draws.table[name] for name in without.table}
    assert set(without.by_column["age"]) == {"cells", "rmse"}


def test_a_table_of_levels_only() -> None:
    told = table()
    told["hidden"][:, :2] = False
    scores = score_cells(**told).table
    assert scores["rmse_missing"] == scores["error_rate"]
    assert {"crps", "energy_score", "coverage50"}.isdisjoint(scores)


# What must not matter


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_the_order_of_draws_rows_and_columns_does_not_matter(seed: int) -> None:
    told, rng = table(rows=12, draws=5, seed=seed), np.random.default_rng(seed)
    told["hidden"][0] = True
    told["truth"][0] = told["point"][0] = told["draws"][:, 0] = 1.0
    report = score_cells(**told)
    k, rows, columns = (rng.permutation(size) for size in (5, 12, 5))
    moved = score_cells(
        [COLUMNS[j] for j in columns],
        *(told[name][np.ix_(rows, columns)] for name in ("truth", "hidden", "point")),
        told["draws"][np.ix_(k, rows, columns)],
        SCALE[columns],
    )
    assert moved.table == pytest.approx(report.table)
    assert moved.by_column.keys() == report.by_column.keys()
    for name, scores in report.by_column.items():
        assert moved.by_column[name] == pytest.approx(scores)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1e-9, 1.0, 1e9]), st.floats(-10, 10))
def test_units_do_not_matter(seed: int, unit: float, origin: float) -> None:
    told = table(rows=12, draws=5, seed=seed)
    told["hidden"][0] = True
    told["truth"][0] = told["point"][0] = told["draws"][:, 0] = 1.0
    report, scale = score_cells(**told), SCALE.copy()
    for name in ("truth", "point", "draws"):
        # To a whole origin, so that what was equal stays so.
        told[name][..., 1] = unit * (told[name][..., 1] + round(origin))
    scale[1] *= unit
    assert score_cells(**told | {"scale": scale}).table == pytest.approx(report.table, abs=1e-9)


def test_a_cell_does_not_depend_on_others() -> None:
    rng = np.random.default_rng(0)
    draws, truth = rng.normal(size=(8, 30, 3)), rng.normal(size=(30, 3))
    hidden = rng.random((30, 3)) < 0.9
    alone = [energy_score(draws[:, i : i + 1], truth[i : i + 1], hidden[i : i + 1]) for i in (4, 9)]
    assert np.concatenate(alone).tolist() == energy_score(draws, truth, hidden)[[4, 9]].tolist()
    one = [crps(draws[:, i : i + 1, 0], truth[i : i + 1, 0])[0] for i in range(30)]
    assert crps(draws[..., 0], truth[:, 0]) == pytest.approx(one)


# Targets


def test_targets_as_scikit_learn_has_them() -> None:
    rng = np.random.default_rng(0)
    truth, guess = rng.normal(size=(2, 100))
    assert rmse(guess, truth) == pytest.approx(metrics.root_mean_squared_error(truth, guess))
    levels, guessed = rng.integers(3, size=(2, 100))
    assert accuracy(guessed, levels) == pytest.approx(metrics.accuracy_score(levels, guessed))
    shares = rng.dirichlet(np.ones(3), 100)
    expected = metrics.roc_auc_score(levels, shares, multi_class="ovr")
    assert auroc(shares, levels) == pytest.approx(expected)
    two = levels == 1
    both = np.stack([1 - shares[:, 1], shares[:, 1]], axis=1)
    assert auroc(both, two) == pytest.approx(metrics.roc_auc_score(two, shares[:, 1]))


def test_auroc_where_levels_do_not_occur() -> None:
    shares = np.array([[0.5, 0.2, 0.3], [0.3, 0.4, 0.3], [0.1, 0.1, 0.8]])
    assert np.isnan(auroc(shares, [1, 1, 1]))
    # Level 0 is in order, level 2 tied once and in order once; level 1 does not occur.
    assert auroc(shares, [0, 2, 2]) == pytest.approx((1 + 0.75) / 2)


def test_calibration_error_by_hand() -> None:
    shares = [[0.95, 0.05], [0.93, 0.07], [0.08, 0.92], [0.4, 0.6], [0.44, 0.56], [0.5, 0.5]]
    truth = [0, 0, 0, 1, 0, 0]
    # By tenths: (0.95 + 0.93 + 0.92 - 2), (0.6 + 0.56 - 1), (0.5 - 1).
    expected = (0.8 + 0.16 + 0.5) / 6
    assert expected_calibration_error(shares, truth) == pytest.approx(expected)
    # In one bin: (4.46 - 4) / 6.
    assert expected_calibration_error(shares, truth, bins=1) == pytest.approx(0.46 / 6)


def test_the_calibration_error_of_calibrated_shares_is_small() -> None:
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.ones(3), 50_000)
    truth = (rng.random((50_000, 1)) > shares.cumsum(1)).sum(1)
    assert expected_calibration_error(shares, truth) < 0.01
    # Sharper than they should be.
    wrong = shares**2 / (shares**2).sum(1, keepdims=True)
    assert expected_calibration_error(wrong, truth) > 0.1


# Bad input


RNG = np.random.default_rng(0)
ONES, YES = np.ones((2, 2)), np.ones((2, 2), bool)
AGES = [Column("age", "count"), Column("height", "real")]
HALF = np.full((2, 2), 0.5)
WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "draws of other cells": (
        lambda: crps(np.ones((5, 3)), np.ones(4)),
        r"`draws` has shape \(5, 3\) and `truth` \(4,\); the draws of each cell must stand in",
    ),
    "draws last": (lambda: pit(np.ones((4, 9)), np.ones(4), RNG), "`draws` has shape"),
    "a table for a column": (
        lambda: crps(np.ones((5, 3, 2)), np.ones((3, 2))),
        "3 axes; it needs 2",
    ),
    "one draw": (lambda: crps(np.ones((1, 3)), np.ones(3)), "has 1 of each cell; give at least 2"),
    "one draw of levels": (lambda: brier(np.ones((1, 3)), np.ones(3)), "at least 2"),
    "one draw of rows": (lambda: energy_score(ONES[None], ONES, YES), "at least 2"),
    "no truth": (
        lambda: crps(np.ones((2, 3)), [1.0, np.nan, 1.0]),
        r"`truth` is not finite in cell 1 \(counted from 0\); leave such cells out",
    ),
    "an infinite draw": (
        lambda: pit([[1.0, 2.0], [1.0, np.inf]], [0, 0], RNG),
        "`draws` .* cell 1",
    ),
    "no numbers": (
        lambda: accuracy(["a"], ["b"]),
        "`prediction` must be a number or a regular array",
    ),
    "no truth of a row": (
        lambda: energy_score(np.ones((2, 2, 2)), [[1.0, 1.0], [1.0, np.nan]], YES),
        "hidden cell in row 1, column 1",
    ),
    "no draw of a row": (
        lambda: energy_score([ONES, [[1.0, np.nan], [1.0, 1.0]]], ONES, YES),
        "hidden cell in row 0, column 1",
    ),
    "nothing hidden of rows": (
        lambda: energy_score(np.ones((2, 2, 2)), ONES, ~YES),
        "nothing to score: no cell is hidden",
    ),
    "hidden elsewhere": (
        lambda: energy_score(np.ones((2, 2, 2)), ONES, YES[:1]),
        r"`hidden` is bool of shape \(1, 2\); give True or False for each cell of `truth`, \(2,",
    ),
    "hidden by number": (
        lambda: rmse_by_column(AGES, ONES, ONES, ONES, [1, 1]),
        "`hidden` is float64",
    ),
    "a level of 90": (lambda: coverage([0.5], 90.0), "level=90.0 must lie between 0 and 1"),
    "a level of text": (lambda: coverage([0.5], "a"), "level='a' must lie between 0 and 1"),
    "a place that is a hole": (
        lambda: coverage([0.5, np.nan], 0.9),
        r"`pit` is nan in cell 1 \(counted from 0\); give what `pit` returns, from 0 to 1",
    ),
    "a place below 0": (lambda: coverage([-5.0, 0.5], 0.9), "`pit` is -5 in cell 0"),
    "a place above 1": (lambda: coverage([0.5, 7.0], 0.9), "`pit` is 7 in cell 1"),
    "a seed for a generator": (
        lambda: pit(np.ones((2, 1)), [1.0], 5),
        r"rng=5 is no generator; give numpy.random.default_rng\(seed\)",
    ),
    "huge draws": (
        lambda: crps([[1e308, 1e308], [-1e308, -1e308]], [1e308, 0.0]),
        "too large to be scored; give them in another unit",
    ),
    "huge draws of rows": (
        lambda: energy_score(np.stack([1e200 * ONES, -1e200 * ONES]), ONES, YES),
        "too large to be scored",
    ),
    "huge predictions": (lambda: rmse([1e200], [-1e200]), "too large to be scored"),
    "masked truth": (
        lambda: crps(np.ones((2, 2)), np.ma.masked_array([1.0, 2.0], [True, False])),
        "`truth` is masked in places",
    ),
    "a list of masked draws": (
        lambda: crps([np.ma.masked_array([1.0], [True]), np.ones(1)], [1.0]),
        "`draws` is masked in places",
    ),
    "complex numbers": (
        lambda: rmse(np.array([1 + 2j]), [1.0]),
        "`prediction` must be .* array of real numbers; levels are their index",
    ),
    "texts that read as numbers": (lambda: rmse(["1"], [1.0]), "`prediction` must be"),
    "dates": (lambda: rmse(np.array(["2020"], "M8[ns]"), [1.0]), "`prediction` must be"),
    "beyond all numbers": (lambda: rmse([10**400], [1.0]), "`prediction` must be"),
    "no place": (lambda: coverage([], 0.9), "nothing to score: no cell is given"),
    "no prediction": (lambda: rmse([], []), "nothing to score"),
    "fewer predictions": (lambda: rmse([1.0], [1.0, 2.0]), "has 1 cells and `truth` 2"),
    "a hole for a prediction": (
        lambda: rmse([np.nan], [1.0]),
        "`prediction` is not finite in cell 0",
    ),
    "shares of other rows": (lambda: auroc(HALF, [0]), "has 2 rows and `truth` 1"),
    "shares of nothing": (lambda: auroc(np.ones((0, 2)), []), "nothing to score"),
    "shares above 1": (lambda: auroc([[0.5, 0.5], [0.9, 0.9]], [0, 1]), "of row 1 .* add up to 1"),
    "shares below 0": (lambda: auroc([[1.5, -0.5]], [0]), "of row 0 .* are negative"),
    "shares that are holes": (lambda: auroc([[np.nan, 0.5]], [0]), "of row 0"),
    "no such level": (
        lambda: expected_calibration_error(HALF, [0, 2]),
        "`truth` is 2 in row 1 .* one of the 2 levels",
    ),
    "no bins": (lambda: expected_calibration_error(HALF, [0, 1], bins=0), "bins=0 must be"),
    "nothing hidden": (lambda: rmse_by_column(AGES, ONES, ~YES, ONES, [1, 1]), "no cell is hidden"),
    "fills of other rows": (
        lambda: rmse_by_column(AGES, ONES, YES, ONES[:1], [1, 1]),
        r"`truth` has shape \(2, 2\), `point` \(1, 2\) and `scale` \(2,\) for 2 columns",
    ),
    "one scale": (
        lambda: rmse_by_column(AGES, ONES, YES, ONES, [1]),
        r"`scale` \(1,\) for 2 columns",
    ),
    "fewer columns": (lambda: rmse_by_column(AGES[:1], ONES, YES, ONES, [1]), "for 1 columns"),
    "a name twice": (
        lambda: rmse_by_column(AGES[:1] * 2, ONES, YES, ONES, [1, 1]),
        "more than one column named 'age'",
    ),
    "a scale of 0": (
        lambda: rmse_by_column(AGES, ONES, YES, ONES, [1, 0]),
        "`scale` is 0 for column 'height'; give the standard deviation of its training cells",
    ),
    "no scale": (lambda: rmse_by_column(AGES, ONES, YES, ONES, [1, np.nan]), "`scale` is nan"),
    "a constant column": (
        lambda: rmse_by_column(
            [AGES[0], Column("c", "constant", levels=(1,))], ONES, YES, ONES, [1, 1]
        ),
        "Column 'c' is constant and has hidden cells; leave it out",
    ),
}


@pytest.mark.usefixtures("as_users_have_it")
@pytest.mark.parametrize(("call", "says"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_scored(call: Callable[[], object], says: str) -> None:
    with pytest.raises(InputError, match=says):
        call()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize(
    ("name", "way_out"),
    [
        ("truth", "hide only cells that hold a finite number"),
        ("point", "give a finite number"),
        ("draws", "give a finite number"),
    ],
)
def test_hidden_cells_without_a_number(name: str, way_out: str, bad: float) -> None:
    told = table()
    row = np.flatnonzero(told["hidden"][:, 1])[3]
    told[name][..., row, 1] = bad
    says = rf"`{name}` has {bad:g} in the hidden cell of column 'dose', row {row} .*; {way_out}\."
    with pytest.raises(InputError, match=says):
        score_cells(**told)


@pytest.mark.parametrize("bad", [np.nan, 0.5, 3.0, -1.0])
@pytest.mark.parametrize("name", ["truth", "point", "draws"])
def test_hidden_cells_without_a_level(name: str, bad: float) -> None:
    told = table()
    row = np.flatnonzero(told["hidden"][:, 3])[3]
    told[name][..., row, 3] = bad
    says = rf"`{name}` has {bad:g} .* column 'ward', row {row} .* index of one of its 3 levels"
    with pytest.raises(InputError, match=says):
        score_cells(**told)


def test_draws_of_another_table() -> None:
    told = table()
    with pytest.raises(InputError, match="`draws` has shape"):
        score_cells(**told | {"draws": told["draws"][:, :-1]})
    with pytest.raises(InputError, match="at least 2"):
        score_cells(**told | {"draws": told["draws"][:1]})
