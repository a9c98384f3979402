"""Rows of one table that are coarser than the contract's cells, by `bins:`.

Bins are unions of cells that the contract declares.

    bins:
      age: 0..99 by 10                      # or 0..99 at 18, 65: numbers, in the contract's own short form
      day: month                            # calendar periods of a date column
      area: {urban: ["1", "2"], rural: ["3"]}   # labels in groups; every label of the column is in one

Bins of numbers cover the column's bounds, and none of them cuts a cell of the contract. A cell for missing values
stays by itself, but where groups name it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from inspect import getdoc
from itertools import pairwise
from math import prod
from typing import Annotated, Any, Final, Generic, Protocol, TypeVar

from pydantic import BeforeValidator, WithJsonSchema, field_validator, model_validator
from pydantic_core import PydanticCustomError

from contracts.contract.column import Column, Labelled
from contracts.contract.contract import Contract
from contracts.contract.labels import LabelColumn, is_formula, label_columns
from contracts.domains.bins import DECIMALS, INTEGERS, ExactNumber
from contracts.domains.domain import NULL_LABEL, Frozen
from contracts.reading.scalars import FieldPath, Label, Problem, Whole, as_tuple, nearest, refuse, show, word_list
from contracts.reading.yaml_lines import YamlNode

# --- A table's hierarchy as a spec declares it.


QUADTREE: Final = "quadtree"
MOST_LEVELS: Final = 24
_FORMS = "quadtree, {quadtree: [COLUMN, COLUMN], levels: N}, or {COLUMN: [LEVEL, ...], ...}"
_KEYS: Final = frozenset({"quadtree", "levels", "nested"})
_TEXTS: Final = {"type": "array", "items": {"type": "string"}, "minItems": 1}


class ColumnLevel(Frozen):
    """One grouping of a column's labels, or of the groups below; without `groups` a calendar period of a date."""

    name: Label
    groups: tuple[tuple[Label, Annotated[tuple[Label, ...], BeforeValidator(as_tuple)]], ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, written: Any) -> Any:
        """Read a bare word as the name of a calendar period."""
        if isinstance(written, str):
            return {"name": written}
        if not isinstance(written, dict):
            allowed = "{name: ..., groups: {GROUP: [LABEL, ...], ...}}, or a calendar period such as year"
            refuse([Problem(show(written), allowed)])
        return written

    @field_validator("groups", mode="before")
    @classmethod
    def _as_pairs(cls, written: Any) -> Any:
        """Keep the order of the groups: it is the order of the cells."""
        if isinstance(written, dict):
            return tuple(written.items())
        if not isinstance(written, list | tuple):
            refuse([Problem(show(written), "a mapping of group: [label, ...]")])
        return tuple(tuple(pair) if isinstance(pair, list) else pair for pair in written)


def refuse_formulas(level: ColumnLevel, at: FieldPath) -> None:
    """Refuse groups that a spreadsheet would run: whoever writes the spec may name them otherwise."""
    for label, _ in level.groups:
        if any(is_formula(part.strip()) for part in label.split(";")):
            remedy = "rename the group: a spreadsheet that opens the CSV file would run its name"
            refuse([Problem(f"the group {show(label)}", "names that are no formulas", remedy, at)])


def _some_levels(written: Any) -> Any:
    """Refuse anything but a list of levels, one at least."""
    allowed = "a list of levels, such as [{name: LEVEL, groups: {GROUP: [LABEL, ...], ...}}]"
    if not isinstance(written, list | tuple) or not written:
        refuse([Problem(show(written), allowed, "" if written else "name a level, or drop the column")])
    return tuple(written)


class ColumnLevels(Frozen):
    """The groupings of one column, from the finest to the coarsest."""

    column: Label
    levels: Annotated[tuple[ColumnLevel, ...], BeforeValidator(_some_levels)]

    @field_validator("levels")
    @classmethod
    def _names_differ(cls, levels: tuple[ColumnLevel, ...]) -> tuple[ColumnLevel, ...]:
        names = [level.name.casefold() for level in levels]
        twice = [place for place, name in enumerate(names) if name in names[:place]]
        if twice:
            found, remedy = f"the level {levels[twice[0]].name!r} twice", "rename one: it names a file"
            refuse([Problem(found, "each name once", remedy, (twice[0],))])
        for place, level in enumerate(levels):
            refuse_formulas(level, (place, "groups"))
        return levels


