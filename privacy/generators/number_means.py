"""The mean of a column from its noisy sums and its noisy tree of counts together: post-processing.

Where, in widths of the lattice:
    S, n        the sum of the offsets, and the number of rows with a value
    above       S + noise, and below = n - S + noise, both of variance s
    tree        leaves that are fitted to all levels, of covariance v C: they say n, and S as far as each row lies in
                the middle of its leaf. No row is farther from it than half a leaf. A third of the square of that, for
                all rows together, counts as variance

Least squares on the four numbers gives S and n, and the mean is S / n.

Source: Aitken 1936 (generalised least squares).
"""

from __future__ import annotations

import numpy as np

from contracts.domains.value_bins import BinTree
from privacy.generators.bin_weights import leaf_covariance, leaf_estimates
from privacy.grant.measurement import CellSumMeasurement

_SAYS = np.array([[1.0, 0.0], [-1.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
"""What above, below, and the tree's two numbers are of S and n."""


def mean_offset(tree: BinTree, counts: CellSumMeasurement, total: CellSumMeasurement) -> float | None:
    """Return the mean offset of a column; None where the noisy numbers say of no row [steps].

    Args:
        tree: its leaves.
        counts: of the tree.
        total: the sums of its steps above the lower and below the upper bound.
    Privacy: post-processing.
    """
    width = tree.lattice.width
    starts = np.array([*tree.cuts, width + 1], dtype=np.float64)
    # From its first to its last offset: a leaf of one value has no half.
    middles, halves = (starts[:-1] + starts[1:] - 1) / (2 * width), (np.diff(starts) - 1) / (2 * width)
    rows = leaf_estimates(counts.values, tree, counts.variance)
    weights = np.stack([middles, np.ones(tree.leaves)])
    of_tree = counts.variance * leaf_covariance(tree, weights)
    of_tree[0, 0] += float(np.maximum(rows, 0.0) @ halves) ** 2 / 3
    of_sums = np.eye(2) * total.variance / width**2
    precision = np.zeros((4, 4))
    precision[:2, :2], precision[2:, 2:] = np.linalg.inv(of_sums), np.linalg.inv(of_tree)
    numbers = np.append(total.values[:2] / width, weights @ rows)
    summed, valued = np.linalg.solve(_SAYS.T @ precision @ _SAYS, _SAYS.T @ precision @ numbers)
    return width * float(min(1.0, max(0.0, summed / valued))) if valued > 0 else None
