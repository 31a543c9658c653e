"""Tables in files that need not fit into memory: where their rows come from, and what they are."""

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow.fs import LocalFileSystem

from hhvaem.containers import listed
from hhvaem.errors import InputError, rows_named
from hhvaem.files import (
    TEXT_SUFFIXES,
    as_path,
    check_names,
    check_version,
    files_of,
    suffix_to_read,
    told,
    version,
)
from hhvaem.inference import MANY_LEVELS, TIME_STEPS, infer_schema
from hhvaem.reading import Reading, read, without_views
from hhvaem.schema import Schema
from hhvaem.streaming import read_chunks

# Cells that are read at once, in so many rows at most.
CELLS, ROWS = 2_000_000, 65_536
# Rows with each value of a column that are kept, of so many values: what is more, no rule counts.
KEPT, VALUES = 3, MANY_LEVELS + 1
# Cells of a column of levels that are kept: those of an identifier are fewer than two for each of
# its levels, of which more than so many are too many anyway.
CELLS_OF_LEVELS = 2 * MANY_LEVELS


# Cells that training holds at once, but not fewer rows than these.
HELD_CELLS, FEWEST_HELD = 1_000_000, 1_000


class Seen(NamedTuple):
    """What a pass over a table has found, and the rows by which it did."""

    schema: Schema
    rows: int
    kept: pa.Table


