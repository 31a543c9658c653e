"""Tables in files: CSV, Parquet and Feather by suffix."""

import contextlib
import fnmatch
import glob
import io
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import narwhals.dependencies as nwd
import pyarrow as pa
from pyarrow import feather, parquet

from hhvaem.atomic import replacing
from hhvaem.containers import columns_of, repeated, shown
from hhvaem.delimited import check_text_format, first_line, packed, read_text, write_text
from hhvaem.errors import InputError
from hhvaem.reading import as_arrow, dtype_of, way_out, without_views

TEXT_SUFFIXES = (".csv", ".tsv", ".txt")
SUFFIXES = (*TEXT_SUFFIXES, ".parquet", ".feather", ".arrow")


def read_table(path: str | os.PathLike[str], missing: Sequence[str] = ()) -> pa.Table:
    r"""Read a table from a file.

    In text files the separator is the most frequent of comma, semicolon, tab and bar in the
    header line, in a .tsv file the tab if it is there; empty fields and the usual spellings of
    NA are missing in all columns. Where the header has one field, so is a blank line. A column
    with a field such as 01234 or 0x10 is text, and so is one of decimals with a whole number that
    float64 does not hold, such as 9007199254740993. Where the separator is no comma and no field is
    a number with a point, a comma begins decimals.

    Parameters
    ----------
    path
        A .csv, .tsv or .txt file (also with .gz), .parquet, .feather or .arrow file.
    missing
        More texts that are missing where a field of a text file is just that, as in ["?"].

    Returns
    -------
    pyarrow.Table

    Raises
    ------
    InputError
        Where the file cannot be read as what its suffix says, or has no fields of text that
        could be `missing`.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "people.csv")
    ...     _ = path.write_text("age;city\n31;Rome\nNA;Oslo\n")
    ...     read_table(path).to_pylist()
    [{'age': 31, 'city': 'Rome'}, {'age': None, 'city': 'Oslo'}]
    """
    path = as_path(path)
    with told(path, "read"):
        suffix = suffix_to_read(path)
        check_missing(path, suffix, missing)
        before = version(path)
        if suffix in TEXT_SUFFIXES:
            table = read_text(path, tabs=suffix == ".tsv", missing=missing)
        else:
            table = without_views(_read_binary(path, suffix))
        check_version(path, before)
    check_names(path, table.column_names)
    return table


def write_table(table: Any, path: str | os.PathLike[str]) -> None:
    """Write a table to a file, whole or not at all.

    The file is written beside its place and then moved there, with the permissions of the file
    that was there; of a link, the file it points to is replaced. A .tsv file is separated by
    tabs, other text files by commas. An index of a pandas frame that is not just row numbers is
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
        Where the suffix is unknown, the folder does not exist, the file must not be written or
        the format cannot hold a column.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "people.parquet")
    ...     write_table(pa.table({"age": [31, None]}), path)
    ...     read_table(path).to_pylist()
    [{'age': 31}, {'age': None}]
    """
    path = as_path(path)
    with told(path, "written"):
        suffix, place = suffix_and_place(path)
        whole = whole_table(table)
        check_format(path, suffix, whole.schema)
        with replacing(place) as file:
            if suffix in TEXT_SUFFIXES:
                with packed(file, path) as text:
                    write_text(whole, text, tabs=suffix == ".tsv")
            elif suffix == ".parquet":
                parquet.write_table(whole, file)
            else:
                feather.write_feather(whole, file)


def as_path(path: Any) -> Path:
    """Give the path of a file.

    Raises
    ------
    InputError
        Where it is none.
    """
    name = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(name, str):
        raise InputError(f"{shown(path)} is no path of a file; give a text or a pathlib.Path.")
    return Path(name)


def is_many(table: Path) -> bool:
    """Say whether this is a folder or a pattern, and not the name of one file.

    Examples
    --------
    >>> is_many(Path("in/*.parquet")), is_many(Path("in/a.parquet"))
    (True, False)
    """
    return table.is_dir() or (glob.has_magic(str(table)) and not table.exists())


