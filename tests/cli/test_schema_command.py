"""`hhvaem schema` as it is typed: what options say of a table."""

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from commands import hhvaem, refused

from hhvaem import write_table
from hhvaem.cli.schema import in_options, parsed_kinds

TABLE = "age,grade,mark\n31,low,?\n40,high,a\n?,mid,b\n55,,c\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "a.csv").write_text(TABLE)
    return tmp_path / "a.csv"


def columns(path: Path, *options: str) -> dict[str, Any]:
    done = hhvaem("schema", path, "--json", *options)
    assert (done.returncode, done.stderr) == (0, "")
    return {column["name"]: column for column in json.loads(done.stdout)["columns"]}


def test_texts_can_be_missing(path: Path) -> None:
    before, after = columns(path), columns(path, "--missing", "?", "--missing", "b")
    assert before["age"]["storage"] == "text"
    assert after["age"]["kind"] == "count"
    assert before["mark"]["levels"] == ["?", "a", "b", "c"]
    assert after["mark"]["levels"] == ["a", "c"]
    # As the note of the first says.
    note = (
        "'?' often marks a missing value; if so, make it missing (on the command line: --missing)"
    )
    assert before["mark"]["note"].startswith(note)
    assert "?" not in after["mark"]["note"]


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".feather"])
@pytest.mark.parametrize("encoded", [False, True])
def test_the_order_of_levels(tmp_path: Path, suffix: str, encoded: bool) -> None:
    texts = pa.array(["low", "high", None, "a, b", "low"])
    grades = texts.dictionary_encode() if encoded else texts
    write_table(pa.table({"x=y": grades, "n": [1, 2, 3, 4, 5]}), tmp_path / f"a{suffix}")
    kind = 'x=y=ordinal:low, "a, b",high,unseen'
    found = columns(tmp_path / f"a{suffix}", "--kind", kind, "--kind", "n=real")
    assert found["x=y"]["kind"] == "ordinal"
    assert found["x=y"]["levels"] == ["low", "a, b", "high"]
    assert found["n"]["kind"] == "real"


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (
            "grade=ordinal",
            r"Column 'grade' cannot be ordinal: .*; on the command line: --kind COLU",
        ),
        (
            "grade=ordinal:low,mid",
            r"Column 'grade' holds 'high' in row 1, which is none of the lev",
        ),
        ("grade=ordinal:", r"Column 'grade' holds 'low' in row 0, which is none of the levels"),
        ("grade=ordinal:low,mid,low,high", r"--kind names the level 'low' of column 'grade' more"),
        (
            "n=ordinal:1,2",
            r"--kind names levels of column 'n', which holds no text; leave them out",
        ),
        ("nosuch=ordinal:a,b", r"--kind names a column 'nosuch', which the table does not have"),
        ("n=nosuch", r"--kind asks for an unknown kind 'nosuch' of column 'n'"),
    ],
)
def test_orders_that_are_none(tmp_path: Path, kind: str, sentence: str) -> None:
    (tmp_path / "a.csv").write_text("n,grade\n1,low\n2,high\n3,mid\n4,\n")
    assert re.match(sentence, refused("schema", tmp_path / "a.csv", "--kind", kind))


def test_kinds_are_taken_apart() -> None:
    options = ["a=b=count", "a=ordinal", "b=ordinal:<=1,>1"]
    kinds = {"a=b": "count", "a": "ordinal", "b": "ordinal"}
    assert parsed_kinds(options) == (kinds, {"b": ["<=1", ">1"]})


def test_options_have_their_names() -> None:
    assert in_options("`kinds` names a column") == "--kind names a column"
