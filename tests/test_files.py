"""Files in and out, and a sentence for each way in which a file can be wrong."""

import datetime as dt
import errno
import gzip
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from hhvaem import delimited
from hhvaem.errors import InputError
from hhvaem.files import files_of, read_table, write_table
from hhvaem.streaming import read_chunks, write_chunks

TABLE = pa.table(
    {
        "n": [1, None, 3],
        "x": [0.1, -0.0, None],
        "text": ["a;b", None, 'say "hi", you\nthere'],
        "flag": [True, None, False],
        "day": [dt.date(2020, 1, 2), None, dt.date(1999, 12, 31)],
    }
)
# A block of an unknown kind after the ten bytes of the head.
CORRUPT = gzip.compress(b"a\n1\n", mtime=0)[:10] + b"\xff" * 20
SUFFIXES = [".csv", ".tsv", ".txt", ".csv.gz", ".TSV.GZ", ".parquet", ".feather", ".arrow"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_round_trip(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"table{suffix}"
    write_table(TABLE, path)
    assert read_table(str(path)).equals(TABLE)
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_separators_are_told_from_the_header(tmp_path: Path, separator: str) -> None:
    path = tmp_path / "a.csv"
    name = "a,,,;;;|||\t\t\tb".replace(separator, "")
    path.write_text(f'\ufeff"{name}"{separator}c{separator}d\n1{separator}x{separator}2\n')
    assert read_table(path).to_pydict() == {name: [1], "c": ["x"], "d": [2]}


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.tsv", "a,b,c\td\n1\t2\n", {"a,b,c": [1], "d": [2]}),
        ("a.tsv", "a,b\n1,2\n", {"a": [1], "b": [2]}),
        ("a.csv", '"a\n,,,\nb";c\n1;2\n', {"a\n,,,\nb": [1], "c": [2]}),
    ],
)
def test_headers(tmp_path: Path, name: str, content: str, expected: Any) -> None:
    (tmp_path / name).write_text(content)
    assert read_table(tmp_path / name).to_pydict() == expected


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("a\n1\n2\n", [1, 2]),
        ("a\n31\n\n40\n", [31, None, 40]),
        ("\r\na\r\n\r\n31\r\n\r\n\r\n", [None, 31]),
        ('a\nx\n""\n', ["x", None]),
    ],
)
def test_blank_lines_are_holes_of_an_only_column(
    tmp_path: Path, content: str, expected: list[Any]
) -> None:
    (tmp_path / "a.csv").write_bytes(content.encode())
    assert read_table(tmp_path / "a.csv").to_pydict() == {"a": expected}


@pytest.mark.parametrize("suffix", [".csv", ".tsv.gz"])
@pytest.mark.parametrize("cells", [[None, 1, None], ["x", None], [None, None], [2.5, None]])
def test_holes_of_an_only_column_are_written(tmp_path: Path, cells: Any, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    for column in (pa.array(cells), pa.array(cells).dictionary_encode()):
        write_table(pa.table({"a": column}), path)
        assert read_table(path).to_pydict() == {"a": cells}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("zip,n\n01234,1\n12345,2\n", {"zip": ["01234", "12345"], "n": [1, 2]}),
        ('n;zip\n0;"00"\n-0.5;NA\n', {"n": [0.0, -0.5], "zip": ["00", None]}),
        ("zip\n5\n\n 01\n", {"zip": ["5", None, " 01"]}),
        ("a,b\n0x10,0\n12,0.5\n", {"a": ["0x10", "12"], "b": [0.0, 0.5]}),
        ("day,n\n0001-01-02,1\n", {"day": [dt.date(1, 1, 2)], "n": [1]}),
        ("a,b\n9007199254740993,1\n1.5,2\n", {"a": ["9007199254740993", "1.5"], "b": [1, 2]}),
        ("a\n12345678901234567891\n-5\n", {"a": ["12345678901234567891", "-5"]}),
        ("a\n -9007199254740993 \n1.5\n", {"a": [" -9007199254740993 ", "1.5"]}),
        ("a\n" + "9" * 5000 + "\n1.5\n", {"a": ["9" * 5000, "1.5"]}),
        # No number is lost in these.
        ("a\n9007199254740993\n2\n", {"a": [9007199254740993, 2]}),
        ("a,b\n9007199254740994,1e300\n1.5,0\n", {"a": [2.0**53 + 2, 1.5], "b": [1e300, 0.0]}),
        (
            "a\n0.12345678901234567891\n123456789012345678.9\n",
            {"a": [0.12345678901234568, 123456789012345678.9]},
        ),
    ],
)
def test_codes_are_no_numbers(tmp_path: Path, content: str, expected: Any) -> None:
    (tmp_path / "a.csv").write_text(content)
    assert read_table(tmp_path / "a.csv").to_pydict() == expected


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("a;b\n1,5;x\n-2;y\n", {"a": [1.5, -2.0], "b": ["x", "y"]}),
        ('a\tb\n"12,25"\t1,500\n +3,0e2\t2,125\n', {"a": [12.25, 300.0], "b": [1.5, 2.125]}),
        ("a;b\n0,125;1\n0,250;2\n", {"a": [0.125, 0.25], "b": [1, 2]}),
        # Points are decimals as well, three digits may be thousands, and commas may be separators.
        ("a;b\n1,5;2.5\n2,5;3.5\n", {"a": ["1,5", "2,5"], "b": [2.5, 3.5]}),
        ("a;b\n1,500;1\n12,000;2\n", {"a": ["1,500", "12,000"], "b": [1, 2]}),
        ('a,b\n"1,5",1\n"2,5",2\n', {"a": ["1,5", "2,5"], "b": [1, 2]}),
        ("a;b\n1,2,3;x\n1,5kg;y\n", {"a": ["1,2,3", "1,5kg"], "b": ["x", "y"]}),
    ],
)
def test_decimal_commas(tmp_path: Path, content: str, expected: Any) -> None:
    path = tmp_path / "a.csv"
    path.write_text(content)
    assert read_table(path).to_pydict() == expected
    (chunk,) = read_chunks(path, 10)
    assert chunk.to_pydict() == expected


