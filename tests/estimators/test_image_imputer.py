"""`ImageImputer`: holes are filled, what was observed stays, and what is no image is refused."""

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError

from hhvaem import ImageImputer, InputError, TableWarning, load
from hhvaem.image_saving import restored_images
from hhvaem.storage import read_arrays, write_arrays

IMAGES = load_digits().images / 16
HOLES = np.random.default_rng(0).random(IMAGES.shape) < 0.5
SHOWN = np.where(HOLES, np.nan, IMAGES)
TRAINED = 1200


@pytest.fixture(scope="module")
def imputer() -> ImageImputer:
    return ImageImputer(preset="fast", random_state=0).fit(SHOWN[:TRAINED])


def rmse(full: np.ndarray, rows: slice) -> float:
    return float(np.sqrt(np.mean((full - IMAGES[rows])[HOLES[rows]] ** 2)))


def test_chains_fill_better_than_the_encoder_and_that_than_means(imputer: ImageImputer) -> None:
    rows = slice(TRAINED, None)
    by_mean = np.where(HOLES, np.nanmean(SHOWN[:TRAINED], axis=0), IMAGES)[rows]
    by_encoder = imputer.transform(SHOWN[rows], posterior="encoder")
    full = imputer.transform(SHOWN[rows])
    assert rmse(full, rows) < rmse(by_encoder, rows) - 0.005
    assert rmse(by_encoder, rows) < rmse(by_mean, rows) - 0.02
    np.testing.assert_array_equal(full[~HOLES[rows]], IMAGES[rows][~HOLES[rows]])
    assert ((full >= 0) & (full <= 1)).all()


def test_draws_are_as_wide_as_the_uncertainty_says(imputer: ImageImputer) -> None:
    some = SHOWN[TRAINED : TRAINED + 100]
    draws = np.stack(imputer.sample(some, 40))
    holes = np.isnan(some)
    assert (draws[:, ~holes] == some[~holes]).all()
    spread = imputer.uncertainty(some)
    assert (spread[~holes] == 0).all()
    assert (spread[holes] > 0).all()
    # Pixels at the border are hardly ever anything but black, and draws are clipped there.
    inside = holes & (spread > 0.1) & (np.abs(draws.mean(0) - 0.5) < 0.2)
    ratio = draws.std(0)[inside] / spread[inside]
    assert 0.8 < np.median(ratio) < 1.1
    low, high = np.quantile(draws, [0.05, 0.95], axis=0)
    truth = IMAGES[TRAINED : TRAINED + 100]
    # Forty draws; digits that were not trained on.
    assert 0.8 < ((truth >= low) & (truth <= high))[holes].mean() < 0.98


def test_images_beside_an_image_do_not_matter(imputer: ImageImputer) -> None:
    some = SHOWN[:20]
    order = np.random.default_rng(1).permutation(20)
    together = imputer.transform(some)
    np.testing.assert_allclose(imputer.transform(some[order]), together[order], atol=1e-6)
    np.testing.assert_allclose(imputer.transform(some[3:4]), together[3:4], atol=1e-6)


def test_a_mask_says_the_same_as_nan(imputer: ImageImputer) -> None:
    filled = imputer.transform(np.where(HOLES, 0.3, IMAGES)[:5], mask=~HOLES[:5])
    np.testing.assert_array_equal(filled, imputer.transform(SHOWN[:5]))
    with_channel = imputer.transform(SHOWN[:5, ..., None])
    np.testing.assert_array_equal(with_channel[..., 0], filled)
    by_pixel = imputer.transform(IMAGES[:5, ..., None], mask=~HOLES[:5])
    np.testing.assert_array_equal(by_pixel[..., 0], filled)


def test_what_has_no_holes_comes_back(imputer: ImageImputer) -> None:
    np.testing.assert_array_equal(imputer.transform(IMAGES[:3]), IMAGES[:3])
    assert not imputer.uncertainty(IMAGES[:3]).any()


def test_chains_of_images_are_told_of(imputer: ImageImputer) -> None:
    told = imputer.diagnostics(SHOWN[:8])
    assert set(told) == {"acceptance", "divergent", "rhat", "movement"}
    assert all(each.shape == (8,) for each in told.values())
    assert 0.5 < told["acceptance"].mean() < 1
    assert told["movement"].mean() > 0.7


