"""What the columns of a table are, told from their dtypes and values by stated rules."""

import datetime as dt
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from hhvaem.containers import columns_of, listed, shown
from hhvaem.errors import InputError
from hhvaem.reading import FAMILY, Reading, read
from hhvaem.schema import KINDS, LEVELLED, Column, Kind, Level, Schema, Storage

FEW_LEVELS = 20
MANY_LEVELS = 256
# Texts that are no numbers among ones that are: marks, perhaps, which a message names.
FEW_ODD = 3
SHORTEST_ROW_NUMBER = 20
# Numbers from here on that all have as many digits and are all different may be identifiers.
LEAST_CODE = 1_000
FEWEST_SENTINELS = 3
EXACT = 2.0**53  # whole numbers below are exact in float64

_MARKERS = frozenset(
    {"", "na", "n/a", "nan", "null", "none", "?", "-", "missing", "unknown"},
)
# Farther from others than this, in units of their range, any number is conspicuous.
_VERY_FAR = 100
# Also grouped by thousands, and per cent; with a zero before other digits it is a code.
_NUMBER = re.compile(
    r"[-+]?(?!0\d)(?:\d+[.,]?\d*|[.,]\d+|\d{1,3}([.,' \u00a0\u202f])\d{3}(?:\1\d{3})*(?:[.,]\d+)?)"
    r"(?:[eE][-+]?\d+)?\s*%?"
)
_DECIMAL_COMMA = re.compile(r"\s*[-+]?\d+,\d+\s*")
# As they are written by hand, with or without a time of day.
_DATE = re.compile(r"(\d{1,2})[/.-](\d{1,2})[/.-](\d{4})(?:,? \d{1,2}:\d{2}(?::\d{2})?)?")
# In microseconds, from a day down.
TIME_STEPS = (864e8, 36e8, 6e7, 1e6, 1e3, 1.0)


class _Observed(NamedTuple):
    """A column's cells and, of the observed ones, the distinct values and how often each is."""

    name: str
    reading: Reading
    distinct: np.ndarray
    counts: np.ndarray

    def row(self, bad: np.ndarray) -> str:
        """Name the first bad cell: its value and its row."""
        row = int(np.flatnonzero(bad)[0])
        return f"{self.reading.show(row)} in row {row}"


def infer_schema(table: Any, kinds: Mapping[Any, str] | None = None) -> Schema:
    """Tell what each column of a table is.

    A cell is missing where it is NaN, None, NA, NaT or null. The rules, in order:

    1. A column without any observed cell is `ignored`: its holes stay.
    2. A column with one distinct value is `constant`: its holes get that value.
    3. Booleans are `binary`.
    4. Text and categories with two levels are `binary`; with more, `ordinal` where their dtype
       is an ordered category, else `categorical`. Levels are the observed ones, in the order
       of the category dtype, else sorted. Text that looks like an identifier is refused: more
       than 20 levels that are more than half of the observed cells, or more than 256 levels.
    5. Dates and times are `datetime`; the values lie on the largest of day, hour, minute,
       second, millisecond and microsecond on which all observed ones do.
    6. Numbers with exactly two distinct values are `binary` where these are 0 and 1 or each
       occurs at least twice. Otherwise numbers are `count` where all are whole and none is
       negative, `positive` where none is negative, else `real`. Numbers that are all whole
       stay whole.

    Parameters
    ----------
    table
        A pandas or polars DataFrame, a pyarrow Table or a 2-D array, whose columns are called
        x0, x1 and so on. Names that are no strings are used as str(name).
    kinds
        Kinds to use instead of the inferred ones, by column: real, positive, count, binary,
        categorical, ordinal, datetime, constant or ignored. A column that is constant or empty
        stays so.

    Returns
    -------
    Schema
        The columns, with a note wherever their owner should know something.

    Raises
    ------
    InputError
        Where this is no table with rows and columns, where a column cannot be modelled, or
        where it cannot be of the kind asked for.

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = pa.table({"age": [31, None, 40], "city": ["Rome", "Oslo", "Rome"]})
    >>> print(infer_schema(table, kinds={"age": "real"}))
    column  kind    holes are  values          note
    age     real    filled     whole
    city    binary  filled     'Oslo', 'Rome'
    """
    columns = columns_of(table)
    if not columns or table.shape[0] == 0:
        lacking = "rows" if columns else "columns"
        raise InputError(f"The table has no {lacking}; it needs at least one row and one column.")
    asked = _asked({} if kinds is None else kinds, [name for name, _ in columns])
    return Schema(tuple(_inferred(name, data, asked.get(name)) for name, data in columns))


