"""A demonstration as a page: one HTML file with everything in it."""

import html
import io
from collections.abc import Iterable

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from hhvaem.demonstration import LEVEL, TARGET, Demonstration
from hhvaem.schema import LEVELLED

OBSERVED, HOLE, TEST, INSIDE, OUTSIDE = "#e4e8ee", "#1f6fb2", "#e0934a", "#1f6fb2", "#c8452f"
ROWS = 8

STYLE = """
:root { color-scheme: light dark; --ink: #1c2530; --soft: #5b6673; --line: #d8dde4;
  --paper: #ffffff; --fill: #dcebf8; --bar: #1f6fb2; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaf0; --soft: #9aa6b3; --line: #3a444f;
  --paper: #151a20; --fill: #1d3c57; --bar: #4d9be0; } }
body { margin: 0 auto; max-width: 62rem; padding: 2rem 1.25rem 4rem; background: var(--paper);
  color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }
h1 { font-size: 1.7rem; margin: 0 0 .25rem; } h2 { font-size: 1.2rem; margin: 2.5rem 0 .5rem; }
p { max-width: 44rem; } .soft { color: var(--soft); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .87rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .3rem .7rem .3rem 0; border-bottom: 1px solid var(--line);
  white-space: nowrap; } th { font-weight: 600; }
td.filled { background: var(--fill); box-shadow: -.3rem 0 0 var(--fill); font-weight: 600; }
td.number { text-align: right; } .bar { display: inline-block; height: .6rem;
  background: var(--bar); border-radius: 2px; vertical-align: middle; }
.bar.mean { background: var(--line); }
figure { margin: 1rem 0; background: #ffffff; border: 1px solid var(--line); border-radius: 6px;
  padding: .75rem; } figure svg { width: 100%; height: auto; display: block; }
dl { display: flex; flex-wrap: wrap; gap: 1rem 2.5rem; margin: 1.25rem 0; }
dt { color: var(--soft); font-size: .85rem; } dd { margin: 0; font-size: 1.5rem; }
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
                (f"hidden numbers inside their {LEVEL:.0%} interval", f"{found.coverage:.0%}"),
            ]
        ),
        "<h2>The holes</h2>",
        "<p>Grey cells are known, blue ones are missing, and orange ones were known and hidden, "
        "to see how well they are filled.</p>",
        _figure(_holes(found)),
        "<h2>What each column was taken for</h2>",
        f'<div class="scroll">{found.schema._repr_html_()}</div>',
        "<h2>Before and after</h2>",
        "<p>Numbers are filled with their predictive mean, levels with the most probable one. "
        "What was known stays as it was, to the bit.</p>",
        f'<div class="scroll">{_before_and_after(found)}</div>',
        "<h2>Intervals against the truth</h2>",
        f"<p>For every hidden number: its {LEVEL:.0%} interval (line), the value filled in (dot) "
        "and the truth (on the diagonal). Red ones miss.</p>",
        _figure(_intervals(found)),
        "<h2>Compared with mean and mode</h2>",
        "<p>Root mean square error in standard deviations of the column, or share of wrong levels; "
        "shorter is better. Grey: each hole filled with the mean or the most frequent level.</p>",
        f'<div class="scroll">{_comparison(found)}</div>',
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


def _figure(figure: Figure) -> str:
    text = io.StringIO()
    # Ids by a fixed salt: the same demonstration makes the same page.
    with mpl.rc_context({"svg.hashsalt": "hhvaem"}):
        figure.savefig(text, format="svg", metadata={"Date": None})
    return f"<figure>{text.getvalue()[text.getvalue().index('<svg') :]}</figure>"


def _holes(found: Demonstration) -> Figure:
    state = np.where(found.mask, 0, 1) + 2 * found.hidden
    figure = Figure(figsize=(10, 3), layout="constrained")
    panel = figure.subplots()
    colours = ListedColormap([OBSERVED, HOLE, TEST])
    panel.imshow(state.T, aspect="auto", cmap=colours, vmin=0, vmax=2, interpolation="nearest")
    names = [column.name for column in found.schema.modelled]
    panel.set_yticks(np.arange(len(names)), names, fontsize=9)
    panel.set_xlabel("patient", fontsize=9)
    panel.tick_params(axis="x", labelsize=8)
    panel.spines[:].set_visible(False)
    panel.tick_params(length=0)
    return figure


def _intervals(found: Demonstration) -> Figure:
    columns = found.schema.modelled
    numbers = [j for j, c in enumerate(columns) if c.kind not in (*LEVELLED, "datetime")]
    across = min(4, len(numbers))
    down = -(-len(numbers) // across)
    figure = Figure(figsize=(10, 2.6 * down), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False).ravel()
    for panel in panels[len(numbers) :]:
        panel.set_axis_off()
    for j, panel in zip(numbers, panels, strict=False):
        _draw_intervals(panel, found, j)
    return figure


def _draw_intervals(panel: Axes, found: Demonstration, column: int) -> None:
    rows = np.flatnonzero(found.hidden[:, column])
    truth, guess, low, up = (
        part[rows, column] for part in (found.values, found.filled, found.low, found.up)
    )
    inside = (low <= truth) & (truth <= up)
    for right, colour in ((inside, INSIDE), (~inside, OUTSIDE)):
        panel.vlines(truth[right], low[right], up[right], color=colour, alpha=0.35, linewidth=1)
        panel.plot(truth[right], guess[right], "o", color=colour, markersize=2.5)
    ends = truth.min(), truth.max()
    panel.plot(ends, ends, color="#333333", linewidth=0.8)
    panel.set_title(
        f"{found.schema.modelled[column].name}: {inside.mean():.0%} of {len(rows)}", fontsize=9
    )
    panel.tick_params(labelsize=7)
    panel.spines[["top", "right"]].set_visible(False)


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
        bars = "<br>".join(
            f'<span class="bar {kind}" style="width:{12 * value / widest:.2f}rem"></span>'
            for kind, value in (("model", score.error), ("mean", score.error_of_mean))
        )
        rows += (
            f"<tr><td>{html.escape(score.column.name)}</td><td>{what}</td>"
            f'<td class="number">{score.cells}</td><td class="number">{score.error:.2f}</td>'
            f'<td class="number">{score.error_of_mean:.2f}</td><td>{bars}</td></tr>'
        )
    head = "".join(
        f"<th>{title}</th>"
        for title in ("column", "", "hidden cells", "hhvaem", "mean or mode", "")
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def shown_value(value: object) -> str:
    """Write a value as a reader wants it."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
