"""Connections to PostgreSQL that are refused, and columns that a user may not read."""

from contextlib import closing
from pathlib import Path

import duckdb
import psycopg
import pytest

from contracts.contract.contract import Contract
from contracts.contract.odcs import load_contract
from contracts.errors import SourceUnreadable
from contracts.release.address import PostgresAddress
from tasks.storage.sources.postgres.connection import begin, connected, looked_at
from tasks.storage.sources.postgres.refused_connection import _cause_of_text, cause_of
from tests.tasks.intake import CONTRACT, make_contract, take_in, write_csv
from tests.tasks.storage.postgres_server import PostgresServer

AT = 'connection failed: connection to server at "role.certificate.example" (10.0.0.1), port 5432 failed: '
TEXTS = {
    f'{AT}FATAL:  database "role" does not exist': "a server without such a database",
    f'{AT}FATAL:  role "database" does not exist': "a server that refuses these credentials",
    f'{AT}FATAL:  permission denied for database "SSL"\nDETAIL:  User does not have CONNECT privilege.': (
        "no right to connect to this database"
    ),
    f'{AT}FATAL:  no pg_hba.conf entry for host "10.0.0.2", user "a", database "b", no encryption': (
        "a server that takes encrypted connections only"
    ),
    f'{AT}FATAL:  no pg_hba.conf entry for host "10.0.0.2", user "a", database "b", SSL encryption': (
        "a server that refuses these credentials"
    ),
    f"{AT}FATAL:  sorry, too many clients already": "a server without room for another connection",
    f"{AT}FATAL:  the database system is starting up": "a server that is starting or stopping",
    f"{AT}SSL error: certificate verify failed": "a server whose certificate cannot be checked, or is not for it",
    f"{AT}SSL error: bad signature": "a server whose certificate cannot be checked, or is not for it",
    f'{AT}server certificate for "a" (and 1 other name) does not match host name "b"': (
        "a server whose certificate cannot be checked, or is not for it"
    ),
    f"{AT}server does not support SSL, but SSL was required": (
        "a server with which no encrypted connection can be made"
    ),
    f"{AT}Connection refused\n\tIs the server running on that host?": "a server that cannot be reached",
    f'{AT}FATAL:  Datenbank "role" existiert nicht': "a server that answers and does not let this user in",
    f'{AT}FATAL:  database "a: SSL error: certificate verify failed" is odd': (
        "a server that answers and does not let this user in"
    ),
    f'{AT}FATAL:  a cause of the next version, and no role "x" does not exist': (
        "a server that answers and does not let this user in"
    ),
}


@pytest.mark.parametrize("text", TEXTS)
def test_each_cause_is_told_by_a_whole_sentence(text: str):
    """Hosts, users and databases are named by the words of other causes."""
    assert _cause_of_text(text, needs_password=False, used_password=False)[0] == TEXTS[text]


def test_a_server_that_speaks_another_language_is_told_by_what_it_asked_for():
    told = f'{AT}致命的エラー:  ロール"role"は存在しません'
    for needs, used, found in (
        (True, False, "a server that refuses these credentials"),
        (False, True, "a server that answers and does not let this user in"),
    ):
        assert _cause_of_text(told, needs_password=needs, used_password=used)[0] == found


def test_a_server_is_told_apart_from_one_whose_names_are_the_words_of_messages(postgres: PostgresServer):
    """A database `role`, users `certificate` and `SSL`, at a real server."""
    database = postgres.database("CREATE ROLE certificate LOGIN", 'CREATE ROLE "SSL" NOLOGIN')
    postgres.run("postgres", f"REVOKE CONNECT ON DATABASE {database} FROM PUBLIC")
    try:
        for user, name, found in (
            ("certificate", "role", "a server without such a database"),
            ("certificate", database, "no right to connect to this database"),
            ("SSL", "postgres", "a server that refuses these credentials"),
            ("no such database", "postgres", "a server that refuses these credentials"),
        ):
            with pytest.raises(psycopg.OperationalError) as raised:
                postgres.connect(name, user=user)
            assert cause_of(raised.value)[0] == found
    finally:
        postgres.run("postgres", "DROP ROLE certificate", 'DROP ROLE "SSL"')


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
):
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


def test_without_that_the_refusal_says_where_to_name_it(tmp_path: Path, postgres: PostgresServer):
    source = postgres.source(postgres.database("CREATE TABLE people (age integer, letter bytea)"))
    with pytest.raises(SourceUnreadable, match="name it under `left_out:` of the contract"):
        take_in(source, make_contract(tmp_path), tmp_path)


def test_rights_that_lack_are_named(tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch):
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
