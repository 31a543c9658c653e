"""Who asks: a random name for each browser, in a cookie that nobody else can make."""

import hashlib
import hmac
import re
import secrets

_COOKIE = re.compile(r"([A-Za-z0-9_-]{22})\.([0-9a-f]{64})")


class Identities:
    """Names that this server has given out; they end with it.

    Examples
    --------
    >>> names = Identities()
    >>> name, cookie = names.new()
    >>> names.of(cookie) == name, names.of(cookie.replace(".", ".0")), Identities().of(cookie)
    (True, None, None)
    """

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def new(self) -> tuple[str, str]:
        """Give a new name, and the cookie for it."""
        name = secrets.token_urlsafe(16)
        return name, f"{name}.{self._seal(name)}"

    def of(self, cookie: str | None) -> str | None:
        """Give the name in a cookie; None where it is not from here."""
        found = _COOKIE.fullmatch(cookie or "")
        if found is None or not hmac.compare_digest(found[2], self._seal(found[1])):
            return None
        return found[1]

    def _seal(self, name: str) -> str:
        return hmac.new(self._key, name.encode(), hashlib.sha256).hexdigest()


def token() -> str:
    """Give a new random name for a table, a job, a model or a session."""
    return secrets.token_urlsafe(12)
