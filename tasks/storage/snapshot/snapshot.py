"""The snapshot: one private DuckDB file a run, whole or absent, with a keyed hash of what was encoded.

    codes      the rows as small integers, one column a column of the contract
    raw        the rows as delivered of which the codes do not say all that the checks ask (`snapshot.intake`)
    units      the id of each row's unit, where units have one
    snapshot   one row: what the file was made from and the keyed hash of `codes`

Of linked tables it may hold the rows of the base's parent table too: `parents.codes` (`parent_codes`).

It is written under another name and renamed when it is complete and on disk, so a killed ingest leaves nothing
that looks finished.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import duckdb

from contracts.contract.contract import Contract
from contracts.domains.lattice import ValueLattice
from contracts.domains.text import KeyColumn, UnitOrder
from contracts.domains.value_sql import identifier, literal
from contracts.errors import SudareError
from contracts.sql.encoding import HASHED, STRAY, UNIT, intake_select, unit_sql
from privacy.snapshots.snapshot import PARENTS
from tasks.storage.duckdb_session import Explanation, attempt, connect, run, trouble
from tasks.storage.sources.typed_rows import break_gate
from tasks.storage.workspace.run_folder import FETCHED, SPILL

if TYPE_CHECKING:
    import pyarrow as pa


logger = logging.getLogger(__name__)

SNAPSHOT = "snapshot.duckdb"
PARTIAL = "snapshot.partial.duckdb"
FORMAT = 3
"""Grows when the same source may become other codes; then a snapshot of an earlier attempt is made again."""
KEY_BYTES = 32
HASH_ROWS = 1 << 20


def subkey(key: bytes, purpose: str) -> bytes:
    """Derive the key for one purpose: HMAC-SHA256(key, purpose).

    Raises:
        SudareError: the key is shorter than 32 bytes.
    """
    if len(key) < KEY_BYTES:
        raise SudareError(f"the snapshot key has {len(key)} bytes; it needs {KEY_BYTES} random ones")
    return hmac.digest(key, b"sudare snapshot: " + purpose.encode(), hashlib.sha256)


@contextmanager
def private_folder(folder: Path) -> Iterator[None]:
    """Make the run's folder (0700) and hold it, so that no second process writes a snapshot there meanwhile.

    Raises:
        SudareError: the folder cannot be made or written, or another process holds it.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise trouble(error, folder, "making the run's folder") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise SudareError(f"{folder}: another process is writing this snapshot; wait until it has ended") from None
    try:
        yield
    finally:
        os.close(handle)


def discard(folder: Path) -> None:
    """Remove the snapshot, whatever an ingest left unfinished, and what was spilled to the disk beside it."""
    (folder / SNAPSHOT).unlink(missing_ok=True)
    discard_partial(folder)


def discard_partial(folder: Path) -> None:
    """Remove what an ingest left unfinished."""
    for name in (PARTIAL, f"{PARTIAL}.wal", f"{SNAPSHOT}.wal"):
        (folder / name).unlink(missing_ok=True)
    for name in (SPILL, FETCHED, f"{SNAPSHOT}.tmp"):
        shutil.rmtree(folder / name, ignore_errors=True)


def keyed_hash(
    connection: duckdb.DuckDBPyConnection,
    contract_digest: str,
    *,
    key: bytes,
    advance: Callable[[float], None] = lambda fraction: None,
) -> str:
    """Hash the table `codes`, and that of parents if there is one: HMAC-SHA256 over a header and one a column.

    The header binds the contract, the names, types and order of the columns and the number of rows; a column's
    HMAC covers its values in insertion order. So the result does not depend on threads or on the size of batches.

    Args:
        connection: the open snapshot.
        contract_digest: the digest of the contract that the codes were made by.
        key: the workspace's snapshot key.
        advance: called with the fraction done.
    Returns:
        64 hexadecimal digits.
    Raises:
        SudareError: a code is null, which the encoding excludes.
    """
    parents = "SELECT count(*) FROM duckdb_tables() WHERE schema_name = ? AND table_name = 'codes' AND NOT internal"
    both = connection.execute(parents, [PARENTS]).fetchone() == (1,)
    base = _table_hash(connection, "codes", contract_digest, key, advance)
    if not both:
        return base.hexdigest()
    base.update(_table_hash(connection, f"{PARENTS}.codes", contract_digest, key, lambda fraction: None).digest())
    return base.hexdigest()


