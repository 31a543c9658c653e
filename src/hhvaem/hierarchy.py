"""The ladder of latents: h_L = eps_L, h_l = mu_l(h_{l+1}) + sigma_l(h_{l+1}) * eps_l.

Every eps_l is standard normal a priori, whatever the layers above say: that is the
reparameterisation that lets one sampler with one set of step sizes run over all layers at once
(section 3.2 of the paper). A position of the sampler is the concatenation [eps_1, ..., eps_L],
layer 1 being the one next to the data.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from hhvaem.likelihoods import normal_log_prob
from hhvaem.networks import Perceptron


class Hierarchy(eqx.Module):
    """The prior networks of the latent layers.

    With `reparameterised=False` a position holds the h_l themselves, whose prior depends on the
    layer above: the autoregressive variant that the paper compares with, there for the ablation
    only.
    """

    layers: tuple[int, ...] = eqx.field(static=True)
    reparameterised: bool = eqx.field(static=True)
    priors: tuple[Perceptron, ...]

    @classmethod
    def init(
        cls,
        layers: tuple[int, ...],
        hidden: int,
        *,
        reparameterised: bool = True,
        key: PRNGKeyArray,
    ) -> "Hierarchy":
        """Make the networks that give each layer from the one above."""
        keys = jax.random.split(key, len(layers))
        priors = tuple(
            Perceptron.init((above, hidden, 2 * below), key=k)
            for below, above, k in zip(layers[:-1], layers[1:], keys, strict=False)
        )
        return cls(layers, reparameterised, priors)

    @property
    def size(self) -> int:
        """The length of a position."""
        return sum(self.layers)

    @property
    def layer_of(self) -> np.ndarray:
        """The layer, from 0, of each number in a position."""
        return np.repeat(np.arange(len(self.layers)), self.layers)

    def bottom(self, position: Float[Array, " size"]) -> Float[Array, " first"]:
        """Give h_1, which the decoder and the predictor read."""
        parts = self.split(position)
        if not self.reparameterised:
            return parts[0]
        h = parts[-1]
        for prior, eps in zip(reversed(self.priors), reversed(parts[:-1]), strict=True):
            mean, log_scale = _gaussian(prior, h)
            h = mean + jnp.exp(log_scale) * eps
        return h

    def log_prior(self, position: Float[Array, " size"]) -> Float[Array, " layers"]:
        """Give the log density of each layer of a position before anything is observed."""
        parts = self.split(position)
        laws = [(jnp.zeros_like(part), jnp.zeros_like(part)) for part in parts]
        if not self.reparameterised:
            laws[:-1] = [
                _gaussian(prior, above) for prior, above in zip(self.priors, parts[1:], strict=True)
            ]
        return jnp.stack(
            [normal_log_prob(*law, part).sum() for law, part in zip(laws, parts, strict=True)]
        )

    def split(self, position: Float[Array, " size"]) -> list[Float[Array, " _"]]:
        """Part a position into its layers."""
        return jnp.split(position, np.cumsum(self.layers)[:-1].tolist())


def _gaussian(
    network: Perceptron, h: Float[Array, " above"]
) -> tuple[Float[Array, " below"], Float[Array, " below"]]:
    mean, log_variance = jnp.split(network(h), 2)
    return mean, 0.5 * log_variance
