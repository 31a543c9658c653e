"""What the estimators promise, on the example table in every container and on ugly tables."""

import copy
import datetime as dt
import socket
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tables import cells, exact, is_hole, names, part, snapshot

from hhvaem import Imputer, load
from hhvaem.errors import InputError, TableWarning
from hhvaem.example import PAIN, SMOKER, clinic
from hhvaem.table import encode

# More than the rows of one compiled call, and not a multiple of them.
TABLE = clinic(rows=150)
WHOLE = ("age", "blood pressure", "visits")
POSITIVE = ("bmi", "glucose", "crp", "temperature")
# As many as the preset has chains: other numbers compile programs of their own.
DRAWS = 20
LEVELS = {"sex": {"female", "male"}, "smoker": set(SMOKER), "pain": set(PAIN)}

unnamed = pytest.mark.filterwarnings("ignore:X does not have valid feature names")
may_learn_nothing = pytest.mark.filterwarnings("ignore:The model predicts hidden cells no better")


def fitted(table: Any, **options: Any) -> Imputer:
    return Imputer(preset="fast", **{"random_state": 0, **options}).fit(table)


@pytest.fixture(scope="module")
def imputer() -> Imputer:
    return fitted(TABLE)


def as_pandas(table: pa.Table = TABLE) -> pd.DataFrame:
    frame = table.to_pandas().astype(
        {
            "age": "Int64",
            "sex": "string",
            "smoker": pd.CategoricalDtype(["never", "current", "former"]),
            "visits": "Int8",
            "diabetic": "boolean",
        }
    )
    frame["admitted"] = pd.to_datetime(frame["admitted"]).dt.as_unit("us")
    frame.index = pd.Index([f"patient {i % 100}" for i in range(len(frame))], name="who")
    frame.attrs["origin"] = "tests"
    return frame


def as_array(table: pa.Table = TABLE) -> np.ndarray:
    return table.to_pandas().to_numpy(dtype=object)


CONTAINERS: dict[str, Callable[[pa.Table], Any]] = {
    "pyarrow": lambda table: table.replace_schema_metadata({"origin": "tests"}),
    "pandas": as_pandas,
    "polars": lambda table: pl.from_arrow(table),
    "array": as_array,
}


def look(table: Any) -> Any:
    """Everything of a container but its cells."""
    if isinstance(table, pd.DataFrame):
        return table.dtypes.tolist(), table.index.tolist(), table.index.name, table.attrs
    if isinstance(table, pl.DataFrame):
        return table.schema
    return (table.schema, table.schema.metadata) if isinstance(table, pa.Table) else table.dtype


def assert_only_holes_differ(table: Any, full: Any) -> None:
    assert type(full) is type(table)
    assert names(full) == names(table)
    assert look(full) == look(table)
    for before, after in zip(snapshot(table), snapshot(full), strict=True):
        assert len(before) == len(after)
    for i in range(len(names(table))):
        for old, new in zip(cells(table, i), cells(full, i), strict=True):
            assert not is_hole(new) if is_hole(old) else exact(new) == exact(old)


def assert_legal(full: Any) -> None:
    """Look at cells of the clinic as a reader would."""
    for i, name in enumerate(TABLE.column_names):
        for value in cells(full, i):
            if name in LEVELS:
                assert value in LEVELS[name]
            elif name in WHOLE:
                assert value >= 0
                assert value == int(value)
            elif name in POSITIVE:
                assert 0 <= value < np.inf
            elif name == "diabetic":
                assert value in (True, False)
            else:
                assert isinstance(value, dt.date)
                assert dt.date(2020, 1, 1) < pd.Timestamp(value).date() < dt.date(2030, 1, 1)
                assert pd.Timestamp(value) == pd.Timestamp(value).normalize()


