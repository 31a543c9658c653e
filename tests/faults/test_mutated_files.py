"""Damaged and forged model files are refused, or harm nobody."""

import json
import subprocess
import sys
from pathlib import Path

from campaign import noted, times

MOST = 100  # MiB; the files have 20 KiB


def test_damaged_and_forged_models() -> None:
    count = times(60, 1_000)
    with noted("model files damaged or forged") as facts:
        done = subprocess.run(
            [sys.executable, Path(__file__).parents[1] / "mutated_models.py", str(count)],
            capture_output=True, text=True, timeout=3600,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-5000:]
        facts |= json.loads(done.stdout)
        assert facts["refused"] > count / 2
        assert facts["another model"]
        assert facts["MiB at most for one"] < MOST
