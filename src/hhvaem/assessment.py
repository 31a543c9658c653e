"""How well a table's own cells are filled: hide some, fill them, and compare with what was there.

`assess` is what `Imputer.evaluate` and `hhvaem evaluate` run; `hhvaem.verdicts` puts what it finds
into words.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import ndtr

from hhvaem import fitting
from hhvaem.baselines import BASELINES, Task, check_installed
from hhvaem.checks import check_count
from hhvaem.containers import listed, some
from hhvaem.containers import shown as brief
from hhvaem.encoding import TableDraws, TableMask, TableValues
from hhvaem.errors import InputError
from hhvaem.evaluate import Report, brier, crps, score_cells
from hhvaem.fitting import Fitted
from hhvaem.hiding import Mechanism, hide
from hhvaem.likelihoods import Ordered
from hhvaem.mixtures import rounding_interval
from hhvaem.own_holes import OwnHoles, own_holes
from hhvaem.preparing import Part
from hhvaem.presets import Plan
from hhvaem.schema import LEVELLED, Column, Schema

# What a model is compared with, unless it is told: all that need no package of their own.
COMPARED = ("mean", "gaussian", "ridge", "missforest")
OURS = "hhvaem"
# Draws of each cell that scores of laws are estimated from.
DRAWS = 20
# Levels that no cell was seen to have get a share as if one more had.
PSEUDO_COUNT = 1.0
# What is next to impossible counts as this; one cell must not decide about a column.
LEAST_LOG = -20.0


class Outcome(NamedTuple):
    """How one method filled the hidden cells.

    Parameters
    ----------
    name
        Of the method; `hhvaem` is ours.
    report
        Its scores, by the table, by kinds and by columns.
    seconds
        What fitting and filling took.
    log_scores
        The mean log probability of the hidden cells of each column; None for methods without.
    losses
        Of each hidden cell: the squared error in units of the column's spread, or whether the level
        is wrong; NaN elsewhere.
    spreads
        The CRPS of each hidden number in the same units, or the Brier score of a level; None for
        methods without draws.
    """

    name: str
    report: Report
    seconds: float
    log_scores: dict[str, float] | None
    losses: TableValues
    spreads: TableValues | None


class Calibration(NamedTuple):
    """What a model said of the hidden cells of a column, and what came of it.

    Parameters
    ----------
    places
        Of numbers: the truth's place in the law of the cell, from 0 to 1, uniform if laws are
        right.
    confidence
        Of levels: the probability of the level that was filled in.
    """

    places: Float[np.ndarray, " cells"] | None
    confidence: Float[np.ndarray, " cells"] | None


@dataclass(frozen=True)
class Assessment:
    """What hiding cells of a table has shown.

    Parameters
    ----------
    schema
        What the columns were taken for.
    how, seed
        How cells were hidden.
    rows, known
        Of the table, and how many of its cells were known.
    hidden
        Which cells were; of the modelled columns.
    outcomes
        Ours, and those it is compared with.
    by_mean
        The column means, by which columns are judged whatever else they are compared with.
    calibration
        Of our laws, for each column that has a hidden cell.
    own_holes
        The energy-I-score of each method; empty where it was not asked for.
    """

    schema: Schema
    how: Mechanism
    seed: int
    rows: int
    known: int
    hidden: Bool[np.ndarray, "rows columns"]
    outcomes: tuple[Outcome, ...]
    by_mean: Outcome
    calibration: dict[str, Calibration]
    own_holes: dict[str, OwnHoles]


class Ways(NamedTuple):
    """How to fit ours: its settings, and what watches over it."""

    plan: Plan
    max_seconds: float | None = None
    bar: Callable[[], AbstractContextManager[Any]] = lambda: nullcontext(None)


def assess(
    schema: Schema,
    values: TableValues,
    mask: TableMask,
    ways: Ways,
    *,
    how: Mechanism = "mcar",
    share: float | None = None,
    baselines: Sequence[str] = COMPARED,
    with_own_holes: int = 0,
    seed: int = 0,
    tell: Callable[[str], None] = lambda _: None,
) -> Assessment:
    """Hide cells of a table, fill them, and compare with what was there.

    Parameters
    ----------
    schema, values, mask
        The table, as `hhvaem.table.encode` gives it.
    ways
        How to fit ours.
    how, share
        As for `hhvaem.hiding.hide`.
    baselines
        What to compare with: names of `hhvaem.baselines.BASELINES`, or one of them.
    with_own_holes
        For how many columns, those with the most holes first, to compute the energy-I-score: each
        takes another fit of every method that draws.
    seed
        Where all randomness comes from.
    tell
        Called with what comes next.

    Raises
    ------
    InputError
        Before the work, where there is nothing to hide or to compare with by these arguments, or
        floats do not hold the spread of a column.
    """
    columns = schema.modelled
    if not columns:
        raise InputError("All columns are constant, empty or ignored; there is nothing to hide.")
    baselines = _checked_names(baselines)
    check_count("own_holes", with_own_holes, 0)
    hidden = hide(columns, values, mask, how, share=share, seed=seed)
    seen = mask & ~hidden
    shown = np.where(seen, values, np.nan)
    truth = _Truth(columns, np.where(mask, values, np.nan), hidden, _scale(columns, shown))
    tell(OURS)
    ours, alone, calibration = _ours(truth, Part(columns, shown, seen), ways, seed)

    def filled_by(name: str, logs: dict[str, float] | None) -> Outcome:
        start = time.perf_counter()
        filled = BASELINES[name](Task(columns, shown, seen, shown, seen, DRAWS, seed))
        seconds = time.perf_counter() - start
        return _outcome(name, truth, filled.point, filled.draws, seconds, logs)

    by_mean = filled_by("mean", alone)
    outcomes = [ours]
    for name in dict.fromkeys(baselines):
        if name == "mean":
            outcomes.append(by_mean)
            continue
        tell(name)
        outcomes.append(filled_by(name, None))
    holes: dict[str, OwnHoles] = {}
    if with_own_holes:
        part = Part(columns, np.where(mask, values, np.nan), mask)
        for name, fill in _fillers(ways, baselines):
            tell(f"the table's own holes, {name}")
            holes[name] = own_holes(part, fill, columns=with_own_holes, draws=DRAWS, seed=seed)
    return Assessment(
        schema, how, seed, len(values), int(mask.sum()), hidden, tuple(outcomes), by_mean,
        calibration, holes,
    )  # fmt: skip


def _checked_names(against: Any) -> list[str]:
    """Read what to compare with: names, or a single one."""
    names = [against] if isinstance(against, str) else against
    if not isinstance(names, Iterable):
        raise InputError(
            f"against={brief(against)} does not say what to compare with; give names, such as "
            "['mean', 'gaussian'], or [] for nothing."
        )
    names = list(names)
    unknown = [name for name in names if not isinstance(name, str) or name not in BASELINES]
    if unknown:
        raise InputError(
            f"There is nothing called {some(list(map(brief, unknown)))} to compare with; use "
            f"{listed(list(BASELINES))}."
        )
    check_installed(names)
    return names


class _Truth(NamedTuple):
    """What was there; `scale` is the spread of each number's shown cells."""

    columns: tuple[Column, ...]
    values: TableValues
    hidden: TableMask
    scale: Float[np.ndarray, " columns"]


