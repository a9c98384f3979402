"""The tables of the ledger's database, and the triggers that keep what is only ever appended. Money is in integers.

A database says which schema it has. There is one, `VERSION`; a ledger of another is refused.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    inspect,
    select,
    text,
)

VERSION: Final = "1"
LONGEST_NAME: Final = 200
metadata = MetaData()
_LONG = BigInteger().with_variant(Integer, "sqlite")

accounts = Table(
    "accounts",
    metadata,
    Column("name", String(LONGEST_NAME), primary_key=True),
    Column("population", String(LONGEST_NAME), nullable=False, index=True),
    Column("begins", Integer, nullable=False),
    Column("ends", Integer, nullable=False),
    Column("terms", Text, nullable=False),
    Column("cap", BigInteger, nullable=False),
    Column("spent", BigInteger, nullable=False),
    Column("status", String(10), nullable=False),
)
sources = Table(
    "sources",
    metadata,
    Column("source", Text, primary_key=True),
    Column("population", String(LONGEST_NAME), nullable=False),
    Column("block", String(LONGEST_NAME), nullable=False),
    Column("begins", Integer, nullable=False),
    Column("ends", Integer, nullable=False),
)
charges = Table(
    "charges",
    metadata,
    Column("run_key", String(LONGEST_NAME), primary_key=True),
    Column("number", _LONG, nullable=False, unique=True),
    Column("release", String(LONGEST_NAME), nullable=False),
    Column("spec_digest", String(64), nullable=False, index=True),
    Column("population", String(LONGEST_NAME), nullable=False, index=True),
    Column("begins", Integer, nullable=False),
    Column("ends", Integer, nullable=False),
    Column("request", Text, nullable=False),
    Column("status", String(10), nullable=False),
    Column("security", String(10)),
    Index("ix_charges_release", "release", "run_key"),
)
parts = Table(
    "charge_parts",
    metadata,
    Column("run_key", String(LONGEST_NAME), ForeignKey("charges.run_key"), primary_key=True),
    Column("account", String(LONGEST_NAME), ForeignKey("accounts.name"), primary_key=True, index=True),
    Column("amount", BigInteger, nullable=False),
)
draws = Table(
    "draws",
    metadata,
    Column("run_key", String(LONGEST_NAME), ForeignKey("charges.run_key"), primary_key=True),
    Column("key", String(LONGEST_NAME), primary_key=True),
    Column("number", Integer, nullable=False),
    Column("event", Text, nullable=False),
    Column("sha256", String(64), nullable=False),
    UniqueConstraint("run_key", "number"),
)
versions = Table(
    "versions",
    metadata,
    Column("release", String(LONGEST_NAME), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("run_key", String(LONGEST_NAME), ForeignKey("charges.run_key"), nullable=False, unique=True),
    Column("status", String(10), nullable=False),
    Column("manifest", String(64)),
)
journal = Table(
    "journal",
    metadata,
    Column("sequence", _LONG, primary_key=True, autoincrement=False),
    Column("previous", String(64), nullable=False, unique=True),
    Column("hash", String(64), nullable=False),
    Column("kind", String(40), nullable=False),
    Column("at", String(40), nullable=False),
    Column("body", Text, nullable=False),
    Column("subject", Text, nullable=False, index=True),
    Column("subtrees", Text, nullable=False),
    Index("ix_journal_kind", "kind", "sequence"),
)
head = Table(
    "journal_head",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("size", BigInteger, nullable=False),
    Column("last", String(64), nullable=False),
    Column("frontier", Text, nullable=False),
)
checkpoints = Table(
    "checkpoints",
    metadata,
    Column("size", _LONG, primary_key=True, autoincrement=False),
    Column("run_key", String(LONGEST_NAME), ForeignKey("charges.run_key"), primary_key=True, index=True),
    Column("key_id", String(16), primary_key=True),
    Column("root", String(64), nullable=False),
    Column("at", String(40), nullable=False),
    Column("note", Text, nullable=False),
)
statements = Table(
    "statements",
    metadata,
    Column("key_id", String(16), primary_key=True),
    Column("size", _LONG, nullable=False),
    Column("balances", Text, nullable=False),
    Column("signature", String(128), nullable=False),
)
# Outside `metadata`: a copy of a ledger names its schema in its first line, not among its rows.
version = Table("sudare_ledger_version", MetaData(), Column("version_num", String(32), primary_key=True))

APPEND_ONLY: Final = ("journal", "checkpoints")
REFUSED_ACTIONS: Final = {"sqlite": ("UPDATE", "DELETE"), "postgresql": ("UPDATE", "DELETE", "TRUNCATE")}
_FUNCTION: Final = """
CREATE OR REPLACE FUNCTION ledger_is_append_only() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'the journal is append-only'; END $$
"""
_TRIGGER: Final = {
    "sqlite": "CREATE TRIGGER {table}_refuses_{action} BEFORE {action} ON {table} "
    "BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END",
    "postgresql": "CREATE TRIGGER {table}_refuses_{action} BEFORE {action} ON {table} "
    "FOR EACH STATEMENT EXECUTE FUNCTION ledger_is_append_only()",
}


def version_of(connection: Connection) -> str | None:
    """Return the schema version of a database; None where it holds no ledger."""
    if not inspect(connection).has_table(version.name):
        return None
    return str(connection.execute(select(version.c.version_num)).scalar())


def create_tables(connection: Connection) -> None:
    """Make the tables of a new ledger, and their triggers, inside the caller's transaction."""
    # Without a check: tables of these names that are there already are somebody else's.
    metadata.create_all(connection, checkfirst=False)
    version.metadata.create_all(connection, checkfirst=False)
    connection.execute(version.insert().values(version_num=VERSION))
    refuse_changes(connection)


def refuse_changes(connection: Connection) -> None:
    """Let the database itself refuse to change or delete what is only ever appended."""
    kind = connection.dialect.name
    if kind == "postgresql":
        connection.execute(text(_FUNCTION))
    for table in APPEND_ONLY:
        for action in REFUSED_ACTIONS[kind]:
            connection.execute(text(_TRIGGER[kind].format(table=table, action=action)))
