"""Tables in files: what they are is told in one pass, as of the whole table."""

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import dataset, parquet

from hhvaem import sources
from hhvaem.errors import InputError
from hhvaem.files import read_table, write_table
from hhvaem.inference import infer_schema
from hhvaem.sources import Source, source_of, survey


def of(table: pa.Table, rows: int) -> Source:
    """Give a table `rows` rows at a time."""
    starts = range(0, max(len(table), 1), rows)
    return Source("it", table.schema, {"it": lambda _: (table.slice(i, rows) for i in starts)})


def columns(draw, rows):
    """Draw columns that the rules of kinds are about, with what matters in a few rows of them."""
    kind = draw(st.sampled_from(["few", "many", "text", "words", "dates", "nothing", "booleans"]))
    hole = st.none()
    each = {
        "few": st.sampled_from([0.0, 1.0, 2.0, -1.0, 0.5]),
        "many": st.integers(-3, 400).map(float) | st.sampled_from([-999.0, 0.25]),
        "text": st.sampled_from("abc"),
        "words": st.integers(0, 40).map(lambda i: f"w{i}"),
        "dates": st.integers(0, 400).map(lambda i: dt.datetime(2020, 1, 1) + dt.timedelta(i / 2)),
        "nothing": hole,
        "booleans": st.booleans(),
    }[kind]
    usual = draw(each)
    cells = [usual] * rows
    for row in draw(st.lists(st.integers(0, rows - 1), max_size=25)):
        cells[row] = draw(each | hole)
    types = {"text": pa.string(), "words": pa.string(), "dates": pa.timestamp("us")}
    types |= {"nothing": pa.null(), "booleans": pa.bool_()}
    return pa.array(cells, types.get(kind, pa.float64()))


def told(ask):
    """Give what is found, or the sentence with which it is refused."""
    try:
        return ask(), ""
    except InputError as error:
        return None, str(error)


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_chunks_tell_what_the_table_tells(data):
    rows = data.draw(st.integers(2, 60))
    names = data.draw(st.integers(1, 3))
    table = pa.table({f"c{i}": columns(data.draw, rows) for i in range(names)})
    chunks = of(table, data.draw(st.integers(1, 20)))
    expected, refused = told(lambda: infer_schema(table))
    found, refused_there = told(lambda: survey(chunks, None))
    # Of levels only those are counted that were kept.
    assert refused_there.split(" has ")[0] == refused.split(" has ")[0]
    if refused:
        return
    assert found.rows == rows
    for one, other in zip(found.schema, expected, strict=True):
        assert (one.kind, one.levels, one.support) == (other.kind, other.levels, other.support)


def test_few_rows_are_kept_of_many(monkeypatch):
    rng = np.random.default_rng(0)
    table = pa.table({"x": rng.normal(size=20_000), "y": rng.integers(0, 9, 20_000)})
    seen = []
    monkeypatch.setattr(
        sources, "infer_schema", lambda table, kinds: seen.append(len(table)) or infer_schema(table)
    )
    survey(of(table, 500), None)
    assert seen[0] < 2_000


@pytest.mark.parametrize("category", [False, True])
def test_identifiers_are_told_by_all_cells(category):
    """In whatever order rows come: few of a first file, rare levels, and a frequent one."""
    cells = ["t", "u"] * 2 + [f"rare {i}" for i in range(25)] + ["m"] * 5_000
    for some in (cells, cells[::-1], cells[4:]):
        column = pa.array(some).dictionary_encode() if category else pa.array(some)
        (found,) = survey(of(pa.table({"c": column}), 4), None).schema
        assert len(found.levels) == len(set(some))
    few, enough = cells[:50], cells[:60]
    for order in (1, -1):
        survey(of(pa.table({"c": enough[::order]}), 4), None)
        with pytest.raises(InputError, match=r"'c' has .* so it looks like an identifier"):
            survey(of(pa.table({"c": few[::order]}), 4), None)


def test_errors_name_rows_of_the_whole_table():
    table = pa.table({"id": [1, 2, 3, 2**60, 5]})
    with pytest.raises(InputError, match=r"beyond 2\^53 in row 3"):
        survey(of(table, 2), None)
    infinite = pa.table({"x": [1.0, 2.0, 3.0, np.inf]})
    with pytest.raises(InputError, match="'x' has an infinite value in row 3"):
        survey(of(infinite, 3), None)


