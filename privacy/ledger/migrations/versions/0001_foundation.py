"""The first schema: one account for the people of one time block, on SQLite."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the tables that version 0.1 had."""
    op.create_table("meta", sa.Column("key", sa.String(40), primary_key=True), sa.Column("value", sa.Text))
    op.create_table(
        "accounts",
        sa.Column("name", sa.String(200), primary_key=True),
        sa.Column("terms", sa.Text, nullable=False),
        sa.Column("cap", sa.BigInteger, nullable=False),
        sa.Column("spent", sa.BigInteger, nullable=False),
        sa.Column("status", sa.String(10), nullable=False),
    )
    op.create_table(
        "sources",
        sa.Column("source", sa.Text, primary_key=True),
        sa.Column("population", sa.String(200), nullable=False),
        sa.Column("block", sa.String(200), nullable=False),
    )
    op.create_table(
        "charges",
        sa.Column("run_key", sa.String(200), primary_key=True),
        sa.Column("number", sa.Integer, nullable=False, unique=True),
        sa.Column("account", sa.String(200), sa.ForeignKey("accounts.name"), nullable=False, index=True),
        sa.Column("request", sa.Text, nullable=False),
        sa.Column("amount", sa.BigInteger, nullable=False),
        sa.Column("status", sa.String(10), nullable=False),
        sa.Column("security", sa.String(10)),
    )
    op.create_table(
        "draws",
        sa.Column("run_key", sa.String(200), sa.ForeignKey("charges.run_key"), primary_key=True),
        sa.Column("key", sa.String(200), primary_key=True),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("event", sa.Text, nullable=False),
        sa.Column("cost", sa.BigInteger, nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.UniqueConstraint("run_key", "number"),
    )
    op.create_table(
        "versions",
        sa.Column("release", sa.String(200), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("run_key", sa.String(200), sa.ForeignKey("charges.run_key"), nullable=False, unique=True),
        sa.Column("status", sa.String(10), nullable=False),
        sa.Column("manifest", sa.String(64)),
    )
    op.create_table(
        "journal",
        sa.Column(
            "sequence", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=False
        ),
        sa.Column("previous", sa.String(64), nullable=False, unique=True),
        sa.Column("hash", sa.String(64), nullable=False, unique=True),
        sa.Column("kind", sa.String(40), nullable=False),
        sa.Column("at", sa.String(40), nullable=False),
        sa.Column("body", sa.Text, nullable=False),
    )
