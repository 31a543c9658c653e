"""The paper's column models: one small VAE for each column, trained in one compiled program."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from hhvaem.compiling import program
from hhvaem.encoding import Cells, Encoding, TableMask, TableValues
from hhvaem.errors import InputError
from hhvaem.likelihoods import normal_log_prob
from hhvaem.marginals import (
    Marginals,
    Outputs,
    cell_log_prob,
    cell_sample,
    expected_inputs,
    input_widths,
    layout,
)

WIDTH = 32
LOG_NOISE = 0.5 * math.log(0.1)
LEVEL_KL = 0.2
LEARNING_RATE, WEIGHT_DECAY = 1e-3, 0.01
# Steps in one compiled scan: often enough for a progress bar, seldom enough to cost nothing.
CHUNK = 50
# Nodes and reach, in standard deviations, of the integral over z.
NODES, REACH = 129, 5.0


class MarginalVAEs(Marginals):
    """A VAE with a one-dimensional latent z for each column; widths and noise are the paper's.

    A column gives a draw of its z as its feature, and takes the location of its z; the law of a
    cell is the integral of p(x | z) over the normal z.
    """

    encoders: eqx.nn.MLP
    decoders: eqx.nn.MLP

    @classmethod
    def init(cls, levels: tuple[int, ...], *, key: PRNGKeyArray) -> "MarginalVAEs":
        """Make untrained VAEs, padded to the column with most levels."""
        inputs = np.array(input_widths(levels)) + 1
        most = int(inputs.max())

        def networks(key: PRNGKeyArray) -> tuple[eqx.nn.MLP, eqx.nn.MLP]:
            up, down = jax.random.split(key)
            return (
                eqx.nn.MLP(most, 2, WIDTH, 1, jax.nn.relu, key=up),
                eqx.nn.MLP(1, most - 1, WIDTH, 1, jax.nn.relu, key=down),
            )

        encoders, decoders = eqx.filter_vmap(networks)(jax.random.split(key, len(levels)))
        # Inputs that are padding do not count in the spread of a first layer's weights.
        gain = np.sqrt(most / inputs).astype(np.float32)
        encoders = eqx.tree_at(
            lambda e: (e.layers[0].weight, e.layers[0].bias),
            encoders,
            replace_fn=lambda w: w * gain.reshape(-1, *[1] * (w.ndim - 1)),
        )
        return cls(levels, encoders, decoders)

    @property
    def widths(self) -> tuple[int, ...]:
        return (1,) * len(self.levels)

    @property
    def base(self) -> Float[Array, " parameters"]:
        return jnp.zeros(len(self.levels))

    def posterior(self, cells: Cells) -> tuple[Float[Array, " columns"], Float[Array, " columns"]]:
        """Give the mean and the log standard deviation of each z given its cell."""
        most = max(input_widths(self.levels))
        value = jnp.pad(cells.point[:, None], ((0, 0), (0, most - 1)))
        level = jax.nn.one_hot(cells.point.astype(jnp.int32), most, dtype=value.dtype)
        inputs = jnp.where(np.array(self.levels)[:, None] > 2, level, value)
        observed = jnp.ones((len(self.levels), 1), inputs.dtype)
        inputs = jnp.concatenate([inputs, observed], axis=1)
        out = eqx.filter_vmap(lambda network, x: network(x))(self.encoders, inputs)
        return out[:, 0], 0.5 * out[:, 1]

    def features(
        self, cells: Cells, noise: Float[Array, " columns"] | None = None
    ) -> Float[Array, " features"]:
        mean, log_scale = self.posterior(cells)
        return mean if noise is None else mean + jnp.exp(log_scale) * noise

    def log_prob_given_z(
        self, z: Float[Array, " columns"], cells: Cells
    ) -> Float[Array, " columns"]:
        """Give the log probability of each cell given its z."""
        return cell_log_prob(self.levels, self._decode(z), jnp.full_like(z, LOG_NOISE), cells)

    def log_prob(
        self,
        parameters: Float[Array, " parameters"],
        log_noise: Float[Array, " columns"],
        cells: Cells,
    ) -> Float[Array, " columns"]:
        nodes = jnp.linspace(-REACH, REACH, NODES)
        log_weights = jax.nn.log_softmax(-0.5 * nodes**2)

        def at(node: Float[Array, ""]) -> Float[Array, " columns"]:
            return self.log_prob_given_z(parameters + jnp.exp(log_noise) * node, cells)

        return jax.nn.logsumexp(jax.vmap(at)(nodes) + log_weights[:, None], axis=0)

    def reconstruction(
        self,
        parameters: Float[Array, " parameters"],
        log_noise: Float[Array, " columns"],
        cells: Cells,
        features: Float[Array, " features"],
    ) -> Float[Array, " columns"]:
        del cells  # the z that was drawn from them is scored
        return normal_log_prob(parameters, log_noise, features)

    def expected(self, parameters: Float[Array, " parameters"]) -> Float[Array, " inputs"]:
        return expected_inputs(self.levels, self._decode(parameters))

    def sample(
        self,
        parameters: Float[Array, " parameters"],
        log_noise: Float[Array, " columns"],
        *,
        key: PRNGKeyArray,
    ) -> Float[Array, " columns"]:
        z_key, x_key = jax.random.split(key)
        z = parameters + jnp.exp(log_noise) * jax.random.normal(z_key, parameters.shape)
        return cell_sample(self.levels, self._decode(z), jnp.full_like(z, LOG_NOISE), key=x_key)

    def _decode(self, z: Float[Array, " columns"]) -> Outputs:
        layers: Any = self.decoders.layers  # whose biases are there
        hidden, out = layers
        single, many = layout(self.levels)
        units = jax.nn.relu(hidden.weight[:, :, 0] * z[:, None] + hidden.bias)
        return Outputs(
            (out.weight[single, 0] * units[single]).sum(1) + out.bias[single, 0],
            jnp.einsum("clu,cu->cl", out.weight[many], units[many]) + out.bias[many],
        )


class _State(NamedTuple):
    networks: MarginalVAEs
    moments: optax.OptState
    key: PRNGKeyArray


class _Data(NamedTuple):
    """The observed cells of each column, first come first; a batch is drawn per column."""

    cells: Cells
    counts: Int[Array, " columns"]


def train_marginal_vaes(
    encoding: Encoding,
    values: TableValues,
    mask: TableMask,
    *,
    key: PRNGKeyArray,
    steps: int = 1000,
    batch_size: int = 100,
    progress: Callable[[int, float], None] | None = None,
) -> tuple[MarginalVAEs, Float[np.ndarray, " steps"]]:
    """Train the marginal VAEs of all columns at once.

    Each column draws its batches from its own observed cells, so that a missing cell does not
    count and a column with few cells trains as long as the others.

    Parameters
    ----------
    encoding
        The laws of the columns (`hhvaem.encoding.standardised_encoding` for the paper's).
    values, mask
        The table, as `hhvaem.table.encode` gives it; every column has an observed cell.
    key
        Where all randomness comes from.
    steps, batch_size
        Optimiser steps, and cells per column and step.
    progress
        Called now and then with the number of steps done and the latest loss.

    Returns
    -------
    marginals, losses
        The trained VAEs, and the loss of each step, averaged over columns.
    """
    if steps < 1 or batch_size < 1:
        raise InputError("Training takes at least one step and one cell per step.")
    if not mask.any(0).all():
        raise InputError(
            f"Column {int(np.flatnonzero(~mask.any(0))[0])} has no observed cell to train on."
        )
    start, key = jax.random.split(key)
    order = np.argsort(~mask, axis=0, kind="stable")
    cells = jax.tree.map(
        lambda a: jnp.take_along_axis(a, order, 0).T, encoding.encode(values, mask)
    )
    data = _Data(cells, jnp.asarray(mask.sum(0), jnp.int32))
    networks = MarginalVAEs.init(encoding.levels, key=start)
    state = _State(networks, _optimiser().init(eqx.filter(networks, eqx.is_array)), key)
    losses: list[Float[np.ndarray, " chunk"]] = []
    for done in range(0, steps, CHUNK):
        length = min(CHUNK, steps - done)
        state, chunk = _train(state, data, batch_size, length)
        losses.append(np.asarray(chunk))
        if not np.isfinite(losses[-1]).all():
            raise InputError(
                f"Training the column models failed: the loss was not finite after {done} steps."
            )
        if progress is not None:
            progress(done + length, float(losses[-1][-1]))
    return state.networks, np.concatenate(losses)


@program
def _train(
    state: _State, data: _Data, batch_size: int, length: int
) -> tuple[_State, Float[Array, " length"]]:
    dynamic, static = eqx.partition(state, eqx.is_array)

    def step(dynamic: _State, _: None) -> tuple[_State, Float[Array, ""]]:
        networks, moments, key = eqx.combine(dynamic, static)
        key, row_key, noise_key = jax.random.split(key, 3)
        uniform = jax.random.uniform(row_key, (len(data.counts), batch_size))
        rows = (uniform * data.counts[:, None].astype(uniform.dtype)).astype(jnp.int32)
        batch = jax.tree.map(lambda a: jnp.take_along_axis(a, rows, 1).T, data.cells)
        noise = jax.random.normal(noise_key, (batch_size, len(data.counts)))

        @eqx.filter_value_and_grad
        def loss(networks: MarginalVAEs) -> Float[Array, ""]:
            # Averaged over cells and summed over columns: columns do not touch each other.
            return -jax.vmap(lambda row, e: _elbo(networks, row, e))(batch, noise).mean(0).sum()

        value, gradient = loss(networks)
        weights = eqx.filter(networks, eqx.is_array)
        # Optax raises a float to an integer step count: not for strict promotion.
        with jax.numpy_dtype_promotion("standard"):
            updates, moments = _optimiser().update(gradient, moments, weights)
        state = _State(eqx.apply_updates(networks, updates), moments, key)
        return eqx.filter(state, eqx.is_array), value / len(data.counts)

    dynamic, losses = jax.lax.scan(step, dynamic, length=length)
    return eqx.combine(dynamic, static), losses


def _elbo(
    networks: MarginalVAEs, cells: Cells, noise: Float[Array, " columns"]
) -> Float[Array, " columns"]:
    mean, log_scale = networks.posterior(cells)
    z = mean + jnp.exp(log_scale) * noise
    divergence = 0.5 * (mean**2 + jnp.exp(2 * log_scale) - 1) - log_scale
    weight = np.where(np.array(networks.levels) > 1, LEVEL_KL, 1.0).astype(np.float32)
    return networks.log_prob_given_z(z, cells) - weight * divergence


def _optimiser() -> optax.GradientTransformation:
    # Weight decay goes into the gradient, as in the published code, not beside it as in AdamW.
    return optax.chain(optax.add_decayed_weights(WEIGHT_DECAY), optax.adam(LEARNING_RATE))
