"""Pool what several completed tables say into one answer: Rubin's rules."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float64
from scipy import stats

from hhvaem.analyses import check_labels, described, read_fit
from hhvaem.checks import check_count
from hhvaem.errors import InputError
from hhvaem.scored import array_of_numbers, check_level

# One number for each statistic; a plain number where a single one was pooled.
Statistics = np.float64 | Float64[np.ndarray, " statistics"]

# Covariances that are not the same both ways by more than this share of the variances are wrong.
_ASYMMETRY = 1e-6


@dataclass(frozen=True, repr=False, eq=False)
class Pooled:
    """Estimates from several completed tables, as one, with what is known of their uncertainty.

    Each field but the first two holds an array with an entry for each statistic, or a plain
    number where single numbers were pooled.

    Parameters
    ----------
    names
        What was estimated.
    imputations
        How many completed tables were pooled: (imputations,), or (members, draws of each).
    estimate
        Mean of the estimates.
    within
        Mean of their variances: the uncertainty that the table would have without holes.
    between
        Variance between imputations, or between members where draws are nested in them.
    between_draws
        Variance between the draws of one member; None where draws are not nested.
    total
        Variance of the pooled estimate.
    covariance
        Covariance of the pooled estimates, statistics by statistics; None where only variances
        were given.
    dof
        Degrees of freedom of the t distribution of (estimate - truth) / standard error.
    lambda_
        Share of the total variance that is due to the holes.
    """

    names: tuple[str, ...]
    imputations: tuple[int, ...]
    estimate: Statistics
    within: Statistics
    between: Statistics
    between_draws: Statistics | None
    total: Statistics
    covariance: Float64[np.ndarray, "statistics statistics"] | None
    dof: Statistics
    lambda_: Statistics

    @property
    def standard_error(self) -> Statistics:
        """Square root of the total variance."""
        return np.sqrt(self.total)

    @property
    def riv(self) -> Statistics:
        """Relative increase in variance: what the holes add, over the variance without holes."""
        with np.errstate(divide="ignore"):
            return self.lambda_ / (1 - self.lambda_)

    @property
    def fmi(self) -> Statistics:
        """Fraction of missing information: `lambda_`, corrected for the number of imputations."""
        # Rubin's (r + 2 / (dof + 3)) / (1 + r), without dividing by a variance that may be 0.
        return self.lambda_ + (1 - self.lambda_) * 2 / (self.dof + 3)

    @property
    def p_value(self) -> Statistics:
        """Two-sided p value of the hypothesis that the truth is 0."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            tail: Any = stats.t.sf(np.abs(self.estimate / self.standard_error), self.dof)
        return 2 * tail

    def interval(self, level: float = 0.95) -> tuple[Statistics, Statistics]:
        """Give the ends of the intervals that hold the truth with probability `level`.

        Examples
        --------
        >>> low, high = pool([9.0, 10.0, 11.0], [4.0, 4.0, 4.0]).interval(0.9)
        >>> print(f"{low:.2f} to {high:.2f}")
        6.09 to 13.91
        """
        check_level(level)
        # Not by (1 + level) / 2, which is 1 for a level close to 1.
        reach = stats.t.isf((1 - level) / 2, self.dof) * self.standard_error
        return self.estimate - reach, self.estimate + reach

    def to_table(self, level: float = 0.95) -> pa.Table:
        """Give all of it as a pyarrow Table with a row for each statistic.

        Examples
        --------
        >>> table = pool([9.0, 10.0, 11.0], [4.0, 4.0, 4.0], names=["dose"]).to_table()
        >>> table.select(["name", "estimate", "total"]).to_pylist()
        [{'name': 'dose', 'estimate': 10.0, 'total': 5.333333333333333}]
        """
        low, high = self.interval(level)
        columns: dict[str, Statistics | None] = {
            "estimate": self.estimate,
            "standard_error": self.standard_error,
            "low": low,
            "high": high,
            "p_value": self.p_value,
            "dof": self.dof,
            "within": self.within,
            "between": self.between,
            "between_draws": self.between_draws,
            "total": self.total,
            "riv": self.riv,
            "lambda": self.lambda_,
            "fmi": self.fmi,
        }
        numbers = {name: np.atleast_1d(x) for name, x in columns.items() if x is not None}
        return pa.table({"name": list(self.names), **numbers})

    def __repr__(self) -> str:
        shown = {
            "estimate": "estimate", "std. error": "standard_error", "2.5 %": "low",
            "97.5 %": "high", "p value": "p_value", "dof": "dof", "fmi": "fmi",
        }  # fmt: skip
        table = self.to_table()
        columns = [["", *self.names]]
        columns += [
            [head, *(f"{x:.4g}" for x in table[of].to_pylist())] for head, of in shown.items()
        ]
        widths = [max(map(len, column)) for column in columns]
        lines = [
            "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])])
            for row in zip(*columns, strict=True)
        ]
        size = f"{self.imputations[0]} imputations"
        if len(self.imputations) > 1:
            size = f"{self.imputations[0]} members with {self.imputations[1]} draws each"
        return "\n".join([f"Pooled over {size}", *lines])


