"""Tiles: their names, how wide they are, and the tree that is put together from them again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import pytest

from privacy.ledger.journal.merkle import (
    MalformedTile,
    TilePlace,
    appended,
    bundle,
    node_over,
    nodes_of_tiles,
    read_bundle,
    read_tile,
    root,
    tiles_of,
    tree_root,
)


def test_names_are_those_of_the_specification() -> None:
    assert TilePlace(0, 1234067, 256).path == "tile/0/x001/x234/067"
    assert TilePlace(1, 0, 1).path == "tile/1/000.p/1"
    assert TilePlace(None, 999, 255).path == "tile/entries/999.p/255"
    assert TilePlace(None, 1000, 256).path == "tile/entries/x001/000"


def test_a_tree_of_70000_has_the_tiles_of_the_specification_s_example() -> None:
    """273 full tiles of level 0 and a partial one of 112, one full of level 1 and one of 17, one of level 2 of 1."""
    widths: dict[int | None, list[int]] = {}
    for place in tiles_of(70_000):
        widths.setdefault(place.level, []).append(place.width)
    assert widths[0] == widths[None] == [256] * 273 + [112]
    assert (widths[1], widths[2]) == ([256, 17], [1])
    assert [place.path for place in tiles_of(256)] == ["tile/entries/000", "tile/0/000", "tile/1/000.p/1"]
    assert list(tiles_of(0)) == []


def grown(size: int) -> tuple[list[str], str]:
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
def test_the_root_follows_from_the_tiles(size: int) -> None:
    leaves, expected = grown(size)
    asked: set[TilePlace] = set()

    def read(place: TilePlace) -> tuple[str, ...]:
        asked.add(place)
        return hashes(leaves)(place)

    assert tree_root(nodes_of_tiles(read, size), size) == expected
    assert asked <= set(tiles_of(size))


def test_bundles_are_read_as_they_were_written_and_no_cut_one_is() -> None:
    logged = (b"", b"a", bytes(65_535), b"abc")
    content = bundle(logged)
    assert content[:5] == b"\0\0\0\1a"
    assert read_bundle(content, 4) == logged
    for cut in (content[:-1], content[:-5], content + b"\0", content[:1], b""):
        with pytest.raises(MalformedTile, match="was cut or changed"):
            read_bundle(cut, 4)
    with pytest.raises(MalformedTile, match="65536 bytes; allowed are 65535"):
        bundle([bytes(65_536)])


def test_tiles_of_another_length_are_refused() -> None:
    assert read_tile(bytes(64), 2) == ("00" * 32,) * 2
    for cut in (bytes(63), bytes(96), b""):
        with pytest.raises(MalformedTile, match="are not 2 hashes of 32; the file was cut or changed"):
            read_tile(cut, 2)
