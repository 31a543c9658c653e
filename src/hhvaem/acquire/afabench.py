"""A classifier as a method of AFABench, the benchmark of active feature acquisition.

The benchmark (arXiv 2508.14734) calls a method with features of which some are
masked, and takes the number of the feature that is to be shown next, from 1, or 0 to stop. Arrays
come and go as NumPy has them; tensors are taken as well, and arrays given back.
"""

import copy
import os
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from hhvaem.acquire.policy import CHEAPEST
from hhvaem.errors import InputError
from hhvaem.estimators import Classifier


class Acquirer:
    """Asks for the feature that tells most for its cost, as long as it is worth it.

    Parameters
    ----------
    model
        A `Classifier` that was fitted to an array.
    costs
        The cost of each feature; 1 by default.

    Examples
    --------
    >>> import numpy as np
    >>> from hhvaem import Classifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> model = Classifier(preset="fast", random_state=0).fit(X, X[:, 1] > 0)
    >>> method = Acquirer(model)
    >>> method.act(np.zeros((1, 3)), np.zeros((1, 3), bool)).tolist()
    [2]
    """

    def __init__(self, model: Classifier, costs: Any = None) -> None:
        if not isinstance(model, Classifier) or not hasattr(model, "schema_"):
            raise InputError("AFABench needs a fitted Classifier.")
        self.model = copy.copy(model)
        features = model.n_features_in_
        self.costs = np.ones(features) if costs is None else np.asarray(costs, np.float64)
        if self.costs.shape != (features,) or not (self.costs >= 0).all():
            raise InputError(f"Give {features} costs that are not negative, one for each feature.")
        self._least = 0.0

    def set_cost_param(self, cost_param: float) -> None:
        """Stop where no feature tells so many nats for each unit of its cost."""
        if not cost_param >= 0:
            raise InputError(f"cost_param={cost_param!r} must be a number from 0.")
        self._least = float(cost_param)

    def set_seed(self, seed: int | None) -> None:
        """Draw in another way; None changes nothing."""
        if seed is not None and self.model.fitted_ is not None:
            self.model.fitted_ = replace(self.model.fitted_, seed=int(seed))

    def act(
        self,
        masked_features: Any,
        feature_mask: Any,
        selection_mask: Any = None,
        label: Any = None,
        feature_shape: Any = None,
    ) -> Int[np.ndarray, "*batch"]:
        """Give the number of the feature to be shown next, from 1; 0 to stop.

        Parameters
        ----------
        masked_features, feature_mask
            Features, and which of them are shown.
        selection_mask
            Which have been asked for, also where nothing came of it.
        label, feature_shape
            Not looked at.
        """
        del label, feature_shape
        features, shown = _rows(masked_features, feature_mask)
        gains = np.full(features.shape, np.nan)
        names = list(self.model.schema_.names)
        found = self.model.acquire(features)
        places = [names.index(column.name) for column in self.model.schema_.modelled]
        gains[:, places] = found
        closed = shown if selection_mask is None else shown | _flat(selection_mask).astype(bool)
        rate = np.where(closed | np.isnan(gains), -np.inf, gains / np.maximum(self.costs, CHEAPEST))
        best = rate.argmax(1)
        worth = rate[np.arange(len(rate)), best]
        action = np.where((worth == -np.inf) | (worth < self._least), 0, best + 1)
        return action.reshape(np.shape(feature_mask)[:-1])

    def predict(
        self,
        masked_features: Any,
        feature_mask: Any,
        label: Any = None,
        feature_shape: Any = None,
    ) -> Float[np.ndarray, "*batch classes"]:
        """Give the probabilities of the classes."""
        del label, feature_shape
        features, _ = _rows(masked_features, feature_mask)
        shares = np.asarray(self.model.predict_proba(features))
        return shares.reshape(*np.shape(feature_mask)[:-1], -1)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file; costs are given again."""
        self.model.save(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], device: Any = None) -> "Acquirer":
        """Read a model that was saved."""
        from hhvaem.saving import load

        return cls(load(path)).to(device)

    def to(self, device: Any) -> "Acquirer":
        """Compute on `cpu` or `gpu`; None for what there is."""
        self.model.set_params(device=None if device is None else str(device).split(":")[0])
        return self


def _rows(
    masked_features: Any, feature_mask: Any
) -> tuple[Float[np.ndarray, "rows features"], np.ndarray]:
    """Give rows of features, NaN where they are not shown."""
    features, shown = _flat(masked_features), _flat(feature_mask).astype(bool)
    return np.where(shown, features.astype(np.float64), np.nan), shown


def _flat(array: Any) -> np.ndarray:
    found = np.asarray(array)
    return found.reshape(-1, found.shape[-1])
