"""What cells tell about targets, where it is known: by algebra, or by sums over fine grids."""

from functools import cache
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from known_information import (
    NOISE_OF_SQUARE,
    ONE,
    TEN,
    as_float,
    estimated,
    informative,
    made,
    mutual,
    normal_draws,
    nothing_known,
    shown,
    stacked,
    ten_columns,
    truth,
)
from scipy import stats
from targets import LinearModel, linear

from hhvaem.acquire import information, scores
from hhvaem.acquire.information import Gains, Outcome, outcomes, pairs
from hhvaem.acquire.lines import Lines, cut, lines, masses
from hhvaem.encoding import Cells, Encoding
from hhvaem.fitting import Fitted
from hhvaem.likelihoods import Binary, Categorical, Ordered
from hhvaem.model import Model
from hhvaem.networks import Perceptron
from hhvaem.posterior import How, Tuned
from hhvaem.presets import PRESETS
from hhvaem.warps import EDGE, Affine, Levels, Log

NO_STRETCHES = Lines(*[jnp.full((1, 4), 2 * EDGE)] * 3)


# Draws made by hand.


class Drawn(NamedTuple):
    """Draws of the law of a cell and of a target, of many repeats, and the noise of both."""

    location: jax.Array
    answer: jax.Array
    scale: float


CLASSES = np.array([-1.8, -0.6, 0.6, 1.8])
COUNT, REPEATS = 100, 200


def drawn(name: str) -> Drawn:
    h, other = np.random.default_rng(1).normal(size=(2, REPEATS, COUNT))
    answer, scale = (h if name == "linear" else other)[..., None], 0.8
    if name == "classes":
        odds = np.exp(1.6 * h[..., None] * CLASSES - 0.8 * CLASSES**2)
        answer = odds / odds.sum(-1, keepdims=True)
    elif name == "quadratic":
        answer, scale = h[..., None] ** 2, NOISE_OF_SQUARE
    return Drawn(as_float(h), as_float(answer), scale)


def integrated(name: str) -> float:
    """The information of the cell and the target of `drawn`, by a sum over h, x and y."""
    h, x, y = np.linspace(-6, 6, 601), np.linspace(-8, 8, 321), np.linspace(-6, 38, 1201)
    scale = NOISE_OF_SQUARE if name == "quadratic" else 0.8
    cell = stats.norm.pdf(x, h[:, None], scale) * stats.norm.pdf(h)[:, None]
    if name == "classes":
        odds = np.exp(1.6 * h[:, None] * CLASSES - 0.8 * CLASSES**2)
        return mutual(cell.T @ (odds / odds.sum(1, keepdims=True)))
    centre = h[:, None] ** 2 if name == "quadratic" else h[:, None]
    return mutual(cell.T @ stats.norm.pdf(y, centre, scale))


def teller(levels: int) -> Model:
    """A stack of one model, of which the law of the target is needed."""
    predictor = linear(np.zeros((levels, 3)), np.zeros(levels))
    decoder = linear(np.ones((1, 1)), np.zeros(1))
    return stacked([made((1,), (levels,), decoder, predictor, ONE, ONE)])


@jax.jit
def by_hand(locations: jax.Array, answers: jax.Array, scale: jax.Array) -> Gains:
    """Information from independent draws, each a chain of its own, for each repeat."""
    model = eqx.tree_at(
        lambda m: m.target_log_noise, teller(answers.shape[2]), jnp.log(scale)[None, None]
    )

    def one(each: tuple[jax.Array, jax.Array]) -> Gains:
        location, answer = each
        spread = jnp.full((COUNT, 1), scale)
        edges = cut(location[:, None], spread, NO_STRETCHES, information.PARTS).edges
        mass = jax.vmap(lambda at: masses((1,), at[None], scale[None], edges)[0])(location)[None]
        shape = (1, COUNT, information.PARTS, answer.shape[1])
        same = jnp.broadcast_to(answer[None, :, None], shape)
        told = outcomes(model, same, mass, NO_STRETCHES)
        return information.information(mass, told, COUNT)

    return jax.lax.map(one, (locations, answers))


