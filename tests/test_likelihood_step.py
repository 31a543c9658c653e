"""The third stage of `likelihood`: maximum likelihood, by chains that go on from step to step."""

import dataclasses
import functools
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from clinic_training import SMALL, assert_same
from jax.flatten_util import ravel_pytree
from jaxtyping import Float
from scipy.stats import multivariate_normal

from hhvaem import Imputer, train
from hhvaem.compiling import program
from hhvaem.encoding import Cells
from hhvaem.fitting import Fitted, fit, fit_many
from hhvaem.held_out import held_out_score, hold_out
from hhvaem.marginals import Direct
from hhvaem.model import Model, Row
from hhvaem.posterior import How
from hhvaem.preparing import Part, prepare
from hhvaem.presets import PRESETS, Plan
from hhvaem.schema import Column
from hhvaem.steps import ACCEPTANCE, FIRST_STEP, GAIN, _put, likelihood_step

LIKELIHOOD = dataclasses.replace(
    SMALL, inference="likelihood", steps=500, hmc_steps=300, learned_noise=True
)
SECOND, ROWS = LIKELIHOOD.second_stage, 300


# The gradient.

WEIGHTS = np.array([[0.9, -0.5, 0.3], [0.2, 0.7, -0.8]])
OFFSETS, LOG_NOISES = np.array([0.3, -0.2, 0.1]), np.log([0.6, 0.5, 0.8])
CELLS = np.array([1.5, -0.4, 0.9])
MASKS = np.array([[True, True, True], [True, False, True], [False, True, False]])
CHAINS = 2048


def log_evidence(parameters: np.ndarray, mask: np.ndarray) -> float:
    """Give log p(observed cells) of cells = position @ weights + offsets + noise."""
    weights, offsets, log_noises = np.split(parameters[:, mask], [2, 3])
    covariance = weights.T @ weights + np.diag(np.exp(2 * log_noises[0]))
    return float(multivariate_normal(offsets[0], covariance).logpdf(CELLS[mask]))


