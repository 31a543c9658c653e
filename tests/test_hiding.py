"""Cells that are hidden on purpose: how many, which, and what is left."""

import numpy as np
import pytest

from hhvaem.errors import InputError
from hhvaem.hiding import KEPT_CELLS, MECHANISMS, Mechanism, hide
from hhvaem.schema import Column

COLUMNS = (
    Column("a", "real"),
    Column("b", "positive"),
    Column("c", "categorical", levels=("x", "y", "z")),
    Column("d", "ordinal", levels=("low", "mid", "top")),
    Column("e", "real"),
    Column("f", "count"),
)


def some_table(rows: int = 4000, known: float = 0.8) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    values = np.stack(
        [
            rng.normal(size=rows),
            np.exp(3 * rng.normal(size=rows)),
            rng.integers(3, size=rows),
            rng.integers(3, size=rows),
            1e9 * rng.normal(size=rows),
            rng.poisson(2.0, size=rows),
        ],
        axis=1,
    ).astype(float)
    mask = rng.random(values.shape) < known
    return np.where(mask, values, np.nan), mask


@pytest.mark.parametrize("how", MECHANISMS)
@pytest.mark.parametrize("known", [0.8, 0.3])
def test_only_known_cells_are_hidden_and_the_seed_says_which(how: Mechanism, known: float) -> None:
    values, mask = some_table(known=known)
    hidden = hide(COLUMNS, values, mask, how, seed=1)
    assert not hidden[~mask].any()
    np.testing.assert_array_equal(hidden, hide(COLUMNS, values, mask, how, seed=1))
    assert (hidden != hide(COLUMNS, values, mask, how, seed=2)).any()


@pytest.mark.parametrize("how", ["mcar", "mnar"])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_each_column_loses_the_share_that_was_asked_for(how: Mechanism, share: float) -> None:
    values, mask = some_table()
    hidden = hide(COLUMNS, values, mask, how, share=share)
    found = hidden.sum(0) / mask.sum(0)
    np.testing.assert_allclose(found, share, atol=0.04)


def test_where_values_decide_the_hidden_ones_are_larger() -> None:
    values, mask = some_table()
    hidden = hide(COLUMNS, values, mask, "mnar", share=0.3)
    shown = mask & ~hidden
    for j in (0, 1, 3, 4, 5):
        # By the probability that a hidden value exceeds a shown one.
        above = values[hidden[:, j], j][:, None] - values[shown[:, j], j]
        assert np.mean(above > 0) + np.mean(above == 0) / 2 > 0.7
    shares = [
        np.bincount(values[at[:, 2], 2].astype(int)) / at[:, 2].sum() for at in (hidden, shown)
    ]
    assert np.abs(shares[0] - shares[1]).max() > 0.2


def test_where_other_columns_decide_these_stay_known() -> None:
    values, mask = some_table(known=1.0)
    hidden = hide(COLUMNS, values, mask, "mar", share=0.3, seed=3)
    whole = ~hidden.any(0)
    assert whole.sum() == 2
    np.testing.assert_allclose(hidden.mean(0)[~whole], 0.3, atol=0.04)
    # What is hidden depends on those, and given them not on its own value.
    for j in np.flatnonzero(~whole):
        apart = [abs(_auc(values, hidden, j, k) - 0.5) for k in range(len(COLUMNS))]
        assert max(apart[k] for k in np.flatnonzero(whole)) > 0.15
        if COLUMNS[j].kind != "categorical":
            assert apart[j] < 0.05


def _auc(values: np.ndarray, hidden: np.ndarray, j: int, k: int) -> float:
    """The probability that column k is larger where column j is hidden than where it is not."""
    above = values[hidden[:, j], k][:, None] - values[~hidden[:, j], k]
    return float(np.mean(above > 0) + np.mean(above == 0) / 2)


def test_without_chance_cells_are_hidden_alike() -> None:
    values, mask = some_table(known=1.0)
    hidden = hide(COLUMNS, values, mask, "mcar", share=0.3)
    for j in (0, 1, 4):
        assert abs(_auc(values, hidden, j, j) - 0.5) < 0.04


def test_patterns_are_those_of_other_rows() -> None:
    values, mask = some_table(known=1.0)
    # Two columns are missing together, or not at all; the first and the last never.
    lost = np.random.default_rng(4).random(len(mask)) < 0.4
    mask[lost, 1] = mask[lost, 2] = False
    hidden = hide(COLUMNS, values, mask, "patterns")
    np.testing.assert_array_equal(hidden[:, 1], hidden[:, 2])
    assert not hidden[:, [0, 3, 4, 5]].any()
    assert abs(hidden[~lost, 1].mean() - 0.4) < 0.04


def test_a_column_keeps_what_can_be_learned_from() -> None:
    values, mask = some_table(rows=200)
    mask[:, 0] = False
    mask[:KEPT_CELLS, 0] = True
    values[:KEPT_CELLS, 0] = np.arange(KEPT_CELLS)
    values[:, 3], values[7, 3] = 0.0, 2.0
    mask[:, 3] = True
    for seed in range(20):
        hidden = hide(COLUMNS, values, mask, "mcar", share=0.6, seed=seed)
        assert not hidden[:, 0].any()
        assert np.unique(values[mask[:, 3] & ~hidden[:, 3], 3]).size == 2
        assert hidden[:, 1].any()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"how": "random"}, "how='random' is no way to hide cells; use 'mcar', 'mar'"),
        ({"share": 0.0}, "share=0.0 is no share"),
        ({"share": 1}, "share=1 is no share"),
        ({"share": float("nan")}, "share=nan is no share"),
        ({"share": "half"}, "share='half' is no share"),
        ({"share": True}, "share=True is no share"),
        ({"how": "patterns", "share": 0.2}, "`share` says nothing of `patterns`"),
        ({"how": "patterns"}, "The table has no holes to take patterns from"),
        ({"seed": -1}, "seed"),
    ],
)
@pytest.mark.usefixtures("as_users_have_it")
def test_what_cannot_be_done_is_said(arguments: dict[str, object], message: str) -> None:
    values, mask = some_table(known=1.0)
    with pytest.raises(InputError, match=message):
        hide(COLUMNS, values, mask, **arguments)  # type: ignore[arg-type]


@pytest.mark.usefixtures("as_users_have_it")
def test_shares_are_numbers_of_any_type() -> None:
    values, mask = some_table()
    hidden = hide(COLUMNS, values, mask, share=np.float32(0.25))  # type: ignore[arg-type]
    np.testing.assert_array_equal(hidden, hide(COLUMNS, values, mask, share=0.25))


@pytest.mark.parametrize("how", ["mcar", "mar", "mnar"])
@pytest.mark.parametrize("share", [1e-300, 5e-324])
def test_a_share_of_next_to_nothing(how: Mechanism, share: float) -> None:
    values, mask = some_table()
    with pytest.raises(InputError, match="it needs many more known cells"):
        hide(COLUMNS, values, mask, how, share=share)


@pytest.mark.parametrize("how", ["mcar", "mnar", "patterns"])
def test_too_small_a_table_says_how_many_cells_it_needs(how: Mechanism) -> None:
    values, mask = some_table(rows=8)
    mask[0, 0] = False
    with pytest.raises(InputError, match=r"too small to hide anything: of \d+ known cells \d"):
        hide(COLUMNS, values, mask, how)


def test_a_single_column_has_no_other_to_decide() -> None:
    values, mask = some_table()
    with pytest.raises(InputError, match="`mar` needs a second"):
        hide(COLUMNS[:1], values[:, :1], mask[:, :1], "mar")
