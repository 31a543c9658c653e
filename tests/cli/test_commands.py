"""The command as a person runs it: real processes, real files."""

import json
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from hhvaem import __version__, cli
from hhvaem.cli.schema import in_options
from hhvaem.errors import TableWarning
from hhvaem.example import clinic
from hhvaem.files import read_table, write_table

COMMAND = [sys.executable, "-c", "from hhvaem.cli import main; main()"]


def hhvaem(
    *arguments: str, cwd: Path | None = None, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True, text=True, cwd=cwd, timeout=300, env={**os.environ, **(env or {})},
    )  # fmt: skip


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
    for command in ("demo", "schema", "data", "paper"):
        assert command in shown.stdout


def test_the_version() -> None:
    assert hhvaem("--version").stdout == f"hhvaem {__version__}\n"


def test_the_demo_says_at_once_that_it_has_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "file cannot be made a folder: File exists" in refused(
        "demo", "--out", "file", cwd=tmp_path
    )


@pytest.mark.slow
def test_the_demo_fills_compares_and_writes_a_page(tmp_path: Path) -> None:
    done = hhvaem("demo", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for said in ("blood pressure", "ordinal", "datetime", "mean or mode", "report.html"):
        assert said in done.stdout
    page = (tmp_path / "demo" / "report.html").read_text()
    # Everything is in the page: nothing is fetched from anywhere.
    assert page.count("<svg") == page.count("<figure>") + clinic(1).num_columns
    assert not re.search(r"""(src|href)=["']?(http|//)""", page)
    before, after = (read_table(tmp_path / "demo" / name) for name in ("clinic.csv", "filled.csv"))
    assert sum(column.null_count for column in before.columns) > 1000
    assert sum(column.null_count for column in after.columns) == 0
    # Better than the mean where columns say something about each other, and honest about it.
    [inside] = re.findall(r"(\d+)% of the hidden numbers", done.stdout)
    assert 80 <= int(inside) <= 98
    errors = re.findall(r"^(crp|blood pressure) +\d+ +([\d.]+) +([\d.]+)", done.stdout, re.M)
    assert len(errors) == 2
    for _, error, error_of_mean in errors:
        assert float(error) < 0.9 * float(error_of_mean)


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


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("age", "--kind age=ignored"),
        ("zip code", "--kind 'zip code=ignored'"),
        ("it's", """--kind 'it'"'"'s=ignored'"""),
        ("""it's "so\\" """, """--kind 'it'"'"'s "so\\" =ignored'"""),
        ("a': 'b'}", """--kind 'a'"'"': '"'"'b'"'"'}=ignored'"""),
        ("a\x1b", "kinds={'a\\x1b': 'ignored'}"),
    ],
)
def test_ways_out_are_options_of_the_command(name: str, said: str) -> None:
    assert in_options(f"Use kinds={{{name!r}: 'ignored'}} or not.") == f"Use {said} or not."


def test_control_characters_do_not_reach_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a\x1b[31m,b\n" + "\n".join(f"{i},\x1b]0;{i % 3}" for i in range(30)))
    done = hhvaem("schema", str(path))
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    assert r"a\x1b[31m" in done.stdout
    path.write_text("a,b\n1,2\n\x1b[31m,2,3\n")
    assert r"\x1b[31m" in refused("schema", str(path))


def test_letters_that_the_terminal_does_not_have(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("n\u00e4me,x\n\u00e4,1\nb,2\n", encoding="utf-8")
    done = hhvaem("schema", str(path), env={"PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (0, "")
    assert r"n\xe4me" in done.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("more", [[], ["--json"]])
def test_a_full_disk_is_told(tmp_path: Path, more: list[str]) -> None:
    write_table(clinic(50), tmp_path / "a.csv")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*COMMAND, "schema", "a.csv", *more],
            stdout=full, stderr=subprocess.PIPE, text=True, cwd=tmp_path, timeout=300,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == "Error: The output cannot be written: No space left on device.\n"


@pytest.mark.parametrize("wrong", ["age", "nosuch=real", "age=nosuch", "sex=real"])
def test_a_wrong_kind(tmp_path: Path, wrong: str) -> None:
    path = tmp_path / "clinic.csv"
    write_table(clinic(50), path)
    assert wrong.split("=")[0] in refused("schema", str(path), "--kind", wrong)


def test_the_clinic_has_columns_of_every_kind_and_holes_in_each() -> None:
    table = clinic()
    assert all(0 < column.null_count < table.num_rows for column in table.columns)
    shares = [column.null_count / table.num_rows for column in table.columns]
    assert np.mean(shares) == pytest.approx(0.2, abs=0.02)
    assert clinic().equals(table)


def test_notes_are_for_readers(capsys: pytest.CaptureFixture[str]) -> None:
    """What NumPy says of numbers that overflow on their way is none."""

    def warns() -> None:
        warnings.warn("overflow encountered in subtract", RuntimeWarning, stacklevel=1)
        warnings.warn("Column 'age' is empty.", TableWarning, stacklevel=1)

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        cli._told(warns)  # type: ignore[arg-type]
    assert capsys.readouterr().err == "Note: Column 'age' is empty.\n"


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_what_is_said_is_there_when_a_command_is_killed(unbuffered: str) -> None:
    say = (
        "import os, sys; from hhvaem.cli.places import outliving; "
        "print('said', file=outliving(sys.stderr), flush=False); os._exit(1)"
    )
    env = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run([sys.executable, "-c", say], capture_output=True, env=env, check=False)
    assert done.stderr == b"said\n"
