"""Trees of counts over the lattice of a column, for quantiles: what is counted for each cell.

The offsets of a lattice (`value_lattices`), 0 to width, are cut into leaves. 0 and width have leaves of
their own: many rows may have them, since values outside the clip count as its ends. Between them each leaf has
`resolution / step` offsets; the last of these may be shorter. A node of level l counts the rows of
`fan_out ** (levels - l)` leaves, so that level 1 is the coarsest and the last level has the leaves. A row with a
value is counted once in each level, and a row without one once beside them all; with a survey weight, as often as
its weight says.

Levels and fan-out follow from the number of leaves: they make `fan_out * levels ** 3` least, to which the variance of
a noisy rank is close (each of `levels` levels gives about `fan_out` nodes of variance 2 (levels / epsilon)^2).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache, cached_property
from typing import Any, Final

from contracts.domains.lattice_form import LatticeForm
from contracts.domains.value_lattices import ValueLattice
from contracts.reading.scalars import Problem, plain_decimal, plain_text

USUAL_LEAVES: Final = 1024
MOST_NUMBERS: Final = 2**24
"""Numbers of a tree over all cells."""
MOST_LEVELS: Final = 8
"""More than a tree of `MOST_NUMBERS` has."""


class CountTree(LatticeForm, ABC):
    """Counts of rows in leaves that cut a lattice, and in nodes above these, level by level.

    Each offset is in one leaf, so that a row with a value is counted once in each level.
    """

    @property
    @abstractmethod
    def leaves(self) -> int:
        """Leaves that hold all offsets from 0 to width."""

    @abstractmethod
    def first(self, leaf: int) -> int:
        """Return the smallest offset in a leaf."""

    def last(self, leaf: int) -> int:
        """Return the largest offset in a leaf."""
        return self.first(leaf + 1) - 1 if leaf < self.leaves - 1 else self.lattice.width

    @property
    def form(self) -> tuple[int, int]:
        """Levels and fan-out, which follow from the number of leaves."""
        return _form(self.leaves)

    @property
    def levels(self) -> int:
        """Levels below the root, which is not counted."""
        return self.form[0]

    @property
    def fan_out(self) -> int:
        """Children of a node; the last node of a level may have fewer."""
        return self.form[1]

    @property
    def level_leaves(self) -> tuple[int, ...]:
        """Leaves of a node, by level."""
        levels, fan_out = self.form
        return tuple(int(fan_out ** (levels - level)) for level in range(1, levels + 1))

    @property
    def level_nodes(self) -> tuple[int, ...]:
        """Nodes of each level."""
        return tuple(-(-self.leaves // each) for each in self.level_leaves)

    @property
    def parts(self) -> int:
        """Numbers of a cell: all nodes level by level, then the rows without a value."""
        return sum(self.level_nodes) + self.lattice.counts_missing

    @cached_property
    def part_names(self) -> tuple[str, ...]:
        """Name each number of a cell: the level and the interval of a node, both ends within it."""
        names, leaves = [], range(self.leaves)
        ends = [(self._value(self.first(leaf)), self._value(self.last(leaf))) for leaf in leaves]
        for level, size in enumerate(self.level_leaves, 1):
            starts = range(0, self.leaves, size)
            names += [f"{level}: {ends[leaf][0]} to {ends[leaves[leaf:][:size][-1]][1]}" for leaf in starts]
        return (*names, "missing") if self.lattice.counts_missing else tuple(names)

    @property
    def row_moves(self) -> tuple[int, ...]:
        """By how much a row moves the numbers of its cell at most: one of each level by its weight."""
        return (self.lattice.most_weight,) * self.levels

    def _value(self, offset: int) -> str:
        return plain_text(self.lattice.low + offset * self.lattice.step)


@dataclass(frozen=True)
class ValueTree(CountTree):
    """A tree of counts over the lattice of a column, of leaves of one length.

    Args:
        lattice: the lattice whose offsets are counted.
        resolution: the length of a leaf, a multiple of the lattice's step [the column's units].
    """

    resolution: Decimal

    @property
    def key(self) -> str:
        """What its draw is found by among those of a table."""
        return tree_key(self.column)

    @cached_property
    def leaf_steps(self) -> int:
        """Steps of the lattice in a leaf."""
        return int(Fraction(self.resolution) / Fraction(self.lattice.step))

    @cached_property
    def leaves(self) -> int:
        """Leaves that hold all offsets from 0 to width."""
        return 2 - (1 - self.lattice.width) // self.leaf_steps

    def first(self, leaf: int) -> int:
        """Return the smallest offset in a leaf."""
        # The last but one may be shorter.
        if leaf == self.leaves - 1:
            return self.lattice.width
        return 0 if leaf == 0 else (leaf - 1) * self.leaf_steps + 1

    def to_json(self) -> dict[str, Any]:
        """Write it as JSON values."""
        return {**self.lattice.to_json(), "resolution": plain_text(self.resolution)}


def tree_key(column: str) -> str:
    """Return what the tree of a column is found by; no column has this name, since it has a control character."""
    return f"quantiles\x1f{column}"


@cache
def _form(leaves: int) -> tuple[int, int]:
    """Return levels and fan-out for so many leaves."""
    return min(tree_forms(leaves), key=lambda form: (form[1] * form[0] ** 3, form[0]))


def tree_forms(leaves: int) -> list[tuple[int, int]]:
    """Return the least fan-out that so many leaves need, with each number of levels before it."""
    return [(levels, _root_up(leaves, levels)) for levels in range(1, MOST_LEVELS + 1)]


def _root_up(number: int, degree: int) -> int:
    """Return the least whole number whose power is not below another."""
    root: int = max(1, round(number ** (1 / degree)) - 1)
    while root**degree < number:
        root += 1
    return root


def usual_resolution(lattice: ValueLattice) -> Decimal:
    """Return the resolution where none is declared: the range / 1024, rounded up to a multiple of the step."""
    return plain_decimal(-(-lattice.width // USUAL_LEAVES) * lattice.step)


def resolution_problems(tree: ValueTree, cells: int) -> list[Problem]:
    """List what is wrong with a resolution: no multiple of the step, not below the range, or too many numbers."""
    lattice, at = tree.lattice, ("resolution",)
    steps = Fraction(tree.resolution) / Fraction(lattice.step)
    if steps.denominator != 1 or steps < 1:
        found, allowed = f"a resolution of {tree.resolution}", f"a multiple of the step, {plain_text(lattice.step)}"
        return [Problem(found, allowed, "write such a multiple, or a finer `step:`", at)]
    if steps > lattice.width:
        found = f"a resolution of {tree.resolution} from {lattice.low} to {lattice.high}"
        return [Problem(found, "at most the length of the clip", "write a smaller one", at)]
    # Parts are at least the leaves: a tree that is far too large is not built up.
    if tree.leaves * cells > MOST_NUMBERS or tree.parts * cells > MOST_NUMBERS:
        found = f"{tree.leaves:,} intervals of {tree.resolution} in {cells:,} cells, with those above them"
        remedy = "write a larger `resolution:`, or group by fewer cells"
        return [Problem(found, f"at most {MOST_NUMBERS:,} numbers", remedy, at)]
    return []
