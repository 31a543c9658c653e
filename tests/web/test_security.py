import re
import socket
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from servers import ADDRESS, connected, house_of, refusal, uploaded

from hhvaem.web import security
from hhvaem.web.house import Settings
from hhvaem.web.security import HEADERS, Door, is_loopback

TOKEN = "correct horse"


@pytest.mark.parametrize(
    "path", ["/", "/api/about", "/api/tables/none", "/nowhere", "/openapi.json"]
)
def test_every_answer_has_the_headers(bare: TestClient, path: str) -> None:
    answer = bare.get(path)
    for name, value in HEADERS.items():
        assert answer.headers[name] == value
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8765", "127.0.0.1:80", "127.0.0.1.evil.example:8765", ""]
)
def test_another_host_is_refused(bare: TestClient, host: str) -> None:
    assert "name that is not its own" in refusal(
        bare.get("/api/about", headers={"Host": host}), 403
    )


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8765", "localhost:8765", "LOCALHOST:8765", "[::1]:8765"]
)
def test_own_hosts_are_taken(bare: TestClient, host: str) -> None:
    assert bare.get("/api/about", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_requests_of_other_pages_are_refused(bare: TestClient, headers: dict[str, str]) -> None:
    assert "another page" in refusal(bare.post("/api/tables/example", headers=headers), 403)
    assert bare.get("/api/state").json()["tables"] == []


def test_requests_of_the_own_page_are_taken(bare: TestClient) -> None:
    own = {"Origin": ADDRESS, "Sec-Fetch-Site": "same-origin"}
    assert bare.post("/api/tables/example", headers=own).status_code == 201
    # A link on another page may lead here.
    assert bare.get("/", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 200


LINK = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
OWN = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "navigate"}


def sent_on(answer: Any) -> str:
    """Give where a browser is sent on to by a page of ours."""
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    assert answer.headers["Content-Security-Policy"] == HEADERS["Content-Security-Policy"]
    found = re.search(r'http-equiv="refresh" content="0;url=([^"]*)"', answer.text)
    assert found is not None, answer.text
    return found[1]


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_link_on_another_page_makes_nobody_new(bare: TestClient, site: str) -> None:
    # The browser has a cookie, but does not send it along with the link.
    answer = bare.get("/", headers={**LINK, "Sec-Fetch-Site": site})
    assert sent_on(answer) == "/"
    assert "set-cookie" not in answer.headers
    # The page that it is sent on to is the page: not for ever.
    there = bare.get("/", headers=OWN)
    assert "refresh" not in there.text
    assert "set-cookie" in there.headers
    # Of a page on another port of this host it does come along.
    assert "refresh" not in bare.get("/", headers={**LINK, "Sec-Fetch-Site": site}).text


def test_another_page_may_lead_here_but_not_read(bare: TestClient) -> None:
    for mode in ("cors", "no-cors", "same-origin"):
        headers = {**LINK, "Sec-Fetch-Mode": mode}
        assert "another page" in refusal(bare.get("/", headers=headers), 403)


def test_a_link_with_a_token_keeps_who_one_is(closed: TestClient) -> None:
    answer = closed.get("/", params={"token": TOKEN}, headers=LINK)
    assert sent_on(answer) == "/?token=correct%20horse"
    assert "set-cookie" not in answer.headers
    assert "set-cookie" in closed.get(sent_on(answer), headers=OWN).headers
    stranger = TestClient(closed.app, base_url=ADDRESS)
    assert refusal(stranger.get("/?token=wrong", headers=LINK), 401)
    # Without a token, too, a cookie may have been held back.
    assert sent_on(stranger.get("/", headers=LINK)) == "/"
    assert refusal(stranger.get("/", headers=OWN), 401)


def test_odd_cookies_of_other_servers_do_no_harm(bare: TestClient) -> None:
    table = uploaded(bare, b"a,b\n1,2\n3,4\n")["id"]
    own = f"hhvaem_8765={bare.cookies['hhvaem_8765']}"
    other = TestClient(bare.app, base_url=ADDRESS)
    for odd in ('a={"b": 1}', "a[0]=1", "token", "a=\u00e9"):
        for line in (f"{odd}; {own}", f"{own}; {odd}"):
            answer = other.get(f"/api/tables/{table}", headers={"Cookie": line.encode("latin-1")})
            assert answer.status_code == 200, line


def test_the_cookie_is_for_this_server_alone(bare: TestClient) -> None:
    line = bare.get("/api/about").headers["set-cookie"]
    assert line.startswith("hhvaem_8765=")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= {part.strip() for part in line.split(";")}
    assert "set-cookie" not in bare.get("/api/about").headers


def test_a_forged_cookie_is_nobody(bare: TestClient) -> None:
    table = uploaded(bare, b"a,b\n1,2\n3,4\n")["id"]
    name, _, seal = bare.cookies["hhvaem_8765"].partition(".")
    thief = TestClient(bare.app, base_url=ADDRESS)
    for cookie in (name, f"{name}.", f"{name}.{seal[:-1]}0", f"{name}.{'0' * 64}", "\x7f;=", ""):
        answer = thief.get(f"/api/tables/{table}", headers={"Cookie": f"hhvaem_8765={cookie}"})
        if cookie != f"{name}.{seal}":
            assert answer.status_code == 404
    assert bare.get(f"/api/tables/{table}").status_code == 200


@pytest.fixture
def closed(tmp_path: Path) -> TestClient:
    settings = Settings(door=Door("127.0.0.1", 8765, TOKEN), keep=tmp_path)
    with connected(settings) as browser:
        yield browser


def test_a_token_is_asked_for(closed: TestClient) -> None:
    for path in ("/", "/api/about", "/page/app.js"):
        assert "token" in refusal(closed.get(path), 401)
    wrong = {"Authorization": "Bearer wrong"}
    assert refusal(closed.get("/api/about", headers=wrong), 401)
    assert refusal(closed.get("/?token=wrong", follow_redirects=False), 401)


def test_a_token_lets_programs_in(closed: TestClient) -> None:
    right = {"Authorization": f"Bearer {TOKEN}"}
    assert closed.get("/api/about", headers=right).status_code == 200


def test_a_token_in_the_address_lets_a_browser_in_and_goes_away(closed: TestClient) -> None:
    answer = closed.get("/", params={"token": TOKEN}, follow_redirects=False)
    assert sent_on(answer) == "/"
    assert "set-cookie" in answer.headers
    assert closed.get("/api/about").status_code == 200
    # Whoever has a name already keeps it.
    assert "set-cookie" not in closed.get("/", params={"token": TOKEN}).headers


def test_hosts_of_a_server_for_others() -> None:
    named = Door("192.168.0.7", 8000)
    assert named.knows("192.168.0.7:8000")
    assert not named.knows("192.168.0.8:8000")
    everywhere = Door("0.0.0.0", 8000)
    assert everywhere.knows("192.168.0.8:8000")
    assert not everywhere.knows("evil.example:8000")
    for strange in ("", "a@127.0.0.1:8000", "127.0.0.1:x", "127.0.0.1:8000/x", "[::1",
                    "127.0.0.1:8000?x", "127.0.0.1:8000#x", "127.0.0.1:8000?"):  # fmt: skip
        assert not everywhere.knows(strange), strange
    assert is_loopback("::1")
    assert not is_loopback("0.0.0.0")


def test_names_are_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []
    monkeypatch.setattr(socket, "getfqdn", lambda: looked.append(1) or "this.machine.example")
    security._names.cache_clear()
    try:
        for _ in range(3):
            assert Door("0.0.0.0", 8000).knows("this.machine.example:8000")
    finally:
        security._names.cache_clear()
    assert len(looked) == 1


def test_no_path_of_a_client_is_opened(bare: TestClient) -> None:
    for path in ("/page/../app.py", "/page/%2e%2e/app.py", "/page//etc/passwd", "/page/"):
        assert refusal(bare.get(path), 404)
    assert bare.get("/page/index.html").status_code == 200


def test_errors_are_sentences(bare: TestClient) -> None:
    table = uploaded(bare, b"a,b\n1,2\n3,4\n")["id"]
    jobs = f"/api/tables/{table}/jobs"
    assert "nothing at this address" in refusal(bare.get("/nowhere"), 404)
    assert "such a request" in refusal(bare.patch("/api/about"), 405)
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        answer = bare.post(jobs, content=b'{"task": "fill"}', headers={"content-type": kind})
        assert "`application/json`" in refusal(answer, 415)
    deep = b'{"task": ' + b"[" * 200_000 + b"]" * 200_000 + b"}"
    answer = bare.post(jobs, content=deep, headers={"content-type": "application/json"})
    assert "nested too deeply" in refusal(answer, 400)
    assert "another" not in refusal(bare.get("/page/none.js"), 404)
    strange = b'{"task": "predict", "targets": ["\\ud800"]}'
    answer = bare.post(jobs, content=strange, headers={"content-type": "application/json"})
    assert refusal(answer, 400)
    large = b'{"kinds": {"a": "' + b"x" * (house_of(bare).limits.body_bytes + 1) + b'"}}'
    answer = bare.put(f"/api/tables/{table}/kinds", content=large,
                      headers={"content-type": "application/json"})  # fmt: skip
    assert "larger than" in refusal(answer, 413)


def test_the_private_folder_is_private_and_goes(tmp_path: Path) -> None:
    with connected(Settings(keep=tmp_path / "models")) as browser:
        uploaded(browser, b"a,b\n1,2\n3,4\n")
        folder = house_of(browser).folder
        assert folder.stat().st_mode & 0o777 == 0o700
        names = [path.name for path in folder.rglob("*") if path.is_file()]
        assert "table.feather" in names
        assert not any(name.endswith(".csv") for name in names)
    assert not folder.exists()
    assert not (tmp_path / "models").exists()
