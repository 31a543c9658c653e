"""Stage 1: a one-dimensional model of every column, all columns at once.

Two kinds of column models share one interface, on one row of cells (`encoding.py`). `Direct`
takes cells as they are: with Gaussianised numbers nothing more is needed. `MarginalVAEs` are the
paper's (equation 3): a small VAE with a one-dimensional latent z for each column. Either gives
the encoder of the whole table its features, and turns the parameters that the decoder of the
whole table emits into the law of each cell.
"""

import abc
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from hhvaem.encoding import Cells, Encoding, TableMask, TableValues
from hhvaem.likelihoods import binary_log_prob, categorical_log_prob, ordered_log_prob


class Outputs(NamedTuple):
    """What a column's law is told by its parameters.

    One number of each column that is a number (its location) or has two levels (the logit of the
    second), and of every other one a logit for each level, in rows as long as the longest needs.
    """

    single: Float[Array, " single"]
    many: Float[Array, "many most"]


class Marginals(eqx.Module):
    """One-dimensional models of all columns of a table; methods take one row."""

    levels: tuple[int, ...] = eqx.field(static=True)

    @property
    @abc.abstractmethod
    def widths(self) -> tuple[int, ...]:
        """How many features each column gives to an encoder, and parameters it takes back."""

    @abc.abstractmethod
    def features(
        self, cells: Cells, noise: Float[Array, " columns"] | None = None
    ) -> Float[Array, " features"]:
        """Turn the cells of a row into the input of an encoder.

        Where features are random, `noise` is standard normal, and None asks for their means.
        """

    @abc.abstractmethod
    def log_prob(
        self,
        parameters: Float[Array, " parameters"],
        log_noise: Float[Array, " columns"],
        cells: Cells,
    ) -> Float[Array, " columns"]:
        """Give the log probability of each cell, in latent units."""

    @abc.abstractmethod
    def reconstruction(
        self,
        parameters: Float[Array, " parameters"],
        log_noise: Float[Array, " columns"],
        cells: Cells,
        features: Float[Array, " features"],
    ) -> Float[Array, " columns"]:
        """Give what the joint model scores: the log probability of cells or of their features."""

    @abc.abstractmethod
    def outputs(self, parameters: Float[Array, " parameters"]) -> Outputs:
        """Give what the law of each cell is told by the parameters."""

    @abc.abstractmethod
    def expected(self, parameters: Float[Array, " parameters"]) -> Float[Array, " inputs"]:
        """Give what the parameters make one expect of each cell, laid out as `cell_inputs`."""

    @abc.abstractmethod
    def components(
        self, parameters: Float[Array, " parameters"], log_noise: Float[Array, " columns"]
    ) -> Float[Array, "components inputs"]:
        """Give laws of which each cell's law is the mixture, in equal parts.

        They are laid out as `cell_inputs`: of a number the location, of a level its share. The
        scale of numbers is `log_scale`.
        """

    @abc.abstractmethod
    def log_scale(self, log_noise: Float[Array, " columns"]) -> Float[Array, " columns"]:
        """Give the log standard deviation of numbers about the locations of `components`."""

    @abc.abstractmethod
    def sample(
        self,
        parameters: Float[Array, " parameters"],
        log_noise: Float[Array, " columns"],
        *,
        key: PRNGKeyArray,
    ) -> Float[Array, " columns"]:
        """Draw each cell, in latent units."""

    @property
    @abc.abstractmethod
    def base(self) -> Float[Array, " parameters"]:
        """The parameters that, with log noise 0, give each column its own distribution."""


class Plain(Marginals):
    """Cells as they are, without a model of their own: one law is enough, and nothing is random."""

    @property
    def widths(self) -> tuple[int, ...]:
        return input_widths(self.levels)

    def features(
        self, cells: Cells, noise: Float[Array, " columns"] | None = None
    ) -> Float[Array, " features"]:
        del noise  # nothing is random
        return cell_inputs(self.levels, cells)

    def reconstruction(
        self,
        parameters: Float[Array, " parameters"],
        log_noise: Float[Array, " columns"],
        cells: Cells,
        features: Float[Array, " features"],
    ) -> Float[Array, " columns"]:
        del features  # the cells themselves are scored
        return self.log_prob(parameters, log_noise, cells)

    def components(
        self, parameters: Float[Array, " parameters"], log_noise: Float[Array, " columns"]
    ) -> Float[Array, "components inputs"]:
        del log_noise  # one law is enough
        return self.expected(parameters)[None]

    def log_scale(self, log_noise: Float[Array, " columns"]) -> Float[Array, " columns"]:
        return log_noise


