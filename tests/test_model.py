"""The joint model: densities against closed forms, and hidden cells that do not matter."""

import json
import re
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from hhvaem.encoding import Cells, standardised_encoding
from hhvaem.errors import InputError
from hhvaem.hierarchy import Hierarchy
from hhvaem.marginal_vae import MarginalVAEs
from hhvaem.marginals import Direct, Marginals, Outputs, cell_inputs, expected_inputs
from hhvaem.model import Model, Row
from hhvaem.objectives import Sampler, balance, chain, chain_noise, elbo, importance_bound
from hhvaem.schema import Column

LEVELS = (1, 4, 2, 1, 3)
TARGET_LEVELS = (1, 3)


def some_row(seed: int = 0) -> Row:
    rng = np.random.default_rng(seed)

    def cells(levels: tuple[int, ...]) -> Cells:
        point = np.array([rng.normal() if k == 1 else rng.integers(k) for k in levels])
        numbers = jnp.asarray(point, jnp.float32)
        return Cells(numbers, numbers, numbers)

    mask = jnp.array([True, False, True, False, True])
    return Row(cells(LEVELS), mask, cells(TARGET_LEVELS), jnp.array([True, False]))


def direct(levels: tuple[int, ...]) -> Direct:
    return Direct(levels, jnp.zeros(sum(k if k > 2 else 1 for k in levels)))


@pytest.fixture(params=["direct", "vae"])
def model(request: pytest.FixtureRequest) -> Model:
    key = jax.random.key(0)
    marginals: Marginals
    marginals = direct(LEVELS) if request.param == "direct" else MarginalVAEs.init(LEVELS, key=key)
    return Model.init(marginals, direct(TARGET_LEVELS), (4, 3), hidden=16, key=key)


SIZES = [(), (0,), (-1,), (4, 0), (4, -3), [4, 2], None, 4, (2.0,), (True,), ("4",), "42"]


@pytest.mark.usefixtures("as_users_have_it")
def test_layers_and_networks_have_units() -> None:
    def make(layers: Any, hidden: Any) -> Model:
        return Model.init(direct((1,)), None, layers, hidden=hidden, key=jax.random.key(0))

    for layers in SIZES:
        with pytest.raises(InputError, match=re.escape(f"layers={layers!r} must be a tuple of ")):
            make(layers, 8)
    for hidden in (0, -1, 8.0, None, True, "8"):
        message = re.escape(f"hidden={hidden!r} must be a whole number of at least 1.")
        with pytest.raises(InputError, match=message):
            make((1,), hidden)
    layers = make((np.int64(2), 1), np.int32(1)).hierarchy.layers
    assert json.dumps(layers) == "[2, 1]"


def changed(row: Row) -> Row:
    """Change every cell that is not observed."""

    def change(cells: Cells, mask: jax.Array) -> Cells:
        return Cells(*(jnp.where(mask, part, part + 1.0) for part in cells))

    return row._replace(
        cells=change(row.cells, row.mask), target=change(row.target, row.target_mask)
    )


@eqx.filter_jit
def everything(model: Model, row: Row, key: jax.Array) -> tuple[object, ...]:
    seen = model.see(row, jax.random.normal(key, (5,)))
    sampler = Sampler(jnp.full((3, 7), -2.0), jnp.zeros(2))
    end, _ = chain(model, sampler, seen, chain_noise(key, (), 3, 7), 3, with_target=True)
    return (
        model.encode(seen),
        model.log_joint(jnp.ones(7), seen, with_target=True),
        elbo(model, seen, jax.random.normal(key, (7,))),
        importance_bound(model, seen, jax.random.normal(key, (5, 7))),
        end,
    )


def test_hidden_cells_influence_nothing(model: Model) -> None:
    row, key = some_row(), jax.random.key(1)
    # Levels stay levels: 0, 1, 2 of at least 3 become 1, 2, 3 at most in columns that allow it.
    results = []
    for each in (row, changed(row)):
        results.append(everything(model, each, key))
    for one, other in zip(*map(jax.tree.leaves, results), strict=True):
        np.testing.assert_array_equal(one, other)


def test_observed_cells_and_targets_do_matter(model: Model) -> None:
    row, at = some_row(), jnp.ones(7)
    base = model.log_joint(at, model.see(row), with_target=True)
    for part in ("cells", "target"):
        moved = row._replace(**{part: Cells(*(leaf.at[0].add(1.0) for leaf in getattr(row, part)))})
        assert model.log_joint(at, model.see(moved), with_target=True) != base
        assert not np.array_equal(
            model.encode(model.see(moved)).mean, model.encode(model.see(row)).mean
        )


