"""The numbers that the paper prints of its images, to lay results beside.

They are means over ten folds of the official training images. The published code decays the weights
of VAE, MIWAE and H-VAE, and not those of the two models with chains, so that its rows do not differ
by their inference alone.
"""

_PRINTED = {
    "mnist": {
        "paper_nll_missing": (0.124, 0.121, 0.119, 0.101, 0.094),
        "paper_nll_target": (0.153, 0.151, 0.146, 0.067, 0.056),
        "target_accuracy": (0.953, 0.953, 0.953, 0.978, 0.981),
    },
    "fashion_mnist": {
        "paper_nll_missing": (0.162, 0.160, 0.156, 0.150, 0.144),
        "paper_nll_target": (0.501, 0.496, 0.494, 0.357, 0.337),
        "target_accuracy": (0.824, 0.824, 0.824, 0.869, 0.876),
    },
}
_MODELS = ("VAE", "MIWAE", "H-VAE", "HMC-VAE", "HH-VAE")


def printed_image(score: str, model: str, name: str) -> float | None:
    """Give what the paper prints of a model on a set of images; None where it prints nothing.

    Examples
    --------
    >>> printed_image("paper_nll_missing", "HH-VAE", "mnist")
    0.094
    >>> printed_image("log_score_cell", "HH-VAE", "mnist") is None
    True
    """
    numbers = _PRINTED.get(name, {}).get(score)
    if numbers is None or model not in _MODELS:
        return None
    return numbers[_MODELS.index(model)]
