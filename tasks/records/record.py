"""The audit record of a run: the exact statement of a version, and beside it what only the publisher can say."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import Any, Final

from contracts.canonical import canonical_json
from contracts.message import messages_from_json, messages_to_json
from contracts.reading.scalars import plain_text
from privacy.ledger.terms import Charge
from tasks.records.files.tidy_tables import WrittenFile
from tasks.records.groups.field import NOT_AVAILABLE, WITHHELD, Field, FieldGroup, Run
from tasks.records.groups.guarantee import GUARANTEE, LEDGER, NOISE, taken
from tasks.records.groups.origin import (
    ACCOUNTABILITY,
    AUDITS,
    IDENTITY,
    INTEGRITY,
    NOTICES,
    OUTPUT,
    PROVENANCE,
    REPRODUCIBILITY,
    SOURCE,
)
from tasks.records.groups.post_processing import POST_PROCESSING, UTILITY
from tasks.records.groups.terms import CONTRACT, PREPROCESSING, UNIT, UNPROTECTED
from tasks.records.hazards.limits import LIMITATIONS
from tasks.records.model.declarations import COMMITMENT, withheld
from tasks.records.model.journal_statements import Proof
from tasks.records.model.manifest import Manifest, manifest_of
from tasks.records.model.record_kinds import ACROSS, record_model, record_part, stated_kind
from tasks.records.model.statement import FileStatement
from tasks.records.model.version_statements import RECORD_SCHEMA, RecordTerms
from tasks.records.published_run import RunEvidence, Unpublished, evidence, published_run
from tasks.records.values import Values
from tasks.storage.manifest import MANIFEST, PROOF

# --- The record's `replay` part.


def replay(run: Run) -> dict[str, Any]:
    """Return what the release is computed from, beside the files.

    Amounts are integers: losses in 10⁻¹², deltas in 10⁻¹⁸. The spec's amounts are its own text.
    """
    facts = run.facts
    return {
        "contract": facts.contract.model_dump(mode="json"),
        "contract_digest": facts.contract.digest,
        "spec_digest": facts.charge.request.spec_digest,
        "charge": {
            "account": facts.spec.charge.account,
            "epsilon": plain_text(facts.spec.charge.epsilon),
            "delta": plain_text(facts.spec.charge.delta),
            "noise_epsilon": facts.charge.request.noise_epsilon,
        },
        "product": facts.spec.product.model_dump(mode="json"),
        "adjacency": facts.charge.request.adjacency,
        "rows_per_unit": facts.charge.request.rows_per_unit,
        "calculus": facts.account.terms.calculus.to_json(),
        "claim": _claim(facts.charge),
        "amount": facts.charge.amount,
        "before": taken(run)["before"],
        "after": taken(run)["after"],
        "cap": facts.account.cap,
        "formulas": facts.spec.publish.formulas,
        **({} if facts.spec.publish.labels is None else {"labels": facts.spec.publish.labels}),
        **({"exchange": list(facts.spec.publish.exchange)} if facts.spec.publish.exchange else {}),
        **({} if facts.approvals is None else {"approvals": facts.approvals.model_dump(mode="json")}),
        "due": facts.spec.due,
        "distances": {key: found.to_json() for key, found in facts.distances.items()},
        **_of_the_product(run),
    }


def _of_the_product(run: Run) -> dict[str, Any]:
    """Return the part that only this kind of product has."""
    return record_part(ACROSS if run.facts.execution is not None else run.facts.spec.product.kind).stated(run)


def _claim(charge: Charge) -> dict[str, int]:
    return {"epsilon": charge.request.epsilon, "delta": charge.request.delta}


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


# --- What a record tells people.


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
