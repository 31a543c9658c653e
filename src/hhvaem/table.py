"""Any frame or array to (values, mask), and filled values back into the user's container."""

import datetime as dt
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar, cast

import narwhals.dependencies as nwd
import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float64

from hhvaem.containers import columns_of, listed, some
from hhvaem.errors import InputError, TableWarning
from hhvaem.filling import filled_column
from hhvaem.reading import FAMILY, Reading, read
from hhvaem.schema import LEVELLED, Column, Level, Schema

T = TypeVar("T")


class Encoded(NamedTuple):
    """A table as numbers.

    Parameters
    ----------
    values
        Numbers as they are, levels as their index, datetimes as microseconds; NaN where
        `mask` is False.
    mask
        True where the model may see the cell.
    """

    values: Float64[np.ndarray, "rows columns"]
    mask: Bool[np.ndarray, "rows columns"]


def encode(table: Any, schema: Schema) -> Encoded:
    """Turn a table into the numbers and the mask that a model sees.

    Columns are matched by name (those of an array by position). Values that the schema does
    not know, unseen levels and numbers outside a column's support, are hidden from the model
    and reported; they are not holes, and `fill` leaves them alone.

    Parameters
    ----------
    table
        A pandas or polars DataFrame, a pyarrow Table or a 2-D array; it may have no rows.
    schema
        The columns that the model knows.

    Returns
    -------
    Encoded
        One column per modelled column of the schema, in its order.

    Warns
    -----
    TableWarning
        Of columns that the schema does not have, and of values it does not know.

    Raises
    ------
    InputError
        Where a column is absent, has another type than in the schema, or is infinite.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from hhvaem.inference import infer_schema
    >>> table = pa.table({"age": [31, None, 40], "city": ["Rome", "Oslo", "Rome"]})
    >>> encode(table, infer_schema(table)).values.tolist()
    [[31.0, 1.0], [nan, 0.0], [40.0, 1.0]]
    """
    columns = columns_of(table)
    _check_schema(schema)
    positions = _positions(table, columns, schema)
    known = set(positions)
    extra = [name for i, (name, _) in enumerate(columns) if i not in known]
    if extra:
        warnings.warn(
            f"Columns unknown to the model are passed through as they are: {listed(extra)}.",
            TableWarning,
            stacklevel=2,
        )
    encoded, unknown = [np.empty((table.shape[0], 0))], []
    for column, position in zip(schema, positions, strict=True):
        if column.kind == "ignored":
            continue
        reading = _read_as(column, columns[position][1])
        values = _known(column, reading)
        strange = np.flatnonzero(np.isnan(values) & ~reading.missing)
        if strange.size:
            examples = list(dict.fromkeys(reading.show(int(row)) for row in strange))[:3]
            unknown.append(f"{strange.size} in {column.name!r} ({', '.join(examples)})")
        if column.modelled:
            encoded.append(values[:, None])
    if unknown:
        warnings.warn(
            "Values that the model does not know are kept in the table but hidden from the "
            f"model: {some(unknown, '; ')}.",
            TableWarning,
            stacklevel=2,
        )
    stacked = np.concatenate(encoded, axis=1)
    return Encoded(stacked, ~np.isnan(stacked))


def encode_value(column: Column, value: Any) -> float:
    """Turn one value of a column into the number that a model sees.

    Raises
    ------
    InputError
        Where it is missing, or no value of this column.

    Examples
    --------
    >>> pain = Column("pain", "ordinal", "text", levels=("none", "mild", "severe"))
    >>> encode_value(pain, "mild")
    1.0
    """
    if column.storage == "date" and isinstance(value, dt.datetime):
        value = value.date()
    data = np.empty(1, object)
    data[0] = value
    reading = read(column.name, data)
    if reading.missing[0]:
        raise InputError(f"The value of {column.name!r} is missing; give one.")
    was, now = FAMILY[column.storage], FAMILY[reading.storage]
    if was != now:
        raise InputError(f"{column.name!r} holds {was}, and {reading.show(0)} is none of them.")
    known = _known(column, reading)[0]
    if np.isnan(known):
        raise InputError(f"{reading.show(0)} is no value of {column.name!r}, {legal(column)}.")
    return float(known)


