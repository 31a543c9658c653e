"""Models that were trained here or given at the start, and the few of them that are in memory."""

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hhvaem.errors import InputError
from hhvaem.schema import LEVELLED, Column, Schema
from hhvaem.table import legal
from hhvaem.web.plain import cell
from hhvaem.web.refusals import RefusedError, absent

# Models in memory at once.
LOADED = 4
SERVED = "served"


@dataclass
class Model:
    """A fitted model in a file.

    Parameters
    ----------
    id, owner, name
        Its own name, whose it is (None: everybody's), and the table that it is of.
    path
        Its file.
    estimator
        `Imputer`, `Regressor` or `Classifier`.
    schema, targets
        Its columns, and what it predicts.
    table, folder
        The table that it was trained on, and where what it fills lies; None where there is none.
    draws
        How often the holes of that table were drawn.
    """

    id: str
    owner: str | None
    name: str
    path: Path
    estimator: str
    schema: Schema
    targets: list[dict[str, Any]]
    record: dict[str, Any]
    preset: str | None = None
    rows: int | None = None
    table: str | None = None
    folder: Path | None = None
    draws: int = 0
    created: float = field(default_factory=time.time)

    def check_file(self) -> None:
        """Refuse what needs the file where it is gone: its folder is in the hands of others, too.

        Raises
        ------
        RefusedError
            Saying so.
        """
        if not self.path.is_file():
            raise RefusedError(
                404, "The file of this model is gone from the folder of models; train it again."
            )

    @property
    def fills(self) -> bool:
        """Whether it fills holes, and predicts nothing."""
        return self.estimator == "Imputer"

    def told(self, *, table: bool, columns: bool = True) -> dict[str, Any]:
        """Give it as JSON; `table` says whether its table is still there."""
        facts: dict[str, Any] = {
            "id": self.id,
            "name": self.name,
            "estimator": self.estimator,
            "task": "fill" if self.fills else "predict",
            "served": self.owner is None,
            "table": self.table if table else None,
            "preset": self.preset,
            "rows": self.rows,
            "created": self.created,
            "bytes": _bytes(self.path),
            "file": self.path.name,
            "summary": learned(self.record),
            "targets": self.targets,
        }
        if columns:
            facts["columns"] = [column_told(i, c) for i, c in enumerate(self.schema)]
        return facts


class Models:
    """All models of a server, and those that are in memory."""

    def __init__(self) -> None:
        self._models: dict[str, Model] = {}
        self._loaded: OrderedDict[str, Any] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, model: Model, estimator: Any = None) -> None:
        """Take a model in, and its estimator where it is in memory already."""
        self._models[model.id] = model
        if estimator is not None:
            self._loaded[model.id] = estimator

    def of(self, owner: str) -> list[Model]:
        """Give the models that an owner may use, newest first, the served one last."""
        own = [model for model in list(self._models.values()) if model.owner == owner]
        served = [model for model in list(self._models.values()) if model.owner is None]
        return sorted(own, key=lambda model: -model.created) + served

    @property
    def trained(self) -> list[Model]:
        """Give the models that were trained here."""
        return [model for model in list(self._models.values()) if model.owner is not None]

    def get(self, owner: str, name: str) -> Model:
        """Give a model to its owner, and the served one to everybody."""
        model = self._models.get(name)
        if model is None or model.owner not in (owner, None):
            raise absent("model")
        return model

    def has(self, name: str) -> bool:
        """Say whether a model is still there."""
        return name in self._models

    def remove(self, model: Model) -> None:
        """Remove the file of a model, and forget it.

        Raises
        ------
        RefusedError
            Where the file cannot be removed; nothing is changed.
        """
        if model.owner is None:
            raise RefusedError(403, "This model was given when the server was started, and stays.")
        try:
            model.path.unlink(missing_ok=True)
        except OSError as error:
            raise RefusedError(
                409,
                f"The file of this model cannot be removed from the folder of models: "
                f"{error.strerror}; mend that, and remove the model again.",
            ) from error
        self._models.pop(model.id, None)
        with self._lock:
            self._loaded.pop(model.id, None)

    def estimator(self, model: Model) -> Any:
        """Give the estimator of a model, from memory or from its file."""
        with self._lock:
            if model.id not in self._models:
                raise absent("model")  # removed while somebody waited for it
            if model.id not in self._loaded:
                model.check_file()
                try:
                    self._loaded[model.id] = loaded(model.path)
                except InputError as error:  # users know its name, and not where it lies
                    said = str(error).replace(str(model.path), model.path.name)
                    raise InputError(said) from error
            self._loaded.move_to_end(model.id)
            for name in [name for name in self._loaded if self._may_go(name)][:-LOADED]:
                self._loaded.pop(name)
            return self._loaded[model.id]

    def _may_go(self, name: str) -> bool:
        return name != SERVED


def _bytes(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None


def loaded(path: Path) -> Any:
    """Read a model for use here, on tables whose columns go by their names."""
    from hhvaem import load  # here, as it imports JAX

    model = load(path)
    # The device of the machine that it was fitted on need not be here.
    model.set_params(device=None)
    model.feature_names_in_ = np.array(model.schema_.names, dtype=object)
    return model


def served(path: Path) -> tuple[Model, Any]:
    """Read the model that a server was started with."""
    estimator = loaded(path)
    model = Model(
        SERVED,
        None,
        path.name,
        path,
        type(estimator).__name__,
        estimator.schema_,
        targets_of(estimator),
        {} if estimator.fitted_ is None else estimator.fitted_.record,
        preset=estimator.preset,
    )
    return model, estimator


def targets_of(model: Any) -> list[dict[str, Any]]:
    """Give the names and classes of what a model predicts."""
    names = getattr(model, "target_names_", [])
    classes: list[Any] = [None] * len(names)
    if hasattr(model, "classes_"):
        each = [model.classes_] if model.flat_ else model.classes_
        classes = [[cell(label) for label in labels.tolist()] for labels in each]
    return [{"name": name, "classes": own} for name, own in zip(names, classes, strict=True)]


def column_told(index: int, column: Column) -> dict[str, Any]:
    """Give a column of a model as JSON: what it is, and how to ask a person for a value."""
    lower, upper, step = column.support
    levelled = column.kind in LEVELLED
    how = "level" if levelled else "number"
    if column.kind == "datetime":
        how = "date" if column.storage == "date" else "datetime"
    return {
        "index": index,
        "name": column.name,
        "kind": column.kind,
        "storage": column.storage,
        "modelled": column.modelled,
        "levels": [cell(level) for level in column.levels] if levelled else None,
        "legal": legal(column).removeprefix("which is ") if column.modelled else "",
        "lower": cell(lower),
        "upper": cell(upper),
        "step": step,
        "input": how,
        "cost": column.cost,
        "group": column.group,
    }


def learned(record: dict[str, Any]) -> str:
    """Say what a model has learned."""
    if "gain_per_hidden_cell" not in record:
        return "No column needs a model: holes are filled with the only value there is."
    factor = f"{np.exp(np.mean(record['gain_per_hidden_cell'])):.3g}"
    if float(factor) <= 1:
        return "Hidden cells are predicted no better than by their column alone."
    return (
        "Hidden cells are predicted better than by their column alone: they are "
        f"{factor} times as probable."
    )
