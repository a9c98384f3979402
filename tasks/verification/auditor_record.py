"""The complete record that auditors get (`tasks.records.model.auditor_statements`), held against the published one.

Checked, in this order:

1. the file follows its schema and is signed under the pinned key, for this purpose
2. it is of the version at hand
3. the public record's commitment is to this very record
4. the public record is this one with the auditors' values withheld, and nothing else changed
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from contracts.errors import Finding
from tasks.records.model.auditor_statements import COMMITMENT, PURPOSE, Json, SealedRecord, commitment, withheld
from tasks.records.model.statement import read_statement
from tasks.records.strict_json import printable, shown
from tasks.verification.inclusion import check_signature

_OTHER: Final = "this is not the record that the published one was made from: ask the publisher for it"


def check_sealed(value: Any, published: Any, *, public_key: str, where: str) -> list[Finding]:
    """Check an auditor's record against the published one.

    Args:
        value: the auditor's file, as JSON values.
        published: record.json, as JSON values.
        public_key: the pinned key (hex).
        where: name of the auditor's file.
    """
    sealed, findings = read_statement(SealedRecord, value, where=where)
    if sealed is None:
        return findings
    signed = {key: part for key, part in value.items() if key != "signature"}
    findings += check_signature(PURPOSE, signed, sealed.key_id, sealed.signature, public_key=public_key, where=where)
    stated = published if isinstance(published, dict) else {}
    named = [("release", sealed.release, stated.get("release")), ("version", sealed.version, stated.get("version"))]
    for field, found, expected in named:
        if found != expected:
            findings.append(Finding(where, field, shown(found), f"{shown(expected)}, as record.json says", _OTHER))
    made = commitment(bytes.fromhex(sealed.salt), sealed.record)
    if stated.get(COMMITMENT) != made:
        found = shown(stated.get(COMMITMENT))
        findings.append(Finding("record.json", COMMITMENT, found, f"{made}, the commitment to {where}", _OTHER))
    return findings + _compare(sealed.record, stated, where)


def _compare(record: Json, published: Json, where: str) -> list[Finding]:
    """Compare the published record with this one, the auditors' values withheld."""
    expected = {**withheld(record), COMMITMENT: published.get(COMMITMENT)}
    findings = []
    for at, ours, theirs in _parts(expected, published):
        if ours != theirs:
            found, allowed = shown(theirs), f"{shown(ours)}, as in {where}"
            findings.append(Finding("record.json", printable(at), found, allowed, _OTHER))
    return findings


def _parts(ours: Any, theirs: Any, at: str = "", depth: int = 3) -> Iterator[tuple[str, Any, Any]]:
    """Yield the parts of two values side by side, with their place."""
    if depth and isinstance(ours, dict) and isinstance(theirs, dict):
        for name in sorted({*ours, *theirs}):
            yield from _parts(ours.get(name), theirs.get(name), f"{at}.{name}" if at else name, depth - 1)
    else:
        yield at, ours, theirs
