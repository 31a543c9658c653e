"""Any native column, of pandas, polars, pyarrow or numpy, read into numbers."""

import datetime as dt
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, NoReturn

import narwhals.dependencies as nwd
import numpy as np
import pyarrow as pa

from hhvaem.containers import is_unicode, shown
from hhvaem.errors import InputError
from hhvaem.schema import Level, Storage

Order = Literal["none", "if asked", "always"]

FAMILY: dict[Storage, str] = {
    "integer": "numbers", "float": "numbers", "boolean": "numbers",
    "text": "text", "datetime": "dates", "date": "dates", "none": "nothing",
}  # fmt: skip

# The way out, by words in the name of a dtype or of a Python type; the first hit decides.
_ADVICE = {
    "rename its categories to text": ("dictionary", "category"),
    "convert it to floats": ("decimal",),
    "split it into a real and an imaginary column": ("complex",),
    "split it into plain columns": ("list", "tuple", "dict", "struct", "set", "array", "map"),
    "decode it to text": ("binary", "bytes", "|s"),
    "convert it to datetime64[us]": ("datetime64",),
    "convert it to a number of seconds": ("duration", "timedelta"),
    "convert it to a number of seconds since midnight": ("time",),
    "make it dense": ("sparse",),
    "convert it to timestamps": ("period",),
}

_LAST_YEAR = 290_000  # from 1970, that microseconds of 64 bits can count to


class Reading(NamedTuple):
    """One column, read.

    Parameters
    ----------
    values
        A number, microseconds since 1970 in UTC, or a position in `texts`; NaN if missing.
    missing
        Where the column has a hole.
    storage
        How the column stores its values; "none" where its dtype does not say and no value does.
    texts
        The distinct texts of a text column.
    categories
        All levels of a category dtype, in its order; None for other dtypes.
    order
        Whether `categories` rank the values: always, only if the user asks for it, or not.
    """

    values: np.ndarray
    missing: np.ndarray
    storage: Storage
    texts: tuple[str, ...] = ()
    categories: tuple[Level, ...] | None = None
    order: Order = "none"

    def show(self, row: int) -> str:
        """Write the value of a row as a message should."""
        value = self.values[row]
        if self.storage == "text":
            return shown(self.texts[int(value)])
        if FAMILY[self.storage] == "dates":
            return str(np.datetime64(int(value), "us"))
        if self.storage == "integer":
            return str(int(value))
        return f"{value:.15g}"


def read(name: str, data: Any) -> Reading:
    """Read a native column: pandas or polars Series, arrow ChunkedArray or 1-D array.

    Raises
    ------
    InputError
        Where the column has a dtype or a value that no model here can use.
    """
    try:
        objects = holds_objects(data)
        reading = _read_objects(name, np.asarray(data)) if objects else _read(name, data)
    except UnicodeError as error:
        _refuse_text(name, data, error)
    infinite = np.flatnonzero(np.isinf(reading.values))
    if infinite.size:
        raise InputError(
            f"Column {name!r} has an infinite value in row {infinite[0]}; replace it by a "
            "number or by a missing value."
        )
    return reading


def holds_objects(data: Any) -> bool:
    """Say whether a column is an array of Python objects."""
    dtype = getattr(data, "dtype", None)
    return isinstance(dtype, np.dtype) and dtype.kind == "O"


def _read(name: str, data: Any) -> Reading:
    try:
        array = as_arrow(data)
    except pa.ArrowException:
        _refuse(name, dtype_of(data))
    dictionary = array.dictionary if pa.types.is_dictionary(array.type) else None
    if dictionary is not None and pa.types.is_string_view(dictionary.type):
        # Which pyarrow cannot decode.
        dictionary = dictionary.cast(pa.large_string())
        ordered = array.type.ordered
        array = pa.DictionaryArray.from_arrays(array.indices, dictionary, ordered=ordered)
    storage = _storage(array.type if dictionary is None else dictionary.type)
    # Categories of dates would need a kind of their own.
    if storage is None or (dictionary is not None and FAMILY[storage] == "dates"):
        _refuse(name, dtype_of(data))
    if dictionary is None:
        return _read_arrow(name, array, storage)
    reading = _read_arrow(name, array.dictionary_decode(), storage)
    # A polars Categorical has no order but that of its texts; an Enum's is the user's own, but
    # polars cannot say whether it ranks.
    if nwd.is_polars_series(data) and not is_enum(data):
        return reading
    entries = dict.fromkeys(entry for entry in dictionary.to_pylist() if entry is not None)
    order: Order = "if asked" if is_enum(data) else "always" if array.type.ordered else "none"
    return reading._replace(categories=tuple(entries), order=order)


