"""Write the tables of docs/results/tables.md and draw its figures, from results/paper/tables.json.

python benchmarks/results.py

What `hhvaem paper tables --out results/paper` has not run yet is left out.
"""

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from documents import write_block

from hhvaem.baselines import BASELINES
from hhvaem.paper import summary
from hhvaem.paper.curves import CHAINED
from hhvaem.paper.printed import MODELS, printed
from hhvaem.paper.summary import Records
from hhvaem.paper.tables import ABLATIONS, BY_DEFAULT, BY_ENCODER

ROOT = Path(__file__).parents[1]
RESULTS, DOCS = ROOT / "results" / "paper" / "tables.json", ROOT / "docs" / "results"
OWN_KINDS = ROOT / "results" / "paper-own-kinds" / "tables.json"
RUNS = RESULTS.with_name("tables")
ATTAINABLE = RESULTS.with_name("attainable.json")
ON_FIRST = "HH-VAEM tested on the first fold"
PUBLISHED = {
    "missing": "paper_nll_missing",
    "target": "paper_nll_target",
    "observed": "paper_nll_observed",
}
# Scores that only models have, and those that baselines have too.
OF_MODELS = {
    "log_score_cell": "Log score of a missing cell, nats",
    "log_score_joint": "Log score of the missing cells of a row together, nats per cell",
    "log_score_target": "Log score of the target, nats",
    "target_auroc": "Area under the ROC curve of the target",
}
OF_ALL = {
    "crps": "CRPS of missing numbers, in standard deviations of their columns",
    "energy_score": "Energy score of the missing numbers of a row, in standard deviations",
    "coverage90": "Share of missing numbers inside intervals of 90 %",
    "brier": "Brier score of missing levels",
    "rmse_missing": "Mean over columns of RMSE, in standard deviations, or share of wrong levels",
    "target_crps": "CRPS of the target, in standard deviations",
    "target_rmse": "RMSE of the target, in its units",
    "target_accuracy": "Accuracy of the target",
}
SAME_WEIGHTS = {
    "paper_nll_missing": "NLL of missing cells, as published",
    "paper_nll_target": "NLL of the target, as published",
    "log_score_cell": "Log score of a missing cell, nats",
    "coverage90": "Share of missing numbers inside intervals of 90 %",
}
# More digits for targets that hardly vary: naval's are between 0.95 and 1.
DIGITS = {"target_rmse": 4, "crps": 3, "energy_score": 3, "brier": 3, "target_crps": 3}


def several(records: Records, scores: dict[str, str], models: Iterable[str]) -> str:
    """Write a table for each of the scores that are there."""
    models = list(models)
    return "\n\n".join(
        f"**{title}**\n\n"
        + summary.score_table(records, score, models, digits=DIGITS.get(score, 2))
        for score, title in scores.items()
        if any(score in record and record["model"] in models for record in records)
    )


def kinds(records: Records) -> str:
    return "\n\n".join(
        f"**{part.capitalize()} cells**\n\n{summary.kind_table(records, part)}"
        for part in ("observed", "missing")
    )


def times(records: Records) -> str:
    devices = sorted({record["device"] for record in records if record["model"] in MODELS})
    runs = [json.loads(path.read_text()) for path in RUNS.glob("*.json")]
    spent = [sum(run["seconds"].values()) for run in runs if run["model"] in MODELS]
    return (
        f"{summary.minutes_table(records)}\n\nHere on {', '.join(devices)}. Training and testing "
        f"of all folds, the {len(spent)} commands took {sum(spent) / 60:.0f} minutes together: "
        f"eight to twelve side by side, {sum(spent) / 720:.0f} to {sum(spent) / 480:.0f} minutes."
    )


def samplers(records: Records) -> str:
    """Write what chains are worth on the same weights, and those of the default sampler."""
    models = [m + way for m in CHAINED for way in ("", BY_ENCODER, BY_DEFAULT)]
    return several(records, SAME_WEIGHTS, models)


def ablations(records: Records) -> str:
    """Write what the parts of HH-VAEM are worth, on tables that have been run without them."""
    parts = [name for name in ABLATIONS if name != ON_FIRST]
    run = {record["table"] for record in records if record["model"] in parts}
    own = [record for record in records if record["table"] in run]
    return several(own, SAME_WEIGHTS, ["VAEM", "H-VAEM", "HH-VAEM", *parts])