def _asked(kinds: Any, names: list[str]) -> dict[str, Kind]:
    if not isinstance(kinds, Mapping):
        raise InputError("`kinds` must be a dict of column and kind, as in {'age': 'count'}.")
    known: dict[str, Kind] = {kind: kind for kind in KINDS}
    for name, kind in kinds.items():
        if str(name) not in names:
            raise InputError(
                f"`kinds` names a column {name!r}, which the table does not have; its columns are "
                f"{listed(names)}."
            )
        if not isinstance(kind, str) or kind not in known:
            raise InputError(
                f"`kinds` asks for an unknown kind {kind!r} of column {name!r}; the kinds are "
                f"{', '.join(KINDS)}."
            )
    return {str(name): known[kind] for name, kind in kinds.items()}


def _inferred(name: str, data: Any, asked: Kind | None) -> Column:
    if asked == "ignored":
        return Column(name, "ignored", "none", note="ignored as asked: passed through")
    reading = read(name, data)
    observed = _Observed(
        name, reading, *np.unique(reading.values[~reading.missing], return_counts=True)
    )
    _refuse_huge(observed)
    unused = f"; {asked!r} was asked for and not used" if asked not in (None, "constant") else ""
    if observed.distinct.size == 0:
        note = f"empty: no observed cell, passed through{unused}"
        return Column(name, "ignored", "none", note=note)
    if observed.distinct.size == 1:
        note = f"constant: one distinct value, filled with it{unused}"
        return Column(name, "constant", reading.storage, _levels(observed), note=note)
    if asked:
        _check(observed, asked)
    kind = asked or _kind(observed)
    if kind in LEVELLED:
        if not asked:
            _refuse_identifier(observed)
        return Column(name, kind, reading.storage, _levels(observed), note=_level_note(observed))
    return Column(
        name,
        kind,
        reading.storage,
        step=_step(observed),
        lower=0.0 if kind in ("positive", "count") else None,
        note=_number_note(observed),
    )


def _kind(observed: _Observed) -> Kind:
    reading, distinct = observed.reading, observed.distinct
    if FAMILY[reading.storage] == "dates":
        return "datetime"
    if reading.storage in ("text", "boolean") or reading.categories is not None:
        if distinct.size == 2:
            return "binary"
        return "ordinal" if reading.order == "always" else "categorical"
    if distinct.size == 2 and (set(distinct) == {0, 1} or observed.counts.min() > 1):
        return "binary"
    if distinct[0] < 0:
        return "real"
    return "count" if _whole(distinct) else "positive"


def _whole(values: np.ndarray) -> bool:
    return bool((values % 1 == 0).all())


def _step(observed: _Observed) -> float | None:
    if FAMILY[observed.reading.storage] == "dates":
        return next(step for step in TIME_STEPS if (observed.distinct % step == 0).all())
    return 1.0 if _whole(observed.distinct) else None


def _levels(observed: _Observed) -> tuple[Level, ...]:
    reading = observed.reading
    write: dict[Storage, Callable[[float], Level]] = {
        "text": lambda value: reading.texts[int(value)],
        "integer": int,
        "boolean": bool,
    }
    levels = [write.get(reading.storage, float)(value) for value in observed.distinct]
    if reading.categories is None:
        return tuple(sorted(levels))
    rank = {level: i for i, level in enumerate(reading.categories)}
    return tuple(sorted(levels, key=rank.__getitem__))


def _refuse_huge(observed: _Observed) -> None:
    reading = observed.reading
    huge = np.abs(reading.values) >= EXACT  # where 2^53 + 1 ends up, too
    if reading.storage == "integer" and huge.any():
        # Its digits are lost in floats, too: only the row is told.
        row = int(np.flatnonzero(huge)[0])
        raise InputError(
            f"Column {observed.name!r} holds a whole number beyond 2^53 in row {row}, and these "
            "cannot be told apart: convert it to floats or text, or pass it through with "
            f"kinds={{{observed.name!r}: 'ignored'}}."
        )


def _check(observed: _Observed, kind: Kind) -> None:
    """Refuse a kind that the column cannot be of."""
    reason = _objection(observed, kind)
    if reason:
        raise InputError(f"Column {observed.name!r} cannot be {kind}: {reason}.")


