"""Legal values written into the holes of one native column, everything else left alone."""

import datetime as dt
from typing import Any

import narwhals.dependencies as nwd
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hhvaem.errors import InputError
from hhvaem.reading import FAMILY, Reading, as_arrow, holds_objects, is_enum
from hhvaem.schema import LEVELLED, Column, Storage

# What a column gets whose own dtype cannot hold what it is filled with.
_NATURAL: dict[Storage, np.dtype[Any]] = {
    "integer": np.dtype("int64"), "float": np.dtype("float64"), "boolean": np.dtype("bool"),
    "text": np.dtype("object"), "datetime": np.dtype("M8[us]"), "date": np.dtype("M8[D]"),
}  # fmt: skip

_LAST = 9.2e18  # microseconds from 1970 that 64 bits can count to


def _has_levels(column: Column) -> bool:
    return column.kind in LEVELLED or column.kind == "constant"


def _decoded(column: Column, values: np.ndarray) -> np.ndarray:
    """Turn level indices into levels (texts as objects); numbers stay what they are."""
    if not _has_levels(column):
        return values
    levels = np.array(column.levels, object if column.storage == "text" else np.float64)
    return levels[np.rint(values).astype(np.intp)]


def filled_column(column: Column, data: Any, reading: Reading, values: np.ndarray) -> Any:
    """Fill one native column; `values` has a number or a level index for each of its holes."""
    new = _decoded(column, values)
    if holds_objects(data):
        result = np.array(data)
        result[reading.missing] = _objects(column, result, reading, new)
        if isinstance(data, np.ndarray):
            return result
        # Said again, or pandas makes a column of strings of objects that are all strings.
        return type(data)(result, index=data.index, dtype=object)
    if not _can_hold(column, reading, text_only=is_enum(data)):
        return _natural(column, data, new)
    if isinstance(data, pa.ChunkedArray):
        return pa.chunked_array([_filled_arrow(column, as_arrow(data), reading, new)])
    if nwd.is_polars_series(data):
        return _filled_polars(column, data, reading, new)
    if isinstance(data, np.ndarray) or isinstance(data.dtype, np.dtype):
        result = np.array(data)
        result[reading.missing] = _numbers(column, new, result.dtype)
        return result
    return _filled_pandas(column, data, reading, new)


def _can_hold(column: Column, reading: Reading, *, text_only: bool) -> bool:
    if not reading.missing.all():
        return True
    if reading.categories == ():  # which may become any but dates, of a polars Enum only texts
        return FAMILY[column.storage] in (("text",) if text_only else ("text", "numbers"))
    enough: dict[Storage, set[Storage]] = {
        "boolean": {"boolean", "integer", "float"},
        "integer": {"integer", "float"},
        "date": {"date", "datetime"},
    }
    step = column.support[2]
    whole = column.storage == "float" and step is not None and step % 1 == 0
    storage: Storage = "integer" if whole else column.storage
    return reading.storage in enough.get(storage, {storage})


def _natural(column: Column, data: Any, new: np.ndarray) -> Any:
    """Make a column of a dtype that can hold the values, for one where all cells are holes."""
    if isinstance(data, np.ndarray):
        raise InputError(
            f"Column {column.name!r} is to be filled with {FAMILY[column.storage]}, which an "
            f"array of {data.dtype} cannot hold; give an array of dtype object."
        )
    text = column.storage == "text"
    array = new if text else _numbers(column, new, _NATURAL[column.storage])
    if nwd.is_polars_series(data):
        return type(data)(data.name, pa.array(array))
    if isinstance(data, pa.ChunkedArray):
        return pa.chunked_array([pa.array(array)])
    # From a list pandas chooses its own dtype for text, which differs between versions.
    listed = text or column.storage == "date"
    return type(data)(array.tolist() if listed else array, index=data.index)


