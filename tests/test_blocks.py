"""Blocks of a large table: all rows once, at random, and the same from memory and from disk."""

import sys
import tempfile

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from hhvaem import Classifier, Imputer, Regressor, load
from hhvaem.blocks import Blocks, folder_for_blocks, in_memory, on_disk, turns
from hhvaem.errors import InputError
from hhvaem.preparing import Part
from hhvaem.schema import Column
from hhvaem.sources import Source
from hhvaem.steps import Settings


def numbers(rows: int) -> Part:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(rows, 3))
    values[rng.random(values.shape) < 0.3] = np.nan
    return Part(tuple(Column(name, "real") for name in "abc"), values, ~np.isnan(values))


def same(one: np.ndarray, other: np.ndarray) -> bool:
    return np.array_equal(one, other, equal_nan=True)


def test_blocks_hold_each_row_once():
    part = numbers(1000)
    blocks = in_memory(part, None, count=4, seed=3)
    assert blocks.rows == 1000
    assert min(blocks.sizes) > 200
    every = np.concatenate([blocks.load(i) for i in range(4)])
    order = np.lexsort(every.T), np.lexsort(part.values.T)
    assert same(every[order[0]], part.values[order[1]])


def test_blocks_are_drawn_at_random_from_a_sorted_table():
    part = numbers(1000)
    part.values[:, 0] = np.arange(1000)
    blocks = in_memory(part, None, count=4, seed=3)
    means = [blocks.load(i)[:, 0].mean() for i in range(4)]
    assert np.abs(np.array(means) - 500).max() < 5 * 1000 / np.sqrt(12 * 200)


def test_blocks_on_disk_are_those_in_memory(tmp_path):
    part = numbers(1000)
    chunks = (part.values[i : i + 170] for i in range(0, 1000, 170))
    there = on_disk(part.columns, (), chunks, tmp_path, count=4, seed=3)
    here = in_memory(part, None, count=4, seed=3)
    assert (there.sizes, there.digest) == (here.sizes, here.digest)
    assert all(same(there.load(i), here.load(i)) for i in range(4))


def test_a_digest_is_of_all_blocks():
    part = numbers(1000)
    before = in_memory(part, None, count=4, seed=3)
    values = part.values.copy()
    values[np.flatnonzero(part.mask[:, 0])[-1], 0] += 1
    after = in_memory(part._replace(values=values), None, count=4, seed=3)
    assert sum(same(before.load(i), after.load(i)) for i in range(4)) == 3
    assert before.digest != after.digest


def test_columns_that_are_hardly_observed_are_gathered_from_all_blocks():
    part = numbers(1000)
    part.values[:, 2] = np.nan
    part.values[[5, 600, 999], 2] = [1.0, 2.0, 3.0]
    blocks = in_memory(part, None, count=5, seed=0)
    alone, _ = blocks.columns_alone()
    assert sorted(alone.values[alone.mask[:, 2], 2]) == [1.0, 2.0, 3.0]
    assert alone.mask[:, 0].all()


def test_a_full_disk_is_told(tmp_path):
    part = numbers(10)
    (tmp_path / "block-0").mkdir()
    with pytest.raises(InputError, match="cannot be put into blocks in"):
        on_disk(part.columns, (), [part.values], tmp_path, count=1, seed=0)


def test_a_block_that_has_lost_rows_is_refused(tmp_path):
    part = numbers(10)
    blocks = on_disk(part.columns, (), [part.values], tmp_path, count=1, seed=0)
    with (tmp_path / "block-0").open("r+b") as file:
        file.truncate(8 * 3 * 9)
    with pytest.raises(InputError, match="block-0 has lost rows that were put into it"):
        blocks.load(0)
    (tmp_path / "block-0").unlink()
    with pytest.raises(InputError, match="block-0 has lost rows that were put into it"):
        blocks.load(0)