def _objection(observed: _Observed, kind: Kind) -> str | None:
    reading = observed.reading
    first = observed.row(~reading.missing)
    dates = FAMILY[reading.storage] == "dates"
    if kind == "constant":
        others = ~reading.missing & (reading.values != observed.distinct[0])
        same = observed.row(reading.values == observed.distinct[0])
        return f"it holds {same} and {observed.row(others)}"
    if kind == "datetime":
        return None if dates else _text_objection(observed, "dates", f"it holds {first}")
    if dates:
        return f"it holds dates ({first}); convert it to numbers or text"
    if kind in LEVELLED:
        return _level_objection(observed, kind)
    if reading.storage in ("text", "boolean"):
        return _text_objection(observed, "numbers", f"it holds {_family(reading)} ({first})")
    if reading.categories is not None:
        return "its dtype is a category; convert it to numbers"
    if kind in ("positive", "count") and observed.distinct[0] < 0:
        return f"it holds {observed.row(reading.values < 0)}; ask for 'real'"
    if kind == "count" and not _whole(observed.distinct):
        fractions = ~reading.missing & (reading.values % 1 != 0)
        return f"it holds {observed.row(fractions)}; ask for 'real' or 'positive'"
    return None


def _text_objection(observed: _Observed, family: str, otherwise: str) -> str:
    """Name what keeps a column from being numbers or dates, and say how it would become such."""
    if _reads_as(observed)[0] != family or not (marks := _marks(observed)):
        return f"{otherwise}; {_converted(observed, family)}"
    code = observed.reading.texts.index(marks[0])
    cell = observed.row(observed.reading.values == code)
    return f"it holds text ({cell}); {_mark_advice(marks)}, else {_converted(observed, family)}"


def _family(reading: Reading) -> str:
    return "true and false" if reading.storage == "boolean" else FAMILY[reading.storage]


def _level_objection(observed: _Observed, kind: Kind) -> str | None:
    reading = observed.reading
    if kind == "binary" and observed.distinct.size > 2:
        seen = reading.values[~reading.missing]
        _, rows = np.unique(seen, return_index=True)
        third = reading.values == seen[sorted(rows)[2]]
        return (
            f"it has {observed.distinct.size} distinct values, {observed.row(third)} the third; "
            "ask for 'categorical'"
        )
    unranked = reading.storage == "text" or reading.categories is not None
    if kind == "ordinal" and unranked and reading.order == "none":
        return (
            "its levels have no order; make it an ordered category (in polars an Enum; on the "
            "command line: --kind COLUMN=ordinal:FIRST,SECOND,...)"
        )
    return None


def _refuse_identifier(observed: _Observed) -> None:
    levels, rows = observed.distinct.size, int(observed.counts.sum())
    looks_like_id = levels > FEW_LEVELS and levels > rows / 2
    if not looks_like_id and levels <= MANY_LEVELS:
        return
    readable = _conversion(observed)
    looks = ", so it looks like an identifier or free text" if looks_like_id else ""
    name = observed.name
    raise InputError(
        f"Column {name!r} has {levels} levels in {rows} observed cells{looks}; {readable}"
        f"drop it, pass it through with kinds={{{name!r}: 'ignored'}} or model it anyway with "
        f"kinds={{{name!r}: 'categorical'}}."
    )


def _conversion(observed: _Observed) -> str:
    """Say how texts that are numbers or dates, most of them, would become such."""
    family, odd = _reads_as(observed, most_odd=FEW_ODD)
    if not family:
        return ""
    converted = _converted(observed, family)
    if not odd:
        marks = _marks(observed)
        alternative = f", or, {_mark_advice(marks)}" if marks else ""
        return f"its texts read as {family}: {converted}{alternative}, or "
    return (
        f"its texts read as {family} but for {', '.join(map(shown, odd))}: if these mark missing "
        f"values, make them missing (on the command line: --missing) and {converted}; else "
    )


def _converted(observed: _Observed, family: str) -> str:
    commas = any(map(_DECIMAL_COMMA.fullmatch, observed.reading.texts))
    how = {
        "numbers": ", with a point for each decimal comma" if commas else "",
        "dates": ", written as 2021-08-02 in a CSV file",
    }
    return f"convert it to {family}{how[family]}"


