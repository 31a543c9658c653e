"""All that a running server has."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, Request

from hhvaem.web.batching import Batches
from hhvaem.web.compute import Compute, sharing_programs
from hhvaem.web.folder import private_folder
from hhvaem.web.jobs import Jobs
from hhvaem.web.limits import Limits
from hhvaem.web.models import Model, Models
from hhvaem.web.security import Door
from hhvaem.web.sessions import Sessions
from hhvaem.web.tables import Table, Tables

KEEP = Path("hhvaem-models")
# Files that are read at once.
READERS = 2


@dataclass(frozen=True)
class Settings:
    """How a server is started.

    Parameters
    ----------
    door
        Where it listens, and who may come in.
    limits
        How much of everything it takes.
    keep
        Where finished models are kept.
    served
        A model for everybody, with its estimator.
    """

    door: Door = field(default_factory=Door)
    limits: Limits = field(default_factory=Limits)
    keep: Path = KEEP
    served: tuple[Model, Any] | None = None


class House:
    """All that a running server has.

    Parameters
    ----------
    settings
        How it was started.
    folder
        Its private folder.
    """

    def __init__(self, settings: Settings, folder: Path) -> None:
        self.settings, self.limits, self.folder = settings, settings.limits, folder
        self.compute = Compute()
        self.models = Models()
        self.sessions = Sessions(self.limits)
        self.jobs = Jobs(folder / "jobs", settings.keep.absolute(), self.models, self.limits)
        self.tables = Tables(folder / "tables", self.limits, self._table_gone, self.jobs.at_work)
        # Each reader may take much memory.
        self.readers = asyncio.Semaphore(READERS)
        self.batches = Batches(self.compute.later, most=4 * self.limits.request_rows)
        # Laws of rows that were looked at last, for the cells beside them.
        self.laws: dict[tuple[str, int], Any] = {}
        if settings.served is not None:
            self.models.add(*settings.served)

    def remove_model(self, model: Model) -> None:
        """Forget a model, and what depends on it."""
        self.models.remove(model)
        self.sessions.model_gone(model)
        self.jobs.model_gone(model)
        # A thread may add laws meanwhile.
        for key in list(self.laws):
            if key[0] == model.id:
                self.laws.pop(key, None)

    def _table_gone(self, table: Table) -> None:
        self.jobs.table_gone(table)


@contextlib.asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[House]:
    """Open a house, and leave nothing behind but finished models."""
    with private_folder() as folder, sharing_programs(folder):
        house = House(settings, folder)
        working = asyncio.create_task(house.jobs.work())
        try:
            yield house
        finally:
            house.jobs.close()
            await working
            house.compute.close()


def house_of(request: Request) -> House:
    """Give the house that a request is for."""
    house: House = request.app.state.house
    return house


def owner_of(request: Request) -> str:
    """Give the name of whoever asks, as `Guard` has found it."""
    owner: str = request.scope["state"]["owner"]
    return owner


In = Annotated[House, Depends(house_of)]
Owner = Annotated[str, Depends(owner_of)]
