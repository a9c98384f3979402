"""How columns coarsen: labels into groups, periods of a date into longer ones, bins of a mesh into blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Generic, Protocol, TypeVar

from contracts.contract.column import Column, Labelled
from contracts.contract.contract import Contract
from contracts.contract.label_columns import LabelColumn, label_columns
from contracts.domains.domain_terms import NULL_LABEL
from contracts.reading.scalars import FieldPath, Problem, nearest, word_list
from contracts.release.tables.table_hierarchy import ColumnLevel, ColumnLevels, Hierarchy


@dataclass(frozen=True)
class GroupingAxis:
    """One column at one resolution.

    Args:
        labels: of its groups, in the order of their codes.
        codes: the group of each code of the column.
    """

    labels: tuple[str, ...]
    codes: tuple[int, ...]

    @property
    def size(self) -> int:
        """The number of groups."""
        return len(self.labels)

    @property
    def ascends(self) -> bool:
        """Whether neighbouring groups hold neighbouring codes."""
        return list(self.codes) == sorted(self.codes)

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The codes of the column in each group, ascending."""
        found: list[list[int]] = [[] for _ in self.labels]
        for code, group in enumerate(self.codes):
            found[group].append(code)
        return tuple(map(tuple, found))


GroupingSteps = list[tuple[str, dict[str, GroupingAxis]]]
"""Of each level, finest first: its name, and the columns that it coarsens."""


def untouched(column: Column) -> GroupingAxis:
    """Return a column as it is."""
    return GroupingAxis(column.labels, tuple(range(column.size)))


def in_step(nested: Sequence[ColumnLevels], contract: Contract) -> tuple[GroupingSteps, list[Problem]]:
    """Coarsen all columns at once, level by level."""
    problems: list[Problem] = []
    grouped: dict[str, list[tuple[str, GroupingAxis]]] = {}
    for each in nested:
        grouped[each.column], wrong = _groupings(each, contract.column(each.column))
        problems += wrong
    if problems:
        return [], problems
    steps: GroupingSteps = []
    for step in range(max(map(len, grouped.values()))):
        at = {column: axes[min(step, len(axes) - 1)] for column, axes in grouped.items()}
        steps.append(
            ("_x_".join(name for name, _ in at.values()), {column: axis for column, (_, axis) in at.items()})
        )
    return steps, []


def _groupings(nested: ColumnLevels, column: Column) -> tuple[list[tuple[str, GroupingAxis]], list[Problem]]:
    """Resolve the levels of one column, each on the labels of the one below."""
    below, whose, period = untouched(column), f"column {column.name}", column.domain.resolution
    axes: list[tuple[str, GroupingAxis]] = []
    for place, level in enumerate(nested.levels):
        at: FieldPath = ("hierarchy", column.name, place)
        if level.groups:
            axis, problems = grouped(level, below, whose, (*at, "groups"))
            period = None
        else:
            axis, problems = in_periods(level, column, period, at)
            period = level.name
        if not problems and axis.size >= below.size:
            found = f"level {level.name!r} with {axis.size} groups for {below.size} labels of {whose}"
            problems = [Problem(found, "fewer groups than there are below", "merge some, or drop the level", at)]
        if problems:
            return [], problems
        below, whose = axis, f"level {level.name}"
        axes.append((level.name, axis))
    return axes, []


def grouped(level: ColumnLevel, below: GroupingAxis, whose: str, at: FieldPath) -> tuple[GroupingAxis, list[Problem]]:
    """Give each label below to its group; the groups must partition the labels."""
    problems: list[Problem] = []
    group_of: dict[str, int] = {}
    labels = [label for label, _ in level.groups]
    for number, (label, children) in enumerate(level.groups):
        where = f"level {level.name!r}, group {label!r}"
        if label in labels[:number]:
            problems.append(Problem(f"{where} twice", "each group once", "merge the two", at))
        if not children:
            problems.append(Problem(f"{where}: no label", f"at least one label of {whose}", "drop it", (*at, label)))
        for child in children:
            if child not in below.labels:
                remedy = nearest(child, below.labels)
                problems.append(
                    Problem(f"{where}: the label {child!r}", word_list(below.labels), remedy, (*at, label))
                )
            elif child in group_of:
                found = f"{where}: the label {child!r} again, which is in {labels[group_of[child]]!r}"
                problems.append(Problem(found, f"each label of {whose} in one group", "drop one", (*at, label)))
            group_of.setdefault(child, number)
    missing = [label for label in below.labels if label not in group_of]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        found = f"level {level.name!r}: no group has the label {missing[0]!r}{more}"
        problems.append(Problem(found, f"every label of {whose} in one group", "add it to a group", at))
    if problems:
        return below, problems
    group = [group_of[label] for label in below.labels]
    return GroupingAxis(tuple(labels), tuple(group[code] for code in below.codes)), []


