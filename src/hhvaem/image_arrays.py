"""Between users' arrays of images and rows of pixels from 0 to 1; what is no image is refused."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from hhvaem.containers import shown
from hhvaem.errors import InputError

# The greatest pixel of images of whole numbers.
WHITE = 255


@dataclass(frozen=True, eq=False)
class ImageArrays:
    """Images as rows of pixels.

    Parameters
    ----------
    given
        The user's array.
    values, mask
        Pixels from 0 to 1, row by row and channels last, and which of them are observed.
    shape
        Height, width and channels of an image.
    """

    given: np.ndarray
    values: Float[np.ndarray, "images pixels"]
    mask: Bool[np.ndarray, "images pixels"]
    shape: tuple[int, int, int]

    @property
    def white(self) -> int:
        """What 1 is in the user's units."""
        return WHITE if self.given.dtype.kind in "iu" else 1

    def filled(self, values: Float[np.ndarray, "images pixels"]) -> np.ndarray:
        """Put values from 0 to 1 into the holes, in the user's units; the rest is untouched."""
        values = values.reshape(self.given.shape)
        if self.given.dtype.kind == "b":
            values = values > 0.5
        elif self.given.dtype.kind != "f":
            values = np.rint(values * WHITE)
        observed = self.mask.reshape(self.given.shape)
        return np.where(observed, self.given, values.astype(self.given.dtype))


def read_images(images: Any, mask: Any = None) -> ImageArrays:
    """Read images, of which pixels are missing that are NaN or not True in the mask.

    Parameters
    ----------
    images
        An array of images x height x width, and perhaps x channels: numbers from 0 to 1, truth
        values, or whole numbers from 0 to 255.
    mask
        True where a pixel is observed, of the shape of the images; without channels it is of
        all channels of a pixel.

    Raises
    ------
    InputError
        Where they are no images, of differing sizes, or out of range, or the mask is of another
        shape.
    """
    array = _array(images)
    shape = (array.shape[1], array.shape[2], array.shape[3] if array.ndim == 4 else 1)
    observed = _mask(mask, array)
    if array.dtype.kind == "f":
        observed = observed & ~np.isnan(array)
    white = WHITE if array.dtype.kind in "iu" else 1
    outside = observed & ~((array >= 0) & (array <= white))
    if outside.any():
        place = tuple(int(x) for x in np.argwhere(outside)[0])
        raise InputError(
            f"The pixel {place[1:]} of image {place[0]} is {shown(array[place].item())}; pixels "
            "are numbers from 0 to 1, or whole numbers of an integer dtype from 0 to 255 "
            "(divide by the greatest that there may be)."
        )
    flat = observed.reshape(len(array), -1)
    values = np.where(flat, array.reshape(flat.shape), 0).astype(np.float64) / white
    return ImageArrays(array, values, flat, shape)


def _array(images: Any) -> np.ndarray:
    masked = isinstance(images, np.ma.MaskedArray)
    if isinstance(images, list | tuple):
        masked = any(isinstance(image, np.ma.MaskedArray) for image in images)
        sizes = [_plain(f"Image {i}", image).shape for i, image in enumerate(images)]
        for i, size in enumerate(sizes):
            if size != sizes[0]:
                raise InputError(
                    f"Image {i} is {_times(size)} and the first is {_times(sizes[0])}; crop or "
                    "scale them to one size."
                )
    if masked:
        raise InputError(
            "The images are a masked array; give images.data and as the mask, which is True where "
            "a pixel is observed, ~numpy.ma.getmaskarray(images)."
        )
    array = _plain("The array of images", images)
    if array.dtype.kind not in "fiub":
        raise InputError(
            f"Images are of dtype {array.dtype}; give an array of numbers, with NaN or a mask "
            "where pixels are missing."
        )
    if array.dtype == np.int8:
        raise InputError("Images are of dtype int8, which holds no more than 127; give uint8.")
    if array.ndim and not len(array):
        raise InputError("There are no images; give at least one.")
    if array.ndim not in (3, 4) or 0 in array.shape[1:]:
        raise InputError(
            f"The array of images is {_times(array.shape)}; give images x height x width, and "
            "perhaps x channels."
        )
    return array


def _mask(mask: Any, array: np.ndarray) -> Bool[np.ndarray, "..."]:
    if mask is None:
        return np.ones(array.shape, bool)
    if isinstance(mask, np.ma.MaskedArray):
        raise InputError(
            "The mask is a masked array itself; give mask.data, True where a pixel is observed."
        )
    observed = _plain("The mask", mask)
    if array.ndim == 4 and observed.shape == array.shape[:3]:
        observed = np.broadcast_to(observed[..., None], array.shape)
    if observed.shape != array.shape:
        raise InputError(
            f"The mask is {_times(observed.shape)} and the images are {_times(array.shape)}; give "
            "one truth value for each pixel, True where it is observed."
        )
    if observed.dtype != bool:
        raise InputError(
            f"The mask is of dtype {observed.dtype}; give truth values, True where a pixel is "
            "observed."
        )
    return observed


def _plain(what: str, given: Any) -> np.ndarray:
    """Make an array, of which lists of differing lengths are none."""
    try:
        return np.asarray(given)
    except ValueError as error:
        raise InputError(
            f"{what} has rows of differing lengths, or parts of differing sizes; give all the "
            "same size."
        ) from error


def _times(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "a single number"
