"""Models of which it is known what a cell of a row would tell about its targets.

Their networks are made by hand, and what is true of them is found by sums over fine grids of
latents, cells and targets, with nothing of the estimators in them.
"""

from functools import cache
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import qmc
from targets import linear, linear_layer

from hhvaem.acquire.information import Gains, Goals, Method, gains
from hhvaem.acquire.lines import Lines, lines
from hhvaem.encoding import Cells, Encoding
from hhvaem.likelihoods import Binary, Categorical, Ordered
from hhvaem.marginals import Direct, input_widths
from hhvaem.model import Model, Row
from hhvaem.networks import Dense, Perceptron
from hhvaem.warps import EDGE, Affine

# Parts of the lines of a cell and of a target, and latents, over which truths are summed.
CELL_EDGES = np.linspace(-8.0, 8.0, 161)
TARGET_PARTS, PAIRED_PARTS = 240, 80
TARGET_ENDS = (-8.0, 16.0)
LATENTS = {1: 401, 2: 41}
# With it in both, x = h + noise tells 0.559 nats of y = h^2 + noise.
NOISE_OF_SQUARE = 0.316


def direct(levels: tuple[int, ...]) -> Direct:
    return Direct(levels, jnp.zeros(sum(input_widths(levels))))


def made(
    levels: tuple[int, ...],
    targets: tuple[int, ...],
    decoder: Perceptron,
    predictor: Perceptron,
    noise: np.ndarray,
    target_noise: np.ndarray,
) -> Model:
    """A model with one layer of latents and these networks and standard deviations."""
    latents = len(decoder.layers[0].weight)
    model = Model.init(direct(levels), direct(targets), (latents,), hidden=4, key=jax.random.key(0))
    noises = (jnp.asarray(np.log(each), jnp.float32) for each in (noise, target_noise))
    return eqx.tree_at(
        lambda m: (m.decoder, m.predictor, m.log_noise, m.target_log_noise),
        model,
        (decoder, predictor, *noises),
    )


def stacked(models: list[Model]) -> Model:
    arrays = [eqx.partition(model, eqx.is_array)[0] for model in models]
    rest = eqx.partition(models[0], eqx.is_array)[1]
    return eqx.combine(jax.tree.map(lambda *leaves: jnp.stack(leaves), *arrays), rest)


def nothing_known(model: Model) -> Row:
    """A row of the model's columns in which nothing is observed."""

    def hidden(count: int) -> tuple[Cells, jax.Array]:
        return Cells(*[jnp.zeros(count)] * 3), jnp.zeros(count, bool)

    assert model.targets is not None
    return Row(*hidden(len(model.marginals.levels)), *hidden(len(model.targets.levels)))


def with_cell(row: Row, column: int, point: jax.Array) -> Row:
    """The row with one cell more."""
    this = jnp.arange(row.mask.size) == column
    return row._replace(
        cells=Cells(*(jnp.where(this, point, part) for part in row.cells)), mask=row.mask | this
    )


def plain(levels: tuple[int, ...]) -> Encoding:
    """Laws of numbers that are what they are, and of levels."""
    laws = {1: Ordered(Affine(0.0, 1.0)), 2: Binary()}
    return Encoding(tuple(laws.get(count) or Categorical(count) for count in levels))


def goals(models: Model, encoding: Encoding | None = None) -> Goals:
    """What is asked about targets that are their latent numbers, but for their stretches."""
    assert models.targets is not None
    levels = models.targets.levels
    at = jnp.tile(jnp.linspace(-12.0, 12.0, 513), (len(levels), 1))
    means = jnp.tile(at, (len(models.log_noise), 1, 1))
    return Goals(lines(encoding or plain(levels), len(levels)), at, means)


def normal_draws(count: int, latents: int, seed: int = 0) -> np.ndarray:
    """Standard normal draws that are spread more evenly than by chance; a power of two of them."""
    even = qmc.Sobol(latents, seed=np.random.default_rng(seed)).random(count)
    return ndtri(np.clip(even, 1e-6, 1 - 1e-6))


def estimated(
    models: list[Model],
    positions: np.ndarray,
    method: Method = "grid",
    row: Row | None = None,
    of_columns: Lines | None = None,
    of_targets: Encoding | None = None,
    key: jax.Array | None = None,
) -> Gains:
    """What the estimators say, from positions [repeats, draws, latents] of every model alike.

    One draw of each chain.
    """
    several = stacked(models)
    row = nothing_known(models[0]) if row is None else row
    repeats = len(positions)
    rows = jax.tree.map(lambda leaf: jnp.stack([leaf] * repeats), row)
    levels = models[0].marginals.levels
    at = jnp.asarray(positions, jnp.float32)[None, :, :, None]
    found = gains(
        several,
        rows,
        jnp.concatenate([at] * len(models)),
        jax.random.split(jax.random.key(0) if key is None else key, repeats),
        lines(plain(levels), len(levels)) if of_columns is None else of_columns,
        goals(several, of_targets),
        method,
        5,
    )
    return Gains(*(np.asarray(part, np.float64) for part in found))


