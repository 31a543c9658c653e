"""Programs and loops: full precision, all lengths in one program, models one by one or at once."""

import os
import threading
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hhvaem import compiling
from hhvaem.compiling import (
    LENGTHS,
    Lift,
    apart,
    in_groups,
    in_turns,
    many_steps,
    padded_length,
    program,
    side_by_side,
    together,
)


class Counter(NamedTuple):
    value: jax.Array
    name: str


@program
def count(states: Counter, data: jax.Array, length: jax.Array) -> tuple[Counter, jax.Array]:
    def one(state: Counter, data: jax.Array) -> tuple[Counter, jax.Array]:
        new = 0.5 * state.value + data
        return state._replace(value=new), new.sum()

    def step(states: Counter, data: jax.Array, lift: Lift) -> tuple[Counter, jax.Array]:
        return lift(one)(states, data)

    return many_steps(step, states, data, length, jnp.full((len(data), 5), jnp.nan))


@pytest.mark.parametrize("length", [0, 1, 5])
def test_many_steps_are_the_steps_one_by_one(length: int) -> None:
    start, data = np.arange(6.0).reshape(3, 2), np.arange(6.0, 0, -1).reshape(3, 2)
    states = Counter(jnp.asarray(start, jnp.float32), "counter")
    states, told = count(states, jnp.asarray(data, jnp.float32), jnp.array(length))
    expected = np.full((3, 5), np.nan)
    for i in range(length):
        start = 0.5 * start + data
        expected[:, i] = start.sum(1)
    np.testing.assert_allclose(states.value, start)
    np.testing.assert_allclose(told, expected)
    assert states.name == "counter"


def test_each_model_by_itself_is_as_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    states, data = Counter(jnp.arange(6.0).reshape(3, 2), "counter"), jnp.ones((3, 2))

    def run(states: Counter, data: jax.Array) -> tuple[Counter, jax.Array]:
        sizes.append(len(data))
        return count(states, data, jnp.array(4))

    sizes: list[int] = []
    here = in_groups(run, states, data)
    assert sizes == [1, 1, 1]
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    there = in_groups(run, states, data)
    assert sizes == [1, 1, 1, 3]
    np.testing.assert_array_equal(here[0].value, there[0].value)
    np.testing.assert_array_equal(here[1], there[1])
    assert here[0].name == "counter"


def test_groups_are_put_together_as_they_were() -> None:
    models = (
        Counter(jnp.arange(6.0).reshape(3, 2), "counter"),
        jax.random.split(jax.random.key(0), 3),
    )
    groups = apart(models)
    assert [len(group[1]) for group in groups] == [1, 1, 1]
    again = together(groups)
    np.testing.assert_array_equal(again[0].value, models[0].value)
    assert (again[1] == models[1]).all()
    assert apart(groups[0]) == [groups[0]]


def test_models_go_to_all_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that wait for each other both come to their ends only if they run at once."""
    monkeypatch.setattr(compiling, "cores", lambda: 2)
    both = threading.Barrier(2, timeout=20)
    found = side_by_side(lambda i: (i, both.wait())[0], [0, 1], compiled=True)
    assert found == [0, 1]
    first: list[int] = []
    side_by_side(first.append, [0, 1, 2], compiled=False)
    assert first[0] == 0
    assert sorted(first) == [0, 1, 2]


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize(("groups", "workers"), [(5, 2), (4, 2), (1, 2), (3, 1), (2, 8), (7, 3)])
def test_groups_that_take_turns_make_all_steps_in_order(
    groups: int, workers: int, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiling, "cores", lambda: workers)

    def run(state: list[int], data: int, steps: int) -> tuple[list[int], int]:
        return [*state, *range(len(state), len(state) + steps)], data

    found = in_turns(run, [[]] * groups, list(range(groups)), 100, compiled=compiled)
    for i, (state, told) in enumerate(found):
        assert state == list(range(100))
        assert sum(steps for steps, _ in told) == 100
        assert {data for _, data in told} == {i}


def test_five_groups_that_take_turns_keep_two_cores_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step of a turn waits for one of another group: alone at the end it would wait long."""
    monkeypatch.setattr(compiling, "cores", lambda: 2)
    both = threading.Barrier(2, timeout=20)

    def run(state: int, data: int, steps: int) -> tuple[int, None]:
        both.wait()
        return state + steps, None

    found = in_turns(run, [0] * 5, range(5), 100, compiled=True)
    assert [state for state, _ in found] == [100] * 5


def test_what_fails_in_a_turn_is_told() -> None:
    def run(state: int, data: int, steps: int) -> tuple[int, None]:
        if data == 1:
            raise ValueError("no")
        return state, None

    with pytest.raises(ValueError, match="no"):
        in_turns(run, [0] * 3, range(3), 100, compiled=True)


def test_cores_are_those_that_may_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NPROC", raising=False)
    found = compiling.cores()
    assert 1 <= found <= (os.cpu_count() or 1)
    for most, used in (("1", 1), ("0", 1), ("9999", found), ("many", found)):
        monkeypatch.setenv("NPROC", most)
        assert compiling.cores() == used


def test_products_are_of_full_precision() -> None:
    product = program(lambda a: a @ a)
    text = product.lower(jnp.ones((4, 4))).lowered.as_text()
    assert "HIGHEST" in text
    assert "DEFAULT" not in text


@given(st.integers(1, 10**9))
def test_padded_lengths(rows: int) -> None:
    length = padded_length(rows)
    assert rows <= length < rows * (1 + 1 / LENGTHS) + 1
    assert padded_length(length) == length
    # No more than a few lengths for each doubling.
    assert length % max(2 ** int(np.ceil(np.log2(rows))) // (2 * LENGTHS), 1) == 0
