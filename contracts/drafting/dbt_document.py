"""A sketch from a dbt properties file (`schema.yml`): models, seeds, snapshots and sources with their columns.

Read: `data_type`, `description`, the tests `accepted_values`, `not_null`, `unique` and `relationships` (under
`data_tests:` or `tests:`, with or without `arguments:`), `accepted_range` of dbt_utils, and `constraints`. Accepted
values and ranges are taken over as declared, to be checked. No test is run, and no table that one refers to is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from contracts.drafting.logical_types import logical_type_of
from contracts.drafting.sketch import ROW_ID, ColumnSketch, TableSketch, chosen
from contracts.reading.yaml_lines import Document, shown

_GROUPS = ("models", "seeds", "snapshots")
_RANGES = ("accepted_range", "expect_column_values_to_be_between")
_LIMITS = ("min_value", "max_value")
Test = tuple[str, dict[str, Any]]


def describes_dbt(document: Document) -> bool:
    """Say whether a file looks like a dbt properties file."""
    return any(group in (document.root.entries or {}) for group in (*_GROUPS, "sources"))


def sketch_of_dbt(document: Document, table: str | None) -> TableSketch:
    """Sketch one model, seed, snapshot or source table.

    Args:
        document: the properties file.
        table: its name; the only one without it.
    Raises:
        DraftRefused: there is no such table, or several and none is named.
    """
    where, tables = shown(document.path), list(_tables(document.text()))
    one = tables[chosen([str(each.get("name")) for each in tables], table, where=where)]
    read = [_column(entry, document.path.name) for entry in map(_entries, _items(one["columns"]))]
    description = _text(one.get("description"))
    return TableSketch(
        name=str(one.get("name")),
        columns=tuple(column for column, _ in read),
        origin=f"the dbt file {document.path.name}",
        description={} if description is None else {"purpose": description},
        hints=tuple(f"{column.name} {about}" for column, about in read if about),
    )


def _tables(tree: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every entry that lists columns."""
    listed = [each for group in _GROUPS for each in _items(tree.get(group))]
    listed += [each for source in _items(tree.get("sources")) for each in _items(_entries(source).get("tables"))]
    yield from (_entries(each) for each in listed if _items(_entries(each).get("columns")))


def _column(entry: dict[str, Any], file: str) -> tuple[ColumnSketch, str]:
    """Sketch a column; also say what its tests tell about whose rows these are, or ""."""
    name, stated, tests = str(entry.get("name")), _text(entry.get("data_type")), list(_tests(entry))
    logical = logical_type_of(stated)
    accepted = next((_items(given.get("values")) for test, given in tests if test == "accepted_values"), [])
    values = tuple(dict.fromkeys(value for value in accepted if isinstance(value, str)))
    bounds = _bounds(tests) if logical in ("integer", "number") and not values else None
    test = "accepted_values" if values else "accepted_range" if bounds else ""
    column = ColumnSketch(
        name=name,
        logical_type=logical,
        description=_text(entry.get("description")),
        values=values,
        bounds=bounds,
        origin=f"{file}, test {test} of {name}" if test else "",
        hints=tuple(_hints(stated, tests)),
    )
    return column, _about_units(tests)


def _tests(entry: dict[str, Any]) -> Iterator[Test]:
    """Every test and constraint of a column: its name without the package, and its arguments."""
    for test in [*_items(entry.get("data_tests")), *_items(entry.get("tests"))]:
        if isinstance(test, str):
            yield test.rpartition(".")[2], {}
        elif isinstance(test, dict):
            named = _text(test.get("test_name"))
            name, given = (named, test) if named else next(iter(test.items()), ("", {}))
            given = _entries(given)
            yield str(name).rpartition(".")[2], {**given, **_entries(given.get("arguments"))}
    for constraint in map(_entries, _items(entry.get("constraints"))):
        kind = str(constraint.get("type"))
        yield {"foreign_key": "relationships"}.get(kind, kind), constraint


def _bounds(tests: list[Test]) -> tuple[str, str] | None:
    for name, given in tests:
        if name in _RANGES and all(_text(given.get(key)) for key in _LIMITS):
            return str(given["min_value"]), str(given["max_value"])
    return None


def _hints(stated: str | None, tests: list[Test]) -> Iterator[str]:
    names = {name for name, _ in tests}
    if stated is not None and logical_type_of(stated) is None:
        yield f"Its type is {stated}, which a contract has no domain for: leave it out or convert it by `select:`."
    if "not_null" in names:
        yield "dbt tests that it is never null; a value that cannot be read is missing all the same."
    for name, given in tests:
        if name == "check" and _text(given.get("expression")):
            yield f"dbt checks: {given['expression']}"
    if names & {"unique", "primary_key"}:
        yield ROW_ID


def _about_units(tests: list[Test]) -> str:
    """Say what the tests of a column tell about whose rows these are."""
    names = {name for name, _ in tests}
    target = next((_target(given) for name, given in tests if name == "relationships"), None)
    if target is not None:
        return (
            f"refers to {target}: if one of them may have several rows here, they may be the unit; then write "
            f"kind: id and "
            "remove its domain."
        )
    return "is unique, so that it is the id of a row, not of somebody." if names & {"unique", "primary_key"} else ""


def _target(arguments: dict[str, Any]) -> str:
    fields = _text(arguments.get("field")) or ", ".join(map(str, _items(arguments.get("to_columns"))))
    return f"{arguments.get('to', 'another table')}{f', {fields}' if fields else ''}"


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def _entries(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
