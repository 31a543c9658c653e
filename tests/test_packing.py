"""An encoding comes back bit for bit from JSON and arrays, and nothing else makes one."""

import copy
import dataclasses
import importlib
import inspect
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import event, example, given, settings
from laws import CASES

import hhvaem
from hhvaem.encoding import Encoding, gaussianised_encoding, standardised_encoding
from hhvaem.errors import InputError
from hhvaem.example import clinic
from hhvaem.gaussianise import Gaussianising, fit_gaussianising
from hhvaem.inference import infer_schema
from hhvaem.likelihoods import Binary, Categorical, Likelihood, Ordered
from hhvaem.packing import LAWS, WARPS, pack_encoding, unpack_encoding
from hhvaem.storage import read_arrays, write_arrays
from hhvaem.table import encode
from hhvaem.warps import Affine, Levels, Log, Rounded, Warp

TABLE = Gaussianising(
    np.array([-1.0, 0.0, 0.0, 0.5]), np.array([-2.0, -1.0, 1.0, 2.0]), 4.0, -np.inf, np.inf, True
)
# One of everything, small.
SMALL = Encoding(
    (
        Binary(),
        Ordered(TABLE),
        Categorical(3),
        Ordered(Rounded(Log(1.0, 0.7), 1.0, 0.0, np.inf)),
        Ordered(Affine(0.1, 1e-9)),
        Ordered(Levels(np.array([-1e4, -0.3, 0.4, 1e4]))),
        Ordered(Rounded(TABLE, 0.5, -2.0, 2.0, central=True)),
    )
)


def concrete(base: type) -> Iterator[type]:
    """Give all classes of the package that can be made and are of a kind, however far down."""
    for cls in base.__subclasses__():
        if cls.__module__.partition(".")[0] == hhvaem.__name__ and not inspect.isabstract(cls):
            yield cls
        yield from concrete(cls)


def parts(module: Any) -> Iterator[Any]:
    """Give a law or a warp and all that it holds."""
    yield module
    for field in dataclasses.fields(module):
        if dataclasses.is_dataclass(value := getattr(module, field.name)):
            yield from parts(value)


def bits(module: Any) -> list[Any]:
    """Give all that a law or a warp has, as what can be compared to the last bit."""
    shown: list[Any] = [type(module)]
    for field in dataclasses.fields(module):
        value = getattr(module, field.name)
        if dataclasses.is_dataclass(value):
            shown.append(bits(value))
        elif isinstance(value, np.ndarray):
            shown.append((value.dtype, value.shape, value.tobytes()))
        else:
            shown.append(float(value).hex())
    return shown


def draws(encoding: Encoding) -> np.ndarray:
    """Draw latent numbers, also from far out, and levels."""
    rng = np.random.default_rng(0)
    numbers = np.concatenate([rng.normal(size=40), 10.0 * rng.normal(size=20), [-1e4, 0.0, 1e4]])
    levels = encoding.levels
    return np.stack([numbers if n == 1 else np.arange(numbers.size) % n * 1.0 for n in levels], 1)


def use(encoding: Encoding, values: np.ndarray | None = None) -> list[bytes]:
    """Give the bits of all that an encoding makes, by default of its own values."""
    latent = draws(encoding)
    with np.errstate(all="ignore"):  # extreme warps overflow as they may
        decoded = encoding.decode(latent)
        values = decoded if values is None else values
        mask = ~np.isnan(values)
        made = [decoded, *encoding.encode(values, mask), encoding.log_measure(values, mask)]
    return [np.asarray(array).tobytes() for array in made]


def through_json(encoding: Encoding) -> tuple[Any, dict[str, np.ndarray]]:
    description, arrays = pack_encoding(encoding)
    return json.loads(json.dumps(description, allow_nan=False)), arrays


def assert_same(read: Encoding, encoding: Encoding) -> None:
    assert list(map(bits, read.laws)) == list(map(bits, encoding.laws))
    assert use(read) == use(encoding)


