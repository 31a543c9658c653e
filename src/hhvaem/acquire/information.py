"""What knowing a cell of a row would tell about its targets.

Everything is a function of the draws of the row's latents given what is known of it. With the
latents h, the laws of a cell and of the targets are known in closed form, so that the joint law of
a cell x and a target y is that of a mixture,

    p(x, y | known) = mean over draws of p(x | h) p(y | x, h),

which `grid` sums over parts of both lines: no draw of x or y is made. `histogram` counts draws of x
and y in bins, which is equation 13 of the paper; `gaussian` is the reward of EDDI and VAEM, in the
encoder's latent space; `variance` is by how much the variance of the targets is expected to fall.
"""

from functools import partial
from typing import Literal, NamedTuple, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray

from hhvaem.acquire.lines import Lines, cut, masses
from hhvaem.compiling import program
from hhvaem.encoding import Cells
from hhvaem.marginals import input_widths
from hhvaem.model import Gaussian, Model, Row

Method = Literal["grid", "histogram", "gaussian", "variance"]
METHODS: tuple[Method, ...] = get_args(Method)

# Parts of the line of an asked cell, and of that of a target: of one, and of each of two. They are
# as many as the laws of cells need; a level is one part.
PARTS, TARGET_PARTS, PAIRED_PARTS = 32, 48, 16
# Pairings of chains by which the level of nothing is found.
PAIRINGS = 8
# Rows that an accelerator takes at once.
ROWS_AT_ONCE = 128


class Gains(NamedTuple):
    """What each column would tell.

    Parameters
    ----------
    raw
        As estimated from the draws.
    null
        What is in it by chance: finitely many draws always seem to know something.
    error
        The standard error of `raw`, from its spread over chains; NaN where that says nothing.
    most
        What there is to be known, where that is finite.
    """

    raw: Float[Array, "*rows columns"]
    null: Float[Array, "*rows columns"]
    error: Float[Array, "*rows columns"]
    most: Float[Array, "*rows columns"]


class Goals(NamedTuple):
    """What is asked about: how the targets lie on their lines, and their values there.

    Parameters
    ----------
    lines
        Their stretches.
    locations, means
        The mean of each target at locations, by each model, in units of the target's own standard
        deviation.
    """

    lines: Lines
    locations: Float[Array, "targets places"]
    means: Float[Array, "models targets places"]


class Views(NamedTuple):
    """What the draws of a row say of cells and, through the predictor's units, of targets.

    `base` is what the units are told, `hidden` the part of it that each column tells by not being
    known, and `known` what it would tell by each part of its line.
    """

    masses: Float[Array, "columns models draws parts"]
    base: Float[Array, "models draws units"]
    hidden: Float[Array, "columns models draws units"]
    known: Float[Array, "columns models parts units"]


@program
def gains(
    models: Model,
    rows: Row,
    positions: Float[Array, "m rows chains kept size"],
    keys: Key[Array, " rows"],
    lines: Lines,
    goals: Goals,
    method: Method,
    bins: int,
) -> Gains:
    """Estimate what each column of each row would tell; known ones tell nothing."""

    def one(each: tuple[Row, Float[Array, "m chains kept size"], PRNGKeyArray]) -> Gains:
        row, positions, key = each
        if method == "histogram":
            return _histogram(models, row, positions, key, bins)
        if method == "gaussian":
            return _gaussian(models, row, positions, key)
        return _by_parts(models, row, positions, lines, goals, method)

    each = (rows, jnp.swapaxes(positions, 0, 1), keys)
    at_once = None if jax.default_backend() == "cpu" else ROWS_AT_ONCE
    return lax.map(one, each, batch_size=at_once)


