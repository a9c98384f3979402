"""Contracts on disk: Open Data Contract Standard 3 files with our `privacy` and `domain` blocks.

The standard's own models check the standard's part (and pass over unknown nested keys, which are checked here);
our blocks stand in `customProperties` and know every key. All findings of a file are reported at once:

1. the file is YAML with a mapping at the top;
2. it is a data contract of version 3 with exactly one table, or with tables that are linked
   (`contracts.contract.odcs`);
3. the table's `privacy` block and each property's `domain` block are complete, and nothing in them is a placeholder;
4. seen together they do not contradict each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol, get_args

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError

from contracts.contract.column import Column, LogicalType, misfits
from contracts.contract.contract import Contract
from contracts.contract.linked import TABLES, flat_terms, link_problems, name_problems
from contracts.contract.linked_tables import Derivation, LinkedTable, LinkedTables, LinkedTerms, RowKey
from contracts.contract.short_form import contract_document
from contracts.contract.terms import PrivacyTerms, contradictions
from contracts.domains.kinds import Domain, domain_model
from contracts.errors import ContractRefused, Finding
from contracts.reading.findings import dotted, from_problem, from_validation, unknown_key
from contracts.reading.placeholders import placeholders, undeclared
from contracts.reading.scalars import FieldPath, Label, Problem, nearest, show
from contracts.reading.yaml_lines import Document

_LOGICAL_TYPES: tuple[str, ...] = get_args(LogicalType)
_TABLE: FieldPath = ("schema", 0)
_LABEL: TypeAdapter[Any] = TypeAdapter(Label)
_DOMAIN: TypeAdapter[Any] = TypeAdapter(Domain)
"""Built once, and not for each column: that took longer than all else of a contract's reading."""


def load_contract(path: Path) -> Contract:
    """Read, check and freeze a contract.

    Args:
        path: an ODCS 3 YAML file, or a short contract (`contracts.contract.short_form`).
    Returns:
        The contract.
    Raises:
        ContractRefused: with every finding; each names file, line and field, what was found, what is allowed.
    """
    reading = _OdcsReader(contract_document(path))
    contract = reading.contract()
    findings = reading.with_undeclared()
    if findings or contract is None:
        raise ContractRefused(sorted(set(findings), key=_position))
    return contract


def _position(finding: Finding) -> tuple[int, str]:
    """Order findings as their lines stand in the file."""
    line = finding.where.rpartition(":")[2]
    return (int(line) if line.isdigit() else 0, finding.field)


def _entries(value: Any) -> dict[str, Any]:
    """Return a mapping as it is and anything else as an empty one (the standard's models name the mistake)."""
    return value if isinstance(value, dict) else {}


def _items(value: Any) -> list[Any]:
    """Return a list as it is and anything else as an empty one."""
    return value if isinstance(value, list) else []


