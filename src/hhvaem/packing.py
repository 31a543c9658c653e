"""The laws of a table's columns as plain JSON and arrays, and back.

Classes go by the names below and by no other, so that reading what anybody wrote builds one of
these or is refused. What is built is checked to be such as a fit could have made.
"""

import dataclasses
import math
from typing import Any

import numpy as np

from hhvaem.containers import listed, shown
from hhvaem.encoding import Encoding
from hhvaem.errors import InputError
from hhvaem.gaussianise import Gaussianising
from hhvaem.likelihoods import Binary, Categorical, Likelihood, Ordered
from hhvaem.storage import Json
from hhvaem.warps import Affine, Array, Levels, Log, Rounded, Warp

Known = dict[str, type[Any]]
Arrays = dict[str, np.ndarray]

# In files for good: a name stays what it is, whatever becomes of the class.
LAWS: Known = {"ordered": Ordered, "binary": Binary, "categorical": Categorical}
# A warp holds no other warps than these: rounding what is rounded, or levels, has no meaning.
SMOOTH: Known = {"affine": Affine, "log": Log, "gaussianising": Gaussianising}
WARPS: Known = SMOOTH | {"rounded": Rounded, "levels": Levels}

_CLASS = "class"  # of Python's own words, so no field has this name
_INFINITE = {"inf": math.inf, "-inf": -math.inf}  # which JSON has no numbers for
_WORDS = {float: "a finite number, 'inf' or '-inf'", bool: "true or false", int: "a whole number"}
# By the names of fields, whatever the warp: which numbers may be infinite, and which are above 0.
_BOUNDS = frozenset({"lower", "upper", "least", "most"})
_POSITIVE = frozenset({"scale", "step", "unit"})
_MOST = 2**31 - 1  # the greatest index of the device


def pack_encoding(encoding: Encoding) -> tuple[list[dict[str, Json]], Arrays]:
    """Describe an encoding so that `unpack_encoding` makes the same one, to the bit.

    Returns
    -------
    description, arrays
        One entry for each law, which strict JSON can hold, and the arrays by their places.

    Raises
    ------
    InputError
        Where the encoding has a law or a warp that could not be read again.

    Examples
    --------
    >>> encoding = Encoding((Ordered(Levels(np.array([-2.0, 0.5, 2.0]))), Categorical(3)))
    >>> description, arrays = pack_encoding(encoding)
    >>> description
    [{'class': 'ordered', 'warp': {'class': 'levels'}}, {'class': 'categorical', 'levels': 3}]
    >>> arrays
    {'0.warp.edges': array([-2. ,  0.5,  2. ])}
    >>> unpack_encoding(description, arrays).levels
    (1, 3)
    """
    arrays: Arrays = {}
    laws = [_pack(law, LAWS, str(j), arrays) for j, law in enumerate(encoding.laws)]
    return laws, arrays


def unpack_encoding(description: Json, arrays: Arrays) -> Encoding:
    """Make the encoding that `pack_encoding` described.

    Whether its laws are those of a schema's columns is for the caller to see.

    Raises
    ------
    InputError
        Where this is not what `pack_encoding` gives: a law, warp, field or array is unknown,
        missing or left over, or holds what no fitted one does.
    """
    if not isinstance(description, list):
        raise InputError("The encoding is no list of laws.")
    rest = dict(arrays)
    laws = [_unpack(law, LAWS, str(j), rest) for j, law in enumerate(description)]
    for name in rest:
        raise InputError(f"There is no place for the array {shown(name)}.")
    return Encoding(tuple(laws))


def _pack(part: Likelihood | Warp, known: Known, place: str, arrays: Arrays) -> dict[str, Json]:
    """Describe a law or a warp, and put its arrays beside those of others."""
    names = [name for name, cls in known.items() if cls is type(part)]
    if not names:
        raise InputError(_no_such(place, type(part).__name__, known))
    description: dict[str, Json] = {_CLASS: names[0]}
    for key, kind in _fields(type(part)).items():
        value, there = getattr(part, key), f"{place}.{key}"
        if kind is Array:
            _check_array(value, there)
            arrays[there] = value
        elif kind is Warp:
            description[key] = _pack(value, _inside(known), there, arrays)
        else:
            plain = kind(value)
            infinite = kind is float and math.isinf(plain)
            description[key] = str(plain) if infinite else plain
    _check(part, place)
    return description


