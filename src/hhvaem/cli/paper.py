"""`hhvaem paper`: the paper's experiments, run and drawn."""

import typer

from hhvaem.cli.curves import curves
from hhvaem.cli.images import images
from hhvaem.cli.inpainting import inpainting
from hhvaem.cli.reparam import reparam
from hhvaem.cli.saia import saia
from hhvaem.cli.tables import tables
from hhvaem.cli.times import times
from hhvaem.cli.toys import toys

paper = typer.Typer(help="The experiments of the paper, run and drawn.", no_args_is_help=True)
paper.command()(tables)
paper.command()(times)
paper.command()(toys)
paper.command()(reparam)
paper.command()(curves)
paper.command()(saia)
paper.command()(images)
paper.command()(inpainting)
