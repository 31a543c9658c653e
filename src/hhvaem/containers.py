"""What a table may be, and its columns by name."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import narwhals.dependencies as nwd
import numpy as np
import pyarrow as pa

from hhvaem.errors import InputError

_NAMED = 10  # names in a message
_WIDEST = 40  # characters of a value in a message


def columns_of(table: Any) -> list[tuple[str, Any]]:
    """List the columns of a table: name and native column.

    Columns are taken by position, so that names of any type, or equal ones, cannot bite.

    Raises
    ------
    InputError
        Where this is no table, where two of its columns share a name, or one is no text.
    """
    columns: list[tuple[str, Any]]
    if nwd.is_pandas_dataframe(table):
        columns = [(str(name), table.iloc[:, i]) for i, name in enumerate(table.columns)]
    elif nwd.is_polars_dataframe(table):
        columns = [(name, table.to_series(i)) for i, name in enumerate(table.columns)]
    elif isinstance(table, pa.Table):
        columns = list(zip(table.column_names, table.columns, strict=True))
    elif is_array(table) and table.ndim == 2:
        # As a plain array: a column of a numpy.matrix would be a matrix again.
        columns = [(f"x{i}", np.asarray(table)[:, i]) for i in range(table.shape[1])]
    else:
        raise InputError(_no_table(table))
    twice = repeated(name for name, _ in columns)
    if twice:
        raise InputError(f"The table has more than one column named {twice}; rename them apart.")
    broken = [name for name, _ in columns if not is_unicode(name)]
    if broken:
        raise InputError(f"The column name {broken[0]!r} is not valid Unicode; rename it.")
    return columns


def like(table: Any, columns: dict[str, np.ndarray]) -> Any:
    """Make a table of the same kind, with the same index where it has one.

    Examples
    --------
    >>> like(np.zeros((2, 5)), {"low": np.array([1.0, 2.0]), "up": np.array([3.0, 4.0])}).tolist()
    [[1.0, 3.0], [2.0, 4.0]]
    """
    if nwd.is_pandas_dataframe(table):
        return type(table)(columns, index=table.index)
    if nwd.is_polars_dataframe(table):
        return type(table)(columns)
    if isinstance(table, pa.Table):
        return pa.table(columns)
    return np.stack(list(columns.values()), axis=1)


def is_array(table: Any) -> bool:
    """Say whether this is an array whose cells are all there."""
    return isinstance(table, np.ndarray) and not isinstance(table, np.ma.MaskedArray)


def is_unicode(text: str) -> bool:
    """Say whether a text can be written: half of a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def repeated(names: Iterable[str]) -> str:
    """List the names that occur more than once, for a message."""
    return listed(sorted(name for name, times in Counter(names).items() if times > 1))


def listed(names: Sequence[str]) -> str:
    """Write names for a message, the first ones where they are many.

    Examples
    --------
    >>> listed(["age", "city"])
    "'age', 'city'"
    """
    return some([repr(name) for name in names])


def some(texts: Sequence[str], separator: str = ", ", most: int = _NAMED) -> str:
    """Join texts for a message, and count the rest where they are many."""
    joined = separator.join(texts[:most])
    rest = len(texts) - most
    return f"{joined} and {rest} more" if rest > 0 else joined


def printable(text: str) -> str:
    """Write the characters that a terminal would obey as escapes."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def shown(value: object) -> str:
    """Write a value for a message, the start of it where it is long."""
    text = repr(value)
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 3]}..."


def _no_table(table: Any) -> str:
    if nwd.is_polars_lazyframe(table):
        return "A polars LazyFrame has no values yet; call .collect() on it first."
    if nwd.is_pandas_series(table) or nwd.is_polars_series(table):
        return "A Series is not a table; call .to_frame() on it first."
    if isinstance(table, np.ma.MaskedArray):
        return "A masked array is not a table; call .astype(float).filled(numpy.nan) on it first."
    if isinstance(table, np.ndarray):
        return (
            f"An array with {table.ndim} dimensions is not a table; reshape it to two: "
            "rows and columns."
        )
    if hasattr(table, "toarray"):
        return "A sparse matrix is not a table; call .toarray() on it first."
    return (
        f"An object of type {type(table).__name__} is not a table; give a pandas or polars "
        "DataFrame, a pyarrow Table or a 2-D NumPy array."
    )