def files_of(table: Path, out: Path | None = None) -> list[Path]:
    """List what is in a folder, what a pattern names, or the only file, each once and by name.

    What a pattern names in the folder `out`, which a command writes to, is left out: it was not
    there before.

    Raises
    ------
    InputError
        Where there is nothing, or a folder.
    """
    if not is_many(table):
        return [table]
    if table.is_dir():
        # Other programs mark what is no table in such names: .crc, _SUCCESS.
        found = {path for path in table.iterdir() if path.name[0] not in "._"}
    else:
        # In several ways a pattern such as 'in/**/**/*.csv' comes to the same file.
        found = {Path(name) for name in glob.glob(str(table), recursive=True)}
    if out is not None:
        place = out.resolve()
        found = {path for path in found if not path.resolve().is_relative_to(place)}
    if not found:
        what = "has no tables in it" if table.is_dir() else "names no file"
        raise InputError(f"{table} {what}; put a pattern in quotes, as in 'in/*.parquet'.")
    for path in sorted(found):
        if path.is_dir():
            raise InputError(
                f"{path} is a folder; move it away, or give a pattern of files, as in "
                "'in/*.parquet'."
            )
    return sorted(found)


def would_be_read(path: Path, table: Path) -> bool:
    """Say whether what is written to a path is in a folder, or is named by a pattern, of tables.

    Raises
    ------
    InputError
        Where the pattern names no file.
    """
    place = path.resolve()
    if table.is_dir():
        return place.is_relative_to(table.resolve())
    if not is_many(table):
        return False
    folders = {found.parent.resolve() for found in files_of(table)}
    # Where folders on the way there are named, the pattern names them as well.
    return any(
        each.parent in folders and fnmatch.fnmatch(each.name, table.name)
        for each in (place, *place.parents)
    )


@contextlib.contextmanager
def told(path: Path, done: str) -> Iterator[None]:
    """Say in one sentence what the system or the format has against a file."""
    if "\0" in str(path):
        raise InputError(f"{str(path)!r} cannot be {done}: no file name has a null character.")
    try:
        yield
    except MemoryError:  # Arrow's too, which is not the fault of the file
        raise
    except (pa.ArrowException, OSError) as error:
        reason = getattr(error, "strerror", None) or first_line(error).rstrip(".")
        raise InputError(f"{path} cannot be {done}: {reason}.") from error


@contextlib.contextmanager
def told_of_kind(path: Path, suffix: str) -> Iterator[None]:
    """Say in one sentence that a file is not what its suffix says."""
    try:
        yield
    except MemoryError:
        raise
    except pa.ArrowException as error:
        kind = "Parquet" if suffix == ".parquet" else "Feather"
        raise InputError(f"{path} is not a {kind} file: {first_line(error)}") from error


def suffix_to_read(path: Path) -> str:
    """Give the suffix of a file that has something in it.

    Raises
    ------
    InputError
        Where there is none, or it is empty.
    """
    suffix = _suffix(path)
    if not path.exists():
        raise InputError(f"{path} does not exist.")
    if not path.is_file():
        raise InputError(
            f"{path} is a pipe or a device, but tables are read more than once; copy what it "
            "gives to a file."
        )
    if path.stat().st_size == 0:
        raise InputError(f"{path} is empty; a table needs at least a header.")
    return suffix


def suffix_and_place(path: Path) -> tuple[str, Path]:
    """Give the suffix of a file to write, and where it is when all links are followed.

    Raises
    ------
    InputError
        Where there is no such folder.
    """
    suffix = _suffix(path)
    place = Path(os.path.realpath(path))
    if not place.parent.is_dir():
        raise InputError(f"The folder {place.parent} does not exist; make it first.")
    return suffix, place


def version(path: Path) -> tuple[int, ...]:
    """Give what differs where a file is written to, or another has taken its place."""
    found = path.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def check_version(path: Path, before: tuple[int, ...]) -> None:
    """Refuse what was read of a file that has changed since: Arrow may give rows of both, or fewer.

    Raises
    ------
    InputError
        Saying so.
    """
    if version(path) != before:
        raise InputError(f"{path} has changed while it was read; read it again.")


