"""What a table's columns are: kinds, levels, bounds, costs; to and from JSON."""

import dataclasses
import html
import json
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np

from hhvaem.containers import printable, repeated, shown, some
from hhvaem.errors import InputError

Kind = Literal[
    "real", "positive", "count", "binary", "categorical", "ordinal", "datetime",
    "constant", "ignored",
]  # fmt: skip
Storage = Literal["integer", "float", "boolean", "text", "datetime", "date", "none"]
Level = bool | int | float | str

KINDS: tuple[Kind, ...] = get_args(Kind)
LEVELLED: frozenset[Kind] = frozenset({"binary", "categorical", "ordinal"})
UNMODELLED: frozenset[Kind] = frozenset({"constant", "ignored"})
VERSION = 1


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Parameters
    ----------
    name
        The column's name.
    kind
        What its values are. `real`, `positive` (not negative), `count` (whole, not
        negative) and `datetime` are numbers; `binary`, `categorical` and `ordinal` have
        `levels`; a `constant` column is filled with its only value; an `ignored` one is
        passed through as it is.
    storage
        How the values were stored in the table that was fitted.
    levels
        The values of a binary, categorical, ordinal or constant column, in order.
    step
        Spacing of the legal values of a number: 1 for whole numbers, microseconds for a
        datetime (a day where every value is a midnight); None where any number is legal.
    lower, upper
        Bounds that every value keeps.
    cost, group
        What measuring a value costs, and the group it is measured with.
    note
        What its owner should know: constant, empty, looks like an identifier.
    """

    name: str
    kind: Kind
    storage: Storage = "float"
    levels: tuple[Level, ...] = ()
    step: float | None = None
    lower: float | None = None
    upper: float | None = None
    cost: float = 1.0
    group: str | None = None
    note: str = ""

    def __post_init__(self) -> None:
        problem = _problem(self) or _level_problem(self) or _number_problem(self)
        if problem:
            raise InputError(f"Column {self.name!r} {problem}.")

    @property
    def modelled(self) -> bool:
        """Whether a model of the table has this column."""
        return self.kind not in UNMODELLED

    @property
    def support(self) -> tuple[float, float, float | None]:
        """Least and largest legal number, and their spacing: what the kind implies included."""
        lower = -math.inf if self.lower is None else self.lower
        upper = math.inf if self.upper is None else self.upper
        if self.kind in ("positive", "count"):
            lower = max(lower, 0.0)
        return lower, upper, 1.0 if self.kind == "count" and self.step is None else self.step

    @property
    def treatment(self) -> str:
        """What happens to the holes of this column."""
        return "passed through" if self.kind == "ignored" else "filled"


@dataclass(frozen=True)
class Schema:
    """The columns of a table, in its order.

    Parameters
    ----------
    columns
        What each column is.
    filled
        Whether holes are filled, as the report then says. A model that predicts takes them as
        they are.

    Examples
    --------
    >>> schema = Schema((Column("age", "count"), Column("sex", "binary", levels=("f", "m"))))
    >>> Schema.from_json(schema.to_json()) == schema
    True
    >>> schema["sex"].levels
    ('f', 'm')
    >>> print(schema)
    column  kind    holes are  values      note
    age     count   filled     whole, >=0
    sex     binary  filled     'f', 'm'
    """

    columns: tuple[Column, ...]
    filled: bool = field(default=True, repr=False, compare=False, kw_only=True)
    _by_name: dict[str, Column] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.columns, tuple) or not all(
            isinstance(column, Column) for column in self.columns
        ):
            raise InputError("The columns of a schema must be a tuple of Column.")
        twice = repeated(column.name for column in self.columns)
        if twice:
            raise InputError(f"The schema has more than one column named {twice}.")
        object.__setattr__(self, "_by_name", {column.name: column for column in self.columns})

    def __getitem__(self, name: str) -> Column:
        return self._by_name[name]

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all columns."""
        return tuple(column.name for column in self.columns)

    @property
    def modelled(self) -> tuple[Column, ...]:
        """The columns that a model of the table has, in order."""
        return tuple(column for column in self.columns if column.modelled)

    def replace(self, name: str, **changes: Any) -> "Schema":
        """Give a schema in which one column has other properties.

        Examples
        --------
        >>> schema = Schema((Column("score", "real"),)).replace("score", lower=0.0, upper=100.0)
        >>> schema["score"].upper
        100.0
        """
        if name not in self:
            raise InputError(f"The schema has no column {name!r}.")
        known = {field.name for field in dataclasses.fields(Column)}
        if not changes.keys() <= known:
            raise InputError(f"A column has no {sorted(changes.keys() - known)[0]!r}.")
        changed = dataclasses.replace(self[name], **changes)
        columns = tuple(changed if c.name == name else c for c in self.columns)
        return Schema(columns, filled=self.filled)

    def rows(self) -> list[tuple[str, ...]]:
        """Report each column: its name, kind, treatment, legal values and note.

        Characters that a terminal would obey are written as escapes.
        """
        return [
            (
                printable(column.name),
                column.kind,
                column.treatment if self.filled else "allowed" if column.modelled else "ignored",
                _legal_values(column),
                printable(column.note),
            )
            for column in self.columns
        ]

    def __str__(self) -> str:
        rows = [_REPORT, *self.rows()]
        widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
        lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Show the report of `print(schema)` as a table in a notebook."""
        head = "".join(f"<th>{title}</th>" for title in _REPORT)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
            for row in self.rows()
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def to_json(self) -> str:
        """Write the schema as JSON text."""
        columns = [dataclasses.asdict(column) for column in self.columns]
        return json.dumps({"version": VERSION, "columns": columns}, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> "Schema":
        """Read what `to_json` wrote.

        Raises
        ------
        InputError
            Where the text is not a schema this version can read.
        """
        try:
            content = json.loads(text)
            version, columns = content["version"], content["columns"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise InputError(
                "This is not a schema: no JSON with 'version' and 'columns'."
            ) from error
        if type(version) is not int or version != VERSION:
            raise InputError(
                f"This schema has version {shown(version)}, this hhvaem reads version {VERSION}; "
                "load it with the hhvaem that wrote it."
            )
        if not isinstance(columns, list):
            raise InputError("This is not a schema: its 'columns' are no list.")
        return cls(tuple(_column(entry) for entry in columns))


_REPORT = ("column", "kind", "holes are", "values", "note")
_SHOWN = 5  # levels in a line of the report
# In microseconds.
_UNITS = (
    (864e8, "days"), (36e8, "hours"), (6e7, "minutes"), (1e6, "seconds"), (1e3, "milliseconds"),
    (1.0, "microseconds"),
)  # fmt: skip


def _problem(column: Column) -> str | None:
    if not isinstance(column.name, str):
        return "has a name that is no text"
    if column.kind not in KINDS:
        return f"has the unknown kind {shown(column.kind)}; the kinds are {', '.join(KINDS)}"
    if column.storage not in get_args(Storage):
        known = ", ".join(get_args(Storage))
        return f"has the unknown storage {shown(column.storage)}; known are {known}"
    if not isinstance(column.group, str | None):
        return f"has the group {shown(column.group)}, which is neither a text nor None"
    if not isinstance(column.note, str):
        return f"has the note {shown(column.note)}, which is no text"
    return None


def _level_problem(column: Column) -> str | None:
    levels = column.levels
    if not isinstance(levels, tuple):
        return f"has levels of type {type(levels).__name__}; give a tuple"
    for level in levels:
        if not isinstance(level, str | bool) and not _is_finite(level):
            return f"has the level {shown(level)}, which is no text, truth value or finite number"
        if isinstance(level, str) and column.storage in ("datetime", "date"):
            return f"has the level {shown(level)}; a date is given in microseconds since 1970"
    if len(set(levels)) < len(levels):
        return f"has the level {shown(Counter(levels).most_common(1)[0][0])} more than once"
    exactly = {"binary": 2, "constant": 1}.get(column.kind)
    if exactly and len(levels) != exactly:
        return f"is {column.kind} and has {len(levels)} levels; it needs {exactly}"
    if column.kind in LEVELLED and not levels:
        return f"is {column.kind} and has no levels"
    return None


def _number_problem(column: Column) -> str | None:
    for name in ("step", "lower", "upper"):
        value = getattr(column, name)
        if value is not None and not _is_finite(value):
            return f"has {name} {shown(value)}; it must be a finite number or None"
    if not _is_finite(column.cost) or column.cost < 0:
        return f"has cost {shown(column.cost)}; it must be a finite number, not negative"
    if column.step is not None and column.step <= 0:
        return f"has step {column.step!r}; it must be larger than 0"
    lower, upper, step = column.support
    if lower > upper:
        return f"has no legal value: its lower bound {lower:g} is above its upper bound {upper:g}"
    if lower == upper:
        return f"has one legal value, {lower:g}; make its kind 'constant'"
    if step and math.isfinite(lower) and math.ceil(lower / step) * step > upper:
        return f"has no legal value: no multiple of {step:g} is from {lower:g} to {upper:g}"
    return None


def _is_finite(value: object) -> bool:
    try:
        return isinstance(value, int | float) and type(value) is not bool and math.isfinite(value)
    except OverflowError:  # an integer beyond all floats
        return False


def _legal_values(column: Column) -> str:
    if column.kind == "constant" and column.storage in ("datetime", "date"):
        return _moment(float(column.levels[0]))
    if column.levels:
        return some([shown(level) for level in column.levels], most=_SHOWN)
    if column.kind == "ignored":
        return ""
    lower, upper, step = column.support
    dates = column.kind == "datetime"
    number = _moment if dates else "{:g}".format
    parts = (
        "" if step is None else _spacing(step) if dates else _step(step),
        "" if math.isinf(lower) else f">={number(lower)}",
        "" if math.isinf(upper) else f"<={number(upper)}",
    )
    return ", ".join(filter(None, parts))


def _moment(microseconds: float) -> str:
    if abs(microseconds) >= 2**63:  # which is no moment
        return f"{microseconds:g}"
    # Not by datetime, which ends with the year 9999.
    moment = str(np.datetime64(int(microseconds), "us"))
    return moment.replace("T", " ").removesuffix(".000000")


def _spacing(microseconds: float) -> str:
    fitting = ((unit, name) for unit, name in _UNITS if microseconds % unit == 0)
    unit, name = next(fitting, _UNITS[-1])
    return name if microseconds == unit else f"step {microseconds / unit:g} {name}"


def _step(step: float) -> str:
    return "whole" if step == 1 else f"step {step:g}"


def _column(entry: Any) -> Column:
    try:
        levels = entry["levels"]
        # A text would make a tuple of its letters.
        return Column(**{**entry, "levels": tuple(levels) if type(levels) is list else levels})
    except (TypeError, KeyError) as error:
        raise InputError(f"This is not a column of a schema: {shown(entry)}.") from error
