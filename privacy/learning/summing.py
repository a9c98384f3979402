"""What all sums over rows share: exact members, bounded moves, and rows taken some at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from privacy.arrays import Floats, Unsigned
from privacy.learning.embedding import Embedding
from privacy.learning.groups import Everyone, Groups, LabelCodes, NearestCentre, NormShells, Responsibilities
from privacy.learning.layout import RowLayout

LARGEST_MOVE: Final = 10**11
"""Events hold no larger ones [lattice units]."""
_CHUNK_BYTES: Final = 1 << 26
_CHUNK_ROWS: Final = 1 << 14


def chunks(
    embedding: Embedding, groups: Groups, codes: Unsigned, layout: RowLayout, *, width: int
) -> Iterator[tuple[Floats, Floats]]:
    """Embed rows and share them out, some at a time: so many that sums stay whole in float64 and in memory.

    Sums over chunks are of 64 bits and wrap around beyond them, at 10^7 rows on the finest lattice at the earliest. A
    refusal would tell that there are so many rows; a sum and noise modulo 2^64 are a function of their own sum.
    """
    rows = max(1, min(_CHUNK_ROWS, _CHUNK_BYTES // (8 * (width + embedding.centre.size))))
    for start in range(0, codes.shape[0], rows):
        some = codes[start : start + rows]
        vectors = embedding.vectors(some, layout)
        yield vectors, groups.weights(some, layout, vectors)


def check_members(embedding: object, groups: object) -> None:
    """Refuse anything but our own frozen values: no code of a caller sees rows."""
    if type(embedding) is not Embedding:
        raise ValueError(f"embedding must be Embedding itself, not {type(embedding).__name__}")
    if type(groups) not in (Everyone, LabelCodes, NearestCentre, NormShells, Responsibilities):
        raise ValueError(f"groups must be one of those in privacy.learning.groups, not {type(groups).__name__}")


def check_move(move: int) -> None:
    """Refuse a lattice so fine that one row's change does not fit into an event."""
    if move > LARGEST_MOVE:
        raise ValueError(f"bits must be fewer: a row may move a sum by at most {LARGEST_MOVE} lattice units")
