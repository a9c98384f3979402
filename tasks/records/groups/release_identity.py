"""Identity, accountability and source: which release this is, who answers for it, and which data it is about."""

from __future__ import annotations

from privacy.ledger.journal.signing import key_id
from tasks.records.groups.declarations import declares
from tasks.records.groups.field import NONE, FieldGroup, Run, auditor, public, unsourced


def _approvals(run: Run) -> str | list[dict[str, str]]:
    stated = run.facts.approvals
    if stated is None:
        return NONE
    names = {each.key: each.name for each in stated.by}
    return [{"name": names.get(each.key, NONE), "key_id": key_id(each.key), "at": each.at} for each in stated.given]


IDENTITY = FieldGroup(
    "identity",
    "Identity",
    (
        public(
            "release_id", "Name of the product; stays the same over its versions.", lambda run: run.facts.spec.release
        ),
        public("version", "Number of this publication.", lambda run: run.facts.version.number),
        public(
            "status_when_written",
            "Status in the ledger when this record was written; the status of today is in the signed journal.",
            lambda run: run.facts.version.status,
        ),
        public("supersedes", "Number of the version before.", lambda run: run.facts.supersedes or NONE),
        unsourced(
            "superseded_by",
            "Number of the version after; known later, and then in the signed journal.",
            "a signed record does not change; `sudare releases` and the journal know",
        ),
        public("title", "Name of the data.", lambda run: run.facts.contract.name),
        public("product_type", "What is published.", lambda run: run.facts.spec.product.kind),
        public("reference_period", "Time block of the account that paid.", lambda run: run.facts.account.terms.block),
        public(
            "due",
            "Date on which this version was due, by `redraw: on_schedule`; that it was made does not depend on the "
            "rows.",
            lambda run: run.facts.spec.due or NONE,
        ),
        public(
            "measured_hour",
            "Hour (UTC) in which the measurements were complete.",
            lambda run: hour(run.facts.finished),
        ),
        auditor(
            "started",
            "When the attempt that published it began, to the second.",
            lambda run: run.facts.attempt[0] if run.facts.attempt else run.facts.started,
        ),
        auditor(
            "finished",
            "When that attempt had measured, to the second.",
            lambda run: run.facts.attempt[1] if run.facts.attempt else run.facts.finished,
        ),
        declares("sector", "Sector of the publisher."),
        declares("region", "Region that the data are about."),
        declares("registry_id", "Entry in a public registry of deployments."),
    ),
)

ACCOUNTABILITY = FieldGroup(
    "accountability",
    "Accountability",
    (
        public(
            "purpose",
            "What the data are for, as the contract says.",
            lambda run: described(run, "purpose"),
            absent="the contract has no `description: {purpose: ...}`",
        ),
        declares("audience", "For whom the release is made."),
        declares("curator", "Who is responsible for the data."),
        declares("operator", "Who ran the release."),
        declares("approvers", "Who approved it, and when."),
        public("approvals", "Who signed the plan before it was charged; the signatures are checked.", _approvals),
        declares("legal_basis", "Legal basis, or reference of the impact assessment."),
        declares("policy_version", "Privacy policy that the release follows."),
        declares("rationale", "Why this epsilon, and why this cap."),
        declares("contact", "Whom to write to about errors."),
    ),
)

SOURCE = FieldGroup(
    "source",
    "Source",
    (
        auditor(
            "source", "The confidential table, as the ledger knows it.", lambda run: run.facts.charge.request.source
        ),
        auditor("source_path", "Where it was read.", lambda run: str(run.facts.spec.source.path)),
        public("source_format", "Format of the file.", lambda run: run.facts.spec.source.format),
        public(
            "select",
            "Row-wise projection and filter on the way in.",
            lambda run: run.facts.spec.source.select or NONE,
        ),
        public(
            "snapshot_keyed_hash",
            "Mark of the encoded rows, keyed and salted with the spec: it does not link releases of different specs.",
            lambda run: run.facts.charge.request.snapshot_hash,
        ),
        public("population", "The people.", lambda run: run.facts.account.terms.population),
        public("time_block", "The time that the account covers.", lambda run: run.facts.account.terms.block),
        declares("lineage", "From which systems the table came."),
        declares("retention", "When the snapshot and the source are deleted."),
        declares("trust_model", "Who sees the confidential rows, and who is trusted."),
    ),
)


def hour(time: str) -> str:
    """Cut a time (ISO 8601, UTC) down to its hour."""
    return f"{time[:13]}:00Z"


def described(run: Run, key: str) -> str | None:
    """Return what the contract's description says under a key."""
    return run.facts.contract.description.get(key)
