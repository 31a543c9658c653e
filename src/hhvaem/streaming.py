"""Tables that are larger than memory: read and written a number of rows at a time."""

import contextlib
import io
import os
from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
from pyarrow import csv, feather, ipc, parquet

from hhvaem.atomic import replacing
from hhvaem.containers import listed
from hhvaem.delimited import (
    LONGEST_HEADER,
    LONGEST_LINE,
    MARK,
    Dialect,
    check_header,
    check_start,
    check_utf8,
    dialect_of,
    inferred,
    is_lost_in_floats,
    line_ends,
    packed,
    parsed,
    quoted_fields,
    unclosed,
    unpacked,
    write_text,
)
from hhvaem.errors import InputError
from hhvaem.files import (
    TEXT_SUFFIXES,
    as_path,
    check_format,
    check_missing,
    check_names,
    check_version,
    suffix_and_place,
    suffix_to_read,
    told,
    told_of_kind,
    version,
    whole_table,
)
from hhvaem.reading import without_views

_BLOCK = 2**22  # bytes of text that are parsed at once
_BATCH = 2**16  # rows that are read or written at once
_GROUP = 2**26  # bytes that are gathered before they are written, since small groups cost much

# The order in which pyarrow tries types; a column has the first that holds all its fields.
_LADDER = (
    pa.null(),
    pa.int64(),
    pa.bool_(),
    pa.date32(),
    pa.time32("s"),
    pa.timestamp("s"),
    pa.timestamp("s", "UTC"),
    pa.timestamp("ns"),
    pa.timestamp("ns", "UTC"),
    pa.float64(),
    pa.string(),
)


def read_chunks(
    path: str | os.PathLike[str],
    rows: int,
    types: Mapping[str, pa.DataType] | None = None,
    *,
    missing: Sequence[str] = (),
    typed: Collection[str] | None = None,
) -> Iterator[pa.Table]:
    r"""Read a table from a file, a number of rows at a time.

    Together the chunks are what `read_table` gives, and what it refuses is refused with the same
    sentences. Memory does not grow with the length of the file, but one batch of a Feather file is
    held, as large as its writer made it. A text file is read twice: the types of its columns
    depend on all rows, and no chunk is given of one that is wrong at its end.

    Parameters
    ----------
    path
        A file as for `read_table`.
    rows
        Rows in each chunk; there are less in the last one, which is the only one of a table
        without rows.
    types
        Types of columns of a text file that are not to be told from it.
    missing
        As for `read_table`.
    typed
        Columns of a text file that are read for their values. All others are text as it stands
        in the file, and missing where there is nothing at all. None for all columns.

    Yields
    ------
    pyarrow.Table

    Raises
    ------
    InputError
        Where the file cannot be read as what its suffix says, or a field not as its type.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "people.csv")
    ...     _ = path.write_text("age;city\n31;Rome\nNA;Oslo\n30.5;Rome\n")
    ...     for chunk in read_chunks(path, 2):
    ...         print(chunk.to_pydict())
    {'age': [31.0, None], 'city': ['Rome', 'Oslo']}
    {'age': [30.5], 'city': ['Rome']}
    """
    path = as_path(path)
    if rows < 1:
        raise InputError(f"A chunk cannot have {rows} rows; give 1 or more.")
    with told(path, "read"):
        suffix = suffix_to_read(path)
        check_missing(path, suffix, missing)
        before = version(path)
        if suffix in TEXT_SUFFIXES:
            text = _text(path, types or {}, missing, typed, tabs=suffix == ".tsv")
            tables = _text_tables(path, text)
        else:
            tables = _binary_tables(path, suffix, min(rows, _BATCH))
        for table in _regrouped(tables, rows):
            check_version(path, before)
            yield table


