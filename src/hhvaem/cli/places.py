"""Where commands write, and what they say when they are stopped."""

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from hhvaem.atomic import check_file
from hhvaem.errors import InputError

Out = Annotated[Path, typer.Option(help="Folder for the figures.")]
Results = Annotated[
    Path | None, typer.Option(help="File for the numbers; else one in the folder of the figures.")
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


def check_place(out: Path) -> None:
    """Refuse a file that cannot be written, before the work, which would else be lost."""
    place = Path(os.path.realpath(out))
    if place.is_dir():
        raise InputError(f"{out} is a folder; name a file with --out.")
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
            f"{out} cannot be written: {error.strerror}; name another with --out."
        ) from error


@contextlib.contextmanager
def interruptible(left: Callable[[], str]) -> Iterator[None]:
    """End with status 130 where the keyboard interrupts, and say what is left of the work."""
    try:
        yield
    except KeyboardInterrupt:
        console = Console(stderr=True)
        console.print(f"[bold]Stopped:[/] {escape(left())}", soft_wrap=True, highlight=False)
        raise typer.Exit(130) from None
