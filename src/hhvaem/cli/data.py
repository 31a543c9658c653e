"""`hhvaem data`: the paper's data sets, listed and fetched."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.filesize import decimal
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from hhvaem.cli.places import Json
from hhvaem.datasets.catalogue import CATALOGUE, entry
from hhvaem.datasets.fetch import fetch
from hhvaem.datasets.places import lacking
from hhvaem.datasets.records import Entry

data = typer.Typer(
    help="The data sets of the paper: what there is, and getting it.", no_args_is_help=True
)

_Folder = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Folder to look into; else HHVAEM_DATA, then the cache."),
]
_Into = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="Folder to put it into; else the cache.")
]


@data.command("list")
def list_sets(folder: _Folder = None, as_json: Json = False) -> None:
    """Show the data sets, their sizes and licences, and which are here."""
    facts = [_facts(each, folder) for each in CATALOGUE.values()]
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
        return
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=0)
    table.add_column("name", no_wrap=True, style="bold")
    table.add_column("rows x columns", justify="right", no_wrap=True)
    table.add_column("target", overflow="fold")
    table.add_column("size", justify="right", no_wrap=True)
    table.add_column("licence")
    table.add_column("here", no_wrap=True)
    for each in facts:
        table.add_row(
            each["name"],
            f"{each['rows']} x {'x'.join(map(str, each['shape'])) or each['columns']}",
            ", ".join(each["targets"]),
            decimal(each["bytes"]),
            each["licence"],
            "[green]yes[/]" if each["here"] == "yes" else each["here"],
        )
    console = Console()
    console.print(table)
    for each in facts:
        if each["here"] == "part":
            console.print(f"Not here of {each['name']}: {', '.join(each['missing'])}.")
    console.print("Get one with [bold]hhvaem data fetch NAME[/]; celeba must be obtained by hand.")


@data.command("fetch")
def fetch_sets(
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="Which data sets.")],
    folder: _Into = None,
    as_json: Json = False,
) -> None:
    """Fetch data sets from their public sources, and check what came."""
    entries = [entry(name) for name in names]  # a wrong name before any download
    summary = []
    for each in entries:
        paths = _fetch_with_bars(each, folder)
        summary.append({"name": each.name, "files": [str(path) for path in paths]})
        if not as_json:
            typer.echo("\n".join([f"{each.name} is here:", *(f"  {path}" for path in paths)]))
    if as_json:
        typer.echo(json.dumps(summary, indent=2))


def _fetch_with_bars(each: Entry, folder: Path | None) -> list[Path]:
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
    )
    # In a log file a bar is but noise.
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        bars: dict[str, TaskID] = {}

        def report(file: str, done: int, total: int | None) -> None:
            if file not in bars:
                bars[file] = progress.add_task(file, total=None)
            progress.update(bars[file], completed=done, total=total)

        return fetch(each, folder, progress=report)


def _facts(each: Entry, folder: Path | None) -> dict[str, Any]:
    missing = lacking(each, folder)
    here = "yes" if not missing else "part" if len(missing) < len(each.files) else "no"
    return {
        "name": each.name,
        "title": each.title,
        "rows": each.rows,
        "columns": sum(kind != "ignored" for _, kind in each.columns),
        "shape": each.shape,
        "targets": each.targets,
        "bytes": each.size,
        "licence": each.licence,
        "terms": each.terms,
        "here": here,
        "missing": missing,
    }
