"""What several cells of a row would tell together, and what one is worth as a first of two.

Both weigh the draws that there are by how well they agree with hypothetical answers: no chain is
run again.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Key

from hhvaem.acquire.information import (
    Gains,
    Goals,
    Views,
    answered,
    information,
    look,
    outcomes,
)
from hhvaem.acquire.lines import Lines
from hhvaem.compiling import program
from hhvaem.model import Model, Row

# Parts of the lines of both cells when two questions are thought of.
FORESEEN = 8
# With fewer draws left in effect, what comes after an answer is not known.
FEWEST = 8.0


@program
def together(
    models: Model,
    row: Row,
    positions: Float[Array, "m chains kept size"],
    key: Key[Array, ""],
    sets: Bool[Array, "sets columns"],
    lines: Lines,
    goals: Goals,
) -> Gains:
    """Estimate what each set of columns would tell together, in nats.

    Answers to all columns are drawn from each draw of the latents, in parts of the columns' lines;
    draws are then weighed by the probability that they give to each of these answers.
    """
    chains = positions.shape[0] * positions.shape[1]
    view = look(models, row, lax.collapse(positions, 1, 3), lines)
    log_mass = jnp.log(jnp.maximum(lax.collapse(view.masses, 1, 3), 1e-30))
    drawn = jax.random.categorical(key, log_mass)  # columns, draws
    agreement = jnp.take_along_axis(log_mass, drawn[:, None], axis=2)  # columns, draws, answers
    known = jax.vmap(lambda told, at: told[:, at])(view.known, drawn)

    def step(_: None, chosen: Bool[Array, " columns"]) -> tuple[None, Gains]:
        share = chosen.astype(agreement.dtype)
        weight = jax.nn.softmax(jnp.einsum("c,cda->da", share, agreement), axis=0)
        mass = weight.reshape(*view.base.shape[:2], -1)
        told = Views(
            mass,
            view.base,
            jnp.einsum("c,cmdu->mdu", share, view.hidden),
            jnp.einsum("c,cmau->mau", share, known),
        )
        laws = outcomes(models, answered(models, told), mass, goals.lines)
        return None, information(mass, laws, chains)

    return lax.scan(step, None, sets)[1]


class Prospects(NamedTuple):
    """What each pair of a first and a second question is worth.

    Parameters
    ----------
    chance
        Of each first column, the probability of each hypothetical answer.
    then
        What each second column would tell after that answer, less the level of nothing.
    effective
        Draws that are left in effect after it.
    """

    chance: Float[Array, "columns answers"]
    then: Float[Array, "columns answers columns"]
    effective: Float[Array, "columns answers"]


@program
def prospects(
    models: Model,
    row: Row,
    positions: Float[Array, "m chains kept size"],
    lines: Lines,
    goals: Goals,
) -> Prospects:
    """Estimate what every column would tell after every answer to every other one."""
    chains = positions.shape[0] * positions.shape[1]
    view = look(models, row, lax.collapse(positions, 1, 3), lines, FORESEEN)
    columns = (view.masses, view.hidden, view.known)

    def after(first: tuple[Array, Array, Array], answer: Array) -> tuple[Array, Array, Array]:
        mass, hidden, known = first
        own = mass[..., answer]
        chance = own.mean()
        weight = own / jnp.maximum(chance, 1e-30)
        base = view.base - hidden + known[:, None, answer]

        def step(_: None, second: tuple[Array, Array, Array]) -> tuple[None, Array]:
            of_one = Views(second[0], base, second[1], second[2])
            mass = second[0] * weight[..., None]
            laws = outcomes(models, answered(models, of_one), mass, goals.lines)
            gains = information(mass, laws, chains)
            return None, jnp.clip(gains.raw - gains.null, 0.0, None)

        then = lax.scan(step, None, columns)[1]
        return chance, then, weight.size / jnp.maximum((weight**2).mean(), 1.0)

    def by_first(first: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        return lax.map(lambda answer: after(first, answer), jnp.arange(first[2].shape[1]))

    return Prospects(*lax.map(by_first, columns))