def test_quotes_inside_of_a_field_are_part_of_it(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('n,size\n1,5" pipe\n2,"a ""b"", c" \n')
    assert read_table(tmp_path / "a.csv")["size"].to_pylist() == ['5" pipe', 'a "b", c ']


@pytest.mark.parametrize("missing", ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "<NA>"])
def test_missing_fields(tmp_path: Path, missing: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"n,t\n1,x\n{missing},{missing}\n")
    assert read_table(path).to_pydict() == {"n": [1, None], "t": ["x", None]}


def test_more_texts_can_be_missing(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('n,t,u\n1,?,-999\n?,"?",?!\n-999,x?,5\n')
    found = read_table(path, ["?", "-999"])
    assert found.to_pydict() == {
        "n": [1, None, None],
        "t": [None, None, "x?"],
        "u": [None, "?!", "5"],
    }
    write_table(TABLE, tmp_path / "a.parquet")
    with pytest.raises(InputError, match=r"a\.parquet is no text file, .* '\?' means"):
        read_table(tmp_path / "a.parquet", ["?"])


@pytest.mark.usefixtures("as_users_have_it")
def test_what_cannot_be_missing(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    write_table(TABLE, path)
    wrong: Any
    for wrong in ("?", [1], None, 5):
        with pytest.raises(InputError, match=r"`missing` must be a list of texts, as in \['\?'\]"):
            read_table(path, wrong)


def test_wide_and_long_files(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    names = [f"column number {i}" for i in range(100_000)]
    path.write_text(",".join(names) + "\n")
    assert read_table(path).column_names == names
    text = "one\n" * 1000
    path.write_text("a,b\n" + f'"{text}",1\n' * 5000)
    assert set(read_table(path)["a"].to_pylist()) == {text}


def test_types_are_told_from_the_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    path.write_text("a\n" + "1234567\n" * 300_000 + "text\n")
    assert read_table(path)["a"][-1].as_py() == "text"


def test_a_header_alone_is_a_table_without_rows(tmp_path: Path) -> None:
    for header in ("a,b\n", "a,b", "\ufeffa,b"):
        (tmp_path / "a.csv").write_text(header)
        assert read_table(tmp_path / "a.csv").shape == (0, 2)
    (tmp_path / "a.csv").write_text("a")
    assert read_table(tmp_path / "a.csv").shape == (0, 1)


def test_folder_names_make_no_columns(tmp_path: Path) -> None:
    folder = tmp_path / "year=2020"
    folder.mkdir()
    write_table(TABLE, folder / "a.parquet")
    assert read_table(folder / "a.parquet").column_names == TABLE.column_names


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"", "is empty"),
        ("a.csv", b" \n\n", "is empty"),
        ("a.csv.gz", gzip.compress(b"", mtime=0), "is empty"),
        (
            "a.csv",
            b"a,b\n1,2\n1,2,3\n",
            "cannot be read as CSV in line 3: Expected 2 columns, got 3",
        ),
        ("a.csv", b'a,b\n"x\ny\nz",1\n1,2,3\n', "in line 5: Expected 2 columns, got 3"),
        ("a.csv", b"\n\na,b\n1,2\n\n\n1,2,3\n", "in line 7: Expected 2 columns, got 3"),
        ("a.csv", b"\n\na\n1\n\n1,2\n", "in line 6: Expected 1 columns, got 2"),
        ("a.csv", b'\r"a\r\nc",b\r\r1,2\r1,2,3\r', "in line 6: Expected 2 columns, got 3"),
        ("a.csv", b'\ra,b\r1,"2\r', "a quoted field in line 3 that does not end"),
        ("a.csv", b"a\rb\r\xff\r", "is not UTF-8 in line 3"),
        ("a.csv", b"PK\3\4" + bytes(30) + b"xl/workbook.xml", "is a zip archive or a spreadsheet;"),
        ("a.csv", b"PAR1\x15", "is a Parquet file; name it with .parquet at the end"),
        ("a.csv", b"ARROW1\0\0", "is a Feather file; name it with .feather at the end"),
        ("a.csv", b"\n%PDF-1.7 \0\0\n1\n", "has null characters in its header"),
        ("a.csv", "a\nx\nM\u00fcnchen\n".encode("latin-1"), "is not UTF-8 in line 3"),
        ("a.csv", b"a,b,a\n1,2,3\n", "more than one column named 'a'"),
        ("a.csv.gz", b"a,b\n1,2\n", "is not a gzip file"),
        ("a.csv.gz", CORRUPT, "is not a gzip file: Error -3"),
        ("a.csv", gzip.compress(b"a\n1\n", mtime=0), "is packed by gzip; name it with .gz"),
        ("a.csv", "a,b\n".encode("utf-16"), "is UTF-16; save it as UTF-8"),
        ("a.csv", "a,b\n".encode("utf-32"), "is UTF-32; save it as UTF-8"),
        ("a.csv", "a,b\n".encode("utf-16-le"), "is UTF-16 or no text"),
        ("a.csv", b'id,name\n1,"Ann\n2,Bob\n3,Cid\n', "a quoted field in line 2 that does not end"),
        ("a.csv", b'id,name\n1,"Ann\n2,"Bob\n', "a quoted field in line 2 that does not end"),
        ("a.csv", b'"a', "a quoted field in line 1 that does not end"),
        ("a.parquet", b"a,b\n1,2\n", "is not a Parquet file"),
        ("a.feather", b"a,b\n1,2\n", "is not a Feather file"),
        ("a.arrow", b"a,b\n1,2\n", "is not a Feather file"),
        ("a.xlsx", b"a,b\n1,2\n", r"unknown suffix '.xlsx'; known are .csv, .*parquet"),
        ("a.parquet.gz", b"a,b\n1,2\n", "unknown suffix '.gz'"),
    ],
)
def test_unreadable_files(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        read_table(path)
    text = str(caught.value)
    assert str(path) in text
    assert "\n" not in text
    assert text.endswith(".")


@pytest.mark.usefixtures("as_users_have_it")
@pytest.mark.parametrize("path", [None, 5, b"a.csv", ["a.csv"]])
def test_what_is_no_path(path: Any) -> None:
    for use in (
        read_table,
        lambda path: write_table(TABLE, path),
        lambda path: next(read_chunks(path, 1)),
        lambda path: write_chunks(path).__enter__(),
    ):
        with pytest.raises(
            InputError, match=r"is no path of a file; give a text or a pathlib\.Path"
        ):
            use(path)


def test_a_pattern_names_each_file_once(tmp_path: Path) -> None:
    (tmp_path / "deep" / "deeper").mkdir(parents=True)
    paths = [tmp_path / name for name in ("b.csv", "deep/a.csv", "deep/deeper/c.csv")]
    for path in paths:
        path.touch()
    assert files_of(tmp_path / "**" / "**" / "*.csv") == paths


def test_a_folder_among_the_files_of_a_table(tmp_path: Path) -> None:
    (tmp_path / "b.csv").touch()
    (tmp_path / "deep").mkdir()
    for table in (tmp_path, tmp_path / "*"):
        with pytest.raises(InputError, match=r"/deep is a folder; move it away, or give a pattern"):
            files_of(table)


def test_a_pipe_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.csv")
    with pytest.raises(InputError, match=r"a\.csv is a pipe or a device, .*; copy what it gives"):
        read_table(tmp_path / "a.csv")


def test_repeated_names_in_parquet(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table([[1], [2]], names=["a", "a"]), path)
    with pytest.raises(InputError, match="more than one column named 'a'"):
        read_table(path)


def test_places_that_are_no_files(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InputError, match=r"none\.csv does not exist"):
        read_table(tmp_path / "none.csv")
    for use in (read_table, lambda path: write_table(TABLE, path)):
        with pytest.raises(InputError, match=r"folder\.csv is a folder"):
            use(tmp_path / "folder.csv")
        with pytest.raises(InputError, match=r"unknown suffix ''"):
            use(tmp_path / "none")
        with pytest.raises(InputError, match=r" is a folder; name a file in it"):
            use(tmp_path)
        with pytest.raises(InputError, match=r"cannot be .*: File name too long"):
            use(tmp_path / f"{'x' * 300}.csv")
        with pytest.raises(InputError, match="no file name has a null character"):
            use(tmp_path / "a\0.csv")
    with pytest.raises(InputError, match=r"folder .*away does not exist"):
        write_table(TABLE, tmp_path / "away" / "a.csv")


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".feather"])
@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"a": pd.Categorical(["x", None, "y"]), "b": [1.5, None, 2.5]}),
        pl.DataFrame(
            {"a": pl.Series(["x", None, "y"], dtype=pl.Categorical), "b": [1.5, None, 2.5]}
        ),
        pa.table({"a": pa.array(["x", None, "y"]).dictionary_encode(), "b": [1.5, None, 2.5]}),
        np.array([["x", 1.5], [None, None], ["y", 2.5]], object),
    ],
)
def test_all_containers(tmp_path: Path, table: Any, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    write_table(table, path)
    columns = list(read_table(path).to_pydict().values())
    assert columns == [["x", None, "y"], [1.5, None, 2.5]]


def test_a_packed_file_holds_neither_a_time_nor_a_name(tmp_path: Path) -> None:
    write_table(TABLE, tmp_path / "a.csv.gz")
    assert (tmp_path / "a.csv.gz").read_bytes()[3:8] == bytes(5)


def test_an_only_column_is_written_in_quotes_with_or_without_holes(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    for cells, content in (([1, 2], '"a"\n"1"\n"2"\n'), ([1, None], '"a"\n"1"\n""\n')):
        write_table(pa.table({"a": cells}), path)
        assert path.read_text() == content


def test_an_index_that_says_something_is_written(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1, 2]}, index=pd.Index(["p", "q"], name="who"))
    write_table(frame, tmp_path / "a.csv")
    assert read_table(tmp_path / "a.csv").to_pydict() == {"a": [1, 2], "who": ["p", "q"]}


