"""Rules that are checked only where the checker asks: auditors (12), status (13), latest (14), witnesses (15).

Each begins only once what it stands on holds: the published record for 12, the version's own proof for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from contracts.errors import Finding
from tasks.records.model.declarations import COMMITMENT, PURPOSE, Json, SealedRecord, commitment, withheld
from tasks.records.model.journal_statements import Proof
from tasks.records.model.manifest import Manifest
from tasks.records.model.statement import read_statement
from tasks.records.strict_json import printable, read_json, shown
from tasks.verification.inclusion import JournalledRun, check_signature
from tasks.verification.outcomes import AUDITORS, Asked, KeyInUse


@dataclass(frozen=True)
class CheckedSoFar:
    """What the rules before found of a version.

    Args:
        folder: where it lies.
        used: the key that it was checked with.
        manifest, manifest_sha256: the manifest; None where it cannot be read.
        record: record.json as JSON values, and what was wrong with reading it; None where it cannot be read.
        proof, run: its proof and run; None where they cannot be read.
        proven: whether the proof holds (rule 4).
    """

    folder: Path
    used: KeyInUse
    manifest: Manifest | None
    manifest_sha256: str
    record: tuple[Any, list[Finding]]
    proof: Proof | None
    run: JournalledRun | None
    proven: bool


@dataclass(frozen=True)
class AskedOutcome:
    """What a rule found, what it could not check, and what is worth a note."""

    findings: list[Finding]
    skipped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def check_asked(rule: int, checked: CheckedSoFar, asked: Asked) -> AskedOutcome:
    """Check one rule that was asked for."""
    return _CHECKS[rule](checked, asked)


def _auditors(checked: CheckedSoFar, asked: Asked) -> AskedOutcome:
    assert asked.sealed is not None
    value, findings = checked.record
    sealed, wrong = read_json(asked.sealed.data, where=asked.sealed.name)
    if value is None or sealed is None:
        return AskedOutcome(findings + wrong, ("the auditors' record: it or record.json cannot be read",))
    pass

    return AskedOutcome([*wrong, *check_sealed(sealed, value, public_key=checked.used.key, where=asked.sealed.name)])


def _status(checked: CheckedSoFar, asked: Asked) -> AskedOutcome:
    if checked.run is None or checked.proof is None or not checked.proven:
        return AskedOutcome([], ("the public journal: the version's own proof does not hold",))
    from tasks.verification.status import ask_journal

    assert asked.online is not None
    key, trusted, now = checked.used.key, checked.used.trusted, datetime.now(UTC)
    published = checked.run.published
    found = ask_journal(asked.online, checked.proof, published, public_key=key, trusted=trusted, now=now)
    return AskedOutcome(list(found.findings), notes=tuple(found.notes))


def _latest(checked: CheckedSoFar, asked: Asked) -> AskedOutcome:
    manifest = checked.manifest
    if manifest is None or checked.proof is None or not checked.proven:
        return AskedOutcome([], ("the newest version: this version's own proof does not hold",))
    from tasks.verification.status import CheckedVersion, check_latest

    assert asked.terms.now is not None
    size, digest = checked.proof.head.size, checked.manifest_sha256
    version = CheckedVersion(checked.folder, manifest.release, manifest.version, digest, size)
    used, now, pins = checked.used, asked.terms.now, asked.terms.pins
    return AskedOutcome(list(check_latest(version, public_key=used.key, trusted=used.trusted, now=now, pins=pins)))


def _witnesses(checked: CheckedSoFar, asked: Asked) -> AskedOutcome:
    if checked.proof is None or not checked.proven:
        return AskedOutcome([], ("the witnesses: this version's own proof does not hold",))
    from tasks.verification.witness_checks import check_witnesses

    assert asked.terms.witnesses is not None
    now = asked.terms.now or datetime.now(UTC)
    entries = [proven.entry for proven in checked.proof.entries if proven.entry.kind == "version_published"]
    published = datetime.fromisoformat(entries[-1].at) if entries else None
    wrong, notes = check_witnesses(checked.proof.checkpoint, asked.terms.witnesses, now=now, published=published)
    return AskedOutcome(list(wrong), notes=tuple(notes))


_CHECKS: Final[dict[int, Callable[[CheckedSoFar, Asked], AskedOutcome]]] = {
    AUDITORS: _auditors,
    13: _status,
    14: _latest,
    15: _witnesses,
}


# --- The complete record that auditors get (`tasks.records.model.declarations`), held against the …


_OTHER: Final = "this is not the record that the published one was made from: ask the publisher for it"


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
    expected = {**withheld(record), COMMITMENT: published.get(COMMITMENT)}
    findings = []
    for at, ours, theirs in _parts(expected, published):
        if ours != theirs:
            found, allowed = shown(theirs), f"{shown(ours)}, as in {where}"
            findings.append(Finding("record.json", printable(at), found, allowed, _OTHER))
    return findings


def _parts(ours: Any, theirs: Any, at: str = "", depth: int = 3) -> Iterator[tuple[str, Any, Any]]:
    """Yield the parts of two values side by side, with their place."""
    if depth and isinstance(ours, dict) and isinstance(theirs, dict):
        for name in sorted({*ours, *theirs}):
            yield from _parts(ours.get(name), theirs.get(name), f"{at}.{name}" if at else name, depth - 1)
    else:
        yield at, ours, theirs
