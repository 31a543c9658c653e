"""Uploads that stop on their way: they hold no place for long, and leave nothing behind."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from servers import connected, house_of, refusal, uploaded

from hhvaem.web.house import Settings
from hhvaem.web.limits import Limits
from hhvaem.web.refusals import RefusedError
from hhvaem.web.uploads import received

SHORT = Limits(waiting_seconds=1.0, all_tables=1, upload_bytes=10)
HEADERS = [(b"host", b"127.0.0.1:8765"), (b"content-length", b"1000")]
SCOPE = {
    "type": "http",
    "asgi": {"version": "3.0"},
    "http_version": "1.1",
    "method": "POST",
    "scheme": "http",
    "path": "/api/tables",
    "raw_path": b"/api/tables",
    "query_string": b"name=x.csv",
    "root_path": "",
    "headers": HEADERS,
    "client": ("127.0.0.1", 5),
    "server": ("127.0.0.1", 8765),
}


@pytest.fixture
def impatient(tmp_path: Path) -> Iterator[TestClient]:
    limits = Limits(waiting_seconds=1.0, all_tables=1)
    with connected(Settings(keep=tmp_path / "models", limits=limits)) as browser:
        yield browser


def upload_until(
    browser: TestClient, then: Callable[[], Awaitable[dict[str, Any]]]
) -> list[dict[str, Any]]:
    """Send four bytes of a file, and then what comes."""
    first = iter([{"type": "http.request", "body": b"a,b\n", "more_body": True}])
    said: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return next(first, None) or await then()

    async def send(message: dict[str, Any]) -> None:
        said.append(message)

    assert browser.portal is not None
    browser.portal.call(browser.app, dict(SCOPE), receive, send)
    return said


def nothing_is_left(browser: TestClient) -> bool:
    tables = house_of(browser).tables
    return not tables._begun and not list((house_of(browser).folder / "tables").iterdir())


def test_who_sends_no_more_loses_the_place(impatient: TestClient) -> None:
    async def never() -> dict[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    start, body = upload_until(impatient, never)
    assert start["status"] == 408
    assert b"Nothing more of the file came" in body["body"]
    assert nothing_is_left(impatient)
    assert uploaded(impatient, b"a,b\n1,2\n")
    answer = impatient.post("/api/tables/example")
    assert "or try again in a minute" in refusal(answer, 429)


def test_who_leaves_is_not_told_of(
    impatient: TestClient, capfd: pytest.CaptureFixture[str]
) -> None:
    async def left() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    upload_until(impatient, left)
    assert nothing_is_left(impatient)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("announced", [None, "1000"])
def test_the_rest_of_a_file_that_is_too_large_is_not_waited_for(
    tmp_path: Path, announced: str | None
) -> None:
    async def stalling() -> AsyncIterator[bytes]:
        yield b"a,b\n" * 5
        await asyncio.Event().wait()

    with pytest.raises(RefusedError, match="larger than"):
        asyncio.run(received(stalling(), tmp_path / "x.csv", announced, SHORT))
    assert not (tmp_path / "x.csv").exists()
