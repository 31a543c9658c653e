"""The peers of the paper's tables: on a mixed table whose columns follow one hidden number."""

import importlib.util
import sys
from functools import cache

import numpy as np
import pytest

from hhvaem import baselines
from hhvaem.baselines import (
    BASELINES,
    SLOW,
    SLOW_ROWS,
    Filled,
    Task,
    missforest,
    training_rows,
)
from hhvaem.errors import InputError
from hhvaem.schema import Column

COLUMNS = (
    Column("size", "real"),
    Column("colour", "categorical", levels=("red", "green", "blue", "never")),
    Column("weight", "positive"),
    Column("sold", "binary", levels=("no", "yes")),
    Column("visits", "count"),
    Column("grade", "ordinal", levels=("low", "mid", "top")),
    Column("luck", "real"),
    Column("price", "real"),  # the target
)
DEPENDENT = [j for j, column in enumerate(COLUMNS) if column.name != "luck"]
DRAWN = ["gaussian", "ridge", "miceforest"]
LEARNING = [*DRAWN, "missforest"]


def needs(name: str) -> None:
    if name == "miceforest":
        pytest.importorskip("miceforest")


def table(rows: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=rows)
    near = [hidden + 0.3 * rng.normal(size=rows) for _ in range(7)]
    columns = [
        10 + 3 * near[0],
        np.digitize(near[1], [-0.6, 0.6]),
        np.exp(near[2]),
        near[3] > 0.3,
        np.rint(np.exp(near[4] + 1)),
        np.digitize(near[5], [-0.5, 1.0]),
        rng.normal(size=rows),
        1e4 * near[6],
    ]
    return np.stack(columns, axis=1).astype(float)


TRAIN, TEST = table(500, 0), table(150, 1)
MASK = np.random.default_rng(2).random(TEST.shape) < 0.5
MASK[:, -1] = False


def run(name: str, values: np.ndarray, draws: int, seed: int) -> Filled:
    needs(name)
    return BASELINES[name](
        Task(COLUMNS, TRAIN, np.ones(TRAIN.shape, bool), values, MASK, draws, seed)
    )


@cache
def filled(name: str, seed: int = 0) -> Filled:
    return run(name, np.where(MASK, TEST, np.nan), draws=6, seed=seed)


def errors(point: np.ndarray) -> np.ndarray:
    """Root mean square errors in standard deviations, and error rates, of hidden cells."""
    found = []
    for j, column in enumerate(COLUMNS):
        x, y = point[~MASK[:, j], j], TEST[~MASK[:, j], j]
        rate = np.mean(x != y) if column.levels else np.sqrt(np.mean((x - y) ** 2)) / y.std()
        found.append(rate)
    return np.array(found)


def test_the_mean_and_the_most_frequent_level() -> None:
    point, draws = filled("mean")
    assert draws is None
    for j, column in enumerate(COLUMNS):
        if column.levels:
            levels, counts = np.unique(TRAIN[:, j], return_counts=True)
            expected = levels[counts.argmax()]
        else:
            expected = TRAIN[:, j].mean()
        np.testing.assert_allclose(point[~MASK[:, j], j], expected)


@pytest.mark.parametrize("name", LEARNING)
def test_columns_that_depend_on_others_are_filled_better_than_by_the_mean(name: str) -> None:
    ours, means = errors(filled(name).point), errors(filled("mean").point)
    assert (ours[DEPENDENT] < 0.8 * means[DEPENDENT]).all()


@pytest.mark.parametrize("name", LEARNING)
def test_a_column_that_depends_on_nothing_is_filled_about_as_well_as_by_the_mean(name: str) -> None:
    # The mean of six draws of an independent column has an error of sqrt(1 + 1/6).
    assert errors(filled(name).point)[6] < 1.25


@pytest.mark.parametrize("name", DRAWN)
def test_the_spread_of_draws_is_that_of_errors(name: str) -> None:
    draws = filled(name).draws
    assert draws is not None
    for j in (0, 7):
        holes = ~MASK[:, j]
        away = draws[:, holes, j] - TEST[holes, j]
        among = draws[:, holes, j].std(0, ddof=1)
        # A draw is as far from the truth as from another draw.
        assert np.sqrt((away**2).mean()) == pytest.approx(np.sqrt(2 * (among**2).mean()), rel=0.35)


