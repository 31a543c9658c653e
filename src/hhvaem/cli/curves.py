"""`hhvaem paper curves`: validation scores and chains in the third stage of training."""

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
from hhvaem.errors import InputError


def curves(
    data: Annotated[str, typer.Option(metavar="NAME", help="The table.")] = "boston",
    models: Annotated[
        str, typer.Option(metavar="NAMES", help="Models with chains, with commas between them.")
    ] = "all",
    splits: Annotated[
        int, typer.Option(min=1, max=10, metavar="N", help="How many of the ten folds.")
    ] = 3,
    out: Out = Path("paper"),
    results: Results = None,
    quick: Annotated[
        bool, typer.Option("--quick", metavar="", help="At most two folds, few steps.")
    ] = False,
) -> None:
    """Follow the third stage of training on validation rows, and draw it.

    The validation rows are a tenth of the training rows of each fold, left out of training. Models
    that are in the file for the numbers already are not run again.
    """
    # Here, so that other commands start without JAX and matplotlib.
    from hhvaem.paper import curves as following
    from hhvaem.paper.drawing import write_picture
    from hhvaem.paper.folds import PUBLISHED
    from hhvaem.progress import training_bar

    names = chosen(data, tuple(PUBLISHED), "table")
    if len(names) != 1:
        raise InputError(f"The curves are those of one table, not of {len(names)}; name one.")
    kinds = chosen(models, following.CHAINED, "model with chains")
    if not kinds:
        raise none_named("model with chains", following.CHAINED)
    results, picture = results or out / "curves.json", out / "curves.png"
    prepare("curves", results, out, pictures=[picture])
    console = Console()
    with interruptible(lambda: f"the same command goes on with what is not in {results} yet."):
        found = following.complete(
            names[0],
            kinds,
            range(min(splits, QUICK_FOLDS) if quick else splits),
            results,
            quick=quick,
            say=partial(console.print, markup=False, soft_wrap=True),
            bar=partial(training_bar, console=console),
        )
    write_picture(following.draw(found), picture)
    console.print("\nFrom the start to the end of the third stage, means over folds:\n")
    console.print(_changes(found))
    console.print(
        "\nChains, encoder: log score of hidden validation cells by draws of either, nats per "
        "cell, lower is better. Acceptance: of the first and the last piece. Step: the median."
    )
    console.print(f"\nIn {bold(out)}: curves.png; all numbers in {bold(results)}.")


def _changes(found: dict[str, Any]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=0)
    table.add_column("model", no_wrap=True)
    for head in ("chains", "encoder", "acceptance", "step", "inflation"):
        table.add_column(head, justify="right", no_wrap=True)
    for model, each in found["models"].items():
        inflation = np.mean(each["inflation"], 0)[-1]
        table.add_row(
            model,
            _change(each["chains"]["log_score_cell"], ".3f"),
            _change(each["encoder"]["log_score_cell"], ".3f"),
            _change(each["acceptance"], ".2f"),
            _change(np.array(each["step_sizes"])[:, :, 1], ".2f"),
            ", ".join(f"{layer:.2f}" for layer in inflation),
        )
    return table


def _change(values: Any, form: str) -> str:
    means = np.mean(values, 0)
    return f"{means[0]:{form}} to {means[-1]:{form}}"
