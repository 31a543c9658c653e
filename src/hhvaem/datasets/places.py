"""Where data lie on this machine, and reading a file only if its content is the right one."""

import gzip
import hashlib
import importlib.util
import io
import os
import sys
import zlib
from pathlib import Path

from hhvaem.containers import shown
from hhvaem.datasets.records import Entry, File
from hhvaem.errors import InputError


def cache_folder() -> Path:
    """Give the folder that `fetch` fills.

    `XDG_CACHE_HOME` is followed on every system; without it the folder is the one that the
    system keeps for caches.
    """
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base) / "hhvaem"
    if sys.platform == "win32" and (base := os.environ.get("LOCALAPPDATA")):
        return Path(base) / "hhvaem"
    caches = "Library/Caches" if sys.platform == "darwin" else ".cache"
    return Path.home() / caches / "hhvaem"


def folders(folder: str | os.PathLike[str] | None) -> tuple[Path, ...]:
    """List the folders to look in: the one given, or else HHVAEM_DATA and the cache."""
    if folder is not None:
        if not isinstance(folder, str | os.PathLike):
            raise InputError(f"folder={shown(folder)} is no folder; give its path.")
        return (Path(folder),)
    data = os.environ.get("HHVAEM_DATA")
    return (*((Path(data),) if data else ()), cache_folder())


def find(file: File, folder: str | os.PathLike[str] | None = None) -> Path | None:
    """Find a file, plain or gzipped."""
    for place in folders(folder):
        for path in (place / file.path, place / f"{file.path}.gz"):
            if path.is_file():
                return path
    return None


def find_own(file: File, folder: str | os.PathLike[str] | None = None) -> Path | None:
    """Find the user's own copy of a file that may not be passed on."""
    paths = (place / name for place in folders(folder) for name in file.own)
    return next((path for path in paths if path.exists()), None)


def lacking(entry: Entry, folder: str | os.PathLike[str] | None = None) -> list[str]:
    """List the files of a data set that are not here, as far as can be said without reading."""
    return [
        file.path
        for file in entry.files
        if not (
            find(file, folder)
            or find_own(file, folder)
            or (file.conversion and find(file.conversion, folder))
            or in_scikit_learn(file)
        )
    ]


def is_right(file: File, content: bytes) -> bool:
    """Compare content with the checksums of a file; line ends may have changed on the way."""
    if hashlib.sha256(content).hexdigest() in file.sha256:
        return True
    return hashlib.sha256(content.replace(b"\r\n", b"\n")).hexdigest() in file.sha256


def unpacked(content: bytes, limit: int) -> bytes:
    """Unpack gzip, up to `limit` bytes; anything else comes back as it is.

    Examples
    --------
    >>> unpacked(gzip.compress(b"12345"), limit=3), unpacked(b"12345", limit=3)
    (b'123', b'12345')
    """
    if not content.startswith(b"\x1f\x8b"):
        return content
    try:
        with gzip.open(io.BytesIO(content)) as stream:
            return stream.read(limit)
    except (OSError, EOFError, zlib.error):
        return content  # which no checksum fits


def in_scikit_learn(file: File) -> bytes | None:
    """Give the file's content where the installed scikit-learn has the very same."""
    spec = importlib.util.find_spec("sklearn") if file.resource else None
    for place in (spec and spec.submodule_search_locations) or ():
        path = Path(place) / file.resource
        if path.is_file():
            content = unpacked(path.read_bytes(), size_limit(file))
            if is_right(file, content):
                return content
    return None


def read(entry: Entry, file: File, folder: str | os.PathLike[str] | None = None) -> bytes:
    """Read the content of a file of a data set.

    Raises
    ------
    InputError
        Where the file is missing, or its content is not the published one.
    """
    path = find(file, folder)
    if path is None:
        content = in_scikit_learn(file)
        if content is not None:
            return content
        raise InputError(missing(entry, folder))
    try:
        content = unpacked(path.read_bytes(), size_limit(file))
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}).") from error
    if not is_right(file, content):
        raise InputError(
            f"{path} is not the published file of the data set {entry.name!r} (its checksum "
            f"differs); delete it and run `{_command(entry, folder)}`."
        )
    return content


def missing(entry: Entry, folder: str | os.PathLike[str] | None) -> str:
    """Say that a data set is not here, and how to get it."""
    places = " or ".join(str(place) for place in folders(folder))
    if entry.by_hand:
        return f"{entry.by_hand} {folders(folder)[0] / entry.name}."
    return (
        f"The data set {entry.name!r} is not in {places}; get it with "
        f"`{_command(entry, folder)}`, or let HHVAEM_DATA name the folder that has it."
    )


def size_limit(file: File) -> int:
    """Bytes that are certainly enough: an edition may be a little longer than another."""
    return 4 * file.size + 1024


def _command(entry: Entry, folder: str | os.PathLike[str] | None) -> str:
    where = "" if folder is None else f" --folder {os.fspath(folder)}"
    return f"hhvaem data fetch {entry.name}{where}"
