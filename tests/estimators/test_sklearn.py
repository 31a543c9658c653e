"""`Imputer`, `Regressor` and `Classifier` among the tools of scikit-learn."""

import copy
import html
import pickle
from collections.abc import Callable, Iterator
from datetime import date
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from clinic_training import compiled
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

from hhvaem import Classifier, Column, Imputer, InputError, Regressor, Schema, TableWarning
from hhvaem.estimators import base, targets
from hhvaem.fitting import Part
from hhvaem.inference import infer_schema
from hhvaem.table import encode

FAST: dict[str, Any] = {"preset": "fast", "random_state": 0}
RNG = np.random.default_rng(0)
NAMES = ["a", "b", "c"]

# Three columns that are nearly two, and targets that follow from them.
FULL = RNG.normal(size=(80, 2)) @ np.array([[1.0, 1.0, -1.0], [0.5, -1.0, 0.0]])
FULL = FULL + 0.05 * RNG.normal(size=FULL.shape)
NUMBERS = FULL @ [2.0, -1.0, 0.5]
LABELS = np.where(NUMBERS > 0, "yes", "no")
SHADES = np.where(NUMBERS > 1, "dark", np.where(NUMBERS < -1, "light", "mid"))
ARRAY = np.where(RNG.random(FULL.shape) < 0.2, np.nan, FULL)
FRAME = pd.DataFrame(ARRAY, columns=NAMES, index=[f"r{i}" for i in range(len(ARRAY))])
POLARS = pl.DataFrame(ARRAY, schema=NAMES)
ARROW = pa.table({name: ARRAY[:, i] for i, name in enumerate(NAMES)})
UNKNOWN = np.arange(len(ARRAY)) % 4 == 0
HIGHEST = np.nanmax(ARRAY) == ARRAY
PAIRS = np.fromiter([(1, 2)] * len(ARRAY), dtype=object)


@pytest.fixture(scope="module")
def imputer() -> Imputer:
    return Imputer(**FAST).fit(FRAME)


@pytest.fixture(scope="module")
def regressor() -> Regressor:
    return Regressor(**FAST).fit(ARRAY, np.where(UNKNOWN, np.nan, NUMBERS))


@pytest.fixture(scope="module")
def classifier() -> Classifier:
    return Classifier(**FAST).fit(
        ARRAY, [None if u else x for u, x in zip(UNKNOWN, LABELS, strict=True)]
    )


# Their tables need programs of their own.
LONG = {
    "check_dtype_object",
    "check_estimators_dtypes",
    "check_estimators_pickle",
    "check_fit_score_takes_y",
    "check_pipeline_consistency",
}


def checks_of_scikit_learn() -> Iterator[Any]:
    for estimator in (Imputer(**FAST), Regressor(**FAST), Classifier(**FAST)):
        for _, check in estimator_checks_generator(estimator):
            kind, name = type(estimator).__name__, check.func.__name__
            long = kind != "Imputer" or name in LONG
            yield pytest.param(
                estimator, check, id=f"{kind}-{name}", marks=pytest.mark.slow if long else ()
            )


