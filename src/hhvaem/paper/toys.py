"""The toy experiment (appendix, "Efficacy of training HMC"): chains learn to leave their start.

Two densities of the plane, a tight Gaussian start, and what stage 3 learns about its chains:

- the step sizes, one for each transition and dimension, by ascent of the log density where the
  chain ends, with forces taken as constants;
- the inflation of the start's standard deviation, one for each dimension, by descent of the SKSD
  of where chains end, with scores taken as constants; slices are the axes, and their directions
  are optimised.

The first has no entropy in it: from a tight start on a ridge it shortens the steps. What spreads
the chains is the second, and once the start is wide, the first finds the steps that bring it back.

Densities are those of Campbell et al. (2021). The wave is improper along x1: here it has a factor
N(x1; 0, 3^2). The paper does not say where its chains start. Here steps start from U(0.02, 0.05),
as in the published code, and the dual moon's chains off the centre, from where all fall into one
moon: then they are stuck, as the paper shows them. The other cases say where the method ends:

- with steps from U(0.05, 0.2), which the paper has for its models, chains are less stuck, and the
  wave is mostly inflated along the vertical: with constant forces the end of a chain moves as its
  start does, which is nearly so for stuck chains only;
- the SKSD hardly sees how much of the mass each moon has, and from within one moon it never finds
  the other.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jaxtyping import Array, Float, Key, PRNGKeyArray
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpecFromSubplotSpec
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D

from hhvaem.objectives import ChainNoise, chain_noise
from hhvaem.paper import quadrature
from hhvaem.paper.drawing import draw_density, draw_gaussian
from hhvaem.paper.quadrature import Window
from hhvaem.paper.records import rounded
from hhvaem.sampling import hmc, stein

LEAPFROG, CHAINS = 5, 150
# The median over all pairs of chains would take longer than all the rest of a step.
BANDWIDTH_CHAINS = 50
STEPS, SEEDS = 2000, 3
# Chains that are run to measure, before training and after.
MEASURED = 4000
# What is kept for the figure: points of a curve, each a mean of steps, and draws.
CURVE, DRAWN = 200, 400
START_SCALE = 0.1
DENSITY, START, ENDS = "#1f3b73", "#4aa8e0", "#2f9e5b"


def wave(position: Float[Array, " 2"]) -> Float[Array, ""]:
    """Give the log density of a sine-shaped ridge, up to a constant."""
    x1, x2 = position
    return -0.5 * ((x2 + jnp.sin(jnp.pi * x1 / 2)) / 0.4) ** 2 - 0.5 * (x1 / 3.0) ** 2


def dual_moon(position: Float[Array, " 2"]) -> Float[Array, ""]:
    """Give the log density of two moons, left and right, up to a constant."""
    x1 = position[0]
    # The tiny number keeps the derivative finite in the centre.
    radius = jnp.sqrt(jnp.sum(position**2) + 1e-12)
    sides = jnp.logaddexp(-((x1 + 2.0) ** 2) / 0.72, -((x1 - 2.0) ** 2) / 0.72)
    return -3.125 * (radius - 2.0) ** 2 + sides


class Toy(NamedTuple):
    """A density, the window that holds its mass and the one to show, and the chain's length T."""

    log_density: hmc.LogDensity
    window: Window
    shown: Window
    transitions: int


TOYS = {
    "wave": Toy(wave, Window(-13.5, 13.5, -3.5, 3.5), Window(-9.5, 9.5, -4.2, 4.2), 5),
    "dual moon": Toy(dual_moon, Window(-4.5, 4.5, -4.5, 4.5), Window(-4.6, 4.6, -3.6, 3.6), 10),
}


class Case(NamedTuple):
    """Where chains start, and the range of their step sizes before training."""

    toy: str
    centre: tuple[float, float]
    first_steps: tuple[float, float]


SHORT, LONG = (0.02, 0.05), (0.05, 0.2)
# The first of each toy is drawn.
CASES = (
    Case("wave", (0.0, 0.0), SHORT),
    Case("wave", (0.0, 0.0), LONG),
    Case("dual moon", (0.3, 0.0), SHORT),
    Case("dual moon", (0.3, 0.0), LONG),
    Case("dual moon", (2.0, 0.0), SHORT),
)


