"""Merkle trees over entry hashes."""

from __future__ import annotations

import hashlib

import pytest

from privacy.ledger.merkle import inclusion_proof, root, root_from_proof


def hashes(size: int) -> list[str]:
    return [hashlib.sha256(str(i).encode()).hexdigest() for i in range(size)]


def root_by_the_definition(entries: list[str]) -> bytes:
    """RFC 6962, section 2.1, as it is written there."""
    if len(entries) == 1:
        return hashlib.sha256(b"\0" + bytes.fromhex(entries[0])).digest()
    middle = 1
    while middle * 2 < len(entries):
        middle *= 2
    parts = root_by_the_definition(entries[:middle]) + root_by_the_definition(entries[middle:])
    return hashlib.sha256(b"\1" + parts).digest()


@pytest.mark.parametrize("size", [*range(1, 20), 63, 64, 65])
def test_the_root_is_that_of_the_definition_and_every_entry_proves(size: int) -> None:
    entries = hashes(size)
    assert root(entries) == root_by_the_definition(entries).hex()
    for index, entry in enumerate(entries):
        assert root_from_proof(entry, index, size, inclusion_proof(entries, index)) == root(entries)


def test_another_entry_another_place_or_another_path_leads_elsewhere() -> None:
    entries = hashes(11)
    path = list(inclusion_proof(entries, 4))
    assert root_from_proof(entries[5], 4, 11, path) != root(entries)
    assert root_from_proof(entries[4], 5, 11, path) != root(entries)
    assert root_from_proof(entries[4], 4, 11, [path[1], path[0], *path[2:]]) != root(entries)
    for wrong in (path[:-1], [*path, path[0]]):
        with pytest.raises(ValueError, match="audit path"):
            root_from_proof(entries[4], 4, 11, wrong)


def test_the_empty_tree_is_the_hash_of_nothing_and_has_no_proof() -> None:
    assert root([]) == hashlib.sha256(b"").hexdigest()
    with pytest.raises(ValueError, match="index"):
        inclusion_proof([], 0)
    with pytest.raises(ValueError, match="index"):
        root_from_proof(hashes(1)[0], 1, 1, [])
