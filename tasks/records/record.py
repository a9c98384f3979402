"""The audit record of a run: the exact statement of a version, and beside it what only the publisher can say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import isfinite
from typing import Any, Final

from contracts.canonical import canonical_json
from contracts.message import messages_to_json
from tasks.records.groups.account import LEDGER
from tasks.records.groups.audits import AUDITS
from tasks.records.groups.contract_terms import CONTRACT, UNIT
from tasks.records.groups.evidence import INTEGRITY, OUTPUT
from tasks.records.groups.field import Field, FieldGroup, Run
from tasks.records.groups.guarantee import GUARANTEE
from tasks.records.groups.noise import NOISE
from tasks.records.groups.post_processing import POST_PROCESSING
from tasks.records.groups.provenance import PROVENANCE
from tasks.records.groups.release_identity import ACCOUNTABILITY, IDENTITY, SOURCE
from tasks.records.groups.reproducibility import NOTICES, REPRODUCIBILITY
from tasks.records.groups.unprotected import PREPROCESSING, UNPROTECTED
from tasks.records.groups.utility import UTILITY
from tasks.records.hazards.limitations import LIMITATIONS
from tasks.records.model.auditor_statements import COMMITMENT, withheld
from tasks.records.model.record_kinds import ACROSS, record_model, record_part
from tasks.records.model.statement import FileStatement
from tasks.records.model.version_statements import RECORD_SCHEMA, RecordTerms
from tasks.records.published_run import RunEvidence, Unpublished, published_run
from tasks.records.replay_block import replay

GROUPS: Final[tuple[FieldGroup, ...]] = (
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
    """State a run: exactly what is computed from, and by name what nothing published gives.

    Args:
        run: the finished run with its data files.
    Returns:
        Record: the full record, for auditors; `public_copy` makes the published one.
    Privacy: the section `auditor` holds private facts; no exact count is among them.
    """
    kind = run.facts.spec.product.kind if run.facts.execution is None else ACROSS
    stated = _statement(run, {})
    read = record_model(kind).model_validate(stated)
    published = published_run(read, evidence_of(run))
    own = {path: field.fill(run) for path, field in _own_fields(kind, published)}
    kept = {path: messages_to_json(value) for path, value in own.items() if value is not None}
    private = {path: field.fill(run) for path, field in named_fields(kind) if field.visibility == "auditor"}
    complete = _statement(run, json.loads(canonical_json(kept)))
    complete["auditor"] = {path: messages_to_json(value) for path, value in private.items() if value is not None}
    record: RecordTerms = record_model(kind).model_validate(json.loads(canonical_json(complete)))
    written = record.model_dump(mode="json", by_alias=True)
    del written[COMMITMENT]
    return written


def named_fields(kind: str) -> Iterator[tuple[str, Field]]:
    """Yield the fields of a kind of product by their names ("guarantee.epsilon")."""
    for group in record_part(kind).groups(GROUPS):
        for field in group.fields:
            yield f"{group.name}.{field.name}", field


def underived(kind: str, published: Run) -> Iterator[str]:
    """Yield the names of the public fields that what is published does not give."""
    return (path for path, _ in _own_fields(kind, published))


def _own_fields(kind: str, published: Run) -> Iterator[tuple[str, Field]]:
    for path, field in named_fields(kind):
        if field.visibility == "public":
            try:
                field.fill(published)
            except Unpublished:
                yield path, field


def evidence_of(run: Run) -> RunEvidence:
    """Return what journal and manifest of a version will say of a run."""
    facts = run.facts
    files = {file.path: FileStatement(sha256=file.sha256, bytes=file.bytes) for file in run.files}
    return RunEvidence(facts.entries, (facts.account, *facts.other_accounts), files)


def _statement(run: Run, fields: dict[str, Any]) -> RecordJson:
    facts = run.facts
    return {
        "schema": RECORD_SCHEMA,
        "release": facts.version.release,
        "version": facts.version.number,
        "supersedes": facts.supersedes,
        "files": [
            {
                "path": file.path,
                "rows": file.rows,
                "columns": [{"name": name, "type": kind} for name, kind in file.columns],
            }
            for file in run.files
        ],
        "declarations": _declarations(run, fields),
        "replay": replay(run),
    }


def _declarations(run: Run, fields: dict[str, Any]) -> dict[str, Any]:
    facts, here = run.facts, run.facts.software
    second = facts.pld_epsilon
    return {
        "about": facts.about.model_dump(mode="json", exclude_none=True),
        "source": _source(run) if facts.execution is None else None,
        "formats": list(facts.spec.publish.formats),
        "software": {
            "packages": dict(here.packages),
            "python": here.python,
            "platform": here.platform,
            "code": here.code,
            "commit": here.commit,
            "dirty": here.dirty,
            "distributions": len(here.installed),
            "distributions_sha256": here.installed_sha256 if here.installed else None,
            "container": here.container,
        },
        "earlier_charges": [
            {"release": charge.request.release, "amount": charge.amount_of(facts.account.terms.name)}
            for charge in facts.earlier
        ],
        "second_epsilon": second if second is None or isfinite(second) else "infinite",
        "claim_source": facts.claim_source if facts.charge.request.delta else None,
        "fields": fields,
    }


def _source(run: Run) -> dict[str, Any]:
    source = run.facts.spec.source
    return {
        "format": source.format,
        "files": source.files,
        "select": source.select,
        "select_types": dict(source.select_types(run.facts.contract)[0]),
        "by": source.by,
        **({} if source.engine is None else {"engine": source.engine}),
    }


def public_copy(record: RecordJson, commitment: str | None = None) -> RecordJson:
    """Return the record with the auditor-only values withheld.

    Args:
        record: the complete record.
        commitment: to the complete record; a published one has it.
    """
    return withheld(record) if commitment is None else {**withheld(record), COMMITMENT: commitment}
