"""Requests of another form than they should have: refused soon, and in one sentence."""

import json
from typing import Any

import pytest
from fastapi.testclient import TestClient
from pydantic import TypeAdapter, ValidationError
from servers import refusal, uploaded

from hhvaem.acquire.policy import Prediction, Question, Standing, confident, decided
from hhvaem.errors import InputError
from hhvaem.web.bodies import ImputeBody, JobBody, KindsBody, SessionBody
from hhvaem.web.refusals import for_readers

IMPUTE = "/api/models/any/impute"
SAMPLE = "/api/models/any/sample"
A_CELL = "give a number, a text, true, false or null"
MANY = 50_000


def sent(browser: TestClient, path: str, content: bytes, status: int) -> str:
    headers = {"content-type": "application/json"}
    return refusal(browser.post(path, content=content, headers=headers), status)


def names(value: Any) -> dict[str, Any]:
    return {f"g{i}": value for i in range(MANY)}


@pytest.fixture
def jobs(bare: TestClient) -> str:
    table = uploaded(bare, b"a,b\n1,2\n3,4\n")
    return f"/api/tables/{table['id']}/jobs"


@pytest.mark.parametrize(
    ("form", "request_", "most"),
    [
        (ImputeBody, {"rows": [names([])]}, 1),
        (ImputeBody, {"rows": [[]] * 1000}, 1000),
        (ImputeBody, {"rows": [], **names(1)}, 1),
        (SessionBody, {"model": "x", "known": names([])}, 1),
        (SessionBody, {"model": "x", "costs": names("")}, 1),
        (SessionBody, {"model": "x", "groups": {"a": [1] * MANY}}, 1),
        (SessionBody, {"model": "x", "groups": names([1])}, 1),
        (SessionBody, {"model": "x", "rules": {"edges": [""] * MANY}}, 1),
        (KindsBody, {"kinds": names(1), "orders": names([1])}, 2),
        (JobBody, {"task": "predict", "targets": [1] * MANY}, 1),
        (JobBody, {"task": "evaluate", "against": [1] * MANY}, 1),
    ],
)
def test_faults_are_not_listed_one_and_all(form: Any, request_: Any, most: int) -> None:
    with pytest.raises(ValidationError) as found:
        TypeAdapter(form).validate_python(request_)
    assert found.value.error_count() <= most


def test_too_many_rows_are_not_looked_at(bare: TestClient) -> None:
    rows = b'{"rows":[' + b",".join([b'{"a":[]}'] * MANY) + b"]}"
    assert "50,000 rows are too many" in sent(bare, IMPUTE, rows, 413)


def test_the_first_cell_that_is_none_is_named(bare: TestClient) -> None:
    body = {"rows": [{"age": 1}, {"sex": "f", "age": [], "bmi": {}}]}
    said = sent(bare, IMPUTE, json.dumps(body).encode(), 422)
    assert said == f"`rows.1.age` cannot be used: {A_CELL}."
    known = {"model": "x", "known": {"age": {}}}
    said = sent(bare, "/api/sessions", json.dumps(known).encode(), 422)
    assert said == f"`known.age` cannot be used: {A_CELL}."
    answer = {"column": "age", "value": [1]}
    said = sent(bare, "/api/sessions/any/answers", json.dumps(answer).encode(), 422)
    assert said == f"`value` cannot be used: {A_CELL}."
    assert "no object" in sent(bare, IMPUTE, b'{"rows": [1]}', 422)
    assert "no object" in sent(bare, IMPUTE, b"[]", 422)


@pytest.mark.parametrize("row", ['{"age": "\\ud800"}', '{"\\ud800": 1}'])
def test_half_a_letter_is_refused(bare: TestClient, row: str) -> None:
    assert "half a letter" in sent(bare, IMPUTE, f'{{"rows": [{row}]}}'.encode(), 422)


def test_a_field_that_there_is_not_is_named_and_those_that_there_are(bare: TestClient) -> None:
    said = sent(bare, IMPUTE, b'{"rows": [], "levle": 0.9}', 422)
    assert "`levle` cannot be used: there is no such field" in said
    assert "'level'" in said