def _table_hash(
    connection: duckdb.DuckDBPyConnection,
    table: str,
    contract_digest: str,
    key: bytes,
    advance: Callable[[float], None],
) -> hmac.HMAC:
    inner = subkey(key, "columns")
    described = connection.execute(f"SELECT name, type FROM pragma_table_info('{table}')").fetchall()
    [rows] = connection.execute(f"SELECT count(*) FROM {table}").fetchone() or (0,)
    columns = [hmac.new(inner, digestmod=hashlib.sha256) for _ in described]
    done = 0
    for batch in connection.execute(f"SELECT * FROM {table}").to_arrow_reader(HASH_ROWS):
        for digest, values in zip(columns, batch.columns, strict=True):
            digest.update(_little_endian(values))
        done += batch.num_rows
        advance(done / max(rows, 1))
    header = {"contract": contract_digest, "columns": described, "rows": rows}
    outer = hmac.new(subkey(key, "table"), json.dumps(header).encode(), hashlib.sha256)
    for digest in columns:
        outer.update(digest.digest())
    return outer


def _little_endian(values: pa.Array) -> Any:
    """Return the bytes of a column of integers, or of arrays of them, least significant byte first."""
    import pyarrow as pa

    if values.null_count:
        raise SudareError("a code is null: the encoding is broken; report this")
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        # Each text after its length: no two columns of texts have the same bytes.
        texts = (text.encode() for text in values.to_pylist())
        return b"".join(len(text).to_bytes(4, "little") + text for text in texts)
    if pa.types.is_fixed_size_list(values.type):
        return _little_endian(values.flatten())
    array = values.to_numpy(zero_copy_only=True)
    return memoryview(array.astype(array.dtype.newbyteorder("<"), copy=False)).cast("B")


def finish(
    connection: duckdb.DuckDBPyConnection, folder: Path, *, made_from: str, contract_digest: str, hashed: str
) -> None:
    """Write the marker, close the file, bring it to the disk and give it its name.

    Args:
        connection: the connection that wrote the partial file; closed here.
        folder: the run's folder.
        made_from: the keyed fingerprint of the source.
        contract_digest: the digest of the contract.
        hashed: the keyed hash of `codes`.
    Raises:
        SudareError: the disk is full or the folder cannot be written.
    """
    marker = [FORMAT, contract_digest, made_from, hashed]
    attempt(lambda: _mark(connection, marker), lambda error: trouble(error, folder, "writing the snapshot"))
    try:
        _sync(folder / PARTIAL)
        (folder / PARTIAL).replace(folder / SNAPSHOT)
        _sync(folder)
    except OSError as error:
        raise trouble(error, folder, "writing the snapshot") from None


def _mark(connection: duckdb.DuckDBPyConnection, marker: list[object]) -> None:
    """Add the table `snapshot` and close the file with nothing left in its write-ahead log."""
    connection.execute("CREATE TABLE snapshot (format INT, contract VARCHAR, made_from VARCHAR, keyed_hash VARCHAR)")
    connection.execute("INSERT INTO snapshot VALUES (?, ?, ?, ?)", marker)
    connection.execute("CHECKPOINT")
    connection.close()


