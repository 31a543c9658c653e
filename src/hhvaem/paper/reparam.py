"""The reparameterisation on trial (appendix, "Reparameterization trick for ... HMC").

HH-VAEM on the first fold of Boston, with the trick (chains move in eps, whose prior is standard
normal) and without it (chains move in h, whose prior depends on the layer above), the same seeds
for both. The paper has two panels: the acceptance of chains in the third stage, and
log p(x_U | x_O) of the test rows over the whole training.

The paper finds that without the trick hardly any proposal is accepted. That depends on the model
that is sampled, and the two variants do not end with the same one, so two panels more are drawn.
Without the trick the encoder, whose layers are independent, pays for every narrow p(h_1 | h_2);
hence that model keeps these wide, its top layer says little, and its chains have nothing to stumble
over. With the trick p(h_1 | h_2) becomes as narrow as it likes. So each model is also sampled in
the coordinates of the other variant: the same density, in eps or in h.
"""

import dataclasses
import math
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from hhvaem import train
from hhvaem.datasets import load
from hhvaem.datasets.work import plan
from hhvaem.paper.coordinates import (
    SWEEP,
    Chains,
    Encoders,
    look_at_chains,
    look_at_encoders,
    sweep,
)
from hhvaem.paper.folds import PUBLISHED, Fold, Published, stage_one, take_fold
from hhvaem.paper.records import rounded, versions

TABLE, FOLD = "boston", 0
STEPS, SEEDS = PUBLISHED[TABLE].steps, 3
# Draws of a test row's latents; as many chains in the third stage.
DRAWS = 100
# At most so many looks at the test rows in the second stage, and in the third.
LOOKS = (36, 20)
# Points of the curve of acceptances, each a mean of steps.
CURVE = 100
DIGITS = 6
VARIANTS = {"with the trick": True, "without the trick": False}
COLOURS, WIDTH = {"with the trick": "#d1603d", "without the trick": "#1f6fb2"}, 1.3

Tell = Callable[[str, train.Progress], None]


def experiment(
    *, steps: int = STEPS, seeds: int = SEEDS, draws: int = DRAWS, tell: Tell | None = None
) -> dict[str, Any]:
    """Train both variants and test them; what comes back goes into a JSON file and into `draw`.

    Parameters
    ----------
    steps
        Steps of stages 2 and 3; the stages keep their shares of them.
    seeds
        How many models of each variant, which train at once.
    draws
        Draws of a test row's latents.
    tell
        Told now and then the variant and the progress of its training.
    """
    used = versions()
    dataset = load(TABLE, as_published=True)
    fold = take_fold(dataset, plan(dataset, seed=0), FOLD)
    published = _shortened(PUBLISHED[TABLE], steps)
    settings = published.settings()
    column_keys, keys = jax.random.split(jax.random.key(0), (2, seeds))
    started = time.monotonic()
    columns = stage_one([fold] * seeds, published, keys=column_keys)
    stage1_seconds = time.monotonic() - started
    variants = {}
    for name, reparameterised in VARIANTS.items():
        started = time.monotonic()
        states = train.untrained(
            columns, published.two_layers, settings, reparameterised=reparameterised, keys=keys
        )
        report = None if tell is None else partial(tell, name)
        variants[name] = _run_variant(states, fold, settings, draws, report)
        variants[name]["seconds"] = round(time.monotonic() - started, 1)
    return {
        "table": TABLE,
        "fold": FOLD,
        "test_rows": len(fold.test.mask),
        "layers": published.two_layers,
        "seeds": seeds,
        "draws": draws,
        "settings": dataclasses.asdict(settings),
        "marginal_steps": published.marginal_steps,
        "stage1_seconds": round(stage1_seconds, 1),
        "device": jax.devices()[0].device_kind,
        "versions": used,
        "sweep": SWEEP,
        "variants": variants,
    }


def _shortened(published: Published, steps: int) -> Published:
    share = steps / published.steps
    return dataclasses.replace(
        published,
        steps=steps,
        hmc_steps=max(1, round(share * published.hmc_steps)),
        warm_up=round(share * published.warm_up),
        marginal_steps=max(1, round(min(share, 1.0) * published.marginal_steps)),
    )


def looks(settings: train.Settings) -> list[int]:
    """Give the steps after which the test rows are looked at: no more often than every tenth."""
    steps, done = [], 0
    for end, count in zip((settings.second_stage, settings.steps), LOOKS, strict=True):
        every = max(10, math.ceil((end - done) / count))
        steps += [*range(done + every, end, every), end]
        done = end
    return steps


