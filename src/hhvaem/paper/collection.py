"""The runs of the paper's tables as files: one for each table and model, and one of all records."""

import contextlib
import json
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from hhvaem import __version__
from hhvaem.errors import InputError
from hhvaem.paper.records import is_number, read_json, write_json

if sys.platform != "win32":
    import fcntl

# The folds of a table.
FOLDS = range(10)
# What other ways to draw from a model add to its name; their records are in the model's file.
WAYS = (" by the encoder", " by the default sampler")


def place(folder: Path, table: str, model: str) -> Path:
    """Give the file of a table and a model."""
    return folder / f"{table}-{model.replace(' ', '-')}.json"


def read_run(path: Path) -> dict[str, Any] | None:
    """Read a run; None where there is none yet.

    Raises
    ------
    InputError
        Where the file is no run, or one of another version.
    """
    if not path.exists():
        return None
    try:
        run = read_json(path)
        version, folds = run["versions"]["hhvaem"], [each["fold"] for each in run["records"]]
    except (OSError, KeyError, TypeError) as error:
        raise no_run(path) from error
    if not all(map(is_fold, folds)):
        raise no_run(path)
    check_version(path, version)
    return run


def check_version(path: Path, version: object) -> None:
    """Refuse a file of another version.

    Raises
    ------
    InputError
        Naming both versions.
    """
    if version != __version__:
        raise InputError(
            f"{path} was made by version {version} and this is {__version__}; results of two "
            "versions are not mixed: name another folder, or move that one away."
        )


def no_run(path: Path) -> InputError:
    """Say that a file is not what it should be."""
    return InputError(
        f"{path} is no run of a model on a table; move it away, or name another folder."
    )


def is_fold(number: object) -> bool:
    """Say whether something read is the number of a fold; JSON's `true` is none.

    Examples
    --------
    >>> is_fold(9), is_fold(10), is_fold(True), is_fold(1.0)
    (True, False, False, False)
    """
    return type(number) is int and number in FOLDS


def are_records(found: object) -> bool:
    """Say whether something read is a list of records of scores, of each fold one at most."""
    if not isinstance(found, list) or not all(map(_is_record, found)):
        return False
    return len({(each["table"], each["model"], each["fold"]) for each in found}) == len(found)


def _is_record(each: object) -> bool:
    texts = {"table", "model", "device"}
    return (
        isinstance(each, dict)
        and texts | {"fold"} <= set(each)
        and is_fold(each["fold"])
        and all(isinstance(v, str) if k in texts else is_number(v) for k, v in each.items())
        and each.get("train_seconds", 0) >= 0
    )


def read_alike(path: Path, about: dict[str, Any]) -> dict[str, Any] | None:
    """Read a run to which folds are to be added, before they are run; None where there is none yet.

    Parameters
    ----------
    path
        Its file.
    about
        What two runs must share for their folds to stand beside each other.

    Raises
    ------
    InputError
        Where the file is no run, or one of another version, or was made with other settings.
    """
    run = read_run(path)
    if run is not None:
        check_alike(path, run, about)
    return run


def check_alike(path: Path, run: dict[str, Any], about: dict[str, Any]) -> None:
    """Refuse a file that was made with other settings.

    Raises
    ------
    InputError
        Naming the first that differs.
    """
    now = json.loads(json.dumps(about))
    then = {name: run.get(name) for name in now}
    different = next(_differences(then, now), None)
    if different is not None:
        name, was, is_now = different
        raise InputError(
            f"{path} was made with {name}={was!r}, and this run has {is_now!r}; name another "
            "folder, or move that file away."
        )


def _differences(
    then: dict[str, Any], now: dict[str, Any], within: str = ""
) -> Iterator[tuple[str, Any, Any]]:
    """Give the names of the innermost entries that differ, and both values of each."""
    for name in now | then:
        was, is_now = then.get(name), now.get(name)
        if isinstance(was, dict) and isinstance(is_now, dict):
            yield from _differences(was, is_now, f"{within}{name}.")
        elif was != is_now:
            yield within + name, was, is_now


def missing_folds(run: dict[str, Any] | None, folds: Iterable[int]) -> list[int]:
    """Give the folds that a run does not have yet."""
    there = {record["fold"] for record in run["records"]} if run else set()
    return [fold for fold in folds if fold not in there]


def add_run(path: Path, about: dict[str, Any], found: dict[str, Any]) -> None:
    """Write a run, with the folds that are there already.

    While it was made, another command may have written the file: folds that are there are kept as
    they are.

    Parameters
    ----------
    path
        Its file.
    about
        What two runs must share for their folds to stand beside each other.
    found
        All else that goes into the file, with the records of some folds.

    Raises
    ------
    InputError
        Where the file cannot be written, or is not one that `read_alike` lets pass.
    """
    with alone(path.parent):
        before = read_alike(path, about)
        there = before["records"] if before else []
        new = set(missing_folds(before, (each["fold"] for each in found["records"])))
        added = [each for each in found["records"] if each["fold"] in new]
        if added:
            records = sorted([*there, *added], key=lambda each: each["fold"])
            write_json(about | found | {"records": records}, path)


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Let no other command gather or add runs in a folder; the lock ends with the process."""
    with contextlib.ExitStack() as cleaning:
        # Windows opens no folders, and some file systems have no locks.
        with contextlib.suppress(OSError):
            opened = os.open(folder, os.O_RDONLY)
            cleaning.callback(os.close, opened)
            if sys.platform != "win32":
                fcntl.flock(opened, fcntl.LOCK_EX)
        yield


def gather_runs(folder: Path, abouts: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give the records of all runs that are there.

    Parameters
    ----------
    folder
        Where the runs are.
    abouts
        What each of them must be (`read_alike`), in the order that records are to have.

    Raises
    ------
    InputError
        Where a file is no run, or one of another version, or was made with other settings.
    """
    records = []
    for about in abouts:
        path = place(folder, about["table"], about["model"])
        run = read_alike(path, about)
        if run is None:
            continue
        if not are_records(run["records"]) or not all(_is_of(about, r) for r in run["records"]):
            raise no_run(path)
        records += run["records"]
    return records


def _is_of(about: dict[str, Any], record: dict[str, Any]) -> bool:
    """Say whether a record is of the table and the model of a run, in whatever way it was drawn."""
    model = about["model"]
    names = (model, *(model + way for way in WAYS))
    return record["table"] == about["table"] and record["model"] in names
