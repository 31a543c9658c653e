"""`hhvaem demo`: what it does, on a made-up table."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from rich import box
from rich.console import Console
from rich.table import Table

from hhvaem.atomic import replacing
from hhvaem.cli.places import bold
from hhvaem.cli.schema import schema_report
from hhvaem.errors import InputError
from hhvaem.files import write_table

if TYPE_CHECKING:
    from hhvaem.demonstration import Demonstration

SHOWN = ("age", "smoker", "bmi", "crp", "pain", "admitted")
ROWS = 5


def demo(
    out: Annotated[Path, typer.Option(help="Folder for what the demonstration writes.")] = Path(
        "demo"
    ),
) -> None:
    """Fill a made-up table with holes, predict from it, and write a page about it."""
    # Before the work, which would be lost.
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{out} cannot be made a folder: {error.strerror}; name another with --out."
        ) from error
    # Here, so that other commands start without JAX and matplotlib.
    from hhvaem.demonstration import LEVEL, TARGET, demonstrate, on_coverage, on_errors
    from hhvaem.report import page

    console = Console()
    found = demonstrate(lambda text: console.print(f"{text} ..."), verbose=int(console.is_terminal))
    console.print(
        f"\nA made-up clinic: {len(found.table)} patients, {found.table.num_columns} columns, "
        f"{1 - (found.mask & ~found.hidden).mean():.0%} of the cells missing.\n"
    )
    console.print(schema_report(found.schema))
    console.print("\nHoles filled (marked *):\n")
    console.print(_before_and_after(found))
    console.print("\nHidden cells, compared with the truth:\n")
    console.print(_comparison(found))
    guess = found.prediction
    console.print(
        f"\n{on_errors(found)}\n\n"
        f"{found.coverage:.0%} of the hidden numbers and dates are inside their {LEVEL:.0%} "
        f"interval. {on_coverage(found)}\n\n"
        f"{TARGET.capitalize()} of {guess.rows} patients, untold: error {guess.error:.1f} (mean of "
        f"the others: {guess.error_of_mean:.1f}), {guess.coverage:.0%} inside their interval."
    )
    write_table(found.shown, out / "clinic.csv")
    write_table(found.full, out / "filled.csv")
    with replacing(out / "report.html") as file:
        file.write(page(found).encode())
    console.print(
        f"\nIn {bold(out)}: clinic.csv, filled.csv, and report.html with figures: open it in a "
        f"browser. It took {found.seconds:.0f} seconds."
    )


def _before_and_after(found: "Demonstration") -> Table:
    from hhvaem.report import shown_value

    shown = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for name in SHOWN:
        shown.add_column(name)
    before, after = (part.select(SHOWN).to_pylist() for part in (found.shown, found.full))
    chosen = np.flatnonzero([1 < list(row.values()).count(None) < 4 for row in before])[:ROWS]
    for i in chosen:
        shown.add_row(
            *(
                f"[bold green]{shown_value(after[i][name])}*[/]"
                if before[i][name] is None
                else shown_value(after[i][name])
                for name in SHOWN
            )
        )
    return shown


def _comparison(found: "Demonstration") -> Table:
    shown = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for title in ("column", "hidden cells", "hhvaem", "mean or mode", "measured as"):
        shown.add_column(title, justify="left" if title in ("column", "measured as") else "right")
    for score in found.scores:
        better = score.error < score.error_of_mean
        error = f"[bold green]{score.error:.2f}[/]" if better else f"{score.error:.2f}"
        what = "wrong levels" if score.column.levels else "error / std"
        shown.add_row(
            score.column.name, str(score.cells), error, f"{score.error_of_mean:.2f}", what
        )
    return shown
