"""The ledger's databases: who waits for whom, what a killed process leaves, and what is said when none answers."""

import os
import signal
import threading
import time
import traceback
from contextlib import nullcontext
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import make_url, text

from deploy.postgres_server import postgres_server
from privacy.ledger.entries import LedgerCorrupt, LedgerUnavailable
from privacy.ledger.ledger import Ledger
from privacy.ledger.store.database import Store
from privacy.ledger.store.schema import metadata
from tests.privacy.conftest import Databases, NewPlace
from tests.privacy.ledger.ledgers import Place, laplace, ledger_with_account, request
from tests.privacy.ledger.tampering import grow, unguard

PASSWORD = "Geheimnis-7"

BOUND = {"source": "s", "population": "people", "block": "2024"}


# --- no answer ----------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize(
    ("url", "named"),
    [
        (f"postgresql://sudare:{PASSWORD}@127.0.0.1:1/ledger", "does not answer: connection"),
        (f"postgres://sudare:{PASSWORD}@127.0.0.1:1/ledger", "does not answer: connection"),
        (f"postgresql://sudare:{PASSWORD}@/ledger?host={{folder}}/missing", "does not answer"),
        (f"mysql://sudare:{PASSWORD}@localhost/ledger", "begins with mysql://; allowed: sqlite:///"),
        (f"oracle+nothing://sudare:{PASSWORD}@localhost/ledger", "allowed: sqlite:///"),
        (f"postgresql://sudare:{PASSWORD}@localhost:port/ledger", "cannot be read; allowed: sqlite:///"),
        (PASSWORD, "cannot be read"),
        ("", "cannot be read"),
        ("sqlite://", "names no plain file"),
        ("sqlite:///:memory:", "names no plain file"),
        ("sqlite:///{folder}/ledger.sqlite?mode=ro", "names no plain file"),
        ("sqlite:///file:{folder}/ledger.sqlite?uri=true", "names no plain file"),
        (f"postgresql://sudare@127.0.0.1:1/ledger?password={PASSWORD}", "a password among its options"),
        (f"postgresql://sudare@127.0.0.1:1/ledger?sslpassword={PASSWORD}", "a password among its options"),
        (f"postgresql://sudare:half@{PASSWORD}@127.0.0.1:1/ledger", "has an @ in its password"),
        (f"postgresql://sudare:half@{PASSWORD}/with@127.0.0.1:1/ledger", "has an @ in its password"),
        ("sqlite:///{folder}/missing/ledger.sqlite", "unable to open database file"),
        ("sqlite:///{folder}", "unable to open database file"),
        ("sqlite:///{folder}/text.sqlite", "file is not a database"),
    ],
)
def test_a_ledger_that_does_not_answer_is_a_fault_said_quickly_and_without_the_password(
    tmp_path: Path, url: str, named: str
):
    """Quickly: in less than the ten seconds for which an answer is waited for."""
    (tmp_path / "text.sqlite").write_text("no ledger, " * 100)
    begun = time.monotonic()
    with pytest.raises(LedgerUnavailable, match=named) as unavailable:
        Ledger(url.format(folder=tmp_path), draws=tmp_path / "draws")
    assert time.monotonic() - begun < 9
    assert unavailable.value.exit_code == 1
    assert PASSWORD not in str(unavailable.value)
    assert PASSWORD not in "".join(traceback.format_exception(unavailable.value))
    assert not (tmp_path / "draws").exists()
    assert not (tmp_path / "missing").exists()


def test_a_store_s_repr_shows_no_password(new_place: NewPlace, databases: object):
    place = new_place()
    url = make_url(place.url)
    if place.kind == "postgresql":
        url = url.set(username="postgres", password=PASSWORD)
    store = Store(url.render_as_string(hide_password=False))
    assert PASSWORD not in repr(store)
    assert str(url.database) in repr(store)
    store.close()


