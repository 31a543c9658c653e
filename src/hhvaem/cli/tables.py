"""`hhvaem paper tables`: the five models of the paper on its ten tables."""

import difflib
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hhvaem.cli.places import bold, interruptible, prepare
from hhvaem.containers import listed
from hhvaem.errors import InputError

# Small tables, and how many of their folds.
QUICK, QUICK_FOLDS = ("wine", "diabetes"), 2
SHOWN = {
    "paper_nll_missing": "missing",
    "paper_nll_target": "target",
    "paper_nll_observed": "observed",
    "paper_rmse_missing": "error",
    "log_score_cell": "log score",
    "crps": "CRPS",
    "coverage90": "90 %",
}


def tables(
    data: Annotated[
        str, typer.Option(metavar="NAMES", help="Tables, with commas between them.")
    ] = "all",
    models: Annotated[
        str, typer.Option(metavar="NAMES", help="Models, with commas between them.")
    ] = "all",
    baselines: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="Peers beside them, with commas between; those that take long get two folds.",
        ),
    ] = "none",
    ablations: Annotated[
        bool,
        typer.Option(
            "--ablations", metavar="", help="Also HH-VAEM without some of its parts, and more."
        ),
    ] = False,
    own_kinds: Annotated[
        bool,
        typer.Option(
            "--own-kinds",
            metavar="",
            help="Columns as what they are, not as the published code takes them: not to be laid "
            "beside the paper's numbers, and for a folder of their own.",
        ),
    ] = False,
    splits: Annotated[
        int, typer.Option(min=1, max=10, metavar="N", help="How many of the ten folds.")
    ] = 10,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for the results.")] = Path(
        "paper"
    ),
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            metavar="",
            help="Two small tables, two folds, few steps: about five minutes on two cores, most "
            "of them to compile.",
        ),
    ] = False,
) -> None:
    """Train the models of the paper on folds of its tables, and test them.

    What is in the folder already is not run again, so that a run that was stopped goes on.
    """
    # Here, so that other commands start without JAX.
    from hhvaem.baselines import BASELINES
    from hhvaem.datasets import load
    from hhvaem.paper import collection
    from hhvaem.paper.folds import PUBLISHED
    from hhvaem.paper.records import write_json
    from hhvaem.paper.tables import ABLATIONS, MODELS, complete, identities
    from hhvaem.progress import training_bar

    names = chosen(data, QUICK if quick and data == "all" else tuple(PUBLISHED), "table")
    if not names:
        raise none_named("table", tuple(PUBLISHED))
    kinds = [
        *chosen(models, tuple(MODELS), "model"),
        *(ABLATIONS if ablations else ()),
        *chosen(baselines, tuple(BASELINES), "baseline"),
    ]
    if not kinds:
        raise none_named("model or baseline", (*MODELS, *BASELINES))
    folds = range(min(splits, QUICK_FOLDS) if quick else splits)
    gathered, folder = out / "tables.json", out / "tables"
    prepare("tables", gathered, out, runs=folder, option="--out")
    abouts = identities(as_published=not own_kinds, quick=quick)
    # Before the work, all that its results would stand beside, and all tables that it needs.
    collection.gather_runs(folder, abouts)
    for name in names:
        if not all(collection.place(folder, name, kind).exists() for kind in kinds):
            load(name, as_published=not own_kinds)
    console = Console()
    with interruptible(lambda: f"the same command goes on with what is not in {folder} yet."):
        for name in names:
            complete(
                name,
                kinds,
                folds,
                folder,
                as_published=not own_kinds,
                quick=quick,
                say=console.print,
                bar=partial(training_bar, console=console),
            )
    with collection.alone(folder):  # so that no command writes fewer records over those of another
        records = collection.gather_runs(folder, abouts)
        write_json({"records": records}, gathered)
    console.print(_means(records, names, kinds))
    console.print(
        "Means over folds. Missing, target, observed, error: the paper's scores, by its formulas "
        "and in its units. Log score, CRPS, 90 %: proper ones of hidden cells."
    )
    console.print(f"\nAll records in {bold(gathered)}, runs in {bold(folder)}.")


def chosen(text: str, known: tuple[str, ...], what: str) -> list[str]:
    """Give the names that a list with commas has, in the order of those known."""
    if text in ("all", "none"):
        return list(known) if text == "all" else []
    wanted = [name.strip() for name in text.split(",") if name.strip()]
    if not wanted:
        raise none_named(what, known)
    folded = {name.lower(): name for name in known}
    for name in wanted:
        if name.lower() not in folded:
            near = difflib.get_close_matches(name.lower(), folded, n=1)
            hint = f"did you mean {folded[near[0]]!r}?" if near else f"there are {listed(known)}."
            raise InputError(f"There is no {what} {name!r} in the paper; {hint}")
    return [name for name in known if name.lower() in {each.lower() for each in wanted}]


def none_named(what: str, known: tuple[str, ...]) -> InputError:
    """Say that there is nothing to do, and what there could be."""
    return InputError(f"No {what} is named; there are {listed(known)}.")


def _means(records: list[dict[str, Any]], names: Iterable[str], kinds: Iterable[str]) -> Table:
    from hhvaem.paper.collection import WAYS

    asked = {kind + way for kind in kinds for way in ("", *WAYS)}
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("model")
    # Of what a narrow terminal has no room for, names and heads go on in the next line.
    for head in ("folds", *SHOWN.values()):
        words = max(map(len, head.split()))
        table.add_column(head, justify="right", min_width=max(words, len("0.000")))
    for name in names:
        there = [r for r in records if r["table"] == name and r["model"] in asked]
        table.add_row(f"[bold]{name}[/]")
        for model in dict.fromkeys(r["model"] for r in there):
            own = [r for r in there if r["model"] == model]
            means = [_mean([r[score] for r in own if score in r]) for score in SHOWN]
            table.add_row(escape(model), str(len(own)), *means)
        table.add_section()
    return table


def _mean(values: list[float]) -> str:
    return f"{np.mean(values):.3f}" if values else ""
