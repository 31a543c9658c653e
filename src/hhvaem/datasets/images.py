"""The paper's image sets as arrays of bytes."""

import io
import lzma
import math
import os
import sys
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from numbers import Integral
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, UInt8

from hhvaem.containers import repeated, shown
from hhvaem.datasets.catalogue import entry as look_up
from hhvaem.datasets.places import find, find_own, missing, read
from hhvaem.datasets.records import Entry, File
from hhvaem.errors import InputError

_CROP = 148  # the paper's centre crop of an aligned image, 178 wide and 218 high
_ALIGNED = (178, 218)
_SIZE = (64, 64)
_SUFFIX = ".jpg"
_MOST_DIMENSIONS = 64  # that an array of NumPy may have
_CODES = {"-1": 0, "0": 0, "1": 1}  # 0 in copies that somebody has changed


@dataclass(frozen=True, eq=False)
class Images:
    """Images with their labels.

    Parameters
    ----------
    name
        The data set's name.
    pixels
        The images: height and width, and channels where there are colours.
    labels
        A class per image, or a row of 0 and 1, one for each attribute.
    labelled
        Whether an image has a label; the row of one that has none is 0.
    attributes
        The names of the attributes.
    """

    name: str
    pixels: UInt8[np.ndarray, "images height width *channels"]
    labels: UInt8[np.ndarray, "images *attributes"]
    labelled: Bool[np.ndarray, " images"]
    attributes: tuple[str, ...] = ()

    @property
    def unlabelled(self) -> int:
        """How many images have no label."""
        return int((~self.labelled).sum())


def load_images(
    name: str,
    *,
    part: Literal["train", "test"] = "train",
    limit: int | None = None,
    folder: str | os.PathLike[str] | None = None,
) -> Images:
    """Load an image set.

    Parameters
    ----------
    name
        `mnist`, `fashion_mnist` or `celeba`.
    part
        The official part; the paper splits `train` again and does not use `test`. CelebA is not
        divided here: it has `train` only.
    limit
        How many images to load at most, from the first one on; at least one.
    folder
        Where the data lie; else as for `load`.

    Returns
    -------
    Images

    Raises
    ------
    InputError
        Where there is no such set or part, it is not on this machine, or a file is not what it
        should be.
    """
    entry = look_up(name)
    if not entry.shape:
        raise InputError(f"{name!r} is a table, not a set of images; load it with load({name!r}).")
    parts = ("train",) if name == "celeba" else ("train", "test")
    if part not in parts:
        choices = " or ".join(f"part={each!r}" for each in parts)
        raise InputError(f"{name!r} has no part {part!r} here; load {choices}.")
    if limit is not None and not _is_count(limit):
        raise InputError(
            f"limit={shown(limit)} is no number of images; give an int from 1 on, or None for all."
        )
    if name == "celeba":
        return _celeba(entry, limit, folder)
    prefix = "train" if part == "train" else "t10k"
    pixels, labels = (
        parse_idx(read(entry, file, folder))[:limit]
        for file in entry.files
        if file.name.startswith(prefix)
    )
    return Images(name, pixels, labels, np.ones(len(labels), dtype=bool))


def parse_idx(content: bytes) -> UInt8[np.ndarray, "..."]:
    """Read the idx format of MNIST, for unsigned bytes.

    Parameters
    ----------
    content
        Two zero bytes, the type 8, the number of dimensions; each dimension in four bytes, the
        high one first; the values.

    Raises
    ------
    InputError
        Where the content is nothing of that sort.

    Examples
    --------
    >>> parse_idx(bytes([0, 0, 8, 1, 0, 0, 0, 3]) + b"abc")
    array([97, 98, 99], dtype=uint8)
    """
    if len(content) < 4 or content[:3] != b"\0\0\x08" or content[3] > _MOST_DIMENSIONS:
        raise InputError("This is no idx file of unsigned bytes.")
    start = 4 + 4 * content[3]
    shape = [
        int.from_bytes(content[i : i + 4], "big") for i in range(4, min(start, len(content)), 4)
    ]
    # In Python's integers, which do not wrap around.
    if len(content) < start or len(content) - start != math.prod(shape):
        raise InputError("This idx file is longer or shorter than it says.")
    try:
        return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)
    except ValueError as error:  # no values, of dimensions beyond all arrays
        raise InputError("This idx file has dimensions that no array can have.") from error


def _is_count(limit: Any) -> bool:
    whole = isinstance(limit, Integral) and not isinstance(limit, bool)
    return whole and 1 <= int(limit) <= sys.maxsize


def _celeba(entry: Entry, limit: int | None, folder: str | os.PathLike[str] | None) -> Images:
    pictures, table = (_located(entry, file, folder) for file in entry.files)
    files = list(islice(_pictures(pictures), limit))
    if not files:
        raise InputError(f"{pictures} has no {_SUFFIX} images; put those of CelebA there.")
    attributes, rows = _attributes(table)
    none = np.zeros(len(attributes), dtype=np.uint8)
    pixels = np.stack([_picture(name, content) for name, content in files])
    there = {name for name, _ in files}
    # With a limit there are images that were not looked for.
    alone = next((name for name in rows if name not in there), None) if limit is None else None
    if alone is not None:
        raise InputError(
            f"{table} has a row of attributes for {alone}, and {pictures} has no such image; put "
            "it there, or take the row away."
        )
    return Images(
        entry.name,
        pixels,
        np.stack([rows.get(name, none) for name, _ in files]),
        np.array([name in rows for name, _ in files]),
        attributes,
    )


