"""Values as JSON has them, and answers made of them."""

import datetime as dt
import json
import math
from typing import Any

import numpy as np
import pyarrow as pa
from starlette.responses import Response

# Letters of a text that are shown.
LONGEST = 300
# Beyond this, browsers round whole numbers.
EXACT = 2**53


class Json(Response):
    """An answer in JSON, of plain letters alone: no text is too strange to be sent."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")


def finite(value: Any) -> float | None:
    """Give a number, or None where it is none that JSON has.

    Examples
    --------
    >>> finite(2), finite(float("nan"))
    (2.0, None)
    """
    return float(value) if value is not None and math.isfinite(value) else None


def cell(value: Any, longest: int | None = None) -> Any:
    """Give the value of a cell as JSON has it; of a text the first letters where it is long.

    Examples
    --------
    >>> cell(dt.date(2024, 3, 1)), cell(float("nan")), cell(np.int64(3)), cell("abcdef", 3)
    ('2024-03-01', None, 3, 'abc…')
    >>> cell(-(2**53) - 1), cell(2**53)
    ('-9007199254740993', 9007199254740992)
    """
    if value is None or isinstance(value, bool | int):
        return value if value is None or abs(value) <= EXACT else str(value)
    if isinstance(value, float):
        return finite(value)
    if isinstance(value, np.generic):
        return cell(value.item(), longest)
    text = value if isinstance(value, str) else _text(value)
    return text if longest is None or len(text) <= longest else f"{text[:longest]}…"


def cells(column: Any, longest: int | None = None) -> list[Any]:
    """Give the cells of an arrow column."""
    kind = column.type
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        column = column.cast(pa.timestamp("us", kind.tz), safe=False)
    elif pa.types.is_duration(kind) and kind.unit == "ns":
        column = column.cast(pa.duration("us"), safe=False)
    elif pa.types.is_time64(kind):
        column = column.cast(pa.time64("us"), safe=False)
    return [cell(value, longest) for value in column.to_pylist()]


def clean(content: Any) -> Any:
    """Give JSON without numbers that JSON does not have."""
    if isinstance(content, dict):
        return {str(key): clean(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [clean(value) for value in content]
    return cell(content)


def _text(value: Any) -> str:
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value)
