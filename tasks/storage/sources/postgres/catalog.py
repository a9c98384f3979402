"""The catalog of PostgreSQL: which tables there are, what they consist of, and what is no plain table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, LiteralString, NoReturn, TypeVar

from contracts.domains.value_sql import identifier
from contracts.errors import Finding, GateBroken, Refused, SourceUnreadable
from tasks.storage.sources.postgres.column_types import PostgresColumn, unreadable
from tasks.storage.sources.typed_rows import MANY, refuse

if TYPE_CHECKING:
    import psycopg

ResultT = TypeVar("ResultT")
WHOLE: Final = "a table that the user may read whole"

_TABLE: Final = """
    SELECT c.oid::bigint, c.relkind::text, c.relfilenode::bigint, c.reltuples::float8
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relname = %s
"""
_BELOW: Final = """
    WITH RECURSIVE below(oid) AS (
        SELECT inhrelid FROM pg_catalog.pg_inherits WHERE inhparent = %s
        UNION SELECT i.inhrelid FROM pg_catalog.pg_inherits i JOIN below b ON i.inhparent = b.oid
    )
    SELECT DISTINCT c.relkind::text FROM below b JOIN pg_catalog.pg_class c ON c.oid = b.oid
"""
_HIDDEN: Final = "SELECT pg_catalog.row_security_active(%s::bigint::oid)"
_COLUMNS: Final = """
    SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), t.typtype::text, t.typcategory::text,
        pg_catalog.format_type(coalesce(nullif(t.typelem, 0), nullif(t.typbasetype, 0), t.oid), NULL),
        (SELECT nspname FROM pg_catalog.pg_namespace WHERE oid = t.typnamespace)
    FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
    WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_KEY: Final = """
    SELECT a.attname FROM pg_catalog.pg_index i
    JOIN LATERAL pg_catalog.unnest(i.indkey::int2[]) WITH ORDINALITY AS k(number, place) ON true
    JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
    WHERE i.indrelid = %s AND i.indisprimary ORDER BY k.place
"""
_LISTED: Final = """
    SELECT n.nspname, c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p') AND n.nspname NOT LIKE 'pg\\_%%' AND n.nspname <> 'information_schema'
    ORDER BY 1, 2 LIMIT %s
"""
_KINDS: Final = {
    "v": "a view",
    "m": "a materialized view",
    "f": "a foreign table",
    "i": "an index",
    "S": "a sequence",
    "c": "a type",
    "I": "an index",
    "t": "a TOAST table",
}


@dataclass(frozen=True)
class CatalogTable:
    """A table of a database, as the catalog describes it.

    Args:
        where: the source, for messages.
        oid: its number.
        columns: its columns.
        key: the columns of its primary key; empty where it has none.
        schema: its schema.
        name: its name.
        rows: the planner's guess of its rows, for the progress bar alone.
        left_out: columns that are never asked for.
    """

    where: str
    oid: int
    columns: tuple[PostgresColumn, ...]
    key: tuple[str, ...]
    schema: str
    name: str
    rows: float
    left_out: frozenset[str] = frozenset()

    @property
    def delivered(self) -> tuple[PostgresColumn, ...]:
        """The columns that are asked for."""
        return tuple(column for column in self.columns if column.name not in self.left_out)

    @property
    def copy(self) -> str:
        """Write the COPY statement: in the order of the primary key, else as the rows lie."""
        values = ", ".join(f"{column.text} AS {identifier(column.name)}" for column in self.delivered)
        table = f"{identifier(self.schema)}.{identifier(self.name)}"
        order = f" ORDER BY {', '.join(f't.{identifier(name)}' for name in self.key)}" if self.key else ""
        return f"COPY (SELECT {values} FROM {table} AS t{order}) TO STDOUT (FORMAT csv)"


def query_server(where: str, ask: Callable[[], ResultT]) -> ResultT:
    """Ask the server; its messages may quote rows and go no further.

    Raises:
        SourceUnreadable: we may not read, or the connection or the server ended.
        GateBroken: the server cannot read what it stored.
    """
    import psycopg

    try:
        return ask()
    except psycopg.Error as error:
        refusal = _explained(where, error.sqlstate or "", isinstance(error, psycopg.OperationalError))
    raise refusal


