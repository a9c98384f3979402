"""Short contracts: the same contract with a line a column, written out as the long form before it is read.

    id: clinic-visits
    version: 1.0.0
    unit: {kind: id, scope: lifetime, column: patient, max_rows_per_unit: 4}
    adjacency: add_remove
    defaults: {nulls: category, missing: ["?"], provenance: declared}
    left_out: [name, address]
    columns:
      age: 0..99 by 5
      sex: {1: male, 2: female}

A file is short if it has `columns:` at its top. It is turned into the tree of the long form (Open Data Contract
Standard 3) line for line, and read by the same reader into the same model: its digest is that of the long form.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from contracts.contract.short_column import ShortColumn, block, listing, scalar
from contracts.errors import ContractRefused, Finding
from contracts.reading.placeholders import PLACEHOLDER
from contracts.reading.scalars import FieldPath, Problem
from contracts.reading.validation_errors import from_problem, unknown_key
from contracts.reading.yaml_lines import Document, YamlNode, located, shown

VERSION: Final = "v3.1.0"
_HEADER: Final = ("apiVersion", "kind", "id", "name", "version", "status", "description")
_TERMS: Final = ("unit", "adjacency", "left_out", "invariants", "structural_zeros", "constraints", "gates")
_DEFAULTS: Final = ("nulls", "missing", "provenance")
_KEYS: Final = (*_HEADER, "table", *_TERMS, "defaults", "columns")
_TABLE: Final[FieldPath] = ("schema", 0)
_PRIVACY: Final[FieldPath] = (*_TABLE, "customProperties", 0, "value")


@dataclass(frozen=True)
class ShortContract(Document):
    """A short contract written out: `root` is the tree of the long form, with the lines of the file.

    Args:
        names: of parts of that tree, how the file names them.
    """

    names: dict[FieldPath, FieldPath] = field(default_factory=dict)

    def written(self, at: FieldPath) -> FieldPath:
        """Return the path as it stands in the file."""
        for length in range(len(at), 0, -1):
            if at[:length] in self.names:
                return (*self.names[at[:length]], *at[length:])
        return at


def contract_document(path: Path) -> Document:
    """Read a contract's file; a short one is written out.

    Raises:
        ContractRefused: it is no YAML mapping, or its short forms cannot be written out; with every finding.
    """
    document = located(path, refusal=ContractRefused)
    entries = document.root.entries or {}
    if {"release", "product"} <= set(entries):
        remedy = "name the contract: the spec says it under `contract:`"
        raise ContractRefused([Finding(shown(path), "file", "a release spec", "a contract", remedy)])
    if "columns" not in entries:
        return document
    return _Expansion(document).contract()


class _Expansion:
    """Turns the tree of a short contract into that of the long form."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self._entries = document.root.entries or {}
        self._names: dict[FieldPath, FieldPath] = {_TABLE: ("table",), (*_TABLE, "properties"): ("columns",)}
        self._names |= {_PRIVACY: (), (*_TABLE, "privacy"): (), (*_TABLE, "customProperties"): ()}
        self._findings: list[Finding] = []

    def contract(self) -> ShortContract:
        """Return the whole contract."""
        for key in self._entries:
            if key not in _KEYS:
                self._refuse((key,), unknown_key(key, _KEYS))
        defaults = self._defaults()
        properties = [*self._unit_property(), *self._properties(defaults)]
        if self._findings:
            raise ContractRefused(self._findings)
        line = self.document.root.line
        given = {key: node for key, (_, node) in self._entries.items() if key in _HEADER}
        header = {
            **{"apiVersion": scalar(line, VERSION), "kind": scalar(line, "DataContract")},
            **given,
            **{"schema": listing(self._entries["columns"][0], [self._table(properties)])},
        }
        if "description" in given and given["description"].entries is None:
            header["description"] = block(given["description"].line, purpose=given["description"])
        return ShortContract(self.document.path, self._mapping(header), self._names)

    def _mapping(self, entries: dict[str, YamlNode]) -> YamlNode:
        lines = {key: self._entries.get(key, (node.line, node))[0] for key, node in entries.items()}
        tree = {key: (lines[key], node) for key, node in entries.items()}
        return YamlNode(self.document.root.line, entries=tree)

    def _refuse(self, at: FieldPath, problem: Problem) -> None:
        self._findings.append(from_problem(self.document, at, problem))

    def _table(self, properties: list[YamlNode]) -> YamlNode:
        """The one table: its name, its privacy terms and its columns."""
        line = self._entries["columns"][0]
        name = next((self._entries[key][1] for key in ("table", "id") if key in self._entries), scalar(line, None))
        terms = self._mapping({key: node for key, (_, node) in self._entries.items() if key in _TERMS})
        privacy = block(terms.line, property=scalar(terms.line, "privacy"), value=terms)
        return block(
            line,
            name=name,
            logicalType=scalar(line, "object"),
            physicalType=scalar(line, "table"),
            customProperties=listing(line, [privacy]),
            properties=listing(line, properties),
        )

    def _defaults(self) -> dict[str, tuple[int, YamlNode]]:
        """What holds for each column that does not say it itself."""
        if "defaults" not in self._entries:
            return {}
        node = self._entries["defaults"][1]
        if node.entries is None:
            words = "a mapping of keys: nulls, missing, provenance"
            self._refuse(("defaults",), Problem("no mapping", words, "write defaults: {nulls: category}"))
            return {}
        for key in node.entries:
            if key not in _DEFAULTS:
                self._refuse(("defaults", key), unknown_key(key, _DEFAULTS))
        return {key: (line, _policy(key, value)) for key, (line, value) in node.entries.items()}

    def _unit_property(self) -> list[YamlNode]:
        """The unit's id column, which has no domain and need not be listed."""
        unit = self._entries["unit"][1].entries if "unit" in self._entries else None
        if not unit or "column" not in unit or unit["column"][1].text is None:
            return []
        node = unit["column"][1]
        self._names[(*_TABLE, "properties", 0)] = ("unit", "column")
        return [block(node.line, name=node, logicalType=scalar(node.line, "string"))]

    def _properties(self, defaults: dict[str, tuple[int, YamlNode]]) -> list[YamlNode]:
        node = self._entries["columns"][1]
        if not node.entries:
            allowed = "a mapping of column: domain, at least one"
            self._refuse(("columns",), Problem("no columns", allowed, "write columns: and a line a column below it"))
            return []
        first = len(self._unit_property())
        listed = enumerate(node.entries.items(), start=first)
        return [self._property(place, name, *written, defaults) for place, (name, written) in listed]

    def _property(
        self, place: int, name: str, line: int, node: YamlNode, defaults: dict[str, tuple[int, YamlNode]]
    ) -> YamlNode:
        """One column."""
        at, short = (*_TABLE, "properties", place), ("columns", name)
        column = ShortColumn(node).written_out()
        for below, problem in column.problems:
            self._refuse((*short, *below), problem)
        inside: FieldPath = (*at, "customProperties", 0, "value")
        self._names |= {at: short, inside: short, (*at, "domain"): short, (*at, "name"): short}
        self._names[(*at, "logicalType")] = (*short, "type")
        self._names |= {(*inside, key): (*short, *below) for key, below in column.places.items()}
        for key in _DEFAULTS:
            if key in column.domain:
                column.domain[key] = (column.domain[key][0], _policy(key, column.domain[key][1]))
            elif key in defaults:
                column.domain[key] = defaults[key]
                # a text that means null by default can be a value of one column: that one is named
                self._names[(*inside, key)] = ("columns", name, key) if key == "missing" else ("defaults", key)
        domain = YamlNode(line, entries=column.domain)
        parts = {"name": scalar(line, name), "logicalType": column.logical_type or scalar(line, None)}
        if column.description is not None:
            parts["description"] = column.description
        custom = [block(line, property=scalar(line, "domain"), value=domain)]
        if column.shapes is not None:
            custom.append(block(line, property=scalar(line, "shapes"), value=column.shapes))
            self._names[(*at, "customProperties", 1, "value")] = (*short, "shapes")
        return block(line, **parts, customProperties=listing(line, custom))


def _policy(key: str, node: YamlNode) -> YamlNode:
    """Write out `nulls: category`, `nulls: {to: 0}`, `provenance: declared` and `provenance: {public: "..."}`."""
    line, entries = node.line, node.entries or {}
    if key == "nulls" and node.text == "category":
        return block(line, policy=node)
    if key == "nulls" and list(entries) == ["to"]:
        return block(line, policy=scalar(line, "map"), to=entries["to"][1])
    if key == "provenance" and node.text in ("declared", "public", PLACEHOLDER):
        return block(line, kind=node)
    if key == "provenance" and list(entries) in (["declared"], ["public"]):
        kind = next(iter(entries))
        return block(line, kind=scalar(line, kind), reference=entries[kind][1])
    return node
