"""The runs of the paper's tables as files: one for each table and model, and one of all records."""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from hhvaem import __version__
from hhvaem.errors import InputError
from hhvaem.paper.records import write_json


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
        run = json.loads(path.read_text())
        version, _ = run["versions"]["hhvaem"], {each["fold"] for each in run["records"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path} is no run of a model on a table; move it away, or name another folder."
        ) from error
    if version != __version__:
        raise InputError(
            f"{path} was made by version {version} and this is {__version__}; results of two "
            "versions are not mixed: name another folder, or move that one away."
        )
    return run


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
    if run is None:
        return None
    now = json.loads(json.dumps(about))
    then = {name: run.get(name) for name in now}
    different = next(_differences(then, now), None)
    if different is not None:
        name, was, is_now = different
        raise InputError(
            f"{path} was made with {name}={was!r}, and this run has {is_now!r}; name another "
            "folder, or move that file away."
        )
    return run


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


def gather_runs(folder: Path, tables: Sequence[str], models: Sequence[str]) -> list[dict[str, Any]]:
    """Give the records of all runs that are there, tables and models in the order given."""
    runs = (read_run(place(folder, table, model)) for table in tables for model in models)
    return [record for run in runs if run is not None for record in run["records"]]
