"""What the page shows of a table of statistics: each statistic as bars with intervals, and how it was made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import inf, isinf
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from markupsafe import Markup
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.domains.lattice import ValueLattice
from contracts.message import AND, joined, message
from contracts.release.statistics import (
    COUNT,
    DISTINCTS,
    EFFECTIVE_SIZE,
    NEAR_ZERO,
    QUANTILES,
    REFINED,
    SPREADS,
    Statistic,
    StatisticsProduct,
    StatisticsTable,
)
from contracts.release.survey_weight import SurveyWeight
from contracts.release.tables.tables import SUPPRESSED
from tasks.records.charts import charts
from tasks.records.charts.place_map import PlaceMap
from tasks.records.draws.marginal import with_stated_keys
from tasks.records.files.tidy_tables import DATA
from tasks.records.page.dense_view import LARGEST_CELLS, cell_label, cells_words, room, title_of
from tasks.records.page.draw_words import DrawTerms, draw_terms, found_lattices
from tasks.records.page.place_views import statistic_map
from tasks.records.page.published_tables import ReadFile
from tasks.records.page.statistics_words import (
    brief,
    most_spread,
    plain_number,
    readable,
    round_end,
    statistic_name,
    within_rows,
)
from tasks.records.statistics_fields import ANY_SIZE, IN_RANKS
from tasks.records.values import Values

# --- Short facts about the released numbers of a table of statistics, and marks of its cells.


PERHAPS_EMPTY: Final = message("perhaps empty")
IMPOSSIBLE: Final = message("declared impossible")
TOO_SMALL: Final = message("suppressed")


def number_facts(
    data: pa.Table, near: NDArray[Any], impossible: NDArray[Any], weight: SurveyWeight | None, contract: Contract
) -> list[tuple[str, str]]:
    """Return all that is told in short of a published table; arguments as of `table_facts`."""
    gone, refined = (
        published_column(data, name) if name in data.column_names else None for name in (SUPPRESSED, REFINED)
    )
    own = table_facts(near, impossible, weight, contract, counted=NEAR_ZERO in data.column_names)
    return [*own, *suppression_facts(gone), *refined_facts(refined)]


def table_facts(
    near: NDArray[Any], impossible: NDArray[Any], weight: SurveyWeight | None, contract: Contract, *, counted: bool
) -> list[tuple[str, str]]:
    """Name the survey weight, and say how many cells are near zero or impossible.

    Args:
        near: cells whose count cannot be told from 0.
        impossible: cells that the contract excludes; as many.
        weight: the survey weight, if rows have one.
        contract: its bounds are in the contract.
        counted: whether the table tells how many rows a cell has.
    """
    found: list[tuple[str, str]] = []
    if weight is not None:
        high = plain_number(weight.lattice(contract).high)
        told = message("{column}, up to {high}: counts are sums of it", column=weight.column, high=high)
        found.append((message("Survey weight"), told))
    if counted:
        some, every = f"{int((near & ~impossible).sum()):,}", f"{near.size:,}"
        found.append(
            (message("Cells whose count cannot be told from 0"), message("{some} of {all}", some=some, all=every))
        )
    if impossible.any():
        found.append((message("Cells declared impossible"), f"{int(impossible.sum()):,}"))
    return found


def suppression_facts(suppressed: NDArray[Any] | None) -> list[tuple[str, str]]:
    """Say how many cells a minimum-frequency rule suppresses; nothing where there is no rule."""
    if suppressed is None:
        return []
    some, every = f"{int(suppressed.sum()):,}", f"{suppressed.size:,}"
    return [
        (message("Cells suppressed by the minimum-frequency rule"), message("{some} of {all}", some=some, all=every))
    ]


def refined_facts(refined: NDArray[Any] | None) -> list[tuple[str, str]]:
    """Say what refined counts add up to; nothing where there are none."""
    return (
        [] if refined is None else [(message("Refined counts (count_refined) add up to"), f"{refined.sum():,.10g}")]
    )


def published_column(data: pa.Table, name: str) -> NDArray[Any]:
    """Return a column; what is missing, in suppressed cells, as 0."""
    column = data.column(name)
    return np.asarray(pc.fill_null(column, pa.scalar(0).cast(column.type)).to_numpy())


def cell_mark(impossible: bool, suppressed: bool, near: bool) -> str:
    """Say what is to be known of a cell before its numbers."""
    return IMPOSSIBLE if impossible else TOO_SMALL if suppressed else PERHAPS_EMPTY if near else ""


KINDS: Final = {
    "count": message("counts"),
    "sum": message("sums"),
    "mean": message("means"),
    "variance": message("variances"),
    "sd": message("standard deviations"),
    "ratio": message("ratios"),
    "quantiles": message("quantiles"),
    "units": message("privacy units"),
    "distinct": message("different values"),
    "effective_size": message("effective sample sizes"),
}
TOO_FEW: Final = message("too few rows with a value")
_ZOOM: Final = 4
"""Means are drawn on the scale of their clip, or on a part of it where they all lie in less than so much of it."""


@dataclass(frozen=True)
class StatisticRow:
    """One cell: its label, what is to be known of it, the published number, its interval, both drawn."""

    label: str
    mark: str
    value: str
    interval: str
    bar: Markup


@dataclass(frozen=True)
class StatisticBars:
    """One statistic of a table.

    Args:
        name: what it is, of which column.
        rows: cells, all or some.
        ends: the numbers at the ends of the scale.
        zoomed: whether the scale is a part of the clip only.
        places: the same as a map, where the cells are places.
    """

    name: str
    rows: list[StatisticRow]
    ends: tuple[str, str]
    zoomed: bool
    places: PlaceMap | None


@dataclass(frozen=True)
class StatisticsView:
    """One table of the page.

    Args:
        anchor: its place on the page.
        title: its columns, and its name where that is another.
        by: the columns that rows are grouped by.
        cells: what it consists of.
        kinds: what is published, of `KINDS`, and whether of clipped values.
        draws: what was drawn for it.
        expected: each statistic with the half width of its interval, in words.
        chosen: which cells are shown, of "all", "counts", "intervals" and "sums".
        statistics: the statistics.
        counted: whether it is known of cells that they may be empty.
        facts: short facts about the released numbers; of cells that may be empty where the table has counts.
        files: its files.
    """

    anchor: str
    title: str
    by: tuple[str, ...]
    cells: str
    kinds: list[tuple[str, bool]]
    draws: list[DrawTerms]
    expected: list[str]
    chosen: str
    statistics: list[StatisticBars]
    counted: bool
    facts: list[tuple[str, str]]
    files: list[str]


@dataclass(frozen=True)
class _Version:
    """What a version publishes: the arguments of `statistics_views`."""

    replay: Mapping[str, Any]
    values: Values
    contract: Contract
    read: ReadFile


@dataclass(frozen=True)
class _Numbers:
    """What is published of one statistic: estimates and ends of intervals, one number a cell, row-major.

    Where a number is missing, all three are 0, or the clip.
    """

    statistic: Statistic
    values: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    lattice: ValueLattice | None
    missing: NDArray[np.bool_]

    @property
    def clip(self) -> tuple[float, float] | None:
        """Between which numbers a mean or a quantile must lie; None of others."""
        if self.lattice is None or self.statistic.what not in ("mean", QUANTILES):
            return None
        return float(self.lattice.low), float(self.lattice.high)

    @property
    def possible(self) -> tuple[float, float] | None:
        """Between which numbers a variance or its root must lie; None of others."""
        if self.lattice is None or self.statistic.what not in SPREADS:
            return None
        return 0.0, most_spread(self.statistic, self.lattice)


def statistics_views(
    replay: Mapping[str, Any], values: Values, contract: Contract, read: ReadFile
) -> list[StatisticsView]:
    """Prepare every table of statistics.

    Args:
        replay: the record's part that says how numbers were computed.
        values: the public record's values.
        contract: gives the labels and the order of the cells.
        read: reads the version's files.
    Privacy: reads published files only.
    """
    tables, contract = (
        StatisticsProduct.model_validate(replay["product"]).tables,
        with_stated_keys(contract, replay["draws"]),
    )
    most, version = room(sum(len(_single(table)) for table in tables)).bars, _Version(replay, values, contract, read)
    return [_view(version, table, number, most) for number, table in enumerate(tables, 1)]


def kinds_words(views: Sequence[StatisticsView]) -> str:
    """Name what tables publish: counts, sums, means."""
    found = {kind for view in views for kind in view.kinds}
    named = [
        message("{kinds} of clipped values", kinds=word) if clipped else word
        for kind, word in KINDS.items()
        for clipped in (False, True)
        if (kind, clipped) in found
    ]
    return joined(named, AND if len(named) == 2 else None)


def _view(version: _Version, table: StatisticsTable, number: int, most: int) -> StatisticsView:
    contract = version.contract
    [stated] = [each for each in version.replay["tables"] if each["name"] == table.name]
    data = pq.read_table(pa.BufferReader(version.read(stated["data"])))
    lattices = found_lattices(table, contract, version.replay.get("clips", ()), stated["draws"])
    numbers = [_numbers(each, data, lattices.get(str(each.key))) for each in _single(table)]
    counted, impossible = NEAR_ZERO in data.column_names, contract.impossible(table.by).reshape(-1)
    near = published_column(data, NEAR_ZERO) if counted else impossible
    gone = published_column(data, SUPPRESSED) if SUPPRESSED in data.column_names else None
    suppressed = np.zeros(impossible.shape, np.bool_) if gone is None else gone
    chosen, cells = _chosen(numbers, most, gone)
    named = [
        (
            int(cell),
            cell_label(contract, table.by, int(cell)) if table.by else message("all rows"),
            cell_mark(impossible[cell], gone is not None and gone[cell], near[cell]),
        )
        for cell in cells
    ]
    draws = [draw for draw in version.replay["draws"] if draw["key"] in stated["draws"]]
    own = {f"{DATA}/{table.name}", *(draw["measurements"].rpartition(".")[0] for draw in draws)}
    return StatisticsView(
        anchor=f"table-{number}",
        title=title_of(table.name, table.by) if table.by else table.name,
        by=table.by,
        cells=cells_words(contract, table.by),
        kinds=[(str(each.what), each.is_clipped) for each in table.of],
        draws=draw_terms(
            table,
            stated["draws"],
            lattices,
            draws={draw["key"]: draw for draw in version.values["ledger.draws"]},
            clips=version.replay.get("clips", ()),
            contract=contract,
        ),
        expected=_expected(version, table, lattices),
        chosen=chosen,
        statistics=[
            _bars(
                each,
                named,
                statistic_map(
                    contract,
                    table.by,
                    statistic_name(each.statistic),
                    each.values,
                    (each.lower, each.upper),
                    known=~(impossible | near | suppressed | each.missing),
                    never_negative=each.statistic.what in (COUNT, "sum", *DISTINCTS),
                ),
            )
            for each in numbers
        ],
        counted=counted,
        facts=number_facts(data, near, impossible, table.survey_weight, contract),
        files=[file["path"] for file in version.values["output.files"] if file["path"].rpartition(".")[0] in own],
    )


def _single(table: StatisticsTable) -> list[Statistic]:
    """Return the statistics of a table, each quantile by itself."""
    found: list[Statistic] = []
    for each in table.of:
        found += [each.model_copy(update={"quantiles": (share,)}) for share in each.quantiles] or [each]
    return found


def _numbers(statistic: Statistic, data: pa.Table, lattice: ValueLattice | None) -> _Numbers:
    values, lower, upper = (published_column(data, name).astype(np.float64) for name in statistic.published)
    missing = np.asarray(data.column(statistic.published[0]).is_null().to_numpy(), dtype=np.bool_)
    found = _Numbers(statistic, values, lower, upper, lattice, missing)
    if found.clip is None or not missing.any():
        return found
    least, most = found.clip
    shown, lowest, highest = (np.where(missing, *each) for each in ((least, values), (least, lower), (most, upper)))
    return _Numbers(statistic, shown, lowest, highest, lattice, missing)


def _chosen(
    numbers: Sequence[_Numbers], most: int, suppressed: NDArray[np.bool_] | None
) -> tuple[str, NDArray[np.int64]]:
    """Choose the cells that are shown, the same for all statistics of a table; all where they are few.

    Means of small cells are the widest apart by noise alone: cells are chosen by counts, or by narrow intervals.
    """
    cells = numbers[0].values.size
    if cells <= most:
        return "all", np.arange(cells)
    by = {each.statistic.what: each for each in reversed(numbers)}
    if COUNT in by:
        chosen, order = "counts", -by[COUNT].values
    elif "sum" in by and "mean" not in by:
        chosen, order = "sums", -np.abs(by["sum"].values)
    else:
        first = by.get("mean", numbers[0])
        chosen, order = "intervals", first.upper - first.lower
    if suppressed is not None:
        order = np.where(suppressed, np.inf, order)
    return chosen, np.argsort(order, kind="stable")[: min(most, LARGEST_CELLS)]


def _bars(numbers: _Numbers, cells: Sequence[tuple[int, str, str]], places: PlaceMap | None) -> StatisticBars:
    """Draw a statistic in some cells, each with its label and mark."""
    scale, zoomed = _scale(numbers, [cell for cell, _, _ in cells])
    rows = []
    for cell, label, mark in cells:
        value, low, high = (float(each[cell]) for each in (numbers.values, numbers.lower, numbers.upper))
        shown, interval = "–", "–"
        if mark not in (IMPOSSIBLE, TOO_SMALL) and numbers.missing[cell]:
            interval = TOO_FEW
        elif mark not in (IMPOSSIBLE, TOO_SMALL):
            # Weighted counts may be in broken steps.
            whole = numbers.statistic.what in (COUNT, *DISTINCTS) and value == round(value)
            shown, lowest, highest = readable(value, low, high, whole=whole)
            interval = message("{low} to {high}", low=lowest, high=highest)
            if isinf(high):
                interval = message("{low} or more", low=lowest)
            if numbers.clip == (low, high):
                interval = message("{low} to {high}, the whole clip", low=lowest, high=highest)
            if numbers.possible == (low, high):
                interval = message("{low} to {high}, all that is possible", low=lowest, high=highest)
        value, high = min(value, scale[1]), min(high, scale[1])
        rows.append(StatisticRow(label, mark, shown, interval, charts.count_bar(value, (low, value, high), scale)))
    ends = plain_number(Decimal(f"{scale[0]:.6g}")), plain_number(Decimal(f"{scale[1]:.6g}"))
    return StatisticBars(statistic_name(numbers.statistic), rows, ends, zoomed, places)


def _scale(numbers: _Numbers, cells: list[int]) -> tuple[tuple[float, float], bool]:
    """Return the numbers at the ends of the bars, and whether they are a part of a mean's clip only."""
    lower, upper, clip = numbers.lower[cells], numbers.upper[cells], numbers.clip
    upper = np.where(np.isinf(upper), lower, upper)  # an open interval is drawn to the end of the scale
    if clip is None:
        return (round_end(min(float(lower.min()), 0.0)), round_end(max(float(upper.max()), 1.0))), False
    known = (lower > clip[0]) | (upper < clip[1])  # the whole clip says nothing of where means lie
    if not known.any():
        return clip, False
    start, end = (round_end(float(each)) for each in (min(lower[known].min(), 0.0), max(upper[known].max(), 0.0)))
    part = max(start, clip[0]), min(end, clip[1])
    zoomed = part[1] - part[0] < (clip[1] - clip[0]) / _ZOOM
    return (part, True) if zoomed and part[0] < part[1] else (clip, False)


