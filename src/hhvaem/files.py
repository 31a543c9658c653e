"""Tables in files: CSV, Parquet and Feather by suffix."""

import contextlib
import gzip
import os
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import narwhals.dependencies as nwd
import pyarrow as pa
from pyarrow import csv, feather, parquet

from hhvaem.errors import InputError
from hhvaem.reading import columns_of, repeated

TEXT_SUFFIXES = (".csv", ".tsv", ".txt")
SUFFIXES = (*TEXT_SUFFIXES, ".parquet", ".feather", ".arrow")

# pyarrow's own list, and how Python and pandas print a missing value.
_MISSING = [*csv.ConvertOptions().null_values, "None", "<NA>"]
_LONGEST_LINE = 2**24  # in bytes; pyarrow cannot read a longer one


def read_table(path: str | os.PathLike[str]) -> pa.Table:
    r"""Read a table from a file.

    In text files the separator is the most frequent of comma, semicolon, tab and bar in the
    header line; empty fields and the usual spellings of NA are missing in all columns.

    Parameters
    ----------
    path
        A .csv, .tsv or .txt file (also with .gz), .parquet, .feather or .arrow file.

    Returns
    -------
    pyarrow.Table

    Raises
    ------
    InputError
        Where the file cannot be read as what its suffix says.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "people.csv")
    ...     _ = path.write_text("age;city\n31;Rome\nNA;Oslo\n")
    ...     read_table(path).to_pylist()
    [{'age': 31, 'city': 'Rome'}, {'age': None, 'city': 'Oslo'}]
    """
    path = Path(path)
    suffix = _suffix(path)
    if path.is_dir():
        raise InputError(f"{path} is a folder; name a file in it.")
    if not path.exists():
        raise InputError(f"{path} does not exist.")
    try:
        if path.stat().st_size == 0:
            raise InputError(f"{path} is empty; a table needs at least a header.")
        table = _read_text(path) if suffix in TEXT_SUFFIXES else _read_binary(path, suffix)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {_first_line(error)}") from error
    twice = repeated(table.column_names)
    if twice:
        raise InputError(f"{path} has more than one column named {twice}; rename them apart.")
    return table


def write_table(table: Any, path: str | os.PathLike[str]) -> None:
    """Write a table to a file, whole or not at all.

    The file is written beside its place and then moved there. A .tsv file is separated by tabs,
    other text files by commas. An index of a pandas frame that is not just row numbers is
    written as a column.

    Parameters
    ----------
    table
        A pandas or polars DataFrame, a pyarrow Table or a 2-D array.
    path
        Where to; the suffix says the format, as for `read_table`.

    Raises
    ------
    InputError
        Where the suffix is unknown, the folder does not exist or the format cannot hold a column.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "people.parquet")
    ...     write_table(pa.table({"age": [31, None]}), path)
    ...     read_table(path).to_pylist()
    [{'age': 31}, {'age': None}]
    """
    path = Path(path)
    suffix = _suffix(path)
    if path.is_dir():
        raise InputError(f"{path} is a folder; name a file in it.")
    if not path.parent.is_dir():
        raise InputError(f"The folder {path.parent} does not exist; make it first.")
    try:
        whole = _as_arrow(table)
        with _replacing(path) as file:
            if suffix in TEXT_SUFFIXES:
                _write_text(whole, file, suffix, zipped=path.suffix.lower() == ".gz")
            elif suffix == ".parquet":
                parquet.write_table(whole, file)
            else:
                feather.write_feather(whole, file)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path} cannot be written: {_first_line(error)}") from error


def _suffix(path: Path) -> str:
    suffix = Path(path.stem).suffix.lower() if path.suffix.lower() == ".gz" else ""
    suffix = suffix if suffix in TEXT_SUFFIXES else path.suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(
            f"{path} has the unknown suffix {suffix!r}; known are {', '.join(SUFFIXES)}, and "
            ".gz after the first three."
        )
    return suffix


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(".") + "."


def _read_binary(path: Path, suffix: str) -> pa.Table:
    try:
        if suffix == ".parquet":
            # Not parquet.read_table, which makes columns of folder names such as year=2020.
            with parquet.ParquetFile(path) as file:
                return file.read()
        return feather.read_table(path)
    except pa.ArrowException as error:
        kind = "Parquet" if suffix == ".parquet" else "Feather"
        raise InputError(f"{path} is not a {kind} file: {_first_line(error)}") from error


def _read_text(path: Path) -> pa.Table:
    content = path.read_bytes()
    if path.suffix.lower() == ".gz":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError) as error:
            raise InputError(f"{path} is not a gzip file: {_first_line(error)}") from error
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path} is not UTF-8 in line {line}; save it as UTF-8.") from error
    if not content.strip():
        raise InputError(f"{path} is empty; a table needs at least a header.")
    try:
        return csv.read_csv(
            pa.BufferReader(content),
            # With more than one thread pyarrow does not know the line of an error.
            csv.ReadOptions(use_threads=False, block_size=_LONGEST_LINE),
            csv.ParseOptions(delimiter=_separator(content), newlines_in_values=True),
            csv.ConvertOptions(null_values=_MISSING, strings_can_be_null=True),
        )
    except pa.ArrowException as error:
        found = re.search(r"Row #(\d+): (.*)", str(error))
        where = f" in line {found[1]}: {found[2]}" if found else f": {error}"
        raise InputError(f"{path} cannot be read as CSV{_first_line(Exception(where))}") from error


def _separator(content: bytes) -> str:
    header = content.lstrip().split(b"\n", 1)[0].decode("utf-8")
    bare = re.sub(r'"[^"]*"', "", header)
    return max(",;\t|", key=bare.count)


def _as_arrow(table: Any) -> pa.Table:
    columns = columns_of(table)
    if isinstance(table, pa.Table):
        return table
    if nwd.is_pandas_dataframe(table):
        return pa.Table.from_pandas(table)
    if nwd.is_polars_dataframe(table):
        return table.to_arrow()
    return pa.table({name: pa.array(data, from_pandas=True) for name, data in columns})


def _write_text(table: pa.Table, file: IO[bytes], suffix: str, *, zipped: bool) -> None:
    options = csv.WriteOptions(delimiter="\t" if suffix == ".tsv" else ",", quoting_style="needed")
    if zipped:
        with gzip.GzipFile(fileobj=file, mode="wb") as packed:
            csv.write_csv(table, packed, options)
    else:
        csv.write_csv(table, file, options)


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[IO[bytes]]:
    """Open a new file that takes the place of `path` if nothing goes wrong."""
    beside = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with beside.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
