"""Tables in text files: one record a line, fields between separators."""

import gzip
import re
import zlib
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from hhvaem.errors import InputError

# pyarrow's own list, and how Python and pandas print a missing value.
_MISSING = [*csv.ConvertOptions().null_values, "None", "<NA>"]
_LONGEST_LINE = 2**24  # in bytes; pyarrow cannot read a longer one
_SEPARATORS = b",;\t|"

# Both start with the letter itself, for which the search is fast.
_LED_BY_ZERO = re.compile(rb'0(?<=[\s,;|"]0)[\dxX]')
_QUOTED = rb'"(?:(?<=\A")|(?<=[\r\n%b]"))[^"]*+(?:""[^"]*+)*+("[ ]*+(?:(?=[\r\n%b])|\Z))?'

# What a file is that starts like this; UTF-32 first, since UTF-16 starts the same.
_OTHER_STARTS = {
    b"\x1f\x8b": "is packed by gzip; name it with .gz at the end",
    b"\xff\xfe\0\0": "is UTF-32; save it as UTF-8",
    b"\0\0\xfe\xff": "is UTF-32; save it as UTF-8",
    b"\xff\xfe": "is UTF-16; save it as UTF-8",
    b"\xfe\xff": "is UTF-16; save it as UTF-8",
}


def read_text(path: Path, *, tabs: bool) -> pa.Table:
    """Read a text file; where `tabs`, a tab in the header is the separator whatever else is."""
    content = _text(path)
    bare = re.sub(rb'"[^"]*"', b"", _header(content))
    found = b"\t" if tabs and b"\t" in bare else max(_bytes(_SEPARATORS), key=bare.count)
    _check_quotes(path, content, found)
    alone = found not in bare
    if alone:
        # A blank line is a hole of an only column, but around the table it means nothing.
        content = content.strip(b"\r\n")
    content += b"\n"  # or pyarrow finds no header in a file that is nothing else
    parse = csv.ParseOptions(
        delimiter=found.decode(), newlines_in_values=True, ignore_empty_lines=not alone
    )
    table = _parsed(path, content, parse, {})
    return _with_codes(table, path, content, parse) if _LED_BY_ZERO.search(content) else table


def _with_codes(table: pa.Table, path: Path, content: bytes, parse: csv.ParseOptions) -> pa.Table:
    """Give columns of codes as text: 01234 and 0x10 are not the numbers 1234 and 16."""
    numbers = [field.name for field in table.schema if _is_number(field.type)]
    distinct = len(set(table.column_names)) == table.num_columns
    if not numbers or not distinct:  # names that are not distinct are refused later
        return table
    kinds = dict.fromkeys(numbers, pa.string())
    texts = _parsed(path, content, parse, kinds).select(numbers)
    for name, column in zip(numbers, texts.columns, strict=True):
        if pc.any(pc.match_substring_regex(column, r"^\s*0[\dxX]")).as_py():
            table = table.set_column(table.column_names.index(name), name, column)
    return table


def write_text(table: pa.Table, file: IO[bytes], *, tabs: bool, zipped: bool) -> None:
    """Write a table as text, separated by tabs or by commas."""
    if table.num_columns == 1 and table.column(0).null_count:
        # Of an only column a hole would be a blank line, which most programs skip.
        quoted = table.column(0).cast(pa.string()).fill_null("")
        table = pa.table({table.column_names[0]: quoted})
    options = csv.WriteOptions(delimiter="\t" if tabs else ",", quoting_style="needed")
    if zipped:
        with gzip.GzipFile(fileobj=file, mode="wb") as packed:
            csv.write_csv(table, packed, options)
    else:
        csv.write_csv(table, file, options)


def _text(path: Path) -> bytes:
    """Give what a file holds, unpacked, as UTF-8 from the first letter of its header on."""
    content = path.read_bytes()
    if path.suffix.lower() == ".gz":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(f"{path} is not a gzip file: {first_line(error)}") from error
    for start, what in _OTHER_STARTS.items():
        if content.startswith(start):
            raise InputError(f"{path} {what}.")
    if b"\0" in content[:4]:
        raise InputError(f"{path} is UTF-16 or no text at all; save it as UTF-8.")
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path} is not UTF-8 in line {line}; save it as UTF-8.") from error
    content = content.removeprefix(b"\xef\xbb\xbf")
    if not content.strip():
        raise InputError(f"{path} is empty; a table needs at least a header.")
    return content


def _header(content: bytes) -> bytes:
    """Give the first record, which may have line ends inside of quotes."""
    found = re.match(rb'[\r\n]*((?:"[^"]*"|[^"\r\n]+)*)', content)
    return found[1] if found else b""


def _bytes(content: bytes) -> list[bytes]:
    return [bytes([byte]) for byte in content]


def _check_quotes(path: Path, content: bytes, separator: bytes) -> None:
    """Refuse a quoted field that does not end at its quote: it would swallow what follows."""
    if b'"' not in content:
        return
    edge = re.escape(separator)
    for field in re.finditer(_QUOTED % (edge, edge), content):
        if field[1] is None:
            line = content.count(b"\n", 0, field.start()) + 1
            raise InputError(
                f"{path} has a quoted field in line {line} that does not end with a quote; close "
                'it, and write a quote inside of quotes as "".'
            )


def _parsed(
    path: Path, content: bytes, parse: csv.ParseOptions, kinds: dict[str, pa.DataType]
) -> pa.Table:
    try:
        return csv.read_csv(
            pa.BufferReader(content),
            # With more than one thread pyarrow does not know the line of an error.
            csv.ReadOptions(use_threads=False, block_size=_LONGEST_LINE),
            parse,
            csv.ConvertOptions(null_values=_MISSING, strings_can_be_null=True, column_types=kinds),
        )
    except pa.ArrowException as error:
        found = re.search(r"Row #(\d+): (.*)", str(error))
        where = f" in line {found[1]}: {found[2]}" if found else f": {error}"
        raise InputError(f"{path} cannot be read as CSV{first_line(Exception(where))}") from error


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def first_line(error: Exception) -> str:
    """Give the first line of an error's message, as the end of a sentence."""
    return str(error).partition("\n")[0].rstrip(".") + "."
