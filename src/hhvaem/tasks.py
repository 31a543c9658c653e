"""What is to be predicted of a table, numbers or classes, told from the columns of its targets."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa

from hhvaem.containers import listed
from hhvaem.errors import InputError
from hhvaem.inference import FEW_LEVELS
from hhvaem.reading import FAMILY, read


class Task(StrEnum):
    """What is predicted."""

    REGRESSION = "regression"
    CLASSIFICATION = "classification"


def task_of(table: pa.Table, targets: list[str], asked: Task | None) -> Task | None:
    """Tell what is to be predicted: numbers or classes; None where there is no target.

    Text, truth values and categories are classes, and so are whole numbers of few values.
    """
    found = {name: _task(name, table.column(name), asked) for name in targets}
    if len(set(found.values())) > 1:
        one, other = ([name for name in found if found[name] == each] for each in Task)
        raise InputError(
            f"The targets are not alike: {listed(one)} for regression, {listed(other)} for "
            "classification; fit a model for each, or say --task for all."
        )
    return next(iter(found.values()), None)


def _task(name: str, column: Any, asked: Task | None) -> Task:
    reading = read(name, column)
    if FAMILY[reading.storage] == "dates":
        raise InputError(
            f"The target {name!r} holds dates; convert it to numbers, such as days since one."
        )
    labels = reading.storage in ("text", "boolean") or reading.categories is not None
    values = np.unique(reading.values[~reading.missing])
    whole = bool((values % 1 == 0).all())
    if asked == Task.REGRESSION and labels:
        raise InputError(f"The target {name!r} holds no numbers; leave --task regression out.")
    if asked == Task.CLASSIFICATION and not labels and not whole:
        fraction = reading.show(int(np.flatnonzero(reading.values % 1 > 0)[0]))
        raise InputError(
            f"The target {name!r} holds numbers that are no classes, such as {fraction}; leave "
            "--task classification out, or make it text."
        )
    few = whole and values.size <= FEW_LEVELS
    return asked or (Task.CLASSIFICATION if labels or few else Task.REGRESSION)


def check_targets(table: pa.Table, targets: Sequence[str], asked: Task | None) -> None:
    """Refuse targets of which nothing can be learned, before anybody waits for a model of them.

    Raises
    ------
    InputError
        As `task_of`, and as `fit` would.
    """
    from hhvaem.estimators.targets import known_labels, numbers, two_or_more  # they import JAX

    part, rows = table.select(targets), table.num_rows
    if task_of(part, list(targets), asked) == Task.REGRESSION:
        numbers(part, rows)
        return
    names, cells, mask, _ = known_labels(part, rows)
    for j, (name, cell) in enumerate(zip(names, cells, strict=True)):
        two_or_more(name, cell[mask[:, j]])


def values_of(table: pa.Table, targets: Sequence[str]) -> Any:
    """Give the targets, a single one without a table around it but with its name."""
    if len(targets) > 1:
        return table.select(targets)
    return nw.from_native(table, eager_only=True)[targets[0]]
