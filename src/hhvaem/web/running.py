"""A server on a socket, from its start to its end."""

import contextlib
import errno
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import FrameType

import uvicorn

from hhvaem.errors import InputError
from hhvaem.web.app import create_app
from hhvaem.web.compute import without_notes
from hhvaem.web.house import Settings

# How long open requests are waited for at the end.
GRACE = 3


class PortError(InputError):
    """A port that cannot be used, where another may."""


def bound(host: str, port: int) -> socket.socket:
    """Open a socket to listen on; port 0 is any that is free.

    Raises
    ------
    PortError
        Where the port cannot be used.
    InputError
        Where the host is none of this machine.
    """
    if not host.strip():
        raise InputError(
            "The host is empty; give an address of this machine with --host, such as 0.0.0.0 for "
            "all that it has."
        )
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with contextlib.ExitStack() as failing:
            listening = failing.enter_context(socket.socket(family, kind, protocol))
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            # Two may be bound to a port, and only one of them listens.
            listening.listen()
            failing.pop_all()
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        if isinstance(error, UnicodeError | socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
            raise InputError(
                f"{host} is no address of this machine: {reason}; give another with --host, such "
                "as 0.0.0.0 for all that it has."
            ) from error
        raise PortError(
            f"Port {port} of {host} cannot be used: {reason}; choose another with --port, or any "
            "free one with --port 0."
        ) from error
    return listening


class Server(uvicorn.Server):
    """A server that ends quietly when it is asked to, and then gives control back."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Let Ctrl-C, SIGTERM and the end of the terminal end the server, and nothing else."""

        def ask(number: int, frame: FrameType | None) -> None:
            self.handle_exit(number, frame)

        before = {number: signal.signal(number, ask) for number in _endings()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End jobs first: who listens to one hears its end, and is not waited for."""
        self.lifespan.state["house"].jobs.close()
        await super().shutdown(sockets)


def _endings() -> list[signal.Signals]:
    """Give the signals that ask for the end."""
    if sys.platform == "win32" or signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        # Where `nohup` has said that the end of the terminal is none.
        return [signal.SIGINT, signal.SIGTERM]
    return [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


def run(settings: Settings, listening: socket.socket, ready: Callable[[], None]) -> None:
    """Serve until somebody ends it.

    Parameters
    ----------
    settings
        How; its port is that of the socket.
    listening
        From `bound`.
    ready
        Called once requests are answered.
    """
    without_notes()
    # Workers need some of an accelerator's memory, too.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    port = listening.getsockname()[1]
    settings = replace(settings, door=replace(settings.door, port=port))
    config = uvicorn.Config(
        create_app(settings),
        lifespan="on",
        access_log=False,
        # What goes wrong inside is told by the service; of requests that the end cuts off, nothing.
        log_level="critical",
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=GRACE,
        ws="none",
        http="h11",
    )
    server = Server(config)
    started = server.startup

    async def startup(sockets: list[socket.socket] | None = None) -> None:
        await started(sockets)
        if server.started:
            ready()

    server.startup = startup  # type: ignore[method-assign]
    server.run(sockets=[listening])
