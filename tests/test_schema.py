"""The report and the JSON of a schema."""

import json
from dataclasses import replace

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
        ('{"version": 1, "columns": null}', "no list"),
        ('{"version": 1, "columns": 3}', "no list"),
        ('{"version": true, "columns": []}', "version True"),
        ("[" * 100_000, "not a schema"),
        (json.dumps({"version": 1, "columns": [{**ODD, "kind": "real", "x": 1}]}), "not a column"),
    ],
)
def test_other_json_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Schema.from_json(text)


COLUMNS = {
    "Column(3, 'real')": "Column 3 has a name that is no text",
    "Column('a', 'odd')": "unknown kind 'odd'; the kinds are real, positive",
    "Column('a', 'real', 'odd')": "unknown storage 'odd'",
    "Column('a', 'real', group=3)": "the group 3",
    "Column('a', 'real', note=None)": "the note None",
    "Column('a', 'binary', levels=['a', 'b'])": "levels of type list; give a tuple",
    "Column('a', 'binary', levels='ab')": "levels of type str",
    "Column('a', 'binary', levels=('a', None))": "the level None",
    "Column('a', 'binary', levels=('a', (1,)))": "the level (1,)",
    "Column('a', 'binary', levels=(0.0, float('nan')))": "the level nan",
    "Column('a', 'categorical', levels=(1, 2, 10**400))": "no text, truth value or finite number",
    "Column('a', 'constant', 'date', ('2020-01-01',))": "microseconds since 1970",
    "Column('a', 'categorical', levels=(2, 1, True))": "the level 1 more than once",
    "Column('a', 'binary', levels=(1, 2, 3))": "binary and has 3 levels; it needs 2",
    "Column('a', 'constant')": "constant and has 0 levels; it needs 1",
    "Column('a', 'ordinal')": "ordinal and has no levels",
    "Column('a', 'real', step=0.0)": "step 0.0; it must be larger than 0",
    "Column('a', 'real', step='1')": "step '1'; it must be a finite number or None",
    "Column('a', 'real', lower=float('nan'))": "lower nan",
    "Column('a', 'real', upper=float('inf'))": "upper inf; it must be a finite number or None",
    "Column('a', 'real', cost=-1.0)": "cost -1.0",
    "Column('a', 'real', cost=True)": "cost True",
    "Column('a', 'real', lower=3.0, upper=1.0)": "lower bound 3 is above its upper bound 1",
    "Column('a', 'count', upper=-1.0)": "lower bound 0 is above its upper bound -1",
    "Column('a', 'real', lower=1.0, upper=1.0)": "one legal value, 1; make its kind 'constant'",
    "Column('a', 'real', lower=0.2, upper=0.8, step=1.0)": "no multiple of 1 is from 0.2 to 0.8",
    "dataclasses.replace(Column('a', 'real'), cost=-1.0)": "cost -1.0",
    "Schema((Column('a', 'real'),)).replace('a', lower=3.0, upper=1.0)": "lower bound 3",
    "Schema((Column('a', 'real'),)).replace('b', lower=3.0)": "no column 'b'",
    "Schema((Column('a', 'real'),)).replace('a', low=3.0)": "A column has no 'low'",
    "Schema((Column('a', 'real'), Column('a', 'real')))": "more than one column named 'a'",
    "Schema([Column('a', 'real')])": "a tuple of Column",
    "Schema(('a',))": "a tuple of Column",
}
ENTRIES = {
    '{"name": [1]}': "Column [1] has a name",
    '{"levels": "xy"}': "levels of type str",
    '{"levels": [[1]]}': "the level [1]",
    '{"kind": "odd"}': "unknown kind 'odd'",
    '{"lower": NaN}': "lower nan",
}


def test_columns_are_checked_however_they_are_made() -> None:
    cases = dict(COLUMNS)
    for change, said in ENTRIES.items():
        entry = {**ODD, "kind": "real", **json.loads(change)}
        text = json.dumps({"version": 1, "columns": [entry]})
        cases[f"Schema.from_json({text!r})"] = said
    for expression, text in zip(cases, tables.refusals(list(cases)), strict=True):
        assert cases[expression] in text, (expression, text)
        assert not text.startswith(("accepted", "a traceback"))
        assert text.endswith(".")


def test_replace_gives_another_schema() -> None:
    other = MIXED.replace("age", upper=99.0)
    assert other["age"].upper == 99.0
    assert MIXED["age"].upper is None
    assert other.columns[1:] == MIXED.columns[1:]
    assert Schema.from_json(other.to_json()) == other


def test_a_report_is_safe_to_print() -> None:
    levels = ("x" * 1000, "\x1b[31mred\n")
    column = Column("a\x1b]0;b\x07\n\ud800", "binary", "text", levels, note="\x1b[2J")
    (row,) = Schema((column,)).rows()
    assert all(cell.isprintable() for cell in row)
    assert row[0] == r"a\x1b]0;b\x07\n\ud800"
    assert row[3] == f"'{'x' * 36}..., {levels[1]!r}"


def test_dates_after_those_of_python_are_shown() -> None:
    late = Column("a", "constant", "datetime", (1e18,))
    assert Schema((late,)).rows()[0][3] == "33658-09-27 01:46:40"


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"step": 864e8}, "days"),
        ({"step": 36e8}, "hours"),
        ({"step": 1e6}, "seconds"),
        ({"step": 1.0}, "microseconds"),
        ({"step": 72e8}, "step 2 hours"),
        ({"step": 90e6}, "step 90 seconds"),
        ({"step": 0.5}, "step 0.5 microseconds"),
        ({}, ""),
        (
            {"step": 864e8, "lower": 0.0, "upper": 864e8},
            "days, >=1970-01-01 00:00:00, <=1970-01-02 00:00:00",
        ),
        ({"upper": 1e300}, "<=1e+300"),
    ],
)
def test_legal_dates_are_shown(properties: dict[str, float], said: str) -> None:
    column = Column("a", "datetime", "datetime", **properties)  # type: ignore[arg-type]
    assert Schema((column,)).rows()[0][3] == said


def test_a_schema_of_a_predictor_fills_nothing() -> None:
    other = replace(MIXED, filled=False)
    assert [row[2] for row in other.rows()] == ["allowed"] * 3 + ["ignored"] * 2
    assert "filled" not in str(other.replace("age", upper=99.0))
    assert other == MIXED
    assert other.to_json() == MIXED.to_json()


def test_levels_keep_their_types_in_json() -> None:
    column = json.loads(Schema((Column("x", "binary", levels=(1.0, 2.0)),)).to_json())["columns"][0]
    assert [type(level) for level in column["levels"]] == [float, float]


def test_report() -> None:
    assert str(MIXED).splitlines() == [
        "column  kind         holes are       values                              note",
        "age     count        filled          whole, >=0",
        "size    real         filled          step 0.5, >=-1, <=2.5",
        "<b>     categorical  filled          'a', 'b', 'c', 'd', 'e' and 2 more  a & b",
        "day     constant     filled          1970-01-02 00:00:00",
        "id      ignored      passed through",
    ]


def test_report_of_nothing() -> None:
    assert str(Schema(())) == "column  kind  holes are  values  note"


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
