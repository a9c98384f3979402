"""Counts of places that are public: a margin of the columns of each place of a level, kept exactly.

A margin over the columns M fixes what a place's counts say of every set S within M (`margin_spaces`): variance 0
there. Its cells split the cells of a place in groups, of which each adds up to a public count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from privacy.arrays import Floats
from privacy.refine.margin_spaces import bits_of


@dataclass(frozen=True, eq=False)
class PublicMargin:
    """Public counts of the places of a level.

    Args:
        kept: which of all columns the margin has; none of them for the number of rows.
        counts: shape (places, cells of the margin), int64 [rows].
    """

    kept: tuple[bool, ...]
    counts: NDArray[np.int64]

    def fixed(self) -> NDArray[np.int64]:
        """Return the sets S of columns, as bits, of which nothing is left to estimate."""
        own = bits_of(self.kept)
        return np.array([part for part in range(1 << len(self.kept)) if part & own == part], dtype=np.int64)

    def groups(self, shape: Sequence[int]) -> NDArray[np.int64]:
        """Return the cell of the margin in which each cell of a place lies, shape (cells,)."""
        own = tuple(size if has else 1 for size, has in zip(shape, self.kept, strict=True))
        return np.broadcast_to(np.arange(prod(own)).reshape(own), tuple(shape)).reshape(-1)

    def shifted(self, values: Floats, low: int, high: int) -> Floats:
        """Shift the counts of some places alike within each group, so that it adds up to its public count.

        Args:
            values: of the places low to high, shape (high - low, *cells of a place) [rows].
        """
        left_out = tuple(axis for axis, has in enumerate(self.kept, start=1) if not has)
        outside = prod(values.shape[axis] for axis in left_out)
        found = values.sum(axis=left_out, keepdims=True)
        lacking = self.counts[low:high].reshape(found.shape) - found
        return np.asarray(values + lacking / outside)


def row_totals(counts: NDArray[np.int64], columns: int) -> PublicMargin:
    """Return public numbers of rows of the places of a level, shape (places,), as a margin of no columns."""
    return PublicMargin((False,) * columns, counts.reshape(-1, 1))


def implied_margins(
    margins: Mapping[int, PublicMargin], parents: Sequence[NDArray[np.int64]]
) -> dict[int, PublicMargin]:
    """Return public margins with those that follow from them: of all places above the smallest level that has any.

    Args:
        margins: by number of the level, agreeing with each other; of two levels one has the columns of the other.
        parents: for each level but the first, the number of the place above each place; never falls.
    Returns:
        By number of the level; where a level has its own and one that follows, that with more columns.
    Raises:
        ValueError: the margins of two levels have columns that the other one lacks.
    """
    found = dict(margins)
    for level in range(max(margins, default=0), 0, -1):
        starts = np.flatnonzero(np.diff(parents[level - 1], prepend=-1))
        below, own = found[level], found.get(level - 1)
        if own is not None:
            both = bits_of(own.kept) | bits_of(below.kept)
            if both not in (bits_of(own.kept), bits_of(below.kept)):
                raise ValueError("margins of two levels have columns that the other one lacks")
            if both == bits_of(own.kept):
                continue
        found[level - 1] = PublicMargin(below.kept, np.add.reduceat(below.counts, starts, axis=0))
    return found
