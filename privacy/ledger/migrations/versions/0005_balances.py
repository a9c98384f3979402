"""The signed statement of all balances, from which a charge adds up the journal's entries."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the table; the first charge fills it."""
    op.create_table(
        "statements",
        sa.Column("key_id", sa.String(16), primary_key=True),
        sa.Column("size", sa.BigInteger().with_variant(sa.Integer, "sqlite"), nullable=False),
        sa.Column("balances", sa.Text, nullable=False),
        sa.Column("signature", sa.String(128), nullable=False),
    )
