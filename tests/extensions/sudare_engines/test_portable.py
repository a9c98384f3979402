"""Portable expressions against DuckDB's: the same codes and offsets, row for row, of every type and notation.

The statement for engines is run in DuckDB, and held against DuckDB's own.
"""

import re
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any, get_args

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from contracts.contract.column import Column
from contracts.contract.contract import Contract, checks
from contracts.domains.lattice import ValueLattice
from contracts.domains.portable_cell import SPACES
from contracts.domains.statements import ValueKind
from contracts.sql.encoding import encode_select, violation_sql
from sudare_engines.portable_sql import Dialect, parsed, sql_of
from sudare_engines.staging import (
    KEYS,
    SOURCE,
    cells_of,
    checks_of,
    nobodys_rows,
    portable_findings,
    stage_of,
    staged,
)
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
from tests.contracts.engine import connected, in_numbers, rows_as_written
from tests.contracts.samples import column, contract_of
from tests.contracts.sql.test_storage_types import DOMAINS, SPELLED, VALUES, read, stored
from tests.contracts.sql.test_storage_types import NUMBERS as STORED_NUMBERS
from tests.extensions.sudare_engines.portable_rows import (
    ARROW,
    CASES,
    COLUMNS,
    NUMBERS,
    lattices_of,
    values_of,
    values_on,
)

UNIT = {"kind": "id", "scope": "block", "column": "person", "max_rows_per_unit": 2}


def rows_of(sql: str, **tables: pa.Table) -> list[tuple[Any, ...]]:
    """Run a statement over Arrow tables in DuckDB."""
    with connected() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        return connection.execute(sql).fetchall()


@pytest.mark.parametrize(("name", "kind"), CASES, ids=lambda each: str(each))
def test_codes_and_broken_checks_are_those_of_the_encoding_row_for_row(name: str, kind: ValueKind):
    """At, beside and far from everything that a domain names, for every type that an engine may read it from."""
    a_column = COLUMNS[name]
    contract = contract_of(a_column)
    table = pa.table([pa.array(values_of(a_column, kind), ARROW[kind])], names=["x"])
    with connected() as connection:
        connection.register(SOURCE, table)
        got = rows_as_written(connection, sql_of(staged(contract, {"x": kind}), "duckdb"))
    codes = rows_of(encode_select(contract, columns_present=["x"], relation=SOURCE), **{SOURCE: table})
    broken = [f"({violation_sql(check, contract)})::INTEGER" for check in checks(contract) if check.column]
    marks = rows_of(f"SELECT {', '.join(broken)} FROM {SOURCE}", **{SOURCE: table})
    assert got == [code + in_numbers(mark) for code, mark in zip(codes, marks, strict=True)]


def test_the_spaces_around_a_text_are_those_that_duckdb_takes_off():
    """Of all letters of Unicode, trim() leaves nothing of these and no others."""
    letters = "SELECT chr(i::INTEGER) FROM range(1, 1114112) t(i) WHERE NOT i BETWEEN 55296 AND 57343"
    assert {row[0] for row in rows_of(f"SELECT * FROM ({letters}) s(x) WHERE trim(x) = ''")} == set(SPACES)


def people() -> tuple[Contract, dict[str, ValueKind]]:
    """A contract with a unit and one column of each kind, and the types that it is read from."""
    names: dict[str, ValueKind] = {
        "hostile": "text",
        "integer": "real",
        "weeks": "day",
        "flags": "flag",
        "quarters": "day",
        "compact days": "real",
    }
    columns = [COLUMNS[name].model_copy(update={"name": name}) for name in names]
    return contract_of(*columns, unit=UNIT), {"person": "text", **names}


