"""Figure 1(b): quadrature is the posterior, and measures against it are right."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from targets import LinearGaussian

from hhvaem.model import Gaussian
from hhvaem.paper import illustration, quadrature
from hhvaem.paper.illustration import WINDOW, Posterior

TARGET = LinearGaussian.random(1, columns=3, latents=2, noise_variance=0.4)
X = TARGET.simulate(0)
MASK = np.array([True, False, True])
MEAN, COVARIANCE = TARGET.posterior(X, MASK)


@pytest.fixture(scope="module")
def log_joint() -> np.ndarray:
    points = jnp.array(quadrature.points(WINDOW))
    values = jax.vmap(jax.vmap(lambda eps: TARGET.log_joint(eps, X, MASK)))(points)
    return np.asarray(values)


def draws(mean: np.ndarray, covariance: np.ndarray) -> jax.Array:
    generator = np.random.default_rng(0)
    return jnp.array(generator.multivariate_normal(mean, covariance, illustration.DRAWS))


def test_the_posterior_integrates_to_one(log_joint: np.ndarray) -> None:
    area = (quadrature.SIDE / quadrature.FINE) ** 2
    evidence = np.exp(TARGET.log_evidence(X, MASK))
    assert np.exp(log_joint).sum() * area == pytest.approx(evidence, rel=1e-4)
    mass = quadrature.normalised(log_joint).ravel()
    assert mass.sum() == pytest.approx(1)
    points = quadrature.points(WINDOW).reshape(-1, 2)
    np.testing.assert_allclose(mass @ points, MEAN, atol=1e-4)
    found = np.cov(points.T, aweights=mass, ddof=0)
    np.testing.assert_allclose(found, COVARIANCE, atol=1e-4)


def test_measures_of_a_row_are_their_closed_forms(log_joint: np.ndarray) -> None:
    mean, log_scale = TARGET.mean_field(X, MASK)
    encoder = Gaussian(np.asarray(mean) + 0.3, np.asarray(log_scale))
    diagonal = np.diag(np.exp(2 * encoder.log_scale))
    row = Posterior(log_joint, encoder, draws(encoder.mean, diagonal), draws(MEAN, COVARIANCE))
    found = illustration._figures(row)
    precision, shift = np.linalg.inv(diagonal), encoder.mean - MEAN
    ratio = np.linalg.slogdet(diagonal)[1] - np.linalg.slogdet(COVARIANCE)[1]
    divergence = 0.5 * (np.trace(precision @ COVARIANCE) - 2 + ratio + shift @ precision @ shift)
    assert found["divergence"] == pytest.approx(divergence, rel=1e-3)
    assert found["bend"] == pytest.approx(0, abs=1e-3)
    assert found["chains"] == pytest.approx(found["exact"], rel=0.2)
    assert found["encoder"] > 2 * found["exact"]


def test_two_modes_are_not_gaussian() -> None:
    def halves(position: jax.Array) -> jax.Array:
        away = jnp.array([2.5, 0.0])
        left, right = (-0.5 * jnp.sum((position - side * away) ** 2) / 0.25 for side in (-1, 1))
        return jnp.logaddexp(left, right)

    log_joint = jax.vmap(jax.vmap(halves))(jnp.array(quadrature.points(WINDOW)))
    encoder = Gaussian(np.zeros(2), np.zeros(2))
    nothing = draws(np.zeros(2), np.eye(2))
    found = illustration._figures(Posterior(log_joint, encoder, nothing, nothing))
    # Two halves far apart have log 2 more entropy than one; along x1 the variance is 0.25 + 2.5^2.
    assert found["bend"] == pytest.approx(0.5 * np.log(6.5 / 0.25) - np.log(2), abs=1e-3)


def test_two_observed_cells_of_each_row_are_shown() -> None:
    mask = np.random.default_rng(1).random((40, 6)) < 0.7
    mask[0] = [True, False, False, False, False, False]
    shown = illustration.few_cells(mask)
    assert not (shown & ~mask).any()
    np.testing.assert_array_equal(shown.sum(1), np.minimum(mask.sum(1), 2))
    assert shown.any(0).all()
