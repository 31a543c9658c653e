"""The paper's figure of inpainting: images with a square hole, filled by four models.

Beside the rows of the paper (original, observed, and the mean by each model) there are draws by the
last model and a map of how uncertain each pixel is.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key, PRNGKeyArray
from matplotlib.figure import Figure

from hhvaem.compiling import program
from hhvaem.model import Model, Row
from hhvaem.objectives import Sampler
from hhvaem.paper.image_sets import SEED, ImageFold, Pile
from hhvaem.paper.image_testing import first_model
from hhvaem.paper.images import Bar, Size, configured, learned_way, train_images, work_place
from hhvaem.posterior import How, Tuned, draw

# In the order of the figure's rows.
MODELS = ("VAE", "H-VAE", "HMC-VAE", "HH-VAE")
# Sides of the square, and images of the figure, by the size of images.
HOLES = {28: 14, 64: 32}
SHOWN = {28: 20, 64: 12}
# Draws behind a mean, as published, and draws that are shown.
DRAWS, DRAWN = 100, 4
# Images by which fills are scored, and of these how many are filled at once on an accelerator.
SCORED, IMAGES_AT_ONCE = 200, 16


class Filled(NamedTuple):
    """What a model makes of images with holes.

    Parameters
    ----------
    mean
        The mean intensity of each pixel.
    draws
        Intensities at some draws of the latents.
    deviation
        The standard deviation of intensities from draw to draw.
    nll
        Of each image: the cross-entropy of its hidden pixels, per pixel.
    """

    mean: Float[np.ndarray, "images pixels"]
    draws: Float[np.ndarray, "images draws pixels"]
    deviation: Float[np.ndarray, "images pixels"]
    nll: Float[np.ndarray, " images"]


def square_mask(
    shape: tuple[int, int, int], images: int, side: int, *, seed: int
) -> Bool[np.ndarray, "images pixels"]:
    """Hide one square of all images, at a place by chance.

    Examples
    --------
    >>> mask = square_mask((28, 28, 1), 3, 14, seed=0)
    >>> (~mask).sum(1).tolist(), bool((mask == mask[:1]).all())
    ([196, 196, 196], True)
    """
    height, width, channels = shape
    rng = np.random.default_rng(seed)
    top, left = rng.integers(height - side + 1), rng.integers(width - side + 1)
    mask = np.ones((height, width, channels), bool)
    mask[top : top + side, left : left + side] = False
    return np.repeat(mask.reshape(1, -1), images, axis=0)


def paint(
    model: Model, sampler: Sampler | Tuned, pile: Pile, how: How, *, key: PRNGKeyArray
) -> Filled:
    """Fill the holes of images; what is observed is as it was."""
    keys = jax.random.split(key, len(pile.pixels))
    found = jax.tree.map(np.asarray, _painted(model, sampler, pile.rows(), keys, how))
    truth, hidden = pile.pixels.astype(np.float64), ~pile.mask
    chance = np.clip(found.mean.astype(np.float64), 1e-6, 1 - 1e-6)
    loss = -(truth * np.log(chance) + (1 - truth) * np.log1p(-chance))
    return Filled(
        np.where(hidden, found.mean, pile.pixels),
        np.where(hidden[:, None], found.draws, pile.pixels[:, None]),
        np.where(hidden, found.deviation, 0.0),
        np.mean(loss, axis=1, where=hidden),
    )


class _Painted(NamedTuple):
    mean: Float[Array, "*images pixels"]
    draws: Float[Array, "*images draws pixels"]
    deviation: Float[Array, "*images pixels"]


@program
def _painted(
    model: Model, sampler: Sampler | Tuned, rows: Row, keys: Key[Array, " images"], how: How
) -> _Painted:
    def one(each: tuple[Row, PRNGKeyArray]) -> _Painted:
        row, key = each
        positions = draw(model, sampler, model.see(row), how, key=key).positions[:, -1]
        parameters = jax.vmap(lambda at: model.decoder(model.hierarchy.bottom(at)))(positions)
        chances = jax.vmap(model.marginals.expected)(parameters)
        return _Painted(chances.mean(0), chances[:DRAWN], jnp.std(chances, axis=0))

    at_once = 1 if jax.default_backend() == "cpu" else IMAGES_AT_ONCE
    return jax.lax.map(one, (rows, keys), batch_size=at_once)


@dataclasses.dataclass(frozen=True, eq=False)
class Painted:
    """The images of a figure, and what each model makes of them."""

    pile: Pile
    shape: tuple[int, int, int]
    filled: dict[str, Filled]


def complete(
    fold: ImageFold,
    size: Size,
    work: Path,
    models: Sequence[str] = MODELS,
    *,
    deadline: float = np.inf,
    say: Callable[[str], None],
    bar: Bar,
) -> Painted | None:
    """Train the models that are not trained yet, and fill squares; None where time is up.

    The models are those of `hhvaem paper images`, where it left them in the same folder.
    """
    shape = size.published.pictures.shape
    pile = fold.tests["own"].some(slice(SCORED))
    mask = square_mask(shape, len(pile.pixels), HOLES[shape[0]], seed=SEED)
    pile = pile.shown(mask)
    filled = {}
    for model in models:
        say(f"{fold.name}: {model}")
        place = work_place(work, fold.name, model, fold.number)
        with bar(size.published.steps) as tell:
            trained = train_images(fold, size.published, model, place, deadline=deadline, tell=tell)
        if trained is None:
            return None
        _, settings = configured(size.published, model)
        sampler, how = learned_way(trained, settings.inference, min(DRAWS, size.draws))
        key = jax.random.fold_in(jax.random.key(SEED), 5)
        filled[model] = paint(first_model(trained.states.model), sampler, pile, how, key=key)
    return Painted(pile, shape, filled)


def numbers(painted: Painted) -> dict[str, Any]:
    """Give the mean cross-entropy of hidden pixels by each model, and how many images there are."""
    return {
        "images": len(painted.pile.pixels),
        "hole": HOLES[painted.shape[0]],
        "nll_hidden": {
            model: round(float(each.nll.mean()), 5) for model, each in painted.filled.items()
        },
        "nll_error": {
            model: round(float(each.nll.std() / math.sqrt(each.nll.size)), 5)
            for model, each in painted.filled.items()
        },
    }


def draw_figure(painted: Painted) -> Figure:
    """Draw the rows of the paper's figure, draws of the last model, and its uncertainty."""
    count = min(SHOWN[painted.shape[0]], len(painted.pile.pixels))
    pile, last = painted.pile, list(painted.filled)[-1]
    # What is not seen is grey.
    seen = np.where(pile.mask, pile.pixels, 0.5)
    rows: dict[str, np.ndarray] = {"original": pile.pixels, "observed": seen}
    rows |= {model: each.mean for model, each in painted.filled.items()}
    ends = painted.filled[last]
    rows |= {f"{last}, draw {i + 1}": ends.draws[:, i] for i in range(ends.draws.shape[1])}
    rows[f"{last}, spread"] = ends.deviation
    figure = Figure(figsize=(0.6 * count + 1.6, 0.6 * len(rows)), layout="constrained")
    panels = figure.subplots(len(rows), count, squeeze=False)
    for line, (name, pictures) in zip(panels, rows.items(), strict=True):
        spread = name.endswith("spread")
        for panel, picture in zip(line, pictures, strict=False):
            _draw(panel, picture.reshape(painted.shape), spread=spread)
        line[0].set_ylabel(name, rotation=0, ha="right", va="center", fontsize=8)
    return figure


def _draw(panel: Any, picture: Float[np.ndarray, "height width channels"], *, spread: bool) -> None:
    panel.set_xticks([])
    panel.set_yticks([])
    if spread:
        panel.imshow(picture.mean(-1), cmap="magma", vmin=0.0, vmax=0.5)
    elif picture.shape[-1] == 1:
        panel.imshow(picture[..., 0], cmap="gray", vmin=0.0, vmax=1.0)
    else:
        panel.imshow(np.clip(picture, 0.0, 1.0))
