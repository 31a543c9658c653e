"""Fill the holes of a table, and predict from what is known."""

import importlib
from typing import TYPE_CHECKING, Any

from hhvaem.errors import InputError as InputError
from hhvaem.errors import TableWarning as TableWarning
from hhvaem.files import read_table as read_table
from hhvaem.files import write_table as write_table
from hhvaem.inference import infer_schema as infer_schema
from hhvaem.schema import Column as Column
from hhvaem.schema import Schema as Schema
from hhvaem.table import encode as encode
from hhvaem.table import fill as fill

__version__ = "0.1.0"

# Where JAX is needed, which takes longer to import than to read a table.
_LATER = {
    "Classifier": "estimators",
    "ImageImputer": "estimators.images",
    "Imputer": "estimators",
    "Regressor": "estimators",
    "Pooled": "pooling",
    "Session": "acquire.session",
    "load": "saving",
    "pool": "pooling",
    "pool_fit": "pooling",
}

if TYPE_CHECKING:
    from hhvaem.acquire.session import Session as Session
    from hhvaem.estimators import Classifier as Classifier
    from hhvaem.estimators import Imputer as Imputer
    from hhvaem.estimators import Regressor as Regressor
    from hhvaem.estimators.images import ImageImputer as ImageImputer
    from hhvaem.pooling import Pooled as Pooled
    from hhvaem.pooling import pool as pool
    from hhvaem.pooling import pool_fit as pool_fit
    from hhvaem.saving import load as load


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(importlib.import_module(f"hhvaem.{_LATER[name]}"), name)
    raise AttributeError(f"module 'hhvaem' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
