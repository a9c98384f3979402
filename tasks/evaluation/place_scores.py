"""Counts by place and adaptive tables against the real rows: the exact count of every published cell.

For the auditor alone: nothing is drawn or charged, and no result leaves the private folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.release.adaptive.detail_levels import TOTAL, DetailCells
from contracts.release.adaptive.product import LEVEL
from contracts.release.spine.place_cells import place_cells
from contracts.release.spine.places import PlaceTree
from privacy.evaluation.table_errors import CellErrors, PrivateTableErrors, PublishedCells
from privacy.private_table import PrivateTable
from privacy.table_plans.spine_plan import PlaceDraw, place_file
from tasks.evaluation.table_scores import check_snapshot, counted_codes, errors_of_cells, published_cells
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


def evaluate_details(
    table: PrivateTable, path: Path, tables: Sequence[DetailCells], contract: Contract, *, memory_limit: str
) -> PrivateTableErrors:
    """Compare adaptive tables with the exact counts of a snapshot; as `evaluate_places`.

    Returns:
        Errors of the cells of each table at the level of each group, and apart those of the totals of groups.
    """
    check_snapshot(table, contract)
    found: dict[str, CellErrors] = {}
    with step("evaluate") as bar:
        for number, cells in enumerate(tables, 1):
            name = cells.table.name
            published = published_cells(path / "data" / f"{name}.parquet", cells.clique, cells)
            totals = published.codes[:, len(cells.table.by)] == cells.column(LEVEL).labels.index(TOTAL)
            found |= {
                f"{name}, totals of groups": _totals(table, _only(published, totals), cells, contract, memory_limit),
                name: _details(table, _only(published, ~totals), cells, memory_limit),
            }
            bar.advance(number / len(tables))
    return PrivateTableErrors(found)


def _only(published: PublishedCells, rows: NDArray[np.bool_]) -> PublishedCells:
    """Return some of the published rows."""
    bounds = None if published.bounds is None else published.bounds[:, rows]
    return PublishedCells(published.codes[rows], published.counts[rows], bounds)


def _totals(
    table: PrivateTable, published: PublishedCells, cells: DetailCells, contract: Contract, memory_limit: str
) -> CellErrors:
    by = cells.table.by
    codes, rows = counted_codes(table, by, memory_limit)
    own = replace(published, codes=published.codes[:, : len(by)])
    return errors_of_cells(codes, rows, own, by, contract)


def _details(table: PrivateTable, published: PublishedCells, cells: DetailCells, memory_limit: str) -> CellErrors:
    """Count the rows of each group in the cells of the level that it got."""
    by, detail, contract = cells.table.by, cells.table.detail, cells.contract
    level_of = np.full(cells.groups, -1, dtype=np.int64)
    groups = np.ravel_multi_index(published.codes[:, : len(by)].T, contract.shape(by))
    level_of[groups] = published.codes[:, len(by)]
    codes, rows = counted_codes(table, (*by, *detail), memory_limit)
    group = np.ravel_multi_index(codes[: len(by)], contract.shape(by))
    finest = np.ravel_multi_index(codes[len(by) :], contract.shape(detail))
    labels, numbers = cells.column(LEVEL).labels, np.full(rows.size, -1, dtype=np.int64)
    for place, level in enumerate(cells.levels):
        here = level_of[group] == labels.index(level.name)
        if any(level.kept) and here.any():
            every = cells.rows(np.full(cells.groups, place)).reshape(cells.groups, level.cells)
            numbers[here] = every[group[here], level.cell_of[finest[here]]]
    inside = numbers >= 0
    found = np.unravel_index(numbers[inside], cells.shape(cells.clique))
    errors = errors_of_cells(list(found), rows[inside], published, cells.clique, cells)
    # Of all combinations of labels those of other levels are no rows.
    return replace(errors, unpublished=0)
