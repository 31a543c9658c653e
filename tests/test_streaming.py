"""Tables in chunks are the tables in one piece, and take no more memory the longer they are."""

import contextlib
import datetime as dt
import errno
import gzip
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from hhvaem import read_table, streaming, write_table
from hhvaem.errors import InputError
from hhvaem.streaming import open_rows, read_chunks, write_chunks

TEXTS = [".csv", ".tsv", ".txt", ".csv.gz"]
SUFFIXES = [*TEXTS, ".parquet", ".feather", ".arrow"]
quick = settings(max_examples=50, deadline=None, database=None)

_letters = st.text(st.sampled_from('ab,;|\t"\n\r é日0 '), max_size=6)
_cells = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float64(): st.floats(allow_nan=False),
    pa.bool_(): st.booleans(),
    pa.string(): _letters,
    pa.date32(): st.dates(dt.date(1, 1, 1)),
    pa.timestamp("us"): st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1)),
    pa.dictionary(pa.int32(), pa.string()): _letters,
}


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    rows = draw(st.integers(0, 12))
    names = draw(st.lists(st.text(st.sampled_from('ab,"\n é'), min_size=1), min_size=1, max_size=4))
    columns = {}
    for name in names:
        kind = draw(st.sampled_from(list(_cells)))
        cells = st.lists(st.none() | _cells[kind], min_size=rows, max_size=rows)
        columns[name] = pa.array(draw(cells), kind)
    return pa.table(columns)


# Fields that pyarrow takes for different types together than apart.
_fields = st.sampled_from(
    [
        ["0", "1", "7", "-0", "true", "False", ""],
        ["1", "2.5", "1e3", "inf", " 7 ", "+1", "99999999999999999999", "NA"],
        ["1", "2.5", "9007199254740993", "-9007199254740993", "9007199254740994", "NA"],
        ["01", "0x10", "2", "3.5", " 01", "-01"],
        ["2020-01-01", "0001-01-02", "2020-01-01 00:00", "2020-01-01 00:00:00.5", "1"],
        ["2020-01-01T00:00:00Z", "2020-01-01T00:00:00.5Z", "2020-01-01T00:00:00", ""],
        ["10:00", "10:00:01", "10:00:00.5", "", "3"],
        ["a", "NA", "", "5' pipe", 'say "hi"', "x,;|\ty", "line\nend", "\r\n", "é日"],
        ["", "NA", "<NA>", "nan"],
    ]
)


@st.composite
def texts(draw: st.DrawFn) -> bytes:
    """Draw a text file whose columns change their kind half way."""
    width = draw(st.integers(1, 4))
    separator = draw(st.sampled_from(",;\t|"))
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    quoting = draw(st.booleans())

    def record(fields: list[str]) -> str:
        return separator.join(map(quoted, fields)) + end

    def quoted(field: str) -> str:
        needed = quoting or any(letter in field for letter in ',;\t|"\r\n')
        return '"' + field.replace('"', '""') + '"' if needed else field

    content = draw(st.sampled_from(["", "\ufeff", end * 2]))
    content += record([draw(st.sampled_from([f'{i} "n",\nm', f"n{i}"])) for i in range(width)])
    for _ in range(2):
        kinds = [draw(_fields) for _ in range(width)]
        for _ in range(draw(st.integers(0, 8))):
            content += record([draw(st.sampled_from(kind)) for kind in kinds])
            content += draw(st.sampled_from(["", "", "", end]))
    return (content.removesuffix(end) + end * draw(st.integers(0, 3))).encode()


