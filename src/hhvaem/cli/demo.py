"""`hhvaem demo`: what it does, on a made-up table."""

from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa
import typer
from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from hhvaem.cli.schema import schema_report
from hhvaem.errors import InputError
from hhvaem.example import clinic
from hhvaem.files import write_table
from hhvaem.inference import infer_schema
from hhvaem.table import encode, fill

STEPS = 1000
SHOWN = ("age", "smoker", "bmi", "crp", "pain", "admitted")


def demo(
    out: Annotated[Path, typer.Option(help="Folder for what the demonstration writes.")] = Path(
        "demo"
    ),
) -> None:
    """Show a made-up table, what hhvaem takes it for, its column models, and its holes filled."""
    # Before the work, which would be lost.
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{out} cannot be made a folder: {error.strerror}; name another with --out."
        ) from error
    # Here, so that other commands start without JAX and matplotlib.
    import jax

    from hhvaem.encoding import gaussianised_encoding, standardised_encoding
    from hhvaem.marginal_vae import train_marginal_vaes
    from hhvaem.marginals import Direct, base_sample
    from hhvaem.plots import plot_columns

    console = Console()
    table = clinic()
    schema = infer_schema(table)
    values, mask = encode(table, schema)
    console.print(
        f"A made-up clinic: {table.num_rows} patients, {table.num_columns} columns, "
        f"{1 - mask.mean():.0%} of the cells missing.\n"
    )
    console.print(schema_report(schema))
    console.print()
    columns = schema.modelled
    gaussianised = gaussianised_encoding(columns, values, mask)
    direct = Direct.fit(gaussianised, values, mask)
    standardised = standardised_encoding(columns, values, mask)
    with Progress(
        TextColumn("Training the column models"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[told]}"),
        TimeRemainingColumn(),
        console=console,
    ) as progress:
        bar = progress.add_task("", total=STEPS, told="compiling")

        def report(done: int, loss: float) -> None:
            progress.update(bar, completed=done, told=f"{done}/{STEPS} steps, loss {loss:.3f}")

        vaes, _ = train_marginal_vaes(
            standardised, values, mask, key=jax.random.key(0), steps=STEPS, progress=report
        )
    figure = plot_columns(
        columns,
        values,
        mask,
        {"Gaussianising transform": (gaussianised, direct), "marginal VAE": (standardised, vaes)},
    )
    draws = base_sample(direct, table.num_rows, key=jax.random.key(1))
    full = fill(table, schema, gaussianised.decode(np.asarray(draws)))
    console.print("\nEvery hole filled by a draw from its own column (marked *):\n")
    console.print(_before_and_after(table, full))
    write_table(table, out / "clinic.csv")
    write_table(full, out / "filled.csv")
    figure.savefig(out / "columns.png", dpi=130)
    console.print(
        f"\nIn [bold]{out}[/]: clinic.csv, filled.csv, and columns.png with the data and the "
        "fitted distribution of each column."
    )


def _before_and_after(table: pa.Table, full: pa.Table) -> Table:
    shown = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for name in SHOWN:
        shown.add_column(name)
    before, after = table.select(SHOWN).to_pylist(), full.select(SHOWN).to_pylist()
    for old, new in list(zip(before, after, strict=True))[2:7]:
        cells = (_cell(new[name], filled=old[name] is None) for name in SHOWN)
        shown.add_row(*cells)
    return shown


def _cell(value: object, *, filled: bool) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return f"[bold green]{text}*[/]" if filled else text
