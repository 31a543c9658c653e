"""`hhvaem paper saia` as it is typed."""

import json
from pathlib import Path

import numpy as np
import pytest
from commands import hhvaem, refused

from hhvaem.paper.saia import LINES


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--data", "yatch"), "There is no table 'yatch' in the paper; did you mean 'yacht'?"),
        (("--data", "bank"), "There is no table 'bank' in the paper; there are 'avocado', "),
        (("--data", "none"), "No table is named; there are 'avocado', "),
    ],
)
def test_tables_that_are_not_in_the_figure(
    tmp_path: Path, options: tuple[str, ...], expected: str
) -> None:
    assert refused("paper", "saia", "--out", tmp_path / "new", *options).startswith(expected)
    assert not (tmp_path / "new").exists()


def test_a_folder_in_the_place_of_a_figure_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "saia-seconds.png").mkdir()
    said = refused("paper", "saia", "--data", "wine", "--out", tmp_path)
    assert "saia-seconds.png" in said


@pytest.mark.slow
def test_the_quick_command_and_the_same_again(tmp_path: Path) -> None:
    """Wine, which comes with scikit-learn."""
    command = ("paper", "saia", "--quick", "--data", "wine", "--out", tmp_path)
    done = hhvaem(*command, "--results", tmp_path / "numbers.json")
    assert (done.returncode, done.stderr) == (0, "")
    for name in ("saia.png", "saia-likelihood.png", "saia-seconds.png"):
        assert name in done.stdout
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
    (run,) = json.loads((tmp_path / "numbers.json").read_text())["tables"]
    assert (run["table"], run["draws"], run["measure"]) == ("wine", 40, "error rate")
    assert [record["fold"] for record in run["records"]] == [0, 1]
    for record in run["records"]:
        assert record["rows"] == 8
        assert tuple(record["lines"]) == tuple(LINES)
        for line in record["lines"].values():
            assert np.shape(line["error"]) == np.shape(line["seconds"]) == (3,)
            assert np.isfinite(line["log_likelihood"]).all()
        # One model, with nothing known: the same draws, whatever is asked for next.
        chained = [record["lines"][name]["error"][0] for name in LINES if "HH" in name]
        assert len(set(chained)) == 1
    again = hhvaem(*command)
    assert again.returncode == 0
    assert "columns of" not in again.stdout
    assert (tmp_path / "saia.json").read_text() == (tmp_path / "numbers.json").read_text()