def _by_parts(
    models: Model,
    row: Row,
    positions: Float[Array, "m chains kept size"],
    lines: Lines,
    goals: Goals,
    method: Method,
) -> Gains:
    chains = positions.shape[0] * positions.shape[1]
    view = look(models, row, lax.collapse(positions, 1, 3), lines)

    def column(view: Views) -> Gains:
        answers = answered(models, view)
        if method == "variance":
            mass = lax.collapse(view.masses, 0, 2)
            return variance(mass, centred(models, answers, goals), chains)
        return information(view.masses, outcomes(models, answers, view.masses, goals.lines), chains)

    nothing = Gains(*[jnp.zeros(())] * 4)

    def step(_: None, each: tuple[Array, ...]) -> tuple[None, Gains]:
        masses, hidden, known, is_known = each
        of_one = Views(masses, view.base, hidden, known)
        # A known cell tells nothing: where rows are taken one by one, it also costs nothing.
        return None, lax.cond(is_known, lambda _: nothing, column, of_one)

    return lax.scan(step, None, (view.masses, view.hidden, view.known, row.mask))[1]


def look(
    models: Model,
    row: Row,
    positions: Float[Array, "m draws size"],
    lines: Lines,
    least: int = PARTS,
) -> Views:
    """Say what draws of a row's latents make of its cells, in parts of their lines."""
    levels = models.marginals.levels

    def laws(model: Model, position: Float[Array, " size"]) -> tuple[Array, Array, Array]:
        h = model.hierarchy.bottom(position)
        parameters = model.decoder(h)
        return (
            model.marginals.components(parameters, model.log_noise),
            model.reading(h, parameters, row),
            model.told_by_hidden(parameters),
        )

    by_draw = jax.vmap(laws, (None, 0))
    components, base, hidden = eqx.filter_vmap(by_draw)(models, positions)
    scales = jnp.exp(eqx.filter_vmap(lambda m: m.marginals.log_scale(m.log_noise))(models))
    widths = np.array(input_widths(levels))
    locations = components[..., np.cumsum(widths) - widths]
    spread = jnp.broadcast_to(scales[:, None, None], locations.shape)
    count = max(least, *levels)
    parts = cut(lax.collapse(locations, 0, 3), lax.collapse(spread, 0, 3), lines, count)

    def mass(components: Float[Array, "components inputs"], scales: Array) -> Array:
        own = partial(masses, levels, scales=scales, edges=parts.edges)
        return jax.vmap(own)(components).mean(0)

    found = jax.vmap(jax.vmap(mass, (0, None)))(components, scales)
    ordered = np.array(levels)[:, None] == 1
    points = jnp.where(ordered, parts.points, jnp.arange(count, dtype=base.dtype)[None])
    known = eqx.filter_vmap(lambda m: jax.vmap(m.told_by_known, 1)(points))(models)
    return Views(
        jnp.moveaxis(found, 2, 0), base, jnp.moveaxis(hidden, 2, 0), jnp.moveaxis(known, 2, 0)
    )


def answered(models: Model, view: Views) -> Float[Array, "m draws parts inputs"]:
    """Give the laws of the targets for each draw and part of one column's line."""
    told = (view.base - view.hidden)[:, :, None] + view.known[:, None]

    def law(model: Model, told: Float[Array, "draws parts units"]) -> Array:
        assert model.targets is not None
        return jax.vmap(jax.vmap(lambda each: _law(model, each)))(told)

    return eqx.filter_vmap(law)(models, told)


def _law(model: Model, told: Float[Array, " units"]) -> Float[Array, " inputs"]:
    """Give the law of the targets, laid out as cells are."""
    assert model.targets is not None
    return model.targets.components(model.answer(told), model.target_log_noise)[0]


class Outcome(NamedTuple):
    """The law of a target for each draw and part of a cell's line.

    Parameters
    ----------
    shares
        How it is made up of kernels: about which places on the target's line, or which level.
    kernels
        The probability of each part of the target's line about each place, by each model: with the
        noise about one place, the law about any other is that of its neighbours in shares.
    """

    shares: Float[Array, "m draws parts places"]
    kernels: Float[Array, "m places outcomes"]


