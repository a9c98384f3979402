"""One line for a column: the short forms of a domain, written out as the long form has it.

| short | long |
|---|---|
| `0..99 by 5` | `kind: integer`, `bounds: [0, 99]`, `bins: {width: 5}` |
| `0..99 at 18, 40, 65` | the same bounds, `bins: {edges: [0, 18, 40, 65, 99]}` |
| `number 0..60000 by 5000`, `0.5..3 by 0.5` | `kind: decimal`; numbers with a point are decimal by themselves |
| `2024-01-01..2024-12-31 by month` | `kind: date`, `granularity: month` |
| `[north, south]` | `kind: categories`, `values: [north, south]` |
| `{1: male, 2: female}` | `kind: mapping`, `mapping: {1: male, 2: female}` |
| `{values: [1, 2], nulls: category}` | the long keys; also `range`, `labels`, `type`, `description`, `shapes` |

What is written in the short form is public: it is the contract.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from contracts.contract.column import LogicalType
from contracts.reading.placeholders import PLACEHOLDER
from contracts.reading.scalars import FieldPath, Problem, nearest, show, word_list
from contracts.reading.yaml_lines import YamlNode

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
