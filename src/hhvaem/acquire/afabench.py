"""A classifier as a method of AFABench, the benchmark of active feature acquisition.

The benchmark (arXiv 2508.14734) calls a method with features of which some are
masked, and takes the number of the feature that is to be shown next, from 1, or 0 to stop. Arrays
come and go as NumPy has them; tensors are taken as well, and arrays given back.
"""

import copy
import os
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from hhvaem.acquire.policy import CHEAPEST
from hhvaem.checks import check_count
from hhvaem.containers import shown
from hhvaem.errors import InputError
from hhvaem.estimators import Classifier


class Acquirer:
    """Asks for the feature that tells most for its cost, as long as it is worth it.

    Parameters
    ----------
    model
        A `Classifier` of one target that was fitted to an array.
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
        if model.n_outputs_ > 1:
            raise InputError(
                f"AFABench asks about one target, and this Classifier has {model.n_outputs_}; fit "
                "one for each."
            )
        self.model = copy.copy(model)
        features = model.n_features_in_
        self.costs = np.ones(features) if costs is None else _numbers("costs", costs)
        if (
            self.costs.shape != (features,)
            or not (np.isfinite(self.costs) & (self.costs >= 0)).all()
        ):
            raise InputError(
                f"Give {features} finite costs that are not negative, one for each feature."
            )
        self._least = 0.0

    def set_cost_param(self, cost_param: float) -> None:
        """Stop where no feature tells so many nats for each unit of its cost."""
        if not isinstance(cost_param, Real) or not 0 <= float(cost_param) < np.inf:
            raise InputError(f"cost_param={shown(cost_param)} must be a number from 0.")
        self._least = float(cost_param)

    def set_seed(self, seed: int | None) -> None:
        """Draw in another way; None changes nothing."""
        if seed is not None and self.model.fitted_ is not None:
            self.model.fitted_ = replace(self.model.fitted_, seed=check_count("seed", seed, 0))

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
        features, seen = self._rows(masked_features, feature_mask)
        closed = seen
        if selection_mask is not None:
            asked = _flags("selection_mask", selection_mask)
            if asked.shape != np.shape(feature_mask):
                raise InputError(
                    f"selection_mask has the shape {asked.shape}, and feature_mask "
                    f"{np.shape(feature_mask)}; give both of one shape."
                )
            closed = seen | asked.reshape(seen.shape)
        gains = np.full(features.shape, np.nan)
        names = list(self.model.schema_.names)
        places = [names.index(column.name) for column in self.model.schema_.modelled]
        if places:  # else there is nothing to ask for
            gains[:, places] = self.model.acquire(features)
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
        features, _ = self._rows(masked_features, feature_mask)
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
        self, masked_features: Any, feature_mask: Any
    ) -> tuple[Float[np.ndarray, "rows features"], Bool[np.ndarray, "rows features"]]:
        """Give rows of features, NaN where they are not shown, and where they are."""
        features = _numbers("masked_features", masked_features)
        seen = _flags("feature_mask", feature_mask)
        count = self.model.n_features_in_
        if features.shape != seen.shape or not seen.ndim or seen.shape[-1] != count:
            raise InputError(
                f"masked_features has the shape {features.shape} and feature_mask {seen.shape}; "
                f"give both of one shape, with the {count} features of the model at its end."
            )
        features, seen = features.reshape(-1, count), seen.reshape(-1, count)
        absent = np.argwhere(seen & ~np.isfinite(features))
        if len(absent):
            row, column = absent[0]
            raise InputError(
                f"feature_mask shows feature {column} of row {row} (counted from 0), and "
                "masked_features has no number there; make it False there."
            )
        return np.where(seen, features, np.nan), seen


def _numbers(name: str, given: Any) -> Float[np.ndarray, "*shape"]:
    """Give an array or a tensor as floats."""
    try:
        return np.asarray(given, np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} is no array of numbers; give one.") from error


def _flags(name: str, given: Any) -> Bool[np.ndarray, "*shape"]:
    """Give a mask, which some methods of the benchmark have as the numbers 0 and 1."""
    found = _numbers(name, given)
    if not ((found == 0) | (found == 1)).all():
        raise InputError(f"{name} has other values than True and False; give only these.")
    return found == 1
