"""What gives no model is refused in a sentence, before anything is trained or written."""

import dataclasses
import math
import re
from fractions import Fraction
from operator import attrgetter
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings

from hhvaem import train
from hhvaem.checks import check_count, check_settings, check_training
from hhvaem.encoding import Cells
from hhvaem.errors import InputError
from hhvaem.held_out import Held, hold_out
from hhvaem.marginals import Direct
from hhvaem.model import Model, Row

SMALL = train.Settings(steps=10, hmc_steps=5, batch_size=4)
PATIENT = dataclasses.replace(SMALL, patience=5)
LEVELS, TARGET_LEVELS = (1, 3, 2), (2, 1)


@pytest.fixture(scope="module")
def states() -> train.State:
    marginals, targets = Direct(LEVELS, jnp.zeros(5)), Direct(TARGET_LEVELS, jnp.zeros(2))
    model = Model.init(marginals, targets, (2,), hidden=4, key=jax.random.key(0))
    return train.stack([train.init(model, SMALL, key=jax.random.key(seed)) for seed in (0, 1)])


def rows(count: int) -> Row:
    """Make rows of which all is observed."""
    rng = np.random.default_rng(count)

    def cells(levels: tuple[int, ...]) -> Cells:
        columns = [rng.normal(size=count) if k == 1 else np.arange(count) % k for k in levels]
        return Cells(*(np.stack(columns, axis=1).astype(np.float32) for _ in Cells._fields))

    masks = (np.ones((count, 3), bool), np.ones((count, 2), bool))
    return Row(cells(LEVELS), masks[0], cells(TARGET_LEVELS), masks[1])


def with_(path: str, index: Any, value: float) -> Row:
    """Make twelve rows and change something in them."""
    row = rows(12)
    attrgetter(path)(row)[index] = value
    return row


EMPTY = rows(12)._replace(mask=np.zeros((12, 3), bool), target_mask=np.zeros((12, 2), bool))
TABLES = [
    (with_("cells.low", (7, 0), np.nan), "Column 0 is not finite in row 7 (counted from 0)"),
    (with_("cells.high", (0, 0), -np.inf), "Column 0 is not finite in row 0 (counted from 0)"),
    (with_("cells.point", (11, 2), np.inf), "Column 2 is not finite in row 11 (counted from 0)"),
    (with_("target.point", (3, 1), np.nan), "Target 1 is not finite in row 3 (counted from 0)"),
    (with_("mask", np.s_[:, 1], False), "Column 1 (counted from 0) has no observed cell; leave"),
    (with_("target_mask", np.s_[:, 1], False), "Target 1 (counted from 0) has no observed cell"),
    (with_("target.point", np.s_[:, 0], 1.0), "Target 0 (counted from 0) has one class only"),
    (with_("target_mask", np.s_[::2, 0], False), "Target 0 (counted from 0) has one class only"),
    (rows(3), "batch_size=4 is more than the 3 rows of the table; lower it."),
    (rows(0), "No row has an observed cell; there is nothing to learn from."),
    (EMPTY, "No row has an observed cell; there is nothing to learn from."),
]


@pytest.mark.parametrize(("row", "message"), TABLES)
@pytest.mark.parametrize("second", [False, True])
def test_tables_that_give_no_model(
    states: train.State, tmp_path: Path, row: Row, message: str, second: bool
) -> None:
    check_training(states, train.gather([rows(10), rows(12)]), SMALL, None)
    data = train.gather([rows(10), row] if second else [row, rows(10)])
    with pytest.raises(InputError, match=re.escape(message)):
        train.train(states, data, SMALL, snapshots=tmp_path / "snapshots")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "row",
    [
        with_("cells.point", np.s_[:, 0], 1.0),
        with_("cells.point", np.s_[:, 2], 1.0),
        with_("target.point", np.s_[:, 1], 1.0),
        with_("mask", np.s_[1:], False),
        with_("target_mask", np.s_[2:], False),
    ],
)
def test_tables_that_are_poor_and_will_do(states: train.State, row: Row) -> None:
    check_training(states, train.gather([row, rows(4)]), SMALL, None)


