"""How good fills, draws and predictions are, whoever made them: scores of hidden cells and targets.

Draws come first in a shape: [draws, cells], or [draws, rows, columns]. `hidden` is True where a
cell was hidden from the imputer and is scored; no other cell is looked at. Levels are their index.
Of every score but accuracy, AUROC and coverage, less is better.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from numpy.typing import ArrayLike
from scipy.spatial.distance import pdist
from sklearn.metrics import roc_auc_score

from hhvaem.checks import check_count
from hhvaem.errors import InputError
from hhvaem.schema import LEVELLED, Column
from hhvaem.scored import (
    check_cells,
    check_level,
    check_overflow,
    check_some,
    checked_table,
    draws_and_truth,
    draws_of_cells,
    hidden_cells,
    numbers,
    predictions,
    probabilities_and_truth,
)

Cells = Float64[np.ndarray, " cells"]
Scores = dict[str, int | float]

# Central intervals whose coverage and width are reported.
_INTERVALS = {"50": 0.5, "90": 0.9}


def crps(draws: ArrayLike, truth: ArrayLike) -> Cells:
    """Score draws of numbers by the continuous ranked probability score.

    The fair estimate: E|X - x| - E|X - X'| / 2, where X and X' are different draws. Few draws or
    many, its expectation is the score of the law they come from; that of a single cell can be
    negative.

    Parameters
    ----------
    draws
        At least two of each cell, [draws, cells].
    truth
        What was there, [cells].

    Returns
    -------
    Cells
        The score of each cell, in the units of the cell.

    Raises
    ------
    InputError
        Where shapes do not fit together, a number is not finite, or there are fewer than two draws.

    Examples
    --------
    >>> crps([[0.0, 5.0], [2.0, 5.0]], [1.0, 8.0])
    array([0., 3.])
    """
    x, y = draws_of_cells(draws, truth)
    count = len(x)
    # The i-th smallest is the larger one of i pairs, and the smaller one of all its others.
    larger = 2.0 * np.arange(count) - (count - 1)
    with np.errstate(over="ignore", invalid="ignore"):
        away = np.sort(x - y, axis=0)
        scores = np.abs(away).mean(0) - larger @ away / (count * (count - 1))
    check_overflow(scores)
    return scores


def brier(draws: ArrayLike, truth: ArrayLike) -> Cells:
    """Score draws of levels by the Brier score: the sum over levels of (share - hit)^2.

    The fair estimate, as of `crps`: its expectation does not depend on how many draws there are.

    Parameters
    ----------
    draws
        Levels, at least two of each cell, [draws, cells].
    truth
        The levels that were there, [cells].

    Returns
    -------
    Cells
        The score of each cell.

    Raises
    ------
    InputError
        Where shapes do not fit together, a number is not finite, or there are fewer than two draws.

    Examples
    --------
    >>> brier([[0, 2, 1], [0, 2, 0]], [0, 1, 0])
    array([0., 2., 0.])
    """
    x, y = draws_of_cells(draws, truth)
    count = len(x)
    alike = np.zeros(y.shape)
    for level in np.unique(x):
        times = (x == level).sum(0)
        alike += times * (times - 1)
    return 1 - 2 * (x == y).mean(0) + alike / (count * (count - 1))


def energy_score(
    draws: ArrayLike, truth: ArrayLike, hidden: ArrayLike
) -> Float64[np.ndarray, " rows"]:
    """Score joint draws of the hidden numbers of each row by the energy score.

    The fair estimate: E||X - x|| - E||X - X'|| / 2 over the hidden cells of a row, where X and X'
    are different draws. Of a single cell it is the CRPS. Columns count by their units: divide by
    their scales first.

    Parameters
    ----------
    draws
        At least two of each row, [draws, rows, columns].
    truth
        What was there, [rows, columns].
    hidden
        The cells that count, [rows, columns].

    Returns
    -------
    Float64[np.ndarray, " rows"]
        The score of each row; NaN where none of its cells is hidden.

    Raises
    ------
    InputError
        Where shapes do not fit together, no cell is hidden, a number of a hidden cell is not
        finite, or there are fewer than two draws.

    Examples
    --------
    >>> truth = np.array([[0.0, 0.0], [9.0, 9.0]])
    >>> draws = np.array([[[3.0, 4.0], [9.0, 9.0]], [[3.0, 4.0], [7.0, 9.0]]])
    >>> energy_score(draws, truth, [[True, True], [True, False]])
    array([5., 0.])
    """
    x, y = draws_and_truth(draws, truth, axes=2)
    at = hidden_cells(hidden, y.shape)
    known = np.isfinite(x).all(0) & np.isfinite(y)
    if not known[at].all():
        row, column = np.argwhere(at & ~known)[0]
        raise InputError(
            f"The hidden cell in row {row}, column {column} (both counted from 0) has a truth or "
            "a draw that is not finite; hide only cells that are known and drawn."
        )
    scores = np.full(len(y), np.nan)
    # Row by row: the distances between all draws of all rows would not fit into memory.
    rows = np.flatnonzero(at.any(1))
    with np.errstate(over="ignore", invalid="ignore"):
        for row in rows:
            away = x[:, row][:, at[row]] - y[row, at[row]]
            scores[row] = np.linalg.norm(away, axis=1).mean() - pdist(away).mean() / 2
    check_overflow(scores[rows])
    return scores


def pit(draws: ArrayLike, truth: ArrayLike, rng: np.random.Generator) -> Cells:
    """Place each truth among its draws: the randomised probability integral transform.

    It is (rank + U) / (draws + 1), with U uniform and the rank among equal values drawn by lot. If
    truth and draws come from one law, whatever law and however many draws, it is uniform.

    Parameters
    ----------
    draws
        At least two of each cell, [draws, cells]. Values that are the same must be equal to the
        last digit.
    truth
        What was there, [cells].
    rng
        What draws the lots.

    Returns
    -------
    Cells
        The place of each truth, from 0 to 1.

    Raises
    ------
    InputError
        Where shapes do not fit together, a number is not finite, there are fewer than two draws, or
        `rng` is no generator.

    Examples
    --------
    >>> places = pit([[1.0, 5.0], [2.0, 5.0], [3.0, 5.0]], [9.0, 5.0], np.random.default_rng(0))
    >>> bool(0.75 <= places[0] <= 1.0), bool(0.0 <= places[1] <= 1.0)
    (True, True)
    """
    low, high = _pit_ends(*draws_of_cells(draws, truth))
    if not isinstance(rng, np.random.Generator):
        raise InputError(f"rng={rng!r} is no generator; give numpy.random.default_rng(seed).")
    return low + (high - low) * rng.random(low.shape)


def coverage(pit: ArrayLike, level: float) -> float:
    """Give the share of truths inside their central intervals of a level, by their `pit`.

    Raises
    ------
    InputError
        Where the level is not between 0 and 1, there is no cell, or a place is not from 0 to 1.

    Examples
    --------
    >>> coverage([0.02, 0.3, 0.5, 0.9], level=0.9)
    0.75
    """
    check_level(level)
    places = numbers("pit", pit, axes=1)
    check_some(places)
    legal = (places >= 0) & (places <= 1)
    if not legal.all():
        cell = int(np.argmin(legal))
        raise InputError(
            f"`pit` is {places[cell]:g} in cell {cell} (counted from 0); give what `pit` returns, "
            "from 0 to 1."
        )
    return float((np.abs(places - 0.5) < level / 2).mean())


def rmse_by_column(
    columns: Sequence[Column],
    truth: ArrayLike,
    hidden: ArrayLike,
    point: ArrayLike,
    scale: ArrayLike,
) -> dict[str, Scores]:
    """Give the error of the fills of each column: of numbers the RMSE, of levels the error rate.

    Parameters
    ----------
    columns
        What the columns are, as in `Schema.modelled`.
    truth
        What was there, [rows, columns].
    hidden
        The cells that are scored, [rows, columns].
    point
        What they were filled with, [rows, columns].
    scale
        The unit of each number's RMSE, the standard deviation of its training cells, [columns];
        what it holds for levels does not count.

    Returns
    -------
    dict[str, Scores]
        For each column that has a hidden cell, by name: `cells`, and `rmse` or `error_rate`.

    Raises
    ------
    InputError
        Where shapes do not fit together, no cell is hidden, a hidden cell lacks its truth or its
        fill or has a level that does not exist, a scale is not above 0, or a column with a hidden
        cell is constant or ignored.

    Examples
    --------
    >>> columns = [Column("age", "count"), Column("sex", "binary", levels=("f", "m"))]
    >>> truth, point = [[40.0, 0], [60.0, 1]], [[46.0, 1], [52.0, 1]]
    >>> rmse_by_column(columns, truth, np.ones((2, 2), bool), point, [10.0, np.nan])["age"]
    {'cells': 2, 'rmse': 0.7071067811865476}
    """
    y, p, at, units = checked_table(columns, truth, hidden, point, scale)
    scores: dict[str, Scores] = {}
    for j, column in enumerate(columns):
        rows = at[:, j]
        if not rows.any():
            continue
        cells = {"cells": int(rows.sum())}
        if column.kind in LEVELLED:
            scores[column.name] = cells | {"error_rate": float((p[rows, j] != y[rows, j]).mean())}
        else:
            scores[column.name] = cells | {"rmse": rmse(p[rows, j], y[rows, j]) / float(units[j])}
    return scores


@dataclass(frozen=True)
class Report:
    """The scores of the hidden cells of a table.

    Parameters
    ----------
    table
        `rmse_missing`, the mean over columns of RMSE in units of `scale` and error rates; of each
        score of `by_column` the mean over the columns that have it; `energy_score`, the mean over
        rows with a hidden number, in units of `scale`; `cells` and `columns`, how many there are,
        and `columns_left_out`, how many have no hidden cell.
    by_kind
        The same means for `numbers`, `binary`, `categorical` and `ordinal`, as far as there are
        any, with their `cells` and `columns`.
    by_column
        For each column that has a hidden cell: `cells`; of numbers `rmse`, `crps`, `coverage50`,
        `coverage90`, and `width50` and `width90` of these intervals, in units of `scale`; of levels
        `error_rate` and `brier`.
    """

    table: Scores
    by_kind: dict[str, Scores]
    by_column: dict[str, Scores]


def score_cells(
    columns: Sequence[Column],
    truth: ArrayLike,
    hidden: ArrayLike,
    point: ArrayLike,
    draws: ArrayLike | None,
    scale: ArrayLike,
) -> Report:
    """Score what an imputer says of the hidden cells of a table.

    Parameters
    ----------
    columns, truth, hidden, point, scale
        As for `rmse_by_column`.
    draws
        At least two for each cell, [draws, rows, columns]; None where there are fills only, which
        are scored by `rmse`, `error_rate` and `rmse_missing`.

    Returns
    -------
    Report
        Scores of the table, of kinds and of columns. Coverage is that of `pit`, averaged over its
        lots, so that the scores depend on nothing but what is given.

    Raises
    ------
    InputError
        As for `rmse_by_column`; and where draws do not fit, are fewer than two, or are not finite
        or of no existing level in a hidden cell.

    Examples
    --------
    >>> columns = [Column("age", "count"), Column("sex", "binary", levels=("f", "m"))]
    >>> truth = np.array([[40.0, 0], [60.0, 1]])
    >>> hidden = np.array([[True, False], [True, False]])
    >>> point, draws = truth + 5.0, np.stack([truth, truth + 10.0])
    >>> report = score_cells(columns, truth, hidden, point, draws, scale=[10.0, np.nan])
    >>> report.table["rmse_missing"], report.table["crps"], report.table["columns_left_out"]
    (0.5, 0.0, 1)
    """
    by_column = rmse_by_column(columns, truth, hidden, point, scale)
    rmses = [scores.get("rmse", scores.get("error_rate", np.nan)) for scores in by_column.values()]
    table: Scores = {"rmse_missing": float(np.mean(rmses))}
    if draws is not None:
        x, y = draws_and_truth(draws, truth, axes=2)
        at, units = np.asarray(hidden), np.asarray(scale, np.float64)
        for j, column in enumerate(columns):
            rows = np.flatnonzero(at[:, j])
            if rows.size:
                check_cells("draws", x[:, rows, j], column, rows)
                by_column[column.name] |= _scores(column, x[:, rows, j], y[rows, j], units[j])
        numbers = [j for j, column in enumerate(columns) if column.kind not in LEVELLED]
        numbers = [j for j in numbers if at[:, j].any()]
        if numbers:
            unit = units[numbers]
            energy = energy_score(x[..., numbers] / unit, y[:, numbers] / unit, at[:, numbers])
            table["energy_score"] = float(np.nanmean(energy))
    table |= _means(by_column.values()) | {"columns_left_out": len(columns) - len(by_column)}
    groups: dict[str, list[Scores]] = {}
    for column in columns:
        if column.name in by_column:
            group = column.kind if column.kind in LEVELLED else "numbers"
            groups.setdefault(group, []).append(by_column[column.name])
    return Report(table, {group: _means(of) for group, of in groups.items()}, by_column)


def rmse(prediction: ArrayLike, truth: ArrayLike) -> float:
    """Give the root of the mean squared error.

    Raises
    ------
    InputError
        Where shapes do not fit together, there is nothing to score, or a number is not finite.

    Examples
    --------
    >>> rmse([1.0, 2.0, 3.0], [1.0, 2.0, 6.0])
    1.7320508075688772
    """
    guess, y = predictions(prediction, truth)
    with np.errstate(over="ignore"):
        error = np.sqrt(np.mean((guess - y) ** 2))
    check_overflow(error)
    return float(error)


def accuracy(prediction: ArrayLike, truth: ArrayLike) -> float:
    """Give the share of levels that are predicted rightly.

    Raises
    ------
    InputError
        Where shapes do not fit together, there is nothing to score, or a number is not finite.

    Examples
    --------
    >>> accuracy([0, 2, 1, 1], [0, 2, 1, 0])
    0.75
    """
    guess, y = predictions(prediction, truth)
    return float((guess == y).mean())


def auroc(probabilities: ArrayLike, truth: ArrayLike) -> float:
    """Give the area under the receiver operating characteristic.

    With more than two levels the mean over those that occur, each against all others.

    Parameters
    ----------
    probabilities
        Of each level, [rows, levels].
    truth
        The levels that were there, [rows].

    Returns
    -------
    float
        From 0 to 1, 1/2 for guesses; NaN where only one level occurs.

    Raises
    ------
    InputError
        Where shapes do not fit together, there is nothing to score, probabilities are none, or a
        level does not exist.

    Examples
    --------
    >>> auroc([[0.9, 0.1], [0.6, 0.4], [0.65, 0.35], [0.2, 0.8]], [0, 0, 1, 1])
    0.75
    """
    shares, y = probabilities_and_truth(probabilities, truth)
    levels = np.unique(y).astype(int)
    if levels.size < 2:
        return float("nan")
    return float(np.mean([roc_auc_score(y == level, shares[:, level]) for level in levels]))


def expected_calibration_error(probabilities: ArrayLike, truth: ArrayLike, bins: int = 10) -> float:
    """Give how far the probability of the most probable level is from the share of hits.

    Rows are put into bins of equal width by that probability; the distances between its mean and
    the share of hits are averaged over bins, weighted by rows.

    Parameters
    ----------
    probabilities
        Of each level, [rows, levels].
    truth
        The levels that were there, [rows].
    bins
        How many.

    Raises
    ------
    InputError
        Where shapes do not fit together, there is nothing to score, probabilities are none, a
        level does not exist, or there is no bin.

    Examples
    --------
    >>> round(expected_calibration_error([[0.9, 0.1], [0.3, 0.7]], [0, 0]), 3)
    0.4
    """
    shares, y = probabilities_and_truth(probabilities, truth)
    edges = np.linspace(0.0, 1.0, check_count("bins", bins, 1) + 1)[1:-1]
    confidence, hit = shares.max(1), shares.argmax(1) == y
    gaps = np.bincount(np.searchsorted(edges, confidence), weights=confidence - hit)
    return float(np.abs(gaps).sum() / y.size)


def _scores(column: Column, x: Float64[np.ndarray, "draws cells"], y: Cells, unit: float) -> Scores:
    """Score the draws of one column."""
    if column.kind in LEVELLED:
        return {"brier": float(brier(x, y).mean())}
    scores: Scores = {"crps": float((crps(x, y) / unit).mean())}
    low, high = _pit_ends(x, y)
    for name, level in _INTERVALS.items():
        ends = 0.5 - level / 2, 0.5 + level / 2
        # How much of the stretch on which `pit` is uniform lies inside.
        inside = np.minimum(high, ends[1]) - np.maximum(low, ends[0])
        scores["coverage" + name] = float((np.maximum(inside, 0.0) / (high - low)).mean())
        # Weibull's quantiles have ranks over draws + 1, as `pit` has.
        reach = np.diff(np.quantile(x, ends, axis=0, method="weibull"), axis=0)
        scores["width" + name] = float((reach / unit).mean())
    return scores


def _pit_ends(x: Float64[np.ndarray, "draws cells"], y: Cells) -> tuple[Cells, Cells]:
    """Give the ends of the stretch on which the `pit` of each cell is uniform."""
    ranks = len(x) + 1
    return (x < y).sum(0) / ranks, ((x <= y).sum(0) + 1) / ranks


def _means(each: Iterable[Scores]) -> Scores:
    """Average each score over the columns that have it; count their cells."""
    columns = list(each)
    names = dict.fromkeys(name for scores in columns for name in scores if name != "cells")
    means: Scores = {
        name: float(np.mean([scores[name] for scores in columns if name in scores]))
        for name in names
    }
    return means | {"cells": sum(scores["cells"] for scores in columns), "columns": len(columns)}
