"""`Imputer`: fill the holes of tables."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Shaped
from sklearn.base import TransformerMixin
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from hhvaem.assessment import COMPARED, Ways, assess
from hhvaem.checks import check_count
from hhvaem.containers import like, listed
from hhvaem.errors import InputError
from hhvaem.estimators.base import (
    Estimator,
    check_probability,
    interval_ends,
    seed_of,
    with_parameters,
)
from hhvaem.estimators.tables import new_table
from hhvaem.hiding import Mechanism
from hhvaem.inference import infer_schema
from hhvaem.posterior import Posterior
from hhvaem.preparing import Part
from hhvaem.schema import LEVELLED
from hhvaem.shifting import checked_shifts, shifted
from hhvaem.sources import is_source, source_of
from hhvaem.table import Encoded, encode, fill, holes, without_columns
from hhvaem.trust import Evaluation


@with_parameters
class Imputer(TransformerMixin, Estimator):
    """Fill the holes of tables.

    {parameters}

    Attributes
    ----------
    schema_
        What each column was taken for.
    fitted_
        The model behind; None where no column needs one.
    members_
        How many models there are.
    n_features_in_, feature_names_in_
        The number of columns, and their names where they have names.

    Examples
    --------
    >>> from hhvaem import Imputer
    >>> from hhvaem.example import clinic
    >>> table = clinic(rows=200)
    >>> imputer = Imputer(preset="fast", random_state=0).fit(table)
    >>> full = imputer.transform(table)
    >>> sum(column.null_count for column in full.columns)
    0
    """

    def fit(self, X: Any, y: Any = None) -> "Imputer":
        """Learn what the columns of a table have to do with each other.

        Parameters
        ----------
        X
            A pandas or polars DataFrame, a pyarrow Table or a 2-D array, with holes; or the path
            of a file or of a folder of files, or a pyarrow dataset, which may be larger than
            memory.
        y
            Not used.
        """
        del y
        if not is_source(X):
            self._fit(new_table(self, X), None)
            return self
        source = source_of(X)
        table = source.whole(self._at_once(len(source.types)))
        if table is None:
            self._fit_from(source, None)
        else:
            self._fit(new_table(self, table), None)
        return self

    def transform(
        self, X: Any, *, posterior: Posterior | None = None, draws: int | None = None
    ) -> Any:
        """Fill the holes: numbers with their predictive mean, levels with the most probable one.

        Parameters
        ----------
        X
            A table with the columns that `fit` saw.
        posterior
            `hmc`, `encoder` (cheaper) or `importance`; None for that of the fit.
        draws
            Chains of each row; None for those of the fit.

        Returns
        -------
        table
            Of the same kind, with the same index, names and dtypes; what was observed is
            untouched.
        """
        table, encoded = self._encoded(X)
        values = self._by_hole(table, encoded, posterior, draws, lambda law, *at: law.filled(*at))
        full = fill(table, self.schema_, values)
        wanted = _get_output_config("transform", self)["dense"]
        if isinstance(full, pa.Table) and wanted != "default":
            # scikit-learn, which does this for other containers, does not know this one.
            frame = nw.from_native(full, eager_only=True)
            return frame.to_pandas() if wanted == "pandas" else frame.to_polars()
        return full

    def sample(
        self,
        X: Any,
        draws: int = 20,
        *,
        posterior: Posterior | None = None,
        shift: Mapping[Hashable, Any] | None = None,
        offset: int = 0,
    ) -> list[Any]:
        """Fill the holes at random, several times: multiple imputation.

        Each of the tables is a draw of all holes together. Of several members, draw i is by
        member i modulo their number.

        Parameters
        ----------
        X
            A table with the columns that `fit` saw.
        draws
            How many tables.
        posterior
            As for `transform`.
        shift
            What if the holes of a column are not like what is known of it: what to add to its
            drawn values, by name. A number for numbers, a `timedelta` for dates; for levels a
            mapping of levels to what is added to their log odds. The other holes of a row are
            then drawn as if the shifted values had been observed.
        offset
            Of a table that is given in parts, the number of rows in the parts before: rows that
            are equal then have draws of their own in each part, too.

        Returns
        -------
        list of tables
        """
        check_count("draws", draws, 1)
        check_count("offset", offset, 0, most=2**62)
        table, (values, mask) = self._encoded(X)
        how = self._how(posterior, draws)
        shifts = {} if shift is None else checked_shifts(shift, self.schema_)
        filled = np.repeat(np.where(mask, values, 0.0)[None], draws, axis=0)
        rows = np.flatnonzero(~mask.all(1))
        if rows.size:
            model, open_ = self._model(), (values[rows], mask[rows])
            with self._on_device():
                for part, cells, _ in model.cases(*open_, how, offset):
                    filled[:, rows[part]] = cells[:draws]
                if shifts:
                    holes = Part(self.schema_.modelled, *open_)
                    filled[:, rows] = shifted(model, holes, filled[:, rows], shifts, how, offset)
        return [fill(table, self.schema_, each) for each in filled]

    def quantile(
        self,
        X: Any,
        q: float,
        *,
        posterior: Posterior | None = None,
        draws: int | None = None,
    ) -> Any:
        """Give for each cell the value that it does not exceed with probability q.

        Returns
        -------
        table
            Of the same kind. An observed cell is its own quantile; levels without order have
            none, and their cells are missing.
        """
        check_probability("q", q)
        table, encoded = self._encoded(X)
        values = self._by_hole(
            table, encoded, posterior, draws, lambda law, *at: law.quantile(*at, q)
        )
        plain = [c.name for c in self.schema_ if c.kind in ("binary", "categorical")]
        place = {column.name: j for j, column in enumerate(self.schema_.modelled)}
        values[:, [place[name] for name in plain]] = 0.0
        return without_columns(fill(table, self.schema_, values), self.schema_, plain)

    def interval(
        self,
        X: Any,
        level: float = 0.9,
        *,
        posterior: Posterior | None = None,
        draws: int | None = None,
    ) -> tuple[Any, Any]:
        """Give for each cell the ends of the interval that holds it with probability `level`.

        Returns
        -------
        low, up
            Tables as `quantile` gives them.
        """
        low, up = interval_ends(level)
        return (
            self.quantile(X, low, posterior=posterior, draws=draws),
            self.quantile(X, up, posterior=posterior, draws=draws),
        )

    def probabilities(
        self,
        X: Any,
        column: Hashable,
        *,
        posterior: Posterior | None = None,
        draws: int | None = None,
    ) -> Any:
        """Give the probability of each level of a column in each row.

        Returns
        -------
        table
            Of the kind of `X`, with a column for each level; where the cell is observed, its
            level has probability 1.
        """
        table, (values, mask) = self._encoded(X)
        names = [c.name for c in self.schema_ if c.kind in LEVELLED]
        # As in a schema, where every name is a text.
        name = str(column)
        if name not in names:
            those = f"those are {listed(names)}" if names else "there is none"
            raise InputError(f"{column!r} is no column with levels; {those}.")
        how = self._how(posterior, draws)
        place = self.schema_.modelled.index(self.schema_[name])
        levels = self.schema_[name].levels
        shares = np.zeros((len(values), len(levels)))
        seen = mask[:, place]
        shares[seen, values[seen, place].astype(int)] = 1.0
        rows = np.flatnonzero(~seen)
        if rows.size:
            with self._on_device():
                for part, law, _ in self._model().laws(values[rows], mask[rows], how):
                    shares[rows[part]] = law.shares(place, np.arange(len(rows[part])))
        return like(table, {str(level): shares[:, i] for i, level in enumerate(levels)})

    def evaluate(
        self,
        X: Any,
        *,
        how: Mechanism = "mcar",
        share: float | None = None,
        against: str | Sequence[str] = COMPARED,
        own_holes: int = 0,
    ) -> Evaluation:
        """Hide known cells of a table, fill them, and compare with what was there.

        A model with this estimator's settings is fitted to the table without those cells; the
        estimator itself stays as it is, fitted or not.

        Parameters
        ----------
        X
            A table, with or without holes.
        how
            How cells are hidden: `mcar`, wherever chance takes them; `mar`, more often where a
            third of the columns, which stay known, are high; `mnar`, more often the higher the
            hidden value itself is; `patterns`, where other rows of the table have their holes.
        share
            The share of the known cells that is hidden; 0.2 unless it is told.
        against
            What to compare with: `mean`, `gaussian` (a Gaussian copula), `ridge` and `missforest`
            (chains of regressions and of forests), and `miceforest` where it is installed; one
            name or several.
        own_holes
            For how many columns, those with the most holes first, to compute the energy-I-score,
            which tells how well the table's own holes are filled: each takes another fit.

        Returns
        -------
        Evaluation
            Its `repr` is a summary; `to_html()` writes a page, and `to_json()` all scores.

        Examples
        --------
        >>> from hhvaem import Imputer
        >>> from hhvaem.example import clinic
        >>> imputer = Imputer(preset="fast", random_state=0)
        >>> told = imputer.evaluate(clinic(rows=200), against=["mean", "gaussian"])
        >>> {each.column for each in told.verdicts} == set(clinic().column_names)
        True
        """
        plan, seed = self._plan(), seed_of(self.random_state)
        table = new_table(self, X)
        schema = infer_schema(table, self.kinds)
        encoded = encode(table, schema)
        ways = Ways(plan, self.max_seconds, lambda: self._bar(plan, len(encoded.values)))
        with self._on_device():
            return Evaluation(
                assess(
                    schema,
                    *encoded,
                    ways,
                    how=how,
                    share=share,
                    baselines=against,
                    with_own_holes=own_holes,
                    seed=seed,
                )
            )

    def get_feature_names_out(self, input_features: Any = None) -> Shaped[np.ndarray, " columns"]:
        """Give the names of the columns that `transform` returns: those of its input."""
        check_is_fitted(self, "schema_")
        if input_features is None:
            return np.array(self.schema_.names, dtype=object)
        # Columns of an array are called what the caller calls them.
        names: np.ndarray = _check_feature_names_in(self, input_features)
        return names

    def _by_hole(
        self,
        table: Any,
        encoded: Encoded,
        posterior: Posterior | None,
        draws: int | None,
        ask: Any,
    ) -> Float[np.ndarray, "rows columns"]:
        """Ask the law of each hole, and leave the observed cells as they are."""
        how = self._how(posterior, draws)
        values = np.where(encoded.mask, encoded.values, 0.0)
        modelled = [column.modelled for column in self.schema_]
        open_: Bool[np.ndarray, "rows columns"] = holes(table, self.schema_)[:, modelled]
        rows = np.flatnonzero(open_.any(1))
        if not rows.size:
            return values
        with self._on_device():
            for part, law, _ in self._model().laws(encoded.values[rows], encoded.mask[rows], how):
                here = rows[part]
                for j in range(values.shape[1]):
                    at = np.flatnonzero(open_[here, j])
                    if at.size:
                        values[here[at], j] = ask(law, j, at)
        return values
