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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache, cached_property
from itertools import pairwise
from typing import Any, Final

from contracts.domains.bins import ExactNumber
from contracts.domains.domain import DeclaredDomain
from contracts.domains.lattice import LatticeForm, ValueLattice, lattice_problems, offset_of, usual_step
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


# --- Trees of counts whose leaves lie inside the declared bins of a column.


MOST_LEAVES: Final = 1024
"""Leaves that the bins of a column share out; each bin has at least one."""
MOST_BINS: Final = 4096
"""Columns of more bins are decoded uniformly: their bins are narrow, and each would be a leaf."""
FEWEST_JOINED: Final = 3
"""Columns of fewer bins keep them."""


@dataclass(frozen=True)
class BinTree(CountTree):
    """A tree of counts over leaves that lie inside bins.

    Args:
        lattice: the lattice whose offsets are counted.
        cuts: the first offset of each leaf, rising from 0.
    """

    cuts: tuple[int, ...]

    @property
    def key(self) -> str:
        """What its draw is found by; no column has this name, since it has a control character."""
        return f"bins\x1f{self.column}"

    @property
    def leaves(self) -> int:
        """Leaves that hold all offsets from 0 to width."""
        return len(self.cuts)

    @property
    def form(self) -> tuple[int, int]:
        """Levels and fan-out."""
        return _cheapest_form(self.leaves)

    def first(self, leaf: int) -> int:
        """Return the smallest offset in a leaf."""
        return self.cuts[leaf]

    def to_json(self) -> dict[str, Any]:
        """Write it as JSON values."""
        return {**self.lattice.to_json(), "cuts": list(self.cuts)}


def bin_tree(column: str, domain: DeclaredDomain, rows_per_unit: int, *, joins: bool = False) -> BinTree | None:
    """Return the tree whose leaves lie inside the bins of a column.

    Args:
        column: the column.
        domain: its declared domain.
        rows_per_unit: rows of one privacy unit.
        joins: whether neighbouring bins may be joined: then bins of one value each are counted too, from three on.
    Returns:
        BinTree | None: None where no bin holds two values of the lattice, where values are no numbers or days in
            bins, or where the lattice has more steps than can be counted on.
    """
    bounds = domain.lattice_bounds
    if bounds is None or not domain.ordered or len(domain.axis) > MOST_BINS:
        return None
    step = usual_step(*bounds, decimals=domain.decimals)
    if lattice_problems(*bounds, step, rows_per_unit):
        return None
    lattice = ValueLattice(column, *bounds, step, domain.nulls.policy == "category")
    starts = [offset_of(lattice, Decimal(low)) for low, _ in domain.axis]
    if len(starts) < FEWEST_JOINED if joins else lattice.width + 1 <= len(starts):
        return None
    return BinTree(lattice, _cuts(lattice, starts))


def cut_problems(tree: BinTree) -> list[Problem]:
    """List what is wrong with cuts: they do not rise from 0, or reach beyond the lattice."""
    cuts = tree.cuts
    rising = all(one < other for one, other in pairwise(cuts))
    if not cuts or cuts[0] != 0 or not rising or cuts[-1] > tree.lattice.width:
        return [Problem("cuts out of order", f"offsets that rise from 0, at most {tree.lattice.width}")]
    if len(cuts) > MOST_LEAVES + 2 * MOST_BINS:
        return [Problem(f"{len(cuts)} leaves", f"at most {MOST_LEAVES + 2 * MOST_BINS}")]
    return []


@cache
def _cheapest_form(leaves: int) -> tuple[int, int]:
    """Return levels and fan-out for so many leaves; of two forms that are as good, that of more levels."""
    return min(tree_forms(leaves), key=lambda form: (max(1, form[1] - 1) * form[0] ** 2, -form[0]))


