"""`hhvaem predict` as it is typed: what the library predicts, behind the columns of the table."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from commands import hhvaem, refused
from saved_models import FILES, no_models, table

from hhvaem import load, read_table, write_table

REGRESSOR, CLASSIFIER = FILES / "regressor-0.1.hhvaem", FILES / "classifier-0.1.hhvaem"
CHEAP = ("--posterior", "encoder")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a table that the models have never seen, targets included."""
    write_table(table(seed=1), tmp_path / "a.parquet")
    return tmp_path


def predict(place: Path, model: Path, *options: Any, out: str = "b.parquet") -> Any:
    """Predict at the least cost, and give what was printed for programs and what was written."""
    done = hhvaem(
        "predict", model, place / "a.parquet", "--out", place / out, *CHEAP, "--json", *options
    )
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout), read_table(place / out)


def values(table: pa.Table, name: str) -> np.ndarray:
    return table.column(name).to_numpy()


@pytest.mark.parametrize("options", [(), ("--rows-at-once", "7")])
def test_numbers_are_those_of_the_library(place: Path, options: tuple[str, ...]) -> None:
    facts, full = predict(place, REGRESSOR, "--level", "0.5", *options)
    known, model = table(seed=1), load(REGRESSOR)
    assert full.column_names == [*known.column_names, "x_predicted", "x_low", "x_up"]
    assert full.select(known.column_names).equals(known)
    inputs = known.drop_columns(["x"])
    low, up = model.predict_interval(inputs, 0.5, posterior="encoder")
    np.testing.assert_array_equal(
        values(full, "x_predicted"), model.predict(inputs, posterior="encoder")
    )
    np.testing.assert_array_equal(values(full, "x_low"), low)
    np.testing.assert_array_equal(values(full, "x_up"), up)
    assert facts.pop("seconds") > 0
    assert facts == {"out": str(place / "b.parquet"), "rows": 40, "targets": ["x"]}


def test_classes_are_those_of_the_library(place: Path) -> None:
    facts, full = predict(place, CLASSIFIER, "--rows-at-once", "9")
    known, model = table(seed=1), load(CLASSIFIER)
    shares = [f"city_p_{name}" for name in ("Bern", "Oslo", "Rome")]
    truths = ["flag_p_False", "flag_p_True"]
    added = ["city_predicted", *shares, "flag_predicted", *truths]
    assert full.column_names == [*known.column_names, *added]
    inputs = known.drop_columns(["city", "flag"])
    cities, flags = model.predict_proba(inputs, posterior="encoder")
    np.testing.assert_array_equal(np.stack([values(full, name) for name in shares], 1), cities)
    np.testing.assert_array_equal(np.stack([values(full, name) for name in truths], 1), flags)
    labels = np.array(["Bern", "Oslo", "Rome"])[cities.argmax(1)]
    assert full.column("city_predicted").to_pylist() == labels.tolist()
    assert full.column("flag_predicted").to_pylist() == (flags[:, 1] > 0.5).tolist()
    assert facts["targets"] == ["city", "flag"]


def test_a_level_is_a_level(place: Path) -> None:
    _, narrow = predict(place, REGRESSOR, "--level", "0.5")
    _, wide = predict(place, REGRESSOR)
    assert (values(wide, "x_low") < values(narrow, "x_low")).all()
    assert (values(wide, "x_up") > values(narrow, "x_up")).all()


def test_the_target_is_not_looked_at(place: Path) -> None:
    _, before = predict(place, REGRESSOR)
    write_table(table(seed=1).set_column(0, "x", pa.array(["?"] * 40)), place / "a.parquet")
    _, after = predict(place, REGRESSOR)
    write_table(table(seed=1).drop_columns(["x"]), place / "a.parquet")
    _, without = predict(place, REGRESSOR)
    for name in ("x_predicted", "x_low", "x_up"):
        assert before.column(name).equals(after.column(name))
        assert before.column(name).equals(without.column(name))


def test_rows_without_a_known_cell_get_what_the_model_knows_before(place: Path) -> None:
    kinds = table().schema
    write_table(pa.table([pa.nulls(3, kind.type) for kind in kinds], kinds), place / "a.parquet")
    _, full = predict(place, REGRESSOR)
    seen = table().column("x").drop_null().to_numpy()
    low, mean, up = (values(full, f"x_{name}") for name in ("low", "predicted", "up"))
    assert len(set(low)) == len(set(mean)) == len(set(up)) == 1
    assert abs(mean[0] - seen.mean()) < 0.5 * seen.std()
    assert 0.7 < np.mean((seen > low[0]) & (seen < up[0])) < 1
    _, full = predict(place, CLASSIFIER)
    share = np.mean(np.array(table().column("city").drop_null().to_pylist()) == "Rome")
    np.testing.assert_allclose(values(full, "city_p_Rome"), share, atol=0.2)


