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
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from contracts.canonical import digest
from contracts.contract.contract import Contract
from contracts.errors import Finding, SpecRefused
from contracts.release.spec import Source
from privacy.private_table import PrivateTable
from sudare_engines.engine import EngineProcess
from sudare_engines.portable_sql import sql_of
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
from tasks.storage.progress import step
from tasks.storage.snapshot.fingerprint import fingerprint
from tasks.storage.snapshot.snapshot import private_folder
from tasks.storage.source_engine import MARKER
from tasks.storage.sources.folder import parts_of
from tasks.storage.sources.open_source import open_source
from tasks.storage.sources.source import Origin
from tasks.storage.sources.typed_rows import refuse

logger = logging.getLogger(__name__)

STAGED: Final = "snapshot.stage"
KEYS_FILE: Final = "keys.private.parquet"
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
        source: Parquet, with `engine:`.
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
    with step("ingest") as bar, ExitStack() as stack:
        name = source.name
        origin = stack.enter_context(open_source(source, contract))
        files = _files(source)
        made_from = fingerprint(source, origin.first, key, tuple(beside))
        stack.enter_context(private_folder(folder))
        worker = _started(settings, folder, lock)
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


def _started(settings: SparkSettings | None, folder: Path, lock: int | None) -> EngineProcess:
    """Start Spark."""
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
