"""Targets as users give them, to numbers and back."""

from dataclasses import dataclass
from numbers import Number
from typing import Any

import narwhals.dependencies as nwd
import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa
from jaxtyping import Shaped
from sklearn.utils.multiclass import check_classification_targets

from hhvaem.containers import columns_of
from hhvaem.errors import InputError
from hhvaem.estimators.tables import is_frame
from hhvaem.fitting import Part
from hhvaem.schema import Column


@dataclass(frozen=True)
class Targets:
    """Some targets.

    Parameters
    ----------
    part
        Their columns, values and mask.
    classes
        The labels of each, in order, where they are classes.
    flat
        Whether a single target was given as a list of values and not as a column of a table.
    """

    part: Part
    classes: tuple[Shaped[np.ndarray, " _"], ...]
    flat: bool


def numbers(y: Any, rows: int) -> Targets:
    """Take targets that are numbers; NaN and None are missing.

    Raises
    ------
    InputError
        Where they are none, are infinite, are not one for each row, or none is known.
    """
    names, cells, flat = _columns(y, rows)
    try:
        values = np.stack([np.asarray(cell, np.float64) for cell in cells], axis=1)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"The target y is not all numbers ({error}); use Classifier for labels."
        ) from error
    if np.isinf(values).any():
        row, column = np.argwhere(np.isinf(values))[0]
        raise InputError(
            f"Input y contains infinity or a value too large: target {names[column]!r}, row {row}; "
            "correct it, or make it missing."
        )
    mask = ~np.isnan(values)
    _check_known(names, mask)
    columns = tuple(Column(name, "real") for name in names)
    return Targets(Part(columns, values, mask), (), flat)


def labels(y: Any, rows: int) -> Targets:
    """Take targets that are classes; NaN and None are missing.

    Raises
    ------
    InputError
        Where they are none, are not one for each row, or there is one class only.
    """
    names, cells, flat = _columns(y, rows)
    columns, values, classes = [], [], []
    mask = np.stack([[value is not None for value in cell] for cell in cells], axis=1)
    _check_known(names, mask)
    for j, (name, cell) in enumerate(zip(names, cells, strict=True)):
        known = cell[mask[:, j]]
        if known.dtype == object:
            _check_alike(name, known)
            known = np.array(known.tolist())
        check_classification_targets(known)
        found, index = np.unique(known, return_inverse=True)
        if len(found) < 2:
            (only,) = found.tolist()
            raise InputError(
                f"The target {name!r} has one class only, {only!r}; a classifier needs two."
            )
        codes = np.full(rows, np.nan)
        codes[mask[:, j]] = index
        kind: Any = "binary" if len(found) == 2 else "categorical"
        columns.append(Column(name, kind, levels=tuple(range(len(found)))))
        values.append(codes)
        classes.append(found)
    return Targets(Part(tuple(columns), np.stack(values, axis=1), mask), tuple(classes), flat)


def _columns(y: Any, rows: int) -> tuple[list[str], list[Shaped[np.ndarray, " rows"]], bool]:
    """Give the names and cells of targets, and whether there was no table around them."""
    if is_frame(y) or nwd.is_polars_lazyframe(y):
        columns = columns_of(y)
        names, cells, flat = [name for name, _ in columns], [_cells(c) for _, c in columns], False
    elif isinstance(y, np.ma.MaskedArray):
        raise InputError(
            "The target y is a masked array; give an array with NaN, or a list with None, where it "
            "is masked."
        )
    elif nwd.is_into_series(y) or isinstance(y, pa.Array):
        names, cells, flat = [str(getattr(y, "name", None) or "y")], [_cells(y)], True
    else:
        # As objects: among texts NaN would otherwise become one.
        array = y if isinstance(y, np.ndarray) else np.asarray(y, dtype=object)
        if array.ndim not in (1, 2):
            raise InputError(f"The target y has {array.ndim} dimensions; it needs one or two.")
        flat = array.ndim == 1
        array = array.reshape(len(array), -1)
        names = ["y"] if array.shape[1] == 1 else [f"y{i}" for i in range(array.shape[1])]
        cells = [_cells(column) for column in array.T]
    lengths = {len(cell) for cell in cells} or {0}
    if lengths != {rows}:
        raise InputError(
            f"Found input variables with inconsistent numbers of samples: {rows} rows of X and "
            f"{min(lengths)} of y."
        )
    return names, cells, flat


def _cells(column: Any) -> Shaped[np.ndarray, " rows"]:
    """Give the cells of a column: of a dtype without missing values as they are, else objects."""
    if isinstance(column, pa.Array | pa.ChunkedArray):
        column = np.array(column.to_pylist(), dtype=object)
    series = nw.from_native(column, series_only=True, pass_through=True)
    array = series.to_numpy() if isinstance(series, nw.Series) else column
    if array.dtype.kind in "iub":
        return array
    values = series.to_list() if isinstance(series, nw.Series) else array.tolist()
    cells = np.empty(len(values), dtype=object)
    cells[:] = [None if _is_missing(value) else value for value in values]
    return cells


def _is_missing(value: Any) -> bool:
    # NaN is what differs from itself, and NaT and NA cannot be told to be the same.
    try:
        return value is None or not bool(value == value)
    except TypeError:
        return True


def _check_alike(name: str, labels: Shaped[np.ndarray, " seen"]) -> None:
    """Refuse labels of which NumPy would turn some into another type."""
    first = {_family(label): label for label in labels[::-1]}
    if len(first) > 1:
        one, other, *_ = map(repr, first.values())
        raise InputError(
            f"The target {name!r} has labels of different types, such as {one} and {other}; make "
            "them all of one type."
        )


def _family(label: Any) -> type:
    families = (bool, np.bool_), (Number,), (str,)
    return next((one[0] for one in families if isinstance(label, one)), type(label))


def _check_known(names: list[str], mask: Shaped[np.ndarray, "rows targets"]) -> None:
    for j, name in enumerate(names):
        if not mask[:, j].any():
            raise InputError(f"The target {name!r} is missing in all rows; give one that is known.")
