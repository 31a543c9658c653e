"""From images with holes to a fitted model, and from a fitted model to what the holes may be.

It is `fitting.py` for images: the same training, draws and keys of rows, but all columns are of one
kind and there are very many of them, so that what draws say of pixels is summed up on the device.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key

from hhvaem import posterior, train
from hhvaem.compiling import program
from hhvaem.fitting import Chunk, row_keys
from hhvaem.model import Model
from hhvaem.networks import Pictures
from hhvaem.objectives import Sampler
from hhvaem.pixels import Greys, Pixels, image_rows
from hhvaem.posterior import How, Tuned
from hhvaem.steps import Settings
from hhvaem.storage import make_snapshot_folder

PixelValues = Float[np.ndarray, "images pixels"]
PixelMask = Bool[np.ndarray, "images pixels"]

# Images of one compiled call, and how many numbers they may have over all draws: more are not held.
MOST_IMAGES, MOST_NUMBERS = 128, 2**25
# On an accelerator, which is to have enough to do.
MORE = 16
# Images on which a fit looks at what it has learned, and the share of their pixels that it hides.
CHECKED, HIDDEN = 256, 0.2


@dataclass(frozen=True)
class ImagePlan:
    """How a model of images is made, trained and drawn from.

    Parameters
    ----------
    layers, hidden
        Sizes of the latent layers, data upwards, and units of hidden layers.
    pictures
        The shape of images, and their convolutions.
    settings
        How the model is trained.
    how
        How the posterior is drawn from.
    binary
        Whether pixels are black or white (`pixels.Pixels`), or grey (`pixels.Greys`).
    decay
        How strongly weights of the networks are drawn to 0.
    noise_pull
        How strongly learned noises are drawn to the whole spread of their pixels, times pixels
        and divided by images, as in `presets.Plan`.
    """

    layers: tuple[int, ...]
    hidden: int
    pictures: Pictures
    settings: Settings
    how: How
    binary: bool = True
    decay: float = 0.0
    noise_pull: float = 0.0


class Moments(NamedTuple):
    """The mean of each pixel, and the standard deviation of what it may be."""

    mean: Float[np.ndarray, "images pixels"]
    deviation: Float[np.ndarray, "images pixels"]


@dataclass(frozen=True, eq=False)
class FittedImages:
    """A trained model of images.

    Parameters
    ----------
    models
        One model, with a leading axis on every array as everywhere.
    learned, tuned
        What the third stage learned of its chains, if it is the paper's, and the step size that
        was found after training.
    plan
        How it was made.
    seed
        Where all randomness comes from.
    record
        What training told.
    """

    models: Model
    learned: Sampler | None
    tuned: Tuned
    plan: ImagePlan
    seed: int
    record: dict[str, Any]

    def moments(self, values: PixelValues, mask: PixelMask, how: How) -> Moments:
        """Give what draws say of all pixels of images."""
        mean, variance = np.zeros(values.shape), np.zeros(values.shape)
        keys = row_keys(values, mask, self.seed)
        for chunk in self._chunks(values, mask, keys, how):
            found = _moments(self.models, self._drawn(chunk, how).positions)
            mean[chunk.rows], variance[chunk.rows] = (
                np.asarray(part, np.float64)[: chunk.size] for part in found
            )
        mean = np.clip(mean, 0.0, 1.0)
        if self.plan.binary:
            # Black or white by chance, and by a chance that is not known either.
            return Moments(mean, np.sqrt(mean * (1 - mean)))
        model = _first(self.models)
        noise = np.exp(np.asarray(model.marginals.log_scale(model.log_noise), np.float64))
        return Moments(mean, np.sqrt(variance + noise**2))

    def cases(
        self, values: PixelValues, mask: PixelMask, how: How
    ) -> Iterator[tuple[slice, Float[np.ndarray, "chains images pixels"]]]:
        """Draw all pixels of images, some images at a time.

        Equal images get draws of their own, by the number of equal ones before.
        """
        keys = row_keys(values, mask, self.seed, tell_apart=True)
        for chunk in self._chunks(values, mask, keys, how):
            positions = self._drawn(chunk, how).positions
            found = posterior.cases(self.models, chunk.row, positions, chunk.keys).cells[0]
            pixels = np.clip(np.asarray(found, np.float64)[: chunk.size], 0.0, 1.0)
            yield chunk.rows, np.moveaxis(pixels, 1, 0)

    def checked(
        self, values: PixelValues, mask: PixelMask, how: How
    ) -> dict[str, Float[np.ndarray, " images"]]:
        """Run the chains of images and say how they behaved."""
        names = ("acceptance", "divergent", "rhat", "movement")
        told: list[list[np.ndarray]] = [[] for _ in names]
        for chunk in self._chunks(values, mask, row_keys(values, mask, self.seed), how):
            drawn = self._drawn(chunk, how)
            rhat = posterior.worst_rhat(drawn.positions, how.superchains)
            parts = (drawn.acceptance, drawn.divergent, rhat, drawn.movement)
            for kept, part in zip(told, parts, strict=True):
                kept.append(np.asarray(part, np.float64)[0, : chunk.size])
        return {name: np.concatenate(kept) for name, kept in zip(names, told, strict=True)}

    def _drawn(self, chunk: Chunk, how: How) -> posterior.Draws:
        sampler = self.learned or self.tuned
        return posterior.draws(self.models, sampler, chunk.row, chunk.keys, how)

    def _chunks(
        self, values: PixelValues, mask: PixelMask, keys: Key[Array, " images"], how: How
    ) -> Iterator[Chunk]:
        """Take images in chunks whose size does not depend on how many there are."""
        more = 1 if jax.default_backend() == "cpu" else MORE
        draws = how.chains * how.kept * values.shape[1]
        size = max(min(more * MOST_IMAGES, more * MOST_NUMBERS // draws), 1)
        for first in range(0, len(values), size):
            rows = slice(first, min(first + size, len(values)))
            count = rows.stop - first
            # The last chunk is filled up with its first image.
            index = first + np.where(np.arange(size) < count, np.arange(size), 0)
            yield Chunk(rows, count, image_rows(values[index], mask[index]), keys[index])


def fit_images(
    values: PixelValues,
    mask: PixelMask,
    plan: ImagePlan,
    *,
    seed: int = 0,
    max_seconds: float | None = None,
    snapshots: Path | None = None,
    progress: Callable[[train.Progress], None] | None = None,
) -> FittedImages:
    """Train a model of images.

    Parameters
    ----------
    values, mask
        Images as rows of pixels from 0 to 1; every pixel is observed in one of them at least.
    plan
        How to.
    seed
        Where all randomness comes from.
    max_seconds, snapshots, progress
        As for `train.train`.
    """
    if snapshots is not None:
        make_snapshot_folder(snapshots)
    model_key, tune_key = jax.random.split(jax.random.key(seed))
    # Images are drawn with replacement: said twice, they are the same images.
    times = -(-plan.settings.batch_size // len(values))
    data = train.gather([image_rows(np.tile(values, (times, 1)), np.tile(mask, (times, 1)))])
    if plan.decay:
        data = data._replace(decay=jnp.full(1, plan.decay, jnp.float32))
    if plan.noise_pull:
        pull = plan.noise_pull * values.shape[1] / len(values)
        data = data._replace(noise_pull=jnp.full(1, pull, jnp.float32))
    kind = Pixels if plan.binary else Greys
    columns = jax.tree.map(lambda leaf: leaf[None], (kind.fit(values, mask), None))
    states = train.untrained(
        columns,
        plan.layers,
        plan.settings,
        hidden=plan.hidden,
        pictures=plan.pictures,
        keys=jax.random.split(model_key, 1),
    )
    states, history = train.train(
        states,
        data,
        plan.settings,
        max_seconds=max_seconds,
        snapshots=snapshots,
        progress=progress,
    )
    tuned = posterior.tune(states.model, data, jax.random.split(tune_key, 1))
    learned = states.sampler if plan.settings.inference == "hmc" else None
    record = {"steps": int(history.loss.shape[1]), "loss": float(history.recent_loss[0])}
    fitted = FittedImages(states.model, learned, tuned, plan, seed, record)
    record["explained"] = _explained(fitted, values[:CHECKED], mask[:CHECKED], seed)
    return fitted


def _explained(fitted: FittedImages, values: PixelValues, mask: PixelMask, seed: int) -> float:
    """Hide some pixels that training saw, and give the share of their variance that is filled."""
    shown = mask & (np.random.default_rng(seed).random(mask.shape) >= HIDDEN)
    hidden = mask & ~shown
    found = fitted.moments(values, shown, replace(fitted.plan.how, posterior="encoder")).mean
    means = np.mean(values, 0, where=mask)
    by_mean = float(np.sum((values - means) ** 2, where=hidden))
    return 1.0 - float(np.sum((values - found) ** 2, where=hidden)) / max(by_mean, 1e-12)


@program
def _moments(
    models: Model, positions: Float[Array, "1 images chains kept size"]
) -> tuple[Float[Array, "images pixels"], Float[Array, "images pixels"]]:
    def one(positions: Float[Array, "chains kept size"]) -> tuple[Array, Array]:
        each = jax.vmap(jax.vmap(lambda at: _intensity(_first(models), at)))(positions)
        return each.mean((0, 1)), each.var((0, 1))

    return jax.vmap(one)(positions[0])


def _intensity(model: Model, position: Float[Array, " size"]) -> Float[Array, " pixels"]:
    return model.marginals.expected(model.decoder(model.hierarchy.bottom(position)))


def _first(models: Model) -> Model:
    return jax.tree.map(lambda leaf: leaf[0] if eqx.is_array(leaf) else leaf, models)
