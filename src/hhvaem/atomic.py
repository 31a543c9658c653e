"""Files that appear whole or not at all: the only way in which this package writes one."""

import contextlib
import os
import stat
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from hhvaem.errors import InputError

if sys.platform != "win32":
    import fcntl


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Open a new file that takes the place of `path` if nothing goes wrong.

    Whatever happens, be it that the power fails, one of the two is there and whole. The new one
    gets the permissions of the old one. What killed writers left in the folder is removed.

    Raises
    ------
    InputError
        Where there is no file but something else, or one that must not be written.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "numbers.txt")
    ...     with replacing(path) as file:
    ...         _ = file.write(b"1 2 3")
    ...         print(path.exists())
    ...     print(path.read_text())
    False
    1 2 3
    """
    check_file(path)
    sweep(path.parent)
    with contextlib.ExitStack() as cleaning:
        # First, as on a disk that is read-only it is not for its permissions.
        beside = _new_file(path.parent, cleaning)
        if path.exists() and not os.access(path, os.W_OK):
            raise InputError(f"{path} cannot be written: its permissions forbid it.")
        with beside.open("wb") as file:
            if path.exists():
                beside.chmod(stat.S_IMODE(path.stat().st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    with contextlib.suppress(OSError):  # some systems cannot make a folder durable
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def sweep(folder: Path) -> None:
    """Remove from a folder what killed writers left there, and nothing of those still at work."""
    for left in folder.glob(".hhvaem.*.tmp"):
        with contextlib.suppress(OSError), _locked(left, wait=False):
            left.unlink()


def check_file(path: Path) -> None:
    """Refuse what is there and is no file.

    Raises
    ------
    InputError
        Naming it.
    """
    if path.exists() and not path.is_file():
        raise InputError(f"{path} is a folder or a device; name a file.")


def _new_file(folder: Path, cleaning: contextlib.ExitStack) -> Path:
    """Make an empty file under a lock; both end with `cleaning`."""
    while True:
        path = folder / f".hhvaem.{uuid.uuid4().hex}.tmp"
        path.touch(exist_ok=False)
        cleaning.callback(path.unlink, missing_ok=True)
        with contextlib.suppress(OSError):  # some file systems have no locks
            cleaning.enter_context(_locked(path, wait=True))
        # Before it had its lock, another process may have taken it for one left behind.
        if path.exists():
            return path


@contextlib.contextmanager
def _locked(path: Path, *, wait: bool) -> Iterator[None]:
    """Hold the lock of a file; it ends with the process, however that ends."""
    if sys.platform == "win32":  # where an open file cannot be removed anyway
        yield
        return
    with path.open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
