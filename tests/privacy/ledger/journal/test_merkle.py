"""Merkle trees over entry hashes, against the definitions as RFC 6962 writes them down."""

import hashlib
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest

from privacy.ledger.journal.merkle import (
    MalformedTile,
    Nodes,
    TilePlace,
    appended,
    bundle,
    consistency_proof,
    inclusion_proof,
    node_over,
    nodes_of_tiles,
    read_bundle,
    read_tile,
    root,
    root_from_proof,
    roots_from_consistency,
    tiles_of,
    tree_root,
)

SIZE = 70
HASHES = [hashlib.sha256(b"\0" + str(i).encode()).hexdigest() for i in range(SIZE)]  # leaf hashes, RFC 6962


def left_of(size: int) -> int:
    return max(2**power for power in range(20) if 2**power < size)


def mth(entries: Sequence[str]) -> bytes:
    """RFC 6962, section 2.1: the Merkle tree hash."""
    if not entries:
        return hashlib.sha256(b"").digest()
    if len(entries) == 1:
        return bytes.fromhex(entries[0])
    k = left_of(len(entries))
    return hashlib.sha256(b"\1" + mth(entries[:k]) + mth(entries[k:])).digest()


def path(m: int, entries: Sequence[str]) -> list[bytes]:
    """RFC 6962, section 2.1.1: the audit path."""
    if len(entries) == 1:
        return []
    k = left_of(len(entries))
    if m < k:
        return [*path(m, entries[:k]), mth(entries[k:])]
    return [*path(m - k, entries[k:]), mth(entries[:k])]


def subproof(m: int, entries: Sequence[str], whole: bool) -> list[bytes]:
    """RFC 6962, section 2.1.2: the consistency proof, PROOF(m, D) = SUBPROOF(m, D, true)."""
    if m == len(entries):
        return [] if whole else [mth(entries)]
    k = left_of(len(entries))
    if m <= k:
        return [*subproof(m, entries[:k], whole), mth(entries[k:])]
    return [*subproof(m - k, entries[k:], False), mth(entries[:k])]


def grown(entries: Sequence[str]) -> tuple[list[tuple[str, ...]], Nodes]:
    frontiers: list[tuple[str, ...]] = [()]
    completed = []
    for size, entry in enumerate(entries):
        frontier, subtrees = appended(frontiers[-1], size, entry)
        frontiers.append(frontier)
        completed.append(subtrees)
    return (
        frontiers,
        lambda level, index: entries[index] if level == 0 else completed[((index + 1) << level) - 1][level - 1],
    )


FRONTIERS, NODES = grown(HASHES)


def hexed(nodes: Sequence[bytes]) -> tuple[str, ...]:
    return tuple(node.hex() for node in nodes)


@pytest.mark.parametrize("size", range(SIZE + 1))
def test_a_tree_that_grew_has_the_root_and_the_proofs_of_the_definition(size: int):
    entries, expected = HASHES[:size], mth(HASHES[:size]).hex()
    assert root(FRONTIERS[size]) == expected
    assert len(FRONTIERS[size]) == size.bit_count()
    for index, entry in enumerate(entries):
        proof = inclusion_proof(NODES, index, size)
        assert proof == hexed(path(index, entries))
        assert root_from_proof(entry, index, size, proof) == expected
    for earlier in range(1, size + 1):
        proof = consistency_proof(NODES, earlier, size)
        assert proof == hexed(subproof(earlier, entries, True))
        held = mth(HASHES[:earlier]).hex()
        assert roots_from_consistency(earlier, size, held, proof) == (held, expected)


def test_the_first_roots_by_hand():
    """Written out, so that a mistake that both derivations share would show."""

    def sha(prefix: bytes, *parts: str) -> str:
        return hashlib.sha256(prefix + b"".join(map(bytes.fromhex, parts))).hexdigest()

    a, b, c = (sha(b"\0" + text) for text in (b"0", b"1", b"2"))
    assert [root(FRONTIERS[size]) for size in range(4)] == [
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        a,
        sha(b"\1", a, b),
        sha(b"\1", sha(b"\1", a, b), c),
    ]