@unnamed
@pytest.mark.parametrize("container", CONTAINERS)
def test_only_holes_are_filled_and_all_else_is_kept(imputer: Imputer, container: str) -> None:
    table = CONTAINERS[container](TABLE)
    before = snapshot(table)
    for full in (imputer.transform(table), *imputer.sample(table, DRAWS)[:2]):
        assert_only_holes_differ(table, full)
        assert_legal(full)
    for q in (0.001, 0.999):
        found = imputer.quantile(table, q)
        assert type(found) is type(table)
        assert names(found) == names(table)
        plain = [name in ("sex", "smoker", "diabetic") for name in TABLE.column_names]
        for i, without_order in enumerate(plain):
            if without_order:
                assert all(map(is_hole, cells(found, i)))
            else:
                for old, new in zip(cells(table, i), cells(found, i), strict=True):
                    assert not is_hole(new) if is_hole(old) else exact(new) == exact(old)
    assert snapshot(table) == before


def numbers_of(imputer: Imputer, table: Any) -> np.ndarray:
    return encode(table, imputer.schema_).values


def as_numpy(table: Any) -> np.ndarray:
    """The numbers of a table without holes."""
    return np.stack([cells(table, i) for i in range(len(names(table)))], axis=1)


def answers(imputer: Imputer, table: Any) -> dict[str, np.ndarray]:
    """What can be asked of each row, rows first."""
    drawn = [numbers_of(imputer, each) for each in imputer.sample(table, DRAWS)[:3]]
    return {
        "transform": numbers_of(imputer, imputer.transform(table)),
        "quantile": numbers_of(imputer, imputer.quantile(table, 0.9)),
        "probabilities": as_numpy(imputer.probabilities(table, "smoker")),
        "ordered": as_numpy(imputer.probabilities(table, "pain")),
        "sample": np.stack(drawn, axis=1),
    }


@pytest.fixture(scope="module")
def told(imputer: Imputer) -> dict[str, np.ndarray]:
    """The answers for the whole table, of which all rows are unique."""
    values, mask = encode(TABLE, imputer.schema_)
    assert len(np.unique(np.where(mask, values, -1.0), axis=0)) == TABLE.num_rows
    return answers(imputer, TABLE)


def assert_same(found: dict[str, np.ndarray], told: dict[str, np.ndarray], rows: Any) -> None:
    for name, values in found.items():
        np.testing.assert_array_equal(values, told[name][rows], err_msg=name)


@pytest.mark.slow
def test_a_likelihood_does_not_depend_on_the_rows_beside_it(imputer: Imputer) -> None:
    some = [140, 3, 17]
    found = np.stack(imputer.log_likelihood(TABLE.take(some), return_error=True))
    everything = np.stack(imputer.log_likelihood(TABLE, return_error=True))
    np.testing.assert_array_equal(found, everything[:, some])


@pytest.mark.parametrize("rows", [[140], list(range(140, 150)), None], ids=str)
def test_a_row_does_not_depend_on_the_rows_beside_it(
    imputer: Imputer, told: dict[str, np.ndarray], rows: list[int] | None
) -> None:
    some = np.random.default_rng(0).permutation(150) if rows is None else np.array(rows)
    assert_same(answers(imputer, TABLE.take(some)), told, some)


@unnamed
@pytest.mark.parametrize("container", ["pandas", "polars", "array"])
def test_a_row_does_not_depend_on_its_container(
    imputer: Imputer, told: dict[str, np.ndarray], container: str
) -> None:
    rows = np.arange(20, 40)
    assert_same(answers(imputer, CONTAINERS[container](TABLE.take(rows))), told, rows)


