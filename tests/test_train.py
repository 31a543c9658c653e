"""Stages 2 and 3: each improves its own objective, many models are one by one, nothing is lost."""

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from clinic_training import (
    SMALL,
    assert_same,
    clinic_data,
    clinic_rows,
    compiled,
    first_fit,
    fit,
    start,
    trained,
)

from hhvaem import train
from hhvaem.compiling import padded_length
from hhvaem.encoding import Cells
from hhvaem.errors import InputError, TableWarning
from hhvaem.held_out import hold_out
from hhvaem.marginals import Direct
from hhvaem.model import LOG_NOISE, Model, Row
from hhvaem.steps import LOG_NOISES

SECOND = SMALL.second_stage


@pytest.mark.slow
def test_each_stage_improves_its_own_objective() -> None:
    history = trained()[1]
    assert history.loss.shape == (2, 600)
    second, third = history.loss[:, SMALL.warm_up : SECOND], history.loss[:, SECOND:]
    assert (second[:, -40:].mean(1) < second[:, :40].mean(1) - 1).all()
    assert (third[:, -40:].mean(1) < third[:, :10].mean(1) - 0.5).all()
    assert np.isnan(history.acceptance[:, :SECOND]).all()
    assert (history.acceptance[:, SECOND:] > 0.3).all()


@pytest.mark.slow
def test_the_stein_discrepancy_is_measured_every_tenth_step() -> None:
    states, history = trained()
    for told in history.stein:
        np.testing.assert_array_equal(np.flatnonzero(np.isfinite(told)), np.arange(409, 600, 10))
    assert (np.asarray(states.sampler.log_inflation) != 0).all()


def test_what_is_not_trained_is_not_touched() -> None:
    after, before = trained()[0].model, start().model
    assert_same(after.marginals, before.marginals)
    assert_same(after.targets, before.targets)
    for noise in (after.log_noise, after.target_log_noise):
        np.testing.assert_array_equal(noise, np.float32(LOG_NOISE))


@pytest.mark.parametrize("until", [SECOND, pytest.param(SMALL.steps, marks=pytest.mark.slow)])
def test_many_models_at_once_are_the_models_one_by_one(until: int) -> None:
    together, _ = fit(start(), clinic_data(), until=until)
    for i, seed in enumerate((0, 1)):
        alone, _ = train.train(start(seeds=(seed,)), clinic_data(1), SMALL, until=until)
        pairs = zip(
            jax.tree.leaves(eqx.filter(train.unstack(together, i).model, eqx.is_array)),
            jax.tree.leaves(eqx.filter(train.unstack(alone, 0).model, eqx.is_array)),
            strict=True,
        )
        for one, other in pairs:
            np.testing.assert_allclose(one, other, rtol=2e-3, atol=2e-4)


def test_each_stage_is_compiled_once() -> None:
    """Compiled in a thread while the second stage runs, the third one is the program then used."""
    names = first_fit()[2]
    assert sum("_second_stage" in name for name in names) == 1
    assert sum("_third_stage" in name for name in names) == 1


@pytest.mark.parametrize("rows", [(300, 300), (290, 271)])
def test_a_second_fit_compiles_nothing(rows: tuple[int, int]) -> None:
    """Nor do a few rows less, or another patience."""
    row, states = clinic_rows()[2], start(seeds=(2, 3))
    tables = [jax.tree.map(lambda leaf, n=n: np.asarray(leaf)[:n], row) for n in rows]
    trained()
    with compiled() as names:
        data = train.gather(tables)
        _, history = train.train(states, data, SMALL)
        train.compile_ahead(states, data, dataclasses.replace(SMALL, patience=7)).result()
    assert names == []
    assert history.loss.shape == (2, 600)


def test_tables_are_padded_without_a_program() -> None:
    tables = []
    for rows in (13, 7):
        cells = np.arange(3.0 * rows, dtype=np.float32).reshape(rows, 3) + 1
        tables.append(Row(Cells(cells, -cells, 2 * cells), cells > 4, Cells(*[cells[:, :1]] * 3),
                          np.ones((rows, 1), bool)))  # fmt: skip
    with compiled() as names:
        data = train.gather(tables)
    assert names == []
    assert data.table.mask.shape == (2, padded_length(13), 3)
    np.testing.assert_array_equal(data.rows, [13, 7])
    for i, table in enumerate(tables):
        rows = len(table.mask)
        hidden = table._replace(
            cells=Cells(*(np.where(table.mask, part, 0) for part in table.cells))
        )
        together = jax.tree.map(lambda leaf, i=i: leaf[i], data.table)
        assert_same(jax.tree.map(lambda leaf, n=rows: leaf[:n], together), hidden)
        assert not any(np.asarray(leaf)[rows:].any() for leaf in jax.tree.leaves(together))