@dataclass(frozen=True)
class OpenTable:
    """A table in a file of which rows can be read from anywhere; made by `open_rows`."""

    path: Path
    schema: pa.Schema
    counts: tuple[int, ...]  # rows of the pieces that the file is written in
    _suffix: str
    _text: "_Text | None"

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(self.counts)

    def chunks(self, start: int, stop: int, rows: int) -> Iterator[pa.Table]:
        """Read the rows from `start` up to `stop`, a number of rows at a time.

        Yields
        ------
        pyarrow.Table
            As `read_chunks` does, at least one.

        Raises
        ------
        InputError
            Where the file is not there any more, or is not what it was.
        """
        ends = list(accumulate(self.counts))
        # Those that hold the first and the last row, and of no rows the first one.
        first = min(bisect_right(ends, start), max(len(ends) - 1, 0))
        last = bisect_left(ends, stop, first)
        pieces = range(first, min(last + 1, len(ends)))
        before = ends[first] - self.counts[first] if pieces else 0
        with told(self.path, "read"):
            suffix_to_read(self.path)
            if self._text:
                tables = _text_tables(self.path, self._text, pieces)
            else:
                tables = _binary_tables(self.path, self._suffix, min(rows, _BATCH), pieces)
            yield from _regrouped(_cut(tables, start - before, stop - before), rows)


def open_rows(
    path: str | os.PathLike[str],
    types: Mapping[str, pa.DataType] | None = None,
    *,
    missing: Sequence[str] = (),
    typed: Collection[str] | None = None,
) -> OpenTable:
    r"""Look where the rows of a file are, so that any of them can be read later.

    A text file is read once, and refused where it is wrong anywhere; of others only what tells
    of their rows is read.

    Parameters
    ----------
    path, types, missing, typed
        As for `read_chunks`.

    Returns
    -------
    OpenTable
        Which may go to another process, that has the same file.

    Raises
    ------
    InputError
        As `read_chunks`.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "people.csv")
    ...     _ = path.write_text("age;city\n31;Rome\nNA;Oslo\n30.5;Rome\n")
    ...     source = open_rows(path)
    ...     [chunk.to_pydict() for chunk in source.chunks(1, 3, rows=10)]
    [{'age': [None, 30.5], 'city': ['Oslo', 'Rome']}]
    >>> source.rows
    3
    """
    path = as_path(path)
    with told(path, "read"):
        suffix = suffix_to_read(path)
        check_missing(path, suffix, missing)
        if suffix in TEXT_SUFFIXES:
            text = _text(path, types or {}, missing, typed, tabs=suffix == ".tsv")
            return OpenTable(path, pa.schema(text.kinds.items()), text.layout.counts, suffix, text)
        schema, counts = _counted(path, suffix)
        return OpenTable(path, without_views(schema.empty_table()).schema, counts, suffix, None)


class Chunks:
    """A file that is being written; made by `write_chunks`."""

    def __init__(self, path: Path, suffix: str, file: IO[bytes]) -> None:
        self._path = path
        self._suffix = suffix
        self._file = file
        self._sink: Any = None
        self._schema: pa.Schema = None
        self._held: list[pa.Table] = []
        self._bytes = 0

    @property
    def text(self) -> bool:
        """Whether the file is a text file."""
        return self._suffix in TEXT_SUFFIXES

    def check(self, schema: pa.Schema) -> None:
        """Refuse columns that the format cannot hold, before there is a table to write.

        Raises
        ------
        InputError
            Naming the first of them.
        """
        check_format(self._path, self._suffix, schema)

    def write(self, table: Any) -> None:
        """Write the next rows.

        Parameters
        ----------
        table
            A pandas or polars DataFrame, a pyarrow Table or a 2-D array, with the columns of the
            tables before.

        Raises
        ------
        InputError
            Where it has other columns, or the format cannot hold one.
        """
        with told(self._path, "written"):
            chunk = whole_table(table)
            if self._schema is None:
                self.check(chunk.schema)
                self._schema = chunk.schema
                self._sink = _sink(self._path, self._suffix, self._file, chunk.schema)
            self._held.append(_alike(self._schema, chunk))
            self._bytes += chunk.nbytes
            if self._bytes >= _GROUP:
                self._flush()

    def finish(self) -> None:
        """Write what is still held."""
        if self._schema is None:
            raise InputError(f"{self._path} cannot be written without a table; write one.")
        with told(self._path, "written"):
            if self._held:
                self._flush()
            self._sink.close()
        self._sink = None

    def abandon(self) -> None:
        """Write nothing more, and let go of the file, if it is not finished."""
        if self._sink is None:
            return
        # What is written no longer counts, but pyarrow would write it after the file is closed.
        with contextlib.suppress(Exception):
            self._sink.close()
        # Of a full disk, closing tells again, and would hide what was told.
        with contextlib.suppress(OSError):
            self._file.close()

    def _flush(self) -> None:
        self._sink.write_table(pa.concat_tables(self._held))
        self._held.clear()
        self._bytes = 0