def outcomes(
    models: Model,
    answers: Float[Array, "m draws parts inputs"],
    mass: Float[Array, "m draws parts"],
    lines: Lines,
) -> list[Outcome]:
    """Give the laws of the targets, in parts of their lines."""
    assert models.targets is not None
    levels = models.targets.levels
    widths = np.array(input_widths(levels))
    first = np.cumsum(widths) - widths
    count = PAIRED_PARTS if len(levels) == 2 else TARGET_PARTS
    # Where a part of the cell's line is all but impossible, what would follow does not matter.
    counts = mass > 1e-5
    found = []
    for t, number in enumerate(levels):
        own = answers[..., first[t] : first[t] + widths[t]]
        if number > 1:
            shares = jnp.concatenate([1.0 - own, own], axis=-1) if number == 2 else own
            same = jnp.broadcast_to(jnp.eye(number), (len(shares), number, number))
            found.append(Outcome(shares, same))
            continue
        line = Lines(*(part[t : t + 1] for part in lines))
        scale = jnp.exp(models.target_log_noise[:, t])
        location = own[..., 0]
        # Nothing counts where a weight of draws is for an answer that cannot be.
        low = jnp.where(counts.any(), jnp.where(counts, location, jnp.inf).min(), 0.0)
        high = jnp.where(counts.any(), jnp.where(counts, location, -jnp.inf).max(), 0.0)
        places = jnp.linspace(low, high, count)
        step = jnp.maximum((high - low) / (count - 1), 1e-6)
        # A location in between is shared by the two places beside it.
        apart = jnp.abs(jnp.clip(location, low, high)[..., None] - places[None, None, None]) / step
        edges = cut(places[:, None], jnp.full((count, 1), scale.max()), line, count).edges
        kernels = jax.vmap(_kernel, (0, None, None))(scale, places, edges)
        found.append(Outcome(jnp.maximum(1.0 - apart, 0.0), kernels))
    return found


def _kernel(
    scale: Float[Array, ""], places: Float[Array, " places"], edges: Float[Array, "one edges"]
) -> Float[Array, "places outcomes"]:
    """Give the probability of each part about each place."""

    def about(place: Float[Array, ""]) -> Float[Array, " outcomes"]:
        return masses((1,), place[None], scale[None], edges)[0]

    return jax.vmap(about)(places)


def information(mass: Float[Array, "m draws parts"], outcomes: list[Outcome], chains: int) -> Gains:
    """Give the mutual information of a cell and the targets, in nats.

    Of two targets, that of the cell and the pair. More are taken one by one, and what is told of
    each is added up. `mass` may also have draws that count more than others.
    """
    if len(outcomes) == 2:
        return _information(mass, outcomes, chains)
    found = [_information(mass, [each], chains) for each in outcomes]
    raw, null, error, most = (jnp.stack(part) for part in zip(*found, strict=True))
    return Gains(raw.sum(0), null.sum(0), jnp.sqrt((error**2).sum(0)), most.sum(0))