def dtype_of(data: Any) -> Any:
    """Give the dtype of a native column."""
    return data.type if isinstance(data, pa.ChunkedArray) else data.dtype


def is_enum(data: Any) -> bool:
    """Say whether a column is a polars Enum."""
    return nwd.is_polars_series(data) and type(data.dtype).__name__ == "Enum"


def as_arrow(data: Any) -> Any:
    """Give a column as one arrow array."""
    if nwd.is_polars_series(data):
        if type(data.dtype).__name__ == "Object":  # to_arrow would hand out pointers
            raise pa.ArrowInvalid("it holds Python objects")
        return data.alias("").to_arrow()  # which panics at a null character in a name
    dtype = getattr(data, "dtype", None)
    if isinstance(dtype, np.dtype) and not dtype.isnative:  # which pyarrow cannot read
        data = np.asarray(data).astype(dtype.newbyteorder("="))
    array = data if isinstance(data, pa.ChunkedArray) else pa.array(data, from_pandas=True)
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def without_views(table: pa.Table) -> pa.Table:
    """Give a table without views, such as polars writes and pyarrow can do little with.

    Examples
    --------
    >>> table = pa.table({"city": pa.array(["Rome", None], pa.string_view())})
    >>> without_views(table).schema.types
    [DataType(large_string)]
    """
    kinds = [_plain(field.type) for field in table.schema]
    if kinds == table.schema.types:
        return table
    fields = [field.with_type(kind) for field, kind in zip(table.schema, kinds, strict=True)]
    return table.cast(pa.schema(fields, table.schema.metadata))


def _plain(kind: Any) -> Any:
    types = pa.types
    if types.is_string_view(kind):
        return pa.large_string()
    if types.is_binary_view(kind):
        return pa.large_binary()
    if types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, _plain(kind.value_type), kind.ordered)
    if types.is_list(kind):
        return pa.list_(_plain_field(kind.value_field))
    if types.is_large_list(kind):
        return pa.large_list(_plain_field(kind.value_field))
    if types.is_fixed_size_list(kind):
        return pa.list_(_plain_field(kind.value_field), kind.list_size)
    if types.is_map(kind):
        return pa.map_(_plain_field(kind.key_field), _plain_field(kind.item_field))
    if types.is_struct(kind):
        return pa.struct([_plain_field(field) for field in kind])
    return kind


def _plain_field(field: pa.Field) -> pa.Field:
    return field.with_type(_plain(field.type))


def _storage(kind: Any) -> Storage | None:
    types = pa.types
    if types.is_integer(kind):
        return "integer"
    if types.is_floating(kind):
        return "float"
    if types.is_boolean(kind):
        return "boolean"
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return "text"
    if types.is_timestamp(kind):
        return "datetime"
    if types.is_date(kind):
        return "date"
    return "none" if types.is_null(kind) else None


def _read_arrow(name: str, array: Any, storage: Storage) -> Reading:
    texts: tuple[str, ...] = ()
    if storage == "text":
        encoded = array.cast(pa.large_string()).dictionary_encode()
        texts, array = tuple(encoded.dictionary.to_pylist()), encoded.indices
    elif FAMILY[storage] == "dates":
        _refuse_far(name, array)
        zone = getattr(array.type, "tz", None)
        array = array.cast(pa.timestamp("us", zone), safe=False).cast(pa.int64())
    # Nulls become NaN: from here on there is one sign for a hole.
    values = array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return Reading(values + 0.0, np.isnan(values), storage, texts)


