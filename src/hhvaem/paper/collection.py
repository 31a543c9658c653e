"""The runs of the paper's tables as files: one for each table and model, and one of all records."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from hhvaem import __version__
from hhvaem.errors import InputError
from hhvaem.paper.records import write_json

# What two runs must share for their folds to stand beside each other.
IDENTITY = (
    "table",
    "as_published",
    "model",
    "layers",
    "settings",
    "marginal_steps",
    "seed",
    "draws",
)


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


def missing_folds(run: dict[str, Any] | None, folds: Iterable[int]) -> list[int]:
    """Give the folds that a run does not have yet."""
    there = {record["fold"] for record in run["records"]} if run else set()
    return [fold for fold in folds if fold not in there]


def add_run(path: Path, run: dict[str, Any]) -> None:
    """Write a run, with the folds that are there already.

    Raises
    ------
    InputError
        Where those were made with other settings, or the file cannot be written.
    """
    before = read_run(path)
    if before is not None:
        for name in IDENTITY:
            now, then = json.loads(json.dumps(run.get(name))), before.get(name)
            if now != then:
                raise InputError(
                    f"{path} was made with {name}={then!r}, and this run has {now!r}; name "
                    "another folder, or move that file away."
                )
        records = sorted([*before["records"], *run["records"]], key=lambda each: each["fold"])
        run = {**run, "records": records}
    write_json(run, path)


def gather_runs(folder: Path, tables: Sequence[str], models: Sequence[str]) -> list[dict[str, Any]]:
    """Give the records of all runs that are there, tables and models in the order given."""
    runs = (read_run(place(folder, table, model)) for table in tables for model in models)
    return [record for run in runs if run is not None for record in run["records"]]
