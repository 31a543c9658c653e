"""Draws of a row's latents that are carried along from one answer to the next.

After an answer the draws are weighed by how probable it was to each, drawn again by these weights,
and moved by a few transitions: chains that start where the posterior was find it again soon.
"""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray

from hhvaem.compiling import program
from hhvaem.model import Model, Row, Seen
from hhvaem.objectives import whitened
from hhvaem.posterior import Tuned, log_joint
from hhvaem.sampling import hmc, tuning

# Transitions after an answer, and leapfrog steps of each.
TRANSITIONS, LEAPFROG = 5, 5


@program
def moved(
    models: Model,
    tuned: Tuned,
    before: Row,
    after: Row,
    positions: Float[Array, "m draws size"],
    key: Key[Array, ""],
) -> tuple[Float[Array, "m draws size"], Float[Array, " m"]]:
    """Take draws given what was known before to draws given what is known after.

    Returns
    -------
    positions, effective
        The draws, and how many of the former ones these are made of in effect, by each model.
    """

    def by_model(
        model: Model, tuned: Tuned, positions: Float[Array, "draws size"], number: Int[Array, ""]
    ) -> tuple[Float[Array, "draws size"], Float[Array, ""]]:
        seen = model.see(after)
        new = after.mask & ~before.mask
        log_weights = jax.vmap(lambda at: _new_cells(model, seen, new, at))(positions)
        share = jax.nn.softmax(log_weights)
        draw_key, move_key = jax.random.split(jax.random.fold_in(key, number))
        chosen = positions[resampled(draw_key, share)]
        density, law = whitened(model, seen, partial(log_joint, model, seen))

        def move(position: Float[Array, " size"], key: PRNGKeyArray) -> Float[Array, " size"]:
            size_key, key = jax.random.split(key)
            start = (position - law.mean) / jnp.exp(law.log_scale)
            step = jnp.exp(tuned.log_step)
            sizes = tuning.jittered_steps(size_key, step, TRANSITIONS, start.size)
            noise = hmc.draw_noise(key, (TRANSITIONS,), start.size, start.dtype)
            end, _ = hmc.run_from(noise, start, density, sizes, LEAPFROG)
            return law.at(end.position)

        found = jax.vmap(move)(chosen, jax.random.split(move_key, len(chosen)))
        return found, 1.0 / (share**2).sum()

    return eqx.filter_vmap(by_model)(models, tuned, positions, jnp.arange(len(positions)))


def resampled(key: PRNGKeyArray, share: Float[Array, " draws"]) -> Int[Array, " draws"]:
    """Draw as many by their shares, each as often as its share rounded down or up."""
    count = len(share)
    places = (jnp.arange(count, dtype=share.dtype) + jax.random.uniform(key)) / count
    found = jnp.searchsorted(jnp.cumsum(share), places)
    return jnp.minimum(found, count - 1)


def _new_cells(
    model: Model, seen: Seen, new: Array, position: Float[Array, " size"]
) -> Float[Array, ""]:
    cells, _ = model.cell_log_probs(position, seen, with_target=False)
    return jnp.where(new, cells, 0.0).sum()
