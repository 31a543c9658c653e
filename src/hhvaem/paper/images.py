"""The paper's images: five models on MNIST and Fashion-MNIST, tested with half of the pixels.

A run is resumable at any moment: training goes on from its snapshot, and each test that is done
has its scores in a file beside it.
"""

import dataclasses
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from hhvaem import posterior, train
from hhvaem.errors import InputError
from hhvaem.objectives import Sampler
from hhvaem.paper import collection
from hhvaem.paper.image_sets import (
    PUBLISHED_IMAGES,
    SEED,
    ImageFold,
    PublishedImages,
    statement,
    take_image_fold,
    target_law,
)
from hhvaem.paper.image_testing import first_model, look_at, score_images
from hhvaem.paper.records import read_json, versions, write_json
from hhvaem.paper.tables import BY_DEFAULT, BY_ENCODER, Kind
from hhvaem.pixels import Pixels
from hhvaem.posterior import How, Tuned

# The published number of draws.
DRAWS = 1000
IMAGE_SETS = ("mnist", "fashion_mnist")
IMAGE_MODELS = {
    "VAE": Kind("one_layer", "gaussian"),
    "MIWAE": Kind("one_layer", "importance"),
    "H-VAE": Kind("two_layers", "gaussian"),
    "HMC-VAE": Kind("one_layer", "hmc"),
    "HH-VAE": Kind("two_layers", "hmc"),
}
# The published code decays the weights of models without chains only: here it is all or none.
IMAGE_ABLATIONS = {
    f"{name} with weight decay": kind._replace(changes={"weight_decay": 0.01})
    for name, kind in IMAGE_MODELS.items()
    if name != "MIWAE"
}
# What makes a run short.
QUICK_LIMIT, QUICK_DRAWS = 40, 10
QUICK: dict[str, Any] = {"steps": 60, "hmc_steps": 5, "warm_up": 10, "batch_size": 50, "hidden": 64}

Bar = Callable[[int], AbstractContextManager[Callable[[train.Progress], None]]]


@dataclasses.dataclass(frozen=True)
class Size:
    """How much of everything: what the paper has, or little, to try a command out."""

    published: PublishedImages
    draws: int
    limit: int | None


def size_of(name: str, *, quick: bool = False, draws: int = DRAWS) -> Size:
    """Give how much a set of images is trained and tested."""
    published = PUBLISHED_IMAGES[name]
    if not quick:
        return Size(published, draws, None)
    return Size(dataclasses.replace(published, **QUICK), min(draws, QUICK_DRAWS), QUICK_LIMIT)


def configured(published: PublishedImages, model: str) -> tuple[tuple[int, ...], train.Settings]:
    """Give the layers of one of the models, and how it is trained."""
    kind = (IMAGE_MODELS | IMAGE_ABLATIONS)[model]
    layers = published.one_layer if kind.layers == "one_layer" else published.two_layers
    return layers, dataclasses.replace(published.settings(kind.inference), **kind.changes)


def identity(name: str, model: str, size: Size) -> dict[str, Any]:
    """Give what two runs must share for their folds to stand beside each other."""
    layers, settings = configured(size.published, model)
    pictures = size.published.pictures
    return {
        "table": name,
        "model": model,
        "layers": list(layers),
        "hidden": size.published.hidden,
        "stages": [list(stage) for stage in pictures.stages],
        "settings": dataclasses.asdict(settings),
        "seed": SEED,
        "draws": size.draws,
        "used": statement(name, limit=size.limit),
    }


def identities(*, quick: bool, draws: int = DRAWS) -> list[dict[str, Any]]:
    """Give the `identity` of all that can stand beside each other, in the paper's order."""
    return [
        identity(name, model, size_of(name, quick=quick, draws=draws))
        for name in IMAGE_SETS
        for model in (*IMAGE_MODELS, *IMAGE_ABLATIONS)
    ]


@dataclasses.dataclass(frozen=True, eq=False)
class Trained:
    """A trained model of a fold, and the images that it was trained on."""

    states: train.State
    data: train.Data
    loss: float
    seconds: float


def train_images(
    fold: ImageFold,
    published: PublishedImages,
    model: str,
    work: Path,
    *,
    deadline: float = np.inf,
    tell: Callable[[train.Progress], None] | None = None,
) -> Trained | None:
    """Train one of the models on a fold, from where it was left off; None where time is up.

    Parameters
    ----------
    fold, published, model
        What to train.
    work
        The folder of its snapshot.
    deadline
        The time of `time.monotonic` at which to leave off.
    tell
        Told how far training is.
    """
    layers, settings = configured(published, model)
    pixels = Pixels.fit(fold.train.pixels.astype(np.float64), fold.train.mask)
    columns = jax.tree.map(lambda leaf: leaf[None], (pixels, target_law(fold.train)))
    states = train.untrained(
        columns,
        layers,
        settings,
        hidden=published.hidden,
        pictures=published.pictures,
        keys=_key(fold, 1)[None],
    )
    data = train.gather([fold.train.rows()])
    clock = work / "clock.json"
    before = read_json(clock) if clock.exists() else {"step": 0, "seconds": 0.0}
    started = time.monotonic()
    states, history = train.train(
        states,
        data,
        settings,
        max_seconds=None if deadline == np.inf else max(deadline - started, 0.0),
        snapshots=work,
        snapshot_seconds=60.0,
        progress=tell,
    )
    step, seconds = int(states.step[0]), float(before["seconds"])
    if step > before["step"]:  # else it was over, and only read again
        seconds = round(seconds + time.monotonic() - started, 2)
        write_json({"step": step, "seconds": seconds}, clock)
    if step < settings.steps:
        return None
    return Trained(states, data, float(history.recent_loss[0]), seconds)


