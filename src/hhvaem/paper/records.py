"""Results as files: small JSON that tables and figures are drawn from."""

import importlib.metadata
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np

from hhvaem import __version__
from hhvaem.atomic import replacing
from hhvaem.errors import InputError

PACKAGES = ("jax", "equinox", "optax", "numpy")


def rounded(values: Any, digits: int) -> Any:
    """Give numbers as JSON has them, with so many digits after the point."""
    return np.round(np.asarray(values, np.float64), digits).tolist()


def versions() -> dict[str, str]:
    """Give the versions of what results depend on."""
    others = {name: importlib.metadata.version(name) for name in PACKAGES}
    return {"hhvaem": __version__, **others}


def to_json(results: dict[str, Any]) -> str:
    """Write results as text, with each innermost list on one line."""
    text = json.dumps(results, indent=1)
    return re.sub(r"\[\s*([^][{}]*?)\s*\]", lambda x: f"[{' '.join(x[1].split())}]", text) + "\n"


def read_json(path: Path) -> Any:
    """Read what a file has in JSON; None where it is something else."""
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return None


def is_number(value: object) -> bool:
    """Say whether something read is a finite number.

    Examples
    --------
    >>> [is_number(value) for value in (1, 2.5, True, "1", float("nan"), 10**400)]
    [True, True, False, False, False, False]
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    # JSON has integers that are too large for a float, and `isfinite` would not take them.
    return abs(value) <= sys.float_info.max


def is_numbers(values: Any, *shape: int) -> bool:
    """Say whether something read is an array of finite numbers of this shape.

    Examples
    --------
    >>> is_numbers([[1, 2.5]], 1, 2), is_numbers([[1], [2, 3]], 2, 1), is_numbers(["1"], 1)
    (True, False, False)
    >>> is_numbers([1.0, float("inf")], 2)
    False
    """
    try:
        array = np.asarray(values)
    except ValueError:  # rows of different lengths
        return False
    return array.shape == shape and array.dtype.kind in "iuf" and bool(np.isfinite(array).all())


def write_json(results: dict[str, Any], path: Path) -> None:
    """Write results to a file, whole or not at all; of a link, the file it points to is replaced.

    Raises
    ------
    InputError
        Where the file cannot be written.
    """
    try:
        with replacing(Path(os.path.realpath(path))) as file:
            file.write(to_json(results).encode())
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}.") from error