VIEWS = pl.DataFrame(
    {
        "text": ["a", None, "b"],
        "level": pl.Series(["x", "y", None], dtype=pl.Categorical),
        "rank": pl.Series(["x", "y", None], dtype=pl.Enum(["y", "x"])),
        "n": [1, 2, 3],
    }
)
NESTED = VIEWS.with_columns(
    list=pl.Series([["a"], ["b", "c"], None]),
    pair=pl.Series([["a", "b"], None, ["c", "d"]], dtype=pl.Array(pl.String, 2)),
    struct=pl.Series([{"q": "a"}, None, {"q": "b"}]),
    bytes=pl.Series([b"1", None, b"\xff"]),
)


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".feather"])
def test_views_of_polars(tmp_path: Path, suffix: str) -> None:
    source, path = tmp_path / "polars.feather", tmp_path / f"a{suffix}"
    whole = VIEWS if suffix == ".csv" else NESTED
    whole.write_ipc(source, compat_level=pl.CompatLevel.newest())
    views = feather.read_table(source)
    assert "view" in str(views.schema)
    found = read_table(source)
    assert "view" not in str(found.schema)
    assert found.to_pylist() == whole.to_dicts()
    assert found.take([0, 0]).num_rows == 2
    # Old versions of polars do not say that an Enum has an order.
    assert found.schema.field("rank").type.ordered == views.schema.field("rank").type.ordered
    for table in (views, found):
        write_table(table, path)
        assert read_table(path).to_pylist() == whole.to_dicts()


