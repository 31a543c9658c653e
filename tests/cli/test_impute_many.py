"""`hhvaem impute` on many files: parts in a folder, each once, and the same as of one file."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from commands import hhvaem, refused
from saved_models import FILES, table

from hhvaem import load, many, read_table, write_table
from hhvaem.many import Job
from hhvaem.parts import Filling

MODEL = FILES / "imputer-0.1.hhvaem"
# In blocks of two.
CHEAP = ("--posterior", "encoder", "--rows-at-once", "16")
LENGTHS = {"a": 70, "b": 32, "c": 6}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a folder of three files, which are divided into blocks of 32 rows."""
    monkeypatch.setattr(many, "PARTS", 2)
    (tmp_path / "in").mkdir()
    write(tmp_path, ".parquet")
    return tmp_path


def changed(known: pa.Table, name: str, rows: list[int], value: Any) -> pa.Table:
    """Write a value into some rows of a column."""
    cells = [value if i in rows else cell for i, cell in enumerate(known[name].to_pylist())]
    kind = known.schema.field(name)
    return known.set_column(known.column_names.index(name), kind, pa.array(cells, kind.type))


def write(place: Path, suffix: str) -> pa.Table:
    """Write the files, and give what all of them hold."""
    tables = [table(rows, seed=1 + i) for i, rows in enumerate(LENGTHS.values())]
    if "v" in suffix:  # text files have neither null columns nor categories
        tables = [each.drop_columns(["none"]) for each in tables]
        tables = [each.append_column("none", pa.nulls(len(each), pa.string())) for each in tables]
    for name, each in zip(LENGTHS, tables, strict=True):
        write_table(each, place / "in" / f"{name}{suffix}")
    return pa.concat_tables(tables)


def impute(place: Path, *options: Any, table: str = "in/*.parquet", out: str = "out") -> Any:
    """Fill the files at the least cost, and give what was printed for programs."""
    done = hhvaem("impute", MODEL, place / table, "--out", place / out, *CHEAP, *options, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def parts(place: Path, out: str = "out") -> list[Path]:
    return sorted(path for path in (place / out).iterdir() if path.name != many.RECORD)


def together(place: Path, out: str = "out") -> pa.Table:
    return pa.concat_tables([read_table(path) for path in parts(place, out)])


def wrong(place: Path, *options: Any, table: str = "in/*.parquet") -> str:
    """Run a command that must be refused before anything is written."""
    said = refused("impute", MODEL, place / table, "--out", place / "new", *CHEAP, *options)
    assert not (place / "new").exists()
    return said


@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".csv", ".tsv.gz"])
def test_files_are_filled_as_each_by_itself(place: Path, suffix: str) -> None:
    write(place, suffix)
    facts = impute(place, table=f"in/*{suffix}")
    assert facts.pop("seconds") > 0
    known = {"out": str(place / "out"), "files": 3, "parts": 5, "written": 5, "rows": 108}
    assert {name: facts[name] for name in known} == known
    assert [path.name for path in parts(place)] == [
        f"{name}{suffix}" for name in ("a-00000", "a-00001", "a-00002", "b-00000", "c-00000")
    ]
    for name in LENGTHS:
        own, one = [path for path in parts(place) if path.name[0] == name], place / f"own{suffix}"
        done = hhvaem("impute", MODEL, place / "in" / f"{name}{suffix}", "--out", one, *CHEAP)
        assert done.returncode == 0, done.stderr
        assert pa.concat_tables([read_table(path) for path in own]).equals(read_table(one))


def test_a_folder_is_all_that_is_in_it_but_marks(place: Path) -> None:
    (place / "in" / "_SUCCESS").touch()
    (place / "in" / ".a.parquet.crc").touch()
    assert impute(place, table="in")["parts"] == 5
    own = load(MODEL).transform(read_table(place / "in" / "a.parquet"), posterior="encoder")
    assert together(place).slice(0, 70).equals(own)


