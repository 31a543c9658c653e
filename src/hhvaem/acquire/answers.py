"""Answers that people type, or that a file has: texts that become values of a column."""

import datetime as dt
from typing import Any

from hhvaem.containers import shown
from hhvaem.errors import InputError
from hhvaem.reading import FAMILY
from hhvaem.schema import LEVELLED, Column
from hhvaem.table import encode_value, legal

_TRUE, _FALSE = ("true", "yes", "y"), ("false", "no", "n")


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
    >>> parsed(Column("age", "count", "integer"), " 61 ")
    61.0
    """
    text = text.strip()
    value = _level(column, text) if column.kind in LEVELLED else _number(column, text)
    if value is None:
        raise InputError(f"{shown(text)} is no value of {column.name!r}, {legal(column)}.")
    encode_value(column, value)
    return value


def _level(column: Column, text: str) -> Any:
    exact = [level for level in column.levels if str(level) == text]
    folded = [level for level in column.levels if str(level).casefold() == text.casefold()]
    if exact or len(folded) == 1:
        return (exact or folded)[0]
    if column.storage == "boolean" and text.casefold() in _TRUE + _FALSE:
        return text.casefold() in _TRUE
    number = _as_number(text)
    return next((level for level in column.levels if level == number), None)


def _number(column: Column, text: str) -> Any:
    if FAMILY[column.storage] != "dates":
        return _as_number(text)
    try:
        return dt.datetime.fromisoformat(text)
    except ValueError:
        return None


def _as_number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
