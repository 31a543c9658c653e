"""`hhvaem schema`: what a table's columns are taken for."""

from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hhvaem.errors import InputError
from hhvaem.files import read_table
from hhvaem.inference import infer_schema
from hhvaem.schema import Schema


def schema(
    table: Annotated[Path, typer.Argument(help="A CSV, Parquet or Feather file.")],
    kind: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN=KIND", help="Say what a column is; may be repeated."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,  # noqa: FBT002
) -> None:
    """Show what the columns of a table are taken for, and what will happen to each."""
    inferred = infer_schema(read_table(table), dict(_kind(each) for each in kind or []))
    if as_json:
        typer.echo(inferred.to_json())
    else:
        Console().print(schema_table(inferred))


def schema_table(schema: Schema) -> Table:
    """Lay a schema out for a terminal."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for name in ("column", "kind", "holes are", "values", "note"):
        table.add_column(name, overflow="fold")
    for column, row in zip(schema, schema.rows(), strict=True):
        style = "" if column.modelled else "dim"
        table.add_row(*(escape(cell) for cell in row), style=style)
    return table


def _kind(text: str) -> tuple[str, str]:
    column, separator, kind = text.rpartition("=")
    if not separator:
        raise InputError(f"--kind takes COLUMN=KIND, as in --kind age=count, not {text!r}.")
    return column, kind