class Learned(NamedTuple):
    """All that is trained; the two rows of `directions` are the g of the two slices."""

    log_steps: Float[Array, "transitions 2"]
    log_inflation: Float[Array, " 2"]
    directions: Float[Array, "2 2"]


# The paper's rates of Adam, in the order of what is learned.
RATES = (1e-3, 1e-2, 1e-2)


class Curves(NamedTuple):
    """What each step of training tells."""

    objective: Float[Array, " steps"]
    sksd: Float[Array, " steps"]
    inflation: Float[Array, "steps 2"]
    acceptance: Float[Array, " steps"]


class Run(NamedTuple):
    """A training, and chains before and after it."""

    learned: Learned
    curves: Curves
    before: Float[Array, "draws 2"]
    after: Float[Array, "draws 2"]


def init(
    key: PRNGKeyArray, transitions: int, low: Float[Array, ""], high: Float[Array, ""]
) -> Learned:
    """Draw step sizes from U(low, high); the start is not inflated."""
    step_key, direction_key = jax.random.split(key)
    steps = jax.random.uniform(step_key, (transitions, 2), minval=low, maxval=high)
    directions = jnp.eye(2) + 0.1 * jax.random.normal(direction_key, (2, 2))
    return Learned(jnp.log(steps), jnp.zeros(2), directions)


def run_chains(
    log_density: hmc.LogDensity,
    centre: Float[Array, " 2"],
    learned: Learned,
    count: int,
    *,
    key: PRNGKeyArray,
) -> tuple[hmc.State, hmc.Info]:
    """Run chains from the inflated start."""
    transitions = len(learned.log_steps)

    def one(noise: ChainNoise) -> tuple[hmc.State, hmc.Info]:
        start = centre + START_SCALE * jnp.exp(learned.log_inflation) * noise.start
        steps = jnp.exp(learned.log_steps)
        return hmc.run_frozen(noise.moves, start, log_density, steps, LEAPFROG)

    return jax.vmap(one)(chain_noise(key, (count,), transitions, 2))


def train(
    log_density: hmc.LogDensity,
    centre: Float[Array, " 2"],
    learned: Learned,
    rates: Float[Array, " 3"],
    steps: int,
    *,
    key: PRNGKeyArray,
) -> tuple[Learned, Curves]:
    """Train for so many steps of Adam, with rates in the order of what is learned."""
    adam = optax.scale_by_adam()

    def discrepancy(
        position: Float[Array, "chains 2"],
        directions: Float[Array, "2 2"],
        scores: Float[Array, "chains 2"],
    ) -> Float[Array, ""]:
        unit = directions / jnp.linalg.norm(directions, axis=1, keepdims=True)
        bandwidths = stein.median_bandwidths(position[:BANDWIDTH_CHAINS], unit)
        return stein.sksd(position, scores, jnp.eye(2), unit, bandwidths, unbiased=True)

    def step(carry: tuple[Learned, Any], key: PRNGKeyArray) -> tuple[tuple[Learned, Any], Curves]:
        learned, moments = carry

        def ends(
            log_steps: Float[Array, "transitions 2"], log_inflation: Float[Array, " 2"]
        ) -> tuple[Float[Array, "chains 2"], tuple[hmc.State, hmc.Info]]:
            tried = Learned(log_steps, log_inflation, learned.directions)
            end, info = run_chains(log_density, centre, tried, CHAINS, key=key)
            return end.position, (end, info)

        position, pull_back, (end, info) = jax.vjp(
            ends, learned.log_steps, learned.log_inflation, has_aux=True
        )
        # The same chains serve both: the mean log density has the gradient score / CHAINS.
        up, _ = pull_back(end.gradient / CHAINS)
        sksd, (by_position, by_directions) = jax.value_and_grad(discrepancy, (0, 1))(
            position, learned.directions, end.gradient
        )
        _, down = pull_back(by_position)
        told = Curves(
            end.log_density.mean(), sksd, jnp.exp(learned.log_inflation), info.acceptance.mean()
        )
        # Optax raises a float to an integer step count: not for strict promotion.
        with jax.numpy_dtype_promotion("standard"):
            updates, moments = adam.update(Learned(-up, down, -by_directions), moments)
        moves = zip(learned, rates, updates, strict=True)
        return (Learned(*(x - rate * update for x, rate, update in moves)), moments), told

    (learned, _), curves = lax.scan(
        step, (learned, adam.init(learned)), jax.random.split(key, steps)
    )
    return learned, curves


