"""One file over HTTP: resumed, retried, bounded."""

import http.client
import logging
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hhvaem.atomic import replacing
from hhvaem.errors import InputError

Progress = Callable[[int, int | None], None]

LOG = logging.getLogger("hhvaem.datasets")

_CHUNK = 1 << 16
_LARGEST = 256 << 20  # several times the largest file of the catalogue
_WORTH_RETRYING = frozenset({408, 429, 500, 502, 503, 504})


@dataclass(frozen=True)
class Patience:
    """How long to try.

    Parameters
    ----------
    attempts
        How often a server is asked before it is given up.
    timeout
        Seconds that it may be silent.
    pause
        Seconds before the second attempt, doubled before each further one.
    """

    attempts: int = 4
    timeout: float = 30.0
    pause: float = 1.0


class _StaleError(Exception):
    """What was downloaded before does not fit what the server has now."""


class _WebOnly(urllib.request.HTTPRedirectHandler):
    """Follow redirections, but never away from the web."""

    def redirect_request(
        self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: str
    ) -> Any:
        _check_scheme(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def download(url: str, part: Path, progress: Progress, patience: Patience) -> bool:
    """Download into `part`, going on where an earlier attempt, or an earlier run, stopped.

    Parameters
    ----------
    url
        An http or https address.
    part
        The file to fill. It stays when the download fails half-way, to be resumed.
    progress
        Called with the bytes so far and, where the server says so, the bytes in all.
    patience
        How long to try.

    Returns
    -------
    bool
        Whether bytes of an earlier run are in it, which may be stale: nothing but the checksum
        of the content can tell.

    Raises
    ------
    InputError
        Where the server refuses, or no attempt comes to the end; the message is the reason alone.
    """
    _check_scheme(url)
    earlier = part.exists()
    reason = "it gave nothing"
    for attempt in range(patience.attempts):
        if attempt:
            pause = patience.pause * 2 ** (attempt - 1)
            tries = f"attempt {attempt + 1} of {patience.attempts}"
            LOG.warning("%s: %s; %s in %g s.", url, reason, tries, pause)
            time.sleep(pause)
        try:
            resumed = _go_on(url, part, progress, patience.timeout)
            return earlier and resumed
        except urllib.error.HTTPError as error:
            error.close()
            reason = f"HTTP status {error.code}"
            if error.code not in _WORTH_RETRYING:
                break
        except InputError:
            part.unlink(missing_ok=True)
            raise
        except _StaleError:
            part.unlink()
            earlier = False
            reason = "it changed while it was being downloaded"
        except urllib.error.URLError as error:
            reason = getattr(error.reason, "strerror", None) or str(error.reason)
        except (OSError, http.client.HTTPException) as error:
            reason = str(error) or type(error).__name__
    raise InputError(reason)


def _go_on(url: str, part: Path, progress: Progress, timeout: float) -> bool:
    """Ask for the bytes that are missing; say whether the server gave just those."""
    have = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "hhvaem", **({"Range": f"bytes={have}-"} if have else {})}
    request = urllib.request.Request(url, headers=headers)
    opener = urllib.request.build_opener(_WebOnly)
    try:
        response = opener.open(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        if error.code == 416:  # nothing behind the end of what is here
            error.close()
            raise _StaleError from error
        raise
    with response:
        resumed = response.status == 206
        if resumed and not response.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            raise _StaleError
        done = have if resumed else 0
        length = response.headers.get("Content-Length")
        total = done + int(length) if length is not None else None
        with part.open("ab" if resumed else "wb") as file:
            while chunk := response.read(_CHUNK):
                done += len(chunk)
                if max(done, total or 0) > _LARGEST:
                    raise InputError("it is larger than any file of the catalogue")
                file.write(chunk)
                progress(done, total)
    # A connection that breaks ends the loop like one that is closed in good order.
    if total is not None and done < total:
        raise ConnectionError(f"the connection broke after {done} of {total} bytes")
    return resumed


def _check_scheme(url: str) -> None:
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        raise InputError(f"{url} is not an address on the web (http or https)")


def put(content: bytes, path: Path) -> None:
    """Write a file, whole or not at all, in a folder that is made where there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(content)