def some_table(columns: int, targets: int = 1) -> Row:
    x, y = np.ones((5, columns), np.float32), np.ones((5, targets), np.float32)
    return Row(Cells(x, x, x), x > 0, Cells(y, y, y), y > 0)


def test_tables_that_cannot_be_gathered() -> None:
    with pytest.raises(InputError, match="There is no table to gather; give one for each model"):
        train.gather([])
    for other in (some_table(2), some_table(3, 2)):
        with pytest.raises(
            InputError, match=r"Table 2 .* is not like the first; .* the same columns and targets"
        ):
            train.gather([some_table(3), some_table(3), other])


def some_state(columns: int = 3, **changed: Any) -> train.State:
    options: dict[str, Any] = {"layers": (2, 1), "hidden": 4, "key": jax.random.key(0)} | changed
    settings = dataclasses.replace(SMALL, transitions=options.pop("transitions", 2))
    marginals = Direct((1,) * columns, jnp.zeros(columns))
    return train.init(Model.init(marginals, None, **options), settings, key=jax.random.key(0))


@pytest.mark.parametrize(
    "other",
    [
        {"columns": 4},
        {"layers": (2,)},
        {"layers": (1, 2)},
        {"hidden": 5},
        {"reparameterised": False},
        {"transitions": 3},
    ],
)
def test_models_that_cannot_be_stacked(other: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"Model 1 .* is not like the first; .* layers, hidden"):
        train.stack([some_state(), some_state(**other)])


def test_only_models_that_are_there_are_given_out() -> None:
    with pytest.raises(InputError, match="There is no model to stack; give at least one"):
        train.stack([])
    single = some_state()
    states = train.stack([single, single._replace(step=single.step + 1)])
    for index in (2, -3, 100):
        with pytest.raises(InputError, match=f"no model {index} among 2 stacked ones"):
            train.unstack(states, index)
    with pytest.raises(InputError, match="no model 0 among 0 stacked ones"):
        train.unstack(single, 0)
    assert [int(train.unstack(states, index).step) for index in (0, 1, -1, -2)] == [0, 1, 1, 0]


def interrupting(function: Any, call: int) -> Any:
    """Interrupt the user's program at the end of a call of a function."""
    calls = []

    def interrupted(*args: Any) -> Any:
        calls.append(function(*args))
        if len(calls) == call:
            raise KeyboardInterrupt
        return calls[-1]

    return interrupted


def steps_told(told: list[train.Progress]) -> list[int]:
    return [latest.step for latest in told]


@pytest.mark.parametrize("chunks", range(1, 7))
def test_interrupted_by_the_user_training_loses_nothing(tmp_path: Path, chunks: int) -> None:
    """Though no snapshot was due; in both stages, and at the end."""
    told: list[train.Progress] = []
    with pytest.raises(KeyboardInterrupt):
        fit(start(), clinic_data(), snapshots=tmp_path,
            progress=interrupting(told.append, chunks))  # fmt: skip
    assert [path.name for path in tmp_path.iterdir()] == ["snapshot.safetensors"]
    again = fit(start(), clinic_data(), snapshots=tmp_path, progress=told.append)
    assert steps_told(told) == [*range(100, 601, 100)]
    assert_same(again, trained())


@pytest.mark.parametrize(("where", "calls"), [("_second_stage", 2), ("held_out_score", 1)])
def test_interrupted_within_a_chunk_training_goes_on_from_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, calls: int
) -> None:
    """A chunk has a call for each of two models, or one for both."""
    data, held = hold_out(clinic_data(), 0.2, key=jax.random.key(0))
    settings = dataclasses.replace(SMALL, patience=200)
    whole: list[train.Progress] = []
    expected = fit(start(), data, settings, held=held, progress=whole.append)
    told: list[train.Progress] = []
    options = {"held": held, "snapshots": tmp_path, "progress": told.append}
    with monkeypatch.context() as patch:
        patch.setattr(train, where, interrupting(getattr(train, where), 2 * calls + 1))
        with pytest.raises(KeyboardInterrupt):
            fit(start(), data, settings, **options)
    assert steps_told(told) == [100, 200]
    assert_same(fit(start(), data, settings, **options), expected)
    assert steps_told(told) == steps_told(whole)