@contextlib.contextmanager
def write_chunks(path: str | os.PathLike[str]) -> Iterator[Chunks]:
    """Write a table to a file, a number of rows at a time, whole or not at all.

    The file holds what `write_table` would write of all chunks together. It takes its place when
    the `with` block ends; where that ends with an error, what was there before stays.

    Parameters
    ----------
    path
        Where to; the suffix says the format, as for `read_table`.

    Yields
    ------
    Chunks
        Whose method `write` takes the next rows.

    Raises
    ------
    InputError
        As `write_table`, and where a chunk has other columns than the first, or there is none.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "people.parquet")
    ...     with write_chunks(path) as chunks:
    ...         chunks.write(pa.table({"age": [31, None]}))
    ...         chunks.write(pa.table({"age": [40]}))
    ...     [chunk.to_pydict() for chunk in read_chunks(path, 10)]
    [{'age': [31, None, 40]}]
    """
    path = as_path(path)
    with contextlib.ExitStack() as undone:
        with told(path, "written"):
            suffix, place = suffix_and_place(path)
            file = undone.enter_context(replacing(place))
            chunks = Chunks(path, suffix, file)
            undone.callback(chunks.abandon)
        # Not told: what goes wrong here is not the fault of this file.
        yield chunks
        chunks.finish()
        with told(path, "written"):
            undone.pop_all().close()


def _regrouped(tables: Iterator[pa.Table], rows: int) -> Iterator[pa.Table]:
    """Give the same rows in tables of `rows` rows, the last one of less, but at least one table."""
    held = None
    for table in tables:
        held = pa.concat_tables([held, table]) if held else table
        while held.num_rows > rows:
            yield held.slice(0, rows)
            held = held.slice(rows)
    yield held


def _cut(tables: Iterator[pa.Table], start: int, stop: int) -> Iterator[pa.Table]:
    """Give the rows of tables from `start` up to `stop`, and of the first at least its columns."""
    first = True
    for table in tables:
        part = table.slice(max(start, 0), max(stop - max(start, 0), 0))
        if first or part.num_rows:
            yield part
        first = False
        start, stop = start - table.num_rows, stop - table.num_rows
        if stop <= 0:
            return


def _counted(path: Path, suffix: str) -> tuple[pa.Schema, tuple[int, ...]]:
    """Give the columns of a file of batches, and the rows of its row groups or batches."""
    with told_of_kind(path, suffix):
        if suffix == ".parquet":
            with parquet.ParquetFile(path) as file:
                check_names(path, file.schema_arrow.names)
                groups = map(file.metadata.row_group, range(file.metadata.num_row_groups))
                return file.schema_arrow, tuple(group.num_rows for group in groups)
        with pa.OSFile(os.fspath(path)) as source:
            if source.read(6) != b"ARROW1":
                table = feather.read_table(path)
                return table.schema, (table.num_rows,)
            schema = ipc.open_file(source).schema
            check_names(path, schema.names)
            # One column tells how many rows there are, and no other need be unpacked.
            one = ipc.IpcReadOptions(included_fields=[0])
            file = ipc.open_file(source, options=one)
            batches = map(file.get_batch, range(file.num_record_batches))
            return schema, tuple(batch.num_rows for batch in batches)


def _binary_tables(
    path: Path, suffix: str, rows: int, pieces: range | None = None
) -> Iterator[pa.Table]:
    """Read some pieces of a file of batches, or all: first none of the rows, then these."""
    return map(without_views, _batches(path, suffix, rows, pieces))


