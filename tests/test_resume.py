"""Training that was interrupted at any moment ends as it would have ended without."""

import dataclasses
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from clinic_training import SMALL, assert_same, clinic_data, fit, start, trained

from hhvaem import train
from hhvaem.errors import InputError
from hhvaem.held_out import Held, hold_out
from hhvaem.model import Model

PATIENT = dataclasses.replace(SMALL, patience=100)
CHUNKS = SMALL.steps // train.CHUNK


def interrupted(chunks: int) -> Any:
    """Make a function by which a user interrupts training after so many chunks."""
    told: list[train.Progress] = []

    def progress(latest: train.Progress) -> None:
        told.append(latest)
        if len(told) == chunks:
            raise KeyboardInterrupt

    return progress


@pytest.mark.slow
@pytest.mark.parametrize("chunks", range(1, CHUNKS + 1))
def test_interrupted_after_any_chunk(tmp_path: Path, chunks: int) -> None:
    options = {"snapshots": tmp_path / "new" / "folder", "snapshot_seconds": 0.0}
    with pytest.raises(KeyboardInterrupt):
        fit(start(), clinic_data(), progress=interrupted(chunks), **options)
    told: list[train.Progress] = []
    assert_same(fit(start(), clinic_data(), progress=told.append, **options), trained())
    assert len(told) == CHUNKS - chunks


@pytest.mark.slow
def test_interrupted_again_and_again(tmp_path: Path) -> None:
    options = {"snapshots": tmp_path, "snapshot_seconds": 0.0}
    for _ in range(CHUNKS):
        with pytest.raises(KeyboardInterrupt):
            fit(start(), clinic_data(), progress=interrupted(1), **options)
    assert_same(fit(start(), clinic_data(), **options), trained())


def test_what_is_done_is_given_back_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit(start(), clinic_data(), snapshots=tmp_path)
    [snapshot] = tmp_path.iterdir()
    content = snapshot.read_bytes()
    untrainable(monkeypatch)
    assert_same(fit(start(), clinic_data(), snapshots=tmp_path), trained())
    assert snapshot.read_bytes() == content


def test_training_in_pieces_is_training_in_one(tmp_path: Path) -> None:
    losses, states = [], start()
    for until in (100, 137, 400, 401, 1000):
        states, history = fit(states, clinic_data(), until=until)
        losses.append(history.loss)
        assert states.step.tolist() == [min(until, SMALL.steps)] * 2
    assert_same((states, jnp.concatenate(losses, axis=1)), (trained()[0], trained()[1].loss))
    for until in (137, 350, None):
        again = fit(start(), clinic_data(), until=until, snapshots=tmp_path)
    assert_same(again, trained())


def smallness(models: Model, *_: Any) -> jax.Array:
    """Score models by small weights: of every stage the first chunk is best."""
    return -sum(
        jnp.square(leaf).sum(tuple(range(1, leaf.ndim)))
        for leaf in jax.tree.leaves(eqx.filter(models.decoder, eqx.is_array))
    )


def held_data() -> tuple[train.Data, Held]:
    return hold_out(clinic_data(), 0.2, key=jax.random.key(0))


def test_a_third_stage_follows_an_early_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train, "held_out_score", smallness)
    data, held = held_data()
    told: list[train.Progress] = []
    states, history = fit(start(), data, PATIENT, held=held, progress=told.append)
    assert [(each.stage, each.step) for each in told] == [(2, 100), (2, 400), (3, 500), (3, 600)]
    assert history.loss.shape == (2, 400)
    best, _ = fit(start(), data, until=100)
    best, _ = fit(best._replace(step=best.step + 300), data, until=500)
    assert_same(states, best._replace(step=best.step + 100))


def test_stopping_early_goes_on_from_any_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train, "held_out_score", smallness)
    data, held = held_data()
    whole = fit(start(), data, PATIENT, held=held)
    options = {"held": held, "snapshots": tmp_path / "a", "snapshot_seconds": 0.0}
    for _ in range(4):
        with pytest.raises(KeyboardInterrupt):
            fit(start(), data, PATIENT, progress=interrupted(1), **options)
    assert_same(fit(start(), data, PATIENT, **options), whole)
    for until in (100, 200, 300, 500, None):
        again = fit(start(), data, PATIENT, held=held, until=until, snapshots=tmp_path / "b")
    assert_same(again, whole)


