"""The JSON service: what a model says of rows that a program sends."""

import json
from functools import partial
from typing import Any

import pyarrow as pa
from fastapi import APIRouter

from hhvaem.web import service
from hhvaem.web.bodies import (
    AcquireBody,
    ImputeBody,
    PredictRowsBody,
    SampleBody,
    too_many_rows,
)
from hhvaem.web.house import House, In, Owner
from hhvaem.web.models import Model
from hhvaem.web.plain import Json
from hhvaem.web.refusals import RefusedError

router = APIRouter(prefix="/api/models/{model}", tags=["service"])


@router.post("/impute", summary="Fill rows")
async def impute(model: str, body: ImputeBody, house: In, owner: Owner) -> Json:
    """Fill the holes of rows, and with `level` give the intervals of numbers."""
    found = _able(house, owner, model, fills=True)
    table = _table(house, found, body.rows)
    found_rows = await _batched(
        house, found, "impute", table, service.imputed, body.level, body.posterior
    )
    full, *ends = zip(*found_rows, strict=True)
    told = {"rows": list(map(service.as_given, full, body.rows))}
    if body.level is not None:
        for name, each in zip(("low", "high"), ends, strict=True):
            told[name] = [
                service.ends_as_given(*pair, found.schema)
                for pair in zip(each, body.rows, strict=True)
            ]
    return Json(told)


@router.post("/sample", summary="Draw rows")
async def sample(model: str, body: SampleBody, house: In, owner: Owner) -> Json:
    """Draw the holes of rows, or their targets.

    Not together with other requests: equal rows of one call have draws of their own, which would
    then depend on who else asks.
    """
    found = house.models.get(owner, model)
    table = _table(house, found, body.rows)
    if body.draws > house.limits.draws:
        raise RefusedError(
            400, f"{body.draws} draws are too many; ask for {house.limits.draws} at most."
        )
    if body.draws * table.num_rows * max(table.num_columns, 1) > house.limits.request_cells * 5:
        raise RefusedError(413, "So many draws of so many rows are too much; ask for fewer.")

    def work() -> list[Any]:
        estimator = house.models.estimator(found)
        return service.sampled(estimator, body.draws, body.posterior, table)

    drawn = await house.compute.later(work)
    if found.fills:
        drawn = [list(map(service.as_given, each, body.rows)) for each in drawn]
    return Json({"draws": drawn})


@router.post("/predict", summary="Predict the targets of rows")
async def predict(model: str, body: PredictRowsBody, house: In, owner: Owner) -> Json:
    """Give of each row a prediction of each target."""
    found = _able(house, owner, model, fills=False)
    table = _table(house, found, body.rows)
    rows = await _batched(
        house, found, "predict", table, service.predicted, body.level, body.posterior
    )
    return Json({"predictions": rows})


@router.post("/acquire", summary="Weigh the unknown cells of rows")
async def acquire(model: str, body: AcquireBody, house: In, owner: Owner) -> Json:
    """Give what each unknown cell would tell about the targets, in nats."""
    found = _able(house, owner, model, fills=False)
    table = _table(house, found, body.rows)
    rows = await _batched(
        house, found, "acquire", table, service.acquired, body.costs, body.method, body.posterior
    )
    gains, errors = zip(*rows, strict=True)
    return Json({"gains": list(gains), "errors": list(errors)})


def _able(house: House, owner: str, name: str, *, fills: bool) -> Model:
    """Give a model that can do what it is asked to."""
    model = house.models.get(owner, name)
    if fills and not model.fills:
        raise RefusedError(400, "This model predicts and fills no holes; use one that fills.")
    if not fills and model.fills:
        raise RefusedError(400, "This model fills holes and has no target; use one that predicts.")
    return model


def _table(house: House, model: Model, rows: list[dict[str, Any]]) -> pa.Table:
    limits = house.limits
    if not rows:
        raise RefusedError(400, "There are no rows; give at least one.")
    if len(rows) > limits.request_rows or len(rows) * len(model.schema) > limits.request_cells:
        raise too_many_rows(len(rows), limits)
    return service.as_table(rows, model.schema, [each["name"] for each in model.targets])


async def _batched(
    house: House, model: Model, what: str, table: pa.Table, work: Any, *options: Any
) -> list[Any]:
    key = (model.id, what, json.dumps(options, sort_keys=True))

    def call(rows: pa.Table) -> list[Any]:
        found: list[Any] = partial(work, house.models.estimator(model), *options)(rows)
        return found

    return await house.batches.ask(key, table, call)
