"""`hhvaem schema`: what a table's columns are taken for."""

import ast
import json
import re
import shlex
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console, Group
from rich.markup import escape
from rich.table import Table

from hhvaem.containers import some
from hhvaem.errors import InputError
from hhvaem.files import read_table
from hhvaem.inference import infer_schema
from hhvaem.schema import Schema

# As `repr` writes a name, in either kind of quotes.
_KINDS = re.compile(r"""kinds=\{('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"): '(\w+)'\}""")


def schema(
    table: Annotated[Path, typer.Argument(help="A CSV, Parquet or Feather file.")],
    kind: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN=KIND", help="Say what a column is; may be repeated."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Show what the columns of a table are taken for, and what will happen to each."""
    inferred = infer_schema(read_table(table), dict(parsed_kind(each) for each in kind or []))
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
    return _KINDS.sub(_option, message)


def _option(found: re.Match[str]) -> str:
    name = ast.literal_eval(found[1])
    # A name with control characters stays as Python writes it: the terminal would obey them.
    return f"--kind {shlex.quote(f'{name}={found[2]}')}" if name.isprintable() else found[0]


def parsed_kind(text: str) -> tuple[str, str]:
    """Take COLUMN=KIND apart."""
    column, separator, kind = text.rpartition("=")
    if not separator:
        raise InputError(f"--kind takes COLUMN=KIND, as in --kind age=count, not {text!r}.")
    return column, kind
