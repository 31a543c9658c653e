"""What several cells tell together, and what is worth asking first because of what follows."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from known_information import (
    ONE,
    as_float,
    estimated,
    goals,
    made,
    normal_draws,
    nothing_known,
    plain,
    stacked,
)
from targets import linear, linear_layer

from hhvaem.acquire.information import Gains
from hhvaem.acquire.joint import Prospects, prospects, together
from hhvaem.acquire.lines import lines
from hhvaem.model import Model
from hhvaem.networks import Perceptron

# Two copies of h_1, h_2, what the predictor alone reads, and padding.
DOWN = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [0.0, 0.0]])
NOISE = np.array([0.1, 0.1, 0.5, 1.0, 1.0])
BY_H, BY_X, TARGET_NOISE = np.array([1.0, 0.5]), np.array([0.0, 0.0, 0.3, 0.5, 0.0]), 0.8
COLUMNS = len(DOWN)
COPIES, OTHERS, ALL = (0, 1), (0, 2), (0, 2, 3)
SETS = [(0,), (2,), (3,), (4,), COPIES, OTHERS, ALL, (0, 4)]


@cache
def model() -> Model:
    by_all = np.concatenate([BY_H, BY_X, np.zeros(COLUMNS)])
    return made(
        (1,) * COLUMNS,
        (1,),
        linear(DOWN, np.zeros(COLUMNS)),
        linear(by_all[None], np.zeros(1)),
        NOISE,
        TARGET_NOISE * ONE,
    )


def exact(chosen: tuple[int, ...]) -> float:
    """What a set tells, by algebra: y = through h + what is read of the set + noise."""
    some = list(chosen)
    by_x = np.where(np.isin(np.arange(COLUMNS), some), BY_X, 0.0)
    through = BY_H + (BY_X - by_x) @ DOWN
    # Of independent standard normals: two h, the noise of every cell, that of the target.
    cells = np.concatenate([DOWN, np.diag(NOISE), np.zeros((COLUMNS, 1))], axis=1)
    target = np.concatenate([through, np.zeros(COLUMNS), [TARGET_NOISE]]) + by_x @ cells
    own, both = cells[some] @ cells[some].T, cells[some] @ target
    explained = both @ np.linalg.solve(own, both)
    return float(-0.5 * np.log(1 - explained / (target @ target)))


@cache
def found() -> dict[tuple[int, ...], tuple[float, float]]:
    """What sets are said to tell, and the standard error of that."""
    several = stacked([model()])
    sets = np.array([np.isin(np.arange(COLUMNS), each) for each in SETS])
    at = np.random.default_rng(0).normal(size=(1, 600, 1, 2))
    said = together(
        several,
        nothing_known(model()),
        as_float(at),
        jax.random.key(0),
        jnp.asarray(sets),
        lines(plain((1,) * COLUMNS), COLUMNS),
        goals(several),
    )
    raw, null, error, _ = (np.asarray(part, np.float64) for part in said)
    return {
        each: (float(a - b), float(c)) for each, a, b, c in zip(SETS, raw, null, error, strict=True)
    }


@cache
def by_grid() -> Gains:
    return estimated([model()], np.random.default_rng(0).normal(size=(1, 600, 2)))


def test_sets_of_one_are_as_the_grid_says() -> None:
    for each in SETS[:4]:
        gain, error = found()[each]
        alone = float((by_grid().raw - by_grid().null)[0, each[0]])
        assert abs(gain - alone) < 3 * error + 0.03 * alone + 0.002


def test_sets_tell_what_they_do_by_algebra() -> None:
    for each in SETS:
        gain, error = found()[each]
        assert abs(gain - exact(each)) < 3 * error + 0.05 * exact(each) + 0.002, each


def test_a_copy_tells_hardly_more() -> None:
    one, copies, others = (found()[each][0] for each in ((0,), COPIES, OTHERS))
    assert exact(COPIES) - exact((0,)) < 0.01
    assert abs(copies - one) < 0.05 * one
    # Alone, a copy is worth far more than what a batch should take beside the first.
    assert exact((1,)) > 1.5 * exact((2,))
    assert others > copies + 0.05


def test_independent_cells_tell_more_than_their_sum() -> None:
    """What one explains is noise to the other as long as it is not known."""
    assert exact(OTHERS) > exact((0,)) + exact((2,))
    assert found()[OTHERS][0] > found()[(0,)][0] + found()[(2,)][0]
    assert found()[ALL][0] > found()[OTHERS][0] + 0.05


def test_padding_adds_nothing() -> None:
    assert abs(found()[(4,)][0]) < 1e-3
    np.testing.assert_allclose(found()[(0, 4)][0], found()[(0,)][0], rtol=1e-3)


# A column that decides which other one matters.

INDICATOR, FIRST, SECOND, NOTHING = 0, 1, 2, 3
FAR = 20.0
NOISE_OF_CHOSEN = 0.5


@cache
def choosing() -> Model:
    """y is the second column where the first is 1, and the third where it is 0."""
    decoder = linear(
        np.array([[40.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]), np.zeros(4)
    )
    # Three latents, four cells, four that say which are missing.
    units = np.zeros((4, 11))
    units[:, 3 + INDICATOR] = [FAR, FAR, -FAR, -FAR]
    units[:2, 3 + FIRST], units[2:, 3 + SECOND] = [1.0, -1.0], [1.0, -1.0]
    predictor = Perceptron(
        (
            linear_layer(units, np.array([-FAR, -FAR, 0.0, 0.0])),
            linear_layer(np.array([[1.0, -1.0, 1.0, -1.0]]), np.zeros(1)),
        )
    )
    noise = np.array([1.0, 0.3, 0.3, 1.0])
    return made((2, 1, 1, 1), (1,), decoder, predictor, noise, NOISE_OF_CHOSEN * ONE)


@cache
def foreseen() -> Prospects:
    several = stacked([choosing()])
    at = normal_draws(512, 3, seed=1)[None, :, None]
    said = prospects(
        several,
        nothing_known(choosing()),
        as_float(at),
        lines(plain((2, 1, 1, 1)), 4),
        goals(several),
    )
    return Prospects(*(np.asarray(part, np.float64) for part in said))


def test_an_indicator_is_worthless_alone() -> None:
    gains = estimated([choosing()], np.random.default_rng(0).normal(size=(1, 500, 3)))
    worth = (gains.raw - gains.null)[0]
    assert worth[INDICATOR] < 0.02
    assert worth[FIRST] > 0.1
    assert worth[SECOND] > 0.1


def test_an_indicator_is_worth_asking_first() -> None:
    said = foreseen()
    variance = 1 + 0.3**2
    # y = x + noise if the right one is asked.
    sure = 0.5 * np.log(1 + variance / NOISE_OF_CHOSEN**2)
    for answer, other, wrong in ((1, FIRST, SECOND), (0, SECOND, FIRST)):
        assert abs(said.chance[INDICATOR, answer] - 0.5) < 0.02
        after = said.then[INDICATOR, answer]
        # Eight parts of a line lose some of it.
        assert 0.75 * sure < after[other] < 1.02 * sure
        assert after[wrong] < 0.02
        assert after[NOTHING] < 0.02
    # A look at one step ahead is worth more with it first than with any other.
    value = [
        (said.chance[i, :, None] * said.then[i]).sum(0)[[j for j in range(4) if j != i]].max()
        for i in range(4)
    ]
    assert np.argmax(value) == INDICATOR
    assert value[INDICATOR] > value[NOTHING] + 0.2


def test_prospects_are_of_laws() -> None:
    said = foreseen()
    np.testing.assert_allclose(said.chance.sum(1), 1.0, atol=1e-4)
    # An answer that cannot be tells nothing, and spoils nothing.
    np.testing.assert_allclose(said.chance[INDICATOR, 2:], 0.0, atol=1e-6)
    assert np.isfinite(said.then).all()
    assert (said.then[INDICATOR, 2:] == 0).all()
    # Half of the draws are left by either answer, and all where they do not matter.
    np.testing.assert_allclose(said.effective[INDICATOR, :2], 256, rtol=0.1)
    likely = said.chance[NOTHING] > 0.01
    np.testing.assert_allclose(said.effective[NOTHING, likely], 512, rtol=1e-3)