def test_interrupted_before_anything_is_done_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained()
    monkeypatch.setattr(train, "_second_stage", interrupting(train._second_stage, 1))
    with pytest.raises(KeyboardInterrupt):
        fit(start(), clinic_data(), snapshots=tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_vanishes_is_made_again(tmp_path: Path) -> None:
    folder = tmp_path / "snapshots"

    def vanish(told: train.Progress) -> None:
        if told.step in (100, 500):
            shutil.rmtree(folder)

    options = {"snapshots": folder, "snapshot_seconds": 0.0}
    with pytest.raises(KeyboardInterrupt):
        fit(start(), clinic_data(), progress=interrupting(vanish, 2), **options)
    told: list[train.Progress] = []
    assert_same(fit(start(), clinic_data(), snapshots=folder, progress=told.append), trained())
    assert steps_told(told) == [300, 400, 500, 600]
    shutil.rmtree(folder)
    assert_same(fit(start(), clinic_data(), progress=vanish, **options), trained())
    assert [path.name for path in folder.iterdir()] == ["snapshot.safetensors"]


def test_training_goes_on_where_no_snapshot_can_be_written(tmp_path: Path) -> None:
    folder = tmp_path / "snapshots"

    def vanish(told: train.Progress) -> None:
        if told.step == 100:
            shutil.rmtree(folder)
            folder.touch()
        if told.step == 500:
            folder.unlink()

    with pytest.warns(UserWarning, match="no new snapshot: .*snapshots cannot be .*File exists"):
        models = fit(
            start(), clinic_data(), snapshots=folder, snapshot_seconds=0.0, progress=vanish
        )
    assert_same(models, trained())
    # The last one could be.
    told: list[train.Progress] = []
    assert_same(fit(start(), clinic_data(), snapshots=folder, progress=told.append), trained())
    assert not told


def spoilt(table: Row, cells: np.ndarray, target: np.ndarray) -> Row:
    """Put NaN and extremes into the low, high and points of some cells and targets."""

    def spoil(part: Cells, where: np.ndarray) -> Cells:
        bad = (np.nan, np.inf, -1e30)
        return Cells(*(jnp.where(where, b, leaf) for b, leaf in zip(bad, part, strict=True)))

    return table._replace(cells=spoil(table.cells, cells), target=spoil(table.target, target))


def test_hidden_cells_and_padding_influence_nothing() -> None:
    row = clinic_rows()[2]
    data = train.gather([spoilt(row, ~row.mask, ~row.target_mask)] * 2)
    cells, target = np.zeros(data.table.mask.shape, bool), np.zeros((2, 320, 1), bool)
    cells[:, 300:] = target[:, 300:] = True
    table = spoilt(data.table, cells, target)
    table = table._replace(mask=table.mask | cells, target_mask=table.target_mask | target)
    assert_same(fit(start(), data._replace(table=table)), trained())


@pytest.mark.parametrize("inference", ["gaussian", "importance"])
def test_without_chains_there_is_no_third_stage(
    inference: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_third_stage", "compile_ahead"):
        monkeypatch.setattr(train, name, None)
    settings = dataclasses.replace(SMALL, inference=inference, steps=220)
    told: list[train.Progress] = []
    states, history = train.train(start(settings), clinic_data(), settings, progress=told.append)
    assert [(each.stage, each.step) for each in told] == [(2, 100), (2, 200), (2, 220)]
    assert np.isnan(history.acceptance).all()
    assert (history.loss[:, -30:].mean(1) < history.loss[:, :10].mean(1)).all()
    np.testing.assert_array_equal(states.sampler.log_inflation, 0.0)


def test_a_program_that_cannot_be_compiled_is_heard_of(monkeypatch: pytest.MonkeyPatch) -> None:
    class Uncompilable:
        def lower(self, *_: Any) -> "Uncompilable":
            return self

        def compile(self) -> None:
            raise MemoryError("too large")

    data = clinic_data()
    trained()
    monkeypatch.setattr(train, "_third_stage", Uncompilable())
    for ahead in (None, train.compile_ahead(start(), data, SMALL)):
        told: list[train.Progress] = []
        with pytest.raises(MemoryError, match="too large"):
            fit(start(), data, ahead=ahead, progress=told.append)
        assert told[-1].step == SECOND
    # Nothing of it is asked for where training ends before.
    fit(start(), data, until=SECOND)


def test_the_same_key_gives_the_same_model() -> None:
    first, second, other = (
        fit(start(seeds=seeds), clinic_data(), until=100) for seeds in ((3, 4), (3, 4), (5, 6))
    )
    assert_same(first, second)
    assert not np.array_equal(first[1].loss, other[1].loss)


def test_a_loss_that_is_not_finite_is_refused() -> None:
    states = start()
    huge = jax.tree.map(lambda leaf: 1e30 * leaf, states.model.decoder)
    states = eqx.tree_at(lambda s: s.model.decoder, states, huge)
    with pytest.raises(
        InputError, match="the loss or a weight was not finite at step 100; lower the learning"
    ):
        fit(states, clinic_data())


def test_a_row_that_overflows_now_and_then_ruins_nothing() -> None:
    """Its gradient is not finite: the steps that see it change nothing, all others train."""
    data = clinic_data()
    cells = data.table.cells
    far = eqx.tree_at(lambda d: d.table.cells.point, data, cells.point.at[:, 5, 0].set(1e30))
    with pytest.warns(TableWarning, match="of 600 steps of training had a loss that was not fin"):
        states, history = fit(start(), far)
    lost = ~np.isfinite(history.loss)
    assert (lost.any(1) & (lost.mean(1) < 0.2)).all()
    assert np.isfinite(history.recent_loss).all()
    last = np.where(lost, np.nan, history.loss)[:, SECOND - 40 : SECOND]
    assert (np.nanmean(last, 1) < np.nanmean(history.loss[:, 50:90], 1) - 1).all()
    for leaf in jax.tree.leaves(eqx.filter(states, eqx.is_inexact_array)):
        assert np.isfinite(leaf).all()


def test_weights_that_the_last_step_ruined_are_not_given_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    second_stage = train._second_stage

    def ruined(*args: Any) -> tuple[train.State, Any]:
        states, told = second_stage(*args)
        bias = states.model.decoder.layers[0].bias.at[-1, 2].set(jnp.nan)
        return eqx.tree_at(lambda s: s.model.decoder.layers[0].bias, states, bias), told

    trained()
    monkeypatch.setattr(train, "_second_stage", ruined)
    with pytest.raises(
        InputError, match="Training failed: the loss or a weight was not finite at step 100"
    ):
        fit(start(), clinic_data(), until=100)


def test_noise_is_learned_within_its_bounds() -> None:
    """A table with noise that is known and a column without any; one with too much of it."""
    settings = train.Settings(
        inference="gaussian", steps=1000, learning_rate=1e-2, learned_noise=True
    )
    rng = np.random.default_rng(0)
    noises = np.array([0.4, 0.5, 0.7, 0.0])
    known = rng.normal(size=(500, 1)) * [1.0, -1.0, 0.8, 0.0] + noises * rng.normal(size=(500, 4))
    rows, states = [], []
    for seed, table in enumerate((known, 5 * rng.normal(size=(500, 4)))):
        x, key = table.astype(np.float32), jax.random.key(seed)
        rows.append(Row(Cells(x, x, x), x == x, Cells(*[x[:, :0]] * 3), x[:, :0] == 0))
        model = Model.init(Direct((1,) * 4, jnp.zeros(4)), None, (1,), hidden=8, key=key)
        states.append(train.init(model, settings, key=key))
    after, _ = train.train(train.stack(states), train.gather(rows), settings)
    learned = np.asarray(after.model.log_noise)
    np.testing.assert_allclose(np.exp(learned[0, :3]), noises[:3], rtol=0.25)
    assert learned[0, 3] == LOG_NOISES[0]
    np.testing.assert_array_equal(learned[1], LOG_NOISES[1])
