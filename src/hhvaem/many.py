"""Many files filled into a folder, block by block: each block once, and none by halves.

A block is some rows of one file, and what is made of it is a file of its own. What is done is what
is there, so that an interrupted job goes on; a record in the folder says what job it is.
"""

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from hhvaem import __version__
from hhvaem.atomic import replacing
from hhvaem.containers import listed, repeated, some
from hhvaem.errors import InputError, rows_named
from hhvaem.files import TEXT_SUFFIXES, check_format, files_of, told
from hhvaem.parts import (
    Filling,
    alike,
    check_columns,
    count_holes,
    noted,
    types_in_text,
    used_names,
)
from hhvaem.streaming import OpenTable, open_rows, write_chunks

RECORD = "hhvaem.json"
TRIES = ".hhvaem.*.tries"  # in which workers count how often they have begun a block
# Parts of a block: so many that its file is not small, so few that little is lost with a worker.
PARTS = 16
_DIGITS = 5  # of the number of a block, at least
_LONGEST = 255  # characters of a name in the record, as systems allow files


@dataclass(frozen=True)
class Input:
    """A file to be filled, as it was when the job was planned."""

    source: OpenTable
    size: int
    changed: int  # when, in nanoseconds
    before: int  # rows in the files before it
    schema: pa.Schema  # of what is made of it

    @property
    def path(self) -> Path:
        """Where it is."""
        return self.source.path

    def check_unchanged(self) -> None:
        """Refuse a file that is not what it was.

        Raises
        ------
        InputError
            Naming it.
        """
        with told(self.path, "read"):
            found = self.path.stat()
        if (found.st_size, found.st_mtime_ns) != (self.size, self.changed):
            raise InputError(f"{self.path} has changed since the work began.")


@dataclass(frozen=True)
class Block:
    """Rows of an input, from `start` up to `stop`, and where they are written to."""

    input: Input
    start: int
    stop: int
    out: Path


