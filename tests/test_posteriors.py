"""Posteriors of whole models: where every answer is known, and where a table was learned."""

from functools import partial
from typing import NamedTuple

import blackjax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from targets import LinearModel

from hhvaem import train
from hhvaem.datasets import load
from hhvaem.datasets.splits import train_mask
from hhvaem.encoding import Cells, standardised_encoding
from hhvaem.inference import infer_schema
from hhvaem.marginal_vae import train_marginal_vaes
from hhvaem.marginals import Direct
from hhvaem.model import Model, Row, Seen
from hhvaem.objectives import (
    ChainNoise,
    Sampler,
    chain,
    chain_noise,
    elbo,
    importance_bound,
)
from hhvaem.sampling import annealing, diagnostics, hmc, stein, tuning
from hhvaem.schema import Column
from hhvaem.table import encode

OBSERVED = np.array([1, 0, 1, 1, 0, 1], bool)
LAYERS, SIZE = LinearModel.layers, LinearModel.size


@pytest.fixture(scope="module")
def known() -> LinearModel:
    return LinearModel(OBSERVED, target_observed=True)


@pytest.mark.parametrize("mask", [OBSERVED, ~OBSERVED, OBSERVED | True, OBSERVED & False])
@pytest.mark.parametrize("target_observed", [True, False])
def test_the_log_joint_of_a_linear_model(mask: np.ndarray, target_observed: bool) -> None:
    known = LinearModel(mask, target_observed)
    positions = jax.random.normal(jax.random.key(0), (5, SIZE))
    found = jax.jit(jax.vmap(known.log_joint))(positions)
    expected = [known.answer.log_joint(position, known.x, known.mask) for position in positions]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("sampler", ["default", "paper"])
def test_draws_have_the_means_and_covariances_of_a_linear_model(
    known: LinearModel, sampler: str
) -> None:
    mean, covariance = known.posterior()
    # An encoder that is off, so that there is a way to go.
    model = known.with_encoder(mean + 0.5, 2 * np.sqrt(np.diag(covariance)))
    count, transitions = 20_000, 60

    def default(key: jax.Array) -> jax.Array:
        law = model.encode(known.seen)
        groups = jnp.asarray(model.hierarchy.layer_of)
        density, back = tuning.whiten(
            lambda position: model.log_joint(position, known.seen, with_target=True),
            law.mean, law.log_scale, jnp.zeros(2), groups,
        )  # fmt: skip
        start_key, jitter_key, key = jax.random.split(key, 3)
        start = hmc.init(jax.random.normal(start_key, (SIZE,)), density)
        steps = tuning.jittered_steps(jitter_key, jnp.array(0.15), transitions, SIZE)
        return back(hmc.run(key, start, density, steps, 5)[0].position)

    def paper(key: jax.Array) -> jax.Array:
        log_steps = tuning.initial_log_steps(jax.random.key(1), transitions, SIZE)
        learned = Sampler(log_steps, jnp.log(jnp.array([1.2, 0.8])))
        noise = chain_noise(key, (), transitions, SIZE)
        return chain(model, learned, known.seen, noise, 5, with_target=True)[0].position

    draw = {"default": default, "paper": paper}[sampler]
    draws = np.asarray(jax.jit(jax.vmap(draw))(jax.random.split(jax.random.key(2), count)), float)
    # Standardised by the answer, draws are independent standard normals.
    standard = np.linalg.solve(np.linalg.cholesky(covariance), (draws - mean).T)
    assert stats.chi2.sf(count * (standard.mean(1) ** 2).sum(), SIZE) > 1e-4
    errors = (np.cov(standard) - np.eye(SIZE)) * np.sqrt(count / (1 + np.eye(SIZE)))
    assert np.abs(errors).max() < 4.5