def changed(proof: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Every proof that differs from one by a step left out, doubled, flipped or exchanged with the next."""
    made = [(*proof, proof[0])] if proof else [(HASHES[0],)]
    for at, step in enumerate(proof):
        flipped = f"{int(step[0], 16) ^ 1:x}{step[1:]}"
        made += [
            proof[:at] + proof[at + 1 :],
            (*proof[:at], step, *proof[at:]),
            (*proof[:at], flipped, *proof[at + 1 :]),
        ]
    for at, (one, next_one) in enumerate(pairwise(proof)):
        made.append((*proof[:at], next_one, one, *proof[at + 2 :]))
    return [each for each in made if each != proof]


def refused(read: Callable[[], object], expected: object) -> bool:
    try:
        return read() != expected
    except ValueError:
        return True


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 13, 64])
def test_a_proof_of_something_else_is_refused(size: int):
    """Another entry, another place, another size of the same shape, or any step of the path changed."""
    expected = root(FRONTIERS[size])
    for index, entry in enumerate(HASHES[:size]):
        proof = inclusion_proof(NODES, index, size)
        assert refused(lambda p=proof, i=index: root_from_proof(HASHES[i + 1], i, size, p), expected)  # type: ignore[misc]
        for other in set(range(size)) - {index}:
            assert refused(lambda p=proof, e=entry, o=other: root_from_proof(e, o, size, p), expected)  # type: ignore[misc]
        for wrong in changed(proof):
            assert refused(lambda w=wrong, e=entry, i=index: root_from_proof(e, i, size, w), expected)  # type: ignore[misc]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 13, 64])
def test_a_tree_that_does_not_begin_with_the_earlier_one_cannot_show_it(size: int):
    whole = root(FRONTIERS[size])
    for earlier in range(1, size + 1):
        held = root(FRONTIERS[earlier])
        proof = consistency_proof(NODES, earlier, size)
        for wrong in changed(proof):
            assert refused(lambda w=wrong, e=earlier, h=held: roots_from_consistency(e, size, h, w), (held, whole))  # type: ignore[misc]
        rewritten, nodes = grown([HASHES[-1], *HASHES[1:size]])
        forged = consistency_proof(nodes, earlier, size)
        claimed = (held, root(rewritten[size]))
        assert refused(lambda f=forged, e=earlier, h=held: roots_from_consistency(e, size, h, f), claimed) or (  # type: ignore[misc]
            earlier == size
        )


def test_a_node_cannot_be_passed_off_as_a_leaf():
    """The root of two entries is not the root of one entry made of the two leaves."""
    pair = HASHES[0] + HASHES[1]
    assert hashlib.sha256(b"\0" + bytes.fromhex(pair)).hexdigest() != root(FRONTIERS[2])


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        (lambda: inclusion_proof(NODES, 0, 0), "index"),
        (lambda: inclusion_proof(NODES, 3, 3), "index must lie in 0..2, not 3"),
        (lambda: inclusion_proof(NODES, -1, 3), "index"),
        (lambda: root_from_proof(HASHES[0], 1, 1, []), "index"),
        (lambda: root_from_proof(HASHES[0], 0, 2, []), "too short"),
        (lambda: root_from_proof(HASHES[0], 0, 1, [HASHES[1]]), "too long"),
        (lambda: consistency_proof(NODES, 0, 3), "earlier must lie in 1..3, not 0"),
        (lambda: consistency_proof(NODES, 4, 3), "earlier"),
        (lambda: roots_from_consistency(0, 3, HASHES[0], []), "1 to 3 entries, not 0"),
        (lambda: roots_from_consistency(4, 3, HASHES[0], []), "1 to 3 entries, not 4"),
        (lambda: roots_from_consistency(3, 3, HASHES[0], [HASHES[1]]), "too long"),
        (lambda: roots_from_consistency(2, 3, HASHES[0], []), "too short"),
        (lambda: roots_from_consistency(3, 5, HASHES[0], []), "too short"),
        (lambda: roots_from_consistency(2, 3, HASHES[0], [HASHES[1], HASHES[2]]), "too long"),
    ],
)
def test_what_fits_no_tree_is_refused(asked: Callable[[], object], named: str):
    with pytest.raises(ValueError, match=named):
        asked()


def test_names_are_those_of_the_specification():
    assert TilePlace(0, 1234067, 256).path == "tile/0/x001/x234/067"
    assert TilePlace(1, 0, 1).path == "tile/1/000.p/1"
    assert TilePlace(None, 999, 255).path == "tile/entries/999.p/255"
    assert TilePlace(None, 1000, 256).path == "tile/entries/x001/000"


def test_a_tree_of_70000_has_the_tiles_of_the_specification_s_example():
    """273 full tiles of level 0 and a partial one of 112, one full of level 1 and one of 17, one of level 2 of 1."""
    widths: dict[int | None, list[int]] = {}
    for place in tiles_of(70_000):
        widths.setdefault(place.level, []).append(place.width)
    assert widths[0] == widths[None] == [256] * 273 + [112]
    assert (widths[1], widths[2]) == ([256, 17], [1])
    assert [place.path for place in tiles_of(256)] == ["tile/entries/000", "tile/0/000", "tile/1/000.p/1"]
    assert list(tiles_of(0)) == []


def leaves_and_root(size: int) -> tuple[list[str], str]:
    leaves = [hashlib.sha256(b"\0" + str(number).encode()).hexdigest() for number in range(size)]
    frontier: tuple[str, ...] = ()
    for number, leaf in enumerate(leaves):
        frontier, _ = appended(frontier, number, leaf)
    return leaves, root(frontier)


def hashes(leaves: list[str]) -> Callable[[TilePlace], tuple[str, ...]]:
    """Return how to make a tile from the leaves alone, by the specification's definition."""

    def read(place: TilePlace) -> tuple[str, ...]:
        span = 256 ** (place.level or 0)
        first = place.index * 256
        return tuple(node_over(leaves[at * span : (at + 1) * span]) for at in range(first, first + place.width))

    return read


@pytest.mark.parametrize("size", [1, 2, 255, 256, 257, 511, 513, 1000, 65_536 + 300])
def test_the_root_follows_from_the_tiles(size: int):
    leaves, expected = leaves_and_root(size)
    asked: set[TilePlace] = set()

    def read(place: TilePlace) -> tuple[str, ...]:
        asked.add(place)
        return hashes(leaves)(place)

    assert tree_root(nodes_of_tiles(read, size), size) == expected
    assert asked <= set(tiles_of(size))


def test_bundles_are_read_as_they_were_written_and_no_cut_one_is():
    logged = (b"", b"a", bytes(65_535), b"abc")
    content = bundle(logged)
    assert content[:5] == b"\0\0\0\1a"
    assert read_bundle(content, 4) == logged
    for cut in (content[:-1], content[:-5], content + b"\0", content[:1], b""):
        with pytest.raises(MalformedTile, match="was cut or changed"):
            read_bundle(cut, 4)
    with pytest.raises(MalformedTile, match="65536 bytes; allowed are 65535"):
        bundle([bytes(65_536)])


def test_tiles_of_another_length_are_refused():
    assert read_tile(bytes(64), 2) == ("00" * 32,) * 2
    for cut in (bytes(63), bytes(96), b""):
        with pytest.raises(MalformedTile, match="are not 2 hashes of 32; the file was cut or changed"):
            read_tile(cut, 2)
