"""How much every pair of columns tells about each other, and how well made-up rows keep it."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from privacy.evaluation.cells import EncodedRows, check_comparable


def mutual_information(rows: EncodedRows) -> NDArray[np.float64]:
    """Compute the mutual information of all pairs of columns.

    Formula:  I(X, Y) = sum P(x, y) log(P(x, y) / (P(x) P(y))), natural logarithm.

    Args:
        rows: at least one row.
    Returns:
        A symmetric matrix, shape (columns, columns) [nats]; the entropies of the columns stand in its diagonal.
    Raises:
        ValueError: there are no rows.
    Source: Miura et al. 2025, section 3.2.
    """
    if not len(rows.codes):
        raise ValueError("there must be at least one row")
    width = len(rows.columns)
    found = np.diag([_entropy(rows, (place,)) for place in range(width)])
    for left, right in combinations(range(width), 2):
        shared = found[left, left] + found[right, right] - _entropy(rows, (left, right))
        found[left, right] = found[right, left] = max(shared, 0.0)
    return found


def mutual_information_errors(real: EncodedRows, synthetic: EncodedRows) -> dict[tuple[int, int], float]:
    """Return the absolute difference of mutual information of each pair of columns, by place [nats].

    Raises:
        ValueError: the tables do not have the same columns, fewer than two of them, or no rows.
    """
    check_comparable(real, synthetic)
    width = len(real.columns)
    if width < 2:
        raise ValueError("there must be at least two columns")
    found = np.abs(mutual_information(real) - mutual_information(synthetic))
    return {(left, right): float(found[left, right]) for left, right in combinations(range(width), 2)}


def mutual_information_error(real: EncodedRows, synthetic: EncodedRows) -> float:
    """Return the mean absolute difference of mutual information over all pairs of columns [nats].

    Raises:
        ValueError: as `mutual_information_errors`.
    Source: Miura et al. 2025, figure 8.
    """
    return float(np.mean(list(mutual_information_errors(real, synthetic).values())))


def _entropy(rows: EncodedRows, clique: tuple[int, ...]) -> float:
    """Compute the entropy of a marginal [nats]."""
    _, counts = np.unique(rows.numbers(clique), return_counts=True)
    shares = counts / len(rows.codes)
    return float(-(shares * np.log(shares)).sum())