@cache
def repeated(name: str) -> Gains:
    law = drawn(name)
    found = by_hand(law.location, law.answer, jnp.array(law.scale))
    return Gains(*(np.asarray(part, np.float64) for part in found))


def test_a_sum_over_h_gives_what_is_known() -> None:
    assert integrated("linear") == pytest.approx(-0.5 * np.log(1 - 1 / 1.64**2), abs=1e-4)
    assert integrated("quadratic") == pytest.approx(0.559, abs=1e-3)


@pytest.mark.parametrize("name", ["linear", "quadratic", "classes"])
def test_information_of_hand_made_draws(name: str) -> None:
    exact, found = integrated(name), repeated(name)
    # Parts of lines lose little, and few draws seem to know a little more.
    assert found.raw.mean() == pytest.approx(exact, abs=0.06 * exact)
    assert (found.raw - found.null).mean() == pytest.approx(exact, abs=0.11 * exact)
    assert (found.null > 0).all()


def test_what_is_unrelated_tells_nothing() -> None:
    found = repeated("unrelated")
    corrected = found.raw - found.null
    error = corrected.std(ddof=1) / np.sqrt(REPEATS)
    assert abs(corrected.mean()) < 3 * error
    # Without what chance makes of few draws, all would seem to tell something.
    assert found.raw.mean() > 10 * error


@pytest.mark.parametrize("name", ["linear", "quadratic", "classes"])
def test_errors_are_the_spread_over_repeats(name: str) -> None:
    found = repeated(name)
    assert found.error.mean() == pytest.approx(found.raw.std(ddof=1), rel=0.25)


def test_what_there_is_to_know_of_levels_is_their_entropy() -> None:
    found = repeated("classes")
    assert (found.raw <= found.most).all()
    share = np.asarray(drawn("classes").answer, np.float64).mean(1)
    np.testing.assert_allclose(found.most, -(share * np.log(share)).sum(1), atol=1e-4)


def test_no_gain_is_above_the_entropy_of_its_own_target() -> None:
    """A target that is nearly known, and few draws: chance alone exceeds what is to be known."""

    def one(key: jax.Array) -> Gains:
        chance, cell = jax.random.uniform(key, (2, 6))
        share = 0.02 * chance[:, None]
        shares = jnp.broadcast_to(jnp.concatenate([1 - share, share], 1)[:, None], (6, 3, 2))
        mass = jax.nn.one_hot((3 * cell).astype(jnp.int32), 3)
        told = Outcome(shares[None], jnp.eye(2)[None])
        return information.information(mass[None], [told], 6)

    found = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(0), 100))
    worth = scores.settled(found)
    assert (worth.gain <= np.asarray(found.most)).all()
    assert (worth.gain >= 0).all()
    assert (np.asarray(found.raw) <= np.asarray(found.most) + 1e-6).all()
    # Whatever the estimate were, no more is said than there is.
    more = scores.settled(found._replace(raw=found.raw + 1.0))
    np.testing.assert_array_equal(more.gain, np.asarray(found.most, np.float64))


# Models: what cells tell through h, and what they tell directly.

LINEAR_COLUMNS = 5
NOISES = np.array([0.6, 0.9, 1.2, 1.1, 1.0])
# h, through h only; h and directly; directly only; another h; padding.
DOWN = np.array([[1.0, 0.0], [0.6, -0.5], [0.0, 0.0], [0.2, 1.0], [0.0, 0.0]])
BY_H = np.array([0.9, 0.4])
BY_X = np.array([0.0, 0.5, 0.8, -0.3, 0.0])
OFFSET = np.array([0.1, -0.2, 0.3, 0.5, 0.0])
TARGET_NOISE = 0.7


@cache
def linear_model() -> Model:
    by_all = np.concatenate([BY_H, BY_X, 0.1 * np.arange(LINEAR_COLUMNS)])
    return made(
        (1,) * LINEAR_COLUMNS,
        (1,),
        linear(DOWN, OFFSET),
        linear(by_all[None], np.array([0.4])),
        NOISES,
        TARGET_NOISE * ONE,
    )


