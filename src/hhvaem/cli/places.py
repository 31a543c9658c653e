"""Where the commands of `hhvaem paper` write."""

from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated

import typer

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