@pytest.mark.parametrize("name", ["gaussian", "ridge"])
def test_draws_of_a_hidden_level_follow_the_table(name: str) -> None:
    draws = filled(name).draws
    assert draws is not None
    for j in (1, 3, 5):
        holes = ~MASK[:, j]
        shares = [
            np.bincount(x.astype(int).ravel(), minlength=4) / x.size
            for x in (draws[:, holes, j], TRAIN[:, j])
        ]
        np.testing.assert_allclose(*shares, atol=0.12)


@pytest.mark.parametrize("name", BASELINES)
def test_observed_cells_are_untouched_to_the_bit(name: str) -> None:
    point, draws = filled(name)
    for found in (point, *(() if draws is None else draws)):
        assert np.array_equal(found[MASK].view(np.int64), TEST[MASK].view(np.int64))
        assert np.isfinite(found).all()


@pytest.mark.parametrize("name", BASELINES)
def test_hidden_values_are_not_looked_at(name: str) -> None:
    # The truth stands in the hidden cells here, and NaN in those of `filled`.
    again = run(name, TEST, draws=6, seed=0)
    np.testing.assert_array_equal(again.point, filled(name).point)
    if again.draws is not None:
        np.testing.assert_array_equal(again.draws, filled(name).draws)


@pytest.mark.parametrize("name", DRAWN)
def test_draws_differ_and_are_legal(name: str) -> None:
    draws = filled(name).draws
    assert draws is not None
    assert draws.shape == (6, *TEST.shape)
    hidden = np.where(MASK, 0.0, draws)
    for other in hidden[1:]:
        assert (other != hidden[0]).any(axis=0).all()
    for j, column in enumerate(COLUMNS):
        if column.levels:
            assert set(np.unique(draws[..., j])) <= {0.0, 1.0, 2.0}
    assert (draws[..., 2] >= 0).all()
    assert (draws[..., 4] >= 0).all()
    assert (draws[..., 4] == np.rint(draws[..., 4])).all()


@pytest.mark.parametrize("name", BASELINES)
def test_points_have_levels_and_keep_bounds(name: str) -> None:
    point = filled(name).point
    for j, column in enumerate(COLUMNS):
        if column.levels:
            assert set(np.unique(point[:, j])) <= {0.0, 1.0, 2.0}
        else:
            assert (point[:, j] >= column.support[0]).all()


@pytest.mark.parametrize("name", DRAWN)
def test_another_seed_gives_other_draws(name: str) -> None:
    first, other = filled(name).draws, filled(name, seed=1).draws
    assert first is not None
    assert other is not None
    assert (np.where(MASK, 0.0, first) != np.where(MASK, 0.0, other)).any(axis=(0, 1)).all()


def test_another_seed_gives_another_forest() -> None:
    assert (filled("missforest").point != filled("missforest", seed=1).point).any()