def _information(
    mass: Float[Array, "m draws parts"], outcomes: list[Outcome], chains: int
) -> Gains:
    draws = mass.shape[0] * mass.shape[1]
    shares, kernels = zip(*outcomes, strict=True)
    here, there = ("f", "h")[: len(shares)], ("k", "l")[: len(shares)]
    placed = ",".join(f"mdp{f}" for f in here)
    spread = ",".join(f"m{f}{k}" for f, k in zip(here, there, strict=True))
    at, to = "".join(here), "".join(there)

    joint = jnp.einsum(f"mdp,{placed}->mp{at}", mass, *shares) / draws
    joint = jnp.einsum(f"mp{at},{spread}->p{to}", joint, *kernels).reshape(mass.shape[2], -1)
    ratio = _ratio(joint)
    # How the estimate changes with the weight of a draw is this sum: an infinitesimal jackknife.
    shape = tuple(kernel.shape[2] for kernel in kernels)
    worth = jnp.einsum(f"p{to},{spread}->mp{at}", ratio.reshape(-1, *shape), *kernels)
    each = jnp.einsum(f"mdp,{placed},mp{at}->md", mass, *shares, worth)

    weight = jnp.maximum(mass.sum(2, keepdims=True), 1e-30)
    alone = jnp.einsum(f"mdp,{placed}->md{at}", mass / weight, *shares)
    alone = jnp.einsum(f"md{at},{spread}->md{to}", alone, *kernels).reshape(draws, -1)
    flat = lax.collapse(mass, 0, 2)
    outcome = joint.sum(0)
    return Gains(
        (joint * ratio).sum(),
        _by_chance(flat, alone, chains),
        _error(each.reshape(chains, -1).mean(1)),
        -(outcome * _log(outcome)).sum(),
    )


def _by_chance(
    mass: Float[Array, "draws parts"], alone: Float[Array, "draws outcomes"], chains: int
) -> Float[Array, ""]:
    """Give how much of an estimated information is there by chance.

    With cells paired with the targets of other chains, all of what is found is. It comes from the
    few draws that speak for each part, as far as these disagree about the targets; where cell and
    targets belong together they agree, and there is less of it in the same proportion. To second
    order, what chance adds is half the variance of an outcome's probability over that probability.
    """
    share = mass.sum(0)
    weight = mass / jnp.maximum(share, 1e-30)[None]
    squares = weight**2

    def disagreement(alone: Float[Array, "draws outcomes"]) -> Float[Array, ""]:
        expected = weight.T @ alone
        inverse = jnp.where(expected > 1e-12, 1 / jnp.maximum(expected, 1e-12), 0.0)
        return (share * (((squares.T @ alone**2) * inverse).sum(1) - squares.sum(0))).sum()

    others = [jnp.roll(alone, shift, axis=0) for shift in _shifts(chains, len(mass))]
    if not others:
        return jnp.zeros(())
    found = jnp.stack([_mutual(mass.T @ other / len(mass)) for other in others]).mean()
    apart = jnp.stack([disagreement(other) for other in others]).mean()
    return found * jnp.clip(disagreement(alone) / jnp.maximum(apart, 1e-30), 0.0, 1.0)


def centred(
    models: Model, answers: Float[Array, "m draws parts inputs"], goals: Goals
) -> Float[Array, "all_draws parts values"]:
    """Give the means of the targets: of numbers in standard deviations, of levels their shares."""
    assert models.targets is not None
    levels = models.targets.levels
    widths = input_widths(levels)
    column = np.repeat(np.arange(len(levels)), widths)

    def value(answers: Float[Array, "draws parts inputs"], means: Array) -> Array:
        parts = [
            jnp.interp(answers[..., i], goals.locations[t], means[t])
            if levels[t] == 1
            else answers[..., i]
            for i, t in enumerate(column)
        ]
        return jnp.stack(parts, axis=-1)

    return lax.collapse(jax.vmap(value)(answers, goals.means), 0, 2)


def variance(
    mass: Float[Array, "draws parts"], values: Float[Array, "draws parts values"], chains: int
) -> Gains:
    """Give by how much the variance of the targets is expected to fall, summed over values."""
    weight = mass[..., None]
    size = len(mass)

    share = mass.sum(0)
    own = (mass / jnp.maximum(share, 1e-30)[None])[..., None]
    by_part = (own * values).sum(0)
    mean = (weight * values).sum((0, 1)) / size
    raw = ((share / size)[:, None] * (by_part - mean[None]) ** 2).sum()
    # The derivative of the fall by the weight of a draw.
    each = (weight * (2 * (by_part - mean[None])[None] * values - by_part[None] ** 2)).sum((1, 2))
    # The variances of the means of parts, and of the whole: what chance adds to their squares.
    squares = own**2
    spread = (squares * (values - by_part[None]) ** 2).sum((0, 2))
    spread = spread / jnp.maximum(1.0 - squares.sum((0, 2)), 0.1)
    whole = (((weight * values).sum(1) - mean[None]) ** 2).sum() / size**2
    return Gains(
        raw,
        (share / size * spread).sum() - whole,
        _error(each.reshape(chains, -1).mean(1)),
        jnp.full((), jnp.inf),
    )


