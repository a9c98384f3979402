"""PostgreSQL, really: a server counts its own table: the codes, counts and sums of DuckDB, versions that verify."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from contracts.contract.contract import Contract
from contracts.domains.statements import ValueKind
from contracts.release.source import Source
from privacy.private_table import PrivateTable
from privacy.snapshots.snapshot import SnapshotCounts
from sudare_engines.portable_sql import sql_of
from sudare_engines.postgres import PostgresSession
from sudare_engines.stage import ingest_in_engine
from sudare_engines.stage_rules import key_row
from sudare_engines.staging import SOURCE, STAGE, stage_of, staged
from tasks.ingest import ingest
from tasks.validation.misfits import misfits
from tests.contracts.engine import rows_as_written
from tests.contracts.samples import column, contract_of
from tests.extensions.sudare_engines.duckdb_comparison import compare_counts, compare_sums
from tests.extensions.sudare_engines.engine_rows import people_contract, write_people
from tests.extensions.sudare_engines.portable_rows import CASES, lattices_of, numbers_table, tables
from tests.extensions.sudare_engines.spark_releases import make_place
from tests.extensions.sudare_engines.statistics_rows import beside_of
from tests.tasks.intake import KEY
from tests.tasks.storage.postgres_server import PostgresServer

pytestmark = pytest.mark.timeout(600)
TYPES: Final[dict[ValueKind, str]] = {
    "text": "text",
    "whole": "bigint",
    "real": "double precision",
    "fixed": "numeric(15, 3)",
    "flag": "boolean",
    "day": "date",
    "moment": "timestamp",
    "nothing": "text",
}


ROLE: Final = "counter"
FOURTHS: Final = 4


@pytest.fixture(scope="module", autouse=True)
def _role(postgres: PostgresServer) -> Iterator[None]:
    """A role that may do two things: read the tables that it is granted, and make temporary ones where it may."""
    postgres.run("postgres", f"CREATE ROLE {ROLE} LOGIN PASSWORD 'x'")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUDARE_CREDENTIALS_COUNTER", json.dumps({"user": ROLE, "password": "x"}))
        yield


def town(server: PostgresServer, *statements: str) -> str:
    """Make a database in which the role may make temporary tables, and nobody else may."""
    database = server.database(*statements)
    server.run(
        database,
        f"REVOKE ALL ON DATABASE {database} FROM PUBLIC",
        f"GRANT CONNECT, TEMP ON DATABASE {database} TO {ROLE}",
        "REVOKE ALL ON SCHEMA public FROM PUBLIC",
        f"GRANT USAGE ON SCHEMA public TO {ROLE}",
        f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {ROLE}",
        f"ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO {ROLE}",
    )
    return database


def counted(server: PostgresServer, database: str, table: str = "people", **more: Any) -> Source:
    return server.source(database, table, engine="postgresql", credentials=ROLE, **more)


def fill(server: PostgresServer, database: str, name: str, types: Sequence[str], rows: pa.Table) -> None:
    columns = ", ".join(f'"{column}" {kind}' for column, kind in zip(rows.column_names, types, strict=True))
    server.run(database, f"CREATE TABLE {name} ({columns})")
    with server.connect(database) as connection, connection.cursor() as cursor:
        with cursor.copy(f"COPY {name} FROM STDIN".encode()) as copy:
            for row in zip(*(column.to_pylist() for column in rows.columns), strict=True):
                copy.write_row(row)


def staged_there(
    server: PostgresServer,
    contract: Contract,
    kinds: dict[str, ValueKind],
    rows: pa.Table,
    beside: Sequence[Any] = (),
) -> tuple[list[Any], list[Any]]:
    """Return the stage that PostgreSQL makes of rows, and that of DuckDB, both in order."""
    database = town(server)
    fill(server, database, "rows", [TYPES[kinds[name]] for name in rows.column_names], rows)
    session = PostgresSession(counted(server, database, "rows"))
    names = stage_of(contract, beside).columns
    try:
        session.make_tables(dict.fromkeys(names, "whole"), key_row(KEY))
        with session.one_state():
            session.open(contract)
            assert session.source_rows() == rows.num_rows
            assert session.stage(sql_of(staged(contract, kinds, beside), "postgres")) == rows.num_rows
        got = [tuple(row) for row in session.query(f"SELECT * FROM {STAGE}")]
    finally:
        session.close()
    with duckdb.connect() as connection:
        connection.register(SOURCE, rows)
        expected = rows_as_written(connection, sql_of(staged(contract, kinds, beside), "duckdb"))
    return sorted(got), sorted(expected)


def without_nul(rows: pa.Table) -> pa.Table:
    """PostgreSQL's texts have no NUL: a row with one has another sign there."""
    return pa.table(
        {
            name: pa.array(
                [each.replace("\x00", "\x01") if isinstance(each, str) else each for each in column.to_pylist()],
                column.type,
            )
            for name, column in zip(rows.column_names, rows.columns, strict=True)
        }
    )


