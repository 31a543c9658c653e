"""Convolutions against their definition, and networks of images that compute as they say."""

import itertools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.signal import correlate2d

from hhvaem.errors import InputError
from hhvaem.model import Encoder, Model
from hhvaem.networks import (
    Convolution,
    Normalisation,
    Painter,
    Perceptron,
    Pictures,
    Reader,
    Stage,
)
from hhvaem.paper.pictures import CELEBA, MNIST
from hhvaem.pixels import Pixels

STAGES = [
    Stage(2, 5, 2, 2),
    Stage(2, 4, 2, 1),
    Stage(2, 4, 1, 0),
    Stage(2, 3, 3, 0),
    Stage(2, 2, 3, 0),
    Stage(2, 3, 1, 1),
    Stage(2, 5, 3, 1),
]
SIZES = [(7, 7), (8, 6), (5, 9)]


def some(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape)


@pytest.mark.parametrize("stage", STAGES, ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_a_convolution_is_a_correlation_by_scipy(stage: Stage, size: tuple[int, int]) -> None:
    convolution = Convolution.init(3, 2, stage, key=jax.random.key(0))
    x, weight = some(*size, 3), np.asarray(convolution.weight, np.float64)
    padded = np.pad(x, [(stage.padding, stage.padding)] * 2 + [(0, 0)])
    expected = np.stack(
        [
            sum(correlate2d(padded[..., c], weight[..., c, o], "valid") for c in range(3))
            for o in range(2)
        ],
        axis=-1,
    )[:: stage.stride, :: stage.stride] + np.asarray(convolution.bias)
    found = convolution(jnp.asarray(x, jnp.float32))
    np.testing.assert_allclose(found, expected, atol=2e-6)
    assert found.shape == (stage.shrunk(size[0]), stage.shrunk(size[1]), 2)


@pytest.mark.parametrize("stage", STAGES, ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_an_enlarging_one_spreads_each_pixel_by_the_kernel(
    stage: Stage, size: tuple[int, int]
) -> None:
    small = stage.shrunk(size[0]), stage.shrunk(size[1])
    convolution = Convolution.init(3, 2, stage, enlarged=size, key=jax.random.key(0))
    x, weight = some(*small, 3), np.asarray(convolution.weight, np.float64)
    expected = np.zeros((*size, 2)) + np.asarray(convolution.bias)
    taps = range(stage.kernel)
    for i, j, a, b in itertools.product(range(small[0]), range(small[1]), taps, taps):
        at = stage.stride * i + a - stage.padding, stage.stride * j + b - stage.padding
        if 0 <= at[0] < size[0] and 0 <= at[1] < size[1]:
            expected[at] += x[i, j] @ weight[a, b]
    np.testing.assert_allclose(convolution(jnp.asarray(x, jnp.float32)), expected, atol=2e-6)


def test_chains_become_a_batch_of_one_convolution() -> None:
    painter = Painter.init(MNIST, (20, 32), key=jax.random.key(0))
    chains = jax.vmap(jax.vmap(jax.grad(lambda h: (painter(h) ** 2).sum())))
    lowered = jax.jit(chains).lower(jnp.zeros((3, 5, 20))).as_text()
    found = [line for line in lowered.splitlines() if "stablehlo.convolution" in line]
    # Forwards and backwards through three; 3 x 5 chains stand where one image does.
    assert len(found) == 6
    for line in found:
        assert "feature_group_count = 1" in line
        assert "batch_group_count = 1" in line
        assert "tensor<15x" in line


def test_the_shapes_of_the_published_networks() -> None:
    assert MNIST.shapes == ((28, 28, 1), (14, 14, 16), (7, 7, 32), (4, 4, 32))
    assert CELEBA.shapes[1:] == (
        (32, 32, 32), (16, 16, 32), (8, 8, 64), (4, 4, 64), (1, 1, 512),
    )  # fmt: skip
    encoder = Encoder.init(1568 + 11, (20,), 512, pictures=MNIST, key=jax.random.key(0))
    assert isinstance(encoder.first, Reader)
    # 512 features, 784 bits of the mask, ten classes and the bit of the target.
    assert encoder.first.last.layers[0].weight.shape == (512 + 784 + 11, 512)
    assert encoder(jnp.zeros(1579)).mean.shape == (20,)
    painter = Painter.init(MNIST, (20, 512), key=jax.random.key(0))
    assert [layer.weight.shape for layer in painter.first.layers] == [(20, 512), (512, 512)]
    assert painter(jnp.zeros(20)).shape == (784,)
    painter = Painter.init(CELEBA, (32, 512), key=jax.random.key(0))
    assert jax.eval_shape(painter, jnp.zeros(32)).shape == (64 * 64 * 3,)
    assert len(painter.norms) == len(painter.convolutions) == 5


@pytest.mark.parametrize("normalised", [False, True])
def test_the_first_pixels_are_read_as_an_image(normalised: bool) -> None:
    pictures = Pictures((6, 5, 2), (Stage(4, 3, 2, 1),), normalised)
    reader = Reader.init(pictures, 60 + 7, (8, 3), key=jax.random.key(0))
    x = jnp.asarray(some(67), jnp.float32)
    y = reader.convolutions[0](x[:60].reshape(6, 5, 2))
    y = jax.nn.relu(reader.norms[0](y) if normalised else y)
    expected = reader.last(jnp.concatenate([y.ravel(), x[60:]]))
    np.testing.assert_allclose(reader(x), expected, rtol=1e-6)


def test_normalisation_is_of_one_image_and_groups_of_channels() -> None:
    x = 3.0 + 2.0 * jnp.asarray(some(4, 5, 16), jnp.float32)
    y = np.asarray(Normalisation.init(16)(x), np.float64)
    for group in (y[..., :8], y[..., 8:]):
        assert group.mean() == pytest.approx(0, abs=1e-5)
        assert group.var() == pytest.approx(1, abs=1e-3)
    # What it does to an image is the same whatever images are beside it, and how many.
    both = jax.vmap(Normalisation.init(16))(jnp.stack([x, 100 * x]))
    np.testing.assert_allclose(both[0], y, atol=1e-5)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("normalised", [False, True])
def test_derivatives_are_those_of_finite_differences(normalised: bool) -> None:
    pictures = Pictures((5, 4, 2), (Stage(4, 3, 2, 1), Stage(8, 3, 2, 1)), normalised)
    painter = Painter.init(pictures, (3, 6), key=jax.random.key(0))
    reader = Reader.init(pictures, 40 + 3, (5, 4), key=jax.random.key(1))
    networks = jax.tree.map(
        lambda leaf: leaf.astype(jnp.float64) if eqx.is_array(leaf) else leaf, (painter, reader)
    )
    arrays, rest = eqx.partition(networks, eqx.is_array)
    h = jnp.asarray(some(3))

    @jax.jit
    def loss(arrays: object, h: jax.Array) -> jax.Array:
        painter, reader = eqx.combine(arrays, rest)
        return jnp.sin(reader(jnp.concatenate([painter(h), h]))).sum()

    slopes = jax.jit(jax.grad(loss, argnums=(0, 1)))(arrays, h)
    rng = np.random.default_rng(1)
    direction = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape)), (arrays, h))
    along = sum(
        float(jnp.sum(a * b))
        for a, b in zip(jax.tree.leaves(slopes), jax.tree.leaves(direction), strict=True)
    )

    def moved(by: float) -> float:
        return float(loss(*jax.tree.map(lambda leaf, d: leaf + by * d, (arrays, h), direction)))

    assert along == pytest.approx((moved(1e-6) - moved(-1e-6)) / 2e-6, rel=1e-5, abs=1e-7)


def test_a_perceptron_is_what_it_was() -> None:
    """Models of tables that were saved before there were images are made of the same keys."""
    network = Perceptron.init((2, 3, 1), key=jax.random.key(0))
    model = Model.init(Pixels((1, 1), jnp.zeros(2)), None, (2,), hidden=3, key=jax.random.key(0))
    assert isinstance(model.decoder, Perceptron)
    assert isinstance(model.encoder.first, Perceptron)
    assert [math.prod(leaf.shape) for leaf in jax.tree.leaves(network)] == [6, 3, 3, 1]


def test_images_that_do_not_fit_are_refused() -> None:
    pixels = Pixels((1,) * 16, jnp.zeros(16))
    small = Pictures((2, 8, 1), (Stage(4, 5, 2, 0),))
    with pytest.raises(InputError, match=r"Images of 2 x 8 pixels are too small for their conv"):
        Model.init(pixels, None, (2,), hidden=4, pictures=small, key=jax.random.key(0))
    large = Pictures((8, 8, 1), (Stage(4, 3, 2, 1),))
    with pytest.raises(InputError, match="Images of 64 pixels cannot be those of 16 columns"):
        Model.init(pixels, None, (2,), hidden=4, pictures=large, key=jax.random.key(0))
