"""status/RELEASE.json of a public journal: what was published and withdrawn of a release, as of a checkpoint.

An in-toto statement in a DSSE envelope, like a manifest. Its subject is the checkpoint. Each entry has its audit
path, so that one request answers for one version. That no entry is left out is the publisher's signed word, which
whoever follows the journal's entries can check.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field

from contracts.canonical import canonical_json
from contracts.errors import Finding
from privacy.ledger.journal.checkpoints import read_checkpoint
from privacy.ledger.journal.envelope import plain_base64
from privacy.ledger.journal.signed_note import MOST_NOTE_BYTES, TreeHead
from tasks.records.model.release_statement import STATEMENT_TYPE, SignedEnvelope, SubjectDigest
from tasks.records.model.statement import StatedText, Statement, Tuple, read_statement
from tasks.records.model.version_statements import EarlierCheckpoint, ProvenEntry
from tasks.records.strict_json import read_json

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
