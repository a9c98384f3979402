"""record.auditor.json: the complete record, signed, and the commitment to it that the public record holds.

The commitment is SHA-256(salt ‖ canonical JSON of the complete record). The salt, 32 random bytes, is in the complete
record's file alone, so that the commitment tells nothing of what is withheld.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final, Literal

from pydantic import Field

from contracts.canonical import canonical_json
from tasks.records.model.statement import Count, Hash, KeyId, Signature, StatedText, Statement

AUDITOR_SCHEMA: Final = "sudare-auditor-record/1"
PURPOSE: Final = "auditor-record"
SALT_BYTES: Final = 32
COMMITMENT: Final = "auditor_commitment"
AUDITOR: Final = "auditor"
"""The section of a complete record that holds the values for auditors, by name of the field."""
WITHHELD: Final = "withheld"
Json = dict[str, Any]


class SealedRecord(Statement):
    """record.auditor.json."""

    schema_: Literal["sudare-auditor-record/1"] = Field(alias="schema")
    release: StatedText
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
    return {name: part for name, part in record.items() if name != AUDITOR}
