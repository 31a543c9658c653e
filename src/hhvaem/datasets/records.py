"""The records that describe a data set and its files."""

import posixpath
from dataclasses import dataclass, field

from hhvaem.datasets.columns import Columns


@dataclass(frozen=True)
class File:
    """One file of a data set.

    Parameters
    ----------
    path
        Where it lies inside a data folder, unpacked; with `.gz` behind it is accepted too.
    size
        Bytes of the unpacked content.
    sha256
        Checksums of the unpacked content, one for each edition in circulation.
    sources
        Public addresses of the file itself or of a (nested) zip archive that holds it.
    resource
        Where the installed scikit-learn has it.
    conversion
        The same values as a csv file, which is read instead where it is present.
    own
        Where a copy of the user's own may lie, a file or a folder, which is used unchecked.
    """

    path: str
    size: int
    sha256: tuple[str, ...]
    sources: tuple[str, ...] = ()
    resource: str = ""
    conversion: "File | None" = None
    own: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The file's name without its folder."""
        return posixpath.basename(self.path)


@dataclass(frozen=True)
class Entry:
    """One data set; an image set has a `shape`, a table has `columns`.

    Parameters
    ----------
    name, title
        What it is asked for by, and what it is.
    rows
        Number of rows, or of images.
    files
        All its files.
    licence
        Its licence in two words, as far as known.
    targets
        What is predicted: columns of a table, or the labels of images.
    columns
        Name and kind of each column of the file.
    delimiter
        What separates the fields; None for any run of blanks.
    header
        Lines before the first record.
    shape
        Height, width and, with colours, channels of an image.
    published
        Whether it is one of the paper's ten tables.
    terms
        What else to know of its licence.
    by_hand
        How to obtain it, where it must not be fetched.
    """

    name: str
    title: str
    rows: int
    files: tuple[File, ...]
    licence: str
    targets: tuple[str, ...]
    columns: Columns = field(default=(), repr=False)
    delimiter: str | None = ","
    header: int = 0
    shape: tuple[int, ...] = ()
    published: bool = True
    terms: str = ""
    by_hand: str = ""

    @property
    def size(self) -> int:
        """Bytes of all files, unpacked."""
        return sum(file.size for file in self.files)
