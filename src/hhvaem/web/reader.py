"""A process that reads one uploaded file: `python -m hhvaem.web.reader`.

Files of strangers are read here and nowhere else. The process has a limit on memory and on time, so
that what unpacks without end, or breaks a parser, ends this process and not the server.
It reads what to do as JSON from its standard input, writes the table as a plain Feather file, and
says on its standard output what came of it.
"""

import codecs
import gzip
import json
import os
import re
import sys
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import feather, parquet

from hhvaem.delimited import check_start, unpacked
from hhvaem.errors import InputError
from hhvaem.files import TEXT_SUFFIXES, read_table
from hhvaem.web.columns import find
from hhvaem.web.plain import cells

if sys.platform != "win32":
    import resource

# What a server asks for, and a table that is too large in one way.
TOO_LARGE = "{name} unpacks to more than this server takes ({most} MB); use a smaller table."
MODEL = (
    "{name} is a model of hhvaem and not a table; give the table that it is to fill, and start "
    "`hhvaem serve MODEL` to use the model."
)
SPREADSHEET = "{name} is a spreadsheet; save the sheet as CSV UTF-8, and give that file."
_DATES = (
    "dates or times that cannot be shown: they are beyond the years 1 to 9999, or of an unknown "
    "time zone"
)
# What is no text begins like this.
_STARTS = {
    b"\x89PNG\r\n\x1a\n": "a picture (PNG)",
    b"\xff\xd8\xff": "a picture (JPEG)",
    b"GIF87a": "a picture (GIF)",
    b"GIF89a": "a picture (GIF)",
    b"%PDF-": "a PDF",
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": "an old Excel or Word file",
    **{b"\x80" + bytes([version]): "a pickle of Python" for version in range(2, 6)},
}
# What is in a spreadsheet of Excel, and in one of LibreOffice.
_SHEETS = (b"xl/", b"opendocument.spreadsheet")
_START = 2**13
# Bytes that no text has, in whatever encoding of one byte.
_CONTROL = re.compile(rb"[\0-\x08\x0e-\x19]")
_BLOCK = 2**20
# The longest header of a safetensors file.
_HEADER = 10**8


def main() -> None:
    """Read a table, and say what came of it."""
    order = json.load(sys.stdin)
    _limit(order)
    name, path = order["name"], Path(order["path"])
    most = order["unpacked_bytes"] // 2**20
    try:
        found = _read(path, order)
    except MemoryError:
        found = {"error": TOO_LARGE.format(name=name, most=most)}
    except InputError as error:
        if isinstance(error.__cause__, MemoryError):
            found = {"error": TOO_LARGE.format(name=name, most=most)}
        else:
            found = {"error": str(error).replace(str(path), name)}
    json.dump(found, sys.stdout)


def _limit(order: dict[str, Any]) -> None:
    if sys.platform == "win32":
        return
    os.nice(5)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for what, most in (
        (resource.RLIMIT_AS, order["reading_bytes"]),
        (resource.RLIMIT_CPU, order["reading_seconds"]),
    ):
        _, hard = resource.getrlimit(what)
        resource.setrlimit(
            what, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard)
        )


