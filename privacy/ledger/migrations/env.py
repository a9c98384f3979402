"""Alembic's entry point: runs the migrations on the connection that `migrate` hands over, inside its transaction."""

from __future__ import annotations

from alembic import context

context.configure(
    connection=context.config.attributes["connection"],
    version_table=context.config.attributes["version_table"],
)
context.run_migrations()
