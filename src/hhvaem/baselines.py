"""What our models are compared with: peers that learn from some rows and fill others.

Both can be the same rows; those that are learned from may have holes of their own. Among the
paper's tables, where fresh masks show a model every training cell, they have none, and targets are
columns like all others, hidden in every test row.
"""

import importlib
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.experimental import enable_iterative_imputer  # noqa: F401 - what makes the next line work
from sklearn.impute import IterativeImputer
from sklearn.linear_model import BayesianRidge

from hhvaem.encoding import TableDraws, TableMask, TableValues
from hhvaem.errors import InputError
from hhvaem.gaussian import fit_gaussian
from hhvaem.schema import LEVELLED, Column

# Those that take long are fitted on a random choice of at most so many training rows.
SLOW = frozenset({"ridge", "missforest", "miceforest"})
SLOW_ROWS = 5_000
# Rounds of chains over the columns; scikit-learn's default.
ROUNDS = 10
# As published: trees of a forest, rounds at most, and rows of a node that is not split in
# regression (one in classification).
TREES, FOREST_ROUNDS, SMALL_NODE = 100, 10, 5
# Models of each column that draws are divided among, and rounds over the columns: miceforest's
# usual five of each.
MICE_MODELS, MICE_ROUNDS = 5, 5

TrainValues = Float[np.ndarray, "train columns"]
TrainMask = Bool[np.ndarray, "train columns"]


class Task(NamedTuple):
    """What a baseline is given.

    Parameters
    ----------
    columns
        What the columns are, targets included.
    train_values, train_mask
        What it is fitted on.
    test_values, test_mask
        What it fills.
    draws, seed
        How many draws it makes, where it makes any, and where all randomness comes from.
    """

    columns: tuple[Column, ...]
    train_values: TrainValues
    train_mask: TrainMask
    test_values: TableValues
    test_mask: TableMask
    draws: int
    seed: int


class Filled(NamedTuple):
    """Test rows without holes.

    Parameters
    ----------
    point
        The best single values: means of numbers, not rounded, and the likeliest levels.
    draws
        Rows with legal values drawn; None where a method has no draws.
    """

    point: TableValues
    draws: TableDraws | None


Baseline = Callable[[Task], Filled]


def training_rows(name: str, rows: int) -> int:
    """Say on how many of the training rows a baseline is fitted.

    Examples
    --------
    >>> training_rows("gaussian", 40_000), training_rows("missforest", 40_000)
    (40000, 5000)
    """
    return min(rows, SLOW_ROWS) if name in SLOW else rows


def mean(task: Task) -> Filled:
    """Fill with the mean of a number's column and the most frequent level."""
    typical = _typical(task.columns, task.train_values, task.train_mask)
    return Filled(np.where(task.test_mask, task.test_values, typical), None)


def gaussian(task: Task) -> Filled:
    """Fill by a Gaussian copula (`hhvaem.gaussian`)."""
    model = fit_gaussian(task.columns, task.train_values, task.train_mask)
    test = (task.test_values, task.test_mask)
    return Filled(model.fill(*test), model.sample(*test, task.draws, task.seed))


