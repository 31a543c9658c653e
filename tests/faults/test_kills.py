"""Killed at any moment: what is there is whole, and the same command ends as if nothing were."""

import random
import signal
from pathlib import Path

import pytest
from campaign import noted, times
from killable import WORK, Case, told_by
from saved_models import FILES
from victims import LONGEST, Victims

from hhvaem import load


@pytest.mark.parametrize("name", WORK)
def test_killed_and_started_again(victims: Victims, tmp_path: Path, name: str) -> None:
    case = Case(victims, tmp_path, name)
    dice, most = random.Random(0), times(3, 100)
    with noted(f"{name} killed") as facts:
        facts |= {"kills": 0, "from a snapshot": 0, "temporary files left": 0, "ended": 0}
        while facts["kills"] < most or not facts["ended"]:
            begun = bool(case.snapshots)
            # As often in the first seconds of training as at any moment.
            training = name == "fit" and facts["kills"] % 2 == 0
            longest = 1.0 if training else 1.1 * case.seconds
            ended = case.run(
                after=dice.uniform(0, longest) if facts["kills"] < most else LONGEST,
                once="kept/snapshot.safetensors" if training else None,
            )
            assert ended.status in (0, -signal.SIGKILL), ended
            case.check(done=ended.status == 0)
            facts["kills"] += ended.status != 0
            facts["temporary files left"] += bool(case.left)
            if ended.status == 0:
                facts["ended"] += 1
                facts["from a snapshot"] += begun
                case.place = case.new_place()
        assert facts["from a snapshot"] or name == "impute"


SAVING = """
from hhvaem import load
models = [load(name) for name in ("one", "two")]
open("ready", "w").close()
while True:
    for model in models:
        model.save("out")
"""


def test_saving_is_killed(victims: Victims, tmp_path: Path) -> None:
    """Two models take each other's place, as fast as they can."""
    for name, of in (("one", "imputer"), ("two", "classifier")):
        load(FILES / f"{of}-0.1.hhvaem").save(tmp_path / name)
    whole = [told_by(tmp_path / name) for name in ("one", "two")]
    out, ready = tmp_path / "out", tmp_path / "ready"
    dice = random.Random(0)
    with noted("save killed") as facts:
        facts |= {"kills": 0, "temporary files left": 0}
        for _ in range(times(3, 100)):
            ready.unlink(missing_ok=True)
            out.write_bytes((tmp_path / "one").read_bytes())
            after = dice.uniform(0, 0.2)
            ended = victims.run(tmp_path, after=after, once="ready", first=SAVING)
            assert ended.status == -signal.SIGKILL, ended
            assert told_by(out) in whole
            load(out)
            left = list(tmp_path.glob(".hhvaem.*.tmp"))
            facts["kills"] += 1
            facts["temporary files left"] += bool(left)
            load(tmp_path / "two").save(out)
            assert told_by(out) == whole[1]
            assert not list(tmp_path.glob(".hhvaem.*.tmp"))
