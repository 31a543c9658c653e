"""`Regressor` and `Classifier`: predict targets from what is known."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils import Tags

from hhvaem.acquire.information import METHODS, Method
from hhvaem.acquire.policy import CHEAPEST
from hhvaem.acquire.prices import prices
from hhvaem.acquire.scores import worth
from hhvaem.checks import check_count
from hhvaem.containers import like
from hhvaem.errors import InputError
from hhvaem.estimators import targets
from hhvaem.estimators.base import Estimator, check_known, interval_ends, with_parameters
from hhvaem.estimators.tables import new_table
from hhvaem.estimators.targets import Targets
from hhvaem.posterior import Posterior
from hhvaem.sources import is_source, source_of
from hhvaem.table import holes
from hhvaem.tasks import values_of


class Predictor(Estimator):
    """What predicts targets."""

    def _ask(
        self, X: Any, posterior: Posterior | None, draws: int | None, ask: Any
    ) -> list[Shaped[np.ndarray, "rows *rest"]]:
        """Ask the law of each target in each row."""
        _, (values, mask) = self._encoded_rows(X)
        with self._on_device():
            how = self._how(posterior, draws)
            parts = [
                [ask(law, j, np.arange(part.stop - part.start)) for j in range(self.n_outputs_)]
                for part, _, law in self._model().laws(values, mask, how)
            ]
        return [np.concatenate(part) for part in zip(*parts, strict=True)]

    def acquire(
        self,
        X: Any,
        costs: Mapping[str, float] | None = None,
        *,
        method: Method = "grid",
        posterior: Posterior | None = None,
        draws: int | None = None,
        return_error: bool = False,
    ) -> Any:
        """Give what each unknown cell would tell about the targets.

        Parameters
        ----------
        X
            A table.
        costs
            What columns cost, by name, 1 where it is not said. With costs, gains are for each unit
            of cost.
        method
            `grid`, `histogram` (the paper's) or `gaussian` (that of EDDI and VAEM) for information
            in nats; `variance` for the expected fall of the targets' variance, of which the whole
            is 1 for each target in the table that was fitted.
        posterior, draws
            How the latents are drawn, and how often, as in `predict`.
        return_error
            Whether to give the standard errors of the gains, too.

        Returns
        -------
        table, or two
            Of the kind of `X`, with a column for each that the model knows; NaN where the cell is
            observed.
        """
        check_known("method", method, METHODS)
        table, (values, mask) = self._encoded_rows(X)
        columns = self.schema_.modelled
        if not columns:
            raise InputError("All columns are constant, empty or ignored; there is nothing to ask.")
        price = np.array([prices(columns, costs).of([column.name]) for column in columns])
        found = np.empty((2, *values.shape))
        with self._on_device():
            how = self._how(posterior, draws)
            for rows, part, _ in worth(self._model(), values, mask, how, method):
                found[:, rows] = part.gain, part.error
        # A value that the model does not know, such as an unseen level, is observed all the same.
        unknown = holes(table, self.schema_)[:, [column.modelled for column in self.schema_]]
        found = np.where(unknown, found / np.where(price > 0, price, CHEAPEST), np.nan)
        gain, error = (
            like(table, {c.name: part[:, j] for j, c in enumerate(columns)}) for part in found
        )
        return (gain, error) if return_error else gain

    def _learn(
        self, X: Any, y: Any, take: Callable[[Any, int], Targets], *, classes: bool
    ) -> Targets:
        if y is None:
            raise ValueError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y "
                "is None."
            )
        table, source = X, source_of(X) if is_source(X) else None
        if source is not None:
            names = targets.named(source, y)
            whole = source.whole(self._at_once(len(source.types)))
            if whole is not None:
                y = values_of(whole, names) if isinstance(y, str) else whole.select(names)
                table, source = whole.drop_columns(names), None
        if source is not None:
            goal = targets.elsewhere(source, y, classes=classes)
            self._fit_from(source, goal)
        else:
            table = new_table(self, table)
            goal = take(y, table.shape[0])
            self._fit(table, goal)
        # Afterwards: where a fit fails, what there was before stays as it was.
        self.target_names_ = [column.name for column in goal.part.columns]
        self.n_outputs_, self.flat_ = len(self.target_names_), goal.flat
        return goal

    def _draw(
        self, X: Any, draws: int, posterior: Posterior | None
    ) -> Float[np.ndarray, "draws rows targets"]:
        check_count("draws", draws, 1)
        _, (values, mask) = self._encoded_rows(X)
        with self._on_device():
            how = self._how(posterior, draws)
            parts = [target[:draws] for _, _, target in self._model().cases(values, mask, how)]
        return np.concatenate(parts, axis=1)

    def _check_targets(self, count: int) -> None:
        if count != self.n_outputs_:
            raise InputError(
                f"The number of targets in y is {count}, and the model predicts {self.n_outputs_}; "
                "give as many."
            )

    def _shaped(self, parts: Sequence[np.ndarray]) -> Any:
        return parts[0] if self.flat_ else np.stack(parts, axis=1)


@with_parameters
class Regressor(RegressorMixin, Predictor):
    """Predict numbers from whatever is known of the other columns.

    {parameters}

    Attributes
    ----------
    schema_
        What each column was taken for.
    fitted_
        The model behind.
    target_names_, n_outputs_, flat_
        The names and the number of targets, and whether it is one that was given without a table
        around it.
    members_
        How many models there are.
    n_features_in_, feature_names_in_
        The number of columns, and their names where they have names.

    Examples
    --------
    >>> import numpy as np
    >>> from hhvaem import Regressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> y = X @ [1.0, -1.0, 0.5]
    >>> X[rng.random(X.shape) < 0.2] = np.nan
    >>> model = Regressor(preset="fast", random_state=0).fit(X, y)
    >>> low, up = model.predict_interval(X, level=0.9)
    >>> bool(((low < y) & (y < up)).mean() > 0.7)
    True
    """

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any) -> "Regressor":
        """Learn from a table and its targets; either may have holes.

        Parameters
        ----------
        X
            A pandas or polars DataFrame, a pyarrow Table or a 2-D array; or the path of a file
            or of a folder of files, or a pyarrow dataset, which may be larger than memory.
        y
            Numbers, one for each row, or a table of several targets. Rows without a known target
            are learned from as well. Of a table in files, the name of its target
            column, or a list of names.
        """
        self._learn(X, y, targets.numbers, classes=False)
        return self

    def predict(
        self, X: Any, *, posterior: Posterior | None = None, draws: int | None = None
    ) -> Float[np.ndarray, "rows *targets"]:
        """Give the predictive mean of each target."""
        return self._shaped(self._ask(X, posterior, draws, lambda law, *at: law.mean(*at)))

    def predict_interval(
        self,
        X: Any,
        level: float = 0.9,
        *,
        posterior: Posterior | None = None,
        draws: int | None = None,
    ) -> tuple[Float[np.ndarray, "rows *targets"], Float[np.ndarray, "rows *targets"]]:
        """Give the ends of the interval that holds each target with probability `level`."""
        ends = interval_ends(level)
        both = self._ask(
            X, posterior, draws, lambda law, *at: np.stack([law.quantile(*at, q) for q in ends], 1)
        )
        return self._shaped([each[:, 0] for each in both]), self._shaped(
            [each[:, 1] for each in both]
        )

    def sample(
        self, X: Any, draws: int = 100, *, posterior: Posterior | None = None
    ) -> Float[np.ndarray, "draws rows *targets"]:
        """Draw the targets of each row."""
        drawn = self._draw(X, draws, posterior)
        return drawn[..., 0] if self.flat_ else drawn

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Give the share of the variance that is predicted (R²), by rows with a known target.

        Parameters
        ----------
        X
            A table.
        y
            The true targets; those that are missing do not count.
        sample_weight
            Weights of the rows.

        Returns
        -------
        float
            Of several targets, the mean.
        """
        found = self.predict(X)
        truth = targets.numbers(y, len(found)).part
        self._check_targets(truth.values.shape[1])
        weights = None if sample_weight is None else np.asarray(sample_weight)
        shares = [
            r2_score(one[at], other[at], sample_weight=None if weights is None else weights[at])
            for one, other, at in zip(
                truth.values.T, found.reshape(truth.values.shape).T, truth.mask.T, strict=True
            )
        ]
        return float(np.mean(shares))


@with_parameters
class Classifier(ClassifierMixin, Predictor):
    """Predict classes from whatever is known of the other columns.

    {parameters}

    Attributes
    ----------
    classes_
        The labels, in order; a list of them where there are several targets.
    schema_, fitted_, target_names_, n_outputs_, flat_, members_, n_features_in_, feature_names_in_
        As those of `Regressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from hhvaem import Classifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> y = np.where(X.sum(1) > 0, "yes", "no")
    >>> X[rng.random(X.shape) < 0.2] = np.nan
    >>> model = Classifier(preset="fast", random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.8)
    True
    """

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any) -> "Classifier":
        """Learn from a table and its labels; either may have holes.

        Parameters
        ----------
        X
            A pandas or polars DataFrame, a pyarrow Table or a 2-D array; or the path of a file
            or of a folder of files, or a pyarrow dataset, which may be larger than memory.
        y
            Labels, one for each row, or a table of several targets. Rows without a known label
            are learned from as well. Of a table in files, the name of its target
            column, or a list of names.
        """
        goal = self._learn(X, y, targets.labels, classes=True)
        self.classes_: Any = goal.classes[0] if goal.flat else list(goal.classes)
        return self

    def predict_proba(
        self, X: Any, *, posterior: Posterior | None = None, draws: int | None = None
    ) -> Any:
        """Give the probability of each class; of several targets, a list of such tables."""
        shares = self._ask(X, posterior, draws, lambda law, *at: law.shares(*at))
        return shares[0] if self.flat_ else shares

    def predict(
        self, X: Any, *, posterior: Posterior | None = None, draws: int | None = None
    ) -> Shaped[np.ndarray, "rows *targets"]:
        """Give the most probable class of each row."""
        shares = self.predict_proba(X, posterior=posterior, draws=draws)
        if self.flat_:
            return self.classes_[shares.argmax(1)]
        both = zip(self.classes_, shares, strict=True)
        return _beside([classes[part.argmax(1)] for classes, part in both])

    def sample(
        self, X: Any, draws: int = 100, *, posterior: Posterior | None = None
    ) -> Shaped[np.ndarray, "draws rows *targets"]:
        """Draw the labels of each row."""
        drawn = self._draw(X, draws, posterior).astype(int)
        if self.flat_:
            return self.classes_[drawn[..., 0]]
        return _beside([c[drawn[..., j]] for j, c in enumerate(self.classes_)])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Give the share of rows with a known label in which it is predicted.

        Parameters
        ----------
        X
            A table.
        y
            The true labels; rows that lack one do not count.
        sample_weight
            Weights of the rows.

        Returns
        -------
        float
            Of several targets, the share of rows in which all are right.
        """
        found = self.predict(X)
        names, truth, known, _ = targets.known_labels(y, len(found))
        self._check_targets(len(names))
        rows = np.flatnonzero(known.all(1))
        if not rows.size:
            raise InputError("No row of y has all of its labels; give one that has.")
        right = np.ones(rows.size, bool)
        guesses = found.reshape(len(found), -1).T
        classes = [self.classes_] if self.flat_ else self.classes_
        for name, one, other, own in zip(names, truth, guesses, classes, strict=True):
            targets.check_alike(name, np.append(one[rows].astype(object), own[:1].tolist()))
            right &= one[rows] == other[rows]
        weights = None if sample_weight is None else np.asarray(sample_weight)[rows]
        return float(np.average(right, weights=weights))


def _beside(labels: list[Shaped[np.ndarray, "*rows"]]) -> Shaped[np.ndarray, "*rows targets"]:
    """Put the labels of several targets into one array, in which True does not become a text."""
    alike = len({each.dtype.kind for each in labels}) == 1
    return np.stack([each if alike else each.astype(object) for each in labels], axis=-1)
