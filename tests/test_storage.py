"""What is stored comes back bit for bit or is refused in a sentence, whatever kills the writer."""

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import pickle
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import safetensors.numpy
from hypothesis import example, given, settings
from hypothesis.extra import numpy as hnp

from hhvaem import __version__, train
from hhvaem.errors import InputError
from hhvaem.marginals import Direct
from hhvaem.model import Model
from hhvaem.storage import (
    FORMAT,
    Snapshots,
    fingerprint,
    open_snapshots,
    pack,
    read_arrays,
    unpack,
    write_arrays,
)

DTYPES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
DTYPES += ["float16", "bfloat16", "float32", "float64"]
ARRAYS = {"a": np.arange(3, dtype=np.float32), "b.c": np.array(True)}
MANIFEST = {"schema": {"columns": ["é", 1, None]}, "rate": 0.1}
IDENTITY = {"settings": {"steps": 300, "layers": [4, 2], "inference": "hmc"}, "data": "1f" * 32}


class Pair(NamedTuple):
    first: Any
    second: Any


def same(one: Any, other: Any) -> bool:
    """Say whether two dictionaries of arrays are the same to the bit."""
    parts = ({k: (a.dtype, a.shape, a.tobytes()) for k, a in x.items()} for x in (one, other))
    return next(parts) == next(parts)


def types(tree: Any) -> list[Any]:
    return [jax.typeof(leaf) for leaf in jax.tree.leaves(eqx.filter(tree, eqx.is_array))]


def blank(leaf: Any) -> Any:
    if not eqx.is_array(leaf):
        return leaf
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.split(jax.random.key(99, impl=jax.random.key_impl(leaf)), leaf.shape)
    return jnp.zeros_like(leaf) if isinstance(leaf, jax.Array) else leaf * 0


def enable_x64() -> Any:
    return (jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64)(True)


@st.composite
def some_array(draw: st.DrawFn) -> np.ndarray:
    """Draw any bits at all: all NaNs, both zeros, denormal numbers."""
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
    count = int(np.prod(shape)) * dtype.itemsize
    bits = np.frombuffer(draw(st.binary(min_size=count, max_size=count)), np.uint8)
    return (bits % 2 if dtype.name == "bool" else bits).view(dtype).reshape(shape)


names = st.text(st.characters(exclude_categories=["Cs"]))


@given(st.dictionaries(names, some_array(), max_size=4))
@settings(max_examples=60, deadline=None)
@example({})
@example({"": np.array(-0.0)})
def test_any_bits_come_back(arrays: dict[str, np.ndarray]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "Größe 日本.safetensors")
        write_arrays(path, arrays, MANIFEST)
        read, manifest = read_arrays(path)
    assert same(read, arrays)
    assert manifest == MANIFEST
    with enable_x64():
        tree = {name: jnp.asarray(array) for name, array in arrays.items()}
        assert same(pack(unpack(jax.tree.map(jnp.zeros_like, tree), read)), arrays)


@pytest.mark.parametrize(
    "array",
    [
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(24.0).reshape(2, 3, 4)[:, ::-2].transpose(2, 0, 1),
        np.arange(5, dtype=">i4"),
        np.broadcast_to(np.float32(2), (3, 2)),
    ],
)
def test_memory_may_lie_in_any_order(tmp_path: Path, array: np.ndarray) -> None:
    write_arrays(tmp_path / "a", {"x": array}, {})
    read = read_arrays(tmp_path / "a")[0]["x"]
    np.testing.assert_array_equal(read, array, strict=array.dtype.isnative)
    assert fingerprint({"x": array}) == fingerprint({"x": read})


def test_other_programs_can_read_the_file(tmp_path: Path) -> None:
    write_arrays(tmp_path / "a", ARRAYS, MANIFEST)
    assert same(safetensors.numpy.load_file(tmp_path / "a"), ARRAYS)
    with safetensors.safe_open(tmp_path / "a", "np") as file:
        metadata = file.metadata()
    assert json.loads(metadata["manifest"]) == MANIFEST
    head = json.loads(metadata["hhvaem"])
    assert (head["format"], head["version"]) == (FORMAT, __version__)


