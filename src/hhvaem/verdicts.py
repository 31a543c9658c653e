"""What an assessment says, in words: of each column, and of the whole table."""

from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from hhvaem.assessment import OURS, Assessment, Calibration, Outcome
from hhvaem.encoding import TableMask, TableValues
from hhvaem.schema import LEVELLED, Column

Word = Literal[
    "trust",
    "wide but honest",
    "no better than the column mean",
    "too sure of itself",
    "too few cells to tell",
]

# What methods are called in sentences.
CALLED = {
    OURS: "hhvaem",
    "mean": "the column mean",
    "gaussian": "the Gaussian copula",
    "ridge": "the ridge chain",
    "missforest": "the forest chain",
    "miceforest": "the boosted chain",
}
# Fewer hidden cells of a column than this tell nothing about it.
FEW = 20
# A difference counts from so many standard errors.
SURE = 2.0
# Fills are trusted where they take at least this share of the column mean's error away.
GOOD = 0.3
# Intervals of 90 % may hold this much less, on top of what chance explains.
SLACK = 0.03
LEVEL = 0.9
# Of a lower error that may be chance it is said that it may, if it is lower than by so much.
NEARLY = 0.9
# Resampled tables that standard errors are computed from.
RESAMPLED = 400


class Difference(NamedTuple):
    """How much larger a score is than another one, and the standard error of that."""

    value: float
    error: float

    @property
    def sure(self) -> bool:
        """Whether it is more than chance."""
        return self.value > SURE * self.error


class Verdict(NamedTuple):
    """What is to be thought of a column's fills.

    Parameters
    ----------
    column, kind, cells
        The column, and how many of its cells were hidden.
    word
        The verdict.
    score, mean_score
        RMSE in units of the column's spread, or the share of wrong levels: ours, and that of the
        mean or the most frequent level.
    coverage
        The share of hidden numbers inside their 90 % intervals; of levels, the share of right
        ones among those that were filled in.
    expected
        What it would be if laws were right: 0.9, or the mean probability of what was filled in.
    better
        The method that fills the column better than ours by more than chance, and its score; None
        where there is none.
    """

    column: str
    kind: str
    cells: int
    word: Word
    score: float
    mean_score: float
    coverage: float
    expected: float
    better: tuple[str, float] | None

    @property
    def called(self) -> str:
        """The verdict as readers see it: levels have no mean, and few cells leave doubt."""
        if self.word != "no better than the column mean":
            return self.word
        doubt = "perhaps " if self.score < NEARLY * self.mean_score else ""
        return f"{doubt}no better than {self._other}"

    @property
    def _other(self) -> str:
        return "the most frequent level" if self.kind in LEVELLED else "the column mean"

    @property
    def _is_doubtful(self) -> bool:
        """Whether less is held than chance explains, but not by enough for another verdict."""
        return self.coverage < self.expected - _chance(self.expected, self.cells)

    @property
    def sentence(self) -> str:
        """The verdict and its reasons."""
        if self.word == "too few cells to tell":
            return f"Only {self.cells} cells were hidden, too few to tell."
        levels = self.kind in LEVELLED
        error = (
            f"{self.score:.0%} of its levels are filled in wrongly"
            if levels
            else f"Fills are off by {self.score:.2f} standard deviations"
        )
        other = self._other
        against = f"{self.mean_score:.0%}" if levels else f"{self.mean_score:.2f}"
        held = (
            f"levels said to be {self.expected:.0%} sure are right in {self.coverage:.0%}"
            if levels
            else f"90 % intervals hold {self.coverage:.0%} of the truths"
        )
        link = "but" if self._is_doubtful else "and"
        doubt = (
            ", perhaps too few" if self._is_doubtful and self.word != "too sure of itself" else ""
        )
        reasons = f"{error} ({against} by {other}), {link} {held}{doubt}."
        if self.word == "no better than the column mean" and self.score < self.mean_score:
            reasons += " The difference may be chance."
        if self.better is not None:
            name, score = self.better
            told = f"{score:.0%} wrong" if levels else f"off by {score:.2f}"
            called = other if name == "mean" else CALLED[name]
            reasons += f" {_first(called)} fills it better: {told}."
        return reasons


def verdicts(found: Assessment) -> list[Verdict]:
    """Judge each column that has hidden cells."""
    ours, *others = found.outcomes
    if found.by_mean.name not in {other.name for other in others}:
        others.append(found.by_mean)
    weights = _weights(found)
    resampled = {
        outcome.name: _by_column(found, outcome.losses, weights) for outcome in (ours, *others)
    }
    told = []
    for j, column in enumerate(found.schema.modelled):
        if found.hidden[:, j].any():
            of = {name: scores[:, j] for name, scores in resampled.items()}
            told.append(_verdict(column, ours, others, of, found.calibration[column.name]))
    return told


def compared(found: Assessment) -> dict[str, dict[str, Difference]]:
    """Give how much larger the scores of the other methods are than ours.

    Returns
    -------
    dict
        For each method: `error`, the mean over columns of RMSE and error rates, and where it draws
        `law`, the mean over columns of CRPS and Brier scores.
    """
    ours, *others = found.outcomes
    weights = _weights(found)
    differences: dict[str, dict[str, Difference]] = {}
    for other in others:
        differences[other.name] = {"error": _difference(found, other.losses, ours.losses, weights)}
        if other.spreads is not None and ours.spreads is not None:
            law = _difference(found, other.spreads, ours.spreads, weights, root=False)
            differences[other.name]["law"] = law
    return differences


