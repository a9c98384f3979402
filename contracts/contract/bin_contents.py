"""How values lie inside bins: leaves with whole-number weights, and values drawn by them.

A bin's values are drawn together. Its rows stand in random order at equal distances on the cumulated weights of its
leaves (systematic sampling, Madow 1949), so that the values of many rows follow the weights as closely as whole rows
can. Inside a leaf a value is drawn uniformly. All of it is whole-number arithmetic on the random words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from contracts.contract.column import Column
from contracts.domains.value_lattices import usual_step

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Whole = NDArray[np.int64]

MOST_WEIGHT: Final = 2**30
"""Of a bin: with at most 2^31 rows in it, products stay below 2^62."""
_BITS: Final = 31


@dataclass(frozen=True, eq=False)
class BinContents:
    """How the values of a column lie inside its bins; released.

    Args:
        cuts: the first offset of each leaf, int64, rising from 0 [steps of the column's lattice].
        weights: of each leaf, int64, not negative; those of a bin add up to 1 at least, and `MOST_WEIGHT` at most.
    """

    cuts: Whole
    weights: Whole


class FilledBins:
    """The bins of one column, with their contents.

    Args:
        column: the column.
        contents: how values lie inside its bins.
        low, high: the first and last number of each bin, both included [multiples of 10^-scale].
        scale: decimals of the numbers that are drawn.
    Raises:
        ValueError: the contents are not those of these bins.
    """

    def __init__(self, column: Column, contents: BinContents, low: Whole, high: Whole, scale: int) -> None:
        import numpy as np

        bounds, where = column.domain.lattice_bounds, f"the contents of the bins of {column.name}"
        if bounds is None:
            raise ValueError(f"{where}: no column of numbers or days")
        cuts, weights = contents.cuts, contents.weights
        if not (cuts.shape == weights.shape == (cuts.size,) and cuts.size and cuts[0] == 0 and weights.min() >= 0):
            raise ValueError(f"{where}: a weight for each leaf, from offset 0 on")
        # One step of the lattice is so many numbers that are drawn.
        times = int(usual_step(*bounds, decimals=column.domain.decimals).scaleb(scale))
        starts = low[0] + cuts * times
        if (np.diff(cuts) <= 0).any() or not np.isin(low, starts).all() or starts[-1] > high[-1]:
            raise ValueError(f"{where}: leaves that rise, and begin where bins begin")
        self._low, self._high = starts, np.append(starts[1:] - 1, high[-1])
        self._cumulated = np.cumsum(weights)
        first = np.searchsorted(starts, low)
        before = np.append(0, self._cumulated)
        self._base, self._total = before[first], before[np.append(first[1:], cuts.size)] - before[first]
        if self._total.min() < 1 or self._total.max() > MOST_WEIGHT:
            raise ValueError(f"{where}: weights that add up to 1 to {MOST_WEIGHT} in each bin")

    def words(self, rows: int) -> int:
        """Return how many random words so many rows take."""
        return 2 * rows + self._base.size

    def spread(self, codes: Whole, words: NDArray[np.uint64]) -> Whole:
        """Draw a value for each row, those of a bin together.

        Args:
            codes: the bin of each row.
            words: random words.
        """
        rows = codes.size
        reached = evenly(codes, self._total, words[:rows], words[2 * rows :])
        return self._values(codes, reached, words[rows : 2 * rows])

    def drawn(self, codes: Whole, words: NDArray[np.uint64]) -> Whole:
        """Draw a value for each row by itself; arguments as for `spread`."""
        import numpy as np

        rows = codes.size
        reached = below(np.zeros(rows, np.int64), self._total[codes] - 1, words[:rows])
        return self._values(codes, reached, words[rows : 2 * rows])

    def _values(self, codes: Whole, reached: Whole, words: NDArray[np.uint64]) -> Whole:
        """Return values from places on the cumulated weights of their bins."""
        import numpy as np

        leaf = np.searchsorted(self._cumulated, self._base[codes] + reached, side="right")
        return below(self._low[leaf], self._high[leaf], words)


def evenly(codes: Whole, totals: Whole, words: NDArray[np.uint64], starts: NDArray[np.uint64]) -> Whole:
    """Return a place on the cumulated weights of its bin for each row, those of a bin at equal distances.

    Args:
        codes: the bin of each row.
        totals: the weights of each bin together, 1 to `MOST_WEIGHT`.
        words: one random word a row: the order of the rows of a bin.
        starts: one random word a bin: where its first row stands.
    """
    import numpy as np

    rows = codes.size
    order = np.lexsort((words, codes))
    ordered = codes[order]
    begins = np.flatnonzero(np.diff(ordered, prepend=-1))
    sizes = np.diff(begins, append=rows)
    rank = np.arange(rows) - np.repeat(begins, sizes)
    # One random start a bin, uniform below its weight; the rows of the bin follow at equal distances.
    start = ((starts >> np.uint64(64 - _BITS)).astype(np.int64) * totals) >> _BITS
    reached = np.empty(rows, dtype=np.int64)
    reached[order] = (rank * totals[ordered] + start[ordered]) // np.repeat(sizes, sizes)
    return reached


def below(low: Whole, high: Whole, words: NDArray[np.uint64]) -> Whole:
    """Return whole numbers from low to high, one a random word: low + floor(word * (high - low + 1) / 2^64)."""
    import numpy as np

    count = (high - low + 1).astype(np.uint64)
    half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    top, rest, large, small = words >> half, words & mask, count >> half, count & mask
    first = top * small + ((rest * small) >> half)
    second = rest * large + (first & mask)
    product = top * large + (first >> half) + (second >> half)
    return np.asarray(low + product.astype(np.int64))
