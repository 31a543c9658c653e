"""Draws of a row's latents given its observed cells, and what they say of all its cells.

Everything is one compiled program for rows in chunks of one size. What is random in a row comes
from the row's own key, so that it does not matter which rows are beside it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple, TypeVar, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray

from hhvaem.compiling import each_model, in_groups, program
from hhvaem.devices import divided
from hhvaem.model import Gaussian, Model, Row, Seen
from hhvaem.objectives import Sampler, whitened
from hhvaem.sampling import annealing, diagnostics, hmc, tuning
from hhvaem.steps import Data

Posterior = Literal["hmc", "encoder", "importance"]
POSTERIORS: tuple[Posterior, ...] = get_args(Posterior)

T = TypeVar("T")

# Draws of the encoder for each draw that importance weights leave.
CANDIDATES = 10
# The step size is found on so many rows and chains of each, in so many transitions from a start
# that is small in whitened coordinates.
TUNED_ROWS, TUNED_CHAINS, TUNED_TRANSITIONS, FIRST_STEP = 64, 4, 100, 0.1


class Tuned(NamedTuple):
    """One step size for all rows, in coordinates whitened by the encoder: the default sampler."""

    log_step: Float[Array, "*models"]


@dataclass(frozen=True)
class How:
    """How draws are made.

    Parameters
    ----------
    posterior
        By chains (`hmc`), from the encoder alone, or from it by importance weights.
    chains
        Chains of each row, or independent draws.
    kept
        The last so many states of a chain are used, or so many times as many draws made.
    transitions, leapfrog
        Length of a chain, and leapfrog steps of a transition; a sampler with learned steps has a
        length of its own.
    superchains
        Into how many groups with one start each the chains fall; 0 where each has its own.
    """

    posterior: Posterior
    chains: int = 20
    kept: int = 5
    transitions: int = 10
    leapfrog: int = 5
    superchains: int = 0


class Draws(NamedTuple):
    """Positions of a row, and how the chains behaved (NaN where there are none)."""

    positions: Float[Array, "*rows chains kept size"]
    acceptance: Float[Array, "*rows"]
    divergent: Float[Array, "*rows"]
    movement: Float[Array, "*rows"]


class Laws(NamedTuple):
    """The laws of cells and targets in equal parts, as `Marginals.components` gives them."""

    cells: Float[Array, "*rows components inputs"]
    target: Float[Array, "*rows components target_inputs"]


class Cases(NamedTuple):
    """Cells and targets drawn together, in latent units."""

    cells: Float[Array, "*rows chains columns"]
    target: Float[Array, "*rows chains targets"]


def draws(
    models: Model, samplers: Sampler | Tuned, rows: Row, keys: Key[Array, " rows"], how: How
) -> Draws:
    """Draw positions of each row by each of several models."""
    return _by_models(partial(draws_at_once, how=how), models, samplers, rows, keys)


@program
def draws_at_once(
    models: Model,
    samplers: Sampler | Tuned,
    numbers: Int[Array, " models"],
    rows: Row,
    keys: Key[Array, " rows"],
    how: How,
) -> Draws:
    """Do as `draws` by some models of these numbers, in one program."""

    def one(model: Model, sampler: Sampler | Tuned, row: Row, key: PRNGKeyArray) -> Draws:
        return draw(model, sampler, model.see(row), how, key=key)

    return _over(one, models, samplers, numbers, rows, keys)


@program
def laws(models: Model, rows: Row, positions: Float[Array, "m rows chains kept size"]) -> Laws:
    """Give the laws of all cells of each row at its positions, by each of several models."""

    def one(model: Model, row: Row, positions: Float[Array, "chains kept size"]) -> Laws:
        def at(position: Float[Array, " size"]) -> Laws:
            parameters, target = _outputs(model, row, position)
            cells = model.marginals.components(parameters, model.log_noise)
            if model.targets is None:
                return Laws(cells, jnp.zeros((1, 0)))
            return Laws(cells, model.targets.components(target, model.target_log_noise))

        parts = jax.vmap(jax.vmap(at))(positions)
        return jax.tree.map(lambda part: lax.collapse(part, 0, 3), parts)

    def by_model(model: Model, positions: Float[Array, "rows chains kept size"]) -> Laws:
        return jax.vmap(partial(one, model))(rows, positions)

    return eqx.filter_vmap(by_model)(models, positions)


@program
def cases(
    models: Model,
    rows: Row,
    positions: Float[Array, "m rows chains kept size"],
    keys: Key[Array, " rows"],
) -> Cases:
    """Draw all cells of each row once for each chain, from where it ends, by each of models."""

    def one(model: Model, row: Row, ends: Float[Array, "chains size"], key: PRNGKeyArray) -> Cases:
        # Not the key that the chains were made with.
        keys = jax.random.split(jax.random.fold_in(key, 1), len(ends))
        return jax.vmap(partial(case, model, row))(ends, keys)

    def by_model(
        model: Model, positions: Float[Array, "rows chains kept size"], number: Int[Array, ""]
    ) -> Cases:
        own = jax.vmap(lambda key: jax.random.fold_in(key, number))(keys)
        return jax.vmap(partial(one, model))(rows, positions[:, :, -1], own)

    return eqx.filter_vmap(by_model)(models, positions, jnp.arange(len(positions)))


def case(model: Model, row: Row, position: Float[Array, " size"], key: PRNGKeyArray) -> Cases:
    """Draw all cells and targets of a row at a position."""
    cell_key, target_key = jax.random.split(key)
    parameters, law = _outputs(model, row, position)
    cells = model.marginals.sample(parameters, model.log_noise, key=cell_key)
    if model.targets is None:
        return Cases(cells, jnp.zeros(0))
    return Cases(cells, model.targets.sample(law, model.target_log_noise, key=target_key))


@program
def worst_rhat(
    positions: Float[Array, "m rows chains kept size"], superchains: int
) -> Float[Array, "m rows"]:
    """Give the nested R-hat of each row's last positions, of its worst direction."""

    def one(ends: Float[Array, "chains size"]) -> Float[Array, ""]:
        grouped = ends.reshape(superchains, -1, 1, ends.shape[-1])
        return diagnostics.nested_rhat(grouped).max()

    return jax.vmap(jax.vmap(one))(positions[..., -1, :])


