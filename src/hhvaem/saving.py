"""Fitted estimators in files: one safetensors file with a manifest in JSON, never a pickle."""

import dataclasses
import json
import os
from numbers import Integral
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hhvaem.encoding import Encoding
from hhvaem.errors import InputError
from hhvaem.estimators import Classifier, Imputer, Regressor
from hhvaem.estimators.base import Estimator
from hhvaem.fitting import Fitted, padded_levels
from hhvaem.marginal_vae import MarginalVAEs
from hhvaem.marginals import Direct, input_widths
from hhvaem.model import Model
from hhvaem.objectives import Sampler
from hhvaem.packing import pack_encoding, unpack_encoding
from hhvaem.paper.records import versions
from hhvaem.posterior import How, Tuned
from hhvaem.presets import Plan
from hhvaem.schema import Schema
from hhvaem.steps import Settings
from hhvaem.storage import pack, read_arrays, unpack, write_arrays

ESTIMATORS: dict[str, type[Estimator]] = {
    "Imputer": Imputer,
    "Regressor": Regressor,
    "Classifier": Classifier,
}
Arrays = dict[str, np.ndarray]


def save(estimator: Estimator, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator to a file, whole or not at all.

    Raises
    ------
    InputError
        Where the file cannot be written.
    """
    fitted = estimator.fitted_
    model, arrays = (None, {}) if fitted is None else _packed(fitted)
    manifest: dict[str, Any] = {
        "estimator": type(estimator).__name__,
        "parameters": _parameters(estimator),
        "schema": json.loads(estimator.schema_.to_json()),
        "features": estimator.n_features_in_,
        "named": hasattr(estimator, "feature_names_in_"),
        "members": estimator.members_,
        "target": _target(estimator),
        "model": model,
        "versions": versions(),
    }
    write_arrays(path, arrays, manifest)


def load(path: str | os.PathLike[str]) -> Any:
    """Read a fitted estimator from a file that `save` wrote; nothing in it is ever run.

    Raises
    ------
    InputError
        Where the file cannot be read, is damaged, or no model of hhvaem.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from hhvaem import Imputer, load
    >>> table = np.random.default_rng(0).normal(size=(200, 1)) * [1.0, 2.0, -3.0]
    >>> table[::5, 2] = np.nan
    >>> imputer = Imputer(preset="fast", random_state=0).fit(table)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     imputer.save(f"{folder}/model.hhvaem")
    ...     again = load(f"{folder}/model.hhvaem")
    >>> bool((again.transform(table) == imputer.transform(table)).all())
    True
    """
    arrays, manifest = read_arrays(path)
    try:
        return _restored(arrays, manifest)
    except InputError as error:
        raise InputError(f"{path} is no model of hhvaem: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InputError(
            f"{path} is no model of hhvaem ({type(error).__name__}: {error}); give the file that "
            "`save` wrote."
        ) from error


def _restored(arrays: Arrays, manifest: dict[str, Any]) -> Estimator:
    parameters = manifest["parameters"]
    if parameters["layers"] is not None:
        parameters["layers"] = tuple(parameters["layers"])
    estimator = ESTIMATORS[manifest["estimator"]](**parameters)
    estimator.schema_ = Schema.from_json(json.dumps(manifest["schema"]))
    estimator.members_ = int(manifest["members"])
    estimator.n_features_in_ = int(manifest["features"])
    if manifest["named"]:
        estimator.feature_names_in_ = np.array(estimator.schema_.names, dtype=object)
    if (target := manifest["target"]) is not None:
        estimator.n_outputs_, estimator.flat_ = int(target["outputs"]), bool(target["flat"])
        if isinstance(estimator, Classifier):
            classes = [np.array(values, dtype) for values, dtype in target["classes"]]
            estimator.classes_ = classes[0] if estimator.flat_ else classes
    model = manifest["model"]
    estimator.fitted_ = None if model is None else _unpacked(model, arrays, estimator.members_)
    return estimator


def _parameters(estimator: Estimator) -> dict[str, Any]:
    """Give what the estimator was made with, as JSON has it."""
    found = dict(estimator.get_params(deep=False))
    # A generator cannot be written down; the seed that was drawn from it is with the model.
    if not isinstance(found["random_state"], Integral):
        found["random_state"] = None
    if found["snapshots"] is not None:
        found["snapshots"] = os.fspath(found["snapshots"])
    if found["kinds"] is not None:
        found["kinds"] = {str(name): kind for name, kind in found["kinds"].items()}
    return {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in found.items()
    }


def _target(estimator: Any) -> dict[str, Any] | None:
    if isinstance(estimator, Imputer):
        return None
    classes: list[Any] = []
    if isinstance(estimator, Classifier):
        classes = [estimator.classes_] if estimator.flat_ else estimator.classes_
    return {
        "outputs": estimator.n_outputs_,
        "flat": estimator.flat_,
        "classes": [(each.tolist(), each.dtype.str) for each in classes],
    }


def _packed(fitted: Fitted) -> tuple[dict[str, Any], Arrays]:
    encoding, own = pack_encoding(fitted.encoding)
    target_encoding, theirs = None, Arrays()
    if fitted.target_encoding is not None:
        target_encoding, theirs = pack_encoding(fitted.target_encoding)
    samplers = {"tuned": fitted.tuned, "learned": fitted.learned}
    arrays = pack({"models": fitted.models, **samplers})
    arrays |= {f"encoding.{name}": array for name, array in own.items()}
    arrays |= {f"target_encoding.{name}": array for name, array in theirs.items()}
    return {
        "encoding": encoding,
        "target_encoding": target_encoding,
        "plan": dataclasses.asdict(fitted.plan),
        "seed": fitted.seed,
        "record": fitted.record,
    }, arrays


def _unpacked(model: dict[str, Any], arrays: Arrays, members: int) -> Fitted:
    def taken(prefix: str) -> Arrays:
        return {
            name.removeprefix(prefix): array
            for name, array in arrays.items()
            if name.startswith(prefix)
        }

    plan = _plan(model["plan"])
    encoding = unpack_encoding(model["encoding"], taken("encoding."))
    target_encoding = None
    if model["target_encoding"] is not None:
        target_encoding = unpack_encoding(model["target_encoding"], taken("target_encoding."))
    rest = {name: array for name, array in arrays.items() if "encoding." not in name}
    tree = unpack(_blank(plan, encoding, target_encoding, members, rest), rest)
    return Fitted(
        encoding,
        target_encoding,
        tree["models"],
        tree["learned"],
        tree["tuned"],
        plan,
        int(model["seed"]),
        model["record"],
    )


def _plan(fields: dict[str, Any]) -> Plan:
    settings, how = Settings(**fields["settings"]), How(**fields["how"])
    layers = tuple(int(size) for size in fields["layers"])
    return Plan(**{**fields, "layers": layers, "settings": settings, "how": how})


def _blank(
    plan: Plan,
    encoding: Encoding,
    target_encoding: Encoding | None,
    members: int,
    arrays: Arrays,
) -> dict[str, Any]:
    """Make the tree that the arrays of a file belong in."""
    levels = padded_levels(encoding, plan)

    def one(key: Any) -> dict[str, Any]:
        marginals: Any = _direct(levels)
        if plan.marginals == "vae":
            marginals = MarginalVAEs.init(levels, key=key)
        targets = None if target_encoding is None else _direct(target_encoding.levels)
        model = Model.init(marginals, targets, plan.layers, hidden=plan.hidden, key=key)
        learned = None
        if plan.settings.inference == "hmc":
            shape = (plan.settings.transitions, model.hierarchy.size)
            learned = Sampler(jnp.zeros(shape), jnp.zeros(len(plan.layers)))
        return {"models": model, "tuned": Tuned(jnp.zeros(())), "learned": learned}

    keys = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), members))
    shapes = eqx.filter_eval_shape(eqx.filter_vmap(one), keys)
    leaves = [x for x in jax.tree.leaves(shapes) if isinstance(x, jax.ShapeDtypeStruct)]
    # Before anything is allocated: what a file says of itself may be anything.
    if sum(leaf.size for leaf in leaves) != sum(array.size for array in arrays.values()):
        raise InputError("its arrays are not those of the model that it describes.")
    return jax.tree.map(
        lambda x: jnp.zeros(x.shape, x.dtype) if isinstance(x, jax.ShapeDtypeStruct) else x, shapes
    )


def _direct(levels: tuple[int, ...]) -> Direct:
    return Direct(levels, jnp.zeros(sum(input_widths(levels))))
