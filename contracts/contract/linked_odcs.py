"""Contracts of linked tables on disk: several tables in one file, and one `privacy` block above them all.

    customProperties:                       of the whole file, beside `schema`
      - property: privacy
        value:
          unit: {kind: id, table: household, column: household_id, max_rows_per_unit: 1, scope: block}
          adjacency: add_remove
          links: [{from: person.household_id, to: household.household_id, at_most: 8}]

A column of a table is a key (it stands in a link, or is the unit's id, and has no domain), has a `domain` block, or
has a `derived` block beside its domain. The parts of one column are read as those of any contract are.
"""

from __future__ import annotations

from typing import Any, Protocol

from pydantic import TypeAdapter, ValidationError

from contracts.contract.column import Column
from contracts.contract.contract import Contract
from contracts.contract.derivation import Derivation
from contracts.contract.flattening import flat_terms
from contracts.contract.link_checks import TABLES, link_problems, name_problems
from contracts.contract.linked_tables import LinkedTable, LinkedTables, LinkedTerms, RowKey
from contracts.errors import Finding
from contracts.reading.scalars import FieldPath, Label, Problem
from contracts.reading.validation_errors import from_validation
from contracts.reading.yaml_lines import Document

_PRIVACY = "privacy"


class OdcsReading(Protocol):
    """The reading of one file, as `contracts.contract.odcs` does it."""

    document: Document
    findings: list[Finding]
    _text: dict[str, Any]

    def _add(self, at: FieldPath, problem: Problem) -> None: ...
    def _name(self, at: FieldPath) -> str: ...
    def _header(self) -> dict[str, Any]: ...
    def _validated(self, adapter: TypeAdapter[Any], model: Any, at: FieldPath, value: Any) -> Any: ...
    def _block(self, at: FieldPath, holder: dict[str, Any], block: str) -> FieldPath | None: ...
    def _column(
        self, at: FieldPath, written: dict[str, Any], name: str | None, table: dict[str, Any]
    ) -> Column | None: ...


