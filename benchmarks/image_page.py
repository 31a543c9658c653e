"""Write the tables of docs/results/images.md, from what `hhvaem paper images` left in results.

python benchmarks/image_page.py

What has not been run yet is left out.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from documents import write_block

from hhvaem.paper.images import IMAGE_ABLATIONS, IMAGE_MODELS, IMAGE_SETS
from hhvaem.paper.printed_images import printed_image
from hhvaem.paper.tables import BY_DEFAULT, BY_ENCODER

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "results" / "paper", ROOT / "docs" / "results" / "images.md"
TITLES = {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST"}
PUBLISHED = {
    "paper_nll_missing": "NLL of hidden pixels",
    "paper_nll_target": "NLL of the class",
    "target_accuracy": "accuracy",
}
# Scores of the paper that are better where they are higher.
HIGHER = {"target_accuracy"}
PROPER = {
    "log_score_cell": "log score of a hidden pixel",
    "log_score_joint": "of all together, per pixel",
    "brier_cell": "Brier score",
    "error_cell": "wrong pixels",
    "calibration_error_cell": "calibration error of pixels",
    "calibration_error_target": "of the class",
    "target_confidence": "mean confidence",
}
CHAINS = {
    **PUBLISHED,
    "acceptance": "accepted",
    "divergent": "divergent",
    "movement": "distance from the start",
}
CHAINED = ("HMC-VAE", "HH-VAE")
PROTOCOLS = {"": "own", "official_": "official"}
Records = list[dict[str, Any]]


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Write a table whose first column is of words, and all others of numbers."""
    head = list(head)
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def mean(records: Records, name: str, model: str, score: str) -> float | None:
    """Average a score over the folds that were run; None where there are none."""
    there = [
        record[score]
        for record in records
        if (record["table"], record["model"]) == (name, model) and score in record
    ]
    return float(np.mean(there)) if there else None


def shown(number: float | None, digits: int = 3) -> str:
    return "" if number is None else f"{number:.{digits}f}"


def beside(records: Records) -> str:
    """Write the published scores here, in brackets what the paper prints."""
    rows = []
    for name in IMAGE_SETS:
        for model in IMAGE_MODELS:
            cells = [f"{TITLES[name]}, {model}"]
            for score in PUBLISHED:
                paper = printed_image(score, model, name)
                cells.append(f"{shown(mean(records, name, model, score))} ({shown(paper)})")
            cells += [shown(mean(records, name, model, f"official_{score}")) for score in PUBLISHED]
            rows.append(cells)
    own = [f"{title}, own" for title in PUBLISHED.values()]
    return table(("", *own, *(f"{title}, official" for title in PUBLISHED.values())), rows)


def verdict(records: Records) -> str:
    """Say of each score whether HH-VAE is as good here as it is in print."""
    good: list[str] = []
    bad: list[str] = []
    for name in IMAGE_SETS:
        for score, title in PUBLISHED.items():
            here, paper = mean(records, name, "HH-VAE", score), printed_image(score, "HH-VAE", name)
            if here is None or paper is None:
                continue
            ahead = here >= paper if score in HIGHER else here <= paper
            place = good if ahead else bad
            place.append(f"{title} of {TITLES[name]} ({here:.3f}, printed {paper:.3f})")
    return (
        f"HH-VAE, drawn from by its learned chains, is at the printed value or better in: "
        f"{'; '.join(good) or 'none'}. It is not in: {'; '.join(bad) or 'none'}."
    )


def proper(records: Records) -> str:
    rows = [
        [f"{TITLES[name]}, {model}, {test}"]
        + [shown(mean(records, name, model, prefix + score)) for score in PROPER]
        for name in IMAGE_SETS
        for model in IMAGE_MODELS
        for prefix, test in PROTOCOLS.items()
    ]
    return table(("", *PROPER.values()), rows)


def samplers(records: Records) -> str:
    """Write what the same weights say by chains, without them, and by the default sampler."""
    rows = [
        [f"{TITLES[name]}, {model}{way}"]
        + [shown(mean(records, name, model + way, f"official_{score}")) for score in CHAINS]
        for name in IMAGE_SETS
        for model in CHAINED
        for way in ("", BY_ENCODER, BY_DEFAULT)
    ]
    return table(("", *CHAINS.values()), rows)


