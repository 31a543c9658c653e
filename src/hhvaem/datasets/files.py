"""The files of each data set: where they lie, what they hold, where they come from.

What counts is the checksum of the unpacked content: archives are packed again now and then.
"""

from hhvaem.datasets.records import File

_UCI = "https://archive.ics.uci.edu"
_OLD_UCI = f"{_UCI}/ml/machine-learning-databases"
_GITHUB = "https://raw.githubusercontent.com"
_SKLEARN = f"{_GITHUB}/scikit-learn/scikit-learn"


def _file(path: str, size: int, sha256: str, *sources: str, resource: str = "") -> File:
    return File(path, size, (sha256,), sources, resource)


AVOCADO = _file(
    "avocado/avocado.csv",
    1920113,
    "7e20fd1b12b08b4cd44af4aae1f51f2040c6fad63153b094e927bd6e8bd92995",
    f"{_GITHUB}/MayankkYogi/Avocado/master/avocado.csv",
)
BANK = _file(
    "bank/bank-additional-full.csv",
    5834924,
    "74adfc578bf77a7ff4bb1ba4a9f8709d9e3c6907342959c2c8416847e0afb4d8",
    f"{_UCI}/static/public/222/bank+marketing.zip",
    f"{_OLD_UCI}/00222/bank-additional.zip",
)
BANK_FULL = _file(
    "bank/bank-full.csv",
    4610348,
    "d1513ec63b385506f7cfce9f2c5caa9fe99e7ba4e8c3fa264b3aaf0f849ed32d",
    f"{_UCI}/static/public/222/bank+marketing.zip",
    f"{_OLD_UCI}/00222/bank.zip",
)
BOSTON = _file(
    "boston/housing.data",
    49082,
    "baadf72995725d76efe787b664e1f083388c79ba21ef9a7990d87f774184735a",
    f"{_GITHUB}/jbrownlee/Datasets/master/housing.data",
    f"{_OLD_UCI}/housing/housing.data",
)
# Of the two workbooks, concrete and energy, UCI's edition comes first (its checksum as public
# records have it), then another in circulation, with which the conversion was compared.
CONCRETE = File(
    "concrete/Concrete_Data.xls",
    124928,
    (
        "710076c66b9ca3f8050e7942f3dcbdbe04013534daeb0077ffd3079a52d8e0c4",
        "1ecf19eb1c78cf20599f6ef90dd41af6ff99b496095bd9903483c1fec418f522",
    ),
    (
        f"{_UCI}/static/public/165/concrete+compressive+strength.zip",
        f"{_OLD_UCI}/concrete/compressive/Concrete_Data.xls",
    ),
    conversion=_file(
        "concrete/Concrete_Data.csv",
        57850,
        "53bd0774ef9121aab8decf1cd3c7cb00c605466bc0aad8454c7da1d0f1742aa6",
    ),
)
DIABETES = (
    _file(
        "diabetes/diabetes_data_raw.csv",
        19596,
        "86badf50b4f9436ddd1e497dc0ae1b93166f8120221ee7dca4634fe849f3be7c",
        f"{_SKLEARN}/1.6.0/sklearn/datasets/data/diabetes_data_raw.csv.gz",
        resource="datasets/data/diabetes_data_raw.csv.gz",
    ),
    _file(
        "diabetes/diabetes_data.csv",
        112892,
        "9728ca498d74c6ffb4ba02ba66e5486bf9dc1dde8d14b94c2e532f6064657720",
        f"{_SKLEARN}/1.0.2/sklearn/datasets/data/diabetes_data.csv.gz",
        resource="datasets/data/diabetes_data.csv.gz",
    ),
    _file(
        "diabetes/diabetes_target.csv",
        11050,
        "244713a551f62a291a354212d8a048adec6cb1244b2bc44e66a0698f5006d26d",
        f"{_SKLEARN}/1.0.2/sklearn/datasets/data/diabetes_target.csv.gz",
        resource="datasets/data/diabetes_target.csv.gz",
    ),
)
ENERGY = File(
    "energy/ENB2012_data.xlsx",
    80458,
    (
        "0089fcffc1415e41e2ff63730cca5280efe54fc43d722dfde1b0aaa808e35dc4",
        "ce80fba0fdf4be0e2f2e709fd01ff9c807246947fe666e18710d5105af7970b6",
    ),
    (
        f"{_UCI}/static/public/242/energy+efficiency.zip",
        f"{_OLD_UCI}/00242/ENB2012_data.xlsx",
    ),
    conversion=_file(
        "energy/ENB2012_data.csv",
        36181,
        "3eb371b34400e84f7ec4fcf9938b4e191f74c226fc11e49a8f18f868cecdcf73",
    ),
)
_COIL = f"{_UCI}/static/public/125/insurance+company+benchmark+coil+2000.zip"
INSURANCE = (
    _file(
        "insurance/ticdata2000.txt",
        1006151,
        "4e967da7c4d1759b9f2ddbd39aace45af6a6685a7a7ecd6febb161a60dd8fe0a",
        _COIL,
        f"{_OLD_UCI}/tic-mld/ticdata2000.txt",
    ),
    _file(
        "insurance/ticeval2000.txt",
        683304,
        "26bd871a5fef8dc05b9505bc58af2a47479f3782db69fcd42e43b80da48b1f3d",
        _COIL,
        f"{_OLD_UCI}/tic-mld/ticeval2000.txt",
    ),
    _file(
        "insurance/tictgts2000.txt",
        8000,
        "43233f77ce0c182b3ec6b175a6d9c53a0ca8e6d4a5d76e01d8165935d43d7e4b",
        _COIL,
        f"{_OLD_UCI}/tic-mld/tictgts2000.txt",
    ),
)
NAVAL = _file(
    "naval/data.txt",
    3448926,
    "de0ea69da1efaab8b9655ffed828547d10dd68c1fb8c6e0163e6a988def393a6",
    f"{_UCI}/static/public/316/condition+based+maintenance+of+naval+propulsion+plants.zip",
    f"{_OLD_UCI}/00316/UCI%20CBM%20Dataset.zip",
)
WINE = _file(
    "wine/wine_data.csv",
    11157,
    "10e8a802908b34f86e5da8ce962f3c806694bc98450a18f61851af59f324bede",
    f"{_SKLEARN}/1.0.2/sklearn/datasets/data/wine_data.csv",
    resource="datasets/data/wine_data.csv",
)
WINE_QUALITY_RED = _file(
    "winequality/winequality-red.csv",
    84199,
    "4a402cf041b025d4566d954c3b9ba8635a3a8a01e039005d97d6a710278cf05e",
    f"{_UCI}/static/public/186/wine+quality.zip",
    f"{_OLD_UCI}/wine-quality/winequality-red.csv",
)
WINE_QUALITY_WHITE = _file(
    "winequality/winequality-white.csv",
    264426,
    "76c3f809815c17c07212622f776311faeb31e87610d52c26d87d6e361b169836",
    f"{_UCI}/static/public/186/wine+quality.zip",
    f"{_OLD_UCI}/wine-quality/winequality-white.csv",
)
YACHT = _file(
    "yacht/yacht_hydrodynamics.data",
    11487,
    "00dfecc0fc01ddd4c90b558a3ac11b246df8ebcfea130724223475a9a67f0ea1",
    f"{_UCI}/static/public/243/yacht+hydrodynamics.zip",
    f"{_OLD_UCI}/00243/yacht_hydrodynamics.data",
)


