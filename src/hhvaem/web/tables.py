"""Tables that were uploaded, each with its owner."""

import contextlib
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import feather

from hhvaem.web.columns import Found, find
from hhvaem.web.folder import stored_bytes
from hhvaem.web.identity import token
from hhvaem.web.limits import Limits
from hhvaem.web.refusals import RefusedError, absent


@dataclass
class Table:
    """A table, and what is said about its columns.

    Parameters
    ----------
    id, owner, name
        Its own name, whose it is, and what that one calls it.
    folder
        Where it lies, alone.
    kinds, orders
        What the owner has said of columns.
    """

    id: str
    owner: str
    name: str
    folder: Path
    kinds: dict[str, str] = field(default_factory=dict)
    orders: dict[str, list[str]] = field(default_factory=dict)
    found: list[Found] = field(default_factory=list)
    data: pa.Table = None
    created: float = field(default_factory=time.time)
    used: float = field(default_factory=time.time)
    # `threading.Lock` itself is no type before Python 3.13, but a function.
    _saying: contextlib.AbstractContextManager[Any] = field(
        default_factory=threading.Lock, repr=False
    )

    @property
    def path(self) -> Path:
        """The file of the table."""
        return self.folder / "table.feather"

    def look(self) -> None:
        """Open the file, and say what the columns are."""
        self.data, self.found = find(self._mapped(), self.kinds, self.orders)

    def say(self, kinds: Mapping[str, str], orders: Mapping[str, Sequence[str]]) -> dict[str, Any]:
        """Take what the owner says of columns, and give the table that comes of it.

        One after the other: two tabs would else be told what the other has said.

        Raises
        ------
        InputError
            Where it does not fit; nothing is changed.
        """
        with self._saying:
            data, found = find(self._mapped(), kinds, orders)
            self.data, self.found = data, found
            self.kinds = dict(kinds)
            self.orders = {name: list(each) for name, each in orders.items()}
            return self.told()

    def asked_kinds(self) -> dict[str, str]:
        """Give the kinds to fit with: what was said, and what is ignored for its problem."""
        refused = {each.column.name: "ignored" for each in self.found if each.problem}
        return refused | self.kinds | dict.fromkeys(self.orders, "ordinal")

    def told(self, *, columns: bool = True) -> dict[str, Any]:
        """Give it as JSON."""
        missing = sum(each.missing for each in self.found)
        cells = self.data.num_rows * self.data.num_columns
        facts = {
            "id": self.id,
            "name": self.name,
            "rows": self.data.num_rows,
            "columns_count": self.data.num_columns,
            "cells_missing": missing,
            "share_missing": missing / cells,
            "created": self.created,
            "notes": self._notes(missing),
        }
        if columns:
            facts["columns"] = [each.told(i) for i, each in enumerate(self.found)]
        return facts

    def _notes(self, missing: int) -> list[str]:
        notes = []
        if self.data.num_rows == 1:
            notes.append("The table has one row, and nothing can be learned from one.")
        if not missing:
            notes.append("The table has no holes; its fills can still be tried out by the report.")
        ignored = sum(each.problem is not None for each in self.found)
        if ignored:
            notes.append(
                "1 column is passed through as it is; say what it is to use it."
                if ignored == 1
                else f"{ignored} columns are passed through as they are; say what they are to use "
                "them."
            )
        return notes

    def _mapped(self) -> pa.Table:
        return feather.read_table(self.path, memory_map=True)


class Tables:
    """All tables of a server.

    Parameters
    ----------
    folder
        Where they lie.
    limits
        How many there may be.
    gone
        Called with a table that is removed.
    at_work
        Says whether a job of a table runs, waits, or has ended since some time.
    """

    def __init__(
        self,
        folder: Path,
        limits: Limits,
        gone: Callable[[Table], None],
        at_work: Callable[[Table, float], bool],
    ) -> None:
        self._folder, self._limits, self._gone, self._at_work = folder, limits, gone, at_work
        self._tables: dict[str, Table] = {}
        # How many are on their way in, of each owner: they have a place already.
        self._begun: Counter[str] = Counter()

    @contextlib.contextmanager
    def room(self, owner: str, name: str) -> Iterator[Table]:
        """Give a table to be made; it is taken in at the end, and nothing is left of a failure.

        Raises
        ------
        RefusedError
            Where there are too many.
        """
        if len(self.of(owner)) + self._begun[owner] >= self._limits.tables:
            raise RefusedError(
                429,
                f"There are {self._limits.tables} tables already, with those on their way; remove "
                "one of them, or wait for the end of an upload.",
            )
        if self._is_full() and not self._expire():
            raise RefusedError(
                429,
                "This server holds as much as it may, of all who use it; remove a table of yours, "
                "or try again in a minute.",
            )
        own = token()
        table = Table(own, owner, name, self._folder / own)
        self._begun[owner] += 1
        try:
            table.folder.mkdir(mode=0o700, parents=True)
            yield table
            self._tables[own] = table
        except BaseException:
            shutil.rmtree(table.folder, ignore_errors=True)
            raise
        finally:
            self._begun -= Counter((owner,))

    def of(self, owner: str) -> list[Table]:
        """Give the tables of an owner, newest first."""
        own = [table for table in list(self._tables.values()) if table.owner == owner]
        return sorted(own, key=lambda table: -table.created)

    def get(self, owner: str, name: str) -> Table:
        """Give a table to its owner."""
        table = self._tables.get(name)
        if table is None or table.owner != owner:
            raise absent("table")
        table.used = time.time()
        return table

    def has(self, name: str | None) -> bool:
        """Say whether a table is still there."""
        return name in self._tables

    def remove(self, table: Table) -> None:
        """Forget a table and its files."""
        self._tables.pop(table.id, None)
        shutil.rmtree(table.folder, ignore_errors=True)
        self._gone(table)

    def _is_full(self) -> bool:
        count = len(self._tables) + self._begun.total()
        stored = stored_bytes(self._folder.parent)
        return count >= self._limits.all_tables or stored > self._limits.stored_bytes

    def _expire(self) -> bool:
        """Remove what nobody has looked at for long until there is room; say whether there is."""
        before = time.time() - self._limits.idle_seconds
        for table in sorted(self._tables.values(), key=lambda table: table.used):
            if table.used < before and not self._at_work(table, before):
                self.remove(table)
                if not self._is_full():
                    return True
        return False
