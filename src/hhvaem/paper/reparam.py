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
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from hhvaem import train
from hhvaem.compiling import program
from hhvaem.datasets import load
from hhvaem.datasets.work import plan
from hhvaem.hierarchy import Hierarchy
from hhvaem.marginal_vae import MarginalVAEs
from hhvaem.model import Gaussian, Model, Row, Seen
from hhvaem.objectives import ChainNoise, Sampler, chain, chain_noise
from hhvaem.paper.folds import PUBLISHED, Fold, Published, stage_one, take_fold
from hhvaem.paper.records import rounded, versions
from hhvaem.sampling import hmc
from hhvaem.sampling.diagnostics import movement

TABLE, FOLD = "boston", 0
STEPS, SEEDS = PUBLISHED[TABLE].steps, 3
# Draws of a test row's latents; as many chains in the third stage.
DRAWS = 100
# At most so many looks at the test rows in the second stage, and in the third.
LOOKS = (36, 20)
# Points of the curve of acceptances, each a mean of steps.
CURVE = 100
# Chains of a row where only their acceptance is asked for.
FEW_CHAINS = 10
# Step sizes to try at the end.
SWEEP = tuple(np.geomspace(0.001, 1.0, 10).round(4).tolist())
DIGITS = 6
QUANTILES = (0.05, 0.5, 0.95)
VARIANTS = {"with the trick": True, "without the trick": False}
COLOURS, WIDTH = {"with the trick": "#d1603d", "without the trick": "#1f6fb2"}, 1.3

Tell = Callable[[str, train.Progress], None]


class Encoders(NamedTuple):
    """What encoders tell of test rows.

    `joint` and `paper` are the log p(x_U | x_O) of `imputation` by draws of the encoder, averaged
    over rows; `prior_scale` are quantiles of the standard deviations in p(h_1 | h_2) over these
    draws; `top_divergence` is how much the encoder says of h_2, in nats for each row.
    """

    joint: Float[Array, "*models"]
    paper: Float[Array, "*models"]
    prior_scale: Float[Array, "*models quantiles"]
    top_divergence: Float[Array, "*models"]


class Chains(NamedTuple):
    """What chains on test rows tell, with the step sizes and the inflation learned so far.

    `switched_acceptance` is that of chains in the coordinates of the other variant, from the same
    starts with the same step sizes.
    """

    joint: Float[Array, "*models"]
    paper: Float[Array, "*models"]
    acceptance: Float[Array, "*models"]
    divergent: Float[Array, "*models"]
    movement: Float[Array, "*models"]
    switched_acceptance: Float[Array, "*models"]
    step_sizes: Float[Array, "*models layers"]
    inflation: Float[Array, "*models layers"]


