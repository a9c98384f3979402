"""The rows of a base's parent table, encoded beside those of the base in one snapshot.

They come out of the same join (`linked_rows`), so that the rows of the base lead to them and to no others: whoever
counts a parent's children finds as many as its derived column says.
"""

from __future__ import annotations

import duckdb

from contracts.contract.contract import Contract
from contracts.domains.value_sql import identifier
from contracts.sql.encoding import UNIT
from privacy.snapshots.parent_counts import PARENTS
from tasks.storage.duckdb_session import Explanation, run
from tasks.storage.snapshot.bounding import bound_contributions
from tasks.storage.snapshot.intake import INTAKE, encoded
from tasks.storage.snapshot.linked_rows import FLAT_PARENTS
from tasks.storage.sources.table_reader import ORIGIN


def keep_parents(
    connection: duckdb.DuckDBPyConnection,
    contract: Contract,
    parent: str | None,
    *,
    key: bytes,
    where: str,
    explain: Explanation,
) -> None:
    """Encode the rows of the parent table into `parents.codes`; nothing where no release needs them.

    Args:
        connection: the open snapshot, with the joined tables attached.
        contract: over the base.
        parent: the table above it; None where its rows are not needed.
        key: the workspace's snapshot key.
        where: the source, for messages.
        explain: as for `duckdb_session.attempt`.
    Privacy: a unit has at most the rows that the contract over the parent table declares.
    """
    if parent is None:
        return
    above, table = contract.over(parent), f"{PARENTS}.{INTAKE}"
    shape = encoded(above, (), columns=above.source_columns, query=f"SELECT * FROM {ORIGIN}.main.{FLAT_PARENTS}")

    def execute(statement: str) -> None:
        run(connection, lambda: connection.execute(statement), explain=explain)

    execute(f"CREATE SCHEMA {PARENTS}")
    execute(f"CREATE TABLE {table} AS {shape}")
    bound_contributions(
        connection,
        table=table,
        unit=UNIT,
        named=str(above.unit.column),
        max_rows_per_unit=above.unit.max_rows_per_unit,
        key=key,
        where=where,
        explain=explain,
    )
    names = ", ".join(identifier(column.name) for column in above.columns)
    execute(f"CREATE TABLE {PARENTS}.codes AS SELECT {names} FROM {table}")
    execute(f"DROP TABLE {table}")
