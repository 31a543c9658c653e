"""A demonstration as a page: one HTML file with everything in it."""

import html

import numpy as np
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullFormatter, StrMethodFormatter

from hhvaem.demonstration import LEVEL, TARGET, Demonstration, on_coverage, on_errors
from hhvaem.pages import as_svg, facts, schema_table, whole_page
from hhvaem.schema import LEVELLED

INSIDE, OUTSIDE, TRUTH = "#1f6fb2", "#c8452f", "#333333"
ROWS = 8
# Counts of fewer values than this are spread out side by side.
FEW_COUNTS = 8
# Positive numbers that reach farther than this, the most over the least, get axes of logarithms.
WIDE = 20
DAY = 864e8  # in microseconds


def page(found: Demonstration) -> str:
    """Write the page."""
    holes = 1 - (found.mask & ~found.hidden).mean()
    better = sum(score.error < score.error_of_mean for score in found.scores)
    guess = found.prediction
    parts = [
        "<h1>A table with holes, filled</h1>",
        f'<p class="soft">A made-up clinic: {len(found.table)} patients, '
        f"{found.table.num_columns} columns. Made by <code>hhvaem demo</code> in "
        f"{found.seconds:.0f} seconds.</p>",
        facts(
            [
                ("cells missing", f"{holes:.0%}"),
                ("hidden on top, to compare with", f"{found.hidden.sum()}"),
                ("columns filled better than by mean or mode", f"{better} of {len(found.scores)}"),
                (
                    f"hidden numbers and dates inside their {LEVEL:.0%} interval",
                    f"{found.coverage:.0%}",
                ),
            ]
        ),
        "<h2>The holes</h2>",
        f"<p>All {len(found.table)} patients, from left to right. Grey cells are known, blue ones "
        "are missing, and orange ones were known and hidden, to see how well they are filled.</p>",
        _holes(found),
        "<h2>What each column was taken for</h2>",
        schema_table(found.schema),
        "<h2>Before and after</h2>",
        "<p>Numbers are filled with their predictive mean, levels with the most probable one. "
        "What was known stays as it was, to the bit.</p>",
        f'<div class="scroll">{_before_and_after(found)}</div>',
        "<h2>Intervals against the truth</h2>",
        f"<p>For every hidden number or date, from left to right by its truth: its {LEVEL:.0%} "
        "interval (line), the value filled in (dot) and the truth (black). Red ones miss. Above "
        f"each: how many hold the truth. {on_coverage(found)}</p>",
        _intervals(found),
        "<h2>Compared with mean and mode</h2>",
        "<p>Root mean square error in standard deviations of the column, or share of wrong levels; "
        "shorter is better. Grey: each hole filled with the mean or the most frequent level. "
        f"{html.escape(on_errors(found))}</p>",
        _comparison(found),
        f"<h2>Predicting {TARGET}</h2>",
        f"<p>Of {guess.rows} patients the model was not told their {TARGET}. From whatever else is "
        f"known of them it predicts it with an error of <strong>{guess.error:.1f}</strong> (root "
        f"mean square; {guess.error_of_mean:.1f} by the mean of the others). "
        f"{guess.coverage:.0%} lie inside their {LEVEL:.0%} interval, which is {guess.width:.0f} "
        "wide on average.</p>",
    ]
    return whole_page("a table with holes, filled", parts)


def _holes(found: Demonstration) -> str:
    """Draw a strip for each column; not as one figure, whose text a narrow screen would shrink."""
    rows = len(found.table)
    strips = ""
    for j, column in enumerate(found.schema.modelled):
        marks = ""
        for name, cells in (("hole", ~found.mask[:, j]), ("test", found.hidden[:, j])):
            squares = "".join(f"M{i} 0h1v1h-1z" for i in np.flatnonzero(cells))
            marks += f'<path class="{name}" d="{squares}"/>'
        strips += (
            f"<span>{html.escape(column.name)}</span>"
            f'<svg viewBox="0 0 {rows} 1" preserveAspectRatio="none">{marks}</svg>'
        )
    return f'<div class="strips">{strips}</div>'


def _intervals(found: Demonstration) -> str:
    """Draw a figure for each column of numbers, as many side by side as fit."""
    numbers = [j for j, c in enumerate(found.schema.modelled) if c.kind not in LEVELLED]
    figures = "".join(as_svg(interval_figure(found, j)) for j in numbers)
    return f'<div class="panels">{figures}</div>'


