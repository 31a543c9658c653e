"""A small table and small models of it, for tests of training.

Compiling takes nearly all of the time of such tests: they share what is here, two models with
one and the same settings, wherever they can.
"""

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hhvaem import train
from hhvaem.encoding import gaussianised_encoding, standardised_encoding
from hhvaem.example import clinic
from hhvaem.inference import infer_schema
from hhvaem.marginals import Direct
from hhvaem.model import Model, Row
from hhvaem.storage import pack
from hhvaem.table import encode

SMALL = train.Settings(
    steps=600,
    hmc_steps=200,
    batch_size=32,
    warm_up=50,
    transitions=2,
    leapfrog=2,
    stein_rows=2,
    stein_chains=4,
    learning_rate=3e-3,
)
TARGET = "diabetic"


@functools.cache
def clinic_rows() -> tuple[Direct, Direct, Row]:
    """Give column models of the clinic, the law of its target, and its rows."""
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


def start(settings: train.Settings = SMALL, seeds: tuple[int, ...] = (0, 1)) -> train.State:
    """Start the training of a model for each seed."""
    marginals, targets, _ = clinic_rows()
    states = []
    for seed in seeds:
        key = jax.random.key(seed)
        model = Model.init(marginals, targets, (2, 1), hidden=8, key=key)
        states.append(train.init(model, settings, key=key))
    return train.stack(states)


def clinic_data(models: int = 2) -> train.Data:
    """Give the rows of the clinic to as many models."""
    return train.gather([clinic_rows()[2]] * models)


@functools.cache
def first_fit() -> tuple[train.State, train.History, list[str]]:
    """Train two models without a break, and say which programs were compiled for it."""
    states, data = start(), clinic_data()
    with compiled() as names:
        states, history = train.train(states, data, SMALL)
    return states, history, names


def trained() -> tuple[train.State, train.History]:
    """Give two trained models; tests do not change them."""
    return first_fit()[:2]


def fit(
    states: train.State, data: train.Data, settings: train.Settings = SMALL, **options: Any
) -> tuple[train.State, train.History]:
    """Train, by programs that the first fit has compiled."""
    first_fit()
    return train.train(states, data, settings, **options)


def assert_same(one: Any, other: Any) -> None:
    """Fail unless two trees have the same arrays, bit for bit."""
    one, other = pack(one), pack(other)
    assert list(one) == list(other)
    for name, array in one.items():
        assert array.tobytes() == other[name].tobytes(), name
        assert (array.dtype, array.shape) == (other[name].dtype, other[name].shape), name


_compiled: list[str] = []
# JAX 0.7 has no public way to take a listener away again.
jax.monitoring.register_event_duration_secs_listener(
    lambda event, _, **about: "backend_compile" in event and _compiled.append(about["fun_name"])
)


@contextmanager
def compiled() -> Iterator[list[str]]:
    """Give the names of the programs that are compiled in a block, once it has ended."""
    before, names = len(_compiled), list[str]()
    yield names
    names += _compiled[before:]
