"""`ImageImputer`: fill the holes of images."""

import contextlib
import os
import warnings
from collections.abc import Iterator
from dataclasses import replace
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from hhvaem.checks import check_count
from hhvaem.containers import shown
from hhvaem.devices import on_device
from hhvaem.errors import InputError, TableWarning
from hhvaem.estimators.base import (
    CHECKED,
    SUPERCHAINS,
    check_known,
    checked_layers,
    seed_of,
)
from hhvaem.image_arrays import ImageArrays, read_images
from hhvaem.imaging import FittedImages, ImagePlan, fit_images
from hhvaem.networks import Pictures
from hhvaem.posterior import POSTERIORS, How, Posterior
from hhvaem.progress import training_bar
from hhvaem.steps import INFERENCES, Inference, Settings

_NO_SHAPE = Pictures((1, 1, 1), ())
# The default is trained as tables are: an importance-weighted start, and then the likelihood by
# chains. The paper's HH-VAE has fewer of both, and more layers.
IMAGE_PRESETS = {
    "default": ImagePlan(
        layers=(20,),
        hidden=128,
        pictures=_NO_SHAPE,
        settings=Settings(
            inference="likelihood",
            steps=5_000,
            hmc_steps=2_000,
            batch_size=64,
            learning_rate=2e-3,
            transitions=2,
        ),
        how=How("hmc", chains=20, kept=5),
        decay=3e-3,
        noise_pull=4.0,
    ),
    "paper": ImagePlan(
        layers=(20, 10),
        hidden=512,
        pictures=_NO_SHAPE,
        settings=Settings(
            steps=100_440,
            hmc_steps=1_440,
            learning_rate=2e-4,
            step_rate=1e-3,
            warm_up=5_000,
        ),
        how=How("hmc", chains=100, kept=1),
    ),
    "fast": ImagePlan(
        layers=(10,),
        hidden=64,
        pictures=_NO_SHAPE,
        settings=Settings(
            inference="likelihood",
            steps=1_200,
            hmc_steps=400,
            batch_size=64,
            learning_rate=3e-3,
            transitions=2,
        ),
        how=How("hmc", chains=20, kept=3, leapfrog=4),
        decay=3e-3,
        noise_pull=4.0,
    ),
}


