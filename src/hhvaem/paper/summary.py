"""Tables and figures from the records of `hhvaem paper tables`, and from nothing else.

Records may be those of some tables, models and folds: what is not there stays empty, and models
are ranked on tables that all of them have, by the same folds.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from scipy.stats import rankdata

from hhvaem.errors import InputError
from hhvaem.paper.collection import are_records
from hhvaem.paper.printed import MODELS, TABLES, Number, printed
from hhvaem.paper.ranks import BAND, HERE, Ranking, draw_ranking
from hhvaem.paper.records import read_json

# The model that the paper proposes, and the scores by which it is compared with what is printed.
PROPOSED = "HH-VAEM"
JUDGED = {"paper_nll_missing": "NLL of missing cells", "paper_nll_target": "NLL of the target"}
RANKED = {
    "paper_nll_missing": "NLL of missing cells, as published",
    "paper_nll_target": "NLL of the target, as published",
    "log_score_cell": "Log score of a missing cell",
    "crps": "CRPS of missing numbers",
}
KINDS = ("gaussian", "bernoulli", "categorical")
PAPER = "#d1731f"

Records = Sequence[dict[str, Any]]


def read_records(path: Path) -> list[dict[str, Any]]:
    """Read the records that `hhvaem paper tables` left in a file.

    Raises
    ------
    InputError
        Where there are none, or the file is another one.
    """
    command = f"`hhvaem paper tables --out {path.parent}`"
    try:
        content = read_json(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InputError(_not_there(path, command)) from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error
    records = content.get("records") if isinstance(content, dict) else None
    if not are_records(records):
        raise InputError(
            f"{path} is no file that `hhvaem paper tables` writes; move it away, or name another "
            "folder."
        )
    if not records:
        raise InputError(f"There are no records in {path}; {command} makes them.")
    return list(records)


def _not_there(path: Path, command: str) -> str:
    """Say what makes the file, or that it was stopped on the way."""
    runs = path.parent / "tables"
    if any(runs.glob("*.json")):
        return (
            f"There is no {path} yet, though there are runs in {runs}: {command} writes it when "
            "all runs that it is asked for are done; the same command as before goes on."
        )
    return f"There is no {path}; {command} makes it."


def by_fold(records: Records, score: str, table: str, model: str) -> dict[int, float]:
    """Give a score in each fold of a table in which a model has it.

    Examples
    --------
    >>> records = [{"table": "wine", "model": "VAEM", "fold": 3, "crps": 0.4}]
    >>> by_fold(records, "crps", "wine", "VAEM"), by_fold(records, "brier", "wine", "VAEM")
    ({3: 0.4}, {})
    """
    own = (r for r in records if (r["table"], r["model"]) == (table, model) and score in r)
    return {r["fold"]: float(r[score]) for r in own}


def score_table(records: Records, score: str, models: Iterable[str], *, digits: int = 2) -> str:
    """Write a table in Markdown, a row for each of the paper's tables.

    Parameters
    ----------
    records
        What it is made of.
    score
        Its name in them.
    models
        The columns; those that have the score nowhere are left out.
    digits
        After the point.

    Returns
    -------
    str
        Means and standard deviations over folds (over their number, as published), in brackets
        the paper's. Where a model has fewer folds than another, their number stands in square
        brackets. The best mean of those with most folds is bold.

    Examples
    --------
    >>> folds = [{"table": "wine", "model": "VAEM", "fold": i, "paper_nll_target": x}
    ...          for i, x in enumerate((0.2, 0.4))]
    >>> print(score_table(folds, "paper_nll_target", ["VAEM", "MIWAEM"]))
    | table | folds | VAEM |
    |---|---|---|
    | wine | 2 | 0.30 ± 0.10 (0.28 ± 0.09) |
    """
    models = [m for m in models if any(by_fold(records, score, t, m) for t in TABLES)]
    rows = [_score_row(records, score, table, models, digits) for table in TABLES]
    return _markdown(["table", "folds", *models], [row for row in rows if any(row[1:])])


def _score_row(
    records: Records, score: str, table: str, models: Sequence[str], digits: int
) -> list[str]:
    """Write what models have of a table, behind its name and the number of folds."""
    found = {m: list(by_fold(records, score, table, m).values()) for m in models}
    most = max(map(len, found.values()), default=0)
    if not most:
        return [table, *[""] * (1 + len(found))]
    loss = {
        m: round(_loss(score, np.mean(values)), digits)
        for m, values in found.items()
        if len(values) == most
    }
    cells = []
    for model, values in found.items():
        if not values:
            cells.append("")
            continue
        cell = _number(values, digits)
        if loss.get(model) == min(loss.values()) < max(loss.values()):
            cell = f"**{cell}**"
        if len(values) < most:
            cell += f" [{len(values)}]"
        cells.append(cell + _in_brackets(printed(score, model, table)))
    return [table, str(most), *cells]


def _loss(score: str, mean: Any) -> float:
    """Give what is the less the better."""
    if score.startswith("coverage"):
        return abs(float(mean) - float(score.removeprefix("coverage")) / 100)
    return -float(mean) if score in ("target_accuracy", "target_auroc") else float(mean)


def _number(values: Sequence[float], digits: int) -> str:
    mean = f"{np.mean(values):.{digits}f}"
    return f"{mean} ± {np.std(values):.{digits}f}" if len(values) > 1 else mean


def _in_brackets(number: Number | None) -> str:
    return f" ({number.mean:.2f} ± {number.spread:.2f})" if number else ""


def _markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(line) + " |" for line in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


def kind_table(records: Records, part: str) -> str:
    """Write the NLL of single kinds of columns, of the two tables for which the paper has it.

    Parameters
    ----------
    records
        What it is made of.
    part
        `observed`, of which the paper's are in brackets (its spreads are over columns, not over
        folds), or `missing`.
    """
    rows = []
    for table in ("bank", "avocado"):
        for kind in KINDS:
            _, folds, *cells = _score_row(records, f"paper_nll_{part}_{kind}", table, MODELS, 2)
            if folds:
                rows.append([table, kind, folds, *cells])
    return _markdown(["table", "kind", "folds", *MODELS], rows)


class Minutes(NamedTuple):
    """Minutes of training a model on a split, stage 1 included.

    Parameters
    ----------
    folds
        Those it was measured with; where several train at once, each has its share of the time.
    here, paper
        The mean over folds, and what is printed; None where nothing is.
    """

    folds: int
    here: float
    paper: float | None

    @property
    def ratio(self) -> float | None:
        """How many times as long it took in the paper, to two digits."""
        return float(f"{self.paper / self.here:.2g}") if self.paper and self.here else None


def minutes(records: Records, table: str, model: str) -> Minutes | None:
    """Give the minutes of training a model on a split of a table; None where it was not.

    Examples
    --------
    >>> records = [{"table": "wine", "model": "VAEM", "fold": 0, "train_seconds": 23.76}]
    >>> minutes(records, "wine", "VAEM"), minutes(records, "wine", "VAEM").ratio
    (Minutes(folds=1, here=0.396, paper=7.92), 20.0)
    """
    seconds = list(by_fold(records, "train_seconds", table, model).values())
    if not seconds:
        return None
    paper = printed("train_minutes", model, table)
    return Minutes(len(seconds), float(np.mean(seconds)) / 60, paper.mean if paper else None)


def minutes_table(records: Records) -> str:
    """Write minutes of training: here, in brackets the paper's and how many times as long."""
    rows = []
    for table in TABLES:
        found = [minutes(records, table, model) for model in MODELS]
        if any(found):
            rows.append([table, *map(_minutes_cell, found)])
    return _markdown(["table", *MODELS], rows)


