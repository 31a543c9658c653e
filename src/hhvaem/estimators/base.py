"""What `Imputer`, `Regressor` and `Classifier` have in common."""

import contextlib
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from jaxtyping import Float
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from hhvaem import fitting
from hhvaem.blocks import count_of, folder_for_blocks, in_memory, on_disk
from hhvaem.checks import check_count
from hhvaem.containers import like, listed, shown
from hhvaem.devices import on_device
from hhvaem.errors import InputError, TableWarning
from hhvaem.estimators.tables import known_table, remember_columns
from hhvaem.estimators.targets import Targets, copies
from hhvaem.fitting import Fitted
from hhvaem.inference import infer_schema
from hhvaem.posterior import POSTERIORS, How, Posterior
from hhvaem.preparing import Part
from hhvaem.presets import MARGINALS, PRESETS, Marginal, Plan
from hhvaem.progress import training_bar
from hhvaem.schema import Schema
from hhvaem.sources import FEWEST_HELD, HELD_CELLS, Source, survey
from hhvaem.steps import INFERENCES, THREE_STAGES, Inference
from hhvaem.table import Encoded, encode

C = TypeVar("C", bound=type)

# Columns that the report of a fitted estimator names.
REPORTED = 60
# Notebooks put the text of a table's cells to the right.
REPORT = """<style>
.hhvaem-columns {{ overflow: auto; max-height: 32em; margin-top: 0.5em; }}
.hhvaem-columns th, .hhvaem-columns td {{
  text-align: left; white-space: nowrap; padding: 0.2em 1.2em 0.2em 0;
}}
</style><div class="hhvaem-columns">{table}{rest}</div>"""
# Chains of a row when it is asked how they behave, and in how many groups with one start each.
CHECKED, SUPERCHAINS = 64, 4
# Chains and temperatures of an estimate of the likelihood.
EVIDENCE = How("hmc", chains=32, transitions=30)

PARAMETERS = """Parameters
    ----------
    preset
        `default`; `paper`, the settings of the paper; or `fast`, which is for trying things out:
        most of its time is compiling.
    layers
        Sizes of the latent layers, data upwards, such as `(10, 5)`.
    inference
        How the model is trained: `gaussian` by the evidence lower bound, `importance` by the
        importance-weighted one, `hmc` by the first and then by chains, `likelihood` by the second
        and then by chains.
    kinds
        Kinds of columns to use instead of the inferred ones, by name.
    marginals
        Models of single columns: `gaussianised` or `vae`.
    members
        How many models to train. With more than one, draws also show what the table leaves open
        about the model; fewer train faster.
    max_steps, max_seconds
        When training ends at the latest; where it has two parts, as by default with fewer than
        10,000 rows, each has so many steps. With `max_seconds` how far it comes depends on the
        machine, and the same seed need not give the same model; on a CPU there may be fewer
        members, of which each is trained to its end if there is time for one.
    batch_size
        Rows of a training step.
    draws
        Chains of each row, behind everything that is computed from a fitted model.
    random_state
        Where all randomness comes from; None for a new seed in each fit.
    snapshots
        A folder from which an interrupted fit goes on: the same call on the same table.
    verbose
        1 shows a progress bar.
    device
        `cpu` or `gpu`, or `all` to divide rows among all devices there are; None for what JAX
        finds.
    rows_at_once
        Rows that training holds at once, 1,000 or more; None for as many as have a million
        cells. A table of more rows is trained on in blocks, drawn at random.

    Layers, inference, marginals, members, steps, batch size and draws are those of the preset where
    they are None.
"""


def with_parameters(cls: C) -> C:
    """Put the parameters that all estimators have into the docstring of one."""
    cls.__doc__ = (cls.__doc__ or "").replace("{parameters}", PARAMETERS.strip())
    return cls


