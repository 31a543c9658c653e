"""What the columns of a table are taken for, one by one, and what else they could be."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from hhvaem.cli.schema import ranked
from hhvaem.containers import listed
from hhvaem.errors import InputError
from hhvaem.inference import infer_schema
from hhvaem.reading import read
from hhvaem.schema import LEVELLED, Column, Schema
from hhvaem.web.plain import LONGEST, cell
from hhvaem.web.refusals import for_readers

# Levels that are shown of a column.
SHOWN = 60
SAYS = {
    "real": "any number",
    "positive": "numbers that are not negative",
    "count": "whole numbers that are not negative",
    "binary": "two levels",
    "categorical": "levels without order",
    "ordinal": "levels in order",
    "datetime": "dates and times",
    "ignored": "passed through as it is",
}
_NUMBERS = ("real", "positive", "count", "binary", "categorical", "ordinal", "ignored")
POSSIBLE: dict[str, tuple[str, ...]] = {
    "integer": _NUMBERS,
    "float": _NUMBERS,
    "boolean": ("binary", "categorical", "ignored"),
    "text": ("binary", "categorical", "ordinal", "ignored"),
    "datetime": ("datetime", "ignored"),
    "date": ("datetime", "ignored"),
    "none": ("ignored",),
}


class Found(NamedTuple):
    """What a column was taken for.

    Parameters
    ----------
    column
        What it is.
    inferred
        The kind that it has where nobody says otherwise.
    storage
        How its values are stored; of an ignored column, too.
    problem
        Why it was refused, and is ignored; None where it was not.
    missing
        How many of its cells are.
    ordered
        Whether it is stored as levels in order.
    """

    column: Column
    inferred: str
    storage: str
    problem: str | None
    missing: int
    ordered: bool

    def told(self, index: int) -> dict[str, Any]:
        """Give it as JSON."""
        column = self.column
        levels = column.levels if column.kind in LEVELLED else ()
        (_, _, holes, values, note) = Schema((column,)).rows()[0]
        possible = POSSIBLE[self.storage]
        return {
            "index": index,
            "name": column.name,
            "kind": column.kind,
            "inferred": self.inferred,
            "storage": self.storage,
            "kinds": list(possible),
            "levels": [cell(level, LONGEST) for level in levels[:SHOWN]] if levels else None,
            "level_count": len(levels),
            "ordered": self.ordered,
            "missing": self.missing,
            "holes": holes,
            "values": values,
            "note": for_readers(note),
            "problem": self.problem,
        }


def find(
    table: pa.Table, kinds: Mapping[str, str], orders: Mapping[str, Sequence[str]]
) -> tuple[pa.Table, list[Found]]:
    """Say what each column is, and give the table with its levels in the order that was asked.

    A column that cannot be used is ignored, and its problem told, unless somebody has said what
    it is.

    Raises
    ------
    InputError
        Where a kind or an order was asked for that a column cannot have.
    """
    strange = [name for name in (*kinds, *orders) if name not in table.column_names]
    if strange:
        raise InputError(f"The table has no column {listed(strange)}; name those that it has.")
    asked = dict(kinds) | dict.fromkeys(orders, "ordinal")
    table = ranked(table, orders)
    return table, [_found(table.select([name]), asked.get(name)) for name in table.column_names]


def _found(table: pa.Table, asked: str | None) -> Found:
    (name,), data = table.column_names, table.column(0)
    problem = None
    try:
        own = infer_schema(table).columns[0]
    except InputError as error:
        problem = for_readers(str(error))
        # Nobody has asked for it, as the note would say.
        own = replace(infer_schema(table, {name: "ignored"}).columns[0], note="")
    column = own
    if asked is not None and (asked != column.kind or problem is not None):
        column, problem = infer_schema(table, {name: asked}).columns[0], None
    return Found(
        column,
        own.kind,
        _storage(name, data) if column.storage == "none" else column.storage,
        problem,
        pc.sum(pc.is_null(data, nan_is_null=True)).as_py() or 0,
        bool(pa.types.is_dictionary(data.type) and data.type.ordered),
    )


def _storage(name: str, data: Any) -> str:
    try:
        return read(name, data).storage
    except InputError:
        return "none"
