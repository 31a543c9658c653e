"""How good fills, draws and predictions are, whoever made them: scores of hidden cells and targets.

Draws come first in a shape: [draws, cells], or [draws, rows, columns]. `hidden` is True where a
cell was hidden from the imputer and is scored; no other cell is looked at. Levels are their index.
Of every score but accuracy, AUROC and coverage, less is better.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64
from numpy.typing import ArrayLike
from scipy.spatial.distance import pdist
from sklearn.metrics import roc_auc_score

from hhvaem.checks import check_count
from hhvaem.containers import repeated
from hhvaem.errors import InputError
from hhvaem.schema import LEVELLED, Column

Cells = Float64[np.ndarray, " cells"]
Scores = dict[str, int | float]

# Central intervals whose coverage and width are reported.
_INTERVALS = {"50": 0.5, "90": 0.9}
# Shares of float32 add up to 1 within this.
_ROUNDING = 1e-4


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
    x, y = _draws_of_cells(draws, truth)
    away = np.sort(x - y, axis=0)
    count = len(away)
    # The i-th smallest is the larger one of i pairs, and the smaller one of all its others.
    larger = 2.0 * np.arange(count) - (count - 1)
    return np.abs(away).mean(0) - larger @ away / (count * (count - 1))


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
    x, y = _draws_of_cells(draws, truth)
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
    x, y = _draws_and_truth(draws, truth, axes=2)
    at = _hidden(hidden, y.shape)
    known = np.isfinite(x).all(0) & np.isfinite(y)
    if not known[at].all():
        row, column = np.argwhere(at & ~known)[0]
        raise InputError(
            f"The hidden cell in row {row}, column {column} (both counted from 0) has a truth or "
            "a draw that is not finite; hide only cells that are known and drawn."
        )
    scores = np.full(len(y), np.nan)
    # Row by row: the distances between all draws of all rows would not fit into memory.
    for row in np.flatnonzero(at.any(1)):
        away = x[:, row][:, at[row]] - y[row, at[row]]
        scores[row] = np.linalg.norm(away, axis=1).mean() - pdist(away).mean() / 2
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
        Where shapes do not fit together, a number is not finite, or there are fewer than two draws.

    Examples
    --------
    >>> places = pit([[1.0, 5.0], [2.0, 5.0], [3.0, 5.0]], [9.0, 5.0], np.random.default_rng(0))
    >>> bool(0.75 <= places[0] <= 1.0), bool(0.0 <= places[1] <= 1.0)
    (True, True)
    """
    low, high = _pit_ends(*_draws_of_cells(draws, truth))
    return low + (high - low) * rng.random(low.shape)


def coverage(pit: ArrayLike, level: float) -> float:
    """Give the share of truths inside their central intervals of a level, by their `pit`.

    Raises
    ------
    InputError
        Where the level is not between 0 and 1, or there is no cell.

    Examples
    --------
    >>> coverage([0.02, 0.3, 0.5, 0.9], level=0.9)
    0.75
    """
    if not 0 < level < 1:
        raise InputError(f"level={level!r} must lie between 0 and 1.")
    places = _numbers("pit", pit, axes=1)
    _check_some(places)
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
    y, p, at, units = _checked_table(columns, truth, hidden, point, scale)
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
        x, y = _draws_and_truth(draws, truth, axes=2)
        at, units = np.asarray(hidden), np.asarray(scale, np.float64)
        for j, column in enumerate(columns):
            rows = np.flatnonzero(at[:, j])
            if rows.size:
                _check_cells("draws", x[:, rows, j], column, rows)
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
    guess, y = _predictions(prediction, truth)
    return float(np.sqrt(np.mean((guess - y) ** 2)))


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
    guess, y = _predictions(prediction, truth)
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
    shares, y = _probabilities(probabilities, truth)
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
    shares, y = _probabilities(probabilities, truth)
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


def _numbers(name: str, values: ArrayLike, axes: int) -> np.ndarray:
    try:
        found = np.asarray(values, np.float64)
    except (ValueError, TypeError) as error:
        raise InputError(
            f"`{name}` must be an array of numbers; levels are their index."
        ) from error
    if found.ndim != axes:
        raise InputError(f"`{name}` has {found.ndim} axes; it needs {axes}.")
    return found


def _check_some(values: np.ndarray) -> None:
    if not values.size:
        raise InputError("There is nothing to score: no cell is given.")


def _check_finite(name: str, finite: Bool[np.ndarray, " cells"]) -> None:
    if not finite.all():
        raise InputError(
            f"`{name}` is not finite in cell {int(np.argmin(finite))} (counted from 0); leave such "
            "cells out."
        )


