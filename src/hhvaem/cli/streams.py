"""What `hhvaem impute` and `hhvaem predict` share: a model, and a table that comes in parts."""

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from hhvaem.cli import leaving_at_once
from hhvaem.cli.places import interruptible
from hhvaem.containers import listed
from hhvaem.delimited import unpacked
from hhvaem.errors import InputError, TableWarning, rows_named
from hhvaem.files import TEXT_SUFFIXES, suffix_to_read
from hhvaem.schema import Storage
from hhvaem.streaming import read_chunks, write_chunks

# Rows of a part: as many as an accelerator takes at once, but not more cells than that.
ROWS, CELLS, LEAST_ROWS = 4096, 4_000_000, 128
# Of text files, the types of columns whose fields alone could say another one.
_TYPES: dict[Storage, pa.DataType] = {"text": pa.string(), "float": pa.float64()}


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

        model = load(path)
    # The device of the machine that it was fitted on need not be here.
    model.set_params(device=None)
    # It may have been fitted on an array, but columns of files always have names.
    model.feature_names_in_ = np.array(model.schema_.names, dtype=object)
    return model


def rows_of_a_part(asked: int | None, columns: int) -> int:
    """Give how many rows to hold at once, of so many columns in all copies."""
    return asked or min(ROWS, max(LEAST_ROWS, CELLS // columns))


def stream(
    table: Path,
    out: Path,
    model: Any,
    rows: int,
    work: Callable[[pa.Table, pa.Table, int], pa.Table],
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
        Makes what is written of a part, of its columns that the model knows, and of the number
        of rows before it.
    missing
        Texts that mean a missing value in the columns that the model uses.
    doing
        A word for the progress bar.
    """
    names, done = model.schema_.names, 0
    types = {c.name: _TYPES[c.storage] for c in model.schema_ if c.storage in _TYPES}
    used = {c.name for c in model.schema_ if c.kind != "ignored"}
    first: pa.Schema = None
    notes: list[str] = []
    with (
        interruptible(lambda: f"nothing was written to {out}."),
        write_chunks(out) as written,
        _bar(table, doing) as advance,
    ):
        # What the model does not use is passed on as it is: as text, where text is written.
        typed = used if written.text else None
        for part in read_chunks(table, rows, types, missing=missing, typed=typed):
            if first is None:
                written.check(part.schema)
                _check_columns(table, part, [*names, *getattr(model, "target_names_", [])], names)
            with _noted(notes), rows_named(done.__add__):
                result = work(part, part.select(names), done)
            first = first or result.schema
            written.write(_alike(result, first))
            done += part.num_rows
            advance(done)
    _tell(notes)
    return done


def beside(path: Path, table: pa.Table, columns: Mapping[str, Any]) -> pa.Table:
    """Put columns behind those of a table.

    Raises
    ------
    InputError
        Where the table, which is of a file, has one of that name already.
    """
    for name, values in columns.items():
        if name in table.column_names:
            raise InputError(f"{path} has a column {name!r}, as the output will; rename it.")
        table = table.append_column(name, values)
    return table


def _check_columns(
    path: Path, table: pa.Table, known: Sequence[str], needed: Sequence[str]
) -> None:
    absent = [name for name in needed if name not in table.column_names]
    if absent:
        raise InputError(
            f"{path} lacks {listed(absent)}; add every column of the model, empty if unknown."
        )
    extra = [name for name in table.column_names if name not in known]
    if extra:
        warnings.warn(
            f"Columns unknown to the model are passed through as they are: {listed(extra)}.",
            TableWarning,
            stacklevel=2,
        )


@contextlib.contextmanager
def _noted(notes: list[str]) -> Iterator[None]:
    """Put the notes about a part of a table aside, each of them once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TableWarning)
        yield
    notes += dict.fromkeys(str(note.message) for note in caught)


def _tell(notes: list[str]) -> None:
    """Tell the first of the notes that begin alike, however many parts made one."""
    alike: dict[str, list[str]] = {}
    for note in notes:
        alike.setdefault(note.partition(":")[0], []).append(note)
    for note, *more in alike.values():
        text = f"{note.rstrip('.')}; there are more in later rows." if more else note
        warnings.warn(text, TableWarning, stacklevel=2)


def _alike(table: pa.Table, first: pa.Schema) -> pa.Table:
    """Give a part the types of the first: holes alone do not tell what they are filled into."""
    for i, field in enumerate(table.schema):
        wanted = first.field(i).type
        if field.type == wanted:
            continue
        column = table.column(i)
        if pa.types.is_floating(field.type) and pa.types.is_integer(wanted):
            column = pc.round(column)
        table = table.set_column(i, field.with_type(wanted), column.cast(wanted, safe=False))
    return table


@contextlib.contextmanager
def _bar(table: Path, doing: str) -> Iterator[Callable[[int], None]]:
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
        total = _rows(table) if console.is_terminal else None
        bar = progress.add_task(doing, total=total, told="reading, compiling")

        def advance(done: int) -> None:
            # The number of rows of a text file is known when all are read.
            whole = max(total or done, done)
            progress.update(bar, completed=done, total=whole, told=f"{done:,} of {whole:,} rows")

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
