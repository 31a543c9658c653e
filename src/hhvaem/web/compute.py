"""Threads that compute, so that the page stays alive: one for questions, one for tables."""

import asyncio
import contextlib
import os
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from hhvaem.errors import TableWarning

R = TypeVar("R")


class Compute:
    """Two threads: what takes long (whole tables) does not hold up what does not (questions)."""

    def __init__(self) -> None:
        self._short = ThreadPoolExecutor(1, "asking")
        self._long = ThreadPoolExecutor(1, "filling")

    async def soon(self, work: Callable[..., R], *args: Any) -> R:
        """Do what takes some milliseconds."""
        return await asyncio.get_running_loop().run_in_executor(self._short, work, *args)

    async def later(self, work: Callable[..., R], *args: Any) -> R:
        """Do what may take seconds."""
        return await asyncio.get_running_loop().run_in_executor(self._long, work, *args)

    def close(self) -> None:
        """Take no more, and do not wait for what is under way."""
        for each in (self._short, self._long):
            each.shutdown(wait=False, cancel_futures=True)


def environment(folder: Path) -> dict[str, str]:
    """Give what JAX is told in all processes of a server.

    Worker processes compile what this one needs, too, and leave it in the private folder. None of
    them takes all memory of an accelerator for itself.
    """
    wanted = {
        "JAX_COMPILATION_CACHE_DIR": str(folder / "programs"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.3",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    }
    return {name: os.environ.get(name, value) for name, value in wanted.items()}


@contextlib.contextmanager
def sharing_programs(folder: Path) -> Iterator[None]:
    """Let this process use the compiled programs of its workers, unless it has others to use."""
    import jax

    config: Any = jax.config
    if config.jax_compilation_cache_dir is not None:
        yield
        return
    told = environment(folder)
    least = config.jax_persistent_cache_min_compile_time_secs
    seconds = float(told["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"])
    config.update("jax_compilation_cache_dir", told["JAX_COMPILATION_CACHE_DIR"])
    config.update("jax_persistent_cache_min_compile_time_secs", seconds)
    try:
        yield
    finally:
        config.update("jax_compilation_cache_dir", None)
        config.update("jax_persistent_cache_min_compile_time_secs", least)


def without_notes() -> None:
    """Let notes about tables not pile up: what is worth knowing stands in answers."""
    warnings.simplefilter("ignore", TableWarning)
    # A program that is compiled while the private folder goes has nowhere to be kept.
    warnings.filterwarnings("ignore", message="Error writing persistent compilation cache")
