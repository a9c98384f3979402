"""Rule 10, every field: what follows from what is published is filled again; the rest is the publisher's word.

Both the fields and their reasons are filled by the code that wrote the record, so they are compared where that very
code runs here (`pages.words_of_this_code`). Elsewhere the fields with an exact counterpart are compared
(`explanations`), and all others are listed as words.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from contracts.canonical import canonical_json
from contracts.errors import Finding
from tasks.records.groups.field import NOT_AVAILABLE, WITHHELD, Field, FieldGroup, Run
from tasks.records.model.across_statements import AcrossRecord
from tasks.records.model.version_statements import Proof, RecordTerms
from tasks.records.product_groups import ACROSS, groups_of
from tasks.records.record import GROUPS, stated_field
from tasks.records.strict_json import shown
from tasks.verification.published_run import Unpublished, published_run

_NOT_DERIVED: Final = "the record tells people something else than follows from what is published: go by `replay`"
_LISTS: Final = ("declared", "not_available")


def check_fields(record: RecordTerms, proof: Proof, *, where: str) -> tuple[list[Finding], tuple[str, ...]]:
    """Fill each public field again from what is published, and compare it.

    Args:
        record: the record, written by the code that runs here.
        proof: the journal's entries of the run.
        where: the record's file name.
    Returns:
        tuple: the findings, and the names of the fields that are the publisher's word ("accountability.curator").
    """
    run, findings, word = published_run(record, proof), [], []
    kind = ACROSS if isinstance(record, AcrossRecord) else record.replay.product["kind"]
    groups = groups_of(kind, GROUPS)
    expected = {group.name: {field.name for field in group.fields} for group in groups}
    found = {section: set(group.fields) for section, group in record.groups.items()}
    if found != expected:
        names = sorted(_names(found) ^ _names(expected))
        findings.append(Finding(where, "groups", shown(names), "the fields of such a record", _NOT_DERIVED))
        return findings, ()
    for group in groups:
        if record.groups[group.name].title != group.title:
            title = record.groups[group.name].title
            findings.append(Finding(where, f"groups.{group.name}.title", shown(title), group.title, _NOT_DERIVED))
        for field in group.fields:
            name = f"{group.name}.{field.name}"
            stated = record.groups[group.name].fields[field.name].model_dump(by_alias=True, exclude_none=True)
            derived = _filled(field, run)
            word += [name] if derived is None else []
            if stated != (derived or _as_word(field, stated)):
                findings.append(_finding(name, stated, derived or _as_word(field, stated), where))
    findings += _check_lists(record, groups, where)
    return findings, tuple(word)


def _names(fields: Mapping[str, set[str]]) -> set[str]:
    return {f"{section}.{name}" for section, names in fields.items() for name in names}


def _filled(field: Field, run: Run) -> dict[str, Any] | None:
    """Fill a field again, as it is written; None where what is published does not decide it."""
    if field.visibility == "auditor":
        return {"class": "auditor", "value": WITHHELD}
    if field.declared:
        return None
    try:
        filled: dict[str, Any] = json.loads(canonical_json(stated_field(field, field.fill(run))))
    except Unpublished:
        return None
    return filled


def _as_word(field: Field, stated: Mapping[str, Any]) -> dict[str, Any]:
    """Return how a publisher's word is written: any value, or none for the reason that the field has."""
    value = stated.get("value")
    return stated_field(field, None if value == NOT_AVAILABLE else value)


def _finding(name: str, stated: Mapping[str, Any], expected: Mapping[str, Any], where: str) -> Finding:
    part = next(part for part in ("class", "value", "reason") if stated.get(part) != expected.get(part))
    allowed = f"{shown(expected.get(part, 'nothing'))}, which follows from what is published"
    at = f"groups.{name}" if part == "value" else f"groups.{name}, {part}"
    return Finding(where, at, shown(stated.get(part, "nothing")), allowed, _NOT_DERIVED)


def _check_lists(record: RecordTerms, groups: tuple[FieldGroup, ...], where: str) -> Iterator[Finding]:
    """Check that the record lists the fields without a value, and those that are declared."""
    values = {
        f"{group.name}.{field.name}": (field.declared, record.groups[group.name].fields[field.name].value)
        for group in groups
        for field in group.fields
        if field.visibility == "public"
    }
    withheld = {f"{group.name}.{field.name}" for group in groups for field in group.fields} - set(values)
    expected = (
        sorted(name for name, (declared, value) in values.items() if declared and value != NOT_AVAILABLE),
        sorted(name for name, (_, value) in values.items() if value == NOT_AVAILABLE),
    )
    for name, wanted in zip(_LISTS, expected, strict=True):
        stated = [each for each in getattr(record, name) if each not in withheld]
        if stated != wanted:
            yield Finding(where, name, shown(stated), shown(wanted), _NOT_DERIVED)