def test_trees_of_all_kinds() -> None:
    params = {"w": jnp.array([[1.5, -0.0]]), "b": jnp.array(jnp.nan, jnp.bfloat16)}
    state = optax.chain(optax.clip(1.0), optax.adam(1e-3)).init(params)
    linear = eqx.nn.Linear(2, 3, use_bias=False, key=jax.random.key(0))
    tree = {
        "params": Pair(params, (linear, None)),
        "moments": state,
        "keys": jax.random.split(jax.random.key(1), 2),
        "rest": [jax.nn.relu, "text", 3, np.ones(2), np.float32(4), jnp.array(True)],
    }
    packed = pack(tree)
    assert list(packed) == [
        "keys",
        "moments.1.0.count", "moments.1.0.mu.b", "moments.1.0.mu.w",
        "moments.1.0.nu.b", "moments.1.0.nu.w",
        "params.first.b", "params.first.w", "params.second.0.weight",
        "rest.3", "rest.4", "rest.5",
    ]  # fmt: skip
    again = unpack(jax.tree.map(blank, tree), packed)
    assert jax.tree.structure(again) == jax.tree.structure(tree)
    assert same(pack(again), packed)
    assert again["rest"][:3] == tree["rest"][:3]
    assert [type(leaf) for leaf in again["rest"]] == [type(leaf) for leaf in tree["rest"]]
    assert isinstance(again["moments"][0], optax.EmptyState)
    assert again["moments"][1][0].count.dtype == jnp.int32


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_random_keys_go_on_as_they_would(impl: str) -> None:
    key = jax.random.key(3, impl=impl)
    again = unpack(jax.random.key(0, impl=impl), pack(key))
    assert jax.random.key_impl(again) == jax.random.key_impl(key)
    np.testing.assert_array_equal(jax.random.normal(again, 5), jax.random.normal(key, 5))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"w.0": None}, "The array 'w.0' is missing."),
        ({"z": np.zeros(1)}, "There is no place for the array 'z'."),
        ({"b": np.zeros((2, 1), np.float32)}, "'b' is float32[2, 1], where float32[2] is needed."),
        ({"b": np.zeros(2, np.int32)}, "'b' is int32[2], where float32[2] is needed."),
        ({"b": np.zeros(2)}, "'b' is float64[2], where float32[2] is needed."),
        ({"key": np.zeros(4, np.uint32)}, "'key' is uint32[4], where uint32[2] is needed."),
    ],
)
def test_arrays_that_do_not_fit(changed: dict[str, np.ndarray | None], message: str) -> None:
    like = {"w": [jnp.zeros(3)], "b": jnp.zeros(2), "key": jax.random.key(0), "f": jax.nn.relu}
    unpack(like, pack(like))
    arrays = {name: a for name, a in (pack(like) | changed).items() if a is not None}
    with pytest.raises(InputError, match=f"{re.escape(message)}$"):
        unpack(like, arrays)


