"""One law of each shape, with parameters, for tests that hold for all of them."""

from dataclasses import dataclass

import numpy as np

from hhvaem.gaussianise import fit_gaussianising
from hhvaem.likelihoods import Binary, Categorical, Likelihood, Ordered
from hhvaem.warps import Affine, Levels, Log, Rounded

SCALES = (1e-9, 1.0, 1e9)


@dataclass(frozen=True)
class Case:
    """A law, parameters for it, and all values that have a mass (None: there are none)."""

    law: Likelihood
    parameters: tuple[float, ...]
    masses: np.ndarray | None
    continuous: bool


def _mixed(scale: float) -> Case:
    rng = np.random.default_rng(0)
    x = np.where(rng.random(400) < 0.7, 0.0, rng.lognormal(size=400) * scale)
    return Case(Ordered(fit_gaussianising(x, lower=0.0)), (0.3, -0.2), np.zeros(1), True)


def _smooth(scale: float) -> Case:
    x = (np.random.default_rng(1).gamma(2.0, size=400) - 1.0) * scale
    return Case(Ordered(fit_gaussianising(x)), (-0.5, -0.7), None, True)


def _whole() -> Case:
    x = np.random.default_rng(2).negative_binomial(2, 0.05, 300).astype(float)
    law = Ordered(fit_gaussianising(x, step=1.0, lower=0.0))
    return Case(law, (0.2, 0.1), np.arange(20_000.0), False)


CASES = {
    **{f"real {s:g}": Case(Ordered(Affine(3 * s, 2 * s)), (0.4, -0.5), None, True) for s in SCALES},
    **{
        f"positive {s:g}": Case(
            Ordered(Log.fit(np.random.default_rng(0).lognormal(size=300) * s)),
            (-0.6, -0.1),
            np.zeros(1),
            True,
        )
        for s in SCALES
    },
    **{f"gaussianised {s:g}": _smooth(s) for s in SCALES},
    **{f"gaussianised with an atom {s:g}": _mixed(s) for s in SCALES},
    "gaussianised whole": _whole(),
    "count": Case(
        Ordered(Rounded(Log(1.0, 0.7), 1.0, 0.0, np.inf)), (0.3, -0.3), np.arange(20_000.0), False
    ),
    "ordinal": Case(
        Ordered(Levels.fit(np.array([0.0, 1, 1, 2, 2, 2, 3]), 5)),
        (0.5, 0.2),
        np.arange(5.0),
        False,
    ),
    "binary": Case(Binary(), (0.7,), np.arange(2.0), False),
    "categorical": Case(Categorical(4), (0.1, -1.0, 2.0, 0.5), np.arange(4.0), False),
}
ORDERED = [name for name, case in CASES.items() if isinstance(case.law, Ordered)]
