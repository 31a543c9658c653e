"""`hhvaem paper saia`: asking for one cell after the other, with the paper's models."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich import box
from rich.console import Console
from rich.table import Table

from hhvaem.cli.places import Out, Results, bold, interruptible, prepare
from hhvaem.cli.tables import QUICK_FOLDS, chosen, none_named

QUICK = ("yacht",)
PICTURES = {
    "error": "saia.png",
    "log_likelihood": "saia-likelihood.png",
    "seconds": "saia-seconds.png",
}


def saia(
    data: Annotated[
        str, typer.Option(metavar="NAMES", help="Tables, with commas between them.")
    ] = "all",
    splits: Annotated[
        int, typer.Option(min=1, max=10, metavar="N", help="How many of the ten folds.")
    ] = 10,
    rows: Annotated[
        int, typer.Option(min=1, metavar="N", help="Test rows of a fold at most.")
    ] = 500,
    out: Out = Path("paper"),
    results: Results = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            metavar="",
            help="One small table, two folds, few training steps, and two questions about each "
            "of eight test rows of a fold.",
        ),
    ] = False,
) -> None:
    """Ask for the cells of test rows, one after the other, and draw how predictions fare.

    What is in the folder already is not run again, so that a run that was stopped goes on.
    """
    # Here, so that other commands start without JAX and matplotlib.
    from hhvaem.datasets import load
    from hhvaem.paper import asking, collection
    from hhvaem.paper import saia as lines
    from hhvaem.paper.drawing import write_picture
    from hhvaem.paper.records import write_json
    from hhvaem.progress import training_bar

    names = chosen(data, QUICK if quick and data == "all" else lines.TABLES, "table")
    if not names:
        raise none_named("table", lines.TABLES)
    folds = range(min(splits, QUICK_FOLDS) if quick else splits)
    gathered, folder = results or out / "saia.json", out / "saia"
    pictures = {what: out / name for what, name in PICTURES.items()}
    prepare("saia", gathered, out, pictures=pictures.values(), runs=folder)
    abouts = asking.identities(rows=rows, quick=quick)
    # Before the work, all that its results would stand beside, and all tables that it needs.
    lines.gather(folder, abouts)
    for name in names:
        if not lines.place(folder, name).exists():
            load(name, as_published=True)
    console = Console()
    with interruptible(lambda: f"the same command goes on with what is not in {folder} yet."):
        for name in names:
            asking.complete(
                name,
                folds,
                folder,
                rows=rows,
                quick=quick,
                say=console.print,
                bar=partial(training_bar, console=console),
            )
    with collection.alone(folder):  # so that no command writes fewer runs over those of another
        found = lines.gather(folder, abouts)
        write_json(found, gathered)
    for what, path in pictures.items():
        write_picture(lines.draw(found, what), path)
    console.print(_areas(found))
    console.print(
        "Means over folds. Area and last: RMSE of the target in its units (of two targets "
        "together), or share of wrong levels, as mean over steps and after the last. Likelihood: "
        "log p(target) in nats, mean over steps. Time: milliseconds per row and step, compilation "
        "left out."
    )
    console.print(
        f"\nIn {bold(out)}: {', '.join(PICTURES.values())}; all numbers in {bold(gathered)}, "
        f"tables in {bold(folder)}."
    )


def _areas(found: dict[str, Any]) -> Table:
    from hhvaem.paper import saia as lines

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for head in ("table", "line"):
        table.add_column(head, no_wrap=True)
    for head in ("area", "last", "likelihood", "time"):
        table.add_column(head, justify="right", no_wrap=True)
    for run in found["tables"]:
        for line in lines.LINES:
            error = lines.curve(run, line, "error")
            table.add_row(
                run["table"],
                line,
                f"{error.mean():.4g} ± {error.mean(1).std():.2g}",
                f"{error[:, -1].mean():.4g}",
                f"{lines.curve(run, line, 'log_likelihood').mean():.3f}",
                f"{np.median(lines.curve(run, line, 'seconds')[:, :-1]):.3g}",
            )
        table.add_section()
    return table