def test_double_precision_is_not_lost_unsaid() -> None:
    with enable_x64():
        like = {"w": jnp.array([0.1])}
    with pytest.raises(InputError, match="The array 'w' is float64; set jax_enable_x64"):
        unpack(like, pack(like))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"__metadata__": np.zeros(1)}, "the name '__metadata__'"),
        ({"\ud800": np.zeros(1)}, r"the name '\\ud800'"),
        ({"x": np.array(["text"])}, "'x' is of dtype <U4"),
        ({"x": np.array([{}])}, "'x' is of dtype object"),
        ({"x": np.array(["2020"], "M8[D]")}, "'x' is of dtype datetime64"),
        ({"x": np.zeros(1, complex)}, "'x' is of dtype complex128"),
    ],
)
def test_arrays_that_cannot_be_stored(
    tmp_path: Path, arrays: dict[str, np.ndarray], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        write_arrays(tmp_path / "a", arrays, {})
    assert not list(tmp_path.iterdir())


def test_two_arrays_of_one_name() -> None:
    with pytest.raises(InputError, match=r"the name 'a\.0'"):
        pack({"a": [jnp.zeros(1)], "a.0": jnp.ones(1)})


def test_no_damage_goes_unnoticed(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_arrays(path, ARRAYS, MANIFEST)
    content = path.read_bytes()
    damaged = [content[:end] for end in range(len(content))] + [content + b"\0"]
    for place in range(len(content)):
        damaged.append(bytearray(content))
        damaged[-1][place] ^= 1 << place % 8
    passed = 0
    for bad in damaged:
        path.write_bytes(bad)
        with contextlib.suppress(InputError):
            arrays, manifest = read_arrays(path)
            assert same(arrays, ARRAYS)
            assert manifest == MANIFEST
            passed += 1
    # Nothing but an older format or another version is believed.
    assert passed <= len("1" + "version" + __version__)


def metadata(**head: Any) -> dict[str, str]:
    return {"hhvaem": json.dumps(head), "manifest": "{}"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is damaged or no file of hhvaem; give one that `hhvaem fit` or `save` wrote"),
        (b"age,city\n31,Rome\n", "is damaged or no file of hhvaem"),
        (pickle.dumps(ARRAYS), "is damaged or no file of hhvaem"),
        (safetensors.numpy.save(ARRAYS), "is damaged or no file of hhvaem"),
        (safetensors.numpy.save(ARRAYS, {"format": "pt"}), "is damaged or no file of hhvaem"),
        (safetensors.numpy.save(ARRAYS, {"hhvaem": "[" * 10**5}), "is damaged or no file"),
        (safetensors.numpy.save(ARRAYS, metadata(format="1")), "is damaged or no file of hhvaem"),
        (b"\xff" * 8 + b"{}", "is damaged or no file of hhvaem"),
        (
            safetensors.numpy.save(ARRAYS, metadata(format=FORMAT + 1, version="9.1")),
            r"is of the newer hhvaem 9\.1; update this one\.",
        ),
    ],
    ids=["empty", "csv", "pickle", "plain", "other", "deep", "no number", "huge head", "newer"],
)
def test_files_that_are_not_ours(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(InputError, match=f"a {message}"):
        read_arrays(tmp_path / "a")


def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        for use in (lambda path: write_arrays(path, ARRAYS, {}), read_arrays):
            with pytest.raises(InputError, match=f"{path} is a folder or a device; name a file"):
                use(path)
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing/a", "No such file or directory"),
        ("file/a", "Not a directory"),
        ("x" * 300, "File name too long"),
        ("a\0b", "no file name has a null character"),
    ],
)
def test_paths_that_lead_nowhere(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=f"cannot be read: {reason}"):
        read_arrays(tmp_path / name)
    with pytest.raises(InputError, match=f"cannot be written: {reason}"):
        write_arrays(tmp_path / name, ARRAYS, {})
    assert os.listdir(tmp_path) == ["file"]


def test_links_permissions_and_long_names(tmp_path: Path) -> None:
    path, link = tmp_path / ("x" * 255), tmp_path / "link"
    link.symlink_to(path.name)
    for number in range(2):  # first the link points nowhere
        write_arrays(link, ARRAYS, {"number": number})
        assert link.is_symlink()
        assert read_arrays(path)[1] == read_arrays(link)[1] == {"number": number}
    path.chmod(0o600)
    write_arrays(link, ARRAYS, {})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    (tmp_path / "usual").touch()
    write_arrays(tmp_path / "new", ARRAYS, {})
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_a_file_that_must_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_arrays(tmp_path / "a", ARRAYS, {})
    monkeypatch.setattr(os, "access", lambda *_: False)  # of a real one root would not notice
    with pytest.raises(InputError, match="a cannot be written: its permissions forbid it"):
        write_arrays(tmp_path / "a", {}, {})
    assert same(read_arrays(tmp_path / "a")[0], ARRAYS)


def unwritable(tmp_path: Path) -> Path:
    folder = tmp_path / "locked"
    folder.mkdir()
    folder.chmod(0o500)
    if os.access(folder, os.W_OK):  # as root
        folder = Path("/proc/self")
    if not folder.is_dir():
        pytest.skip("no folder forbids this user to write")
    return folder


