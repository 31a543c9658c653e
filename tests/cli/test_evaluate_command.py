"""`hhvaem evaluate` as it is typed: verdicts, a page, JSON, or a refusal before work."""

import io
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from commands import hhvaem, refused
from rich.console import Console
from saved_models import table

from hhvaem import Imputer, write_table
from hhvaem.cli.evaluate import _verdicts
from hhvaem.verdicts import Verdict

FAST = ("--preset", "fast", "--steps", "60", "--against", "mean,gaussian")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("evaluate")
    write_table(table(rows=120).drop_columns(["none"]), folder / "a.csv")
    write_table(table(rows=120).drop_columns(["none"]), folder / "a.parquet")
    return folder


@pytest.mark.slow
def test_a_person_is_told_and_finds_a_page(place: Path) -> None:
    done = hhvaem("evaluate", place / "a.parquet", *FAST, "--out", place / "trust.html")
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "known cells of 6 columns were hidden, wherever chance took them." in said
    assert "the Gaussian copula" in said
    assert "trust.html: a page with figures; open it in a browser." in said
    page = (place / "trust.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "Can these fills be trusted?" in page


@pytest.mark.slow
def test_programs_get_what_the_library_finds(place: Path) -> None:
    done = hhvaem(
        "evaluate", place / "a.parquet", *FAST, "--seed", "2", "--share", "0.3", "--hide", "mnar",
        "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    imputer = Imputer(preset="fast", max_steps=60, random_state=2)
    own = imputer.evaluate(
        table(rows=120).drop_columns(["none"]), how="mnar", share=0.3, against=["mean", "gaussian"]
    )
    expected = json.loads(own.to_json())
    for told in (facts, expected):
        for method in told["methods"]:
            del method["seconds"]
    assert facts == expected


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--out", "trust.csv"), "trust.csv will be a page; name it so, such as trust.html."),
        (("--out", ".html"), ".html will be a page; name it so, such as trust.html."),
        (("--out", ""), ". is a folder; name a file with --out."),
        (("--share", "2"), "share=2.0 is no share of the cells"),
        (("--against", "forest"), "There is nothing called 'forest' to compare with"),
        (("--hide", "patterns", "--share", "0.1"), "`share` says nothing of `patterns`"),
        (("--kind", "z=real"), "z"),
    ],
)
def test_wrong_options_are_told(place: Path, options: tuple[str, ...], said: str) -> None:
    done = hhvaem("evaluate", place / "a.csv", "--preset", "fast", "--steps", "60", *options)
    assert done.returncode == 1
    assert said in " ".join(done.stderr.split())
    assert not Path("trust.csv").exists()


def test_tables_that_cannot_be_evaluated(place: Path) -> None:
    assert "nothing" in refused("evaluate", place / "nothing.csv")
    write_table(table(rows=6).drop_columns(["none"]), place / "small.csv")
    done = hhvaem("evaluate", place / "small.csv", *FAST)
    assert done.returncode == 1
    assert "too small to hide anything" in " ".join(done.stderr.split())
    assert "would be lost" in refused("evaluate", place / "a.csv", "--out", place / "a.csv")
    (place / "twice.csv").write_text("a,b,a\n1,2,3\n" * 9)
    assert "'a'" in refused("evaluate", place / "twice.csv")


def test_long_names_of_columns_are_cut() -> None:
    name = "[b]" + 3_000 * "x"
    verdict = Verdict(name, "real", 100, "trust", 0.5, 1.0, 0.9, 0.9, None)
    console = Console(file=io.StringIO(), width=120)
    console.print(_verdicts(SimpleNamespace(verdicts=[verdict])))  # type: ignore[arg-type]
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert len(lines) == 3
    assert lines[2].startswith("[b]" + 34 * "x" + "... ")