def test_a_person_is_told(place: Path) -> None:
    typed = ("impute", MODEL, place / "in", "--out", place / "out", *CHEAP)
    done = hhvaem(*typed)
    assert (done.returncode, done.stderr) == (0, "")
    assert "108 rows in 5 parts of 3 files, " in " ".join(done.stdout.split())
    done = hhvaem(*typed)
    assert (done.returncode, done.stderr) == (0, "")
    assert "All 5 parts were there; nothing was left to do." in " ".join(done.stdout.split())
    (place / "out" / "a-00000.parquet").unlink()
    done = hhvaem(*typed)
    assert "4 parts were there before." in " ".join(done.stdout.split())


def test_draws_are_those_of_all_files_below_each_other(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # In the same parts: only the last file has rows that fill none.
    monkeypatch.setitem(LENGTHS, "a", 64)
    write_table(write(place, ".parquet"), place / "all.parquet")
    impute(place, "--draws", "2")
    out = place / "long.parquet"
    typed = ("impute", MODEL, place / "all.parquet", "--out", out, "--draws", "2", *CHEAP)
    assert hhvaem(*typed).returncode == 0
    assert together(place).to_pylist() == read_table(out).to_pylist()


def test_equal_rows_of_files_and_blocks_have_draws_of_their_own(place: Path) -> None:
    empty = table().slice(0, 0)
    for name in "ab":
        nothing = pa.table([pa.nulls(40, field.type) for field in empty.schema], empty.schema)
        write_table(nothing, place / "in" / f"{name}.feather")
    impute(place, "--draws", "1", table="in/*.feather")
    long = together(place)
    assert long.column("row").to_pylist() == list(range(1, 81))
    drawn = np.array(long.column("x").to_pylist())
    assert abs(np.corrcoef(drawn[:40], drawn[40:])[0, 1]) < 0.6
    assert abs(np.corrcoef(drawn[:8], drawn[32:40])[0, 1]) < 0.95


def test_intervals_and_shifts_go_the_same_way(place: Path) -> None:
    impute(place, "--intervals", "0.5")
    own, _ = load(MODEL).interval(read_table(place / "in" / "b.parquet"), 0.5, posterior="encoder")
    assert together(place).column("x_low").to_pylist()[70:102] == own.column("x").to_pylist()
    impute(place, "--draws", "1", "--shift", "x=100", out="shifted")
    impute(place, "--draws", "1", out="plain")
    far, near = (together(place, out).column("x").to_pylist() for out in ("shifted", "plain"))
    moved = np.array(far) - np.array(near)
    assert set(moved[moved < 50]) == {0}
    assert (moved > 50).sum() == sum(
        read_table(path).column("x").null_count for path in (place / "in").iterdir()
    )


def test_what_is_absent_is_done_and_nothing_else(place: Path) -> None:
    impute(place)
    before = {path: path.read_bytes() for path in parts(place)}
    times = {path: path.stat().st_mtime_ns for path in before}
    lost = place / "out" / "a-00001.parquet"
    lost.unlink()
    for end in ("tmp", "tries"):
        (place / "out" / f".hhvaem.0123.{end}").write_text("what killed workers left")
    facts = impute(place)
    assert (facts["parts"], facts["written"], facts["rows"]) == (5, 1, 108)
    assert {path: path.read_bytes() for path in parts(place)} == before
    assert [p for p in times if p.stat().st_mtime_ns != times[p]] == [lost]


@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".csv"])
@pytest.mark.parametrize("options", [(), ("--draws", "2")])
def test_a_part_that_is_no_table_is_made_again(
    place: Path, suffix: str, options: tuple[str, ...]
) -> None:
    write(place, suffix)
    impute(place, *options, table=f"in/*{suffix}")
    whole, *others = parts(place)
    before = whole.read_bytes()
    whole.write_bytes(b"")
    for cut in others[:1] if suffix != ".csv" else []:
        cut.write_bytes(cut.read_bytes()[:-9])
    if suffix != ".csv":  # of fewer rows
        write_table(read_table(others[1]).slice(1), others[1])
    facts = impute(place, *options, table=f"in/*{suffix}")
    assert facts["written"] == (1 if suffix == ".csv" else 3)
    assert whole.read_bytes() == before
    assert impute(place, *options, table=f"in/*{suffix}")["written"] == 0


