"""Ingest in an engine: a table becomes a bounded and encoded stage where it is, and only its keyed hash comes here.

look at the source → refuse what engines read differently → bound and encode there → hash there → give it its name

The stage lies in the run's private folder under a name of its own, beside a marker that says which one is whole and
what it was made from. What crosses over: names and types of columns, whether some row has no id, 8 keyed sums that
make the hash, and counts: of cells, and of the rows that break each check.
"""

from __future__ import annotations

import hmac
import json
import logging
import os
import re
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import date
from pathlib import Path
from typing import Any, ClassVar, Final

import pyarrow as pa
import pyarrow.parquet as pq

from contracts.canonical import digest
from contracts.contract.contract import Contract
from contracts.domains.ordered import DateDomain
from contracts.domains.statements import ValueKind
from contracts.errors import Finding, SpecRefused
from contracts.reading.scalars import read_day
from contracts.release.spec import Source
from privacy.private_table import PrivateTable
from sudare_engines import clickhouse_worker
from sudare_engines.engine import EngineProcess, scratch_of
from sudare_engines.portable_sql import Dialect, sql_of
from sudare_engines.postgres import PostgresSession
from sudare_engines.spark import SparkWorker
from sudare_engines.spark_settings import SparkSettings
from sudare_engines.stage_rules import (
    hash_of,
    key_row,
    kinds_of,
    refuse_lost_rows,
    refuse_no_rows,
    refuse_nobodys,
    repeated_ids,
)
from sudare_engines.staged_table import StagedTable
from sudare_engines.staging import BesideCodes, staged
from sudare_engines.warehouse import Warehouse, ingest_in_warehouse
from tasks.storage.progress import step
from tasks.storage.snapshot.fingerprint import fingerprint
from tasks.storage.snapshot.snapshot import private_folder
from tasks.storage.source_engine import MARKER
from tasks.storage.sources.folder import parts_of
from tasks.storage.sources.open_source import open_source
from tasks.storage.sources.source import Origin
from tasks.storage.sources.typed_rows import refuse

# --- A ClickHouse worker.


LOG: Final = "clickhouse.private.log"
_WRAPPED: Final = re.compile(r"(?:Nullable|LowCardinality)\((.*)\)")
_KINDS: Final[tuple[tuple[re.Pattern[str], ValueKind], ...]] = (
    (re.compile(r"String"), "text"),
    (re.compile(r"U?Int(8|16|32|64)"), "whole"),
    (re.compile(r"Float(32|64)"), "real"),
    (re.compile(r"Decimal\(\d+, ?\d+\)"), "fixed"),
    (re.compile(r"Bool"), "flag"),
    (re.compile(r"Date32"), "day"),
    (re.compile(r"Nothing"), "nothing"),
)
"""Moments are not among them: those before 1900 become others."""
_FIRST, _LAST = date(1900, 1, 1), date(2299, 12, 31)
"""Days that ClickHouse can be told; it compares stored days with them wherever they lie."""


class ClickHouseWorker(EngineProcess):
    """One session of ClickHouse in a process of its own, for as long as a run lasts.

    Args:
        folder: the run's private folder.
        lock: as for `EngineProcess`.
    Raises:
        EngineFailed: no session could be started.
    """

    name: ClassVar[str] = "ClickHouse"
    dialect: ClassVar[Dialect] = "clickhouse"
    log_name: ClassVar[str] = LOG
    remedy: ClassVar[str] = "Look which version of chdb is installed, and run again"

    def __init__(self, folder: Path, *, lock: int | None = None) -> None:
        super().__init__([sys.executable, "-I", clickhouse_worker.__file__], folder, environment={}, lock=lock)
        try:
            self.ask("start", folder=str(scratch_of(folder)))
        except BaseException:
            self.close()
            raise

    @staticmethod
    def kind_of(written: str) -> ValueKind | None:
        """Return the kind of one of ClickHouse's types, or None."""
        while wrapped := _WRAPPED.fullmatch(written):
            written = wrapped[1]
        return next((kind for form, kind in _KINDS if form.fullmatch(written)), None)

    @staticmethod
    def refusals(contract: Contract, kinds: Mapping[str, ValueKind], *, where: str) -> list[Finding]:
        """Refuse days that ClickHouse would take for others: as texts or digits, and in contracts far from today."""
        found, remedy = [], "count in DuckDB or Spark: `engine: spark`, or leave `engine:` out"
        for column in contract.columns:
            domain, at = column.domain, f"column {column.name!r}"
            if not isinstance(domain, DateDomain):
                continue
            kind, notation = kinds[column.name], domain.notation
            # Where no digits are declared, a number is no day to any engine: a column is so stored if nobody has one.
            if kind == "text" or (kind in ("whole", "real", "fixed") and notation is not None and notation.compact):
                found.append(Finding(where, at, "days that are no dates", "a column of dates for ClickHouse", remedy))
            read = read_day if notation is None else notation.read
            days = [*domain.bounds, *(day for text in domain.missing if (day := read(text)) is not None)]
            if not all(_FIRST <= day <= _LAST for day in days):
                allowed = f"days from {_FIRST} to {_LAST} for ClickHouse"
                found.append(Finding(f"contract {contract.id}", at, f"{min(days)} to {max(days)}", allowed, remedy))
        return found

    @staticmethod
    def hash_sql(columns: Sequence[str], relation: str) -> str:
        """Write the keyed sums in ClickHouse's SQL."""
        row = ", ',', ".join(f"toString({name})" for name in columns)
        digest = f"SHA256(concat(hash_outer, lower(hex(SHA256(concat(hash_inner, {row}))))))"
        parts = (f"reverse(substring(h, {1 + 4 * part}, 4))" for part in range(8))
        sums = ", ".join(f"toInt64(sum(reinterpretAsUInt32({part})))" for part in parts)
        return f"SELECT toInt64(count()), {sums} FROM (SELECT {digest} AS h FROM {relation})"


