"""Seconds for stage 1 (the paper's marginal VAEs) of one table, compilation included.

    python benchmarks/stage1.py --table insurance

Each repetition is a fresh process, since a second training in the same one compiles nothing.
Writes results/stage1.json and the docs' figure.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from documents import write_block

ROOT = Path(__file__).parents[1]
RESULTS, DOCS = ROOT / "results" / "stage1.json", ROOT / "docs" / "column-models.md"
STEPS, BATCH, REPETITIONS = 1000, 100, 5


def once(table: str) -> dict[str, float]:
    import jax

    from hhvaem.datasets import load
    from hhvaem.encoding import standardised_encoding
    from hhvaem.inference import infer_schema
    from hhvaem.marginal_vae import train_marginal_vaes
    from hhvaem.table import encode

    dataset = load(table, as_published=True)
    inputs = dataset.table.select(dataset.inputs)
    schema = infer_schema(inputs, {name: dataset.kinds[name] for name in dataset.inputs})
    values, mask = encode(inputs, schema)
    seconds = []
    for seed in range(2):
        started = time.perf_counter()
        encoding = standardised_encoding(schema.modelled, values, mask)
        train_marginal_vaes(
            encoding, values, mask, key=jax.random.key(seed), steps=STEPS, batch_size=BATCH
        )
        seconds.append(time.perf_counter() - started)
    return {"columns": len(schema.modelled), "first": seconds[0], "again": seconds[1]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", default="insurance")
    parser.add_argument("--once", action="store_true", help="One repetition, printed as JSON.")
    options = parser.parse_args()
    if options.once:
        print(json.dumps(once(options.table)))
        return
    command = [sys.executable, __file__, "--once", "--table", options.table]
    runs = [
        json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        for _ in range(REPETITIONS)
    ]
    content = {"table": options.table, "steps": STEPS, "batch": BATCH, "cores": os.cpu_count()}
    content["runs"] = runs
    RESULTS.write_text(json.dumps(content, indent=1) + "\n")
    first, again = ([run[key] for run in runs] for key in ("first", "again"))
    text = (
        f"Stage 1 for the {runs[0]['columns']:.0f} columns of {options.table} ({STEPS} steps, "
        f"batch {BATCH}) takes {statistics.median(first):.1f} s on {os.cpu_count()} CPU cores with "
        f"compilation (median of {REPETITIONS} fresh processes, {min(first):.1f} to "
        f"{max(first):.1f} s), and {statistics.median(again):.1f} s once compiled "
        f"({min(again):.1f} to {max(again):.1f} s)."
    )
    write_block(DOCS, "stage1", text)
    print(text)


if __name__ == "__main__":
    main()
