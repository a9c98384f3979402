"""The text of a draft in the short form: a line a column, and once at the top what holds for all of them.

Privacy: what stands in a draft comes out of documents, or out of rows that a person said to be public.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from contracts.contract.short_column import DOMAIN_KEYS, type_of_texts
from contracts.drafting.advice.suspicions import names_an_id, names_free_text
from contracts.drafting.sketch import ColumnSketch, TableSketch
from contracts.drafting.yaml_words import comments, slug, wrapped, yaml_code, yaml_text
from contracts.reading.placeholders import CHECK_IT, PLACEHOLDER

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
