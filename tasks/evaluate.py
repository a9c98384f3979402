"""Evaluate: how close a version's made-up rows come to the rows that they imitate. For the auditor alone.

What is found are numbers about confidential rows that nobody paid for (DESIGN law 5). So they travel as
`PrivateScores`, and are written nowhere but to the file that the auditor names, outside every release store.
"""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from contracts.code_sql import identifier
from contracts.contract import Contract
from contracts.encoding import encode_select
from contracts.errors import Finding, Refused
from privacy.evaluation.cells import Rows
from privacy.evaluation.scores import PrivateScores, compare
from privacy.private_table import PrivateTable
from tasks.duckdb_session import attempt, connect, one_file, trouble
from tasks.evaluation.predict import accuracies

if TYPE_CHECKING:
    import duckdb

logger = logging.getLogger(__name__)

DEGREES = (1, 2, 3)
_OF_A_STORE = ("MANIFEST.json", "record.json", "latest")


def evaluate(
    table: PrivateTable, made: Path, contract: Contract, *, target: str | None, memory_limit: str
) -> PrivateScores:
    """Compare made-up rows with the snapshot that they imitate.

    Args:
        table: the snapshot.
        made: Parquet file with the made-up rows, as a version holds it.
        contract: the contract that encoded the snapshot, and encodes the made-up rows.
        target: column that classifiers learn to predict from the made-up rows and are tested on in the snapshot;
            None trains none.
        memory_limit: DuckDB's limit, such as "1GB" [text].
    Returns:
        α-way errors for α = 1, 2, 3, the mutual information error, and accuracies; private.
    Raises:
        Refused: the snapshot is of another contract, a column is missing, or a table has no rows.
        EvaluationExtraMissing: a target is named and the extra is not installed.
    Privacy: nothing is drawn or charged, and the result must not be shown to anybody who may not see the rows.
    """
    findings = list(_findings(table, contract, target))
    if findings:
        raise Refused(findings)
    columns = tuple(column.name for column in contract.columns)
    chosen = ", ".join(map(identifier, columns))
    spill = table.path.parent / "spill"
    with connect(table.path, memory_limit=memory_limit, spill=spill, read_only=True) as connection:
        real = _rows(connection, f"SELECT {chosen} FROM codes", contract, table.path)
    with connect(None, memory_limit=memory_limit, spill=spill) as connection:
        source = f"read_parquet({one_file(made)})"
        described = attempt(
            lambda: connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall(),
            lambda error: trouble(error, made, "reading it"),
        )
        present = [str(name) for name, *_ in described]
        encoded = encode_select(contract, columns_present=present, relation=source)
        imitation = _rows(connection, encoded, contract, made)
    reached = accuracies(imitation, real, target=target) if target is not None else {}
    logger.info("evaluated made-up rows of %d columns against a snapshot", len(columns))
    return PrivateScores(compare(real, imitation, degrees=DEGREES, accuracies=reached))


def write_scores(scores: PrivateScores, contract: Contract, path: Path) -> Path:
    """Write private scores into a new file that only its owner can read.

    Args:
        scores: what `evaluate` found.
        contract: names the columns.
        path: a file that does not exist yet, outside every release store.
    Returns:
        The path.
    Raises:
        Refused: the file exists, or lies in a release store.
    """
    named, real = path.absolute(), path.resolve()  # links may lead into a store
    above = dict.fromkeys((*named.parents, *real.parents))
    roots = (folder for folder in (named.parent, real.parent) if any(folder.glob("*/v*/MANIFEST.json")))
    store = next((folder for folder in above if _published(folder)), next(roots, None))
    if store is not None:
        where, allowed = f"a folder of the release store {store}", "a private folder: these scores are not released"
        raise Refused([Finding(str(path), "path", where, allowed, "name another file")])
    columns = tuple(column.name for column in contract.columns)
    content = {"class": "private", "why": "computed from confidential rows", **scores.scores.to_json(columns)}
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        found = error.strerror or type(error).__name__
        raise Refused([Finding(str(path), "path", found, "a new file in a folder that can be written")]) from None
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    return path


def _published(folder: Path) -> bool:
    """Say whether a folder is a release in a store, a version, or one that is being written."""
    return folder.name.startswith(".staging-") or any((folder / name).exists() for name in _OF_A_STORE)


def _findings(table: PrivateTable, contract: Contract, target: str | None) -> list[Finding]:
    where, columns = f"contract {contract.id}", [column.name for column in contract.columns]
    findings = []
    if table.contract_digest != contract.digest:
        allowed = "the contract that encoded the snapshot"
        findings.append(Finding(where, "digest", "another contract than the snapshot's", allowed))
    if target is not None and (target not in columns or len(columns) < 2):
        findings.append(Finding(where, "target", repr(target), f"one of several columns: {', '.join(columns)}"))
    return findings


def _rows(connection: duckdb.DuckDBPyConnection, query: str, contract: Contract, where: Path) -> Rows:
    """Fetch codes; refuse an empty table."""
    found = attempt(lambda: connection.execute(query).fetchnumpy(), lambda error: trouble(error, where, "reading it"))
    columns = tuple(column.name for column in contract.columns)
    codes = np.stack([np.asarray(found[name]) for name in columns], axis=1)
    if not len(codes):
        raise Refused([Finding(str(where), "rows", "none", "at least one row to compare")])
    return Rows(columns, contract.shape(columns), codes)
