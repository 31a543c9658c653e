"""The estimators as users meet them."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from hhvaem import Classifier, Imputer, InputError, Regressor
from hhvaem.example import clinic


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return clinic(300).to_pandas()


@pytest.fixture(scope="module")
def imputer(table: pd.DataFrame) -> Imputer:
    return Imputer(preset="fast", random_state=0).fit(table)


@pytest.fixture(scope="module")
def full(imputer: Imputer, table: pd.DataFrame) -> pd.DataFrame:
    return imputer.transform(table)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [Imputer, Regressor, Classifier])
def test_every_check_of_scikit_learn_passes(kind: type[Any]) -> None:
    told = check_estimator(kind(preset="fast", random_state=0), on_fail=None, on_skip=None)
    # The one that is skipped wants an environment variable of SciPy.
    others = {one["check_name"] for one in told if one["status"] != "passed"}
    assert others <= {"check_array_api_input"}
    assert len(told) > 40


def test_what_is_observed_stays_and_nothing_is_missing(
    table: pd.DataFrame, full: pd.DataFrame
) -> None:
    assert not full.isna().any().any()
    assert list(full.dtypes) == list(table.dtypes)
    for name in table:
        seen = table[name].notna()
        assert (full[name][seen] == table[name][seen]).all()
    assert set(full["smoker"]) <= set(table["smoker"].dropna())
    assert (full["age"] % 1 == 0).all()
    assert (full["crp"] >= 0).all()


def test_a_row_has_the_same_result_whatever_is_beside_it(
    imputer: Imputer, table: pd.DataFrame, full: pd.DataFrame
) -> None:
    order = np.random.default_rng(0).permutation(len(table))
    assert imputer.transform(table.iloc[order]).equals(full.iloc[order])
    assert imputer.transform(table.iloc[[17]]).equals(full.iloc[[17]])
    low = imputer.quantile(table, 0.05)
    assert imputer.quantile(table.iloc[[17]], 0.05).equals(low.iloc[[17]])
    drawn, some = imputer.sample(table, 2), imputer.sample(table.iloc[order[:50]], 2)
    assert all(a.iloc[order[:50]].equals(b) for a, b in zip(drawn, some, strict=True))


def test_the_same_in_another_container(
    imputer: Imputer, table: pd.DataFrame, full: pd.DataFrame
) -> None:
    arrow = imputer.transform(clinic(300))
    assert arrow.schema == clinic(300).schema
    assert arrow["crp"].to_numpy().tolist() == full["crp"].tolist()
    polars = imputer.transform(pl.from_arrow(clinic(300)))
    assert polars["smoker"].to_list() == full["smoker"].tolist()


def test_equal_rows_have_draws_of_their_own(imputer: Imputer) -> None:
    fields = clinic(300).schema
    empty = pa.table([pa.nulls(30, field.type) for field in fields], schema=fields)
    drawn = imputer.sample(empty, 1)[0]
    assert len(set(drawn["bmi"].to_pylist())) > 20


def test_intervals_hold_the_filled_value(
    imputer: Imputer, table: pd.DataFrame, full: pd.DataFrame
) -> None:
    low, up = imputer.interval(table, level=0.98)
    for name in ("bmi", "glucose", "temperature"):
        assert ((low[name] <= full[name]) & (full[name] <= up[name])).mean() > 0.97
        seen = table[name].notna()
        assert (low[name][seen] == table[name][seen]).all()
    assert low["smoker"].isna().all()
    shares = imputer.probabilities(table, "smoker")
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, atol=1e-6)
    assert (shares.to_numpy()[table["smoker"].notna()].max(1) == 1).all()


def test_in_a_pipeline_and_cloned(imputer: Imputer, table: pd.DataFrame) -> None:
    numbers = table[["age", "bmi", "glucose", "crp", "temperature", "visits"]].astype(float)
    line = make_pipeline(clone(imputer), LinearRegression())
    line.fit(numbers.drop(columns="crp"), numbers["crp"].fillna(1.0))
    assert line.predict(numbers.drop(columns="crp")).shape == (300,)
    assert not hasattr(clone(imputer), "schema_")


@pytest.mark.slow
def test_labels_and_numbers_may_be_missing(table: pd.DataFrame) -> None:
    features = table.drop(columns=["diabetic", "glucose"])
    chances = Classifier(preset="fast", random_state=0).fit(features, table["diabetic"])
    shares = chances.predict_proba(features)
    known = table["diabetic"].notna().to_numpy()
    right = chances.predict(features)[known] == table["diabetic"][known].astype(bool)
    assert shares.shape == (300, 2)
    assert right.mean() > 0.7
    regressor = Regressor(preset="fast", random_state=0).fit(features, table["glucose"])
    low, up = regressor.predict_interval(features, 0.9)
    seen = table["glucose"].notna()
    inside = (low <= table["glucose"]) & (table["glucose"] <= up)
    assert 0.8 < inside[seen].mean() < 0.99


@pytest.mark.usefixtures("as_users_have_it")
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"preset": "best"}, "preset='best' is unknown"),
        ({"members": 0}, "members=0 must be a whole number of at least 1"),
        ({"max_steps": -1}, "max_steps=-1"),
        ({"marginals": "copula"}, "marginals='copula' is unknown"),
        ({"inference": "magic"}, "inference='magic' is unknown"),
        ({"layers": (0,)}, "0"),
        ({"snapshots": "somewhere"}, "needs a random_state"),
    ],
)
def test_wrong_settings_are_named(table: pd.DataFrame, wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Imputer(**{"preset": "fast", **wrong}).fit(table)


@pytest.mark.usefixtures("as_users_have_it")
def test_wrong_questions_are_named(imputer: Imputer, table: pd.DataFrame) -> None:
    with pytest.raises(InputError, match="posterior='best' is unknown"):
        imputer.transform(table, posterior="best")
    with pytest.raises(InputError, match="level=2 is no probability"):
        imputer.interval(table, level=2)
    with pytest.raises(InputError, match="'age' is no column with levels"):
        imputer.probabilities(table, "age")
    with pytest.raises(ValueError, match="feature names should match"):
        imputer.transform(table.drop(columns="age"))
