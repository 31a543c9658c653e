"""Files to take away: filled tables, draws, and texts that no spreadsheet takes for formulas."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import feather

from hhvaem.atomic import replacing
from hhvaem.delimited import MARK
from hhvaem.errors import InputError
from hhvaem.files import check_format, write_table
from hhvaem.web.views import is_missing

# What spreadsheets take a text for a formula by.
FORMULA = r"^[=+\-@\t\r]"
FORMATS = {
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
    "feather": "application/vnd.apache.arrow.file",
}
# What has columns that a format has not.
_RICHER = {".csv": "Parquet or Feather", ".parquet": "Feather"}


def harmless(text: str) -> str:
    """Put an apostrophe before a text that a spreadsheet would take for a formula.

    Examples
    --------
    >>> harmless("=1+1"), harmless("plain")
    ("'=1+1", 'plain')
    """
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def written(table: pa.Table, holed: pa.Table, path: Path) -> None:
    """Write a filled table; what a spreadsheet would take for a formula is not introduced.

    Cells that were there keep their values. Levels that were filled in get an apostrophe in CSV
    files, where they begin like a formula. CSV files begin with the mark of UTF-8.

    Parameters
    ----------
    table, holed
        The table, and what it was before it was filled, row by row.
    path
        Where to; its suffix says the format.

    Raises
    ------
    InputError
        Where the format cannot hold a column, naming it.
    """
    if path.suffix in _RICHER:
        _check_held(table, path)
    if path.suffix != ".csv":
        write_table(table, path)
        return
    for name in holed.column_names:
        at = table.column_names.index(name)
        table = table.set_column(at, name, _guarded(table.column(at), holed.column(name)))
    plain = path.with_name(f"plain-{path.name}")
    write_table(table, plain)
    with plain.open("rb") as source, replacing(path) as file:
        file.write(MARK)  # or Excel takes UTF-8 for the letters of its own country
        shutil.copyfileobj(source, file)
    plain.unlink()


def long_draws(folder: Path, draws: int) -> pa.Table:
    """Put the draws of a table below each other: row by row, and of each row draw by draw."""
    tables = [feather.read_table(folder / f"draw{i}.feather", memory_map=True)
              for i in range(draws)]  # fmt: skip
    rows = tables[0].num_rows
    by_row = np.arange(draws * rows).reshape(draws, rows).T.ravel()
    long = pa.concat_tables(tables).unify_dictionaries().take(by_row)
    numbers = {
        "draw": np.tile(np.arange(1, draws + 1), rows),
        "row": np.repeat(np.arange(1, rows + 1), draws),
    }
    for i, (name, values) in enumerate(numbers.items()):
        while name in long.column_names:  # a column of the table's own
            name += "_"
        long = long.add_column(i, name, pa.array(values))
    return long


def repeated_rows(table: pa.Table, times: int) -> pa.Table:
    """Give each row of a table so many times, one after the other."""
    return table.take(np.repeat(np.arange(table.num_rows), times))


def _check_held(table: pa.Table, path: Path) -> None:
    """Refuse a column in words about downloads: where they are made is nobody's business."""
    try:
        check_format(path, path.suffix, table.schema)
    except InputError as error:
        column = str(error).partition(" cannot be written to ")[0]
        raise InputError(
            f"{column} cannot be written as {path.suffix[1:]}; download the table as "
            f"{_RICHER[path.suffix]}."
        ) from error


def _guarded(full: Any, holed: Any) -> Any:
    kind = full.type.value_type if pa.types.is_dictionary(full.type) else full.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return full
    texts = full.cast(kind)
    formulas = pc.fill_null(pc.match_substring_regex(texts, FORMULA), False)  # noqa: FBT003
    new = pc.and_(formulas, pa.chunked_array([pa.array(is_missing(holed))]))
    if not pc.any(new).as_py():
        return full
    marked = pc.binary_join_element_wise("'", texts, "")
    return pc.if_else(new, marked, texts)
