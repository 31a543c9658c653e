"""Rows of a large table in blocks, each of them as good as drawn at random from all.

Training holds one block at a time. A table in memory is divided where it is; one in files is
written to blocks on disk in one pass, row by row to a block that chance chooses.
"""

import contextlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from hhvaem.encoding import TableValues
from hhvaem.errors import InputError
from hhvaem.preparing import Part
from hhvaem.schema import Column
from hhvaem.steps import Settings

if sys.platform != "win32":
    import fcntl

# How often a row of a block is drawn, on average, before the next block takes over: chains go on
# from visit to visit of a row, and those of the third stage need a few to forget their start.
VISITS, VISITS_OF_CHAINS = 1, 4
# Rows of a table in memory that are digested at once.
DIGESTED = 65_536
# How folders of blocks are called; nothing else is in them than files of such names.
FOLDER, BLOCK = "hhvaem-blocks-", re.compile(r"block-\d+")


@dataclass(frozen=True)
class Blocks:
    """A table of inputs and targets in blocks.

    Parameters
    ----------
    columns, target_columns
        What it is a table of.
    sizes
        Rows of each block.
    load
        Gives the values of a block, those of targets last; NaN where nothing is observed.
    digest
        What differs where any row of the table does, or their order.
    """

    columns: tuple[Column, ...]
    target_columns: tuple[Column, ...]
    sizes: tuple[int, ...]
    load: Callable[[int], TableValues]
    digest: str

    @property
    def rows(self) -> int:
        """Rows of the whole table."""
        return sum(self.sizes)

    def part(self, number: int) -> tuple[Part, Part | None]:
        """Give the inputs of a block, and its targets if there are any."""
        return self._parts(self.load(number))

    def columns_alone(self) -> tuple[Part, Part | None]:
        """Give values of each column and target for a model of it alone.

        As many observed cells as a block has rows, or all there are: a column that is hardly ever
        observed may have none in a block. The cells of a row have nothing to do with each other.
        """
        most = max(self.sizes)
        width = len(self.columns) + len(self.target_columns)
        values, counts = np.full((most, width), np.nan), np.zeros(width, int)
        for number in range(len(self.sizes)):
            block = self.load(number)
            for j in np.flatnonzero(counts < most):
                seen = block[~np.isnan(block[:, j]), j][: most - counts[j]]
                values[counts[j] : counts[j] + len(seen), j] = seen
                counts[j] += len(seen)
            if (counts == most).all():
                break
        return self._parts(values)

    def _parts(self, values: TableValues) -> tuple[Part, Part | None]:
        width, mask = len(self.columns), ~np.isnan(values)
        inputs = Part(self.columns, values[:, :width], mask[:, :width])
        if not self.target_columns:
            return inputs, None
        return inputs, Part(self.target_columns, values[:, width:], mask[:, width:])


