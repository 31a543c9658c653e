"""Tables and a figure from the records of `hhvaem paper tables`, and from nothing else."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from scipy.stats import rankdata

from hhvaem.paper.folds import PUBLISHED
from hhvaem.paper.printed import printed
from hhvaem.paper.tables import MODELS

RANKED = {
    "paper_nll_missing": "NLL of missing cells, as published",
    "paper_nll_target": "NLL of the target, as published",
    "log_score_cell": "log score of a missing cell",
    "crps": "CRPS of missing numbers",
}

Records = Sequence[dict[str, Any]]


def by_fold(records: Records, score: str, table: str, model: str) -> Float[np.ndarray, " folds"]:
    """Give a score in all folds of a table and a model that have it."""
    own = [r for r in records if (r["table"], r["model"]) == (table, model) and score in r]
    return np.array([r[score] for r in sorted(own, key=lambda r: r["fold"])], np.float64)


def score_table(records: Records, score: str, models: Sequence[str], digits: int = 2) -> str:
    """Write a table in Markdown: mean and spread over folds, and in brackets the paper's mean."""
    there = [t for t in PUBLISHED if any(by_fold(records, score, t, m).size for m in models)]
    lines = ["| | " + " | ".join(there) + " |", "|---" * (len(there) + 1) + "|"]
    for model in models:
        cells = []
        for table in there:
            values, paper = by_fold(records, score, table, model), printed(score, model, table)
            told = f"{values.mean():.{digits}f} ± {values.std():.{digits}f}" if values.size else ""
            cells.append(f"{told} ({paper.mean:.2f})" if paper and told else told)
        if any(cells):
            lines.append(f"| {model} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def ranks(records: Records, score: str) -> Float[np.ndarray, "tables models"]:
    """Rank the models in each table by their mean over folds, the least first.

    Tables in which a model has no score are left out.
    """
    means = np.array(
        [
            [by_fold(records, score, table, model).mean() for model in MODELS]
            for table in PUBLISHED
            if all(by_fold(records, score, table, model).size for model in MODELS)
        ]
    ).reshape(-1, len(MODELS))
    return np.apply_along_axis(rankdata, 1, means) if len(means) else means


def draw_ranks(records: Records) -> Figure:
    """Draw the mean rank of each model over tables, with its standard error, for four scores."""
    figure = Figure(figsize=(8.5, 3.2), layout="constrained")
    panels = figure.subplots(1, len(RANKED), sharey=True)
    for panel, (score, title) in zip(panels, RANKED.items(), strict=True):
        found = ranks(records, score)
        panel.set_title(title, fontsize=8)
        panel.set_xlabel(f"mean rank of {len(found)} tables", fontsize=8)
        panel.set(xlim=(0.8, 5.2), ylim=(len(MODELS) - 0.5, -0.5), xticks=range(1, 6))
        panel.set_yticks(range(len(MODELS)), list(MODELS))
        panel.tick_params(labelsize=8)
        panel.grid(axis="x", alpha=0.3)
        panel.spines[["top", "right"]].set_visible(False)
        if len(found):
            error = found.std(0, ddof=1) / np.sqrt(len(found)) if len(found) > 1 else None
            panel.errorbar(
                found.mean(0), range(len(MODELS)), xerr=error, fmt="o", color="#1f6fb2", capsize=2
            )
    return figure