def test_the_options_of_a_url_are_kept_beside_ours(postgres_databases: object, tmp_path: Path):
    url = make_url(postgres_databases.new(tables=True))  # type: ignore[attr-defined]
    url = url.update_query_dict({"options": "-c application_name=theirs -c statement_timeout=70s"})
    store = Store(url.render_as_string(hide_password=False))
    with store.reading() as connection:
        shown = [
            connection.execute(text(f"SHOW {name}")).scalar()
            for name in ("application_name", "statement_timeout", "lock_timeout")
        ]
    store.close()
    assert shown == ["theirs", "70s", "1min"]


def test_a_password_with_an_at_sign_is_written_as_a_url_writes_it(tmp_path: Path):
    with pytest.raises(LedgerUnavailable, match="does not answer") as unavailable:
        Store(f"postgresql://sudare:half%40{PASSWORD}@127.0.0.1:1/ledger")
    assert PASSWORD not in str(unavailable.value)


def test_a_new_ledger_may_be_in_a_database_with_other_tables(new_place: NewPlace):
    place = new_place(tables=False)
    place.execute("CREATE TABLE theirs (id INTEGER)")
    assert ledger_with_account(place).verify() == []


@pytest.mark.services
def test_a_server_that_freezes_in_a_transaction_is_named_and_waited_for_no_longer_than_said(
    postgres_databases: Databases, caplog: pytest.LogCaptureFixture
):
    """The kernel keeps the connections of a frozen server open: without a limit the writer would wait for ever."""
    store = Store(postgres_databases.new(tables=True), timeout=1.0)

    def freeze() -> None:
        with store.writing() as transaction:
            backend = transaction.connection.scalar(text("SELECT pg_backend_pid()"))
            os.kill(backend, signal.SIGSTOP)
            try:
                transaction.connection.scalar(text("SELECT 1"))
            finally:
                os.kill(backend, signal.SIGCONT)

    with pytest.raises(LedgerUnavailable, match="no answer for 1 seconds"):
        freeze()
    assert "has not answered for 0.5 seconds" in caplog.text
    with store.writing() as transaction:
        assert transaction.size == 0
    store.close()


# --- many processes -----------------------------------------------------------------------------------------

OPENER = "print(place.open().journal()[0].hash)"


@pytest.mark.services
def test_processes_that_make_the_same_new_ledger_at_once_make_one(new_place: NewPlace):
    place = new_place(tables=False)
    processes = [place.start(OPENER) for _ in range(3)]
    hashes = {process.communicate(timeout=280)[0].strip() for process in processes}
    ledger = place.open()
    assert hashes == {ledger.journal()[0].hash}
    assert len(ledger.journal()) == 1
    assert ledger.verify() == []


@pytest.mark.long
def test_readers_see_what_was_committed_and_wait_for_no_writer(place: Place):
    """Half of the minute after which one who waits gives up is far more than reading takes."""
    ledger = ledger_with_account(place)
    before = ledger.journal()
    other = place.open()
    with ledger._store.writing() as transaction:
        ledger._journal.append(transaction, "source_bound", BOUND, subject="s")
        begun = time.monotonic()
        assert other.journal() == before
        assert other.account("people-2024").spent == 0
        assert other.verify() == []
        assert place.open().journal() == before
        assert time.monotonic() - begun < 30
    assert len(other.journal()) == len(before) + 1


def test_writers_wait_for_one_another(place: Place):
    ledger = ledger_with_account(place)
    waiting = threading.Thread(target=lambda: place.open().reserve(request("second", noise=laplace(2))))
    with ledger._store.writing() as transaction:
        waiting.start()
        waiting.join(0.5)
        assert waiting.is_alive()
        ledger._journal.append(transaction, "source_bound", BOUND, subject="s")
    waiting.join(120)
    assert not waiting.is_alive()
    assert [entry.kind for entry in ledger.journal()[-2:]] == ["source_bound", "charge_reserved"]


def test_what_fails_inside_a_transaction_leaves_nothing(place: Place):
    ledger = ledger_with_account(place)
    before = ledger.journal()

    def failing() -> None:
        with ledger._store.writing() as transaction:
            ledger._journal.append(transaction, "source_bound", BOUND, subject="s")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
    assert ledger.journal() == before
    ledger.reserve(request())
    assert ledger.verify() == []