def evidence(
    models: Model, samplers: Tuned, rows: Row, keys: Key[Array, " rows"], how: How
) -> annealing.Estimate:
    """Estimate log p(observed cells) of each row by each of models, in latent units.

    Annealed importance sampling from the encoder to the posterior, `how.transitions` temperatures
    and `how.chains` chains; the value is low by less than half of its squared standard error.
    """
    return _by_models(partial(_evidence, how=how), models, samplers, rows, keys)


@program
def _evidence(
    models: Model,
    samplers: Tuned,
    numbers: Int[Array, " models"],
    rows: Row,
    keys: Key[Array, " rows"],
    how: How,
) -> annealing.Estimate:
    def one(model: Model, sampler: Tuned, row: Row, key: PRNGKeyArray) -> annealing.Estimate:
        return log_evidence(model, sampler, model.see(row), _log_joint_of_cells, how, key=key)

    return _over(one, models, samplers, numbers, rows, keys)


def log_evidence(
    model: Model,
    sampler: Tuned,
    seen: Seen,
    log_joint: Callable[[Model, Seen, Float[Array, " size"]], Float[Array, ""]],
    how: How,
    *,
    key: PRNGKeyArray,
) -> annealing.Estimate:
    """Estimate log p(observed cells) of a row, where `log_joint` is that of cells and position."""
    density, _ = whitened(model, seen, partial(log_joint, model, seen))
    start_key, key = jax.random.split(key)
    starts = jax.random.normal(start_key, (how.chains, model.hierarchy.size))
    temperatures = annealing.sigmoid_temperatures(how.transitions)
    sizes = jnp.full((how.transitions, model.hierarchy.size), jnp.exp(sampler.log_step))

    def weight(key: PRNGKeyArray, start: Float[Array, " size"]) -> Float[Array, ""]:
        state, _ = annealing.forward(
            key, start, annealing.standard_normal, density, temperatures, sizes, how.leapfrog
        )
        return state.log_weight

    weights = jax.vmap(weight)(jax.random.split(key, how.chains), starts)
    estimate = annealing.log_mean_exp(weights)
    # Nothing observed has probability one, whatever the encoder thinks of it.
    return jax.tree.map(lambda part: jnp.where(seen.row.mask.any(), part, 0.0), estimate)