@pytest.mark.long
@pytest.mark.parametrize("dialect", get_args(Dialect))
def test_all_that_an_engine_is_asked_is_written_in_its_dialect(dialect: Dialect):
    """Each statement parses as one SELECT of that dialect; the keyed choice hashes twice and ranks twice; no function
    of ours is left in it.
    """
    contract, kinds = people()
    clique = ("hostile", "weeks")
    stage = sql_of(staged(contract, kinds), dialect)
    others = [sql_of(each, dialect) for each in (nobodys_rows(contract, kinds), cells_of(contract, [clique]))]
    for sql in (stage, *others, sql_of(cells_of(contract, [()]), dialect), sql_of(checks_of(contract), dialect)):
        assert isinstance(parsed(sql, dialect), exp.Select)
        assert "portable" not in sql.lower()
    assert KEYS in stage
    assert not re.search("[0-9a-f]{32}", stage), "a key would stand in plans"
    assert len(list(parsed(stage, dialect).find_all(exp.RowNumber))) == 2
    assert stage.upper().count("SHA2") == 2


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_the_sql_of_a_column_is_short_enough_for_the_parser_of_an_engine(name: str, kind: ValueKind):
    """Spark's parser takes a gigabyte for 250,000 letters: what is named often is computed of little."""
    contract = contract_of(COLUMNS[name].model_copy(update={"name": "x"}))
    assert len(sql_of(staged(contract, {"x": kind}), "pyspark")) < 40_000


def test_a_marginal_is_counted_over_the_stage_by_row_major_numbers():
    """Also the total, and for a stage without rows nothing."""
    contract = contract_of(
        column("categories", "string", "a", values=["x", "y"]), column("categories", "string", "b", values=["p"])
    )
    names = stage_of(contract).columns
    assert names == ("c0", "c1", "b0")
    stage = pa.table([[0, 2, 2, 2], [1, 0, 0, 1], [0] * 4], names=list(names))
    for clique, cells in ((("a", "b"), {1: 1, 4: 2, 5: 1}), (("b", "a"), {3: 1, 2: 2, 5: 1}), ((), {0: 4})):
        assert dict(rows_of(sql_of(cells_of(contract, [clique]), "duckdb"), sudare_stage=stage)) == cells
        assert rows_of(sql_of(cells_of(contract, [clique]), "duckdb"), sudare_stage=stage.slice(4)) == []


def test_each_check_has_a_count_of_its_own_however_many_there_are():
    """Forty checks are in two numbers; of a stage without rows all counts are 0."""
    names = [f"x{place}" for place in range(20)]
    contract = contract_of(*(column("categories", "string", name, values=["a"]) for name in names))
    rows = pa.table([[["a", "b", None][(row + place) % 3] for row in range(5)] for place in range(20)], names=names)
    with connected() as connection:
        connection.register(SOURCE, rows)
        made = sql_of(staged(contract, dict.fromkeys(names, "text")), "duckdb")
        rows_as_written(connection, f"CREATE TABLE sudare_stage AS {made}")
        [counts] = connection.execute(sql_of(checks_of(contract), "duckdb")).fetchall()
        conditions = [violation_sql(check, contract) for check in checks(contract) if check.column]
        counted = ", ".join(f"count(*) FILTER (WHERE {condition})" for condition in conditions)
        assert connection.execute(f"SELECT count(*), {counted} FROM {SOURCE}").fetchall() == [counts]
        assert len(counts) == 41
        assert {"b0", "b1"} < set(stage_of(contract).columns)
        connection.execute("DELETE FROM sudare_stage")
        assert connection.execute(sql_of(checks_of(contract), "duckdb")).fetchall() == [(0,) * 41]


@pytest.mark.parametrize(
    ("name", "kind", "says"),
    [
        ("integer", "text", "found text, allowed integer or floating point or decimal or boolean"),
        ("weeks", "text", "found text, allowed date"),
        ("hostile", "day", "found date, allowed text or integer or floating point"),
        ("flags", None, "found another type, allowed text or integer"),
        ("person", "real", "found floating point, allowed text or integer"),
    ],
)
def test_a_type_that_engines_read_differently_is_refused_by_name(name: str, kind: ValueKind | None, says: str):
    contract, kinds = people()
    if name not in kinds:
        contract, kinds = contract_of(COLUMNS[name].model_copy(update={"name": name})), {}
    [finding] = portable_findings(contract, {**kinds, name: kind}, where="people")
    assert f"column '{name}'" in str(finding)
    assert f"found {finding.found}, allowed {finding.allowed}".startswith(says)


def test_domains_beyond_what_the_expressions_hold_are_refused():
    """Very many bins, and pictures."""
    wide = column("integer", "integer", bounds=[0, 999], bins={"width": 1})
    picture = column("image", "array", height=2, width=2, levels=4, nulls={"policy": "map", "to": "0"})
    for a_column, says in ((wide, "1000 bins"), (picture, "no column of kind image")):
        findings = portable_findings(contract_of(a_column), {"x": "whole"}, where="people")
        assert says in " ".join(map(str, findings))


