"""The report and the JSON of a schema."""

import json

import pytest
import tables
from hypothesis import given, settings

from hhvaem.errors import InputError
from hhvaem.inference import infer_schema
from hhvaem.schema import Column, Schema

MIXED = Schema(
    (
        Column("age", "count", "integer", step=1.0, lower=0.0),
        Column("size", "real", lower=-1.0, upper=2.5, step=0.5),
        Column("<b>", "categorical", "text", tuple("abcdefg"), note="a & b"),
        Column("day", "constant", "date", (864e8,)),
        Column("id", "ignored", "none"),
    )
)


ODD = {"name": "a", "kind": "odd", "storage": "float", "levels": []}


@settings(max_examples=100, deadline=None, database=None)
@given(tables.tables())
def test_json_gives_the_same_schema(table) -> None:
    schema = infer_schema(table)
    again = Schema.from_json(schema.to_json())
    assert again == schema
    assert [[type(level) for level in column.levels] for column in again] == [
        [type(level) for level in column.levels] for column in schema
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nonsense", "not a schema"),
        ("[1]", "not a schema"),
        ('{"columns": []}', "not a schema"),
        ('{"version": 99, "columns": []}', "version 99"),
        ('{"version": 1, "columns": [{"nom": "a"}]}', "not a column"),
        ('{"version": 1, "columns": [3]}', "not a column"),
        (json.dumps({"version": 1, "columns": [ODD]}), "'a' .*unknown"),
        (json.dumps({"version": 1, "columns": [{**ODD, "kind": "real", "x": 1}]}), "not a column"),
    ],
)
def test_other_json_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Schema.from_json(text)


def test_levels_keep_their_types_in_json() -> None:
    column = json.loads(Schema((Column("x", "binary", levels=(1.0, 2.0)),)).to_json())["columns"][0]
    assert [type(level) for level in column["levels"]] == [float, float]


def test_report() -> None:
    assert str(MIXED).splitlines() == [
        "column  kind         treatment       values                              note",
        "age     count        filled          whole, >=0",
        "size    real         filled          step 0.5, >=-1, <=2.5",
        "<b>     categorical  filled          'a', 'b', 'c', 'd', 'e' and 2 more  a & b",
        "day     constant     filled          1970-01-02 00:00:00",
        "id      ignored      passed through",
    ]


def test_report_of_nothing() -> None:
    assert str(Schema(())) == "column  kind  treatment  values  note"


def test_html_is_escaped() -> None:
    text = MIXED._repr_html_()
    assert "<td>&lt;b&gt;</td>" in text
    assert "a &amp; b" in text
    assert text.count("<tr>") == 1 + len(MIXED)
    for cell in ("whole, &gt;=0", "passed through", "and 2 more"):
        assert cell in text


@pytest.mark.parametrize(
    ("column", "support"),
    [
        (Column("x", "count"), (0.0, float("inf"), 1.0)),
        (Column("x", "positive", lower=-3.0, upper=4.0), (0.0, 4.0, None)),
        (Column("x", "real", lower=2.0, step=0.5), (2.0, float("inf"), 0.5)),
    ],
)
def test_support_includes_what_the_kind_implies(column: Column, support: tuple) -> None:
    assert column.support == support
