"""What PostgreSQL keeps of a count, who may stand between, and how each failure ends: nothing private stays."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from time import monotonic, sleep

import psycopg
import pytest

from contracts.contract.contract import Contract
from contracts.errors import SourceUnreadable, SudareError
from contracts.release.source import Source
from deploy.postgres_server import postgres_server
from privacy.private_table import PrivateTable
from sudare_engines.postgres import PostgresSession
from sudare_engines.stage import ingest_in_engine
from sudare_engines.stage_rules import key_row
from sudare_engines.staged_table import StagedTable, whole_numbers
from tasks.storage.source_engine import EngineFailed, EngineNotTrusted
from tests.extensions.sudare_engines.counting_server import SECRET, Server, counting_server
from tests.extensions.sudare_engines.engine_rows import people_contract
from tests.extensions.sudare_engines.postgres_relay import other_process, relay
from tests.extensions.sudare_engines.small_disks import small_disk
from tests.extensions.sudare_engines.spark_releases import make_place
from tests.extensions.sudare_engines.statistics_rows import beside_of, exact
from tests.tasks.federation.certificates import loopback_certificates
from tests.tasks.intake import KEY

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]
PLANTED = "planted-4711-ü"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with counting_server(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture
def contract(tmp_path: Path) -> Contract:
    return people_contract(tmp_path)


def staged(server: Server, contract: Contract, folder: Path, source: Source | None = None) -> PrivateTable:
    """Stage the people with all that statistics need."""
    beside = beside_of(contract)
    return ingest_in_engine(source or server.source(), contract, folder=folder, key=KEY, settings=None, beside=beside)


def engine_of(table: PrivateTable) -> StagedTable:
    assert isinstance(table.engine, StagedTable)
    return table.engine


def test_no_key_and_no_value_stands_in_log_activity_catalogs_or_files(
    server: Server, contract: Contract, tmp_path: Path
) -> None:
    """A log of all statements, parameters and plans; casts fail for some rows, and nobody is told of which."""
    begun = server.log.stat().st_size
    table = staged(server, contract, tmp_path / "run")
    seen = server.run("SELECT query FROM pg_stat_activity WHERE application_name = 'sudare'")
    kept = server.run(
        "SELECT count(*) FROM pg_statistic s JOIN pg_class c ON c.oid = s.starelid WHERE c.relname LIKE 'sudare%'"
    )
    assert kept == [(0,)]
    assert [array.any() for _, array in exact(table, contract)]
    engine_of(table).broken_checks()
    engine_of(table).close()
    _until(lambda: not server.counting())
    [(folder,)] = server.run("CHECKPOINT", "SHOW data_directory")
    log = server.log.read_bytes()[begun:]
    assert b"INSERT INTO sudare_stage" in log
    assert b"COPY sudare_keys FROM STDIN" in log
    assert seen
    assert PLANTED.encode() not in log
    assert b"99999999" not in log, "a value that no double holds"
    keys = [value.encode() for value in key_row(KEY).values()]
    written = {path: path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}
    assert any(b"planted-4711" in data for data in written.values()), "the table itself is there"
    assert not [path for path, data in written.items() for key in keys if key in data]
    assert not [key for key in keys if key in log]
    left = "SELECT relname FROM pg_class WHERE relname LIKE 'sudare%' UNION ALL "
    assert server.run(f"{left} SELECT proname FROM pg_proc WHERE proname LIKE 'sudare%'") == []
    for (catalog,) in server.run(
        "SELECT relname FROM pg_class WHERE relnamespace = 'pg_catalog'::regnamespace AND relkind = 'r'"
    ):
        assert server.run(f"SELECT count(*) FROM pg_catalog.{catalog} c WHERE c::text LIKE '%{PLANTED}%'") == [(0,)]


SETTINGS = ("quote_all_identifiers = on", "default_transaction_read_only = on")


@pytest.mark.parametrize("setting", SETTINGS)
def test_settings_of_the_role_change_nothing(
    server: Server, contract: Contract, tmp_path: Path, setting: str
) -> None:
    before = staged(server, contract, tmp_path / "before")
    engine_of(before).close()
    server.run(f"ALTER ROLE counter SET {setting}")
    try:
        table = staged(server, contract, tmp_path / "after")
    finally:
        server.run("ALTER ROLE counter RESET ALL")
    engine_of(table).close()
    assert table.keyed_hash == before.keyed_hash


def test_no_cast_in_sql_is_a_statement_of_its_own(server: Server) -> None:
    """A function in SQL that is not written into the statement runs for each row, and its log shows the value."""
    session = PostgresSession(server.source())
    try:
        session.make_tables({"c0": "whole"}, key_row(KEY))
        for cast in ("sudare_moment(since)", "sudare_double(age::int8)", "sudare_double(age::float8)"):
            rows = session._run("query", f"EXPLAIN VERBOSE SELECT pg_temp.{cast} FROM public.people").fetchall()
            assert "sudare" not in str(rows)
    finally:
        session.close()


def test_one_state_is_counted_whatever_others_write(server: Server, contract: Contract) -> None:
    """Rows that come meanwhile are not seen, and nobody empties or changes the table before it is staged."""
    server.run("CREATE TABLE busy AS TABLE people", "GRANT SELECT ON busy TO counter")
    session = PostgresSession(server.source("busy"))
    try:
        session.make_tables({"c0": "whole"}, key_row(KEY))
        with session.one_state():
            session.open(contract)
            before = session.source_rows()
            server.run("INSERT INTO busy SELECT * FROM people")
            for change in ("TRUNCATE busy", "ALTER TABLE busy DROP COLUMN age"):
                with pytest.raises(psycopg.errors.LockNotAvailable):
                    server.run("SET lock_timeout = '50ms'", change)
            assert session.stage("SELECT 1 FROM sudare_source") == session.source_rows() == before == 3001
            with pytest.raises(EngineFailed, match="the server takes no writes"):
                session._run("stage", "CREATE TABLE public.left_behind AS TABLE sudare_stage")
    finally:
        session.close()
    assert server.run("SELECT count(*) FROM busy") == [(6002,)]


def test_a_stage_wider_than_a_table_may_be_is_refused_and_one_as_wide_is_made(server: Server) -> None:
    session = PostgresSession(server.source())
    try:
        with pytest.raises(SourceUnreadable, match=r"source\.engine\n    found: 1601 columns of codes and checks"):
            session.make_tables({f"c{number}": "whole" for number in range(1601)}, key_row(KEY))
        session.make_tables({f"c{number}": "whole" for number in range(1600)}, key_row(KEY))
    finally:
        session.close()


def test_answers_that_are_no_whole_numbers_stop_the_run(server: Server) -> None:
    session = PostgresSession(server.source())
    try:
        assert whole_numbers(session, session.query("SELECT sum(x) FROM (VALUES (1::int8), (2)) AS v(x)"), 1) == 3
        for wrong in ("1.5", "'1'", "2::float8", "true", "9223372036854775808", "-1"):
            with pytest.raises(EngineFailed, match="PostgreSQL, query: its counts are not whole numbers from 0 on"):
                whole_numbers(session, session.query(f"SELECT {wrong}"), 1)
    finally:
        session.close()


def test_a_session_that_is_cut_off_or_cancelled_says_how_the_charge_stands(
    server: Server, contract: Contract, tmp_path: Path
) -> None:
    engine = engine_of(staged(server, contract, tmp_path / "run"))
    waiting: Callable[[], object] = lambda: engine._worker.query("SELECT count(*) FROM pg_sleep(60)")  # noqa: E731
    for how, says in (
        ("cancel", "the server cancelled the statement"),
        ("terminate", "the server ended the session"),
    ):
        told = _meanwhile(server, waiting, how)
        assert told.startswith(
            f"PostgreSQL, query: {says}; no noise was drawn for this, and a charge that was reserved is kept"
        )
    with pytest.raises(EngineFailed, match="PostgreSQL, query: the connection ended; no noise was drawn"):
        engine.broken_checks()
    engine.close()


FEW, ROW_SECURITY = "ALTER ROLE counter SET", "ROW LEVEL SECURITY"
REFUSED = {
    "PostgreSQL, stage: a limit of the server is reached, such as temp_file_limit; no noise was drawn": (
        f"{FEW} temp_file_limit = '256kB'; {FEW} work_mem = '64kB'",
        "ALTER ROLE counter RESET ALL",
    ),
    "PostgreSQL, start: a right that the role lacks: TEMP on the database; no noise was drawn": (
        "REVOKE TEMP ON DATABASE postgres FROM counter",
        "GRANT TEMP ON DATABASE postgres TO counter",
    ),
    "no right to read it": ("REVOKE SELECT ON people FROM counter", "GRANT SELECT ON people TO counter"),
    "found: row-level security that would hide rows from the user": (
        f"ALTER TABLE people ENABLE {ROW_SECURITY}",
        f"ALTER TABLE people DISABLE {ROW_SECURITY}",
    ),
    "rows without an id": (
        "INSERT INTO people VALUES (' ', 1, 'F', 1, NULL)",
        "DELETE FROM people WHERE person = ' '",
    ),
    "found: text": (
        "ALTER TABLE people ALTER age TYPE text",
        "ALTER TABLE people ALTER age TYPE integer USING age::integer",
    ),
}


@pytest.mark.parametrize("says", REFUSED)
def test_what_the_server_does_not_let_us_do_is_named_and_nothing_stays(
    server: Server, contract: Contract, tmp_path: Path, says: str
) -> None:
    before, after = REFUSED[says]
    server.run(before)
    try:
        with pytest.raises(SudareError) as raised:
            staged(server, contract, tmp_path / "run")
    finally:
        server.run(after)
    assert says in str(raised.value)
    assert PLANTED not in str(raised.value)
    assert raised.value.__context__ is None
    _until(lambda: not server.counting())


def test_tables_that_are_no_plain_ones_or_have_no_order_are_refused(
    server: Server, contract: Contract, tmp_path: Path
) -> None:
    server.run(
        "CREATE VIEW seen AS TABLE people",
        "CREATE TABLE parted (LIKE people) PARTITION BY LIST (sex)",
        "CREATE TABLE parted_f PARTITION OF parted FOR VALUES IN ('F')",
        "CREATE TABLE elders (LIKE people, PRIMARY KEY (person))",
        "CREATE TABLE heirs () INHERITS (elders)",
        "GRANT SELECT ON seen, parted, elders TO counter",
    )
    for table, says in (
        ("seen", "a view"),
        ("parted", "a table in parts without a primary key"),
        ("elders", "a table in parts without a primary key"),  # its own says nothing of its heirs' rows
        ("none", "no such table"),
    ):
        with pytest.raises(SourceUnreadable, match=says) as raised:
            staged(server, contract, tmp_path / "run", server.source(table))
        assert "select:" not in str(raised.value), "an engine takes no select"


def test_a_pooler_is_refused_since_tables_of_a_session_would_be_anothers(server: Server) -> None:
    with relay(server.port) as port:
        PostgresSession(server.source(port=port)).close()
    with relay(server.port, rewrite=other_process) as port, pytest.raises(SourceUnreadable, match="a pooler before"):
        PostgresSession(server.source(port=port))


def test_another_machine_is_admitted_by_what_its_running_session_says(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TLS to the server itself, with a certificate of the authority, for that host; whatever a mode says."""
    made, other = loopback_certificates(tmp_path), tmp_path / "other"
    other.mkdir()
    pair = (tmp_path / "server.pem", tmp_path / "server.key")
    monkeypatch.setenv("PGSSLROOTCERT", str(made.authority))
    for mode in ("disable", "prefer", "require", "verify-ca"):
        monkeypatch.setenv("PGSSLMODE", mode)
        with pytest.raises(SourceUnreadable, match=r"PGSSLMODE\n    found: `.*\n    allowed: verify-full"):
            PostgresSession(server.elsewhere(server.port))
    monkeypatch.delenv("PGSSLMODE")
    with pytest.raises(SourceUnreadable, match="no encrypted connection"):
        PostgresSession(server.elsewhere(server.port))
    with relay(server.port, tls=pair) as port:
        with pytest.raises(
            EngineNotTrusted, match=r"pg_stat_ssl\n    found: a session with no TLS at the server"
        ) as told:
            PostgresSession(server.elsewhere(port))
        assert "No key and no row was sent, and nothing was charged" in str(told.value)
        monkeypatch.setenv("PGSSLROOTCERT", str(loopback_certificates(other).authority))
        with pytest.raises(SourceUnreadable, match="a server whose certificate cannot be checked"):
            PostgresSession(server.elsewhere(port))
    monkeypatch.setenv("PGSSLROOTCERT", str(made.authority))
    with postgres_server("counter", SECRET, tmp_path / "log", tls=pair) as port:
        PostgresSession(server.elsewhere(port)).close()


