"""Rubin's rules against hand computation, published tables and simulated truth."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.linear_model import LinearRegression

from hhvaem.errors import InputError
from hhvaem.pooling import Pooled, pool, pool_fit

# Tables as R's mice prints them: name, mean, mean variance, variance between imputations, total,
# degrees of freedom, relative increase in variance, lambda, fraction of missing information.
# "Missing Data" of the documentation of marginaleffects (m = 5, 29 complete degrees of freedom).
CARS = """
cyl -0.134280454 7.093304e-04 2.347331e-03 3.526128e-03 2.920745 3.971065 0.7988359 0.8667882
hp   0.001649773 5.708603e-07 1.375452e-06 2.221403e-06 3.556844 2.891325 0.7430181 0.8214040
mpg  0.006082804 1.080454e-04 2.722234e-04 4.347135e-04 3.458294 3.023434 0.7514561 0.8284250
"""
# V. Coia, Interpreting Regression, "Regression when data are missing" (m = 50, 149 degrees of
# freedom; the last column is its p value).
AIR = """
Intercept -61.74901609 386.0658     152.5150     541.6310     89.08804  0.4029502 0.2872163 0.3026968 9.439329e-03
Solar.R     0.05819172 4.158538e-04 1.053628e-04 5.233239e-04 106.16681 0.2584324 0.2053606 0.2199188 1.240661e-02
Wind       -3.13670807 3.187991e-01 1.513848e-01 4.732116e-01 81.51324  0.4843567 0.3263075 0.3422504 1.782885e-05
Temp        1.59560738 4.740713e-02 1.286813e-02 6.053263e-02 103.69822 0.2768675 0.2168334 0.2315134 3.068203e-09
"""  # noqa: E501
# L. H. Bikos, ReCentering Psych Stats: Multivariate Modeling, chapter 4: the five fits with three
# digits of each estimate and standard error, and what mice 3.13 makes of them (61 degrees of
# freedom).
CLIMATE_ESTIMATES = [
    [3.02, -0.0311, -0.0206, -0.663], [3.02, -0.0349, -0.0234, -0.470],
    [3.01, -0.0349, -0.0222, -0.485], [2.95, -0.0152, -0.0216, -0.558],
    [3.00, -0.0311, -0.0214, -0.531],
]  # fmt: skip
CLIMATE_ERRORS = [
    [0.435, 0.0897, 0.0165, 0.339], [0.446, 0.0907, 0.0166, 0.329], [0.450, 0.0915, 0.0167, 0.330],
    [0.448, 0.0920, 0.0168, 0.343], [0.452, 0.0921, 0.0168, 0.337],
]  # fmt: skip
CLIMATE = {
    "estimate": [2.99980658, -0.02940746, -0.02184241, -0.54138195],
    "standard_error": [0.44746208, 0.09163207, 0.01670407, 0.34613056],
    "dof": [58.70890, 58.44929, 58.80737, 53.13966],
    "fmi": [0.03820536, 0.04181342, 0.03675551, 0.09182261],
    "p_value": [8.735881e-09, 0.749408306, 0.196094825, 0.123730969],
}


def with_moments(mean: np.ndarray, variance: np.ndarray, count: int) -> np.ndarray:
    """Numbers [count, ...] of exactly that mean and variance."""
    z = stats.zscore(np.arange(count, dtype=float), ddof=1)
    return mean + np.sqrt(variance) * z[:, None]


def test_three_imputations_by_hand() -> None:
    pooled = pool([9.0, 10.0, 11.0], [3.0, 4.0, 5.0])
    # U = 4, B = 1, T = 4 + 4/3, dof = 2 / (1/4)^2.
    assert (pooled.estimate, pooled.within, pooled.between) == (10.0, 4.0, 1.0)
    assert pooled.total == pytest.approx(16 / 3)
    assert pooled.standard_error == pytest.approx(4 / np.sqrt(3))
    assert pooled.dof == pytest.approx(32)
    assert pooled.riv == pytest.approx(1 / 3)
    assert pooled.lambda_ == pytest.approx(1 / 4)
    assert pooled.fmi == pytest.approx((1 / 3 + 2 / 35) / (4 / 3))
    assert pooled.p_value == pytest.approx(2 * stats.t.cdf(-10 * np.sqrt(3) / 4, 32))
    # 1.6939 is the 95 % quantile of t with 32 degrees of freedom in any book of tables.
    assert pooled.interval(0.9) == pytest.approx((10 - 1.6939 * 2.3094, 10 + 1.6939 * 2.3094), 1e-4)
    assert pooled.between_draws is None
    assert pooled.covariance is None


def test_degrees_of_freedom_of_barnard_and_rubin_by_hand() -> None:
    # 32 as above, and 31/33 x 30 x 3/4 = 21.136...
    pooled = pool([9.0, 10.0, 11.0], [4.0, 4.0, 4.0], dof_complete=30)
    assert pooled.dof == pytest.approx(1 / (1 / 32 + 1 / (31 / 33 * 30 * 3 / 4)))
    each = pool(
        [[9.0] * 2, [10.0] * 2, [11.0] * 2], np.full((3, 2), 4.0), dof_complete=[30, np.inf]
    )
    assert each.dof == pytest.approx([pooled.dof, 32])


def test_two_members_of_two_draws_by_hand() -> None:
    pooled = pool([[1.0, 3.0], [5.0, 7.0]], np.ones((2, 2)), nested=True)
    # Means 2 and 6: B = 8, W = 2, T = 1 + 2/2 + 12.
    assert (pooled.estimate, pooled.within) == (4.0, 1.0)
    assert (pooled.between, pooled.between_draws) == (8.0, 2.0)
    assert pooled.total == pytest.approx(14)
    assert pooled.dof == pytest.approx(1 / ((12 / 14) ** 2 / 1 + (1 / 14) ** 2 / 2))
    assert pooled.riv == pytest.approx(13)
    assert pooled.lambda_ == pytest.approx(13 / 14)
    assert pooled.fmi == pytest.approx((13 + 2 / (pooled.dof + 3)) / 14)
    small = pool([[1.0, 3.0], [5.0, 7.0]], np.ones((2, 2)), nested=True, dof_complete=9)
    assert 1 / small.dof == pytest.approx(1 / pooled.dof + 1 / (10 / 12 * 9 / 14))


def test_covariances_by_hand() -> None:
    pooled = pool([[0.0, 0.0], [2.0, 4.0]], np.broadcast_to(np.eye(2), (2, 2, 2)))
    # B = [[2, 4], [4, 8]].
    assert pooled.covariance == pytest.approx(np.array([[4.0, 6.0], [6.0, 13.0]]))
    assert pooled.total == pytest.approx([4, 13])


@pytest.mark.parametrize("nested", [False, True])
def test_covariances_follow_a_linear_map(nested: bool) -> None:
    rng = np.random.default_rng(0)
    lead = (4, 3) if nested else (4,)
    estimates, root = rng.normal(size=(*lead, 3)), rng.normal(size=(*lead, 3, 3))
    variances = root @ root.swapaxes(-1, -2)
    change = rng.normal(size=(2, 3))
    pooled = pool(estimates, variances, nested=nested)
    mapped = pool(estimates @ change.T, change @ variances @ change.T, nested=nested)
    assert pooled.covariance is not None
    assert mapped.covariance == pytest.approx(change @ pooled.covariance @ change.T)
    assert mapped.estimate == pytest.approx(change @ pooled.estimate)
    # What is said of a single statistic does not depend on what else is given.
    alone = pool(estimates[..., 1], variances[..., 1, 1], nested=nested)
    only_variances = pool(estimates, np.diagonal(variances, axis1=-2, axis2=-1), nested=nested)
    for name in ("estimate", "total", "between", "dof", "lambda_", "fmi", "p_value"):
        assert getattr(pooled, name)[1] == pytest.approx(getattr(alone, name))
        assert getattr(pooled, name) == pytest.approx(getattr(only_variances, name))


@pytest.mark.parametrize(("text", "count", "dof"), [(CARS, 5, 29), (AIR, 50, 149)])
def test_what_mice_prints(text: str, count: int, dof: int) -> None:
    rows = [line.split() for line in text.strip().splitlines()]
    mean, within, between, total, t_dof, riv, share, fmi, *p = np.array(
        [row[1:] for row in rows], float
    ).T
    variances = np.broadcast_to(within, (count, len(rows)))
    pooled = pool(with_moments(mean, between, count), variances, dof_complete=dof)
    assert pooled.estimate == pytest.approx(mean)
    assert pooled.total == pytest.approx(total, 1e-6)
    assert pooled.dof == pytest.approx(t_dof, 1e-6)
    assert pooled.riv == pytest.approx(riv, 1e-6)
    assert pooled.lambda_ == pytest.approx(share, 1e-6)
    assert pooled.fmi == pytest.approx(fmi, 1e-6)
    if p:
        assert pooled.p_value == pytest.approx(p[0], 1e-5)


def test_five_published_fits_become_what_mice_made_of_them() -> None:
    pooled = pool(CLIMATE_ESTIMATES, np.square(CLIMATE_ERRORS), dof_complete=61)
    assert pooled.estimate == pytest.approx(CLIMATE["estimate"], 2e-3)
    assert pooled.standard_error == pytest.approx(CLIMATE["standard_error"], 1e-3)
    # Three digits of an estimate leave less of the little that is between the fits.
    assert pooled.dof == pytest.approx(CLIMATE["dof"], 2e-3)
    assert pooled.fmi == pytest.approx(CLIMATE["fmi"], 3e-2)
    assert pooled.p_value[1:] == pytest.approx(CLIMATE["p_value"][1:], 5e-3)
    assert pooled.p_value[0] == pytest.approx(CLIMATE["p_value"][0], 5e-2)


def test_without_holes_nothing_is_added() -> None:
    pooled = pool([2.0, 2.0], [1.0, 1.0])
    assert (pooled.total, pooled.dof, pooled.riv, pooled.fmi) == (1.0, np.inf, 0.0, 0.0)
    assert pooled.interval() == pytest.approx((2 - 1.959964, 2 + 1.959964))
    assert pooled.p_value == pytest.approx(0.0455003)
    # (d + 1) / (d + 3) d, as Barnard and Rubin have it.
    assert pool([2.0, 2.0], [1.0, 1.0], dof_complete=7).dof == pytest.approx(5.6)


def test_variances_of_zero() -> None:
    # A census: all uncertainty is due to the holes.
    pooled = pool([1.0, 2.0, 3.0], np.zeros(3))
    assert (pooled.total, pooled.dof) == pytest.approx((4 / 3, 2))
    assert (pooled.lambda_, pooled.fmi, pooled.riv) == (1.0, 1.0, np.inf)
    certain = pool([1.0, 1.0], np.zeros(2), dof_complete=9)
    assert certain.interval() == (1.0, 1.0)
    assert (certain.lambda_, certain.p_value) == (0.0, 0.0)


SEEN, TRUTH = 0.6, 3.0


def means_after_imputation(
    rows: int, members: int, draws: int, tables: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and its variance in [members, draws, tables] completed columns of normal numbers.

    40 % of the cells are missing at random, and are drawn from the exact posterior under the
    usual prior: each member draws mean and variance, each draw cells given those. Sums and sums
    of squares of the missing cells are drawn instead of the cells.
    """
    rng = np.random.default_rng(seed)
    seen = round(SEEN * rows)
    missing = rows - seen
    mean = TRUTH + 2.0 * rng.standard_normal(tables) / np.sqrt(seen)
    squares = 4.0 * rng.chisquare(seen - 1, tables)
    variance = squares / rng.chisquare(seen - 1, (members, 1, tables))
    centre = mean + np.sqrt(variance / seen) * rng.standard_normal((members, 1, tables))
    shape = (members, draws, tables)
    drawn = centre + np.sqrt(variance / missing) * rng.standard_normal(shape)
    drawn_squares = variance * rng.chisquare(missing - 1, shape)
    estimates = (seen * mean + missing * drawn) / rows
    all_squares = squares + drawn_squares + seen * missing / rows * (mean - drawn) ** 2
    return estimates, all_squares / (rows - 1) / rows


