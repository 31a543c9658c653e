"""The `hhvaem` command."""

import sys

import typer
from rich.console import Console
from rich.markup import escape

from hhvaem.cli.data import data
from hhvaem.errors import InputError

app = typer.Typer(
    help="Fill the holes of a table, predict from what is known, ask for what is worth knowing.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
app.add_typer(data, name="data")


def main() -> None:
    """Run the command; bad input ends with one sentence and status 1, never a traceback."""
    try:
        app()
    except InputError as error:
        Console(stderr=True).print(f"[bold red]Error:[/] {escape(str(error))}", soft_wrap=True)
        sys.exit(1)