def test_views_in_maps(tmp_path: Path) -> None:
    pairs = pa.array([[("k", "v")], None, []], pa.map_(pa.string(), pa.string_view()))
    feather.write_feather(pa.table({"map": pairs}), tmp_path / "a.feather")
    found = read_table(tmp_path / "a.feather")
    assert "view" not in str(found.schema)
    assert found.column("map").take([0, 1, 2]).to_pylist() == pairs.to_pylist()


@pytest.mark.parametrize("name", ["list", "struct", "bytes"])
@pytest.mark.parametrize("suffix", [".csv", ".tsv.gz"])
def test_a_column_that_text_cannot_hold_is_named(tmp_path: Path, name: str, suffix: str) -> None:
    sentence = (
        rf"^Column '{name}' of dtype .* cannot be written to .*/a{suffix}; .*, or write a \.parq"
    )
    for table in (NESTED.select("n", name), NESTED.select("n", name).to_arrow()):
        with pytest.raises(InputError, match=sentence):
            write_table(table, tmp_path / f"a{suffix}")
    assert list(tmp_path.iterdir()) == []


def test_a_column_that_parquet_cannot_hold_is_named(tmp_path: Path) -> None:
    table = pa.table({"n": [1], "m": pa.array([(1, 2, 3)], pa.month_day_nano_interval())})
    with pytest.raises(InputError, match=r"^Column 'm' of dtype .*, or write a \.feather file\.$"):
        write_table(table, tmp_path / "a.parquet")
    write_table(table, tmp_path / "a.feather")


