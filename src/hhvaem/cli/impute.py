"""`hhvaem impute`: the holes of a table, filled by a fitted model."""

import datetime as dt
import json
import time
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer
from rich.console import Console

from hhvaem.cli.many import Address, Engine, Workers, fill_many
from hhvaem.cli.places import Json, bold, check_apart
from hhvaem.cli.schema import Missing
from hhvaem.cli.streams import From, ModelFile, RowsAtOnce, loaded, of_an_interval, stream
from hhvaem.errors import InputError
from hhvaem.files import is_many
from hhvaem.parts import Filling, count_holes, rows_of_a_part
from hhvaem.schema import LEVELLED, Kind, Schema

Tables = Annotated[
    Path,
    typer.Argument(
        metavar="TABLE",
        help="A CSV, Parquet or Feather file of any length, a folder of them, or a pattern in "
        "quotes such as 'in/*.parquet'.",
    ),
]
Out = Annotated[
    Path,
    typer.Option(
        metavar="FILE",
        help="File to write; its suffix says the format. Of many files, the folder for their "
        "parts.",
    ),
]


def impute(
    model: ModelFile,
    table: Tables,
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
    engine: Annotated[
        Engine,
        typer.Option(
            metavar="WAY",
            help="Who fills many files: this process (`local`), or the processes of `ray`, here "
            "or at --address.",
        ),
    ] = Engine.LOCAL,
    workers: Workers = None,
    address: Address = None,
    as_json: Json = False,
) -> None:
    """Fill the holes of a table: numbers with their mean, levels with the most probable one.

    What is observed stays as it is, in the same columns and types. The table may be larger than
    memory. What is drawn at random depends on --rows-at-once, all else does not.

    Many files are filled into a folder, block by block, and the same command goes on where it was
    interrupted.
    """
    if draws and intervals:
        raise typer.BadParameter("Draws have no intervals; leave out --draws or --intervals.")
    if shift and not draws:
        raise typer.BadParameter("Only draws can be shifted; give --draws with --shift.")
    if engine is Engine.LOCAL and (workers or address):
        raise typer.BadParameter("Only Ray has workers and an address; give --engine ray.")
    start = time.monotonic()
    check_apart(out, {"the model": model})
    imputer = loaded(model)
    if not hasattr(imputer, "transform"):
        raise InputError(
            f"{model} is a {type(imputer).__name__}, which fills no holes; use `hhvaem predict`, "
            "or fit a model without --target."
        )
    moved = _shifts(shift or [], imputer.schema_)
    filling = Filling(draws, posterior and posterior.value, intervals, moved)
    rows = rows_of_a_part(rows_at_once, filling.copies * len(imputer.schema_))
    if is_many(table) or engine is Engine.RAY:
        facts = fill_many(
            model,
            imputer,
            table,
            out,
            filling,
            rows,
            missing=missing or [],
            shift=shift or [],
            engine=engine,
            workers=workers,
            address=address,
        )
    else:
        facts = _fill_one(imputer, table, out, filling, rows, missing or [])
    seconds = time.monotonic() - start
    if as_json:
        told = {"out": str(out), **facts, "draws": draws, "seconds": round(seconds, 3)}
        typer.echo(json.dumps(told, indent=2))
        return
    if facts.get("parts") and not facts["written"]:
        done = f"All {facts['parts']:,} parts were there; nothing was left to do."
        Console().print(f"In {bold(out)}: {done}", highlight=False)
        return
    times = f", {draws} times" if draws else ""
    left = facts["left"]
    remain = f" {left:,} are in columns that the model ignores." if left else ""
    parts = f" in {facts['parts']:,} parts of {facts['files']:,} files" if "parts" in facts else ""
    there = facts["parts"] - facts["written"] if "parts" in facts else 0
    before = f" {there:,} parts were there before." if there else ""
    Console().print(
        f"In {bold(out)}: {facts['rows']:,} rows{parts}, {facts['filled']:,} holes filled{times}, "
        f"in {seconds:.0f} seconds.{remain}{before}",
        highlight=False,
    )


def _fill_one(
    imputer: Any, table: Path, out: Path, filling: Filling, rows: int, missing: list[str]
) -> dict[str, int]:
    """Fill one file into another, and give what is to be told of it."""
    filled = left = 0

    def work(part: pa.Table, before: int) -> pa.Table:
        nonlocal filled, left
        made = filling(imputer, table, part, before)
        own, others = count_holes(part, imputer.schema_)
        filled, left = filled + own, left + others
        return made

    count = stream(table, out, imputer, rows, work, missing=missing, doing="Filling")
    return {"rows": count, "filled": filled, "left": left}


def _shifts(options: list[str], schema: Schema) -> dict[Hashable, Any]:
    """Take COLUMN=BY and COLUMN=LEVEL:BY apart."""
    # What is no column is told where the model looks for it.
    kinds = {column.name: column.kind for column in schema}
    shifts: dict[Hashable, Any] = {}
    seen: set[tuple[str, str]] = set()
    for text in options:
        name, separator, by = _named(text, kinds)
        kind = kinds.get(name)
        level, colon, number = by.rpartition(":")
        try:
            amount = float(number)
        except ValueError:
            separator = ""
        if not separator or (colon and kind is not None and kind not in LEVELLED):
            raise InputError(
                f"--shift takes COLUMN=BY, as in --shift income=100, or COLUMN=LEVEL:BY, not "
                f"{text!r}."
            )
        if (name, level) in seen:
            part = f"the level {level!r} of {name!r}" if kind in LEVELLED else repr(name)
            raise InputError(f"--shift is given twice for {part}; give it once.")
        seen.add((name, level))
        if kind in LEVELLED:
            # Levels that are no texts are named as they are shown.
            known = {str(each): each for each in schema[name].levels}
            shifts[name] = shifts.get(name, {}) | {known.get(level, level): amount}
        elif kind == "datetime":
            shifts[name] = _days(name, amount)
        else:
            shifts[name] = amount
    return shifts


def _named(text: str, kinds: Mapping[str, Kind]) -> tuple[str, str, str]:
    """Take the name of a column off a text, where names and levels may have `=` in them."""
    name, separator, by = last = text.rpartition("=")
    while separator and name not in kinds:
        name, separator, _ = name.rpartition("=")
        by = text[len(name) + 1 :]
    return (name, separator, by) if separator else last


def _days(name: str, days: float) -> dt.timedelta:
    try:
        return dt.timedelta(days=days)
    except (OverflowError, ValueError) as error:
        raise InputError(
            f"Column {name!r} holds dates, which {days:g} days do not shift; give a number of days "
            "that is shorter than the time from the first date to the last."
        ) from error
