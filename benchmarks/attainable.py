"""What boosted trees reach of the target where cells are hidden, and where none are.

    HHVAEM_DATA=folder python benchmarks/attainable.py

The published NLL of a target with two levels weighs the rarer one by its class. Gradient-boosted
trees that take missing cells as they are (scikit-learn) are trained on the same folds, with cells
hidden at random anew in each of several copies of the training rows, and scored by the same formula
on the test rows of each fold: with half of the cells hidden, by the masks of the models' tests, and
with all cells. Writes results/paper/attainable.json.
"""

from pathlib import Path

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from hhvaem.datasets import load
from hhvaem.datasets.work import plan
from hhvaem.paper.folds import Fold, take_fold
from hhvaem.paper.records import versions, write_json
from hhvaem.paper.tables import SEED, WEIGHTED

RESULTS = Path(__file__).parents[1] / "results" / "paper" / "attainable.json"
FOLDS, COPIES = 10, 4


def fitted(fold: Fold) -> HistGradientBoostingClassifier:
    """Train on copies of the rows, in each of which other shares of cells are hidden."""
    rng = np.random.default_rng(SEED)
    values, target = fold.inputs.values, fold.targets.values[:, 0]
    copies = []
    for _ in range(COPIES):
        hidden = rng.random(values.shape) < rng.random((len(values), 1))
        copies.append(np.where(hidden, np.nan, values))
    trees = HistGradientBoostingClassifier(early_stopping=True, random_state=SEED)
    return trees.fit(np.concatenate(copies), np.tile(target, COPIES))


def weighted_nll(fold: Fold, probability: np.ndarray) -> float:
    """Give the published score, of log odds that are shifted by the log of the weight."""
    trained, truth = fold.targets.values[:, 0], fold.target_truth[:, 0]
    weight = (trained == 0).sum() / (trained == 1).sum()
    shifted = weight * probability / (weight * probability + 1 - probability)
    each = weight * truth * np.log(shifted) + (1 - truth) * np.log1p(-shifted)
    return -float(each.mean())


def measured(name: str, number: int) -> dict[str, float | int | str]:
    dataset = load(name, as_published=True)
    fold = take_fold(dataset, plan(dataset, seed=SEED), number)
    trees = fitted(fold)
    told: dict[str, float | int | str] = {"table": name, "fold": number}
    half = np.where(np.asarray(fold.test.mask), fold.truth, np.nan)
    for cells, values in (("half", half), ("all", fold.truth)):
        probability = trees.predict_proba(values)[:, 1]
        told[f"paper_nll_target_{cells}"] = round(weighted_nll(fold, probability), 4)
        told[f"target_auroc_{cells}"] = round(
            float(roc_auc_score(fold.target_truth[:, 0], probability)), 4
        )
    return told


def main() -> None:
    records = [measured(name, number) for name in WEIGHTED for number in range(FOLDS)]
    write_json({"copies": COPIES, "versions": versions(), "records": records}, RESULTS)


if __name__ == "__main__":
    main()
