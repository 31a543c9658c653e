"""The page about an evaluation, for readers who know no statistics."""

import html

import numpy as np
from matplotlib.figure import Figure

from hhvaem.assessment import Outcome
from hhvaem.hiding import IN_WORDS
from hhvaem.pages import as_svg, facts, schema_table, whole_page
from hhvaem.schema import LEVELLED
from hhvaem.trust import BARS, Evaluation, histogram
from hhvaem.verdicts import CALLED, Verdict

# Which of the page's colours a verdict has.
TONES = {
    "trust": "good",
    "wide but honest": "fair",
    "no better than the column mean": "poor",
    "too sure of itself": "bad",
    "too few cells to tell": "open",
}
MEANINGS = {
    "trust": "fills are much closer to the truth than the column mean, and intervals hold about "
    "what they promise.",
    "wide but honest": "fills are closer than the column mean, but not by much; intervals are wide "
    "and hold about what they promise. Use intervals or draws rather than single values.",
    "no better than the column mean": "or than the most frequent level, by more than chance: the "
    "other columns say too little about this one. Intervals are honest; a single fill is a guess.",
    "too sure of itself": "intervals hold less than they promise. Do not rely on them here.",
    "too few cells to tell": "the column has too few known cells to hide enough of them.",
}
BAR, IDEAL = "#1f6fb2", "#333333"


def page(told: Evaluation) -> str:
    """Write the page."""
    found = told.found
    ours = found.outcomes[0]
    numbers = [each for each in told.verdicts if each.kind not in LEVELLED]
    trusted = sum(each.word in ("trust", "wide but honest") for each in told.verdicts)
    seconds = sum(outcome.seconds for outcome in found.outcomes)
    about = [("cells hidden and filled again", f"{int(found.hidden.sum()):,}")]
    about.append(
        ("columns filled better than by their means", f"{trusted} of {len(told.verdicts)}")
    )
    if numbers:
        held = ours.report.table["coverage90"]
        about.append(("of hidden numbers are inside their 90 % intervals", f"{held:.0%}"))
    about.append(("everything together took", _duration(seconds)))
    rest = f" Nothing was hidden of {html.escape(told.left_out)}." if told.left_out else ""
    parts = [
        "<h1>Can these fills be trusted?</h1>",
        f'<p class="soft">A table of {found.rows:,} rows. {html.escape(told.hidden_in_words)} The '
        "imputer learned from the others and filled the hidden ones, which were then compared "
        f"with the truth.{rest}</p>",
        facts(about),
        words(told),
        "<h2>Column by column</h2>",
        verdict_table(told),
        f"<dl class='legend'>{''.join(_meaning(word) for word in MEANINGS if _has(told, word))}"
        "</dl>",
        "<h2>Compared with other methods</h2>",
        "<p>On the same hidden cells. <em>Error</em> is the root mean square error in standard "
        "deviations of the column, or the share of wrong levels, averaged over columns. "
        "<em>CRPS</em> also rewards saying how sure a fill is, and can be computed where a method "
        "draws values; so can the <em>energy score</em>, which looks at all hidden numbers of a "
        "row together. Of all three, less is better.</p>",
        _methods(told),
    ]
    if numbers:
        parts += [
            "<h2>Are the intervals honest?</h2>",
            "<p>Each panel counts where the truth was in what the imputer had said: at the far "
            "left, lower than nearly all it thought possible; at the far right, higher. If it is "
            "honest, all bars are about as high as the line, and most of them within the grey "
            "band. Bars that rise at both ends mean it was too sure; a hump in the middle, that "
            "its intervals are wider than they need be; a slope, that it fills too low or too "
            "high.</p>",
            '<div class="panels">'
            + "".join(as_svg(place_figure(told, each)) for each in numbers)
            + "</div>",
        ]
    if found.own_holes:
        parts += ["<h2>The table's own holes</h2>", _own_holes(told)]
    parts += [
        "<h2>What each column was taken for</h2>",
        f'<div class="scroll">{schema_table(found.schema)}</div>',
        "<h2>What this does not show</h2>",
        f"<p>Cells were hidden {IN_WORDS[found.how]}. If the table's own holes came about in "
        "another way, for example because high values were withheld, fills of those holes can be "
        "worse than these, and no method can tell from the table alone. Hide cells in other ways "
        "(<code>mar</code>, <code>mnar</code>, <code>patterns</code>) to see how much it "
        "matters.</p>",
        f'<p class="soft">hhvaem {html.escape(told.facts()["version"])}, seed {found.seed}; '
        f"{ours.report.table['cells']} hidden cells in {ours.report.table['columns']} columns.</p>",
    ]
    return whole_page("can these fills be trusted?", parts)


def words(told: Evaluation) -> str:
    """Write what it comes to."""
    return "".join(f"<p>{html.escape(sentence)}</p>" for sentence in told.words)


