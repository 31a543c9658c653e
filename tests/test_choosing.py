"""How strongly a model is held back: what is hidden for it, how that is scored, what is chosen."""

import dataclasses
import math
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from clinic_training import assert_same
from scipy import stats
from test_model import exact, linear_gaussian, with_encoder

from hhvaem import Imputer, choosing, load
from hhvaem.choosing import FACTORS, OWN_SHARE, SHARE, choose, louder
from hhvaem.fitting import fit
from hhvaem.marginals import Direct
from hhvaem.model import Model
from hhvaem.networks import Perceptron
from hhvaem.posterior import How, Tuned
from hhvaem.preparing import Part, prepare
from hhvaem.presets import MANY_ROWS, PRESETS, Plan
from hhvaem.schema import Column
from hhvaem.steps import Data, _held_back

COLUMNS = tuple(Column(name, "real") for name in "abcd")


def plan(**changes: object) -> Plan:
    """Make the default small."""
    default = PRESETS["default"]
    settings = dataclasses.replace(
        default.settings, steps=600, hmc_steps=200, batch_size=64, learning_rate=5e-3
    )
    small = {"settings": settings, "hidden": 32, "layers": (3,), "decays": (0.1, 1e-4)}
    return dataclasses.replace(default, **{**small, "members": 2, **changes})


def curved(rows: int) -> Part:
    """Make columns that follow from one number, and not by lines."""
    rng = np.random.default_rng(0)
    t = rng.uniform(-2, 2, rows)
    values = np.stack([np.sin(3 * t), t**2, np.cos(2 * t), t], axis=1)
    values = values + 0.01 * rng.normal(size=values.shape)
    return Part(COLUMNS, values, rng.random(values.shape) > 0.2)


def noise(rows: int) -> Part:
    rng = np.random.default_rng(1)
    return Part(COLUMNS, rng.normal(size=(rows, 4)), rng.random((rows, 4)) > 0.2)


def test_a_row_that_is_said_twice_hides_the_same_cells() -> None:
    one = prepare(curved(30), None, plan())
    assert one.times == 3
    held, targets = choosing._hidden(one, jax.random.key(0))
    mask = np.asarray(one.row.mask, bool)
    assert not (held & ~mask).any()
    for copy in (1, 2):
        np.testing.assert_array_equal(held[:30], held[30 * copy : 30 * (copy + 1)])
    assert not held[one.rows :].any()
    assert targets.shape == (len(mask), 0)
    large = prepare(curved(4000), None, plan())
    share = choosing._hidden(large, jax.random.key(0))[0].sum() / large.row.mask.sum()
    assert share == pytest.approx(SHARE, abs=0.01)


def test_scores_are_those_of_a_normal_law_with_some_of_the_columns_own() -> None:
    model, row, weight, bias = linear_gaussian()
    _, mean, covariance = exact(model, row, weight, bias)
    model = with_encoder(model, mean, np.sqrt(np.diag(covariance)))
    found, _ = jax.jit(choosing._log_probs, static_argnums=4)(
        model,
        Tuned(jnp.log(0.5)),
        row,
        jax.random.key(0),
        How("hmc", chains=2000, kept=2, transitions=20, leapfrog=5),
    )
    noise = np.exp(np.asarray(model.log_noise))[0]
    for j in np.flatnonzero(~np.asarray(row.mask)):
        for factor, score in zip(FACTORS, np.asarray(found)[:, j], strict=True):
            scale = np.sqrt(weight[j] @ covariance @ weight[j] + (factor * noise) ** 2)
            x = float(row.cells.point[j])
            law = stats.norm(weight[j] @ mean + bias[j], scale).pdf(x)
            expected = math.log((1 - OWN_SHARE) * law + OWN_SHARE * stats.norm.pdf(x))
            assert score == pytest.approx(expected, abs=0.06)


def test_louder_noises_change_nothing_else() -> None:
    model, *_ = linear_gaussian()
    found = louder(model, jnp.log(2.0))
    np.testing.assert_allclose(found.log_noise, model.log_noise + math.log(2), rtol=1e-6)
    back = eqx.tree_at(lambda m: m.log_noise, found, model.log_noise)
    assert_same(back, model)


def test_a_shortcut_is_a_linear_map_beside_the_network() -> None:
    network = Perceptron.init((3, 8, 8, 2), shortcut=True, key=jax.random.key(0))
    plain = dataclasses.replace(network, shortcut=None)
    x = jnp.array([0.3, -1.0, 2.0])
    assert network.shortcut is not None
    np.testing.assert_allclose(network(x), plain(x) + network.shortcut(x), rtol=1e-6)
    assert len(network.layers) == 3
    assert Perceptron.init((3, 8, 2), key=jax.random.key(0)).shortcut is None


