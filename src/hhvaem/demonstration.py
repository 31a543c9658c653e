"""What `hhvaem demo` does: fill a made-up table, and compare with what was hidden in it."""

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool, Float
from scipy.stats import binom

from hhvaem.containers import some
from hhvaem.encoding import TableMask, TableValues
from hhvaem.estimators import Imputer, Regressor
from hhvaem.example import clinic
from hhvaem.schema import LEVELLED, Column, Schema
from hhvaem.table import encode

HIDDEN_SHARE, LEVEL, TARGET, STEPS = 0.1, 0.9, "blood pressure", 2_000


class Score(NamedTuple):
    """How far a column's filled cells are from what was hidden, and how far its mean is.

    Of a number, the root mean square in standard deviations of the column; of levels, the share
    of wrong ones, with the most frequent level in the place of the mean.
    """

    column: Column
    cells: int
    error: float
    error_of_mean: float


class Prediction(NamedTuple):
    """How well numbers were predicted that the model was not told."""

    rows: int
    error: float
    error_of_mean: float
    coverage: float
    width: float


class Demonstration(NamedTuple):
    """What was done and found.

    Parameters
    ----------
    table, shown, full
        The table, the same with more cells hidden, and the latter filled.
    schema
        What its columns were taken for.
    values, mask, hidden
        The table as numbers, where it is observed, and what was hidden of that.
    filled, low, up
        What the holes were filled with, and the ends of their 90 % intervals (NaN for plain
        levels), as numbers.
    scores, coverage
        Of each column, and the share of hidden numbers inside their interval.
    prediction
        Of the target.
    seconds
        What it all took.
    """

    table: pa.Table
    shown: pa.Table
    full: pa.Table
    schema: Schema
    values: TableValues
    mask: TableMask
    hidden: TableMask
    filled: TableValues
    low: TableValues
    up: TableValues
    scores: tuple[Score, ...]
    coverage: float
    prediction: Prediction
    seconds: float


def demonstrate(tell: Callable[[str], None] = lambda _: None, *, verbose: int = 0) -> Demonstration:
    """Fill the holes of a table of patients, and predict a column of it.

    Parameters
    ----------
    tell
        Called with what comes next.
    verbose
        1 shows progress bars.
    """
    started = time.perf_counter()
    rng = np.random.default_rng(0)
    table = clinic()
    # Cells that are known and hidden, to compare with afterwards.
    seen = np.stack([column.is_valid().to_numpy() for column in table.columns], axis=1)
    hidden = seen & (rng.random(seen.shape) < HIDDEN_SHARE)
    shown = _without(table, hidden)
    tell("Learning what the columns have to do with each other")
    imputer = Imputer(max_steps=STEPS, random_state=0, verbose=verbose).fit(shown)
    schema = imputer.schema_
    values, mask = encode(table, schema)
    tell("Filling the holes")
    full = imputer.transform(shown)
    low, up = (encode(part, schema).values for part in imputer.interval(shown, LEVEL))
    filled = encode(full, schema).values
    numbers = np.array([column.kind not in LEVELLED for column in schema.modelled])
    inside = (low <= values) & (values <= up)
    tell(f"Predicting {TARGET}")
    return Demonstration(
        table, shown, full, schema, values, mask, hidden, filled, low, up,
        tuple(_score(column, values[:, j], mask[:, j], hidden[:, j], filled[:, j])
              for j, column in enumerate(schema.modelled)),
        float(inside[:, numbers][hidden[:, numbers]].mean()),
        _prediction(table, rng, verbose),
        time.perf_counter() - started,
    )  # fmt: skip


def on_errors(found: Demonstration) -> str:
    """Say why a column can be filled no better than by its mean, and which ones are."""
    same = [score.column.name for score in found.scores if score.error >= score.error_of_mean]
    return (
        f"A column can be filled no better than by its mean or mode (here {some(same) or 'none'}): "
        "where the others say little about it, chance decides in so few cells, and a whole number "
        "is filled with a whole one, which costs small counts more than a mean with decimals."
    )


def on_coverage(found: Demonstration) -> str:
    """Say how far from their level the shares inside intervals can be expected to be."""
    cells = [score.cells for score in found.scores if score.column.kind not in LEVELLED]
    low, up = (binom.ppf(share, min(cells), LEVEL) / min(cells) for share in (0.025, 0.975))
    return (
        f"With {min(cells)} to {max(cells)} hidden cells in a column, anything from {low:.0%} to "
        f"{up:.0%} is what chance makes of {LEVEL:.0%}; intervals of small counts end at whole "
        "numbers and hold more."
    )


def _without(table: pa.Table, hidden: TableMask) -> pa.Table:
    """Take cells out of a table."""
    for i, name in enumerate(table.column_names):
        column = table.column(i)
        nothing = pa.nulls(len(table), column.type)
        if pa.types.is_dictionary(column.type):
            # Whose missing cells lie in the index.
            combined = column.combine_chunks()
            index = pc.if_else(pa.array(hidden[:, i]), None, combined.indices)
            new = pa.DictionaryArray.from_arrays(index, combined.dictionary, ordered=True)
        else:
            new = pc.if_else(pa.array(hidden[:, i]), nothing, column)
        table = table.set_column(i, table.field(name), new)
    return table


def _score(
    column: Column,
    values: Float[np.ndarray, " rows"],
    mask: Bool[np.ndarray, " rows"],
    hidden: Bool[np.ndarray, " rows"],
    filled: Float[np.ndarray, " rows"],
) -> Score:
    known, truth, guess = values[mask & ~hidden], values[hidden], filled[hidden]
    if column.kind in LEVELLED:
        levels, counts = np.unique(known, return_counts=True)
        errors = (np.mean(guess != truth), np.mean(levels[counts.argmax()] != truth))
    else:
        errors = (
            _root_mean_square(guess - truth) / known.std(),
            _root_mean_square(known.mean() - truth) / known.std(),
        )
    return Score(column, int(hidden.sum()), float(errors[0]), float(errors[1]))


def _prediction(table: pa.Table, rng: np.random.Generator, verbose: int) -> Prediction:
    """Hide the target of a third of the rows, and predict it."""
    target = table.column(TARGET).to_numpy(zero_copy_only=False).astype(float)
    test = ~np.isnan(target) & (rng.random(len(target)) < 1 / 3)
    told = np.where(test, np.nan, target)
    rows = table.drop_columns([TARGET])
    model = Regressor(preset="fast", random_state=0, verbose=verbose).fit(rows, told)
    asked, truth = rows.filter(pa.array(test)), target[test]
    low, up = model.predict_interval(asked, LEVEL)
    return Prediction(
        int(test.sum()),
        _root_mean_square(model.predict(asked) - truth),
        _root_mean_square(np.nanmean(told) - truth),
        float(np.mean((low <= truth) & (truth <= up))),
        float(np.mean(up - low)),
    )


def _root_mean_square(errors: Float[np.ndarray, " rows"]) -> float:
    return float(np.sqrt(np.mean(errors**2)))
