"""Figure 1(b): the posterior of one row, what the encoder makes of it, and where chains go.

A model with two latents is trained on the made-up table, in all its stages. Of each of its first
rows two cells are shown. With two latents the true posterior is known by quadrature, so that
draws can be held against it. The row drawn is the one whose posterior is the least Gaussian, by
its divergence from the Gaussian of the same mean and covariance: no encoder could be right there.
"""

from dataclasses import asdict
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, PRNGKeyArray
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D

from hhvaem import train
from hhvaem.encoding import gaussianised_encoding
from hhvaem.example import clinic
from hhvaem.inference import infer_schema
from hhvaem.marginals import Direct
from hhvaem.model import Gaussian, Model, Row
from hhvaem.objectives import ChainNoise, Sampler, chain, chain_noise
from hhvaem.paper import quadrature
from hhvaem.paper.drawing import draw_density, draw_gaussian
from hhvaem.paper.quadrature import Window
from hhvaem.paper.records import rounded
from hhvaem.table import encode

SETTINGS = train.Settings(steps=2000, hmc_steps=200)
HIDDEN, SEED = 64, 0
ROWS, SHOWN, DRAWS = 50, 2, 1000
WINDOW = Window(-5.0, 5.0, -5.0, 5.0)
# Draws that are kept for the figure.
DRAWN = 400
TRUTH, ENCODER, CHAINS = "#2f9e5b", "#1f6fb2", "#f08c2e"


class Posterior(NamedTuple):
    """What is known of a row's latents: the joint density on a grid, the encoder, and draws."""

    log_joint: Float[Array, "*rows across up"]
    encoder: Gaussian
    encoder_draws: Float[Array, "*rows draws 2"]
    chain_draws: Float[Array, "*rows draws 2"]


def fit(settings: train.Settings, *, key: PRNGKeyArray) -> tuple[Model, Sampler, Row]:
    """Train a model with two latents on the made-up table; its rows come with it."""
    table = clinic()
    schema = infer_schema(table)
    values, mask = encode(table, schema)
    encoding = gaussianised_encoding(schema.modelled, values, mask)
    cells = encoding.encode(values, mask)
    no_target = jax.tree.map(lambda leaf: leaf[:, :0], cells)
    rows = Row(cells, jnp.asarray(mask), no_target, jnp.zeros((len(mask), 0), bool))
    model_key, train_key = jax.random.split(key)
    marginals = Direct.fit(encoding, values, mask)
    model = Model.init(marginals, None, (2,), hidden=HIDDEN, key=model_key)
    states = train.stack([train.init(model, settings, key=train_key)])
    states, _ = train.train(states, train.gather([rows]), settings)
    state = train.unstack(states, 0)
    return state.model, state.sampler, rows


def few_cells(mask: Bool[np.ndarray, "rows columns"]) -> Bool[np.ndarray, "rows columns"]:
    """Keep SHOWN cells of each row at random, of those observed."""
    order = np.where(mask, np.random.default_rng(0).random(mask.shape), 2.0)
    return mask & (order.argsort(1).argsort(1) < SHOWN)


@eqx.filter_jit
def posteriors(
    model: Model, sampler: Sampler, rows: Row, leapfrog: int, *, key: PRNGKeyArray
) -> Posterior:
    """Give what is known of the latents of each row.

    The encoder's draws are where chains would start that are not inflated.
    """
    grid = jnp.asarray(quadrature.points(WINDOW))

    def one(inputs: tuple[Row, ChainNoise]) -> Posterior:
        row, noises = inputs
        seen = model.see(row)
        encoder = model.encode(seen)

        def log_joint(position: Float[Array, " 2"]) -> Float[Array, ""]:
            return model.log_joint(position, seen, with_target=False)

        def end(noise: ChainNoise) -> Float[Array, " 2"]:
            return chain(model, sampler, seen, noise, leapfrog, with_target=False)[0].position

        on_grid = jax.vmap(jax.vmap(log_joint))(grid)
        starts = jax.vmap(encoder.at)(noises.start)
        return Posterior(on_grid, encoder, starts, jax.vmap(end)(noises))

    noises = chain_noise(key, (len(rows.mask), DRAWS), len(sampler.log_steps), 2)
    # One row after the other: the grid of all at once would not be small.
    return lax.map(one, (rows, noises))


def experiment() -> dict[str, Any]:
    """Train, and measure the first rows; what comes back goes into a JSON file, and `draw`."""
    fit_key, draw_key = jax.random.split(jax.random.key(SEED))
    model, sampler, rows = fit(SETTINGS, key=fit_key)
    rows = jax.tree.map(lambda leaf: leaf[:ROWS], rows)
    shown = few_cells(np.asarray(rows.mask))
    rows = rows._replace(mask=jnp.asarray(shown))
    found = jax.tree.map(
        np.asarray, posteriors(model, sampler, rows, SETTINGS.leapfrog, key=draw_key)
    )
    each = [jax.tree.map(lambda leaf, i=i: leaf[i], found) for i in range(ROWS)]
    figures = [_figures(posterior) for posterior in each]
    drawn = int(np.argmax([row["bend"] for row in figures]))
    table = clinic()
    cells = {
        name: str(table.column(name)[drawn])
        for name, is_shown in zip(table.column_names, shown[drawn], strict=True)
        if is_shown
    }
    return {
        "settings": {**asdict(SETTINGS), "hidden": HIDDEN, "shown": SHOWN, "draws": DRAWS},
        "seed": SEED,
        "inflation": rounded(np.exp(sampler.log_inflation), 3),
        "rows": {name: [row[name] for row in figures] for name in figures[0]},
        "drawn": {"row": drawn, "cells": cells, **_thinned(each[drawn])},
    }


