"""The fetcher against a real server on this machine, with all the faults servers have."""

import gzip
import hashlib
import io
import os
import re
import threading
import time
import zipfile
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from hhvaem.datasets import CATALOGUE, fetch, load
from hhvaem.datasets.download import Patience, put
from hhvaem.datasets.records import Entry, File
from hhvaem.errors import InputError

CONTENT = os.urandom(1000) * 300
QUICK = Patience(attempts=3, timeout=5.0, pause=0.001)


@dataclass
class Page:
    """What the server does at one address."""

    content: bytes = b""
    status: int = 200
    ranges: bool = True
    drops: list[int] = field(default_factory=list)  # break off after so many bytes, in turn
    silent: bool = False
    location: str = ""
    length: bool = True
    lies_about_range: bool = False


@dataclass
class Site:
    """A server: its pages, and what it was asked and gave."""

    url: str = ""
    pages: dict[str, Page] = field(default_factory=dict)
    served: list[tuple[str, str | None, int]] = field(default_factory=list)
    done: threading.Event = field(default_factory=threading.Event)

    def put(self, path, **page):
        self.pages[path] = Page(**page)
        return self.url + path

    def answer(self, request):
        page = self.pages.get(request.path, Page(status=404))
        asked = request.headers.get("Range")
        if page.silent:
            self.done.wait(5)
            return
        start, status = 0, page.status
        if asked and page.ranges and status == 200:
            start, status = int(re.fullmatch(r"bytes=(\d+)-", asked)[1]), 206
            if start >= len(page.content):
                status = 416
        body = page.content[start:] if status in (200, 206) else b""
        sent = body[: page.drops.pop(0)] if page.drops else body
        self.served.append((request.path, asked, len(sent)))
        request.send_response(status)
        if page.location:
            request.send_header("Location", page.location)
        if status == 206:
            told = start + 1 if page.lies_about_range else start
            end, total = len(page.content) - 1, len(page.content)
            request.send_header("Content-Range", f"bytes {told}-{end}/{total}")
        if page.length:
            request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(sent)


@pytest.fixture
def site():
    site = Site()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            site.answer(self)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    site.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield site
    site.done.set()
    server.shutdown()
    thread.join()
    server.server_close()


def a_file(*urls, content=CONTENT, path="toy/toy.data"):
    return File(path, len(content), (hashlib.sha256(content).hexdigest(),), urls)


def an_entry(*files):
    return Entry("toy", "A toy", 1, files, "none", ("y",))


def left(folder):
    return sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    )


def zipped(**members):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "/"), content)
    return stream.getvalue()


def test_a_good_server(site, tmp_path):
    entry = an_entry(a_file(site.put("/toy", content=CONTENT)))
    seen = []
    paths = fetch(entry, tmp_path, progress=lambda *news: seen.append(news), patience=QUICK)
    assert paths == [tmp_path / "toy/toy.data"]
    assert paths[0].read_bytes() == CONTENT
    assert left(tmp_path) == ["toy/toy.data"]
    assert seen[-1] == ("toy.data", len(CONTENT), len(CONTENT))
    assert [news[1] for news in seen] == sorted(news[1] for news in seen)
    fetch(entry, tmp_path, patience=QUICK)
    assert len(site.served) == 1  # nothing is downloaded twice


def test_a_server_that_does_not_say_how_much(site, tmp_path):
    entry = an_entry(a_file(site.put("/toy", content=CONTENT, length=False)))
    seen = []
    fetch(entry, tmp_path, progress=lambda *news: seen.append(news), patience=QUICK)
    assert seen[-1] == ("toy.data", len(CONTENT), None)


def test_a_broken_download_goes_on_where_it_stopped(site, tmp_path):
    url = site.put("/toy", content=CONTENT, drops=[70_000, 50_000])
    (path,) = fetch(an_entry(a_file(url)), tmp_path, patience=QUICK)
    assert path.read_bytes() == CONTENT
    assert [(asked, sent) for _, asked, sent in site.served] == [
        (None, 70_000),
        ("bytes=70000-", 50_000),
        ("bytes=120000-", len(CONTENT) - 120_000),
    ]


def test_a_later_run_goes_on_too(site, tmp_path):
    url = site.put("/toy", content=CONTENT, drops=[10_000, 20_000, 30_000])
    with pytest.raises(
        InputError, match=r"'toy' could not be fetched .*broke after 60000 of 300000"
    ):
        fetch(an_entry(a_file(url)), tmp_path, patience=QUICK)
    assert not (tmp_path / "toy/toy.data").exists()
    assert [name.endswith(".part") for name in left(tmp_path)] == [True]
    fetch(an_entry(a_file(url)), tmp_path, patience=QUICK)
    assert site.served[-1][1:] == ("bytes=60000-", len(CONTENT) - 60_000)
    assert left(tmp_path) == ["toy/toy.data"]