class _OdcsReader:
    """One reading of one file: collects findings, and the parts that could be read."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.findings: list[Finding] = []
        self._text = document.text()
        self._blocks: dict[FieldPath, FieldPath] = {}

    def contract(self) -> Contract | None:
        """Read the whole file; None when there are findings."""
        self._check_standard()
        self._check_header()
        if self._block((), self._text, "privacy") is not None:
            pass  # few files have linked tables

            return read_linked(self)
        table = self._table()
        block, terms = self._terms(table)
        columns = list(self._columns(table))
        declared = [str(_entries(entry).get("name")) for entry in _items(table.get("properties"))]
        for problem in contradictions(terms, columns, declared):
            self._add(block, problem)
        if self.findings:
            return None
        fields = {"columns": tuple(columns), "table": table["name"], **self._header(), **dict(terms)}
        contract: Contract | None = self._validated(TypeAdapter(Contract), Contract, (), fields)
        return contract

    def with_undeclared(self) -> list[Finding]:
        """Return the findings with one for each placeholder, in place of what else was said of that field."""
        paths = list(placeholders(self.document))
        asked = [from_problem(self.document, at, self._undeclared(at), self._name) for at in paths]
        fields = {finding.field for finding in asked}
        return asked + [finding for finding in self.findings if finding.field not in fields]

    def _undeclared(self, at: FieldPath) -> Problem:
        """Say what belongs in the place of a placeholder; of a whole column, in which forms it is declared."""
        written = self.document.written(at)
        short = written != at and written[0] in ("columns", "defaults")
        asked = {"kind": "columns", "bins": "range", "nulls": "defaults.nulls", "policy": "defaults.nulls"}
        known = short and (at[-1] != "kind" or written[0] == "columns")
        return undeclared(at, asked.get(str(at[-1]), self._long_name(at)) if known else self._long_name(at))

    def _header(self) -> dict[str, Any]:
        header = {key: self._text[key] for key in ("apiVersion", "id", "version")}
        described = _entries(self._text.get("description"))
        description = {key: text for key, text in described.items() if isinstance(text, str)}
        return {**header, "name": self._text.get("name") or header["id"], "description": description}

    def _add(self, at: FieldPath, problem: Problem) -> None:
        self.findings.append(from_problem(self.document, at, problem, self._name))

    def _name(self, at: FieldPath) -> str:
        """Write a path as the file has it; see `_long_name` for the long form."""
        written = self.document.written(at)
        return self._long_name(at) if written == at else dotted(written)

    def _long_name(self, at: FieldPath) -> str:
        """Write a path with `privacy` or `domain` in place of the customProperties entry that holds it."""
        for length in range(1, len(at) + 1):
            shorter = self._blocks.get(at[:length])
            if shorter is not None:
                return dotted((*shorter, *at[length:]))
        return dotted(at)

    def _validated(self, adapter: TypeAdapter[Any], model: Any, at: FieldPath, value: Any) -> Any:
        """Validate a block; None, and findings, when it is refused."""
        try:
            return adapter.validate_python(value)
        except ValidationError as error:
            self.findings += from_validation(self.document, at, error, model, self._name)
            return None

    def _check_standard(self) -> None:
        """Check the standard's own part by its own models, and nested keys that these would pass over."""
        from open_data_contract_standard.model import (
            CustomProperty,
            Description,
            OpenDataContractStandard,
            SchemaObject,
            SchemaProperty,
        )

        try:
            OpenDataContractStandard.model_validate(self.document.typed())
        except ValidationError as error:
            self.findings += from_validation(self.document, (), error, OpenDataContractStandard)
        self._unknown_keys((("description",), self._text.get("description")), Description)
        for place, table in enumerate(_items(self._text.get("schema"))):
            at: FieldPath = ("schema", place)
            self._unknown_keys((at, table), SchemaObject)
            holders = [(at, table)]
            for spot, entry in enumerate(_items(_entries(table).get("properties"))):
                holders.append(((*at, "properties", spot), entry))
                self._unknown_keys(holders[-1], SchemaProperty)
            for holder, entry in holders:
                for spot, custom in enumerate(_items(_entries(entry).get("customProperties"))):
                    self._unknown_keys(((*holder, "customProperties", spot), custom), CustomProperty)

    def _unknown_keys(self, placed: tuple[FieldPath, Any], model: Any) -> None:
        """Name the keys of one block of the standard that the standard does not have."""
        at, block = placed
        known = [field.alias or name for name, field in model.model_fields.items()]
        for key in _entries(block):
            if key not in known:
                self._add((*at, key), unknown_key(key, known))

    def _check_header(self) -> None:
        """Check what the standard requires but its models leave optional."""
        for key in ("apiVersion", "kind", "id", "version"):
            if self._text.get(key) is None:
                self._add((key,), Problem("nothing", f"the key `{key}`, which is required", f"add `{key}:`"))
        version, kind = self._text.get("apiVersion"), self._text.get("kind")
        if isinstance(version, str) and version not in _VERSIONS:
            allowed = "one of " + ", ".join(_VERSIONS)
            self._add(("apiVersion",), Problem(show(version), allowed, nearest(version, _VERSIONS)))
        if isinstance(kind, str) and kind != "DataContract":
            self._add(("kind",), Problem(show(kind), "DataContract"))

    def _table(self) -> dict[str, Any]:
        """Return the one table, empty if there is none to read."""
        tables = _items(self._text.get("schema"))
        if len(tables) != 1:
            apart = "write one contract a table, or link them by a `privacy` block above them (docs/linked-tables.md)"
            remedy = apart if tables else "add `schema:` with one table"
            self._add(("schema",), Problem(f"{len(tables)} tables", "exactly one table", remedy))
        table = _entries(tables[0]) if tables else {}
        if tables:
            self._validated(_LABEL, None, (*_TABLE, "name"), table.get("name"))
        if tables and not _items(table.get("properties")):
            self._add((*_TABLE, "properties"), Problem("no properties", "at least one column"))
        return table

    def _block(self, at: FieldPath, holder: dict[str, Any], block: str) -> FieldPath | None:
        """Find our block among the custom properties and return the path of its value."""
        places = [
            (*at, "customProperties", place, "value")
            for place, entry in enumerate(_items(holder.get("customProperties")))
            if _entries(entry).get("property") == block
        ]
        for path in places:
            self._blocks[path] = (*at, block)
        for path in places[1:]:
            problem = Problem(f"a second `{block}` block", "one block", "merge the two")
            if not any(finding.found == problem.found for finding in self.findings):
                self._add(path, problem)
        return places[0] if places else None

    def _terms(self, table: dict[str, Any]) -> tuple[FieldPath, PrivacyTerms]:
        """Read the table's `privacy` block; where it is refused, return its readable part, to check that further."""
        at = self._block(_TABLE, table, "privacy")
        if at is None:
            if table:
                self._add((*_TABLE, "privacy"), self._absent(table, "privacy", "unit and adjacency"))
            return _TABLE, PrivacyTerms.model_validate(_NEUTRAL_TERMS)
        value = _items(table["customProperties"])[int(at[-2])].get("value")
        try:
            return at, PrivacyTerms.model_validate(value)
        except ValidationError as error:
            self.findings += from_validation(self.document, at, error, PrivacyTerms, self._name)
            refused = {item["loc"][0] for item in error.errors() if item["loc"]}
            readable = {key: part for key, part in _entries(value).items() if key not in refused}
            return at, PrivacyTerms.model_validate({**_NEUTRAL_TERMS, **readable})

    def _absent(self, holder: dict[str, Any], block: str, purpose: str) -> Problem:
        """Say that a block is missing, and which entry looks like a misspelling of it."""
        names = [str(_entries(entry).get("property")) for entry in _items(holder.get("customProperties"))]
        close = [name for name in names if nearest(name, [block])]
        remedy = nearest(close[0], [block]) if close else f"add `- property: {block}` with its value"
        return Problem(f"no `{block}` block", f"a customProperties entry `{block}` ({purpose})", remedy)

    def _columns(self, table: dict[str, Any]) -> Iterator[Column]:
        """Read the properties that have a domain; the unit's id column has none."""
        seen: dict[str, str] = {}
        for place, entry in enumerate(_items(table.get("properties"))):
            at = (*_TABLE, "properties", place)
            written = _entries(entry)
            name = self._validated(_LABEL, None, (*at, "name"), written.get("name"))
            if name is not None and name.casefold() in seen:
                allowed = "names that differ in more than upper and lower case"
                self._add((*at, "name"), Problem(f"{name!r} beside {seen[name.casefold()]!r}", allowed, "rename one"))
            if name is not None:
                seen.setdefault(name.casefold(), name)
            column = self._column(at, written, name, table)
            if column is not None:
                yield column

    def _column(
        self, at: FieldPath, written: dict[str, Any], name: str | None, table: dict[str, Any]
    ) -> Column | None:
        logical = written.get("logicalType")
        if logical not in _LOGICAL_TYPES:
            allowed = "one of " + ", ".join(_LOGICAL_TYPES)
            self._add((*at, "logicalType"), Problem(show(logical), allowed, nearest(str(logical), _LOGICAL_TYPES)))
        block = self._block(at, written, "domain")
        if block is None:
            if name is None or name != _id_column(table):
                self._add((*at, "domain"), self._absent(written, "domain", f"the cells of {show(name)}"))
            return None
        value = _items(written["customProperties"])[int(block[-2])].get("value")
        domain = self._validated(_DOMAIN, domain_model(value), block, value)
        if domain is None or name is None or logical not in _LOGICAL_TYPES:
            return None
        problems = misfits(logical, domain)
        for problem in problems:
            self._add(block, problem)
        described = written.get("description")
        description = described if isinstance(described, str) else None
        if problems:
            return None
        fields = {"name": name, "logical_type": logical, "domain": domain, "description": description}
        return self._with_shapes(at, written, fields)

    def _with_shapes(self, at: FieldPath, written: dict[str, Any], fields: dict[str, Any]) -> Column | None:
        """Read the shapes of a property, if it has some, and return the column."""
        block = self._block(at, written, "shapes")
        if block is None:
            return Column(**fields)
        from contracts.contract.shape_file import read_shapes  # few contracts have some

        value = _items(written["customProperties"])[int(block[-2])].get("value")
        try:
            shapes = read_shapes(value, self.document.path.parent, fields["name"], fields["domain"])
            return Column(**fields, shapes=shapes)
        except PydanticCustomError as error:
            problems = (error.context or {})["problems"]
        except ValidationError as error:
            self.findings += from_validation(self.document, block, error, Column, self._name)
            return None
        for problem in problems:
            self._add(block, problem)
        return None


