"""Commands that meet a fault in the midst of their work.

Libraries take seconds to import, in which little happens. Run by itself, this file is a process
that has imported all of them and forks a child for each command, so that moments that are chosen
at random are moments of work. No child inherits a backend of JAX: each makes its own.
"""

import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

HERE = Path(__file__)
PROGRAMS = HERE.parents[1] / ".pytest_cache" / "programs-of-victims"
LONGEST = 3600.0  # seconds, after which a command is said to hang


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    status: int
    seconds: float
    stderr: str

    @property
    def said(self) -> str:
        """The only line of a command that tells of a fault and of nothing else."""
        assert "Traceback" not in self.stderr, self.stderr
        lines = [line for line in self.stderr.splitlines() if not line.startswith("Note: ")]
        assert len(lines) == 1, self.stderr
        return lines[0]


class Victims:
    """Starts commands, and ends them."""

    def __init__(self, programs: Path) -> None:
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(HERE.parent), *filter(None, sys.path)]),
            # Of its own, and all there before the first kill: none is half written.
            "JAX_COMPILATION_CACHE_DIR": str(programs),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
            "OPENBLAS_NUM_THREADS": "1",  # threads do not outlive a fork
        }
        self._process = subprocess.Popen(
            [sys.executable, HERE],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip

    def run(
        self,
        folder: Path,
        arguments: Sequence[str] = (),
        *,
        after: float = LONGEST,
        by: int = signal.SIGKILL,
        once: str | None = None,
        first: str = "",
        limits: dict[str, int] | None = None,
    ) -> Ended:
        """Run a command.

        Parameters
        ----------
        folder
            Where.
        arguments
            What is typed; nothing where all is in `first`.
        after, by
            When it gets which signal, if it has not ended: in seconds after the fork.
        once
            A file; where it is named, seconds are counted from when it is there.
        first
            Code that is run before.
        limits
            Of `resource`, by their names; that of `RLIMIT_AS` beyond what is used at the start.
        """
        job = {
            "folder": str(folder), "arguments": list(arguments), "after": after, "by": int(by),
            "once": once, "first": first, "limits": limits or {},
        }  # fmt: skip
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        told = json.loads(self._process.stdout.readline())
        assert not told.pop("hung"), f"{arguments} did not end: {told}"
        return Ended(**told)

    def close(self) -> None:
        self._process.communicate()


def main() -> None:
    """Run what comes by lines of JSON, one after the other."""
    from hhvaem import Imputer, cli, saving

    cli.application()
    assert Imputer
    assert saving
    for line in sys.stdin:
        print(json.dumps(_run(json.loads(line))), flush=True)


def _run(job: dict[str, Any]) -> dict[str, Any]:
    heard, start = os.memfd_create("stderr"), time.monotonic()
    child = os.fork()
    if not child:
        _work(job, heard)
    handle = os.pidfd_open(child)
    hung = False
    if job["once"]:
        begun = Path(job["folder"], job["once"])
        while not begun.exists() and not select.select([handle], [], [], 0.001)[0]:
            pass
    if not select.select([handle], [], [], job["after"])[0]:
        signal.pidfd_send_signal(handle, job["by"])
        hung = not select.select([handle], [], [], LONGEST)[0]
        if hung:
            signal.pidfd_send_signal(handle, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    seconds = time.monotonic() - start
    text = os.pread(heard, 10**6, 0).decode(errors="replace")
    os.close(handle)
    os.close(heard)
    status = os.waitstatus_to_exitcode(status)
    return {"status": status, "seconds": seconds, "stderr": text, "hung": hung}


def _work(job: dict[str, Any], heard: int) -> NoReturn:
    status = 0
    try:
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        os.dup2(0, 1)
        os.dup2(heard, 2)
        os.chdir(job["folder"])
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for name, limit in job["limits"].items():
            used = _address_space() if name == "RLIMIT_AS" else 0
            resource.setrlimit(getattr(resource, name), (used + limit,) * 2)
        from hhvaem.cli import main

        sys.argv = ["hhvaem", *job["arguments"]]
        exec(job["first"], {})
        if job["arguments"]:
            main()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _address_space() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()


if __name__ == "__main__":
    main()