logger = logging.getLogger(__name__)

STAGED: Final = "snapshot.stage"
KEYS_FILE: Final = "keys.private.parquet"
WAREHOUSES: Final[dict[str, type[Warehouse]]] = {"postgresql": PostgresSession}
"""Engines that count a table of their own."""
_PATTERN: Final = set("*?[]{}\\,")


def ingest_in_engine(
    source: Source,
    contract: Contract,
    *,
    folder: Path,
    key: bytes,
    settings: SparkSettings | None,
    beside: Sequence[BesideCodes] = (),
    lock: int | None = None,
    goes_on: Callable[[PrivateTable], bool] = lambda table: False,
) -> PrivateTable:
    """Make the stage of a run in its engine, or take up the one of an earlier attempt.

    Args:
        source: with `engine:`; Parquet, or the table of a warehouse.
        contract: columns, domains and the privacy unit.
        folder: the run's private folder; made 0700.
        key: the workspace's snapshot key.
        settings: where Spark is; None where the workspace does not say.
        beside: what is encoded beside the codes.
        lock: descriptor of the lock on the folder, which the engine keeps while it lives.
        goes_on: says whether a stage is that of a run which is charged and not finished. It is taken up even if its
            source has changed since.
    Returns:
        The snapshot, whose engine counts it; whoever has it closes the engine.
    Raises:
        EngineNotTrusted: the engine is on another machine, and its session is not encrypted.
        SpecRefused: no such engine is set up, or columns are of types that engines read differently.
        SourceUnreadable: as `tasks.ingest`.
        GateBroken: columns, rows or unit ids are not as the contract and the format declare.
        EngineFailed: the engine could not do it.
    Privacy: nothing leaves but the error, if there is one; the keyed hash is private.
    """
    warehouse = WAREHOUSES.get(source.engine or "")
    if warehouse is not None:
        return ingest_in_warehouse(warehouse, source, contract, folder=folder, key=key, beside=beside)
    with step("ingest") as bar, ExitStack() as stack:
        name = source.name
        origin = stack.enter_context(open_source(source, contract))
        files = _files(source)
        made_from = fingerprint(source, origin.first, key, tuple(beside))
        stack.enter_context(private_folder(folder))
        worker = _started(source, settings, folder, lock)
        bar.advance(0.2)
        try:
            charged = lambda stage, known: goes_on(PrivateTable(folder / stage, known, contract.digest, name))  # noqa: E731
            with _keys_there(worker, folder, key):
                finished = _finished(worker, folder, contract, beside, key, made_from, charged)
                if finished is None:
                    where = str(source.path)
                    stage, hashed, rows, columns = _make(worker, files, contract, beside, folder, key, where)
            if finished is None:
                bar.advance(0.9)
                _still(source, origin, key, beside, made_from, name)
                made = _form(contract, beside), made_from, stage, hashed
                # An engine that dies of the count leaves a stage that is taken up without.
                _mark(folder, (*made, []))
                repeated = repeated_ids(worker, columns, contract)
                _mark(folder, (*made, repeated))
            else:
                stage, hashed, rows, repeated = finished
        except BaseException:
            worker.close()
            raise
        logger.info("staged a table in an engine under contract %s", contract.digest[:12])
        counted = StagedTable(worker, contract, rows, beside, _rows_in(files), repeated)
        return PrivateTable(folder / stage, hashed, contract.digest, name, counted)


def _started(source: Source, settings: SparkSettings | None, folder: Path, lock: int | None) -> EngineProcess:
    """Start the engine that the source names."""
    if source.engine == "clickhouse":
        return ClickHouseWorker(folder, lock=lock)
    if settings is None:
        remedy = "name it: spark.python in sudare.toml; or leave `engine:` out"
        found = Finding("workspace", "spark.python", "nothing", "the Python of an environment with pyspark", remedy)
        raise SpecRefused([found])
    return SparkWorker(settings, folder, lock=lock)