class Hierarchy(Frozen):
    """Coarser tables that are released with a table, each a sum of the cells of the one below it.

    Args:
        quadtree: the two columns of a mesh, whose blocks double in both directions from level to level.
        levels: of a quadtree: how many resolutions, the mesh itself among them; as many as there are by default.
        nested: columns whose labels group; several columns coarsen in step.
    """

    quadtree: tuple[Label, ...] = ()
    levels: Whole | None = None
    nested: tuple[ColumnLevels, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, written: Any) -> Any:
        """Read {COLUMN: [LEVEL, ...]} where the keys are not those of this model."""
        if not isinstance(written, dict) or not written:
            refuse([Problem(show(written), _FORMS)])
        if not {"quadtree", "nested"} & set(written):
            return {"nested": tuple({"column": name, "levels": levels} for name, levels in written.items())}
        others = sorted(set(map(str, written)) - _KEYS)
        if others:
            remedy = "give the mesh a table of its own, or group the columns without it"
            refuse([Problem(f"`quadtree` beside `{others[0]}`", _FORMS, remedy, (others[0],))])
        return written

    @field_validator("quadtree", "nested", mode="before")
    @classmethod
    def _parse_levels(cls, written: Any) -> Any:
        return as_tuple(written)

    @field_validator("quadtree")
    @classmethod
    def _two_axes(cls, columns: tuple[str, ...]) -> tuple[str, ...]:
        if columns and len(set(columns)) != 2:
            found = f"{len(columns)} columns" if len(set(columns)) == len(columns) else f"{columns[0]!r} twice"
            refuse([Problem(found, "two columns of numbers", "name the two axes of the mesh")])
        return columns

    @field_validator("levels")
    @classmethod
    def _some_levels(cls, levels: int | None) -> int | None:
        if levels is not None and not 2 <= levels <= MOST_LEVELS:
            remedy = "1 would be the table alone: drop the hierarchy" if levels == 1 else ""
            refuse([Problem(str(levels), f"a whole number from 2 to {MOST_LEVELS}", remedy)])
        return levels

    @model_validator(mode="after")
    def _one_kind(self) -> Hierarchy:
        if bool(self.quadtree) == bool(self.nested):
            refuse([Problem("both or neither of `quadtree` and groups", _FORMS)])
        columns = [each.column for each in self.nested]
        if len(set(columns)) < len(columns):
            refuse([Problem("groups of one column in two lists", "each column once", "join the lists", ("nested",))])
        if self.levels is not None and not self.quadtree:
            remedy = "drop it: the groups say how many levels there are"
            refuse([Problem("`levels` without `quadtree`", "`levels` with a quadtree", remedy, ("levels",))])
        return self


def written_form(written: Any, columns: Any) -> Any:
    """Name the columns of a bare `quadtree`: those of its table, if these are two."""
    if not isinstance(written, str):
        return written
    if written != QUADTREE:
        refuse([Problem(show(written), _FORMS, at=("hierarchy",))])
    if not isinstance(columns, list | tuple) or len(columns) != 2:
        found = f"quadtree on a table of {len(columns) if isinstance(columns, list | tuple) else 0} columns"
        remedy = "name the axes: {quadtree: [row, col]}"
        refuse([Problem(found, "a table of two columns of numbers", remedy, ("hierarchy",))])
    return {"quadtree": tuple(columns)}


def hierarchy_schema() -> dict[str, Any]:
    """Describe the written forms, for editors."""
    groups = {"type": "object", "additionalProperties": _TEXTS}
    level = {"type": "object", "properties": {"name": {"type": "string"}, "groups": groups}, "required": ["name"]}
    listed = {"type": "array", "items": {"anyOf": [{"type": "string"}, level]}, "minItems": 1}
    mesh = {"quadtree": {**_TEXTS, "minItems": 2, "maxItems": 2}, "levels": {"type": ["integer", "string"]}}
    return {
        "title": "Hierarchy",
        "description": getdoc(Hierarchy),
        "anyOf": [
            {"const": QUADTREE},
            {"type": "object", "properties": mesh, "required": ["quadtree"], "additionalProperties": False},
            {"type": "object", "additionalProperties": listed, "minProperties": 1},
        ],
    }


