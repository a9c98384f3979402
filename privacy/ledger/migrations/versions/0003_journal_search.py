"""Indexes that find the entries of one kind, and the runs of one release, among a million."""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the indexes; no row changes."""
    op.create_index("ix_journal_kind", "journal", ["kind", "sequence"])
    op.create_index("ix_charges_release", "charges", ["release", "run_key"])
