"""Threads that compute, so that the page stays alive: one for questions, one for tables."""

import asyncio
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
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


def without_notes() -> None:
    """Let notes about tables not pile up: what is worth knowing stands in answers."""
    warnings.simplefilter("ignore", TableWarning)
