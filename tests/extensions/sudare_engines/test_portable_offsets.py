"""Offsets as portable expressions against those that are written for DuckDB: the same whole numbers, row for row."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from contracts.domains.lattice import ValueLattice
from contracts.domains.statements import ValueKind
from contracts.sql.encoding import encode_select
from sudare_engines.portable_sql import sql_of
from sudare_engines.staging import SOURCE, staged
from tests.contracts.engine import connected, rows_as_written
from tests.contracts.samples import contract_of
from tests.extensions.sudare_engines.portable_rows import ARROW, COLUMNS, NUMBERS, lattices_of, values_of, values_on


@pytest.mark.parametrize(("name", "kind"), NUMBERS, ids=str)
def test_offsets_are_those_of_the_encoding_row_for_row(name: str, kind: ValueKind) -> None:
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


def test_a_half_goes_up_and_what_is_just_below_it_down() -> None:
    """0.5 and 1.5 go to 1 and 2; the double below one half goes to 0, though a half added to it rounds to 1."""
    column = COLUMNS["decimal"].model_copy(update={"name": "x"})
    lattice = ValueLattice("x", Decimal(0), Decimal(4), Decimal(1), counts_missing=True)
    values = [0.5, 0.49999999999999994, 1.5, 2.5, 1.4999999999999998, -0.0, None]
    with connected() as connection:
        connection.register(SOURCE, pa.table({"x": values}))
        sql = sql_of(staged(contract_of(column), {"x": "real"}, [lattice]), "duckdb")
        assert [row[-1] for row in connection.execute(sql).fetchall()] == [2, 1, 3, 4, 2, 1, 0]
