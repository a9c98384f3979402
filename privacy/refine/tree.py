"""Refinement of a table that was measured at several resolutions: all levels add up, no count is below zero."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.release.tables.levels import levels_of, parents
from contracts.release.tables.product import TableSpec
from privacy.accounting.events import CountNoise
from privacy.arrays import Numbers
from privacy.marginals.uncertainty import variance
from privacy.refine.hierarchy import Parents, consistent_variances, make_consistent, project_tree, round_tree
from privacy.refine.intervals import refined_intervals
from privacy.refine.tables import NO_SUM, Coarser, Refined


@dataclass(frozen=True)
class MeasuredTree:
    """The noisy counts of a table at all its resolutions, coarsest first, the table itself last.

    Args:
        noisy: noisy counts of each level, in its shape [units].
        impossible: of each level, the cells that cannot hold anybody.
        events: the noise of each level.
        parents: for each level but the first, the row-major number of the cell above.
    """

    noisy: Sequence[NDArray[np.int64]]
    impossible: Sequence[NDArray[np.bool_]]
    events: Sequence[CountNoise]
    parents: Parents


def measured_tree(
    table: TableSpec, contract: Contract, noisy: Sequence[NDArray[np.int64]], events: Sequence[CountNoise]
) -> MeasuredTree:
    """Put together what was measured of a table with a hierarchy.

    Args:
        table: the table.
        contract: its contract.
        noisy: noisy counts of its levels, coarsest first, and then its own; any shape [units].
        events: their noise.
    Raises:
        ValueError: other numbers of counts than the levels have cells.
    """
    levels = levels_of(table, contract)
    impossible = [*(level.impossible(table.columns) for level in levels), contract.impossible(table.columns)]
    shaped = [values.reshape(mask.shape) for values, mask in zip(noisy, impossible, strict=True)]
    return MeasuredTree(shaped, impossible, tuple(events), parents(levels, table, contract))


def refine_tree(tree: MeasuredTree, *, total: int | None, integers: bool) -> Refined:
    """Make the levels of a table consistent by weighted least squares, then non-negative and whole from the top down.

    Structural zeros, and coarser cells of which they are all, are zero and take no part.

    Args:
        tree: what was measured.
        total: sum that is kept, noisy or declared public; a negative one becomes 0 with a note. None to add up to
            what the levels themselves estimate, to the nearest whole number [units].
        integers: whole counts, by largest remainders within each parent.
    Returns:
        Refined: the table, and under `coarser` its levels, coarsest first.
    Raises:
        ValueError: the levels do not partition each other, or there is no possible cell while the total is positive.
    Privacy: post-processing; deterministic.
    Source: Hay, Rastogi, Miklau, Suciu 2010 (consistency); rounding from the top down as in `round_tree`.
    """
    possible = [~mask.reshape(-1) for mask in tree.impossible]
    noisy = [values.reshape(-1)[kept] for values, kept in zip(tree.noisy, possible, strict=True)]
    above = _among_possible(tree.parents, possible)
    # A total below zero is no total of counts: it is set to 0, with a note.
    known = None if total is None else max(total, 0)
    estimates = make_consistent(noisy, [variance(event) for event in tree.events], above, total=known)
    # Without a given total the table adds up to the levels' own estimate, rounded.
    reached = round(float(estimates[0].sum())) if known is None else known
    notes = (NO_SUM,) if (reached if total is None else total) < 0 else ()
    finish = round_tree if integers else project_tree
    counts = finish(estimates, above, total=max(reached, 0))
    tables = list(map(_whole_table, counts, possible, tree.noisy))
    # The last level is the table itself; those before it are its coarser resolutions.
    *coarser, finest = [
        Coarser(table, refined_intervals(values, table, event, impossible=mask))
        for table, values, event, mask in zip(tables, tree.noisy, tree.events, tree.impossible, strict=True)
    ]
    ends = finest.intervals
    return Refined(finest.values, max(reached, 0), notes, "hierarchy", None, None, {}, ends, coarser=tuple(coarser))


def expected_variances(sizes: Sequence[int], variances: Sequence[float], *, total_known: bool) -> tuple[float, ...]:
    """Return the error variance of a cell of each level after consistency, for a tree with equal families [units²].

    Making counts non-negative and whole comes after that, and mostly makes it less.
    """
    return tuple(map(float, consistent_variances(sizes, np.array(variances), total_known)))


def _among_possible(parents: Parents, possible: Sequence[NDArray[np.bool_]]) -> list[NDArray[np.int64]]:
    """Number the parents among the possible cells only."""
    # The running number of possible cells is the new number of each.
    numbers = [np.cumsum(kept) - 1 for kept in possible]
    return [
        number[parent[kept]].astype(np.int64)
        for parent, number, (_, kept) in zip(parents, numbers[:-1], pairwise(possible), strict=True)
    ]


def _whole_table(counts: Numbers, possible: NDArray[np.bool_], like: NDArray[np.int64]) -> NDArray[Any]:
    """Put one count for each possible cell back into its level, with 0 elsewhere."""
    table: NDArray[Any] = np.zeros(possible.size, dtype=counts.dtype)
    table[possible] = counts
    return table.reshape(like.shape)
