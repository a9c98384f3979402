"""The ledger's database: SQLite in one file, or PostgreSQL for many machines.

Every writing transaction takes the one write lock before it reads (the row `journal_head` on PostgreSQL, the file's
write lock on SQLite). Writers queue for it in front of an advisory lock or a lock file, where they come in one by one
and none starves. So what a transaction decides on cannot change before it commits, and there is one order of all that
was ever written: the journal's. Readers see one committed state and wait for nobody.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url, select, text
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, NoSuchModuleError, ProgrammingError

from privacy.ledger.entries import GENESIS, LedgerConflict, LedgerCorrupt, LedgerUnavailable, SchemaUnknown
from privacy.ledger.store.schema import VERSION, create_tables, metadata, version_of
from privacy.ledger.store.schema import head as head_table
from privacy.ledger.store.schema import journal as journal_table

_PATIENCE_SECONDS: Final = 60
TIMEOUT_SECONDS: Final = 120.0
"""How long one answer of PostgreSQL is waited for; longer than a queue of writers may take."""
_CONNECT_SECONDS: Final = 10
_CREATION_LOCK: Final = 5_713_201
_WRITE_LOCK: Final = 5_713_202
# Writers queue at a lock of their own, which wakes one at a time: at a row that changes each commit would wake all.
_TAKE_TURN: Final = text(f"SELECT pg_advisory_xact_lock({_WRITE_LOCK})")
_LAST_TIME: Final = select(journal_table.c.at).where(journal_table.c.sequence == head_table.c.size - 1)
_LOCKED_HEAD: Final = select(head_table, _LAST_TIME.scalar_subquery().label("at")).with_for_update()
_AMCHECK: Final = text(
    "SELECT quote_ident(n.nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace "
    "WHERE e.extname = 'amcheck'"
)
_CHECKED_INDEXES: Final = (
    "SELECT count({schema}.bt_index_check(i.indexrelid, true)::text) FROM pg_index i "
    "JOIN pg_class t ON t.oid = i.indrelid WHERE t.relname = ANY(:tables) "
    "AND t.relnamespace = current_schema()::regnamespace"
)
_DATA_CORRUPTED: Final = ("XX001", "XX002")
_MOST_DAMAGE: Final = 12
DAMAGED: Final = (
    "charge nothing, restore the ledger from a copy (sudare budget restore --help), or let an administrator rebuild "
    "the indexes of a copy (REINDEX), and look at it: sudare budget history --verify"
)
_POSTGRES_OPTIONS: Final = " ".join(
    f"-c {name}={_PATIENCE_SECONDS * 1000}" for name in ("lock_timeout", "idle_in_transaction_session_timeout")
)


@dataclass
class Transaction:
    """A writing transaction that holds the write lock.

    Args:
        connection: where statements go.
        size: number of the journal's entries.
        last: hash of its last entry.
        frontier: roots of the complete Merkle subtrees of its entries, the largest first.
        at: time of its last entry; None where it has none.
    """

    connection: Connection
    size: int
    last: str
    frontier: tuple[str, ...]
    at: str | None

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Send the statements inside, which only write, without waiting for the answer of each (PostgreSQL)."""
        driver: Any = self.connection.connection.driver_connection
        with driver.pipeline() if hasattr(driver, "pipeline") else nullcontext():
            yield