def pool(
    estimates: Any,
    variances: Any,
    *,
    nested: bool = False,
    dof_complete: Any = None,
    names: Sequence[str] | None = None,
) -> Pooled:
    """Pool the estimates from several completed tables by Rubin's rules.

    Parameters
    ----------
    estimates
        What each of M completed tables gives, [M], or [M, k] for k statistics.
    variances
        The squared standard error of each estimate, of the same shape, or the covariances of
        the statistics, [M, k, k]. Where these and the estimates have labels (pandas), they must be
        the same in the same order.
    nested
        Whether N tables were drawn from each of M imputation models (the members of an
        ensemble). `estimates` and `variances` then start with [M, N] instead of [M].
    dof_complete
        Degrees of freedom that the analysis of a table without holes has (rows less
        parameters in a regression), one number or one for each statistic; by default infinite.
        With them those of the pooled estimates are Barnard and Rubin's (1999).
    names
        What was estimated, to be shown; by default 0, 1, ...

    Returns
    -------
    Pooled
        Estimates, standard errors, intervals, p values and fractions of missing information.

    Raises
    ------
    InputError
        Where there are too few imputations, shapes or labels do not fit together, a number is
        masked, not real or not finite, a variance is negative, covariances are not symmetric, there
        are no degrees of freedom, or the total variance is too large or small for a number.

    Notes
    -----
    With U the mean variance, B the variance between imputations (or between the means of members)
    and W that between the draws of one member, the total variance is U + (1 + 1/M) B (Rubin 1987)
    or U + (1 - 1/N) W + (1 + 1/M) B (Shen 2000, Rubin 2003). The inverse of the degrees of freedom
    is the sum of (part / total)^2 / (degrees of freedom of the part) over what is added to U, plus
    the inverse of (d + 1) / (d + 3) d (1 - lambda) for d = `dof_complete`. For nested draws that
    last term is Barnard and Rubin's correction used by analogy.

    Examples
    --------
    >>> pooled = pool([9.0, 10.0, 11.0], [4.0, 4.0, 4.0], dof_complete=30, names=["dose"])
    >>> float(pooled.estimate), round(float(pooled.total), 3), round(float(pooled.lambda_), 3)
    (10.0, 5.333, 0.25)
    >>> pooled
    Pooled over 3 imputations
          estimate  std. error  2.5 %  97.5 %    p value    dof     fmi
    dose        10       2.309      5      15  0.0008561  12.73  0.3454
    """
    q = array_of_numbers("`estimates`", estimates)
    u = array_of_numbers("`variances`", variances)
    check_labels(estimates, variances)
    lead = 2 if nested else 1
    _check_shapes(q, u, lead)
    shape, full = q.shape[lead:], u.ndim > q.ndim
    q, k = q.reshape(*q.shape[:lead], -1), int(np.prod(shape))
    u = u if full else u.reshape(q.shape)
    named = _checked_names(names, k)
    dof = _checked_dof(dof_complete, shape, named)
    _check_cells(q, u, named)

    def spread(deviations: np.ndarray, freedom: int) -> np.ndarray:
        flat = deviations.reshape(-1, k)
        return (flat.T @ flat if full else (flat**2).sum(0)) / freedom

    def diagonal(part: np.ndarray) -> np.ndarray:
        return part.diagonal() if full else part

    count = q.shape[0]
    # What leaves the range of numbers here is refused below.
    with np.errstate(over="ignore", invalid="ignore"):
        means = q.mean(1) if nested else q
        estimate, within = means.mean(0), u.mean(tuple(range(lead)))
        between, draws = spread(means - means.mean(0), count - 1), None
        added = [((1 + 1 / count) * between, count - 1)]
        if nested:
            freedom = count * (q.shape[1] - 1)
            draws = spread(q - means[:, None], freedom)
            added.append(((1 - 1 / q.shape[1]) * draws, freedom))
        total = within + sum(part for part, _ in added)
    variance = diagonal(total)
    _check_range(q, total, variance, named)
    shares = [_share(diagonal(part), variance, 0.0) for part, _ in added]
    observed = _share(diagonal(within), variance, 1.0)
    _check_observed(observed, dof, named)
    inverse = sum(s**2 / f for s, (_, f) in zip(shares, added, strict=True))
    with np.errstate(divide="ignore", invalid="ignore"):
        inverse += np.where(np.isinf(dof), 0.0, (1 + 2 / (dof + 1)) / dof / observed)
        dof = 1 / inverse

    def back(part: np.ndarray) -> Statistics:
        return part.reshape(shape)[()]

    return Pooled(
        names=named,
        imputations=q.shape[:lead],
        estimate=back(estimate),
        within=back(diagonal(within)),
        between=back(diagonal(between)),
        between_draws=None if draws is None else back(diagonal(draws)),
        total=back(variance),
        covariance=total if full else None,
        dof=back(dof),
        lambda_=back(np.sum(shares, 0)),
    )


