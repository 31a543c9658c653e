"""Tables as scikit-learn's users give them: frames as they are, everything else as an array."""

from collections.abc import Sequence
from typing import Any

import narwhals.dependencies as nwd
import numpy as np
import pyarrow as pa
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from hhvaem.containers import columns_of, is_array, listed
from hhvaem.errors import InputError


def new_table(estimator: BaseEstimator, X: Any) -> Any:
    """Check a table to be fitted to; the estimator stays as it is.

    Raises
    ------
    ValueError
        Where it is no table.
    """
    if is_frame(X):
        columns_of(X)  # which refuses columns that share a name
        return X
    # Infinities are refused later, by column and row.
    array: np.ndarray = check_array(
        _as_array(X), dtype=None, ensure_all_finite=False, estimator=estimator, input_name="X"
    )
    return array


def known_table(estimator: Any, X: Any) -> Any:
    """Check a table of the columns that a fitted estimator knows; it may have no rows.

    Raises
    ------
    ValueError
        Where its columns are not those that `fit` saw, in the same order, or it is no table.
    """
    if is_frame(X):
        _check_names([name for name, _ in columns_of(X)], estimator.schema_.names)
        return X
    array: np.ndarray = validate_data(
        estimator,
        _as_array(X),
        reset=False,
        dtype=None,
        ensure_all_finite=False,
        ensure_min_samples=0,
    )
    return array


def remember_columns(estimator: Any, table: Any) -> None:
    """Set what scikit-learn wants to know of the columns of a fitted table."""
    estimator.n_features_in_ = table.shape[1]
    names = _names(table) if is_frame(table) else []
    if names and all(isinstance(name, str) for name in names):
        estimator.feature_names_in_ = np.array(names, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_


def is_frame(X: Any) -> bool:
    """Say whether this is a table of columns with names."""
    frame = nwd.is_pandas_dataframe(X) or nwd.is_polars_dataframe(X) or isinstance(X, pa.Table)
    return bool(frame)


def _names(frame: Any) -> list[Any]:
    return list(frame.column_names if isinstance(frame, pa.Table) else frame.columns)


def _as_array(X: Any) -> Any:
    """Give what is no frame as scikit-learn can look at it."""
    masked = isinstance(X, np.ma.MaskedArray)
    series = nwd.is_pandas_series(X) or nwd.is_polars_series(X)
    if masked or series or nwd.is_polars_lazyframe(X) or issparse(X):
        columns_of(X)  # which refuses them, each with a way out
    if not is_array(X):
        return X
    # scikit-learn refuses a numpy.matrix, and texts of NumPy's newer dtype.
    return X.astype(object) if X.dtype.kind == "T" else np.asarray(X)


def _check_names(names: Sequence[str], known: Sequence[str]) -> None:
    here, there = set(names), set(known)
    absent = listed([name for name in known if name not in here])
    extra = listed([name for name in names if name not in there])
    if absent:
        instead = f" and has {extra} instead" if extra else ""
        raise InputError(
            f"The table lacks {absent}{instead}; give the columns that `fit` saw, empty "
            "where nothing is known."
        )
    if extra:
        raise InputError(
            f"The table has {extra}, which `fit` did not see; leave out what is not in "
            "`schema_.names`."
        )
    if list(names) != list(known):
        first = next(i for i, name in enumerate(names) if name != known[i])
        raise InputError(
            f"The columns are in another order than in `fit`, from {names[first]!r} on, where "
            f"{known[first]!r} was; select them by `schema_.names`."
        )
