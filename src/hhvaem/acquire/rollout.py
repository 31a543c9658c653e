"""What asking for one cell after the other would have brought, on rows whose cells are known.

Every row begins with what is known of it at the start. At each step it is given the cell of one
more column: the one that a policy prefers of those that the table has. Before the first and after
every step the targets are predicted, and compared with the truth.
"""

import dataclasses
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from hhvaem import posterior
from hhvaem.acquire.information import Method
from hhvaem.acquire.policy import CHEAPEST
from hhvaem.acquire.scores import Worth, worth
from hhvaem.checks import check_count
from hhvaem.compiling import padded_length, program
from hhvaem.containers import listed, shown
from hhvaem.encoding import Cells, Encoding, TableMask, TableValues
from hhvaem.errors import InputError
from hhvaem.fitting import ROWS, ROWS_ON_ACCELERATOR, Fitted, row_keys
from hhvaem.likelihoods import Ordered, ordered_log_prob
from hhvaem.marginals import input_widths
from hhvaem.posterior import How
from hhvaem.predictive import Predictive, has_levels

Policy = Literal["grid", "histogram", "gaussian", "variance", "random", "fixed"]
POLICIES: tuple[Policy, ...] = get_args(Policy)

# Rows that are not shared among cores any more.
FEWEST = 8
# By which the one order of all rows is found.
FIXED_BY: Method = "grid"
# The most bins of a histogram: memory grows with their product over a cell and the targets.
MOST_BINS = 100
# A share below this is taken for it, so that its logarithm is finite.
LEAST = 1e-30

Order = Int[np.ndarray, "rows columns"]
Truth = Float[np.ndarray, "rows targets"]


@dataclass(frozen=True)
class Rollout:
    """How predictions became better, in numbers and lists: `dataclasses.asdict` goes to JSON.

    Lists over steps begin with what was known at the start, before the first step.

    Parameters
    ----------
    policy
        What chose the columns.
    rows
        How many rows there were.
    measures
        What the error of each target is: `rmse` of a number in its own units, by the predictive
        mean, or `error rate` of levels.
    error
        At each step, of each target.
    log_likelihood
        At each step, the mean over rows of log p(targets of the row | what is known of it), in nats
        and the targets' own units. Several targets are taken together. A value that has a
        probability counts by its log mass, any other by its log density.
    spend
        At each step, the mean of what rows have paid.
    seconds
        At each step, how long it took to predict all rows and to choose. The last one chooses
        nothing. Compilation is not in it: before the clock starts, some rows are looked at once.
    unavailable
        Of each step, the share of rows in which a column was asked for in vain, as the table lacks
        it there, among those that were given one. The row was then given the next best, and does
        not ask for that column again.
    error_area, log_likelihood_area
        Means over steps: the area under the curve of each target's error, and of the likelihood.
    order
        Of each row, the columns that it was given, in their order.
    """

    policy: Policy
    rows: int
    measures: list[str]
    error: list[list[float]]
    log_likelihood: list[float]
    spend: list[float]
    seconds: list[float]
    unavailable: list[float]
    error_area: list[float]
    log_likelihood_area: float
    order: list[list[int]]


