"""The address of a PostgreSQL database.

postgresql://HOST[:PORT]/DATABASE             over TCP; port 5432 where none is written
postgresql:///DATABASE?host=FOLDER[&port=N]   over the Unix socket in FOLDER
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import ClassVar, Final
from urllib.parse import parse_qsl, quote, unquote

from contracts.reading.scalars import Problem, refuse, show
from contracts.release.address import CONTROL, Address, bracketed, host_and_port, port_of, shown

POSTGRES_PORT: Final = 5432
_POSTGRES_NAME_BYTES: Final = 63
CUT_OFF: Final = (
    "a name that PostgreSQL cuts off",
    f"at most {_POSTGRES_NAME_BYTES} bytes a name",
    "write the name as the server has it",
)
"""Why a longer name is refused: all that begin alike would be one table. What is found, allowed, and to be done."""


@dataclass(frozen=True)
class PostgresAddress(Address):
    """A PostgreSQL database.

    Args:
        host: the host in its canonical spelling, or None for a socket.
        port: the port.
        database: the database; upper and lower case differ.
        socket: the folder of the Unix socket, links followed, or None for TCP.
    """

    kind: ClassVar[str] = "postgresql"
    options: ClassVar[frozenset[str]] = frozenset({"host", "port"})
    at_signs: ClassVar[bool] = False
    has_tables: ClassVar[bool] = True

    host: str | None
    port: int
    database: str
    socket: str | None = None

    def __str__(self) -> str:
        """The canonical name."""
        if self.socket is not None:
            return f"postgresql:///{quote(self.database, safe='')}?host={self.socket}&port={self.port}"
        return f"postgresql://{bracketed(self.host or '')}:{self.port}/{quote(self.database, safe='')}"

    @property
    def is_local(self) -> bool:
        """Whether what it says stays on this machine."""
        return self.socket is not None or self.host == "localhost"

    @classmethod
    def read(cls, scheme: str, rest: str, written: str) -> PostgresAddress:
        """Read the address of a database."""
        place, _, query = rest.partition("?")
        authority, _, database = place.partition("/")
        database = unquote(database)
        if not database or "/" in database or CONTROL.search(database):
            refuse([Problem(shown(written), "postgresql://HOST[:PORT]/DATABASE", "name one database after the host")])
        if is_cut_off(database):
            refuse([Problem(*CUT_OFF)])
        options = dict(parse_qsl(query))
        if not authority and options.get("host", "").startswith("/"):
            port = port_of(options.get("port", ""), POSTGRES_PORT, written)
            return cls(None, port, database, os.path.realpath(options["host"]))
        if query or not authority:
            allowed = "postgresql://HOST[:PORT]/DATABASE, or postgresql:///DATABASE?host=/FOLDER of a socket"
            refuse([Problem(shown(written), allowed, "write the host; none is guessed")])
        host, port = host_and_port(authority, POSTGRES_PORT, written)
        return cls(host, port, database)

    def table_format(self, files: str | None) -> str:
        """Return the one format."""
        return "postgresql"

    def source_name(self, table: str | None, *, folder: bool) -> str:
        """Return the name of a table, with its schema."""
        return f"{self}::{'.'.join(split_table(table or ''))}"

    def misplaced(self, files: str | None) -> Problem | None:
        """Refuse files of a database."""
        return (
            None
            if files is None
            else Problem("`files` for a database", "`files` for a folder", "drop it", ("files",))
        )

    def table_problems(self, table: str) -> list[Problem]:
        """List what is wrong with TABLE or SCHEMA.TABLE."""
        problems, parts = [], split_table(table)
        if not all(parts):
            problems.append(Problem(show(table), "TABLE or SCHEMA.TABLE", "name one table", ("table",)))
        if any(is_cut_off(part) for part in parts):
            problems.append(Problem(*CUT_OFF, ("table",)))
        return problems


def is_cut_off(name: str) -> bool:
    """Say whether PostgreSQL would cut a name off."""
    return len(name.encode(errors="surrogatepass")) > _POSTGRES_NAME_BYTES


def split_table(written: str) -> tuple[str, str]:
    """Split TABLE or SCHEMA.TABLE of PostgreSQL; the schema is `public` where none is written."""
    schema, dot, table = written.partition(".")
    return (schema, table) if dot else ("public", written)
