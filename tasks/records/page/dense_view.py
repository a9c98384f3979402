"""What the page shows of each table: a chart that fits its size, and numbers from the declared noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import isqrt
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from contracts.contract.cell_codes import digit
from contracts.contract.contract import NULL_LABEL, Contract
from contracts.contract.labels import DescribedCells
from contracts.message import joined, message
from contracts.release.tables.levels import level_name
from privacy.accounting.events import DiscreteLaplace
from privacy.refine.sparse_depth import expected_false_hits
from tasks.records.charts import charts
from tasks.records.charts.charts import Drawing, ErrorPlot, Map, MapAxis, draw_map, error_plot
from tasks.records.charts.place_map import PlaceMap
from tasks.records.page.first_screen import relative_error, written
from tasks.records.page.place_views import counts_map
from tasks.records.page.published_tables import (
    PublishedCounts,
    PublishedList,
    PublishedTable,
    ReadFile,
    published_cells,
    read_tables,
)
from tasks.records.page.reliability import Grade, grades, letters
from tasks.records.values import Values

# --- How many cells of a table have which size, and how far the noise reaches for such cells.


@dataclass(frozen=True)
class SizeRow:
    """How many cells have a size, and how far off such cells may be."""

    sizes: str
    cells: str
    bar: Markup
    error: str


def size_rows(refined: NDArray[Any], half_width: int, *, absent: int = 0, suppressed: str = "") -> list[SizeRow]:
    """Count the cells of each order of magnitude, with the reach of the noise relative to them.

    Args:
        refined: refined counts, any shape.
        half_width: the noise lies within plus or minus this in 95 % of draws.
        absent: how many further cells are 0.
        suppressed: what is known of suppressed cells, whose count reads 0 here; empty where there are none.
    """
    flat = refined.reshape(-1)
    edges = [10**power for power in range(len(str(max(int(flat.max(initial=0)), 1))) + 1)]
    counts = [int(((flat >= low) & (flat < high)).sum()) for low, high in pairwise(edges)]
    small, whole = int((flat < 1).sum()) + absent, bool(np.issubdtype(flat.dtype, np.integer))
    largest = max([*counts, small])
    name = (
        message("suppressed ({threshold}) or 0", threshold=suppressed)
        if suppressed
        else message("below {threshold}", threshold=1)
    )
    rows = [SizeRow(name, f"{small:,}", charts.share_bar(small, largest), "–")] if small else []
    smallest = next((place for place, count in enumerate(counts) if count), len(counts))
    for (low, high), count in list(zip(pairwise(edges), counts, strict=True))[smallest:]:
        error = message("{low} to {high}", low=relative_error(half_width, low), high=relative_error(half_width, high))
        sizes = (
            message("{low} to {high}", low=f"{low:,}", high=f"{high - 1:,}")
            if whole
            else message("{low} to <{high}", low=f"{low:,}", high=f"{high:,}")
        )
        rows.append(SizeRow(sizes, f"{count:,}", charts.share_bar(count, largest), error))
    return rows


# --- Tables with suppressed cells on the page.


def below(table: PublishedCounts) -> str:
    """Write what is known of a suppressed cell; empty without a minimum-frequency rule."""
    return (
        "" if table.suppressed is None else message("below {threshold}", threshold=f"{_rule(table)['threshold']:,}")
    )


def suppression_facts(table: PublishedCounts) -> list[tuple[str, str]]:
    """Say how many cells are suppressed, and how often the rule errs."""
    if table.suppressed is None:
        return []
    rule = _rule(table)
    return [
        (message("Cells suppressed, {threshold}", threshold=below(table)), f"{int(table.suppressed.sum()):,}"),
        (
            message("Probability that a cell whose exact count is below {k} is published", k=rule["k"]),
            message("at most {chance}", chance=rule["published_although_below_k"]),
        ),
    ]


def is_suppressed(table: PublishedCounts, cell: int) -> bool:
    """Say whether a cell, by its row-major number, is suppressed."""
    return table.suppressed is not None and bool(table.suppressed.reshape(-1)[cell])


def _rule(table: PublishedCounts) -> dict[str, Any]:
    """Return the minimum-frequency rule, as the record tells it."""
    rule: dict[str, Any] = table.processed["minimum_frequency"]
    return rule


MOST_BARS = 60
LARGEST_CELLS = 15
WIDEST_HEAT = 12
MOST_INTERVALS = 160
"""With more cells than this a heat map shows counts alone."""
LONGEST_LABEL = 48
MAP_PIXELS = 256 * 256
LEAST_SIDE = 32
"""With fewer pixels along an axis than this, and more cells than pixels, a map says nothing."""


@dataclass(frozen=True)
class PlotArea:
    """What one table may take of the page; the more tables, the less of each is shown, so that the page stays small.

    Args:
        bars: cells that are drawn as bars.
        numbers: cells of a heat map with numbers.
        colours: cells of a heat map without.
        curves: whether curves are drawn.
        side: pixels along each axis of a map.
    """

    bars: int
    numbers: int
    colours: int
    curves: bool
    side: int


def room(tables: int) -> PlotArea:
    """Share the page among its tables."""
    bars = max(5, min(MOST_BARS, 400 // tables))
    side = isqrt(MAP_PIXELS // tables)
    return PlotArea(bars, numbers=min(420, 2400 // tables), colours=6000 // tables, curves=tables <= 24, side=side)


@dataclass(frozen=True)
class BarRow:
    """One cell as a bar: its label, the published count, the interval of the exact one, its letter."""

    label: str
    count: str
    interval: str
    bar: Markup
    letter: str


@dataclass(frozen=True)
class HeatCell:
    """One cell of a heat map: its published count, how dark it is, the exact one's interval or nothing, a letter."""

    count: str
    level: int
    interval: str
    letter: str


