"""What figures have in common: those of the plane their contours, all of them their files."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse
from numpy.typing import ArrayLike

from hhvaem.atomic import replacing
from hhvaem.paper.quadrature import Mass, levels

# The contours drawn enclose these shares of a density.
SHARES = (0.5, 0.9)


def draw_density(
    panel: Axes,
    x: Float[np.ndarray, " across"],
    y: Float[np.ndarray, " up"],
    mass: Mass,
    colour: str,
) -> None:
    """Draw the contours of a density that is given by the mass of squares around x and y."""
    panel.contour(x, y, mass.T, levels(mass, SHARES), colors=colour, linewidths=1.2)


def draw_gaussian(panel: Axes, centre: Sequence[float], scale: ArrayLike, colour: str) -> None:
    """Draw the contours of a Gaussian with independent dimensions."""
    for share in SHARES:
        width, height = 2 * np.sqrt(-2 * np.log(1 - share)) * np.asarray(scale)
        ellipse = Ellipse((centre[0], centre[1]), width, height, fill=False, zorder=3)
        ellipse.set(edgecolor=colour, linewidth=1.8)
        panel.add_patch(ellipse)


def write_picture(figure: Figure, path: Path) -> None:
    """Write a figure to a file, whole or not at all."""
    with replacing(path) as file:
        figure.savefig(file, format="png", dpi=130)