def ridge(task: Task) -> Filled:
    """Fill by scikit-learn's chain of Bayesian ridge regressions.

    Draws are chains with posterior draws, the point is the chain of means. Levels without order
    are said by indicators of all levels but the first: codes would give them an order and
    distances that they do not have, and with an indicator for every level each would follow from
    the others, so that a chain never left the level it began with.
    """
    columns, train_values, train_mask, test_values, test_mask, draws, seed = task
    _typical(columns, train_values, train_mask)
    train = _numbers(columns, train_values, train_mask)
    test = _numbers(columns, test_values, test_mask)
    shift, scale = np.nanmean(train, axis=0), np.nanstd(train, axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    chain = IterativeImputer(
        BayesianRidge(), sample_posterior=True, max_iter=ROUNDS, random_state=seed
    ).fit((train - shift) / scale)

    def run(*, rounded: bool) -> TableValues:
        filled = chain.transform((test - shift) / scale) * scale + shift
        found = _from_numbers(columns, filled, rounded=rounded)
        return np.where(test_mask, test_values, found)

    drawn = np.stack([run(rounded=True) for _ in range(draws)])
    chain.set_params(sample_posterior=False)
    return Filled(run(rounded=False), drawn)


def missforest(task: Task) -> Filled:
    """Fill by a forest for each column, round after round (Stekhoven and Buehlmann 2012).

    As published, rounds end when what they change grows for numbers and for levels, and the
    values before that are the result. Forests are grown on training rows, whose own holes are
    filled by the same rounds; where they have none, the forests of the first round stay.
    """
    columns, train_values, train_mask, test_values, test_mask, _, seed = task
    rows = _some(len(train_values), seed)
    train_values, train_mask = train_values[rows], train_mask[rows]
    typical = _typical(columns, train_values, train_mask)
    levelled = np.array([column.kind in LEVELLED for column in columns])
    # scikit-learn does not split what varies by less than 1e-7. Powers of two round nothing.
    spread = np.where(train_mask, train_values, typical).std(0)
    spread = np.where(levelled | (spread == 0), 1.0, spread)
    scale = np.exp2(np.rint(np.log2(spread)))
    truth, typical = train_values / scale, typical / scale
    train = np.where(train_mask, truth, typical)
    filled = np.where(test_mask, test_values / scale, typical)
    counts = (~train_mask).sum(0) + (~test_mask).sum(0)
    # Those with the fewest holes first.
    order = [j for j in np.argsort(counts, kind="stable").tolist() if counts[j]]
    forests: dict[int, Any] = {}
    change = np.full(2, np.inf)
    for _ in range(FOREST_ROUNDS):
        before, last = filled.copy(), change
        for j in order:
            if j not in forests or not train_mask.all():
                seen = train_mask[:, j]
                forests[j] = _forest(columns[j], seed).fit(
                    _predictors(columns, train[seen], j), truth[seen, j]
                )
                # Several threads would add up trees in any order, and the last digits would vary.
                forests[j].set_params(n_jobs=1)
            for values, mask in ((train, train_mask), (filled, test_mask)):
                if not mask[:, j].all():
                    holes = ~mask[:, j]
                    values[holes, j] = forests[j].predict(_predictors(columns, values[holes], j))
        change = _change(before * scale, filled * scale, test_mask, levelled)
        if not (change < last).any():
            filled = before
            break
    return Filled(np.where(test_mask, test_values, filled * scale), None)


def miceforest(task: Task) -> Filled:
    """Fill by chains of boosted trees with predictive mean matching (miceforest).

    Raises
    ------
    InputError
        Where miceforest is not installed.
    """
    package, pandas = _miceforest_and_pandas()
    columns, train_values, train_mask, test_values, test_mask, draws, seed = task
    rng = np.random.default_rng(seed)
    rows = _some(len(train_values), seed)
    train_values, train_mask = train_values[rows], train_mask[rows]
    drawn = np.repeat(
        np.where(test_mask, test_values, _typical(columns, train_values, train_mask))[None],
        draws,
        axis=0,
    )
    seen = [np.unique(train_values[train_mask[:, j], j]) for j in range(len(columns))]
    # What does not vary has nothing to learn, and is filled by now.
    varying = [j for j, values in enumerate(seen) if len(values) > 1]

    def frame(values: TableValues, mask: TableMask) -> Any:
        shown = np.where(mask, values, np.nan)
        return pandas.DataFrame(
            {
                str(j): pandas.Categorical(shown[:, j], categories=seen[j])
                if columns[j].kind in LEVELLED
                else shown[:, j]
                for j in varying
            }
        )

    with warnings.catch_warnings():
        # Rare levels are what the table has.
        warnings.filterwarnings("ignore", message=".*rare categories", category=UserWarning)
        kernel = package.ImputationKernel(
            frame(train_values, train_mask),
            num_datasets=min(MICE_MODELS, draws),
            variable_schema=[str(j) for j in varying],
            # Matching by log odds fails where a tree gives a level no chance at all.
            mean_match_strategy={str(j): "fast" for j in varying if columns[j].kind in LEVELLED},
            random_state=seed,
        )
    # So few rows keep threads waiting for each other.
    kernel.mice(1, num_threads=1)
    for model in range(kernel.num_datasets):
        mine = np.arange(model, draws, kernel.num_datasets)
        mask = np.tile(test_mask, (len(mine), 1))
        now = drawn[mine].reshape(mask.shape)
        for j in varying:
            holes = ~mask[:, j]
            now[holes, j] = rng.choice(train_values[train_mask[:, j], j], holes.sum())
        # One column at a time: its rounds over new rows see the random values that all holes
        # begin with, in every round (version 6.0.5).
        for _ in range(MICE_ROUNDS):
            for j in varying:
                if mask[:, j].all():
                    continue
                hidden = np.ones(mask.shape, bool)
                hidden[:, j] = mask[:, j]
                new = kernel.impute_new_data(frame(now, hidden), datasets=[model], iterations=1)
                # Unless it is told the iteration, it gives those values back.
                done = new.complete_data(dataset=model, iteration=1)[str(j)]
                now[~mask[:, j], j] = np.asarray(done, np.float64)[~mask[:, j]]
        drawn[mine] = now.reshape(len(mine), *test_mask.shape)
    return Filled(np.where(test_mask, test_values, _centre(columns, drawn)), drawn)


BASELINES: dict[str, Baseline] = {
    "mean": mean,
    "gaussian": gaussian,
    "ridge": ridge,
    "missforest": missforest,
    "miceforest": miceforest,
}


def check_installed(names: Sequence[str]) -> None:
    """Refuse baselines whose packages are not installed, before the work.

    Raises
    ------
    InputError
        Saying what to install.
    """
    if "miceforest" in names:
        _miceforest_and_pandas()


def _miceforest_and_pandas() -> tuple[Any, Any]:
    try:
        return importlib.import_module("miceforest"), importlib.import_module("pandas")
    except ImportError as error:
        raise InputError(
            "The baseline 'miceforest' needs miceforest with a lightgbm below 4.7, which are not "
            "installed; install hhvaem[peers], or leave it out."
        ) from error


def _typical(
    columns: Sequence[Column], values: TableValues, mask: TableMask
) -> Float[np.ndarray, " columns"]:
    """Give the mean of each number and the most frequent level of each other column."""
    typical = np.empty(len(columns))
    for j, column in enumerate(columns):
        x = values[mask[:, j], j]
        if not x.size:
            raise InputError(
                f"Column {column.name!r} has no observed cell in the training rows; leave it out "
                "or use rows that have one."
            )
        typical[j] = np.bincount(x.astype(int)).argmax() if column.levels else x.mean()
    return typical


def _some(rows: int, seed: int) -> Int[np.ndarray, " some"]:
    """Choose the training rows of a baseline that takes long."""
    chosen = np.random.default_rng(seed).permutation(rows)[:SLOW_ROWS]
    return np.sort(chosen)


def _numbers(
    columns: Sequence[Column], values: TableValues, mask: TableMask
) -> Float[np.ndarray, "rows features"]:
    """Say levels without order by indicators of all but the first; NaN where not observed."""
    parts = []
    for j, column in enumerate(columns):
        part = values[:, j, None]
        if column.kind in ("binary", "categorical"):
            part = (part == np.arange(1, len(column.levels))).astype(float)
        parts.append(np.where(mask[:, j, None], part, np.nan))
    return np.concatenate(parts, axis=1)


def _from_numbers(
    columns: Sequence[Column], features: Float[np.ndarray, "rows features"], *, rounded: bool
) -> TableValues:
    """Give the legal values that are nearest; of numbers only the bounds unless `rounded`."""
    values, place = np.empty((len(features), len(columns))), 0
    for j, column in enumerate(columns):
        width = len(column.levels) - 1 if column.kind in ("binary", "categorical") else 1
        part = features[:, place : place + width]
        place += width
        if column.kind == "ordinal":
            values[:, j] = np.clip(np.rint(part[:, 0]), 0, len(column.levels) - 1)
        elif column.levels:
            first = 1.0 - part.sum(1, keepdims=True)
            values[:, j] = np.concatenate([first, part], axis=1).argmax(1)
        else:
            lower, upper, step = column.support
            x = np.rint(part[:, 0] / step) * step if step and rounded else part[:, 0]
            values[:, j] = np.clip(x, lower, upper)
    return values


def _forest(column: Column, seed: int) -> Any:
    options = {
        "n_estimators": TREES,
        "max_features": "sqrt",
        "random_state": seed,
        "n_jobs": -1,
    }
    if column.kind in LEVELLED:
        return RandomForestClassifier(**options)
    return RandomForestRegressor(min_samples_split=SMALL_NODE + 1, **options)


def _predictors(
    columns: Sequence[Column], values: TableValues, target: int
) -> Float[np.ndarray, "rows features"]:
    """Give all columns but one; levels without order as an indicator of each."""
    parts = [
        (values[:, j, None] == np.arange(len(column.levels))).astype(float)
        if column.kind == "categorical"
        else values[:, j, None]
        for j, column in enumerate(columns)
        if j != target
    ]
    # A single column has nothing else to go by.
    return np.concatenate([*parts, np.zeros((len(values), 1))], axis=1)


def _change(
    before: TableValues,
    after: TableValues,
    mask: TableMask,
    levelled: Bool[np.ndarray, " columns"],
) -> Float[np.ndarray, "2"]:
    """Give what a round changed of numbers and of levels, in the published measures."""
    numbers, holes = ~levelled, ~mask[:, levelled]
    square = (after[:, numbers] ** 2).sum()
    moved = ((after - before)[:, numbers] ** 2).sum()
    other = (after != before)[:, levelled].sum()
    return np.array(
        [moved / square if square else np.inf, other / holes.sum() if holes.any() else np.inf]
    )


def _centre(columns: Sequence[Column], draws: TableDraws) -> TableValues:
    """Give the mean of a number's draws and the level that was drawn most often."""
    centre = draws.mean(0)
    for j, column in enumerate(columns):
        if column.levels:
            counts = (draws[:, :, j, None] == np.arange(len(column.levels))).sum(0)
            centre[:, j] = counts.argmax(1)
    return centre