def _located(entry: Entry, file: File, folder: str | os.PathLike[str] | None) -> Path:
    """Find the user's own copy, or the sample, whose content is checked."""
    path = find_own(file, folder) or find(file, folder)
    if path is None:
        raise InputError(missing(entry, folder))
    if path.name == file.name:
        read(entry, file, folder)
    return path


def _pictures(path: Path) -> Iterator[tuple[str, bytes]]:
    """Give name and content of the images of a folder or a zip archive, in the order of names."""
    if path.is_dir():
        for name in _apart(path, [picture.name for picture in path.glob("*")]):
            picture = path / name
            try:
                yield _called(name), picture.read_bytes()
            except OSError as error:
                raise InputError(
                    f"{picture} cannot be read as an image ({error.strerror}); take it away or "
                    "put the image there."
                ) from error
        return
    try:
        with zipfile.ZipFile(path) as archive:
            for member in _apart(path, archive.namelist()):
                yield _called(member), archive.read(member)
    except (
        OSError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, RuntimeError, EOFError
    ) as error:  # fmt: skip
        raise InputError(f"{path} is no zip archive that can be read; get it again.") from error


def _apart(path: Path, members: list[str]) -> list[str]:
    """List the images among the members of a folder or an archive; no two share a name."""
    found = sorted(
        member
        for member in members
        # What a Mac puts beside the images is none.
        if _called(member).endswith(_SUFFIX) and not PurePosixPath(member).name.startswith("._")
    )
    twice = repeated(map(_called, found))
    if twice:
        raise InputError(f"{path} has more than one image named {twice}; keep one of each.")
    return found


def _called(member: str) -> str:
    """Give the name of an image without folders, and with its suffix in small letters."""
    name = PurePosixPath(member).name
    suffix = PurePosixPath(name).suffix
    return name.removesuffix(suffix) + suffix.lower()


def _picture(name: str, content: bytes) -> UInt8[np.ndarray, "64 64 3"]:
    """Decode an image; an aligned one of full size is cropped and scaled as in the paper."""
    from PIL import Image

    try:
        with warnings.catch_warnings():
            # Its size is told below.
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            packed = Image.open(io.BytesIO(content))
        # Before it is unpacked, where it may be beyond all memory.
        if packed.size not in (_ALIGNED, _SIZE):
            raise _wrong_size(name, f"{packed.width} x {packed.height}")
        picture = packed.convert("RGB")
    except Image.DecompressionBombError as error:
        raise _wrong_size(name, f"more than {2 * (Image.MAX_IMAGE_PIXELS or 0):,}") from error
    except OSError as error:
        raise InputError(f"The image {name} of 'celeba' cannot be read.") from error
    if picture.size == _ALIGNED:
        left, top = (_ALIGNED[0] - _CROP) // 2, (_ALIGNED[1] - _CROP) // 2
        picture = picture.crop((left, top, left + _CROP, top + _CROP)).resize(_SIZE)
    return np.asarray(picture)


def _wrong_size(name: str, size: str) -> InputError:
    return InputError(
        f"The image {name} of 'celeba' is {size} pixels; give the aligned ones (178 x 218), or "
        "64 x 64."
    )


def _attributes(path: Path) -> tuple[tuple[str, ...], dict[str, np.ndarray]]:
    """Read attributes, -1 and 1 in the file, as 0 and 1: blanks and a count above, or commas."""
    try:
        # Some programs begin a csv with a mark of the order of its bytes.
        text = path.read_text(encoding="utf-8-sig")
        lines = [line for line in text.splitlines() if line.strip()]
        if lines[0].strip().isdigit():
            lines = lines[1:]
        header, *records = (line.split("," if "," in line else None) for line in lines)
        rows = [
            (_called(name), np.array([_CODES[value.strip()] for value in values], dtype=np.uint8))
            for name, *values in records
        ]
    except (OSError, ValueError, LookupError) as error:
        raise InputError(
            f"{path} is not a table of attributes of 'celeba', each -1 or 1; get it again."
        ) from error
    names = tuple(name for name in header if name not in ("", "image_id"))
    if not names:
        raise InputError(f"{path} has no attributes in its header; get it again.")
    if twice := repeated(names):
        raise InputError(f"{path} has more than one attribute named {twice}; keep one of each.")
    if any(len(row) != len(names) for _, row in rows):
        raise InputError(f"{path} has rows of more or fewer than {len(names)} attributes.")
    if twice := repeated(name for name, _ in rows):
        raise InputError(f"{path} has more than one row for {twice}; keep one of each.")
    return names, dict(rows)
