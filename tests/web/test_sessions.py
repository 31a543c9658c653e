"""Being asked, on the page."""

import codecs
import csv
import io
import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from servers import ADDRESS, connected, house_of, refusal

from hhvaem import Session
from hhvaem.acquire.policy import budget
from hhvaem.web.house import Settings
from hhvaem.web.limits import Limits
from hhvaem.web.models import loaded, served


def begin(browser: TestClient, **wish: Any) -> Any:
    answer = browser.post("/api/sessions", json={"model": "served", **wish})
    assert answer.status_code == 201, answer.text
    return answer.json()


def say(browser: TestClient, session: Any, column: str, value: Any, answer: str = "value") -> Any:
    body = {"column": column, "answer": answer, "value": value}
    return browser.post(f"/api/sessions/{session['id']}/answers", json=body)


def without_time(session: Any) -> Any:
    return {key: value for key, value in session.items() if key != "changed"}


def test_the_page_asks_what_the_library_does(client: TestClient, model_file: Path) -> None:
    model = loaded(model_file)
    ours = Session(model, {"sex": "female"}, costs={"crp": 3.0}, stop=budget(4.0))
    page = begin(client, known={"sex": "female"}, costs={"crp": 3}, rules={"budget": 4})
    for value in (70, None, None, None):
        question = ours.ask()
        assert question is not None
        assert page["question"]["name"] == question.name
        assert page["question"]["gain"] == question.gain
        assert page["question"]["cost"] == question.cost
        assert [each["name"] for each in page["question"]["others"]] == [
            each.name for each in question.others
        ]
        name = question.name if value is None else "age"
        ours.tell(name, value)
        answer = "value" if value is not None else "unmeasurable"
        page = say(client, page, name, value, answer).json()
        predicted: Any = ours.predict()
        assert page["predictions"][0]["low"] == predicted.low
        assert page["history"][-1]["predictions"] == page["predictions"]
    assert page["spent"] == ours.spent == 1.0
    assert page["known"] == {"sex": "female", "age": 70}


def test_a_session_survives_a_reload_and_can_be_ended(client: TestClient) -> None:
    session = begin(client)
    assert client.get(f"/api/sessions/{session['id']}").json() == session
    assert session["id"] in [each["id"] for each in client.get("/api/state").json()["sessions"]]
    assert client.delete(f"/api/sessions/{session['id']}").status_code == 204
    assert refusal(client.get(f"/api/sessions/{session['id']}"), 404)


def test_undo_takes_back_every_sort_of_answer(client: TestClient) -> None:
    states = [begin(client)]
    says = ("age", "61", "value"), ("bmi", None, "unknown"), ("crp", None, "unmeasurable"), (
        "bmi", 30, "value"), ("age", 62, "value")  # fmt: skip
    for column, value, answer in says:
        states.append(say(client, states[-1], column, value, answer).json())
    assert states[-1]["known"]["age"] == 62
    for before in states[-2::-1]:
        now = client.post(f"/api/sessions/{before['id']}/undo").json()
        assert without_time(now) == without_time(before)
    answer = client.post(f"/api/sessions/{states[0]['id']}/undo")
    assert "none to take back" in refusal(answer, 409)


def test_what_is_unknown_is_set_aside_until_it_is_asked_for_again(client: TestClient) -> None:
    session = begin(client)
    first = session["question"]["name"]
    while session["question"] is not None:
        session = say(client, session, session["question"]["name"], None, "unknown").json()
    assert first in session["aside"]
    assert set(session["aside"]) == set(session["open"])
    assert "set aside" in session["stopped"]
    again = client.post(f"/api/sessions/{session['id']}/again").json()
    assert again["question"]["name"] == first
    assert again["aside"] == []


def test_rules_stop_and_can_be_changed(client: TestClient) -> None:
    session = begin(client, rules={"most": 1})
    session = say(client, session, "age", 50).json()
    assert session["question"] is None
    assert "As many questions" in session["stopped"]
    path = f"/api/sessions/{session['id']}/settings"
    session = client.put(path, json={"rules": {}}).json()
    assert session["question"] is not None
    # A class has no edge, a number no certainty: what cannot be judged changes nothing.
    assert refusal(client.put(path, json={"rules": {"sure": 0.9}}), 400)
    kept = client.get(f"/api/sessions/{session['id']}").json()
    assert kept["rules"] == session["rules"]


def test_costs_can_be_changed_and_what_is_paid_stays_paid(client: TestClient) -> None:
    session = begin(client, costs={"age": 2})
    session = say(client, session, "age", 50).json()
    assert session["spent"] == 2
    best = session["question"]["name"]
    path = f"/api/sessions/{session['id']}/settings"
    session = client.put(path, json={"costs": {best: 1000}}).json()
    assert session["question"]["name"] != best
    assert (session["spent"], session["costs"][best], session["costs"]["age"]) == (2, 1000, 1)
    assert "'nothing'" in refusal(client.put(path, json={"costs": {"nothing": 1}}), 400)
    assert "-1" in refusal(client.put(path, json={"costs": {best: -1}}), 400)


def test_an_explanation_says_how_the_prediction_would_move(client: TestClient) -> None:
    session = begin(client)
    found = client.get(f"/api/sessions/{session['id']}/explain?column=bmi").json()
    assert found["now"] == session["predictions"]
    assert len(found["answers"]) == 3
    told = say(client, session, "bmi", found["answers"][0]["value"]).json()
    assert told["predictions"] == found["answers"][0]["predictions"]
    answer = client.get(f"/api/sessions/{session['id']}/explain?column=bmi")
    assert "'bmi'" in refusal(answer, 400)