def test_every_class_has_a_name() -> None:
    bases = [Likelihood, Warp, *LAWS.values(), *WARPS.values()]
    declaring = re.compile(rf"class \w+\([^)]*\b({'|'.join(cls.__name__ for cls in bases)})\b")
    package = Path(hhvaem.__file__).parent
    for path in package.rglob("*.py"):
        if declaring.search(path.read_text("utf-8")):
            importlib.import_module(
                ".".join(path.relative_to(package.parent).with_suffix("").parts)
            )
    assert set(LAWS.values()) == set(concrete(Likelihood))
    assert set(WARPS.values()) == set(concrete(Warp))


def test_every_class_is_tried() -> None:
    for laws in (SMALL.laws, [case.law for case in CASES.values()]):
        tried = {type(part) for law in laws for part in parts(law)}
        assert tried == {*LAWS.values(), *WARPS.values()}


@pytest.mark.parametrize("name", CASES)
def test_laws_come_back(name: str) -> None:
    encoding = Encoding((CASES[name].law,))
    assert_same(unpack_encoding(*through_json(encoding)), encoding)


@pytest.mark.parametrize("fit", [gaussianised_encoding, standardised_encoding])
def test_a_fitted_encoding_comes_back_from_a_file(
    tmp_path: Path, fit: Callable[..., Encoding]
) -> None:
    table = clinic(300)
    schema = infer_schema(table)
    schema = schema.replace("glucose", lower=0.0, upper=100.0)
    values, mask = encode(table, schema)
    encoding = fit(schema.modelled, values, mask)
    description, arrays = pack_encoding(encoding)
    write_arrays(tmp_path / "model", arrays, {"laws": description})
    assert b"Infinity" not in (tmp_path / "model").read_bytes()
    stored, manifest = read_arrays(tmp_path / "model")
    read = unpack_encoding(manifest["laws"], stored)
    assert_same(read, encoding)
    seen = np.where(mask, values, np.nan)
    assert use(read, seen) == use(encoding, seen)
    assert read.levels == encoding.levels


@pytest.mark.parametrize("scale", [5e-324, 1e-300, 1e-9, 1.0, 1e9, 1e300])
@pytest.mark.parametrize("atoms", [True, False])
def test_no_fit_is_refused(scale: float, atoms: bool) -> None:
    x = np.random.default_rng(0).lognormal(size=50)
    x = (np.ceil(x) if atoms else x) * scale
    bounded = {"lower": 0.0, "upper": float(x.max())}
    warps = [
        Affine.fit(x),
        Log.fit(x),
        fit_gaussianising(x),
        fit_gaussianising(x, **bounded),
        fit_gaussianising(x, **bounded, step=scale),
    ]
    encoding = Encoding(tuple(map(Ordered, warps)))
    assert_same(unpack_encoding(*through_json(encoding)), encoding)


def finite(least: float | None = None) -> st.SearchStrategy[float]:
    return st.floats(least, allow_nan=False, allow_infinity=False)


positive = finite(5e-324)
bounds = st.lists(st.floats(allow_nan=False), min_size=2, max_size=2, unique=True).map(sorted)


@st.composite
def tables(draw: st.DrawFn) -> tuple[Any, ...]:
    count = draw(st.integers(2, 6))
    rising = st.lists(finite(), min_size=count, max_size=count).map(sorted)
    knots, scores, only_atoms = draw(rising), draw(rising), draw(st.booleans())
    unit, (lower, upper) = draw(positive), draw(bounds)
    if only_atoms:
        knots = sorted(draw(st.sampled_from([0.0, -0.5, 0.75])) for _ in range(count - 1))
        knots.append(knots[-1])
    return Gaussianising, knots, scores, unit, lower, upper, only_atoms


