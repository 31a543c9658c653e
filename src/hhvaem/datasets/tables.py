"""The paper's tables as Arrow tables, in a corrected form or with the published typing."""

import io
import os
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from hhvaem.datasets.catalogue import entry as look_up
from hhvaem.datasets.places import find, read
from hhvaem.datasets.published import publish
from hhvaem.datasets.records import Entry, File
from hhvaem.errors import InputError
from hhvaem.schema import LEVELLED, Kind

_Reader = Callable[[File], bytes]


@dataclass(frozen=True)
class Dataset:
    """A table with what its columns are.

    Parameters
    ----------
    name
        The data set's name.
    table
        All its rows, complete.
    kinds
        The kind of each column, targets included.
    targets
        The columns to predict.
    as_published
        Whether the typing is that of the paper's published loaders.
    """

    name: str
    table: pa.Table
    kinds: dict[str, Kind]
    targets: tuple[str, ...]
    as_published: bool = False

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns that are no targets."""
        return tuple(name for name in self.table.column_names if name not in self.targets)


def load(
    name: str, *, as_published: bool = False, folder: str | os.PathLike[str] | None = None
) -> Dataset:
    """Load one of the tables.

    Parameters
    ----------
    name
        A table of `hhvaem.datasets.CATALOGUE`.
    as_published
        Whether to type the columns as the paper's published loaders do, instead of as what they
        are: text as alphabetical codes, kinds from the number of distinct values, constant
        columns dropped. All rows are kept either way.
    folder
        Where the data lie; else in the folder that HHVAEM_DATA names, or in the cache that
        `fetch` fills, or in the installed scikit-learn.

    Returns
    -------
    Dataset

    Raises
    ------
    InputError
        Where there is no such table, it is not on this machine, or a file's content is not the
        published one.

    Examples
    --------
    Scikit-learn brings this one along:

    >>> wine = load("wine")
    >>> wine.table.num_rows, wine.targets, wine.kinds["class"]
    (178, ('class',), 'categorical')
    """
    entry = look_up(name)
    if entry.shape:
        raise InputError(f"{name!r} holds images, not a table; load it with load_images({name!r}).")
    if as_published and not entry.published:
        raise InputError(
            f"{name!r} is not one of the paper's ten tables, so it has no published typing; "
            "load it without as_published."
        )
    raw = _raw(entry, as_published=as_published, folder=folder)
    declared = dict(entry.columns)
    if as_published:
        table, kinds = publish(raw, declared)
    else:
        kinds = {column: declared[column] for column in raw.column_names}
        table = pa.table({column: _typed(raw.column(column), kinds[column]) for column in kinds})
    return Dataset(name, table, kinds, entry.targets, as_published)


def _raw(entry: Entry, *, as_published: bool, folder: str | os.PathLike[str] | None) -> pa.Table:
    """Read the files of a table and put them together, as text and numbers."""

    def parse(file: File, names: list[str]) -> pa.Table:
        return _parse(read(entry, file, folder), names, entry.delimiter, entry.header)

    names = [name for name, _ in entry.columns]
    if entry.name == "insurance":
        train, features, targets = entry.files
        test = _beside(parse(features, names[:-1]), parse(targets, names[-1:]))
        return pa.concat_tables([parse(train, names), test])
    if entry.name == "diabetes":
        unscaled, scaled, targets = entry.files
        features = scaled if as_published else unscaled
        return _beside(parse(features, names[:-1]), parse(targets, names[-1:]))
    (file,) = entry.files
    if file.conversion and find(file.conversion, folder):
        table = parse(file.conversion, names)
    elif file.conversion:
        table = _workbook(entry, read(entry, file, folder), names)
    else:
        table = parse(file, names)
    return table.drop_columns([name for name, kind in entry.columns if kind == "ignored"])


def _beside(left: pa.Table, right: pa.Table) -> pa.Table:
    for field, column in zip(right.schema, right.columns, strict=True):
        left = left.append_column(field, column)
    return left


def _parse(content: bytes, names: list[str], delimiter: str | None, header: int) -> pa.Table:
    """Read separated text; `delimiter` None stands for any run of blanks."""
    lines = content.splitlines()[header:]
    if delimiter is None:
        lines = [b",".join(line.split()) for line in lines]
    return pyarrow.csv.read_csv(
        io.BytesIO(b"\n".join(lines)),
        # One thread: the order of rows and the result are the same with any number of cores,
        # and these tables are small.
        pyarrow.csv.ReadOptions(use_threads=False, column_names=names),
        pyarrow.csv.ParseOptions(delimiter=delimiter or ","),
    )


def _workbook(entry: Entry, content: bytes, names: list[str]) -> pa.Table:
    """Read the first sheet of an Excel workbook: a header, then one row of numbers per record."""
    try:
        from python_calamine import CalamineWorkbook
    except ImportError as error:
        raise InputError(
            f"The data set {entry.name!r} is an Excel workbook; install what reads it with "
            "`pip install 'hhvaem[excel]'`."
        ) from error
    sheet = CalamineWorkbook.from_filelike(io.BytesIO(content)).get_sheet_by_index(0)
    # Sheets saved again and again carry empty rows and columns behind the data.
    rows = [row[: len(names)] for row in sheet.to_python()[1:] if row and row[0] != ""]
    columns = zip(*rows, strict=True)
    return pa.table(
        {name: pa.array(column, pa.float64()) for name, column in zip(names, columns, strict=True)}
    )


def _typed(column: pa.ChunkedArray, kind: Kind) -> pa.ChunkedArray:
    """Store text levels as a sorted dictionary, codes and counts as integers."""
    if pa.types.is_string(column.type):
        if kind == "datetime":
            return pc.strptime(column, format="%m/%d/%Y", unit="s").cast(pa.date32())
        levels = pc.unique(column).sort()
        codes = pc.index_in(column.combine_chunks(), value_set=levels)
        return pa.chunked_array([pa.DictionaryArray.from_arrays(codes, levels)])
    if kind in LEVELLED | {"count"} and pc.all(pc.equal(column, pc.floor(column))).as_py():
        return column.cast(pa.int64())
    return column.cast(pa.float64())