def _objects(
    column: Column, objects: np.ndarray, reading: Reading, new: np.ndarray
) -> list[Any] | np.ndarray:
    storage = column.storage if reading.storage == "none" else reading.storage
    if storage == "text":
        return new
    values = _numbers(column, new, _NATURAL[storage]).tolist()
    if FAMILY[storage] == "dates" and not all(isinstance(value, dt.date) for value in values):
        raise _cannot_hold(column, new[0], objects.dtype)  # a constant after the year 9999
    observed = objects[~reading.missing]
    zone = getattr(observed[0], "tzinfo", None) if observed.size else None
    return [_in_zone(value, zone) for value in values] if zone else values


def _in_zone(value: dt.datetime, zone: dt.tzinfo) -> dt.datetime:
    # Of the first and the last day, some zone's local time is beyond Python's dates.
    day = dt.timedelta(days=1)
    value = min(max(value, dt.datetime.min + day), dt.datetime(9999, 12, 30))
    return value.replace(tzinfo=dt.UTC).astimezone(zone)


def _filled_pandas(column: Column, data: Any, reading: Reading, new: np.ndarray) -> Any:
    import pandas as pd  # only ever for its own Series

    array = data.array.copy()
    dtype = data.dtype
    if hasattr(dtype, "pyarrow_dtype"):
        return type(array)(pa.chunked_array([_filled_arrow(column, as_arrow(data), reading, new)]))
    if reading.categories is not None:
        return _filled_category(column, array, reading, new)
    if reading.storage == "text":
        array[reading.missing] = new
    elif reading.storage == "datetime":
        stamps = _numbers(column, new, np.dtype(f"M8[{dtype.unit}]"))
        array[reading.missing] = pd.DatetimeIndex(stamps).tz_localize("UTC")
    else:
        array[reading.missing] = _numbers(column, new, dtype.numpy_dtype)
    return array


def _filled_category(column: Column, array: Any, reading: Reading, new: np.ndarray) -> Any:
    levels = _as_entries(column, reading, new)
    known = set(array.categories)
    added = [level for level in dict.fromkeys(levels) if level not in known]
    if added:
        array = array.add_categories(added)
    codes = array.codes.astype(np.int64)
    codes[reading.missing] = array.categories.get_indexer(levels)
    return type(array).from_codes(codes, dtype=array.dtype)


def _as_entries(column: Column, reading: Reading, new: np.ndarray) -> list[Any]:
    """Write values as entries of a category dtype."""
    storage = column.storage if not reading.categories else reading.storage
    return (new if storage == "text" else _numbers(column, new, _NATURAL[storage])).tolist()


def _filled_polars(column: Column, data: Any, reading: Reading, new: np.ndarray) -> Any:
    array = _filled_arrow(column, as_arrow(data), reading, new)
    if is_enum(data):
        entries = array.dictionary.to_pylist()
        extended = len(entries) > len(reading.categories or ())
        dtype = type(data.dtype)(entries) if extended else data.dtype
        return type(data)(data.name, array.dictionary_decode()).cast(dtype)
    return type(data)(data.name, array).cast(data.dtype)


def _filled_arrow(column: Column, array: Any, reading: Reading, new: np.ndarray) -> Any:
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _filled_dictionary(column, array, reading, new)
    if reading.storage == "text":
        texts = array.cast(pa.large_string()).to_numpy(zero_copy_only=False).copy()
        texts[reading.missing] = new
        return pa.array(texts, kind)
    dtype = _numpy_dtype(kind)
    fresh = np.zeros(len(array), dtype)
    fresh[reading.missing] = _numbers(column, new, dtype)
    return pc.if_else(pa.array(reading.missing), pa.array(fresh).cast(kind), array)


def _filled_dictionary(column: Column, array: Any, reading: Reading, new: np.ndarray) -> Any:
    levels = _as_entries(column, reading, new)
    entries = array.dictionary.to_pylist()
    place = {entry: i for i, entry in reversed(list(enumerate(entries)))}
    for level in levels:
        if level not in place:
            place[level] = len(entries)
            entries.append(level)
    codes = array.indices.cast(pa.int64()).fill_null(0).to_numpy().copy()
    codes[reading.missing] = [place[level] for level in levels]
    kind = array.type
    roomy = len(entries) - 1 <= np.iinfo(_numpy_dtype(kind.index_type)).max
    indices = pa.array(codes, kind.index_type if roomy else pa.int64())
    value_type = kind.value_type if reading.categories != () else None
    dictionary = pa.array(entries, value_type)
    return pa.DictionaryArray.from_arrays(indices, dictionary, ordered=kind.ordered)