@dataclass(frozen=True)
class Source:
    """A table that can be read again and again, some rows at a time.

    Parameters
    ----------
    name
        What to call it in messages.
    types
        Names and types of its columns.
    read
        Reads it.
    change
        What is done with rows that were read.
    """

    name: str
    types: pa.Schema
    read: Callable[[int], Iterator[pa.Table]]
    change: Callable[[pa.Table], pa.Table] = field(default=lambda table: table)

    def chunks(self) -> Iterator[pa.Table]:
        """Read all rows, some at a time."""
        rows, done = max(min(ROWS, CELLS // max(len(self.types), 1)), 1), 0
        for chunk in self.read(rows):
            with rows_named(done.__add__):
                yield self.change(chunk)
            done += len(chunk)

    def whole(self, most: int) -> pa.Table | None:
        """Read all rows, unless there are more than `most`."""
        held: list[pa.Table] = []
        for chunk in self.chunks():
            held.append(chunk)
            if sum(map(len, held)) > most:
                return None
        return pa.concat_tables(held).unify_dictionaries()


def source_of(given: Any, missing: Sequence[str] = ()) -> Source:
    """Find the rows of a file, of all files of a folder or a pattern, or of a pyarrow dataset.

    Raises
    ------
    InputError
        Where there is no table, or files do not go together; it names the file.
    """
    if isinstance(given, Source):
        return given
    if hasattr(given, "to_batches") and isinstance(getattr(given, "schema", None), pa.Schema):
        return _of_dataset(given)
    path = as_path(given)
    return _of_files(path, files_of(path), missing)


def is_source(given: Any) -> bool:
    """Say whether this names a table rather than being one."""
    if isinstance(given, str | os.PathLike | Source):
        return True
    return type(given).__module__.startswith("pyarrow._dataset")


def survey(source: Source, kinds: Mapping[Any, str] | None, leave: Collection[str] = ()) -> Seen:
    """Tell what each column of a table is, as `infer_schema` does, in one pass over its rows.

    Columns to `leave` out are not looked at. Only rows are kept that could make a difference to
    one of its rules, and the first ones.
    """
    ignored = {str(name) for name, kind in (kinds or {}).items() if kind == "ignored"}
    columns = [name for name in source.types.names if name not in leave]
    kept: list[pa.Table] = []
    numbers: list[int] = []
    known = {name: _Known() for name in columns if name not in ignored}
    done = 0
    for chunk in source.chunks():
        table = chunk.select(columns)
        with rows_named(done.__add__):
            news = [known[name].news(read(name, table.column(name))) for name in known]
        # All of the first rows, as notes are about what rows have in common.
        rows = np.arange(len(table))
        if done:
            rows = np.unique(np.concatenate([[], *news]).astype(np.int64))
        kept.append(table.take(pa.array(rows)))
        numbers += (rows + done).tolist()
        done += len(table)
    telling = pa.concat_tables(kept).unify_dictionaries()
    with rows_named(numbers.__getitem__):
        schema = infer_schema(telling, kinds)
    if len(kept) > 1 and len(kept[0]):
        schema = _with_first_notes(schema, infer_schema(kept[0], _kinds_of(schema)))
    return Seen(schema, done, telling)


@dataclass
class _Known:
    """What is known of a column."""

    cells: int = 0
    counts: Counter[Any] = field(default_factory=Counter)
    low: float = np.inf
    high: float = -np.inf
    steps: set[float] = field(default_factory=lambda: set(TIME_STEPS))

    def news(self, reading: Reading) -> np.ndarray:
        """Give the rows that tell something new."""
        rows = np.flatnonzero(~reading.missing)
        values = reading.values[rows]
        if not values.size:
            return rows
        found = [self._values(reading, values)]
        if reading.storage == "text" or reading.categories is not None:
            found.append(np.arange(values.size)[: max(CELLS_OF_LEVELS - self.cells, 0)])
        self.cells += values.size
        if reading.storage != "text":
            found.append(self._ends(values))
            found += self._fractions(values)
        return rows[np.concatenate(found)]

    def _values(self, reading: Reading, values: np.ndarray) -> np.ndarray:
        """Look for values that few rows had."""
        if len(self.counts) >= VALUES and (
            reading.storage != "text" or all(n >= KEPT for n in self.counts.values())
        ):
            return np.zeros(0, np.int64)
        distinct, first, counts = np.unique(values, return_index=True, return_counts=True)
        found = []
        for value, row, count in zip(distinct, first, counts, strict=True):
            key = reading.texts[int(value)] if reading.storage == "text" else float(value)
            if key not in self.counts and len(self.counts) >= VALUES:
                continue
            lacking = KEPT - self.counts[key]
            if lacking > 0:
                more = np.flatnonzero(values == value)[:lacking] if count > 1 else [row]
                found.append(np.asarray(more))
            self.counts[key] += int(count)
        return np.concatenate(found) if found else np.zeros(0, np.int64)

    def _ends(self, values: np.ndarray) -> np.ndarray:
        """Look for values that are as far out as those before."""
        low, high = values.min(), values.max()
        found = [np.zeros(0, np.int64)]
        if low <= self.low:
            found.append(np.flatnonzero(values == low)[:KEPT])
        if high >= self.high:
            found.append(np.flatnonzero(values == high)[:KEPT])
        self.low, self.high = min(self.low, low), max(self.high, high)
        return np.concatenate(found)

    def _fractions(self, values: np.ndarray) -> Iterator[np.ndarray]:
        """Look for values that lie between the steps on which all others do."""
        for step in sorted(self.steps):
            between = np.flatnonzero(values % step != 0)[:1]
            if between.size:
                self.steps.discard(step)
                yield between


def _kinds_of(schema: Schema) -> dict[str, str]:
    return {column.name: column.kind for column in schema if column.kind != "constant"}


def _with_first_notes(schema: Schema, first: Schema) -> Schema:
    """Add what was noted of the first rows where all of them together gave no note."""
    columns = tuple(
        replace(column, note=column.note or before.note) if column.kind == before.kind else column
        for column, before in zip(schema, first, strict=True)
    )
    return replace(schema, columns=columns)


def _of_dataset(dataset: Any) -> Source:
    name = Path("The dataset")
    types = without_views(dataset.schema.empty_table()).schema
    check_names(name, types.names)
    local = isinstance(getattr(dataset, "filesystem", None), LocalFileSystem)
    versions = {path: _version(path) for path in map(Path, dataset.files if local else [])}

    def check() -> None:
        for path, before in versions.items():
            with told(path, "read"):
                check_version(path, before)

    def chunks(rows: int) -> Iterator[pa.Table]:
        check()
        yield types.empty_table()
        with told(name, "read"):
            for batch in dataset.to_batches(batch_size=rows):
                yield without_views(pa.Table.from_batches([batch])).cast(types)
        check()

    return Source(str(name), types, chunks)


def _of_files(name: Path, paths: Sequence[Path], missing: Sequence[str]) -> Source:
    versions, schemas = {}, []
    for path in paths:
        suffix_to_read(path)
        versions[path] = _version(path)
        schemas.append(next(read_chunks(path, 1, missing=missing)).schema)
    types = schemas[0]
    for path, schema in zip(paths[1:], schemas[1:], strict=True):
        types = _together(types, schema, paths[0], path)
    texts = {field.name: field.type for field in types if not pa.types.is_null(field.type)}

    def chunks(rows: int) -> Iterator[pa.Table]:
        for path, before in versions.items():
            known = texts if suffix_to_read(path) in TEXT_SUFFIXES else None
            with told(path, "read"):
                check_version(path, before)
                for chunk in read_chunks(path, rows, known, missing=missing):
                    # What has changed since is a table of its own, if it is one.
                    check_version(path, before)
                    yield chunk if chunk.schema.equals(types) else chunk.cast(types)

    return Source(str(name), types, chunks)


def _version(path: Path) -> tuple[int, ...]:
    """Give what differs where a file changes between the passes over it."""
    with told(path, "read"):
        return version(path)


def _together(types: pa.Schema, more: pa.Schema, first: Path, path: Path) -> pa.Schema:
    """Give types that hold the columns of two files.

    Raises
    ------
    InputError
        Where there are none, or the columns are others.
    """
    if more.names != types.names:
        raise InputError(
            f"{path} has the columns {listed(more.names)}, but {first} has {listed(types.names)}; "
            "files that are one table have the same ones, in the same order."
        )
    text = all(suffix_to_read(each) in TEXT_SUFFIXES for each in (first, path))
    fields = []
    for one, other in zip(types, more, strict=True):
        kind = _common(one.type, other.type, text=text)
        if kind is None:
            raise InputError(
                f"Column {one.name!r} is of dtype {other.type} in {path}, but of {one.type} in "
                f"{first}; cast it to one of them."
            )
        fields.append(pa.field(one.name, kind))
    return pa.schema(fields)


def _common(one: pa.DataType, other: pa.DataType, *, text: bool) -> pa.DataType | None:
    """Give the type that holds two, None where there is none."""
    both = [kind for kind, _ in groupby([one, other]) if not pa.types.is_null(kind)]
    if len(both) < 2:
        return both[0] if both else one
    numbers = {pa.int64(), pa.float64()}
    if text:
        # What the fields of one file look like, others need not.
        return pa.float64() if set(both) == numbers else pa.string()
    dictionaries = all(map(pa.types.is_dictionary, both))
    if dictionaries and one.value_type == other.value_type and one.ordered == other.ordered:
        return pa.dictionary(pa.int32(), one.value_type, one.ordered)
    return None
