"""The resolutions of a table with a hierarchy: which cells of the table each coarser cell is the sum of.

A level coarsens some axes of the table: every code of such a column is given to one group, so each row falls in
exactly one cell of every level. Several columns with groupings coarsen in step, the shorter list staying at its
coarsest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from contracts.contract.contract import Contract
from contracts.reading.scalars import Problem, nearest, word_list
from contracts.release.tables.hierarchy import GroupedCells, GroupingAxis, binned, in_step, mesh, untouched
from contracts.release.tables.tables import TableSpec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BINS: Final = "bins"
"""The name of the resolution of a table with bins; it is its only one."""
MOST_COUNTED: Final = 2**24
"""Cells of the contract that are counted before they are added up to coarser ones."""


@dataclass(frozen=True)
class Level(GroupedCells[GroupingAxis]):
    """A table at one coarser resolution, seen like a contract: labels, shape and impossible cells of its columns.

    Args:
        name: of the level; it is part of the names of its draw and of its files.
        columns: of the table.
        axes: one a column, in their order.
        contract: of the table.
    """

    name: str
    columns: tuple[str, ...]
    axes: tuple[GroupingAxis, ...]
    contract: Contract

    def ordered_axes(self, clique: Sequence[str]) -> tuple[int, ...]:
        """Return the places of the last two ordered columns, whose groups are neighbours in their order."""
        ordered = [self.contract.column(name).ordered and self.column(name).ascends for name in clique]
        return tuple(place for place, each in enumerate(ordered) if each)[-2:]

    def impossible(self, clique: Sequence[str]) -> NDArray[np.bool_]:
        """Mark the cells whose cells in the table are all declared impossible; shape of the level."""
        import numpy as np

        possible = np.zeros(self.shape(clique), dtype=np.bool_)
        possible.reshape(-1)[self.cell_of[~self.contract.impossible(clique)]] = True
        return ~possible

    @cached_property
    def cell_of(self) -> NDArray[np.int64]:
        """The row-major number of the level's cell to which each cell of the table belongs; shape of the table."""
        import numpy as np

        return _combined([np.array(axis.codes, dtype=np.int64) for axis in self.axes], self.axes)


def _combined(codes: Sequence[NDArray[np.int64]], axes: Sequence[GroupingAxis]) -> NDArray[np.int64]:
    """Number the combinations of one code an axis, row-major in the shape of `axes`."""
    import numpy as np

    numbers = np.zeros((1,) * len(axes), dtype=np.int64)
    for place, (code, axis) in enumerate(zip(codes, axes, strict=True)):
        numbers = numbers * axis.size + code.reshape([-1 if other == place else 1 for other in range(len(axes))])
    return numbers


def parents(levels: Sequence[Level], table: TableSpec, contract: Contract) -> tuple[NDArray[np.int64], ...]:
    """Return, for each level but the coarsest and for the table itself, the cell above each of its cells.

    Args:
        levels: of the table, coarsest first.
        table: the table.
        contract: its contract.
    Returns:
        tuple: one array a level below the first, shape (cells,); see `privacy.refine.hierarchy`.
    """
    import numpy as np

    finest = tuple(untouched(contract.column(name)) for name in table.columns)
    arrays = []
    for above, below in pairwise([*(level.axes for level in levels), finest]):
        codes = []
        for upper, lower in zip(above, below, strict=True):
            code = np.zeros(lower.size, dtype=np.int64)
            code[np.array(lower.codes, dtype=np.int64)] = np.array(upper.codes, dtype=np.int64)
            codes.append(code)
        arrays.append(_combined(codes, above).reshape(-1))
    return tuple(arrays)


def level_name(table: str, level: str) -> str:
    """Name a level's files: after its table, then after itself."""
    return f"{table}.{level}"


def levels_of(table: TableSpec, contract: Contract) -> tuple[Level, ...]:
    """Return the coarser resolutions of a table, coarsest first; none for a table without a hierarchy.

    Raises:
        ValueError: the hierarchy does not fit the contract; `level_problems` says where.
    """
    levels, problems = _resolved(table, contract)
    if problems:
        raise ValueError(f"table {table.name!r}: found {problems[0].found}, allowed {problems[0].allowed}")
    return levels


def level_problems(table: TableSpec, contract: Contract) -> list[Problem]:
    """List what in a table's hierarchy or bins does not fit the contract; `at` is below the table."""
    return _resolved(table, contract)[1] + _binned(table, contract)[1]


def table_cells(table: TableSpec, contract: Contract) -> Contract | Level:
    """Return the cells of a table: the contract's, or coarser ones with `bins`.

    Raises:
        ValueError: the bins do not fit the contract; `level_problems` says where.
    """
    level, problems = _binned(table, contract)
    if problems:
        raise ValueError(f"table {table.name!r}: found {problems[0].found}, allowed {problems[0].allowed}")
    return contract if level is None else level


def _binned(table: TableSpec, contract: Contract) -> tuple[Level | None, list[Problem]]:
    """Resolve the bins of a table; None without any."""
    if not table.bins:
        return None, []
    problems, named = [], [each.column for each in table.bins]
    if table.hierarchy is not None or table.form == "sparse":
        beside = "form: sparse" if table.hierarchy is None else "a hierarchy"
        remedy = "drop one of the two: the coarser cells of such a table need a table of their own"
        problems.append(Problem(f"bins beside {beside}", "one of the two in a table", remedy, ("bins",)))
    for name in [name for name in named if name not in table.columns]:
        remedy = nearest(name, table.columns) or "name a column of the table"
        problems.append(Problem(f"the column {name!r}", word_list(table.columns), remedy, ("bins", name)))
    if len(set(named)) < len(named):
        problems.append(Problem("bins of one column twice", "each column once", "drop one", ("bins",)))
    most = contract.cells(table.columns)
    if most > MOST_COUNTED:
        found, allowed = f"bins of a table of {most:,} cells in the contract", f"at most {MOST_COUNTED:,}"
        problems.append(Problem(found, allowed, "take fewer columns, or coarser bins in the contract", ("bins",)))
    if problems:
        return None, problems
    axes: dict[str, GroupingAxis] = {}
    for each in table.bins:
        axes[each.column], wrong = binned(each, contract.column(each.column))
        problems += wrong
    whole = tuple(axes.get(name) or untouched(contract.column(name)) for name in table.columns)
    return (None, problems) if problems else (Level(BINS, table.columns, whole, contract), [])


def _resolved(table: TableSpec, contract: Contract) -> tuple[tuple[Level, ...], list[Problem]]:
    hierarchy = table.hierarchy
    if hierarchy is None:
        return (), []
    named = hierarchy.quadtree or tuple(nested.column for nested in hierarchy.nested)
    problems = [
        Problem(f"the column {name!r}", word_list(table.columns), "name a column of the table", ("hierarchy", name))
        for name in named
        if name not in table.columns
    ]
    if problems:
        return (), problems
    if hierarchy.quadtree:
        steps, problems = mesh(hierarchy, [contract.column(name) for name in hierarchy.quadtree])
    else:
        steps, problems = in_step(hierarchy.nested, contract)
    if problems:
        return (), problems
    levels = []
    for name, axes in steps:
        whole = tuple(axes.get(c) or untouched(contract.column(c)) for c in table.columns)
        levels.append(Level(name, table.columns, whole, contract))
    return tuple(reversed(levels)), []
