"""Trees of counts whose leaves lie inside the declared bins of a column: what rows are counted by, to decode bins.

The offsets of a lattice (`value_lattices`) are cut where a bin begins. Inside a bin leaves have one length, but for
the last; there are about `MOST_LEAVES` in all. Where that many values or fewer are declared, each value has a leaf of
its own. The two bounds have leaves of their own, since values outside count as these; and so has 0, since many
amounts are 0. The cuts follow from the declared domain alone.

Levels and fan-out make `(fan_out - 1) * levels ** 2` least: with Gaussian noise the variance of a level's numbers is
in proportion to the number of levels, not to its square as with Laplace noise, so more of them are better. For
Laplace noise such a tree is as good as one for quantiles (docs/derivations.md, "Counts inside bins").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from itertools import pairwise
from typing import Any, Final

from contracts.domains.bins import ExactNumber
from contracts.domains.domain import DeclaredDomain
from contracts.domains.value_lattices import ValueLattice, lattice_problems, offset_of, usual_step
from contracts.domains.value_trees import CountTree, tree_forms
from contracts.reading.scalars import Problem

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
        return _form(self.leaves)

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
def _form(leaves: int) -> tuple[int, int]:
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