def within_errors(records: Records) -> str:
    """Say of which misses the mean over folds is too uncertain to tell."""
    near: list[str] = []
    far: list[str] = []
    scores = {"paper_nll_missing": "missing cells", "paper_nll_target": "target"}
    for score, title in scores.items():
        for table in dict.fromkeys(record["table"] for record in records):
            values = np.array([*summary.by_fold(records, score, table, summary.PROPOSED).values()])
            paper = printed(score, summary.PROPOSED, table)
            if paper is None or values.mean() <= paper.mean + paper.spread:
                continue
            error = values.std(ddof=1) / np.sqrt(len(values))
            place = near if values.mean() - paper.mean <= 2 * error else far
            place.append(f"{table} ({title})")
    return (
        "Of what is not as good, the printed mean is within two standard errors of ours for "
        f"{', '.join(near) or 'none'}, and further off for {', '.join(far) or 'none'}."
    )


def first_fold(records: Records) -> str:
    """Write how HH-VAEM does on its own test rows, and on those of the first fold.

    The model of the first fold has not seen these rows, the nine others were trained on them.
    """
    scores = {"paper_nll_missing": "missing cells", "paper_nll_target": "the target"}
    places = ("own folds", "first fold, unseen", "first fold, trained on", "the paper's")
    head = ["table", *(f"{what}: {place}" for what in scores.values() for place in places)]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for table in dict.fromkeys(r["table"] for r in records if r["model"] == ON_FIRST):
        cells = [table]
        for score in scores:
            own = summary.by_fold(records, score, table, summary.PROPOSED)
            first = summary.by_fold(records, score, table, ON_FIRST)
            trained = [value for fold, value in first.items() if fold != 0]
            cells += [spread([*own.values()]), f"{own[0]:.2f}", spread(trained)]
            paper = printed(score, summary.PROPOSED, table)
            cells.append(f"{paper.mean:.2f} ± {paper.spread:.2f}" if paper else "")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def own_kinds() -> str:
    """Write the scores of models of columns as they are, and not as the published code has them."""
    scores = {**SAME_WEIGHTS, **OF_ALL}
    del scores["paper_nll_missing"], scores["paper_nll_target"]
    return several(summary.read_records(OWN_KINDS), scores, MODELS)


def attainable(records: Records) -> str:
    """Write what trees reach of a weighted target with half of the cells, and with all."""
    found = json.loads(ATTAINABLE.read_text())["records"]
    half = "half of the cells"
    head = ["table", "folds", f"trees, {half}", "trees, all cells", f"HH-VAEM, {half}"]
    head.append(f"the paper's, {half}")
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for table in dict.fromkeys(record["table"] for record in found):
        own = [record for record in found if record["table"] == table]
        trees = [
            spread([record[f"paper_nll_target_{cells}"] for record in own])
            for cells in ("half", "all")
        ]
        models = summary.by_fold(records, "paper_nll_target", table, summary.PROPOSED).values()
        paper = printed("paper_nll_target", summary.PROPOSED, table)
        told = f"{paper.mean:.2f} ± {paper.spread:.2f}" if paper else ""
        cells = [table, str(len(own)), *trees, spread([*models]), told]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def spread(values: list[float]) -> str:
    return f"{np.mean(values):.2f} ± {np.std(values):.2f}"


def blocks(records: Records) -> dict[str, str]:
    return {
        **{name: summary.score_table(records, score, MODELS) for name, score in PUBLISHED.items()},
        # The paper has missForest in this one.
        "errors": summary.score_table(records, "paper_rmse_missing", [*MODELS, "missforest"]),
        "kinds": kinds(records),
        "proper": several(records, OF_MODELS, MODELS),
        "baselines": several(records, OF_ALL, [*MODELS, *BASELINES]),
        "samplers": samplers(records),
        "ablations": ablations(records),
        "first-fold": first_fold(records),
        "own-kinds": own_kinds(),
        "times": times(records),
        "ranks": summary.rank_table(records),
        "verdict": summary.verdict_table(records),
        "within": within_errors(records),
        "attainable": attainable(records),
    }


def main() -> None:
    records = summary.read_records(RESULTS)
    for name, text in blocks(records).items():
        write_block(DOCS / "tables.md", name, text)
    summary.draw_ranks(records).savefig(DOCS / "ranks.png", dpi=100)
    summary.draw_verdict(records).savefig(DOCS / "verdict.png", dpi=100)


if __name__ == "__main__":
    main()