def test_the_target_can_be_left_out(model: Model) -> None:
    row = some_row()
    row = row._replace(target_mask=jnp.zeros(2, bool))
    seen = model.see(row)
    with_target = model.log_joint(jnp.ones(7), seen, with_target=True)
    without = model.log_joint(jnp.ones(7), seen, with_target=False)
    np.testing.assert_allclose(with_target, without, rtol=1e-6)


def test_with_nothing_observed_the_posterior_is_the_prior(model: Model) -> None:
    row = some_row()._replace(mask=jnp.zeros(5, bool), target_mask=jnp.zeros(2, bool))
    seen = model.see(row)
    for seed in range(3):
        position = jax.random.normal(jax.random.key(seed), (7,))
        np.testing.assert_allclose(
            model.log_joint(position, seen, with_target=True),
            stats.norm.logpdf(position).sum(),
            rtol=1e-5,
        )


@pytest.mark.parametrize("layers", [(3,), (3, 2), (4, 3, 2)])
def test_the_reparameterised_ladder_is_the_autoregressive_one(layers: tuple[int, ...]) -> None:
    key = jax.random.key(0)
    reparameterised = Hierarchy.init(layers, 8, key=key)
    plain = Hierarchy.init(layers, 8, reparameterised=False, key=key)

    def to_h(eps: jax.Array) -> jax.Array:
        parts = reparameterised.split(eps)
        h = [parts[-1]]
        for prior, part in zip(reversed(plain.priors), reversed(parts[:-1]), strict=True):
            mean, log_variance = jnp.split(prior(h[0]), 2)
            h.insert(0, mean + jnp.exp(0.5 * log_variance) * part)
        return jnp.concatenate(h)

    eps = jax.random.normal(jax.random.key(1), (sum(layers),))
    np.testing.assert_allclose(reparameterised.bottom(eps), plain.bottom(to_h(eps)), rtol=1e-5)
    _, log_det = jnp.linalg.slogdet(jax.jacobian(to_h)(eps))
    np.testing.assert_allclose(
        reparameterised.log_prior(eps).sum() - log_det,
        plain.log_prior(to_h(eps)).sum(),
        rtol=1e-4,
        atol=1e-4,
    )


def test_what_is_expected_of_a_sure_law_is_the_cell() -> None:
    row = some_row()
    single, many = np.zeros(3, np.float32), np.zeros((2, 4), np.float32)
    for place, j in enumerate((0, 2, 3)):
        point = float(row.cells.point[j])
        single[place] = point if LEVELS[j] == 1 else 50 * (2 * point - 1)
    for place, j in enumerate((1, 4)):
        many[place, int(row.cells.point[j])] = 50
    expected = expected_inputs(LEVELS, Outputs(jnp.asarray(single), jnp.asarray(many)))
    np.testing.assert_allclose(expected, cell_inputs(LEVELS, row.cells), atol=1e-5)


def linear_gaussian(seed: int = 0) -> tuple[Model, Row, np.ndarray, np.ndarray]:
    """Make a model with a linear decoder, of which everything is known: x = W h + b + noise."""
    rng = np.random.default_rng(seed)
    levels = (1,) * 6
    model = Model.init(direct(levels), None, (3,), hidden=8, key=jax.random.key(seed))
    weight, bias = rng.normal(size=(6, 3)).astype(np.float32), rng.normal(size=6).astype(np.float32)
    linear = eqx.nn.Linear(3, 6, key=jax.random.key(0))
    linear = eqx.tree_at(
        lambda m: (m.weight, m.bias), linear, (jnp.asarray(weight), jnp.asarray(bias))
    )
    model = eqx.tree_at(lambda m: m.decoder, model, linear)
    x = jnp.asarray(rng.normal(size=6), jnp.float32)
    mask = jnp.array([True, True, False, True, True, False])
    empty = Cells(*(jnp.zeros(0),) * 3)
    row = Row(Cells(x, x, x), mask, empty, jnp.zeros(0, bool))
    return model, row, weight, bias


def exact(model: Model, row: Row, weight: np.ndarray, bias: np.ndarray) -> tuple:
    """Give log p(x_O), and the mean and covariance of the posterior."""
    seen = np.asarray(row.mask)
    w, b, x = weight[seen], bias[seen], np.asarray(row.cells.point)[seen]
    noise = np.exp(2 * float(model.log_noise[0]))
    evidence = stats.multivariate_normal(b, w @ w.T + noise * np.eye(len(x))).logpdf(x)
    covariance = np.linalg.inv(np.eye(3) + w.T @ w / noise)
    return evidence, covariance @ w.T @ (x - b) / noise, covariance


