"""Held-out cells influence nothing but the stop, and each model stops by its own score."""

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from clinic_training import assert_same
from scipy import stats
from test_model import exact, linear_gaussian, with_encoder

from hhvaem import held_out, train
from hhvaem.encoding import Cells
from hhvaem.errors import InputError
from hhvaem.held_out import Held, held_out_score, hold_out
from hhvaem.marginals import Direct
from hhvaem.model import Model, Row

SETTINGS = train.Settings(
    inference="gaussian",
    steps=3000,
    batch_size=12,
    learning_rate=3e-3,
    learned_noise=True,
    patience=100,
)
ENDLESS = dataclasses.replace(SETTINGS, patience=0)


def table(x: np.ndarray) -> Row:
    return Row(Cells(x, x, x), x == x, Cells(*[x[:, :0]] * 3), x[:, :0] == 0)


def start() -> train.State:
    states = []
    for seed in (0, 1):
        key = jax.random.key(seed)
        network = Model.init(Direct((1,) * 4, jnp.zeros(4)), None, (2,), hidden=32, key=key)
        states.append(train.init(network, SETTINGS, key=key))
    return train.stack(states)


def some_data() -> tuple[train.Data, Held]:
    """Make a table that the net soon learns by heart, noise and all, and one that takes longer."""
    tables = []
    for rows, common in ((16, 0.5), (96, 3.0)):
        rng = np.random.default_rng(rows)
        x = common * rng.normal(size=(rows, 1)) + 0.5 * rng.normal(size=(rows, 4))
        tables.append(table(x.astype(np.float32)))
    return hold_out(train.gather(tables), 0.25, key=jax.random.key(1))


def model(tree: Any, index: int) -> Any:
    """Take one model out of several, with the axis of models."""
    return jax.tree.map(lambda leaf: leaf[index : index + 1] if eqx.is_array(leaf) else leaf, tree)


class Chunks(NamedTuple):
    """Where models are after each chunk of steps, and their scores."""

    states: list[train.State]
    scores: np.ndarray


@pytest.fixture(scope="module")
def endless() -> Chunks:
    """Training that is never stopped."""
    data, held = some_data()
    states, scores = [start()], []
    for until in range(100, SETTINGS.steps + 1, 100):
        states.append(train.train(states[-1], data, ENDLESS, until=until)[0])
        scores.append(np.asarray(held_out_score(states[-1].model, data, held)))
    return Chunks(states[1:], np.array(scores))


def best_and_end(scores: np.ndarray, patience: int) -> tuple[int, int]:
    """Give the chunk that scored best before patience ended, and the one in which it ended."""
    best = 0
    for chunk, score in enumerate(scores):
        if score > scores[best]:
            best = chunk
        if 100 * (chunk - best) >= patience:
            return best, chunk
    return best, len(scores) - 1


def test_each_model_stops_by_its_own_score(endless: Chunks) -> None:
    data, held = some_data()
    told: list[train.Progress] = []
    states, history = train.train(start(), data, SETTINGS, held=held, progress=told.append)
    ends = []
    for i in range(2):
        best, end = best_and_end(endless.scores[:, i], SETTINGS.patience)
        expected = endless.states[best]._replace(step=jnp.full(2, SETTINGS.steps))
        assert_same(model(states, i), model(expected, i))
        ends.append(end)
    assert ends[0] < ends[1]
    last = 100 * (max(ends) + 1)
    assert last < SETTINGS.steps
    assert history.loss.shape == (2, last)
    assert [each.step for each in told] == [*range(100, last, 100), SETTINGS.steps]
    # What is given out scores just as well as it did then.
    score = np.asarray(held_out_score(states.model, data, held))
    for i, end in enumerate(ends):
        assert score[i] == endless.scores[: end + 1, i].max()
    assert score[0] > endless.scores[-1, 0] + 0.05


def test_a_model_stops_as_it_would_alone(endless: Chunks) -> None:
    data, held = some_data()
    for i in range(2):
        alone, history = train.train(
            model(start(), i), model(data, i), SETTINGS, held=model(held, i)
        )
        best, end = best_and_end(endless.scores[:, i], SETTINGS.patience)
        assert history.loss.shape == (1, 100 * (end + 1))
        weights = (eqx.filter(s.model, eqx.is_array) for s in (alone, endless.states[best]))
        for one, other in zip(*map(jax.tree.leaves, weights), strict=True):
            np.testing.assert_allclose(one[0], other[i], rtol=2e-3, atol=2e-4)


def test_without_patience_nothing_changes(endless: Chunks) -> None:
    data, held = some_data()
    states, _ = train.train(start(), data, ENDLESS, held=held, until=300)
    assert_same(states, endless.states[2])


def test_held_out_cells_influence_nothing(endless: Chunks) -> None:
    data, held = some_data()
    cells = Cells(*(jnp.where(held.mask, leaf + 3, leaf) for leaf in data.table.cells))
    moved = data._replace(table=data.table._replace(cells=cells))
    states, _ = train.train(start(), moved, ENDLESS, until=300)
    assert_same(states, endless.states[2])
    scores = held_out_score(states.model, moved, held)
    assert (np.asarray(scores) < endless.scores[2] - 1).all()


