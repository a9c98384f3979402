"""Ingest: a source becomes the run's private snapshot, encoded by the contract.

check the select → look at the source → read and encode it whole → bound contributions → hash → give it its name
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import duckdb

from contracts.contract.contract import Contract
from contracts.domains.lattice import ValueLattice
from contracts.domains.text import KeyColumn
from contracts.drafting.advice.suspicions import names_an_id
from contracts.errors import Finding, GateBroken, SourceUnreadable, SpecRefused
from contracts.release.spec import Source
from contracts.sql.select import COUNTED, ValueType, check_select
from privacy.marginals.counts import ParentRows
from privacy.private_table import PrivateTable
from tasks.storage.duckdb_session import Explanation, connect, run
from tasks.storage.progress import Bar, step
from tasks.storage.snapshot.fingerprint import fingerprint
from tasks.storage.snapshot.links import keep_losses, keep_parents, open_linked
from tasks.storage.snapshot.snapshot import (
    INTAKE,
    PACKED,
    PARTIAL,
    SNAPSHOT,
    discard,
    discard_partial,
    encoded,
    finish,
    finished,
    keyed_hash,
    lay_apart,
    private_folder,
)
from tasks.storage.sources.days import SourceDays
from tasks.storage.sources.delivery import Advance, deliver, explanation
from tasks.storage.sources.files import FLOATS, check_exact
from tasks.storage.sources.image_checks import check_pictures
from tasks.storage.sources.open_source import open_source
from tasks.storage.sources.source import Origin
from tasks.storage.sources.typed_rows import Reading, refuse
from tasks.storage.workspace.run_folder import SPILL

logger = logging.getLogger(__name__)

FETCHED, ENCODED = 0.3, 0.9


def ingest(
    source: Source,
    contract: Contract,
    *,
    folder: Path,
    key: bytes,
    memory_limit: str,
    goes_on: Callable[[PrivateTable], bool] = lambda table: False,
    days: SourceDays | None = None,
    lattices: tuple[ValueLattice | KeyColumn, ...] = (),
    parents: bool = False,
) -> PrivateTable:
    """Read a source into the snapshot of a run, or take up the finished snapshot of an earlier attempt.

    Args:
        source: where the rows are; with a `select:`, what it makes of them.
        contract: columns, domains and the privacy unit.
        folder: the run's private folder; made 0700.
        key: the workspace's snapshot key, 32 random bytes.
        memory_limit: DuckDB's limit [text, such as "1GB"]; a larger table is worked on from the disk.
        goes_on: says whether a snapshot is that of a run which is charged and not finished. It is taken up even if
            rows of its live source changed since; any other snapshot of a live source is read again.
        days: whose rows alone are taken; None for all.
        lattices: what is added up, encoded beside the codes.
        parents: whether the rows of the base's parent table, of linked tables, are encoded beside its own.
    Returns:
        The snapshot: `codes` in the order of the source, at most k rows a unit, and what they do not tell in `raw`.
    Raises:
        SpecRefused: the `select:` is not row-wise, or names what the source lacks.
        SourceUnreadable: the source is not where or what the spec says, or changed while it was read.
        GateBroken: columns, rows or unit ids are not as the contract and the format declare.
        SudareError: the folder is full, not writable, or held by another process.
    Privacy: nothing leaves but the error, if there is one, and an error quotes no value; the keyed hash is private.
    """
    types = _types(source, contract)
    with step("ingest") as bar, ExitStack() as stack:
        name, digest = source.bound_name(contract), contract.digest
        parent = ParentRows.of(contract).table if parents else None
        linked = partial(open_linked, key=key, memory_limit=memory_limit, parent=parent)
        mark = partial(fingerprint, source, key=key, lattices=lattices, parent=parent)
        origin = stack.enter_context((linked if source.tables else open_source)(source, contract))
        made_from = mark(origin.first)
        stack.enter_context(private_folder(folder))
        hashed = finished(folder, made_from=made_from, contract_digest=digest, key=key, memory_limit=memory_limit)
        if hashed is None or (origin.live and not goes_on(PrivateTable(folder / SNAPSHOT, hashed, digest, name))):
            discard(folder)
            terms = source, types, days, contract, lattices, parent
            make = partial(_make, origin, *terms, folder, key, memory_limit, made_from, mark, bar)
            hashed = None
            if contract.unit.column is None and contract.linked is None:
                with suppress(GateBroken):  # a column that is read to be counted only must not stop a run
                    hashed = make(besides=True)
            hashed = hashed or make(besides=False)
        logger.info("ingested a snapshot under contract %s", digest[:12])
        if source.bound_name(contract) != name:
            discard(folder)
            refuse(str(source.path), "source.path", "a link that was moved while it was read", "a source that stays")
        return PrivateTable(folder / SNAPSHOT, hashed, digest, name)


def _types(source: Source, contract: Contract) -> dict[str, ValueType]:
    """Check the select, if there is one, and return the types of the columns that its expressions use."""
    findings = check_select(source.select) if source.select is not None else []
    if findings:
        raise SpecRefused(findings)
    types, problems = source.select_types(contract)
    if problems:
        told = [(str(source.path), "source.types", each.found, each.allowed, each.remedy) for each in problems]
        raise SpecRefused([Finding(*each) for each in told])
    return types


def _make(
    origin: Origin,
    source: Source,
    types: dict[str, ValueType],
    days: SourceDays | None,
    contract: Contract,
    lattices: tuple[ValueLattice | KeyColumn, ...],
    parent: str | None,
    folder: Path,
    key: bytes,
    memory_limit: str,
    made_from: str,
    mark: Callable[[object], str],
    bar: Bar,
    *,
    besides: bool,
) -> str:
    """Make the snapshot and return its keyed hash; on a failure or an interruption nothing of it stays.

    With `besides`, ids are counted in columns that are not released too.
    """
    reading: Reading | None = None
    try:
        reading = origin.reading(folder, _part(bar, 0.0, FETCHED))
        keys = {each.column for each in lattices if isinstance(each, KeyColumn)} - {contract.unit.column}
        check_exact(reading.where, reading.floats, source, contract, keys)
        ids = _counted_ids(reading, source, contract, besides=besides)
        counted = ids if source.select is None else [COUNTED + name for name in ids]
        explain = explanation(reading, source.select, folder)
        with connect(folder / PARTIAL, memory_limit=memory_limit, spill=folder / SPILL) as connection:
            (folder / PARTIAL).chmod(0o600)

            def shape(columns: Mapping[str, str], rows: str) -> str:
                if source.select is not None:
                    made = [name for name, kind in columns.items() if kind in FLOATS]
                    check_exact(reading.where, made, source.model_copy(update={"select": None}), contract, keys)
                check_pictures(columns, contract, where=reading.where, parquet=origin.fixed_lists)
                read = [name for name in columns if name in contract.source_columns]
                return encoded(contract, lattices, columns=read, query=rows, counted=counted)

            connection.execute(PACKED)
            deliver(
                connection,
                reading,
                into=INTAKE,
                shape=shape,
                select=source.select,
                types=types,
                expected=contract.source_columns,
                left_out=contract.left_out,
                counted=ids,
                explain=explain,
                advance=_part(bar, FETCHED if origin.fetches else 0.0, ENCODED),
                days=None if days is None else days.read_by(contract),
            )
            keep_losses(connection, contract, explain)
            lay_apart(connection, contract, lattices, key=key, where=reading.where, explain=explain, counted=ids)
            keep_parents(connection, contract, parent, key=key, where=reading.where, explain=explain)
            hashed = _hash(connection, contract, key, explain, _part(bar, ENCODED, 1.0))
            _still(reading, origin, mark, made_from)
            finish(connection, folder, made_from=made_from, contract_digest=contract.digest, hashed=hashed)
        return hashed
    except GateBroken as error:
        broken = error
    finally:
        discard_partial(folder)
    if reading is not None:  # a source that went, or was written to, explains what the reading stumbled over
        _still(reading, origin, mark, made_from)
    raise broken


def _counted_ids(reading: Reading, source: Source, contract: Contract, *, besides: bool) -> list[str]:
    """List the columns that could be ids of people where each row is a unit: named so, or left out.

    What is left out of a CSV may be no text. Days, moments, lists and records are no ids. Without `besides` only
    columns that are released are counted.
    """
    if contract.unit.column is not None or contract.linked is not None:
        return []
    left_out = () if source.format == "csv" else contract.left_out
    released = contract.source_columns if source.select is None else ()
    ids = [n for n in reading.columns if (names_an_id(n) or n in left_out) and n not in reading.stored]
    return ids if besides else [n for n in ids if n in released]


def _hash(
    connection: duckdb.DuckDBPyConnection, contract: Contract, key: bytes, explain: Explanation, advance: Advance
) -> str:
    """Hash `codes` under the key."""
    return run(connection, lambda: keyed_hash(connection, contract.digest, key=key, advance=advance), explain=explain)


def _still(reading: Reading, origin: Origin, mark: Callable[[object], str], made_from: str) -> None:
    """Refuse a source that was written to, or went, while it was read."""
    try:
        same = mark(origin.marks()) == made_from
    except SourceUnreadable:
        same = False
    if not same:
        found, remedy = "a file that changed while it was read", "run again when nothing writes to it"
        refuse(reading.where, "source.path", found, "a source at rest", remedy)


def _part(bar: Bar, start: float, end: float) -> Advance:
    """Return the progress of one part of the step."""
    return lambda fraction: bar.advance(start + (end - start) * fraction)
