"""The `hhvaem` command."""

import contextlib
import errno
import io
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

if TYPE_CHECKING:
    import typer

# What asks a command to end: the keyboard, and whoever shuts a machine or a job down.
STOPPING = (signal.SIGINT, signal.SIGTERM)
# The statuses of a command that was stopped, as shells have them.
STOPPED = tuple(128 + number for number in STOPPING)
_NO_MEMORY = b"Error: There is not enough memory for this; use fewer rows, columns or draws.\n"
_OUTPUT_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def main() -> None:
    """Run the command; bad input ends with one sentence and status 1, never a traceback."""
    with leaving_at_once():
        # Here, as it takes long enough to be interrupted.
        app = application()
        from hhvaem.cli.places import outliving

        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")  # where it cannot show all letters
        sys.stdout, sys.stderr = outliving(sys.stdout), outliving(sys.stderr)
        try:
            _told(app)
        except SystemExit as end:
            if end.code not in STOPPED:
                raise
            _leave(int(end.code))


@contextlib.contextmanager
def handling(handler: Callable[..., Any]) -> Iterator[None]:
    """Let commands be stopped in another way, if they may at all: not in the background."""
    before = {number: signal.getsignal(number) for number in STOPPING}
    for number, old in before.items():
        if old is not signal.SIG_IGN:
            signal.signal(number, handler)
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def leaving_at_once() -> contextlib.AbstractContextManager[None]:
    """End where a command is stopped: libraries swallow that while they are imported."""
    return handling(_stopped)


def _stopped(number: int, _: object) -> NoReturn:
    with contextlib.suppress(OSError):
        os.write(2, b"Stopped: nothing more is done.\n")
    _leave(128 + number)


def _leave(status: int) -> NoReturn:
    """End without taking Python apart, which crashes beneath threads in which XLA compiles."""
    for stream in (sys.stdout, sys.stderr):
        # It is None where it was closed, and may be at work on what is interrupted.
        with contextlib.suppress(OSError, RuntimeError, AttributeError):
            stream.flush()
    os._exit(status)


def application() -> "typer.Typer":
    """Put the commands together."""
    import typer
    from typer.core import TyperGroup

    from hhvaem import __version__
    from hhvaem.cli.ask import ask
    from hhvaem.cli.data import data
    from hhvaem.cli.demo import demo
    from hhvaem.cli.evaluate import evaluate
    from hhvaem.cli.fit import fit
    from hhvaem.cli.impute import impute
    from hhvaem.cli.paper import paper
    from hhvaem.cli.places import interruptible
    from hhvaem.cli.predict import predict
    from hhvaem.cli.schema import schema
    from hhvaem.cli.serve import serve

    class Group(TyperGroup):
        def invoke(self, ctx: Any) -> Any:
            with interruptible(lambda: "what was not finished is not written."):
                return super().invoke(ctx)

    app = typer.Typer(
        cls=Group,
        help="Fill the holes of a table, predict from what is known, and ask for what is worth it.",
        no_args_is_help=True,
        rich_markup_mode="markdown",
        pretty_exceptions_enable=False,
    )

    def told(wanted: bool) -> bool:
        if wanted:
            typer.echo(f"hhvaem {__version__}")
            raise typer.Exit
        return wanted

    @app.callback()
    def options(
        version: Annotated[
            bool,
            typer.Option(
                "--version", metavar="", callback=told, is_eager=True, help="Show the version."
            ),
        ] = False,
    ) -> None:
        pass

    for command in (demo, schema, fit, impute, predict, ask, evaluate, serve):
        app.command()(command)
    app.add_typer(data, name="data")
    app.add_typer(paper, name="paper")
    return app


def _told(app: "typer.Typer") -> None:
    """Run a command, and tell errors and notes in sentences."""
    from rich.console import Console
    from rich.markup import escape

    from hhvaem.cli.schema import in_options
    from hhvaem.containers import printable
    from hhvaem.errors import InputError, TableWarning

    console = Console(stderr=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TableWarning)

        def fail(message: str) -> NoReturn:
            console.print(f"[bold red]Error:[/] {escape(printable(message))}", soft_wrap=True)
            sys.exit(1)

        try:
            _run(app)
        except InputError as error:
            fail(in_options(str(error)))
        except Exception as error:
            if _lacks_memory(error):
                # Not by `fail`: there may be no memory left for that, either.
                os.write(2, _NO_MEMORY)
                sys.exit(1)
            if not isinstance(error, OSError) or error.errno not in _OUTPUT_ERRORS:
                raise
            # What was printed and not yet written would fail again at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            fail(f"The output cannot be written: {error.strerror}.")
        finally:
            # NumPy's own, of numbers that overflow on their way, are no notes for a reader.
            for warning in (each for each in caught if issubclass(each.category, UserWarning)):
                console.print(
                    f"[yellow]Note:[/] {escape(printable(str(warning.message)))}", soft_wrap=True
                )


def _lacks_memory(error: Exception) -> bool:
    """Say whether there was no memory left; XLA and Python's threads have no class for that."""
    told = ("RESOURCE_EXHAUSTED", "can't start new thread")
    return (
        isinstance(error, MemoryError)
        or getattr(error, "errno", None) == errno.ENOMEM
        or any(words in str(error) for words in told)
    )


def _run(app: "typer.Typer") -> None:
    try:
        app()
    finally:
        if sys.stdout:  # which is None where it was closed
            sys.stdout.flush()  # here, where a full disk can still be told
