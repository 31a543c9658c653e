"""One live case: what to ask next, what is known by now, and what follows from it."""

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from hhvaem.acquire.answers import SPAN, answer, doubt, is_missing, number
from hhvaem.acquire.case import Case, on_device, sets_of
from hhvaem.acquire.information import METHODS, Method
from hhvaem.acquire.policy import Prediction, Question, Rule, Standing, ahead, as_rules, objection
from hhvaem.acquire.prices import near, prices
from hhvaem.checks import check_count
from hhvaem.containers import listed, shown
from hhvaem.errors import InputError, TableWarning
from hhvaem.estimators.base import check_known, interval_ends
from hhvaem.estimators.imputer import Imputer
from hhvaem.estimators.predictors import Classifier, Predictor
from hhvaem.likelihoods import Ordered
from hhvaem.schema import LEVELLED
from hhvaem.table import decode_value

# The probability of intervals, and where in the law of a number answers are imagined.
LEVEL, IMAGINED = 0.9, (0.1, 0.5, 0.9)
# Draws behind everything, and the most of them that fit into memory; with what columns tell
# together, every pair of draws is there.
DRAWS, MOST_DRAWS, MOST_PAIRED = 100, 10_000, 2_000
# Levels that are imagined as answers, the most probable.
MOST_LEVELS = 5


class Told(NamedTuple):
    """An answer.

    Parameters
    ----------
    column
        What was told.
    value
        The answer; None where it cannot be measured.
    gain
        What it was expected to tell; None where it was not asked for.
    cost
        What it cost.
    """

    column: str
    value: Any
    gain: float | None
    cost: float


@dataclass(frozen=True)
class Explanation:
    """How the prediction would move with the answer to a question.

    Parameters
    ----------
    column
        What would be asked.
    now
        What is predicted without it.
    answers
        Answers with what would then be predicted: of a number a low one, a middle one and a high
        one; of levels the most probable.
    """

    column: str
    now: tuple[Prediction, ...]
    answers: tuple[tuple[Any, tuple[Prediction, ...]], ...]

    def __repr__(self) -> str:
        now = ", ".join(map(str, self.now))
        after = ", ".join(shown(value) for value, _ in self.answers)
        return f"<Explanation {self.column!r}: now {now}; answers {after}>"


