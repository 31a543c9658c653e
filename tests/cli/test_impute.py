"""`hhvaem impute` as it is typed: what the library fills, part by part, whatever the file."""

import datetime as dt
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from commands import full_disk, hhvaem, interrupted, refused
from saved_models import FILES, no_models, table

from hhvaem import load, read_table, write_table
from hhvaem.cli.impute import _shifts
from hhvaem.example import clinic
from hhvaem.schema import Column, Schema
from hhvaem.streaming import read_chunks

MODEL, REGRESSOR = FILES / "imputer-0.1.hhvaem", FILES / "regressor-0.1.hhvaem"
CHEAP = ("--posterior", "encoder")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a table that the model has never seen."""
    write_table(table(seed=1), tmp_path / "a.parquet")
    return tmp_path


def impute(place: Path, *options: Any, table: str = "a.parquet", out: str = "b.parquet") -> Any:
    """Impute at the least cost, and give what was printed for programs and what was written."""
    done = hhvaem("impute", MODEL, place / table, "--out", place / out, *CHEAP, "--json", *options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), read_table(place / out)


def holes(table: pa.Table) -> int:
    return sum(column.null_count for column in table.columns)


@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".csv", ".tsv.gz"])
@pytest.mark.parametrize("options", [(), ("--rows-at-once", "7")])
def test_files_are_filled_as_the_library_fills(
    place: Path, suffix: str, options: tuple[str, ...]
) -> None:
    # Text files have no null columns, and no ordered categories.
    known = table(seed=1).drop_columns(["none"]) if "v" in suffix else table(seed=1)
    known = known.append_column("none", pa.nulls(40, pa.string())) if "v" in suffix else known
    write_table(known, place / f"a{suffix}")
    facts, full = impute(place, *options, table=f"a{suffix}", out=f"b{suffix}")
    own = load(MODEL).transform(table(seed=1), posterior="encoder")
    write_table(own, place / f"own{suffix}")
    assert full.equals(read_table(place / f"own{suffix}"))
    assert facts.pop("seconds") > 0
    assert facts == {
        "out": str(place / f"b{suffix}"),
        "rows": 40,
        "filled": holes(table(seed=1)) - 40,
        "left": 40,
        "draws": None,
    }


def test_a_person_is_told(place: Path) -> None:
    done = hhvaem("impute", MODEL, place / "a.parquet", "--out", place / "b.csv", *CHEAP)
    assert (done.returncode, done.stderr) == (0, "")
    said = " ".join(done.stdout.split())
    assert f"40 rows, {holes(table(seed=1)) - 40} holes filled, in " in said
    assert said.endswith("40 are in columns that the model ignores.")


def test_draws_are_those_of_the_library_in_long_format(place: Path) -> None:
    facts, long = impute(place, "--draws", "3")
    assert long.column_names == ["draw", "row", *table().column_names]
    assert long.column("draw").to_pylist() == [1, 2, 3] * 40
    assert long.column("row").to_pylist() == np.repeat(np.arange(1, 41), 3).tolist()
    own = load(MODEL).sample(table(seed=1), 3, posterior="encoder")
    for i, each in enumerate(own):
        part = long.filter(pa.array(np.arange(120) % 3 == i)).drop_columns(["draw", "row"])
        assert part.to_pylist() == each.to_pylist()
    assert facts["draws"] == 3
    assert facts["filled"] == holes(table(seed=1)) - 40


def test_draws_are_shifted_as_those_of_the_library(place: Path) -> None:
    shift = ("x=1.5", "day=30", "city=Oslo:0.7", "flag=True:-1", "city=Bern:0.2")
    _, long = impute(place, "--draws", "2", *(part for by in shift for part in ("--shift", by)))
    by = {
        "x": 1.5,
        "day": dt.timedelta(days=30),
        "city": {"Oslo": 0.7, "Bern": 0.2},
        "flag": {True: -1.0},
    }
    own = load(MODEL).sample(table(seed=1), 2, posterior="encoder", shift=by)
    for i, each in enumerate(own):
        part = long.filter(pa.array(np.arange(80) % 2 == i)).drop_columns(["draw", "row"])
        assert part.to_pylist() == each.to_pylist()


@pytest.mark.parametrize(
    ("shift", "said"),
    [
        ("x", "--shift takes COLUMN=BY, as in --shift income=100"),
        ("x=much", "--shift takes COLUMN=BY"),
        ("y=1", "no column 'y' whose holes could be shifted"),
        ("city=1", "'' is no level of 'city'"),
        ("city=Paris:1", "'Paris' is no level of 'city'"),
        ("x=abc:5", "--shift takes COLUMN=BY"),
        ("day=low:5", "--shift takes COLUMN=BY"),
        ("day=200000000", "shifts beyond the first or the last date that there is"),
        ("day=1e300", "holds dates, which 1e+300 days do not shift"),
        ("day=inf", "holds dates, which inf days do not shift"),
        ("day=nan", "holds dates, which nan days do not shift"),
        ("x=nan", "holds numbers, which nan does not shift"),
    ],
)
def test_wrong_shifts_are_told_and_nothing_is_written(place: Path, shift: str, said: str) -> None:
    command = ("impute", MODEL, place / "a.parquet", "--out", place / "b.csv", "--draws", "2")
    assert said in refused(*command, "--shift", shift)
    assert not (place / "b.csv").exists()


@pytest.mark.parametrize(
    ("shifts", "said"),
    [
        (("x=1", "x=2"), "--shift is given twice for 'x'; give it once."),
        (("city=Oslo:1", "city=Oslo:2"), "--shift is given twice for the level 'Oslo' of 'city'"),
    ],
)
def test_a_column_is_shifted_once(place: Path, shifts: tuple[str, ...], said: str) -> None:
    command = ("impute", MODEL, place / "a.parquet", "--out", place / "b.csv", "--draws", "2")
    assert said in refused(*command, *(part for by in shifts for part in ("--shift", by)))


def test_names_in_shifts_may_have_equal_signs() -> None:
    columns = Column("lev", "binary", levels=("x=y", "z:w")), Column("a=b", "real")
    texts = ["lev=x=y:3", "lev=z:w:-1", "a=b=2"]
    assert _shifts(texts, Schema(columns)) == {"lev": {"x=y": 3.0, "z:w": -1.0}, "a=b": 2.0}


def test_equal_rows_in_all_parts_have_draws_of_their_own(place: Path) -> None:
    empty = table(seed=1).slice(0, 0)
    nothing = pa.table([pa.nulls(40, field.type) for field in empty.schema], empty.schema)
    write_table(nothing, place / "empty.parquet")
    _, long = impute(place, "--draws", "2", "--rows-at-once", "7", table="empty.parquet")
    assert long.column("row").to_pylist() == np.repeat(np.arange(1, 41), 2).tolist()
    drawn = np.array(long.column("x").to_pylist())
    seen = np.array(table().column("x").drop_null().to_pylist())
    assert abs(drawn.mean() - seen.mean()) < 0.5 * seen.std()
    assert 0.5 < drawn.std() / seen.std() < 2
    assert len(set(drawn)) > 60  # some values occur more than once in the table that was fitted
    first, later = drawn[:14], drawn[14:28]
    assert abs(np.corrcoef(first, later)[0, 1]) < 0.9


def test_intervals_are_those_of_the_library(place: Path) -> None:
    _, full = impute(place, "--intervals", "0.5", "--rows-at-once", "9")
    low, up = load(MODEL).interval(table(seed=1), 0.5, posterior="encoder")
    named = [f"{name}_{end}" for name in ("x", "n", "day", "grade") for end in ("low", "up")]
    assert full.column_names == [*table().column_names, *named]
    for name in ("x", "n", "day", "grade"):
        assert full.column(f"{name}_low").to_pylist() == low.column(name).to_pylist()
        assert full.column(f"{name}_up").to_pylist() == up.column(name).to_pylist()
    assert full.column("x_low").to_pylist() != full.column("x_up").to_pylist()


def test_columns_go_by_name_and_others_are_passed_through(place: Path) -> None:
    known = table(seed=1)
    turned = known.select(known.column_names[::-1]).add_column(2, "id", pa.array(range(40)))
    write_table(turned, place / "turned.parquet")
    done = hhvaem(
        "impute", MODEL, place / "turned.parquet", "--out", place / "b.parquet", *CHEAP,
        "--rows-at-once", "9",
    )  # fmt: skip
    assert done.stderr == (
        "Note: Columns unknown to the model are passed through as they are: 'id'.\n"
    )
    full = read_table(place / "b.parquet")
    assert full.column_names == turned.column_names
    assert full.column("id").equals(turned.column("id"))
    own = load(MODEL).transform(known, posterior="encoder")
    assert full.select(known.column_names).equals(own)


FIELDS = "x,n,id,city,flag,day,grade,unit,none,time,mark\n"
LINES = (
    "1.5,2,12345678901234567891,Bern,true,2024-01-02,low,kg,01,12:30,NA\n"
    '?,3,"9",?,,2024-01-05,mid,,None,9:00,"a ""b"", c"\n'
    ",?,x,Oslo,false,,?,kg,,,?\n"
)


@pytest.mark.parametrize("options", [(), ("--rows-at-once", "1"), ("--draws", "2")])
@pytest.mark.parametrize("suffix", [".csv", ".tsv.gz"])
def test_fields_that_the_model_does_not_use_stay_as_they_are_written(
    place: Path, suffix: str, options: tuple[str, ...]
) -> None:
    (place / "a.csv").write_text(FIELDS + LINES)
    _, full = impute(place, "--missing", "?", *options, table="a.csv", out=f"b{suffix}")
    as_it_is = [
        pa.concat_tables(read_chunks(place / name, 10, typed=[]))
        for name in ("a.csv", f"b{suffix}")
    ]
    given, written = (
        table.select(["id", "none", "time", "mark"]).to_pylist() for table in as_it_is
    )
    times = 2 if "--draws" in options else 1
    assert written == [row for row in given for _ in range(times)]
    assert given[0] == {"id": "12345678901234567891", "none": "01", "time": "12:30", "mark": "NA"}
    assert holes(full.select(["x", "n", "city", "flag", "day", "grade", "unit"])) == 0
    assert "?" not in full.column("city").to_pylist()


def test_texts_that_are_missing_are_as_no_text_at_all(place: Path) -> None:
    (place / "a.csv").write_text(FIELDS + LINES)
    (place / "empty.csv").write_text(FIELDS + LINES.replace("?", ""))
    _, full = impute(place, "--missing", "?", table="a.csv", out="b.parquet")
    _, same = impute(place, table="empty.csv", out="c.parquet")
    assert full.drop_columns(["mark"]).equals(same.drop_columns(["mark"]))
    said = refused("impute", MODEL, place / "a.parquet", "--out", place / "b.csv", "--missing", "?")
    assert said.startswith(f"{place}/a.parquet is no text file")


def test_fit_takes_texts_that_are_missing(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,x\n?,-\n1,x\n")
    texts = ("--missing", "?", "--missing", "-")
    done = hhvaem("fit", tmp_path / "a.csv", "--out", tmp_path / "m", *texts)
    assert (done.returncode, done.stderr) == (0, "")
    done = hhvaem("impute", tmp_path / "m", tmp_path / "a.csv", "--out", tmp_path / "b.csv", *texts)
    assert (done.returncode, done.stderr) == (0, "")
    assert read_table(tmp_path / "b.csv").to_pydict() == {"a": [1, 1, 1], "b": ["x", "x", "x"]}
    levels = ("--kind", "b=ordinal:y,z")
    said = refused("fit", tmp_path / "a.csv", "--out", tmp_path / "m", *texts, *levels)
    assert said.startswith("Column 'b' holds 'x' in row 0, which is none of the levels")


def test_predict_takes_texts_that_are_missing_too(place: Path) -> None:
    (place / "a.csv").write_text(FIELDS + LINES)
    (place / "empty.csv").write_text(FIELDS + LINES.replace("?", ""))
    written = []
    for name, options in (("a.csv", ("--missing", "?")), ("empty.csv", ())):
        out = place / f"{name}.out.csv"
        done = hhvaem("predict", REGRESSOR, place / name, "--out", out, *CHEAP, *options)
        assert done.returncode == 0, done.stderr
        written.append(pa.concat_tables(read_chunks(out, 10, typed=[])))
    one, other = written
    # The target is not looked at, so that it stays as it is.
    assert one.column("x").to_pylist() == ["1.5", "?", None]
    assert one.column("mark").to_pylist() == ["NA", 'a "b", c', "?"]
    assert one.column("id").to_pylist() == ["12345678901234567891", "9", "x"]
    predicted = [name for name in one.column_names if name.startswith("x_")]
    assert len(predicted) == 3
    assert one.select(predicted).equals(other.select(predicted))


def test_views_of_polars_are_filled(place: Path) -> None:
    known = table(seed=1)
    pl.DataFrame(known).write_ipc(place / "p.feather", compat_level=pl.CompatLevel.newest())
    _, whole = impute(place, "--draws", "2", table="p.feather")
    _, same = impute(place, "--draws", "2", out="c.parquet")
    assert whole.to_pylist() == same.to_pylist()
    _, ends = impute(place, "--intervals", "0.9", table="p.feather", out="b.csv")
    assert ends.num_rows == 40


@pytest.mark.parametrize("options", [(), ("--draws", "2")])
def test_a_column_that_the_output_cannot_hold_is_named_before_the_work(
    place: Path, options: tuple[str, ...]
) -> None:
    # Infinite, which is told when the work begins.
    known = table(seed=1).set_column(0, "x", pa.array([np.inf] * 40))
    write_table(known.append_column("tags", pa.array([["a"]] * 40)), place / "tags.parquet")
    said = refused("impute", MODEL, place / "tags.parquet", "--out", place / "b.csv", *options)
    assert said.startswith(
        f"Column 'tags' of dtype list<element: string> cannot be written to {place}"
    )
    assert said.endswith("split it into plain columns, or write a .parquet file.")


@pytest.mark.slow
def test_the_order_of_levels_can_be_told(tmp_path: Path) -> None:
    write_table(table().drop_columns(["none"]), tmp_path / "a.csv")
    done = hhvaem(
        "fit", tmp_path / "a.csv", "--out", tmp_path / "m", "--preset", "fast", "--steps", "60",
        "--kind", "grade=ordinal:low,mid,high",
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    column = load(tmp_path / "m").schema_["grade"]
    assert (column.kind, column.storage, column.levels) == (
        "ordinal",
        "text",
        ("low", "mid", "high"),
    )
    typed = ("impute", tmp_path / "m", tmp_path / "a.csv", "--out", tmp_path / "b.csv", *CHEAP)
    done = hhvaem(*typed, "--intervals", "0.9")
    assert (done.returncode, done.stderr) == (0, "")
    full = read_table(tmp_path / "b.csv")
    assert set(full.column("grade").to_pylist()) == {"low", "mid", "high"}
    assert "grade_low" in full.column_names


def test_values_unknown_to_the_model_are_told_once(place: Path) -> None:
    known = table(seed=1).to_pandas()
    known.loc[[3, 20, 30], "city"] = "Wien"
    write_table(known, place / "new.parquet")
    arguments = ("impute", MODEL, place / "new.parquet", "--out", place / "b.parquet", *CHEAP)
    told = "Note: Values that the model does not know are kept in the table but hidden from the "
    done = hhvaem(*arguments)
    assert done.stderr == f"{told}model: 3 in 'city' ('Wien').\n"
    done = hhvaem(*arguments, "--rows-at-once", "10", "--intervals", "0.9")
    assert done.stderr == f"{told}model: 1 in 'city' ('Wien'); there are more in later rows.\n"
    assert read_table(place / "b.parquet").column("city").to_pylist()[20] == "Wien"


def test_text_files_are_read_as_the_model_knows_them(place: Path) -> None:
    """Fields may look like another type than that of the table that was fitted."""
    (place / "a.csv").write_text(
        "x,n,city,flag,day,grade,unit,none\n1,,12,,,,,\n,,,,,,,\n2,,,,,,,\n"
    )
    done = hhvaem("impute", MODEL, place / "a.csv", "--out", place / "b.csv", *CHEAP)
    assert done.returncode == 0, done.stderr
    assert "1 in 'city' ('12')" in done.stderr
    full = read_table(place / "b.csv").to_pydict()
    assert full["x"][0] == 1
    assert full["x"][1] % 1 != 0
    assert full["city"][0] == "12"


@pytest.mark.parametrize("first", [True, False])
def test_parts_without_a_known_cell_get_the_types_of_others(place: Path, first: bool) -> None:
    empty = pa.nulls(10, pa.int64())
    seen = pa.array([1, None] * 5)
    known = table(seed=1).slice(0, 20)
    x = pa.concat_arrays([empty, seen] if first else [seen, empty])
    day = pa.nulls(20, pa.timestamp("us"))
    known = known.set_column(0, "x", x).set_column(4, "day", day)
    write_table(known, place / "a.parquet")
    _, full = impute(place, "--rows-at-once", "10")
    assert holes(full) == 20
    assert full.column("x").type == (pa.float64() if first else pa.int64())
    assert full.column("x").to_pylist()[10 if first else 0] == 1


def test_a_table_without_rows(place: Path) -> None:
    write_table(table().slice(0, 0), place / "a.parquet")
    facts, full = impute(place)
    assert (facts["rows"], facts["filled"], full.num_rows) == (0, 0, 0)
    assert full.column_names == table().column_names
    _, long = impute(place, "--draws", "2")
    assert long.num_rows == 0
    assert long.column_names == ["draw", "row", *table().column_names]


def test_a_wrong_row_is_named_as_in_the_table_and_nothing_is_written(place: Path) -> None:
    known = table(seed=1).to_pandas()
    known.loc[23, "x"] = np.inf
    write_table(known, place / "bad.parquet")
    (place / "b.csv").write_text("old")
    said = refused(
        "impute", MODEL, place / "bad.parquet", "--out", place / "b.csv", *CHEAP,
        "--rows-at-once", "10",
    )  # fmt: skip
    assert said.startswith("Column 'x' has an infinite value in row 23; replace it")
    assert (place / "b.csv").read_text() == "old"
    assert sorted(path.name for path in place.iterdir()) == ["a.parquet", "b.csv", "bad.parquet"]


def test_tables_that_cannot_be_filled(place: Path) -> None:
    write_table(table().drop_columns(["x", "city"]), place / "less.parquet")
    (place / "ragged.csv").write_text("x,n\n1,2\n3,4,5\n")
    text = table().set_column(0, "x", pa.array(["many"] * 40))
    write_table(text, place / "text.parquet")
    (place / "text.csv").write_text("x,n,city,flag,day,grade,unit,none\nmany,,,,,,,\n")
    write_table(pa.table({"p": [1, 2], "q": [None, 3]}), place / "other.parquet")
    write_table(table().append_column("draw", pa.nulls(40)), place / "draw.parquet")
    write_table(table().append_column("x_low", pa.nulls(40)), place / "low.parquet")
    for name, options, sentence in (
        ("less.parquet", [], "less.parquet lacks 'x', 'city'; add every column of the model"),
        ("other.parquet", [], "other.parquet lacks 'x', 'n', 'city', 'flag', "),
        ("text.parquet", [], "Column 'x' held numbers when the model was made and holds text now"),
        ("text.csv", [], "text.csv cannot be read as CSV in column 'x' in line 2: "),
        ("ragged.csv", [], "ragged.csv cannot be read as CSV in line 3"),
        ("none.csv", [], "none.csv does not exist."),
        ("draw.parquet", ["--draws", "2"], "draw.parquet has a column 'draw', as the output will"),
        ("low.parquet", ["--intervals", "0.5"], "low.parquet has a column 'x_low', as the output"),
    ):
        out = place / "b.csv"
        done = hhvaem("impute", MODEL, place / name, "--out", out, *CHEAP, *options)
        assert done.returncode == 1
        (told,) = (line for line in done.stderr.splitlines() if not line.startswith("Note: "))
        assert told.removeprefix("Error: ").removeprefix(f"{place}/").startswith(sentence)
        assert not out.exists()


def test_outputs_that_cannot_be_written(place: Path) -> None:
    for out, sentence in (
        (place / "no" / "b.csv", f"The folder {place}/no does not exist; make it first."),
        (place / "b.xlsx", f"{place}/b.xlsx has the unknown suffix '.xlsx'; known are .csv"),
        (place, f"{place} is a folder; name a file in it."),
        (Path("/proc/self/b.csv"), "/proc/self/b.csv cannot be written: "),
    ):
        said = refused("impute", MODEL, place / "a.parquet", "--out", out)
        assert said.startswith(sentence)


@pytest.mark.parametrize("suffix", [".csv", ".tsv.gz", ".parquet", ".feather"])
def test_a_full_disk_leaves_the_old_file(place: Path, suffix: str) -> None:
    write_table(table(4_000, seed=1), place / "a.parquet")
    out = place / f"b{suffix}"
    typed = ("impute", MODEL, place / "a.parquet", "--out", out, *CHEAP)
    assert hhvaem(*typed).returncode == 0  # so that all is compiled: JAX keeps programs on disk
    out.write_text("old")
    with full_disk(3_000):
        said = refused(*typed)
    assert said == f"{out} cannot be written: File too large."
    assert out.read_text() == "old"
    assert sorted(path.name for path in place.iterdir()) == ["a.parquet", out.name]


@pytest.mark.slow
def test_interrupted_the_old_file_stays(place: Path) -> None:
    write_table(pa.concat_tables([table(seed=1)] * 1_000), place / "a.parquet")
    out = place / "b.csv"
    out.write_text("old")
    typed = ("impute", MODEL, place / "a.parquet", "--out", out, *CHEAP, "--rows-at-once", "50")
    status, said = interrupted(*typed, when=b"of 40,000 rows")
    assert (status, said) == (130, f"Stopped: nothing was written to {out}.")
    assert out.read_text() == "old"
    assert sorted(path.name for path in place.iterdir()) == ["a.parquet", "b.csv"]


def test_files_that_are_no_imputers(place: Path) -> None:
    others = {
        FILES / "classifier-0.1.hhvaem": "is a Classifier, which fills no holes; use `hhvaem pr",
        FILES / "regressor-0.1.hhvaem": "is a Regressor, which fills no holes; use `hhvaem pr",
    }
    for model, sentence in (no_models(place) | others).items():
        assert sentence in refused("impute", model, place / "a.parquet", "--out", place / "b.csv")


def test_the_model_is_not_written_over(place: Path) -> None:
    model = place / "model.csv"
    model.write_bytes(MODEL.read_bytes())
    assert "the model" in refused("impute", model, place / "a.parquet", "--out", model)
    assert model.read_bytes() == MODEL.read_bytes()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["--draws", "2", "--intervals", "0.9"], "Draws have no intervals"),
        (["--intervals", "0.9999999999999999"], "is too near 1"),
        (["--intervals", "1"], "no probability between 0 and 1"),
        (["--draws", "0"], "--draws"),
        (["--shift", "x=1"], "Only draws can be shifted"),
        (["--posterior", "x"], "--posterior"),
    ],
)
def test_wrong_options_have_status_2(place: Path, wrong: list[str], said: str) -> None:
    done = hhvaem("impute", MODEL, place / "a.parquet", "--out", place / "b.csv", *wrong)
    assert done.returncode == 2
    assert said in " ".join(done.stderr.split())


def test_models_of_arrays_and_of_other_machines(place: Path) -> None:
    """Neither has names of columns, nor the device that is not here."""
    model = load(MODEL)
    del model.feature_names_in_
    model.set_params(device="gpu").save(place / "model")
    done = hhvaem("impute", place / "model", place / "a.parquet", "--out", place / "b.csv", *CHEAP)
    assert (done.returncode, done.stderr) == (0, "")


# Not of `resource`, where the memory of the process that started this one counts, too.
PEAK = """
import sys
from hhvaem.cli import main

