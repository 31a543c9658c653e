"""What cannot be trained on is refused before training starts."""

import numpy as np
from jaxtyping import Bool, Float

from hhvaem.errors import InputError
from hhvaem.held_out import Held
from hhvaem.model import Model
from hhvaem.steps import Data, Settings

_POSITIVE = (
    "steps", "batch_size", "learning_rate", "inflation_rate", "importance_samples",
    "transitions", "leapfrog", "stein_every", "stein_rows",
)  # fmt: skip
_NOT_NEGATIVE = ("hmc_steps", "weight_decay", "warm_up", "patience")


def check_training(models: Model, data: Data, settings: Settings, held: Held | None) -> None:
    """Refuse settings and tables that give no model.

    Raises
    ------
    InputError
        Where a setting is out of range, a table has too few rows, nothing observed, a cell that
        is not finite, a column without an observed cell, or a target with one class.
    """
    check_settings(settings)
    if settings.patience and held is None:
        raise InputError("Early stopping needs held-out cells: use hold_out, or set patience=0.")
    table = data.table
    parts = [("Column", table.cells, table.mask, models.marginals.levels)]
    if models.targets is not None:
        parts.append(("Target", table.target, table.target_mask, models.targets.levels))
    for i, rows in enumerate(np.asarray(data.rows).tolist()):
        if settings.batch_size > rows:
            raise InputError(
                f"batch_size={settings.batch_size} is more than the {rows} rows of the table; "
                "lower it."
            )
        if not any(np.asarray(mask[i, :rows]).any() for _, _, mask, _ in parts):
            raise InputError("No row has an observed cell; there is nothing to learn from.")
        for what, cells, mask, levels in parts:
            values = np.stack([np.asarray(part[i, :rows]) for part in cells])
            _check_columns(what, values, np.asarray(mask[i, :rows]), levels)


def check_settings(settings: Settings) -> None:
    """Refuse settings out of range.

    Raises
    ------
    InputError
        Naming the setting.
    """
    if settings.inference not in ("gaussian", "importance", "hmc"):
        raise InputError(
            f"inference={settings.inference!r} is unknown; use 'gaussian', 'importance' or 'hmc'."
        )
    for name in _POSITIVE:
        if not getattr(settings, name) > 0:
            raise InputError(f"{name}={getattr(settings, name)!r} must be more than 0.")
    for name in _NOT_NEGATIVE:
        if not getattr(settings, name) >= 0:
            raise InputError(f"{name}={getattr(settings, name)!r} must not be negative.")
    if settings.inference == "hmc" and settings.hmc_steps > settings.steps:
        raise InputError(
            f"hmc_steps={settings.hmc_steps} is more than all steps, steps={settings.steps}."
        )
    if settings.stein_chains < 2:
        raise InputError("stein_chains must be at least 2: the discrepancy is one of pairs.")


def _check_columns(
    what: str,
    cells: Float[np.ndarray, "parts rows columns"],
    mask: Bool[np.ndarray, "rows columns"],
    levels: tuple[int, ...],
) -> None:
    finite = np.isfinite(cells).all(0) | ~mask
    for j, count in enumerate(levels):
        if not finite[:, j].all():
            row = int(np.argmin(finite[:, j]))
            raise InputError(
                f"{what} {j} is not finite in row {row} (counted from 0); correct the value or "
                "leave it out."
            )
        seen = cells[-1, mask[:, j], j]
        if not seen.size:
            raise InputError(f"{what} {j} (counted from 0) has no observed cell; leave it out.")
        if what == "Target" and count > 1 and (seen == seen[0]).all():
            raise InputError(
                f"Target {j} (counted from 0) has one class only in these rows; there is nothing "
                "to predict."
            )
