"""Runs MIDAS, a denoising autoencoder whose draws come from dropout, with its own defaults.

Numbers are standardised for it, which it leaves to its user.
"""

from importlib.metadata import version

import midas2
import numpy as np
from exchange import Filled, Job, centre, frame, numbers_of, serve, shown, standard


def fill(job: Job) -> Filled:
    shift, scale = standard(job)
    model = midas2.MIDAS()
    model.fit(frame(job, (job.train - shift) / scale), verbose=False, seed=job.seed)
    test = shown(job)
    made = model.transform(frame(job, (test - shift) / scale), m=job.draws, format_X=True)
    draws = np.stack([numbers_of(table) for table in made]) * scale + shift
    draws = np.where(np.isnan(test), draws, test)
    return Filled(centre(job, draws), draws)


if __name__ == "__main__":
    serve(version("midasverse-midas"), fill)
