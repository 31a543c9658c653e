"""Draws, laws and likelihoods of rows, where all answers are known: a linear model."""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from targets import LinearGaussian, LinearModel

from hhvaem import posterior, train
from hhvaem.encoding import Encoding
from hhvaem.fitting import row_keys
from hhvaem.likelihoods import Ordered
from hhvaem.model import Model, Row
from hhvaem.objectives import Sampler
from hhvaem.posterior import How, Tuned
from hhvaem.predictive import Predictive, Scales
from hhvaem.sampling import tuning
from hhvaem.warps import Affine

OBSERVED = np.array([1, 0, 1, 1, 0, 1], bool)
SIZE, COLUMNS = LinearModel.size, OBSERVED.size
# The same row many times, and as many rows with nothing observed; two models.
TIMES, MEMBERS = 48, 2
FACTORS = (1.0, 3.0)
LONG = How("hmc", chains=32, kept=1, transitions=25, leapfrog=5)
ANNEALED = How("hmc", chains=16, transitions=40, leapfrog=5)


class Known:
    """Two models of the same row that differ in their noise, and what is true of each."""

    def __init__(self) -> None:
        known = LinearModel(OBSERVED, target_observed=False)
        self.x, self.mask = known.x, known.mask
        self.answers = [
            replace(known.answer, noise_variance=known.answer.noise_variance * factor)
            for factor in FACTORS
        ]
        # What is expected of the target depends on what is observed.
        nothing = LinearModel(OBSERVED & False, target_observed=False).answer
        self.empty = [
            replace(nothing, noise_variance=nothing.noise_variance * factor) for factor in FACTORS
        ]
        # Encoders that are off, so that there is a way to go.
        models = [self._model(known, answer) for answer in self.answers]
        self.models = stacked(models)
        self.rows = batch(known.seen.row)
        self.keys = jax.random.split(jax.random.key(0), 2 * TIMES)
        some = jax.tree.map(lambda leaf: leaf[:TIMES], self.rows)
        self.data = train.gather([some] * MEMBERS)

    def _model(self, known: LinearModel, answer: LinearGaussian) -> Model:
        mean, covariance = answer.posterior(self.x, self.mask)
        model = known.with_encoder(mean + 0.3, 1.3 * np.sqrt(np.diag(covariance)))
        log_noise = jnp.asarray(0.5 * np.log(answer.noise_variance), jnp.float32)
        return eqx.tree_at(
            lambda m: (m.log_noise, m.target_log_noise), model, (log_noise[:-1], log_noise[-1:])
        )

    def posterior(self, member: int) -> tuple[np.ndarray, np.ndarray]:
        return self.answers[member].posterior(self.x, self.mask)

    def cells(self, member: int, *, empty: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance of new cells and target of the row, or of one without a cell."""
        answer = (self.empty if empty else self.answers)[member]
        mean, covariance = (np.zeros(SIZE), np.eye(SIZE)) if empty else self.posterior(member)
        spread = answer.weights @ covariance @ answer.weights.T + np.diag(answer.noise_variance)
        return answer.weights @ mean + answer.offset, spread


def stacked(models: list[Model]) -> Model:
    arrays = [eqx.partition(model, eqx.is_array)[0] for model in models]
    rest = eqx.partition(models[0], eqx.is_array)[1]
    return eqx.combine(jax.tree.map(lambda *leaves: jnp.stack(leaves), *arrays), rest)


def batch(row: Row) -> Row:
    rows = jax.tree.map(lambda leaf: jnp.stack([leaf] * (2 * TIMES)), row)
    some = np.arange(2 * TIMES) < TIMES
    return rows._replace(mask=rows.mask & some[:, None])


@pytest.fixture(scope="module")
def known() -> Known:
    return Known()


@pytest.fixture(scope="module")
def tuned(known: Known) -> Tuned:
    return posterior.tune(known.models, known.data, jax.random.split(jax.random.key(1), MEMBERS))


@pytest.fixture(scope="module")
def drawn(known: Known, tuned: Tuned) -> posterior.Draws:
    return posterior.draws(known.models, tuned, known.rows, known.keys, LONG)


def assert_independent(draws: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> None:
    """Fail unless draws are independent and normal with this mean and covariance."""
    count, size = draws.shape
    standard = np.linalg.solve(np.linalg.cholesky(covariance), (draws - mean).T)
    assert stats.chi2.sf(count * (standard.mean(1) ** 2).sum(), size) > 1e-4
    errors = (np.cov(standard) - np.eye(size)) * np.sqrt(count / (1 + np.eye(size)))
    assert np.abs(errors).max() < 4.5


def assert_moments(draws: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> None:
    """Fail unless rows, of which each has draws of its own, agree about mean and covariance."""
    off = draws - mean
    squares = off[..., :, None] * off[..., None, :] - covariance
    for found in (off.mean(1), squares.reshape(*draws.shape[:2], -1).mean(1)):
        error = found.std(0, ddof=1) / np.sqrt(len(found))
        assert np.abs(found.mean(0) / error).max() < 4.5


@pytest.mark.parametrize("member", range(MEMBERS))
def test_chains_find_the_posterior(known: Known, drawn: posterior.Draws, member: int) -> None:
    ends = np.asarray(drawn.positions, float)[member, :TIMES, :, -1]
    assert_independent(ends.reshape(-1, SIZE), *known.posterior(member))
    # The two members differ, and neither has the other's.
    with pytest.raises(AssertionError):
        assert_independent(ends.reshape(-1, SIZE), *known.posterior(1 - member))


@pytest.mark.parametrize("member", range(MEMBERS))
@pytest.mark.parametrize("name", ["hmc", "encoder", "importance"])
def test_a_row_without_a_cell_has_the_prior(
    known: Known, tuned: Tuned, drawn: posterior.Draws, name: posterior.Posterior, member: int
) -> None:
    if name != "hmc":
        drawn = posterior.draws(
            known.models, tuned, known.rows, known.keys, replace(LONG, posterior=name)
        )
    ends = np.asarray(drawn.positions, float)[member, TIMES:]
    assert_independent(ends.reshape(-1, SIZE), np.zeros(SIZE), np.eye(SIZE))


@pytest.mark.parametrize("member", range(MEMBERS))
def test_importance_weights_find_the_posterior(known: Known, tuned: Tuned, member: int) -> None:
    how = How("importance", chains=50, kept=2)
    drawn = posterior.draws(known.models, tuned, known.rows, known.keys, how)
    positions = np.asarray(drawn.positions, float)[member, :TIMES].reshape(TIMES, -1, SIZE)
    assert_moments(positions, *known.posterior(member))
    assert np.isnan(drawn.acceptance).all()


def test_encoder_draws_are_those_of_the_encoder(known: Known, tuned: Tuned) -> None:
    how = replace(LONG, posterior="encoder")
    drawn = posterior.draws(known.models, tuned, known.rows, known.keys, how)
    positions = np.asarray(drawn.positions, float)[0, :TIMES].reshape(-1, SIZE)
    mean, covariance = known.posterior(0)
    assert_independent(positions, mean + 0.3, np.diag(1.3**2 * np.diag(covariance)))


@pytest.mark.slow
def test_learned_steps_find_the_posterior_too(known: Known) -> None:
    log_steps = tuning.initial_log_steps(jax.random.key(2), 40, SIZE)
    one = Sampler(log_steps, jnp.log(jnp.array([1.2, 0.8])))
    learned = jax.tree.map(lambda leaf: jnp.stack([leaf] * MEMBERS), one)
    drawn = posterior.draws(known.models, learned, known.rows, known.keys, LONG)
    ends = np.asarray(drawn.positions, float)[0, :TIMES, :, -1]
    assert_independent(ends.reshape(-1, SIZE), *known.posterior(0))


def test_the_step_size_is_accepted_as_often_as_wanted(drawn: posterior.Draws, tuned: Tuned) -> None:
    assert tuned.log_step.shape == (MEMBERS,)
    assert drawn.acceptance[:, :TIMES].mean(1) == pytest.approx(np.full(MEMBERS, 0.8), abs=0.05)
    assert (drawn.divergent[:, :TIMES] < 0.01).all()


def test_laws_are_those_of_hidden_cells_and_target(known: Known, drawn: posterior.Draws) -> None:
    laws = posterior.laws(known.models, known.rows, drawn.positions)
    scales = Scales(
        Encoding((Ordered(Affine(0.0, 1.0)),) * (COLUMNS + 1)),
        np.stack([0.5 * np.log(answer.noise_variance) for answer in known.answers]),
    )
    components = np.concatenate([laws.cells, laws.target], axis=3)
    for part, empty in ((slice(None, TIMES), False), (slice(TIMES, None), True)):
        for member in range(MEMBERS):
            mean, covariance = known.cells(member, empty=empty)
            noise = known.answers[member].noise_variance
            assert_moments(
                components[member, part].astype(float), mean, covariance - np.diag(noise)
            )
        # Of both members in equal parts.
        law = Predictive(scales, components[:, part])
        both = [known.cells(member, empty=empty) for member in range(MEMBERS)]
        for column in np.flatnonzero(~OBSERVED).tolist():
            mean = np.mean([m[column] for m, _ in both])
            exact = [stats.norm(m[column], np.sqrt(s[column, column])) for m, s in both]
            found = law.mean(column, np.arange(TIMES))
            assert abs(found.mean() - mean) < 4.5 * found.std() / np.sqrt(TIMES)
            at = np.full(TIMES, mean + 0.5)
            rank = law.ranks(column, np.arange(TIMES), at)[0]
            expected = np.mean([each.cdf(at[0]) for each in exact])
            assert abs(rank.mean() - expected) < 4.5 * rank.std() / np.sqrt(TIMES)


@pytest.mark.parametrize("member", range(MEMBERS))
def test_cases_are_joint_draws_of_cells_and_target(
    known: Known, drawn: posterior.Draws, member: int
) -> None:
    cases = posterior.cases(known.models, known.rows, drawn.positions, known.keys)
    cells = np.concatenate([cases.cells, cases.target], axis=3).astype(float)[member]
    for part, empty in ((cells[:TIMES], False), (cells[TIMES:], True)):
        assert_independent(part.reshape(-1, COLUMNS + 1), *known.cells(member, empty=empty))


def test_the_evidence_of_observed_cells(known: Known, tuned: Tuned) -> None:
    found = posterior.evidence(known.models, tuned, known.rows, known.keys, ANNEALED)
    value, error = (np.asarray(part, float) for part in found)
    for member, answer in enumerate(known.answers):
        off = value[member, :TIMES] - answer.log_evidence(known.x, known.mask)
        assert error[member, :TIMES].max() < 0.6
        assert np.abs(off).max() < 4.5 * error[member, :TIMES].max()
        # Weights are unbiased, and the error says how far they are off.
        weight = np.exp(off)
        assert abs(weight.mean() - 1) < 4.5 * weight.std() / np.sqrt(TIMES)
        assert 0.7 < (off / error[member, :TIMES]).std() < 1.4
    assert (value[:, TIMES:] == 0).all()
    assert (error[:, TIMES:] == 0).all()


def everything(known: Known, tuned: Tuned, rows: Row) -> list[Any]:
    drawn = posterior.draws(known.models, tuned, rows, known.keys, LONG)
    return [
        drawn,
        posterior.laws(known.models, rows, drawn.positions),
        posterior.cases(known.models, rows, drawn.positions, known.keys),
        posterior.evidence(known.models, tuned, rows, known.keys, ANNEALED),
    ]


def test_what_is_hidden_is_never_read(known: Known, tuned: Tuned) -> None:
    def other(part: jax.Array, mask: jax.Array) -> jax.Array:
        return jnp.where(mask, part, 99.0)

    rows = known.rows
    changed = rows._replace(
        cells=jax.tree.map(lambda part: other(part, rows.mask), rows.cells),
        target=jax.tree.map(lambda part: other(part, rows.target_mask), rows.target),
    )
    before, after = (jax.tree.leaves(everything(known, tuned, each)) for each in (rows, changed))
    for one, two in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, two)


def test_the_step_size_is_found_without_the_target(known: Known, tuned: Tuned) -> None:
    # At test time there is none, and an encoder that had read it would be another one.
    table = known.data.table
    observed = known.data._replace(
        table=table._replace(target_mask=jnp.ones_like(table.target_mask))
    )
    models = eqx.tree_at(lambda m: m.encoder, known.models, reading_encoder(known))
    keys = jax.random.split(jax.random.key(1), MEMBERS)
    one, two = (posterior.tune(models, data, keys) for data in (known.data, observed))
    np.testing.assert_array_equal(one.log_step, two.log_step)


def reading_encoder(known: Known) -> Any:
    """An encoder that says something of every input."""
    noise = jax.random.key(3)
    return jax.tree.map(
        lambda leaf: leaf + 0.1 * jax.random.normal(noise, leaf.shape), known.models.encoder
    )


@pytest.mark.slow
def test_superchains_share_a_start_and_rhat_tells(known: Known, tuned: Tuned) -> None:
    groups = 4

    def ends(log_step: jax.Array) -> tuple[posterior.Draws, np.ndarray]:
        how = replace(LONG, superchains=groups)
        drawn = posterior.draws(known.models, Tuned(log_step), known.rows, known.keys, how)
        return drawn, np.asarray(posterior.worst_rhat(drawn.positions, groups))

    still, _ = ends(jnp.full(MEMBERS, -30.0))
    grouped = np.asarray(still.positions)[:, :TIMES, :, -1].reshape(
        MEMBERS, TIMES, groups, -1, SIZE
    )
    np.testing.assert_allclose(grouped, grouped[:, :, :, :1].repeat(8, 3), atol=1e-5)
    assert (grouped[:, :, :, 0].std(2) > 1e-3).all()
    assert still.movement[:, :TIMES].max() < 1e-3
    _, short = ends(tuned.log_step - 4.0)
    moved, long = ends(tuned.log_step)
    # Of five directions the worst, with 8 chains in each of four groups.
    assert np.median(long[:, :TIMES]) < 1.2 < np.median(short[:, :TIMES]) - 0.3
    # As far as between a start and an independent draw of the posterior.
    mean, covariance = known.posterior(0)
    scale = 1.3 * np.sqrt(np.diag(covariance))
    rng = np.random.default_rng(0)
    way = mean + 0.3 + scale * rng.normal(size=(20_000, SIZE))
    way -= rng.multivariate_normal(mean, covariance, 20_000)
    expected = np.sqrt(((way / scale) ** 2).mean(1)).mean()
    assert moved.movement[0, :TIMES].mean() == pytest.approx(expected, rel=0.03)


def test_rhat_by_its_definition() -> None:
    rng = np.random.default_rng(0)
    positions = rng.normal(size=(1, 3, 20, 2, 4)).astype(np.float32)
    positions += np.repeat(rng.normal(size=(1, 3, 5, 1, 4)), 4, axis=2).astype(np.float32)
    found = posterior.worst_rhat(jnp.asarray(positions), 5)
    for row, value in zip(positions[0], found[0], strict=True):
        groups = row[:, -1].reshape(5, 4, 4)
        between, within = groups.mean(1).var(0, ddof=1), groups.var(1, ddof=1).mean(0)
        assert value == pytest.approx(np.sqrt(1 + between / within).max(), rel=1e-4)


def words(keys: jax.Array) -> list[tuple[int, ...]]:
    return [tuple(each) for each in np.asarray(jax.random.key_data(keys)).tolist()]


def test_keys_are_made_of_content_alone() -> None:
    rng = np.random.default_rng(0)
    values, mask = rng.normal(size=(500, 3)), rng.random((500, 3)) < 0.7
    values[0], mask[0] = [0.0, 1.0, 2.0], True
    found = words(row_keys(values, mask, seed=5))
    # What is hidden does not matter, nor the sign of zero, nor the other rows and their order.
    unseen = np.where(mask, values, np.nan)
    unseen[0, 0] = -0.0
    assert words(row_keys(unseen, mask, seed=5)) == found
    order = rng.permutation(500)
    assert words(row_keys(values[order], mask[order], seed=5)) == [found[i] for i in order]
    assert words(row_keys(values[7:8], mask[7:8], seed=5)) == found[7:8]
    # Everything else does.
    assert len(set(found)) == len(np.unique(np.where(mask, values, 0.5), axis=0))
    assert not set(words(row_keys(values, mask, seed=6))) & set(found)
    zero = row_keys(np.zeros((2, 1)), np.array([[True], [False]]), seed=5)
    assert words(zero)[0] != words(zero)[1]


def test_equal_rows_share_a_key_or_are_told_apart() -> None:
    values = np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0], [1.0, 2.0], [np.nan, np.nan]])
    values = np.concatenate([values, values[-1:]])
    mask = ~np.isnan(values)

    def keys(**options: Any) -> list[tuple[int, ...]]:
        return words(row_keys(values, mask, seed=0, **options))

    same = keys()
    assert same[0] == same[2] == same[3]
    assert same[4] == same[5]
    apart = keys(tell_apart=True)
    assert len(set(apart)) == 6
    # The number among equal rows counts, and neither the place nor other rows.
    moved = words(row_keys(values[[1, 0, 4]], mask[[1, 0, 4]], seed=0, tell_apart=True))
    assert moved == [apart[1], apart[0], apart[4]]
    later = keys(tell_apart=True, offset=1)
    assert later[0] == apart[2]
    assert later[4] == apart[5]
    assert later[5] not in apart