def _cuts(lattice: ValueLattice, starts: Sequence[int]) -> tuple[int, ...]:
    """Cut bins that begin at some offsets into leaves."""
    width = lattice.width
    if width < MOST_LEAVES:
        return tuple(range(width + 1))
    share = max(1, MOST_LEAVES // len(starts))
    cuts: set[int] = set()
    for first, after in pairwise([*starts, width + 1]):
        # At most `share` leaves of one whole length; the last may be shorter.
        cuts |= set(range(first, after, -(-(after - first) // share)))
    zero = offset_of(lattice, Decimal(0)) if lattice.low < 0 < lattice.high else 0
    for alone in (0, zero, width):
        cuts |= {alone, alone + 1}
    return tuple(sorted(each for each in cuts if each <= width))


def bin_ends(axis: Sequence[tuple[ExactNumber, ExactNumber]], tree: BinTree) -> tuple[int, ...]:
    """Return the first leaf of each bin, and after them the number of leaves.

    Raises:
        ValueError: a bin begins inside a leaf.
    """
    place = {offset: leaf for leaf, offset in enumerate(tree.cuts)}
    starts = [place.get(offset_of(tree.lattice, Decimal(low))) for low, _ in axis]
    if None in starts:
        raise ValueError(f"{tree.column}: a bin that begins inside a leaf")
    return (*(each for each in starts if each is not None), tree.leaves)


# --- Quantiles that are chosen by the exponential mechanism.


CHOICE: Final = "choice"
_TEN: Final = 10


@dataclass(frozen=True)
class QuantileChoices(LatticeForm):
    """Quantiles of a column that are chosen by the exponential mechanism, in each cell.

    Args:
        lattice: the lattice whose offsets are the candidates.
        shares: the quantiles, ascending, each in (0, 1) and once.
    """

    shares: tuple[Decimal, ...]

    @property
    def key(self) -> str:
        """What its draw is found by among those of a table."""
        return choice_key(self.column)

    @property
    def key_name(self) -> str:
        """The end of its draw's name."""
        return f"{CHOICE}/{self.column}"

    @property
    def parts(self) -> int:
        """Numbers of a cell: one offset for each quantile."""
        return len(self.shares)

    @property
    def part_names(self) -> tuple[str, ...]:
        """Name each of these numbers."""
        return tuple(f"q{plain_text(100 * share)}" for share in self.shares)

    @cached_property
    def order(self) -> tuple[tuple[int, int | None, int | None], ...]:
        """In which order quantiles are chosen: each with those between which it lies, all by their place."""
        return tuple(_order(0, len(self.shares), None, None))

    def rate_share(self, place: int) -> Fraction:
        """Return the rate of a quantile over c: 1 / (2 max(p, 1 - p)) [1 / rows]."""
        share = Fraction(self.shares[place])
        return 1 / (2 * max(share, 1 - share))

    @cached_property
    def loss_factor(self) -> Fraction:
        """Return what one row costs over all quantiles of its cell, over c.

        A row between two neighbouring quantiles lies in the ranges of some, each of which costs 1, and outside of
        those of the others: 2 p times their rate share where it lies above, 2 (1 - p) where below. A row at a
        quantile lies in no more ranges than one beside it.
        """
        return max(self._loss(gap) for gap in range(len(self.shares) + 1))

    def _loss(self, gap: int) -> Fraction:
        """Return what a row costs that lies above so many of the quantiles."""
        total = Fraction(0)
        for place, below, above in self.order:
            share = Fraction(self.shares[place])
            if below is not None and gap <= below:
                total += 2 * (1 - share) * self.rate_share(place)
            elif above is not None and gap > above:
                total += 2 * share * self.rate_share(place)
            else:
                total += 1
        return total

    @cached_property
    def scales(self) -> tuple[int, ...]:
        """Powers of ten up to the width; a multiple of each, counted in steps, weighs as much more."""
        scales = [1]
        while scales[-1] * _TEN <= self.lattice.width:
            scales.append(scales[-1] * _TEN)
        return tuple(scales)

    @cached_property
    def origin(self) -> int:
        """The number of steps from 0 to the lower end of the clip; 0 where that is no whole number."""
        steps = Fraction(self.lattice.low) / Fraction(self.lattice.step)
        return int(steps) if steps.denominator == 1 else 0

    def to_json(self) -> dict[str, Any]:
        """Write it as JSON values."""
        return {**self.lattice.to_json(), "quantiles": [plain_text(share) for share in self.shares]}


def choice_key(column: str) -> str:
    """Return what the choices of a column are found by; no column has this name, since it has a control character."""
    return f"{CHOICE}\x1f{column}"


def _order(
    start: int, end: int, below: int | None, above: int | None
) -> Iterator[tuple[int, int | None, int | None]]:
    """Yield the middle of some quantiles, then those below it and those above it."""
    if start < end:
        middle = (start + end) // 2
        yield middle, below, above
        yield from _order(start, middle, below, middle)
        yield from _order(middle + 1, end, middle, above)
