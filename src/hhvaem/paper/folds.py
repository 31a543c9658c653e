"""From one of the paper's tables and a fold to what training takes, with the paper's settings."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key

from hhvaem.datasets import Dataset
from hhvaem.datasets.work import Work
from hhvaem.encoding import Cells, Encoding, TableMask, TableValues, standardised_encoding
from hhvaem.inference import infer_schema
from hhvaem.marginal_vae import MarginalVAEs, train_many_marginal_vaes
from hhvaem.marginals import Direct
from hhvaem.model import Row
from hhvaem.schema import Column
from hhvaem.steps import Settings
from hhvaem.table import encode


@dataclass(frozen=True)
class Published:
    """The hyper-parameters that a table has in the published code.

    Parameters
    ----------
    batch_size
        Rows of a step, in all three stages.
    marginal_steps, steps, hmc_steps
        Steps of stage 1, of stages 2 and 3 together, and of stage 3.
    one_layer, two_layers
        Sizes of the latents, data upwards, of VAEM, MIWAEM and HMC-VAEM; of H-VAEM and HH-VAEM.
    warm_up
        Steps in which the divergences of layers are balanced. The published HH-VAEM counts them
        twice as fast as H-VAEM does; here all models balance for as long as is configured.
    transitions
        The length T of chains.
    """

    batch_size: int
    marginal_steps: int
    steps: int
    hmc_steps: int
    one_layer: tuple[int, ...]
    two_layers: tuple[int, ...]
    warm_up: int
    transitions: int

    @property
    def three_layers(self) -> tuple[int, ...]:
        """The two layers, and half as many latents above them."""
        return (*self.two_layers, max(self.two_layers[-1] // 2, 1))

    def settings(self, inference: Literal["gaussian", "importance", "hmc"] = "hmc") -> Settings:
        """Give the settings of stages 2 and 3; what is not said here is the same for all tables."""
        return Settings(
            inference=inference,
            steps=self.steps,
            hmc_steps=self.hmc_steps,
            batch_size=self.batch_size,
            warm_up=self.warm_up,
            transitions=self.transitions,
        )


# Of all models the stage 1 that most have: VAEM and MIWAEM were given 70 steps of it on energy.
PUBLISHED = {
    "bank": Published(100, 3710, 50_085, 5_085, (10,), (10, 5), 5_000, 10),
    "insurance": Published(100, 1068, 50_018, 5_018, (10,), (10, 5), 5_000, 10),
    "avocado": Published(100, 1650, 50_160, 5_160, (10,), (10, 5), 5_000, 10),
    "naval": Published(100, 1080, 50_004, 5_004, (10,), (10, 5), 5_000, 10),
    "yacht": Published(20, 1008, 20_006, 2_006, (4,), (4, 2), 1_000, 5),
    "diabetes": Published(100, 1000, 20_000, 2_000, (4,), (4, 2), 1_000, 5),
    "concrete": Published(100, 1000, 20_000, 2_000, (4,), (4, 2), 1_000, 5),
    "wine": Published(24, 1001, 20_006, 2_006, (10,), (10, 5), 1_000, 10),
    "energy": Published(100, 1001, 20_006, 2_006, (10,), (10, 5), 1_000, 10),
    "boston": Published(100, 1000, 20_000, 2_000, (10,), (10, 5), 1_000, 10),
}


@dataclass(frozen=True, eq=False)
class Part:
    """Columns of a fold, inputs or targets: what they are, their scales, their training rows."""

    columns: tuple[Column, ...]
    encoding: Encoding
    values: TableValues
    mask: TableMask

    @property
    def rows(self) -> tuple[Cells, Bool[Array, "rows columns"]]:
        """The training rows as a model sees them."""
        return self.encoding.encode(self.values, self.mask), jnp.asarray(self.mask)


@dataclass(frozen=True, eq=False)
class Fold:
    """One fold of a table.

    Parameters
    ----------
    inputs, targets
        Their columns; scales are those of the training rows.
    train
        The training rows, in which all is observed that the table has.
    test
        The test rows with their mask: targets are hidden. Hidden cells keep their values, to
        score by; a model does not look at them.
    truth, target_truth
        The values of test rows in the user's units.
    """

    inputs: Part
    targets: Part
    train: Row
    test: Row
    truth: Float[np.ndarray, "test inputs"]
    target_truth: Float[np.ndarray, "test targets"]


def take_fold(dataset: Dataset, work: Work, number: int, tested: int | None = None) -> Fold:
    """Divide a table into the training rows and the test rows of a fold.

    Kinds and levels are those of all rows, as in the published code.

    Parameters
    ----------
    dataset, work, number
        The table, its plan, and which of its folds.
    tested
        The fold whose test rows are taken, where they are not its own: training has seen them.

    Examples
    --------
    >>> from hhvaem.datasets import load
    >>> from hhvaem.datasets.work import plan
    >>> wine = load("wine", as_published=True)
    >>> fold = take_fold(wine, plan(wine, seed=0), 0)
    >>> fold.train.mask.shape, fold.test.mask.shape, fold.test.target.point.shape
    ((160, 13), (18, 13), (18, 1))
    """
    schema = infer_schema(dataset.table, dataset.kinds)
    values, mask = encode(dataset.table, schema)
    is_target = np.array([column.name in dataset.targets for column in schema.modelled])
    tested = number if tested is None else tested
    train, test = work.train_rows(number), work.test_rows(tested)

    def part(chosen: Bool[np.ndarray, " columns"]) -> tuple[Part, Cells, Bool[Array, "test _"]]:
        columns = tuple(schema.modelled[j] for j in np.flatnonzero(chosen))
        shown, seen = values[train][:, chosen], mask[train][:, chosen]
        encoding = standardised_encoding(columns, shown, seen)
        tested = encoding.encode(values[test][:, chosen], mask[test][:, chosen])
        return Part(columns, encoding, shown, seen), tested, jnp.asarray(mask[test][:, chosen])

    inputs, cells, observed = part(~is_target)
    targets, target, _ = part(is_target)
    hidden = jnp.zeros(target.point.shape, bool)
    # Columns that are always the same are not modelled; the plan has them.
    kept = [work.inputs.index(column.name) for column in inputs.columns]
    return Fold(
        inputs,
        targets,
        Row(*inputs.rows, *targets.rows),
        Row(cells, observed & jnp.asarray(work.test_mask(tested)[:, kept]), target, hidden),
        values[test][:, ~is_target],
        values[test][:, is_target],
    )


def stage_one(
    folds: Sequence[Fold],
    published: Published,
    *,
    keys: Key[Array, " folds"],
    progress: Callable[[int, float], None] | None = None,
) -> tuple[MarginalVAEs, Direct]:
    """Train the column models of several folds of a table at once.

    They have a leading axis of folds on every array; `train.untrained` goes on from them.
    """
    marginals, _ = train_many_marginal_vaes(
        [(fold.inputs.encoding, fold.inputs.values, fold.inputs.mask) for fold in folds],
        keys=keys,
        steps=published.marginal_steps,
        batch_size=published.batch_size,
        progress=progress,
    )
    return marginals, target_laws(folds)


def target_laws(folds: Sequence[Fold]) -> Direct:
    """Give the laws of the targets, which are not trained, with a leading axis of folds."""
    laws = [Direct.fit(f.targets.encoding, f.targets.values, f.targets.mask) for f in folds]
    return jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *laws)
