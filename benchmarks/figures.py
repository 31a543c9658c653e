"""Draw the figures of the docs, and write their tables, from what is in results/paper.

python benchmarks/figures.py
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from documents import write_block

from hhvaem.paper import curves, illustration, reparam, toys

ROOT = Path(__file__).parents[1]
RESULTS, DOCS = ROOT / "results" / "paper", ROOT / "docs"


def read(name: str) -> dict[str, Any]:
    return json.loads((RESULTS / f"{name}.json").read_text())


def toys_table(found: dict[str, Any]) -> str:
    lines = [
        "| density | start | first step sizes | total variation, before | after | exact draws "
        "| inflation x1, x2 |",
        "|---|---|---|---|---|---|---|",
    ]
    for case in found["toys"]["cases"]:
        before, after = (
            np.mean([seed[when]["total_variation"] for seed in case["seeds"]])
            for when in ("before", "after")
        )
        across, up = np.mean([seed["inflation"] for seed in case["seeds"]], axis=0)
        centre, steps = case["centre"], case["first_steps"]
        lines.append(
            f"| {case['toy']} | ({centre[0]:g}, {centre[1]:g}) | U({steps[0]:g}, {steps[1]:g}) | "
            f"{before:.2f} | {after:.2f} | {case['exact']['total_variation']:.2f} | "
            f"{across:.1f}, {up:.1f} |"
        )
    rows = {name: np.mean(values) for name, values in found["illustration"]["rows"].items()}
    return "\n".join(lines) + (
        "\n\nFigure 1(b), total variation from the true posterior, mean of "
        f"{len(found['illustration']['rows']['chains'])} rows: encoder {rows['encoder']:.2f}, "
        f"HMC {rows['chains']:.2f}, as many exact draws {rows['exact']:.2f}."
    )


def reparam_table(found: dict[str, Any]) -> str:
    lines = [
        f"Means of {found['seeds']} seeds at the end of training.",
        "",
        "| | with the trick | without |",
        "|---|---|---|",
    ]

    def last(variant: dict[str, Any], part: str, name: str) -> float:
        return float(np.mean([values[-1] for values in variant[part][name]]))

    rows = {
        "acceptance": ("chains", "acceptance", ".2f"),
        "acceptance in the other's coordinates": ("chains", "switched_acceptance", ".2f"),
        "share of divergent transitions": ("chains", "divergent", ".3f"),
        "log p(x_U given x_O) per hidden cell, by the encoder": ("encoders", "joint", ".2f"),
        "the same, by chains": ("chains", "joint", ".2f"),
    }
    for label, (part, name, form) in rows.items():
        values = (format(last(v, part, name), form) for v in found["variants"].values())
        lines.append(f"| {label} | " + " | ".join(values) + " |")
    return "\n".join(lines)


def main() -> None:
    of_toys, of_reparam = read("toys"), read("reparam")
    figures = DOCS / "figures"
    figures.mkdir(exist_ok=True)
    toys.draw(of_toys["toys"]).savefig(figures / "toys.png", dpi=100)
    illustration.draw(of_toys["illustration"]).savefig(figures / "illustration.png", dpi=100)
    reparam.draw(of_reparam).savefig(figures / "reparam.png", dpi=100)
    if (RESULTS / "curves.json").exists():
        curves.draw(read("curves")).savefig(figures / "curves.png", dpi=100)
    write_block(DOCS / "paper.md", "toys", toys_table(of_toys))
    write_block(DOCS / "paper.md", "reparam", reparam_table(of_reparam))


if __name__ == "__main__":
    main()