def turns(sizes: tuple[int, ...], settings: Settings) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Say which block takes over at which step: their numbers and first steps.

    Each stage goes through all blocks if it has steps enough to stay with each for a while, and
    otherwise through the next ones.

    Examples
    --------
    >>> settings = Settings(inference="likelihood", steps=1000, hmc_steps=400, batch_size=100)
    >>> turns((10_000,) * 4, settings)
    ((0, 1, 2, 3, 0), (0, 150, 300, 450, 600))
    """
    numbers, first, next_block = [], [], 0
    begin = 0
    for end, visits in ((settings.second_stage, VISITS), (settings.steps, VISITS_OF_CHAINS)):
        steps = end - begin
        stay = max(-(-steps // len(sizes)), -(-visits * max(sizes) // settings.batch_size))
        for step in range(begin, end, stay):
            numbers.append(next_block % len(sizes))
            first.append(step)
            next_block += 1
        begin = end
    return tuple(numbers), tuple(first)


def count_of(rows: int, at_once: int) -> int:
    """Say into how many blocks a table is divided, of which about `at_once` rows are held."""
    return -(-rows // at_once)


def in_memory(inputs: Part, targets: Part | None, *, count: int, seed: int) -> Blocks:
    """Divide a table that is in memory."""
    values = inputs.values
    if targets is not None:
        values = np.concatenate([values, np.where(targets.mask, targets.values, np.nan)], axis=1)
    block = _drawn(np.random.default_rng(seed), len(values), count)
    sizes = tuple(np.bincount(block, minlength=count).tolist())
    of_targets = () if targets is None else targets.columns
    digest = blake2b()
    for first in range(0, len(values), DIGESTED):
        digest.update(_content(values[first : first + DIGESTED]))
    return Blocks(
        inputs.columns,
        of_targets,
        sizes,
        lambda number: values[block == number],
        digest.hexdigest(),
    )


@contextlib.contextmanager
def folder_for_blocks() -> Iterator[Path]:
    """Make a folder among the temporary files, and remove it at the end.

    What killed fits left there is removed, too: it is as large as their tables.

    Raises
    ------
    InputError
        Where none can be made.
    """
    with contextlib.ExitStack() as cleaning:
        try:
            _sweep(Path(tempfile.gettempdir()))
            folder = _new_folder(cleaning)
        except OSError as error:
            raise InputError(
                f"No folder for blocks of rows can be made: {error.strerror or error}; set TMPDIR "
                "to a folder with room for the table as numbers, 8 bytes each."
            ) from error
        yield folder


def _sweep(place: Path) -> None:
    """Remove the blocks of killed fits, and nothing of those still at work."""
    for left in place.glob(f"{FOLDER}*"):
        with contextlib.suppress(OSError), _locked(left, wait=False):
            if all(BLOCK.fullmatch(path.name) for path in left.iterdir()):
                shutil.rmtree(left)


def _new_folder(cleaning: contextlib.ExitStack) -> Path:
    """Make a folder under a lock; both end with `cleaning`."""
    while True:
        folder = Path(cleaning.enter_context(tempfile.TemporaryDirectory(prefix=FOLDER)))
        with contextlib.suppress(OSError):  # some file systems have no locks
            cleaning.enter_context(_locked(folder, wait=True))
        # Before it had its lock, another process may have taken it for one left behind.
        if folder.exists():
            return folder


@contextlib.contextmanager
def _locked(folder: Path, *, wait: bool) -> Iterator[None]:
    """Hold the lock of a folder; it ends with the process, however that ends."""
    if sys.platform == "win32":
        raise OSError("folders have no locks")
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
    finally:
        os.close(descriptor)


def on_disk(
    columns: tuple[Column, ...],
    target_columns: tuple[Column, ...],
    chunks: Iterable[TableValues],
    folder: Path,
    *,
    count: int,
    seed: int,
) -> Blocks:
    """Divide a table that comes in chunks, into files of a folder.

    Raises
    ------
    InputError
        Where they cannot be written.
    """
    rng = np.random.default_rng(seed)
    paths = [folder / f"block-{number}" for number in range(count)]
    sizes, digest = np.zeros(count, int), blake2b()
    try:
        for values in chunks:
            digest.update(_content(values))
            block = _drawn(rng, len(values), count)
            for number in np.unique(block):
                own = values[block == number]
                sizes[number] += len(own)
                with open(paths[number], "ab") as file:
                    # Not `tofile`, which does not tell of what a full disk did not take.
                    file.write(np.ascontiguousarray(own).data)
    except OSError as error:
        raise InputError(
            f"The rows cannot be put into blocks in {folder}: {error.strerror or error}; set "
            "TMPDIR to a folder with room for the table as numbers, 8 bytes each."
        ) from error
    width = len(columns) + len(target_columns)

    def load(number: int) -> Float[np.ndarray, "rows columns"]:
        try:
            values = np.fromfile(os.fspath(paths[number]))
        except OSError:
            values = np.zeros(0)
        if values.size != sizes[number] * width:
            raise InputError(
                f"{paths[number]} has lost rows that were put into it; set TMPDIR to a folder "
                "from which nothing is removed during the fit."
            )
        return values.reshape(-1, width)

    return Blocks(columns, target_columns, tuple(sizes.tolist()), load, digest.hexdigest())


def _content(values: TableValues) -> bytes:
    """Give the bytes of rows; there is more than one NaN, but only one kind of hole."""
    return np.where(np.isnan(values), np.nan, values).tobytes()


def _drawn(rng: np.random.Generator, rows: int, count: int) -> Int[np.ndarray, " rows"]:
    """Draw the block of each row; the same for a table at once and in chunks."""
    return (rng.random(rows) * count).astype(np.int64)
