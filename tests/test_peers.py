import importlib.util
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from hhvaem.schema import Column

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def peers():
    """The script and its parts, each of which lies beside the modules that it imports."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        parts = ("peer_environments", "peer_tables", "peer_scores", "peer_page")
        found = {key: value for part in parts for key, value in vars(import_module(part)).items()}
        spec = importlib.util.spec_from_file_location("peers", BENCHMARKS / "peers.py")
        module = importlib.util.module_from_spec(spec)
        patch.setitem(sys.modules, "peers", module)
        spec.loader.exec_module(module)
        yield SimpleNamespace(**found | vars(module))


def record(imputer, score, *, table="t", protocol="in-sample", seed=0, role="verdict"):
    found = {"imputer": imputer, "table": table, "protocol": protocol, "seed": seed, "role": role}
    found |= {"rows": 20, "columns": 6, "timeout": False, "device": None}
    return found | dict.fromkeys(("score", "crps", "energy_distance"), score)


def test_energy_distance_of_one_column_is_the_square_of_scipys(peers):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=30), rng.normal(1, 2, size=50)
    found = peers.energy_distance(x[:, None], y[:, None])
    assert found == pytest.approx(stats.energy_distance(x, y) ** 2)


def test_energy_distance_of_points_is_twice_how_far_they_are_apart(peers):
    assert peers.energy_distance(np.zeros((1, 2)), np.array([[3.0, 4.0]])) == pytest.approx(10)


def test_levels_that_differ_are_one_apart(peers):
    column = Column("c", "categorical", levels=("a", "b", "c"))
    points = peers.features([column], np.array([[0.0], [2.0]]), np.zeros(1), np.ones(1))
    assert np.linalg.norm(points[0] - points[1]) == pytest.approx(1)


def test_checksum_tells_masks_apart(peers):
    mask = np.random.default_rng(0).random((7, 5)) < 0.5
    other = mask.copy()
    other[3, 2] ^= True
    assert peers.checksum(mask) == peers.checksum(mask.copy())
    assert len({peers.checksum(each) for each in (mask, other, mask.reshape(5, 7))}) == 3


def test_ranks_are_averaged_over_seeds_and_tables(peers):
    records = [
        record("mean", 1.0),
        record("knn", 2.0),
        record("mean", 2.0, seed=1),
        record("knn", 1.0, seed=1),
        record("mean", 2.0, table="u"),
        record("knn", 1.0, table="u"),
        # Of another role, and of a seed that one lacks.
        record("mean", 9.0, table="w", role="development"),
        record("knn", 1.0, table="w", role="development"),
        record("mean", 9.0, table="u", seed=1),
    ]
    found = peers.ranks(records, "score", "verdict")
    assert found["mean"] == (1.75, pytest.approx(0.25), 2)
    assert found["knn"] == (1.25, pytest.approx(0.25), 2)


def test_who_fails_is_last_and_who_cannot_take_part_is_not_ranked(peers):
    records = [
        record("mean", 1.0),
        record("knn", None),
        record("hyperimpute", None),
        record("mean", 1.0, protocol="train-test"),
        record("knn", 2.0, protocol="train-test"),
    ]
    found = peers.ranks(records, "score", "verdict")
    assert [found[name].mean for name in ("mean", "knn", "hyperimpute")] == [1.0, 2.25, 2.5]
    assert found["hyperimpute"].pairs == 1
    assert peers.ranks(records, "crps", "verdict") == {}


def test_who_has_run_on_few_tables_is_not_ranked(peers):
    records = [record("hhvaem", 1.0, table=table) for table in "tuvw"]
    records += [record("mean", 2.0, table=table) for table in "tu"]
    records += [record("knn", 2.0, table="t")]
    # Who cannot take part in a protocol is not asked for it.
    records += [record("hhvaem", 1.0, table="t", protocol="train-test")]
    records += [record("hyperimpute", 3.0, table=table) for table in "vw"]
    assert peers.often(records) == ["hhvaem", "hyperimpute"]
    said = peers.rank_block(records)
    assert "| **hhvaem** | 1.0 ± 0.0 (3) |" in said
    assert "| hyperimpute | 2.0 ± 0.0 (2) |" in said
    assert "Not ranked, as they have run on too few: mean, knn." in said


def test_who_is_alone_is_not_the_best(peers):
    records = [record("mean", 1.0), record("knn", 2.0), record("mean", 1.0, table="u")]
    said = peers.score_block(records)
    assert "| t (v) | **1.000** | 2.000 |" in said
    assert "| u (v) | 1.000 |  |" in said


def test_who_was_not_measured_has_no_column_of_costs(peers):
    records = [
        record("hhvaem", 1.0) | {"seconds": None, "peak_mb": None},
        record("mean", 1.0) | {"seconds": 2.0, "peak_mb": None},
    ]
    said = peers.cost_block(records)
    assert "| table | mean |" in said
    assert "hhvaem |" not in said


def test_duels_are_by_seeds_that_both_have(peers):
    records = [
        record("hhvaem", 1.0),
        record("mean", 2.0),
        # Of a seed that one lacks.
        record("hhvaem", 90.0, seed=1),
        record("hhvaem", 3.0, table="u"),
        record("mean", 2.0, table="u"),
        record("hhvaem", 1.0, table="v"),
        record("mean", None, table="v"),
    ]
    assert peers.duel(records, "mean", "score") == "better on 1 of 2, 1.00 of theirs"
    assert peers.duel(records, "knn", "score") == ""


def test_tables_are_kept_as_they_were_read(peers, tmp_path, monkeypatch):
    from peer_tables import read

    monkeypatch.setattr("peer_tables.ENVIRONMENTS", tmp_path)
    first, again = read("iris", 100), read("iris", 100)
    assert (tmp_path / "tables" / "iris-100.npz").exists()
    assert first.schema == again.schema
    np.testing.assert_array_equal(first.values, again.values)
    assert (first.role, len(again.values)) == ("verdict", 100)


def test_illegal_fills_are_found(peers):
    columns = [Column("n", "count"), Column("c", "binary", levels=("f", "m"))]
    draws = np.array([[[1.0, 0.0], [-1.0, 2.0]], [[1.5, 1.0], [np.nan, 0.5]]])
    found = peers.illegal(columns, draws, whole=True)
    assert found.tolist() == [[[False, False], [True, True]], [[True, False], [False, True]]]
    assert not peers.illegal(columns, draws, whole=False)[1, 0, 0]


def test_protocols_hide_the_same_cells_for_all(peers):
    table = peers.ugly("plain")
    for protocol in peers.HOW:
        one, two = (peers.task_of(table, protocol, 0) for _ in range(2))
        assert peers.checksum(one.hidden) == peers.checksum(two.hidden)
        shown = one.train if one.test is None else one.test
        assert np.isnan(shown[one.hidden]).all()
        assert not np.isnan(one.truth[one.hidden]).any()
    assert len(one.train) == 500
    split = peers.task_of(table, "train-test", 0)
    assert (len(split.train), len(split.test)) == (400, 100)


def test_records_are_kept_in_order_and_taken_up_again(peers, tmp_path):
    store = peers.Store(tmp_path / "peers.json")
    store.add(record("mean", 1.0, table="u"))
    store.add(record("mean", 2.0))
    store.skip("midas", "no environment")
    again = peers.Store(tmp_path / "peers.json")
    assert [each["table"] for each in again.results["records"]] == ["t", "u"]
    assert ("u", "in-sample", 0, "mean") in again
    assert again.results["skipped"] == [{"name": "midas", "reason": "no environment"}]
    again.skip("midas", None)
    assert again.results["skipped"] == []


def test_what_is_said_of_errors_has_no_paths(peers):
    said = (
        "Traceback\n  File '/a/b.py'\nFileNotFoundError: no '/some/where/x.csv', https://host/p\n"
    )
    assert peers.plain(said) == "FileNotFoundError: no '...', ..."
