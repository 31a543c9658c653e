"""The toys: densities are what they are called, and chains learn to follow them."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats
from typer.testing import CliRunner

from hhvaem.cli.paper import paper
from hhvaem.paper import illustration, quadrature, toys
from hhvaem.paper.quadrature import Window

WAVE, MOON = toys.TOYS["wave"], toys.TOYS["dual moon"]
Command = tuple[str, dict[str, Any], Path]


def plain_wave(x1: float, x2: float) -> float:
    return float(np.exp(-(((x2 + np.sin(np.pi * x1 / 2)) / 0.4) ** 2) / 2 - (x1 / 3) ** 2 / 2))


def plain_moon(x1: float, x2: float) -> float:
    sides = np.exp(-((x1 + 2) ** 2) / 0.72) + np.exp(-((x1 - 2) ** 2) / 0.72)
    return float(np.exp(-3.125 * (np.hypot(x1, x2) - 2) ** 2) * sides)


def exact_wave(count: int) -> np.ndarray:
    generator = np.random.default_rng(0)
    x1 = 3 * generator.normal(size=count)
    return np.stack([x1, 0.4 * generator.normal(size=count) - np.sin(np.pi * x1 / 2)], axis=1)


def total(toy: toys.Toy) -> float:
    """The integral of the density over its window, by the grid."""
    area = (quadrature.SIDE / quadrature.FINE) ** 2
    points = jnp.array(quadrature.points(toy.window)).reshape(-1, 2)
    return float(jnp.exp(jax.vmap(toy.log_density)(points)).sum()) * area


@pytest.mark.parametrize(
    ("density", "plain"), [(toys.wave, plain_wave), (toys.dual_moon, plain_moon)]
)
def test_densities_are_their_formulas(density, plain) -> None:
    for point in [(0.3, -0.7), (-2.2, 0.9), (1.5, 1.5)]:
        assert jnp.exp(density(jnp.array(point))) == pytest.approx(plain(*point), rel=1e-4)


def test_the_derivative_is_finite_in_the_centre() -> None:
    assert jnp.isfinite(jax.grad(toys.dual_moon)(jnp.zeros(2))).all()


def test_quadrature_has_all_of_the_mass() -> None:
    assert total(WAVE) == pytest.approx(2 * np.pi * 3 * 0.4, rel=1e-4)
    quarter, _ = integrate.dblquad(plain_moon, 0, 5, 0, 5, epsabs=1e-6)
    assert total(MOON) == pytest.approx(4 * quarter, rel=1e-4)
    assert quadrature.masses(toys.dual_moon, MOON.window).sum() == pytest.approx(1)


def test_exact_draws_are_as_near_as_they_can_be() -> None:
    mass = quadrature.masses(toys.wave, WAVE.window)
    draws = exact_wave(4000)
    floor = quadrature.noise_floor(mass, 4000)
    assert quadrature.total_variation(mass, WAVE.window, draws) == pytest.approx(floor, rel=0.2)
    elsewhere = quadrature.total_variation(mass, WAVE.window, draws + 40)
    assert elsewhere == pytest.approx(1)


def test_total_variation_of_two_gaussians() -> None:
    window = Window(-5.0, 5.0, -5.0, 5.0)
    mass = quadrature.masses(lambda x: -0.5 * jnp.sum(x**2), window)
    draws = np.random.default_rng(0).normal([1.0, 0.0], 1.0, (200_000, 2))
    # Between N(0, 1) and N(1, 1) it is 2 Phi(1 / 2) - 1; squares and chance change it a little.
    found = quadrature.total_variation(mass, window, draws)
    assert found == pytest.approx(2 * stats.norm.cdf(0.5) - 1, abs=0.01)


def test_squares_have_the_mass_of_a_normal_law() -> None:
    window = Window(-5.0, 4.0, -4.5, 5.0)
    mass = quadrature.masses(lambda x: -0.5 * jnp.sum(x**2), window)
    across, up = (np.diff(stats.norm.cdf(ends)) for ends in quadrature.edges(window, 0.5))
    np.testing.assert_allclose(quadrature._squares(mass), np.outer(across, up), atol=2e-4)


def test_contours_enclose_their_share() -> None:
    mass = quadrature.masses(lambda x: -0.5 * jnp.sum(x**2), Window(-5.0, 5.0, -5.0, 5.0))
    low, high = quadrature.levels(mass, (0.5, 0.9))
    # In two dimensions, the height of the contour around a share is 1 - share of the peak's.
    assert low / mass.max() == pytest.approx(0.1, abs=0.01)
    assert high / mass.max() == pytest.approx(0.5, abs=0.01)


def test_each_part_goes_its_way() -> None:
    """Steps climb the objective, directions raise the SKSD, and the inflation lowers it."""

    @jax.jit
    def train(start: toys.Learned, rates: jax.Array) -> tuple[toys.Learned, toys.Curves]:
        return toys.train(toys.wave, jnp.zeros(2), start, rates, 100, key=jax.random.key(1))

    def gained(curve: jax.Array) -> jax.Array:
        return curve[-20:].mean() - curve[:20].mean()

    start = toys.init(jax.random.key(0), WAVE.transitions, *jnp.array(toys.SHORT))
    # Far from the best, so that there is something to gain.
    start = start._replace(directions=jnp.array([[0.5, 1.0], [1.0, 0.5]]))
    steps, curves = train(start, jnp.array([1e-2, 0.0, 0.0]))
    assert gained(curves.objective) > 0.05
    assert steps.log_steps.mean() < start.log_steps.mean()
    turned, curves = train(start, jnp.array([0.0, 0.0, 1e-2]))
    assert gained(curves.sksd) > 0.5
    inflated, curves = train(turned, jnp.array([0.0, 2e-2, 0.0]))
    assert gained(curves.sksd) < -0.3
    assert (curves.inflation[0] == 1).all()
    # Adam's first step is the rate itself.
    np.testing.assert_allclose(np.abs(np.log(curves.inflation[1])), 2e-2, rtol=1e-3)
    assert (inflated.log_steps == start.log_steps).all()
    assert (steps.log_inflation == 0).all()


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Command:
    """What the command says, its numbers and its folder, for the wave and an untrained model."""
    folder = tmp_path_factory.mktemp("paper")
    short = dataclasses.replace(illustration.SETTINGS, inference="gaussian", steps=5)
    changed = {
        toys: {"CASES": toys.CASES[:1], "TOYS": {"wave": WAVE}, "STEPS": 601, "SEEDS": 2},
        illustration: {"SETTINGS": short, "HIDDEN": 8, "ROWS": 4, "DRAWS": 300},
    }
    numbers = folder / "numbers" / "toys.json"
    arguments = ["toys", "--out", str(folder / "out"), "--results", str(numbers)]
    with pytest.MonkeyPatch.context() as patch:
        for module, constants in changed.items():
            for name, value in constants.items():
                patch.setattr(module, name, value)
        done = CliRunner().invoke(paper, arguments, catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout, json.loads(numbers.read_text()), folder / "out"


@pytest.mark.slow
def test_training_spreads_the_wave_along_the_horizontal(command: Command) -> None:
    (case,) = command[1]["toys"]["cases"]
    assert len(case["seeds"]) == 2
    for seed in case["seeds"]:
        assert seed["before"]["total_variation"] > 0.75
        assert seed["after"]["total_variation"] < 0.4
        across, up = seed["inflation"]
        assert across > 1.3 * up > 4
        assert seed["acceptance"] > 0.95
    np.testing.assert_allclose(case["exact"]["spread"][0], 3, rtol=1e-3)


@pytest.mark.slow
def test_the_command_keeps_what_figures_need(command: Command) -> None:
    said, found, folder = command
    for words in ("wave", "mean of 4 rows", "toys.png"):
        assert words in said
    for name in ("toys.png", "illustration.png"):
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
    assert set(found["versions"]) >= {"hhvaem", "jax"}
    drawn = found["toys"]["cases"][0]["drawn"]
    # Means of three steps each; one step is left over.
    assert drawn["every"] == 3
    assert np.shape(drawn["curves"]["inflation"]) == (2, 200)
    assert drawn["curves"]["inflation"][0][0] == pytest.approx(1.01, abs=0.01)
    assert np.shape(drawn["after"]) == (2, toys.DRAWN)


@pytest.mark.slow
def test_chains_are_nearer_to_the_posterior_than_an_untrained_encoder(command: Command) -> None:
    found = command[1]["illustration"]
    assert np.mean(found["rows"]["chains"]) < np.mean(found["rows"]["encoder"])
    assert found["drawn"]["row"] == np.argmax(found["rows"]["bend"])
    assert len(found["drawn"]["cells"]) == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--out", "file"), "file cannot be written to"),
        (("--results", "folder"), "folder is a folder; name a file with --results."),
    ],
)
def test_the_command_says_at_once_where_it_cannot_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    Path("folder").mkdir()
    done = CliRunner().invoke(paper, ["toys", *arguments])
    assert said in str(done.exception)