# --- How columns coarsen.


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
    longest = max(_value_cells(column) for column in columns)
    most = max(0, (longest - 1).bit_length() - 1)
    depth = most if hierarchy.levels is None else hierarchy.levels - 1
    if not 1 <= depth <= most:
        found = f"{depth + 1} levels for a mesh of {' x '.join(str(_value_cells(column)) for column in columns)} bins"
        allowed = f"2 to {most + 1} levels" if most else "a mesh with more than 2 bins in one direction"
        return [], [Problem(found, allowed, "the coarsest level has more than one block", ("hierarchy", "levels"))]
    return [
        (f"{1 << level}x{1 << level}", {column.name: _blocks(column, level) for column in columns})
        for level in range(1, depth + 1)
    ], []


def _value_cells(column: Column) -> int:
    """Count the cells of an ordered column, without the one for nulls."""
    return column.size - (1 if column.domain.nulls.policy == "category" else 0)


def _blocks(column: Column, level: int) -> GroupingAxis:
    """Join 2^level neighbouring bins; a cell for nulls stays by itself."""
    count = _value_cells(column)
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


FORMS: Final = "bins of numbers (0..99 by 10), a calendar period (month), or groups ({GROUP: [LABEL, ...], ...})"
_NAME: Final = "bins"
_COMMA: Final = "put quotes around bins that have a comma: a comma ends a text within { }"


class ColumnBins(Frozen):
    """The coarser cells of one column: bins or a period as they are written, or groups of its labels."""

    column: Label
    written: Label | None = None
    level: ColumnLevel | None = None

    @model_validator(mode="after")
    def _in_one_form(self) -> ColumnBins:
        """Keep to one form, and to names that say what they are: they are read on the page and in spreadsheets."""
        if (self.written is None) == (self.level is None) or self.level not in (None, self._named()):
            refuse([Problem("bins in no form, or in two", FORMS, at=(self.column,))])
        if self.level is not None:
            refuse_formulas(self.level, (self.column,))
        for label, children in () if self.level is None else self.level.groups:
            if label == NULL_LABEL and children != (NULL_LABEL,):
                remedy = "rename the group: that is the label of missing values"
                refuse([Problem(f"a group {NULL_LABEL} of others", "any other name", remedy, (self.column,))])
        return self

    def _named(self) -> ColumnLevel | None:
        return None if self.level is None else self.level.model_copy(update={"name": _NAME})

    @property
    def words(self) -> str:
        """The column and its bins, as people read them."""
        groups = () if self.level is None else (label for label, _ in self.level.groups)
        return f"{self.column}: {self.written or ', '.join(groups)}"


def _as_bins(written: Any) -> Any:
    """Read {COLUMN: BINS, ...}; what was read already stays what it is."""
    if isinstance(written, list | tuple):
        return tuple(written)
    if not isinstance(written, dict) or not written:
        refuse([Problem(show(written), "a mapping of column: bins", "write bins: {age: 0..99 by 10}")])
    return tuple(_entry(name, bins) for name, bins in written.items())


def _entry(name: Any, bins: Any) -> Any:
    if isinstance(bins, dict) and bins:
        return {"column": name, "level": {"name": _NAME, "groups": bins}}
    if not isinstance(bins, str) or not bins.strip():
        refuse([Problem(show(bins), FORMS, _COMMA if bins is None else "", (name,))])
    return {"column": name, "written": " ".join(bins.split())}


