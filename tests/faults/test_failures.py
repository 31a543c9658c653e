"""Folds that lack what the table has, and models whose chains explode: said, and survived.

Losses and weights that are not finite are in tests/test_train.py.
"""

import copy
import dataclasses
import math
import warnings
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import KFold

from hhvaem import Classifier, Imputer, Regressor
from hhvaem.errors import InputError, TableWarning
from hhvaem.fitting import Fitted

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


def test_a_class_that_a_fold_lacks() -> None:
    table = people()[:60].dropna()
    with pytest.raises(InputError, match=r"has one class only, .*Rome.*; a classifier needs two"):
        Classifier(**FAST).fit(table[["x", "y"]], table["city"])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The model predicts hidden cells no better")
def test_a_number_that_is_the_same_in_a_fold() -> None:
    table = people()[:60].dropna()
    model = Regressor(**FAST).fit(table[["x", "y"]], table["dose"])
    assert np.isfinite(model.predict(people()[["x", "y"]])).all()


@pytest.fixture(scope="module")
def imputer() -> Imputer:
    # As many rows as in a fold, whose programs it shares.
    with warnings.catch_warnings(action="ignore", category=TableWarning):
        return Imputer(**FAST).fit(people()[["x", "y"]][:60])


def with_long_steps(imputer: Imputer, factor: float) -> Fitted:
    step = imputer.fitted_.tuned.log_step + math.log(factor)
    tuned = eqx.tree_at(lambda tuned: tuned.log_step, imputer.fitted_.tuned, step)
    return dataclasses.replace(imputer.fitted_, tuned=tuned)


def with_steep_decoder(imputer: Imputer, factor: float) -> Fitted:
    models = imputer.fitted_.models
    arrays, rest = eqx.partition(models.decoder, eqx.is_array)
    steep = jax.tree.map(lambda leaf: leaf * np.float32(factor), arrays)
    models = eqx.tree_at(lambda models: models.decoder, models, eqx.combine(steep, rest))
    return dataclasses.replace(imputer.fitted_, models=models)


@pytest.mark.parametrize(
    ("wilder", "factor"),
    [
        (with_long_steps, 1e3),
        (with_long_steps, 1e12),
        (with_long_steps, 1e30),
        (with_steep_decoder, 1e3),
        (with_steep_decoder, 1e12),
    ],
)
def test_chains_that_explode(imputer: Imputer, wilder: Any, factor: float) -> None:
    """They move nowhere and tell so; holes are filled all the same, and with numbers."""
    table = people()[["x", "y"]]
    wild = copy.copy(imputer)
    wild.fitted_ = wilder(imputer, factor)
    full = wild.transform(table)
    pd.testing.assert_frame_equal(full.where(table.notna()), table)
    assert np.isfinite(full.to_numpy()).all()
    told, usual = (each.diagnostics(table).mean() for each in (wild, imputer))
    assert told["acceptance"] < 0.5 * usual["acceptance"]
    assert told["divergent"] > usual["divergent"]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_model_that_says_nothing_finite_fills_nothing(imputer: Imputer) -> None:
    wild = copy.copy(imputer)
    wild.fitted_ = with_steep_decoder(imputer, 1e30)
    with pytest.raises(InputError, match="finite"):
        wild.transform(people()[["x", "y"]])
