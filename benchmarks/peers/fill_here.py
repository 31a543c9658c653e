"""Runs what lives in the library's own environment: its model, and the peers of scikit-learn.

The name of the imputer stands in `job.json`. `mean`, `ridge` and `missforest` are those of
`hhvaem.baselines`; `ridge` is the chain of means, `ridge-draws` the chains of posterior draws and
their mean. `knn` is scikit-learn's, with its usual five neighbours, on standardised numbers and on
indicators of levels that are one apart where levels differ.
"""

import json
from dataclasses import replace

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

# What is next to impossible counts as this, as in `hhvaem evaluate`.
LEAST_LOG = -20.0


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

    from hhvaem import fitting
    from hhvaem.fitting import Part
    from hhvaem.mixtures import rounding_interval
    from hhvaem.presets import PRESETS
    from hhvaem.schema import LEVELLED

    columns = Schema.from_json(job.told["schema"]).columns
    test, known = shown(job), ~np.isnan(shown(job))
    fitted = fitting.fit(
        Part(columns, job.train, ~np.isnan(job.train)),
        None,
        PRESETS[job.told["preset"]],
        seed=job.seed,
    )
    # Members share the chains.
    how = fitted.plan.how
    for_draws = replace(how, chains=-(-job.draws // fitted.members))
    drawn = np.repeat(test[None], job.draws, axis=0)
    for rows, cells, _ in fitted.cases(test, known, for_draws):
        drawn[:, rows] = np.where(known[rows], test[rows], cells[: job.draws])
    with np.load(job.folder / "truth.npz") as arrays:
        truth, hidden = arrays["truth"], arrays["hidden"]
    point, logs = test.copy(), np.full(test.shape, np.nan)
    for rows, law, _ in fitted.laws(
        test, known, replace(how, chains=-(-how.chains // fitted.members))
    ):
        for j, column in enumerate(columns):
            at = np.flatnonzero(~known[rows, j])
            if at.size:
                point[rows.start + at, j] = law.filled(j, at)
            at = np.flatnonzero(hidden[rows, j])
            if not at.size:
                continue
            value = truth[rows.start + at, j]
            if column.kind in LEVELLED:
                with np.errstate(divide="ignore"):
                    found = np.log(law.shares(j, at)[np.arange(at.size), value.astype(int)])
            else:
                seen = job.train[:, j]
                ends = rounding_interval(value, np.unique(seen[~np.isnan(seen)]))
                found = law.log_mass(j, at, *ends)
            logs[rows.start + at, j] = np.maximum(found, LEAST_LOG)
    each = [logs[hidden[:, j], j].mean() for j in np.flatnonzero(hidden.any(0))]
    said = {"log_score": float(np.mean(each)), "device": jax.devices()[0].device_kind}
    (job.folder / "told.json").write_text(json.dumps(said))
    return Filled(point, drawn)


if __name__ == "__main__":
    serve(f"hhvaem {hhvaem.__version__}, scikit-learn {sklearn.__version__}", fill)