@contextmanager
def small_space(server: Server, folder: Path) -> Iterator[None]:
    """Let temporary tables of the role lie on a disk of one megabyte."""
    with small_disk(folder, "1m"):
        [(owner,)] = server.run("SHOW data_directory")
        seen = Path(owner).stat()
        os.chown(folder, seen.st_uid, seen.st_gid)
        server.run(
            f"CREATE TABLESPACE small LOCATION '{folder}'",
            "GRANT CREATE ON TABLESPACE small TO counter",
            "ALTER ROLE counter SET temp_tablespaces = small",
        )
        yield
        server.run("ALTER ROLE counter RESET temp_tablespaces")
        _until(lambda: not server.counting())
        server.run("DROP TABLESPACE small")


def test_a_full_disk_is_named_and_costs_nothing(server: Server, contract: Contract) -> None:
    """The stage is larger than the disk on which temporary tables lie."""
    with TemporaryDirectory() as place:
        Path(place).chmod(0o755)  # the server's own account has to enter it
        with small_space(server, Path(place) / "disk"):
            session = PostgresSession(server.source())
            try:
                session.make_tables({"c0": "whole"}, key_row(KEY))
                with session.one_state():
                    session.open(contract)
                    with pytest.raises(EngineFailed) as raised:
                        session.stage("SELECT p.age FROM sudare_source AS p, generate_series(1, 60)")
            finally:
                session.close()
    says = "PostgreSQL, stage: a disk of the server is full; no noise was drawn for this, and a charge that was"
    assert str(raised.value).startswith(says)


