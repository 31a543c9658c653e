"""Answers as people give them, values or texts, and the numbers that a model sees for them."""

import datetime as dt
import re
from numbers import Real
from typing import Any

import numpy as np

from hhvaem.containers import is_unicode, shown
from hhvaem.errors import InputError
from hhvaem.likelihoods import Likelihood, Ordered
from hhvaem.reading import FAMILY
from hhvaem.schema import LEVELLED, Column
from hhvaem.table import decode_value, encode_value, legal

_TRUE, _FALSE = ("true", "yes", "y"), ("false", "no", "n")
# A decimal comma; before three digits it may as well divide thousands.
_WITH_COMMA = re.compile(r"[-+]?\d+,(?!\d{3}$)\d+")
# The standard scores between which nearly all of a column lies, and the one beyond which a value is
# doubtful: the outermost of a column's own values come to about 4.
SPAN, DOUBTFUL = 2.3, 4.5
# What values of each family are, for a message.
_PLAIN = {"numbers": "a plain number", "text": "a text", "dates": "a date"}


def answer(column: Column, given: Any) -> Any:
    """Give an answer as a value of its column: of other columns than texts, texts are read.

    Raises
    ------
    InputError
        Where it is no value of the column, in words about this value.

    Examples
    --------
    >>> answer(Column("seen", "datetime", "date"), "2020-01-31")
    datetime.date(2020, 1, 31)
    >>> answer(Column("age", "count", "integer"), 61)
    61
    """
    if isinstance(given, str) and FAMILY[column.storage] != "text":
        return parsed(column, given)
    number(column, given)
    return given


def parsed(column: Column, text: str) -> Any:
    """Give the value that a text says.

    Raises
    ------
    InputError
        Where it is no value of the column.

    Examples
    --------
    >>> parsed(Column("smoker", "binary", "boolean", levels=(False, True)), "yes")
    True
    >>> parsed(Column("pain", "ordinal", "text", levels=("none", "Mild")), "mild")
    'Mild'
    >>> parsed(Column("city", "categorical", "text", levels=("Oslo", " Rome")), "Rome")
    ' Rome'
    >>> parsed(Column("age", "count", "integer"), " 61 ")
    61
    >>> parsed(Column("weight", "positive", "float"), "72,5")
    72.5
    """
    value = _level(column, text) if column.kind in LEVELLED else _ordered(column, text)
    if value is None:
        raise InputError(f"{shown(text)} is no value of {column.name!r}, {legal(column)}.")
    number(column, value)
    # As it would stand in a table of such numbers.
    whole = column.storage == "integer" and isinstance(value, float) and value.is_integer()
    return int(value) if whole else value


def number(column: Column, value: Any) -> float:
    """Turn a value into the number that a model sees.

    What no table may hold is refused here, in words about one value instead of a row of a table.

    Raises
    ------
    InputError
        Where it is no value of the column.

    Examples
    --------
    >>> number(Column("pain", "ordinal", "text", levels=("none", "mild")), "mild")
    1.0
    """
    known = bool | int | float | str | dt.date | np.bool_ | np.integer | np.floating | np.datetime64
    if not isinstance(value, known) or isinstance(value, np.timedelta64):
        raise InputError(
            f"{' '.join(shown(value).split())} is of type {type(value).__name__}; give the value "
            f"of {column.name!r}, {legal(column)}, as {_PLAIN[FAMILY[column.storage]]}."
        )
    if isinstance(value, str) and not is_unicode(value):
        raise InputError(f"{shown(value)} is no valid Unicode, and no value of {column.name!r}.")
    if isinstance(value, np.datetime64) and not 1 <= value.astype("M8[Y]").astype(int) + 1970 < 1e4:
        raise InputError(
            f"{value} is no value of {column.name!r}: give a date of the years 1 to 9999."
        )
    if isinstance(value, Real) and _is_infinite(value):
        raise InputError(
            f"{shown(value)} is infinite or too large, and no value of {column.name!r}, "
            f"{legal(column)}."
        )
    return encode_value(column, value)


def doubt(column: Column, law: Likelihood, value: Any) -> str:
    r"""Say of a number that lies far outside of the table that was fitted that it does.

    Examples
    --------
    >>> from hhvaem.warps import Affine
    >>> weight = Column("weight", "positive", "float")
    >>> law = Ordered(Affine(shift=77.0, scale=15.0))
    >>> print(doubt(weight, law, 7.2).replace(" in the table", "\n in the table"))
    7.2 lies far outside of what column 'weight' mostly was
     in the table that was fitted, 42.5 to 111.5; correct it if it is a slip.
    >>> doubt(weight, law, 72.0)
    ''
    """
    if not isinstance(law, Ordered) or column.kind in LEVELLED:
        return ""
    exact = number(column, value)
    if abs(law.warp.latent(np.array([exact])).item()) <= DOUBTFUL:
        return ""
    ends = law.warp.value(np.array([-SPAN, SPAN]))
    found = [decode_value(column, float(each)) for each in (exact, *ends)]
    told, low, high = (f"{x:.4g}" if isinstance(x, float) else x for x in found)
    return (
        f"{told} lies far outside of what column {column.name!r} mostly was in the table that was "
        f"fitted, {low} to {high}; correct it if it is a slip."
    )


def is_missing(value: Any) -> bool:
    """Say whether this stands for nothing: None, NaN, NaT or NA."""
    if value is None or type(value).__name__ == "NAType":  # pandas, which need not be installed
        return True
    # NaN and NaT are what differs from itself.
    return isinstance(value, Real | dt.date | np.generic) and bool(value != value)


def _level(column: Column, text: str) -> Any:
    # Levels may differ by nothing but blanks at their ends, or the case of letters.
    for same in (str, str.strip, _folded):
        alike = [level for level in column.levels if same(str(level)) == same(text)]
        if len(alike) == 1:
            return alike[0]
    if column.storage == "boolean" and _folded(text) in _TRUE + _FALSE:
        return _folded(text) in _TRUE
    found = _as_number(text)
    return next((level for level in column.levels if level == found), None)


def _folded(text: str) -> str:
    return text.strip().casefold()


def _ordered(column: Column, text: str) -> Any:
    if FAMILY[column.storage] != "dates":
        return _as_number(text)
    try:
        moment = dt.datetime.fromisoformat(text.strip())
        if moment.tzinfo is not None:  # tables are read in UTC as well
            moment = moment.astimezone(dt.UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        return None
    return moment.date() if column.storage == "date" else moment


def _as_number(text: str) -> float | None:
    if _WITH_COMMA.fullmatch(text.strip()):
        text = text.replace(",", ".")
    try:
        return float(text)
    except ValueError:
        return None


def _is_infinite(value: Any) -> bool:
    try:
        return bool(np.isinf(float(value)))
    except OverflowError:  # an integer beyond all floats
        return True
