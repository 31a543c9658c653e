"""Each law is a probability, its sampler and its moments agree with it, its gradient is right."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from laws import CASES, ORDERED
from scipy import stats

from hhvaem.likelihoods import Ordered, ordered_log_prob

each_law = pytest.mark.parametrize("name", CASES)
each_ordered_law = pytest.mark.parametrize("name", ORDERED)


def parameters_of(name: str, count: int = 1) -> jax.Array:
    return jnp.broadcast_to(jnp.array(CASES[name].parameters), (count, len(CASES[name].parameters)))


def draws_of(name: str, count: int, seed: int = 0) -> np.ndarray:
    return CASES[name].law.sample(parameters_of(name, count), key=jax.random.key(seed))


@each_law
def test_it_adds_up_to_one(name: str) -> None:
    case = CASES[name]
    total = 0.0
    if case.masses is not None:
        total += np.exp(case.law.log_prob(parameters_of(name, len(case.masses)), case.masses)).sum()
    if case.continuous:
        # The midpoint rule in the user's units, with nodes where the law is.
        assert isinstance(case.law, Ordered)
        location, log_scale = case.parameters
        ends = np.unique(
            case.law.warp.value(location + np.exp(log_scale) * np.linspace(-8, 8, 40001))
        )
        middles = (ends[1:] + ends[:-1]) / 2
        density = np.exp(np.asarray(case.law.log_prob(parameters_of(name, middles.size), middles)))
        total += (density.astype(float) * np.diff(ends)).sum()
    assert total == pytest.approx(1.0, abs=1e-4)


@each_ordered_law
def test_its_sampler_matches_its_cdf(name: str) -> None:
    law = CASES[name].law
    draws = np.sort(draws_of(name, 20_000))
    values = np.unique(draws)
    empirical = np.searchsorted(draws, values, side="right") / draws.size
    distance = np.abs(law.cdf(parameters_of(name, values.size), values) - empirical).max()
    # Beyond a chance of 1e-4; on values with masses the statistic is smaller still.
    assert distance < stats.kstwo.isf(1e-4, draws.size)


@pytest.mark.parametrize("name", ["binary", "categorical"])
def test_its_sampler_matches_its_masses(name: str) -> None:
    case = CASES[name]
    counts = np.bincount(draws_of(name, 20_000).astype(int), minlength=len(case.masses))
    masses = np.exp(case.law.log_prob(parameters_of(name, len(case.masses)), case.masses))
    masses = np.asarray(masses, float)
    assert stats.chisquare(counts, counts.sum() * masses / masses.sum()).pvalue > 1e-4


@each_law
def test_its_gradient_matches_finite_differences(name: str, x64: None) -> None:
    case = CASES[name]
    x = draws_of(name, 50)
    at = jnp.broadcast_to(jnp.array(case.parameters), (x.size, len(case.parameters)))

    def total(parameters: jax.Array) -> jax.Array:
        return case.law.log_prob(parameters, x).sum()

    assert at.dtype == jnp.float64
    gradient = jax.grad(total)(at)
    for i in range(at.shape[1]):
        step = jnp.zeros(at.shape).at[:, i].set(1e-5)
        slope = (case.law.log_prob(at + step, x) - case.law.log_prob(at - step, x)) / 2e-5
        np.testing.assert_allclose(gradient[:, i], slope, rtol=1e-5, atol=1e-6)


@each_law
def test_its_mean_is_that_of_its_draws(name: str) -> None:
    draws = draws_of(name, 100_000)
    error = draws.std() / np.sqrt(draws.size)
    # The quadrature of whole numbers may be off by 0.2 %.
    mean = CASES[name].law.mean(parameters_of(name))[0]
    assert abs(mean - draws.mean()) < 4.5 * error + 0.002 * abs(mean)


@each_law
def test_no_draw_is_more_probable_than_its_mode(name: str) -> None:
    case = CASES[name]
    mode = case.law.mode(parameters_of(name))
    draws = draws_of(name, 2000)
    best = case.law.log_prob(parameters_of(name), mode)
    others = case.law.log_prob(parameters_of(name, draws.size), draws)
    if case.continuous and case.masses is not None:
        # Masses and densities do not compare: the kind that holds most of the draws has the mode.
        atom = np.isin(draws, case.masses)
        assert np.isin(mode, case.masses)[0] == (atom.mean() > 0.5)
        others = others[atom == (atom.mean() > 0.5)]
    assert float(best[0]) >= float(others.max()) - 0.01


@each_ordered_law
def test_quantile_is_the_inverse_of_cdf(name: str) -> None:
    law = CASES[name].law
    q = np.linspace(0.001, 0.999, 500)
    x = law.quantile(parameters_of(name, q.size), q)
    assert (np.diff(x) >= 0).all()
    assert (law.cdf(parameters_of(name, q.size), x) >= q - 1e-9).all()
    if CASES[name].masses is None:
        np.testing.assert_allclose(law.cdf(parameters_of(name, q.size), x), q, atol=1e-9)


@each_law
def test_its_grid_is_a_partition_with_its_mean(name: str) -> None:
    law = CASES[name].law
    grid = law.grid(512)
    masses = np.exp(law.grid_log_prob(parameters_of(name), grid))[0]
    assert masses.sum() == pytest.approx(1.0, abs=1e-5)
    assert (np.diff(grid.points) >= 0).all()
    spread = np.sqrt(masses @ (grid.points - masses @ grid.points) ** 2)
    assert masses @ grid.points == pytest.approx(
        law.mean(parameters_of(name))[0], abs=0.02 * spread
    )


def test_a_cell_keeps_its_digits_in_float32_wherever_it_lies(x64: None) -> None:
    rng = np.random.default_rng(0)
    count = 4000
    location, log_scale = 3 * rng.normal(size=count), rng.uniform(-3.5, 1, count)
    low = 3 * rng.normal(size=count)
    high = low + 10 ** rng.uniform(-3, 1.5, count)
    low[:200], high[100:300] = -1e4, 1e4
    single = [a.astype(np.float32) for a in (location, log_scale, low, high)]
    law = np.asarray(ordered_log_prob(*map(jnp.asarray, single)), float)
    location, log_scale, low, high = (a.astype(float) for a in single)
    # In float64 the difference of two tails keeps its digits where float32 would not.
    start, end = (low - location) * np.exp(-log_scale), (high - location) * np.exp(-log_scale)
    flip = start + end > 0
    start, end = np.where(flip, -end, start), np.where(flip, -start, end)
    above, below = stats.norm.logcdf(end), stats.norm.logcdf(start)
    exact = above + np.log(-np.expm1(below - above))
    np.testing.assert_allclose(law, exact, rtol=2e-6, atol=2e-6)


def test_derivatives_by_the_law_and_by_the_cell_are_those_of_finite_differences(x64: None) -> None:
    rng = np.random.default_rng(0)
    count, step = 2000, 1e-5
    low = 2 * rng.normal(size=count)
    high = low + np.where(rng.random(count) < 0.2, 0.0, 10 ** rng.uniform(-3, 1.5, count))
    at = [
        jnp.asarray(a) for a in (2 * rng.normal(size=count), rng.uniform(-3, 1, count), low, high)
    ]
    has_width = high > low + 100 * step

    def slope(function: Callable[..., jax.Array], i: int) -> jax.Array:
        above, below = ([a + s * (j == i) for j, a in enumerate(at)] for s in (step, -step))
        return (function(*above) - function(*below)) / (2 * step)

    def by(i: int, function: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
        return jax.grad(lambda *args: function(*args).sum(), i)

    for i in range(4):
        # A cell without width has none of its ends alone.
        these = has_width if i > 1 else slice(None)
        first = by(i, ordered_log_prob)
        np.testing.assert_allclose(
            first(*at)[these], slope(ordered_log_prob, i)[these], rtol=2e-4, atol=2e-4
        )
        for j in range(2 if i < 2 else 0):
            np.testing.assert_allclose(by(j, first)(*at), slope(first, j), rtol=1e-5, atol=1e-5)
    # Where both ends move together, it is the place that does.
    ends = by(2, ordered_log_prob)(*at) + by(3, ordered_log_prob)(*at)
    np.testing.assert_allclose(ends, -by(0, ordered_log_prob)(*at), rtol=1e-5, atol=1e-5)


def test_gradients_keep_their_digits_in_float32_wherever_a_cell_lies(x64: None) -> None:
    rng = np.random.default_rng(0)
    count = 20_000
    log_scale = rng.uniform(-8, 3, count)
    away = rng.choice([-1, 1], count) * 10 ** rng.uniform(-1, 6, count) * np.exp(log_scale)
    location = np.where(rng.random(count) < 0.3, 0.0, rng.normal(size=count))
    low = np.clip(location + away, -1e4, 1e4)
    high = low + np.where(rng.random(count) < 0.1, 0.0, 10 ** rng.uniform(-6, 4, count))
    single = [jnp.asarray(a, jnp.float32) for a in (location, log_scale, low, high)]
    both = jax.vmap(jax.value_and_grad(ordered_log_prob, (0, 1)))
    value, gradient = both(*single)
    exact, slopes = both(*(a.astype(jnp.float64) for a in single))
    for found, right in zip((value, *gradient), (exact, *slopes), strict=True):
        assert found.dtype == jnp.float32
        np.testing.assert_allclose(found, right, rtol=3e-5, atol=3e-5)


@pytest.mark.parametrize("place", [1e3, 1e4])
def test_points_beyond_all_reason_have_finite_derivatives(place: float) -> None:
    law = jax.value_and_grad(ordered_log_prob, (0, 1))
    value, (by_location, by_log_scale) = law(*map(jnp.float32, (0.0, -8.0, place, place)))
    z = place * np.exp(8.0)
    np.testing.assert_allclose(value, -0.5 * z**2, rtol=1e-5)
    np.testing.assert_allclose(by_location, z * np.exp(8.0), rtol=1e-5)
    np.testing.assert_allclose(by_log_scale, z**2, rtol=1e-5)


@pytest.mark.parametrize(
    ("low", "high"),
    [(-1e4, 1e4), (-1e4, -30.0), (30.0, 1e4), (5.0, 5.0), (1.0, 1.001), (-1e4, 0.0)],
)
def test_gradients_are_finite_in_the_far_tails(low: float, high: float) -> None:
    def law(p: jax.Array) -> jax.Array:
        return ordered_log_prob(p[0], p[1], jnp.array(low), jnp.array(high))

    for log_scale in (-4.0, 0.0, 2.0):
        value, gradient = jax.value_and_grad(law)(jnp.array([0.5, log_scale]))
        assert np.isfinite(value)
        assert np.isfinite(gradient).all()
