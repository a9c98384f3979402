"""From codes to values on the way out: labels and pictures as they are, numbers and dates from their bins, in order.

Where it was released how values lie inside bins, they are drawn so (`bin_contents`); else uniformly.

A number is drawn on a lattice: whole numbers for integers, days for dates, multiples of 10^-s for decimals, where s
is the number of decimals of the column's bounds and edges (columns that the contract orders share the larger s). So
every value is in the bin that its code names, and encoding it gives the code again.

Where the contract says a <= b and the bins overlap, a row's values are drawn again until they are in order, `ROUNDS`
times; what is then still out of order is drawn one column after the other between what the others leave.

The random words are an argument: from a published seed the same codes give the same values on any machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from itertools import accumulate
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from contracts.contract.column import Column
from contracts.contract.contract import Contract
from contracts.contract.terms import order_pairs
from contracts.domains.bins import ExactNumber
from contracts.domains.domain import NULL_LABEL
from contracts.domains.lattice import usual_step
from contracts.domains.ordered import EXACT
from contracts.domains.statements import DecodedKind

# --- How values lie inside bins.


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


if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Words = Callable[[int, int], NDArray[np.uint64]]
    """Gives, for the number of a stream and a count, that many 64-bit words; streams are independent."""

ROUNDS: Final = 16
NONE_MEASURED: Final[Mapping[str, BinContents]] = MappingProxyType({})
_COLUMN, _ROUND = 6, 0
"""Where the numbers of column and round stand in the number of a stream; that of the piece stands above."""


@dataclass(frozen=True)
class DecodedForm:
    """How a column's values are published.

    Args:
        name: the column.
        kind: labels, whole numbers, numbers, days, true and false, or pictures.
        values: of listed domains the value of each code as text, None for a missing one; else empty.
        scale: decimals of the numbers.
        places: of a picture, row by row; 1 else.
    """

    name: str
    kind: DecodedKind
    values: tuple[str | None, ...] = ()
    scale: int = 0
    places: int = 1


@dataclass(frozen=True, eq=False)
class Decoded:
    """The values of one column.

    Args:
        form: how they are published.
        numbers: codes of a listed domain; else multiples of 10^-scale, or days since 1970-01-01; the levels of
            pictures, shape (rows, places).
        missing: True where there is none.
    """

    form: DecodedForm
    numbers: NDArray[np.int64] | NDArray[np.uint8]
    missing: NDArray[np.bool_]


def too_fine(column: Column) -> bool:
    """Say whether a decimal column has numbers that a double does not tell apart on its lattice."""
    if not column.domain.half_open:
        return False
    (low, _), (_, high) = column.domain.axis[0], column.domain.axis[-1]
    most: Decimal = max(abs(Decimal(low)), abs(Decimal(high)))
    return bool(most * 10**column.domain.decimals >= EXACT)


def form_of(column: Column, scale: int) -> DecodedForm:
    """Say how a column is published."""
    kind = column.domain.decoded_kind(column.logical_type, scale)
    values = tuple(None if label == NULL_LABEL else label for label in column.labels) if column.named else ()
    return DecodedForm(column.name, kind, values, scale if column.ordered else 0, column.length)


class Decoder:
    """Turns rows of codes into values, piece by piece.

    Args:
        contract: gives domains and constraints.
        names: the columns of the codes, in order.
        contents: how values lie inside the bins of a column, by its name; uniformly where it is not among them.
    Raises:
        ValueError: contents of a column that is not there, or of other bins.
    """

    def __init__(
        self, contract: Contract, names: Sequence[str], contents: Mapping[str, BinContents] = NONE_MEASURED
    ) -> None:
        columns = [contract.column(name) for name in names]
        pairs = [pair for pair in order_pairs(contract.constraints) if set(pair) <= set(names)]
        self._pairs = [(names.index(low), names.index(high)) for low, high in pairs]
        self._groups = _groups(len(names), self._pairs)
        scales = [max(columns[other].domain.decimals for other in group) for group in self._groups]
        self.forms = tuple(form_of(column, scale) for column, scale in zip(columns, scales, strict=True))
        self._starts = [0, *accumulate(column.length for column in columns)]
        self._levels = {column.name: column.size for column in columns}
        self._lattices = [_lattice(column, scale) for column, scale in zip(columns, scales, strict=True)]
        self._filled: dict[int, FilledBins] = {}
        for name, found in contents.items():
            lattice = self._lattices[names.index(name)] if name in names else None
            if lattice is None:
                raise ValueError(f"contents of bins of {name}: no such column of numbers")
            place = names.index(name)
            self._filled[place] = FilledBins(columns[place], found, *lattice[:2], scales[place])

    def decode(self, codes: NDArray[np.integer], *, piece: int, words: Words) -> tuple[Decoded, ...]:
        """Decode one piece of rows.

        Args:
            codes: shape (rows, codes): one a column, one a place of pictures.
            piece: number of the piece; each has random words of its own.
            words: random words.
        Returns:
            tuple[Decoded, ...]: one a column.
        Raises:
            ValueError: a code is no cell, or the cells of a row cannot be put in the declared order.
        Privacy: post-processing of released codes.
        """
        import numpy as np

        found: list[Decoded] = []
        spans: list[tuple[NDArray[np.int64], NDArray[np.int64]] | None] = []
        for place, form in enumerate(self.forms):
            start = self._starts[place]
            if form.kind == "picture":
                found.append(self._pictures(form, codes[:, start : start + form.places]))
                spans.append(None)
                continue
            column = np.asarray(codes[:, start], dtype=np.int64)
            missing, span = self._span(place, column)
            drawn = (
                column
                if span is None
                else self._drawn(place, column, missing, span, partial(words, _stream(piece, place, 0)))
            )
            found.append(Decoded(form, drawn, missing))
            spans.append(span)
        for group in sorted({each for each in self._groups if len(each) > 1}):
            self._put_in_order(group, found, spans, piece, words, codes)
        return tuple(found)

    def _drawn(
        self,
        place: int,
        codes: NDArray[np.int64],
        missing: NDArray[np.bool_],
        span: tuple[NDArray[np.int64], NDArray[np.int64]],
        words: Callable[[int], NDArray[np.uint64]],
    ) -> NDArray[np.int64]:
        """Draw the values of a column: by the contents of its bins where they are known, else uniformly."""
        import numpy as np

        filled = self._filled.get(place)
        if filled is None:
            return below(*span, words(codes.size))
        drawn, there = np.zeros(codes.size, dtype=np.int64), np.flatnonzero(~missing)
        drawn[there] = filled.spread(codes[there], words(filled.words(there.size)))
        return drawn

    def _pictures(self, form: DecodedForm, codes: NDArray[np.integer]) -> Decoded:
        """Take a column of pictures as it is."""
        import numpy as np

        most = self._levels[form.name] - 1
        if codes.size and not (codes.min() >= 0 and codes.max() <= most):
            raise ValueError(f"column {form.name}: codes must lie between 0 and {most}")
        return Decoded(form, codes.astype(np.uint8), np.zeros(codes.shape[0], dtype=np.bool_))

    def _span(
        self, place: int, codes: NDArray[np.int64]
    ) -> tuple[NDArray[np.bool_], tuple[NDArray[np.int64], NDArray[np.int64]] | None]:
        """Return where a column is missing, and for numbers and dates the ends of each row's bin."""
        import numpy as np

        form, lattice = self.forms[place], self._lattices[place]
        values = form.values
        size = len(values) if lattice is None else lattice[2]
        if codes.size and not (codes.min() >= 0 and codes.max() < size):
            raise ValueError(f"column {form.name}: codes must lie between 0 and {size - 1}")
        if lattice is None:
            return np.array([value is None for value in values])[codes], None
        low, high, _ = lattice
        missing = codes >= low.size
        cells = np.where(missing, 0, codes)
        return missing, (low[cells], high[cells])

    def _put_in_order(
        self,
        group: tuple[int, ...],
        found: list[Decoded],
        spans: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]] | None],
        piece: int,
        words: Words,
        codes: NDArray[np.integer],
    ) -> None:
        """Draw the values of a group again in the rows where they are not in the declared order."""
        import numpy as np

        pairs = [pair for pair in self._pairs if pair[0] in group]
        for turn in range(1, ROUNDS + 2):
            wrong = np.zeros(found[group[0]].numbers.size, dtype=np.bool_)
            for low, high in pairs:
                both = ~found[low].missing & ~found[high].missing
                wrong |= both & (found[low].numbers > found[high].numbers)
            rows = np.flatnonzero(wrong)
            if rows.size == 0:
                return
            for place in _upwards(group, pairs):
                low_end, high_end = (end[rows] for end in spans[place] or ())
                stream = _stream(piece, place, turn)
                if turn > ROUNDS:
                    low_end, high_end = self._between(place, pairs, found, spans, rows, low_end, high_end)
                elif place in self._filled:
                    own = rows[~found[place].missing[rows]]
                    cells = np.asarray(codes[own, self._starts[place]], dtype=np.int64)
                    found[place].numbers[own] = self._filled[place].drawn(cells, words(stream, 2 * own.size))
                    continue
                found[place].numbers[rows] = below(low_end, high_end, words(stream, rows.size))

    def _between(
        self,
        place: int,
        pairs: Sequence[tuple[int, int]],
        found: Sequence[Decoded],
        spans: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]] | None],
        rows: NDArray[np.intp],
        low_end: NDArray[np.int64],
        high_end: NDArray[np.int64],
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Narrow the bins of one column to what the columns below it have and those above it may still have."""
        import numpy as np

        for low, high in pairs:
            other = low if high == place else high
            span = spans[other]
            if place not in (low, high) or span is None:
                continue
            free = found[other].missing[rows]
            if other == low:
                low_end = np.where(free, low_end, np.maximum(low_end, found[other].numbers[rows]))
            else:
                high_end = np.where(free, high_end, np.minimum(high_end, span[1][rows]))
        here = ~found[place].missing[rows]
        if (here & (low_end > high_end)).any():
            raise ValueError(f"column {self.forms[place].name}: a row's cells cannot be put in the declared order")
        return np.minimum(low_end, high_end), high_end


def _groups(columns: int, pairs: Sequence[tuple[int, int]]) -> list[tuple[int, ...]]:
    """Return for each column the columns that it is ordered with, directly or through others, itself among them."""
    groups = [{place} for place in range(columns)]
    for low, high in pairs:
        joined = groups[low] | groups[high]
        for place in joined:
            groups[place] = joined
    return [tuple(sorted(group)) for group in groups]


def _upwards(group: Sequence[int], pairs: Sequence[tuple[int, int]]) -> list[int]:
    """Return the columns of a group so that each comes after those below it."""
    return sorted(group, key=lambda place: (sum(high == place for _, high in pairs), place))


def _lattice(column: Column, scale: int) -> tuple[NDArray[np.int64], NDArray[np.int64], int] | None:
    """Return the first and the last number of each bin, both included, and the number of cells; None for labels."""
    import numpy as np

    if not column.ordered:
        return None
    below = int(column.domain.half_open)  # a bin ends one step before the next one; the last bin has its end
    ends = [(_scaled(low, scale), _scaled(high, scale) - below) for low, high in column.domain.axis]
    ends[-1] = (ends[-1][0], ends[-1][1] + below)
    if max(abs(end) for pair in ends for end in pair) > EXACT:
        raise ValueError(f"column {column.name}: numbers that a double does not tell apart")
    low, high = (np.array(side, dtype=np.int64) for side in zip(*ends, strict=True))
    return low, high, column.size


def _scaled(number: ExactNumber, scale: int) -> int:
    return number * 10**scale if isinstance(number, int) else int(number.scaleb(scale))


def _stream(piece: int, place: int, turn: int) -> int:
    """Number the random words of one column of one piece in one round."""
    return (piece << 20) | (place << _COLUMN) | (turn << _ROUND)
