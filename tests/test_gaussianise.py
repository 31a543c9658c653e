"""The Gaussianising transform: monotone, exact, legal, and better than a Gaussian."""

import hypothesis.strategies as st
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.extra import numpy as hnp
from scipy import stats

from hhvaem.encoding import Encoding
from hhvaem.gaussianise import Gaussianising, fit_gaussianising
from hhvaem.likelihoods import Ordered
from hhvaem.mixtures import rounding_interval
from hhvaem.warps import Rounded, Warp

STANDARD = jnp.zeros((1, 2))


def log_prob(warp: Warp, x: np.ndarray) -> np.ndarray:
    return np.asarray(Ordered(warp).log_prob(jnp.zeros((x.size, 2)), x), float)


def gaussian(train: np.ndarray, test: np.ndarray) -> float:
    return float(stats.norm(train.mean(), train.std()).logpdf(test).mean())


@st.composite
def columns(draw: st.DrawFn) -> tuple[np.ndarray, dict[str, float]]:
    """Draw values of any scale, with ties, outliers and bounds."""
    count = draw(st.integers(1, 60))
    scale = draw(st.sampled_from([1e-9, 1.0, 1e9]))
    numbers = st.floats(-100, 100).map(lambda v: round(v, 3))
    pool = draw(hnp.arrays(float, draw(st.integers(1, count)), elements=numbers))
    x = pool[draw(hnp.arrays(int, count, elements=st.integers(0, pool.size - 1)))] * scale
    settings: dict[str, float] = {}
    if draw(st.booleans()):
        x = np.abs(x)
        settings["lower"] = 0.0
    if draw(st.booleans()):
        settings["upper"] = float(x.max()) + draw(st.sampled_from([0.0, 1.0])) * scale
        if settings["upper"] == settings.get("lower"):
            settings["upper"] += scale
    if scale >= 1 and draw(st.booleans()):
        x = np.rint(x)
        settings["step"] = 1.0
        if "upper" in settings:
            settings["upper"] = float(np.ceil(max(settings["upper"], x.max())))
    return x + 0.0, settings


@pytest.mark.slow
@given(columns(), st.integers(0, 2**32 - 1))
@settings(max_examples=75, deadline=None)
def test_the_map_is_monotone_exact_and_legal(
    column: tuple[np.ndarray, dict[str, float]], seed: int
) -> None:
    x, keywords = column
    warp = fit_gaussianising(x, **keywords)
    table = warp.smooth if isinstance(warp, Rounded) else warp
    assert isinstance(table, Gaussianising)
    assert (np.diff(table.knots) >= 0).all()
    assert (np.diff(table.scores) >= 0).all()
    cell = warp.cell(x)
    assert all(np.isfinite(part).all() for part in cell)
    assert (cell.low <= cell.high).all()
    np.testing.assert_allclose(
        warp.value(warp.latent(x)), x, rtol=1e-9, atol=1e-9 * np.abs(x).max()
    )
    w = np.sort(3 * np.random.default_rng(seed).normal(size=500))
    drawn = warp.value(w)
    assert np.isfinite(drawn).all()
    assert (np.diff(drawn) >= 0).all()
    assert (drawn >= keywords.get("lower", -np.inf)).all()
    assert (drawn <= keywords.get("upper", np.inf)).all()
    if "step" in keywords:
        assert (drawn == np.rint(drawn)).all()
    if table.only_atoms:
        assert np.isin(drawn, x).all()
    anywhere = np.resize(np.concatenate([x, drawn, (x + drawn[: x.size]) / 2]), 700)
    if "step" in keywords:
        anywhere = np.rint(anywhere)
    assert np.isfinite(log_prob(warp, anywhere)).all()


def test_a_number_that_takes_twelve_values_is_drawn_as_one_of_the_twelve() -> None:
    rng = np.random.default_rng(0)
    values = np.round(rng.uniform(0.6, 1.0, 12), 3)
    x = rng.choice(values, 700)
    warp = fit_gaussianising(x, lower=0.0)
    drawn = warp.value(rng.normal(size=50_000))
    assert set(np.unique(drawn)) == set(values)
    shares = np.array([(drawn == v).mean() for v in values])
    expected = np.array([(x == v).mean() for v in values])
    np.testing.assert_allclose(shares, expected, atol=0.01)


def test_a_value_never_seen_has_the_weight_of_one_row_and_not_none() -> None:
    x = np.repeat(np.arange(12.0) / 7, 50)
    warp = fit_gaussianising(x)
    law = Ordered(warp)
    atoms = np.exp(log_prob(warp, np.unique(x))).sum()
    assert 1 - atoms == pytest.approx(1 / (x.size + 1), rel=0.05)
    assert np.isfinite(log_prob(warp, np.array([0.2, -5.0, 100.0]))).all()
    assert law.cdf(STANDARD, np.array([1e6]))[0] == pytest.approx(1.0)