def learned_way(trained: Trained, inference: str, draws: int) -> tuple[Sampler, How]:
    """Give how a model draws as it was trained to: by its learned chains, or by its encoder."""
    learned = jax.tree.map(lambda leaf: leaf[0], trained.states.sampler)
    return learned, How("hmc" if inference == "hmc" else "encoder", chains=draws, kept=1)


def _ways(
    trained: Trained, fold: ImageFold, inference: str, draws: int
) -> dict[str, tuple[Sampler | Tuned, How]]:
    """Give the ways to draw from a model: one, or with and without chains and by our default."""
    learned, how = learned_way(trained, inference, draws)
    if how.posterior == "encoder":
        return {"": (learned, how)}
    tuned = posterior.tune(trained.states.model, trained.data, _key(fold, 3)[None])
    return {
        "": (learned, how),
        BY_ENCODER: (learned, dataclasses.replace(how, posterior="encoder")),
        BY_DEFAULT: (jax.tree.map(lambda leaf: leaf[0], tuned), how),
    }


def run(
    fold: ImageFold,
    model: str,
    size: Size,
    work: Path,
    *,
    deadline: float = np.inf,
    say: Callable[[str], None],
    tell: Callable[[train.Progress], None] | None = None,
) -> dict[str, Any] | None:
    """Train one of the models on a fold and test it; None where time is up before the end.

    Returns
    -------
    dict
        What goes into the model's file beside its `identity`.
    """
    trained = train_images(fold, size.published, model, work, deadline=deadline, tell=tell)
    if trained is None:
        return None
    _, settings = configured(size.published, model)
    one = first_model(trained.states.model)
    ways = _ways(trained, fold, settings.inference, size.draws)
    kept = work / f"scores-{size.draws}.json"
    scores: dict[str, Any] = read_json(kept) if kept.exists() else {}
    for way, (sampler, how) in ways.items():
        for protocol, pile in fold.tests.items():
            part = f"{protocol}{way}"
            if part in scores:
                continue
            if time.monotonic() > deadline:
                return None
            say(f"{fold.name}: {model}{way}, {protocol} test")
            started = time.monotonic()
            told = look_at(one, sampler, pile, how, key=_key(fold, 2), say=say)
            found = score_images(pile, told)
            found["test_seconds"] = time.monotonic() - started
            prefix = "" if protocol == "own" else f"{protocol}_"
            scores[part] = {
                f"{prefix}{name}": round(value, 6)
                for name, value in found.items()
                if np.isfinite(value)
            }
            write_json(scores, kept)
    device = jax.devices()[0].device_kind
    records = [
        {
            "table": fold.name,
            "model": model + way,
            "fold": fold.number,
            "train_seconds": round(trained.seconds, 2),
            "device": device,
            "steps": settings.steps,
            **{name: x for protocol in fold.tests for name, x in scores[protocol + way].items()},
        }
        for way in ways
    ]
    learned: Sampler = trained.states.sampler
    return {
        "device": device,
        "versions": versions(),
        "loss": [round(trained.loss, 4)],
        "step_size": round(float(jnp.exp(learned.log_steps).mean()), 5),
        "inflation": np.round(np.exp(np.asarray(learned.log_inflation[0], np.float64)), 4).tolist(),
        "records": records,
    }


def complete(
    name: str,
    models: Sequence[str],
    folds: Sequence[int],
    folder: Path,
    work: Path,
    size: Size,
    *,
    deadline: float = np.inf,
    say: Callable[[str], None],
    bar: Bar,
) -> bool:
    """Run models on the folds of a set that the folder does not have yet.

    Parameters
    ----------
    name, models, folds
        What is to be there.
    folder, work
        Where each run has its file, and where what is not finished lies.
    size
        How much of everything.
    deadline
        The time of `time.monotonic` at which to leave off.
    say, bar
        Told what is done, and asked for what is told of the progress of so many steps.

    Returns
    -------
    bool
        Whether all is there.

    Raises
    ------
    InputError
        Where a file is of another version, or was made with other settings.
    """
    places = {model: collection.place(folder, name, model) for model in models}
    about = {model: identity(name, model, size) for model in models}
    before = {model: collection.read_alike(places[model], about[model]) for model in models}
    taken: dict[int, ImageFold] = {}
    for model, path in places.items():
        for number in collection.missing_folds(before[model], folds):
            if time.monotonic() > deadline:
                return False
            if number not in taken:
                taken = {number: take_image_fold(name, number, limit=size.limit)}
            say(f"{name}: {model}, fold {number}")
            with bar(size.published.steps) as tell:
                found = run(
                    taken[number],
                    model,
                    size,
                    work_place(work, name, model, number),
                    deadline=deadline,
                    say=say,
                    tell=tell,
                )
            if found is None:
                return False
            collection.add_run(path, about[model], found)
    return True


def work_place(work: Path, name: str, model: str, fold: int) -> Path:
    """Give the folder in which a training leaves off."""
    return work / f"{name}-{model.replace(' ', '-')}-{fold}"


def check_sets(names: Sequence[str]) -> None:
    """Refuse sets that are not there, before anything is trained.

    Raises
    ------
    InputError
        Naming the first, and how to get it.
    """
    from hhvaem.datasets import load_images

    for name in names:
        if name not in PUBLISHED_IMAGES:
            raise InputError(f"{name!r} is no set of images of the paper.")
        load_images(name, limit=1)


def _key(fold: ImageFold, purpose: int) -> PRNGKeyArray:
    """Give a fold a key of its own, for training, testing or tuning."""
    key = jax.random.fold_in(jax.random.key(SEED), purpose)
    return jax.random.fold_in(key, fold.number)
