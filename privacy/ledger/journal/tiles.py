"""Tiles: a journal's Merkle tree and entries as files that never change, from which anybody makes any proof.

    tile/<L>/<N>[.p/<W>]        hashes of level 8 L, 32 bytes each; 256 to a tile, the last one has W
    tile/entries/<N>[.p/<W>]    what is logged of the same entries, each behind its length in 2 bytes

<N> is written in groups of three digits, all but the last one behind an `x`: 1234067 is x001/x234/067.

Source: C2SP tlog-tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from privacy.ledger.journal.merkle import Nodes, node_over

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