def in_periods(
    level: ColumnLevel, column: Column, below: str | None, at: FieldPath
) -> tuple[GroupingAxis, list[Problem]]:
    """Group the periods of a date column into longer ones; a cell for nulls stays what it is."""
    axis, allowed = untouched(column), column.domain.coarser(below)
    if level.name not in allowed:
        found = f"level {level.name!r} of column {column.name} without `groups`"
        periods = f", or one of {', '.join(allowed)}" if allowed else ""
        remedy = nearest(level.name, allowed) or "say which labels make up each group"
        if at[-1] and below in column.domain.coarser(level.name):
            remedy = f"list the periods from the finest to the coarsest: {level.name} before {below}"
        return axis, [Problem(found, f"`groups:` for it{periods}", remedy, at)]
    labels = [*column.domain.labels_at(level.name)]
    labels += [NULL_LABEL] * (column.size - len(labels))
    distinct = {label: code for code, label in enumerate(dict.fromkeys(labels))}
    return GroupingAxis(tuple(distinct), tuple(distinct[label] for label in labels)), []


def mesh(hierarchy: Hierarchy, columns: Sequence[Column]) -> tuple[GroupingSteps, list[Problem]]:
    """Double the blocks in both directions until one more doubling would leave one block, or `levels` are made."""
    problems = []
    for column in columns:
        if not column.ordered or column.domain.block_label(0, 0) is None:
            found = f"a quadtree over column {column.name}, which holds no numbers"
            remedy = f"group its labels instead: {{{column.name}: [...]}}"
            problems.append(Problem(found, "two columns of numbers in bins", remedy, ("hierarchy", "quadtree")))
    if problems:
        return [], problems
    longest = max(ordered_cells(column) for column in columns)
    most = max(0, (longest - 1).bit_length() - 1)
    depth = most if hierarchy.levels is None else hierarchy.levels - 1
    if not 1 <= depth <= most:
        found = (
            f"{depth + 1} levels for a mesh of {' x '.join(str(ordered_cells(column)) for column in columns)} bins"
        )
        allowed = f"2 to {most + 1} levels" if most else "a mesh with more than 2 bins in one direction"
        return [], [Problem(found, allowed, "the coarsest level has more than one block", ("hierarchy", "levels"))]
    return [
        (f"{1 << level}x{1 << level}", {column.name: _blocks(column, level) for column in columns})
        for level in range(1, depth + 1)
    ], []


def ordered_cells(column: Column) -> int:
    """Count the cells of an ordered column, without the one for nulls."""
    return column.size - (1 if column.domain.nulls.policy == "category" else 0)


def _blocks(column: Column, level: int) -> GroupingAxis:
    """Join 2^level neighbouring bins; a cell for nulls stays by itself."""
    count = ordered_cells(column)
    codes = [bin_ >> level for bin_ in range(count)]
    ends = [(block << level, min(((block + 1) << level) - 1, count - 1)) for block in range(codes[-1] + 1)]
    labels = [str(column.domain.block_label(first, last)) for first, last in ends]
    if column.size > count:
        return GroupingAxis((*labels, NULL_LABEL), (*codes, codes[-1] + 1))
    return GroupingAxis(tuple(labels), tuple(codes))


class AxisGroups(Labelled, Protocol):
    """Groups of the cells of one column."""

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The codes of the column in each group, ascending."""


AxisT = TypeVar("AxisT", bound=AxisGroups)


class GroupedCells(Generic[AxisT]):
    """Cells of a table whose columns are groups of the contract's cells.

    Args:
        columns: of the table.
        axes: one a column, in their order.
        contract: of the table.
    """

    columns: tuple[str, ...]
    axes: tuple[AxisT, ...]
    contract: Contract

    def column(self, name: str) -> AxisT:
        """Return the groups of a column."""
        return self.axes[self.columns.index(name)]

    def shape(self, clique: Sequence[str]) -> tuple[int, ...]:
        """Return the number of groups of each column."""
        return tuple(self.column(name).size for name in clique)

    def cells(self, clique: Sequence[str]) -> int:
        """Return the number of cells."""
        return prod(self.shape(clique))

    def beside(self, clique: Sequence[str]) -> tuple[tuple[LabelColumn, ...], ...]:
        """Return what the labels of each column stand for, in columns beside them."""
        return tuple(label_columns(self.contract.column(name), self.column(name).groups) for name in clique)
