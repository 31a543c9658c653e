"""Stages 2 and 3: each improves its own objective, many models are one by one, nothing is lost."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hhvaem import train
from hhvaem.encoding import gaussianised_encoding, standardised_encoding
from hhvaem.errors import InputError
from hhvaem.example import clinic
from hhvaem.inference import infer_schema
from hhvaem.marginals import Direct
from hhvaem.model import Model, Row
from hhvaem.table import encode

SMALL = train.Settings(
    steps=300,
    hmc_steps=100,
    batch_size=32,
    warm_up=50,
    transitions=3,
    leapfrog=3,
    stein_rows=3,
    stein_chains=8,
    learning_rate=3e-3,
)
TARGET = "diabetic"


@pytest.fixture(scope="module")
def clinic_rows() -> tuple[Direct, Direct, Row]:
    table = clinic(300)
    schema = infer_schema(table)
    values, mask = encode(table, schema)
    target = np.array([column.name == TARGET for column in schema.modelled])
    columns = [c for c in schema.modelled if c.name != TARGET]
    encoding = gaussianised_encoding(columns, values[:, ~target], mask[:, ~target])
    goal = standardised_encoding([schema[TARGET]], values[:, target], mask[:, target])
    row = Row(
        encoding.encode(values[:, ~target], mask[:, ~target]),
        jnp.asarray(mask[:, ~target]),
        goal.encode(values[:, target], mask[:, target]),
        jnp.asarray(mask[:, target]),
    )
    return (
        Direct.fit(encoding, values[:, ~target], mask[:, ~target]),
        Direct.fit(goal, values[:, target], mask[:, target]),
        row,
    )


def start(
    clinic_rows: tuple[Direct, Direct, Row], settings: train.Settings, seeds: tuple[int, ...]
) -> tuple[train.State, train.Data]:
    marginals, targets, row = clinic_rows
    states = []
    for seed in seeds:
        key = jax.random.key(seed)
        model = Model.init(marginals, targets, (4, 2), hidden=16, key=key)
        states.append(train.init(model, settings, key=key))
    return train.stack(states), train.gather([row] * len(seeds))


@pytest.fixture(scope="module")
def trained(clinic_rows: tuple[Direct, Direct, Row]) -> tuple[train.State, train.History]:
    return train.train(*start(clinic_rows, SMALL, (0, 1)), SMALL)


def test_each_stage_improves_its_own_objective(
    trained: tuple[train.State, train.History],
) -> None:
    history = trained[1]
    assert history.loss.shape == (2, 300)
    second, third = history.loss[:, 60:200], history.loss[:, 200:]
    assert (second[:, -40:].mean(1) < second[:, :20].mean(1)).all()
    assert (third[:, -30:].mean(1) < third[:, :10].mean(1)).all()
    assert np.isnan(history.acceptance[:, :200]).all()
    assert (history.acceptance[:, 200:] > 0.3).all()


def test_the_stein_discrepancy_is_measured_every_tenth_step(
    trained: tuple[train.State, train.History],
) -> None:
    measured = np.isfinite(trained[1].stein[0])
    np.testing.assert_array_equal(np.flatnonzero(measured), np.arange(209, 300, 10))
    assert (np.asarray(trained[0].sampler.log_inflation) != 0).all()


def test_the_column_models_are_not_touched(
    clinic_rows: tuple[Direct, Direct, Row], trained: tuple[train.State, train.History]
) -> None:
    after = train.unstack(trained[0], 0).model
    np.testing.assert_array_equal(after.marginals.base, clinic_rows[0].base)
    np.testing.assert_array_equal(after.log_noise, after.log_noise[0])


def test_many_models_at_once_are_the_models_one_by_one(
    clinic_rows: tuple[Direct, Direct, Row],
) -> None:
    short = dataclasses.replace(SMALL, steps=30, hmc_steps=10)
    together, _ = train.train(*start(clinic_rows, short, (0, 1)), short)
    for i, seed in enumerate((0, 1)):
        alone, _ = train.train(*start(clinic_rows, short, (seed,)), short)
        pairs = zip(
            jax.tree.leaves(eqx.filter(train.unstack(together, i).model, eqx.is_array)),
            jax.tree.leaves(eqx.filter(train.unstack(alone, 0).model, eqx.is_array)),
            strict=True,
        )
        for one, other in pairs:
            np.testing.assert_allclose(one, other, rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize("inference", ["gaussian", "importance"])
def test_without_chains_there_is_no_third_stage(
    clinic_rows: tuple[Direct, Direct, Row], inference: str
) -> None:
    settings = dataclasses.replace(SMALL, inference=inference, steps=120)
    told = []
    states, history = train.train(
        *start(clinic_rows, settings, (0,)), settings, progress=told.append
    )
    assert [(each.stage, each.step) for each in told] == [(2, 100), (2, 120)]
    assert np.isnan(history.acceptance).all()
    assert history.loss[0, -30:].mean() < history.loss[0, :10].mean()
    np.testing.assert_array_equal(states.sampler.log_inflation, 0.0)


def test_the_same_key_gives_the_same_model(clinic_rows: tuple[Direct, Direct, Row]) -> None:
    short = dataclasses.replace(SMALL, inference="gaussian", steps=20)
    first, second, other = (
        train.train(*start(clinic_rows, short, (seed,)), short)[1].loss for seed in (3, 3, 4)
    )
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, other)


def test_a_loss_that_is_not_finite_is_refused(clinic_rows: tuple[Direct, Direct, Row]) -> None:
    settings = dataclasses.replace(SMALL, inference="gaussian", steps=20, learning_rate=1e30)
    with pytest.raises(InputError, match="not finite"):
        train.train(*start(clinic_rows, settings, (0,)), settings)
