"""`hhvaem paper times`: how long training took, beside the paper's table of minutes."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from hhvaem.containers import printable, some
from hhvaem.errors import InputError

if TYPE_CHECKING:
    from hhvaem.paper.summary import Minutes


def times(
    out: Annotated[
        Path, typer.Option(help="Folder in which `hhvaem paper tables` left its results.")
    ] = Path("paper"),
) -> None:
    """Show the minutes that training took for a split, beside those of the paper."""
    # Here, as matplotlib takes long to import.
    from hhvaem.paper.printed import MODELS, TABLES
    from hhvaem.paper.summary import minutes, read_records

    path = out / "tables.json"
    records = read_records(path)
    found = {table: {model: minutes(records, table, model) for model in MODELS} for table in TABLES}
    if not any(each for row in found.values() for each in row.values()):
        raise InputError(
            f"{path} has no record of a model of the paper; `hhvaem paper tables --out {out}` "
            "makes them."
        )
    console = Console()
    console.print(_shown(found))
    devices = sorted({r["device"] for r in records if r["model"] in MODELS})
    told = (
        f"Minutes of training for a split, here on {some(devices)}. Folds train at once here, and "
        "each has its share of the time; the paper's splits trained one by one. Models of "
        "`--quick` have few steps, and their times are no comparison."
    )
    console.print(printable(told), markup=False, highlight=False)


def _shown(found: "dict[str, dict[str, Minutes | None]]") -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for head in ("table", "model"):
        table.add_column(head, no_wrap=True)
    for head in ("folds", "here", "paper", "paper / here"):
        table.add_column(head, justify="right", no_wrap=True)
    for name, row in found.items():
        for model, each in row.items():
            if each:
                paper = "" if each.paper is None else f"{each.paper:.2f}"
                ratio = "" if each.ratio is None else f"{each.ratio:g}"
                table.add_row(name, model, str(each.folds), f"{each.here:.2f}", paper, ratio)
        table.add_section()
    return table