def test_padding_may_be_anything(states: train.State) -> None:
    data = train.gather([rows(9), rows(17)])
    padding = np.zeros((2, 20), bool)
    padding[0, 9:] = padding[1, 17:] = True

    def spoilt(leaf: jax.Array) -> jax.Array:
        return jnp.where(padding[..., None], jnp.nan, leaf)

    cells, target = (jax.tree.map(spoilt, part) for part in (data.table.cells, data.table.target))
    assert data.table.mask.shape == (2, 20, 3)
    # It is not even read where it says that it is observed.
    mask, target_mask = (
        part.at[0, 9:].set(True) for part in (data.table.mask, data.table.target_mask)
    )
    table = Row(cells, mask, target, target_mask)
    check_training(states, data._replace(table=table), SMALL, None)


@pytest.mark.parametrize("what", ["cells", "target"])
@pytest.mark.parametrize("part", Cells._fields)
@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_what_is_hidden_is_finite_as_gather_makes_it(
    states: train.State, what: str, part: str, value: float
) -> None:
    """Masked only after the law of a cell is computed, a NaN there would still reach gradients."""
    name, mask = ("Column", "mask") if what == "cells" else ("Target", "target_mask")
    row = with_(f"{what}.{part}", (5, 1), value)
    getattr(row, mask)[5, 1] = False
    check_training(states, train.gather([rows(12), row]), SMALL, None)
    table = jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), rows(12), row)
    with pytest.raises(
        InputError, match=rf"{name} 1 is not finite in row 5 .*; it is hidden, so .* by gather"
    ):
        check_training(states, train.Data(table, jnp.array([12, 12])), SMALL, None)


def test_a_table_without_target() -> None:
    row = rows(10)._replace(target=Cells(*[np.zeros((10, 0), np.float32)] * 3))
    data = train.gather([row._replace(target_mask=np.zeros((10, 0), bool))])
    marginals = Direct(LEVELS, jnp.zeros(5))
    model = Model.init(marginals, None, (2,), hidden=4, key=jax.random.key(0))
    states = train.stack([train.init(model, SMALL, key=jax.random.key(0))])
    check_training(states, data, SMALL, None)
    nothing = data.table._replace(mask=jnp.zeros_like(data.table.mask))
    with pytest.raises(InputError, match="No row has an observed cell"):
        check_training(states, data._replace(table=nothing), SMALL, None)


def test_early_stopping_needs_sound_cells_to_stop_by(states: train.State) -> None:
    data = train.gather([rows(10), rows(12)])
    with pytest.raises(InputError, match="Early stopping needs held-out cells: use hold_out, or"):
        check_training(states, data, PATIENT, None)
    shown, held = hold_out(data, 0.4, key=jax.random.key(0))
    check_training(states, shown, PATIENT, held)
    none = Held(held.mask.at[1].set(False), held.target_mask.at[1].set(False))
    with pytest.raises(InputError, match="No cell is held out to stop early by; hold out more"):
        check_training(states, shown, PATIENT, none)
    row = int(np.flatnonzero(held.mask[1, :, 0])[0])
    low = data.table.cells.low.at[1, row, 0].set(jnp.nan)
    bad = shown._replace(table=shown.table._replace(cells=shown.table.cells._replace(low=low)))
    with pytest.raises(InputError, match=f"Column 0 is not finite in row {row} "):
        check_training(states, bad, PATIENT, held)


def test_what_is_held_out_is_still_part_of_the_table(states: train.State) -> None:
    """A column whose few cells all fall among those held out is no reason to refuse the table."""
    data = train.gather([rows(10), rows(12)])
    held = Held(jnp.zeros((2, 12, 3), bool), jnp.zeros((2, 12, 2), bool))
    held = Held(held.mask.at[0, :10, 1].set(True), held.target_mask.at[0, :10:2, 0].set(True))
    mask, target_mask = data.table.mask & ~held.mask, data.table.target_mask & ~held.target_mask
    shown = data._replace(table=data.table._replace(mask=mask, target_mask=target_mask))
    check_training(states, shown, SMALL, held)
    with pytest.raises(InputError, match=r"Column 1 \(counted from 0\) has no observed cell"):
        check_training(states, shown, SMALL, None)


