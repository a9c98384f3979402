"""Rules that are checked only where the checker asks: auditors (12), status (13), latest (14), witnesses (15).

Each begins only once what it stands on holds: the published record for 12, the version's own proof for the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from contracts.errors import Finding
from tasks.records.model.release_statement import Manifest
from tasks.records.model.version_statements import Proof
from tasks.records.strict_json import read_json
from tasks.verification.inclusion import JournalledRun
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
    from tasks.verification.auditor_record import check_sealed

    return AskedOutcome([*wrong, *check_sealed(sealed, value, public_key=checked.used.key, where=asked.sealed.name)])


def _status(checked: CheckedSoFar, asked: Asked) -> AskedOutcome:
    if checked.run is None or checked.proof is None or not checked.proven:
        return AskedOutcome([], ("the public journal: the version's own proof does not hold",))
    from tasks.verification.journal_status import ask_journal

    assert asked.online is not None
    key, trusted, now = checked.used.key, checked.used.trusted, datetime.now(UTC)
    published = checked.run.published
    found = ask_journal(asked.online, checked.proof, published, public_key=key, trusted=trusted, now=now)
    return AskedOutcome(list(found.findings), notes=tuple(found.notes))


def _latest(checked: CheckedSoFar, asked: Asked) -> AskedOutcome:
    manifest = checked.manifest
    if manifest is None or checked.proof is None or not checked.proven:
        return AskedOutcome([], ("the newest version: this version's own proof does not hold",))
    from tasks.verification.freshness import CheckedVersion, check_latest

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