class Estimator(BaseEstimator):
    """What the three have in common."""

    def __init__(
        self,
        *,
        preset: str = "default",
        layers: tuple[int, ...] | None = None,
        inference: Inference | None = None,
        kinds: Mapping[str, str] | None = None,
        marginals: Marginal | None = None,
        members: int | None = None,
        max_steps: int | None = None,
        max_seconds: float | None = None,
        batch_size: int | None = None,
        draws: int | None = None,
        random_state: Any = None,
        snapshots: str | os.PathLike[str] | None = None,
        verbose: int = 0,
        device: str | None = None,
        rows_at_once: int | None = None,
    ) -> None:
        self.preset = preset
        self.layers = layers
        self.inference = inference
        self.kinds = kinds
        self.marginals = marginals
        self.members = members
        self.max_steps = max_steps
        self.max_seconds = max_seconds
        self.batch_size = batch_size
        self.draws = draws
        self.random_state = random_state
        self.snapshots = snapshots
        self.verbose = verbose
        self.device = device
        self.rows_at_once = rows_at_once

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.non_deterministic = self.random_state is None
        return tags

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """Show the parameters, and what each column was taken for once there is a fit."""
        parameters: str = super().__repr__(N_CHAR_MAX)
        if not hasattr(self, "schema_"):
            return parameters
        first, rest = self._reported()
        return "\n".join([parameters, str(first), *([rest] if rest else [])])

    def _repr_html_inner(self) -> str:
        """Show in a notebook what `repr` does."""
        diagram: str = super()._repr_html_inner()
        if not hasattr(self, "schema_"):
            return diagram
        first, rest = self._reported()
        return diagram + REPORT.format(table=first._repr_html_(), rest=rest)

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**options)
        if "text/html" in bundle:
            bundle["text/html"] = self._repr_html_inner()
        return bundle

    def _reported(self) -> tuple[Schema, str]:
        """Give the columns that a report names, and a line about those that it does not."""
        more = len(self.schema_) - REPORTED
        rest = f"... and {more} more columns, all of them in schema_" if more > 0 else ""
        return replace(self.schema_, columns=self.schema_.columns[:REPORTED]), rest

    def _fit(self, table: Any, goal: Targets | None) -> None:
        plan, seed = self._plan(), self._seed()
        schema = replace(infer_schema(table, self.kinds), filled=goal is None)
        values, mask = encode(table, schema)
        inputs, targets = Part(schema.modelled, values, mask), None if goal is None else goal.part
        if goal is not None:
            _warn_of_copies(copies(inputs, goal))
        fitted = None
        if schema.modelled or goal is not None:
            at_once = self._at_once(len(schema))
            fit = partial(fitting.fit, inputs, targets)
            if len(values) > at_once:
                count = count_of(len(values), at_once)
                blocks = in_memory(inputs, targets, count=count, seed=seed)
                fit = partial(fitting.fit_blocks, blocks)
            fitted = self._trained(fit, plan, seed, len(values))
        self._remember(table, schema, plan, fitted)

    def _fit_from(self, source: Source, goal: Targets | None) -> None:
        """Fit to a table that is too large for memory, in two passes over its rows."""
        plan, seed = self._plan(), self._seed()
        names = () if goal is None else goal.schema.names
        found = survey(source, self.kinds, leave=names)
        schema = replace(found.schema, filled=goal is None)
        fitted = None
        if schema.modelled or goal is not None:
            with folder_for_blocks() as folder:
                blocks = on_disk(
                    schema.modelled,
                    () if goal is None else goal.part.columns,
                    (_numbers(chunk, schema, goal) for chunk in source.chunks()),
                    folder,
                    count=count_of(found.rows, self._at_once(len(schema))),
                    seed=seed,
                )
                if blocks.rows != found.rows:
                    raise InputError(
                        f"{source.name} had {found.rows} rows when it was read first, and "
                        f"{blocks.rows} when it was read again; fit a table that does not change."
                    )
                fit = partial(fitting.fit_blocks, blocks)
                fitted = self._trained(fit, plan, seed, found.rows)
        self._remember(source.types.empty_table().select(schema.names), schema, plan, fitted)

    def _trained(self, fit: Callable[..., Fitted], plan: Plan, seed: int, rows: int) -> Fitted:
        with self._on_device(), self._bar(plan, rows) as report:
            fitted = fit(
                plan,
                seed=seed,
                max_seconds=self.max_seconds,
                snapshots=None if self.snapshots is None else Path(self.snapshots),
                progress=report,
            )
        _warn_of_nothing_learned(fitted)
        return fitted

    def _seed(self) -> int:
        if self.snapshots is not None and self.random_state is None:
            raise InputError("With snapshots a fit needs a random_state, to be the same again.")
        return seed_of(self.random_state)

    def _at_once(self, columns: int) -> int:
        """Give how many rows training holds at once."""
        if self.rows_at_once is not None:
            return check_count("rows_at_once", self.rows_at_once, FEWEST_HELD)
        return max(FEWEST_HELD, HELD_CELLS // max(columns, 1))

    def _remember(self, table: Any, schema: Schema, plan: Plan, fitted: Fitted | None) -> None:
        """Take over a new fit, at its end: what fails on the way leaves the one before."""
        remember_columns(self, table)
        self.schema_: Schema = schema
        self.members_ = plan.members if fitted is None else fitted.members
        self.fitted_: Fitted | None = fitted

    def _plan(self) -> Plan:
        """Put what was asked for into the preset."""
        check_known("preset", self.preset, tuple(PRESETS))
        plan = PRESETS[self.preset]
        settings = plan.settings
        if self.inference is not None:
            check_known("inference", self.inference, INFERENCES)
            settings = replace(settings, inference=self.inference)
        if self.max_steps is not None:
            steps = check_count("max_steps", self.max_steps, 1)
            settings = replace(settings, steps=steps, hmc_steps=min(settings.hmc_steps, steps // 2))
        if self.batch_size is not None:
            settings = replace(settings, batch_size=check_count("batch_size", self.batch_size, 1))
        if self.marginals is not None:
            check_known("marginals", self.marginals, MARGINALS)
        if self.max_seconds is not None and not (
            isinstance(self.max_seconds, Real) and self.max_seconds >= 0
        ):
            raise InputError(
                f"max_seconds={shown(self.max_seconds)} is no time; give a number from 0."
            )
        if not isinstance(self.snapshots, str | os.PathLike | None):
            raise InputError(f"snapshots={self.snapshots!r} is no folder; give its path.")
        if not isinstance(self.verbose, Integral | np.bool_):
            raise InputError(f"verbose={shown(self.verbose)} must be 0, or 1 for a progress bar.")
        how = plan.how
        if self.preset == "paper" and settings.inference not in THREE_STAGES:
            how = replace(
                how,
                posterior="importance" if settings.inference == "importance" else "encoder",
            )
        if self.draws is not None:
            how = replace(how, chains=check_count("draws", self.draws, 1))
        return replace(
            plan,
            layers=plan.layers if self.layers is None else checked_layers(self.layers),
            marginals=self.marginals or plan.marginals,
            members=plan.members
            if self.members is None
            else check_count("members", self.members, 1),
            settings=settings,
            how=how,
        )

    def _how(self, posterior: Posterior | None, draws: int | None) -> How:
        """Say how to draw: as the fit was asked to, or otherwise in this call."""
        # Arguments are checked also where no column needs a model.
        how = (self._plan() if self.fitted_ is None else self.fitted_.plan).how
        if posterior is not None:
            check_known("posterior", posterior, POSTERIORS)
            how = replace(how, posterior=posterior)
        count = how.chains if draws is None else check_count("draws", draws, 1)
        return replace(how, chains=-(-count // self.members_))

    def _model(self) -> Fitted:
        # No property: notebooks look at all of those, and this one may refuse.
        if self.fitted_ is None:
            raise InputError("All columns are constant, empty or ignored; there is no model.")
        return self.fitted_

    def _encoded(self, X: Any) -> tuple[Any, Encoded]:
        check_is_fitted(self, "schema_")
        table = known_table(self, X)
        return table, encode(table, self.schema_)

    def _encoded_rows(self, X: Any) -> tuple[Any, Encoded]:
        """Refuse a table without rows, and otherwise do as `_encoded`."""
        table, encoded = self._encoded(X)
        if not len(encoded.values):
            raise InputError("The table has no rows; give at least one.")
        return table, encoded

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a file, whole or not at all; `hhvaem.load` reads it."""
        from hhvaem.saving import save  # which knows the classes made of this one

        check_is_fitted(self, "schema_")
        save(self, path)

    def log_likelihood(self, X: Any, *, return_error: bool = False) -> Any:
        """Give log p(observed cells) of each row.

        By annealed importance sampling, in the user's units: a value that has a mass (a level, a
        whole number, a value that many rows share) counts by its log mass, any other by its log
        density. A row without an observed cell has the log probability 0.

        Parameters
        ----------
        X
            A table.
        return_error
            Whether to give the standard error of each estimate, too.

        Returns
        -------
        array, or two
            One number for each row.
        """
        _, (values, mask) = self._encoded(X)
        found, error = np.zeros(len(values)), np.zeros(len(values))
        if self.schema_.modelled:
            with self._on_device():
                found, error = self._model().log_likelihood(values, mask, EVIDENCE)
        return (found, error) if return_error else found

    def diagnostics(self, X: Any) -> Any:
        """Say for each row how its chains behaved.

        Returns
        -------
        table
            Of the kind of `X`, with the mean `acceptance`, the share of `divergent` transitions,
            the nested R-hat (`rhat`; about 1.05 where the chains have forgotten their start, as
            few chains are compared) and the `movement` from the encoder's draw in its standard
            deviations (about 1.4 where they have). Of several members, the worst.
        """
        table, (values, mask) = self._encoded_rows(X)
        how = replace(self._how("hmc", None), chains=CHECKED, superchains=SUPERCHAINS, kept=1)
        with self._on_device():
            told = self._model().checked(values, mask, how)
        return like(table, told)

    def _on_device(self) -> contextlib.AbstractContextManager[None]:
        return on_device(self.device)

    @contextlib.contextmanager
    def _bar(self, plan: Plan, rows: int) -> Iterator[Any]:
        if not self.verbose:
            yield None
            return
        with training_bar(plan.settings.steps * (2 if plan.chooses(rows) else 1)) as report:
            yield report


def check_probability(name: str, value: Any) -> None:
    """Refuse what is no probability."""
    if not isinstance(value, Real) or not 0 < float(value) < 1:
        raise InputError(f"{name}={value!r} is no probability; give a number between 0 and 1.")


def interval_ends(level: Any) -> tuple[float, float]:
    """Give the probabilities at the ends of an interval, of which both sides leave out the same.

    Raises
    ------
    InputError
        Where the level is no probability, or its upper end could not be told from 1.
    """
    check_probability("level", level)
    low, up = (1 - float(level)) / 2, (1 + float(level)) / 2
    if up == 1:
        raise InputError(f"level={level!r} is too close to 1; give a smaller one.")
    return low, up


def seed_of(random_state: Any) -> int:
    """Give a seed for what scikit-learn takes as one."""
    try:
        return int(check_random_state(random_state).randint(2**31 - 1))
    except (ValueError, TypeError) as error:
        raise InputError(
            f"random_state={shown(random_state)} is no seed; give a whole number from 0 to "
            f"{2**32 - 1}, a numpy.random.RandomState or None."
        ) from error


def check_known(name: str, value: Any, known: Sequence[str]) -> None:
    """Refuse a word that is none of those known."""
    if not isinstance(value, str) or value not in known:
        raise InputError(f"{name}={shown(value)} is unknown; use {listed(known)}.")


def checked_layers(layers: Any) -> tuple[int, ...]:
    """Refuse what are no sizes of layers."""
    if isinstance(layers, tuple | list) and layers:
        with contextlib.suppress(InputError):
            return tuple(check_count("layers", size, 1) for size in layers)
    raise InputError(
        f"layers={layers!r} must be a tuple of whole numbers of at least 1, such as (10, 5)."
    )


def _numbers(
    chunk: pa.Table, schema: Schema, goal: Targets | None
) -> Float[np.ndarray, "rows columns"]:
    """Encode rows of a table in files, targets last."""
    values = encode(chunk.select(schema.names), schema).values
    if goal is None:
        return values
    targets = encode(chunk.select(goal.schema.names), goal.schema).values
    return np.concatenate([values, targets], axis=1)


def _warn_of_nothing_learned(fitted: Fitted) -> None:
    if np.mean(fitted.record["gain_per_hidden_cell"]) <= 0:
        warnings.warn(
            "The model predicts hidden cells no better than each column does by itself: the "
            "columns have nothing to do with each other, rows are too few to tell, or training was "
            "too short.",
            TableWarning,
            stacklevel=5,
        )


def _warn_of_copies(found: list[tuple[str, str]]) -> None:
    for column, target in found:
        warnings.warn(
            f"Column {column!r} of X equals the target {target!r} in all rows, so that there is "
            "nothing to learn but to copy it; leave it out.",
            TableWarning,
            stacklevel=5,
        )