BROKEN = pd.Series(["a", "\ud800"], dtype=object)


@pytest.mark.parametrize(
    ("table", "name"),
    [
        (pa.table({"a": [[1], [2]]}), "a.csv"),
        (pd.DataFrame({"a": [1, "x"]}), "a.parquet"),
        (pl.DataFrame({"a": pl.Series([object()], dtype=pl.Object)}), "a.parquet"),
        (pd.DataFrame({"a": pd.arrays.SparseArray([1.0, 2.0])}), "a.csv"),
        (pd.DataFrame({"a": pd.cut([1, 2, 3], 2)}), "a.feather"),
        (pd.DataFrame({"a": BROKEN}), "a.csv"),
        (pd.DataFrame({"a": [1, 2]}, index=pd.Index(BROKEN)), "a.csv"),
        (np.array([["a"], ["\ud800"]]), "a.parquet"),
    ],
)
def test_what_a_format_cannot_hold(tmp_path: Path, table: Any, name: str) -> None:
    path = tmp_path / name
    path.write_text("precious")
    with pytest.raises(InputError, match="cannot be written") as caught:
        write_table(table, path)
    assert "\n" not in str(caught.value)
    assert path.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [path]


def test_an_interrupted_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.csv"
    write_table(TABLE, path)

    def stopped(table: Any, file: Any, options: Any) -> None:
        file.write(b"half of i")
        raise KeyboardInterrupt

    monkeypatch.setattr(delimited.csv, "write_csv", stopped)
    with pytest.raises(KeyboardInterrupt):
        write_table(pa.table({"other": [1]}), path)
    assert read_table(path).equals(TABLE)
    assert list(tmp_path.iterdir()) == [path]


def test_links_and_permissions_are_kept(tmp_path: Path) -> None:
    path, link = tmp_path / "a.csv", tmp_path / "link.csv"
    link.symlink_to(path.name)
    for number in range(3):  # first the link points nowhere
        table = pa.table({"number": [number]})
        write_table(table, link)
        assert link.is_symlink()
        assert read_table(path).equals(table)
        if number:
            assert path.stat().st_mode & 0o777 == 0o640
        path.chmod(0o640)


def test_a_file_that_must_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.csv"
    path.write_text("precious")
    # Of a real one root would not notice.
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(InputError, match=r"a\.csv cannot be written: its permissions forbid it"):
        write_table(TABLE, path)
    assert path.read_text() == "precious"


def test_a_folder_that_must_not_be_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "is_dir", refused)
    for use in (read_table, lambda path: write_table(TABLE, path)):
        with pytest.raises(InputError, match=r"a\.csv cannot be .*: Permission denied"):
            use(tmp_path / "a.csv")


def test_long_names(tmp_path: Path) -> None:
    write_table(TABLE, tmp_path / f"{'x' * 250}.csv")


def test_who_reads_the_old_file_meanwhile_sees_all_of_it(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("old")
    with path.open() as reader:
        write_table(TABLE, path)
        assert reader.read() == "old"


def test_a_new_file_has_the_usual_permissions(tmp_path: Path) -> None:
    (tmp_path / "usual").touch()
    write_table(TABLE, tmp_path / "a.csv")
    assert (tmp_path / "a.csv").stat().st_mode == (tmp_path / "usual").stat().st_mode
