"""The data sets by name."""

import difflib

from hhvaem.datasets import columns, files
from hhvaem.datasets.records import Entry, File
from hhvaem.errors import InputError

_CC_BY = "CC BY 4.0"


def entry(name: str) -> Entry:
    """Look up a data set.

    Parameters
    ----------
    name
        Its name in `CATALOGUE`.

    Raises
    ------
    InputError
        Where there is none of that name; the message has the nearest names.

    Examples
    --------
    >>> entry("yacht").rows
    308
    >>> entry("yatch")
    Traceback (most recent call last):
    ...
    hhvaem.errors.InputError: There is no data set 'yatch'; did you mean yacht?
    """
    near: list[str] = []
    if isinstance(name, str):
        if name in CATALOGUE:
            return CATALOGUE[name]
        near = difflib.get_close_matches(name, CATALOGUE, n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(CATALOGUE)}."
    raise InputError(f"There is no data set {name!r}; {hint}")


def _wine_quality(colour: str, rows: int, file: File) -> Entry:
    return Entry(
        f"winequality-{colour}",
        f"Wine quality, {colour}",
        rows,
        (file,),
        _CC_BY,
        ("quality",),
        columns.WINE_QUALITY,
        delimiter=";",
        header=1,
        published=False,
    )


_ENTRIES = (
    Entry(
        "bank",
        "Bank marketing (with economic indicators)",
        41188,
        (files.BANK,),
        _CC_BY,
        ("y",),
        columns.BANK,
        delimiter=";",
        header=1,
    ),
    Entry(
        "insurance",
        "Insurance company benchmark (CoIL 2000)",
        9822,
        files.INSURANCE,
        "non-commercial",
        ("CARAVAN",),
        columns.INSURANCE,
        terms="The owner allows non-commercial research and education; UCI's page says CC BY 4.0.",
        delimiter=None,
    ),
    Entry(
        "avocado",
        "Avocado prices",
        18249,
        (files.AVOCADO,),
        "none stated",
        ("AveragePrice",),
        columns.AVOCADO,
        terms="Published on Kaggle, where the Hass Avocado Board is named as owner.",
        header=1,
    ),
    Entry(
        "naval",
        "Naval propulsion plants",
        11934,
        (files.NAVAL,),
        _CC_BY,
        ("compressor_decay", "turbine_decay"),
        columns.NAVAL,
        delimiter=None,
    ),
    Entry(
        "yacht",
        "Yacht hydrodynamics",
        308,
        (files.YACHT,),
        _CC_BY,
        ("resistance",),
        columns.YACHT,
        delimiter=None,
    ),
    Entry(
        "diabetes",
        "Diabetes (Efron et al.)",
        442,
        files.DIABETES,
        "none stated",
        ("progression",),
        columns.DIABETES,
        terms="Distributed with scikit-learn (BSD-3).",
        delimiter=None,
    ),
    Entry(
        "concrete",
        "Concrete compressive strength",
        1030,
        (files.CONCRETE,),
        _CC_BY,
        ("Strength",),
        columns.CONCRETE,
        header=1,
    ),
    Entry(
        "wine",
        "Wine recognition",
        178,
        (files.WINE,),
        _CC_BY,
        ("class",),
        columns.WINE,
        header=1,
    ),
    Entry(
        "energy",
        "Energy efficiency of buildings",
        768,
        (files.ENERGY,),
        _CC_BY,
        ("Y1", "Y2"),
        columns.ENERGY,
        header=1,
    ),
    Entry(
        "boston",
        "Boston housing",
        506,
        (files.BOSTON,),
        "none stated",
        ("MEDV",),
        columns.BOSTON,
        terms="Public; its column B has a known ethical problem.",
        delimiter=None,
    ),
    _wine_quality("red", 1599, files.WINE_QUALITY_RED),
    _wine_quality("white", 4898, files.WINE_QUALITY_WHITE),
    Entry(
        "bank-full",
        "Bank marketing (older variant)",
        45211,
        (files.BANK_FULL,),
        _CC_BY,
        ("y",),
        columns.BANK_FULL,
        delimiter=";",
        header=1,
        published=False,
    ),
    Entry(
        "mnist",
        "Handwritten digits",
        70000,
        files.MNIST,
        "CC BY-SA 3.0",
        ("label",),
        shape=(28, 28),
    ),
    Entry(
        "fashion_mnist",
        "Clothes in the form of MNIST",
        70000,
        files.FASHION_MNIST,
        "MIT",
        ("label",),
        shape=(28, 28),
    ),
    Entry(
        "celeba",
        "Faces with 40 attributes",
        5000,
        files.CELEBA,
        "research only",
        ("attributes",),
        terms="Non-commercial research only, and not to be passed on.",
        shape=(64, 64, 3),
        by_hand="CelebA may not be passed on: obtain img_align_celeba.zip and list_attr_celeba.txt "
        "from https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html and put both into",
    ),
)

CATALOGUE: dict[str, Entry] = {each.name: each for each in _ENTRIES}
