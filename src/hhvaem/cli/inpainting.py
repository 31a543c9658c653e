"""`hhvaem paper inpainting`: images with a square hole, filled by the models of the paper."""

import time
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from hhvaem.cli.images import Minutes, Work
from hhvaem.cli.places import Out, bold, interruptible, prepare
from hhvaem.cli.tables import chosen, none_named

SETS = ("mnist", "fashion_mnist", "celeba")
QUICK_MODELS = ("VAE", "HH-VAE")


def inpainting(
    data: Annotated[
        str,
        typer.Option(metavar="NAMES", help="mnist, fashion_mnist, celeba, with commas between."),
    ] = "mnist",
    models: Annotated[
        str, typer.Option(metavar="NAMES", help="Models, with commas between them.")
    ] = "all",
    minutes: Minutes = None,
    out: Out = Path("paper"),
    work: Work = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            metavar="",
            help="Two models, few images and steps, to try the command: they show nothing of what "
            "trained models do.",
        ),
    ] = False,
) -> None:
    """Hide a square of test images, fill it by the models, and draw means, draws and uncertainty.

    Models that `hhvaem paper images` has trained with the same --work are taken as they are.
    CelebA's terms forbid to pass its images on: keep its figure to yourself.
    """
    # Here, so that other commands start without JAX.
    from hhvaem.paper import collection
    from hhvaem.paper import inpainting as holes
    from hhvaem.paper.drawing import write_picture
    from hhvaem.paper.image_sets import statement, take_image_fold
    from hhvaem.paper.images import check_sets, size_of
    from hhvaem.paper.records import read_json, versions, write_json
    from hhvaem.progress import training_bar

    deadline = np.inf if minutes is None else time.monotonic() + 60 * minutes
    names = chosen(data, SETS, "set of images")
    if not names:
        raise none_named("set of images", SETS)
    known = QUICK_MODELS if quick and models == "all" else holes.MODELS
    kinds = chosen(models, known, "model")
    if not kinds:
        raise none_named("model", holes.MODELS)
    results, work = out / "inpainting.json", work or out / "images-work"
    pictures = {name: out / f"inpainting-{name}.png" for name in names}
    prepare("inpainting", results, out, pictures=list(pictures.values()), option="--out")
    check_sets(names)
    console = Console()
    with interruptible(lambda: f"the same command goes on from what is in {work}."):
        for name in names:
            size = size_of(name, quick=quick)
            fold = take_image_fold(name, 0, limit=size.limit)
            painted = holes.complete(
                fold,
                size,
                work,
                kinds,
                deadline=deadline,
                say=console.print,
                bar=partial(training_bar, console=console),
            )
            if painted is None:
                console.print("\nTime is up: the same command goes on.")
                return
            unlabelled = int((~fold.train.label_mask.any(1)).sum())
            found: dict[str, Any] = {
                **holes.numbers(painted),
                "trained": len(fold.train.pixels),
                "unlabelled": unlabelled,
                "steps": size.published.steps,
                "used": statement(name, limit=size.limit),
                "versions": versions(),
            }
            with collection.alone(out):  # another command may have written of another set since
                others = read_json(results)["inpainting"] if results.exists() else {}
                write_json({"inpainting": others | {name: found}}, results)
            write_picture(holes.draw_figure(painted), pictures[name])
            console.print(f"{name}: {len(fold.train.pixels)} images, {unlabelled} without a label.")
            for model, nll in found["nll_hidden"].items():
                console.print(f"  {model}: NLL of hidden pixels {nll:.4f}")
            console.print(f"Figure in {bold(pictures[name])}.")
