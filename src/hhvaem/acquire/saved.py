"""Sessions in files: what was told and paid, as JSON; the model stays in its own file."""

import datetime as dt
import hashlib
import json
import os
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np

from hhvaem.acquire.policy import Rule
from hhvaem.acquire.prices import is_cost
from hhvaem.acquire.session import Session, Told, check_model
from hhvaem.atomic import replacing
from hhvaem.containers import listed, shown
from hhvaem.errors import InputError
from hhvaem.estimators.predictors import Predictor
from hhvaem.files import as_path
from hhvaem.reading import FAMILY
from hhvaem.schema import Column
from hhvaem.table import decode_value, encode_value

FORMAT, VERSION = "hhvaem session", 1


def save(session: Session, path: str | os.PathLike[str]) -> None:
    """Write a session to a file, whole or not at all."""
    schema = session.model.schema_
    content = {
        "format": FORMAT,
        "version": VERSION,
        "model": fingerprint(session.model),
        "given": {name: _plain(schema[name], value) for name, value in session.given.items()},
        "history": [
            each._replace(value=_plain(schema[each.column], each.value))._asdict()
            for each in session.told
        ],
        "costs": {**session.prices.columns, **session.prices.begun},
        "groups": session.prices.groups,
        "method": session.method,
        "look_ahead": session.look_ahead,
        "draws": session.draws,
    }
    place = as_path(path)
    try:
        with replacing(place) as file:
            file.write(json.dumps(content, indent=1).encode())
    except OSError as error:
        raise InputError(f"{place} cannot be written: {error.strerror}; name another.") from error


def load(path: str | os.PathLike[str], model: Predictor, stop: Rule | Sequence[Rule]) -> Session:
    """Read a session, and put it where it was.

    Raises
    ------
    InputError
        Where the file is none of a session, or of one with another model.
    """
    place = as_path(path)
    content = _read(place)
    check_model(model)
    if content["model"] != fingerprint(model):
        raise InputError(f"{place} is a session with another model; give the one it was with.")
    schema = model.schema_
    names = [*content["given"], *(each["column"] for each in content["history"])]
    strange = [str(name) for name in names if name not in schema]
    if strange:
        raise InputError(f"{place} tells of {listed(strange)}, which the model lacks.")
    try:
        session = Session(
            model,
            costs=content["costs"],
            groups=content["groups"],
            stop=stop,
            method=content["method"],
            look_ahead=content["look_ahead"],
            draws=content["draws"],
        )
        given = {name: _back(schema[name], value) for name, value in content["given"].items()}
        history = [Told(**each) for each in content["history"]]
        session.resume(
            given, [each._replace(value=_back(schema[each.column], each.value)) for each in history]
        )
    except InputError as error:
        raise InputError(f"{place} was altered: {error}") from error
    return session


def fingerprint(model: Predictor) -> str:
    """Give a text that tells a fitted model from all others."""
    assert model.fitted_ is not None
    digest = hashlib.blake2b(model.schema_.to_json().encode(), digest_size=16)
    for leaf in jax.tree.leaves(eqx.filter(model.fitted_.models, eqx.is_array)):
        digest.update(np.asarray(leaf).tobytes())
    return digest.hexdigest()


def _plain(column: Column, value: Any) -> Any:
    """Give a value as JSON has it."""
    if value is None:
        return None
    found = decode_value(column, encode_value(column, value))
    if isinstance(found, dt.date):
        return found.isoformat()
    # A number as it was told, and not as the nearest legal one.
    return float(value) if isinstance(found, float) else found


def _back(column: Column, value: Any) -> Any:
    if value is None or FAMILY[column.storage] != "dates":
        return value
    try:
        moment = dt.datetime.fromisoformat(value)
        return moment.date() if column.storage == "date" else moment
    except (TypeError, ValueError) as error:
        raise InputError(f"{shown(value)} is no date of {column.name!r}.") from error


def _read(place: Any) -> dict[str, Any]:
    wanted = f"{place} is no session that hhvaem has saved"
    try:
        content = json.loads(place.read_bytes())
    except OSError as error:
        raise InputError(f"{place} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{wanted}; name another file.") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InputError(f"{wanted}; name another file.")
    if content.get("version") != VERSION:
        raise InputError(f"{place} was saved by another version of hhvaem; use that one.")
    kinds = {
        "model": str, "given": dict, "history": list, "costs": dict, "groups": dict,
        "method": str, "look_ahead": bool, "draws": int,
    }  # fmt: skip
    whole = all(isinstance(content.get(name), kind) for name, kind in kinds.items())
    if not whole or not _is_history(content["history"]):
        raise InputError(f"{wanted}: parts of it are missing or altered.")
    return content


def _is_history(history: list[Any]) -> bool:
    """Say whether answers are such as a session has."""
    for each in history:
        if not isinstance(each, dict) or set(each) != set(Told._fields):
            return False
        if not isinstance(each["column"], str) or not is_cost(each["cost"]):
            return False
        if type(each["gain"]) not in (int, float, type(None)):
            return False
    return True