def test_zeros_keep_their_share() -> None:
    rng = np.random.default_rng(0)
    x = np.where(rng.random(506) < 0.73, 0.0, rng.gamma(2, 15, 506))
    warp = fit_gaussianising(x, lower=0.0)
    assert np.exp(log_prob(warp, np.zeros(1)))[0] == pytest.approx((x == 0).mean(), abs=0.005)
    drawn = warp.value(rng.normal(size=20_000))
    assert (drawn == 0).mean() == pytest.approx((x == 0).mean(), abs=0.015)
    assert drawn.mean() == pytest.approx(x.mean(), rel=0.1)


def test_two_narrow_modes_beat_a_gaussian_by_far() -> None:
    rng = np.random.default_rng(0)
    x = np.where(rng.random(2000) < 0.5, -1.0, 1.0) + 0.02 * rng.normal(size=2000)
    train, test = x[:1000], x[1000:]
    score = log_prob(fit_gaussianising(train), test).mean()
    truth = np.logaddexp(*(stats.norm(m, 0.02).logpdf(test) for m in (-1, 1))) - np.log(2)
    assert score > gaussian(train, test) + 2.5
    assert score > truth.mean() - 0.15


@pytest.mark.parametrize("seed", range(5))
def test_on_gaussian_data_it_is_as_good_as_the_gaussian(seed: int) -> None:
    rng = np.random.default_rng(seed)
    train, test = rng.normal(size=400), rng.normal(size=4000)
    assert log_prob(fit_gaussianising(train), test).mean() > gaussian(train, test) - 0.02


@pytest.mark.parametrize("factor", [1e-9, 1e9])
def test_a_change_of_units_changes_nothing_else(factor: float) -> None:
    x = np.random.default_rng(0).lognormal(size=300)
    one, other = fit_gaussianising(x, lower=0.0), fit_gaussianising(factor * x, lower=0.0)
    np.testing.assert_allclose(one.latent(x), other.latent(factor * x), atol=1e-6)


def test_rounding_intervals_reach_half_way_to_the_neighbours() -> None:
    low, high = rounding_interval(np.array([1.0, 2.5, 4.0, 5.0]), np.array([1.0, 2.0, 4.0]))
    np.testing.assert_array_equal(low, [0.5, 2.25, 3.0, 4.5])
    np.testing.assert_array_equal(high, [1.5, 3.25, 5.0, 5.5])


def test_nothing_is_smeared_below_a_limit_of_detection() -> None:
    rng = np.random.default_rng(0)
    x = np.maximum(np.round(rng.lognormal(0.5, 1.0, 400), 1), 0.6)
    drawn = fit_gaussianising(x, lower=0.0).value(rng.normal(size=20_000))
    assert (drawn < 0.55).mean() < 0.03
    assert (drawn < 0.65).mean() == pytest.approx((x < 0.65).mean(), abs=0.04)


NORMAL = np.random.default_rng(0).normal(size=300)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("lower", [None, 0.0])
def test_the_tail_of_a_skewed_column_is_as_long_as_it_is(sign: int, lower: float | None) -> None:
    """Kernels on the axis of values reach 3.4 at a latent number of 3, and below 0 at -3.5."""
    law, w = stats.lognorm(0.4), np.array([-3.5, -2.0, 0.0, 2.0, 3.0, 3.5])
    bound = {} if lower is None else {"lower" if sign > 0 else "upper": lower}
    found = [
        sign * fit_gaussianising(sign * law.rvs(350, random_state=seed), **bound).value(sign * w)
        for seed in range(20)
    ]
    np.testing.assert_allclose(np.mean(found, 0), law.ppf(stats.norm.cdf(w)), rtol=0.12)


def test_a_column_on_the_axis_of_logarithms_is_a_law() -> None:
    """Its density is the slope of its distribution, and what is beyond zero is not impossible."""
    x = stats.lognorm(0.8).rvs(400, random_state=0)
    warp = fit_gaussianising(x)
    grid = np.linspace(1e-3, 60.0, 60_001)
    total = np.exp(log_prob(warp, grid)).sum() * (grid[1] - grid[0])
    assert total == pytest.approx(1.0, abs=0.01)
    assert log_prob(warp, x).mean() > stats.lognorm(0.8).logpdf(x).mean() - 0.02
    assert np.isfinite(log_prob(warp, np.array([-1.0, 0.0, 1e9]))).all()


@pytest.mark.parametrize(
    "x",
    [
        np.append(NORMAL, 1e9),
        np.append(NORMAL, 1e30),
        np.append(NORMAL, [999_999_999.0] * 9),
        np.append(NORMAL, 1e155),
        1e-300 * NORMAL,
        1e-320 * NORMAL,
        1e300 * NORMAL,
        np.exp(10 * NORMAL),
        10.0 ** (60 * NORMAL),
        1.7e308 * np.tanh(NORMAL),
    ],
    ids=[
        "outlier",
        "far outlier",
        "sentinel",
        "1e155",
        "1e-300",
        "denormal",
        "1e300",
        "heavy tail",
        "hundreds of digits",
        "as large as numbers go",
    ],
)
def test_outliers_and_extreme_units_leave_the_rest_as_it_is(x: np.ndarray) -> None:
    warp = fit_gaussianising(x)
    drawn = warp.value(np.random.default_rng(1).normal(size=20_000))
    assert np.isfinite(drawn).all()
    low, high = np.quantile(x, [0.25, 0.75])
    assert ((drawn > low) & (drawn < high)).mean() == pytest.approx(0.5, abs=0.1)
    assert np.isfinite(log_prob(warp, x)).all()


