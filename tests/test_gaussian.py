"""The Gaussian copula: its covariance, its conditional laws, its draws, and tables with little."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

from hhvaem.gaussian import Gaussian, fit_gaussian, fit_normal
from hhvaem.schema import Column
from hhvaem.warps import Affine

COVARIANCE = np.array([[1.0, 0.8, -0.3], [0.8, 1.5, 0.1], [-0.3, 0.1, 0.7]])
MEAN = np.array([0.2, -0.1, 0.3])
NUMBERS = tuple(Column(name, "real") for name in "abc")
MIXED = (
    Column("size", "real"),
    Column("colour", "categorical", levels=("red", "green", "blue")),
    Column("weight", "positive"),
    Column("sold", "binary", levels=("no", "yes")),
    Column("visits", "count"),
    Column("grade", "ordinal", levels=("low", "mid", "top")),
    Column("shape", "categorical", levels=("round", "flat", "odd", "none")),
)


def normal_rows(rows: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).multivariate_normal(MEAN, COVARIANCE, rows)


def with_holes(x: np.ndarray, share: float, seed: int = 1) -> np.ndarray:
    return np.where(np.random.default_rng(seed).random(x.shape) < share, np.nan, x)


def mixed_rows(rows: int, seed: int = 0) -> np.ndarray:
    """Rows in which all but the last column follow one hidden number; 'none' is never seen."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=rows)
    near = [hidden + 0.3 * rng.normal(size=rows) for _ in range(6)]
    columns = [
        10 + 3 * near[0],
        np.digitize(near[1], [-0.6, 0.6]),
        np.exp(near[2]),
        near[3] > 1.0,
        np.rint(np.exp(near[4] + 1)),
        np.digitize(near[5], [-0.5, 1.0]),
        rng.choice(3, rows, p=[0.7, 0.2, 0.1]),
    ]
    return np.stack(columns, axis=1).astype(float)


@pytest.fixture(scope="module")
def mixed() -> Gaussian:
    values = mixed_rows(1500)
    return fit_gaussian(MIXED, values, np.random.default_rng(9).random(values.shape) < 0.8)


def test_complete_rows_give_the_sample_mean_and_covariance_in_one_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hhvaem.gaussian.STEPS", 1)
    x = normal_rows(200)
    mean, covariance = fit_normal(x, prior_rows=1e-9)
    np.testing.assert_allclose(mean, x.mean(0), atol=1e-12)
    np.testing.assert_allclose(covariance, np.cov(x.T, bias=True), atol=1e-8)
    _, shrunk = fit_normal(x, prior_rows=50.0)
    np.testing.assert_allclose(shrunk, (200 * covariance + 50 * np.eye(3)) / 250, atol=1e-6)


def test_a_monotone_pattern_gives_the_closed_form() -> None:
    # Anderson (1957): the second column's regression on the first comes from the complete pairs.
    x = normal_rows(80)[:, :2]
    x[50:, 1] = np.nan
    mean, covariance = fit_normal(x, prior_rows=1e-12, tolerance=1e-11)
    first, pairs = x[:, 0], x[:50]
    pair = np.cov(pairs.T, bias=True)
    slope = pair[0, 1] / pair[0, 0]
    second = pairs[:, 1].mean() + slope * (first.mean() - pairs[:, 0].mean())
    variance = pair[1, 1] - slope * pair[0, 1] + slope**2 * first.var()
    np.testing.assert_allclose(mean, [first.mean(), second], atol=1e-8)
    expected = [[first.var(), slope * first.var()], [slope * first.var(), variance]]
    np.testing.assert_allclose(covariance, expected, atol=1e-8)