class ImageImputer(TransformerMixin, BaseEstimator):
    """Fill the holes of images, all of one size.

    Encoder and decoder are convolutional; all else is as for tables. Given the latents, a pixel is
    black or white with a probability; where images have grey values or colours, it is normal
    about a mean, with a noise that is learned.

    Parameters
    ----------
    preset
        `default`; `paper`, the settings of the paper's HH-VAE on MNIST; or `fast`, for trying
        things out.
    layers
        Sizes of the latent layers, data upwards, such as `(20, 10)`.
    inference
        How the model is trained: `gaussian` by the evidence lower bound, `importance` by the
        importance-weighted one, `hmc` by the first and then by chains, `likelihood` by the second
        and then by chains.
    max_steps, max_seconds
        When training ends at the latest; with `max_seconds`, how far it comes depends on the
        machine.
    batch_size
        Images of a training step.
    draws
        Chains of each image, behind everything that is computed from a fitted model.
    random_state
        Where all randomness comes from; None for a new seed in each fit.
    snapshots
        A folder from which an interrupted fit goes on: the same call on the same images.
    verbose
        1 shows a progress bar.
    device
        `cpu` or `gpu`; None for what JAX finds.

    Layers, inference, steps, batch size and draws are those of the preset where they are None.

    Attributes
    ----------
    shape_
        Height, width and channels of the images.
    binary_
        Whether all pixels that the fit saw are 0 or 1; draws then are, too.
    fitted_
        The model behind.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from hhvaem import ImageImputer
    >>> images = load_digits().images[:300] / 16
    >>> images[np.random.default_rng(0).random(images.shape) < 0.5] = np.nan
    >>> imputer = ImageImputer(preset="fast", max_steps=200, random_state=0).fit(images)
    >>> full = imputer.transform(images[:5])
    >>> full.shape, bool(np.isnan(full).any())
    ((5, 8, 8), False)
    """

    def __init__(
        self,
        *,
        preset: str = "default",
        layers: tuple[int, ...] | None = None,
        inference: Inference | None = None,
        max_steps: int | None = None,
        max_seconds: float | None = None,
        batch_size: int | None = None,
        draws: int | None = None,
        random_state: Any = None,
        snapshots: str | os.PathLike[str] | None = None,
        verbose: int = 0,
        device: str | None = None,
    ) -> None:
        self.preset = preset
        self.layers = layers
        self.inference = inference
        self.max_steps = max_steps
        self.max_seconds = max_seconds
        self.batch_size = batch_size
        self.draws = draws
        self.random_state = random_state
        self.snapshots = snapshots
        self.verbose = verbose
        self.device = device

    def fit(self, X: Any, y: Any = None, *, mask: Any = None) -> "ImageImputer":
        """Learn what the pixels of images have to do with each other.

        Parameters
        ----------
        X
            An array of images x height x width, and perhaps x channels: numbers from 0 to 1 or
            truth values, or whole numbers from 0 to 255. NaN is missing.
        y
            Not used.
        mask
            True where a pixel is observed: of the shape of `X`, or without its channels.
        """
        del y
        images = read_images(X, mask)
        binary = bool(np.isin(images.values[images.mask], (0.0, 1.0)).all())
        plan = self._plan(images.shape, binary=binary)
        if self.snapshots is not None and self.random_state is None:
            raise InputError("With snapshots a fit needs a random_state, to be the same again.")
        never = ~images.mask.any(0)
        if never.any():
            place = tuple(int(x) for x in np.argwhere(never.reshape(images.shape))[0])
            raise InputError(
                f"The pixel {place[: images.given.ndim - 1]} is missing in all images, so that "
                "nothing can be learned of it; give images that have it, or leave it out."
            )
        seed = seed_of(self.random_state)
        with on_device(self.device), self._bar(plan) as report:
            fitted = fit_images(
                images.values,
                images.mask,
                plan,
                seed=seed,
                max_seconds=self.max_seconds,
                snapshots=None if self.snapshots is None else Path(self.snapshots),
                progress=report,
            )
        if fitted.record["explained"] <= 0:
            warnings.warn(
                "The model predicts hidden pixels no better than each does by its mean: images "
                "are too few, or training was too short.",
                TableWarning,
                stacklevel=2,
            )
        # At the end: what fails on the way leaves the fit before as it was.
        self.shape_ = images.shape
        self.binary_ = binary
        self.fitted_: FittedImages = fitted
        return self

    def transform(
        self,
        X: Any,
        *,
        mask: Any = None,
        posterior: Posterior | None = None,
        draws: int | None = None,
    ) -> Shaped[np.ndarray, "..."]:
        """Fill the holes with the mean of what they may be.

        Parameters
        ----------
        X, mask
            As for `fit`, of the size that it saw.
        posterior
            `hmc`, `encoder` (cheaper) or `importance`; None for `hmc`.
        draws
            Chains of each image; None for those of the fit.

        Returns
        -------
        array
            Of the same shape and dtype; what was observed is untouched. Of black and white images
            of a float dtype, the mean is the probability of white.
        """
        images, how = self._read(X, mask), self._how(posterior, draws)
        values = images.values.copy()
        rows = np.flatnonzero(~images.mask.all(1))
        if rows.size:
            with on_device(self.device):
                found = self.fitted_.moments(images.values[rows], images.mask[rows], how)
            values[rows] = found.mean
        return images.filled(values)

    def sample(
        self, X: Any, draws: int = 20, *, mask: Any = None, posterior: Posterior | None = None
    ) -> list[Shaped[np.ndarray, "..."]]:
        """Fill the holes at random, several times; all holes of an image are drawn together.

        Parameters
        ----------
        X, mask, posterior
            As for `transform`.
        draws
            How many times.

        Returns
        -------
        list of arrays
            As `transform` gives them.
        """
        check_count("draws", draws, 1)
        images, how = self._read(X, mask), self._how(posterior, draws)
        filled = np.repeat(images.values[None], draws, axis=0)
        rows = np.flatnonzero(~images.mask.all(1))
        if rows.size:
            given = images.values[rows], images.mask[rows]
            with on_device(self.device):
                for part, pixels in self.fitted_.cases(*given, how):
                    filled[:, rows[part]] = pixels
        return [images.filled(each) for each in filled]

    def uncertainty(
        self,
        X: Any,
        *,
        mask: Any = None,
        posterior: Posterior | None = None,
        draws: int | None = None,
    ) -> Float[np.ndarray, "..."]:
        """Give the standard deviation of each pixel, in the units of the images.

        It is that of what `sample` draws, and 0 where a pixel is observed.

        Parameters
        ----------
        X, mask, posterior, draws
            As for `transform`.

        Returns
        -------
        array
            Of the shape of `X`, of floats.
        """
        images, how = self._read(X, mask), self._how(posterior, draws)
        spread = np.zeros(images.values.shape)
        rows = np.flatnonzero(~images.mask.all(1))
        if rows.size:
            with on_device(self.device):
                found = self.fitted_.moments(images.values[rows], images.mask[rows], how)
            spread[rows] = np.where(images.mask[rows], 0.0, found.deviation)
        return (spread * images.white).reshape(images.given.shape)

    def diagnostics(self, X: Any, *, mask: Any = None) -> dict[str, Float[np.ndarray, " images"]]:
        """Say for each image how its chains behaved.

        Returns
        -------
        dict of arrays
            The mean `acceptance`, the share of `divergent` transitions, the nested R-hat (`rhat`)
            and the `movement` from the encoder's draw in its standard deviations (about 1.4 where
            chains have forgotten their start).
        """
        images = self._read(X, mask)
        how = replace(self._how("hmc", None), chains=CHECKED, superchains=SUPERCHAINS, kept=1)
        with on_device(self.device):
            return self.fitted_.checked(images.values, images.mask, how)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a file, whole or not at all; `hhvaem.load` reads it."""
        from hhvaem.image_saving import save_images  # which knows this class

        check_is_fitted(self, "fitted_")
        save_images(self, path)

    def _plan(self, shape: tuple[int, int, int], *, binary: bool) -> ImagePlan:
        """Put what was asked for into the preset."""
        check_known("preset", self.preset, tuple(IMAGE_PRESETS))
        plan = IMAGE_PRESETS[self.preset]
        settings, how = replace(plan.settings, learned_noise=not binary), plan.how
        if self.inference is not None:
            check_known("inference", self.inference, INFERENCES)
            settings = replace(settings, inference=self.inference)
        if self.max_steps is not None:
            steps = check_count("max_steps", self.max_steps, 1)
            settings = replace(settings, steps=steps, hmc_steps=min(settings.hmc_steps, steps // 2))
        if self.batch_size is not None:
            settings = replace(settings, batch_size=check_count("batch_size", self.batch_size, 1))
        if self.max_seconds is not None and not (
            isinstance(self.max_seconds, Real) and self.max_seconds >= 0
        ):
            raise InputError(
                f"max_seconds={shown(self.max_seconds)} is no time; give a number from 0."
            )
        if not isinstance(self.snapshots, str | os.PathLike | None):
            raise InputError(f"snapshots={self.snapshots!r} is no folder; give its path.")
        if self.draws is not None:
            how = replace(how, chains=check_count("draws", self.draws, 1))
        layers = plan.layers if self.layers is None else checked_layers(self.layers)
        return replace(
            plan,
            layers=layers,
            pictures=Pictures.usual(shape),
            settings=settings,
            how=how,
            binary=binary,
            noise_pull=0.0 if binary else plan.noise_pull,
        )

    def _how(self, posterior: Posterior | None, draws: int | None) -> How:
        how = self.fitted_.plan.how
        if posterior is not None:
            check_known("posterior", posterior, POSTERIORS)
            how = replace(how, posterior=posterior)
        return how if draws is None else replace(how, chains=check_count("draws", draws, 1))

    def _read(self, X: Any, mask: Any) -> ImageArrays:
        check_is_fitted(self, "fitted_")
        images = read_images(X, mask)
        if images.shape != self.shape_:
            here, there = (" x ".join(map(str, shape)) for shape in (images.shape, self.shape_))
            raise InputError(
                f"The images are {here} (height, width, channels), and those of the fit were "
                f"{there}; give images of that size."
            )
        return images

    @contextlib.contextmanager
    def _bar(self, plan: ImagePlan) -> Iterator[Any]:
        if not self.verbose:
            yield None
            return
        with training_bar(plan.settings.steps) as report:
            yield report