def pool_fit(
    imputer: Any,
    table: Any,
    fit_function: Callable[[Any], Any],
    *,
    draws: int = 20,
    shift: Mapping[Hashable, Any] | None = None,
) -> Pooled:
    """Complete a table many times, analyse each, and pool what comes out.

    Parameters
    ----------
    imputer
        A fitted `Imputer`, or anything with `sample(table, draws=...)` that returns completed
        tables. Where it has more than one model (`members_`), its draws must come from them in
        turn, and are pooled as nested in them.
    table
        The table with holes.
    fit_function
        Takes a completed table and returns what it says: a fitted statsmodels result; or a tuple
        (estimate, variance) or (estimate, variance, degrees of freedom), of numbers or as for
        `pool`; or a mapping of names to such tuples of numbers. Parts with labels (a pandas Series,
        or a DataFrame of covariances) are put into the order of the estimates.
    draws
        How many completed tables; with several members a multiple of their number, or less than
        it, which leaves some members out.
    shift
        What if the holes are not like what is known: as for `Imputer.sample`.

    Returns
    -------
    Pooled
        With the names of the parameters or of the mapping, where there are any. Where the degrees
        of freedom of the fits differ, the least count.

    Raises
    ------
    InputError
        Where `draws` does not fit the members, where `fit_function` returns something else or
        no variances, or where the fits or the parts of one do not have the same statistics.

    Examples
    --------
    >>> class Coin:
    ...     def sample(self, table, *, draws):
    ...         return [np.where(np.isnan(table), i % 2, table) for i in range(draws)]
    >>> def share(table):
    ...     return {"share": (table.mean(), table.var() / table.size)}
    >>> pool_fit(Coin(), np.array([0, 1, 1, np.nan]), share, draws=4).estimate.round(3)
    array([0.625])
    """
    check_count("draws", draws, 2)
    if not callable(getattr(imputer, "sample", None)):
        raise InputError(
            f"`imputer` is a {type(imputer).__name__} without `sample`; give a fitted Imputer."
        )
    if not callable(fit_function):
        raise InputError(
            f"`fit_function` is a {type(fit_function).__name__}; give a function of a completed "
            "table."
        )
    members = getattr(imputer, "members_", 1)
    nested = 1 < members < draws
    if nested and draws % members:
        below = draws - draws % members
        raise InputError(
            f"draws={draws} is no multiple of the {members} members of the imputer, so that some "
            f"would count more than others; use {below} or {below + members}."
        )
    completed = imputer.sample(table, draws=draws, **({} if shift is None else {"shift": shift}))
    fits = [read_fit(i, fit_function(one)) for i, one in enumerate(completed)]
    if len(fits) != draws:
        raise InputError(
            f"The imputer gave {len(fits)} completed tables for draws={draws}; let its `sample` "
            "return as many as asked for."
        )
    for i, fit in enumerate(fits):
        for here, first in zip(described(fit), described(fits[0]), strict=True):
            if here != first:
                raise InputError(
                    f"The fit to draw {i} has {here}, and that to draw 0 {first}; let "
                    "`fit_function` estimate the same in every draw."
                )

    def by_member(parts: Sequence[np.ndarray]) -> np.ndarray:
        stacked = np.stack(parts)
        if not nested:
            return stacked
        # Draw i comes from member i % members.
        return stacked.reshape(-1, members, *stacked.shape[1:]).swapaxes(0, 1)

    return pool(
        by_member([fit.estimate for fit in fits]),
        by_member([fit.variance for fit in fits]),
        nested=nested,
        dof_complete=np.min([fit.dof for fit in fits], axis=0),
        names=fits[0].names,
    )