@dataclass(frozen=True)
class Outcome:
    """What has become of a block."""

    block: int
    filled: int = 0
    left: int = 0
    notes: tuple[str, ...] = ()
    error: str | None = None

    def to_json(self) -> str:
        """Write it down, for another process."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Outcome":
        """Read it again."""
        facts = json.loads(text)
        return cls(**facts | {"notes": tuple(facts["notes"])})


@dataclass(frozen=True)
class Job:
    """Files to be filled in one way into one folder."""

    inputs: tuple[Input, ...]
    out: Path
    filling: Filling
    rows: int  # at once

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """All of them, in the order of their rows."""
        return tuple(block for each in self.inputs for block in self._blocks(each))

    @property
    def count(self) -> int:
        """How many rows there are."""
        return sum(each.source.rows for each in self.inputs)

    def absent(self) -> list[int]:
        """Give the numbers of the blocks that are yet to be written."""
        return [i for i, block in enumerate(self.blocks) if not self._is_there(block)]

    def fill(self, imputer: Any, number: int) -> Outcome:
        """Fill a block and put it in its place, unless it is there."""
        block, notes = self.blocks[number], list[str]()
        filled = left = 0
        # A worker may be lost when it has written a block, and before it could say so.
        there = self._is_there(block)
        try:
            block.input.check_unchanged()
            with contextlib.nullcontext() if there else write_chunks(block.out) as written:
                done = block.start
                for part in block.input.source.chunks(block.start, block.stop, self.rows):
                    own, others = count_holes(part, imputer.schema_)
                    filled, left = filled + own, left + others
                    if written:
                        with noted(notes), rows_named(done.__add__):
                            before = block.input.before + done
                            made = self.filling(imputer, block.input.path, part, before)
                        written.write(alike(made, block.input.schema))
                    done += part.num_rows
                # Here, since it may have been another one that was read.
                block.input.check_unchanged()
        except InputError as error:
            return Outcome(number, notes=tuple(notes), error=None if there else str(error))
        return Outcome(number, filled, left, tuple(dict.fromkeys(notes)))

    def _is_there(self, block: Block) -> bool:
        """Say whether a block is written, as far as can be told without reading its rows."""
        if _stem_and_suffix(block.out)[1].removesuffix(".gz") in TEXT_SUFFIXES:
            return block.out.is_file() and block.out.stat().st_size > 0
        try:
            rows = open_rows(block.out).rows
        except InputError:  # it is not there, or was cut off since
            return False
        return rows == (block.stop - block.start) * (self.filling.draws or 1)

    def _blocks(self, each: Input) -> Iterator[Block]:
        stem, suffix = _stem_and_suffix(each.path)
        rows, length = each.source.rows, PARTS * self.rows
        # A table without rows has a block without rows.
        for number, start in enumerate(range(0, max(rows, 1), length)):
            out = self.out / f"{stem}-{number:0{_DIGITS}}{suffix}"
            yield Block(each, start, min(start + length, rows), out)


def found_files(table: Path, out: Path) -> list[Path]:
    """Give the files to be filled into a folder: of a folder or a pattern, or the only one.

    Raises
    ------
    InputError
        Where there is none, or not all are tables of one format and of names of their own.
    """
    found = files_of(table, out)
    twice = repeated("".join(_stem_and_suffix(path)) for path in found)
    if twice:
        raise InputError(
            f"More than one file is named {twice}, and their parts would be, too; fill one folder "
            "at a time."
        )
    for path in found:
        if _stem_and_suffix(path)[1] != _stem_and_suffix(found[0])[1]:
            raise InputError(
                f"{path} and {found[0]} are of different formats; name files of one, as in "
                "'in/*.parquet'."
            )
    return found


def planned(
    paths: Sequence[Path],
    out: Path,
    imputer: Any,
    filling: Filling,
    rows: int,
    *,
    missing: Sequence[str] = (),
) -> Job:
    """Look at all files before anything is done with one.

    Parameters
    ----------
    paths
        Where from, in the order in which their rows are counted.
    out
        The folder to write to.
    imputer
        Which is asked for its columns only.
    filling, rows
        How, and how many rows at once.
    missing
        Texts that mean a missing value.

    Raises
    ------
    InputError
        Naming the first file that cannot be filled, or is not as the first one.
    """
    from hhvaem.shifting import checked_shifts  # here, since JAX comes with it

    schema, inputs, before = imputer.schema_, list[Input](), 0
    checked_shifts(filling.shift, schema)
    suffix = _stem_and_suffix(paths[0])[1].removesuffix(".gz")
    text = suffix in TEXT_SUFFIXES
    typed = used_names(schema) if text else None
    for path in paths:
        with told(path, "read"):
            found = path.stat()
        source = open_rows(path, types_in_text(schema), missing=missing, typed=typed)
        if inputs:
            _check_like(source, inputs[0].source, text=text)
        else:
            check_columns(path, source.schema.names, schema.names, schema.names)
            check_format(out / path.name, suffix, source.schema)
        first = next(source.chunks(0, min(rows, source.rows), rows))
        try:
            made = filling.schema(imputer, path, first)
        except InputError as error:
            named = str(error).startswith(str(path))
            raise error if named else InputError(f"In {path}: {error}") from error
        inputs.append(Input(source, found.st_size, found.st_mtime_ns, before, made))
        before += source.rows
    return Job(tuple(inputs), out, filling, rows)


def record_of(job: Job, model: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """Say what decides what a job writes.

    Parameters
    ----------
    job
        The files.
    model
        The file of the model.
    options
        All that was asked for, as it goes into JSON.
    """
    with told(model, "read"):
        content = model.read_bytes()
    return {
        "version": __version__,
        "model": hashlib.sha256(content).hexdigest(),
        "options": {**options, "rows_at_once": job.rows},
        "inputs": [
            {"name": each.path.name, "size": each.size, "changed": each.changed}
            for each in job.inputs
        ],
    }


def check_folder(job: Job, record: Mapping[str, Any]) -> None:
    """Refuse a folder that has other files in it, or parts of another job.

    Raises
    ------
    InputError
        Naming them, or the file that is in its place.
    """
    if not job.out.exists():
        return
    with told(job.out, "read"):
        if not job.out.is_dir():
            raise InputError(
                f"{job.out} is a file, and what is made of many files is put into a folder; name "
                "one with --out."
            )
        names = {path.name for path in job.out.iterdir()}
    own = set[str]()
    if RECORD in names:
        _check_same(job, job.out / RECORD, record)
        own = {RECORD, *(block.out.name for block in job.blocks)}
    # What killed writers left is removed when something is written.
    others = [name for name in sorted(names - own) if not name.startswith(".hhvaem.")]
    if others:
        raise InputError(
            f"{job.out} has {listed(others)} in it, which this command did not write; name an "
            "empty folder with --out."
        )
    for block in job.blocks:
        if block.out.is_dir():
            raise InputError(
                f"{block.out} is a folder in the place of a file to be written; move it away, or "
                "name an empty folder with --out."
            )


def begin(job: Job, record: Mapping[str, Any]) -> None:
    """Make the folder of a job, and the record in it, and forget how often blocks were tried.

    Raises
    ------
    InputError
        Where it cannot be written.
    """
    with told(job.out, "written"):
        job.out.mkdir(parents=True, exist_ok=True)
        for left in job.out.glob(TRIES):
            left.unlink()
        with replacing(job.out / RECORD) as file:
            file.write(json.dumps(record, indent=2).encode() + b"\n")


def _check_same(job: Job, place: Path, record: Mapping[str, Any]) -> None:
    """Refuse a folder with parts of another job."""
    damaged = InputError(
        f"{place} is damaged; name an empty folder with --out, or remove {job.out}."
    )
    try:
        found = json.loads(place.read_bytes())
        known = {name: found[name] for name in record}
        options = dict(known["options"])
        inputs = {each["name"]: each for each in known["inputs"]}
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise damaged from error
    names = [*inputs, *options, known["version"]]
    named = all(isinstance(name, str) and len(name) <= _LONGEST for name in names)
    if not named or len(inputs) < len(known["inputs"]):
        raise damaged
    if known == record:
        return
    if known["version"] != record["version"]:
        what = f"by hhvaem {known['version']}"
    elif known["model"] != record["model"]:
        what = "by another model"
    elif options != record["options"]:
        asked = record["options"]
        other = [name for name in asked | options if asked.get(name) != options.get(name)]
        what = f"with another {some([name.replace('_', '-') for name in other])}"
    else:
        now = {each["name"]: each for each in record["inputs"]}
        other = sorted(name for name in now | inputs if now.get(name) != inputs.get(name))
        what = f"of other files than now ({listed(other)})" if other else "of files in other order"
    raise InputError(
        f"{job.out} has parts that were made {what}; name another folder with --out, or remove it."
    )


def _check_like(source: OpenTable, first: OpenTable, *, text: bool) -> None:
    """Refuse a file with other columns than the first one; texts have no types of their own."""
    path, names = source.path, first.schema.names
    if source.schema.names != names:
        raise InputError(
            f"{path} has the columns {listed(source.schema.names)}, but {first.path} has "
            f"{listed(names)}; give all files the same."
        )
    for name in names if not text else ():
        kind, known = source.schema.field(name).type, first.schema.field(name).type
        if kind != known:
            raise InputError(
                f"Column {name!r} is of dtype {kind} in {path}, but of {known} in {first.path}; "
                "cast it to one of them."
            )


def _stem_and_suffix(path: Path) -> tuple[str, str]:
    """Take the name of a file apart, before .csv.gz and before .csv."""
    packed = path.suffix.lower() == ".gz" and Path(path.stem).suffix.lower() in TEXT_SUFFIXES
    suffix = (Path(path.stem).suffix if packed else "") + path.suffix
    return path.name.removesuffix(suffix), suffix.lower()