def _sync(path: Path) -> None:
    """Wait until a file or a folder is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def finished(
    folder: Path, *, made_from: str | None, contract_digest: str, key: bytes, memory_limit: str
) -> str | None:
    """Find a finished snapshot of the same source under the same contract, and hash it again.

    Args:
        folder: the run's folder.
        made_from: the keyed fingerprint of the source as it is now; None where whatever it was made from will do.
        contract_digest: the digest of the contract as it is now.
        key: the workspace's snapshot key.
        memory_limit: DuckDB's limit [text].
    Returns:
        Its keyed hash; None if there is none, if it was made from something else, or if it is damaged.
    """
    if not (folder / SNAPSHOT).exists():
        return None
    try:
        with connect(
            folder / SNAPSHOT, memory_limit=memory_limit, spill=folder / SPILL, read_only=True
        ) as connection:
            marker = connection.execute("SELECT * FROM snapshot").fetchone()
            if marker is None or marker[:2] != (FORMAT, contract_digest) or made_from not in (None, marker[2]):
                return None
            hashed = keyed_hash(connection, contract_digest, key=key)
    except (SudareError, duckdb.Error):
        logger.info("the snapshot of the earlier attempt cannot be read; it is made again")
        return None
    return hashed if hmac.compare_digest(hashed, marker[3]) else None


# --- Contribution bounding.


def choice_keys(key: bytes) -> tuple[str, str]:
    """Return the outer and the inner key of the choice, each of 64 hexadecimal digits.

    Args:
        key: the workspace's snapshot key.
    """
    return subkey(key, "contribution bounding: outer").hex(), subkey(key, "contribution bounding: inner").hex()


def order_keys(key: bytes) -> tuple[str, str]:
    """Return the outer and the inner key of the order of a unit's rows, which tells nothing of the choice."""
    return subkey(key, "order of a unit: outer").hex(), subkey(key, "order of a unit: inner").hex()


def bound_contributions(
    connection: duckdb.DuckDBPyConnection,
    *,
    table: str,
    unit: str,
    named: str,
    max_rows_per_unit: int,
    key: bytes,
    where: str,
    explain: Explanation,
) -> bool:
    """Delete from a table what a unit has beyond `max_rows_per_unit` rows.

    Args:
        connection: the open snapshot.
        table: the table, in the order of the source.
        unit: its column with the unit's id; ids are compared as texts, without the spaces around them.
        named: how the source names that column, for messages.
        max_rows_per_unit: k, at least 1.
        key: the workspace's snapshot key.
        where: the source, for messages.
        explain: as for `duckdb_session.attempt`.
    Returns:
        Whether a row was deleted; the places of the others then have gaps.
    Raises:
        GateBroken: a row has no unit id; without one its unit cannot be bounded.
    Privacy: afterwards adding or removing one unit changes at most k rows, and none of another unit.
    """
    text = unit_sql(unit)
    nobody = f"SELECT 1 FROM {table} WHERE coalesce({text}, '') = '' LIMIT 1"
    if run(connection, lambda: connection.execute(nobody).fetchone(), explain=explain):
        refuse_nobody(where, named)
    crowded = f"CREATE TEMP TABLE crowded AS SELECT {text} AS unit FROM {table} GROUP BY ALL HAVING count(*) > ?"
    run(connection, lambda: connection.execute(crowded, [max_rows_per_unit]), explain=explain)
    some = attempt(lambda: connection.execute("SELECT 1 FROM crowded LIMIT 1").fetchone(), explain)
    if some:
        deletion, parameters = _deletion(table, text), [*choice_keys(key), max_rows_per_unit]
        run(connection, lambda: connection.execute(deletion, parameters), explain=explain)
    attempt(lambda: connection.execute("DROP TABLE crowded"), explain)
    return some is not None


def order_units(
    connection: duckdb.DuckDBPyConnection, *, table: str, unit: str, named: str, key: bytes, explain: Explanation
) -> str:
    """Put the rows of each unit in an order of its own, uniform at random, and return a relation that has the places.

    The order is that of draws as above, under keys of its own, of the rows that the unit keeps. Like the choice it
    depends on the unit's id and its number of rows alone, and on no value.

    Args:
        connection: the open snapshot.
        table: the table, with at most k rows a unit.
        unit: its column with the unit's id.
        named: how the source names that column.
        key: the workspace's snapshot key.
        explain: as for `duckdb_session.attempt`.
    Returns:
        SQL for the table, in its order, with a column more (`contracts.domains.text.UnitOrder`): places from 1.
    Privacy: adding or removing one unit moves no row of another one.
    """
    places = _places(table, unit_sql(unit))
    run(connection, lambda: connection.execute(places, [*order_keys(key)]), explain=explain)
    name = identifier(UnitOrder(named).name)
    return f"(SELECT {table}.*, places.place AS {name} FROM {table} POSITIONAL JOIN places)"