def test_equal_rows_have_equal_answers_and_draws_of_their_own(
    imputer: Imputer, told: dict[str, np.ndarray]
) -> None:
    some = TABLE.take([3] * 5)
    found = answers(imputer, some)
    drawn = found.pop("sample")
    assert_same(found, told, [3] * 5)
    # The first is the one that it would be alone.
    np.testing.assert_array_equal(drawn[0], told["sample"][3])
    holes = ~encode(some, imputer.schema_).mask[0]
    assert len(np.unique(drawn[:, :, holes].reshape(15, -1), axis=0)) == 15
    # Said to be rows of a later part, they are others again.
    later = [numbers_of(imputer, each) for each in imputer.sample(some, DRAWS, offset=5)[:3]]
    both = np.concatenate([drawn, np.stack(later, axis=1)])
    assert len(np.unique(both[:, :, holes].reshape(30, -1), axis=0)) == 30


def emptied(table: pa.Table, rows: int) -> pa.Table:
    return pa.table({f.name: pa.nulls(rows, f.type) for f in table.schema})


def test_rows_without_a_cell_get_draws_of_what_the_table_looks_like(imputer: Imputer) -> None:
    count = 400
    empty = emptied(TABLE, count)
    filled = numbers_of(imputer, imputer.transform(empty))
    assert (filled == filled[0]).all()
    drawn = imputer.sample(empty, DRAWS)[0]
    assert_legal(drawn)
    values = numbers_of(imputer, drawn)
    assert len(np.unique(values, axis=0)) == count
    column = list(imputer.schema_.names).index("glucose")
    # An empty row's law has 60 parts here, and a mean over them is off by a part in their root.
    for q in (0.1, 0.5, 0.9):
        edge = numbers_of(imputer, imputer.quantile(empty, q))[0, column]
        share = (values[:, column] <= edge).mean()
        assert abs(share - q) < 4.5 * np.sqrt(q * (1 - q) * (1 / count + 1 / 20))
    # Columns go together in a draw: heavy people have more sugar in their blood.
    other = list(imputer.schema_.names).index("bmi")
    seen = encode(TABLE, imputer.schema_)
    both = seen.mask[:, [column, other]].all(1)
    truth = _ranked(seen.values[both][:, [column, other]])
    assert _ranked(values[:, [column, other]]) == pytest.approx(truth, abs=0.3)
    assert truth > 0.3


def _ranked(values: np.ndarray) -> float:
    ranks = values.argsort(0).argsort(0)
    return float(np.corrcoef(ranks.T)[0, 1])


def test_intervals_hold_what_is_filled_and_each_other(
    imputer: Imputer, told: dict[str, np.ndarray]
) -> None:
    low, up = (numbers_of(imputer, each) for each in imputer.interval(TABLE, level=0.98))
    narrow = [numbers_of(imputer, each) for each in imputer.interval(TABLE, level=0.5)]
    for end, q in zip(narrow, (0.25, 0.75), strict=True):
        np.testing.assert_array_equal(end, numbers_of(imputer, imputer.quantile(TABLE, q)))
    holes = ~encode(TABLE, imputer.schema_).mask
    for name in ("bmi", "glucose", "temperature", "blood pressure", "admitted"):
        j = imputer.schema_.names.index(name)
        at = np.flatnonzero(holes[:, j])
        filled = told["transform"][at, j]
        assert ((low[at, j] <= filled) & (filled <= up[at, j])).mean() > 0.97
        assert (low[at, j] <= narrow[0][at, j]).all()
        assert (narrow[1][at, j] <= up[at, j]).all()
        assert (narrow[0][at, j] < narrow[1][at, j]).all()