def test_what_a_model_does_after_its_stop_is_its_own_affair(
    monkeypatch: pytest.MonkeyPatch, endless: Chunks
) -> None:
    data, held = some_data()
    best, end = best_and_end(endless.scores[:, 0], SETTINGS.patience)
    in_turns = train.in_turns

    def ruined(*args: Any, **kwargs: Any) -> Any:
        (states, turns), *others = in_turns(*args, **kwargs)
        ruin = jnp.where(states.step[0] <= since, 0.0, jnp.nan)
        turns = [(steps, told._replace(loss=told.loss + ruin)) for steps, told in turns]
        return [(states, turns), *others]

    monkeypatch.setattr(train, "in_turns", ruined)
    since = 100 * (end + 1)
    states, _ = train.train(start(), data, SETTINGS, held=held)
    assert_same(model(states.model, 0), model(endless.states[best].model, 0))
    since -= 100
    with pytest.raises(
        InputError, match=f"the loss or a weight was not finite at step {since + 100}"
    ):
        train.train(start(), data, SETTINGS, held=held)


def test_a_score_that_is_not_finite_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data, held = some_data()
    monkeypatch.setattr(train, "held_out_score", lambda *_: jnp.array([jnp.nan, 0.0]))
    with pytest.raises(
        InputError, match="Training failed: the loss or a weight was not finite at step 200"
    ):
        train.train(start(), data, SETTINGS, held=held)


def test_just_a_share_of_what_is_observed_is_held_out() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 5000, 6)).astype(np.float32)
    rows = [
        table(x[i])._replace(
            mask=rng.random((5000, 6)) < 0.7,
            target=Cells(*[x[i, :, :1]] * 3),
            target_mask=rng.random((5000, 1)) < 0.4,
        )
        for i in range(2)
    ]
    data = train.gather([rows[0], jax.tree.map(lambda leaf: leaf[:4000], rows[1])])
    for share in (0.02, 0.3):
        shown, held = hold_out(data, share, key=jax.random.key(0))
        for name in ("mask", "target_mask"):
            whole, left, out = (
                np.asarray(getattr(t, name)) for t in (data.table, shown.table, held)
            )
            np.testing.assert_array_equal(left | out, whole)
            assert not (left & out).any()
            for before, after in zip(whole, out, strict=True):
                count = before.sum()
                error = np.sqrt(share * (1 - share) / count)
                assert after.sum() / count == pytest.approx(share, abs=4 * error)
        assert_same(shown.table.cells, data.table.cells)
        again, other = (hold_out(data, share, key=jax.random.key(seed))[1] for seed in (0, 1))
        assert_same(again, held)
        assert not np.array_equal(other.mask, held.mask)


def test_scores_are_those_of_the_exact_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """A linear decoder whose posterior is diagonal, and an encoder that knows it."""
    monkeypatch.setattr(held_out, "DRAWS", 4000)
    monkeypatch.setattr(held_out, "ROWS", 16)
    linear, row, weight, bias = linear_gaussian()
    seen = np.asarray(row.mask)
    weight[seen] = np.linalg.qr(weight[seen])[0] * [0.3, 0.6, 1.0]
    linear = eqx.tree_at(lambda m: m.decoder.weight, linear, jnp.asarray(weight))
    _, mean, covariance = exact(linear, row, weight, bias)
    linear = with_encoder(linear, mean, np.sqrt(np.diag(covariance)))
    # Each cell by itself given what is shown: normal, with the noise added.
    noise = np.exp(2 * float(linear.log_noise[0]))
    variance = np.einsum("ij,jk,ik->i", weight, covariance, weight) + noise
    log_probs = stats.norm.logpdf(row.cells.point, weight @ mean + bias, np.sqrt(variance))
    assert np.ptp(log_probs[~seen]) > 0.5
    rows = jax.tree.map(lambda leaf: np.stack([leaf] * 33), row._replace(mask=np.ones(6, bool)))
    data = train.gather([rows])
    cells = Cells(*(leaf.at[:, 33:].set(jnp.nan) for leaf in data.table.cells))
    table = data.table._replace(cells=cells, mask=data.table.mask & seen[None, None])
    data = data._replace(table=table)
    models = jax.tree.map(lambda leaf: leaf[None] if eqx.is_array(leaf) else leaf, linear)
    for columns in ([2], [5], [2, 5]):
        mask = jnp.zeros_like(data.table.mask).at[..., np.array(columns)].set(True)
        score = held_out_score(models, data, Held(mask, data.table.target_mask))
        # Measured at 64,000 draws: an error of about 0.005.
        np.testing.assert_allclose(score, log_probs[columns].mean(), atol=0.02)


def test_scores_are_log_densities_of_what_was_not_seen(
    monkeypatch: pytest.MonkeyPatch, endless: Chunks
) -> None:
    """Over all values of a held-out cell they integrate to one: no encoder looks at it."""
    monkeypatch.setattr(held_out, "ROWS", 1)
    grid = np.linspace(-8, 8, 401).astype(np.float32)
    x = np.tile(np.array([0.0, 1.0, -0.5, 0.8], np.float32), (401, 1, 1))
    x[:, 0, 0] = grid
    data = train.gather([table(each) for each in x])
    held = Held(data.table.mask.at[..., 1:].set(False), data.table.target_mask)
    shown = data._replace(table=data.table._replace(mask=data.table.mask & ~held.mask))
    trained = model(endless.states[0].model, 0)
    models = jax.tree.map(
        lambda leaf: jnp.repeat(leaf, 401, 0) if eqx.is_array(leaf) else leaf, trained
    )
    scores = np.asarray(held_out_score(models, shown, held), float)
    assert np.trapezoid(np.exp(scores), grid) == pytest.approx(1, abs=1e-3)