# The checks' tables are noise, from which there is nothing to learn; some are of wrong types.
@pytest.mark.usefixtures("as_users_have_it")
@pytest.mark.filterwarnings("ignore::hhvaem.TableWarning")
@pytest.mark.parametrize(("estimator", "check"), list(checks_of_scikit_learn()))
def test_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.filterwarnings("ignore::hhvaem.TableWarning")
def test_tables_of_other_sizes_compile_nothing_new(imputer: Imputer) -> None:
    imputer.transform(FRAME)
    with compiled() as names:
        for rows, columns in ((1, 1), (20, 2), (500, 4)):
            table = RNG.normal(size=(rows, columns))
            table[rows // 2, 0] = np.nan if rows > 1 else 0.0
            Imputer(**FAST).fit(table).transform(table)
    # Of single operations on numbers of rows or columns, some are new.
    models = {"untrained", "_second_stage", "tune", "held_out_score", "own_score", "draws", "laws"}
    assert not models & {name.removeprefix("jit(").removesuffix(")") for name in names}


def test_before_a_model_in_a_pipeline() -> None:
    line = make_pipeline(Imputer(**FAST), LinearRegression()).fit(FRAME, NUMBERS)
    plain = make_pipeline(SimpleImputer(), LinearRegression()).fit(FRAME, NUMBERS)
    assert line.score(FRAME, NUMBERS) > plain.score(FRAME, NUMBERS) + 0.03
    with pytest.raises(ValueError, match="NaN"):
        LinearRegression().fit(FRAME, NUMBERS)


def test_in_a_column_transformer() -> None:
    table = FRAME.assign(id=range(len(FRAME)))
    parts = ColumnTransformer([("filled", Imputer(**FAST), NAMES)], remainder="passthrough")
    full = parts.set_output(transform="pandas").fit_transform(table)
    assert list(full) == ["filled__a", "filled__b", "filled__c", "remainder__id"]
    assert full["remainder__id"].tolist() == list(range(len(FRAME)))
    alone = Imputer(**FAST).fit_transform(FRAME)
    np.testing.assert_array_equal(full.iloc[:, :3], alone)


# A column alone has nothing to learn from.
@pytest.mark.filterwarnings("ignore:The model predicts hidden cells no better")
@pytest.mark.slow
def test_parameters_are_searched() -> None:
    kinds = [{"x0": "ignored", "x1": "ignored"}, None]
    search = GridSearchCV(Regressor(**FAST), {"kinds": kinds}, cv=2).fit(ARRAY, NUMBERS)
    assert search.best_params_ == {"kinds": None}
    assert search.best_score_ > 0.6
    assert len(search.best_estimator_.schema_.modelled) == 3


@pytest.mark.slow
def test_cross_validation() -> None:
    assert cross_val_score(Regressor(**FAST), FRAME, NUMBERS, cv=2).min() > 0.6
    assert cross_val_score(Classifier(**FAST), FRAME, LABELS, cv=2).min() > 0.8


@pytest.mark.parametrize("wanted", ["pandas", "polars"])
@pytest.mark.parametrize(
    "table", [ARRAY, FRAME, POLARS, ARROW], ids=["array", "pandas", "polars", "pyarrow"]
)
def test_containers_on_request(table: Any, wanted: str, imputer: Imputer) -> None:
    model = Imputer(**FAST).fit(table) if table is ARRAY else copy.copy(imputer)
    found = model.set_output(transform=wanted).transform(table)
    assert isinstance(found, pd.DataFrame if wanted == "pandas" else pl.DataFrame)
    assert list(found.columns) == (["x0", "x1", "x2"] if table is ARRAY else NAMES)
    if table is FRAME and wanted == "pandas":
        assert found.index.equals(FRAME.index)
    np.testing.assert_array_equal(found.to_numpy(), imputer.transform(FRAME).to_numpy())


def test_a_clone_is_as_new(imputer: Imputer) -> None:
    kinds = {"a": "real"}
    first = Imputer(**FAST, kinds=kinds, layers=(3,)).set_params(layers=None).fit(FRAME)
    again = clone(first)
    assert (
        again.get_params()
        == first.get_params()
        == {**Imputer().get_params(), **FAST, "kinds": kinds}
    )
    assert first.kinds is kinds
    assert kinds == {"a": "real"}
    assert not [name for name in vars(again) if name.endswith("_")]
    pd.testing.assert_frame_equal(again.fit(FRAME).transform(FRAME), imputer.transform(FRAME))


@pytest.mark.filterwarnings("ignore:The model predicts hidden cells no better")
def test_parameters_set_later_count() -> None:
    imputer = Imputer(**FAST).set_params(kinds={"b": "ignored"}, max_steps=10)
    full = imputer.fit(FRAME).transform(FRAME)
    assert imputer.fitted_ is not None
    assert imputer.fitted_.record["steps"] == 10
    assert full["b"].equals(FRAME["b"])
    with pytest.raises(ValueError, match="Invalid parameter 'layer'"):
        imputer.set_params(layer=3)


def test_names_in_a_pipeline(imputer: Imputer) -> None:
    line = make_pipeline(StandardScaler(), Imputer(**FAST))
    assert line.fit(FRAME).get_feature_names_out().tolist() == NAMES
    line.fit(ARRAY)
    assert line.get_feature_names_out().tolist() == ["x0", "x1", "x2"]
    assert line.get_feature_names_out(NAMES).tolist() == NAMES
    assert imputer.get_feature_names_out().tolist() == NAMES
    with pytest.raises(ValueError, match="feature_names_in_"):
        imputer.get_feature_names_out(["a", "c", "b"])
    with pytest.raises(ValueError, match="should have length equal"):
        line.get_feature_names_out(["a", "b"])


def test_fit_transform_is_both(imputer: Imputer) -> None:
    both = Imputer(**FAST).fit_transform(FRAME)
    pd.testing.assert_frame_equal(both, imputer.transform(FRAME))


def test_pickled(imputer: Imputer, regressor: Regressor, classifier: Classifier) -> None:
    again = pickle.loads(pickle.dumps(imputer))
    pd.testing.assert_frame_equal(again.transform(FRAME), imputer.transform(FRAME))
    assert repr(again) == repr(imputer)
    for model in (regressor, classifier):
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(again.predict(ARRAY), model.predict(ARRAY))


def test_the_report_shows_what_columns_were_taken_for(imputer: Imputer) -> None:
    line = "Imputer(preset='fast', random_state=0)"
    assert repr(Imputer(**FAST)) == repr(clone(imputer)) == line
    assert repr(imputer) == f"{line}\n{imputer.schema_}"
    # Within something larger there is no room for it.
    assert repr(make_pipeline(imputer)) == f"Pipeline(steps=[('imputer', {line})])"


def test_the_report_of_what_predicts_speaks_of_no_filling(
    regressor: Regressor, imputer: Imputer
) -> None:
    assert "filled" in repr(imputer)
    assert "filled" not in repr(regressor)
    assert "filled" not in str(regressor.schema_)


def test_the_report_in_a_notebook(imputer: Imputer) -> None:
    table = imputer.schema_._repr_html_()
    assert "<td>a</td><td>real</td>" in table
    shown = imputer._repr_html_()
    assert table in shown
    assert "sk-top-container" in shown
    bundle = imputer._repr_mimebundle_()
    assert bundle["text/plain"] == repr(imputer)
    assert table in bundle["text/html"]
    assert table not in clone(imputer)._repr_html_()
    with config_context(display="text"):
        assert not hasattr(imputer, "_repr_html_")
        assert imputer._repr_mimebundle_() == {"text/plain": repr(imputer)}


def reporting(*names: str) -> Imputer:
    """An estimator that is fitted as far as its report goes."""
    imputer = Imputer()
    imputer.schema_ = Schema(tuple(Column(name, "real") for name in names))
    return imputer


def test_the_report_of_a_wide_table_is_cut() -> None:
    imputer = reporting(*(f"c{i}" for i in range(base.REPORTED + 40)))
    lines = repr(imputer).splitlines()
    assert len(lines) == base.REPORTED + 3
    assert lines[-2].startswith(f"c{base.REPORTED - 1} ")
    assert lines[-1] == "... and 40 more columns, all of them in schema_"
    # Before it is what scikit-learn shows, with names of its own.
    _, shown = imputer._repr_html_().split('<div class="hhvaem-columns">')
    assert shown.count("<tr>") == base.REPORTED + 1
    assert html.escape(lines[-1]) in shown


def test_names_are_no_markup() -> None:
    name = "<script>alert('x')</script> & {0}"
    shown = reporting(name, "b")._repr_html_()
    assert name not in shown
    assert f"<td>{html.escape(name)}</td><td>real</td>" in shown


def _holes(values: Any) -> list[Any]:
    return [None if hidden else value for hidden, value in zip(UNKNOWN, list(values), strict=True)]


@pytest.mark.parametrize(
    "y",
    [
        _holes(NUMBERS.tolist()),
        np.array(_holes(NUMBERS), dtype=object),
        pd.Series(NUMBERS, index=FRAME.index, dtype="Float64").mask(UNKNOWN),
        pd.Series(NUMBERS).mask(UNKNOWN),
        pl.Series("t", _holes(NUMBERS)),
        pa.chunked_array([_holes(NUMBERS.tolist())]),
    ],
    ids=["list", "objects", "Float64", "float64", "polars", "arrow"],
)
def test_missing_targets_of_all_containers(y: Any) -> None:
    found = targets.numbers(y, len(ARRAY))
    assert found.flat
    np.testing.assert_array_equal(found.part.mask[:, 0], ~UNKNOWN)
    np.testing.assert_array_equal(found.part.values[:, 0], np.where(UNKNOWN, np.nan, NUMBERS))


@pytest.mark.parametrize(
    "y",
    [
        np.array(_holes(LABELS), dtype=object),
        [np.nan if hidden else label for hidden, label in zip(UNKNOWN, LABELS, strict=True)],
        pd.Series(LABELS, dtype="string").mask(UNKNOWN),
        pd.Series(pd.Categorical(LABELS, ["yes", "no"])).mask(UNKNOWN),
        pl.Series("t", _holes(LABELS.tolist())),
        pa.array(_holes(LABELS.tolist())),
    ],
    ids=["objects", "NaN in a list", "string", "category", "polars", "arrow"],
)
def test_missing_labels_of_all_containers(y: Any) -> None:
    found = targets.labels(y, len(ARRAY))
    assert [c.tolist() for c in found.classes] == [["no", "yes"]]
    np.testing.assert_array_equal(found.part.mask[:, 0], ~UNKNOWN)
    np.testing.assert_array_equal(
        found.part.values[:, 0], np.where(UNKNOWN, np.nan, LABELS == "yes")
    )


def test_rows_without_a_target_are_predicted(regressor: Regressor, classifier: Classifier) -> None:
    assert regressor.score(ARRAY[UNKNOWN], NUMBERS[UNKNOWN]) > 0.6
    assert classifier.score(ARRAY[UNKNOWN], LABELS[UNKNOWN]) > 0.8


def test_rows_without_a_target_do_not_count_in_a_score(
    regressor: Regressor, classifier: Classifier
) -> None:
    weights = np.linspace(1, 3, len(ARRAY))
    known = ~UNKNOWN
    for given in (None, weights):
        rest = None if given is None else given[known]
        found = regressor.score(ARRAY, np.where(UNKNOWN, np.nan, NUMBERS), given)
        plain = r2_score(NUMBERS[known], regressor.predict(ARRAY[known]), sample_weight=rest)
        assert found == pytest.approx(plain, rel=1e-12)
        found = classifier.score(ARRAY, _holes(LABELS), given)
        right = classifier.predict(ARRAY[known]) == LABELS[known]
        assert found == pytest.approx(np.average(right, weights=rest), rel=1e-12)
        assert 0.8 < found < 1


class Constants(Regressor, Classifier):
    """What predicts the same for every row: a score is then known."""

    def __init__(self, row: Any, classes: Any = None) -> None:
        self.row, self.classes_ = row, classes
        self.n_outputs_, self.flat_ = len(row), False

    def predict(self, table: Any, **_: Any) -> np.ndarray:
        return np.array([self.row] * len(table))


def test_scores_of_several_targets() -> None:
    y = np.array([[1.0, np.nan], [3.0, 2.0], [np.nan, 4.0], [np.nan, 9.0]])
    model = Constants([2.0, 4.0])
    # 0 of the first, as 2 is the mean; of the second, 1 - 29 / 26.
    assert model.score(ARRAY[:4], y) == pytest.approx((0 + 1 - 29 / 26) / 2)
    assert model.score(ARRAY[:4], pd.DataFrame(y)) == model.score(ARRAY[:4], y)
    labels = [["a", "x"], ["a", None], ["b", "x"], ["a", "y"], [None, None], ["a", "x"]]
    model = Constants(["a", "x"], [np.array(["a", "b"]), np.array(["x", "y"])])
    assert Classifier.score(model, ARRAY[:6], labels) == 2 / 4
    with pytest.raises(InputError, match="No row of y has all of its labels"):
        Classifier.score(model, ARRAY[:2], [["a", None], [None, "x"]])


def test_targets_with_holes_in_a_cross_validation() -> None:
    holes = np.where(UNKNOWN, np.nan, NUMBERS)
    assert cross_val_score(Regressor(**FAST), FRAME, holes, cv=2).min() > 0.6
    split = KFold(2)
    assert cross_val_score(Classifier(**FAST), FRAME, _holes(LABELS), cv=split).min() > 0.7


@pytest.mark.parametrize(
    ("y", "copied"),
    [
        (FRAME["a"], [("a", "a")]),
        (FRAME["b"].to_numpy(), [("b", "y")]),
        (ARROW["c"], [("c", "y")]),
        (FRAME[["c", "a"]], [("c", "c"), ("a", "a")]),
        (FRAME["a"].fillna(0.0), []),
        (FRAME["a"] + 1, []),
        # A hole less.
        (FRAME["a"].mask(FRAME["a"] == FRAME["a"].max()), []),
    ],
)
def test_a_target_among_the_features_is_found(y: Any, copied: list[tuple[str, str]]) -> None:
    schema = infer_schema(FRAME)
    features = Part(schema.modelled, *encode(FRAME, schema))
    assert targets.copies(features, targets.numbers(y, len(FRAME))) == copied


def test_labels_among_the_features_are_found() -> None:
    table = FRAME.assign(
        shade=pd.Categorical(_holes(SHADES), ["mid", "dark", "light"]),
        truth=NUMBERS > 0,
        digit=(NUMBERS > 0).astype(int),
        three=np.digitize(NUMBERS, [-1, 1]),
    )
    schema = infer_schema(table, {"three": "categorical"})
    features = Part(schema.modelled, *encode(table, schema))
    for name in ("shade", "three"):
        goal = targets.labels(table[name], len(table))
        assert targets.copies(features, goal) == [(name, name)]
    goal = targets.labels(NUMBERS > 0, len(table))
    assert targets.copies(features, goal) == [("truth", "y"), ("digit", "y")]
    assert targets.copies(features, targets.labels(SHADES, len(table))) == []


def test_a_target_among_the_features_is_told() -> None:
    with pytest.warns(TableWarning, match=r"Column 'a' of X equals the target 'a' in all rows"):
        Regressor(**FAST).fit(FRAME, FRAME["a"])


@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_a_matrix_is_an_array(imputer: Imputer) -> None:
    model = Imputer(**FAST).fit(np.asmatrix(ARRAY))
    for found in (model.transform(np.asmatrix(ARRAY)), model.transform(ARRAY)):
        assert type(found) is np.ndarray
        np.testing.assert_array_equal(found, imputer.transform(FRAME).to_numpy())
    assert model.transform(ARRAY[:0]).shape == (0, 3)
    assert [part.shape for part in model.interval(ARRAY[:0])] == [(0, 3)] * 2


def test_names_that_are_no_texts(imputer: Imputer) -> None:
    table = FRAME.set_axis(["a", 1, 2], axis=1)
    model = Imputer(**FAST, kinds={"1": "real"}).fit(table)
    found = model.transform(table)
    assert list(found) == ["a", 1, 2]
    np.testing.assert_array_equal(found.to_numpy(), imputer.transform(FRAME).to_numpy())
    with pytest.raises(InputError, match="The table lacks '2'"):
        model.transform(table[["a", 1]])


def test_levels_of_a_column_whose_name_is_no_text() -> None:
    table = pd.DataFrame({1: NUMBERS, 2: LABELS})
    model = reporting()
    model.schema_, model.fitted_, model.members_ = infer_schema(table), None, 1
    found = model.probabilities(table, 2)
    assert list(found) == ["no", "yes"]
    assert found["yes"].tolist() == (LABELS == "yes").tolist()


def test_texts_of_the_newer_dtype() -> None:
    texts = np.array([["up", "x"], ["", "x"]], np.dtypes.StringDType(na_object=np.nan))
    texts[1, 0] = np.nan
    full = Imputer(**FAST).fit_transform(texts)
    assert (full.dtype, full.tolist()) == (object, [["up", "x"], ["up", "x"]])


@pytest.mark.parametrize(
    ("y", "dtype"),
    [
        (LABELS, "<U3"),
        (LABELS.astype(object), "<U3"),
        (NUMBERS > 0, "bool"),
        (_holes((NUMBERS > 0).tolist()), "bool"),
        (pd.Series(NUMBERS > 0, dtype="boolean").mask(UNKNOWN), "bool"),
        (pl.Series(_holes((NUMBERS > 0).tolist())), "bool"),
        ((NUMBERS > 0).astype("int8"), "int8"),
        (pd.Series(NUMBERS > 0).astype("uint8"), "uint8"),
        (pd.Series(NUMBERS > 0).astype("Int64").mask(UNKNOWN), "int64"),
        (pl.Series((NUMBERS > 0).astype("int16")), "int16"),
        (np.where(NUMBERS > 0, 3.0, np.nan) * np.where(NUMBERS > 2, 1, 2), "float64"),
    ],
)
def test_labels_keep_their_type(y: Any, dtype: str) -> None:
    [classes] = targets.labels(y, len(ARRAY)).classes
    assert classes.tolist() == sorted({value for value in list(y) if not pd.isna(value)})
    assert classes.dtype == dtype


def test_labels_come_back_as_they_were() -> None:
    y = pd.Series(NUMBERS > 0).astype("uint8")
    model = Classifier(**FAST).fit(ARRAY, y)
    found, drawn = model.predict(ARRAY), model.sample(ARRAY, 20)
    assert model.classes_.dtype == found.dtype == drawn.dtype == "uint8"
    assert set(found.tolist()) == set(drawn.ravel().tolist()) == {0, 1}


def test_one_target_in_a_table(regressor: Regressor, classifier: Classifier) -> None:
    holes = np.where(UNKNOWN, np.nan, NUMBERS)
    for y in (holes[:, None], pd.DataFrame({"t": holes}), pl.DataFrame({"t": holes})):
        model = Regressor(**FAST).fit(ARRAY, y)
        np.testing.assert_array_equal(model.predict(ARRAY)[:, 0], regressor.predict(ARRAY))
    labelled = Classifier(**FAST).fit(ARRAY, pd.DataFrame({"t": _holes(LABELS)}))
    np.testing.assert_array_equal(labelled.predict(ARRAY)[:, 0], classifier.predict(ARRAY))
    np.testing.assert_array_equal(labelled.predict_proba(ARRAY)[0], classifier.predict_proba(ARRAY))


@pytest.mark.slow
def test_several_numbers() -> None:
    both = np.stack([NUMBERS, np.where(UNKNOWN, np.nan, -3 * NUMBERS)], axis=1)
    model = Regressor(**FAST).fit(ARRAY, both)
    found = model.predict(ARRAY)
    assert model.score(ARRAY[UNKNOWN], NUMBERS[UNKNOWN, None] * [1, -3]) > 0.8
    low, up = model.predict_interval(ARRAY)
    assert found.shape == low.shape == up.shape == (80, 2)
    assert (low < up).all()
    assert model.sample(ARRAY, 20).shape == (20, 80, 2)
    # Names that are numbers, and NA.
    frame = pd.DataFrame(both).astype("Float64")
    again = Regressor(**FAST).fit(ARRAY, frame)
    np.testing.assert_array_equal(again.predict(ARRAY), found)
    assert again.target_names_ == ["0", "1"]


@pytest.mark.slow
def test_several_labels() -> None:
    both = pl.DataFrame({"up": NUMBERS > 0, "shade": _holes(SHADES.tolist())})
    model = Classifier(**FAST).fit(ARRAY, both)
    assert [c.tolist() for c in model.classes_] == [[False, True], ["dark", "light", "mid"]]
    assert [shares.shape for shares in model.predict_proba(ARRAY)] == [(80, 2), (80, 3)]
    found = model.predict(ARRAY)
    assert found.shape == (80, 2)
    # Truth values are not turned into texts for the sake of their neighbours.
    assert {type(value) for value in found[:, 0]} == {bool}
    assert (found[:, 0] == (NUMBERS > 0)).mean() > 0.8
    assert (found[UNKNOWN, 1] == SHADES[UNKNOWN]).mean() > 0.6
    drawn = model.sample(ARRAY, 20)
    assert drawn.shape == (20, 80, 2)
    assert set(drawn[..., 1].ravel()) == {"dark", "light", "mid"}


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
        ({"device": "abacus"}, "device='abacus' is not there; use 'cpu', or None."),
        ({"device": 3}, "device=3 is not there; use 'cpu', or None."),
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
