"""Tables in text files: one record a line, fields between separators."""

import contextlib
import gzip
import io
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from hhvaem.errors import InputError

# pyarrow's own list, and how Python and pandas print a missing value.
_MISSING = [*csv.ConvertOptions().null_values, "None", "<NA>"]
LONGEST_LINE = 2**24  # in bytes; pyarrow cannot read a longer one
LONGEST_HEADER = 2**22  # in bytes; of a longer one this much tells the separator
_SEPARATORS = b",;\t|"
# Numbers that are all of a field, with a comma or a point before their decimals. Three digits may
# as well be thousands.
_NUMBER = rb'(?:\A|[\r\n"%b]) *[-+]?(%b)(?:[eE][-+]?\d+)? *(?=[\r\n"%b]|\Z)'
_POINTED, _COMMAED = rb"\d*\.\d+", rb"\d+,(?!\d{3}\b)\d+|0+,\d+"
MARK = b"\xef\xbb\xbf"  # of UTF-8, which some programs put before the first letter

# Both start with the letter itself, for which the search is fast.
_LED_BY_ZERO = re.compile(rb'0(?<=[\s,;|"]0)[\dxX]')
_QUOTED = rb'"(?:(?<=\A")|(?<=[\r\n%b]"))[^"]*+(?:""[^"]*+)*+("[ ]*+(?:(?=[\r\n%b])|\Z))?'

# What a file is that starts like this; UTF-32 first, since UTF-16 starts the same.
_OTHER_STARTS = {
    b"\x1f\x8b": "is packed by gzip; name it with .gz at the end",
    b"PK\3\4": "is a zip archive or a spreadsheet; unpack it, or save it as CSV",
    b"PK\5\6": "is an empty zip archive; save a table as CSV",
    b"PAR1": "is a Parquet file; name it with .parquet at the end",
    b"ARROW1": "is a Feather file; name it with .feather at the end",
    b"\xff\xfe\0\0": "is UTF-32; save it as UTF-8",
    b"\0\0\xfe\xff": "is UTF-32; save it as UTF-8",
    b"\xff\xfe": "is UTF-16; save it as UTF-8",
    b"\xfe\xff": "is UTF-16; save it as UTF-8",
}


@dataclass(frozen=True)
class Dialect:
    """How a text file is written: its separator, what is missing, and what decimals begin with."""

    parse: csv.ParseOptions
    missing: tuple[str, ...] = ()  # beside the usual spellings
    decimal: str = "."


def read_text(path: Path, *, tabs: bool, missing: Sequence[str] = ()) -> pa.Table:
    """Read a text file; where `tabs`, a tab in the header is the separator whatever else is."""
    with unpacked(path) as file:
        content = file.read()
    check_start(path, content)
    check_utf8(path, content)
    content = content.removeprefix(MARK)
    check_header(path, content)
    dialect = dialect_of(content, missing, tabs=tabs)
    for start, _, closed in quoted_fields(content, dialect.parse):
        if not closed:
            raise unclosed(path, line_ends(content, start) + 1)
    # A blank line is a hole of an only column, but around the table it means nothing.
    text = content.lstrip(b"\r\n")
    line = line_ends(content, len(content) - len(text)) + 1
    return inferred(path, text.rstrip(b"\r\n"), dialect, {}, line=line)


@contextlib.contextmanager
def unpacked(path: Path) -> Iterator[io.BufferedIOBase]:
    """Open a file, for what it holds before it was packed.

    Raises
    ------
    InputError
        Where it should be packed and is not.
    """
    if path.suffix.lower() != ".gz":
        with path.open("rb") as file:
            yield file
        return
    try:
        with gzip.open(path) as file:
            yield file
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path} is not a gzip file: {first_line(error)}") from error


def check_start(path: Path, content: bytes) -> None:
    """Refuse what starts as no UTF-8 text does."""
    for start, what in _OTHER_STARTS.items():
        if content.startswith(start):
            raise InputError(f"{path} {what}.")
    if b"\0" in content[:4]:
        raise InputError(f"{path} is UTF-16 or no text at all; save it as UTF-8.")


def check_utf8(path: Path, content: bytes, line: int = 1) -> None:
    """Refuse what is no UTF-8; `line` is the number of its first line."""
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        line += line_ends(content, error.start)
        raise InputError(f"{path} is not UTF-8 in line {line}; save it as UTF-8.") from error