class Pairs(NamedTuple):
    """A draw of each column's cell, and of the targets if that cell were known."""

    cells: Float[Array, "draws columns"]
    targets: Float[Array, "draws columns targets"]


def pairs(
    model: Model, row: Row, positions: Float[Array, "draws size"], key: PRNGKeyArray
) -> Pairs:
    """Draw cells, each with targets from the joint law of both."""
    assert model.targets is not None
    targets = model.targets

    def one(position: Float[Array, " size"], key: PRNGKeyArray) -> tuple[Array, Array]:
        cell_key, target_key = jax.random.split(key)
        h = model.hierarchy.bottom(position)
        parameters = model.decoder(h)
        cells = model.marginals.sample(parameters, model.log_noise, key=cell_key)
        told = model.reading(h, parameters, row)[None] - model.told_by_hidden(parameters)
        told = told + model.told_by_known(cells)

        def target(told: Float[Array, " units"], key: PRNGKeyArray) -> Array:
            return targets.sample(model.answer(told), model.target_log_noise, key=key)

        return cells, jax.vmap(target)(told, jax.random.split(target_key, len(cells)))

    return Pairs(*jax.vmap(one)(positions, jax.random.split(key, len(positions))))


def _histogram(
    models: Model,
    row: Row,
    positions: Float[Array, "m chains kept size"],
    key: PRNGKeyArray,
    bins: int,
) -> Gains:
    """Count draws in bins of equal width between the least and the greatest (equation 13)."""
    chains = positions.shape[0] * positions.shape[1]
    keys = jax.random.split(key, len(positions))
    drawn = eqx.filter_vmap(lambda model, at, key: pairs(model, row, at, key))(
        models, lax.collapse(positions, 1, 3), keys
    )
    cells, targets = (lax.collapse(part, 0, 2) for part in drawn)
    assert models.targets is not None
    goals = models.targets.levels
    count = max(bins, *models.marginals.levels)

    def column(x: Float[Array, " draws"], y: Array, levels: Int[Array, ""]) -> Gains:
        mass = _counted(x, levels, bins, count)
        own = [_counted(y[:, t], jnp.array(n), bins, max(bins, n)) for t, n in enumerate(goals)]
        # The joint bins of all targets, in full.
        joint = own[0]
        for other in own[1:]:
            joint = (joint[:, :, None] * other[:, None]).reshape(len(joint), -1)
        shares = jnp.broadcast_to(joint[:, None], (*mass.shape, joint.shape[1]))
        same = jnp.eye(joint.shape[1])
        found = _information(mass[None], [Outcome(shares[None], same[None])], chains)
        # With a bin for each draw, all have the same part in the estimate, whatever it is worth.
        enough = len(x) > jnp.where(levels == 1, bins, levels)
        return found._replace(error=jnp.where(enough, found.error, jnp.nan))

    each = (cells.T, jnp.swapaxes(targets, 0, 1), jnp.array(models.marginals.levels))
    found = jax.vmap(column)(*each)
    # The paper's has no correction for what chance makes of few draws.
    return found._replace(null=jnp.zeros_like(found.raw))


