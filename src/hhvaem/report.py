"""A demonstration as a page: one HTML file with everything in it."""

import html
import io
from collections.abc import Iterable

import matplotlib as mpl
import numpy as np
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullFormatter, StrMethodFormatter

from hhvaem.demonstration import LEVEL, TARGET, Demonstration, on_coverage, on_errors
from hhvaem.schema import LEVELLED, Schema

INSIDE, OUTSIDE, TRUTH = "#1f6fb2", "#c8452f", "#333333"
ROWS = 8
# Counts of fewer values than this are spread out side by side.
FEW_COUNTS = 8
# Positive numbers that reach farther than this, the most over the least, get axes of logarithms.
WIDE = 20
DAY = 864e8  # in microseconds

STYLE = """
:root { color-scheme: light dark; --ink: #1c2530; --soft: #5b6673; --line: #d8dde4;
  --paper: #ffffff; --fill: #dcebf8; --bar: #1f6fb2; --known: #e4e8ee; --hole: #1f6fb2;
  --test: #e0934a; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaf0; --soft: #9aa6b3; --line: #3a444f;
  --paper: #151a20; --fill: #1d3c57; --bar: #4d9be0; --known: #2a323b; --hole: #4d9be0; } }
body { margin: 0 auto; max-width: 62rem; padding: 2rem 1.25rem 4rem; background: var(--paper);
  color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }
h1 { font-size: 1.7rem; margin: 0 0 .25rem; } h2 { font-size: 1.2rem; margin: 2.5rem 0 .5rem; }
p { max-width: 44rem; } .soft { color: var(--soft); } small { color: var(--soft); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .87rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .3rem .7rem .3rem 0; border-bottom: 1px solid var(--line); }
th { font-weight: 600; vertical-align: bottom; }
.scroll th, .scroll td { white-space: nowrap; padding: .3rem .5rem; }
td.filled { background: var(--fill); font-weight: 600; }
td.number, th.number { text-align: right; }
.comparison { width: 100%; max-width: 44rem; } .comparison td:last-child { width: 40%; padding: 0; }
.bar { display: block; height: .55rem; margin: .15rem 0; background: var(--bar);
  border-radius: 2px; } .bar.mean { background: var(--line); }
.strips { display: grid; grid-template-columns: max-content 1fr; gap: 2px .7rem;
  align-items: center; font-size: .8rem; margin: 1rem 0; }
.strips svg { width: 100%; height: 1.1rem; display: block; background: var(--known); }
.hole { fill: var(--hole); } .test { fill: var(--test); }
.panels { display: grid; grid-template-columns: repeat(auto-fill, minmax(13rem, 1fr));
  gap: .75rem; }
figure { margin: 0; background: #ffffff; border: 1px solid var(--line); border-radius: 6px;
  padding: .4rem; } figure svg { width: 100%; height: auto; display: block; }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: 1rem 2rem;
  margin: 1.25rem 0; } dl div { display: flex; flex-direction: column-reverse;
  justify-content: flex-end; }
dt { color: var(--soft); font-size: .85rem; line-height: 1.3; } dd { margin: 0; font-size: 1.5rem; }
"""


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
        _facts(
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
        _columns(found.schema),
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
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>hhvaem: a table with holes, filled</title><style>{STYLE}</style></head>"
        f"<body>\n{body}\n</body></html>\n"
    )


def _facts(facts: Iterable[tuple[str, str]]) -> str:
    items = (f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in facts)
    return f"<dl>{''.join(items)}</dl>"


def _columns(schema: Schema) -> str:
    rows = [("column", "kind", "holes are", "values", "note"), *schema.rows()]
    # What no column has is not worth a heading.
    parts = [part for part in zip(*rows, strict=True) if any(part[1:])]
    head, *body = (
        "".join(f"<{cell}>{html.escape(text)}</{cell}>" for text in row)
        for cell, row in zip(["th", *["td"] * len(schema)], zip(*parts, strict=True), strict=True)
    )
    lines = "".join(f"<tr>{row}</tr>" for row in body)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"


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
    figures = "".join(_figure(interval_figure(found, j)) for j in numbers)
    return f'<div class="panels">{figures}</div>'


def _figure(figure: Figure) -> str:
    text = io.StringIO()
    # Ids by a fixed salt: the same demonstration makes the same page.
    with mpl.rc_context({"svg.hashsalt": "hhvaem"}):
        figure.savefig(text, format="svg", metadata={"Date": None})
    return f"<figure>{text.getvalue()[text.getvalue().index('<svg') :]}</figure>"


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
