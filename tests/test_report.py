"""The page of a demonstration holds what was found; how it looks is for eyes."""

import re
from collections.abc import Callable

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from scipy.stats import binom

from hhvaem.demonstration import Demonstration, Prediction, Score, on_coverage, on_errors
from hhvaem.example import clinic
from hhvaem.inference import infer_schema
from hhvaem.report import interval_figure, page
from hhvaem.schema import LEVELLED
from hhvaem.table import encode


@pytest.fixture(scope="module")
def found() -> Demonstration:
    """A demonstration without a model: fills lie beside the truth, and some intervals with them."""
    table = clinic(300)
    schema = infer_schema(table)
    values, mask = encode(table, schema)
    hidden = mask & (np.random.default_rng(0).random(mask.shape) < 0.15)
    filled = np.where(mask, values, np.nanmedian(values, axis=0))
    scale = np.nanstd(values, axis=0)
    filled = np.where(hidden, filled + 0.1 * scale, filled)
    # Every fifth interval is too short.
    reach = np.where(np.arange(len(values))[:, None] % 5, scale, 0.05 * scale)
    scores = tuple(
        Score(column, int(hidden[:, j].sum()), 0.8, 0.9) for j, column in enumerate(schema)
    )
    guess = Prediction(100, 9.0, 12.0, 0.9, 30.0)
    return Demonstration(
        table, table, table, schema, values, mask, hidden, filled, filled - reach, filled + reach,
        scores, 0.8, guess, 1.0,
    )  # fmt: skip


@pytest.fixture(scope="module")
def shown(found: Demonstration) -> str:
    return page(found)


def place(found: Demonstration, name: str) -> int:
    return found.schema.names.index(name)


def lines(found: Demonstration, name: str) -> np.ndarray:
    """The ends of the intervals in a panel, [lines, ends, axes]."""
    [panel] = interval_figure(found, place(found, name)).axes
    drawn = [part for part in panel.collections if isinstance(part, LineCollection)]
    segments = [one for part in drawn for one in part.get_segments()]
    return np.array([one for one in segments if one[0, 0] == one[1, 0]])


def test_every_cell_that_is_missing_or_hidden_is_marked(found: Demonstration, shown: str) -> None:
    strips = re.findall(r'<path class="(hole|test)" d="(.*?)"', shown)
    marked = {name: [text.count("M") for of, text in strips if of == name] for name, _ in strips}
    assert marked["hole"] == (~found.mask).sum(0).tolist()
    assert marked["test"] == found.hidden.sum(0).tolist()
    first = re.findall(r"M(\d+) 0h1v1h-1z", strips[0][1])
    assert list(map(int, first)) == np.flatnonzero(~found.mask[:, 0]).tolist()


def test_each_number_and_date_has_a_panel_that_counts_hits(
    found: Demonstration, shown: str
) -> None:
    numbers = [j for j, column in enumerate(found.schema) if column.kind not in LEVELLED]
    assert shown.count("<figure>") == len(numbers) == 8
    for j in numbers:
        [panel] = interval_figure(found, j).axes
        at = found.hidden[:, j]
        truth, low, up = (part[at, j] for part in (found.values, found.low, found.up))
        inside = int(((low <= truth) & (truth <= up)).sum())
        assert 0 < inside < at.sum()
        assert panel.get_title() == f"{found.schema.names[j]}: {inside} of {at.sum()}"


def test_the_intervals_of_counts_stand_side_by_side(found: Demonstration) -> None:
    j = place(found, "visits")
    at = found.hidden[:, j]
    across, ends = lines(found, "visits")[:, 0, 0], lines(found, "visits")[:, :, 1]
    assert np.unique(across).size == at.sum()
    # Each stays with its truth, and has its own interval.
    pairs = sorted(zip(np.rint(across), *ends.T, strict=True))
    own = sorted(zip(found.values[at, j], found.low[at, j], found.up[at, j], strict=True))
    assert np.array(pairs) == pytest.approx(np.array(own))
    assert np.abs(across - np.rint(across)).max() <= 0.4


def test_dates_are_shown_as_dates(found: Demonstration) -> None:
    j = place(found, "admitted")
    figure = interval_figure(found, j)
    figure.draw_without_rendering()
    shown = " ".join(tick.get_text() for tick in figure.axes[0].get_xticklabels())
    assert re.search(r"20\d\d|Jan|Jul", shown)
    days = np.sort(found.values[found.hidden[:, j], j]) / 864e8
    assert np.sort(lines(found, "admitted")[:, 0, 0]) == pytest.approx(days)


def test_a_column_of_notes_only_where_there_are_any(found: Demonstration, shown: str) -> None:
    assert "<th>note</th>" not in shown
    with_note = page(found._replace(schema=found.schema.replace("age", note="<odd> & old")))
    assert "<th>note</th>" in with_note
    assert "<td>&lt;odd&gt; &amp; old</td>" in with_note
    assert "<odd>" not in with_note


def test_the_same_demonstration_makes_the_same_page(found: Demonstration, shown: str) -> None:
    assert page(found) == shown


def test_columns_no_better_than_their_mean_are_named(found: Demonstration, shown: str) -> None:
    assert "(here none)" in on_errors(found)
    assert on_errors(found) in shown
    assert on_coverage(found) in shown
    same, worse = (found.scores[j]._replace(error=error) for j, error in ((3, 0.9), (10, 1.0)))
    scores = (*found.scores[:3], same, *found.scores[4:10], worse, *found.scores[11:])
    text = on_errors(found._replace(scores=scores))
    assert f"(here {same.column.name}, {worse.column.name})" in text


@pytest.mark.parametrize("sentence", [on_errors, on_coverage])
def test_each_remark_is_one_sentence(
    found: Demonstration, sentence: Callable[[Demonstration], str]
) -> None:
    assert re.fullmatch(r"[A-Z][^.]*\.", sentence(found))


def test_what_chance_makes_of_coverage(found: Demonstration) -> None:
    scores = tuple(score._replace(cells=40 + j) for j, score in enumerate(found.scores))
    text = on_coverage(found._replace(scores=scores))
    numbers = [score.cells for score in scores if score.column.kind not in LEVELLED]
    low, up = map(int, re.findall(r"from (\d+)% to (\d+)%", text)[0])
    assert f"With {min(numbers)} to {max(numbers)} hidden cells" in text
    # 95 % of all tables are in between, and fewer without the ends.
    law = binom(min(numbers), 0.9)
    least, most = round(low / 100 * min(numbers)), round(up / 100 * min(numbers))
    assert law.cdf(most) - law.cdf(least - 1) >= 0.95
    assert law.cdf(most - 1) - law.cdf(least) < 0.95
