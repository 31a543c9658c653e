"""The paper's models on its tables: what is told of test rows, how it is scored, and the run."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import pytest
from jaxtyping import Array, Key
from scipy.special import logsumexp

from hhvaem.datasets import Dataset
from hhvaem.encoding import Cells
from hhvaem.errors import InputError
from hhvaem.marginals import Outputs
from hhvaem.model import Model, Row
from hhvaem.objectives import Sampler
from hhvaem.paper import tables
from hhvaem.paper.collection import add_run, missing_folds, place, read_run
from hhvaem.paper.evaluation import (
    Told,
    Weights,
    _log_joint,
    _shifted,
    _weighted,
    class_weights,
    look,
    weigh,
)
from hhvaem.paper.folds import PUBLISHED, Fold
from hhvaem.paper.records import versions
from hhvaem.paper.scoring import score
from hhvaem.paper.testing import in_parts, score_annealed, some_rows
from hhvaem.posterior import How, Tuned, draw
from hhvaem.schema import Kind

HOW = How("encoder", chains=3, kept=1)
SHORT = dataclasses.replace(PUBLISHED["diabetes"], marginal_steps=60, steps=80, hmc_steps=20)


def made_up() -> Dataset:
    """Make a complete table of two numbers, two levels, three levels, and a number to predict."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=200)
    b, c, d = a + rng.normal(size=200), rng.normal(size=200) < a - 1, np.digitize(a, [-1, 0.5])
    table = pa.table({"a": a, "b": b, "sex": c, "grade": d, "y": np.exp(a + 0.3 * b)})
    kinds: dict[str, Kind] = {
        "a": "real", "b": "real", "sex": "binary", "grade": "categorical", "y": "positive"
    }  # fmt: skip
    return Dataset("made up", table, kinds, ("y",))


@pytest.fixture(scope="module")
def prepared() -> tables.Prepared:
    return tables.prepare(made_up(), [0, 1], SHORT)


@pytest.fixture(scope="module")
def run(prepared: tables.Prepared) -> dict[str, Any]:
    return tables.run(prepared, "HH-VAEM", say=print)


@pytest.fixture(scope="module")
def untrained(prepared: tables.Prepared) -> tuple[Model, Sampler]:
    settings = prepared.published.settings("gaussian")
    keys = jax.random.split(jax.random.key(5), 2)
    states = tables.train.untrained(prepared.columns, (3, 2), settings, hidden=8, keys=keys)
    return states.model, states.sampler


def first(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf[0], tree)


@pytest.mark.slow
def test_what_is_told_is_the_published_formulas(
    prepared: tables.Prepared, untrained: tuple[Model, Sampler]
) -> None:
    """One draw after the other, in plain sums."""
    fold = prepared.folds[0]
    models, samplers = untrained
    shown = np.asarray(fold.test.mask).sum(1)
    chosen = np.flatnonzero((shown > 0) & (shown < 4))[:2]
    some = jax.tree.map(lambda leaf: leaf[chosen], fold.test)
    weights = class_weights(fold, weighted_target=False)
    keys = jax.random.split(jax.random.key(1), (2, 2))
    both: tuple[Row, Weights] = jax.tree.map(lambda leaf: jnp.stack([leaf] * 2), (some, weights))
    told = first(look(models, samplers, *both, keys, HOW))
    model = first(models)
    sex = [column.name for column in fold.inputs.columns].index("sex")
    weight = float(weights.cells[sex])
    assert weight != 1

    @eqx.filter_jit
    def by_draw(row: Row, key: Key[Array, ""]) -> tuple[Array, Array, Array, Array]:
        drawn = draw(model, first(samplers), model.see(row), HOW, key=jax.random.split(key)[0])

        def one(position: Array) -> tuple[Array, Array, Array, Array]:
            h = model.hierarchy.bottom(position)
            z = model.decoder(h)
            return (
                model.marginals.log_prob_given_z(z, row.cells),
                model.marginals.outputs(z).single[sex],
                model.marginals.log_prob(z, model.log_noise, row.cells),
                model.targets.log_prob(
                    model.predict(h, z, row), model.target_log_noise, row.target
                ).sum(),
            )

        return jax.vmap(one)(drawn.positions[:, 0])

    for i in range(2):
        row = jax.tree.map(lambda leaf, i=i: leaf[i], some)
        at_mean, odds, each, target = (
            np.array(part, np.float64) for part in by_draw(row, keys[0, i])
        )
        odds += np.log(weight)
        level = float(row.cells.point[sex])
        at_mean[:, sex] = np.where(
            level == 1, -weight * np.log1p(np.exp(-odds)), -np.log1p(np.exp(odds))
        )
        hidden, k = ~np.asarray(row.mask), len(each)

        def score_of(values: Any, k: int = k) -> Any:
            return np.log(k) - logsumexp(values, axis=0)

        assert told.missing[i] == pytest.approx(score_of(at_mean[:, hidden].mean(1)), rel=1e-4)
        assert told.observed[i] == pytest.approx(score_of(at_mean[:, ~hidden].mean(1)), rel=1e-4)
        assert told.target[i] == pytest.approx(score_of(target), rel=1e-4)
        np.testing.assert_allclose(told.published_cells[i], score_of(at_mean), rtol=1e-4)
        # A few values of z stand for all.
        np.testing.assert_allclose(-told.log_cells[i], score_of(each), rtol=0.05, atol=0.02)


