"""What a publisher asks of a witness, and what a witness answers: add-checkpoint of C2SP tlog-witness.

    old SIZE
    base64 of each hash of the consistency proof
    (blank line)
    the signed checkpoint

The witness answers with its signature line (200), or 404 (a journal that it does not know), 403 (not signed by that
journal's key), 400 (another form), 409 and the size that it knows (the old size is another one; or another root at
this size: a fork), 422 (the proof does not hold: a fork).
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from privacy.ledger.journal.merkle import roots_from_consistency
from privacy.ledger.journal.notes import (
    FalseSignature,
    MalformedNote,
    SignedNote,
    TreeHead,
    VerifierKey,
    read_note,
    read_tree_head,
    verified_lines,
)

_MOST_HASHES: Final = 63
_HASH_BYTES: Final = 32
LARGEST_REQUEST: Final = 64 * 1024


@dataclass(frozen=True)
class WitnessedHead:
    """What a witness last saw of a journal.

    Args:
        size: number of entries; 0 for nothing yet.
        root: Merkle root (hex); empty for nothing yet.
    """

    size: int = 0
    root: str = ""


@dataclass(frozen=True)
class CheckpointRequest:
    """A request, as it was read.

    Args:
        old: the size that the publisher takes the witness to know.
        path: the consistency proof from there (hex).
        note: the signed checkpoint.
        head: what it says.
    """

    old: int
    path: tuple[str, ...]
    note: SignedNote
    head: TreeHead


@dataclass(frozen=True)
class WitnessVerdict:
    """What a witness answers.

    Args:
        status: the HTTP status; 200 where it may cosign.
        text: the body, where it does not.
        head: what it has seen from now on; None where nothing changes.
    """

    status: int
    text: str
    head: WitnessedHead | None = None


def add_checkpoint(old: int, path: Sequence[str], note: SignedNote) -> bytes:
    """Return the body of a request."""
    hashes = "".join(f"{b64encode(bytes.fromhex(each)).decode()}\n" for each in path)
    return f"old {old}\n{hashes}\n".encode() + note.to_bytes()


def read_add_checkpoint(body: bytes) -> CheckpointRequest:
    """Read the body of a request.

    Raises:
        MalformedNote: names the rule that it breaks.
    """
    before, blank, rest = body.partition(b"\n\n")
    lines = before.decode("ascii", "replace").split("\n")
    word, space, old = lines[0].partition(" ")
    if not blank or word != "old" or not space or not (old.isascii() and old.isdigit() and len(old) <= 16):
        raise MalformedNote("request, line 1: 'old SIZE' is needed, and a blank line before the checkpoint")
    if len(lines) - 1 > _MOST_HASHES:
        raise MalformedNote(f"request: {len(lines) - 1} hashes; allowed are {_MOST_HASHES}")
    note = read_note(rest)
    return CheckpointRequest(int(old), tuple(_hash(line) for line in lines[1:]), note, read_tree_head(note.text))


def _hash(line: str) -> str:
    try:
        raw = b64decode(line, validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) != _HASH_BYTES:
        raise MalformedNote("request: a line of the proof that is no hash")
    return raw.hex()


def verdict(request: CheckpointRequest, keys: Mapping[str, VerifierKey], seen: WitnessedHead) -> WitnessVerdict:
    """Decide, as a witness, whether a checkpoint may be cosigned.

    Args:
        request: what was asked.
        keys: the keys of the journals that the witness knows, by origin.
        seen: what it last saw of this one.
    Source: C2SP tlog-witness, add-checkpoint, in its order.
    """
    key, head = keys.get(request.head.origin), request.head
    if key is None:
        return WitnessVerdict(404, "a journal that this witness does not know\n")
    try:
        signed = verified_lines(request.note, [key])
    except FalseSignature:
        signed = ()
    if not signed:
        return WitnessVerdict(403, "not signed by the key of this journal\n")
    if request.old > head.size:
        return WitnessVerdict(400, "the old size is larger than the checkpoint's\n")
    if request.old != seen.size:
        return WitnessVerdict(409, f"{seen.size}\n")
    if head.size == seen.size:
        fits = not request.path and (head.root == seen.root or seen.size == 0)
        return WitnessVerdict(200, "", seen) if fits else WitnessVerdict(409, f"{seen.size}\n")
    if not _extends(request, seen):
        return WitnessVerdict(422, "the proof does not lead from what this witness saw to the checkpoint\n")
    return WitnessVerdict(200, "", WitnessedHead(head.size, head.root))


def _extends(request: CheckpointRequest, seen: WitnessedHead) -> bool:
    if seen.size == 0:
        return not request.path
    try:
        roots = roots_from_consistency(seen.size, request.head.size, seen.root, request.path)
    except ValueError:
        return False
    return roots == (seen.root, request.head.root)
