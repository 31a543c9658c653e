"""The reparameterisation on trial: scores in closed form, coordinates, figure and command."""

import json
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import typer
from scipy import stats
from scipy.special import logsumexp
from targets import LinearGaussian
from typer.testing import CliRunner

from hhvaem import train
from hhvaem.cli.reparam import reparam as command
from hhvaem.encoding import Cells
from hhvaem.marginal_vae import WIDTH as MARGINAL_WIDTH
from hhvaem.marginal_vae import MarginalVAEs
from hhvaem.model import Model, Row
from hhvaem.networks import Dense
from hhvaem.objectives import Sampler
from hhvaem.paper import coordinates, reparam
from hhvaem.paper.folds import PUBLISHED
from hhvaem.paper.records import to_json

# A z around its mean, and a number around its z, each with the fixed variance of the paper.
Z_VARIANCE = X_VARIANCE = 0.1


def some_model(columns: int, layers: tuple[int, ...], *, reparameterised: bool = True) -> Model:
    """Make a model of numbers whose column decoders are the identity: a number is its z.

    All else is drawn by NumPy, as nothing is then compiled.
    """

    def init() -> Model:
        key = jax.random.key(0)
        vaes = MarginalVAEs.init((1,) * columns, key=key)
        return Model.init(vaes, None, layers, hidden=8, reparameterised=reparameterised, key=key)

    rng = np.random.default_rng(0)
    model = jax.tree.map(
        lambda leaf: jnp.asarray(rng.normal(size=leaf.shape) / 2, leaf.dtype),
        eqx.filter_eval_shape(init),
    )
    up, down = np.zeros((2, columns, MARGINAL_WIDTH), np.float32)
    up[:, :2] = down[:, :2] = 1.0, -1.0
    zeros = jnp.asarray(np.zeros_like(up))
    return eqx.tree_at(
        lambda m: [
            *(part for each in m.marginals.decoders.layers for part in (each.weight, each.bias)),
            m.log_noise,
        ],
        model,
        [
            *(jnp.asarray(up[:, None]), zeros, jnp.asarray(down[..., None]), zeros[:, :1]),
            jnp.asarray(np.full(columns, np.log(Z_VARIANCE) / 2, np.float32)),
        ],
    )


def row_of(x: np.ndarray, mask: np.ndarray) -> Row:
    point = jnp.asarray(x, jnp.float32)
    empty = Cells(*(jnp.zeros((*x.shape[:-1], 0)),) * 3)
    no_target = jnp.zeros((*x.shape[:-1], 0), bool)
    return Row(Cells(point, point, point), jnp.asarray(mask), empty, no_target)


def test_scores_of_a_linear_gaussian_model() -> None:
    law = LinearGaussian.random(1, columns=5, latents=2, noise_variance=Z_VARIANCE + X_VARIANCE)
    x, mask = law.simulate(2), np.array([True, False, True, False, True])
    linear = Dense(jnp.asarray(law.weights.T, jnp.float32), jnp.asarray(law.offset, jnp.float32))
    model = eqx.tree_at(lambda m: m.decoder, some_model(5, (2,)), linear)
    mean, covariance = law.posterior(x, mask)
    draws = np.random.default_rng(3).multivariate_normal(mean, covariance, 1000)
    score = eqx.filter_jit(coordinates.imputation)
    positions = jnp.asarray(draws, jnp.float32)
    joint, paper = score(model, row_of(x, mask), positions)

    # By hand, for these draws.
    centre = (draws @ law.weights.T + law.offset)[:, ~mask]
    whole = stats.norm.logpdf(x[~mask], centre, np.sqrt(Z_VARIANCE + X_VARIANCE)).sum(1)
    at_mean = stats.norm.logpdf(x[~mask], centre, np.sqrt(X_VARIANCE)).sum(1)
    share = 1 / len(draws)
    assert float(joint) == pytest.approx(logsumexp(whole, b=share) / 2, abs=1e-3)
    assert float(paper) == pytest.approx(logsumexp(at_mean / 2, b=share), abs=1e-3)

    # In closed form, but for the error of a mean of densities, as one of its log.
    exact = law.log_evidence(x, np.ones(5, bool)) - law.log_evidence(x, mask)
    error = np.exp(whole).std() / np.exp(whole).mean() / np.sqrt(len(draws))
    assert error < 0.1
    assert 2 * float(joint) == pytest.approx(exact, abs=4 * error)

    nothing_hidden = score(model, row_of(x, np.ones(5, bool)), positions)
    np.testing.assert_allclose(nothing_hidden, 0.0, atol=1e-5)