def _reads_as(observed: _Observed, most_odd: int = 0) -> tuple[str, list[str]]:
    """Say what a column's texts could be converted to, and which of them could not.

    Markers of missing values are apart.
    """
    texts = [text for text in observed.reading.texts if not _is_marker(text)]
    for family, is_one in (("numbers", _is_number), ("dates", _is_date)):
        odd = [text for text in texts if not is_one(text)]
        if len(odd) <= most_odd and len(odd) < len(texts):
            return family, odd
    return "", []


def _marks(observed: _Observed) -> list[str]:
    """List the texts that may mark missing values."""
    return sorted(text for text in observed.reading.texts if _is_marker(text))


def _mark_advice(marks: list[str]) -> str:
    verb, them = ("mark", "them") if marks[1:] else ("marks", "it")
    return (
        f"if {' and '.join(map(repr, marks))} {verb} what is missing, make {them} missing (on the "
        "command line: --missing)"
    )


def _is_marker(text: str) -> bool:
    return text.strip().lower() in _MARKERS


def _is_number(text: str) -> bool:
    return bool(_NUMBER.fullmatch(text.strip()))


def _is_date(text: str) -> bool:
    found = _DATE.fullmatch(text.strip())
    if found:
        day, month, year = map(int, found.groups())
        # Which of the two comes first is its owner's to know.
        return any(_is_iso(f"{year:04}-{m:02}-{d:02}") for d, m in ((day, month), (month, day)))
    # Digits alone are a code or a number.
    return not text.strip().isdigit() and _is_iso(text.strip())


def _is_iso(text: str) -> bool:
    try:
        dt.datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _level_note(observed: _Observed) -> str:
    notes = []
    if marks := _marks(observed):
        notes.append(_marker_note(", ".join(map(repr, marks))))
    family, _ = _reads_as(observed)
    if family:
        notes.append(f"its texts read as {family}; if they are, {_converted(observed, family)}")
    if observed.reading.storage == "text" and observed.counts.max() == 1:
        notes.append(
            "no text occurs twice; if these are names or identifiers, "
            f"kinds={{{observed.name!r}: 'ignored'}} leaves them out"
        )
    return "; ".join(notes)


def _marker_note(shown: str) -> str:
    return (
        f"{shown} often marks a missing value; if so, make it missing (on the command line: "
        "--missing)"
    )


def _number_note(observed: _Observed) -> str:
    consecutive = (
        observed.reading.storage == "integer"
        and observed.distinct.size >= SHORTEST_ROW_NUMBER
        and observed.counts.max() == 1
        and (np.diff(observed.distinct) == 1).all()
    )
    if consecutive:
        return f"looks like a row number; kinds={{{observed.name!r}: 'ignored'}} leaves it out"
    if _looks_like_codes(observed):
        return (
            "no number occurs twice, and all have as many digits; if these are identifiers, "
            f"kinds={{{observed.name!r}: 'ignored'}} leaves them out"
        )
    return "" if FAMILY[observed.reading.storage] == "dates" else _sentinel_note(observed)


def _looks_like_codes(observed: _Observed) -> bool:
    distinct = observed.distinct
    return bool(
        observed.reading.storage == "integer"
        and distinct.size >= SHORTEST_ROW_NUMBER
        and observed.counts.max() == 1
        and distinct[0] >= LEAST_CODE
        and len(f"{distinct[0]:.0f}") == len(f"{distinct[-1]:.0f}")
    )


def _sentinel_note(observed: _Observed) -> str:
    """Name the least and the greatest number where they look like marks of missing values."""
    distinct, counts = observed.distinct, observed.counts
    found = [
        f"{distinct[end]:.15g}"
        for end, others in ((0, distinct[1:]), (-1, distinct[:-1]))
        if counts[end] >= FEWEST_SENTINELS and _is_sentinel(distinct[end], others)
    ]
    return _marker_note(" and ".join(found) + ", apart from all others,") if found else ""


def _is_sentinel(value: float, others: np.ndarray) -> bool:
    """Tell whether a number is apart from the others and looks like -999, or very far from them."""
    gap, reach = np.abs(others - value).min(), np.ptp(others)
    lone = value < 0 <= others.min()
    nines = bool(re.fullmatch(r"-?9{2,}(\.9+)?", f"{value:.15g}"))
    # Zeros are amounts of nothing.
    very_far = value != 0 and reach > 0 and gap > _VERY_FAR * reach
    return bool((lone and nines) or ((lone or nines) and gap > reach > 0) or very_far)