def _unpack(description: Json, known: Known, place: str, arrays: Arrays) -> Any:
    """Make a law or a warp, and take its arrays from those that are left."""
    entries = description if isinstance(description, dict) else {}
    name = entries.get(_CLASS)
    if not isinstance(name, str) or name not in known:
        raise InputError(_no_such(place, name, known))
    fields = _fields(known[name])
    wanted = [_CLASS, *(key for key, kind in fields.items() if kind is not Array)]
    # What has a default is not in files from before it was there.
    optional = {field.name for field in dataclasses.fields(known[name]) if _has_default(field)}
    for key in wanted:
        if key not in entries and key not in optional:
            raise InputError(f"{place!r} of the encoding has no {key!r}.")
    for key in entries:
        if key not in wanted:
            raise InputError(f"{place!r} of the encoding has an unknown {shown(key)}.")
    values: dict[str, Any] = {}
    for key, kind in fields.items():
        there = f"{place}.{key}"
        if key in optional and key not in entries:
            continue
        if kind is Array:
            if there not in arrays:
                raise InputError(f"The array {there!r} is missing.")
            _check_array(arrays[there], there)
            values[key] = arrays.pop(there).copy()
        elif kind is Warp:
            values[key] = _unpack(entries[key], _inside(known), there, arrays)
        else:
            values[key] = _scalar(entries[key], kind, there)
    part = known[name](**values)
    _check(part, place)
    return part


def _fields(cls: type[Any]) -> dict[str, Any]:
    return {field.name: field.type for field in dataclasses.fields(cls)}


def _has_default(field: dataclasses.Field[Any]) -> bool:
    return field.default is not dataclasses.MISSING


def _inside(known: Known) -> Known:
    return WARPS if known is LAWS else SMOOTH


def _no_such(place: str, name: object, known: Known) -> str:
    # Not anything but text: what is nested without end cannot even be printed.
    told = f"the class {shown(name)}" if isinstance(name, str) else "no class"
    return f"{place!r} of the encoding has {told}; known are {listed(list(known))}."


def _scalar(value: Any, kind: type, place: str) -> Any:
    plain = _number(value) if kind is float else value if type(value) is kind else None
    if plain is None:
        raise InputError(f"{place!r} of the encoding is not {_WORDS[kind]}.")
    return plain


def _number(value: Json) -> float | None:
    if isinstance(value, str):
        return _INFINITE.get(value)
    # Other programs write 1.0 as 1.
    if type(value) is not float and type(value) is not int:
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:  # an integer beyond all floats
        return None


def _check_array(array: np.ndarray, place: str) -> None:
    if array.dtype != np.float64 or array.ndim != 1:
        raise InputError(
            f"The array {place!r} is {array.dtype}{list(array.shape)}, where one dimension of "
            "float64 is needed."
        )
    if array.size < 2 or not np.isfinite(array).all() or (array[1:] < array[:-1]).any():
        raise InputError(f"The array {place!r} is not two or more finite numbers in order.")


def _check(part: Likelihood | Warp, place: str) -> None:
    problem = _problem(part)
    if problem:
        raise InputError(f"{place!r} of the encoding {problem}.")


def _problem(part: Likelihood | Warp) -> str | None:
    """Say what a law or a warp has that no fitted one has."""
    fields = _fields(type(part))
    for key, kind in fields.items():
        value = getattr(part, key)
        if kind is int and not 1 <= value <= _MOST:
            return f"has a {key!r} that is not from 1 to {_MOST}"
        if kind is float and key not in _BOUNDS and not math.isfinite(value):
            return f"has a {key!r} that is not finite"
        if kind is float and key in _POSITIVE and value <= 0:
            return f"has a {key!r} that is not above 0"
    if len({getattr(part, key).size for key, kind in fields.items() if kind is Array}) > 1:
        return "has arrays of different lengths"
    if isinstance(part, Warp):
        lower, upper = part.support
        if not lower < upper:
            return "has bounds with nothing between them"
        if isinstance(part, Gaussianising):
            least, most = part.shown
            if not least <= most or least == math.inf or most == -math.inf:
                return "shows no value"
        with np.errstate(over="ignore"):
            atoms = part.atoms
        if atoms is not None and not (atoms.size and np.isfinite(atoms).all()):
            return "has atoms only, and none or an infinite one"
    return None
