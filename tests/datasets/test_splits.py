"""Folds, masks and the record that fixes them."""

import base64
import json

import jax
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import KFold

from hhvaem.datasets import Dataset, load, splits
from hhvaem.datasets.work import Work, plan, table_checksum
from hhvaem.errors import InputError


@given(rows=st.integers(2, 500), count=st.integers(2, 12), seed=st.integers(0, 2**32 - 1))
def test_folds_are_a_partition(rows, count, seed):
    if count > rows:
        with pytest.raises(InputError, match="cannot be divided"):
            splits.folds(rows, seed, count)
        return
    folds = splits.folds(rows, seed, count)
    assert sorted(np.concatenate(folds).tolist()) == list(range(rows))
    assert [len(fold) for fold in folds] == [
        len(test) for _, test in KFold(count).split(np.zeros(rows))
    ]
    assert all((np.diff(fold) > 0).all() for fold in folds)


@pytest.mark.parametrize(("rows", "sizes"), [(308, [31] * 8 + [30] * 2), (1030, [103] * 10)])
def test_sizes_of_folds(rows, sizes):
    assert [len(fold) for fold in splits.folds(rows, seed=0)] == sizes


def test_folds_are_shuffled_and_seeded():
    first, again, other = (splits.folds(1000, seed) for seed in (0, 0, 1))
    assert all(np.array_equal(*pair) for pair in zip(first, again, strict=True))
    assert not np.array_equal(first[0], other[0])
    # A fold of 100 shuffled rows has about 10 neighbours, an unshuffled one 99.
    assert (np.diff(first[0]) == 1).sum() < 30


@pytest.mark.parametrize("rate", [0.3, 0.5])
def test_rate_of_the_test_mask(rate):
    mask = splits.test_mask(2000, 20, seed=3, rate=rate)
    spread = np.sqrt(rate * (1 - rate))
    assert abs(mask.mean() - (1 - rate)) < 4 * spread / np.sqrt(mask.size)
    assert np.abs(mask.mean(axis=0) - (1 - rate)).max() < 5 * spread / np.sqrt(2000)
    # Cells are independent: the observed share of a row spreads as a binomial share does.
    assert mask.mean(axis=1).std() == pytest.approx(spread / np.sqrt(20), rel=0.1)
    assert np.array_equal(mask, splits.test_mask(2000, 20, seed=3, rate=rate))
    assert not np.array_equal(mask, splits.test_mask(2000, 20, seed=4, rate=rate))


def test_training_masks_have_a_rate_per_row():
    mask = np.asarray(splits.train_mask(jax.random.key(0), (4000, 200)))
    share = mask.mean(axis=1)
    assert abs(mask.mean() - (1 - 0.99 / 2)) < 4 * share.std() / np.sqrt(4000)
    # One uniform rate for a row: shares of 0.01 to 1, evenly; cells alone would give 0.5 +- 0.035.
    assert np.quantile(share, [0.1, 0.5, 0.9]) == pytest.approx([0.109, 0.505, 0.901], abs=0.03)
    # x and y alike: the last column follows the same rate as the others.
    assert np.corrcoef(mask[:, -1], mask[:, :-1].mean(axis=1))[0, 1] > 0.4


def test_training_masks_are_a_stream():
    work = plan(load("wine"), seed=5)
    draw = jax.jit(lambda step: splits.train_mask(work.train_key(0, step), (30, 14)))
    masks = [np.asarray(draw(step)).tobytes() for step in range(20)]
    assert len(set(masks)) == 20
    assert masks[7] == np.asarray(draw(7)).tobytes()
    other = np.asarray(splits.train_mask(work.train_key(1, 7), (30, 14))).tobytes()
    assert masks[7] != other


def test_plan_is_folds_and_masks():
    wine = load("wine")
    work = plan(wine, seed=1)
    for number, rows in enumerate(splits.folds(178, seed=1)):
        assert np.array_equal(work.test_rows(number), rows)
        assert sorted([*work.test_rows(number), *work.train_rows(number)]) == list(range(178))
        assert work.test_mask(number).shape == (len(rows), 13)
    assert work.count == 10
    assert not np.array_equal(work.test_mask(0), work.test_mask(1))
    assert plan(wine, seed=1).to_json() == work.to_json()
    assert plan(wine, seed=2).to_json() != work.to_json()
    assert plan(wine, seed=1, rate=0.0).observed.all()


@pytest.mark.parametrize("fold", [-1, 7, 99, None])
def test_there_is_no_such_fold(as_users_have_it, fold):
    work = plan(load("wine"), seed=1, count=7)
    for ask in (
        work.test_rows,
        work.train_rows,
        work.test_mask,
        lambda fold: work.train_key(fold, 0),
    ):
        with pytest.raises(InputError, match=rf"no fold {fold}; the folds of this work are 0 to 6"):
            ask(fold)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        *(({"seed": seed}, "no seed; give an int") for seed in (-1, 2**32, 2**70, None, 0.5, True)),
        *(({"rate": rate}, "no probability") for rate in (float("nan"), 2, -1, None)),
        *(({"count": count}, "178 rows cannot") for count in (0, 1, 179, 256, 2.5, None)),
    ],
)
def test_plans_that_cannot_be(as_users_have_it, wrong, sentence):
    with pytest.raises(InputError, match=sentence):
        plan(load("wine"), **{"seed": 0, **wrong})


