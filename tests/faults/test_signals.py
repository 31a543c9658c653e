"""Stopped from outside, a command says so, keeps what it has and leaves nothing half done."""

import random
import signal
from pathlib import Path

import pytest
from campaign import noted, times
from killable import WORK, Case
from victims import Victims

SAID = {
    "fit": {
        "Stopped: there was nothing to keep yet; the same command starts again.",
        "Stopped: what was trained is in kept; the same command goes on from there.",
    },
    "impute": {"Stopped: nothing was written to out.csv."},
}
# Where there is nothing to be lost: libraries are imported, files are read.
EARLY = {"Stopped: nothing more is done.", "Stopped: what was not finished is not written."}


@pytest.mark.parametrize("name", WORK)
def test_stopped_and_started_again(victims: Victims, tmp_path: Path, name: str) -> None:
    case = Case(victims, tmp_path, name)
    dice = random.Random(0)
    with noted(f"{name} stopped") as facts:
        facts |= {"SIGTERM": 0, "SIGINT": 0, "ended": 0}
        while (least := min(facts["SIGTERM"], facts["SIGINT"])) < times(1, 25):
            by = signal.SIGTERM if facts["SIGTERM"] == least else signal.SIGINT
            # Before that it is not yet the command, and one that goes on takes less time.
            ended = case.run(after=dice.uniform(0.05, 0.6 * case.seconds), by=by)
            assert ended.status in (0, 128 + by), ended
            assert not case.left
            case.check(done=ended.status == 0)
            if ended.status:
                assert ended.said in SAID[name] | EARLY
                facts[by.name] += 1
            else:
                facts["ended"] += 1
                case.place = case.new_place()
        ended = case.run()
        assert ended.status == 0, ended
        case.check(done=True)
        facts["ended"] += 1