def _entries(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def read_linked(reading: OdcsReading) -> Contract | None:
    """Read the tables and what links them.

    Args:
        reading: the reading of the file; it collects the findings.
    Returns:
        The contract over the unit's table as the base; None when there are findings.
    """
    block, terms = _terms(reading)
    tables = [_table(reading, place, entry, terms) for place, entry in enumerate(_items(reading._text.get("schema")))]
    if len(tables) < 2:
        found, remedy = f"{len(tables)} tables", "add the other tables, or put the `privacy` block into the table"
        reading._add(("schema",), Problem(found, "two tables or more below a `privacy` block of the file", remedy))
    if terms is not None and len(tables) > 1:
        for problem in name_problems(terms, _written_names(reading)):
            reading._add(block, problem)
    named = [table for table in tables if table is not None]
    if terms is None or reading.findings or len(named) < len(tables):
        return None
    linked = LinkedTables(tables=tuple(named), terms=terms)
    for problem in link_problems(linked):
        reading._add(*_placed(reading, block, problem))
    if reading.findings:
        return None
    fields = {**reading._header(), **flat_terms(linked, terms.unit.table), "linked": linked}
    contract: Contract | None = reading._validated(TypeAdapter(Contract), Contract, (), fields)
    return contract


def _written_names(reading: OdcsReading) -> list[tuple[str, list[str]]]:
    """Return the name of each table and those of its properties, as they are written."""
    tables = [_entries(table) for table in _items(reading._text.get("schema"))]
    return [
        (str(table.get("name")), [str(_entries(each).get("name")) for each in _items(table.get("properties"))])
        for table in tables
    ]


def _placed(reading: OdcsReading, block: FieldPath, problem: Problem) -> tuple[FieldPath, Problem]:
    """Place a problem of the links in the file: below the privacy block, or below the column that it is about."""
    if problem.at[:1] != (TABLES,):
        return block, problem
    _, place, name, *rest = problem.at
    table = _items(reading._text.get("schema"))[int(place)]
    spots = [_entries(each).get("name") for each in _items(table.get("properties"))]
    at: FieldPath = ("schema", int(place), "properties", spots.index(name))
    if rest[:1] == ["derived"]:
        at = (*(reading._block(at, table["properties"][spots.index(name)], "derived") or at), *rest[1:])
    return at, Problem(problem.found, problem.allowed, problem.remedy)


def _terms(reading: OdcsReading) -> tuple[FieldPath, LinkedTerms | None]:
    """Read the privacy block of the file; None, and findings, where it is refused."""
    at = reading._block((), reading._text, _PRIVACY)
    if at is None:
        return (), None
    value = _items(reading._text["customProperties"])[int(at[-2])].get("value")
    try:
        return at, LinkedTerms.model_validate(value)
    except ValidationError as error:
        reading.findings += from_validation(reading.document, at, error, LinkedTerms, reading._name)
        return at, None


def _table(reading: OdcsReading, place: int, written: Any, terms: LinkedTerms | None) -> LinkedTable | None:
    """Read one table; None where a part of it is refused."""
    at: FieldPath = ("schema", place)
    table, before = _entries(written), len(reading.findings)
    name = reading._validated(TypeAdapter(Label), None, (*at, "name"), table.get("name"))
    own = reading._block(at, table, _PRIVACY)
    if own is not None:
        remedy = "drop it: the block of the file is about all tables"
        reading._add(own, Problem("a `privacy` block of one of several tables", "one for all of them", remedy))
    if not _items(table.get("properties")):
        reading._add((*at, "properties"), Problem("no properties", "at least one column"))
    keys, columns, derived = list[RowKey](), list[Column](), list[tuple[str, Derivation]]()
    links = set() if terms is None else _key_names(terms, str(name))
    seen: dict[str, str] = {}
    for spot, entry in enumerate(_items(table.get("properties"))):
        path = (*at, "properties", spot)
        part = _part(reading, path, _entries(entry), links, seen)
        if isinstance(part, RowKey):
            keys.append(part)
        elif part is not None:
            columns.append(part[0])
            derived += [] if part[1] is None else [(part[0].name, part[1])]
    if len(reading.findings) > before or name is None:
        return None
    return LinkedTable(name=name, row_keys=tuple(keys), columns=tuple(columns), derived=tuple(derived))


def _key_names(terms: LinkedTerms, table: str) -> set[str]:
    """Name the columns of a table that links or the unit are about."""
    names = {link.child_column for link in terms.links if link.child == table}
    names |= {link.parent_column for link in terms.links if link.parent == table}
    return names | ({str(terms.unit.column)} if terms.unit.table == table else set())


def _part(
    reading: OdcsReading, at: FieldPath, written: dict[str, Any], keys: set[str], seen: dict[str, str]
) -> RowKey | tuple[Column, Derivation | None] | None:
    """Read one property: a key, or a column with how it is derived, if it is."""
    name = reading._validated(TypeAdapter(Label), None, (*at, "name"), written.get("name"))
    if name is not None and name.casefold() in seen:
        allowed = "names that differ in more than upper and lower case"
        reading._add((*at, "name"), Problem(f"{name!r} beside {seen[name.casefold()]!r}", allowed, "rename one"))
    if name is not None:
        seen.setdefault(name.casefold(), name)
    if name in keys and reading._block(at, written, "domain") is None:
        fields = {"name": name, "logical_type": written.get("logicalType")}
        key: RowKey | None = reading._validated(TypeAdapter(RowKey), RowKey, at, fields)
        return key
    column = reading._column(at, written, name, {})
    block = reading._block(at, written, "derived")
    derived = None
    if block is not None:
        value = _items(written["customProperties"])[int(block[-2])].get("value")
        derived = reading._validated(TypeAdapter(Derivation), Derivation, block, value)
    return None if column is None else (column, derived)
