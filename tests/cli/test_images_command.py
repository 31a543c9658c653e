"""`hhvaem paper images` and `hhvaem paper inpainting` as they are typed."""

import json
from pathlib import Path
from typing import Any

import pytest
from commands import hhvaem, refused
from rich.console import Console

from hhvaem.cli.images import SHOWN, _means
from hhvaem.cli.places import prepare
from hhvaem.errors import InputError


@pytest.mark.parametrize("command", ["images", "inpainting"])
def test_names_that_are_none(command: str, tmp_path: Path) -> None:
    def told(*arguments: Any) -> str:
        return refused("paper", command, "--out", tmp_path, *arguments)

    assert "no set of images 'mnits' in the paper; did you mean 'mnist'?" in told("--data", "mnits")
    assert "There is no model 'HHVAE' in the paper; did you mean" in told("--models", "HHVAE")
    assert "No set of images is named; there are 'mnist'" in told("--data", "none")
    assert "No model is named; there are 'VAE'" in told("--models", "none")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["images", "inpainting"])
def test_sets_that_are_not_there(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HHVAEM_DATA", str(tmp_path / "nowhere"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    told = refused("paper", command, "--data", "mnist", "--out", tmp_path / "out")
    assert "'mnist'" in told


def test_files_of_other_commands_are_not_written_over(tmp_path: Path) -> None:
    for command, content, theirs in (
        ("images", {"records": []}, True),
        ("tables", {"images": {}, "records": []}, True),
        ("images", {"variants": []}, True),
        ("images", {"images": {}, "records": []}, False),
        ("inpainting", {"inpainting": {}}, False),
        ("inpainting", {"images": {}, "records": []}, True),
    ):
        path = tmp_path / "found.json"
        path.write_text(json.dumps(content))
        if theirs:
            with pytest.raises(InputError, match=r"results of another command|is no file that"):
                prepare(command, path, tmp_path)
        else:
            prepare(command, path, tmp_path)


def test_each_model_has_lines_of_its_own() -> None:
    scores = {prefix + score: 0.123 for score in SHOWN for prefix in ("", "official_")}
    names = ("HH-VAE", "HMC-VAE by the encoder", "HMC-VAE by the default sampler")
    console = Console(width=80)
    with console.capture() as captured:
        console.print(_means([{"table": "mnist", "model": name, **scores} for name in names]))
    lines = captured.get().splitlines()
    for name in ("HH-VAE ", "HMC-VAE, encoder ", "HMC-VAE, default "):
        assert [line.split()[-6:] for line in lines if line.startswith(name)] == [["0.123"] * 6] * 2
    # A head, a rule, the set, two lines of each and one of the paper's.
    assert len([line for line in lines if line.strip()]) == 3 + 6 + 1


@pytest.mark.slow
def test_a_short_run_is_whole_and_not_made_again(data_folder: Path, tmp_path: Path) -> None:
    command = ("paper", "images", "--quick", "--models", "VAE", "--out", tmp_path)
    done = hhvaem(*command)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "images.json").read_text())
    assert found["images"]["mnist"]["pixels"].startswith("1 where a byte is above 128")
    (record,) = found["records"]
    assert (record["table"], record["model"], record["images"]) == ("mnist", "VAE", 40)
    assert 0 < record["paper_nll_missing"] < 0.7
    assert record["official_images"] == 40
    before = (tmp_path / "images" / "mnist-VAE.json").read_bytes()
    assert "mnist: VAE" not in hhvaem(*command).stdout
    assert (tmp_path / "images" / "mnist-VAE.json").read_bytes() == before
    # Its training is taken as it is.
    done = hhvaem(
        "paper", "inpainting", "--quick", "--models", "VAE", "--out", tmp_path,
        "--work", tmp_path / "images-work",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "inpainting-mnist.png").exists()
    told = json.loads((tmp_path / "inpainting.json").read_text())["inpainting"]["mnist"]
    assert told["trained"] == 200
    assert told["hole"] == 14