def _scale(columns: tuple[Column, ...], shown: TableValues) -> Float[np.ndarray, " columns"]:
    levelled = np.array([column.kind in LEVELLED for column in columns])
    with np.errstate(over="ignore"):
        scale = np.where(levelled, 1.0, np.nanstd(shown, axis=0))
    for column, spread in zip(columns, scale, strict=True):
        if np.isinf(spread):
            raise InputError(
                f"Column {column.name!r} has numbers so far apart that their spread is beyond all "
                "floats; give it in larger units."
            )
        if spread == 0:
            raise InputError(
                f"Column {column.name!r} has numbers so close together that their spread is 0 to "
                "floats; give it in smaller units."
            )
    return scale


def _ours(
    truth: _Truth, part: Part, ways: Ways, seed: int
) -> tuple[Outcome, dict[str, float], dict[str, Calibration]]:
    """Fit our model to what is shown, and fill the rest.

    Returns
    -------
    outcome, alone, calibration
        How it went; the log scores of the laws that the columns have by themselves; and what its
        laws said of hidden cells.
    """
    start = time.perf_counter()
    with ways.bar() as progress:
        fitted = fitting.fit(
            part, None, ways.plan, seed=seed, max_seconds=ways.max_seconds, progress=progress
        )
    drawn = _drawn(fitted, part, DRAWS)
    point = part.values.copy()
    log_scores = np.full(point.shape, np.nan)
    places, confidence = np.full(point.shape, np.nan), np.full(point.shape, np.nan)
    lots = np.random.default_rng(seed)
    for rows, law, _ in fitted.laws(part.values, part.mask, _share_of(fitted, None)):
        for j, column in enumerate(part.columns):
            at = np.flatnonzero(truth.hidden[rows, j])
            if not at.size:
                continue
            here, value = np.arange(rows.start, rows.stop)[at], truth.values[rows, j][at]
            point[here, j] = law.filled(j, at)
            if column.kind in LEVELLED:
                shares = law.shares(j, at)
                confidence[here, j] = shares.max(1)
                with np.errstate(divide="ignore"):
                    log_scores[here, j] = np.log(shares[np.arange(at.size), value.astype(int)])
            else:
                low, high = law.ranks(j, at, value)
                places[here, j] = low + (high - low) * lots.random(at.size)
                log_scores[here, j] = law.log_mass(j, at, *_rounded(value, part, j))
    seconds = time.perf_counter() - start
    found = {
        column.name: float(np.maximum(log_scores[truth.hidden[:, j], j], LEAST_LOG).mean())
        for j, column in enumerate(part.columns)
        if truth.hidden[:, j].any()
    }
    calibration = {
        column.name: Calibration(None, confidence[truth.hidden[:, j], j])
        if column.kind in LEVELLED
        else Calibration(places[truth.hidden[:, j], j], None)
        for j, column in enumerate(part.columns)
        if truth.hidden[:, j].any()
    }
    outcome = _outcome(OURS, truth, point, drawn, seconds, found)
    return outcome, _alone(truth, part, fitted), calibration


