"""A server in a process of its own, and browsers; skipped where there is none."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("selenium", reason="selenium is not installed")

from browsing import CHROMIUM, DRIVER, Page, started

SERVE = "from hhvaem.cli import main; main()"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave these tests out where no browser is."""
    if CHROMIUM and DRIVER:
        return
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.skip(reason="chromium or chromedriver is not installed"))


@pytest.fixture(scope="session")
def address(model_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a server with a model listens."""
    keep = tmp_path_factory.mktemp("kept")
    command = [sys.executable, "-c", SERVE, "serve", str(model_file), "--port", "0", "--no-open"]
    server = subprocess.Popen(
        [*command, "--keep", str(keep)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1", "COLUMNS": "200"},
    )
    assert server.stdout is not None
    found = None
    while found is None:
        line = server.stdout.readline()
        assert line, "the server has ended before it began"
        found = re.search(r"http://127\.0\.0\.1:\d+", line)
    yield found.group()
    server.send_signal(signal.SIGINT)
    server.communicate(timeout=30)


@pytest.fixture
def page(address: str, tmp_path: Path) -> Iterator[Page]:
    """The page in a fresh browser, about which nothing is to be complained afterwards."""
    driver = started(tmp_path / "profile")
    shown = Page(driver, address)
    shown.open()
    yield shown
    complaints, strangers = shown.complaints(), shown.strangers()
    driver.quit()
    assert not complaints
    assert not strangers
