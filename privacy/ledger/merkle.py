"""Merkle trees over the journal's entry hashes, so that one entry can be proven without the others.

Source: RFC 6962 (Laurie, Langley, Kasper 2013), section 2.1: leaves are hashed with a zero byte in front and
nodes with a one byte, so that a node can never be passed off as a leaf.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence


def _leaf(entry_hash: str) -> bytes:
    return hashlib.sha256(b"\x00" + bytes.fromhex(entry_hash)).digest()


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


def _split(size: int) -> int:
    """Return the largest power of two smaller than `size`."""
    return 1 << ((size - 1).bit_length() - 1)


def root(entry_hashes: Sequence[str]) -> str:
    """Return the Merkle root (hex) of the entries; that of no entries is SHA-256 of nothing."""
    if not entry_hashes:
        return hashlib.sha256(b"").hexdigest()
    level = [_leaf(entry_hash) for entry_hash in entry_hashes]
    while len(level) > 1:
        paired = [_node(level[i], level[i + 1]) for i in range(0, len(level) - 1, 2)]
        level = paired + level[len(paired) * 2 :]
    return level[0].hex()


def inclusion_proof(entry_hashes: Sequence[str], index: int) -> tuple[str, ...]:
    """Return the audit path (RFC 6962, 2.1.1) of entry `index`, from the leaf upwards.

    Raises:
        ValueError: index is outside the tree.
    """
    if not 0 <= index < len(entry_hashes):
        raise ValueError(f"index must lie in 0..{len(entry_hashes) - 1}, not {index}")
    if len(entry_hashes) == 1:
        return ()
    middle = _split(len(entry_hashes))
    if index < middle:
        return (*inclusion_proof(entry_hashes[:middle], index), root(entry_hashes[middle:]))
    return (*inclusion_proof(entry_hashes[middle:], index - middle), root(entry_hashes[:middle]))


def root_from_proof(entry_hash: str, index: int, size: int, path: Sequence[str]) -> str:
    """Return the root that an audit path leads to (RFC 9162, 2.1.3.2).

    Raises:
        ValueError: the path does not fit a tree of `size` entries.
    """
    if not 0 <= index < size:
        raise ValueError(f"index must lie in 0..{size - 1}, not {index}")
    here, last, reached = index, size - 1, _leaf(entry_hash)
    for step in path:
        if last == 0:
            raise ValueError("the audit path is too long")
        sibling = bytes.fromhex(step)
        if here % 2 or here == last:
            reached = _node(sibling, reached)
            while here % 2 == 0 and here:
                here, last = here >> 1, last >> 1
        else:
            reached = _node(reached, sibling)
        here, last = here >> 1, last >> 1
    if last:
        raise ValueError("the audit path is too short")
    return reached.hex()
