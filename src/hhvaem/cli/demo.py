"""`hhvaem demo`: what it does, on a made-up table."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from hhvaem.cli.schema import schema_table
from hhvaem.example import clinic
from hhvaem.inference import infer_schema
from hhvaem.table import encode

STEPS = 1000


def demo(
    out: Annotated[Path, typer.Option(help="Folder for what the demonstration writes.")] = Path(
        "demo"
    ),
) -> None:
    """Show a made-up table, what hhvaem takes it for, and its column models."""
    # Here, so that other commands start without JAX and matplotlib.
    import jax

    from hhvaem.encoding import gaussianised_encoding, standardised_encoding
    from hhvaem.marginal_vae import train_marginal_vaes
    from hhvaem.marginals import Direct
    from hhvaem.plots import plot_columns

    console = Console()
    table = clinic()
    schema = infer_schema(table)
    values, mask = encode(table, schema)
    console.print(
        f"A made-up clinic: {table.num_rows} patients, {table.num_columns} columns, "
        f"{1 - mask.mean():.0%} of the cells missing.\n"
    )
    console.print(schema_table(schema))
    columns = schema.modelled
    gaussianised = gaussianised_encoding(columns, values, mask)
    direct = Direct.fit(gaussianised, values, mask)
    standardised = standardised_encoding(columns, values, mask)
    with Progress(
        TextColumn("Training the column models"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} steps, loss {task.fields[loss]:.3f}"),
        TimeRemainingColumn(),
        console=console,
    ) as progress:
        bar = progress.add_task("", total=STEPS, loss=float("nan"))
        vaes, _ = train_marginal_vaes(
            standardised,
            values,
            mask,
            key=jax.random.key(0),
            steps=STEPS,
            progress=lambda done, loss: progress.update(bar, completed=done, loss=loss),
        )
    figure = plot_columns(
        columns,
        values,
        mask,
        {"Gaussianising transform": (gaussianised, direct), "marginal VAE": (standardised, vaes)},
    )
    out.mkdir(parents=True, exist_ok=True)
    path = out / "columns.png"
    figure.savefig(path, dpi=130)
    console.print(f"The data and the fitted distribution of each column: [bold]{path}[/]")
