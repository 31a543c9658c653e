"""Write the tables of docs/results/acquisition.md and draw its figures, from results/paper/saia.

python benchmarks/asking.py

What `hhvaem paper saia --out results/paper` has not run yet is left out.
"""

from pathlib import Path
from typing import Any

import numpy as np
from documents import write_block

from hhvaem.paper import saia

ROOT = Path(__file__).parents[1]
RESULTS, DOCS = ROOT / "results" / "paper" / "saia", ROOT / "docs" / "results"
OURS, RANDOM = "HH-VAEM, grid", "HH-VAEM, random order"
FIGURES = {"error": "saia.png", "log_likelihood": "saia-likelihood.png", "seconds": "saia-time.png"}
# Differences within so many standard errors are ties.
TIE = 2.0
# Which lines are laid beside which: what the paper says is better comes first.
PAIRS = (
    ("VAEM, histogram", "VAEM, gaussian"),
    ("HH-VAEM, histogram", "VAEM, histogram"),
    ("HH-VAEM, grid", "HH-VAEM, histogram"),
    ("HH-VAEM, grid", "HH-VAEM, fixed order"),
    ("HH-VAEM, fixed order", "HH-VAEM, random order"),
)


def areas(run: dict[str, Any], what: str) -> dict[str, np.ndarray]:
    """Give the mean height of each line's curve in each fold."""
    return {line: saia.curve(run, line, what).mean(1) for line in saia.LINES}


def difference(one: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    """Give the mean difference over folds, and its standard error."""
    apart = one - other
    return float(apart.mean()), float(apart.std(ddof=1) / np.sqrt(len(apart)))


def is_tied(one: np.ndarray, best: np.ndarray) -> bool:
    mean, error = difference(one, best)
    return abs(mean) <= TIE * error


def area_table(runs: list[dict[str, Any]], what: str) -> str:
    """Write the areas of all lines: the best is bold, and so is what is tied with it."""
    lines = ["| table | folds | " + " | ".join(saia.LINES) + " |"]
    lines.append("|" + "---|" * (len(saia.LINES) + 2))
    sign = 1 if what == "error" else -1
    for run in runs:
        found = areas(run, what)
        best = min(found, key=lambda line: sign * found[line].mean())
        cells = []
        for line, each in found.items():
            cell = f"{each.mean():.4g} ± {each.std():.2g}"
            cells.append(f"**{cell}**" if is_tied(each, found[best]) or line == best else cell)
        lines.append(f"| {run['table']} | {len(run['records'])} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def verdict(runs: list[dict[str, Any]]) -> str:
    """Say on how many tables the default is best or tied, and how it stands to random order."""
    best, below = [], []
    for run in runs:
        found = areas(run, "error")
        lowest = min(found.values(), key=np.mean)
        if found[OURS] is lowest or is_tied(found[OURS], lowest):
            best.append(run["table"])
        mean, error = difference(found[OURS], found[RANDOM])
        if mean < -TIE * error:
            below.append(run["table"])
    return (
        f"Area under the error curve: {OURS} is lowest, or tied with the lowest (within two "
        f"standard errors of the difference over folds), on {len(best)} of {len(runs)} tables"
        f"{_but(runs, best)}. It is below random order by more than two standard errors on "
        f"{len(below)} of {len(runs)}{_but(runs, below)}."
    )


def pair_table(runs: list[dict[str, Any]]) -> str:
    """Write on which tables a line is below another, above it, or tied with it."""
    lines = ["| line | beside | below | tied | above |", "|---|---|---|---|---|"]
    for one, other in PAIRS:
        places: dict[str, list[str]] = {"below": [], "tied": [], "above": []}
        for run in runs:
            found = areas(run, "error")
            mean, error = difference(found[one], found[other])
            place = "tied" if abs(mean) <= TIE * error else "below" if mean < 0 else "above"
            places[place].append(run["table"])
        cells = [", ".join(tables) for tables in places.values()]
        lines.append("| " + " | ".join([one, other, *cells]) + " |")
    return "\n".join(lines)


def _but(runs: list[dict[str, Any]], there: list[str]) -> str:
    others = [run["table"] for run in runs if run["table"] not in there]
    return f", not on {', '.join(others)}" if others else ""


def read_off_table(runs: list[dict[str, Any]]) -> str:
    """Lay errors beside those that can be read off the paper's figure."""
    head = ["table", "columns known", *(f"{line}: paper, here" for line in saia.PAPER), OURS]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for run in runs:
        for at, values in saia.READ_OFF[run["table"]].items():
            known = len(run["columns"]) if at is None else at
            cells = [
                f"{paper:.4g}, {saia.curve(run, line, 'error')[:, known].mean():.4g}"
                for line, paper in zip(saia.PAPER, values, strict=True)
            ]
            ours = f"{saia.curve(run, OURS, 'error')[:, known].mean():.4g}"
            lines.append("| " + " | ".join([run["table"], str(known), *cells, ours]) + " |")
    return "\n".join(lines)


def main() -> None:
    found = saia.gather(RESULTS)
    runs = found["tables"]
    page = DOCS / "acquisition.md"
    write_block(page, "verdict", verdict(runs))
    write_block(page, "pairs", pair_table(runs))
    write_block(page, "areas", area_table(runs, "error"))
    write_block(page, "likelihoods", area_table(runs, "log_likelihood"))
    write_block(page, "read-off", read_off_table(runs))
    for what, name in FIGURES.items():
        saia.draw(found, what).savefig(DOCS / name, dpi=100)


if __name__ == "__main__":
    main()
