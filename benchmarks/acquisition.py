"""How long asking for one cell after the other takes: a whole roll-out of Boston's test rows.

    python benchmarks/acquisition.py

Fits a default `Regressor` to all but the first 51 rows, and rolls these out from nothing known, as
often as `REPETITIONS` says, after a first time that compiles. Writes results/acquisition.json.
HHVAEM_DATA names the folder of the tables.
"""

import json
import os
import platform
import statistics
from pathlib import Path
from typing import Any

import jax
import numpy as np

from hhvaem import Regressor
from hhvaem.acquire.rollout import Rollout, roll_out
from hhvaem.datasets import load
from hhvaem.paper.records import versions
from hhvaem.posterior import How
from hhvaem.table import encode

RESULTS = Path(__file__).parents[1] / "results" / "acquisition.json"
ROWS, REPETITIONS = 51, 3
# By each of the five members of a default model: 200 draws of the latents in all.
HOW = How("hmc", chains=8, kept=5)


def rollouts() -> list[Rollout]:
    """Roll out the test rows several times."""
    boston = load("boston")
    inputs = boston.table.select(list(boston.inputs))
    target = boston.table[boston.targets[0]].to_numpy().astype(np.float64)
    model = Regressor(random_state=0).fit(inputs.slice(ROWS), target[ROWS:])
    values, mask = encode(inputs.slice(0, ROWS), model.schema_)
    fitted, truth = model.fitted_, target[:ROWS, None]
    assert fitted is not None
    return [
        roll_out(fitted, values, mask, truth, policy="grid", how=HOW) for _ in range(REPETITIONS)
    ]


def machine() -> str:
    device = jax.devices()[0]
    if device.platform != "cpu":
        return str(device.device_kind)
    return f"{len(os.sched_getaffinity(0))} {platform.machine()} CPU cores"


def measured() -> dict[str, Any]:
    found = rollouts()
    seconds = sorted(sum(each.seconds) for each in found)
    return {
        "machine": machine(),
        "table": "boston",
        "rows": ROWS,
        "steps": len(found[0].unavailable),
        "draws": 5 * HOW.chains * HOW.kept,
        "policy": found[0].policy,
        "seconds": {
            "median": round(statistics.median(seconds), 2),
            "least": round(seconds[0], 2),
            "most": round(seconds[-1], 2),
            "step": round(statistics.median(np.concatenate([x.seconds[:-1] for x in found])), 3),
        },
        "error": [round(each[0], 3) for each in found[0].error],
        "repetitions": REPETITIONS,
        "versions": versions(),
    }


def main() -> None:
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    record = measured()
    # One record for each machine.
    runs = [each for each in kept.get("rollout", []) if each["machine"] != record["machine"]]
    kept["rollout"] = sorted([*runs, record], key=lambda each: str(each["machine"]))
    RESULTS.write_text(json.dumps(kept, indent=1) + "\n")
    print(json.dumps(record["seconds"]))


if __name__ == "__main__":
    main()
