"""Fitted estimators in files: one safetensors file with a manifest in JSON, never a pickle.

What a file says of itself may be anything. It is checked to be such as a fit could have made,
before anything is allocated or compiled for it, so that what `load` gives works or is refused.
"""

import dataclasses
import json
import math
import os
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hhvaem import image_saving
from hhvaem.checks import check_count, check_settings
from hhvaem.containers import listed, shown
from hhvaem.encoding import Encoding
from hhvaem.errors import InputError
from hhvaem.estimators import Classifier, Imputer, Regressor
from hhvaem.estimators.base import Estimator
from hhvaem.files import as_path
from hhvaem.fitting import Fitted
from hhvaem.likelihoods import Binary, Categorical, Likelihood, Ordered
from hhvaem.marginal_vae import MarginalVAEs
from hhvaem.marginals import Direct, input_widths
from hhvaem.model import Model
from hhvaem.objectives import Sampler
from hhvaem.packing import pack_encoding, unpack_encoding
from hhvaem.paper.records import versions
from hhvaem.posterior import POSTERIORS, How, Tuned
from hhvaem.preparing import padded_levels
from hhvaem.presets import MARGINALS, Plan
from hhvaem.reading import FAMILY
from hhvaem.schema import LEVELLED, Column, Kind, Schema, Storage
from hhvaem.steps import Settings
from hhvaem.storage import pack, read_arrays, unpack, write_arrays
from hhvaem.warps import Levels

ESTIMATORS: dict[str, type[Estimator]] = {
    "Imputer": Imputer,
    "Regressor": Regressor,
    "Classifier": Classifier,
}
Arrays = dict[str, np.ndarray]

# Of a row: more could not be held at transform.
MOST_DRAWS, MOST_STEPS = 2**20, 2**16
# Hidden layers beyond this are nobody's.
MOST_LAYERS = 64
# How columns of each kind may be stored, and of which type their levels then are.
_STORED: dict[Kind, tuple[Storage, ...]] = {
    "real": ("integer", "float"),
    "positive": ("integer", "float"),
    "count": ("integer", "float"),
    "datetime": ("datetime", "date"),
    "constant": ("integer", "float", "boolean", "text", "datetime", "date"),
    "ignored": ("none",),
}
_LEVEL_TYPES: dict[Storage, type] = {"text": str, "boolean": bool, "integer": int}
_LEVEL_STORAGES: tuple[Storage, ...] = ("integer", "float", "boolean", "text")
_LAST_DATE, _LONGEST_STEP = 9.2e18, 864e8  # in microseconds


