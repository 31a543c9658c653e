"""Pixels as columns: closed forms, and a model of images that trains and samples like any other."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import load_digits

from hhvaem import posterior, train
from hhvaem.encoding import Cells
from hhvaem.fitting import row_keys
from hhvaem.marginals import Direct
from hhvaem.model import Model, Row
from hhvaem.networks import Pictures, Stage
from hhvaem.objectives import importance_bound
from hhvaem.pixels import Pixels, image_rows
from hhvaem.posterior import How
from hhvaem.steps import Settings

SMALL = Pictures((4, 3, 1), (Stage(4, 3, 2, 1),))


def cells(point: np.ndarray) -> Cells:
    return Cells(*[jnp.asarray(point, jnp.float32)] * 3)


def test_the_law_of_pixels_is_scipys() -> None:
    logits = np.random.default_rng(0).normal(size=12) * 5
    pixels, levels = Pixels((1,) * 12, jnp.zeros(12)), np.arange(12) % 2
    parameters, none = jnp.asarray(logits, jnp.float32), jnp.zeros(12)
    share = 1 / (1 + np.exp(-logits))
    np.testing.assert_allclose(
        pixels.log_prob(parameters, none, cells(levels)),
        stats.bernoulli.logpmf(levels, share),
        rtol=1e-4,
        atol=1e-6,
    )
    np.testing.assert_allclose(pixels.expected(parameters), share, atol=1e-6)
    draw = partial(pixels.sample, parameters, none)
    drawn = np.asarray(
        jax.vmap(lambda key: draw(key=key))(jax.random.split(jax.random.key(0), 4000))
    )
    assert set(np.unique(drawn)) == {0.0, 1.0}
    np.testing.assert_allclose(drawn.mean(0), share, atol=4 * 0.5 / np.sqrt(4000))
    # As columns of two levels have it, which are computed in another way.
    pairs = Direct((2,) * 12, jnp.zeros(12))
    for point in (levels, 1 - levels):
        np.testing.assert_allclose(
            pixels.log_prob(parameters, none, cells(point)),
            pairs.log_prob(parameters, none, cells(point)),
            atol=1e-5,
        )


def test_grey_values_count_by_their_cross_entropy() -> None:
    pixels, logits = Pixels((1,), jnp.zeros(1)), jnp.array([0.7])
    white, black, grey = (
        float(pixels.log_prob(logits, jnp.zeros(1), cells(np.array([x])))[0])
        for x in (1.0, 0.0, 0.25)
    )
    assert grey == pytest.approx(0.25 * white + 0.75 * black, rel=1e-6)


def test_pixels_start_from_their_means() -> None:
    values = np.array([[0.0, 1.0, 0.5], [1.0, 1.0, 0.25], [1.0, 1.0, 0.0]])
    mask = np.array([[True, True, True], [True, True, True], [True, True, False]])
    share = np.asarray(jax.nn.sigmoid(Pixels.fit(values, mask).base))
    np.testing.assert_allclose(share, [2.5 / 4, 3.5 / 4, 1.25 / 3], rtol=1e-5)


def a_model(targets: Direct | None = None) -> Model:
    pixels = Pixels((1,) * 12, jnp.zeros(12))
    return Model.init(pixels, targets, (3, 2), hidden=8, pictures=SMALL, key=jax.random.key(0))


def a_row(targets: int = 0) -> Row:
    rng = np.random.default_rng(1)
    target = cells(rng.integers(3, size=targets))
    return Row(
        cells(rng.integers(2, size=12)),
        jnp.asarray(rng.random(12) < 0.5),
        target,
        jnp.ones(targets, bool),
    )


def test_hidden_pixels_influence_nothing_and_observed_ones_do() -> None:
    model, row = a_model(Direct((3,), jnp.zeros(3))), a_row(1)

    @jax.jit
    def told(row: Row) -> list[jax.Array]:
        seen = model.see(row)
        parts = model.encode(seen), model.log_joint(jnp.ones(5), seen, with_target=True)
        return jax.tree.leaves(parts)

    flipped = row._replace(cells=Cells(*(jnp.where(row.mask, x, 1 - x) for x in row.cells)))
    for one, other in zip(told(row), told(flipped), strict=True):
        np.testing.assert_array_equal(one, other)
    seen = row._replace(cells=Cells(*(jnp.where(row.mask, 1 - x, x) for x in row.cells)))
    for one, other in zip(told(row), told(seen), strict=True):
        assert not np.array_equal(one, other)


def test_the_bound_of_a_model_of_images_reaches_its_likelihood() -> None:
    """One latent number, integrated over on a grid."""
    pixels = Pixels((1,) * 12, jnp.zeros(12))
    model = Model.init(pixels, None, (1,), hidden=8, pictures=SMALL, key=jax.random.key(3))
    seen = model.see(a_row())
    grid = np.linspace(-8, 8, 4001, dtype=np.float32)
    log_joint = jax.jit(jax.vmap(lambda at: model.log_joint(at, seen, with_target=False)))
    density = log_joint(grid[:, None])
    exact = np.log(np.exp(np.asarray(density, np.float64)).sum() * (grid[1] - grid[0]))
    noise = jax.random.normal(jax.random.key(0), (20_000, 1))
    assert float(jax.jit(partial(importance_bound, model))(seen, noise)) == pytest.approx(
        exact, abs=0.02
    )


def test_images_of_a_batch_do_not_matter_to_each_other() -> None:
    model = jax.tree.map(lambda leaf: leaf[None], a_model())
    rng = np.random.default_rng(0)
    values, mask = rng.integers(2, size=(6, 12)).astype(float), rng.random((6, 12)) < 0.5
    tuned = posterior.Tuned(jnp.array([-1.0]))
    how = How("hmc", chains=4, kept=2, transitions=3, leapfrog=3)

    def drawn(order: np.ndarray) -> np.ndarray:
        row, keys = image_rows(values[order], mask[order]), row_keys(values[order], mask[order], 0)
        return np.asarray(posterior.draws(model, tuned, row, keys, how).positions[0])

    order = rng.permutation(6)
    np.testing.assert_allclose(drawn(order), drawn(np.arange(6))[order], atol=1e-5)


def test_chains_beat_the_encoder_on_hidden_pixels() -> None:
    """Digits of 8 x 8 pixels, black and white, half of them hidden, in training as well."""
    images = (load_digits().images.reshape(-1, 64) >= 8).astype(float)
    rng = np.random.default_rng(0)
    images = images[rng.permutation(len(images))]
    mask = rng.random(images.shape) < 0.5
    split = 1500
    pixels = Pixels.fit(images[:split], mask[:split])
    pictures = Pictures((8, 8, 1), (Stage(16, 3, 2, 1), Stage(32, 3, 2, 1)))
    settings = Settings(
        inference="importance", steps=800, batch_size=64, learning_rate=4e-3, importance_samples=5
    )
    states = train.untrained(
        jax.tree.map(lambda leaf: leaf[None], (pixels, None)),
        (10,),
        settings,
        hidden=64,
        pictures=pictures,
        keys=jax.random.split(jax.random.key(0), 1),
    )
    data = train.gather([image_rows(images[:split], mask[:split])])
    states, _ = train.train(states, data, settings)
    tuned = posterior.tune(states.model, data, jax.random.split(jax.random.key(1), 1))
    values, shown = images[split:], mask[split:]
    row, keys = image_rows(values, shown), row_keys(values, shown, 0)

    def score(how: How) -> float:
        """Give the log score of hidden pixels, per pixel."""
        drawn = posterior.draws(states.model, tuned, row, keys, how)
        shares = posterior.laws(states.model, row, drawn.positions).cells[0]
        share = np.asarray(shares, np.float64).mean(1)
        return -np.log(np.where(values > 0, share, 1 - share))[~shown].mean()

    means = np.clip(np.mean(images[:split], 0, where=mask[:split]), 0.001, 0.999)
    by_mean = -np.log(np.where(values > 0, means, 1 - means))[~shown].mean()
    by_encoder = score(How("encoder", chains=50, kept=1))
    by_chains = score(How("hmc", chains=10, kept=5, transitions=10, leapfrog=4))
    # About 9,500 pixels of 297 images: their difference has a standard error of 0.002.
    assert by_chains < by_encoder - 0.01
    assert by_encoder < by_mean - 0.01
