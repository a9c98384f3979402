"""The complete record, for auditors: signed, and committed to by the public one, so that both have one source.

The public record holds SHA-256(salt ‖ canonical JSON of the complete record). The salt, 32 random bytes, is in the
complete record's file alone, so that the commitment tells nothing of what is withheld. Checked, in this order:

1. the file follows its schema and is signed under the pinned key, for this purpose
2. it is of the version at hand
3. the public record's commitment is to this very record
4. the public record is this one with the auditors' values withheld, and nothing else changed
"""

from __future__ import annotations

import hashlib
from typing import Any, Final, Literal

from pydantic import Field

from contracts.canonical import canonical_json
from contracts.errors import Finding
from tasks.records.model.version_statements import Count, Hash, KeyId, Signature, Statement, Text, read_statement
from tasks.records.strict_json import printable, shown
from tasks.verification.inclusion import check_signature

AUDITOR_SCHEMA: Final = "sudare-auditor-record/1"
PURPOSE: Final = "auditor-record"
SALT_BYTES: Final = 32
COMMITMENT: Final = "auditor_commitment"
WITHHELD: Final = "withheld"
Json = dict[str, Any]

_OTHER: Final = "this is not the record that the published one was made from: ask the publisher for it"


class SealedRecord(Statement):
    """record.auditor.json."""

    schema_: Literal["sudare-auditor-record/1"] = Field(alias="schema")
    release: Text
    version: Count
    salt: Hash
    record: dict[str, Any]
    key_id: KeyId
    signature: Signature


def commitment(salt: bytes, record: Json) -> str:
    """Return the commitment (hex) to a complete record."""
    return hashlib.sha256(salt + canonical_json(record)).hexdigest()


def withheld(record: Json) -> Json:
    """Return the record with the values for auditors withheld."""
    groups = {
        letter: {**group, "fields": {name: _public(field) for name, field in group["fields"].items()}}
        for letter, group in record["groups"].items()
    }
    return {**record, "groups": groups}


def _public(field: Json) -> Json:
    return {"class": "auditor", "value": WITHHELD} if field["class"] == "auditor" else field


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
    try:
        expected = {**withheld(record), COMMITMENT: published.get(COMMITMENT)}
        parts = {**expected, "groups": None}, {**published, "groups": None}
        fields = _fields(expected), _fields(published)
    except (AttributeError, KeyError, TypeError):
        return [Finding(where, "record", "another form", "a complete record", _OTHER)]
    findings = []
    for (ours, theirs), at in ((parts, ""), (fields, "groups.")):
        for name in sorted({*ours, *theirs}):
            if ours.get(name) != theirs.get(name):
                found, allowed = shown(theirs.get(name)), f"{shown(ours.get(name))}, as in {where}"
                findings.append(Finding("record.json", printable(f"{at}{name}"), found, allowed, _OTHER))
    return findings


def _fields(record: Json) -> Json:
    return {
        f"{letter}.{name}": field
        for letter, group in record["groups"].items()
        for name, field in group["fields"].items()
    }
