"""What is made of a table that comes in parts: each is filled as the whole would be."""

import contextlib
import warnings
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hhvaem.containers import listed
from hhvaem.errors import InputError, TableWarning
from hhvaem.schema import Schema, Storage
from hhvaem.table import fill

# Rows of a part: as many as an accelerator takes at once, but not more cells than that.
ROWS, CELLS, LEAST_ROWS = 4096, 4_000_000, 128
# Of text files, the types of columns whose fields alone could say another one.
_TYPES: dict[Storage, pa.DataType] = {"text": pa.string(), "float": pa.float64()}


def rows_of_a_part(asked: int | None, columns: int) -> int:
    """Give how many rows to hold at once, of so many columns in all copies.

    Examples
    --------
    >>> rows_of_a_part(None, columns=20), rows_of_a_part(7, columns=20)
    (4096, 7)
    """
    return asked or min(ROWS, max(LEAST_ROWS, CELLS // columns))


def types_in_text(schema: Schema) -> dict[str, pa.DataType]:
    """Give the types as which columns of a text file are to be read."""
    return {c.name: _TYPES[c.storage] for c in schema if c.storage in _TYPES}


def used_names(schema: Schema) -> set[str]:
    """Give the columns that a model looks at."""
    return {c.name for c in schema if c.kind != "ignored"}


def by_name(model: Any) -> Any:
    """Make a loaded model ready for this machine, and for tables whose columns go by name."""
    # The device of the machine that it was fitted on need not be here.
    model.set_params(device=None)
    # It may have been fitted on an array, but columns of files always have names.
    model.feature_names_in_ = np.array(model.schema_.names, dtype=object)
    return model


@dataclass(frozen=True)
class Filling:
    """How holes are filled: with their means, at random, or with intervals beside them."""

    draws: int | None = None
    posterior: str | None = None
    intervals: float | None = None
    shift: Mapping[Hashable, Any] = field(default_factory=dict)

    @property
    def copies(self) -> int:
        """How many tables are held at once for each that is read."""
        return self.draws or (3 if self.intervals else 1)

    def __call__(self, imputer: Any, path: Path, part: pa.Table, before: int) -> pa.Table:
        """Fill a part of the table in a file that has so many rows before it."""
        known = part.select(imputer.schema_.names)
        ends = None
        if self.draws:
            full = imputer.sample(
                known, self.draws, posterior=self.posterior, shift=self.shift, offset=before
            )
        else:
            full = [imputer.transform(known, posterior=self.posterior)]
        if self.intervals:
            ends = imputer.interval(known, self.intervals, posterior=self.posterior)
        return self._put_together(imputer, path, part, full, ends, before)

    def schema(self, imputer: Any, path: Path, part: pa.Table) -> pa.Schema:
        """Give the columns that are made of a part, without the work."""
        known = part.select(imputer.schema_.names)
        # Any legal values will do.
        values = np.zeros((part.num_rows, len(imputer.schema_.modelled)))
        full = fill(known, imputer.schema_, values)
        ends = (full, full) if self.intervals else None
        return self._put_together(imputer, path, part, [full], ends, 0).schema

    def _put_together(
        self,
        imputer: Any,
        path: Path,
        part: pa.Table,
        full: Sequence[pa.Table],
        ends: tuple[pa.Table, pa.Table] | None,
        before: int,
    ) -> pa.Table:
        written = [replaced(part, each) for each in full]
        if self.draws:
            return _long(path, written, before)
        return beside(path, written[0], _named_ends(imputer, *ends)) if ends else written[0]


def beside(path: Path, table: pa.Table, columns: Mapping[str, Any]) -> pa.Table:
    """Put columns behind those of a table.

    Raises
    ------
    InputError
        Where the table, which is of a file, has one of that name already.
    """
    for name, values in columns.items():
        if name in table.column_names:
            raise InputError(f"{path} has a column {name!r}, as the output will; rename it.")
        table = table.append_column(name, values)
    return table


def check_columns(
    what: object, names: Sequence[str], known: Sequence[str], needed: Sequence[str]
) -> None:
    """Refuse a table that lacks columns of a model, and note those that it has beside them.

    Raises
    ------
    InputError
        Naming them.
    """
    absent = [name for name in needed if name not in names]
    if absent:
        raise InputError(
            f"{what} lacks {listed(absent)}; add every column of the model, empty if unknown."
        )
    extra = [name for name in names if name not in known]
    if extra:
        warnings.warn(
            f"Columns unknown to the model are passed through as they are: {listed(extra)}.",
            TableWarning,
            stacklevel=2,
        )


def alike(table: pa.Table, first: pa.Schema) -> pa.Table:
    """Give a part the types of the first: holes alone do not tell what they are filled into."""
    for i, column_field in enumerate(table.schema):
        wanted = first.field(i).type
        if column_field.type == wanted:
            continue
        column = table.column(i)
        if pa.types.is_floating(column_field.type) and pa.types.is_integer(wanted):
            column = pc.round(column)
        new = column.cast(wanted, safe=False)
        table = table.set_column(i, column_field.with_type(wanted), new)
    return table


@contextlib.contextmanager
def noted(notes: list[str]) -> Iterator[None]:
    """Put the notes about a part of a table aside, each of them once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TableWarning)
        yield
    notes += dict.fromkeys(str(note.message) for note in caught)


def tell(notes: Sequence[str]) -> None:
    """Tell the first of the notes that begin alike, however many parts made one."""
    similar: dict[str, list[str]] = {}
    for note in notes:
        similar.setdefault(note.partition(":")[0], []).append(note)
    for note, *more in similar.values():
        text = f"{note.rstrip('.')}; there are more in later rows." if more else note
        warnings.warn(text, TableWarning, stacklevel=2)


def replaced(part: pa.Table, full: pa.Table) -> pa.Table:
    """Put filled columns in the place of their own.

    Examples
    --------
    >>> part = pa.table({"id": [7, 8], "age": [31, None]})
    >>> replaced(part, pa.table({"age": [31, 40]})).to_pydict()
    {'id': [7, 8], 'age': [31, 40]}
    """
    for name in full.column_names:
        part = part.set_column(part.column_names.index(name), full.field(name), full.column(name))
    return part


def count_holes(part: pa.Table, schema: Schema) -> tuple[int, int]:
    """Count the holes that a model fills, and those that it leaves: in columns that it ignores."""
    counts = {
        name: pc.sum(pc.is_null(part.column(name), nan_is_null=True)).as_py() or 0
        for name in schema.names
    }
    filled = sum(counts[name] for name in used_names(schema))
    return filled, sum(counts.values()) - filled


def _long(path: Path, tables: Sequence[pa.Table], before: int) -> pa.Table:
    """Put all draws of each row below each other."""
    draws, rows = len(tables), tables[0].num_rows
    by_row = np.arange(draws * rows).reshape(draws, rows).T.ravel()
    long = pa.concat_tables(tables).unify_dictionaries().take(by_row)
    first = {
        "draw": np.tile(np.arange(1, draws + 1), rows),
        "row": np.repeat(np.arange(before + 1, before + rows + 1), draws),
    }
    for i, (name, numbers) in enumerate(first.items()):
        if name in tables[0].column_names:
            raise InputError(f"{path} has a column {name!r}, as the output will; rename it.")
        long = long.add_column(i, name, pa.array(numbers))
    return long


def _named_ends(imputer: Any, low: pa.Table, up: pa.Table) -> dict[str, Any]:
    """Give the ends of intervals under names of their own; levels without order have none."""
    return {
        f"{column.name}_{end}": ends.column(column.name)
        for column in imputer.schema_.modelled
        if column.kind not in ("binary", "categorical")
        for end, ends in (("low", low), ("up", up))
    }