def _expected(version: _Version, table: StatisticsTable, lattices: Mapping[str, ValueLattice]) -> list[str]:
    """Say how wide intervals were expected to be from the declared noise alone."""
    told = [each for each in version.values["utility.expected_error"] if each["table"] == table.name]
    lines: list[str] = []
    for statistic in _single(table):
        errors = [each for each in told if each["statistic"] == statistic.published[0]]
        name, lattice = statistic_name(statistic), lattices.get(str(statistic.column))
        if errors[0]["rows"] == IN_RANKS:
            rows = brief(float(errors[0]["half_width_95"]))
            ranks = (
                message("{statistic}: within {rows} rows of its rank in every cell", statistic=name, rows=rows)
                if table.survey_weight is None
                else message(
                    "{statistic}: within a weight of {rows} of its rank in every cell", statistic=name, rows=rows
                )
            )
            lines.append(ranks)
            continue
        if errors[0]["rows"] == ANY_SIZE or lattice is None:
            width = brief(float(errors[0]["half_width_95"]))
            if statistic.what == EFFECTIVE_SIZE:
                told_width = message("±{width} where weights are about a quarter of their clip", width=width)
                lines.append(message("{statistic}: {widths}", statistic=name, widths=told_width))
                continue
            if statistic.what == COUNT and table.counts_with_keys:
                sure = message("±{width} of keys that are sure to be published; others reach down to 1", width=width)
                lines.append(message("{statistic}: {widths}", statistic=name, widths=sure))
                continue
            lines.append(message("{statistic}: ±{width} in every cell", statistic=name, width=width))
            continue
        spread = statistic.what in SPREADS
        most = float(lattice.high - lattice.low) if statistic.over is None else inf
        most = most_spread(statistic, lattice) if spread else most
        terms = {"weighed": table.survey_weight is not None, "spread": spread}
        parts = [within_rows(float(each["half_width_95"]), each["rows"], most, **terms) for each in errors]
        lines.append(message("{statistic}: {widths}", statistic=name, widths=joined(parts)))
    return lines
