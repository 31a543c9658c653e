"""Uploads that stop on their way: they hold no place for long, and leave nothing behind."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from servers import connected, house_of, refusal, uploaded

from hhvaem.web.house import Settings
from hhvaem.web.limits import Limits

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
    browser: TestClient,
    then: Callable[[], Awaitable[dict[str, Any]]],
    *,
    first: bytes | None = b"a,b\n",
    said: list[dict[str, Any]] | None = None,
    **scope: Any,
) -> list[dict[str, Any]]:
    """Send some bytes of a file, and then what comes; give what is answered."""
    blocks = iter([] if first is None else [first])
    said = [] if said is None else said

    async def receive() -> dict[str, Any]:
        block = next(blocks, None)
        if block is None:
            return await then()
        return {"type": "http.request", "body": block, "more_body": True}

    async def send(message: dict[str, Any]) -> None:
        said.append(message)

    assert browser.portal is not None
    browser.portal.call(browser.app, SCOPE | scope, receive, send)
    return said


def nothing_is_left(browser: TestClient) -> bool:
    tables = house_of(browser).tables
    return not tables._begun and not list(house_of(browser).folder.glob("tables/*"))


async def never() -> dict[str, Any]:
    await asyncio.Event().wait()
    raise AssertionError


def test_who_sends_no_more_loses_the_place(impatient: TestClient) -> None:
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


def test_a_request_that_stops_on_its_way_is_refused_as_well(impatient: TestClient) -> None:
    table = uploaded(impatient, b"a,b\n1,2\n")["id"]
    path = f"/api/tables/{table}/kinds"
    start, body = upload_until(impatient, never, path=path, method="PUT")
    assert start["status"] == 408
    assert b"Nothing more of the request came" in body["body"]
    assert (b"connection", b"close") in start["headers"]


@pytest.mark.parametrize("length", [b"17", None])
def test_the_rest_of_a_file_that_is_too_large_is_not_waited_for(
    tmp_path: Path, length: bytes | None
) -> None:
    headers = [*HEADERS[:1], *([] if length is None else [(b"content-length", length)])]
    with connected(Settings(keep=tmp_path / "models", limits=SHORT)) as browser:
        start, body, *_ = upload_until(browser, never, headers=headers, first=b"a,b\n" * 5)
        assert start["status"] == 413
        assert b"larger than" in body["body"]
        assert nothing_is_left(browser)


def test_what_announces_that_it_is_too_large_is_refused_before_it_comes(tmp_path: Path) -> None:
    limits = Limits(upload_bytes=10, body_bytes=10)
    with connected(Settings(keep=tmp_path / "models", limits=limits)) as browser:
        for path, what in (("/api/tables", b"The file"), ("/api/sessions", b"The request")):
            said: list[dict[str, Any]] = []

            async def after_the_answer(said: list[dict[str, Any]] = said) -> dict[str, Any]:
                assert said[0]["status"] == 413
                assert said[1]["body"]
                return {"type": "http.disconnect"}

            upload_until(browser, after_the_answer, said=said, first=None, path=path)
            assert what in said[1]["body"]
            assert said[-1] == {"type": "http.response.body", "body": b""}
