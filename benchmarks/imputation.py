"""What each posterior buys and costs on the paper's tables, and how honest its intervals are.

    HHVAEM_DATA=folder python benchmarks/imputation.py

Hides 30 % of the cells of each table (at most 2,000 rows of it), fits the default preset, and fills
them by chains, by the encoder alone and by importance weights, with the same fitted model. Writes
results/imputation.json, table by table, and the table of docs/fill.md; `--write` does only that.
"""

import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from documents import write_block

from hhvaem import encode, fitting, infer_schema
from hhvaem.datasets import load
from hhvaem.fitting import Fitted
from hhvaem.posterior import POSTERIORS, Posterior
from hhvaem.preparing import Part
from hhvaem.presets import PRESETS
from hhvaem.schema import LEVELLED

ROOT = Path(__file__).parents[1]
RESULTS, DOCS = ROOT / "results" / "imputation.json", ROOT / "docs" / "fill.md"
TABLES = (
    "bank", "insurance", "avocado", "naval", "yacht", "diabetes", "concrete", "wine", "energy",
    "boston",
)  # fmt: skip
ROWS, HIDDEN = 2_000, 0.3


def measured(name: str) -> dict[str, Any]:
    """Fit one table and fill it in each way."""
    data = load(name)
    schema = infer_schema(data.table, data.kinds)
    values, mask = encode(data.table, schema)
    rng = np.random.default_rng(0)
    rows = rng.permutation(len(values))[:ROWS]
    values, mask = values[rows], mask[rows]
    hidden = mask & (rng.random(mask.shape) < HIDDEN)
    started = time.perf_counter()
    part = Part(schema.modelled, np.where(hidden, np.nan, values), mask & ~hidden)
    fitted = fitting.fit(part, None, PRESETS["default"])
    seconds = time.perf_counter() - started
    found: dict[str, Any] = {way: filled(fitted, part, values, hidden, way) for way in POSTERIORS}
    return {"rows": len(values), "columns": values.shape[1], "fit_seconds": seconds, **found}


def filled(
    fitted: Fitted, part: Part, truth: np.ndarray, hidden: np.ndarray, posterior: Posterior
) -> dict[str, float]:
    """Fill the hidden cells by one posterior, and compare with what was there."""
    how = replace(fitted.plan.how, posterior=posterior, chains=20 // fitted.members)
    # Once before, so that no compilation is timed.
    next(iter(fitted.laws(part.values, part.mask, how)))
    rng = np.random.default_rng(1)
    errors: list[list[float]] = [[] for _ in part.columns]
    places, held, seconds = [], [], 0.0
    started = time.perf_counter()
    for rows, law, _ in fitted.laws(part.values, part.mask, how):
        seconds += time.perf_counter() - started
        for j, column in enumerate(part.columns):
            at = np.flatnonzero(hidden[rows, j])
            value = truth[rows, j][at]
            guess = law.filled(j, at)
            if column.kind in LEVELLED:
                errors[j] += (guess != value).tolist()
                continue
            errors[j] += ((guess - value) ** 2).tolist()
            low, high = law.ranks(j, at, value)
            places.append(low + (high - low) * rng.random(at.size))
            ends = [law.quantile(j, at, q) for q in (0.05, 0.95)]
            held.append((ends[0] <= value) & (value <= ends[1]))
        started = time.perf_counter()
    scores = []
    for j, column in enumerate(part.columns):
        if not errors[j]:
            continue
        mean = float(np.mean(errors[j]))
        spread = np.nanstd(np.where(part.mask[:, j] | hidden[:, j], truth[:, j], np.nan))
        scores.append(mean if column.kind in LEVELLED else float(np.sqrt(mean) / spread))
    place = np.concatenate(places)
    return {
        "error": float(np.mean(scores)),
        "cells": int(place.size),
        "coverage50": float((np.abs(place - 0.5) < 0.25).mean()),
        "coverage90": float((np.abs(place - 0.5) < 0.45).mean()),
        "plain_coverage90": float(np.concatenate(held).mean()),
        "seconds_per_1000_rows": 1000 * seconds / len(truth),
    }


def table(results: dict[str, Any]) -> str:
    """Lay out errors, coverage and seconds."""
    heads = [
        "",
        *(f"error, `{way}`" for way in POSTERIORS),
        *(f"90 %, `{way}`" for way in POSTERIORS),
    ]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for name, told in results.items():
        errors = [f"{told[way]['error']:.3f}" for way in POSTERIORS]
        shares = [f"{told[way]['coverage90']:.3f}" for way in POSTERIORS]
        lines.append("| " + " | ".join([name, *errors, *shares]) + " |")
    seconds = [
        f"{np.median([told[way]['seconds_per_1000_rows'] for told in results.values()]):.2f} s"
        for way in POSTERIORS
    ]
    lines.append("| 1,000 rows take | " + " | ".join([*seconds, "", "", ""]) + " |")
    return "\n".join(lines)


def main() -> None:
    """Measure what is not there yet, and write the table."""
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in TABLES if "--write" not in sys.argv else ():
        if name not in results:
            results[name] = measured(name)
            print(name, results[name], flush=True)
            RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    write_block(DOCS, "imputation", table(results))


if __name__ == "__main__":
    main()
