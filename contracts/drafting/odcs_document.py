"""A sketch from a data contract (Open Data Contract Standard 3) that says nothing about privacy yet.

Taken over as declared, to be checked: `enum`, the `validValues` of a quality rule, `logicalTypeOptions.minimum` and
`maximum`, and how texts write days (`format`). Left out: `examples`, which may be values of real rows.
"""

from __future__ import annotations

from typing import Any, get_args

from contracts.contract.column import LogicalType
from contracts.domains.notation import format_of_java
from contracts.drafting.logical_types import logical_type_of
from contracts.drafting.sketch import ROW_ID, ColumnSketch, TableSketch, chosen
from contracts.reading.yaml_lines import Document, shown

_OURS = frozenset({"privacy", "domain"})
_HEADER = frozenset({"apiVersion", "kind", "id", "name", "version", "status", "description", "schema"})
_OF_TABLE = frozenset({"name", "properties", "customProperties", "logicalType", "physicalType"})
_OF_COLUMN = frozenset({"name", "logicalType", "description", "examples", "customProperties"})
_TYPES: tuple[LogicalType, ...] = get_args(LogicalType)


def sketch_of_contract(document: Document, table: str | None) -> TableSketch:
    """Sketch one table of a data contract.

    Args:
        document: the file.
        table: its name; the only one without it.
    Raises:
        DraftRefused: there is no such table, or several and none is named.
    """
    where, tree = shown(document.path), document.typed()
    tables = [_entries(each) for each in _items(tree.get("schema")) if _items(_entries(each).get("properties"))]
    one = tables[chosen([str(each.get("name")) for each in tables], table, where=where)]
    columns = tuple(_column(_entries(each)) for each in _items(one["properties"]))
    return TableSketch(
        name=str(one.get("name")),
        columns=columns,
        origin=f"the data contract {document.path.name}",
        identifier=_text(tree.get("id")),
        title=_text(tree.get("name")),
        description=_entries(tree.get("description")),
        hints=tuple(f"{column.name}: {hint}" for column in columns for hint in column.hints if hint == ROW_ID),
        kept={key: value for key, value in tree.items() if key not in _HEADER},
        kept_of_table={key: value for key, value in one.items() if key not in _OF_TABLE},
    )


def _column(entry: dict[str, Any]) -> ColumnSketch:
    stated = _text(entry.get("logicalType")) or _text(entry.get("physicalType"))
    logical = stated if stated in _TYPES else logical_type_of(stated)
    values, values_from = _values(entry)
    bounds = _bounds(entry) if logical in ("integer", "number", "date") and not values else None
    custom = [each for each in _items(entry.get("customProperties")) if _entries(each).get("property") not in _OURS]
    kept = {key: value for key, value in entry.items() if key not in _OF_COLUMN}
    return ColumnSketch(
        name=str(entry.get("name")),
        logical_type=logical,
        description=_text(entry.get("description")),
        values=values,
        bounds=bounds,
        form=_form(entry) if logical == "date" else None,
        origin=values_from if values else "logicalTypeOptions (minimum, maximum)" if bounds else "",
        hints=tuple(_hints(entry, stated, logical)),
        kept={**kept, **({"customProperties": custom} if custom else {})},
    )


def _values(entry: dict[str, Any]) -> tuple[tuple[str, ...], str]:
    """The categories that a property declares, and under which key."""
    listed = [each.get("value") if isinstance(each, dict) else each for each in _items(entry.get("enum"))]
    if listed:
        return _texts(listed), "`enum`"
    for rule in map(_entries, _items(entry.get("quality"))):
        valid = _items(_entries(rule.get("arguments")).get("validValues")) or _items(rule.get("validValues"))
        if valid:
            return _texts(valid), "the quality rule `validValues`"
    return (), ""


def _bounds(entry: dict[str, Any]) -> tuple[str, str] | None:
    options = _entries(entry.get("logicalTypeOptions"))
    low, high = options.get("minimum"), options.get("maximum")
    return None if low is None or high is None else (str(low), str(high))


def _form(entry: dict[str, Any]) -> str | None:
    """How texts write days, where the standard's `logicalTypeOptions.format` says another way than YYYY-MM-DD."""
    form = format_of_java(str(_entries(entry.get("logicalTypeOptions")).get("format")))
    return None if form == "%Y-%m-%d" else form


def _hints(entry: dict[str, Any], stated: str | None, logical: str | None) -> list[str]:
    hints = []
    if logical is None and stated is not None:
        hints.append(
            f"Its type is {stated}, which a contract has no domain for: leave it out or convert it by `select:`."
        )
    if entry.get("unique") is True or entry.get("primaryKey") is True:
        hints.append(ROW_ID)
    if _items(entry.get("relationships")):
        hints.append(
            "It refers to another table: if that is a table of people, this is their id (`unit`), not a category."
        )
    if _items(entry.get("examples")):
        hints.append("`examples` were not taken over: they may be values of real rows.")
    return hints


def _texts(values: list[Any]) -> tuple[str, ...]:
    """Write declared values as texts, each once; nulls go."""
    written = [str(value).lower() if isinstance(value, bool) else str(value) for value in values if value is not None]
    return tuple(dict.fromkeys(written))


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def _entries(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
