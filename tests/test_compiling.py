"""Programs and loops: full precision, all lengths in one program, models one by one or at once."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hhvaem.compiling import LENGTHS, Lift, many_steps, padded_length, program


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

    return many_steps(step, states, data, length, jnp.full((3, 5), jnp.nan))


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


def test_an_accelerator_would_do_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    states = Counter(jnp.arange(6.0).reshape(3, 2), "counter")
    data = jnp.ones((3, 2))
    here = count(states, data, jnp.array(4))
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    # Another function to JAX, so that it is not the program of a moment ago.
    there = eqx.filter_jit(lambda *inputs: count.__wrapped__(*inputs))(states, data, jnp.array(4))
    np.testing.assert_array_equal(here[0].value, there[0].value)
    np.testing.assert_array_equal(here[1], there[1])


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