def linear_moments(column: int) -> tuple[float, float, float]:
    """Variances of a cell and of the target if it were known, and their covariance."""
    through = BY_H + BY_X @ DOWN - BY_X[column] * DOWN[column]
    own = DOWN[column] @ DOWN[column] + NOISES[column] ** 2
    both = through @ DOWN[column] + BY_X[column] * own
    # y = through . h + by_x x + noise
    target = through @ through + 2 * BY_X[column] * (through @ DOWN[column])
    return own, both, target + BY_X[column] ** 2 * own + TARGET_NOISE**2


def linear_truth(column: int) -> float:
    own, both, target = linear_moments(column)
    return float(-0.5 * np.log(1 - both**2 / (own * target)))


DRAWS = normal_draws(512, 2)[None]


@cache
def linear_found() -> Gains:
    return estimated([linear_model()], DRAWS)


@pytest.mark.parametrize("column", range(LINEAR_COLUMNS))
def test_grid_is_exact_for_linear_models(column: int) -> None:
    exact = linear_truth(column)
    assert exact == pytest.approx(truth([linear_model()], column), abs=2e-3)
    assert linear_found().raw[0, column] == pytest.approx(exact, abs=0.01)


def test_a_column_that_the_predictor_alone_reads_tells() -> None:
    assert linear_truth(2) > 0.1
    assert linear_found().raw[0, 2] > 0.1


def test_padding_tells_nothing() -> None:
    assert abs(linear_found().raw[0, -1]) < 1e-5


@pytest.mark.parametrize("column", [1, 4])
def test_grid_is_exact_for_a_row_of_two_layers(column: int) -> None:
    """Known cells are behind the draws, and what the predictor makes of the others."""
    observed = np.array([1, 0, 1, 1, 0, 1], bool)
    known = LinearModel(observed, target_observed=False)
    after = LinearModel(observed | (np.arange(6) == column), target_observed=False)
    mean, covariance = known.posterior()
    noise = normal_draws(1024, LinearModel.size)
    at = mean + noise @ np.linalg.cholesky(covariance).T
    found = estimated([known.model], at[None], row=known.seen.row)
    weights, through = known.answer.weights[column], after.answer.weights[-1]
    # The target's weights are less by what the predictor reads of the column.
    direct = ((known.answer.weights[-1] - through) / weights).mean()
    own = weights @ covariance @ weights + known.answer.noise_variance[column]
    between = through @ covariance @ weights
    target = through @ covariance @ through + 2 * direct * between + direct**2 * own
    target += known.answer.noise_variance[-1]
    exact = -0.5 * np.log(1 - (between + direct * own) ** 2 / (own * target))
    assert exact > 0.02
    assert found.raw[0, column] == pytest.approx(exact, abs=0.012)


# Columns of all kinds.

ORDINAL = Levels(np.array([-EDGE, -0.4, 0.3, 1.1, EDGE]))
AT_ZERO = Log(0.4, 0.5)  # a number below -0.8 shows as zero
KINDS = Encoding(
    (
        Ordered(Affine(0.0, 1.0)),
        Binary(),
        Categorical(3),
        Ordered(ORDINAL),
        Ordered(AT_ZERO),
        Ordered(ORDINAL),
    )
)
WIDTH = 8  # with two columns of padding
KIND_LEVELS = (*KINDS.levels, 1, 1)
SHOWN = {
    3: shown(Ordered(ORDINAL), np.arange(4.0)),
    4: shown(Ordered(AT_ZERO), np.zeros(1)),
    5: shown(Ordered(ORDINAL), np.arange(4.0)),
}
# One number for each level of the third column, one for each other.
KIND_DOWN = np.array(
    [
        *([0.9, 0.2], [1.5, -0.5], [1.2, 0.0], [0.0, 1.0], [-1.0, -1.0]),
        *([0.7, 0.6], [0.9, 0.1], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]),
    ]
)
KIND_NOISE = np.array([0.7, 1.0, 1.0, 0.5, 0.6, 1.0, 1.0, 1.0])
# The last ordered column has nothing to do with h: it is read, by its level.
KIND_READ = np.array([0.3, 0.8, 0.5, -0.5, 0.4, 0.6, 0.3, 0.9, 0.0, 0.0])