def decode_value(column: Column, number: float) -> Any:
    """Give the value that a number stands for: the legal one that is nearest.

    Examples
    --------
    >>> decode_value(Column("pain", "ordinal", levels=("none", "mild", "severe")), 1.0)
    'mild'
    >>> decode_value(Column("age", "count"), 31.4)
    31
    """
    if column.kind in LEVELLED:
        return column.levels[int(number)]
    lower, upper, step = column.support
    if step:
        number = round(number / step) * step
    number = float(np.clip(number, lower, upper))
    if FAMILY[column.storage] == "dates":
        moment: dt.datetime = np.datetime64(round(number), "us").astype(dt.datetime)
        return moment.date() if column.storage == "date" else moment
    return round(number) if step and step % 1 == 0 else number


def legal(column: Column) -> str:
    """Say which values a column can have."""
    if column.kind in LEVELLED:
        return f"which is one of {some([repr(level) for level in column.levels])}"
    lower, upper, step = column.support
    if FAMILY[column.storage] == "dates":
        return "which is a date"
    kind = "a whole number" if step == 1 else "a number"
    ends = [f"from {lower:g}"] * (lower > -np.inf) + [f"up to {upper:g}"] * (upper < np.inf)
    return " ".join([f"which is {kind}", *ends])


def _positions(table: Any, columns: list[tuple[str, Any]], schema: Schema) -> list[int]:
    if isinstance(table, np.ndarray):
        if len(columns) != len(schema):
            raise InputError(
                f"The array has {len(columns)} columns and the model knows {len(schema)}; an "
                "array's columns are matched by position, so give all of them."
            )
        return list(range(len(schema)))
    found = {name: i for i, (name, _) in enumerate(columns)}
    absent = [name for name in schema.names if name not in found]
    if absent:
        raise InputError(
            f"The table lacks {listed(absent)}; add every column of the schema, empty if unknown."
        )
    return [found[name] for name in schema.names]


def _read_as(column: Column, data: Any) -> Reading:
    reading = read(column.name, data)
    was, now = FAMILY[column.storage], FAMILY[reading.storage]
    if was != now and not reading.missing.all():
        row = int(np.flatnonzero(~reading.missing)[0])
        raise InputError(
            f"Column {column.name!r} held {was} when the model was made and holds {now} now "
            f"({reading.show(row)} in row {row}); convert it to {was}."
        )
    return reading


def _known(column: Column, reading: Reading) -> np.ndarray:
    """Encode a column, NaN where it is missing or unknown."""
    if column.kind in LEVELLED or column.kind == "constant":
        return _level_index(column, reading)
    lower, upper, step = column.support
    values = reading.values
    legal = (values >= lower) & (values <= upper)
    if column.kind == "count" and step:
        legal &= values % step == 0
    return np.where(legal, values, np.nan)


def _level_index(column: Column, reading: Reading) -> np.ndarray:
    index = {level: float(i) for i, level in enumerate(column.levels)}
    seen = ~reading.missing
    if reading.storage == "text":
        distinct: Sequence[Level] = reading.texts
        which = reading.values[seen].astype(np.intp)
    else:
        unique, which = np.unique(reading.values[seen], return_inverse=True)
        distinct = unique.tolist()
    lookup = np.array([index.get(value, np.nan) for value in distinct], np.float64)
    result = np.full(reading.values.shape, np.nan)
    result[seen] = lookup[which]
    return result


def holes(table: Any, schema: Schema) -> Bool[np.ndarray, "rows columns"]:
    """Say where `fill` would write: the missing cells of all columns that are not ignored.

    Examples
    --------
    >>> from hhvaem.inference import infer_schema
    >>> table = np.array([[1.0, np.nan], [2.5, 3.0], [4.0, 5.5]])
    >>> holes(table, infer_schema(table)).tolist()
    [[False, True], [False, False], [False, False]]
    """
    columns = columns_of(table)
    _check_schema(schema)
    found = np.zeros((table.shape[0], len(schema)), bool)
    for i, position in enumerate(_positions(table, columns, schema)):
        column = schema.columns[i]
        if column.kind != "ignored":
            found[:, i] = _read_as(column, columns[position][1]).missing
    return found


