"""The checkpoints that published versions carry: what a ledger can no longer deny having held."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from contracts.errors import Finding
from privacy.ledger.errors import LedgerRefusal
from privacy.ledger.ledger import Ledger
from privacy.ledger.replay.fold import SignedCheckpoint
from tasks.records.model.statement import read_statement
from tasks.records.model.version_statements import Proof
from tasks.verification.inclusion import check_checkpoint
from tasks.verification.key_succession import key_in_use

_FORGOTTEN: Final = (
    "another ledger gives every cap a second time: restore the one that entered it (sudare budget restore FILE, or a "
    "copy of its database); move versions of another publisher out of the store"
)


def published_checkpoints(proofs: Iterable[Path], *, public_key: str) -> tuple[list[SignedCheckpoint], list[Finding]]:
    """Read the signed checkpoint of each PROOF.json.

    Args:
        proofs: the files.
        public_key: the key that they must be signed with, or one that was changed for it.
    Returns:
        tuple: the checkpoints whose signature holds, and a finding for each file without one.
    """
    checkpoints: list[SignedCheckpoint] = []
    findings: list[Finding] = []
    for path in proofs:
        proof, wrong = _read(path)
        if proof is not None:
            used = key_in_use(path.parent, pinned=public_key)
            wrong = [*used.findings, *check_checkpoint(proof.checkpoint, public_key=used.key, where=str(path))]
        findings += wrong
        if proof is not None and not wrong:
            held = proof.head
            checkpoints.append(SignedCheckpoint(str(path), held.origin, held.size, held.root))
    return checkpoints, findings


def proofs_in(store: Path) -> list[Path]:
    """Return the proofs of all published versions in a store."""
    return sorted(store.glob("*/v*/PROOF.json"))


def check_not_forgotten(ledger: Ledger, *stores: Path) -> None:
    """Refuse a ledger that did not enter the newest version of each release in its stores: it gives a full cap again.

    Raises:
        LedgerRefusal: it is another ledger, or an older copy.
    """
    newest: dict[Path, Path] = {}
    found_proofs = {path.resolve() for store in stores for path in proofs_in(store)}
    for path in sorted(found_proofs, key=lambda each: (len(each.parent.name), each.parent.name)):
        newest[path.parent.parent] = path
    findings = []
    for path in newest.values():
        proof, wrong = _read(path)
        findings += wrong
        if proof is not None and not ledger.has_checkpoint(proof.head.size, proof.head.root):
            found = (
                f"a version that this ledger does not know, entered when {proof.head.size} entries were in a journal"
            )
            findings.append(Finding(str(path), "checkpoint", found, "versions that this ledger entered", _FORGOTTEN))
    if findings:
        raise LedgerRefusal(findings)


def _read(path: Path) -> tuple[Proof | None, list[Finding]]:
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        return None, [Finding(str(path), "the file", type(error).__name__, "a readable PROOF.json")]
    return read_statement(Proof, value, where=str(path))