def of_kinds(targets: tuple[int, ...], seed: int = 0) -> Model:
    """A model with columns of all kinds, all of them read directly too."""
    rng = np.random.default_rng(seed)
    outputs = sum(1 if count <= 2 else count for count in targets)
    factors = np.concatenate([ONE, rng.uniform(-1.0, 1.0, outputs - 1)])[:, None]
    by_h = np.concatenate([[[0.8 - 1.6 * seed, 0.3]], rng.normal(size=(outputs - 1, 2))])
    by_all = np.concatenate([by_h, factors * KIND_READ, 0.0 * factors * np.ones(WIDTH)], axis=1)
    down = KIND_DOWN + 0.2 * seed
    return made(
        KIND_LEVELS,
        targets,
        linear(down * (np.abs(KIND_DOWN).sum(1, keepdims=True) > 0), np.zeros(len(down))),
        linear(by_all, 0.3 * rng.normal(size=outputs)),
        KIND_NOISE,
        np.full(len(targets), 0.6 + 0.3 * seed),
    )


OF_COLUMNS = lines(KINDS, WIDTH)


@cache
def kinds_found(targets: tuple[int, ...], members: int = 1) -> np.ndarray:
    models = [of_kinds(targets, seed) for seed in range(members)]
    return estimated(models, DRAWS, of_columns=OF_COLUMNS).raw[0]


KIND_COLUMNS = {
    "number": 0, "pair": 1, "three levels": 2, "ordered levels": 3, "a number with an atom": 4,
    "levels that are only read": 5,
}  # fmt: skip


@pytest.mark.parametrize("column", KIND_COLUMNS.values(), ids=KIND_COLUMNS.keys())
def test_columns_of_all_kinds(column: int) -> None:
    exact = truth([of_kinds((1,))], column, SHOWN.get(column))
    assert exact > 0.05
    assert kinds_found((1,))[column] == pytest.approx(exact, abs=0.012)
    np.testing.assert_allclose(kinds_found((1,))[-2:], 0.0, atol=1e-5)


@pytest.mark.parametrize("column", [3, 4])
def test_it_is_the_shown_value_that_tells(column: int) -> None:
    """Where in its stretch a latent number lies would tell more, and is never seen."""
    less, more = (truth([of_kinds((1,))], column, each) for each in (SHOWN[column], None))
    assert more - less > 0.02
    assert kinds_found((1,))[column] < (less + more) / 2


@pytest.mark.slow
@pytest.mark.parametrize("column", [0, 1, 3])
def test_two_targets_are_a_pair(column: int) -> None:
    model = of_kinds((1, 1))
    exact = truth([model], column, SHOWN.get(column), (0, 1))
    apart = sum(truth([model], column, SHOWN.get(column), (t,)) for t in (0, 1))
    found = kinds_found((1, 1))[column]
    # Parts of two lines are fewer, and wider.
    assert 0.85 * exact < found < 1.02 * exact
    if column == 0:
        assert abs(found - exact) < abs(found - apart)