class Store:
    """A database that holds one ledger; a new one gets its tables.

    Args:
        url: SQLAlchemy URL, `sqlite:///…` or `postgresql://…`.
        create: make the tables of a new ledger; without it, a database that holds none is refused.
        timeout: how long one answer of PostgreSQL is waited for [s].
    Raises:
        LedgerUnavailable: the database does not answer or cannot be opened.
        SchemaUnknown: it has another schema.
    """

    def __init__(self, url: str, *, create: bool = True, timeout: float = TIMEOUT_SECONDS) -> None:
        self._url, self._timeout = _parsed(url), timeout
        self._is_sqlite = self._url.get_backend_name() == "sqlite"
        self._engine = self._make_engine()
        try:
            if not create:
                self._refuse_none()
            self._prepare()
        except BaseException:
            self._engine.dispose()
            raise

    def __repr__(self) -> str:
        """Show where the database is, without the password."""
        return f"Store({self._url.render_as_string(hide_password=True)})"

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """Open a writing transaction that holds the write lock from its first statement to its commit.

        Raises:
            LedgerConflict: others have held the write lock for a minute; nothing was written.
            LedgerCorrupt: a row is refused, which no other writer can have written.
            LedgerUnavailable: the database does not answer or cannot be written.
        """
        with self._translated_errors(), self._queue(), self._engine.begin() as connection:
            if not self._is_sqlite:
                connection.execute(_TAKE_TURN)
            row = connection.execute(_LOCKED_HEAD).first()
            if row is None:
                raise LedgerCorrupt("the row of journal_head is gone: restore the ledger from a copy")
            yield Transaction(connection, row.size, row.last, tuple(json.loads(row.frontier)), row.at)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open a transaction that reads one committed state; `LedgerUnavailable` when there is no answer."""
        engine = self._engine.execution_options(reading=True)
        if not self._is_sqlite:
            engine = engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        with self._translated_errors(), engine.begin() as connection:
            yield connection

    def integrity(self) -> tuple[list[str], str]:
        """Let the database check its own pages: rows that an index lacks, values that are twice in a unique one.

        Returns:
            tuple: what is damaged, in the database's words; and why indexes were not checked, empty where they were.
        Raises:
            LedgerCorrupt, LedgerUnavailable: it is so damaged that it stops the check, or does not answer.
        """
        with self.reading() as connection:
            if self._is_sqlite:
                told = connection.exec_driver_sql(f"PRAGMA integrity_check({_MOST_DAMAGE})").scalars().all()
                return [line for line in told if line != "ok"], ""
            amcheck = connection.execute(_AMCHECK).scalar()
            if amcheck is None:
                return [], "PostgreSQL's amcheck is not installed: CREATE EXTENSION amcheck"
            try:
                tables = [*metadata.tables]
                connection.execute(text(_CHECKED_INDEXES.format(schema=amcheck)), {"tables": tables})
            except ProgrammingError as error:  # no right to call it
                return [], f"PostgreSQL says: {str(error.orig).splitlines()[0]}"
        return [], ""

    def close(self) -> None:
        """Give the connections back."""
        self._engine.dispose()

    def _refuse_none(self) -> None:
        """Refuse a database without a ledger; SQLite would make an empty file of it."""
        held = not self._is_sqlite or Path(self._url.database or "").is_file()
        if held:
            with self.reading() as connection:
                held = version_of(connection) is not None
        if not held:
            where = self._url.render_as_string(hide_password=True)
            told = "restore it (sudare budget restore FILE), or make a workspace: sudare init"
            raise LedgerUnavailable(f"there is no ledger at {where}; {told}")

    def _prepare(self) -> None:
        """Make the tables of a new ledger; refuse a schema that this version does not know."""
        with self.reading() as connection:
            found = version_of(connection)
        if found is None:
            found = self._create()
        if found != VERSION:
            raise SchemaUnknown(
                f"the ledger has schema {found}, and this version of Sudare knows {VERSION}; use the version "
                "of Sudare that made it, or make another workspace with a ledger of its own: sudare init DIR"
            )

    def _create(self) -> str:
        """Make the tables, unless another process was quicker; return the schema that is there now."""
        with self._translated_errors(), self._queue(), self._engine.begin() as connection:
            if not self._is_sqlite:
                connection.execute(text(f"SELECT pg_advisory_xact_lock({_CREATION_LOCK})"))
            found = version_of(connection)
            if found is None:
                create_tables(connection)
                connection.execute(head_table.insert().values(id=1, size=0, last=GENESIS, frontier="[]"))
            return found or VERSION

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        """Turn the database's errors into ours, without what was written and without the password."""
        driver: Any = self._engine.dialect.loaded_dbapi
        try:
            yield
        except (IntegrityError, driver.IntegrityError) as error:
            # whoever writes holds the write lock, so no other process can have written the row that is in the way
            where = self._url.render_as_string(hide_password=True)
            refused = (
                f"the ledger {where} refuses a row that belongs there: a damaged index, or rows that others wrote"
            )
            raise LedgerCorrupt(f"{refused}; {DAMAGED}") from error
        except (DBAPIError, driver.Error) as error:
            told: Any = getattr(error, "orig", error)
            said = str(told).strip().splitlines() or [type(told).__name__]
            where = self._url.render_as_string(hide_password=True)
            if getattr(told, "sqlite_errorname", "").startswith("SQLITE_CORRUPT") or (
                getattr(told, "sqlstate", None) in _DATA_CORRUPTED
            ):
                raise LedgerCorrupt(f"the ledger {where} is damaged: {said[0]}; {DAMAGED}") from error
            if "lock timeout" in said[0] or "database is locked" in said[0]:
                raise LedgerConflict(f"the ledger {where} has been held by others for a minute; try again") from error
            about = _about_tls(said[0]) or self._about_folder()
            raise LedgerUnavailable(f"the ledger {where} does not answer: {said[0]}{about}") from error

    def _about_folder(self) -> str:
        """Say that the folder of a SQLite file cannot be written, which SQLite does to read, too."""
        folder = Path(self._url.database or "").parent
        if not self._is_sqlite or os.access(folder, os.W_OK | os.X_OK):
            return ""
        why = f"; {folder} cannot be written, and SQLite needs that even to read"
        return f"{why}: give write access, or copy the workspace to a disk that can be written"

    @contextmanager
    def _queue(self) -> Iterator[None]:
        """Let writers of a SQLite file in one by one: at its own lock they would sleep and try again, and starve."""
        if not self._is_sqlite:
            yield
            return
        path = Path(f"{self._url.database}.lock")
        try:
            file = path.open("wb")
        except OSError as error:
            raise LedgerUnavailable(f"the ledger {path.parent} cannot be written: {error.strerror}") from error
        with file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _make_engine(self) -> Engine:
        if self._is_sqlite:
            engine = create_engine(self._url, connect_args={"timeout": _PATIENCE_SECONDS, "check_same_thread": False})
            _take_over_transactions(engine)
            return engine
        told = self._url.query.get("options", "")
        options = f"{told if isinstance(told, str) else ' '.join(told)} {_POSTGRES_OPTIONS}".strip()
        arguments = {"connect_timeout": _CONNECT_SECONDS, "options": options}
        if "hostaddr" not in self._url.query:
            arguments["hostaddr"] = ""  # else PGHOSTADDR would lead to another server than the URL names
        level = "READ COMMITTED"
        engine = create_engine(self._url, connect_args=arguments, pool_pre_ping=True, isolation_level=level)
        from privacy.ledger.store.patience import end_frozen  # here, since it imports PostgreSQL's driver

        end_frozen(engine, seconds=self._timeout)
        return engine


