"""`hhvaem ask`: which unknown value of a case is worth asking for next, in a dialogue."""

import json
import math
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from hhvaem.cli import leaving_at_once
from hhvaem.cli.dialogue import explanation_lines, prediction_lines, question_lines
from hhvaem.cli.places import Json, check_place, interruptible
from hhvaem.cli.streams import ModelFile, loaded
from hhvaem.containers import printable, shown
from hhvaem.errors import InputError, TableWarning
from hhvaem.files import read_table

if TYPE_CHECKING:
    from hhvaem.acquire.policy import Prediction, Question, Rule
    from hhvaem.acquire.session import Session

# The second one for columns that have the first as a level.
UNKNOWN = ("unknown", "skip")
HELP = ("help", "?")
WORDS = "A value; or `unknown`, `why`, `undo`, `stop`, `help`."
MEANINGS = """A value of the column, or one of these words:
  unknown, skip  it cannot be measured, and is not asked for again
  why            how the prediction would move with the answer
  undo           take the last answer back
  stop           end, and keep the prediction
  help, ?        show these words"""
# Standard errors by which a gain is told from nothing, and a gain that is shown as 0.00.
ERRORS, NOTHING = 2.0, 0.005


def ask(
    model: ModelFile,
    known: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN=VALUE", help="What is known; may be repeated."),
    ] = None,
    costs: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A table with the columns `column` and `cost`, and maybe `group`: columns of a "
            "group are measured together, and a line with a group's name says what is paid once.",
        ),
    ] = None,
    answers: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A table of one row that answers instead of a person; what it lacks is unknown.",
        ),
    ] = None,
    budget: Annotated[
        float | None, typer.Option(min=0, metavar="COST", help="What may be spent.")
    ] = None,
    least: Annotated[
        float | None,
        typer.Option(min=0, metavar="GAIN", help="The least gain for each unit of cost."),
    ] = None,
    sure: Annotated[
        float | None,
        typer.Option(min=0, max=1, metavar="SHARE", help="Stop once a class is this probable."),
    ] = None,
    edge: Annotated[
        list[float] | None,
        typer.Option(
            metavar="NUMBER",
            help="Stop once the interval lies on one side of this edge; may be repeated.",
        ),
    ] = None,
    most: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="How many answers at most.")
    ] = None,
    look_ahead: Annotated[
        bool,
        typer.Option(
            "--look-ahead", metavar="", help="Choose also for what the next question would tell."
        ),
    ] = False,
    session: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Where answers are kept; the same command goes on from them."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Ask for what is worth knowing about one case, and predict from the answers.

    Each question comes with what it is expected to tell about the target, in nats, and what it
    costs. An answer is a value, or `unknown` where it cannot be measured; `why` shows how the
    prediction would move with the answer, `undo` takes the last one back, `stop` ends, and `help`
    lists these words.
    """
    if as_json and answers is None:
        raise InputError("--json needs --answers: a dialogue is for people.")
    if session is not None:
        check_place(session, "--session")
    predictor = loaded(model)
    with leaving_at_once():
        from hhvaem.acquire import policy
        from hhvaem.acquire.prices import prices as policy_prices
        from hhvaem.acquire.session import Session
    if not hasattr(predictor, "predict"):
        raise InputError(
            f"{model} is an Imputer, which has no target to ask about; fit a model with --target."
        )
    rules: list[Rule] = []
    if most is not None:
        rules.append(policy.at_most(most))
    if sure is not None:
        rules.append(policy.confident(sure))
    if edge:
        rules.append(policy.decided(*edge))
    if budget is not None:
        rules.append(policy.budget(budget))
    if least is not None:
        rules.append(policy.worth(least))
    price, groups = _costs(costs)
    try:
        prices = policy_prices(predictor.schema_.modelled, price, groups)
    except InputError as error:
        raise InputError(f"{costs}: {error}") from error
    given = _known(predictor, known or [])
    told = None if answers is None else _answers(predictor, answers)
    kept = _Kept(session)
    if session is not None and session.exists():
        case = Session.load(session, predictor, stop=rules)
        for option, differs in {
            "--known": known and given != case.given,
            "--costs": costs is not None and prices != case.prices,
            "--look-ahead": look_ahead and not case.look_ahead,
        }.items():
            if differs:
                raise InputError(
                    f"{session} was begun with other {option} than this; leave that option out, or "
                    "name another file."
                )
    else:
        case = Session(
            predictor, given, costs=price, groups=groups, stop=rules, look_ahead=look_ahead
        )
        kept.save(case)
    left = f"{session} has the answers so far." if session else "nothing is kept."
    with interruptible(lambda: left):
        if told is not None:
            _scripted(case, told, kept, as_json=as_json)
        else:
            _dialogue(case, kept)


class _Kept:
    """The file of a session, if it has one: what another one has written there is left alone."""

    def __init__(self, place: Path | None) -> None:
        self.place = place
        self._before = self._content()

    def save(self, case: "Session") -> None:
        if self.place is None:
            return
        now = self._content()
        if now is not None and now != self._before:
            raise InputError(
                f"{self.place} was changed by another session, and is left without what was told "
                "last; run the same command again to go on from it."
            )
        case.save(self.place)
        self._before = self._content()

    def _content(self) -> bytes | None:
        if self.place is None or not self.place.exists():
            return None
        try:
            return self.place.read_bytes()
        except OSError as error:
            raise InputError(f"{self.place} cannot be read: {error.strerror}.") from error


def _dialogue(case: "Session", kept: _Kept) -> None:
    console = Console(highlight=False)
    ends = case.spans
    most, warned = 0.0, False
    # Before anything is shown: a rule may refuse the model.
    question = case.ask()
    console.print(f"[dim]{WORDS}[/]")
    while True:
        console.print()
        for prediction in _predicted(case):
            _print(console, prediction_lines(prediction, ends.get(prediction.target)))
        if question is None:
            console.print(f"\n{escape(case.stopped or '')}")
            break
        # Of all gains so far, so that later ones fit under it and can be compared.
        most = max(most, *(each.gain for each in (question, *question.others)))
        console.print()
        _print(console, question_lines(question, most, "nats"))
        # Once, and again where `undo` has made it untrue in between.
        if tells_nothing(question) and not warned:
            console.print(
                "No gain that is left can be told from zero: `stop` ends here, and answers are "
                "taken as before."
            )
        warned = tells_nothing(question)
        if not _answered(console, case, question, kept):
            break
        question = case.ask()
    _print(console, ["", _summary(case)])


def tells_nothing(question: "Question") -> bool:
    """Say whether neither a question nor any other has a gain that can be told from zero.

    Examples
    --------
    >>> from hhvaem.acquire.policy import Question
    >>> sure = Question("crp", ("crp",), gain=0.2, error=0.02, cost=1.0)
    >>> vague = Question("age", ("age",), gain=0.02, error=0.015, cost=1.0)
    >>> tells_nothing(sure), tells_nothing(vague)
    (False, True)
    """
    for each in (question, *question.others):
        # What tells nothing by itself may say what to ask for next.
        gain = each.gain if each.ahead is None else max(each.gain, each.ahead[0])
        if not (gain < NOTHING or gain <= ERRORS * each.error):
            return False
    return True


def _answered(console: Console, case: "Session", question: "Question", kept: _Kept) -> bool:
    """Read answers to a question; False where the person stops."""
    from hhvaem.acquire.answers import parsed
    from hhvaem.table import legal

    for name in question.columns:
        column = case.model.schema_[name]
        hint = legal(column).removeprefix("which is ")
        if UNKNOWN[0] in column.levels:
            console.print(
                f"`{UNKNOWN[0]}` is one of its values; `{UNKNOWN[1]}` if it is not known."
            )
        while True:
            try:
                typed = console.input(
                    f"[bold]{escape(printable(name))}[/] [dim]({escape(printable(hint))})[/] > "
                )
            # A standard input that is closed is not even read.
            except (EOFError, RuntimeError):
                console.print()
                return False
            levels = [str(level) for level in column.levels]
            # A level may be called like one of the words.
            is_level = typed in levels or typed.strip() in levels
            word = None if is_level else typed.strip().casefold()
            if word == "stop":
                return False
            try:
                if word in ("", *HELP):
                    console.print(MEANINGS)
                elif word == "why":
                    _print(console, explanation_lines(case.explain(name)))
                elif word == "undo":
                    taken = case.undo()
                    console.print(f"{escape(printable(taken.column))} is open again.")
                    break
                else:
                    _tell(console, case, name, None if word in UNKNOWN else parsed(column, typed))
                    break
            except InputError as error:
                console.print(f"[red]{escape(printable(str(error)))}[/]")
        # What cannot be kept ends the dialogue.
        kept.save(case)
        if word == "undo":
            return True
    return True


def _tell(console: Console, case: "Session", name: str, value: Any) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TableWarning)
        case.tell(name, value)
    for note in caught:
        console.print(f"[yellow]Note:[/] {escape(printable(str(note.message)))}")


def _scripted(case: "Session", told: dict[str, Any], kept: _Kept, *, as_json: bool) -> None:
    console = Console(highlight=False)
    steps = []
    while (question := case.ask()) is not None:
        for name in question.columns:
            case.tell(name, told.get(name))
            kept.save(case)
            predictions = _predicted(case)
            steps.append(
                {
                    "column": name,
                    "value": _plain(case.history[-1].value),
                    "gain": question.gain,
                    "error": question.error if math.isfinite(question.error) else None,
                    "cost": case.history[-1].cost,
                    "predictions": [_as_json(each) for each in predictions],
                }
            )
            if not as_json:
                said = "unknown" if steps[-1]["value"] is None else shown(steps[-1]["value"])
                console.print(
                    f"[bold]{escape(printable(name))}[/] {escape(said)}  "
                    f"[dim]gain {question.gain:.2f}, cost {case.history[-1].cost:g}[/]"
                )
    if as_json:
        found = {
            "steps": steps,
            "stopped": case.stopped,
            "spent": case.spent,
            "predictions": [_as_json(each) for each in _predicted(case)],
        }
        print(json.dumps(found, indent=2))
        return
    console.print(f"\n{escape(case.stopped or '')}\n")
    for prediction in _predicted(case):
        _print(console, prediction_lines(prediction, None))
    _print(console, [_summary(case)])


def _answers(model: Any, path: Path) -> dict[str, Any]:
    """Read the row that answers instead of a person; what it lacks is not in it."""
    from hhvaem.acquire.answers import is_missing, parsed

    table = read_table(path)
    if table.num_rows != 1:
        raise InputError(f"{path} has {table.num_rows} rows; give a table of one row, the answers.")
    [row] = table.to_pylist()
    _check_answers(model, path, row)
    found = {}
    for column in model.schema_.modelled:
        value = row.get(column.name)
        if is_missing(value):
            continue
        try:
            # As a text: a file of one row has its own idea of what `1` or `true` is.
            found[column.name] = parsed(column, str(value))
        except InputError as error:
            raise InputError(f"{path}: {error}") from error
    return found


def _check_answers(model: Any, path: Path, row: dict[str, Any]) -> None:
    """Refuse a file that answers nothing, and say which of its columns are not looked at."""
    from hhvaem.acquire.prices import near

    schema, targets = model.schema_, model.target_names_
    strange = [name for name in row if name not in schema and name not in targets]
    asked = [column.name for column in schema.modelled]
    if asked and not any(name in asked for name in row):
        meant = near(strange[0] if strange else "", asked)
        raise InputError(f"{path} has no column that the model asks for{meant}")
    for name in strange:
        told = f"{path} has a column {name!r} that the model lacks{near(name, schema.names)}"
        Console(stderr=True, highlight=False).print(f"Note: {printable(told)}", markup=False)


def _costs(path: Path | None) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Read what columns cost, and which are measured together."""
    if path is None:
        return {}, {}
    table = read_table(path)
    lacking = [f"`{name}`" for name in ("column", "cost") if name not in table.column_names]
    if lacking:
        raise InputError(
            f"{path} lacks the column {' and the column '.join(lacking)}; give a table with "
            "`column` and `cost`."
        )
    found: dict[str, Any] = {}
    groups: dict[str, list[str]] = {}
    for row in table.to_pylist():
        if row["column"] is None:
            raise InputError(f"{path} has a line without the name of a column; leave it out.")
        name = str(row["column"])
        if name in found:
            raise InputError(f"{path} has the cost of {name!r} twice; leave one out.")
        found[name] = row["cost"]
        if row.get("group") is not None:
            groups.setdefault(str(row["group"]), []).append(name)
    return found, groups


