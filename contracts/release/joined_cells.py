"""Cells of a contract some of whose neighbouring bins are joined: `bins: private` of synthetic rows.

A release says of each column, by the place of its first bin, where each joined bin begins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from contracts.contract.contract import Contract
from contracts.release.tables.hierarchy import joined_axis, untouched
from contracts.release.tables.levels import BINS, Level


def joined_cells(clique: Sequence[str], joins: Mapping[str, Sequence[int]], contract: Contract) -> Level:
    """Return the cells of a clique, seen like a contract's.

    Args:
        clique: the columns.
        joins: the first bin of each joined one, of those columns that have such.
        contract: declares the cells.
    """
    columns = [contract.column(name) for name in clique]
    axes = tuple(joined_axis(each, joins[each.name]) if each.name in joins else untouched(each) for each in columns)
    return Level(BINS, tuple(clique), axes, contract)


def joins_fit(joins: Mapping[str, Sequence[int]], clique: Sequence[str], contract: Contract) -> bool:
    """Tell whether joined bins begin at 0 and rise, in columns of the clique whose values are in bins."""
    for name, firsts in joins.items():
        bins = len(contract.column(name).domain.axis) if name in clique and contract.column(name).ordered else 0
        rising = all(first < other for first, other in pairwise(firsts))
        if not firsts or firsts[0] != 0 or not rising or firsts[-1] >= bins:
            return False
    return True