def test_draws_follow_the_laws_that_are_stated(imputer: Imputer) -> None:
    draws, table = DRAWS, clinic(rows=400, seed=1)
    drawn = imputer.sample(table, draws)
    stacked = np.stack([numbers_of(imputer, each) for each in drawn], axis=1)
    mask = encode(table, imputer.schema_).mask
    schema = imputer.schema_

    def assert_agrees(share: np.ndarray, stated: np.ndarray) -> None:
        # Both are means over at least so many chains.
        error = np.sqrt(np.maximum(stated * (1 - stated), 1e-4) * (1 / draws + 1 / draws))
        z = (share - stated) / error
        assert abs(z.mean()) * np.sqrt(z.size) < 4.5
        assert (z**2).mean() < 1 + 4.5 * np.sqrt(2 / z.size)

    for name in ("smoker", "pain"):
        column = schema.names.index(name)
        stated = as_numpy(imputer.probabilities(table, name))
        holes = ~mask[:, column]
        share = (stacked[..., column, None] == np.arange(stated.shape[1])).mean(1)
        for level in range(stated.shape[1]):
            assert_agrees(share[holes, level], stated[holes, level])
    for q in (0.1, 0.5, 0.9):
        edges = numbers_of(imputer, imputer.quantile(table, q))
        for name in ("glucose", "bmi", "blood pressure", "age", "crp", "visits", "pain"):
            column = schema.names.index(name)
            holes = ~mask[:, column]
            edge, values = edges[holes, column, None], stacked[holes][..., column]
            less, no_more = (values < edge).mean(1), (values <= edge).mean(1)
            # A value with a mass lies on both sides.
            assert_agrees(np.clip(q, less, no_more), np.full(less.shape, q))


def test_the_same_seed_gives_the_same_and_another_one_another(
    imputer: Imputer, told: dict[str, np.ndarray]
) -> None:
    again = fitted(TABLE.to_pandas())
    found = numbers_of(again, again.transform(TABLE))
    np.testing.assert_array_equal(found, told["transform"])
    for one, two in zip(
        jax.tree.leaves(imputer.fitted_.models), jax.tree.leaves(again.fitted_.models), strict=True
    ):
        np.testing.assert_array_equal(one, two)
    other = fitted(TABLE, random_state=1)
    assert (numbers_of(other, other.transform(TABLE)) != told["transform"]).any()
    assert imputer.fitted_.seed == again.fitted_.seed != other.fitted_.seed


def test_transform_neither_refits_nor_sends_anything(
    imputer: Imputer, told: dict[str, np.ndarray], monkeypatch: Any, tmp_path: Any
) -> None:
    def refuse(*args: Any) -> None:
        raise AssertionError("Something was to be sent.")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    before = [np.asarray(leaf) for leaf in jax.tree.leaves(imputer.fitted_.models)]
    # Another table, of other sizes and levels, and then the first one again.
    imputer.transform(clinic(rows=80, seed=9))
    after = [np.asarray(leaf) for leaf in jax.tree.leaves(imputer.fitted_.models)]
    assert all(np.array_equal(one, two) for one, two in zip(before, after, strict=True))
    imputer.save(tmp_path / "model.hhvaem")
    read = load(tmp_path / "model.hhvaem")
    found = numbers_of(read, read.transform(TABLE))
    np.testing.assert_array_equal(found, told["transform"])


def test_a_table_without_a_hole_comes_back_and_nothing_is_run(imputer: Imputer) -> None:
    full = imputer.transform(TABLE)
    # What has no model cannot run one.
    bare = copy.copy(imputer)
    bare.fitted_ = None
    for table in (full, full.slice(0, 0)):
        assert bare.transform(table).equals(table)
        assert all(each.equals(table) for each in bare.sample(table, draws=2))
        low, up = bare.interval(table)
        assert low.equals(up)
        assert low.column("age").equals(table.column("age"))
        shares = (
            as_numpy(bare.probabilities(table, "smoker")) if table.num_rows else np.ones((0, 3))
        )
        assert (shares.max(1) == 1).all()
        assert (shares.sum(1) == 1).all()


@pytest.mark.parametrize("container", ["pyarrow", "pandas", "polars"])
def test_a_table_without_rows(imputer: Imputer, container: str) -> None:
    table = CONTAINERS[container](TABLE.slice(0, 0))
    for full in (imputer.transform(table), *imputer.sample(table, 2), *imputer.interval(table)):
        assert type(full) is type(table)
        assert full.shape == (0, 12)
        assert names(full) == names(table)
    assert imputer.probabilities(table, "smoker").shape == (0, 3)
    assert imputer.log_likelihood(table).shape == (0,)


