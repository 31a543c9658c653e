"""The protocol of AFABench: features and masks in, actions and probabilities out."""

from pathlib import Path

import numpy as np
import pytest

from hhvaem import Classifier, InputError
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
    with pytest.raises(InputError, match="Give 4 costs"):
        Acquirer(model, costs=[1.0])


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
