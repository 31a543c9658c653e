"""The page itself, and what there is to know at its start."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

import hhvaem
from hhvaem.hiding import IN_WORDS
from hhvaem.web.columns import SAYS
from hhvaem.web.house import In, Owner
from hhvaem.web.plain import Json
from hhvaem.web.refusals import RefusedError
from hhvaem.web.uploads import ACCEPTED

PAGE = Path(__file__).parent / "page"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".txt": "text/plain; charset=utf-8",
}
PRESETS = {
    "fast": "for a first look: some seconds of training",
    "default": "for use: better fills and more honest intervals, after some minutes of training",
}


def files(folder: Path = PAGE) -> dict[str, tuple[bytes, str]]:
    """Read all files of the page, by the name that a browser asks for."""
    return {
        path.relative_to(folder).as_posix(): (path.read_bytes(), TYPES[path.suffix])
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix in TYPES
    }


def router(page: Mapping[str, tuple[bytes, str]]) -> APIRouter:
    """Make the routes of the page; nothing but what is in memory is ever sent."""
    routes = APIRouter(tags=["page"])

    @routes.get("/", summary="The page", include_in_schema=False)
    def index() -> Response:
        return file("index.html")

    @routes.get("/page/{name:path}", summary="A file of the page", include_in_schema=False)
    def file(name: str) -> Response:
        if name not in page:
            raise RefusedError(404, "The page has no such file; it is at `/`.")
        content, kind = page[name]
        return Response(content, media_type=kind)

    @routes.get("/favicon.ico", include_in_schema=False)
    def icon() -> Response:
        for name in ("favicon.ico", "favicon.svg", "icon.svg"):
            if name in page:
                return file(name)
        return Response(status_code=204)

    @routes.get("/api/about", summary="What this server is and takes")
    def about(house: In) -> Json:
        """Give the version, the limits, and the words that requests may use."""
        limits = house.limits
        served = house.settings.served
        return Json(
            {
                "version": hhvaem.__version__,
                "served": None if served is None else served[0].id,
                "kept_in": str(house.settings.keep),
                "example": "clinic",
                "suffixes": list(ACCEPTED),
                "presets": _said(PRESETS),
                "kinds": _said(SAYS),
                "mechanisms": _said(IN_WORDS),
                "limits": {
                    name: getattr(limits, name)
                    for name in (
                        "upload_bytes", "rows", "columns", "cells", "tables", "jobs", "sessions",
                        "request_rows", "draws", "page_rows",
                    )
                },
            }
        )  # fmt: skip

    @routes.get("/api/state", summary="All that whoever asks owns")
    def state(house: In, owner: Owner) -> Json:
        """Give tables, jobs, models and sessions, newest first."""
        return Json(
            {
                "tables": [each.told(columns=False) for each in house.tables.of(owner)],
                "jobs": [each.told() for each in house.jobs.of(owner)],
                "models": [
                    each.told(table=house.tables.has(each.table), columns=False)
                    for each in house.models.of(owner)
                ],
                "sessions": [each.in_short() for each in house.sessions.of(owner)],
            }
        )

    return routes


def _said(words: Mapping[Any, str]) -> list[dict[str, str]]:
    return [{"name": name, "says": says} for name, says in words.items()]