@pytest.mark.skipif(sys.platform == "win32", reason="folders have no locks there")
def test_blocks_of_killed_fits_are_removed_by_the_next(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left, other = tmp_path / "hhvaem-blocks-left", tmp_path / "hhvaem-blocks-of-mine"
    for folder, name in ((left, "block-0"), (other, "notes")):
        folder.mkdir()
        (folder / name).write_bytes(b"rows")
    with folder_for_blocks() as one:
        (one / "block-0").write_bytes(b"rows")
        assert not left.exists()
        with folder_for_blocks() as two:
            assert (one / "block-0").exists()
        assert not two.exists()
    assert list(tmp_path.iterdir()) == [other]


def test_temporary_files_that_have_no_place_are_told(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    with pytest.raises(InputError, match="No folder for blocks of rows can be made: No such file"):
        folder_for_blocks().__enter__()


@pytest.mark.parametrize("steps", [40, 400, 4_000])
def test_turns_cover_all_steps_in_order(steps):
    settings = Settings(inference="likelihood", steps=steps, hmc_steps=steps // 2, batch_size=10)
    found, starts = turns((100, 90, 80), settings)
    assert starts[0] == 0
    assert list(starts) == sorted(set(starts))
    assert steps // 2 in starts
    assert found[0] == 0
    if steps == 4_000:
        assert set(found) == {0, 1, 2}


def messy(rows: int) -> pa.Table:
    """Make a table whose columns have to do with each other, sorted by one of them."""
    rng = np.random.default_rng(1)
    common = np.sort(rng.normal(size=rows))
    x = common[:, None] + 0.5 * rng.normal(size=(rows, 3))
    city = np.where(common + 0.5 * rng.normal(size=rows) > 0, "Rome", "Oslo").astype(object)
    price = np.round(np.exp(common + 0.3 * rng.normal(size=rows)), 2)
    table = {f"x{j}": x[:, j] for j in range(3)} | {"price": price}
    holes = rng.random((rows, 5)) < 0.3
    cells = {
        name: pa.array(values, mask=holes[:, j]) for j, (name, values) in enumerate(table.items())
    }
    return pa.table(cells | {"city": pa.array(city, mask=holes[:, 4])})


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Write a table to two files of a folder."""
    folder = tmp_path_factory.mktemp("files")
    table = messy(6_000)
    parquet.write_table(table.slice(0, 2_500), folder / "a.parquet")
    parquet.write_table(table.slice(2_500), folder / "b.parquet")
    return folder, table


QUICK = {"preset": "fast", "random_state": 0, "max_steps": 200}


def test_a_fit_from_disk_is_the_fit_in_memory(files):
    folder, table = files
    options = {**QUICK, "rows_at_once": 1_000, "members": 2}
    there, here = Imputer(**options).fit(folder), Imputer(**options).fit(table)
    assert there.schema_ == here.schema_
    assert there.fitted_.record == here.fitted_.record
    assert list(there.feature_names_in_) == table.column_names


def test_small_files_are_read_at_once(files):
    folder, table = files
    there, here = Imputer(**QUICK).fit(folder), Imputer(**QUICK).fit(table)
    assert there.fitted_.record == here.fitted_.record


def test_a_table_that_has_other_rows_when_it_is_read_again_is_refused():
    table, passes = messy(3_000), iter([3_000, 3_000, 10])
    parts = {"it": lambda _: iter([table.slice(0, next(passes))])}
    source = Source("it", table.schema, parts)
    with pytest.raises(InputError, match="it had 3000 rows when it was read first, and 10 when"):
        Imputer(**QUICK, rows_at_once=1_000).fit(source)


@pytest.mark.slow
def test_blocks_score_as_the_whole_table_does(files):
    _, table = files
    test = messy(1_000)
    truth = np.asarray(test["x0"].to_numpy(zero_copy_only=False), float)
    hidden = test.set_column(0, "x0", pa.nulls(1_000, pa.float64()))
    seen = ~np.isnan(truth)
    options = {**QUICK, "max_steps": 1_500, "inference": "likelihood", "members": 1}

    def error(**more) -> float:
        imputer = Imputer(**options, **more).fit(table)
        filled = imputer.transform(hidden)["x0"].to_numpy()
        return float(np.sqrt(np.mean((filled - truth)[seen] ** 2)))

    whole, blocks, means = error(), error(rows_at_once=1_000), float(truth[seen].std())
    assert whole < 0.75 * means
    assert blocks < 1.05 * whole


@pytest.mark.slow
def test_predictors_learn_from_files(files, tmp_path):
    folder, table = files
    some = table.slice(0, 100)
    options = {**QUICK, "rows_at_once": 1_000}
    model = Regressor(**options).fit(folder, "price")
    here = Regressor(**options).fit(table.drop_columns(["price"]), table["price"].to_numpy())
    assert model.fitted_.record == here.fitted_.record
    assert model.target_names_ == ["price"]
    model.save(tmp_path / "price.hhvaem")
    again, known = load(tmp_path / "price.hhvaem"), some.drop_columns(["price"])
    np.testing.assert_array_equal(again.predict(known), here.predict(known))
    classifier = Classifier(**options).fit(folder, ["city"])
    assert list(classifier.classes_[0]) == ["Oslo", "Rome"]
    assert classifier.predict(some.drop_columns(["city"])).shape == (100, 1)


@pytest.mark.parametrize(
    ("y", "sentence"),
    [
        ("cost", "has no column 'cost' to predict"),
        (np.zeros(6_000), "y names the columns to predict"),
        (["x0", "x1", "x2", "price", "city"], "has no column beside"),
    ],
)
def test_targets_that_are_not_there(files, y, sentence):
    with pytest.raises(InputError, match=sentence):
        Regressor(**QUICK).fit(files[0], y)


def test_targets_without_two_values(tmp_path):
    table = messy(3_000).append_column("same", pa.array(["a"] * 3_000))
    table = table.append_column("none", pa.nulls(3_000, pa.string()))
    parquet.write_table(table, tmp_path / "t.parquet")
    options = {**QUICK, "rows_at_once": 1_000}
    with pytest.raises(InputError, match="'same' has one value only, 'a'"):
        Classifier(**options).fit(tmp_path / "t.parquet", "same")
    with pytest.raises(InputError, match="'none' is missing in all rows"):
        Classifier(**options).fit(tmp_path / "t.parquet", "none")


@pytest.mark.filterwarnings("ignore:The model predicts hidden cells no better")
@pytest.mark.slow
def test_an_interrupted_fit_in_blocks_goes_on(files, tmp_path):
    _, table = files
    options = {**QUICK, "rows_at_once": 1_000, "inference": "likelihood", "batch_size": 100}
    whole = Imputer(**options).fit(table)
    seconds = {"max_seconds": 0.0}
    Imputer(**options, **seconds, snapshots=tmp_path).fit(table)
    later = Imputer(**options, snapshots=tmp_path).fit(table)
    assert later.fitted_.record == whole.fitted_.record


@pytest.mark.usefixtures("as_users_have_it")
@pytest.mark.parametrize("rows", [0, 999, 1.5, "all"])
def test_rows_at_once_that_are_none(files, rows):
    with pytest.raises(InputError, match="rows_at_once="):
        Imputer(**QUICK, rows_at_once=rows).fit(files[0])


def test_blocks_are_a_plain_record():
    blocks = Blocks((Column("a", "real"),), (), (2,), lambda _: np.array([[1.0], [np.nan]]), "")
    inputs, targets = blocks.part(0)
    assert targets is None
    assert inputs.mask.tolist() == [[True], [False]]
