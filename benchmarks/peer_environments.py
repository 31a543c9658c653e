"""The peers of benchmarks/peers.py, and the environments that they run in."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
RUNNERS, ENVIRONMENTS = ROOT / "benchmarks" / "peers", ROOT / ".peers"
# Seconds that a fit may take.
TIMEOUT = 1_800


class Peer(NamedTuple):
    """How an imputer is run.

    Parameters
    ----------
    runner
        The script in benchmarks/peers.
    pins
        The environment it needs, by the name of its pins; none for what needs no other package.
    draws
        Whether it draws.
    new_rows
        Whether it fills rows that it has not learned from.
    """

    runner: str
    pins: str | None = None
    draws: bool = False
    new_rows: bool = True


OURS = "hhvaem"
IMPUTERS = {
    OURS: Peer("fill_here", draws=True),
    "mean": Peer("fill_here"),
    "knn": Peer("fill_here"),
    "ridge": Peer("fill_here"),
    "ridge-draws": Peer("fill_here", draws=True),
    "missforest": Peer("fill_here"),
    "miceforest": Peer("fill_miceforest", "miceforest", draws=True),
    "hyperimpute": Peer("fill_hyperimpute", "hyperimpute", new_rows=False),
    "gcimpute": Peer("fill_gcimpute", "gcimpute", draws=True),
    "midas": Peer("fill_midas", "midas", draws=True),
    "mice-cart": Peer("fill_mice", draws=True),
}
# What ours must not be worse than: by which score.
RIVALS = {"score": "missforest", "crps": "mice-cart"}


def python_of(name: str) -> Path:
    """Give the Python of a peer, whose environment is built if it is not there.

    Raises
    ------
    SystemError
        Where it cannot be built.
    """
    peer = IMPUTERS[name]
    if name == "mice-cart":
        asked = ["Rscript", "-e", "library(mice); library(rpart)"]
        if not shutil.which("Rscript") or subprocess.run(asked, capture_output=True).returncode:
            raise SystemError("R lacks mice or rpart (Debian: r-cran-mice and r-cran-rpart)")
    if peer.pins is None:
        return Path(sys.executable)
    folder, pins = ENVIRONMENTS / peer.pins, RUNNERS / f"{peer.pins}.txt"
    ready, python = folder / "ready", folder / "bin" / "python"
    if ready.exists() and ready.read_text() == pins.read_text():
        return python
    print(f"Building the environment of {name}.", flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
    # All pins are there; what a package says it needs may be more than it does.
    done = pip(python, "install", "--no-deps", "-r", pins)
    if done.returncode:
        raise SystemError(f"pip could not install its pins: {plain(done.stderr)}")
    ready.write_text(pins.read_text())
    return python


def pip(python: Path, *words: object) -> subprocess.CompletedProcess[str]:
    command = [python, "-m", "pip", "--quiet", "--disable-pip-version-check", *words]
    return subprocess.run([str(word) for word in command], capture_output=True, text=True)


def plain(said: str) -> str:
    """Give the last error that a program told, without places of the machine it ran on.

    Examples
    --------
    >>> plain("ValueError: bad file /some/where/a.csv")
    'ValueError: bad file ...'
    """
    lines = [line.strip() for line in said.strip().splitlines()]
    errors = [line for line in lines if re.match(r"(\w|\.)*(Error|Exception|ERROR)\b", line)]
    last = (errors or lines or ["nothing was said"])[-1]
    return re.sub(r"\w+://[^\s'\",)]+|(?<!\w)/[^\s'\",;:)]+", "...", last)[:200]