_GROUPS: Final = {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string"}}}
_SCHEMA: Final = {"type": "object", "additionalProperties": {"anyOf": [{"type": "string"}, _GROUPS]}}
TableBins = Annotated[tuple[ColumnBins, ...], BeforeValidator(_as_bins), WithJsonSchema(_SCHEMA)]


def binned(bins: ColumnBins, column: Column) -> tuple[GroupingAxis, list[Problem]]:
    """Return a column in its coarser cells.

    Args:
        bins: as the spec declares them.
        column: of the contract.
    Returns:
        tuple: the coarser cells; what is wrong, with `at` below the table.
    """
    at: FieldPath = ("bins", column.name)
    axis, whose = untouched(column), f"column {column.name}"
    if bins.level is not None:
        axis, problems = grouped(bins.level, axis, whose, at)
    elif bins.written is not None and column.domain.resolution is not None:
        axis, problems = in_periods(ColumnLevel(name=bins.written), column, column.domain.resolution, at)
    elif bins.written is not None and column.ordered and column.domain.block_label(0, 0) is not None:
        axis, problems = _in_bins(bins.written, column, at)
    else:
        remedy = f"group its labels: {{{column.name}: {{GROUP: [LABEL, ...], ...}}}}"
        problems = [Problem(f"{bins.written!r} of {whose}, which holds no numbers or days", FORMS, remedy, at)]
    if not problems and axis.size >= column.size:
        found = f"{axis.size} cells for the {column.size} of {whose}"
        problems = [Problem(found, "fewer cells than the contract has", "drop the bins, or widen them", at)]
    return axis, problems


def _in_bins(written: str, column: Column, at: FieldPath) -> tuple[GroupingAxis, list[Problem]]:
    """Join neighbouring bins of the contract."""
    from contracts.contract.short_form import ShortColumn  # few tables have bins of their own

    read = ShortColumn(YamlNode(0, text=written, plain=True)).written_out()
    problems = [Problem(each.found, each.allowed, each.remedy, at) for _, each in read.problems]
    if problems or "bins" not in read.domain or "bounds" not in read.domain:
        return untouched(column), problems or [Problem(show(written), FORMS, at=at)]
    reader, domain = DECIMALS if column.domain.half_open else INTEGERS, column.domain
    try:
        bounds = [reader.parse(item.text) for item in read.domain["bounds"][1].items or ()]
        low, high = domain.extremes
        if bounds != [low, high]:
            found, allowed = (
                f"bins from {bounds[0]} to {bounds[1]}",
                f"bins from {low} to {high}, the contract's bounds",
            )
            return untouched(column), [Problem(found, allowed, f"write {low}..{high} by WIDTH", at)]
        pairs = reader.read(_plain(read.domain["bins"][1]), (low, high))
    except PydanticCustomError as error:
        refused = (error.context or {})["problems"]
        return untouched(column), [Problem(each.found, each.allowed, each.remedy, at) for each in refused]
    return _joined([start for start, _ in pairs], column, at)


def _joined(starts: list[ExactNumber], column: Column, at: FieldPath) -> tuple[GroupingAxis, list[Problem]]:
    """Give each bin of the contract to the wider one that it lies in; none may lie in two."""
    fine = [start for start, _ in column.domain.axis]
    cut = [start for start in starts if start not in set(fine)]
    if cut:
        inside = bisect_right(fine, cut[0]) - 1
        found = f"a bin from {cut[0]}, which cuts the contract's {column.labels[inside]!r} of {column.name}"
        near = nearest(str(cut[0]), [str(start) for start in fine])
        remedy = near or "let each bin begin where one of the contract begins, or make the contract's bins finer"
        return untouched(column), [Problem(found, "bins that are made of whole cells of the contract", remedy, at)]
    return joined_axis(column, [fine.index(start) for start in starts]), []


def joined_axis(column: Column, firsts: Sequence[int]) -> GroupingAxis:
    """Return a column of numbers or days whose neighbouring bins are joined.

    Args:
        column: of the contract; a cell for missing values stays by itself.
        firsts: the first bin of each joined one, rising from 0.
    """
    bins = len(column.domain.axis)
    codes = [bisect_right(firsts, code) - 1 for code in range(bins)]
    ends = pairwise([*firsts, bins])
    labels = [_joined_label(column, first, end - 1) for first, end in ends]
    if column.size > bins:
        return GroupingAxis((*labels, NULL_LABEL), (*codes, len(labels)))
    return GroupingAxis(tuple(labels), tuple(codes))


def _joined_label(column: Column, first: int, last: int) -> str:
    """Name joined bins as the contract names its cells: by the ends of numbers, or by the first and last label."""
    if first == last:
        return column.labels[first]
    return column.domain.block_label(first, last) or f"{column.labels[first]} to {column.labels[last]}"


def _plain(node: YamlNode) -> Any:
    """Return the written bins as values."""
    if node.entries is not None:
        return {key: _plain(value) for key, (_, value) in node.entries.items()}
    return [_plain(item) for item in node.items] if node.items is not None else node.text