@pytest.mark.parametrize("prior", [1e-9, 5.0])
def test_any_pattern_gives_the_likeliest_law(prior: float) -> None:
    x = with_holes(normal_rows(40), 0.35)
    mean, covariance = fit_normal(x, prior_rows=prior, tolerance=1e-10)

    def loss(parameters: np.ndarray) -> float:
        root = np.zeros((3, 3))
        root[np.tril_indices(3)] = parameters[3:]
        law = root @ root.T
        total = prior / 2 * (np.linalg.slogdet(law)[1] + np.trace(np.linalg.inv(law)))
        for row in x:
            seen = np.flatnonzero(~np.isnan(row))
            if seen.size:
                part = law[np.ix_(seen, seen)]
                total -= multivariate_normal.logpdf(row[seen], parameters[seen], part)
        return total

    corner = np.tril_indices(3)
    start = np.concatenate([np.zeros(3), np.eye(3)[corner]])
    found = minimize(loss, start, options={"gtol": 1e-6}).x
    root = np.zeros((3, 3))
    root[corner] = found[3:]
    np.testing.assert_allclose(mean, found[:3], atol=1e-4)
    np.testing.assert_allclose(covariance, root @ root.T, atol=1e-4)


def known() -> Gaussian:
    """A law that was not fitted: scores are the numbers themselves."""
    places = (slice(0, 1), slice(1, 2), slice(2, 3))
    zero, one = np.zeros(3), np.ones(3)
    return Gaussian(NUMBERS, (Affine(0.0, 1.0),) * 3, places, zero, one, MEAN, COVARIANCE)


def test_conditional_means_are_the_textbook_s() -> None:
    values = np.array([[1.0, np.nan, 2.0], [np.nan, 0.5, np.nan], [np.nan, np.nan, np.nan]])
    filled = known().fill(values, ~np.isnan(values))
    seen = [0, 2]
    gain = COVARIANCE[1, seen] @ np.linalg.inv(COVARIANCE[np.ix_(seen, seen)])
    assert filled[0, 1] == pytest.approx(MEAN[1] + gain @ (values[0, seen] - MEAN[seen]))
    gain = COVARIANCE[[0, 2], 1] / COVARIANCE[1, 1]
    np.testing.assert_allclose(filled[1, [0, 2]], MEAN[[0, 2]] + gain * (0.5 - MEAN[1]))
    np.testing.assert_allclose(filled[2], MEAN)


def test_moments_of_draws_are_those_of_the_conditional_law() -> None:
    values = np.array([[np.nan, 0.5, np.nan], [np.nan, np.nan, np.nan]])
    draws = known().sample(values, ~np.isnan(values), draws=40_000, seed=3)
    gain = COVARIANCE[[0, 2], 1] / COVARIANCE[1, 1]
    left = COVARIANCE[np.ix_([0, 2], [0, 2])] - np.outer(gain, COVARIANCE[1, [0, 2]])
    np.testing.assert_allclose(
        draws[:, 0, [0, 2]].mean(0), MEAN[[0, 2]] + gain * (0.5 - MEAN[1]), atol=0.02
    )
    np.testing.assert_allclose(np.cov(draws[:, 0, [0, 2]].T), left, atol=0.02)
    np.testing.assert_allclose(draws[:, 1].mean(0), MEAN, atol=0.03)
    np.testing.assert_allclose(np.cov(draws[:, 1].T), COVARIANCE, atol=0.03)


def test_a_fitted_law_of_normal_columns_is_theirs() -> None:
    x = normal_rows(4000) * [1e6, 1.0, 1e-6]
    mask = np.random.default_rng(2).random(x.shape) < 0.7
    model = fit_gaussian(NUMBERS, x, mask)
    spread = np.sqrt(np.diag(COVARIANCE))
    np.testing.assert_allclose(model.covariance, COVARIANCE / np.outer(spread, spread), atol=0.05)
    filled = model.fill(np.array([[2e6, np.nan, 1e-6]]), np.array([[True, False, True]]))
    expected = known().fill(np.array([[2.0, np.nan, 1.0]]), np.array([[True, False, True]]))
    assert filled[0, 1] == pytest.approx(expected[0, 1], abs=0.1)