def refuse_nobody(where: str, unit: str) -> NoReturn:
    """Raise that a row has no id of its privacy unit."""
    found = "rows without an id of their privacy unit, or with one above a declared `numbers_up_to:`"
    remedy = "give every row the id of its unit, or leave such rows out with `select:`"
    break_gate(where, f"column {unit!r}", found, "an id in every row", remedy)


def _places(table: str, text: str) -> str:
    """Write the statement that makes `places`, a row for each of the table. Parameters: the outer and inner key."""
    return f"""
        CREATE TEMP TABLE places AS SELECT place FROM (
            SELECT row, row_number() OVER (PARTITION BY unit ORDER BY draw, ordinal)::UINTEGER AS place FROM (
                SELECT row, unit, ordinal,
                    sha256(?::VARCHAR || sha256(?::VARCHAR || ordinal || ':' || unit)) AS draw
                FROM (
                    SELECT rowid AS row, {text} AS unit,
                        row_number() OVER (PARTITION BY {text} ORDER BY rowid) AS ordinal
                    FROM {table}
                )
            )
        ) ORDER BY row
    """


def _deletion(table: str, text: str) -> str:
    """Write the statement that ranks the rows of each crowded unit by their draws and deletes those beyond k.

    Parameters: the outer key, the inner key, k.
    """
    return f"""
        DELETE FROM {table} WHERE rowid IN (
            SELECT row FROM (
                SELECT row, row_number() OVER (PARTITION BY unit ORDER BY draw, ordinal) AS place FROM (
                    SELECT row, unit, ordinal,
                        sha256(?::VARCHAR || sha256(?::VARCHAR || ordinal || ':' || unit)) AS draw
                    FROM (
                        SELECT rowid AS row, {text} AS unit,
                            row_number() OVER (PARTITION BY {text} ORDER BY rowid) AS ordinal
                        FROM {table} WHERE {text} IN (FROM crowded)
                    )
                )
            ) WHERE place > ?
        )
    """


# --- From what the reading fills to the tables of a snapshot.


INTAKE: Final = "intake"
ROW: Final = "\x05row"
"""The column of `raw` that says which row of `codes` it is."""
PACKED: Final = "SET force_compression = 'bitpacking'"
"""Codes are small whole numbers: to try DuckDB's other ways for each column is work and saves no room."""
UNITS: Final = "units"
OF_UNIT: Final = "unit"
SEEN: Final = "seen"
"""By column of ids: the rows with one, its different values, those that come once, and the most rows of one. Of the
unit's id: the rows as delivered, the rows that were kept, and nothing."""

Lattices = Sequence[ValueLattice | KeyColumn]


def encoded(
    contract: Contract, lattices: Lattices, *, columns: Sequence[str], query: str, counted: Sequence[str] = ()
) -> str:
    """Write the SELECT that fills `intake` from a query.

    Args:
        contract: the contract.
        lattices: what is encoded beside the codes; places of a unit's rows come when these are bounded.
        columns: the query's columns.
        query: SQL of the source's rows, as delivered.
        counted: columns of the query whose different values are counted, each as a hash until `lay_apart`.
    """
    at_once = tuple(each for each in lattices if not isinstance(each, UnitOrder))
    return intake_select(contract, columns_present=columns, relation=f"({query})", lattices=at_once, hashed=counted)


