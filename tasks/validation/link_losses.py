"""How many rows of linked tables are left out, link by link: what the operator has to know before a charge.

A link between keys that are written in two ways joins nobody, and nothing stops because of it. So it is told
privately, as a column is whose values do not fit.
"""

from __future__ import annotations

from pathlib import Path

import duckdb

from contracts.errors import SudareError
from privacy.private_table import PrivateTable
from tasks.storage.duckdb_session import attempt, connect, trouble
from tasks.storage.snapshot.linked_rows import LOSSES
from tasks.storage.workspace.run_folder import SPILL

LinkLoss = tuple[str, int, int, int, int]
"""A link, the rows of its child, those without a key, with one that no parent has, and beyond a bound."""


def link_losses(table: PrivateTable, folder: Path, memory_limit: str) -> tuple[LinkLoss, ...]:
    """Return what each link of a snapshot left out.

    Args:
        table: a snapshot of linked tables.
        folder: the run's private folder.
        memory_limit: DuckDB's limit [text].
    Raises:
        SudareError: the snapshot cannot be read.
    Privacy: exact counts, for whoever holds the rows.
    """

    def explain(error: duckdb.Error) -> SudareError:
        return trouble(error, table.path, "reading the snapshot")

    with connect(table.path, memory_limit=memory_limit, spill=folder / SPILL, read_only=True) as connection:
        rows = attempt(lambda: connection.execute(f"FROM {LOSSES}").fetchall(), explain)
    return tuple(
        (str(name), int(number), int(none), int(stray), int(beyond)) for name, number, none, stray, beyond in rows
    )