def test_observed_cells_are_untouched_to_the_bit(mixed: Gaussian) -> None:
    values = mixed_rows(60, seed=5)
    values[0, 0], values[1, 0] = -0.0, 1e100
    mask = np.random.default_rng(4).random(values.shape) < 0.5
    mask[:2, 0] = True
    hidden = np.where(mask, values, np.nan)
    for found in (mixed.fill(hidden, mask), *mixed.sample(hidden, mask, draws=3, seed=0)):
        assert np.array_equal(found[mask].view(np.int64), values[mask].view(np.int64))
        assert np.isfinite(found).all()


def test_a_value_beyond_all_reason_is_one_far_out(mixed: Gaussian) -> None:
    values = np.repeat(mixed_rows(1), 2, axis=0)
    values[:, 0] = 1e100, 1e4
    mask = np.zeros(values.shape, bool)
    mask[:, 0] = True
    filled = mixed.fill(values, mask)
    np.testing.assert_allclose(filled[0, 1:], filled[1, 1:])
    assert filled[0, 4] < 10 * mixed_rows(1500)[:, 4].max()


def test_hidden_values_are_not_looked_at(mixed: Gaussian) -> None:
    values = mixed_rows(30, seed=6)
    mask = np.random.default_rng(4).random(values.shape) < 0.5
    other = np.where(mask, values, 1.0)
    np.testing.assert_array_equal(mixed.fill(values, mask), mixed.fill(other, mask))
    refitted = fit_gaussian(MIXED, other, mask)
    np.testing.assert_array_equal(refitted.covariance, fit_gaussian(MIXED, values, mask).covariance)


def test_draws_are_legal(mixed: Gaussian) -> None:
    mask = np.zeros((400, len(MIXED)), bool)
    draws = mixed.sample(np.full(mask.shape, np.nan), mask, draws=5, seed=1)
    for j, column in enumerate(MIXED):
        x = draws[..., j]
        if column.levels:
            assert set(np.unique(x)) <= set(range(len(column.levels)))
        else:
            assert (x >= column.support[0]).all()
    assert (draws[..., 4] == np.rint(draws[..., 4])).all()
    # No row had this level.
    assert not (draws[..., 6] == 3).any()


def test_draws_of_empty_rows_follow_the_table(mixed: Gaussian) -> None:
    table = mixed_rows(20_000, seed=8)
    mask = np.zeros((2000, len(MIXED)), bool)
    draws = mixed.sample(np.full(mask.shape, np.nan), mask, draws=10, seed=1)
    draws = draws.reshape(-1, len(MIXED))
    for j, column in enumerate(MIXED):
        if column.levels:
            shares = [
                np.bincount(x[:, j].astype(int), minlength=4) / len(x) for x in (draws, table)
            ]
            np.testing.assert_allclose(*shares, atol=0.05)
        else:
            np.testing.assert_allclose(
                *[np.quantile(x[:, j], [0.1, 0.5, 0.9]) for x in (draws, table)], rtol=0.15
            )
    # Levels go with numbers as they do in the table: of red, green and blue things.
    for j in (0, 3):
        means = [[x[x[:, 1] == k, j].mean() for k in range(3)] for x in (draws, table)]
        np.testing.assert_allclose(*means, atol=0.15 * table[:, j].std() + 0.05)


def test_levels_are_filled_with_the_likeliest(mixed: Gaussian) -> None:
    values = mixed_rows(3000, seed=7)
    for j, least in ((1, 0.7), (3, 0.9), (5, 0.75), (6, 0.68)):
        mask = np.ones(values.shape, bool)
        mask[:, j] = False
        assert (mixed.fill(values, mask)[:, j] == values[:, j]).mean() > least


