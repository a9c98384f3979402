"""Histograms of magnitudes over the lattice of a column, and the narrower lattices that a clip found in one has.

The offsets of a lattice (`value_lattices`), 0 to width, are cut at their distance from the offset of the value 0 (of
the bound nearest to it, where 0 lies outside): 1, 2, 3, 4, 6, 8, 12, 16, ... steps, two cuts for each doubling, on
both sides. The value 0 has a bin of its own, since many rows may have it. A row with a value is in one bin; a row
without one is in none. A clip that is found in the histogram goes from the first offset of a bin to the last one of
another, so that the rows outside it are those of whole bins.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from itertools import pairwise
from typing import Any

from contracts.domains.lattice_form import LatticeForm
from contracts.domains.value_lattices import ValueLattice, offset_of
from contracts.reading.scalars import plain_decimal, plain_text


@dataclass(frozen=True)
class ValueMagnitudes(LatticeForm):
    """A histogram of magnitudes over the lattice of a column.

    Args:
        lattice: the lattice whose offsets are counted.
    """

    @property
    def key(self) -> str:
        """What its draw is found by; no column has this name, since it has a control character."""
        return f"magnitudes\x1f{self.column}"

    @property
    def draw_key(self) -> str:
        """The name of its draw in a release, which may have several steps of one column."""
        return f"clip:{self.column}/{plain_text(self.lattice.step)}"

    @property
    def zero(self) -> int:
        """The offset of the value 0, or of the bound nearest to it."""
        return offset_of(self.lattice, Decimal(0))

    @cached_property
    def bins(self) -> tuple[tuple[int, int], ...]:
        """The first and the last offset of each bin, in their order."""
        width, zero = self.lattice.width, self.zero
        ends, distance = {0, width, zero}, 1
        while distance < width:
            for each in (distance, distance * 3 // 2):
                ends |= {zero - each, zero + each}
            distance *= 2
        cuts = sorted(each for each in ends if 0 <= each <= width)
        pairs = list(pairwise(cuts))
        below = [(end, after - 1) for end, after in pairs if end < zero]
        above = [(end + 1, after) for end, after in pairs if end >= zero]
        return (*below, (zero, zero), *above)

    @property
    def parts(self) -> int:
        """How many bins there are."""
        return len(self.bins)

    @cached_property
    def part_names(self) -> tuple[str, ...]:
        """Name each bin: its interval of values, both ends within it."""
        return tuple(f"{self._value(first)} to {self._value(last)}" for first, last in self.bins)

    @property
    def row_moves(self) -> tuple[int, ...]:
        """By how much a row moves the numbers at most: one bin by one."""
        return (1,)

    def narrowed(self, first: int, last: int) -> NarrowedLattice:
        """Return the lattice of the offsets of some neighbouring bins.

        Args:
            first: the first offset of the first one.
            last: the last offset of the last one.
        Raises:
            ValueError: these are none, or there is one offset only.
        """
        if (
            first >= last
            or first not in {each for each, _ in self.bins}
            or last not in {each for _, each in self.bins}
        ):
            raise ValueError(f"a clip must go from where a bin begins to where one ends, not from {first} to {last}")
        whole = self.lattice
        low, high = (plain_decimal(whole.low + each * whole.step) for each in (first, last))
        return NarrowedLattice(whole.column, low, high, whole.step, whole.counts_missing, encoded=whole, first=first)

    def to_json(self) -> dict[str, Any]:
        """Write it as JSON values."""
        return {**self.lattice.to_json(), "magnitudes": True}

    def _value(self, offset: int) -> str:
        return plain_text(self.lattice.low + offset * self.lattice.step)


@dataclass(frozen=True)
class NarrowedLattice(ValueLattice):
    """A lattice between two offsets of another, with whose offsets a snapshot was encoded; written as any lattice is.

    Args:
        encoded: the lattice that the snapshot has.
        first: its offset of the lower bound.
    """

    encoded: ValueLattice = field(kw_only=True)
    first: int = field(kw_only=True)

    @property
    def name(self) -> str:
        """The name of the whole lattice's offsets in a snapshot: they are clipped as they are added up."""
        return self.encoded.name
