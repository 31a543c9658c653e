"""`hhvaem ask`: which unknown value of a case is worth asking for next, in a dialogue."""

import json
import math
import warnings
from collections.abc import Mapping
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

UNKNOWN = ("unknown", "?")
HELP = "A value; or `unknown`, `why`, `undo`, `stop`."


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
    prediction would move with the answer, `undo` takes the last one back, `stop` ends.
    """
    if as_json and answers is None:
        raise InputError("--json needs --answers: a dialogue is for people.")
    if session is not None:
        check_place(session)
    predictor = loaded(model)
    with leaving_at_once():
        from hhvaem.acquire import policy
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
    if session is not None and session.exists():
        if known or costs is not None or look_ahead:
            raise InputError(
                f"{session} has what is known, what it costs and how to choose; leave --known, "
                "--costs and --look-ahead out."
            )
        case = Session.load(session, predictor, stop=rules)
    else:
        case = Session(
            predictor,
            _known(predictor.schema_, known or []),
            costs=price,
            groups=groups,
            stop=rules,
            look_ahead=look_ahead,
        )
    kept = f"{session} has the answers so far." if session else "nothing is kept."
    with interruptible(lambda: kept):
        if answers is not None:
            _scripted(case, answers, session, as_json=as_json)
        else:
            _dialogue(case, session)


def _dialogue(case: "Session", place: Path | None) -> None:
    console = Console(highlight=False)
    ends = case.spans
    most = 0.0
    console.print(f"[dim]{HELP}[/]")
    while True:
        console.print()
        for prediction in _predicted(case):
            _print(console, prediction_lines(prediction, ends.get(prediction.target)))
        question = case.ask()
        if question is None:
            console.print(f"\n{escape(case.stopped or '')}")
            break
        most = most or question.gain
        console.print()
        _print(console, question_lines(question, most, "nats"))
        if not _answered(console, case, question, place):
            break
    _print(console, ["", _summary(case)])


def _answered(console: Console, case: "Session", question: "Question", place: Path | None) -> bool:
    """Read answers to a question; False where the person stops."""
    from hhvaem.acquire.answers import parsed
    from hhvaem.table import legal

    for name in question.columns:
        column = case.model.schema_[name]
        hint = legal(column).removeprefix("which is ")
        while True:
            try:
                typed = console.input(
                    f"[bold]{escape(printable(name))}[/] [dim]({escape(printable(hint))})[/] > "
                ).strip()
            except EOFError:
                console.print()
                return False
            word = typed.casefold()
            if word == "stop":
                return False
            try:
                if not typed:
                    console.print(HELP)
                elif word == "why":
                    _print(console, explanation_lines(case.explain(name)))
                elif word == "undo":
                    taken = case.undo()
                    console.print(f"{escape(printable(taken.column))} is open again.")
                    _save(case, place)
                    return True
                else:
                    _tell(console, case, name, None if word in UNKNOWN else parsed(column, typed))
                    _save(case, place)
                    break
            except InputError as error:
                console.print(f"[red]{escape(printable(str(error)))}[/]")
    return True


def _tell(console: Console, case: "Session", name: str, value: Any) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TableWarning)
        case.tell(name, value)
    for note in caught:
        console.print(f"[yellow]Note:[/] {escape(printable(str(note.message)))}")


def _scripted(case: "Session", path: Path, place: Path | None, *, as_json: bool) -> None:
    from hhvaem.acquire.answers import parsed

    table = read_table(path)
    if table.num_rows != 1:
        raise InputError(f"{path} has {table.num_rows} rows; give a table of one row, the answers.")
    row = table.to_pylist()[0]
    console = Console(highlight=False)
    steps = []
    while (question := case.ask()) is not None:
        for name in question.columns:
            value = row.get(name)
            if isinstance(value, str):
                value = parsed(case.model.schema_[name], value)
            case.tell(name, value)
            _save(case, place)
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
        told = {
            "steps": steps,
            "stopped": case.stopped,
            "spent": case.spent,
            "predictions": [_as_json(each) for each in _predicted(case)],
        }
        print(json.dumps(told, indent=2))
        return
    console.print(f"\n{escape(case.stopped or '')}\n")
    for prediction in _predicted(case):
        _print(console, prediction_lines(prediction, None))
    _print(console, [_summary(case)])


def _costs(path: Path | None) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Read what columns cost, and which are measured together."""
    if path is None:
        return {}, {}
    table = read_table(path)
    if not {"column", "cost"} <= set(table.column_names):
        raise InputError(f"{path} lacks the columns `column` and `cost`; give both.")
    found: dict[str, Any] = {}
    groups: dict[str, list[str]] = {}
    for row in table.to_pylist():
        name = str(row["column"])
        if name in found:
            raise InputError(f"{path} has the cost of {name!r} twice; leave one out.")
        found[name] = row["cost"]
        if row.get("group") is not None:
            groups.setdefault(str(row["group"]), []).append(name)
    return found, groups


def _known(schema: Any, given: list[str]) -> Mapping[str, Any]:
    """Read what the option --known says."""
    from hhvaem.acquire.answers import parsed
    from hhvaem.acquire.prices import near

    found = {}
    for text in given:
        # A name may have the sign, and a value, too: the longest name that there is.
        names = [name for name in schema.names if text.startswith(f"{name}=")]
        if not names:
            name, sign, _ = text.partition("=")
            if not sign:
                raise InputError(f"--known {text} says no value; write COLUMN=VALUE.")
            raise InputError(f"The model has no column {name!r}{near(name, schema.names)}")
        name = max(names, key=len)
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


def _save(case: "Session", place: Path | None) -> None:
    if place is not None:
        case.save(place)


def _print(console: Console, lines: list[str]) -> None:
    for line in lines:
        console.print(line, soft_wrap=True)
