"""MANIFEST.json: an in-toto statement about the files of a version, in a DSSE envelope.

Other people's tools check it with the publisher's key: `cosign`, `securesystemslib`, or any reader of DSSE. The
subjects are the published files; the predicate says what privacy they were published with.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from contracts.canonical import canonical_json
from contracts.errors import Finding
from privacy.accounting.amounts import atto_to_text, pico_to_text
from privacy.ledger.journal.notes import MOST_NOTE_BYTES, TreeHead, read_checkpoint
from privacy.ledger.journal.signing import envelope_holds, key_id, plain_base64
from tasks.records.model.journal_statements import EarlierCheckpoint, ProvenEntry
from tasks.records.model.statement import (
    Count,
    FileStatement,
    Hash,
    KeyId,
    StatedText,
    Statement,
    Tuple,
    read_statement,
)
from tasks.records.strict_json import LARGEST_JSON, printable, read_json

STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE: Final = "https://sudare.example/dp-release/v1"
_Base64 = Annotated[str, AfterValidator(lambda text: _decodable(text))]
RECORD: Final = "record.json"


def _decodable(text: str) -> str:
    plain_base64(text)
    return text


class EnvelopeSignature(Statement):
    """One signature over an envelope's payload."""

    keyid: KeyId
    sig: Annotated[_Base64, Field(max_length=128)]


class SignedEnvelope(Statement):
    """A DSSE envelope with an in-toto statement."""

    payload_type: Literal["application/vnd.in-toto+json"] = Field(alias="payloadType")
    payload: Annotated[_Base64, Field(max_length=2 * LARGEST_JSON)]
    signatures: Annotated[Tuple[EnvelopeSignature], Field(min_length=1, max_length=16)]


class SubjectDigest(Statement):
    """The digest of a file."""

    sha256: Hash


class SubjectSize(Statement):
    """The size of a file [bytes]."""

    bytes: Count


class ReleaseSubject(Statement):
    """One published file."""

    name: StatedText
    digest: SubjectDigest
    annotations: SubjectSize


class ReleasePredicate(Statement):
    """What privacy the files were published with: `dp-release/v1`.

    Args:
        release, version: which release, which of its versions.
        epsilon, delta: the guarantee, as plain decimal numbers.
        unit: whose loss is bounded: "row", or the column that says whose a row is.
        scope: over which rows of a unit: "block" or "lifetime".
        rows_per_unit: how many rows one unit has at most.
        relation: what neighbouring tables are: "add_remove" or "replace_one".
        account: the account that was charged.
        record: SHA-256 of record.json, which says all the rest.
    """

    release: StatedText
    version: Annotated[int, Field(ge=1)]
    epsilon: StatedText
    delta: StatedText
    unit: StatedText
    scope: StatedText
    rows_per_unit: Annotated[int, Field(ge=1, le=10**9)]
    relation: Literal["add_remove", "replace_one"]
    account: StatedText
    record: Hash


class Manifest(Statement):
    """The statement in MANIFEST.json: the files of the version, and what privacy they have."""

    type_: Literal["https://in-toto.io/Statement/v1"] = Field(alias="_type")
    subject: Tuple[ReleaseSubject]
    predicate_type: Literal["https://sudare.example/dp-release/v1"] = Field(alias="predicateType")
    predicate: ReleasePredicate

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        names = [each.name for each in self.subject]
        if names != sorted(set(names)):
            raise ValueError("subject: each file once, in the order of the names")
        return self

    @property
    def release(self) -> str:
        """The release's name."""
        return self.predicate.release

    @property
    def version(self) -> int:
        """The version's number."""
        return self.predicate.version

    @cached_property
    def files(self) -> Mapping[str, FileStatement]:
        """Digest and size of each file, by name."""
        return {
            each.name: FileStatement(sha256=each.digest.sha256, bytes=each.annotations.bytes) for each in self.subject
        }


def stated_predicate(record: Mapping[str, Any], sha256: str) -> dict[str, Any]:
    """Return the predicate of a version, from its record.

    Args:
        record: record.json, as JSON values.
        sha256: of its bytes, hex.
    """
    replay = record["replay"]
    unit = replay["contract"]["unit"]
    return {
        "release": record["release"],
        "version": record["version"],
        "epsilon": pico_to_text(replay["claim"]["epsilon"]),
        "delta": atto_to_text(replay["claim"]["delta"]),
        "unit": unit["column"] or unit["kind"],
        "scope": unit["scope"],
        "rows_per_unit": replay["rows_per_unit"],
        "relation": replay["adjacency"],
        "account": replay["charge"]["account"],
        "record": sha256,
    }


def stated_release(files: Mapping[str, Mapping[str, Any]], predicate: Mapping[str, Any]) -> bytes:
    """Return the statement about a version's files, as the bytes that are signed.

    Args:
        files: `sha256` and `bytes` of each file, by name.
        predicate: what `stated_predicate` returns.
    """
    subject = [
        {"name": name, "digest": {"sha256": each["sha256"]}, "annotations": {"bytes": each["bytes"]}}
        for name, each in sorted(files.items())
    ]
    statement = {"_type": STATEMENT_TYPE, "subject": subject, "predicateType": PREDICATE_TYPE}
    return canonical_json({**statement, "predicate": dict(predicate)})


