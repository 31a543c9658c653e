"""`hhvaem data` as it is typed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hhvaem.datasets import CATALOGUE

COMMAND = Path(sys.executable).with_name("hhvaem")


@pytest.fixture
def run(tmp_path):
    """The command in an environment that has nothing of the caller's data and cache."""
    own = {"COLUMNS": "80", "HHVAEM_DATA": "", "XDG_CACHE_HOME": str(tmp_path / "cache")}

    def run(*arguments, command=(COMMAND,), **more):
        return subprocess.run(
            [*command, "data", *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, **own, **more},
        )

    return run


def test_list_fits_a_terminal(run):
    result = run("list")
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in result.stdout
    for name in CATALOGUE:
        (line,) = (line for line in lines if line.split()[0] == name)
        assert line.split()[-1] == {"wine": "yes", "diabetes": "part"}.get(name, "no")
    assert "Not here of diabetes: diabetes/diabetes_data.csv." in lines


def test_list_for_programs(run):
    sets = json.loads(run("list", "--json").stdout)
    assert [each["name"] for each in sets] == list(CATALOGUE)
    by_name = {each["name"]: each for each in sets}
    yacht, diabetes, wine = (by_name[name] for name in ("yacht", "diabetes", "wine"))
    assert (yacht["rows"], yacht["columns"], yacht["targets"]) == (308, 7, ["resistance"])
    assert (yacht["here"], yacht["missing"]) == ("no", ["yacht/yacht_hydrodynamics.data"])
    # Scikit-learn has what load("diabetes") takes, but not the scaled form.
    assert (diabetes["here"], diabetes["missing"]) == ("part", ["diabetes/diabetes_data.csv"])
    assert (wine["here"], wine["missing"]) == ("yes", [])


def test_list_says_what_is_here(run, data_folder):
    sets = json.loads(run("list", "--json", "--folder", str(data_folder)).stdout)
    assert {each["here"] for each in sets} == {"yes"}


def test_fetch(run, tmp_path):
    result = run("fetch", "wine", "--folder", str(tmp_path), "--json")
    assert result.returncode == 0, result.stderr
    path = tmp_path / "wine/wine_data.csv"
    assert json.loads(result.stdout) == [{"name": "wine", "files": [str(path)]}]
    assert path.is_file()
    again = run("fetch", "wine", "--folder", str(tmp_path))
    assert again.stdout == f"wine is here:\n  {path}\n"


def test_fetch_goes_to_the_cache(run, tmp_path):
    assert run("fetch", "wine").returncode == 0
    assert (tmp_path / "cache/hhvaem/wine/wine_data.csv").is_file()


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (["wine", "yatch"], "There is no data set 'yatch'; did you mean yacht?"),
        (["nosuch"], "There is no data set 'nosuch'; there are bank, insurance,"),
        (["celeba"], "CelebA may not be passed on: obtain"),
    ],
)
def test_one_sentence_and_nothing_fetched(run, tmp_path, names, sentence):
    result = run("fetch", *names)
    assert result.returncode == 1
    assert result.stdout == ""
    assert result.stderr.startswith(f"Error: {sentence}")
    assert len(result.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "cache").exists()


def test_attempts_are_shown_without_a_terminal(run, tmp_path):
    hurried = "import time; time.sleep = id; from hhvaem.cli import main; main()"
    offline = {"https_proxy": "http://127.0.0.1:9", "no_proxy": ""}
    result = run("fetch", "boston", command=(sys.executable, "-c", hurried), **offline)
    assert result.returncode == 1
    *attempts, error = result.stderr.splitlines()
    assert len(attempts) == 2 * 4
    assert attempts[0].startswith("https://raw.githubusercontent.com/")
    assert attempts[0].endswith("/housing.data: Connection refused; attempt 2 of 4 in 1 s.")
    assert "https://" not in error
    assert str(tmp_path / "cache/hhvaem/boston/housing.data") in error
