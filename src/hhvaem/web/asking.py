"""Live cases on the page: a session of the library, with what a person can say to it."""

import csv
import io
import json
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hhvaem.acquire import policy
from hhvaem.acquire.prices import prices
from hhvaem.containers import some
from hhvaem.errors import InputError
from hhvaem.web.downloads import harmless
from hhvaem.web.plain import cell, clean, finite
from hhvaem.web.refusals import RefusedError

if TYPE_CHECKING:
    from hhvaem.acquire.policy import Prediction, Question, Rule, Standing

ASIDE = "All that is left was set aside as unknown for now; ask for it again, or answer it."


class Said(NamedTuple):
    """What a person said: a value, that it is unknown for now, or that it cannot be measured."""

    column: str
    answer: str
    value: Any
    gain: float | None
    cost: float
    predictions: list[dict[str, Any]]


@dataclass
class Stops:
    """The rules of a session, which may be changed, and what was set aside.

    Parameters
    ----------
    given
        As the page names them.
    aside
        Columns that nobody knows now.
    """

    given: dict[str, Any] = field(default_factory=dict)
    aside: list[str] = field(default_factory=list)
    _rules: tuple["Rule", ...] = ()

    def set(self, given: dict[str, Any]) -> None:
        """Take rules.

        Raises
        ------
        InputError
            Where one makes no sense.
        """
        made: list[Rule] = []
        for name, value in given.items():
            if value is None or value == []:
                continue
            if name == "edges":
                made.append(policy.decided(*value))
            else:
                made.append(RULES[name](value))
        self.given, self._rules = given, tuple(made)

    def __call__(self, question: "Question", standing: "Standing") -> str | None:
        """Object to a question, as a rule does."""
        said = policy.objection(self._rules, question, standing)
        if said is None and set(question.columns) <= set(self.aside):
            return ASIDE
        return said


RULES: dict[str, Any] = {
    "budget": policy.budget,
    "least": policy.worth,
    "sure": policy.confident,
    "most": policy.at_most,
}


