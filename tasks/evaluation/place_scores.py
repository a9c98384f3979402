"""Counts by place against the real rows: the exact count of every published cell.

For the auditor alone: nothing is drawn or charged, and no result leaves the private folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from contracts.contract.contract import Contract
from contracts.release.spine.place_margins import PlaceTree
from contracts.release.spine.rules import place_cells
from privacy.evaluation.table_errors import CellErrors, PrivateTableErrors
from privacy.private_table import PrivateTable
from privacy.table_plans.spine_plan import PlaceDraw, place_file
from tasks.evaluation.errors import check_snapshot, counted_codes, errors_of_cells, published_cells
from tasks.storage.progress import step


def evaluate_places(
    table: PrivateTable,
    path: Path,
    draws: Sequence[PlaceDraw],
    tree: PlaceTree,
    contract: Contract,
    *,
    memory_limit: str,
) -> PrivateTableErrors:
    """Compare every table of counts by place with the exact counts of a snapshot.

    Args:
        table: the snapshot.
        path: the version's folder.
        draws: a table at a level each.
        tree: the places.
        contract: which encoded the snapshot.
        memory_limit: DuckDB's limit, such as "1GB" [text].
    Returns:
        Errors by table and level; private.
    Raises:
        Refused: the snapshot is of another contract, or a table cannot be read.
    """
    check_snapshot(table, contract)
    found: dict[str, CellErrors] = {}
    with step("evaluate") as bar:
        for number, draw in enumerate(draws, 1):
            name, cells = place_file(draw.table, draw.level), place_cells(contract, draw.clique[0], tree, draw.level)
            published = published_cells(path / "data" / f"{name}.parquet", draw.clique, cells)
            codes, rows = counted_codes(table, draw.clique, memory_limit)
            places = tree.groups(draw.level)[codes[0]]
            found[name] = errors_of_cells([places, *codes[1:]], rows, published, draw.clique, cells)
            bar.advance(number / len(draws))
    return PrivateTableErrors(found)
