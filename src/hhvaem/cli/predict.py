"""`hhvaem predict`: targets of the rows of a table, by a fitted model."""

import json
import time
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer
from rich.console import Console
from rich.markup import escape

from hhvaem.cli.places import Json, bold, check_apart
from hhvaem.cli.schema import Missing
from hhvaem.cli.streams import (
    From,
    ModelFile,
    Out,
    Posterior,
    RowsAtOnce,
    TableFile,
    loaded,
    of_an_interval,
    stream,
)
from hhvaem.containers import repeated, some
from hhvaem.errors import InputError
from hhvaem.parts import beside, rows_of_a_part

_WRITTEN = ("predicted", "low", "up")  # of a number


def predict(
    model: ModelFile,
    table: TableFile,
    out: Out,
    level: Annotated[
        float,
        typer.Option(
            metavar="LEVEL",
            callback=of_an_interval,
            help="Probability that the interval of a number holds it.",
        ),
    ] = 0.9,
    posterior: From = None,
    missing: Missing = None,
    rows_at_once: RowsAtOnce = None,
    as_json: Json = False,
) -> None:
    """Predict the targets of a model, and write them behind the columns of the table.

    A number has the columns NAME_predicted, NAME_low and NAME_up, a class NAME_predicted and the
    probability NAME_p_CLASS of each. The table may be larger than memory, may have holes, and may
    have the targets, which are not looked at.
    """
    start = time.monotonic()
    check_apart(out, {"the model": model, "the table": table})
    predictor = loaded(model)
    if not hasattr(predictor, "predict"):
        raise InputError(
            f"{model} is an Imputer, which has no target to predict; use `hhvaem impute`, or fit "
            "a model with --target."
        )
    ask = _classes if hasattr(predictor, "classes_") else _numbers
    names = _names(predictor)
    twice = repeated(names)
    if twice:
        raise InputError(
            f"The output would have more than one column {twice}; fit a model for each target."
        )

    def work(part: pa.Table, before: int) -> pa.Table:
        del before
        if not part.num_rows:
            raise InputError(f"{table} has no rows; there is nothing to predict.")
        known = part.select(predictor.schema_.names)
        columns = ask(predictor, known, level, posterior)
        return beside(table, part, dict(zip(names, columns, strict=True)))

    rows = rows_of_a_part(rows_at_once, len(predictor.schema_))
    count = stream(table, out, predictor, rows, work, missing=missing or (), doing="Predicting")
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
        f"In {bold(out)}: {count:,} rows with predictions of "
        f"{escape(some(targets))}, in {seconds:.0f} seconds.",
        highlight=False,
    )


def _names(model: Any) -> list[str]:
    """Name the columns that are written, target by target."""
    if not hasattr(model, "classes_"):
        return [f"{name}_{what}" for name in model.target_names_ for what in _WRITTEN]
    return [
        name
        for target, classes in zip(model.target_names_, _labels(model), strict=True)
        for name in (f"{target}_predicted", *(f"{target}_p_{label}" for label in classes.tolist()))
    ]


def _labels(model: Any) -> list[np.ndarray]:
    """Give the classes of each target."""
    return [model.classes_] if model.flat_ else model.classes_


def _numbers(
    model: Any, known: pa.Table, level: float, posterior: Posterior | None
) -> list[pa.Array]:
    """Give the mean of each target and the ends of its interval."""
    ends = (1 - level) / 2, (1 + level) / 2

    def ask(law: Any, *at: Any) -> np.ndarray:
        return np.stack([law.mean(*at), *(law.quantile(*at, q) for q in ends)], axis=1)

    # All at once: nearly all of the time is that of the chains.
    found = model._ask(known, posterior, None, ask)
    return [pa.array(values) for each in found for values in each.T]


def _classes(
    model: Any, known: pa.Table, level: float, posterior: Posterior | None
) -> list[pa.Array]:
    """Give the most probable class of each target, and the probability of each class."""
    del level  # classes have no intervals
    shares = model.predict_proba(known, posterior=posterior)
    return [
        column
        for classes, each in zip(_labels(model), [shares] if model.flat_ else shares, strict=True)
        for column in (pa.array(classes[each.argmax(1)]), *map(pa.array, each.T))
    ]