def test_forests_go_on_while_rounds_change_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two rounds, the second refines the first; a round that changes more is thrown away."""
    monkeypatch.setattr(baselines, "FOREST_ROUNDS", 1)
    once = errors(run("missforest", TEST, draws=1, seed=0).point)
    assert errors(filled("missforest").point)[DEPENDENT].mean() < once[DEPENDENT].mean()
    changes = iter([(0.5, 0.5), (0.4, 0.6), (0.4, 0.7)])
    rounds = []

    def change(before: np.ndarray, after: np.ndarray, *_: np.ndarray) -> np.ndarray:
        rounds.append(after.copy())
        return np.array(next(changes))

    monkeypatch.setattr(baselines, "FOREST_ROUNDS", 10)
    monkeypatch.setattr(baselines, "_change", change)
    point = run("missforest", TEST, draws=1, seed=0).point
    assert len(rounds) == 3
    np.testing.assert_array_equal(point, rounds[1])


def test_slow_ones_are_fitted_on_some_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(BASELINES) >= SLOW == {"ridge", "missforest", "miceforest"}
    assert training_rows("missforest", SLOW_ROWS + 1) == SLOW_ROWS
    assert training_rows("missforest", 7) == 7
    assert training_rows("gaussian", SLOW_ROWS + 1) == SLOW_ROWS + 1
    monkeypatch.setattr(baselines, "SLOW_ROWS", 1)
    # A forest of one row knows nothing but that row.
    point = run("missforest", TEST, draws=1, seed=0).point
    hidden = [np.unique(point[~MASK[:, j], j]) for j in range(len(COLUMNS))]
    row = np.array([values[0] for values in hidden])
    assert all(len(values) == 1 for values in hidden)
    assert np.isclose(row, TRAIN).all(axis=1).any()


@pytest.mark.parametrize("name", BASELINES)
def test_holes_in_training_rows_are_fine(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    needs(name)
    monkeypatch.setattr(baselines, "TREES", 10)
    mask = np.random.default_rng(5).random(TRAIN.shape) < 0.9
    values = np.where(mask, TRAIN, np.nan)
    point = BASELINES[name](Task(COLUMNS, values, mask, TEST, MASK, 2, 0)).point
    assert np.isfinite(point).all()
    if name != "mean":
        means = errors(filled("mean").point)
        assert errors(point)[DEPENDENT].mean() < 0.8 * means[DEPENDENT].mean()


def test_forests_do_not_mind_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baselines, "TREES", 10)
    points = []
    for unit in (1.0, 2.0**-30):
        units = np.array([unit if column.kind == "real" else 1.0 for column in COLUMNS])
        every = np.ones(TRAIN.shape, bool)
        task = Task(COLUMNS, TRAIN * units, every, TEST * units, MASK, 1, 0)
        points.append(missforest(task).point / units)
    np.testing.assert_array_equal(points[1], points[0])


def test_forests_learn_from_the_holes_that_they_have_filled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With half of the cells missing, forests of the second round know more than of the first."""
    monkeypatch.setattr(baselines, "TREES", 10)
    mask = np.random.default_rng(5).random(TRAIN.shape) < 0.5
    shown = np.where(mask, TRAIN, np.nan)
    wrong = []
    for rounds in (1, 3):
        monkeypatch.setattr(baselines, "FOREST_ROUNDS", rounds)
        point = missforest(Task(COLUMNS, shown, mask, shown, mask, 1, 0)).point
        np.testing.assert_array_equal(point[mask], TRAIN[mask])
        away = (point - TRAIN)[:, [0, 7]] / TRAIN[:, [0, 7]].std(0)
        wrong.append(np.sqrt((away[~mask[:, [0, 7]]] ** 2).mean()))
    assert wrong[1] < 0.95 * wrong[0] < 0.9


@pytest.mark.parametrize("name", BASELINES)
def test_columns_that_do_not_vary_in_training(name: str) -> None:
    needs(name)
    train, test = TRAIN.copy(), TEST.copy()
    train[:, 0], train[:, 1] = 5.0, 1.0
    # The test rows have levels that no training row has.
    point = BASELINES[name](
        Task(COLUMNS, train, np.ones(train.shape, bool), test, MASK, 2, 0)
    ).point
    np.testing.assert_allclose(point[~MASK[:, 0], 0], 5.0, rtol=1e-3)
    np.testing.assert_array_equal(point[~MASK[:, 1], 1], 1.0)
    np.testing.assert_array_equal(point[MASK], test[MASK])


@pytest.mark.parametrize("name", LEARNING)
def test_rare_levels_are_fine(name: str) -> None:
    needs(name)
    train = TRAIN.copy()
    train[:2, 1] = 3.0
    point = BASELINES[name](
        Task(COLUMNS, train, np.ones(train.shape, bool), TEST, MASK, 5, 0)
    ).point
    assert errors(point)[1] < 0.8 * errors(filled("mean").point)[1]


@pytest.mark.parametrize("name", ["mean", "ridge", "missforest"])
def test_a_column_without_training_cells_is_named(name: str) -> None:
    mask = np.ones(TRAIN.shape, bool)
    mask[:, 2] = False
    with pytest.raises(InputError, match="Column 'weight' has no observed cell"):
        BASELINES[name](Task(COLUMNS, TRAIN, mask, TEST, MASK, 2, 0))


def test_a_single_column_has_its_own_distribution() -> None:
    columns, train = COLUMNS[:1], TRAIN[:, :1]
    hidden = np.zeros((3, 1), bool)
    point = missforest(
        Task(columns, train, np.ones(train.shape, bool), TEST[:3, :1], hidden, 1, 0)
    ).point
    np.testing.assert_allclose(point, train.mean(), atol=0.2)


def test_without_miceforest_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec("miceforest"):
        monkeypatch.setitem(sys.modules, "miceforest", None)
    with pytest.raises(InputError, match=r"install hhvaem\[peers\]"):
        BASELINES["miceforest"](
            Task(COLUMNS, TRAIN, np.ones(TRAIN.shape, bool), TEST, MASK, draws=1, seed=0)
        )