def test_an_outlier_as_far_out_as_numbers_go_leaves_all_finite() -> None:
    x = np.append(NORMAL, 1.7e308)
    warp = fit_gaussianising(x)
    assert np.isfinite(warp.value(np.linspace(-9, 9, 50))).all()
    assert np.isfinite(log_prob(warp, x)).all()


@pytest.mark.parametrize("step", [None, 1.0])
def test_a_value_far_beyond_the_others_is_seen_at_the_end_of_the_line(step: float | None) -> None:
    x = np.rint(100 * NORMAL) if step else NORMAL
    encoding = Encoding((Ordered(fit_gaussianising(x, step=step)),))
    far = np.array([[-1e300], [-1e5], [0.0], [1e5], [1e300]])
    cells = encoding.encode(far, np.ones(far.shape, bool))
    assert (np.abs(cells.point) < 9.21).all()
    np.testing.assert_array_equal(
        np.sign(cells.point[:, 0]), [-1, -1, np.sign(cells.point[2, 0]), 1, 1]
    )
    assert (cells.low <= cells.point).all()
    assert (cells.point <= cells.high).all()
    assert (cells.low < 9.21).all()
    assert (cells.high > -9.21).all()
    # What is within reach is where it was.
    near = encoding.encode(x[:, None], np.ones((x.size, 1), bool))
    np.testing.assert_allclose(near.point[:, 0], encoding.laws[0].warp.latent(x), rtol=1e-5)


def test_a_count_at_its_bound_is_told_as_the_mean_of_its_stretch():
    """The map runs to infinity at a bound: networks would be shown a zero as 8 deviations out."""
    x = np.random.default_rng(0).poisson(2.0, 1000).astype(float)
    warp = fit_gaussianising(x, step=1.0, lower=0.0)
    normal = np.random.default_rng(1).normal(size=200_000)
    shown = warp.value(normal)
    for value in np.arange(6.0):
        mean = normal[shown == value].mean()
        assert warp.latent(np.array([value]))[0] == pytest.approx(mean, abs=0.03), value


def test_outliers_are_not_outdone() -> None:
    x = np.append(np.random.default_rng(0).lognormal(size=300), [2e3, 5e3])
    warp = fit_gaussianising(x, lower=0.0)
    least, most = warp.shown
    assert (least, most) == (0.0, pytest.approx(1.5 * x.max() - 0.5 * x.min()))
    far = np.linspace(-9, 9, 2001)
    assert warp.value(far).max() == most
    # The mean is that of what is shown, and not cut itself.
    for location in (-2.0, 0.0, 2.5, 4.0):
        for scale in (0.1, 1.0):
            found = warp.mean(np.array([location]), np.array([scale]))
            nodes = np.linspace(-9, 9, 200_001)
            weights = np.exp(-0.5 * nodes**2)
            expected = warp.value(location + scale * nodes) @ weights / weights.sum()
            assert found[0] == pytest.approx(expected, rel=2e-3)
    # A value beyond is seen where it is.
    assert warp.latent(np.array([3 * x.max()]))[0] > warp.latent(np.array([most]))[0]


def test_bounds_of_a_column_are_bounds_of_what_is_shown() -> None:
    x = np.random.default_rng(0).uniform(0.4, 1.0, 200)
    assert fit_gaussianising(x, lower=0.3, upper=1.0).shown == (0.3, 1.0)
    whole = fit_gaussianising(np.arange(10.0), step=1.0)
    assert whole.shown == (-4.0, 14.0)
    assert set(np.unique(whole.value(np.linspace(-9, 9, 500)))) <= set(np.arange(-4.0, 15.0))


def test_a_single_value_sets_no_range() -> None:
    assert fit_gaussianising(np.full(3, 3.0)).shown == (-np.inf, np.inf)


def test_values_that_differ_by_rounding_are_still_in_order() -> None:
    """As where single precision has left 0.17499998 beside 0.175, many times each."""
    rng = np.random.default_rng(0)
    x = np.repeat(rng.lognormal(size=60).round(1), 20)
    x = np.concatenate([x, np.nextafter(x[:400], 99.0), x[:400] * (1 + 1e-8)])
    warp = fit_gaussianising(x, lower=0.0)
    assert isinstance(warp, Gaussianising)
    assert (np.diff(warp.scores)[np.diff(warp.knots) > 0] > 0).all()
    assert np.isfinite(warp.cell(x).log_measure).all()
    places = np.linspace(-3, 3, 7)
    means = warp.mean(places, np.full(7, 0.3))
    assert (np.diff(means) > 0).all()
    np.testing.assert_allclose(warp.value(warp.latent(x)), x, rtol=1e-7)
