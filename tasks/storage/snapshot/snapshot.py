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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from contracts.errors import SudareError
from privacy.snapshots.parent_counts import PARENTS
from tasks.storage.duckdb_session import attempt, connect, trouble
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
    """Hash one table of codes."""
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
