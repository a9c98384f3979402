"""The α-way error: how far the tables of made-up rows are from those of the real ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

import numpy as np
from numpy.typing import NDArray

from privacy.evaluation.cells import EncodedRows, check_comparable

AxisNumbers = tuple[int, ...]


@dataclass(frozen=True)
class WorkloadError:
    """Distances of all marginals of a workload.

    Args:
        cliques: places of the columns of each marginal.
        distances: L1 distance of the raw counts over the number of real rows (or of shares), one a marginal.
    """

    cliques: tuple[AxisNumbers, ...]
    distances: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean distance."""
        return float(np.mean(self.distances))


def alpha_way_error(real: EncodedRows, synthetic: EncodedRows, *, alpha: int, shares: bool = False) -> WorkloadError:
    """Measure the error over all marginals of `alpha` columns.

    Formula:  L(D, D') = 1/(k |D|) * sum over the k cliques r of |r| = alpha of ||p_r(D) - p_r(D')||_1, raw counts.
    It lies between 0 and 1 + |D'|/|D|; half of it is the total variation distance that some programs print.

    Args:
        real: the rows that are imitated, |D| of them.
        synthetic: the imitation, of any number of rows.
        alpha: columns of each marginal, from 1 to as many as there are.
        shares: compare the shares of the rows that lie in each cell, for tables of unequal size; at most 2.
    Returns:
        WorkloadError: of the class of its inputs; private when either is.
    Raises:
        ValueError: alpha is out of range, or the tables do not have the same columns.
    Source: Miura et al. 2025, definition 3.1 with all weights 1.
    """
    if not 1 <= alpha <= len(real.columns):
        raise ValueError(f"alpha must lie between 1 and {len(real.columns)}, the number of columns, not {alpha}")
    return workload_error(real, synthetic, list(combinations(range(len(real.columns)), alpha)), shares=shares)


def workload_error(
    real: EncodedRows, synthetic: EncodedRows, cliques: Sequence[AxisNumbers], *, shares: bool = False
) -> WorkloadError:
    """Measure the distances of the marginals of `cliques`; see `alpha_way_error`."""
    check_comparable(real, synthetic)
    return WorkloadError(
        tuple(cliques), tuple(_distance(real, synthetic, clique, shares=shares) for clique in cliques)
    )


def counts_error(real: Sequence[NDArray[np.int64]], synthetic: Sequence[NDArray[np.float64]]) -> float:
    """Return the mean L1 distance of marginals, over the number of real rows; for marginals out of a model.

    Args:
        real: exact counts, each marginal with the same total [rows].
        synthetic: counts of the same shapes [rows].
    """
    distances = [
        float(np.abs(exact - other).sum()) / exact.sum() for exact, other in zip(real, synthetic, strict=True)
    ]
    return float(np.mean(distances))


def _distance(real: EncodedRows, synthetic: EncodedRows, clique: AxisNumbers, *, shares: bool) -> float:
    """Compute ||p(D) - p(D')||_1 / |D| over the populated cells; of shares, || p(D)/|D| - p(D')/|D'| ||_1."""
    cells = prod(real.shape[place] for place in clique)
    ours, theirs = real.numbers(clique), synthetic.numbers(clique)
    if cells > len(ours) + len(theirs):
        _, numbers = np.unique(np.concatenate([ours, theirs]), return_inverse=True)
        ours, theirs = numbers[: len(ours)], numbers[len(ours) :]
        cells = int(numbers.max()) + 1
    counts, others = np.bincount(ours, minlength=cells), np.bincount(theirs, minlength=cells)
    if shares:
        return float(np.abs(counts / len(ours) - others / max(len(theirs), 1)).sum())
    return int(np.abs(counts - others).sum()) / len(ours)