def _batches(path: Path, suffix: str, rows: int, pieces: range | None) -> Iterator[pa.Table]:
    with told_of_kind(path, suffix):
        if suffix == ".parquet":
            # With a buffer not all of a row group is read at once.
            with parquet.ParquetFile(path, buffer_size=_BLOCK, pre_buffer=False) as file:
                check_names(path, file.schema_arrow.names)
                yield file.schema_arrow.empty_table()
                for batch in file.iter_batches(rows, row_groups=pieces):
                    yield pa.Table.from_batches([batch], file.schema_arrow)
            return
        with pa.OSFile(os.fspath(path)) as source:
            if source.read(6) != b"ARROW1":  # of old, or no Feather file at all
                yield feather.read_table(path)
                return
            file = ipc.open_file(source)
            check_names(path, file.schema.names)
            yield file.schema.empty_table()
            for number in range(file.num_record_batches) if pieces is None else pieces:
                yield pa.Table.from_batches([file.get_batch(number)])


@dataclass(frozen=True)
class _Layout:
    """How a text file is written, and where its records are."""

    dialect: Dialect
    edges: list[int]  # in bytes, of blocks of whole records; the header is in the first one
    counts: tuple[int, ...]  # rows of the blocks
    header: bytes


@dataclass(frozen=True)
class _Text:
    """How a text file is read."""

    layout: _Layout
    kinds: dict[str, pa.DataType]
    verbatim: list[str]  # columns that are read for the text that stands there


@dataclass
class _Seen:
    """What blocks hold of a column."""

    types: set[pa.DataType]
    beyond_floats: bool = False  # whether a block of whole numbers has one that float64 lacks


def _text(
    path: Path,
    types: Mapping[str, pa.DataType],
    missing: Sequence[str],
    typed: Collection[str] | None,
    *,
    tabs: bool,
) -> _Text:
    """Read a text file for its types."""
    layout, seen = _scan(path, types, tuple(missing), typed, tabs=tabs)
    verbatim = [name for name in seen if typed is not None and name not in typed]
    kinds = {**_settled(path, layout, seen), **dict.fromkeys(verbatim, pa.string())}
    return _Text(layout, kinds, verbatim)


def _text_tables(path: Path, text: _Text, pieces: range | None = None) -> Iterator[pa.Table]:
    """Read some blocks of a text file for their values, or all."""
    for block in _blocks(path, text.layout, pieces):
        yield _table(path, block, text.layout.dialect, text.kinds, text.verbatim)


def _table(
    path: Path,
    block: bytes,
    dialect: Dialect,
    kinds: dict[str, pa.DataType],
    verbatim: list[str],
) -> pa.Table:
    """Parse a block, some of its columns for the text that stands there."""
    if not verbatim:
        return parsed(path, block, dialect, kinds)
    table = parsed(path, block, dialect, kinds, only=verbatim, verbatim=True)
    columns = dict(zip(verbatim, table.columns, strict=True))
    others = [name for name in kinds if name not in columns]
    if others:
        table = parsed(path, block, dialect, kinds, only=others)
        columns.update(zip(others, table.columns, strict=True))
    return pa.table({name: columns[name] for name in kinds})


