"""`hhvaem schema`: what a table's columns are taken for."""

import ast
import csv
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import typer
from rich import box
from rich.console import Console, Group
from rich.markup import escape
from rich.table import Table

from hhvaem.cli.places import Json
from hhvaem.containers import repeated, shown, some
from hhvaem.errors import InputError
from hhvaem.files import read_table
from hhvaem.inference import infer_schema
from hhvaem.schema import Schema

# As `repr` writes a name, in either kind of quotes.
_KINDS = re.compile(r"""kinds=\{('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"): '(\w+)'\}""")

Kinds = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN=KIND",
        help="Say what a column is; may be repeated. Of text, `COLUMN=ordinal:low,mid,high` gives "
        "the order of the levels.",
    ),
]
Missing = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TEXT",
        help="A text that means a missing value where it is all of a CSV field, such as `?`; may "
        "be repeated.",
    ),
]


def schema(
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="A CSV, Parquet or Feather file.")],
    kind: Kinds = None,
    missing: Missing = None,
    as_json: Json = False,
) -> None:
    """Show what the columns of a table are taken for, and what will happen to each."""
    kinds, orders = parsed_kinds(kind or [])
    inferred = infer_schema(ranked(read_table(table, missing or ()), orders), kinds)
    if as_json:
        typer.echo(json.dumps(json.loads(inferred.to_json()), indent=2))
    else:
        Console().print(schema_report(inferred))


def schema_report(schema: Schema) -> Group:
    """Lay a schema out for a terminal: a line for each column, and the notes below."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for title in ("column", "kind", "holes are", "values"):
        table.add_column(title, overflow="fold")
    columns: dict[str, list[str]] = {}
    for column, (*cells, note) in zip(schema, schema.rows(), strict=True):
        table.add_row(*map(escape, cells), style="" if column.modelled else "dim")
        if note:
            columns.setdefault(note, []).append(cells[0])
    notes = [
        f"[bold]{escape(some(names))}[/]: {escape(in_options(note))}"
        for note, names in columns.items()
    ]
    return Group(table, *([""] if notes else []), *notes)


def in_options(message: str) -> str:
    """Say in options of the command what a message says in Python.

    Examples
    --------
    >>> in_options("pass it through with kinds={'zip code': 'ignored'}")
    "pass it through with --kind 'zip code=ignored'"
    """
    return _KINDS.sub(_option, message).replace("`kinds`", "--kind")


def _option(found: re.Match[str]) -> str:
    name = ast.literal_eval(found[1])
    # A name with control characters stays as Python writes it: the terminal would obey them.
    return f"--kind {shlex.quote(f'{name}={found[2]}')}" if name.isprintable() else found[0]


def parsed_kinds(options: Sequence[str]) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Take COLUMN=KIND apart: give the kinds of columns, and the levels of ordinal ones in order.

    Examples
    --------
    >>> parsed_kinds(["age=count", "pain=ordinal:none,mild,severe"])
    ({'age': 'count', 'pain': 'ordinal'}, {'pain': ['none', 'mild', 'severe']})
    """
    kinds: dict[str, str] = {}
    orders: dict[str, list[str]] = {}
    for text in options:
        column, ordinal, levels = text.partition("=ordinal:")
        if ordinal:
            # As a line of CSV: a level may have a comma in quotes.
            kinds[column], orders[column] = "ordinal", *csv.reader([levels], skipinitialspace=True)
            continue
        column, separator, kind = text.rpartition("=")
        if not separator:
            raise InputError(f"--kind takes COLUMN=KIND, as in --kind age=count, not {text!r}.")
        kinds[column] = kind
    return kinds, orders


def ranked(table: pa.Table, orders: Mapping[str, Sequence[str]]) -> pa.Table:
    """Make ordered categories of the columns whose levels are given in order.

    Raises
    ------
    InputError
        Naming a column that holds something else.
    """
    for name, levels in orders.items():
        if name not in table.column_names:
            continue  # as is told when the kinds are looked at
        column = table.column(name)
        kind = getattr(column.type, "value_type", column.type)
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            raise InputError(
                f"--kind names levels of column {name!r}, which holds no text; leave them out."
            )
        twice = repeated(levels)
        if twice:
            raise InputError(f"--kind names the level {twice} of column {name!r} more than once.")
        texts, entries = column.cast(pa.string()).combine_chunks(), pa.array(levels, pa.string())
        codes = pc.index_in(texts, entries)
        unknown = np.flatnonzero(pc.and_(codes.is_null(), texts.is_valid()))
        if unknown.size:
            row = int(unknown[0])
            raise InputError(
                f"Column {name!r} holds {shown(texts[row].as_py())} in row {row}, which is none of "
                f"the levels that --kind names: {some(list(map(repr, levels)))}; name all."
            )
        category = pa.DictionaryArray.from_arrays(codes, entries, ordered=True)
        table = table.set_column(table.column_names.index(name), name, category)
    return table