def _figures(posterior: Posterior) -> dict[str, float]:
    """Compare with the truth: a Gaussian of its moments, the encoder, its draws, and chains."""
    mass = quadrature.normalised(posterior.log_joint)
    points = quadrature.points(WINDOW)
    log_density = np.log(np.maximum(mass, 1e-300)) - 2 * np.log(quadrature.SIDE / quadrature.FINE)
    covariance = np.cov(points.reshape(-1, 2).T, aweights=mass.ravel(), ddof=0)
    gaussian_entropy = 0.5 * np.linalg.slogdet(2 * np.pi * np.e * covariance)[1]
    mean, log_scale = posterior.encoder
    away = (points - mean) / np.exp(log_scale)
    log_encoder = (-0.5 * away**2 - log_scale).sum(-1) - np.log(2 * np.pi)
    return {
        "bend": rounded(gaussian_entropy + (mass * log_density).sum(), 4),
        "divergence": rounded((mass * (log_density - log_encoder)).sum(), 4),
        "encoder": rounded(quadrature.total_variation(mass, WINDOW, posterior.encoder_draws), 4),
        "chains": rounded(quadrature.total_variation(mass, WINDOW, posterior.chain_draws), 4),
        "exact": rounded(quadrature.noise_floor(mass, DRAWS), 4),
    }


def _thinned(posterior: Posterior) -> dict[str, Any]:
    mass = quadrature.normalised(posterior.log_joint)
    return {
        "mean": rounded(posterior.encoder.mean, 3),
        "scale": rounded(np.exp(posterior.encoder.log_scale), 3),
        "per_mille_of_peak": np.rint(1000 * mass / mass.max()).astype(int).tolist(),
        "draws": rounded(posterior.chain_draws[:DRAWN].T, 2),
    }


def draw(results: dict[str, Any]) -> Figure:
    """Draw figure 1(b), and beside it how near to the truth the draws of all rows are."""
    layout = ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1)
    figure = Figure(figsize=(11, 5), layout=layout)
    plane, all_rows = figure.subplots(1, 2)
    _draw_posterior(plane, results["drawn"])
    _draw_rows(all_rows, results["rows"], results["drawn"]["row"])
    return figure


def _draw_posterior(panel: Axes, drawn: dict[str, Any]) -> None:
    mass = np.array(drawn["per_mille_of_peak"], float)
    mass /= mass.sum()
    panel.plot(*drawn["draws"], "o", color=CHAINS, markersize=2.5, alpha=0.7)
    draw_density(panel, *quadrature.centres(WINDOW), mass, TRUTH)
    draw_gaussian(panel, drawn["mean"], drawn["scale"], ENCODER)
    known = ", ".join(f"{name} = {value}" for name, value in drawn["cells"].items())
    panel.set_title(f"Latents of a row, given {known}", fontsize=10, parse_math=False)
    panel.set_xlabel(r"$\epsilon_1$")
    panel.set_ylabel(r"$\epsilon_2$")
    panel.set_xlim(-4, 4)
    panel.set_ylim(-4, 4)
    panel.set_aspect("equal")
    handles = [
        Line2D([], [], color=TRUTH, label="true posterior (50 % and 90 %)"),
        Line2D([], [], color=ENCODER, linewidth=1.8, label="encoder"),
        Line2D([], [], color=CHAINS, marker="o", linestyle="", markersize=4, label="HMC"),
    ]
    panel.legend(handles=handles, frameon=False, fontsize=8, loc="upper left")


def _draw_rows(panel: Axes, rows: dict[str, list[float]], drawn: int) -> None:
    panel.plot([0, 1], [0, 1], color="#c9ced6", linewidth=1)
    panel.text(0.72, 0.75, "equally far", color="#8a919c", fontsize=8, rotation=45, ha="center")
    panel.plot(rows["encoder"], rows["chains"], "o", color=CHAINS, markersize=4, alpha=0.7)
    at = rows["encoder"][drawn], rows["chains"][drawn]
    panel.plot(*at, "o", color="#333333", markersize=10, markerfacecolor="none")
    exact = float(np.mean(rows["exact"]))
    panel.axhline(exact, color=TRUTH, linestyle="--", linewidth=1)
    panel.text(0.99, exact - 0.015, "exact draws", color=TRUTH, fontsize=8, ha="right", va="top")
    panel.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    panel.set_title(
        f"Total variation from the truth, {len(rows['chains'])} rows (ring: on the left)",
        fontsize=10,
    )
    panel.set_xlabel("encoder")
    panel.set_ylabel("HMC")