COUNTS = {
    "steps": 1, "hmc_steps": 0, "batch_size": 1, "warm_up": 0, "importance_samples": 1,
    "transitions": 1, "leapfrog": 1, "stein_every": 1, "stein_rows": 1, "stein_chains": 2,
    "patience": 0,
}  # fmt: skip
RATES = {"learning_rate": False, "inflation_rate": True, "weight_decay": True}
NO_NUMBERS = [None, True, False, "3", b"3", [3], (3,), math.nan, math.inf, -math.inf, 1j, -1]


def set_(name: str, value: object) -> train.Settings:
    """Change a setting past the checks of types that only tests have."""
    changed = dataclasses.replace(SMALL)
    object.__setattr__(changed, name, value)
    return changed


def test_every_setting_is_checked() -> None:
    fields = {field.name for field in dataclasses.fields(train.Settings)}
    others = {"inference", "learned_noise", "one_step_size", "step_rate"}
    assert fields == {*COUNTS, *RATES, *others}


@pytest.mark.parametrize("name", COUNTS)
@given(st.one_of(st.sampled_from([*NO_NUMBERS, 2.0, np.array([3, 3])]), st.integers(max_value=-1)))
@settings(max_examples=40, deadline=None)
def test_counts_that_are_none(name: str, value: object) -> None:
    for bad in (value, COUNTS[name] - 1):
        with pytest.raises(InputError, match=f"^{name}=.* must be a whole number of at least "):
            check_settings(set_(name, bad))
    for good in (max(COUNTS[name], 6), np.int32(6)):
        check_settings(set_(name, good))


@pytest.mark.parametrize("name", RATES)
@given(st.one_of(st.sampled_from(NO_NUMBERS), st.floats(max_value=0, exclude_max=True)))
@settings(max_examples=40, deadline=None)
def test_rates_that_are_none(name: str, value: object) -> None:
    with pytest.raises(InputError, match=f"^{name}=.* must be "):
        check_settings(set_(name, value))
    for good in (1e-9, 1, np.float32(0.5)):
        check_settings(set_(name, good))
    if not RATES[name]:
        with pytest.raises(InputError, match=f"^{name}=0.0 must be a number above 0"):
            check_settings(set_(name, 0.0))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            "inference",
            "HMC",
            "inference='HMC' is unknown; use 'gaussian', 'importance', 'hmc', 'likelihood'.",
        ),
        ("inference", None, "inference=None is unknown"),
        ("inference", ["hmc"], "inference=['hmc'] is unknown"),
        ("learned_noise", "no", "learned_noise='no' must be True or False."),
        ("learned_noise", 1, "learned_noise=1 must be True or False."),
        ("one_step_size", None, "one_step_size=None must be True or False."),
        ("step_rate", 0.0, "step_rate=0.0 must be a number above 0."),
        ("step_rate", "1e-3", "step_rate='1e-3' must be a number above 0."),
        ("hmc_steps", 11, "hmc_steps=11 is more than steps=10, which counts all; lower it."),
        ("stein_chains", 1, "stein_chains=1 must be a whole number of at least 2."),
    ],
)
def test_other_settings(
    states: train.State, tmp_path: Path, name: str, value: object, message: str
) -> None:
    data = train.gather([rows(10), rows(12)])
    with pytest.raises(InputError, match=f"^{re.escape(message)}"):
        train.train(states, data, set_(name, value), snapshots=tmp_path / "snapshots")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, 1.5, math.nan])
def test_shares_that_cannot_be_held_out(share: float) -> None:
    with pytest.raises(InputError, match=f"share={share!r} of the cells cannot be held out"):
        hold_out(train.gather([rows(10)]), share, key=jax.random.key(0))