KILLED = """
import time
from privacy.ledger.store.ledger_rows import set_account
ledger = place.open()
with ledger._store.writing() as transaction:
    set_account(transaction.connection, "people-2024", spent=1)
    body = {"source": "s", "population": "people", "block": "2024"}
    ledger._journal.append(transaction, "source_bound", body, subject="s")
    print("ready", flush=True)
    time.sleep(60)
"""


@pytest.mark.services
def test_a_writer_that_is_killed_leaves_nothing_and_blocks_nobody(place: Place):
    ledger = ledger_with_account(place)
    before = ledger.journal()
    process = place.start(KILLED)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    os.kill(process.pid, signal.SIGKILL)
    process.wait(120)
    process.stdout.close()
    begun = time.monotonic()
    assert ledger.journal() == before
    assert ledger.account("people-2024").spent == 0
    assert ledger.reserve(request()).amount == ledger.account("people-2024").spent
    assert time.monotonic() - begun < 30
    assert ledger.verify() == []


def test_a_second_entry_after_the_same_one_is_refused_by_the_database(place: Place):
    """Even a writer that went round the lock cannot fork the chain; trying again would not help, and is not said."""
    ledger = ledger_with_account(place)
    copy = (
        "INSERT INTO journal (sequence, previous, hash, kind, at, body, subject, subtrees) "
        "SELECT sequence + 9, previous, 'other', kind, at, body, subject, subtrees FROM journal WHERE sequence = 1"
    )
    with pytest.raises(LedgerCorrupt, match="a damaged index"), ledger._store.writing() as transaction:
        transaction.connection.execute(text(copy))
    with pytest.raises(LedgerCorrupt, match="a damaged index"), ledger._store.writing() as transaction:
        with transaction.at_once():
            transaction.connection.execute(text(copy))
    assert ledger.verify() == []


def test_every_damaged_index_page_of_a_sqlite_ledger_is_found(sqlite_databases: Databases, tmp_path: Path):
    """An emptied index lets a second row of one run key in, and no reader of the tables sees that."""
    place = Place(sqlite_databases.new(tables=True), tmp_path)
    ledger = grow(place)
    assert (ledger.verify(), ledger.unchecked_indexes()) == ([], "")
    place.close()
    file = Path(str(make_url(place.url).database))
    whole = file.read_bytes()
    size = int.from_bytes(whole[16:18], "big")
    with place.by_hand() as connection:
        found = "SELECT name, rootpage FROM sqlite_master WHERE type = 'index' ORDER BY name"
        pages = {name: (number - 1) * size for name, number in connection.execute(text(found))}
    filled = {name: at for name, at in pages.items() if whole[at] == 0x0A and whole[at + 3 : at + 5] != bytes(2)}
    assert len(filled) > 12
    for name, at in filled.items():
        damaged = bytearray(whole)
        damaged[at : at + size] = b"\x0a\0\0\0\0" + size.to_bytes(2, "big") + bytes(size - 7)
        file.write_bytes(damaged)
        ledger = place.open()
        assert {finding.field for finding in ledger.verify()} == {"integrity"}, name
        place.close()
    file.write_bytes(whole)
    assert place.open().verify() == []
    place.close()


def test_a_postgresql_ledger_without_amcheck_says_that_indexes_were_not_checked(
    postgres_databases: Databases, tmp_path: Path
):
    place = Place(postgres_databases.new(tables=True), tmp_path)
    ledger = grow(place)
    assert ledger.verify() == []
    assert "amcheck" in ledger.unchecked_indexes()
    place.close()


