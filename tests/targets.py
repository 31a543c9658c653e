"""Densities with known answers, for tests of samplers."""

from collections.abc import Callable
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from hhvaem.encoding import Cells
from hhvaem.marginals import Direct
from hhvaem.model import Model, Row
from hhvaem.networks import Dense, Perceptron


class Skewed:
    """x from a Gumbel law and y = x / 2 + v with -v from another: skewed, dependent, known.

    A target that is symmetric would hide errors of sign.
    """

    @staticmethod
    def log_density(position: jax.Array) -> jax.Array:
        x = position[0]
        v = position[1] - 0.5 * x
        return -x - jnp.exp(-x) + v - jnp.exp(v)

    @staticmethod
    def sample(key: jax.Array, count: int) -> jax.Array:
        first, second = jnp.log(jax.random.exponential(key, (2, count)))
        return jnp.stack([-first, second - 0.5 * first], axis=1)

    @staticmethod
    def uniforms(draws: jax.Array) -> np.ndarray:
        """Take draws to two independent uniforms, by the cdf of x and that of v."""
        x, y = np.asarray(draws, np.float64).T
        return np.stack([np.exp(-np.exp(-x)), 1 - np.exp(-np.exp(y - x / 2))], axis=1)


@dataclass(frozen=True)
class LinearGaussian:
    """x = weights @ eps + offset + noise with eps ~ N(0, I): every answer is in closed form.

    `mask` is True where a column is observed.
    """

    weights: np.ndarray
    offset: np.ndarray
    noise_variance: np.ndarray

    @classmethod
    def random(
        cls, seed: int, columns: int, latents: int, noise_variance: float
    ) -> "LinearGaussian":
        generator = np.random.default_rng(seed)
        return cls(
            generator.normal(size=(columns, latents)),
            generator.normal(size=columns),
            np.full(columns, noise_variance),
        )

    def simulate(self, seed: int) -> np.ndarray:
        generator = np.random.default_rng(seed)
        eps = generator.normal(size=self.weights.shape[1])
        noise = generator.normal(size=self.offset.size) * np.sqrt(self.noise_variance)
        return self.weights @ eps + self.offset + noise

    def log_joint(self, eps: jax.Array, x: np.ndarray, mask: np.ndarray) -> jax.Array:
        """log p(eps, x_O), with all constants."""
        weights, offset, variance, values = (
            jnp.asarray(part, eps.dtype)
            for part in (self.weights, self.offset, self.noise_variance, x)
        )
        cells = (values - weights @ eps - offset) ** 2 / variance + jnp.log(2 * np.pi * variance)
        prior = jnp.sum(eps**2) + eps.size * np.log(2 * np.pi).astype(eps.dtype)
        return -0.5 * (jnp.sum(jnp.where(mask, cells, 0.0)) + prior)

    def posterior(self, x: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance of eps given x_O."""
        weights = self.weights[mask] / self.noise_variance[mask, None]
        covariance = np.linalg.inv(self.weights[mask].T @ weights + np.eye(weights.shape[1]))
        return covariance @ weights.T @ (x - self.offset)[mask], covariance

    def log_evidence(self, x: np.ndarray, mask: np.ndarray) -> float:
        """log p(x_O); log p(x_U | x_O) is a difference of two."""
        weights = self.weights[mask]
        covariance = weights @ weights.T + np.diag(self.noise_variance[mask])
        return float(stats.multivariate_normal.logpdf(x[mask], self.offset[mask], covariance))

    def mean_field(self, x: np.ndarray, mask: np.ndarray) -> tuple[jax.Array, jax.Array]:
        """Mean and log scale of the best diagonal Gaussian: what a perfect encoder gives."""
        mean, covariance = self.posterior(x, mask)
        return jnp.array(mean), jnp.array(-0.5 * np.log(np.diag(np.linalg.inv(covariance))))


class LinearModel:
    """A model with two layers and a target, all of it linear, and one row of it.

    Cells and target are weights @ eps + offset + noise, in which weights and offset of the target
    depend on `mask`: the predictor reads observed cells, and what is expected of hidden ones.
    """

    layers, size = (3, 2), 5

    def __init__(self, mask: np.ndarray, target_observed: bool) -> None:
        generator, columns, first = np.random.default_rng(3), mask.size, self.layers[0]
        log_variance = generator.normal(size=first) / 2
        up, up_bias = generator.normal(size=self.layers), generator.normal(size=first)
        down, down_bias = generator.normal(size=(columns, first)), generator.normal(size=columns)
        by_all, constant = generator.normal(size=first + 2 * columns) / 2, 0.7
        by_h, by_x, by_missing = np.split(by_all, [first, first + columns])
        log_noise = generator.uniform(-1.2, -0.2, columns + 1)

        # h_1 = to_h @ eps + up_bias
        to_h = np.concatenate([np.diag(np.exp(log_variance / 2)), up], axis=1)
        through_h = by_h + (by_x * ~mask) @ down
        weights = np.concatenate([down, through_h[None]]) @ to_h
        x = weights @ generator.normal(size=self.size)
        x += np.exp(log_noise) * generator.normal(size=columns + 1)
        x[:-1] += down @ up_bias + down_bias
        known = np.where(mask, x[:-1], down_bias)
        rest = through_h @ up_bias + by_x @ known + by_missing @ ~mask + constant
        x[-1] += rest
        offset = np.append(down @ up_bias + down_bias, rest)
        self.answer = LinearGaussian(weights, offset, np.exp(2 * log_noise))
        self.x, self.mask = x, np.append(mask, target_observed)

        prior = linear(np.concatenate([up, 0 * up]), np.concatenate([up_bias, log_variance]))
        predictor = linear(by_all[None], np.array([constant]))
        x, log_noise = (jnp.asarray(part, jnp.float32) for part in (x, log_noise))
        marginals, targets = Direct((1,) * columns, jnp.zeros(columns)), Direct((1,), jnp.zeros(1))
        self.model = eqx.tree_at(
            lambda m: (
                *(m.hierarchy.priors[0], m.decoder, m.predictor),
                *(m.log_noise, m.target_log_noise),
            ),
            Model.init(marginals, targets, self.layers, hidden=4, key=jax.random.key(0)),
            (prior, linear(down, down_bias), predictor, log_noise[:-1], log_noise[-1:]),
        )
        cells, target = (Cells(part, part, part) for part in (x[:-1], x[-1:]))
        observed = jnp.asarray(self.mask)
        self.seen = self.model.see(Row(cells, observed[:-1], target, observed[-1:]))

    def log_joint(self, position: jax.Array) -> jax.Array:
        with_target = bool(self.mask[-1])
        return self.model.log_joint(position, self.seen, with_target=with_target)

    def posterior(self) -> tuple[np.ndarray, np.ndarray]:
        return self.answer.posterior(self.x, self.mask)

    def evidence(self) -> float:
        return self.answer.log_evidence(self.x, self.mask)

    def with_encoder(self, mean: np.ndarray, scale: np.ndarray) -> Model:
        """The model with an encoder that says this of every row."""
        ends = np.cumsum(self.layers)[:-1]
        laws = zip(np.split(mean, ends), np.split(2 * np.log(scale), ends), strict=True)
        return eqx.tree_at(
            lambda m: m.encoder.heads,
            self.model,
            tuple(
                linear_layer(np.zeros((2 * law[0].size, 4)), np.concatenate(law)) for law in laws
            ),
        )


def linear_layer(weight: np.ndarray, bias: np.ndarray) -> Dense:
    """A layer that computes weight @ x + bias."""
    return Dense(jnp.asarray(weight.T, jnp.float32), jnp.asarray(bias, jnp.float32))


def linear(weight: np.ndarray, bias: np.ndarray) -> Perceptron:
    """A network that computes weight @ x + bias, as relu(z) - relu(-z)."""
    signs = np.concatenate([np.eye(len(bias)), -np.eye(len(bias))])
    layers = (linear_layer(signs @ weight, signs @ bias), linear_layer(signs.T, 0 * bias))
    return Perceptron(layers)


class TinyDecoder:
    """The posterior of three latents under a small fixed network: bent, and without an answer."""

    def __init__(self) -> None:
        generator = np.random.default_rng(5)
        self.first = generator.normal(size=(8, 3))
        self.second = generator.normal(size=(4, 8)) / 2
        eps = generator.normal(size=3)
        self.x = self.second @ np.tanh(self.first @ eps) + 0.5 * generator.normal(size=4)

    def log_density(self, position: jax.Array) -> jax.Array:
        first, second, x = (
            jnp.asarray(part, position.dtype) for part in (self.first, self.second, self.x)
        )
        errors = (x - second @ jnp.tanh(first @ position)) / 0.5
        return -0.5 * (jnp.sum(errors**2) + jnp.sum(position**2))


def gaussian(scales: tuple[float, ...]) -> Callable[[jax.Array], jax.Array]:
    """Independent normals with these standard deviations."""

    def log_density(position: jax.Array) -> jax.Array:
        return -0.5 * jnp.sum((position / jnp.array(scales, position.dtype)) ** 2)

    return log_density


def ball(position: jax.Array) -> jax.Array:
    """A standard normal inside radius 2; NaN outside, in value and gradient."""
    return -0.5 * jnp.sum(position**2) + 0.0 * jnp.sqrt(4.0 - jnp.sum(position**2))
