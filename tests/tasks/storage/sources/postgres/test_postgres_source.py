"""A table of a real PostgreSQL server as a source: its values, one state of it, and what is refused."""

import socket
import struct
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import certifi
import duckdb
import pytest

from contracts.errors import GateBroken, Refused, SourceUnreadable, SpecRefused
from contracts.release.address import PostgresAddress
from contracts.release.source import Source
from tasks.ingest import ingest
from tasks.storage import progress
from tasks.storage.sources.postgres.connection import connected
from tests.tasks.intake import HEADER, KEY, ROWS, SECRET, make_contract, take_in, write_csv
from tests.tasks.storage.during import During
from tests.tasks.storage.postgres_server import PostgresServer

PEOPLE = (
    "CREATE TABLE people (id integer PRIMARY KEY, age integer, sex varchar(9), wage numeric(9, 2), since date)",
    "INSERT INTO people VALUES (4, 120, 'X', 12.5, '1999-01-01'), (2, 17, 'M', 700, '2020-01-01'), "
    "(3, NULL, 'F', NULL, '2024-12-31'), (1, 34, 'F', 10.5, '2021-03-01')",
)
SELECT = f"SELECT {HEADER.replace(',', ', ')} FROM source"


@pytest.fixture(autouse=True)
def as_superuser(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The user comes from the environment; a search path from there must not matter."""
    monkeypatch.setenv("PGUSER", "postgres")
    monkeypatch.setenv("PGOPTIONS", "-c search_path=decoy,public")
    yield
    progress.watch(None)


def codes(folder: Path, source: Source) -> list[tuple[int, ...]]:
    table = take_in(source, make_contract(folder), folder)
    with duckdb.connect(str(table.path), read_only=True) as connection:
        return connection.execute("SELECT * FROM codes").fetchall()


def refusal(folder: Path, source: Source, kind: type[Refused] = SourceUnreadable) -> str:
    with pytest.raises(kind) as raised:
        take_in(source, make_contract(folder), folder)
    assert raised.value.__context__ is None
    assert SECRET not in str(raised.value)
    assert not list((folder / "run").glob("*.partial*"))
    return str(raised.value)


def test_a_table_gets_the_codes_of_the_same_rows_in_a_csv(tmp_path: Path, postgres: PostgresServer):
    source = postgres.source(postgres.database(*PEOPLE), select=SELECT)
    (tmp_path / "csv").mkdir()
    assert codes(tmp_path, source) == codes(tmp_path / "csv", write_csv(tmp_path, *ROWS))


TYPES = {
    "age": ("smallint", "bigint", "real", "numeric", "text", "double precision"),
    "sex": ("text", "char(4)", "sex_kind", "sex_domain"),
    "wage": ("double precision", "real", "numeric(10, 3)", "numeric", "text", "money"),
    "since": ("timestamp", "timestamptz", "date", "text"),
}


@pytest.mark.parametrize(("column", "kind"), [(name, kind) for name, kinds in TYPES.items() for kind in kinds])
def test_every_type_gives_the_same_codes(tmp_path: Path, postgres: PostgresServer, column: str, kind: str):
    source = postgres.source(
        postgres.database(
            "CREATE TYPE sex_kind AS ENUM ('F', 'M', 'X')",
            "CREATE DOMAIN sex_domain AS text",
            *PEOPLE,
            f"ALTER TABLE people ALTER COLUMN {column} TYPE {kind} USING {column}::text::{kind}",
        ),
        select=SELECT,
    )
    (tmp_path / "csv").mkdir()
    assert codes(tmp_path, source) == codes(tmp_path / "csv", write_csv(tmp_path, *ROWS))


def test_odd_values_are_read_by_the_contract_and_stop_nothing(tmp_path: Path, postgres: PostgresServer):
    table = (
        "CREATE TABLE people (age float8, sex text, wage numeric, since timestamp)",
        "INSERT INTO people VALUES ('NaN', '', 'NaN', 'infinity'), ('Infinity', ' F ', '-Infinity', '-infinity'), "
        "(1e300, E'a\"b,\\n\\nc', 1e30, '4713-01-01 BC'), (NULL, '\\.', NULL, NULL), "
        "(-0.0, 'NULL', 0, '9999-12-31')",
    )
    assert codes(tmp_path, postgres.source(postgres.database(*table))) == [
        (10, 2, 3, 4),
        (9, 0, 0, 0),
        (9, 2, 2, 0),
        (10, 2, 3, 5),
        (0, 2, 0, 4),
    ]


@pytest.mark.parametrize("kind", ["date", "timestamp", "timestamptz"])
def test_a_day_before_the_first_year_is_not_one_after_it(tmp_path: Path, postgres: PostgresServer, kind: str):
    """PostgreSQL writes `2999-03-15 BC`, of which DuckDB would read the first ten letters as a day."""
    table = (
        f"CREATE TABLE people (age int, sex text, wage int, since {kind})",
        "INSERT INTO people SELECT 1, 'F', 1, day FROM unnest(ARRAY['2999-03-15 BC', '2999-03-15', '-infinity']"
        f"::{kind}[]) AS day",
    )
    before, after, least = codes(tmp_path, postgres.source(postgres.database(*table)))
    assert before == least != after


def test_one_column_of_nulls_keeps_its_rows(tmp_path: Path, postgres: PostgresServer):
    table = ("CREATE TABLE people (age int)", "INSERT INTO people VALUES (NULL), (34), (NULL)")
    select = "SELECT age, 'F' AS sex, 1 AS wage, '2020-01-01' AS since FROM source"
    found = codes(tmp_path, postgres.source(postgres.database(*table), select=select))
    assert [row[0] for row in found] == [10, 3, 10]


def test_names_are_taken_as_they_are_written(tmp_path: Path, postgres: PostgresServer):
    """Not by the search path, not in lower case, not as a pattern."""
    odd = 'CREATE TABLE "Odd "" space"."People; x" AS SELECT age, sex, wage, since FROM public.people WHERE id = 2'
    decoy = "CREATE TABLE decoy.people AS SELECT * FROM public.people WHERE false"
    database = postgres.database(*PEOPLE, 'CREATE SCHEMA decoy; CREATE SCHEMA "Odd "" space"', odd, decoy)
    assert codes(tmp_path, postgres.source(database, 'Odd " space.People; x')) == [(1, 1, 2, 0)]
    assert len(codes(tmp_path, postgres.source(database, select=SELECT))) == 4
    message = refusal(tmp_path, postgres.source(database, "People"))
    assert 'found: no such table\n    allowed: Odd " space.People; x, decoy.people, people' in message


BETWEEN: dict[str, tuple[str, ...]] = {
    "a view": ("CREATE VIEW seen AS SELECT * FROM people",),
    "a materialized view": ("CREATE MATERIALIZED VIEW seen AS SELECT * FROM people",),
    "a foreign table": (
        "CREATE FOREIGN DATA WRAPPER w; CREATE SERVER s FOREIGN DATA WRAPPER w",
        "CREATE FOREIGN TABLE seen (age int) SERVER s",
    ),
    "a sequence": ("CREATE SEQUENCE seen",),
}


@pytest.mark.parametrize("kind", BETWEEN)
def test_only_tables_are_read(tmp_path: Path, postgres: PostgresServer, kind: str):
    """A view may aggregate: one person could change all of its rows."""
    database = postgres.database(*PEOPLE, *BETWEEN[kind])
    assert f"found: {kind}\n" in refusal(tmp_path, postgres.source(database, "seen"))


def test_partitions_are_read_and_a_foreign_one_is_refused(tmp_path: Path, postgres: PostgresServer):
    table = (
        "CREATE TABLE people (age int, sex text, wage float8, since date) PARTITION BY RANGE (since)",
        "CREATE TABLE early PARTITION OF people FOR VALUES FROM ('2020-01-01') TO ('2022-01-01')",
        "CREATE TABLE late PARTITION OF people FOR VALUES FROM ('2022-01-01') TO ('2025-01-01')",
        "INSERT INTO people VALUES (1, 'F', 1, '2024-01-01'), (2, 'M', 2, '2020-01-01')",
    )
    database = postgres.database(*table)
    assert sorted(codes(tmp_path, postgres.source(database))) == [(0, 0, 0, 4), (0, 1, 0, 0)]
    assert codes(tmp_path, postgres.source(database, "early")) == [(0, 1, 0, 0)]
    postgres.run(
        database,
        "CREATE FOREIGN DATA WRAPPER w; CREATE SERVER s FOREIGN DATA WRAPPER w",
        "CREATE FOREIGN TABLE far PARTITION OF people FOR VALUES FROM ('2025-01-01') TO ('2026-01-01') SERVER s",
    )
    assert "found: a foreign table" in refusal(tmp_path, postgres.source(database))


def test_row_level_security_that_would_hide_rows_is_refused(
    tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
):
    """A policy is SQL that somebody wrote: whether a row is seen could depend on others."""
    user = f"reader_{uuid.uuid4().hex}"
    database = postgres.database(
        *PEOPLE,
        "ALTER TABLE people ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY few ON people USING (wage > (SELECT avg(wage) FROM people))",
        f"CREATE USER {user}",
        f"GRANT SELECT ON people TO {user}",
    )
    monkeypatch.setenv("PGUSER", user)
    message = refusal(tmp_path, postgres.source(database, select=SELECT))
    assert "row-level security that would hide rows" in message
    postgres.run(database, "ALTER TABLE people DISABLE ROW LEVEL SECURITY")
    assert len(codes(tmp_path, postgres.source(database, select=SELECT))) == 4
    postgres.run(database, f"REVOKE SELECT ON people FROM {user}")
    assert "no right to read it" in refusal(tmp_path, postgres.source(database, select=SELECT))


def test_a_type_that_somebody_made_is_refused(tmp_path: Path, postgres: PostgresServer):
    """Its cast to text is a function that somebody wrote."""
    pair = ("CREATE TYPE pair AS (a int, b int)", "CREATE TABLE people (age pair)")
    assert "the column 'age' of type public.pair" in refusal(tmp_path, postgres.source(postgres.database(*pair)))
    binary = "CREATE TABLE people (age bytea)"
    assert "the column 'age' of type bytea" in refusal(tmp_path, postgres.source(postgres.database(binary)))


def test_a_select_sees_the_columns_beside_one_of_bytes(tmp_path: Path, postgres: PostgresServer):
    """A scan of a letter in the table refuses nothing; a select that names it names what is not there."""
    database = postgres.database(*PEOPLE, "ALTER TABLE people ADD COLUMN letter bytea DEFAULT 'x'")
    assert "the column 'letter' of type bytea" in refusal(tmp_path, postgres.source(database))
    assert len(codes(tmp_path, postgres.source(database, select=SELECT))) == 4
    naming = SELECT.replace("SELECT ", "SELECT letter, ", 1)
    assert "a name or types that do not fit" in refusal(
        tmp_path, postgres.source(database, select=naming), SpecRefused
    )


def test_a_cast_that_somebody_made_for_an_enumeration_is_not_used(tmp_path: Path, postgres: PostgresServer):
    """It would say M of everybody; the labels say who is what."""
    cast = (
        "CREATE TYPE kind AS ENUM ('F', 'M', 'X')",
        "CREATE FUNCTION of_kind(kind) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT 'M' $$",
        "CREATE CAST (kind AS text) WITH FUNCTION of_kind(kind)",
        "ALTER TABLE people ALTER COLUMN sex TYPE kind USING sex::text::kind",
    )
    database = postgres.database(*PEOPLE, *cast)
    assert postgres.rows(database, "SELECT DISTINCT sex::text FROM people") == [("M",)]
    (tmp_path / "csv").mkdir()
    assert codes(tmp_path, postgres.source(database, select=SELECT)) == codes(
        tmp_path / "csv", write_csv(tmp_path, *ROWS)
    )


def test_the_order_is_the_keys_whatever_was_written_when(tmp_path: Path, postgres: PostgresServer):
    """The same rows are the same run: rewriting the table changes no hash, and costs no second charge."""
    database, contract = postgres.database(*PEOPLE), make_contract(tmp_path)
    source = postgres.source(database, select=SELECT)
    first = take_in(source, contract, tmp_path)
    postgres.run(database, "UPDATE people SET age = age WHERE id < 3", "VACUUM FULL people")
    assert take_in(source, contract, tmp_path).keyed_hash == first.keyed_hash
    postgres.run(database, "UPDATE people SET age = 35 WHERE id = 1")
    assert take_in(source, contract, tmp_path).keyed_hash == first.keyed_hash, "35 has the code of 34"
    postgres.run(database, "UPDATE people SET age = 45 WHERE id = 1")
    assert take_in(source, contract, tmp_path).keyed_hash != first.keyed_hash


def test_only_a_run_that_is_charged_goes_on_with_an_earlier_state(tmp_path: Path, postgres: PostgresServer):
    """A live table may have changed since: a charged run takes its snapshot up, any other reads again."""
    database, contract = postgres.database(*PEOPLE), make_contract(tmp_path)
    source = postgres.source(database, select=SELECT)
    place = {"folder": tmp_path / "run", "key": KEY, "memory_limit": "256MB"}
    first = ingest(source, contract, **place)
    postgres.run(database, "DELETE FROM people WHERE id = 1")
    assert ingest(source, contract, **place, goes_on=lambda table: table == first) == first
    assert ingest(source, contract, **place).keyed_hash != first.keyed_hash
    postgres.run(database, "ALTER TABLE people ADD COLUMN town text")
    kept = ingest(source, contract, **place)
    assert ingest(source, contract, **place, goes_on=lambda table: False) == kept


LARGE = (
    "CREATE TABLE people (age int, sex text, wage float8, since date)",
    "INSERT INTO people SELECT i % 99, 'F', i / 7.0, '2021-01-01' FROM generate_series(1, 1000000) AS t(i)",
)


@pytest.mark.usefixtures("every_row_kept")
def test_what_others_write_meanwhile_is_not_read(tmp_path: Path, postgres: PostgresServer):
    """All rows are of one state of the table: neither a new row nor half of an update comes in."""
    database = postgres.database(*LARGE)
    changes = (
        "DELETE FROM people WHERE age = 3",
        "UPDATE people SET age = 98",
        "INSERT INTO people VALUES (1, 'M', 1, '2020-01-01')",
    )
    progress.watch(During(lambda: postgres.run(database, *changes)))
    table = take_in(postgres.source(database), make_contract(tmp_path), tmp_path)
    with duckdb.connect(str(table.path), read_only=True) as connection:
        assert connection.execute("SELECT count(*), sum(age), min(sex), max(sex) FROM raw").fetchall() == [
            (1_000_000, sum(i % 99 for i in range(1, 1_000_001)), "F", "F")
        ]


def test_a_schema_that_would_change_meanwhile_waits(tmp_path: Path, postgres: PostgresServer):
    database = postgres.database(*LARGE)
    drop = threading.Thread(target=postgres.run, args=(database, "ALTER TABLE people DROP COLUMN wage"))
    progress.watch(During(drop.start))
    source, contract = postgres.source(database), make_contract(tmp_path)
    assert take_in(source, contract, tmp_path).path.exists()
    drop.join()
    with pytest.raises(GateBroken, match="column 'wage'\n    found: no such column"):
        take_in(source, contract, tmp_path)


def end_the_copy(postgres: PostgresServer, database: str) -> None:
    """End the connection of the run as soon as it copies rows, at most a minute from now."""
    copying = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'COPY%'"
    until = time.monotonic() + 60
    with postgres.connect(database) as connection:
        while time.monotonic() < until and not connection.execute(copying.encode()).fetchall():
            time.sleep(0.001)


def test_a_connection_that_ends_meanwhile_is_told_and_the_next_run_reads_all(
    tmp_path: Path, postgres: PostgresServer
):
    database = postgres.database(*LARGE)
    killer = threading.Thread(target=end_the_copy, args=(postgres, database), daemon=True)
    killer.start()
    source = postgres.source(database)
    assert "found: a connection that ended while the table was read" in refusal(tmp_path, source)
    killer.join()
    assert len(codes(tmp_path, source)) == 1_000_000


def test_a_table_without_rows_and_one_that_drifted_are_told(tmp_path: Path, postgres: PostgresServer):
    database = postgres.database("CREATE TABLE people (age int, sex text, wage float8, since date)")
    assert "found: no rows" in refusal(tmp_path, postgres.source(database), GateBroken)
    postgres.run(database, "ALTER TABLE people RENAME COLUMN age TO years", "ALTER TABLE people ADD COLUMN town text")
    message = refusal(tmp_path, postgres.source(database), GateBroken)
    assert "column 'age'\n    found: no such column" in message
    assert "'town', which the contract does not have" in message


def test_a_retyped_column_is_told_by_its_type_in_the_catalog(tmp_path: Path, postgres: PostgresServer):
    retyped = "ALTER TABLE people ALTER COLUMN sex TYPE date USING current_date"
    source = postgres.source(postgres.database(*PEOPLE, retyped, "ALTER TABLE people DROP COLUMN id"))
    assert "column 'sex'\n    found: dates, none of which" in refusal(tmp_path, source, GateBroken)


def test_wrong_credentials_and_servers_that_are_not_there(
    tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
):
    database = postgres.database(*PEOPLE)
    assert "a server without such a database" in refusal(tmp_path, postgres.source("no_such_database"))
    monkeypatch.setenv("PGUSER", SECRET)
    assert "a server that refuses these credentials" in refusal(tmp_path, postgres.source(database))
    away = Source.model_validate({"path": "postgresql://localhost:1/x", "table": "t"})
    assert "a server that cannot be reached" in refusal(tmp_path, away)


class Elsewhere(threading.Thread):
    """A server that is not meant: it writes down what it hears, and speaks no TLS."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.port = 0
        self.heard: list[bytes] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.start()

    def run(self) -> None:
        with suppress(OSError):
            while True:
                dialled, _ = self._socket.accept()
                with dialled:
                    dialled.settimeout(5)
                    self.heard.append(dialled.recv(8))
                    dialled.sendall(b"N")
                    self.heard.append(dialled.recv(8))

    def close(self) -> None:
        """Stop listening, once what was dialled is heard to its end."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self.join(20)
        self._socket.close()
        assert not self.is_alive()


@pytest.fixture
def elsewhere() -> Iterator[Elsewhere]:
    server = Elsewhere()
    yield server
    server.close()


@pytest.mark.parametrize("told_by", ["a variable", "a service file"])
def test_the_environment_cannot_exchange_the_server(
    tmp_path: Path, postgres: PostgresServer, elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch, told_by: str
):
    """libpq would dial PGHOSTADDR in place of any host, and of a socket too."""
    source = postgres.source(postgres.database(*PEOPLE), select=SELECT)
    if told_by == "a variable":
        monkeypatch.setenv("PGHOSTADDR", "127.0.0.1")
    else:
        (tmp_path / "services").write_text(f"[other]\nhostaddr=127.0.0.1\nport={elsewhere.port}\n")
        monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
        monkeypatch.setenv("PGSERVICE", "other")
    assert len(codes(tmp_path, source)) == 4
    away = {"path": f"postgresql://db.invalid:{elsewhere.port}/clinic", "table": "visits"}
    assert "a server that cannot be reached" in refusal(tmp_path, Source.model_validate(away))
    assert elsewhere.heard == []


@pytest.mark.parametrize("mode", ["disable", "allow", "prefer", SECRET])
def test_rows_do_not_leave_another_machine_in_clear_text(
    elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch, mode: str
):
    monkeypatch.setenv("PGSSLMODE", mode)
    with pytest.raises(SourceUnreadable, match="require, verify-ca, verify-full") as raised:
        connected(PostgresAddress("127.0.0.1", elsewhere.port, "clinic"), None, "there")
    assert SECRET not in str(raised.value)
    assert elsewhere.heard == []


@pytest.mark.parametrize("mode", ["", "require", "verify-full"])
def test_a_server_without_tls_hears_no_more_than_the_wish_for_it(
    tmp_path: Path, elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch, mode: str
):
    monkeypatch.setenv("PGSSLMODE", mode)
    monkeypatch.setenv("PGSSLROOTCERT", certifi.where())
    with pytest.raises(SourceUnreadable, match="no encrypted connection"):
        connected(PostgresAddress("127.0.0.1", elsewhere.port, "clinic"), None, "there")
    elsewhere.close()
    assert b"".join(elsewhere.heard) == struct.pack("!ii", 8, 80877103)


def test_named_credentials_come_from_the_environment(
    tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
):
    source = postgres.source(postgres.database(*PEOPLE), select=SELECT, credentials="ware-house")
    assert "no credentials named 'ware-house'" in refusal(tmp_path, source)
    for wrong in (SECRET, f'["{SECRET}"]', f'{{"user": "u", "host": "{SECRET}"}}', '{"password": 7}'):
        monkeypatch.setenv("SUDARE_CREDENTIALS_WARE_HOUSE", wrong)
        assert "credentials 'ware-house' of another form" in refusal(tmp_path, source)
    monkeypatch.delenv("PGUSER")
    monkeypatch.setenv("SUDARE_CREDENTIALS_WARE_HOUSE", '{"user": "postgres", "password": "x"}')
    assert len(codes(tmp_path, source)) == 4
