"""The tables of the ledger's database. Money columns are integers; every change of the schema is a migration."""

from __future__ import annotations

from typing import Final

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, MetaData, String, Table, Text, UniqueConstraint

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
    Index("ix_charges_status", "status", "run_key"),
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
    Column("head", String(64), nullable=False),
    Column("at", String(40), nullable=False),
    Column("signature", String(128), nullable=False),
)
statements = Table(
    "statements",
    metadata,
    Column("key_id", String(16), primary_key=True),
    Column("size", _LONG, nullable=False),
    Column("balances", Text, nullable=False),
    Column("signature", String(128), nullable=False),
)
