"""What estimators refuse, in one sentence, and what then stays as it was."""

import copy
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError
from two_factors import (
    ARRAY,
    ARROW,
    FAST,
    FRAME,
    HIGHEST,
    LABELS,
    NAMES,
    NUMBERS,
    PAIRS,
    POLARS,
    SHADES,
    UNKNOWN,
)

from hhvaem import Classifier, Imputer, InputError, Regressor


@pytest.mark.usefixtures("as_users_have_it")
@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"preset": "slow"}, "preset='slow' is unknown; use 'default', 'paper', 'fast'."),
        ({"preset": ["fast"]}, "preset=['fast'] is unknown; use 'default', 'paper', 'fast'."),
        *(
            (
                {"layers": layers},
                f"layers={layers!r} must be a tuple of whole numbers of at least 1, such as "
                "(10, 5).",
            )
            for layers in (5, (), (0,), (2.5,), "ab", (True,), {3: 4})
        ),
        (
            {"inference": "vi"},
            "inference='vi' is unknown; use 'gaussian', 'importance', 'hmc', 'likelihood'.",
        ),
        (
            {"inference": ["hmc"]},
            "inference=['hmc'] is unknown; use 'gaussian', 'importance', 'hmc', 'likelihood'.",
        ),
        ({"kinds": 3}, "`kinds` must be a dict of column and kind, as in {'age': 'count'}."),
        (
            {"kinds": {"z": "real"}},
            "`kinds` names a column 'z', which the table does not have; its columns are 'a', "
            "'b', 'c'.",
        ),
        ({"marginals": "copula"}, "marginals='copula' is unknown; use 'gaussianised', 'vae'."),
        ({"members": 0}, "members=0 must be a whole number of at least 1."),
        ({"members": "2"}, "members='2' must be a whole number of at least 1."),
        ({"max_steps": -1}, "max_steps=-1 must be a whole number of at least 1."),
        ({"max_steps": 2.5}, "max_steps=2.5 must be a whole number of at least 1."),
        ({"max_seconds": -1}, "max_seconds=-1 is no time; give a number from 0."),
        ({"max_seconds": np.nan}, "max_seconds=nan is no time; give a number from 0."),
        ({"max_seconds": "1"}, "max_seconds='1' is no time; give a number from 0."),
        (
            {"max_steps": 99999999999999},
            "max_steps=99999999999999 must be a whole number of at most 2147483647.",
        ),
        *(
            (
                {"verbose": verbose},
                f"verbose={verbose!r} must be 0, or 1 for a progress bar.",
            )
            for verbose in (np.array(0), np.arange(2), "yes", None)
        ),
        (
            {"preset": np.array(["fast"])},
            "preset=array(['fast'], dtype='<U4') is unknown; use 'default', 'paper', 'fast'.",
        ),
        (
            {"inference": np.arange(2)},
            "inference=array([0, 1]) is unknown; use 'gaussian', 'importance', 'hmc', "
            "'likelihood'.",
        ),
        (
            {"marginals": np.arange(2)},
            "marginals=array([0, 1]) is unknown; use 'gaussianised', 'vae'.",
        ),
        (
            {"max_seconds": np.arange(2)},
            "max_seconds=array([0, 1]) is no time; give a number from 0.",
        ),
        ({"batch_size": 0}, "batch_size=0 must be a whole number of at least 1."),
        ({"draws": 0}, "draws=0 must be a whole number of at least 1."),
        *(
            (
                {"random_state": seed},
                f"random_state={seed!r} is no seed; give a whole number from 0 to 4294967295, a "
                "numpy.random.RandomState or None.",
            )
            for seed in ("x", -1, 2**40, 1.5, np.arange(2))
        ),
        ({"snapshots": 3}, "snapshots=3 is no folder; give its path."),
        (
            {"snapshots": "here", "random_state": None},
            "With snapshots a fit needs a random_state, to be the same again.",
        ),
        ({"device": "abacus"}, "device='abacus' is not there; use 'cpu', 'all', or None."),
        ({"device": 3}, "device=3 is not there; use 'cpu', 'all', or None."),
    ],
    ids=lambda value: repr(value) if isinstance(value, dict) else "",
)
def test_wrong_parameters(wrong: dict[str, Any], sentence: str) -> None:
    imputer = Imputer(**{**FAST, **wrong})
    with pytest.raises(ValueError) as told:  # noqa: PT011 - the sentence is compared
        imputer.fit(FRAME)
    assert str(told.value) == sentence
    assert not hasattr(imputer, "schema_")