def with_encoder(model: Model, mean: np.ndarray, scale: np.ndarray) -> Model:
    """Replace the encoder by a constant law."""
    heads = eqx.tree_at(
        lambda h: (h.weight, h.bias),
        model.encoder.heads[0],
        (
            jnp.zeros_like(model.encoder.heads[0].weight),
            jnp.asarray(np.concatenate([mean, 2 * np.log(scale)]), jnp.float32),
        ),
    )
    return eqx.tree_at(lambda m: m.encoder.heads[0], model, heads)


def normals(*shape: int) -> jax.Array:
    return jax.random.normal(jax.random.key(0), shape)


def test_bounds_are_ordered_and_reach_the_evidence() -> None:
    model, row, weight, bias = linear_gaussian()
    evidence, mean, covariance = exact(model, row, weight, bias)
    model = with_encoder(model, mean, np.sqrt(np.diag(covariance)) * 0.8)
    seen = model.see(row)
    terms = jax.jit(jax.vmap(lambda e: elbo(model, seen, e)))(normals(4000, 3))
    first = float((terms.log_likelihood - terms.divergence.sum(1)).mean())
    bounds = [first]
    for samples in (5, 50):
        bound = jax.jit(jax.vmap(partial(importance_bound, model, seen)))(normals(4000, samples, 3))
        bounds.append(float(bound.mean()))
    assert bounds[0] < bounds[1] < bounds[2] < evidence + 0.02
    assert bounds[2] == pytest.approx(evidence, abs=0.15)


@pytest.mark.slow
def test_chains_reach_the_exact_posterior() -> None:
    model, row, weight, bias = linear_gaussian()
    _, mean, covariance = exact(model, row, weight, bias)
    model = with_encoder(model, np.zeros(3), np.ones(3))
    seen = model.see(row)
    sampler = Sampler(jnp.full((200, 3), np.log(0.2)), jnp.zeros(1))
    noise = chain_noise(jax.random.key(0), (10_000,), 200, 3)
    ends, info = jax.jit(
        jax.vmap(lambda noise: chain(model, sampler, seen, noise, 8, with_target=False))
    )(noise)
    draws = np.asarray(ends.position, float)
    assert info.acceptance.mean() > 0.6
    deviations = np.sqrt(np.diag(covariance))
    # Ten thousand independent chains: a standard error of 0.01 posterior deviations.
    np.testing.assert_allclose((draws.mean(0) - mean) / deviations, 0, atol=0.045)
    np.testing.assert_allclose(draws.std(0) / deviations, 1, atol=0.035)
    np.testing.assert_allclose(
        np.corrcoef(draws.T), covariance / np.outer(deviations, deviations), atol=0.045
    )


def test_balancing_weights() -> None:
    divergences = jnp.array([[1.0, 4.0], [3.0, 0.0]])
    weights = balance(divergences, (10, 5), jnp.array(0.5))
    np.testing.assert_allclose(weights, 0.5 * np.array([20.0, 10.0]) / 30, rtol=1e-6)
    np.testing.assert_array_equal(balance(divergences, (10, 5), jnp.array(1.0)), 1.0)
    slope = jax.grad(lambda d: balance(d, (10, 5), jnp.array(0.5)).sum())(divergences)
    np.testing.assert_array_equal(slope, 0.0)


def test_targets_of_several_kinds_have_laws_that_add_up(model: Model) -> None:
    row = some_row()._replace(target_mask=jnp.array([False, True]))
    seen = model.see(row)
    total = 0.0
    nothing = model.log_joint(
        jnp.ones(7),
        seen._replace(row=row._replace(target_mask=jnp.zeros(2, bool))),
        with_target=True,
    )
    for level in range(3):
        target = Cells(*(leaf.at[1].set(level) for leaf in row.target))
        each = seen._replace(row=row._replace(target=target))
        total += np.exp(model.log_joint(jnp.ones(7), each, with_target=True) - nothing)
    assert total == pytest.approx(1.0, abs=1e-4)


def test_positive_targets_are_standardised_by_their_logarithm() -> None:
    values = np.random.default_rng(0).lognormal(size=(200, 1))
    mask = np.ones((200, 1), bool)
    encoding = standardised_encoding([Column("y", "positive", lower=0.0)], values, mask)
    point = np.asarray(encoding.encode(values, mask).point)
    assert point.mean() == pytest.approx(0, abs=1e-5)
    assert point.std(ddof=1) == pytest.approx(1, abs=1e-5)
