"""The command within this process, so that programs are compiled once for all tests."""

import contextlib
import io
import os
import pty
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

from hhvaem.cli import main


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


# What a shell has started in the background ignores interrupts, and so do its children.
HEARD = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"


def hhvaem(*arguments: Any) -> Done:
    """Run a command as a person does, and give what it printed."""
    out, err, status = io.StringIO(), io.StringIO(), 0
    typed: Sequence[str] = ["hhvaem", *map(str, arguments)]
    with (
        mock.patch.object(sys, "argv", typed),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 0
    return Done(status, out.getvalue(), err.getvalue())


def refused(*arguments: Any) -> str:
    """Run a command that must fail with one sentence, and give the sentence."""
    done = hhvaem(*arguments)
    assert done.returncode == 1, done
    assert done.stdout == ""
    (sentence,) = done.stderr.strip().splitlines()
    assert sentence.startswith("Error: ")
    return sentence.removeprefix("Error: ")


@contextlib.contextmanager
def full_disk(size: int) -> Iterator[None]:
    """Let no file grow beyond so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def interrupted(*arguments: Any, when: bytes) -> tuple[int, str]:
    """Start a command in a terminal of its own, and interrupt it as the keyboard does.

    Parameters
    ----------
    arguments
        What is typed.
    when
        What the command shows when it is interrupted.

    Returns
    -------
    status, message
        How it ended, and the last line that it showed.
    """
    command = [sys.executable, "-c", f"{HEARD}from hhvaem.cli import main; main()"]
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*command, *map(str, arguments)], stdin=theirs, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        seen = b""
        while when not in seen:
            seen += os.read(ours, 1000)
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(OSError):  # at the end
            while more := os.read(ours, 1000):
                seen += more
    os.close(ours)
    assert b"Traceback" not in seen
    *_, said = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", seen.decode()).strip().splitlines()
    return process.returncode, said
