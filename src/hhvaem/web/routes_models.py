"""Models: what they are, what they fill, and their files."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
from fastapi import APIRouter, Query
from pyarrow import feather
from starlette.responses import FileResponse, Response

from hhvaem.fitting import ROWS
from hhvaem.table import encode
from hhvaem.web import downloads, laws, views
from hhvaem.web.house import House, In, Owner
from hhvaem.web.models import Model
from hhvaem.web.plain import LONGEST, Json, cell
from hhvaem.web.refusals import RefusedError, absent
from hhvaem.web.routes_tables import Count, First, column_of, plotted
from hhvaem.web.tables import Table

router = APIRouter(prefix="/api/models", tags=["models"])
Format = Literal["csv", "parquet", "feather"]
# Blocks of rows whose laws are kept.
BLOCKS = 8
NO_TABLE = "The table of this model is not here; upload it, and train again."


@router.get("", summary="All models")
def models(house: In, owner: Owner) -> Json:
    """Give the models of whoever asks, and the served one."""
    return Json({"models": [_told(house, each) for each in house.models.of(owner)]})


@router.get("/{model}", summary="A model")
def show(model: str, house: In, owner: Owner) -> Json:
    """Say what a model is."""
    return Json(_told(house, house.models.get(owner, model)))


@router.delete("/{model}", summary="Remove a model", status_code=204)
async def remove(model: str, house: In, owner: Owner) -> Response:
    """Remove a model and its file."""
    house.remove_model(house.models.get(owner, model))
    return Response(status_code=204)


@router.get("/{model}/file", summary="The file of a model")
def file(model: str, house: In, owner: Owner) -> FileResponse:
    """Give the file, which `hhvaem impute`, `predict`, `ask` and `hhvaem.load` read."""
    found = house.models.get(owner, model)
    found.check_file()
    name = f"{_stem(found)}.hhvaem"
    return FileResponse(found.path, media_type="application/octet-stream", filename=name)


@router.get("/{model}/schema", summary="What the columns of a model are")
def schema(model: str, house: In, owner: Owner) -> Json:
    """Give the schema as `Schema.to_json` writes it, and the targets."""
    found = house.models.get(owner, model)
    return Json({**json.loads(found.schema.to_json()), "targets": found.targets})


@router.get("/{model}/filled", summary="Some rows of the filled table")
def filled(model: str, house: In, owner: Owner, first: First = 0, count: Count = 50) -> Json:
    """Give some rows, and which of their cells were filled."""
    found, table = _with_table(house, owner, model)
    with _there(house, found):
        full = _filled(found)
    count = min(count, house.limits.page_rows)
    part, before = full.slice(first, count), table.data.slice(first, count)
    new = np.stack(
        [
            views.is_missing(before.column(name)) & ~views.is_missing(part.column(name))
            for name in part.column_names
        ],
        axis=1,
    )
    return Json(
        {
            "first": first,
            "total": full.num_rows,
            "rows": views.rows(full, first, count),
            "filled": [np.flatnonzero(row).tolist() for row in new],
        }
    )


@router.get("/{model}/cell", summary="The predictive law of a cell")
async def law(
    model: str,
    row: First,
    column: First,
    house: In,
    owner: Owner,
    level: Annotated[float, Query(ge=0.01, le=0.999)] = 0.9,
) -> Json:
    """Say what a hole may hold: a histogram or bars, and an interval."""
    found, table = _with_table(house, owner, model)
    with _there(house, found):
        full = _filled(found)
    own = column_of(table, column).column
    if row >= full.num_rows:
        raise RefusedError(404, f"The table has no row {row}; its last is {full.num_rows - 1}.")
    name = own.name
    observed = not views.is_missing(table.data.slice(row, 1).column(name))[0]
    facts = {
        "row": row,
        "column": column,
        "name": name,
        "kind": found.schema[name].kind,
        "observed": observed,
        "value": cell(full.column(name)[row].as_py(), LONGEST),
        "interval": None,
        "histogram": None,
        "bars": None,
    }
    if observed or not found.schema[name].modelled:
        return Json(facts)
    with _there(house, found):
        about = await house.compute.later(_law, house, found, table, row, name, level)
    return Json({**facts, **about})


@router.get("/{model}/column", summary="Observed cells of a column against filled ones")
def column(model: str, column: First, house: In, owner: Owner) -> Json:
    """Give the shares of observed, filled and drawn cells in the same bars."""
    found, table = _with_table(house, owner, model)
    about = column_of(table, column)
    own = found.schema[about.column.name]
    about = about._replace(column=own)
    holes = np.flatnonzero(views.is_missing(table.data.column(own.name)))
    if own.kind == "ignored" or not holes.size:
        return Json(plotted(table, about, column))
    if not own.modelled:
        return Json(plotted(table, about, column, filled=holes))
    with _there(house, found):
        new = views.numbers(own, _filled(found).select([own.name]).take(holes))
        drawn = [
            views.numbers(own, _drawn(found, i).select([own.name]).take(holes))
            for i in range(found.draws)
        ]
    return Json(plotted(table, about, column, filled=new, drawn=np.concatenate(drawn)))


@router.get("/{model}/draws", summary="How often the holes were drawn")
def draws(model: str, house: In, owner: Owner) -> Json:
    """Give how many draws can be downloaded."""
    found, _ = _with_table(house, owner, model)
    return Json({"draws": found.draws})


@router.get("/{model}/filled.{suffix}", summary="The filled table as a file")
async def filled_file(model: str, suffix: Format, house: In, owner: Owner) -> FileResponse:
    """Give the filled table; observed cells are as they were."""
    found, table = _with_table(house, owner, model)
    assert found.folder is not None
    path = found.folder / f"filled-out.{suffix}"
    with _there(house, found):
        if not path.exists():
            await house.compute.later(downloads.written, _filled(found), table.data, path)
        path.stat()
    return _sent(path, f"{_stem(found)}-filled.{suffix}", suffix)


@router.get("/{model}/draws.{suffix}", summary="Draws of the table as a file")
async def draws_file(
    model: str, suffix: Format, house: In, owner: Owner, count: Count = 20
) -> FileResponse:
    """Give one long table with the columns `draw` and `row` in front."""
    found, table = _with_table(house, owner, model)
    assert found.folder is not None
    count = min(count, found.draws)
    path = found.folder / f"draws-out-{count}.{suffix}"

    def write() -> None:
        assert found.folder is not None
        holed = downloads.repeated_rows(table.data, count)
        downloads.written(downloads.long_draws(found.folder, count), holed, path)

    with _there(house, found):
        if not path.exists():
            await house.compute.later(write)
        path.stat()
    return _sent(path, f"{_stem(found)}-draws.{suffix}", suffix)


def _sent(path: Path, name: str, suffix: str) -> FileResponse:
    return FileResponse(path, media_type=downloads.FORMATS[suffix], filename=name)


def _told(house: House, model: Model) -> dict[str, Any]:
    return model.told(table=house.tables.has(model.table))


def _stem(model: Model) -> str:
    return model.name.partition(".")[0] or "table"


def _with_table(house: House, owner: str, name: str) -> tuple[Model, Table]:
    """Give a model that fills, and the table that it has filled."""
    model = house.models.get(owner, name)
    if not model.fills:
        raise RefusedError(400, "This model predicts and fills no table; train one that fills.")
    if model.table is None or not house.tables.has(model.table):
        raise RefusedError(404, NO_TABLE)
    return model, house.tables.get(owner, model.table)


@contextlib.contextmanager
def _there(house: House, model: Model) -> Iterator[None]:
    """Say so where a model or its table was removed while something was made of them.

    Whatever went wrong then went wrong for that; all else is passed on as it is.
    """
    try:
        yield
    except Exception as error:
        if not house.models.has(model.id):
            raise absent("model") from error
        if not house.tables.has(model.table):
            raise RefusedError(404, NO_TABLE) from error
        raise


def _filled(model: Model) -> pa.Table:
    assert model.folder is not None
    return feather.read_table(model.folder / "filled.feather", memory_map=True)


def _drawn(model: Model, number: int) -> pa.Table:
    assert model.folder is not None
    return feather.read_table(model.folder / f"draw{number}.feather", memory_map=True)


def _law(
    house: House, model: Model, table: Table, row: int, name: str, level: float
) -> dict[str, Any]:
    """Ask the law of a cell; the laws of the rows around it are kept for the next."""
    block = row // ROWS
    key = (model.id, block)
    law = house.laws.get(key)
    if law is None:
        estimator = house.models.estimator(model)
        part = table.data.select(model.schema.names).slice(block * ROWS, ROWS)
        values, mask = encode(part, model.schema)
        how = estimator._how(None, None)
        _, law, _ = next(iter(estimator._model().laws(values, mask, how)))
        while len(house.laws) >= BLOCKS:
            house.laws.pop(next(iter(list(house.laws))), None)
        house.laws[key] = law
    column = model.schema[name]
    place = model.schema.modelled.index(column)
    return laws.told(law, column, place, row - block * ROWS, level)
