"""Tables that ask ranges of ordered columns, and what each residual of the other columns adds to their variances.

Where (one letter each)
    B   a table: plain columns, each cell by itself, and for each ordered column the ranges that it asks
    A   a set of plain columns: the residual of A is measured together with the ordered columns that some table
        with all of A asks; these are resolved, the others are added up
    W   ranges by cells, 0 and 1: one row for each combination of ranges of the resolved columns
    d   cells of a plain column          p   Π_A (1 - 1/d)          f   `cost_factor` of A
    ω   weight of one cell of B and one combination of ranges
    G   of A:  Σ_{B ⊇ A} (Π_A d / Π_{B∖A} d) Wᵀ diag(ω) W
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import Final

import numpy as np

from contracts.contract.contract import Adjacency
from contracts.contract.impossible_cells import Clique
from privacy.arrays import Floats
from privacy.marginals.errors import TooManyRanges
from privacy.marginals.residual_shares import MOST_RESIDUALS, TooManyResiduals, cost_factor, subsets

MOST_CELLS: Final = 256
"""Cells of the ordered columns that one residual resolves together."""
MOST_ENTRIES: Final = 1 << 24
"""Ranges times cells of one table."""
Ranges = tuple[tuple[int, int], ...]
"""First and last cell of each range, both included."""


@dataclass(frozen=True)
class RangeTable:
    """A table of the workload.

    Args:
        columns: its plain columns.
        ranges: of each of its ordered columns, by name.
        weight: of its variances, > 0.
    """

    columns: Clique
    ranges: tuple[tuple[str, Ranges], ...]
    weight: Fraction

    @property
    def asked(self) -> Mapping[str, Ranges]:
        """The ranges of each ordered column."""
        return dict(self.ranges)


@dataclass(frozen=True)
class RangeResidual:
    """A set of plain columns with the ordered columns that it resolves: A of the module."""

    columns: Clique
    shape: tuple[int, ...]
    resolved: Clique
    sizes: tuple[int, ...]

    @property
    def cells(self) -> int:
        """Cells of the resolved columns together."""
        return prod(self.sizes)

    @property
    def spread(self) -> float:
        """Return p."""
        return prod(((cells - 1) / cells for cells in map(float, self.shape)), start=1.0)

    def factor(self, adjacency: Adjacency) -> Fraction:
        """Return f; rows of two cells of ordered columns may lie twice as far apart as one from none."""
        if adjacency == "replace_one" and not self.columns and self.resolved:
            return Fraction(2)
        return cost_factor(self.shape, adjacency)


@dataclass(frozen=True)
class RangeWorkload:
    """Tables over plain and ordered columns.

    Args:
        plain: cells of each plain column, by name, in the contract's order.
        ordered: cells of each ordered column.
        tables: what is asked.
    """

    plain: tuple[tuple[str, int], ...]
    ordered: tuple[tuple[str, int], ...]
    tables: tuple[RangeTable, ...]

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        """Cells of each column."""
        return dict((*self.plain, *self.ordered))

    def wide(self, table: RangeTable) -> Clique:
        """Return the plain columns of a table that have more than one cell; the others tell nothing."""
        return tuple(name for name, cells in self.plain if name in table.columns and cells > 1)

    @cached_property
    def residuals(self) -> tuple[RangeResidual, ...]:
        """What is measured, few columns first.

        Raises:
            TooManyResiduals, TooManyRanges: tables that are too wide.
        """
        if sum(1 << len(self.wide(table)) for table in self.tables) > MOST_RESIDUALS:
            raise TooManyResiduals
        asked: dict[Clique, list[frozenset[str]]] = {}
        for table in self.tables:
            for columns in subsets(self.wide(table)):
                asked.setdefault(columns, []).append(frozenset(table.asked))
        place = {name: number for number, name in enumerate(self.sizes)}
        found = []
        for columns in sorted(asked, key=lambda each: (len(each), [place[name] for name in each])):
            resolved = frozenset[str]().union(*asked[columns])
            named = tuple(name for name, _ in self.ordered if name in resolved)
            each = RangeResidual(columns, self._shape(columns), named, self._shape(named))
            if resolved not in asked[columns]:
                raise TooManyRanges(
                    f"queries over {' and over '.join(named)}, and no table with queries over all of them",
                    "columns with queries that stand together in one table",
                    "add a table of all of them, or publish the tables in releases of their own",
                )
            if each.cells > MOST_CELLS:
                raise TooManyRanges(
                    f"queries over {each.cells:,} cells of {' × '.join(named)}",
                    f"at most {MOST_CELLS}",
                    "take wider bins in the contract, or fewer columns with queries",
                )
            found.append(each)
        return tuple(found)

    def _shape(self, columns: Sequence[str]) -> tuple[int, ...]:
        return tuple(self.sizes[name] for name in columns)

    def within(self, table: RangeTable) -> Iterator[RangeResidual]:
        """Yield the residuals of which a table is made."""
        own = set(self.wide(table))
        return (each for each in self.residuals if own.issuperset(each.columns))

    def queries(self, table: RangeTable, resolved: Sequence[str]) -> Floats:
        """Return W of a table over resolved columns, zeros and ones, shape (combinations, cells).

        Raises:
            TooManyRanges: it would have more than 2^24 entries.
        """
        asked = table.asked
        each = [asked.get(name, ((0, self.sizes[name] - 1),)) for name in resolved]
        entries = prod(map(len, each)) * prod(self.sizes[name] for name in resolved)
        if entries > MOST_ENTRIES:
            found, allowed = f"{prod(map(len, each)):,} ranges in a table", f"{MOST_ENTRIES:,} ranges times cells"
            raise TooManyRanges(found, allowed, "ask for `prefix` or `hierarchy`, which are fewer, or wider bins")
        matrix: Floats = np.ones((1, 1))
        for ranges, name in zip(each, resolved, strict=True):
            matrix = np.asarray(np.kron(matrix, indicators(ranges, self.sizes[name])))
        return matrix


def indicators(ranges: Ranges, cells: int) -> Floats:
    """Return ranges as rows of zeros and ones, shape (ranges, cells)."""
    places, ends = np.arange(cells), np.array(ranges)
    inside = (places >= ends[:, :1]) & (places <= ends[:, 1:])
    return inside.astype(np.float64)