@dataclass(frozen=True)
class Heat:
    """A two-way table with its numbers: labels of the columns, and for each row its label and cells."""

    across: str
    down: str
    columns: list[str]
    rows: list[tuple[str, list[HeatCell]]]


@dataclass(frozen=True)
class TableView:
    """One table of the page.

    Args:
        anchor: its place on the page.
        title: its columns, and its name where that is another.
        name: its name.
        cells: what it consists of.
        draw: the record's entry of its draw.
        processed: the record's entry of its post-processing.
        noise: the noise, drawn.
        facts: short facts about the released numbers.
        bars: cells as bars, and whether these are all cells or the largest.
        heat: the table as a heat map with numbers.
        drawn_heat: the table as a heat map without numbers.
        map: a table of two ordered axes as a picture.
        places: a table by one column of places as a map.
        rank: the rank plot of a table with many cells.
        grades: how many cells are how reliable.
        errors: relative error against size.
        sizes: cells by size, with their error.
        files: its files.
    """

    anchor: str
    title: str
    name: str
    cells: str
    draw: dict[str, Any]
    processed: dict[str, Any]
    noise: Drawing | None
    facts: list[tuple[str, str]]
    bars: list[BarRow]
    all_bars: bool
    heat: Heat | None
    drawn_heat: Drawing | None
    map: Map | None
    places: PlaceMap | None
    rank: Drawing | None
    grades: list[Grade]
    errors: ErrorPlot | None
    sizes: list[SizeRow]
    files: list[str]


def dense_view(
    table: PublishedCounts, contract: DescribedCells, files: list[str], number: int, share: PlotArea
) -> TableView:
    """Prepare a table that has a count for every cell.

    Args:
        table: the table.
        contract: gives the labels.
        files: paths of the version's data files.
        number: its place on the page, from 1.
        share: what it may take of the page.
    """
    counts, width = table.counts, table.half_width
    few = counts.size <= share.bars
    heat = _heat(contract, table) if counts.ndim == 2 and counts.size <= share.numbers else None
    picture = _map(contract, table, share.side) if heat is None else None
    sketch = counts.ndim == 2 and heat is None and picture is None and counts.size <= share.colours
    most = share.bars if few else min(share.bars, LARGEST_CELLS)
    return TableView(
        anchor=f"table-{number}",
        title=title_of(table.name, table.columns),
        name=table.name,
        cells=cells_words(contract, table.columns),
        draw=table.draw,
        processed=table.processed,
        noise=charts.noise_curve(table.event, width) if share.curves else None,
        facts=_facts(table, contract),
        bars=_bars(contract, table, most) if heat is None else [],
        all_bars=few,
        heat=heat,
        drawn_heat=charts.heat_map(counts, message("Refined counts of {table}", table=table.name))
        if sketch
        else None,
        map=picture,
        places=counts_map(contract, table),
        rank=charts.rank_plot(counts, width) if share.curves and not few and heat is None else None,
        grades=grades(_letters(table)) if share.curves else [],
        errors=error_plot(counts, width) if share.curves else None,
        sizes=size_rows(counts, width, suppressed=below(table)) if counts.size > 12 else [],
        files=[path for path in files if belongs(path, table)],
    )