class Asking:
    """A session on the page.

    Parameters
    ----------
    id, owner, model
        Its own name, whose it is, and the name of the model.
    predictor
        The model.
    wish
        What it begins with: `known`, `costs`, `groups`, `rules` and `look_ahead`.
    """

    def __init__(
        self, id_: str, owner: str, model: str, predictor: Any, wish: dict[str, Any]
    ) -> None:
        from hhvaem.acquire.session import Session  # which needs JAX

        if not hasattr(predictor, "predict"):
            raise InputError(
                "This model fills holes and has no target to ask about; train one to predict."
            )
        self.id, self.owner, self.model = id_, owner, model
        self._stops = Stops()
        self._stops.set(wish["rules"])
        self._case: Session = Session(
            predictor,
            wish["known"],
            costs=wish["costs"],
            groups=wish["groups"] or None,
            stop=self._stops,
            look_ahead=wish["look_ahead"],
        )
        self._groups = wish["groups"] or None
        self._start = self._predicted()
        self._said: list[Said] = []
        # What was set aside before each answer.
        self._before: list[list[str]] = []
        self.created = self.changed = time.time()
        self.question: Question | None = None
        self._ask()

    @property
    def answers(self) -> int:
        """How many answers there are, corrections included."""
        return len(self._said)

    @property
    def stopped(self) -> str | None:
        """Why nothing is asked; None where something is."""
        return self._case.stopped

    def answer(self, column: str, answer: str, value: Any) -> None:
        """Take an answer: a `value`, `unknown` for now, or `unmeasurable`.

        Raises
        ------
        InputError
            Where the column or the value is none; nothing is changed.
        """
        if answer == "value" and value is None:
            raise InputError(f"The answer for {column!r} has no value; give one, or say 'unknown'.")
        if answer == "unknown":
            if column not in self._case.open:
                raise InputError(f"Column {column!r} is not open, and cannot be set aside.")
            self._set_aside([*self._stops.aside, column])
            self._note(Said(column, answer, None, None, 0.0, []))
            return
        self._case.tell(column, value if answer == "value" else None)
        self._set_aside([name for name in self._stops.aside if name != column])
        told = self._case.history[-1]
        self._note(Said(column, answer, cell(told.value), finite(told.gain), told.cost, []))

    def again(self) -> None:
        """Let what was set aside be asked for again."""
        self._stops.aside = []
        self._ask()

    def undo(self) -> None:
        """Take back what was said last.

        Raises
        ------
        RefusedError
            Where nothing was.
        """
        if not self._said:
            raise RefusedError(409, "No answer has been given, so there is none to take back.")
        last = self._said.pop()
        self._stops.aside = self._before.pop()
        if last.answer != "unknown":
            self._case.undo()
        self._ask()

    def set(self, costs: dict[str, float] | None, rules: dict[str, Any] | None) -> None:
        """Take other costs or rules; what has been paid stays paid.

        Raises
        ------
        InputError
            Where one makes no sense; nothing is changed.
        """
        paid, given = self._case.prices, self._stops.given
        try:
            if costs is not None:
                columns = self._case.model.schema_.modelled
                self._case.prices = prices(columns, costs, self._groups)
            if rules is not None:
                self._stops.set(rules)
            self._ask()  # where a rule refuses what it cannot judge
        except InputError:
            self._case.prices = paid
            self._stops.set(given)
            raise

    def explained(self, column: str | None) -> dict[str, Any]:
        """Say how the prediction would move with the answer of a column."""
        found = self._case.explain(column)
        return {
            "column": found.column,
            "now": [_prediction(each) for each in found.now],
            "answers": [
                {"value": cell(value), "predictions": [_prediction(each) for each in after]}
                for value, after in found.answers
            ],
        }

    def told(self) -> dict[str, Any]:
        """Give it as JSON."""
        from hhvaem.cli.ask import tells_nothing

        case, question = self._case, self.question
        spans = case.spans
        return {
            "id": self.id,
            "model": self.model,
            "targets": [
                {**each, "span": [finite(x) for x in spans[each["name"]]]}
                if each["name"] in spans
                else {**each, "span": None}
                for each in self.targets
            ],
            "question": None if question is None else self._asked(question),
            "stopped": case.stopped,
            "worthless": question is not None and tells_nothing(question),
            "predictions": self._now,
            "start": self._start,
            "history": [clean(each._asdict()) for each in self._said],
            "given": _cells(case.given),
            "known": _cells(case.known),
            "open": case.open,
            "aside": self._stops.aside,
            "doubts": case.doubts,
            "spent": case.spent,
            "costs": {**case.prices.columns, **case.prices.begun},
            "groups": {name: list(each) for name, each in case.prices.groups.items()},
            "rules": self._stops.given,
            "look_ahead": case.look_ahead,
            "unit": "nats",
            "created": self.created,
            "changed": self.changed,
        }

    @property
    def targets(self) -> list[dict[str, Any]]:
        """What is predicted."""
        from hhvaem.web.models import targets_of

        return targets_of(self._case.model)

    def in_short(self) -> dict[str, Any]:
        """Give what a list of sessions shows."""
        return {
            "id": self.id,
            "model": self.model,
            "targets": [each["name"] for each in self.targets],
            "known": _cells(self._case.known),
            "answers": self.answers,
            "stopped": self.stopped,
            "created": self.created,
            "changed": self.changed,
        }

    def record(self) -> str:
        """Write all of it as JSON, from which `hhvaem ask MODEL --session FILE` can go on."""
        with tempfile.TemporaryDirectory(prefix="hhvaem-record-") as folder:
            path = Path(folder, "session.json")
            self._case.save(path)
            saved = json.loads(path.read_bytes())
        return json.dumps({**saved, "record": self.told()}, indent=1)

    def record_table(self) -> str:
        """Write what was known and the answers as CSV, a line for each."""
        out = io.StringIO()
        ends = [f"{each['target']} {what}" for each in self._start for what in _columns(each)]
        lines: list[list[Any]] = [["column", "answer", "value", "gain", "cost", *ends]]
        for name, value in self._case.given.items():
            lines.append([name, "known", cell(value), "", "", *[""] * len(ends)])
        lines.append(["", "start", "", "", "", *_numbers(self._start)])
        for said in self._said:
            gain = "" if said.gain is None else said.gain
            value = "" if said.value is None else said.value
            lines.append(
                [said.column, said.answer, value, gain, said.cost, *_numbers(said.predictions)]
            )
        writer = csv.writer(out)
        for line in lines:
            writer.writerow([harmless(x) if isinstance(x, str) else x for x in line])
        return out.getvalue()

    def _set_aside(self, columns: list[str]) -> None:
        self._before.append(self._stops.aside)
        self._stops.aside = list(dict.fromkeys(columns))

    def _note(self, said: Said) -> None:
        self._ask()
        self._said.append(said._replace(predictions=self._now))

    def _ask(self) -> None:
        self.question = self._case.ask()
        self._now = self._predicted()
        self.changed = time.time()

    def _predicted(self) -> list[dict[str, Any]]:
        found = self._case.predict()
        return [
            _prediction(each) for each in (found.values() if isinstance(found, dict) else [found])
        ]

    def _asked(self, question: "Question") -> dict[str, Any]:
        return {
            **_question(question),
            "reason": self._reason(question),
            "others": [_question(each) for each in question.others],
        }

    def _reason(self, question: "Question") -> str:
        names = some([each["name"] for each in self.targets])
        error = f" ± {question.error:.2f}" if question.error == question.error else ""
        gain = f"{question.gain:.2f}{error} nats for a cost of {question.cost:g}"
        count = len(question.others) + 1
        if count == 1:
            return f"It is all that can be asked; it is expected to tell {gain} about {names}."
        ahead = (
            " (counting what the next question could tell after it)"
            if question.ahead is not None
            else ""
        )
        return f"Of {count} questions it tells most about {names} for its cost{ahead}: {gain}."


def _cells(values: dict[str, Any]) -> dict[str, Any]:
    return {name: cell(value) for name, value in values.items()}


def _question(question: "Question") -> dict[str, Any]:
    return {
        "name": question.name,
        "columns": list(question.columns),
        "gain": finite(question.gain),
        "error": finite(question.error),
        "cost": question.cost,
    }


def _prediction(each: "Prediction") -> dict[str, Any]:
    shares = [{"value": cell(label), "share": share} for label, share in each.shares]
    return {
        "target": each.target,
        "value": cell(each.value),
        "low": finite(each.low),
        "high": finite(each.high),
        "level": each.level,
        "shares": shares or None,
    }


def _columns(prediction: dict[str, Any]) -> list[str]:
    """Name what a line of the record says of a target: its ends, or the share of each class."""
    if prediction["shares"] is None:
        return ["predicted", "low", "high"]
    return ["predicted", *(f"{each['value']}: probability" for each in prediction["shares"])]


def _numbers(predictions: list[dict[str, Any]]) -> list[Any]:
    found: list[Any] = []
    for each in predictions:
        rest = each["shares"]
        ends = [each["low"], each["high"]] if rest is None else [part["share"] for part in rest]
        found += ["" if x is None else x for x in (each["value"], *ends)]
    return found
