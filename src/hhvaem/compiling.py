"""How programs are compiled."""

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import equinox as eqx

P = ParamSpec("P")
T = TypeVar("T")

# With most of the work in products of matrices that are compiled already, XLA's higher levels of
# optimisation take half as long again to compile and run no faster.
OPTIONS: dict[str, Any] = {"xla_backend_optimization_level": 1}


def program(function: Callable[P, T]) -> Callable[P, T]:
    """Compile a function, with arrays as its inputs and all else as constants."""
    jit: Any = eqx.filter_jit  # whose stubs leave out what it hands on to jax.jit
    return jit(function, compiler_options=OPTIONS)
