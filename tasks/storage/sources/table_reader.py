"""Parquet files and tables in DuckDB or SQLite files. Values keep their types; those of SQLite arrive as text."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NoReturn, TypeVar
from urllib.parse import quote

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from contracts.domains.value_sql import identifier, literal
from contracts.errors import Finding, GateBroken, SourceUnreadable, SudareError
from tasks.storage.duckdb_session import attempt, is_storage, one_file
from tasks.storage.sources.type_changes import FLOATS, stored_as, stored_in_arrow
from tasks.storage.sources.typed_rows import MANY, Reading, break_gate, refuse, require_file

ResultT = TypeVar("ResultT")

ORIGIN = "origin"
BATCH_ROWS = 50_000
DELIVERED = "delivered"


def read_parquet(path: Path) -> Reading:
    """Look at the schema of a Parquet file and prepare its reading.

    Raises:
        SourceUnreadable: no such file, or not Parquet.
    """
    require_file(path)
    try:
        with pq.ParquetFile(path) as file:
            schema, empty, floats = file.schema_arrow, file.metadata.num_rows == 0, _floats(file)
    except (pa.ArrowException, OSError):
        schema = None
    if schema is None:
        remedy = "deliver the file again, or name it by its format"
        refuse(path, "source.path", "not a Parquet file, or a damaged one", "a Parquet file", remedy)
    relation = f"read_parquet({one_file(path)}, hive_partitioning=false)"
    stored = {} if empty else stored_in_arrow(schema)
    explain = partial(damaged, where=path, kind="Parquet")
    return Reading(str(path), tuple(schema.names), True, relation, explain=explain, stored=stored, floats=floats)


def _floats(file: pq.ParquetFile) -> frozenset[str]:
    """Return the columns of floating-point numbers in which some row has a value, or may have one."""
    groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
    kinds = {field.name: getattr(field.type, "value_type", field.type) for field in file.schema_arrow}
    floats = (file.schema.column(place) for place in range(len(file.schema)))
    places = [
        (place, each.path)
        for place, each in enumerate(floats)
        if each.path in kinds and pa.types.is_floating(kinds[each.path])
    ]
    return frozenset(name for place, name in places if any(_has_values(group.column(place)) for group in groups))


def _has_values(part: pq.ColumnChunkMetaData) -> bool:
    known = part.statistics
    return not (known and known.has_null_count and known.null_count == part.num_values)


def read_duckdb(path: Path, *, table: str) -> Reading:
    """Look at a table of a DuckDB file and prepare its reading; the file is opened read-only.

    Args:
        path: the file.
        table: its name; with its schema ("survey.answers") where that is not `main`.
    Raises:
        SourceUnreadable: no such file, not DuckDB's, in use, or without such a table.
    """
    require_file(path)
    attach = f"ATTACH {literal(str(path))} AS {ORIGIN} (READ_ONLY)"
    with duckdb.connect(config={"autoinstall_known_extensions": False}) as probe:
        attempt(lambda: probe.execute(attach), lambda error: _not_duckdb(error, path))
        listed = "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = ? ORDER BY ALL"
        there = {_qualified(*row): row for row in probe.execute(listed, [ORIGIN]).fetchall()}
        if table not in there:
            _no_table(path, table, list(there))
        schema, name = there[table]
        relation = ".".join(identifier(part) for part in (ORIGIN, schema, name))
        types = {row[0]: row[1] for row in probe.execute(f"DESCRIBE {relation}").fetchall()}
    coarse = [identifier(column) for column, kind in types.items() if kind in ("TIMESTAMP_S", "TIMESTAMP_MS")]
    if coarse:
        # Those out of the range of microseconds are missing values: DuckDB fails on them even in TRY_CAST.
        replaced = ", ".join(f"TRY(CAST({column} AS TIMESTAMP)) AS {column}" for column in coarse)
        relation = f"(SELECT * REPLACE ({replaced}) FROM {relation})"
    reading = Reading(f"{path}::{table}", tuple(types), True, relation, attach, stored=stored_as(types))
    reading = replace(reading, floats=frozenset(name for name, kind in types.items() if kind in FLOATS))
    return replace(reading, explain=lambda error: damaged(error, path, "DuckDB"))


def read_sqlite(path: Path, *, table: str) -> Reading:
    """Look at a table of an SQLite file and prepare its reading; the file is opened read-only.

    Raises:
        SourceUnreadable: no such file, not SQLite's, in use, or without such a table.
    """
    require_file(path)
    there, columns, found = _look(path, table)
    if found:
        allowed = "an SQLite database file that no other process writes to"
        refuse(path, "source.path", found, allowed, "wait for the other process, or deliver the file again")
    if table not in there:
        _no_table(path, table, there)
    reading = Reading(f"{path}::{table}", columns, True, DELIVERED)
    return replace(reading, batches=lambda: _sqlite_batches(path, table, reading))


def _look(path: Path, table: str) -> tuple[list[str], tuple[str, ...], str]:
    """Return the tables of an SQLite file, the columns of one of them, and what is wrong with the file, or ""."""
    listed = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite!_%' ESCAPE '!'"
    try:
        with closing(_sqlite(path)) as file:
            there = sorted(row[0] for row in file.execute(listed))
            columns = tuple(row[0] for row in file.execute("SELECT name FROM pragma_table_info(?)", [table]))
        return there, columns, ""
    except sqlite3.Error as error:
        busy = error.sqlite_errorcode in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    return [], (), "in use by another process" if busy else "not an SQLite file, or a damaged one"


def _sqlite(path: Path) -> sqlite3.Connection:
    """Open an SQLite file read-only."""
    return sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=5.0)


def _sqlite_batches(path: Path, table: str, reading: Reading) -> Iterator[tuple[pa.RecordBatch, float]]:
    """Yield the rows of an SQLite table as Arrow batches of text, each with the fraction read so far."""
    named = ", ".join(identifier(name) for name in reading.columns)
    with closing(_sqlite(path)) as file:
        counted = _query(reading, lambda: file.execute(f"SELECT count(*) FROM {identifier(table)}").fetchall())
        cursor = _query(reading, lambda: file.execute(f"SELECT {named} FROM {identifier(table)}"))
        total, done = counted[0][0], 0
        while rows := _query(reading, lambda: cursor.fetchmany(BATCH_ROWS)):
            done += len(rows)
            columns = zip(*rows, strict=True)
            arrays = [pa.array([_text(value, reading) for value in column], pa.string()) for column in columns]
            yield pa.record_batch(arrays, names=list(reading.columns)), min(done / total, 1.0) if total else 1.0


def _query(reading: Reading, ask: Callable[[], ResultT]) -> ResultT:
    """Ask SQLite; its message about a text that it cannot decode quotes the text and goes no further."""
    try:
        return ask()
    except sqlite3.Error as error:
        undecoded = getattr(error, "sqlite_errorcode", None) is None
    if undecoded:
        break_gate(reading.where, "encoding", "bytes that are not UTF-8 text", "UTF-8", "correct the table")
    break_gate(reading.where, "rows", "a page that cannot be read", "a whole SQLite file", "deliver the file again")


def _text(value: object, reading: Reading) -> str | None:
    """Write a value of SQLite as text; numbers so that they read back as the same number, 1.0 as 1 is written."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes):
        remedy = "convert the column, or leave it out with `select:`"
        break_gate(reading.where, "rows", "binary data", "text, numbers and nulls", remedy)
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return repr(int(value))
    return repr(value)