def decay(records: Records) -> str:
    """Write models with the published decay beside the same ones without, and the paper's."""
    rows = []
    for name in IMAGE_SETS:
        for decayed in IMAGE_ABLATIONS:
            if mean(records, name, decayed, "paper_nll_missing") is None:
                continue
            model = decayed.removesuffix(" with weight decay")
            rows += [
                [f"{TITLES[name]}, {kind}"]
                + [shown(mean(records, name, kind, score)) for score in PUBLISHED]
                + [shown(mean(records, name, kind, f"official_{score}")) for score in PUBLISHED]
                for kind in (decayed, model)
            ]
            printed = [shown(printed_image(score, model, name)) for score in PUBLISHED]
            rows.append([f"{TITLES[name]}, {model}, printed", *printed, "", "", ""])
    own = [f"{title}, own" for title in PUBLISHED.values()]
    return table(("", *own, *(f"{title}, official" for title in PUBLISHED.values())), rows)


def attainable(records: Records, found: Records) -> str:
    """Write what a classifier of its own reaches, beside HH-VAE here and in the paper."""
    rows = []
    scores = ("paper_nll_target", "target_accuracy")
    for told in found:
        name, test = told["table"], told["test"]
        prefix = next(prefix for prefix, protocol in PROTOCOLS.items() if protocol == test)
        own = [shown(mean(records, name, "HH-VAE", prefix + score)) for score in scores]
        paper = [shown(printed_image(score, "HH-VAE", name)) for score in scores]
        both = [shown(told[score]) for score in scores]
        rows.append(
            [f"{TITLES[name]}, {test}", *both, *own, *(paper if test == "own" else ("", ""))]
        )
    head = [
        f"{who}, {PUBLISHED[score]}"
        for who in ("classifier", "HH-VAE", "printed")
        for score in scores
    ]
    return table(("", *head), rows)


def errors(records: Records, draws: int) -> str:
    """Say how far more draws would move the scores."""

    def largest(score: str) -> float:
        keys = [prefix + score for prefix in PROTOCOLS]
        return max(record[key] for record in records for key in keys if key in record)

    return (
        f"{draws} draws of the latents of each image; the standard error that is due to so few is "
        f"at most {largest('paper_nll_missing_mc_error'):.5f} of an NLL of pixels, and "
        f"{largest('paper_nll_target_mc_error'):.4f} of one of classes."
    )


def holes(found: dict[str, Any]) -> str:
    models = list(next(iter(found.values()))["nll_hidden"])
    rows = []
    for name in TITLES:
        if name in found:
            error = found[name].get("nll_error", {})
            rows.append([TITLES[name]])
            for model in models:
                spread = f" ± {error[model]:.3f}" if model in error else ""
                rows[-1].append(shown(found[name]["nll_hidden"][model]) + spread)
    return table(("", *models), rows)


def speed(found: dict[str, Any]) -> str:
    """Write what was measured of training and of chains, and what follows from it."""
    first, last = found["HH-VAE_stage_2_steps_per_second"], found["HH-VAE_stage_3_steps_per_second"]
    seconds = 99_000 / first + 1_440 / last
    lines = [
        f"On one {found['device']} that does nothing else (JAX {found['versions']['jax']}):",
        "",
        f"- Training: {found['VAE_stage_2_steps_per_second']:,.0f} steps of VAE a second, "
        f"{first:,.0f} of HH-VAE, and {last:,.0f} of HH-VAE with chains. A fold of HH-VAE (99,000 "
        f"steps without chains, 1,440 with them) follows to take {seconds / 60:.1f} minutes.",
    ]
    for key, name in {
        "float32": "in full precision, as everything here was computed",
        "tf32": "with TF32 products",
    }.items():
        told = found[f"sampling_{key}"]
        lines.append(
            f"- Chains {name}: {told['gradients_per_second'] / 1e6:.1f} million gradients a "
            f"second, {told['operations_per_second'] / 1e12:.1f} million million operations, which "
            f"is {told['share_of_rate']:.0%} of the card's rate for them. 10,000 images with 1,000 "
            f"chains each follow to take "
            f"{told['seconds_for_10000_images_of_1000_chains'] / 60:.1f} minutes."
        )
    return "\n".join(lines)


def main() -> None:
    def read(name: str) -> Any:
        return json.loads((RESULTS / f"{name}.json").read_text())

    records = read("images")["records"]
    (draws,) = {json.loads(p.read_text())["draws"] for p in (RESULTS / "images").glob("*.json")}
    for name, text in {
        "beside": beside(records),
        "verdict": verdict(records),
        "proper": proper(records),
        "samplers": samplers(records),
        "decay": decay(records),
        "errors": errors(records, draws),
        "attainable": attainable(records, read("attainable-images")["records"]),
        "holes": holes(read("inpainting")["inpainting"]),
        "speed": speed(read("image-speed")),
    }.items():
        write_block(PAGE, name, text)


if __name__ == "__main__":
    main()