@pytest.mark.parametrize(("name", "kind"), NUMBERS, ids=str)
def test_offsets_are_those_of_the_encoding_row_for_row(name: str, kind: ValueKind):
    """Halves of a step and their neighbours, -0, infinities, NaN, null, and all values beside what a domain names."""
    column = COLUMNS[name].model_copy(update={"name": "x"})
    contract, lattices = contract_of(column), lattices_of(column)
    values = [*values_of(column, kind), *values_on(lattices, kind)]
    table = pa.table([pa.array(values, ARROW[kind])], names=["x"])
    expected = encode_select(contract, columns_present=["x"], relation=SOURCE, lattices=lattices)
    with connected() as connection:
        connection.register(SOURCE, table)
        got = rows_as_written(connection, sql_of(staged(contract, {"x": kind}, lattices), "duckdb"))
        wanted = connection.execute(expected).fetchall()
    assert [row[-len(lattices) :] for row in got] == [row[1:] for row in wanted]
    assert len({row[-1] for row in got}) > 1


def test_a_half_goes_up_and_what_is_just_below_it_down():
    """0.5 and 1.5 go to 1 and 2; the double below one half goes to 0, though a half added to it rounds to 1."""
    column = COLUMNS["decimal"].model_copy(update={"name": "x"})
    lattice = ValueLattice("x", Decimal(0), Decimal(4), Decimal(1), counts_missing=True)
    values = [0.5, 0.49999999999999994, 1.5, 2.5, 1.4999999999999998, -0.0, None]
    with connected() as connection:
        connection.register(SOURCE, pa.table({"x": values}))
        sql = sql_of(staged(contract_of(column), {"x": "real"}, [lattice]), "duckdb")
        assert [row[-1] for row in connection.execute(sql).fetchall()] == [2, 1, 3, 4, 2, 1, 0]


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
def test_a_code_does_not_depend_on_the_type_that_stores_a_number(name: str, data: st.DataObject):
    values = data.draw(st.lists(VALUES, min_size=1, max_size=12))
    expected = read(DOMAINS[name], stored(values, pa.float64()))
    for each, (type_, kind) in STORED_NUMBERS.items():
        array = stored(values, type_)
        if array is not None:
            assert read_portably(DOMAINS[name], array, kind) == expected, each


@pytest.mark.parametrize("name", CODED)
@pytest.mark.parametrize("written", SPELLED)
def test_a_text_that_spells_a_number_gets_its_code(name: str, written: str):
    array = pa.array([written.format(number) for number in (0, 1, 2, 3, 17, 99, 1000)])
    assert read_portably(DOMAINS[name], array, "text") == read(DOMAINS[name], array)


@pytest.mark.parametrize("kind", NUMBER_DOMAINS)
@pytest.mark.parametrize("name", NOTATIONS)
@settings(max_examples=3, deadline=None)
@given(values=st.lists(NOTATED, min_size=1, max_size=12), grouped=st.booleans())
def test_a_number_has_one_code_as_text_of_the_notation_and_as_any_type(
    name: str, kind: str, values: list[Fraction | None], grouped: bool
):
    notation = NOTATIONS[name]
    a_column = numbers_column(kind, notation, missing=[spelled(Fraction(-99), notation, grouped=False)])
    texts = pa.array([spelled(value, notation, grouped=grouped) for value in values], pa.string())
    expected = read(a_column, texts)
    assert read_portably(a_column, texts, "text") == expected
    for each in ("int64", "double", "flag", "decimal(7,3)"):
        type_, stored_kind = STORED_NUMBERS[each]
        array = stored(values, type_)
        if array is not None:
            assert read_portably(a_column, array, stored_kind) == expected, each


@pytest.mark.parametrize("form", FORMATS)
def test_a_day_has_one_code_as_text_of_the_format_and_as_any_type(form: str):
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
def test_a_hostile_text_stops_nothing_and_is_alike_in_every_engine(a_column: Column):
    days = ["1.2.2021", " 01.02.2021 ", "1.2.2021 14:30", "01.02.2021 14:30:59,5", "1.2.2021 2:30 PM"]
    texts = pa.array([*MISREAD, *days])
    assert read_portably(a_column, texts, "text") == read(a_column, texts)


def test_engines_take_texts_only_of_a_declared_notation():
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
