"""An index that finds the charges whose grant is not opened yet, among a million."""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add the index; no row changes."""
    op.create_index("ix_charges_status", "charges", ["status", "run_key"])
