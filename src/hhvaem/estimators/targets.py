"""Targets as users give them, to numbers and back."""

from dataclasses import dataclass, field
from numbers import Integral, Number
from typing import Any

import narwhals.dependencies as nwd
import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Shaped
from sklearn.utils.multiclass import check_classification_targets

from hhvaem.containers import columns_of, listed, shown
from hhvaem.errors import InputError
from hhvaem.estimators.tables import is_frame
from hhvaem.preparing import Part
from hhvaem.schema import LEVELLED, Column, Schema
from hhvaem.sources import Source, survey


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
    schema
        Of targets that are columns of a table in files, and not here, what they are there.
    """

    part: Part
    classes: tuple[Shaped[np.ndarray, " _"], ...]
    flat: bool
    schema: Schema = field(default_factory=lambda: Schema(()))


def numbers(y: Any, rows: int) -> Targets:
    """Take targets that are numbers; NaN and None are missing.

    Raises
    ------
    InputError
        Where they are none, are infinite, are not one for each row, or none is known.
    """
    names, cells, flat = _columns(y, rows)
    for name, cell in zip(names, cells, strict=True):
        _check_numbers(name, cell)
    try:
        values = np.stack([np.asarray(cell, np.float64) for cell in cells], axis=1)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"The target y has a number that is no float: {error}.") from error
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
    names, cells, mask, flat = known_labels(y, rows)
    columns, values, classes = [], [], []
    for j, (name, cell) in enumerate(zip(names, cells, strict=True)):
        known = two_or_more(name, cell[mask[:, j]])
        check_classification_targets(known)
        found, index = np.unique(known, return_inverse=True)
        codes = np.full(rows, np.nan)
        codes[mask[:, j]] = index
        kind: Any = "binary" if len(found) == 2 else "categorical"
        columns.append(Column(name, kind, levels=tuple(range(len(found)))))
        values.append(codes)
        classes.append(found)
    part = Part(tuple(columns), np.stack(values, axis=1), mask)
    return Targets(part, tuple(classes), flat)


def named(source: Source, names: Any) -> list[str]:
    """Give the names of targets that are columns of a table in files.

    Raises
    ------
    InputError
        Where one is not there, or nothing else is.
    """
    single = isinstance(names, str)
    wanted = [names] if single else list(names) if isinstance(names, list | tuple) else []
    if not wanted or not all(isinstance(name, str) for name in wanted):
        raise InputError(
            f"Of a table in files, y names the columns to predict, as in y='price'; {shown(names)} "
            "does not."
        )
    absent = [name for name in wanted if name not in source.types.names]
    if absent:
        raise InputError(f"{source.name} has no column {listed(absent)} to predict.")
    if not set(source.types.names) - set(wanted):
        raise InputError(f"{source.name} has no column beside {listed(wanted)} to predict from.")
    return wanted


def elsewhere(source: Source, names: Any, *, classes: bool) -> Targets:
    """Find out about targets that are columns of a table in files.

    Raises
    ------
    InputError
        Where one is none.
    """
    wanted = named(source, names)
    others = [name for name in source.types.names if name not in wanted]
    kind = "categorical" if classes else "real"
    schema = survey(source, dict.fromkeys(wanted, kind), leave=others).schema
    columns = []
    for column in schema:
        if column.kind == "ignored":
            raise InputError(
                f"The target {column.name!r} is missing in all rows; give one that is known."
            )
        if column.kind == "constant":
            raise InputError(
                f"The target {column.name!r} has one value only, {column.levels[0]!r}; there is "
                "nothing to predict."
            )
        levels = len(column.levels)
        told: Any = ("binary" if levels == 2 else "categorical") if classes else "real"
        columns.append(Column(column.name, told, levels=tuple(range(levels))))
    labels = tuple(np.array(column.levels) for column in schema) if classes else ()
    nothing = np.zeros((0, len(columns)))
    part = Part(tuple(columns), nothing, nothing.astype(bool))
    return Targets(part, labels, isinstance(names, str), schema)


def known_labels(
    y: Any, rows: int
) -> tuple[list[str], list[Shaped[np.ndarray, " rows"]], Bool[np.ndarray, "rows targets"], bool]:
    """Give the names of targets, their cells, where each is known, and whether y is no table.

    Raises
    ------
    InputError
        Where they are not one for each row, or one is nowhere known.
    """
    names, cells, flat = _columns(y, rows)
    mask = np.stack([[value is not None for value in cell] for cell in cells], axis=1)
    _check_known(names, mask)
    return names, cells, mask, flat


def two_or_more(name: str, known: Shaped[np.ndarray, " seen"]) -> Shaped[np.ndarray, " seen"]:
    """Give the known labels of a target as an array of one type.

    Raises
    ------
    InputError
        Where they are not of one type, are infinite, or are all the same.
    """
    if known.dtype == object:
        check_alike(name, known)
        known = _plain_labels(name, known)
    if known.dtype.kind == "f" and np.isinf(known).any():
        raise InputError(
            f"Input y contains infinity: target {name!r}; correct it, or make it missing."
        )
    if (known == known[0]).all():
        raise InputError(
            f"The target {name!r} has one class only, {known[0].item()!r}; a classifier needs two."
        )
    return known


def copies(features: Part, goal: Targets) -> list[tuple[str, str]]:
    """Find the columns that have the cells of a target and its holes, and the target of each."""
    found = []
    for k, target in enumerate(goal.part.columns):
        seen = goal.part.mask[:, k]
        truth: np.ndarray = goal.part.values[seen, k]
        if goal.classes:
            truth = goal.classes[k][truth.astype(int)]
        for j, column in enumerate(features.columns):
            if not np.array_equal(features.mask[:, j], seen):
                continue
            values: np.ndarray = features.values[seen, j]
            if column.kind in LEVELLED:
                values = np.array(column.levels, object)[values.astype(int)]
            if np.array_equal(values, truth):
                found.append((column.name, target.name))
    return found


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
        array = np.asarray(y) if isinstance(y, np.ndarray) else np.asarray(y, dtype=object)
        if array.ndim not in (1, 2):
            raise InputError(f"The target y has {array.ndim} dimensions; it needs one or two.")
        flat = array.ndim == 1
        array = array[:, None] if flat else array
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
    if isinstance(series, nw.Series):
        values = series.to_list()
    else:  # to tolist, dates in nanoseconds are whole numbers
        values = list(array) if array.dtype.kind in "mM" else array.tolist()
    known = (None if _is_missing(value) else value for value in values)
    return np.fromiter(known, dtype=object, count=len(values))


def _is_missing(value: Any) -> bool:
    # NaN is what differs from itself, and NaT and NA cannot be told to be the same.
    try:
        return value is None or not bool(value == value)
    except TypeError:
        return True
    except ValueError:  # an array
        return False


def check_alike(name: str, labels: Shaped[np.ndarray, " seen"]) -> None:
    """Refuse labels of which NumPy would turn some into another type."""
    first = {_family(label): label for label in labels[::-1]}
    if len(first) > 1:
        one, other, *_ = map(repr, first.values())
        raise InputError(
            f"The target {name!r} has labels of different types, such as {one} and {other}; make "
            "them all of one type."
        )


def _check_numbers(name: str, cells: Shaped[np.ndarray, " rows"]) -> None:
    if cells.dtype != object:
        return
    for row, value in enumerate(cells):
        # To NumPy, a span of time is a whole number.
        number = isinstance(value, Number | np.bool_) and not isinstance(value, np.timedelta64)
        if value is not None and (not number or isinstance(value, complex)):
            raise InputError(
                f"The target {name!r} is not all numbers: row {row} has {shown(value)}; convert it "
                "to numbers, or use Classifier for labels."
            )


def _plain_labels(name: str, labels: Shaped[np.ndarray, " seen"]) -> Shaped[np.ndarray, " seen"]:
    """Make an array of labels that are all of one type, if it keeps them as they are."""
    for label in labels:
        if not isinstance(label, str | bool | np.bool_ | Integral | float | np.floating):
            raise InputError(
                f"The target {name!r} has the label {shown(label)} of type "
                f"{type(label).__name__}; make labels texts, whole numbers or truth values."
            )
        if isinstance(label, str) and label.endswith("\0"):
            raise InputError(
                f"The target {name!r} has the label {shown(label)}, and NumPy drops null "
                "characters at the end of a text; remove them, and keep the labels apart."
            )
    found = np.array(labels.tolist())
    if found.dtype.kind not in "iub" and all(isinstance(label, Integral) for label in labels):
        raise InputError(
            f"The target {name!r} has whole numbers that no integer of 64 bits can hold together; "
            "make them texts."
        )
    return found


def _family(label: Any) -> type:
    families = (bool, np.bool_), (Number,), (str,)
    return next((one[0] for one in families if isinstance(label, one)), type(label))


def _check_known(names: list[str], mask: Shaped[np.ndarray, "rows targets"]) -> None:
    for j, name in enumerate(names):
        if not mask[:, j].any():
            raise InputError(f"The target {name!r} is missing in all rows; give one that is known.")
