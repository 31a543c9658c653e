"""Fitted image imputers in files, as `saving.py` has those of tables."""

import dataclasses
import math
import os
from numbers import Integral
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hhvaem.checks import check_count, check_settings
from hhvaem.errors import InputError
from hhvaem.estimators.images import ImageImputer
from hhvaem.files import as_path
from hhvaem.imaging import FittedImages, ImagePlan
from hhvaem.model import Model
from hhvaem.networks import Pictures, Stage
from hhvaem.objectives import Sampler
from hhvaem.paper.records import versions
from hhvaem.pixels import Greys, Pixels
from hhvaem.posterior import POSTERIORS, How, Tuned
from hhvaem.steps import Settings
from hhvaem.storage import pack, unpack, write_arrays

# The name that such files have for what made them.
NAME = "ImageImputer"
# More pixels, draws or convolutions are nobody's.
MOST_PIXELS, MOST_DRAWS, MOST_STAGES = 2**24, 2**20, 16


def save_images(imputer: ImageImputer, path: str | os.PathLike[str]) -> None:
    """Write a fitted image imputer to a file, whole or not at all.

    Raises
    ------
    InputError
        Where the file cannot be written.
    """
    fitted = imputer.fitted_
    parameters = {
        name: os.fspath(value) if isinstance(value, os.PathLike) else value
        for name, value in imputer.get_params(deep=False).items()
    }
    # A generator cannot be written down; the seed that was drawn from it is with the model.
    if not isinstance(parameters["random_state"], Integral):
        parameters["random_state"] = None
    arrays = pack({"models": fitted.models, "tuned": fitted.tuned, "learned": fitted.learned})
    manifest: dict[str, Any] = {
        "estimator": NAME,
        "parameters": {name: _plain(value) for name, value in parameters.items()},
        "plan": dataclasses.asdict(fitted.plan),
        "seed": fitted.seed,
        "record": fitted.record,
        "versions": versions(),
    }
    write_arrays(as_path(path), arrays, manifest)


def restored_images(arrays: dict[str, np.ndarray], manifest: dict[str, Any]) -> ImageImputer:
    """Make an image imputer of what a file has, checked to be such as a fit could have made.

    Raises
    ------
    InputError
        Where it is not; other errors of Python where it is nothing of the sort.
    """
    given = dict(manifest["parameters"])
    if given["layers"] is not None:
        given["layers"] = tuple(given["layers"])
    imputer = ImageImputer(**given)
    plan = _plan(manifest["plan"])
    tree = unpack(_blank(plan, arrays), arrays)
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise InputError(f"its array {name!r} is not finite.")
    imputer.shape_ = plan.pictures.shape
    imputer.binary_ = plan.binary
    imputer.fitted_ = FittedImages(
        tree["models"],
        tree["learned"],
        tree["tuned"],
        plan,
        check_count("seed", manifest["seed"], 0),
        manifest["record"],
    )
    return imputer


def _plan(fields: dict[str, Any]) -> ImagePlan:
    settings, how = Settings(**fields["settings"]), How(**fields["how"])
    check_settings(settings)
    if how.posterior not in POSTERIORS or how.superchains != 0:
        raise InputError("its posterior is none that there is.")
    for name in ("chains", "kept", "transitions", "leapfrog"):
        check_count(name, getattr(how, name), 1, MOST_DRAWS)
    check_count("draws", how.chains * how.kept, 1, MOST_DRAWS)
    pictures = fields["pictures"]
    height, width, channels = (
        check_count("shape", size, 1, MOST_PIXELS) for size in pictures["shape"]
    )
    stages = tuple(
        Stage(*(check_count("stage", x, 0, 2**12) for x in s)) for s in pictures["stages"]
    )
    if not 0 < len(stages) <= MOST_STAGES or math.prod((height, width, channels)) > MOST_PIXELS:
        raise InputError("its images are beyond all reason.")
    if any(0 in (stage.channels, stage.kernel, stage.stride) for stage in stages):
        raise InputError("it has a convolution that sees nothing.")
    return ImagePlan(
        tuple(check_count("layers", size, 1) for size in fields["layers"]),
        check_count("hidden", fields["hidden"], 1),
        Pictures((height, width, channels), stages, bool(pictures["normalised"])),
        settings,
        how,
        bool(fields["binary"]),
        float(fields["decay"]),
        float(fields["noise_pull"]),
    )


def _blank(plan: ImagePlan, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """Make the tree that the arrays of a file belong in."""
    pixels = plan.pictures.pixels

    def one(key: Any) -> dict[str, Any]:
        levels, zeros = (1,) * pixels, jnp.zeros(pixels)
        marginals = Pixels(levels, zeros) if plan.binary else Greys(levels, zeros, zeros)
        model = Model.init(
            marginals, None, plan.layers, hidden=plan.hidden, pictures=plan.pictures, key=key
        )
        learned = None
        if plan.settings.inference == "hmc":
            shape = (plan.settings.transitions, model.hierarchy.size)
            learned = Sampler(jnp.zeros(shape), jnp.zeros(len(plan.layers)))
        return {"models": model, "tuned": Tuned(jnp.zeros(())), "learned": learned}

    keys = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), 1))
    shapes = eqx.filter_eval_shape(eqx.filter_vmap(one), keys)
    leaves = [x for x in jax.tree.leaves(shapes) if isinstance(x, jax.ShapeDtypeStruct)]
    # Before anything is allocated: what a file says of itself may be anything.
    if sum(leaf.size for leaf in leaves) != sum(array.size for array in arrays.values()):
        raise InputError("its arrays are not those of the model that it describes.")
    return jax.tree.map(
        lambda x: jnp.zeros(x.shape, x.dtype) if isinstance(x, jax.ShapeDtypeStruct) else x, shapes
    )


def _plain(value: Any) -> Any:
    """Give a parameter as JSON has it."""
    if isinstance(value, np.generic):
        return value.item()
    return [_plain(each) for each in value] if isinstance(value, tuple | list) else value
