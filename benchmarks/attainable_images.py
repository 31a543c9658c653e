"""What a plain convolutional classifier reaches of the class where half of the pixels are hidden.

    HHVAEM_DATA=folder python benchmarks/attainable_images.py

It has one task where the models of the paper have many: it sees which pixels are hidden, is trained
on the first fold of each set with other pixels hidden at every step, half of them as in the test,
and is scored on the tests of the models, by their masks. Writes
results/paper/attainable-images.json.
"""

from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, PRNGKeyArray

from hhvaem.paper.image_sets import SEED, Pile, take_image_fold
from hhvaem.paper.images import IMAGE_SETS
from hhvaem.paper.records import versions, write_json

RESULTS = Path(__file__).parents[1] / "results" / "paper" / "attainable-images.json"
EPOCHS, BATCH, RATE, SIDE, CLASSES = 12, 100, 2e-3, 28, 10


def network(key: PRNGKeyArray) -> eqx.nn.Sequential:
    """Make a network of two channels: the pixels that are seen, and which these are."""
    keys = jax.random.split(key, 4)
    relu = eqx.nn.Lambda(jax.nn.relu)
    return eqx.nn.Sequential(
        [
            eqx.nn.Conv2d(2, 32, 5, 2, 2, key=keys[0]),
            relu,
            eqx.nn.Conv2d(32, 64, 5, 2, 2, key=keys[1]),
            relu,
            eqx.nn.Lambda(jnp.ravel),
            eqx.nn.Linear(64 * 7 * 7, 256, key=keys[2]),
            relu,
            eqx.nn.Dropout(0.3),
            eqx.nn.Linear(256, CLASSES, key=keys[3]),
        ]
    )


def seen(pixels: Array, mask: Array) -> Array:
    return jnp.stack([jnp.where(mask, pixels, 0.5), mask], 1).reshape(-1, 2, SIDE, SIDE)


def trained(pile: Pile, key: PRNGKeyArray) -> eqx.nn.Sequential:
    """Train for some epochs, with a rate that falls to nothing."""
    pixels, labels = jnp.asarray(pile.pixels), jnp.asarray(pile.labels[:, 0].astype(int))
    batches = len(pixels) // BATCH
    adam = optax.adamw(optax.cosine_decay_schedule(RATE, EPOCHS * batches), weight_decay=1e-3)
    weights, rest = eqx.partition(network(key), eqx.is_array)

    def loss(weights: Any, chosen: Array, key: PRNGKeyArray) -> Array:
        hiding, dropping = jax.random.split(key)
        mask = jax.random.bernoulli(hiding, 0.5, (BATCH, pixels.shape[1]))
        model = eqx.combine(weights, rest)
        logits = jax.vmap(lambda image, key: model(image, key=key))(
            seen(pixels[chosen], mask), jax.random.split(dropping, BATCH)
        )
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels[chosen]).mean()

    def step(state: Any, told: Any) -> Any:
        weights, moments = state
        change, moments = adam.update(jax.grad(loss)(weights, *told), moments, weights)
        return (eqx.apply_updates(weights, change), moments), None

    @jax.jit
    def epoch(state: Any, key: PRNGKeyArray) -> Any:
        order, keys = jax.random.split(key)
        chosen = jax.random.permutation(order, len(pixels))[: batches * BATCH]
        told = chosen.reshape(batches, BATCH), jax.random.split(keys, batches)
        return jax.lax.scan(step, state, told)[0]

    state = weights, adam.init(weights)
    for number in range(EPOCHS):
        state = epoch(state, jax.random.fold_in(key, number))
    return eqx.nn.inference_mode(eqx.combine(state[0], rest))


def scored(model: eqx.nn.Sequential, pile: Pile) -> dict[str, float]:
    """Score the probabilities of the classes of a test."""
    logits = [
        jax.vmap(model)(seen(jnp.asarray(pixels), jnp.asarray(mask)))
        for pixels, mask in zip(
            np.array_split(pile.pixels, 20), np.array_split(pile.mask, 20), strict=True
        )
    ]
    chance = np.asarray(jax.nn.log_softmax(jnp.concatenate(logits)), np.float64)
    truth = pile.labels[:, 0].astype(int)
    return {
        "target_accuracy": round(float(np.mean(chance.argmax(1) == truth)), 4),
        "paper_nll_target": round(-float(chance[np.arange(len(truth)), truth].mean()), 4),
    }


def main() -> None:
    records = []
    for name in IMAGE_SETS:
        fold = take_image_fold(name, 0)
        model = trained(fold.train, jax.random.key(SEED))
        for test, pile in fold.tests.items():
            records.append({"table": name, "fold": 0, "test": test, **scored(model, pile)})
            print(records[-1], flush=True)
    write_json({"epochs": EPOCHS, "versions": versions(), "records": records}, RESULTS)


if __name__ == "__main__":
    main()