smooth = st.tuples(st.sampled_from([Affine, Log]), finite(), positive) | tables()
warps = (
    smooth
    | st.tuples(smooth, positive, bounds).map(lambda drawn: (Rounded, *drawn[:2], *drawn[2]))
    | st.tuples(st.just(Levels), st.lists(finite(), min_size=2, max_size=6).map(sorted))
)
laws = (
    st.just((Binary,))
    | st.tuples(st.just(Categorical), st.integers(1, 99))
    | st.tuples(st.just(Ordered), warps)
)


def make(drawn: Any) -> Any:
    """Make a law or a warp of its class and arguments: types are checked by chance, not drawn."""
    if isinstance(drawn, tuple):
        return drawn[0](*map(make, drawn[1:]))
    return np.array(drawn) if isinstance(drawn, list) else drawn


@given(st.lists(laws, max_size=5))
@settings(max_examples=150, deadline=None)
@example([])
@example([(Ordered, (Affine, -0.0, 5e-324))])
def test_all_laws_come_back(drawn: list[Any]) -> None:
    encoding = Encoding(tuple(map(make, drawn)))
    description, arrays = through_json(encoding)
    read = unpack_encoding(description, arrays)
    assert list(map(bits, read.laws)) == list(map(bits, encoding.laws))
    if encoding.laws:
        assert use(read) == use(encoding)
    again, _ = through_json(read)
    assert again == description


def test_names_and_places_in_files_stay() -> None:
    description, arrays = pack_encoding(SMALL)
    table = {
        "class": "gaussianising", "unit": 4.0, "lower": "-inf", "upper": "inf", "only_atoms": True,
        "least": "-inf", "most": "inf",
    }  # fmt: skip
    log = {"class": "log", "shift": 1.0, "scale": 0.7}
    count = {
        "class": "rounded", "smooth": log, "step": 1.0, "lower": 0.0, "upper": "inf",
        "central": False,
    }  # fmt: skip
    halves = {
        "class": "rounded", "smooth": table, "step": 0.5, "lower": -2.0, "upper": 2.0,
        "central": True,
    }  # fmt: skip
    assert description == [
        {"class": "binary"},
        {"class": "ordered", "warp": table},
        {"class": "categorical", "levels": 3},
        {"class": "ordered", "warp": count},
        {"class": "ordered", "warp": {"class": "affine", "shift": 0.1, "scale": 1e-9}},
        {"class": "ordered", "warp": {"class": "levels"}},
        {"class": "ordered", "warp": halves},
    ]
    assert list(arrays) == [
        "1.warp.knots", "1.warp.scores", "5.warp.edges",
        "6.warp.smooth.knots", "6.warp.smooth.scores",
    ]  # fmt: skip


def test_a_file_from_before_counts_were_told_by_their_stretches_tells_them_as_it_did() -> None:
    description, arrays = through_json(SMALL)
    del description[6]["warp"]["central"]
    warp = unpack_encoding(description, arrays).laws[6].warp
    assert not warp.central
    assert completed(description)[6]["warp"]["central"] is False


def test_a_file_from_before_values_had_a_range_shows_any() -> None:
    description, arrays = through_json(SMALL)
    for end in ("least", "most"):
        del description[1]["warp"][end]
    warp = unpack_encoding(description, arrays).laws[1].warp
    assert (warp.least, warp.most) == (-np.inf, np.inf)
    assert warp.shown == warp.support


@pytest.mark.parametrize(("least", "most"), [(2.0, 1.0), ("inf", "inf"), ("-inf", "-inf")])
def test_a_range_with_nothing_in_it_is_refused(least: Any, most: Any) -> None:
    description, arrays = through_json(SMALL)
    description[1]["warp"] |= {"least": least, "most": most}
    with pytest.raises(InputError, match="shows no value"):
        unpack_encoding(description, arrays)


def test_what_is_read_is_nobody_elses() -> None:
    description, arrays = through_json(SMALL)
    arrays = {name: array.copy() for name, array in arrays.items()}
    read = unpack_encoding(description, arrays)
    for array in arrays.values():
        array[:] = 0
    assert_same(read, SMALL)


