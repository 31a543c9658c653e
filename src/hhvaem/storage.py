"""Arrays in files, whole or not at all, and the snapshots from which training goes on.

Files are in the safetensors format: numbers and text, so that reading one never runs code.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import safetensors
from jax.tree_util import keystr, tree_flatten_with_path, tree_map_with_path
from safetensors.numpy import save

import hhvaem
from hhvaem.atomic import check_file, replacing, sweep
from hhvaem.containers import is_unicode
from hhvaem.errors import InputError
from hhvaem.files import SUFFIXES

Json = bool | int | float | str | list[Any] | tuple[Any, ...] | dict[str, Any] | None

FORMAT = 1
# By their names in the file; safetensors' own table for numpy lacks bfloat16.
_DTYPES = {
    "BOOL": "bool", "BF16": "bfloat16", "F16": "float16", "F32": "float32", "F64": "float64",
    "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64",
    "U8": "uint8", "U16": "uint16", "U32": "uint32", "U64": "uint64",
}  # fmt: skip
_METADATA = "__metadata__"  # the one name that safetensors keeps for itself
_WIDEST = 60  # characters of a value in a message
_EMPTY = "choose an empty folder"
_TABLES = (*SUFFIXES, ".gz")


def write_arrays(
    path: str | os.PathLike[str], arrays: dict[str, np.ndarray], manifest: dict[str, Json]
) -> None:
    """Write arrays and a manifest to a file, whole or not at all, even if the power fails.

    Of a link, the file it points to is replaced; the permissions of that file stay.

    Raises
    ------
    InputError
        Where the file cannot be written, or cannot hold such an array.
    """
    plain, text = pack(arrays), json.dumps(manifest)
    checksum = _checksum(plain, text)
    head = {"format": FORMAT, "version": hhvaem.__version__, "sha256": checksum}
    content = save(plain, {"hhvaem": json.dumps(head), "manifest": text})
    with _told(Path(path), "written"), replacing(Path(os.path.realpath(path))) as file:
        file.write(content)


def read_arrays(
    path: str | os.PathLike[str],
    *,
    instead: str = "give one that `hhvaem fit` or `save` wrote",
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read the arrays and the manifest that `write_arrays` wrote.

    Parameters
    ----------
    path
        The file.
    instead
        What to do where it is damaged, or no such file.

    Raises
    ------
    InputError
        Where the file cannot be read, is damaged, of a newer hhvaem or of another program.
    """
    with _told(Path(path), "read"):
        check_file(Path(path))
        content = Path(path).read_bytes()
    try:
        metadata = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])[_METADATA]
        head = json.loads(metadata["hhvaem"])
        if head["format"] > FORMAT:
            raise InputError(f"{path} is of the newer hhvaem {head['version']}; update this one.")
        arrays = {
            name: np.frombuffer(info["data"], _DTYPES[info["dtype"]]).reshape(info["shape"])
            for name, info in safetensors.deserialize(content)  # type: ignore[no-untyped-call]
        }
        if _checksum(arrays, metadata["manifest"]) != head["sha256"]:
            raise ValueError("wrong checksum")
        return arrays, json.loads(metadata["manifest"])
    except InputError:
        raise
    except (ValueError, KeyError, TypeError, RecursionError, safetensors.SafetensorError) as error:
        what = "is damaged or no file of hhvaem"
        if Path(path).suffix.lower() in _TABLES:
            what = "is no model of hhvaem, but seems a table (commands take the model first)"
        raise InputError(f"{path} {what}; {instead}.") from error


def pack(tree: Any) -> dict[str, np.ndarray]:
    """Give the arrays of a tree by their paths, and typed random keys as numbers.

    Examples
    --------
    >>> pack({"layers": [jnp.zeros(2), jnp.ones(())], "activation": jax.nn.relu})
    {'layers.0': array([0., 0.], dtype=float32), 'layers.1': array(1., dtype=float32)}
    """
    arrays: dict[str, np.ndarray] = {}
    for path, leaf in tree_flatten_with_path(eqx.filter(tree, eqx.is_array))[0]:
        name = _name(path)
        if name in arrays or name == _METADATA or not is_unicode(name):
            raise InputError(f"No array, or no second one, can have the name {name!r}; rename it.")
        array = np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)
        if array.dtype.name not in _DTYPES.values():
            raise InputError(f"The array {name!r} is of dtype {array.dtype}; convert it first.")
        # safetensors takes the memory as it lies, whatever its order.
        arrays[name] = array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)
    return arrays


def unpack(like: Any, arrays: dict[str, np.ndarray]) -> Any:
    """Put what `pack` gave into a tree; all but the arrays is that of `like`.

    Raises
    ------
    InputError
        Where the arrays are not just those of `like`, each of the same shape and dtype.
    """
    wanted = pack(like)
    for name in wanted | arrays:
        if name not in arrays:
            raise InputError(f"The array {name!r} is missing.")
        if name not in wanted:
            raise InputError(f"There is no place for the array {name!r}.")
        there, here = (f"{a.dtype}{list(a.shape)}" for a in (arrays[name], wanted[name]))
        if there != here:
            raise InputError(f"The array {name!r} is {there}, where {here} is needed.")

    def restored(path: Any, leaf: Any) -> Any:
        if not eqx.is_array(leaf):
            return leaf
        stored = arrays[_name(path)]
        if not isinstance(leaf, jax.Array):
            return stored.copy() if isinstance(leaf, np.ndarray) else stored[()]
        array = jnp.array(stored)
        if _is_key(leaf):
            return jax.random.wrap_key_data(array, impl=jax.random.key_impl(leaf))
        if array.dtype != leaf.dtype:
            raise InputError(f"The array {_name(path)!r} is {leaf.dtype}; set jax_enable_x64.")
        # A weakly typed array stays one, so that nothing is compiled anew for it.
        return leaf.at[...].set(array) if leaf.weak_type else array

    return tree_map_with_path(restored, like)