def tune(models: Model, data: Data, keys: Key[Array, " models"]) -> Tuned:
    """Find the step size of each model by dual averaging, over rows of its table."""
    return in_groups(_tune, models, data, keys)


@program
def _tune(models: Model, data: Data, keys: Key[Array, " models"]) -> Tuned:
    def one(model: Model, data: Data, key: PRNGKeyArray) -> Float[Array, ""]:
        row_key, start_key, key = jax.random.split(key, 3)
        share = jax.random.uniform(row_key, (TUNED_ROWS,))
        chosen = (share * data.rows.astype(share.dtype)).astype(jnp.int32)
        rows = jax.tree.map(lambda leaf: leaf[chosen], data.table)
        # Chains look at no target, and so must the encoder that whitens them.
        rows = rows._replace(target_mask=jnp.zeros_like(rows.target_mask))
        seen = jax.vmap(model.see)(rows)

        def density(seen: Seen, position: Float[Array, " size"]) -> Float[Array, ""]:
            return whitened(model, seen, partial(log_joint, model, seen))[0](position)

        shape = (TUNED_ROWS, TUNED_CHAINS, model.hierarchy.size)
        starts = jax.random.normal(start_key, shape)

        def start(seen: Seen, position: Float[Array, " size"]) -> hmc.State:
            return hmc.init(position, partial(density, seen))

        states = jax.vmap(jax.vmap(start, (None, 0)))(seen, starts)
        averaging = tuning.averaging_init(jnp.log(FIRST_STEP))
        (_, averaging), _ = tuning.adapt_rows(
            key, states, averaging, density, seen, How("hmc").leapfrog, TUNED_TRANSITIONS
        )
        return tuning.averaging_final(averaging)

    return Tuned(each_model(one, models, data, keys))


def draw(
    model: Model, sampler: Sampler | Tuned, seen: Seen, how: How, *, key: PRNGKeyArray
) -> Draws:
    """Draw positions given the observed cells of a row, whose targets are not looked at.

    Where nothing is observed, the posterior is the prior and drawn from exactly.
    """
    empty_key, key = jax.random.split(key)
    draws = _drawn(model, sampler, seen, how, key)
    prior = jax.random.normal(empty_key, draws.positions.shape)
    return draws._replace(positions=jnp.where(seen.row.mask.any(), draws.positions, prior))