def _minutes_cell(found: Minutes | None) -> str:
    if found is None:
        return ""
    told = f"{found.here:.2f}"
    return told if found.ratio is None else f"{told} ({found.paper:.2f}: {found.ratio:g} x)"


def ranking(records: Records, score: str) -> Ranking:
    """Rank the paper's models by a score, on the tables that all have in the same folds."""
    tables, folds, ranks = [], [], []
    for table in TABLES:
        found = [by_fold(records, score, table, model) for model in MODELS]
        if found[0] and all(set(each) == set(found[0]) for each in found):
            tables.append(table)
            folds.append(len(found[0]))
            ranks.append(rankdata([_loss(score, np.mean([*each.values()])) for each in found]))
    return Ranking(tuple(tables), tuple(folds), np.array(ranks).reshape(-1, len(MODELS)))


def rank_table(records: Records) -> str:
    """Write mean ranks with their standard errors, Friedman's p and the critical difference."""
    rows = []
    for score, title in RANKED.items():
        found = ranking(records, score)
        cells = [""] * (len(MODELS) + 2)
        if len(found.tables) == 1:
            cells[: len(MODELS)] = [f"{mean:.1f}" for mean in found.mean]
        elif found.tables:
            pairs = zip(found.mean, found.error, strict=True)
            means = [f"{mean:.1f} ± {error:.1f}" for mean, error in pairs]
            cells = [*means, f"{found.p_value:.2g}", f"{found.difference:.1f}"]
        rows.append([title, str(len(found.tables)), *cells])
    return _markdown(["score", "tables", *MODELS, "Friedman p", "critical difference"], rows)


def verdict(records: Records, score: str, table: str) -> bool | None:
    """Say whether HH-VAEM's mean is not above the paper's by more than the paper's spread.

    Examples
    --------
    >>> record = {"table": "wine", "model": "HH-VAEM", "fold": 0, "paper_nll_target": 0.25}
    >>> verdict([record], "paper_nll_target", "wine")  # 0.20 ± 0.04 is printed
    False
    """
    values, paper = by_fold(records, score, table, PROPOSED), printed(score, PROPOSED, table)
    if not values or paper is None:
        return None
    # What is printed is no binary fraction.
    return bool(np.mean([*values.values()]) <= paper.mean + paper.spread + 1e-9)


