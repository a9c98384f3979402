"""The ledger's database: tables, triggers and transactions, and the only place that knows SQLAlchemy.

Every writing transaction takes the write lock before it reads (`BEGIN IMMEDIATE` on SQLite), so that what it
decides on cannot change before it commits. The journal refuses UPDATE and DELETE by trigger, and each entry names
its predecessor's hash under a UNIQUE constraint: two writers can never both append after the same entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Engine,
    ForeignKey,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    create_engine,
    event,
    text,
)
from sqlalchemy.exc import DatabaseError, IntegrityError, OperationalError

from privacy.ledger.errors import LedgerConflict, LedgerUnavailable

SCHEMA_VERSION = "1"
metadata = MetaData()

meta = Table("meta", metadata, Column("key", String(40), primary_key=True), Column("value", Text))
accounts = Table(
    "accounts",
    metadata,
    Column("name", String(200), primary_key=True),
    Column("terms", Text, nullable=False),
    Column("cap", BigInteger, nullable=False),
    Column("spent", BigInteger, nullable=False),
    Column("status", String(10), nullable=False),
)
sources = Table(
    "sources",
    metadata,
    Column("source", Text, primary_key=True),
    Column("population", String(200), nullable=False),
    Column("block", String(200), nullable=False),
)
charges = Table(
    "charges",
    metadata,
    Column("run_key", String(200), primary_key=True),
    Column("number", Integer, nullable=False, unique=True),
    Column("account", String(200), ForeignKey("accounts.name"), nullable=False, index=True),
    Column("request", Text, nullable=False),
    Column("amount", BigInteger, nullable=False),
    Column("status", String(10), nullable=False),
    Column("security", String(10)),
)
draws = Table(
    "draws",
    metadata,
    Column("run_key", String(200), ForeignKey("charges.run_key"), primary_key=True),
    Column("key", String(200), primary_key=True),
    Column("number", Integer, nullable=False),
    Column("event", Text, nullable=False),
    Column("cost", BigInteger, nullable=False),
    Column("sha256", String(64), nullable=False),
    UniqueConstraint("run_key", "number"),
)
versions = Table(
    "versions",
    metadata,
    Column("release", String(200), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("run_key", String(200), ForeignKey("charges.run_key"), nullable=False, unique=True),
    Column("status", String(10), nullable=False),
    Column("manifest", String(64)),
)
journal = Table(
    "journal",
    metadata,
    Column("sequence", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False),
    Column("previous", String(64), nullable=False, unique=True),
    Column("hash", String(64), nullable=False, unique=True),
    Column("kind", String(40), nullable=False),
    Column("at", String(40), nullable=False),
    Column("body", Text, nullable=False),
)

_SQLITE_TRIGGERS = tuple(
    f"CREATE TRIGGER IF NOT EXISTS journal_refuses_{action} BEFORE {action} ON journal "
    "BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END"
    for action in ("UPDATE", "DELETE")
)


class Store:
    """A database that holds one ledger.

    Args:
        url: SQLAlchemy URL; this version knows `sqlite:///…`.
    Raises:
        LedgerUnavailable: the database cannot be opened, or has another schema version.
    """

    def __init__(self, url: str) -> None:
        if not url.startswith("sqlite:///"):
            raise LedgerUnavailable(
                f"ledger URL scheme {url.split(':', 1)[0]!r}: this version keeps its ledger in sqlite:///…"
            )
        self._engine = create_engine(url, connect_args={"timeout": 60, "check_same_thread": False})
        _take_over_transactions(self._engine)
        self._create()

    def _create(self) -> None:
        with self.transaction() as connection:
            metadata.create_all(connection)
            for trigger in _SQLITE_TRIGGERS:
                connection.execute(text(trigger))
            found = connection.execute(meta.select().where(meta.c.key == "schema_version")).first()
            if found is None:
                connection.execute(meta.insert().values(key="schema_version", value=SCHEMA_VERSION))
            elif found.value != SCHEMA_VERSION:
                raise LedgerUnavailable(
                    f"the ledger has schema version {found.value}; this version of Sudare knows {SCHEMA_VERSION}: "
                    "install the version that wrote it"
                )

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Open a writing transaction that holds the write lock from its first statement.

        Raises:
            LedgerConflict: another process won a race; nothing was written.
            LedgerUnavailable: the database does not answer or cannot be written.
        """
        try:
            with self._engine.begin() as connection:
                yield connection
        except IntegrityError as error:
            raise LedgerConflict("another process wrote to the ledger at the same time") from error
        except OperationalError as error:
            raise LedgerUnavailable(f"the ledger's database: {error.orig}") from error
        except DatabaseError as error:
            raise LedgerUnavailable(f"the ledger's database: {error.orig}") from error

    def close(self) -> None:
        """Give the connections back."""
        self._engine.dispose()


def _take_over_transactions(engine: Engine) -> None:
    """Make SQLite's transactions explicit: WAL, full fsync, and BEGIN IMMEDIATE."""

    @event.listens_for(engine, "connect")
    def connect(connection: Any, _record: Any) -> None:
        connection.isolation_level = None
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
