"""The content of one wanted file, out of whatever a server sent."""

import io
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from hhvaem.datasets.places import is_right, size_limit, unpacked
from hhvaem.datasets.records import File

_LARGEST_ARCHIVE = 256 << 20
_DEPTH = 2  # an archive may hold an archive, as UCI's bank marketing does


def extract(file: File, payload: Path) -> bytes | None:
    """Give the wanted content, or None where the payload does not have it.

    The payload may be the content, the content gzipped, or a zip archive with either of these as
    a member, at any place in it. Members are known by name and read into memory; their paths are
    never followed.
    """
    content = payload.read_bytes()
    for candidate in _candidates(file, content, _DEPTH):
        if is_right(file, candidate):
            return candidate
    return None


def _candidates(file: File, content: bytes, depth: int) -> Iterator[bytes]:
    yield unpacked(content, size_limit(file))
    if depth == 0 or not content.startswith(b"PK"):
        return
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for member in archive.infolist():
                name = PurePosixPath(member.filename).name
                if name in (file.name, f"{file.name}.gz") and member.file_size <= size_limit(file):
                    yield from _candidates(file, archive.read(member), 0)
                elif name.endswith(".zip") and member.file_size <= _LARGEST_ARCHIVE:
                    yield from _candidates(file, archive.read(member), depth - 1)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError):
        return  # a broken or encrypted archive has nothing for us
