"""What a record tells people: every field, filled again from the record, the journal and the manifest.

The record states each thing once and exactly. All that people read (page, label, entries, console) is a rendering of
an `RecordExplanation`, in any language.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from contracts.message import messages_from_json
from tasks.records.files.tidy_tables import WrittenFile
from tasks.records.groups.field import NOT_AVAILABLE, WITHHELD, Field, FieldGroup
from tasks.records.model.record_kinds import record_model, record_part, stated_kind
from tasks.records.model.release_statement import Manifest, manifest_of
from tasks.records.model.version_statements import Proof, RecordTerms
from tasks.records.published_run import RunEvidence, Unpublished, evidence, published_run
from tasks.records.record import GROUPS, RecordJson, named_fields
from tasks.records.values import Values
from tasks.storage.version_folders import MANIFEST, PROOF


@dataclass(frozen=True)
class RecordExplanation:
    """A record with its words.

    Args:
        record: the record, as JSON values.
        groups: the sections of fields that such a record has, in their order.
        fields: each field by its name ("guarantee.epsilon"): class, value, and the reason where there is none.
        declared: names of the fields that the publisher declares.
        files: the data files, with what each one shows.
    """

    record: RecordJson
    groups: tuple[FieldGroup, ...]
    fields: Mapping[str, Mapping[str, Any]]
    declared: frozenset[str]
    files: tuple[WrittenFile, ...]

    @property
    def title(self) -> str:
        """The version, by its release."""
        return f"{self.record['release']} v{self.record['version']}"

    @cached_property
    def values(self) -> Values:
        """The values of the fields, by name."""
        return {path: field["value"] for path, field in self.fields.items()}

    @property
    def not_available(self) -> tuple[str, ...]:
        """Names of the fields that a run had no source for."""
        return tuple(sorted(path for path, value in self.values.items() if value == NOT_AVAILABLE))


def explain(record: RecordJson, proof: Proof, manifest: Manifest) -> RecordExplanation:
    """Say what a record means, from what its version publishes.

    Args:
        record: record.json, as JSON values; the sealed copy of it has the auditors' values too.
        proof: the journal's entries of the run.
        manifest: the version's files.
    Raises:
        ValidationError: the record does not follow its schema.
        SudareError, ValueError, LookupError: record, journal and contract do not belong together.
    Privacy: reads published statements only, and the auditors' values where they are in the record.
    """
    return explained(record, evidence(proof, manifest))


def explained(record: RecordJson, found: RunEvidence) -> RecordExplanation:
    """Say what a record means, from what journal and manifest will say of its run; as `explain`."""
    kind = stated_kind(record)
    read: RecordTerms = record_model(kind).model_validate(record)
    run, own, private = published_run(read, found), read.declarations.fields, read.auditor
    fields: dict[str, dict[str, Any]] = {}
    for path, field in named_fields(str(kind)):
        if field.visibility == "auditor":
            value = WITHHELD if private is None else messages_from_json(private.get(path))
        else:
            try:
                value = field.fill(run)
            except Unpublished:
                value = messages_from_json(own.get(path))
        fields[path] = stated_field(field, value)
    filled: dict[str, dict[str, Any]] = _values(fields)
    names = {path for path, field in named_fields(str(kind)) if field.declared}
    declared = frozenset(path for path in names if filled[path]["value"] != NOT_AVAILABLE)
    return RecordExplanation(record, record_part(str(kind)).groups(GROUPS), filled, declared, run.files)


def published_explanation(read: Callable[[str], bytes]) -> RecordExplanation:
    """Explain the record of a version, from its files.

    Args:
        read: returns the bytes of record.json, PROOF.json and MANIFEST.json.
    Raises:
        OSError, SudareError, ValueError, LookupError: a file is not there, or not what it should be.
    """
    record, proof, manifest = (json.loads(read(name)) for name in ("record.json", PROOF, MANIFEST))
    return explain(record, Proof.model_validate(proof), manifest_of(manifest))


def stated_field(field: Field, value: Any) -> dict[str, Any]:
    """Write a field with its value, or without one and why."""
    if value is None:
        return {"class": field.visibility, "value": NOT_AVAILABLE, "reason": field.absent}
    return {"class": field.visibility, "value": value}


def _values(value: Any) -> Any:
    """Write a value as JSON holds it, but for messages, which stay as they are; keys are sorted."""
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else str(key): _values(value[key]) for key in sorted(value)}
    return [_values(part) for part in value] if isinstance(value, list | tuple) else value
