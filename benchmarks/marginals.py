"""How well column models describe rows they have not seen, on the paper's ten tables.

    python benchmarks/marginals.py            run, write results/marginals.json and the docs' table
    python benchmarks/marginals.py --render   write the docs' table from the results

Three models of each column: a Gaussian (levels: their frequencies), the Gaussianising transform,
the paper's marginal VAE. The log score of a column in which values repeat is the log mass of the
interval that rounds to the value (half way to the neighbouring training values; beyond the last,
as wide as on the other side), else the log density; levels have their log probability. CRPS is in
standard deviations of the training rows.
"""

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
from documents import write_block
from scipy import stats

from hhvaem import __version__, evaluate
from hhvaem.datasets import load
from hhvaem.datasets.work import plan
from hhvaem.encoding import Encoding, gaussianised_encoding, standardised_encoding
from hhvaem.inference import infer_schema
from hhvaem.marginal_vae import train_marginal_vaes
from hhvaem.marginals import Direct, Marginals, base_log_prob, base_sample, marginal_log_prob
from hhvaem.mixtures import rounding_interval
from hhvaem.schema import LEVELLED, Column
from hhvaem.table import encode

ROOT = Path(__file__).parents[1]
RESULTS, DOCS = ROOT / "results" / "marginals.json", ROOT / "docs" / "column-models.md"
TABLES = (
    "bank", "insurance", "avocado", "naval", "yacht",
    "diabetes", "concrete", "wine", "energy", "boston",
)  # fmt: skip
MODELS = ("gaussian", "gaussianised", "vae")
FOLDS, SEED, DRAWS = 3, 0, 2000


def crps(draws: np.ndarray, x: np.ndarray) -> float:
    """Score the draws of a column, which are the same for all its cells."""
    return float(evaluate.crps(np.broadcast_to(draws[:, None], (draws.size, x.size)), x).mean())