def _numpy_dtype(kind: Any) -> np.dtype[Any]:
    if pa.types.is_timestamp(kind):
        return np.dtype(f"M8[{kind.unit}]")
    if pa.types.is_date(kind):
        return np.dtype("M8[D]")
    # Not to_pandas_dtype, for which older versions of pyarrow want pandas.
    return pa.nulls(0, kind).to_numpy(zero_copy_only=False).dtype


def _numbers(column: Column, values: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """Round and clip numbers to what the column and the dtype allow, in that dtype."""
    if _has_levels(column):
        return _unchanged(column, values, dtype)
    lower, upper, step = column.support
    low, high, grain = _range(dtype)
    low, high, step = max(low, lower), min(high, upper), max(grain, step or 0.0)
    with np.errstate(over="ignore"):
        if step:
            steps = np.clip(np.rint(values / step), np.ceil(low / step), np.floor(high / step))
            if dtype.kind == "M":
                # In integers: late microseconds need more digits than a float has.
                return (steps.astype(np.int64) * int(step)).view("M8[us]").astype(dtype)
            return _narrowed(steps * step, dtype, low, high)
        return _narrowed(np.clip(values, low, high), dtype, low, high)


def _unchanged(column: Column, levels: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """Give levels in a dtype, if it has them; floats of fewer digits may round."""
    low, high, grain = _range(dtype)
    if dtype.kind == "M" and dtype != "M8[ns]":
        low, high = -_LAST, _LAST
    lost = (levels < low) | (levels > high)
    if grain:
        lost |= levels % grain != 0
    if lost.any():
        raise _cannot_hold(column, levels[lost][0], dtype)
    if dtype.kind == "M":
        return levels.astype(np.int64).view("M8[us]").astype(dtype)
    return levels.astype(dtype)


def _cannot_hold(column: Column, level: float, dtype: np.dtype[Any]) -> InputError:
    shown = (
        np.datetime64(int(level), "us") if FAMILY[column.storage] == "dates" else f"{level:.15g}"
    )
    return InputError(
        f"Column {column.name!r} is to be filled with its level {shown}, which its dtype {dtype} "
        "cannot hold; convert it to one that can."
    )


def _narrowed(values: np.ndarray, dtype: np.dtype[Any], low: float, high: float) -> np.ndarray:
    narrow = values.astype(dtype)
    if dtype.kind != "f" or dtype.itemsize == 8:
        return narrow
    # Rounding to fewer digits can step over a bound.
    wide = narrow.astype(np.float64)
    up = np.nextafter(narrow, dtype.type(np.inf))
    down = np.nextafter(narrow, dtype.type(-np.inf))
    return np.where(wide < low, up, np.where(wide > high, down, narrow))


def _range(dtype: np.dtype[Any]) -> tuple[float, float, float]:
    """Give the least and the largest number that a dtype holds, and its spacing."""
    if dtype.kind == "f":
        return float(np.finfo(dtype).min), float(np.finfo(dtype).max), 0.0
    if dtype.kind == "b":
        return 0.0, 1.0, 1.0
    if dtype.kind == "M":
        unit = np.datetime_data(dtype)[0]
        grain = {"D": 864e8, "s": 1e6, "ms": 1e3}.get(unit, 1.0)
        # Nanoseconds end in 2262; Python's dates, and so all others here, with year 9999.
        return (-9.2e15, 9.2e15, grain) if unit == "ns" else (-62135596800e6, 2534022144e8, grain)
    info = np.iinfo(dtype)
    # The largest integer of 64 bits is no float: the next float above it would overflow.
    high = float(info.max)
    return float(info.min), high if int(high) <= info.max else float(np.nextafter(high, 0.0)), 1.0
