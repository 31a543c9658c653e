"""Runs gcimpute, a Gaussian copula.

It has no levels without order: each but the first is said by an indicator, and the one that comes
out largest is filled in. Types of numbers are its own guess; where that stops it, as it does for
numbers with one value that repeats, it is told that all of them are continuous.
"""

from importlib.metadata import version

import numpy as np
from exchange import Filled, Job, from_indicators, indicators, number_features, serve, shown
from gcimpute.gaussian_copula import GaussianCopula


def fill(job: Job) -> Filled:
    train, test = indicators(job, job.train, first=1), indicators(job, shown(job), first=1)
    try:
        return filled(job, train, test, None)
    except (ValueError, FloatingPointError, np.linalg.LinAlgError):
        return filled(job, train, test, np.flatnonzero(number_features(job, first=1)).tolist())


def filled(job: Job, train: np.ndarray, test: np.ndarray, continuous: list[int] | None) -> Filled:
    """Fit and fill, features of these indices being continuous."""
    copula = GaussianCopula(random_state=job.seed)
    copula.fit(train, continuous=continuous)
    draws = copula.sample_imputation(test, num=job.draws).transpose(2, 0, 1)
    point = copula.transform(test)
    return Filled(from_indicators(job, point, first=1), from_indicators(job, draws, first=1))


if __name__ == "__main__":
    serve(version("gcimpute"), fill)