def coverage(pooled: Pooled, level: float) -> float:
    low, high = pooled.interval(level)
    return float(np.mean((low < TRUTH) & (high > TRUTH)))


@pytest.mark.parametrize("rows", [50, 2_000])
@pytest.mark.parametrize(("members", "draws"), [(5, 1), (20, 1), (5, 4), (10, 2)])
def test_intervals_cover_the_truth_as_often_as_they_say(
    members: int, draws: int, rows: int
) -> None:
    tables, level = 20_000, 0.95
    estimates, variances = means_after_imputation(rows, members, draws, tables, seed=members)
    nested = draws > 1
    if not nested:
        estimates, variances = estimates[:, 0], variances[:, 0]
    pooled = pool(estimates, variances, nested=nested, dof_complete=rows - 1)
    error = np.sqrt(level * (1 - level) / tables)
    # The t distribution is an approximation, good to some tenths of a percent here.
    assert coverage(pooled, level) == pytest.approx(level, abs=3 * error + 0.002)


@pytest.mark.parametrize(("members", "draws"), [(3, 1), (20, 1), (3, 2), (3, 10)])
def test_the_total_variance_is_that_of_the_estimate(members: int, draws: int) -> None:
    rows, tables = 2_000, 40_000
    estimates, variances = means_after_imputation(rows, members, draws, tables, seed=draws)
    nested = draws > 1
    if not nested:
        estimates, variances = estimates[:, 0], variances[:, 0]
    pooled = pool(estimates, variances, nested=nested)
    # The variance of so many estimates has a standard error of 0.7 %.
    assert pooled.total.mean() / pooled.estimate.var() == pytest.approx(1, abs=0.025)
    # A mean of a column with 40 % missing at random lacks 40 % of its information.
    if members == 20:
        assert pooled.lambda_.mean() == pytest.approx(0.4, abs=0.02)