def test_other_programs_may_write_a_number_without_its_point() -> None:
    description, arrays = through_json(SMALL)
    description[3]["warp"]["step"] = 1
    assert_same(unpack_encoding(description, arrays), SMALL)


class Shifted(Affine):
    """A warp that is not of the package."""


@pytest.mark.parametrize(
    ("warp", "message"),
    [
        (Shifted(0.0, 1.0), "'0.warp' of the encoding has the class 'Shifted'; known are 'aff"),
        (Rounded(Shifted(0.0, 1.0), 1.0, 0.0, 1.0), "'0.warp.smooth' of the encoding has the c"),
        (Affine(0.0, np.nan), "'0.warp' of the encoding has a 'scale' that is not finite"),
        (Rounded(Affine(0.0, 1.0), 1.0, np.nan, 1.0), "'0.warp' of the encoding has bounds with"),
        (Levels(np.zeros(2, np.float32)), r"The array '0\.warp\.edges' is float32\[2\]"),
    ],
)
def test_what_could_not_be_read_is_not_written(warp: Warp, message: str) -> None:
    with pytest.raises(InputError, match=message):
        pack_encoding(Encoding((Ordered(warp),)))


ROUNDED = {"class": "rounded", "smooth": None, "step": 1.0, "lower": 0.0, "upper": 1.0}
GONE = object()
NO_NUMBER = "'4.warp.scale' of the encoding is not a finite number, 'inf' or '-inf'."


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ((), {}, "The encoding is no list of laws."),
        ((), None, "The encoding is no list of laws."),
        ((0,), None, "'0' of the encoding has no class; known are 'ordered', 'binary', "),
        ((0, "class"), GONE, "'0' of the encoding has no class; known are 'ordered', "),
        ((0, "class"), ["binary"], "'0' of the encoding has no class; known are 'ordered', "),
        ((0, "class"), "affine", "'0' of the encoding has the class 'affine'; known are 'ord"),
        ((0, "class"), "os.system", "'0' of the encoding has the class 'os.system'; known are"),
        ((0, "levels"), 2, "'0' of the encoding has an unknown 'levels'."),
        ((1, "warp"), GONE, "'1' of the encoding has no 'warp'."),
        ((1, "warp"), {"class": "ordered"}, "'1.warp' of the encoding has the class 'ordered'"),
        ((1, "warp", "knots"), [1.0, 2.0], "'1.warp' of the encoding has an unknown 'knots'."),
        ((1, "warp", "only_atoms"), 1, "'1.warp.only_atoms' of the encoding is not true or fa"),
        ((1, "warp", "unit"), "inf", "'1.warp' of the encoding has a 'unit' that is not finite"),
        ((1, "warp", "unit"), 0.0, "'1.warp' of the encoding has a 'unit' that is not above 0."),
        ((1, "warp", "lower"), "inf", "'1.warp' of the encoding has bounds with nothing"),
        ((2, "levels"), 3.0, "'2.levels' of the encoding is not a whole number."),
        ((2, "levels"), True, "'2.levels' of the encoding is not a whole number."),
        ((2, "levels"), 0, "'2' of the encoding has a 'levels' that is not from 1 to 2147483647."),
        ((3, "warp", "smooth"), ROUNDED, "'3.warp.smooth' of the encoding has the class 'ro"),
        ((3, "warp", "smooth"), {"class": "levels"}, "'3.warp.smooth' of the encoding has the"),
        ((3, "warp", "smooth", "shift"), "inf", "'3.warp.smooth' of the encoding has a 'shift'"),
        ((3, "warp", "step"), 0.0, "'3.warp' of the encoding has a 'step' that is not above"),
        ((3, "warp", "upper"), 0.0, "'3.warp' of the encoding has bounds with nothing between"),
        ((4, "warp", "scale"), GONE, "'4.warp' of the encoding has no 'scale'."),
        ((4, "warp", "scale"), -1.0, "'4.warp' of the encoding has a 'scale' that is not abov"),
        ((4, "warp", "scale"), None, NO_NUMBER),
        ((4, "warp", "scale"), True, NO_NUMBER),
        ((4, "warp", "scale"), "1.0", NO_NUMBER),
        ((4, "warp", "scale"), np.nan, NO_NUMBER),
        ((4, "warp", "scale"), np.inf, NO_NUMBER),
    ],
)
def test_descriptions_that_are_refused(
    path: tuple[int | str, ...], value: Any, message: str
) -> None:
    description, arrays = through_json(SMALL)
    holder: Any = {"all": description}
    for key in ("all", *path)[:-1]:
        holder = holder[key]
    key = path[-1] if path else "all"
    if value is GONE:
        del holder[key]
    else:
        holder[key] = value
    with pytest.raises(InputError, match=f"^{re.escape(message)}"):
        unpack_encoding(description if path else value, arrays)


