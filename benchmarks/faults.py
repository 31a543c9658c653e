"""Writes what `make faults` has found, results/faults.json, into docs/reliability.md."""

import json
from pathlib import Path
from typing import Any

from documents import write_block

ROOT = Path(__file__).parents[1]
RESULTS, DOCS = ROOT / "results" / "faults.json", ROOT / "docs" / "reliability.md"
COLUMNS = "| what was tried | what came of it | seconds |\n|---|---|---|"


def line(case: str, facts: dict[str, Any]) -> str:
    """Give the row of a case; what never happened is left out, but for what was tried."""
    first, *others = [name for name in facts if name != "seconds"]
    told = [f"{facts[name]:,} {name}" for name in (first, *(n for n in others if facts[n]))]
    return f"| {case} | {', '.join(told)} | {facts['seconds']:,} |"


def main() -> None:
    known = json.loads(RESULTS.read_text())
    write_block(DOCS, "faults", "\n".join([COLUMNS, *(line(*each) for each in known.items())]))


if __name__ == "__main__":
    main()