def test_errors_name_rows_of_files(tmp_path):
    for name, last in (("a", 2.0), ("b", np.inf), ("c", 4.0)):
        parquet.write_table(pa.table({"x": [1.0, 2.0, last]}), tmp_path / f"{name}.parquet")
    with pytest.raises(InputError, match=r"an infinite value in row 2 of .*b\.parquet; replace"):
        survey(source_of(tmp_path), None)
    parquet.write_table(pa.table({"x": [1.0, 2.0, -1.0]}), tmp_path / "b.parquet")
    with pytest.raises(InputError, match=r"it holds -1 in row 2 of .*b\.parquet; ask for 'real'"):
        survey(source_of(tmp_path), {"x": "count"})


def test_a_row_number_is_noted_by_the_first_rows():
    table = pa.table({"id": range(200), "x": np.arange(200.0) ** 0.5})
    (first, _) = survey(of(table, 40), None).schema
    assert "row number" in first.note


def test_files_of_a_folder_are_one_table(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,a\n2,b\n")
    (tmp_path / "b.csv").write_text("x,y\n1.5,\n,a\n")
    (tmp_path / ".hidden").write_text("no table")
    (tmp_path / "_SUCCESS").write_text("")
    assert source_of(tmp_path / "*.csv").whole(10).num_rows == 4
    source = source_of(tmp_path)
    assert source.whole(10).to_pydict() == {"x": [1, 2, 1.5, None], "y": ["a", "b", None, "a"]}
    assert source.whole(3) is None


def test_text_files_of_one_table_may_look_different(tmp_path):
    (tmp_path / "a.csv").write_text("code\n17\n18\n")
    (tmp_path / "b.csv").write_text("code\nA1\n")
    assert source_of(tmp_path).whole(9).to_pydict() == {"code": ["17", "18", "A1"]}


def test_a_dataset_is_read_as_its_files_are(tmp_path):
    table = pa.table({"x": np.arange(10.0), "city": ["Rome", None] * 5})
    parquet.write_table(table, tmp_path / "t.parquet", row_group_size=3)
    found = source_of(dataset.dataset(tmp_path, format="parquet")).whole(100)
    assert found.equals(read_table(tmp_path / "t.parquet"))


def test_categories_of_files_come_together(tmp_path):
    for name, levels in (("a", ["x", "y"]), ("b", ["z", "x"])):
        frame = pl.DataFrame({"c": pl.Series(levels, dtype=pl.Categorical)})
        write_table(frame, tmp_path / f"{name}.parquet")
    (column,) = survey(source_of(tmp_path), None).schema
    assert column.levels == ("x", "y", "z")


def ranked_files(folder, orders):
    """Write a file for each order of levels, with a row for each of them; give them in order."""
    for number, order in enumerate(orders):
        kind = pd.CategoricalDtype(order, ordered=True)
        write_table(pd.DataFrame({"c": pd.Series(order, dtype=kind)}), folder / f"{number}.parquet")
    return source_of(folder)


@pytest.mark.parametrize(
    ("orders", "merged"),
    [
        (["ac", "abc"], "abc"),
        (["ab", "bc", "cd"], "abcd"),
        (["bd", "ac", "abcd"], "abcd"),
        (["abc", "abc"], "abc"),
    ],
)
def test_levels_of_files_come_into_one_order(tmp_path, orders, merged):
    source = ranked_files(tmp_path, map(list, orders))
    (column,) = survey(source, None).schema
    assert column.levels == tuple(merged)
    whole = source.whole(99)
    assert (whole["c"].to_pylist(), infer_schema(whole)["c"].levels) == (
        list("".join(orders)),
        tuple(merged),
    )


@pytest.mark.parametrize(
    ("orders", "sentence"),
    [
        (["abc", "cab"], r"'c' ranks its levels as 'c', 'a', 'b' in .*1\.parquet, but as 'a', 'b', "
         r"'c' in .*0\.parquet"),
        (["ab", "bc", "ca"], r"as 'c', 'a' in .*2\.parquet, but as 'a', 'b', 'c' in others"),
        (["ab", "ac"], r"which comes first, 'b' \(in .*0\.parquet\) or 'c' \(in .*1\.parquet\)"),
    ],
)  # fmt: skip
def test_levels_of_files_in_other_orders_are_refused(tmp_path, orders, sentence):
    source = ranked_files(tmp_path, map(list, orders))
    for ask in (lambda: survey(source, None), lambda: source.whole(99)):
        with pytest.raises(InputError, match=sentence):
            ask()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", r"b\.csv is empty"),
        ("x,z\n1,2\n", r"b\.csv has the columns 'x', 'z', but .*a\.csv has 'x', 'y'"),
        ("y,x\n1,2\n", r"b\.csv has the columns 'y', 'x'"),
    ],
)
def test_a_file_that_does_not_fit_is_named(tmp_path, content, sentence):
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    (tmp_path / "b.csv").write_text(content)
    with pytest.raises(InputError, match=sentence):
        source_of(tmp_path)


