"""A table's hierarchy as a spec declares it: a mesh with blocks of growing size, or columns whose labels group.

It is written as one of

    hierarchy: quadtree                                 # a table of two columns of numbers
    hierarchy: {quadtree: [row, col], levels: 4}        # 4 resolutions, the table itself among them
    hierarchy:
      place:                                            # from the finest grouping to the coarsest
        - {name: prefecture, groups: {Tokyo: [Minato, Shibuya], Chiba: [Funabashi]}}
        - {name: region, groups: {Kanto: [Tokyo, Chiba]}}
      month: [quarter, year]                            # calendar periods of a date column

What it means on the columns of a contract is for `contracts.release.tables.levels`.
"""

from __future__ import annotations

from inspect import getdoc
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, field_validator, model_validator

from contracts.contract.spreadsheet import is_formula
from contracts.domains.domain_terms import Frozen
from contracts.reading.scalars import FieldPath, Label, Problem, Whole, as_tuple, refuse, show

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
