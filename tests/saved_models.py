"""Models in files as version 0.1 wrote them, and what they answer.

`python tests/saved_models.py` made tests/files: they stay as they are, for later versions to read.
"""

import datetime as dt
import json
import pickle
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa
from safetensors.numpy import save

from hhvaem import Classifier, Imputer, Regressor
from hhvaem.storage import FORMAT

FILES = Path(__file__).parent / "files"
NAMES = ("imputer", "regressor", "classifier")
SETTINGS: dict[str, Any] = {"preset": "fast", "random_state": 3, "layers": (3,)}


def table(rows: int = 40, seed: int = 0) -> pa.Table:
    """Make a table with a column of every kind, and holes in each."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=rows)
    grade = np.digitize(x + 0.3 * rng.normal(size=rows), [-0.5, 0.5])
    city = np.digitize(x + 0.5 * rng.normal(size=rows), [-0.3, 0.3])
    days = [dt.date(2024, 1, 1) + dt.timedelta(days=int(20 * v)) for v in x]

    def column(values: Any) -> pa.Array:
        holes = rng.random(rows) < 0.15
        return pa.array([None if h else v for v, h in zip(values, holes, strict=True)])

    return pa.table(
        {
            "x": column(np.round(x, 2).tolist()),
            "n": column(np.floor(np.exp(x)).astype(int).tolist()),
            "city": column([("Bern", "Oslo", "Rome")[i] for i in city]),
            "flag": column((x > 0.2).tolist()),
            "day": column(days),
            "grade": pa.DictionaryArray.from_arrays(
                column(grade.tolist()).cast(pa.int8()), ["low", "mid", "high"], ordered=True
            ),
            "unit": pa.array(["kg", None] * (rows // 2)),
            "none": pa.nulls(rows),
        }
    )


def answer(model: Any) -> Any:
    """Give what a model says of the table, without chains: those may differ between machines."""
    known = table().select(model.schema_.names)
    if isinstance(model, Imputer):
        return model.transform(known, posterior="encoder").to_pylist()
    if isinstance(model, Regressor):
        return model.predict(known, posterior="encoder").tolist()
    return [each.tolist() for each in model.predict_proba(known, posterior="encoder")]


def no_models(folder: Path) -> dict[Path, str]:
    """Make files that are no models, and give what is to be said of each path."""
    good = (FILES / "imputer-0.1.hhvaem").read_bytes()
    altered = bytearray(good)
    altered[-100] ^= 1
    newer = {"hhvaem": json.dumps({"format": FORMAT + 1, "version": "9.1"}), "manifest": "{}"}
    contents = {
        "empty": b"",
        "text": b"age,city\n31,Rome\n",
        "pickle": pickle.dumps({"a": 1}),
        "cut": good[: len(good) // 2],
        "altered": bytes(altered),
        "foreign": save({"weights": np.zeros(3)}, {"format": "pt"}),
        "newer": save({}, newer),
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    damaged = "is damaged or no file of hhvaem; give one that `hhvaem fit` or `save` wrote."
    said = dict.fromkeys(contents, damaged) | {"newer": "is of the newer hhvaem 9.1; update this"}
    said["none"] = "cannot be read: No such file or directory."
    return {
        **{folder / name: f"{folder / name} {end}" for name, end in said.items()},
        folder: f"{folder} is a folder or a device; name a file.",
    }


def _fitted(name: str) -> Any:
    if name == "imputer":
        return Imputer(**SETTINGS, kinds={"n": "count"}).fit(table())
    if name == "regressor":
        x = nw.from_native(table(), eager_only=True)["x"]
        return Regressor(**SETTINGS).fit(table().drop_columns(["x"]), x)
    targets = ["city", "flag"]
    return Classifier(**SETTINGS, members=2).fit(
        table().drop_columns(targets), table().select(targets)
    )


if __name__ == "__main__":
    FILES.mkdir(exist_ok=True)
    answers = {}
    for name in NAMES:
        model = _fitted(name)
        model.save(FILES / f"{name}-0.1.hhvaem")
        answers[name] = answer(model)
    (FILES / "answers-0.1.json").write_text(json.dumps(answers, default=str) + "\n")
