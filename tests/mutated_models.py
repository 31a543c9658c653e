"""Model files that somebody has damaged or forged, and what becomes of them.

Run by itself (`python tests/mutated_models.py COUNT`), where no type checker of the tests refuses
anything before the library does, and where memory is that of the library.
"""

import copy
import io
import json
import os
import pickle
import random
import sys
import tempfile
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from hostile_models import ARRAY_WAYS, MANIFEST_WAYS, ODD, change, places, spoil
from saved_models import FILES, NAMES, answer, table

from hhvaem import load
from hhvaem.errors import InputError
from hhvaem.storage import read_arrays, write_arrays

# What nobody who reads a file does.
FORBIDDEN = (
    "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.remove", "os.rename", "os.spawn",
    "os.startfile", "os.system", "pickle.find_class", "shutil.rmtree", "socket.connect",
    "subprocess.Popen",
)  # fmt: skip
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
COUNTS = ("hidden", "layers", "depth", "chains", "kept", "transitions", "leapfrog", "members")
# Of a row; a file may ask for more, and whoever uses it pays in memory for each.
MOST_CHAINS = 1_000


class Bomb:
    """Leaves a file where a pickle of it is loaded."""

    def __reduce__(self) -> Any:
        return open, ("run", "w")


def flipped(content: bytes, dice: random.Random) -> bytes:
    """Flip bits; as often in the header as in the rest."""
    found = bytearray(content)
    header = 8 + int.from_bytes(content[:8], "little")
    for _ in range(dice.randint(1, 8)):
        most = dice.choice([8, header, len(content)])
        found[dice.randrange(most)] ^= 1 << dice.randrange(8)
    return bytes(found)


def cut(content: bytes, dice: random.Random) -> bytes:
    """Leave the end, the start or something in between away, or put something behind."""
    at, end = sorted(dice.choices(range(len(content)), k=2))
    return dice.choice(
        [content[:at], content[at:], content[:at] + content[end:], content + content[at:end]]
    )


def in_header(content: bytes, dice: random.Random) -> bytes:
    """Change what safetensors says of arrays: swap them, or say that they are huge."""
    size = int.from_bytes(content[:8], "little")
    header, rest = json.loads(content[8 : 8 + size]), content[8 + size :]
    one, two = dice.sample([name for name in header if name != "__metadata__"], 2)
    way = dice.choice(["swapped", "offsets", "shape", "end", "length", "dtype"])
    huge = dice.choice([2**31, 2**40, 2**62, 2**64, 10**30])
    if way == "swapped":
        header[one], header[two] = header[two], header[one]
    elif way == "offsets":
        offsets = [header[name]["data_offsets"] for name in (one, two)]
        header[one]["data_offsets"], header[two]["data_offsets"] = offsets[::-1]
    elif way == "shape":
        header[one]["shape"] = dice.choice([[huge], [huge, 0], [0, huge], [1] * 10**4, [-1]])
    elif way == "end":
        header[one]["data_offsets"][1] = huge
    elif way == "dtype":
        header[one]["dtype"] = dice.choice(["F64", "I8", "F8_E4M3", "O", "BF16", huge])
    text = json.dumps(header).encode()
    stated = min(huge, 2**64 - 1) if way == "length" else len(text)
    return stated.to_bytes(8, "little") + text + rest


def pickled(_: bytes, dice: random.Random) -> bytes:
    """Make a pickle, an archive of NumPy with one, or one that is zipped as PyTorch does."""
    bomb = pickle.dumps(Bomb(), protocol=dice.randint(0, 5))
    way = dice.choice(["plain", "numpy", "zip"])
    if way == "plain":
        return bomb
    packed = io.BytesIO()
    if way == "numpy":
        np.savez(packed, weights=np.array([Bomb()], dtype=object), allow_pickle=True)
    else:
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("archive/data.pkl", bomb)
    return packed.getvalue()


def swapped(arrays: Any, _: Any, dice: random.Random) -> None:
    """Put an array in the place of another, if there is one of its shape, and the other way."""
    one = dice.choice(sorted(arrays))
    alike = [
        name
        for name in sorted(arrays)
        if arrays[name].shape == arrays[one].shape and arrays[name].dtype == arrays[one].dtype
    ]
    two = dice.choice(alike if len(alike) > 1 else sorted(arrays))
    arrays[one], arrays[two] = arrays[two], arrays[one]


