"""Files that are uploaded, and read by a process of their own."""

import asyncio
import dataclasses
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from hhvaem.files import SUFFIXES, TEXT_SUFFIXES
from hhvaem.web.limits import Limits
from hhvaem.web.reader import MODEL, SPREADSHEET
from hhvaem.web.refusals import RefusedError

ACCEPTED = (*TEXT_SUFFIXES, *(f"{suffix}.gz" for suffix in TEXT_SUFFIXES), *SUFFIXES[3:])
SPREADSHEETS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods", ".numbers")
# Letters of a file's name that are kept.
LONGEST_NAME = 120


def checked_name(name: str) -> tuple[str, str]:
    r"""Give what a file is called without folders and control characters, and its suffix.

    Raises
    ------
    RefusedError
        Where the suffix is that of no table.

    Examples
    --------
    >>> checked_name("C:\\data\\patients.CSV.gz")
    ('patients.CSV.gz', '.csv.gz')
    """
    last = name.replace("\\", "/").rpartition("/")[2]
    plain = "".join(c if c.isprintable() else "_" for c in last).strip()[-LONGEST_NAME:]
    suffix = next((each for each in ACCEPTED if plain.lower().endswith(each)), None)
    if plain.lower().endswith((".hhvaem", ".safetensors")):
        raise RefusedError(400, MODEL.format(name=plain))
    if plain.lower().endswith(SPREADSHEETS):
        raise RefusedError(400, SPREADSHEET.format(name=plain))
    if suffix is None:
        raise RefusedError(
            400,
            f"{plain or 'The file'} is none of {', '.join(ACCEPTED)}; save the table as CSV, "
            "Parquet or Feather.",
        )
    return plain, suffix


async def received(body: AsyncIterator[bytes], path: Path) -> None:
    """Write a body to a new file; nothing is left of one that does not come whole.

    Raises
    ------
    RefusedError
        Where there is nothing in it.
    """
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            async for block in body:
                file.write(block)
        if not path.stat().st_size:
            raise RefusedError(400, "The file is empty; a table needs at least a header.")
    except BaseException:
        path.unlink()
        raise


async def as_plain_table(
    path: Path, name: str, missing: list[str], out: Path, limits: Limits
) -> None:
    """Let a process of its own read a file, and write it as a plain Feather file.

    Raises
    ------
    RefusedError
        With what is wrong with the file.
    """
    order = {
        "path": str(path),
        "name": name,
        "missing": missing,
        "out": str(out),
        **dataclasses.asdict(limits),
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "hhvaem.web.reader",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        # The allocator of the system: others reserve more than the limit before they begin.
        env=os.environ | {"ARROW_DEFAULT_MEMORY_POOL": "system", "OPENBLAS_NUM_THREADS": "1"},
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(limits.reading_seconds):
            said, _ = await process.communicate(json.dumps(order).encode())
    except TimeoutError:
        said = b""
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    try:
        found = json.loads(said)
    except ValueError:
        found = {
            "error": f"{name} cannot be read: it is damaged, or unpacks to more than this server "
            "takes; save it anew, or use a smaller table."
        }
    if "error" in found:
        out.unlink(missing_ok=True)
        raise RefusedError(400, found["error"])
