"""Networks on one example."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray

# Channels that are normalised together, and what keeps their variance from 0.
GROUP, LEAST_VARIANCE = 8, 1e-5
# Of networks of images, with which a signal passes rectifiers undiminished (He et al. 2015): in
# deeper ones it would be lost, and latents with it.
GAIN = math.sqrt(6)


class Dense(eqx.Module):
    """A linear map with an offset.

    Inputs come first in `weight`: mapped over rows, that is one product of matrices, where
    `weight @ x` would be one and two transpositions.
    """

    weight: Float[Array, "inputs outputs"]
    bias: Float[Array, " outputs"]

    @classmethod
    def init(cls, inputs: int, outputs: int, *, gain: float = 1.0, key: PRNGKeyArray) -> "Dense":
        """Draw weights and offsets from a uniform law up to gain / sqrt(inputs)."""
        most = gain * inputs**-0.5
        both = jax.random.uniform(key, (inputs + 1, outputs), minval=-most, maxval=most)
        return cls(both[:-1], both[-1])

    def __call__(self, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        return x @ self.weight + self.bias


class Perceptron(eqx.Module):
    """Linear maps with rectifiers between them, and perhaps a linear map beside them all."""

    layers: tuple[Dense, ...]
    shortcut: Dense | None = None

    @classmethod
    def init(
        cls,
        sizes: Sequence[int],
        *,
        shortcut: bool = False,
        gain: float = 1.0,
        key: PRNGKeyArray,
    ) -> "Perceptron":
        """Make an untrained network from the sizes of its input, hidden layers and output."""
        keys = jax.random.split(key, len(sizes) - 1)
        shapes = zip(sizes[:-1], sizes[1:], keys, strict=True)
        layers = tuple(Dense.init(n, m, gain=gain, key=k) for n, m, k in shapes)
        if not shortcut:
            return cls(layers)
        return cls(layers, Dense.init(sizes[0], sizes[-1], key=jax.random.fold_in(key, 1)))

    def __call__(self, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        y = x
        for layer in self.layers[:-1]:
            y = jax.nn.relu(layer(y))
        y = self.layers[-1](y)
        return y if self.shortcut is None else y + self.shortcut(x)


class Stage(NamedTuple):
    """One convolution: how many channels it gives, from squares of what side, how far apart."""

    channels: int
    kernel: int
    stride: int
    padding: int

    def shrunk(self, size: int) -> int:
        """Give how many squares there are along a side."""
        return (size + 2 * self.padding - self.kernel) // self.stride + 1


@dataclass(frozen=True)
class Pictures:
    """The shape of images, and the convolutions that read them and, mirrored, paint them.

    Parameters
    ----------
    shape
        Height, width and channels.
    stages
        The convolutions, from the image on.
    normalised
        Whether what each of them gives is normalised, by groups of channels of one image: batches
        would have other statistics in training than a single chain has.
    """

    shape: tuple[int, int, int]
    stages: tuple[Stage, ...]
    normalised: bool = False

    @classmethod
    def usual(cls, shape: tuple[int, int, int]) -> "Pictures":
        """Choose convolutions for images of a shape: each halves it, until it is small.

        Examples
        --------
        >>> Pictures.usual((8, 8, 1)).shapes
        ((8, 8, 1), (4, 4, 16), (2, 2, 32))
        >>> Pictures.usual((28, 28, 1)).shapes[-1], Pictures.usual((64, 48, 3)).shapes[-1]
        ((4, 4, 64), (4, 3, 64))
        """
        kernel = 5 if min(shape[:2]) >= 16 else 3
        stages: list[Stage] = []
        while not stages or (len(stages) < 4 and max(cls(shape, tuple(stages)).shapes[-1][:2]) > 4):
            stages.append(Stage(min(16 * 2 ** len(stages), 64), kernel, 2, kernel // 2))
        if len(stages) < 2:
            stages.append(Stage(32, kernel, 2, kernel // 2))
        return cls(shape, tuple(stages))

    @property
    def shapes(self) -> tuple[tuple[int, int, int], ...]:
        """The shape of the image, and of what each convolution gives."""
        found = [self.shape]
        for stage in self.stages:
            height, width, _ = found[-1]
            found.append((stage.shrunk(height), stage.shrunk(width), stage.channels))
        return tuple(found)

    @property
    def pixels(self) -> int:
        """How many numbers an image has."""
        return math.prod(self.shape)


class Convolution(eqx.Module):
    """A convolution of an image, or its mirror image, which enlarges as much as that shrinks.

    An axis of images, or of chains, that is mapped over becomes a batch of one convolution.
    """

    weight: Float[Array, "kernel kernel inputs outputs"]
    bias: Float[Array, " outputs"]
    stage: Stage = eqx.field(static=True)
    # The size to enlarge to; None for a convolution that shrinks.
    enlarged: tuple[int, int] | None = eqx.field(static=True)

    @classmethod
    def init(
        cls,
        inputs: int,
        outputs: int,
        stage: Stage,
        *,
        enlarged: tuple[int, int] | None = None,
        key: PRNGKeyArray,
    ) -> "Convolution":
        """Draw weights and offsets from a uniform law up to gain / sqrt(terms of an output)."""
        across = stage.kernel if enlarged is None else stage.kernel / stage.stride
        most = GAIN / math.sqrt(inputs * max(across, 1) ** 2)
        shape = (stage.kernel**2 * inputs + 1, outputs)
        both = jax.random.uniform(key, shape, minval=-most, maxval=most)
        weight = both[:-1].reshape(stage.kernel, stage.kernel, inputs, outputs)
        return cls(weight, both[-1], stage, enlarged)

    def __call__(
        self, x: Float[Array, "height width inputs"]
    ) -> Float[Array, "new_height new_width outputs"]:
        stride = self.stage.stride
        old = (x.shape[0], x.shape[1])
        new = self.enlarged or (self.stage.shrunk(old[0]), self.stage.shrunk(old[1]))
        # Squares of `stride` pixels become channels of one: what is left is a convolution that
        # moves by one pixel, which compilers make faster programs of, above all for derivatives.
        if self.enlarged is None:
            y = _squares(x, stride)
            return self._offset(_convolved(y, self._by_squares(), new, self._reach))
        places = (-(-new[0] // stride), -(-new[1] // stride))
        first, last = self._reach
        y = _convolved(x, self._by_squares(), places, (-last, -first))
        y = jnp.swapaxes(y.reshape(*places, stride, stride, -1), 1, 2)
        y = y.reshape(stride * places[0], stride * places[1], -1)
        return self._offset(y[: new[0], : new[1]])

    def _offset(self, y: Float[Array, "height width outputs"]) -> Float[Array, "height width _"]:
        return y + jnp.broadcast_to(self.bias, y.shape)

    @property
    def _reach(self) -> tuple[int, int]:
        """How many squares away the first and the last are that a smaller image's pixel sees."""
        _, kernel, stride, padding = self.stage
        return -((stride - 1 + padding) // stride), (kernel - 1 - padding) // stride

    def _by_squares(self) -> Float[Array, "high wide _ _"]:
        """Give the weight as that of a convolution between a smaller image and squares.

        Pixel r of the square d places away has the weight `stride * d + r + padding`.
        """
        _, kernel, stride, padding = self.stage
        first, last = self._reach
        d, r = np.mgrid[first : last + 1, :stride]
        taps = stride * d + r + padding
        taps = np.where((taps >= 0) & (taps < kernel), taps, kernel)
        mirrored = self.enlarged is not None
        # Seen from the squares, it is the smaller image that lies the other way.
        taps = taps[::-1] if mirrored else taps
        weight = jnp.pad(self.weight, ((0, 1), (0, 1), (0, 0), (0, 0)))
        weight = weight[taps[:, None, :, None], taps[None, :, None, :]]
        high, wide, *_, inputs, outputs = weight.shape
        if mirrored:
            weight = jnp.moveaxis(weight, 4, 2)
            return weight.reshape(high, wide, inputs, stride**2 * outputs)
        return weight.reshape(high, wide, stride**2 * inputs, outputs)


def _squares(
    x: Float[Array, "height width inputs"], side: int
) -> Float[Array, "high wide channels"]:
    """Make channels of the pixels of squares, filled up at the end."""
    high, wide = (-(-size // side) for size in x.shape[:2])
    y = jnp.pad(x, ((0, side * high - x.shape[0]), (0, side * wide - x.shape[1]), (0, 0)))
    y = jnp.swapaxes(y.reshape(high, side, wide, side, -1), 1, 2)
    return y.reshape(high, wide, -1)


def _convolved(
    x: Float[Array, "height width inputs"],
    weight: Float[Array, "high wide inputs outputs"],
    size: tuple[int, int],
    reach: tuple[int, int],
) -> Float[Array, "new_height new_width outputs"]:
    """Convolve to an image of some size, whose pixels see from one place to another."""
    first, last = reach
    padding = [(-first, new - old + last) for old, new in zip(x.shape[:2], size, strict=True)]
    return lax.conv_general_dilated(
        x[None], weight, (1, 1), padding, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )[0]


class Normalisation(eqx.Module):
    """Give groups of an image's channels the mean 0 and the variance 1, and then others."""

    scale: Float[Array, " channels"]
    bias: Float[Array, " channels"]

    @classmethod
    def init(cls, channels: int) -> "Normalisation":
        """Make one that leaves the mean 0 and the variance 1."""
        return cls(jnp.ones(channels), jnp.zeros(channels))

    def __call__(
        self, x: Float[Array, "height width channels"]
    ) -> Float[Array, "height width channels"]:
        height, width, channels = x.shape
        grouped = x.reshape(height * width, -1, math.gcd(channels, GROUP))
        grouped = grouped - grouped.mean((0, 2), keepdims=True)
        variance = (grouped**2).mean((0, 2), keepdims=True)
        y = (grouped * lax.rsqrt(variance + LEAST_VARIANCE)).reshape(x.shape)
        return y * jnp.broadcast_to(self.scale, x.shape) + jnp.broadcast_to(self.bias, x.shape)


class Reader(eqx.Module):
    """What reads an image, and beside it numbers of any other kind.

    Its input is one vector, as of a `Perceptron`: the image, then the rest.
    """

    convolutions: tuple[Convolution, ...]
    norms: tuple[Normalisation, ...]
    last: Perceptron
    shape: tuple[int, int, int] = eqx.field(static=True)

    @classmethod
    def init(
        cls, pictures: Pictures, inputs: int, sizes: Sequence[int], *, key: PRNGKeyArray
    ) -> "Reader":
        """Make an untrained network of so many inputs in all, with layers of `sizes` at its end."""
        last_key, *keys = jax.random.split(key, 1 + len(pictures.stages))
        shapes = pictures.shapes
        convolutions = tuple(
            Convolution.init(before[2], stage.channels, stage, key=k)
            for before, stage, k in zip(shapes, pictures.stages, keys, strict=False)
        )
        features = math.prod(shapes[-1]) + inputs - pictures.pixels
        last = Perceptron.init((features, *sizes), gain=GAIN, key=last_key)
        norms = _norms(shapes[1:]) if pictures.normalised else ()
        return cls(convolutions, norms, last, pictures.shape)

    def __call__(self, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        image, rest = jnp.split(x, [math.prod(self.shape)])
        y = image.reshape(self.shape)
        for i, convolution in enumerate(self.convolutions):
            y = convolution(y)
            y = jax.nn.relu(self.norms[i](y) if self.norms else y)
        return self.last(jnp.concatenate([y.ravel(), rest]))


class Painter(eqx.Module):
    """What paints an image: the convolutions of `Reader` mirrored, and one number per pixel."""

    first: Perceptron
    convolutions: tuple[Convolution, ...]
    norms: tuple[Normalisation, ...]
    shape: tuple[int, int, int] = eqx.field(static=True)

    @classmethod
    def init(cls, pictures: Pictures, sizes: Sequence[int], *, key: PRNGKeyArray) -> "Painter":
        """Make an untrained network that begins with layers of `sizes`, its input first."""
        first_key, *keys = jax.random.split(key, 1 + len(pictures.stages))
        shapes = pictures.shapes[::-1]
        first = Perceptron.init((*sizes, math.prod(shapes[0])), gain=GAIN, key=first_key)
        convolutions = tuple(
            Convolution.init(before[2], after[2], stage, enlarged=after[:2], key=k)
            for before, after, stage, k in zip(
                shapes[:-1], shapes[1:], reversed(pictures.stages), keys, strict=True
            )
        )
        norms = _norms(shapes[:-1]) if pictures.normalised else ()
        return cls(first, convolutions, norms, shapes[0])

    def __call__(self, x: Float[Array, " inputs"]) -> Float[Array, " pixels"]:
        y = self.first(x).reshape(self.shape)
        for i, convolution in enumerate(self.convolutions):
            y = convolution(jax.nn.relu(self.norms[i](y) if self.norms else y))
        return y.ravel()


def _norms(shapes: Sequence[tuple[int, int, int]]) -> tuple[Normalisation, ...]:
    return tuple(Normalisation.init(channels) for _, _, channels in shapes)
