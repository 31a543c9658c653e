"""Runs what lives in the library's own environment: its model, and the peers of scikit-learn.

The name of the imputer stands in `job.json`. `mean`, `ridge` and `missforest` are those of
`hhvaem.baselines`; `ridge` is the chain of means, `ridge-draws` the chains of posterior draws and
their mean. `knn` is scikit-learn's, with its usual five neighbours, on standardised numbers and on
indicators of levels that are one apart where levels differ.
"""

import json

import numpy as np
import sklearn
from exchange import (
    Filled,
    Job,
    centre,
    from_indicators,
    indicator_features,
    indicators,
    serve,
    shown,
)
from sklearn.impute import KNNImputer

import hhvaem
from hhvaem import Schema
from hhvaem.baselines import BASELINES, Task


def task(job: Job, draws: int) -> Task:
    columns = Schema.from_json(job.told["schema"]).columns
    train, test = job.train, shown(job)
    return Task(columns, train, ~np.isnan(train), test, ~np.isnan(test), draws, job.seed)


def fill(job: Job) -> Filled:
    """Fill by the imputer that the job names."""
    name = job.told["imputer"]
    if name == "hhvaem":
        return ours(job)
    if name == "knn":
        return knn(job)
    if name == "ridge-draws":
        draws = BASELINES["ridge"](task(job, job.draws)).draws
        assert draws is not None
        return Filled(centre(job, draws), draws)
    # A single draw is the least that the chain makes beside its means.
    return Filled(BASELINES[name](task(job, 1)).point, None)


def knn(job: Job) -> Filled:
    train, test = indicators(job, job.train), indicators(job, shown(job))
    scale = np.nanstd(train, axis=0)
    # Two indicators differ where two levels do: together they count as one.
    scale[indicator_features(job)] = np.sqrt(2)
    scale = np.where(scale > 0, scale, 1.0)
    found = KNNImputer(keep_empty_features=True).fit(train / scale).transform(test / scale) * scale
    return Filled(np.where(np.isnan(shown(job)), from_indicators(job, found), shown(job)), None)


def ours(job: Job) -> Filled:
    """Fill by the default preset, and leave the log scores of the hidden cells beside."""
    import jax
    from ours import filled_by

    from hhvaem import fitting
    from hhvaem.preparing import Part
    from hhvaem.presets import PRESETS

    columns = Schema.from_json(job.told["schema"]).columns
    part = Part(columns, job.train, ~np.isnan(job.train))
    fitted = fitting.fit(part, None, PRESETS[job.told["preset"]], seed=job.seed)
    with np.load(job.folder / "truth.npz") as arrays:
        truth, hidden = arrays["truth"], arrays["hidden"]
    point, drawn, log_score = filled_by(
        fitted, columns, (job.train, shown(job)), truth, hidden, job.draws
    )
    said = {"log_score": log_score, "device": jax.devices()[0].device_kind}
    (job.folder / "told.json").write_text(json.dumps(said))
    return Filled(point, drawn)


if __name__ == "__main__":
    serve(f"hhvaem {hhvaem.__version__}, scikit-learn {sklearn.__version__}", fill)