def verdict_table(told: Evaluation) -> str:
    """Lay out the verdicts, a line for each column."""
    widest = max((each.score for each in told.verdicts), default=1.0)
    widest = max([widest, *(v.mean_score for v in told.verdicts if np.isfinite(v.mean_score))])
    lines = ""
    for each in told.verdicts:
        bars = "".join(
            f'<span class="bar {kind}" style="width:{100 * value / widest:.1f}%"></span>'
            for kind, value in (("model", each.score), ("mean", each.mean_score))
            if np.isfinite(value) and widest > 0
        )
        lines += (
            f"<tr><td>{html.escape(each.column)} <small>{each.kind}</small></td>"
            f'<td class="number">{each.cells}</td>'
            f'<td><span class="verdict {TONES[each.word]}">{each.called}</span></td>'
            f'<td class="bars">{bars}</td><td class="why">{html.escape(each.sentence)}</td></tr>'
        )
    head = (
        '<th>column</th><th class="number">hidden</th><th>verdict</th>'
        "<th>error <small>(grey: of the mean)</small></th><th>why</th>"
    )
    return (
        f'<div class="wide"><table class="verdicts"><thead><tr>{head}</tr></thead>'
        f"<tbody>{lines}</tbody></table></div>"
    )


def place_figure(told: Evaluation, each: Verdict) -> Figure:
    """Draw where truths were in the laws of a column's cells."""
    places = told.found.calibration[each.column].places
    assert places is not None
    counts, level = histogram(places), places.size / BARS
    figure = Figure(figsize=(2.6, 1.9), layout="constrained")
    panel = figure.subplots()
    panel.bar((np.arange(BARS) + 0.5) / BARS, counts, width=0.92 / BARS, color=BAR, alpha=0.75)
    # Where nineteen of twenty bars are if the laws are right.
    around = 2 * np.sqrt(level * (1 - 1 / BARS))
    panel.axhspan(max(level - around, 0), level + around, color=IDEAL, alpha=0.1, linewidth=0)
    panel.axhline(level, color=IDEAL, linewidth=0.9)
    panel.set_title(f"{each.column}: {each.cells} cells", fontsize=9.5, parse_math=False)
    panel.set_xticks([0.08, 0.5, 0.92], ["low", "middle", "high"], fontsize=8)
    panel.tick_params(axis="x", length=0)
    panel.set_xlabel("where the truth was", fontsize=8.5)
    panel.set_xlim(0, 1)
    panel.tick_params(axis="y", labelsize=8)
    panel.set_ylabel("cells", fontsize=8.5)
    panel.spines[["top", "right"]].set_visible(False)
    return figure


def _has(told: Evaluation, word: str) -> bool:
    return any(each.word == word for each in told.verdicts)


def _meaning(word: str) -> str:
    return (
        f'<div><dd><span class="verdict {TONES[word]}">{word}</span></dd>'
        f"<dt>{MEANINGS[word]}</dt></div>"
    )


def _methods(told: Evaluation) -> str:
    heads = {
        "rmse_missing": "error",
        "crps": "CRPS",
        "energy_score": "energy score",
        "coverage90": "90 % intervals hold",
    }
    outcomes = told.found.outcomes
    best = {
        name: min(scores[name] for outcome in outcomes if name in (scores := outcome.report.table))
        for name in ("rmse_missing", "crps", "energy_score")
        if any(name in outcome.report.table for outcome in outcomes)
    }

    def cell(outcome: Outcome, name: str) -> str:
        value = outcome.report.table.get(name)
        if value is None:
            return '<td class="number">&ndash;</td>'
        text = f"{value:.0%}" if name == "coverage90" else f"{value:.3f}"
        mark = f"<strong>{text}</strong>" if best.get(name) == value else text
        return f'<td class="number">{mark}</td>'

    lines = "".join(
        f"<tr><td>{html.escape(CALLED[outcome.name])}</td>"
        + "".join(cell(outcome, name) for name in heads)
        + f'<td class="number">{_duration(outcome.seconds)}</td></tr>'
        for outcome in outcomes
    )
    head = "".join(f'<th class="number">{title}</th>' for title in (*heads.values(), "time"))
    return (
        f'<div class="scroll"><table><thead><tr><th></th>{head}</tr></thead>'
        f"<tbody>{lines}</tbody></table></div>"
    )


def _own_holes(told: Evaluation) -> str:
    holes = told.found.own_holes
    columns = list(dict.fromkeys(name for each in holes.values() for name in each.by_column))
    lines = "".join(
        f'<tr><td>{html.escape(CALLED[name])}</td><td class="number">{each.score:.3f}</td>'
        + "".join(
            f'<td class="number">{each.by_column[column]:.3f}</td>'
            if column in each.by_column
            else '<td class="number">&ndash;</td>'
            for column in columns
        )
        + "</tr>"
        for name, each in holes.items()
    )
    head = "".join(f'<th class="number">{html.escape(name)}</th>' for name in columns)
    return (
        "<p>Nobody knows what was in the table's own holes. The energy-I-score asks instead how "
        "well a column's known cells can be predicted by somebody who has learned from nothing "
        "but its filled ones; less is better.</p>"
        '<div class="scroll"><table><thead><tr><th></th><th class="number">all</th>'
        f"{head}</tr></thead><tbody>{lines}</tbody></table></div>"
    )


def _duration(seconds: float) -> str:
    if seconds < 1:
        return "< 1 s"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