class Session:
    """Ask for what is worth knowing about one case, and predict from what is known.

    Parameters
    ----------
    model
        A fitted `Regressor` or `Classifier`.
    known
        What is known from the start, by column; None and NaN are unknown.
    costs
        What columns cost, 1 where it is not said; of a group, what is paid once for its first
        column.
    groups
        Columns that are measured together, by a name of their own. A group can be asked for as a
        whole.
    stop
        A rule or several of them (`hhvaem.acquire.policy`), each of which may object to a question.
    method
        What is to be gained: information by `grid`, `histogram` or `gaussian`, or `variance`.
    look_ahead
        Whether to choose a question also for what the next one would tell after it.
    draws
        Draws of the latents behind everything: up to 10,000, with groups and batches 2,000.

    Attributes
    ----------
    history
        All answers, in order; of a column that was told again, the last.
    known, open
        What is known, by column, and the columns that can still be asked for.
    stopped
        Why nothing is asked, after `ask` gave None.
    spent
        What the answers have cost.

    Examples
    --------
    >>> import numpy as np
    >>> from hhvaem import Regressor, Session
    >>> rng = np.random.default_rng(0)
    >>> table = rng.normal(size=(200, 3))
    >>> y = 2 * table[:, 1] + 0.1 * rng.normal(size=200)
    >>> model = Regressor(preset="fast", random_state=0).fit(table, y)
    >>> session = Session(model, known={"x0": 0.5})
    >>> session.ask().name
    'x1'
    >>> session.tell("x1", 1.0)
    >>> bool(abs(session.predict().value - 2) < 0.5)
    True
    """

    def __init__(
        self,
        model: Predictor,
        known: Mapping[str, Any] | None = None,
        *,
        costs: Mapping[str, float] | None = None,
        groups: Mapping[str, Iterable[str]] | None = None,
        stop: Rule | Sequence[Rule] = (),
        method: Method = "grid",
        look_ahead: bool = False,
        draws: int = DRAWS,
    ) -> None:
        check_model(model)
        self.model = model
        self._columns = {column.name: column for column in model.schema_.modelled}
        self._places = {name: i for i, name in enumerate(self._columns)}
        self.prices = prices(model.schema_.modelled, costs, groups)
        self._rules = as_rules(stop)
        check_known("method", method, METHODS)
        if method != "grid" and (self.prices.groups or look_ahead):
            raise InputError(f"Groups and look_ahead need method='grid', not {method!r}.")
        self.method: Method = method
        self.look_ahead = bool(look_ahead)
        self.draws = check_count("draws", draws, 1, MOST_DRAWS)
        if self.prices.groups and self.draws > MOST_PAIRED:
            raise InputError(f"Groups need at most {MOST_PAIRED} draws, not {self.draws}.")
        if known is not None and not isinstance(known, Mapping):
            raise InputError(
                f"`known` is of type {type(known).__name__}; give a dict of values by column."
            )
        self.given: dict[str, Any] = {}
        for name, value in (known or {}).items():
            self._check_column(name)
            if not is_missing(value):
                self.given[name] = answer(self._columns[name], value)
        # Everything that was told, also what was told anew later.
        self.told: list[Told] = []
        self.stopped: str | None = None
        # The draws before each answer; they are not kept in files.
        self._before: list[Case | None] = []
        self._question: Question | None = None
        for name in self.given:
            self._doubt(name, 3)
        self._case = self._replayed()

    def __repr__(self) -> str:
        model, targets = type(self.model).__name__, listed(self.model.target_names_)
        count = f"{len(self.known)} of {len(self._columns)} columns known"
        return f"<Session with a {model} of {targets}: {count}, {self.spent:g} spent>"

    @property
    def history(self) -> list[Told]:
        """All answers, in order; of a column that was told again, the last."""
        last = {each.column: i for i, each in enumerate(self.told)}
        return [each for i, each in enumerate(self.told) if last[each.column] == i]

    @property
    def known(self) -> dict[str, Any]:
        """All that is known, by column."""
        told = {each.column: each.value for each in self.history}
        both = {**self._not_told(), **told}
        return {name: value for name, value in both.items() if value is not None}

    @property
    def doubts(self) -> dict[str, str]:
        """What is known and lies far outside of the table that was fitted, a sentence on each."""
        assert self.model.fitted_ is not None
        laws = self.model.fitted_.encoding.laws
        found = {
            name: doubt(self._columns[name], laws[self._places[name]], value)
            for name, value in self.known.items()
        }
        return {name: sentence for name, sentence in found.items() if sentence}

    @property
    def open(self) -> list[str]:
        """The columns that can still be asked for."""
        done = {*self.given, *(each.column for each in self.history)}
        return [name for name in self._columns if name not in done]

    @property
    def spans(self) -> dict[str, tuple[float, float]]:
        """Where nearly all of each target lay in the table that was fitted; numbers only."""
        assert self.model.fitted_ is not None
        encoding = self.model.fitted_.target_encoding
        assert encoding is not None
        return {
            name: tuple(law.warp.value(np.array([-SPAN, SPAN])).tolist())
            for name, law in zip(self.model.target_names_, encoding.laws, strict=True)
            if isinstance(law, Ordered)
        }

    @property
    def spent(self) -> float:
        """What the answers have cost."""
        return sum((each.cost for each in self.history), 0.0)

    @on_device
    def ask(self) -> Question | None:
        """Give the question that is worth most for its cost; None where there is none.

        `stopped` then says why. Nothing is changed by asking.
        """
        questions = self._questions()
        self.stopped, self._question = None, None
        if not questions:
            self.stopped = (
                "Every column is known or cannot be measured: nothing is left to ask."
                if self._columns
                else "All columns are constant, empty or ignored: there is nothing to ask for."
            )
            return None
        standing = Standing(len(self.history), self.spent, self._predictions(self._case))
        against = [objection(self._rules, question, standing) for question in questions]
        left = [each for each, said in zip(questions, against, strict=True) if said is None]
        if not left:
            self.stopped = against[0]
            return None
        self._question = replace(left[0], others=tuple(left[1:]))
        return self._question

    @on_device
    def batch(self, count: int) -> list[Question]:
        """Give columns to ask for at once: each the best beside those before it.

        What they tell together counts, so that two that tell the same are not both among them. The
        gain of each is what it adds to those before it. They are fewer where no more are open, or
        where rules object to all others, as if those before had been told.
        """
        check_count("count", count, 1)
        if self.method != "grid":
            raise InputError(f"A batch needs method='grid', not {self.method!r}.")
        if self.draws > MOST_PAIRED:
            raise InputError(f"A batch needs at most {MOST_PAIRED} draws, not {self.draws}.")
        chosen: list[Question] = []
        had = 0.0
        now = self._predictions(self._case)
        for _ in range(min(count, len(self.open))):
            names = [question.name for question in chosen]
            rest = [name for name in self.open if name not in names]
            # As many sets for every choice, so that one compiled program does for all.
            sets = [[*names, name] for name in rest] + [[]] * (len(self._columns) - len(rest))
            found = self._case.together(self._sets(sets))
            beside = [*self.known, *names]
            questions = [
                Question(
                    name,
                    (name,),
                    float(max(gain - had, 0.0)),
                    float(error),
                    self.prices.of([name], beside),
                )
                for name, gain, error in zip(rest, found.gain, found.error, strict=False)
            ]
            spent = self.spent + sum(question.cost for question in chosen)
            standing = Standing(len(self.history) + len(chosen), spent, now)
            left = [
                i
                for i, question in enumerate(questions)
                if objection(self._rules, question, standing) is None
            ]
            if not left:
                break
            best = max(left, key=lambda i: questions[i].rate)
            chosen.append(questions[best])
            had = float(found.gain[best])
        return chosen

    @on_device
    def tell(self, column: str, value: Any) -> None:
        """Take an answer; None where the column cannot be measured, and is not asked for again.

        Parameters
        ----------
        column
            What it is about.
        value
            A value, or a text that a table in a file would have for it: `"2020-01-31"`, `"yes"`.

        Raises
        ------
        InputError
            Where there is no such column, or the value is none of its; nothing is changed.

        Warns
        -----
        TableWarning
            Where something was told of the column before, which is replaced; and where the value
            lies far outside of what the column was in the table that was fitted.
        """
        self._check_column(column)
        value = None if is_missing(value) else answer(self._columns[column], value)
        asked = self._question is not None and column in self._question.columns
        gain = self._question.gain if self._question is not None and asked else None
        cost = self._paid(column)
        if value is not None and cost is None:
            cost = self.prices.of([column], self.known)
        again = column not in self.open
        if again:
            now = "unknown" if value is None else shown(value)
            warnings.warn(
                f"Column {column!r} was {self._said(column)} and is now {now}.",
                TableWarning,
                stacklevel=3,  # whoever called, and not `on_device`
            )
        self._before.append(self._case)
        self.told = [*self.told, Told(column, value, gain, cost or 0.0)]
        self._question = None
        self._doubt(column, 4)
        if again:
            self._case = self._replayed()
        elif value is not None:
            self._case = self._case.told(self._places[column], self._number(column, value))

    @on_device
    def undo(self) -> Told:
        """Take the last answer back, and give it; all is then as it was before."""
        if not self.told:
            raise InputError("No answer has been given, so there is none to take back.")
        *self.told, last = self.told
        self._question = None
        self._case = self._before.pop() or self._replayed()
        return last

    @on_device
    def resume(self, given: Mapping[str, Any], told: Sequence[Told]) -> None:
        """Take over what was given and told elsewhere, also what was told anew later.

        Raises
        ------
        InputError
            Where there is no such column, or a value is none of its; nothing is changed.
        """
        for name, value in [*given.items(), *((each.column, each.value) for each in told)]:
            self._check_column(name)
            if value is not None:
                self._number(name, value)
        self.given, self.told = dict(given), list(told)
        self._before = [None] * len(told)
        self._question = None
        self._case = self._replayed()

    @on_device
    def predict(self) -> Prediction | dict[str, Prediction]:
        """Predict from all that is known; of several targets, a dict of predictions by name."""
        found = self._predictions(self._case)
        return found[0] if len(found) == 1 else {each.target: each for each in found}

    @on_device
    def explain(self, column: str | None = None) -> Explanation:
        """Say how the prediction would move with the answer of a column.

        Parameters
        ----------
        column
            A column that is not known; by default the one that is asked for, of a group its first.

        Returns
        -------
        Explanation
        """
        if column is None:
            question = self._question or self.ask()
            if question is None:
                raise InputError(f"{self.stopped} There is nothing to explain.")
            column = next(name for name in question.columns if name in self.open)
        self._check_column(column)
        if column not in self.open:
            raise InputError(f"Column {column!r} is {self._said(column)}; name one that is open.")
        place = self._places[column]
        answers = tuple(
            (decode_value(self._columns[column], at), self._predictions(after))
            for at in self._imagined(place)
            for after in [self._case.told(place, at)]
        )
        return Explanation(column, self._predictions(self._case), answers)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write what was told and paid to a file, whole or not at all; the model is not in it."""
        from hhvaem.acquire.saved import save  # which makes sessions

        save(self, path)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], model: Predictor, *, stop: Rule | Sequence[Rule] = ()
    ) -> "Session":
        """Go on with a session that was saved, with the model that it was about.

        Rules are not in the file, and are given again.
        """
        from hhvaem.acquire.saved import load

        return load(path, model, stop)

    def _questions(self) -> list[Question]:
        """Give all that can be asked, best first."""
        names = self.open
        if not names:
            return []
        found = self._case.worth(self.method)
        places = [self._places[name] for name in names]
        pairs: dict[str, tuple[float, float]] = {}
        if self.look_ahead:
            pairs = self._ahead(found.gain)
        questions = [
            Question(
                name,
                (name,),
                float(found.gain[at]),
                float(found.error[at]),
                self.prices.of([name], self.known),
                pairs.get(name),
            )
            for name, at in zip(names, places, strict=True)
        ]
        return sorted([*questions, *self._group_questions()], key=lambda each: -each.rate)

    def _group_questions(self) -> list[Question]:
        groups = {
            group: tuple(name for name in members if name in self.open)
            for group, members in self.prices.groups.items()
        }
        if not any(len(members) > 1 for members in groups.values()):
            return []
        found = self._case.together(self._sets(list(groups.values())))
        return [
            Question(group, members, float(gain), float(error), self.prices.of(members, self.known))
            for (group, members), gain, error in zip(
                groups.items(), found.gain, found.error, strict=True
            )
            if len(members) > 1
        ]

    def _ahead(self, gain: np.ndarray) -> dict[str, tuple[float, float]]:
        """Give what each open column and the best after it would tell, and what both cost."""
        names = list(self._columns)
        now = np.where([name in self.open for name in names], gain, np.nan)
        cost = np.array(
            [
                [
                    self.prices.of([second], self.known)
                    if first == second
                    else self.prices.of([second], [*self.known, first])
                    for second in names
                ]
                for first in names
            ]
        )
        total, price = ahead(now, cost, *self._case.prospects())
        both = zip(names, total.tolist(), price.tolist(), strict=True)
        return {name: (value, paid) for name, value, paid in both if name in self.open}

    def _predictions(self, case: Case) -> tuple[Prediction, ...]:
        law = case.laws()[1]
        row = np.zeros(1, int)
        found = []
        for j, name in enumerate(self.model.target_names_):
            if isinstance(self.model, Classifier):
                classes = self.model.classes_ if self.model.flat_ else self.model.classes_[j]
                shares = law.shares(j, row)[0]
                pairs = tuple(zip(classes.tolist(), shares.tolist(), strict=True))
                found.append(Prediction(name, pairs[int(shares.argmax())][0], shares=pairs))
                continue
            low, high = (float(law.quantile(j, row, q)[0]) for q in interval_ends(LEVEL))
            found.append(Prediction(name, float(law.mean(j, row)[0]), low, high, LEVEL))
        return tuple(found)

    def _imagined(self, place: int) -> list[float]:
        """Give answers that a column may have: low, middle, high; or the most probable levels."""
        column = list(self._columns.values())[place]
        law, row = self._case.laws()[0], np.zeros(1, int)
        if column.kind in LEVELLED:
            shares = law.shares(place, row)[0]
            likely = np.argsort(-shares, kind="stable")[:MOST_LEVELS]
            return [float(level) for level in np.sort(likely)]
        values = [float(law.quantile(place, row, q)[0]) for q in IMAGINED]
        return list(dict.fromkeys(values))

    def _sets(self, sets: Sequence[Sequence[str]]) -> Any:
        return sets_of([[self._places[name] for name in each] for each in sets], len(self._columns))

    @on_device
    def _replayed(self) -> Case:
        """Begin with what was given, and take the answers in order: the same draws each time."""
        assert self.model.fitted_ is not None
        given = {self._places[name]: self._number(name, x) for name, x in self._not_told().items()}
        case = Case.begun(self.model.fitted_, given, self.draws)
        for each in self.history:
            if each.value is not None:
                at = self._number(each.column, each.value)
                case = case.told(self._places[each.column], at)
        return case

    def _not_told(self) -> dict[str, Any]:
        """Give what was known from the start and not corrected later."""
        told = {each.column for each in self.told}
        return {name: value for name, value in self.given.items() if name not in told}

    def _number(self, column: str, value: Any) -> float:
        return number(self._columns[column], value)

    def _doubt(self, column: str, stacklevel: int) -> None:
        """Warn where what is known of a column is doubtful."""
        if sentence := self.doubts.get(column):
            warnings.warn(sentence, TableWarning, stacklevel=stacklevel + 1)

    def _paid(self, column: str) -> float | None:
        """Give what was paid for a column that is told again; None where nothing was."""
        before = [each for each in self.told if each.column == column]
        if not before:
            return 0.0 if column in self.given else None
        return before[-1].cost if before[-1].value is not None or before[-1].cost else None

    def _said(self, column: str) -> str:
        known = self.known
        return shown(known[column]) if column in known else "unknown"

    def _check_column(self, name: Any) -> None:
        if not isinstance(name, str):
            raise InputError(f"A column is named by a text, not by {shown(name)}.")
        if name in self._columns:
            return
        if name in self.model.target_names_:
            raise InputError(f"{name!r} is what the model predicts; it is not told.")
        if name in self.model.schema_:
            kind = self.model.schema_[name].kind
            raise InputError(
                f"Column {name!r} is {kind} and tells the model nothing; leave it out."
            )
        raise InputError(f"The model has no column {name!r}{near(name, self._columns)}")


def check_model(model: Any) -> None:
    """Refuse what cannot be asked about."""
    if isinstance(model, Imputer):
        raise InputError("An Imputer has no target to ask about; fit a Regressor or a Classifier.")
    if not isinstance(model, Predictor):
        raise InputError(
            f"A session needs a fitted Regressor or Classifier, not {type(model).__name__}."
        )
    check_is_fitted(model, "schema_")
