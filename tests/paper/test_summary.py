"""What the paper prints; tables, ranks and verdicts from records whose answers are known."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import friedmanchisquare, sem

from hhvaem.errors import InputError
from hhvaem.paper import tables
from hhvaem.paper.folds import PUBLISHED
from hhvaem.paper.printed import MODELS, TABLES, printed
from hhvaem.paper.ranks import critical_difference
from hhvaem.paper.summary import (
    RANKED,
    by_fold,
    draw_ranks,
    draw_verdict,
    kind_table,
    minutes,
    minutes_table,
    rank_table,
    ranking,
    read_records,
    score_table,
    verdict,
    verdict_table,
)

MISSING, TARGET = "paper_nll_missing", "paper_nll_target"


def records(
    scores: dict[str, list[float]], table: str = "boston", score: str = MISSING
) -> list[dict[str, Any]]:
    """Make records of one score, the last fold first."""
    return [
        {"table": table, "model": model, "fold": fold, "device": "cpu", score: value}
        for model, values in scores.items()
        for fold, value in reversed(list(enumerate(values)))
    ]


def of_all(table: str, *means: float, score: str = MISSING) -> list[dict[str, Any]]:
    """Make two folds of all models, with these means."""
    return records({m: [x - 1, x + 1] for m, x in zip(MODELS, means, strict=True)}, table, score)


def test_the_paper_s_numbers_are_all_there() -> None:
    assert tuple(tables.MODELS) == MODELS
    assert tuple(PUBLISHED) == TABLES
    for score in (MISSING, TARGET, "paper_rmse_missing", "paper_nll_observed"):
        assert all(printed(score, model, table) for model in MODELS for table in TABLES)
    timed = [table for table in TABLES if printed("train_minutes", "VAEM", table)]
    assert timed == [table for table in TABLES if table not in ("insurance", "naval")]
    # The sums of all that is printed, which a wrong digit anywhere would change.
    sums = {
        MISSING: (105.50, 7.79),
        TARGET: (49.92, 4.17),
        "paper_rmse_missing": (36.92, 1.49),
        "paper_nll_observed": (30.91, 3.86),
        "paper_nll_observed_gaussian": (2.74, 1.57),
        "paper_nll_observed_bernoulli": (0.85, 0.00),
        "paper_nll_observed_categorical": (2.77, 0.79),
        "train_minutes": (2658.90, 94.18),
    }
    for score, expected in sums.items():
        found = [printed(score, model, t) for model in (*MODELS, "missforest") for t in TABLES]
        np.testing.assert_allclose(np.sum([x for x in found if x], axis=0), expected, atol=1e-9)
    assert printed(MISSING, "VAEM", "wine") == (3.01, 0.61)
    assert printed("paper_nll_observed_gaussian", "HH-VAEM", "bank") == (0.20, 0.22)
    assert printed("train_minutes", "HH-VAEM", "avocado") == (388.28, 6.47)
    assert printed(MISSING, "missforest", "naval") is None
    assert printed("paper_nll_observed_gaussian", "HH-VAEM", "boston") is None


def test_a_table_has_means_spreads_and_what_is_printed() -> None:
    some = records({"VAEM": [1.0, 3.0], "mean": [5.0], "HH-VAEM": [1.5, 1.5]})
    some += records({"HH-VAEM": [1.0]}, "wine")
    text = score_table(some, MISSING, ["VAEM", "HH-VAEM", "mean", "gaussian"])
    assert text.splitlines() == [
        "| table | folds | VAEM | HH-VAEM | mean |",
        "|---|---|---|---|---|",
        "| wine | 1 |  | 1.00 (1.90 ± 0.17) |  |",
        "| boston | 2 | 2.00 ± 1.00 (2.01 ± 0.23) | **1.50 ± 0.00** (1.83 ± 0.11) | 5.00 [1] |",
    ]


@pytest.mark.parametrize(
    ("score", "values", "best"),
    [
        ("crps", (0.2, 0.3), "0.20"),
        ("target_accuracy", (0.2, 0.3), "0.30"),
        ("coverage90", (0.86, 0.97), "0.86"),
        ("coverage50", (0.4, 0.55), "0.55"),
    ],
)
def test_the_best_is_bold(score: str, values: tuple[float, float], best: str) -> None:
    first, second = values
    some = records({"VAEM": [first], "HH-VAEM": [second]}, score=score)
    assert score_table(some, score, MODELS).count("**") == 2
    assert f"**{best}**" in score_table(some, score, MODELS)
    same = records({"VAEM": [first], "HH-VAEM": [first + 1e-5]}, score=score)
    assert "**" not in score_table(same, score, MODELS)


def test_few_folds_are_not_the_best() -> None:
    some = records({"VAEM": [2.0, 2.0], "HMC-VAEM": [3.0, 3.0], "missforest": [1.0]})
    text = score_table(some, MISSING, ["VAEM", "HMC-VAEM", "missforest"])
    assert "**2.00 ± 0.00**" in text
    assert "| 1.00 [1] |" in text


def test_kinds_are_those_of_two_tables() -> None:
    kind = "paper_nll_observed_bernoulli"
    some = records({"HH-VAEM": [0.25]}, "avocado", kind) + records({"HH-VAEM": [0.5]}, "wine", kind)
    assert kind_table(some, "observed").splitlines() == [
        "| table | kind | folds | VAEM | MIWAEM | H-VAEM | HMC-VAEM | HH-VAEM |",
        "|---|---|---|---|---|---|---|---|",
        "| avocado | bernoulli | 1 |  |  |  |  | 0.25 (0.04 ± 0.00) |",
    ]
    assert len(kind_table(some, "missing").splitlines()) == 2


def test_minutes_are_seconds_and_the_ratio_is_the_paper_s_to_ours() -> None:
    some = records({"VAEM": [60.0, 120.0]}, "yacht", "train_seconds")
    found = minutes(some, "yacht", "VAEM")
    assert found == (2, 1.5, 5.89)
    assert found is not None
    assert found.ratio == 3.9
    some += records({"HH-VAEM": [30.0]}, "naval", "train_seconds")
    assert minutes_table(some).splitlines() == [
        "| table | VAEM | MIWAEM | H-VAEM | HMC-VAEM | HH-VAEM |",
        "|---|---|---|---|---|---|",
        "| naval |  |  |  |  | 0.50 |",
        "| yacht | 1.50 (5.89: 3.9 x) |  |  |  |  |",
    ]
    assert minutes(some, "boston", "VAEM") is None


def test_ranks_are_those_of_means_in_tables_that_have_all_models() -> None:
    some = [
        *of_all("wine", 5, 4, 3, 2, 1),
        *of_all("boston", 1, 2, 2, 4, 5),
        *of_all("bank", 2, 1, 3, 4, 5),
        *records({"VAEM": [1.0]}, "naval"),
        *of_all("yacht", 1, 2, 3, 4, 5)[1:],  # a fold of the first is not there
    ]
    found = ranking(some, MISSING)
    assert found.tables == ("bank", "wine", "boston")
    assert found.folds == (2, 2, 2)
    expected = np.array([[2, 1, 3, 4, 5], [5, 4, 3, 2, 1], [1, 2.5, 2.5, 4, 5]])
    np.testing.assert_array_equal(found.ranks, expected)
    np.testing.assert_allclose(found.mean, [8 / 3, 2.5, 8.5 / 3, 10 / 3, 11 / 3])
    np.testing.assert_allclose(found.error, sem(expected, axis=0))
    means = [[2, 5, 1], [1, 4, 2], [3, 3, 2], [4, 2, 4], [5, 1, 5]]
    assert found.p_value == pytest.approx(friedmanchisquare(*means).pvalue)
    assert found.difference == pytest.approx(2.728 * np.sqrt(30 / 18), abs=1e-3)


def test_the_more_accurate_ranks_higher() -> None:
    some = of_all("wine", 0.5, 0.4, 0.3, 0.2, 0.1, score="target_accuracy")
    np.testing.assert_array_equal(ranking(some, "target_accuracy").ranks, [[1, 2, 3, 4, 5]])


@pytest.mark.parametrize(
    ("models", "quantile"),
    [(2, 1.960), (3, 2.343), (4, 2.569), (5, 2.728), (10, 3.164)],
)
def test_critical_differences_are_those_of_the_books(models: int, quantile: float) -> None:
    """The quantiles of Demsar (2006), table 5."""
    expected = quantile * np.sqrt(models * (models + 1) / 60)
    assert critical_difference(models, 10) == pytest.approx(expected, abs=1e-3)


def test_the_table_of_ranks_says_how_many_tables() -> None:
    some = [
        *of_all("wine", 5, 4, 3, 2, 1),
        *of_all("bank", 4, 5, 3, 2, 1),
        *of_all("wine", 1, 2, 3, 4, 5, score="crps"),
    ]
    _, _, missing, target, _, crps = rank_table(some).splitlines()
    p = friedmanchisquare([5, 4], [4, 5], [3, 3], [2, 2], [1, 1]).pvalue
    assert missing == (
        "| NLL of missing cells, as published | 2 | 4.5 ± 0.5 | 4.5 ± 0.5 | 3.0 ± 0.0 | 2.0 ± 0.0 "
        f"| 1.0 ± 0.0 | {p:.2g} | 4.3 |"
    )
    assert target == "| NLL of the target, as published | 0 |  |  |  |  |  |  |  |"
    assert crps == "| CRPS of missing numbers | 1 | 1.0 | 2.0 | 3.0 | 4.0 | 5.0 |  |  |"


def test_a_verdict_is_by_the_paper_s_spread() -> None:
    """Boston has 1.83 ± 0.11, wine 1.90 ± 0.17, and boston's target 0.55 ± 0.04."""
    some = [
        *records({"HH-VAEM": [1.93, 1.95], "VAEM": [9.0]}),
        *records({"HH-VAEM": [2.06, 2.09]}, "wine"),
        *records({"HH-VAEM": [0.1]}, score=TARGET),
        *records({"VAEM": [0.1]}, "bank"),
    ]
    assert verdict(some, MISSING, "boston") is True
    assert verdict(some, MISSING, "wine") is False
    assert verdict(some, MISSING, "bank") is None
    assert verdict(some, "crps", "boston") is None
    assert verdict_table(some).splitlines()[2:] == [
        "| wine | 2 | 2.08 ± 0.01 (1.90 ± 0.17) | **no** |  |  |  |",
        "| boston | 2 | 1.94 ± 0.01 (1.83 ± 0.11) | yes | 1 | 0.10 (0.55 ± 0.04) | yes |",
        "",
        "NLL of missing cells: as good on 1 of 2 tables, not on wine. "
        "NLL of the target: as good on 1 of 1 tables.",
    ]