_NEUTRAL_TERMS = {"unit": {"kind": "row", "scope": "block"}, "adjacency": "replace_one"}
_VERSIONS = ("v3.0.0", "v3.0.1", "v3.0.2", "v3.1.0", "v3.2.0")


def _id_column(table: dict[str, Any]) -> str | None:
    """The unit's id column as written, even where the rest of the privacy block is refused."""
    for entry in _items(table.get("customProperties")):
        if _entries(entry).get("property") == "privacy":
            column = _entries(_entries(_entries(entry).get("value")).get("unit")).get("column")
            return column if isinstance(column, str) else None
    return None


# --- Contracts of linked tables on disk.


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


def _mapping_or_empty(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list_or_empty(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def read_linked(reading: OdcsReading) -> Contract | None:
    """Read the tables and what links them.

    Args:
        reading: the reading of the file; it collects the findings.
    Returns:
        The contract over the unit's table as the base; None when there are findings.
    """
    block, terms = _terms(reading)
    tables = [
        _table(reading, place, entry, terms)
        for place, entry in enumerate(_list_or_empty(reading._text.get("schema")))
    ]
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
    tables = [_mapping_or_empty(table) for table in _list_or_empty(reading._text.get("schema"))]
    return [
        (
            str(table.get("name")),
            [str(_mapping_or_empty(each).get("name")) for each in _list_or_empty(table.get("properties"))],
        )
        for table in tables
    ]


def _placed(reading: OdcsReading, block: FieldPath, problem: Problem) -> tuple[FieldPath, Problem]:
    """Place a problem of the links in the file: below the privacy block, or below the column that it is about."""
    if problem.at[:1] != (TABLES,):
        return block, problem
    _, place, name, *rest = problem.at
    table = _list_or_empty(reading._text.get("schema"))[int(place)]
    spots = [_mapping_or_empty(each).get("name") for each in _list_or_empty(table.get("properties"))]
    at: FieldPath = ("schema", int(place), "properties", spots.index(name))
    if rest[:1] == ["derived"]:
        at = (*(reading._block(at, table["properties"][spots.index(name)], "derived") or at), *rest[1:])
    return at, Problem(problem.found, problem.allowed, problem.remedy)


def _terms(reading: OdcsReading) -> tuple[FieldPath, LinkedTerms | None]:
    """Read the privacy block of the file; None, and findings, where it is refused."""
    at = reading._block((), reading._text, _PRIVACY)
    if at is None:
        return (), None
    value = _list_or_empty(reading._text["customProperties"])[int(at[-2])].get("value")
    try:
        return at, LinkedTerms.model_validate(value)
    except ValidationError as error:
        reading.findings += from_validation(reading.document, at, error, LinkedTerms, reading._name)
        return at, None


def _table(reading: OdcsReading, place: int, written: Any, terms: LinkedTerms | None) -> LinkedTable | None:
    """Read one table; None where a part of it is refused."""
    at: FieldPath = ("schema", place)
    table, before = _mapping_or_empty(written), len(reading.findings)
    name = reading._validated(TypeAdapter(Label), None, (*at, "name"), table.get("name"))
    own = reading._block(at, table, _PRIVACY)
    if own is not None:
        remedy = "drop it: the block of the file is about all tables"
        reading._add(own, Problem("a `privacy` block of one of several tables", "one for all of them", remedy))
    if not _list_or_empty(table.get("properties")):
        reading._add((*at, "properties"), Problem("no properties", "at least one column"))
    keys, columns, derived = list[RowKey](), list[Column](), list[tuple[str, Derivation]]()
    links = set() if terms is None else _key_names(terms, str(name))
    seen: dict[str, str] = {}
    for spot, entry in enumerate(_list_or_empty(table.get("properties"))):
        path = (*at, "properties", spot)
        part = _part(reading, path, _mapping_or_empty(entry), links, seen)
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
        value = _list_or_empty(written["customProperties"])[int(block[-2])].get("value")
        derived = reading._validated(TypeAdapter(Derivation), Derivation, block, value)
    return None if column is None else (column, derived)
