"""Two more forms in which a column is added up by cell: its sum alone, and its moments up to the square.

The usual form is that of the lattice itself (`value_lattices`): steps above the lower and below the upper end, which
give count, sum and mean. With o the offset of a row's value, from 0 to W, the others are:

    sum alone   low / step + o: the value itself in steps, one number a cell. A row without a value adds 0.
    moments     of U steps, floor(U (W - o)^2 / W^2) at the lower end, floor(U o^2 / W^2) at the upper end, and the
                rest, about 2 U o (W - o) / W^2, between them. A row without a value adds U to a number of its own.

So a row hands out U steps of moments, none below 0, as it hands out W of a lattice. The three parts are Bernstein's
polynomials of degree 2 in o / W: their sums give count, sum and sum of squares. U is a multiple of W^2 where that is
not too many steps, and nothing is rounded then; else all three are rounded by less than 1 of at most 10^9.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from contracts.domains.lattice_form import LatticeForm
from contracts.domains.value_lattices import WIDEST, ValueLattice
from contracts.reading.scalars import Problem

_MOMENTS: Final = ("at_low", "between", "at_high", "missing")
_FEWEST: Final = 2**16
"""Steps of moments that make the rounding of noise to whole numbers small, also where a clip is short."""


@dataclass(frozen=True)
class LoneSum(LatticeForm):
    """The sum of a column's values alone, without a count beside it.

    Args:
        lattice: the lattice of the values; `low` is a whole number of steps from 0.
    """

    @property
    def low_steps(self) -> int:
        """The lower end of the clip, in steps from 0."""
        return int(Fraction(self.lattice.low) / Fraction(self.lattice.step))

    @property
    def reach(self) -> int:
        """The farthest value from 0, in steps."""
        return max(abs(self.low_steps), abs(self.low_steps + self.lattice.width))

    @property
    def both_signs(self) -> bool:
        """Whether one row may raise a sum and another lower it."""
        return self.lattice.low < 0 < self.lattice.high

    @property
    def parts(self) -> int:
        """Numbers that are added up for each cell."""
        return len(self.part_names)

    @property
    def part_names(self) -> tuple[str, ...]:
        """Name each of these numbers."""
        return ("sum",)

    @property
    def row_moves(self) -> tuple[int, ...]:
        """By how much a row moves the numbers of its cell at most."""
        return (self.reach,)

    def to_json(self) -> dict[str, Any]:
        """Write it as JSON values."""
        return {**self.lattice.to_json(), "alone": True}


@dataclass(frozen=True)
class ValueMoments(LatticeForm):
    """Moments of a column: what rows add up to at the lower end of the clip, at the upper end, and between.

    Args:
        lattice: the lattice of the values.
        whole: the steps that each row hands out, >= 1; with a weight of the lattice, as often as it says.
    """

    whole: int

    @property
    def exact(self) -> bool:
        """Whether squares of offsets are whole numbers of steps."""
        return self.whole % self.lattice.width**2 == 0

    @property
    def parts(self) -> int:
        """Numbers that are added up for each cell."""
        return len(self.part_names)

    @property
    def part_names(self) -> tuple[str, ...]:
        """Name each of these numbers."""
        return _MOMENTS if self.lattice.counts_missing else _MOMENTS[:3]

    @property
    def row_moves(self) -> tuple[int, ...]:
        """By how much a row moves the numbers of its cell at most: one by all steps, times the largest weight."""
        return (self.whole * self.lattice.most_weight,)

    def to_json(self) -> dict[str, Any]:
        """Write it as JSON values."""
        return {**self.lattice.to_json(), "whole": self.whole}


def may_stand_alone(lattice: ValueLattice, rows_per_unit: int) -> bool:
    """Tell whether a sum alone has less noise than one that is drawn with its count, and fits whole steps.

    A clip that begins or ends at 0 gives the same noise in both forms: then the count comes for nothing.
    """
    whole = (Fraction(lattice.low) / Fraction(lattice.step)).denominator == 1
    at_zero = 0 in (lattice.low, lattice.high)
    return whole and not at_zero and LoneSum(lattice).reach * rows_per_unit <= WIDEST


def moments_of(lattice: ValueLattice, rows_per_unit: int) -> ValueMoments:
    """Return the moments of a column: in the least multiple of W^2 steps from 65,536 on, or as many as may be.

    Args:
        lattice: the lattice of its values.
        rows_per_unit: of one unit, times the largest weight; all their steps together are at most 10^9.
    """
    square = lattice.width**2
    return ValueMoments(lattice, min(-(-_FEWEST // square) * square, WIDEST // rows_per_unit))


def form_of(
    lattice: ValueLattice, rows_per_unit: int, *, spread: bool, alone: bool
) -> ValueLattice | LoneSum | ValueMoments:
    """Return the form in which a column is added up.

    Args:
        lattice: the lattice of its values.
        rows_per_unit: of one unit, times the largest weight.
        spread: whether its variance is asked for.
        alone: whether nothing is but its sum, and no count.
    """
    if spread:
        return moments_of(lattice, rows_per_unit)
    return LoneSum(lattice) if alone and may_stand_alone(lattice, rows_per_unit) else lattice


def form_problems(form: LoneSum | ValueMoments, rows_per_unit: int) -> list[Problem]:
    """List what is wrong with a form of adding up: an end that is no whole step from 0, or too many steps a row."""
    if isinstance(form, LoneSum) and (Fraction(form.lattice.low) / Fraction(form.lattice.step)).denominator != 1:
        return [Problem("a sum alone of values that are no whole steps", "a lower end of whole steps")]
    if isinstance(form, LoneSum) and form.weight is not None:
        return [Problem("a sum alone of weighed rows", "rows that count once")]
    steps = max(form.row_moves)
    if steps < 1 or steps * rows_per_unit > WIDEST:
        found = f"{steps:,} steps a row, {rows_per_unit:,} rows a unit"
        return [Problem(found, f"1 to {WIDEST:,} steps of all rows of a unit together")]
    return []
