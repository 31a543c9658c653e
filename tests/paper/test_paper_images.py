"""The paper's images: protocols, scores with known answers, runs that go on, filled holes."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.datasets import load_digits

from hhvaem.datasets.images import Images
from hhvaem.datasets.splits import folds
from hhvaem.errors import InputError
from hhvaem.model import Model
from hhvaem.networks import Pictures, Stage
from hhvaem.objectives import Sampler
from hhvaem.paper import collection, image_sets, inpainting
from hhvaem.paper.image_sets import (
    HELD_FACES,
    PUBLISHED_IMAGES,
    SEED,
    ImageFold,
    Pile,
    PublishedImages,
    half_mask,
    take_image_fold,
    target_law,
)
from hhvaem.paper.image_testing import calibration_error, look_at, score_images
from hhvaem.paper.images import (
    IMAGE_ABLATIONS,
    IMAGE_MODELS,
    Size,
    complete,
    configured,
    identity,
    run,
    work_place,
)
from hhvaem.pixels import Pixels
from hhvaem.posterior import How

DIGITS = Pictures((8, 8, 1), (Stage(4, 3, 2, 1), Stage(8, 3, 2, 1)))
SMALL = PublishedImages(
    DIGITS, 2e-3, 32, steps=40, hmc_steps=4, warm_up=5, one_layer=(4,), two_layers=(4, 2), hidden=16
)


def pile(start: int, stop: int) -> Pile:
    digits = load_digits()
    pixels = (digits.images.reshape(-1, 64) >= 8)[start:stop].astype(np.float32)
    labels = digits.target[start:stop, None].astype(np.float32)
    return Pile(pixels, labels, np.ones(pixels.shape, bool), np.ones(labels.shape, bool))


def fold() -> ImageFold:
    own, official = pile(300, 340), pile(400, 420)
    tests = {
        "own": own.shown(half_mask(own, [0, 1])),
        "official": official.shown(half_mask(official, [0, 2])),
    }
    return ImageFold("mnist", 0, pile(0, 300), tests)


@contextmanager
def no_bar(_: int) -> Iterator[Callable[[Any], None]]:
    yield lambda told: None


def test_all_models_have_the_published_settings_and_the_same_decay() -> None:
    for name, rate in (("mnist", 2e-4), ("fashion_mnist", 1e-3)):
        for model in IMAGE_MODELS:
            layers, settings = configured(PUBLISHED_IMAGES[name], model)
            assert layers == ((20, 10) if model in ("H-VAE", "HH-VAE") else (20,))
            assert (settings.learning_rate, settings.step_rate) == (rate, 1e-3)
            assert (settings.steps, settings.batch_size, settings.weight_decay) == (100_440, 100, 0)
            third = 1_440 if model in ("HMC-VAE", "HH-VAE") else 0
            assert settings.steps - settings.second_stage == third
        decays = {configured(PUBLISHED_IMAGES[name], m)[1].weight_decay for m in IMAGE_ABLATIONS}
        assert decays == {0.01}


def test_folds_of_mnist(data_folder: Path) -> None:
    taken = take_image_fold("mnist", 3)
    assert [len(p.pixels) for p in (taken.train, *taken.tests.values())] == [54_000, 6_000, 10_000]
    assert set(np.unique(taken.train.pixels)) == {0.0, 1.0}
    own = taken.tests["own"]
    assert own.mask.mean() == pytest.approx(0.5, abs=0.001)
    assert not own.label_mask.any()
    assert taken.train.label_mask.all()
    # The threshold: a byte of 129 is the first that is white.
    from hhvaem.datasets import load_images

    bytes_ = load_images("mnist").pixels[folds(60_000, SEED)[3]].reshape(6_000, -1)
    np.testing.assert_array_equal(own.pixels, bytes_ >= 129)


def test_faces_without_attributes_are_trained_on(data_folder: Path) -> None:
    taken = take_image_fold("celeba", 0)
    assert taken.train.pixels.shape == (4_500, 64 * 64 * 3)
    assert (~taken.train.label_mask.any(1)).sum() == 2_500
    assert len(taken.tests["own"].pixels) == 500
    assert target_law(taken.train).levels == (2,) * 40


@pytest.mark.parametrize("limit", [None, 3])
def test_faces_that_would_all_be_held_for_the_test(
    monkeypatch: pytest.MonkeyPatch, limit: int | None
) -> None:
    def some(count: int) -> Images:
        pixels = np.zeros((count, 2, 2, 3), np.uint8)
        return Images("celeba", pixels, np.zeros((count, 1), np.uint8), np.ones(count, bool))

    for count in (300, HELD_FACES):
        monkeypatch.setattr(image_sets, "load_images", lambda name, count=count: some(count))
        with pytest.raises(InputError, match=f"celeba has {count} images here.*give more than 500"):
            take_image_fold("celeba", 0, limit=limit)
    monkeypatch.setattr(image_sets, "load_images", lambda name: some(HELD_FACES + 1))
    taken = take_image_fold("celeba", 0, limit=limit)
    assert (len(taken.train.pixels), len(taken.tests["own"].pixels)) == (1, limit or HELD_FACES)


def test_scores_of_a_model_that_knows_nothing() -> None:
    test = fold().tests["own"]
    pixels = Pixels((1,) * 64, jnp.zeros(64))
    model = Model.init(
        pixels, target_law(test._replace(label_mask=np.ones_like(test.label_mask))), (4,),
        hidden=8, pictures=DIGITS, key=jax.random.key(0),
    )  # fmt: skip
    arrays, rest = jax.tree.flatten(model)
    flat = jax.tree.unflatten(rest, [jnp.zeros_like(leaf) for leaf in arrays])
    sampler = Sampler(jnp.full((10, 4), -2.0), jnp.zeros(1))
    how = How("encoder", chains=6, kept=1)
    told = look_at(flat, sampler, test, how, key=jax.random.key(0), say=print)
    scores = score_images(test, told)
    for name in ("paper_nll_missing", "paper_nll_observed", "log_score_cell", "log_score_joint"):
        assert scores[name] == pytest.approx(np.log(2), rel=1e-5)
    assert scores["paper_nll_target"] == pytest.approx(np.log(10), rel=1e-5)
    assert scores["log_score_target"] == pytest.approx(np.log(10), rel=1e-5)
    assert scores["brier_cell"] == pytest.approx(0.25, rel=1e-5)
    assert scores["brier_target"] == pytest.approx(0.9, rel=1e-4)
    white = float(np.mean(test.pixels, where=~test.mask))
    assert scores["calibration_error_cell"] == pytest.approx(abs(0.5 - white), abs=1e-5)
    assert scores["paper_nll_missing_mc_error"] == pytest.approx(0, abs=1e-6)
    assert np.isnan(scores["acceptance"])


def test_scores_against_their_formulas_in_numpy() -> None:
    test = fold().tests["own"].some(slice(5))
    law = target_law(pile(0, 300))
    pixels = Pixels((1,) * 64, jnp.zeros(64))
    model = Model.init(pixels, law, (4,), hidden=8, pictures=DIGITS, key=jax.random.key(1))
    sampler = Sampler(jnp.full((10, 4), -2.0), jnp.zeros(1))
    how, key = How("encoder", chains=7, kept=1), jax.random.key(0)
    told = look_at(model, sampler, test, how, key=key, say=print)
    from hhvaem.posterior import draw

    rows = test.rows()
    for i in range(5):
        row = jax.tree.map(lambda leaf, i=i: leaf[i], rows)
        drawn = draw(model, sampler, model.see(row), how, key=jax.random.fold_in(key, i))
        logits = np.asarray(jax.vmap(model.decoder)(drawn.positions[:, 0]), np.float64)
        share = 1 / (1 + np.exp(-logits))
        each = np.log(np.where(test.pixels[i] > 0, share, 1 - share))[:, ~test.mask[i]]
        assert told.missing[i] == pytest.approx(-np.log(np.exp(each.mean(1)).mean()), rel=1e-4)
        assert told.log_pixels[i] == pytest.approx(-np.log(np.exp(each).mean(0)).mean(), rel=1e-4)
        joint = -np.log(np.exp(each.sum(1)).mean()) / each.shape[1]
        assert told.joint[i] == pytest.approx(joint, rel=1e-4)


def test_calibration_errors() -> None:
    right = np.array([[100.0, 20.0, 20.0], [50.0, 45.0, 45.0]])
    assert calibration_error(right) == 0
    assert calibration_error(right + np.array([[0, 30, 0], [0, 0, 0]])) == pytest.approx(0.2)


@pytest.mark.slow
def test_a_run_that_is_stopped_goes_on(tmp_path: Path) -> None:
    size = Size(SMALL, 6, None)
    work = work_place(tmp_path / "work", "mnist", "HH-VAE", 0)
    said: list[str] = []
    assert run(fold(), "HH-VAE", size, work, deadline=time.monotonic(), say=said.append) is None
    assert (work / "snapshot.safetensors").exists()
    found = run(fold(), "HH-VAE", size, work, say=said.append)
    assert found is not None
    assert [r["model"] for r in found["records"]] == [
        "HH-VAE", "HH-VAE by the encoder", "HH-VAE by the default sampler",
    ]  # fmt: skip
    assert len(said) == 6
    # All there: nothing is trained or tested again.
    said.clear()
    assert run(fold(), "HH-VAE", size, work, say=said.append) == found
    assert not said
    path, about = collection.place(tmp_path, "mnist", "HH-VAE"), identity("mnist", "HH-VAE", size)
    collection.add_run(path, about, found)
    records = collection.gather_runs(tmp_path, [about])
    assert len(records) == 3
    for record in records:
        for name in ("paper_nll_missing", "target_accuracy", "official_log_score_target"):
            assert np.isfinite(record[name])
    assert "movement" in records[0]
    assert "acceptance" not in records[1]
    json.dumps(records)


def test_what_is_there_is_not_run_again(tmp_path: Path) -> None:
    size = Size(SMALL, 6, None)
    about = identity("mnist", "VAE", size)
    record = {"table": "mnist", "model": "VAE", "fold": 0, "device": "cpu"}
    from hhvaem.paper.records import versions

    collection.add_run(
        collection.place(tmp_path, "mnist", "VAE"),
        about,
        {"versions": versions(), "records": [record]},
    )
    options: dict[str, Any] = {"say": print, "bar": no_bar}
    assert complete("mnist", ["VAE"], [0], tmp_path, tmp_path / "work", size, **options)
    late = {**options, "deadline": time.monotonic()}
    assert not complete("mnist", ["VAE"], [0, 1], tmp_path, tmp_path / "work", size, **late)


@pytest.mark.slow
def test_holes_are_squares_and_only_they_are_filled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(inpainting.HOLES, 8, 4)
    monkeypatch.setitem(inpainting.SHOWN, 8, 5)
    size = Size(SMALL, 6, None)
    models = ("VAE", "HMC-VAE")
    painted = inpainting.complete(
        fold(), size, tmp_path, models, say=print, bar=no_bar, deadline=np.inf
    )
    assert painted is not None
    hidden = ~painted.pile.mask
    assert (hidden.sum(1) == 16).all()
    for each in painted.filled.values():
        np.testing.assert_array_equal(each.mean[~hidden], painted.pile.pixels[~hidden])
        assert not each.deviation[~hidden].any()
        assert each.deviation[hidden].mean() > 0.001
        assert each.draws.shape == (40, 4, 64)
    told = inpainting.numbers(painted)
    truth, mean = painted.pile.pixels, painted.filled["VAE"].mean
    nll = -np.log(np.where(truth > 0, mean, 1 - mean))
    assert told["nll_hidden"]["VAE"] == pytest.approx(nll[hidden].mean(), rel=1e-3)
    figure = inpainting.draw_figure(painted)
    assert len(figure.axes) == 5 * (2 + 2 + 4 + 1)
