"""The runs of the paper's tables as files: one for each table and model, and one of all records."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from hhvaem import __version__
from hhvaem.errors import InputError
from hhvaem.paper.records import read_json, write_json


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
    if not all(isinstance(fold, int) for fold in folds):
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


def is_record(each: object) -> bool:
    """Say whether something read is a record of scores."""
    texts = {"table", "model", "device"}
    return (
        isinstance(each, dict)
        and texts | {"fold"} <= set(each)
        and all(isinstance(v, str if k in texts else int | float) for k, v in each.items())
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


def add_run(path: Path, run: dict[str, Any]) -> None:
    """Write a run, with the folds that are there already and that `read_alike` has let pass.

    Raises
    ------
    InputError
        Where the file cannot be written.
    """
    before = read_run(path)
    if before is not None:
        records = sorted([*before["records"], *run["records"]], key=lambda each: each["fold"])
        run = {**run, "records": records}
    write_json(run, path)


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
        if not all(is_record(each) and each["table"] == run["table"] for each in run["records"]):
            raise no_run(path)
        records += run["records"]
    return records