@contextlib.contextmanager
def blocks_of(size: int) -> Iterator[None]:
    """Parse so many bytes at once, and write each chunk by itself."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streaming, "_BLOCK", size)
        patch.setattr(streaming, "_GROUP", size)
        yield


@contextlib.contextmanager
def file(suffix: str, content: bytes = b"") -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"a{suffix}")
        path.write_bytes(gzip.compress(content, 1) if suffix.endswith(".gz") else content)
        yield path


def write_all(path: Path, parts: Iterable[Any]) -> None:
    with write_chunks(path) as chunks:
        for part in parts:
            chunks.write(part)


def assert_same(found: pa.Table, expected: pa.Table) -> None:
    assert found.schema.equals(expected.schema, check_metadata=True)
    for name in expected.column_names:
        assert found[name].to_pylist() == expected[name].to_pylist()


def assert_chunks(chunks: list[pa.Table], rows: int, whole: pa.Table) -> None:
    assert_same(pa.concat_tables(chunks), whole)
    *full, last = [chunk.num_rows for chunk in chunks]
    assert full == [rows] * len(full)
    assert 0 < last <= rows or whole.num_rows == 0


@pytest.mark.parametrize("suffix", SUFFIXES)
@quick
@given(table=tables(), rows=st.integers(1, 13), size=st.integers(1, 99))
def test_chunks_are_the_table(suffix: str, table: pa.Table, rows: int, size: int) -> None:
    with file(suffix) as path, blocks_of(size):
        write_table(table, path)
        assert_chunks(list(read_chunks(path, rows)), rows, read_table(path))


@pytest.mark.parametrize("suffix", [".csv", ".tsv.gz"])
@settings(quick, max_examples=200)
@given(content=texts(), rows=st.integers(1, 20), size=st.integers(1, 99))
def test_text_in_chunks_has_the_types_of_the_whole(
    suffix: str, content: bytes, rows: int, size: int
) -> None:
    with file(suffix, content) as path, blocks_of(size):
        assert_chunks(list(read_chunks(path, rows)), rows, read_table(path))


@pytest.mark.parametrize(
    ("last", "kind"),
    [
        (["1"], pa.int64()),
        (["3.5"], pa.float64()),
        (["abc"], pa.string()),
        (["01234"], pa.string()),
        (["true"], pa.string()),
        (["", "NA", "<NA>"], pa.int64()),
    ],
)
def test_a_type_that_the_last_row_decides(
    tmp_path: Path, last: list[str], kind: pa.DataType
) -> None:
    path = tmp_path / "a.csv"
    head = [str(i) for i in range(1_000_000)]
    path.write_text("n\n" + "\n".join([*head, *last]))
    assert path.stat().st_size > streaming._BLOCK
    chunks = list(read_chunks(path, 300_000))
    assert [chunk.schema.types for chunk in chunks] == [[kind]] * 4
    assert_chunks(chunks, 300_000, read_table(path))


@pytest.mark.parametrize("suffix", SUFFIXES)
@quick
@given(
    table=tables(),
    span=st.tuples(st.integers(0, 13), st.integers(0, 13)).map(sorted),
    rows=st.integers(1, 5),
    size=st.integers(1, 100),
)
def test_rows_from_anywhere(
    suffix: str, table: pa.Table, span: list[int], rows: int, size: int
) -> None:
    with file(suffix) as path, blocks_of(size):
        if suffix == ".parquet":
            parquet.write_table(table, path, row_group_size=size)
        else:
            with write_chunks(path) as chunks:
                for first in range(0, max(table.num_rows, 1), size):
                    chunks.write(table.slice(first, size))
        whole = pa.concat_tables(read_chunks(path, 100))
        source = pickle.loads(pickle.dumps(open_rows(path)))
        start, stop = (min(place, whole.num_rows) for place in span)
        found = list(source.chunks(start, stop, rows))
    assert source.rows == whole.num_rows
    assert source.schema.equals(whole.schema)
    assert [part.num_rows for part in found[:-1]] == [rows] * (len(found) - 1)
    part = pa.concat_tables(found).unify_dictionaries()
    assert part.to_pylist() == whole.slice(start, stop - start).to_pylist()


@quick
@given(content=texts(), size=st.integers(1, 100), start=st.integers(0, 20))
def test_rows_of_texts_from_anywhere(content: bytes, size: int, start: int) -> None:
    with file(".csv", content) as path, blocks_of(size):
        whole = pa.concat_tables(read_chunks(path, 100))
        source = open_rows(path)
        start = min(start, whole.num_rows)
        part = pa.concat_tables(source.chunks(start, source.rows, 3))
    assert part.equals(whole.slice(start))


def test_a_file_that_is_gone_when_its_rows_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a\n1\n2\n")
    source = open_rows(path)
    path.write_text("a\n1\n")
    with pytest.raises(InputError, match="has changed while it was read"):
        list(source.chunks(0, 2, 10))
    path.unlink()
    with pytest.raises(InputError, match="does not exist"):
        list(source.chunks(0, 2, 10))


def test_types_that_hold_some_blocks_only(tmp_path: Path) -> None:
    """Zeros and ones are truth values, twos are not, though each block alone is whole numbers."""
    path = tmp_path / "a.csv"
    for rest, kind in [("1\n0\n", pa.bool_()), ("1\n2\n", pa.string()), ("-0\n", pa.string())]:
        for content in (f"a\n{rest}true\n", f"a\ntrue\n{rest}"):
            path.write_text(content)
            with blocks_of(2):
                assert next(read_chunks(path, 1)).schema.types == [kind]


def test_types_can_be_given(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("zip,n,x\n12345,1,1\n01234,2,2\n54321,3,\n")
    types = {"zip": pa.int64(), "n": pa.string(), "elsewhere": pa.bool_()}
    with blocks_of(4):
        found = pa.concat_tables(read_chunks(path, 2, types))
    expected = {"zip": [12345, 1234, 54321], "n": ["1", "2", "3"], "x": [1, 2, None]}
    assert found.to_pydict() == expected
    path.write_text("zip,n\n1,1\n2,1\n3,abc\n")
    sentence = r"in column 'n' in line 4: CSV conversion error to int64: invalid value 'abc'\.$"
    with blocks_of(4), pytest.raises(InputError, match=sentence):
        list(read_chunks(path, 1, {"n": pa.int64()}))


def test_a_whole_number_that_a_given_float_does_not_hold(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("n,x\n1,9007199254740992\n2,1e300\n3,9007199254740993\n")
    sentence = r"has 9007199254740993 in column 'x', a whole number that float64 does not hold"
    with blocks_of(4), pytest.raises(InputError, match=sentence):
        next(read_chunks(path, 1, {"x": pa.float64()}))
    assert next(read_chunks(path, 1, {"x": pa.string()}))["x"].to_pylist() == ["9007199254740992"]


AS_IT_IS = {
    "id": ["12345678901234567891", "007", "1e5"],
    "when": ["12:30", "NA", "null"],
    "flag": ["true", "1", " x "],
    "no\nte": [None, "", 'say "hi", you'],
    "what": ["?", "None", "1.50"],
}


@pytest.mark.parametrize("size", [1, 20, 1000])
def test_columns_without_a_type_are_the_text_that_is_there(tmp_path: Path, size: int) -> None:
    path = tmp_path / "a.csv"
    path.write_text(
        'id,x,when,flag,"no\nte",city,what\n'
        "12345678901234567891,1.50,12:30,true,,NA,?\n"
        '007,?,NA,1,"",Rome,None\n'
        '"1e5",NA,null, x ,"say ""hi"", you",?,1.50\n'
    )
    with blocks_of(size):
        found = pa.concat_tables(read_chunks(path, 2, missing=["?"], typed=["x", "city", "other"]))
    assert found.column_names == ["id", "x", "when", "flag", "no\nte", "city", "what"]
    values = {"x": [1.5, None, None], "city": [None, "Rome", None]}
    assert found.to_pydict() == {**AS_IT_IS, **values}
    with blocks_of(size):
        write_all(path, [found])
        again = pa.concat_tables(read_chunks(path, 2, typed=[]))
    assert again.select(list(AS_IT_IS)).to_pydict() == AS_IT_IS


def test_more_texts_can_be_missing_in_chunks(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("n,t\n1,x\n?,?\n-999,-\n")
    with blocks_of(4):
        found = pa.concat_tables(read_chunks(path, 2, missing=["?", "-999"]))
    assert found.to_pydict() == {"n": [1, None, None], "t": ["x", None, "-"]}
    write_table(found, tmp_path / "a.feather")
    with pytest.raises(InputError, match=r"a\.feather is no text file"):
        next(read_chunks(tmp_path / "a.feather", 1, missing=["?"]))


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".feather"])
def test_views_of_polars_in_chunks(tmp_path: Path, suffix: str) -> None:
    source, path = tmp_path / "polars.feather", tmp_path / f"a{suffix}"
    frame = pl.DataFrame(
        {"a": ["x", None, "y"], "b": pl.Series(["u", "v", None], dtype=pl.Categorical)}
    )
    frame.write_ipc(source, compat_level=pl.CompatLevel.newest())
    with blocks_of(1):
        write_all(path, read_chunks(source, 2))
    assert read_table(path).to_pylist() == frame.to_dicts()


def test_columns_that_cannot_be_written_are_named_before_there_are_values(tmp_path: Path) -> None:
    schema = pa.schema({"n": pa.int64(), "l": pa.list_(pa.int64())})
    sentence = r"^Column 'l' of dtype list<.*> cannot be written to .*a\.csv; split it into plain"
    with pytest.raises(InputError, match=sentence), write_chunks(tmp_path / "a.csv") as chunks:
        chunks.check(schema)
    with pytest.raises(InputError, match=sentence):
        write_all(tmp_path / "a.csv", [schema.empty_table()])
    write_all(tmp_path / "a.parquet", [schema.empty_table()])


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".feather"])
def test_a_table_without_rows_is_one_chunk(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    empty = pa.table({"a": pa.array([], pa.null()), "b": pa.array([], pa.null())})
    write_all(path, [empty])
    [found] = read_chunks(path, 5)
    assert_same(found, empty)


@pytest.mark.parametrize("suffix", [".parquet", ".feather"])
def test_files_of_other_batches(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    frame = pd.DataFrame({"a": np.arange(1000), "b": pd.Categorical(["x", "y"] * 500)})
    whole = pa.Table.from_pandas(frame)
    if suffix == ".parquet":
        parquet.write_table(whole, path, row_group_size=7)
    else:
        pa.feather.write_feather(whole, path, chunksize=7)
    assert_chunks(list(read_chunks(path, 64)), 64, read_table(path))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", b" \n\n"),
        ("a.csv.gz", gzip.compress(b"", mtime=0)),
        ("a.csv", b'a,b\n1,2\n\n"1\n",2\n1,2,3\n4,5\n'),
        ("a.csv", b'\n"a\n\n",b\n1,2\n"\n\n",2\n\n\n1,2\n1,2,3\n'),
        ("a.csv", b'\r"a\r\nc",b\r\r1,2\r1,"\r"\r\r1,2,3\r'),
        ("a.csv", b"\r\r\na\r\n\r\n1,2\r\n"),
        ("a.csv", b'\r\ra,b\r1,2\r1,"2'),
        ("a.csv", b"a\rb\r\xff\r"),
        ("a.csv", b"PK\3\4" + bytes(30)),
        ("a.csv", b"\n%PDF-1.7 \0\0\n1\n"),
        ("a.csv", b"a\n1\n\n2\n1,2\n"),
        ("a.csv", "a\nx\n\nM\u00fcnchen\ny\n".encode("latin-1")),
        ("a.csv", "a,b\nx,\u00e9".encode()[:-1]),
        ("a.csv", b"a,b,a\n1,2,3\n"),
        ("a.csv.gz", b"a,b\n1,2\n"),
        ("a.csv.gz", gzip.compress(b"a,b\n1,2\n" * 9, mtime=0)[:-9]),
        ("a.csv.gz", gzip.compress(b"a,b\n1,2\n" * 9, mtime=0)[:-8] + b"12345678"),
        ("a.csv", gzip.compress(b"a\n1\n", mtime=0)),
        ("a.csv", "a,b\n".encode("utf-16")),
        ("a.csv", "a,b\n".encode("utf-16-le")),
        ("a.csv", b'\n\nid,name\n1,"Ann\n2,Bob\n3,Cid\n'),
        ("a.csv", b'id,name\n1,"A""n\nn"\n2,"Bob"s\n'),
        ("a.csv", b'"a'),
        ("a.parquet", b"a,b\n1,2\n"),
        ("a.feather", b"a,b\n1,2\n"),
        ("a.arrow", b"ARROW1" + bytes(100)),
        ("a.xlsx", b"a,b\n1,2\n"),
        ("a.csv", b""),
        ("none.csv", None),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_same_words(
    tmp_path: Path, name: str, content: bytes | None
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError) as expected:
        read_table(path)
    for size in (1, 5, 1000):
        with blocks_of(size), pytest.raises(InputError) as found:
            next(read_chunks(path, 1))
        assert str(found.value) == str(expected.value)


def test_repeated_names_in_files_of_batches(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table([[1], [2]], names=["a", "a"]), path)
    with pytest.raises(InputError, match="more than one column named 'a'"):
        next(read_chunks(path, 1))


def test_a_ragged_row_far_down(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,b\n" + '"x\ny",2.5\n' * 600_000 + "1,2,3\n" + "3,4\n" * 9)
    assert path.stat().st_size > streaming._BLOCK
    for read in (read_table, lambda path: next(read_chunks(path, 10))):
        with pytest.raises(InputError, match="in line 1200002: Expected 2 columns, got 3: 1,2,3"):
            read(path)


@pytest.mark.parametrize(
    ("start", "sentence"),
    [(b'a,b\n1,2\n3,"x', "a quoted field in line 3 that does not end"), (b"a,b\n1,", "straddl")],
)
def test_a_record_without_end(tmp_path: Path, start: bytes, sentence: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(start + b"x" * 40_000_000)
    for read in (read_table, lambda path: next(read_chunks(path, 10))):
        with pytest.raises(InputError, match=sentence):
            read(path)


def test_records_that_are_longer_than_a_block(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    table = pa.table({"a": ["\n" * 10_000_000, None, 'x"' * 3_000_000], "b": [1, 2, 3]})
    write_table(table, path)
    assert_chunks(list(read_chunks(path, 1)), 1, table)


def test_blank_lines_after_an_only_column(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("\n\na\n\n1\n\n2" + "\n" * 50)
    for size in (1, 3, 7, 1000):
        with blocks_of(size):
            found = pa.concat_tables(read_chunks(path, 3))
        assert found.to_pydict() == {"a": [None, 1, None, 2]}


def test_a_file_that_changes_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a\n" + "1\n" * 100_000)
    with blocks_of(1000):
        chunks = read_chunks(path, 10)
        next(chunks)
        path.write_text("a\n")
        with pytest.raises(InputError, match=r"a\.csv has changed while it was read"):
            list(chunks)


@pytest.mark.parametrize("rows", [0, -1])
def test_chunks_without_rows(tmp_path: Path, rows: int) -> None:
    with pytest.raises(InputError, match=f"A chunk cannot have {rows} rows"):
        next(read_chunks(tmp_path / "a.csv", rows))


@pytest.mark.parametrize("suffix", SUFFIXES)
@quick
@given(table=tables(), rows=st.integers(1, 13), size=st.sampled_from([1, 300, 2**20]))
def test_written_in_chunks_is_written_at_once(
    suffix: str, table: pa.Table, rows: int, size: int
) -> None:
    with file(suffix) as path, file(suffix) as other, blocks_of(size):
        write_table(table, path)
        starts = range(0, max(table.num_rows, 1), rows)
        write_all(other, (table.slice(start, rows) for start in starts))
        if suffix in TEXTS:
            assert other.read_bytes() == path.read_bytes()
        assert_same(read_table(other), read_table(path))
        assert list(other.parent.iterdir()) == [other]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_dictionaries_that_grow(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    parts = [["x", None], ["y", "x"], ["y"], ["z", None]]
    columns = [{"a": pa.array(part).dictionary_encode(), "n": [1] * len(part)} for part in parts]
    with blocks_of(1):
        write_all(path, map(pa.table, columns))
    found = read_table(path)
    assert found["a"].to_pylist() == [cell for part in parts for cell in part]
    if suffix not in TEXTS:
        assert found.schema.field("a").type == pa.dictionary(pa.int32(), pa.string())


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".feather"])
def test_chunks_of_nothing_but_holes_are_as_the_first(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    whole = pd.DataFrame({"b": np.array(["x", "y", None], object), "n": [1, 2, 3]})
    write_all(path, [whole[:2], pa.table({"b": pa.nulls(1), "n": [3]})])
    assert read_table(path).to_pydict() == {"b": ["x", "y", None], "n": [1, 2, 3]}


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".feather"])
@pytest.mark.parametrize("container", [pd.DataFrame, pl.DataFrame, pa.table])
def test_chunks_of_all_containers(tmp_path: Path, container: Any, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    whole = container({"a": [1.5, None, 2.5], "b": ["x", "y", None]})
    cut = whole.iloc if container is pd.DataFrame else whole
    with blocks_of(1):
        write_all(path, [cut[:2], cut[2:]])
    columns = {"a": [1.5, None, 2.5], "b": ["x", "y", None]}
    assert read_table(path).to_pydict() == columns


def failing(parts: int, error: BaseException) -> Iterator[pa.Table]:
    yield from [pa.table({"new": [1, 2]})] * parts
    raise error


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("error", [ValueError, OSError, KeyboardInterrupt])
def test_an_error_between_chunks_leaves_the_old_file(
    tmp_path: Path, suffix: str, error: type[BaseException]
) -> None:
    path = tmp_path / f"a{suffix}"
    write_table(pa.table({"old": [1]}), path)
    old = path.read_bytes()
    for written in (0, 1, 2):
        with blocks_of(1), pytest.raises(error, match=r"^mine$"):
            write_all(path, failing(written, error("mine")))
        assert path.read_bytes() == old
        assert list(tmp_path.iterdir()) == [path]


def test_a_disk_that_is_full_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "a.parquet"
    path.write_text("precious")
    monkeypatch.setattr(os, "fsync", full)
    sentence = r"a\.parquet cannot be written: No space left on device\.$"
    with pytest.raises(InputError, match=sentence):
        write_all(path, [pa.table({"a": [1]})])
    assert path.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ({"a": [1.5], "b": ["x"]}, "Column 'a' is of dtype double in a chunk, but of int64"),
        ({"b": ["x"], "a": [1]}, "A chunk has the columns 'b', 'a', but the first one has 'a'"),
        ({"a": [1]}, "A chunk has the columns 'a', but the first one has 'a', 'b'"),
    ],
)
def test_columns_that_change(tmp_path: Path, second: Any, message: str) -> None:
    for suffix in SUFFIXES:
        path = tmp_path / f"a{suffix}"
        with pytest.raises(InputError, match=message):
            write_all(path, [pa.table({"a": [1], "b": ["x"]}), pa.table(second)])
        assert list(tmp_path.iterdir()) == []


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    for name, message in [
        ("folder.csv", "is a folder"),
        ("none", "unknown suffix ''"),
        ("away/a.csv", "folder .*away does not exist"),
    ]:
        with pytest.raises(InputError, match=message), write_chunks(tmp_path / name):
            pytest.fail("there is nothing to write to")
    with pytest.raises(InputError, match="without a table"), write_chunks(tmp_path / "a.csv"):
        pass
    with pytest.raises(InputError, match="cannot be written"):
        write_all(tmp_path / "a.csv", [pa.table({"a": [[1], [2]]})])
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder.csv"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_can_be_written_over_itself(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    table = pa.table({"n": np.arange(1000), "t": ["x"] * 1000})
    write_table(table, path)
    with blocks_of(100):
        write_all(path, read_chunks(path, 10))
    assert read_table(path).equals(table)


STREAMED = """
import resource, sys
from hhvaem.streaming import read_chunks, write_chunks

peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start, rows = peak(), 0
with write_chunks(sys.argv[2]) as chunks:
    for chunk in read_chunks(sys.argv[1], 10_000):
        rows += chunk.num_rows
        chunks.write(chunk)
print(rows, peak() - start)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    rows = 1_000_000
    rng = np.random.default_rng(0)
    with path.open("w") as text:
        text.write(",".join(f"x{i}" for i in range(40)) + ",city,day\n")
        for _ in range(0, rows, 1000):
            for line in rng.normal(size=(1000, 40)).round(6).tolist():
                text.write(",".join(map(str, line)) + ',"Rio, de\nJaneiro",2020-01-02\n')
    assert path.stat().st_size > 400e6
    command = [sys.executable, "-c", STREAMED, str(path), str(tmp_path / "copy.parquet")]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found, kibibytes = map(int, done.stdout.split())
    assert found == rows
    assert kibibytes * 1024 < 300e6  # all the rows alone are more
    assert parquet.ParquetFile(tmp_path / "copy.parquet").metadata.num_rows == rows
