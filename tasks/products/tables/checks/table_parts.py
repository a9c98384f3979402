"""A table of a version, resolution by resolution: what the record says of each beside what it must be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from contracts.contract.contract import Contract
from contracts.contract.label_columns import DescribedCells
from contracts.release.tables.levels import levels_of, table_cells
from contracts.release.tables.product import TableSpec
from privacy.accounting.events import CountNoise
from privacy.arrays import Floats
from privacy.refine.intervals import RowNoise
from tasks.records.model.version_statements import DrawStatement, LevelStatement, TableStatement

TableNoise = tuple[RowNoise | None, Floats | None]


@dataclass(frozen=True)
class TableResolution:
    """A table, or a coarser level of it.

    Args:
        stated: what the record says.
        cells: its cells, or its ranges.
        draw: its draw, or what a draw of it would state.
        event: the noise of its cells, or the largest noise.
        rows: the noise of each row, where it differs from row to row.
        by_columns: where the noise is not independent from cell to cell, as `refine_table` takes it.
    """

    stated: TableStatement | LevelStatement
    cells: DescribedCells
    draw: DrawStatement
    event: CountNoise
    rows: RowNoise | None = None
    by_columns: Floats | None = None


@dataclass(frozen=True)
class TablePart:
    """A table: what the record says, what the product says, its levels, coarsest first, and then itself."""

    stated: TableStatement
    planned: TableSpec
    resolutions: Sequence[TableResolution]


def resolutions_of(
    table: TableStatement,
    planned: TableSpec,
    contract: Contract,
    drawn: Mapping[str, tuple[DrawStatement, CountNoise]],
    rows: Mapping[str, TableNoise],
) -> list[TableResolution]:
    """Put each level of a table, and the table itself, beside what it must be.

    Args:
        table: what the record says.
        planned: what the product says.
        contract: gives the cells.
        drawn: statement and noise of each draw, by its key.
        rows: the last two fields of the table itself, by the key of a draw.
    """
    levels = [
        TableResolution(stated, level, *drawn[f"table:{table.name}/{level.name}"])
        for stated, level in zip(table.levels, levels_of(planned, contract), strict=True)
    ]
    key = f"table:{table.name}"
    return [
        *levels,
        TableResolution(table, table_cells(planned, contract), *drawn[key], *rows.get(key, (None, None))),
    ]