def _files(source: Source) -> list[str]:
    """List the source's files; engines take some letters of a path for a pattern."""
    path = Path(str(source.path))
    parts = parts_of(path, source.files) if source.files is not None else ()
    if any(part.partition for part in parts):
        remedy = "name the folder of one partition, or leave `engine:` out"
        refuse(path, "source.files", "partition columns in paths", "columns in files for an engine", remedy)
    files = [str(part.path.resolve()) for part in parts] or [str(path.resolve())]
    if any(set(file) & _PATTERN for file in files):
        refuse(path, "source.path", "a path with one of * ? [ ] { } , \\", "a path without them", "rename the file")
    return files


def _make(
    worker: EngineProcess,
    files: list[str],
    contract: Contract,
    beside: Sequence[BesideCodes],
    folder: Path,
    key: bytes,
    where: str,
) -> tuple[str, str, int, dict[str, str]]:
    """Bound, encode and keep the table; return the stage's name, keyed hash and number of rows, and the columns.

    As many rows are written as were read, and as many are found again: a file of the stage that did not arrive, or
    rows of the source that an executor did not see, stop the run here, before anything is charged. Each attempt has a
    name of its own: what an earlier engine may still write is not in it.
    """
    _discard(folder)
    stage = f"{STAGED}-{secrets.token_hex(8)}"
    columns = dict(worker.ask("open", files=files))
    kinds = kinds_of(worker, columns, contract, where)
    refuse_nobodys(worker, contract, kinds, where)
    expression = staged(contract, kinds, beside)
    written = int(worker.ask("stage", sql=sql_of(expression, worker.dialect), to=str(folder / stage)))
    worker.ask("attach", path=str(folder / stage))
    rows, hashed = hash_of(worker, contract, beside, key)
    read = _rows_in(files)
    remedy = "Look whether every process of it reads and writes the run's folder itself, and run again"
    refuse_lost_rows(worker, contract, read=read, written=written, found=rows, remedy=remedy)
    refuse_no_rows(rows, where)
    return stage, hashed, rows, columns


def _rows_in(files: Sequence[str]) -> int:
    return sum(pq.read_metadata(file).num_rows for file in files)


@contextmanager
def _keys_there(worker: EngineProcess, folder: Path, key: bytes) -> Iterator[None]:
    """Let the engine read the keys out of a file in the run's folder, while the block lasts.

    No statement holds them: engines show plans on pages and in logs, whatever is struck out.
    """
    file = folder / KEYS_FILE
    file.unlink(missing_ok=True)
    file.touch(mode=0o600)
    try:
        pq.write_table(pa.table({name: [value] for name, value in key_row(key).items()}), file)
        worker.ask("keys", path=str(file))
        yield
    finally:
        file.unlink(missing_ok=True)


def _finished(
    worker: EngineProcess,
    folder: Path,
    contract: Contract,
    beside: Sequence[BesideCodes],
    key: bytes,
    made_from: str,
    charged: Callable[[str, str], bool],
) -> tuple[str, str, int, list[tuple[Any, ...]]] | None:
    """Take up the stage of an earlier attempt, if it is whole, of this contract, and of this source or charged."""
    try:
        form, origin, stage, hashed, ids = json.loads((folder / MARKER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if form != _form(contract, beside) or not (folder / stage).is_dir():
        return None
    if not charged(stage, hashed) and origin != made_from:
        return None
    worker.ask("attach", path=str(folder / stage))
    rows, found = hash_of(worker, contract, beside, key)
    return (stage, hashed, rows, ids) if hmac.compare_digest(found, hashed) else None


def _form(contract: Contract, beside: Sequence[BesideCodes]) -> str:
    """Return what tells stages of a source apart: the contract, and what they have beside the codes."""
    return digest({"contract": contract.digest, "beside": [each.name for each in beside]})


def _still(
    source: Source, origin: Origin, key: bytes, beside: Sequence[BesideCodes], made_from: str, name: str
) -> None:
    """Refuse a source that was written to, or a link that was moved, while it was read."""
    if fingerprint(source, origin.marks(), key, tuple(beside)) != made_from or source.name != name:
        found, remedy = "a file that changed while it was read", "run again when nothing writes to it"
        refuse(source.path, "source.path", found, "a source at rest", remedy)


def _mark(folder: Path, marker: Sequence[Any]) -> None:
    """Write the marker, last and at once."""
    partial = folder / f"{MARKER}.partial"
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(marker, file)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(folder / MARKER)


def _discard(folder: Path) -> None:
    """Remove what an earlier attempt left."""
    (folder / MARKER).unlink(missing_ok=True)
    for stage in folder.glob(f"{STAGED}*"):
        shutil.rmtree(stage, ignore_errors=True)
