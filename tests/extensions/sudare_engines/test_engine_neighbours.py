"""Neighbouring tables whose writer stores a column differently, and ids of any type, as engines get them."""

from typing import Any

import duckdb
import ibis
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.contract.column import Column
from contracts.domains.statements import ValueKind
from contracts.sql.encoding import encode_select
from sudare_engines.portable_sql import sql_of
from sudare_engines.staging import SOURCE, staged, unit_text
from tests.contracts.engine import rows_as_written
from tests.contracts.samples import contract_of
from tests.tasks.storage.sources.test_exact_ids import STORED
from tests.tasks.storage.sources.test_storage_neighbours import COLUMNS, PAIRS, distance


@pytest.mark.parametrize("name", COLUMNS)
@settings(max_examples=6, deadline=None)
@given(pair=PAIRS)
def test_an_engine_changes_one_code_or_refuses_by_what_the_writer_declares(name: str, pair: Any):
    """What engines get, in DuckDB: where both tables are taken they differ by the row, and a type that one row can
    decide is refused in neither."""
    values, extra, writer = pair
    column, found = COLUMNS[name], []
    for each in (values, [*values, extra]):
        array = writer(each)
        if (kind := kind_of(array.type)) in column.domain.value_kinds:
            found.append(portable_rows(column, array, kind))
        else:
            assert kind == "text" or (kind in ("day", "moment") and column.logical_type != "date"), kind
    if len(found) == 2:
        assert distance(*found) == 1


def kind_of(kind: pa.DataType) -> ValueKind:
    """The kind of an Arrow type, as Spark's types have it."""
    for name, holds in (
        ("nothing", pa.types.is_null(kind)),
        ("flag", pa.types.is_boolean(kind)),
        ("whole", pa.types.is_integer(kind)),
        ("real", pa.types.is_floating(kind)),
        ("fixed", pa.types.is_decimal(kind)),
        ("day", pa.types.is_date(kind)),
        ("moment", pa.types.is_timestamp(kind)),
    ):
        if holds:
            return name  # type: ignore[return-value]
    return "text"


def portable_rows(column: Column, array: pa.Array, kind: ValueKind) -> list[Any]:
    contract = contract_of(column)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register(SOURCE, pa.table([array], names=["x"]))
        found = rows_as_written(connection, sql_of(staged(contract, {"x": kind}), "duckdb"))
        codes = connection.execute(encode_select(contract, columns_present=["x"], relation=SOURCE)).fetchall()
    assert [row[:1] for row in found] == codes
    return found


@pytest.mark.long
@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=5), st.sampled_from([None, 1000, 10**15]))
def test_an_engine_reads_an_id_by_its_digits_alone(ids: list[int], largest: int | None):
    """As DuckDB's own statement does; beyond the declared largest it is missing everywhere."""
    expected = [str(each) if largest is None or abs(each) <= largest else None for each in ids]
    kinds: dict[str, tuple[ValueKind, str]] = dict.fromkeys(
        ("text", "spaced text", "text of decimals"), ("text", "string")
    )
    for name, (kind, type_) in {"int64": ("whole", "int64"), **kinds}.items():
        with duckdb.connect() as connection:
            connection.register("given", pa.table({"pid": STORED[name](ids)}))
            table = ibis.table({"pid": type_}, name="given")
            sql = sql_of(table.select(u=unit_text(table.pid, kind, largest)), "duckdb")
            assert [row[0] for row in connection.execute(sql).fetchall()] == expected, name
