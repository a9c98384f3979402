"""A real PostgreSQL server for the tests of sources and sinks: databases, and their addresses."""

import warnings
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from contracts.release.source import Source


class PostgresServer:
    def __init__(self, folder: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it may warn about the runtime folder of a user who has none
            import pgserver
        self._server = pgserver.get_server(folder, cleanup_mode="delete")
        self._numbers = count()
        with self.connect("postgres") as admin:
            self.socket = Path(admin.info.host)
            self.port = admin.info.port
            admin.execute("ALTER SYSTEM SET fsync = off")
            admin.execute("SELECT pg_reload_conf()")

    def connect(self, database: str, **more: Any) -> psycopg.Connection[Any]:
        return psycopg.connect(self._server.get_uri(), autocommit=True, dbname=database, **more)

    def database(self, *statements: str) -> str:
        name = f"town_{next(self._numbers)}"
        with self.connect("postgres") as admin:
            admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        self.run(name, *statements)
        return name

    def run(self, database: str, *statements: str) -> None:
        with self.connect(database) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def rows(self, database: str, query: str) -> Sequence[tuple[Any, ...]]:
        with self.connect(database) as connection:
            return connection.execute(query.encode()).fetchall()

    def address(self, database: str) -> str:
        return f"postgresql:///{database}?host={self.socket}&port={self.port}"

    def source(self, database: str, table: str = "people", **more: Any) -> Source:
        return Source.model_validate({"path": self.address(database), "table": table, **more})

    def close(self) -> None:
        """Stop the server and remove its files."""
        self._server.cleanup()
