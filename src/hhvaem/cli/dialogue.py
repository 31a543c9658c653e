"""How `hhvaem ask` shows a question and a prediction."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from hhvaem.containers import printable, some

if TYPE_CHECKING:
    from hhvaem.acquire.policy import Prediction, Question
    from hhvaem.acquire.session import Explanation

# Characters of a bar, and of the line on which an interval is drawn.
BAR, LINE = 24, 40
# Classes of which the probability is shown, and questions that are named after the first.
CLASSES, OTHERS = 6, 3


def number(value: float) -> str:
    """Write a number in at most four digits."""
    return f"{value:.4g}"


def bar(share: float) -> str:
    """Draw a share of the whole as a bar.

    Examples
    --------
    >>> bar(0.25)
    '██████░░░░░░░░░░░░░░░░░░'
    """
    filled = round(BAR * min(max(share, 0.0), 1.0))
    return "█" * filled + "░" * (BAR - filled)


def interval(low: float, mean: float, high: float, ends: tuple[float, float]) -> str:
    """Draw an interval and its mean on a line.

    Examples
    --------
    >>> interval(1.0, 2.0, 3.0, ends=(0.0, 4.0))
    '··········├─────────●────────┤··········'
    """
    width = (ends[1] - ends[0]) or 1.0

    def place(x: float) -> int:
        return min(max(int((x - ends[0]) / width * (LINE - 1) + 0.5), 0), LINE - 1)

    first, last = place(low), place(high)
    drawn = ["·"] * LINE
    drawn[first : last + 1] = ["─"] * (last + 1 - first)
    drawn[first], drawn[last] = "├", "┤"
    drawn[place(mean)] = "●"
    return "".join(drawn)


def prediction_lines(prediction: "Prediction", ends: tuple[float, float] | None) -> list[str]:
    """Show a prediction: a number with its interval, or the probabilities of classes."""
    name = escape(printable(prediction.target))
    if prediction.low is None or prediction.high is None:
        likely = sorted(prediction.shares, key=lambda each: -each[1])[:CLASSES]
        labels = [printable(str(label)) for label, _ in likely]
        width = max(map(len, labels))
        return [f"[bold]{name}[/]"] + [
            f"  {escape(label.ljust(width))} {bar(share)} {share:.0%}"
            for label, (_, share) in zip(labels, likely, strict=True)
        ]
    low, high = number(prediction.low), number(prediction.high)
    lines = [
        f"[bold]{name}[/] {number(prediction.value)}  ({prediction.level:.0%}: {low} to {high})"
    ]
    if ends is not None:
        drawn = interval(prediction.low, prediction.value, prediction.high, ends)
        lines.append(f"  {number(ends[0])} {drawn} {number(ends[1])}")
    return lines


def question_lines(question: "Question", most: float, unit: str) -> list[str]:
    """Show what is asked, what it is expected to tell, and what could be asked instead."""
    name = escape(printable(question.name))
    what = f"[bold]{name}[/]"
    if len(question.columns) > 1:
        what += " (" + escape(printable(some(question.columns))) + ")"
    error = f" ± {question.error:.2f}" if question.error == question.error else ""
    lines = [
        f"Ask for {what}",
        f"  gain {bar(question.gain / most if most else 0.0)} {question.gain:.2f}{error} {unit}, "
        f"cost {question.cost:g}",
    ]
    if question.others:
        others = question.others[:OTHERS]
        rest = [f"{printable(each.name)} {each.gain:.2f} for {each.cost:g}" for each in others]
        lines.append(f"  [dim]or {escape(', '.join(rest))}[/]")
    return lines


def explanation_lines(explanation: "Explanation") -> list[str]:
    """Show what would be predicted after each of some answers."""
    answers = [printable(answer_text(value)) for value, _ in explanation.answers]
    width = max([*map(len, answers), 3])
    name = escape(printable(explanation.column))
    lines = [f"What would be predicted if [bold]{name}[/] were ..."]
    for answer, (_, predictions) in zip(answers, explanation.answers, strict=True):
        lines.append(f"  {escape(answer.rjust(width))}  {_in_words(predictions)}")
    return [*lines, f"  {'now'.rjust(width)}  {_in_words(explanation.now)}"]


def answer_text(value: Any) -> str:
    """Write an answer."""
    return number(value) if isinstance(value, float) else str(value)


def _in_words(predictions: Sequence["Prediction"]) -> str:
    parts = []
    for each in predictions:
        if each.low is None or each.high is None:
            share = max(share for _, share in each.shares)
            said = f"{printable(str(each.value))} ({share:.0%})"
        else:
            said = f"{number(each.value)} ({number(each.low)} to {number(each.high)})"
        parts.append(said if len(predictions) == 1 else f"{printable(each.target)} {said}")
    return escape(", ".join(parts))
