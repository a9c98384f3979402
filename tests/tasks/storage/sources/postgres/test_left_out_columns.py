"""Columns that the contract leaves out: PostgreSQL is never asked for them, whatever their type."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from contracts.contract.contract import Contract
from contracts.contract.odcs import load_contract
from contracts.errors import SourceUnreadable
from contracts.release.address import PostgresAddress
from tasks.storage.sources.postgres.connection import begin, connected, looked_at
from tests.tasks.intake import CONTRACT, make_contract, take_in, write_csv
from tests.tasks.storage.postgres_server import PostgresServer

PEOPLE = (
    "CREATE TABLE people (id bytea PRIMARY KEY, name text, age integer, sex text, wage numeric, since date)",
    "INSERT INTO people VALUES ('\\x02', 'Bea', 17, 'M', 700, '2020-01-01'), ('\\x01', 'Ada', 34, 'F', 10.5, NULL)",
)
IN_ORDER = ("34,F,10.5,", "17,M,700,2020-01-01")


@pytest.fixture(autouse=True)
def _superuser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGUSER", "postgres")


@pytest.fixture
def contract(tmp_path: Path) -> Contract:
    path = tmp_path / "left_out.odcs.yaml"
    text = CONTRACT.replace("UNIT", "{kind: row, scope: block}").replace("GATES", "[]").replace("IDPROPERTY", "")
    path.write_text(text.replace("gates: []", "gates: []\n          left_out: [id, name]"))
    return load_contract(path)


def test_a_column_that_is_left_out_is_not_asked_for_and_its_type_is_not_looked_at(
    tmp_path: Path, postgres: PostgresServer, contract: Contract
) -> None:
    """The rows are those of a CSV file without it, in the order of a key that is left out itself."""
    source = postgres.source(postgres.database(*PEOPLE))
    assert isinstance(source.path, PostgresAddress)
    with closing(connected(source.path, None, source.name)) as connection:
        begin(connection)
        table, reading = looked_at(connection, source, contract)
    assert reading.columns == ("age", "sex", "wage", "since")
    asked, _, order = table.copy.partition(" FROM ")
    assert "age" in asked
    assert "name" not in asked
    assert '"id"' not in asked
    assert 'ORDER BY t."id"' in order
    assert _codes(take_in(source, contract, tmp_path).path) == _codes(
        take_in(write_csv(tmp_path, *IN_ORDER), make_contract(tmp_path), tmp_path / "csv").path
    )


def test_without_that_the_refusal_says_where_to_name_it(tmp_path: Path, postgres: PostgresServer) -> None:
    source = postgres.source(postgres.database("CREATE TABLE people (age integer, letter bytea)"))
    with pytest.raises(SourceUnreadable, match="name it under `left_out:` of the contract"):
        take_in(source, make_contract(tmp_path), tmp_path)


def test_rights_that_lack_are_named(
    tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = postgres.database(
        *PEOPLE,
        "CREATE ROLE stranger LOGIN",
        "GRANT SELECT ON people TO stranger",
        "REVOKE ALL ON SCHEMA public FROM PUBLIC",
    )
    monkeypatch.setenv("PGUSER", "stranger")
    source = postgres.source(database)
    with pytest.raises(SourceUnreadable, match="and USAGE on its schema"):
        take_in(source, make_contract(tmp_path), tmp_path)
    postgres.run(database, f"REVOKE CONNECT ON DATABASE {database} FROM PUBLIC")
    with pytest.raises(SourceUnreadable, match="found: no right to connect to this database"):
        take_in(source, make_contract(tmp_path), tmp_path)


def _codes(path: Path) -> list[tuple[int, ...]]:
    with duckdb.connect(str(path), read_only=True) as connection:
        return connection.execute("SELECT * FROM codes").fetchall()
