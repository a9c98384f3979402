"""A code is a function of the row's value alone in engines too: every type of a column, every notation of a text.

The statement for engines is run in DuckDB, and held against DuckDB's own.
"""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.contract.column import Column
from contracts.domains.statements import ValueKind
from sudare_engines.portable_sql import sql_of
from sudare_engines.staging import SOURCE, portable_findings, staged
from tests.contracts.domains.test_notation import (
    FORMATS,
    MISREAD,
    NOTATIONS,
    NUMBER_DOMAINS,
    days_column,
    numbers_column,
    spelled,
)
from tests.contracts.domains.test_notation import VALUES as NOTATED
from tests.contracts.engine import connected, rows_as_written
from tests.contracts.samples import contract_of
from tests.contracts.sql.test_storage_types import DOMAINS, NUMBERS, SPELLED, VALUES, read, stored

CODED = [name for name, each in DOMAINS.items() if each.domain.kind in ("categories", "mapping")]
DIGITS: tuple[tuple[pa.DataType, ValueKind], ...] = (
    (pa.int64(), "whole"),
    (pa.float64(), "real"),
    (pa.decimal128(12, 2), "fixed"),
)


def read_portably(column: Column, array: pa.Array, kind: ValueKind) -> list[tuple[Any, ...]]:
    """Encode an array by the statement for engines, run in DuckDB."""
    statement = (repr(column), kind)
    if statement not in STATEMENTS:
        STATEMENTS[statement] = sql_of(staged(contract_of(column), {"x": kind}), "duckdb")
    with connected() as connection:
        connection.register(SOURCE, pa.table([array], names=["x"]))
        return rows_as_written(connection, STATEMENTS[statement])


STATEMENTS: dict[tuple[str, ValueKind], str] = {}
"""Statements for engines that were compiled already: they depend on column and type alone."""


@pytest.mark.parametrize("name", DOMAINS)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_a_code_does_not_depend_on_the_type_that_stores_a_number(name: str, data: st.DataObject) -> None:
    values = data.draw(st.lists(VALUES, min_size=1, max_size=12))
    expected = read(DOMAINS[name], stored(values, pa.float64()))
    for each, (type_, kind) in NUMBERS.items():
        array = stored(values, type_)
        if array is not None:
            assert read_portably(DOMAINS[name], array, kind) == expected, each


@pytest.mark.parametrize("name", CODED)
@pytest.mark.parametrize("written", SPELLED)
def test_a_text_that_spells_a_number_gets_its_code(name: str, written: str) -> None:
    array = pa.array([written.format(number) for number in (0, 1, 2, 3, 17, 99, 1000)])
    assert read_portably(DOMAINS[name], array, "text") == read(DOMAINS[name], array)


@pytest.mark.parametrize("kind", NUMBER_DOMAINS)
@pytest.mark.parametrize("name", NOTATIONS)
@settings(max_examples=3, deadline=None)
@given(values=st.lists(NOTATED, min_size=1, max_size=12), grouped=st.booleans())
def test_a_number_has_one_code_as_text_of_the_notation_and_as_any_type(
    name: str, kind: str, values: list[Fraction | None], grouped: bool
) -> None:
    notation = NOTATIONS[name]
    a_column = numbers_column(kind, notation, missing=[spelled(Fraction(-99), notation, grouped=False)])
    texts = pa.array([spelled(value, notation, grouped=grouped) for value in values], pa.string())
    expected = read(a_column, texts)
    assert read_portably(a_column, texts, "text") == expected
    for each in ("int64", "double", "flag", "decimal(7,3)"):
        type_, stored_kind = NUMBERS[each]
        array = stored(values, type_)
        if array is not None:
            assert read_portably(a_column, array, stored_kind) == expected, each


@pytest.mark.parametrize("form", FORMATS)
def test_a_day_has_one_code_as_text_of_the_format_and_as_any_type(form: str) -> None:
    missing = date(1900, 1, 1)
    a_column = days_column(form, missing=[missing.strftime(form)])
    days = [date(2020, 2, 29), date(2021, 1, 1), date(1999, 3, 4), date(2030, 12, 31), missing, None]
    texts = pa.array([None if day is None else day.strftime(form) for day in days])
    expected = read(a_column, texts)
    assert read_portably(a_column, texts, "text") == expected
    assert read_portably(a_column, pa.array(days), "day") == expected
    if form == "%Y%m%d":
        whole = pa.array([None if day is None else Decimal(day.strftime(form)) for day in days])
        for type_, kind in DIGITS:
            assert read_portably(a_column, whole.cast(type_), kind) == expected


@pytest.mark.parametrize(
    "a_column",
    [
        *(numbers_column("decimal", notation) for notation in NOTATIONS.values()),
        *(days_column(form, granularity="year", missing=["99", "x"]) for form in FORMATS),
    ],
)
def test_a_hostile_text_stops_nothing_and_is_alike_in_every_engine(a_column: Column) -> None:
    days = ["1.2.2021", " 01.02.2021 ", "1.2.2021 14:30", "01.02.2021 14:30:59,5", "1.2.2021 2:30 PM"]
    texts = pa.array([*MISREAD, *days])
    assert read_portably(a_column, texts, "text") == read(a_column, texts)


def test_engines_take_texts_only_of_a_declared_notation() -> None:
    for plain, notated, word in (
        (numbers_column("decimal", {}), numbers_column("decimal", {"decimal": ","}), "decimal"),
        (days_column(None), days_column("%d.%m.%Y"), "format"),
    ):
        [finding] = portable_findings(contract_of(plain), {"x": "text"}, where="t")
        assert f"declare `{word}:` in the contract" in finding.remedy
        assert portable_findings(contract_of(notated), {"x": "text"}, where="t") == []
    others = {"whole", "real", "fixed", "flag", "day", "moment", "nothing"}
    assert set(days_column(None).domain.value_kinds) == others
    assert set(days_column("%Y%m%d").domain.value_kinds) == {"text", *others}