@pytest.mark.parametrize("reparameterised", [True, False])
def test_the_other_coordinates_are_the_same_density(reparameterised: bool) -> None:
    row = row_of(np.arange(4.0), np.array([True, True, False, True]))

    @eqx.filter_jit
    def both(model: Model, position: jax.Array) -> tuple[jax.Array, ...]:
        other, seen = coordinates.switched(model), model.see(row)
        there = coordinates.switched_position(model.hierarchy, position)
        back = coordinates.switched_position(other.hierarchy, there)
        jacobian = jax.jacobian(lambda p: coordinates.switched_position(model.hierarchy, p))(
            position
        )
        own = model.log_joint(position, seen, with_target=False)
        switched = other.log_joint(there, seen, with_target=False)
        bottoms = model.hierarchy.bottom(position), other.hierarchy.bottom(there)
        return back, jacobian, own, switched, *bottoms

    position = np.random.default_rng(0).normal(size=5).astype(np.float32)
    model = some_model(4, (3, 2), reparameterised=reparameterised)
    back, jacobian, own, switched, bottom, switched_bottom = both(model, jnp.asarray(position))
    np.testing.assert_allclose(back, position, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(bottom, switched_bottom, rtol=1e-4, atol=1e-5)
    _, log_volume = np.linalg.slogdet(jacobian)
    assert abs(log_volume) > 0.01
    np.testing.assert_allclose(switched + log_volume, own, rtol=1e-4)


@pytest.fixture(scope="module")
def wide_and_narrow() -> tuple[tuple[Model, Sampler], Row]:
    """Two models: in one both coordinates are the same, in the other h_1 is narrow."""

    wide = some_model(3, (2, 1))
    # The encoder says N(1, 4) of h_2, whatever the row.
    known = Dense(jnp.zeros((8, 2)), jnp.array([1.0, np.log(4.0)]))

    def with_prior_scale(scale: float) -> Model:
        prior = Dense(jnp.zeros((8, 4)), jnp.array([0.0, 0.0, *[2 * np.log(scale)] * 2]))
        return eqx.tree_at(
            lambda m: [m.hierarchy.priors[0].layers[-1], m.encoder.heads[1]], wide, [prior, known]
        )

    models = jax.tree.map(
        lambda *leaves: jnp.asarray(np.stack(leaves)), *map(with_prior_scale, (1.0, 0.001))
    )
    log_steps, log_inflation = np.full((2, 4, 3), np.log(0.1)), np.log([[1.5, 2.0]] * 2)
    sampler = Sampler(*(jnp.asarray(part, jnp.float32) for part in (log_steps, log_inflation)))
    mask = np.array([[True, False, True], [False, True, True]])
    return (models, sampler), row_of(np.array([[0.1, -0.5, 1.0], [1.0, 0.0, 0.3]]), mask)


def test_chains_fail_where_the_prior_is_narrow(
    wide_and_narrow: tuple[tuple[Model, Sampler], Row],
) -> None:
    trained, test = wide_and_narrow
    told = coordinates.look_at_chains(trained, test, 6, 3, jax.random.key(2))
    np.testing.assert_allclose(told.switched_acceptance[0], told.acceptance[0], rtol=1e-5)
    assert told.acceptance[1] > 0.9
    assert told.switched_acceptance[1] < 0.01
    assert (told.movement > 0).all()
    np.testing.assert_array_equal(told.divergent, 0.0)
    np.testing.assert_allclose(told.step_sizes, 0.1, rtol=1e-5)
    np.testing.assert_allclose(told.inflation, [[1.5, 2.0]] * 2, rtol=1e-5)
    found = coordinates.sweep(trained, test, 3, jax.random.key(2))
    np.testing.assert_allclose(found[0, 0], found[0, 1], rtol=1e-4)
    assert (found[:, 0, 0] > 0.999).all()
    assert (np.diff(found[1, 1]) < 0.05).all()
    assert found[1, 1, 0] > 0.5
    assert found[1, 1, -1] < 0.01


def test_what_encoders_tell(wide_and_narrow: tuple[tuple[Model, Sampler], Row]) -> None:
    (models, _), test = wide_and_narrow
    told = coordinates.look_at_encoders(models, test, 6, jax.random.key(2))
    np.testing.assert_allclose(told.prior_scale, [[1.0] * 3, [0.001] * 3], rtol=1e-5)
    np.testing.assert_allclose(told.top_divergence, 0.5 * (1 + 4 - 1) - np.log(2), rtol=1e-5)


def test_when_test_rows_are_looked_at() -> None:
    steps = reparam.looks(PUBLISHED["boston"].settings())
    assert steps == [*range(500, 18_001, 500), *range(18_100, 20_001, 100)]
    assert reparam.looks(train.Settings(steps=40, hmc_steps=4)) == [10, 20, 30, 36, 40]


def made_up(seeds: int = 3) -> dict[str, Any]:
    """Results as the experiment gives them, of nothing that was trained."""
    settings = PUBLISHED["boston"].settings()
    steps = np.array(reparam.looks(settings))
    within = steps[steps >= settings.second_stage]
    shift = 0.02 * np.arange(seeds)[:, None]

    def curve(values: np.ndarray) -> list[list[float]]:
        return (values[None] + shift).tolist()

    variants = {}
    for name, height in (("with the trick", 0.8), ("without the trick", 0.5)):
        rising = height - 2 * np.exp(-steps / 4000)
        scales = np.stack([0.01 + 0 * steps, 0.5 + 0 * steps, 1.0 + height + 0 * steps], axis=1)
        variants[name] = {
            "acceptance": {"every": 20, "means": curve(height - np.arange(100) / 1000)},
            "encoders": {
                "step": steps.tolist(),
                "joint": curve(rising),
                "prior_scale": [scales.tolist()] * seeds,
            },
            "chains": {
                "step": within.tolist(),
                "joint": curve(height + within / 1e5),
                "acceptance": curve(height + 0.0 * within),
                "switched_acceptance": curve(0.1 * height + 0.0 * within),
            },
            "sweep": {
                "own": curve(np.linspace(0.9, 0, len(coordinates.SWEEP))),
                "switched": curve(np.linspace(height, 0, len(coordinates.SWEEP))),
            },
        }
    return {
        "table": "boston",
        "fold": 0,
        "settings": {"steps": settings.steps, "hmc_steps": settings.hmc_steps},
        "seeds": seeds,
        "sweep": coordinates.SWEEP,
        "variants": variants,
    }


def test_the_figure_is_drawn_from_the_file_alone(tmp_path: Path) -> None:
    results = json.loads(to_json(made_up()))
    figure = reparam.draw(results)
    figure.savefig(tmp_path / "figure.png")
    acceptance, imputed, scale, sweep = figure.axes
    assert [len(panel.get_lines()) for panel in figure.axes] == [5, 5, 3, 5]
    ours = results["variants"]["with the trick"]
    line = acceptance.get_lines()[0]
    np.testing.assert_allclose(line.get_ydata(), np.mean(ours["acceptance"]["means"], 0))
    assert (line.get_xdata()[0], line.get_xdata()[-1]) == (10, 1990)
    dashed = acceptance.get_lines()[1]
    assert (dashed.get_xdata()[0], dashed.get_xdata()[-1]) == (0, 2000)
    np.testing.assert_allclose(dashed.get_ydata(), 0.1)
    np.testing.assert_allclose(
        imputed.get_lines()[1].get_ydata(), np.mean(ours["chains"]["joint"], 0)
    )
    np.testing.assert_allclose(scale.get_lines()[0].get_ydata(), 0.5)
    assert tuple(sweep.get_lines()[0].get_xdata()) == coordinates.SWEEP


def invoke(*arguments: str) -> Any:
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, list(arguments), catch_exceptions=False)


