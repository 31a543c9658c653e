"""What a served model needs is compiled before the first question."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from hhvaem.errors import InputError
from hhvaem.web import service
from hhvaem.web.asking import Asking
from hhvaem.web.bodies import RulesBody
from hhvaem.web.house import House


@contextlib.asynccontextmanager
async def warmed(house: House) -> AsyncIterator[None]:
    """Begin to compile, and do not wait for the end."""
    tasks = []
    if house.settings.served is not None:
        _, estimator = house.settings.served
        tasks = [asyncio.create_task(house.compute.later(_tables, estimator))]
        if hasattr(estimator, "predict"):
            tasks.append(asyncio.create_task(house.compute.soon(_questions, estimator)))
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()


def _tables(estimator: Any) -> None:
    row = service.as_table([{}], estimator.schema_)
    with contextlib.suppress(InputError):  # of a model without columns, which needs no program
        if hasattr(estimator, "predict"):
            service.predicted(estimator, 0.9, None, row)
        else:
            estimator.transform(row)


def _questions(estimator: Any) -> None:
    wish = {"known": {}, "costs": {}, "groups": {}, "rules": RulesBody().model_dump(),
            "look_ahead": False}  # fmt: skip
    asking = Asking("", "", "", estimator, wish)
    if asking.question is not None:
        column = asking.question.columns[0]
        found = asking.explained(column)
        asking.answer(column, "value", found["answers"][0]["value"])
