"""From the paper's image sets to what training and testing take, with the published settings."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from hhvaem.datasets.images import Images, load_images
from hhvaem.datasets.splits import folds, test_mask
from hhvaem.encoding import Cells
from hhvaem.errors import InputError
from hhvaem.marginals import Direct
from hhvaem.model import Row
from hhvaem.networks import Pictures
from hhvaem.paper.pictures import CELEBA, MNIST
from hhvaem.steps import Settings

SEED = 0
# Pixels above it, of 0 to 255, are white: 129 and more, as `value / 256 > 0.5` has it.
THRESHOLD = 128
# Images of faces that are not trained on.
HELD_FACES = 500
# Parts of a set that masks are drawn for.
OWN, OFFICIAL = 0, 1


@dataclass(frozen=True)
class PublishedImages:
    """The hyper-parameters that a set of images has in the published code.

    Parameters
    ----------
    pictures
        The networks.
    learning_rate
        Of all networks; step sizes have 1e-3 and the inflation 1e-2 everywhere.
    batch_size, steps, hmc_steps, warm_up
        Images of a step, steps in all, of the third stage, and of balanced divergences.
    one_layer, two_layers
        Sizes of the latents, data upwards.
    """

    pictures: Pictures
    learning_rate: float
    batch_size: int = 100
    steps: int = 100_440
    hmc_steps: int = 1_440
    warm_up: int = 5_000
    one_layer: tuple[int, ...] = (20,)
    two_layers: tuple[int, ...] = (20, 10)
    hidden: int = 512

    def settings(self, inference: Literal["gaussian", "importance", "hmc"]) -> Settings:
        """Give the settings of stages 2 and 3: the same for all models, decay included."""
        return Settings(
            inference=inference,
            steps=self.steps,
            hmc_steps=self.hmc_steps,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            step_rate=1e-3,
            warm_up=self.warm_up,
            transitions=10,
        )


# Of CelebA there is a sample of 5,000 images, and as many fewer steps than the published 151,074.
PUBLISHED_IMAGES = {
    "mnist": PublishedImages(MNIST, 2e-4),
    "fashion_mnist": PublishedImages(MNIST, 1e-3),
    "celeba": PublishedImages(
        CELEBA, 2e-4, 64, 20_000, 800, 1_000, one_layer=(32,), two_layers=(32, 16)
    ),
}


class Pile(NamedTuple):
    """Images, their labels, and which pixels and labels are observed.

    Labels are a class of ten, or attributes of two levels. In training all is observed that there
    is; in a test half of the pixels, or all but a square, and no label.
    """

    pixels: Float[np.ndarray, "images pixels"]
    labels: Float[np.ndarray, "images targets"]
    mask: Bool[np.ndarray, "images pixels"]
    label_mask: Bool[np.ndarray, "images targets"]

    def rows(self, chosen: slice | Int[np.ndarray, " rows"] = slice(None)) -> Row:
        """Give some of them as rows of a table; hidden pixels keep their values, to score by."""
        pixels, labels = (
            jnp.asarray(part[chosen].astype(np.float32)) for part in (self.pixels, self.labels)
        )
        masks = jnp.asarray(self.mask[chosen]), jnp.asarray(self.label_mask[chosen])
        return Row(Cells(pixels, pixels, pixels), masks[0], Cells(labels, labels, labels), masks[1])

    def shown(self, mask: Bool[np.ndarray, "images pixels"]) -> "Pile":
        """Hide all pixels that are not in a mask, and all labels."""
        return self._replace(mask=mask, label_mask=np.zeros_like(self.label_mask))

    def some(self, chosen: slice | Int[np.ndarray, " rows"]) -> "Pile":
        """Take some images."""
        return Pile(*(part[chosen] for part in self))


@dataclass(frozen=True, eq=False)
class ImageFold:
    """What a model is trained on, and the images by which it is tested.

    `tests` are by protocol: `own`, a tenth of the official training images, as in the paper, and
    `official`, the official test images, which the published code never looks at.
    """

    name: str
    number: int
    train: Pile
    tests: dict[str, Pile]


def take_image_fold(name: str, number: int, *, limit: int | None = None) -> ImageFold:
    """Divide the official training images of a set into those of training and of a test.

    Parameters
    ----------
    name
        `mnist`, `fashion_mnist` or `celeba`, of which the last images are for testing.
    number
        Which of the ten folds.
    limit
        How many images of a test to take at most, and five times as many of training.

    Raises
    ------
    InputError
        Where the set is not here, or all its images would be held for the test.
    """
    images = load_images(name)
    most = None if limit is None else 5 * limit
    if name == "celeba":
        count = len(images.pixels)
        if count <= HELD_FACES:
            raise InputError(
                f"celeba has {count} images here, of which the last {HELD_FACES} are held for the "
                f"test; give more than {HELD_FACES}."
            )
        pile = faces(images)
        shown, held = np.split(np.arange(count), [count - HELD_FACES])
        own = pile.some(held[:limit])
        return ImageFold(name, 0, pile.some(shown[:most]), {"own": own})
    pile = binarised(images)
    chosen = folds(len(pile.pixels), SEED)[number]
    rest = np.setdiff1d(np.arange(len(pile.pixels)), chosen)
    official = binarised(load_images(name, part="test"))
    own, official = pile.some(chosen[:limit]), official.some(slice(limit))
    return ImageFold(
        name,
        number,
        pile.some(rest[:most]),
        {
            "own": own.shown(half_mask(own, [SEED, OWN, number])),
            "official": official.shown(half_mask(official, [SEED, OFFICIAL])),
        },
    )


def half_mask(pile: Pile, seed: Sequence[int]) -> Bool[np.ndarray, "images pixels"]:
    """Hide each pixel with probability one half, the same ones for all models."""
    images, pixels = pile.pixels.shape
    return test_mask(images, pixels, seed)


def binarised(images: Images) -> Pile:
    """Make black and white images, with a class each."""
    pixels = images.pixels.reshape(len(images.pixels), -1) > THRESHOLD
    return Pile(
        pixels.astype(np.float32),
        images.labels[:, None].astype(np.float32),
        np.ones(pixels.shape, bool),
        images.labelled[:, None],
    )


def faces(images: Images) -> Pile:
    """Scale colours to 0 to 1; the attributes of images without a row of them are hidden."""
    pixels = images.pixels.reshape(len(images.pixels), -1).astype(np.float32) / 255
    labelled = np.broadcast_to(images.labelled[:, None], images.labels.shape)
    return Pile(
        pixels, images.labels.astype(np.float32), np.ones(pixels.shape, bool), labelled.copy()
    )


def target_law(pile: Pile) -> Direct:
    """Give the laws of labels: classes of ten, or attributes of two levels, by their shares."""
    if pile.labels.shape[1] == 1:
        counts = np.bincount(pile.labels[pile.label_mask].astype(int), minlength=10) + 0.5
        shares = np.log(counts / counts.sum())
        return Direct((10,), jnp.asarray(shares.astype(np.float32)))
    ones = np.sum(pile.labels, 0, where=pile.label_mask) + 0.5
    odds = np.log(ones / (pile.label_mask.sum(0) + 1 - ones))
    return Direct((2,) * pile.labels.shape[1], jnp.asarray(odds.astype(np.float32)))


def statement(name: str, *, limit: int | None) -> dict[str, Any]:
    """Say what was done to the images, and which of them were used for what."""
    if name == "celeba":
        return {
            "pixels": "colours divided by 255, with a Bernoulli likelihood (cross-entropy)",
            "train": f"all of the sample but its last {HELD_FACES} images",
            "test": f"the last {HELD_FACES} images of the sample, labels hidden",
        }
    few = "" if limit is None else f"; at most {limit} images of a test, five times as many trained"
    return {
        "pixels": f"1 where a byte is above {THRESHOLD} (value / 256 > 0.5), else 0; Bernoulli",
        "train": f"nine tenths of the 60,000 official training images{few}",
        "test": "own: the other tenth; official: the 10,000 official test images, by the same "
        "models; every pixel hidden with probability 0.5, once for all models, and the label",
    }