def test_a_server_that_ignores_ranges(site, tmp_path):
    url = site.put("/toy", content=CONTENT, drops=[70_000], ranges=False)
    (path,) = fetch(an_entry(a_file(url)), tmp_path, patience=QUICK)
    assert path.read_bytes() == CONTENT
    assert site.served[-1] == ("/toy", "bytes=70000-", len(CONTENT))


@pytest.mark.parametrize(
    "stale",
    [b"old" * 1000, CONTENT + b"too long", CONTENT],
    ids=["of another file", "too long", "all of it"],
)
def test_a_stale_part_is_thrown_away(site, tmp_path, stale):
    """Bytes of another file, more bytes than there are, and all of them: every one must heal."""
    url = site.put("/toy", content=CONTENT, drops=[0, 0, 0])
    entry = an_entry(a_file(url))
    with pytest.raises(InputError):
        fetch(entry, tmp_path, patience=QUICK)
    (part,) = (tmp_path / "toy").iterdir()
    part.write_bytes(stale)
    (path,) = fetch(entry, tmp_path, patience=QUICK)
    assert path.read_bytes() == CONTENT


def test_a_server_that_sends_another_range(site, tmp_path):
    url = site.put("/toy", content=CONTENT, drops=[70_000], lies_about_range=True)
    (path,) = fetch(an_entry(a_file(url)), tmp_path, patience=QUICK)
    assert path.read_bytes() == CONTENT
    assert [asked for _, asked, _ in site.served] == [None, "bytes=70000-", None]


def test_a_wrong_file_leaves_nothing(site, tmp_path):
    url = site.put("/toy", content=b"<html>Moved, sorry</html>")
    with pytest.raises(InputError, match=r"'toy' could not.*what came is not the published file"):
        fetch(an_entry(a_file(url)), tmp_path, patience=QUICK)
    assert left(tmp_path) == []
    assert len(site.served) == 1


def test_a_wrong_file_in_place_is_fetched_again(site, tmp_path):
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy/toy.data").write_bytes(b"wrong")
    (path,) = fetch(an_entry(a_file(site.put("/toy", content=CONTENT))), tmp_path, patience=QUICK)
    assert path.read_bytes() == CONTENT


def test_not_found_is_not_asked_again(site, tmp_path):
    asked = []
    answer = site.answer
    site.answer = lambda request: (asked.append(request.path), answer(request))
    with pytest.raises(InputError, match=r"could not be fetched \(HTTP status 404\)"):
        fetch(an_entry(a_file(f"{site.url}/gone")), tmp_path, patience=QUICK)
    assert asked == ["/gone"]


def test_the_second_source_helps_out(site, tmp_path):
    bad, good = site.put("/bad", content=b"bad"), site.put("/good", content=CONTENT)
    urls = (f"{site.url}/gone", bad, good)
    (path,) = fetch(an_entry(a_file(*urls)), tmp_path, patience=QUICK)
    assert path.read_bytes() == CONTENT
    assert left(tmp_path) == ["toy/toy.data"]


def test_a_busy_server_is_asked_a_bounded_number_of_times(site, tmp_path):
    url = site.put("/toy", status=503)
    with pytest.raises(InputError, match="HTTP status 503"):
        fetch(an_entry(a_file(url)), tmp_path, patience=QUICK)
    assert len(site.served) == QUICK.attempts


def test_pauses_double(site, tmp_path, monkeypatch):
    pauses = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    with pytest.raises(InputError):
        fetch(
            an_entry(a_file(site.put("/toy", status=500))),
            tmp_path,
            patience=Patience(attempts=4, timeout=5.0, pause=1.0),
        )
    assert pauses == [1.0, 2.0, 4.0]


def test_a_silent_server(site, tmp_path):
    patience = Patience(attempts=2, timeout=0.05, pause=0.001)
    with pytest.raises(InputError, match=r"could not be fetched \(timed out\)"):
        fetch(an_entry(a_file(site.put("/toy", silent=True))), tmp_path, patience=patience)


def test_no_server_at_all(tmp_path, caplog):
    """Each attempt is a line with its address; the error has the reason once, and the place."""
    urls = "http://127.0.0.1:9/toy", "http://127.0.0.1:9/other"
    with pytest.raises(InputError) as caught:
        fetch(an_entry(a_file(*urls)), tmp_path, patience=QUICK)
    assert str(caught.value) == (
        "The data set 'toy' could not be fetched (Connection refused); try again later, or put "
        f"the file by hand at {tmp_path / 'toy/toy.data'}."
    )
    assert caplog.messages == [
        f"{url}: Connection refused; {end}."
        for url in urls
        for end in ("attempt 2 of 3 in 0.001 s", "attempt 3 of 3 in 0.002 s", "given up")
    ]


def test_redirections(site, tmp_path):
    there = site.put("/there", content=CONTENT)
    here = site.put("/here", status=302, location=there)
    fetch(an_entry(a_file(here)), tmp_path, patience=QUICK)
    assert left(tmp_path) == ["toy/toy.data"]


