"""The version before, where it lies beside the one that is checked: does the journal still hold what it held then?"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from contracts.errors import Finding
from privacy.audit.inclusion import check_signature, check_succession
from privacy.audit.readable import read_json
from privacy.audit.statements import Checkpoint, Manifest, Proof, read_statement
from tasks.verification.files import PROOF, read_text_file

_VERSION: Final = re.compile(r"v([1-9][0-9]{0,8})")


def check_version_before(
    folder: Path, proof: Proof, manifest: Manifest, *, public_key: str, where: str
) -> list[Finding]:
    """Hold a version's proof against that of the newest older version of its release in the same store.

    A neighbour that cannot be read, is of another release or is not signed with the pinned key is no witness: it is
    left out here, and fails where it is verified itself.
    """
    numbers = [(int(found[1]), each) for each in _siblings(folder) if (found := _VERSION.fullmatch(each.name))]
    for number, sibling in sorted(numbers, reverse=True):
        before = _witness(sibling, manifest.release, public_key) if number < manifest.version else None
        # A version that was finished or restored later than this one has seen more of its journal: it is no witness.
        if before is not None and not _saw_more(before.checkpoint, proof.checkpoint):
            return check_succession(proof, before, where=where, earlier=f"{manifest.release} v{number}")
    return []


def _saw_more(before: Checkpoint, checkpoint: Checkpoint) -> bool:
    return before.ledger == checkpoint.ledger and before.size >= checkpoint.size


def _siblings(folder: Path) -> list[Path]:
    try:
        return [each for each in folder.resolve().parent.iterdir() if each.is_dir()]
    except OSError:
        return []


def _witness(folder: Path, release: str, public_key: str) -> Proof | None:
    data, _ = read_text_file(folder, PROOF)
    value, _ = (None, []) if data is None else read_json(data, where=PROOF)
    proof, _ = (None, []) if value is None else read_statement(Proof, value, where=PROOF)
    if proof is None:
        return None
    published = [each.entry.body for each in proof.entries if each.entry.kind == "version_published"]
    signed = proof.checkpoint.model_dump()
    wrong = check_signature("checkpoint", signed, proof.key_id, proof.signature, public_key=public_key, where=PROOF)
    same = [body.get("release") for body in published] == [release]
    return proof if same and not wrong else None