def test_decay_draws_weights_of_networks_and_nothing_else() -> None:
    columns = Direct((1,) * 4, jnp.zeros(4))
    model = Model.init(
        columns, None, (3, 2), hidden=8, depth=2, shortcut=True, key=jax.random.key(0)
    )
    nothing = jax.tree.map(jnp.zeros_like, eqx.filter(model, eqx.is_array))
    data = Data(None, jnp.array(1), decay=jnp.array(0.5))  # type: ignore[arg-type]
    drawn = _held_back(nothing, eqx.filter(model, eqx.is_array), data)
    networks = [*model.encoder.first.layers, *model.encoder.heads, *model.decoder.layers]
    found = [*drawn.encoder.first.layers, *drawn.encoder.heads, *drawn.decoder.layers]
    for of, to in zip(networks, found, strict=True):
        np.testing.assert_allclose(to.weight, 0.5 * of.weight)
        assert not to.bias.any()
    for linear in (drawn.decoder.shortcut, *drawn.encoder.shortcuts):
        assert not linear.weight.any()
    assert not drawn.log_noise.any()
    assert _held_back(nothing, model, data._replace(decay=None)) is nothing


def test_nothing_is_chosen_for_tables_with_many_rows() -> None:
    default = PRESETS["default"]
    assert default.chooses(MANY_ROWS - 1)
    assert not default.chooses(MANY_ROWS)
    assert not PRESETS["fast"].chooses(10)
    assert list(default.decays) == sorted(default.decays, reverse=True)


def test_nothing_is_chosen_from_few_cells_or_in_little_time() -> None:
    few, enough = prepare(curved(20), None, plan()), prepare(curved(60), None, plan())
    assert choosing.can_choose([enough], plan(), None)
    assert not choosing.can_choose([enough, few], plan(), None)
    assert not choosing.can_choose([enough], plan(), max_seconds=10.0)
    assert choosing.can_choose([enough], plan(), max_seconds=choosing.LEAST_CORE_SECONDS)
    assert not choosing.can_choose([enough], plan(decays=(1e-3,)), None)


def test_without_a_choice_few_cells_are_held_back_most_and_many_rows_least() -> None:
    default = plan(decays=(0.3, 0.2, 0.1))
    few, some, many = (prepare(curved(rows), None, default) for rows in (20, 60, MANY_ROWS))
    found = [choosing.usual_decay(table, default) for table in (few, some, many)]
    assert found == [0.3, 0.2, 0.1]


@pytest.mark.slow
def test_noise_is_held_back_and_curves_are_not() -> None:
    both = [prepare(table, None, plan()) for table in (noise(60), curved(60))]
    chosen = choose(both, plan(), key=jax.random.key(0))
    assert chosen.decay.tolist() == [0.1, 1e-4]
    # Where there is something to learn, by a margin that is no chance; noise that was learned by
    # heart is made good in part by larger factors.
    best = chosen.scores.max(2)
    assert best[1, 1] > best[1, 0] + 0.2


@pytest.mark.slow
def test_a_fit_tells_what_it_chose_and_goes_on_with_it(tmp_path: Path) -> None:
    table = curved(60)
    told: list[int] = []
    fitted = fit(table, None, plan(), progress=lambda each: told.append(each.step))
    assert told[-1] == 2 * plan().settings.steps
    assert told == sorted(told)
    choice = fitted.record["choice"]
    assert choice["decay"] == 1e-4
    assert np.shape(choice["scores"]) == (2, len(FACTORS))
    # Killed after the choice, or in the middle of it, it ends with the same model.
    for at in (plan().settings.steps + 200, 300):

        def stop(each: object, at: int = at) -> None:
            if each.step >= at:  # type: ignore[attr-defined]
                raise KeyboardInterrupt

        folder = tmp_path / str(at)
        with pytest.raises(KeyboardInterrupt):
            fit(table, None, plan(), snapshots=folder, progress=stop)
        again = fit(table, None, plan(), snapshots=folder)
        assert_same(again.models, fitted.models)
        assert again.record == fitted.record


@pytest.mark.slow
def test_what_was_chosen_in_little_time_is_not_chosen_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock ends the choice after one chunk of steps; with more of them it would differ."""
    monkeypatch.setattr(choosing, "LEAST_CORE_SECONDS", 0.0)
    table = curved(60)
    first = fit(table, None, plan(), snapshots=tmp_path, max_seconds=0.1)
    again = fit(table, None, plan(), snapshots=tmp_path)
    assert again.record["choice"] == first.record["choice"]
    assert again.record["steps"] == plan().settings.steps


@pytest.mark.slow
def test_deep_models_with_shortcuts_are_saved(tmp_path: Path) -> None:
    values, mask = curved(60)[1:]
    imputer = Imputer(random_state=0, max_steps=40, members=1).fit(np.where(mask, values, np.nan))
    imputer.save(tmp_path / "model.hhvaem")
    again = load(tmp_path / "model.hhvaem")
    assert again.fitted_.plan == imputer.fitted_.plan
    assert again.fitted_.record == imputer.fitted_.record
    assert_same(again.fitted_.models, imputer.fitted_.models)
    assert len(again.fitted_.models.decoder.layers) == 3
