"""Get a data set from its public source into a folder."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from hhvaem.datasets.catalogue import entry as look_up
from hhvaem.datasets.download import LOG, Patience, download, put
from hhvaem.datasets.places import (
    cache_folder,
    find,
    find_own,
    in_scikit_learn,
    is_right,
    size_limit,
    unpacked,
)
from hhvaem.datasets.records import Entry, File
from hhvaem.datasets.unpack import extract
from hhvaem.errors import InputError

Progress = Callable[[str, int, int | None], None]


def fetch(
    name: str | Entry,
    folder: str | os.PathLike[str] | None = None,
    *,
    progress: Progress | None = None,
    patience: Patience | None = None,
) -> list[Path]:
    """Fetch a data set, unless it is there already.

    Downloads that break are resumed, also by a later run. A file is put in place whole, and only
    when the checksum of its content is right. Each attempt that fails is a warning of the logger
    `hhvaem.datasets`, which Python shows on standard error unless told otherwise.

    Parameters
    ----------
    name
        A data set of `hhvaem.datasets.CATALOGUE`, or an entry of your own.
    folder
        Where it is to be; else where `load` looks without being told, and if it is nowhere
        there, it is put into the cache.
    progress
        Called while downloading with the name of the file, the bytes so far and the bytes in all
        (None where the server does not say).
    patience
        How long to try.

    Returns
    -------
    list of Path
        Where its files are.

    Raises
    ------
    InputError
        Where the data set may not be fetched, no source gives it, or what they give is wrong.

    Examples
    --------
    Scikit-learn brings this one along:

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in fetch("wine", folder)]
    ['wine_data.csv']
    """
    entry = name if isinstance(name, Entry) else look_up(name)
    place = Path(folder) if folder is not None else cache_folder()
    paths = [_present(file, folder) for file in entry.files]
    if entry.by_hand and None in paths:
        raise InputError(f"{entry.by_hand} {place / entry.name}.")
    parts: dict[str, Path] = {}
    try:
        return [
            path or _get(entry, file, place, parts, progress, patience or Patience())
            for file, path in zip(entry.files, paths, strict=True)
        ]
    except OSError as error:
        raise InputError(
            f"The data set {entry.name!r} cannot be written to {place} ({error.strerror}); "
            "choose another place with --folder."
        ) from error
    finally:
        for part in parts.values():
            part.unlink(missing_ok=True)


def _present(file: File, folder: str | os.PathLike[str] | None) -> Path | None:
    """Find a file whose content is right; a wrong one is fetched again."""
    for each in filter(None, (file.conversion, file)):
        path = find(each, folder)
        if path and is_right(each, unpacked(path.read_bytes(), size_limit(each))):
            return path
    return find_own(file, folder)


def _get(
    entry: Entry,
    file: File,
    place: Path,
    parts: dict[str, Path],
    progress: Progress | None,
    patience: Patience,
) -> Path:
    """Get one file from scikit-learn or the first source that has it; `parts` are kept archives."""
    target = place / file.path
    content = in_scikit_learn(file)
    if content is not None:
        put(content, target)
        return target
    reasons = []
    for url in file.sources:
        try:
            content = _from_source(file, url, target.parent, parts, progress, patience)
        except InputError as error:
            reasons.append(str(error))
        else:
            if content is not None:
                put(content, target)
                return target
            reasons.append("what came is not the published file")
        LOG.warning("%s: %s; given up.", url, reasons[-1])
    raise InputError(
        f"The data set {entry.name!r} could not be fetched ({', '.join(dict.fromkeys(reasons))}); "
        f"try again later, or put the file by hand at {target}."
    )


def _from_source(
    file: File,
    url: str,
    folder: Path,
    parts: dict[str, Path],
    progress: Progress | None,
    patience: Patience,
) -> bytes | None:
    """Give the file's content from an address, or None where it is not there."""

    def report(done: int, total: int | None) -> None:
        if progress:
            progress(file.name, done, total)

    if url in parts:
        return extract(file, parts[url])
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f".{hashlib.sha256(url.encode()).hexdigest()[:16]}.part"
    resumed = download(url, part, report, patience)
    parts[url] = part
    content = extract(file, part)
    if content is None and resumed:
        part.unlink()  # its beginning was stale: once more, from the start
        download(url, part, report, patience)
        content = extract(file, part)
    return content
