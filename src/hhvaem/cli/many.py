"""`hhvaem impute` on many files: a folder of parts, by this process or by those of Ray."""

import contextlib
import sys
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from hhvaem.cli.places import interruptible
from hhvaem.cli.streams import bar
from hhvaem.containers import some
from hhvaem.errors import InputError
from hhvaem.files import SUFFIXES
from hhvaem.many import RECORD, Job, Outcome, begin, check_folder, found_files, planned, record_of
from hhvaem.parts import Filling, tell


class Engine(StrEnum):
    """Who fills many files."""

    LOCAL = "local"
    RAY = "ray"


Workers = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="With --engine ray, how many processes of one core each; else one for each core.",
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="With --engine ray, where Ray runs; else it is started on this machine.",
    ),
]


def fill_many(
    model: Path,
    imputer: Any,
    table: Path,
    out: Path,
    filling: Filling,
    rows: int,
    *,
    missing: Sequence[str],
    shift: Sequence[str],
    engine: Engine,
    workers: int | None,
    address: str | None,
) -> dict[str, int]:
    """Fill files into a folder, and give what is to be told of it.

    Raises
    ------
    InputError
        Before anything is written, where one of the files cannot be filled; after all others
        are, where one is not any more what it was.
    """
    if table.is_dir() and out.resolve().is_relative_to(table.resolve()):
        raise InputError(f"{out} is in the folder that is read; name another with --out.")
    _check_name(out)
    # Workers are started in other folders.
    job = planned(
        [path.absolute() for path in found_files(table, out)],
        out.absolute(),
        imputer,
        filling,
        rows,
        missing=missing,
    )
    options = {
        "draws": filling.draws,
        "posterior": filling.posterior,
        "intervals": filling.intervals,
        "shift": list(shift),
        "missing": list(missing),
    }
    record = record_of(job, model, options)
    check_folder(job, record)
    absent = job.absent()
    if not absent:
        return _facts(job, [])
    done: list[Outcome] = []

    def left() -> str:
        here = len(job.blocks) - len(job.absent())
        return f"{here:,} of {len(job.blocks):,} parts are in {out}; the same command goes on."

    with interruptible(left), _ready(engine, address), bar("Filling", lambda: job.count) as advance:
        outcomes = _outcomes(job, absent, imputer, model, engine, workers)
        begin(job, record)
        count = job.count - sum(_rows(job, number) for number in absent)
        for outcome in outcomes:
            done.append(outcome)
            count += _rows(job, outcome.block)
            advance(count)
    tell([note for outcome in done for note in outcome.notes])
    _refuse_lost(job, done)
    return _facts(job, done)


def _check_name(out: Path) -> None:
    """Refuse to make a folder that is named as a table."""
    folder = out
    while folder.suffix.lower() in (*SUFFIXES, ".gz"):
        folder = folder.with_suffix("")
    if folder != out and not (out / RECORD).exists():
        raise InputError(
            f"{out} is named as a table, and --out would be a folder of many files here; name it "
            f"otherwise, such as {folder}."
        )


@contextlib.contextmanager
def _ready(engine: Engine, address: str | None) -> Iterator[None]:
    """Have Ray where it is asked for."""
    if engine is Engine.RAY:
        from hhvaem.distributed import connected

        # Ray tells of lost workers where results are to be printed.
        with contextlib.redirect_stdout(sys.stderr), connected(address):
            yield
    else:
        yield


def _outcomes(
    job: Job, numbers: list[int], imputer: Any, model: Path, engine: Engine, workers: int | None
) -> Iterator[Outcome]:
    if engine is Engine.LOCAL:
        return (job.fill(imputer, number) for number in numbers)
    from hhvaem.distributed import filled_blocks

    return filled_blocks(job, numbers, model, workers=workers)


def _rows(job: Job, number: int) -> int:
    return job.blocks[number].stop - job.blocks[number].start


def _refuse_lost(job: Job, done: Sequence[Outcome]) -> None:
    """Tell of the files that were there when the work began, and could not be filled."""
    lost: dict[Path, str] = {}
    for outcome in sorted(done, key=lambda each: each.block):
        if outcome.error:
            lost.setdefault(job.blocks[outcome.block].input.path, outcome.error)
    if lost:
        reasons = [
            (error if str(path) in error else f"{path}: {error}").rstrip(".")
            for path, error in lost.items()
        ]
        raise InputError(f"{some(reasons, '; ', most=5)}; all else is in {job.out}.")


def _facts(job: Job, done: Sequence[Outcome]) -> dict[str, int]:
    return {
        "files": len(job.inputs),
        "parts": len(job.blocks),
        "written": sum(not outcome.error for outcome in done),
        "rows": job.count,
        "filled": sum(outcome.filled for outcome in done),
        "left": sum(outcome.left for outcome in done),
    }
