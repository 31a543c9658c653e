"""What an analysis of a completed table says, read into arrays, in the order of its labels."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from hhvaem.containers import some
from hhvaem.errors import InputError
from hhvaem.scored import array_of_numbers


class Fit(NamedTuple):
    """Estimates with variances or covariances and degrees of freedom, and their names."""

    names: tuple[str, ...] | None
    estimate: np.ndarray
    variance: np.ndarray
    dof: np.ndarray


def read_fit(draw: int, fit: Any) -> Fit:
    """Read what was returned for the completed table of a draw, as `pool_fit` describes it.

    Raises
    ------
    InputError
        Naming the draw.
    """
    if isinstance(fit, Mapping) and fit:
        entries = [_entry(draw, name, value) for name, value in fit.items()]
        return Fit(tuple(map(str, fit)), *np.array(entries).T)
    if hasattr(fit, "params") and callable(getattr(fit, "cov_params", None)):
        dof = getattr(fit, "df_resid", None)
        values = fit.params, fit.cov_params(), np.inf if dof is None else dof
    elif hasattr(fit, "coef_"):
        raise InputError(
            f"{type(fit).__name__} has coefficients but no variances, without which nothing can be "
            "pooled; fit it with statsmodels, or return (estimates, variances)."
        )
    else:
        values = _parts(draw, fit, "")
    what = f"What the fit to draw {draw} gives"
    estimate, variance, dof = (array_of_numbers(what, x) for x in values)
    if estimate.ndim > 1:
        raise InputError(
            f"The fit to draw {draw} has estimates of shape {estimate.shape}; return a flat array "
            "of them with their variances, or a mapping of names to (estimate, variance)."
        )
    labels = _labels(values[0], "index")
    if labels is not None:
        variance, dof = (
            _in_order(draw, labels, of, part)
            for of, part in zip(values[1:], (variance, dof), strict=True)
        )
    names = None if labels is None else tuple(map(str, labels))
    return Fit(names, estimate, variance, dof)


def _labels(values: Any, axis: str) -> list[Any] | None:
    """Give the labels that pandas has for an axis; positions are none."""
    # A list's `index` is a method.
    index = getattr(values, axis, None)
    if index is None or callable(index) or not hasattr(values, "index"):
        return None
    labels = list(index)
    return None if labels == list(range(len(labels))) else labels


def _in_order(draw: int, labels: list[Any], values: Any, numbers: np.ndarray) -> np.ndarray:
    """Put what has labels of its own into the order of the estimates."""
    for axis, name in enumerate(("index", "columns")[: numbers.ndim]):
        own = _labels(values, name)
        if own is None or own == labels:
            continue
        if len(set(own)) != len(own) or set(own) != set(labels):
            raise InputError(
                f"The fit to draw {draw} has estimates of {_shown(labels)} and variances or "
                f"degrees of freedom of {_shown(own)}; return them for the same statistics."
            )
        numbers = np.take(numbers, [own.index(label) for label in labels], axis)
    return numbers


def _entry(draw: int, name: Any, value: Any) -> list[float]:
    what = f"What `fit_function` returned for {name!r} on draw {draw}"
    numbers = [array_of_numbers(what, part) for part in _parts(draw, value, f" for {name!r}")]
    if any(number.ndim for number in numbers):
        raise InputError(f"{what} has more than one number; give each a name of its own.")
    return [float(number) for number in numbers]


def _parts(draw: int, value: Any, of: str) -> tuple[Any, Any, Any]:
    if not isinstance(value, tuple) or len(value) not in (2, 3):
        size = f" of {len(value)}" if isinstance(value, tuple) else ""
        raise InputError(
            f"`fit_function` returned a {type(value).__name__}{size}{of} on draw {draw}; return a "
            "statsmodels result, (estimate, variance), (estimate, variance, degrees of freedom), "
            "or a mapping of names to such tuples."
        )
    return (*value, np.inf) if len(value) == 2 else value


def described(fit: Fit) -> tuple[str, ...]:
    """Say in words what must be alike in the fits to all draws."""
    return (
        "no names" if fit.names is None else f"the statistics {', '.join(fit.names)}",
        f"estimates of shape {fit.estimate.shape} with variances of {fit.variance.shape}",
        f"degrees of freedom of shape {fit.dof.shape}",
    )


def check_labels(estimates: Any, variances: Any) -> None:
    """Refuse rows of statistics that stand in another order than the first of the estimates."""
    found = [
        (name, labels)
        for name, values in (("estimates", estimates), ("variances", variances))
        for labels in _labels_of_rows(values)
    ]
    for name, labels in found:
        if labels != found[0][1]:
            raise InputError(
                f"`{name}` has rows labelled {_shown(labels)}, and others are labelled "
                f"{_shown(found[0][1])}; give all in one order."
            )


def _labels_of_rows(values: Any) -> Iterator[list[Any]]:
    if isinstance(values, list | tuple):
        for row in values:
            yield from _labels_of_rows(row)
    rows, columns = _labels(values, "index"), _labels(values, "columns")
    if columns is not None:
        yield columns
    # A frame's rows are imputations, unless they are the statistics again.
    if rows is not None and (not hasattr(values, "columns") or set(rows) == set(columns or ())):
        yield rows


def _shown(labels: list[Any]) -> str:
    return some(list(map(repr, labels)))
