"""The pixels of images as columns of a table: numbers from 0 to 1, without models of their own.

`Pixels` are black or white: 1 with the probability that the decoder says. Where they are grey,
their cross-entropy takes the place of a log probability, as it does in the paper. It says little: a
pixel of 0.5 counts for no more than half a coin, so that small images leave the latents unused.
`Greys` are normal about what the decoder says instead, each with a noise that is learned.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from hhvaem.encoding import Cells
from hhvaem.likelihoods import normal_log_prob
from hhvaem.marginals import Outputs, Plain
from hhvaem.model import Row

# The spread of a pixel that hardly ever changes: some steps of eight bits.
LEAST_SPREAD = 0.02


class Pixels(Plain):
    """Pixels as they are: each gives its value and takes the log odds that it is 1."""

    log_odds: Float[Array, " pixels"]

    @classmethod
    def fit(
        cls, values: Float[np.ndarray, "images pixels"], mask: Bool[np.ndarray, "images pixels"]
    ) -> "Pixels":
        """Take the mean of each pixel from the images in which it is observed."""
        # Half an image is added to either side, so that a pixel that never changes still may.
        ones = np.sum(values, 0, where=mask, dtype=np.float64) + 0.5
        zeros = mask.sum(0) + 1.0 - ones
        log_odds = np.log(ones / zeros).astype(np.float32)
        return cls((1,) * values.shape[1], jnp.asarray(log_odds))

    @property
    def base(self) -> Float[Array, " parameters"]:
        return self.log_odds

    def log_prob(
        self,
        parameters: Float[Array, " parameters"],
        log_noise: Float[Array, " columns"],
        cells: Cells,
    ) -> Float[Array, " columns"]:
        del log_noise  # levels have none
        return cells.point * parameters - jax.nn.softplus(parameters)

    def outputs(self, parameters: Float[Array, " parameters"]) -> Outputs:
        return Outputs(parameters, jnp.zeros((0, 1)))

    def expected(self, parameters: Float[Array, " parameters"]) -> Float[Array, " inputs"]:
        return jax.nn.sigmoid(parameters)

    def sample(
        self,
        parameters: Float[Array, " parameters"],
        log_noise: Float[Array, " columns"],
        *,
        key: PRNGKeyArray,
    ) -> Float[Array, " columns"]:
        del log_noise
        return jax.random.bernoulli(key, self.expected(parameters)).astype(parameters.dtype)


class Greys(Plain):
    """Grey values, normal in units of each pixel's own spread about its own mean."""

    mean: Float[Array, " pixels"]
    log_spread: Float[Array, " pixels"]

    @classmethod
    def fit(
        cls, values: Float[np.ndarray, "images pixels"], mask: Bool[np.ndarray, "images pixels"]
    ) -> "Greys":
        """Take mean and spread of each pixel from the images in which it is observed."""
        mean = np.mean(values, 0, where=mask)
        spread = np.sqrt(np.mean((values - mean) ** 2, 0, where=mask))
        log_spread = np.log(np.maximum(spread, LEAST_SPREAD))
        return cls(
            (1,) * values.shape[1], *(jnp.asarray(x.astype(np.float32)) for x in (mean, log_spread))
        )

    @property
    def base(self) -> Float[Array, " parameters"]:
        return jnp.zeros_like(self.mean)

    def log_prob(
        self,
        parameters: Float[Array, " parameters"],
        log_noise: Float[Array, " columns"],
        cells: Cells,
    ) -> Float[Array, " columns"]:
        return normal_log_prob(self.expected(parameters), self.log_scale(log_noise), cells.point)

    def outputs(self, parameters: Float[Array, " parameters"]) -> Outputs:
        return Outputs(self.expected(parameters), jnp.zeros((0, 1)))

    def expected(self, parameters: Float[Array, " parameters"]) -> Float[Array, " inputs"]:
        return self.mean + jnp.exp(self.log_spread) * parameters

    def log_scale(self, log_noise: Float[Array, " columns"]) -> Float[Array, " columns"]:
        return self.log_spread + log_noise

    def sample(
        self,
        parameters: Float[Array, " parameters"],
        log_noise: Float[Array, " columns"],
        *,
        key: PRNGKeyArray,
    ) -> Float[Array, " columns"]:
        noise = jnp.exp(self.log_scale(log_noise)) * jax.random.normal(key, parameters.shape)
        return self.expected(parameters) + noise


def image_rows(
    values: Float[np.ndarray, "images pixels"], mask: Bool[np.ndarray, "images pixels"]
) -> Row:
    """Give images without targets as rows of a table."""
    point = jnp.asarray(np.where(mask, values, 0.0).astype(np.float32))
    none = jnp.asarray(np.zeros((len(values), 0), np.float32))
    return Row(
        Cells(point, point, point), jnp.asarray(mask), Cells(none, none, none), none.astype(bool)
    )
