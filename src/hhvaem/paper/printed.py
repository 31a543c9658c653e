"""The numbers printed in the paper, to lay results beside: means and spreads of ten splits.

Of the tables of observed cells and of errors only the means are kept here.
"""

from typing import NamedTuple

from hhvaem.paper.folds import PUBLISHED


class Number(NamedTuple):
    """A mean over splits, and its standard deviation where the paper's is kept."""

    mean: float
    spread: float | None = None


# For each score and model the numbers of all tables in their order; spreads behind a slash.
_PRINTED = {
    "paper_nll_missing": {
        "VAEM": "2.84/.07 1.81/.03 1.89/.01 .55/.05 3.15/.28 2.78/.16 2.45/.26 3.01/.61 2.09/.10 "
        "2.01/.23",
        "MIWAEM": "2.74/.05 1.88/.04 1.92/.04 .57/.03 2.66/.11 2.55/.09 2.34/.51 2.76/.48 2.06/.14 "
        "1.94/.23",
        "H-VAEM": "2.82/.06 1.80/.04 1.89/.01 .48/.06 3.06/.31 2.74/.09 2.42/.21 2.85/.56 1.72/.11 "
        "1.89/.24",
        "HMC-VAEM": "2.69/.05 1.77/.06 1.89/.02 .49/.07 2.21/.24 2.72/.20 2.28/.29 2.83/.46 "
        "1.73/.05 1.83/.16",
        "HH-VAEM": "2.63/.04 1.75/.03 1.88/.05 .40/.05 2.47/.27 2.54/.13 2.28/.09 1.90/.17 "
        "1.71/.04 1.83/.11",
    },
    "paper_nll_target": {
        "VAEM": ".56/.06 1.20/.03 1.18/.02 2.69/.01 .61/.02 1.59/.19 1.07/.09 .28/.09 .61/.14 "
        ".85/.21",
        "MIWAEM": ".51/.03 1.15/.03 1.15/.03 2.70/.01 .60/.03 1.36/.10 .95/.22 .28/.13 .54/.12 "
        ".80/.21",
        "H-VAEM": ".50/.03 1.06/.02 1.18/.02 2.68/.01 .60/.02 1.71/.14 1.02/.09 .26/.11 .46/.14 "
        ".90/.22",
        "HMC-VAEM": ".52/.02 1.00/.03 1.12/.03 2.71/.01 .52/.15 1.55/.29 .95/.26 .28/.09 .41/.07 "
        ".71/.13",
        "HH-VAEM": ".49/.03 .93/.06 1.10/.01 2.62/.01 .56/.02 1.38/.18 .95/.08 .20/.04 .32/.05 "
        ".55/.04",
    },
    "paper_rmse_missing": {
        "missforest": ".64 .61 .59 .30 .86 .76 .76 .77 .64 .59",
        "VAEM": ".57 .40 .59 .33 .93 .79 .74 .64 .75 .65",
        "MIWAEM": ".56 .39 .59 .34 .94 .75 .71 .63 .75 .63",
        "H-VAEM": ".56 .39 .58 .32 .92 .77 .71 .60 .55 .59",
        "HMC-VAEM": ".55 .38 .58 .30 .91 .76 .71 .60 .55 .57",
        "HH-VAEM": ".54 .38 .57 .29 .90 .75 .70 .59 .54 .56",
    },
    "paper_nll_observed": {
        "VAEM": ".51 .99 .44 .21 .62 .92 .63 .73 1.86 .56",
        "MIWAEM": ".63 1.06 .60 .33 .75 1.05 .76 .80 1.77 .67",
        "H-VAEM": ".40 .93 .42 .19 .58 .70 .53 .71 .38 .49",
        "HMC-VAEM": ".37 .92 .39 .18 .54 .68 .49 .55 .40 .41",
        "HH-VAEM": ".33 .95 .36 .17 .45 .68 .40 .64 .37 .41",
    },
}

# Minutes of training, of the tables that the paper lists.
MINUTES = {
    table: dict(zip(("VAEM", "MIWAEM", "H-VAEM", "HMC-VAEM", "HH-VAEM"), minutes, strict=True))
    for table, minutes in {
        "bank": (30, 63, 41, 282, 317),
        "avocado": (21, 37, 34, 356, 388),
        "yacht": (5.9, 8.2, 16, 24, 27),
        "diabetes": (8.8, 13, 13, 50, 68),
        "concrete": (7.7, 12, 12, 43, 66),
        "wine": (7.9, 12, 11, 63, 80),
        "energy": (8.2, 17, 13, 91, 140),
        "boston": (10, 15, 14, 104, 129),
    }.items()
}


def printed(score: str, model: str, table: str) -> Number | None:
    """Give what the paper prints of a model on a table; None where it prints nothing.

    Examples
    --------
    >>> printed("paper_nll_missing", "HH-VAEM", "boston")
    Number(mean=1.83, spread=0.11)
    >>> printed("crps", "HH-VAEM", "boston") is None
    True
    """
    line = _PRINTED.get(score, {}).get(model)
    if line is None or table not in PUBLISHED:
        return None
    return Number(*map(float, line.split()[list(PUBLISHED).index(table)].split("/")))