def test_figures_say_how_much_they_show() -> None:
    some = [
        *of_all("wine", 5, 4, 3, 2, 1),
        *[r for r in of_all("boston", 4, 5, 3, 2, 1) if r["fold"] == 0],
        *of_all("wine", 5, 4, 3, 2, 1, score="crps"),
    ]
    figure = draw_ranks(some)
    assert [panel.get_xlabel() for panel in figure.axes] == [
        "rank, 1 is best (2 tables, 1 to 2 folds)",
        "rank, 1 is best (no table has it all)",
        "rank, 1 is best (no table has it all)",
        "rank, 1 is best (1 table, 2 folds)",
    ]
    assert [panel.get_title().partition("\n")[0] for panel in figure.axes] == list(RANKED.values())
    assert "critical difference 4.31" in figure.axes[0].get_title()
    assert "too few tables" in figure.axes[3].get_title()
    means = figure.axes[0].containers[0].lines[0].get_xdata()
    np.testing.assert_array_equal(means, [4.5, 4.5, 3, 2, 1])
    assert [panel.get_title() for panel in draw_verdict(some).axes] == [
        "NLL of missing cells (2 tables, 1 to 2 folds)",
        "NLL of the target (no table has it all)",
    ]


def test_no_text_covers_another() -> None:
    """With ten tables of ten folds, in which everything is drawn."""
    rng = np.random.default_rng(0)
    some = [
        {"table": t, "model": m, "fold": f, **dict.fromkeys(RANKED, rng.random())}
        for t in TABLES
        for m in MODELS
        for f in range(10)
    ]
    for figure in (draw_ranks(some), draw_verdict(some)):
        figure.draw_without_rendering()
        width, height = figure.get_size_inches() * figure.dpi
        texts = figure.legends[0].get_texts()
        for panel in figure.axes:
            low, high = panel.get_xlim()
            ticks = [t for t in panel.get_xticklabels() if low <= t.get_position()[0] <= high]
            names = [t for t in panel.get_yticklabels() if t.get_visible()]
            texts += [panel.title, panel.xaxis.label, *ticks, *names]
        assert len(texts) > 25
        boxes = [text.get_window_extent() for text in texts if text.get_text()]
        for i, box in enumerate(boxes):
            assert 0 <= box.x0 <= box.x1 <= width
            assert 0 <= box.y0 <= box.y1 <= height
            assert not any(box.overlaps(other) for other in boxes[:i])


def test_records_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "tables.json"
    path.write_text(json.dumps({"records": records({"VAEM": [1.0, 2.0]})}))
    assert by_fold(read_records(path), MISSING, "boston", "VAEM") == {0: 1.0, 1: 2.0}


@pytest.mark.parametrize(
    "content",
    [
        "", "[]", "{}", "null", '{"records": 3}', '{"records": [3]}', "\xff", "[" * 100_000,
        '{"records": [{"table": "wine", "model": "VAEM", "device": "cpu"}]}',
        '{"records": [{"table": "wine", "model": "VAEM", "device": "", "fold": 0, "crps": "x"}]}',
    ],
)  # fmt: skip
def test_what_is_no_file_of_records_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "tables.json"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(InputError, match=r"tables\.json is no file that `hhvaem paper tables` wr"):
        read_records(path)
