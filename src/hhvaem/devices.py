"""Where programs run: on one device, or with the rows of a batch divided among several."""

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from hhvaem.containers import listed
from hhvaem.errors import InputError

T = TypeVar("T")
# Which JAX has without types.
_spec: Any = PartitionSpec
_constrain: Any = lax.with_sharding_constraint

# The only axis of a mesh of devices.
ROWS = "rows"
_together = ContextVar("together", default=False)


@contextlib.contextmanager
def on_device(name: Any) -> Iterator[None]:
    """Compute on the device of a name, or on `all` there are; None for what JAX finds.

    Raises
    ------
    InputError
        Where it is not there.
    """
    if name is None:
        yield
        return
    if name == "all":
        with _all_devices():
            yield
        return
    there = sorted({"cpu", jax.default_backend()})
    try:
        # To JAX no name at all is the one it likes best.
        device = jax.devices(name)[0] if isinstance(name, str) and name else None
    except RuntimeError:
        device = None
    if device is None:
        raise InputError(f"device={name!r} is not there; use {listed([*there, 'all'])}, or None.")
    with jax.default_device(device):
        yield


@contextlib.contextmanager
def _all_devices() -> Iterator[None]:
    # Of several processes, each computes by itself what is not said to be done together.
    if jax.process_count() == 1:
        with jax.set_mesh(Mesh(np.array(jax.devices()), (ROWS,))):
            yield
        return
    before = _together.set(True)
    try:
        yield
    finally:
        _together.reset(before)


@contextlib.contextmanager
def with_other_processes() -> Iterator[None]:
    """Compute on the devices of all processes, where `all` are to be used and there are several."""
    if not is_shared():
        yield
        return
    with jax.set_mesh(Mesh(np.array(jax.devices()), (ROWS,))):
        yield


def is_shared() -> bool:
    """Say whether other processes do the same training."""
    return _together.get()


def is_divided() -> bool:
    """Say whether rows are divided among devices."""
    return ROWS in jax.sharding.get_abstract_mesh().axis_names


def divided(rows: T) -> T:
    """Divide the rows of arrays among devices, inside a program, if it can be done evenly."""
    if not is_divided():
        return rows
    devices = jax.sharding.get_abstract_mesh().shape[ROWS]
    even = all(len(leaf) % devices == 0 for leaf in jax.tree.leaves(rows))
    return _constrained(rows, _spec(ROWS)) if even else rows


def whole(tree: T) -> T:
    """Put arrays whole on each device, inside a program."""
    return _constrained(tree, _spec()) if is_divided() else tree


def _constrained(tree: T, spec: Any) -> T:
    return jax.tree.map(lambda leaf: _constrain(leaf, spec) if eqx.is_array(leaf) else leaf, tree)


def everywhere(tree: T) -> T:
    """Put arrays, which all processes have alike, whole on each device."""
    if not is_divided():
        return tree
    sharding = NamedSharding(jax.sharding.get_mesh(), _spec())

    def put(array: np.ndarray) -> jax.Array:
        return jax.make_array_from_callback(array.shape, sharding, array.__getitem__)

    return jax.tree.map(lambda leaf: _by_host(put, leaf) if eqx.is_array(leaf) else leaf, tree)


def here(tree: T) -> T:
    """Give arrays that are whole on each device as if they had never been on more than one."""
    if not is_divided():
        return tree
    return jax.tree.map(
        lambda leaf: _by_host(jnp.asarray, leaf) if eqx.is_array(leaf) else leaf, tree
    )


def _by_host(put: Callable[[np.ndarray], jax.Array], array: jax.Array) -> jax.Array:
    """Put an array elsewhere, by way of the host: devices of processes do not reach each other."""
    if jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
        data = _by_host(put, jax.random.key_data(array))
        return jax.random.wrap_key_data(data, impl=jax.random.key_impl(array))
    return put(np.asarray(array))