def untrainable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail where anything is trained or compiled from here on."""
    trained()
    for name in ("_second_stage", "_third_stage", "compile_ahead"):
        monkeypatch.setattr(train, name, None)


def not_reparameterised() -> train.State:
    """Make models that start with the same weights as the usual ones."""
    states = start()
    hierarchy = dataclasses.replace(states.model.hierarchy, reparameterised=False)
    return eqx.tree_at(lambda s: s.model.hierarchy, states, hierarchy)


def fewer() -> tuple[train.Data, Held]:
    return hold_out(clinic_data(), 0.01, key=jax.random.key(0))


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda: {"states": start(seeds=(0, 2))}, "'start' is"),
        (lambda: {"states": not_reparameterised()}, "'reparameterised' is true there and false"),
        (lambda: {"data": clinic_data()}, "'table' is"),
        (lambda: {"held": fewer()[1]}, "'table' is"),
        (lambda: {"states": start(seeds=(0, 1, 2)), "data": clinic_data(3)}, "'models' is"),
        (
            lambda: {"settings": dataclasses.replace(SMALL, leapfrog=3)},
            "'settings.leapfrog' is 2 there and 3 here",
        ),
    ],
)
def test_a_folder_of_another_training_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    other: Callable[[], dict[str, Any]],
    message: str,
) -> None:
    usual = {"states": start(), "data": fewer()[0], "settings": SMALL}
    fit(**usual, until=100, snapshots=tmp_path)
    [snapshot] = tmp_path.iterdir()
    content = snapshot.read_bytes()
    untrainable(monkeypatch)
    with pytest.raises(InputError, match=rf"is of another training \({message}.*choose an empty"):
        fit(**usual | other(), snapshots=tmp_path)
    assert snapshot.read_bytes() == content
    assert list(tmp_path.iterdir()) == [snapshot]


def test_a_table_of_which_another_block_has_changed_is_refused(tmp_path: Path) -> None:
    feed = train.Feed((0, 300), lambda _: clinic_data(), "of one table")
    fit(start(), clinic_data(), feed=feed, until=100, snapshots=tmp_path)
    with pytest.raises(InputError, match=r"another training \('rows' is \"of one table\" there"):
        fit(start(), clinic_data(), feed=feed._replace(digest="other"), snapshots=tmp_path)


def test_numbers_of_numpy_are_settings_like_any_other() -> None:
    settings = dataclasses.replace(SMALL)
    object.__setattr__(settings, "warm_up", np.int64(SMALL.warm_up))
    identities = [train._identity(start(), clinic_data(), s, None) for s in (SMALL, settings)]
    assert json.dumps(identities[0]) == json.dumps(identities[1])


KILLED = """
import sys
from pathlib import Path
from clinic_training import SMALL, clinic_data, start
from hhvaem import train

train.train(
    start(), clinic_data(), SMALL, snapshots=Path(sys.argv[1]), snapshot_seconds=0.0,
    progress=lambda told: print(told.step, flush=True),
)
"""


@pytest.mark.slow
def test_killed_at_any_moment(tmp_path: Path) -> None:
    """Ten times: twice after each chunk but the last, of both stages."""
    dice, kills = random.Random(0), 0
    # What one process compiled serves the next.
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "programs"),
    }
    for i in range(10):
        folder = tmp_path / str(i)
        with subprocess.Popen(
            [sys.executable, "-c", KILLED, folder], env=environment, stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            for _ in range(i // 2 + 1):
                process.stdout.readline()
            time.sleep(dice.uniform(0, 0.05))
            if i % 2:  # in the midst of writing, if that can be met
                wait_for_writing(folder)
            process.kill()
        kills += process.returncode == -signal.SIGKILL
        assert_same(fit(start(), clinic_data(), snapshots=folder), trained())
        assert [path.name for path in folder.iterdir()] == ["snapshot.safetensors"]
    assert kills >= 8, "training was done before it could be killed"


def wait_for_writing(folder: Path) -> None:
    end = time.monotonic() + 0.2
    while time.monotonic() < end and not any(folder.glob(".hhvaem.*.tmp")):
        pass