def test_a_folder_that_must_not_be_written(tmp_path: Path) -> None:
    folder = unwritable(tmp_path)
    with pytest.raises(InputError, match=f"{folder}/a cannot be written: "):
        write_arrays(folder / "a", ARRAYS, {})
    with pytest.raises(InputError, match=f"{folder} cannot be a folder for snapshots: "):
        open_snapshots(folder, {})


@pytest.mark.parametrize(
    ("failure", "expected"),
    [(OSError(errno.ENOSPC, "No space left on device"), InputError), (KeyboardInterrupt(), None)],
)
def test_a_failure_leaves_the_old_file_and_nothing_else(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    failure: BaseException,
    expected: type[BaseException] | None,
) -> None:
    def fail(_: int) -> None:
        raise failure

    snapshots = open_snapshots(tmp_path, IDENTITY)
    snapshots.save(jnp.ones(2), {"step": 1})
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(expected or KeyboardInterrupt) as caught:
        snapshots.save(jnp.zeros(2), {"step": 2})
    if expected:
        message = f"{snapshots.path} cannot be written: No space left on device."
        assert str(caught.value) == message
    arrays, manifest = read_arrays(snapshots.path)
    np.testing.assert_array_equal(arrays["state"], 1)
    assert manifest["info"] == {"step": 1}
    assert list(tmp_path.iterdir()) == [snapshots.path]


def test_bytes_then_name_are_made_durable_under_a_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    fsync, replace = os.fsync, os.replace

    def noted_fsync(number: int) -> None:
        status = os.fstat(number)
        done.append("folder" if stat.S_ISDIR(status.st_mode) else f"{status.st_size} bytes")
        fsync(number)

    def noted_replace(beside: Path, place: Path) -> None:
        with beside.open("r+b") as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        done.append("replace")
        replace(beside, place)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "replace", noted_replace)
    write_arrays(tmp_path / "a", ARRAYS, {})
    assert done == [f"{(tmp_path / 'a').stat().st_size} bytes", "replace", "folder"]


def test_what_a_killed_writer_left_goes_with_the_next_write(tmp_path: Path) -> None:
    for path, content in ((".hhvaem.half.tmp", "half of i"), (".hhvaem.empty.tmp", "")):
        (tmp_path / path).write_text(content)
    write_arrays(tmp_path / "a", ARRAYS, {})
    assert os.listdir(tmp_path) == ["a"]


def test_many_at_once(tmp_path: Path) -> None:
    path, troubles, stop = tmp_path / "a", list[BaseException](), threading.Event()

    def number(value: int) -> dict[str, np.ndarray]:
        return {"x": np.full(50_000, value), "y": np.array(value)}

    def write(seed: int) -> None:
        for value in range(seed, 60, 3):
            write_arrays(path, number(value), {"value": value})

    def read(_: int) -> None:
        while not stop.is_set():
            arrays, manifest = read_arrays(path)
            assert same(arrays, number(manifest["value"]))

    def noted(work: Callable[[int], None], seed: int) -> None:
        try:
            work(seed)
        except BaseException as error:
            troubles.append(error)

    write(0)
    writers = [threading.Thread(target=noted, args=(write, seed)) for seed in range(3)]
    readers = [threading.Thread(target=noted, args=(read, seed)) for seed in range(2)]
    for thread in readers + writers:
        thread.start()
    for thread in writers:
        thread.join()
    stop.set()
    for thread in readers:
        thread.join()
    assert not troubles
    assert list(tmp_path.iterdir()) == [path]


KILLED = """
import os, random, signal, sys, time
from pathlib import Path
import numpy as np
from hhvaem.storage import read_arrays, write_arrays

path, dice, hit = Path(sys.argv[1]), random.Random(0), 0

def write(value):
    write_arrays(path, {"x": np.full(100_000, value), "y": np.array(value)}, {"value": value})

write(0)
for _ in range(20):
    start = read_arrays(path)[1]["value"]
    child = os.fork()
    if not child:
        while True:
            start += 1
            write(start)
    time.sleep(dice.uniform(0, 0.06))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    hit += any(left.stat().st_size for left in path.parent.glob(".*"))
    arrays, manifest = read_arrays(path)
    assert manifest["value"] >= start
    assert (arrays["x"] == manifest["value"]).all() and arrays["y"] == manifest["value"]
assert hit > 0, "no kill came while a file was being written"
write(0)
assert not any(path.parent.glob(".*"))
"""