@pytest.mark.parametrize("container", ["pyarrow", "pandas", "polars"])
def test_a_column_that_is_all_missing_only_now(imputer: Imputer, container: str) -> None:
    rows = TABLE.slice(0, 20)
    for name in ("glucose", "smoker", "admitted", "visits"):
        i = rows.column_names.index(name)
        holes = rows.set_column(i, rows.field(i), pa.nulls(20, rows.field(i).type))
        table = CONTAINERS[container](holes)
        full = imputer.transform(table)
        assert_only_holes_differ(table, full)
        assert_legal(full)


@pytest.mark.parametrize("wanted", ["pandas", "polars"])
def test_levels_and_dates_in_another_container(imputer: Imputer, wanted: str) -> None:
    asked = copy.copy(imputer).set_output(transform=wanted)
    rows = as_pandas(TABLE.slice(0, 30))
    found, own = asked.transform(rows), imputer.transform(rows)
    assert isinstance(found, pd.DataFrame if wanted == "pandas" else pl.DataFrame)
    for name in own:
        assert list(found[name]) == list(own[name])


@st.composite
def clinics(draw: Any) -> tuple[pa.Table, str]:
    """Rows of the example with more holes, some of them more than once, in any container."""
    rows = draw(st.lists(st.integers(0, 149), min_size=1, max_size=12))
    table = TABLE.take(rows)
    for i, field in enumerate(table.schema):
        hidden = draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
        # Taken, and not made anew, as levels are kept that no row has.
        kept = pa.array([None if h else j for j, h in enumerate(hidden)], pa.int64())
        table = table.set_column(i, field, table.column(i).take(kept))
    return table, draw(st.sampled_from(sorted(CONTAINERS)))


@unnamed
@settings(max_examples=8, deadline=None)
@given(clinics())
def test_any_rows_of_the_table(imputer: Imputer, drawn: tuple[pa.Table, str]) -> None:
    table = CONTAINERS[drawn[1]](drawn[0])
    before = snapshot(table)
    full = imputer.transform(table)
    assert_only_holes_differ(table, full)
    assert_legal(full)
    first = imputer.transform(part(table, 0, 1))
    np.testing.assert_array_equal(numbers_of(imputer, first)[0], numbers_of(imputer, full)[0])
    low, up = (numbers_of(imputer, each) for each in imputer.interval(table, level=0.8))
    ordered = ~np.isnan(low)
    assert (low[ordered] <= up[ordered]).all()
    assert snapshot(table) == before


# Numbers: tables of four columns, which share their programs.


