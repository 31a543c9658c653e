"""A server within this process, and what browsers do with it."""

import contextlib
import json
import time
from collections.abc import Iterator
from typing import Any

from fastapi.testclient import TestClient

from hhvaem.web.app import create_app
from hhvaem.web.house import House, Settings

ADDRESS = "http://127.0.0.1:8765"


@contextlib.contextmanager
def connected(settings: Settings) -> Iterator[TestClient]:
    """Start a server, and give a browser that talks to it."""
    with TestClient(create_app(settings), base_url=ADDRESS) as browser:
        yield browser


def house_of(browser: TestClient) -> House:
    """Look into a server."""
    limited: Any = browser.app
    house: House = limited._app._app.state.house
    return house


def upload(browser: TestClient, content: bytes, name: str = "table.csv", **query: Any) -> Any:
    return browser.post("/api/tables", params={"name": name, **query}, content=content)


def uploaded(browser: TestClient, content: bytes, name: str = "table.csv", **query: Any) -> Any:
    """Upload what must be taken, and give the table."""
    answer = upload(browser, content, name, **query)
    assert answer.status_code == 201, answer.text
    return answer.json()


def refusal(answer: Any, status: int) -> str:
    """Check that an answer refuses in one sentence, and give it."""
    assert answer.status_code == status, answer.text
    assert set(answer.json()) == {"error"}
    sentence: str = answer.json()["error"]
    assert sentence.endswith((".", "?"))
    assert "\n" not in sentence
    assert "Traceback" not in sentence
    return sentence


def finished(browser: TestClient, job: str, within: float = 240.0) -> Any:
    """Wait for the end of a job, and give it."""
    end = time.monotonic() + within
    while time.monotonic() < end:
        found = browser.get(f"/api/jobs/{job}").json()
        if found["state"] in ("done", "failed", "cancelled"):
            return found
        time.sleep(0.1)
    raise AssertionError(f"not done after {within} seconds: {found}")


def events(browser: TestClient, job: str) -> list[tuple[str, Any]]:
    """Give all events of a job, up to its end."""
    text = browser.get(f"/api/jobs/{job}/events").text
    found = []
    for block in text.strip().split("\n\n"):
        if block.startswith(":"):
            continue
        name, data = block.split("\n", 1)
        found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found
