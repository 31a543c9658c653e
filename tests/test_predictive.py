"""Mixtures seen through warps: against integrals, counts of draws, and what holds for any law."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import CASES, ORDERED
from scipy.special import log_ndtr

from hhvaem.encoding import Encoding
from hhvaem.gaussianise import fit_gaussianising
from hhvaem.likelihoods import Binary, Categorical, Likelihood, Ordered
from hhvaem.predictive import REACH, Predictive, Scales
from hhvaem.warps import Affine

RNG = np.random.default_rng(0)
LAWS: dict[str, Ordered] = {
    **{name: CASES[name].law for name in ORDERED if " 1e+09" not in name},
    # Between atoms that are far apart, a good share of the latent line belongs to none of them.
    "atoms only": Ordered(fit_gaussianising(RNG.choice([1.5, 2.5, 7.0, 20.0], 12))),
    "whole atoms": Ordered(fit_gaussianising(RNG.choice([10.0, 20.0, 60.0], 60), step=1.0)),
    "small count": Ordered(
        fit_gaussianising(RNG.poisson(0.7, 300).astype(float), step=1.0, lower=0.0)
    ),
    "with bounds": Ordered(fit_gaussianising(RNG.beta(0.5, 2.0, 300), lower=0.0, upper=1.0)),
}
# Of two models: as little noise as training allows, some, and as much as it allows.
NOISES = {"little": (-3.5, -3.0), "some": (-1.0, 0.1), "much": (0.5, 0.0)}
QUANTILES = (0.001, 0.05, 0.3, 0.5, 0.8, 0.95, 0.999)
# Rows of `mixture`: all over the line, about one place, and beyond the table of means.
ROWS = np.arange(3)


def mixture(law: Likelihood, noise: tuple[float, ...], seed: int = 0) -> Predictive:
    """Three rows of one column."""
    rng = np.random.default_rng(seed)
    locations = rng.normal(size=(len(noise), 3, 40)) * [[1.5], [0.1], [1.0]] + [[0], [0.3], [14]]
    return predictive((law,), [noise], locations[..., None])


def predictive(laws: tuple[Likelihood, ...], noise: list, components: np.ndarray) -> Predictive:
    scales = Scales(Encoding(laws), np.array(noise, float).T)
    return Predictive(scales, components.astype(np.float32))


def latents(law: Predictive, noise: np.ndarray) -> np.ndarray:
    """The latent numbers that standard normal noise makes of each component, row by row."""
    location = law.components[..., 0].astype(float)
    found = location[..., None] + np.exp(law.scales.log_scale)[..., None, None] * noise
    return np.moveaxis(found, 1, 0)


def drawn(law: Predictive, count: int = 1000) -> np.ndarray:
    """As many values of each component."""
    noise = np.random.default_rng(1).normal(size=(*law.components.shape[:3], count))
    values = law.scales.encoding.laws[0].warp.value(latents(law, noise))
    return values.reshape(len(values), -1)


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
@pytest.mark.parametrize("name", LAWS)
def test_means_are_integrals(name: str, noise: tuple[float, ...]) -> None:
    law = mixture(LAWS[name], noise)
    found = law.mean(0, ROWS)
    nodes = np.linspace(-9, 9, 8_001)
    weights = np.exp(-0.5 * nodes**2)
    weights /= weights.sum()
    for row, latent in enumerate(latents(law, nodes[None, None, None])):
        values = LAWS[name].warp.value(latent)
        exact = (values @ weights).mean()
        spread = np.sqrt(((values - exact) ** 2 @ weights).mean())
        assert abs(found[row] - exact) < 3e-3 * spread + 1e-6 * abs(exact)


def test_some_means_are_beyond_the_table() -> None:
    assert (mixture(LAWS["real 1"], NOISES["some"]).components[:, 2] > REACH).any()


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
@pytest.mark.parametrize("name", LAWS)
def test_quantiles_and_ranks_are_those_of_draws(name: str, noise: tuple[float, ...]) -> None:
    law = mixture(LAWS[name], noise)
    values = drawn(law)
    count = values.shape[1]

    def at_most(share: np.ndarray, probability: np.ndarray) -> bool:
        # Draws are spread evenly over components, and vary less than if they were not.
        error = np.sqrt(probability * (1 - probability) / count)
        return bool((share <= probability + 5 * error + 1e-9).all())

    for q in QUANTILES:
        found = law.quantile(0, ROWS, q)
        less = (values < found[:, None]).mean(1)
        no_more = (values <= found[:, None]).mean(1)
        assert at_most(less, np.full(3, q))
        assert at_most(1 - no_more, np.full(3, 1 - q))
    for value in values[:, :: count // 20].T:
        low, high = law.ranks(0, ROWS, value)
        for share, rank in (
            ((values < value[:, None]).mean(1), low),
            ((values <= value[:, None]).mean(1), high),
        ):
            assert at_most(share, rank)
            assert at_most(1 - share, 1 - rank)


@pytest.mark.parametrize("name", LAWS)
@settings(max_examples=15, deadline=None)
@given(
    noise=st.lists(st.floats(-3.5, 0.5), min_size=1, max_size=3),
    seed=st.integers(0, 1000),
    q=st.lists(st.floats(1e-4, 1 - 1e-4), min_size=2, max_size=4),
)
def test_ranks_bracket_quantiles(name: str, noise: list[float], seed: int, q: list[float]) -> None:
    law = mixture(LAWS[name], tuple(noise), seed)
    found = np.stack([law.quantile(0, ROWS, each) for each in sorted(q)])
    assert (np.diff(found, axis=0) >= 0).all()
    for each, values in zip(sorted(q), found, strict=True):
        # Values are known to their last digit.
        step = 0.0 if LAWS[name].warp.discrete else np.spacing(values)
        ends = np.clip([values - step, values + step], *LAWS[name].warp.shown)
        below, up_to = law.ranks(0, ROWS, ends[0])[0], law.ranks(0, ROWS, ends[1])[1]
        assert (below <= each + 1e-9).all()
        assert (up_to >= each - 1e-9).all()


def test_values_beyond_what_is_shown_are_beyond_all() -> None:
    law = mixture(LAWS["gaussianised 1"], NOISES["some"])
    least, most = LAWS["gaussianised 1"].warp.shown
    for value, rank in ((least - 1.0, 0.0), (most + 1.0, 1.0)):
        low, high = law.ranks(0, ROWS, np.full(ROWS.size, value))
        assert low.tolist() == high.tolist() == [rank] * ROWS.size


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_shares_of_ordered_levels(noise: tuple[float, ...]) -> None:
    law = mixture(LAWS["ordinal"], noise)
    values = drawn(law)
    counted = (values[..., None] == np.arange(5)).mean(1)
    shares = law.shares(0, ROWS)
    assert np.abs(counted - shares).max() < 5 * np.sqrt(0.25 / values.shape[1])
    np.testing.assert_allclose(shares.sum(1), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(law.filled(0, ROWS), shares.argmax(1))


def test_each_column_has_its_own_part_of_a_component() -> None:
    rng = np.random.default_rng(2)
    number, other = LAWS["positive 1"], LAWS["gaussianised whole"]
    laws = (Categorical(4), number, Binary(), Categorical(3), other)
    shares = [rng.dirichlet(np.ones(levels), (2, 3, 40)) for levels in (4, 3)]
    chance = rng.random((2, 3, 40, 1))
    locations = rng.normal(size=(2, 3, 40, 2))
    parts = [shares[0], locations[..., :1], chance, shares[1], locations[..., 1:]]
    noise = [(0.0, 0.0), (-1.0, -2.0), (0.0, 0.0), (0.0, 0.0), (-0.5, 0.2)]
    law = predictive(laws, noise, np.concatenate(parts, axis=3))
    rows = np.array([2, 0])
    for column, part in ((0, shares[0]), (3, shares[1])):
        expected = part.mean((0, 2))[rows]
        np.testing.assert_allclose(law.shares(column, rows), expected, rtol=1e-6)
        np.testing.assert_array_equal(law.filled(column, rows), expected.argmax(1))
    expected = np.concatenate([1 - chance, chance], axis=3).mean((0, 2))[rows]
    np.testing.assert_allclose(law.shares(2, rows), expected, rtol=1e-6)
    for column, each, place in ((1, number, 0), (4, other, 1)):
        alone = predictive((each,), [noise[column]], locations[..., place, None])
        np.testing.assert_array_equal(law.mean(column, rows), alone.mean(0, rows))
        np.testing.assert_array_equal(law.filled(column, rows), alone.mean(0, rows))
        np.testing.assert_array_equal(law.quantile(column, rows, 0.3), alone.quantile(0, rows, 0.3))
    assert np.isnan(law.quantile(0, rows, 0.5)).all()
    assert np.isnan(law.quantile(2, rows, 0.5)).all()


@pytest.mark.parametrize("name", [name for name in LAWS if name != "ordinal"])
@pytest.mark.parametrize("noise", NOISES)
def test_masses_of_parts_add_up_to_one_and_are_those_of_draws(name: str, noise: str) -> None:
    law = LAWS[name]
    found = mixture(law, NOISES[noise])
    values = np.unique(law.warp.value(np.linspace(-4, 4, 400)))
    cuts = (values[1:] + values[:-1]) / 2
    lower, upper = law.warp.support
    # A bound may be an atom itself.
    edges = np.concatenate([[lower - 1], cuts[:: max(cuts.size // 7, 1)], [upper + 1]])
    # In the third row nearly all lies above.
    masses = np.stack(
        [
            np.exp(found.log_mass(0, ROWS, np.full(3, low), np.full(3, high)))
            for low, high in itertools.pairwise(edges)
        ]
    )
    np.testing.assert_allclose(masses.sum(0), 1.0, atol=1e-9)
    rng = np.random.default_rng(1)
    scale = np.exp(found.scales.log_scale[:, 0])[:, None, None, None]
    latent = found.components[..., :1] + scale * rng.normal(size=(2, 3, 40, 500))
    drawn = law.warp.value(latent)
    for (low, high), mass in zip(itertools.pairwise(edges), masses, strict=True):
        share = ((drawn > low) & (drawn <= high)).mean((0, 2, 3))
        np.testing.assert_allclose(share, mass, atol=0.03)


def test_a_mass_far_out_keeps_its_digits() -> None:
    law = Ordered(Affine(shift=0.0, scale=1.0))
    found = predictive((law,), [(0.0,)], np.zeros((1, 2, 1, 1)))
    logs = found.log_mass(0, np.arange(2), np.array([30.0, -31.0]), np.array([31.0, -30.0]))
    np.testing.assert_allclose(logs, log_ndtr(-30.0), rtol=1e-9)
