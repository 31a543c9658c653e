"""What a file that is no longer what `save` wrote may say, and what becomes of it.

Run by itself (`python tests/hostile_models.py NAME EXAMPLES`), where no type checker of the tests
refuses anything before the library does.
"""

import copy
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
from hypothesis import HealthCheck, given, settings
from saved_models import FILES, answer, table

from hhvaem import load
from hhvaem.errors import InputError
from hhvaem.storage import read_arrays, write_arrays

ODD = [
    None, True, False, 0, 1, -1, 2, 3, 2**31, 2**63, 10**400, -0.5, 1e308, float("nan"),
    float("inf"), "", "x", "hmc", "gpu", "text", "integer", "none", "datetime", "O", "<U9999999",
    [], [[]], {}, [1, 2], ["a", "b"], {"class": "binary"}, {"class": "categorical", "levels": 3},
]  # fmt: skip


MANIFEST_WAYS = ("odd", "gone", "twice", "elsewhere", "near")
ARRAY_WAYS = ("gone", "named", "shape", "dtype", "value", "scale")


def places(part: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Give the paths of all values in JSON."""
    entries: Any = part.items() if isinstance(part, dict) else ()
    if isinstance(part, list):
        entries = enumerate(part)
    found = [path] if path else []
    for key, value in entries:
        found += places(value, (*path, key))
    return found


def inside(part: Any, path: Any) -> Any:
    for key in path:
        part = part[key]
    return part


def change(manifest: Any, way: str, at: int, value: int) -> None:
    """Change one value of a manifest, take it away, double it, or put another in its place."""
    everywhere = places(manifest)
    *path, last = everywhere[at % len(everywhere)]
    there = inside(manifest, path)
    if way == "gone":
        del there[last]
    elif way == "twice" and isinstance(there, list):
        there.append(copy.deepcopy(there[last]))
    elif way == "elsewhere":
        there[last] = copy.deepcopy(inside(manifest, everywhere[value % len(everywhere)]))
    elif way == "near" and type(there[last]) in (int, float) and abs(there[last]) < 2**70:
        there[last] += (-1, 1, 0.5, 100)[value % 4]
    else:
        there[last] = copy.deepcopy(ODD[value % len(ODD)])


def spoil(arrays: dict[str, np.ndarray], way: str, at: int, value: int) -> None:
    """Take an array away, name, cut or cast it otherwise, or put something odd into it."""
    name = sorted(arrays)[at % len(arrays)]
    array = arrays.pop(name)
    if way == "named":
        arrays[name + "x"] = array
    elif way == "shape":
        arrays[name] = array.reshape(-1)[: value % (array.size + 1)]
    elif way == "dtype":
        arrays[name] = array.astype(("float16", "int32", "float64")[value % 3])
    elif way == "scale":
        arrays[name] = (array * (-1, 0, 1e3, 1e30)[value % 4]).astype(array.dtype)
    elif way == "value" and array.size:
        arrays[name] = array.copy()
        odd = (np.nan, np.inf, -np.inf, 1e38, -1e38, 0.0)[value % 6]
        arrays[name].reshape(-1)[value % array.size] = odd


def edits(ways: tuple[str, ...], most: int) -> Any:
    number = st.integers(0, 10**4)
    return st.lists(st.tuples(st.sampled_from(ways), number, number), max_size=most)


def main(name: str, examples: int) -> None:
    """Load altered files, and use what was loaded; print how many were refused and used."""
    arrays, manifest = read_arrays(FILES / f"{name}-0.1.hhvaem")
    names = set(table().column_names)
    counts = {"refused": 0, "used": 0}

    @given(edits(MANIFEST_WAYS, 2), edits(ARRAY_WAYS, 1))
    @settings(
        max_examples=examples, deadline=None, derandomize=True, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    def use(changes: Any, spoils: Any) -> None:
        said, held = copy.deepcopy(manifest), dict(arrays)
        for each in changes:
            change(said, *each)
        for each in spoils:
            spoil(held, *each)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "a.hhvaem")
            write_arrays(path, held, said)
            try:
                with warnings.catch_warnings(action="ignore"):
                    model = load(path)
                    # A table of other columns is refused by scikit-learn's habits.
                    if set(model.schema_.names) <= names:
                        answer(model)
                        counts["used"] += 1
            except InputError:
                counts["refused"] += 1

    use()
    print(counts["refused"], counts["used"])


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
