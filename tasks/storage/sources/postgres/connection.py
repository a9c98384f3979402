"""Tables of PostgreSQL: one state of the table, read by COPY, whatever others write meanwhile.

What could stand between the rows and us is refused: views, foreign tables and row-level security could join or
aggregate rows of many people, or hide some; names are taken from the schema that is written (`public` where none
is), never from a search path.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa

from contracts.contract.contract import Contract
from contracts.domains.value_sql import identifier
from contracts.release.address import PostgresAddress, split_table
from contracts.release.source import Source
from tasks.storage.credentials import credentials_of, variable_of
from tasks.storage.sources.files import DELIVERED, stored_as
from tasks.storage.sources.postgres.catalog import CatalogTable, look, query_server
from tasks.storage.sources.source import Origin, SourceKind, checked
from tasks.storage.sources.typed_rows import Reading, break_gate, refuse

if TYPE_CHECKING:
    import psycopg

ResultT = TypeVar("ResultT")
logger = logging.getLogger(__name__)

BLOCK_BYTES: Final = 1 << 23
ENCRYPTED: Final = ("require", "verify-ca", "verify-full")
_UNENCRYPTED: Final = ("disable", "allow", "prefer")
SESSION: Final = (
    "SET search_path = ''",
    "SET quote_all_identifiers = off",
    "SET row_security = off",
    "SET synchronize_seqscans = off",
    "SET max_parallel_workers_per_gather = 0",
    "SET DateStyle = 'ISO, YMD'",
    "SET IntervalStyle = 'iso_8601'",
    "SET TimeZone = 'UTC'",
    "SET extra_float_digits = 1",
    "SET client_encoding = 'UTF8'",
    "SET statement_timeout = 0",
    "SET idle_in_transaction_session_timeout = 0",
    "SET lock_timeout = '30s'",
)
"""What makes values read alike whoever connects, and rows come in the same order each time."""


@contextmanager
def postgres_origin(source: Source, address: PostgresAddress, contract: Contract) -> Iterator[Origin]:
    """Look at a table of PostgreSQL, inside one transaction that sees one state of it and is held by the block.

    Args:
        source: the source.
        address: its database.
        contract: the contract.
    Raises:
        SourceUnreadable: the server cannot be reached or does not let us in; no such table, a view, or row-level
            security.
    """
    where = source.name
    connection = connected(address, source.credentials, where)
    try:
        query_server(where, lambda: begin(connection))
        table, reading = looked_at(connection, source, contract)
        marks = [table.oid, [[column.name, column.written] for column in table.columns]]
        yield Origin(marks, lambda: marks, lambda _folder, _advance: reading, live=True)
    finally:
        connection.close()


def looked_at(
    connection: psycopg.Connection[Any], source: Source, contract: Contract
) -> tuple[CatalogTable, Reading]:
    """Look at the source's table in a transaction that was begun, and check that its columns are the contract's."""
    import psycopg

    schema, name = split_table(source.table or "")
    try:
        # Before the first SELECT, which fixes the state that is seen: a table that is emptied or rewritten between
        # the two would look empty.
        with connection.transaction():
            connection.execute(f"LOCK TABLE {identifier(schema)}.{identifier(name)} IN ACCESS SHARE MODE".encode())
    except psycopg.Error as error:
        logger.debug("no lock yet (SQLSTATE %s): the catalog will tell why", error.sqlstate)
    selected = source.select is not None
    unread = frozenset() if selected else frozenset(contract.left_out)
    table = look(connection, source.name, schema, name, selected=selected, left_out=unread)
    columns = tuple(column.name for column in table.delivered)
    values = ", ".join(f"{column.cast} AS {identifier(column.name)}" for column in table.delivered)
    stored = stored_as({column.name: column.base for column in table.delivered})
    floats = frozenset(column.name for column in table.delivered if column.in_duckdb == "DOUBLE")
    bare = Reading(source.name, columns, True, f"(SELECT {values} FROM {DELIVERED})", stored=stored, floats=floats)
    return table, checked(replace(bare, batches=lambda: _batches(connection, table)), source, contract)


def connected(
    address: PostgresAddress, credentials: str | None, where: str, *, field: str = "source.path"
) -> psycopg.Connection[Any]:
    """Connect; libpq takes user and password from the environment where none are named, but never the server.

    Args:
        address: the database.
        credentials: the name of credentials, or None.
        where: the source, for messages.
        field: which field holds the address, for messages.

    An empty `hostaddr` keeps libpq from dialling PGHOSTADDR, or that of a service file, in the address's place.

    Raises:
        SourceUnreadable: the server cannot be reached or does not let us in; PGSSLMODE asks for no encryption.
    """
    import psycopg

    from tasks.storage.sources.postgres.refused_connection import cause_of

    given: dict[str, Any] = {**credentials_of(credentials, ("user", "password"), where, field=field)}
    if not address.is_local:
        given["sslmode"] = _encryption(where)
    try:
        return psycopg.connect(
            host=address.socket or address.host,
            hostaddr="",
            port=address.port,
            dbname=address.database,
            application_name="sudare",
            connect_timeout=10,
            **given,
        )
    except psycopg.Error as error:
        found, allowed, remedy = cause_of(error)
    refuse(where, field, found, allowed, remedy)


def _encryption(where: str) -> str:
    """Return how the connection to another machine is encrypted: at least so that nobody reads along."""
    mode = variable_of("PGSSLMODE") or ENCRYPTED[0]
    if mode not in ENCRYPTED:
        found = f"`{mode}`, which lets rows travel in clear text" if mode in _UNENCRYPTED else "an unknown mode"
        remedy = f"set PGSSLMODE={ENCRYPTED[-1]}, or leave it unset"
        refuse(where, "PGSSLMODE", found, f"{', '.join(ENCRYPTED)} for another machine", remedy)
    return mode


def begin(connection: psycopg.Connection[Any]) -> None:
    """Begin the transaction: read only, one state of the database for all of it."""
    import psycopg

    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    connection.read_only = True
    for setting in SESSION:
        connection.execute(setting.encode())


def _batches(connection: psycopg.Connection[Any], table: CatalogTable) -> Iterator[tuple[pa.RecordBatch, float]]:
    """Yield the rows as Arrow batches of text, each with the fraction that is likely read so far."""
    import pyarrow.csv as arrow_csv

    names = [column.name for column in table.delivered]
    done = 0
    with connection.cursor() as cursor:
        stream = query_server(table.where, lambda: _Copied(cursor, table))
        reader = _read(
            table,
            lambda: arrow_csv.open_csv(
                io.BufferedReader(stream, BLOCK_BYTES),
                read_options=arrow_csv.ReadOptions(column_names=names, block_size=BLOCK_BYTES, use_threads=False),
                parse_options=arrow_csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
                convert_options=arrow_csv.ConvertOptions(
                    column_types={name: pa.string() for name in names},
                    null_values=[""],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            ),
        )
        while reader is not None and (batch := _read(table, reader.read_next_batch)) is not None:
            done += batch.num_rows
            yield batch, min(done / max(table.rows, done), 1.0)


def _read(table: CatalogTable, ask: Callable[[], ResultT]) -> ResultT | None:
    """Read on; None at the end. Arrow's message about a text that it cannot decode may quote it."""
    try:
        return query_server(table.where, ask)
    except StopIteration:
        return None
    except pa.ArrowInvalid as error:
        empty = "Empty CSV file" in str(error)
    if empty:
        return None
    break_gate(table.where, "encoding", "bytes that are not UTF-8 text", "UTF-8", "correct the table")


class _Copied(io.RawIOBase):
    """What COPY sends, as a file."""

    def __init__(self, cursor: psycopg.Cursor[Any], table: CatalogTable) -> None:
        self._context = cursor.copy(table.copy.encode())
        self._copy = self._context.__enter__()
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read the next bytes; 0 at the end."""
        if not self._rest:
            self._rest = memoryview(self._copy.read())
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


TABLES: Final = SourceKind(postgres_origin)
