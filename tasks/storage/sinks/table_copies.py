"""Versions in PostgreSQL: a schema a version, made in one transaction.

    adult_tables_v3.version          one row: release, number, SHA-256 of the manifest, manifest and record (jsonb)
    adult_tables_v3.data_age ...     a table for each Parquet file of data/ and measurements/

Until the transaction commits nobody sees any of it. The same version again is found whole, and left as it is. The
tables are for reading; what can be checked offline are the files, which the manifest beside them names.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from contracts.domains.value_sql import identifier
from contracts.errors import Finding, StoreAway, StoreRefuses
from contracts.release.address import PostgresAddress
from tasks.storage.manifest import digests_in
from tasks.storage.sinks.sink_kinds import SinkKind
from tasks.storage.sinks.version_copy import WholeVersion
from tasks.storage.sources.postgres.connection import connected

if TYPE_CHECKING:
    import psycopg

LONGEST: Final = 63
ROWS: Final = 1 << 16
FOLDERS: Final = ("data/", "measurements/")


def to_postgres(
    version: WholeVersion,
    address: PostgresAddress,
    credentials: str | None,
    *,
    newest: bool = False,
    advance: Callable[[float], None] = lambda fraction: None,
) -> str:
    """Write a version as a schema of its own, whole or not at all.

    Args:
        version: the version.
        address: the database.
        credentials: their name, or None.
        newest: whether it is the newest; each schema stands for itself.
        advance: called with the fraction done.
    Returns:
        str: the schema.
    Raises:
        StoreRefuses: a schema of that name holds something else, or the user may not make one.
        StoreAway: the server cannot be reached, or the connection ended.
    """
    import psycopg

    schema = f"{version.release.replace('-', '_')}_v{version.number}"
    where = f"{address}::{schema}"
    failure: Exception
    with connected(address, credentials, where, field="publish.to") as connection:
        try:
            connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [where])
            if not _is_there(connection, schema, version, where):
                _make(connection, schema, version, advance)
                connection.commit()
            return where
        except psycopg.Error as error:
            failure = _explained(error, where)
    raise failure


def _is_there(connection: psycopg.Connection[Any], schema: str, version: WholeVersion, where: str) -> bool:
    """Say whether the schema is there with this version; another one is refused."""
    found = connection.execute("SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = %s", [schema]).fetchone()
    if found is None:
        return False
    table = connection.execute("SELECT to_regclass(%s)", [f"{identifier(schema)}.version"]).fetchone()
    held = None
    if table is not None and table[0] is not None:
        held = connection.execute(f"SELECT manifest_sha256 FROM {identifier(schema)}.version".encode()).fetchone()
    if held is None or held[0] != version.digest:
        remedy = "publish to another database, or rename that schema"
        raise StoreRefuses(
            [Finding(where, "publish.to", "a schema that holds something else", "a free name", remedy)]
        )
    return True


def _make(
    connection: psycopg.Connection[Any], schema: str, version: WholeVersion, advance: Callable[[float], None]
) -> None:
    quoted = identifier(schema)
    connection.execute(f"CREATE SCHEMA {quoted}".encode())
    connection.execute(
        f"CREATE TABLE {quoted}.version (release text, number integer, manifest_sha256 text, record_sha256 text, "
        "manifest jsonb, record jsonb)".encode()
    )
    record = (version.folder / "record.json").read_bytes()
    digest = digests_in(version.manifest)["record.json"]
    connection.execute(
        f"INSERT INTO {quoted}.version VALUES (%s, %s, %s, %s, %s, %s)".encode(),
        [version.release, version.number, version.digest, digest, version.manifest.decode(), record.decode()],
    )
    whole = [name for name in version.files if name.startswith(FOLDERS) and name.count("/") == 1]
    files = [name for name in whole if name.endswith(".parquet")]
    for done, name in enumerate(files, start=1):
        _fill(connection, f"{quoted}.{identifier(table_name(name))}", version.folder / name)
        advance(done / (len(files) + 1))


def table_name(path: str) -> str:
    """Return the name of a file's table: `data_age` of data/age.parquet; a long one ends with a digest."""
    name = re.sub(r"[^\w]+", "_", path.removesuffix(".parquet"))
    if len(name.encode()) <= LONGEST:
        return name
    return f"{name.encode()[:50].decode(errors='ignore')}_{hashlib.sha256(path.encode()).hexdigest()[:12]}"


def _fill(connection: psycopg.Connection[Any], table: str, path: Path) -> None:
    file = pq.ParquetFile(path)
    columns = ", ".join(f"{identifier(field.name)} {_type(field.type)}" for field in file.schema_arrow)
    connection.execute(f"CREATE TABLE {table} ({columns})".encode())
    marks = {k.decode(): v.decode() for k, v in (file.schema_arrow.metadata or {}).items() if k != b"ARROW:schema"}
    comment = json.dumps(marks, sort_keys=True, ensure_ascii=False).replace("'", "''")
    connection.execute(f"COMMENT ON TABLE {table} IS E'{comment.replace(chr(92), chr(92) * 2)}'".encode())
    with connection.cursor() as cursor, cursor.copy(f"COPY {table} FROM STDIN".encode()) as copy:
        for row in _rows(file):
            copy.write_row(row)


def _rows(file: pq.ParquetFile) -> Iterator[tuple[Any, ...]]:
    for batch in file.iter_batches(ROWS):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _type(kind: pa.DataType) -> str:
    """Return PostgreSQL's type for a column of a published file."""
    if pa.types.is_dictionary(kind):
        return _type(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind) or pa.types.is_large_list(kind):
        return f"{_type(kind.value_type)}[]"
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_integer(kind):
        return "numeric(20)" if kind == pa.uint64() else "bigint"
    if pa.types.is_floating(kind):
        return "double precision"
    if pa.types.is_date(kind):
        return "date"
    return "numeric" if pa.types.is_decimal(kind) else "text"


def _explained(error: psycopg.Error, where: str) -> Exception:
    """Replace an error of the server; released values only were on their way."""
    import psycopg

    state = error.sqlstate or ""
    if state == "42501":
        found, remedy = "no right to make a schema", "GRANT CREATE ON DATABASE to the user"
        return StoreRefuses([Finding(where, "publish.to", found, "a user who may", remedy)])
    if state.startswith("53"):
        return StoreAway(
            f"{where}: the server has no room ({state}). Nothing is visible there: make room, then run again."
        )
    if isinstance(error, psycopg.OperationalError) or state.startswith(("08", "57")):
        return StoreAway(f"{where}: the connection to the server ended. Nothing is visible there: run again later.")
    return StoreAway(
        f"{where}: the server answered with an error of its own (SQLSTATE {state}). Nothing is visible there: ask "
        "its owner, then run again."
    )


TABLES: Final = SinkKind(to_postgres)