def title_of(name: str, columns: Sequence[str]) -> str:
    """Name a table by its columns, after the name that the spec gave it, if it gave one."""
    words = " × ".join(columns)
    return words if name == "_x_".join(columns) else f"{name}: {words}"


def belongs(path: str, table: PublishedTable) -> bool:
    """Say whether a file is of the table, or of one of its levels."""
    names = [table.name, *(level_name(table.name, level) for level in table.levels)]
    return path.partition("/")[2].rpartition(".")[0] in names


def cells_words(contract: DescribedCells, columns: Sequence[str]) -> str:
    """Say what the cells are."""
    number = f"{contract.cells(columns):,}"
    if not columns:
        return message("one cell: all rows together")
    if len(columns) == 1:
        return message("{number} cells, one for each value of {name}", number=number, name=columns[0])
    sizes = joined(f"{name} ({contract.column(name).size})" for name in columns)
    return message("{number} cells: every combination of {names}", number=number, names=sizes)


def _facts(table: PublishedCounts, contract: DescribedCells) -> list[tuple[str, str]]:
    """Count what is released: cells that are zero, larger than their noise, declared impossible."""
    refined = table.counts
    clear = int((refined > table.half_width).sum())
    found: list[tuple[str, str]] = [(message("Sum of all cells"), written(refined.sum()))]
    found.append((message("Cells above the reach of their noise"), f"{clear:,}"))
    if table.suppressed is None:
        found.append((message("Cells at zero"), f"{int((refined == 0).sum()):,}"))
    else:
        found[0] = (message("Sum of the published cells"), written(refined.sum()))
        found += suppression_facts(table)
    negative, impossible = int((refined < 0).sum()), int(contract.impossible(table.columns).sum())
    found += [(message("Cells below zero"), f"{negative:,}")] if negative else []
    return found + ([(message("Cells declared impossible"), f"{impossible:,}")] if impossible else [])


def _bars(contract: DescribedCells, table: PublishedCounts, most: int) -> list[BarRow]:
    refined, noisy = table.counts, table.noisy
    flat = refined.reshape(-1)
    chosen = np.arange(flat.size) if flat.size <= most else np.argsort(-flat, kind="stable")[:most]
    if flat.size > most:  # of many cells the largest are shown, and how large suppressed ones are is not known
        chosen = np.array([cell for cell in chosen if not is_suppressed(table, int(cell))], dtype=np.int64)
    if not chosen.size:
        return []
    lower, upper, found = table.lower.reshape(-1), table.upper.reshape(-1), _letters(table).reshape(-1)
    raw = np.clip(noisy.reshape(-1)[chosen], lower[chosen], upper[chosen])
    highest = max(float(upper[chosen].max()), 1.0)
    lowest = min(float(lower[chosen].min()), 0.0)
    scale = (max(lowest, -0.1 * highest) if float(flat[chosen].min()) >= 0 else lowest, highest)
    rows = []
    for cell, middle in zip(chosen, raw, strict=True):
        ends = int(lower[cell]), int(middle), int(upper[cell])
        row = bar_row(
            cell_label(contract, table.columns, int(cell)), float(flat[cell]), ends, scale, str(found[cell])
        )
        rows.append(replace(row, count=below(table), interval="–") if is_suppressed(table, int(cell)) else row)
    return rows


def _letters(table: PublishedCounts) -> NDArray[np.str_]:
    """Return the letter of each cell; a suppressed one has none."""
    found = letters(table.counts, table.lower, table.upper)
    return found if table.suppressed is None else np.where(table.suppressed, "", found)


