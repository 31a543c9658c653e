"""From what draws of test rows tell to the scores of a fold, published and proper."""

from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Bool, Float

from hhvaem import evaluate
from hhvaem.paper.evaluation import Told
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
    truth, errors = np.asarray(fold.test.cells.point, np.float64), []
    for j, guess in enumerate(_by_column(fold.inputs.encoding.levels, np.asarray(told.guesses))):
        at = hidden[:, j]
        if not at.any():
            continue
        if fold.inputs.encoding.levels[j] == 1:
            errors.append(np.sqrt(np.mean((guess[at, 0] - truth[at, j]) ** 2)))
        else:
            errors.append(np.mean(_level(guess)[at] != truth[at, j]))
    return np.array(errors)


def _proper(fold: Fold, told: Told, hidden: Bool[np.ndarray, "rows columns"]) -> Scores:
    columns, encoding = fold.inputs.columns, fold.inputs.encoding
    # From (rows, draws, columns), as evaluate takes them.
    draws = np.moveaxis(encoding.decode(np.asarray(told.cells)), 1, 0)
    scale = np.array([np.std(fold.inputs.values[:, j]) for j in range(len(columns))])
    point = np.stack(
        [
            draws[..., j].mean(0) if levels == 1 else _commonest(draws[..., j], levels)
            for j, levels in enumerate(encoding.levels)
        ],
        axis=1,
    )
    found = evaluate.score_cells(columns, fold.truth, hidden, point, draws, scale).table
    any_hidden = hidden.any(1)
    joint = np.asarray(told.joint, np.float64)[any_hidden] / hidden.sum(1)[any_hidden]
    return {
        "log_score_cell": -_mean(np.asarray(told.log_cells)[hidden]),
        "log_score_joint": -_mean(joint),
        **{name: value for name, value in found.items() if name != "columns_left_out"},
    }


def _target(fold: Fold, told: Told) -> Scores:
    levels, truth = fold.targets.encoding.levels, fold.target_truth
    scores = {"log_score_target": -_mean(np.asarray(told.log_target, np.float64).sum(1))}
    locations = np.asarray(told.locations, np.float64)
    if levels[0] == 1:
        guess = fold.targets.encoding.decode(locations).mean(1)
        draws = np.moveaxis(fold.targets.encoding.decode(np.asarray(told.targets)), 1, 0)
        unit = fold.targets.values.std(0)
        each = [
            _mean(evaluate.crps(draws[..., j], truth[:, j])) / unit[j] for j in range(len(levels))
        ]
        return scores | {
            "target_rmse": float(np.sqrt(np.mean((guess - truth) ** 2))),
            "target_crps": _mean(each),
        }
    shares = locations.mean(1)
    shares = np.concatenate([1 - shares, shares], axis=1) if levels[0] == 2 else shares
    scores["target_accuracy"] = float(np.mean(shares.argmax(1) == truth[:, 0]))
    scores["target_auroc"] = evaluate.auroc(shares, truth[:, 0])
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
