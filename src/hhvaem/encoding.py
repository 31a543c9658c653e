"""Between a table of values and the cells that the device sees, on the host in float64."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from hhvaem.errors import InputError
from hhvaem.gaussianise import fit_gaussianising
from hhvaem.likelihoods import Binary, Categorical, Likelihood, Ordered
from hhvaem.schema import Column
from hhvaem.warps import EDGE, Affine, Levels, Log, Rounded

TableValues = Float[np.ndarray, "rows columns"]
TableMask = Bool[np.ndarray, "rows columns"]
TableDraws = Float[np.ndarray, "draws rows columns"]


class Cells(NamedTuple):
    """A row, or many, as the device sees it.

    Numbers and ordered levels are the latent interval that shows as the value (`low == high`
    where it has a density) and one number that stands for it; levels without order are their
    index, thrice. Cells that are not observed hold zeros.
    """

    low: Float[Array, "*rows columns"]
    high: Float[Array, "*rows columns"]
    point: Float[Array, "*rows columns"]


@dataclass(frozen=True)
class Encoding:
    """The laws of all columns of a table, and through them the way to cells and back."""

    laws: tuple[Likelihood, ...]

    @property
    def levels(self) -> tuple[int, ...]:
        """How many levels without order each column has; 1 for numbers and ordered levels."""
        return tuple(
            2 if isinstance(law, Binary) else law.levels if isinstance(law, Categorical) else 1
            for law in self.laws
        )

    def encode(self, values: TableValues, mask: TableMask) -> Cells:
        """Warp a table into cells."""
        cells = np.zeros((3, *values.shape), np.float32)
        for j, law in enumerate(self.laws):
            seen = mask[:, j].astype(bool)
            x = values[seen, j]
            if isinstance(law, Ordered):
                cell, far = law.warp.cell(x), law.warp.farthest
                # A value beyond all reason is as far out as can be seen, and so is an interval's
                # nearer end: networks know nothing of what is farther out.
                single = cell.low == cell.high
                low = np.clip(cell.low, np.where(single, -far, -EDGE), far)
                high = np.clip(cell.high, -far, np.where(single, far, EDGE))
                cells[:, seen, j] = low, high, np.clip(law.warp.latent(x), -far, far)
            else:
                cells[:, seen, j] = x
        return Cells(*map(jnp.asarray, cells))

    def encode_intervals(self, low: TableValues, high: TableValues) -> Cells:
        """Warp intervals of values, of which no end is an atom; levels without order are 0."""
        cells = np.zeros((2, *low.shape), np.float32)
        for j, law in enumerate(self.laws):
            if isinstance(law, Ordered):
                cells[:, :, j] = law.warp.cut(low[:, j]), law.warp.cut(high[:, j])
        return Cells(jnp.asarray(cells[0]), jnp.asarray(cells[1]), jnp.asarray(cells.mean(0)))

    def log_measure(self, values: TableValues, mask: TableMask) -> TableValues:
        """Give what takes log probabilities from latent units to the user's; 0 where unseen."""
        total = np.zeros(values.shape)
        for j, law in enumerate(self.laws):
            if isinstance(law, Ordered):
                seen = mask[:, j].astype(bool)
                total[seen, j] = law.warp.cell(values[seen, j]).log_measure
        return total

    def decode(
        self, draws: Float[np.ndarray, "*rows columns"]
    ) -> Float[np.ndarray, "*rows columns"]:
        """Turn latent numbers and levels into values."""
        values = np.asarray(draws, np.float64).copy()
        for j, law in enumerate(self.laws):
            if isinstance(law, Ordered):
                values[..., j] = law.warp.value(values[..., j])
        return values


def gaussianised_encoding(
    columns: Sequence[Column], values: TableValues, mask: TableMask
) -> Encoding:
    """Fit the Gaussianising transform of each number and ordered level.

    Parameters
    ----------
    columns
        The modelled columns of a schema.
    values, mask
        The table, as `hhvaem.table.encode` gives it; every column has an observed cell.

    Examples
    --------
    >>> columns = [Column("income", "positive", lower=0.0)]
    >>> values, mask = np.random.default_rng(0).lognormal(size=(500, 1)), np.ones((500, 1), bool)
    >>> encoding = gaussianised_encoding(columns, values, mask)
    >>> point = np.asarray(encoding.encode(values, mask).point)
    >>> bool(abs(point.mean()) < 0.05), bool(abs(point.std() - 1) < 0.05)
    (True, True)
    """
    laws: list[Likelihood] = []
    for column, x in _observed(columns, values, mask):
        match column.kind:
            case "binary" | "categorical":
                laws.append(_unordered(len(column.levels)))
            case "ordinal":
                laws.append(Ordered(Levels.fit(x, len(column.levels))))
            case _:
                lower, upper, step = column.support
                laws.append(Ordered(fit_gaussianising(x, step=step, lower=lower, upper=upper)))
    return Encoding(tuple(laws))


def standardised_encoding(
    columns: Sequence[Column], values: TableValues, mask: TableMask
) -> Encoding:
    """Standardise each number, positive ones and counts by their logarithm: the paper's scales.

    Parameters
    ----------
    columns
        The modelled columns of a schema. Ordered levels are taken without their order, and
        bounds other than 0 are kept by `hhvaem.fill` only.
    values, mask
        The table, as `hhvaem.table.encode` gives it; every column has an observed cell.
    """
    laws: list[Likelihood] = []
    for column, x in _observed(columns, values, mask):
        match column.kind:
            case "binary" | "categorical" | "ordinal":
                laws.append(_unordered(len(column.levels)))
            case "positive":
                laws.append(Ordered(Log.fit(x)))
            case "count":
                laws.append(Ordered(Rounded(Log.fit(x), 1.0, 0.0, np.inf)))
            case _:
                laws.append(Ordered(Affine.fit(x)))
    return Encoding(tuple(laws))


def _observed(
    columns: Sequence[Column], values: TableValues, mask: TableMask
) -> Iterator[tuple[Column, Float[np.ndarray, " seen"]]]:
    if not columns:
        raise InputError("There is no column to model: all are constant, empty or ignored.")
    for j, column in enumerate(columns):
        x = values[mask[:, j].astype(bool), j]
        if not x.size:
            raise InputError(
                f"Column {column.name!r} has no observed cell in these rows; leave it out or use "
                "rows that have one."
            )
        yield column, x


def _unordered(levels: int) -> Likelihood:
    return Binary() if levels == 2 else Categorical(levels)