def test_the_best_constant_scores_what_weights_make_of_it() -> None:
    """Of a share p of second levels, 2 (1 - p) log 2: the log odds are shifted to 0."""
    share = 0.1
    weights = jnp.array([(1 - share) / share])
    outputs = Outputs(jnp.array([np.log(share / (1 - share))]), jnp.zeros((0, 1)))
    shifted = _shifted((2,), outputs, weights)

    def log_prob(level: float) -> float:
        cell = jnp.array([level])
        return float(_weighted((2,), shifted, weights, jnp.zeros(1), Cells(cell, cell, cell))[0])

    found = -(share * log_prob(1.0) + (1 - share) * log_prob(0.0))
    assert found == pytest.approx(2 * (1 - share) * np.log(2), rel=1e-5)


def all_knowing(fold: Fold) -> Told:
    """Tell of each cell what it is, with certainty."""
    levels, point = fold.inputs.encoding.levels, np.asarray(fold.test.cells.point)
    target = np.asarray(fold.test.target.point)
    numbers = np.array(levels) == 1
    shares = [
        point[:, :2],
        2 * point[:, 2:3] - 1,
        np.log(np.eye(3)[point[:, 3].astype(int)] + 1e-9),
    ]
    nothing = np.zeros(len(point))
    return Told(
        nothing - 0.2, nothing - 0.1, nothing + 0.3, np.where(numbers, -0.2, 0.0 * point),
        np.full_like(point, 0.5), np.full_like(target, 0.7), nothing,
        np.concatenate(shares, axis=1), target, np.repeat(target[:, None], 9, axis=1),
        np.repeat(point[:, None], 9, axis=1), np.repeat(target[:, None], 9, axis=1), nothing + 0.9,
    )  # fmt: skip


