"""What cannot be trained on is refused before training starts."""

from numbers import Integral, Real
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Bool, Float

from hhvaem.containers import listed, shown
from hhvaem.errors import InputError
from hhvaem.held_out import Held
from hhvaem.steps import INFERENCES, THREE_STAGES, Data, Settings, State, init

# The greatest number of the device.
_MOST = float(np.finfo(np.float32).max)
# The least that each count may be.
_COUNTS = {
    "steps": 1, "hmc_steps": 0, "batch_size": 1, "warm_up": 0, "importance_samples": 1,
    "transitions": 1, "leapfrog": 1, "stein_every": 1, "stein_rows": 1, "stein_chains": 2,
    "patience": 0,
}  # fmt: skip


def check_training(
    states: State, data: Data, settings: Settings, held: Held | None, *, whole: bool = True
) -> None:
    """Refuse settings and tables that give no model; some of a `whole` table may lack columns.

    Raises
    ------
    InputError
        Where a setting is out of range, a table has too few rows, nothing observed, a cell that
        is not finite (hidden or not: gradients would be NaN), a column without an observed cell,
        or a target with one class; or where there is nothing to stop early by.
    """
    check_settings(settings)
    count = states.step.size if states.step.ndim == 1 else "no stacked"
    if count != data.rows.size:
        raise InputError(
            f"There are {count} models for {data.rows.size} tables; stack and gather as many."
        )
    models = states.model
    _check_start(states, settings)
    if settings.patience and held is None:
        raise InputError("Early stopping needs held-out cells: use hold_out, or set patience=0.")
    table = jax.tree.map(np.asarray, data.table)
    shown = (table.mask, table.target_mask)
    hidden = tuple(map(np.zeros_like, shown) if held is None else map(np.asarray, held))
    levels = (models.marginals.levels, () if models.targets is None else models.targets.levels)
    if [mask.shape for mask in hidden] != [mask.shape for mask in shown] or any(
        (one & other).any() for one, other in zip(hidden, shown, strict=True)
    ):
        raise InputError("The held-out cells are not those that the data leave out; use hold_out.")
    if tuple(mask.shape[2] for mask in shown) != tuple(map(len, levels)):
        raise InputError(
            f"The table has {shown[0].shape[2]} columns and {shown[1].shape[2]} targets, the model "
            f"{len(levels[0])} and {len(levels[1])}; give the columns that it was made for."
        )
    for i, rows in enumerate(np.asarray(data.rows).tolist()):
        if not any(mask[i, :rows].any() for mask in shown):
            raise InputError("No row has an observed cell; there is nothing to learn from.")
        if settings.batch_size > rows:
            raise InputError(
                f"batch_size={settings.batch_size} is more than the {rows} rows of the table; "
                "lower it."
            )
        if settings.patience and not any(mask[i, :rows].any() for mask in hidden):
            raise InputError("No cell is held out to stop early by; hold out more of them.")
        for j, (what, cells) in enumerate([("Column", table.cells), ("Target", table.target)]):
            # What is held out is scored, and part of the table.
            mask = (shown[j] | hidden[j])[i, :rows]
            own = len(levels[j])
            if what == "Column" and data.columns is not None:
                own = int(data.columns[i])
            parts = np.stack([part[i, :rows, :own] for part in cells])
            _check_columns(what, parts, mask[:, :own], levels[j][:own], whole=whole)


def _check_start(states: State, settings: Settings) -> None:
    """Refuse states that were started with settings of other shapes."""

    def one(leaf: Any) -> Any:
        return leaf[0] if eqx.is_array(leaf) else leaf

    def shapes(state: State) -> object:
        parts = eqx.filter(state[1:4], lambda leaf: hasattr(leaf, "shape"))
        return jax.tree.structure(parts), [leaf.shape for leaf in jax.tree.leaves(parts)]

    state = jax.tree.map(one, states)
    wanted = eqx.filter_eval_shape(init, state.model, settings, key=state.key)
    if shapes(wanted) != shapes(state):
        raise InputError("The models were started with other settings; give init these as well.")


def check_settings(settings: Settings) -> None:
    """Refuse settings out of range.

    Raises
    ------
    InputError
        Naming the setting.
    """
    if settings.inference not in INFERENCES:
        raise InputError(f"inference={settings.inference!r} is unknown; use {listed(INFERENCES)}.")
    for name, least in _COUNTS.items():
        check_count(name, getattr(settings, name), least)
    own = settings.learning_rate
    rates = {
        "learning_rate": own,
        "step_rate": own if settings.step_rate is None else settings.step_rate,
    }
    for name, rate in rates.items():
        if not _is(Real, rate) or not 0 < rate < _MOST:
            raise InputError(f"{name}={rate!r} must be a number above 0.")
    for name in ("inflation_rate", "weight_decay"):
        value = getattr(settings, name)
        if not _is(Real, value) or not 0 <= value < _MOST:
            raise InputError(f"{name}={value!r} must be 0 or a number above it.")
    for name in ("learned_noise", "one_step_size"):
        if not isinstance(getattr(settings, name), bool | np.bool_):
            raise InputError(f"{name}={getattr(settings, name)!r} must be True or False.")
    if settings.inference in THREE_STAGES and settings.hmc_steps > settings.steps:
        raise InputError(
            f"hmc_steps={settings.hmc_steps} is more than steps={settings.steps}, which counts "
            "all; lower it."
        )


def check_count(name: str, value: Any, least: int, most: int = 2**31 - 1) -> int:
    """Refuse what is no whole number, less than the least or more than the most.

    Raises
    ------
    InputError
        Naming what is counted.
    """
    if not _is(Integral, value) or value < least:
        raise InputError(f"{name}={shown(value)} must be a whole number of at least {least}.")
    if value > most:
        raise InputError(f"{name}={shown(value)} must be a whole number of at most {most}.")
    return int(value)


def _is(kind: type, value: object) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _check_columns(
    what: str,
    cells: Float[np.ndarray, "parts rows columns"],
    mask: Bool[np.ndarray, "rows columns"],
    levels: tuple[int, ...],
    *,
    whole: bool,
) -> None:
    finite = np.isfinite(cells).all(0)
    for j, count in enumerate(levels):
        if not finite[:, j].all():
            row = int(np.argmin(finite[:, j]))
            way_out = (
                "correct the value or leave it out"
                if mask[row, j]
                else "it is hidden, so make the data by gather, which clears such cells"
            )
            raise InputError(f"{what} {j} is not finite in row {row} (counted from 0); {way_out}.")
        low, high, seen = cells[:, mask[:, j], j]
        if (low > high).any() or (
            count > 1 and not np.isin(seen, np.arange(count, dtype=seen.dtype)).all()
        ):
            raise InputError(
                f"{what} {j} (counted from 0) has a cell that its law does not have: a level that "
                "does not exist, or an interval that ends before it starts; encode it again."
            )
        if not whole:
            continue
        if not seen.size:
            raise InputError(f"{what} {j} (counted from 0) has no observed cell; leave it out.")
        if what == "Target" and count > 1 and (seen == seen[0]).all():
            raise InputError(
                f"Target {j} (counted from 0) has one class only in these rows; there is nothing "
                "to predict."
            )
