"""Networks on one example."""

from collections.abc import Sequence

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray


class Dense(eqx.Module):
    """A linear map with an offset.

    Inputs come first in `weight`: mapped over rows, that is one product of matrices, where
    `weight @ x` would be one and two transpositions.
    """

    weight: Float[Array, "inputs outputs"]
    bias: Float[Array, " outputs"]

    @classmethod
    def init(cls, inputs: int, outputs: int, *, key: PRNGKeyArray) -> "Dense":
        """Draw weights and offsets from a uniform law up to 1 / sqrt(inputs)."""
        most = inputs**-0.5
        both = jax.random.uniform(key, (inputs + 1, outputs), minval=-most, maxval=most)
        return cls(both[:-1], both[-1])

    def __call__(self, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        return x @ self.weight + self.bias


class Perceptron(eqx.Module):
    """Linear maps with rectifiers between them, and perhaps a linear map beside them all."""

    layers: tuple[Dense, ...]
    shortcut: Dense | None = None

    @classmethod
    def init(
        cls, sizes: Sequence[int], *, shortcut: bool = False, key: PRNGKeyArray
    ) -> "Perceptron":
        """Make an untrained network from the sizes of its input, hidden layers and output."""
        keys = jax.random.split(key, len(sizes) - 1)
        shapes = zip(sizes[:-1], sizes[1:], keys, strict=True)
        layers = tuple(Dense.init(n, m, key=k) for n, m, k in shapes)
        if not shortcut:
            return cls(layers)
        return cls(layers, Dense.init(sizes[0], sizes[-1], key=jax.random.fold_in(key, 1)))

    def __call__(self, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        y = x
        for layer in self.layers[:-1]:
            y = jax.nn.relu(layer(y))
        y = self.layers[-1](y)
        return y if self.shortcut is None else y + self.shortcut(x)
