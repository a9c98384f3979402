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

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from contracts.contract.column import LogicalType
from contracts.errors import ContractRefused, Finding
from contracts.reading.findings import from_problem, unknown_key
from contracts.reading.placeholders import PLACEHOLDER
from contracts.reading.scalars import FieldPath, Problem, nearest, show, word_list
from contracts.reading.yaml_lines import Document, YamlNode, located, shown

# --- One line for a column.


FORMS: Final = "a range (0..99 by 5), a list of values, codes with their labels ({1: male, 2: female}), or keys"
_SHORT: Final = ("type", "description", "range", "labels", "shapes")
_LONG: Final = (
    "kind", "values", "mapping", "other", "bounds", "bins", "granularity", "height", "width", "levels",
    "nulls", "missing", "provenance", "decimal", "grouping", "format", "time_zone",
)  # fmt: skip
_RANGE = re.compile(r"(?:(integer|number|date)\s+)?(\S+?)\s*\.\.\s*([^\s,]+)(?:\s+(by|at)\s+(.+))?")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_CODE = re.compile(r"0|-?[1-9][0-9]{0,14}")
_KINDS: Final[Mapping[str, str]] = {"integer": "integer", "number": "decimal", "date": "date", "array": "image"}
_TYPES: Final[Mapping[str, str]] = {kind: logical for logical, kind in _KINDS.items()}
_TOLD_BY: Final = (("values", "categories"), ("mapping", "mapping"), ("granularity", "date"), ("height", "image"))
DOMAIN_KEYS: Final = frozenset({*_SHORT, *_LONG})
"""Keys of a column's block; a code of this name needs `labels:` around it."""
Located = tuple[FieldPath, Problem]


def scalar(line: int, text: str | None) -> YamlNode:
    """Make a text of a line."""
    return YamlNode(line, text=text, plain=True)


def listing(line: int, items: list[YamlNode]) -> YamlNode:
    """Make a list of a line."""
    return YamlNode(line, items=items)


def block(line: int, **entries: YamlNode) -> YamlNode:
    """Make a mapping of a line; each key stands where its value does."""
    return YamlNode(line, entries={key: (node.line, node) for key, node in entries.items()})