class Direct(Plain):
    """Cells as they are.

    A number gives one feature and takes one parameter, its location; a binary column gives its 0
    or 1 and takes a logit; a category gives and takes one number for each level.
    """

    log_shares: Float[Array, " parameters"]

    @classmethod
    def fit(cls, encoding: Encoding, values: TableValues, mask: TableMask) -> "Direct":
        """Take the shares of levels from a table."""
        parts = []
        for j, levels in enumerate(encoding.levels):
            if levels == 1:
                parts.append(np.zeros(1))
                continue
            # Half a row is added to each level, so that one that was never drawn stays possible.
            counts = np.bincount(values[mask[:, j], j].astype(int), minlength=levels) + 0.5
            log_shares = np.log(counts / counts.sum())
            parts.append(np.diff(log_shares) if levels == 2 else log_shares)
        return cls(encoding.levels, jnp.asarray(np.concatenate(parts), jnp.float32))

    @property
    def base(self) -> Float[Array, " parameters"]:
        return self.log_shares

    def log_prob(
        self,
        parameters: Float[Array, " parameters"],
        log_noise: Float[Array, " columns"],
        cells: Cells,
    ) -> Float[Array, " columns"]:
        return cell_log_prob(self.levels, self.outputs(parameters), log_noise, cells)

    def expected(self, parameters: Float[Array, " parameters"]) -> Float[Array, " inputs"]:
        return expected_inputs(self.levels, self.outputs(parameters))

    def sample(
        self,
        parameters: Float[Array, " parameters"],
        log_noise: Float[Array, " columns"],
        *,
        key: PRNGKeyArray,
    ) -> Float[Array, " columns"]:
        return cell_sample(self.levels, self.outputs(parameters), log_noise, key=key)

    def outputs(self, parameters: Float[Array, " parameters"]) -> Outputs:
        widths = np.array(self.widths)
        first = np.cumsum(widths) - widths
        single, many = layout(self.levels)
        # What is beyond the width of a column is not read.
        places = first[many, None] + np.arange(widths.max())
        return Outputs(parameters[first[single]], parameters[np.minimum(places, widths.sum() - 1)])


def input_widths(levels: tuple[int, ...]) -> tuple[int, ...]:
    """Give how many numbers say a cell: one for each level, or a single one."""
    return tuple(1 if count == 2 else count for count in levels)


def cell_inputs(levels: tuple[int, ...], cells: Cells) -> Float[Array, " inputs"]:
    """Say each cell in numbers: its point, its 0 or 1, or the indicators of its levels."""
    column, level = _inputs(levels)
    point = cells.point[column]
    indicator = (point == level.astype(point.dtype)).astype(point.dtype)
    return jnp.where(np.array(levels)[column] > 2, indicator, point)


def expected_inputs(levels: tuple[int, ...], outputs: Outputs) -> Float[Array, " inputs"]:
    """Give the expectation of `cell_inputs`: of a number its location, of a level its share."""
    pair = np.array(levels)[layout(levels)[0]] == 2
    single = jnp.where(pair, jax.nn.sigmoid(outputs.single), outputs.single)
    return _as_inputs(levels, Outputs(single, jax.nn.softmax(_logits(levels, outputs), axis=1)))


def log_inputs(levels: tuple[int, ...], outputs: Outputs) -> Float[Array, " inputs"]:
    """Give the location of a number, the log odds of a pair's second level, logs of shares."""
    shares = jax.nn.log_softmax(_logits(levels, outputs), axis=1)
    return _as_inputs(levels, Outputs(outputs.single, shares))


def _as_inputs(levels: tuple[int, ...], outputs: Outputs) -> Float[Array, " inputs"]:
    """Lay numbers of columns and of levels out as `cell_inputs` does."""
    counts = np.array(levels)
    many = layout(levels)[1]
    exists = np.arange(outputs.many.shape[1]) < counts[many, None]
    column = _inputs(levels)[0]
    order = np.argsort(np.argsort(counts[column] > 2, kind="stable"))
    return jnp.concatenate([outputs.single, outputs.many[np.nonzero(exists)]])[order]


