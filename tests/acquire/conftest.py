"""The models that sessions are about, and a row of their table."""

import datetime as dt
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hhvaem import Classifier, Regressor

ROWS = 300


def visits() -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Make a table, a number that follows from it, and a class."""
    rng = np.random.default_rng(0)
    severity = rng.normal(size=ROWS)
    city = rng.integers(0, 3, ROWS)
    table = pd.DataFrame(
        {
            "age": np.maximum(np.rint(50 + 15 * rng.normal(size=ROWS)), 0).astype(int),
            "smoker": rng.random(ROWS) < 0.4,
            "city": np.array(["Oslo", "Rome", "Lima"])[city],
            "pain": pd.Categorical.from_codes(
                np.digitize(severity + 0.3 * rng.normal(size=ROWS), [-0.5, 0.5]),
                ["none", "mild", "severe"],
                ordered=True,
            ),
            "crp": np.exp(severity + 0.2 * rng.normal(size=ROWS)),
            "seen": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 500, ROWS), "D"),
            "ward": "A",
        }
    )
    number = 10 + 3 * severity + 2 * (city == 1) + 0.3 * rng.normal(size=ROWS)
    label = np.where(number > 12, "high", np.where(number < 8, "low", "mid"))
    return table, number, label


@pytest.fixture(scope="session")
def regressor() -> Regressor:
    table, number, _ = visits()
    y = pd.Series(number, name="score")
    return Regressor(preset="fast", members=2, random_state=0).fit(table, y)


@pytest.fixture(scope="session")
def classifier() -> Classifier:
    table, _, label = visits()
    return Classifier(preset="fast", random_state=0).fit(table, pd.Series(label, name="risk"))


@pytest.fixture
def table() -> pd.DataFrame:
    """The table that the models were fitted to."""
    return visits()[0]


@pytest.fixture
def row() -> dict[str, Any]:
    """A patient of whom all is known."""
    return {
        "age": 61, "smoker": True, "city": "Rome", "pain": "severe", "crp": 4.0,
        "seen": dt.datetime(2024, 6, 1),
    }  # fmt: skip