def lay_apart(
    connection: duckdb.DuckDBPyConnection,
    contract: Contract,
    lattices: Lattices,
    *,
    key: bytes,
    where: str,
    explain: Explanation,
    counted: Sequence[str] = (),
) -> None:
    """Bound the rows of each unit and make `codes`, `raw` and `units` of `intake`, which is gone afterwards.

    Args:
        connection: the open snapshot with its table `intake`.
        contract: the contract.
        lattices: what is encoded beside the codes.
        key: the workspace's snapshot key.
        where: the source, for messages.
        explain: as for `duckdb_session.attempt`.
        counted: as for `encoded`.
    Raises:
        GateBroken: a row has no id of its unit.
    """
    unit = contract.unit.column
    for statement in _count(unit, counted):
        run(connection, lambda: connection.execute(statement), explain=explain)  # noqa: B023
    ordered = any(isinstance(each, UnitOrder) for each in lattices)
    if unit is not None:
        most = contract.unit.max_rows_per_unit
        bound = {"unit": UNIT, "key": key, "explain": explain, "table": INTAKE}
        dropped = bound_contributions(
            connection,
            named=unit,
            max_rows_per_unit=most,
            where=where,
            **bound,  # type: ignore[arg-type]
        )
        if dropped or ordered:
            relation = order_units(connection, named=unit, **bound) if ordered else INTAKE  # type: ignore[arg-type]
            _close_up(connection, contract, lattices, relation, explain)
        kept = f"UPDATE {SEEN} SET different = (SELECT count(*) FROM {INTAKE})"
        run(connection, lambda: connection.execute(kept), explain=explain)
    for statement in _apart(connection, unit is not None):
        run(connection, lambda: connection.execute(statement), explain=explain)  # noqa: B023


def _count(unit: str | None, counted: Sequence[str]) -> list[str]:
    """Write the statements that count what `SEEN` tells, and drop the hashes that were counted."""
    made = f"CREATE TABLE {SEEN} (name VARCHAR, number BIGINT, different BIGINT, once BIGINT, most BIGINT)"
    if unit is not None:
        return [made, f"INSERT INTO {SEEN} SELECT {literal(unit)}, count(*), NULL, NULL, NULL FROM {INTAKE}"]
    statements = [made]
    for place, name in enumerate(counted):
        hashed = identifier(f"{HASHED}{place}")
        values = f"SELECT count(*) AS n FROM {INTAKE} WHERE {hashed} IS NOT NULL GROUP BY {hashed}"
        told = f"{literal(name)}, coalesce(sum(n), 0), count(*), count(*) FILTER (n = 1), coalesce(max(n), 0)"
        statements += [
            f"INSERT INTO {SEEN} SELECT {told} FROM ({values})",
            f"ALTER TABLE {INTAKE} DROP COLUMN {hashed}",
        ]
    return statements


def _close_up(
    connection: duckdb.DuckDBPyConnection, contract: Contract, lattices: Lattices, relation: str, explain: Explanation
) -> None:
    """Write `intake` again without the rows that were dropped, so that places in it are those of its rows."""
    names = [column.name for column in contract.columns] + [each.name for each in lattices] + [UNIT, STRAY]
    kept = f"CREATE TABLE kept AS SELECT {', '.join(map(identifier, names))} FROM {relation}"
    for statement in (kept, f"DROP TABLE {INTAKE}", f"ALTER TABLE kept RENAME TO {INTAKE}"):
        run(connection, lambda: connection.execute(statement), explain=explain)  # noqa: B023


def _apart(connection: duckdb.DuckDBPyConnection, units: bool) -> list[str]:
    """Write the statements that take the columns apart; dropping a column copies none of the others."""
    stray, unit = identifier(STRAY), identifier(UNIT)
    rows = f"SELECT rowid AS {identifier(ROW)}, unnest({stray}) AS row FROM codes WHERE {stray} IS NOT NULL"
    statements = [
        f"ALTER TABLE {INTAKE} RENAME TO codes",
        # Few rows, read once: to find how each column of texts is best compressed would take as long as writing them.
        "SET force_compression = 'uncompressed'",
        f"CREATE TABLE raw AS SELECT {identifier(ROW)}, unnest(row) FROM ({rows})",
        "RESET force_compression",
        f"ALTER TABLE codes DROP COLUMN {stray}",
    ]
    if units:
        statements += [
            f"CREATE TABLE {UNITS} AS SELECT {unit} AS {OF_UNIT} FROM codes",
            f"ALTER TABLE codes DROP COLUMN {unit}",
        ]
    return statements