@partial(jax.jit, static_argnames=("toy", "steps"))
def run(
    toy: Toy,
    centres: Float[Array, "cases 2"],
    first_steps: Float[Array, "cases 2"],
    keys: Key[Array, " seeds"],
    steps: int,
) -> Run:
    """Train on one density, in all cases and with all keys at once: a `Run` of `[case, key]`."""

    def one(centre: Float[Array, " 2"], first: Float[Array, " 2"], key: PRNGKeyArray) -> Run:
        init_key, train_key, measure_key = jax.random.split(key, 3)
        untrained = init(init_key, toy.transitions, first[0], first[1])
        learned, curves = train(
            toy.log_density, centre, untrained, jnp.array(RATES), steps, key=train_key
        )
        both = jax.tree.map(lambda *leaves: jnp.stack(leaves), untrained, learned)
        measure = partial(run_chains, toy.log_density, centre, count=MEASURED)
        ends, _ = jax.vmap(lambda learned, key: measure(learned, key=key))(
            both, jax.random.split(measure_key)
        )
        return Run(learned, curves, *ends.position)

    return jax.vmap(jax.vmap(one, (None, None, 0)), (0, 0, None))(centres, first_steps, keys)


def experiment() -> dict[str, Any]:
    """Run all cases; what comes back goes into a JSON file, and into `draw`."""
    keys = jax.vmap(jax.random.key)(jnp.arange(SEEDS))
    records = []
    for name, toy in TOYS.items():
        cases = [case for case in CASES if case.toy == name]
        centres = jnp.array([case.centre for case in cases])
        first_steps = jnp.array([case.first_steps for case in cases])
        runs = jax.tree.map(np.asarray, run(toy, centres, first_steps, keys, STEPS))
        mass = quadrature.masses(toy.log_density, toy.window)
        exact = _exact(mass, toy.window)
        for i, case in enumerate(cases):
            seeds = [jax.tree.map(lambda leaf, at=(i, s): leaf[at], runs) for s in range(SEEDS)]
            figures = [_figures(seed, mass, toy.window) for seed in seeds]
            record = {
                **case._asdict(),
                "transitions": toy.transitions,
                "exact": exact,
                "seeds": figures,
            }
            if i == 0:
                record["drawn"] = _thinned(seeds[0])
            records.append(record)
    settings = {
        "steps": STEPS,
        "seeds": SEEDS,
        "leapfrog": LEAPFROG,
        "chains": CHAINS,
        "bandwidth_chains": BANDWIDTH_CHAINS,
        "rates": dict(zip(Learned._fields, RATES, strict=True)),
        "start_scale": START_SCALE,
        "measured_chains": MEASURED,
    }
    return {"settings": settings, "cases": records}


def _figures(run: Run, mass: quadrature.Mass, window: Window) -> dict[str, Any]:
    return {
        "before": _measured(run.before, mass, window),
        "after": _measured(run.after, mass, window),
        "inflation": rounded(np.exp(run.learned.log_inflation), 2),
        "mean_steps": rounded(np.exp(run.learned.log_steps).mean(0), 4),
        "acceptance": rounded(run.curves.acceptance[-100:].mean(), 4),
    }


def _measured(draws: quadrature.Draws, mass: quadrature.Mass, window: Window) -> dict[str, Any]:
    return {
        "total_variation": rounded(quadrature.total_variation(mass, window, draws), 4),
        "left": rounded((draws[:, 0] < 0).mean(), 4),
        "spread": rounded(draws.std(0), 3),
    }


def _exact(mass: quadrature.Mass, window: Window) -> dict[str, Any]:
    """Give what `_measured` would give for as many exact draws, on average."""
    points = quadrature.points(window).reshape(-1, 2)
    weights = mass.ravel()
    mean = weights @ points
    return {
        "total_variation": rounded(quadrature.noise_floor(mass, MEASURED), 4),
        "left": rounded(weights @ (points[:, 0] < 0), 4),
        "spread": rounded(np.sqrt(weights @ (points - mean) ** 2), 3),
    }


