"""Stage 1: a one-dimensional model of every column, all columns at once.

Two kinds of column models share one interface, on one row of cells (`encoding.py`). `Direct`
takes cells as they are: with Gaussianised numbers nothing more is needed. `MarginalVAEs` are the
paper's (equation 3): a small VAE with a one-dimensional latent z for each column. Either gives
the encoder of the whole table its features, and turns the parameters that the decoder of the
whole table emits into the law of each cell.
"""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from hhvaem.encoding import Cells, Encoding, TableMask, TableValues
from hhvaem.likelihoods import categorical_log_prob, ordered_log_prob


class Marginals(eqx.Module):
    """One-dimensional models of all columns of a table; methods take one row."""

    levels: tuple[int, ...] = eqx.field(static=True)

    @property
    @abc.abstractmethod
    def widths(self) -> tuple[int, ...]:
        """How many features each column gives to an encoder, and parameters it takes back."""

    @abc.abstractmethod
    def features(
        self, cells: Cells, *, key: PRNGKeyArray | None = None
    ) -> Float[Array, " features"]:
        """Turn the cells of a row into the input of an encoder (a mean where `key` is None)."""

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
    def expected(self, parameters: Float[Array, " parameters"]) -> Float[Array, " inputs"]:
        """Give what the parameters make one expect of each cell, laid out as `cell_inputs`."""

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


class Direct(Marginals):
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
    def widths(self) -> tuple[int, ...]:
        return input_widths(self.levels)

    @property
    def base(self) -> Float[Array, " parameters"]:
        return self.log_shares

    def features(
        self, cells: Cells, *, key: PRNGKeyArray | None = None
    ) -> Float[Array, " features"]:
        del key  # nothing is drawn
        return cell_inputs(self.levels, cells)

    def log_prob(
        self,
        parameters: Float[Array, " parameters"],
        log_noise: Float[Array, " columns"],
        cells: Cells,
    ) -> Float[Array, " columns"]:
        return cell_log_prob(self.levels, self._rows(parameters), log_noise, cells)

    def reconstruction(
        self,
        parameters: Float[Array, " parameters"],
        log_noise: Float[Array, " columns"],
        cells: Cells,
        features: Float[Array, " features"],
    ) -> Float[Array, " columns"]:
        del features  # the cells themselves are scored
        return self.log_prob(parameters, log_noise, cells)

    def expected(self, parameters: Float[Array, " parameters"]) -> Float[Array, " inputs"]:
        return expected_inputs(self.levels, self._rows(parameters))

    def sample(
        self,
        parameters: Float[Array, " parameters"],
        log_noise: Float[Array, " columns"],
        *,
        key: PRNGKeyArray,
    ) -> Float[Array, " columns"]:
        return cell_sample(self.levels, self._rows(parameters), log_noise, key=key)

    def _rows(self, parameters: Float[Array, " parameters"]) -> Float[Array, "columns most"]:
        """Lay parameters out with a row for each column; what is beyond its width is not read."""
        widths = np.array(self.widths)
        first = np.cumsum(widths) - widths
        return parameters[np.minimum(first[:, None] + np.arange(widths.max()), widths.sum() - 1)]


def input_widths(levels: tuple[int, ...]) -> tuple[int, ...]:
    """Give how many numbers say a cell: one for each level, or a single one."""
    return tuple(1 if count == 2 else count for count in levels)


def cell_inputs(levels: tuple[int, ...], cells: Cells) -> Float[Array, " inputs"]:
    """Say each cell in numbers: its point, its 0 or 1, or the indicators of its levels."""
    column, level = _inputs(levels)
    point = cells.point[column]
    indicator = (point == level.astype(point.dtype)).astype(point.dtype)
    return jnp.where(np.array(levels)[column] > 2, indicator, point)


def expected_inputs(
    levels: tuple[int, ...], outputs: Float[Array, "columns most"]
) -> Float[Array, " inputs"]:
    """Give the expectation of `cell_inputs`: of a number its location, of a level its share."""
    column, level = _inputs(levels)
    count = np.array(levels)
    place = np.arange(outputs.shape[1])
    shares = jax.nn.softmax(jnp.where(place < count[:, None], outputs, -jnp.inf), axis=1)
    single = jnp.where(count == 2, jax.nn.sigmoid(outputs[:, 0]), outputs[:, 0])
    return jnp.where(count[column] > 2, shares[column, level], single[column])


def _inputs(levels: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Give the column and the level of each of `cell_inputs`."""
    widths = input_widths(levels)
    column = np.repeat(np.arange(len(levels)), widths)
    return column, np.concatenate([np.arange(width) for width in widths])


def cell_log_prob(
    levels: tuple[int, ...],
    outputs: Float[Array, "columns most"],
    log_noise: Float[Array, " columns"],
    cells: Cells,
) -> Float[Array, " columns"]:
    """Give the log probability of each cell: of a number by its location, of a level by logits."""
    ordered, unordered = _parts(levels)
    numbers = ordered_log_prob(
        outputs[ordered, 0], log_noise[ordered], cells.low[ordered], cells.high[ordered]
    )
    codes = cells.point[unordered].astype(jnp.int32)
    names = categorical_log_prob(_logits(levels, outputs), codes)
    return jnp.concatenate([numbers, names])[np.argsort(np.concatenate([ordered, unordered]))]


def cell_sample(
    levels: tuple[int, ...],
    outputs: Float[Array, "columns most"],
    log_noise: Float[Array, " columns"],
    *,
    key: PRNGKeyArray,
) -> Float[Array, " columns"]:
    """Draw each cell: a latent number, or a level."""
    ordered, unordered = _parts(levels)
    number_key, name_key = jax.random.split(key)
    noise = jax.random.normal(number_key, (len(ordered),))
    numbers = outputs[ordered, 0] + jnp.exp(log_noise[ordered]) * noise
    names = jax.random.categorical(name_key, _logits(levels, outputs)).astype(numbers.dtype)
    return jnp.concatenate([numbers, names])[np.argsort(np.concatenate([ordered, unordered]))]


def _parts(levels: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Give the columns that are numbers, and those that are levels without order."""
    return np.flatnonzero(np.array(levels) == 1), np.flatnonzero(np.array(levels) > 1)


def _logits(
    levels: tuple[int, ...], outputs: Float[Array, "columns most"]
) -> Float[Array, "unordered most_levels"]:
    """Give the logits of levels, -inf where a column has fewer than the widest one."""
    count = np.array(levels)[_parts(levels)[1]]
    rows = outputs[_parts(levels)[1]]
    rows = jnp.pad(rows, ((0, 0), (0, max(2 - rows.shape[1], 0))))
    place = np.arange(rows.shape[1])
    # One number stands for two levels: the logit of the second against the first.
    pair = jnp.where(place == 1, rows[:, :1], 0.0)
    rows = jnp.where(count[:, None] == 2, pair, rows)
    return jnp.where(place < count[:, None], rows, -jnp.inf)


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
