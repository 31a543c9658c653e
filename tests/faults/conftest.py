"""What all tests of faults share."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from victims import PROGRAMS, Victims


@pytest.fixture(scope="session")
def victims() -> Iterator[Victims]:
    """A process that starts commands and ends them."""
    started = Victims(PROGRAMS)
    yield started
    started.close()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Make a file system of its own, for which one must be root."""
    made: list[Path] = []

    def make(options: str) -> Path:
        path = tmp_path / f"disk {len(made)}"
        path.mkdir()
        typed = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", path]
        if os.geteuid() or subprocess.run(typed, capture_output=True).returncode:
            pytest.skip("nobody but root mounts a file system")
        made.append(path)
        return path

    yield make
    for path in made:
        subprocess.run(["umount", "-l", path], check=True)