def test_a_mask_needs_a_seed_too():
    with pytest.raises(InputError, match="seed=-1 is no seed"):
        splits.test_mask(2, 2, seed=(0, -1))


def test_record_comes_back_as_it_was(tmp_path):
    wine = load("wine")
    work = plan(wine, seed=1, count=7)
    work.save(tmp_path / "work.json")
    back = Work.load(tmp_path / "work.json", wine)
    assert back.to_json() == work.to_json()
    assert np.array_equal(back.observed, work.observed)
    assert np.array_equal(back.fold, work.fold)
    assert (back.seed, back.inputs, back.targets, back.count) == (1, wine.inputs, ("class",), 7)
    assert jax.random.key_data(back.train_key(2, 3)).tolist() == (
        jax.random.key_data(work.train_key(2, 3)).tolist()
    )


def changed(dataset, table):
    return Dataset(dataset.name, table, dataset.kinds, dataset.targets)


def test_record_of_another_table_is_refused(tmp_path):
    wine = load("wine")
    path = tmp_path / "work.json"
    plan(wine, seed=1).save(path)
    table = wine.table
    values = table["proline"].to_numpy().copy()
    values[100] += 1
    others = {
        "rows": changed(wine, table.slice(1)),
        "names": changed(wine, table.rename_columns({"ash": "dust"})),
        "order": changed(wine, table.select([*table.column_names[1:], table.column_names[0]])),
        "value": changed(wine, table.set_column(12, "proline", pa.array(values))),
        "targets": Dataset("wine", table, wine.kinds, ("ash",)),
        "typing": load("diabetes"),
    }
    for other in others.values():
        with pytest.raises(InputError, match=r"work\.json were drawn for another table"):
            Work.load(path, other)


def test_broken_records(tmp_path):
    wine = load("wine")
    content = json.loads(plan(wine, seed=1).to_json())
    for broken in (
        "no JSON",
        "[]",
        "[" * 100_000,
        json.dumps({**content, "fold": content["fold"][4:]}),
        json.dumps({**content, "observed": content["observed"][:8]}),
        json.dumps({**content, "observed": "!"}),
        json.dumps({**content, "rows": 0, "fold": "", "observed": ""}),
        json.dumps({**content, "fold": base64.b64encode(bytes([0] * 177 + [2])).decode()}),
        json.dumps({key: value for key, value in content.items() if key != "seed"}),
    ):
        with pytest.raises(InputError, match="no record of folds and masks"):
            Work.from_json(broken)
    with pytest.raises(InputError, match="version 2"):
        Work.from_json(json.dumps({**content, "version": 2}))
    with pytest.raises(InputError, match="seed=-1 is no seed"):
        Work.from_json(json.dumps({**content, "seed": -1}))
    with pytest.raises(InputError, match="cannot be read"):
        Work.load(tmp_path / "nothing", wine)
    (tmp_path / "latin").write_bytes(b'{"name": "\xe9"}')
    with pytest.raises(InputError, match=r"latin is no record .* \(it is not text\)"):
        Work.load(tmp_path / "latin", wine)


def test_where_a_record_cannot_be(tmp_path):
    work = plan(load("wine"), seed=1)
    with pytest.raises(InputError, match="is a folder; give the name of a file in it"):
        work.save(tmp_path)
    with pytest.raises(InputError, match=r"There is no folder .*missing; make it"):
        work.save(tmp_path / "missing/work.json")
    with pytest.raises(InputError, match=r"cannot be written \(File name too long\)"):
        work.save(tmp_path / ("w" * 300))
    assert not list(tmp_path.iterdir())


def test_checksum_sees_names_values_and_text():
    table = pa.table({"a": [1.0, 2.0], "b": ["x", "y"]})
    others = [
        pa.table({"a": [1.0, 2.5], "b": ["x", "y"]}),
        pa.table({"a": [1.0, 2.0], "b": ["x", "z"]}),
        pa.table({"c": [1.0, 2.0], "b": ["x", "y"]}),
        pa.table({"b": ["x", "y"], "a": [1.0, 2.0]}),
    ]
    assert len({table_checksum(each) for each in [table, *others]}) == 5
    encoded = table.set_column(1, "b", table["b"].dictionary_encode())
    assert table_checksum(encoded) == table_checksum(table)


def test_the_largest_table_gives_a_small_record(data_folder):
    bank = load("bank", folder=data_folder)
    text = plan(bank, seed=0).to_json()
    assert len(text) < 250_000
    assert Work.from_json(text).observed.shape == (41188, 20)
