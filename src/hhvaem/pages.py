"""What the pages have in common: their look, and pieces that more than one has."""

import html
import io
from collections.abc import Iterable

import matplotlib as mpl
from matplotlib.figure import Figure

from hhvaem.schema import Schema

STYLE = """
:root { color-scheme: light dark; --ink: #1c2530; --soft: #5b6673; --line: #d8dde4;
  --paper: #ffffff; --fill: #dcebf8; --bar: #1f6fb2; --known: #e4e8ee; --hole: #1f6fb2;
  --test: #e0934a; --good: #1d7f46; --fair: #1f6fb2; --poor: #6b7580; --bad: #b3361f; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaf0; --soft: #9aa6b3; --line: #3a444f;
  --paper: #151a20; --fill: #1d3c57; --bar: #4d9be0; --known: #2a323b; --hole: #4d9be0;
  --good: #57c785; --fair: #6fb1ee; --poor: #a3adb8; --bad: #f08a75; } }
body { margin: 0 auto; max-width: 62rem; padding: 2rem 1.25rem 4rem; background: var(--paper);
  color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }
h1 { font-size: 1.7rem; margin: 0 0 .25rem; } h2 { font-size: 1.2rem; margin: 2.5rem 0 .5rem; }
p { max-width: 44rem; } .soft { color: var(--soft); } small { color: var(--soft); }
.scroll, .wide { overflow-x: auto; }
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
.verdicts { width: 100%; } .verdicts td { vertical-align: top; }
.verdicts .bars { min-width: 7rem; width: 18%; } .verdicts .why { min-width: 16rem; }
.verdict { white-space: nowrap; font-weight: 600; } .verdicts .verdict { white-space: normal; }
@media (max-width: 40rem) { .verdicts thead { display: none; }
  .verdicts tr { display: grid; grid-template-columns: 1fr auto; padding: .4rem 0;
    border-bottom: 1px solid var(--line); }
  .verdicts td { border: 0; padding: .1rem 0; grid-column: 1 / -1; }
  .verdicts td:first-child { grid-column: 1; } .verdicts td.number { grid-column: 2; }
  .verdicts td.number::after { content: " hidden"; } .verdicts .bars { width: auto; } }
.verdict.good { color: var(--good); }
.verdict.fair { color: var(--fair); } .verdict.poor, .verdict.open { color: var(--poor); }
.verdict.bad { color: var(--bad); }
.legend { grid-template-columns: 1fr; gap: .4rem; } .legend dd { font-size: .9rem; }
.legend div { flex-direction: column; }
dt { color: var(--soft); font-size: .85rem; line-height: 1.3; } dd { margin: 0; font-size: 1.5rem; }
"""


def whole_page(title: str, parts: Iterable[str]) -> str:
    """Put a page together: one file, with everything in it."""
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>hhvaem: {html.escape(title)}</title><style>{STYLE}</style></head>"
        f"<body>\n{body}\n</body></html>\n"
    )


def facts(told: Iterable[tuple[str, str]]) -> str:
    """Lay out a few numbers, large, with what they are."""
    items = (f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in told)
    return f"<dl>{''.join(items)}</dl>"


def schema_table(schema: Schema) -> str:
    """Lay out what each column was taken for."""
    rows = [("column", "kind", "holes are", "values", "note"), *schema.rows()]
    # What no column has is not worth a heading.
    parts = [part for part in zip(*rows, strict=True) if any(part[1:])]
    head, *body = (
        "".join(f"<{cell}>{html.escape(text)}</{cell}>" for text in row)
        for cell, row in zip(["th", *["td"] * len(schema)], zip(*parts, strict=True), strict=True)
    )
    lines = "".join(f"<tr>{row}</tr>" for row in body)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"


def as_svg(figure: Figure) -> str:
    """Put a figure into a page."""
    text = io.StringIO()
    # Ids by a fixed salt: what is the same makes the same page.
    with mpl.rc_context({"svg.hashsalt": "hhvaem"}):
        figure.savefig(text, format="svg", metadata={"Date": None})
    return f"<figure>{text.getvalue()[text.getvalue().index('<svg') :]}</figure>"