def test_a_saved_imputer_fills_the_same(imputer: ImageImputer, tmp_path: Path) -> None:
    imputer.save(tmp_path / "digits.hhvaem")
    again = load(tmp_path / "digits.hhvaem")
    np.testing.assert_array_equal(again.transform(SHOWN[:5]), imputer.transform(SHOWN[:5]))
    assert again.get_params() == imputer.get_params()
    assert again.fitted_.plan == imputer.fitted_.plan


def test_files_that_are_not_what_they_say_are_refused(
    imputer: ImageImputer, tmp_path: Path
) -> None:
    path = tmp_path / "digits.hhvaem"
    imputer.save(path)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match="damaged"):
        load(path)
    path.write_bytes(content)
    arrays, manifest = read_arrays(path)

    def refused(match: str, **changes: Any) -> None:
        plan = {**manifest["plan"], **changes}
        write_arrays(path, arrays, {**manifest, "plan": plan})
        with pytest.raises(InputError, match=match):
            load(path)

    pictures = manifest["plan"]["pictures"]
    refused("not those of the model", layers=[11])
    refused("beyond all reason", pictures={**pictures, "shape": [2**12, 2**12, 3]})
    refused("sees nothing", pictures={**pictures, "stages": [[4, 0, 1, 1]]})
    refused("at least 1", pictures={**pictures, "shape": [0, 8, 1]})
    broken = {**arrays, "tuned.log_step": np.full(1, np.nan, np.float32)}
    with pytest.raises(InputError, match="not finite"):
        restored_images(broken, manifest)


@pytest.mark.slow
def test_a_fit_of_black_and_white_images(tmp_path: Path) -> None:
    images = IMAGES[:200] > 0.5
    settings: dict[str, Any] = {"preset": "fast", "max_steps": 300, "random_state": 0}
    imputer = ImageImputer(**settings).fit(images, mask=~HOLES[:200])
    assert imputer.binary_
    draws = imputer.sample(images[:4].astype(float), 3, mask=~HOLES[:4])
    assert set(np.unique(draws)) == {0.0, 1.0}
    full = imputer.transform(images[:4], mask=~HOLES[:4])
    assert full.dtype == bool
    assert (full[~HOLES[:4]] == images[:4][~HOLES[:4]]).all()
    mean = imputer.transform(images[:4].astype(float), mask=~HOLES[:4])
    assert ((mean > 0.5) == full).all()
    spread = imputer.uncertainty(images[:4], mask=~HOLES[:4])[HOLES[:4]]
    np.testing.assert_allclose(spread, np.sqrt(mean * (1 - mean))[HOLES[:4]], atol=1e-6)
    # The same again, from a snapshot and from its saved form.
    again = clone(imputer).set_params(snapshots=tmp_path / "snapshots")
    for _ in range(2):
        again.fit(images, mask=~HOLES[:200])
        np.testing.assert_array_equal(again.sample(images[:4], 3, mask=~HOLES[:4]), draws)
    again.save(tmp_path / "model.hhvaem")
    assert load(tmp_path / "model.hhvaem").binary_


@pytest.mark.slow
def test_images_of_bytes_and_colours_keep_their_dtype() -> None:
    rng = np.random.default_rng(0)
    images = rng.integers(256, size=(40, 6, 5, 3), dtype=np.uint8)
    mask = rng.random((40, 6, 5)) < 0.7
    with pytest.warns(TableWarning, match="no better than each does by its mean"):
        imputer = ImageImputer(preset="fast", max_steps=20, random_state=0).fit(images, mask=mask)
    full = imputer.transform(images[:3], mask=mask[:3])
    assert (full.dtype, full.shape) == (np.uint8, (3, 6, 5, 3))
    np.testing.assert_array_equal(full[mask[:3]], images[:3][mask[:3]])
    assert imputer.uncertainty(images[:3], mask=mask[:3]).max() > 20  # of 255