def _read_objects(name: str, objects: np.ndarray) -> Reading:
    missing = np.array([_is_missing(value) for value in objects], bool)
    observed = objects[~missing]
    rows: dict[Storage, int] = {}  # the first row of each storage
    for kind, row in _first_rows(objects, missing).items():
        stored = _type_storage(kind)
        if stored is None:
            _refuse(name, f"object with a {kind.__name__} in row {row}")
        rows.setdefault(stored, row)
    storage = _common_storage(tuple(rows))
    if storage is None:
        one, other = list(rows.values())[:2]
        raise InputError(
            f"Column {name!r} mixes types: row {one} holds {shown(objects[one])} and row {other} "
            f"{shown(objects[other])}; convert the column to one type, or pass it through with "
            f"kinds={{{name!r}: 'ignored'}}."
        )
    if storage in ("text", "none"):
        kind = pa.string() if storage == "text" else pa.null()
        return _read_arrow(name, pa.array(objects, kind, mask=missing), storage)
    number = _microseconds if FAMILY[storage] == "dates" else _float
    values = np.full(objects.shape, np.nan)
    values[~missing] = [number(value) for value in observed]
    if number is _microseconds and np.isinf(values).any():
        _refuse_row(name, int(np.flatnonzero(np.isinf(values))[0]))
    return Reading(values + 0.0, missing, storage)


def _first_rows(objects: np.ndarray, missing: np.ndarray) -> dict[Any, int]:
    rows: dict[Any, int] = {}
    for row in np.flatnonzero(~missing):
        rows.setdefault(type(objects[row]), int(row))
    return rows


def _is_missing(value: Any) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating | np.datetime64) and bool(value != value)


def _type_storage(kind: Any) -> Storage | None:
    types: tuple[tuple[Any, Storage], ...] = (
        (bool | np.bool_, "boolean"), (int | np.integer, "integer"), (float | np.floating, "float"),
        (str, "text"), (dt.datetime | np.datetime64, "datetime"), (dt.date, "date"),
    )  # fmt: skip
    if issubclass(kind, np.timedelta64):  # which calls itself an integer
        return None
    return next((storage for known, storage in types if issubclass(kind, known)), None)


def _common_storage(found: Sequence[Storage]) -> Storage | None:
    if set(found) == {"integer", "float"}:
        return "float"
    if set(found) == {"date", "datetime"}:
        return "datetime"
    if len(found) > 1:
        return None
    return found[0] if found else "none"


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:  # a Python integer beyond all floats
        return float("inf")


def _microseconds(value: Any) -> float:
    if isinstance(value, np.datetime64):
        if abs(value.astype("M8[Y]").astype(int)) > _LAST_YEAR:
            return float("inf")
        return float(value.astype("M8[us]").astype(np.int64))
    if not isinstance(value, dt.datetime):
        value = dt.datetime(value.year, value.month, value.day)
    aware = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
    return float((aware - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1))


def _refuse_far(name: str, array: Any) -> None:
    """Refuse dates that microseconds of 64 bits cannot count."""
    kind = array.type
    unit = kind.unit if pa.types.is_timestamp(kind) else "D" if kind == pa.date32() else "ms"
    per_second = {"D": 1 / 86400, "s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}[unit]
    counts = array.cast(pa.int32()) if unit == "D" else array
    seconds = counts.cast(pa.int64()).fill_null(0).to_numpy() / per_second
    far = np.flatnonzero(np.abs(seconds) > _LAST_YEAR * 31556952.0)
    if far.size:
        _refuse_row(name, int(far[0]))


def _refuse_row(name: str, row: int) -> NoReturn:
    raise InputError(
        f"Column {name!r} has a date in row {row} that is further from 1970 than "
        f"{_LAST_YEAR} years; replace it by a missing value or convert the column to numbers."
    )


def _refuse_text(name: str, data: Any, error: UnicodeError) -> NoReturn:
    broken = (i for i, text in enumerate(data) if isinstance(text, str) and not is_unicode(text))
    row = next(broken, None)
    where = "its categories" if row is None else f"row {row}"
    raise InputError(
        f"Column {name!r} has text in {where} that is not valid Unicode; decode it again, or pass "
        f"it through with kinds={{{name!r}: 'ignored'}}."
    ) from error


def _refuse(name: str, dtype: object) -> NoReturn:
    raise InputError(
        f"Column {name!r} has dtype {dtype}, which cannot be modelled; {way_out(dtype)}, drop it, "
        f"or pass it through with kinds={{{name!r}: 'ignored'}}."
    )


def way_out(dtype: object) -> str:
    """Say what to do with a column of a dtype that cannot be used."""
    said = str(dtype).lower()
    hits = (advice for advice, words in _ADVICE.items() if any(word in said for word in words))
    return next(hits, "convert it to numbers, text or dates")
