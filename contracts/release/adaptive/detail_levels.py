"""The levels of detail of an adaptive table on the columns of its contract, and the rows of its file.

A level adds up cells of the table's finest columns. Every cell belongs to exactly one cell of each level, so that a
row of a group falls in exactly one cell, whichever level the group gets.

A published row names its level, and has a label for each column: `(all)` where its level adds the column up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Final

from contracts.contract.column import Labelled
from contracts.contract.contract import Contract
from contracts.reading.scalars import FieldPath, Problem, nearest, word_list
from contracts.release.adaptive.product import LEVEL, AdaptiveTable, DetailLevel
from contracts.release.tables.groupings import GroupingAxis, untouched
from contracts.release.tables.table_bins import binned

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ALL: Final = "(all)"
"""The label of a column that a row's level adds up."""
TOTAL: Final = "total"
"""The level of the row with the total of a group; every group has one."""


@dataclass(frozen=True, eq=False)
class ResolvedLevel:
    """One level on the contract's columns.

    Args:
        name: as the column `level` has it.
        axes: of each of the table's finest columns, at this level; one group where the level adds it up.
        kept: which of these columns it has.
    """

    name: str
    axes: tuple[GroupingAxis, ...]
    kept: tuple[bool, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Cells of each column."""
        return tuple(axis.size for axis in self.axes)

    @property
    def cells(self) -> int:
        """Cells of a group."""
        return prod(self.shape)

    @cached_property
    def cell_of(self) -> NDArray[np.int64]:
        """The level's cell of each of the finest cells, both row-major, int64, shape (finest cells,)."""
        import numpy as np

        numbers = np.zeros((1,) * len(self.axes), dtype=np.int64)
        for place, axis in enumerate(self.axes):
            own = np.array(axis.codes, dtype=np.int64)
            numbers = numbers * axis.size + own.reshape([-1 if at == place else 1 for at in range(len(self.axes))])
        return numbers.reshape(-1)


@dataclass(frozen=True)
class ListedLabels:
    """The labels that a column of the file may have."""

    labels: tuple[str, ...]

    @property
    def size(self) -> int:
        """How many there are."""
        return len(self.labels)


@dataclass(frozen=True, eq=False)
class DetailCells:
    """An adaptive table on its contract, and the cells that a row of its file may be of, seen like a contract.

    Args:
        table: as the spec has it.
        contract: its contract.
        levels: from the coarsest.
    """

    table: AdaptiveTable
    contract: Contract
    levels: tuple[ResolvedLevel, ...]

    @property
    def groups(self) -> int:
        """How many groups there are."""
        return self.contract.cells(self.table.by)

    @property
    def finest(self) -> int:
        """Cells of a group at the contract's own resolution."""
        return self.contract.cells(self.table.detail)

    @property
    def clique(self) -> tuple[str, ...]:
        """The label columns of the file."""
        return (*self.table.by, LEVEL, *self.table.detail)

    def column(self, name: str) -> Labelled:
        """Return the labels of a column of the file."""
        return self.contract.column(name) if name in self.table.by else self._listed[name]

    def shape(self, clique: Sequence[str]) -> tuple[int, ...]:
        """Return the number of labels of each column."""
        return tuple(self.column(name).size for name in clique)

    def cells(self, clique: Sequence[str]) -> int:
        """Return the number of combinations of labels."""
        return prod(self.shape(clique))

    def impossible(self, clique: Sequence[str]) -> NDArray[np.bool_]:
        """Mark no combination: most of them are no rows."""
        import numpy as np

        return np.broadcast_to(np.False_, self.shape(clique))

    @cached_property
    def possible(self) -> NDArray[np.bool_] | None:
        """Which cells can hold somebody, shape (groups, finest cells); None where all can."""
        if not self.contract.zero_cliques(self.table.clique):
            return None
        return ~self.contract.impossible(self.table.clique).reshape(self.groups, -1)

    @cached_property
    def _listed(self) -> dict[str, ListedLabels]:
        names = [TOTAL, *(level.name for level in self.levels if level.name != TOTAL)]
        found = {LEVEL: ListedLabels(tuple(names))}
        for place, name in enumerate(self.table.detail):
            every = [label for level in self.levels if level.kept[place] for label in level.axes[place].labels]
            found[name] = ListedLabels((ALL, *dict.fromkeys(every)))
        return found

    @property
    def row_room(self) -> int:
        """How many combinations of `level` and detail there are; the first is the total's."""
        return self._inner * self._listed[LEVEL].size

    def rows(self, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the row-major numbers, among all labels, of the cells of each group's level, group after group.

        Args:
            chosen: of each group its level.
        """
        import numpy as np

        sizes = np.array([level.cells for level in self.levels], dtype=np.int64)[chosen]
        starts = np.cumsum(sizes) - sizes
        codes = np.empty(int(sizes.sum()), dtype=np.int64)
        for number, level in enumerate(self.levels):
            groups = np.flatnonzero(chosen == number)
            inside = self._level_number(level.name) * self._inner + self._cell_codes(level)
            codes[starts[groups][:, None] + np.arange(level.cells)] = groups[:, None] * self.row_room + inside
        return codes

    @property
    def _inner(self) -> int:
        return prod(self._listed[name].size for name in self.table.detail)

    def _level_number(self, name: str) -> int:
        return self._listed[LEVEL].labels.index(name)

    def _cell_codes(self, level: ResolvedLevel) -> NDArray[np.int64]:
        import numpy as np

        codes = np.zeros((1,) * len(level.axes), dtype=np.int64)
        for place, (name, axis) in enumerate(zip(self.table.detail, level.axes, strict=True)):
            labels = self._listed[name].labels
            number = {label: at for at, label in enumerate(labels)}
            own = np.array([number[x] for x in axis.labels] if level.kept[place] else [0], dtype=np.int64)
            shape = [-1 if at == place else 1 for at in range(len(level.axes))]
            codes = codes * len(labels) + own.reshape(shape)
        return codes.reshape(-1)


def detail_cells(table: AdaptiveTable, contract: Contract) -> DetailCells:
    """Return a table on its contract.

    Raises:
        ValueError: it does not fit; `level_problems` says where.
    """
    levels, problems = _resolved(table, contract)
    if problems:
        raise ValueError(f"table {table.name!r}: found {problems[0].found}, allowed {problems[0].allowed}")
    return DetailCells(table, contract, levels)


def level_problems(table: AdaptiveTable, contract: Contract) -> list[Problem]:
    """List what in the levels of a table does not fit the contract; `at` is below the table."""
    return _resolved(table, contract)[1]


def _resolved(table: AdaptiveTable, contract: Contract) -> tuple[tuple[ResolvedLevel, ...], list[Problem]]:
    levels, problems = [], []
    for place, written in enumerate(table.adapt.levels):
        at: FieldPath = ("adapt", "levels", place)
        level, wrong = _level(written, table, contract)
        problems += [Problem(each.found, each.allowed, each.remedy, at) for each in wrong]
        levels.append(level)
    if not problems:
        problems = list(_not_nested(levels, table))
    return tuple(levels), problems


def _level(level: DetailLevel, table: AdaptiveTable, contract: Contract) -> tuple[ResolvedLevel, list[Problem]]:
    """Resolve one level: the cells of its columns, in bins where it has such."""
    bins, problems = {each.column: each for each in level.bins}, []
    axes = []
    for name in table.detail:
        column = contract.column(name)
        axis = untouched(column)
        if name not in level.columns:
            axis = GroupingAxis((ALL,), (0,) * column.size)
        elif name in bins:
            axis, wrong = binned(bins[name], column)
            problems += wrong
        if name in level.columns and ALL in axis.labels:
            problems.append(Problem(f"the label {ALL} of {name}", "other labels", "rename it: it marks a sum of all"))
        axes.append(axis)
    for name in [name for name in bins if name not in level.columns]:
        remedy = nearest(name, level.columns) or "name a column of the level"
        problems.append(Problem(f"bins of the column {name!r}", word_list(level.columns), remedy))
    named = [f"{name} ({axis.size})" if name in bins else name for name, axis in zip(table.detail, axes, strict=True)]
    kept = tuple(name in level.columns for name in table.detail)
    words = " × ".join(name for name, own in zip(named, kept, strict=True) if own)
    return ResolvedLevel(words or TOTAL, tuple(axes), kept), problems


def _not_nested(levels: Sequence[ResolvedLevel], table: AdaptiveTable) -> Iterator[Problem]:
    """Yield levels whose cells do not split those of the level before."""
    for place in range(1, len(levels)):
        above, below, at = levels[place - 1], levels[place], ("adapt", "levels", place)
        if below.cells <= above.cells:
            found = f"{below.cells} cells in {below.name} after {above.cells} in {above.name}"
            yield Problem(found, "more cells than the level before", "drop the level, or put the levels in order", at)
        for name, upper, lower in zip(table.detail, above.axes, below.axes, strict=True):
            if len(set(zip(lower.codes, upper.codes, strict=True))) > lower.size:
                found = f"bins of {name} in {below.name} that lie in two of {above.name}"
                yield Problem(
                    found, "levels that are nested: cells of the level before split", "widen the coarser bins", at
                )