def mutual(joint: np.ndarray) -> float:
    """The mutual information of the first axis of a table and all others, in nats."""
    table = joint.reshape(len(joint), -1)
    table = table / table.sum()
    apart = table.sum(1, keepdims=True) * table.sum(0, keepdims=True)
    some = (table > 0) & (apart > 0)
    return float((table[some] * np.log(table[some] / apart[some])).sum())


class Shown(NamedTuple):
    """What can be read off a cell: stretches of its line, and what a network is told of each."""

    low: np.ndarray
    high: np.ndarray
    point: np.ndarray


def shown(law: Ordered | None = None, values: np.ndarray | None = None) -> Shown:
    """Fine parts of a line, but whole stretches of values that have one."""
    edges = np.concatenate([[-EDGE], CELL_EDGES, [EDGE]])
    middle = (np.maximum(edges[:-1], edges[1]) + np.minimum(edges[1:], edges[-2])) / 2
    fine = Shown(edges[:-1], edges[1:], middle)
    if law is None or values is None:
        return fine
    encoding = Encoding((law,))
    cells = encoding.encode(values[:, None], np.ones((values.size, 1), bool))
    own = Shown(*(np.asarray(part, np.float64)[:, 0] for part in cells))
    for low, high in zip(own.low, own.high, strict=True):
        parts = [
            Shown(fine.low, np.minimum(fine.high, low), np.minimum(fine.point, low)),
            Shown(np.maximum(fine.low, high), fine.high, np.maximum(fine.point, high)),
        ]
        kept = [Shown(*(each[p.low < p.high] for each in p)) for p in parts]
        fine = Shown(*(np.concatenate(each) for each in zip(*kept, strict=True)))
    return Shown(*(np.concatenate(each) for each in zip(own, fine, strict=True)))


def all_latents(count: int) -> tuple[np.ndarray, np.ndarray]:
    """A grid of latents, and how much each of its points weighs a priori."""
    one = np.linspace(-5.0, 5.0, LATENTS[count])
    grid = np.stack(np.meshgrid(*[one] * count), axis=-1).reshape(-1, count)
    weight = np.exp(-0.5 * (grid**2).sum(1))
    return grid, weight / weight.sum()


def truth(
    models: list[Model], column: int, cells: Shown | None = None, about: tuple[int, ...] = (0,)
) -> float:
    """What a cell tells about some targets together where nothing else is known, in nats."""
    return mutual(sum(_joint(model, column, cells or shown(), about) for model in models))


def _joint(model: Model, column: int, cells: Shown, about: tuple[int, ...]) -> np.ndarray:
    levels = model.marginals.levels
    h, weight = all_latents(model.hierarchy.size)
    width = input_widths(levels)[column]
    first = sum(input_widths(levels)[:column])
    own = np.asarray(_laws(model, as_float(h)), np.float64)[:, first : first + width]
    if levels[column] == 1:
        scale = float(jnp.exp(model.log_noise[column]))
        mass = ndtr((cells.high - own) / scale) - ndtr((cells.low - own) / scale)
        points = cells.point
    else:
        mass = np.concatenate([1 - own, own], axis=1) if levels[column] == 2 else own
        points = np.arange(levels[column])
    answers = np.asarray(_answers(model, column, as_float(h), as_float(points)), np.float64)
    if len(about) == 1 and np.ptp(answers, axis=0).max() == 0:  # told through h only
        return (weight[:, None] * mass).T @ _outcomes(model, about[0], answers[0], 1)
    table = []
    for p in range(len(points)):
        parts = [_outcomes(model, target, answers[p], len(about)) for target in about]
        share = (weight * mass[:, p])[:, None] * parts[0]
        table.append(share.T @ parts[1] if len(parts) == 2 else share.sum(0))
    return np.stack(table)


@eqx.filter_jit
def _laws(model: Model, h: jax.Array) -> jax.Array:
    """The law of each cell for each h: of numbers the location, of levels the shares."""
    return jax.vmap(lambda h: model.marginals.components(model.decoder(h), model.log_noise)[0])(h)