def counted(_: Any, manifest: Any, dice: random.Random) -> None:
    """Say that there is a huge number of something."""
    where = [place for place in places(manifest) if place[-1] in COUNTS]
    *path, last = dice.choice(where)
    for key in path:
        manifest = manifest[key]
    huge = dice.choice([10**5, 2**20, 2**30, 2**31 - 1, 2**40, 10**30])
    manifest[last] = [huge] if isinstance(manifest[last], list) else huge


def named(arrays: Any, manifest: Any, dice: random.Random) -> None:
    """Put the paths of files where there are names."""
    path = dice.choice(["../../run", "/etc/passwd", f"{os.getcwd()}/run", "run\0", "file:///run"])
    way = dice.choice(["array", "column", "parameter", "estimator", "version"])
    if way == "array":
        arrays[path] = arrays.pop(dice.choice(sorted(arrays)))
    elif way == "column":
        dice.choice(manifest["schema"]["columns"])["name"] = path
    elif way == "parameter":
        manifest["parameters"][dice.choice(sorted(manifest["parameters"]))] = path
    elif way == "estimator":
        manifest["estimator"] = dice.choice([path, "os.system", "builtins.eval"])
    else:
        manifest["versions"] = {path: path}


def edited(arrays: Any, manifest: Any, dice: random.Random) -> None:
    """Change anything that the file says, or what is in its arrays."""
    number = len(ODD) * 10**4
    if dice.random() < 0.7:
        change(manifest, dice.choice(MANIFEST_WAYS), dice.randrange(number), dice.randrange(number))
    else:
        spoil(arrays, dice.choice(ARRAY_WAYS), dice.randrange(number), dice.randrange(number))


# What is damaged is refused, or as it was. What is forged, checksum and all, may be another model.
DAMAGES: tuple[Callable[..., bytes], ...] = (flipped, cut, in_header, pickled)
FORGERIES: tuple[Callable[..., None], ...] = (swapped, counted, named, edited)


def memory(which: str) -> int:
    """Give how many MiB this process has, or has had at most."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(which)) // 2**10


def main(count: int) -> None:
    """Load damaged and forged files, use what was loaded, and print what became of them."""
    watched: list[str] = []
    watching = False

    def watch(event: str, args: tuple[Any, ...]) -> None:
        writes = event == "open" and isinstance(args[2], int) and bool(args[2] & WRITING)
        if watching and (writes or event in FORBIDDEN):
            watched.append(f"{event}{args}")

    sys.addaudithook(watch)
    dice, facts = random.Random(0), Counter[str]()
    files = {name: (FILES / f"{name}-0.1.hhvaem").read_bytes() for name in NAMES}
    parts = {name: read_arrays(FILES / f"{name}-0.1.hhvaem") for name in NAMES}
    said = {name: answer(load(FILES / f"{name}-0.1.hhvaem")) for name in NAMES}
    columns = set(table().column_names)
    grown = 0
    for i in range(count):
        name = NAMES[i % len(NAMES)]
        way = dice.choice(DAMAGES + FORGERIES)
        if way in DAMAGES:
            Path("a").write_bytes(way(files[name], dice))
        else:
            arrays, manifest = copy.deepcopy(parts[name])
            way(arrays, manifest, dice)
            try:
                write_arrays("a", arrays, manifest)
            except InputError:  # a name that no file can hold
                facts["not written"] += 1
                continue
        before = memory("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # from here on VmHWM is a new peak
        watching = True
        try:
            model = load("a")
        except InputError:
            facts["refused"] += 1
            model = None
        finally:
            watching = False
        grown = max(grown, memory("VmHWM") - before)
        assert not watched, (way, watched)
        assert sorted(os.listdir()) == ["a"], way
        if model is None:
            continue
        if way in DAMAGES:
            assert answer(model) == said[name], way
            facts["the same"] += 1
        elif model.fitted_ and model.fitted_.plan.how.chains > MOST_CHAINS:
            facts["of very many draws"] += 1
        elif set(model.schema_.names) <= columns:
            try:
                with warnings.catch_warnings(action="ignore"):
                    answer(model)
                facts["another model"] += 1
            except InputError:
                facts["refused in use"] += 1
        else:
            facts["of another table"] += 1
    print(json.dumps({"files": count, **facts, "MiB at most for one": grown}))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        main(int(sys.argv[1]))
