"""How strongly every pair of columns is associated, and how well made-up rows keep it: Cramér's V."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from privacy.evaluation.cells import EncodedRows, check_comparable

_MOST_CELLS = 10_000_000


def association(rows: EncodedRows, left: int, right: int) -> float | None:
    """Compute Cramér's V of two columns, a correlation for columns of labels, from 0 to 1.

    Formula:  V = sqrt(chi^2 / (n (min(r, c) - 1))) over the r and c labels that occur; 0 where one is alone.

    Args:
        rows: at least one row.
        left, right: places of the columns.
    Returns:
        V; None for a pair of more than 10 million cells.
    Source: Cramér 1946, Mathematical Methods of Statistics.
    """
    one, ours = np.unique(rows.codes[:, left], return_inverse=True)
    two, theirs = np.unique(rows.codes[:, right], return_inverse=True)
    least = min(len(one), len(two)) - 1
    if least == 0:
        return 0.0
    if len(one) * len(two) > _MOST_CELLS:
        return None
    counted = np.bincount(ours * len(two) + theirs, minlength=len(one) * len(two)).reshape(len(one), len(two))
    counts: NDArray[np.float64] = counted.astype(np.float64)
    number = counts.sum()
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / number
    return float(np.sqrt(np.sum((counts - expected) ** 2 / expected) / (number * least)))


def association_errors(real: EncodedRows, synthetic: EncodedRows) -> dict[tuple[int, int], float]:
    """Return the absolute difference of Cramér's V of each pair of columns, by place.

    Raises:
        ValueError: the tables do not have the same columns, or no rows.
    """
    check_comparable(real, synthetic)
    if not len(synthetic.codes):
        raise ValueError("there must be at least one made-up row")
    found = {}
    for left, right in combinations(range(len(real.columns)), 2):
        ours, theirs = association(real, left, right), association(synthetic, left, right)
        if ours is not None and theirs is not None:
            found[left, right] = abs(ours - theirs)
    return found
