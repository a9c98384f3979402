"""PostgreSQL, really: a server counts its own table: the codes, counts and sums of DuckDB, versions that verify."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from contracts.contract.contract import Contract
from contracts.domains.statements import ValueKind
from contracts.release.source import Source
from contracts.sql.portable.compiler import sql_of
from contracts.sql.portable.staging import SOURCE, STAGE, stage_of, staged
from privacy.private_table import PrivateTable
from privacy.snapshots.snapshot_counts import SnapshotCounts
from tasks.ingest import ingest
from tasks.storage.engines.postgres import PostgresSession
from tasks.storage.engines.stage import ingest_in_engine
from tasks.storage.engines.stage_rules import key_row
from tasks.validate import validate
from tests.contracts.sql.portable.portable_rows import lattices_of, numbers_table, tables
from tests.tasks.intake import KEY
from tests.tasks.storage.engines.engine_rows import people_contract, write_people
from tests.tasks.storage.engines.spark_releases import make_place
from tests.tasks.storage.engines.statistics_rows import beside_of, exact
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
    """Return a table that the server counts, as the role sees it."""
    return server.source(database, table, engine="postgresql", credentials=ROLE, **more)


def fill(server: PostgresServer, database: str, name: str, types: Sequence[str], rows: pa.Table) -> None:
    """Make a table of Arrow rows; column i is named as there."""
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
        expected = connection.execute(sql_of(staged(contract, kinds, beside), "duckdb")).fetchall()
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


def test_awkward_values_of_every_kind_get_the_codes_of_duckdb(postgres: PostgresServer) -> None:
    """Hostile texts, halves, -0, NaN, infinities, decimals, notations, days and moments of years 1 and 9999."""
    contract, kinds, rows = tables()
    got, expected = staged_there(postgres, contract, kinds, without_nul(rows))
    wrong = {
        name
        for name, ours, theirs in zip(
            stage_of(contract).columns, zip(*got, strict=True), zip(*expected, strict=True), strict=True
        )
        if sorted(ours) != sorted(theirs)
    }
    assert not wrong
    assert got == expected


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
    """Total, columns, pairs and all columns, in one scan; both keep the same rows of each unit."""
    names = [column.name for column in contract.columns]
    cliques = [(), *((name,) for name in names), *combinations(names, 2), tuple(names)]
    ours, theirs = SnapshotCounts(here, contract), SnapshotCounts(there, contract)
    for one, other in zip(ours.marginals(cliques), theirs.marginals(cliques), strict=True):
        np.testing.assert_array_equal(one._count(), other._count())
    for one, other in zip(ours.sparse(tuple(names))._count(), theirs.sparse(tuple(names))._count(), strict=True):
        np.testing.assert_array_equal(one, other)
    outcomes = validate(here, contract, folder=folder / "here")
    assert validate(there, contract, folder=folder / "there") == outcomes
    assert {outcome.passed for outcome in outcomes} == {True, False}


def test_every_form_of_adding_up_has_the_numbers_of_duckdb(
    here: PrivateTable, there: PrivateTable, contract: Contract
) -> None:
    for (name, one), (_, other) in zip(exact(here, contract), exact(there, contract), strict=True):
        np.testing.assert_array_equal(one, other, err_msg=name)


@pytest.mark.parametrize(
    "name",
    [
        "tables",
        "statistics",
        *(pytest.param(name, marks=pytest.mark.long) for name in ("aim", "privbayes", "inside", "spine", "adaptive")),
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
