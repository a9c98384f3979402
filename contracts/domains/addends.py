"""Addends: what is added up, or counted, for each cell.

Values on a lattice, their moments, counts in a tree or inside bins, weights alone, or how many different values or
units there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from contracts.domains.distinct_counts import DistinctCount, distinct_problems
from contracts.domains.value_bins import BinTree, cut_problems
from contracts.domains.value_lattices import WIDEST, ValueLattice, coarser_step, lattice_problems
from contracts.domains.value_magnitudes import NarrowedLattice, ValueMagnitudes
from contracts.domains.value_sums import LoneSum, ValueMoments, form_problems
from contracts.domains.value_trees import ValueTree
from contracts.reading.scalars import Problem, plain_text


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
