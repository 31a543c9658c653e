"""How well a target is predicted from inputs with holes, beside what people use today.

    HHVAEM_DATA=folder python benchmarks/prediction.py [--tables boston,wine] [--seeds 3]
    HHVAEM_DATA=folder python benchmarks/prediction.py --keep FOLDER     # the tables, for elsewhere
    python benchmarks/prediction.py --tables wine --kept FOLDER --at-once --out FILE
    python benchmarks/prediction.py --merge FILE ...                     # and into the others
    python benchmarks/prediction.py --write                              # docs/predict.md

Rows are split four to one, and 0, 30 or 50 % of all input cells are hidden at random in both parts
(at most 2,000 rows of each table). Our default `Regressor` or `Classifier` stands beside boosted
trees that take missing cells as they are, and beside forests and linear models after holes were
filled with the mean or by our default `Imputer`, which learns from the training inputs alone.
Writes results/prediction.json, record by record, goes on where it was, and prints means. With
`--at-once`, for an accelerator, our models of all rates and seeds of a table are trained in one
program, and have no seconds of their own.
"""

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from documents import write_block
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

from hhvaem import Classifier, Imputer, Regressor, Schema, encode, infer_schema
from hhvaem.baselines import Task, mean
from hhvaem.datasets import load
from hhvaem.fitting import Fitted, fit_many
from hhvaem.paper.records import versions, write_json
from hhvaem.posterior import How
from hhvaem.preparing import Part, prepare
from hhvaem.presets import PRESETS
from hhvaem.schema import LEVELLED, Column, Kind

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "prediction.json"
PAGE = ROOT / "docs" / "predict.md"
PAPER = (
    "boston", "concrete", "energy", "wine", "yacht", "diabetes", "bank", "insurance", "avocado",
    "naval",
)  # fmt: skip
SHIPPED = {"breast cancer": load_breast_cancer, "iris": load_iris}
ROWS, RATES = 2_000, (0.0, 0.3, 0.5)
METHODS = (
    "hhvaem", "boosted trees", "forest, mean", "forest, hhvaem", "linear, mean", "linear, hhvaem",
)  # fmt: skip


Record = dict[str, Any]


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


Filler = Callable[[Split], tuple[np.ndarray, np.ndarray]]


def problem(name: str, kept: Path | None = None) -> Problem:
    """Load a table, or what was kept of it; of several targets the first."""
    if kept is not None:
        with np.load(kept / f"{name}.npz") as arrays:
            schema = Schema.from_json(str(arrays["schema"]))
            values, target, classes = arrays["values"], arrays["target"], bool(arrays["classes"])
            return Problem(schema.columns, values, target, classes)
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


def keep(names: list[str], folder: Path) -> None:
    """Write tables to a folder, for a machine that lacks their sources."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        told = problem(name)
        np.savez_compressed(
            folder / f"{name}.npz",
            schema=np.array(Schema(told.columns).to_json()),
            values=told.values,
            target=told.target,
            classes=told.classes,
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


def forest(part: Split, fill: Filler) -> np.ndarray:
    """Predict by a forest on filled inputs."""
    cls = RandomForestClassifier if part.classes else RandomForestRegressor
    model = cls(n_estimators=300, random_state=part.seed, n_jobs=-1)
    return _answer(make_pipeline(_indicators(part.columns), model), part, *fill(part))


def linear(part: Split, fill: Filler) -> np.ndarray:
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


def ours_at_once(parts: list[Split]) -> list[np.ndarray]:
    """Do as `ours` for several splits, with all their models in one program."""
    plan = PRESETS["default"]
    fits = fit_many(
        [prepare(_inputs(part), _target(part), plan, seed=part.seed) for part in parts], plan
    )
    answers = []
    for part, fitted in zip(parts, fits, strict=True):
        found = []
        for rows, _, law in fitted.laws(*_inputs(part._replace(train=part.test))[1:], _how(fitted)):
            assert law is not None
            at = np.arange(rows.stop - rows.start)
            found.append(law.shares(0, at) if part.classes else law.mean(0, at))
        answers.append(np.concatenate(found))
    return answers


def filled_at_once(parts: list[Split]) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """Do as `with_ours` for several splits, by their places."""
    plan = PRESETS["default"]
    fits = fit_many([prepare(_inputs(part), None, plan, seed=part.seed) for part in parts], plan)
    found = {}
    for i, (part, fitted) in enumerate(zip(parts, fits, strict=True)):
        both = []
        for rows in (part.train, part.test):
            filled, known = rows.copy(), ~np.isnan(rows)
            for at, law, _ in fitted.laws(rows, known, _how(fitted)):
                for j in range(rows.shape[1]):
                    holes = np.flatnonzero(~known[at, j])
                    if holes.size:
                        filled[at.start + holes, j] = law.filled(j, holes)
            both.append(filled)
        found[i] = (both[0], both[1])
    return found


def _inputs(part: Split) -> Part:
    return Part(part.columns, np.nan_to_num(part.train), ~np.isnan(part.train))


def _target(part: Split) -> Part:
    kind: Kind = "real"
    levels: tuple[str, ...] = ()
    if part.classes:
        levels = tuple(str(level) for level in np.unique(part.target))
        kind = "binary" if len(levels) == 2 else "categorical"
    values = np.searchsorted(np.unique(part.target), part.target) if part.classes else part.target
    column = Column("y", kind, levels=levels)
    return Part((column,), values[:, None].astype(float), np.ones((len(values), 1), bool))


def _how(fitted: Fitted) -> How:
    """Share the chains among members, as the estimators do."""
    how = fitted.plan.how
    return replace(how, chains=-(-how.chains // fitted.members))


def predicted(name: str, part: Split, filled: Filler | None = None) -> np.ndarray:
    """Predict the test rows' targets, or the probabilities of their classes."""
    model, _, by = name.partition(", ")
    if model == "hhvaem":
        return ours(part)
    if model == "boosted trees":
        return boosted(part)
    fill = with_mean if by == "mean" else filled or with_ours
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