def _counted(
    x: Float[Array, " draws"], levels: Int[Array, ""], bins: int, count: int
) -> Float[Array, "draws count"]:
    """Say in which bin each draw is: a level is one."""
    low, high = x.min(), x.max()
    place = (x - low) / jnp.maximum(high - low, 1e-30) * bins
    number = jnp.clip(jnp.floor(place), 0, bins - 1)
    at = jnp.where(levels == 1, number, x).astype(jnp.int32)
    return jax.nn.one_hot(at, count, dtype=x.dtype)


def _gaussian(
    models: Model, row: Row, positions: Float[Array, "m chains kept size"], key: PRNGKeyArray
) -> Gains:
    """Give the reward of EDDI (Ma et al. 2019) and VAEM (Ma et al. 2020).

    How far an answer moves the encoder's law of the latents, less how far it would with the targets
    known, on average over answers and targets.
    """
    columns = len(models.marginals.levels)
    keys = jax.random.split(key, len(positions))

    def by_model(model: Model, positions: Array, key: PRNGKeyArray) -> Array:
        drawn = pairs(model, row, positions, key)
        before = model.encode(model.see(row))

        def one(cells: Array, targets: Array) -> Array:
            def column(j: Int[Array, ""], target: Float[Array, " targets"]) -> Array:
                this = jnp.arange(columns) == j
                point = jnp.where(this, cells, row.cells.point)
                known = row._replace(
                    cells=Cells(
                        jnp.where(this, cells, row.cells.low),
                        jnp.where(this, cells, row.cells.high),
                        point,
                    ),
                    mask=row.mask | this,
                )
                moved = divergence(model.encode(model.see(known)), before)
                sure, both = (_with_target(each, target) for each in (row, known))
                after = divergence(model.encode(model.see(both)), model.encode(model.see(sure)))
                return moved - after

            return jax.vmap(column)(jnp.arange(columns), targets)

        return jax.vmap(one)(*drawn)

    found = eqx.filter_vmap(by_model)(models, lax.collapse(positions, 1, 3), keys)
    chains = positions.shape[0] * positions.shape[1]
    each = found.reshape(chains, -1, columns).mean(1)
    return Gains(
        each.mean(0),
        jnp.zeros(columns),
        jax.vmap(_error, 1)(each),
        jnp.full(columns, jnp.inf),
    )


def _with_target(row: Row, target: Float[Array, " targets"]) -> Row:
    cells = Cells(target, target, target)
    return row._replace(target=cells, target_mask=jnp.ones_like(row.target_mask))


def divergence(p: Gaussian, q: Gaussian) -> Float[Array, ""]:
    """Give KL(p || q)."""
    ratio = p.log_scale - q.log_scale
    apart = (p.mean - q.mean) * jnp.exp(-q.log_scale)
    return (0.5 * (jnp.exp(2 * ratio) + apart**2 - 1) - ratio).sum()


def _mutual(joint: Float[Array, "parts outcomes"]) -> Float[Array, ""]:
    return (joint * _ratio(joint)).sum()


def _ratio(joint: Float[Array, "parts outcomes"]) -> Float[Array, "parts outcomes"]:
    """Give the log of the joint law over that of independence."""
    return _log(joint) - _log(joint.sum(1, keepdims=True)) - _log(joint.sum(0, keepdims=True))


def _shifts(chains: int, draws: int) -> list[int]:
    """Give pairings of chains with others, spread over all of them, so many draws apart."""
    count = min(PAIRINGS, chains - 1)
    kept = draws // chains
    return [kept * (chains * (i + 1) // (count + 1)) for i in range(count)]


def _error(each: Float[Array, " chains"]) -> Float[Array, ""]:
    """Give the standard error of the mean of chains; NaN of a single one."""
    if len(each) == 1:
        return jnp.full((), jnp.nan)
    return jnp.sqrt(each.var(ddof=1) / len(each))


def _log(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """Give logarithms, and 0 where there is nothing: nothing has no part in a sum."""
    return jnp.where(x > 0, jnp.log(jnp.maximum(x, 1e-30)), 0.0)