def _scan(
    path: Path,
    types: Mapping[str, pa.DataType],
    missing: tuple[str, ...],
    typed: Collection[str] | None,
    *,
    tabs: bool,
) -> tuple[_Layout, dict[str, _Seen]]:
    """Check a text file; give where its records are, and what its columns are in blocks."""
    seen: dict[str, _Seen] = defaultdict(lambda: _Seen(set()))
    header = b""
    with unpacked(path) as file:
        start, first, dialect = _start(path, file, missing, tabs=tabs)
        parse = dialect.parse
        edges, counts, end = [start], list[int](), start
        for line, block in _records(path, file, parse, first):
            # What is text in one block is text in all.
            texts = {
                name: pa.string()
                for name, found in seen.items()
                if pa.string() in found.types or (typed is not None and name not in typed)
            }
            table = inferred(
                path, header + block, dialect, {**texts, **types}, line=line - line_ends(header)
            )
            if not header:
                check_names(path, table.column_names)
                header = _header(table.column_names, parse)
            for field, column in zip(table.schema, table.columns, strict=True):
                found = seen[field.name]
                found.types.add(field.type)
                if field.type == pa.int64():
                    found.beyond_floats |= is_lost_in_floats(column)
            if block.strip(b"\r\n"):
                end = edges[-1] + len(block.rstrip(b"\r\n"))
            edges.append(edges[-1] + len(block))
            counts.append(table.num_rows)
    if not parse.ignore_empty_lines:
        # A blank line is a hole of an only column, but after the table it means nothing.
        edges = [min(edge, end) for edge in edges]
        counts = _rows_between(path, _Layout(dialect, edges, (), header), list(seen))
    return _Layout(dialect, edges, tuple(counts), header), seen


def _rows_between(path: Path, layout: _Layout, names: list[str]) -> list[int]:
    texts = dict.fromkeys(names, pa.string())
    blocks = _blocks(path, layout)
    return [parsed(path, block, layout.dialect, texts).num_rows for block in blocks]


def _start(
    path: Path, file: io.BufferedIOBase, missing: Sequence[str], *, tabs: bool
) -> tuple[int, int, Dialect]:
    """Go to the header of a file, and give its place, its line and how the file is written."""
    content = file.read(LONGEST_HEADER)
    check_start(path, content)
    while not content.removeprefix(MARK).strip() and (more := file.read(LONGEST_HEADER)):
        content += more
    text = content.removeprefix(MARK)
    check_header(path, text)
    start = len(content) - len(text.lstrip(b"\r\n"))
    file.seek(start)
    return start, line_ends(content, start) + 1, dialect_of(text, missing, tabs=tabs)


def _records(
    path: Path, file: io.BufferedIOBase, parse: csv.ParseOptions, line: int
) -> Iterator[tuple[int, bytes]]:
    """Cut a file that is at its line `line` into blocks of whole records, and check these.

    Each comes with the number of its first line.
    """
    held, more = file.read(_BLOCK), file.read(_BLOCK)
    while held:
        # A record that is longer is one that pyarrow refuses, or a quote that is never closed.
        last = not more or len(held) > 2 * LONGEST_LINE
        end = _last_end(path, held, parse, line, last=last)
        block, held = held[:end], held[end:] + more
        more = file.read(max(_BLOCK, len(held))) if more else b""
        if block:
            check_utf8(path, block, line)
            yield line, block
            line += line_ends(block)


def _last_end(path: Path, content: bytes, parse: csv.ParseOptions, line: int, *, last: bool) -> int:
    """Give where the last whole record ends in the content of a file, or in the last of it."""
    # A carriage return at the end may be the first half of a line end.
    stop = len(content) - content.endswith(b"\r")
    starts, ends = array("q"), array("q", [0])
    for start, end, closed in quoted_fields(content, parse):
        if not closed and (last or end < len(content)):
            raise unclosed(path, line + line_ends(content, start))
        starts.append(start)
        ends.append(end)
    if last:
        return len(content)
    starts.append(stop)
    for start, end in zip(reversed(starts), reversed(ends), strict=True):
        found = max(content.rfind(b"\n", end, start), content.rfind(b"\r", end, start))
        if found >= 0:
            return found + 1
    return 0


def _header(names: list[str], parse: csv.ParseOptions) -> bytes:
    """Write names as the header of a block."""
    quoted = ('"' + name.replace('"', '""') + '"' for name in names)
    return (parse.delimiter.join(quoted) + "\n").encode()


def _blocks(path: Path, layout: _Layout, pieces: range | None = None) -> Iterator[bytes]:
    """Read some blocks of a text file, or all, each with a header."""
    edges = layout.edges if pieces is None else layout.edges[pieces.start : pieces.stop + 1]
    with unpacked(path) as file:
        file.seek(edges[0])
        for start, end in pairwise(edges):
            block = file.read(end - start)
            if len(block) < end - start:
                raise InputError(f"{path} has changed while it was read; read it again.")
            yield block if start == layout.edges[0] else layout.header + block


