"""Tables in files that need not fit into memory: where their rows come from, and what they are."""

import contextlib
import os
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from graphlib import CycleError, TopologicalSorter
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.fs import LocalFileSystem

from hhvaem.containers import listed, some
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
    parts
        Its files by their names, and what reads each.
    change
        What is done with rows that were read.
    """

    name: str
    types: pa.Schema
    parts: Mapping[str, Callable[[int], Iterator[pa.Table]]]
    change: Callable[[pa.Table], pa.Table] = field(default=lambda table: table)

    def chunks(self, places: "Places | None" = None) -> Iterator[pa.Table]:
        """Read all rows, some at a time, and note in `places` which ones these are."""
        rows = max(min(ROWS, CELLS // max(len(self.types), 1)), 1)
        places = Places() if places is None else places
        places.several = len(self.parts) > 1
        for file, read_rows in self.parts.items():
            places.files.append(file)
            places.starts.append(places.done)
            for chunk in read_rows(rows):
                with places.named(), rows_named(places.done.__add__):
                    changed = self.change(chunk)
                yield changed
                places.done += len(chunk)

    def whole(self, most: int) -> pa.Table | None:
        """Read all rows, unless there are more than `most`."""
        held: list[pa.Table] = []
        places, orders = Places(), _Orders()
        for chunk in self.chunks(places):
            orders.see(chunk, places.files[-1])
            held.append(chunk)
            if sum(map(len, held)) > most:
                return None
        return orders.joined(held)


@dataclass
class Places:
    """Which file each row of a table is of, as far as it was read.

    Parameters
    ----------
    files, starts
        Names of files, and the first row of each.
    done
        How many rows come before those that are read now.
    several
        Whether there is more than one file.
    """

    files: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    done: int = 0
    several: bool = False

    @contextlib.contextmanager
    def named(self) -> Iterator[None]:
        """Let errors about some rows of a table name rows of its files."""
        try:
            yield
        except InputError as error:
            message = re.sub(r"(?<=in row )\d+", lambda row: self._named(int(row[0])), str(error))
            raise InputError(message) from error

    def _named(self, row: int) -> str:
        if not self.several:
            return str(row)
        number = bisect_right(self.starts, row) - 1
        return f"{row - self.starts[number]} of {self.files[number]}"


class _Orders:
    """In which order levels are, in each column that ranks them and each file."""

    def __init__(self) -> None:
        self._found: dict[str, dict[tuple[Any, ...], str]] = {}

    def see(self, table: pa.Table, file: str) -> None:
        """Note the orders of some rows of a file."""
        for name, column in zip(table.column_names, table.columns, strict=True):
            if pa.types.is_dictionary(column.type) and column.type.ordered:
                found = self._found.setdefault(name, {})
                for part in column.chunks:
                    found.setdefault(tuple(part.dictionary.drop_null().to_pylist()), file)

    def joined(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Put rows below each other, with one order in each column.

        Raises
        ------
        InputError
            Where files have orders that do not go together, or leave one open.
        """
        table = pa.concat_tables(tables).unify_dictionaries()
        for number, name in enumerate(table.column_names):
            # One order alone is right, whatever it is.
            if len(self._found.get(name, {})) > 1:
                merged = _merged(name, self._found[name])
                table = table.set_column(number, name, _ranked(table.column(name), merged))
        return table


def _merged(name: str, found: Mapping[tuple[Any, ...], str]) -> list[Any]:
    """Give the only order of levels that is the one of all files."""
    before: dict[Any, list[Any]] = {}
    merged: list[Any] = []
    for order, file in found.items():
        for level in order:
            before.setdefault(level, [])
        for one, other in pairwise(order):
            before[other].append(one)
        try:
            merged = list(TopologicalSorter(before).static_order())
        except CycleError as error:
            against = [each for each in found if not _agree(each, order)]
            others, place = (against[0], found[against[0]]) if against else (merged, "others")
            raise InputError(
                f"Column {name!r} ranks its levels as {some(list(map(repr, order)))} in {file}, "
                f"but as {some(list(map(repr, others)))} in {place}; give it the same categories "
                "in all files, or make it text."
            ) from error
    for one, other in pairwise(merged):
        if one not in before[other]:
            first, second = (
                next(file for order, file in found.items() if level in order)
                for level in (one, other)
            )
            raise InputError(
                f"Column {name!r} ranks its levels, but no file says which comes first, {one!r} "
                f"(in {first}) or {other!r} (in {second}); give it the same categories in all "
                "files, or make it text."
            )
    return merged


def _agree(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Say whether two orders rank what they have in common alike."""
    return [level for level in one if level in other] == [level for level in other if level in one]


def _ranked(column: pa.ChunkedArray, levels: Sequence[Any]) -> pa.Array:
    """Give a column its levels in another order."""
    kind = column.type
    entries = pa.array(levels, kind.value_type)
    codes = pc.index_in(column.cast(kind.value_type), entries).combine_chunks()
    return pa.DictionaryArray.from_arrays(codes.cast(kind.index_type), entries, ordered=True)


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
    places, orders = Places(), _Orders()
    for chunk in source.chunks(places):
        table = chunk.select(columns)
        orders.see(table, places.files[-1])
        with places.named(), rows_named(places.done.__add__):
            news = [known[name].news(read(name, table.column(name))) for name in known]
        # All of the first rows, as notes are about what rows have in common.
        rows = np.arange(len(table))
        if places.done:
            rows = np.unique(np.concatenate([[], *news]).astype(np.int64))
        kept.append(table.take(pa.array(rows)))
        numbers += (rows + places.done).tolist()
    telling = orders.joined(kept)
    with places.named(), rows_named(numbers.__getitem__):
        schema = infer_schema(telling, kinds)
    if len(kept) > 1 and len(kept[0]):
        schema = _with_first_notes(schema, infer_schema(kept[0], _kinds_of(schema)))
    return Seen(schema, places.done, telling)


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

    return Source(str(name), types, {str(name): chunks})


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

    def chunks(path: Path, before: tuple[int, ...], rows: int) -> Iterator[pa.Table]:
        known = texts if suffix_to_read(path) in TEXT_SUFFIXES else None
        with told(path, "read"):
            check_version(path, before)
            for chunk in read_chunks(path, rows, known, missing=missing):
                # What has changed since is a table of its own, if it is one.
                check_version(path, before)
                yield chunk if chunk.schema.equals(types) else chunk.cast(types)

    parts = {str(path): partial(chunks, path, before) for path, before in versions.items()}
    return Source(str(name), types, parts)


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
