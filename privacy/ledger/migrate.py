"""Schema versions of the ledger's database: which one it has, and how it gets to the one this version knows."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from sqlalchemy import Connection, inspect, text

FOUNDATION: Final = "0001"
CURRENT: Final = "0005"
VERSION_TABLE: Final = "sudare_ledger_version"


def revision_of(connection: Connection) -> str | None:
    """Return the schema version of a database; None where it holds no ledger."""
    tables = inspect(connection)
    if tables.has_table(VERSION_TABLE):
        found: str | None = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()
        return found
    return FOUNDATION if tables.has_table("meta") else None


def upgrade(connection: Connection) -> None:
    """Bring the schema to the current version, inside the caller's transaction."""
    # Alembic takes a third of a second to import; only a new or an outdated ledger pays for it.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    config.attributes["version_table"] = VERSION_TABLE
    if revision_of(connection) == FOUNDATION and not inspect(connection).has_table(VERSION_TABLE):
        command.stamp(config, FOUNDATION)
    command.upgrade(config, "head")