def _run_variant(
    states: train.State,
    fold: Fold,
    settings: train.Settings,
    draws: int,
    report: Callable[[train.Progress], None] | None,
) -> dict[str, Any]:
    data = train.gather([fold.train] * len(states.step))
    key = jax.random.key(0)  # the same for all looks, so that curves are smooth
    acceptance, encoders, chains = [], {}, {}
    for step in looks(settings):
        states, history = train.train(states, data, settings, until=step, progress=report)
        acceptance.append(history.acceptance)
        encoders[step] = look_at_encoders(states.model, fold.test, draws, key)
        if step >= settings.second_stage:
            trained = (states.model, states.sampler)
            chains[step] = look_at_chains(trained, fold.test, draws, settings.leapfrog, key)
    found = sweep((states.model, states.sampler), fold.test, settings.leapfrog, key)
    return {
        "acceptance": _curve(np.concatenate(acceptance, axis=1)[:, settings.second_stage :]),
        "encoders": _table(encoders),
        "chains": _table(chains),
        "sweep": {"own": rounded(found[:, 0], DIGITS), "switched": rounded(found[:, 1], DIGITS)},
    }


def _table(looks: Mapping[int, Encoders] | Mapping[int, Chains]) -> dict[str, Any]:
    """Give the steps, and each field of what was told as a list for each model."""
    told = jax.tree.map(lambda *each: rounded(np.stack(each, axis=1), DIGITS), *looks.values())
    return {"step": list(looks), **told._asdict()}


def _curve(values: Float[np.ndarray, "models steps"]) -> dict[str, Any]:
    length = max(1, values.shape[1] // CURVE)
    count = values.shape[1] // length
    means = values[:, : count * length].reshape(len(values), count, length).mean(2)
    return {"every": length, "means": rounded(means, DIGITS)}


def draw(results: dict[str, Any]) -> Figure:
    """Draw the paper's two panels, and two that explain them."""
    figure = Figure(figsize=(11, 8), layout="constrained")
    (acceptance, imputed), (scale, sweep) = figure.subplots(2, 2)
    second = results["settings"]["steps"] - results["settings"]["hmc_steps"]
    for name, variant in results["variants"].items():
        colour, encoders, chains = COLOURS[name], variant["encoders"], variant["chains"]
        every, means = variant["acceptance"]["every"], variant["acceptance"]["means"]
        middles = every * (np.arange(len(means[0])) + 0.5)
        _band(acceptance, middles, means, colour)
        within = np.array(chains["step"]) - second
        _band(acceptance, within, chains["switched_acceptance"], colour, "--")
        _band(imputed, encoders["step"], encoders["joint"], colour, ":")
        _band(imputed, chains["step"], chains["joint"], colour)
        low, middle, high = np.exp(np.log(encoders["prior_scale"]).mean(0)).T
        scale.plot(encoders["step"], middle, color=colour, linewidth=WIDTH)
        scale.fill_between(encoders["step"], low, high, color=colour, alpha=0.2, linewidth=0)
        _band(sweep, results["sweep"], variant["sweep"]["own"], colour)
        _band(sweep, results["sweep"], variant["sweep"]["switched"], colour, "--")
    for panel in (imputed, scale):
        panel.axvline(second, color="grey", linewidth=0.8)
    for panel in (acceptance, sweep):
        panel.axhline(0.65, color="grey", linewidth=0.8)
        panel.set_ylim(-0.02, 1.02)
    scale.set_yscale("log")
    sweep.set_xscale("log")
    titles = {
        acceptance: ("(a) mean acceptance of chains", "step of the third stage"),
        imputed: (
            r"(b) $\log p(x_U \mid x_O)$ of test rows, nats per hidden cell",
            "training step",
        ),
        scale: (
            r"(c) standard deviations of $p(h_1 \mid h_2)$: median, 5 to 95 %",
            "training step",
        ),
        sweep: ("(d) acceptance by step size, after training", "step size, same for all latents"),
    }
    for panel, (title, label) in titles.items():
        panel.set_title(title, fontsize=10)
        panel.set_xlabel(label, fontsize=9)
        panel.tick_params(labelsize=8)
        panel.spines[["top", "right"]].set_visible(False)
    figure.suptitle(
        f"HH-VAEM on {results['table']}, fold {results['fold']}, "
        f"mean and range of {results['seeds']} seeds",
        fontsize=11,
    )
    handles = [
        *(Line2D([], [], color=colour, label=name) for name, colour in COLOURS.items()),
        Line2D(
            [], [], color="k", linestyle="--", label="the same model, in the other's coordinates"
        ),
        Line2D([], [], color="k", linestyle=":", label="(b) draws of the encoder"),
        Line2D([], [], color="grey", linewidth=0.8, label="0.65; start of the third stage"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=5, frameon=False, fontsize=9)
    return figure


def _band(panel: Axes, x: Any, values: list[list[float]], colour: str, style: str = "-") -> None:
    """Draw the mean over seeds, and their range."""
    low, high = np.min(values, 0), np.max(values, 0)
    panel.plot(x, np.mean(values, 0), style, color=colour, linewidth=WIDTH)
    panel.fill_between(x, low, high, color=colour, alpha=0.2, linewidth=0)