def check_header(path: Path, content: bytes) -> None:
    """Refuse what holds nothing, or no text."""
    if not content.strip():
        raise InputError(f"{path} is empty; a table needs at least a header.")
    if b"\0" in _header(content):
        raise InputError(f"{path} has null characters in its header, as no text has; save it anew.")


def line_ends(content: bytes, end: int | None = None) -> int:
    """Count the lines that end before a place, or in all, whatever ends them."""
    stop = len(content) if end is None else end
    both = content.count(b"\r\n", 0, stop)
    return content.count(b"\n", 0, stop) + content.count(b"\r", 0, stop) - both


def dialect_of(content: bytes, missing: Sequence[str], *, tabs: bool) -> Dialect:
    """Tell how a text is written from its start; lines may be blank if there is no separator.

    Where fields are not separated by commas, these may begin decimals: they do if no field is a
    number with a point.
    """
    start = content[:LONGEST_HEADER]
    parse = _parse_options(start, tabs=tabs)
    edge = re.escape(parse.delimiter.encode())

    def has(number: bytes) -> bool:
        return re.search(_NUMBER % (edge, number, edge), start) is not None

    commas = parse.delimiter != "," and has(_COMMAED) and not has(_POINTED)
    return Dialect(parse, tuple(missing), "," if commas else ".")


def _parse_options(content: bytes, *, tabs: bool) -> csv.ParseOptions:
    header = _header(content.lstrip(b"\r\n")[:LONGEST_HEADER])
    bare = re.sub(rb'"[^"]*"', b"", header)
    found = b"\t" if tabs and b"\t" in bare else max(_bytes(_SEPARATORS), key=bare.count)
    return csv.ParseOptions(
        delimiter=found.decode(), newlines_in_values=True, ignore_empty_lines=found in bare
    )


def quoted_fields(content: bytes, parse: csv.ParseOptions) -> Iterator[tuple[int, int, bool]]:
    """Give where quoted fields start and end, and whether a quote and an edge end them."""
    if b'"' in content:
        edge = re.escape(parse.delimiter.encode())
        for field in re.finditer(_QUOTED % (edge, edge), content):
            yield field.start(), field.end(), field[1] is not None


def unclosed(path: Path, line: int) -> InputError:
    """Give the error of a quoted field that goes on: it would swallow what follows."""
    return InputError(
        f"{path} has a quoted field in line {line} that does not end with a quote; close "
        'it, and write a quote inside of quotes as "".'
    )


def inferred(
    path: Path,
    content: bytes,
    dialect: Dialect,
    kinds: Mapping[str, pa.DataType],
    *,
    line: int = 1,
) -> pa.Table:
    """Parse text and tell the types from it, but of the columns whose `kinds` are given.

    Codes are text: 01234 and 0x10 are not the numbers 1234 and 16, and no float64 is
    9007199254740993. In errors, `line` is the number of the first line.

    Raises
    ------
    InputError
        As `parsed`, and where such a number is in a column that is given as floats.
    """
    table = parsed(path, content, dialect, kinds, line=line)
    if len(set(table.column_names)) < table.num_columns:  # which is refused later
        return table
    led_by_zero = _LED_BY_ZERO.search(content)
    doubtful = [
        field.name
        for field, column in zip(table.schema, table.columns, strict=True)
        if (led_by_zero and _is_number(field.type) and field.name not in kinds)
        or (pa.types.is_floating(field.type) and _is_large(column))
    ]
    if not doubtful:
        return table
    texts = parsed(path, content, dialect, dict.fromkeys(doubtful, pa.string()), only=doubtful)
    for name, column in zip(doubtful, texts.columns, strict=True):
        floating = pa.types.is_floating(table.schema.field(name).type)
        lost = _lost_in_floats(column) if floating else ""
        if lost and name in kinds:
            raise InputError(
                f"{path} has {lost} in column {name!r}, a whole number that float64 does not "
                "hold; round it, or leave the field empty."
            )
        if lost or pc.any(pc.match_substring_regex(column, r"^\s*0[\dxX]")).as_py():
            table = table.set_column(table.column_names.index(name), name, column)
    return table


def is_lost_in_floats(column: Any) -> bool:
    """Say whether float64 does not hold a number of a column of whole numbers."""
    return _is_large(column) and bool(_lost_in_floats(column.cast(pa.string())))


def _is_large(column: Any) -> bool:
    """Say whether numbers are so large that float64 does not hold all whole ones among them."""
    ends = pc.min_max(column).as_py().values()
    return any(end is not None and abs(end) >= 2**53 for end in ends)


