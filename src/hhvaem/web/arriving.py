"""Requests on their way in: counted while they arrive, and not waited for without end."""

import asyncio
import contextlib
from typing import Any

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException

from hhvaem.web.limits import Limits
from hhvaem.web.plain import Json
from hhvaem.web.security import Receive, Scope, Send

# How long the rest of what is too large is listened to, so that its sender hears why.
PATIENCE = 120.0


class Limited:
    """Refuses requests that say more than they may, or stop on their way.

    Parameters
    ----------
    app
        The service.
    limits
        How much a request may say, and for how long it may be silent.
    """

    def __init__(self, app: Any, limits: Limits) -> None:
        self._app, self._limits = app, limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Count while a request arrives."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        most, large = self._most(scope)
        announced = Headers(scope=scope).get("content-length", "")
        if announced.isdigit() and int(announced) > most:
            await self._at_once(large, receive, send)
            return
        length, whole, answered = 0, False, False

        async def counted() -> Any:
            nonlocal length, whole
            if whole:  # who listens now waits for the other to leave
                return await receive()
            try:
                async with asyncio.timeout(self._limits.waiting_seconds):
                    message = await receive()
            except TimeoutError as error:
                if answered:
                    return {"type": "http.disconnect"}
                raise self._silent(scope) from error
            whole = not message.get("more_body", False)
            length += len(message.get("body", b""))
            if length > most:
                if not whole:
                    await self._ignored(receive)
                raise HTTPException(413, large)
            return message

        async def sent(message: Any) -> None:
            nonlocal answered
            answered = True
            await send(message)

        await self._app(scope, counted, sent)

    def _most(self, scope: Scope) -> tuple[int, str]:
        """Give the bytes that a request may have, and what is said of one with more."""
        if _is_file(scope):
            most = self._limits.upload_bytes
            return most, (
                f"The file is larger than the {most / 2**20:,.0f} MB that this page takes; leave "
                "rows or columns out, or use `hhvaem fit` on the command line."
            )
        most = self._limits.body_bytes
        return most, f"The request is larger than {most / 2**20:,.0f} MB; send fewer rows."

    def _silent(self, scope: Scope) -> HTTPException:
        what = "file" if _is_file(scope) else "request"
        seconds = self._limits.waiting_seconds
        return HTTPException(
            408,
            f"Nothing more of the {what} came for {seconds:g} seconds; send it again.",
            {"Connection": "close"},
        )

    async def _at_once(self, sentence: str, receive: Receive, send: Send) -> None:
        """Refuse what announces that it is too large before it comes.

        Programs hear that and stop. Browsers talk to the end first: the answer stays open for them.
        """
        refusal = Json({"error": sentence}, 413, {"Connection": "close"})
        headers = refusal.raw_headers
        await send({"type": "http.response.start", "status": 413, "headers": headers})
        await send({"type": "http.response.body", "body": refusal.body, "more_body": True})
        await self._ignored(receive)
        await send({"type": "http.response.body", "body": b""})

    async def _ignored(self, receive: Receive) -> None:
        """Listen to the end: browsers do not hear an answer while they are still talking."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                more = True
                while more:
                    async with asyncio.timeout(self._limits.waiting_seconds):
                        more = (await receive()).get("more_body", False)


def _is_file(scope: Scope) -> bool:
    return bool(scope["path"] == "/api/tables")
