"""How good estimates of information are where it is known, against the paper's histogram.

    python benchmarks/information.py
    python benchmarks/information.py --write

Draws latents of models made by hand (`tests/known_information.py`) many times over, and compares
what `grid` and `histogram` say with the truth: root mean squared errors in nats, for a target that
is related to a column by a line, by a square, and one of four classes; and how often each finds the
best of ten columns, of which five are related to the target by a line and five by a square. Writes
results/information.json and the tables of docs/ask.md; `--write` does only the latter.
"""

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
from documents import write_block

from hhvaem import __version__
from hhvaem.acquire.information import Method
from hhvaem.acquire.scores import Worth, settled

ROOT = Path(__file__).parents[1]
RESULTS, DOCS = ROOT / "results" / "information.json", ROOT / "docs" / "ask.md"
REPEATS = 1000
METHODS: tuple[Method, ...] = ("grid", "histogram")
ERRORS_AT, BEST_AT = (100, 1000), (50, 200)
# Repeats that are computed with at once.
AT_ONCE = 100


def worth(model: Any, method: Method, draws: int, repeats: int) -> Worth:
    """Estimate from as many independent draws, over and over."""
    import known_information as known  # type: ignore[import-not-found]

    rng = np.random.default_rng(draws)
    found = []
    for number in range(repeats // AT_ONCE):
        at = rng.normal(size=(AT_ONCE, draws, model.hierarchy.size))
        key = jax.random.key(number)
        found.append(settled(known.estimated([model], at, method, key=key)))
    return Worth(*(np.concatenate(part) for part in zip(*found, strict=True)))


def errors(repeats: int) -> dict[str, Any]:
    """Compare estimates of three columns with what they tell."""
    import known_information as known

    content: dict[str, Any] = {}
    for name, model in known.informative().items():
        exact = known.truth([model], 0)
        content[name] = {"truth": exact}
        for method in METHODS:
            for draws in ERRORS_AT:
                # Many draws vary little, and take long.
                said = worth(model, method, draws, repeats if draws < 1000 else repeats // 5)
                off = said.gain[:, 0] - exact
                content[name][f"{method}, {draws} draws"] = {
                    "rmse": float(np.sqrt(np.mean(off**2))),
                    "bias": float(off.mean()),
                    "spread": float(said.raw[:, 0].std(ddof=1)),
                    "error": float(said.error[:, 0].mean()),
                }
        print(name, json.dumps(content[name], indent=1), flush=True)
    return content


def best(repeats: int) -> dict[str, Any]:
    """Count how often the best of ten columns is found."""
    import known_information as known

    content: dict[str, Any] = {}
    for name, noise in known.TEN.items():
        model = known.ten_columns(noise)
        exact = [known.truth([model], j) for j in range(10)]
        content[name] = {"truth": exact}
        for method in METHODS:
            for draws in BEST_AT:
                right = worth(model, method, draws, repeats).gain.argmax(1) == np.argmax(exact)
                content[name][f"{method}, {draws} draws"] = float(right.mean())
        print(name, content[name], flush=True)
    return content


def tables(content: dict[str, Any]) -> str:
    """Write how far estimates are off, and how often the best column is found."""
    return "\n\n".join(
        [
            _table(
                "nats: root mean squared error (bias)",
                content["errors"],
                ERRORS_AT,
                lambda truth: f"truth {truth:.3f}",
                lambda found: f"{found['rmse']:.3f} ({found['bias']:+.3f})",
            ),
            _table(
                "best of ten columns found",
                content["best_of_ten"],
                BEST_AT,
                lambda truth: f"truth {max(truth):.3f}, next {sorted(truth)[-2]:.3f}",
                lambda found: f"{found:.1%}",
            ),
        ]
    )


def _table(
    title: str,
    rows: dict[str, Any],
    at: tuple[int, ...],
    true: Callable[[Any], str],
    cell: Callable[[Any], str],
) -> str:
    columns = [f"{method}, {draws} draws" for method in METHODS for draws in at]
    lines = ["| " + " | ".join([title, *columns]) + " |", "|" + "---|" * (len(columns) + 1)]
    for name, found in rows.items():
        cells = [f"{name}; {true(found['truth'])}", *(cell(found[each]) for each in columns)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def measured(repeats: int) -> dict[str, Any]:
    sys.path.insert(0, str(ROOT / "tests"))
    started = time.perf_counter()
    return {
        "repeats": repeats,
        "errors": errors(repeats),
        "best_of_ten": best(repeats),
        "seconds": time.perf_counter() - started,
        "device": jax.devices()[0].device_kind,
        "versions": {
            "hhvaem": __version__,
            "jax": jax.__version__,
            "equinox": eqx.__version__,
            "python": platform.python_version(),
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--write", action="store_true", help="write the docs and compute nothing")
    options = parser.parse_args()
    if not options.write:
        RESULTS.write_text(json.dumps(measured(options.repeats), indent=1) + "\n")
    write_block(DOCS, "information", tables(json.loads(RESULTS.read_text())))


if __name__ == "__main__":
    main()