def in_words(found: Assessment) -> list[str]:
    """Say what it all comes to, in a few sentences."""
    sentences = []
    for what, begin, ahead, alike_to, behind in (
        ("error", "hhvaem fills", "better than", "as well as", "worse than"),
        (
            "law", "Its probabilities are", "better than those of", "as good as those of",
            "worse than those of",
        ),
    ):  # fmt: skip
        than = {name: parts[what] for name, parts in compared(found).items() if what in parts}
        if not than:
            continue
        worse = [name for name, part in than.items() if part.sure]
        better = [name for name, part in than.items() if Difference(-part.value, part.error).sure]
        alike = [name for name in than if name not in worse and name not in better]
        parts = [
            f"{ahead} {_names(worse)}" if worse else "",
            f"{alike_to} {_names(alike)}" if alike else "",
            f"{behind} {_names(better)}" if better else "",
        ]
        sentences.append(f"{begin} {', '.join(part for part in parts if part)}.")
        if better:
            best = min(better, key=lambda name: than[name].value)
            score = "error" if what == "error" else "CRPS"
            sentences.append(
                f"{_first(CALLED[best])} has an {score} that is lower by {-than[best].value:.3f} "
                f"(standard error {than[best].error:.3f}), and may serve this table better."
                if what == "error"
                else f"{_first(CALLED[best])} has a {score} that is lower by "
                f"{-than[best].value:.3f} (standard error {than[best].error:.3f})."
            )
    return sentences


def _names(names: list[str]) -> str:
    *first, last = (CALLED[name] for name in names)
    return f"{', '.join(first)} and {last}" if first else last


def _first(text: str) -> str:
    """Begin a sentence."""
    return text[0].upper() + text[1:]


def _verdict(
    column: Column,
    ours: Outcome,
    others: list[Outcome],
    resampled: dict[str, Float[np.ndarray, " resampled"]],
    calibration: Calibration,
) -> Verdict:
    scores = {
        outcome.name: float(
            outcome.report.by_column[column.name].get(
                "rmse", outcome.report.by_column[column.name].get("error_rate", np.nan)
            )
        )
        for outcome in (ours, *others)
    }
    cells = int(ours.report.by_column[column.name]["cells"])
    own = scores[OURS]
    gaps = {
        name: Difference(own - score, float((resampled[OURS] - resampled[name]).std()))
        for name, score in scores.items()
        if name != OURS
    }
    better = [name for name in gaps if gaps[name].sure]
    best = min(better, key=lambda name: scores[name], default=None)
    mean = scores["mean"]
    coverage, expected = _held(calibration, own)
    gained = Difference(-gaps["mean"].value, gaps["mean"].error)
    word: Word
    if cells < FEW:
        word = "too few cells to tell"
    elif coverage < expected - _chance(expected, cells) - SLACK:
        word = "too sure of itself"
    elif not gained.sure:
        word = "no better than the column mean"
    elif own > (1 - GOOD) * mean:
        word = "wide but honest"
    else:
        word = "trust"
    return Verdict(
        column.name, column.kind, cells, word, own, mean, coverage, expected,
        None if best is None else (best, scores[best]),
    )  # fmt: skip


def _chance(share: float, cells: int) -> float:
    """Give how far a share of so many cells may be off by chance."""
    return SURE * float(np.sqrt(share * (1 - share) / cells))


def _held(calibration: Calibration, error: float) -> tuple[float, float]:
    """Give the share of truths that laws hold, and what it would be if they were right."""
    if calibration.places is not None:
        return float((np.abs(calibration.places - 0.5) < LEVEL / 2).mean()), LEVEL
    assert calibration.confidence is not None
    return 1 - error, float(calibration.confidence.mean())


def _weights(found: Assessment) -> Float[np.ndarray, "resampled rows"]:
    """Resample rows: how often each one is in each resampled table."""
    rng = np.random.default_rng(found.seed)
    shares = np.full(found.rows, 1 / found.rows)
    return rng.multinomial(found.rows, shares, size=RESAMPLED).astype(float)


def _by_column(
    found: Assessment,
    losses: TableValues,
    weights: Float[np.ndarray, "resampled rows"],
    *,
    root: bool = True,
) -> Float[np.ndarray, "resampled columns"]:
    """Give the score of each column in each resampled table; NaN where it has no cell."""
    hidden: TableMask = found.hidden
    with np.errstate(invalid="ignore", divide="ignore"):
        means = (weights @ np.where(hidden, losses, 0.0)) / (weights @ hidden.astype(float))
    if root:
        levelled = np.array([c.kind in LEVELLED for c in found.schema.modelled])
        means = np.where(levelled, means, np.sqrt(means))
    return means


def _difference(
    found: Assessment,
    theirs: TableValues,
    ours: TableValues,
    weights: Float[np.ndarray, "resampled rows"],
    *,
    root: bool = True,
) -> Difference:
    whole = np.ones((1, found.rows))

    def mean(losses: TableValues, weights: np.ndarray) -> Float[np.ndarray, " resampled"]:
        return np.nanmean(_by_column(found, losses, weights, root=root), axis=1)

    value = float((mean(theirs, whole) - mean(ours, whole))[0])
    return Difference(value, float((mean(theirs, weights) - mean(ours, weights)).std()))
