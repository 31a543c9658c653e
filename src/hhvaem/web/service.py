"""Rows in JSON, in and out of a fitted model."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from hhvaem.acquire.answers import answer, is_missing
from hhvaem.acquire.prices import near
from hhvaem.errors import InputError
from hhvaem.estimators.base import interval_ends
from hhvaem.reading import FAMILY
from hhvaem.schema import Column, Schema
from hhvaem.web.plain import cell, cells, clean, finite

Row = Mapping[str, Any]

# Whole numbers as floats: holes and fractions fit in, and estimators do not tell them apart.
_TYPES = {
    "integer": pa.float64(),
    "float": pa.float64(),
    "boolean": pa.bool_(),
    "text": pa.string(),
    "datetime": pa.timestamp("us"),
    "date": pa.date32(),
    "none": pa.null(),
}


def as_table(rows: Sequence[Row], schema: Schema, targets: Sequence[str] = ()) -> pa.Table:
    """Make a table of rows; columns that a row lacks are holes.

    Parameters
    ----------
    rows
        Values by name of the column.
    schema
        Of the model.
    targets
        Columns that may be there, and are not looked at.

    Raises
    ------
    InputError
        Naming the row, and the column or value that the model does not know.
    """
    columns: dict[str, list[Any]] = {name: [] for name in schema.names}
    for i, row in enumerate(rows):
        for name in row:
            if name not in schema and name not in targets:
                meant = near(name, schema.names)
                raise InputError(f"Row {i} has a column {name!r} that the model lacks{meant}")
        for column in schema:
            columns[column.name].append(_value(i, column, row.get(column.name)))
    return pa.table(
        {name: pa.array(columns[name], _TYPES[schema[name].storage]) for name in schema.names}
    )


def _value(row: int, column: Column, given: Any) -> Any:
    """Give a cell as the model sees it, which is blind to columns that it does not model."""
    if is_missing(given):
        return None
    try:
        if not column.modelled:
            _check_unseen(column, given)
            return None
        found = answer(column, given)
    except InputError as error:
        raise InputError(f"Row {row}: {error}") from error
    if FAMILY[column.storage] == "numbers" and column.storage != "boolean":
        return float(found)
    return bool(found) if column.storage == "boolean" else found


def _check_unseen(column: Column, given: Any) -> None:
    """Refuse what a table may not hold in a column that no model sees.

    A constant may have other values than its only one, if they are of the same sort.
    """
    if isinstance(given, float) and math.isinf(given):
        raise InputError(f"{given} is infinite, and no value of {column.name!r}; leave it out.")
    if column.kind == "ignored" or (isinstance(given, str) and FAMILY[column.storage] == "text"):
        return
    if column.storage == "boolean":
        answer(replace(column, kind="binary", levels=(False, True)), given)
    elif FAMILY[column.storage] == "dates":
        answer(replace(column, kind="datetime", levels=()), given)
    elif FAMILY[column.storage] == "numbers":
        answer(replace(column, kind="real", levels=()), given)
    else:
        answer(column, given)


def as_given(full: Row, given: Row) -> dict[str, Any]:
    """Put the known cells of a row back as they were sent.

    A model sees them as floats, and some columns not at all.

    Examples
    --------
    >>> as_given({"age": 61, "n": 2**53, "k": 7}, {"age": None, "n": 2**53 + 1})
    {'age': 61, 'n': 9007199254740993, 'k': 7}
    """
    return {
        name: filled if is_missing(given.get(name)) else given[name]
        for name, filled in full.items()
    }


def ends_as_given(ends: Row, given: Row, schema: Schema) -> dict[str, Any]:
    """Put known cells back into the ends of intervals; levels without order have no ends."""
    plain = [column.name for column in schema if column.kind in ("binary", "categorical")]
    return as_given(ends, {name: given[name] for name in given if name not in plain})


def as_rows(table: pa.Table, schema: Schema) -> list[dict[str, Any]]:
    """Give the rows of a table; whole numbers without a fraction where the column has them so."""
    columns = {
        name: [_whole(x) for x in cells(table.column(name))]
        if name in schema and schema[name].storage == "integer"
        else cells(table.column(name))
        for name in table.column_names
    }
    return [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def imputed(model: Any, level: float | None, posterior: Any, table: pa.Table) -> list[Any]:
    """Fill rows; give each filled, with the ends of its intervals where they are asked for."""
    full = as_rows(model.transform(table, posterior=posterior), model.schema_)
    if level is None:
        return [(row, None, None) for row in full]
    ends = model.interval(table, level, posterior=posterior)
    return list(zip(full, *(as_rows(end, model.schema_) for end in ends), strict=True))


def sampled(model: Any, draws: int, posterior: Any, table: pa.Table) -> list[list[dict[str, Any]]]:
    """Draw the holes of rows, or their targets."""
    if not hasattr(model, "predict"):
        drawn = model.sample(table, draws, posterior=posterior)
        return [as_rows(each, model.schema_) for each in drawn]
    found = np.asarray(model.sample(table, draws, posterior=posterior))
    found = found.reshape(draws, table.num_rows, -1)
    names = model.target_names_
    return [
        [{n: cell(x) for n, x in zip(names, row, strict=True)} for row in each.tolist()]
        for each in found
    ]


def predicted(model: Any, level: float, posterior: Any, table: pa.Table) -> list[Any]:
    """Predict the targets of rows: a list of predictions for each."""
    ends = interval_ends(level)
    if hasattr(model, "classes_"):
        shares = model.predict_proba(table, posterior=posterior)
        both = (
            [(model.classes_, shares)] if model.flat_ else zip(model.classes_, shares, strict=True)
        )
        found = [[_class(labels, row) for row in part] for labels, part in both]
    else:

        def ask(law: Any, *at: Any) -> np.ndarray:
            return np.stack([law.mean(*at), *(law.quantile(*at, q) for q in ends)], axis=1)

        # All at once: nearly all of the time is that of the chains.
        parts = model._ask(table, posterior, None, ask)
        found = [[_number(row, level) for row in part.tolist()] for part in parts]
    return [
        [{"target": name, **each} for name, each in zip(model.target_names_, row, strict=True)]
        for row in zip(*found, strict=True)
    ]


def _class(labels: np.ndarray, shares: np.ndarray) -> dict[str, Any]:
    pairs = [
        {"value": cell(label), "share": float(share)}
        for label, share in zip(labels.tolist(), shares, strict=True)
    ]
    best = cell(labels.tolist()[int(np.argmax(shares))])
    return {"value": best, "low": None, "high": None, "level": None, "shares": pairs}


def _number(row: list[float], level: float) -> dict[str, Any]:
    value, low, high = map(finite, row)
    return {"value": value, "low": low, "high": high, "level": level, "shares": None}


def acquired(
    model: Any, costs: dict[str, float] | None, method: Any, posterior: Any, table: pa.Table
) -> list[Any]:
    """Give what each unknown cell of rows would tell, and the errors of that."""
    both = model.acquire(table, costs, method=method, posterior=posterior, return_error=True)
    gains, errors = (each.to_pylist() for each in both)
    return list(zip(clean(gains), clean(errors), strict=True))
