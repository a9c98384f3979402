"""What only the publisher and the run can say of a version: the record's section `declarations`, all of it by name.

Nothing that is published confirms these values, so a verification lists each as the publisher's word. All other words
for people follow from the rest of the record, and from journal and manifest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, Final, Literal

from pydantic import Field

from contracts.canonical import canonical_json
from tasks.records.model.statement import Count, Hash, KeyId, Signature, StatedText, Statement, Tuple, Units


class SourceStatement(Statement):
    """How the rows were read: form and projection, and the columns' fixed types in it; not where they are.

    `engine` counted the rows where they are; without it a snapshot in DuckDB was counted.
    """

    format: StatedText
    files: StatedText | None
    select: StatedText | None
    select_types: dict[StatedText, StatedText]
    by: StatedText | None
    engine: StatedText | None = Field(default=None, exclude_if=lambda engine: engine is None)


class SoftwareStatement(Statement):
    """What computed the release."""

    packages: dict[StatedText, StatedText]
    python: StatedText
    platform: StatedText
    code: StatedText
    commit: StatedText | None
    dirty: bool | None
    distributions: Count
    distributions_sha256: Hash | None
    container: StatedText | None


class EarlierCharge(Statement):
    """A charge that the account had before this one; its cost in the account's units."""

    release: StatedText
    amount: Units


class Declarations(Statement):
    """The publisher's word.

    Attributes:
        about: what people declare, as the spec or the workspace has it.
        source: how the rows were read; None where sites read their own.
        formats: the formats that were asked for.
        software: what computed the release.
        earlier_charges: the charges that the account had before.
        second_epsilon: ε by the second accountant, where it applies.
        claim_source: which derivation gives the claimed ε; None where the losses are pure.
        fields: values of fields for people that nothing else in the version gives, by name of the field.
    """

    about: dict[StatedText, Any]
    source: SourceStatement | None
    formats: Tuple[StatedText]
    software: SoftwareStatement
    earlier_charges: Tuple[EarlierCharge]
    second_epsilon: float | Literal["infinite"] | None
    claim_source: StatedText | None
    fields: dict[StatedText, Any]

    def names(self) -> Iterator[str]:
        """Name every value that stands here, as the record does."""
        for part in ("about", "source", "software", "fields"):
            named = getattr(self, part)
            keys = named if isinstance(named, dict) else () if named is None else type(named).model_fields
            yield from (f"declarations.{part}.{key}" for key in sorted(keys))
        plain = ("formats", "earlier_charges", "second_epsilon", "claim_source")
        yield from (f"declarations.{name}" for name in plain)


# --- record.auditor.json.


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
