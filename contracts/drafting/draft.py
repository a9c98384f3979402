"""The text of a draft in the short form: a line a column, and once at the top what holds for all of them.

Privacy: what stands in a draft comes out of documents, or out of rows that a person said to be public.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from contracts.contract.short_form import DOMAIN_KEYS, type_of_texts
from contracts.drafting.advice.suspicions import names_an_id, names_free_text
from contracts.drafting.sketch import ColumnSketch, TableSketch
from contracts.reading.placeholders import CHECK_IT, PLACEHOLDER

# --- Texts and comments of a draft, written so that YAML reads the same texts, whatever a document holds.


_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,14}")
_WORDS_OF_YAML = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
_UNPRINTABLE = re.compile("[\x7f-\x9f\ud800-\udfff\u2028\u2029\ufeff]")
_WIDTH = 116
"""That no line passes, unless a part does."""


def yaml_text(text: str) -> str:
    """Write a text so that YAML reads the same text."""
    if _PLAIN.fullmatch(text) and text.casefold() not in _WORDS_OF_YAML:
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)


def yaml_code(text: str) -> str:
    """Write a code: a whole number as it is, all else as a text. A contract reads either as its digits."""
    return text if _WHOLE.fullmatch(text) else yaml_text(text)


def comments(lines: Iterable[str], indent: int = 0) -> Iterator[str]:
    """Write comments, a line each."""
    for line in lines:
        yield " " * indent + "# " + _UNPRINTABLE.sub("?", " ".join(line.split()))


def wrapped(opening: str, parts: Iterable[str], closing: str, *, indent: int) -> Iterator[str]:
    """Write a list or mapping in flow style, on as many lines as it needs.

    Args:
        opening: what stands before the parts, on the first line.
        parts: each of them stays on one line.
        closing: what stands behind the last one.
        indent: of the lines that follow, in spaces.
    """
    line, empty = opening, True
    listed = list(parts)
    for place, part in enumerate(listed):
        piece = part + (closing if place == len(listed) - 1 else ",")
        gap = "" if empty else " "
        if not empty and len(line) + len(gap) + len(piece) > _WIDTH:
            yield line
            line, gap = " " * indent, ""
        line, empty = line + gap + piece, False
    yield line if listed else opening + closing


def slug(name: str) -> str:
    """Write a name as an identifier."""
    return re.sub(r"[^a-z0-9]+", "-", name.casefold()).strip("-") or "contract"


_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_HINTS = {
    "integer": "whole numbers: 0..99 by 5; codes: [1, 2] or {1: LABEL, 2: LABEL}",
    "number": "numbers: number 0..1 by 0.1",
    "date": "days: 2024-01-01..2024-12-31 by month",
    "string": "texts: [A, B] or {CODE: LABEL}; texts that people write go to left_out",
    None: "0..99 by 5, [A, B], {CODE: LABEL}, or left_out",
}


def short_text(table: TableSketch) -> str:
    """Write the draft of a short contract.

    Args:
        table: what is known of the table.
    Returns:
        str: YAML; refused by `load_contract` until a person has declared what it leaves open.
    """
    unread = [column for column in table.columns if _is_left_out(column)]
    columns = [column for column in table.columns if not _is_left_out(column)]
    lines = [*_head(table), *_terms(table, unread), "columns:"]
    for column in columns:
        lines += _Line(column, table).text()
    return "\n".join(lines if columns else [*lines[:-1], f"columns: {PLACEHOLDER}"]) + "\n"


def _is_left_out(column: ColumnSketch) -> bool:
    """Say whether a column is drafted as one that nobody reads: it looks like texts or ids, undeclared ones."""
    open_ = not column.values and column.bounds is None and column.logical_type != "boolean"
    untyped = column.logical_type is None and any(hint.startswith("Its type is") for hint in column.hints)
    texts = names_free_text(column.name) or column.name.casefold() == "name"
    return open_ and (untyped or texts or names_an_id(column.name))


def _head(table: TableSketch) -> Iterator[str]:
    read = (
        f"The rows of {table.name} were read, since they are said to be public."
        if table.public
        else "No row was read for it."
    )
    yield from comments(
        (
            f"Draft of a contract, made from {table.origin}. {read}",
            f"Replace every {PLACEHOLDER}; `sudare contract lint` says what belongs there. Nothing may be",
            "looked up in confidential rows: categories, bounds and bins are published, and would give people away.",
            *_other_sources(table),
            *table.hints,
        )
    )
    yield f"id: {yaml_text(table.identifier or slug(table.name))}"
    if table.title:
        yield f"name: {yaml_text(' '.join(table.title.split()))}"
    yield "version: 0.1.0"
    yield f"table: {yaml_text(table.name)}"


def _other_sources(table: TableSketch) -> tuple[str, ...]:
    """Warn where an open column would get the provenance of the others."""
    known = [column for column in table.columns if column.origin]
    said = "A column that you declare from another source says so itself: {..., provenance: {public: ...}}."
    return (said,) if known and len(known) < len(table.columns) else ()


def _terms(table: TableSketch, unread: list[ColumnSketch]) -> Iterator[str]:
    """Unit, adjacency, defaults, and what is left out."""
    ids = [column.name for column in unread if names_an_id(column.name)]
    if ids:
        column = yaml_text(ids[0])
        said = (
            f"If one person may have several rows: {{kind: id, scope: ..., column: {column}, max_rows_per_unit: K}},"
        )
        yield from comments((said, f"and take {ids[0]} out of left_out."))
    yield f"unit: {{kind: {PLACEHOLDER}, scope: {PLACEHOLDER}}}"
    yield f"adjacency: {PLACEHOLDER}"
    yield "defaults:"
    yield f"  nulls: {PLACEHOLDER}"
    yield f"  provenance: {_provenance(_usual_origin(table), table)}"
    if unread:
        yield from wrapped("left_out: [", [yaml_text(column.name) for column in unread], "]", indent=2)
        yield from comments(f"{each.name}: {hint}" for each in unread for hint in each.hints)


def _usual_origin(table: TableSketch) -> str:
    """The origin of most columns that have one."""
    origins = [column.origin for column in table.columns if column.origin]
    return max(dict.fromkeys(origins), key=origins.count) if origins else ""


def _provenance(origin: str, table: TableSketch) -> str:
    if origin and table.public is not None and origin == table.public:
        return f"{{public: {yaml_text(origin)}}}"
    if not origin:
        return PLACEHOLDER
    taken = f"Taken over from {origin}; {CHECK_IT}: nothing of it may have been collected from the rows"
    return f"{{kind: {PLACEHOLDER}, reference: {yaml_text(taken)}}}"


@dataclass(frozen=True)
class _Line:
    """One column of the draft."""

    column: ColumnSketch
    table: TableSketch

    def text(self) -> Iterator[str]:
        column = self.column
        yield from comments(column.hints, 2)
        name = f"  {yaml_text(column.name)}: "
        form = self._form()
        if form is None:
            missing = f"missing: [{', '.join(map(yaml_code, column.missing))}]" if column.missing else None
            hint = _HINTS.get(column.logical_type, _HINTS[None])
            aside = "; ".join(filter(None, (hint, missing, column.description)))
            yield f"{name}{PLACEHOLDER}   {next(comments((aside,)))}"
            return
        key, opening, parts, closing = form
        extras = list(self._extras(key))
        if not extras and key != "height":
            yield from wrapped(name + opening, parts, closing, indent=6)
            return
        first = f"{name}{{{key}: {opening}" if key != "height" else f"{name}{{"
        ends = [*parts]
        ends[-1] += closing if key != "height" else ""
        yield from wrapped(first, [*ends, *extras], "}", indent=6)

    def _form(self) -> tuple[str, str, list[str], str] | None:
        """The key of the domain's short form, and the form; None where nothing is known."""
        column = self.column
        if column.labels:
            pairs = [f"{yaml_code(code)}: {yaml_text(label)}" for code, label in column.labels.items()]
            return "labels", "{", pairs, "}"
        values = column.values or (("false", "true") if column.logical_type == "boolean" else ())
        if values:
            return "values", "[", [value if value in ("false", "true") else yaml_code(value) for value in values], "]"
        if column.logical_type == "array":
            open_ = [f"{key}: {PLACEHOLDER}" for key in ("height", "width", "levels")]
            return "height", "", [*open_, f"nulls: {{to: {PLACEHOLDER}}}"], ""
        if column.bounds is None or (column.logical_type == "date" and not all(map(_DAY.fullmatch, column.bounds))):
            return None
        low, high = column.bounds
        plain_number = column.logical_type == "number" and "." not in low + high + (column.width or "")
        prefix = "number " if plain_number else ""
        return "range", "", [f"{prefix}{low}..{high} by {column.width or PLACEHOLDER}"], ""

    def _extras(self, key: str) -> Iterator[str]:
        """What the block has beside its form."""
        column = self.column
        codes = list(column.labels or column.values)
        logical = column.logical_type
        if key in ("labels", "values") and logical not in (None, "boolean") and type_of_texts(codes) != logical:
            yield f"type: {logical}"
        if column.description:
            yield f"description: {yaml_text(column.description)}"
        if column.form is not None:
            yield f"format: {yaml_text(column.form)}"
        if column.missing:
            yield f"missing: [{', '.join(map(yaml_code, column.missing))}]"
        if column.origin and column.origin != _usual_origin(self.table):
            yield f"provenance: {_provenance(column.origin, self.table)}"
        elif key == "labels" and DOMAIN_KEYS & set(codes) and not column.description:
            yield f"type: {type_of_texts(codes)}"


# --- The text of a draft in the long form.


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
    return "\n".join([*_table_head(table), *_table(table)]) + "\n"


def _table_head(table: TableSketch) -> Iterator[str]:
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
