"""The tables against the facts that were gathered of them, and what happens without them."""

import builtins
import gzip
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from hhvaem.datasets import CATALOGUE, load, places
from hhvaem.datasets.places import cache_folder
from hhvaem.errors import InputError

PAPER = tuple(name for name, entry in CATALOGUE.items() if entry.published and entry.columns)
SHAPES = {
    "bank": (41188, 21),
    "insurance": (9822, 86),
    "avocado": (18249, 13),  # 14 in the file, whose index is no feature
    "naval": (11934, 18),
    "yacht": (308, 7),
    "diabetes": (442, 11),
    "concrete": (1030, 9),
    "wine": (178, 14),
    "energy": (768, 10),
    "boston": (506, 14),
    "winequality-red": (1599, 12),
    "winequality-white": (4898, 12),
    "bank-full": (45211, 17),
}
MEANS = {
    ("boston", "MEDV"): 22.5328,
    ("energy", "Y1"): 22.3072,
    ("energy", "Y2"): 24.5878,
    ("wine", "alcohol"): 13.0006,
    ("winequality-red", "quality"): 5.6360,
    ("winequality-white", "quality"): 5.8779,
    ("diabetes", "progression"): 152.1335,
    ("concrete", "Strength"): 35.8178,
    ("yacht", "resistance"): 10.4954,
    ("avocado", "AveragePrice"): 1.405978,
    ("bank", "age"): 40.0241,
    ("bank-full", "balance"): 1362.27,
}
LEVELS = {
    ("boston", "CHAS"): {0: 471, 1: 35},
    ("wine", "class"): {0: 59, 1: 71, 2: 48},
    ("avocado", "type"): {"conventional": 9126, "organic": 9123},
    ("insurance", "CARAVAN"): {0: 9822 - 348 - 238, 1: 348 + 238},
    ("bank", "y"): {"no": 36548, "yes": 4640},
    ("bank-full", "y"): {"no": 39922, "yes": 5289},
}
# What the published loader makes of each input: p(ositive), r(eal), b(inary), cK: K categories.
PUBLISHED = {
    "bank": "p p c4 c8 c3 c3 c3 b p c5 p p p c8 c3 r p r p p",
    "insurance": "p c9 c6 c6 p p p c6 p p c8 " + "p " * 8 + "c6 " + "p " * 12 + "c9 " + "p " * 7
    + "c9 p c8 c4 c7 c5 c7 c4 c6 c5 c6 c6 c6 c6 p c7 c3 c5 c9 c4 c7 b c7 c5 c3 c3 b c9 c6 c5 c5 "
    "c4 c7 c6 c4 c7 b b c3 c8 b c3 c5 c3 c3",
    "avocado": "p p p p p p p p p b c4 p",
    "naval": "c9 c9" + " p" * 12,
    "yacht": "c5 p c8 p p p",
    "diabetes": "r b r r r r r r r r",
    "concrete": "p " * 8,
    "wine": "p " * 13,
    "energy": "p p c7 c4 b c4 c4 c6",
    "boston": "p p p b p p p p c9 p p p p",
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_shape_and_completeness(data_folder, name):
    dataset = load(name, folder=data_folder)
    assert dataset.table.shape == SHAPES[name] == (CATALOGUE[name].rows, len(dataset.kinds))
    assert list(dataset.kinds) == dataset.table.column_names
    assert set(dataset.targets) < set(dataset.kinds)
    assert not any(column.null_count for column in dataset.table.columns)


@pytest.mark.parametrize(("name", "column"), MEANS)
def test_means(data_folder, name, column):
    values = load(name, folder=data_folder).table[column].to_numpy()
    assert values.mean() == pytest.approx(
        MEANS[name, column], abs=6e-5 if column != "balance" else 6e-3
    )


@pytest.mark.parametrize(("name", "column"), LEVELS)
def test_counts_of_levels(data_folder, name, column):
    counts = load(name, folder=data_folder).table[column].value_counts().to_pylist()
    assert {count["values"]: count["counts"] for count in counts} == LEVELS[name, column]


def test_every_kind_fits_its_values(data_folder):
    for name in SHAPES:
        dataset = load(name, folder=data_folder)
        for column, kind in dataset.kinds.items():
            values = dataset.table[column]
            distinct = len(values.unique())
            assert (distinct == 1) == (kind == "constant"), (name, column)
            assert (distinct == 2) == (kind == "binary") or kind in ("ordinal", "count"), (
                name,
                column,
            )
            if kind in ("positive", "count"):
                assert values.to_numpy().min() >= 0, (name, column)
            if kind == "count":
                assert pa.types.is_integer(values.type), (name, column)


def test_corrected_columns(data_folder):
    avocado = load("avocado", folder=data_folder).table
    assert avocado["Date"].type == pa.date32()
    assert str(avocado["Date"][0]) == "2015-12-27"
    assert len(avocado["Date"].unique()) == 169
    bank = load("bank", folder=data_folder).table
    levels = bank["job"].chunk(0).dictionary.to_pylist()
    assert levels == sorted(levels)
    assert len(levels) == 12
    assert "unknown" in levels
    insurance = load("insurance", folder=data_folder).table
    assert insurance.column_names[64:66] == ["AWAPART", "AWABEDR"]
    assert insurance["CARAVAN"][:5822].to_numpy().sum() == 348
    assert load("naval", folder=data_folder).kinds["compressor_inlet_pressure"] == "constant"
    assert load("diabetes", folder=data_folder).table["age"].to_pylist()[:2] == [59, 48]


@pytest.mark.parametrize("name", PAPER)
def test_published_kinds(data_folder, name):
    dataset = load(name, as_published=True, folder=data_folder)
    codes = []
    for column in dataset.inputs:
        values, kind = dataset.table[column].to_numpy(), dataset.kinds[column]
        levels = np.unique(values)
        if kind in ("binary", "categorical"):
            assert levels.tolist() == list(range(len(levels)))
        codes.append({"categorical": f"c{len(levels)}"}.get(kind, kind[0]))
    assert codes == PUBLISHED[name].split()
    assert dataset.table.num_rows == CATALOGUE[name].rows
    wanted = {"bank": "binary", "insurance": "binary", "wine": "categorical"}.get(name, "positive")
    assert {dataset.kinds[target] for target in dataset.targets} == {wanted}


def test_published_codes_are_alphabetical(data_folder):
    table = load("avocado", as_published=True, folder=data_folder).table
    original = load("avocado", folder=data_folder).table
    texts = [f"{day.month}/{day.day}/{day.year}" for day in original["Date"].to_pylist()]
    order = sorted(set(texts))
    assert table["Date"].to_pylist() == [order.index(text) for text in texts]
    assert order[0] == "1/1/2017"  # not the first week
    target = load("bank", as_published=True, folder=data_folder).table["y"].to_numpy()
    assert target.mean() == pytest.approx(0.1127, abs=1e-4)


@pytest.mark.parametrize("name", ["energy", "concrete"])
def test_workbook_equals_conversion(data_folder, tmp_path, name):
    workbook = CATALOGUE[name].files[0].path
    (tmp_path / name).mkdir()
    shutil.copy(data_folder / workbook, tmp_path / workbook)
    for as_published in (False, True):
        ours = load(name, folder=tmp_path, as_published=as_published)
        assert ours.table == load(name, folder=data_folder, as_published=as_published).table


def test_workbook_without_its_reader(data_folder, tmp_path, monkeypatch):
    (tmp_path / "energy").mkdir()
    shutil.copy(data_folder / "energy/ENB2012_data.xlsx", tmp_path / "energy")
    true_import = builtins.__import__

    def without(name, *rest):
        if name == "python_calamine":
            raise ImportError
        return true_import(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InputError, match=r"energy.*hhvaem\[excel\]"):
        load("energy", folder=tmp_path)


def test_plain_gzipped_and_other_line_ends(data_folder, tmp_path):
    content = (data_folder / "yacht/yacht_hydrodynamics.data").read_bytes()
    expected = load("yacht", folder=data_folder).table
    for name, text in {
        "yacht_hydrodynamics.data.gz": gzip.compress(content),
        "yacht_hydrodynamics.data": content.replace(b"\n", b"\r\n"),
    }.items():
        folder = tmp_path / name / "yacht"
        folder.mkdir(parents=True)
        (folder / name).write_bytes(text)
        assert load("yacht", folder=folder.parent).table == expected


@pytest.mark.parametrize("damage", ["another", "cut", "no gzip", "flipped"])
def test_wrong_content_is_refused(tmp_path, damage):
    (tmp_path / "naval").mkdir()
    packed = gzip.compress(b"1 2 3\n" * 1000)
    content = {
        "another": packed,
        "cut": packed[:40],
        "no gzip": b"\x1f\x8b is no gzip at all",
        "flipped": packed[:20] + bytes(byte ^ 255 for byte in packed[20:30]) + packed[30:],
    }[damage]
    (tmp_path / "naval/data.txt.gz").write_bytes(content)
    with pytest.raises(InputError, match=r"data.txt.gz .*'naval'.*checksum.*data fetch naval"):
        load("naval", folder=tmp_path)


def test_a_bomb_is_not_unpacked_whole(tmp_path, monkeypatch):
    (tmp_path / "yacht").mkdir()
    (tmp_path / "yacht/yacht_hydrodynamics.data.gz").write_bytes(gzip.compress(bytes(1 << 22)))
    sizes = []
    monkeypatch.setattr(places, "is_right", lambda _, content: sizes.append(len(content)))
    with pytest.raises(InputError, match="checksum"):
        load("yacht", folder=tmp_path)
    assert sizes[0] < 1 << 16


def test_where_data_are_looked_for(data_folder, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HHVAEM_DATA", str(tmp_path / "nowhere"))
    assert cache_folder() == tmp_path / "cache/hhvaem"
    with pytest.raises(
        InputError, match=r"'yacht' is not in .*nowhere or .*hhvaem data fetch yacht"
    ):
        load("yacht")
    shutil.copytree(data_folder / "yacht", tmp_path / "cache/hhvaem/yacht")
    assert load("yacht").table.num_rows == 308
    monkeypatch.setenv("HHVAEM_DATA", str(data_folder))
    shutil.rmtree(tmp_path / "cache")
    assert load("yacht").table.num_rows == 308


def test_cache_folder_without_settings(monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    assert cache_folder() == Path.home() / ".cache/hhvaem"
    monkeypatch.setattr("sys.platform", "darwin")
    assert cache_folder() == Path.home() / "Library/Caches/hhvaem"


def test_scikit_learn_brings_two_tables(tmp_path):
    assert load("wine", folder=tmp_path).table.num_rows == 178
    assert load("diabetes", folder=tmp_path).table["progression"].to_numpy().mean() > 152


def test_sentences_for_wrong_names():
    with pytest.raises(InputError, match="no data set 'winequality'; did you mean winequality-red"):
        load("winequality")
    with pytest.raises(InputError, match="'mnist' holds images"):
        load("mnist")
    with pytest.raises(InputError, match=r"winequality-red.*no published typing"):
        load("winequality-red", as_published=True)


@pytest.mark.parametrize("name", [None, ["wine"], 5])
def test_what_is_no_name(as_users_have_it, name):
    with pytest.raises(InputError, match=r"There is no data set .*; there are bank, insurance,"):
        load(name)


# Of the scope of a class, so that it comes before what hides the caller's folders from a test.
@pytest.fixture(scope="class")
def rubbish(tmp_path_factory):
    """Folders of a caller in which nothing is right."""
    home = tmp_path_factory.mktemp("rubbish")
    for folder in (home / "wine", home / "hhvaem/wine"):
        folder.mkdir(parents=True)
        (folder / "wine_data.csv").write_text("rubbish")
    with pytest.MonkeyPatch.context() as patch:
        for variable in ("HHVAEM_DATA", "XDG_CACHE_HOME"):
            patch.setenv(variable, str(home))
        yield home


def test_nothing_of_the_caller_is_seen(rubbish):
    assert not [place for place in places.folders(None) if rubbish in (place, *place.parents)]
    assert load("wine").table.num_rows == 178