@pytest.mark.usefixtures("prefect_server")
def test_a_connection_that_is_cut_mid_count_resumes_and_pays_nothing_more(server: Server, tmp_path: Path) -> None:
    """The stage is gone with the session. Made again of the same table it is that of the same run."""
    broken: list[bytes] = []

    def cut(data: bytes) -> bytes:
        if b'"cell"' not in data or broken:
            return data
        broken.append(data)
        return b""

    with relay(server.port, asked=cut) as port:
        place = make_place(tmp_path, server.source(port=port))
        with pytest.raises(AssertionError, match="run ended with 1") as raised:
            place.run("tables", name="cut", engine="postgresql")
        assert "PostgreSQL, query: the connection ended; no noise was drawn for this, and a" in str(raised.value)
        assert "its charge is spent and stays spent; the same command on the same rows goes on" in str(raised.value)
        told = place.run("tables", name="cut", engine="postgresql")
        assert (told["version"], told["repeated"]) == (1, False)
        place.verify(told["folder"])
    [account] = json.loads(place.sudare("budget", "show", "--json", "--workspace", str(place.root)))["accounts"]
    assert len(account["charges"]) == 1


def _until(true: Callable[[], bool], seconds: float = 30) -> None:
    """Wait until something holds."""
    until = monotonic() + seconds
    while not true():
        assert monotonic() < until
        sleep(0.05)


def _meanwhile(server: Server, ask: Callable[[], object], how: str) -> str:
    """Return what an engine says that is cancelled or terminated while it sleeps in the server."""
    told: list[str] = []
    asleep = "FROM pg_stat_activity WHERE application_name = 'sudare' AND wait_event = 'PgSleep'"

    def asked() -> None:
        with pytest.raises(EngineFailed) as raised:
            ask()
        told.append(str(raised.value))

    thread = Thread(target=asked)
    thread.start()
    _until(lambda: server.run(f"SELECT pid {asleep}") != [], seconds=100)
    server.run(f"SELECT pg_{how}_backend(pid) {asleep}")
    thread.join(50)
    return told[0]