def layout(levels: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Give the columns that `Outputs` has in each of its parts."""
    counts = np.array(levels)
    return np.flatnonzero(counts <= 2), np.flatnonzero(counts > 2)


def _inputs(levels: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Give the column and the level of each of `cell_inputs`."""
    widths = input_widths(levels)
    column = np.repeat(np.arange(len(levels)), widths)
    return column, np.concatenate([np.arange(width) for width in widths])


def cell_log_prob(
    levels: tuple[int, ...],
    outputs: Outputs,
    log_noise: Float[Array, " columns"],
    cells: Cells,
) -> Float[Array, " columns"]:
    """Give the log probability of each cell: of a number by its location, of a level by logits."""
    numbers, pairs, many, order = _kinds(levels)
    location, logit = outputs.single[numbers.place], outputs.single[pairs.place]
    low, high, noise = (part[numbers.column] for part in (cells.low, cells.high, log_noise))
    codes = cells.point[many.column].astype(jnp.int32)
    parts = [
        ordered_log_prob(location, noise, low, high),
        binary_log_prob(logit, cells.point[pairs.column]),
        categorical_log_prob(_logits(levels, outputs), codes),
    ]
    return jnp.concatenate(parts)[order]


def cell_sample(
    levels: tuple[int, ...],
    outputs: Outputs,
    log_noise: Float[Array, " columns"],
    *,
    key: PRNGKeyArray,
) -> Float[Array, " columns"]:
    """Draw each cell: a latent number, or a level."""
    numbers, pairs, _, order = _kinds(levels)
    number_key, pair_key, many_key = jax.random.split(key, 3)
    noise = jnp.exp(log_noise[numbers.column]) * jax.random.normal(number_key, numbers.place.shape)
    chance = jax.nn.sigmoid(outputs.single[pairs.place])
    parts = [
        outputs.single[numbers.place] + noise,
        jax.random.bernoulli(pair_key, chance),
        jax.random.categorical(many_key, _logits(levels, outputs)),
    ]
    return jnp.concatenate([part.astype(noise.dtype) for part in parts])[order]


class _Kind(NamedTuple):
    """Columns of one kind, and where `Outputs` has them."""

    column: np.ndarray
    place: np.ndarray


def _kinds(levels: tuple[int, ...]) -> tuple[_Kind, _Kind, _Kind, np.ndarray]:
    """Give numbers, pairs of levels, more levels; and what puts these three in order again."""
    counts = np.array(levels)
    single, many = layout(levels)
    numbers, pairs = np.flatnonzero(counts[single] == 1), np.flatnonzero(counts[single] == 2)
    kinds = (
        _Kind(single[numbers], numbers),
        _Kind(single[pairs], pairs),
        _Kind(many, np.arange(many.size)),
    )
    return *kinds, np.argsort(np.concatenate([kind.column for kind in kinds]))


def _logits(levels: tuple[int, ...], outputs: Outputs) -> Float[Array, "many most"]:
    """Give the logits of levels, -inf where a column has fewer than the widest one."""
    counts = np.array(levels)[layout(levels)[1]]
    exists = np.arange(outputs.many.shape[1]) < counts[:, None]
    return jnp.where(exists, outputs.many, -jnp.inf)


def marginal_log_prob(
    encoding: Encoding, marginals: Marginals, values: TableValues, mask: TableMask
) -> TableValues:
    """Give the log probability of each cell by its column's own model, in the user's units.

    It is a log mass where the value has one (`hhvaem.warps`), else a log density; NaN where the
    cell is not observed.
    """
    log_prob = np.asarray(base_log_prob(marginals, encoding.encode(values, mask)), np.float64)
    return np.where(mask, log_prob + encoding.log_measure(values, mask), np.nan)


@eqx.filter_jit
def base_log_prob(marginals: Marginals, cells: Cells) -> Float[Array, "rows columns"]:
    """Give the log probability of each cell of many rows by its column's own model."""
    noise = jnp.zeros(len(marginals.levels))
    return jax.vmap(lambda row: marginals.log_prob(marginals.base, noise, row))(cells)


@eqx.filter_jit
def base_sample(
    marginals: Marginals, rows: int, *, key: PRNGKeyArray
) -> Float[Array, "rows columns"]:
    """Draw rows in which each column follows its own model, in latent units."""
    noise = jnp.zeros(len(marginals.levels))
    keys = jax.random.split(key, rows)
    return jax.vmap(lambda key: marginals.sample(marginals.base, noise, key=key))(keys)