@eqx.filter_jit
def _answers(model: Model, column: int, h: jax.Array, points: jax.Array) -> jax.Array:
    """The law of the targets where a cell is known to be each of these points, for each h."""
    assert model.targets is not None
    row = nothing_known(model)

    def law(point: jax.Array, h: jax.Array) -> jax.Array:
        known = with_cell(row, column, point)
        told = model.predict(h, model.decoder(h), known)
        return model.targets.components(told, model.target_log_noise)[0]

    return jax.vmap(jax.vmap(law, (None, 0)), (0, None))(points, h)


def _outcomes(model: Model, target: int, answers: np.ndarray, together: int) -> np.ndarray:
    """The probability of each level of a target, or of fine parts of its line, for each h."""
    assert model.targets is not None
    levels = model.targets.levels
    first = sum(input_widths(levels)[:target])
    own = answers[:, first : first + input_widths(levels)[target]]
    if levels[target] > 1:
        return np.concatenate([1 - own, own], axis=1) if levels[target] == 2 else own
    inner = np.linspace(*TARGET_ENDS, (TARGET_PARTS if together == 1 else PAIRED_PARTS) - 1)
    edges = np.concatenate([[-np.inf], inner, [np.inf]])
    return np.diff(ndtr((edges - own) / float(jnp.exp(model.target_log_noise[target]))), axis=1)


def as_float(x: np.ndarray) -> jax.Array:
    return jnp.asarray(x, jnp.float32)


def added_up(*networks: Perceptron) -> Perceptron:
    """The sum of networks with one hidden layer each."""
    first = [network.layers[0] for network in networks]
    last = [network.layers[1] for network in networks]
    return Perceptron(
        (
            Dense(
                jnp.concatenate([each.weight for each in first], axis=1),
                jnp.concatenate([each.bias for each in first]),
            ),
            Dense(
                jnp.concatenate([each.weight for each in last]),
                jnp.stack([each.bias for each in last]).sum(0),
            ),
        )
    )


def square(inputs: int, of: int, factor: float = 1.0) -> Perceptron:
    """The square of one of the inputs, of straight pieces: h and -h, each beyond every knot."""
    knots = np.linspace(0.0, 5.0, 26)[:-1]
    slopes = np.diff((2 * knots + 0.2) * factor, prepend=0.0)
    first = np.zeros((2 * knots.size, inputs))
    first[:, of] = np.repeat([1.0, -1.0], knots.size)
    return Perceptron(
        (
            linear_layer(first, -np.tile(knots, 2)),
            linear_layer(np.tile(slopes, 2)[None], np.zeros(1)),
        )
    )


ONE = np.ones(1)


def _line(target: Perceptron, noise: float, target_noise: np.ndarray, targets: int = 1) -> Model:
    """One number, h with noise."""
    decoder = linear(np.ones((1, 1)), np.zeros(1))
    return made((1,), (targets,), decoder, target, noise * ONE, target_noise)


def _first(factor: float) -> Perceptron:
    """The first of three inputs, times a factor."""
    return linear(factor * np.eye(1, 3), np.zeros(1))


@cache
def informative() -> dict[str, Model]:
    """One column that tells of a target by a line, by a square, or of one of four classes."""
    centres = np.array([-1.8, -0.6, 0.6, 1.8])
    by_h = np.stack([1.6 * centres, 0 * centres, 0 * centres], axis=1)
    return {
        # Of the same shape, so that they share programs.
        "linear": _line(added_up(_first(1.0), square(3, 0, 0.0)), 0.8, 0.8 * ONE),
        "quadratic": _line(
            added_up(_first(0.0), square(3, 0)), NOISE_OF_SQUARE, NOISE_OF_SQUARE * ONE
        ),
        "four classes": _line(linear(by_h, -0.8 * centres**2), 0.8, ONE, 4),
    }


# Noise of ten columns: of five that are h_1, and of five that are h_2.
TEN = {
    "best by a line": (np.array([0.5, 0.9, 1.4, 2.2, 4.0]), np.array([0.5, 0.7, 1.0, 1.5, 2.5])),
    "best by a square": (np.array([1.6, 2.0, 2.5, 3.0, 4.0]), np.array([0.2, 1.0, 1.4, 2.0, 3.0])),
}


def ten_columns(noise: tuple[np.ndarray, np.ndarray]) -> Model:
    """Five columns to which a target is related by a line, and five by a square.

    y = h_1 + 0.7 h_2^2 + noise.
    """
    decoder = linear(np.repeat(np.eye(2), 5, axis=0), np.zeros(10))
    by_line = linear(np.eye(1, 22), np.zeros(1))
    predictor = added_up(by_line, square(22, 1, 0.7))
    return made((1,) * 10, (1,), decoder, predictor, np.concatenate(noise), 0.5 * ONE)