sys.argv[0] = "hhvaem"
try:
    main()
finally:
    told = dict(line.split(":") for line in open("/proc/self/status"))
    print(int(told["VmHWM"].split()[0]) * 1024, file=sys.stderr)
"""


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_a_million_rows_need_less_than_two_gigabytes(tmp_path: Path, suffix: str) -> None:
    write_table(clinic(), tmp_path / "clinic.parquet")
    fitted = hhvaem("fit", tmp_path / "clinic.parquet", "--out", tmp_path / "m", "--preset", "fast")
    assert fitted.returncode == 0, fitted.stderr
    part = clinic(20_000, seed=1)
    write_table(pa.concat_tables([part] * 50), tmp_path / f"big{suffix}")
    done = subprocess.run(
        [
            sys.executable, "-c", PEAK, "impute", tmp_path / "m", tmp_path / f"big{suffix}",
            "--out", tmp_path / f"full{suffix}", *CHEAP, "--json",
        ],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert (facts["rows"], facts["left"]) == (1_000_000, 0)
    assert facts["filled"] == 50 * holes(part)
    peak = int(done.stderr.split()[-1])
    print(f"{suffix}: {peak / 1e9:.2f} GB, {facts['rows'] / facts['seconds']:.0f} rows/s")
    assert peak < 2e9
