"""Where commands write, and what they say when they are stopped."""

import _thread
import contextlib
import errno
import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from hhvaem.atomic import check_file
from hhvaem.cli import STOPPED, handling
from hhvaem.errors import InputError

Out = Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for the figures.")]
Json = Annotated[bool, typer.Option("--json", metavar="", help="Print JSON, for programs.")]
Results = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="File for the numbers; else one in the folder of the figures."
    ),
]


def prepare(out: Path, results: Path) -> None:
    """Make the folders before the work, which would else be lost."""
    for folder, option in ((out, "--out"), (results.parent, "--results")):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with TemporaryFile(dir=folder):
                pass
        except OSError as error:
            raise InputError(
                f"{folder} cannot be written to: {error.strerror}; name another with {option}."
            ) from error
    if results.is_dir():
        raise InputError(f"{results} is a folder; name a file with --results.")


def check_place(out: Path, option: str = "--out") -> None:
    """Refuse a file that cannot be written, before the work, which would else be lost."""
    place = Path(os.path.realpath(out))
    if place.is_dir():
        raise InputError(f"{out} is a folder; name a file with {option}.")
    if not place.parent.is_dir():
        raise InputError(f"The folder {place.parent} does not exist; make it first.")
    check_file(place)
    try:
        if place.exists() and not os.access(place, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        with TemporaryFile(dir=place.parent):
            pass
    except OSError as error:
        raise InputError(
            f"{out} cannot be written: {error.strerror}; name another with {option}."
        ) from error


def check_apart(out: Path, read: Mapping[str, Path]) -> None:
    """Refuse to write where a command reads from: what is there would be lost.

    Parameters
    ----------
    out
        The file to write.
    read
        Files that are read, by what they are.
    """
    for what, path in read.items():
        if _is_same(out, path):
            raise InputError(f"{out} is {what}, which would be lost; name another with --out.")


@contextlib.contextmanager
def interruptible(left: Callable[[], str]) -> Iterator[None]:
    """End with status 130 where the keyboard interrupts, and say what is left of the work."""
    try:
        with handling(signal.default_int_handler), _never_swallowed():
            yield
    except KeyboardInterrupt:
        console = Console(stderr=True)
        console.print(f"[bold]Stopped:[/] {escape(left())}", soft_wrap=True, highlight=False)
        raise typer.Exit(STOPPED) from None


@contextlib.contextmanager
def _never_swallowed() -> Iterator[None]:
    """Interrupt again where an interrupt met a callback of JAX, in which Python ignores it."""
    before = sys.unraisablehook

    def again(ignored: Any) -> None:
        if not issubclass(ignored.exc_type, KeyboardInterrupt):
            before(ignored)
            return
        timer = threading.Timer(0.05, _thread.interrupt_main)
        timer.daemon = True
        timer.start()

    sys.unraisablehook = again
    try:
        yield
    finally:
        sys.unraisablehook = before


def outliving(stream: Any) -> Any:
    """Give a stream that goes nowhere once its reader has gone, as that of `head` does."""
    if not isinstance(stream, io.TextIOWrapper) or stream.isatty():
        return stream
    return io.TextIOWrapper(
        io.BufferedWriter(_Pipe(stream.fileno(), "wb", closefd=False)),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


class _Pipe(io.FileIO):
    """A file whose reader may go before all is written."""

    def write(self, content: Any) -> int:
        with contextlib.suppress(BrokenPipeError):
            return super().write(content)
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
        return memoryview(content).nbytes


def _is_same(one: Path, other: Path) -> bool:
    if os.path.realpath(one) == os.path.realpath(other):
        return True
    # The same name in letters of another case, where the system takes them for the same.
    return one.exists() and other.exists() and one.samefile(other)
