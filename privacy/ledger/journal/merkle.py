"""Merkle trees over the journal's entry hashes, so that one entry can be proven without the others.

The tree grows by appending: the frontier (a tuple) holds the roots of the complete subtrees that the entries so far
fall into, and an append touches only those it completes. Any other node is found again through a `Nodes` function.

Source: RFC 6962 (Laurie, Langley, Kasper 2013), section 2.1: leaves are hashed with a zero byte in front (an entry's
hash is made so) and nodes with a one byte, so that a node can never be passed off as a leaf.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

# (level, index) -> the root (hex) of the complete subtree over entries index * 2^level to (index + 1) * 2^level - 1
Nodes = Callable[[int, int], str]


def _node(left: str, right: str) -> str:
    return hashlib.sha256(b"\x01" + bytes.fromhex(left) + bytes.fromhex(right)).hexdigest()


def _split(size: int) -> int:
    """Return the largest power of two smaller than `size`."""
    return 1 << ((size - 1).bit_length() - 1)


def appended(frontier: Sequence[str], size: int, entry_hash: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Append one entry.

    Args:
        frontier: roots (hex) of the complete subtrees of the `size` entries so far, the largest first.
        size: number of entries so far.
        entry_hash: hash (hex) of the new entry.
    Returns:
        tuple: the new frontier, and the roots of the subtrees that this entry completes, levels 1, 2, … upwards.
    """
    peaks, reached, completed = list(frontier), entry_hash, []
    while size & 1:
        reached = _node(peaks.pop(), reached)
        completed.append(reached)
        size >>= 1
    return (*peaks, reached), tuple(completed)


def root(frontier: Sequence[str]) -> str:
    """Return the Merkle root (hex) of the entries with this frontier; that of no entries is SHA-256 of nothing."""
    if not frontier:
        return hashlib.sha256(b"").hexdigest()
    *others, reached = frontier
    for peak in reversed(others):
        reached = _node(peak, reached)
    return reached


def node_over(hashes: Sequence[str]) -> str:
    """Return the node (hex) above neighbouring nodes of one level: 1, 2, 4, … of them."""
    while len(hashes) > 1:
        hashes = [_node(left, right) for left, right in zip(hashes[::2], hashes[1::2], strict=True)]
    return hashes[0]


def tree_root(nodes: Nodes, size: int) -> str:
    """Return the root (hex) of a tree of at least one entry, from its nodes."""
    return _range_root(nodes, 0, size)


def _range_root(nodes: Nodes, begin: int, end: int) -> str:
    """Return the root of entries begin to end - 1, a range that the tree's own splits lead to."""
    size = end - begin
    if size & (size - 1) == 0:
        level = size.bit_length() - 1
        return nodes(level, begin >> level)
    middle = begin + _split(size)
    return _node(_range_root(nodes, begin, middle), _range_root(nodes, middle, end))


def inclusion_proof(nodes: Nodes, index: int, size: int) -> tuple[str, ...]:
    """Return the audit path (RFC 6962, 2.1.1) of entry `index` in the tree of `size` entries, from the leaf upwards.

    Raises:
        ValueError: index is outside the tree.
    """
    _check_index(index, size)
    begin, end, path = 0, size, []
    while end - begin > 1:
        middle = begin + _split(end - begin)
        if index < middle:
            path.append(_range_root(nodes, middle, end))
            end = middle
        else:
            path.append(_range_root(nodes, begin, middle))
            begin = middle
    return tuple(reversed(path))


def consistency_proof(nodes: Nodes, earlier: int, size: int) -> tuple[str, ...]:
    """Return the proof (RFC 6962, 2.1.2) that the tree of `size` entries begins with the first `earlier`.

    Raises:
        ValueError: earlier is not in 1..size.
    """
    if not 1 <= earlier <= size:
        raise ValueError(f"earlier must lie in 1..{size}, not {earlier}")
    begin, end, whole, path = 0, size, True, []
    while earlier != end - begin:
        middle = begin + _split(end - begin)
        if earlier <= middle - begin:
            path.append(_range_root(nodes, middle, end))
            end = middle
        else:
            path.append(_range_root(nodes, begin, middle))
            earlier, begin, whole = earlier - (middle - begin), middle, False
    if not whole:
        path.append(_range_root(nodes, begin, end))
    return tuple(reversed(path))


def root_from_proof(entry_hash: str, index: int, size: int, path: Sequence[str]) -> str:
    """Return the root that an audit path leads to from an entry (RFC 9162, 2.1.3.2).

    Raises:
        ValueError: the path does not fit a tree of `size` entries.
    """
    _check_index(index, size)
    here, last, reached = index, size - 1, entry_hash
    for sibling in path:
        if last == 0:
            raise ValueError("the audit path is too long")
        if here % 2 or here == last:
            reached = _node(sibling, reached)
            while here % 2 == 0 and here:
                here, last = here >> 1, last >> 1
        else:
            reached = _node(reached, sibling)
        here, last = here >> 1, last >> 1
    if last:
        raise ValueError("the audit path is too short")
    return reached


