"""Three columns that are nearly two, targets that follow from them, and models of both."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

FAST: dict[str, Any] = {"preset": "fast", "random_state": 0}
RNG = np.random.default_rng(0)
NAMES = ["a", "b", "c"]

FULL = RNG.normal(size=(80, 2)) @ np.array([[1.0, 1.0, -1.0], [0.5, -1.0, 0.0]])
FULL = FULL + 0.05 * RNG.normal(size=FULL.shape)
NUMBERS = FULL @ [2.0, -1.0, 0.5]
LABELS = np.where(NUMBERS > 0, "yes", "no")
SHADES = np.where(NUMBERS > 1, "dark", np.where(NUMBERS < -1, "light", "mid"))
ARRAY = np.where(RNG.random(FULL.shape) < 0.2, np.nan, FULL)
FRAME = pd.DataFrame(ARRAY, columns=NAMES, index=[f"r{i}" for i in range(len(ARRAY))])
POLARS = pl.DataFrame(ARRAY, schema=NAMES)
ARROW = pa.table({name: ARRAY[:, i] for i, name in enumerate(NAMES)})
UNKNOWN = np.arange(len(ARRAY)) % 4 == 0
HIGHEST = np.nanmax(ARRAY) == ARRAY
PAIRS = np.fromiter([(1, 2)] * len(ARRAY), dtype=object)