def test_bounds_of_a_linear_model(known: LinearModel) -> None:
    mean, covariance = known.posterior()
    # As wide as the posterior is anywhere, so that weights have all moments.
    variance = np.full(SIZE, np.linalg.eigvalsh(covariance).max())
    off = np.full(SIZE, 0.2)
    model = known.with_encoder(mean + off, np.sqrt(variance))
    count, samples = 5000, 50
    noise = jax.random.normal(jax.random.key(0), (count, samples, SIZE))

    terms = jax.jit(jax.vmap(partial(elbo, model, known.seen)))(noise.reshape(-1, SIZE))
    # From the prior, by quadrature that is exact: integrands are of second order.
    nodes, weights = np.polynomial.hermite_e.hermegauss(3)
    places, weights = mean + off + nodes[:, None] * np.sqrt(variance), weights / weights.sum()
    log_ratio = stats.norm.logpdf(places, mean + off, np.sqrt(variance)) - stats.norm.logpdf(places)
    layers = np.add.reduceat(weights @ log_ratio, [0, LAYERS[0]])
    np.testing.assert_allclose(terms.divergence[0], layers, rtol=1e-4)

    bound = np.asarray(terms.log_likelihood - terms.divergence.sum(1), float)
    precision = np.linalg.inv(covariance)
    divergence = 0.5 * (
        np.diag(precision) @ variance
        - SIZE
        + off @ precision @ off
        - np.log(variance).sum()
        + np.linalg.slogdet(covariance)[1]
    )
    exact = known.evidence() - divergence
    assert abs(bound.mean() - exact) < 4 * bound.std() / np.sqrt(bound.size)

    bounds = jax.jit(jax.vmap(partial(importance_bound, model, known.seen)))(noise)
    estimate = annealing.log_mean_exp(bounds)
    assert estimate.error < 0.02
    assert abs(estimate.value - known.evidence()) < 4 * estimate.error
    error = bounds.std() / np.sqrt(count)
    assert exact < bounds.mean() - 4 * error < bounds.mean() + 4 * error < known.evidence()