def _read(path: Path, order: dict[str, Any]) -> dict[str, Any]:
    name = order["name"]
    if _is_model(path):
        raise InputError(MODEL.format(name=name))
    _check_unpacked(path, order)
    _check_start(path, name)
    table = read_table(path, order["missing"])
    check_size(name, table.num_rows, table.num_columns, order)
    if sum(map(_bytes, table.columns)) > order["unpacked_bytes"]:
        raise InputError(TOO_LARGE.format(name=name, most=order["unpacked_bytes"] // 2**20))
    if not table.num_rows or not table.num_columns:
        lacking = "rows" if table.num_columns else "columns"
        raise InputError(f"{name} has no {lacking}; a table needs at least one of both.")
    # In one piece, so that rows are found quickly, and plain, so that it is mapped and not read.
    whole = pa.table(
        {field: column.combine_chunks() for field, column in _columns(table)},
        metadata=None,
    )
    for field, column in _columns(whole):
        _check_shown(field, column)
    # What the server does next is tried here: what breaks it breaks this process instead.
    find(whole, {}, {})
    feather.write_feather(whole, order["out"], compression="uncompressed", chunksize=10**9)
    return {"rows": table.num_rows, "columns": table.num_columns}


def _check_shown(name: str, column: Any) -> None:
    """Refuse a column with cells that cannot be shown."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = pa.chunked_array([chunk.dictionary for chunk in column.chunks], kind.value_type)
        kind = kind.value_type
    what = "values that cannot be shown"
    try:
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            what = "text that is not in UTF-8"
            column.validate(full=True)
        elif pa.types.is_date(kind) or pa.types.is_timestamp(kind):
            what = _DATES
            ends = pc.min_max(column)
            cells(pa.array([ends["min"], ends["max"]], kind))
        elif not (pa.types.is_primitive(kind) and not pa.types.is_temporal(kind)):
            cells(column)
    except (OverflowError, ValueError, LookupError, OSError, pa.ArrowException) as error:
        raise InputError(
            f"Column {name!r} has {what} (it is stored as {kind}); mend the column, or leave it "
            "out."
        ) from error


def _bytes(column: Any) -> int:
    """Give the bytes of a column in which each level is written out where it occurs."""
    if not pa.types.is_dictionary(column.type):
        return int(column.nbytes)
    return sum(_bytes_of_levels(chunk) for chunk in column.chunks)


def _bytes_of_levels(chunk: Any) -> int:
    levels = chunk.dictionary
    if pa.types.is_string(levels.type) or pa.types.is_large_string(levels.type):
        lengths = pc.binary_length(levels).take(chunk.indices)
        return int(pc.sum(lengths).as_py() or 0) + int(chunk.indices.nbytes)
    return len(chunk) * 8


def _columns(table: pa.Table) -> list[tuple[str, Any]]:
    return list(zip(table.column_names, table.unify_dictionaries().columns, strict=True))


def check_size(name: str, rows: int, columns: int, order: dict[str, Any]) -> None:
    """Refuse a table that is too large.

    Raises
    ------
    InputError
        Saying in which way.
    """
    for what, count, most in (
        ("columns", columns, order["columns"]),
        ("rows", rows, order["rows"]),
        ("cells", rows * columns, order["cells"]),
    ):
        if count > most:
            raise InputError(
                f"{name} has {count:,} {what}, and this page takes {most:,} at most; leave some "
                "out, or use `hhvaem fit` on the command line."
            )


def _is_model(path: Path) -> bool:
    """Say whether a file is one of safetensors, as models are, whatever it is called."""
    with path.open("rb") as file:
        start = file.read(9)
        if len(start) < 9 or start[8:] != b"{":
            return False
        length = int.from_bytes(start[:8], "little")
        return length <= min(_HEADER, path.stat().st_size)


def _check_start(path: Path, name: str) -> None:
    """Refuse what is called a text and begins like something else."""
    if path.suffix not in (*TEXT_SUFFIXES, ".gz"):
        return
    try:
        with unpacked(path) as file:
            start = file.read(_START)
    except (InputError, OSError):
        return  # which is told when it is read
    for begun, what in _STARTS.items():
        if start.startswith(begun):
            raise InputError(f"{name} is {what} and not a table; save the table as CSV.")
    if start.startswith(b"PK\3\4") and any(part in start for part in _SHEETS):
        raise InputError(SPREADSHEET.format(name=name))
    check_start(path, start)
    if _CONTROL.search(start) and not _is_utf8(start):
        raise InputError(f"{name} looks like no text at all; give a table as CSV.")


def _is_utf8(start: bytes) -> bool:
    """Say whether a text in UTF-8 may go on after this."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start)
    except UnicodeDecodeError:
        return False
    return True


def _check_unpacked(path: Path, order: dict[str, Any]) -> None:
    """Refuse what says of itself that it is too large, before all of it is in memory."""
    most = order["unpacked_bytes"]
    large = InputError(TOO_LARGE.format(name=order["name"], most=most // 2**20))
    if path.suffix == ".gz":
        unpacked = 0
        try:
            with gzip.open(path) as file:
                while block := file.read(_BLOCK):
                    unpacked += len(block)
                    if unpacked > most:
                        raise large
        except (OSError, EOFError, zlib.error):
            return  # which is told when it is read
    if path.suffix == ".parquet":
        try:
            about = parquet.read_metadata(path)
        except (pa.ArrowException, OSError):
            return
        check_size(order["name"], about.num_rows, about.num_columns, order)
        groups = (about.row_group(i) for i in range(about.num_row_groups))
        if sum(group.total_byte_size for group in groups) > most:
            raise large


if __name__ == "__main__":
    main()