def verdict_table(records: Records) -> str:
    """Write HH-VAEM beside the paper: the numbers, a verdict for each table, and a count."""
    words = {None: "", True: "yes", False: "**no**"}
    rows = []
    for table in TABLES:
        cells = []
        for score in JUDGED:
            _, folds, cell = _score_row(records, score, table, [PROPOSED], 2)
            cells += [folds, cell, words[verdict(records, score, table)]]
        if any(cells):
            rows.append([table, *cells])
    head = [each for title in JUDGED.values() for each in ("folds", title, "as good")]
    counts = [_count(records, score, title) for score, title in JUDGED.items()]
    return _markdown(["table", *head], rows) + "\n\n" + " ".join(counts)


def _count(records: Records, score: str, title: str) -> str:
    answers = {table: verdict(records, score, table) for table in TABLES}
    judged = [answer for answer in answers.values() if answer is not None]
    told = f"{title}: as good on {sum(judged)} of {len(judged)} tables"
    worse = ", ".join(table for table, answer in answers.items() if answer is False)
    return f"{told}, not on {worse}." if worse else f"{told}."


def draw_ranks(records: Records) -> Figure:
    """Draw the ranks of the models by four scores: each table's, and their mean."""
    figure = Figure(figsize=(10, 6.6), layout="constrained")
    panels = figure.subplots(2, 2, sharey=True, sharex=True).flat
    for panel, (score, title) in zip(panels, RANKED.items(), strict=True):
        found = ranking(records, score)
        panel.set_title(f"{title}\n{found.tests}", fontsize=10)
        panel.set_xlabel(f"rank, 1 is best ({_counted(found.folds)})", fontsize=9)
        panel.tick_params(labelsize=9, labelbottom=True)
        panel.set(xlim=(0.6, len(MODELS) + 0.4), ylim=(len(MODELS) - 0.5, -0.5))
        panel.set_xticks(range(1, len(MODELS) + 1))
        panel.set_yticks(range(len(MODELS)), MODELS)
        panel.spines[["top", "right"]].set_visible(False)
        if found.tables:
            draw_ranking(panel, found)
    figure.legend(
        handles=[
            Line2D([], [], marker="D", color=HERE, label="mean and standard error over tables"),
            Line2D(
                [], [], marker="o", color="none", markerfacecolor="none", markeredgecolor="grey",
                label="single tables; larger: several",
            ),
            Patch(color=BAND, label="mean not told from the best (Nemenyi, 5 %)"),
        ],
        loc="outside lower center", ncols=3, frameon=False, fontsize=9,
    )  # fmt: skip
    return figure


def _counted(folds: Sequence[int]) -> str:
    """Say how many tables there are, and how many folds they have."""
    if not folds:
        return "no table has it all"
    few, most = min(folds), max(folds)
    tables = f"{len(folds)} table{'s' * (len(folds) > 1)}"
    number = f"{most}" if few == most else f"{few} to {most}"
    return f"{tables}, {number} fold{'s' * (most > 1)}"


def draw_verdict(records: Records) -> Figure:
    """Draw HH-VAEM's scores beside those that the paper prints."""
    figure = Figure(figsize=(10, 4.6), layout="constrained")
    panels = figure.subplots(1, len(JUDGED), sharey=True)
    for panel, (score, title) in zip(panels, JUDGED.items(), strict=True):
        counts = []
        for place, table in enumerate(TABLES):
            number = printed(score, PROPOSED, table)
            if number:
                _draw_number(panel, number, place + 0.15, PAPER)
            values = [*by_fold(records, score, table, PROPOSED).values()]
            if values:
                counts.append(len(values))
                ours = Number(float(np.mean(values)), float(np.std(values)))
                _draw_number(panel, ours, place - 0.15, HERE)
        panel.set_title(f"{title} ({_counted(counts)})", fontsize=10)
        panel.set_xlabel("published NLL, nats; less is better", fontsize=9)
        panel.set_yticks(range(len(TABLES)), TABLES)
        panel.set_ylim(len(TABLES) - 0.5, -0.5)
        panel.tick_params(labelsize=9)
        panel.grid(axis="x", alpha=0.3)
        panel.spines[["top", "right"]].set_visible(False)
    handles = [
        Line2D([], [], marker="o", color=colour, label=f"{PROPOSED}, {where}")
        for colour, where in ((HERE, "here"), (PAPER, "printed in the paper"))
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    return figure


def _draw_number(panel: Axes, number: Number, place: float, colour: str) -> None:
    panel.errorbar(
        [number.mean], [place], xerr=number.spread, fmt="o", color=colour, markersize=4, capsize=2
    )