NO_NUMBERS = "convert it to numbers, or use Classifier for labels."
PROBABILITY = "is no probability; give a number between 0 and 1."
UNORDERED = (
    "The columns are in another order than in `fit`, from 'b' on, where 'a' was; select them by "
    "`schema_.names`."
)


@pytest.mark.usefixtures("as_users_have_it")
@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (
            lambda m: m.imputer.transform(FRAME, posterior="best"),
            "posterior='best' is unknown; use 'hmc', 'encoder', 'importance'.",
        ),
        (
            lambda m: m.regressor.predict(ARRAY, posterior=3),
            "posterior=3 is unknown; use 'hmc', 'encoder', 'importance'.",
        ),
        (
            lambda m: m.imputer.transform(FRAME, draws=0),
            "draws=0 must be a whole number of at least 1.",
        ),
        (
            lambda m: m.imputer.sample(FRAME, "3"),
            "draws='3' must be a whole number of at least 1.",
        ),
        (
            lambda m: m.regressor.sample(ARRAY, 0),
            "draws=0 must be a whole number of at least 1.",
        ),
        (lambda m: m.imputer.interval(FRAME, 90), f"level=90 {PROBABILITY}"),
        (lambda m: m.imputer.interval(FRAME, None), f"level=None {PROBABILITY}"),
        (lambda m: m.regressor.predict_interval(ARRAY, 0), f"level=0 {PROBABILITY}"),
        (lambda m: m.imputer.quantile(FRAME, 1.0), f"q=1.0 {PROBABILITY}"),
        (lambda m: m.imputer.quantile(FRAME, [0.1, 0.9]), f"q=[0.1, 0.9] {PROBABILITY}"),
        (
            lambda m: m.imputer.probabilities(FRAME, "a"),
            "'a' is no column with levels; there is none.",
        ),
        (
            lambda m: m.imputer.probabilities(FRAME, ["a"]),
            "['a'] is no column with levels; there is none.",
        ),
        (
            lambda m: m.imputer.transform(FRAME, posterior=np.arange(2)),
            "posterior=array([0, 1]) is unknown; use 'hmc', 'encoder', 'importance'.",
        ),
        *(
            (lambda m, offset=offset: m.imputer.sample(FRAME, 20, offset=offset), sentence)
            for offset, sentence in (
                (-1, "offset=-1 must be a whole number of at least 0."),
                (1.5, "offset=1.5 must be a whole number of at least 0."),
                ("a", "offset='a' must be a whole number of at least 0."),
                (None, "offset=None must be a whole number of at least 0."),
                (
                    2**70,
                    f"offset={2**70} must be a whole number of at most {2**62}.",
                ),
            )
        ),
        (
            lambda m: m.imputer.interval(FRAME, 0.9999999999999999),
            "level=0.9999999999999999 is too close to 1; give a smaller one.",
        ),
        (
            lambda m: m.regressor.predict_interval(ARRAY, 0.9999999999999999),
            "level=0.9999999999999999 is too close to 1; give a smaller one.",
        ),
        (
            lambda m: m.imputer.transform(FRAME.rename(columns={"a": "z"})),
            "The table lacks 'a' and has 'z' instead; give the columns that `fit` saw, empty "
            "where nothing is known.",
        ),
        (
            lambda m: m.imputer.transform(FRAME[["b", "c"]]),
            "The table lacks 'a'; give the columns that `fit` saw, empty where nothing is known.",
        ),
        (
            lambda m: m.imputer.transform(FRAME.assign(z=1.0)),
            "The table has 'z', which `fit` did not see; leave out what is not in `schema_.names`.",
        ),
        *(
            (lambda m, table=table: m.imputer.transform(table), UNORDERED)
            for table in (POLARS.select("b", "a", "c"), ARROW.select(["b", "a", "c"]))
        ),
        (
            lambda m: m.regressor.predict(ARRAY[:, :2]),
            "X has 2 features, but Regressor is expecting 3 features as input.",
        ),
        (
            lambda m: m.imputer.transform(FRAME.replace(FRAME["a"].max(), np.inf)),
            f"Column 'a' has an infinite value in row {FRAME['a'].argmax()}; replace it by a "
            "number or by a missing value.",
        ),
        (
            lambda m: m.regressor.predict(ARRAY[:0]),
            "The table has no rows; give at least one.",
        ),
        (
            lambda m: m.imputer.diagnostics(FRAME[:0]),
            "The table has no rows; give at least one.",
        ),
        (
            lambda _: Imputer(**FAST).fit(np.ones((3, 1))).diagnostics(np.ones((3, 1))),
            "All columns are constant, empty or ignored; there is no model.",
        ),
        (
            lambda _: Imputer().fit(pd.DataFrame(ARRAY, columns=["a", "a", "b"])),
            "The table has more than one column named 'a'; rename them apart.",
        ),
        (
            lambda _: Imputer().fit(np.ma.masked_invalid(ARRAY)),
            "A masked array is not a table; call .astype(float).filled(numpy.nan) on it first.",
        ),
        (
            lambda _: Imputer().fit(np.where(HIGHEST, np.inf, ARRAY)),
            "Column 'x{1}' has an infinite value in row {0}; replace it by a number or by a "
            "missing value.".format(*np.argwhere(HIGHEST)[0]),
        ),
        *(
            (
                lambda _, series=series: Imputer().fit(series),
                "A Series is not a table; call .to_frame() on it first.",
            )
            for series in (FRAME["a"], POLARS["a"])
        ),
        (
            lambda _: Imputer().fit(sparse.csr_matrix(np.eye(3))),
            "A sparse matrix is not a table; call .toarray() on it first.",
        ),
        (
            lambda _: Imputer().fit(POLARS.lazy()),
            "A polars LazyFrame has no values yet; call .collect() on it first.",
        ),
        (
            lambda _: Regressor().fit(ARRAY, None),
            "This Regressor estimator requires y to be passed, but the target y is None.",
        ),
        (
            lambda _: Regressor().fit(ARRAY, NUMBERS[:3]),
            "Found input variables with inconsistent numbers of samples: 80 rows of X and 3 of y.",
        ),
        (
            lambda _: Regressor().fit(ARRAY, LABELS),
            f"The target 'y' is not all numbers: row 0 has {str(LABELS[0])!r}; {NO_NUMBERS}",
        ),
        *(
            (
                lambda _, y=y: Regressor().fit(ARRAY, y),
                f"The target 'y' is not all numbers: row 0 has {shown}; {NO_NUMBERS}",
            )
            for y, shown in (
                (["1.5"] * 80, "'1.5'"),
                ([b"1.5"] * 80, "b'1.5'"),
                (np.array([3] * 80, "M8[ns]"), "np.datetime64('1970-01-01T00:00:00.00..."),
                (np.array([3] * 80, "m8[ns]"), "np.timedelta64(3,'ns')"),
                (np.array([3] * 80, "M8[D]"), "np.datetime64('1970-01-04')"),
                (PAIRS, "(1, 2)"),
                ([1j] * 80, "1j"),
            )
        ),
        *(
            (
                lambda _, kind=kind: kind().fit(ARRAY, []),
                "Found input variables with inconsistent numbers of samples: 80 rows of X and 0 "
                "of y.",
            )
            for kind in (Regressor, Classifier)
        ),
        *(
            (
                lambda _, y=y: Classifier().fit(ARRAY, y),
                f"The target 'y' has the label {shown}; make labels texts, whole numbers or truth "
                "values.",
            )
            for y, shown in (
                (PAIRS, "(1, 2) of type tuple"),
                ([b"a", b"b"] * 40, "b'a' of type bytes"),
                ([Decimal(1), Decimal(2)] * 40, "Decimal('1') of type Decimal"),
                ([date(2020, 1, 1)] * 80, "datetime.date(2020, 1, 1) of type date"),
                (np.array([3] * 80, "M8[D]"), "np.datetime64('1970-01-04') of type datetime64"),
            )
        ),
        *(
            (
                lambda _, y=y: Classifier().fit(ARRAY, y),
                "The target 'y' has whole numbers that no integer of 64 bits can hold together; "
                "make them texts.",
            )
            for y in ([2**63, 1] * 40, [2**63, -1] * 40, [2**64, 1] * 40)
        ),
        *(
            (
                lambda _, y=y: Classifier().fit(ARRAY, y),
                "The target 'y' has the label 'a\\x00', and NumPy drops null characters at the end "
                "of a text; remove them, and keep the labels apart.",
            )
            for y in (["a", "a\0"] * 40, np.array(["a", "a\0"] * 40, object))
        ),
        (
            lambda m: m.regressor.score(ARRAY, [None] * 80),
            "The target 'y' is missing in all rows; give one that is known.",
        ),
        (
            lambda m: m.classifier.score(ARRAY, [None] * 80),
            "The target 'y' is missing in all rows; give one that is known.",
        ),
        (
            lambda m: m.classifier.score(ARRAY, [1] * 80),
            "The target 'y' has labels of different types, such as 'no' and 1; make them all of "
            "one type.",
        ),
        (
            lambda m: m.regressor.score(ARRAY, np.zeros((80, 2))),
            "The number of targets in y is 2, and the model predicts 1; give as many.",
        ),
        (
            lambda _: Regressor().fit(ARRAY, np.where(UNKNOWN, np.inf, NUMBERS)),
            "Input y contains infinity or a value too large: target 'y', row 0; correct it, or "
            "make it missing.",
        ),
        (
            lambda _: Regressor().fit(ARRAY, [None] * 80),
            "The target 'y' is missing in all rows; give one that is known.",
        ),
        (
            lambda _: Regressor().fit(ARRAY, np.zeros((80, 2, 2))),
            "The target y has 3 dimensions; it needs one or two.",
        ),
        (
            lambda _: Regressor().fit(ARRAY, np.ma.masked_array(NUMBERS, UNKNOWN)),
            "The target y is a masked array; give an array with NaN, or a list with None, where "
            "it is masked.",
        ),
        (
            lambda _: Classifier().fit(ARRAY, ["yes"] * 80),
            "The target 'y' has one class only, 'yes'; a classifier needs two.",
        ),
        (
            lambda _: Classifier().fit(ARRAY, ["yes", 1] * 40),
            "The target 'y' has labels of different types, such as 1 and 'yes'; make them all of "
            "one type.",
        ),
        (
            lambda _: Classifier().fit(ARRAY, [True, 2] * 40),
            "The target 'y' has labels of different types, such as 2 and True; make them all of "
            "one type.",
        ),
    ],
)
def test_wrong_questions(
    ask: Callable[[Any], Any],
    sentence: str,
    imputer: Imputer,
    regressor: Regressor,
    classifier: Classifier,
) -> None:
    with pytest.raises(ValueError) as told:  # noqa: PT011 - the sentence is compared
        ask(SimpleNamespace(imputer=imputer, regressor=regressor, classifier=classifier))
    assert str(told.value) == sentence