def factors(rows: int = 120, missing: float = 0.2, seed: int = 0) -> np.ndarray:
    """Four columns of two factors, one of them positive and one with heavy tails."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 2)) @ rng.normal(size=(2, 4)) + 0.3 * rng.normal(size=(rows, 4))
    x = np.stack([x[:, 0], np.exp(x[:, 1]), x[:, 2] ** 3, x[:, 3] - 5], axis=1)
    hidden = rng.random(x.shape) < missing
    # Three rows are seen whole, whatever is missing.
    hidden[:3] = False
    return np.where(hidden, np.nan, x)


def ugly() -> dict[str, np.ndarray]:
    outliers = factors()
    outliers[[3, 4, 5], [0, 1, 2]] = 1e12, 1e9, -1e300
    ties = factors()
    ties[:, 0] = np.round(ties[:, 0], 1)
    # More than half of the rows have the same value.
    ties[:, 1] = np.maximum(ties[:, 1], np.nanquantile(ties[:, 1], 0.6))
    return {
        "as it is": factors(),
        "1 % missing": factors(missing=0.01),
        "99 % missing": factors(rows=300, missing=0.99),
        "ten rows": factors(rows=10),
        "three rows": factors(rows=3),
        "heavy ties": ties,
        "rounded": np.round(factors()),
        "outliers": outliers,
        "tiny": factors() * 1e-9,
        "huge": factors() * 1e9,
        "next to nothing apart": 1e9 + factors() * 1e-3,
        "as large as floats": factors() * [1e307, 1.0, 1.0, 1.0],
    }


@may_learn_nothing
@pytest.mark.parametrize("name", ugly())
def test_ugly_tables_are_filled(name: str) -> None:
    table = ugly()[name]
    imputer = fitted(table)
    more = np.concatenate([table, np.full((2, 4), np.nan)])
    full = imputer.transform(more)
    assert_only_holes_differ(more, full)
    assert np.isfinite(full).all()
    low, up = imputer.interval(more)
    kept = ~np.isnan(low)
    assert (low[kept] <= up[kept]).all()
    draws = imputer.sample(more, DRAWS)
    assert np.isfinite(draws).all()
    assert np.isfinite(imputer.log_likelihood(more)).all()
    # Half of the law of every hole lies where the column's values are.
    middle, spread = imputer.quantile(more, 0.5), np.nanmax(table, 0) - np.nanmin(table, 0)
    kept = ~np.isnan(middle)
    assert (middle >= np.nanmin(table, 0) - 0.5 * spread)[kept].all()
    assert (middle <= np.nanmax(table, 0) + 0.5 * spread)[kept].all()


def test_outliers_do_not_move_the_middle() -> None:
    table = ugly()["outliers"]
    imputer = fitted(table)
    middle = imputer.quantile(table, 0.5)
    clean = np.nanquantile(table, [0.02, 0.98], axis=0)
    holes = np.isnan(table)
    for j in range(4):
        inside = (middle[:, j] >= clean[0, j]) & (middle[:, j] <= clean[1, j])
        assert inside[holes[:, j]].all()


def test_another_unit_is_the_same_model_and_the_same_answer_in_that_unit() -> None:
    table = factors()
    unit = np.array([2.0**30, 2.0**-30, 1.0, 2.0**-30])
    one, two = fitted(table), fitted(table * unit)
    for a, b in zip(*(jax.tree.leaves(each.fitted_.models) for each in (one, two)), strict=True):
        np.testing.assert_array_equal(a, b)
    # Chains have other noise, as rows have other numbers.
    first, second = one.transform(table), two.transform(table * unit) / unit
    off = ((first - second) / np.nanstd(table, 0))[np.isnan(table)]
    assert abs(off.mean()) < 0.03
    assert off.std() < 0.15
    error = one.log_likelihood(table, return_error=True)[1].max()
    moved = two.log_likelihood(table * unit) + (~np.isnan(table) * np.log(unit)).sum(1)
    assert np.abs(moved - one.log_likelihood(table)).max() < 7 * error


def test_what_is_not_modelled_is_named_and_what_is_no_table_refused() -> None:
    table = pd.DataFrame(factors()[:, :3], columns=list("abc"))
    table["same"] = np.where(np.arange(120) % 2, 3.5, np.nan)
    table["empty"] = np.nan
    imputer = fitted(table)
    full = imputer.transform(table)
    assert (full["same"] == 3.5).all()
    assert full["empty"].isna().all()
    report = repr(imputer)
    assert "constant: one distinct value, filled with it" in report
    assert "empty: no observed cell, passed through" in report
    assert [row[2] for row in imputer.schema_.rows()] == ["filled"] * 4 + ["passed through"]
    table["who"] = [f"patient {i}" for i in range(120)]
    with pytest.raises(InputError, match=r"'who' has 120 levels.*looks like an identifier"):
        fitted(table)
    named = fitted(table.assign(number=np.arange(120)), kinds={"who": "ignored"})
    assert "looks like a row number" in named.schema_["number"].note
    assert named.transform(table.assign(number=np.arange(120)))["who"].equals(table["who"])
    twice = table.drop(columns="who").set_axis(list("abcae"), axis=1)
    with pytest.raises(InputError, match="more than one column named 'a'"):
        fitted(twice)


@pytest.mark.parametrize("value", [1e4, 1e9, 1e300])
@pytest.mark.parametrize("posterior", ["hmc", "encoder"])
def test_a_value_beyond_all_others_leaves_its_row_sane(
    imputer: Imputer, posterior: str, value: float
) -> None:
    table = as_pandas(TABLE).head(8)
    table.loc[3, ["glucose", "age"]] = value, None
    filled = imputer.transform(table, posterior=posterior)
    assert filled.loc[3, "glucose"] == value
    known = as_pandas(TABLE)["age"].dropna()
    assert 0 <= filled.loc[3, "age"] <= 2 * known.max()
    assert np.isfinite(imputer.log_likelihood(table)).all()


def test_a_model_that_learned_nothing_says_so() -> None:
    noise = np.random.default_rng(3).normal(size=(500, 4))
    noise[np.random.default_rng(4).random(noise.shape) < 0.2] = np.nan
    with pytest.warns(TableWarning, match="no better than each column does by itself"):
        fitted(noise)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted(factors())


@pytest.mark.slow
def test_draws_take_turns_among_members() -> None:
    table = factors(rows=60)
    imputer = fitted(table, members=2)
    holes = np.isnan(table)

    def member(i: int) -> np.ndarray:
        alone = copy.copy(imputer)
        model = imputer.fitted_
        arrays, rest = eqx.partition((model.models, model.tuned), eqx.is_array)
        models, tuned = eqx.combine(jax.tree.map(lambda leaf: leaf[i : i + 1], arrays), rest)
        alone.fitted_ = replace(model, models=models, tuned=tuned)
        alone.members_ = 1
        return alone.transform(table, draws=400)[holes]

    one, two = member(0), member(1)
    drawn = np.stack(imputer.sample(table, draws=800))[:, holes]
    # In units of each cell's spread, as some are far wider than others.
    spread = drawn.std(0)
    apart, found = (one - two) / spread, (drawn[::2].mean(0) - drawn[1::2].mean(0)) / spread
    assert apart.std() > 0.2
    assert (apart * found).sum() / (apart**2).sum() == pytest.approx(1, abs=0.15)
    both = imputer.transform(table, draws=800)[holes]
    assert np.abs((both - (one + two) / 2) / spread).max() < 0.3


def test_a_folder_for_snapshots_changes_nothing_and_belongs_to_one_fit(tmp_path: Any) -> None:
    table = factors()
    plain = fitted(table)
    for _ in range(2):
        found = fitted(table, snapshots=tmp_path / "here")
        for one, two in zip(
            *(jax.tree.leaves(each.fitted_.models) for each in (plain, found)), strict=True
        ):
            np.testing.assert_array_equal(one, two)
    with pytest.raises(InputError, match="here"):
        fitted(factors(seed=1), snapshots=tmp_path / "here")


def test_nothing_to_model_needs_no_model() -> None:
    table = pd.DataFrame({"same": [1.0, np.nan, 1.0], "empty": [np.nan] * 3})
    imputer = fitted(table)
    assert imputer.transform(table)["same"].tolist() == [1.0, 1.0, 1.0]
    assert imputer.sample(table, 2)[1]["empty"].isna().all()
    assert imputer.log_likelihood(table).tolist() == [0.0, 0.0, 0.0]
    assert imputer.log_likelihood(table).tolist() == [0.0, 0.0, 0.0]
    low, up = imputer.interval(table)
    assert low.equals(up)
    assert "passed through" in imputer._repr_html_()
    with pytest.raises(InputError, match="there is no model"):
        imputer.diagnostics(table)