def _settled(path: Path, layout: _Layout, seen: dict[str, _Seen]) -> dict[str, pa.DataType]:
    """Give for each column the first type of the ladder that holds all of its blocks."""
    kinds = {name: max(found.types, key=_step) for name, found in seen.items()}
    # Whole numbers are numbers and all is text, but not all of 0, 1 and 2 are truth values.
    unsure = [
        name
        for name, found in seen.items()
        if kinds[name] != pa.string()
        and not found.types <= {kinds[name], pa.null()}
        and not found.types <= {pa.null(), pa.int64(), pa.float64()}
    ]
    while unsure:
        held = dict(kinds)
        for block in _blocks(path, layout):
            for name in unsure:
                while kinds[name] != pa.string() and not _holds(
                    path, block, layout.dialect, name, kinds[name]
                ):
                    kinds[name] = _LADDER[_step(kinds[name]) + 1]
        # What held the first blocks before may hold them no longer.
        unsure = [name for name in unsure if kinds[name] not in (held[name], pa.string())]
    for name, found in seen.items():
        if found.beyond_floats and kinds[name] == pa.float64():
            kinds[name] = pa.string()
    return kinds


def _step(kind: pa.DataType) -> int:
    return _LADDER.index(kind) if kind in _LADDER else 0


def _holds(path: Path, block: bytes, dialect: Dialect, name: str, kind: pa.DataType) -> bool:
    try:
        parsed(path, block, dialect, {name: kind}, only=[name])
    except InputError:
        return False
    return True


def _alike(schema: pa.Schema, chunk: pa.Table) -> pa.Table:
    """Refuse a chunk whose columns are not those of the first; nothing but holes has no type."""
    if chunk.column_names != schema.names:
        raise InputError(
            f"A chunk has the columns {listed(chunk.column_names)}, but the first one has "
            f"{listed(schema.names)}; give all chunks the same."
        )
    for number, (field, before) in enumerate(zip(chunk.schema, schema, strict=True)):
        if field.type == before.type:
            continue
        if pa.types.is_null(field.type):
            chunk = chunk.set_column(number, before, pa.nulls(len(chunk), before.type))
        else:
            raise InputError(
                f"Column {field.name!r} is of dtype {field.type} in a chunk, but of "
                f"{before.type} in the first one; cast it to one of them."
            )
    return chunk


def _sink(path: Path, suffix: str, file: IO[bytes], schema: pa.Schema) -> Any:
    """Give what writes tables of a schema: it has the methods `write_table` and `close`."""
    if suffix in TEXT_SUFFIXES:
        return _TextSink(path, file, tabs=suffix == ".tsv")
    if suffix == ".parquet":
        return parquet.ParquetWriter(file, schema)
    return _FeatherSink(file, schema)


class _TextSink:
    def __init__(self, path: Path, file: IO[bytes], *, tabs: bool) -> None:
        self._tabs = tabs
        self._header = True
        self._packing = contextlib.ExitStack()
        self._text = self._packing.enter_context(packed(file, path))

    def write_table(self, table: pa.Table) -> None:
        write_text(table, self._text, tabs=self._tabs, header=self._header)
        self._header = False

    def close(self) -> None:
        self._packing.close()


class _FeatherSink:
    def __init__(self, file: IO[bytes], schema: pa.Schema) -> None:
        # As `write_feather` does. Of a dictionary a later one may only be a longer one.
        compression = "lz4" if pa.Codec.is_available("lz4_frame") else None
        options = ipc.IpcWriteOptions(compression=compression, emit_dictionary_deltas=True)
        self._writer = ipc.new_file(file, schema, options=options)
        self._known = schema.empty_table()

    def write_table(self, table: pa.Table) -> None:
        table = pa.concat_tables([self._known, table]).unify_dictionaries()
        self._known = table.slice(0, 0)
        self._writer.write_table(table, _BATCH)

    def close(self) -> None:
        self._writer.close()
