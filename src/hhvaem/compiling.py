"""How programs are compiled, and how those of many models are run."""

import itertools
import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Int

from hhvaem.devices import is_divided

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

    if _count(arrays) == 1:
        arrays, told = each_model(partial(run, lift=lambda f: f), arrays, data, nothing)
    else:
        arrays, told = run(arrays, data, nothing, eqx.filter_vmap)
    return eqx.combine(arrays, rest), told


def each_model(function: Callable[..., T], *args: Any) -> T:
    """Call a function with all of several models at once, inside a program.

    All arrays of the arguments have a leading axis of models. A single one is taken out of it:
    products of matrices are slower with an axis of models, be it as short as it may.
    """
    arrays, rest = eqx.partition(args, eqx.is_array)
    if _count(arrays) > 1:
        return eqx.filter_vmap(function)(*args)
    one = jax.tree.map(lambda leaf: leaf[0], arrays)
    found, others = eqx.partition(function(*eqx.combine(one, rest)), eqx.is_array)
    return eqx.combine(jax.tree.map(lambda leaf: leaf[None], found), others)


def apart(models: T) -> list[T]:
    """Divide several models into those that one program takes at once.

    On an accelerator these are all, and so are they where several devices divide the rows. A
    processor takes each by itself: a program keeps one core busy, and other models go to other
    cores (`side_by_side`).
    """
    count = _count(models)
    if count == 1 or jax.default_backend() != "cpu" or is_divided():
        return [models]
    arrays, rest = eqx.partition(models, eqx.is_array)
    return [eqx.combine(each, rest) for each in _taken_apart(arrays, count)]


def together(groups: Sequence[T]) -> T:
    """Put groups of models (`apart`) along one axis again."""
    if len(groups) == 1:
        return groups[0]
    parts = [eqx.partition(group, eqx.is_array) for group in groups]
    return eqx.combine(_put_together([arrays for arrays, _ in parts]), parts[0][1])


def side_by_side(run: Callable[..., T], *groups: Sequence[Any], compiled: bool) -> list[T]:
    """Call a program with each group of models, as many at a time as there are cores.

    Where it may yet have to be `compiled`, the first group goes ahead: others would compile it
    once more beside it.
    """
    count, ahead = len(groups[0]), 0 if compiled else 1
    first = [run(*(group[0] for group in groups))] if ahead else []
    if count == ahead:
        return first
    with ThreadPoolExecutor(min(cores(), count - ahead)) as pool:
        return [*first, *pool.map(run, *(group[ahead:] for group in groups))]


def in_turns(
    run: Callable[[State, Data, int], tuple[State, Told]],
    states: Sequence[State],
    data: Sequence[Data],
    length: int,
    *,
    compiled: bool,
) -> list[tuple[State, list[tuple[int, Told]]]]:
    """Make `length` steps of each group, each by itself, with all cores busy to the end.

    Five groups on two cores take as long as six would, unless they take turns: each then makes some
    of its steps, all others some of theirs, and it goes on. What is found is the same.

    Parameters
    ----------
    run
        Makes so many steps of a group, with its data.
    states, data, length, compiled
        The groups, how many steps, and whether the program is compiled already.

    Returns
    -------
    list
        Of each group the states it has come to, and what each turn told, with its number of steps.
    """
    reached, told = list(states), [list[tuple[int, Told]]() for _ in states]

    def turn(group: int, steps: int, before: Future[None] | None = None) -> None:
        # Its turn before this one, which began earlier.
        if before is not None:
            before.result()
        reached[group], latest = run(reached[group], data[group], steps)
        told[group].append((steps, latest))

    count, workers = len(states), min(cores(), len(states))
    turns = workers // math.gcd(count, workers)
    ends = [length * number // turns for number in range(turns + 1)]
    todo = [
        (group, end - start) for start, end in itertools.pairwise(ends) for group in range(count)
    ]
    # In the thread that called if it can be, as all devices belong to that one alone where they
    # divide the rows. Of several groups the first goes ahead where there is something to compile:
    # others would compile it once more beside it.
    ahead = len(todo) if workers == 1 else 0 if compiled else 1
    for group, steps in todo[:ahead]:
        turn(group, steps)
    with ThreadPoolExecutor(workers) as pool:
        latest: dict[int, Future[None]] = {}
        try:
            for group, steps in todo[ahead:]:
                latest[group] = pool.submit(turn, group, steps, latest.get(group))
            for future in latest.values():
                future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return list(zip(reached, told, strict=True))


def in_groups(run: Callable[..., T], *models: Any) -> T:
    """Call a program of several models with each of its groups, and put together what it gives."""
    return together(side_by_side(run, *map(apart, models), compiled=False))


def cores() -> int:
    """Count the cores that this process may use; NPROC allows fewer, to XLA as well."""
    found = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        found = len(os.sched_getaffinity(0))
    most = os.environ.get("NPROC", "")
    return min(found, max(int(most), 1)) if most.isdecimal() else found


@partial(jax.jit, static_argnums=1)
def _taken_apart(models: T, count: int) -> list[T]:
    return [jax.tree.map(lambda leaf, i=i: leaf[i : i + 1], models) for i in range(count)]


@jax.jit
def _put_together(groups: list[T]) -> T:
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *groups)


def _count(models: Any) -> int:
    """Count models by the axis that all their arrays have."""
    return len(jax.tree.leaves(eqx.filter(models, eqx.is_array))[0])