def slopes(parameters: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Differentiate it by finite differences."""
    small = 1e-5 * np.eye(parameters.size).reshape(-1, *parameters.shape)
    rise = [log_evidence(parameters + h, mask) - log_evidence(parameters - h, mask) for h in small]
    return np.reshape(rise, parameters.shape) / 2e-5


def exact_draws(mask: np.ndarray) -> np.ndarray:
    """Draw from the posterior of the position."""
    scaled = np.where(mask, WEIGHTS * np.exp(-2 * LOG_NOISES), 0.0)
    covariance = np.linalg.inv(np.eye(2) + scaled @ WEIGHTS.T)
    mean = covariance @ scaled @ (CELLS - OFFSETS)
    return np.random.default_rng(0).multivariate_normal(mean, covariance, CHAINS)


def test_the_gradient_is_that_of_the_likelihood() -> None:
    """Of a linear model with normal noise, with chains that start right, and far off.

    A rectifier of a number and one of its opposite make a linear network; Adam's first moment
    tells the gradient.
    """
    key, parameters = jax.random.key(0), np.vstack([WEIGHTS, OFFSETS, LOG_NOISES])
    settings = dataclasses.replace(LIKELIHOOD, batch_size=CHAINS, transitions=12, leapfrog=5)
    both, weights = np.hstack([np.eye(2), -np.eye(2)]), np.vstack([WEIGHTS, -WEIGHTS])
    model = Model.init(Direct((1,) * 3, jnp.zeros(3)), None, (2,), hidden=4, key=key)
    model = eqx.tree_at(
        lambda m: [*jax.tree.leaves(m.decoder), m.log_noise],
        model,
        [jnp.asarray(a, jnp.float32) for a in (both, np.zeros(4), weights, OFFSETS, LOG_NOISES)],
    )
    state = train.init(model, settings, key=key)

    def gradient(mask: jax.Array, positions: jax.Array) -> jax.Array:
        cells, none = (
            jnp.broadcast_to(CELLS.astype(np.float32), (CHAINS, 3)),
            jnp.zeros((CHAINS, 0)),
        )
        row = Row(Cells(*[cells] * 3), jnp.broadcast_to(mask, (CHAINS, 3)), Cells(*[none] * 3),
                  none.astype(bool))  # fmt: skip
        data = train.Data(row, jnp.array(CHAINS))
        after, _ = likelihood_step(state._replace(positions=positions), data, settings)
        moment = optax.tree_utils.tree_get(after.moments["generative"], "mu") / 0.1
        decoder, log_noise = ravel_pytree((model.decoder, model.log_noise))[1](-moment)
        by_weight, by_offset = jax.tree.leaves(decoder.layers[1])
        return jnp.vstack([by_weight[:2] - by_weight[2:], by_offset[None], log_noise[None]])

    starts = [*map(exact_draws, MASKS), *np.full((3, CHAINS, 2), 4.0)]
    found = program(jax.vmap(gradient))(np.tile(MASKS, (2, 1)), np.array(starts, np.float32))
    expected = [slopes(parameters, mask) for mask in MASKS]
    np.testing.assert_allclose(found, expected * 2, atol=0.08)
    assert np.abs(expected).max() > 1


# Positions, and what is trained: two models of four columns and a target, by one program.


@functools.cache
def rows() -> Row:
    """Make numbers of two factors, with holes."""
    rng = np.random.default_rng(0)
    factors, loadings = rng.normal(size=(ROWS, 2)), rng.normal(size=(2, 5))
    values = (factors @ loadings + 0.5 * rng.normal(size=(ROWS, 5))).astype(np.float32)
    mask = rng.random((ROWS, 5)) > 0.2
    x, y = values[:, :4], values[:, 4:]
    return Row(Cells(x, x, x), mask[:, :4], Cells(y, y, y), mask[:, 4:])


def data_of(weights: Float[np.ndarray, " rows"] | None = None) -> train.Data:
    """Give the rows to two models, drawn by weights."""
    return train.gather([rows()] * 2, weights=[np.ones(ROWS) if weights is None else weights] * 2)


def start() -> train.State:
    """Start two models at the third stage: the program of the second is not needed then."""
    columns = (Direct((1,) * 4, jnp.zeros(4)), Direct((1,), jnp.zeros(1)))
    columns = jax.tree.map(lambda leaf: jnp.stack([leaf] * 2), columns)
    keys = jax.random.split(jax.random.key(0), 2)
    states = train.untrained(columns, (2, 1), LIKELIHOOD, hidden=8, keys=keys)
    return at_third_stage(states)


def at_third_stage(states: train.State) -> train.State:
    return states._replace(step=jnp.full_like(states.step, SECOND))


def only(*numbers: int) -> train.Data:
    """Let these rows be drawn and no others."""
    return data_of(np.isin(np.arange(ROWS), numbers).astype(float))


def steps(
    states: train.State, data: train.Data, count: int = 1
) -> tuple[train.State, train.History]:
    return train.train(states, data, LIKELIHOOD, until=int(states.step[0]) + count)


def begun(states: train.State) -> list[list[int]]:
    """Say which rows of each model have a chain; a position is there whole or not at all."""
    nan = np.isnan(np.asarray(states.positions))
    assert (nan.any(2) == nan.all(2)).all()
    return [np.flatnonzero(~one[:, 0]).tolist() for one in nan]


def with_step_size(states: train.State, size: float) -> train.State:
    log_steps = jnp.full_like(states.sampler.log_steps, np.log(size))
    return states._replace(sampler=states.sampler._replace(log_steps=log_steps))


def test_no_chain_begins_before_its_row_is_drawn() -> None:
    states, _ = steps(start(), data_of(), 0)
    assert states.positions.shape == (2, len(data_of().table.mask[0]), 3)
    assert begun(states) == [[], []]


@pytest.mark.slow
def test_rows_that_are_drawn_move_and_others_stay() -> None:
    first, _ = steps(start(), only(3, 7))
    assert begun(first) == [[3, 7]] * 2
    second, _ = steps(first, only(7, 11))
    assert begun(second) == [[3, 7, 11]] * 2
    before, after = np.asarray(first.positions), np.asarray(second.positions)
    np.testing.assert_array_equal(after[:, 3], before[:, 3])
    assert (after[:, 7] != before[:, 7]).any(1).all()
    everywhere, _ = steps(second, data_of())
    for numbers in begun(everywhere):
        assert 20 < len(numbers) <= 3 + LIKELIHOOD.batch_size
        assert max(numbers) < ROWS


def test_a_chain_goes_on_from_where_it_was() -> None:
    """With steps too small to move, though the encoder has learned in between."""
    states = with_step_size(start(), 1e-6)
    first, _ = steps(states, only(3, 7))
    second, _ = steps(first, only(3, 7), 20)
    before, after = (np.asarray(s.positions)[:, [3, 7]] for s in (first, second))
    np.testing.assert_allclose(after, before, atol=1e-4)
    # Each chain has a start of its own.
    assert np.abs(before[:, 0] - before[:, 1]).max() > 0.1


@pytest.mark.parametrize("models", [None, 3])
def test_of_a_row_drawn_twice_the_last_end_is_kept(models: int | None) -> None:
    rng = np.random.default_rng(0)
    shape = () if models is None else (models,)
    numbers = rng.integers(0, 9, (*shape, 40))
    positions = rng.normal(size=(*shape, 20, 3)).astype(np.float32)
    ends = rng.normal(size=(*shape, 40, 3)).astype(np.float32)
    put = _put if models is None else jax.vmap(_put)
    found = jax.jit(put)(positions, numbers, ends)
    expected = positions.reshape(-1, 20, 3).copy()
    for rows, row_numbers, row_ends in zip(
        expected, numbers.reshape(-1, 40), ends.reshape(-1, 40, 3), strict=True
    ):
        for number, end in zip(row_numbers, row_ends, strict=True):
            rows[number] = end
    np.testing.assert_array_equal(np.asarray(found).reshape(-1, 20, 3), expected)


def largest_changes(before: Model, after: Model) -> dict[str, float]:
    """Give the largest change of a weight, of the model in which it is smallest."""
    changes = {}
    for name in vars(before):
        pairs = zip(jax.tree.leaves(getattr(before, name)), jax.tree.leaves(getattr(after, name)),
                    strict=True)  # fmt: skip
        each = [np.abs(np.asarray(a) - np.asarray(b)).reshape(2, -1).max(1) for a, b in pairs]
        changes[name] = float(np.max(each, axis=0).min())
    return changes


@pytest.mark.slow
@pytest.mark.parametrize("third_stage", [False, True])
def test_a_pull_of_noises_costs_half_their_squares(third_stage: bool) -> None:
    """Of two models with the same key, the one that is pulled to a noise of 1 comes nearer."""
    states = start()
    states = jax.tree.map(
        lambda leaf: leaf[jnp.array([0, 0])] if eqx.is_array(leaf) else leaf, states
    )
    states = states if third_stage else states._replace(step=jnp.zeros_like(states.step))
    pulled = data_of()._replace(noise_pull=jnp.array([0.0, 3.0]))
    after, told = steps(states, pulled)
    model = states.model
    squares = sum(
        float((noise[0] ** 2).sum()) for noise in (model.log_noise, model.target_log_noise)
    )
    # The encoder and the target's noise learn before the loss of the third stage is taken.
    np.testing.assert_allclose(told.loss[1] - told.loss[0], 1.5 * squares, rtol=0.01)
    later, _ = steps(after, pulled, 99)
    for noise in (later.model.log_noise, later.model.target_log_noise):
        free, drawn = np.abs(np.asarray(noise))
        assert (drawn < free - 0.01).all()


GENERATIVE = {"hierarchy", "decoder", "log_noise"}
ON_THE_BOUND = {"encoder", "predictor", "target_log_noise"}


def test_generative_networks_learn_at_a_rate_that_falls_to_nothing() -> None:
    """What learns on the bound goes on: only the encoder, the predictor and its noise do."""
    states = start()
    first, _ = steps(states, data_of())
    changes = largest_changes(states.model, first.model)
    assert set(changes) == GENERATIVE | ON_THE_BOUND | {"marginals", "targets"}
    assert changes["marginals"] == changes["targets"] == 0
    for name in GENERATIVE | ON_THE_BOUND:
        # Adam's first step is as long as the learning rate.
        np.testing.assert_allclose(changes[name], LIKELIHOOD.learning_rate, rtol=0.02)
    last, _ = steps(first, data_of(), LIKELIHOOD.hmc_steps - 1)
    more, _ = steps(at_third_stage(last), data_of(), 5)
    changes = largest_changes(last.model, more.model)
    assert {name for name, change in changes.items() if change > 0} == ON_THE_BOUND


@pytest.mark.parametrize("size", [0.05, 20.0])
def test_step_sizes_come_to_an_acceptance_of_four_in_five(size: float) -> None:
    states, told = with_step_size(start(), size), []
    for _ in range(3):
        before = states.sampler.log_steps
        states, history = steps(states, data_of(), LIKELIHOOD.hmc_steps)
        moved = GAIN * (history.acceptance - ACCEPTANCE).sum(1)
        np.testing.assert_allclose(
            states.sampler.log_steps - before, np.broadcast_to(moved[:, None, None], before.shape),
            atol=1e-3,
        )  # fmt: skip
        told.append(history.acceptance)
        states = at_third_stage(states)
    assert (np.abs(told[0][:, :10].mean(1) - ACCEPTANCE) > 0.15).all()
    np.testing.assert_allclose(told[-1].mean(1), ACCEPTANCE, atol=0.02)


def test_all_steps_start_with_one_size() -> None:
    np.testing.assert_allclose(jnp.exp(start().sampler.log_steps), FIRST_STEP, rtol=1e-6)


# Snapshots and early stopping.


@functools.cache
def whole() -> tuple[train.State, train.History]:
    return train.train(start(), data_of(), LIKELIHOOD)


def test_in_pieces_it_is_the_same_to_the_bit(tmp_path: Path) -> None:
    """From the states returned, and from snapshots."""
    states, losses = start(), []
    for until in (201, 337, 400, 500):
        states, history = train.train(states, data_of(), LIKELIHOOD, until=until)
        losses.append(history.loss)
        again = train.train(start(), data_of(), LIKELIHOOD, until=until, snapshots=tmp_path)
        assert_same(again[0], states)
    assert_same((states, np.concatenate(losses, 1)), (whole()[0], whole()[1].loss))
    assert_same(again, whole())


def test_interrupted_it_goes_on(tmp_path: Path) -> None:
    def interrupt(told: train.Progress) -> None:
        if told.step == SECOND + 100:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train.train(start(), data_of(), LIKELIHOOD, progress=interrupt, snapshots=tmp_path)
    told: list[train.Progress] = []
    again = train.train(start(), data_of(), LIKELIHOOD, progress=told.append, snapshots=tmp_path)
    assert [(each.stage, each.step) for each in told] == [(3, 400), (3, 500)]
    assert_same(again, whole())


@pytest.mark.slow
@pytest.mark.parametrize("drawn", [3, 8])
def test_stopping_early_gives_the_best_models_and_their_chains(drawn: int) -> None:
    """Few rows are drawn: what is learned of them soon harms the others."""
    data, held = hold_out(only(*range(drawn)), 0.2, key=jax.random.key(0))
    patient = dataclasses.replace(LIKELIHOOD, patience=100)
    found, history = train.train(start(), data, patient, held=held)
    after = [start()]
    for _ in range(3):
        after.append(steps(after[-1], data, 100)[0])
    scores = np.stack([held_out_score(each.model, data, held) for each in after[1:]])
    # The first that is not better ends the stage of a model.
    best = [int(np.flatnonzero(np.diff(score, append=-np.inf) <= 0)[0]) for score in scores.T]
    expected = train.stack([train.unstack(after[1 + k], i) for i, k in enumerate(best)])
    assert_same(found, expected._replace(step=jnp.full(2, LIKELIHOOD.steps)))
    assert history.loss.shape == (2, 100 * min(max(best) + 2, 3))
    assert min(best) < 2


@pytest.mark.slow
def test_both_stages_in_pieces_are_the_same_to_the_bit(tmp_path: Path) -> None:
    from_the_start = start()._replace(step=jnp.zeros(2, jnp.int32))
    expected = train.train(from_the_start, data_of(), LIKELIHOOD)
    assert expected[1].loss.shape == (2, LIKELIHOOD.steps)
    for until in (150, 201, 337, 500):
        found = train.train(from_the_start, data_of(), LIKELIHOOD, until=until, snapshots=tmp_path)
        assert begun(found[0]) == [[], []] or until > SECOND
    assert_same(found, expected)


# Fits of tables.

COLUMNS = tuple(Column(name, "real") for name in "abc")
CORRELATIONS = np.array([[1.0, 0.8, 0.5], [0.8, 1.0, 0.6], [0.5, 0.6, 1.0]])
PAIRS = ((0, 1), (0, 2), (1, 2))


def normal_table(rows: int, signs: tuple[int, int, int] = (1, 1, 1), mean: float = 0.0) -> Part:
    """Make correlated normal columns of which 30 % is missing."""
    rng = np.random.default_rng(0)
    values = mean + rng.multivariate_normal(np.zeros(3), CORRELATIONS, rows) * signs
    return Part(COLUMNS, values, rng.random((rows, 3)) > 0.3)


def correlations(table: Part) -> np.ndarray:
    """Correlate each pair of columns over the rows that show both."""
    both = [(i, j, table.mask[:, i] & table.mask[:, j]) for i, j in PAIRS]
    return np.array(
        [np.corrcoef(table.values[rows, i], table.values[rows, j])[0, 1] for i, j, rows in both]
    )


def from_the_prior(fitted: Fitted, rows: int = 1000) -> Part:
    """Draw rows of which nothing is known."""
    empty = np.zeros((rows, 3))
    parts = fitted.cases(empty, empty > 0, How("hmc", chains=20, kept=1, transitions=5, leapfrog=3))
    values = np.concatenate([cells.reshape(-1, 3) for _, cells, _ in parts])
    return Part(COLUMNS, values, np.ones(values.shape, bool))


def plan(members: int = 1, **settings: Any) -> Plan:
    fast = PRESETS["fast"]
    return dataclasses.replace(
        fast,
        layers=(3,),
        hidden=16,
        members=members,
        settings=dataclasses.replace(fast.settings, **settings),
    )


@pytest.mark.slow
def test_correlations_come_out_as_they_are_in_the_table() -> None:
    """The bound of one draw, which is the ELBO, makes them smaller."""
    tables = [normal_table(2000), normal_table(2000, (1, -1, 1), mean=5.0)]
    steps = {"steps": 1500, "importance_samples": 1}
    likelihood = plan(inference="likelihood", hmc_steps=1000, transitions=3, **steps)
    by_likelihood = fit_many([prepare(table, None, likelihood) for table in tables], likelihood)
    by_bound = fit(tables[0], None, plan(inference="importance", **steps))
    for table, fitted in zip(tables, by_likelihood, strict=True):
        drawn = from_the_prior(fitted)
        error = np.abs(correlations(drawn) - correlations(table))
        assert error[0] < 0.04
        # A smaller correlation is known less well.
        assert error.max() < 0.06
        np.testing.assert_allclose(drawn.values.mean(0), table.values.mean(0), atol=0.1)
    short = correlations(tables[0]) - correlations(from_the_prior(by_bound))
    assert short[0] > 0.08


@pytest.mark.slow
def test_tables_fitted_at_once_have_models_of_their_own() -> None:
    one, other = normal_table(400), normal_table(400, (1, -1, 1), mean=50.0)
    two = plan(members=2)
    both = fit_many([prepare(table, None, two) for table in (one, other)], two, seed=3)
    for table, fitted in zip((one, other), both, strict=True):
        assert fitted.members == 2
        assert fitted.models.log_noise.shape == (2, 4)
        assert fitted.tuned.log_step.shape == (2,)
        assert [len(told) for told in (fitted.record["loss"], fitted.record["gain_per_hidden_cell"])
                ] == [2, 2]  # fmt: skip
        drawn = from_the_prior(fitted)
        np.testing.assert_allclose(drawn.values.mean(0), table.values.mean(0), atol=0.2)
        np.testing.assert_array_equal(np.sign(correlations(drawn)), np.sign(correlations(table)))
    # What is beside a table does not matter to it.
    again = fit_many([prepare(one, None, two)] * 2, two, seed=3)
    assert_same(again[0].models, both[0].models)
    assert again[0].record == both[0].record
    # Nor do two fits of one table see it by the same weights, or start alike.
    assert again[1].record != again[0].record


@pytest.mark.slow
def test_one_table_is_fitted_as_one_of_many() -> None:
    table = normal_table(400)
    imputer = Imputer(preset="fast", members=2, random_state=0)
    imputer.fit(np.where(table.mask, table.values, np.nan))
    alone = imputer.fitted_
    assert imputer.members_ == alone.members == 2
    part = Part(imputer.schema_.modelled, table.values, table.mask)
    two = dataclasses.replace(PRESETS["fast"], members=2)
    [same] = fit_many([prepare(part, None, two)], two, seed=alone.seed)
    assert_same((same.models, same.tuned), (alone.models, alone.tuned))
    assert same.record == alone.record
    assert fit(part, None, two, seed=alone.seed + 1).record != alone.record
    weight = np.asarray(alone.models.decoder.layers[0].weight)
    assert (weight[0] != weight[1]).all()


def test_the_default_has_five_members_by_likelihood() -> None:
    default = PRESETS["default"]
    assert (default.members, default.settings.inference) == (5, "likelihood")
    assert 0 < default.settings.second_stage < default.settings.steps
