"""How well a target is predicted from inputs with holes, beside what people use today.

    HHVAEM_DATA=folder python benchmarks/prediction.py [--tables boston,wine] [--seeds 3]

Rows are split four to one, and 0, 30 or 50 % of all input cells are hidden at random in both parts
(at most 2,000 rows of each table). Our default `Regressor` or `Classifier` stands beside boosted
trees that take missing cells as they are, and beside forests and linear models after holes were
filled with the mean or by our default `Imputer`, which learns from the training inputs alone.
Writes results/prediction.json, record by record, goes on where it was, and prints means.
"""

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from hhvaem import Classifier, Imputer, Regressor, encode, infer_schema
from hhvaem.baselines import Task, mean
from hhvaem.datasets import load
from hhvaem.paper.records import versions, write_json
from hhvaem.schema import LEVELLED, Column

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "prediction.json"
PAPER = (
    "boston", "concrete", "energy", "wine", "yacht", "diabetes", "bank", "insurance", "avocado",
    "naval",
)  # fmt: skip
SHIPPED = {"breast cancer": load_breast_cancer, "iris": load_iris}
ROWS, RATES = 2_000, (0.0, 0.3, 0.5)
METHODS = (
    "hhvaem", "boosted trees", "forest, mean", "forest, hhvaem", "linear, mean", "linear, hhvaem",
)  # fmt: skip


class Problem(NamedTuple):
    """Inputs as numbers, levels by index, and one target."""

    columns: tuple[Column, ...]
    values: np.ndarray
    target: np.ndarray
    classes: bool


class Split(NamedTuple):
    """Training and test rows; NaN where a cell is hidden."""

    columns: tuple[Column, ...]
    train: np.ndarray
    test: np.ndarray
    target: np.ndarray
    truth: np.ndarray
    classes: bool
    seed: int


def problem(name: str) -> Problem:
    """Load a table; of several targets the first."""
    if name in SHIPPED:
        values, target = SHIPPED[name](return_X_y=True)
        columns = tuple(Column(f"x{j}", "real") for j in range(values.shape[1]))
        return Problem(columns, values, target, classes=True)
    data = load(name)
    schema = infer_schema(data.table, data.kinds)
    values, mask = encode(data.table, schema)
    places = {column.name: j for j, column in enumerate(schema.modelled)}
    chosen = [places[one] for one in data.inputs if one in places]
    at = places[data.targets[0]]
    known = mask[:, at]
    shown = np.where(mask, values, np.nan)[known]
    return Problem(
        tuple(schema.modelled[j] for j in chosen),
        shown[:, chosen],
        values[known, at],
        schema.modelled[at].kind in LEVELLED,
    )


def split(told: Problem, rate: float, seed: int) -> Split:
    """Divide the rows and hide cells."""
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(told.values))[:ROWS]
    values, target = told.values[rows], told.target[rows]
    values = np.where(rng.random(values.shape) < rate, np.nan, values)
    test = len(rows) // 5
    return Split(
        told.columns, values[test:], values[:test], target[test:], target[:test], told.classes, seed
    )


def ours(part: Split) -> np.ndarray:
    """Predict by our default."""
    if part.classes:
        model = Classifier(random_state=part.seed, kinds=_kinds(part.columns))
        return np.asarray(model.fit(part.train, part.target).predict_proba(part.test))
    regressor = Regressor(random_state=part.seed, kinds=_kinds(part.columns))
    return np.asarray(regressor.fit(part.train, part.target).predict(part.test))


def boosted(part: Split) -> np.ndarray:
    """Predict by trees that take missing cells as they are."""
    levelled = [column.kind == "categorical" for column in part.columns]
    cls = HistGradientBoostingClassifier if part.classes else HistGradientBoostingRegressor
    model = cls(categorical_features=levelled, random_state=part.seed)
    return _answer(model, part, part.train, part.test)


