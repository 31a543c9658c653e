"""`hhvaem predict`: targets of the rows of a table, by a fitted model."""

import json
import time
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer
from rich.console import Console
from rich.markup import escape

from hhvaem.cli.streams import (
    From,
    Json,
    ModelFile,
    Out,
    Posterior,
    RowsAtOnce,
    TableFile,
    beside,
    between_0_and_1,
    loaded,
    rows_of_a_part,
    stream,
)
from hhvaem.containers import some
from hhvaem.errors import InputError


def predict(
    model: ModelFile,
    table: TableFile,
    out: Out,
    level: Annotated[
        float,
        typer.Option(
            metavar="LEVEL",
            callback=between_0_and_1,
            help="Probability that the interval of a number holds it.",
        ),
    ] = 0.9,
    posterior: From = None,
    rows_at_once: RowsAtOnce = None,
    as_json: Json = False,
) -> None:
    """Predict the targets of a model, and write them behind the columns of the table.

    A number has the columns NAME_predicted, NAME_low and NAME_up, a class NAME_predicted and the
    probability NAME_p_CLASS of each. The table may be larger than memory, may have holes, and may
    have the targets, which are not looked at.
    """
    start = time.monotonic()
    predictor = loaded(model)
    if not hasattr(predictor, "predict"):
        raise InputError(
            f"{model} is an Imputer, which has no target to predict; use `hhvaem impute`, or fit "
            "a model with --target."
        )
    ask = _classes if hasattr(predictor, "classes_") else _numbers

    def work(part: pa.Table, known: pa.Table, before: int) -> pa.Table:
        del before
        if not part.num_rows:
            raise InputError(f"{table} has no rows; there is nothing to predict.")
        return beside(table, part, ask(predictor, known, level, posterior))

    rows = rows_of_a_part(rows_at_once, len(predictor.schema_))
    count = stream(table, out, predictor, rows, work, doing="Predicting")
    seconds = time.monotonic() - start
    targets = predictor.target_names_
    if as_json:
        facts = {
            "out": str(out),
            "rows": count,
            "targets": targets,
            "seconds": round(seconds, 3),
        }
        typer.echo(json.dumps(facts, indent=2))
        return
    Console().print(
        f"In [bold]{escape(str(out))}[/]: {count:,} rows with predictions of "
        f"{escape(some(targets))}, in {seconds:.0f} seconds.",
        highlight=False,
    )


def _numbers(
    model: Any, known: pa.Table, level: float, posterior: Posterior | None
) -> dict[str, pa.Array]:
    """Give the mean of each target and the ends of its interval."""
    ends = (1 - level) / 2, (1 + level) / 2

    def ask(law: Any, *at: Any) -> np.ndarray:
        return np.stack([law.mean(*at), *(law.quantile(*at, q) for q in ends)], axis=1)

    # All at once: nearly all of the time is that of the chains.
    found = model._ask(known, posterior, None, ask)
    return {
        f"{name}_{what}": pa.array(values)
        for name, each in zip(model.target_names_, found, strict=True)
        for what, values in zip(("predicted", "low", "up"), each.T, strict=True)
    }


def _classes(
    model: Any, known: pa.Table, level: float, posterior: Posterior | None
) -> dict[str, pa.Array]:
    """Give the most probable class of each target, and the probability of each class."""
    del level  # classes have no intervals
    shares = model.predict_proba(known, posterior=posterior)
    if model.flat_:
        parts = [(model.classes_, shares)]
    else:
        parts = list(zip(model.classes_, shares, strict=True))
    columns: dict[str, pa.Array] = {}
    for name, (classes, each) in zip(model.target_names_, parts, strict=True):
        columns[f"{name}_predicted"] = pa.array(classes[each.argmax(1)])
        for label, share in zip(classes.tolist(), each.T, strict=True):
            columns[f"{name}_p_{label}"] = pa.array(share)
    return columns
