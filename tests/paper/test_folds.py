"""Folds of the paper's tables: scales of the training rows, masks of the test rows, settings."""

import dataclasses
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
import pyarrow as pa
import pytest

from hhvaem.datasets import CATALOGUE, load
from hhvaem.datasets.work import plan
from hhvaem.marginal_vae import MarginalVAEs, train_many_marginal_vaes
from hhvaem.marginals import Direct
from hhvaem.paper.folds import PUBLISHED, Fold, stage_one, take_fold
from hhvaem.train import Settings, untrained


@pytest.fixture(scope="module")
def wine() -> Fold:
    dataset = load("wine", as_published=True)
    return take_fold(dataset, plan(dataset, seed=3), 2)


def test_every_published_table_has_its_settings() -> None:
    assert set(PUBLISHED) == {name for name, each in CATALOGUE.items() if each.columns} & {
        name for name, each in CATALOGUE.items() if each.published
    }


def test_settings_of_two_tables() -> None:
    assert PUBLISHED["boston"].settings() == Settings()
    bank = PUBLISHED["bank"]
    assert (bank.marginal_steps, bank.one_layer, bank.two_layers) == (3710, (10,), (10, 5))
    settings = bank.settings("gaussian")
    assert (settings.inference, settings.warm_up, settings.second_stage) == (
        "gaussian",
        5_000,
        50_085,
    )
    yacht = PUBLISHED["yacht"]
    assert (yacht.one_layer, yacht.two_layers) == ((4,), (4, 2))
    settings = yacht.settings()
    assert (settings.batch_size, settings.transitions, settings.second_stage) == (20, 5, 18_000)


def test_all_third_stages_begin_at_a_round_number() -> None:
    assert {each.settings().second_stage for each in PUBLISHED.values()} == {18_000, 45_000}


def test_rows_masks_and_scales_of_a_fold(wine: Fold) -> None:
    dataset = load("wine", as_published=True)
    work = plan(dataset, seed=3)
    table = np.stack([dataset.table[name].to_numpy() for name in dataset.inputs], axis=1)
    classes = dataset.table["class"].to_numpy()
    train, test = work.train_rows(2), work.test_rows(2)
    assert [column.name for column in wine.inputs.columns] == list(dataset.inputs)
    assert [column.name for column in wine.targets.columns] == ["class"]
    assert np.asarray(wine.train.mask).all()
    assert np.asarray(wine.train.target_mask).all()
    np.testing.assert_array_equal(wine.test.mask, work.test_mask(2))
    assert not np.asarray(wine.test.target_mask).any()
    # All inputs are positive numbers: their logs are standardised by the training rows alone.
    logs = np.log1p(table)
    scaled = (logs - logs[train].mean(0)) / logs[train].std(0, ddof=1)
    np.testing.assert_allclose(wine.train.cells.point, scaled[train], atol=1e-4)
    np.testing.assert_allclose(wine.test.cells.point, scaled[test], atol=1e-4)
    np.testing.assert_array_equal(wine.train.target.point[:, 0], classes[train])
    np.testing.assert_array_equal(wine.test.target.point[:, 0], classes[test])


def test_rows_of_another_fold_are_told_on_the_scales_of_this_one(wine: Fold) -> None:
    dataset = load("wine", as_published=True)
    work = plan(dataset, seed=3)
    seen, first = take_fold(dataset, work, 2, tested=0), take_fold(dataset, work, 0)
    np.testing.assert_array_equal(seen.truth, first.truth)
    np.testing.assert_array_equal(seen.target_truth, first.target_truth)
    np.testing.assert_array_equal(seen.test.mask, first.test.mask)
    np.testing.assert_array_equal(seen.train.cells.point, wine.train.cells.point)
    # Training has seen them, under the same scales.
    rows = np.asarray(seen.train.cells.point)
    for row in np.asarray(seen.test.cells.point):
        assert (rows == row).all(1).any()


def test_columns_that_are_always_the_same_are_left_out_of_masks_too() -> None:
    wine = load("wine")
    constant = pa.array(np.full(len(wine.table), 7.0))
    table = wine.table.add_column(2, "same", constant)
    dataset = dataclasses.replace(wine, table=table, kinds={**wine.kinds, "same": "real"})
    work = plan(dataset, seed=3)
    fold = take_fold(dataset, work, 1)
    names = [column.name for column in fold.inputs.columns]
    assert names == list(wine.inputs)
    assert work.inputs[2] == "same"
    np.testing.assert_array_equal(fold.test.mask, np.delete(work.test_mask(1), 2, axis=1))


def test_a_table_with_levels_and_a_number_to_predict(data_folder: Path) -> None:
    dataset = load("boston", as_published=True, folder=data_folder)
    work = plan(dataset, seed=0)
    fold = take_fold(dataset, work, 0)
    assert fold.train.mask.shape == (455, 13)
    assert fold.test.target.point.shape == (51, 1)
    kinds = {column.name: column.kind for column in fold.inputs.columns}
    assert (kinds["CHAS"], kinds["RAD"], kinds["CRIM"]) == ("binary", "categorical", "positive")
    # Hidden cells keep their values.
    values = fold.inputs.encoding.decode(np.asarray(fold.test.cells.point))
    for j, name in enumerate(dataset.inputs):
        truth = dataset.table[name].to_numpy()[work.test_rows(0)]
        np.testing.assert_allclose(values[:, j], truth, rtol=1e-4, atol=1e-4)


@pytest.fixture(scope="module")
def columns(wine: Fold) -> tuple[MarginalVAEs, Direct]:
    short = dataclasses.replace(PUBLISHED["wine"], marginal_steps=3)
    return stage_one([wine, wine], short, keys=jax.random.split(jax.random.key(1)))


def test_stage_one_trains_for_the_table_s_steps_and_batches(
    wine: Fold, columns: tuple[MarginalVAEs, Direct]
) -> None:
    inputs = wine.inputs
    expected, _ = train_many_marginal_vaes(
        [(inputs.encoding, inputs.values, inputs.mask)] * 2,
        keys=jax.random.split(jax.random.key(1)),
        steps=3,
        batch_size=24,
    )
    assert eqx.tree_equal(columns[0], expected)
    assert columns[1].levels == (3,)
    shares = np.bincount(wine.targets.values[:, 0].astype(int)) + 0.5
    shares = shares / shares.sum()
    np.testing.assert_allclose(np.exp(columns[1].log_shares), [shares, shares], rtol=1e-5)


def test_untrained_models_have_their_layers_and_columns(
    columns: tuple[MarginalVAEs, Direct],
) -> None:
    settings, keys = PUBLISHED["wine"].settings(), jax.random.split(jax.random.key(2))
    states = untrained(columns, (10, 5), settings, reparameterised=False, keys=keys)
    assert not states.model.hierarchy.reparameterised
    assert states.model.hierarchy.layers == (10, 5)
    assert states.sampler.log_steps.shape == (2, 10, 15)
    assert eqx.tree_equal(states.model.marginals, columns[0])
    weights = np.asarray(states.model.decoder.layers[0].weight)
    assert not np.array_equal(weights[0], weights[1])