def test_the_same_seed_gives_the_same_draws(mixed: Gaussian) -> None:
    values, mask = mixed_rows(20), np.zeros((20, len(MIXED)), bool)
    first, again, other = (mixed.sample(values, mask, draws=4, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any(axis=(0, 1)).all()
    assert (first[0] != first[1]).any(axis=0).all()


def test_rows_are_filled_alike_alone_and_in_any_order(mixed: Gaussian) -> None:
    values = mixed_rows(50, seed=3)
    mask = np.random.default_rng(0).random(values.shape) < 0.5
    filled = mixed.fill(values, mask)
    np.testing.assert_allclose(mixed.fill(values[::-1], mask[::-1])[::-1], filled, rtol=1e-9)
    np.testing.assert_allclose(mixed.fill(values[7:8], mask[7:8]), filled[7:8], rtol=1e-9)


def test_batches_do_not_change_what_is_found(
    mixed: Gaussian, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = mixed_rows(50, seed=3)
    mask = np.random.default_rng(0).random(values.shape) < 0.5
    whole, law = mixed.fill(values, mask), fit_normal(with_holes(normal_rows(50), 0.3))
    monkeypatch.setattr("hhvaem.gaussian.BATCH", 300)
    np.testing.assert_allclose(mixed.fill(values, mask), whole, rtol=1e-9)
    for found, expected in zip(fit_normal(with_holes(normal_rows(50), 0.3)), law, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_what_was_never_observed_stays_a_hole() -> None:
    values = mixed_rows(40)
    mask = np.ones(values.shape, bool)
    mask[:, [1, 2]] = False
    model = fit_gaussian(MIXED, values, mask)
    mask[:20, 4] = False
    filled, draws = model.fill(values, mask), model.sample(values, mask, draws=2, seed=0)
    for found in (filled, *draws):
        assert np.isnan(found[:, [1, 2]]).all()
        assert np.isfinite(np.delete(found, [1, 2], axis=1)).all()
    # New rows may have such a cell, and keep it.
    assert model.fill(values, np.ones(values.shape, bool)).tolist() == values.tolist()


def test_nothing_observed_at_all() -> None:
    values, mask = mixed_rows(3), np.zeros((3, len(MIXED)), bool)
    model = fit_gaussian(MIXED, values, mask)
    assert np.isnan(model.fill(values, mask)).all()
    assert np.isnan(model.sample(values, mask, draws=2, seed=0)).all()


def test_one_row_is_its_own_best_guess() -> None:
    values = mixed_rows(1)
    model = fit_gaussian(MIXED, values, np.ones(values.shape, bool))
    hidden = np.zeros(values.shape, bool)
    filled = model.fill(values, hidden)
    levels = [j for j, column in enumerate(MIXED) if column.levels]
    np.testing.assert_array_equal(filled[:, levels], values[:, levels])
    np.testing.assert_allclose(filled, values, rtol=0.5)
    assert np.isfinite(model.sample(values, hidden, draws=3, seed=0)).all()


def test_columns_that_do_not_vary_are_filled_with_their_value() -> None:
    values = mixed_rows(100)
    values[:, 0], values[:, 1], values[:, 3] = 7.25, 2.0, 0.0
    model = fit_gaussian(MIXED, values, np.ones(values.shape, bool))
    mask = np.ones(values.shape, bool)
    mask[:50, [0, 1, 3]] = False
    filled = model.fill(values, mask)
    np.testing.assert_allclose(filled, values, rtol=1e-3)
    draws = model.sample(values, mask, draws=20, seed=0)
    assert (draws[:, :50, 1] == 2.0).all()
    assert (draws[:, :50, 0] == 7.25).mean() > 0.98


def test_a_column_twice_has_an_invertible_covariance() -> None:
    x = np.repeat(normal_rows(500)[:, :1], 3, axis=1)
    mask = np.random.default_rng(0).random(x.shape) < 0.6
    model = fit_gaussian(NUMBERS, x, mask)
    assert np.linalg.eigvalsh(model.covariance).min() > 0
    seen = mask.any(1)
    np.testing.assert_allclose(model.fill(x, mask)[seen], x[seen], atol=0.3)
