"""`Imputer`, `Regressor` and `Classifier` among the tools of scikit-learn."""

import copy
import html
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from clinic_training import compiled
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator
from two_factors import (
    ARRAY,
    ARROW,
    FAST,
    FRAME,
    LABELS,
    NAMES,
    NUMBERS,
    POLARS,
    SHADES,
    UNKNOWN,
)

from hhvaem import Classifier, Column, Imputer, InputError, Regressor, Schema, TableWarning
from hhvaem.estimators import base, targets
from hhvaem.inference import infer_schema
from hhvaem.preparing import Part
from hhvaem.table import encode

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
    rng = np.random.default_rng(0)
    with compiled() as names:
        for rows, columns in ((1, 1), (20, 2), (500, 4)):
            table = rng.normal(size=(rows, columns))
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