def test_columns_unknown_to_the_model_are_passed_through(place: Path) -> None:
    _, before = predict(place, REGRESSOR)
    known = table(seed=1)
    write_table(known.add_column(2, "id", pa.array(range(40))), place / "a.parquet")
    done = hhvaem("predict", REGRESSOR, place / "a.parquet", "--out", place / "b.parquet", *CHEAP)
    assert done.stderr == (
        "Note: Columns unknown to the model are passed through as they are: 'id'.\n"
    )
    after = read_table(place / "b.parquet")
    assert after.column("id").to_pylist() == list(range(40))
    assert after.drop_columns(["id"]).equals(before)


def test_a_person_is_told(place: Path) -> None:
    done = hhvaem("predict", CLASSIFIER, place / "a.parquet", "--out", place / "b.csv", *CHEAP)
    assert (done.returncode, done.stderr) == (0, "")
    assert "40 rows with predictions of city, flag, in " in " ".join(done.stdout.split())


def test_what_cannot_be_predicted(place: Path) -> None:
    write_table(table().append_column("x_up", pa.nulls(40)), place / "up.parquet")
    write_table(table().slice(0, 0), place / "none.parquet")
    write_table(table().drop_columns(["n"]), place / "less.parquet")
    write_table(table().set_column(4, "day", pa.array([1.5] * 40)), place / "day.parquet")
    (place / "ragged.csv").write_text("x,n\n1,2\n3,4,5\n")
    for model, name, sentence in (
        (FILES / "imputer-0.1.hhvaem", "a.parquet", "is an Imputer, which has no target to pre"),
        (REGRESSOR, "up.parquet", "up.parquet has a column 'x_up', as the output will; rename it."),
        (REGRESSOR, "none.parquet", "none.parquet has no rows; there is nothing to predict."),
        (REGRESSOR, "less.parquet", "less.parquet lacks 'n'; add every column of the model"),
        (REGRESSOR, "day.parquet", "Column 'day' held dates when the model was made and holds num"),
        (REGRESSOR, "ragged.csv", "ragged.csv cannot be read as CSV in line 3"),
    ):
        out = place / "b.csv"
        done = hhvaem("predict", model, place / name, "--out", out, *CHEAP)
        assert done.returncode == 1
        (told,) = (line for line in done.stderr.splitlines() if not line.startswith("Note: "))
        assert sentence in told
        assert not out.exists()
    for model, sentence in no_models(place).items():
        assert refused("predict", model, place / "a.parquet", "--out", out).startswith(sentence)
    said = refused("predict", REGRESSOR, place / "a.parquet", "--out", place / "no" / "b.csv")
    assert said == f"The folder {place}/no does not exist; make it first."


def test_files_that_are_read_are_not_written(place: Path) -> None:
    model = place / "m.csv"  # nobody should, but may
    model.write_bytes(REGRESSOR.read_bytes())
    for out, what in ((place / "a.parquet", "table"), (model, "model")):
        before = out.read_bytes()
        said = refused("predict", model, place / "a.parquet", "--out", out, *CHEAP)
        assert said == f"{out} is the {what}, which would be lost; name another with --out."
        assert out.read_bytes() == before


def test_a_table_in_the_place_of_the_model(place: Path) -> None:
    said = refused("predict", place / "a.parquet", REGRESSOR, "--out", place / "b.csv")
    assert said == (
        f"{place}/a.parquet is no model of hhvaem, but seems a table (commands take the model "
        "first); give one that `hhvaem fit` or `save` wrote."
    )


@pytest.mark.parametrize(
    ("names", "labels", "twice"),
    [
        (["a", "a_p_b"], [["b_p_c", "d"], ["c", "e"]], "a_p_b_p_c"),
        (["a", "a_p_b"], [["b_predicted", "d"], ["c", "e"]], "a_p_b_predicted"),
    ],
)
def test_columns_of_the_same_name_are_refused(
    place: Path, names: list[str], labels: list[list[str]], twice: str
) -> None:
    model = load(CLASSIFIER)
    # A file has as many classes as its law: three and two.
    model.target_names_ = names
    model.classes_ = [np.array([*labels[0], "z"]), np.array(labels[1])]
    model.save(place / "m")
    said = refused("predict", place / "m", place / "a.parquet", "--out", place / "b.csv", *CHEAP)
    assert said == (
        f"The output would have more than one column {twice!r}; fit a model for each target."
    )


def test_wrong_options_have_status_2(place: Path) -> None:
    arguments = ("predict", REGRESSOR, place / "a.parquet", "--out", place / "b.csv")
    assert hhvaem(*arguments, "--level", "1.5").returncode == 2
    near = hhvaem(*arguments, "--level", "0.9999999999999999")
    assert near.returncode == 2
    assert "'--level': 0.9999999999999999 is too near 1" in " ".join(near.stderr.split())
    assert hhvaem(*arguments, "--rows-at-once", "0").returncode == 2