def test_all_knowing_models_make_no_errors(prepared: tables.Prepared) -> None:
    fold = prepared.folds[0]
    found = score(fold, all_knowing(fold))
    for name in ("paper_rmse_missing", "rmse_missing", "crps", "energy_score", "target_crps"):
        assert found[name] == pytest.approx(0, abs=1e-5), name
    assert found["target_rmse"] == pytest.approx(0, abs=1e-3)
    assert found["paper_nll_missing"] == pytest.approx(-0.2)
    assert found["paper_nll_observed_bernoulli"] == 0
    assert found["paper_nll_observed_gaussian"] == pytest.approx(-0.2)
    assert found["log_score_cell"] == -0.5
    assert found["cells"] == (~np.asarray(fold.test.mask)).sum()
    # One standard deviation off in every hidden number.
    told = all_knowing(fold)
    off = np.array([1.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    found = score(fold, told._replace(guesses=told.guesses + off))
    assert found["paper_rmse_missing"] == pytest.approx(0.5, abs=1e-4)
    # The other of two levels, in every hidden cell.
    found = score(fold, told._replace(guesses=told.guesses * np.array([1, 1, -1, 1, 1, 1])))
    assert found["paper_rmse_missing"] == pytest.approx(0.25, abs=1e-4)


def test_rows_without_hidden_cells_count_nowhere(prepared: tables.Prepared) -> None:
    fold = prepared.folds[0]
    told = all_knowing(fold)
    found = score(
        fold, told._replace(missing=np.where(np.arange(len(told.missing)) < 3, np.nan, 2.0))
    )
    assert found["paper_nll_missing"] == 2


@pytest.mark.slow
def test_records_have_what_tables_are_drawn_from(run: dict[str, Any]) -> None:
    ways = ("HH-VAEM", "HH-VAEM by the encoder", "HH-VAEM by the default sampler")
    assert [(record["model"], record["fold"]) for record in run["records"]] == [
        (way, fold) for way in ways for fold in (0, 1)
    ]
    for record in run["records"]:
        assert (record["table"], record["steps"]) == ("made up", SHORT.steps)
        for name in (
            "train_seconds", "paper_nll_missing", "paper_nll_target", "paper_nll_observed",
            "paper_rmse_missing", "log_score_cell", "crps", "energy_score", "coverage50",
            "coverage90", "target_rmse",
        ):  # fmt: skip
            assert np.isfinite(record[name]), name
        # Hardly trained, and yet not worse than knowing nothing by much.
        assert record["log_score_cell"] < 3
        assert record["rmse_missing"] < 1.3
        assert ("acceptance" in record) == (record["model"] != ways[1])
        assert ("log_score_annealed" in record) == (record["model"] == ways[0])


@pytest.mark.slow
def test_annealing_gives_the_probability_of_cells(prepared: tables.Prepared) -> None:
    """Of a model with one latent, whose probabilities are sums over a grid."""
    settings = prepared.published.settings("gaussian")
    keys = jax.random.split(jax.random.key(5), 2)
    models = tables.train.untrained(prepared.columns, (1,), settings, hidden=8, keys=keys).model
    rows = [jax.tree.map(lambda leaf: leaf[:3], fold.test) for fold in prepared.folds]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *rows)
    found = weigh(models, Tuned(jnp.zeros(2)), stacked, jax.random.split(jax.random.key(1), (2, 3)))
    grid = jnp.linspace(-9.0, 9.0, 2001)[:, None]
    model = first(models)
    for i in range(3):
        row = jax.tree.map(lambda leaf, i=i: leaf[i], rows[0])
        for mask, estimate in (
            (row.mask, found.observed[0, i]),
            (jnp.ones_like(row.mask), found.everything[0, i]),
        ):
            seen = model.see(row._replace(mask=mask))
            log_joint = jax.vmap(lambda at, seen=seen: _log_joint(model, seen, at))(grid)
            exact = logsumexp(np.asarray(log_joint, np.float64)) + np.log(18.0 / 2000)
            assert estimate == pytest.approx(exact, abs=0.02 + 4 * float(found.error[0, i]))
    assert (found.error < 0.1).all()


@pytest.mark.slow
def test_as_many_rows_are_annealed_as_are_asked_for(prepared: tables.Prepared) -> None:
    keys = jax.random.split(jax.random.key(5), 2)
    settings = prepared.published.settings("gaussian")
    models = tables.train.untrained(prepared.columns, (1,), settings, hidden=8, keys=keys).model
    tuned = Tuned(jnp.zeros(2))
    found = score_annealed(prepared.folds, models, tuned, rows=2, keys=keys, say=print)
    direct = weigh(models, tuned, *some_rows(prepared.folds, keys, np.arange(2)))
    for each, observed in zip(found, np.asarray(direct.observed), strict=True):
        assert each["bound_observed"] == pytest.approx(-observed.mean())


def test_quick_runs_anneal_few_rows_and_others_as_many_as_ever() -> None:
    assert tables._size("wine", quick=False) == (PUBLISHED["wine"], 1000, 32)
    short, draws, annealed_rows = tables._size("wine", quick=True)
    assert (short.steps, draws, annealed_rows) == (200, 50, 2)


@pytest.mark.slow
def test_a_fold_alone_comes_to_the_same(prepared: tables.Prepared, run: dict[str, Any]) -> None:
    alone = tables.run(tables.prepare(made_up(), [1], SHORT), "HH-VAEM", say=print)
    for record, beside in zip(alone["records"], run["records"][1::2], strict=True):
        assert record["model"] == beside["model"]
        for name, value in beside.items():
            if isinstance(value, float) and name != "train_seconds":
                assert record[name] == pytest.approx(value, rel=1e-3, abs=1e-3), name


def test_where_memory_is_short_fewer_rows_are_looked_at() -> None:
    said: list[str] = []
    asked = []

    def look_at(numbers: np.ndarray) -> dict[str, np.ndarray]:
        asked.append(len(numbers))
        if len(numbers) > 3:
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory")
        return {"number": np.stack([numbers, numbers])}

    found = in_parts(look_at, 11, 10, said.append)
    np.testing.assert_array_equal(found["number"], [np.arange(11)] * 2)
    assert asked == [10, 5, 3, 3, 3, 3]
    assert said[-1] == "Out of memory: going on with 3 rows at once."
    with pytest.raises(jax.errors.JaxRuntimeError, match="INTERNAL"):
        in_parts(lambda _: raise_(jax.errors.JaxRuntimeError("INTERNAL")), 4, 4, said.append)


def raise_(error: Exception) -> Any:
    raise error


def run_out_of_memory() -> None:
    """Ask for four petabytes."""
    jnp.zeros(2**50).block_until_ready()


@contextlib.contextmanager
def no_bar(steps: int) -> Iterator[Any]:
    yield lambda told: None


def test_where_memory_is_short_for_column_models_half_as_many_folds_are_tried(
    tmp_path: Path,
) -> None:
    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        if "columns of" in text:
            run_out_of_memory()

    with pytest.raises(jax.errors.JaxRuntimeError, match="RESOURCE_EXHAUSTED"):
        tables.complete("wine", ["VAEM"], range(5), tmp_path, quick=True, say=say, bar=no_bar)
    assert said == [
        "wine: columns of 5 folds", "Out of memory: going on with 3 folds at once.",
        "wine: columns of 3 folds", "Out of memory: going on with 2 folds at once.",
        "wine: columns of 2 folds", "Out of memory: going on with 1 fold at once.",
        "wine: columns of 1 fold",
    ]  # fmt: skip
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_where_memory_is_short_for_training_folds_are_trained_in_groups(tmp_path: Path) -> None:
    """Each leaves its folds before the next, and its columns are there for the next model."""
    path, said = place(tmp_path, "wine", "VAEM"), []
    still_missing = []

    @contextlib.contextmanager
    def bar(steps: int) -> Iterator[Any]:
        still_missing.append(missing_folds(read_run(path), range(2)))
        if said[-1] == "wine: MIWAEM":
            raise KeyboardInterrupt

        def tell(told: Any) -> None:
            if said[-2] == "wine: columns of 2 folds":
                run_out_of_memory()

        yield tell

    with pytest.raises(KeyboardInterrupt):
        tables.complete(
            "wine", ["VAEM", "MIWAEM"], range(2), tmp_path, quick=True, say=said.append, bar=bar
        )
    assert said == [
        "wine: columns of 2 folds", "wine: VAEM", "Out of memory: going on with 1 fold at once.",
        "wine: columns of 1 fold", "wine: VAEM", "wine: columns of 1 fold", "wine: VAEM",
        "wine: MIWAEM",
    ]  # fmt: skip
    assert still_missing == [[0, 1], [0, 1], [1], []]
    first, second = read_run(path)["records"]
    assert (first["fold"], second["fold"]) == (0, 1)
    assert first["log_score_cell"] != second["log_score_cell"]


def add_quick(folder: Path, model: str) -> None:
    """Leave a file of the first two folds of wine as `--quick` does."""
    published = dataclasses.replace(PUBLISHED["wine"], **tables.QUICK_STEPS)
    about = tables.identity("wine", model, published, as_published=True, draws=tables.QUICK_DRAWS)
    records = [{"fold": fold} for fold in range(2)]
    add_run(place(folder, "wine", model), about, {"versions": versions(), "records": records})


@pytest.mark.parametrize(
    ("model", "options", "expected"),
    [
        ("HH-VAEM", {}, r"settings\.steps=200, and this run has 20006;"),
        ("HH-VAEM", {"quick": True, "as_published": False}, "as_published=True, and this run has"),
        ("mean", {"as_published": False}, "as_published=True, and this run has False;"),
    ],
)
@pytest.mark.parametrize("folds", [2, 3])
def test_runs_that_differ_are_refused_before_the_work(
    tmp_path: Path, model: str, options: dict[str, Any], expected: str, folds: int
) -> None:
    """Also where no fold is missing, and before another model of the same call is run."""
    add_quick(tmp_path, model)
    path = place(tmp_path, "wine", model)
    before, said = path.read_bytes(), []
    with pytest.raises(InputError, match=f"wine-{model}.json was made with {expected}"):
        tables.complete(
            "wine", ["gaussian", model], range(folds), tmp_path, **options,
            say=said.append, bar=no_bar,
        )  # fmt: skip
    assert (said, path.read_bytes(), list(tmp_path.iterdir())) == ([], before, [path])


def run_mean(folder: Path, *, say: Callable[[str], None], as_published: bool = True) -> None:
    tables.complete(
        "wine", ["mean"], range(2), folder, as_published=as_published, say=say, bar=no_bar
    )


def test_of_two_commands_at_once_no_fold_counts_twice(tmp_path: Path) -> None:
    """While one is at work, another does the same, or the same with other kinds of columns."""
    path = place(tmp_path, "wine", "mean")
    run_mean(tmp_path, say=lambda _: run_mean(tmp_path, say=print))
    assert [record["fold"] for record in read_run(path)["records"]] == [0, 1]
    path.unlink()

    def meanwhile(_: str) -> None:
        run_mean(tmp_path, say=print, as_published=False)

    with pytest.raises(InputError, match="as_published=False, and this run has True;"):
        run_mean(tmp_path, say=meanwhile)
    assert read_run(path)["as_published"] is False


def test_what_is_there_is_not_run_again(tmp_path: Path) -> None:
    models = ["VAEM", "HH-VAEM", "HH-VAEM without inflation", "mean"]
    for model in models:
        add_quick(tmp_path, model)
    said: list[str] = []
    tables.complete("wine", models, range(2), tmp_path, quick=True, say=said.append, bar=no_bar)
    assert said == []


@pytest.mark.parametrize("name", tables.ABLATIONS)
def test_an_ablation_changes_one_thing(name: str) -> None:
    kind = tables.ABLATIONS[name]
    base = tables.MODELS[name.split()[0]]
    differences = [ours != theirs for ours, theirs in zip(kind, base, strict=True)]
    assert sum(differences) == 1
    settings = PUBLISHED["boston"].settings(kind.inference)
    for setting, value in kind.changes.items():
        assert getattr(settings, setting) != value
    assert PUBLISHED["boston"].three_layers == (10, 5, 2)


def test_models_are_the_paper_s() -> None:
    assert {name: (*kind,) for name, kind in tables.MODELS.items()} == {
        "VAEM": ("one_layer", "gaussian", {}, None),
        "MIWAEM": ("one_layer", "importance", {}, None),
        "H-VAEM": ("two_layers", "gaussian", {}, None),
        "HMC-VAEM": ("one_layer", "hmc", {}, None),
        "HH-VAEM": ("two_layers", "hmc", {}, None),
    }
