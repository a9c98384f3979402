"""Places of a contract that have one lawful answer, and what it is: what `sudare contract lint --fix` writes.

| what stands there | the one lawful answer |
|---|---|
| `adjacency: <declare>` beside a public total | `replace_one` |
| `unit: {kind: <declare>, column: ...}` | `id` |
| `policy: <declare>` beside `to:` | `map` |
| `kind: <declare>` beside `values`, `mapping`, `granularity` or `height` | the kind that has this key |
| `logicalType: <declare>` over a domain of kind integer, date or image | integer, date, array |
| `bounds: <declare>` beside edges or pairs | the ends of the bins |
| bins of a range of one number | `{width: 1}` |
| `nulls: category`, `provenance: declared` in the long form | `{policy: category}`, `{kind: declared}` |
| no `kind` at the top of the long form | `kind: DataContract` |

Whatever else is open stays open: bins, categories, unit, scope and provenance are a person's to declare. An answer is
written only if its key stands once on its line; comments and layout stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from contracts.errors import ContractRefused, Finding
from contracts.reading.placeholders import PLACEHOLDER
from contracts.reading.scalars import FieldPath
from contracts.reading.validation_errors import dotted
from contracts.reading.yaml_lines import Document, YamlNode, located, shown

_KINDS: Final = {"values": "categories", "mapping": "mapping", "granularity": "date", "height": "image"}
_TYPES: Final = {"integer": "integer", "date": "date", "image": "array"}
_ONE_NUMBER: Final = re.compile(rf"(-?[0-9]+)\s*\.\.\s*\1\s+by\s+{re.escape(PLACEHOLDER)}")
_SHORTHANDS: Final = {("nulls", "category"): "{policy: category}", ("provenance", "declared"): "{kind: declared}"}
Entries = dict[str, tuple[int, YamlNode]]


@dataclass(frozen=True)
class Repair:
    """One answer.

    Args:
        line: from 1; 0 for a line that is put in front.
        field: the field, as a person reads it.
        found: the text on the line.
        written: the text in its place.
    """

    line: int
    field: str
    found: str
    written: str


def repairs(document: Document) -> tuple[Repair, ...]:
    """List what a contract's file leaves open and has one lawful answer, in the order of its lines."""
    found = [repair for at, node in _mappings(document.root) for repair in _answers(at, node.entries or {})]
    if "schema" in (document.root.entries or {}) and "kind" not in (document.root.entries or {}):
        found.append(Repair(0, "kind", "", "kind: DataContract\n"))
    return tuple(sorted(found, key=lambda repair: repair.line))


def repair_file(path: Path) -> tuple[Repair, ...]:
    """Write the answers into a contract's file.

    Returns:
        What was written.
    Raises:
        ContractRefused: the file is no YAML mapping, or cannot be written.
    """
    found = repairs(located(path, refusal=ContractRefused))
    lines = path.read_bytes().decode("utf-8").splitlines(keepends=True)
    done = []
    for repair in found:
        if repair.line == 0:
            lines.insert(0, repair.written)
            done.append(repair)
    shift = len(done)
    for repair in found:
        place = repair.line - 1 + shift
        if repair.line and lines[place].count(repair.found) == 1:
            lines[place] = lines[place].replace(repair.found, repair.written)
            done.append(repair)
    if done:
        _write(path, "".join(lines))
    return tuple(done)


def _write(path: Path, text: str) -> None:
    """Write the whole file beside its place first, so that an interruption leaves one or the other."""
    aside = path.with_name(f".{path.name}.partial")
    try:
        aside.write_bytes(text.encode("utf-8"))
        aside.replace(path)
        found = ""
    except OSError as error:
        found = error.strerror or type(error).__name__
    if found:
        where, allowed = shown(path), "a file that can be written"
        raise ContractRefused([Finding(where, "--fix", found, allowed, "copy it to where it can be written")])


def _mappings(root: YamlNode) -> Iterator[tuple[FieldPath, YamlNode]]:
    """Every mapping of the file, with its path."""
    waiting: list[tuple[FieldPath, YamlNode]] = [((), root)]
    while waiting:
        at, node = waiting.pop()
        if node.entries is not None:
            yield at, node
            waiting += [((*at, key), inner) for key, (_, inner) in node.entries.items()]
        waiting += [((*at, place), inner) for place, inner in enumerate(node.items or ())]


def _answers(at: FieldPath, entries: Entries) -> Iterator[Repair]:
    """The answers for the keys of one mapping."""
    for key, (_, node) in entries.items():
        field = dotted((*at, key))
        if node.text == PLACEHOLDER and key in _RULES:
            answer = _RULES[key](entries)
            if answer is not None:
                yield Repair(node.line, field, f"{key}: {PLACEHOLDER}", f"{key}: {answer}")
        elif node.text is not None and _ONE_NUMBER.fullmatch(node.text):
            yield Repair(node.line, field, f"by {PLACEHOLDER}", "by 1")
        elif at[:1] == ("schema",) and (key, node.text) in _SHORTHANDS:
            yield Repair(node.line, field, f"{key}: {node.text}", f"{key}: {_SHORTHANDS[key, str(node.text)]}")


def _adjacency(entries: Entries) -> str | None:
    return "replace_one" if "invariants" in entries and entries["invariants"][1].items else None


def _kind(entries: Entries) -> str | None:
    if "scope" in entries or "max_rows_per_unit" in entries:
        return "id" if "column" in entries else None
    return next((kind for key, kind in _KINDS.items() if key in entries), None)


def _policy(entries: Entries) -> str | None:
    return "map" if "to" in entries else None


def _logical_type(entries: Entries) -> str | None:
    """The only type that a domain of the kind goes with."""
    custom = entries["customProperties"][1].items if "customProperties" in entries else None
    blocks = [(node.entries or {}).get("value") for node in custom or ()]
    kinds = [(block[1].entries or {}).get("kind") for block in blocks if block is not None]
    return next((_TYPES.get(str(kind[1].text)) for kind in kinds if kind is not None), None)


def _bounds(entries: Entries) -> str | None:
    """The ends of the bins."""
    bins = entries["bins"][1] if "bins" in entries else None
    if bins is None:
        return None
    edges = bins.entries["edges"][1].items if bins.entries and "edges" in bins.entries else None
    pairs = [pair.items or [] for pair in bins.items or ()]
    ends = edges if edges is not None else [end for pair in pairs for end in pair]
    texts = [end.text for end in ends if end.text is not None and end.text != PLACEHOLDER]
    return f"[{texts[0]}, {texts[-1]}]" if len(texts) == len(ends) >= 2 else None


def _bins(entries: Entries) -> str | None:
    bounds = [node.text for node in entries["bounds"][1].items or ()] if "bounds" in entries else []
    whole = len(bounds) == 2 and bounds[0] == bounds[1] and str(bounds[0]).lstrip("-").isdigit()
    return "{width: 1}" if whole else None


_RULES: Final[dict[str, Callable[[Entries], str | None]]] = {
    "adjacency": _adjacency,
    "kind": _kind,
    "policy": _policy,
    "logicalType": _logical_type,
    "bounds": _bounds,
    "bins": _bins,
}