@pytest.mark.parametrize(
    ("path", "body", "place", "told"),
    [
        ("/api/sessions", {"model": "x", "costs": {"x": True}}, "`costs.x`", "give a number"),
        ("/api/sessions", {"model": "x", "costs": {"x": "1"}}, "`costs.x`", "give a number"),
        ("/api/sessions", {"model": "x", "look_ahead": 0}, "`look_ahead`", "give true or false"),
        (
            "/api/sessions",
            {"model": "x", "rules": {"most": 1.5}},
            "`rules.most`",
            "give a whole number",
        ),
        ("/api/sessions", {"model": "x", "rules": {"sure": 2}}, "`rules.sure`", "give 1.0 or less"),
        (
            "/api/sessions",
            {"model": "x", "rules": 3},
            "`rules`",
            "it is no object of names and values",
        ),
        ("/api/sessions", {}, "`model`", "it is missing; give it"),
        (IMPUTE, {"rows": [], "level": True}, "`level`", "give a number"),
        (IMPUTE, {"rows": [], "level": 1}, "`level`", "give less than 1.0"),
        (IMPUTE, {"rows": 3}, "`rows`", "give a list"),
        (SAMPLE, {"rows": [], "draws": True}, "`draws`", "give a whole number"),
        (
            SAMPLE,
            {"rows": [], "posterior": "x"},
            "`posterior`",
            "give one of 'hmc', 'encoder' or 'importance'",
        ),
    ],
)
def test_nothing_is_taken_for_something_else(
    bare: TestClient, path: str, body: Any, place: str, told: str
) -> None:
    assert sent(bare, path, json.dumps(body).encode(), 422) == f"{place} cannot be used: {told}."


def test_what_a_job_lacks_is_told_in_words(bare: TestClient, jobs: str) -> None:
    said = sent(bare, jobs, b'{"task": "predict", "targets": []}', 422)
    assert said == "`targets` cannot be used: give at least 1."
    said = sent(bare, jobs, b'{"task": "predict"}', 422)
    assert said == "`targets` cannot be used: it is missing; give it."
    kinds = jobs.replace("/jobs", "/kinds")
    answer = bare.put(kinds, json={"orders": {"g": []}})
    assert refusal(answer, 422) == "`orders.g` cannot be used: give at least 1."
    assert refusal(bare.get(jobs.replace("jobs", "rows?first=x")), 422).endswith(
        "give a whole number."
    )


def test_what_is_no_json_is_told_with_its_place(bare: TestClient, jobs: str) -> None:
    said = sent(bare, jobs, b'{"task": fill}', 422)
    assert said == "The request is no JSON from its letter 10 on (Expecting value); mend it there."


def test_the_tasks_of_a_job_are_named(bare: TestClient, jobs: str) -> None:
    for body in (b"{}", b'{"task": "fil"}'):
        said = sent(bare, jobs, body, 422)
        assert said == "`task` is missing or unknown; give one of 'fill', 'predict', 'evaluate'."
    assert "`preset` cannot" in sent(bare, jobs, b'{"task": "fill", "preset": "x"}', 422)


def test_what_cannot_be_read_is_told_as_what_it_is(bare: TestClient, jobs: str) -> None:
    assert "too many digits" in sent(bare, jobs, b'{"seed": ' + b"1" * 5000 + b"}", 400)
    assert "nested too deeply" in sent(bare, jobs, b"[" * 200_000, 400)
    assert "not in UTF-8" in sent(bare, jobs, b'{"task": "\xff"}', 400)


@pytest.mark.parametrize(
    ("rule", "prediction", "instead"),
    [
        (decided(5.0), Prediction("risk", "low", shares=(("low", 0.8), ("high", 0.2))), "`sure`"),
        (confident(0.9), Prediction("pressure", 120.0, 104.0, 133.0, 0.9), "`edges`"),
    ],
)
def test_a_rule_that_cannot_judge_is_told_without_options(
    rule: Any, prediction: Prediction, instead: str
) -> None:
    with pytest.raises(InputError) as found:
        rule(Question("ecg", ("ecg",), 0.2, 0.01, cost=3.0), Standing(1, 1.0, (prediction,)))
    said = for_readers(str(found.value))
    assert said.endswith(f"there is the rule {instead}.")
    assert not any(word in said for word in ("--", "decided", "confident"))
