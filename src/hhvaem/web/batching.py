"""Concurrent requests that ask for the same of a model are computed by one call."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

Work = Callable[[pa.Table], list[Any]]

# How long the first request waits for others, in seconds: nothing beside what is computed.
WINDOW = 0.005


@dataclass
class _Waiting:
    table: pa.Table
    answer: asyncio.Future[Any]


class Batches:
    """Puts the rows of concurrent requests together.

    A row's result does not depend on the rows beside it, so that every request is answered as if
    it were alone.

    Parameters
    ----------
    run
        Computes something in a thread.
    most
        Rows of one call at most.

    Attributes
    ----------
    calls, requests
        How many calls were made, and for how many requests.
    """

    def __init__(self, run: Callable[..., Awaitable[Any]], most: int) -> None:
        self._run, self._most = run, most
        # A key is here as long as somebody answers those who wait.
        self._waiting: dict[Hashable, list[_Waiting]] = {}
        self._turn = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self.calls = self.requests = 0

    async def ask(self, key: Hashable, table: pa.Table, work: Work) -> list[Any]:
        """Give what `work` makes of each row of a table, together with others of the same key."""
        loop = asyncio.get_running_loop()
        mine = _Waiting(table, loop.create_future())
        self.requests += 1
        if key in self._waiting:
            self._waiting[key].append(mine)
        else:
            self._waiting[key] = [mine]
            task = loop.create_task(self._answer(key, work))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await mine.answer

    async def _answer(self, key: Hashable, work: Work) -> None:
        try:
            await asyncio.sleep(WINDOW)
            while self._waiting[key]:
                async with self._turn:  # while it is another's, more requests come together
                    await self._call(self._take(key), work)
        finally:
            for each in self._waiting.pop(key):
                each.answer.cancel()

    async def _call(self, taken: list[_Waiting], work: Work) -> None:
        self.calls += 1
        try:
            found = await self._run(work, pa.concat_tables([each.table for each in taken]))
        except Exception as error:
            if len(taken) > 1:  # the fault of one is not that of the others
                for each in taken:
                    await self._call([each], work)
            elif not taken[0].answer.done():
                taken[0].answer.set_exception(error)
            return
        start = 0
        for each in taken:
            end = start + each.table.num_rows
            if not each.answer.done():  # whoever asked may have gone
                each.answer.set_result(found[start:end])
            start = end

    def _take(self, key: Hashable) -> list[_Waiting]:
        """Take as many requests as fit into one call, and at least one."""
        line = self._waiting[key]
        rows, count = 0, 0
        for each in line:
            rows += each.table.num_rows
            if count and rows > self._most:
                break
            count += 1
        self._waiting[key] = line[count:]
        return line[:count]
