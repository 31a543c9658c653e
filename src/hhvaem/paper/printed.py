"""The numbers that the paper prints of its ten tables, to lay results beside.

From the tables of Peis, Ma and Hernandez-Lobato, "Missing Data Imputation and Acquisition with Deep
Hierarchical Models and Hamiltonian Monte Carlo" (NeurIPS 2022): scores of missing cells and of
targets from the experiments, errors, observed cells, single kinds and minutes from the appendix.
Means over ten splits with standard deviations over them; those of single kinds are over columns.
"""

from typing import NamedTuple


class Number(NamedTuple):
    """A mean, and the standard deviation printed with it."""

    mean: float
    spread: float


# By the names that scores have in records; a mean and behind the slash its spread.
_PRINTED = {
    "paper_nll_missing": """
         bank     insurance avocado  naval   yacht    diabetes concrete wine     energy   boston
VAEM     2.84/.07 1.81/.03  1.89/.01 .55/.05 3.15/.28 2.78/.16 2.45/.26 3.01/.61 2.09/.10 2.01/.23
MIWAEM   2.74/.05 1.88/.04  1.92/.04 .57/.03 2.66/.11 2.55/.09 2.34/.51 2.76/.48 2.06/.14 1.94/.23
H-VAEM   2.82/.06 1.80/.04  1.89/.01 .48/.06 3.06/.31 2.74/.09 2.42/.21 2.85/.56 1.72/.11 1.89/.24
HMC-VAEM 2.69/.05 1.77/.06  1.89/.02 .49/.07 2.21/.24 2.72/.20 2.28/.29 2.83/.46 1.73/.05 1.83/.16
HH-VAEM  2.63/.04 1.75/.03  1.88/.05 .40/.05 2.47/.27 2.54/.13 2.28/.09 1.90/.17 1.71/.04 1.83/.11
""",
    "paper_nll_target": """
         bank    insurance avocado  naval    yacht   diabetes concrete wine    energy  boston
VAEM     .56/.06 1.20/.03  1.18/.02 2.69/.01 .61/.02 1.59/.19 1.07/.09 .28/.09 .61/.14 .85/.21
MIWAEM   .51/.03 1.15/.03  1.15/.03 2.70/.01 .60/.03 1.36/.10 .95/.22  .28/.13 .54/.12 .80/.21
H-VAEM   .50/.03 1.06/.02  1.18/.02 2.68/.01 .60/.02 1.71/.14 1.02/.09 .26/.11 .46/.14 .90/.22
HMC-VAEM .52/.02 1.00/.03  1.12/.03 2.71/.01 .52/.15 1.55/.29 .95/.26  .28/.09 .41/.07 .71/.13
HH-VAEM  .49/.03 .93/.06   1.10/.01 2.62/.01 .56/.02 1.38/.18 .95/.08  .20/.04 .32/.05 .55/.04
""",
    "paper_rmse_missing": """
           bank    insurance avocado naval   yacht   diabetes concrete wine    energy  boston
VAEM       .57/.01 .40/.01   .59/.00 .33/.01 .93/.04 .79/.02  .74/.04  .64/.03 .75/.02 .65/.02
MIWAEM     .56/.00 .39/.00   .59/.01 .34/.01 .94/.04 .75/.01  .71/.03  .63/.02 .75/.02 .63/.01
H-VAEM     .56/.01 .39/.00   .58/.01 .32/.01 .92/.05 .77/.01  .71/.02  .60/.04 .55/.03 .59/.01
HMC-VAEM   .55/.01 .38/.00   .58/.01 .30/.02 .91/.05 .76/.03  .71/.02  .60/.02 .55/.02 .57/.02
HH-VAEM    .54/.01 .38/.00   .57/.00 .29/.02 .90/.00 .75/.01  .70/.01  .59/.04 .54/.01 .56/.03
missforest .64/.01 .61/.06   .59/.02 .30/.01 .86/.12 .76/.08  .76/.07  .77/.11 .64/.08 .59/.06
""",
    "paper_nll_observed": """
         bank    insurance avocado naval   yacht   diabetes concrete wine    energy   boston
VAEM     .51/.05 .99/.05   .44/.01 .21/.01 .62/.13 .92/.12  .63/.18  .73/.18 1.86/.09 .56/.11
MIWAEM   .63/.02 1.06/.03  .60/.03 .33/.01 .75/.07 1.05/.06 .76/.09  .80/.06 1.77/.15 .67/.03
H-VAEM   .40/.04 .93/.04   .42/.05 .19/.07 .58/.09 .70/.13  .53/.18  .71/.15 .38/.02  .49/.07
HMC-VAEM .37/.07 .92/.04   .39/.06 .18/.05 .54/.10 .68/.07  .49/.22  .55/.07 .40/.06  .41/.04
HH-VAEM  .33/.03 .95/.05   .36/.01 .17/.04 .45/.04 .68/.16  .40/.16  .64/.17 .37/.06  .41/.04
""",
    "paper_nll_observed_gaussian": """
         bank    avocado
VAEM     .36/.29 .26/.08
MIWAEM   .33/.27 .32/.06
H-VAEM   .26/.22 .29/.07
HMC-VAEM .25/.21 .25/.08
HH-VAEM  .20/.22 .22/.07
""",
    "paper_nll_observed_bernoulli": """
         bank    avocado
VAEM     .13/.00 .06/.00
MIWAEM   .15/.00 .09/.00
H-VAEM   .11/.00 .07/.00
HMC-VAEM .08/.00 .05/.00
HH-VAEM  .07/.00 .04/.00
""",
    "paper_nll_observed_categorical": """
         bank    avocado
VAEM     .24/.16 .33/.00
MIWAEM   .26/.17 .36/.00
H-VAEM   .23/.16 .32/.00
HMC-VAEM .22/.15 .30/.00
HH-VAEM  .21/.15 .30/.00
""",
    "train_minutes": """
         bank        avocado     yacht      diabetes   concrete   wine       energy      boston
VAEM     29.92/.39   21.49/1.64  5.89/.01   8.79/.30   7.70/.58   7.92/.11   8.18/.09    10.01/.34
MIWAEM   63.33/6.20  37.17/2.28  8.21/.24   13.29/.33  11.51/.52  11.81/.13  16.71/.16   15.01/.13
H-VAEM   41.44/.38   33.83/.81   15.84/.11  13.38/.47  11.80/.38  10.61/.54  12.71/1.20  13.74/1.43
HMC-VAEM 281.88/9.14 356.22/5.94 23.50/1.60 50.42/1.18 42.70/3.14 63.46/1.97 90.87/7.05  103.72/7.24
HH-VAEM  316.81/9.49 388.28/6.47 27.08/.12  68.29/4.06 65.78/.43  79.97/5.53 140.33/7.36 129.30/4.69
""",
}


def _read(text: str) -> dict[tuple[str, str], Number]:
    head, *lines = (line.split() for line in text.strip().splitlines())
    return {
        (model, table): Number(*map(float, number.split("/")))
        for model, *numbers in lines
        for table, number in zip(head, numbers, strict=True)
    }


_NUMBERS = {score: _read(text) for score, text in _PRINTED.items()}
# In the paper's order.
MODELS = tuple(dict.fromkeys(model for model, _ in _NUMBERS["paper_nll_missing"]))
TABLES = tuple(dict.fromkeys(table for _, table in _NUMBERS["paper_nll_missing"]))


def printed(score: str, model: str, table: str) -> Number | None:
    """Give what the paper prints of a model on a table; None where it prints nothing.

    Parameters
    ----------
    score
        Its name in records, or `train_minutes`.
    model, table
        By the names that they have in records.

    Examples
    --------
    >>> printed("paper_nll_missing", "HH-VAEM", "boston")
    Number(mean=1.83, spread=0.11)
    >>> printed("crps", "HH-VAEM", "boston") is None
    True
    """
    return _NUMBERS.get(score, {}).get((model, table))
