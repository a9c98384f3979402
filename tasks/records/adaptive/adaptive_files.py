"""The files of adaptive tables: one row a group and cell of its level, and one with the total of each group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from contracts.release.adaptive.product import VALUES
from privacy.table_plans.adaptive_counts import DetailCounts
from tasks.records.files.tidy_tables import DATA, Tidy, WrittenFile

if TYPE_CHECKING:
    from contracts.release.spec import Publish

COUNTED: Final = VALUES[1:]


def data_file(table: str, suffix: str = "parquet") -> str:
    """Name the file of a table."""
    return f"{DATA}/{table}.{suffix}"


def published_rows(counts: DetailCounts) -> tuple[NDArray[np.int64], Mapping[str, NDArray[np.int64]]]:
    """Return the rows of a table's file by their row-major numbers, and the columns of numbers.

    A group has its total first, then the cells of its level; of a level without columns the total is all.
    """
    cells = counts.plan.cells
    inner = cells.rows(counts.chosen)
    without = np.array([not any(level.kept) for level in cells.levels])
    number = np.repeat(np.arange(counts.chosen.size), np.diff(counts.starts))
    shown = ~without[counts.chosen][number]
    totals = np.arange(counts.chosen.size) * cells.row_room
    # Stable: the total of a group stands before its cells, which are in their order.
    order = np.argsort(np.concatenate([np.arange(counts.chosen.size), number[shown]]), kind="stable")
    codes = np.concatenate([totals, inner[shown]])[order]
    values = np.concatenate([counts.totals, counts.counts[:, shown]], axis=1)[:, order]
    return codes, dict(zip(COUNTED, values, strict=True))


def write_table(
    counts: DetailCounts, folder: Path, *, marks: Mapping[str, str], publish: Publish
) -> tuple[WrittenFile, ...]:
    """Write a table. Privacy: released values only."""
    codes, values = published_rows(counts)
    tidy = Tidy(counts.plan.cells, counts.plan.cells.clique, values, codes=codes)
    key, formats = counts.plan.counts.key, ["parquet", *(["csv"] if "csv" in publish.formats else [])]
    told: dict[str, Any] = {"draw": key, "marks": marks, "formulas": publish.formulas}
    paths = [data_file(counts.plan.name, suffix) for suffix in formats]
    # Which rows there are is no list of populated cells: it follows from the level of each group.
    return tuple(replace(tidy.write(folder, path, **told), form="dense") for path in paths)
