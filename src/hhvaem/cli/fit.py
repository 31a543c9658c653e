"""`hhvaem fit`: a model of a table, in a file."""

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.filesize import decimal
from rich.markup import escape

from hhvaem.cli import leaving_at_once
from hhvaem.cli.places import Json, check_apart, check_place, interruptible
from hhvaem.cli.schema import Kinds, Missing, parsed_kinds, ranked, schema_report
from hhvaem.containers import listed, some
from hhvaem.errors import InputError
from hhvaem.files import SUFFIXES, would_be_read
from hhvaem.sources import FEWEST_HELD, source_of, survey
from hhvaem.tasks import Task, task_of

if TYPE_CHECKING:
    from hhvaem.estimators.base import Estimator


Steps = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Training steps at most; else those of the preset."),
]
Seed = Annotated[
    int,
    typer.Option(min=0, max=2**32 - 1, metavar="N", help="Where all randomness comes from."),
]


class Preset(StrEnum):
    """Settings that go together."""

    DEFAULT = "default"
    PAPER = "paper"
    FAST = "fast"


def fit(
    table: Annotated[
        Path,
        typer.Argument(
            metavar="TABLE",
            help="A CSV, Parquet or Feather file, with holes, or a folder of them; of any length.",
        ),
    ],
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="File for the model, such as clinic.hhvaem.")
    ],
    target: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="A column to predict; may be repeated. Without one, the model fills holes.",
        ),
    ] = None,
    task: Annotated[
        Task | None,
        typer.Option(
            metavar="TASK",
            help="How to take the targets: `regression` or `classification`; else told from their "
            "values.",
        ),
    ] = None,
    kind: Kinds = None,
    missing: Missing = None,
    preset: Annotated[
        Preset,
        typer.Option(
            metavar="NAME",
            help="Settings: `default`, those of the `paper`, or `fast` ones that train in seconds.",
        ),
    ] = Preset.DEFAULT,
    members: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Models to train, or as many as the preset has; with more than one, draws show "
            "what the table leaves open.",
        ),
    ] = None,
    steps: Steps = None,
    rows_at_once: Annotated[
        int | None,
        typer.Option(
            min=FEWEST_HELD,
            metavar="N",
            help="Rows that training holds at once; else as many as have a million cells. Of a "
            "table with more rows, blocks are drawn at random.",
        ),
    ] = None,
    seed: Seed = 0,
    snapshots: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="From where the same command goes on if it is interrupted."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Fit a model to a table: to fill holes, or with --target to predict columns."""
    # Before the work, which would be lost.
    kept = {}
    if snapshots is not None:
        names = {"the snapshot": snapshots, "a snapshot of it": snapshots / "choice"}
        kept = {what: folder / "snapshot.safetensors" for what, folder in names.items()}
    check_apart(out, {"the table": table, **kept})
    _check_suffix(out)
    _check_outside(table, {"--out": out, "--snapshots": snapshots})
    check_place(out)
    start = time.monotonic()
    targets = list(dict.fromkeys(target or []))
    told = Console(quiet=as_json)
    with leaving_at_once():
        kinds, orders = parsed_kinds(kind or [])
        source = replace(source_of(table, missing or ()), change=lambda part: ranked(part, orders))
        names = source.types.names
        _check_targets(table, names, targets, kinds)
        found = survey(source, kinds, leave=targets)
        chosen = None
        if targets:
            others = [name for name in names if name not in targets]
            chosen = task_of(survey(source, None, leave=others).kept, targets, task)
        told.print(schema_report(replace(found.schema, filled=chosen is None)))
        if chosen:
            told.print(f"\n{escape(some(targets))}: {chosen} ({_reason(chosen, task)}).")
        told.print()
        # Here, so that other commands start without JAX.
        from hhvaem import Classifier, Imputer, Regressor
    with interruptible(lambda: _kept(snapshots)):
        options: dict[str, Any] = {
            "preset": preset.value,
            "kinds": kinds or None,
            "members": members,
            "max_steps": steps,
            "rows_at_once": rows_at_once,
            "random_state": seed,
            "snapshots": snapshots,
            "verbose": int(Console(stderr=True).is_terminal),
        }
        model: Estimator
        if chosen is None:
            model = Imputer(**options).fit(source)
        else:
            cls = Regressor if chosen == Task.REGRESSION else Classifier
            model = cls(**options).fit(source, targets if len(targets) > 1 else targets[0])
        model.save(out)
    record: dict[str, Any] = {} if model.fitted_ is None else model.fitted_.record
    facts = {
        "out": str(out),
        "bytes": out.stat().st_size,
        "estimator": type(model).__name__,
        "targets": targets,
        "rows": found.rows,
        "columns": len(found.schema),
        "modelled": len(found.schema.modelled),
        "members": model.members_,
        "seed": seed,
        "seconds": round(time.monotonic() - start, 3),
        **record,
        "schema": json.loads(found.schema.to_json()),
    }
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
    else:
        told.print(*_summary(facts), sep="\n", highlight=False)


def _check_outside(table: Path, written: Mapping[str, Path | None]) -> None:
    """Refuse to write among the files of a table, of which what is written would be one."""
    for option, path in written.items():
        if path is not None and would_be_read(path, table):
            what = "in the folder" if table.is_dir() else "named by the pattern"
            raise InputError(f"{path} is {what} that is read; name another with {option}.")


def _check_suffix(out: Path) -> None:
    if out.suffix.lower() in (*SUFFIXES, ".gz"):
        raise InputError(
            f"{out} is named as a table, and would hold a model; name it otherwise, such as "
            f"{out.with_suffix('.hhvaem')}."
        )


def _check_targets(path: Path, names: list[str], targets: list[str], kinds: dict[str, str]) -> None:
    absent = [name for name in targets if name not in names]
    if absent:
        raise InputError(
            f"{path} has no column {listed(absent)} to predict; its columns are {listed(names)}."
        )
    both = [name for name in targets if name in kinds]
    if both:
        raise InputError(
            f"--kind says what {listed(both)} is, which is a target; use --task for targets."
        )
    if len(targets) == len(names):
        raise InputError(f"{path} has no column beside {listed(targets)} to predict from.")


def _reason(chosen: Task, asked: Task | None) -> str:
    other = next(task for task in Task if task != chosen)
    return "as asked" if asked else f"else say --task {other}"


def _kept(snapshots: Path | None) -> str:
    """Say what is left of a fit that was interrupted."""
    if snapshots is None:
        return "nothing is kept; with --snapshots FOLDER an interrupted fit goes on where it was."
    if not any(snapshots.rglob("*.safetensors")):
        return "there was nothing to keep yet; the same command starts again."
    return f"what was trained is in {snapshots}; the same command goes on from there."


def _summary(facts: dict[str, Any]) -> tuple[str, ...]:
    """Say where the model is, and what it has learned."""
    fills = facts["estimator"] == "Imputer"
    article = "an" if fills else "a"
    steps = f"{facts['steps']} steps " if "steps" in facts else ""
    where = (
        f"In [bold]{escape(facts['out'])}[/] ({decimal(facts['bytes'])}): {article} "
        f"{facts['estimator']} of {facts['modelled']} columns, {steps}in "
        f"{facts['seconds']:.0f} seconds."
    )
    if "steps" not in facts:
        return where, "No column needs a model: holes are filled with the only value there is."
    factor = f"{np.exp(np.mean(facts['gain_per_hidden_cell'])):.3g}"
    learned = (
        "Hidden cells are predicted no better than by their column alone."
        if float(factor) <= 1
        else "Hidden cells are predicted better than by their column alone: they are "
        f"{factor} times as probable."
    )
    # Only what fills holes can be evaluated.
    further = ["`hhvaem evaluate` says of each column whether its fills can be trusted."]
    return where, learned, *(further if fills else [])
