"""Rows of one table that are not the contract's cells: coarser ones by `bins:`, ranges of cells by `queries:`.

Bins are unions of cells that the contract declares.

    bins:
      age: 0..99 by 10                      # or 0..99 at 18, 65: numbers, in the contract's own short form
      day: month                            # calendar periods of a date column
      area: {urban: ["1", "2"], rural: ["3"]}   # labels in groups; every label of the column is in one

Bins of numbers cover the column's bounds, and none of them cuts a cell of the contract. A cell for missing values
stays by itself, but where groups name it.

    queries:
      age: prefix           # from the first cell up to each cell
      hours: range          # from each cell up to each later one
      day: hierarchy        # blocks of 1, 2, 4, ... neighbouring cells
      wage: identity        # each cell by itself, as without `queries`, but planned with the others

A table of one column may write the word alone. Which ranges these are on a contract is for `range_cells`, and a cell
for missing values stays by itself there too.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import BeforeValidator, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from contracts.contract.column import Column
from contracts.domains.bins import DECIMALS, INTEGERS, ExactNumber
from contracts.domains.domain_terms import NULL_LABEL, Frozen
from contracts.reading.scalars import FieldPath, Label, Problem, nearest, refuse, show, word_list
from contracts.reading.yaml_lines import YamlNode
from contracts.release.tables.groupings import GroupingAxis, grouped, in_periods, untouched
from contracts.release.tables.table_hierarchy import ColumnLevel, refuse_formulas

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
    from contracts.contract.short_column import ShortColumn  # few tables have bins of their own

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
    labels = [range_label(column, column.labels, first, end - 1) for first, end in ends]
    if column.size > bins:
        return GroupingAxis((*labels, NULL_LABEL), (*codes, len(labels)))
    return GroupingAxis(tuple(labels), tuple(codes))


def range_label(column: Column, labels: Sequence[str], first: int, last: int) -> str:
    """Name a range as the contract names its cells: by the ends of numbers, or by its first and last label."""
    if first == last:
        return labels[first]
    return column.domain.block_label(first, last) or f"{labels[first]} to {labels[last]}"


def _plain(node: YamlNode) -> Any:
    """Return the written bins as values."""
    if node.entries is not None:
        return {key: _plain(value) for key, (_, value) in node.entries.items()}
    return [_plain(item) for item in node.items] if node.items is not None else node.text


QueryKind = Literal["prefix", "range", "hierarchy", "identity"]
KINDS: Final[tuple[QueryKind, ...]] = get_args(QueryKind)


class ColumnQueries(Frozen):
    """The queries over one column."""

    column: Label
    kind: QueryKind

    @property
    def words(self) -> str:
        """The column and its queries, as people read them."""
        return f"{self.column}: {self.kind}"


def _as_queries(written: Any) -> Any:
    """Read {COLUMN: KIND, ...}; what was read already stays what it is."""
    if isinstance(written, list | tuple):
        return tuple(written)
    if not isinstance(written, dict) or not written:
        remedy = "write queries: {age: prefix}"
        refuse([Problem(show(written), "a mapping of column: " + ", ".join(KINDS), remedy)])
    problems = [
        Problem(show(kind), word_list(KINDS), nearest(str(kind), KINDS), (name,))
        for name, kind in written.items()
        if kind not in KINDS
    ]
    if problems:
        refuse(problems)
    return tuple({"column": name, "kind": kind} for name, kind in written.items())


def written_queries(written: Any, columns: Any) -> Any:
    """Write a word alone as the queries of the one column that a table has."""
    if not isinstance(written, str):
        return written
    if not isinstance(columns, list | tuple) or len(columns) != 1:
        remedy = f"say of which column: {{COLUMN: {written}}}"
        refuse(
            [Problem(f"`queries: {written}` of several columns", "a mapping of column: kind", remedy, ("queries",))]
        )
    return {columns[0]: written}


_QUERY_SCHEMA: Final = {
    "anyOf": [
        {"type": "string", "enum": list(KINDS)},
        {"type": "object", "minProperties": 1, "additionalProperties": {"type": "string", "enum": list(KINDS)}},
    ]
}
TableQueries = Annotated[tuple[ColumnQueries, ...], BeforeValidator(_as_queries), WithJsonSchema(_QUERY_SCHEMA)]


def default_name(columns: Sequence[Any], queries: Any) -> str:
    """Name a table after its columns, and after the queries over them."""
    asked = queries if isinstance(queries, dict) else {}
    return "_x_".join(f"{name}_{asked[name]}" if name in asked else str(name) for name in columns)