def fill(table: T, schema: Schema, values: np.ndarray) -> T:
    """Fill the holes of a table with legal values and leave everything else alone.

    Values are rounded to the column's step, kept inside its bounds and inside the range of
    its dtype; level indices become levels; a constant column gets its only value. A column
    without any observed cell whose dtype cannot hold its values gets one that can.

    Parameters
    ----------
    table
        A pandas or polars DataFrame, a pyarrow Table or a 2-D array; it is not modified.
    schema
        The columns that the model knows.
    values
        Numbers, level indices or microseconds, as `encode` gives them, one column for each
        of `schema.modelled`; read only where the table has a hole.

    Returns
    -------
    table
        A new container of the same type, with the same index, names, order and dtypes.

    Raises
    ------
    InputError
        Where `values` has another shape, or a value for a hole is not finite or no level, or
        as for `encode`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from hhvaem.inference import infer_schema
    >>> table = pa.table({"age": [31, None, 40], "city": ["Rome", "Oslo", None]})
    >>> values = np.array([[0.0, 0.0], [35.7, 0.0], [0.0, 1.0]])
    >>> fill(table, infer_schema(table), values).to_pylist()[1:]
    [{'age': 36, 'city': 'Oslo'}, {'age': 40, 'city': 'Rome'}]
    """
    columns = columns_of(table)
    _check_schema(schema)
    values = _checked_values(values, len(cast(Any, table)), schema)
    place = {column.name: j for j, column in enumerate(schema.modelled)}
    filled = {}
    for column, position in zip(schema, _positions(table, columns, schema), strict=True):
        if column.kind == "ignored":
            continue
        data = columns[position][1]
        reading = _read_as(column, data)
        rows = np.flatnonzero(reading.missing)
        if not rows.size:
            continue
        new = values[rows, place[column.name]] if column.modelled else np.zeros(rows.size)
        if not np.isfinite(new).all():
            row = rows[~np.isfinite(new)][0]
            raise InputError(
                f"Column {column.name!r} has no finite value to fill row {row} with; `values` "
                "needs one at every hole, where `encode` leaves NaN."
            )
        _check_levels(column, new, rows)
        filled[position] = filled_column(column, data, reading, new)
    return _with_columns(table, filled)


def without_columns(table: T, schema: Schema, names: Sequence[str]) -> T:
    """Make the cells of some columns missing, all of them."""
    columns = columns_of(table)
    where = dict(zip(schema.names, _positions(table, columns, schema), strict=True))
    if isinstance(table, np.ndarray):
        if not names:
            return table
        result = table.astype(object if table.dtype.kind in "OUSmM" else float)
        result[:, [where[name] for name in names]] = None if result.dtype == object else np.nan
        return cast(T, result)
    return cast(
        T, _with_columns(table, {where[name]: _empty(columns, where[name]) for name in names})
    )


def _empty(columns: list[tuple[str, Any]], position: int) -> Any:
    """Make a column of the same name and type with no observed cell."""
    data = columns[position][1]
    if isinstance(data, pa.ChunkedArray):
        return pa.nulls(len(data), data.type)
    if nwd.is_polars_series(data):
        return data.clear(len(data))
    # Missing is not in every dtype of pandas.
    empty = data.where(np.zeros(len(data), bool)) if data.dtype != bool else None
    return data.astype(object).where(np.zeros(len(data), bool)) if empty is None else empty


def _check_schema(schema: Any) -> None:
    if not isinstance(schema, Schema):
        raise InputError(
            f"`schema` is of type {type(schema).__name__}; give the Schema that `infer_schema` or "
            "`Schema.from_json` makes."
        )


def _checked_values(values: Any, rows: int, schema: Schema) -> np.ndarray:
    expected = (rows, len(schema.modelled))
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "fiub":
        raise InputError(f"`values` must be a numpy array of floats of shape {expected}.")
    if values.shape != expected:
        names = listed([column.name for column in schema.modelled])
        raise InputError(
            f"`values` has shape {values.shape}, but the table has {rows} rows and the schema "
            f"{expected[1]} modelled columns: {names}."
        )
    return np.asarray(values, np.float64)


def _check_levels(column: Column, new: np.ndarray, rows: np.ndarray) -> None:
    wrong = np.flatnonzero((np.rint(new) < 0) | (np.rint(new) >= len(column.levels)))
    if column.kind in LEVELLED and wrong.size:
        raise InputError(
            f"Column {column.name!r} has {len(column.levels)} levels and row {rows[wrong[0]]} "
            f"asks for level {new[wrong[0]]:g}; levels are given by their index, from 0."
        )


def _with_columns(table: Any, filled: dict[int, Any]) -> Any:
    if isinstance(table, pa.Table):
        for i, array in filled.items():
            table = table.set_column(i, table.field(i).with_type(array.type), array)
        return table
    if nwd.is_polars_dataframe(table):
        return table.with_columns(list(filled.values()))
    if isinstance(table, np.ndarray):
        result = np.array(table)
        for i, array in filled.items():
            result[:, i] = array
        return result
    frame = table.copy()
    for i, array in filled.items():
        frame.isetitem(i, array)
    return frame
