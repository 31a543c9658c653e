"""The paper's column models: one small VAE for each column, trained in one compiled program."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray
from scipy.special import ndtri

from hhvaem.compiling import apart, many_steps, padded_length, program, side_by_side, together
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
from hhvaem.networks import Perceptron

WIDTH = 32
LOG_NOISE = 0.5 * math.log(0.1)
LEVEL_KL = 0.2
LEARNING_RATE, WEIGHT_DECAY = 1e-3, 0.01
# Steps in one compiled scan: often enough for a progress bar, seldom enough to cost nothing.
CHUNK = 50
# Nodes and reach, in standard deviations, of the integral over z.
NODES, REACH = 129, 5.0
# Values of a standard normal number that stand for it in equal parts, with its variance.
_MIDDLES = ndtri((np.arange(8) + 0.5) / 8)
PARTS = (_MIDDLES / _MIDDLES.std()).astype(np.float32)


class MarginalVAEs(Marginals):
    """A VAE with a one-dimensional latent z for each column; widths and noise are the paper's.

    A column gives a draw of its z as its feature, and takes the location of its z; the law of a
    cell is the integral of p(x | z) over the normal z.
    """

    encoders: Perceptron
    decoders: Perceptron

    @classmethod
    def init(cls, levels: tuple[int, ...], *, key: PRNGKeyArray) -> "MarginalVAEs":
        """Make untrained VAEs, padded to the column with most levels."""
        inputs = np.array(input_widths(levels)) + 1
        most = int(inputs.max())

        def networks(key: PRNGKeyArray) -> tuple[Perceptron, Perceptron]:
            up, down = jax.random.split(key)
            return (
                Perceptron.init((most, WIDTH, 2), key=up),
                Perceptron.init((1, WIDTH, most - 1), key=down),
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
        return cell_log_prob(self.levels, self.outputs(z), jnp.full_like(z, LOG_NOISE), cells)

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
        return expected_inputs(self.levels, self.outputs(parameters))

    def components(
        self, parameters: Float[Array, " parameters"], log_noise: Float[Array, " columns"]
    ) -> Float[Array, "components inputs"]:
        return jax.vmap(lambda part: self.expected(parameters + jnp.exp(log_noise) * part))(
            jnp.asarray(PARTS)
        )

    def log_scale(self, log_noise: Float[Array, " columns"]) -> Float[Array, " columns"]:
        return jnp.full_like(log_noise, LOG_NOISE)

    def sample(
        self,
        parameters: Float[Array, " parameters"],
        log_noise: Float[Array, " columns"],
        *,
        key: PRNGKeyArray,
    ) -> Float[Array, " columns"]:
        z_key, x_key = jax.random.split(key)
        z = parameters + jnp.exp(log_noise) * jax.random.normal(z_key, parameters.shape)
        return cell_sample(self.levels, self.outputs(z), jnp.full_like(z, LOG_NOISE), key=x_key)

    def outputs(self, parameters: Float[Array, " parameters"]) -> Outputs:
        hidden, out = self.decoders.layers
        single, many = layout(self.levels)
        units = jax.nn.relu(hidden.weight[:, 0] * parameters[:, None] + hidden.bias)
        # One number of a column is a sum of products: quicker than a tiny matrix each.
        return Outputs(
            (out.weight[single, :, 0] * units[single]).sum(1) + out.bias[single, 0],
            jnp.einsum("cul,cu->cl", out.weight[many], units[many]) + out.bias[many],
        )


class _State(NamedTuple):
    networks: MarginalVAEs
    moments: Any  # as in `steps.State`
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
    networks, losses = train_many_marginal_vaes(
        [(encoding, values, mask)],
        keys=key[None],
        steps=steps,
        batch_size=batch_size,
        progress=progress,
    )
    arrays, rest = eqx.partition(networks, eqx.is_array)
    return eqx.combine(jax.tree.map(lambda leaf: leaf[0], arrays), rest), losses[0]


def train_many_marginal_vaes(
    tables: Sequence[tuple[Encoding, TableValues, TableMask]],
    *,
    keys: Key[Array, " tables"],
    steps: int = 1000,
    batch_size: int = 100,
    progress: Callable[[int, float], None] | None = None,
) -> tuple[MarginalVAEs, Float[np.ndarray, "tables steps"]]:
    """Train the marginal VAEs of several tables of the same columns in one program.

    As `train_marginal_vaes`, with an encoding, values and mask of each table, such as the
    training folds of one. The VAEs have a leading axis of tables on every array.
    """
    if steps < 1 or batch_size < 1:
        raise InputError("Training takes at least one step and one cell per step.")
    for _, _, mask in tables:
        if not mask.any(0).all():
            raise InputError(
                f"Column {int(np.flatnonzero(~mask.any(0))[0])} has no observed cell to train on."
            )
    length = padded_length(max(len(mask) for _, _, mask in tables))
    # Stacked by NumPy, as nothing is then compiled for another number or length of tables.
    parts = (_data(*table, length) for table in tables)
    cells, counts = jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *parts)
    data = _Data(Cells(*cells), counts)
    state = _init(tables[0][0].levels, keys)
    losses: list[Float[np.ndarray, "tables chunk"]] = []
    shown = apart(data)
    for done in range(0, steps, CHUNK):
        size = min(CHUNK, steps - done)
        run = partial(_train, batch_size=batch_size, length=jnp.array(size))
        state, chunk = together(side_by_side(run, apart(state), shown, compiled=done > 0))
        losses.append(np.asarray(chunk)[:, :size])
        if not np.isfinite(losses[-1]).all():
            raise InputError(
                f"Training the column models failed: the loss was not finite after {done} steps."
            )
        if progress is not None:
            progress(done + size, float(losses[-1][:, -1].mean()))
    return state.networks, np.concatenate(losses, axis=1)


@program
def _init(levels: tuple[int, ...], keys: Key[Array, " tables"]) -> _State:
    def one(key: PRNGKeyArray) -> _State:
        start, key = jax.random.split(key)
        networks = MarginalVAEs.init(levels, key=start)
        return _State(networks, _optimiser().init(eqx.filter(networks, eqx.is_array)), key)

    return eqx.filter_vmap(one)(keys)


def _data(
    encoding: Encoding, values: TableValues, mask: TableMask, length: int
) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """Give what `_Data` of one table has, still on the host."""
    order = np.argsort(~mask, axis=0, kind="stable")

    def columns(part: Array) -> np.ndarray:
        ordered = np.take_along_axis(np.asarray(part), order, 0).T
        return np.pad(ordered, ((0, 0), (0, length - len(mask))))

    return tuple(map(columns, encoding.encode(values, mask))), mask.sum(0).astype(np.int32)


@program
def _train(
    states: _State, data: _Data, batch_size: int, length: Int[Array, ""]
) -> tuple[_State, Float[Array, "tables chunk"]]:
    def one(state: _State, data: _Data) -> tuple[_State, Float[Array, ""]]:
        key, row_key, noise_key = jax.random.split(state.key, 3)
        uniform = jax.random.uniform(row_key, (len(data.counts), batch_size))
        rows = (uniform * data.counts[:, None].astype(uniform.dtype)).astype(jnp.int32)
        batch = jax.tree.map(lambda a: jnp.take_along_axis(a, rows, 1).T, data.cells)
        noise = jax.random.normal(noise_key, (batch_size, len(data.counts)))

        @eqx.filter_value_and_grad
        def loss(networks: MarginalVAEs) -> Float[Array, ""]:
            # Averaged over cells and summed over columns: columns do not touch each other.
            return -jax.vmap(partial(_elbo, networks))(batch, noise).mean(0).sum()

        value, gradient = loss(state.networks)
        weights = eqx.filter(state.networks, eqx.is_array)
        # Optax raises a float to an integer step count: not for strict promotion.
        with jax.numpy_dtype_promotion("standard"):
            updates, moments = _optimiser().update(gradient, state.moments, weights)
        networks = eqx.apply_updates(state.networks, updates)
        return _State(networks, moments, key), value / len(data.counts)

    nothing = jnp.full((len(data.counts), CHUNK), jnp.nan)
    return many_steps(lambda s, d, lift: lift(one)(s, d), states, data, length, nothing)


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
