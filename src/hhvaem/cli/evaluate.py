"""`hhvaem evaluate`: how well the cells of a table are filled, tried on its own cells."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hhvaem.atomic import replacing
from hhvaem.cli import leaving_at_once
from hhvaem.cli.fit import Preset, Seed, Steps
from hhvaem.cli.places import Json, bold, check_apart, check_place
from hhvaem.cli.schema import Kinds, Missing, parsed_kinds, ranked, schema_report
from hhvaem.containers import printable
from hhvaem.errors import InputError
from hhvaem.files import read_table
from hhvaem.inference import infer_schema

if TYPE_CHECKING:
    from hhvaem.trust import Evaluation

# Characters of a column's name in a table.
WIDEST = 40
# Colours of verdicts on a terminal.
TONES = {
    "trust": "bold green",
    "wide but honest": "cyan",
    "no better than the column mean": "yellow",
    "too sure of itself": "bold red",
    "too few cells to tell": "dim",
}


class Hide(StrEnum):
    """Ways to hide cells."""

    MCAR = "mcar"
    MAR = "mar"
    MNAR = "mnar"
    PATTERNS = "patterns"


def evaluate(
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="A CSV, Parquet or Feather file.")],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A page about it with figures, such as trust.html."),
    ] = None,
    hide: Annotated[
        Hide,
        typer.Option(
            metavar="HOW",
            help="How cells are hidden: `mcar`, wherever chance takes them; `mar`, more often "
            "where some other columns are high; `mnar`, more often the higher they are; "
            "`patterns`, where other rows have their holes.",
        ),
    ] = Hide.MCAR,
    share: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="Share of the known cells to hide; else 0.2."),
    ] = None,
    against: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="What to compare with, by commas: `mean`, `gaussian`, `ridge`, `missforest`, "
            "`miceforest` (where it is installed), or `none`.",
        ),
    ] = "mean,gaussian,ridge,missforest",
    own_holes: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="N",
            help="Also score how the table's own holes are filled, for the N columns with most "
            "of them; each takes another fit.",
        ),
    ] = 0,
    kind: Kinds = None,
    missing: Missing = None,
    preset: Annotated[
        Preset,
        typer.Option(
            metavar="NAME", help="Settings of the model that is tried: `default`, `paper`, `fast`."
        ),
    ] = Preset.DEFAULT,
    members: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Models to train, or as many as the preset has."),
    ] = None,
    steps: Steps = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Hide cells of a table, fill them, and say which columns' fills can be trusted."""
    # Before the work, which would be lost.
    if out is not None:
        check_apart(out, {"the table": table})
        check_place(out)
        if out.suffix.lower() not in (".html", ".htm"):
            # A name that is all suffix, such as .html, has none.
            better = "trust" if out.name.startswith(".") else out.stem
            raise InputError(f"{out} will be a page; name it so, such as {better}.html.")
    told = Console(quiet=as_json)
    with leaving_at_once():
        kinds, orders = parsed_kinds(kind or [])
        whole = ranked(read_table(table, missing or ()), orders)
        told.print(schema_report(infer_schema(whole, kinds)))
        told.print()
        # Here, so that other commands start without JAX.
        from hhvaem import Imputer
    names = [name.strip() for name in against.split(",") if name.strip()]
    imputer = Imputer(
        preset=preset.value,
        kinds=kinds or None,
        members=members,
        max_steps=steps,
        random_state=seed,
        verbose=int(Console(stderr=True).is_terminal),
    )
    found = imputer.evaluate(
        whole,
        how=hide.value,
        share=share,
        against=[] if names == ["none"] else names,
        own_holes=own_holes,
    )
    if out is not None:
        with replacing(out) as file:
            file.write(found.to_html().encode())
    if as_json:
        typer.echo(found.to_json())
        return
    told.print(f"{found.hidden_in_words}\n", highlight=False)
    told.print(_methods(found))
    told.print()
    told.print(_verdicts(found))
    told.print("", *found.words, sep="\n", highlight=False)
    if found.left_out:
        told.print(f"Nothing was hidden of {escape(found.left_out)}.", highlight=False)
    if out is not None:
        told.print(f"\nIn {bold(out)}: a page with figures; open it in a browser.")


def _methods(found: "Evaluation") -> Table:
    from hhvaem.verdicts import CALLED

    shown = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    columns = {
        "error": "rmse_missing",
        "CRPS": "crps",
        "energy score": "energy_score",
        "in 90 %": "coverage90",
    }
    for title in ("", *columns, "own holes", "seconds"):
        if title != "own holes" or found.found.own_holes:
            shown.add_column(title, justify="right" if title else "left")
    for outcome in found.found.outcomes:
        scores = outcome.report.table
        cells = [f"{scores[name]:.3f}" if name in scores else "-" for name in columns.values()]
        if found.found.own_holes:
            holes = found.found.own_holes.get(outcome.name)
            cells.append("-" if holes is None else f"{holes.score:.3f}")
        shown.add_row(CALLED[outcome.name], *cells, f"{outcome.seconds:.0f}")
    return shown


def _verdicts(found: "Evaluation") -> Table:
    shown = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for title in ("column", "hidden", "error", "of the mean", "verdict", "better"):
        right = title in ("hidden", "error", "of the mean")
        shown.add_column(title, justify="right" if right else "left", overflow="fold")
    for each in found.verdicts:
        better = "" if each.better is None else f"{each.better[0]} {each.better[1]:.2f}"
        shown.add_row(
            escape(_short(each.column)),
            str(each.cells),
            f"{each.score:.2f}",
            "-" if each.mean_score != each.mean_score else f"{each.mean_score:.2f}",
            f"[{TONES[each.word]}]{each.called}[/]",
            better,
        )
    return shown


def _short(name: str) -> str:
    """Write a name for a terminal, the start of it where it is long."""
    text = printable(name)
    return text if len(text) <= WIDEST else f"{text[: WIDEST - 3]}..."