def _known(model: Any, given: list[str]) -> dict[str, Any]:
    """Read what the option --known says."""
    from hhvaem.acquire.answers import parsed
    from hhvaem.acquire.prices import near

    schema, found = model.schema_, {}
    for text in given:
        # A name may have the sign, and a value, too: the longest name that there is.
        names = [name for name in schema.names if text.startswith(f"{name}=")]
        if not names:
            name, sign, _ = text.partition("=")
            if not sign:
                raise InputError(f"--known {text} says no value; write COLUMN=VALUE.")
            if name in model.target_names_:
                raise InputError(f"{name!r} is what the model predicts; it is not told.")
            raise InputError(f"The model has no column {name!r}{near(name, schema.names)}")
        name = max(names, key=len)
        if name in found:
            raise InputError(f"--known says {name!r} twice; leave one out.")
        column = schema[name]
        if not column.modelled:
            raise InputError(f"Column {name!r} is {column.kind} and tells nothing; leave it out.")
        found[name] = parsed(column, text[len(name) + 1 :])
    return found


def _predicted(case: "Session") -> list["Prediction"]:
    found = case.predict()
    return list(found.values()) if isinstance(found, dict) else [found]


def _summary(case: "Session") -> str:
    told = [each for each in case.history if each.value is not None]
    count = f"{len(told)} answer" + ("s" if len(told) != 1 else "")
    return f"[dim]{count}, {case.spent:g} spent.[/]"


def _as_json(prediction: "Prediction") -> dict[str, Any]:
    return {
        "target": prediction.target,
        "value": _plain(prediction.value),
        "low": prediction.low,
        "high": prediction.high,
        "level": prediction.level,
        "shares": [[_plain(label), share] for label, share in prediction.shares],
    }


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, str | bool | int | float) else str(value)


def _print(console: Console, lines: list[str]) -> None:
    for line in lines:
        console.print(line, soft_wrap=True)