@pytest.mark.parametrize("begin", [0, *(pytest.param(other, marks=pytest.mark.long) for other in range(1, FOURTHS))])
def test_awkward_values_of_every_kind_get_the_codes_of_duckdb(postgres: PostgresServer, begin: int) -> None:
    """Hostile texts, halves, -0, NaN, infinities, decimals, notations, days and moments of years 1 and 9999; a fourth
    of the cases each time."""
    contract, kinds, rows = tables(CASES[begin::FOURTHS])
    got, expected = staged_there(postgres, contract, kinds, without_nul(rows))
    assert got == expected


def test_columns_named_as_parts_of_the_statement_are_read(postgres: PostgresServer) -> None:
    names = ("sudare_part_0", "sudare_value_0", "sudare_part_1", "t0", SOURCE)
    contract = contract_of(*(column("categories", "string", name, values=["1", "b"]) for name in names))
    rows = pa.table({name: [None, "b", " b", "1.0", "c"] for name in names})
    got, expected = staged_there(postgres, contract, dict.fromkeys(names, "text"), rows)
    assert got == expected


@pytest.mark.long
def test_awkward_numbers_get_the_offsets_of_duckdb(postgres: PostgresServer) -> None:
    contract, kinds, rows = numbers_table()
    beside = [each for column in contract.columns for each in lattices_of(column)]
    got, expected = staged_there(postgres, contract, kinds, without_nul(rows), beside)
    assert got == expected


PEOPLE: Final = ("text", "integer", "text", "double precision", "date")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("people")


@pytest.fixture(scope="module")
def database(postgres: PostgresServer, folder: Path) -> str:
    """People in the order of the files, with spaces around ids, and values that misfit and are missing."""
    source = write_people(folder / "people")
    with duckdb.connect() as connection:
        rows = connection.execute(f"FROM read_parquet('{source.path}/*.parquet')").to_arrow_table()
    name = town(postgres)
    fill(postgres, name, "people", PEOPLE, rows)
    return name


@pytest.fixture(scope="module")
def contract(folder: Path) -> Contract:
    return people_contract(folder)


@pytest.fixture(scope="module")
def here(postgres: PostgresServer, database: str, folder: Path, contract: Contract) -> PrivateTable:
    source, lattices = counted(postgres, database).model_copy(update={"engine": None}), beside_of(contract)
    return ingest(source, contract, folder=folder / "here", key=KEY, memory_limit="256MB", lattices=lattices)


@pytest.fixture(scope="module")
def there(postgres: PostgresServer, database: str, folder: Path, contract: Contract) -> Iterator[PrivateTable]:
    source, beside = counted(postgres, database), beside_of(contract)
    table = ingest_in_engine(source, contract, folder=folder / "there", key=KEY, settings=None, beside=beside)
    assert table.engine is not None
    yield table
    table.engine.close()


def test_marginals_and_checks_of_a_bounded_table_are_those_of_duckdb(
    here: PrivateTable, there: PrivateTable, folder: Path, contract: Contract
) -> None:
    compare_counts(here, there, contract, folder)


