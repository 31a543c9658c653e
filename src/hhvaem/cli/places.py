"""Where commands write, and what they say when they are stopped."""

import _thread
import contextlib
import errno
import io
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape

from hhvaem.atomic import check_file
from hhvaem.cli import STOPPING, handling
from hhvaem.errors import InputError

Out = Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for the figures.")]
Json = Annotated[bool, typer.Option("--json", metavar="", help="Print JSON, for programs.")]
Results = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="File for the numbers; else one in the folder of the figures."
    ),
]
# What files of the paper's commands have that those of others do not. A run has records, too.
FOUND = {
    "tables": "records",
    "saia": "tables",
    "curves": "models",
    "toys": "toys",
    "reparam": "variants",
    "images": "images",
    "inpainting": "inpainting",
}
# Those that have beside their own what is the mark of another command.
ALSO = {"images": ("records",)}


def prepare(
    command: str,
    results: Path,
    out: Path,
    *,
    pictures: Collection[Path] = (),
    runs: Path | None = None,
    option: str = "--results",
) -> None:
    """Make the folders of one of the paper's commands before the work, which would else be lost.

    Parameters
    ----------
    command
        Its name.
    results
        The file for its numbers.
    out
        The folder for all else.
    pictures
        The files of its figures.
    runs
        The folder of its runs, where it has one.
    option
        What names the file for its numbers.

    Raises
    ------
    InputError
        Where something cannot be written, or would be lost or written over by something else.
    """
    if any(_is_same(place, picture) for place in _upwards(results) for picture in pictures):
        raise InputError(f"{results} is in the place of a figure; name another with {option}.")
    if runs and any(_is_same(place, runs) for place in _upwards(results)):
        raise InputError(
            f"{results} is in {runs}, where runs have their files; name another with {option}."
        )
    for folder, named in ((runs or out, "--out"), (results.parent, option)):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with TemporaryFile(dir=folder):
                pass
        except OSError as error:
            raise InputError(
                f"{folder} cannot be written to: {error.strerror}; name another with {named}."
            ) from error
    if results.is_dir():
        what = "a file" if option == "--results" else "another folder"
        raise InputError(f"{results} is a folder; name {what} with {option}.")
    check_place(results, option)
    for picture in pictures:
        _check_replaceable(picture, picture, "--out")
    _check_results(command, results, option)


def _upwards(path: Path) -> list[Path]:
    """Give a path and the folders that it is in."""
    return [path, *path.absolute().parents]


def _check_results(command: str, results: Path, option: str) -> None:
    """Refuse to write over what another command has found, or over a file of the user's own."""
    if not results.exists():
        return
    try:
        content = json.loads(results.read_bytes())
    except (OSError, ValueError, RecursionError):
        content = None
    found = content if isinstance(content, dict) else {}
    own = (FOUND[command], *ALSO.get(command, ()))
    if any(part in found and part not in own for part in FOUND.values()):
        raise InputError(
            f"{results} has results of another command, which would be lost; name another with "
            f"{option}."
        )
    if FOUND[command] not in found:
        raise InputError(
            f"{results} is no file that `hhvaem paper {command}` writes; move it away, or name "
            f"another with {option}."
        )


def check_place(out: Path, option: str = "--out") -> None:
    """Refuse a file that cannot be written, before the work, which would else be lost."""
    place = Path(os.path.realpath(out))
    if place.is_dir():
        raise InputError(f"{out} is a folder; name a file with {option}.")
    if not place.parent.is_dir():
        raise InputError(f"The folder {place.parent} does not exist; make it first.")
    _check_replaceable(place, out, option)


def _check_replaceable(place: Path, named: Path, option: str) -> None:
    """Refuse what `hhvaem.atomic.replacing` would refuse at the end.

    Parameters
    ----------
    place
        The file that is replaced, in a folder that is there.
    named
        What the user calls it.
    option
        What names it.
    """
    check_file(place)
    try:
        # First, as on a disk that is read-only it is not for the file's permissions.
        with TemporaryFile(dir=place.parent):
            pass
        if place.exists() and not os.access(place, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise InputError(
            f"{named} cannot be written: {error.strerror}; name another with {option}."
        ) from error


def bold(path: Path) -> str:
    """Write a path for a console, which would take brackets in it for markup."""
    return f"[bold]{escape(str(path))}[/]"


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
    """End with status 130 or 143 where a command is stopped, and say what is left of the work."""
    try:
        with handling(_interrupt), _never_swallowed():
            yield
    except KeyboardInterrupt as stop:
        console = Console(stderr=True)
        console.print(f"[bold]Stopped:[/] {escape(left())}", soft_wrap=True, highlight=False)
        raise typer.Exit(128 + _number(stop)) from None


def _interrupt(number: int, _: object) -> NoReturn:
    """Interrupt as the keyboard does, whoever it was."""
    raise KeyboardInterrupt(number)


def _number(stop: BaseException | None) -> int:
    """Give the signal that has interrupted; the keyboard's where none is told."""
    told = stop.args[0] if stop and stop.args else None
    return told if told in STOPPING else signal.SIGINT


@contextlib.contextmanager
def _never_swallowed() -> Iterator[None]:
    """Interrupt again where an interrupt met a callback of JAX, in which Python ignores it."""
    before = sys.unraisablehook

    def again(ignored: Any) -> None:
        if issubclass(ignored.exc_type, MemoryError):
            return  # the work itself will tell, if it lacks any
        if not issubclass(ignored.exc_type, KeyboardInterrupt):
            before(ignored)
            return
        number = _number(ignored.exc_value)
        timer = threading.Timer(0.05, _thread.interrupt_main, (number,))
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
    raw: Any = _Pipe(stream.fileno(), "wb", closefd=False)
    return io.TextIOWrapper(
        # Without buffers (PYTHONUNBUFFERED) Python itself writes to the file below.
        raw if stream.write_through else io.BufferedWriter(raw),
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
