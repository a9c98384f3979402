"""Ingest: a source becomes the run's private snapshot, encoded by the contract.

check the select → look at the source → read it whole → bound contributions → encode → hash → give it its name
"""

from __future__ import annotations

import logging
from pathlib import Path

import duckdb

from contracts.contract import Contract
from contracts.encoding import encode_select
from contracts.errors import SpecRefused
from contracts.selection import check_select
from contracts.spec import Source
from privacy.private_table import PrivateTable
from tasks.duckdb_session import Explanation, connect, run
from tasks.progress import Bar, step
from tasks.snapshot.bounding import bound_contributions
from tasks.snapshot.fingerprint import fingerprint
from tasks.snapshot.snapshot import (
    PARTIAL,
    SNAPSHOT,
    SPILL,
    discard,
    discard_partial,
    finish,
    finished,
    keyed_hash,
    private_folder,
)
from tasks.source.deliver import Advance, deliver, explanation
from tasks.source.pictures import check_pictures
from tasks.source.read_csv import read_csv
from tasks.source.read_tables import read_duckdb, read_parquet, read_sqlite
from tasks.source.reading import Reading, check_columns, check_distinct, refuse

logger = logging.getLogger(__name__)

READ, ENCODED = 0.7, 0.9


def ingest(source: Source, contract: Contract, *, folder: Path, key: bytes, memory_limit: str) -> PrivateTable:
    """Read a source into the snapshot of a run, or take up the finished snapshot of an earlier attempt.

    Args:
        source: where the rows are; with a `select:`, what it makes of them.
        contract: columns, domains and the privacy unit.
        folder: the run's private folder; made 0700.
        key: the workspace's snapshot key, 32 random bytes.
        memory_limit: DuckDB's limit [text, such as "1GB"]; a larger table is worked on from the disk.
    Returns:
        The snapshot: `raw` and `codes` in the order of the source, at most k rows a unit.
    Raises:
        SpecRefused: the `select:` is not row-wise, or names what the source lacks.
        SourceUnreadable: the source is not where or what the spec says, or changed while it was read.
        GateBroken: columns, rows or unit ids are not as the contract and the format declare.
        SudareError: the folder is full, not writable, or held by another process.
    Privacy: nothing leaves but the error, if there is one, and an error quotes no value; the keyed hash is private.
    """
    findings = check_select(source.select) if source.select is not None else []
    if findings:
        raise SpecRefused(findings)
    with step("ingest") as bar:
        name = source.name
        reading = open_source(source, contract)
        made_from = fingerprint(source, key)
        digest = contract.digest
        with private_folder(folder):
            hashed = finished(folder, made_from=made_from, contract_digest=digest, key=key, memory_limit=memory_limit)
            if hashed is None:
                discard(folder)
                hashed = _make(reading, source, contract, folder, key, memory_limit, made_from, bar)
        logger.info("ingested a snapshot under contract %s", digest[:12])
        if source.name != name:
            discard(folder)
            refuse(str(source.path), "source.path", "a link that was moved while it was read", "a source that stays")
        return PrivateTable(folder / SNAPSHOT, hashed, digest, name)


def open_source(source: Source, contract: Contract) -> Reading:
    """Look at a source and prepare its reading, by its format.

    Raises:
        SourceUnreadable: it is not where or what the spec says.
        GateBroken: it is empty or its columns have no proper names.
    """
    if source.format == "csv":
        packed = source.path.name.lower().endswith(".gz")
        reading = read_csv(source.path, delimiter=source.delimiter, expected=contract.source_columns, packed=packed)
    elif source.format == "parquet":
        reading = read_parquet(source.path)
    elif source.format == "duckdb":
        reading = read_duckdb(source.path, table=source.table or "")
    else:
        reading = read_sqlite(source.path, table=source.table or "")
    check_distinct(reading, contract.source_columns)
    if source.select is None:
        check_columns(reading, reading.columns, contract.source_columns)
    return reading


def _make(
    reading: Reading,
    source: Source,
    contract: Contract,
    folder: Path,
    key: bytes,
    memory_limit: str,
    made_from: str,
    bar: Bar,
) -> str:
    """Make the snapshot and return its keyed hash; on a failure or an interruption nothing of it stays."""
    explain = explanation(reading, source.select, folder)
    try:
        with connect(folder / PARTIAL, memory_limit=memory_limit, spill=folder / SPILL) as connection:
            (folder / PARTIAL).chmod(0o600)
            deliver(
                connection,
                reading,
                select=source.select,
                expected=contract.source_columns,
                explain=explain,
                advance=_part(bar, 0.0, READ),
            )
            whole = source.path if source.format == "parquet" and source.select is None else None
            check_pictures(connection, contract, where=reading.where, parquet=whole)
            _bound(connection, contract, key, reading.where, explain)
            _encode(connection, contract, explain, _part(bar, READ, ENCODED))
            hashed = _hash(connection, contract, key, explain, _part(bar, ENCODED, 1.0))
            _still(reading, source, key, made_from)
            finish(connection, folder, made_from=made_from, contract_digest=contract.digest, hashed=hashed)
        return hashed
    finally:
        discard_partial(folder)


def _bound(
    connection: duckdb.DuckDBPyConnection, contract: Contract, key: bytes, where: str, explain: Explanation
) -> None:
    """Bound the rows a unit, where units may have several."""
    unit = contract.unit
    if unit.column is not None:
        limit = unit.max_rows_per_unit
        bound_contributions(
            connection, unit=unit.column, max_rows_per_unit=limit, key=key, where=where, explain=explain
        )


def _encode(
    connection: duckdb.DuckDBPyConnection, contract: Contract, explain: Explanation, advance: Advance
) -> None:
    """Make `codes` from `raw`, row by row in the same order."""
    delivered = [row[0] for row in connection.execute("DESCRIBE raw").fetchall()]
    select = encode_select(contract, columns_present=delivered, relation="raw")
    statement = f"CREATE TABLE codes AS {select}"
    run(connection, lambda: connection.execute(statement), explain=explain, advance=advance)


def _hash(
    connection: duckdb.DuckDBPyConnection, contract: Contract, key: bytes, explain: Explanation, advance: Advance
) -> str:
    """Hash `codes` under the key."""
    return run(connection, lambda: keyed_hash(connection, contract.digest, key=key, advance=advance), explain=explain)


def _still(reading: Reading, source: Source, key: bytes, made_from: str) -> None:
    """Refuse a source that was written to while it was read."""
    if not source.path.exists() or fingerprint(source, key) != made_from:
        found, remedy = "a file that changed while it was read", "run again when nothing writes to it"
        refuse(reading.where, "source.path", found, "a file at rest", remedy)


def _part(bar: Bar, start: float, end: float) -> Advance:
    """Return the progress of one part of the step."""
    return lambda fraction: bar.advance(start + (end - start) * fraction)
