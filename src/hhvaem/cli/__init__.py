"""The `hhvaem` command."""

import sys
import warnings
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from hhvaem import __version__
from hhvaem.cli.data import data
from hhvaem.cli.demo import demo
from hhvaem.cli.schema import in_options, schema
from hhvaem.errors import InputError, TableWarning

app = typer.Typer(
    help="Fill the holes of a table, predict from what is known, ask for what is worth knowing.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    add_completion=False,
)


def _version(wanted: bool) -> None:  # noqa: FBT001
    if wanted:
        typer.echo(f"hhvaem {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[  # noqa: FBT002
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass


app.command()(demo)
app.command()(schema)
app.add_typer(data, name="data")


def main() -> None:
    """Run the command; bad input ends with one sentence and status 1, never a traceback."""
    console = Console(stderr=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TableWarning)
        try:
            app()
        except InputError as error:
            console.print(f"[bold red]Error:[/] {escape(in_options(str(error)))}", soft_wrap=True)
            sys.exit(1)
        finally:
            for warning in caught:
                console.print(f"[yellow]Note:[/] {escape(str(warning.message))}", soft_wrap=True)
