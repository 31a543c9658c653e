"""With little time, a few members are trained to their end and not all of them halfway."""

import time
from dataclasses import replace

import numpy as np
import pytest

from hhvaem import in_time, train
from hhvaem.fitting import fit
from hhvaem.preparing import Part
from hhvaem.presets import PRESETS
from hhvaem.schema import Column

PLAN = PRESETS["fast"]
PLAN = replace(PLAN, members=5, settings=replace(PLAN.settings, steps=200))


def table() -> Part:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(200, 1)) + 0.5 * rng.normal(size=(200, 3))
    return Part(tuple(Column(name, "real") for name in "abc"), values, np.ones((200, 3), bool))


@pytest.fixture
def slow_clock(monkeypatch):
    """Let each training seem to take ten seconds, on two cores."""
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(in_time, "cores", lambda: 2)
    really = train.train

    def longer(*args, **kwargs):
        found = really(*args, **kwargs)
        now[0] += 10.0
        return found

    monkeypatch.setattr(train, "train", longer)


@pytest.mark.usefixtures("slow_clock")
@pytest.mark.parametrize(("seconds", "members"), [(15.0, 2), (25.0, 4), (100.0, 5)])
def test_members_are_as_many_as_time_allows(seconds, members):
    fitted = fit(table(), None, PLAN, max_seconds=seconds)
    assert fitted.members == members
    assert fitted.record["steps"] == 200
    assert len(fitted.record["loss"]) == members


@pytest.mark.usefixtures("slow_clock")
def test_the_first_members_are_those_of_a_fit_without_a_limit():
    few, all_ = fit(table(), None, PLAN, max_seconds=15.0), fit(table(), None, PLAN)
    np.testing.assert_array_equal(few.models.log_noise, all_.models.log_noise[:2])


def test_a_clock_that_has_run_out_leaves_members_that_have_begun():
    fitted = fit(table(), None, PLAN, max_seconds=0.0)
    assert 0 < fitted.record["steps"] < 200
    assert fitted.members == in_time.cores()


def test_progress_goes_on_from_members_to_members(slow_clock):
    del slow_clock
    seen = []
    fit(table(), None, PLAN, max_seconds=100.0, progress=lambda told: seen.append(told.step))
    assert seen == sorted(seen)
    assert seen[-1] == 200
