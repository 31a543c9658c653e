"""Runs HyperImpute as its page shows it: its own choice of models, point fills only.

It refits on whatever it is to fill, so that it can only fill the rows that it learns from. Levels
are codes, from which it takes itself which columns are classes.
"""

from importlib.metadata import version

import numpy as np
from exchange import Filled, Job, serve
from hyperimpute.plugins.imputers import Imputers
from joblib import parallel_config
from pandas import DataFrame


def fill(job: Job) -> Filled:
    table = DataFrame(job.train, columns=[f"c{j}" for j in range(job.train.shape[1])])
    plugin = Imputers().get("hyperimpute", optimizer="simple", random_state=job.seed)
    # Processes for each small fit cost more than the fits, and some never come back.
    with parallel_config("threading"):
        point = np.asarray(plugin.fit_transform(table), np.float64)
    for j, levels in enumerate(job.levels):
        if levels:
            point[:, j] = np.clip(np.rint(point[:, j]), 0, levels - 1)
    return Filled(point, None)


if __name__ == "__main__":
    serve(version("hyperimpute"), fill)
