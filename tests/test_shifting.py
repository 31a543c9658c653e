"""Draws that are shifted on purpose, and what follows for the other holes of a row."""

import datetime as dt

import numpy as np
import pandas as pd
import pytest
from two_factors import ARRAY, FAST, NAMES

from hhvaem import Imputer, pool_fit
from hhvaem.errors import InputError
from hhvaem.schema import Column, Schema
from hhvaem.shifting import checked_shifts

DRAWS = 60


def some_table() -> pd.DataFrame:
    """Numbers that nearly follow from each other, and columns that follow from nothing."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(np.tile(ARRAY, (2, 1)), columns=NAMES)
    frame["shade"] = np.where(rng.random(len(frame)) < 0.3, "dark", "light")
    frame["visits"] = rng.poisson(2.0, len(frame)).astype(float)
    frame["day"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(
        rng.integers(300, size=len(frame)), "D"
    )
    frame.iloc[:40] = frame.iloc[:40].ffill().bfill()
    frame.loc[:9, "a"] = np.nan
    frame.loc[10:19, ["a", "b"]] = np.nan
    frame.loc[20:29, "shade"] = None
    frame.loc[30:34, "visits"] = np.nan
    frame.loc[35:39, "day"] = pd.NaT
    return frame


@pytest.fixture(scope="module")
def imputer() -> Imputer:
    return Imputer(members=2, **FAST).fit(some_table())


def drawn(
    imputer: Imputer, name: str, rows: slice, table: pd.DataFrame, **options: object
) -> np.ndarray:
    full = imputer.sample(table, DRAWS, **options)  # type: ignore[arg-type]
    return np.stack([each.loc[rows, name].to_numpy() for each in full])


def test_numbers_are_moved_and_all_else_stays(imputer: Imputer) -> None:
    table = some_table()
    before, after = (imputer.sample(table, 4, shift=shift) for shift in (None, {"a": 1.5}))
    for was, now in zip(before, after, strict=True):
        np.testing.assert_allclose(now.loc[:9, "a"], was.loc[:9, "a"] + 1.5)
        known = table.notna()
        pd.testing.assert_frame_equal(now.where(known), was.where(known))
        # Rows whose holes are of other columns have nothing to do with it.
        pd.testing.assert_frame_equal(now.loc[20:39], was.loc[20:39])
    again = imputer.sample(table, 4, shift={"a": 1.5})
    for one, other in zip(after, again, strict=True):
        pd.testing.assert_frame_equal(one, other)


def test_other_holes_are_drawn_as_if_the_shifted_value_were_known(imputer: Imputer) -> None:
    table, rows = some_table(), slice(10, 19)
    a, b = (drawn(imputer, name, rows, table, shift={"a": 2.0}) for name in ("a", "b"))
    told = table.copy()
    means = []
    for i in range(DRAWS):
        told.loc[rows, "a"] = a[i]
        full = imputer.sample(told, 4)
        means.append(np.mean([each.loc[rows, "b"].to_numpy() for each in full], axis=0))
    spread = b.std(0) / np.sqrt(DRAWS)
    away = (b.mean(0) - np.mean(means, axis=0)) / (1.5 * spread)
    assert np.abs(away).max() < 4
    plain = drawn(imputer, "b", rows, table)
    assert np.abs(b.mean(0) - plain.mean(0)).max() > 0.5


def test_log_odds_of_levels_are_moved(imputer: Imputer) -> None:
    table, rows = some_table(), slice(20, 29)
    shares = imputer.probabilities(table, "shade").loc[rows, "dark"].to_numpy()
    odds = shares / (1 - shares) * np.exp(1.2)
    dark = drawn(imputer, "shade", rows, table, shift={"shade": {"dark": 1.2}}) == "dark"
    expected = odds / (1 + odds)
    error = np.sqrt((expected * (1 - expected)).sum() / DRAWS)
    assert abs(dark.mean(0).sum() - expected.sum()) < 4 * error
    assert abs(dark.mean(0).sum() - shares.sum()) > 4 * error


def test_shifted_values_are_legal(imputer: Imputer) -> None:
    table = some_table()
    visits = drawn(imputer, "visits", slice(30, 34), table, shift={"visits": -1.3})
    assert (visits >= 0).all()
    assert (visits % 1 == 0).all()
    assert (visits == 0).any()
    days = {"day": dt.timedelta(days=1000)}
    moved = drawn(imputer, "day", slice(35, 39), table, shift=days)
    assert (pd.to_datetime(moved.ravel()) > pd.Timestamp("2026-01-01")).all()


def test_times_of_numpy_are_those_of_python() -> None:
    schema = Schema((Column("day", "datetime", "datetime"),))
    times = [dt.timedelta(days=-14), np.timedelta64(-2, "W"), np.timedelta64(-14 * 24, "h")]
    assert [checked_shifts({"day": time}, schema) for time in times] == [{0: -14 * 864e8}] * 3
    assert checked_shifts({"day": np.timedelta64(5_000, "ns")}, schema) == {0: 5.0}


def test_shifts_beyond_all_numbers(imputer: Imputer) -> None:
    table = some_table()
    visits = drawn(imputer, "visits", slice(30, 34), table, shift={"visits": 1e30})
    assert (visits == 2**53 - 1).all()
    odds = {"dark": -1e308, "light": 1e308}
    assert (drawn(imputer, "shade", slice(20, 29), table, shift={"shade": odds}) == "light").all()


def test_conclusions_follow_the_shift(imputer: Imputer) -> None:
    def mean(full: pd.DataFrame) -> tuple[float, float]:
        return float(full["a"].mean()), float(full["a"].var() / len(full))

    table = some_table()
    found = [
        pool_fit(imputer, table, mean, draws=4, shift={"a": by}).estimate for by in (-1.0, 0, 1.0)
    ]
    holes = table["a"].isna().mean()
    np.testing.assert_allclose(np.diff(found), holes, rtol=1e-5)


@pytest.mark.parametrize(
    ("shift", "message"),
    [
        (3.0, "shift=3.0 does not say what to shift"),
        ({"z": 1.0}, "There is no column 'z' whose holes could be shifted; there are 'a'|a,"),
        ({"a": "much"}, "Column 'a' holds numbers, which 'much' does not shift; give a number"),
        ({"a": float("nan")}, "Column 'a' holds numbers, which nan does not shift"),
        ({"a": True}, "Column 'a' holds numbers, which True does not shift"),
        ({"shade": 0.5}, r"Column 'shade' has levels.*such as \{'light': 0.5\}"),
        ({"shade": {"red": 0.5}}, "'red' is no level of 'shade'; those are"),
        ({"shade": {"dark": float("inf")}}, "log odds of 'dark' in 'shade' cannot be shifted"),
        ({"a": 10**400}, "Column 'a' holds numbers, which 1000.* does not shift"),
        ({"shade": {"dark": 10**400}}, "log odds of 'dark' in 'shade' cannot be shifted by 1000"),
        ({"day": dt.timedelta(days=999999999)}, "shifts beyond the first or the last date"),
        ({"day": np.timedelta64(2**62, "W")}, "shifts beyond the first or the last date"),
        ({"day": np.timedelta64("NaT")}, r"dates, which np.*NaT.* does not shift; give a datetime"),
        ({"day": np.timedelta64(5)}, r"dates, which np.*\(5\) does not shift; give a datetime"),
        ({"day": np.timedelta64(1, "Y")}, r"dates, which np.*\(1,'Y'\) does not shift"),
        ({"day": 3}, "Column 'day' holds dates, which 3 does not shift; give a datetime.timedelta"),
    ],
)
@pytest.mark.usefixtures("as_users_have_it")
def test_what_cannot_be_shifted_is_named(imputer: Imputer, shift: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        imputer.sample(some_table(), 2, shift=shift)  # type: ignore[arg-type]
