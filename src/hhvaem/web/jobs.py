"""Training and reports: one process at a time, others in line."""

import asyncio
import contextlib
import json
import os
import shutil
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from hhvaem.schema import Schema
from hhvaem.web.compute import environment
from hhvaem.web.folder import stored_bytes
from hhvaem.web.identity import token
from hhvaem.web.limits import Limits
from hhvaem.web.models import Model, Models
from hhvaem.web.refusals import RefusedError, absent, for_readers
from hhvaem.web.tables import Table

State = Literal["waiting", "running", "done", "failed", "cancelled"]
ENDED = ("done", "failed", "cancelled")
# Between two looks at a job, and between two signs of life.
LOOK, ALIVE = 0.2, 15.0
# How long a process is given to end before it is killed.
GRACE = 3.0
# The longest line of a worker, which has a schema in it.
LINE = 2**26
# Jobs that are remembered of each owner after they have ended.
REMEMBERED = 50


@dataclass
class Job:
    """Something to be done with a table.

    Parameters
    ----------
    id, owner
        Its own name, and whose it is.
    table, table_name
        What it is about.
    order
        What the worker is told.
    folder
        Where the worker puts what it makes.
    """

    id: str
    owner: str
    table: str
    table_name: str
    rows: int
    order: dict[str, Any]
    folder: Path
    state: State = "waiting"
    progress: dict[str, Any] = field(default_factory=lambda: dict(NOTHING))
    notes: list[str] = field(default_factory=list)
    error: str | None = None
    model: str | None = None
    created: float = field(default_factory=time.time)
    begun: float | None = None
    ended: float | None = None
    ahead: int = 0
    version: int = 0

    @property
    def wish(self) -> str:
        """What tells two jobs apart; the files that are written do not."""
        own = {key: self.order[key] for key in self.order if key not in ("model", "folder")}
        return json.dumps(own, sort_keys=True)

    def told(self) -> dict[str, Any]:
        """Give it as JSON."""
        end = self.ended or time.time()
        seconds = 0.0 if self.begun is None else end - self.begun
        return {
            "id": self.id,
            "table": self.table,
            "table_name": self.table_name,
            "task": self.order["task"],
            "preset": self.order["preset"],
            "targets": self.order["targets"],
            "state": self.state,
            "ahead": self.ahead,
            "created": self.created,
            "progress": {**self.progress, "seconds": round(seconds, 1)},
            "notes": self.notes,
            "error": self.error,
            "model": self.model,
            "report": self.state == "done" and self.order["task"] == "evaluate",
        }


NOTHING: dict[str, Any] = {
    "stage": "waiting",
    "step": None,
    "steps": None,
    "loss": None,
    "acceptance": None,
    "seconds_left": None,
}