def _drawn(fitted: Fitted, part: Part, draws: int) -> TableDraws:
    """Draw the holes of rows; members take turns."""
    drawn = np.repeat(part.values[None], draws, axis=0)
    for rows, cells, _ in fitted.cases(part.values, part.mask, _share_of(fitted, draws)):
        drawn[:, rows] = np.where(part.mask[rows], part.values[rows], cells[:draws])
    return drawn


def _share_of(fitted: Fitted, draws: int | None) -> Any:
    """Divide draws among members."""
    how = fitted.plan.how
    return replace(how, chains=-(-(draws or how.chains) // fitted.members))


def _rounded(value: np.ndarray, part: Part, j: int) -> tuple[np.ndarray, np.ndarray]:
    """Give what rounds to each value among those of its column that are shown.

    Densities of values that repeat and of values that do not cannot be compared; masses can.
    """
    return rounding_interval(value, np.unique(part.values[part.mask[:, j], j]))


def _alone(truth: _Truth, part: Part, fitted: Fitted) -> dict[str, float]:
    """Give the mean log probability of hidden cells by the laws of their columns alone."""
    found = {}
    for j, column in enumerate(truth.columns):
        value, known = truth.values[truth.hidden[:, j], j], part.values[part.mask[:, j], j]
        if not value.size:
            continue
        if column.kind in LEVELLED:
            counts = np.bincount(known.astype(int), minlength=len(column.levels)) + PSEUDO_COUNT
            each = np.log(counts / counts.sum())[value.astype(int)]
        else:
            law = fitted.encoding.laws[j]
            assert isinstance(law, Ordered)
            low, high = (ndtr(law.warp.cut(end)) for end in _rounded(value, part, j))
            with np.errstate(divide="ignore"):
                each = np.log(high - low)
        found[column.name] = float(np.maximum(each, LEAST_LOG).mean())
    return found


def _outcome(
    name: str,
    truth: _Truth,
    point: TableValues,
    draws: TableDraws | None,
    seconds: float,
    log_scores: dict[str, float] | None,
) -> Outcome:
    columns, values, hidden, scale = truth
    report = score_cells(columns, values, hidden, point, draws, scale)
    losses = np.full(values.shape, np.nan)
    spreads = None if draws is None else np.full(values.shape, np.nan)
    for j, column in enumerate(columns):
        at = hidden[:, j]
        if not at.any():
            continue
        if column.kind in LEVELLED:
            losses[at, j] = point[at, j] != values[at, j]
        else:
            losses[at, j] = ((point[at, j] - values[at, j]) / scale[j]) ** 2
        if spreads is not None and draws is not None:
            score = brier if column.kind in LEVELLED else crps
            spreads[at, j] = score(draws[:, at, j], values[at, j]) / scale[j]
    return Outcome(name, report, seconds, log_scores, losses, spreads)


def _fillers(
    ways: Ways, baselines: Sequence[str]
) -> Iterator[tuple[str, Callable[[Part, int, int], TableDraws]]]:
    """Give the ways to draw the holes of a table, by name."""

    def ours(part: Part, draws: int, seed: int) -> TableDraws:
        with ways.bar() as progress:
            fitted = fitting.fit(
                part, None, ways.plan, seed=seed, max_seconds=ways.max_seconds, progress=progress
            )
        return _drawn(fitted, part, draws)

    yield OURS, ours
    for name in dict.fromkeys(baselines):
        if name in ("mean", "missforest"):
            continue

        def theirs(part: Part, draws: int, seed: int, name: str = name) -> TableDraws:
            task = Task(*part, part.values, part.mask, draws, seed)
            drawn = BASELINES[name](task).draws
            assert drawn is not None
            return drawn

        yield name, theirs
