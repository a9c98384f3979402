"""The text of a draft in the long form: every place that a person has to declare is a placeholder.

Privacy: what stands in a draft comes out of the document that it was made from; no row is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from contracts.drafting.sketch import ColumnSketch, TableSketch
from contracts.drafting.yaml_words import comments, slug, yaml_text
from contracts.reading.placeholders import CHECK_IT, PLACEHOLDER

_NUMBER = re.compile(r"[-+]?[0-9][-0-9.eE+]*")
_KEYS = {
    "integer": ("bounds", "bins"),
    "number": ("bounds", "bins"),
    "date": ("bounds", "granularity"),
    "array": ("height", "width", "levels"),
}
_KINDS = {"integer": "integer", "number": "decimal", "date": "date", "array": "image"}
_ELSE = {
    "integer": "numbers that are codes: kind: categories, or mapping",
    "number": "numbers that are codes: kind: categories, or mapping",
    "string": "raw texts that are to be grouped: kind: mapping",
}


def draft_text(table: TableSketch) -> str:
    """Write the draft of a contract.

    Args:
        table: what is known of the table.
    Returns:
        str: YAML of the Open Data Contract Standard with our blocks; refused by `load_contract` until a person has
        declared what it leaves open.
    """
    return "\n".join([*_head(table), *_table(table)]) + "\n"


def _head(table: TableSketch) -> Iterator[str]:
    yield from comments(
        (
            f"Draft of a contract, made from {table.origin}. No row was read for it.",
            f"Replace every {PLACEHOLDER}; `sudare contract lint` says what belongs there. Nothing may be "
            f"looked up in the rows:",
            "categories, bounds and bins are published, and ones that were learned from the data would give "
            "people away.",
        )
    )
    yield "apiVersion: v3.1.0"
    yield "kind: DataContract"
    yield f"id: {yaml_text(table.identifier or slug(table.name))}"
    yield f"name: {yaml_text(table.title or table.name)}"
    yield "version: 0.1.0"
    yield "status: draft"
    if table.description:
        yield from _dumped({"description": dict(table.description)}, 0)
    if table.kept:
        yield from _dumped(table.kept, 0)


def _table(table: TableSketch) -> Iterator[str]:
    yield "schema:"
    yield f"  - name: {yaml_text(table.name)}"
    yield from _dumped({"logicalType": "object", "physicalType": "table", **table.kept_of_table}, 4)
    yield "    customProperties:"
    yield "      - property: privacy"
    yield "        value:"
    yield from comments(table.hints, 10)
    yield f"          unit: {{kind: {PLACEHOLDER}, scope: {PLACEHOLDER}}}"
    yield f"          adjacency: {PLACEHOLDER}"
    yield "          invariants: []"
    yield "          structural_zeros: []"
    yield "          gates: []"
    yield "    properties:"
    for column in table.columns:
        yield from _column(column)


def _column(column: ColumnSketch) -> Iterator[str]:
    yield f"      - name: {yaml_text(column.name)}"
    yield f"        logicalType: {column.logical_type or PLACEHOLDER}"
    if column.description:
        yield f"        description: {yaml_text(column.description)}"
    kept = dict(column.kept)
    ours = kept.pop("customProperties", [])
    if kept:
        yield from _dumped(kept, 8)
    yield "        customProperties:"
    if ours:
        yield from _dumped(ours, 10)
    yield "          - property: domain"
    yield "            value:"
    yield from comments(column.hints, 14)
    for key, value in _domain(column):
        yield f"              {key}: {value}"


def _domain(column: ColumnSketch) -> Iterator[tuple[str, str]]:
    """The keys of a domain block, with what the document declares, and placeholders for all else."""
    logical = column.logical_type
    if column.labels:
        yield "kind", "mapping"
        pairs = (f"{yaml_text(code)}: {yaml_text(label)}" for code, label in column.labels.items())
        yield "mapping", f"{{{', '.join(pairs)}}}"
    elif column.values or logical in ("string", "boolean"):
        yield "kind", "categories"
        known = column.values or (("false", "true") if logical == "boolean" else ())
        yield "values", f"[{', '.join(map(yaml_text, known))}]" if known else PLACEHOLDER + _aside(logical)
    elif logical is None:
        yield "kind", PLACEHOLDER
    else:
        yield "kind", _KINDS[logical] + _aside(logical)
        for key in _KEYS[logical]:
            declared = key == "bounds" and column.bounds is not None
            width = f"{{width: {column.width}}}" if key == "bins" and column.width else PLACEHOLDER
            yield key, f"[{', '.join(map(_number, column.bounds or ()))}]" if declared else width
    if column.form is not None and not column.values:
        yield "format", yaml_text(column.form)
    if column.missing:
        yield "missing", f"[{', '.join(map(yaml_text, column.missing))}]"
    yield "nulls", f"{{policy: map, to: {PLACEHOLDER}}}" if logical == "array" else PLACEHOLDER
    taken = f"Taken over from {column.origin}; {CHECK_IT}: nothing of it may have been collected from the rows"
    reference = f", reference: {yaml_text(taken)}" if column.origin else ""
    yield "provenance", f"{{kind: {PLACEHOLDER}{reference}}}"


def _aside(logical: str | None) -> str:
    return f"   # {_ELSE[logical]}" if logical in _ELSE else ""


def _dumped(value: Mapping[str, Any] | list[Any], indent: int) -> Iterator[str]:
    """Write what stays as it is in YAML's block style."""
    plain = dict(value) if isinstance(value, Mapping) else value
    text = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=116 - indent)
    for line in text.splitlines():
        yield " " * indent + line


def _number(text: str) -> str:
    """Write a bound as it is where it is one."""
    return text if _NUMBER.fullmatch(text) else yaml_text(text)