def test_nested_draws_taken_for_independent_ones_claim_too_much() -> None:
    estimates, variances = means_after_imputation(2_000, 2, 10, 40_000, seed=0)
    flat = pool(estimates.reshape(20, -1), variances.reshape(20, -1))
    assert flat.total.mean() / flat.estimate.var() < 0.9
    assert coverage(flat, 0.95) < 0.93


GOOD = ([1.0, 2.0, 3.0], [1.0, 1.0, 1.0])
PAIR = np.array([[1.0, 2.0], [1.0, 3.0]])


@pytest.mark.parametrize(
    ("estimates", "variances", "more", "says"),
    [
        ([1.0], [1.0], {}, "at least 2 imputations"),
        ([[1.0, 2.0]], [[1.0, 1.0]], {"nested": True}, "at least 2 members and 2 draws of each"),
        ([[1.0], [2.0]], [[1.0], [1.0]], {"nested": True}, "2 draws of each"),
        (1.0, 1.0, {}, r"`estimates` has shape \(\)"),
        (np.ones((2, 2, 2)), np.ones((2, 2, 2)), {}, "without nested=True"),
        (np.ones((2, 0)), np.ones((2, 0)), {}, r"`estimates` has shape \(2, 0\)"),
        ([[1.0], [1.0, 2.0]], [1.0, 1.0], {}, "`estimates` must be a number or a regular array"),
        (GOOD[0], ["a", "b", "c"], {}, "`variances` must be a number or a regular array"),
        (GOOD[0], [1.0, 1.0], {}, r"`variances` has shape \(2,\).* need \(3,\)\.$"),
        (PAIR, np.ones((2, 3)), {}, r"need \(2, 2\) or \(2, 2, 2\)"),
        (PAIR, np.ones((2, 2)), {"names": ["a"]}, "1 names for 2 statistics"),
        ([1.0, np.nan, 3.0], GOOD[1], {}, "`estimates` has nan for '0' in imputation 1 "),
        (GOOD[0], [1.0, 1.0, np.inf], {}, "`variances` has inf for '0' in imputation 2 "),
        (PAIR, [[1.0, 1.0], [1.0, -2.0]], {"names": ["a", "b"]}, "has -2 for 'b' in imputation 1 "),
        (PAIR, [np.eye(2), -np.eye(2)], {}, "has -1 for '0' in imputation 1 "),
        (PAIR, [np.eye(2), [[1, 0.5], [0, 1]]], {}, "for '0' and '1' in imputation 1 .*both ways"),
        (PAIR, [[1.0, 1.0], [-3.0, 1.0]], {"nested": True}, "-3 for '0' in member 1, draw 0 "),
        (*GOOD, {"dof_complete": 0}, "`dof_complete` is 0 for '0'"),
        (*GOOD, {"dof_complete": np.nan}, "`dof_complete` is nan"),
        (
            PAIR,
            PAIR,
            {"dof_complete": [5, -1], "names": ["a", "b"]},
            "`dof_complete` is -1 for 'b'",
        ),
        (PAIR, PAIR, {"dof_complete": [5, 5, 5]}, "one for each of the 2 statistics"),
        (GOOD[0], np.zeros(3), {"dof_complete": 5}, "variances of '0' are all 0"),
        (*GOOD, {"names": 5}, "names=5 is no list of names"),
        (PAIR, PAIR, {"names": "ab"}, "names='ab' is no list of names"),
        (np.ma.masked_array(GOOD[0], [0, 1, 0]), GOOD[1], {}, "`estimates` is masked in places"),
        (GOOD[0], [1.0, np.ma.masked, 1.0], {}, "`variances` is masked in places"),
        (np.array(GOOD[0]) + 1j, GOOD[1], {}, "`estimates` must be .* array of real numbers"),
        (["1", "2", "3"], GOOD[1], {}, "`estimates` must be .* array of real numbers"),
        ([1, 2, 10**400], GOOD[1], {}, "`estimates` must be .* array of real numbers"),
        ([1e300, -1e300, 0.0], GOOD[1], {"names": ["a"]}, "variance of 'a' is too large or too"),
        (GOOD[0], [1e308] * 3, {}, "variance of '0' is too large or too small"),
        ([1e-200, 0.0, 0.0], np.zeros(3), {}, "variance of '0' is too large or too small"),
        ([[1.0, 1e200], [1.0, 0.0]], [np.eye(2)] * 2, {}, "variance of '1' is too large"),
        (
            [pd.Series({"a": 1.0, "b": 2.0})] * 2,
            [pd.Series({"b": 1.0, "a": 1.0})] * 2,
            {},
            "`variances` has rows labelled 'b', 'a', and others are labelled 'a', 'b'; give all",
        ),
        (
            pd.DataFrame({"a": [1.0, 2.0], "b": [1.0, 3.0]}),
            pd.DataFrame({"b": [1.0, 1.0], "a": [1.0, 1.0]}),
            {},
            "`variances` has rows labelled 'b', 'a'",
        ),
        (
            [pd.Series({"a": 1.0, "b": 2.0}), pd.Series({"b": 1.0, "a": 1.0})],
            PAIR,
            {},
            "`estimates` has rows labelled 'b', 'a'",
        ),
        (
            [pd.Series({"a": 1.0, "b": 2.0})] * 2,
            [pd.DataFrame(np.eye(2), index=["b", "a"], columns=["a", "b"])] * 2,
            {},
            "`variances` has rows labelled 'b', 'a'",
        ),
    ],
)
@pytest.mark.usefixtures("as_users_have_it")
def test_what_cannot_be_pooled_is_refused(
    estimates: Any, variances: Any, more: dict[str, Any], says: str
) -> None:
    with pytest.raises(InputError, match=says) as caught:
        pool(estimates, variances, **more)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("as_users_have_it")
