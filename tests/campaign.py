"""How often each fault is tried, and where it is noted what came of it.

`make test` tries each a few times. Where HHVAEM_FAULTS names a file, as in `make faults`, it is
the full number of times, or HHVAEM_FAULTS_SHARE of them, and the file gets what came of it.
"""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hhvaem.paper.records import write_json

RESULTS = os.environ.get("HHVAEM_FAULTS")
SHARE = float(os.environ.get("HHVAEM_FAULTS_SHARE", "1"))


def times(few: int, full: int) -> int:
    """Give how often a fault is tried."""
    return max(few, round(SHARE * full)) if RESULTS else few


@contextmanager
def noted(case: str) -> Iterator[dict[str, int | float]]:
    """Note the numbers of a case, once it has ended well."""
    facts: dict[str, int | float] = {}
    start = time.monotonic()
    yield facts
    if not RESULTS:
        return
    path = Path(RESULTS)
    # One case at a time, so that of a campaign that is stopped the rest is kept.
    known = json.loads(path.read_text()) if path.exists() else {}
    facts["seconds"] = round(time.monotonic() - start)
    write_json({**known, case: facts}, path)
