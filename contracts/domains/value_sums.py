"""Two more forms in which a column is added up by cell: its sum alone, and its moments up to the square.

The usual form is that of the lattice itself (`value_lattices`): steps above the lower and below the upper end, which
give count, sum and mean. With o the offset of a row's value, from 0 to W, the others are:

    sum alone   low / step + o: the value itself in steps, one number a cell. A row without a value adds 0. With an
                quota of a unit each row adds what is left of it at most (`LoneSum.per_unit`).
    moments     of U steps, floor(U (W - o)^2 / W^2) at the lower end, floor(U o^2 / W^2) at the upper end, and the
                rest, about 2 U o (W - o) / W^2, between them. A row without a value adds U to a number of its own.

So a row hands out U steps of moments, none below 0, as it hands out W of a lattice. The three parts are Bernstein's
polynomials of degree 2 in o / W: their sums give count, sum and sum of squares. U is a multiple of W^2 where that is
not too many steps, and nothing is rounded then; else all three are rounded by less than 1 of at most 10^9.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from contracts.domains.lattice_form import LatticeForm
from contracts.domains.value_lattices import WIDEST, ValueLattice
from contracts.reading.scalars import Problem, plain_decimal, plain_text, spelled

_MOMENTS: Final = ("at_low", "between", "at_high", "missing")
_FEWEST: Final = 2**16
"""Steps of moments that make the rounding of noise to whole numbers small, also where a clip is short."""


@dataclass(frozen=True)
class LoneSum(LatticeForm):
    """The sum of a column's values alone, without a count beside it.

    Args:
        lattice: the lattice of the values; `low` is a whole number of steps from 0.
        per_unit: what all rows of one unit add at most, over all cells and whatever the sign [the column's units]:
            of v1, v2, ... in the unit's order row i adds the part of vi that lies within the quota that the rows
            before it leave, so that the sum of what they add, each without its sign, is no more. None where every
            row adds its whole value.
    """

    per_unit: Decimal | None = None

    @property
    def quota(self) -> int | None:
        """What all rows of one unit add at most, in steps; None where nothing but the clip bounds it."""
        return None if self.per_unit is None else int(Fraction(self.per_unit) / Fraction(self.lattice.step))

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
        return (self.reach if self.quota is None else min(self.reach, self.quota),)

    def to_json(self) -> dict[str, Any]:
        """Write it as JSON values."""
        told = {} if self.per_unit is None else {"per_unit": plain_text(self.per_unit)}
        return {**self.lattice.to_json(), "alone": True, **told}


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
    if isinstance(form, LoneSum) and form.per_unit is not None:
        return quota_problems(form, form.per_unit, rows_per_unit)
    steps = max(form.row_moves)
    if steps < 1 or steps * rows_per_unit > WIDEST:
        found = f"{steps:,} steps a row, {rows_per_unit:,} rows a unit"
        return [Problem(found, f"1 to {WIDEST:,} steps of all rows of a unit together")]
    return []


def quota_problems(form: LoneSum, per_unit: Decimal, rows_per_unit: int) -> list[Problem]:
    """List what is wrong with the quota of a unit: no whole steps, too many, or more than its rows can add.

    Args:
        form: a sum alone, of whole steps from 0.
        per_unit: the quota [the column's units].
        rows_per_unit: rows of one unit at most.
    """
    step, at = form.lattice.step, ("per_unit",)
    steps, most = Fraction(per_unit) / Fraction(step), form.reach * rows_per_unit
    found = f"per_unit {spelled(per_unit)}"
    if steps < 1:
        allowed = f"at least one step, {spelled(step)}"
        return [Problem(found, allowed, f"write per_unit: {spelled(step)} or more, or a finer `step:`", at)]
    if steps.denominator != 1:
        nearest = spelled(plain_decimal(step * int(steps)))
        found, allowed = f"{found} in steps of {spelled(step)}", "a whole number of steps"
        return [Problem(found, allowed, f"write per_unit: {nearest}, or a `step:` that divides it", at)]
    if steps >= most:
        reach = f"{spelled(plain_decimal(step * form.reach))} a row"
        found += f", where {rows_per_unit:,} rows of a unit of at most {reach} add no more than {_steps(form, most)}"
        return [
            Problem(found, f"less than {_steps(form, most)}", "drop it: it bounds nothing that the clip does not", at)
        ]
    if steps > WIDEST:
        found, allowed = f"{found}, {int(steps):,} steps of {spelled(step)}", f"at most {WIDEST:,} steps"
        return [Problem(found, allowed, "write a larger `step:`, or a lower per_unit", at)]
    return []


def _steps(form: LoneSum, steps: int) -> str:
    return spelled(plain_decimal(form.lattice.step * steps))
