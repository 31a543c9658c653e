"""The ranks of models on tables: whether they differ, and which of them do."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from scipy.stats import friedmanchisquare, studentized_range

# How often a difference that is called one is none.
LEVEL = 0.05
HERE, BAND = "#1f6fb2", "#e6e6e6"


@dataclass(frozen=True, eq=False)
class Ranking:
    """The ranks of models on tables by a score, 1 for the best.

    Parameters
    ----------
    tables, folds
        The tables that all models have, and the number of folds of each.
    ranks
        Of the means over folds; models in the paper's order.
    """

    tables: tuple[str, ...]
    folds: tuple[int, ...]
    ranks: Float[np.ndarray, "tables models"]

    @property
    def mean(self) -> Float[np.ndarray, " models"]:
        """The mean over tables."""
        return self.ranks.mean(0)

    @property
    def error(self) -> Float[np.ndarray, " models"]:
        """The standard error of the mean, of at least two tables."""
        return self.ranks.std(0, ddof=1) / np.sqrt(len(self.ranks))

    @property
    def p_value(self) -> float:
        """That of Friedman's test of models that are all the same, of at least two tables."""
        return float(friedmanchisquare(*self.ranks.T).pvalue)

    @property
    def difference(self) -> float:
        """Nemenyi's critical difference between mean ranks."""
        return critical_difference(self.ranks.shape[1], len(self.ranks))

    @property
    def tests(self) -> str:
        """What both tests say, in words."""
        if len(self.tables) < 2:
            return "too few tables for a test"
        return f"Friedman p = {self.p_value:.2g}, critical difference {self.difference:.2f}"


def critical_difference(models: int, tables: int) -> float:
    """Give the difference of mean ranks beyond which two models differ, by Nemenyi's test.

    At a level of 0.05, for all pairs of models together (Demsar 2006).

    Examples
    --------
    >>> round(critical_difference(5, 10), 3)
    1.929
    """
    quantile = float(studentized_range.ppf(1 - LEVEL, models, np.inf)) / np.sqrt(2)
    return float(quantile * np.sqrt(models * (models + 1) / (6 * tables)))


def draw_ranking(panel: Axes, found: Ranking) -> None:
    """Draw the ranks of each table, their means, and which of these are not told from the best."""
    mean, many = found.mean, len(found.tables) > 1
    if many:
        panel.axvspan(mean.min(), mean.min() + found.difference, color=BAND, linewidth=0, zorder=0)
    for place, ranks in enumerate(found.ranks.T):
        at, counts = np.unique(ranks, return_counts=True)
        panel.scatter(
            at, np.full(len(at), place), s=45 * counts, facecolors="none", edgecolors="grey",
            linewidths=0.8, zorder=1,
        )  # fmt: skip
    panel.errorbar(
        mean, range(len(mean)), xerr=found.error if many else None, fmt="D", color=HERE,
        markersize=6, capsize=3, zorder=2,
    )  # fmt: skip
