"""What the page shows of a sparse table: the largest cells, ranks and sizes, and how to read the absent ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from contracts.contract.cell_codes import digit
from contracts.contract.contract import Contract
from privacy.refine.sparse_depth import expected_false_hits
from tasks.records.charts import charts
from tasks.records.charts.error_plot import error_plot
from tasks.records.facts import RunFacts
from tasks.records.outputs import SparseTable
from tasks.records.page.dense_view import (
    LARGEST_CELLS,
    BarRow,
    Room,
    TableView,
    bar_row,
    belongs,
    clipped_label,
    size_rows,
    title_of,
    written,
)


def sparse_view(facts: RunFacts, values: dict[str, Any], number: int, table: SparseTable, share: Room) -> TableView:
    """Prepare a table that lists cells; arguments as for `views.table_views`."""
    planned = facts.tables_plan.draw(table.measurement.key)
    counts, absent = table.refined.values, table.refined.cells - table.refined.codes.size
    return TableView(
        anchor=f"table-{number}",
        title=title_of(table),
        name=table.name,
        cells=_cells(facts.contract, table),
        draw=next(draw for draw in values["G.draws"] if draw["key"] == table.measurement.key),
        processed=next(entry for entry in values["K.tables"] if entry["table"] == table.name),
        noise=charts.noise_curve(planned.event, planned.half_width) if share.curves else Markup(""),
        facts=_facts(table, planned.half_width, absent),
        bars=_bars(facts.contract, table, min(share.bars, LARGEST_CELLS)),
        all_bars=False,
        heat=None,
        drawn_heat=None,
        rank=charts.rank_plot(counts, planned.half_width) if share.curves else Markup(""),
        map=None,
        errors=error_plot(counts, planned.half_width) if share.curves else None,
        sizes=size_rows(counts, planned.half_width, absent=absent),
        files=[file["path"] for file in values["P.files"] if belongs(file["path"], table)],
    )


def _cells(contract: Contract, table: SparseTable) -> str:
    """Say what the cells are, which are listed, and how many of them noise alone would list."""
    domain = ", ".join(f"{name} ({contract.column(name).size})" for name in table.columns)
    noisy, refined = table.measurement.table, table.refined
    empty = expected_false_hits(noisy.cells, table.measurement.event.inverse_scale, noisy.threshold)
    return (
        f"{refined.cells:,} cells. The table is sparse. The noisy counts from {noisy.threshold:,} on are listed, "
        f"{noisy.codes.size:,} cells; were all cells empty, noise alone would list about {round(empty):,}. "
        f"Every other cell reads below {noisy.threshold:,}. The refined counts above 0 are listed, "
        f"{refined.codes.size:,} cells; the others are 0. The cells are every combination of {domain}"
    )


def _facts(table: SparseTable, half_width: int, absent: int) -> list[tuple[str, str]]:
    counts = table.refined.values
    return [
        ("sum of all cells", written(counts.sum())),
        ("cells above the reach of their noise", f"{int((counts > half_width).sum()):,}"),
        ("cells at zero", f"{absent:,}"),
        ("interval of a cell whose noisy count is not listed", f"0 to {table.refined.absent_upper:,}"),
    ]


def _bars(contract: Contract, table: SparseTable, most: int) -> list[BarRow]:
    """Draw the largest cells."""
    refined, noisy = table.refined, table.measurement.table
    chosen = np.argsort(-refined.values, kind="stable")[:most]
    if chosen.size == 0:
        return []
    codes, counts = refined.codes[chosen], refined.values[chosen]
    lower, upper = refined.intervals.lower[chosen], refined.intervals.upper[chosen]
    raw = np.clip(noisy.values[np.searchsorted(noisy.codes, codes)], lower, upper)
    scale = min(float(lower.min()), 0.0), max(float(upper.max()), 1.0)
    ends = zip(lower.tolist(), raw.tolist(), upper.tolist(), strict=True)
    return [
        bar_row(label, float(count), end, scale)
        for label, count, end in zip(_labels(contract, table.columns, codes), counts, ends, strict=True)
    ]


def _labels(contract: Contract, columns: tuple[str, ...], codes: NDArray[np.int64]) -> list[str]:
    """Name cells by the labels of their columns."""
    shape = contract.shape(columns)
    parts = [
        [clipped_label(contract.column(name).labels[code]) for code in digit(codes, shape, place).tolist()]
        for place, name in enumerate(columns)
    ]
    return [" · ".join(labels) for labels in zip(*parts, strict=True)]
