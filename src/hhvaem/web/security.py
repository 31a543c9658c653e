"""What every request and every answer goes through: hosts, origins, tokens, cookies, headers."""

import functools
import hmac
import ipaddress
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import HTMLResponse

from hhvaem.web.identity import Identities
from hhvaem.web.plain import Json

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    "Cache-Control": "no-store",
}
LOOPBACK = ("127.0.0.1", "localhost", "::1")
EVERYWHERE = ("0.0.0.0", "::")
# What is no part of a name and a port.
_BESIDE = frozenset("/\\?#@")
# What a browser says of a request that another page has made it send.
_FOREIGN = ("cross-site", "same-site")


def is_loopback(host: str) -> bool:
    """Say whether a host is this machine as only it sees itself.

    Examples
    --------
    >>> is_loopback("127.0.0.2"), is_loopback("localhost"), is_loopback("192.168.0.7")
    (True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


@dataclass(frozen=True)
class Door:
    """Where the service listens, and who may come in.

    Parameters
    ----------
    host, port
        Where it listens.
    token
        What a stranger must know; None where nobody is one.
    identities
        The names that were given out.
    """

    host: str = "127.0.0.1"
    port: int = 8765
    token: str | None = None
    identities: Identities = field(default_factory=Identities)

    @property
    def cookie(self) -> str:
        """The name of the cookie: browsers do not tell the ports of a host apart."""
        return f"hhvaem_{self.port}"

    def knows(self, authority: str) -> bool:
        """Say whether this is a name of this server, and not one that was pointed at it.

        Examples
        --------
        >>> door = Door(port=8765)
        >>> door.knows("localhost:8765"), door.knows("localhost:80"), door.knows("evil.example")
        (True, False, False)
        """
        if set(authority) & _BESIDE:
            return False
        try:
            parts = urlsplit(f"//{authority}")
            name, port = (parts.hostname or "").lower(), parts.port or 80
        except ValueError:
            return False
        if port != self.port:
            return False
        if name in LOOPBACK or name == self.host.lower():
            return True
        if self.host not in EVERYWHERE:
            return False
        # A number cannot be pointed elsewhere, as a name can.
        return _is_address(name) or name in _names()

    def admits(self, given: str | None) -> bool:
        """Say whether a token is the right one."""
        return self.token is None or (
            given is not None and hmac.compare_digest(given.encode(), self.token.encode())
        )


class Guard:
    """The outermost layer of the service.

    Parameters
    ----------
    app
        The service.
    door
        Who may come in.
    """

    def __init__(self, app: Any, door: Door) -> None:
        self._app, self._door = app, door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or answer it here."""
        if scope["type"] != "http":
            # There are no web sockets here.
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await refusal(scope, receive, _guarded(send, None))
            return
        owner = self._door.identities.of(_cookies(headers).get(self._door.cookie))
        asked = parse_qs(scope["query_string"].decode("latin-1")).get("token", [None])[0]
        withheld = owner is None and _navigates(scope, headers) and _is_foreign(headers)
        if withheld and asked is None:
            # A browser keeps a strict cookie to itself where a link on another page leads here: a
            # new one would take the place of the old, with all that belongs to it.
            await _onward("/")(scope, receive, _guarded(send, None))
            return
        new = None
        if owner is None:
            if not self._door.admits(_bearer(headers) or asked):
                sentence = (
                    "This server needs its token: open the address that `hhvaem serve` has "
                    "printed, or send the header `Authorization: Bearer TOKEN`."
                )
                await Json({"error": sentence}, 401)(scope, receive, _guarded(send, None))
                return
            if withheld and asked is not None:
                again = _onward(f"/?token={quote(asked, safe='')}")
                await again(scope, receive, _guarded(send, None))
                return
            owner, cookie = self._door.identities.new()
            new = f"{self._door.cookie}={cookie}; Path=/; HttpOnly; SameSite=Strict"
        if scope["path"] == "/" and asked is not None:
            # The token does not stay in the address.
            await _onward("/")(scope, receive, _guarded(send, new))
            return
        scope.setdefault("state", {})["owner"] = owner
        await self._app(scope, receive, _guarded(send, new))

    def _refusal(self, scope: Scope, headers: Headers) -> Json | None:
        if len(headers.getlist("host")) != 1 or not self._door.knows(headers["host"]):
            return Json(
                {
                    "error": "This server is asked for under a name that is not its own; open the "
                    "address that `hhvaem serve` has printed."
                },
                403,
            )
        origin = headers.get("origin")
        foreign = _is_foreign(headers) and not _navigates(scope, headers)
        if foreign or (origin is not None and not self._is_own(origin, headers["host"])):
            return Json(
                {
                    "error": "This request comes from another page, which may not use this server; "
                    "use its own page."
                },
                403,
            )
        return None

    @staticmethod
    def _is_own(origin: str, host: str) -> bool:
        return origin.lower() in (f"http://{host}".lower(), f"https://{host}".lower())


def _guarded(send: Send, cookie: str | None) -> Send:
    async def sending(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
            if cookie is not None:
                headers.append("Set-Cookie", cookie)
        await send(message)

    return sending


def _onward(address: str) -> HTMLResponse:
    """Send a browser on from a page of ours: unlike a redirect, it then comes from here.

    It asks as `same-origin` and brings its cookie, so that it is sent on once and not for ever.
    """
    return HTMLResponse(
        '<!doctype html><html lang="en"><title>hhvaem</title>'
        f'<meta http-equiv="refresh" content="0;url={address}">'
    )


def _navigates(scope: Scope, headers: Headers) -> bool:
    """Say whether a person goes to the page, as a link on another page may let them."""
    mode = headers.get("sec-fetch-mode", "navigate")
    return scope["path"] == "/" and scope["method"] == "GET" and mode == "navigate"


def _is_foreign(headers: Headers) -> bool:
    return headers.get("sec-fetch-site") in _FOREIGN


def _cookies(headers: Headers) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in headers.getlist("cookie"):
        # As browsers write them: other servers of this host may have odd ones in the same line.
        found |= cookie_parser(line)
    return found


def _bearer(headers: Headers) -> str | None:
    scheme, _, given = headers.get("authorization", "").partition(" ")
    return given.strip() if scheme.lower() == "bearer" else None


@functools.cache
def _names() -> tuple[str, ...]:
    """Give the names of this machine, once: looking them up may take seconds."""
    return (socket.gethostname().lower(), socket.getfqdn().lower())


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