@dataclass
class ShortColumn:
    """One column as it stands in a short contract, and its parts as the long form has them.

    Args:
        node: what stands behind the column's name.
        problems: what cannot be written out, with the key below the column.
        domain: the entries of the `domain` block.
        logical_type: what the column holds.
        description: the column's description.
        shapes: the file of its places' outlines.
        places: of entries of the domain, where below the column the file has them.
    """

    node: YamlNode
    problems: list[Located] = field(default_factory=list)
    domain: dict[str, tuple[int, YamlNode]] = field(default_factory=dict)
    logical_type: YamlNode | None = None
    description: YamlNode | None = None
    shapes: YamlNode | None = None
    places: dict[str, FieldPath] = field(default_factory=dict)

    def written_out(self) -> ShortColumn:
        """Fill in the parts; what is refused stands in `problems`."""
        node = self.node
        if node.items is not None:
            self._set("values", node)
        elif node.entries is None:
            self._scalar(node, ())
        elif any(key in (*_SHORT, *_LONG) for key in node.entries):
            self._keys(node.entries)
        else:
            self._codes(node)
        if not self.problems:
            self._complete()
        return self

    def _codes(self, node: YamlNode) -> None:
        """Take codes with their labels; a key of a domain that is misspelt is no code with a range for a label."""
        for key, (_, label) in (node.entries or {}).items():
            meant = nearest(key, DOMAIN_KEYS)
            if meant and (label.text is None or ".." in label.text):
                remedy = f"{meant}; if it is a code, write labels: {{{key}: ...}}"
                self._refuse((key,), f"the unknown key {key!r}", word_list((*_SHORT, *_LONG)), remedy)
        self._set("mapping", node)

    def _set(self, key: str, node: YamlNode, at: FieldPath = ()) -> None:
        if key not in self.domain:
            self.domain[key] = (node.line, node)
            self.places[key] = at

    def _refuse(self, at: FieldPath, found: str, allowed: str, remedy: str = "") -> None:
        self.problems.append((at, Problem(found, allowed, remedy)))

    def _scalar(self, node: YamlNode, at: FieldPath) -> None:
        """Read a range; a placeholder stays one."""
        if node.text == PLACEHOLDER:
            self._set("kind", node, at)
            self.logical_type = self.logical_type or scalar(node.line, "string")
            return
        found = _RANGE.fullmatch((node.text or "").strip())
        if found is None:
            words = "0..99 by 5, 0..99 at 18, 40, 65, number 0..1 by 0.1, or 2024-01-01..2024-12-31 by month"
            self._refuse(at, show(node.text), words if at else FORMS, "" if at else f"a range is written as {words}")
            return
        stated, *parts = found.groups()
        declared = None if self.logical_type is None else self.logical_type.text
        self._range(node, at, stated or (declared if declared in _KINDS else None), *parts)

    def _range(
        self, node: YamlNode, at: FieldPath, stated: str | None, low: str, high: str, *step: str | None
    ) -> None:
        """Write out bounds, and bins or calendar periods."""
        how, parts = step[0], [part.strip() for part in (step[1] or "").split(",")]
        if how is None or (how == "by" and len(parts) > 1):
            remedy = f"write {low}..{high} by WIDTH, or {low}..{high} at CUT, CUT: the bins are what is counted"
            self._refuse(at, show(node.text), "bounds and their bins", remedy)
            return
        line, written = node.line, [low, high, *parts]
        plain = [part for part in written if part != PLACEHOLDER]
        kind = _KINDS[stated] if stated else _kind_of(plain)
        self._set("kind", scalar(line, kind), at)
        if PLACEHOLDER in (low, high):
            self._set("bounds", scalar(line, PLACEHOLDER), at)
        else:
            self._set("bounds", listing(line, [scalar(line, low), scalar(line, high)]), at)
        if parts == [PLACEHOLDER]:
            self._set("granularity" if kind == "date" else "bins", scalar(line, PLACEHOLDER), at)
        elif kind == "date" and how == "by":
            self._set("granularity", scalar(line, parts[0]), at)
        elif kind == "date":
            self._refuse(at, show(node.text), "calendar periods of days", f"write {low}..{high} by month")
        elif how == "by":
            self._set("bins", block(line, width=scalar(line, parts[0])), at)
        else:
            edges = listing(line, [scalar(line, edge) for edge in (low, *parts, high)])
            self._set("bins", block(line, edges=edges), at)

    def _keys(self, entries: Mapping[str, tuple[int, YamlNode]]) -> None:
        """Take the keys of the long form as they are, and write out the short ones."""
        known = (*_SHORT, *_LONG)
        self.logical_type = entries["type"][1] if "type" in entries else None
        package = "kind" in entries and entries["kind"][1].text not in (*_KINDS.values(), "categories", "mapping")
        for key, (line, node) in entries.items():
            if key == "description":
                self.description = node
            elif key == "shapes":
                self.shapes = node
            elif key == "range":
                self._scalar(node, (key,))
            elif key == "labels":
                self.domain["mapping"] = (line, node)
                self.places["mapping"] = (key,)
            elif key in _LONG or (package and key != "type"):
                self.domain[key] = (line, node)
            elif key != "type":
                codes = ", ".join(f"{code}: ..." for code in entries if code not in known)
                cut = "a comma ends a text within { }: put quotes around the text" if _is_null(node) else ""
                remedy = cut or nearest(key, known) or f"if these are codes with labels, write labels: {{{codes}}}"
                self._refuse((key,), f"the unknown key {key!r}", word_list(known), remedy)
        for first, second in (("labels", "mapping"), ("range", "bounds"), ("range", "bins")):
            if first in entries and second in entries:
                self._refuse((second,), f"`{second}` beside `{first}`", "one of them", f"drop `{second}`")

    def _complete(self) -> None:
        """Add kind and logical type where the other keys tell them; what nothing tells is asked for."""
        kind = self.domain["kind"][1].text if "kind" in self.domain else self._kind_told()
        if kind is None:
            remedy = "write the range or the values, or `kind:` with its keys"
            self._refuse((), "no range, values or labels", FORMS, remedy)
            return
        self._set("kind", scalar(self.node.line, kind))
        self.domain = {"kind": self.domain["kind"], **self.domain}
        if self.logical_type is None:
            logical = _TYPES.get(kind) or self._type_of_texts(kind)
            if logical is None:
                self._refuse((), f"kind {kind!r} without `type`", "`type:`, what the column holds", "add `type:`")
                return
            self.logical_type = scalar(self.node.line, logical)

    def _kind_told(self) -> str | None:
        stated = None if self.logical_type is None else self.logical_type.text
        told = next((kind for key, kind in _TOLD_BY if key in self.domain), None)
        return told or (_KINDS.get(str(stated)) if "bounds" in self.domain else None)

    def _type_of_texts(self, kind: str) -> str | None:
        """Tell the type of categories by their texts; None for domains of other kinds."""
        listed = self.domain.get("values") or self.domain.get("mapping")
        if kind not in ("categories", "mapping") or listed is None:
            return None if kind not in ("categories", "mapping", PLACEHOLDER) else "string"
        node = listed[1]
        return type_of_texts([item.text or "" for item in node.items or ()] or list(node.entries or ()))


def _is_null(node: YamlNode) -> bool:
    return node.text is None and node.items is None and node.entries is None


def type_of_texts(texts: Sequence[str]) -> LogicalType:
    """Say what a column of listed values holds: whole numbers without leading zeros, flags, or else texts."""
    if texts and all(_CODE.fullmatch(text) for text in texts):
        return "integer"
    return "boolean" if texts and all(text in ("true", "false") for text in texts) else "string"


def _kind_of(parts: list[str]) -> str:
    """Say what a range is of: days, numbers with a point, or whole numbers."""
    if parts and _DAY.fullmatch(parts[0]):
        return "date"
    return "decimal" if any("." in part for part in parts) else "integer"


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
