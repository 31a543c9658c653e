"""What a plain classifier reaches of the class where half of the pixels are hidden.

    HHVAEM_DATA=folder python benchmarks/attainable_images.py

It has one task where the models of the paper have many: scikit-learn's network of two hidden layers
sees the pixels that are shown and which these are, is trained on the first fold of each set with
other pixels hidden in every epoch, half of them as in the test, and is scored on the tests of the
models, by their masks. Writes results/paper/attainable-images.json.
"""

from pathlib import Path

import numpy as np
from sklearn.neural_network import MLPClassifier

from hhvaem.paper.image_sets import SEED, Pile, half_mask, take_image_fold
from hhvaem.paper.images import IMAGE_SETS
from hhvaem.paper.records import versions, write_json

RESULTS = Path(__file__).parents[1] / "results" / "paper" / "attainable-images.json"
EPOCHS, UNITS, RATE, DECAY = 20, (512, 256), 3e-4, 1e-3


def seen(pile: Pile) -> np.ndarray:
    """Give pixels of -1 and 1, 0 where they are hidden."""
    return np.where(pile.mask, 2 * pile.pixels - 1, 0.0).astype(np.float32)


def trained(pile: Pile) -> MLPClassifier:
    network = MLPClassifier(
        UNITS, alpha=DECAY, batch_size=100, learning_rate_init=RATE, random_state=SEED
    )
    labels = pile.labels[:, 0].astype(int)
    for epoch in range(EPOCHS):
        shown = pile.shown(half_mask(pile, [SEED, epoch]))
        network.partial_fit(seen(shown), labels, classes=np.unique(labels))
    return network


def scored(network: MLPClassifier, pile: Pile) -> dict[str, float]:
    """Score the probabilities of the classes of a test."""
    chance = network.predict_proba(seen(pile)).astype(np.float64)
    truth = pile.labels[:, 0].astype(int)
    own = chance[np.arange(len(truth)), truth]
    return {
        "target_accuracy": round(float(np.mean(chance.argmax(1) == truth)), 4),
        "paper_nll_target": round(-float(np.log(np.clip(own, 1e-12, 1)).mean()), 4),
    }


def main() -> None:
    records = []
    for name in IMAGE_SETS:
        fold = take_image_fold(name, 0)
        network = trained(fold.train)
        for test, pile in fold.tests.items():
            records.append({"table": name, "fold": 0, "test": test, **scored(network, pile)})
            print(records[-1], flush=True)
    write_json({"epochs": EPOCHS, "versions": versions(), "records": records}, RESULTS)


if __name__ == "__main__":
    main()
