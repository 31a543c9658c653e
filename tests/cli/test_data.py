"""`hhvaem data` as it is typed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hhvaem.datasets import CATALOGUE

COMMAND = Path(sys.executable).with_name("hhvaem")


def run(*arguments, **environment):
    return subprocess.run(
        [COMMAND, "data", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "COLUMNS": "80", **environment},
    )


@pytest.fixture
def nowhere(tmp_path):
    return {"HHVAEM_DATA": "", "XDG_CACHE_HOME": str(tmp_path / "cache")}


def test_list_fits_a_terminal(nowhere):
    result = run("list", **nowhere)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in result.stdout
    for name in CATALOGUE:
        (line,) = (line for line in lines if line.split()[0] == name)
        assert line.rstrip().endswith("yes" if name == "wine" else "no")


def test_list_for_programs(nowhere):
    sets = json.loads(run("list", "--json", **nowhere).stdout)
    assert [each["name"] for each in sets] == list(CATALOGUE)
    yacht = next(each for each in sets if each["name"] == "yacht")
    assert (yacht["rows"], yacht["columns"], yacht["targets"]) == (308, 7, ["resistance"])
    assert yacht["here"] is False


def test_list_says_what_is_here(data_folder):
    sets = json.loads(run("list", "--json", "--folder", str(data_folder)).stdout)
    assert all(each["here"] for each in sets)


def test_fetch(nowhere, tmp_path):
    result = run("fetch", "wine", "--folder", str(tmp_path), "--json", **nowhere)
    assert result.returncode == 0, result.stderr
    path = tmp_path / "wine/wine_data.csv"
    assert json.loads(result.stdout) == [{"name": "wine", "files": [str(path)]}]
    assert path.is_file()
    again = run("fetch", "wine", "--folder", str(tmp_path), **nowhere)
    assert again.stdout == f"wine is here:\n  {path}\n"


def test_fetch_goes_to_the_cache(nowhere, tmp_path):
    assert run("fetch", "wine", **nowhere).returncode == 0
    assert (tmp_path / "cache/hhvaem/wine/wine_data.csv").is_file()


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (["wine", "yatch"], "There is no data set 'yatch'; did you mean yacht?"),
        (["nosuch"], "There is no data set 'nosuch'; there are bank, insurance,"),
        (["celeba"], "CelebA may not be passed on: obtain"),
    ],
)
def test_one_sentence_and_nothing_fetched(nowhere, tmp_path, names, sentence):
    result = run("fetch", *names, **nowhere)
    assert result.returncode == 1
    assert result.stdout == ""
    assert result.stderr.startswith(f"Error: {sentence}")
    assert len(result.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "cache").exists()
