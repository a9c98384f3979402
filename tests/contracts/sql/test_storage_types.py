"""A code is a function of the row's value alone: every pair of types that store equal values, every kind of domain.

Which type a writer picks can depend on one row: a missing value makes doubles of whole numbers, one value with more
digits a wider decimal, one with an hour a moment of every day. If that changed other rows' codes, the sensitivity of
every draw would be false.
"""

from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.contract.column import Column
from contracts.contract.contract import checks
from contracts.domains.notation import value_key
from contracts.domains.statements import ValueKind
from contracts.sql.encoding import encode_select, violation_sql
from tests.contracts.engine import connected, in_numbers
from tests.contracts.samples import CONTRACT, column, contract_findings, contract_of
from tests.contracts.sql.test_value_types import SAME

NUMBERS: dict[str, tuple[pa.DataType, ValueKind]] = {
    **{f"int{bits}": (getattr(pa, f"int{bits}")(), "whole") for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": (getattr(pa, f"uint{bits}")(), "whole") for bits in (8, 16, 32, 64)},
    "float": (pa.float32(), "real"),
    "double": (pa.float64(), "real"),
    "flag": (pa.bool_(), "flag"),
    **{f"decimal({p},{s})": (pa.decimal128(p, s), "fixed") for p, s in ((5, 1), (7, 3), (18, 6), (38, 2), (38, 30))},
}
SPELLED = ("{}", "{}.0", "0{}", "+{}", " {} ", "{}.", "{}.00")
DAYS = {"date": pa.date32(), **{unit: pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")}}
MOMENTS = ("{}", "{} 00:00:00", "{}T00:00:00", " {} ", "{} 00:00:00.000")
DOMAINS = {
    "codes as texts": column("categories", "string", values=["1", "2", "17"], missing=["99", "-1"]),
    "codes with another": column("categories", "string", values=["01", "2"], other="else", missing=["99"]),
    "codes with decimals": column(
        "categories", "string", values=["0.50", "1.5", "2"], nulls={"policy": "map", "to": "2"}
    ),
    "whole codes": column("categories", "integer", values=["0", "1", "02", "17"]),
    "number codes": column("mapping", "number", mapping={"0.5": "a", "1": "b", "1.0": "b", "2": "a"}, other="o"),
    "flags": column("categories", "boolean", values=["true", "false"]),
    "flags as texts": column("categories", "string", values=["True", "False", "unknown"]),
    "words": column("categories", "string", values=["F", "M"], other="?", missing=["0"]),
    "integers": column("integer", "integer", bounds=[0, 20], bins={"width": 3}, missing=["99"]),
    "decimals of whole numbers": column(
        "decimal", "integer", bounds=[0, 20], bins={"edges": ["0", "0.5", "1.5", "20"]}
    ),
    "decimals": column("decimal", "number", bounds=[0, 2], bins={"width": "0.25"}, missing=["-1", "99.0"]),
}
DATES = {
    "days": column("date", "date", bounds=["2020-01-01", "2021-12-31"], granularity="day", missing=["1900-01-01"]),
    "months": column("date", "date", bounds=["2020-01-15", "2021-12-31"], granularity="month"),
    "listed days": column("categories", "date", values=["2020-02-29", "2021-01-01 00:00:00"], missing=["1900-01-01"]),
    "listed texts": column("categories", "string", values=["2020-02-29", "2021-01-01"], other="else"),
}
VALUES = st.one_of(
    st.none(),
    st.sampled_from([Fraction(each, 4) for each in (0, 1, 2, 3, 4, 5, 6, 7, 8, 68, 396, -4, -1, 500)]),
    st.integers(-300, 300).map(lambda n: Fraction(n, 4)),
    st.integers(0, 2**40).map(Fraction),
)


def stored(values: list[Fraction | None], kind: pa.DataType) -> pa.Array | None:
    """Store the values as a type; None where it does not hold them as they are."""
    floating = pa.types.is_floating(kind)
    try:
        if pa.types.is_boolean(kind):
            held: list[Any] = [None if value is None else {0: False, 1: True}[value] for value in values]
        elif floating:
            held = [None if value is None else float(value) for value in values]
        elif pa.types.is_decimal(kind):
            held = [
                None if value is None else Decimal(value.numerator) / Decimal(value.denominator) for value in values
            ]
        else:
            held = [None if value is None else {1: value.numerator}[value.denominator] for value in values]
        array = pa.array(held, kind)
    except (KeyError, OverflowError, pa.ArrowInvalid, pa.ArrowTypeError):
        return None
    return array if not floating or array.to_pylist() == held else None


def read(column: Column, array: pa.Array) -> list[tuple[Any, ...]]:
    contract = contract_of(column)
    broken = ", ".join(f"({violation_sql(check, contract)})::INTEGER" for check in checks(contract) if check.column)
    with connected() as connection:
        connection.register("delivered", pa.table([array], names=["x"]))
        codes = connection.execute(encode_select(contract, columns_present=["x"], relation="delivered")).fetchall()
        marks = connection.execute(f"SELECT {broken} FROM delivered").fetchall()
    return [code + in_numbers(mark) for code, mark in zip(codes, marks, strict=True)]


@pytest.mark.long
@pytest.mark.parametrize("name", DOMAINS)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_a_code_does_not_depend_on_the_type_that_stores_a_number(name: str, data: st.DataObject):
    """All types of numbers: one list of codes and broken checks."""
    values = data.draw(st.lists(VALUES, min_size=1, max_size=12))
    a_column = DOMAINS[name]
    expected = read(a_column, stored(values, pa.float64()))
    for each, (type_, _) in NUMBERS.items():
        array = stored(values, type_)
        if array is not None:
            assert read(a_column, array) == expected, each


@pytest.mark.parametrize("name", DOMAINS)
@pytest.mark.parametrize("spelled", SPELLED)
def test_a_text_that_spells_a_number_gets_its_code(name: str, spelled: str):
    """A CSV file says 1.0 where one row has no value; the text of a code may begin with a nought."""
    a_column = DOMAINS[name]
    numbers = [0, 1, 2, 3, 17, 99, 1000]
    array = pa.array([spelled.format(number) for number in numbers])
    assert read(a_column, array) == read(a_column, pa.array(numbers))


@pytest.mark.parametrize("name", DOMAINS)
def test_a_text_that_spells_a_flag_gets_its_code(name: str):
    flags = [True, False, None]
    for array in (pa.array(["True", "False", None]), pa.array([" true", "FALSE ", None])):
        assert read(DOMAINS[name], array) == read(DOMAINS[name], pa.array(flags))
    assert read(DOMAINS[name], pa.array([1.0, 0.0, None])) == read(DOMAINS[name], pa.array(flags))


@pytest.mark.parametrize("name", DATES)
def test_a_code_does_not_depend_on_the_type_that_stores_a_day(name: str):
    """Days, midnights of any resolution, and texts of both."""
    a_column = DATES[name]
    days = [date(2020, 2, 29), date(2021, 1, 1), date(1900, 1, 1), date(2020, 7, 5), None]
    expected = read(a_column, pa.array(days))
    midnights = [None if day is None else datetime(day.year, day.month, day.day) for day in days]
    for each, kind in DAYS.items():
        assert read(a_column, pa.array(days if each == "date" else midnights, kind)) == expected, each
    for spelled in MOMENTS:
        assert read(a_column, pa.array([None if day is None else spelled.format(day) for day in days])) == expected


@pytest.mark.parametrize("name", DOMAINS | DATES)
@pytest.mark.parametrize("case", SAME)
def test_a_code_is_the_same_in_every_type_that_stores_a_value(case: str, name: str):
    """All that Arrow and CSV make of the same values: no type, dictionaries, time zones, lists, other scales."""
    a_column = (DOMAINS | DATES)[name]
    first, *others = SAME[case]
    assert [read(a_column, each) for each in others] == [read(a_column, first)] * len(others)


def test_the_property_finds_a_reading_that_goes_by_the_spelling():
    """The wrong case: looked up by the text of each type, as codes once were, 1 and 1.0 part."""
    with duckdb.connect() as connection:
        texts = [
            connection.execute(f"SELECT TRY_CAST(CAST(1::{kind} AS VARCHAR) AS ENUM('1', '2'))").fetchone()
            for kind in ("BIGINT", "DOUBLE", "DECIMAL(4, 2)")
        ]
    assert texts == [("1",), (None,), (None,)]


def test_a_nan_is_a_null_and_no_other_category():
    for a_column in DOMAINS.values():
        assert read(a_column, pa.array([float("nan")])) == read(a_column, pa.array([None], pa.float64()))


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ("['1', '01']", "'01' beside '1', which are one value"),
        ("['20.2', '20.20']", "'20.20' beside '20.2'"),
        ("['true', '1']", "'1' beside 'true'"),
        ("['2021-03-01', '2021-03-01 00:00:00']", "'2021-03-01 00:00:00' beside '2021-03-01'"),
    ],
)
def test_two_categories_that_are_one_value_are_refused(tmp_path: Any, values: str, says: str):
    """Stored as numbers they cannot be told apart, and whether a writer does so may be a matter of one row."""
    text = CONTRACT.replace(
        "values: [F, M], nulls: {policy: map, to: F}", f"values: {values}, nulls: {{policy: category}}"
    )
    text = text.replace("            - {sex: [F], job: [clerk, other]}\n", "").replace(
        "structural_zeros:\n", "structural_zeros: []\n"
    )
    [finding] = contract_findings(tmp_path, text)
    assert says in finding.found
    assert finding.allowed == "texts that differ as values"


def test_codes_with_an_exponent_stay_texts():
    """1E50 and 1E51 are codes of a classification, not numbers; neither are hexadecimal digits, infinity or NaN."""
    assert [value_key(text) for text in ("1E50", "0e1", "inf", "NaN", "0x1", "1_0", "١", "1,5")] == [None] * 8
    with pytest.raises(AssertionError):
        assert value_key("1.0") is None
