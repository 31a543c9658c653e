"""`hhvaem impute`: the holes of a table, filled by a fitted model."""

import datetime as dt
import json
import time
from collections.abc import Hashable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import typer
from rich.console import Console

from hhvaem.cli.places import Json, bold, check_apart
from hhvaem.cli.schema import Missing
from hhvaem.cli.streams import (
    From,
    ModelFile,
    Out,
    RowsAtOnce,
    TableFile,
    beside,
    loaded,
    of_an_interval,
    rows_of_a_part,
    stream,
)
from hhvaem.errors import InputError
from hhvaem.schema import LEVELLED, Schema


def impute(
    model: ModelFile,
    table: TableFile,
    out: Out,
    draws: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Fill at random so many times (multiple imputation). All stand in one long "
            "table: row by row, and of each row draw by draw. The columns `draw` and `row`, both "
            "from 1, come first: .imp and .id of R's mice, which stacks whole draws instead.",
        ),
    ] = None,
    posterior: From = None,
    intervals: Annotated[
        float | None,
        typer.Option(
            metavar="LEVEL",
            callback=of_an_interval,
            help="Add the ends of the interval that holds a value with this probability: the "
            "columns NAME_low and NAME_up of each number.",
        ),
    ] = None,
    shift: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=BY",
            help="What if the holes are not like what is known: with --draws, add this to the "
            "drawn values of a column; days for dates, and `COLUMN=LEVEL:BY` for the log odds of "
            "a level. May be repeated.",
        ),
    ] = None,
    missing: Missing = None,
    rows_at_once: RowsAtOnce = None,
    as_json: Json = False,
) -> None:
    """Fill the holes of a table: numbers with their mean, levels with the most probable one.

    What is observed stays as it is, in the same columns and types. The table may be larger than
    memory. What is drawn at random depends on --rows-at-once, all else does not.
    """
    if draws and intervals:
        raise typer.BadParameter("Draws have no intervals; leave out --draws or --intervals.")
    if shift and not draws:
        raise typer.BadParameter("Only draws can be shifted; give --draws with --shift.")
    start = time.monotonic()
    check_apart(out, {"the model": model})
    imputer = loaded(model)
    if not hasattr(imputer, "transform"):
        raise InputError(
            f"{model} is a {type(imputer).__name__}, which fills no holes; use `hhvaem predict`, "
            "or fit a model without --target."
        )
    moved = _shifts(shift or [], imputer.schema_)
    filled = left = 0

    def work(part: pa.Table, known: pa.Table, before: int) -> pa.Table:
        nonlocal filled, left
        if draws:
            full = imputer.sample(known, draws, posterior=posterior, shift=moved, offset=before)
            written = [_replaced(part, each) for each in full]
        else:
            full = [imputer.transform(known, posterior=posterior)]
            written = [_replaced(part, full[0])]
        left += _holes(full[0])
        filled += _holes(known) - _holes(full[0])
        if draws:
            return _long(table, written, before)
        if intervals:
            ends = imputer.interval(known, intervals, posterior=posterior)
            return beside(table, written[0], _named_ends(imputer, *ends))
        return written[0]

    copies = draws or (3 if intervals else 1)
    rows = rows_of_a_part(rows_at_once, copies * len(imputer.schema_))
    count = stream(table, out, imputer, rows, work, missing=missing or (), doing="Filling")
    seconds = time.monotonic() - start
    if as_json:
        facts = {
            "out": str(out),
            "rows": count,
            "filled": filled,
            "left": left,
            "draws": draws,
            "seconds": round(seconds, 3),
        }
        typer.echo(json.dumps(facts, indent=2))
        return
    times = f", {draws} times" if draws else ""
    remain = f" {left:,} are in columns that the model ignores." if left else ""
    Console().print(
        f"In {bold(out)}: {count:,} rows, {filled:,} holes filled{times}, in "
        f"{seconds:.0f} seconds.{remain}",
        highlight=False,
    )


def _shifts(options: list[str], schema: Schema) -> dict[Hashable, Any]:
    """Take COLUMN=BY and COLUMN=LEVEL:BY apart."""
    # What is no column is told where the model looks for it.
    kinds = {column.name: column.kind for column in schema}
    shifts: dict[Hashable, Any] = {}
    for text in options:
        name, separator, by = text.rpartition("=")
        kind = kinds.get(name)
        level, _, number = by.rpartition(":")
        try:
            amount = float(number)
        except ValueError:
            separator = ""
        if not separator:
            raise InputError(
                f"--shift takes COLUMN=BY, as in --shift income=100, or COLUMN=LEVEL:BY, not "
                f"{text!r}."
            )
        if kind in LEVELLED:
            # Levels that are no texts are named as they are shown.
            known = {str(each): each for each in schema[name].levels}
            shifts[name] = shifts.get(name, {}) | {known.get(level, level): amount}
        elif kind == "datetime":
            shifts[name] = dt.timedelta(days=amount)
        else:
            shifts[name] = amount
    return shifts


def _replaced(part: pa.Table, full: pa.Table) -> pa.Table:
    """Put filled columns in the place of their own."""
    for name in full.column_names:
        part = part.set_column(part.column_names.index(name), full.field(name), full.column(name))
    return part


def _holes(table: pa.Table) -> int:
    return sum(
        pc.sum(pc.is_null(column, nan_is_null=True)).as_py() or 0 for column in table.columns
    )


def _long(path: Path, tables: list[pa.Table], before: int) -> pa.Table:
    """Put all draws of each row below each other."""
    draws, rows = len(tables), tables[0].num_rows
    by_row = np.arange(draws * rows).reshape(draws, rows).T.ravel()
    long = pa.concat_tables(tables).unify_dictionaries().take(by_row)
    first = {
        "draw": np.tile(np.arange(1, draws + 1), rows),
        "row": np.repeat(np.arange(before + 1, before + rows + 1), draws),
    }
    for i, (name, numbers) in enumerate(first.items()):
        if name in tables[0].column_names:
            raise InputError(f"{path} has a column {name!r}, as the output will; rename it.")
        long = long.add_column(i, name, pa.array(numbers))
    return long


def _named_ends(imputer: Any, low: pa.Table, up: pa.Table) -> dict[str, Any]:
    """Give the ends of intervals under names of their own; levels without order have none."""
    return {
        f"{column.name}_{end}": ends.column(column.name)
        for column in imputer.schema_.modelled
        if column.kind not in ("binary", "categorical")
        for end, ends in (("low", low), ("up", up))
    }
