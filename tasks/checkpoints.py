"""What would give a cap a second time: a ledger without the checkpoints of its versions, or a copied source."""

from __future__ import annotations

import filecmp
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from contracts.errors import Finding
from contracts.periods.time_blocks import division_of
from privacy.ledger.entries import LedgerRefusal, refusal
from privacy.ledger.ledger import Ledger
from privacy.ledger.replay.fold import SignedCheckpoint
from tasks.records.model.journal_statements import Proof
from tasks.records.model.statement import read_statement
from tasks.verification.inclusion import check_checkpoint
from tasks.verification.keys import key_in_use

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


def check_no_copy(ledger: Ledger, population: str, *sources: str) -> None:
    """Refuse files and folders with the bytes of one that is bound to other people; those that are not there pass.

    Args:
        population: the people that the sources, by their canonical names, are to be bound to.
    Raises:
        LedgerRefusal: one is a copy, whatever its contract would make of it. A table is one of a table of its name.
    """
    for source in sources:
        if ledger.sources().get(source, ("", ""))[0] == population:
            continue
        path, _, table = source.partition("::")
        files: list[Path] | None = None
        for name, (people, _) in ledger.sources().items():
            known, _, of_table = (division_of(name) or (name,))[0].partition("::")
            if people == population or known == path or of_table != table:
                continue
            files = _with_rows(Path(path)) if files is None else files
            if files and _same_bytes(files, _with_rows(Path(known))):
                found, allowed = f"the bytes of {name}, which is about {people}", f"rows about {population} only"
                remedy = (
                    f"a copy is about the people of its origin: bind it to {people}, or deliver rows of {population}"
                )
                raise refusal(f"source {source}", "people", found, allowed, remedy)


def _with_rows(place: Path) -> list[Path]:
    """List a file, or the files of a folder, that may hold rows."""
    try:
        files = [place] if place.is_file() else sorted(filter(Path.is_file, place.rglob("*")))
        return [each for each in files if each.stem.upper() != "README" and not _is_header(each)]
    except OSError:
        return []


def _is_header(file: Path) -> bool:
    """Say whether a file is empty, or a text of one line."""
    with file.open("rb") as opened:
        head = opened.read(1 << 16)
    return len(head) < 1 << 16 and b"\0" not in head and b"\n" not in head.strip()


def _same_bytes(one: list[Path], other: list[Path]) -> bool:
    """Say whether files are equal; what cannot be read is not compared."""
    try:
        return len(one) == len(other) and all(
            filecmp.cmp(*pair, shallow=False) for pair in zip(one, other, strict=True)
        )
    except OSError:
        return False


def _read(path: Path) -> tuple[Proof | None, list[Finding]]:
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        return None, [Finding(str(path), "the file", type(error).__name__, "a readable PROOF.json")]
    return read_statement(Proof, value, where=str(path))