class Jobs:
    """All jobs of a server.

    Parameters
    ----------
    folder
        Where workers put what they make.
    keep
        Where finished models are kept.
    models
        Where they are known.
    limits
        How many jobs there may be.
    """

    def __init__(self, folder: Path, keep: Path, models: Models, limits: Limits) -> None:
        self._folder, self._keep, self._models, self._limits = folder, keep, models, limits
        self._jobs: dict[str, Job] = {}
        self._line: list[Job] = []
        self._process: asyncio.subprocess.Process | None = None
        self._wake = asyncio.Event()
        self.closing = False

    def submit(self, table: Table, wish: dict[str, Any]) -> tuple[Job, bool]:
        """Put a job in line; give it, and whether it is new.

        Raises
        ------
        RefusedError
            Where there are too many.
        """
        if self.closing:
            raise RefusedError(503, "This server is being stopped.")
        own = token()
        order = {
            **wish,
            "table": str(table.path),
            "kinds": table.asked_kinds(),
            "orders": table.orders,
            "kept_draws": self._limits.kept_draws,
            "kept_cells": self._limits.kept_cells,
        }
        job = Job(own, table.owner, table.id, table.name, table.data.num_rows, order,
                  self._folder / own)  # fmt: skip
        for other in self._line:
            if other.owner == job.owner and other.wish == job.wish:
                return other, False
        if sum(other.owner == table.owner for other in self._line) >= self._limits.jobs:
            raise RefusedError(
                429,
                f"{self._limits.jobs} jobs run or wait already; cancel one, or wait for its end.",
            )
        if len(self._line) >= self._limits.all_jobs:
            raise RefusedError(429, "Too many jobs wait on this server; try again later.")
        if stored_bytes(self._folder.parent) > self._limits.stored_bytes:
            raise RefusedError(
                429, "This server holds as much as it may; remove a table or a model."
            )
        job.folder.mkdir(mode=0o700, parents=True)
        stamp = time.strftime("%Y%m%d-%H%M%S")
        order["folder"] = str(job.folder)
        order["model"] = str(self._keep / f"model-{stamp}-{own}.hhvaem")
        self._jobs[own] = job
        self._line.append(job)
        self._count()
        self._forget(table.owner)
        self._wake.set()
        return job, True

    def of(self, owner: str) -> list[Job]:
        """Give the jobs of an owner, newest first."""
        own = [job for job in list(self._jobs.values()) if job.owner == owner]
        return sorted(own, key=lambda job: -job.created)

    def get(self, owner: str, name: str) -> Job:
        """Give a job to its owner."""
        job = self._jobs.get(name)
        if job is None or job.owner != owner:
            raise absent("job")
        return job

    def cancel(self, job: Job, why: str | None = None) -> None:
        """End a job; one that has ended stays as it is."""
        if job.state in ENDED:
            return
        running = job.state == "running"
        self._end(job, "cancelled", why)
        if running and self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()

    def at_work(self, table: Table, since: float) -> bool:
        """Say whether a job of a table runs, waits, or has ended since some time."""
        return any(
            job.table == table.id and (job.ended is None or job.ended > since)
            for job in self._jobs.values()
        )

    def table_gone(self, table: Table) -> None:
        """End the jobs of a table that was removed, and remove what they have made of it."""
        for job in [job for job in self._jobs.values() if job.table == table.id]:
            self.cancel(job, "The table was removed.")
            shutil.rmtree(job.folder, ignore_errors=True)

    def model_gone(self, model: Model) -> None:
        """Forget a model that was removed, with the filled table and the draws of it."""
        for job in [job for job in self._jobs.values() if job.model == model.id]:
            job.model = None
            job.version += 1
            shutil.rmtree(job.folder, ignore_errors=True)

    async def events(self, job: Job) -> AsyncIterator[str]:
        """Give what happens to a job, as server-sent events."""
        seen, alive = -1, time.monotonic()
        while job.state not in ENDED:
            if job.version != seen:
                seen, alive = job.version, time.monotonic()
                yield f"event: job\ndata: {json.dumps(job.told())}\n\n"
            elif time.monotonic() - alive > ALIVE:
                alive = time.monotonic()
                yield ": still here\n\n"
            await asyncio.sleep(LOOK)
        yield f"event: end\ndata: {json.dumps(job.told())}\n\n"

    async def work(self) -> None:
        """Do one job after the other, until the server is closed."""
        while not self.closing:
            self._wake.clear()
            while self._line:
                job = self._line[0]
                try:
                    await self._do(job)
                except OSError as error:  # no process, no disk: the next may have more luck
                    reason = f"Training could not be started: {error.strerror}; try again later."
                    self._end(job, "failed", reason)
            if not self.closing:
                await self._wake.wait()

    def close(self) -> None:
        """End all jobs; `work` ends when their process has."""
        self.closing = True
        for job in list(self._line):
            self.cancel(job, "The server was stopped.")
        self._wake.set()

    async def _do(self, job: Job) -> None:
        job.state, job.begun = "running", time.time()
        self._change(job, stage="starting")
        try:
            self._keep.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            reason = f"Models cannot be kept in their folder: {error.strerror}; mend that first."
            self._end(job, "failed", reason)
            return
        with (job.folder / "log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "hhvaem.web.worker",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env=os.environ | environment(self._folder.parent),
                # Ctrl-C in a terminal is for the server, which ends its processes.
                start_new_session=True,
                limit=LINE,
            )
        self._process = process
        assert process.stdin is not None
        assert process.stdout is not None
        if job.state != "running":  # cancelled before there was a process
            process.terminate()
        try:
            process.stdin.write((json.dumps(job.order) + "\n").encode())
            async for line in process.stdout:
                if job.state == "running":
                    self._hear(job, json.loads(line))
        except (ValueError, OSError):
            pass  # half a line of a process that was ended
        finally:
            await _ended(process)
            self._process = None
        if job.state == "running":
            self._end(
                job,
                "failed",
                "Training ended before it was done: the system may have been out of memory; try "
                "fewer rows or columns.",
            )
        if job.model is None:
            # Cancelled between the last line of the file and the last word about it.
            Path(job.order["model"]).unlink(missing_ok=True)

    def _hear(self, job: Job, said: dict[str, Any]) -> None:
        """Take a line of a worker."""
        if "stage" in said:
            said["seconds_left"] = said.pop("left")
            self._change(job, **said)
            return
        job.notes = [for_readers(note) for note in said["notes"]]
        if "failed" in said:
            self._end(job, "failed", for_readers(said["failed"]))
            return
        if job.order["task"] != "evaluate":
            self._models.add(_model(job, said["done"]))
            job.model = job.id
        self._end(job, "done", None)

    def _end(self, job: Job, state: State, error: str | None) -> None:
        job.state, job.error, job.ended = state, error, time.time()
        if job in self._line:
            self._line.remove(job)
        self._change(job, stage="finished" if state == "done" else job.progress["stage"],
                     seconds_left=None)  # fmt: skip
        self._count()

    def _change(self, job: Job, **facts: Any) -> None:
        job.progress.update(facts)
        job.version += 1

    def _count(self) -> None:
        for i, job in enumerate(self._line):
            if job.ahead != i:
                job.ahead = i
                job.version += 1

    def _forget(self, owner: str) -> None:
        """Forget old jobs that made nothing, or whose model is gone."""
        ended = [job for job in self.of(owner) if job.state in ENDED]
        for job in ended[REMEMBERED:]:
            if job.model is None:
                self._jobs.pop(job.id)
                shutil.rmtree(job.folder, ignore_errors=True)


def _model(job: Job, done: dict[str, Any]) -> Model:
    return Model(
        job.id,
        job.owner,
        job.table_name,
        Path(job.order["model"]),
        done["estimator"],
        Schema.from_json(json.dumps(done["schema"])),
        done["targets"],
        done["record"],
        preset=job.order["preset"],
        rows=job.rows,
        table=job.table,
        folder=job.folder,
        draws=done["draws"],
    )


async def _ended(process: asyncio.subprocess.Process) -> None:
    """Wait for the end of a process, and kill it where it takes long."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        async with asyncio.timeout(GRACE):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