def roots_from_consistency(earlier: int, size: int, earlier_root: str, path: Sequence[str]) -> tuple[str, str]:
    """Return the roots of the earlier and of the whole tree that a consistency proof leads to (RFC 9162, 2.1.4.2).

    Raises:
        ValueError: the proof does not fit trees of these sizes.
    """
    if not 1 <= earlier <= size:
        raise ValueError(f"an earlier tree of 1 to {size} entries, not {earlier}")
    if earlier == size:
        if path:
            raise ValueError("the consistency proof is too long")
        return earlier_root, earlier_root
    steps = list(path) if earlier & (earlier - 1) else [earlier_root, *path]
    if not steps:
        raise ValueError("the consistency proof is too short")
    here, last = earlier - 1, size - 1
    while here & 1:
        here, last = here >> 1, last >> 1
    old = new = steps[0]
    for step in steps[1:]:
        if last == 0:
            raise ValueError("the consistency proof is too long")
        if here & 1 or here == last:
            old, new = _node(step, old), _node(step, new)
            while here and not here & 1:
                here, last = here >> 1, last >> 1
        else:
            new = _node(new, step)
        here, last = here >> 1, last >> 1
    if last:
        raise ValueError("the consistency proof is too short")
    return old, new


def _check_index(index: int, size: int) -> None:
    if not 0 <= index < size:
        raise ValueError(f"index must lie in 0..{size - 1}, not {index}")


# --- Tiles.


WIDTH: Final = 256
HEIGHT: Final = 8
HASH_BYTES: Final = 32
LONGEST_LOGGED: Final = 2**16 - 1


class MalformedTile(ValueError):
    """A tile or a bundle of entries that is cut, too long, or of another form."""


@dataclass(frozen=True)
class TilePlace:
    """Where a tile is, and how many entries or hashes it holds.

    Args:
        level: of the tile, from 0; None for a bundle of entries.
        index: which one of its level, from 0.
        width: 1 to 256.
    """

    level: int | None
    index: int
    width: int

    @property
    def path(self) -> str:
        """Its name below the journal's address."""
        digits = f"{self.index:03d}"
        digits = digits.zfill(-(-len(digits) // 3) * 3)
        groups = [digits[at : at + 3] for at in range(0, len(digits), 3)]
        name = "/".join([*(f"x{each}" for each in groups[:-1]), groups[-1]])
        level = "entries" if self.level is None else str(self.level)
        return f"tile/{level}/{name}" + (f".p/{self.width}" if self.width < WIDTH else "")


def tiles_of(size: int) -> Iterator[TilePlace]:
    """Yield the tiles of a tree of so many entries, lower levels first, each bundle of entries before its tile."""
    level = 0
    while size >> (HEIGHT * level):
        count = size >> (HEIGHT * level)
        for index in range(-(-count // WIDTH)):
            width = min(WIDTH, count - WIDTH * index)
            if level == 0:
                yield TilePlace(None, index, width)
            yield TilePlace(level, index, width)
        level += 1


def bundle(logged: Sequence[bytes]) -> bytes:
    """Return what is logged of some entries as one file.

    Raises:
        MalformedTile: an entry is longer than 65,535 bytes.
    """
    for each in logged:
        if len(each) > LONGEST_LOGGED:
            raise MalformedTile(f"an entry of {len(each)} bytes; allowed are {LONGEST_LOGGED}")
    return b"".join(len(each).to_bytes(2, "big") + each for each in logged)


def read_bundle(content: bytes, width: int) -> tuple[bytes, ...]:
    """Return what is logged of the entries in a bundle.

    Raises:
        MalformedTile: it does not hold exactly `width` entries.
    """
    logged, at = [], 0
    while at < len(content):
        length = int.from_bytes(content[at : at + 2], "big")
        logged.append(content[at + 2 : at + 2 + length])
        at += 2 + length
    if at != len(content) or len(logged) != width:
        raise MalformedTile(f"{len(content)} bytes are not {width} whole entries; the file was cut or changed")
    return tuple(logged)


def read_tile(content: bytes, width: int) -> tuple[str, ...]:
    """Return the hashes (hex) of a tile.

    Raises:
        MalformedTile: it does not hold exactly `width` hashes.
    """
    if len(content) != width * HASH_BYTES:
        found = f"{len(content)} bytes are not {width} hashes of {HASH_BYTES}"
        raise MalformedTile(f"hashes: {found}; the file was cut or changed")
    return tuple(content[at : at + HASH_BYTES].hex() for at in range(0, len(content), HASH_BYTES))


def nodes_of_tiles(read: Callable[[TilePlace], tuple[str, ...]], size: int) -> Nodes:
    """Return how to look up a node of a tree of `size` entries in its tiles.

    Args:
        read: returns the hashes of one tile.
        size: number of entries; says how wide the last tiles are.
    """

    def node(level: int, index: int) -> str:
        height, within = divmod(level, HEIGHT)
        first = index << within  # of the hashes of the tile's level that the node covers
        tile = first // WIDTH
        hashes = read(TilePlace(height, tile, min(WIDTH, (size >> (HEIGHT * height)) - WIDTH * tile)))
        return node_over(hashes[first - WIDTH * tile :][: 1 << within])

    return node