@pytest.mark.usefixtures("as_users_have_it")
@pytest.mark.parametrize("share", [None, "0.1", 0.1j, [0.1], np.array([0.1, 0.2]), True])
def test_shares_that_are_no_numbers(share: Any) -> None:
    message = re.escape(f"share={share!r} of the cells cannot be held out; give one in (0, 1).")
    with pytest.raises(InputError, match=message):
        hold_out(train.gather([rows(10)]), share, key=jax.random.key(0))


@pytest.mark.parametrize("share", [0.5, np.float32(0.5), np.float64(0.5), Fraction(1, 2)])
@pytest.mark.usefixtures("as_users_have_it")
def test_shares_of_any_kind_of_number(share: Any) -> None:
    held = hold_out(train.gather([rows(40)]), share, key=jax.random.key(0))[1]
    assert 0.3 < held.mask.mean() < 0.7


def two() -> train.Data:
    return train.gather([rows(10), rows(12)])


def test_as_many_models_as_tables(states: train.State) -> None:
    with pytest.raises(InputError, match="2 models for 1 tables; stack and gather"):
        check_training(states, train.gather([rows(10)]), SMALL, None)
    with pytest.raises(InputError, match="no stacked models for 2 tables"):
        check_training(train.unstack(states, 0), two(), SMALL, None)


@pytest.mark.parametrize(
    "other", [{"learned_noise": True}, {"weight_decay": 0.1}, {"transitions": 7}]
)
def test_states_of_other_settings(states: train.State, other: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="started with other settings"):
        check_training(states, two(), dataclasses.replace(SMALL, **other), None)


def test_held_out_cells_are_those_left_out(states: train.State) -> None:
    shown, held = hold_out(two(), 0.2, key=jax.random.key(0))
    check_training(states, shown, PATIENT, held)
    for data, wrong in ((two(), held), (shown, Held(held.target_mask, held.mask))):
        with pytest.raises(InputError, match="not those that the data leave out"):
            check_training(states, data, PATIENT, wrong)


def test_a_table_of_other_columns(states: train.State) -> None:
    data = two()
    fewer = data.table._replace(
        cells=jax.tree.map(lambda part: part[..., 1:], data.table.cells),
        mask=data.table.mask[..., 1:],
    )
    with pytest.raises(InputError, match=r"2 columns and 2 targets, the model 3 and 2; give"):
        check_training(states, data._replace(table=fewer), SMALL, None)


@pytest.mark.parametrize("level", [-1.0, 0.5, 3.0])
def test_levels_that_do_not_exist(states: train.State, level: float) -> None:
    data = train.gather([with_("cells.point", (4, 1), level), rows(12)])
    with pytest.raises(InputError, match=r"Column 1 .* that its law does not have"):
        check_training(states, data, SMALL, None)


def test_intervals_that_end_before_they_start(states: train.State) -> None:
    data = train.gather([with_("cells.high", (4, 0), -9.0), rows(12)])
    with pytest.raises(InputError, match=r"Column 0 .* ends before it starts"):
        check_training(states, data, SMALL, None)


@pytest.mark.parametrize("until", [-5, 7.5, math.nan, True, "7", None])
def test_until_is_a_step(until: Any) -> None:
    with pytest.raises(InputError, match=r"until=.* must be a whole number of at least 0"):
        check_count("until", until, 0)


def test_the_greatest_count_is_told() -> None:
    with pytest.raises(InputError, match=r"^steps=1099511627776 .* of at most 2147483647\.$"):
        check_count("steps", 2**40, 1)
    assert check_count("steps", 2**31 - 1, 1) == 2**31 - 1
    assert check_count("offset", 2**40, 0, most=2**40) == 2**40


def test_masks_of_numbers_are_masks() -> None:
    row = rows(10)
    numbers = row._replace(mask=row.mask.astype(int), target_mask=row.target_mask.astype(int))
    one, other = (train.gather([each]) for each in (row, numbers))
    for left, right in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_array_equal(left, right)
        assert left.dtype == right.dtype