def bar_row(label: str, count: float, ends: tuple[int, int, int], scale: tuple[float, float], letter: str) -> BarRow:
    """Draw one cell: its refined count, lower end, noisy count and upper end of its interval, and its letter."""
    low, _, high = ends
    return BarRow(
        label,
        written(count),
        message("{low} to {high}", low=written(low), high=written(high)),
        charts.count_bar(count, ends, scale),
        letter,
    )


def cell_label(contract: DescribedCells, columns: Sequence[str], cell: int) -> str:
    """Name a cell, by its row-major number, with the values of its columns."""
    places = np.unravel_index(cell, contract.shape(columns))
    labels = [contract.column(name).labels[int(place)] for name, place in zip(columns, places, strict=True)]
    return " · ".join(clipped_label(label) for label in labels)


def clipped_label(label: str) -> str:
    """Cut a long label."""
    return label if len(label) <= LONGEST_LABEL else label[: LONGEST_LABEL - 1] + "…"


def _heat(contract: DescribedCells, table: PublishedCounts) -> Heat | None:
    """Lay a two-way table out with the shorter side across; None where even that is too wide to read."""
    values, gone, found = table.counts, table.suppressed, _letters(table)
    gone = np.zeros(values.shape, np.bool_) if gone is None else gone
    down, across = table.columns
    turned = values.shape[1] > values.shape[0]
    if turned:
        values, gone, found, down, across = values.T, gone.T, found.T, across, down
    if values.shape[1] > WIDEST_HEAT:
        return None
    levels = charts.heat_levels(values)
    lower, upper = (end.T if turned else end for end in (table.lower, table.upper))
    told = np.full(values.shape, values.size <= MOST_INTERVALS) & ~gone

    def cell(at: tuple[int, int]) -> HeatCell:
        interval = f"{written(lower[at])}–{written(upper[at])}" if told[at] else ""
        count = below(table) if gone[at] else written(values[at])
        return HeatCell(count, int(levels[at]), interval, str(found[at]))

    rows = [
        (clipped_label(label), [cell((place, column)) for column in range(values.shape[1])])
        for place, label in enumerate(contract.column(down).labels)
    ]
    return Heat(across, down, [clipped_label(label) for label in contract.column(across).labels], rows)


def _map(contract: DescribedCells, table: PublishedCounts, side: int) -> Map | None:
    """Draw a table of two ordered columns, without the cells for missing values; None where there is no room."""
    if len(table.columns) != 2 or contract.ordered_axes(table.columns) != (0, 1):
        return None
    labels = [contract.column(name).labels for name in table.columns]
    labels = [each[:-1] if len(each) > 1 and each[-1] == NULL_LABEL else each for each in labels]
    values = table.counts[: len(labels[0]), : len(labels[1])]
    if side < min(LEAST_SIDE, max(values.shape)):
        return None
    up, right = (
        MapAxis(name, clipped_label(each[0]), clipped_label(each[-1]))
        for name, each in zip(table.columns, labels, strict=True)
    )
    return draw_map(values, up, right, side=side)


# --- What the page shows of a sparse table.


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
        facts=_sparse_facts(table, absent),
        bars=_sparse_bars(contract, table, min(share.bars, LARGEST_CELLS)),
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


def _sparse_facts(table: PublishedList, absent: int) -> list[tuple[str, str]]:
    return [
        (message("Sum of all cells"), written(table.counts.sum())),
        (message("Cells above the reach of their noise"), f"{int((table.counts > table.half_width).sum()):,}"),
        (message("Cells at zero"), f"{absent:,}"),
        (
            message("Interval of a cell whose noisy count is not listed"),
            message("{low} to {high}", low=0, high=f"{table.absent_upper:,}"),
        ),
    ]


def _sparse_bars(contract: Contract, table: PublishedList, most: int) -> list[BarRow]:
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


# --- What the page shows of each table, dense or sparse.


def table_views(replay: Mapping[str, Any], values: Values, contract: Contract, read: ReadFile) -> list[TableView]:
    """Prepare every table; arguments as for `read_tables`. One table at a time is in memory."""
    share, files = room(max(1, len(replay["tables"]))), [file["path"] for file in values["output.files"]]
    own = published_cells(replay, contract)
    return [
        sparse_view(table, contract, files, number, share)
        if isinstance(table, PublishedList)
        else dense_view(table, own[table.name], files, number, share)
        for number, table in enumerate(read_tables(replay, values, contract, read), 1)
    ]