def test_parquet_files_of_other_types_are_refused(tmp_path):
    parquet.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    parquet.write_table(pa.table({"x": ["1"]}), tmp_path / "b.parquet")
    with pytest.raises(InputError, match=r"'x' is of dtype string in .*b\.parquet, but of int64"):
        source_of(tmp_path)


def test_a_folder_of_other_things_is_refused(tmp_path):
    with pytest.raises(InputError, match="has no tables in it"):
        source_of(tmp_path)
    (tmp_path / "notes.docx").write_text("no table")
    with pytest.raises(InputError, match=r"notes\.docx has the unknown suffix"):
        source_of(tmp_path)


def test_a_file_that_is_being_written_is_refused(tmp_path):
    parquet.write_table(pa.table({"x": np.arange(1000.0)}), tmp_path / "a.parquet")
    whole = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "b.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"b\.parquet is not a Parquet file"):
        source_of(tmp_path)


CHANGES = {
    "removed": lambda path: path.unlink(),
    "longer": lambda path: parquet.write_table(pa.table({"x": np.arange(20.0)}), path),
    "of the same length": lambda path: parquet.write_table(pa.table({"x": np.ones(10)}), path),
    "of text": lambda path: parquet.write_table(pa.table({"x": ["a"] * 10}), path),
    "another table": lambda path: parquet.write_table(pa.table({"y": np.arange(10.0)}), path),
    "no table": lambda path: path.write_bytes(b"no table"),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("given", ["folder", "dataset"])
def test_a_file_that_changes_between_two_passes_is_refused(tmp_path, given, change):
    for name in "ab":
        parquet.write_table(pa.table({"x": np.arange(10.0)}), tmp_path / f"{name}.parquet")
    source = source_of(tmp_path if given == "folder" else dataset.dataset(tmp_path))
    assert survey(source, None).rows == 20
    CHANGES[change](tmp_path / "b.parquet")
    with pytest.raises(InputError, match=r"has changed while|does not exist|cannot be read: "):
        survey(source, None)


def test_a_file_that_changes_in_a_pass_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "CELLS", 4)
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text("x\n" + "1\n" * 10)
    chunks = source_of(tmp_path).chunks()
    next(chunks)
    (tmp_path / "b.csv").write_text("x\n" + "2\n" * 10)
    with pytest.raises(InputError, match=r"b\.csv has changed while it was read"):
        list(chunks)


def test_columns_of_files_may_allow_holes_or_not(tmp_path):
    for name, holes in (("a", True), ("b", False)):
        types = pa.schema([pa.field("x", pa.int64(), nullable=holes)])
        parquet.write_table(pa.table({"x": [1, 2]}, schema=types), tmp_path / f"{name}.parquet")
    assert source_of(tmp_path).whole(9).to_pydict() == {"x": [1, 2, 1, 2]}


def test_faults_of_a_dataset_are_told(tmp_path):
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"x": ["1", "a"]}), path)
    wrong = dataset.dataset(path, schema=pa.schema([("x", pa.int64())]))
    with pytest.raises(InputError, match=r"^The dataset cannot be read: .*'a'"):
        survey(source_of(wrong), None)
    gone = dataset.dataset(path)
    path.unlink()
    with pytest.raises(InputError, match=r"a\.parquet cannot be read: No such file"):
        source_of(gone)


def test_a_dataset_may_be_of_files_of_any_name(tmp_path):
    parquet.write_table(pa.table({"x": [1]}), tmp_path / "part-0")
    assert source_of(dataset.dataset(tmp_path / "part-0")).whole(9).num_rows == 1
