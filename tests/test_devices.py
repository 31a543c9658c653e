"""Rows divided among devices, and among processes: the model is that of one device."""

import json
import os
import socket
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from hhvaem import Imputer
from hhvaem.errors import InputError, TableWarning

# Fits and fills a table, in a process that has several devices or knows of another process.
SCRIPT = """
import json, os, sys
import jax
if "ADDRESS" in os.environ:
    jax.distributed.initialize(os.environ["ADDRESS"], 2, int(os.environ["NUMBER"]))
import numpy as np
from hhvaem import Imputer
rng = np.random.default_rng(0)
common = rng.normal(size=(300, 1))
table = common + 0.3 * rng.normal(size=(300, 4))
table[rng.random(table.shape) < 0.3] = np.nan
imputer = Imputer(
    preset="fast", random_state=0, max_steps=60, members=2, batch_size=64, inference=sys.argv[2],
    device=sys.argv[1] if sys.argv[1] != "one" else None,
).fit(table)
print(json.dumps({
    "devices": jax.device_count(),
    "loss": imputer.fitted_.record["loss"],
    "gain": imputer.fitted_.record["gain_per_hidden_cell"],
    "filled": imputer.transform(table[:40], posterior="encoder").tolist(),
}))
"""


def start(device: str, inference: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", SCRIPT, device, inference],
        env=os.environ | {"JAX_PLATFORMS": "cpu"} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def told(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found


def virtual(count: int) -> dict[str, str]:
    return {"XLA_FLAGS": f"--xla_force_host_platform_device_count={count}"}


@pytest.fixture(scope="module")
def alone() -> dict[str, Any]:
    """What one device finds."""
    return told(start("one", "likelihood"))


def check_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    for name in ("loss", "gain", "filled"):
        np.testing.assert_allclose(found[name], expected[name], rtol=2e-3, atol=2e-3, err_msg=name)


@pytest.mark.parametrize("count", [2, pytest.param(8, marks=pytest.mark.slow)])
def test_devices_that_divide_rows_find_what_one_finds(alone, count):
    found = told(start("all", "likelihood", **virtual(count)))
    assert found["devices"] == count
    check_same(found, alone)


@pytest.mark.slow
@pytest.mark.parametrize("inference", ["hmc", "importance"])
def test_other_ways_to_train(inference):
    found = told(start("all", inference, **virtual(4)))
    check_same(found, told(start("one", inference)))


@pytest.mark.slow
def test_processes_that_divide_rows_find_what_one_finds(alone):
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{one.getsockname()[1]}"
    both = [
        start("all", "likelihood", ADDRESS=address, NUMBER=str(number), **virtual(1))
        for number in range(2)
    ]
    first, second = map(told, both)
    assert first["devices"] == 2
    assert first == second
    check_same(first, alone)


@pytest.mark.slow
def test_devices_that_cannot_divide_a_batch_evenly_do_not():
    found = told(start("all", "likelihood", **virtual(3)))
    assert found["devices"] == 3


def test_one_device_may_be_all_there_are():
    table = np.random.default_rng(0).normal(size=(60, 2)) + np.arange(60)[:, None]
    with pytest.warns(TableWarning, match="no better than each column"):
        Imputer(preset="fast", max_steps=5, random_state=0, device="all").fit(table)


@pytest.mark.parametrize("name", ["abacus", ""])
def test_a_device_that_is_not_there(name):
    with pytest.raises(InputError, match=rf"device='{name}' is not there; use 'cpu', .*'all'"):
        Imputer(device=name).fit(np.eye(3))