@pytest.mark.parametrize("table", ["in/*", "in/**/*.parquet"])
def test_what_is_written_within_a_pattern_is_not_read(place: Path, table: str) -> None:
    assert impute(place, table=table, out="in/out")["written"] == 5
    (place / "in" / "out" / "b-00000.parquet").unlink()
    facts = impute(place, table=table, out="in/out")
    assert (facts["files"], facts["written"]) == (3, 1)


def test_a_folder_in_the_place_of_a_part(place: Path) -> None:
    impute(place)
    lost = place / "out" / "b-00000.parquet"
    lost.unlink()
    lost.mkdir()
    said = refused("impute", MODEL, place / "in", "--out", place / "out", *CHEAP)
    assert said == (
        f"{lost} is a folder in the place of a file to be written; move it away, or name an empty "
        "folder with --out."
    )


def test_interrupted_it_goes_on(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill = Job.fill

    def tired(job: Job, imputer: Any, number: int) -> Any:
        if number == 2:
            raise KeyboardInterrupt
        return fill(job, imputer, number)

    with monkeypatch.context() as patched:
        patched.setattr(Job, "fill", tired)
        patched.setattr("hhvaem.cli._leave", sys.exit)  # which would end these tests
        done = hhvaem("impute", MODEL, place / "in", "--out", place / "out", *CHEAP)
    assert done.returncode == 130
    assert f"2 of 5 parts are in {place}/out; the same command goes on." in done.stderr
    assert len(parts(place)) == 2
    assert impute(place, table="in")["written"] == 3
    impute(place, out="whole")
    assert [path.read_bytes() for path in parts(place)] == [
        path.read_bytes() for path in parts(place, "whole")
    ]


def test_a_block_that_fails_leaves_nothing(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file vanishes, and another one changes, when the work has begun."""
    fill = Filling.__call__

    def meanwhile(*args: Any) -> Any:
        (place / "in" / "b.parquet").unlink(missing_ok=True)
        write_table(table(8), place / "in" / "c.parquet")
        return fill(*args)

    with monkeypatch.context() as patched:
        patched.setattr(Filling, "__call__", meanwhile)
        said = refused("impute", MODEL, place / "in", "--out", place / "out", *CHEAP)
    assert said == (
        f"{place}/in/b.parquet cannot be read: No such file or directory; {place}/in/c.parquet has "
        f"changed since the work began; all else is in {place}/out."
    )
    assert [path.name for path in parts(place)] == [f"a-0000{i}.parquet" for i in range(3)]


def test_a_wrong_row_is_named_as_in_its_file_and_others_go_on(place: Path) -> None:
    write_table(changed(table(70, seed=1), "x", [50], np.inf), place / "in" / "a.parquet")
    said = refused("impute", MODEL, place / "in", "--out", place / "out", *CHEAP)
    assert said.startswith(f"{place}/in/a.parquet: Column 'x' has an infinite value in row 50")
    names = [path.name for path in parts(place)]
    assert names == [f"{n}.parquet" for n in ("a-00000", "a-00002", "b-00000", "c-00000")]


def test_notes_are_told_once(place: Path) -> None:
    for name, rows in LENGTHS.items():
        known = table(rows, seed=1).append_column("id", pa.array(range(rows)))
        write_table(changed(known, "city", [3], "Wien"), place / "in" / f"{name}.parquet")
    done = hhvaem("impute", MODEL, place / "in", "--out", place / "out", *CHEAP)
    assert done.returncode == 0, done.stderr
    notes = done.stderr.strip().splitlines()
    assert len(notes) == 2
    assert "passed through as they are: 'id'" in notes[0]
    assert "1 in 'city' ('Wien'); there are more in later rows." in notes[1]


def test_inputs_are_refused_before_anything_starts(place: Path) -> None:
    known, folder = table(8), place / "in"

    def said_of(name: str, content: bytes | pa.Table) -> str:
        path = folder / name
        write_table(content, path) if isinstance(content, pa.Table) else path.write_bytes(content)
        said = wrong(place, table=f"in/*{path.suffix}")
        path.unlink()
        assert str(path) in said
        return said

    whole = (folder / "a.parquet").read_bytes()
    assert said_of("z.parquet", b"").endswith(
        "z.parquet is empty; a table needs at least a header."
    )
    assert "z.parquet is not a Parquet file" in said_of("z.parquet", whole[:-20])
    assert "z.parquet is not a Parquet file" in said_of("z.parquet", b"x,y\n1,2\n" * 9)
    assert "lacks 'x'" in said_of("A.parquet", known.drop_columns(["x"]))
    assert "; give all files the same." in said_of("z.parquet", known.drop_columns(["x"]))
    other = known.set_column(0, "x", known.column("x").cast(pa.float32()))
    assert "'x' is of dtype float in" in said_of("z.parquet", other)
    text = known.set_column(0, "x", pa.array(["many"] * 8))
    for name in LENGTHS:
        (folder / f"{name}.parquet").unlink()
    assert "held numbers when the model was made and holds text now" in said_of("A.parquet", text)
    assert "cannot be read as CSV in line 3" in said_of("z.csv", b"x,n\n1,2\n1,2,3\n")


def test_folders_and_patterns_that_name_no_tables(place: Path) -> None:
    assert wrong(place, table="in/*.csv").endswith(
        "/in/*.csv names no file; put a pattern in quotes, as in 'in/*.parquet'."
    )
    (place / "none").mkdir()
    assert "/none has no tables in it" in wrong(place, table="none")
    (place / "none" / "deeper").mkdir()
    assert wrong(place, table="none").endswith(
        "deeper is a folder; move it away, or give a pattern of files, as in 'in/*.parquet'."
    )
    write_table(table(), place / "in" / "d.feather")
    assert "are of different formats" in wrong(place, table="in")
    (place / "other").mkdir()
    write_table(table(), place / "other" / "a.parquet")
    assert "More than one file is named 'a.parquet'" in wrong(place, table="*/a.parquet")
    said = refused("impute", MODEL, place / "in", "--out", place / "in" / "out", *CHEAP)
    assert said.endswith("/in/out is in the folder that is read; name another with --out.")
    assert "no column 'y' whose holes" in wrong(place, "--draws", "1", "--shift", "y=1")


def test_the_folder_of_another_job_is_refused(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    impute(place)
    before = {path: path.read_bytes() for path in parts(place)}
    typed = ("impute", MODEL, place / "in", "--out", place / "out", *CHEAP)
    end = "; name another folder with --out, or remove it."
    assert refused(*typed, "--draws", "2").endswith(f"made with another draws{end}")
    assert refused(*typed, "--rows-at-once", "8").endswith(f"made with another rows-at-once{end}")
    other = place / "other.hhvaem"
    load(MODEL).set_params(verbose=1).save(other)
    assert refused(typed[0], other, *typed[2:]).endswith(f"made by another model{end}")
    with monkeypatch.context() as patched:
        patched.setattr(many, "__version__", "9.1")
        assert refused(*typed).endswith(f"made by hhvaem 0.1.0{end}")
    (place / "in" / "c.parquet").rename(place / "in" / "d.parquet")
    assert "of other files than now ('c.parquet', 'd.parquet')" in refused(*typed)
    (place / "in" / "d.parquet").rename(place / "in" / "c.parquet")
    os.utime(place / "in" / "b.parquet", ns=(0, 0))
    assert "of other files than now ('b.parquet')" in refused(*typed)
    (place / "out" / many.RECORD).write_text("{")
    assert f"{many.RECORD} is damaged; name an empty folder" in refused(*typed)
    assert {path: path.read_bytes() for path in parts(place)} == before


def test_a_record_that_somebody_has_changed(place: Path) -> None:
    impute(place)
    record = place / "out" / many.RECORD
    known = json.loads(record.read_text())
    first, *others = known["inputs"]

    def said_of(text: str) -> str:
        record.write_text(text)
        return refused("impute", MODEL, place / "in", "--out", place / "out", *CHEAP)

    for wrong in (
        "[" * 200_000,
        json.dumps(known | {"version": ["a"] * 5000}),
        json.dumps(known | {"version": "1" * 5000}),
        json.dumps(known | {"inputs": [first | {"name": 5}, *others]}),
        json.dumps(known | {"inputs": [first | {"name": None}, *others]}),
        json.dumps(known | {"inputs": [first, first, *others]}),
        json.dumps(known | {"inputs": [5]}),
    ):
        assert said_of(wrong) == (
            f"{record} is damaged; name an empty folder with --out, or remove {place}/out."
        )
    more = known["options"] | {"colour": "red"}
    assert "made with another colour;" in said_of(json.dumps(known | {"options": more}))
    turned = json.dumps(known | {"inputs": [*others, first]})
    assert "made of files in other order;" in said_of(turned)


def test_a_folder_is_not_named_as_a_table(place: Path) -> None:
    typed = ("impute", MODEL, place / "in", "--out")
    for name in ("full.csv", "full.CSV.gz", "full.parquet"):
        said = refused(*typed, place / name, *CHEAP)
        assert f"/{name} is named as a table, and --out would be a folder" in said
        assert said.endswith("name it otherwise, such as " + str(place / "full") + ".")
        assert not (place / name).exists()
    # One that was begun before goes on.
    impute(place, table="in")
    (place / "out").rename(place / "out.csv")
    assert impute(place, table="in", out="out.csv")["written"] == 0


def test_foreign_files_in_the_folder_are_left_alone(place: Path) -> None:
    (place / "out").mkdir()
    (place / "out" / "a-00000.parquet").write_text("mine")
    typed = ("impute", MODEL, place / "in", "--out", place / "out", *CHEAP)
    assert "/out has 'a-00000.parquet' in it, which this command did not write" in refused(*typed)
    assert (place / "out" / "a-00000.parquet").read_text() == "mine"
    (place / "out" / "a-00000.parquet").unlink()
    impute(place, table="in")
    (place / "out" / "notes.md").write_text("mine")
    assert "has 'notes.md' in it" in refused(*typed)
    (place / "file").write_text("mine")
    said = refused(*typed[:4], place / "file", *CHEAP)
    assert said == (
        f"{place}/file is a file, and what is made of many files is put into a folder; name one "
        "with --out."
    )


def test_a_table_without_rows_has_a_part_without_rows(place: Path) -> None:
    write_table(table().slice(0, 0), place / "in" / "c.parquet")
    assert impute(place)["parts"] == 5
    assert read_table(place / "out" / "c-00000.parquet").num_rows == 0


def test_ray_is_looked_for_before_anything_is_written(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for options in (("--workers", "2"), ("--address", "127.0.0.1:1")):
        done = hhvaem("impute", MODEL, place / "in", "--out", place / "new", *CHEAP, *options)
        assert done.returncode == 2
        assert "Only Ray has workers" in " ".join(done.stderr.split())
    monkeypatch.setitem(sys.modules, "ray", None)
    said = wrong(place, "--engine", "ray")
    assert said == "Ray is not installed; `pip install 'hhvaem[ray]'`."