def _thinned(run: Run) -> dict[str, Any]:
    steps = len(run.curves.sksd)
    length = max(1, steps // CURVE)

    def curve(values: Float[np.ndarray, "steps *dim"]) -> list[Any]:
        whole = values[: steps // length * length]
        return rounded(whole.reshape(-1, length, *values.shape[1:]).mean(1).T, 4)

    return {
        "every": length,
        "curves": {name: curve(values) for name, values in run.curves._asdict().items()},
        "before": rounded(run.before[:DRAWN].T, 2),
        "after": rounded(run.after[:DRAWN].T, 2),
    }


def draw(results: dict[str, Any]) -> Figure:
    """Draw the paper's figure: chains before training, after it, and what training told."""
    drawn = [record for record in results["cases"] if "drawn" in record]
    layout = ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1)
    figure = Figure(figsize=(13, 3.6 * len(drawn) + 0.5), layout=layout)
    grid = figure.add_gridspec(len(drawn), 3)
    for row, record in enumerate(drawn):
        inflation = np.array(record["seeds"][0]["inflation"])
        for column, (when, factor) in enumerate((("before", np.ones(2)), ("after", inflation))):
            panel = figure.add_subplot(grid[row, column])
            _draw_chains(panel, record, when, START_SCALE * factor)
        _draw_curves(figure, grid[row, 2].subgridspec(3, 1), record)
    handles = [
        Line2D([], [], color=DENSITY, label="density"),
        Line2D([], [], color=START, linewidth=2, label="start of the chains"),
        Line2D([], [], color=ENDS, marker="o", linestyle="", markersize=4, label="ends of chains"),
    ]
    note = Line2D([], [], linestyle="", label="contours enclose 50 % and 90 %")
    figure.legend(handles=[*handles, note], loc="outside lower center", ncols=4, frameon=False)
    return figure


def _draw_chains(
    panel: Axes, record: dict[str, Any], when: str, scale: Float[np.ndarray, " 2"]
) -> None:
    toy = TOYS[record["toy"]]
    mass = quadrature.masses(toy.log_density, toy.window)
    panel.plot(*record["drawn"][when], "o", color=ENDS, markersize=2, alpha=0.6)
    draw_density(panel, *quadrature.centres(toy.window), mass, DENSITY)
    draw_gaussian(panel, record["centre"], scale, START)
    found = record["seeds"][0][when]["total_variation"]
    panel.set_title(
        f"{record['toy']}, T = {record['transitions']}, {when} training: "
        f"total variation {found:.2f}",
        fontsize=10,
    )
    panel.set_xlim(toy.shown.left, toy.shown.right)
    panel.set_ylim(toy.shown.bottom, toy.shown.top)
    panel.tick_params(labelsize=8)


def _draw_curves(figure: Figure, grid: GridSpecFromSubplotSpec, record: dict[str, Any]) -> None:
    curves, every = record["drawn"]["curves"], record["drawn"]["every"]
    steps = every * (np.arange(len(curves["sksd"])) + 0.5)
    objective = figure.add_subplot(grid[0])
    sksd, inflation = (figure.add_subplot(grid[i], sharex=objective) for i in (1, 2))
    objective.plot(steps, curves["objective"], color=DENSITY)
    sksd.plot(steps, curves["sksd"], color=DENSITY)
    for along, name, style in zip(
        curves["inflation"], ("horizontal", "vertical"), ("-", "--"), strict=True
    ):
        inflation.plot(steps, along, style, color=START, label=name)
    inflation.set_yscale("log")
    inflation.set_yticks([1, 10, 100], ["1", "10", "100"])
    inflation.set_ylim(0.7, 200)
    inflation.legend(frameon=False, fontsize=8, loc="upper right", ncols=2)
    for panel, label in ((objective, "HMC objective"), (sksd, "SKSD"), (inflation, "inflation")):
        panel.set_ylabel(label, fontsize=9)
        panel.tick_params(labelsize=8, labelbottom=panel is inflation)
        panel.spines[["top", "right"]].set_visible(False)
    inflation.set_xlabel("training step", fontsize=9)
    figure.align_ylabels([objective, sksd, inflation])