def _idx(folder: str, sites: tuple[str, ...], *sha256: str) -> tuple[File, ...]:
    """Name the four files of MNIST and its like: they differ in content only."""
    parts = (
        ("train-images-idx3-ubyte", 47040016),
        ("train-labels-idx1-ubyte", 60008),
        ("t10k-images-idx3-ubyte", 7840016),
        ("t10k-labels-idx1-ubyte", 10008),
    )
    return tuple(
        _file(f"{folder}/{name}", size, checksum, *(f"{site}/{name}.gz" for site in sites))
        for (name, size), checksum in zip(parts, sha256, strict=True)
    )


MNIST = _idx(
    "mnist",
    (
        "https://ossci-datasets.s3.amazonaws.com/mnist",
        "https://storage.googleapis.com/cvdf-datasets/mnist",
    ),
    "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
)
FASHION_MNIST = _idx(
    "fashion_mnist",
    (
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
        f"{_GITHUB}/zalandoresearch/fashion-mnist/master/data/fashion",
    ),
    "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
)
# A sample of CelebA: the first 5000 images, cropped and scaled as in the paper.
CELEBA = (
    File(
        "celeba/celeba_64x64_000001-005000.zip",
        17160671,
        ("e4d0c1bc662b1b2955b5c0a048a174474f797176677c73316c715c3b6c8933c9",),
        own=("celeba/img_align_celeba", "celeba/img_align_celeba.zip"),
    ),
    File(
        "celeba/list_attr_celeba_000001-002000.csv",
        244415,
        ("90ed7fda3d04d1715ae51cd4e4ae28999ed4fc537e5e9345604f6187dcbd3dfd",),
        own=("celeba/list_attr_celeba.txt", "celeba/list_attr_celeba.csv"),
    ),
)
