"""Sessions that are under way, each with its owner."""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from hhvaem.web.asking import Asking
from hhvaem.web.limits import Limits
from hhvaem.web.models import Model
from hhvaem.web.refusals import RefusedError, absent


@dataclass
class Live:
    """A session, and the lock of whoever is at it: answers of two tabs come one after the other."""

    asking: Asking
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    used: float = field(default_factory=time.time)


class Sessions:
    """All sessions of a server.

    Parameters
    ----------
    limits
        How many there may be.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._sessions: dict[str, Live] = {}
        # How many are being begun, of each owner: they have a place already.
        self._begun: Counter[str] = Counter()

    @contextlib.contextmanager
    def room(self, owner: str) -> Iterator[None]:
        """Hold a place for a session until it is `add`ed; idle ones make room for it.

        Raises
        ------
        RefusedError
            Where there are too many, saying what to do.
        """
        if len(self.of(owner)) + self._begun[owner] >= self._limits.sessions:
            raise RefusedError(
                429, f"There are {self._limits.sessions} sessions already; remove one of them."
            )
        if self._is_full() and not self._expire():
            raise RefusedError(429, "This server holds as many sessions as it may; try later.")
        self._begun[owner] += 1
        try:
            yield
        finally:
            self._begun -= Counter((owner,))

    def add(self, asking: Asking) -> None:
        """Take a session in."""
        self._sessions[asking.id] = Live(asking)

    def of(self, owner: str) -> list[Asking]:
        """Give the sessions of an owner, the one that was used last first."""
        own = [live.asking for live in list(self._sessions.values()) if live.asking.owner == owner]
        return sorted(own, key=lambda asking: -asking.changed)

    def get(self, owner: str, name: str) -> Live:
        """Give a session to its owner."""
        live = self._sessions.get(name)
        if live is None or live.asking.owner != owner:
            raise absent("session")
        live.used = time.time()
        return live

    def check_answers(self, live: Live) -> None:
        """Refuse answers without end."""
        if live.asking.answers >= self._limits.answers:
            raise RefusedError(429, "This session has as many answers as it may; begin another.")

    def remove(self, name: str) -> None:
        """Forget a session."""
        self._sessions.pop(name, None)

    def model_gone(self, model: Model) -> None:
        """Forget the sessions of a model that was removed."""
        for name in [n for n, live in self._sessions.items() if live.asking.model == model.id]:
            self._sessions.pop(name)

    def _is_full(self) -> bool:
        return len(self._sessions) + self._begun.total() >= self._limits.all_sessions

    def _expire(self) -> bool:
        """Forget what nobody has looked at for long until there is room; say whether there is."""
        before = time.time() - self._limits.idle_seconds
        for live in sorted(self._sessions.values(), key=lambda live: live.used):
            if live.used < before and not live.lock.locked():
                self.remove(live.asking.id)
                if not self._is_full():
                    return True
        return False
