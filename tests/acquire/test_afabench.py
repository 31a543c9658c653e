"""The protocol of AFABench: features and masks in, actions and probabilities out."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hhvaem import Classifier, InputError, TableWarning
from hhvaem.acquire.afabench import Acquirer

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(200, 4))
LABELS = FEATURES[:, 1] + 0.5 * FEATURES[:, 3] > 0


@pytest.fixture(scope="module")
def model() -> Classifier:
    return Classifier(preset="fast", random_state=0).fit(FEATURES, LABELS)


def test_an_episode(model: Classifier) -> None:
    method = Acquirer(model)
    shown = np.zeros((20, 4), bool)
    rights = []
    for step in range(4):
        # What is masked is zero, and is not read.
        features = np.where(shown, FEATURES[:20], 0.0)
        actions = method.act(features, shown, shown, LABELS[:20], (4,))
        assert actions.shape == (20,)
        if step == 0:
            assert (actions == 2).all()
        assert (actions > 0).all()
        assert not shown[np.arange(20), actions - 1].any()
        shown[np.arange(20), actions - 1] = True
        shares = method.predict(np.where(shown, FEATURES[:20], 0.0), shown)
        np.testing.assert_allclose(shares.sum(1), 1, rtol=1e-5)
        rights.append((shares.argmax(1) == LABELS[:20]).mean())
    assert rights[-1] >= 0.9
    assert (method.act(FEATURES[:20], shown) == 0).all()


def test_costs_and_what_was_asked_in_vain(model: Classifier) -> None:
    nothing = np.zeros((2, 3, 4))
    dear = Acquirer(model, costs=[1.0, 100.0, 1.0, 1.0])
    assert (dear.act(nothing, nothing > 0) == np.full((2, 3), 4)).all()
    in_vain = np.broadcast_to([False, False, False, True], nothing.shape)
    assert not (dear.act(nothing, nothing > 0, in_vain) == 4).any()
    dear.set_cost_param(10.0)
    assert (dear.act(nothing, nothing > 0) == 0).all()
    with pytest.raises(InputError, match="from 0"):
        dear.set_cost_param(-1.0)
    with pytest.raises(InputError, match="Give 4 finite costs"):
        Acquirer(model, costs=[1.0])


NOTHING = np.zeros((2, 4))
SHOWN = NOTHING == 0


@pytest.mark.usefixtures("as_users_have_it")
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: Acquirer("model"), "AFABench needs a fitted Classifier."),
        (lambda m: Acquirer(m, costs=["a"] * 4), "costs is no array of numbers; give one."),
        (lambda m: Acquirer(m, costs=[1, 1, 1, np.inf]), "Give 4 finite costs that are not negati"),
        (lambda m: Acquirer(m, costs=[1, 1, 1, np.nan]), "Give 4 finite costs that are not negati"),
        (lambda m: Acquirer(m).set_cost_param("a"), "cost_param='a' must be a number from 0."),
        (lambda m: Acquirer(m).set_cost_param(np.nan), "cost_param=nan must be a number from 0."),
        (lambda m: Acquirer(m).set_seed(1.5), "seed=1.5 must be a whole number of at least 0."),
        (
            lambda m: Acquirer(m).act(np.where(SHOWN, np.nan, 0.0), SHOWN),
            "feature_mask shows feature 0 of row 0 (counted from 0), and masked_features has no",
        ),
        (
            lambda m: Acquirer(m).predict(NOTHING, SHOWN[:1]),
            "masked_features has the shape (2, 4) and feature_mask (1, 4); give both of one shape",
        ),
        (lambda m: Acquirer(m).act(NOTHING[:, :3], SHOWN[:, :3]), "with the 4 features of the mo"),
        (lambda m: Acquirer(m).act(0.0, True), "with the 4 features of the model at its end."),
        (lambda m: Acquirer(m).act(NOTHING, NOTHING + 2), "feature_mask has other values than"),
        (lambda m: Acquirer(m).act([["a"] * 4], SHOWN[:1]), "masked_features is no array of numb"),
        (
            lambda m: Acquirer(m).act(NOTHING, SHOWN, SHOWN[:1]),
            "selection_mask has the shape (1, 4), and feature_mask (2, 4); give both of one shape.",
        ),
    ],
)
def test_wrong_arguments_to_the_benchmark(
    model: Classifier, call: Callable[[Classifier], Any], message: str
) -> None:
    with pytest.raises(InputError) as told:
        call(model)
    assert message in str(told.value)


def test_one_target_there_must_be() -> None:
    both = np.stack([LABELS, FEATURES[:, 2] > 0], axis=1)
    two = Classifier(preset="fast", random_state=0).fit(FEATURES, both)
    with pytest.raises(InputError) as told:
        Acquirer(two)
    assert str(told.value) == (
        "AFABench asks about one target, and this Classifier has 2; fit one for each."
    )
    # One target in a table is one.
    one = Classifier(preset="fast", random_state=0).fit(FEATURES, both[:, :1])
    assert Acquirer(one).predict(FEATURES[:3], SHOWN[:1].repeat(3, 0)).shape == (3, 2)


def test_where_all_columns_are_constant_it_stops() -> None:
    with pytest.warns(TableWarning, match="predicts hidden cells no better"):
        model = Classifier(preset="fast", max_steps=20, random_state=0).fit(
            np.ones((30, 2)), np.arange(30) % 2
        )
    assert Acquirer(model).act(np.zeros((3, 2)), np.zeros((3, 2), bool)).tolist() == [0, 0, 0]


def test_saved_and_loaded(model: Classifier, tmp_path: Path) -> None:
    method = Acquirer(model)
    method.save(tmp_path / "model")
    again = Acquirer.load(tmp_path / "model", device="cpu")
    mask = np.zeros((3, 4), bool)
    mask[1, 1] = mask[2, 3] = True
    np.testing.assert_array_equal(again.act(FEATURES[:3], mask), method.act(FEATURES[:3], mask))
    before = method.predict(FEATURES[:3], mask)
    np.testing.assert_array_equal(again.predict(FEATURES[:3], mask), before)
    again.set_seed(7)
    again.set_seed(None)
    after = again.predict(FEATURES[:3], mask)
    assert not np.array_equal(after, before)
    np.testing.assert_allclose(after, before, atol=0.2)
