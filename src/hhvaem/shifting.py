"""What if the holes are not like what is known: draws that are shifted on purpose.

No table can tell whether values are missing because of what they are. A delta analysis says by how
much they would differ from what the model expects, and looks at what becomes of the conclusions; at
the tipping point they change. A column's missing values are drawn, shifted, and then taken as known
when the other holes of the row are drawn.
"""

import datetime as dt
from collections.abc import Mapping
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
from jaxtyping import Float

from hhvaem.containers import listed, shown, some
from hhvaem.encoding import TableDraws, TableMask, TableValues
from hhvaem.errors import InputError
from hhvaem.fitting import Fitted
from hhvaem.posterior import How
from hhvaem.preparing import Part
from hhvaem.schema import LEVELLED, Column, Schema

# Whole numbers up to it are floats, each of them; and the largest float of all.
_EXACT, _LARGEST = 2**53 - 1, float(np.finfo(np.float64).max)
# Microseconds from the first date to the last.
_ALL_DATES = (dt.datetime.max - dt.datetime.min) / dt.timedelta(microseconds=1)

# Of a number what is added; of levels what is added to the log odds of each.
Shifts = dict[int, float | Float[np.ndarray, " levels"]]


def checked_shifts(shift: Any, schema: Schema) -> Shifts:
    """Read what columns are shifted by.

    Parameters
    ----------
    shift
        By the name of a column: of numbers what is added, of dates a `timedelta`, of levels a
        mapping of levels to what is added to their log odds.
    schema
        The columns.

    Returns
    -------
    Shifts
        By the place of a column among those that are modelled.

    Raises
    ------
    InputError
        Naming a column that is not there or is not shifted so.

    Examples
    --------
    >>> columns = (Column("crp", "positive"), Column("smoker", "binary", levels=("no", "yes")))
    >>> checked_shifts({"crp": 5, "smoker": {"yes": 0.7}}, Schema(columns))
    {0: 5.0, 1: array([0. , 0.7])}
    """
    if not isinstance(shift, Mapping):
        raise InputError(
            f"shift={shown(shift)} does not say what to shift; give a mapping such as "
            "{'income': 100}."
        )
    places = {column.name: j for j, column in enumerate(schema.modelled)}
    shifts: Shifts = {}
    for key, by in shift.items():
        name = str(key)
        if name not in places:
            raise InputError(
                f"There is no column {name!r} whose holes could be shifted; there are "
                f"{some(list(places))}."
            )
        column = schema.modelled[places[name]]
        shifts[places[name]] = _odds(column, by) if column.kind in LEVELLED else _added(column, by)
    return shifts


def shifted(
    fitted: Fitted, part: Part, drawn: TableDraws, shifts: Shifts, how: How, offset: int = 0
) -> TableDraws:
    """Shift draws of some columns' holes, and draw the other holes of their rows again.

    Parameters
    ----------
    fitted
        The model.
    part
        Rows with holes.
    drawn
        Their draws, which take turns among members.
    shifts
        What columns are shifted by.
    how
        How draws are made.
    offset
        As for `Fitted.cases`.
    """
    columns, values, mask = part
    drawn = drawn.copy()
    rng = np.random.default_rng([fitted.seed, offset])
    known = mask.copy()
    for j, by in shifts.items():
        holes = np.flatnonzero(~mask[:, j])
        known[:, j] = True
        if isinstance(by, float):
            drawn[:, holes, j] = _moved(columns[j], drawn[:, holes, j], by)
        elif holes.size:
            shares = _tilted(_shares(fitted, values[holes], mask[holes], j, how), by)
            edges = np.cumsum(shares / shares.sum(1, keepdims=True), axis=1)[:, :-1]
            lots = rng.random((len(drawn), holes.size))
            drawn[:, holes, j] = (lots[..., None] > edges).sum(-1)
    again = np.flatnonzero((known != mask).any(1) & ~known.all(1))
    if again.size:
        drawn[:, again] = _drawn_again(fitted, drawn[:, again], known[again], how, offset)
    return drawn


