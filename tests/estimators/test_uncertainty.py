"""Whether stated uncertainty is honest, on data drawn from the fitted models themselves.

What is measured is the chains: the model is the truth, and a share of 90 % of hidden cells lies in
its central 90 % if the posterior was found. Values that have a mass are placed at random within
it (randomised PIT). A law is a mixture of a finite number of draws, which makes it a little
narrow: with 20 chains one in a hundred more cells lies outside.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from hhvaem import Classifier, Imputer, Regressor, posterior
from hhvaem.encoding import Cells
from hhvaem.example import clinic
from hhvaem.fitting import Fitted
from hhvaem.likelihoods import Ordered
from hhvaem.model import Row
from hhvaem.predictive import Predictive

ROWS = 2000
HIDDEN = 0.3


class Simulated(NamedTuple):
    """Rows drawn from a model, and which of their cells are shown to it."""

    values: np.ndarray
    mask: np.ndarray


def simulated(fitted: Fitted) -> Simulated:
    """Draw rows from the prior, as of empty rows, and hide some cells of each."""
    columns = len(fitted.encoding.laws)
    empty = np.full((ROWS, columns), np.nan), np.zeros((ROWS, columns), bool)
    # One chain would do, and would be another program.
    values = np.concatenate([cells[0] for _, cells, _ in fitted.cases(*empty, fitted.plan.how)])
    return Simulated(values, np.random.default_rng(0).random(values.shape) >= HIDDEN)


def places(
    law: Predictive, column: int, rows: np.ndarray, values: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Give the randomised PIT of values."""
    low, high = law.ranks(column, rows, values)
    return low + (high - low) * rng.random(rows.size)


def hidden_places(fitted: Fitted, rows: Simulated, how: posterior.How) -> np.ndarray:
    """Give the randomised PIT of all hidden numbers and ordered levels."""
    rng = np.random.default_rng(1)
    ordered = [j for j, law in enumerate(fitted.encoding.laws) if isinstance(law, Ordered)]
    found = []
    for part, law, _ in fitted.laws(np.where(rows.mask, rows.values, np.nan), rows.mask, how):
        values, mask = rows.values[part], rows.mask[part]
        for j in ordered:
            at = np.flatnonzero(~mask[:, j])
            found.append(places(law, j, at, values[at, j], rng))
    return np.concatenate(found)


def inside(place: np.ndarray, level: float) -> float:
    return float((np.abs(place - 0.5) < level / 2).mean())


def assert_honest(place: np.ndarray) -> None:
    assert place.size > 5000
    assert 0.88 < inside(place, 0.9) < 0.92
    assert 0.47 < inside(place, 0.5) < 0.53
    assert inside(place, 0.99) > 0.98
    # Neither too high nor too low, either: no share is off by more than 3 in 100.
    assert stats.kstest(place, "uniform").statistic < 0.03


@pytest.fixture(scope="module")
def imputer() -> Imputer:
    return Imputer(preset="fast", random_state=0).fit(clinic(rows=150))


def test_nine_of_ten_hidden_cells_lie_in_their_interval(imputer: Imputer) -> None:
    fitted = imputer.fitted_
    assert_honest(hidden_places(fitted, simulated(fitted), fitted.plan.how))


@pytest.mark.slow
def test_the_default_is_as_honest() -> None:
    fitted = Imputer(random_state=0).fit(clinic(rows=600)).fitted_
    assert_honest(hidden_places(fitted, simulated(fitted), fitted.plan.how))


TARGET = "glucose"


@pytest.mark.slow
def test_targets_of_the_clinic_are_found(regressor: Regressor) -> None:
    table = clinic(rows=300)
    known = table.column(TARGET).is_valid().to_numpy()
    truth = table.column(TARGET).to_numpy()[known]
    features = table.drop_columns([TARGET])
    low, up = (end[known] for end in regressor.predict_interval(features, 0.9))
    assert 0.8 < ((low <= truth) & (truth <= up)).mean() < 0.99
    label = table.column("diabetic").to_pylist()
    features = table.drop_columns(["diabetic"])
    classifier = Classifier(preset="fast", random_state=0).fit(features, label)
    known = [value is not None for value in label]
    right = [bool(a) == b for a, b in zip(classifier.predict(features), label, strict=True)]
    assert np.mean(np.array(right)[known]) > 0.7


