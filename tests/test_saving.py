"""A fitted estimator comes back from its file as it was, or the file is refused in a sentence."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import full_disk
from pyarrow import parquet
from saved_models import FILES, NAMES, answer, no_models, table
from sklearn.exceptions import NotFittedError
from test_packing import completed

from hhvaem import Classifier, Imputer, load
from hhvaem.errors import InputError
from hhvaem.posterior import Posterior
from hhvaem.storage import open_snapshots, read_arrays, write_arrays

TESTS = Path(__file__).parent
Change = Callable[[Any], None]


def saved(name: str) -> Path:
    return FILES / f"{name}-0.1.hhvaem"


def unnamed(answer: Any) -> Any:
    """Give the values of an answer, dates as JSON has them."""
    return json.loads(json.dumps(answer, default=str))


def close(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(close(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(close, one, other))
    return one == (pytest.approx(other, rel=1e-4, abs=1e-4) if type(other) is float else other)


@pytest.mark.parametrize("name", NAMES)
def test_what_version_0_1_wrote_answers_as_it_did(name: str) -> None:
    model = load(saved(name))
    assert saved(name).stat().st_size < 30_000
    assert close(unnamed(answer(model)), json.loads((FILES / "answers-0.1.json").read_text())[name])


@pytest.mark.parametrize("name", NAMES)
def test_what_was_loaded_is_saved_as_it_was(tmp_path: Path, name: str) -> None:
    load(saved(name)).save(tmp_path / "again")
    (arrays, manifest), (again, told) = read_arrays(saved(name)), read_arrays(tmp_path / "again")
    # What a plan and parameters have got since then is added.
    added = told["parameters"].keys() - manifest["parameters"].keys()
    assert {told["parameters"].pop(name) for name in added} <= {None}
    before, now = manifest["model"]["plan"], told["model"]["plan"]
    now = {name: value for name, value in now.items() if name in before}
    settings = before["settings"]
    now["settings"] = {name: x for name, x in now["settings"].items() if name in settings}
    told["model"]["plan"] = now
    for part in ("encoding", "target_encoding"):
        completed(manifest["model"].get(part) or [])
    assert manifest | {"versions": None} == told | {"versions": None}
    assert set(told["versions"]) == {"hhvaem", "jax", "equinox", "optax", "numpy"}
    assert arrays.keys() == again.keys()
    for key, array in arrays.items():
        np.testing.assert_array_equal(again[key], array, strict=True)


GIVEN = {
    "layers": [4, 2],
    "kinds": {"n": "real"},
    "draws": np.int64(6),
    "max_seconds": np.float32(2.5),
    "members": 3,
    "random_state": np.uint8(7),
    "snapshots": Path("folder"),
    "verbose": True,
    "device": "cpu",
}


def test_parameters_come_back(tmp_path: Path) -> None:
    model = load(saved("imputer")).set_params(**GIVEN)
    model.save(str(tmp_path / "model"))
    again = load(str(tmp_path / "model")).get_params()
    assert again == model.get_params() | {"layers": (4, 2), "snapshots": "folder"}
    assert {type(value) for value in again.values()} <= {
        bool,
        int,
        float,
        str,
        dict,
        tuple,
        type(None),
    }
    model.set_params(random_state=np.random.RandomState(3)).save(tmp_path / "model")
    assert load(tmp_path / "model").random_state is None


@pytest.mark.parametrize(
    ("given", "read"),
    [(Fraction(5, 2), 2.5), (np.float16(2.5), 2.5), (np.inf, np.inf)],
)
def test_a_number_of_any_type_is_saved(tmp_path: Path, given: Any, read: float) -> None:
    load(saved("imputer")).set_params(max_seconds=given).save(tmp_path / "model")
    assert load(tmp_path / "model").max_seconds == read


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"layers": "abc"}, "layers='abc' cannot be saved; give it a value that `fit` takes"),
        ({"layers": 5}, "layers=5 cannot be saved"),
        ({"layers": (2, "a")}, "layers='a' must be a whole number"),
        ({"kinds": 5}, "kinds=5 cannot be saved"),
        ({"kinds": {"x": np.arange(2)}}, "kinds=array([0, 1]) cannot be saved"),
        ({"verbose": np.array(0)}, "verbose=array(0) cannot be saved"),
        ({"max_seconds": 1j}, "max_seconds=1j cannot be saved"),
    ],
    ids=str,
)
def test_parameters_that_no_file_holds(
    tmp_path: Path, wrong: dict[str, Any], sentence: str
) -> None:
    model = load(saved("imputer")).set_params(**wrong)
    with pytest.raises(InputError, match=f"^{re.escape(sentence)}"):
        model.save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("as_users_have_it")
@pytest.mark.parametrize("path", [None, 5, b"model"])
def test_what_is_no_path(path: Any) -> None:
    for ask in (load, load(saved("imputer")).save):
        with pytest.raises(InputError, match=f"^{path!r} is no path of a file; give a text"):
            ask(path)


def test_a_class_of_ones_own_comes_back_as_that_of_the_library(tmp_path: Path) -> None:
    class Mine(Imputer):
        pass

    Mine().fit(np.ones((3, 1))).save(tmp_path / "model")
    assert type(load(tmp_path / "model")) is Imputer


@pytest.mark.parametrize("name", NAMES)
def test_what_was_fitted_comes_back(tmp_path: Path, name: str) -> None:
    model = load(saved(name))
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert type(again) is type(model)
    assert vars(again).keys() == vars(model).keys()
    assert again.schema_ == model.schema_
    assert again.schema_.filled == (name == "imputer")
    assert again.feature_names_in_.tolist() == list(model.schema_.names)
    assert again.feature_names_in_.dtype == object
    assert (again.n_features_in_, again.members_) == (len(model.schema_), model.members_)
    assert (again.fitted_.seed, again.fitted_.record) == (model.fitted_.seed, model.fitted_.record)
    assert again.fitted_.plan == model.fitted_.plan
    assert answer(again) == answer(model)


@pytest.mark.parametrize(
    "classes",
    [
        np.array([-1, 5, 20]),
        np.array([0, 1, 200], np.uint8),
        np.array([0.5, 1.0, 1e300]),
        np.array(["", "Bern", "Gr\u00f6\u00dfe"]),
    ],
)
def test_classes_keep_their_dtype(tmp_path: Path, classes: np.ndarray) -> None:
    model = load(saved("classifier"))
    model.classes_[0] = classes
    model.save(tmp_path / "model")
    again, truths = load(tmp_path / "model").classes_
    np.testing.assert_array_equal(again, classes, strict=True)
    np.testing.assert_array_equal(truths, np.array([False, True]), strict=True)


FRESH = """
import sys
from pyarrow import parquet
from hhvaem import load
from saved_models import table

