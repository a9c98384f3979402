"""Addends: what is added up, or counted, for each cell.

Values on a lattice, their moments, counts in a tree or inside bins, weights alone, or how many different values or
units there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, Literal

from contracts.domains.domain import DeclaredDomain
from contracts.domains.lattice import (
    WIDEST,
    LatticeForm,
    ValueLattice,
    coarser_step,
    lattice_problems,
    offset_of,
    usual_step,
)
from contracts.domains.text import LONGEST_KEY, KeyColumn, TextDomain
from contracts.domains.trees import BinTree, ValueTree, cut_problems
from contracts.reading.scalars import Problem, plain_decimal, plain_text, spelled

# --- Two more forms in which a column is added up by cell.


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


# --- Distinct counts.


UNITS: Final = "units"
DISTINCT: Final = "distinct"


@dataclass(frozen=True)
class DistinctCount:
    """The number of different values of a column in each cell, or of privacy units: one number a cell.

    Args:
        column: the column; None of privacy units.
        values: how many different values a cell can have at most; None of texts, and of units.
        declared_cells: whether all cells are declared; then the rows of one unit lie in no more cells than there are.
            False where keys are selected: how many cells there will be, nobody knows before.
        most_cells: in how many cells the rows of one unit lie at most, where its keys are bounded; None elsewhere.
    """

    column: str | None
    values: int | None
    declared_cells: bool
    most_cells: int | None = None

    @property
    def counts(self) -> Literal["values", "units"]:
        """What is counted."""
        return "units" if self.column is None else "values"

    @property
    def most_per_unit(self) -> int | None:
        """By how much one unit changes one cell at most, whatever its rows; None where only its rows bound it."""
        return 1 if self.column is None else self.values

    @property
    def key(self) -> str:
        """What its draw is found by among those of a table; no column has this name."""
        return distinct_key(self.column)

    @property
    def weight(self) -> ValueLattice | None:
        """No weight enters."""
        return None

    @property
    def weight_step(self) -> Decimal:
        """Rows are not weighed."""
        return Decimal(1)

    @property
    def parts(self) -> int:
        """Numbers of each cell."""
        return 1

    @property
    def part_names(self) -> tuple[str, ...]:
        """Name this number."""
        return (self.counts,)

    def to_json(self) -> dict[str, Any]:
        """Write it as JSON values; what is None is left out."""
        told = {"column": self.column, "values": self.values}
        known = {key: value for key, value in told.items() if value is not None}
        bound = {} if self.most_cells is None else {"most_cells": self.most_cells}
        return {"counts": self.counts, **known, "declared_cells": self.declared_cells, **bound}


def distinct_key(column: str | None) -> str:
    """Return what the draw of a distinct count is found by; None names that of units."""
    return f"{UNITS}\x1f" if column is None else f"{DISTINCT}\x1f{column}"


def distinct_count(
    column: str, domain: DeclaredDomain, *, declared_cells: bool, most_cells: int | None = None
) -> DistinctCount:
    """Return the distinct count of a column: of at most as many values as its domain declares."""
    if isinstance(domain, TextDomain):
        return DistinctCount(column, None, declared_cells, most_cells)
    if domain.value_bounds is not None:
        return DistinctCount(column, number_lattice(column, domain).width + 1, declared_cells, most_cells)
    return DistinctCount(column, len(domain.labels) - (domain.nulls.policy == "category"), declared_cells, most_cells)


def number_lattice(column: str, domain: DeclaredDomain) -> ValueLattice:
    """Return the lattice on which the numbers of a column are told apart: that of its bounds.

    Raises:
        ValueError: the column has no bounds.
    """
    if domain.value_bounds is None:
        raise ValueError(f"column {column} has no bounds")
    low, high = domain.value_bounds
    step = usual_step(low, high, decimals=domain.decimals)
    return ValueLattice(column, low, high, step, domain.nulls.policy == "category")


def encoded_beside(column: str, domain: DeclaredDomain) -> ValueLattice | KeyColumn | None:
    """Return what of a column is encoded beside its codes, so that values can be told apart; None where codes do."""
    if isinstance(domain, TextDomain):
        return KeyColumn(column)
    return None if domain.value_bounds is None else number_lattice(column, domain)


def distinct_problems(counted: DistinctCount, rows_per_unit: int) -> Iterator[Problem]:
    """Yield what is wrong with a distinct count, whatever the contract: no values, or more than there can be."""
    if counted.column is None and counted.values is not None:
        yield Problem("a number of values of privacy units", "units alone")
    if counted.values is not None and not 1 <= counted.values <= WIDEST + 1:
        yield Problem(f"{counted.values:,} values", f"1 to {WIDEST + 1:,} values")
    if rows_per_unit > WIDEST:
        yield Problem(f"{rows_per_unit:,} rows of a unit", f"at most {WIDEST:,}")


def column_problems(column: str, domain: DeclaredDomain) -> Iterator[Problem]:
    """Yield why the values of a column cannot be told apart: a picture, or numbers of too fine steps."""
    if domain.shape:
        remedy = "write a column of single values"
        yield Problem(f"{column!r}, a column of pictures", "columns of single values", remedy)
    elif not isinstance(domain, TextDomain) and domain.value_bounds is not None:
        lattice = number_lattice(column, domain)
        for problem in lattice_problems(lattice.low, lattice.high, lattice.step, 1):
            remedy = f"narrow its bounds, or declare it as texts: kind text, max_bytes up to {LONGEST_KEY}"
            yield Problem(f"{column!r}: {problem.found}", problem.allowed, remedy)


# --- Histograms of magnitudes over the lattice of a column, and the narrower lattices that a clip found in one has.


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


@dataclass(frozen=True)
class WeightedCount:
    """The rows of a cell, each counted as often as its survey weight says: one number a cell, the sum of the weights.

    Args:
        weight: the lattice of the weight, which starts at 0.
    """

    weight: ValueLattice

    @property
    def column(self) -> str:
        """The column of the weight."""
        return self.weight.column

    @property
    def key(self) -> str:
        """What its draw is found by among those of a table; no column has this name."""
        return f"count\x1f{self.column}"

    @property
    def lattice(self) -> ValueLattice:
        """The lattice of the weight."""
        return self.weight

    @property
    def parts(self) -> int:
        """Numbers that are added up for each cell."""
        return 1

    @property
    def part_names(self) -> tuple[str, ...]:
        """Name this number."""
        return ("weight",)

    @property
    def row_moves(self) -> tuple[int, ...]:
        """By how much a row moves the number of its cell at most: by the largest weight."""
        return (self.weight.width,)

    @property
    def weight_step(self) -> Decimal:
        """What one step of the weight is."""
        return self.weight.step

    def to_json(self) -> dict[str, Any]:
        """Write it as JSON values."""
        return {**self.weight.to_json(), "counts_rows": True}


Summands = (
    ValueLattice | NarrowedLattice | LoneSum | ValueMoments | ValueTree | BinTree | ValueMagnitudes | WeightedCount
)
"""What is added up by cell over a lattice, row by row."""
Addends = Summands | DistinctCount
"""What is added up, or counted, by cell."""


def addend_problems(addends: Addends, rows_per_unit: int) -> list[Problem]:
    """List what is wrong with the lattices of addends, weights included, or with the steps of a unit together."""
    if isinstance(addends, DistinctCount):
        return list(distinct_problems(addends, rows_per_unit))
    lattice = addends.lattice
    problems = lattice_problems(lattice.low, lattice.high, lattice.step, rows_per_unit)
    if isinstance(addends, LoneSum | ValueMoments) and not problems:
        problems = form_problems(addends, rows_per_unit)
    if isinstance(addends, BinTree) and not problems:
        problems = cut_problems(addends)
    if isinstance(addends, ValueMagnitudes) and lattice.weight is not None:
        problems = [Problem("magnitudes of weighed rows", "rows that count once")]
    weight = addends.weight if isinstance(addends, WeightedCount) else lattice.weight
    return problems if weight is None or problems else weighted_problems(addends, weight, rows_per_unit)


def weighted_problems(addends: Summands, weight: ValueLattice, rows_per_unit: int) -> list[Problem]:
    """List what is wrong with a weight: it starts elsewhere than at 0, or has too many steps with those of values."""
    if weight.low != 0 or weight.weight is not None:
        found = f"a weight from {plain_text(weight.low)}"
        return [Problem(found, "a weight that starts at 0", "write clip: [0, LARGEST WEIGHT]", ("survey_weight",))]
    problems = lattice_problems(weight.low, weight.high, weight.step, rows_per_unit)
    most = max(addends.row_moves) * rows_per_unit
    if problems or most <= WIDEST:
        return [Problem(each.found, each.allowed, each.remedy, ("survey_weight", *each.at)) for each in problems]
    lattice = addends.lattice
    found = f"{lattice.width:,} steps of {plain_text(lattice.step)}, times a weight of {weight.width:,} steps"
    found += f", times {rows_per_unit:,} rows" if rows_per_unit > 1 else ""
    least = plain_text(coarser_step(lattice.low, lattice.high, weight.width * rows_per_unit))
    remedy = (
        f"write `step:` {least} or more beside {lattice.column!r}, or a lower clip or a larger step of the weight"
    )
    return [Problem(found, f"at most {WIDEST:,} steps of all rows of a unit together", remedy, ("step",))]
