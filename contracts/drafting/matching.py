"""A table and its codebook, column by column: what only one of them has, and where they contradict each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from contracts.drafting.codebooks.entries import Codebook, sketch_of_entry
from contracts.drafting.sketch import ColumnSketch, DraftRefused, TableSketch
from contracts.errors import Finding
from contracts.reading.scalars import closest, read_number, word_list

_SHOWN = 6
_BY_HAND: Final = "declare it by hand; what nobody shall read stands under `left_out:`"


def sketch_of_codebook(codebook: Codebook, name: str) -> TableSketch:
    """Sketch a table from a codebook alone."""
    read = [sketch_of_entry(entry, codebook.file) for entry in codebook.entries]
    findings = tuple(finding for _, found in read for finding in found)
    origin = f"the codebook {codebook.file}"
    return TableSketch(
        name,
        tuple(column for column, _ in read),
        origin,
        title=codebook.title,
        hints=codebook.hints,
        findings=findings,
    )


def matched(table: TableSketch, codebook: Codebook) -> TableSketch:
    """Give the columns of a table what a codebook says of them.

    Args:
        table: names, and types where the source has some.
        codebook: of the same table, or of a larger one.
    Returns:
        TableSketch: the columns of the table, in its order; in `findings` every contradiction and every column that
        the codebook lacks. A column with a contradiction is left open.
    Raises:
        DraftRefused: the two have no column in common.
    """
    described = sketch_of_codebook(codebook, table.name)
    entries = {column.name.casefold(): column for column in described.columns}
    if not any(column.name.casefold() in entries for column in table.columns):
        names = [column.name for column in described.columns]
        found = f"none of the columns of {table.origin}"
        remedy = "name the codebook of this table, or rename its columns"
        raise DraftRefused([Finding(described.columns[0].where, "codebook", found, word_list(names), remedy)])
    findings = [each for each in described.findings if _about(each, table)]
    own = {column.name.casefold() for column in table.columns}
    free = [each.name for each in described.columns if each.name.casefold() not in own]
    columns = []
    for column in table.columns:
        entry = entries.get(column.name.casefold())
        said = _missing(column, codebook, free) if entry is None else _contradictions(column, entry)
        findings += said
        columns.append(column if entry is None else _joined(column, entry, said))
    unused = [
        each.name for each in described.columns if each.name.casefold() not in {c.name.casefold() for c in columns}
    ]
    hints = (*table.hints, *codebook.hints, *_unused(unused, codebook))
    origin = f"{table.origin} and the codebook {codebook.file}"
    title = table.title or described.title
    return replace(table, columns=tuple(columns), origin=origin, title=title, hints=hints, findings=tuple(findings))


def _about(finding: Finding, table: TableSketch) -> bool:
    """Say whether what the codebook contradicts itself in concerns the table."""
    return any(finding.field == f"column {column.name!r}" for column in table.columns)


def _unused(names: list[str], codebook: Codebook) -> Iterator[str]:
    if names:
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        listed = ", ".join(names[:_SHOWN]) + more
        yield f"{codebook.file} also describes columns that the table does not have: {listed}."


def _missing(column: ColumnSketch, codebook: Codebook, free: list[str]) -> list[Finding]:
    """A column that the codebook lacks; with a name that it may be meant by, of those that no column has."""
    close = closest(column.name, free)
    remedy = f"if {close!r} is meant, write {column.name!r} in {codebook.file}" if close else _BY_HAND
    found = f"no entry in {codebook.file}"
    return [Finding(column.where, f"column {column.name!r}", found, "a column that the codebook describes", remedy)]


def _contradictions(column: ColumnSketch, entry: ColumnSketch) -> list[Finding]:
    """What the table's own declarations and the codebook cannot both be right about."""
    stored, declared = column.logical_type, entry.logical_type
    unfit = [value for value in entry.values if not _fits(value, str(stored))]
    apart = sorted(set(column.values) ^ set(entry.values)) if column.values and entry.values else []
    numbers = entry.bounds is not None and declared != "date"
    side = "the table" if apart and apart[0] in column.values else "the codebook"
    said = {
        f"a range of numbers, while the table stores {stored}": numbers and stored in ("date", "boolean", "array"),
        f"days, while the table stores {stored}": declared == "date" and stored not in (None, "date", "string"),
        f"{len(apart)} values on one side alone (the first is {''.join(apart[:1])!r}, of {side})": bool(apart),
    }
    if unfit:
        said[f"the code {unfit[0]!r}, while the table stores {stored}"] = True
    remedy = "correct the codebook, or the table; the column is left open"
    allowed = "a table and a codebook that say the same"
    return [Finding(entry.where, f"column {column.name!r}", found, allowed, remedy) for found in said if said[found]]


def _fits(value: str, stored: str) -> bool:
    """Say whether a column of a type can hold a code."""
    number = read_number(value)
    if stored in ("integer", "number"):
        return number is not None and (stored == "number" or not number % 1)
    if stored == "boolean":
        return value.lower() in ("true", "false", "0", "1")
    return stored not in ("date", "array")


def _joined(column: ColumnSketch, entry: ColumnSketch, found: list[Finding]) -> ColumnSketch:
    """Take over what the codebook declares; of a column with contradictions only the description."""
    hints = (*column.hints, *entry.hints, *(f"Contradiction: {each.found}." for each in found))
    if column.name != entry.name:
        hints = (*hints, f"The codebook writes {entry.name}.")
    if found:
        return ColumnSketch(column.name, None, entry.description, where=entry.where, hints=hints)
    keeps = column.logical_type if column.logical_type == "number" else None
    return replace(
        entry, name=column.name, logical_type=keeps or entry.logical_type or column.logical_type, hints=hints
    )
