"""Evaluate: how close a version's made-up rows come to the rows that they imitate. For the auditor alone.

What is found are numbers about confidential rows that nobody paid for (DESIGN law 5). So they travel as
`PrivateScores`, and `tasks.evaluation.private_files` alone writes them, into the workspace's private folder.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from contracts.code_sql import identifier
from contracts.contract import Contract
from contracts.encoding import encode_select
from contracts.errors import Finding, Refused
from contracts.written import listed, nearest
from privacy.evaluation.cells import Rows
from privacy.evaluation.propensity import Propensity, logistic_propensity, pool
from privacy.evaluation.scores import PrivateScores, compare
from privacy.private_table import PrivateTable
from tasks.duckdb_session import attempt, connect, one_file, trouble
from tasks.evaluation.predict import EvaluationExtraMissing, accuracies
from tasks.evaluation.propensity_tree import tree_propensity
from tasks.progress import step

if TYPE_CHECKING:
    import duckdb

logger = logging.getLogger(__name__)

DEGREES = (1, 2, 3)


def evaluate(
    table: PrivateTable,
    made: Path,
    contract: Contract,
    *,
    columns: Sequence[str],
    target: str | None,
    memory_limit: str,
    shares: bool = False,
) -> PrivateScores:
    """Compare made-up rows with the snapshot that they imitate.

    Args:
        table: the snapshot.
        made: Parquet file with the made-up rows, as a version holds it.
        contract: the contract that encoded the snapshot, and encodes the made-up rows.
        columns: what is compared, columns of the contract that the made-up rows have.
        target: column that classifiers learn to predict from the made-up rows and are tested on in the snapshot;
            None trains none.
        memory_limit: DuckDB's limit, such as "1GB" [text].
        shares: compare shares of the rows rather than counts: the rows are not those that were imitated.
    Returns:
        α-way errors for α = 1, 2, 3, errors of mutual information and association, propensities, and accuracies;
        private.
    Raises:
        Refused: the snapshot is of another contract, a column is missing or holds pictures, or a table has no rows.
        EvaluationExtraMissing: a target is named and the extra is not installed.
    Privacy: nothing is drawn or charged, and the result must not be shown to anybody who may not see the rows.
    """
    check_target(columns, target)
    pictures = contract.pictures(list(columns))
    if pictures:
        found = f"{pictures[0]!r}, a column of pictures"
        allowed = "columns of single values: pictures have no marginals to compare"
        raise Refused([Finding("the evaluation", "columns", found, allowed)])
    if table.contract_digest != contract.digest:
        allowed = "the contract that encoded the snapshot"
        found = "another contract than the snapshot's"
        raise Refused([Finding(f"contract {contract.id}", "digest", found, allowed)])
    with step("evaluate") as bar:
        names = tuple(columns)
        spill = table.path.parent / "spill"
        chosen = ", ".join(map(identifier, names))
        with connect(table.path, memory_limit=memory_limit, spill=spill, read_only=True) as connection:
            real = fetched_rows(connection, f"SELECT {chosen} FROM codes", contract, names, table.path)
        imitation = encoded_rows(made, contract, names, spill, memory_limit)
        bar.advance(0.2)
        reached = accuracies(imitation, real, target=target) if target is not None else {}
        bar.advance(0.6)
        found_scores = compare(
            real,
            imitation,
            degrees=DEGREES,
            shares=shares,
            accuracies=reached,
            propensity=_propensities(real, imitation),
        )
    logger.info("evaluated made-up rows of %d columns against a snapshot", len(names))
    return found_scores


def check_target(columns: Sequence[str], target: str | None) -> None:
    """Refuse a target that cannot be learned.

    Raises:
        Refused: it is none of the columns, or the only one.
    """
    if target is None or (target in columns and len(columns) > 1):
        return
    known = target in columns
    found = f"the column {target!r}" + (", the only one" if known else "")
    allowed = "a column beside others to learn it from" if known else listed(tuple(columns))
    raise Refused([Finding("the evaluation", "target", found, allowed, "" if known else nearest(target, columns))])


def _propensities(real: Rows, imitation: Rows) -> dict[str, Propensity]:
    """Ask two classifiers to tell the tables apart; the tree needs the extra, and is left out without it."""
    pooled = pool(real, imitation)
    regression = logistic_propensity(pooled)
    found = {} if regression is None else {"logistic regression": regression}
    try:
        return found | {"decision tree": tree_propensity(pooled)}
    except EvaluationExtraMissing:
        return found


def encoded_rows(made: Path, contract: Contract, names: tuple[str, ...], spill: Path, memory_limit: str) -> Rows:
    """Encode made-up rows as the real ones were."""
    with connect(None, memory_limit=memory_limit, spill=spill) as connection:
        source = f"read_parquet({one_file(made)})"
        described = attempt(
            lambda: connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall(),
            lambda error: trouble(error, made, "reading it"),
        )
        present = [str(name) for name, *_ in described]
        encoded = encode_select(contract, columns_present=present, relation=source, names=names)
        return fetched_rows(connection, encoded, contract, names, made)


def fetched_rows(
    connection: duckdb.DuckDBPyConnection, query: str, contract: Contract, names: tuple[str, ...], where: Path
) -> Rows:
    """Fetch codes; refuse an empty table."""
    found = attempt(lambda: connection.execute(query).fetchnumpy(), lambda error: trouble(error, where, "reading it"))
    codes = np.stack([np.asarray(found[name]) for name in names], axis=1)
    if not len(codes):
        raise Refused([Finding(str(where), "rows", "none", "at least one row to compare")])
    return Rows(names, contract.shape(names), codes)
