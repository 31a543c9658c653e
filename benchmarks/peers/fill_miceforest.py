"""Runs miceforest: as many data sets as draws, its usual five rounds."""

from importlib.metadata import version

import miceforest
import numpy as np
from exchange import Filled, Job, centre, frame, numbers_of, serve, shown

ROUNDS = 5


def fill(job: Job) -> Filled:
    rng = np.random.default_rng(job.seed)
    test, holes = shown(job), np.isnan(shown(job))
    seen = [np.unique(x[~np.isnan(x)]) for x in job.train.T]
    # What does not vary has nothing to learn, and stops it.
    varying = [j for j, values in enumerate(seen) if len(values) > 1]
    names = [f"c{j}" for j in varying]
    kernel = miceforest.ImputationKernel(
        frame(job, job.train)[names],
        num_datasets=job.draws,
        # Columns without holes of their own may have some in the rows to fill.
        variable_schema=names,
        # Matching by log odds fails where a tree gives a level no chance at all.
        mean_match_strategy={f"c{j}": "fast" for j in varying if job.levels[j]},
        random_state=job.seed,
    )
    # Tables this small keep threads waiting for each other.
    kernel.mice(ROUNDS, num_threads=1)
    draws = np.repeat(test[None], job.draws, axis=0)
    for j, values in enumerate(seen):
        if j not in varying and values.size:
            draws[:, holes[:, j], j] = values[0]
    for k in range(job.draws):
        if job.test is None:
            draws[k][:, varying] = numbers_of(kernel.complete_data(k))
            continue
        for j in varying:
            known = job.train[~np.isnan(job.train[:, j]), j]
            draws[k, holes[:, j], j] = rng.choice(known, holes[:, j].sum())
        # One column at a time: its own rounds over new rows see the random values that all holes
        # begin with, in every round (version 6.0.5).
        for _ in range(ROUNDS):
            for j in varying:
                if not holes[:, j].any():
                    continue
                now = draws[k].copy()
                now[holes[:, j], j] = np.nan
                new = kernel.impute_new_data(frame(job, now)[names], datasets=[k], iterations=1)
                # Unless it is told the iteration, it gives the random values back.
                done = new.complete_data(dataset=k, iteration=1)[f"c{j}"]
                draws[k, holes[:, j], j] = np.asarray(done, np.float64)[holes[:, j]]
    return Filled(centre(job, draws), draws)


if __name__ == "__main__":
    serve(version("miceforest"), fill)
