"""What `hhvaem impute` and `hhvaem predict` share: a model, and a table that comes in parts."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from hhvaem.cli import leaving_at_once
from hhvaem.cli.places import interruptible
from hhvaem.delimited import unpacked
from hhvaem.errors import InputError, rows_named
from hhvaem.files import TEXT_SUFFIXES, suffix_to_read
from hhvaem.parts import (
    alike,
    by_name,
    check_columns,
    noted,
    tell,
    types_in_text,
    used_names,
)
from hhvaem.streaming import read_chunks, write_chunks


class Posterior(StrEnum):
    """Where draws come from."""

    HMC = "hmc"
    ENCODER = "encoder"
    IMPORTANCE = "importance"


ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A file that `hhvaem fit` wrote.")]
TableFile = Annotated[
    Path, typer.Argument(metavar="TABLE", help="A CSV, Parquet or Feather file of any length.")
]
Out = Annotated[
    Path, typer.Option(metavar="FILE", help="File to write; its suffix says the format.")
]
From = Annotated[
    Posterior | None,
    typer.Option(
        metavar="WAY",
        help="How to draw: by chains (`hmc`), cheaper by the `encoder` alone, or from it by "
        "`importance`; else as it was fitted.",
    ),
]
RowsAtOnce = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="N", help="Rows in memory at once; else chosen by the number of columns."
    ),
]


def of_an_interval(level: float | None) -> float | None:
    """Refuse a level that is no probability, or so near 1 that its interval has no ends."""
    if level is not None and not 0 < level < 1:
        raise typer.BadParameter(f"{level:g} is no probability between 0 and 1.")
    if level is not None and (1 + level) / 2 == 1:
        raise typer.BadParameter(f"{level!r} is too near 1: an interval would have no ends.")
    return level


def loaded(path: Path) -> Any:
    """Read a model for use here, on tables whose columns go by their names."""
    with leaving_at_once():
        from hhvaem import load  # here, so that other commands start without JAX

        return by_name(load(path))


def stream(
    table: Path,
    out: Path,
    model: Any,
    rows: int,
    work: Callable[[pa.Table, int], pa.Table],
    *,
    missing: Sequence[str],
    doing: str,
) -> int:
    """Read a table in parts and write what is made of each, and give the number of rows.

    Parameters
    ----------
    table, out
        Where from, and where to; what was there is replaced when all is done.
    model
        Whose columns are wanted.
    rows
        How many are read at once.
    work
        Makes what is written of a part, and of the number of rows before it.
    missing
        Texts that mean a missing value in the columns that the model uses.
    doing
        A word for the progress bar.
    """
    names, done = model.schema_.names, 0
    types = types_in_text(model.schema_)
    first: pa.Schema = None
    notes: list[str] = []
    with (
        interruptible(lambda: f"nothing was written to {out}."),
        write_chunks(out) as written,
        bar(doing, lambda: _rows(table)) as advance,
    ):
        # What the model does not use is passed on as it is: as text, where text is written.
        typed = used_names(model.schema_) if written.text else None
        for part in read_chunks(table, rows, types, missing=missing, typed=typed):
            if first is None:
                written.check(part.schema)
                known = [*names, *getattr(model, "target_names_", [])]
                check_columns(table, part.column_names, known, names)
            with noted(notes), rows_named(done.__add__):
                result = work(part, done)
            first = first or result.schema
            written.write(alike(result, first))
            done += part.num_rows
            advance(done)
    tell(notes)
    return done


@contextlib.contextmanager
def bar(doing: str, count: Callable[[], int | None]) -> Iterator[Callable[[int], None]]:
    """Show how many rows are done, where somebody looks; those in all are counted only then."""
    console = Console(stderr=True)
    # In a log file a bar is but noise.
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[told]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
        speed_estimate_period=600,
    ) as progress:
        total = count() if console.is_terminal else None
        task = progress.add_task(doing, total=total, told="reading, compiling")

        def advance(done: int) -> None:
            # The number of rows of a text file is known when all are read.
            whole = max(total or done, done)
            progress.update(task, completed=done, total=whole, told=f"{done:,} of {whole:,} rows")

        yield advance


def _rows(path: Path) -> int | None:
    """Give about how many rows a file has, or None."""
    # What is wrong with the file is told when it is read.
    with contextlib.suppress(InputError, OSError, pa.ArrowException):
        suffix = suffix_to_read(path)
        if suffix not in TEXT_SUFFIXES:
            from pyarrow import dataset  # here, as it imports pandas

            kind = "parquet" if suffix == ".parquet" else "feather"
            return int(dataset.dataset(path, format=kind).count_rows())
        with unpacked(path) as file:
            return sum(block.count(b"\n") for block in iter(lambda: file.read(2**22), b"")) - 1
    return None