def forest(part: Split, fill: Callable[[Split], tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Predict by a forest on filled inputs."""
    cls = RandomForestClassifier if part.classes else RandomForestRegressor
    model = cls(n_estimators=300, random_state=part.seed, n_jobs=-1)
    return _answer(make_pipeline(_indicators(part.columns), model), part, *fill(part))


def linear(part: Split, fill: Callable[[Split], tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Predict by a linear model on filled inputs."""
    model: Any = RidgeCV(np.logspace(-3, 3, 13))
    if part.classes:
        model = LogisticRegression(max_iter=2000)
    steps = (_indicators(part.columns), StandardScaler(), model)
    return _answer(make_pipeline(*steps), part, *fill(part))


def with_mean(part: Split) -> tuple[np.ndarray, np.ndarray]:
    """Fill with means and most frequent levels."""
    seen = ~np.isnan(part.train)
    return tuple(  # type: ignore[return-value]
        mean(Task(part.columns, part.train, seen, rows, ~np.isnan(rows), 1, 0)).point
        for rows in (part.train, part.test)
    )


def with_ours(part: Split) -> tuple[np.ndarray, np.ndarray]:
    """Fill by our default."""
    if not (np.isnan(part.train).any() or np.isnan(part.test).any()):
        return part.train, part.test
    imputer = Imputer(random_state=part.seed, kinds=_kinds(part.columns))
    imputer.fit(part.train)
    return tuple(  # type: ignore[return-value]
        np.asarray(imputer.transform(rows), float) for rows in (part.train, part.test)
    )


def predicted(name: str, part: Split) -> np.ndarray:
    """Predict the test rows' targets, or the probabilities of their classes."""
    model, _, filled = name.partition(", ")
    if model == "hhvaem":
        return ours(part)
    if model == "boosted trees":
        return boosted(part)
    fill = with_mean if filled == "mean" else with_ours
    return forest(part, fill) if model == "forest" else linear(part, fill)


def scored(part: Split, answer: np.ndarray) -> dict[str, float]:
    """Give the RMSE in units of the target's spread, or AUROC, NLL and accuracy."""
    if not part.classes:
        error = np.sqrt(np.mean((answer - part.truth) ** 2)) / part.target.std()
        return {"rmse": float(error)}
    classes = np.unique(part.target)
    known = np.isin(part.truth, classes)
    truth, shares = part.truth[known], np.clip(answer[known], 1e-9, None)
    shares = shares / shares.sum(1, keepdims=True)
    areas = [
        roc_auc_score(truth == level, shares[:, i])
        for i, level in enumerate(classes)
        if 0 < (truth == level).sum() < truth.size
    ]
    return {
        "auroc": float(np.mean(areas)),
        "nll": float(log_loss(truth, shares, labels=classes)),
        "accuracy": float((classes[shares.argmax(1)] == truth).mean()),
    }


def _answer(model: Any, part: Split, train: np.ndarray, test: np.ndarray) -> np.ndarray:
    model.fit(train, part.target)
    return np.asarray(model.predict_proba(test) if part.classes else model.predict(test))


def _indicators(columns: tuple[Column, ...]) -> Any:
    plain = [j for j, column in enumerate(columns) if column.kind == "categorical"]
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    return make_column_transformer((encoder, plain), remainder="passthrough")


def _kinds(columns: tuple[Column, ...]) -> dict[str, str]:
    """Say of an array's columns what they are; levels are whole numbers here."""
    return {str(j): column.kind for j, column in enumerate(columns)}


def jobs(tables: list[str], seeds: int) -> Iterator[tuple[str, float, int, str]]:
    """Give everything that is measured."""
    for table in tables:
        for rate in RATES:
            for seed in range(seeds):
                for method in METHODS:
                    yield table, rate, seed, method


def table(records: list[dict[str, Any]]) -> str:
    """Lay out means over tables and seeds, and how often each method is best."""
    lines = [
        "| hidden | score | " + " | ".join(METHODS) + " |",
        "|---|---" + "|---" * len(METHODS) + "|",
    ]
    for rate in RATES:
        for score in ("rmse", "auroc", "nll"):
            cells: dict[str, list[float]] = defaultdict(list)
            for record in records:
                if record["rate"] == rate and score in record:
                    cells[record["method"]].append(record[score])
            if cells:
                means = [f"{np.mean(cells[m]):.3f}" if cells[m] else "" for m in METHODS]
                lines.append(f"| {rate:.0%} | {score} | " + " | ".join(means) + " |")
    return "\n".join(lines)


def main() -> None:
    """Measure what is not there yet."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tables", default=",".join([*SHIPPED, *PAPER]))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--methods", help="those of them to run, by semicolons")
    asked = parser.parse_args()
    records = json.loads(RESULTS.read_text())["records"] if RESULTS.exists() else []
    there = {(r["table"], r["rate"], r["seed"], r["method"]) for r in records}
    for job in jobs(asked.tables.split(","), asked.seeds):
        name, rate, seed, method = job
        if job in there or (asked.methods and method not in asked.methods.split(";")):
            continue
        part = split(problem(name), rate, seed)
        start = time.perf_counter()
        told = scored(part, predicted(method, part))
        seconds = round(time.perf_counter() - start, 2)
        record = {"table": name, "rate": rate, "seed": seed, "method": method, "seconds": seconds}
        records.append(record | {key: round(value, 4) for key, value in told.items()})
        print(records[-1], flush=True)
        write_json({"rows": ROWS, "versions": versions(), "records": records}, RESULTS)
    print(table(records))


if __name__ == "__main__":
    main()
