"""The typing of the paper's published loaders: everything a number, kinds from counts of values."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from hhvaem.schema import Kind

_FEW = 10  # fewer distinct values than this make a column discrete


def published_kind(values: np.ndarray) -> Kind:
    """Tell a column's kind as the published loader does, from its values alone.

    Parameters
    ----------
    values
        All values of the column, training and test rows together.

    Examples
    --------
    >>> import numpy as np
    >>> published_kind(np.array([3.5, 7.0, 3.5]))
    'binary'
    >>> published_kind(np.array([-1.0, 2.0, 5.0]))
    'categorical'
    >>> published_kind(np.arange(10.0)), published_kind(np.arange(10.0) - 1)
    ('positive', 'real')
    """
    distinct = len(np.unique(values))
    if distinct == 2:
        return "binary"
    if distinct < _FEW:
        return "categorical"
    return "real" if values.min() < 0 else "positive"


def publish(table: pa.Table, declared: Mapping[str, Kind]) -> tuple[pa.Table, dict[str, Kind]]:
    """Bring a table as read from its file into the form that the published models saw.

    Text becomes the number of its place in alphabetical order, also where that order means
    nothing, as with the dates of avocado; discrete columns are counted from 0 in the order of
    their values; constant columns are dropped. All rows are kept.

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = pa.table({"when": ["2/1/2015", "11/1/2015"], "always": [1, 1]})
    >>> table, kinds = publish(table, {"when": "datetime", "always": "constant"})
    >>> table.to_pydict(), kinds
    ({'when': [1, 0]}, {'when': 'binary'})
    """
    numbers = {
        name: _numbers(table.column(name))
        for name in table.column_names
        if declared[name] != "constant"
    }
    kinds = {name: published_kind(values) for name, values in numbers.items()}
    coded = {
        name: np.unique(values, return_inverse=True)[1]
        if kinds[name] in ("binary", "categorical")
        else values
        for name, values in numbers.items()
    }
    return pa.table(coded), kinds


def _numbers(column: pa.ChunkedArray) -> np.ndarray:
    if pa.types.is_string(column.type):
        # Python's order of text is by code point, whatever the locale: pandas' order too.
        texts = np.array(column.to_pylist(), dtype=np.str_)
        return np.unique(texts, return_inverse=True)[1].astype(np.float64)
    return column.to_numpy().astype(np.float64)