def test_what_cannot_be_printed_is_refused_like_all_else() -> None:
    nested: Any = []
    warp: Any = {"class": "affine", "shift": 0.0, "scale": 1.0}
    for _ in range(10**5):
        nested, warp = [nested], ROUNDED | {"smooth": warp}
    scale = {"class": "affine", "shift": 0.0, "scale": nested}
    for law in (
        nested,
        {"class": nested},
        {"class": "categorical", "levels": nested},
        {"class": "categorical", "levels": 10**5000},
        {"class": "ordered", "warp": warp},
        {"class": "ordered", "warp": scale},
        {"class": "ordered", "warp": scale | {"scale": 10**5000}},
    ):
        with pytest.raises(InputError, match=r"^'0.* of the encoding "):
            unpack_encoding([law], {})


IN_ORDER = "The array '1.warp.knots' is not two or more finite numbers in order."


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("1.warp.knots", None, "The array '1.warp.knots' is missing."),
        ("7.warp.knots", np.zeros(2), "There is no place for the array '7.warp.knots'."),
        ("1.warp.unit", np.zeros(2), "There is no place for the array '1.warp.unit'."),
        ("x" * 10**6, np.zeros(2), f"There is no place for the array '{'x' * 36}...."),
        ("1.warp.knots", np.zeros(4, np.float32), "The array '1.warp.knots' is float32[4], where"),
        ("1.warp.knots", np.zeros(4, ">f8"), "The array '1.warp.knots' is >f8[4], where one dim"),
        ("1.warp.knots", np.zeros((1, 4)), "The array '1.warp.knots' is float64[1, 4], where"),
        ("1.warp.knots", np.zeros(()), "The array '1.warp.knots' is float64[], where one dimen"),
        ("1.warp.knots", np.zeros(0), IN_ORDER),
        ("5.warp.edges", np.zeros(1), "The array '5.warp.edges' is not two or more finite numb"),
        ("1.warp.knots", np.array([-1.0, 0.0, 0.0, np.inf]), IN_ORDER),
        ("1.warp.knots", np.array([-1.0, np.nan, 0.0, 1.0]), IN_ORDER),
        ("1.warp.knots", np.array([-1.0, 0.0, 0.0, -0.5]), IN_ORDER),
        ("1.warp.knots", np.zeros(3), "'1.warp' of the encoding has arrays of different length"),
        ("1.warp.knots", np.array([0.0, 1.0, 1e308, 1e308]), "'1.warp' of the encoding has atoms"),
        ("1.warp.knots", np.arange(4.0), "'1.warp' of the encoding has atoms only, and none or"),
    ],
)
def test_arrays_that_are_refused(name: str, array: np.ndarray | None, message: str) -> None:
    description, arrays = through_json(SMALL)
    arrays[name] = array
    arrays = {name: array for name, array in arrays.items() if array is not None}
    with pytest.raises(InputError, match=f"^{re.escape(message)}"):
        unpack_encoding(description, arrays)