@pytest.mark.parametrize(
    "name", ["transform", "sample", "interval", "log_likelihood", "diagnostics"]
)
def test_nothing_is_asked_before_a_fit(name: str) -> None:
    with pytest.raises(NotFittedError, match="This Imputer instance is not fitted yet"):
        getattr(Imputer(), name)(FRAME)


def test_a_fit_that_fails_leaves_the_one_before(classifier: Classifier) -> None:
    model = copy.copy(classifier).set_params(device="abacus")
    with pytest.raises(InputError, match="device"):
        model.fit(ARRAY, SHADES)
    assert model.classes_.tolist() == ["no", "yes"]
    found = model.set_params(device=None).predict(ARRAY)
    np.testing.assert_array_equal(found, classifier.predict(ARRAY))


@pytest.mark.parametrize(
    "bad",
    [
        pd.DataFrame({"q": [1.0, 2.0, np.inf]}),
        np.array([[1.0, np.inf], [2.0, 3.0]]),
        pd.DataFrame({"who": [f"patient {i}" for i in range(30)]}),
    ],
    ids=["pandas", "array", "identifiers"],
)
def test_a_table_that_is_refused_leaves_the_fit_before(imputer: Imputer, bad: Any) -> None:
    model = copy.copy(imputer)
    with pytest.raises(InputError):
        model.fit(bad)
    assert (model.n_features_in_, model.feature_names_in_.tolist()) == (3, NAMES)
    pd.testing.assert_frame_equal(model.transform(FRAME), imputer.transform(FRAME))


def test_a_table_of_another_kind_is_fitted_to(imputer: Imputer) -> None:
    model = copy.copy(imputer).fit(ARRAY)
    assert not hasattr(model, "feature_names_in_")
    np.testing.assert_array_equal(model.transform(ARRAY), imputer.transform(FRAME).to_numpy())


def test_a_fit_that_fails_is_none() -> None:
    imputer = Imputer(**FAST)
    with pytest.raises(InputError, match="device"):
        imputer.set_params(device="abacus").fit(FRAME)
    with pytest.raises(NotFittedError):
        imputer.transform(FRAME)
