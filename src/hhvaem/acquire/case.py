"""One row and the draws of its latents, as numbers: what a session asks of a model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from hhvaem import posterior
from hhvaem.acquire import joint
from hhvaem.acquire.information import Method, gains
from hhvaem.acquire.moving import moved
from hhvaem.acquire.scores import Asked, Worth, asked, settled
from hhvaem.fitting import Chunk, Fitted, row_keys
from hhvaem.model import Row
from hhvaem.predictive import Predictive

F = TypeVar("F", bound=Callable[..., Any])

# The share of draws that must be left in effect after an answer: with fewer, chains start anew.
LEFT = 0.1
# Bins of the paper's histogram.
BINS = 5


@dataclass(frozen=True, eq=False)
class Case:
    """What is known of a row, and draws of its latents; made by `begun` and `told`.

    Parameters
    ----------
    fitted
        The model, or several of them.
    about
        How its columns lie on their lines.
    known
        The number of each known column, by its place.
    chunk
        The row as the device sees it.
    positions
        Draws of its latents, by each model.
    """

    fitted: Fitted
    about: Asked
    known: dict[int, float]
    chunk: Chunk
    positions: Float[Array, "m draws size"]

    @classmethod
    def begun(cls, fitted: Fitted, known: dict[int, float], draws: int) -> "Case":
        """Start chains given what is known, of at least as many draws by all models."""
        each = -(-draws // fitted.members)
        how = replace(fitted.plan.how, chains=each, kept=1, superchains=0)
        chunk = _chunk(fitted, known)
        drawn = fitted.draws(chunk, how).positions[:, 0, :, 0]
        return cls(fitted, asked(fitted), known, chunk, drawn)

    def told(self, column: int, number: float) -> "Case":
        """Take one more column as known, and the draws along."""
        known = {**self.known, column: number}
        chunk = _chunk(self.fitted, known)
        before, after = self._row, _first(chunk)
        positions, effective = moved(
            self.fitted.models, self.fitted.tuned, before, after, self.positions, chunk.keys[0]
        )
        draws = self.positions.shape[1]
        if float(effective.min()) < LEFT * draws:
            return replace(
                Case.begun(self.fitted, known, draws * self.fitted.members), about=self.about
            )
        return Case(self.fitted, self.about, known, chunk, positions)

    def worth(self, method: Method) -> Worth:
        """Give what each column would tell."""
        found = gains(
            self.fitted.models, self.chunk.row, self._chains[:, None], self.chunk.keys,
            *self.about, method, BINS,
        )  # fmt: skip
        columns = len(self.fitted.encoding.laws)
        return Worth(*(part[0, :columns] for part in settled(found)))

    def together(self, sets: Bool[np.ndarray, "sets columns"]) -> Worth:
        """Give what each set of columns would tell."""
        width = self.fitted.models.log_noise.shape[1]
        wide = np.zeros((len(sets), width), bool)
        wide[:, : sets.shape[1]] = sets
        key = jax.random.fold_in(self.chunk.keys[0], 2)
        return settled(
            joint.together(
                self.fitted.models, self._row, self._chains, key, jnp.asarray(wide), *self.about
            )
        )

    def prospects(
        self,
    ) -> tuple[
        Float[np.ndarray, "columns answers"],
        Float[np.ndarray, "columns answers columns"],
        Bool[np.ndarray, "columns answers"],
    ]:
        """Give how probable answers are, what columns would tell after them, and if to trust it."""
        columns = len(self.fitted.encoding.laws)
        found = joint.prospects(self.fitted.models, self._row, self._chains, *self.about)
        chance, then, effective = (np.asarray(part, np.float64)[:columns] for part in found)
        return chance, then[..., :columns], effective >= joint.FEWEST

    def laws(self) -> tuple[Predictive, Predictive]:
        """Give the laws of the cells and of the targets, of a table of one row."""
        found = posterior.laws(self.fitted.models, self.chunk.row, self._chains[:, None])
        cells, target = (np.asarray(part) for part in found)
        return (
            Predictive(self.fitted.scales, cells),
            Predictive(self.fitted.target_scales, target),
        )

    @property
    def _row(self) -> Row:
        return _first(self.chunk)

    @property
    def _chains(self) -> Float[Array, "m draws 1 size"]:
        return self.positions[:, :, None]


def on_device(method: F) -> F:
    """Let a method of what has a `model` compute where that model does."""

    @wraps(method)
    def there(self: Any, *args: Any, **kwargs: Any) -> Any:
        with self.model._on_device():
            return method(self, *args, **kwargs)

    return cast(F, there)


def sets_of(columns: Sequence[Sequence[int]], width: int) -> Bool[np.ndarray, "sets columns"]:
    """Give sets of columns as a table."""
    found = np.zeros((len(columns), width), bool)
    for i, each in enumerate(columns):
        found[i, list(each)] = True
    return found


def _chunk(fitted: Fitted, known: dict[int, float]) -> Chunk:
    values = np.full((1, len(fitted.encoding.laws)), np.nan)
    for column, number in known.items():
        values[0, column] = number
    mask = ~np.isnan(values)
    (chunk,) = fitted.chunks(values, mask, row_keys(values, mask, fitted.seed), size=1)
    return chunk


def _first(chunk: Chunk) -> Row:
    return jax.tree.map(lambda leaf: leaf[0], chunk.row)
