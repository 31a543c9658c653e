"""The `hhvaem` command."""

import errno
import io
import os
import sys
import warnings
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.markup import escape

from hhvaem import __version__
from hhvaem.cli.data import data
from hhvaem.cli.demo import demo
from hhvaem.cli.fit import fit
from hhvaem.cli.impute import impute
from hhvaem.cli.paper import paper
from hhvaem.cli.predict import predict
from hhvaem.cli.schema import in_options, schema
from hhvaem.containers import printable
from hhvaem.errors import InputError, TableWarning

_OUTPUT_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)

app = typer.Typer(
    help="Fill the holes of a table, predict from what is known, ask for what is worth knowing.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> bool:
    if wanted:
        typer.echo(f"hhvaem {__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass


app.command()(demo)
app.command()(schema)
app.command()(fit)
app.command()(impute)
app.command()(predict)
app.add_typer(data, name="data")
app.add_typer(paper, name="paper")


def main() -> None:
    """Run the command; bad input ends with one sentence and status 1, never a traceback."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # where it cannot show all letters
    console = Console(stderr=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TableWarning)
        try:
            _run()
        except InputError as error:
            _fail(console, in_options(str(error)))
        except OSError as error:
            if error.errno not in _OUTPUT_ERRORS:
                raise
            # What was printed and not yet written would fail again at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            _fail(console, f"The output cannot be written: {error.strerror}.")
        finally:
            for warning in caught:
                console.print(
                    f"[yellow]Note:[/] {escape(printable(str(warning.message)))}", soft_wrap=True
                )


def _run() -> None:
    try:
        app()
    finally:
        if sys.stdout:  # which is None where it was closed
            sys.stdout.flush()  # here, where a full disk can still be told


def _fail(console: Console, message: str) -> NoReturn:
    console.print(f"[bold red]Error:[/] {escape(printable(message))}", soft_wrap=True)
    sys.exit(1)
