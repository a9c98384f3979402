"""Scores of two linked tables: the child's rows with their parents' columns, the parent's rows, and siblings.

For the auditor alone, as `tasks.evaluate` says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.domains.value_sql import identifier, literal
from contracts.release.linked_rows import TablePair, table_pair
from privacy.evaluation.linked_errors import LinkedRows, linked_errors
from privacy.evaluation.scores import PrivateScores
from privacy.private_table import PrivateTable
from privacy.snapshots.parent_counts import PARENTS
from tasks.evaluate import evaluate
from tasks.evaluation.encoded_rows import encoded_rows, fetched_rows
from tasks.storage.duckdb_session import attempt, connect, one_file, trouble

_JOINED: Final = "joined.parquet"
_OWNER: Final = identifier("\x05owner")


def evaluate_linked(
    table: PrivateTable,
    children: Path,
    parents: Path,
    contract: Contract,
    *,
    columns: Sequence[str],
    target: str | None,
    memory_limit: str,
) -> PrivateScores:
    """Compare made-up rows of two tables with the snapshot that they imitate.

    Args:
        table: the snapshot over the child, with the parents beside it.
        children, parents: Parquet files with the made-up rows, as a version holds them.
        contract: over the child.
        columns: what is compared, of both tables.
        target: as for `evaluate`, which compares the child's rows with their parents' columns.
        memory_limit: DuckDB's limit [text].
    Raises:
        Refused, EvaluationExtraMissing: as for `evaluate`.
    Privacy: as for `evaluate`.
    """
    pair, names = table_pair(columns, contract), tuple(columns)
    spill = table.path.parent / "spill"
    joined = table.path.parent / _JOINED
    owners = _join(children, parents, pair, joined, spill, memory_limit)
    try:
        scores = evaluate(table, joined, contract, columns=names, target=target, memory_limit=memory_limit)
        made = encoded_rows(joined, contract, names, spill, memory_limit)
    finally:
        joined.unlink(missing_ok=True)
    above = contract.over(pair.parent)
    made_above = encoded_rows(parents, above, pair.parent_columns, spill, memory_limit)
    chosen, upper = (", ".join(map(identifier, each)) for each in (names, pair.parent_columns))
    with connect(table.path, memory_limit=memory_limit, spill=spill, read_only=True) as connection:
        real = fetched_rows(connection, f"SELECT {chosen} FROM codes", contract, names, table.path)
        query = f"SELECT {upper} FROM {PARENTS}.codes"
        real_above = fetched_rows(connection, query, above, pair.parent_columns, table.path)
        # Which children belong together is known where a unit is one parent.
        together = above.unit.max_rows_per_unit == 1
        units = connection.execute("SELECT unit FROM units").fetchnumpy()["unit"] if together else None
    own = None if units is None else np.unique(np.asarray(units, dtype=str), return_inverse=True)[1].astype(np.int64)
    found = linked_errors(LinkedRows(real_above, real, own), LinkedRows(made_above, made, owners), size=pair.size)
    return PrivateScores(replace(scores.scores, linked=found))


def _join(
    children: Path, parents: Path, pair: TablePair, joined: Path, spill: Path, memory_limit: str
) -> NDArray[np.int64]:
    """Write the children with their parents' columns; return the key of each child's parent, in the same order."""
    child, parent = identifier(pair.child_key), identifier(pair.parent_key)
    rows = f"read_parquet({one_file(children)}, file_row_number=true)"
    query = (
        f"SELECT c.{child} AS {_OWNER}, c.* EXCLUDE ({child}), p.* EXCLUDE ({parent}) FROM {rows} AS c "
        f"JOIN read_parquet({one_file(parents)}) AS p ON c.{child} = p.{parent}"
    )
    with connect(None, memory_limit=memory_limit, spill=spill) as connection:
        made, order = f"CREATE TABLE joined AS {query}", "FROM joined ORDER BY file_row_number"
        attempt(lambda: connection.execute(made), lambda error: trouble(error, children, "joining it"))
        copy = (
            f"COPY (SELECT * EXCLUDE ({_OWNER}, file_row_number) {order}) TO {literal(str(joined))} (FORMAT parquet)"
        )
        attempt(lambda: connection.execute(copy), lambda error: trouble(error, joined, "writing it"))
        joined.chmod(0o600)
        keys = connection.execute(f"SELECT {_OWNER} {order}").fetchnumpy()["\x05owner"]
    return np.asarray(keys, dtype=np.int64)