def save(estimator: Estimator, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator to a file, whole or not at all.

    Raises
    ------
    InputError
        Where the file cannot be written, or a parameter that was set is no plain value.
    """
    path = as_path(path)
    fitted = estimator.fitted_
    model, arrays = (None, {}) if fitted is None else _packed(fitted)
    manifest: dict[str, Any] = {
        "estimator": next(name for name, cls in ESTIMATORS.items() if isinstance(estimator, cls)),
        "parameters": _parameters(estimator),
        "schema": json.loads(estimator.schema_.to_json()),
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
    path = as_path(path)
    arrays, manifest = read_arrays(path)
    try:
        if manifest["estimator"] == image_saving.NAME:
            return image_saving.restored_images(arrays, manifest)
        return _restored(arrays, manifest)
    except InputError as error:
        raise InputError(f"{path} is no model of hhvaem: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InputError(
            f"{path} is no model of hhvaem ({type(error).__name__}: {error}); give the file that "
            "`save` wrote."
        ) from error
    except RecursionError as error:
        raise InputError(f"{path} is no model of hhvaem: it is nested without end.") from error


def _restored(arrays: Arrays, manifest: dict[str, Any]) -> Estimator:
    estimator = ESTIMATORS[manifest["estimator"]](**_given(manifest["parameters"]))
    schema = dataclasses.replace(
        Schema.from_json(json.dumps(manifest["schema"])), filled=isinstance(estimator, Imputer)
    )
    for column in schema:
        _check_column(column)
    estimator.schema_ = schema
    estimator.members_ = check_count("members", manifest["members"], 1)
    estimator.n_features_in_ = len(schema)
    if manifest["named"]:
        estimator.feature_names_in_ = np.array(schema.names, dtype=object)
    target, model = manifest["target"], manifest["model"]
    _demand(
        (target is None) == isinstance(estimator, Imputer),
        f"it is of {type(estimator).__name__}, and its target is not.",
    )
    _demand(
        (model is None) == (target is None and not schema.modelled),
        "it has a model where none is needed, or none where one is.",
    )
    if target is not None:
        _restore_target(estimator, target)
    estimator.fitted_ = None
    if model is not None:
        estimator.fitted_ = _unpacked(model, arrays, estimator.members_)
        _check_laws(estimator, estimator.fitted_)
    return estimator


def _given(parameters: dict[str, Any]) -> dict[str, Any]:
    """Give parameters as they were given to the estimator: plain values, two of them of many."""
    layers, kinds = parameters.get("layers"), parameters.get("kinds")
    plain = {key: value for key, value in parameters.items() if key not in ("layers", "kinds")}
    if layers is not None:
        layers = tuple(check_count("layers", size, 1) for size in layers)
    for value in [*plain.values(), *(kinds or {}).values()]:
        _demand(
            isinstance(value, bool | int | float | str | None),
            "one of its parameters is no plain value.",
        )
    device = plain.get("device")
    _demand(isinstance(device, str | None), f"its device is {shown(device)}.")
    return {**plain, "layers": layers, "kinds": kinds}


def _restore_target(estimator: Any, target: dict[str, Any]) -> None:
    names, flat = target["names"], target["flat"]
    _demand(
        isinstance(names, list) and names and all(isinstance(name, str) for name in names),
        "its targets have no names.",
    )
    _demand(
        isinstance(flat, bool) and (len(names) == 1 or not flat), "its targets do not fit together."
    )
    estimator.target_names_, estimator.n_outputs_, estimator.flat_ = names, len(names), flat
    if isinstance(estimator, Classifier):
        classes = [_labels(values, dtype) for values, dtype in target["classes"]]
        _demand(len(classes) == len(names), "there are not as many classes as targets.")
        estimator.classes_ = classes[0] if flat else classes


def _labels(values: list[Any], dtype: str) -> np.ndarray:
    """Make the labels of a target: two or more, in order, all texts or all plain numbers."""
    labels = np.array(values)
    kinds = (labels.dtype.kind, np.dtype(dtype).kind)
    if kinds != ("U", "U"):
        _demand(set(kinds) <= set("biuf"), "its classes are neither texts nor numbers.")
        labels = labels.astype(dtype)
    # The dtype of texts is as wide as the longest, whatever the file says.
    _demand(
        labels.dtype.str == dtype and labels.tolist() == values,
        "its classes are not of their dtype.",
    )
    _demand(
        labels.size > 1 and np.array_equal(np.unique(labels), labels),
        "its classes are not two or more in order.",
    )
    return labels


def _parameters(estimator: Estimator) -> dict[str, Any]:
    """Give what the estimator was made with, as JSON has it."""
    found = dict(estimator.get_params(deep=False))
    # A generator cannot be written down; the seed that was drawn from it is with the model.
    if not isinstance(found["random_state"], Integral):
        found["random_state"] = None
    layers, kinds = found.pop("layers"), found.pop("kinds")
    if not isinstance(layers, Sequence | None) or isinstance(layers, str):
        raise _no_plain_value("layers", layers)
    if not isinstance(kinds, Mapping | None):
        raise _no_plain_value("kinds", kinds)
    return {name: _plain(name, value) for name, value in found.items()} | {
        "layers": layers and [check_count("layers", size, 1) for size in layers],
        "kinds": kinds and {str(name): _plain("kinds", kind) for name, kind in kinds.items()},
    }


def _plain(name: str, value: Any) -> Any:
    """Give a value as JSON has it."""
    if isinstance(value, bool | str | None):
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise _no_plain_value(name, value)


def _no_plain_value(name: str, value: Any) -> InputError:
    return InputError(
        f"{name}={shown(value)} cannot be saved; give it a value that `fit` takes, by set_params."
    )


def _target(estimator: Any) -> dict[str, Any] | None:
    if isinstance(estimator, Imputer):
        return None
    classes: list[Any] = []
    if isinstance(estimator, Classifier):
        classes = [estimator.classes_] if estimator.flat_ else estimator.classes_
    return {
        "names": estimator.target_names_,
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
    # Before a program is traced for each of them.
    _demand(len(plan.layers) <= len(arrays), "it has not the arrays of so many layers.")
    encoding = unpack_encoding(model["encoding"], taken("encoding."))
    target_encoding = None
    if model["target_encoding"] is not None:
        target_encoding = unpack_encoding(model["target_encoding"], taken("target_encoding."))
    rest = {name: array for name, array in arrays.items() if "encoding." not in name}
    tree = unpack(_blank(plan, encoding, target_encoding, members, rest), rest)
    for name, array in rest.items():
        _demand(np.isfinite(array).all(), f"its array {name!r} is not finite.")
    _demand(isinstance(model["record"], dict), "it has no record of its training.")
    return Fitted(
        encoding,
        target_encoding,
        tree["models"],
        tree["learned"],
        tree["tuned"],
        plan,
        check_count("seed", model["seed"], 0),
        model["record"],
    )


def _plan(fields: dict[str, Any]) -> Plan:
    settings, how = Settings(**fields["settings"]), How(**fields["how"])
    check_settings(settings)
    _demand(how.posterior in POSTERIORS, f"its posterior is none of {listed(POSTERIORS)}.")
    _demand(fields["marginals"] in MARGINALS, f"its marginals are none of {listed(MARGINALS)}.")
    for name in ("chains", "kept", "transitions", "leapfrog"):
        check_count(name, getattr(how, name), 1)
    _demand(how.chains * how.kept <= MOST_DRAWS, "its draws are beyond all reason.")
    _demand(max(how.transitions, how.leapfrog) <= MOST_STEPS, "its chains are beyond all reason.")
    _demand(how.superchains == 0, "its chains start together.")
    layers = tuple(check_count("layers", size, 1) for size in fields["layers"])
    check_count("hidden", fields["hidden"], 1)
    # Those fields are not in files from before networks could have more than one hidden layer.
    depth, shortcut = check_count("depth", fields.get("depth", 1), 1), fields.get("shortcut", False)
    _demand(depth <= MOST_LAYERS, "its networks are too deep.")
    _demand(isinstance(shortcut, bool), "it has neither shortcuts nor none.")
    decays = tuple(fields.get("decays", ()))
    numbers = all(type(decay) is float and 0 <= decay < math.inf for decay in decays)
    _demand(numbers, "its decays are no numbers from 0.")
    made = {"layers": layers, "settings": settings, "how": how, "decays": decays}
    return Plan(**{**fields, **made})


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
        model = Model.init(
            marginals,
            targets,
            plan.layers,
            hidden=plan.hidden,
            depth=plan.depth,
            shortcut=plan.shortcut,
            key=key,
        )
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


def _check_column(column: Column) -> None:
    """Refuse a column that no table has: it could be filled with nothing."""
    stored = _STORED.get(column.kind, _LEVEL_STORAGES)
    kind = _LEVEL_TYPES.get(column.storage, float)
    dates = FAMILY[column.storage] == "dates"
    fits = (
        column.storage in stored
        and all(type(level) is kind for level in column.levels)
        and (column.kind not in LEVELLED or len(column.levels) > 1)
        and (not dates or all(abs(float(level)) < _LAST_DATE for level in column.levels))
        and (not dates or column.step is None or 1 <= column.step <= _LONGEST_STEP)
    )
    _demand(fits, f"column {column.name!r} is {column.kind} and stored as no such column is.")


def _check_laws(estimator: Any, fitted: Fitted) -> None:
    """Refuse laws that are not those of the schema's columns and of the targets."""
    columns = estimator.schema_.modelled
    _demand(len(fitted.encoding.laws) == len(columns), "it has not one law for each column.")
    for column, law in zip(columns, fitted.encoding.laws, strict=True):
        levels = len(column.levels) if column.kind in LEVELLED else 1
        ordered = column.kind == "ordinal" and fitted.plan.marginals != "vae"
        _demand(
            _is_law_of(law, levels, ordered=ordered),
            f"the law of column {column.name!r} is not that of a {column.kind} one.",
        )
    if isinstance(estimator, Imputer):
        _demand(fitted.target_encoding is None, "it has the law of a target, and no target.")
        return
    laws: Sequence[Likelihood] = ()
    if fitted.target_encoding is not None:
        laws = fitted.target_encoding.laws
    _demand(len(laws) == estimator.n_outputs_, "it has not one law for each target.")
    counts = [1] * estimator.n_outputs_
    if isinstance(estimator, Classifier):
        classes = [estimator.classes_] if estimator.flat_ else estimator.classes_
        counts = [len(each) for each in classes]
    for name, law, count in zip(estimator.target_names_, laws, counts, strict=True):
        _demand(_is_law_of(law, count, ordered=False), f"the law of target {name!r} is another's.")


def _is_law_of(law: Likelihood, levels: int, *, ordered: bool) -> bool:
    """Say whether a law is of so many levels, in an order or none; of a number where it is 1."""
    if levels == 1 or ordered:
        if not isinstance(law, Ordered) or isinstance(law.warp, Levels) != ordered:
            return False
        return not isinstance(law.warp, Levels) or len(law.warp.edges) == levels + 1
    if levels == 2:
        return isinstance(law, Binary)
    return isinstance(law, Categorical) and law.levels == levels


def _demand(fulfilled: object, otherwise: str) -> None:
    if not fulfilled:
        raise InputError(otherwise)