def fingerprint(tree: Any) -> str:
    """Give the SHA-256 of all arrays of a tree: their paths, dtypes, shapes and bits."""
    digest = hashlib.sha256()
    for name, array in sorted(pack(tree).items()):
        digest.update(json.dumps([name, array.dtype.name, array.shape]).encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class Snapshots:
    """Where training keeps itself, to go on after it was killed; made by `open_snapshots`.

    Parameters
    ----------
    folder
        Where the latest snapshot is.
    identity
        What is trained, and on what.
    """

    folder: Path
    identity: dict[str, Json]

    @property
    def path(self) -> Path:
        """The file of the snapshot."""
        return self.folder / "snapshot.safetensors"

    def save(self, tree: Any, info: dict[str, Json | np.ndarray]) -> None:
        """Put a new snapshot in the place of the old one, in a new folder if the old one is gone.

        Raises
        ------
        InputError
            Where it cannot be written.
        """
        told = {key: value for key, value in info.items() if isinstance(value, np.ndarray)}
        arrays = pack({"state": tree}) | {f"info.{key}": value for key, value in told.items()}
        rest = {key: value for key, value in info.items() if key not in told}
        with _told(self.folder, "a folder for snapshots"):
            self.folder.mkdir(parents=True, exist_ok=True)
        write_arrays(self.path, arrays, {"identity": self.identity, "info": rest})

    def load(self, like: Any) -> tuple[Any, dict[str, Any]] | None:
        """Read the snapshot, if there is one, into a tree like the one that was saved.

        Raises
        ------
        InputError
            Where the snapshot is damaged, or does not fit.
        """
        if not self.path.exists():
            return None
        arrays, manifest = read_arrays(self.path, instead=_EMPTY)
        self._check(manifest)
        info = manifest["info"]
        for name in [name for name in arrays if name.startswith("info.")]:
            info[name.removeprefix("info.")] = arrays.pop(name)
        try:
            return unpack({"state": like}, arrays)["state"], info
        except InputError as error:
            reason = str(error).rstrip(".")
            raise InputError(
                f"{self.path} is of another training ({reason}); choose an empty folder."
            ) from error

    def _check(self, manifest: dict[str, Any]) -> None:
        here, there = _parts(self.identity), _parts(manifest.get("identity"))
        for path in here | there:
            ours, theirs = here.get(path, "missing"), there.get(path, "missing")
            if ours != theirs:
                raise InputError(
                    f"{self.path} is of another training ({_name(path)!r} is {_short(theirs)} "
                    f"there and {_short(ours)} here); choose an empty folder."
                )


def make_snapshot_folder(folder: Path) -> None:
    """Make a folder in which snapshots can be written, if it is not there.

    Raises
    ------
    InputError
        Where nothing can be written there.
    """
    with _told(folder, "a folder for snapshots"):
        if folder.is_file():
            raise InputError(f"{folder} is a file; snapshots need a folder, choose an empty one.")
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
        sweep(folder)


def open_snapshots(folder: str | os.PathLike[str], identity: dict[str, Json]) -> Snapshots:
    """Make a folder for the snapshots of a training, or open the one that it has.

    Raises
    ------
    InputError
        Where nothing can be written there, or the snapshot is damaged or of another identity.
    """
    snapshots = Snapshots(Path(folder), json.loads(json.dumps(identity)))
    make_snapshot_folder(snapshots.folder)
    if snapshots.path.exists():
        snapshots._check(read_arrays(snapshots.path, instead=_EMPTY)[1])
    return snapshots


def _name(path: Any) -> str:
    return keystr(path, simple=True, separator=".")


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _checksum(arrays: dict[str, np.ndarray], manifest: str) -> str:
    return fingerprint([arrays, np.frombuffer(manifest.encode(), np.uint8)])


def _parts(identity: Json) -> dict[Any, str]:
    """Give all values in an identity as text, by their paths."""
    parts = tree_flatten_with_path(
        identity, is_leaf=lambda part: not part or not isinstance(part, dict | list)
    )
    return {path: json.dumps(part) for path, part in parts[0]}


def _short(text: str) -> str:
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 3]}..."


@contextlib.contextmanager
def _told(path: Path, done: str) -> Iterator[None]:
    """Say in one sentence what the system has against a file or folder."""
    if "\0" in str(path):
        raise InputError(f"{str(path)!r} cannot be {done}: no file name has a null character.")
    try:
        yield
    except OSError as error:
        raise InputError(f"{path} cannot be {done}: {error.strerror or error}.") from error
