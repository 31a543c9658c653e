"""Figures people want to see."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from hhvaem.encoding import Encoding, TableMask, TableValues
from hhvaem.marginals import Marginals, base_log_prob
from hhvaem.schema import LEVELLED, Column

DATA, MODELS = "#c9ced6", ("#1f6fb2", "#d1603d")
BINS, CURVE = 40, 400
# A number whose values repeat more often than this is drawn bin by bin, else as a curve.
DISTINCT = 0.8

Edges = Float[np.ndarray, " edges"]


def plot_columns(
    columns: Sequence[Column],
    values: TableValues,
    mask: TableMask,
    models: Mapping[str, tuple[Encoding, Marginals]],
) -> Figure:
    """Draw the observed values of each column and what the column models make of them.

    Parameters
    ----------
    columns
        The modelled columns of a schema.
    values, mask
        The table, as `hhvaem.table.encode` gives it.
    models
        By the name to show, an encoding and column models; at most two.

    Returns
    -------
    Figure
        One panel for each column; save it with `figure.savefig`.
    """
    across = min(4, len(columns))
    down = -(-len(columns) // across)
    layout = ConstrainedLayoutEngine(h_pad=0.1)
    figure = Figure(figsize=(3.1 * across, 2.5 * down + 0.5), layout=layout)
    panels = figure.subplots(down, across, squeeze=False).ravel()
    for panel in panels[len(columns) :]:
        panel.set_axis_off()
    seen = [values[mask[:, j], j] for j in range(len(columns))]
    bins = [_bins(column, x) for column, x in zip(columns, seen, strict=True)]
    curves = [_curve(column, x, b) for column, x, b in zip(columns, seen, bins, strict=True)]
    masses = [_masses(columns, curves, *model) for model in models.values()]
    for j, (column, panel) in enumerate(zip(columns, panels, strict=False)):
        fitted = [mass[: curves[j].size - 1, j] for mass in masses]
        if column.kind in LEVELLED:
            _draw_levels(panel, column, seen[j], fitted)
        else:
            _draw_numbers(panel, column, seen[j], bins[j], curves[j], fitted)
        missing = 1 - mask[:, j].mean()
        title = f"{column.name} ({column.kind}, {missing:.0%} missing)"
        panel.set_title(title, fontsize=9, parse_math=False)
        panel.tick_params(labelsize=7)
        panel.set_yticks([])
        panel.spines[["top", "right", "left"]].set_visible(False)
    handles = [
        Patch(color=DATA, label="observed"),
        *(Line2D([], [], color=c, label=n) for n, c in zip(models, MODELS, strict=False)),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False)
    return figure


def _bins(column: Column, x: np.ndarray) -> Edges:
    """Give the ends of about BINS bins (of one for each level)."""
    if column.kind in LEVELLED:
        return np.arange(len(column.levels) + 1) - 0.5
    # A few outliers would squeeze all the rest into one bin.
    low, high = np.quantile(x, [0.002, 0.998]) if x.size > 500 else (x.min(), x.max())
    # A range that the axis could not show is widened.
    least = 1e-6 * max(abs(low), abs(high), 1e-300)
    low, high = (low, high) if high - low > least else (low - least, high + least)
    distinct = np.unique(x)
    # Bins that cut across the grain of rounded numbers would make a comb of them.
    grain = column.step
    if grain is None and 1 < distinct.size <= DISTINCT * x.size:
        grain = float(np.diff(distinct).min())
    if grain is None or (high - low) / grain > 1e6:
        return np.linspace(low, high, BINS + 1)
    wide = max(1, int(np.ceil((high - low) / grain / BINS))) * grain
    return np.arange(low - grain / 2, high + wide, wide)


def _curve(column: Column, x: np.ndarray, bins: Edges) -> Edges:
    """Give the ends between which fitted probabilities are drawn: finer than bins, if smooth."""
    smooth = column.kind not in LEVELLED and np.unique(x).size > DISTINCT * x.size
    return np.linspace(bins[0], bins[-1], CURVE + 1) if smooth else bins


def _masses(
    columns: Sequence[Column], curves: list[np.ndarray], encoding: Encoding, marginals: Marginals
) -> TableValues:
    """Give the probability of each column between its ends, in one call for all columns."""
    rows = max(curve.size - 1 for curve in curves)
    low, high = np.full((rows, len(columns)), -np.inf), np.full((rows, len(columns)), np.inf)
    levels = np.zeros(low.shape)
    for j, (column, curve) in enumerate(zip(columns, curves, strict=True)):
        if column.kind in LEVELLED:
            levels[: len(column.levels), j] = np.arange(len(column.levels))
        low[: curve.size - 1, j], high[: curve.size - 1, j] = curve[:-1], curve[1:]
    by_level = base_log_prob(marginals, encoding.encode(levels, np.ones(levels.shape, bool)))
    by_interval = base_log_prob(marginals, encoding.encode_intervals(low, high))
    levelled = np.array([column.kind in LEVELLED for column in columns])
    return np.exp(np.where(levelled, np.asarray(by_level, float), np.asarray(by_interval, float)))


def _draw_levels(panel: Axes, column: Column, x: np.ndarray, fitted: list[np.ndarray]) -> None:
    count = len(column.levels)
    panel.bar(np.arange(count), np.bincount(x.astype(int), minlength=count) / x.size, color=DATA)
    for i, (shares, color) in enumerate(zip(fitted, MODELS, strict=False)):
        offset = 0.12 * (2 * i - len(fitted) + 1)
        panel.plot(np.arange(count) + offset, shares, "o", color=color, markersize=4)
    labels = [str(level) for level in column.levels]
    if count > 8:
        panel.set_xticks([])
    else:
        short = [label if len(label) < 11 else label[:9] + "…" for label in labels]
        panel.set_xticks(np.arange(count), short, parse_math=False)


def _draw_numbers(
    panel: Axes,
    column: Column,
    x: np.ndarray,
    bins: Edges,
    curve: Edges,
    fitted: list[np.ndarray],
) -> None:
    height = np.histogram(x, bins)[0] / x.size / np.diff(bins)
    panel.bar(bins[:-1], height, np.diff(bins), align="edge", color=DATA)
    for mass, color in zip(fitted, MODELS, strict=False):
        density = mass / np.diff(curve)
        if curve is bins:
            panel.stairs(density, curve, color=color, linewidth=1.3)
        else:
            panel.plot((curve[1:] + curve[:-1]) / 2, density, color=color, linewidth=1.3)
    panel.set_ylim(0, 1.25 * height.max())
    if column.kind == "datetime":
        ticks = np.linspace(x.min(), x.max(), 3)
        panel.set_xticks(ticks, [str(day) for day in ticks.astype("M8[us]").astype("M8[D]")])