@pytest.mark.parametrize("level", [0.0, 1.0, 95.0, np.nan, "a", None])
def test_a_level_that_is_no_probability(level: Any) -> None:
    with pytest.raises(InputError, match=r"level=.* must lie between 0 and 1"):
        pool(*GOOD).interval(level)


def test_an_interval_of_a_level_close_to_one() -> None:
    level = np.nextafter(1.0, 0.0)
    # The probability beyond either end, 2^-54, from the end.
    for pooled in (pool(*GOOD), pool([2.0, 2.0], [1.0, 1.0])):
        _, high = pooled.interval(level)
        away = (high - pooled.estimate) / pooled.standard_error
        assert stats.t.sf(away, pooled.dof) == pytest.approx(2.0**-54, rel=1e-6, abs=0)


def test_large_estimates_that_agree() -> None:
    pooled = pool([1e200, 1e200], [1.0, 1.0])
    assert (pooled.estimate, pooled.total, pooled.p_value) == (1e200, 1.0, 0.0)
    assert pooled.interval() == (1e200, 1e200)


def test_labels_in_the_same_order_or_none_pass() -> None:
    labelled = [pd.Series({"a": 1.0, "b": 2.0}), pd.Series({"a": 1.0, "b": 3.0})]
    covariance = pd.DataFrame(np.eye(2), index=["a", "b"], columns=["a", "b"])
    for variances in ([covariance] * 2, [pd.Series([1.0, 1.0])] * 2, np.ones((2, 2))):
        assert pool(labelled, variances).total == pytest.approx([1.0, 1.75])


