"""Runs R's mice with trees (`method = "cart"`), all else as it is by default, by way of mice.R."""

import json
import resource
import subprocess
from pathlib import Path

import numpy as np
from exchange import Filled, Job, centre, serve, shown

LETTERS = {"binary": "f", "categorical": "f", "ordinal": "o"}


def fill(job: Job) -> Filled:
    extra = 0 if job.test is None else len(job.test)
    rows = job.train if job.test is None else np.concatenate([job.train, job.test])
    # Column after column, as R has them.
    rows.T.tofile(job.folder / "rows.bin")
    kinds = "".join(LETTERS.get(kind, "n") for kind in job.kinds)
    words = [job.folder, len(rows), extra, kinds, job.draws, job.seed]
    script = Path(__file__).with_name("mice.R")
    done = subprocess.run(
        ["Rscript", "--vanilla", script, *map(str, words)], stderr=subprocess.PIPE, text=True
    )
    if done.returncode:
        reason = done.stderr.split("Error")[-1].split("Calls:")[0]
        raise RuntimeError(f"Error{reason}".replace("\n", " "))
    made = np.fromfile(job.folder / "filled.bin").reshape(job.draws, len(kinds), len(rows))
    draws = made.transpose(0, 2, 1)[:, len(rows) - len(shown(job)) :]
    version, seconds = (job.folder / "mice.txt").read_text().split()
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e6
    said = {"version": version, "seconds": float(seconds), "peak_mb": peak}
    (job.folder / "told.json").write_text(json.dumps(said))
    return Filled(centre(job, draws), draws)


if __name__ == "__main__":
    serve("", fill)
