"""Commands that may be ended at any moment, and what there is to see afterwards."""

from pathlib import Path
from typing import Any, ClassVar

from campaign import RESULTS
from saved_models import FILES, table
from victims import Ended, Victims

from hhvaem import write_table
from hhvaem.storage import fingerprint, read_arrays

MODEL = FILES / "imputer-0.1.hhvaem"
# Snapshots after every hundred steps, and not only every ten seconds.
OFTEN = "from hhvaem import train; train.train.__kwdefaults__['snapshot_seconds'] = 0.0"
STEPS = "5000" if RESULTS else "1500"
FIT = ["fit", "a.parquet", "--preset", "fast", "--steps", STEPS, "--snapshots", "kept"]
IMPUTE = ["impute", str(MODEL), "a.parquet", "--rows-at-once", "50", "--posterior", "encoder"]
WORK = {
    "fit": (40, [*FIT, "--out", "out"], "out"),
    "impute": (4_000, [*IMPUTE, "--out", "out.csv"], "out.csv"),
}


def told_by(path: Path) -> Any:
    """Give what a file says: safetensors puts the parts of a header in any order."""
    content = path.read_bytes()
    if content == b"old" or path.suffix == ".csv":
        return content
    arrays, manifest = read_arrays(path)
    return fingerprint(arrays), manifest


class Case:
    """A command in folders of its own, each with a table and an old file in the place of a new."""

    # Of commands that nothing has ended: what they wrote, and in how many seconds.
    _undisturbed: ClassVar[dict[str, tuple[Any, float]]] = {}

    def __init__(self, victims: Victims, folder: Path, name: str) -> None:
        self._victims, self._folder, self._name = victims, folder, name
        self._rows, self._arguments, self._out = WORK[name]
        # Twice, as the first run compiles.
        for _ in range(0 if name in self._undisturbed else 2):
            self.place = self.new_place()
            ended = self.run()
            assert ended.status == 0, ended
            self._undisturbed[name] = (told_by(self.out), ended.seconds)
        self._whole, self.seconds = self._undisturbed[name]
        assert self._whole != b"old"
        self.place = self.new_place()

    @property
    def out(self) -> Path:
        return self.place / self._out

    def new_place(self) -> Path:
        place = self._folder / str(len(list(self._folder.iterdir())))
        place.mkdir()
        write_table(table(self._rows), place / "a.parquet")
        (place / self._out).write_bytes(b"old")
        return place

    def run(self, **options: Any) -> Ended:
        """Run the command; `options` are those of `Victims.run`."""
        first = OFTEN + "\n" + options.pop("first", "")
        return self._victims.run(self.place, self._arguments, first=first, **options)

    def check(self, *, done: bool) -> None:
        """Look at all that there is after a command has ended in one way or another."""
        told = told_by(self.out)
        assert told == self._whole or (told == b"old" and not done)
        for path in self.snapshots:
            read_arrays(path)
        if done:
            assert not self.left

    @property
    def snapshots(self) -> list[Path]:
        return list(self.place.rglob("*.safetensors"))

    @property
    def left(self) -> list[Path]:
        """What writers have left behind."""
        return list(self.place.rglob(".hhvaem.*.tmp"))