def test_asymmetry_of_rounding_passes() -> None:
    one = np.array([[1e-6, 1.0], [1.0 + 1e-9, 1e6]])
    assert pool(PAIR, [one, one]).covariance is not None


def test_the_table_has_what_the_object_has() -> None:
    pooled = pool(CLIMATE_ESTIMATES, np.square(CLIMATE_ERRORS), names=["one", "a", "b", "c"])
    frame = pooled.to_table(0.9).to_pandas().set_index("name")
    assert frame.index.tolist() == ["one", "a", "b", "c"]
    low, high = pooled.interval(0.9)
    assert frame["low"].tolist() == low.tolist()
    assert frame["high"].tolist() == high.tolist()
    for name in frame.columns.difference(["low", "high", "lambda"]):
        assert frame[name].tolist() == getattr(pooled, name).tolist()
    assert frame["lambda"].tolist() == pooled.lambda_.tolist()
    assert "between_draws" not in frame
    nested = pool(np.eye(2), np.ones((2, 2)), nested=True).to_table()
    assert nested["between_draws"].to_pylist() == [0.5]


def test_the_text_is_a_table() -> None:
    pooled = pool(CLIMATE_ESTIMATES, np.square(CLIMATE_ERRORS), names=["one", "a", "b", "share"])
    title, *lines = repr(pooled).splitlines()
    assert title == "Pooled over 5 imputations"
    assert len({len(line) for line in lines}) == 1
    assert re.split(" {2,}", lines[0].strip()) == [
        "estimate", "std. error", "2.5 %", "97.5 %", "p value", "dof", "fmi",
    ]  # fmt: skip
    assert lines[4].split()[:3] == ["share", "-0.5414", "0.346"]
    nested = pool(np.eye(3), np.ones((3, 3)), nested=True)
    assert repr(nested).startswith("Pooled over 3 members with 3 draws each\n")