def _lost_in_floats(texts: Any) -> str:
    """Give the first text that is a whole number and no float64, or an empty one."""
    whole = texts.filter(pc.match_substring_regex(texts, r"^\s*[-+]?\d{16,}\s*$"))
    lost = (text for text in whole.unique().to_pylist() if Decimal(text) != Decimal(float(text)))
    return next(lost, "").strip()


def write_text(table: pa.Table, file: Any, *, tabs: bool, header: bool = True) -> None:
    """Write a table as text, separated by tabs or by commas."""
    if table.num_columns == 1:
        # Of an only column a hole would be a blank line, which most programs skip.
        quoted = table.column(0).cast(pa.string()).fill_null("")
        table = pa.table({table.column_names[0]: quoted})
    options = csv.WriteOptions(
        delimiter="\t" if tabs else ",", quoting_style="needed", include_header=header
    )
    csv.write_csv(table, file, options)


def check_text_format(schema: pa.Schema) -> None:
    """Let pyarrow refuse columns that it cannot write as text, and refuse bytes, which are none."""
    csv.CSVWriter(io.BytesIO(), schema).close()
    for field in schema:
        if pa.types.is_binary(field.type) or pa.types.is_large_binary(field.type):
            raise pa.ArrowInvalid("bytes are no text")


@contextlib.contextmanager
def packed(file: IO[bytes], path: Path) -> Iterator[Any]:
    """Give what to write the text of `path` to, so that `file` holds it as the name says."""
    if path.suffix.lower() == ".gz":
        # Neither the time nor the name of a file that is moved later belong into it.
        with gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as text:
            yield text
    else:
        yield file


def _header(content: bytes) -> bytes:
    """Give the first record, which may have line ends inside of quotes."""
    found = re.match(rb'[\r\n]*((?:"[^"]*"|[^"\r\n]+)*)', content)
    return found[1] if found else b""


def _bytes(content: bytes) -> list[bytes]:
    return [bytes([byte]) for byte in content]


def parsed(
    path: Path,
    content: bytes,
    dialect: Dialect,
    kinds: Mapping[str, pa.DataType],
    *,
    line: int = 1,
    only: Sequence[str] = (),
    verbatim: bool = False,
) -> pa.Table:
    """Parse text with a header, or `only` some of its columns.

    Where `verbatim`, fields are missing if there is nothing at all in them. In errors, `line` is
    the number of the first line.

    Raises
    ------
    InputError
        Naming the line, or the column whose kind does not hold a field.
    """
    if not content.endswith((b"\r", b"\n")):
        content += b"\n"  # or pyarrow finds no header in a file that is nothing else
    try:
        return csv.read_csv(
            pa.BufferReader(content),
            # With more than one thread pyarrow does not know the record of an error.
            csv.ReadOptions(use_threads=False, block_size=LONGEST_LINE),
            dialect.parse,
            csv.ConvertOptions(
                decimal_point=dialect.decimal,
                null_values=[""] if verbatim else [*_MISSING, *dialect.missing],
                strings_can_be_null=True,
                quoted_strings_can_be_null=not verbatim,
                column_types=kinds,
                include_columns=only,
            ),
        )
    except pa.ArrowException as error:
        found = re.search(r"Row #(\d+): (.*)", str(error))
        where = f": {error}"
        if found:
            before = _lines_before(content, dialect.parse, int(found[1]))
            where = f" in line {line + before}: {found[2]}"
        column = re.search(r"column #(\d+): Row", str(error))
        if column:
            names = parsed(path, content, dialect, {}).column_names
            where = f" in column {names[int(column[1])]!r}{where}"
        raise InputError(f"{path} cannot be read as CSV{first_line(Exception(where))}") from error


def _lines_before(content: bytes, parse: csv.ParseOptions, record: int) -> int:
    """Count the lines before a record; the header is record 1."""
    bare = bytearray(content)
    for start, end, _ in quoted_fields(content, parse):
        bare[start:end] = bytes(end - start)  # where a line end ends no record
    one = rb"[^\r\n]+" if parse.ignore_empty_lines else rb"[^\r\n]*(?:\r\n?|\n)"
    starts = [found.start() for found in re.finditer(one, bare)]
    return line_ends(content, starts[record - 1])


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def first_line(error: Exception) -> str:
    """Give the first line of an error's message, as the end of a sentence."""
    return str(error).partition("\n")[0].rstrip(".") + "."