def intervals(train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    ends = [rounding_interval(test[:, j], np.unique(train[:, j])) for j in range(test.shape[1])]
    low, high = zip(*ends, strict=True)
    return np.stack(low, 1), np.stack(high, 1)


def model_scores(
    encoding: Encoding, marginals: Marginals, train: np.ndarray, test: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Give the log score of each cell by both rules: with a density, and of an interval."""
    mask = np.ones(test.shape, bool)
    density = marginal_log_prob(encoding, marginals, test, mask)
    mass = base_log_prob(marginals, encoding.encode_intervals(*intervals(train, test)))
    return density, np.asarray(mass, float)


def gaussian_scores(
    columns: tuple[Column, ...], train: np.ndarray, test: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    low, high = intervals(train, test)
    density, mass, draws = (
        np.empty(test.shape),
        np.empty(test.shape),
        np.empty((DRAWS, len(columns))),
    )
    for j, column in enumerate(columns):
        if column.kind in LEVELLED:
            counts = np.bincount(train[:, j].astype(int), minlength=len(column.levels)) + 0.5
            density[:, j] = np.log(counts / counts.sum())[test[:, j].astype(int)]
            mass[:, j], draws[:, j] = np.nan, 0.0
            continue
        law = stats.norm(train[:, j].mean(), train[:, j].std())
        density[:, j] = law.logpdf(test[:, j])
        left = np.maximum(law.cdf(high[:, j]) - law.cdf(low[:, j]), 0)
        right = np.maximum(law.sf(low[:, j]) - law.sf(high[:, j]), 0)
        # In the far tail the mass is that of a density in the middle times the width.
        with np.errstate(divide="ignore"):
            mass[:, j] = np.log(np.maximum(np.maximum(left, right), 1e-300))
        draws[:, j] = law.ppf((np.arange(DRAWS) + 0.5) / DRAWS)
    return density, mass, draws


def run_table(name: str) -> list[dict[str, Any]]:
    dataset = load(name)
    schema = infer_schema(dataset.table, dataset.kinds)
    values, mask = encode(dataset.table, schema)
    assert mask.all(), f"{name} has holes"
    work = plan(dataset, SEED)
    folds = [(values[work.train_rows(f)], values[work.test_rows(f)]) for f in range(FOLDS)]
    return run_folds(name, schema.modelled, folds)


def run_made_up() -> list[dict[str, Any]]:
    """Two columns no Gaussian can describe: two narrow modes, and an atom beside a continuum."""
    rng = np.random.default_rng(SEED)
    rows = 1000
    values = np.stack(
        [
            np.where(rng.random(2 * rows) < 0.5, -1.0, 1.0) + 0.02 * rng.normal(size=2 * rows),
            np.where(rng.random(2 * rows) < 0.73, 0.0, rng.gamma(2.0, 15.0, 2 * rows)),
        ],
        axis=1,
    )
    columns = (Column("two narrow modes", "real"), Column("73 % zeros", "positive", lower=0.0))
    return run_folds("made up", columns, [(values[:rows], values[rows:])])


def run_folds(
    name: str, columns: tuple[Column, ...], folds: list[tuple[np.ndarray, np.ndarray]]
) -> list[dict[str, Any]]:
    records = []
    for fold, (train, test) in enumerate(folds):
        complete = np.ones(train.shape, bool)
        started = time.perf_counter()
        gaussianised = gaussianised_encoding(columns, train, complete)
        direct = Direct.fit(gaussianised, train, complete)
        seconds = {"gaussian": 0.0, "gaussianised": time.perf_counter() - started}
        started = time.perf_counter()
        standardised = standardised_encoding(columns, train, complete)
        vaes, _ = train_marginal_vaes(standardised, train, complete, key=jax.random.key(fold))
        seconds["vae"] = time.perf_counter() - started
        key = jax.random.key(100 + fold)
        scores = {"gaussian": gaussian_scores(columns, train, test)}
        pairs: dict[str, tuple[Encoding, Marginals]] = {
            "gaussianised": (gaussianised, direct),
            "vae": (standardised, vaes),
        }
        for model, pair in pairs.items():
            draws = pair[0].decode(np.asarray(base_sample(pair[1], DRAWS, key=key)))
            scores[model] = (*model_scores(*pair, train, test), draws)
        for j, column in enumerate(columns):
            if column.kind in LEVELLED:
                rule = "level"
            else:
                rule = "mass" if np.unique(train[:, j]).size < len(train) else "density"
            for model, (density, mass, draws) in scores.items():
                ordered = column.kind not in LEVELLED
                scale = train[:, j].std() or 1.0
                records.append(
                    {
                        "table": name,
                        "column": column.name,
                        "kind": column.kind,
                        "fold": fold,
                        "model": model,
                        "rule": rule,
                        "cells": len(test),
                        "log_score": float((mass if rule == "mass" else density)[:, j].mean()),
                        "crps": crps(draws[:, j], test[:, j]) / scale if ordered else None,
                        "fit_seconds_table": round(seconds[model], 3),
                    }
                )
        print(name, fold, {m: round(s, 1) for m, s in seconds.items()}, flush=True)
    return records


def by_table(records: list[dict[str, Any]], table: str, key: str) -> dict[str, float]:
    """Average over folds and cells of a column, then over columns."""
    means = {}
    for model in MODELS:
        columns: dict[str, list[float]] = {}
        for record in records:
            if record["table"] == table and record["model"] == model and record[key] is not None:
                columns.setdefault(record["column"], []).append(record[key])
        means[model] = float(np.mean([np.mean(scores) for scores in columns.values()]))
    return means


def column_means(records: list[dict[str, Any]], table: str, model: str) -> dict[str, float]:
    scores: dict[str, list[float]] = {}
    for record in records:
        if record["table"] == table and record["model"] == model:
            scores.setdefault(record["column"], []).append(record["log_score"])
    return {column: float(np.mean(values)) for column, values in scores.items()}


def render(content: dict[str, Any]) -> str:
    records = content["records"]
    lacking = set(TABLES) - {record["table"] for record in records}
    if lacking:
        raise SystemExit(f"{RESULTS.name} has no {', '.join(sorted(lacking))}: run all tables.")
    lines = [
        "| table | columns | Gaussian | Gaussianised | VAE | worse than Gaussian "
        "| CRPS Gaussian | CRPS Gaussianised | CRPS VAE |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for table in (*TABLES, "made up"):
        score, error = by_table(records, table, "log_score"), by_table(records, table, "crps")
        plain = column_means(records, table, "gaussian")
        ours = column_means(records, table, "gaussianised")
        worse = [plain[c] - ours[c] for c in plain if ours[c] < plain[c] - 1e-6]
        said = f"{len(worse)}, at most by {max(worse):.3f}" if worse else "0"
        cells = [f"{score[m]:.3f}" for m in MODELS], [f"{error[m]:.4f}" for m in MODELS]
        lines.append(" | ".join([f"| {table}", str(len(plain)), *cells[0], said, *cells[1]]) + " |")
    single = [
        f"| {column} | " + " | ".join(f"{scores[column]:.3f}" for scores in made) + " |"
        for made in [[column_means(records, "made up", m) for m in MODELS]]
        for column in made[0]
    ]
    lines += [
        "",
        "| made-up column | Gaussian | Gaussianised | VAE |",
        "|---|---|---|---|",
        *single,
    ]
    lines += ["", f"{content['device']}; hhvaem {content['version']}, JAX {content['jax']}."]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--render", action="store_true")
    parser.add_argument("--tables", nargs="*", default=TABLES)
    options = parser.parse_args()
    if not options.render:
        records = run_made_up()
        for table in options.tables:
            records += run_table(table)
        content = {
            "version": __version__,
            "jax": jax.__version__,
            "device": f"{os.cpu_count()} CPU cores",
            "seed": SEED,
            "records": records,
        }
        RESULTS.write_text(json.dumps(content, indent=1) + "\n")
    write_block(DOCS, "marginals", render(json.loads(RESULTS.read_text())))


if __name__ == "__main__":
    main()
