"""Exact sums of a column in every cell of a marginal, as an opaque handle: a grant alone opens it.

For sums the handle has two or three whole numbers a cell [steps of the lattice, `contracts.domains.lattice`]:

    above     of rows with a value, the sum of the steps from the lower bound up to it
    below     of rows with a value, the sum of the steps from it up to the upper bound
    missing   of rows without one, `width` steps each; where missing values are counted apart

One row hands out `width` steps in all, so that counts, sums and means of a column come of one draw. A sum alone has
one number a cell, and moments three or four, of which a row hands out `whole` steps (`contracts.domains.addends`).
With a survey weight it hands out each of its steps as often as its weight says [steps, times steps of the weight].

For quantiles it has the counts of all nodes of a tree (`contracts.domains.trees`) [rows]. A row with a value
is in one node of each level; one without is counted once, beside the nodes. Rows that are weighed count as often as
their weight says, here and where nothing but rows is counted (`contracts.domains.addends`) [steps of the weight]. For
a clip that a run finds it has the counts of a histogram of magnitudes (`contracts.domains.addends`) [rows].
A distinct count has one number a cell (`contracts.domains.addends`) [values, or units].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from contracts.contract.contract import Adjacency
from contracts.contract.impossible_cells import Clique
from contracts.domains.addends import Addends, DistinctCount, LoneSum
from privacy.accounting.events import CountNoise
from privacy.marginals.sensitivity import Noise, distinct_moves, marginal_moves, moved_noise


@dataclass(frozen=True, repr=False, eq=False)
class PrivateCellSums:
    """The exact sums, moments or tree of counts of a column by the cells of a clique; not to be seen.

    Args:
        clique: the columns that rows are grouped by; empty for one sum over all rows.
        shape: cells along each of them.
        addends: the column with its lattice, or with a tree over it; or the weight by which rows are counted.
        keyed_hash: private hash of the snapshot that is read.
        contract_digest: digest of the contract that encoded it.
    """

    clique: Clique
    shape: tuple[int, ...]
    addends: Addends
    keyed_hash: str
    contract_digest: str
    _sum: Callable[[Addends], NDArray[np.int64]]

    def _read(self) -> NDArray[np.int64]:
        """Return the exact numbers of its own lattice, which its price is derived of; a grant alone calls this."""
        return self._sum(self.addends)

    def __repr__(self) -> str:
        """Show what is added up only."""
        counted = self.addends.column or self.addends.part_names[0]
        return f"PrivateCellSums({counted} by {'×'.join(self.clique) or 'nothing'})"

    def __reduce__(self) -> NoReturn:
        """Refuse pickling: exact sums stay in this process."""
        raise TypeError("PrivateCellSums cannot be pickled: exact sums stay in this process")


def cell_sum_event(
    noise: Noise, addends: Addends, *, adjacency: Adjacency, rows_per_unit: int, cells: int | None = None
) -> CountNoise:
    """Return the event of adding `noise` to all numbers of all cells.

    Of sums it is that of a marginal whose rows weigh `width`: one row moves up to three numbers of one cell by
    `width` steps together, and no such change is worse than one number that moves by all of them
    (docs/derivations.md, section 2). Of moments it is the same with `whole`. Of a sum alone one row moves one number
    by at most `reach` steps, up or down; with a quota all rows of a unit together move all numbers by no more
    than that, as one row does that weighs as much.

    Of a tree it is that of a marginal for each level, with one noise: the nodes of a level are the cells of a
    marginal, whose worst change is known. A row without a value moves a number that no other row of its cell moves,
    as if the first level had one more node, and nothing of the other levels. A row of weight w moves each of its
    numbers w times as far, so that a move is times the largest weight. Of magnitudes it is that of a marginal whose
    cells are the bins.

    Of a distinct count, `cells` of the handle bound in how many of them the rows of one unit lie, where all of them
    are declared; where a unit's keys are bounded, it says itself. Else every row may lie in another one, which is the
    worse case.
    """
    if isinstance(addends, DistinctCount):
        bound = {
            "most_per_cell": addends.most_per_unit,
            "cells": cells if addends.declared_cells else addends.most_cells,
        }
        return moved_noise(noise, distinct_moves(adjacency, rows_per_unit, **bound))
    if isinstance(addends, LoneSum):
        most = addends.reach * rows_per_unit if addends.quota is None else addends.quota
        alone = marginal_moves(adjacency, most)
        # Of both signs, an old row and a new one may move one number the same way.
        return moved_noise(noise, (sum(alone),) if addends.both_signs else alone)
    moves = marginal_moves(adjacency, rows_per_unit)
    return moved_noise(noise, tuple(move * each for each in addends.row_moves for move in moves))