@pytest.mark.parametrize("target", ["file:///etc/hostname", "ftp://127.0.0.1/toy"])
def test_only_the_web(site, tmp_path, target):
    redirected = site.put("/toy", status=302, location=target)
    for url in (target, redirected):
        with pytest.raises(InputError, match=r"not an address on the web|HTTP status 302"):
            fetch(an_entry(a_file(url)), tmp_path, patience=QUICK)
    assert left(tmp_path) == []


def test_gzip(site, tmp_path):
    url = site.put("/toy.gz", content=gzip.compress(CONTENT))
    (path,) = fetch(an_entry(a_file(url)), tmp_path, patience=QUICK)
    assert path.read_bytes() == CONTENT


def test_nested_archive_is_downloaded_once(site, tmp_path):
    inner = zipped(deep__toy_data=CONTENT, **{"__MACOSX__._toy_data": b"rubbish"})
    url = site.put(
        "/all.zip", content=zipped(other=b"unwanted", **{"inner.zip": inner, "two": b"2"})
    )
    files = a_file(url, path="toy/toy_data"), a_file(url, path="toy/two", content=b"2")
    fetch(an_entry(*files), tmp_path, patience=QUICK)
    assert left(tmp_path) == ["toy/toy_data", "toy/two"]
    assert len(site.served) == 1


def test_the_member_with_the_right_content_wins(site, tmp_path):
    url = site.put("/all.zip", content=zipped(old__toy=b"old", new__toy=CONTENT))
    (path,) = fetch(an_entry(a_file(url, path="toy/toy")), tmp_path, patience=QUICK)
    assert path.read_bytes() == CONTENT


def test_members_do_not_climb_out(site, tmp_path):
    url = site.put("/all.zip", content=zipped(**{"../../toy.data": CONTENT, "../evil": b"evil"}))
    folder = tmp_path / "a/b"
    fetch(an_entry(a_file(url)), folder, patience=QUICK)
    assert left(tmp_path) == ["a/b/toy/toy.data"]


def test_archives_that_are_none(site, tmp_path):
    whole = zipped(**{"toy.data": CONTENT})
    for name, content in {"cut": whole[:-30], "empty": b"PK", "else": zipped(other=b"")}.items():
        url = site.put(f"/{name}.zip", content=content)
        with pytest.raises(InputError, match="not the published file"):
            fetch(an_entry(a_file(url)), tmp_path, patience=QUICK)
    assert left(tmp_path) == []


def test_a_huge_answer_is_cut_off(site, tmp_path, monkeypatch):
    monkeypatch.setattr("hhvaem.datasets.download._LARGEST", 100_000)
    with pytest.raises(InputError, match="larger than any file"):
        fetch(an_entry(a_file(site.put("/toy", content=CONTENT))), tmp_path, patience=QUICK)
    assert left(tmp_path) == []


def test_a_member_that_is_too_large_is_not_read(site, tmp_path, monkeypatch):
    monkeypatch.setattr(zipfile.ZipFile, "read", None)
    small = a_file(
        site.put("/all.zip", content=zipped(toy=bytes(1 << 20))), path="toy/toy", content=b"1"
    )
    with pytest.raises(InputError, match="not the published file"):
        fetch(an_entry(small), tmp_path, patience=QUICK)


def test_a_folder_that_cannot_be(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InputError, match=r"'wine' cannot be written to .*--folder"):
        fetch("wine", tmp_path / "file")


def test_scikit_learn_is_asked_first(tmp_path):
    (path,) = fetch("wine", tmp_path)
    assert path == tmp_path / "wine/wine_data.csv"
    assert load("wine", folder=tmp_path).table.num_rows == 178


def test_what_is_there_is_left_alone(data_folder):
    for name in ("energy", "bank", "celeba"):
        for path in fetch(name, data_folder):
            assert data_folder in path.parents


def test_what_is_no_name(as_users_have_it):
    with pytest.raises(InputError, match="There is no data set 5; there are bank, insurance,"):
        fetch(5)


def test_celeba_is_not_fetched(tmp_path):
    with pytest.raises(InputError, match=r"CelebA may not be passed on.*put both into .*celeba"):
        fetch("celeba", tmp_path)


def test_every_file_has_a_source_or_is_to_be_got_by_hand():
    for entry in CATALOGUE.values():
        for file in entry.files:
            assert bool(file.sources) != bool(entry.by_hand), file.path
            assert all(url.startswith(("http://", "https://")) for url in file.sources)
            assert all(re.fullmatch("[0-9a-f]{64}", checksum) for checksum in file.sha256)
            assert file.path.split("/")[0] in (entry.name, "winequality", "bank")


def test_a_file_is_in_place_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "toy"
    put(b"old", path)

    def interrupted(half, target):
        assert half.read_bytes() == b"new"
        assert target.read_bytes() == b"old"
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        put(b"new", path)
    assert path.read_bytes() == b"old"
    assert left(tmp_path) == ["toy"]