@pytest.mark.slow
@pytest.mark.parametrize("column", [0, 1, 3])
def test_three_targets_are_added_up(column: int) -> None:
    model = of_kinds((1, 4, 1))
    exact = sum(truth([model], column, SHOWN.get(column), (t,)) for t in range(3))
    assert kinds_found((1, 4, 1))[column] == pytest.approx(exact, abs=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("column", KIND_COLUMNS.values(), ids=KIND_COLUMNS.keys())
def test_members_are_a_mixture(column: int) -> None:
    models = [of_kinds((1,), seed) for seed in range(2)]
    exact = truth(models, column, SHOWN.get(column))
    apart = np.mean([truth([model], column, SHOWN.get(column)) for model in models])
    found = kinds_found((1,), 2)[column]
    assert found == pytest.approx(exact, abs=0.012)
    if column == 0:
        assert exact < apart - 0.04


# The other methods.


def fitted_of(model: Model, target: Affine) -> Fitted:
    """A model as if it were fitted to numbers that are their latent numbers."""
    columns = Encoding((Ordered(Affine(0.0, 1.0)),) * LINEAR_COLUMNS)
    plan, targets = PRESETS["default"], Encoding((Ordered(target),))
    tuned = Tuned(jnp.zeros(1))
    return Fitted(columns, targets, stacked([model]), None, tuned, plan, 0, {})


def test_variance_falls_by_as_much_as_is_known() -> None:
    """In squares of the target's own standard deviation, whatever its units."""
    fitted = fitted_of(linear_model(), Affine(170.0, 9.0))
    values, mask = np.zeros((2, LINEAR_COLUMNS)), np.zeros((2, LINEAR_COLUMNS), bool)
    how = How("encoder", chains=3000, kept=1)
    ((rows, worth, law),) = scores.worth(fitted, values, mask, how, "variance", size=2)
    assert rows == slice(0, 2)
    exact = np.array([both**2 / own for own, both, _ in map(linear_moments, range(LINEAR_COLUMNS))])
    assert worth.gain.shape == (2, LINEAR_COLUMNS)
    assert (np.abs(worth.gain - exact) < 4.5 * worth.error + 0.03 * exact + 0.002).all()
    assert (worth.error < 0.05 * exact + 0.01).all()
    assert law.mean(0, np.arange(2)) == pytest.approx([170.0 + 9.0 * linear_mean()] * 2, abs=1.0)


def linear_mean() -> float:
    """What is expected of the target where nothing is known."""
    return float(BY_X @ OFFSET + 0.1 * np.arange(LINEAR_COLUMNS).sum() + 0.4)


def test_errors_of_variance_are_the_spread_over_repeats() -> None:
    positions = np.random.default_rng(0).normal(size=(200, 100, 2))
    found = estimated([linear_model()], positions, "variance")
    some = [0, 1, 3]  # of the other two, draws of h know all or nothing
    np.testing.assert_allclose(found.error.mean(0)[some], found.raw.std(0, ddof=1)[some], rtol=0.25)
    # Padding is unrelated, and what chance makes of it comes off.
    corrected = (found.raw - found.null)[:, -1]
    assert abs(corrected.mean()) < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("draws", [2, 5, 6])
def test_a_histogram_of_as_many_bins_as_draws_has_no_standard_error(draws: int) -> None:
    model = informative()["linear"]
    positions = np.random.default_rng(0).normal(size=(20, draws, model.hierarchy.size))
    found = estimated([model], positions, "histogram")
    assert np.isfinite(found.raw).all()
    assert np.isnan(found.error).all() == (draws < 6)
    assert draws < 6 or (found.error > 0).all()
    # Other estimates have one from two draws on.
    assert np.isfinite(estimated([model], positions, "grid").error).all()


def test_histogram_counts_pairs() -> None:
    models = [of_kinds((1, 4)), of_kinds((1, 4), 1)]
    several, row, key = stacked(models), nothing_known(models[0]), jax.random.key(5)
    positions = np.random.default_rng(0).normal(size=(1, 300, 2))
    found = estimated(models, positions, "histogram", key=key)
    own = jax.random.split(jax.random.split(key, 1)[0], 2)
    at = jnp.asarray(positions[0], jnp.float32)
    draw = eqx.filter_jit(eqx.filter_vmap(lambda model, key: pairs(model, row, at, key)))
    cells, targets = (np.concatenate(np.asarray(part)) for part in draw(several, own))
    y = targets[:, :, 0]
    for j, levels in enumerate(KIND_LEVELS):
        edges = np.linspace(y[:, j].min(), y[:, j].max(), 6)
        own_edges = (
            np.linspace(cells[:, j].min(), cells[:, j].max(), 6)
            if levels == 1
            else np.arange(levels + 1) - 0.5
        )
        data = np.stack([cells[:, j], y[:, j], targets[:, j, 1]], axis=1)
        table = np.histogramdd(data, bins=[own_edges, edges, np.arange(5) - 0.5])[0]
        assert table.sum() == 600
        # Numbers at an edge of a bin may be in either, by rounding.
        assert found.raw[0, j] == pytest.approx(mutual(table), abs=4e-3)
    assert (found.null == 0).all()


@pytest.mark.slow
def test_gaussian_is_the_difference_of_two_divergences() -> None:
    model, row, key = linear_model(), nothing_known(linear_model()), jax.random.key(7)
    row = row._replace(
        cells=Cells(*[jnp.asarray([0.0, 0.0, 0.0, 1.3, 0.0])] * 3),
        mask=jnp.arange(LINEAR_COLUMNS) == 3,
    )
    # Of five cells, a target, and which of both are there: two means and two log variances.
    size = 2 * LINEAR_COLUMNS + 2
    rng = np.random.default_rng(0)
    weight, bias = 0.4 * rng.normal(size=(4, size)), 0.4 * rng.normal(size=4)
    network = linear(weight, bias)
    encoder = (Perceptron(network.layers[:1]), network.layers[1:])
    model = eqx.tree_at(lambda m: (m.encoder.first, m.encoder.heads), model, encoder)
    positions = rng.normal(size=(1, 100, 2))
    found = estimated([model], positions, "gaussian", row=row, key=key)
    own = jax.random.split(jax.random.split(key, 1)[0], 1)[0]
    at = as_float(positions[0])
    cells, targets = eqx.filter_jit(lambda model, key: pairs(model, row, at, key))(model, own)
    cells, targets = np.asarray(cells, np.float64), np.asarray(targets, np.float64)

    def law(x: dict[int, np.ndarray], y: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        inputs = np.zeros((100, size))
        for j, value in x.items():
            inputs[:, j], inputs[:, LINEAR_COLUMNS + j] = value, 1.0
        if y is not None:
            inputs[:, -2], inputs[:, -1] = y, 1.0
        told = inputs @ weight.T + bias
        return told[:, :2], np.exp(told[:, 2:])

    def divergence(
        p: tuple[np.ndarray, np.ndarray], q: tuple[np.ndarray, np.ndarray]
    ) -> np.ndarray:
        (m, v), (n, w) = p, q
        return 0.5 * (v / w + (m - n) ** 2 / w - 1 + np.log(w / v)).sum(1)

    for j in (0, 1, 2, 4):
        known, y = {3: np.full(100, 1.3)}, targets[:, j, 0]
        more = known | {j: cells[:, j]}
        each = divergence(law(more, None), law(known, None))
        each = each - divergence(law(more, y), law(known, y))
        assert found.raw[0, j] == pytest.approx(each.mean(), rel=1e-3, abs=1e-4)
        error = each.std(ddof=1) / 10
        assert found.error[0, j] == pytest.approx(error, rel=1e-2)


# How good the estimates are, and how much better than those of the paper.


def off(found: np.ndarray, exact: float) -> float:
    return float(np.sqrt(np.mean((found - exact) ** 2)))


@pytest.mark.slow
@pytest.mark.parametrize("name", informative())
def test_few_draws_know_more_than_many_in_a_histogram(name: str) -> None:
    model, rng = informative()[name], np.random.default_rng(0)
    exact = truth([model], 0)
    few = scores.settled(estimated([model], rng.normal(size=(100, 100, 1))))
    many = scores.settled(estimated([model], rng.normal(size=(100, 1000, 1)), "histogram"))
    factor = {"linear": 0.8, "quadratic": 0.35, "four classes": 1.25}[name]
    assert off(few.gain, exact) < factor * off(many.gain, exact)


@pytest.mark.slow
@pytest.mark.parametrize("name", TEN)
def test_the_best_of_ten_columns_is_found(name: str) -> None:
    model = ten_columns(TEN[name])
    exact = [truth([model], j) for j in range(10)]
    for count, least in ((50, 0.8), (200, 0.96)):
        positions = np.random.default_rng(0).normal(size=(50, count, 2))
        found = scores.settled(estimated([model], positions)).gain
        assert (found.argmax(1) == np.argmax(exact)).mean() >= least
