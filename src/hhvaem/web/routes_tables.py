"""Tables: in, looked at, and out again."""

import asyncio
import json
from typing import Annotated, Any

import pyarrow as pa
from fastapi import APIRouter, Query, Request
from pyarrow import feather
from starlette.responses import Response

from hhvaem.example import clinic
from hhvaem.tasks import Task, check_targets
from hhvaem.web import views
from hhvaem.web.bodies import JobBody, KindsBody
from hhvaem.web.columns import Found
from hhvaem.web.house import In, Owner
from hhvaem.web.identity import token
from hhvaem.web.plain import Json, cell
from hhvaem.web.refusals import RefusedError, absent
from hhvaem.web.tables import Table
from hhvaem.web.uploads import as_plain_table, checked_name, received

router = APIRouter(prefix="/api/tables", tags=["tables"])
First = Annotated[int, Query(ge=0, le=10**9)]
Count = Annotated[int, Query(ge=1, le=10**6)]
# In the folder of a table, what was named as missing in its file.
MARKS = "marks.json"


@router.post(
    "",
    summary="Upload a table",
    status_code=201,
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/octet-stream": {"schema": {"type": "string", "format": "binary"}}
            },
        }
    },
)
async def upload(
    request: Request,
    house: In,
    owner: Owner,
    name: Annotated[str, Query(description="What the file is called; its suffix is its format.")],
    missing: Annotated[list[str], Query(description="More texts that mean a hole.")] = [],  # noqa: B006
) -> Json:
    """Take the bytes of a CSV, Parquet or Feather file, and say what its columns are."""
    plain, suffix = checked_name(name)
    with house.tables.room(owner, plain) as table:
        path = table.folder / f"{token()}{suffix}"
        await received(request.stream(), path)
        async with house.readers:
            await as_plain_table(path, plain, missing, table.path, house.limits)
        path.unlink()
        (table.folder / MARKS).write_text(json.dumps(missing), encoding="utf-8")
        await asyncio.to_thread(table.look)
    return Json(_with_marks(table, table.told()), 201)


@router.post("/example", summary="Take the embedded example", status_code=201)
async def example(house: In, owner: Owner) -> Json:
    """Make a table of the made-up patients of a clinic."""
    with house.tables.room(owner, "clinic.csv") as table:
        feather.write_feather(clinic(), str(table.path), compression="uncompressed")
        await asyncio.to_thread(table.look)
    return Json(_with_marks(table, table.told()), 201)


@router.get("/{table}", summary="A table and its columns")
def show(table: str, house: In, owner: Owner) -> Json:
    """Say what a table is."""
    found = house.tables.get(owner, table)
    return Json(_with_marks(found, found.told()))


@router.delete("/{table}", summary="Remove a table", status_code=204)
async def remove(table: str, house: In, owner: Owner) -> Response:
    """Remove a table and what was made of it; its models stay."""
    house.tables.remove(house.tables.get(owner, table))
    return Response(status_code=204)


@router.put("/{table}/kinds", summary="Say what columns are")
async def say(table: str, body: KindsBody, house: In, owner: Owner) -> Json:
    """Replace what was said of columns before; a kind that does not fit is refused."""
    found = house.tables.get(owner, table)
    try:
        told = await asyncio.to_thread(found.say, body.kinds, body.orders)
    except OSError as error:
        if house.tables.has(found.id):
            raise
        raise absent("table") from error  # removed meanwhile
    return Json(_with_marks(found, told))


@router.get("/{table}/rows", summary="Some rows")
def rows(table: str, house: In, owner: Owner, first: First = 0, count: Count = 50) -> Json:
    """Give some rows, with null for holes."""
    data = house.tables.get(owner, table).data
    some = views.rows(data, first, min(count, house.limits.page_rows))
    return Json({"first": first, "total": data.num_rows, "rows": some})


@router.get("/{table}/map", summary="Where holes are")
def missing_map(table: str, house: In, owner: Owner, bands: Count = 120) -> Json:
    """Give for bands of rows the share of each column that is missing."""
    data = house.tables.get(owner, table).data
    found = views.missing_map(data, min(bands, house.limits.bands))
    return Json({"rows": data.num_rows, "bands": found})


@router.get("/{table}/column", summary="How the cells of a column lie")
def column(table: str, column: First, house: In, owner: Owner) -> Json:
    """Give the shares of observed cells in bars."""
    found = house.tables.get(owner, table)
    return Json(plotted(found, column_of(found, column), column))


@router.post("/{table}/jobs", summary="Train a model, or ask for the report", status_code=201)
async def submit(table: str, body: JobBody, house: In, owner: Owner) -> Json:
    """Put a job in line; one that is under way already is given instead (200)."""
    found = house.tables.get(owner, table)
    order = body.order()
    order["targets"] = list(dict.fromkeys(order["targets"]))
    await asyncio.to_thread(_check_learnable, found.data, order["targets"], order["kind_of_target"])
    job, new = house.jobs.submit(found, order)
    return Json(job.told(), 201 if new else 200)


def _check_learnable(data: pa.Table, targets: list[str], asked: str | None) -> None:
    """Refuse a job that is bound to fail before it waits in line."""
    strange = [name for name in targets if name not in data.column_names]
    if strange:
        raise RefusedError(400, f"The table has no column {strange[0]!r} to predict.")
    if len(targets) >= data.num_columns:
        raise RefusedError(400, "No column is left to predict from; choose fewer targets.")
    if data.num_rows < 2:
        raise RefusedError(
            400, "The table has one row, and nothing can be learned from one; give more."
        )
    if targets:
        check_targets(data, targets, None if asked is None else Task(asked))


def _with_marks(table: Table, told: dict[str, Any]) -> dict[str, Any]:
    """Add the texts that were named as missing in the file of a table to its JSON."""
    path = table.folder / MARKS
    marks = json.loads(path.read_bytes()) if path.exists() else []
    return {**told, "marks": marks}


def column_of(table: Table, index: int) -> Found:
    """Give a column by its number.

    Raises
    ------
    RefusedError
        Where there is none.
    """
    if index >= len(table.found):
        raise RefusedError(
            404, f"The table has no column {index}; its columns are 0 to {len(table.found) - 1}."
        )
    return table.found[index]


def plotted(
    table: Table, found: Found, index: int, filled: Any = None, drawn: Any = None
) -> dict[str, Any]:
    """Give how the cells of a column lie: observed ones, and where they are given filled ones."""
    column = found.column
    facts = {
        "column": index,
        "name": column.name,
        "kind": column.kind,
        "counts": {
            "observed": table.data.num_rows - found.missing,
            "filled": 0 if filled is None else len(filled),
        },
    }
    if not column.modelled:
        only = [cell(column.levels[0])] if column.kind == "constant" else None
        ones = None if only is None else [1.0]
        holes = ones if filled is not None and len(filled) else None
        return {**facts, "edges": None, "labels": only, "observed": ones, "filled": holes,
                "drawn": holes}  # fmt: skip
    observed = views.numbers(column, table.data)
    series = {"observed": observed, "filled": filled, "drawn": drawn}
    return {**facts, **views.plot(column, series)}
