"""Checkpoints of a journal: signed notes that say its name, its size and its Merkle root.

The name in a journal's checkpoints is the name of the key that signs them. A reader pins that key and asks two things
of a note: is it by this key, and is it about this key's journal?
"""

from __future__ import annotations

from functools import lru_cache

from privacy.ledger.journal.signed_note import (
    MalformedNote,
    SignedNote,
    TreeHead,
    VerifierKey,
    read_note,
    read_tree_head,
    read_verifier_key,
    verified_lines,
)


class UnsignedCheckpoint(ValueError):
    """The pinned key did not sign a checkpoint of its journal.

    Args:
        field: "key" (no line of it) or "origin" (another journal's).
        found: what is there instead.
        allowed: what should be.
    """

    def __init__(self, field: str, found: str, allowed: str) -> None:
        super().__init__(f"{field}: {found}; allowed: {allowed}")
        self.field, self.found, self.allowed = field, found, allowed


def read_checkpoint(note: str) -> tuple[SignedNote, TreeHead]:
    """Read a checkpoint, whoever signed it.

    Raises:
        MalformedNote: it is no note, or not one of a checkpoint.
    """
    read = read_note(note.encode())
    return read, read_tree_head(read.text)


def signed_head(note: str, public_key: str) -> TreeHead:
    """Return what a checkpoint says that the pinned key signed.

    Args:
        note: the signed note.
        public_key: the pinned key, NAME+HASH+BASE64.
    Raises:
        MalformedNote: it is no checkpoint.
        FalseSignature: the key's line does not hold.
        UnsignedCheckpoint: there is no line of this key, or it is another journal's checkpoint.
    """
    read, head = read_checkpoint(note)
    key = _pinned(public_key)
    if not verified_lines(read, [key]):
        names = ", ".join(f"{line.name} ({line.key_hash.hex()})" for line in read.signatures[:3])
        raise UnsignedCheckpoint("key", names, f"{key.name} ({key.key_hash.hex()}), the pinned key")
    if head.extensions:
        raise MalformedNote("checkpoint: three lines, and no further ones")
    if head.origin != key.name:
        raise UnsignedCheckpoint("origin", head.origin, f"{key.name}, the name of the pinned key")
    return head


@lru_cache(maxsize=8)
def _pinned(public_key: str) -> VerifierKey:
    return read_verifier_key(public_key)
