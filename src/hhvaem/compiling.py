"""How programs are compiled, and how loops over the steps of many models are written."""

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import equinox as eqx
import jax
import numpy as np
from jax import lax
from jaxtyping import Array, Int

P = ParamSpec("P")
T = TypeVar("T")
State = TypeVar("State")
Data = TypeVar("Data")
Told = TypeVar("Told")
Lift = Callable[[Callable[..., Any]], Callable[..., Any]]

# With most of the work in products of matrices that are compiled already, XLA's higher levels of
# optimisation take half as long again to compile and run no faster.
# On a GPU, Triton's products run a quarter faster, and take half a minute more to compile.
OPTIONS: dict[str, Any] = {
    "xla_backend_optimization_level": 1,
    "xla_gpu_enable_triton_gemm": False,
}
# Tables are padded to one of this many lengths for each doubling, so that a table of a few rows
# more or less compiles nothing new.
LENGTHS = 4


def program(function: Callable[P, T]) -> Callable[P, T]:
    """Compile a function, with arrays as its inputs and all else as constants.

    Products are of full float32, also where an accelerator would round their factors to fewer
    digits: a chain accepts by differences of energies, and they would be lost in that noise.
    """

    @wraps(function)
    def precise(*args: P.args, **kwargs: P.kwargs) -> T:
        with jax.default_matmul_precision("highest"):
            return function(*args, **kwargs)

    jit: Any = eqx.filter_jit  # whose stubs leave out what it hands on to jax.jit
    return jit(precise, compiler_options=OPTIONS)


def padded_length(rows: int) -> int:
    """Give the length to which a table of as many rows is padded.

    Examples
    --------
    >>> [padded_length(rows) for rows in (1, 5, 450, 460, 513, 1_000_000)]
    [1, 5, 512, 512, 640, 1048576]
    """
    unit = max(2 ** int(np.ceil(np.log2(rows))) // (2 * LENGTHS), 1)
    return -(-rows // unit) * unit


def many_steps(
    step: Callable[[State, Data, Lift], tuple[State, Told]],
    states: State,
    data: Data,
    length: Int[Array, ""],
    nothing: Told,
) -> tuple[State, Told]:
    """Make `length` steps of each of several models.

    An accelerator makes a step of all models at once. A processor takes one model after the
    other: it is busy with one, and its products of matrices are slower with an axis of models.

    Parameters
    ----------
    step
        Takes the states, the data, and `lift`, by which it turns a function of one model into
        one of those that it was given.
    states, data
        With a leading axis of models on every array.
    length
        One program serves all lengths.
    nothing
        What is told where no step was made, with the axes models and steps.

    Returns
    -------
    states, told
        Where the models are, and what the steps told.
    """
    arrays, rest = eqx.partition(states, eqx.is_array)

    def run(arrays: State, data: Data, told: Told, lift: Lift) -> tuple[State, Told]:
        def body(i: Int[Array, ""], carry: tuple[State, Told]) -> tuple[State, Told]:
            states, latest = step(eqx.combine(carry[0], rest), data, lift)
            told = jax.tree.map(lambda every, one: every.at[..., i].set(one), carry[1], latest)
            return eqx.filter(states, eqx.is_array), told

        return lax.fori_loop(0, length, body, (arrays, told))

    if jax.default_backend() == "cpu":
        arrays, told = lax.map(
            lambda each: run(each[0], each[1], each[2], lambda f: f), (arrays, data, nothing)
        )
    else:
        arrays, told = run(arrays, data, nothing, eqx.filter_vmap)
    return eqx.combine(arrays, rest), told


def each_model(function: Callable[..., T], *args: Any) -> T:
    """Call a function with each of several models: on an accelerator all at once.

    All arrays of the arguments have a leading axis of models. A processor takes one after the
    other, as in `many_steps`.
    """
    if jax.default_backend() != "cpu":
        return eqx.filter_vmap(function)(*args)
    arrays, rest = eqx.partition(args, eqx.is_array)
    return lax.map(lambda arrays: function(*eqx.combine(arrays, rest)), arrays)
