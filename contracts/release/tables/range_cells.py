"""The rows of a table with queries: ranges of its ordered columns, one cell of each other column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Final

from contracts.contract.column import Column
from contracts.contract.contract import Contract
from contracts.reading.scalars import Problem, nearest, word_list
from contracts.release.tables.hierarchy import GroupedCells, QueryKind, ordered_cells, range_label, untouched
from contracts.release.tables.tables import TableSpec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOST_CELLS: Final = 256
"""Cells of all columns of a table with queries together, which the plan resolves at once."""
MOST_ROWS: Final = 2**22
"""Rows of a table with queries."""
CellRanges = tuple[tuple[int, int], ...]
"""First and last cell of each range, both included."""


@dataclass(frozen=True)
class RangeAxis:
    """One column of a table with queries.

    Args:
        labels: of its ranges, in the order of the rows.
        ranges: first and last code of each.
    """

    labels: tuple[str, ...]
    ranges: CellRanges

    @property
    def size(self) -> int:
        """The number of ranges."""
        return len(self.ranges)

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The codes of the column in each range, ascending."""
        return tuple(tuple(range(first, last + 1)) for first, last in self.ranges)


@dataclass(frozen=True)
class RangeCells(GroupedCells[RangeAxis]):
    """The rows of a table with queries, seen like a contract: labels, shape and impossible cells of its columns.

    Args:
        columns: of the table.
        axes: one a column, in their order.
        asked: the columns with queries.
        contract: of the table.
    """

    columns: tuple[str, ...]
    axes: tuple[RangeAxis, ...]
    asked: tuple[str, ...]
    contract: Contract

    def ordered_axes(self, clique: Sequence[str]) -> tuple[int, ...]:
        """Return nothing: neighbouring rows hold the same people."""
        return ()

    def impossible(self, clique: Sequence[str]) -> NDArray[np.bool_]:
        """Mark the rows whose cells are all declared impossible."""
        possible = self.added_up((~self.contract.impossible(clique)).astype("int64"))
        found: NDArray[np.bool_] = possible == 0
        return found

    def added_up(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the sums of counts of the contract's cells over each row's ranges, shape of the table."""
        import numpy as np

        for place, axis in enumerate(self.axes):
            ends = np.array(axis.ranges)
            whole = np.moveaxis(counts, place, 0)
            upto = np.concatenate([np.zeros_like(whole[:1]), np.cumsum(whole, axis=0)])
            counts = np.moveaxis(upto[ends[:, 1] + 1] - upto[ends[:, 0]], 0, place)
        return counts


def range_cells(table: TableSpec, contract: Contract) -> RangeCells:
    """Return the rows of a table with queries."""
    asked = {each.column: each.kind for each in table.queries}
    axes = tuple(_axis(contract.column(name), asked.get(name, "identity")) for name in table.columns)
    return RangeCells(table.columns, axes, tuple(asked), contract)


def _axis(column: Column, kind: QueryKind) -> RangeAxis:
    labels, ranges = untouched(column).labels, axis_ranges(column, kind)
    return RangeAxis(tuple(range_label(column, labels, *each) for each in ranges), ranges)


def axis_ranges(column: Column, kind: QueryKind) -> CellRanges:
    """Return the ranges of a kind over a column; each cell by itself where it has no order or no value."""
    if kind == "identity":
        return ranges_of(kind, column.size)
    cells = ordered_cells(column)
    return ranges_of(kind, cells) + tuple((code, code) for code in range(cells, column.size))


def ranges_of(kind: QueryKind, cells: int) -> CellRanges:
    """Return the ranges of a kind over so many ordered cells, shorter blocks of a hierarchy first."""
    if kind == "prefix":
        return tuple((0, last) for last in range(cells))
    if kind == "range":
        return tuple((first, last) for first in range(cells) for last in range(first, cells))
    found = [(code, code) for code in range(cells)]
    width = 2
    while kind == "hierarchy" and width < 2 * cells:
        blocks = [(first, min(first + width, cells) - 1) for first in range(0, cells, width)]
        found += [block for block in blocks if block not in found]
        width *= 2
    return tuple(found)


def apart_problems(tables: Sequence[TableSpec]) -> list[Problem]:
    """Say where columns with queries do not stand together in one table, as the plan needs them.

    Of the tables that have the same other columns, and more, one must have all the ordered columns of the others.
    """
    asked = {each.column for table in tables for each in table.queries}
    if len(asked) < 2:
        return []
    parts = [(set(table.columns) - asked, set(table.columns) & asked) for table in tables]
    for plain in (set[str](), *(plain for plain, _ in parts)):
        inside = [ordered for other, ordered in parts if plain <= other]
        together = set[str]().union(*inside)
        if together not in inside:
            whose = f" by {', '.join(sorted(plain))}" if plain else ""
            found = f"queries over {' and over '.join(sorted(together))}{whose}, and no table over all of them"
            remedy = "add a table of all of them, or publish the tables in releases of their own"
            return [Problem(found, "columns with queries that stand together in one table", remedy)]
    return []


def query_problems(table: TableSpec, contract: Contract) -> list[Problem]:
    """List what in a table's queries does not fit the table or the contract; `at` is below the table."""
    problems, named = [], [each.column for each in table.queries]
    for given in ("hierarchy", "bins", "form"):
        if getattr(table, given):
            found, remedy = f"queries beside `{given}`", "drop one, or publish the other in a table of its own"
            problems.append(Problem(found, "one of the two in a table", remedy, ("queries",)))
    for name in named:
        if name not in table.columns:
            remedy = nearest(name, table.columns) or "name a column of the table"
            problems.append(Problem(f"the column {name!r}", word_list(table.columns), remedy, ("queries", name)))
        elif not contract.column(name).ordered or ordered_cells(contract.column(name)) < 2:
            found = f"queries over column {name}, whose cells have no order"
            remedy = f"drop it: labels of {name} are counted one by one"
            problems.append(
                Problem(found, "a column of numbers or dates in at least 2 bins", remedy, ("queries", name))
            )
    if problems or not named:
        return problems
    cells = prod(contract.column(name).size for name in named)
    if cells > MOST_CELLS:
        found = f"queries over {' × '.join(str(contract.column(name).size) for name in named)} = {cells} cells"
        remedy = "take wider bins in the contract, or queries over fewer columns"
        return [Problem(found, f"at most {MOST_CELLS} cells", remedy, ("queries",))]
    rows = range_cells(table, contract).cells(table.columns)
    if rows > MOST_ROWS:
        remedy = "ask for prefix or hierarchy, which are fewer, or take fewer columns"
        return [Problem(f"{rows:,} rows of a table with queries", f"at most {MOST_ROWS:,}", remedy, ("queries",))]
    return []
