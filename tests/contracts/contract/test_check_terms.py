"""Checks: which there are, which are gates, and which rows break them."""

from __future__ import annotations

from pathlib import Path

import duckdb
import polars as pl
import pytest

from contracts.contract.contract import checks
from contracts.contract.terms import check_names
from contracts.sql.encoding import encode_select, violation_sql
from tests.contracts.samples import column, contract_of, loaded

ID = ("unit: {kind: row, scope: block}", "unit: {kind: id, scope: block, column: person, max_rows_per_unit: 3}")
PERSON = ("    properties:\n", "    properties:\n      - {name: person, logicalType: string}\n")


def test_each_column_has_its_checks_and_only_declared_ones_are_gates(tmp_path: Path) -> None:
    """Besides the format's own gates a gate is what the contract names."""
    listed = checks(loaded(tmp_path, ID, PERSON))
    assert [check.name for check in listed if check.gate] == ["columns", "nulls:person", "nulls:age"]
    assert [check.name for check in listed[3:9]] == [
        "nulls:age",
        "type:age",
        "domain:age",
        "nulls:sex",
        "domain:sex",
        "nulls:job",
    ]
    assert listed[0].parameters == {"names": ("person", "age", "sex", "job", "income", "moved")}


def test_parameters_are_plain_data(tmp_path: Path) -> None:
    """Bounds are exact texts; lists hold every text that the encoding understands."""
    named = {check.name: check for check in checks(loaded(tmp_path))}
    assert named["domain:age"].parameters == {"low": "17", "high": "90", "to": "integer", "missing": ("", "?")}
    assert named["domain:income"].parameters == {"low": "0", "high": "1.5", "to": "number", "missing": ()}
    assert named["type:moved"].parameters == {"to": "date", "missing": ()}
    values = ("office clerk", "Clerk", "nurse", "clerk", "care", "other")
    assert named["domain:job"].parameters == {"values": values, "missing": ()}
    kinds = {check.kind for check in named.values()}
    assert kinds == {"columns", "rows", "not_null", "castable", "in_set", "between"}


def test_the_names_of_gates_are_the_names_of_checks(tmp_path: Path) -> None:
    """Whatever check there is can be declared a gate, and nothing else."""
    contract = loaded(tmp_path, ID, PERSON)
    assert tuple(check.name for check in checks(contract)) == check_names(contract.columns, contract.unit)


AGE = column("integer", "integer", "age", bounds=[17, 90], bins={"width": 10}, missing=["?", "999"])
JOB = column("mapping", "string", "job", mapping={"a": "clerk"}, other="rest", missing=["-"])
DAY = column("date", "date", "day", bounds=["2020-01-01", "2020-12-31"], granularity="month")
ROWS = {
    "age": ["17", " 90.0", "91", "x", "18.5", "?", "999", None, "inf", "nan"],
    "job": ["a", "clerk ", "z", "rest", "", "-", " - ", None, "A", "a"],
    "day": ["2020-01-01", "2021-01-01", "no", None, "2020-12-31", "2020-06-31", "2019-12-31", "2020-02-29", "", "5"],
}
BROKEN = {
    "nulls:age": [5, 6, 7, 9],
    "type:age": [3, 4],
    "domain:age": [2, 8],
    "nulls:job": [5, 6, 7],
    "domain:job": [2, 4, 8],
    "nulls:day": [3],
    "type:day": [2, 5, 8, 9],
    "domain:day": [1, 6],
}


@pytest.mark.parametrize("typed", [False, True])
def test_the_rows_that_break_a_check_are_found_as_the_encoding_reads_them(typed: bool) -> None:
    """Texts with spaces, missing tokens, numbers out of bounds, unreadable dates: each counts in one check only."""
    contract = contract_of(AGE, JOB, DAY)
    frame = pl.DataFrame({**ROWS, "row": range(10)})
    if typed:
        frame = frame.with_columns(pl.col("age").str.strip_chars().cast(pl.Float64, strict=False))
    with duckdb.connect() as connection:
        connection.register("delivered", frame.to_arrow())
        found = {
            check.name: [
                row[0]
                for row in connection.execute(
                    f'SELECT "row" FROM delivered WHERE {violation_sql(check, contract)} ORDER BY "row"'
                ).fetchall()
            ]
            for check in checks(contract)
            if check.column is not None
        }
    expected = BROKEN if not typed else {**BROKEN, "nulls:age": [3, 5, 6, 7, 9], "type:age": [4]}
    assert found == expected


def test_a_row_that_breaks_nothing_is_neither_clipped_nor_mapped() -> None:
    """Rows that hold all checks of a column decode into themselves: no null, no other, no end of the bounds."""
    contract = contract_of(AGE, JOB, DAY)
    frame = pl.DataFrame(ROWS)
    with duckdb.connect() as connection:
        connection.register("delivered", frame.to_arrow())
        sql = encode_select(contract, columns_present=list(ROWS), relation="delivered")
        codes = connection.execute(sql).pl()
    for name, a_column in (("age", AGE), ("day", DAY)):
        broken = {row for check, rows in BROKEN.items() for row in rows if check in (f"nulls:{name}", f"type:{name}")}
        assert {row for row, code in enumerate(codes[name]) if code == a_column.null_code} == broken
    assert [row for row, code in enumerate(codes["job"]) if code == JOB.domain.misfit_code] == [2, 3, 4, 8]


def test_the_id_column_is_checked_for_nulls(tmp_path: Path) -> None:
    """The gate of the unit's id needs no domain; the table's own checks are no row conditions."""
    contract = loaded(tmp_path, ID, PERSON)
    by_name = {check.name: check for check in checks(contract)}
    assert violation_sql(by_name["nulls:person"], contract) == '"person" IS NULL'
    with pytest.raises(ValueError, match="about the table"):
        violation_sql(by_name["rows"], contract)