scalars = (
    st.none()
    | st.booleans()
    | st.sampled_from([0, 1, -1, 0.0, -1.0, 1e308, 5e-324, "inf", "-inf", "nan", "", 10**400])
    | st.floats()
    | st.integers()
    | st.sampled_from(sorted(LAWS | WARPS))
)
keys = st.sampled_from(
    sorted({"class", "x", *(f.name for c in WARPS.values() for f in dataclasses.fields(c))})
)
hostile = st.recursive(
    scalars | st.builds(copy.deepcopy, st.sampled_from(pack_encoding(SMALL)[0])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=6),
)


def completed(description: list[Any]) -> list[Any]:
    """Add what files from before a field was there do without."""
    for law in description:
        warp = law.get("warp", {})
        if warp.get("class") == "rounded":
            warp.setdefault("central", False)
            warp = warp["smooth"]
        if warp.get("class") == "gaussianising":
            warp.setdefault("least", "-inf")
            warp.setdefault("most", "inf")
    return description


def places(tree: Any) -> list[tuple[Any, Any]]:
    """Give every place in a description: what holds it, and its index or key."""
    found = []
    if isinstance(tree, dict | list):
        for key in tree if isinstance(tree, dict) else range(len(tree)):
            found += [(tree, key), *places(tree[key])]
    return found


def likely(value: Any) -> st.SearchStrategy[Any]:
    """Draw something of the type of what was there."""
    if isinstance(value, float) or value in ("inf", "-inf"):
        return finite() | st.sampled_from(["inf", "-inf"])
    return st.booleans() if isinstance(value, bool) else st.integers(-1, 9)


def mutate(draw: st.DrawFn, description: list[Any]) -> None:
    """Replace, take away, add, or copy from elsewhere, one thing in a description."""
    holder, key = draw(st.sampled_from(places(description)))
    match draw(st.sampled_from(["likely", "scalar", "anything", "remove", "add", "copy"])):
        case "likely":
            holder[key] = draw(likely(holder[key]))
        case "scalar":
            holder[key] = draw(scalars)
        case "anything":
            holder[key] = draw(hostile)
        case "remove":
            del holder[key]
        case "add" if isinstance(holder, dict):
            holder[draw(keys)] = draw(scalars)
        case "add":
            holder.insert(key, draw(hostile))
        case "copy":
            other, there = draw(st.sampled_from(places(description)))
            holder[key] = copy.deepcopy(other[there])


def mutate_arrays(draw: st.DrawFn, arrays: dict[str, np.ndarray]) -> None:
    name = draw(st.sampled_from(sorted(arrays)))
    array = arrays[name]
    match draw(st.sampled_from(["remove", "rename", "shape", "values", "sorted", "swap"])):
        case "remove":
            del arrays[name]
        case "rename":
            arrays[draw(st.sampled_from(["0.warp.knots", "1.warp.edges", ""]))] = arrays.pop(name)
        case "shape":
            length = draw(st.integers(0, 5))
            arrays[name] = draw(st.sampled_from([array[:length], array[None], array > 0]))
        case "values":
            arrays[name] = np.array(draw(st.lists(st.floats(), max_size=5)))
        case "sorted":
            numbers = st.lists(finite(), min_size=array.size, max_size=array.size)
            arrays[name] = np.sort(draw(numbers))
        case "swap":
            other = draw(st.sampled_from(sorted(arrays)))
            arrays[name], arrays[other] = arrays[other], arrays[name]


@given(st.data())
@settings(max_examples=500, deadline=None)
def test_a_hostile_description_is_refused_or_works(data: st.DataObject) -> None:
    description, arrays = through_json(SMALL)
    for _ in range(data.draw(st.integers(1, 2))):
        if data.draw(st.booleans()) and arrays:
            mutate_arrays(data.draw, arrays)
        elif description:
            mutate(data.draw, description)
    try:
        encoding = unpack_encoding(description, arrays)
    except InputError:
        event("refused")
        return
    event("accepted")
    if encoding.laws:
        use(encoding)
    # All that is there was read: no field was passed over or replaced.
    assert pack_encoding(encoding)[0] == completed(description)