@pytest.mark.services
def test_every_index_of_a_postgresql_ledger_that_lacks_a_row_is_found(tmp_path: Path):
    """While an index is switched off, the rows of its table are written again: it has none of them then."""
    with postgres_server("keeper", PASSWORD, tmp_path / "log") as port:
        place = Place(f"postgresql://keeper:{PASSWORD}@localhost:{port}/postgres", tmp_path)
        ledger = grow(place)
        place.execute("CREATE EXTENSION amcheck")
        assert (ledger.verify(), ledger.unchecked_indexes()) == ([], "")
        place.close()
        with place.by_hand() as connection:
            found = "SELECT indexrelid::regclass::text, indrelid::regclass::text FROM pg_index"
            indexes = [each for each in connection.execute(text(found)).all() if each[1] in metadata.tables]
        damaged = 0
        for index, table in indexes:
            switch = (
                "UPDATE pg_index SET indisready = {0}, indisvalid = {0} WHERE indexrelid = '" + index + "'::regclass"
            )
            guardless = "SET session_replication_role = replica"
            place.execute(guardless, switch.format(False))
            with place.by_hand() as connection:
                for statement in (guardless, f"CREATE TEMP TABLE kept AS TABLE {table}", f"DELETE FROM {table}"):
                    connection.execute(text(statement))
                rows = connection.execute(text(f"INSERT INTO {table} TABLE kept")).rowcount
                connection.execute(text(switch.format(True)))
            if rows:
                damaged += 1
                with pytest.raises(LedgerCorrupt, match="lacks matching index tuple"):
                    Store(place.url).integrity()
            place.execute(f"REINDEX INDEX {index}")
        assert damaged > 12
        assert place.open().verify() == []
        place.close()


def test_a_row_that_the_ledger_lost_is_corruption_and_not_a_riddle(place: Place):
    """Nothing is written after it."""
    ledger_with_account(place).close()
    place.execute("DELETE FROM journal_head")
    ledger = place.open()
    with pytest.raises(LedgerCorrupt, match="journal_head"):
        ledger.reserve(request())
    assert [finding.field for finding in ledger.verify()] == ["head"]


def test_a_ledger_whose_first_entry_is_gone_is_corrupt(place: Place):
    ledger_with_account(place).close()
    with place.by_hand() as connection:
        unguard(connection)
        connection.execute(text("DELETE FROM journal WHERE sequence = 0"))
    with pytest.raises(LedgerCorrupt, match="journal entry 0 is missing"):
        place.open()


def test_a_server_that_hung_up_between_two_charges_is_asked_again(postgres_databases: object, tmp_path: Path):
    place = Place(postgres_databases.new(tables=True), tmp_path)  # type: ignore[attr-defined]
    ledger = ledger_with_account(place)
    hang_up = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> "
    place.execute(f"{hang_up} pg_backend_pid()")
    assert ledger.reserve(request()).status == "reserved"

    def charge_and_be_hung_up_on(*, at_once: bool) -> None:
        with ledger._store.writing() as transaction:
            place.execute(f"{hang_up} pg_backend_pid()")
            with transaction.at_once() if at_once else nullcontext():
                ledger._journal.append(transaction, "source_bound", BOUND, subject="s")

    for at_once in (False, True):
        with pytest.raises(LedgerUnavailable, match="does not answer"):
            charge_and_be_hung_up_on(at_once=at_once)
    assert ledger.verify() == []
    place.close()


def test_money_columns_hold_integers_only():
    from sqlalchemy import BigInteger

    from privacy.ledger.store import schema

    money = (schema.accounts.c.cap, schema.accounts.c.spent, schema.parts.c.amount)
    assert all(isinstance(column.type, BigInteger) for column in money)


def test_the_environment_leads_to_no_other_server(
    postgres_databases: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The database driver alone would follow PGHOSTADDR, to where nothing listens."""
    url = postgres_databases.new(tables=True)  # type: ignore[attr-defined]
    monkeypatch.setenv("PGHOSTADDR", "127.0.0.9")
    ledger = Ledger(url, draws=tmp_path)
    assert ledger.verify() == []
    ledger.close()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(make_url(url).set(drivername="postgresql").render_as_string(hide_password=False))


def test_a_ledger_in_a_folder_that_cannot_be_written_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """SQLite says "unable to open database file", which nobody understands; a file that is none is another matter."""
    url = f"sqlite:///{tmp_path}/nothing/ledger.sqlite"
    with pytest.raises(LedgerUnavailable, match="unable to open") as unavailable:
        Store(url)
    assert "copy the workspace to a disk" in str(unavailable.value)
    (tmp_path / "ledger.sqlite").write_text("no database" * 100)
    with pytest.raises(LedgerUnavailable) as unavailable:
        Store(f"sqlite:///{tmp_path}/ledger.sqlite")
    assert "cannot be written" not in str(unavailable.value)