def annealed(
    base: hmc.LogDensity, target: hmc.LogDensity, base_draws: jax.Array, target_draws: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Log weights from the base to the target, and back."""
    temperatures, steps = annealing.sigmoid_temperatures(200), 2
    keys = jax.random.split(jax.random.key(0), (2, len(base_draws)))

    @jax.jit
    def both(base_draws: jax.Array, target_draws: jax.Array) -> tuple[jax.Array, jax.Array]:
        pilots = base_draws[:100]
        sizes = annealing.tune_steps(
            jax.random.key(1), pilots, base, target, temperatures, jnp.log(0.3), steps
        )

        def weight(way, key: jax.Array, start: jax.Array) -> jax.Array:
            return way(key, start, base, target, temperatures, sizes, steps)[0].log_weight

        forward = jax.vmap(partial(weight, annealing.forward))(keys[0], base_draws)
        return forward, jax.vmap(partial(weight, annealing.reverse))(keys[1], target_draws)

    return both(base_draws, target_draws)


def exact_draws(known: LinearModel, count: int, seed: int) -> jax.Array:
    draws = np.random.default_rng(seed).multivariate_normal(*known.posterior(), count)
    return jnp.asarray(draws, jnp.float32)


def assert_brackets(forward: jax.Array, reverse: jax.Array, exact: float) -> None:
    lower, upper = annealing.log_mean_exp(forward), annealing.log_mean_exp(-reverse)
    assert max(lower.error, upper.error) < 0.05
    assert abs(lower.value - exact) < 4 * lower.error
    assert abs(-upper.value - exact) < 4 * upper.error


@pytest.mark.slow
def test_annealing_finds_the_evidence_of_a_linear_model(known: LinearModel) -> None:
    draws = exact_draws(known, 1000, 0)
    start = jax.random.normal(jax.random.key(2), (1000, SIZE))
    weights = annealed(annealing.standard_normal, known.log_joint, start, draws)
    assert_brackets(*weights, known.evidence())


@pytest.mark.slow
def test_annealing_finds_that_of_hidden_cells_given_observed_ones() -> None:
    # The target is left out: with other cells observed, its law is another one.
    some, everything = (
        LinearModel(mask, target_observed=False) for mask in (OBSERVED, OBSERVED | True)
    )
    np.testing.assert_array_equal(some.x[:-1], everything.x[:-1])
    weights = annealed(
        some.log_joint,
        everything.log_joint,
        exact_draws(some, 1000, 0),
        exact_draws(everything, 1000, 1),
    )
    assert_brackets(*weights, everything.evidence() - some.evidence())


def test_what_a_chain_is_differentiated_by(known: LinearModel) -> None:
    scale, inflation, transitions = 0.2, np.array([1.3, 0.8], np.float32), 8
    model = known.with_encoder(known.posterior()[0], np.full(SIZE, scale))
    learned = Sampler(jnp.full((transitions, SIZE), jnp.log(0.2)), jnp.log(inflation))
    noise = chain_noise(jax.random.key(3), (), transitions, SIZE)

    def end(model: Model, learned: Sampler) -> tuple[jax.Array, hmc.Info]:
        state, info = chain(model, learned, known.seen, noise, 3, with_target=True)
        return state.position, info

    slopes, info = jax.jit(jax.jacobian(partial(end, model), has_aux=True))(learned)
    # With constant forces, the end moves as the start does: by its distance from the mean.
    layers = model.hierarchy.layer_of
    distance = scale * inflation[layers] * np.asarray(noise.start)
    expected = np.where(layers[:, None] == np.arange(2), distance[:, None], 0)
    np.testing.assert_allclose(slopes.log_inflation, expected, rtol=1e-5)
    # The step of a transition matters where it was accepted, in its own dimension.
    assert 0 < info.accepted.mean() < 1
    own = np.asarray(slopes.log_steps)[np.arange(SIZE), :, np.arange(SIZE)]
    assert ((own != 0) == np.asarray(info.accepted)).all()
    assert np.count_nonzero(slopes.log_steps) == SIZE * info.accepted.sum()
    # The model is a constant.
    by_model = eqx.filter_jit(eqx.filter_grad(lambda model: end(model, learned)[0].sum()))(model)
    assert all((leaf == 0).all() for leaf in jax.tree.leaves(by_model))


SETTINGS = train.Settings(
    steps=1800,
    hmc_steps=300,
    batch_size=64,
    learning_rate=3e-3,
    inflation_rate=0.02,
    warm_up=200,
    transitions=5,
    leapfrog=3,
    stein_every=3,
    stein_rows=32,
    stein_chains=16,
)


INFLATION = 1.5


class Learned(NamedTuple):
    """A real table with holes, the losses of stage 1, and what later stages made of their start."""

    row: Row
    losses: np.ndarray
    start: train.State
    second: train.State
    third: train.State
    # The third stage from an inflation that is far too large.
    inflated: train.State


@pytest.fixture(scope="module")
def table() -> tuple[np.ndarray, np.ndarray, list[Column]]:
    """Values, a mask and columns, of which the last is the target; a fifth of cells is hidden."""
    dataset = load("diabetes")
    schema = infer_schema(dataset.table, dataset.kinds)
    assert (schema.modelled[-1].name,) == dataset.targets
    values, mask = encode(dataset.table, schema)
    return values, mask & (np.random.default_rng(0).random(mask.shape) < 0.8), schema.modelled


@pytest.fixture(scope="module")
def learned(table: tuple[np.ndarray, np.ndarray, list[Column]]) -> Learned:
    return learn(*table)


def learn(
    values: np.ndarray, mask: np.ndarray, columns: list[Column], hidden: float = 0.0
) -> Learned:
    """Run all stages, with a value of no meaning in hidden cells."""
    values = np.where(mask, values, hidden)
    cells, target = (values[:, :-1], mask[:, :-1]), (values[:, -1:], mask[:, -1:])
    encoding = standardised_encoding(columns[:-1], *cells)
    row = Row(
        encoding.encode(*cells),
        jnp.asarray(cells[1]),
        standardised_encoding(columns[-1:], *target).encode(*target),
        jnp.asarray(target[1]),
    )
    marginals, losses = train_marginal_vaes(encoding, *cells, key=jax.random.key(0))
    targets = Direct((1,), jnp.zeros(1))
    model = Model.init(marginals, targets, LAYERS, hidden=32, key=jax.random.key(1))
    # With less noise than the table has, some posteriors have two modes.
    model = eqx.tree_at(
        lambda m: (m.log_noise, m.target_log_noise),
        model,
        replace_fn=lambda log_noise: jnp.full_like(log_noise, np.log(0.6)),
    )
    start = train.stack([train.init(model, SETTINGS, key=jax.random.key(2))])
    data = train.gather([row])
    data = data._replace(table=with_hidden(data.table, hidden))
    second, _ = train.train(start, data, SETTINGS, until=SETTINGS.second_stage)
    third, _ = train.train(second, data, SETTINGS)
    sampler = second.sampler._replace(log_inflation=INFLATION + second.sampler.log_inflation)
    inflated, _ = train.train(second._replace(sampler=sampler), data, SETTINGS)
    states = (train.unstack(state, 0) for state in (start, second, third, inflated))
    return Learned(row, losses, *states)


def with_hidden(row: Row, value: float) -> Row:
    """Let a value stand in all hidden cells and targets."""

    def put(cells: Cells, mask: jax.Array) -> Cells:
        return Cells(*(jnp.where(mask, part, value) for part in cells))

    return row._replace(cells=put(row.cells, row.mask), target=put(row.target, row.target_mask))


class Scores(NamedTuple):
    """What stages 2 and 3 raise, for each row: the bound, the HMC objective, minus the SKSD."""

    bound: jax.Array
    chains: jax.Array
    stein: jax.Array


@eqx.filter_jit
def scores(model: Model, sampler: Sampler, directions: jax.Array, row: Row) -> Scores:
    """Score rows, some of their cells hidden as in training, with the same noise in each call."""
    (rows, columns), size, chains = row.mask.shape, model.hierarchy.size, 32
    mask_key, see_key, bound_key, chain_key = jax.random.split(jax.random.key(4), 4)
    shown = train_mask(mask_key, (rows, columns + 1))
    row = row._replace(mask=row.mask & shown[:, :-1], target_mask=row.target_mask & shown[:, -1:])
    directions = directions / jnp.linalg.norm(directions, axis=1, keepdims=True)

    def one(seen: Seen, noise: jax.Array, moves: ChainNoise) -> Scores:
        terms = jax.vmap(partial(elbo, model, seen))(noise)
        ends, _ = jax.vmap(
            lambda moves: chain(model, sampler, seen, moves, SETTINGS.leapfrog, with_target=True)
        )(moves)
        bandwidths = stein.median_bandwidths(ends.position, directions)
        discrepancy = stein.sksd(
            ends.position, ends.gradient, jnp.eye(size), directions, bandwidths, unbiased=True
        )
        bound = terms.log_likelihood - terms.divergence.sum(1)
        return Scores(bound.mean(), ends.log_density.mean(), -discrepancy)

    return jax.vmap(one)(
        jax.vmap(model.see)(row, jax.random.normal(see_key, (rows, columns))),
        jax.random.normal(bound_key, (rows, chains, size)),
        chain_noise(chain_key, (rows, chains), SETTINGS.transitions, size),
    )


@pytest.mark.slow
def test_each_stage_improves_its_own_objective(learned: Learned) -> None:
    row, losses, start, second, third, inflated = learned
    assert losses[-100:].mean() < losses[:100].mean() - 4 * losses[-100:].std()

    def chance(part: str, new: tuple[Model, Sampler], old: tuple[Model, Sampler]) -> float:
        """Of as many rows being better, were the new one no better than the old one."""
        after, before = (
            np.asarray(getattr(scores(*each, third.directions, row), part)) for each in (new, old)
        )
        assert after.mean() > before.mean()
        return stats.wilcoxon(after, before, alternative="greater").pvalue

    assert chance("bound", second[:2], start[:2]) < 1e-6
    # Stage 3 has an objective for each group of parameters: it suffers where they are put back.
    model, sampler = third[:2]
    encoder = eqx.tree_at(lambda m: m.encoder, model, second.model.encoder)
    assert chance("bound", (model, sampler), (encoder, sampler)) < 1e-6
    generative = eqx.tree_at(lambda m: m.encoder, second.model, model.encoder)
    assert chance("chains", (model, sampler), (generative, sampler)) < 1e-6
    steps = sampler._replace(log_steps=second.sampler.log_steps)
    # Of all groups they have the least to gain.
    assert chance("chains", (model, sampler), (model, steps)) < 1e-3
    model, sampler = inflated[:2]
    as_before = sampler._replace(log_inflation=INFLATION + second.sampler.log_inflation)
    assert chance("stein", (model, sampler), (model, as_before)) < 1e-6


@pytest.mark.slow
def test_nothing_is_learned_from_hidden_cells(
    table: tuple[np.ndarray, np.ndarray, list[Column]], learned: Learned
) -> None:
    again = learn(*table, hidden=1.0)
    weights = (eqx.filter(each, eqx.is_inexact_array) for each in (learned, again))
    for one, other in zip(*map(jax.tree.leaves, weights), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
# Other people's warnings are not ours to raise.
@pytest.mark.filterwarnings("default")
def test_agreement_with_nuts_on_a_trained_model(learned: Learned) -> None:
    chains, warm_up, kept = 100, 50, 400
    model = learned.third.model
    size = model.hierarchy.size
    complete = int(np.argmax(learned.row.mask.all(1) & learned.row.target_mask.all(1)))
    row = jax.tree.map(lambda leaf: leaf[complete], learned.row)
    seen = model.see(row, jax.random.normal(jax.random.key(5), row.mask.shape))
    law = model.encode(seen)

    def density(position: jax.Array) -> jax.Array:
        return model.log_joint(position, seen, with_target=True)

    def all_draws(key: jax.Array, once, starts) -> jax.Array:
        def one(key: jax.Array, start) -> jax.Array:
            return jax.lax.scan(once, start, jax.random.split(key, warm_up + kept))[1][warm_up:]

        return jax.jit(jax.vmap(one))(jax.random.split(key, chains), starts)

    noise = jax.random.normal(jax.random.key(6), (2, chains, size))
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        kernel = blackjax.nuts(density, 0.4, inverse_mass_matrix=jnp.exp(2 * law.log_scale))

        def nuts(state, key: jax.Array):
            state, _ = kernel.step(key, state)
            return state, state.position

        starts = jax.vmap(kernel.init)(jax.vmap(law.at)(noise[0]))
        theirs = all_draws(jax.random.key(7), nuts, starts)

    whitened, back = tuning.whiten(
        density, *law, jnp.zeros(2), jnp.asarray(model.hierarchy.layer_of)
    )

    def default(state: hmc.State, key: jax.Array) -> tuple[hmc.State, jax.Array]:
        jitter_key, key = jax.random.split(key)
        steps = tuning.jittered_steps(jitter_key, jnp.array(0.4), 2, size)
        state, _ = hmc.run(key, state, whitened, steps, 5)
        return state, back(state.position)

    starts = jax.vmap(partial(hmc.init, log_density_fn=whitened))(noise[1])
    ours = all_draws(jax.random.key(8), default, starts)

    for draws in (ours, theirs):
        each = jnp.concatenate([draws, draws**2], axis=2)
        assert min(jax.vmap(diagnostics.effective_size, in_axes=2)(each)) > 10_000
    mean, scale = theirs.mean((0, 1)), theirs.std((0, 1))
    assert (np.abs(ours.mean((0, 1)) - mean) < 0.05 * scale).all()
    assert (np.abs(ours.std((0, 1)) / scale - 1) < 0.05).all()
    # The comparison is worth it: the encoder would not pass.
    assert np.abs((law.mean - mean) / scale).max() > 0.05
    assert np.abs(jnp.exp(law.log_scale) / scale - 1).max() > 0.05
