"""Whatever the table: it is refused in a sentence, or observed cells stay and holes are filled."""

import warnings
from typing import Any

import pytest
import tables
from campaign import noted, times
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ugly_tables import odd_tables, ugly_numbers

from hhvaem import Imputer
from hhvaem.errors import InputError
from hhvaem.inference import infer_schema
from hhvaem.table import encode

# What is sent is of any type, and refused by the library and not by the tests' type checker.
pytestmark = pytest.mark.usefixtures("as_users_have_it")


def test_encoded_and_filled() -> None:
    with noted("tables filled") as facts:
        facts |= {"tables": 0, "refused": 0}

        @settings(
            max_examples=times(200, 10_000), deadline=None, derandomize=True, database=None,
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(st.data(), tables.tables() | odd_tables())
        def send(data: st.DataObject, table: Any) -> None:
            facts["tables"] += 1
            try:
                with warnings.catch_warnings(action="ignore"):
                    schema = infer_schema(table)
                    encode(table, schema)
            except InputError:
                facts["refused"] += 1
                return
            tables.assert_filled(table, schema, data.draw(tables.fillings(len(table), schema)))

        send()
        assert facts["tables"] / 20 < facts["refused"] < facts["tables"] / 2


def test_fitted_and_filled() -> None:
    with noted("tables fitted") as facts:
        facts |= {"tables": 0, "refused": 0, "holes filled": 0}
        for number in range(times(5, 300)):
            table = ugly_numbers(number)
            facts["tables"] += 1
            try:
                with warnings.catch_warnings(action="ignore"):
                    imputer = Imputer(preset="fast", max_steps=20, random_state=number).fit(table)
                    full = imputer.transform(table)
            except InputError:
                facts["refused"] += 1
                continue
            assert tables.form(full) == tables.form(table), number
            for i, column in enumerate(imputer.schema_):
                old, new = tables.cells(table, i), tables.cells(full, i)
                for was, now in zip(old, new, strict=True):
                    if not tables.is_hole(was):
                        assert tables.exact(now) == tables.exact(was), (number, column)
                    elif column.kind != "ignored":
                        assert tables.is_legal(column, now), (number, column, now)
                        facts["holes filled"] += 1
        assert facts["holes filled"] > facts["tables"]
