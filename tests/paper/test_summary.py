"""What the paper prints, and tables and ranks from records."""

from typing import Any

import numpy as np
import pytest

from hhvaem.paper.folds import PUBLISHED
from hhvaem.paper.printed import MINUTES, printed
from hhvaem.paper.summary import MODELS, draw_ranks, ranks, score_table

WITH_SPREADS = ("paper_nll_missing", "paper_nll_target")


def records(scores: dict[str, list[float]], table: str = "boston") -> list[dict[str, Any]]:
    """Make records of one score, the last fold first."""
    return [
        {"table": table, "model": model, "fold": fold, "paper_nll_missing": value}
        for model, values in scores.items()
        for fold, value in reversed(list(enumerate(values)))
    ]


def test_the_paper_s_numbers_are_all_there() -> None:
    for score in (*WITH_SPREADS, "paper_rmse_missing", "paper_nll_observed"):
        for model in MODELS:
            for table in PUBLISHED:
                number = printed(score, model, table)
                assert number is not None
                assert 0 < number.mean < 4
                assert (number.spread is not None) == (score in WITH_SPREADS)
    assert printed("paper_nll_missing", "VAEM", "wine") == (3.01, 0.61)
    assert printed("paper_rmse_missing", "missforest", "naval") == (0.30, None)
    assert printed("paper_nll_missing", "missforest", "naval") is None
    hours = sum(sum(minutes.values()) for minutes in MINUTES.values()) / 60
    assert 10 * hours == pytest.approx(443, abs=5)


def test_a_table_has_means_spreads_and_what_is_printed() -> None:
    some = records({"VAEM": [1.0, 3.0], "mean": [5.0]})
    text = score_table(some, "paper_nll_missing", ["VAEM", "mean", "gaussian"])
    assert text.splitlines() == [
        "| | boston |",
        "|---|---|",
        "| VAEM | 2.00 ± 1.00 (2.01) |",
        "| mean | 5.00 ± 0.00 |",
    ]


def test_ranks_are_those_of_means_in_tables_that_have_all_models() -> None:
    values = {model: [float(i), i + 0.5] for i, model in enumerate(reversed(list(MODELS)))}
    some = records(values) + records({"VAEM": [1.0]}, "wine")
    np.testing.assert_array_equal(ranks(some, "paper_nll_missing"), [[5, 4, 3, 2, 1]])
    assert ranks(some, "crps").shape == (0, 5)
    figure = draw_ranks(some)
    assert [panel.get_xlabel() for panel in figure.axes][:3] == [
        "mean rank of 1 tables",
        "mean rank of 0 tables",
        "mean rank of 0 tables",
    ]