def _explained(where: str, state: str, operational: bool) -> Refused:
    if state == "42501":
        remedy = "grant SELECT on the table to the user, and USAGE on its schema"
        return _unreadable(where, "no right to read it", WHOLE, remedy)
    if state == "55P03":
        return _unreadable(where, "a table that is locked", "a table that can be read", "run again later")
    if state in ("42P01", "42703", "3F000"):
        return _unreadable(where, "a table that changed meanwhile", "a table at rest", "run again")
    if state.startswith("53"):
        found, remedy = f"a server that reached a limit (SQLSTATE {state})", "let it have more room, then run again"
        return _unreadable(where, found, "a server with room for its temporary files, and with memory", remedy)
    if operational or state.startswith(("08", "57")):
        found = "a connection that ended while the table was read"
        return _unreadable(where, found, "a server that stays", "check the server, then run again")
    allowed, remedy = "a table that the server can read to its end", "repair the table, then run again"
    return GateBroken([Finding(where, "rows", f"an error of the server (SQLSTATE {state})", allowed, remedy)])


def _unreadable(where: str, found: str, allowed: str, remedy: str) -> SourceUnreadable:
    return SourceUnreadable([Finding(where, "source.table", found, allowed, remedy)])


def look(
    connection: psycopg.Connection[Any],
    where: str,
    schema: str,
    name: str,
    *,
    selected: bool,
    left_out: frozenset[str] = frozenset(),
) -> CatalogTable:
    """Find a table in the catalog; hold it against being changed; refuse what is no plain table.

    Columns that have no plain text are left out where a select takes columns; without one they are refused, but for
    those of `left_out`, which are never asked for.
    """

    def ask(statement: LiteralString, *values: object) -> list[tuple[Any, ...]]:
        return query_server(where, lambda: connection.execute(statement, values).fetchall())

    found = ask(_TABLE, schema, name)
    if not found:
        _refuse_unknown(where, ask(_LISTED, MANY + 1))
    oid, kind, _, guess = found[0]
    below = [each for (each,) in ask(_BELOW, oid)]
    _refuse_other_kinds(where, (kind, *below))
    table = f"{identifier(schema)}.{identifier(name)}"
    query_server(where, lambda: connection.execute(f"LOCK TABLE {table} IN ACCESS SHARE MODE".encode()))
    if ask(_HIDDEN, oid)[0][0]:
        remedy = "let the server's administrator give the user BYPASSRLS"
        refuse(where, "source.table", "row-level security that would hide rows from the user", WHOLE, remedy)
    columns = tuple(PostgresColumn(*row) for row in ask(_COLUMNS, oid))
    without_text = [column for column in columns if unreadable(column) and column.name not in left_out]
    if without_text and not selected:
        _refuse_column(where, without_text[0])
    columns = tuple(column for column in columns if column not in without_text)
    # The key of a table which others inherit from says nothing of their rows.
    key = () if below and kind == "r" else tuple(each for (each,) in ask(_KEY, oid))
    return CatalogTable(where, oid, columns, key, schema, name, guess, left_out)


def _refuse_unknown(where: str, listed: list[tuple[Any, ...]]) -> NoReturn:
    """Refuse a table that is not there; name those that are."""
    there = [each if space == "public" else f"{space}.{each}" for space, each in listed]
    allowed = ", ".join(there[:MANY]) + " and more" * (len(there) > MANY) if there else "a table (it has none)"
    refuse(where, "source.table", "no such table", allowed, "correct `source: table:`; letters keep their case")


def _refuse_other_kinds(where: str, kinds: Sequence[str]) -> None:
    """Refuse what is no plain table, and a table some of whose rows lie in none."""
    other = [each for each in kinds if each not in ("r", "p")]
    if other:
        remedy = "name the table that it reads; what it does row by row, `select:` can do, and is checked"
        allowed = "a table: a view could join or aggregate the rows of many people"
        refuse(where, "source.table", _KINDS.get(other[0], "something else than a table"), allowed, remedy)


def _refuse_column(where: str, column: PostgresColumn) -> NoReturn:
    """Refuse a column that has no plain text."""
    found = f"the column {column.name!r} of type {column.written}"
    allowed = "numbers, texts, dates, times, booleans, enumerations and lists of these"
    remedy = "name it under `left_out:` of the contract, or take the other columns with `select:`"
    refuse(where, "source.table", found, allowed, remedy)
