"""The private folder of a server: made when it starts, removed when it ends."""

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

if sys.platform != "win32":
    import fcntl

PREFIX = "hhvaem-serve-"


@contextlib.contextmanager
def private_folder() -> Iterator[Path]:
    """Give a new folder that nobody else can look into, and remove it at the end.

    What servers that were killed have left behind is removed first.
    """
    _sweep(Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    with contextlib.ExitStack() as ending:
        ending.callback(shutil.rmtree, folder, ignore_errors=True)
        lock = ending.enter_context((folder / "lock").open("wb"))
        _hold(lock)
        yield folder


def stored_bytes(folder: Path) -> int:
    """Give the bytes of all files below a folder; others may remove them meanwhile."""
    total = 0
    for where, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.stat(os.path.join(where, name)).st_size
    return total


def _sweep(parent: Path) -> None:
    if sys.platform == "win32":
        return  # where nothing tells the folder of a server at work from what was left
    for left in parent.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if left.is_symlink() or (hasattr(os, "getuid") and left.stat().st_uid != os.getuid()):
                continue
            with (left / "lock").open("r+b") as lock:
                _hold(lock)  # which fails where its server is at work
                shutil.rmtree(left, ignore_errors=True)


def _hold(lock: IO[bytes]) -> None:
    if sys.platform != "win32":
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