def imputation(
    model: Model, row: Row, positions: Float[Array, "draws size"]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Give log p(x_U | x_O) per hidden cell, from draws given x_O: `joint` and `paper`.

    The first is (1/|U|) log (1/k) sum_i prod_d p(x_d | draw_i), the second
    log (1/k) sum_i exp((1/|U|) sum_d log p(x_d | z_d = its mean)). Both are 0 where no cell is
    hidden.
    """
    marginals = model.marginals
    assert isinstance(marginals, MarginalVAEs)
    hidden = ~row.mask
    count = jnp.maximum(hidden.sum(), 1).astype(positions.dtype)

    def log_probs(position: Float[Array, " size"]) -> tuple[Float[Array, ""], Float[Array, ""]]:
        parameters = model.decoder(model.hierarchy.bottom(position))
        whole = marginals.log_prob(parameters, model.log_noise, row.cells)
        at_mean = marginals.log_prob_given_z(parameters, row.cells)
        return jnp.where(hidden, whole, 0.0).sum(), jnp.where(hidden, at_mean, 0.0).sum()

    def log_mean_exp(values: Float[Array, " draws"]) -> Float[Array, ""]:
        return jax.nn.logsumexp(values) - math.log(len(positions))

    whole, at_mean = jax.vmap(log_probs)(positions)
    return log_mean_exp(whole) / count, log_mean_exp(at_mean / count)


def switched(model: Model) -> Model:
    """Give the same model with positions in the coordinates of the other variant."""
    ladder = model.hierarchy
    other = Hierarchy(ladder.layers, not ladder.reparameterised, ladder.priors)
    return eqx.tree_at(lambda m: m.hierarchy, model, other)


def switched_position(ladder: Hierarchy, position: Float[Array, " size"]) -> Float[Array, " size"]:
    """Give the same latents in the coordinates of the other variant; there are two layers."""
    low, top = ladder.split(position)
    mean, scale = _prior(ladder, top)
    low = mean + scale * low if ladder.reparameterised else (low - mean) / scale
    return jnp.concatenate([low, top])


def _prior(
    ladder: Hierarchy, top: Float[Array, " second"]
) -> tuple[Float[Array, " first"], Float[Array, " first"]]:
    """Give the mean and the standard deviation of p(h_1 | h_2)."""
    mean, log_variance = jnp.split(ladder.priors[0](top), 2)
    return mean, jnp.exp(0.5 * log_variance)


@program
def look_at_encoders(models: Model, test: Row, draws: int, key: PRNGKeyArray) -> Encoders:
    """Draw from the encoders on test rows."""

    def one(model: Model) -> Encoders:
        seen, noise = _see(model, test, draws, 1, key)
        law = jax.vmap(model.encode)(seen)
        positions = jax.vmap(lambda law, noise: jax.vmap(law.at)(noise))(law, noise.start)
        top = model.hierarchy.layer_of == 1
        _, scales = jax.vmap(jax.vmap(partial(_prior, model.hierarchy)))(positions[..., top])
        each = 0.5 * (law.mean**2 + jnp.exp(2 * law.log_scale) - 1) - law.log_scale
        return Encoders(
            *_imputed(model, test, positions),
            jnp.quantile(scales, jnp.array(QUANTILES)),
            each[:, top].sum(1).mean(),
        )

    return _each(one, models)


@program
def look_at_chains(
    trained: tuple[Model, Sampler], test: Row, draws: int, leapfrog: int, key: PRNGKeyArray
) -> Chains:
    """Run chains on test rows."""

    def one(trained: tuple[Model, Sampler]) -> Chains:
        model, sampler = trained
        seen, noise = _see(model, test, draws, len(sampler.log_steps), key)
        steps, layer = jnp.exp(sampler.log_steps), model.hierarchy.layer_of

        def start(law: Gaussian, noise: ChainNoise) -> Float[Array, " size"]:
            inflated = law.log_scale + sampler.log_inflation[layer]
            return law._replace(log_scale=inflated).at(noise.start)

        def run(seen: Seen, noise: ChainNoise) -> tuple[Float[Array, " size"], list[Array]]:
            end, info = chain(model, sampler, seen, noise, leapfrog, with_target=False)
            law = model.encode(seen)
            moved = movement(start(law, noise), end.position, law.log_scale)
            divergent = info.divergent.mean(dtype=moved.dtype)
            return end.position, [info.acceptance.mean(), divergent, moved]

        def run_switched(seen: Seen, noise: ChainNoise) -> Float[Array, ""]:
            there = switched_position(model.hierarchy, start(model.encode(seen), noise))
            info = _chain(switched(model), seen, there, noise.moves, steps, leapfrog)
            return info.acceptance.mean()

        positions, told = jax.vmap(jax.vmap(run, (None, 0)))(seen, noise)
        few = jax.tree.map(lambda leaf: leaf[:, :FEW_CHAINS], noise)
        acceptance, divergent, moved = (each.mean() for each in told)
        return Chains(
            *_imputed(model, test, positions),
            acceptance,
            divergent,
            moved,
            jax.vmap(jax.vmap(run_switched, (None, 0)))(seen, few).mean(),
            jnp.stack([steps[:, layer == number].mean() for number in (0, 1)]),
            jnp.exp(sampler.log_inflation),
        )

    return _each(one, trained)


@program
def sweep(
    trained: tuple[Model, Sampler], test: Row, leapfrog: int, key: PRNGKeyArray
) -> Float[Array, "models coordinates sweep"]:
    """Give the acceptance by step size, the same for all dimensions, from where chains end.

    First in the variant's own coordinates, then in those of the other.
    """

    def one(trained: tuple[Model, Sampler]) -> Float[Array, "coordinates sweep"]:
        model, sampler = trained
        transitions, size = sampler.log_steps.shape
        chain_key, move_key = jax.random.split(key)
        seen, noise = _see(model, test, FEW_CHAINS, transitions, chain_key)
        moves = hmc.draw_noise(move_key, (len(test.mask), FEW_CHAINS, transitions), size)

        def run(
            seen: Seen, noise: ChainNoise, moves: hmc.Noise
        ) -> Float[Array, "coordinates sweep"]:
            end, _ = chain(model, sampler, seen, noise, leapfrog, with_target=False)
            there = switched_position(model.hierarchy, end.position)

            def both(step: Float[Array, ""]) -> Float[Array, " coordinates"]:
                steps = jnp.full((transitions, size), step)
                own = _chain(model, seen, end.position, moves, steps, leapfrog)
                other = _chain(switched(model), seen, there, moves, steps, leapfrog)
                return jnp.stack([own.acceptance.mean(), other.acceptance.mean()])

            return lax.map(both, jnp.array(SWEEP)).T

        return jax.vmap(jax.vmap(run, (None, 0, 0)))(seen, noise, moves).mean((0, 1))

    return _each(one, trained)


def _each(function: Callable[[Any], Any], trained: Any) -> Any:
    """Do one model after the other, for a smaller program."""
    arrays, rest = eqx.partition(trained, eqx.is_array)
    return lax.map(lambda arrays: function(eqx.combine(arrays, rest)), arrays)


def _see(
    model: Model, test: Row, draws: int, transitions: int, key: PRNGKeyArray
) -> tuple[Seen, ChainNoise]:
    """See the test rows, and draw the noise of their chains; the same in every call."""
    feature_key, noise_key = jax.random.split(key)
    seen = jax.vmap(model.see)(test, jax.random.normal(feature_key, test.mask.shape))
    shape = (len(test.mask), draws)
    return seen, chain_noise(noise_key, shape, transitions, model.hierarchy.size)


def _chain(
    model: Model,
    seen: Seen,
    start: Float[Array, " size"],
    moves: hmc.Noise,
    steps: Float[Array, "transitions size"],
    leapfrog: int,
) -> hmc.Info:
    def log_density(position: Float[Array, " size"]) -> Float[Array, ""]:
        return model.log_joint(position, seen, with_target=False)

    return hmc.run_frozen(moves, start, log_density, steps, leapfrog)[1]


def _imputed(
    model: Model, test: Row, positions: Float[Array, "rows draws size"]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Average `imputation` over the rows that have a hidden cell."""
    # Row by row: the integral over z of all rows at once would take a gigabyte.
    joint, paper = lax.map(lambda row: imputation(model, *row), (test, positions))
    rows = (~test.mask).any(1).sum(dtype=joint.dtype)
    return joint.sum() / rows, paper.sum() / rows


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