def interval_figure(found: Demonstration, column: int) -> Figure:
    """Draw the hidden cells of a column: truth from left to right, fill and interval upwards."""
    about = found.schema.modelled[column]
    rows = np.flatnonzero(found.hidden[:, column])
    truth, guess, low, up = (
        part[rows, column] for part in (found.values, found.filled, found.low, found.up)
    )
    inside = (low <= truth) & (truth <= up)
    figure = Figure(figsize=(2.6, 2.5), layout="constrained")
    panel = figure.subplots()
    if about.kind == "datetime":
        truth, guess, low, up = (part / DAY for part in (truth, guess, low, up))
        for axis in (panel.xaxis, panel.yaxis):
            locator = AutoDateLocator(minticks=3, maxticks=7)  # type: ignore[no-untyped-call]
            axis.set_major_locator(locator)
            formatter = ConciseDateFormatter(locator)  # type: ignore[no-untyped-call]
            axis.set_major_formatter(formatter)
    elif low.min() > 0 and truth.max() > WIDE * truth.min():
        for set_scale in (panel.set_xscale, panel.set_yscale):
            set_scale("log")
        for axis in (panel.xaxis, panel.yaxis):
            axis.set_major_formatter(StrMethodFormatter("{x:g}"))
            axis.set_minor_formatter(NullFormatter())
    places = truth
    if about.step == 1 and np.unique(truth).size <= FEW_COUNTS:
        places = _side_by_side(truth, np.lexsort((up, low, guess, truth)))
        values = np.unique(truth)
        panel.hlines(values, values - 0.45, values + 0.45, color=TRUTH, linewidth=1.2)
        panel.set_xticks(values)
        panel.yaxis.set_major_locator(MaxNLocator(integer=True))
    else:
        ends = truth.min(), truth.max()
        panel.plot(ends, ends, color=TRUTH, linewidth=0.8)
    for right, colour in ((inside, INSIDE), (~inside, OUTSIDE)):
        panel.vlines(places[right], low[right], up[right], color=colour, alpha=0.35, linewidth=1)
        panel.plot(places[right], guess[right], "o", color=colour, markersize=2.2)
    panel.set_title(f"{about.name}: {inside.sum()} of {len(rows)}", fontsize=9.5, parse_math=False)
    panel.set_xlabel("truth", fontsize=8.5)
    panel.tick_params(labelsize=8.5)
    panel.spines[["top", "right"]].set_visible(False)
    return figure


def _side_by_side(values: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Spread whole numbers that are the same over the width of one, in an order."""
    places = values.astype(float)
    for value in np.unique(values):
        same = order[values[order] == value]
        places[same] += 0.8 * ((np.arange(same.size) + 0.5) / same.size - 0.5)
    return places


def _before_and_after(found: Demonstration) -> str:
    names = found.table.column_names
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    # Rows in which there is something to see.
    holes = np.stack([~column.is_valid().to_numpy() for column in found.shown.columns], axis=1)
    chosen = np.flatnonzero((holes.sum(1) >= 3) & (holes.sum(1) <= 6))[:ROWS]
    rows = found.full.take(chosen).to_pylist()
    body = ""
    for i, row in zip(chosen, rows, strict=True):
        cells = ""
        for j, name in enumerate(names):
            mark = ' class="filled"' if holes[i, j] else ""
            cells += f"<td{mark}>{html.escape(shown_value(row[name]))}</td>"
        body += f"<tr>{cells}</tr>"
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _comparison(found: Demonstration) -> str:
    widest = max(max(score.error, score.error_of_mean) for score in found.scores)
    rows = ""
    for score in found.scores:
        what = "wrong" if score.column.kind in LEVELLED else "error"
        bars = "".join(
            f'<span class="bar {kind}" style="width:{100 * value / widest:.1f}%"></span>'
            for kind, value in (("model", score.error), ("mean", score.error_of_mean))
        )
        rows += (
            f"<tr><td>{html.escape(score.column.name)} <small>{what}</small></td>"
            f'<td class="number">{score.cells}</td><td class="number">{score.error:.2f}</td>'
            f'<td class="number">{score.error_of_mean:.2f}</td><td>{bars}</td></tr>'
        )
    head = "".join(
        f'<th class="number">{title}</th>' for title in ("hidden cells", "hhvaem", "mean or mode")
    )
    return (
        f'<table class="comparison"><thead><tr><th>column</th>{head}<th></th></tr></thead>'
        f"<tbody>{rows}</tbody></table>"
    )


def shown_value(value: object) -> str:
    """Write a value as a reader wants it."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
