"""Run all of the paper's experiments with tables, several commands at once on one GPU.

    nvidia-cuda-mps-control -d    # lets processes share the GPU; without it they take turns
    HHVAEM_DATA=folder python benchmarks/paper.py --at-once 10

Small networks leave most of a GPU idle, and compiling leaves it idle altogether: commands side by
side take a fraction of the time that they take one after the other. What is in results/paper
already is not run again, so that a run that was stopped goes on. What commands print goes to
`--logs`.
"""

import argparse
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from hhvaem.paper.folds import PUBLISHED
from hhvaem.paper.saia import TABLES as ASKED

RESULTS = Path(__file__).parents[1] / "results"
# Those with most steps first, each model by itself: what is begun last should be short.
LARGE = ("bank", "insurance", "avocado", "naval")
SMALL = tuple(name for name in PUBLISHED if name not in LARGE)
MAIN = "from hhvaem.cli import main; main()"


def jobs() -> dict[str, list[str]]:
    """Give the commands by name, in the order in which they are begun."""
    paper, own = str(RESULTS / "paper"), str(RESULTS / "paper-own-kinds")

    def tables(table: str, models: str, *more: str, out: str = paper) -> list[str]:
        return ["tables", "--data", table, "--models", models, "--out", out, *more]

    curves = ["--results", f"{paper}/curves.json", "--out", paper]
    return {
        **{f"{t}-{m}": tables(t, m) for m in ("HH-VAEM", "HMC-VAEM") for t in LARGE},
        **{f"{t}-{m}": tables(t, m) for m in ("HH-VAEM", "HMC-VAEM") for t in SMALL},
        **{f"{t}-others": tables(t, "VAEM,MIWAEM,H-VAEM") for t in (*LARGE, *SMALL)},
        **{f"{t}-saia": ["saia", "--data", t, "--out", paper] for t in ASKED},
        "curves": ["curves", "--data", "boston", "--splits", "3", *curves],
        **{f"{t}-ablations": tables(t, "none", "--ablations") for t in SMALL},
        **{
            f"{t}-own-kinds": tables(t, "VAEM,HH-VAEM", "--own-kinds", out=own)
            for t in (*LARGE, *SMALL)
        },
    }


def run(logs: Path, began: float, name: str, command: list[str]) -> int:
    """Run one of the commands, and say when it began and ended."""
    # A process takes what memory it needs, and not most of the GPU from the start.
    env = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    print(f"{time.monotonic() - began:7.1f} s  {name} begins", flush=True)
    with (logs / f"{name}.log").open("w") as log:
        told = subprocess.run(
            [sys.executable, "-c", MAIN, "paper", *command],
            env=env, stdout=log, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
    ends = "ends" if told.returncode == 0 else f"failed with status {told.returncode}"
    print(f"{time.monotonic() - began:7.1f} s  {name} {ends}", flush=True)
    return told.returncode


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--at-once", type=int, default=10)
    parser.add_argument("--logs", type=Path, default=Path("logs"))
    parser.add_argument("--only", default="", help="what the names of commands have in them")
    given = parser.parse_args()
    given.logs.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    with ThreadPoolExecutor(given.at_once) as pool:
        wanted = {name: command for name, command in jobs().items() if given.only in name}
        codes = pool.map(partial(run, given.logs, began), wanted, wanted.values())
        sys.exit(max(codes, default=0))


if __name__ == "__main__":
    main()