REFUSED = [
    ([np.zeros((8, 8)), np.zeros((8, 7))], None, "Image 1 is 8 x 7 and the first is 8 x 8; crop"),
    (np.full((2, 8, 8), 16.0), None, r"pixel (0, 0) of image 0 is 16.0; pixels are numbers from 0"),
    (np.full((2, 8, 8), -0.1), None, "is -0.1; pixels are numbers from 0 to 1, or whole numbers"),
    (np.full((2, 8, 8), np.inf), None, "is inf; pixels are numbers from 0 to 1"),
    (np.full((2, 8, 8), 256), None, "is 256; pixels are numbers from 0 to 1, or whole numbers"),
    (np.zeros((8, 8)), None, "The array of images is 8 x 8; give images x height x width"),
    (np.zeros((2, 0, 8)), None, "The array of images is 2 x 0 x 8; give"),
    (np.zeros((0, 8, 8)), None, "There are no images; give at least one."),
    (np.full((2, 8, 8), "a"), None, "Images are of dtype <U1; give an array of numbers"),
    (np.ma.zeros((2, 8, 8)), None, "The images are a masked array; give images.data and as the"),
    ([np.ma.zeros((8, 8))] * 2, None, "The images are a masked array; give images.data and as"),
    (np.ones((2, 8, 8), np.int8), None, "Images are of dtype int8, which holds no more than 127"),
    ([], None, "There are no images; give at least"),
    ([[[1, 2], [3]], [[1, 2], [3, 4]]], None, "Image 0 has rows of differing lengths"),
    (np.zeros((2, 8, 8)), [[True], [True, True]], "The mask has rows of differing lengths"),
    (
        np.zeros((2, 8, 8)),
        np.ma.ones((2, 8, 8), bool),
        "The mask is a masked array itself; give mask.data",
    ),
    (np.zeros((2, 8, 8)), np.ones((2, 8, 7), bool), "The mask is 2 x 8 x 7 and the images are 2 x"),
    (np.zeros((2, 8, 8)), np.ones((2, 8, 8)), "The mask is of dtype float64; give truth values"),
    (
        np.full((2, 8, 8), np.nan),
        None,
        "The pixel (0, 0) is missing in all images, so that nothing",
    ),
]


@pytest.mark.parametrize(("images", "mask", "sentence"), REFUSED, ids=[each[2] for each in REFUSED])
def test_what_is_no_image_is_refused_in_a_sentence(images: Any, mask: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=re.escape(sentence)) as told:
        ImageImputer(random_state=0).fit(images, mask=mask)
    assert str(told.value).count("\n") == 0


def test_images_of_another_size_are_refused(imputer: ImageImputer) -> None:
    with pytest.raises(
        InputError, match=r"The images are 8 x 7 x 1 .* those of the fit were 8 x 8"
    ):
        imputer.transform(SHOWN[:2, :, :7])
    with pytest.raises(NotFittedError):
        ImageImputer().transform(SHOWN)


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"preset": "best"}, "preset='best' is unknown; use"),
        ({"layers": (0,)}, "layers=(0,) must be a tuple of whole numbers"),
        ({"inference": "magic"}, "inference='magic' is unknown"),
        ({"max_steps": 0}, "max_steps=0 must be a whole number of at least 1"),
        ({"max_seconds": -1}, "max_seconds=-1 is no time"),
        ({"batch_size": 1.5}, "batch_size=1.5 must be a whole number"),
        ({"draws": 0}, "draws=0 must be a whole number"),
        ({"random_state": "x"}, "random_state='x' is no seed"),
        ({"snapshots": 3}, "snapshots=3 is no folder"),
        ({"snapshots": "here"}, "With snapshots a fit needs a random_state"),
        ({"device": "abacus"}, "device='abacus' is not there"),
    ],
)
@pytest.mark.usefixtures("as_users_have_it")
def test_parameters_that_are_none(parameters: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=re.escape(sentence)):
        ImageImputer(**parameters).fit(SHOWN[:10])


def test_a_plan_is_written_as_json(imputer: ImageImputer) -> None:
    assert json.loads(json.dumps(dataclasses.asdict(imputer.fitted_.plan)))["binary"] is False