class InTurn:
    """Fills the hole of a table with 10 x member + round, member after member."""

    def __init__(self, members: int) -> None:
        self.members_ = members

    def sample(self, table: pd.DataFrame, *, draws: int) -> list[pd.DataFrame]:
        values = [10.0 * (i % self.members_) + i // self.members_ for i in range(draws)]
        return [table.fillna(value) for value in values]


HOLE = pd.DataFrame({"x": [1.0, 2.0, np.nan]})


def last(table: pd.DataFrame) -> tuple[float, float]:
    return float(table["x"].iloc[-1]), 1.0


def test_draws_are_nested_in_members() -> None:
    pooled = pool_fit(InTurn(2), HOLE, last, draws=6)
    by_hand = pool([[0, 1, 2], [10, 11, 12]], np.ones((2, 3)), nested=True)
    assert pooled.imputations == (2, 3)
    assert (pooled.between, pooled.between_draws) == (50.0, 1.0)
    assert (pooled.total, pooled.dof) == (by_hand.total, by_hand.dof)


@pytest.mark.parametrize(("members", "draws"), [(1, 4), (4, 4), (9, 4)])
def test_one_draw_of_each_member_is_not_nested(members: int, draws: int) -> None:
    pooled = pool_fit(InTurn(members), HOLE, last, draws=draws)
    assert pooled.imputations == (4,)
    step = 1.0 if members == 1 else 10.0
    assert pooled.between == pytest.approx(step**2 * np.var(range(4), ddof=1))


def test_draws_that_do_not_fit_the_members() -> None:
    with pytest.raises(InputError, match=r"draws=20 is no multiple of the 3 members.*18 or 21"):
        pool_fit(InTurn(3), HOLE, last)
    with pytest.raises(InputError, match="draws=1 must be a whole number of at least 2"):
        pool_fit(InTurn(1), HOLE, last, draws=1)


class Bayes:
    """Imputes y given x by draws from the exact posterior of a linear regression."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def sample(self, table: pd.DataFrame, *, draws: int) -> list[pd.DataFrame]:
        rng = np.random.default_rng(self.seed)
        holes = table["y"].isna().to_numpy()
        design = np.column_stack([np.ones(len(table)), table["x"]])
        seen, y = design[~holes], table["y"].to_numpy()[~holes]
        fit, (squares,), *_ = np.linalg.lstsq(seen, y)
        completed = []
        for _ in range(draws):
            variance = squares / rng.chisquare(len(y) - 2)
            slope = rng.multivariate_normal(fit, variance * np.linalg.inv(seen.T @ seen))
            noise = np.sqrt(variance) * rng.standard_normal(holes.sum())
            one = table.copy()
            one.loc[holes, "y"] = design[holes] @ slope + noise
            completed.append(one)
        return completed


class LeastSquares:
    """What `statsmodels.api.OLS(...).fit()` returns, as far as pooling asks."""

    def __init__(self, table: pd.DataFrame) -> None:
        design = np.column_stack([np.ones(len(table)), table["x"]])
        fit, (squares,), *_ = np.linalg.lstsq(design, table["y"].to_numpy())
        self.params = pd.Series(fit, index=["const", "x"])
        self.df_resid = float(len(table) - 2)
        covariance = squares / self.df_resid * np.linalg.inv(design.T @ design)
        self._covariance = pd.DataFrame(covariance, index=["const", "x"], columns=["const", "x"])

    def cov_params(self) -> pd.DataFrame:
        return self._covariance


def table_with_holes() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    x = rng.normal(size=60)
    y = np.where(np.arange(60) < 20, np.nan, 1 + 2 * x + rng.normal(size=60))
    return pd.DataFrame({"x": x, "y": y})


def test_a_regression_is_pooled_with_its_names_covariance_and_degrees_of_freedom() -> None:
    table = table_with_holes()
    pooled = pool_fit(Bayes(1), table, LeastSquares, draws=30)
    fits = [LeastSquares(one) for one in Bayes(1).sample(table, draws=30)]
    by_hand = pool(
        [fit.params.to_numpy() for fit in fits], [fit.cov_params() for fit in fits], dof_complete=58
    )
    assert pooled.names == ("const", "x")
    assert pooled.imputations == (30,)
    assert pooled.covariance == pytest.approx(by_hand.covariance)
    assert pooled.dof == pytest.approx(by_hand.dof)
    # Rows whose y is missing say nothing of y given x: the answer is that of the other rows.
    alone = LeastSquares(table.dropna())
    error = np.sqrt(np.diag(alone.cov_params()))
    assert np.abs(pooled.estimate - alone.params.to_numpy()).max() < 0.5 * error.max()
    assert pooled.standard_error == pytest.approx(error, rel=0.2)


def test_statsmodels() -> None:
    api = pytest.importorskip("statsmodels.api")

    def regression(table: pd.DataFrame) -> Any:
        return api.OLS(table["y"], api.add_constant(table[["x"]])).fit()

    table = table_with_holes()
    pooled = pool_fit(Bayes(1), table, regression, draws=10)
    by_hand = pool_fit(Bayes(1), table, LeastSquares, draws=10)
    assert pooled.names == ("const", "x")
    assert pooled.estimate == pytest.approx(by_hand.estimate)
    assert pooled.covariance == pytest.approx(by_hand.covariance)
    assert pooled.dof == pytest.approx(by_hand.dof)

    def logistic(table: pd.DataFrame) -> Any:
        above = (table["y"] > 1).astype(float)
        return api.Logit(above, api.add_constant(table[["x"]])).fit(disp=0)

    assert pool_fit(Bayes(1), table, logistic, draws=10).names == ("const", "x")


def test_numbers_and_mappings_of_numbers() -> None:
    def mean(table: pd.DataFrame) -> tuple[float, float, int]:
        return table["y"].mean(), table["y"].var() / len(table), len(table) - 1

    def both(table: pd.DataFrame) -> dict[str, Any]:
        return {"mean": mean(table), "share": ((table["y"] > 1).mean(), 0.25 / len(table))}

    table = table_with_holes()
    one, two = (pool_fit(Bayes(2), table, fit, draws=5) for fit in (mean, both))
    assert two.names == ("mean", "share")
    assert (two.estimate[0], two.dof[0]) == pytest.approx((one.estimate, one.dof))
    draws = [both(t)["share"] for t in Bayes(2).sample(table, draws=5)]
    share = pool(*np.transpose(draws))
    assert (two.total[1], two.dof[1]) == pytest.approx((share.total, share.dof))


def test_the_least_degrees_of_freedom_count() -> None:
    def fit(table: pd.DataFrame) -> tuple[float, float, float]:
        return 1.0, 1.0, 7.0 + table["x"].iloc[-1]

    assert pool_fit(InTurn(1), HOLE, fit, draws=3).dof == pytest.approx(5.6)


def test_names_of_a_series() -> None:
    def fit(table: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
        return table.mean(), table.var() / len(table)

    assert pool_fit(Bayes(0), table_with_holes(), fit, draws=3).names == ("x", "y")


def test_labels_say_what_belongs_together() -> None:
    estimates = pd.Series({"a": 1.0, "b": 2.0})
    covariance = pd.DataFrame([[4.0, 0.5], [0.5, 9.0]], index=["b", "a"], columns=["b", "a"])
    variances = pd.Series(np.diag(covariance), index=["b", "a"])
    dof = pd.Series({"b": 5.0, "a": 7.0})
    by_hand = pool([[1.0, 2.0]] * 2, [[9.0, 4.0]] * 2, dof_complete=[7.0, 5.0])
    crossed = covariance[["a", "b"]]
    for part in (variances, covariance, crossed):
        pooled = pool_fit(InTurn(1), HOLE, lambda _, part=part: (estimates, part, dof), draws=2)
        assert pooled.names == ("a", "b")
        assert pooled.within == pytest.approx(by_hand.within)
        assert pooled.dof == pytest.approx(by_hand.dof)
    assert pooled.covariance == pytest.approx(np.array([[9.0, 0.5], [0.5, 4.0]]))

    class Result:
        params = estimates

        def cov_params(self) -> pd.DataFrame:
            return covariance

    assert pool_fit(InTurn(1), HOLE, lambda _: Result(), draws=2).total == pytest.approx([9, 4])


def test_a_series_without_labels_goes_by_position() -> None:
    def fit(table: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
        return pd.Series({"a": 1.0, "b": 2.0}), pd.Series([9.0, 4.0])

    assert pool_fit(InTurn(1), HOLE, fit, draws=2).total == pytest.approx([9, 4])


def plain_list(table: pd.DataFrame) -> tuple[list[float], list[float]]:
    return [1.0, 2.0], [1.0, 1.0]


def test_a_list_has_no_names() -> None:
    assert pool_fit(InTurn(1), HOLE, plain_list, draws=2).names == ("0", "1")


@pytest.mark.parametrize(
    ("fit", "says"),
    [
        (
            lambda t: LinearRegression().fit(np.eye(3), t["x"]),
            r"LinearRegression has coefficients but no variances.*statsmodels, or return \(est",
        ),
        (lambda t: 1.0, r"returned a float on draw 0; return a statsmodels result, \(estimate"),
        (lambda t: (1.0, 1.0, 1.0, 1.0), "returned a tuple of 4 on draw 0"),
        (lambda t: {}, "returned a dict on draw 0"),
        (lambda t: {"a": 1.0}, "returned a float for 'a' on draw 0"),
        (lambda t: {"a": ([1.0, 2.0], 1.0)}, "for 'a' on draw 0 has more than one number"),
        (lambda t: ("much", 1.0), "the fit to draw 0 gives must be a number"),
        (lambda t: {"a": ("much", 1.0)}, "for 'a' on draw 0 must be a number"),
        (
            lambda t: {f"b{t['x'].iloc[-1]:g}": (1.0, 1.0)},
            "fit to draw 1 has the statistics b1, and that to draw 0 the statistics b0; let",
        ),
        (
            lambda t: ([1.0] * int(1 + t["x"].iloc[-1]), [1.0] * int(1 + t["x"].iloc[-1])),
            r"draw 1 has estimates of shape \(2,\) .*, and that to draw 0 .* of shape \(1,\)",
        ),
        (
            lambda t: ([1.0, 2.0], np.eye(2 if t["x"].iloc[-1] else 3)),
            r"variances of \(2, 2\), and that to draw 0 .* variances of \(3, 3\)",
        ),
        (
            lambda t: (np.eye(2), np.eye(2)),
            r"draw 0 has estimates of shape \(2, 2\); return a flat",
        ),
        (lambda t: (np.nan, 1.0), "`estimates` has nan for '0' in imputation 0"),
        (
            lambda t: (pd.Series({"a": 1.0, "b": 2.0}), pd.Series({"a": 1.0, "c": 2.0})),
            "draw 0 has estimates of 'a', 'b' and variances or degrees of freedom of 'a', 'c'; ret",
        ),
        (
            lambda t: (pd.Series({"a": 1.0, "b": 2.0}), pd.Series([1.0, 2.0], index=["b", "b"])),
            "variances or degrees of freedom of 'b', 'b'",
        ),
        (
            lambda t: (pd.Series([1.0] * 3, index=[*"abb"]), pd.Series([1.0] * 3, index=[*"baa"])),
            "estimates of 'a', 'b', 'b' and variances or degrees of freedom of 'b', 'a', 'a'",
        ),
        (
            lambda t: ([1.0, 2.0], [1.0, 1.0], [5.0, 5.0] if t["x"].iloc[-1] else 5.0),
            r"draw 1 has degrees of freedom of shape \(2,\), and that to draw 0 degrees .* \(\);",
        ),
        (
            lambda t: (
                pd.Series({"a": 1.0, "b": 2.0}),
                np.eye(2) if t["x"].iloc[-1] else np.ones(2),
            ),
            r"draw 1 has estimates .* variances of \(2, 2\), and that to draw 0",
        ),
        (
            lambda t: (np.ma.masked_array([1.0], [True]), [1.0]),
            "the fit to draw 0 gives is masked in places",
        ),
        (lambda t: (1.0 + 2j, 1.0), "the fit to draw 0 gives must be a number"),
    ],
)
def test_fits_that_cannot_be_pooled(fit: Callable[[pd.DataFrame], Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        pool_fit(InTurn(1), HOLE, fit, draws=2)


@pytest.mark.usefixtures("as_users_have_it")
def test_what_is_no_imputer_and_no_function() -> None:
    fits: list[Any] = [5, None, LeastSquares(table_with_holes().dropna())]
    for fit in fits:
        with pytest.raises(InputError, match=r"`fit_function` is a \w+; give a function of"):
            pool_fit(InTurn(1), HOLE, fit, draws=2)
    with pytest.raises(InputError, match="`imputer` is a LinearRegression without `sample`; give"):
        pool_fit(LinearRegression(), HOLE, last, draws=2)


def test_an_imputer_that_gives_other_than_asked_for() -> None:
    class Lazy:
        def sample(self, table: pd.DataFrame, *, draws: int) -> list[pd.DataFrame]:
            return [table.fillna(0.0)] * (draws - 1)

    with pytest.raises(InputError, match="gave 2 completed tables for draws=3"):
        pool_fit(Lazy(), HOLE, last, draws=3)