def check_names(path: Path, names: Sequence[str]) -> None:
    """Refuse columns of the same name.

    Raises
    ------
    InputError
        Naming them.
    """
    twice = repeated(names)
    if twice:
        raise InputError(f"{path} has more than one column named {twice}; rename them apart.")


def check_missing(path: Path, suffix: str, missing: Any) -> None:
    """Refuse texts to be taken for holes that are none, or where a file has no fields of text.

    Raises
    ------
    InputError
        Saying which.
    """
    several = isinstance(missing, Sequence) and not isinstance(missing, str)
    if not several or not all(isinstance(text, str) for text in missing):
        raise InputError(f"`missing` must be a list of texts, as in ['?'], not {shown(missing)}.")
    if missing and suffix not in TEXT_SUFFIXES:
        raise InputError(
            f"{path} is no text file, of which alone one can say that {shown(missing[0])} means "
            "a missing value; make these cells null."
        )


def check_format(path: Path, suffix: str, schema: pa.Schema) -> None:
    """Refuse columns that the format of a file cannot hold.

    Raises
    ------
    InputError
        Naming the first of them.
    """
    if _can_hold(suffix, schema):
        return
    field = next(field for field in schema if not _can_hold(suffix, pa.schema([field])))
    other = ".parquet" if suffix in TEXT_SUFFIXES else ".feather"
    raise InputError(
        f"Column {field.name!r} of dtype {field.type} cannot be written to {path}; "
        f"{way_out(field.type)}, or write a {other} file."
    )


def _can_hold(suffix: str, schema: pa.Schema) -> bool:
    try:
        if suffix in TEXT_SUFFIXES:
            check_text_format(schema)
        elif suffix == ".parquet":
            parquet.ParquetWriter(io.BytesIO(), schema).close()
    except pa.ArrowException:
        return False
    return True


def _suffix(path: Path) -> str:
    suffix = Path(path.stem).suffix.lower() if path.suffix.lower() == ".gz" else ""
    suffix = suffix if suffix in TEXT_SUFFIXES else path.suffix.lower()
    if path.is_dir():
        raise InputError(f"{path} is a folder; name a file in it.")
    if suffix not in SUFFIXES:
        raise InputError(
            f"{path} has the unknown suffix {suffix!r}; known are {', '.join(SUFFIXES)}, and "
            ".gz after the first three."
        )
    return suffix


def _read_binary(path: Path, suffix: str) -> pa.Table:
    with told_of_kind(path, suffix):
        if suffix == ".parquet":
            # Not parquet.read_table, which makes columns of folder names such as year=2020.
            with parquet.ParquetFile(path) as file:
                return file.read()
        return feather.read_table(path)


def whole_table(table: Any) -> pa.Table:
    """Give a table of any container as it is written.

    Raises
    ------
    InputError
        Naming a column that cannot be.
    """
    columns = columns_of(table)
    if isinstance(table, pa.Table):
        return without_views(table)
    if not nwd.is_pandas_dataframe(table):
        return pa.table({name: _column(name, data) for name, data in columns})
    try:
        whole = pa.Table.from_pandas(table)
    except (pa.ArrowException, TypeError, UnicodeError) as error:
        for name, data in columns:
            _column(name, data)
        raise InputError(f"The index cannot be written: {first_line(error)}") from error
    for name, data in columns:
        # Categories that are intervals or periods: Feather would write what nobody can read.
        kind = getattr(whole.schema.field(name).type, "value_type", None)
        if isinstance(kind, pa.BaseExtensionType):
            raise _unwritable(name, data, kind)
    return whole


def _column(name: str, data: Any) -> Any:
    try:
        return as_arrow(data)
    except (pa.ArrowException, TypeError, UnicodeError) as error:
        raise _unwritable(name, data, first_line(error).rstrip(".")) from error


def _unwritable(name: str, data: Any, reason: object) -> InputError:
    dtype = dtype_of(data)
    return InputError(
        f"Column {name!r} of dtype {dtype} cannot be written ({reason}); {way_out(dtype)}."
    )
