"""A made-up table with holes, for trying things out: patients of a clinic."""

import numpy as np
import pyarrow as pa
from jaxtyping import Bool
from scipy.special import expit

PAIN = ("no pain", "mild", "moderate", "severe")
SMOKER = ("never", "former", "current")


def clinic(rows: int = 600, seed: int = 0) -> pa.Table:
    """Make a table of patients with columns of every kind, a fifth of its cells missing.

    The columns depend on each other as one would expect (age raises blood pressure, smoking
    raises inflammation, diabetes follows weight and glucose), so that a hole says less about a
    patient than the rest of the row does. Nobody real is in it.

    Examples
    --------
    >>> table = clinic(rows=100)
    >>> table.num_rows, table.column("age").null_count
    (100, 15)
    """
    rng = np.random.default_rng(seed)
    age = np.rint(np.clip(rng.normal(58, 16, rows), 18, 97))
    male = rng.random(rows) < 0.5
    smoker = np.array([rng.choice(3, p=(0.6, 0.25, 0.15) if m else (0.7, 0.2, 0.1)) for m in male])
    bmi = np.exp(rng.normal(3.25 + 0.002 * (age - 58), 0.16))
    glucose = 4.2 + np.exp(rng.normal(0.1 + 0.06 * (bmi - 26) + 0.01 * (age - 58), 0.5))
    diabetic = rng.random(rows) < expit(1.5 * (glucose - 6.0))
    pressure = np.rint(118 + 0.45 * (age - 40) + 0.8 * (bmi - 26) + 9 * rng.normal(size=rows))
    inflammation = np.exp(rng.normal(0.4 + 0.5 * (smoker == 2) + 0.05 * (bmi - 26), 1.0))
    # The laboratory reports nothing below its limit of detection.
    crp = np.maximum(np.round(inflammation, 1), 0.6)
    distress = 0.5 * np.log(inflammation) + rng.normal(size=rows)
    pain = np.searchsorted([-0.5, 0.6, 1.6], distress)
    temperature = np.round(36.7 + 0.25 * np.maximum(np.log(inflammation), 0) ** 2
                           + 0.25 * rng.normal(size=rows), 1)  # fmt: skip
    visits = rng.poisson(np.exp(-0.6 + 0.02 * (age - 58) + 0.7 * diabetic + 0.4 * (pain == 3)))
    day = np.datetime64("2024-01-01") + np.sort(rng.integers(0, 730, rows))

    def column(values: np.ndarray, share: float, type_: pa.DataType | None = None) -> pa.Array:
        holes: Bool[np.ndarray, " rows"] = rng.random(rows) < share
        return pa.array(values, mask=holes, type=type_)

    return pa.table(
        {
            "admitted": column(day, 0.05),
            "age": column(age.astype(int), 0.15),
            "sex": column(np.where(male, "male", "female"), 0.1),
            "smoker": column(np.array(SMOKER)[smoker], 0.25),
            "bmi": column(np.round(bmi, 1), 0.2),
            "blood pressure": column(pressure.astype(int), 0.2),
            "glucose": column(np.round(glucose, 2), 0.3),
            "crp": column(crp, 0.35),
            "temperature": column(temperature, 0.15),
            "pain": pa.DictionaryArray.from_arrays(column(pain, 0.2), list(PAIN), ordered=True),
            "visits": column(visits, 0.1),
            "diabetic": column(diabetic, 0.3),
        }
    )