model, posterior, known = load(sys.argv[1]), sys.argv[3], table(seed=1)
full = [model.transform(known, posterior=posterior), *model.sample(known, 2, posterior=posterior)]
for i, each in enumerate(full):
    parquet.write_table(each, f"{sys.argv[2]}/{i}.parquet")
"""


def same_in_a_fresh_process(model: Imputer, folder: Path, posterior: Posterior) -> None:
    model.save(folder / "model")
    subprocess.run(
        [sys.executable, "-c", FRESH, folder / "model", folder, posterior],
        check=True, timeout=600, env={**os.environ, "PYTHONPATH": str(TESTS)},
    )  # fmt: skip
    known = table(seed=1)
    drawn = model.sample(known, 2, posterior=posterior)
    for i, full in enumerate([model.transform(known, posterior=posterior), *drawn]):
        assert parquet.read_table(folder / f"{i}.parquet").equals(full)


def test_a_fresh_process_fills_the_same_to_the_bit(tmp_path: Path) -> None:
    same_in_a_fresh_process(load(saved("imputer")), tmp_path, "encoder")


@pytest.mark.slow
def test_a_model_with_learned_chains_and_column_models_comes_back(tmp_path: Path) -> None:
    model = Imputer(preset="paper", max_steps=20, draws=4, members=2, random_state=0).fit(table())
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert (again.fitted_.learned.log_steps == model.fitted_.learned.log_steps).all()
    assert again.transform(table()).equals(model.transform(table()))


@pytest.mark.slow
def test_a_fresh_fit_comes_back_to_the_bit(tmp_path: Path) -> None:
    model = Imputer(preset="fast", layers=(3,), random_state=0).fit(table())
    same_in_a_fresh_process(model, tmp_path, "hmc")
    known, labels = table().drop_columns(["flag"]), np.arange(table().num_rows) % 3
    classifier = Classifier(preset="fast", layers=(3,), random_state=0).fit(known, labels)
    classifier.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert (again.flat_, again.n_outputs_, again.target_names_) == (True, 1, ["y"])
    np.testing.assert_array_equal(again.classes_, classifier.classes_, strict=True)
    np.testing.assert_array_equal(again.predict(known), classifier.predict(known), strict=True)
    np.testing.assert_array_equal(again.predict_proba(known), classifier.predict_proba(known))


def test_an_array_has_no_names_and_constants_no_model(tmp_path: Path) -> None:
    Imputer().fit(np.full((20, 2), [1.0, 2.0])).save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert not hasattr(again, "feature_names_in_")
    assert again.fitted_ is None
    assert again.transform(np.array([[np.nan, np.nan]])).tolist() == [[1.0, 2.0]]


def test_what_is_not_fitted_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        Imputer().save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_what_later_versions_add_has_a_default(tmp_path: Path) -> None:
    arrays, manifest = read_arrays(saved("imputer"))
    plan = manifest["model"]["plan"]
    for part, names in (
        (manifest["parameters"], ["device", "snapshots", "verbose"]),
        (plan, ["held_share", "marginal_steps"]),
        (plan["settings"], ["patience", "stein_rows"]),
        (plan["how"], ["superchains"]),
    ):
        for name in names:
            del part[name]
    write_arrays(tmp_path / "old", arrays, manifest)
    assert answer(load(tmp_path / "old")) == answer(load(saved("imputer")))


def test_files_that_are_no_models(tmp_path: Path) -> None:
    for path, sentence in no_models(tmp_path).items():
        with pytest.raises(InputError, match=re.escape(sentence)):
            load(path)


def test_a_cut_or_altered_file(tmp_path: Path) -> None:
    content = saved("imputer").read_bytes()
    path = tmp_path / "a"
    for end in range(0, len(content), 97):
        path.write_bytes(content[:end])
        with pytest.raises(InputError, match="a is damaged"):
            load(path)
    for place in range(0, len(content), 97):
        altered = bytearray(content)
        altered[place] ^= 16
        path.write_bytes(altered)
        with pytest.raises(InputError, match="a is damaged"):
            load(path)


def test_a_snapshot_is_no_model(tmp_path: Path) -> None:
    snapshots = open_snapshots(tmp_path, {})
    snapshots.save(np.zeros(3), {})
    with pytest.raises(InputError, match=r"is no model of hhvaem .*'estimator'.*`save` wrote"):
        load(snapshots.path)


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    for place, reason in (
        (tmp_path, "is a folder or a device"),
        (tmp_path / "no" / "model", "cannot be written: No such file or directory"),
    ):
        with pytest.raises(InputError, match=f"{place} {reason}"):
            load(saved("imputer")).save(place)
    assert not list(tmp_path.iterdir())


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_bytes(saved("imputer").read_bytes())
    model = load(saved("classifier"))
    with full_disk(5_000), pytest.raises(InputError, match=f"{path} cannot be written: File too"):
        model.save(path)
    assert path.read_bytes() == saved("imputer").read_bytes()
    assert list(tmp_path.iterdir()) == [path]


def put(value: Any, *path: Any) -> Change:
    def change(manifest: Any) -> None:
        *way, last = path
        for key in way:
            manifest = manifest[key]
        manifest[last] = value

    return change


def column(at: int, **changes: Any) -> Change:
    def change(manifest: Any) -> None:
        manifest["schema"]["columns"][at] |= changes

    return change


def swapped_laws(manifest: Any) -> None:
    laws = manifest["model"]["encoding"]
    laws[2], laws[3] = laws[3], laws[2]  # of three levels, and of two


def too_many_draws(manifest: Any) -> None:
    manifest["model"]["plan"]["how"] |= {"chains": 2**16, "kept": 17}


LAWS = ("model", "encoding")
PLAN = ("model", "plan")
LEVELS = ["Bern", "Oslo", "Rome", "Wien"]
NOT_STORED_SO = "and stored as no such column is"


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("imputer", put("Session", "estimator"), "KeyError: 'Session'"),
        ("imputer", put("Classifier", "estimator"), "it is of Classifier, and its target is not"),
        ("classifier", put("Imputer", "estimator"), "it is of Imputer, and its target is not"),
        ("classifier", put("Regressor", "estimator"), "the law of target 'city' is another's"),
        ("imputer", put(2, "parameters", "device"), "its device is 2"),
        ("imputer", put([], "parameters", "preset"), "one of its parameters is no plain value"),
        ("imputer", put(["3"], "parameters", "layers"), "layers='3' must be a whole number"),
        ("imputer", put(1, "parameters", "new"), "TypeError"),
        ("imputer", put(2, "members"), "its arrays are not those of the model"),
        ("imputer", put(1.0, "members"), "members=1.0 must be a whole number"),
        ("imputer", put(None, "model"), "it has a model where none is needed, or none where one"),
        ("imputer", put(-1, "model", "seed"), "seed=-1 must be a whole number"),
        ("imputer", put(2**200, "model", "seed"), "must be a whole number"),
        ("imputer", put([], "model", "record"), "it has no record of its training"),
        # The columns.
        ("imputer", column(0, name="n"), "more than one column named 'n'"),
        ("imputer", column(0, storage="none"), f"column 'x' is real {NOT_STORED_SO}"),
        ("imputer", column(0, storage="text"), f"column 'x' is real {NOT_STORED_SO}"),
        ("imputer", column(2, storage="integer"), f"column 'city' is categorical {NOT_STORED_SO}"),
        ("imputer", column(2, levels=[1, 2, 3]), f"column 'city' is categorical {NOT_STORED_SO}"),
        ("imputer", column(3, storage="text"), f"column 'flag' is binary {NOT_STORED_SO}"),
        ("imputer", column(4, storage="float"), f"column 'day' is datetime {NOT_STORED_SO}"),
        ("imputer", column(4, step=1e300), f"column 'day' is datetime {NOT_STORED_SO}"),
        ("imputer", column(6, levels=[1.0]), f"column 'unit' is constant {NOT_STORED_SO}"),
        (
            "imputer",
            column(6, levels=[1e30], storage="date"),
            f"column 'unit' is constant {NOT_STORED_SO}",
        ),
        # The laws of the columns.
        ("imputer", column(2, levels=LEVELS), "law of column 'city' is not that of a categorical"),
        ("imputer", column(2, levels=["Bern"]), f"column 'city' is categorical {NOT_STORED_SO}"),
        ("imputer", column(5, levels=LEVELS), "law of column 'grade' is not that of a ordinal"),
        ("imputer", column(5, kind="categorical"), "law of column 'grade' is not that of a cat"),
        ("imputer", column(0, kind="ignored", storage="none"), "not one law for each column"),
        ("imputer", swapped_laws, "the law of column 'city' is not that of a categorical one"),
        (
            "imputer",
            put({"class": "categorical", "levels": 2}, *LAWS, 3),
            "the law of column 'flag' is not that of a binary one",
        ),
        ("imputer", put({"class": "binary"}, *LAWS, 0), "There is no place for the array"),
        (
            "regressor",
            put([{"class": "binary"}], "model", "target_encoding"),
            "There is no place for the array",
        ),
        # The targets.
        ("classifier", put([], "target", "names"), "its targets have no names"),
        ("classifier", put(["city"], "target", "names"), "not as many classes as targets"),
        ("classifier", put(True, "target", "flat"), "its targets do not fit together"),
        ("classifier", put("<U99999999", "target", "classes", 0, 1), "not of their dtype"),
        ("classifier", put("O", "target", "classes", 0, 1), "neither texts nor numbers"),
        ("classifier", put([True, False], "target", "classes", 1, 0), "two or more in order"),
        ("classifier", put(LEVELS, "target", "classes", 0, 0), "law of target 'city' is another's"),
        ("classifier", put(None, "model", "target_encoding"), "its arrays are not those"),
        # The plan.
        ("imputer", put([1] * 10**5, *PLAN, "layers"), "not the arrays of so many layers"),
        ("imputer", put([], *PLAN, "layers"), r"layers=\(\) must be"),
        ("imputer", put(2**30, *PLAN, "hidden"), "its arrays are not those of the model"),
        ("imputer", put(0, *PLAN, "hidden"), "hidden=0 must be a whole number"),
        ("imputer", put("vae", *PLAN, "marginals"), "its arrays are not those of the model"),
        ("imputer", put("x", *PLAN, "marginals"), "its marginals are none of"),
        ("imputer", put("x", *PLAN, "how", "posterior"), "posterior"),
        ("imputer", put(0, *PLAN, "how", "chains"), "chains=0 must be a whole number"),
        ("imputer", put(2**30, *PLAN, "how", "leapfrog"), "its chains are beyond all reason"),
        ("imputer", too_many_draws, "its draws are beyond all reason"),
        ("imputer", put(3, *PLAN, "how", "superchains"), "its chains start together"),
        ("imputer", put("x", *PLAN, "settings", "inference"), "inference"),
        ("imputer", put("hmc", *PLAN, "settings", "inference"), "its arrays are not those"),
    ],
)
def test_what_no_fit_makes_is_refused(
    tmp_path: Path, name: str, change: Change, message: str
) -> None:
    arrays, manifest = read_arrays(saved(name))
    change(manifest)
    write_arrays(tmp_path / "a", arrays, manifest)
    with pytest.raises(InputError, match=f"(?s)a is no model of hhvaem.*{message}"):
        load(tmp_path / "a")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_are_finite(tmp_path: Path, value: float) -> None:
    arrays, manifest = read_arrays(saved("imputer"))
    arrays = {key: array.copy() for key, array in arrays.items()}
    arrays["models.decoder.layers.1.bias"][0, 0] = value
    write_arrays(tmp_path / "a", arrays, manifest)
    with pytest.raises(InputError, match=r"array 'models\.decoder\.layers\.1\.bias' is not finite"):
        load(tmp_path / "a")


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_altered_manifests_and_arrays(name: str) -> None:
    examples = 2_000
    done = subprocess.run(
        [sys.executable, TESTS / "hostile_models.py", name, str(examples)],
        capture_output=True, text=True, timeout=1800,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-5000:]
    refused, used = map(int, done.stdout.split())
    assert refused > examples / 2
    assert used > examples / 20
