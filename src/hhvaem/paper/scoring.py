"""From what draws of test rows tell to the scores of a fold, published and proper."""

from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Bool, Float

from hhvaem import evaluate
from hhvaem.baselines import Filled
from hhvaem.paper.evaluation import Evidence, Told
from hhvaem.paper.folds import Fold

KINDS = {"gaussian": 1, "bernoulli": 2, "categorical": 3}

Scores = dict[str, float]


def score(fold: Fold, told: Told) -> Scores:
    """Score a fold by what was told of its test rows.

    Keys that start with `paper_` are by the published formulas; all log scores are negative, in
    nats and in the units that the models see.
    """
    hidden = np.asarray(~fold.test.mask)
    return {
        **_published(fold, told, hidden),
        **_proper(fold, told, hidden),
        **_target(fold, told),
        "acceptance": float(np.mean(told.acceptance)),
    }


def score_evidence(fold: Fold, evidence: Evidence) -> Scores:
    """Score hidden cells together by the probability of the first rows of a fold.

    `log_score_annealed` is per hidden cell, and `annealed_error` its mean standard error; the two
    bounds are of whole rows.
    """
    hidden = np.asarray(~fold.test.mask)[: len(evidence.observed)].sum(1)
    gain = np.asarray(evidence.everything, np.float64) - np.asarray(evidence.observed)
    some = hidden > 0
    return {
        "log_score_annealed": -_mean(gain[some] / hidden[some]),
        "annealed_error": _mean(np.asarray(evidence.error)[some] / hidden[some]),
        "bound_observed": -_mean(evidence.observed),
        "bound_everything": -_mean(evidence.everything),
    }


def _published(fold: Fold, told: Told, hidden: Bool[np.ndarray, "rows columns"]) -> Scores:
    scores = {
        "paper_nll_missing": _mean(told.missing),
        "paper_nll_observed": _mean(told.observed),
        "paper_nll_target": _mean(told.target),
        "paper_rmse_missing": _mean(_published_errors(fold, told, hidden)),
    }
    kinds = np.minimum(fold.inputs.encoding.levels, 3)
    for name, chosen in (("observed", ~hidden), ("missing", hidden)):
        cells = np.where(chosen, np.asarray(told.published_cells), np.nan)
        seen = chosen.any(0)
        for kind, levels in KINDS.items():
            columns = seen & (kinds == levels)
            if columns.any():
                scores[f"paper_nll_{name}_{kind}"] = _mean(np.nanmean(cells[:, columns], axis=0))
    return scores


def _published_errors(
    fold: Fold, told: Told, hidden: Bool[np.ndarray, "rows columns"]
) -> Float[np.ndarray, " columns"]:
    """Give the RMSE or the error rate of each column that has a hidden cell."""
    levels = fold.inputs.encoding.levels
    guesses = [
        guess[:, 0] if count == 1 else _level(guess)
        for count, guess in zip(levels, _by_column(levels, np.asarray(told.guesses)), strict=True)
    ]
    return _errors(fold, np.stack(guesses, axis=1), hidden)


def _errors(
    fold: Fold,
    guess: Float[np.ndarray, "rows columns"],
    hidden: Bool[np.ndarray, "rows columns"],
) -> Float[np.ndarray, " columns"]:
    """Compare in the units that the models see, columns without hidden cells left out."""
    truth, errors = np.asarray(fold.test.cells.point, np.float64), []
    for j, levels in enumerate(fold.inputs.encoding.levels):
        at = hidden[:, j]
        if at.any():
            off = guess[at, j] - truth[at, j]
            errors.append(np.sqrt(np.mean(off**2)) if levels == 1 else np.mean(off != 0))
    return np.array(errors)


def _proper(fold: Fold, told: Told, hidden: Bool[np.ndarray, "rows columns"]) -> Scores:
    encoding = fold.inputs.encoding
    # From (rows, draws, columns), as evaluate takes them.
    draws = np.moveaxis(encoding.decode(np.asarray(told.cells)), 1, 0)
    point = np.stack(
        [
            draws[..., j].mean(0) if levels == 1 else _commonest(draws[..., j], levels)
            for j, levels in enumerate(encoding.levels)
        ],
        axis=1,
    )
    any_hidden = hidden.any(1)
    joint = np.asarray(told.joint, np.float64)[any_hidden] / hidden.sum(1)[any_hidden]
    return {
        "log_score_cell": -_mean(np.asarray(told.log_cells)[hidden]),
        "log_score_joint": -_mean(joint),
        **_cells(fold, hidden, point, draws),
    }


