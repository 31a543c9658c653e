"""`hhvaem serve`: a page in a browser, and a service for programs, on this machine."""

import contextlib
import secrets
import socket
import tempfile
import webbrowser
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer
from rich.console import Console
from rich.markup import escape

from hhvaem.cli import leaving_at_once
from hhvaem.cli.places import bold
from hhvaem.errors import InputError

PORT = 8765
# How many ports after the usual one are tried where it is taken.
TRIED = 20


def serve(
    model: Annotated[
        Path | None,
        typer.Argument(metavar="[MODEL]", help="A file that `hhvaem fit` wrote, for everybody."),
    ] = None,
    host: Annotated[
        str,
        typer.Option(
            metavar="HOST",
            help="Where to listen. Others than this machine can then come in, with a token.",
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            metavar="N",
            help=f"The port, 0 for any that is free; else {PORT}, or the next one that is free.",
        ),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="What strangers must know, of 8 plain characters or more; made up where --host "
            "needs one.",
        ),
    ] = None,
    keep: Annotated[
        Path,
        typer.Option(metavar="FOLDER", help="Where finished models are kept."),
    ] = Path("hhvaem-models"),
    no_open: Annotated[
        bool, typer.Option("--no-open", metavar="", help="Do not open a browser.")
    ] = False,
) -> None:
    """Open a page to fill tables and to be asked questions, and a service for programs.

    Tables stay on this machine, and are removed when the server ends; finished models are kept.
    Ctrl-C ends it.
    """
    with leaving_at_once():
        try:
            from hhvaem.web import running
        except ModuleNotFoundError as error:
            raise InputError(
                f"The page needs the package {error.name}; install hhvaem with its extra, in its "
                "folder: pip install '.[web]'."
            ) from error
        from hhvaem.web.house import Settings
        from hhvaem.web.models import served
        from hhvaem.web.security import EVERYWHERE, Door, is_loopback
    if token is not None and (len(token) < 8 or not token.isascii() or not token.isprintable()):
        raise InputError(
            "The token is too short or has strange letters; give at least 8 plain ones."
        )
    _check_keep(keep)
    if token is None and not is_loopback(host):
        token = secrets.token_urlsafe(18)
    with leaving_at_once():
        given = None if model is None else served(model)
    console = Console(highlight=False)
    listening = _listening(host, port)
    chosen = listening.getsockname()[1]
    address = _address(host, chosen, token)
    settings = Settings(Door(host, chosen, token), keep=keep, served=given)

    def ready() -> None:
        console.print(f"The page is at [bold]{escape(address)}[/]", soft_wrap=True)
        if host in EVERYWHERE:
            there = _address(socket.gethostname(), chosen, token)
            console.print(
                f"On other machines it is at [bold]{escape(there)}[/]; where they do not know that "
                "name, put the address of this machine in the network in its place.",
                soft_wrap=True,
            )
        if not is_loopback(host):
            console.print(
                "Other machines can come in with the token, over a connection that is not "
                "encrypted: use it in a network that you trust.",
                soft_wrap=True,
            )
        console.print("Ctrl-C ends it.")
        if not no_open:
            webbrowser.open(address)

    before = _models(keep)
    running.run(settings, listening, ready)
    new = sorted(_models(keep) - before)
    if new:
        console.print(f"\nKept in {bold(keep)}:", *(f"  {escape(name)}" for name in new), sep="\n")
    console.print("The server has ended; uploaded tables are removed.")


def _check_keep(folder: Path) -> None:
    """Refuse a folder that models cannot be written to; it is made when there is a model."""
    made: list[Path] = []
    try:
        made += [each for each in (folder, *folder.parents) if not each.exists()]
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            file.write(b"a model")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"Models cannot be kept in {folder}: {reason}; name another folder with --keep."
        ) from error
    finally:
        for each in made:
            with contextlib.suppress(OSError):
                each.rmdir()


def _models(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("model-*.hhvaem")}


def _listening(host: str, port: int | None) -> socket.socket:
    from hhvaem.web.running import PortError, bound

    if port is not None:
        return bound(host, port)
    for tried in range(PORT, PORT + TRIED):
        try:
            return bound(host, tried)
        except PortError:
            continue
    return bound(host, PORT)


def _address(host: str, port: int, token: str | None) -> str:
    from hhvaem.web.security import EVERYWHERE

    name = "127.0.0.1" if host in EVERYWHERE else host
    name = f"[{name}]" if ":" in name else name
    return f"http://{name}:{port}/" + (f"?token={quote(token, safe='')}" if token else "")