def roll_out(
    fitted: Fitted,
    values: TableValues,
    mask: TableMask,
    truth: Truth,
    *,
    policy: Policy = "grid",
    start: TableMask | None = None,
    costs: Sequence[float] | Float[np.ndarray, " columns"] | None = None,
    order: Sequence[int] | None = None,
    how: How | None = None,
    bins: int = 5,
    steps: int | None = None,
    seed: int = 0,
) -> Rollout:
    """Simulate asking for the cells of rows, one after the other.

    Parameters
    ----------
    fitted
        A model with targets.
    values, mask
        The rows, as `hhvaem.table.encode` gives them; what the mask hides is never given to a row.
    truth
        Their targets, encoded as well; NaN where unknown, which then do not count.
    policy
        A method of `hhvaem.acquire.information`, by its gain per cost, chosen anew in each row at
        each step; `random`, an order of each row's own; or `fixed`, one order for all rows.
    start
        What is known at the start, of what the mask shows; None for nothing.
    costs
        What each column costs; None for 1.
    order
        That of `fixed`, and of no other policy; None for that of mean gains per cost at the start.
    how
        How latents are drawn; None for as in predictions.
    bins
        Of the policy `histogram`, from 2 to 100.
    steps
        When to end; None for when nothing is left to be asked.
    seed
        Where the orders of `random` come from.

    Raises
    ------
    InputError
        Where the policy is unknown, the model has no target, the arrays do not fit together, lack
        what their mask shows or have a level that there is not, a cost is negative or missing, a
        number is out of its range, or the order names no column or one twice, or is given to a
        policy that has its own.

    Examples
    --------
    >>> from hhvaem import Regressor
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(200, 3))
    >>> y = x[:, 1] + 0.1 * rng.normal(size=200)
    >>> model = Regressor(preset="fast", random_state=0).fit(x[20:], y[20:])
    >>> there = np.ones((20, 3), bool)
    >>> found = roll_out(model.fitted_, x[:20], there, y[:20, None], policy="variance")
    >>> found.order[0]
    [1, 2, 0]
    >>> found.error[0][0] > 2 * found.error[1][0]
    True
    """
    _check_model(fitted)
    values, truth = _numbers("values", values), _numbers("truth", truth)
    mask = _flags("mask", mask)
    start = np.zeros_like(mask) if start is None else _flags("start", start)
    columns = len(fitted.encoding.laws)
    paid = np.ones(columns) if costs is None else _numbers("costs", costs)
    _check_arrays(fitted, values, mask, truth, start, paid)
    _check_choices(policy, order, how)
    bins, seed = check_count("bins", bins, 2, MOST_BINS), check_count("seed", seed, 0)
    steps = None if steps is None else check_count("steps", steps, 0)
    if how is None:
        how = fitted.plan.how
        how = dataclasses.replace(how, chains=-(-how.chains // fitted.members))
    look, rows = _Look(fitted, values, how, bins), _Rows(mask, start)
    method: Method | None = None
    steady: Order | None = None
    if policy == "random":
        steady = _random_orders(len(mask), paid.size, seed)
    elif policy == "fixed":
        first = (
            look.best_order(rows.known, paid) if order is None else _checked_order(order, paid.size)
        )
        steady = np.tile(first, (len(mask), 1))
    else:
        method = policy
    left = int((mask & ~rows.known).sum(1).max())
    steps = left if steps is None else min(steps, left)
    look.compile(rows.known, method)
    error, likelihood, spend, seconds, unavailable = [], [], [], [], []
    for step in range(steps + 1):
        started, last = time.perf_counter(), step == steps
        spend.append(float((paid * (rows.known & ~start)).sum(1).mean()))
        told, law = look(rows.known, None if last else method)
        if not last:
            orders = steady if told is None else _orders(told, paid)
            assert orders is not None
            unavailable.append(rows.give(orders))
        seconds.append(time.perf_counter() - started)
        error.append(errors(law, truth))
        likelihood.append(float(log_likelihood(law, truth).mean()))
    laws = law.scales.encoding.laws
    return Rollout(
        policy,
        len(mask),
        ["error rate" if has_levels(each) else "rmse" for each in laws],
        error,
        likelihood,
        spend,
        seconds,
        unavailable,
        np.mean(error, axis=0).tolist(),
        float(np.mean(likelihood)),
        rows.order,
    )


def errors(law: Predictive, truth: Truth) -> list[float]:
    """Give the error of each target over the rows in which it is known: RMSE or error rate."""
    found = []
    for t, each in enumerate(law.scales.encoding.laws):
        seen = np.flatnonzero(np.isfinite(truth[:, t]))
        off = law.filled(t, seen) - truth[seen, t]
        found.append(float((off != 0).mean() if has_levels(each) else np.sqrt((off**2).mean())))
    return found


def log_likelihood(law: Predictive, truth: Truth) -> Float[np.ndarray, " known"]:
    """Give log p(known targets) of each row that knows one: log masses where values have them."""
    known = np.isfinite(truth)
    encoding, scale = law.scales.encoding, jnp.asarray(law.scales.log_scale, jnp.float32)
    cells = encoding.encode(truth, known)
    found = _log_prob(
        encoding.levels, jnp.asarray(law.components), scale, cells, jnp.asarray(known)
    )
    total = np.asarray(found, np.float64) + encoding.log_measure(truth, known).sum(1)
    return total[known.any(1)]


@program
def _log_prob(
    levels: tuple[int, ...],
    components: Float[Array, "models rows components inputs"],
    log_scale: Float[Array, "models targets"],
    cells: Cells,
    known: Bool[Array, "rows targets"],
) -> Float[Array, " rows"]:
    """Give the log probability of a row's targets together, in latent units."""
    widths = np.array(input_widths(levels))
    shape, total = components.shape[:3], jnp.zeros(components.shape[:3])
    for t, (count, first) in enumerate(zip(levels, np.cumsum(widths) - widths, strict=True)):
        at = components[..., first]
        level = cells.point[None, :, t, None]
        if count == 1:
            ends = (part[None, :, t, None] for part in (cells.low, cells.high))
            spread = log_scale[:, t, None, None]
            each = ordered_log_prob(at, *(jnp.broadcast_to(x, shape) for x in (spread, *ends)))
        elif count == 2:
            each = jnp.log(jnp.maximum(jnp.where(level > 0.5, at, 1.0 - at), LEAST))
        else:
            shares = components[..., first : first + count]
            own = jax.nn.one_hot(level.astype(jnp.int32), count, dtype=shares.dtype)
            each = jnp.log(jnp.maximum((shares * own).sum(-1), LEAST))
        total = total + jnp.where(known[None, :, t, None], each, 0.0)
    return jax.nn.logsumexp(total, axis=(0, 2)) - np.log(shape[0] * shape[2])


class _Look:
    """Looks at rows: what each column would tell, and the laws of the targets."""

    def __init__(self, fitted: Fitted, values: TableValues, how: How, bins: int) -> None:
        self.fitted, self.values, self.how, self.bins = fitted, values, how, bins
        # A processor computes one row after the other: rows are shared among its cores.
        on_cpu = jax.default_backend() == "cpu"
        self.cores = (os.cpu_count() or 1) if on_cpu else 1
        most = ROWS if on_cpu else ROWS_ON_ACCELERATOR
        share = max(-(-len(values) // self.cores), min(FEWEST, len(values)))
        self.size = min(padded_length(share), most)

    def __call__(self, known: TableMask, method: Method | None) -> tuple[Worth | None, Predictive]:
        """Look at all rows; without a method, nothing is said of columns."""
        parts = [slice(i, i + self.size) for i in range(0, len(known), self.size)]
        if self.cores == 1:
            found = [self._part(part, known, method) for part in parts]
        else:
            with ThreadPoolExecutor(self.cores) as pool:
                found = list(pool.map(lambda part: self._part(part, known, method), parts))
        components = np.concatenate([law.components for _, law in found], axis=1)
        told = [each for each, _ in found if each is not None]
        joined = Worth(*map(np.concatenate, zip(*told, strict=True))) if told else None
        return joined, Predictive(self.fitted.target_scales, components)

    def compile(self, known: TableMask, method: Method | None) -> None:
        """Look at some rows once, so that all programs are there."""
        self._part(slice(0, self.size), known, method)

    def best_order(
        self, known: TableMask, costs: Float[np.ndarray, " columns"]
    ) -> Int[np.ndarray, " columns"]:
        """Give the order of mean gains per cost."""
        told, _ = self(known, FIXED_BY)
        assert told is not None
        means = Worth(*(part.mean(0, keepdims=True) for part in told))
        return _orders(means, costs)[0]

    def _part(
        self, part: slice, known: TableMask, method: Method | None
    ) -> tuple[Worth | None, Predictive]:
        values, mask, fitted = self.values[part], known[part], self.fitted
        if method is not None:
            ((_, told, law),) = worth(fitted, values, mask, self.how, method, self.bins, self.size)
            return told, law
        keys = row_keys(values, mask, fitted.seed)
        (chunk,) = fitted.chunks(values, mask, keys, self.size)
        drawn = fitted.draws(chunk, self.how)
        target = np.asarray(posterior.laws(fitted.models, chunk.row, drawn.positions).target)
        return None, Predictive(fitted.target_scales, target[:, : chunk.size])


class _Rows:
    """What is known of rows, and what they have asked for."""

    def __init__(self, has: TableMask, known: TableMask) -> None:
        self.has, self.known = has, known
        self.lacking = np.zeros_like(has)  # asked for in vain
        self.order: list[list[int]] = [[] for _ in has]

    def give(self, order: Order) -> float:
        """Give each row the first column in its order that there is, and is not known yet.

        Returns
        -------
        float
            The share of rows that first asked for one which is not there.
        """
        open_ = ~self.known & ~self.lacking
        there = np.take_along_axis(open_ & self.has, order, axis=1)
        rows = np.flatnonzero(there.any(1))
        first = there[rows].argmax(1)
        before = np.arange(order.shape[1]) < first[:, None]
        vain = np.take_along_axis(open_ & ~self.has, order, axis=1)[rows] & before
        at, place = np.nonzero(vain)
        known, lacking = self.known.copy(), self.lacking.copy()
        lacking[rows[at], order[rows[at], place]] = True
        chosen = order[rows, first]
        known[rows, chosen] = True
        self.known, self.lacking = known, lacking
        for row, column in zip(rows.tolist(), chosen.tolist(), strict=True):
            self.order[row].append(column)
        return float(vain.any(1).mean())


def _orders(told: Worth, costs: Float[np.ndarray, " columns"]) -> Order:
    """Put columns in the order of gain per cost; where that is the same, of the raw estimates."""
    cost = np.maximum(costs, CHEAPEST)
    return np.lexsort((-told.raw / cost, -told.gain / cost), axis=1)


def _random_orders(rows: int, columns: int, seed: int) -> Order:
    each = [np.random.default_rng((seed, row)).permutation(columns) for row in range(rows)]
    return np.stack(each)


def _check_model(fitted: Any) -> None:
    if not isinstance(fitted, Fitted):
        raise InputError(
            f"fitted is of type {type(fitted).__name__}; give the `fitted_` of a Regressor or "
            "Classifier."
        )
    if fitted.target_encoding is None:
        raise InputError("This model has no target to ask for; fit one with a target.")


def _numbers(name: str, given: Any) -> Float[np.ndarray, "*shape"]:
    return _array(name, given, "fiu", "numbers").astype(np.float64)


def _flags(name: str, given: Any) -> Bool[np.ndarray, "*shape"]:
    return _array(name, given, "b", "True and False")


def _array(name: str, given: Any, kinds: str, what: str) -> np.ndarray:
    try:
        found = np.asarray(given)
    except ValueError:  # lists of several lengths
        found = np.asarray(None)
    if found.dtype.kind not in kinds:
        raise InputError(f"{name} is no array of {what}; give one.")
    return found


def _check_choices(policy: Any, order: Any, how: Any) -> None:
    if policy not in POLICIES:
        raise InputError(f"policy={policy!r} is unknown; use {listed(POLICIES)}.")
    if order is not None and policy != "fixed":
        raise InputError(
            f"order is for policy='fixed', and policy={policy!r} has its own; leave one of both "
            "out."
        )
    if not isinstance(how, How | None):
        raise InputError(f"how={shown(how)} is no How; give one of hhvaem.posterior, or None.")


def _check_arrays(
    fitted: Fitted,
    values: TableValues,
    mask: TableMask,
    truth: Truth,
    start: TableMask,
    costs: Float[np.ndarray, " *columns"],
) -> None:
    assert fitted.target_encoding is not None
    rows = len(np.atleast_1d(values))
    shape = (rows, len(fitted.encoding.laws))
    for name, array, expected in (
        ("values", values, shape),
        ("mask", mask, shape),
        ("start", start, shape),
        ("truth", truth, (rows, len(fitted.target_encoding.laws))),
        ("costs", costs, shape[1:]),
    ):
        if array.shape != expected:
            raise InputError(
                f"{name} has the shape {array.shape}, and the rows and the model ask for "
                f"{expected}; give one of that shape."
            )
    if not rows:
        raise InputError("There is no row to ask about; give at least one.")
    for name, where, found in (
        ("mask", mask & ~np.isfinite(values), "values has no number there"),
        ("start", start & ~mask, "mask hides that cell"),
    ):
        if where.any():
            row, column = np.argwhere(where)[0]
            raise InputError(
                f"{name} is True in row {row} and column {column} (counted from 0), and {found}; "
                "make it False there."
            )
    wrong = np.flatnonzero(~(np.isfinite(costs) & (costs >= 0)))
    if wrong.size:
        raise InputError(
            f"The cost of column {wrong[0]} is {costs[wrong[0]]}; costs are finite numbers of at "
            "least 0."
        )
    if np.isinf(truth).any():
        row, column = np.argwhere(np.isinf(truth))[0]
        raise InputError(
            f"truth is {truth[row, column]} in row {row} and column {column} (counted from 0); "
            "give a number, or NaN where it is unknown."
        )
    _check_levels("values", fitted.encoding, values, mask)
    _check_levels("truth", fitted.target_encoding, truth, ~np.isnan(truth))
    unknown = np.flatnonzero(~np.isfinite(truth).any(0))
    if unknown.size:
        raise InputError(
            f"Target {unknown[0]} is unknown in all rows; give rows in which it is known."
        )


def _check_levels(name: str, encoding: Encoding, values: TableValues, seen: TableMask) -> None:
    for j, law in enumerate(encoding.laws):
        levels = law.warp.atoms if isinstance(law, Ordered) else np.arange(encoding.levels[j])
        if levels is None or not has_levels(law):
            continue
        wrong = np.flatnonzero(seen[:, j] & ~np.isin(values[:, j], levels))
        if wrong.size:
            raise InputError(
                f"{name} is {values[wrong[0], j]:g} in row {wrong[0]} and column {j} (counted from "
                f"0), which has the levels 0 to {len(levels) - 1}; give one of these."
            )


def _checked_order(order: Sequence[int], columns: int) -> Int[np.ndarray, " columns"]:
    found = _array("order", order, "iu", "whole numbers")
    if found.ndim != 1 or sorted(found.tolist()) != list(range(columns)):
        raise InputError(
            f"order={shown(found.tolist())} does not name each of the columns 0 to {columns - 1} "
            "once."
        )
    return found