def test_every_form_of_adding_up_has_the_numbers_of_duckdb(
    here: PrivateTable, there: PrivateTable, contract: Contract
) -> None:
    compare_sums(here, there, contract)


@pytest.mark.usefixtures("prefect_server")
@pytest.mark.parametrize(
    "name",
    [
        "tables",
        "statistics",
        *(pytest.param(name, marks=pytest.mark.long) for name in ("aim", "privbayes", "inside", "spine")),
    ],
)
def test_a_release_counted_by_postgresql_is_published_and_verifies(
    postgres: PostgresServer, database: str, tmp_path: Path, name: str
) -> None:
    """Spec to verified version; nothing is left behind here or there, and the same command finds it published."""
    place = make_place(tmp_path, counted(postgres, database))
    told = place.run(name, name=name, engine="postgresql")
    assert (told["version"], told["repeated"]) == (1, False)
    place.verify(told["folder"])
    assert not place.left_behind()
    record = json.loads((Path(told["folder"]) / "record.json").read_text())
    assert record["declarations"]["source"]["engine"] == "postgresql"
    assert place.run(name, name=name, engine="postgresql")["repeated"]


def test_ids_that_repeat_where_rows_are_units_are_counted_by_the_server(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    """Of a column that is released; one that is left out is never asked for."""
    rows = "SELECT i % 100 AS client_id, i AS pid FROM generate_series(1, 3000) AS s(i)"
    name = town(postgres, f"CREATE TABLE visits AS {rows}")
    bins: Any = {"bounds": [0, 99], "bins": {"width": 10}, "nulls": {"policy": "category"}}
    one = contract_of(column("integer", "integer", "client_id", **bins), unit={"kind": "row", "scope": "block"})
    source, terms = counted(postgres, name, "visits"), one.model_copy(update={"left_out": ("pid",)})
    table = ingest_in_engine(source, terms, folder=tmp_path / "run", key=KEY, settings=None)
    assert table.engine is not None
    with closing(table.engine):
        found = misfits(table, terms, folder=tmp_path / "run", memory_limit="256MB")
    assert found.repeated == (("client_id", 3000, 100),)


def test_a_server_that_cannot_count_what_may_be_ids_stops_no_run(postgres: PostgresServer, tmp_path: Path) -> None:
    """Law 3: a count that fails, here for want of temporary files, does not undo the stage."""
    name = town(
        postgres, "CREATE TABLE visits AS SELECT md5(i::text) AS client_id FROM generate_series(1, 100000) s(i)"
    )
    postgres.run(name, f"ALTER ROLE {ROLE} SET temp_file_limit = '1MB'", f"ALTER ROLE {ROLE} SET work_mem = '64kB'")
    try:
        some = column("categories", "string", "client_id", values=["a"], nulls={"policy": "category"})
        terms = contract_of(some, unit={"kind": "row", "scope": "block"})
        source = counted(postgres, name, "visits")
        table = ingest_in_engine(source, terms, folder=tmp_path / "run", key=KEY, settings=None)
    finally:
        postgres.run(name, f"ALTER ROLE {ROLE} RESET ALL")
    assert table.engine is not None
    with closing(table.engine):
        assert (table.engine.marked_rows()[0], table.engine.seen()) == (100_000, [])


OWN_TYPES: Final = """
    CREATE TYPE shade AS ENUM ('dark', 'pale');
    CREATE DOMAIN share AS numeric(4, 2);
    CREATE TABLE own (person integer, r real, n numeric, m money, s share, t char(5), e shade, z timestamptz, d date,
        f boolean, i smallint);
    INSERT INTO own SELECT i % 90, CASE i % 5 WHEN 0 THEN 'NaN' ELSE i % 9 / 10.0 END,
        CASE i % 7 WHEN 0 THEN repeat('9', 400)::numeric WHEN 1 THEN -repeat('9', 400)::numeric
            WHEN 2 THEN ('0.' || repeat('0', 400) || '1')::numeric WHEN 3 THEN 'NaN' WHEN 4 THEN NULL
            ELSE i % 11 / 10.0 END,
        (i % 8 / 10.0)::numeric::money, CASE i % 6 WHEN 0 THEN 'NaN' ELSE i % 7 / 10.0 END,
        CASE i % 3 WHEN 0 THEN 'a' WHEN 1 THEN 'b' END, (CASE i % 4 WHEN 0 THEN 'dark' ELSE 'pale' END)::shade,
        CASE i % 9 WHEN 0 THEN 'infinity' WHEN 1 THEN '0044-03-15 10:00 BC' WHEN 2 THEN '294276-06-01'
            ELSE TIMESTAMPTZ '2019-12-31 22:30:00-05' + i * INTERVAL '5 hours' END,
        CASE i % 10 WHEN 0 THEN 'infinity' WHEN 1 THEN '-infinity' WHEN 2 THEN '4713-01-01 BC'
            ELSE DATE '2020-01-01' + i END,
        i % 3 = 0, i % 4
    FROM generate_series(1, 400) AS s(i);
"""
PLACES: Final = {
    "as the rows lie": "CREATE TABLE placed AS TABLE own; DELETE FROM placed WHERE i = 1; "
    "INSERT INTO placed TABLE own",
    "whole key": "CREATE TABLE placed (LIKE own, k serial PRIMARY KEY); "
    "INSERT INTO placed TABLE own ORDER BY d, r, n, t",
    "two keys": "CREATE TABLE placed AS SELECT own.*, ctid::text AS k, i AS l FROM own; "
    "ALTER TABLE placed ADD PRIMARY KEY (k, l)",
    "in parts": "CREATE TABLE placed (LIKE own, k text, PRIMARY KEY (k, person)) PARTITION BY RANGE (person); "
    "CREATE TABLE low PARTITION OF placed FOR VALUES FROM (0) TO (40); "
    "CREATE TABLE high PARTITION OF placed FOR VALUES FROM (40) TO (90); "
    "INSERT INTO placed SELECT own.*, ctid::text FROM own",
}


@pytest.mark.parametrize("place", PLACES)
def test_types_of_its_own_are_read_as_a_snapshot_reads_them_in_any_order_of_rows(
    postgres: PostgresServer, tmp_path: Path, place: str
) -> None:
    """Numbers that no double holds, money, padded texts, enumerations, domains, zones, infinities; two rows each."""
    missing: Any = {"nulls": {"policy": "category"}}
    tenths: Any = {"bounds": ["0.1", "0.7"], "bins": {"width": "0.1"}, **missing}
    days: Any = {"bounds": ["2020-01-01", "2020-12-31"], "granularity": "month", **missing}
    kept = contract_of(
        *(column("decimal", "number", name, **tenths) for name in "rnms"),
        column("categories", "string", "t", values=["a", "b"], **missing),
        column("categories", "string", "e", values=["dark", "pale"], **missing),
        *(column("date", "date", name, **days) for name in "zd"),
        column("categories", "string", "f", values=["true", "false"], **missing),
        column("integer", "integer", "i", bounds=[0, 3], bins={"width": 1}, **missing),
        unit={"kind": "id", "scope": "block", "column": "person", "max_rows_per_unit": 2},
    ).model_copy(update={"left_out": ("k", "l")})
    source = counted(postgres, town(postgres, OWN_TYPES, PLACES[place]), "placed")
    here = source.model_copy(update={"engine": None})
    ours = ingest(here, kept, folder=tmp_path / "here", key=KEY, memory_limit="256MB")
    theirs = ingest_in_engine(source, kept, folder=tmp_path / "there", key=KEY, settings=None)
    assert theirs.engine is not None
    cliques = [(each.name,) for each in kept.columns] + [("r", "n"), ("t", "d"), ("z", "f"), ("e", "i")]
    counts = [SnapshotCounts(table, kept).marginals(cliques) for table in (ours, theirs)]
    for clique, one, other in zip(cliques, *counts, strict=True):
        np.testing.assert_array_equal(one._count(), other._count(), err_msg=str(clique))
    theirs.engine.close()
