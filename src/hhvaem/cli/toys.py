"""`hhvaem paper toys`: what training makes of chains, on densities that can be seen."""

from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from hhvaem.cli.places import Out, Results, bold, prepare


def toys(out: Out = Path("paper"), results: Results = None) -> None:
    """Train chains on the wave and the dual moon, and draw them and figure 1(b)."""
    results = results or out / "toys.json"
    pictures = out / "toys.png", out / "illustration.png"
    prepare("toys", results, out, pictures=pictures)
    # Here, so that other commands start without JAX and matplotlib.
    from hhvaem.paper import drawing, illustration, records
    from hhvaem.paper import toys as chains

    console = Console()
    with console.status("Training chains on the wave and the dual moon"):
        of_chains = chains.experiment()
    with console.status("Training a model with two latents"):
        of_model = illustration.experiment()
    found = {"versions": records.versions(), "toys": of_chains, "illustration": of_model}
    records.write_json(found, results)
    drawn = chains.draw(of_chains), illustration.draw(of_model)
    for figure, path in zip(drawn, pictures, strict=True):
        drawing.write_picture(figure, path)
    console.print(
        "Chains before and after training, mean of "
        f"{of_chains['settings']['seeds']} seeds (distance: total variation from the density):\n"
    )
    console.print(_cases(of_chains["cases"]))
    rows = {name: np.mean(values) for name, values in of_model["rows"].items()}
    console.print(
        "\nFigure 1(b): distance from the true posterior, mean of "
        f"{len(of_model['rows']['chains'])} rows: encoder {rows['encoder']:.2f}, "
        f"HMC {rows['chains']:.2f}, exact draws {rows['exact']:.2f}."
    )
    console.print(
        f"\nIn {bold(out)}: toys.png and illustration.png; all numbers in {bold(results)}."
    )


def _cases(cases: list[dict[str, Any]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=0)
    for name in ("density", "start", "first steps"):
        table.add_column(name, no_wrap=True)
    for name in ("distance", "exact draws", "inflation", "left of 0"):
        table.add_column(name, justify="right", no_wrap=True)
    for case in cases:
        before, after = (
            {
                name: np.mean([seed[when][name] for seed in case["seeds"]])
                for name in ("total_variation", "left")
            }
            for when in ("before", "after")
        )
        across, up = np.mean([seed["inflation"] for seed in case["seeds"]], axis=0)
        table.add_row(
            case["toy"],
            "({:g}, {:g})".format(*case["centre"]),
            "{:g}-{:g}".format(*case["first_steps"]),
            f"{before['total_variation']:.2f} to {after['total_variation']:.2f}",
            f"{case['exact']['total_variation']:.2f}",
            f"{across:.1f} x {up:.1f}",
            f"{before['left']:.0%} to {after['left']:.0%}",
        )
    return table
