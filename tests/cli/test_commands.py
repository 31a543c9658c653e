"""The command as a person runs it: real processes, real files."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hhvaem.example import clinic
from hhvaem.files import write_table


def hhvaem(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from hhvaem.cli import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=300)


def refused(*arguments: str, cwd: Path | None = None) -> str:
    """Run a command that must fail with one sentence, and give the sentence."""
    done = hhvaem(*arguments, cwd=cwd)
    assert done.returncode == 1
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    return done.stderr


def test_help_names_every_command() -> None:
    shown = hhvaem("--help")
    assert shown.returncode == 0
    for command in ("demo", "schema", "data"):
        assert command in shown.stdout


def test_the_demo_shows_the_schema_and_writes_a_figure(tmp_path: Path) -> None:
    done = hhvaem("demo", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for said in ("blood pressure", "ordinal", "datetime", "1000/1000 steps", "columns.png"):
        assert said in done.stdout
    figure = (tmp_path / "demo" / "columns.png").read_bytes()
    assert figure.startswith(b"\x89PNG")
    assert len(figure) > 20_000


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".feather"])
def test_schema_of_a_file(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"clinic{suffix}"
    write_table(clinic(100), path)
    done = hhvaem("schema", str(path), "--kind", "age=real")
    assert done.returncode == 0, done.stderr
    assert re.search(r"age +real", done.stdout)
    assert re.search(r"admitted +datetime", done.stdout)
    columns = json.loads(hhvaem("schema", str(path), "--json").stdout)["columns"]
    assert [column["name"] for column in columns] == clinic(1).column_names


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert "nothing.csv" in refused("schema", str(tmp_path / "nothing.csv"))


def test_a_file_that_is_no_table(tmp_path: Path) -> None:
    path = tmp_path / "broken.csv"
    path.write_text("a,b\n1,2\n3,4,5\n")
    assert "broken.csv" in refused("schema", str(path))
    (tmp_path / "fake.parquet").write_bytes(b"\x00\x01nonsense")
    assert "fake.parquet" in refused("schema", str(tmp_path / "fake.parquet"))


def test_an_identifier_is_named_with_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "ids.csv"
    path.write_text("id,x\n" + "\n".join(f"p{i:05d},{i % 7}" for i in range(10_000)))
    said = refused("schema", str(path))
    assert "'id'" in said
    assert "10000" in said
    done = hhvaem("schema", str(path), "--kind", "id=ignored")
    assert done.returncode == 0
    assert "passed through" in done.stdout


@pytest.mark.parametrize("wrong", ["age", "nosuch=real", "age=nosuch", "sex=real"])
def test_a_wrong_kind(tmp_path: Path, wrong: str) -> None:
    path = tmp_path / "clinic.csv"
    write_table(clinic(50), path)
    assert wrong.split("=")[0] in refused("schema", str(path), "--kind", wrong)


def test_the_example_of_the_readme_runs(tmp_path: Path) -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    code = re.search(r"```python\n(.*?)```", readme, re.DOTALL)
    assert code is not None
    check = "\nassert table['age'].null_count and not any(c.null_count for c in full.columns)"
    done = subprocess.run(
        [sys.executable, "-c", code[1] + check],
        capture_output=True, text=True, cwd=tmp_path, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "blood pressure" in done.stdout


def test_the_clinic_has_columns_of_every_kind_and_holes_in_each() -> None:
    table = clinic()
    assert all(0 < column.null_count < table.num_rows for column in table.columns)
    shares = [column.null_count / table.num_rows for column in table.columns]
    assert np.mean(shares) == pytest.approx(0.2, abs=0.02)
    assert clinic().equals(table)
