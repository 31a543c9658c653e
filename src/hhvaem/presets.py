"""What the words `default`, `paper` and `fast` stand for."""

from dataclasses import dataclass
from typing import Literal, get_args

from hhvaem.posterior import How
from hhvaem.steps import Settings

Marginal = Literal["gaussianised", "vae"]
MARGINALS: tuple[Marginal, ...] = get_args(Marginal)
# From so many rows on, tables are not learned by heart, whatever the decay.
MANY_ROWS = 10_000


@dataclass(frozen=True)
class Plan:
    """How a model is made, trained and drawn from.

    Parameters
    ----------
    layers, hidden, depth, shortcut
        Sizes of the latent layers, data upwards, units of each hidden layer, hidden layers of
        encoder and decoder, and whether these have a linear map beside them.
    marginals
        Column models: `gaussianised` numbers, or the paper's `vae`.
    marginal_steps
        Steps of the first stage, where it has any.
    settings
        How the second and third stage are trained.
    how
        How the posterior is drawn from.
    held_share
        Share of the cells that early stopping goes by, where `settings.patience` is not 0.
    members
        How many models are trained.
    noise_pull
        How strongly learned noises are drawn to the whole spread of their columns, times columns
        and divided by rows. A network that predicts a column from `p` others has followed the
        noise of some `p` rows, and takes it for smaller than it is: a few times more than by the
        degrees of freedom of a regression, as it is not linear.
    decays
        How strongly weights of the networks are drawn to 0, from much to little: one of these, as
        held-out cells say (`hhvaem.choosing`). A single one is taken as it is; none, and nothing is
        drawn.
    """

    layers: tuple[int, ...]
    hidden: int
    marginals: Marginal
    settings: Settings
    how: How
    marginal_steps: int = 1_000
    held_share: float = 0.1
    members: int = 1
    noise_pull: float = 0.0
    depth: int = 1
    shortcut: bool = False
    decays: tuple[float, ...] = ()

    def chooses(self, rows: int) -> bool:
        """Say whether a decay is chosen for a table of so many rows, or the last one taken."""
        return len(self.decays) > 1 and rows < MANY_ROWS


PRESETS = {
    # Gaussianised columns, learned noise, an importance-weighted start, and then the likelihood by
    # chains, without which correlations come out too small; several members, without which
    # intervals of pooled estimates are too narrow (docs/multiple-imputation.md has the figures).
    "default": Plan(
        layers=(10,),
        hidden=128,
        marginals="gaussianised",
        settings=Settings(
            inference="likelihood",
            steps=6_500,
            hmc_steps=3_000,
            batch_size=128,
            learning_rate=2e-3,
            learned_noise=True,
            importance_samples=5,
            transitions=2,
        ),
        how=How("hmc", chains=20, kept=5, transitions=10, leapfrog=5),
        members=5,
        noise_pull=4.0,
        depth=2,
        shortcut=True,
        decays=(3e-2, 1e-2, 3e-3, 1e-3, 3e-4),
    ),
    # The paper's, for a table of the size of Boston.
    "paper": Plan(
        layers=(10, 5),
        hidden=256,
        marginals="vae",
        settings=Settings(),
        how=How("hmc", chains=100, kept=1, leapfrog=5),
    ),
    "fast": Plan(
        layers=(5,),
        hidden=32,
        marginals="gaussianised",
        settings=Settings(
            inference="importance",
            steps=600,
            hmc_steps=200,
            batch_size=64,
            learning_rate=5e-3,
            learned_noise=True,
            importance_samples=5,
        ),
        how=How("hmc", chains=20, kept=3, transitions=5, leapfrog=3),
    ),
}
