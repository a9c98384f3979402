"""How far down a sparse table is drawn: from public parameters, and from what was drawn before.

The rule is a value, not a function, so that a grant can follow it without showing anybody what is not written down
yet, and a checker can follow it again over the published cells: whoever has all cells at or above the last threshold
has those at or above each threshold before.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Final

import numpy as np

from contracts.contract.cell_codes import ImpossibleCells
from contracts.release.tables.tables import Refine
from privacy.refine.sparse import SparseTable, default_threshold, laplace_excess, next_threshold

FALSE_HITS: Final = 100_000
"""How many empty cells may be expected at or above the first threshold."""
MOST_FALSE_HITS: Final = 2**23
"""How many empty cells may be expected at or above the last one: so many are held in memory, and written."""


@dataclass(frozen=True)
class Depth:
    """Draw down to `first`, then as far as the possible cells need to keep `target`, but not below `least`.

    Args:
        inverse_scale: t of the discrete Laplace noise [1 / unit].
        first: threshold that is drawn in any case, >= 1 [units].
        least: threshold below which nothing is drawn, from 1 to `first` [units].
        target: sum that the cells above theta must keep, >= 0; None where nothing needs theta [units].
        impossible: the declared structural zeros, which keep nothing.
    """

    inverse_scale: Fraction
    first: int
    least: int
    target: Fraction | None
    impossible: ImpossibleCells

    def next(self, table: SparseTable) -> int:
        """Return the threshold to which the table must be drawn, or the present one if that is far enough.

        Privacy: post-processing of what is drawn.
        """
        if self.target is None:
            return table.threshold
        excess = laplace_excess(self.inverse_scale)
        return next_threshold(
            self.possible(table), self.target, excess=excess, least_threshold=min(self.least, table.threshold)
        )

    def possible(self, table: SparseTable) -> SparseTable:
        """Return the table without the structural zeros."""
        if not self.impossible.some:
            return table
        # A structural zero is known to be 0: noise above the threshold there keeps nothing of the total.
        kept = ~self.impossible.among(table.codes)
        return SparseTable(table.codes[kept], table.values[kept], table.threshold, table.cells)

    def follow(self, table: SparseTable) -> int:
        """Return the threshold at which a draw of this table would have ended; below the table's, where it goes on.

        Args:
            table: a table that was drawn to its end.
        """
        threshold = self.first
        while threshold > table.threshold:
            # What was visible when this threshold was reached: every cell at or above it, and no other.
            seen = table.values >= threshold
            drawn = SparseTable(table.codes[seen], table.values[seen], threshold, table.cells)
            if (wanted := self.next(drawn)) == threshold:
                return threshold
            threshold = wanted
        return threshold if threshold < table.threshold else self.next(table)


def depth_of(
    terms: Refine, *, cells: int, inverse_scale: Fraction, total: int | None, impossible: ImpossibleCells
) -> Depth:
    """Return how far down a table must be drawn for its refinement.

    `lambda: auto` compares all lambda from 0 on; 0 keeps the largest sum, gamma * total with gamma = 1 - lambda, and
    so needs the lowest threshold.

    Args:
        terms: the refinement: none, simplex, or negative_l2 with a number or auto.
        cells: size of the declared domain.
        inverse_scale: of the noise [1 / unit].
        total: sum to reach, noisy or declared public; None only with method "none" [units].
        impossible: the declared structural zeros.
    Raises:
        ValueError: no total where the method needs one.
    Privacy: computed from public parameters and a released total.
    """
    first = default_threshold(cells, inverse_scale, false_hits=FALSE_HITS)
    least = default_threshold(cells, inverse_scale, false_hits=MOST_FALSE_HITS)
    if terms.method == "none":
        return Depth(inverse_scale, first, least, None, impossible)
    if total is None:
        raise ValueError(f"method {terms.method!r} needs a total")
    gamma = 1.0 - float(terms.lambda_) if isinstance(terms.lambda_, Decimal) else 1.0
    return Depth(inverse_scale, first, least, Fraction(gamma) * max(total, 0), impossible)


def expected_false_hits(cells: int, inverse_scale: Fraction, threshold: int) -> float:
    """Return how many empty cells are expected at or above a threshold: cells r^tau / (1 + r), r = e^-t."""
    t = float(inverse_scale)
    return cells * float(np.exp(-t * threshold) / (1 + np.exp(-t)))
