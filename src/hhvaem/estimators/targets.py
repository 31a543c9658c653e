"""Targets as users give them, to numbers and back."""

from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa
from jaxtyping import Shaped
from sklearn.utils.multiclass import check_classification_targets

from hhvaem.errors import InputError
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
    classes: tuple[Shaped[np.ndarray, " classes"], ...]
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
    except (TypeError, ValueError) as error:
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
    mask = np.stack([np.array([not _is_missing(value) for value in cell]) for cell in cells], 1)
    _check_known(names, mask)
    for j, (name, cell) in enumerate(zip(names, cells, strict=True)):
        known = np.array([value for value, seen in zip(cell, mask[:, j], strict=True) if seen])
        check_classification_targets(known)
        found, index = np.unique(known, return_inverse=True)
        if len(found) < 2:
            raise InputError(
                f"The target {name!r} has one class only, {found[0]!r}; a classifier needs two."
            )
        codes = np.full(rows, np.nan)
        codes[mask[:, j]] = index
        kind: Any = "binary" if len(found) == 2 else "categorical"
        columns.append(Column(name, kind, levels=tuple(range(len(found)))))
        values.append(codes)
        classes.append(found)
    return Targets(Part(tuple(columns), np.stack(values, axis=1), mask), tuple(classes), flat)


def _columns(y: Any, rows: int) -> tuple[list[str], list[Any], bool]:
    """Give the names and cells of targets, and whether there was no table around them."""
    frame = nw.from_native(y, allow_series=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        names, cells, flat = (
            list(frame.columns),
            [frame[name].to_list() for name in frame.columns],
            False,
        )
    elif isinstance(frame, nw.Series):
        names, cells, flat = [str(frame.name or "y")], [frame.to_list()], True
    else:
        array = np.asarray(y.to_pylist() if isinstance(y, pa.ChunkedArray | pa.Array) else y)
        if array.ndim not in (1, 2):
            raise InputError(f"The target y has {array.ndim} dimensions; it needs one or two.")
        flat = array.ndim == 1
        array = array.reshape(len(array), -1)
        names = ["y"] if array.shape[1] == 1 else [f"y{i}" for i in range(array.shape[1])]
        cells = [array[:, i].tolist() for i in range(array.shape[1])]
    if any(len(cell) != rows for cell in cells) or not cells:
        lengths = len(cells[0]) if cells else 0
        raise InputError(
            f"Found input variables with inconsistent numbers of samples: {rows} rows of X and "
            f"{lengths} of y."
        )
    if flat or not isinstance(frame, nw.DataFrame):
        cells = [[None if _is_missing(value) else value for value in cell] for cell in cells]
    return names, [np.array(cell, dtype=object) for cell in cells], flat


def _is_missing(value: Any) -> bool:
    # NaN is what differs from itself, and NaT and NA cannot be told to be the same.
    try:
        return value is None or not bool(value == value)
    except TypeError:
        return True


def _check_known(names: list[str], mask: Shaped[np.ndarray, "rows targets"]) -> None:
    for j, name in enumerate(names):
        if not mask[:, j].any():
            raise InputError(f"The target {name!r} is missing in all rows; give one that is known.")