def table(records: list[Record]) -> str:
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


def measure(told: Problem, name: str, todo: list[tuple[float, int, str]]) -> Iterator[Record]:
    """Fit and score one after the other."""
    for rate, seed, method in todo:
        part = split(told, rate, seed)
        start = time.perf_counter()
        found = scored(part, predicted(method, part))
        yield record(name, rate, seed, method, found, time.perf_counter() - start)


def measure_at_once(
    told: Problem, name: str, todo: list[tuple[float, int, str]]
) -> Iterator[Record]:
    """Do the same with our models of all rates and seeds trained at once."""
    parts = {(rate, seed): split(told, rate, seed) for rate, seed, _ in todo}
    holed = [key for key in parts if key[0]]
    fills = filled_at_once([parts[key] for key in holed]) if holed else {}
    answers = dict(zip(parts, ours_at_once(list(parts.values())), strict=True))
    for rate, seed, method in todo:
        part = parts[rate, seed]
        if method == "hhvaem":
            answer = answers[rate, seed]
        else:
            own = fills[holed.index((rate, seed))] if rate else (part.train, part.test)
            answer = predicted(method, part, lambda _, own=own: own)  # type: ignore[misc]
        yield record(name, rate, seed, method, scored(part, answer), None)


def record(
    name: str, rate: float, seed: int, method: str, found: dict[str, float], seconds: float | None
) -> Record:
    """Put a line of the results together."""
    told = {"table": name, "rate": rate, "seed": seed, "method": method}
    told["seconds"] = None if seconds is None else round(seconds, 2)
    return told | {key: round(value, 4) for key, value in found.items()}


def read_records(path: Path) -> list[Record]:
    return json.loads(path.read_text())["records"] if path.exists() else []


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", default=",".join([*SHIPPED, *PAPER]))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--methods", help="those of them to run, by semicolons")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where records are kept")
    parser.add_argument("--keep", type=Path, help="write the tables to this folder, and end")
    parser.add_argument("--kept", type=Path, help="a folder with the tables")
    parser.add_argument("--at-once", action="store_true", help="our models in one program")
    parser.add_argument("--merge", type=Path, nargs="+", help="add records of files, and end")
    parser.add_argument("--write", action="store_true", help="write the page, and end")
    return parser.parse_args()


def main() -> None:
    """Measure what is not there yet."""
    asked = arguments()
    names = asked.tables.split(",")
    if asked.keep:
        keep(names, asked.keep)
        return
    records = read_records(asked.out)
    if asked.write:
        write_block(PAGE, "prediction", table(records))
        return
    for path in asked.merge or []:
        records += read_records(path)
    there = {(r["table"], r["rate"], r["seed"], r["method"]) for r in records}
    methods = asked.methods.split(";") if asked.methods else METHODS
    for name in [] if asked.merge else names:
        todo = [
            (rate, seed, method)
            for rate in RATES
            for seed in range(asked.seeds)
            for method in methods
            if (name, rate, seed, method) not in there
        ]
        if not todo:
            continue
        run = measure_at_once if asked.at_once else measure
        for found in run(problem(name, asked.kept), name, todo):
            print(found, flush=True)
            records.append(found)
            write_json({"rows": ROWS, "versions": versions(), "records": records}, asked.out)
    write_json({"rows": ROWS, "versions": versions(), "records": records}, asked.out)
    print(table(records))


if __name__ == "__main__":
    main()