def _cells(
    fold: Fold,
    hidden: Bool[np.ndarray, "rows columns"],
    point: Float[np.ndarray, "rows columns"],
    draws: Float[np.ndarray, "draws rows columns"] | None,
) -> Scores:
    """Score hidden cells in the user's units, over the spread of their columns in training."""
    scale = fold.inputs.values.std(0)
    report = evaluate.score_cells(fold.inputs.columns, fold.truth, hidden, point, draws, scale)
    return {name: value for name, value in report.table.items() if name != "columns_left_out"}


def score_filled(fold: Fold, filled: Filled) -> Scores:
    """Score what a baseline made of inputs and targets, in this order of columns."""
    hidden = np.asarray(~fold.test.mask)
    inputs = hidden.shape[1]
    point, target = filled.point[:, :inputs], filled.point[:, inputs:]
    draws = None if filled.draws is None else filled.draws[..., :inputs]
    guess = np.asarray(fold.inputs.encoding.encode(point, np.ones_like(hidden)).point, np.float64)
    scores = {
        "paper_rmse_missing": _mean(_errors(fold, guess, hidden)),
        **_cells(fold, hidden, point, draws),
    }
    if fold.targets.encoding.levels[0] > 1:
        return scores | {
            "target_accuracy": evaluate.accuracy(target[:, 0], fold.target_truth[:, 0])
        }
    drawn = None if filled.draws is None else filled.draws[..., inputs:]
    return scores | _target_numbers(fold, target, drawn)


def _target(fold: Fold, told: Told) -> Scores:
    levels, truth = fold.targets.encoding.levels, fold.target_truth
    scores = {"log_score_target": -_mean(np.asarray(told.log_target, np.float64).sum(1))}
    locations = np.asarray(told.locations, np.float64)
    if levels[0] == 1:
        guess = fold.targets.encoding.decode(locations).mean(1)
        draws = np.moveaxis(fold.targets.encoding.decode(np.asarray(told.targets)), 1, 0)
        return scores | _target_numbers(fold, guess, draws)
    shares = locations.mean(1)
    shares = np.concatenate([1 - shares, shares], axis=1) if levels[0] == 2 else shares
    scores["target_accuracy"] = float(np.mean(shares.argmax(1) == truth[:, 0]))
    scores["target_auroc"] = evaluate.auroc(shares, truth[:, 0])
    return scores


def _target_numbers(
    fold: Fold,
    guess: Float[np.ndarray, "rows targets"],
    draws: Float[np.ndarray, "draws rows targets"] | None,
) -> Scores:
    """Score targets that are numbers: all of them together, and by CRPS over their spread."""
    truth, unit = fold.target_truth, fold.targets.values.std(0)
    scores = {"target_rmse": float(np.sqrt(np.mean((guess - truth) ** 2)))}
    if draws is not None:
        each = [evaluate.crps(draws[..., j], truth[:, j]) / unit[j] for j in range(len(unit))]
        scores["target_crps"] = _mean(each)
    return scores


def _by_column(
    levels: Sequence[int], guesses: Float[np.ndarray, "rows inputs"]
) -> Iterator[Float[np.ndarray, "rows width"]]:
    widths = [1 if count == 2 else count for count in levels]
    yield from np.split(guesses.astype(np.float64), np.cumsum(widths)[:-1], axis=1)


def _level(guess: Float[np.ndarray, "rows width"]) -> Float[np.ndarray, " rows"]:
    """Give the level that log odds, or logs of shares, speak for."""
    return ((guess[:, 0] > 0) if guess.shape[1] == 1 else guess.argmax(1)).astype(np.float64)


def _commonest(draws: Float[np.ndarray, "draws rows"], levels: int) -> Float[np.ndarray, " rows"]:
    counts = np.stack([(draws == level).sum(0) for level in range(levels)])
    return counts.argmax(0).astype(np.float64)


def _mean(values: object) -> float:
    """Average what is finite: a row without hidden cells has no score of them."""
    values = np.asarray(values, np.float64)
    return float(values[np.isfinite(values)].mean())
