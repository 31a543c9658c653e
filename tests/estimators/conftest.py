"""Models that several files ask; tests do not change them."""

import numpy as np
import pytest
from two_factors import ARRAY, FAST, FRAME, LABELS, NUMBERS, UNKNOWN

from hhvaem import Classifier, Imputer, Regressor


@pytest.fixture(scope="session")
def imputer() -> Imputer:
    return Imputer(**FAST).fit(FRAME)


@pytest.fixture(scope="session")
def regressor() -> Regressor:
    return Regressor(**FAST).fit(ARRAY, np.where(UNKNOWN, np.nan, NUMBERS))


@pytest.fixture(scope="session")
def classifier() -> Classifier:
    return Classifier(**FAST).fit(
        ARRAY, [None if u else x for u, x in zip(UNKNOWN, LABELS, strict=True)]
    )