def _check_shapes(estimates: np.ndarray, variances: np.ndarray, lead: int) -> None:
    axes = "[members, draws]" if lead == 2 else "[imputations]"
    if estimates.ndim not in (lead, lead + 1) or not estimates.size:
        raise InputError(
            f"`estimates` has shape {estimates.shape}; give {axes} or {axes[:-1]}, statistics] "
            f"{'with' if lead == 2 else 'without'} nested=True."
        )
    if min(estimates.shape[:lead]) < 2:
        least = "2 members and 2 draws of each" if lead == 2 else "2 imputations"
        raise InputError(
            f"Pooling needs at least {least}, and `estimates` has shape {estimates.shape}."
        )
    allowed = [estimates.shape]
    if estimates.ndim > lead:
        allowed.append((*estimates.shape, estimates.shape[-1]))
    if variances.shape not in allowed:
        raise InputError(
            f"`variances` has shape {variances.shape}, and estimates of shape {estimates.shape} "
            f"need {' or '.join(map(str, allowed))}."
        )


def _checked_names(names: Sequence[str] | None, count: int) -> tuple[str, ...]:
    if names is None:
        return tuple(map(str, range(count)))
    # A text would make a tuple of its letters.
    if isinstance(names, str | bytes) or not isinstance(names, Iterable):
        raise InputError(f"names={names!r} is no list of names; give one for each statistic.")
    found = tuple(map(str, names))
    if len(found) != count:
        raise InputError(f"There are {len(found)} names for {count} statistics; give one for each.")
    return found


def _checked_dof(
    dof: Any, shape: tuple[int, ...], names: tuple[str, ...]
) -> Float64[np.ndarray, " statistics"]:
    numbers = array_of_numbers("`dof_complete`", np.inf if dof is None else dof)
    if numbers.shape not in ((), shape):
        raise InputError(
            f"`dof_complete` has shape {numbers.shape}; give one number, or one for each of the "
            f"{len(names)} statistics."
        )
    full = np.broadcast_to(numbers.reshape(-1), len(names))
    # NaN is not above 0 either.
    wrong = ~(full > 0)
    if wrong.any():
        i = int(wrong.argmax())
        raise InputError(
            f"`dof_complete` is {full[i]:g} for {names[i]!r}; degrees of freedom are above 0."
        )
    return full


def _check_cells(estimates: np.ndarray, variances: np.ndarray, names: tuple[str, ...]) -> None:
    full = variances.ndim > estimates.ndim
    for what, numbers in (("`estimates`", estimates), ("`variances`", variances)):
        _refuse(~np.isfinite(numbers), what, numbers, estimates.ndim, names, "correct that fit")
    diagonal = np.diagonal(variances, axis1=-2, axis2=-1) if full else variances
    why = "variances are squared standard errors"
    _refuse(diagonal < 0, "`variances`", diagonal, estimates.ndim, names, why)
    if full:
        size = np.sqrt(diagonal)[..., None] * np.sqrt(diagonal)[..., None, :]
        skew = np.abs(variances - variances.swapaxes(-1, -2)) > _ASYMMETRY * size
        why = "covariances are the same both ways"
        _refuse(skew, "`variances`", variances, estimates.ndim, names, why)


def _refuse(
    wrong: np.ndarray,
    what: str,
    numbers: np.ndarray,
    lead: int,
    names: tuple[str, ...],
    why: str,
) -> None:
    if not wrong.any():
        return
    place = tuple(map(int, np.argwhere(wrong)[0]))
    of = " and ".join(repr(names[i]) for i in dict.fromkeys(place[lead - 1 :]))
    at = ", draw ".join(map(str, place[: lead - 1]))
    raise InputError(
        f"{what} has {numbers[place]:g} for {of} in {'member' if lead == 3 else 'imputation'} {at} "
        f"(counted from 0); {why}."
    )


def _check_range(
    estimates: np.ndarray, total: np.ndarray, variance: np.ndarray, names: tuple[str, ...]
) -> None:
    flat = estimates.reshape(-1, len(names))
    # Variances are squares: they overflow, or vanish where estimates still differ.
    finite = np.isfinite(total).all(0) if total.ndim > 1 else np.isfinite(variance)
    wrong = ~finite | ((variance == 0) & (flat.min(0) < flat.max(0)))
    if wrong.any():
        raise InputError(
            f"The variance of {names[int(wrong.argmax())]!r} is too large or too small for a "
            "number; give its estimates in another unit."
        )


def _share(part: np.ndarray, total: np.ndarray, otherwise: float) -> np.ndarray:
    return np.divide(part, total, out=np.full(total.shape, otherwise), where=total > 0)


def _check_observed(observed: np.ndarray, dof: np.ndarray, names: tuple[str, ...]) -> None:
    wrong = (observed == 0) & np.isfinite(dof)
    if wrong.any():
        raise InputError(
            f"The variances of {names[int(wrong.argmax())]!r} are all 0 although its estimates "
            "differ; `dof_complete` says nothing of it, so leave it out."
        )