def _qualified(schema: str, name: str) -> str:
    """Name a DuckDB table as a spec does."""
    return name if schema == "main" else f"{schema}.{name}"


def _no_table(path: Path, table: str, there: Sequence[str]) -> NoReturn:
    """Refuse a table name; the names of the tables are schema and may be shown. Views could join and aggregate."""
    more = f" and {len(there) - MANY} more" if len(there) > MANY else ""
    allowed = ", ".join(there[:MANY]) + more if there else "a table (the file has none)"
    remedy = "correct `source: table:` in the spec; a view is not taken, since its rows may join many people's"
    refuse(path, "source.table", f"no table {table!r}", allowed, remedy)


def _not_duckdb(error: duckdb.Error, path: Path) -> SudareError:
    """Say why a file cannot be opened as a DuckDB database."""
    if "Could not set lock" in str(error):
        remedy = "end the process that writes to it, or copy the table to a file of its own"
        return SourceUnreadable(
            [Finding(str(path), "source.path", "in use by another process", "a free file", remedy)]
        )
    allowed = "a DuckDB file that this version of DuckDB reads"
    finding = Finding(str(path), "source.path", "not a DuckDB file, or a damaged one", allowed, "deliver it again")
    return SourceUnreadable([finding])


def damaged(error: duckdb.Error, where: object, kind: str) -> SudareError | None:
    """Say that a file which opened well cannot be read to its end; errors about memory and disk are not its own."""
    if isinstance(error, duckdb.ConversionException) and "Could not convert Timestamp(" in str(error):
        found, allowed = "a timestamp that does not fit into microseconds", "timestamps up to 290,000 years from 1970"
        remedy = "deliver the file again, with a missing value in its place"
        return GateBroken([Finding(str(where), "rows", found, allowed, remedy)])
    if not isinstance(error, duckdb.IOException | duckdb.InvalidInputException | duckdb.SerializationException):
        return None
    if is_storage(error):
        return None
    return GateBroken(
        [Finding(str(where), "rows", f"damaged {kind} data", f"a whole {kind} file", "deliver it again")]
    )