def _drawn(
    model: Model, sampler: Sampler | Tuned, seen: Seen, how: How, key: PRNGKeyArray
) -> Draws:
    law = model.encode(seen)
    shape, nan = (how.chains, how.kept, model.hierarchy.size), jnp.array(jnp.nan)
    if how.posterior == "encoder":
        noise = jax.random.normal(key, shape)
        return Draws(jax.vmap(jax.vmap(law.at))(noise), nan, nan, nan)
    if how.posterior == "importance":
        return Draws(_resampled(model, seen, law, shape, key), nan, nan, nan)
    start_key, move_key = jax.random.split(key)
    groups = how.superchains or how.chains
    noise = jax.random.normal(start_key, (groups, model.hierarchy.size))
    noise = jnp.repeat(noise, how.chains // groups, axis=0)
    run = partial(_chain, model, sampler, seen, law, how)
    starts, positions, info = jax.vmap(run)(jax.random.split(move_key, how.chains), noise)
    moved = jax.vmap(diagnostics.movement, (0, 0, None))(starts, positions[:, -1], law.log_scale)
    divergent = info.divergent.mean(dtype=noise.dtype)
    return Draws(positions, info.acceptance.mean(), divergent, moved.mean())


def _chain(
    model: Model,
    sampler: Sampler | Tuned,
    seen: Seen,
    law: Gaussian,
    how: How,
    key: PRNGKeyArray,
    noise: Float[Array, " size"],
) -> tuple[Float[Array, " size"], Float[Array, "kept size"], hmc.Info]:
    """Run one chain, and give its start and its last positions."""
    jitter_key, key = jax.random.split(key)
    if isinstance(sampler, Tuned):
        density, _ = whitened(model, seen, partial(log_joint, model, seen))
        step = jnp.exp(sampler.log_step)
        sizes = tuning.jittered_steps(jitter_key, step, how.transitions, noise.size)
        start = noise
    else:
        density = partial(log_joint, model, seen)
        log_scale = law.log_scale + sampler.log_inflation[model.hierarchy.layer_of]
        start, sizes = Gaussian(law.mean, log_scale).at(noise), jnp.exp(sampler.log_steps)

    moves = hmc.draw_noise(key, (len(sizes),), noise.size, noise.dtype)
    _, (positions, info) = hmc.run_from(moves, start, density, sizes, how.leapfrog)
    back = law.at if isinstance(sampler, Tuned) else _itself
    return back(start), jax.vmap(back)(positions[-how.kept :]), info


def _itself(position: Float[Array, " size"]) -> Float[Array, " size"]:
    return position


def _resampled(
    model: Model, seen: Seen, law: Gaussian, shape: tuple[int, ...], key: PRNGKeyArray
) -> Float[Array, "chains kept size"]:
    """Draw from the encoder, and of these draws by their importance weights."""
    normal_key, choice_key = jax.random.split(key)
    noise = jax.random.normal(normal_key, (CANDIDATES * shape[0] * shape[1], shape[2]))
    density, _ = whitened(model, seen, partial(log_joint, model, seen))
    log_weights = jax.vmap(lambda u: density(u) - annealing.standard_normal(u))(noise)
    chosen = jax.random.categorical(choice_key, log_weights, shape=shape[:2])
    return jax.vmap(jax.vmap(law.at))(noise[chosen])


def log_joint(model: Model, seen: Seen, position: Float[Array, " size"]) -> Float[Array, ""]:
    """Give log p(observed cells, position): what chains of a row without targets look at."""
    return model.log_joint(position, seen, with_target=False)


def _log_joint_of_cells(
    model: Model, seen: Seen, position: Float[Array, " size"]
) -> Float[Array, ""]:
    """Give log p(observed cells, position), where a column VAE's z is integrated over."""
    parameters = model.decoder(model.hierarchy.bottom(position))
    cells = model.marginals.log_prob(parameters, model.log_noise, seen.row.cells)
    prior = model.hierarchy.log_prior(position).sum()
    return prior + jnp.where(seen.row.mask, cells, 0.0).sum()


def _outputs(
    model: Model, row: Row, position: Float[Array, " size"]
) -> tuple[Float[Array, " parameters"], Float[Array, " target"]]:
    """Give the parameters of the laws of cells and targets."""
    h = model.hierarchy.bottom(position)
    parameters = model.decoder(h)
    return parameters, jnp.zeros(0) if model.targets is None else model.predict(h, parameters, row)


def _by_models(
    run: Callable[..., T],
    models: Model,
    samplers: Sampler | Tuned,
    rows: Row,
    keys: Key[Array, " rows"],
) -> T:
    """Run a program of models that all look at the same rows."""
    numbers = jnp.arange(len(models.log_noise))
    return in_groups(partial(run, rows=rows, keys=keys), models, samplers, numbers)


def _over(
    one: Callable[[Model, Any, Row, PRNGKeyArray], T],
    models: Model,
    samplers: Sampler | Tuned,
    numbers: Int[Array, " models"],
    rows: Row,
    keys: Key[Array, " rows"],
) -> T:
    """Do something for each row by each model, with a key for each pair."""
    rows, keys = divided((rows, keys))

    def by_model(model: Model, sampler: Sampler | Tuned, number: Int[Array, ""]) -> T:
        def by_row(row: Row, key: PRNGKeyArray) -> T:
            return one(model, sampler, row, jax.random.fold_in(key, number))

        return jax.vmap(by_row)(rows, keys)

    return each_model(by_model, models, samplers, numbers)
