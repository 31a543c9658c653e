"""From what questions would tell to which is asked, and when no more are.

A rule is a function of a question and of where things stand. It objects with a sentence, or has
nothing to say; a question is asked if no rule objects.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from hhvaem.checks import check_count
from hhvaem.containers import shown, some
from hhvaem.errors import InputError

# Questions that cost nothing are as good as this cheap.
CHEAPEST = 1e-9


@dataclass(frozen=True)
class Question:
    """Something that can be asked for.

    Parameters
    ----------
    name
        Of a column, or of a group of columns.
    columns
        What would be told.
    gain, error
        What it is expected to tell about the targets, in nats (in variances for
        `method="variance"`), and the standard error of that estimate; NaN where there are too few
        draws to tell.
    cost
        What it costs.
    ahead
        What it and the best question after it are expected to tell, and what they cost; None
        unless that was asked for.
    others
        What else could be asked, best first: nothing to which a rule objects.

    Examples
    --------
    >>> Question("blood", ("iron", "crp"), gain=0.2, error=0.012, cost=3.0)
    <Question 'blood' (iron, crp): gain 0.2 ± 0.012, cost 3>
    """

    name: str
    columns: tuple[str, ...]
    gain: float
    error: float
    cost: float
    ahead: tuple[float, float] | None = None
    others: tuple["Question", ...] = ()

    def __repr__(self) -> str:
        of = f" ({some(self.columns, most=4)})" if len(self.columns) > 1 else ""
        error = f" ± {self.error:.2g}" if self.error == self.error else ""
        rest = f", {len(self.others)} others" if self.others else ""
        return (
            f"<Question {self.name!r}{of}: gain {self.gain:.2g}{error}, cost {self.cost:g}{rest}>"
        )

    @property
    def rate(self) -> float:
        """The gain for each unit of cost; where two steps were thought of, of the better way."""
        ways = [(self.gain, self.cost)] + ([self.ahead] if self.ahead is not None else [])
        return max(gain / max(cost, CHEAPEST) for gain, cost in ways)


@dataclass(frozen=True)
class Prediction:
    """What is predicted of a target.

    Parameters
    ----------
    target
        Its name.
    value
        The mean of a number, the most probable label.
    low, high, level
        Ends of the interval that holds a number with probability `level`; None for labels.
    shares
        The probability of each label; empty for numbers.

    Examples
    --------
    >>> Prediction("pressure", 120.0, 104.0, 133.0, 0.9)
    <Prediction pressure 120 (90%: 104 to 133)>
    >>> Prediction("risk", "low", shares=(("high", 0.2), ("low", 0.8)))
    <Prediction risk 'low' (80%)>
    """

    target: str
    value: Any
    low: float | None = None
    high: float | None = None
    level: float | None = None
    shares: tuple[tuple[Any, float], ...] = ()

    def __repr__(self) -> str:
        return f"<Prediction {self}>"

    def __str__(self) -> str:
        if self.low is None or self.high is None or self.level is None:
            share = max((share for _, share in self.shares), default=float("nan"))
            return f"{self.target} {shown(self.value)} ({share:.0%})"
        ends = f"{self.level:.0%}: {self.low:.4g} to {self.high:.4g}"
        return f"{self.target} {self.value:.4g} ({ends})"


class Standing(NamedTuple):
    """Where things stand before a question.

    Parameters
    ----------
    asked
        How many answers have been given.
    spent
        What they cost.
    predictions
        What is predicted of each target.
    """

    asked: int
    spent: float
    predictions: tuple[Prediction, ...]


Rule = Callable[[Question, Standing], str | None]


def objection(rules: Sequence[Rule], question: Question, standing: Standing) -> str | None:
    """Give the sentence of the first rule that objects to a question; None where none does.

    Raises
    ------
    InputError
        Where a rule says something else than a sentence.
    """
    # All are heard, so that one which cannot judge these targets says so before the first answer.
    said = [rule(question, standing) for rule in rules]
    for each in said:
        if each is not None and not isinstance(each, str):
            raise InputError(f"A rule objects with a sentence or returns None, not {each!r}.")
    return next(filter(None, said), None)


def as_rules(stop: Any) -> tuple[Rule, ...]:
    """Take a rule, or several of them.

    Raises
    ------
    InputError
        Where one of them is none.
    """
    rules = (stop,) if callable(stop) or isinstance(stop, str) else stop
    if not isinstance(rules, Sequence) or not all(map(callable, rules)):
        raise InputError(
            f"stop={stop!r} is no rule; give one of hhvaem.acquire.policy, or a list of them."
        )
    return tuple(rules)


def budget(most: float) -> Rule:
    """Ask nothing that costs more than is left of a budget.

    Examples
    --------
    >>> rule = budget(5.0)
    >>> rule(Question("ecg", ("ecg",), 0.2, 0.01, cost=3.0), Standing(1, 2.0, ()))
    >>> rule(Question("mri", ("mri",), 0.2, 0.01, cost=4.0), Standing(1, 2.0, ()))
    'The budget of 5 leaves nothing that could be asked.'
    """
    _check_number("most", most)

    def rule(question: Question, standing: Standing) -> str | None:
        over = standing.spent + question.cost > most * (1 + 1e-9)
        return f"The budget of {most:g} leaves nothing that could be asked." if over else None

    return rule


def worth(least: float, errors: float = 2.0) -> Rule:
    """Ask nothing whose gain for each unit of cost is below `least`, by so many of its errors.

    A gain whose error is unknown (NaN) may be any, and is not objected to unless `errors` is 0.

    Examples
    --------
    >>> rule = worth(0.02)
    >>> rule(Question("ecg", ("ecg",), 0.05, 0.01, cost=3.0), Standing(1, 2.0, ()))
    >>> rule(Question("mri", ("mri",), 0.01, 0.01, cost=3.0), Standing(1, 2.0, ()))
    'Nothing left is worth 0.02 for each unit of cost.'
    >>> rule(Question("mri", ("mri",), 0.01, float("nan"), cost=3.0), Standing(1, 2.0, ()))
    """
    _check_number("least", least)
    _check_number("errors", errors)

    def rule(question: Question, standing: Standing) -> str | None:
        # NaN is below nothing.
        at_best = question.gain + (errors * question.error if errors else 0.0)
        below = at_best < least * question.cost and question.rate < least
        return f"Nothing left is worth {least:g} for each unit of cost." if below else None

    return rule


def confident(share: float) -> Rule:
    """Ask nothing more once every target has a label of at least this probability.

    Examples
    --------
    >>> rule = confident(0.75)
    >>> sure = Standing(1, 1.0, (Prediction("risk", "low", shares=(("low", 0.8), ("high", 0.2))),))
    >>> rule(Question("ecg", ("ecg",), 0.2, 0.01, cost=3.0), sure)
    'The prediction is at least 75% sure.'
    """
    _check_number("share", share, most=1.0)

    def rule(question: Question, standing: Standing) -> str | None:
        if not all(each.shares for each in standing.predictions):
            raise InputError(
                "A number has no class to be sure of (confident, --sure); for numbers there is "
                "decided, or --edge."
            )
        tops = [max(p for _, p in each.shares) for each in standing.predictions]
        sure = min(tops, default=0.0) >= share
        return f"The prediction is at least {share:.0%} sure." if sure else None

    return rule


def decided(*edges: float) -> Rule:
    """Ask nothing more once the interval of every target lies between two neighbouring edges.

    Examples
    --------
    >>> rule = decided(140.0)
    >>> sure = Standing(1, 1.0, (Prediction("pressure", 120.0, 104.0, 133.0, 0.9),))
    >>> rule(Question("ecg", ("ecg",), 0.2, 0.01, cost=3.0), sure)
    'The interval of the prediction lies on one side of every edge.'
    """
    if not edges:
        raise InputError("decided() has no edge; give one or more.")
    for edge in edges:
        _check_number("edge", edge, least=-np.inf)

    def rule(question: Question, standing: Standing) -> str | None:
        def between(each: Prediction) -> bool:
            if each.low is None or each.high is None:
                raise InputError(
                    "A class has no interval to be on one side of an edge (decided, --edge); for "
                    "classes there is confident, or --sure."
                )
            return not any(each.low < edge < each.high for edge in edges)

        done = bool(standing.predictions) and all(map(between, standing.predictions))
        return "The interval of the prediction lies on one side of every edge." if done else None

    return rule


def at_most(count: int) -> Rule:
    """Ask so many questions at most.

    Examples
    --------
    >>> rule = at_most(2)
    >>> rule(Question("ecg", ("ecg",), 0.2, 0.01, cost=3.0), Standing(2, 2.0, ()))
    'As many questions as may be asked, 2, were asked.'
    """
    check_count("count", count, 0)

    def rule(question: Question, standing: Standing) -> str | None:
        done = standing.asked >= count
        return f"As many questions as may be asked, {count}, were asked." if done else None

    return rule


def at_least(count: int, other: Rule) -> Rule:
    """Let another rule object only once so many answers have been given.

    Examples
    --------
    >>> rule = at_least(1, budget(0.0))
    >>> rule(Question("ecg", ("ecg",), 0.2, 0.01, cost=3.0), Standing(0, 0.0, ()))
    """
    check_count("count", count, 0)
    if not callable(other):
        raise InputError(f"at_least needs a rule to hold back, not {other!r}.")

    def rule(question: Question, standing: Standing) -> str | None:
        return other(question, standing) if standing.asked >= count else None

    return rule


def ahead(
    gain: Float[np.ndarray, " columns"],
    cost: Float[np.ndarray, "columns columns"],
    chance: Float[np.ndarray, "columns answers"],
    then: Float[np.ndarray, "columns answers columns"],
    trusted: Bool[np.ndarray, "columns answers"],
) -> tuple[Float[np.ndarray, " columns"], Float[np.ndarray, " columns"]]:
    """Give what each column and the best one after it are expected to tell, and to cost.

    Parameters
    ----------
    gain
        What each column would tell now; NaN where it cannot be asked for.
    cost
        What each second column would cost after each first one; on the diagonal the first ones.
    chance, then
        Of each first column the probability of its answers, and what each second one would tell
        after them.
    trusted
        Whether that can be trusted; where not, a second column is taken to tell what it would now.

    Returns
    -------
    total, price
    """
    count = len(gain)
    after = np.where(trusted[..., None], then, gain[None, None])
    after = np.where(np.isnan(gain) | np.eye(count, dtype=bool)[:, None], -np.inf, after)
    best = after.max(2, initial=-np.inf)
    choice = after.argmax(2)
    possible = np.isfinite(best)
    second = np.where(possible, best, 0.0)
    price = np.where(possible, np.take_along_axis(cost, choice, axis=1), 0.0)
    total = chance.sum(1)
    return (
        gain + (chance * second).sum(1) / total,
        np.diag(cost) + (chance * price).sum(1) / total,
    )


def _check_number(name: str, value: Any, least: float = 0.0, most: float = np.inf) -> None:
    number = isinstance(value, int | float | np.integer | np.floating)
    if not number or isinstance(value, bool) or not least <= value <= most:
        ends = " from 0" * (least == 0) + f" to {most:g}" * (most < np.inf)
        raise InputError(f"{name}={value!r} must be a number{ends}.")
