"""The third stage, followed: rows that training never sees, pieces that change nothing."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import pytest
from commands import hhvaem, interrupted, refused

from hhvaem import train
from hhvaem.datasets import Dataset, load
from hhvaem.datasets.work import plan
from hhvaem.paper import curves, third_stage
from hhvaem.paper.evaluation import class_weights, look
from hhvaem.paper.folds import PUBLISHED, take_fold
from hhvaem.paper.records import to_json, versions
from hhvaem.paper.tables import QUICK_STEPS, SEED, Prepared
from hhvaem.posterior import How

SHORT = dataclasses.replace(
    PUBLISHED["yacht"], marginal_steps=20, steps=65, hmc_steps=25, warm_up=20, transitions=2
)
DRAWS = 6


def numbered(rows: int = 120) -> Dataset:
    """Make a table whose rows are known by their first number."""
    rng = np.random.default_rng(0)
    a = np.arange(rows) / rows
    table = pa.table({"a": a, "b": a + rng.normal(size=rows), "sex": a > 0.4, "y": 2 * a})
    return Dataset(
        "numbered", table, {"a": "real", "b": "real", "sex": "binary", "y": "real"}, ("y",)
    )


@pytest.fixture(scope="module")
def prepared() -> Prepared:
    return third_stage.prepare(numbered(), [0, 3], SHORT)


@pytest.fixture(scope="module")
def settings() -> train.Settings:
    return dataclasses.replace(SHORT.settings(), leapfrog=1, stein_rows=3, stein_chains=4)


@pytest.fixture(scope="module")
def data(prepared: Prepared) -> train.Data:
    return train.gather([fold.train for fold in prepared.folds])


@pytest.fixture(scope="module")
def start(prepared: Prepared, settings: train.Settings) -> train.State:
    keys = jax.random.split(jax.random.key(1))
    return train.untrained(prepared.columns, (3, 2), settings, hidden=8, keys=keys)


@pytest.fixture(scope="module")
def pieces(
    start: train.State, data: train.Data, settings: train.Settings
) -> list[tuple[train.State, train.History]]:
    return list(third_stage.in_pieces(start, data, settings))


@pytest.mark.parametrize("number", [0, 4, 9])
def test_no_row_is_trained_on_and_looked_at_and_none_is_a_test_row(number: int) -> None:
    dataset = numbered()
    work = plan(dataset, seed=SEED)
    whole = take_fold(dataset, work, number)
    fold = third_stage.held_back(whole, number)
    trained, looked = (np.rint(120 * part[:, 0]) for part in (fold.inputs.values, fold.truth))
    assert not set(trained) & set(looked)
    assert set(trained) | set(looked) == set(work.train_rows(number))
    assert len(looked) == len(fold.test.mask)
    assert abs(len(looked) - len(work.train_rows(number)) / 10) < 1
    # Inputs and targets are of the same rows, and the cells are those of the values.
    np.testing.assert_allclose(fold.target_truth[:, 0], 2 * fold.truth[:, 0])
    np.testing.assert_allclose(fold.targets.values[:, 0], 2 * fold.inputs.values[:, 0])
    encoding = fold.inputs.encoding
    for rows, values in ((fold.train, fold.inputs.values), (fold.test, fold.truth)):
        np.testing.assert_allclose(encoding.decode(np.asarray(rows.cells.point)), values, atol=1e-5)
    # Scales know nothing of the rows that are left out.
    np.testing.assert_allclose(np.asarray(fold.train.cells.point)[:, 1].mean(), 0, atol=1e-5)
    np.testing.assert_allclose(np.asarray(fold.train.cells.point)[:, 1].std(ddof=1), 1, rtol=1e-4)


def test_test_rows_make_no_difference() -> None:
    """A fold whose test rows are wiped out gives the same, to the last bit."""
    dataset = load("wine", as_published=True)
    fold = take_fold(dataset, plan(dataset, seed=SEED), 2)
    wiped = dataclasses.replace(
        fold,
        test=jax.tree.map(jnp.zeros_like, fold.test),
        truth=np.full_like(fold.truth, np.nan),
        target_truth=np.full_like(fold.target_truth, np.nan),
    )
    one, other = third_stage.held_back(fold, 2), third_stage.held_back(wiped, 2)
    assert eqx.tree_equal((one.train, one.test), (other.train, other.test))
    np.testing.assert_array_equal(one.truth, other.truth)
    np.testing.assert_array_equal(one.inputs.values, other.inputs.values)


def test_half_of_the_cells_and_all_targets_are_hidden() -> None:
    dataset = numbered(4000)
    work = plan(dataset, seed=SEED)
    first, second = (third_stage.held_back(take_fold(dataset, work, i), i).test for i in (0, 1))
    shown = np.asarray(first.mask)
    np.testing.assert_allclose(shown.mean(0), 0.5, atol=0.1)  # 360 rows: four standard errors
    assert not np.asarray(first.target_mask).any()
    assert not np.array_equal(shown, second.mask)


@pytest.mark.parametrize("table", PUBLISHED)
def test_about_twenty_pieces_each_of_whole_updates_of_the_inflation(table: str) -> None:
    settings = PUBLISHED[table].settings()
    ends = np.array(third_stage.ends(settings))
    assert (ends[0], ends[-1]) == (settings.second_stage, settings.steps)
    lengths = np.diff(ends)
    assert 18 <= len(lengths) <= 20
    assert len(set(lengths[:-1])) == 1
    assert lengths[0] % settings.stein_every == 0
    assert 0 < lengths[-1] <= lengths[0]


@pytest.mark.slow
def test_pieces_end_with_the_model_of_one_go(
    start: train.State,
    data: train.Data,
    settings: train.Settings,
    pieces: list[tuple[train.State, train.History]],
) -> None:
    whole, history = train.train(start, data, settings)
    assert len(pieces) == 4
    assert eqx.tree_equal(pieces[-1][0], whole)
    told = np.concatenate([piece.acceptance for _, piece in pieces], axis=1)
    np.testing.assert_array_equal(told, history.acceptance)
    assert np.isnan(pieces[0][1].acceptance).all()
    assert np.isfinite(pieces[1][1].acceptance).all()
    # The inflation has moved on the way, and only in the third stage.
    inflation = [np.asarray(states.sampler.log_inflation) for states, _ in pieces]
    assert (inflation[0] == 0).all()
    assert (inflation[1] != 0).all()


@pytest.mark.slow
def test_the_first_encoder_score_is_that_of_the_model_after_the_second_stage(
    start: train.State,
    data: train.Data,
    settings: train.Settings,
    prepared: Prepared,
    pieces: list[tuple[train.State, train.History]],
) -> None:
    found = third_stage.measure(prepared, pieces[0][0], DRAWS, print)
    after, _ = train.train(start, data, settings, until=settings.second_stage)
    for i, (number, fold) in enumerate(zip(prepared.numbers, prepared.folds, strict=True)):
        # Alone, by keys made one by one, and in plain means.
        alone = train.stack([train.unstack(after, i)])
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(SEED), 2), number)
        keys = jnp.stack([jax.random.fold_in(key, j) for j in range(len(fold.test.mask))])
        weights = class_weights(fold, weighted_target=False)
        rows: Any = jax.tree.map(lambda leaf: leaf[None], (fold.test, weights, keys))
        told = look(alone.model, alone.sampler, *rows, How("encoder", chains=DRAWS, kept=1))
        hidden = ~np.asarray(fold.test.mask)
        log_score, missing = -np.asarray(told.log_cells)[0][hidden], np.asarray(told.missing)[0]
        scores = {name: found["encoder"][name][i] for name in third_stage.SCORES}
        assert scores["log_score_cell"] == pytest.approx(log_score.mean(), rel=1e-4)
        assert scores["paper_nll_missing"] == pytest.approx(missing[hidden.any(1)].mean(), rel=1e-4)
    assert found["chains"]["log_score_cell"] != found["encoder"]["log_score_cell"]
    # What chains start with.
    np.testing.assert_array_equal(found["inflation"], np.ones((2, 2)))
    assert found["step_sizes"].shape == (2, 3)
    assert (np.diff(found["step_sizes"], axis=1) > 0).all()
    assert ((found["step_sizes"] > 0.04) & (found["step_sizes"] < 0.21)).all()


def made_up(models: tuple[str, ...] = curves.CHAINED, folds: int = 3) -> dict[str, Any]:
    """Make results as the experiment returns them."""
    rng = np.random.default_rng(0)
    steps = np.arange(0, 2001, 100)
    late, level = steps / 2000, rng.normal(0, 0.04, (folds, 1))
    found = {}
    for i, name in enumerate(models):
        layers = [10, 5][: 1 + (name == "HH-VAEM")]

        def score(drop: float, i: int = i) -> list[list[float]]:
            noise = rng.normal(0, 0.005, (folds, len(steps)))
            return (0.9 - 0.05 * i + level - drop * (1 - np.exp(-4 * late)) + noise).tolist()

        middle = 0.11 + 0.05 * (1 + i) * late + np.zeros((folds, 1))
        rise = 1 + (0.3 + 0.2 * np.arange(len(layers))) * late[:, None]
        found[name] = {
            "layers": layers,
            "settings": {"steps": 20_000, "hmc_steps": 2_000},
            "step": steps.tolist(),
            "acceptance": (0.95 - 0.1 * (1 + i) * late[1:] + level / 4).tolist(),
            "chains": {"log_score_cell": score(0.2), "paper_nll_missing": score(0.2)},
            "encoder": {"log_score_cell": score(0.12), "paper_nll_missing": score(0.12)},
            "step_sizes": (middle[..., None] * np.array([0.6, 1, 1.5])).tolist(),
            "inflation": (rise + level[..., None]).tolist(),
        }
    return {
        "table": "boston", "folds": list(range(folds)), "validation_rows": [45] * folds,
        "draws": 100, "models": found,
    }  # fmt: skip


def test_the_figure_is_drawn_from_the_file_alone(tmp_path: Path) -> None:
    results = json.loads(to_json(made_up()))
    figure = curves.draw(results)
    figure.savefig(tmp_path / "figure.png")
    scores, acceptance, sizes, inflation = figure.axes
    assert [len(panel.get_lines()) for panel in figure.axes] == [4, 2, 6, 4]
    assert {panel.get_xlabel() for panel in figure.axes} == {"steps of stage 3"}
    assert scores.get_ylabel() == "nats per hidden cell"
    title = figure.get_suptitle()
    assert "boston" in title
    assert "3 folds" in title
    ours = results["models"]["HMC-VAEM"]
    for line, way in zip(scores.get_lines()[:2], ("chains", "encoder"), strict=True):
        np.testing.assert_allclose(line.get_ydata(), np.mean(ours[way]["log_score_cell"], 0))
        assert tuple(line.get_xdata()) == tuple(range(0, 2001, 100))
    (line, _) = acceptance.get_lines()
    assert (line.get_xdata()[0], line.get_xdata()[-1]) == (50, 1950)
    np.testing.assert_allclose(line.get_ydata(), np.mean(ours["acceptance"], 0))
    for line, factor in zip(sizes.get_lines()[:3], (1, 0.6, 1.5), strict=True):
        expected = factor * np.array([0.11, 0.16])
        np.testing.assert_allclose(line.get_ydata()[[0, -1]], expected)
    theirs = np.mean(results["models"]["HH-VAEM"]["inflation"], 0)
    for line, layer in zip(inflation.get_lines()[1:3], range(2), strict=True):
        np.testing.assert_allclose(line.get_ydata(), theirs[:, layer])


def test_one_model_on_one_fold_is_drawn_as_well(tmp_path: Path) -> None:
    figure = curves.draw(made_up(("HMC-VAEM",), folds=1))
    figure.savefig(tmp_path / "figure.png")
    assert "1 fold, 45 validation rows" in figure.get_suptitle()
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert not any("layer" in label or "range" in label for label in labels)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--data", "bostom"), "There is no table 'bostom' in the paper; did you mean 'boston'?"),
        (("--data", "all"), "The curves are those of one table, not of 10; name one."),
        (
            ("--models", "VAEM"),
            "There is no model with chains 'VAEM' in the paper; did you mean 'HH-VAEM'?",
        ),
        (("--models", "none"), "No model with chains is named; there are 'HMC-VAEM', 'HH-VAEM'"),
    ],
)
def test_names_that_cannot_be_followed(
    tmp_path: Path, options: tuple[str, ...], expected: str
) -> None:
    assert refused("paper", "curves", "--out", tmp_path / "new", *options).startswith(expected)
    assert not (tmp_path / "new").exists()


def of_wine(**changes: Any) -> dict[str, Any]:
    """Make a file of the quick command, whose numbers are made up."""
    found = {}
    for model, layers in (("HMC-VAEM", 1), ("HH-VAEM", 2)):
        published = dataclasses.replace(PUBLISHED["wine"], **QUICK_STEPS)
        scores = dict.fromkeys(third_stage.SCORES, [[0.9, 0.8]] * 2)
        found[model] = {
            **third_stage.model_identity(published, model),
            "step": [0, 40], "acceptance": [[0.9]] * 2, "chains": scores, "encoder": scores,
            "step_sizes": [[[0.1, 0.2, 0.3]] * 2] * 2, "inflation": [[[1.0] * layers] * 2] * 2,
        }  # fmt: skip
    return {
        "table": "wine", "folds": [0, 1], "seed": SEED, "draws": curves.DRAWS,
        "marginal_steps": QUICK_STEPS["marginal_steps"], "validation_rows": [16, 16],
        "versions": versions(), "models": found, **changes,
    }  # fmt: skip


def test_models_that_are_in_the_file_are_not_run_again(tmp_path: Path) -> None:
    path = tmp_path / "numbers.json"
    path.write_text(json.dumps(of_wine()))
    before = path.stat().st_mtime_ns
    command = ("paper", "curves", "--data", "wine", "--quick", "--out", tmp_path)
    done = hhvaem(*command, "--results", path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[:2] == [
        f"wine: HMC-VAEM is in {path} already", f"wine: HH-VAEM is in {path} already"
    ]  # fmt: skip
    assert "columns of" not in done.stdout
    assert path.stat().st_mtime_ns == before
    assert (tmp_path / "curves.png").exists()


def thin(*names: str) -> dict[str, Any]:
    """Make a file of which something is left out."""
    whole = of_wine()
    inner = whole
    for name in names[:-1]:
        inner = inner[name]
    del inner[names[-1]]
    return whole


def with_acceptance(value: float) -> dict[str, Any]:
    """Make a file of which a number is another."""
    whole = of_wine()
    whole["models"]["HH-VAEM"]["acceptance"][1] = [value]
    return whole


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "is no file that `hhvaem paper curves` writes; move it away, or name another"),
        (b"\xff", "is no file that"),
        (b"[" * 200_000, "is no file that"),
        (b"[]", "is no file that"),
        (thin("versions"), "is no file that"),
        (thin("models"), "is no file that"),
        (thin("models", "HH-VAEM", "inflation"), "is no file that"),
        (thin("models", "HMC-VAEM", "chains", "log_score_cell"), "is no file that"),
        (of_wine(models={}), "is no file that"),
        (of_wine(models={"VAEM": {}}), "is no file that"),
        (of_wine(folds=[0]), "is no file that"),
        (of_wine(validation_rows=[16, float("inf")]), "is no file that"),
        (with_acceptance(float("nan")), "is no file that"),
        (with_acceptance(10**400), "is no file that"),
        (of_wine(versions={"hhvaem": "0.0.1"}), "was made by version 0.0.1 and this is"),
        (of_wine(table="boston"), "was made with table='boston', and this run has 'wine';"),
        (of_wine(seed=1), "was made with seed=1, and this run has 0;"),
        (of_wine(marginal_steps=1001), "was made with marginal_steps=1001, and this run has 100;"),
        ({"records": []}, "has results of another command, which would be lost; name another"),
    ],
)
def test_another_file_in_the_place_of_the_numbers_is_refused(
    tmp_path: Path, content: Any, expected: str
) -> None:
    path = tmp_path / "curves.json"
    there = content if isinstance(content, bytes) else json.dumps(content).encode()
    path.write_bytes(there)
    sentence = refused("paper", "curves", "--data", "wine", "--quick", "--out", tmp_path)
    assert sentence.startswith(f"{path} {expected}")
    assert (path.read_bytes(), list(tmp_path.iterdir())) == (there, [path])


def test_other_folds_or_steps_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "curves.json"
    path.write_text(json.dumps(of_wine()))
    command = ("paper", "curves", "--data", "wine", "--quick", "--out", tmp_path)
    expected = f"{path} was made with folds=[0, 1], and this run has [0];"
    assert refused(*command, "--splits", "1").startswith(expected)
    longer = of_wine()
    longer["models"]["HH-VAEM"]["settings"]["steps"] = 20_006
    path.write_text(json.dumps(longer))
    # Also where that model is not asked for: it would be drawn.
    sentence = refused(*command, "--models", "HMC-VAEM")
    assert sentence.startswith(f"{path} was made with settings.steps=20006, and this run has 200;")


@pytest.mark.slow
def test_the_quick_command(tmp_path: Path) -> None:
    """Wine, which comes with scikit-learn."""
    done = hhvaem("paper", "curves", "--data", "wine", "--quick", "--out", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "curves.png" in done.stdout
    found = json.loads((tmp_path / "curves.json").read_text())
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert (found["table"], found["folds"], found["draws"]) == ("wine", [0, 1], 100)
    assert (found["train_rows"], found["validation_rows"]) == ([144, 144], [16, 16])
    assert list(found["models"]) == ["HMC-VAEM", "HH-VAEM"]
    for layers, each in zip((1, 2), found["models"].values(), strict=True):
        assert each["step"] == [0, 10, 20, 30, 40]
        assert np.shape(each["acceptance"]) == (2, 4)
        assert np.shape(each["step_sizes"]) == (2, 5, 3)
        assert np.shape(each["inflation"]) == (2, 5, layers)
        assert (np.array(each["acceptance"]) > 0.5).all()
        for way in ("chains", "encoder"):
            for name in third_stage.SCORES:
                assert np.shape(each[way][name]) == (2, 5)
                assert np.isfinite(each[way][name]).all()
        # Hardly trained, but chains come nearer to the posterior than the encoder by itself.
        chains, encoder = (np.mean(each[way]["log_score_cell"], 0) for way in ("chains", "encoder"))
        assert (chains < encoder).all()


@pytest.mark.slow
def test_an_interrupted_command_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "curves.json"
    command = ("paper", "curves", "--data", "wine", "--quick", "--splits", "1", "--out", tmp_path)
    status, said = interrupted(*command, when=b"HH-VAEM")
    left = f"the same command goes on with what is not in {path} yet."
    assert (status, said) == (130, f"Stopped: {left}")
    assert [each.name for each in tmp_path.iterdir()] == ["curves.json"]
    first = json.loads(path.read_text())["models"]
    assert list(first) == ["HMC-VAEM"]
    done = hhvaem(*command)
    assert done.returncode == 0
    assert f"wine: HMC-VAEM is in {path} already" in done.stdout
    both = json.loads(path.read_text())["models"]
    assert list(both) == ["HMC-VAEM", "HH-VAEM"]
    assert both["HMC-VAEM"] == first["HMC-VAEM"]