def read_envelope(value: Any, *, where: str) -> tuple[SignedEnvelope | None, Manifest | None, list[Finding]]:
    """Read MANIFEST.json; whether its signature holds is for `check_envelope`.

    Args:
        value: the file, as JSON values.
        where: the file's name.
    Returns:
        tuple: envelope and statement, each None where it cannot be read, and what is wrong.
    """
    envelope, findings = read_statement(SignedEnvelope, value, where=where)
    if envelope is None:
        return None, None, findings
    payload = plain_base64(envelope.payload)
    stated, findings = read_json(payload, where=f"{where}, payload", written=canonical_json)
    if stated is None:
        return envelope, None, findings
    manifest, wrong = read_statement(Manifest, stated, where=where, at="payload")
    return envelope, manifest, findings + wrong


def files_of_manifest(content: bytes) -> Mapping[str, FileStatement]:
    """Return digest and size of each file that a manifest states; whoever asks knows the manifest's own digest.

    Raises:
        ValueError: it is no manifest.
    """
    return manifest_of(json.loads(content)).files


def manifest_of(value: Any) -> Manifest:
    """Return the statement in an envelope, given as JSON values.

    Raises:
        ValueError: it is no manifest.
    """
    envelope = SignedEnvelope.model_validate(value)
    return Manifest.model_validate(json.loads(plain_base64(envelope.payload)))


def check_envelope(envelope: SignedEnvelope, *, public_key: str, where: str) -> list[Finding]:
    """Check the pinned key's signature over the statement; signatures of other keys are left aside."""
    pinned = key_id(public_key)
    mine = [plain_base64(each.sig) for each in envelope.signatures if each.keyid == pinned]
    if not mine:
        found = ", ".join(printable(each.keyid) for each in envelope.signatures[:3])
        remedy = "it was signed with another key: ask the publisher, over another channel, which key is theirs"
        return [Finding(where, "signatures, keyid", found, f"{pinned}, the pinned key", remedy)]
    payload = plain_base64(envelope.payload)
    if all(envelope_holds(public_key, payload, signature) for signature in mine):
        return []
    remedy = "the owner of the pinned key did not sign this: do not trust what it says"
    allowed = "the pinned key's signature over the statement"
    return [Finding(where, "signatures, sig", "one that does not hold", allowed, remedy)]


# --- status/RELEASE.json of a public journal.


STATUS_TYPE: Final = "https://sudare.example/journal-status/v1"


def _readable(note: str) -> str:
    read_checkpoint(note)
    return note


class StatusSubject(Statement):
    """The checkpoint that the statement is about."""

    name: Literal["checkpoint"]
    digest: SubjectDigest


class StatusPredicate(Statement):
    """Which entries there are about a release.

    Args:
        release: its name.
        at: when it was stated, to the hour (UTC).
        checkpoint: the signed note.
        entries: its publications and withdrawals, in order, each under the checkpoint.
        earlier: the checkpoints in its versions' proofs, each with the proof that the journal begins with it.
        keys: the signed changes of the journal's key, so that whoever pinned an earlier one is led to this one.
    """

    release: StatedText
    at: StatedText
    checkpoint: Annotated[str, Field(max_length=MOST_NOTE_BYTES), AfterValidator(_readable)]
    entries: Tuple[ProvenEntry]
    earlier: Tuple[EarlierCheckpoint]
    keys: Tuple[Annotated[str, Field(max_length=MOST_NOTE_BYTES)]]

    @property
    def head(self) -> TreeHead:
        """What the checkpoint says of the journal, whoever signed it."""
        return read_checkpoint(self.checkpoint)[1]


class StatusStatement(Statement):
    """The statement in status/RELEASE.json."""

    type_: Literal["https://in-toto.io/Statement/v1"] = Field(alias="_type")
    subject: Annotated[Tuple[StatusSubject], Field(min_length=1, max_length=1)]
    predicate_type: Literal["https://sudare.example/journal-status/v1"] = Field(alias="predicateType")
    predicate: StatusPredicate


def stated_status(
    release: str,
    *,
    at: str,
    note: str,
    entries: Sequence[Mapping[str, Any]],
    earlier: Sequence[Mapping[str, Any]],
    keys: Sequence[str],
) -> bytes:
    """Return the statement about a release, as the bytes that are signed."""
    predicate = {"release": release, "at": at, "checkpoint": note, "entries": list(entries), "earlier": list(earlier)}
    predicate |= {"keys": list(keys)}
    digest = {"sha256": hashlib.sha256(note.encode()).hexdigest()}
    statement = {"_type": STATEMENT_TYPE, "subject": [{"name": "checkpoint", "digest": digest}]}
    return canonical_json({**statement, "predicateType": STATUS_TYPE, "predicate": predicate})


def read_status(content: bytes, *, where: str) -> tuple[SignedEnvelope | None, StatusPredicate | None, list[Finding]]:
    """Read status/RELEASE.json; whether its signature holds is for `check_envelope`.

    Args:
        content: the file.
        where: what it is called in findings.
    Returns:
        tuple: envelope and predicate, each None where it cannot be read, and what is wrong.
    """
    value, findings = read_json(content, where=where)
    envelope, wrong = (None, []) if value is None else read_statement(SignedEnvelope, value, where=where)
    if envelope is None:
        return None, None, findings + wrong
    stated, wrong = read_json(plain_base64(envelope.payload), where=f"{where}, payload", written=canonical_json)
    findings += wrong
    status, wrong = (
        (None, []) if stated is None else read_statement(StatusStatement, stated, where=where, at="payload")
    )
    if status is None:
        return envelope, None, findings + wrong
    note = status.predicate.checkpoint
    if status.subject[0].digest.sha256 != hashlib.sha256(note.encode()).hexdigest():
        findings.append(Finding(where, "payload.subject", "another digest", "that of the checkpoint in it"))
    return envelope, status.predicate, findings
