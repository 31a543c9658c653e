"""The record of a comparison's folds and masks, so that every method sees the same work."""

import base64
import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pyarrow as pa
from jaxtyping import Array, Bool, Int, Key, UInt8

from hhvaem.datasets.download import put
from hhvaem.datasets.splits import check_seed, folds, test_mask
from hhvaem.datasets.tables import Dataset
from hhvaem.errors import InputError

VERSION = 1


@dataclass(frozen=True, eq=False)
class Work:
    """The folds and masks of one comparison on one table.

    Parameters
    ----------
    name, checksum
        The data set and the checksum of its table.
    inputs, targets
        Its columns.
    seed
        What folds, test masks and the stream of training masks are drawn from.
    fold
        The fold in which each row is tested.
    observed
        Which inputs of a row are observed when it is tested.
    """

    name: str
    checksum: str
    inputs: tuple[str, ...]
    targets: tuple[str, ...]
    seed: int
    fold: UInt8[np.ndarray, " rows"]
    observed: Bool[np.ndarray, "rows inputs"]

    @property
    def count(self) -> int:
        """The number of folds."""
        return int(self.fold.max()) + 1

    def test_rows(self, fold: int) -> Int[np.ndarray, " test"]:
        """Give the rows that are tested in a fold."""
        self._check(fold)
        return np.flatnonzero(self.fold == fold)

    def train_rows(self, fold: int) -> Int[np.ndarray, " train"]:
        """Give the rows that are trained on when a fold is tested."""
        self._check(fold)
        return np.flatnonzero(self.fold != fold)

    def test_mask(self, fold: int) -> Bool[np.ndarray, "test inputs"]:
        """Give the mask of a test fold, in the order of `test_rows`."""
        return self.observed[self.test_rows(fold)]

    def train_key(self, fold: int, step: int | Int[Array, ""]) -> Key[Array, ""]:
        """Give the key of the training mask of a step; `step` may be traced."""
        self._check(fold)
        return jax.random.fold_in(jax.random.fold_in(jax.random.key(self.seed), fold), step)

    def _check(self, fold: int) -> None:
        if fold not in range(self.count):
            raise InputError(
                f"There is no fold {fold!r}; the folds of this work are 0 to {self.count - 1}."
            )

    def to_json(self) -> str:
        """Write the record as JSON text, its arrays packed."""
        content = {
            "version": VERSION,
            "name": self.name,
            "checksum": self.checksum,
            "rows": len(self.fold),
            "inputs": self.inputs,
            "targets": self.targets,
            "seed": self.seed,
            "fold": _text(self.fold),
            "observed": _text(np.packbits(self.observed)),
        }
        return json.dumps(content, indent=1)

    @classmethod
    def from_json(cls, text: str) -> "Work":
        """Read what `to_json` wrote."""
        try:
            content = json.loads(text)
            if content["version"] != VERSION:
                raise InputError(
                    f"This record of folds and masks has version {content['version']!r}, this "
                    f"hhvaem reads version {VERSION}; make it anew."
                )
            return cls._of(content)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(
                "This is no record of folds and masks, or a damaged one; make it anew."
            ) from error

    @classmethod
    def _of(cls, content: dict[str, Any]) -> "Work":
        inputs, targets = tuple(content["inputs"]), tuple(content["targets"])
        fold = _bytes(content["fold"])
        packed, cells = _bytes(content["observed"]), len(fold) * len(inputs)
        # unpackbits would fill up what is missing with zeros, without a word.
        if len(fold) != content["rows"] or len(packed) != -(-cells // 8):
            raise ValueError("too few or too many bytes")
        numbers = np.unique(fold)
        if len(numbers) < 2 or numbers[-1] != len(numbers) - 1:
            raise ValueError("folds without rows")
        check_seed(content["seed"])
        observed = np.unpackbits(packed, count=cells).reshape(len(fold), len(inputs)).astype(bool)
        return cls(
            content["name"], content["checksum"], inputs, targets, content["seed"], fold, observed
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the record to a file, in a folder that there is.

        Raises
        ------
        InputError
            Where it cannot be written.
        """
        path = Path(path)
        try:
            if path.is_dir():
                raise InputError(f"{path} is a folder; give the name of a file in it.")
            if not path.parent.is_dir():
                raise InputError(f"There is no folder {path.parent}; make it, or save elsewhere.")
            put(self.to_json().encode(), path)
        except OSError as error:
            raise InputError(
                f"{path} cannot be written ({error.strerror}); save elsewhere."
            ) from error

    @classmethod
    def load(cls, path: str | os.PathLike[str], dataset: Dataset) -> "Work":
        """Read a record that belongs to this very table.

        Raises
        ------
        InputError
            Where there is no record, or it belongs to another table.
        """
        try:
            work = cls.from_json(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(f"{path} cannot be read ({error.strerror}).") from error
        except UnicodeDecodeError as error:
            raise InputError(
                f"{path} is no record of folds and masks (it is not text); make it anew."
            ) from error
        theirs = (len(work.fold), work.inputs, work.targets, work.checksum)
        table = dataset.table
        if theirs != (table.num_rows, dataset.inputs, dataset.targets, table_checksum(table)):
            raise InputError(
                f"The folds and masks in {path} were drawn for another table than this "
                f"{dataset.name!r} (a form of {work.name!r} with {len(work.fold)} rows); "
                "draw new ones with plan."
            )
        return work


def plan(dataset: Dataset, seed: int, *, count: int = 10, rate: float = 0.5) -> Work:
    """Draw the folds and the test masks of a table.

    Parameters
    ----------
    dataset
        The table.
    seed
        An int from 0 to 2**32 - 1; the same seed gives the same folds and masks.
    count
        Number of folds.
    rate
        The probability that an input cell is hidden in a test.

    Raises
    ------
    InputError
        Where seed, count or rate is out of its range.

    Examples
    --------
    >>> from hhvaem.datasets import load
    >>> work = plan(load("wine"), seed=0)
    >>> len(work.train_rows(0)), work.test_mask(0).shape
    (160, (18, 13))
    """
    inputs = dataset.inputs
    fold = np.zeros(dataset.table.num_rows, dtype=np.uint8)
    observed = np.zeros((len(fold), len(inputs)), dtype=bool)
    for number, rows in enumerate(folds(len(fold), seed, count)):
        fold[rows] = number
        observed[rows] = test_mask(len(rows), len(inputs), (seed, number), rate)
    checksum = table_checksum(dataset.table)
    return Work(dataset.name, checksum, inputs, dataset.targets, seed, fold, observed)


def table_checksum(table: pa.Table) -> str:
    """Give a checksum of a table's names and values, however they are stored in memory.

    Examples
    --------
    >>> import pyarrow as pa
    >>> whole = pa.table({"a": [1.0, 2.0], "b": ["x", "y"]})
    >>> parts = pa.concat_tables([whole.slice(0, 1), whole.slice(1)])
    >>> table_checksum(whole) == table_checksum(parts)
    True
    """
    digest = hashlib.sha256()
    for name, column in zip(table.column_names, table.columns, strict=True):
        digest.update(json.dumps(name).encode())
        if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
            digest.update(column.to_numpy().astype("<f8").tobytes())
        else:
            digest.update(json.dumps(column.to_pylist(), default=str).encode())
    return digest.hexdigest()


def _text(values: np.ndarray) -> str:
    return base64.b64encode(values.tobytes()).decode()


def _bytes(text: str) -> UInt8[np.ndarray, " bytes"]:
    return np.frombuffer(base64.b64decode(text, validate=True), dtype=np.uint8)