def _parsed(url: str) -> URL:
    """Read the URL; a PostgreSQL one gets the driver that we bring."""
    allowed = "sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DATABASE"
    try:
        parsed = make_url(url)
        backend = parsed.get_backend_name()
    except (ArgumentError, NoSuchModuleError, ValueError) as error:
        raise LedgerUnavailable(f"the ledger's URL cannot be read; allowed: {allowed}") from error
    if backend not in ("sqlite", "postgresql", "postgres"):
        raise LedgerUnavailable(f"the ledger's URL begins with {backend}://; allowed: {allowed}")
    if backend == "sqlite" and (parsed.database in (None, "", ":memory:") or parsed.query):
        raise LedgerUnavailable(f"the ledger's URL names no plain file; allowed: {allowed}")
    if backend != "sqlite" and "@" in f"{parsed.host}{parsed.database}":
        raise LedgerUnavailable("the ledger's URL has an @ in its password; write it as %40")
    if any("password" in name for name in parsed.query):
        raise LedgerUnavailable("the ledger's URL has a password among its options; write USER:PASSWORD@HOST")
    return parsed if backend == "sqlite" else parsed.set(drivername="postgresql+psycopg")


def _about_tls(said: str) -> str:
    """Say what may be wrong where a server's certificate does not hold."""
    if "certificate" not in said and "SSL error" not in said:
        return ""
    return "; sslrootcert of its URL must be the authority of the server's certificate, and its host the name in that"


def _take_over_transactions(engine: Engine) -> None:
    """Make SQLite's transactions explicit: WAL, full fsync, and the write lock first in those that write."""

    @event.listens_for(engine, "connect")
    def connect(connection: Any, _record: Any) -> None:
        connection.isolation_level = None
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        reading = connection.get_execution_options().get("reading")
        connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")