def test_the_command_writes_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {}

    def experiment(*, steps: int, seeds: int, tell: reparam.Tell) -> dict[str, Any]:
        asked.update(steps=steps, seeds=seeds)
        tell("with the trick", train.Progress(2, 18, 9.0, np.nan))
        tell("with the trick", train.Progress(3, 40, 12.0, 0.7))
        return made_up(seeds)

    monkeypatch.setattr(reparam, "experiment", experiment)
    numbers = tmp_path / "numbers" / "found.json"
    done = invoke(
        "--out", str(tmp_path / "out"), "--results", str(numbers), "--steps", "40", "--seeds", "2"
    )
    assert done.exit_code == 0
    assert asked == {"steps": 40, "seeds": 2}
    assert "acceptance 0.70" in done.stdout
    assert "reparam.png" in done.stdout
    assert json.loads(numbers.read_text()) == json.loads(to_json(made_up(2)))
    assert (tmp_path / "out" / "reparam.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_the_experiment_on_boston(data_folder: Path, tmp_path: Path) -> None:
    done = invoke("--out", str(tmp_path), "--steps", "40", "--seeds", "2")
    assert done.exit_code == 0
    found = json.loads((tmp_path / "reparam.json").read_text())
    assert (found["test_rows"], found["settings"]["hmc_steps"]) == (51, 4)
    for variant in found["variants"].values():
        assert variant["encoders"]["step"] == [10, 20, 30, 36, 40]
        assert variant["chains"]["step"] == [36, 40]
        assert np.shape(variant["acceptance"]["means"]) == (2, 4)
        assert np.shape(variant["encoders"]["prior_scale"]) == (2, 5, 3)
        assert np.isfinite(variant["chains"]["joint"]).all()
        for field in ("acceptance", "switched_acceptance"):
            assert (np.array(variant["chains"][field]) > 0.5).all()