@pytest.fixture(scope="module")
def regressor() -> Regressor:
    table = clinic(rows=300)
    y = table.column(TARGET).to_numpy()
    return Regressor(preset="fast", random_state=0).fit(table.drop_columns([TARGET]), y)


def simulated_targets(fitted: Fitted) -> tuple[Simulated, np.ndarray]:
    """Draw rows, hide cells of each, and draw the target that the shown ones make one expect."""
    size, key = fitted.models.hierarchy.size, jax.random.key(0)
    positions = jax.random.normal(key, (1, ROWS, 1, 1, size))
    keys = jax.random.split(jax.random.key(1), (2, ROWS))
    columns, width = len(fitted.encoding.laws), fitted.models.log_noise.shape[1]

    def row(values: np.ndarray, mask: np.ndarray) -> Row:
        padding = ((0, 0), (0, width - columns))
        cells = Cells(*(jnp.pad(part, padding) for part in fitted.encoding.encode(values, mask)))
        no = jnp.zeros((ROWS, 1))
        return Row(cells, jnp.pad(jnp.asarray(mask), padding), Cells(no, no, no), no > 0)

    nothing = np.zeros((ROWS, columns)), np.zeros((ROWS, columns), bool)
    drawn = posterior.cases(fitted.models, row(*nothing), positions, keys[0])
    values = fitted.encoding.decode(np.asarray(drawn.cells)[0, :, 0, :columns])
    mask = np.random.default_rng(0).random(values.shape) >= HIDDEN
    drawn = posterior.cases(fitted.models, row(values, mask), positions, keys[1])
    target = fitted.target_encoding.decode(np.asarray(drawn.target)[0, :, 0])
    return Simulated(values, mask), target[:, 0]


@pytest.mark.slow
def test_nine_of_ten_targets_lie_in_their_interval(regressor: Regressor) -> None:
    fitted = regressor.fitted_
    rows, target = simulated_targets(fitted)
    shown = np.where(rows.mask, rows.values, np.nan)
    rng = np.random.default_rng(1)
    found = []
    for part, _, law in fitted.laws(shown, rows.mask, fitted.plan.how):
        at = np.arange(part.stop - part.start)
        found.append(places(law, 0, at, target[part], rng))
    place = np.concatenate(found)
    # Of 2,000 targets, the share is known to 0.7 in 100.
    assert 0.88 < inside(place, 0.9) < 0.92
    assert stats.kstest(place, "uniform").pvalue > 1e-3


@pytest.mark.slow
def test_intervals_of_targets_and_draws_agree(regressor: Regressor) -> None:
    table = clinic(rows=100, seed=5).drop_columns([TARGET])
    low, up = regressor.predict_interval(table, level=0.8, draws=200)
    drawn = regressor.sample(table, draws=200)
    assert drawn.shape == (200, 100)
    share = ((low < drawn) & (drawn < up)).mean()
    # The glucose of the table is rounded, and some values have a mass: they are on an edge.
    assert 0.76 < share < 0.82
    # Means of both: each is off by its chains.
    error = drawn.std(0) * np.sqrt(2 / 200)
    z = (drawn.mean(0) - regressor.predict(table, draws=200)) / error
    assert abs(z.mean()) * 10 < 4.5
    assert (z**2).mean() < 1 + 4.5 * np.sqrt(2 / 100)


@pytest.mark.slow
def test_a_prediction_does_not_depend_on_the_rows_beside_it(regressor: Regressor) -> None:
    table = clinic(rows=150, seed=5).drop_columns([TARGET])

    def told(table: Any) -> np.ndarray:
        both = regressor.predict_interval(table)
        return np.stack([regressor.predict(table), *both, *regressor.sample(table, draws=3)])

    everything = told(table)
    for rows in ([140], list(range(5, 9)), np.random.default_rng(0).permutation(150)):
        np.testing.assert_array_equal(told(table.take(rows)), everything[:, rows])
        np.testing.assert_array_equal(told(table.take(rows).to_pandas()), everything[:, rows])
    # Targets of equal rows are the same, draws of them are not.
    found = told(table.take([3] * 4))
    assert (found[:3] == found[:3, :1]).all()
    assert len(np.unique(found[3:])) == 12
