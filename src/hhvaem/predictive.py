"""What draws of the latents say of cells, in the user's units, on the host in float64.

The law of a cell is a mixture: of a number, of normal latent numbers seen through the column's
warp; of a level, of its shares. Quantiles commute with a warp and means do not, so means go
through it component by component.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int
from scipy.special import log_ndtr, logsumexp, ndtr, ndtri

from hhvaem.encoding import Encoding
from hhvaem.likelihoods import Likelihood, Ordered
from hhvaem.marginals import input_widths
from hhvaem.warps import EDGE, Levels, Warp

# Locations for which means are tabulated, and how fine: as the noise is, but not below this.
REACH, FINEST = 12.0, 0.005
# Halvings of the bracket of a quantile: to the last digit that float32 draws have.
HALVINGS = 40

Values = Float[np.ndarray, "*n"]


@dataclass(frozen=True)
class Scales:
    """The columns' laws, and the noise that each of several models has learned of them.

    Parameters
    ----------
    encoding
        The laws of the columns.
    log_scale
        The log standard deviation of numbers about the locations of components.
    """

    encoding: Encoding
    log_scale: Float[np.ndarray, "models columns"]
    _tables: dict[int, Float[np.ndarray, "models locations"]] = field(
        default_factory=dict, repr=False, compare=False
    )

    @cached_property
    def places(self) -> Int[np.ndarray, " columns"]:
        """Where the numbers of each column begin in a component."""
        widths = np.array(input_widths(self.encoding.levels))
        return np.cumsum(widths) - widths

    def mean_table(self, column: int) -> Float[np.ndarray, "models locations"]:
        """Give the mean value of a column for each location, by each model.

        Noise belongs to a column and not to a row: a mean is a function of one number, and
        tabulated once.
        """
        if column not in self._tables:
            law = self.encoding.laws[column]
            assert isinstance(law, Ordered)
            scales = np.exp(self.log_scale[:, column])
            grid = self.locations(column)
            self._tables[column] = np.stack(
                [_mean(law.warp, grid, np.full(grid.shape, scale)) for scale in scales]
            )
        return self._tables[column]

    def locations(self, column: int) -> Float[np.ndarray, " locations"]:
        """Give the locations of `mean_table`."""
        finest = max(float(np.exp(self.log_scale[:, column].min())) / 2, FINEST)
        return np.linspace(-REACH, REACH, 2 * int(np.ceil(REACH / min(finest, 0.05))) + 1)


@dataclass(frozen=True)
class Predictive:
    """The laws of all cells of some rows.

    Parameters
    ----------
    scales
        The laws of the columns.
    components
        What `posterior.laws` gave: of a number its location, of a level its share.
    """

    scales: Scales
    components: Float[np.ndarray, "models rows components inputs"]

    def filled(self, column: int, rows: Int[np.ndarray, " rows"]) -> Values:
        """Give what a hole is filled with: the mean of a number, the most probable level."""
        law = self.scales.encoding.laws[column]
        if has_levels(law):
            return self.shares(column, rows).argmax(-1).astype(float)
        return self.mean(column, rows)

    def mean(self, column: int, rows: Int[np.ndarray, " rows"]) -> Values:
        """Give the mean of a number."""
        location = self._locations(column, rows)
        grid, tables = self.scales.locations(column), self.scales.mean_table(column)
        parts = np.stack(
            [np.interp(part, grid, table) for part, table in zip(location, tables, strict=True)]
        )
        # Beyond the table, where hardly any component ever is.
        for model, row, component in np.argwhere(np.abs(location) > grid[-1]):
            at = location[model, row, component][None]
            scale = np.exp(self.scales.log_scale[model, column])[None]
            parts[model, row, component] = _mean(self._warp(column), at, scale)[0]
        # Share by share: the sum of the largest numbers is beyond all floats.
        return (parts / (parts.shape[0] * parts.shape[2])).sum((0, 2))

    def shares(
        self, column: int, rows: Int[np.ndarray, " rows"]
    ) -> Float[np.ndarray, "rows levels"]:
        """Give the probability of each level."""
        law, levels = self.scales.encoding.laws[column], self.scales.encoding.levels[column]
        if isinstance(law, Ordered):
            assert isinstance(law.warp, Levels)
            below = [self.below(column, rows, edge) for edge in law.warp.edges[1:-1]]
            return np.diff(np.stack(below, axis=-1), axis=-1, prepend=0.0, append=1.0)
        first = self.scales.places[column]
        width = 1 if levels == 2 else levels
        part = self.components[..., first : first + width][:, rows].mean((0, 2), dtype=np.float64)
        return np.concatenate([1.0 - part, part], axis=-1) if levels == 2 else part

    def quantile(self, column: int, rows: Int[np.ndarray, " rows"], q: float) -> Values:
        """Give the value that a cell does not exceed with probability q; NaN for plain levels."""
        law = self.scales.encoding.laws[column]
        if not isinstance(law, Ordered):
            return np.full(rows.size, np.nan)
        location = self._locations(column, rows)
        ends = location + np.exp(self.scales.log_scale[:, column])[:, None, None] * ndtri(q)
        # The quantile of a mixture lies between those of its components.
        low, high = ends.min((0, 2)), ends.max((0, 2))
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            under = self._below(column, location, middle) < q
            low, high = np.where(under, middle, low), np.where(under, high, middle)
        return law.warp.value((low + high) / 2)

    def below(self, column: int, rows: Int[np.ndarray, " rows"], edge: float) -> Values:
        """Give the probability that the latent number of a cell is below an edge."""
        return self._below(column, self._locations(column, rows), np.full(rows.size, edge))

    def ranks(
        self, column: int, rows: Int[np.ndarray, " rows"], values: Values
    ) -> tuple[Values, Values]:
        """Give the probability of less than each value, and of no more than it."""
        location = self._locations(column, rows)
        law = self._law(column)
        atoms = law.warp.atoms
        if atoms is None:
            low, high = law.ends(values)
        else:
            edges = edges_of(law.warp)
            low = edges[np.searchsorted(atoms, values, side="left")]
            high = edges[np.searchsorted(atoms, values, side="right")]
        return self._below(column, location, low), self._below(column, location, high)

    def log_mass(
        self, column: int, rows: Int[np.ndarray, " rows"], low: Values, high: Values
    ) -> Values:
        """Give the log probability of a number between two values, of which none is an atom."""
        location, warp = self._locations(column, rows), self._warp(column)
        scale = np.exp(self.scales.log_scale[:, column])[:, None, None]
        start, end = ((warp.cut(x)[None, :, None] - location) / scale for x in (low, high))
        # Mirrored to the left, where log_ndtr does not round to 0.
        flip = start + end > 0
        start, end = np.where(flip, -end, start), np.where(flip, -start, end)
        upper = log_ndtr(end)
        with np.errstate(divide="ignore"):
            each = upper + np.log(-np.expm1(np.minimum(log_ndtr(start) - upper, 0.0)))
        components = each.shape[0] * each.shape[2]
        return logsumexp(each, axis=(0, 2)) - np.log(components)

    def _below(
        self, column: int, location: Float[np.ndarray, "models rows components"], edge: Values
    ) -> Values:
        scale = np.exp(self.scales.log_scale[:, column])[:, None, None]
        return ndtr((edge[None, :, None] - location) / scale).mean((0, 2))

    def _locations(
        self, column: int, rows: Int[np.ndarray, " rows"]
    ) -> Float[np.ndarray, "models rows components"]:
        place = self.scales.places[column]
        return self.components[..., place][:, rows].astype(np.float64)

    def _law(self, column: int) -> Ordered:
        law = self.scales.encoding.laws[column]
        assert isinstance(law, Ordered)
        return law

    def _warp(self, column: int) -> Warp:
        return self._law(column).warp


def has_levels(law: Likelihood) -> bool:
    """Say whether the values of a law are levels, ordered or not."""
    return not isinstance(law, Ordered) or isinstance(law.warp, Levels)


def _mean(warp: Warp, location: Values, scale: Values) -> Values:
    """Give the mean value of normal latent numbers."""
    if warp.atoms is None:
        return warp.mean(location, scale)
    mass = ndtr((edges_of(warp)[1:-1] - location[:, None]) / scale[:, None])
    return np.diff(mass, axis=1, prepend=0.0, append=1.0) @ warp.atoms


def edges_of(warp: Warp) -> Float[np.ndarray, " edges"]:
    """Give where on the latent line each atom begins, and where the last one ends."""
    if isinstance(warp, Levels):
        return warp.edges
    assert warp.atoms is not None
    # What lies between two atoms shows as the nearer one.
    cuts = warp.cut((warp.atoms[1:] + warp.atoms[:-1]) / 2)
    return np.concatenate([[-EDGE], cuts, [EDGE]])
