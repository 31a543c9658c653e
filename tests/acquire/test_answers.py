"""Answers as people give them: texts that a file may have, and words about what is no answer."""

import datetime as dt
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

from hhvaem import InputError
from hhvaem.acquire.answers import answer, number, parsed
from hhvaem.schema import Column
from hhvaem.table import encode_value

CRP = Column("crp", "positive", "float")
AGE = Column("age", "count", "integer")
SMOKER = Column("smoker", "binary", "boolean", levels=(False, True))
WARD = Column("ward", "categorical", "integer", levels=(1, 2, 7))
CITY = Column("city", "categorical", "text", levels=("Oslo", "Rome"))
BORN = Column("born", "datetime", "date")
SEEN = Column("seen", "datetime", "datetime")


@pytest.mark.parametrize(
    ("column", "text"),
    [
        *((CRP, text) for text in ("4", "4.5", " 4.5", "1e-3", ".5", "+2")),
        (AGE, "61"),
        *((SMOKER, text) for text in ("true", "True", "TRUE", "1", "false", "False", "0")),
        (WARD, "7"),
        (BORN, "2020-01-31"),
        *((SEEN, text) for text in ("2020-01-31", "2020-01-31 13:05", "2020-01-31T13:05:07")),
        *((SEEN, text) for text in ("2020-01-31 13:05:07.25", "2020-01-31T13:05:07Z")),
        (SEEN, "2020-01-31T13:05:07+02:00"),
    ],
)
def test_a_text_is_what_it_is_in_a_file(column: Column, text: str) -> None:
    kinds = {
        "float": pa.float64(),
        "integer": pa.int64(),
        "boolean": pa.bool_(),
        "date": pa.date32(),
        "datetime": pa.timestamp("us", "UTC" if text[-1] == "Z" or "+" in text else None),
    }
    options = csv.ConvertOptions(column_types={"x": kinds[column.storage]})
    content = pa.BufferReader(f"x\n{text}\n".encode())
    [read] = csv.read_csv(content, convert_options=options)["x"].to_pylist()
    assert number(column, answer(column, text)) == encode_value(column, read)


def test_a_comma_may_be_the_decimal_sign() -> None:
    assert answer(CRP, "4,5") == 4.5
    assert answer(CRP, " 0,1234 ") == 0.1234
    # Which of the two it is cannot be told, or it is none.
    for text in ("1,234", "1,2,3", ",5", "4,5.1"):
        with pytest.raises(InputError, match="is no value of 'crp'"):
            answer(CRP, text)


def test_values_are_as_they_were_given() -> None:
    assert answer(SMOKER, "yes") is True
    assert answer(SMOKER, "No") is False
    assert answer(BORN, "2020-01-31") == dt.date(2020, 1, 31)
    assert answer(SEEN, "2020-01-31T13:00+02:00") == dt.datetime(2020, 1, 31, 11)
    # Of texts, only those that the column has.
    assert answer(CITY, "Rome") == "Rome"
    with pytest.raises(InputError, match="'rome' is no value of 'city'"):
        answer(CITY, "rome")


@pytest.mark.parametrize(
    ("levels", "text", "expected"),
    [
        ((" Rome", "Oslo "), " Rome", " Rome"),
        ((" Rome", "Oslo "), "Rome", " Rome"),
        ((" Rome", "Oslo "), " oslo", "Oslo "),
        (("Rome", " Rome"), "Rome", "Rome"),
        (("Rome", " Rome"), " Rome", " Rome"),
        (("Rome", "ROME"), " ROME ", "ROME"),
        (("Rome", " "), " ", " "),
    ],
)
def test_blanks_at_the_ends_of_levels(levels: tuple[str, str], text: str, expected: str) -> None:
    assert parsed(Column("city", "categorical", "text", levels=levels), text) == expected


def test_one_of_levels_that_differ_by_blanks_is_not_guessed() -> None:
    city = Column("city", "categorical", "text", levels=("Rome", " Rome"))
    with pytest.raises(InputError, match="'rome' is no value of 'city', which is one of 'Rome', '"):
        parsed(city, "rome")


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        (
            CRP, Decimal("2.5"),
            "Decimal('2.5') is of type Decimal; give the value of 'crp', which is a number from 0, "
            "as a plain number.",
        ),
        (AGE, Fraction(1, 2), "Fraction(1, 2) is of type Fraction; give the value of 'age', which"),
        (CRP, "1e999", "inf is infinite or too large, and no value of 'crp', which is a number"),
        (AGE, 10**400, "is infinite or too large, and no value of 'age'"),
        (CRP, 1j, "1j is of type complex; give the value of 'crp'"),
        (CITY, b"Rome", "b'Rome' is of type bytes; give the value of 'city', which is one of"),
        (CITY, "\ud800", "'\\ud800' is no valid Unicode, and no value of 'city'."),
        (CRP, np.ones((2, 2)), "array([[1., 1.], [1., 1.]]) is of type ndarray; give the value of"),
        (CRP, np.timedelta64(1, "s"), "is of type timedelta64; give the value of 'crp'"),
        (SEEN, dt.time(3), "datetime.time(3, 0) is of type time; give the value of 'seen', which"),
        (SEEN, np.datetime64("300000-01-01"), "300000-01-01 is no value of 'seen': give a date of"),
        (SEEN, "9999-12-31T23:59-10:00", "is no value of 'seen', which is a date."),
        (SEEN, "31.1.2020", "'31.1.2020' is no value of 'seen', which is a date."),
        (SMOKER, "", "'' is no value of 'smoker', which is one of False, True."),
        (CRP, "nan", "The value of 'crp' is missing; give one."),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("as_users_have_it")
def test_what_is_no_answer_is_spoken_of_as_one_value(
    column: Column, value: Any, message: str
) -> None:
    with pytest.raises(InputError) as told:
        answer(column, value)
    assert message in str(told.value)
    assert "row" not in str(told.value)
