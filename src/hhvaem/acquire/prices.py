"""What questions cost: each column, and once for all columns that are measured together."""

import difflib
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

from hhvaem.containers import listed, shown
from hhvaem.errors import InputError
from hhvaem.schema import Column

# The most that anything costs, so that all sums of costs are finite.
MOST = 1e300


@dataclass(frozen=True)
class Prices:
    """The cost of each column, the columns of each group, and what a group costs to begin with.

    Made by `prices`, which checks them.
    """

    columns: Mapping[str, float]
    groups: Mapping[str, tuple[str, ...]]
    begun: Mapping[str, float]

    def of(self, columns: Iterable[str], known: Iterable[str] = ()) -> float:
        """Give what it costs to measure columns, where others have been measured before.

        Examples
        --------
        >>> blood = [Column("iron", "real"), Column("crp", "real"), Column("ecg", "real")]
        >>> costs = prices(blood, {"ecg": 3.0, "blood": 5.0}, {"blood": ["iron", "crp"]})
        >>> costs.of(["iron", "crp"]), costs.of(["crp"], known=["iron"]), costs.of(["ecg"])
        (7.0, 1.0, 3.0)
        """
        columns, known = set(columns), set(known)
        begins = sum(
            self.begun[group]
            for group, members in self.groups.items()
            if columns & set(members) and not known & set(members)
        )
        return sum((self.columns[name] for name in columns), float(begins))


def prices(
    columns: Sequence[Column],
    costs: Mapping[str, float] | None = None,
    groups: Mapping[str, Iterable[str]] | None = None,
) -> Prices:
    """Put costs together: those given, or else those of the columns themselves.

    Parameters
    ----------
    columns
        The columns that can be asked for.
    costs
        By name of a column, or of a group: what is paid once, with the first of its columns.
    groups
        Columns that are measured together, by a name of their own.

    Raises
    ------
    InputError
        Where a name is unknown, a cost is no number, negative or too large, or groups overlap.
    """
    names = [column.name for column in columns]
    own: dict[str, list[str]] = {}
    for column in columns:
        if column.group is not None:
            own.setdefault(column.group, []).append(column.name)
    chosen = _groups(names, own if groups is None else groups)
    each = {column.name: column.cost for column in columns}
    begun = dict.fromkeys(chosen, 0.0)
    for name, cost in _mapping("costs", costs).items():
        if name not in each and name not in begun:
            meant = near(name, [*each, *begun])
            raise InputError(f"There is no column or group {name!r} to have a cost{meant}")
        (each if name in each else begun)[name] = cost
    return Prices(_checked(each), chosen, _checked(begun))


def is_cost(value: Any, most: float = sys.float_info.max) -> bool:
    """Say whether this can be a cost: a finite number that is not negative.

    Examples
    --------
    >>> is_cost(2), is_cost(10**400), is_cost(float("nan")), is_cost(True)
    (True, False, False, False)
    """
    if not isinstance(value, Real) or isinstance(value, bool):
        return False
    try:
        return 0 <= float(value) <= most
    except OverflowError:  # an integer beyond all floats
        return False


def near(name: object, names: Iterable[str]) -> str:
    """End a sentence about a name that there is not, with one that is meant, or with some."""
    names = list(names)
    close = difflib.get_close_matches(str(name), names, n=1)
    return f"; is it {close[0]!r}?" if close else f"; there are {listed(names)}."


def _checked(costs: Mapping[str, Any]) -> dict[str, float]:
    for name, cost in costs.items():
        if not is_cost(cost, MOST):
            raise InputError(
                f"The cost of {name!r} is {shown(cost)}; give a finite number from 0 to {MOST:g}."
            )
    return {name: float(cost) for name, cost in costs.items()}


def _groups(names: list[str], groups: Any) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    of: dict[str, str] = {}
    for group, members in _mapping("groups", groups).items():
        if not isinstance(group, str):
            raise InputError(f"A group is named by a text, not by {shown(group)}.")
        if group in names:
            raise InputError(f"The group {group!r} has the name of a column; give it another.")
        # Also an array or an index, such as the columns of a frame.
        several = isinstance(members, Sequence) or len(getattr(members, "shape", ())) == 1
        if isinstance(members, str) or not several or not len(members):
            raise InputError(f"The group {group!r} is {shown(members)}; give a list of columns.")
        for name in members:
            if not isinstance(name, str) or name not in names:
                raise InputError(
                    f"The group {group!r} has no column {shown(name)}{near(name, names)}"
                )
            if of.setdefault(name, group) != group:
                raise InputError(
                    f"The column {name!r} is in two groups, {of[name]!r} and {group!r}; one can be."
                )
        found[group] = tuple(dict.fromkeys(map(str, members)))
    return found


def _mapping(what: str, given: Any) -> Mapping[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InputError(f"`{what}` is of type {type(given).__name__}; give a dict by name.")
    return given