def _draws_and_truth(
    draws: ArrayLike, truth: ArrayLike, axes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Give both as arrays of shapes that fit together."""
    x, y = _numbers("draws", draws, axes + 1), _numbers("truth", truth, axes)
    if x.shape[1:] != y.shape:
        raise InputError(
            f"`draws` has shape {x.shape} and `truth` {y.shape}; the draws of each cell must stand "
            "in the first axis, and the others be alike."
        )
    if len(x) < 2:
        raise InputError(f"`draws` has {len(x)} of each cell; give at least 2.")
    return x, y


def _draws_of_cells(draws: ArrayLike, truth: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    x, y = _draws_and_truth(draws, truth, axes=1)
    _check_finite("truth", np.isfinite(y))
    _check_finite("draws", np.isfinite(x).all(0))
    return x, y


def _predictions(prediction: ArrayLike, truth: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    guess, y = _numbers("prediction", prediction, 1), _numbers("truth", truth, 1)
    if guess.shape != y.shape:
        raise InputError(
            f"`prediction` has {guess.size} cells and `truth` {y.size}; give one for each."
        )
    _check_some(y)
    _check_finite("truth", np.isfinite(y))
    _check_finite("prediction", np.isfinite(guess))
    return guess, y


def _probabilities(probabilities: ArrayLike, truth: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    shares, y = _numbers("probabilities", probabilities, 2), _numbers("truth", truth, 1)
    if len(shares) != len(y):
        raise InputError(
            f"`probabilities` has {len(shares)} rows and `truth` {len(y)}; give one for each."
        )
    _check_some(y)
    legal = (shares >= 0).all(1) & (np.abs(shares.sum(1) - 1) < _ROUNDING)
    if not legal.all():
        raise InputError(
            f"`probabilities` of row {int(np.argmin(legal))} (counted from 0) are negative or do "
            "not add up to 1; give one for each level."
        )
    exists = np.isin(y, np.arange(shares.shape[1]))
    if not exists.all():
        row = int(np.argmin(exists))
        raise InputError(
            f"`truth` is {y[row]:g} in row {row} (counted from 0); give the index of one of the "
            f"{shares.shape[1]} levels."
        )
    return shares, y


def _hidden(hidden: ArrayLike, shape: tuple[int, ...]) -> Bool[np.ndarray, "rows columns"]:
    at = np.asarray(hidden)
    if at.dtype != bool or at.shape != shape:
        raise InputError(
            f"`hidden` is {at.dtype} of shape {at.shape}; give True or False for each cell of "
            f"`truth`, {shape}."
        )
    if not at.any():
        raise InputError("There is nothing to score: no cell is hidden.")
    return at


def _checked_table(
    columns: Sequence[Column],
    truth: ArrayLike,
    hidden: ArrayLike,
    point: ArrayLike,
    scale: ArrayLike,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Give truth, fills, hidden cells and scales as arrays that fit together."""
    y, p = _numbers("truth", truth, 2), _numbers("point", point, 2)
    units = _numbers("scale", scale, 1)
    if p.shape != y.shape or y.shape[1] != len(columns) or units.size != len(columns):
        raise InputError(
            f"`truth` has shape {y.shape}, `point` {p.shape} and `scale` {units.shape} for "
            f"{len(columns)} columns; give one of each for every column."
        )
    twice = repeated(column.name for column in columns)
    if twice:
        raise InputError(f"`columns` has more than one column named {twice}; rename them apart.")
    at = _hidden(hidden, y.shape)
    for j, column in enumerate(columns):
        rows = np.flatnonzero(at[:, j])
        if not rows.size:
            continue
        if not column.modelled:
            raise InputError(
                f"Column {column.name!r} is {column.kind} and has hidden cells; leave it out."
            )
        if column.kind not in LEVELLED and not 0 < units[j] < np.inf:
            raise InputError(
                f"`scale` is {units[j]:g} for column {column.name!r}; give the standard deviation "
                "of its training cells, or leave the column out if that is 0."
            )
        _check_cells("truth", y[None, rows, j], column, rows)
        _check_cells("point", p[None, rows, j], column, rows)
    return y, p, at, units


def _check_cells(
    name: str, values: Float64[np.ndarray, "draws cells"], column: Column, rows: np.ndarray
) -> None:
    """Refuse hidden cells without a number, or with a level that does not exist."""
    levels = len(column.levels)
    is_level = column.kind in LEVELLED
    legal = np.isin(values, np.arange(levels)) if is_level else np.isfinite(values)
    if legal.all():
        return
    draw, cell = np.argwhere(~legal)[0]
    wanted = f"the index of one of its {levels} levels" if is_level else "a finite number"
    way_out = f"hide only cells that hold {wanted}" if name == "truth" else f"give {wanted}"
    raise InputError(
        f"`{name}` has {values[draw, cell]:g} in the hidden cell of column {column.name!r}, row "
        f"{rows[cell]} (counted from 0); {way_out}."
    )
