"""`hhvaem paper reparam`: chains with and without the reparameterisation of the latents."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from hhvaem.cli.places import Out, Results, bold, prepare

if TYPE_CHECKING:
    from hhvaem import train


def reparam(
    out: Out = Path("paper"),
    results: Results = None,
    steps: Annotated[
        int, typer.Option(min=20, help="Training steps, the last tenth of them with chains.")
    ] = 20_000,
    seeds: Annotated[int, typer.Option(min=1, help="Models of each variant.")] = 3,
) -> None:
    """Train HH-VAEM on Boston with and without the reparameterisation, and draw what chains do."""
    results, picture = results or out / "reparam.json", out / "reparam.png"
    prepare("reparam", results, out, pictures=[picture])
    # Here, so that other commands start without JAX and matplotlib.
    from hhvaem.paper import drawing, records
    from hhvaem.paper import reparam as variants

    console = Console()
    if not console.is_interactive:
        console.print(f"Training columns, then {seeds} models of each variant.")
    printed = dict.fromkeys(variants.VARIANTS, 0)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[told]}"),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_interactive,
    ) as progress:
        bars = {
            name: progress.add_task(name.capitalize(), total=steps, told="")
            for name in variants.VARIANTS
        }

        def tell(name: str, now: "train.Progress") -> None:
            told = f"{now.step}/{steps} steps, loss {now.loss:.2f}"
            if now.stage == 3:
                told += f", acceptance {now.acceptance:.2f}"
            progress.update(bars[name], completed=now.step, told=told)
            # Where there are no bars, a line at each tenth of the steps.
            tenths = 10 * now.step // steps
            if not console.is_interactive and tenths > printed[name]:
                printed[name] = tenths
                console.print(f"{name.capitalize()}: {told}")

        found = variants.experiment(steps=steps, seeds=seeds, tell=tell)
    records.write_json(found, results)
    drawing.write_picture(variants.draw(found), picture)
    console.print(f"\nAt the end of training (mean of {seeds} seeds):\n")
    console.print(_ends(found))
    console.print(
        "\nSwitched: acceptance of the same model in the other's coordinates. Chains, encoder: "
        "log p(x_U | x_O) of the test rows by draws of either, nats per hidden cell. Scales: "
        "standard deviations of p(h_1 | h_2), 5 to 95 %."
    )
    console.print(f"\nIn {bold(out)}: reparam.png; all numbers in {bold(results)}.")


def _ends(found: dict[str, Any]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("model", no_wrap=True)
    for name in ("acceptance", "switched", "chains", "encoder", "scales"):
        table.add_column(name, justify="right", no_wrap=True)
    for name, variant in found["variants"].items():
        chains, encoders = variant["chains"], variant["encoders"]

        def end(values: list[list[float]]) -> float:
            return float(np.mean([each[-1] for each in values]))

        low, _, high = np.mean([each[-1] for each in encoders["prior_scale"]], axis=0)
        table.add_row(
            name,
            f"{end(chains['acceptance']):.2f}",
            f"{end(chains['switched_acceptance']):.2f}",
            f"{end(chains['joint']):.3f}",
            f"{end(encoders['joint']):.3f}",
            f"{low:.2g}-{high:.2g}",
        )
    return table
