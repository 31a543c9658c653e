"""`hhvaem paper images`: the five models of the paper on MNIST and Fashion-MNIST."""

import time
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
from hhvaem.cli.tables import chosen, none_named

# What is run to try the command out.
QUICK_SETS, QUICK_MODELS = ("mnist",), ("VAE", "HH-VAE")
SHOWN = {
    "paper_nll_missing": "missing",
    "paper_nll_target": "target",
    "target_accuracy": "accuracy",
    "log_score_cell": "log",
    "calibration_error_target": "ECE",
    "acceptance": "accepted",
}
# Shorter, so that a row of the table has one line.
SHORT = {
    " by the encoder": ", encoder",
    " by the default sampler": ", default",
    " with weight decay": ", decay",
}
Work = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER", help="Folder for trainings to go on from; else one in that of --out."
    ),
]
Minutes = Annotated[
    float | None,
    typer.Option(min=0.1, metavar="N", help="Leave off after so many minutes, to go on later."),
]


def images(
    data: Annotated[
        str, typer.Option(metavar="NAMES", help="mnist, fashion_mnist or both, with a comma.")
    ] = "all",
    models: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="Models, with commas between them; also those that are trained 'with weight "
            "decay'.",
        ),
    ] = "all",
    ablations: Annotated[
        bool, typer.Option("--ablations", metavar="", help="Also all models with weight decay.")
    ] = False,
    splits: Annotated[
        int, typer.Option(min=1, max=10, metavar="N", help="How many of the ten folds.")
    ] = 1,
    draws: Annotated[
        int, typer.Option(min=2, metavar="N", help="Draws of the latents of a test image.")
    ] = 1000,
    minutes: Minutes = None,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for the results.")] = Path(
        "paper"
    ),
    work: Work = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            metavar="",
            help="Two models of a few hundred images of MNIST, few steps: three minutes on two "
            "cores, most of them to compile. They show nothing of what trained models do.",
        ),
    ] = False,
) -> None:
    """Train the models of the paper on images, and test them with half of the pixels hidden.

    What is in the folder already is not run again, and a training that was stopped goes on.
    """
    # Here, so that other commands start without JAX.
    from hhvaem.paper import collection
    from hhvaem.paper.images import (
        IMAGE_ABLATIONS,
        IMAGE_MODELS,
        IMAGE_SETS,
        check_sets,
        complete,
        identities,
        size_of,
    )
    from hhvaem.paper.records import write_json
    from hhvaem.progress import training_bar

    deadline = np.inf if minutes is None else time.monotonic() + 60 * minutes
    names = chosen(data, QUICK_SETS if quick and data == "all" else IMAGE_SETS, "set of images")
    if not names:
        raise none_named("set of images", IMAGE_SETS)
    usual = QUICK_MODELS if quick else tuple(IMAGE_MODELS)
    every = (*IMAGE_MODELS, *IMAGE_ABLATIONS)
    named = chosen(models, usual if models == "all" else every, "model")
    kinds = [k for k in every if k in named or (ablations and k in IMAGE_ABLATIONS)]
    if not kinds:
        raise none_named("model", every)
    gathered, folder = out / "images.json", out / "images"
    work = work or out / "images-work"
    prepare("images", gathered, out, runs=folder, option="--out")
    abouts = identities(quick=quick, draws=draws)
    collection.gather_runs(folder, abouts)
    check_sets(names)
    console = Console()
    whole = True
    with interruptible(lambda: f"the same command goes on from what is in {work}."):
        for name in names:
            whole &= complete(
                name,
                kinds,
                range(1 if quick else splits),
                folder,
                work,
                size_of(name, quick=quick, draws=draws),
                deadline=deadline,
                say=console.print,
                bar=partial(training_bar, console=console),
            )
    with collection.alone(folder):
        records = collection.gather_runs(folder, abouts)
        used = {about["table"]: about["used"] for about in abouts}
        write_json({"images": used, "records": records}, gathered)
    console.print(_means(records))
    console.print(
        "Means over folds; own is the paper's protocol, official the 10,000 test images, and below "
        "them what the paper prints. Missing, "
        "target: the paper's scores. Log: proper log score of hidden pixels. ECE: of the label. "
        "Encoder: without chains; default: by the default sampler; decay: with weight decay."
    )
    if not whole:
        console.print("\nTime is up: the same command goes on.")
    console.print(f"\nAll records in {bold(gathered)}, runs in {bold(folder)}.")


def _means(records: list[dict[str, Any]]) -> Table:
    from hhvaem.paper.printed_images import printed_image

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=0)
    table.add_column("model", no_wrap=True)
    for head in ("test", "folds", *SHOWN.values()):
        table.add_column(head, justify="right")
    for name in dict.fromkeys(r["table"] for r in records):
        table.add_row(f"[bold]{escape(name)}[/]")
        for model in dict.fromkeys(r["model"] for r in records if r["table"] == name):
            own = [r for r in records if (r["table"], r["model"]) == (name, model)]
            for test, prefix in (("own", ""), ("official", "official_")):
                means = [[r[prefix + s] for r in own if prefix + s in r] for s in SHOWN]
                cells = [f"{np.mean(each):.3f}" if each else "" for each in means]
                table.add_row(escape(_short(model)), test, str(len(own)), *cells)
            there = [printed_image(score, model, name) for score in SHOWN]
            if any(there):
                cells = ["" if number is None else f"{number:.3f}" for number in there]
                table.add_row("", "paper", "10", *cells)
        table.add_section()
    return table


def _short(model: str) -> str:
    """Name a model, and how it is drawn from, in few letters.

    Examples
    --------
    >>> _short("HMC-VAE by the encoder")
    'HMC-VAE, encoder'
    """
    for long, short in SHORT.items():
        model = model.replace(long, short)
    return model
