"""How long asking takes: a roll-out of Boston's test rows, and one question of a session.

    HHVAEM_DATA=folder python benchmarks/acquisition.py
    python benchmarks/acquisition.py --write

Fits a default `Regressor` to all but the first 51 rows of Boston, and rolls these out from nothing
known, as often as `REPETITIONS` says, after a first time that compiles. Then sessions about the
first rows, with that model and with a default `Classifier` of 2,000 rows of insurance (85 columns):
every `ask` and every `tell` is timed but those of the first session, which compile. Writes
results/acquisition.json and the table of docs/ask.md; `--write` does only the latter.
"""

import json
import os
import platform
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
from documents import write_block

from hhvaem import Classifier, Regressor, Session
from hhvaem.acquire.rollout import roll_out
from hhvaem.datasets import Dataset, load
from hhvaem.paper.records import versions
from hhvaem.posterior import How
from hhvaem.table import encode

ROOT = Path(__file__).parents[1]
RESULTS, DOCS = ROOT / "results" / "acquisition.json", ROOT / "docs" / "ask.md"
ROWS, REPETITIONS = 51, 3
# By each of the five members of a default model: 200 draws of the latents in all.
HOW = How("hmc", chains=8, kept=5)
# Of sessions: training rows at most, cases, and questions about each.
TRAINED, CASES, QUESTIONS = 2_000, 3, 10


def fitted(dataset: Dataset, estimator: type[Regressor] | type[Classifier]) -> Any:
    """Fit all but the first rows."""
    inputs = dataset.table.select(list(dataset.inputs)).slice(ROWS, TRAINED)
    target = dataset.table[dataset.targets[0]].slice(ROWS, TRAINED).to_numpy()
    return estimator(random_state=0).fit(inputs, target)


def rollout(model: Regressor, dataset: Dataset) -> dict[str, Any]:
    """Roll out the test rows several times."""
    values, mask = encode(dataset.table.select(list(dataset.inputs)).slice(0, ROWS), model.schema_)
    truth = dataset.table[dataset.targets[0]].slice(0, ROWS).to_numpy().astype(np.float64)[:, None]
    assert model.fitted_ is not None
    found = [
        roll_out(model.fitted_, values, mask, truth, policy="grid", how=HOW)
        for _ in range(REPETITIONS)
    ]
    return {
        "table": dataset.name,
        "rows": ROWS,
        "steps": len(found[0].unavailable),
        "draws": 5 * HOW.chains * HOW.kept,
        "policy": found[0].policy,
        "seconds": summary([sum(each.seconds) for each in found]),
        "error": [round(each[0], 3) for each in found[0].error],
    }


def sessions(model: Regressor | Classifier, dataset: Dataset) -> dict[str, Any]:
    """Answer the questions of a session about each of some rows."""
    rows = dataset.table.select(list(dataset.inputs)).slice(0, CASES + 1).to_pylist()
    ask, tell = [], []
    for i, row in enumerate(rows):
        session = Session(model)
        for _ in range(QUESTIONS):
            started = time.perf_counter()
            question = session.ask()
            asked = time.perf_counter()
            assert question is not None
            session.tell(question.name, row[question.name])
            if i:
                ask.append(asked - started)
                tell.append(time.perf_counter() - asked)
    return {
        "table": dataset.name,
        "columns": len(dataset.inputs),
        "draws": session.draws,
        "ask": summary(ask),
        "tell": summary(tell),
    }


def summary(seconds: list[float]) -> dict[str, float]:
    return {
        "median": round(statistics.median(seconds), 4),
        "least": round(min(seconds), 4),
        "most": round(max(seconds), 4),
        "times": len(seconds),
    }


def machine() -> str:
    device = jax.devices()[0]
    if device.platform != "cpu":
        return str(device.device_kind)
    return f"{len(os.sched_getaffinity(0))} {platform.machine()} CPU cores"


def measured() -> dict[str, Any]:
    boston, insurance = load("boston"), load("insurance")
    model = fitted(boston, Regressor)
    return {
        "machine": machine(),
        "rollout": rollout(model, boston),
        "sessions": [sessions(model, boston), sessions(fitted(insurance, Classifier), insurance)],
        "versions": versions(),
    }


def table(runs: list[dict[str, Any]]) -> str:
    lines = ["| machine | what | seconds, median (least to most) |", "|---|---|---|"]
    for run in runs:
        whole = run["rollout"]
        told = f"{whole['rows']} rows, {whole['steps']} columns, {whole['draws']} draws"
        lines.append(f"| {run['machine']} | roll-out: {told} | {spread(whole['seconds'])} |")
        for each in run["sessions"]:
            for name in ("ask", "tell"):
                what = f"`Session.{name}`: {each['columns']} columns, {each['draws']} draws"
                lines.append(f"| {run['machine']} | {what} | {spread(each[name])} |")
    return "\n".join(lines)


def spread(seconds: dict[str, float]) -> str:
    return "{median:.3g} ({least:.3g} to {most:.3g})".format(**seconds)


def main() -> None:
    runs = json.loads(RESULTS.read_text())["runs"] if RESULTS.exists() else []
    if "--write" not in sys.argv:
        record = measured()
        # One record for each machine.
        runs = [*(each for each in runs if each["machine"] != record["machine"]), record]
        runs.sort(key=lambda each: str(each["machine"]))
        RESULTS.write_text(json.dumps({"runs": runs}, indent=1) + "\n")
    write_block(DOCS, "acquisition", table(runs))


if __name__ == "__main__":
    main()
