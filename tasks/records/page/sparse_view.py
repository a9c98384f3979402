"""What the page shows of a sparse table: the largest cells, ranks and sizes, and how to read the absent ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from contracts.contract.cell_codes import digit
from contracts.contract.contract import Contract
from contracts.message import joined, message
from privacy.accounting.events import DiscreteLaplace
from privacy.refine.sparse_depth import expected_false_hits
from tasks.records.charts import charts
from tasks.records.charts.error_plot import error_plot
from tasks.records.page.dense_view import (
    LARGEST_CELLS,
    BarRow,
    PlotArea,
    TableView,
    bar_row,
    belongs,
    clipped_label,
    title_of,
)
from tasks.records.page.published_tables import PublishedList
from tasks.records.page.reliability import grades, letters
from tasks.records.page.size_rows import size_rows
from tasks.records.page.words import written


def sparse_view(
    table: PublishedList, contract: Contract, files: list[str], number: int, share: PlotArea
) -> TableView:
    """Prepare a table that lists cells; arguments as for `dense_view`."""
    counts, width, absent = table.counts, table.half_width, table.cells - table.codes.size
    return TableView(
        anchor=f"table-{number}",
        title=title_of(table.name, table.columns),
        name=table.name,
        cells=_cells(contract, table),
        draw=table.draw,
        processed=table.processed,
        noise=charts.noise_curve(table.event, width) if share.curves else None,
        facts=_facts(table, absent),
        bars=_bars(contract, table, min(share.bars, LARGEST_CELLS)),
        all_bars=False,
        heat=None,
        drawn_heat=None,
        rank=charts.rank_plot(counts, width) if share.curves else None,
        map=None,
        places=None,
        grades=grades(letters(counts, table.lower, table.upper)) if share.curves else [],
        errors=error_plot(counts, width) if share.curves else None,
        sizes=size_rows(counts, width, absent=absent),
        files=[path for path in files if belongs(path, table)],
    )


def _cells(contract: Contract, table: PublishedList) -> str:
    """Say what the cells are, which are listed, and how many of them noise alone would list."""
    domain = joined(f"{name} ({contract.column(name).size})" for name in table.columns)
    if not isinstance(table.event, DiscreteLaplace):
        raise TypeError(f"table {table.name}: sparse tables have discrete Laplace noise")
    empty = expected_false_hits(table.cells, table.event.inverse_scale, table.threshold)
    return message(
        "{cells} cells. The table is sparse. The noisy counts from {threshold} on are listed, {listed} cells; were "
        "all cells empty, noise alone would list about {empty}. Every other cell reads below {below}. The refined "
        "counts above 0 are listed, {refined} cells; the others are 0. The cells are every combination of {names}",
        cells=f"{table.cells:,}",
        threshold=f"{table.threshold:,}",
        listed=f"{table.noisy.size:,}",
        empty=f"{round(empty):,}",
        below=f"{table.threshold:,}",
        refined=f"{table.codes.size:,}",
        names=domain,
    )


def _facts(table: PublishedList, absent: int) -> list[tuple[str, str]]:
    return [
        (message("Sum of all cells"), written(table.counts.sum())),
        (message("Cells above the reach of their noise"), f"{int((table.counts > table.half_width).sum()):,}"),
        (message("Cells at zero"), f"{absent:,}"),
        (
            message("Interval of a cell whose noisy count is not listed"),
            message("{low} to {high}", low=0, high=f"{table.absent_upper:,}"),
        ),
    ]


def _bars(contract: Contract, table: PublishedList, most: int) -> list[BarRow]:
    """Draw the largest cells."""
    chosen = np.argsort(-table.counts, kind="stable")[:most]
    if chosen.size == 0:
        return []
    codes, counts = table.codes[chosen], table.counts[chosen]
    lower, upper = table.lower[chosen], table.upper[chosen]
    found = letters(counts, lower, upper).tolist()
    raw = np.clip(table.noisy[np.searchsorted(table.noisy_codes, codes)], lower, upper)
    scale = min(float(lower.min()), 0.0), max(float(upper.max()), 1.0)
    ends = zip(lower.tolist(), raw.tolist(), upper.tolist(), strict=True)
    return [
        bar_row(label, float(count), end, scale, letter)
        for label, count, end, letter in zip(
            _labels(contract, table.columns, codes), counts, ends, found, strict=True
        )
    ]


def _labels(contract: Contract, columns: tuple[str, ...], codes: NDArray[np.int64]) -> list[str]:
    """Name cells by the labels of their columns."""
    shape = contract.shape(columns)
    parts = [
        [clipped_label(contract.column(name).labels[code]) for code in digit(codes, shape, place).tolist()]
        for place, name in enumerate(columns)
    ]
    return [" · ".join(labels) for labels in zip(*parts, strict=True)]