def test_the_record_goes_on_elsewhere(client: TestClient, model_file: Path, tmp_path: Path) -> None:
    session = say(client, begin(client, known={"sex": "male"}), "age", 44).json()
    answer = client.get(f"/api/sessions/{session['id']}/record.json")
    begun = time.strftime("%Y-%m-%d", time.localtime(session["created"]))
    assert re.fullmatch(
        rf"attachment; filename\*=utf-8''glucose-{begun}-\d\d-\d\d-\d\d.json",
        answer.headers["content-disposition"],
    )
    (tmp_path / "session.json").write_bytes(answer.content)
    again = Session.load(tmp_path / "session.json", loaded(model_file))
    assert again.known == {"sex": "male", "age": 44}
    predicted: Any = again.predict()
    assert predicted.low == session["predictions"][0]["low"]
    content = client.get(f"/api/sessions/{session['id']}/record.csv").content
    assert content.startswith(codecs.BOM_UTF8)
    text = content.decode("utf-8-sig")
    names, known, start, only = csv.reader(io.StringIO(text))
    assert names[:5] == ["column", "answer", "value", "gain", "cost"]
    assert known[:3] == ["sex", "known", "male"]
    assert start[1] == "start"
    assert only[:3] == ["age", "value", "44"]


def test_cases_can_be_told_apart(client: TestClient) -> None:
    session = say(client, begin(client, known={"sex": "male", "age": 41}), "age", 44).json()
    assert session["given"] == {"sex": "male", "age": 41}
    short = client.get("/api/state").json()["sessions"][0]
    assert short["known"] == {"sex": "male", "age": 44}
    assert short["created"] == session["created"]


def test_what_looks_like_a_slip_is_taken_and_doubted(client: TestClient) -> None:
    session = begin(client, known={"sex": "male"})
    assert session["doubts"] == {}
    told = say(client, session, "age", 440).json()
    assert told["known"]["age"] == 440
    assert "440 lies far outside of what column 'age' mostly was" in told["doubts"]["age"]


@pytest.mark.parametrize(
    ("column", "value", "told"),
    [
        ("smoker", "sometimes", "'sometimes'"),
        ("age", "old", "'old'"),
        ("age", -3, "-3"),
        ("age", 10**400, "too large"),
        ("nothing", 1, "'nothing'"),
        ("glucose", 5, "'glucose'"),
        ("age", None, "no value"),
    ],
)
def test_a_bad_answer_changes_nothing(
    client: TestClient, column: str, value: Any, told: str
) -> None:
    session = begin(client)
    assert told in refusal(say(client, session, column, value), 400)
    assert client.get(f"/api/sessions/{session['id']}").json() == session


def test_one_owner_s_session_is_not_another_s(client: TestClient, other: TestClient) -> None:
    session = say(client, begin(client), "age", 33).json()
    own = f"/api/sessions/{session['id']}"
    for path in (own, f"{own}/explain", f"{own}/record.json", f"{own}/record.csv"):
        assert refusal(other.get(path), 404)
    assert refusal(say(other, session, "bmi", 30), 404)
    assert refusal(other.post(f"{own}/undo"), 404)
    assert refusal(other.delete(own), 404)
    assert other.get("/api/state").json()["sessions"] == []


def test_sessions_are_counted(model_file: Path, tmp_path: Path) -> None:
    limits = Limits(sessions=2, all_sessions=3, answers=2)
    settings = Settings(keep=tmp_path, served=served(model_file), limits=limits)
    with connected(settings) as browser:
        session = begin(browser)
        begin(browser)
        answer = browser.post("/api/sessions", json={"model": "served"})
        assert "remove one" in refusal(answer, 429)
        for value in (40, 41):
            assert say(browser, session, "age", value).status_code == 200
        assert "begin another" in refusal(say(browser, session, "age", 42), 429)


def test_sessions_that_are_being_begun_are_counted(model_file: Path, tmp_path: Path) -> None:
    settings = Settings(keep=tmp_path, served=served(model_file), limits=Limits(sessions=2))
    with connected(settings) as browser:
        browser.get("/api/about")  # who all of them are

        def begun(number: int) -> int:
            wish = {"model": "served", "known": {"age": 40 + number}}
            return int(browser.post("/api/sessions", json=wish).status_code)

        with ThreadPoolExecutor(6) as many:
            assert sorted(many.map(begun, range(6))) == [201] * 2 + [429] * 4
        bad = {"model": "served", "known": {"nothing": 1}}
        for session in browser.get("/api/state").json()["sessions"]:
            browser.delete(f"/api/sessions/{session['id']}")
        for _ in range(3):
            assert refusal(browser.post("/api/sessions", json=bad), 400)
        assert begun(0) == 201


def test_idle_sessions_go_where_others_need_the_room(model_file: Path, tmp_path: Path) -> None:
    limits = Limits(all_sessions=2)
    settings = Settings(keep=tmp_path, served=served(model_file), limits=limits)
    with connected(settings) as browser:
        first, second = begin(browser)["id"], begin(browser)["id"]
        other = TestClient(browser.app, base_url=ADDRESS)
        body = {"model": "served"}
        for live in house_of(browser).sessions._sessions.values():
            live.used = 0.0
        # To look at a session is to use it.
        assert browser.get(f"/api/sessions/{second}").status_code == 200
        assert other.post("/api/sessions", json=body).status_code == 201
        assert "as many sessions as it may" in refusal(other.post("/api/sessions", json=body), 429)
        assert refusal(browser.get(f"/api/sessions/{first}"), 404)
        assert browser.get(f"/api/sessions/{second}").status_code == 200
