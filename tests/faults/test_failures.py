"""Folds that lack what the table has, and models whose chains explode: said, and survived.

Losses and weights that are not finite are in tests/test_train.py.
"""

import copy
import dataclasses
import math

import equinox as eqx
import jax
import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import KFold

from hhvaem import Classifier, Imputer, Regressor
from hhvaem.errors import InputError, TableWarning

FAST = {"preset": "fast", "max_steps": 50, "random_state": 0}
FOLDS = KFold(4)


def people() -> pd.DataFrame:
    """A table whose last quarter alone has a second level, number and class."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=80)
    table = pd.DataFrame({"x": x, "y": 2 * x + rng.normal(size=80)})
    late = np.arange(80) >= 60
    table["city"] = np.where(late & (x > 0), "Oslo", "Rome")
    table["dose"] = np.where(late, x, 5.0)
    return table.mask(rng.random(table.shape) < 0.1)


@pytest.mark.filterwarnings("ignore:The model predicts hidden cells no better")
def test_a_column_that_is_constant_in_a_fold() -> None:
    table = people()
    *_, (train, test) = FOLDS.split(table)
    imputer = Imputer(**FAST).fit(table.iloc[train])
    assert [imputer.schema_[name].kind for name in ("city", "dose")] == ["constant"] * 2
    new = table.iloc[test]
    with pytest.warns(TableWarning, match="'city'.*'Oslo'|'dose'"):
        full = imputer.transform(new)
    seen = new.notna()
    pd.testing.assert_frame_equal(full.where(seen), new)
    assert not full.isna().any(axis=None)
    assert set(full["city"][~seen["city"]]) == {"Rome"}
    assert set(full["dose"][~seen["dose"]]) == {5.0}


@pytest.mark.filterwarnings("ignore:The model predicts hidden cells no better")
def test_a_target_that_is_constant_in_a_fold() -> None:
    table = people().dropna()
    rows = slice(0, 40)
    with pytest.raises(InputError, match="has one class only, 'Rome'; a classifier needs two"):
        Classifier(**FAST).fit(table[["x", "y"]][rows], table["city"][rows])
    # A number may be what it always was.
    model = Regressor(**FAST).fit(table[["x", "y"]][rows], table["dose"][rows])
    assert np.isfinite(model.predict(table[["x", "y"]])).all()


@pytest.fixture(scope="module")
def imputer() -> Imputer:
    return Imputer(**FAST).fit(people()[["x", "y"]].to_numpy())


@pytest.mark.filterwarnings("ignore:The model predicts hidden cells no better")
@pytest.mark.parametrize("factor", [1e3, 1e12, 1e30])
@pytest.mark.parametrize("part", ["steps", "weights"])
def test_chains_that_explode(imputer: Imputer, part: str, factor: float) -> None:
    """A step far too long, or a decoder that is far too steep, moves no chain to nowhere."""
    table = people()[["x", "y"]].to_numpy()
    fitted = imputer.fitted_
    wild = copy.copy(imputer)
    if part == "steps":
        step = fitted.tuned.log_step + math.log(factor)
        wild.fitted_ = dataclasses.replace(
            fitted, tuned=eqx.tree_at(lambda tuned: tuned.log_step, fitted.tuned, step)
        )
    else:
        decoder = jax.tree.map(
            lambda leaf: leaf * np.float32(factor) if eqx.is_array(leaf) else leaf,
            fitted.models.decoder,
        )
        models = eqx.tree_at(lambda models: models.decoder, fitted.models, decoder)
        wild.fitted_ = dataclasses.replace(fitted, models=models)
    full = wild.transform(table)
    np.testing.assert_array_equal(full[~np.isnan(table)], table[~np.isnan(table)])
    assert np.isfinite(full).all()
    told = wild.diagnostics(table)
    usual = imputer.diagnostics(table)
    assert np.mean(told["acceptance"]) < 0.5 * np.mean(usual["acceptance"])
    assert np.mean(told["divergent"]) > np.mean(usual["divergent"])