def _moved(
    column: Column, drawn: Float[np.ndarray, "draws holes"], by: float
) -> Float[np.ndarray, "draws holes"]:
    """Add to numbers, and give the legal ones that are nearest."""
    lower, upper, step = column.support
    with np.errstate(over="ignore"):
        moved = np.clip(drawn + by, -_LARGEST, _LARGEST)
    if step:
        moved = np.round(moved / step) * step
        if column.kind != "datetime":
            # But for a column that has larger numbers itself.
            most = np.where(np.abs(drawn) > _EXACT, np.inf, np.floor(_EXACT / step) * step)
            moved = np.clip(moved, -most, most)
    return np.clip(moved, lower, upper)


def _tilted(
    shares: Float[np.ndarray, "rows levels"], by: Float[np.ndarray, " levels"]
) -> Float[np.ndarray, "rows levels"]:
    """Add to the log odds of levels; the results are in proportion to probabilities."""
    with np.errstate(divide="ignore", over="ignore"):
        odds = np.log(shares) + by
        return np.exp(odds - odds.max(1, keepdims=True))


def _shares(
    fitted: Fitted, values: TableValues, mask: TableMask, j: int, how: How
) -> Float[np.ndarray, "rows levels"]:
    """Give the probabilities of the levels of a column."""
    found = [
        law.shares(j, np.arange(part.stop - part.start))
        for part, law, _ in fitted.laws(values, mask, how)
    ]
    return np.concatenate(found)


def _drawn_again(
    fitted: Fitted, drawn: TableDraws, known: TableMask, how: How, offset: int
) -> TableDraws:
    """Draw what is not known of each draw of each row: a case of its own, given all else."""
    draws, rows, columns = drawn.shape
    cases, seen = drawn.reshape(-1, columns), np.tile(known, (draws, 1))
    member = np.repeat(np.arange(draws) % fitted.members, rows)
    for part, cells, _ in fitted.cases(cases, seen, replace(how, chains=1), offset):
        own = cells[member[part], np.arange(part.stop - part.start)]
        cases[part] = np.where(seen[part], cases[part], own)
    return cases.reshape(drawn.shape)


def _added(column: Column, by: Any) -> float:
    if column.kind == "datetime":
        time = _microseconds(by)
        if time is None:
            raise InputError(
                f"Column {column.name!r} holds dates, which {shown(by)} does not shift; give a "
                "datetime.timedelta."
            )
        if abs(time) > _ALL_DATES:
            raise InputError(
                f"Column {column.name!r} holds dates, which {shown(by)} shifts beyond the first or "
                "the last date that there is; give a shorter time."
            )
        return time
    number = _finite(by)
    if number is None:
        raise InputError(
            f"Column {column.name!r} holds numbers, which {shown(by)} does not shift; give a "
            "number to add."
        )
    return number


def _microseconds(by: Any) -> float | None:
    """Give a time in microseconds; None where it is none, or its unit has no fixed length."""
    if isinstance(by, dt.timedelta):
        return by / dt.timedelta(microseconds=1)
    if not isinstance(by, np.timedelta64) or np.isnat(by):
        return None
    if np.datetime_data(by.dtype)[0] in ("generic", "Y", "M"):
        return None
    # In floats, which do not wrap around.
    unit = np.ones((), by.dtype) / np.timedelta64(1, "us")
    return float(by.astype(np.int64)) * float(unit)


def _finite(by: Any) -> float | None:
    """Give a number as a float; None where it is none, or no finite one."""
    if not isinstance(by, Real) or isinstance(by, bool):
        return None
    try:
        number = float(by)
    except OverflowError:  # an integer beyond all floats
        return None
    return number if np.isfinite(number) else None


def _odds(column: Column, by: Any) -> Float[np.ndarray, " levels"]:
    if not isinstance(by, Mapping):
        raise InputError(
            f"Column {column.name!r} has levels, which {shown(by)} does not shift; give what to "
            f"add to their log odds, such as {{{column.levels[-1]!r}: 0.5}}."
        )
    odds = np.zeros(len(column.levels))
    for level, added in by.items():
        if level not in column.levels:
            raise InputError(
                f"{shown(level)} is no level of {column.name!r}; those are "
                f"{listed(list(map(repr, column.levels)))}."
            )
        number = _finite(added)
        if number is None:
            raise InputError(
                f"The log odds of {shown(level)} in {column.name!r} cannot be shifted by "
                f"{shown(added)}; give a number."
            )
        odds[column.levels.index(level)] = number
    return odds
