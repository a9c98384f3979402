"""A PostgreSQL server that counts people, and writes down all that it can."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from contracts.release.address import PostgresAddress
from contracts.release.source import Source
from deploy.postgres_server import postgres_server

SECRET = "hunter2-Xq7zz"
PEOPLE = """
    CREATE TABLE people (person text, age integer, sex text, wage numeric, since date)
        WITH (autovacuum_enabled = off);
    INSERT INTO people SELECT 'person-' || i * i % 400, i % 120, CASE WHEN i % 2 = 0 THEN 'F' ELSE 'M' END,
        CASE i % 50 WHEN 0 THEN repeat('9', 400)::numeric ELSE i / 7.0 END, DATE '2019-06-01' + i % 2000
    FROM generate_series(1, 3000) AS t(i);
    INSERT INTO people VALUES ('planted-4711-ü', NULL, 'planted-4711-ü', NULL, 'infinity');
"""
TELLTALE = {
    "log_statement": "all",
    "log_min_duration_statement": "0",
    "log_parameter_max_length": "-1",
    "log_min_error_statement": "debug5",
    "log_error_verbosity": "verbose",
    "debug_print_plan": "on",
    "track_activity_query_size": "1MB",
    "autovacuum": "off",
    "fsync": "off",
}
"""A server that writes down all that it can."""


@dataclass(frozen=True)
class Server:
    """A server of our own."""

    port: int
    log: Path

    def admin(self) -> psycopg.Connection[Any]:
        """Connect as the superuser, over loopback."""
        address = f"postgresql://keeper:{SECRET}@localhost:{self.port}/postgres"
        return psycopg.connect(address, autocommit=True)

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run statements; return the rows of the last one."""
        with self.admin() as connection:
            for statement in statements:
                cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def source(self, table: str = "people", *, port: int | None = None) -> Source:
        """Return a table that the server counts, as the role sees it."""
        address = f"postgresql://localhost:{port or self.port}/postgres"
        return Source.model_validate(
            {"path": address, "table": table, "credentials": "counter", "engine": "postgresql"}
        )

    def elsewhere(self, port: int) -> Source:
        """Return the same as if it were on another machine: at a number that is not told to be this one's."""
        return self.source().model_copy(update={"path": PostgresAddress("127.0.0.1", port, "postgres")})

    def counting(self) -> list[int]:
        """Return the processes that count for us."""
        return [row[0] for row in self.run("SELECT pid FROM pg_stat_activity WHERE application_name = 'sudare'")]


@contextmanager
def counting_server(folder: Path) -> Iterator[Server]:
    """Run a server with people, and a role that may read them and make temporary tables, and nothing else."""
    with postgres_server("keeper", SECRET, folder / "log") as port, pytest.MonkeyPatch.context() as patch:
        server = Server(port, folder / "log")
        server.run(
            PEOPLE,
            *(f"ALTER SYSTEM SET {name} = '{value}'" for name, value in TELLTALE.items() if name[:5] != "track"),
            "SELECT pg_reload_conf()",
            f"CREATE ROLE counter LOGIN PASSWORD '{SECRET}'",
            "REVOKE ALL ON DATABASE postgres FROM PUBLIC",
            "REVOKE ALL ON SCHEMA public FROM PUBLIC",
            "GRANT CONNECT, TEMP ON DATABASE postgres TO counter",
            "GRANT USAGE ON SCHEMA public TO counter",
            "GRANT SELECT ON people TO counter",
        )
        patch.setenv("SUDARE_CREDENTIALS_COUNTER", json.dumps({"user": "counter", "password": SECRET}))
        yield server
