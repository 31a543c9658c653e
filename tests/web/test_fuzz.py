"""Requests that nobody would send: every answer is a sentence, and none is an error of ours."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from servers import connected

from hhvaem.web.house import Settings
from hhvaem.web.limits import Limits
from hhvaem.web.models import served

FEW = settings(
    max_examples=8,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def server(
    model_file: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[TestClient, dict[str, str]]]:
    """A server with a table, a model and a session, which trains nothing."""
    keep = tmp_path_factory.mktemp("kept")
    with connected(
        Settings(keep=keep, served=served(model_file), limits=Limits(jobs=0))
    ) as browser:
        table = browser.post("/api/tables/example").json()["id"]
        session = browser.post("/api/sessions", json={"model": "served"}).json()["id"]
        yield browser, {"table": table, "session": session, "model": "served"}


def sent(browser: TestClient, case: Any) -> Any:
    body = {}
    if not isinstance(case.body, schemathesis.core.NotSet):
        raw = case.body if isinstance(case.body, bytes) else json.dumps(case.body).encode()
        body = {"content": raw, "headers": {"Content-Type": case.media_type or "text/plain"}}
    return browser.request(case.method, case.formatted_path, params=case.query or {}, **body)


@pytest.mark.parametrize("mode", list(GenerationMode))
def test_no_request_breaks_the_server(
    server: tuple[TestClient, dict[str, str]], mode: GenerationMode
) -> None:
    browser, known = server
    described = schemathesis.openapi.from_dict(browser.get("/openapi.json").json())
    statuses: dict[str, set[int]] = {}
    for found in described.get_all_operations():
        operation = found.ok()
        name = f"{operation.method.upper()} {operation.path}"
        cases = operation.as_strategy(generation_mode=mode)
        _bombarded(browser, cases, known, statuses.setdefault(name, set()))
    assert len(statuses) > 30
    if mode == GenerationMode.POSITIVE:
        # It would prove little if all were refused.
        assert sum(bool(each & {200, 201}) for each in statuses.values()) > 15, statuses


def _bombarded(browser: TestClient, cases: Any, known: dict[str, str], seen: set[int]) -> None:
    @FEW
    @given(case=cases)
    def answered(case: Any) -> None:
        # To what there is, so that bodies are looked at; but nothing is removed.
        if case.method != "DELETE":
            case.path_parameters = {**(case.path_parameters or {}), **_own(case, known)}
        answer = sent(browser, case)
        seen.add(answer.status_code)
        assert answer.status_code < 500, answer.text
        if answer.status_code >= 400:
            assert set(answer.json()) == {"error"}, answer.text

    # What takes nothing cannot be asked wrongly.
    with contextlib.suppress(Unsatisfiable):
        answered()


def _own(case: Any, known: dict[str, str]) -> dict[str, str]:
    return {part: name for part, name in known.items() if part in (case.path_parameters or {})}
