"""The service as an ASGI application."""

import contextlib
import traceback
from collections.abc import AsyncIterator
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

import hhvaem
from hhvaem.containers import listed
from hhvaem.errors import InputError
from hhvaem.web import (
    routes_jobs,
    routes_models,
    routes_page,
    routes_service,
    routes_sessions,
    routes_tables,
)
from hhvaem.web.arriving import Limited
from hhvaem.web.bodies import TASKS, Problem, in_words
from hhvaem.web.house import Settings, opened
from hhvaem.web.plain import Json
from hhvaem.web.refusals import RefusedError, for_readers
from hhvaem.web.security import Guard
from hhvaem.web.warming import warmed

DESCRIPTION = """Fill the holes of a table with honest uncertainty, predict from what is known, and
be asked for what is worth knowing. Every error is a JSON object with one sentence, `error`."""
REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": said}
    for status, said in {
        400: "Bad input",
        401: "The token is missing or wrong",
        403: "Another host or origin, or not allowed",
        404: "No such thing, or another's",
        408: "The request stopped on its way",
        409: "Not now",
        413: "Too large",
        415: "Not JSON",
        422: "A field is missing or of the wrong type",
        429: "Too many",
        503: "The server is being stopped",
    }.items()
}
_STATUS = {
    404: "There is nothing at this address.",
    405: "This address does not take such a request.",
    415: "The request is no JSON; send it as `application/json`.",
}
# What Python says of text that it cannot read as JSON.
_UNREADABLE: dict[type[Exception], str] = {
    RecursionError: "is nested too deeply; send a plainer one",
    UnicodeError: "is not in UTF-8; send it so",
    ValueError: "has a number of too many digits; send fewer",
}
# Letters of the place of a fault that are told.
_LONGEST_PLACE = 200
# What the framework says where it has nothing to say.
_GENERIC = (
    "Not Found",
    "Method Not Allowed",
    "Unsupported Media Type",
    "There was an error parsing the body",
)


def create_app(settings: Settings) -> Guard:
    """Make the application; what it has begins and ends with its lifespan."""

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, Any]]:
        async with opened(settings) as house:
            app.state.house = house
            async with warmed(house):
                yield {"house": house}

    app = FastAPI(
        title="hhvaem",
        version=hhvaem.__version__,
        description=DESCRIPTION,
        lifespan=lifespan,
        # Their pages load scripts from elsewhere.
        docs_url=None,
        redoc_url=None,
        responses=REFUSALS,
        # Nothing is sent anywhere, whatever the environment says.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
    app.include_router(routes_page.router(routes_page.files()))
    for routes in (routes_tables, routes_jobs, routes_models, routes_service, routes_sessions):
        app.include_router(routes.router)
    app.add_exception_handler(RefusedError, _refused)
    app.add_exception_handler(InputError, _bad_input)
    app.add_exception_handler(RequestValidationError, _malformed)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(ClientDisconnect, _gone)
    app.add_exception_handler(Exception, _unexpected)
    return Guard(Limited(app, settings.limits), settings.door)


async def _refused(request: Request, error: Exception) -> Json:
    assert isinstance(error, RefusedError)
    return Json({"error": error.sentence}, error.status)


async def _bad_input(request: Request, error: Exception) -> Json:
    return Json({"error": for_readers(str(error))}, 400)


async def _malformed(request: Request, error: Exception) -> Json:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    if first["loc"][0] == "body" and error.body and not _says_json(request):
        return Json({"error": _STATUS[415]}, 415)
    return Json({"error": _faulty(first)}, 422)


def _faulty(fault: dict[str, Any]) -> str:
    """Say where a request is of another form than it should be."""
    kind, loc = fault["type"], fault["loc"]
    if kind == "json_invalid":
        reason = fault["ctx"]["error"]
        return f"The request is no JSON from its letter {loc[1] + 1} on ({reason}); mend it there."
    if kind.startswith("union_tag"):
        return f"`task` is missing or unknown; give one of {listed(TASKS)}."
    if len(loc) > 2 and loc[1] in TASKS:  # which form was meant, and no part of it
        loc = (loc[0], *loc[2:])
    where = ".".join(str(part) for part in loc if part not in ("body", "query", "path"))
    place = f"`{where[:_LONGEST_PLACE]}`" if where else "The request"
    return f"{place} cannot be used: {in_words(fault)}."


def _says_json(request: Request) -> bool:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == "application/json" or (kind.startswith("application/") and "+json" in kind)


async def _http(request: Request, error: Exception) -> Json:
    assert isinstance(error, HTTPException)
    known = _STATUS.get(error.status_code)
    if error.status_code == 400 and isinstance(error.__cause__, Exception):
        said = (says for kind, says in _UNREADABLE.items() if isinstance(error.__cause__, kind))
        known = f"The request {next(said, 'did not come whole; send it again')}."
    generic = error.detail in _GENERIC
    sentence = known if known and generic else str(error.detail).rstrip(".") + "."
    return Json({"error": sentence}, error.status_code, headers=getattr(error, "headers", None))


async def _gone(request: Request, error: Exception) -> Response:
    """Answer a browser that has left, which hears nothing: it is no fault of anybody."""
    return Response(status_code=400)


async def _unexpected(request: Request, error: Exception) -> Json:
    traceback.print_exception(error)
    return Json(
        {"error": "Something went wrong inside of the server; its terminal says more."}, 500
    )