FULL = """
import resource, sys
import numpy as np
from hhvaem.errors import InputError
from hhvaem.storage import write_arrays

resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
try:
    write_arrays(sys.argv[1], {"x": np.zeros(100_000)}, {})
except InputError as error:
    print(error)
"""


def run(code: str, path: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, timeout=120
    )
    assert not done.returncode, done.stderr
    return done.stdout


def test_killed_at_any_moment_the_file_is_whole(tmp_path: Path) -> None:
    run(KILLED, tmp_path / "a")


def test_a_full_disk(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_arrays(path, ARRAYS, {})
    assert run(FULL, path) == f"{path} cannot be written: File too large.\n"
    assert same(read_arrays(path)[0], ARRAYS)
    assert list(tmp_path.iterdir()) == [path]


def test_fingerprints_tell_all_but_the_order() -> None:
    tree = {"a": np.array([1, 0], np.float32), "b": [np.zeros((2, 3), np.int32)]}
    expected = hashlib.sha256(
        b'["a", "float32", [2]]' + tree["a"].tobytes() + b'["b.0", "int32", [2, 3]]' + bytes(24)
    )
    assert fingerprint(tree) == expected.hexdigest()
    alike = {"b": [jnp.zeros((2, 3), jnp.int32)], "f": jax.nn.relu, "a": jnp.array([1.0, 0.0])}
    assert fingerprint(alike) == fingerprint(tree)
    others = [
        tree | {"a": np.array([1, -0.0], np.float32)},
        tree | {"a": np.array([1, 0], np.int32)},
        tree | {"a": tree["a"][None]},
        tree | {"b": tree["b"][0]},
        tree | {"b": [tree["b"][0].T]},
        tree | {"c": np.zeros(0)},
        {"b": tree["b"]},
        {"b": [tree["a"]], "a": tree["b"][0]},
        tree | {"a": jax.random.key(0)},
        tree | {"a": jax.random.key(1)},
    ]
    assert len({fingerprint(other) for other in [tree, *others]}) == len(others) + 1


@pytest.fixture(scope="module")
def state() -> train.State:
    key = jax.random.key(0)
    marginals, targets = Direct((1, 3, 2), jnp.zeros(5)), Direct((2,), jnp.zeros(1))
    model = Model.init(marginals, targets, (3, 2), hidden=8, key=key)
    return train.init(model, train.Settings(transitions=3), key=key)


def test_training_comes_back_whole(tmp_path: Path, state: train.State) -> None:
    history = {"loss": np.array([[2.5, np.nan]], np.float32), "none": np.zeros((1, 0))}
    info = {"step": 2, "told": [0.1, None], "nan": float("nan"), **history}
    snapshots = open_snapshots(tmp_path / "deep" / "er", IDENTITY)
    assert snapshots.load(state) is None
    snapshots.save(state, info)
    loaded = open_snapshots(str(tmp_path / "deep" / "er"), IDENTITY).load(
        jax.tree.map(blank, state)
    )
    assert loaded is not None
    again, told = loaded
    assert jax.tree.structure(again) == jax.tree.structure(state)
    assert same(pack(again), pack(state))
    assert types(again) == types(state)
    assert "model.encoder.first.layers.0.weight" in pack(again)
    assert jax.random.key_impl(again.key) == jax.random.key_impl(state.key)
    assert same({name: told.pop(name) for name in history}, history)
    assert np.isnan(told.pop("nan"))
    assert told == {"step": 2, "told": [0.1, None]}
    assert os.listdir(snapshots.folder) == [snapshots.path.name]


def test_opening_removes_what_a_killed_writer_left(tmp_path: Path) -> None:
    for name in (".hhvaem.half.tmp", ".hhvaem.empty.tmp", ".other.tmp", "hhvaem.mine.tmp"):
        (tmp_path / name).write_text("half of i" if "half" in name else "")
    open_snapshots(tmp_path, IDENTITY)
    assert sorted(os.listdir(tmp_path)) == [".other.tmp", "hhvaem.mine.tmp"]


def test_a_folder_that_vanished_is_made_again(tmp_path: Path) -> None:
    snapshots = open_snapshots(tmp_path / "deep" / "er", IDENTITY)
    snapshots.save(jnp.ones(2), {"step": 1})
    shutil.rmtree(tmp_path / "deep")
    snapshots.save(jnp.ones(2), {"step": 2})
    loaded = snapshots.load(jnp.zeros(2))
    assert loaded is not None
    assert loaded[1] == {"step": 2}
    shutil.rmtree(tmp_path / "deep")
    (tmp_path / "deep").touch()
    with pytest.raises(InputError, match="er cannot be a folder for snapshots: Not a directory"):
        snapshots.save(jnp.ones(2), {"step": 3})


def test_a_snapshot_that_does_not_fit(tmp_path: Path, state: train.State) -> None:
    snapshots = open_snapshots(tmp_path, IDENTITY)
    snapshots.save(state, {})
    with pytest.raises(InputError) as caught:
        snapshots.load(state._replace(directions=jnp.eye(6)))
    assert str(caught.value) == (
        f"{snapshots.path} is of another training (The array 'state.directions' is "
        "float32[5, 5], where float32[6, 6] is needed); choose an empty folder."
    )


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"steps": 400}, "'settings.steps' is 300 there and 400 here"),
        ({"steps": 300.0}, "'settings.steps' is 300 there and 300.0 here"),
        ({"new": None}, "'settings.new' is missing there and null here"),
        ({"layers": [4]}, "'settings.layers.1' is 2 there and missing here"),
        ({"inference": None}, "'settings.inference' is \"hmc\" there and null here"),
        ({"steps": [1] * 30}, "'settings.steps.0' is missing there and 1 here"),
        ({"steps": "x" * 99}, f"'settings.steps' is 300 there and \"{'x' * 56}... here"),
        ({"new": 1, "steps": 1, "layers": []}, "'settings.layers' is missing there and [] here"),
    ],
)
def test_a_snapshot_of_another_training_is_refused(
    tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    snapshots = open_snapshots(tmp_path, IDENTITY)
    snapshots.save([jnp.ones(2)], {})
    content = snapshots.path.read_bytes()
    other = IDENTITY | {"settings": IDENTITY["settings"] | changed}
    expected = f"{snapshots.path} is of another training ({message}); choose an empty folder."
    for use in (open_snapshots, lambda *both: Snapshots(*both).load([jnp.ones(2)])):
        with pytest.raises(InputError, match=f"^{re.escape(expected)}$"):
            use(tmp_path, other)
    assert snapshots.path.read_bytes() == content


def test_an_identity_is_what_its_json_says(tmp_path: Path) -> None:
    identity = {"layers": (4, 2), "nan": float("nan"), "none": []}
    snapshots = open_snapshots(tmp_path, identity)
    identity["layers"] = (5,)
    snapshots.save(jnp.ones(2), {})
    assert open_snapshots(tmp_path, {"nan": float("nan"), "none": [], "layers": [4, 2]}).load(
        jnp.zeros(2)
    )
    for other in ({}, None, [None]):
        with pytest.raises(InputError, match="is of another training"):
            open_snapshots(tmp_path, {"layers": [4, 2], "nan": float("nan"), "none": other})


def test_folders_that_cannot_have_snapshots(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="file is a file; snapshots need a folder"):
        open_snapshots(tmp_path / "file", IDENTITY)
    for name in ("file/deeper", "null\0"):
        with pytest.raises(InputError, match="cannot be a folder for snapshots: "):
            open_snapshots(tmp_path / name, IDENTITY)
    path = open_snapshots(tmp_path, IDENTITY).path
    write_arrays(path, ARRAYS, MANIFEST)
    with pytest.raises(InputError, match=f"{path} is of another training"):
        open_snapshots(tmp_path, IDENTITY)
    path.write_bytes(path.read_bytes()[:-1])
    damaged = f"{path} is damaged or no file of hhvaem; choose an empty folder."
    with pytest.raises(InputError, match=re.escape(damaged)):
        open_snapshots(tmp_path, IDENTITY)
