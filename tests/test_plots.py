"""Figures hold what they claim to; how they look is for eyes."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from hhvaem.encoding import gaussianised_encoding
from hhvaem.example import clinic
from hhvaem.inference import infer_schema
from hhvaem.marginals import Direct
from hhvaem.plots import plot_columns
from hhvaem.table import encode


def test_each_column_has_a_panel_with_its_data_and_its_law() -> None:
    table = clinic(300)
    schema = infer_schema(table)
    values, mask = encode(table, schema)
    encoding = gaussianised_encoding(schema.modelled, values, mask)
    models = {"ours": (encoding, Direct.fit(encoding, values, mask))}
    figure = plot_columns(schema.modelled, values, mask, models)
    panels = [panel for panel in figure.axes if panel.get_title()]
    assert [panel.get_title().split(" (")[0] for panel in panels] == list(schema.names)
    for column, panel in zip(schema.modelled, panels, strict=True):
        bars = np.array(
            [
                bar.get_height() * bar.get_width()
                for bar in panel.patches[: len(panel.containers[0])]
            ]
        )
        width = 0.8 if column.levels else 1.0
        assert bars.sum() / width == pytest.approx(1.0, abs=0.02), column.name


def test_dollars_in_names_and_numbers_next_to_each_other(tmp_path: Path) -> None:
    near = [1.0, np.nextafter(1, 2), np.nextafter(np.nextafter(1, 2), 2)] * 3
    table = pa.table({"$x_{$": near, "cost $ of $": ["$\\bad{$", "b", "c"] * 3})
    schema = infer_schema(table)
    values, mask = encode(table, schema)
    encoding = gaussianised_encoding(schema.modelled, values, mask)
    models = {"ours": (encoding, Direct.fit(encoding, values, mask))}
    plot_columns(schema.modelled, values, mask, models).savefig(tmp_path / "figure.png")
