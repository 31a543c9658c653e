"""Tables as scikit-learn's users give them: frames as they are, everything else as an array."""

from typing import Any

import narwhals.dependencies as nwd
import numpy as np
import pyarrow as pa
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_feature_names, validate_data

from hhvaem.containers import columns_of


def checked_table(estimator: BaseEstimator, X: Any, *, reset: bool) -> Any:
    """Check a table by scikit-learn's habits, and remember its columns where `reset`.

    Raises
    ------
    ValueError
        Where its columns are not those that `fit` saw, in the same order, or it is no table.
    """
    if is_frame(X):
        columns_of(X)  # which refuses columns that share a name
        _check_feature_names(estimator, X, reset=reset)
        _check_n_features(estimator, X, reset=reset)
        return X
    if nwd.is_polars_lazyframe(X) or isinstance(X, np.ma.MaskedArray):
        columns_of(X)  # which refuses them; scikit-learn would not see what is masked
    array: np.ndarray = validate_data(
        estimator, X, reset=reset, dtype=None, ensure_all_finite="allow-nan"
    )
    return array


def is_frame(X: Any) -> bool:
    """Say whether this is a table of columns with names."""
    frame = nwd.is_pandas_dataframe(X) or nwd.is_polars_dataframe(X) or isinstance(X, pa.Table)
    return bool(frame)


def _check_n_features(estimator: Any, X: Any, *, reset: bool) -> None:
    if reset:
        estimator.n_features_in_ = X.shape[1]
    elif X.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X has {X.shape[1]} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input."
        )
