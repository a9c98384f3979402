"""The audit record of a run: every field by group, what is not available, and what the release is replayed from."""

from __future__ import annotations

from typing import Any

from tasks.records.groups.account import LEDGER
from tasks.records.groups.audits import AUDITS
from tasks.records.groups.contract_terms import CONTRACT, UNIT
from tasks.records.groups.evidence import INTEGRITY, OUTPUT
from tasks.records.groups.field import NOT_AVAILABLE, Field, FieldGroup, Run
from tasks.records.groups.guarantee import GUARANTEE
from tasks.records.groups.noise import NOISE, POST_PROCESSING
from tasks.records.groups.provenance import PROVENANCE
from tasks.records.groups.release_identity import ACCOUNTABILITY, IDENTITY, SOURCE
from tasks.records.groups.reproducibility import NOTICES, REPRODUCIBILITY
from tasks.records.groups.unprotected import PREPROCESSING, UNPROTECTED
from tasks.records.groups.utility import UTILITY
from tasks.records.hazards.limitations import LIMITATIONS
from tasks.records.model.auditor_statements import COMMITMENT, withheld
from tasks.records.product_groups import ACROSS, groups_of
from tasks.records.replay_block import replay

RECORD_SCHEMA = "sudare-record/1"
GROUPS: tuple[FieldGroup, ...] = (
    IDENTITY,
    ACCOUNTABILITY,
    SOURCE,
    CONTRACT,
    UNIT,
    GUARANTEE,
    LEDGER,
    UNPROTECTED,
    PREPROCESSING,
    NOISE,
    POST_PROCESSING,
    UTILITY,
    AUDITS,
    LIMITATIONS,
    PROVENANCE,
    OUTPUT,
    INTEGRITY,
    REPRODUCIBILITY,
    NOTICES,
)

RecordJson = dict[str, Any]


def build_record(run: Run) -> RecordJson:
    """Fill every field from a run.

    Args:
        run: the finished run with its data files.
    Returns:
        Record: the full record, for auditors; `public_copy` makes the published one.
    Privacy: auditor-only fields hold private facts; no exact count is among them.
    """
    kind = run.facts.spec.product.kind if run.facts.execution is None else ACROSS
    groups = groups_of(kind, GROUPS)
    values = {group.name: {field.name: field.fill(run) for field in group.fields} for group in groups}
    return {
        "schema": RECORD_SCHEMA,
        "release": run.facts.version.release,
        "version": run.facts.version.number,
        "groups": {group.name: _filled(group, values[group.name]) for group in groups},
        "not_available": sorted(
            f"{section}.{name}"
            for section, filled in values.items()
            for name, value in filled.items()
            if value is None
        ),
        "declared": sorted(
            f"{group.name}.{field.name}"
            for group in groups
            for field in group.fields
            if field.declared and values[group.name][field.name] is not None
        ),
        "replay": replay(run),
    }


def public_copy(record: RecordJson, commitment: str | None = None) -> RecordJson:
    """Return the record with the auditor-only values withheld.

    Args:
        record: the complete record.
        commitment: to the complete record; a published one has it.
    """
    return withheld(record) if commitment is None else {**withheld(record), COMMITMENT: commitment}


def _filled(group: FieldGroup, values: dict[str, Any]) -> dict[str, Any]:
    fields = {field.name: stated_field(field, values[field.name]) for field in group.fields}
    return {"title": group.title, "fields": fields}


def stated_field(field: Field, value: Any) -> dict[str, Any]:
    """Write a field with its value, or without one and why."""
    if value is None:
        return {"class": field.visibility, "value": NOT_AVAILABLE, "reason": field.absent}
    return {"class": field.visibility, "value": value}
